"""Sums over blocks of rows: the one place that knows of threads.

Everything Crossfade computes from data is a sum over rows (sufficient statistics, values,
gradients, Hessians) or a function of single rows (posteriors). Both are taken block by block, each
block small enough to stay in cache, on a few threads. The rows are cut into a fixed number of
chunks, whatever the number of threads, and chunk results are added in order, so that a result
never depends on the machine's core count. BLAS is held to one thread inside, since blocks already
occupy the cores.

The number of threads is the number of usable cores; the environment variable
``CROSSFADE_NUM_THREADS`` overrides it, and :func:`threads` does so for a ``with`` block.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import lru_cache
from multiprocessing import current_process
from queue import Queue
from threading import Condition, Event, Thread, current_thread, local, main_thread
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController, threadpool_limits

#: Rows in a block: 2,048 rows of 50 doubles are 800 kB, which stays in a second-level cache.
BLOCK_ROWS = 2048

#: Chunks of consecutive blocks: more than the threads, so that the last one is not waited for.
CHUNKS = 16

#: Rows whose blocks keep all threads busy.
MANY_ROWS = CHUNKS * BLOCK_ROWS

#: Rows below which a fit is short calls that hold the interpreter's lock; threads gain nothing.
_FEW_ROWS = 2 * BLOCK_ROWS

#: Cells of a table from which loops over them are worth a second thread.
_MANY_CELLS = 1_000_000

_requested: ContextVar[int | None] = ContextVar("crossfade_threads", default=None)
_inside = local()

Sums = TypeVar("Sums")
Item = TypeVar("Item")
Result = TypeVar("Result")


def n_threads() -> int:
    """Return how many threads a block sum may use: set, ``CROSSFADE_NUM_THREADS`` or all cores."""
    requested = _requested.get()
    if requested is not None:
        return requested
    from_environment = os.environ.get("CROSSFADE_NUM_THREADS", "")
    if from_environment.isdigit() and int(from_environment) > 0:
        return int(from_environment)
    return _usable_cores()


def is_nobodys_worker() -> bool:
    """Return whether this is the main thread of a main process, which shares no cores yet."""
    return current_thread() is main_thread() and current_process().name == "MainProcess"


@lru_cache(maxsize=1)
def _usable_cores() -> int:
    return max(1, int(joblib.cpu_count()))


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Use this many threads inside the ``with`` block.

    Parameters
    ----------
    number : int
        At least 1.

    Raises
    ------
    ValueError
        If `number` is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.blocks import threads
    >>> with threads(1):
    ...     model = NaiveBayes(tradeoff=1).fit(np.array([[0.1], [0.3], [2.2], [2.4]]), [0, 0, 1, 1])
    >>> model.predict([[2.0]])
    array([1])
    """
    if number != int(number) or number < 1:
        raise ValueError(
            f"number: expected a positive integer, got {number!r}; use 1 for no threads"
        )
    token = _requested.set(int(number))
    try:
        yield
    finally:
        _requested.reset(token)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    # Looking the libraries up costs milliseconds, so it is done once, when BLAS is loaded.
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    import scipy.linalg.blas  # noqa: F401  SciPy carries its own BLAS; it must be found too.

    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Let BLAS use one thread; inside such a context, nothing is done."""
    if getattr(_inside, "active", False) or getattr(_inside, "limited", False):
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        _inside.limited = True
        try:
            yield
        finally:
            _inside.limited = False


@contextmanager
def few_threads(n_cells: int) -> Iterator[None]:
    """Let others' compiled code use one thread, unless it reads many cells.

    Threads of OpenMP wait for each other after every small loop, spinning: where cores are busy
    with other work, gradient boosting of a small table takes tens of times as long on two.
    """
    if n_cells >= _MANY_CELLS:
        yield
        return
    with threadpool_limits(limits=1, user_api="openmp"):
        yield


@lru_cache(maxsize=4)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="crossfade")


if hasattr(os, "register_at_fork"):
    # A forked child has the pool's bookkeeping but none of its threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _slices(n_rows: int, block_rows: int) -> list[list[slice]]:
    """Cut rows into blocks and group consecutive blocks into chunks."""
    starts = list(range(0, n_rows, block_rows))
    blocks = [slice(start, min(start + block_rows, n_rows)) for start in starts]
    size = -(-len(blocks) // CHUNKS) if blocks else 1
    return [blocks[i : i + size] for i in range(0, len(blocks), size)]


def _run(work: Callable[[list[slice]], Any], chunks: list[list[slice]]) -> Iterator[Any]:
    """Yield the chunks' results in order, as they come."""
    number = min(n_threads(), len(chunks))
    if number <= 1 or getattr(_inside, "active", False):
        with single_threaded_blas():
            for chunk in chunks:
                yield work(chunk)
        return

    def guarded(chunk: list[slice], context: Context) -> Any:
        _inside.active = True
        try:
            return context.run(work, chunk)
        finally:
            _inside.active = False

    # What the caller set for itself (numpy.errstate, above all) holds on the threads as well.
    contexts = [copy_context() for _ in chunks]
    with single_threaded_blas():
        yield from _pool(number).map(guarded, chunks, contexts)


def workspace(purpose: str, *shape: int, dtype: type = np.float64) -> NDArray[Any]:
    """Return this thread's own C-ordered array for a purpose, to be overwritten within a block.

    Memory freed and asked for again at every block would go back to the system in between, and
    clearing it anew costs more than using it.
    """
    arrays: dict[tuple[str, type], NDArray[Any]] = _inside.__dict__.setdefault("arrays", {})
    size = math.prod(shape)
    known = arrays.get((purpose, dtype))
    if known is None or known.size < size:
        known = arrays[purpose, dtype] = np.empty(size, dtype)
    return known[:size].reshape(shape)


def workspace_like(purpose: str, block: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Return this thread's own array of as many rows and `width` columns, laid out as a block."""
    if block.flags.c_contiguous:
        return workspace(purpose, len(block), width)
    return workspace(f"{purpose}, by columns", width, len(block)).T


def add_sums(total: Any, part: Any) -> Any:
    """Return the sum of two results of the same shape, added in place where they are arrays.

    Takes arrays, numbers, tuples of these, or anything with ``+``; `total`'s arrays are changed.
    """
    if isinstance(total, tuple):
        return tuple(add_sums(t, p) for t, p in zip(total, part, strict=True))
    if isinstance(total, np.ndarray) and total.ndim:
        total += part
        return total
    return total + part


def block_sum(
    function: Callable[[slice], Sums], n_rows: int, *, block_rows: int = BLOCK_ROWS
) -> Sums:
    """Sum ``function(rows)`` over blocks of rows; the sums are the same for any number of threads.

    `function`: Takes a slice of rows, an empty one too; returns a fresh array, a number, or a tuple
        of these (nested tuples allowed), always of the same shapes. Threads help where its heavy
        parts release the interpreter lock (NumPy, BLAS, Numba with ``nogil``).
    """
    if n_rows <= block_rows:
        return function(slice(0, n_rows))

    def work(chunk: list[slice]) -> Any:
        total = function(chunk[0])
        for rows in chunk[1:]:
            total = add_sums(total, function(rows))
        return total

    parts = _run(work, _slices(n_rows, block_rows))
    total = next(parts)
    for part in parts:
        total = add_sums(total, part)
    return total


def for_each_block(
    function: Callable[[slice], None], n_rows: int, *, block_rows: int = BLOCK_ROWS
) -> None:
    """Call ``function(rows)`` for each block of rows, on threads; it writes its own rows only."""
    if n_rows == 0:
        return
    if n_rows <= block_rows:
        function(slice(0, n_rows))
        return

    def work(chunk: list[slice]) -> None:
        for rows in chunk:
            function(rows)

    for _ in _run(work, _slices(n_rows, block_rows)):
        pass


def map_fits(
    function: Callable[[Item], Result], items: Sequence[Item], n_rows: int
) -> list[Result]:
    """Return ``function(item)`` for every item, each of which sums over `n_rows` rows.

    Where the rows make only a few blocks, sums over them leave threads waiting for each other: then
    every thread takes an item of its own. Otherwise items come one after the other.
    """
    if not _FEW_ROWS <= n_rows < MANY_ROWS:
        return [function(item) for item in items]

    results: list[Any] = [None] * len(items)

    def work(rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            results[i] = function(items[i])

    for_each_block(work, len(items), block_rows=1)
    return results


class Together:
    """Sums that several fits ask for, taken in common passes over the rows.

    A pass over rows that are not at hand takes longer than the sums themselves, so that fits which
    go on at the same time wait for each other: once all of them have asked, one pass serves all.

    `take`: Returns the sums of several functions, in one pass.
    """

    def __init__(self, take: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._take = take
        self._changed = Condition()
        self._asked: list[tuple[Any, list[Any]]] = []
        self._fits = 0
        self._stopped = False

    def total(self, function: Callable[..., Sums]) -> Sums:
        """Return the sum of a function, once every fit that goes on has asked for one."""
        answer: list[Any] = []
        with self._changed:
            self._asked.append((function, answer))
            self._serve()
            self._changed.wait_for(lambda: bool(answer) or self._stopped)
        if not answer:
            raise RuntimeError("the fit was stopped")
        sums, error = answer
        if error is not None:
            raise error
        return sums

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``function(item)`` for every item, each on a thread of its own.

        A fit may do the same with its own parts, for which it waits.
        """
        if len(items) < 2:
            return [function(item) for item in items]
        results: list[Any] = [None] * len(items)
        errors: list[BaseException] = []
        left = len(items)

        def work(number: int, context: Context) -> None:
            _inside.active = True  # whoever takes the pass has all threads for it
            try:
                results[number] = context.run(function, items[number])
            except BaseException as error:
                errors.append(error)
            finally:
                nonlocal left
                with self._changed:
                    left -= 1
                    if left or not nested:  # the last part's turn is the waiting fit's again
                        self._fits -= 1
                        self._serve()

        fits = [
            Thread(target=work, args=(number, copy_context()), daemon=True)
            for number in range(len(items))
        ]
        with self._changed:
            nested = self._fits > 0
            self._fits += len(fits) - nested
        try:
            with single_threaded_blas():
                for fit in fits:
                    fit.start()
                for fit in fits:
                    fit.join()
        except BaseException:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            raise
        if errors:
            raise errors[0]
        return results

    def _serve(self) -> None:
        """Take the pass if nobody is left who could ask for more of it."""
        if not self._asked or len(self._asked) < self._fits:
            return
        asked, self._asked = self._asked, []
        before = getattr(_inside, "active", False)
        _inside.active = False
        try:
            for (_, answer), sums in zip(asked, self._take([f for f, _ in asked]), strict=True):
                answer.extend((sums, None))
        except BaseException as error:
            for _, answer in asked:
                answer[:] = [None, error]
        finally:
            _inside.active = before
        self._changed.notify_all()


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the same items, the next ones of which are made meanwhile, on a thread.

    Examples
    --------
    >>> from crossfade.blocks import read_ahead
    >>> list(read_ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    made: Queue[tuple[Any, BaseException | None]] = Queue(2)
    enough, end = Event(), object()

    def make() -> None:
        try:
            for item in items:
                made.put((item, None))
                if enough.is_set():
                    return
            made.put((end, None))
        except BaseException as error:
            made.put((end, error))

    reader = Thread(target=make, daemon=True)
    reader.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        enough.set()
        while reader.is_alive():
            while not made.empty():
                made.get()
            reader.join(0.01)
