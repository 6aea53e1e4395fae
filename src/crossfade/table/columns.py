"""A table's columns behind one small surface, whichever library holds the table.

:func:`read_columns` takes a data frame (pandas, polars, pyarrow, anything narwhals knows), a NumPy
array or nested lists, and returns :class:`Columns`: the names, and per column what its cells are
and how to get at their numbers or distinct values. Nothing is copied before it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from crossfade._checks import show
from crossfade.errors import DataError
from crossfade.table.documents import is_sparse, word_counts
from crossfade.table.factorise import (
    Factorised,
    factorise_numbers,
    factorise_objects,
    factorise_series,
)
from crossfade.table.objects import Storage, numbers_from_objects, object_storage


class Column:
    """One column: what its cells are, its numbers, its distinct values.

    `where`: What to call it in messages, ``"X: column 'age'"``.
    `storage`: What the cells are. A column without a single cell is "missing" whatever its type,
        but for text and categories.
    `numbers` (n_rows,): Booleans, integers or floats (NaN: missing); None for categories.
    `source`: Where categories come from: a list of objects or a narwhals series.
    `gaps_tell`: Whether whole floats count as integers where a cell is missing.
    """

    def __init__(
        self,
        where: str,
        storage: Storage,
        numbers: NDArray[Any] | None = None,
        source: Sequence[Any] | nw.Series[Any] | None = None,
        *,
        gaps_tell: bool = False,
    ) -> None:
        self.gaps_tell = gaps_tell
        self.where = where
        self.storage = storage
        self.numbers = numbers
        self._source = source
        #: Of text: a vocabulary, and how often its words occur in each of the distinct values.
        self.words: tuple[tuple[str, ...], Any] | None = None

    @cached_property
    def factorised(self) -> Factorised:
        """Distinct values, ascending, and the code of each row (-1: missing)."""
        if self.numbers is not None:
            distinct, codes = factorise_numbers(self.numbers)
            if (
                distinct.dtype.kind == "f"
                and np.isinf(distinct[[0, -1]] if distinct.size else 0).any()
            ):
                raise DataError(f"{self.where}: expected finite numbers, got infinity; {INFINITE}")
            return distinct.tolist(), codes
        assert self._source is not None
        if not isinstance(self._source, nw.Series):
            return factorise_objects(self._source)
        try:
            return factorise_series(self._source)
        except TypeError:
            object_storage(self._source.to_list(), self.where)  # names two cells that do not mix
            raise DataError(
                f"{self.where}: expected categories that can be put in order, got "
                f"{self._source.dtype}; turn them into text"
            ) from None

    def has_cells(self) -> bool:
        """Return whether any cell is not missing."""
        if self.numbers is None:
            return bool(self.factorised[0])
        if self.numbers.dtype.kind != "f":
            return self.numbers.size > 0
        return bool(self.numbers.size) and not (
            np.isnan(self.numbers[0]) and bool(np.isnan(self.numbers).all())
        )


class Columns:
    """The columns of a table: `matrix` where one array has all cells, `words` if sparse.

    `arrays`: Of columns that are all one kind of float, of which a matrix can be made.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        has_names: bool,
        n_rows: int,
        *,
        matrix: NDArray[Any] | None = None,
        columns: list[Column] | None = None,
        words: Any = None,
        arrays: list[NDArray[Any]] | None = None,
    ) -> None:
        self.words, self.arrays = words, arrays
        self.names = names
        self.has_names = has_names
        self.n_rows = n_rows
        self._matrix = matrix
        self._columns = columns

    @cached_property
    def matrix(self) -> NDArray[Any] | None:
        if self.arrays is None:
            return self._matrix
        from crossfade.table.matrix import stacked  # which knows columns

        return stacked(self.arrays, self.n_rows, str(self.arrays[0].dtype))

    @property
    def are_floats(self) -> bool:
        """Whether one array of floats has all cells."""
        return self.arrays is not None or (
            self._matrix is not None and self._matrix.dtype.kind == "f"
        )

    @cached_property
    def columns(self) -> list[Column]:
        """One :class:`Column` a column."""
        if self._columns is not None:
            return self._columns
        if self.arrays is not None:
            return [Column(self.where(j), "float", one) for j, one in enumerate(self.arrays)]
        assert self.matrix is not None
        storage = _STORAGE[self.matrix.dtype.kind]
        return [
            Column(self.where(index), storage, self.matrix[:, index])
            for index in range(len(self.names))
        ]

    def counted(self) -> Columns:
        """Return all columns, which are numbers, as one sparse block of counts."""
        if self.words is not None:
            return self
        dense = self.matrix
        if dense is None:
            numbers: list[NDArray[Any]] = []
            for column in self.columns:
                if column.numbers is not None:
                    numbers.append(column.numbers)
                else:
                    raise DataError(
                        f"{column.where}: expected counts of words, got text; use "
                        "density='text' for a column of text"
                    )
            dense = np.column_stack(numbers)
        return Columns(
            self.names,
            self.has_names,
            self.n_rows,
            words=word_counts(scipy.sparse.csr_array(dense), self.names),
        )

    def at(self, places: Sequence[int]) -> Columns:
        """Return some of the columns, which are called in messages what they are called here."""
        if len(places) == len(self.names):
            return self
        names = tuple(self.names[j] for j in places)
        if self.arrays is not None:
            arrays = [self.arrays[j] for j in places]
            columns = [self.columns[j] for j in places]
            return Columns(names, self.has_names, self.n_rows, arrays=arrays, columns=columns)
        matrix = None if self.matrix is None else self.matrix[:, list(places)]
        columns = [self.columns[j] for j in places]
        return Columns(names, self.has_names, self.n_rows, matrix=matrix, columns=columns)

    def where(self, index: int) -> str:
        """Return what to call a column in messages."""
        return where(self.names, self.has_names, index)


def where(names: Sequence[str], has_names: bool, index: int) -> str:
    """Return what to call a column in messages: by its name, else by its position."""
    return f"X: column {show(names[index])}" if has_names else f"X: column {index}"


#: Remedy for infinite values.
INFINITE = "replace it by a number, or by NaN where the cell is unknown"

_STORAGE: dict[str, Storage] = {"b": "boolean", "i": "integer", "u": "integer", "f": "float"}


def read_columns(X: Any, *, sparse: bool = False) -> Columns:
    """Return the columns of a table, unchanged; sparse ones where `sparse` says so."""
    if isinstance(X, Columns):
        return X
    if is_sparse(X):
        return _of_sparse(X) if sparse else _refuse_sparse(X)
    _refuse_other_containers(X)
    if nw.dependencies.is_into_dataframe(X):
        return _of_frame(X)
    return _of_array(X)


def _refuse_sparse(X: Any) -> Columns:
    dense = "X.toarray()" if scipy.sparse.issparse(X) else "X.sparse.to_dense()"
    raise DataError(
        f"X: expected a dense table, got a sparse {type(X).__name__}; Sparse data are not "
        f"supported here, use NaiveBayes, or {dense} where that fits in memory"
    )


def _of_sparse(X: Any) -> Columns:
    labels = _labels(X) if hasattr(X, "iloc") else []
    has_names = bool(labels) and all(isinstance(label, str) for label in labels)
    names = tuple(labels) if has_names else _numbered(X.shape[1])
    counts = word_counts(X, names)
    return Columns(names, has_names, counts.shape[0], words=counts)


@lru_cache(maxsize=2)
def _numbered(n_columns: int) -> tuple[str, ...]:
    return tuple(map("x%d".__mod__, range(n_columns)))


def _refuse_other_containers(X: Any) -> None:
    if nw.dependencies.is_polars_lazyframe(X) or isinstance(X, nw.LazyFrame):
        raise DataError(
            f"X: expected a data frame or an array, got a lazy frame ({type(X).__name__}); "
            "use X.collect()"
        )
    refuse_parts(X)
    table = any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__"))
    if isinstance(X, dict) and not table:  # SciPy's dictionaries of keys have a shape
        one_row = X and all(map(np.isscalar, X.values()))
        remedy = f"use pandas.DataFrame({'[X]' if one_row else 'X'})"
    elif isinstance(X, (str, bytes)) or X is None or isinstance(X, (int, float, complex)):
        remedy = "read the table first"
    elif table or (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        return
    else:  # a generator, a set
        remedy = "use list(X) if it holds the rows in order"
    raise DataError(f"X: expected a data frame or a 2-D array, got {show(X)}; {remedy}")


def count_rows(X: Any) -> int:
    """Return how many rows a table has; what is none is refused by name."""
    _refuse_other_containers(X)
    _check_shape(getattr(X, "shape", (1, 1)))
    return int(_num_samples(X))


def refuse_parts(X: Any) -> None:
    """Refuse rows that are not at hand as one table."""
    if hasattr(X, "__dask_graph__") or hasattr(X, "reduce_parts"):
        raise DataError(
            f"X: expected a table in memory, got {type(X).__name__}, whose rows come in parts; "
            "NaiveBayes, GaussianDiscriminant, BinomialRegression and PoissonRegression "
            "fit to these: use one of them, or read the table"
        )


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise DataError(
            f"X: expected a 2-D array or a data frame, got an array of shape {shape}. Reshape "
            "your data: np.reshape(X, (-1, 1)) if it is one column, (1, -1) if it is one row"
        )
    n_rows, n_columns = shape
    if n_columns == 0:
        raise DataError(
            f"X: found 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required; "
            "add a column besides the target"
        )
    if n_rows == 0:
        raise DataError(
            f"X: found 0 sample(s) (shape=(0, {n_columns})) while a minimum of 1 is required; "
            "the table has columns but no row"
        )


def _of_array(X: Any) -> Columns:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "USO" and not hasattr(X, "dtype"):
            # Nested lists of numbers and words: NumPy would turn the numbers into words.
            array = np.asarray(X, dtype=object)
    except ValueError:
        raise DataError(
            f"X: expected rows of equal length, got {type(X).__name__} with rows of different "
            "lengths; fill short rows with None"
        ) from None
    if array.dtype.names:
        raise DataError(
            f"X: expected a 2-D array or a data frame, got a structured array with fields "
            f"{show(array.dtype.names)}; use pandas.DataFrame(X)"
        )
    if array.dtype.kind == "c":
        raise DataError(
            f"X: Complex data not supported, got an array of dtype {array.dtype}; use X.real and "
            "X.imag as separate columns"
        )
    _check_shape(array.shape)
    n_rows, n_columns = array.shape
    names = _numbered(n_columns)
    if array.dtype.kind in "biuf":
        if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
            array = np.ma.filled(X.astype(np.float64), np.nan)
        return Columns(names, False, n_rows, matrix=array)
    if array.dtype.kind not in "OUT":
        raise DataError(
            f"X: expected numbers or text, got an array of dtype {array.dtype}; "
            + ("decode it with X.astype(str)" if array.dtype.kind == "S" else _TIME_REMEDY)
        )
    columns = [
        _of_objects(array[:, index].tolist(), where(names, False, index))
        for index in range(n_columns)
    ]
    return Columns(names, False, n_rows, columns=columns)


_TIME_REMEDY = "turn it into numbers (a year, days since a start) or into text"


def _of_objects(items: list[Any], place: str) -> Column:
    storage = object_storage(items, place)
    if storage == "category":
        return Column(place, storage, source=items)
    numbers = numbers_from_objects(items, storage, place)
    if storage == "float":
        return Column(place, _storage_of_floats(numbers), numbers, gaps_tell=True)
    return Column(place, storage, numbers)


def _of_frame(X: Any) -> Columns:
    labels = _labels(X)
    named = [label for label in labels if isinstance(label, str)]
    has_names = len(named) == len(labels) > 0
    repeated = [label for label, times in Counter(labels).items() if times > 1]
    if repeated:
        raise DataError(
            f"X: expected column names that differ, got {show(repeated[0])} "
            f"{labels.count(repeated[0])} times; rename or drop the repeated columns"
        )
    frame = nw.from_native(X, eager_only=True)
    _check_shape(frame.shape)
    names = tuple(named) if has_names else _numbered(len(labels))
    if nw.dependencies.is_polars_dataframe(X):
        floats = [str(dtype) for dtype in set(X.dtypes)]
        if floats in (["Float64"], ["Float32"]):
            arrays = [series.to_numpy() for series in X]
            return Columns(names, has_names, len(frame), arrays=arrays)
    matrix = _shared_matrix(X)
    if matrix is not None:
        return Columns(names, has_names, len(frame), matrix=matrix)
    columns = [
        _of_series(series, where(names, has_names, index))
        for index, series in enumerate(frame.iter_columns())
    ]
    return Columns(names, has_names, len(frame), columns=columns)


def _labels(X: Any) -> list[Any]:
    if isinstance(X, nw.DataFrame):
        return list(X.columns)
    names = getattr(X, "column_names", None)  # pyarrow
    return list(X.columns if names is None else names)


def _shared_matrix(X: Any) -> NDArray[Any] | None:
    """Return the array of a pandas frame that is all one kind of float, uncopied."""
    if not nw.dependencies.is_pandas_dataframe(X):
        return None
    kinds = set(X.dtypes)
    if len(kinds) != 1 or next(iter(kinds)) not in (np.dtype(np.float64), np.dtype(np.float32)):
        return None
    array: NDArray[Any] = X.to_numpy()
    first = array[: min(len(array), 1000)]
    # A column of whole numbers may be what pandas makes of integers with gaps.
    return None if _maybe_integers(first).any() else array


def _maybe_integers(values: NDArray[Any]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        whole: NDArray[np.bool_] = ((values == np.floor(values)) | np.isnan(values)).all(axis=0)
    return whole


def _of_series(series: nw.Series[Any], place: str) -> Column:
    dtype, native_dtype = series.dtype, getattr(series.to_native(), "dtype", None)
    if str(native_dtype).startswith("Sparse"):
        return _of_series(
            nw.from_native(series.to_native().sparse.to_dense(), series_only=True), place
        )
    if is_of_objects(series):
        return _of_objects(series.to_list(), place)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return Column(place, "category", source=series)
    if dtype == nw.Boolean:
        complete = series.null_count() == 0
        values = series.to_numpy() if complete else series.cast(nw.Float64).to_numpy()
        return Column(place, "boolean", values)
    if dtype.is_decimal():
        return Column(place, "float", series.cast(nw.Float64).to_numpy())
    if dtype in (nw.Int128, nw.UInt128):  # NumPy has none of these
        return _of_objects(series.to_list(), place)
    if dtype.is_integer():
        return Column(place, "integer", series.to_numpy())
    if dtype.is_float():
        values = series.to_numpy()
        by_pandas = isinstance(native_dtype, np.dtype)
        storage: Storage = _storage_of_floats(values) if by_pandas else "float"
        return Column(place, storage, values, gaps_tell=by_pandas)
    return _of_unknown(series, native_dtype, place)


def is_of_objects(series: nw.Series[Any]) -> bool:
    """Return whether a series holds Python objects (narwhals calls some of these text)."""
    native_dtype = getattr(series.to_native(), "dtype", None)
    objects = isinstance(native_dtype, np.dtype) and native_dtype.kind == "O"
    return objects or series.dtype == nw.Object


def _storage_of_floats(values: NDArray[Any]) -> Storage:
    """Return "integer" for what pandas makes of integers with gaps: whole floats and NaN."""
    if not _maybe_integers(values[:1000]):
        return "float"
    present = values[~np.isnan(values)]
    if present.size == values.size or not present.size or not np.isfinite(present).all():
        return "float"
    return "integer" if _maybe_integers(present) else "float"


def _of_unknown(series: nw.Series[Any], native_dtype: Any, place: str) -> Column:
    """Accept a column without a type, since all its cells are missing; refuse the rest."""
    name = str(native_dtype if native_dtype is not None else series.dtype)
    kind = str(getattr(series.to_native(), "type", name)).lower()
    if kind == "null" or kind == "null[pyarrow]":
        return Column(place, "missing", np.full(len(series), np.nan))
    if name.startswith("complex"):
        raise DataError(
            f"{place}: Complex data not supported, got dtype {name}; use its real and its "
            "imaginary part as separate columns"
        )
    if series.dtype.is_temporal() or "period" in name:
        raise DataError(f"{place}: expected numbers or text, got dtype {name}; {_TIME_REMEDY}")
    raise DataError(
        f"{place}: expected numbers or text, got dtype {name}; give each part a separate "
        "column, or turn the cells into text"
    )
