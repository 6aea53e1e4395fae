"""The one pattern for compiled code: lazy, beside its twin, and whole without a working cache."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

from crossfade._compiled import Kernel, kernel
from crossfade.rowwise import softmax

SOURCE = """
def total(X):
    result = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            result += X[i, j]
    return result
"""


def total_from(path: Path) -> Kernel:
    """Return a kernel whose source is this file."""
    module = sys.modules["elsewhere"] = types.ModuleType("elsewhere")  # as if imported
    exec(compile(SOURCE, str(path), "exec"), module.__dict__)
    return kernel("M", twin=lambda X: -1.0)(module.total)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a source file whose machine code is in the cache beside it."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    source = tmp_path / "source.py"
    source.write_text(SOURCE)
    assert total_from(source)(np.ones((2, 3))) == 6.0
    return source


def compilations(loop: Kernel) -> tuple[int, int]:
    """Return how often a kernel was read from its cache and how often it was compiled."""
    (code,) = loop._code.values()
    stats = code.stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def test_a_second_process_reads_the_cache(cached: Path):
    again = total_from(cached)
    assert again(np.ones((2, 3))) == 6.0
    assert compilations(again) == (1, 0)


DAMAGES = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:-700] + bytes([data[-700] ^ 4]) + data[-699:],
    "zeros": lambda data: bytes(len(data)),
    "another's": lambda data: pickle.dumps("0") + pickle.dumps(["nonsense"]),
}


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_file_is_written_anew(cached: Path, kind: str, damage: str):
    (file,) = cached.parent.rglob(f"*.{kind}")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    first, second = total_from(cached), total_from(cached)
    assert first(np.ones((2, 3))) == 6.0
    assert second(np.ones((2, 3))) == 6.0
    assert compilations(second) == (1, 0)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write to")
def test_without_a_place_for_the_cache_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, "/proc/none")
    loop = total_from(Path("/proc/self/status"))
    with pytest.raises(RuntimeError, match="no locator available"):
        njit(cache=True)(loop.py_func)
    assert loop(np.ones((2, 3))) == 6.0


def test_a_disk_that_is_full_does_not_end_a_call(cached: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    for file in cached.parent.rglob("*.nb?"):
        file.unlink()
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", full)
    assert total_from(cached)(np.ones((2, 3))) == 6.0


def test_importing_a_kernel_loads_no_compiler():
    code = (
        "import sys, numpy; from crossfade.rowwise import softmax; "
        "softmax(numpy.zeros((3, 2)), numpy.empty(3), False); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_no_two_kernels_have_one_name():
    # Machine code of one name from the caches of two processes would be taken for each other.
    code = (
        "import gc, pkgutil, importlib, crossfade\n"
        "for module in pkgutil.walk_packages(crossfade.__path__, 'crossfade.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "from crossfade._compiled import Kernel\n"
        "loops = [one.py_func for one in gc.get_objects() if type(one) is Kernel]\n"
        "names = [f'{loop.__module__}.{loop.__qualname__}' for loop in loops]\n"
        "print(len(names), *{name for name in names if names.count(name) > 1})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number, *twice = done.stdout.split()
    assert int(number) > 50
    assert not twice


#: Kernels that a first fit may compile, each some .2 s where the cache is empty.
FIRST_FITS = {
    "NaiveBayes().fit(X[:200], y[:200])": 0,
    "NaiveBayes().fit(X, y)": 10,
    "HiddenMarkovModel(emission='gaussian', tradeoff=1).fit([X], [y])": 1,
    "HiddenMarkovModel(emission='gaussian', tradeoff=0.5).fit([X], [y])": 3,
}


@pytest.mark.parametrize("fit", FIRST_FITS)
def test_a_first_fit_compiles_few_kernels(fit):
    code = (
        "import numpy as np; from crossfade import HiddenMarkovModel, NaiveBayes, _compiled\n"
        "found, whole = [], _compiled.Kernel._compile\n"
        "_compiled.Kernel._compile = lambda self, i: (found.append(self), whole(self, i))[1]\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.normal(size=(5_000, 4)), rng.integers(2, size=5_000)\n"
        f"{fit}; print(len(found), *sorted(one.py_func.__name__ for one in found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[0]) <= FIRST_FITS[fit], done.stdout


def test_only_the_signature_that_is_called_is_compiled():
    loop = kernel("M M!", "M4 M4!", twin=lambda X, out: None)(copied)
    out = np.zeros((2, 2), dtype=np.float32)
    loop(np.ones((2, 2)), out)  # the array that is read is converted
    assert_allclose(out, 1.0)
    assert list(loop._code) == [1]


def test_arrays_that_are_read_may_lie_anywhere_in_memory_and_others_go_to_the_twin():
    seen = []
    loop = kernel("M M!", twin=lambda X, out: seen.append(X))(copied)
    X = np.arange(12.0).reshape(3, 4)
    X.setflags(write=False)
    for given in (X, np.asfortranarray(X), X[::-1, ::2], X.astype(np.int32), X.astype(np.float32)):
        out = np.zeros(given.shape)
        loop(given, out)
        assert_allclose(out, given)
    assert len(next(iter(loop._code.values())).signatures) == 1
    assert not seen
    loop(X, np.zeros((4, 3)).T)
    assert len(seen) == 1


def test_a_kernel_that_is_not_worth_it_runs_its_twin():
    loop = kernel("M", twin=lambda X: "twin", when=lambda X: len(X) >= 5)(len)
    assert loop(np.ones((4, 1))) == "twin"
    assert not loop._code


def test_kernels_call_each_other():
    outer = kernel()(lambda x: twice(x) + 1.0)
    assert outer(3.0) == 7.0


def test_a_kernel_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(softmax)) is softmax


def copied(X, out):
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = X[i, j]


@kernel()
def twice(x):
    return 2.0 * x
