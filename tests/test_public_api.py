"""What a person sees first: names, docstrings, and how little an import costs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import crossfade
from crossfade import errors

#: Loaded when first needed, never by ``import crossfade``: each costs a person a third of a second.
HEAVY = ["numba", "polars", "pandas", "pyarrow", "typer", "rich", "matplotlib", "formulaic"]


def public(kind: str) -> list[str]:
    """Return the public names that are classes or functions, errors left out."""
    return [
        name
        for name in crossfade.__all__
        if name not in errors.__all__
        and (inspect.isclass if kind == "class" else inspect.isfunction)(getattr(crossfade, name))
    ]


def run(code: str) -> str:
    """Run code in a fresh interpreter, warnings being errors, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    code = (
        f"import crossfade, json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    )
    assert json.loads(run(code)) == []


def test_first_use_of_a_name_is_remembered():
    code = (
        "import crossfade; first = crossfade.DataError;"
        "print('DataError' in vars(crossfade), crossfade.DataError is first)"
    )
    assert run(code) == "True True\n"


def test_every_listed_name_exists():
    missing = [name for name in crossfade.__all__ if not hasattr(crossfade, name)]
    assert not missing


def test_every_name_is_at_home_where_it_is_defined():
    for name, home in crossfade._HOMES.items():
        defined = getattr(getattr(crossfade, name), "__module__", home)
        assert defined == home, f"{name} is defined in {defined}, not in {home}"


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(crossfade.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("crossfade.")
        for alias in node.names
    }
    assert seen == crossfade._HOMES


def test_dir_lists_public_names():
    assert set(crossfade.__all__) <= set(dir(crossfade))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'crossfade' has no attribute 'NaiveBaies'$"):
        crossfade.NaiveBaies  # noqa: B018 - the access is what is tested


def test_version_is_that_of_the_distribution():
    assert crossfade.__version__ == version("crossfade")


def test_every_error_is_public():
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert defined == set(errors.__all__)
    assert defined <= set(crossfade.__all__)


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_are_documented(name: str):
    assert inspect.getdoc(getattr(errors, name))


@pytest.mark.parametrize("name", public("class") + public("function"))
def test_public_docstrings_are_complete(name: str):
    thing = getattr(crossfade, name)
    text = inspect.getdoc(thing) or ""
    assert "\nExamples\n--------\n" in text, f"{name} has no example"
    assert ">>> " in text.split("\nExamples\n--------\n")[1]
    parameters = [p for p in inspect.signature(thing).parameters if p not in {"self", "cls"}]
    if parameters:
        # A result that Crossfade makes itself may list its parameters as attributes.
        as_attributes = dataclasses.is_dataclass(thing) and "\nAttributes\n" in text
        heading = "Attributes" if as_attributes and "\nParameters\n" not in text else "Parameters"
        assert f"\n{heading}\n----------\n" in text, f"{name} lists no {heading.lower()}"
        block = text.split(f"\n{heading}\n----------\n")[1].split("\n\n\n")[0]
        # numpydoc: each is named at the left margin, alone or among others ("a, b : float").
        named = {
            part.strip().lstrip("*")
            for line in block.splitlines()
            if line and not line.startswith(" ")
            for part in line.split(" :")[0].split(",")
        }
        undocumented = [p for p in parameters if p not in named]
        assert not undocumented, f"{name} does not describe {undocumented}"


@pytest.mark.parametrize("name", public("class"))
def test_public_methods_are_documented(name: str):
    bare = [
        attribute
        for attribute, value in vars(getattr(crossfade, name)).items()
        if not attribute.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property))
        and not inspect.getdoc(getattr(getattr(crossfade, name), attribute))
    ]
    assert not bare, f"{name}: no docstring on {bare}"
