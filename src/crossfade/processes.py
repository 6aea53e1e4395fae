"""Work that is not done by the main thread: on several processes, or on a thread beside it.

A small fit is short calls that hold the interpreter's lock, so that threads wait for each other.
Processes do not; but each takes a second or two to start, and has its own copy of the data.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from contextvars import copy_context
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from threading import Thread
from time import perf_counter, sleep
from typing import Any, Final, TypeVar

from crossfade.blocks import is_nobodys_worker, n_threads, threads

#: How the names of the folders begin in which functions wait for processes.
_FOLDER: Final = "crossfade-"

#: Seconds of work left from which starting processes pays.
_WORTH_SECONDS = 4.0

#: Seconds that work has to stop at an interrupt before it is left behind.
_PATIENCE: Final = 0.3

#: Seconds that the main thread waits at a time, so that it obeys Ctrl-C.
_WAKE_SECONDS: Final = 0.5

#: Number of the Linux call that asks for a signal when the parent ends.
_PR_SET_PDEATHSIG: Final = 1

#: Whether processes wait for more work when theirs is done, and those that do, if any.
_keeping = False
_waiting: Any = None

Item = TypeVar("Item")
Result = TypeVar("Result")


def apart(work: Callable[[], Result]) -> Result:
    """Return ``work()``, done by a thread of its own where this is the main thread.

    The main thread only waits, so that it obeys Ctrl-C and time limits even while the work sits in
    one long compiled call. What does not stop then is left behind, to stop at its next instruction.
    """
    if not is_nobodys_worker():
        return work()
    found: Future[Result] = Future()
    context = copy_context()

    def run() -> None:
        try:
            found.set_result(context.run(work))
        except BaseException as error:
            found.set_exception(error)

    thread = Thread(target=run, daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_WAKE_SECONDS)  # not without end: Windows would not wake it at Ctrl-C
    except BaseException:
        _end(thread)
        raise
    return found.result()


def _end(thread: Thread) -> None:
    """Let a thread end at its next instruction of Python; wait for that a little."""
    import ctypes

    identity = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(SystemExit))
    if thread.ident is not None:
        thread.join(_PATIENCE)


def map_in_order(
    function: Callable[[Item], Result], items: Sequence[Item], *, share: bool = True
) -> Iterator[Result]:
    """Yield ``function(item)`` for each item, in order; on processes where that saves time.

    The first item is worked on here, which tells how long the others will take, unless processes
    wait for work.
    """
    done, left = 0, 0.0
    share = share and min(n_threads(), len(items)) > 1 and is_nobodys_worker()
    if items and not (share and _waiting):
        start = perf_counter()
        first = function(items[0])
        done, left = 1, (perf_counter() - start) * (len(items) - 1)
        yield first
    if not share or not (_waiting or left > _WORTH_SECONDS):
        yield from map(function, items[done:])
        return
    number = n_threads() if _waiting else min(n_threads(), len(items) - done)
    rest = iter(list(enumerate(items))[done:])
    known: dict[int, Result] = {}
    chosen = _work_elsewhere(partial(_second, function), lambda: next(rest, None), number)
    with closing(chosen) as results:
        for (place, _), result in results:
            known[place] = result
            while done in known:
                yield known.pop(done)
                done += 1


def _second(function: Callable[[Item], Result], numbered: tuple[int, Item]) -> Result:
    return function(numbered[1])


@contextmanager
def processes_kept() -> Iterator[None]:
    """Let processes that are started inside wait for more work: to start them takes seconds."""
    global _keeping, _waiting
    _keeping = True
    try:
        yield
    finally:
        _keeping, waiting, _waiting = False, _waiting, None
        if waiting is not None:
            waiting.shutdown(wait=True, kill_workers=True)


def _kill_workers() -> None:
    """End the pool's processes at once: joblib would first look for children of theirs."""
    for child in multiprocessing.active_children():
        if child.name.startswith("LokyProcess"):
            child.terminate()


def _end_with(parent: int) -> None:
    """Let this process end when its parent does, and at Ctrl-C, whatever it is doing then."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not _asked_for_signal():
        Thread(target=_watch, args=(parent,), daemon=True).start()
    if _has_ended(parent):  # before the signal was asked for
        os._exit(1)


def _asked_for_signal() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)


def _watch(parent: int) -> None:
    while not _has_ended(parent):
        sleep(1.0)
    os._exit(1)


def _has_ended(parent: int) -> bool:
    """Return whether the parent has ended, also where nobody has asked for its exit status yet."""
    if os.getppid() != parent:
        return True
    try:
        status = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # no such folder on this system
        return False
    # The name in brackets may hold anything; the state is the first letter after it.
    return status.rpartition(")")[2].split()[0] in "ZX"


def _alone(function: Callable[[Item], Result], item: Item) -> Result:
    with threads(1):
        return function(item)


def work_as_chosen(
    function: Callable[[Item], Result],
    choose: Callable[[], Item | None],
    seconds_left: Callable[[], float | None],
    *,
    share: bool = True,
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, ``function(item)``) of what `choose` gives, until it gives None.

    It is asked for the next item when there is room for one, after all that is done was yielded.
    Items are worked on here until so many seconds are left that processes save time. What is under
    way when the reader stops, or is interrupted, is stopped.
    """
    number = n_threads() if share and is_nobodys_worker() else 1
    while True:
        left = seconds_left() if number > 1 else None
        if left is not None and left > _WORTH_SECONDS:
            break
        item = choose()
        if item is None:
            return
        yield item, function(item)
    yield from _work_elsewhere(function, choose, number)


def _work_elsewhere(
    function: Callable[[Item], Result], choose: Callable[[], Item | None], number: int
) -> Generator[tuple[Item, Result], None, None]:
    """Yield the same from so many processes; what is lost there is worked on here."""
    under_way: dict[Any, Item] = {}
    from joblib.externals.loky import BrokenProcessPool

    try:
        with closing(_as_chosen(function, choose, number, under_way)) as results:
            yield from results
    except (pickle.PicklingError, AttributeError, BrokenProcessPool):
        # What was lost, and what is left, is worked on here.
        for lost in list(under_way.values()):
            yield lost, function(lost)
        while (item := choose()) is not None:
            yield item, function(item)


def _as_chosen(
    function: Callable[[Item], Result],
    choose: Callable[[], Item | None],
    number: int,
    under_way: dict[Any, Item],
) -> Generator[tuple[Item, Result], None, None]:
    from joblib.externals.loky import FIRST_COMPLETED, get_reusable_executor, wait
    from joblib.externals.loky.backend.reduction import dumps

    global _waiting
    _remove_left_behind()
    # The data are in the function: written once, and read once by each process.
    with TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-") as folder:
        path = Path(folder) / "function"
        try:
            path.write_bytes(dumps(function))
        except Exception as error:  # of what kind depends on what cannot be pickled
            raise pickle.PicklingError(str(error)) from error
        executor = get_reusable_executor(
            max_workers=number,
            env={f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
            reuse="auto" if _waiting else False,
            initializer=_end_with,
            initargs=(os.getpid(),),
        )
        _waiting = None
        finished = False
        try:
            while True:
                while len(under_way) < number and (item := choose()) is not None:
                    under_way[executor.submit(_from_file, str(path), item)] = item
                if not under_way:
                    finished = True
                    return
                # Not without end: once polars has looked after Ctrl-C, it wakes no waiting thread.
                ready = wait(under_way, _WAKE_SECONDS, return_when=FIRST_COMPLETED)
                for done in ready.done:
                    found = done.result()
                    yield under_way.pop(done), found
        finally:
            if finished and _keeping:
                _waiting = executor
            else:
                if not finished:
                    _kill_workers()
                executor.shutdown(wait=True, kill_workers=True)


def _remove_left_behind() -> None:
    """Remove the folders of runs that were killed: users' data are in them."""
    if os.name != "posix":  # elsewhere nothing asks whether a process lives without harm to it
        return
    for folder in Path(gettempdir()).glob(f"{_FOLDER}*-*"):
        number = folder.name.removeprefix(_FOLDER).partition("-")[0]
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            rmtree(folder, ignore_errors=True)
        except (ValueError, OverflowError, PermissionError):
            pass  # not of ours


@cache
def _read_function(path: str) -> Any:
    return pickle.loads(Path(path).read_bytes())


def _from_file(path: str, item: Any) -> Any:
    return _alone(_read_function(path), item)
