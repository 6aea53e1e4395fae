"""What the documentation shows is what happens, and what is public is in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import crossfade
from crossfade import NaiveBayes, errors
from crossfade.tradeoff.grid import TRADEOFFS
from tests.conftest import ROOT
from tools.render_examples import failures, render

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDE = ROOT / "docs" / "guide" / "add_a_density.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.usefixtures("whole_choice")
def test_examples_do_what_is_written(page: Path):
    said = failures(page)
    assert not said, said


def test_every_page_can_be_reached_from_the_first():
    docs = ROOT / "docs"
    reached, left = set(), [docs / "index.md"]
    while left:
        page = left.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\(([\w/.-]+\.md)", page.read_text(encoding="utf-8"))
            left += [(page.parent / link).resolve() for link in links]
    assert {page for page in reached if page.is_relative_to(docs)} == set(docs.rglob("*.md"))
    first = (docs / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M)
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))
    at_once = {name for name in named if not name.startswith("experiments/")}
    assert not [
        name for name in at_once - {"index.md", "glm_least_squares.md"} if f"({name})" not in first
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_formula_is_converted(page: Path, monkeypatch):
    # The converter is an extra's; what it is given is told here, in brackets.
    said = SimpleNamespace(convert=lambda formula, display="inline": f"[{display}]")
    monkeypatch.setitem(sys.modules, "latex2mathml", SimpleNamespace(converter=said))
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", said)
    at = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(at)
    at.loader.exec_module(hooks)
    assert hooks.on_page_markdown("$$a$$\n\n$$\nb\n$$\n`$c$`, $d$").count("[block]") == 2
    assert hooks.on_page_markdown("$d$") == "<span>[inline]</span>"
    prose = re.sub(r"(?ms)^```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"))
    left = re.findall(r"\$\$|\\[a-z]+", hooks.on_page_markdown(prose))
    assert not left


def test_a_changed_example_is_seen(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```python\na = 2\n```\nthen\n```pycon\n>>> a + 1\n4\n```\n", encoding="utf-8")
    assert "Expected:\n    4\nGot:\n    3" in failures(page)
    page.write_text(render(page), encoding="utf-8")
    assert ">>> a + 1\n3\n```" in page.read_text(encoding="utf-8")
    assert not failures(page)


def test_what_a_page_sets_does_not_reach_the_next(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport polars as pl\npl.Config(tbl_rows=3)\n```\n", encoding="utf-8"
    )
    before = pl.Config.state()
    assert not failures(page)
    assert pl.Config.state() == before


def test_commands_are_run_and_their_output_written(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\nold\n$ echo two\n```\n", encoding="utf-8")
    assert render(page) == "```console\n$ echo one\none\n$ echo two\ntwo\n```\n"


@pytest.mark.parametrize("name", sorted(set(crossfade.__all__) - set(errors.__all__)))
def test_public_names_are_documented(name: str):
    # In README's table, and with their docstring in the reference.
    assert re.search(rf"`{name}\b", (ROOT / "README.md").read_text(encoding="utf-8"))
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    # Those of crossfade.glm stand with the rest of that package.
    home = crossfade._HOMES[name].replace("crossfade.glm.", "crossfade.glm:").partition(":")[0]
    assert f"::: {home}.{name}\n" in reference


@pytest.mark.parametrize("package", ["chains", "glm", "io", "tagging", "theory"])
def test_names_of_packages_are_documented(package: str):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert f"`crossfade.{package}`" in readme
    for name in importlib.import_module(f"crossfade.{package}").__all__:
        assert f"::: crossfade.{package}.{name}\n" in reference


#: Packages whose classes and functions are all public.
PUBLIC = ["chains", "crf", "densities", "glm", "inference", "io", "tagging", "theory"]
#: What public functions return or take, of packages that are not public as a whole.
BESIDE = {"Crossing", "Extrapolation", "ModelResult", "default_models", "threads"}
REFERENCE = re.findall(r"(?m)^::: ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text("utf-8"))


def test_the_reference_lists_every_public_name_once_and_no_other():
    packages = [crossfade, *(importlib.import_module(f"crossfade.{name}") for name in PUBLIC)]
    public = {
        name
        for package in packages
        for name in package.__all__
        if callable(getattr(package, name)) and name not in errors.__all__
    }
    listed = sorted(name.rpartition(".")[2] for name in REFERENCE)
    assert listed == sorted(public | BESIDE | {"errors"})


@pytest.mark.parametrize("name", sorted(set(REFERENCE) - {"crossfade.errors"}))
def test_every_name_of_the_reference_has_an_example(name: str):
    home, _, last = name.rpartition(".")
    assert ">>> " in inspect.getdoc(getattr(importlib.import_module(home), last))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_that_a_page_mentions_can_be_imported(page: Path):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?m)(?:^::: |`)(crossfade(?:\.\w+)+)", text)) - {"crossfade.json"}
    for statement in re.findall(r"(?m)^(?:>>> )?from (crossfade[\w.]*) import ([\w, ]+)$", text):
        named |= {f"{statement[0]}.{name.strip()}" for name in statement[1].split(",")}
    assert [name for name in sorted(named) if not _is_there(name)] == []


def _is_there(dotted: str) -> bool:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_make_targets_named_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"


def test_every_dependency_is_pinned_by_version_alone():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", pin) for pin in pins)
    pinned = {_normal(pin.split("==")[0]) for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # JAX, which one rival in the benchmarks brings, is nobody's to pin.
    extras = {k: v for k, v in project["optional-dependencies"].items() if k != "bench-jax"}
    wanted = [*project["dependencies"], *(name for extra in extras.values() for name in extra)]
    names = {_normal(re.match(r"[A-Za-z0-9._-]+", name)[0]) for name in wanted} - {"crossfade"}
    assert names <= pinned


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- the guide's own density -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def geometric() -> Any:
    """The class that the guide defines, and nothing else of the guide."""
    names: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1], names)
    return names["Geometric"]


@pytest.fixture(scope="module")
def counts() -> tuple[np.ndarray, np.ndarray]:
    """Counts of three columns, two classes, some cells missing."""
    rng = np.random.default_rng(3)
    y = rng.integers(2, size=400)
    X = rng.geometric(np.array([[0.5, 0.2, 0.4], [0.3, 0.3, 0.4]])[y]) - 1.0
    return X, y


def test_an_own_density_takes_forty_lines():
    code = re.search(r"(class Geometric.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len(code.strip().splitlines()) <= 40


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_an_own_density_is_fitted_at_every_tradeoff(geometric, counts, unchanged, tradeoff):
    X, y = unchanged(*counts)
    model = NaiveBayes(geometric(), tradeoff=tradeoff).fit(X, y)
    assert model.solution_.converged
    assert model.solution_.gradient_norm <= 1e-8


def test_the_generative_fit_of_an_own_density_is_its_closed_form(geometric, counts):
    X, y = counts
    model = NaiveBayes(geometric(), tradeoff=1.0).fit(X, y)
    for label in (0, 1):
        mean = (1 + X[y == label].sum(axis=0)) / (1 + (y == label).sum())
        expected = np.log(mean / (1 + mean))
        np.testing.assert_allclose(model.parameters_.natural[label], expected, rtol=1e-12)


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_weights_of_an_own_density_are_repetitions(geometric, counts, tradeoff):
    X, y = counts
    weights = np.arange(y.size) % 3 + 1
    weighted = NaiveBayes(geometric(), tradeoff=tradeoff).fit(X, y, sample_weight=weights)
    repeated = NaiveBayes(geometric(), tradeoff=tradeoff).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_missing_cells_of_an_own_density_leave_the_input_alone(
    geometric, counts, unchanged, tradeoff
):
    # T(x) = x is returned as a view of the data; nothing may be written through it.
    X = counts[0].copy()
    X[::7, 0] = np.nan
    X, y = unchanged(X, counts[1])
    model = NaiveBayes(geometric(), tradeoff=tradeoff)
    model.fit(X, y)
    assert model.tradeoff_ == tradeoff
    assert np.isfinite(model.predict_proba(X)).all()
