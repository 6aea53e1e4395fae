"""Independent repetitions on all cores, the same numbers on any number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import joblib
import numpy as np

from crossfade._typing import Progress
from crossfade.blocks import n_threads, threads


def generator(seed: int, *place: int) -> np.random.Generator:
    """Return a stream of random numbers of its own for every place in an experiment."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=place))


def run_trials(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    progress: Progress | None = None,
    text: str = "",
    done: int = 0,
    total: int | None = None,
) -> list[Any]:
    """Call ``function(*task)`` for every task in processes of their own, results in order.

    The fits of an experiment are small: threads would wait for the interpreter most of the time.
    """
    total = len(tasks) if total is None else total
    workers = max(1, min(n_threads(), len(tasks)))
    results: list[Any] = []
    with joblib.Parallel(n_jobs=workers, return_as="generator") as parallel:
        for result in parallel(joblib.delayed(_alone)(function, task) for task in tasks):
            results.append(result)
            if progress is not None:
                progress(done + len(results), total, text)
    return results


def _alone(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    with threads(1):
        return function(*task)
