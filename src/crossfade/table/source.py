"""Rows that are not at hand as one table: sums of functions over their parts, and no more.

A fit asks three things of its rows: what columns and classes there are, sums of functions over
blocks, and an even sample. :class:`RowSource` answers all of them by one operation, a function of
every part of the rows whose results are joined. Where the parts are (in memory, in files, on the
workers of a cluster) is its own affair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import _safe_indexing

from crossfade._checks import did_you_mean, listed, show
from crossfade.errors import DataError
from crossfade.table.weights import no_weight, row_weights

#: Rows that tell where columns lie, roughly.
_HEAD_ROWS = 64

Result = TypeVar("Result")


class Part(NamedTuple):
    """Some consecutive rows.

    `table` (n_rows, n_features): A table without labels, or what has been made of it.
    `labels` (n_rows,): None where there are none.
    `first`: How many rows come before them.
    `beside`: Arrays of shape (n_rows,) that are neither features nor labels, such as weights.
    """

    table: Any
    labels: Any
    first: int
    beside: dict[str, Any] = {}  # noqa: RUF012  never written to


class RowSource(ABC):
    """Rows that come in parts, any number of times.

    `names`: Names of the columns besides the target; "x0", "x1", … where they have none.
    `n_rows`: Number of rows, None where it is not known before the first pass.
    `settled`: Kinds of columns that their type alone tells.
    `n_passes`: How often the rows have been read so far.
    `spare`: Products per cell that cost little beside getting at it at each pass.
    `progress`: Called with the rows done, the rows in all (0: not known) and what is being done.
    """

    names: tuple[str, ...]
    has_names: bool = True
    n_rows: int | None = None
    n_passes: int = 0
    spare: int = 32
    progress: Callable[[int, int, str], None] | None = None

    @property
    def settled(self) -> dict[int, str]:
        return {}

    @abstractmethod
    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        """Return what `function` makes of every part, joined in order; None without rows.

        Both must be picklable: they may be called elsewhere. Parts without rows are left out.
        `columns` says which columns are needed, None for all.
        """

    @abstractmethod
    def head(self) -> Part:
        """Return a few of the first rows, without a pass."""

    def peek(self, function: Callable[[Part], Result]) -> Result | None:
        """Return what a function makes of the first part, or some of it, without a pass.

        None where no row of it is left.
        """
        return function(self.head())

    def labelled(self, y: Any) -> RowSource:
        """Return the source with the column of this name as labels; None where it has them."""
        if y is None:
            return self
        raise DataError(
            f"y: expected none, since the source has its labels, got {show(y)}; leave it out"
        )

    def beside(self, **columns: Any) -> RowSource:
        """Return the source with the columns of these names beside the features, None for none."""
        named = {role: column for role, column in columns.items() if column is not None}
        return _Beside(self, named) if named else self

    def mapped(self, function: Callable[[Part], Part]) -> RowSource:
        """Return the source of what a function makes of every part."""
        return _Mapped(self, function)

    def close(self) -> None:
        """Let go of what was kept for further passes."""
        self.progress = None


class _Mapped(RowSource):
    """The parts of another source, a function applied to each at every pass."""

    def __init__(self, source: RowSource, function: Callable[[Part], Part]) -> None:
        self._source, self._function = source, function
        self.names, self.has_names, self.n_rows = source.names, source.has_names, source.n_rows
        self.spare = source.spare

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        return self._source.n_passes

    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        return _joined_parts(self._source, self._function, function, join, columns)

    def head(self) -> Part:
        return _head(self, self._function(self._source.head()))

    def close(self) -> None:
        self._source.close()


class _Beside(RowSource):
    """The rows of another source, some columns of which are no features.

    `columns`: Their names by what they are: "sample_weight", "offset", ….
    """

    def __init__(self, source: RowSource, columns: Mapping[str, Any]) -> None:
        for role, column in columns.items():
            if not (isinstance(column, str) and source.has_names and column in source.names):
                raise no_column_beside(role, column, source.names)
        self._source, self._columns, self.spare = source, dict(columns), source.spare
        self._places = [j for j, name in enumerate(source.names) if name not in columns.values()]
        self.names = tuple(source.names[j] for j in self._places)
        if not self.names:
            raise DataError(
                f"X: expected columns besides {listed(columns.values())}, got none; choose others"
            )

    @property
    def n_passes(self) -> int:  # type: ignore[override]
        return self._source.n_passes

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        return self._source.n_rows

    @property
    def settled(self) -> dict[int, str]:
        found = self._source.settled
        return {new: found[j] for new, j in enumerate(self._places) if j in found}

    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        inner: list[int] | None = None
        names = self.names if columns is None else [self.names[j] for j in columns]
        if columns is not None:
            own = [self._source.names.index(column) for column in self._columns.values()]
            inner = [*(self._places[j] for j in columns), *own]
        return _joined_parts(self._source, self._divider(names), function, join, inner)

    def _divider(self, names: Sequence[str]) -> Callable[[Part], Part]:
        """Return what divides a part; it holds no rows and no source, for it travels."""
        columns, names = self._columns, list(names)
        return lambda part: _divided(part, names, columns)

    def mapped(self, function: Callable[[Part], Part]) -> RowSource:
        divided = self._divider(self.names)

        def of_part(part: Part) -> Part:
            part = divided(part)
            return function(part) if rows_of(part.table) else part

        return self._source.mapped(of_part)

    def head(self) -> Part:
        return _head(self, self._divider(self.names)(self._source.head()))

    def peek(self, function: Callable[[Part], Result]) -> Result | None:
        divided = self._divider(self.names)

        def of_part(part: Part) -> Result | None:
            part = divided(part)
            return function(part) if rows_of(part.table) else None

        return self._source.peek(of_part)

    def close(self) -> None:
        self._source.close()


def _head(source: RowSource, found: Part) -> Part:
    """Return what was found, or, where no row of it is left, a few of the first that are."""
    if rows_of(found.table):
        return found
    first = source.reduce_parts(first_rows, lambda one, _: one)
    if first is None:
        raise no_weight(source.n_rows or 0)
    return first


def _joined_parts(
    source: RowSource,
    first: Callable[[Part], Part],
    function: Callable[[Part], Result],
    join: Callable[[Result, Result], Result],
    columns: Sequence[int] | None,
) -> Result | None:
    """Reduce what `first` makes of a source's parts, those left without rows aside."""

    def of_part(part: Part) -> Result | None:
        part = first(part)
        return function(part) if rows_of(part.table) else None

    def of_both(one: Result | None, other: Result | None) -> Result | None:
        if one is None or other is None:
            return other if one is None else one
        return join(one, other)

    return source.reduce_parts(of_part, of_both, columns)


def _divided(part: Part, names: list[str], columns: Mapping[str, str]) -> Part:
    frame = nw.from_native(part.table, eager_only=True)
    beside = {role: frame[column].to_numpy() for role, column in columns.items()}
    table = frame.select(names).to_native() if names else np.empty((frame.shape[0], 0))
    whole = part._replace(table=table, beside=beside)
    if "sample_weight" not in beside:
        return whole
    weights = row_weights(beside["sample_weight"], frame.shape[0])
    beside["sample_weight"] = weights
    # A weight of zero means absent, also for the categories and kinds that are learnt.
    return whole if weights.all() else _rows_at(whole, np.flatnonzero(weights))


class PartedSource(RowSource):
    """A source whose parts can be iterated here."""

    @abstractmethod
    def parts(self, columns: Sequence[int] | None) -> Any:
        """Yield :class:`Part` after part."""

    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        total: Result | None = None
        self.n_passes += 1
        for part in self.parts(columns):
            n = rows_of(part.table)
            if n:
                found = function(part)
                total = found if total is None else join(total, found)
            if self.progress is not None:
                self.progress(part.first + n, self.n_rows or 0, f"pass {self.n_passes}")
        return total

    def head(self) -> Part:
        return self.peek(first_rows)

    def peek(self, function: Callable[[Part], Result]) -> Result:
        for part in self.parts(None):
            if rows_of(part.table):
                return function(part)
        raise no_rows()


def first_rows(part: Part) -> Part:
    """Return some rows of a part, spread evenly."""
    n_rows = rows_of(part.table)
    if not n_rows:
        return part
    return _rows_at(part, np.unique(np.linspace(0, n_rows - 1, _HEAD_ROWS).astype(np.int64)))


def _rows_at(part: Part, index: Any) -> Part:
    labels = None if part.labels is None else _safe_indexing(part.labels, index)
    beside = {role: _safe_indexing(values, index) for role, values in part.beside.items()}
    return Part(_safe_indexing(part.table, index), labels, part.first, beside)


def no_rows() -> DataError:
    """Return the error of a source without rows."""
    return DataError("X: found 0 sample(s) while a minimum of 1 is required; give some rows")


class MemorySource(PartedSource):
    """A table in memory, handed out some rows at a time: the numbers are those of any source.

    Parameters
    ----------
    table : data frame or array of shape (n_rows, n_columns)
        With the target among its columns, or without.
    labels : array-like of shape (n_rows,) or str
        The target, or the name of its column.
    size : int, default=65,536
        Rows of a part.
    """

    def __init__(self, table: Any, labels: Any = None, size: int = 1 << 16) -> None:
        if isinstance(labels, str):
            table, labels = split_labels(table, labels)
        self.table, self.labels, self.size = table, labels, size
        head = _safe_indexing(table, slice(0, 1))
        self.n_rows = rows_of(table)
        self.names, self.has_names = names_of(head)

    def labelled(self, y: Any) -> RowSource:
        return self if y is None else MemorySource(self.table, y, self.size)

    def parts(self, columns: Sequence[int] | None) -> Any:
        for first in range(0, rows_of(self.table), self.size):
            some = slice(first, first + self.size)
            table = _safe_indexing(self.table, some)
            labels = None if self.labels is None else _safe_indexing(self.labels, some)
            yield Part(table, labels, first)


def names_of(table: Any) -> tuple[tuple[str, ...], bool]:
    """Return a table's column names, and whether it has any."""
    from crossfade.table.columns import read_columns

    columns = read_columns(table)
    return columns.names, columns.has_names


def rows_of(table: Any) -> int:
    """Return the number of a table's rows."""
    shape = getattr(table, "shape", None)
    return int(shape[0]) if shape is not None else len(table)


def split_labels(table: Any, target: str) -> tuple[Any, Any]:
    """Return a data frame without the target, and the target."""
    frame = nw.from_native(table, eager_only=True)
    if target not in frame.columns:
        raise no_column("y", target, frame.columns)
    return frame.drop(target).to_native(), frame[target].to_native()


def no_column_beside(role: str, column: Any, names: Sequence[str]) -> DataError:
    """Return the error of what should be a column beside the features."""
    return DataError(
        f"{role}: expected the name of a column, since the rows are read in parts, got "
        f"{show(column)}; the columns are {listed(names)}"
    )


def no_column(role: str, column: str, names: Sequence[str]) -> DataError:
    """Return the error of a column of labels, or with another role, that is not there."""
    remedy = did_you_mean(str(column), list(names), f"the columns are {listed(names)}")
    return DataError(f"{role}: expected a column of the table, got {show(column)}; {remedy}")
