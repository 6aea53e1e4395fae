"""Which kind a column has: declared by the user, or read off its cells.

Which kind a column gets
------------------------
===========================================  ====================================================
cells                                        kind
===========================================  ====================================================
booleans                                     boolean
text of 3 or more words per cell on average,   text: its words
at least half of 5 or more cells different
text of fewer words, nearly all (95 %) of    identifier: left out
20 or more cells different, and text that is
more than 20 different dates
other text, categorical types                categorical, the categories that occur in ascending
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

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import did_you_mean, listed, show
from crossfade.blocks import block_sum
from crossfade.errors import DataError
from crossfade.table.columns import Column, Columns
from crossfade.table.text import Text, is_identifier, is_text

Kind = Literal["continuous", "count", "boolean", "categorical", "text", "identifier"]

_KINDS: tuple[Kind, ...] = ("continuous", "count", "boolean", "categorical", "text")

#: Integers above this are continuous: a Poisson variable of large mean is Gaussian enough.
LARGEST_COUNT = 100

#: Bounds on variance / mean of a count; a Poisson variable has 1.
_DISPERSION = (0.5, 1.5)


def declared_kinds(
    columns: Columns, declared: Mapping[Any, str | Text] | str | Text | None
) -> list[Kind | None]:
    kinds: list[Kind | None] = [None] * len(columns.names)
    if declared is None:
        return kinds
    if isinstance(declared, (str, Text)):
        declared = dict.fromkeys(range(len(kinds)), declared)
    for key, given in declared.items():
        kind: Any = "text" if isinstance(given, Text) else given
        if kind not in (*_KINDS, "identifier"):
            raise DataError(
                f"density: expected one of {', '.join(_KINDS)} for column {show(key)}, "
                f"got {kind!r}; leave the column out to have its kind detected"
            )
        kinds[column_index(columns.names, columns.has_names, key)] = kind
    return kinds


def column_index(
    names: Sequence[str], has_names: bool, key: Any, parameter: str = "density"
) -> int:
    """Return the position of a column given by name or by index."""
    if isinstance(key, str):
        if has_names and key in names:
            return names.index(key)
        remedy = "X has no names, use an index"
        if has_names:
            remedy = did_you_mean(key, names, f"the columns are {listed(names)}")
        raise DataError(f"{parameter}: expected a column of X, got {show(key)}; {remedy}")
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < len(names):
        return int(key)
    raise DataError(
        f"{parameter}: expected a column name or an index from 0 to {len(names) - 1}, got "
        f"{show(key)}; count columns from 0"
    )


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
            values, codes = column.factorised
            present = codes >= 0
            n_cells = present.sum() if sample_weight is None else sample_weight[present].sum()
            kinds[index] = kind_of_words(values, float(n_cells))
        elif column.storage == "boolean":
            kinds[index] = "boolean"
        elif column.storage == "integer":
            assert column.numbers is not None
            kinds[index] = _integer_kinds(column.numbers[:, None], sample_weight)[0]
        else:
            kinds[index] = "continuous"


def kind_of_words(values: Sequence[Any], n_cells: float) -> Kind:
    """Return the kind of a column of text with these different values in so many cells."""
    if is_text(values, n_cells):
        return "text"
    return "identifier" if is_identifier(values, n_cells) else "categorical"


def _integer_kinds(values: NDArray[Any], sample_weight: NDArray[np.float64] | None) -> list[Kind]:
    """Return the kind of each column of integers (NaN: missing) by the rules of this module."""
    if sample_weight is not None:
        keep = sample_weight > 0
        values, sample_weight = values[keep], sample_weight[keep]
    if not len(values):
        return ["continuous"] * values.shape[1]
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    undecided = (low == 0) & (high <= LARGEST_COUNT) & (high > 1)
    return _by_rules(low, high, _moments(values, undecided, sample_weight))


def _by_rules(low: NDArray[Any], high: NDArray[Any], sums: NDArray[np.float64]) -> list[Kind]:
    """Return kinds from the ranges and, for small numbers from 0 on, the sums of 1, x and x²."""
    total, first, second = sums
    mean = first / np.maximum(total, 1e-300)
    variance = second / np.maximum(total, 1e-300) - mean * mean
    count = (low == 0) & (high <= LARGEST_COUNT)
    count &= (_DISPERSION[0] * mean <= variance) & (variance <= _DISPERSION[1] * mean)
    kinds = np.where(count, "count", "continuous")
    kinds[(low >= 0) & (high <= 1)] = "boolean"
    return kinds.tolist()


def _moments(
    values: NDArray[Any], wanted: NDArray[np.bool_], weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the sums of 1, x and x², (3, n_columns), of some columns of small integers."""
    selected = np.flatnonzero(wanted)

    def sums(rows: slice) -> NDArray[np.float64]:
        block = values[rows][:, selected].astype(np.float64)
        weight = np.ones(len(block)) if weights is None else weights[rows]
        present = np.isfinite(block)
        block[~present] = 0.0
        # Small whole numbers: with whole weights these sums are exact.
        return np.stack([weight @ present, weight @ block, weight @ (block * block)])

    found = np.zeros((3, values.shape[1]))
    if selected.size:
        found[:, selected] = block_sum(sums, len(values))
    return found


# -- batches: what kinds are found by, kept as sums -----------------------------------------------

#: What the cells of a batch were: integers by type, whole floats with gaps, without, other floats.
#: And that the column's kind was given.
_INTEGERS, _WITH_GAPS, _WHOLE, _FRACTIONS, _GIVEN = 1, 2, 4, 8, 16


def seen_cells(
    columns: Columns, by_type: NDArray[np.bool_], sample_weight: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return what kinds that go by type follow from, and :func:`joined_cells` adds up.

    Shapes: by_type (n_columns,); sample_weight (n_rows,); → (6, n_columns), sums of 1, x and x²,
    least and largest value, and what the cells were.
    """
    seen = np.zeros((6, len(columns.names)))
    seen[5] = np.where(by_type, 0, _GIVEN)
    seen[3], seen[4] = np.inf, -np.inf
    if columns.are_floats:
        seen[5, by_type] = _FRACTIONS
        return seen
    keep = slice(None) if sample_weight is None else sample_weight > 0
    weights = None if sample_weight is None else sample_weight[keep]
    for index in np.flatnonzero(by_type).tolist():
        column = columns.columns[index]
        if column.numbers is None or not column.has_cells():
            continue
        values = column.numbers[keep][:, None]
        seen[5, index] = flag = _cells_of(column)
        if flag == _FRACTIONS or not len(values):
            continue
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        seen[3, index], seen[4, index] = low[0], high[0]
        small = (low >= 0) & (high <= LARGEST_COUNT)
        seen[:3, index] = _moments(values, small, weights)[:, 0]
    return seen


def _cells_of(column: Column) -> int:
    assert column.numbers is not None
    if column.numbers.dtype.kind != "f" or column.storage == "boolean":
        return _INTEGERS
    if column.storage == "integer":
        return _WITH_GAPS
    whole = column.gaps_tell and bool((column.numbers == np.floor(column.numbers)).all())
    return _WHOLE if whole else _FRACTIONS


def joined_cells(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same for the rows of both."""
    joined = one + other
    joined[3], joined[4] = np.minimum(one[3], other[3]), np.maximum(one[4], other[4])
    joined[5] = one[5].astype(np.int64) | other[5].astype(np.int64)
    return joined


def is_by_type(seen: NDArray[np.float64]) -> NDArray[np.bool_]:
    return seen[5] != _GIVEN


def kinds_of_cells(seen: NDArray[np.float64]) -> list[Kind | None]:
    """Return the kinds that one table of all these rows would have, None where no cell tells."""
    flags = seen[5].astype(np.int64)
    integers = (flags & _FRACTIONS == 0) & ((flags & _WHOLE == 0) | (flags & _WITH_GAPS > 0))
    return [
        None if flag in (0, _GIVEN) else kind if integer else "continuous"
        for flag, integer, kind in zip(
            flags.tolist(), integers.tolist(), _by_rules(seen[3], seen[4], seen[:3]), strict=True
        )
    ]
