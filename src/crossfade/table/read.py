"""What estimators call first: a table in, one matrix and its schema out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from crossfade._checks import counted, listed, show
from crossfade.blocks import BLOCK_ROWS, block_sum
from crossfade.errors import DataError, DomainError, NumeralsWarning
from crossfade.table.columns import Columns, count_rows, read_columns
from crossfade.table.documents import MixedRows
from crossfade.table.kinds import declared_kinds
from crossfade.table.schema import Schema
from crossfade.table.text import numeral_among

#: Sizes of numbers whose squares, and sums of them, neither overflow nor vanish.
_LARGEST, _SMALLEST = 1e150, 1e-150


def read_features(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    declared: Mapping[Any, Any] | str | None = None,
    handle_unknown: Literal["ignore", "error"] = "ignore",
    sample_weight: Any = None,
    extend: bool = False,
    in_place: bool = False,
    of_all: bool = True,
) -> tuple[Any, Schema]:
    """Return a table as one matrix, with the schema that was learnt or is already known.

    What is too large is seen by sums (:func:`check_large`). `in_place`: Whether numbers may stay as
    they lie, see `as_floats`. `of_all`: Whether a schema is learnt of all rows, not of the first of
    several batches. Shapes: X, matrix (n_rows, n_features); sample_weight (n_rows,).
    """
    columns = read_columns(X, sparse=getattr(estimator, "_takes_sparse", False))
    if declared == "words":
        columns, declared = columns.counted(), None
    if not reset:
        check_same_columns(estimator, X)
        schema: Schema = estimator.schema_
        if extend:
            schema = schema.extended(columns)
        matrix = schema.encode(columns, handle_unknown, in_place=in_place)
    else:
        signed = getattr(estimator, "_takes_signed", False)
        schema = Schema.learn(
            columns, declared, sample_weight=sample_weight, of_all=of_all, signed=signed
        )
        _warn_of_numerals(columns, schema, declared)
        # Categories of rows without weight are not in the schema, and must not be an error.
        matrix = schema.encode(columns, in_place=in_place)
        if columns.words is not None:
            if not columns.words.nnz:
                raise DataError(
                    f"X: expected some words, got none in {counted(columns.n_rows, 'row')} of "
                    f"{counted(len(columns.names), 'column')}; check how the words were counted"
                )
            estimator.schema_ = schema
            check_same_columns(estimator, X, reset=True)
            return matrix, schema
        # Too large shows in the sums that follow, too small would vanish there without a word:
        # where the first rows leave it possible, all rows of the column are looked at.
        cells = np.asarray(matrix)
        few = np.flatnonzero(_largest(cells[:BLOCK_ROWS]) < _SMALLEST)
        _refuse_small(_largest(cells[:, few]), [schema.names[index] for index in few.tolist()])
        check_same_columns(estimator, X, reset=True)
    if reset or extend:
        estimator.schema_ = schema
    return matrix, schema


def _warn_of_numerals(columns: Columns, schema: Schema, declared: Any) -> None:
    """Tell of text that holds measurements, as where one cell of a column cannot be read."""
    if not {"categorical", "identifier"} & set(schema.kinds):
        return
    given = declared_kinds(columns, declared)
    for index, kind in enumerate(schema.kinds):
        column = columns.columns[index]
        if (
            kind not in ("categorical", "identifier")
            or given[index]
            or column.storage != "category"
        ):
            continue
        values = column.factorised[0]
        cell = numeral_among(values)
        if cell is None:
            continue
        which = "is left out, as the name of a row" if kind == "identifier" else "is a category"
        message = (
            f"{column.where}: expected measurements as numbers, got text such as {show(cell)}, "
            f"each of which {which}; turn the column into numbers, missing where there is none"
        )
        warnings.warn(message, NumeralsWarning, stacklevel=5)


def check_same_columns(estimator: Any, X: Any, *, reset: bool = False) -> None:
    """Refuse other columns than those of fit, or note which they are."""
    count_rows(X)
    if not hasattr(X, "shape"):
        X = np.asarray(X, dtype=object)
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except ValueError as error:
        known = getattr(estimator, "feature_names_in_", ())
        given = [] if reset else [one for one in getattr(X, "columns", ()) if isinstance(one, str)]
        others = [one for one in given if one not in known]
        remedy = ""
        if others and len(others) + len(known) <= X.shape[1]:
            remedy = f"Leave out {listed(others)}: X.drop(columns=...), or scan(path, drop=...)."
        elif given and sorted(given) == sorted(known):
            remedy = "Take them by name: X[list(model.feature_names_in_)]."
        raise DataError(f"{error}{remedy}") from None
    except TypeError:
        names = [name for name in X.columns if not isinstance(name, str)]
        raise DataError(
            "X: expected names of columns that are all text, or none that is, got "
            f"{show(names[0])} among others; use X.columns = X.columns.astype(str)"
        ) from None


def check_cells(X: NDArray[Any], names: Sequence[str] | None = None) -> None:
    """Refuse columns of numbers whose squares overflow or vanish, and infinite values."""
    X = np.asarray(X)
    top = _largest(X)
    if not (top < _LARGEST).all():
        check_finite(X, names)
        _refuse_large(top, names)
    _refuse_small(top, names)


def has_missing_cells(X: Any) -> bool:
    """Return whether any number is NaN; cells of words are never missing."""
    if isinstance(X, MixedRows):
        if X.numbers.shape[1] == len(X.words):
            return False
        X = X.numbers

    def block(rows: slice) -> float:
        flat = np.ascontiguousarray(X[rows], dtype=np.float64).ravel()
        return float(np.isnan(flat @ flat))

    with np.errstate(over="ignore"):
        return block_sum(block, X.shape[0]) > 0.0


def without_cells(X: Any) -> NDArray[np.bool_]:
    """Return which rows have missing cells alone, (n_rows,); none where cells are words."""
    if not isinstance(X, np.ndarray):
        return np.zeros(X.shape[0], dtype=bool)
    return np.asarray(np.isnan(X).all(axis=1), dtype=bool)


def check_large(X: Any, squares: Any = np.nan, shift: Any = 0.0) -> None:
    """Refuse columns of numbers that are too large, looking only where sums leave it possible.

    Shapes: X (n_rows, n_features); squares (n_features,), weighted sums of (X - shift)².
    """
    with np.errstate(invalid="ignore"):
        small = (np.asarray(squares) < 1e-50 * _LARGEST**2) & (np.abs(shift) < 1e-5 * _LARGEST)
    if not small.all():
        large = np.broadcast_to(~small, X.shape[1])
        top = np.zeros(X.shape[1])
        top[large] = _largest(np.asarray(X)[:, large])
        _refuse_large(top, None)


def _largest(X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the largest absolute value of each column, 0 without a cell."""
    top = np.zeros(X.shape[1])
    for start in range(0, X.shape[0], BLOCK_ROWS):
        block = X[start : start + BLOCK_ROWS]
        for extreme in (np.fmax.reduce(block, axis=0), np.fmin.reduce(block, axis=0)):
            np.fmax(top, np.abs(extreme.astype(np.float64)), out=top)
    return top


def _refuse_large(top: NDArray[np.float64], names: Sequence[str] | None) -> None:
    large = top >= _LARGEST
    if large.any():
        raise _size_error(top, large, f"numbers below {_LARGEST:g} in size", names)


def _refuse_small(top: NDArray[np.float64], names: Sequence[str] | None) -> None:
    small = (top > 0.0) & (top < _SMALLEST)
    if small.any():
        raise _size_error(top, small, f"some number of at least {_SMALLEST:g} in size", names)


def _size_error(
    top: NDArray[np.float64], bad: NDArray[np.bool_], expected: str, names: Sequence[str] | None
) -> DomainError:
    columns = tuple(np.flatnonzero(bad).tolist())
    error = DomainError(
        columns, expected, float(top[columns[0]]), "change the unit, or take logarithms"
    )
    return error if names is None else error.renamed(names)


def check_finite(X: NDArray[Any], names: Sequence[str] | None = None) -> None:
    """Refuse infinite values, naming their columns; NaN (missing) is fine."""
    X = np.asarray(X)
    counts = np.zeros(X.shape[1], dtype=np.int64)
    for start in range(0, X.shape[0], BLOCK_ROWS):
        counts += np.isinf(X[start : start + BLOCK_ROWS]).sum(axis=0)
    bad = np.flatnonzero(counts)
    if not bad.size:
        return
    called = ", ".join(str(i) if names is None else show(names[i]) for i in bad[:5].tolist())
    raise DataError(
        f"X: expected finite numbers (NaN for missing cells), got infinity (inf) in "
        f"{counted(int(counts.sum()), 'cell')} of column{'s' if bad.size > 1 else ''} {called}"
        f"{', …' if bad.size > 5 else ''}; replace them by numbers, or by NaN where unknown"
    )
