"""Which kind a column has: declared by the user, or read off its cells.

Which kind a column gets
------------------------
===========================================  ====================================================
cells                                        kind
===========================================  ====================================================
booleans                                     boolean
text of 3 or more words per cell on average, text: its words
or of 1.5 most of which other cells have,
too; at least half of 5 or more cells differ
other text, nearly all (95 %) of 20 or more  identifier: left out
cells different, and text that is more than
20 different dates
other text, categorical types                categorical, the categories that occur in ascending
                                             order
integers, 0 and 1 only                       boolean
numbers of any type, exactly two different   boolean, the two values its categories (none where
ones in 20 or more cells                     they are 0 and 1)
other floats, decimals                       continuous; always, in a NumPy array of floats
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
of weight 0 are not looked at, so that weights and repeated rows give one schema. Cells are counted
by weight, too.

Two different numbers carry one bit, whatever they are: 0/1, 1/2, -1/1 and 0.0/1.0 give one model.
Of fewer than 20 cells, numbers may be two by chance (a share that is 0 or 1 so far) and stay
continuous. A third number, later, is treated as `handle_unknown` says: refused, or as a missing
cell with a :class:`~crossfade.errors.UnseenNumbersWarning`. The first of several batches
(``partial_fit``) tells less than all rows: there 0 and 1 alone are believed.
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

#: Cells from which on two different numbers are no chance.
FEWEST_OF_TWO = 20

#: Numbers beyond this are mistakes, not codes, and refused as numbers.
_LARGEST = 1e150

#: First rows that nearly always hold a third number, if there is one.
_FIRST_ROWS = 256

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


#: The two numbers of a column, by its place.
Pairs = dict[int, tuple[float, float]]


def detect_kinds(
    columns: Columns,
    kinds: list[Kind | None],
    sample_weight: NDArray[np.float64] | None,
    *,
    of_all: bool = True,
) -> Pairs:
    """Fill in the kinds that were not declared; return the two numbers of columns that have two.

    `of_all`: Whether these are all rows, not the first of several batches.
    """
    undecided = [index for index, kind in enumerate(kinds) if kind is None]
    pairs = _pairs(columns, undecided, sample_weight)
    if not of_all:
        pairs = {index: pair for index, pair in pairs.items() if pair == (0, 1)}
    for index in pairs:
        kinds[index] = "boolean"
    matrix = columns.matrix
    if matrix is not None and matrix.dtype.kind != "b":
        found = (
            _integer_kinds(matrix, sample_weight)
            if undecided and matrix.dtype.kind in "iu"
            else ["continuous"] * len(kinds)
        )
        for index in undecided:
            if index not in pairs:
                kinds[index] = found[index]  # type: ignore[call-overload]
        return pairs
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
    return pairs


def _pairs(
    columns: Columns, places: Sequence[int], sample_weight: NDArray[np.float64] | None
) -> Pairs:
    """Return the numbers of those columns that hold exactly two, in cells enough."""
    found = {}
    for index in maybe_two(columns, places, sample_weight):
        numbers = columns.columns[index].numbers
        assert numbers is not None
        low, high, cells = _two_of(numbers, sample_weight)
        if -_LARGEST < low < high < _LARGEST and cells >= FEWEST_OF_TWO:
            found[index] = (low, high)
    return found


def maybe_two(
    columns: Columns, places: Sequence[int], sample_weight: NDArray[np.float64] | None = None
) -> list[int]:
    """Return those of the columns whose first rows hold two numbers at most."""
    first: slice | NDArray[np.int64] = slice(0, _FIRST_ROWS)
    if sample_weight is not None:
        first = np.flatnonzero(sample_weight > 0)[:_FIRST_ROWS]
    if columns.are_floats and columns.arrays is None:
        assert columns.matrix is not None
        few = _are_two(columns.matrix[first])
        return [index for index in places if few[index]]
    numbers = ((index, columns.columns[index]) for index in places)
    return [
        index
        for index, one in numbers
        if one.storage in ("integer", "float")
        and one.numbers is not None
        and _are_two(one.numbers[first][:, None])[0]
    ]


def _are_two(block: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns of a block hold two different finite numbers at most."""
    if not len(block):
        return np.ones(block.shape[1], dtype=bool)
    low, high = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
    two: NDArray[np.bool_] = ((block == low) | (block == high) | np.isnan(block)).all(axis=0)
    return two & ~np.isinf(low) & ~np.isinf(high)


def _two_of(
    values: NDArray[Any], sample_weight: NDArray[np.float64] | None
) -> tuple[Any, Any, float]:
    """Return the least and the largest number, and in how many cells; inf, -inf if not two."""
    nothing = np.inf, -np.inf, 0.0
    if sample_weight is not None:
        values, sample_weight = values[sample_weight > 0], sample_weight[sample_weight > 0]
    present = ~np.isnan(values)
    if not present.any() or not _are_two(values[:, None])[0]:
        return nothing
    low, high = np.fmin.reduce(values).item(), np.fmax.reduce(values).item()
    return low, high, float(present.sum() if sample_weight is None else sample_weight @ present)


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

    Shapes: by_type (n_columns,); sample_weight (n_rows,); → (7, n_columns), sums of 1, x and x²,
    least and largest value, what the cells were, and whether there are more than two numbers.
    """
    seen = np.zeros((7, len(columns.names)))
    seen[5] = np.where(by_type, 0, _GIVEN)
    seen[3], seen[4] = np.inf, -np.inf
    own = np.flatnonzero(by_type).tolist()
    two = maybe_two(columns, own, sample_weight)
    seen[6, own] = 1.0
    if columns.are_floats:
        seen[5, own] = _FRACTIONS
    keep = slice(None) if sample_weight is None else sample_weight > 0
    weights = None if sample_weight is None else sample_weight[keep]
    for index in two if columns.are_floats else own:
        column = columns.columns[index]
        if column.numbers is None or not column.has_cells():
            seen[6, index] = 0.0
            continue
        values = column.numbers[keep]
        flag = _FRACTIONS if columns.are_floats else _cells_of(column)
        seen[5, index] = flag
        if index in two:
            low, high, cells = _two_of(values, weights)
            present = bool((~np.isnan(values)).any())
            seen[6, index] = present and not cells
            seen[0, index], seen[3, index], seen[4, index] = cells, low, high
        if flag == _FRACTIONS or not len(values):
            continue
        block = values[:, None]
        low, high = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
        seen[3, index], seen[4, index] = low[0], high[0]
        small = (low >= 0) & (high <= LARGEST_COUNT)
        if small[0]:
            seen[:3, index] = _moments(block, small, weights)[:, 0]
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
    joined[3], joined[4] = np.fmin(one[3], other[3]), np.fmax(one[4], other[4])
    joined[5] = one[5].astype(np.int64) | other[5].astype(np.int64)
    joined[6] = (one[6] > 0) | (other[6] > 0)
    for part in (one, other):
        for value in part[3:5]:
            third = np.isfinite(value) & (value != joined[3]) & (value != joined[4])
            joined[6] = np.where(third, 1.0, joined[6])
    return joined


def is_by_type(seen: NDArray[np.float64]) -> NDArray[np.bool_]:
    return seen[5] != _GIVEN


def kinds_of_cells(seen: NDArray[np.float64]) -> tuple[list[Kind | None], Pairs]:
    """Return the kinds that one table of all these rows would have, None where no cell tells.

    And the two numbers of columns that have two.
    """
    flags = seen[5].astype(np.int64)
    integers = (flags & _FRACTIONS == 0) & ((flags & _WHOLE == 0) | (flags & _WITH_GAPS > 0))
    told = (flags & (_INTEGERS | _WITH_GAPS | _WHOLE | _FRACTIONS) > 0) & (flags & _GIVEN == 0)
    two = told & (seen[6] == 0) & (seen[3] > -_LARGEST) & (seen[3] < seen[4])
    two &= (seen[4] < _LARGEST) & (seen[0] >= FEWEST_OF_TWO)
    pairs = {j: (float(seen[3, j]), float(seen[4, j])) for j in np.flatnonzero(two).tolist()}
    by_rules = _by_rules(seen[3], seen[4], seen[:3])
    kinds: list[Kind | None] = [
        None if not known else kind if integer else "continuous"
        for known, integer, kind in zip(told.tolist(), integers.tolist(), by_rules, strict=True)
    ]
    for j in pairs:
        kinds[j] = "boolean"
    return kinds, pairs
