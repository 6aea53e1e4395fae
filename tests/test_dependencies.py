"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

from tests.conftest import ROOT
from tests.test_layers import imports, modules

#: Distribution names that differ from the name that is imported.
IMPORTED_AS = {"scikit-learn": "sklearn", "vl-convert-python": "vl_convert"}

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def declared(*requirements: str) -> set[str]:
    """Return the import names of requirements."""
    names = {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in requirements}
    return {IMPORTED_AS.get(name, name) for name in names}


def outside(module: str, tree: ast.Module) -> set[str]:
    """Return the other distributions' packages that a module imports."""
    packages = {name.split(".")[0] for _, name in imports(module, tree)}
    return packages - set(sys.stdlib_module_names) - {"crossfade", "__future__"}


def test_every_import_is_a_declared_dependency():
    core = declared(*PROJECT["dependencies"])
    optional = declared(*(r for rs in PROJECT["optional-dependencies"].values() for r in rs))
    undeclared = {
        module: wrong
        for module, tree in modules().items()
        if (wrong := outside(module, tree) - core - optional)
    }
    assert not undeclared


def test_every_core_dependency_is_imported():
    used = {package for module, tree in modules().items() for package in outside(module, tree)}
    assert declared(*PROJECT["dependencies"]) <= used
