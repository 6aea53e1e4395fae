"""Ctrl-C, termination and death are obeyed in seconds, whatever compiled code is running."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from crossfade import NaiveBayes
from crossfade.cli import main
from crossfade.commands import stopping
from crossfade.comparison import run as comparison_run
from crossfade.evaluation import run
from tests.forked import Forked, session
from tests.support import choose_shortly

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def endless(*arguments, **options):
    """Hours in compiled code that releases the interpreter's lock and looks at no signal."""
    os.write(2, b"at work\n")  # in one piece, whoever else writes
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


def out_of_time():
    """The same, and an hour passes."""
    clock = comparison_run.perf_counter
    comparison_run.perf_counter = lambda: clock() + 3600.0
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    endless()


def command(grace, *words):
    """Run a command whose first fit does not end, and which has so long to stop by itself."""
    stopping._GRACE = grace
    NaiveBayes.fit = endless
    main(words)


def later(least, *words):
    """Run one whose fits, and batches of compiled curves, do not end from those numbers onwards."""

    def from_then_on(first, function):
        number = itertools.count(1)

        def work(*arguments, **options):
            here = next(number)
            if here == first and "--time" in words:
                return out_of_time()
            return (endless if here >= first else function)(*arguments, **options)

        return work

    stopping._GRACE = 30.0  # on a busy machine, too, the main thread is to stop by itself
    if "nb:auto" in words:
        choose_shortly(pytest.MonkeyPatch())
    run._BATCH_SECONDS = 0.0  # one split in each batch, however fast the machine is
    NaiveBayes.fit = from_then_on(least[0], NaiveBayes.fit)
    run.for_each_block = from_then_on(least[1], run.for_each_block)
    main(words)


#: A program by itself: its workers load what it is.
POOL = """
import hashlib, os
import crossfade.processes
from crossfade.blocks import threads
from crossfade.commands.stopping import watched

def work(item):
    if item:
        os.write(2, b"at work\\n")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

crossfade.processes._WORTH_SECONDS = -1.0
if __name__ == "__main__":
    with watched(), threads(2):
        list(crossfade.processes.map_in_order(work, range(5)))
"""


@pytest.fixture
def busy() -> Iterator[Callable[[], None]]:
    """Start two busy loops beside the rest of the test, ``busy()``."""
    loops: list[subprocess.Popen[bytes]] = []

    def starts() -> None:
        code = "print(flush=True)\nwhile True: pass"
        for _ in range(2):
            loops.append(
                subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
            )
            loops[-1].stdout.readline()

    yield starts
    for loop in loops:
        loop.kill()
        loop.communicate()


@pytest.fixture
def start() -> Iterator[Callable[..., Forked]]:
    """Run a function in a session of its own until one of its fits is at work.

    Whatever becomes of the test, no process of the session is left.
    """
    begun: list[Forked] = []

    def starts(function: Callable[..., Any], *arguments: Any) -> Forked:
        begun.append(Forked(function, *arguments))
        assert begun[-1].stderr.readline() == "at work\n"
        return begun[-1]

    yield starts
    for process in begun:
        process.end()


@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        (
            ["fit", "iris", "-m", "nb:generative", "-o", "{folder}/m.skops"],
            signal.SIGINT,
            "stopped by the keyboard\n",
        ),
        (["compare", "iris", "--splits", "2", "--models", "nb:generative"], signal.SIGTERM, ""),
    ],
)
def test_a_signal_ends_compiled_code(tmp_path, start, busy, words, number, said):
    assert stopping._GRACE < 2.0  # and what a busy machine adds
    process = start(command, 0.3, *(word.format(folder=tmp_path) for word in words))
    busy()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", said)
    assert os.listdir(tmp_path) == []


def test_a_second_ctrl_c_ends_it_at_once(start, busy):
    process = start(command, 600.0, "fit", "iris", "-m", "nb:generative", "-o", "/dev/null")
    busy()
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.returncode is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "stopped by the keyboard\n")


MODELS = "--models", "nb:generative,nb:discriminative"


@pytest.mark.parametrize(
    ("least", "words", "found"),
    [
        # Of 40 fits of the table; in the evidence after it and in the curve between them.
        ((24, 99), ["compare", "iris", *MODELS, "--all-splits"], "Ctrl-C ended the run after"),
        ((999, 3), ["curve", "iris", *MODELS, "--splits", "400"], "2 splits of"),
        pytest.param(
            (42, 99),
            ["compare", "iris", *MODELS, "--all-splits", "--json", "{folder}/r.json"],
            "rows should help",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (12, 99),
            ["curve", "iris", "--models", "nb:auto", "--sizes", "20,40"],
            "5 splits of",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_done_is_shown_although_a_fit_does_not_end(start, tmp_path, least, words, found):
    words = [word.format(folder=tmp_path) for word in words]
    process = start(later, least, *words)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "stopped by the keyboard\n")
    assert found in " ".join(out.split())


@pytest.mark.parametrize(
    ("least", "said"),
    [
        ((6, 99), "The time limit ended the run after"),
        pytest.param(
            (999, 1),
            "the time was over before the learning curve was finished",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_time_limit_is_kept_although_a_fit_does_not_end(start, least, said):
    words = ["compare", "iris", *MODELS, "--all-splits", "--time", "1h"]
    process = start(later, least, *words)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert said in " ".join(out.split())


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_the_end_of_a_process_is_the_end_of_its_pool(busy, number):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", POOL],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        for _ in range(2):
            assert process.stderr.readline() == "at work\n"
        busy()
        before = session(process.pid)
        assert len(before) >= 3  # itself, two workers, resource trackers
        process.send_signal(number)
        process.wait(timeout=60)
        deadline = time.monotonic() + 30.0
        while session(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert session(process.pid) == set()
    finally:
        for one in session(process.pid):
            os.kill(one, signal.SIGKILL)
        process.communicate()


def swallowed(number, kind):
    """Return an application in which a library makes another exception of a signal's own."""

    def app(**given):
        try:
            os.kill(os.getpid(), number)
            while True:
                time.sleep(0.01)
        except BaseException as error:
            time.sleep(0.1)
            raise kind("a library's own words") from error

    return app


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "stopped by the keyboard\n"), (signal.SIGTERM, 143, "")],
)
@pytest.mark.parametrize("kind", [RuntimeError, ImportError, ValueError])
def test_what_libraries_make_of_a_signals_exception_is_a_stop_all_the_same(
    number, code, said, kind
):
    with Forked(main, [], partial(swallowed, number, kind)) as process:
        _, err = process.communicate()
        assert (process.returncode, err) == (code, said)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit(143), ValueError("told")])
def test_a_signal_where_nothing_can_be_raised_is_not_told_as_a_fault(monkeypatch, error):
    """As in the callbacks of weak references, of which every import has some."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: told.append(str(one.exc_value)))

    class Last:
        def __del__(self):
            raise error

    with stopping.watched():
        one = Last()
        del one
    assert told == (["told"] if isinstance(error, ValueError) else [])
