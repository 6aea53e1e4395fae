"""What a fit must know of rows before it sums over them, found in one pass over their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import counted, show
from crossfade.errors import DataError
from crossfade.table.columns import Columns, read_columns, where
from crossfade.table.contents import GOLDEN, mixed
from crossfade.table.documents import is_sparse
from crossfade.table.kinds import (
    Kind,
    declared_kinds,
    joined_cells,
    kind_of_words,
    kinds_of_cells,
    maybe_two,
    seen_cells,
)
from crossfade.table.labels import Coded, encode_labels, recoded
from crossfade.table.schema import Schema
from crossfade.table.source import Part, RowSource, no_rows, rows_of

#: Most rows of the sample on which λ, densities and the weights of a pool are chosen.
SAMPLE_ROWS = 20_000

#: Rows of the sample that a class has at least, if it has as many.
_FEWEST_OF_A_CLASS = 10

#: Rows whose keys are made at a time.
_KEYED_ROWS = 1 << 13

#: Most different texts of a column that are remembered.
_MOST_TEXTS = 1_000_000

Result = TypeVar("Result")


@dataclass(frozen=True)
class Survey:
    """What columns hold and which labels there are.

    `columns`: Numbers of the columns that were looked at.
    `seen` (7, n_columns): What their kinds follow from, see :mod:`crossfade.table.kinds`.
    `storage`: What the cells of each are.
    `values`: The different values of columns of text, and of those declared categorical.
    `cells`: Cells of each column that are not missing, where its values are remembered.
    `labels`: How many rows each label has.
    `weights`: What each label's rows weigh.
    `lengths`: Rows of each part.
    """

    columns: tuple[int, ...]
    seen: NDArray[np.float64]
    storage: tuple[str, ...]
    values: tuple[frozenset[Any] | None, ...]
    cells: NDArray[np.float64]
    labels: dict[Any, int]
    weights: dict[Any, float]
    dtype: Any
    lengths: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    def joined(self, other: Survey) -> Survey:
        """Return the same for the rows of both."""
        if len(other.storage) != len(self.storage):
            raise DataError(
                f"X: expected {counted(len(self.storage), 'column')} in every part of the rows, "
                f"got {len(other.storage)}; select the same columns everywhere"
            )
        pairs = zip(self.values, other.values, strict=True)
        return replace(
            self,
            seen=joined_cells(self.seen, other.seen),
            storage=tuple(map(_joined_storage, self.storage, other.storage)),
            values=tuple(a if b is None else b if a is None else a | b for a, b in pairs),
            cells=self.cells + other.cells,
            labels=_added(self.labels, other.labels),
            weights=_added(self.weights, other.weights),
            dtype=self.dtype if self.dtype == other.dtype else _common(self.dtype, other.dtype),
            lengths=self.lengths + other.lengths,
        )

    def classes(self) -> NDArray[Any]:
        """Return the different labels in order."""
        labels = list(self.labels)
        kinds = {isinstance(label, str) for label in labels}
        if len(kinds) > 1:
            text, number = (
                next(one for one in labels if isinstance(one, str) == k) for k in (True, False)
            )
            raise DataError(
                f"y: expected labels of one type in all parts of the rows, got {show(text)} and "
                f"{show(number)}; make them all text or all numbers"
            )
        inexact = [one for one in labels if isinstance(one, float) and not abs(one) <= 2.0**53]
        if inexact:
            raise DataError(
                f"y: expected classes, got the number {inexact[0]:g}; whole numbers are exact up "
                "to 2^53: correct the labels, or make those of more digits text"
            )
        found = encode_labels(np.array(labels, dtype=self.dtype), minimum=1)[0]
        if len(found) < 2:
            only = f"1 class ({show(found[0])} in all {counted(self.n_rows, 'row')})"
            raise DataError(
                f"y: expected at least 2 classes, got {only}; add rows of another class "
                "or choose another target"
            )
        return found

    def counts(self, classes: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows of each class, shape (n_classes,)."""
        return np.array([self.labels[label] for label in classes.tolist()], dtype=np.int64)

    def class_weights(self, classes: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the rows of each class weigh, shape (n_classes,)."""
        return np.array([self.weights[label] for label in classes.tolist()], dtype=np.float64)

    def schema(self, source: RowSource, declared: Any = None) -> Schema:
        """Return the schema that a table of all rows would have."""
        names, has_names = source.names, source.has_names
        given = declared_kinds(_named(names, has_names), declared)
        settled = source.settled
        kinds: list[Any] = [kind or settled.get(j) for j, kind in enumerate(given)]
        categories: list[tuple[Any, ...] | None] = [None] * len(names)
        found, pairs = kinds_of_cells(self.seen)
        for place, j in enumerate(self.columns):
            values, storage = self.values[place], self.storage[place]
            called = where(names, has_names, j)
            kind = given[j] or found[place]
            if storage == "mixed":
                raise DataError(
                    f"{called}: expected cells of one type in all parts of the rows, got text and "
                    "numbers; give the column one type"
                )
            if given[j] is None and (
                storage == "boolean and numbers" or (storage == "0/1" and kind != "boolean")
            ):
                raise DataError(
                    f"{called}: expected true and false (or 1 and 0), or numbers, got both in "
                    "parts of the rows; give the column one type"
                )
            if kind is None and storage == "category":
                texts = sorted(values or (), key=str)
                kind = kind_of_words(texts, float(self.cells[place]))
            kinds[j] = kind or "continuous"
            if place in pairs and pairs[place] != (0, 1):
                categories[j] = pairs[place]
            if kinds[j] == "text":
                raise DataError(
                    f"{called}: expected no free text in rows that are read in parts, got some; "
                    "drop the column, or fit to a table in memory"
                )
            if kinds[j] == "categorical":
                categories[j] = tuple(sorted(values or ()))
            if kinds[j] == "boolean" and given[j] and not (values or set()) <= {0, 1}:
                categories[j] = _two(sorted(values or ()), called)
        return Schema(names, tuple(cast("list[Kind]", kinds)), tuple(categories), has_names)


def _added(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return one | {label: one.get(label, 0) + number for label, number in other.items()}


def _named(names: tuple[str, ...], has_names: bool) -> Columns:
    return Columns(names, has_names, 0)


def _joined_storage(one: str, other: str) -> str:
    if one == "missing" or one == other:
        return other
    if other == "missing":
        return one
    pair = {one, other}
    if pair & {"category", "mixed"}:
        return "mixed"
    if pair <= {"boolean", "integer", "0/1"}:
        return "0/1"  # or not: all cells tell
    return "boolean and numbers" if pair & {"boolean", "0/1", "boolean and numbers"} else "float"


def _common(one: Any, other: Any) -> Any:
    return object if "O" in (one.kind, other.kind) else np.result_type(one, other)


def _two(values: list[Any], called: str) -> tuple[Any, ...]:
    if len(values) > 2:
        raise DataError(
            f"{called}: expected at most two values for the density 'bernoulli', got "
            f"{len(values)}; give it the density 'categorical' or 'gaussian'"
        )
    return tuple(values)


@dataclass(frozen=True)
class _Surveyor:
    """Makes a :class:`Survey` of a part."""

    names: tuple[str, ...]
    has_names: bool
    columns: tuple[int, ...]
    declared: Any

    def __call__(self, part: Part) -> Survey:
        return self.of_columns(part, self.labels(part))

    def labels(self, part: Part) -> Coded:
        """Return the different labels of a part, and which of them each row has."""
        return encode_labels(part.labels, minimum=1, n_samples=rows_of(part.table))

    def of_columns(self, part: Part, coded: Coded, columns: Columns | None = None) -> Survey:
        """Return the survey of a part; `columns` are all of the source's, where they are read."""
        if is_sparse(part.table):
            raise DataError(
                "X: expected dense parts of rows, got sparse ones; fit to a table in memory"
            )
        weights = part.beside.get("sample_weight")
        n_rows = rows_of(part.table)
        found, codes = coded
        counts = np.bincount(codes, minlength=len(found))
        labels = dict(zip(found.tolist(), counts.tolist(), strict=True))
        sums = np.bincount(codes, weights, minlength=len(found)).astype(np.float64)
        weighed = dict(zip(found.tolist(), sums.tolist(), strict=True))
        if not self.columns:
            none = np.zeros((7, 0))
            return Survey((), none, (), (), none[0], labels, weighed, found.dtype, (n_rows,))
        columns = read_columns(part.table) if columns is None else columns.at(self.columns)
        kinds = declared_kinds(_named(self.names, self.has_names), self.declared)
        own = [kinds[j] for j in self.columns]
        seen = seen_cells(columns, np.array([kind is None for kind in own]), weights)
        values: list[frozenset[Any] | None] = []
        storage, cells = [], np.zeros(len(own))
        for place, kind in enumerate(own):
            column = columns.columns[place]
            storage.append("missing" if not column.has_cells() else column.storage)
            if column.storage == "category" or kind in ("categorical", "boolean", "text"):
                different, own_codes = column.factorised
                if len(different) > _MOST_TEXTS:
                    raise _too_many(column.where)
                values.append(frozenset(different))
                cells[place] = np.count_nonzero(own_codes >= 0)
                if column.storage == "category":
                    storage[-1] = "category"
            else:
                values.append(None)
        return Survey(
            self.columns,
            seen,
            tuple(storage),
            tuple(values),
            cells,
            labels,
            weighed,
            found.dtype,
            (n_rows,),
        )


def _too_many(called: str) -> DataError:
    return DataError(
        f"{called}: expected at most {_MOST_TEXTS:,} different texts, got more; drop the column if "
        "it is an identifier, or group its values"
    )


def _joined(one: Survey, other: Survey) -> Survey:
    joined = one.joined(other)
    for place, values in enumerate(joined.values):
        if values is not None and len(values) > _MOST_TEXTS:
            raise _too_many(f"X: column {joined.columns[place]}")
    return joined


def survey(
    source: RowSource, declared: Any = None, *, columns: Sequence[int] | None = None
) -> Survey:
    """Look at all rows once, at no more columns than kinds and labels need, or at these."""
    looked = _to_be_looked_at(source, declared) if columns is None else tuple(columns)
    surveyor = _Surveyor(source.names, source.has_names, looked, declared)
    found = source.reduce_parts(surveyor, _joined, looked)
    if found is None:
        source.head()  # says more, if there is more to say
        raise no_rows()
    return found


def _to_be_looked_at(source: RowSource, declared: Any) -> tuple[int, ...]:
    """Return the columns whose kind or values neither type nor first rows tell."""
    kinds = declared_kinds(_named(source.names, source.has_names), declared)
    settled, learnt = source.settled, ("categorical", "boolean", "text")
    numbers = [j for j, kind in enumerate(kinds) if kind is None and settled.get(j) == "continuous"]
    two = set(source.peek(_MaybeTwo(tuple(numbers))) or ()) if numbers else set()
    return tuple(
        j for j, kind in enumerate(kinds) if j not in settled or kind in learnt or j in two
    )


@dataclass(frozen=True)
class _MaybeTwo:
    """Finds those of some columns that hold two different numbers at most in a part."""

    columns: tuple[int, ...]

    def __call__(self, part: Part) -> list[int]:
        return maybe_two(read_columns(part.table), self.columns)


# -- rows as numbers, and a sample of them --------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    """Makes numbers of a part: its matrix, and the class of each row in place of its label."""

    schema: Schema
    classes: NDArray[Any]

    def __call__(self, part: Part) -> Part:
        coded = encode_labels(part.labels, minimum=1, n_samples=rows_of(part.table))
        return self.of_columns(part, coded, read_columns(part.table))

    def of_columns(self, part: Part, coded: Coded, columns: Columns) -> Part:
        """Return the same of a part whose columns and labels have been read."""
        return self._coded(part, coded, self.schema.encode_columns(columns))

    def _coded(self, part: Part, coded: Coded, matrix: Any) -> Part:
        return part._replace(table=matrix, labels=recoded(coded, self.classes))


class Unforeseen(Exception):
    """All rows have other columns or labels than the first of them showed."""

    def __init__(self, found: Survey, declared: Any) -> None:
        super().__init__("the first rows do not tell what the others hold")
        self.found, self.declared = found, declared


@dataclass(frozen=True)
class Foresight:
    """What the first rows tell of all of them: the survey and the first sums then share a pass.

    `encoder`: Makes numbers of parts as they would be if all rows were as the first.
    `declared`: Kinds that were given.
    """

    encoder: Encoder
    surveyor: _Surveyor
    declared: Any

    def reduce(
        self,
        source: RowSource,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
    ) -> tuple[Survey, Result]:
        """Return the survey, and what a function of encoded parts gives; Unforeseen if it must."""
        encoder, surveyor = self.encoder, self.surveyor

        def of_part(part: Part) -> tuple[Survey, Result | None]:
            coded, columns = surveyor.labels(part), read_columns(part.table)
            found = surveyor.of_columns(part, coded, columns)
            try:
                return found, function(encoder.of_columns(part, coded, columns))
            except DataError:  # perhaps only because other cells were expected
                return found, None

        def of_both(one: Any, other: Any) -> tuple[Survey, Result | None]:
            wrong = one[1] is None or other[1] is None
            return _joined(one[0], other[0]), None if wrong else join(one[1], other[1])

        both = source.reduce_parts(of_part, of_both)
        if both is None:
            source.head()  # says more, if there is more to say
            raise no_rows()
        found, result = both
        classes = self.encoder.classes
        same = result is not None and np.array_equal(found.classes(), classes)
        if result is None or not same or found.schema(source, self.declared) != encoder.schema:
            raise Unforeseen(found, self.declared)
        return found, result


def foresee(source: RowSource, declared: Any = None) -> Foresight | None:
    """Return what the first rows of a source tell of the others, None where they tell too little.

    It costs no pass.
    """
    looked = _to_be_looked_at(source, declared)
    surveyor = _Surveyor(source.names, source.has_names, looked, declared)

    def of_part(part: Part) -> Survey:
        columns = read_columns(part.table) if looked else None
        return surveyor.of_columns(part, surveyor.labels(part), columns)

    try:
        found = source.peek(of_part)
        if found is None:
            return None
        encoder = Encoder(found.schema(source, declared), found.classes())
    except DataError:  # of a few rows, to which all the others might be added
        return None
    return Foresight(encoder, surveyor, declared)


@dataclass(frozen=True)
class _Drawn:
    """Rows of a sample, piece by piece: their numbers among all, and what they hold."""

    pieces: tuple[tuple[NDArray[np.int64], Part], ...]
    size: int

    def joined(self, other: _Drawn) -> _Drawn:
        both = _Drawn(self.pieces + other.pieces, self.size)
        if sum(len(rows) for rows, _ in both.pieces) <= 2 * self.size:
            return both
        return _Drawn((_smallest(both, self.size),), self.size)


def row_keys(first: int, n_rows: int) -> NDArray[np.uint64]:
    """Return a number for each row that only its position tells, shape (n_rows,)."""
    return _keys(np.arange(first, first + n_rows))


def _keys(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    return mixed(rows.astype(np.uint64) * GOLDEN)


@dataclass(frozen=True)
class Drawing:
    """Draws the rows with the smallest keys, but at least ten of each class with as many.

    `n_rows`: Of all parts, None where it is not known.
    """

    n_rows: int | None
    size: int

    def __call__(self, part: Part) -> _Drawn:
        n_rows = rows_of(part.table)
        counts = np.bincount(part.labels)
        # Of rows that are not counted yet, no part needs to give more than all may.
        share = share_of(self.size, n_rows if self.n_rows is None else self.n_rows)
        shares = np.maximum(share, [share_of(_FEWEST_OF_A_CLASS, n) for n in counts.tolist()])
        most = float(np.iinfo(np.uint64).max)
        limits = np.minimum(shares * most, most * (1 - 2.0**-52)).astype(np.uint64)
        found = [np.zeros(0, dtype=np.int64)]
        for start in range(0, n_rows, _KEYED_ROWS):  # what keys are made of stays in cache
            labels = part.labels[start : start + _KEYED_ROWS]
            keys = row_keys(part.first + start, len(labels))
            found.append(start + np.flatnonzero(keys <= limits[labels]))
        index = np.concatenate(found)
        X = np.asarray(part.table[index], dtype=np.float64)
        beside = {role: values[index] for role, values in part.beside.items()}
        drawn = Part(X, part.labels[index], part.first, beside)
        return _Drawn(((part.first + index, drawn),), self.size)


def share_of(size: int, total: float) -> float:
    """Return the share of rows of which nearly never too few are drawn."""
    return min(1.0, (size + 6.0 * np.sqrt(size)) / max(total, 1.0))


def drawn_rows(drawn: _Drawn, size: int) -> Part:
    """Return the rows of a sample in the order in which they came; labels are classes."""
    return _smallest(drawn, size)[1]


def _smallest(drawn: _Drawn, size: int) -> tuple[NDArray[np.int64], Part]:
    """Return the rows with the smallest keys, of each class the smallest in any case, in order."""
    rows = np.concatenate([own for own, _ in drawn.pieces])
    pieces = [piece for _, piece in drawn.pieces]
    X = np.concatenate([piece.table for piece in pieces])
    codes = np.concatenate([piece.labels for piece in pieces])
    roles = pieces[0].beside
    beside = {role: np.concatenate([piece.beside[role] for piece in pieces]) for role in roles}
    order = np.argsort(_keys(rows), kind="stable")
    place = np.empty(rows.size, dtype=np.int64)
    place[order] = np.arange(rows.size)
    for code in np.unique(codes):
        own = order[codes[order] == code][:_FEWEST_OF_A_CLASS]
        place[own] = -1
    index = np.argsort(place, kind="stable")[:size]
    index = index[np.argsort(rows[index], kind="stable")]
    beside = {role: values[index] for role, values in beside.items()}
    return rows[index], Part(X[index], codes[index], 0, beside)
