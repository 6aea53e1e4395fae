"""Ctrl-C and termination, obeyed within two seconds whatever compiled code is running.

Python acts on a signal only between two instructions of the main thread, and compiled code may run
for minutes in between. So a thread of its own receives signals too, and ends the process where
the main thread does not stop by itself.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any, Final

from crossfade.files import discard_unfinished

#: The exit code at Ctrl-C: as a shell has it, 128 and the signal's number.
STOPPED_CODE: Final = 128 + signal.SIGINT

#: Seconds after the signal in which the main thread may stop by itself; then the process is ended.
_GRACE: Final = 1.5

#: Functions that clear the terminal, of the work under way.
_at_work: list[Callable[[], None]] = []


@contextmanager
def working(clear: Callable[[], None]) -> Iterator[None]:
    """Mark work that is stopped by a signal; what comes after it, such as files, is not."""
    _at_work.append(clear)
    try:
        yield
    finally:
        _at_work.remove(clear)


@contextmanager
def ticking(seconds: float, tell: Callable[[], None]) -> Iterator[None]:
    """Mark such work, and call `tell` every so many seconds from a thread of its own."""
    over = Event()

    def tick() -> None:
        while not over.wait(seconds):
            tell()

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        with working(over.set):
            yield
    finally:
        over.set()
        thread.join()


class Watch:
    """Signals that came, and what to do where they are not obeyed."""

    def __init__(self) -> None:
        #: The exit code once a signal came, else 0.
        self.code = 0
        self._untold = Lock()
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Say, once, that the program was stopped."""
        if self._untold.acquire(blocking=False):
            print("stopped by the keyboard", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Watch no longer."""
        signal.set_wakeup_fd(self._before)
        self._write.close()
        self._thread.join()
        self._read.close()

    def _run(self) -> None:
        if not (first := self._next()):
            return
        self.code = 128 + first
        had_results = bool(_at_work)
        self._read.settimeout(_GRACE)
        try:
            again = self._next()
        except TimeoutError:
            self._read.settimeout(None)
            # Work that has been left is being shown and written now.
            again = self._next() if had_results and not _at_work else first
        if again:
            self._end(first)

    def _next(self) -> int:
        """Return the number of the next signal that ends programs, 0 where no more will come."""
        while byte := self._read.recv(1):
            if byte[0] in (signal.SIGINT, signal.SIGTERM):
                return byte[0]
        return 0

    def _end(self, number: int) -> None:
        with suppress(Exception):
            for clear in (discard_unfinished, *_at_work):
                clear()
            if number == signal.SIGINT:
                self.tell()
        os._exit(128 + number)


@contextmanager
def watched() -> Iterator[Watch]:
    """Yield a watch over signals; termination is an exception, as Ctrl-C is."""
    watch = Watch()

    def end(number: int, frame: Any) -> None:
        watch.code = 128 + number
        sys.exit(watch.code)

    def ignored(error: Any) -> None:
        # A signal's exception that came where none can be raised: the watch ends the process.
        if not isinstance(error.exc_value, (KeyboardInterrupt, SystemExit)):
            told(error)

    before = signal.signal(signal.SIGTERM, end)
    told, sys.unraisablehook = sys.unraisablehook, ignored
    try:
        yield watch
    finally:
        watch.close()
        sys.unraisablehook = told
        signal.signal(signal.SIGTERM, before)
