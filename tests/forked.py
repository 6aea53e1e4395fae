"""Processes of their own, for what is interrupted, killed or cut off from its output.

Each is a fork of one process that has imported what they need, which costs a fiftieth of a start.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Timer
from typing import Any

import pytest

_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
if sys.platform == "linux":
    heavy = "pytest altair numba.np.arrayobj scipy.stats sklearn.ensemble skops.io typer uvicorn"
    ours = "commands.output comparison evaluation.discriminative_kernels io report.page"
    _CONTEXT.set_forkserver_preload(
        [*heavy.split(), "polars", "rich.progress", *(f"crossfade.{one}" for one in ours.split())]
    )


class Forked:
    """``function(*arguments)`` in a session of its own, with as much of Popen as tests ask for.

    Its environment is that of now with what is given; stdout and stderr are read through pipes
    unless a file descriptor is given. It lives for four minutes at most: whoever waits for what it
    says then reads its end.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        stdout: int | None = None,
        stderr: int | None = None,
        **environment: str,
    ) -> None:
        if sys.platform == "win32":
            pytest.skip("needs signals, and pipes that are handed on")
        from multiprocessing.connection import Connection

        read, write = zip(os.pipe(), os.pipe(), strict=True)
        streams = [
            Connection(os.dup(pipe if fd is None else fd), readable=False)
            for pipe, fd in zip(write, (stdout, stderr), strict=True)
        ]
        self.stdout, self.stderr = (os.fdopen(fd, encoding="utf-8") for fd in read)
        self._process = _CONTEXT.Process(
            target=_run,
            name="MainProcess",  # nobody's worker
            args=(*streams, {**os.environ, **environment}, function, arguments),
        )
        self._process.start()
        for fd in write:
            os.close(fd)
        for stream in streams:
            stream.close()
        self.pid: int = self._process.pid
        self._clock = Timer(240.0, self._kill)
        self._clock.daemon = True
        self._clock.start()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative where a signal ended it, None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        """Wait for its end and return the rest of its output; it is killed when time is over."""
        clock = Timer(timeout, self._kill)
        clock.start()
        with ThreadPoolExecutor(1) as beside:
            errors = beside.submit(self.stderr.read)
            out = "" if self.stdout.closed else self.stdout.read()
        self._process.join()
        clock.cancel()
        return out, errors.result()

    def _kill(self) -> None:
        """Kill it and every process that it started: they have its output open, too."""
        for one in session(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.kill()

    def end(self) -> None:
        self._clock.cancel()
        self._kill()
        self._process.join()
        self._process.close()
        self.stdout.close()
        self.stderr.close()


def _run(
    stdout: Any, stderr: Any, environment: dict[str, str], function: Any, arguments: Any
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in ((1, stdout), (2, stderr)):
        os.dup2(stream.fileno(), number)
        stream.close()
    # As a fresh interpreter would have opened them.
    encoding = environment.get("PYTHONIOENCODING")
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False
    )
    function(*arguments)


def session(leader: int) -> set[int]:
    """Return the processes of a session that have not ended; none where /proc is missing."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, _, _, of = file.read().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == leader and state != "Z":
            found.add(int(name))
    return found
