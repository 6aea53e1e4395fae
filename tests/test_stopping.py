"""Ctrl-C, termination and death are obeyed in seconds, whatever compiled code is running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

#: Hours in compiled code that releases the interpreter's lock and looks at no signal.
COMPILED = """
import hashlib, os, sys

def endless(*arguments, **options):
    os.write(2, b"at work\\n")  # in one piece, whoever else writes
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""

COMMAND = (
    COMPILED
    + """
from crossfade import NaiveBayes
from crossfade.cli import main
NaiveBayes.fit = endless
main(sys.argv[1:])
"""
)

#: The same from the fit and the batch of compiled curves onwards that the first word tells.
LATER = (
    COMPILED
    + """
import itertools
import crossfade.evaluation.run
from sklearn import datasets
from crossfade import NaiveBayes
from crossfade.cli import main

def from_then_on(least, function):
    number = itertools.count(1)
    def work(*arguments, **options):
        return (endless if next(number) >= int(least) else function)(*arguments, **options)
    return work

X, y = datasets.load_iris(return_X_y=True)
for tradeoff in (1.0, 0.0):  # a time limit is not for what is compiled when first called
    NaiveBayes(tradeoff=tradeoff).fit(X, y).predict_proba(X)
fits, batches = sys.argv[1].split(",")
NaiveBayes.fit = from_then_on(fits, NaiveBayes.fit)
run = crossfade.evaluation.run
run.for_each_block = from_then_on(batches, run.for_each_block)
main(sys.argv[2:])
"""
)

POOL = (
    COMPILED
    + """
import crossfade.processes
from crossfade.blocks import threads
from crossfade.commands.stopping import watched

def work(item):
    return endless() if item else None

crossfade.processes._WORTH_SECONDS = -1.0
if __name__ == "__main__":
    with watched(), threads(2):
        list(crossfade.processes.map_in_order(work, range(5)))
"""
)


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
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run a script in a session of its own until so many of its fits are at work.

    Whatever becomes of the test, no process of the session is left.
    """
    begun: list[subprocess.Popen[str]] = []

    def starts(script: str, *words: str, number: int = 1) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "CROSSFADE_NUM_THREADS": "1",  # no processes, unless a script asks for them
            },
            start_new_session=True,
        )
        begun.append(process)
        for _ in range(number):
            assert process.stderr.readline() == "at work\n"
        return process

    yield starts
    for process in begun:
        for one in session(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()


def session(leader: int) -> set[int]:
    """Return the processes of a session that have not ended."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, _, _, of = file.read().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == leader and state != "Z":
            found.add(int(name))
    return found


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
    process = start(COMMAND, *(word.format(folder=tmp_path) for word in words))
    busy()
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 3.0  # two seconds, and what a busy machine adds
    assert (process.returncode, out, err) == (128 + number, "", said)
    assert os.listdir(tmp_path) == []


def test_a_second_ctrl_c_ends_it_at_once(start, busy):
    process = start(COMMAND, "fit", "iris", "-m", "nb:generative", "-o", "/dev/null")
    busy()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 1.0
    assert (process.returncode, err) == (130, "stopped by the keyboard\n")


MODELS = "--models", "nb:generative,nb:discriminative"


@pytest.mark.parametrize(
    ("least", "words", "found"),
    [
        # Of 40 fits of the table; in the evidence after it and in the curve between them.
        ("24,99", ["compare", "iris", *MODELS, "--all-splits"], "Ctrl-C ended the run after"),
        (
            "42,99",
            ["compare", "iris", *MODELS, "--all-splits", "--json", "{folder}/r.json"],
            "rows should help",
        ),
        ("999,3", ["curve", "iris", *MODELS, "--splits", "400"], "2 splits of"),
        ("12,99", ["curve", "iris", "--models", "nb:auto", "--sizes", "20,40"], "5 splits of"),
    ],
)
def test_what_is_done_is_shown_although_a_fit_does_not_end(start, tmp_path, least, words, found):
    words = [word.format(folder=tmp_path) for word in words]
    process = start(LATER, least, *words)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 3.0
    assert (process.returncode, err) == (130, "stopped by the keyboard\n")
    assert found in " ".join(out.split())


@pytest.mark.parametrize(
    ("least", "said"),
    [
        ("6,99", "The time limit ended the run after"),
        ("999,1", "the time was over before the learning curve was finished"),
    ],
)
def test_a_time_limit_is_kept_although_a_fit_does_not_end(start, least, said):
    words = ["compare", "iris", *MODELS, "--all-splits", "--time", "8s"]
    process = start(LATER, least, *words)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert said in " ".join(out.split())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_end_of_a_process_is_the_end_of_its_pool(start, busy, number):
    process = start(POOL, number=2)
    busy()
    before = session(process.pid)
    assert len(before) >= 3  # itself, two workers, resource trackers
    process.send_signal(number)
    deadline = time.monotonic() + 5.0
    while session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session(process.pid) == set()
