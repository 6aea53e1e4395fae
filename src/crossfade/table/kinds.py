"""Which kind a column has: declared by the user, or read off its cells.

Which kind a column gets
------------------------
===========================================  ====================================================
cells                                        kind
===========================================  ====================================================
booleans                                     boolean
text, categorical types                      categorical, the categories that occur in ascending
                                             order
floats, decimals                             continuous; always, in a NumPy array of floats
integers, 0 and 1 only                       boolean
integers, the smallest 0, the largest at     count: what a Poisson variable looks like
most 100, whose variance is 0.5 to 1.5
times their mean
other integers                               continuous
no cell at all, no type                      continuous
===========================================  ====================================================

A pandas (or object) column of floats that has missing cells and otherwise holds whole numbers
counts as one of integers, since pandas keeps integers with gaps that way. Integers that never are
0 (grades from 1 to 3, years) or vary much less than a Poisson variable are better served by a
Gaussian, whose variance is free. Mean and variance are weighted where there are weights, and rows
of weight 0 are not looked at, so that weights and repeated rows give one schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import show
from crossfade.blocks import block_sum
from crossfade.errors import DataError
from crossfade.table.columns import Columns

__all__ = ["Kind", "column_index", "declared_kinds", "detect_kinds", "listed"]

Kind = Literal["continuous", "count", "boolean", "categorical"]

_KINDS: tuple[Kind, ...] = ("continuous", "count", "boolean", "categorical")

#: Integers above this are continuous: a Poisson variable of large mean is Gaussian enough.
LARGEST_COUNT = 100

#: Bounds on variance / mean of a count; a Poisson variable has 1.
_DISPERSION = (0.5, 1.5)


def declared_kinds(columns: Columns, declared: Mapping[Any, str] | str | None) -> list[Kind | None]:
    kinds: list[Kind | None] = [None] * len(columns.names)
    if declared is None:
        return kinds
    if isinstance(declared, str):
        declared = dict.fromkeys(range(len(kinds)), declared)
    for key, kind in declared.items():
        if kind not in _KINDS:
            raise DataError(
                f"declared: expected one of {', '.join(_KINDS)} for column {show(key)}, "
                f"got {kind!r}; leave the column out to have its kind detected"
            )
        kinds[column_index(columns.names, columns.has_names, key)] = kind
    return kinds


def column_index(names: Sequence[str], has_names: bool, key: Any) -> int:
    """Return the position of a column given by name or by index."""
    if isinstance(key, str):
        if has_names and key in names:
            return names.index(key)
        near = difflib.get_close_matches(key, names, n=3) if has_names else []
        remedy = (
            f"did you mean {' or '.join(show(name) for name in near)}?"
            if near
            else (
                f"the columns are {listed(names)}" if has_names else "X has no names, use an index"
            )
        )
        raise DataError(f"declared: expected a column of X, got {show(key)}; {remedy}")
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < len(names):
        return int(key)
    raise DataError(
        f"declared: expected a column name or an index from 0 to {len(names) - 1}, got {show(key)}"
        "; count columns from 0"
    )


def listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(show(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def detect_kinds(
    columns: Columns, kinds: list[Kind | None], sample_weight: NDArray[np.float64] | None
) -> None:
    """Fill in the kinds that were not declared."""
    matrix = columns.matrix
    if matrix is not None and matrix.dtype.kind != "b":
        undecided = [index for index, kind in enumerate(kinds) if kind is None]
        found = (
            _integer_kinds(matrix, sample_weight)
            if undecided and matrix.dtype.kind in "iu"
            else ["continuous"] * len(kinds)
        )
        for index in undecided:
            kinds[index] = found[index]  # type: ignore[call-overload]
        return
    for index, column in enumerate(columns.columns):
        if kinds[index] is not None:
            continue
        if column.storage == "category":
            kinds[index] = "categorical"
        elif column.storage == "boolean":
            kinds[index] = "boolean"
        elif column.storage == "integer":
            assert column.numbers is not None
            kinds[index] = _integer_kinds(column.numbers[:, None], sample_weight)[0]
        else:
            kinds[index] = "continuous"


def _integer_kinds(values: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> list[Kind]:
    """Return the kind of each column of integers (NaN: missing) by the rules of this module."""
    kinds: list[Kind] = ["continuous"] * values.shape[1]
    if sample_weight is not None:
        keep = sample_weight > 0
        values, sample_weight = values[keep], sample_weight[keep]
    if not len(values):
        return kinds
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    boolean = (low >= 0) & (high <= 1)
    small = np.flatnonzero((low == 0) & (high <= LARGEST_COUNT) & ~boolean)
    mean, variance = _moments(values, small, sample_weight)
    dispersed = (_DISPERSION[0] * mean <= variance) & (variance <= _DISPERSION[1] * mean)
    for index in np.flatnonzero(boolean).tolist():
        kinds[index] = "boolean"
    for index in small[dispersed].tolist():
        kinds[index] = "count"
    return kinds


def _moments(
    values: NDArray[Any], selected: NDArray[np.intp], weights: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weighted mean and (maximum-likelihood) variance of some columns of small integers."""

    def sums(rows: slice) -> NDArray[np.float64]:
        block = values[rows][:, selected].astype(np.float64)
        weight = np.ones(len(block)) if weights is None else weights[rows]
        present = np.isfinite(block)
        block[~present] = 0.0
        # Small whole numbers: with whole weights these sums are exact.
        return np.stack([weight @ present, weight @ block, weight @ (block * block)])

    total, first, second = block_sum(sums, len(values))
    mean = first / total
    return mean, second / total - mean * mean
