"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import crossfade
from tests.conftest import ROOT
from tests.test_layers import imports, modules
from tools import release

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


def test_the_conda_recipe_asks_for_what_pip_installs():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("\ntest:")[0]
    wanted = {line.replace(" ", "") for line in re.findall(r"(?m)^    - (.+)$", run)}
    cli = PROJECT["optional-dependencies"]["cli"]
    python = f"python{PROJECT['requires-python']}"
    assert wanted == {python, *PROJECT["dependencies"], *cli}
    assert f'version = "{crossfade.__version__}"' in recipe


def test_a_release_needs_its_date_its_tag_and_its_citation():
    ready = (
        "1.2.0",
        "# Change log\n\n## 1.2.0 (2030-01-31)\n",
        "a: b\nversion: 1.2.0\n",
        ["v1.2.0"],
    )
    assert release.faults(*ready) == []
    for place, spoilt in enumerate(("1.2.1", "## 1.2.0 (not yet released)\n", "version: 1\n", [])):
        changed = (*ready[:place], spoilt, *ready[place + 1 :])
        assert release.faults(*changed), place
