"""The house's one rule: imports point one way, and threads and compilers live in one place each."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import crossfade

SOURCE = Path(crossfade.__file__).parent

#: From the ground up. A module may import from its own layer and from layers below it. What is
#: listed together is one layer, but its members do not import each other unless they are the same.
LAYERS = (
    ("errors", "_names", "_typing", "_compiled", "_findings"),
    ("_checks", "_fitting", "_optional"),
    ("blocks", "files", "rowwise"),
    ("charts", "optim", "processes"),
    ("table",),
    ("chains", "densities", "inference"),
    ("tradeoff",),
    ("choice",),
    ("classifiers", "crf", "glm", "hmm", "tagging"),
    ("pools",),
    ("theory", "evaluation"),
    ("evidence", "io"),
    ("report",),
    ("datasets",),
    ("comparison",),
    ("commands",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

THREADS = {"threading", "concurrent", "threadpoolctl", "multiprocessing", "_thread"}
COMPILERS = {"numba", "llvmlite"}


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of the package by its path below src/crossfade."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def room(module: str) -> str:
    """Return the layer member a file belongs to: its folder's or its own name."""
    return Path(module).parts[0].removesuffix(".py")


@cache
def imports(module: str, tree: ast.Module) -> tuple[tuple[int, str], ...]:
    """Return (line, dotted name) of everything a module imports, at any depth, types included."""
    return tuple(_imports(module, tree))


def _imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    package = ("crossfade", *Path(module).parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*base, *filter(None, [node.module])))
            for alias in node.names:
                # `from crossfade import blocks` names a module, `… import X` a thing in one.
                yield node.lineno, f"{origin}.{alias.name}"


def upward(module: str, tree: ast.Module) -> list[str]:
    """Return the imports of a module that point up, or sideways to a neighbour."""
    here = room(module)
    found = []
    for line, name in imports(module, tree):
        parts = name.split(".")
        if parts[0] != "crossfade" or len(parts) == 1:
            continue
        there = parts[1]
        if there == here or there not in RANK:  # names of the package itself: __version__
            continue
        if RANK[there] >= RANK[here]:
            found.append(f"{module}:{line} imports {name}")
    return found


def holders(packages: set[str]) -> dict[str, list[int]]:
    """Return the modules (and lines) that import one of these outside packages."""
    found: dict[str, list[int]] = {}
    for module, tree in modules().items():
        for line, name in imports(module, tree):
            if name.split(".")[0] in packages:
                found.setdefault(module, []).append(line)
    return found


def test_every_module_has_a_layer():
    unknown = {room(module) for module in modules()} - set(RANK) - {"__init__"}
    assert not unknown, f"give these a place in LAYERS: {sorted(unknown)}"


def test_imports_point_down():
    wrong = [
        line
        for module, tree in modules().items()
        if room(module) != "__init__"
        for line in upward(module, tree)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_table_for_contributors_has_every_room_in_this_order():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("| under src/crossfade |")[1].split("\n\n")[0].splitlines()[2:]
    cells = [line.split("|")[1] for line in table]
    place = {
        name.strip(" `").removesuffix(".py").removesuffix("/"): row
        for row, cell in enumerate(cells)
        for name in cell.split(",")
    }
    assert place.keys() == RANK.keys() - {"__main__"}
    for module, tree in modules().items():
        for line, name in imports(module, tree):
            package, _, there = name.partition(".")
            there = there.partition(".")[0]
            if package == "crossfade" and room(module) in place and there in place:
                assert place[there] <= place[room(module)], f"{module}:{line} imports {name}"


def test_public_names_are_taken_from_the_package_only_outside_it():
    # `from crossfade import NaiveBayes` inside the package would hide which layer is used.
    wrong = [
        f"{module}:{line} imports {name}"
        for module, tree in modules().items()
        if room(module) != "__init__"
        for line, name in imports(module, tree)
        if name.startswith("crossfade.") and name.split(".")[1] in crossfade.__all__
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_block_layer_knows_of_threads():
    # The others share no work out: they watch for a parent's end, for signals and the clock.
    assert set(holders(THREADS)) <= {"blocks.py", "processes.py", "commands/stopping.py"}


def test_only_one_module_knows_of_the_compiler():
    # The chains' vector instructions are written in the compiler's own terms.
    later = ("chains/vector_kernels.py", "glm/kernels.py")
    wrong = [name for name in holders(COMPILERS) if name not in later]
    assert wrong == ["_compiled.py"], "use the decorator of crossfade._compiled"


#: Other packages' own, for which there is no public name.
FOREIGN = {"_replace", "_exit", "_bin_mapper", "_predictors", "_preprocess_X"}


def own_names(tree: ast.Module) -> set[str]:
    """Return what a module defines: functions, classes, fields, attributes that it sets."""
    nodes = list(ast.walk(tree))
    return {
        *(n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))),
        *(n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)),
        *(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)),
    }


def reaches(module: str, tree: ast.Module, known: set[str]) -> list[str]:
    """Return where a module reads another object's private attribute that is not among these."""
    return [
        f"{module}:{node.lineno} reads {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in known
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    ]


def test_no_room_reads_what_is_private_to_another():
    known: dict[str, set[str]] = {}
    for module, tree in modules().items():
        known.setdefault(room(module), set(FOREIGN)).update(own_names(tree))
    wrong = [
        line
        for module, tree in modules().items()
        for line in reaches(module, tree, known[room(module)])
    ]
    assert not wrong, "\n".join(wrong)


def test_a_reach_into_another_room_is_seen():
    line = "self._own = model._theirs + self._inherited + model.__dict__['_own'] + model._own"
    tree = ast.parse(line)
    assert reaches("io/onnx.py", tree, own_names(tree)) == ["io/onnx.py:1 reads model._theirs"]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("optim/newton.py", "from crossfade.classifiers.naive_bayes import NaiveBayes"),
        ("densities/base.py", "def f():\n    from crossfade import tradeoff"),
        ("blocks.py", "import crossfade.table.table"),
        ("densities/base.py", "from ..tradeoff.path import minimise"),
        ("glm/model.py", "from crossfade.hmm.model import HiddenMarkovModel"),
    ],
)
def test_an_arrow_that_turns_round_is_seen(module: str, line: str):
    assert len(upward(module, ast.parse(line))) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tradeoff/path.py", "from crossfade.densities.base import Density"),
        ("densities/base.py", "from . import univariate"),
        ("cli.py", "from crossfade import __version__"),
        ("densities/base.py", "import numpy as np"),
    ],
)
def test_an_arrow_down_is_let_through(module: str, line: str):
    assert not upward(module, ast.parse(line))


def test_no_two_classes_share_a_name():
    names = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
