"""What each column of a table is, learnt once and frozen.

A :class:`Schema` turns tables into one matrix of floats: numbers as they are, booleans as 0 and 1,
categories as integer codes, NaN wherever a cell is missing.

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

A pandas column of floats that has missing cells and otherwise holds whole numbers counts as one
of integers, since pandas keeps integers with gaps that way. Integers that never are 0 (grades
from 1 to 3, years) or vary much less than a Poisson variable are better served by a Gaussian,
whose variance is free. Mean and variance are weighted where there are weights, and rows of weight 0 are not
looked at, so that weights and repeated rows give one schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from crossfade.blocks import BLOCK_ROWS, block_sum, for_each_block
from crossfade.errors import DataError
from crossfade.rows.columns import INFINITE, Column, Columns, read_columns, where
from crossfade.rows.factorise import Factorised, recode
from crossfade.rows.objects import show

__all__ = ["Kind", "Schema"]

Kind = Literal["continuous", "count", "boolean", "categorical"]

_KINDS: tuple[Kind, ...] = ("continuous", "count", "boolean", "categorical")

#: Integers above this are continuous: a Poisson variable of large mean is Gaussian enough.
_LARGEST_COUNT = 100

#: Bounds on variance / mean of a count; a Poisson variable has 1.
_DISPERSION = (0.5, 1.5)


@dataclass(frozen=True)
class Schema:
    """Names, kinds and categories of a table's columns.

    Attributes
    ----------
    names : tuple of str
        Column names; "x0", "x1", … where the table had none.
    kinds : tuple of {"continuous", "count", "boolean", "categorical"}
    categories : tuple of (tuple or None)
        For a categorical column its categories: code c stands for ``categories[j][c]``. Ascending
        as learnt; later ones (:meth:`extended`) at the end. Empty where no cell was seen. For a
        boolean column that is not 0 and 1 its one or two values, else None.
    has_names : bool
        Whether the names came with the table.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"age": [31.5, None], "city": ["Oslo", "Bern"]})
    >>> schema = Schema.learn(frame)
    >>> schema.kinds, schema.categories
    (('continuous', 'categorical'), (None, ('Bern', 'Oslo')))
    >>> schema.encode(frame)
    array([[31.5,  1. ],
           [ nan,  0. ]])
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    categories: tuple[tuple[Any, ...] | None, ...]
    has_names: bool

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        # The lookup tables are made again when first needed.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    # -- learning --------------------------------------------------------------------------------

    @classmethod
    def learn(
        cls,
        X: Any,
        declared: Mapping[Any, str] | str | None = None,
        *,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> Schema:
        """Return the schema of a table.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_columns)
            Not changed.
        declared : mapping of column name or index to kind, or one kind for all, optional
            Kinds that the user chose; the other columns follow the rules of this module.
        sample_weight : ndarray of shape (n_rows,), optional
            Rows of weight 0 are not looked at.

        Returns
        -------
        Schema

        Raises
        ------
        DataError
            If `X` is no table of numbers, booleans and text (see
            :func:`~crossfade.rows.columns.read_columns`), has no cell that is not missing, or
            does not have the declared columns or values.
        """
        columns = read_columns(X)
        kept = None
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight, dtype=np.float64)
            kept = sample_weight > 0
            if kept.all():
                kept = None
        kinds = _declared_kinds(columns, declared)
        _refuse_empty(columns)
        _detect(columns, kinds, sample_weight)
        settled = cast("list[Kind]", kinds)
        explicit = declared is not None
        categories = _by_column(
            columns,
            lambda index: _categories(columns, index, settled[index], kept, explicit=explicit),
        )
        return cls(columns.names, tuple(settled), tuple(categories), columns.has_names)

    def extended(self, X: Any) -> Schema:
        """Return a schema that knows the new categories of `X` as well.

        They are added at the end, so that the codes of the others stay what they were.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_columns)
            With the columns of this schema.

        Returns
        -------
        Schema
            This one, if there is nothing new.
        """
        columns = self._matching(X)
        categories = list(self.categories)
        for index, known in enumerate(self.categories):
            if known is None or self.kinds[index] != "categorical":
                continue
            values, _ = self._factorised(columns.columns[index], index)
            lookup = self._lookups[index]
            assert lookup is not None
            new = [value for value in values if value not in lookup]
            if new:
                categories[index] = (*known, *new)
        if categories == list(self.categories):
            return self
        return Schema(self.names, self.kinds, tuple(categories), self.has_names)

    # -- encoding --------------------------------------------------------------------------------

    def encode(
        self, X: Any, unknown: Literal["marginalise", "error"] = "marginalise"
    ) -> NDArray[Any]:
        """Return the table as one matrix.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
            With the columns of this schema, in its order. Not changed.
        unknown : {"marginalise", "error"}, default="marginalise"
            What to do with a category that the schema does not know (or a boolean that is neither
            0 nor 1): treat the cell as missing, or refuse it.

        Returns
        -------
        ndarray of shape (n_rows, n_features), C order
            float64, NaN: missing. A NumPy array of float64 or float32 without coded columns is
            returned as it is, without a copy if it is in C order: do not write to it.

        Raises
        ------
        DataError
            If the columns do not match, a column of numbers holds text or the other way round,
            a count is negative or not whole, or a category is unknown and may not be.
        """
        if unknown not in ("marginalise", "error"):
            raise DataError(
                f"unknown: expected 'marginalise' or 'error', got {unknown!r}; 'marginalise' "
                "treats a new category as a missing cell"
            )
        columns = self._matching(X)
        plain = self._plain(columns)
        if plain is not None:
            return plain
        encoded = _by_column(
            columns, lambda index: self._encode_column(columns.columns[index], index, unknown)
        )
        return _stacked(encoded, columns.n_rows)

    def decode(self, matrix: NDArray[Any]) -> list[list[Any]]:
        """Return the columns of a matrix in the table's own values, None where missing.

        Parameters
        ----------
        matrix : ndarray of shape (n_rows, n_features)
            As :meth:`encode` makes it.

        Returns
        -------
        list of list
            One list a column.
        """
        decoded = []
        for index, known in enumerate(self.categories):
            values = matrix[:, index].tolist()
            if known is not None:
                decoded.append([None if v != v else known[int(v)] for v in values])
            elif self.kinds[index] == "boolean":
                decoded.append([None if v != v else bool(v) for v in values])
            else:
                decoded.append([None if v != v else v for v in values])
        return decoded

    def index(self, column: Any) -> int:
        """Return the position of a column given by name or position.

        Raises
        ------
        DataError
            If there is no such column; the nearest names are listed.
        """
        return column_index(self.names, self.has_names, column)

    def where(self, index: int) -> str:
        """Return what to call a column in messages."""
        return where(self.names, self.has_names, index)

    def _matching(self, X: Any) -> Columns:
        columns = read_columns(X)
        if len(columns.names) != self.n_features:
            raise DataError(
                f"X: expected the {self.n_features} columns of fit, got {len(columns.names)}; "
                + _difference(self.names, columns.names, self.has_names and columns.has_names)
            )
        if self.has_names and columns.has_names and columns.names != self.names:
            raise DataError(
                "X: expected the columns of fit in the same order; "
                + _difference(self.names, columns.names, True)
            )
        return columns

    def _plain(self, columns: Columns) -> NDArray[Any] | None:
        """Return the table's own array of numbers if nothing in it needs a code or a check."""
        matrix = columns.matrix
        if matrix is None or any(known is not None for known in self.categories):
            return None
        if matrix.dtype.kind == "f":
            return as_floats(matrix) if set(self.kinds) == {"continuous"} else None
        counts, booleans = (
            [index for index, kind in enumerate(self.kinds) if kind == wanted]
            for wanted in ("count", "boolean")
        )
        if matrix.dtype.kind in "iu" and len(matrix) and (counts or booleans):
            low, high = matrix.min(axis=0), matrix.max(axis=0)
            if low[counts + booleans].min() < 0 or high[booleans].max(initial=0) > 1:
                return None
        return as_floats(matrix)

    def _encode_column(self, column: Column, index: int, unknown: str) -> NDArray[Any]:
        if self.categories[index] is not None:
            return self._coded(column, index, unknown)
        values = _numbers(column)
        kind = self.kinds[index]
        if kind == "count":
            _check_counts(values, column.where)
        if kind == "boolean" and column.storage != "boolean":
            return _check_booleans(values, column.where, unknown)
        return values

    def _coded(self, column: Column, index: int, unknown: str) -> NDArray[np.float64]:
        values, codes = self._factorised(column, index)
        lookup = self._lookups[index]
        assert lookup is not None
        positions = np.append(recode(values, lookup).astype(np.float64), -1.0)
        unseen = positions[:-1] < 0
        if unknown == "error" and unseen.any():
            new = [values[i] for i in np.flatnonzero(unseen)[:3].tolist()]
            times = int(np.isin(codes, np.flatnonzero(unseen)).sum())
            raise DataError(
                f"{column.where}: expected only categories seen in fit, got "
                f"{', '.join(show(value) for value in new)} ({int(unseen.sum())} new, in {times} "
                "rows); fit on rows that have them, or set unknown='marginalise' to treat such "
                "cells as missing"
            )
        positions[positions < 0] = np.nan
        return positions[codes]

    def _factorised(self, column: Column, index: int) -> Factorised:
        """Return the column's distinct values and codes, of the type the schema's are."""
        values, codes = column.factorised
        known = self.categories[index]
        if values and known and isinstance(values[0], str) != isinstance(known[0], str):
            expected, got = (
                ("text", "numbers") if isinstance(known[0], str) else ("numbers", "text")
            )
            raise DataError(
                f"{column.where}: expected {expected} as in fit (such as {show(known[0])}), got "
                f"{got} (such as {show(values[0])}); give the column the type it had in fit"
            )
        return values, codes

    @cached_property
    def _lookups(self) -> tuple[dict[Any, int] | None, ...]:
        return tuple(
            None if known is None else dict(zip(known, range(len(known)), strict=True))
            for known in self.categories
        )


def _by_column(columns: Columns, work: Callable[[int], Any]) -> list[Any]:
    """Return ``work(index)`` for every column; on threads where there are many rows."""
    results: list[Any] = [None] * len(columns.names)
    columns.columns  # noqa: B018  made once, before threads ask for it

    def fill(part: slice) -> None:
        for index in range(part.start, part.stop):
            results[index] = work(index)

    many = columns.n_rows > BLOCK_ROWS
    for_each_block(fill, len(results), block_rows=1 if many else len(results))
    return results


# -- learning, step by step ----------------------------------------------------------------------


def _declared_kinds(
    columns: Columns, declared: Mapping[Any, str] | str | None
) -> list[Kind | None]:
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
    """Return the position of a column given by name or by index.

    Raises
    ------
    DataError
        If there is no such column; the nearest names are listed.
    """
    if isinstance(key, str):
        if has_names and key in names:
            return names.index(key)
        near = difflib.get_close_matches(key, names, n=3) if has_names else []
        remedy = (
            f"did you mean {' or '.join(show(name) for name in near)}?"
            if near
            else (
                f"the columns are {_listed(names)}" if has_names else "X has no names, use an index"
            )
        )
        raise DataError(f"declared: expected a column of X, got {show(key)}; {remedy}")
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < len(names):
        return int(key)
    raise DataError(
        f"declared: expected a column name or an index from 0 to {len(names) - 1}, got {show(key)}"
        "; count columns from 0"
    )


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(show(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _refuse_empty(columns: Columns) -> None:
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
            f"X: expected some cells that are not missing, got none in {columns.n_rows} rows of "
            f"{len(columns.names)} columns (all NaN); check how the table was read"
        )


def _detect(
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
    small = np.flatnonzero((low == 0) & (high <= _LARGEST_COUNT) & ~boolean)
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


def _categories(
    columns: Columns,
    index: int,
    kind: Kind,
    kept: NDArray[np.bool_] | None,
    *,
    explicit: bool,
) -> tuple[Any, ...] | None:
    """Return the categories of a column, and check that a declared kind fits its cells."""
    if kind == "categorical":
        return tuple(_seen(columns.columns[index], kept))
    if not explicit:
        return None
    column = columns.columns[index]
    if kind == "boolean" and column.storage != "boolean":
        values = _seen(column, kept)
        if len(values) > 2:
            raise DataError(
                f"{column.where}: expected at most two values in a column declared 'boolean', "
                f"got {len(values)} ({', '.join(show(v) for v in values[:3])}, …); declare it "
                "'categorical' or 'continuous'"
            )
        return None if all(v in (0, 1) for v in values) else tuple(values)
    if kind == "count":
        _check_counts(_numbers(column), column.where)
    return None


def _seen(column: Column, kept: NDArray[np.bool_] | None) -> list[Any]:
    values, codes = column.factorised
    if kept is None:
        return values
    used = np.bincount(codes[kept] + 1, minlength=len(values) + 1)[1:] > 0
    return [values[i] for i in np.flatnonzero(used).tolist()]


# -- encoding, step by step ----------------------------------------------------------------------


def _numbers(column: Column) -> NDArray[Any]:
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
        f"{', …' if len(text) > 3 else ''}; the first in {rows} rows); turn the text into numbers, "
        "empty cells where a number is unknown, or make the column categorical in fit"
    )


def _check_counts(values: NDArray[Any], place: str) -> None:
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
            f"{int(bad.sum())} rows; use a 'continuous' density for the column"
        )


def _check_booleans(values: NDArray[Any], place: str, unknown: str) -> NDArray[Any]:
    """Return 0, 1 and NaN; another number is treated as `unknown` says."""
    other = (values != 0) & (values != 1)
    if values.dtype.kind == "f":
        other &= ~np.isnan(values)
    if not other.any():
        return values
    if np.isinf(values[other]).any():
        raise DataError(f"{place}: expected 0, 1 or NaN, got infinity; {INFINITE}")
    if unknown == "error":
        raise DataError(
            f"{place}: expected only 0 and 1 as in fit, got {show(values[other][0])} in "
            f"{int(other.sum())} rows; correct the cells, or set unknown='marginalise' to treat "
            "them as missing"
        )
    return np.where(other, np.nan, values.astype(np.float64))


def as_floats(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return a matrix in C order, float32 as it is and all else as float64; no needless copy."""
    native = matrix.dtype.newbyteorder("=")
    dtype = native if native in (np.dtype(np.float64), np.dtype(np.float32)) else np.float64
    if matrix.dtype == dtype and matrix.flags.c_contiguous:
        return np.asarray(matrix)
    return _filled(matrix.shape, np.dtype(dtype), lambda out, rows: np.copyto(out, matrix[rows]))


def _stacked(columns: list[NDArray[Any]], n_rows: int) -> NDArray[np.float64]:
    def fill(out: NDArray[Any], rows: slice) -> None:
        for index, column in enumerate(columns):
            out[:, index] = column[rows]

    return _filled((n_rows, len(columns)), np.dtype(np.float64), fill)


def _filled(shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> NDArray[Any]:
    """Make a matrix block by block, on threads: columns into rows stays in cache that way."""
    matrix = np.empty(shape, dtype=dtype)
    for_each_block(lambda rows: fill(matrix[rows], rows), shape[0])
    return matrix


def _difference(expected: Sequence[str], got: Sequence[str], named: bool) -> str:
    """Say how two lists of column names differ."""
    if not named:
        return "select the columns used in fit"
    missing = [name for name in expected if name not in set(got)]
    extra = [name for name in got if name not in set(expected)]
    parts = []
    if missing:
        parts.append(f"missing: {_listed(missing)}")
    if extra:
        parts.append(f"not in fit: {_listed(extra)}")
    if not parts:
        parts.append(f"the order in fit was {_listed(expected)}")
    return "; ".join(parts)
