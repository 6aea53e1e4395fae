"""Dask collections as sources of rows: sums on the workers, added up in a tree."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from crossfade._checks import counted, show
from crossfade._optional import import_optional
from crossfade.blocks import n_threads, threads
from crossfade.errors import ClusterError, DataError, MissingExtraError
from crossfade.table.source import (
    Part,
    RowSource,
    first_rows,
    names_of,
    no_column,
    no_rows,
    rows_of,
    split_labels,
)

Result = TypeVar("Result")

#: Results that are joined by one task.
_FAN_IN = 8

#: Bytes of a function that the scheduler sends in a pass, with every task.
_SENT = 1 << 20

#: Cells that a group of parts has at most: 512 MB.
_GROUP_CELLS = 1 << 26

#: How many times its fair share of the rows a worker may have before some are moved.
_UNEVEN = 1.15

#: A group of parts, by number, and the worker that is to have them.
Group = tuple[str | None, list[int]]


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


class DaskSource(RowSource):
    """The partitions of a Dask data frame or array.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array of shape (n_rows, n_columns)
    y : dask.dataframe.Series, dask.array.Array or str
        Of the same partitions, or the name of a column of `X`; None for no labels.
    """

    spare = 8  # the workers have the cells in memory

    def __init__(self, X: Any, y: Any = None) -> None:
        self._dask = import_optional("dask", "Dask collections")
        if isinstance(y, str):
            if y not in list(getattr(X, "columns", ())):
                raise no_column("y", y, list(getattr(X, "columns", ())))
        elif y is not None and not is_lazy(y):
            raise DataError(
                f"y: expected a Dask collection where X is one, or the name of a column, got "
                f"{type(y).__name__}; use dask.dataframe.from_pandas or dask.array.from_array"
            )
        self._collections = X, y
        self._parts: list[Any] | None = None
        self._lengths: list[int] = []
        self._places: list[str | None] = []
        self._held: tuple[Any, ...] = ()
        self._head: Part | None = None

    # -- partitions ------------------------------------------------------------------------------

    def _started(self) -> list[Any]:
        """Return the parts, kept by the workers from now on."""
        if self._parts is not None:
            return self._parts
        with _named_errors():
            pairs = self._pairs()
            self._places = _places(self._held, len(pairs))
            groups = _dealt(self._places, [1] * len(pairs), _threads_of_workers(), np.inf)
            names = _names_in(self._collections[0], self._collections[1])
            asked = [
                self._on(at, _lengths)([pairs[i] for i in group], names) for at, group in groups
            ]
            few = self._delay(_few)(pairs[0])  # in the same round
            *found, head = self._dask.compute(*asked, few)
        self._lengths = [0] * len(pairs)
        for (_, group), lengths in zip(groups, found, strict=True):
            for number, length in zip(group, lengths, strict=True):
                self._lengths[number] = length
        self._head = head if self._lengths[0] else None
        firsts = [sum(self._lengths[:number]) for number in range(len(pairs))]
        self.n_rows = sum(self._lengths)
        # No nodes of the graph, but what makes one part in any task.
        self._parts = [[pair, first] for pair, first in zip(pairs, firsts, strict=True)]
        self.names, self.has_names = names_of(self.head().table)
        return self._parts

    def _pairs(self) -> list[Any]:
        """Return a table and its labels for every part, on the workers."""
        X, y = self._collections
        tables = delayed_parts(whole_rows(X))
        labels = [] if y is None or isinstance(y, str) else delayed_parts(y)
        if labels and len(labels) != len(tables):
            raise DataError(
                f"y: expected the {len(tables)} partitions of X, got {len(labels)}; take y "
                "from the same collection as X, or repartition it"
            )
        # The parts, not the collections: a scheduler in this process would write out the graph of
        # these in its thread, under locks that `persist` waits for here, holding what it waits for.
        kept = self._dask.persist(*tables, *labels)
        self._held = kept  # the workers forget what nobody here holds
        tables, labels = kept[: len(tables)], kept[len(tables) :]
        if not labels:
            # Labels are split off where they lie: apart they might lie elsewhere than their rows.
            return [self._delay(_divided)(table, y) for table in tables]
        return [[t, label] for t, label in zip(tables, labels, strict=True)]

    def _delay(self, function: Any) -> Any:
        return self._dask.delayed(function, pure=False, traverse=False)

    def _on(self, worker: str | None, function: Any) -> Callable[..., Any]:
        """Return a function that runs on this worker, if it is alive."""

        def call(*arguments: Any) -> Any:
            if worker is None:
                return self._delay(function)(*arguments)
            with self._dask.annotate(workers=[worker], allow_other_workers=True):
                return self._delay(function)(*arguments)

        return call

    @property
    def names(self) -> tuple[str, ...]:
        if "_names" not in self.__dict__:
            self._started()
        return self._names

    @names.setter
    def names(self, names: tuple[str, ...]) -> None:
        self._names = names

    def head(self) -> Part:
        used = self._used()  # the start finds the head, where the first part has rows
        for part in used if self._head is None else ():
            with _named_errors():
                head = self._delay(_first_of_some)(part).compute()
            if head is not None:
                self._head = head
                break
        if self._head is None:
            raise no_rows()
        return self._head

    def peek(self, function: Callable[[Part], Result]) -> Result | None:
        code = self._packed(function, 1)
        first = next((part for part in self._used()), None)
        if first is None:
            raise no_rows()
        with _named_errors():
            return self._delay(_of_first)(code, first).compute()

    def reduce_parts(
        self,
        function: Callable[[Part], Result],
        join: Callable[[Result, Result], Result],
        columns: Sequence[int] | None = None,
    ) -> Result | None:
        groups, self.n_passes = self._groups(), self.n_passes + 1
        del columns  # what workers hold is not read again
        if not groups:
            return None
        code, joining = self._packed(function, len(groups)), self._packed(join, len(groups))
        level = [self._on(at, _sums)(code, joining, group) for at, group in groups]
        while len(level) > _FAN_IN:
            level = [
                self._delay(_join)(joining, level[first : first + _FAN_IN])
                for first in range(0, len(level), _FAN_IN)
            ]
        with _named_errors():
            found = self._dask.compute(*level)
        return _joined(join, found)

    def _used(self) -> list[Any]:
        """Return the parts with rows."""
        return [part for part, n in zip(self._started(), self._lengths, strict=True) if n]

    def _groups(self, uneven: float = np.inf) -> list[tuple[str | None, Any]]:
        """Return the parts with rows, in groups that lie together, and where.

        A task costs milliseconds, whatever it does: one for each thread and pass, so that none
        waits, to be stolen, and no rows travel; more where rows are many.

        `uneven`: How many times its fair share of the rows a worker may have; others get the rest.
        """
        parts, lengths = self._started(), self._lengths
        with _named_errors():
            workers = _threads_of_workers()
        most = max(1, _GROUP_CELLS // max(len(self.names), 1))
        groups = _dealt(self._places, lengths, workers, uneven, most)
        return [(at, [parts[i] for i in group]) for at, group in groups]

    def _packed(self, function: Any, n_tasks: int) -> Any:
        """Return what tasks unpack: for many of them a node of the graph, sent to a worker once.

        Such a node is computed again if its worker dies, but its result travels between workers.
        """
        code = _pickle().dumps(function)
        return code if len(code) * n_tasks <= _SENT else self._delay(_constant)(code)

    def mapped(self, function: Callable[[Part], Part]) -> RowSource:
        return _Kept(self, function)

    def close(self) -> None:
        self._parts, self._held = None, ()


class _Kept(DaskSource):
    """What a function makes of the parts of another source, kept by the workers in groups.

    What it leaves as it is, they hold once.
    """

    def __init__(self, source: DaskSource, function: Callable[[Part], Part]) -> None:
        self._dask, self._source, self._head = source._dask, source, None
        self._function, self._parts = function, None
        self.names, self.has_names = source.names, source.has_names
        self.n_rows = source.n_rows
        self._started()

    def _started(self) -> list[Any]:
        if self._parts is None:
            # Rows travel once, before the passes, where one worker has far more than the others.
            groups = self._source._groups(_UNEVEN)
            code = self._packed(self._function, len(groups))
            parts = [self._on(at, _mapped)(code, group) for at, group in groups]
            self._source.n_passes += 1
            with _named_errors():
                self._parts = list(self._dask.persist(*parts))
        return self._parts

    def head(self) -> Part:
        if self._head is None:
            try:
                # Made here: the workers need not have finished the first part.
                self._head = self._function(self._source.head())
            except DataError:  # theirs tells which row it is
                return super().head()
        return self._head

    def _used(self) -> list[Any]:
        return self._started()

    def _groups(self, uneven: float = np.inf) -> list[tuple[str | None, Any]]:
        return [(None, group) for group in self._started()]

    @property
    def n_passes(self) -> int:
        return self._source.n_passes

    @n_passes.setter
    def n_passes(self, number: int) -> None:
        self._source.n_passes = number

    def close(self) -> None:
        self._parts = None
        self._source.close()


def _dealt(
    places: Sequence[str | None],
    sizes: Sequence[int],
    threads: dict[str | None, int],
    uneven: float,
    most: float = np.inf,
) -> list[Group]:
    """Return the parts in groups, one for each thread of a worker, on the worker that has them.

    From a worker with more than `uneven` times its fair share, parts go to that with the least.

    `most`: The largest size of a group.
    """
    own: dict[str | None, list[int]] = {worker: [] for worker in threads}
    loads = dict.fromkeys(threads, 0.0)  # by thread

    def give(part: int, worker: str | None) -> None:
        own[worker].append(part)
        loads[worker] += sizes[part] / threads[worker]

    for part, place in enumerate(places):
        give(part, place if place in threads else min(loads, key=lambda w: loads[w]))
    fair = sum(sizes) / sum(threads.values())
    while True:
        fullest, emptiest = (pick(loads, key=lambda w: loads[w]) for pick in (max, min))
        gap = loads[fullest] - loads[emptiest]
        fitting = [part for part in own[fullest] if 0 < sizes[part] / threads[emptiest] < gap]
        if loads[fullest] <= uneven * fair or not fitting:
            break
        own[fullest].remove(fitting[-1])
        loads[fullest] -= sizes[fitting[-1]] / threads[fullest]
        give(fitting[-1], emptiest)
    groups: list[Group] = []
    for worker, parts in own.items():
        held = np.array(sorted(part for part in parts if sizes[part]), dtype=np.int64)
        lengths = np.array([sizes[part] for part in held])
        ends = np.cumsum(lengths)
        total = ends[-1] if len(ends) else 0
        number = max(threads[worker], math.ceil(total / most))
        group = ((ends - lengths / 2) * number // max(total, 1)).astype(int)
        groups += [(worker, held[group == one].tolist()) for one in np.unique(group)]
    return groups


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


def whole_rows(X: Any) -> Any:
    """Return an array whose chunks are whole rows."""
    return X.rechunk({1: -1}) if getattr(X, "ndim", 0) == 2 and hasattr(X, "rechunk") else X


def delayed_parts(collection: Any) -> list[Any]:
    """Return the parts of a collection, as what computes them."""
    with suppress(MissingExtraError), _named_errors():
        distributed = import_optional("distributed", "Dask clusters")
        if any(held.client.status == "closed" for held in distributed.futures_of(collection)):
            raise ClusterError(
                "X, y: expected partitions that workers hold for a client, got those of one that "
                "was closed; connect to the scheduler, and read or persist the rows again"
            )
    found = collection.to_delayed()
    return list(found.ravel()) if hasattr(found, "ravel") else list(found)


def _client() -> Any:
    """Return the client of a cluster, None where threads here do the work."""
    try:
        return import_optional("distributed", "Dask clusters").default_client()
    except (MissingExtraError, ValueError):
        return None


def _threads_of_workers() -> dict[str | None, int]:
    """Return how many threads each worker has; a place without a name is here."""
    client = _client()
    return {None: n_threads()} if client is None else client.nthreads() or {None: 1}


def _places(kept: Sequence[Any], n_parts: int) -> list[str | None]:
    """Return which worker has each of the first parts that are kept, once all are made."""
    client = _client()
    futures = [] if client is None else client.futures_of(kept)
    if not futures:
        return [None] * n_parts
    import_optional("distributed", "Dask clusters").wait(futures)
    held = client.who_has(futures)
    return [next(iter(held.get(part.key, ())), None) for part in kept[:n_parts]]


def _divided(table: Any, target: str | None) -> tuple[Any, Any]:
    return (table, None) if target is None else split_labels(table, target)


def _parts_of(given: Any) -> list[Part]:
    """Return the parts of a part, of a pair with the number of its first row, or of a list."""
    if isinstance(given, Part):
        return [given]
    if len(given) == 2 and isinstance(given[1], int):
        (table, labels), first = given
        return [Part(table, labels, first)]
    return [part for one in given for part in _parts_of(one)]


def _names_in(X: Any, y: Any) -> list[Any] | None:
    """Return the columns that a collection says its parts have, the labels apart."""
    names = getattr(X, "columns", None)
    return (
        None if names is None else [name for name in names if not isinstance(y, str) or name != y]
    )


def _lengths(pairs: list[tuple[Any, Any]], names: list[Any] | None = None) -> list[int]:
    """Return how many rows each part has; refuse one with other columns than these."""
    for table, labels in pairs:
        found = list(table.columns) if names is not None else []
        if names is not None and found != names and rows_of(table):
            words = [f"{show(name)} is missing" for name in names if name not in found][:3]
            words += [f"{show(name)} is new" for name in found if name not in names][:3]
            raise DataError(
                "X: expected the collection's columns in every partition, but in one "
                f"{', '.join(words) or 'they have another order'}; select them where it is made: "
                "table[columns]"
            )
        if labels is not None and rows_of(labels) != rows_of(table):
            raise DataError(
                f"y: expected {counted(rows_of(table), 'label')} in a partition, got "
                f"{rows_of(labels)}; take y from the same collection as X"
            )
    return [rows_of(table) for table, _ in pairs]


def _pickle() -> Any:
    return import_optional("cloudpickle", "Dask collections")


def _constant(code: bytes) -> bytes:
    return code


@functools.lru_cache(maxsize=4)
def _unpacked(code: bytes) -> Any:
    return _pickle().loads(code)


def _mapped(code: bytes, parts: Any) -> list[Part]:
    function = _unpacked(code)
    # The workers' own threads take some parts each.
    with threads(1):
        return [function(part) for part in _parts_of(parts)]


def _few(pair: tuple[Any, Any]) -> Part:
    _lengths([pair])  # else a row that one of them lacks is looked for
    return first_rows(Part(*pair, 0))


def _first_of_some(parts: Any) -> Part | None:
    return next((first_rows(part) for part in _parts_of(parts) if rows_of(part.table)), None)


def _of_first(code: bytes, part: Any) -> Any:
    with threads(1):
        return _unpacked(code)(_parts_of(part)[0])


def _sums(code: bytes, joining: bytes, parts: Any) -> Any:
    function, total = _unpacked(code), None
    with threads(1):
        for part in _parts_of(parts):
            if rows_of(part.table):
                found = function(part)
                total = found if total is None else _unpacked(joining)(total, found)
    return total


def _join(code: bytes, results: list[Any]) -> Any:
    return _joined(_unpacked(code), results)


def _joined(join: Callable[[Any, Any], Any], results: Sequence[Any]) -> Any:
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
        if isinstance(error, ClusterError) or not _is_of_cluster(error):
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
