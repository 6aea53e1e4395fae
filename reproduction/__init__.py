"""The published experiments, each a file that names its paper, its table or figure.

``python -m reproduction NAME`` runs one; :func:`experiment` gives it to a program.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Final

from crossfade.errors import DataError
from reproduction.base import Experiment, Outcome, Section, Settings

__all__ = ["Experiment", "Outcome", "Section", "Settings", "experiment", "names"]

#: Modules of this package with an ``EXPERIMENT``, by its name, in the order they are listed.
_MODULES: Final = {
    "bouchard-triggs-table": "bouchard_triggs_table",
    "bouchard-triggs-figure": "bouchard_triggs_figure",
    "ng-jordan": "ng_jordan",
    "regimes": "regimes",
    "efficiency": "efficiency",
}


def names() -> tuple[str, ...]:
    """Return the names of the experiments."""
    return tuple(_MODULES)


def experiment(name: str) -> Experiment:
    """Return an experiment by name."""
    if name not in _MODULES:
        near = difflib.get_close_matches(name.lower(), _MODULES, n=2, cutoff=0.5)
        remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else "see --list"
        raise DataError(f"name: expected one of {', '.join(_MODULES)}, got {name!r}; {remedy}")
    found: Experiment = import_module(f"{__name__}.{_MODULES[name]}").EXPERIMENT
    return found
