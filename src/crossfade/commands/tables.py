"""Opening the table that a command was given: a file, or a bundled data set by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from crossfade import datasets
from crossfade._checks import did_you_mean, listed
from crossfade.comparison.problem import left_out
from crossfade.errors import DataError
from crossfade.evidence.comparison import TableOrigin

__all__ = ["OpenTable", "open_table"]


@dataclass(frozen=True)
class OpenTable(TableOrigin):
    """A table with its target taken out.

    `X` (n_rows, n_columns): The other columns.
    `y` (n_rows,): The target.
    `names`: Names of the columns.
    """

    X: Any
    y: Any
    names: tuple[str, ...]

    def named(self) -> OpenTable:
        """Return the same with columns that have names, also where a data set is an array."""
        if not isinstance(self.X, np.ndarray):
            return self
        import polars as pl

        return replace(self, X=pl.DataFrame(self.X, schema=list(self.names)))


def open_table(
    name: str,
    target: str | None = None,
    *,
    drop: Sequence[str] | None = None,
    missing: Collection[str] | None = None,
    text: Collection[str] | None = None,
    separator: str | None = None,
) -> OpenTable:
    """Open a file or a bundled data set and split off the target.

    Takes drop: columns to leave out.
    """
    data = datasets.load(
        name, target, missing_values=missing or (), text=text or (), separator=separator
    )
    label = target or "target"
    X, names = _without(data.X, data.feature_names, drop or (), label)
    notes = [*data.notes, *left_out(data.n_dropped, label)]
    if drop:
        notes.append(f"Left out as asked: {', '.join(drop)}.")
    return OpenTable(name, label, data.n_dropped, tuple(notes), X, data.y, names)


def _without(
    X: Any, names: tuple[str, ...], drop: Sequence[str], target: str
) -> tuple[Any, tuple[str, ...]]:
    """Return the table and its names without some columns."""
    for column in drop:
        if column == target:
            raise DataError(f"--drop: expected columns besides the target, got {column!r}")
        if column not in names:
            hint = did_you_mean(column, names, f"the columns are {listed(names)}")
            raise DataError(f"--drop: expected a column of the table, got {column!r}; {hint}")
    kept = tuple(name for name in names if name not in drop)
    if not kept:
        raise DataError("--drop: expected to leave at least one column, got all of them")
    if not drop:
        return X, kept
    if isinstance(X, np.ndarray):
        return X[:, [names.index(name) for name in kept]], kept
    return nw.from_native(X, eager_only=True).select(kept).to_native(), kept
