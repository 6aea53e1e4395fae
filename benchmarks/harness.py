"""How a benchmark is taken: one run, contenders in turn, medians, and what each one achieved.

Seconds differ from machine to machine and from minute to minute; ratios hold better. So every
contender of a case runs once in each round, round after round, and what is reported is the ratio
of medians. A ratio means something only between results that are equally good, so each
contender's achieved accuracy stands beside its time.
"""

from __future__ import annotations

import gc
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from crossfade.blocks import n_threads

#: Takes the data of a case, does what need not be timed, returns what is to be timed.
Contender = Callable[[Any], Callable[[], Any]]


@dataclass(frozen=True)
class Case:
    """One line of the table, and its rivals.

    Attributes
    ----------
    name : str
    make : callable
        ``make(scale)`` returns the data; scale 1 is the full size. Cases that share a `make` share
        the data, so list them next to each other.
    ours : callable
        ``ours(data)`` returns the call to time.
    rivals : mapping of str to callable
        The same for other libraries; the fastest is the one to beat.
    goal : float
        The ratio (fastest rival's time / ours) that is to be reached.
    accuracy : callable or None
        ``accuracy(data, result)`` says how good a result is (smaller is better).
    accuracy_name : str
        What that number is.
    memory_goal : float or None
        Most megabytes that the call may use beyond its input.
    """

    name: str
    make: Callable[[float], Any]
    ours: Contender
    rivals: Mapping[str, Contender]
    goal: float
    accuracy: Callable[[Any, Any], float] | None = None
    accuracy_name: str = ""
    memory_goal: float | None = None


@dataclass(frozen=True)
class Timing:
    """One contender's seconds, round by round, and what it achieved."""

    label: str
    seconds: tuple[float, ...]
    accuracy: float | None

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Result:
    """What one case came to."""

    case: Case
    ours: Timing
    rivals: tuple[Timing, ...]
    megabytes: float | None = field(default=None)

    @property
    def fastest(self) -> Timing:
        """The rival with the smallest median."""
        return min(self.rivals, key=lambda timing: timing.median)

    @property
    def ratio(self) -> float:
        """The fastest rival's median over ours."""
        return self.fastest.median / self.ours.median

    @property
    def reached(self) -> bool:
        """Whether speed and memory are what the case asks for."""
        fits = (
            self.case.memory_goal is None
            or self.megabytes is None
            or self.megabytes <= self.case.memory_goal
        )
        return fits and self.ratio >= self.case.goal


def measure(
    case: Case, scale: float = 1.0, rounds: int = 5, report: Callable[[str], None] = print
) -> Result:
    """Time a case: every contender once a round, in turn.

    A round before the first, on a hundredth of the rows, compiles and loads what has to be.
    """
    small = case.make(0.01 * scale)
    contenders = {"crossfade": case.ours, **case.rivals}
    for prepare in contenders.values():
        _quiet(prepare(small))
    data = case.make(scale)
    calls = {label: prepare(data) for label, prepare in contenders.items()}
    seconds: dict[str, list[float]] = {label: [] for label in calls}
    achieved: dict[str, float | None] = dict.fromkeys(calls)
    for number in range(rounds):
        for label, call in calls.items():
            gc.collect()
            start = time.perf_counter()
            outcome = _quiet(call)
            seconds[label].append(time.perf_counter() - start)
            if number == 0 and case.accuracy is not None:
                achieved[label] = case.accuracy(data, outcome)
            del outcome
        report(f"  {case.name}: round {number + 1} of {rounds}")
    timings = [Timing(label, tuple(seconds[label]), achieved[label]) for label in calls]
    return Result(case, timings[0], tuple(timings[1:]))


def _quiet(call: Callable[[], Any]) -> Any:
    # A rival that stops at its iteration limit says so; the accuracy column shows it as well.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


# -- memory ------------------------------------------------------------------------------------


def peak_memory(suite: str, case: str, scale: float) -> float:
    """Return the megabytes that a case's own call uses beyond its input, measured alone.

    It is the growth of the peak resident memory during the call in a fresh process in which the
    input already lies and everything is compiled and loaded.
    """
    command = [sys.executable, "-m", "benchmarks.memory", suite, case, str(scale)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return float(done.stdout)


# -- the table ---------------------------------------------------------------------------------


def environment() -> str:
    """Return one paragraph on the machine, the versions and the threads."""
    # The libraries must be loaded before their thread pools can be listed.
    import scipy.linalg  # noqa: F401

    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    pools = {
        f"{pool['internal_api']} {pool.get('architecture', '')}".strip(): pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
    }
    packages = ["crossfade", "numpy", "scipy", "scikit-learn", "numba"]
    return "\n".join(
        [
            f"{_processor()}; Python {platform.python_version()}; "
            + ", ".join(f"{name} {version(name)}" for name in packages),
            f"threads: Crossfade {n_threads()}; rivals "
            + ", ".join(f"{count} ({name})" for name, count in sorted(pools.items())),
        ]
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{named[0]} ({len(named)} logical cores)" if named else platform.machine()


def markdown(results: Sequence[Result]) -> str:
    """Return the table: a line a case, then a line for each slower rival."""
    lines = [
        "| case | Crossfade, s | fastest rival | its s | ratio | goal | achieved, ours and theirs "
        "| memory beyond input |",
        "|---|---:|---|---:|---:|---:|---|---:|",
    ]
    for result in results:
        fastest = result.fastest
        lines.append(
            _row(
                result.case.name,
                _seconds(result.ours),
                fastest.label,
                _seconds(fastest),
                f"**{result.ratio:.3g}**",
                f"{result.case.goal:.3g} {'✓' if result.reached else '✗'}",
                _accuracies(result, fastest),
                _memory(result),
            )
        )
        for rival in sorted(result.rivals, key=lambda timing: timing.median):
            if rival is not fastest:
                ratio = f"{rival.median / result.ours.median:.3g}"
                achieved = _accuracies(result, rival)
                lines.append(_row("", "", rival.label, _seconds(rival), ratio, "", achieved, ""))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _seconds(timing: Timing) -> str:
    spread = f"{min(timing.seconds):.3g}-{max(timing.seconds):.3g}"
    return f"{timing.median:.3g} ({spread})"


def _accuracies(result: Result, rival: Timing) -> str:
    if result.ours.accuracy is None or rival.accuracy is None:
        return ""
    return f"{result.case.accuracy_name} {result.ours.accuracy:.4g}, {rival.accuracy:.4g}"


def _memory(result: Result) -> str:
    if result.megabytes is None:
        return ""
    return f"{result.megabytes:.0f} MB (≤ {result.case.memory_goal:.0f})"
