"""When more splits would not change what is said of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np
from scipy import stats

from crossfade._typing import Floats
from crossfade.blocks import is_nobodys_worker

#: Splits of a model before anything is concluded of it.
FEWEST_SPLITS: Final = 5

#: Standard deviations that the end must be away from changing the conclusion, and from another
#: model being named the best.
_SURE: Final = 1.5
_SURE_BEST: Final = 2.0


def settled(gaps: Floats, n_splits: int, test_to_train: float) -> bool:
    """Return whether all splits would hardly change a model's place: told from the best, or not.

    After all J splits the two are told apart where the mean gap is over c standard deviations,
    c = t·√(1/J + n_test/n_train) (see :func:`crossfade.evaluation.scores.estimate`), and change
    places where it is below 0. After j of them, the ratio of mean to standard deviation that J will
    give is known up to a deviation of √(1/j - 1/J + c²/2·(1/(j-1) - 1/(J-1))): the mean of the
    splits to come, and the standard deviation itself. A model is settled where the ratio now is
    one and a half such deviations away from c, and two of √(1/j - 1/J) above 0.

    Shapes: gaps (j,), the model's criterion minus the best model's, paired.
    """
    j = len(gaps)
    if j >= n_splits:
        return True
    if j < FEWEST_SPLITS:
        return False
    mean, spread = float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    if spread == 0:
        return mean >= 0
    ratio, mean_ahead = mean / spread, 1 / j - 1 / n_splits
    c = _quantile(n_splits - 1) * np.sqrt(1 / n_splits + test_to_train)
    ahead = mean_ahead + c * c / 2 * (1 / (j - 1) - 1 / (n_splits - 1))
    return bool(
        ratio > _SURE_BEST * np.sqrt(mean_ahead) and abs(ratio - c) > _SURE * np.sqrt(ahead)
    )


@cache
def _quantile(degrees: int) -> float:
    return float(stats.t.ppf(0.975, degrees))


def needed_splits(
    scores: Mapping[str, Floats], n_splits: int, test_to_train: float
) -> dict[str, int]:
    """Return how many splits each model needs, as far as the scores so far tell.

    All need five; then the unsettled ones that need the fewest, and the best one, need one more,
    and so on. What a model has beyond its need is not looked at: the numbers depend on the scores
    alone.

    Shapes: scores (n_finished,) each, the criterion by split; NaN for a model that has none.
    """
    least = min(FEWEST_SPLITS, n_splits)
    need = dict.fromkeys(scores, least)
    ranked = [name for name, found in scores.items() if np.isfinite(found).all()]
    while all(len(scores[name]) >= need[name] for name in need) and ranked:
        most = max(need[name] for name in ranked)
        front = [name for name in ranked if need[name] == most]
        best = min(front, key=lambda name: float(np.mean(scores[name][:most])))
        unsettled = [
            name
            for name in ranked
            if name != best
            and not settled(
                scores[name][: need[name]] - scores[best][: need[name]], n_splits, test_to_train
            )
        ]
        if not unsettled:
            break
        fewest = min(need[name] for name in unsettled)
        for name in unsettled:
            need[name] += need[name] == fewest
        need[best] = max(need[best], fewest + 1)
    return need


class TimeOver(KeyboardInterrupt):
    """The time limit was reached; like Ctrl-C, it ends whatever is being fitted."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise a TimeOver inside the ``with`` block when the time is over, where there is a timer."""
    import signal

    if seconds is None or not is_nobodys_worker() or not hasattr(signal, "setitimer"):
        yield
        return

    def over(number: int, frame: Any) -> None:
        raise TimeOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
