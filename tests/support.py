"""Helpers that tests of several rooms share."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
import pytest


def same(left: Any, right: Any) -> bool:
    """Compare two objects of one kind, NaN being equal to NaN."""
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
    if hasattr(left, "equals"):  # pandas, polars, pyarrow
        return bool(left.equals(right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def covering(cases: list[tuple[Any, ...]], start: int = 0) -> list[int]:
    """Return which cases have every value of two factors, or every pair of values of more.

    Taken greedily, from `start` onwards where several bring as much that is new.
    """
    strength = 1 if len(cases[0]) < 3 else 2
    parts = [frozenset(combinations(enumerate(case), strength)) for case in cases]
    missing, chosen = set().union(*parts), []
    order = [(start + place) % len(cases) for place in range(len(cases))]
    while missing:
        chosen.append(max(order, key=lambda place: len(parts[place] & missing)))
        missing -= parts[chosen[-1]]
    return sorted(chosen)


#: What is repeated in choices and their checks: module, name, how often in tests.
REPEATED = (
    ("tradeoff.grid", "TRADEOFFS", (1.0, 0.5, 0.0)),
    ("tradeoff.grid", "PENALTIES", (1.0,)),
    ("tradeoff.out_of_fold", "_N_FOLDS", 2),
    ("tradeoff.out_of_fold", "_N_FOLDS_WIDE", 2),
    ("tradeoff.joint", "_N_FOLDS", 2),
    ("tradeoff.joint", "_N_FOLDS_WORDS", 2),
    ("tradeoff.joint", "_N_FOLDS_SLOW", 2),
    ("tradeoff.density_fit", "_N_FOLDS", 2),
    ("pools.training", "_FOLDS", 2),
    ("pools.members", "_N_TREES", 10),
    ("pools.boosting", "_N_STEPS", 10),
    ("hmm.selection", "_N_FOLDS", 2),
    ("tradeoff.density_fit", "_N_TABLES", 19),
)


@cache
def _as_shipped() -> dict[str, Any]:
    """What users have; imported when it is first asked for: xdist's first process runs no test."""
    return {
        f"crossfade.{module}.{name}": getattr(import_module(f"crossfade.{module}"), name)
        for module, name, _ in REPEATED
    }


def choose_shortly(patch: pytest.MonkeyPatch) -> None:
    """Have tradeoffs chosen among three points on two folds, and fewer trees, tables and folds."""
    for name, (*_, value) in zip(_as_shipped(), REPEATED, strict=True):
        patch.setattr(name, value)


def choose_as_shipped(patch: pytest.MonkeyPatch) -> None:
    """Have everything chosen as users have it, where :func:`choose_shortly` was called."""
    for name, value in _as_shipped().items():
        patch.setattr(name, value)
