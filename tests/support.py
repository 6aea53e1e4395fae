"""Helpers that tests of several rooms share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

__all__ = ["choose_shortly", "same"]


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


def choose_shortly(patch: pytest.MonkeyPatch) -> None:
    """Have tradeoffs chosen among three points on two folds."""
    patch.setattr("crossfade.tradeoff.grid.TRADEOFFS", (1.0, 0.5, 0.0))
    patch.setattr("crossfade.tradeoff.grid.PENALTIES", (1.0,))
    for module in ("tradeoff.out_of_fold", "hmm.selection"):
        patch.setattr(f"crossfade.{module}._N_FOLDS", 2)
