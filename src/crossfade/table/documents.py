"""Rows whose cells are numbers, but for columns that hold counts of words: one sparse row per cell.

:class:`MixedRows` is to passes over blocks of rows what an array is: it has a shape and gives rows
by slice or index. Seen as an array, a cell of words is a number that its contents alone decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, workspace
from crossfade.errors import DataError
from crossfade.rowwise.entries import entry_faults
from crossfade.table.columnwise import ColumnArrays
from crossfade.table.contents import GOLDEN, Hashes, mixed

#: Rows that are looked at for columns that are no counts, and entries by which a column is told.
_MOST_LOOKED_AT = 2_000
_FEWEST_ENTRIES = 20

#: Entries of a block of rows that are looked at by one thread: 6 MB.
_BLOCK_ENTRIES = 1 << 19

#: Rows that go from columns into rows at a time.
_TURNED_ROWS = 512

#: Share of a row that no single word has in the median, where there are so many words.
_LARGEST_SHARE = 0.25
_FEWEST_WORDS = 50


class MixedRows:
    """Numbers and counts of words.

    Shapes: numbers (n_rows, n_columns), whose columns of words are not looked at; words, by the
    number of their column, CSR (n_rows, n_words).
    """

    def __init__(
        self,
        numbers: Floats,
        words: Mapping[int, Any],
        *,
        told_apart: bool = False,
        in_order: bool = True,
        told_by: tuple[MixedRows, Any] | None = None,
    ) -> None:
        self.numbers, self.words, self._told_apart = numbers, dict(words), told_apart
        self._in_order, self._told_by = in_order, told_by

    @classmethod
    def of(cls, numbers: Floats, words: Mapping[int, Any], *, in_order: bool = True) -> MixedRows:
        """Return rows with these counts; their contents as numbers are found when asked for.

        `in_order`: Whether words are where they are by what they are, not as a table has them.
        """
        numbers = np.array(numbers, dtype=np.float64)
        numbers[:, list(words)] = 0.0
        return cls(numbers, words, in_order=in_order)

    @property
    def contents(self) -> Floats:
        """The numbers, with one for each cell of words that its contents alone decide."""
        told_by = self._told_by
        if told_by is not None:
            rows, key = told_by
            self.numbers, self._told_apart, self._told_by = rows.contents[key], True, None
        if not self._told_apart:
            numbers = self.numbers.copy()
            for column, counts in self.words.items():
                own = None if self._in_order else _hashed_columns(counts)
                numbers[:, column] = content(counts, own)
            self.numbers, self._told_apart = numbers, True
        return self.numbers

    def with_words(self, words: Mapping[int, Any]) -> MixedRows:
        """Return rows of the same contents whose words are counted otherwise."""
        return MixedRows(self.numbers, words, told_by=(self, slice(None)))

    def told_by_own_words(self) -> MixedRows:
        """Return the rows with contents as they are where other rows' words are not known."""
        numbers = self.numbers.copy()
        for column, counts in self.words.items():
            seen = np.zeros(counts.shape[1], dtype=np.int64)
            seen[counts.indices] = 1
            places = (np.cumsum(seen) - 1)[counts.indices]
            numbers[:, column] = content(_csr(counts.data, places, counts.indptr, counts.shape))
        return MixedRows(numbers, self.words, told_apart=True)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.numbers.shape
        return rows, columns

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.array(self.contents, dtype=dtype) if copy else np.asarray(self.contents, dtype)

    def copy(self) -> MixedRows:
        """Return rows that share no numbers with these."""
        words = {j: counts.copy() for j, counts in self.words.items()}
        if self._told_by is not None:
            return MixedRows(self.contents.copy(), words, told_apart=True)
        told, in_order = self._told_apart, self._in_order
        return MixedRows(self.numbers.copy(), words, told_apart=told, in_order=in_order)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return self.contents[key]
        if isinstance(key, slice) and key.indices(len(self)) == (0, len(self), 1):
            return self
        words = {j: _rows_of(counts, key) for j, counts in self.words.items()}
        return MixedRows(
            self.numbers[key],
            words,
            told_apart=self._told_apart,
            in_order=self._in_order,
            told_by=None if self._told_by is None else (self, key),
        )


def _rows_of(counts: Any, key: Any) -> Any:
    """Return some rows of a CSR matrix, consecutive ones as views: SciPy copies them."""
    if not isinstance(key, slice) or key.step not in (None, 1):
        return counts[key]
    start, stop, _ = key.indices(counts.shape[0])
    first, last = counts.indptr[start], counts.indptr[max(stop, start)]
    entries = slice(first, last)
    return _csr(
        counts.data[entries],
        counts.indices[entries],
        counts.indptr[start : max(stop, start) + 1] - first,
        (max(stop - start, 0), counts.shape[1]),
    )


def _csr(data: Floats, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """Return a CSR matrix of these very arrays, which SciPy would look at and narrow first."""
    made = scipy.sparse.csr_array(shape)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def block_of(X: Any, rows: slice | Integers) -> Any:
    """Return one block of rows, numbers as C-ordered doubles."""
    if isinstance(X, MixedRows):
        return X[rows]
    return np.ascontiguousarray(X[rows], dtype=np.float64)


def lent_block(X: Any, rows: slice) -> Any:
    """Return the same of consecutive rows; what is not by rows in `X` lasts until the next block.

    Columns into rows a few at a time: these stay in a first-level cache on the way.
    """
    if isinstance(X, MixedRows) or (isinstance(X, np.ndarray) and X.flags.c_contiguous):
        return block_of(X, rows)
    given = X.block(rows) if isinstance(X, ColumnArrays) else X[rows]
    own = workspace("rows of columns", *given.shape)
    for first in range(0, len(own), _TURNED_ROWS):
        some = slice(first, first + _TURNED_ROWS)
        np.copyto(own[some], given[some])
    return own


def n_cells(X: Any) -> int:
    """Return how many numbers rows hold; of counts of words, those that are not zero."""
    if isinstance(X, MixedRows):
        return X.numbers.size + sum(counts.nnz for counts in X.words.values())
    return int(X.nnz if scipy.sparse.issparse(X) else X.shape[0] * X.shape[1])


def stacked(X: Any, others: Any) -> Any:
    """Return the rows of both tables, the others' last."""
    if not isinstance(X, MixedRows):
        return np.concatenate([X, others])
    words = {j: scipy.sparse.vstack([own, others.words[j]]) for j, own in X.words.items()}
    return MixedRows(np.concatenate([X.contents, others.contents]), words, told_apart=True)


def is_sparse(X: Any) -> bool:
    """Return whether a table is sparse: SciPy's, or a pandas frame of sparse columns alone."""
    if scipy.sparse.issparse(X):
        return True
    if not nw.dependencies.is_pandas_dataframe(X):
        return False
    return X.shape[1] > 0 and all(hasattr(dtype, "fill_value") for dtype in X.dtypes)


def indexable(X: Any) -> Any:
    """Return a table of whose rows some can be taken: sparse ones as CSR."""
    if hasattr(X, "__array__") and not hasattr(X, "__getitem__"):
        return np.asarray(X)
    return X.tocsr() if scipy.sparse.issparse(X) else X


def word_counts(X: Any, names: Sequence[str] | None = None) -> Any:
    """Return a sparse table as CSR of doubles, none 0, in canonical form; X is not changed.

    Cells that are missing or infinite are refused, with their column's name.
    """
    if not scipy.sparse.issparse(X):
        X = _of_frame(X)
    if len(X.shape) != 2 or 0 in X.shape:
        raise DataError(
            f"X: expected rows and columns, got a sparse table of shape {X.shape}: found "
            f"{'0 feature(s)' if X.shape[-1] == 0 else '0 sample(s)'} (shape={X.shape}) while a "
            "minimum of 1 is required; check how it was made"
        )
    if X.dtype.kind == "c":
        raise DataError(
            f"X: Complex data not supported, got a sparse table of dtype {X.dtype}; use X.real"
        )
    if X.dtype.kind not in "biuf":
        raise DataError(
            f"X: expected numbers, got a sparse table of dtype {X.dtype}; use X.astype(float)"
        )
    counts = _unread(X.tocsr())
    odd, falls, outside = _faults(counts)
    if outside:
        raise DataError(
            f"X: expected columns 0 to {X.shape[1] - 1} in a sparse table, got {outside} entries "
            "in others; check how its indices were made"
        )
    if falls:
        counts = counts.copy()
        counts.sum_duplicates()
        odd = _faults(counts)[0]
    if odd:
        _check_entries(counts, names)
        counts = counts.copy()
        counts.eliminate_zeros()
    return counts


def unread_rows(X: Any, n_columns: int) -> MixedRows | None:
    """Return a CSR matrix of doubles as rows of counts that nobody has looked at yet.

    For who looks at each entry himself and asks for :func:`word_counts` if it is none that a count
    can be. None for any other table.
    """
    if not (scipy.sparse.issparse(X) and X.format == "csr" and X.dtype == np.float64):
        return None
    if X.shape[1:] != (n_columns,) or not X.shape[0]:
        return None
    return MixedRows.of(np.zeros((X.shape[0], 1)), {0: _unread(X)}, in_order=False)


def _unread(rows: Any) -> Any:
    """Return a CSR matrix as doubles, uncopied: the flags that SciPy keeps are not shared."""
    data = rows.data[: rows.nnz].astype(np.float64, copy=False)
    return _csr(data, rows.indices[: rows.nnz], rows.indptr, rows.shape)


def _faults(counts: Any) -> list[int]:
    """Return what :func:`entry_faults` finds."""

    def block(rows: slice) -> Integers:
        found, ends = np.zeros(3, dtype=np.int64), counts.indptr[rows.start : rows.stop + 1]
        own = slice(ends[0], ends[-1])
        entry_faults(counts.data[own], counts.indices[own], ends - ends[0], counts.shape[1], found)
        return found

    size = -(-_BLOCK_ENTRIES * counts.shape[0] // max(counts.nnz, 1))
    faults: list[int] = block_sum(block, counts.shape[0], block_rows=size).tolist()
    return faults


def unlike_counts(counts: Any, names: Sequence[str]) -> str | None:
    """Return which columns do not look like counts of words beside the others, None for none.

    In an even sample of the rows: columns of fractions beside columns of whole numbers; and single
    columns that make up a quarter of a row, the others all others together, in the median.
    """
    n, most = counts.shape[0], min(counts.shape[0], _MOST_LOOKED_AT)
    some = counts[np.linspace(0, n - 1, most).astype(np.int64)]
    size, n_columns = np.bincount(some.indices, minlength=counts.shape[1]), counts.shape[1]
    whole = np.bincount(some.indices, some.data == np.floor(some.data), n_columns)
    told = size >= _FEWEST_ENTRIES
    fractions = np.flatnonzero(told & (whole <= 0.1 * size))
    wholes = np.flatnonzero(told & (whole == size))
    few = min(fractions, wholes, key=len)
    # Columns of both are of one kind, too: roots of counts, say, which are 1 where a word is once.
    if few.size > 0 and few.size >= np.count_nonzero(told) - fractions.size - wholes.size:
        kind, other = ("fractions", "whole numbers")[:: 1 if few is fractions else -1]
        return f"{_listed(few, names)}: {kind} beside columns of {other}"
    if n_columns < _FEWEST_WORDS:
        return None
    some.data = some.data / np.repeat(np.asarray(some.sum(axis=1)), np.diff(some.indptr))
    # What half of the rows have a quarter of is an eighth of all, which few columns are.
    sums = np.bincount(some.indices, some.data, n_columns)
    large = np.flatnonzero(sums > 0.5 * _LARGEST_SHARE * most)
    for j, share in zip(large, np.median(some[:, large].toarray(), axis=0), strict=True):
        if share > _LARGEST_SHARE:
            return f"{_listed(np.array([j]), names)}: {share:.0%} of all that a row counts"
    return None


def _listed(columns: Integers, names: Sequence[str]) -> str:
    rest = f" and {columns.size - 3:,} more" if columns.size > 3 else ""
    return ", ".join(repr(names[j]) for j in columns[:3]) + rest


def _of_frame(X: Any) -> Any:
    """Return the cells of a pandas frame of sparse columns, whatever value each leaves out."""
    if all(dtype.fill_value == 0 for dtype in X.dtypes):
        return X.sparse.to_coo()
    # What pandas leaves out unasked is NaN of numbers with a point: cells all the same.
    columns = (np.asarray(X.iloc[:, j])[:, None] for j in range(X.shape[1]))
    return scipy.sparse.hstack([scipy.sparse.csc_array(one) for one in columns])


def _check_entries(counts: Any, names: Sequence[str] | None) -> None:
    """Refuse entries that are missing or infinite, naming the first one's column."""
    data = counts.data
    n_missing = int(np.isnan(data).sum())
    if n_missing:
        raise DataError(
            f"X: expected no missing cells in a sparse table (Input X contains NaN), got "
            f"{n_missing}; a word that does not occur is a 0: leave the cell out"
        )
    if np.isinf(data).any():
        name = _name_of(counts, np.isinf(data), names)
        raise DataError(
            f"X: expected finite numbers, got infinity (inf) in column {name}; replace it by "
            "a number"
        )


def _name_of(counts: Any, entries: NDArray[np.bool_], names: Sequence[str] | None) -> Any:
    """Return the column of the first of these entries."""
    column = int(counts.indices[np.argmax(entries)])
    return column if names is None else repr(names[column])


def is_signed(counts: Any) -> bool:
    """Return whether some entry is negative."""
    return bool(counts.nnz and counts.data.min() < 0.0)


def check_counts_of_words(counts: Any, names: Sequence[str]) -> None:
    """Refuse negative entries, naming the first one's column."""
    if not is_signed(counts):
        return
    data = counts.data
    raise DataError(
        f"X: expected counts of at least 0 in a sparse table (Negative values in data), got "
        f"{data[np.argmax(data < 0)]:g} in column {_name_of(counts, data < 0, names)}; give "
        "density='auto' with tradeoff=0 or 'auto' in fit, which take any sign (logistic "
        "regression), hash words with alternate_sign=False, give text and numbers as columns of "
        "one data frame, or use X.toarray() for measurements"
    )


def content(counts: Any, columns: Hashes | None = None) -> Floats:
    """Return a number from 0 to 1 that tells rows of counts apart, 0 where empty, (n_rows,).

    `columns` (n_words,): What tells words apart, their places if None.
    """
    return (_hashed_rows(counts, columns) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _hashed_rows(counts: Any, columns: Hashes | None) -> Hashes:
    with np.errstate(over="ignore"):
        told = counts.indices.astype(np.uint64) if columns is None else columns[counts.indices]
        key = mixed((counts.data.view(np.uint64) ^ (told * GOLDEN)) - GOLDEN)
        sums = np.append(np.uint64(0), np.cumsum(key, dtype=np.uint64))  # they wrap around
        found: Hashes = sums[counts.indptr[1:]] - sums[counts.indptr[:-1]]
    return found


def _hashed_columns(counts: Any) -> Hashes:
    """Return a hash of each column, whatever the order of rows and columns and equal rows."""
    some = counts[np.unique(_hashed_rows(counts, None), return_index=True)[1]]
    row = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
    columns = np.zeros(some.shape[1], dtype=np.uint64)
    for _ in range(2):
        keys = mixed(some.data.view(np.uint64) ^ _hashed_rows(some, columns)[row])
        columns = np.zeros_like(columns)
        np.add.at(columns, some.indices, keys)
    return columns
