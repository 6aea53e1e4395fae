"""What each column of a table is, learnt once and frozen.

A :class:`Schema` turns tables into one matrix of floats: numbers as they are, booleans as 0 and 1,
categories as integer codes, NaN wherever a cell is missing.
Which kind a column gets is decided in :mod:`crossfade.table.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._checks import check_choice, counted, listed, show
from crossfade.errors import DataError
from crossfade.table.columns import Column, Columns, read_columns, where
from crossfade.table.columnwise import ColumnArrays
from crossfade.table.documents import MixedRows, check_counts_of_words, is_signed
from crossfade.table.factorise import Factorised, recode
from crossfade.table.kinds import Kind, column_index, declared_kinds, detect_kinds
from crossfade.table.matrix import (
    as_floats,
    booleans_of,
    by_column,
    check_counts,
    in_pair,
    refuse_empty,
    stacked,
    to_numbers,
)
from crossfade.table.text import Text
from crossfade.table.weights import check_weights


def check_handle_unknown(value: Any) -> None:
    """Refuse what is no way to handle a category that fit did not see."""
    remedy = "'ignore' treats a category not seen in fit as missing"
    check_choice("handle_unknown", value, ("ignore", "error"), remedy)


@dataclass(frozen=True)
class Schema:
    """Names, kinds and categories of a table's columns.

    Shapes: kinds tuple of {"continuous", "count", "boolean", "categorical", "text", "identifier"}.
    `names`: Column names; "x0", "x1", … where the table had none.
    `categories`: For a categorical column its categories: code c stands for ``categories[j][c]``.
        Ascending as learnt; later ones (:meth:`extended`) at the end. Empty where no cell was seen.
        For a boolean column that is not 0 and 1 its one or two values, else None.
    `has_names`: Whether the names came with the table.
    `texts`: How columns of text are cut into words, None for others; () where there is none. The
        categories of such a column are its words.
    `sparse`: Whether all columns are one sparse block of counts, `signed` of numbers of any sign.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    categories: tuple[tuple[Any, ...] | None, ...]
    has_names: bool
    sparse: bool = False
    texts: tuple[Text | None, ...] = ()
    signed: bool = False

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def reads_words(self) -> bool:
        """Whether there is free text or a sparse block."""
        return self.sparse or bool(self.texts)

    def __getstate__(self) -> dict[str, Any]:
        # The lookup tables are made again when first needed.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    # -- learning --------------------------------------------------------------------------------

    @classmethod
    def learn(
        cls,
        X: Any,
        declared: Mapping[Any, str | Text] | str | Text | None = None,
        *,
        sample_weight: Any = None,
        of_all: bool = True,
        signed: bool = False,
    ) -> Schema:
        """Return the schema of a table; `of_all`: of all rows, not of the first of batches.

        `signed`: Whether a sparse table may hold negative numbers.

        Shapes: X (n_rows, n_columns); sample_weight (n_rows,).
        """
        columns = read_columns(X)
        if columns.words is not None:
            count: Kind = "count"
            nothing = (None,) * len(columns.names)
            kinds_of_all = (count,) * len(columns.names)
            signed = signed and is_signed(columns.words)
            named = columns.names, kinds_of_all, nothing, columns.has_names
            return cls(*named, sparse=True, signed=signed)
        weights = check_weights(sample_weight, columns.n_rows)
        kept = None if weights is None or bool(weights.all()) else weights > 0
        kinds = declared_kinds(columns, declared)
        refuse_empty(columns)
        pairs = detect_kinds(columns, kinds, weights, of_all=of_all)
        settled = cast("list[Kind]", kinds)
        explicit = declared is not None
        two = {j: None if pair == (0, 1) else pair for j, pair in pairs.items()}
        texts = _texts(columns, declared, settled)
        categories = by_column(
            columns,
            lambda index: (
                two[index]
                if index in two
                else _categories(columns, index, settled[index], kept, texts, explicit=explicit)
            ),
        )
        return cls(columns.names, tuple(settled), tuple(categories), columns.has_names, texts=texts)

    def n_levels(self, columns: Sequence[int]) -> list[int]:
        """Return how many categories columns have, 1 where none is known."""
        return [max(1, len(self.categories[j] or ())) for j in columns]

    def extended(self, X: Any) -> Schema:
        """Return a schema that also knows the new categories of `X` (n_rows, n_columns)."""
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
        return replace(self, categories=tuple(categories))

    # -- encoding --------------------------------------------------------------------------------

    def encode(
        self,
        X: Any,
        handle_unknown: Literal["ignore", "error"] = "ignore",
        *,
        in_place: bool = False,
    ) -> Any:
        """Return the table as one matrix, or as :class:`MixedRows` where it has words.

        `in_place`: Whether numbers may stay as they lie, by rows or by columns; see `as_floats`.
        Shapes: X (n_rows, n_features); → (n_rows, n_features).
        """
        check_handle_unknown(handle_unknown)
        columns = self._matching(X)
        if self.sparse:
            return self._counts(columns)
        plain = self._plain(columns, in_place)
        if plain is not None:
            return plain
        encoded = by_column(
            columns,
            lambda index: self._encode_column(columns.columns[index], index, handle_unknown),
        )
        numbers = stacked(encoded, columns.n_rows)
        words = {
            index: self._word_counts(columns.columns[index], index)
            for index, text in enumerate(self.texts)
            if text is not None
        }
        return MixedRows.of(numbers, words) if words else numbers

    def _word_counts(self, column: Column, index: int) -> Any:
        text, vocabulary = self.texts[index], self.categories[index]
        assert text is not None
        assert vocabulary is not None
        values, codes = text_cells(column)
        if column.words is None or column.words[0] is not vocabulary:
            column.words = vocabulary, text.counts(values, vocabulary)
        counts = column.words[1]
        # A missing cell is one without words.
        return _with_empty_row(counts)[codes]

    def decode(self, matrix: NDArray[Any]) -> list[list[Any]]:
        """Return the columns of a matrix in the table's own values, None where missing.

        Shapes: matrix (n_rows, n_features).
        """
        decoded: list[list[Any]] = []
        for index, known in enumerate(self.categories):
            values = matrix[:, index].tolist()
            if self.kinds[index] == "identifier":
                decoded.append([None for _ in values])
            elif known is not None:
                decoded.append([None if v != v else known[int(v)] for v in values])
            elif self.kinds[index] == "boolean":
                decoded.append([None if v != v else bool(v) for v in values])
            else:
                decoded.append([None if v != v else v for v in values])
        return decoded

    def index(self, column: Any, parameter: str = "declared") -> int:
        """Return the position of a column given by name or position."""
        return column_index(self.names, self.has_names, column, parameter)

    def where(self, index: int) -> str:
        """Return what to call a column in messages."""
        return where(self.names, self.has_names, index)

    def _matching(self, X: Any) -> Columns:
        columns = read_columns(X, sparse=self.sparse)
        if columns.words is not None and not self.sparse:
            raise DataError(
                "X: expected a dense table as in fit, got a sparse one; use X.toarray(), or fit "
                "on a sparse table"
            )
        if len(columns.names) != self.n_features:
            raise DataError(
                f"X: expected the {counted(self.n_features, 'column')} of fit, got "
                f"{len(columns.names)}; "
                + _difference(self.names, columns.names, self.has_names and columns.has_names)
            )
        if self.has_names and columns.has_names and columns.names != self.names:
            raise DataError(
                "X: expected the columns of fit in the same order; "
                + _difference(self.names, columns.names, True)
            )
        return columns

    def _counts(self, columns: Columns) -> MixedRows:
        counts = columns.counted().words
        if not self.signed:
            check_counts_of_words(counts, self.names)
        return MixedRows.of(np.zeros((columns.n_rows, 1)), {0: counts}, in_order=False)

    def encode_columns(self, columns: Columns) -> Any:
        """Return the same, uncopied where nothing in it is changed: by columns, or these apart.

        What fit did not see is refused.
        """
        arrays = self._matching(columns).arrays
        if arrays is None or str(arrays[0].dtype) != "float64" or not self._all_continuous:
            return self.encode(columns, "error", in_place=True)
        return ColumnArrays(tuple(arrays))

    @property
    def _all_continuous(self) -> bool:
        coded = any(known is not None for known in self.categories)
        return not coded and set(self.kinds) == {"continuous"}

    def _plain(self, columns: Columns, in_place: bool) -> NDArray[Any] | None:
        """Return the table's own array of numbers if nothing in it needs a code or a check."""
        coded = any(known is not None for known in self.categories)
        matrix = None if coded else columns.matrix
        if matrix is None:
            return None
        counts, booleans = (
            [index for index, kind in enumerate(self.kinds) if kind == wanted]
            for wanted in ("count", "boolean")
        )
        if matrix.dtype.kind == "f":
            plain = set(self.kinds) <= {"continuous", "boolean"} and all(
                bool(in_pair(matrix[:, index], (0, 1)).all()) for index in booleans
            )
            return as_floats(matrix, in_place=in_place) if plain else None
        if matrix.dtype.kind in "iu" and len(matrix) and (counts or booleans):
            low, high = matrix.min(axis=0), matrix.max(axis=0)
            if low[counts + booleans].min() < 0 or high[booleans].max(initial=0) > 1:
                return None
        return as_floats(matrix)

    def _encode_column(self, column: Column, index: int, handle_unknown: str) -> NDArray[Any]:
        if self.kinds[index] in ("text", "identifier"):
            return np.zeros(len(column.factorised[1]))
        known, kind = self.categories[index], self.kinds[index]
        pair = known if kind == "boolean" and known is not None and len(known) == 2 else ("",)
        if column.numbers is not None and not isinstance(pair[0], str):
            return booleans_of(column.numbers, pair, column.where, handle_unknown)
        if known is not None:
            return self._coded(column, index, handle_unknown)
        values = to_numbers(column)
        if kind == "count":
            check_counts(values, column.where)
        if kind == "boolean" and column.storage != "boolean":
            return booleans_of(values, (0, 1), column.where, handle_unknown)
        return values

    def _coded(self, column: Column, index: int, handle_unknown: str) -> NDArray[np.float64]:
        values, codes = self._factorised(column, index)
        lookup = self._lookups[index]
        assert lookup is not None
        positions = np.append(recode(values, lookup).astype(np.float64), -1.0)
        unseen = positions[:-1] < 0
        if handle_unknown == "error" and unseen.any():
            new = [values[i] for i in np.flatnonzero(unseen)[:3].tolist()]
            times = int(np.isin(codes, np.flatnonzero(unseen)).sum())
            raise DataError(
                f"{column.where}: expected only categories seen in fit, got "
                f"{', '.join(show(value) for value in new)} ({int(unseen.sum())} new, in "
                f"{counted(times, 'row')}); fit on rows that have them, or set "
                "handle_unknown='ignore' to treat such cells as missing"
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


def _categories(
    columns: Columns,
    index: int,
    kind: Kind,
    kept: NDArray[np.bool_] | None,
    texts: tuple[Text | None, ...],
    *,
    explicit: bool,
) -> tuple[Any, ...] | None:
    """Return the categories of a column, and check that a declared kind fits its cells."""
    if kind == "text":
        column, text = columns.columns[index], texts[index]
        assert text is not None
        text_cells(column)
        seen = _seen(column, kept)
        found, counts = text.learn(seen, column.where)
        if seen is column.factorised[0]:
            column.words = found, counts  # which encoding the same rows asks for next
        if not found:
            raise DataError(
                f"{column.where}: expected words, got none that {text!r} keeps; lower min_df, or "
                "choose another analyzer or token_pattern, or drop the column"
            )
        return found
    if kind == "identifier":
        return None
    if kind == "categorical":
        return tuple(_seen(columns.columns[index], kept))
    if not explicit:
        return None
    column = columns.columns[index]
    if kind == "boolean" and column.storage != "boolean":
        values = _seen(column, kept)
        if len(values) > 2:
            raise DataError(
                f"{column.where}: expected at most two values for the density 'bernoulli', "
                f"got {len(values)} ({', '.join(show(v) for v in values[:3])}, …); give it "
                "the density 'categorical' or 'gaussian'"
            )
        return None if all(v in (0, 1) for v in values) else tuple(values)
    if kind == "count":
        check_counts(to_numbers(column), column.where)
    return None


def _texts(
    columns: Columns, declared: Mapping[Any, str | Text] | str | Text | None, kinds: list[Kind]
) -> tuple[Text | None, ...]:
    """Return how the columns of text are cut into words, () where there is none."""
    if "text" not in kinds:
        return ()
    given: dict[int, Text] = {}
    if isinstance(declared, Text):
        given = dict.fromkeys(range(len(kinds)), declared)
    if isinstance(declared, Mapping):
        for key, one in declared.items():
            if isinstance(one, Text):
                given[column_index(columns.names, columns.has_names, key)] = one
    return tuple(given.get(j, Text()) if kind == "text" else None for j, kind in enumerate(kinds))


def _with_empty_row(counts: Any) -> Any:
    indptr = np.append(counts.indptr, counts.indptr[-1])
    shape = (counts.shape[0] + 1, counts.shape[1])
    return scipy.sparse.csr_array((counts.data, counts.indices, indptr), shape=shape)


def text_cells(column: Column) -> Factorised:
    """Return a column's different texts and codes; refuse numbers."""
    values, codes = column.factorised
    if values and not isinstance(values[0], str):
        raise DataError(
            f"{column.where}: expected text, got numbers (such as {show(values[0])}); use another "
            "density for the column, or turn its cells into text"
        )
    return values, codes


def _seen(column: Column, kept: NDArray[np.bool_] | None) -> list[Any]:
    values, codes = column.factorised
    if kept is None:
        return values
    used = np.bincount(codes[kept] + 1, minlength=len(values) + 1)[1:] > 0
    return [values[i] for i in np.flatnonzero(used).tolist()]


def _difference(expected: Sequence[str], got: Sequence[str], named: bool) -> str:
    """Say how two lists of column names differ."""
    if not named:
        return "select the columns used in fit"
    missing = [name for name in expected if name not in set(got)]
    extra = [name for name in got if name not in set(expected)]
    parts = []
    if missing:
        parts.append(f"missing: {listed(missing)}")
    if extra:
        parts.append(f"not in fit: {listed(extra)}")
    if not parts:
        parts.append(f"the order in fit was {listed(expected)}")
    return "; ".join(parts)
