"""What every test may use: real data where it lies at hand, and deterministic hypotheses."""

from __future__ import annotations

import copy
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import hypothesis
import pytest

from tests.support import choose_as_shipped, choose_shortly, covering, same

ROOT = Path(__file__).parents[1]
if (_beside := ROOT.parent / "shared" / "data").is_dir():
    os.environ.setdefault("CROSSFADE_DATA", str(_beside))

# As many tests run at once as there are cores: processes and threads within them would only fight
# over these. Tests of threads say how many they want.
os.environ.setdefault("CROSSFADE_NUM_THREADS", "1")

# No time limit: the first call of a compiled kernel compiles it. No randomness: a failure must come
# back when it is looked at. `pytest --hypothesis-profile=explore` looks further afield.
hypothesis.settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("steady")


def data_folder() -> Path | None:
    """Return the folder of real data sets: $CROSSFADE_DATA, else ../shared/data, else None."""
    from crossfade.datasets import data_directory

    return data_directory()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the collector pass by the half a million objects that imports leave, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m takes the slow ones away
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make slow those combinations of stacked parameters without which each value, or pair, occurs.

    Which these are differs from test to test, so that models meet tradeoffs somewhere.
    """
    functions: dict[str, list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, found in functions.items():
        given = [item.callspec.params for item in found]
        names = []
        for mark in found[0].iter_markers("parametrize"):
            group = argument_names(mark)
            # Of models, each with its tradeoffs, the list is a product, too.
            different = max(len({id(one[name]) for one in given}) for name in group)
            crossed = "tradeoff" in group and 2 * different <= len(mark.args[1])
            names += [[one] for one in group] if crossed else [group]
        cases = [tuple(tuple(id(one[n]) for n in group) for group in names) for one in given]
        if len(names) > 1 and len(found) > 4:
            kept = covering(cases, crc32(name.encode()) % len(found))
            for place in set(range(len(found))).difference(kept):
                found[place].add_marker(pytest.mark.slow)


def argument_names(mark: pytest.Mark) -> list[str]:
    """Return which arguments a mark 'parametrize' gives values to."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; a test that asks for it is skipped where there is none."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the real data sets are not here; set CROSSFADE_DATA to their folder")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _short_choices() -> Iterator[None]:
    """Have tradeoffs chosen among three points on two folds: the same code, a sixth of the fits."""
    with pytest.MonkeyPatch.context() as patch:
        choose_shortly(patch)
        yield


@pytest.fixture
def short_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tradeoffs chosen shortly in a module whose other tests choose as users do."""
    choose_shortly(monkeypatch)


@pytest.fixture
def whole_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tradeoffs chosen as users have it: for tests of the choice itself."""
    choose_as_shipped(monkeypatch)


@pytest.fixture
def unchanged() -> Iterator[Callable[..., Any]]:
    """Watch objects: ``X, y = unchanged(X, y)``; the test fails if one has been written to.

    Arrays, frames, dicts and lists are compared with a deep copy when the test ends.
    """
    watched: list[tuple[Any, Any]] = []

    def watch(*objects: Any) -> Any:
        watched.extend((thing, copy.deepcopy(thing)) for thing in objects)
        return objects[0] if len(objects) == 1 else objects

    yield watch
    for thing, before in watched:
        assert same(thing, before), f"an input was changed:\n{thing!r}\nwas\n{before!r}"
