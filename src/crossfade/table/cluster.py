"""Dask collections as sources of rows: sums on the workers, added up in a tree."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np

from crossfade._optional import import_optional
from crossfade.blocks import threads
from crossfade.errors import ClusterError, DataError
from crossfade.table.source import (
    Part,
    RowSource,
    first_rows,
    names_of,
    no_column_beside,
    no_rows,
    no_target,
    rows_of,
)

__all__ = [
    "DaskSource",
    "as_source",
    "comes_in_parts",
    "is_lazy",
    "joined_cluster",
    "part_by_part",
]

Result = TypeVar("Result")

#: Results that are joined by one task.
_FAN_IN = 8


def is_lazy(X: Any) -> bool:
    """Return whether a table is a Dask collection."""
    return hasattr(X, "__dask_graph__")


def comes_in_parts(X: Any) -> bool:
    """Return whether the rows of a table are not at hand."""
    return isinstance(X, RowSource) or is_lazy(X)


def as_source(X: Any, y: Any, **beside: Any) -> RowSource | None:
    """Return a source of rows with labels, None for tables in memory.

    `beside`: Names of columns that are no features, by parameter; None where there is none.
    """
    if isinstance(X, RowSource):
        return X.labelled(y).beside(**beside)
    if is_lazy(X):
        return DaskSource(X, y).beside(**beside)
    if is_lazy(y):
        raise DataError(
            f"X: expected a Dask collection where y is one, got {type(X).__name__}; use y.compute()"
        )
    return None


def part_by_part(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a table take sources and Dask collections: part by part, lazily there.

    What the method takes beside the table, unless it is a number, are then names of columns.
    """

    @functools.wraps(method)
    def of_any(self: Any, X: Any, **beside: Any) -> Any:
        numbers = {name: value for name, value in beside.items() if isinstance(value, float)}
        given = {
            name: value
            for name, value in beside.items()
            if value is not None and name not in numbers
        }
        if isinstance(X, RowSource):
            parts: list[Any] = []

            def keep(part: Part) -> None:
                parts.append(method(self, part.table, **part.beside, **numbers))

            X.beside(**given).reduce_parts(keep, lambda one, other: None)
            if not parts:
                raise no_rows()
            return np.concatenate(parts)
        if is_lazy(X):
            return _lazily(self, method, X, given, numbers)
        return method(self, X, **beside)

    return of_any


def _lazily(
    model: Any,
    method: Callable[..., Any],
    X: Any,
    beside: dict[str, Any],
    numbers: dict[str, float],
) -> Any:
    """Return a dask array of what a method makes of each partition."""
    dask = import_optional("dask", "Dask collections")
    array = import_optional("dask.array", "Dask collections")
    for name, column in beside.items():
        if not isinstance(column, str) or column not in list(getattr(X, "columns", ())):
            raise no_column_beside(name, column, list(getattr(X, "columns", ())))
    tables = _delayed(_whole_rows(X))
    shape, dtype = _result_of(model, method.__name__, numbers)
    call = dask.delayed(_of_table, pure=False, traverse=False)
    kept = dask.delayed(model, pure=False, traverse=False)
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(tables)
    blocks = [
        array.from_delayed(call(kept, method.__name__, table, beside, numbers), (n, *shape), dtype)
        for table, n in zip(tables, chunks, strict=True)
    ]
    return array.concatenate(blocks, allow_unknown_chunksizes=True)


def _result_of(model: Any, name: str, numbers: dict[str, float]) -> tuple[tuple[int, ...], Any]:
    """Return the shape of a row's result, and its type."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return (), np.dtype(np.float64)
    if name == "predict":
        return (), np.dtype(object) if "reject" in numbers else classes.dtype
    of_rows = ("score_samples", "outlier_score", "outlier_p_value")
    alone = name in of_rows or (name == "decision_function" and classes.size == 2)
    return () if alone else (classes.size,), np.dtype(np.float64)


def _of_table(
    model: Any, name: str, table: Any, beside: dict[str, str], numbers: dict[str, float]
) -> Any:
    if not rows_of(table):
        shape, dtype = _result_of(model, name, numbers)
        return np.empty((0, *shape), dtype)
    given = {role: table[column] for role, column in beside.items()}
    with threads(1):
        own = table.drop(columns=list(set(beside.values()))) if beside else table
        return getattr(model, name)(own, **given, **numbers)


class DaskSource(RowSource):
    """The partitions of a Dask data frame or array.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array of shape (n_rows, n_columns)
    y : dask.dataframe.Series, dask.array.Array or str
        Of the same partitions, or the name of a column of `X`; None for no labels.
    """

    def __init__(self, X: Any, y: Any = None) -> None:
        self._dask = import_optional("dask", "Dask collections")
        if isinstance(y, str):
            if y not in list(getattr(X, "columns", ())):
                raise no_target(y, list(getattr(X, "columns", ())))
            X, y = X.drop(columns=[y]), X[y]
        if y is not None and not is_lazy(y):
            raise DataError(
                f"y: expected a Dask collection where X is one, or the name of a column, got "
                f"{type(y).__name__}; use dask.dataframe.from_pandas or dask.array.from_array"
            )
        self._collections = X, y
        self._parts: list[Any] | None = None
        self._lengths: list[int] = []
        self._held: Any = None
        self._head: Part | None = None

    # -- partitions ------------------------------------------------------------------------------

    def _started(self) -> list[Any]:
        """Return the parts, kept by the workers from now on."""
        if self._parts is not None:
            return self._parts
        with _named_errors():
            pairs = self._pairs()
            self._lengths = list(self._dask.compute(*[self._delay(_length)(p) for p in pairs]))
        firsts = [sum(self._lengths[:number]) for number in range(len(pairs))]
        self.n_rows = sum(self._lengths)
        self._parts = [
            self._delay(_part)(pair, first) for pair, first in zip(pairs, firsts, strict=True)
        ]
        head = self.head()
        self.names, self.has_names = names_of(head.table)
        return self._parts

    def _pairs(self) -> list[Any]:
        """Return a table and its labels for every part, on the workers."""
        X, y = self._collections
        kept = self._dask.persist(*([_whole_rows(X)] if y is None else [_whole_rows(X), y]))
        self._held = kept  # the workers forget what nobody here holds
        tables = _delayed(kept[0])
        labels = [None] * len(tables) if y is None else _delayed(kept[1])
        if len(labels) != len(tables):
            raise DataError(
                f"y: expected the {len(tables)} partitions of X, got {len(labels)}; take y "
                "from the same collection as X, or repartition it"
            )
        return [self._delay(_pair)(t, label) for t, label in zip(tables, labels, strict=True)]

    def _delay(self, function: Any) -> Any:
        return self._dask.delayed(function, pure=False, traverse=False)

    @property
    def names(self) -> tuple[str, ...]:
        if "_names" not in self.__dict__:
            self._started()
        return self._names

    @names.setter
    def names(self, names: tuple[str, ...]) -> None:
        self._names = names

    def head(self) -> Part:
        parts = self._parts if self._parts is not None else self._started()
        for part, length in zip(parts, self._lengths, strict=True):
            if length and self._head is None:
                with _named_errors():
                    head = self._delay(first_rows)(part).compute()
                self._head = head if rows_of(head.table) else None
        if self._head is None:
            raise no_rows()
        return self._head

    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        parts, self.n_passes = self._started(), self.n_passes + 1
        del columns  # what workers hold is not read again
        used = [part for part, n in zip(parts, self._lengths, strict=True) if n]
        if not used:
            return None
        # One node of the graph holds the function: it goes to a worker once, and is computed again
        # there if that worker dies.
        code, joining = self._packed(function), self._packed(join)
        level = [self._delay(_sums)(code, part) for part in used]
        while len(level) > 1:
            level = [
                self._delay(_join)(joining, level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
        with _named_errors():
            return level[0].compute()

    def _packed(self, function: Any) -> Any:
        return self._delay(_constant)(_pickle().dumps(function))

    def mapped(self, function: Callable[[Part], Part]) -> RowSource:
        return _Kept(self, function)

    def close(self) -> None:
        self._parts = self._held = None


class _Kept(DaskSource):
    """What a function makes of the parts of another source, kept by the workers."""

    def __init__(self, source: DaskSource, function: Callable[[Part], Part]) -> None:
        self._dask, self._source, self._head = source._dask, source, None
        self._function, self._parts = function, None
        self.names, self.has_names = source.names, source.has_names
        self.n_rows, self._lengths = source.n_rows, source._lengths
        self._started()

    def _started(self) -> list[Any]:
        if self._parts is None:
            code = self._packed(self._function)
            parts = [self._delay(_call)(code, part) for part in self._source._started()]
            self._source.n_passes += 1
            with _named_errors():
                self._parts = list(self._dask.persist(*parts))
        return self._parts

    @property
    def n_passes(self) -> int:
        return self._source.n_passes

    @n_passes.setter
    def n_passes(self, number: int) -> None:
        self._source.n_passes = number

    def close(self) -> None:
        self._parts = None
        self._source.close()


@contextmanager
def joined_cluster(address: str) -> Iterator[None]:
    """Use the cluster with this scheduler's address, or processes here for "local"."""
    distributed = import_optional("distributed", "Dask clusters")
    if address != "local" and "://" not in address:
        raise DataError(
            f"--cluster: expected local or an address such as tcp://10.0.0.1:8786, got {address!r}"
            "; a scheduler prints its own when it starts"
        )
    with ExitStack() as stack:
        try:
            where = address
            if address == "local":
                own = distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
                where = stack.enter_context(own)
            stack.enter_context(distributed.Client(where, timeout=10))
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"--cluster: expected a scheduler at {address}, got no answer "
                f"({type(error).__name__}); start one with: dask scheduler"
            ) from None
        yield


def _whole_rows(X: Any) -> Any:
    """Return an array whose chunks are whole rows."""
    return X.rechunk({1: -1}) if getattr(X, "ndim", 0) == 2 and hasattr(X, "rechunk") else X


def _delayed(collection: Any) -> list[Any]:
    found = collection.to_delayed()
    return list(found.ravel()) if hasattr(found, "ravel") else list(found)


def _pair(table: Any, labels: Any) -> tuple[Any, Any]:
    return table, labels


def _part(pair: tuple[Any, Any], first: int) -> Part:
    return Part(*pair, first)


def _length(pair: tuple[Any, Any]) -> int:
    table, labels = pair
    n_rows = rows_of(table)
    if labels is not None and rows_of(labels) != n_rows:
        raise DataError(
            f"y: expected {n_rows} labels in a partition, got {rows_of(labels)}; take y from the "
            "same collection as X"
        )
    return n_rows


def _pickle() -> Any:
    return import_optional("cloudpickle", "Dask collections")


def _constant(code: bytes) -> bytes:
    return code


def _call(code: bytes, part: Part) -> Any:
    function = _pickle().loads(code)
    # The workers' own threads take a part each.
    with threads(1):
        return function(part)


def _sums(code: bytes, part: Part) -> Any:
    return _call(code, part) if rows_of(part.table) else None


def _join(code: bytes, results: list[Any]) -> Any:
    join = _pickle().loads(code)
    results = [result for result in results if result is not None]
    if not results:
        return None
    # What a worker holds may be needed once more: it is not added to.
    total = copy.deepcopy(results[0])
    for result in results[1:]:
        total = join(total, result)
    return total


@contextmanager
def _named_errors() -> Iterator[None]:
    """Turn what a lost cluster raises into one error that says so."""
    try:
        yield
    except BaseException as error:
        if not _is_of_cluster(error):
            raise
        raise ClusterError(
            f"the cluster: expected the sums of all partitions, got {type(error).__name__} "
            f"({' '.join(str(error).split())[:200]}); nothing was fitted: start the scheduler and "
            "its workers, and fit again"
        ) from error


def _is_of_cluster(error: BaseException) -> bool:
    named = type(error).__module__.partition(".")[0] == "distributed"
    cancelled = type(error).__name__ in ("CancelledError", "FutureCancelledError")
    return named or cancelled or isinstance(error, (OSError, TimeoutError))
