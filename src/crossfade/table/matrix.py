"""Cells as floats: checks of one column's values, and columns put together as one matrix."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import counted, show
from crossfade.blocks import BLOCK_ROWS, for_each_block
from crossfade.errors import DataError, UnseenNumbersWarning
from crossfade.table.columns import INFINITE, Column, Columns

#: How far a cell may be from one of two numbers, relative to their distance: single precision.
NEAR = 1e-6


def by_column(columns: Columns, work: Callable[[int], Any]) -> list[Any]:
    """Return ``work(index)`` for every column; on threads where there are many rows."""
    results: list[Any] = [None] * len(columns.names)
    columns.columns  # noqa: B018  made once, before threads ask for it

    def fill(part: slice) -> None:
        for index in range(part.start, part.stop):
            results[index] = work(index)

    many = columns.n_rows > BLOCK_ROWS
    for_each_block(fill, len(results), block_rows=1 if many else len(results))
    return results


def refuse_empty(columns: Columns) -> None:
    matrix = columns.matrix
    if matrix is not None:
        if matrix.dtype.kind != "f" or not np.isnan(matrix[0]).all():
            return
        empty = all(
            bool(np.isnan(matrix[start : start + BLOCK_ROWS]).all())
            for start in range(0, len(matrix), BLOCK_ROWS)
        )
    else:
        empty = not any(column.has_cells() for column in columns.columns)
    if empty:
        raise DataError(
            f"X: expected some cells that are not missing, got none in "
            f"{counted(columns.n_rows, 'row')} of {counted(len(columns.names), 'column')} (all "
            "NaN); check how the table was read"
        )


def to_numbers(column: Column) -> NDArray[Any]:
    """Return the numbers of a column; refuse text."""
    if column.numbers is not None:
        return column.numbers
    values, codes = column.factorised
    text = [value for value in values if not isinstance(value, (int, float))]
    if not text:  # a categorical type whose categories are numbers
        table = np.append(np.asarray(values, dtype=np.float64), np.nan)
        return table[codes]
    rows = int(np.count_nonzero(codes == values.index(text[0])))
    raise DataError(
        f"{column.where}: expected numbers, got text ({', '.join(show(v) for v in text[:3])}"
        f"{', …' if len(text) > 3 else ''}; the first in {counted(rows, 'row')}); turn the text "
        "into numbers, empty cells where a number is unknown, or fit NaiveBayes with the column "
        "'categorical'"
    )


def check_counts(values: NDArray[Any], place: str) -> None:
    """Refuse a count that is negative, not whole or infinite."""
    if values.dtype.kind in "bu":
        return
    bad = values < 0
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad |= np.isinf(values) | ((values != np.floor(values)) & ~np.isnan(values))
    if bad.any():
        raise DataError(
            f"{place}: expected counts (0, 1, 2, …), got {show(values[bad][0])} in "
            f"{counted(int(bad.sum()), 'row')}; correct them, leave them empty where unknown, "
            "or fit with the density 'gaussian' for the column"
        )


def in_pair(values: NDArray[Any], pair: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Return which cells are missing or one of two numbers, up to rounding to single precision."""
    if pair == (0, 1):
        return np.asarray((values == 0) | (values == 1) | np.isnan(values), dtype=bool)
    low, high = pair
    near = NEAR * (high - low)
    numbers = values.astype(np.float64, copy=False)
    away = np.minimum(np.abs(numbers - low), np.abs(numbers - high))
    return (away <= near) | np.isnan(numbers)


def booleans_of(
    values: NDArray[Any], pair: tuple[Any, ...], place: str, handle_unknown: str
) -> NDArray[Any]:
    """Return 0 and 1 for two numbers, and NaN; a third is treated as `handle_unknown` says."""
    other = ~in_pair(values, pair)
    codes = values
    if pair != (0, 1):
        codes = (values > 0.5 * (pair[0] + pair[1])).astype(np.float64)
        codes[np.isnan(values)] = np.nan
    if not other.any():
        return codes
    first, second = map(show, pair)
    if np.isinf(values[other]).any():
        raise DataError(f"{place}: expected {first}, {second} or NaN, got infinity; {INFINITE}")
    got = (
        f"{place}: expected only {first} and {second} as in fit, got {show(values[other][0])} in "
        f"{counted(int(other.sum()), 'row')}"
    )
    if handle_unknown == "error":
        raise DataError(
            f"{got}; correct the cells, or set handle_unknown='ignore' to treat them as missing"
        )
    message = (
        f"{got}, which counts as missing; correct the cells, or fit with the density 'gaussian' "
        "for the column"
    )
    warnings.warn(message, UnseenNumbersWarning, stacklevel=2)
    return np.where(other, np.nan, codes.astype(np.float64))


def as_floats(matrix: NDArray[Any], *, in_place: bool = False) -> NDArray[Any]:
    """Return a matrix in C order, float32 as it is and all else as float64; no needless copy.

    `in_place`: Leave float64 as it lies where BLAS can read it so, by rows or by columns.
    """
    native = matrix.dtype.newbyteorder("=")
    dtype = native if native in (np.dtype(np.float64), np.dtype(np.float32)) else np.float64
    if matrix.dtype == dtype and matrix.flags.c_contiguous:
        return np.asarray(matrix)
    if in_place and matrix.dtype == np.float64 == dtype and _is_readable(matrix):
        return np.asarray(matrix)
    return _filled(matrix.shape, np.dtype(dtype), lambda out, rows: np.copyto(out, matrix[rows]))


def _is_readable(matrix: NDArray[Any]) -> bool:
    near, far = sorted(matrix.strides)
    return matrix.flags.aligned and near == 8 and far % 8 == 0 and far >= 8 * min(matrix.shape)


def stacked(columns: list[NDArray[Any]], n_rows: int, dtype: str = "float64") -> NDArray[Any]:
    def fill(out: NDArray[Any], rows: slice) -> None:
        for index, column in enumerate(columns):
            out[:, index] = column[rows]

    return _filled((n_rows, len(columns)), np.dtype(dtype), fill)


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> NDArray[Any]:
    """Make a matrix block by block, on threads: columns into rows stays in cache that way."""
    matrix = np.empty(shape, dtype=dtype)
    for_each_block(lambda rows: fill(matrix[rows], rows), shape[0])
    return matrix
