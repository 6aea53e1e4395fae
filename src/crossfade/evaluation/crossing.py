"""Where two learning curves cross, and what more labels promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from crossfade._findings import Finding
from crossfade._typing import Floats
from crossfade.evaluation.scores import Estimate, estimate

#: Curves drawn for the interval of a crossing.
_DRAWS = 2000

#: Scores that differ by less, relative to themselves, are the same.
_ROUNDING = 1e-9

#: The end of the curve from which its slope is read: this many of the largest sizes.
SLOPE_SIZES = 3


Status = Literal["crossed", "caught up", "not seen", "before", "level"]


@dataclass(frozen=True)
class Crossing(Finding):
    """Where the discriminative fit overtakes the generative one for good.

    Attributes
    ----------
    status : {"crossed", "caught up", "not seen", "before", "level"}
        "caught up": the discriminative fit ends level, and is not ahead after it was behind.
        "not seen": the generative fit is still ahead at the largest size tried. "before": the
        discriminative fit is ahead at every size tried, or level at some. "level": both have the
        same scores at every size tried.
    size : float or None
        Training rows at the crossing, interpolated between sizes in log rows.
    low, high : float or None
        95 % interval, of the curves that Student's t leaves possible; None where an end lies
        outside the sizes tried, or might, as one split alone cannot tell.
    smallest, largest : int
        The sizes tried.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from crossfade import NaiveBayes, learning_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {"generative": NaiveBayes(tradeoff=1), "discriminative": NaiveBayes(tradeoff=0)}
    >>> curve = learning_curve(X, y, models=models, train_sizes=[10, 40, 160], n_splits=20)
    >>> (crossing,) = curve.crossings("log_loss").values()
    >>> crossing.status, crossing.smallest, crossing.largest
    ('not seen', 10, 160)
    """

    status: Status
    size: float | None
    low: float | None
    high: float | None
    smallest: int
    largest: int


def _crossing_sizes(gap: Floats, sizes: Floats) -> Floats:
    """Return where each row of ``discriminative - generative`` falls below zero for good.

    -inf where it is never above zero, +inf where it still is at the end.
    """
    above = gap > 0
    last_above = above.shape[1] - 1 - np.argmax(above[:, ::-1], axis=1)
    result = np.full(len(gap), -np.inf)
    result[above[:, -1]] = np.inf
    inside = above.any(axis=1) & ~above[:, -1]
    rows, left = np.flatnonzero(inside), last_above[inside]
    before, after = gap[rows, left], gap[rows, left + 1]
    share = before / (before - after)
    logs = np.log(sizes)
    result[rows] = np.exp(logs[left] + share * (logs[left + 1] - logs[left]))
    return result


def find_crossing(
    generative: Floats,
    discriminative: Floats,
    sizes: Sequence[int],
    test_to_train: float,
    random_state: int,
) -> Crossing:
    """Find where the mean discriminative curve falls below the generative one and stays there.

    Its interval is that of mean curves drawn from the multivariate t that at each size alone is the
    interval of :func:`~crossfade.evaluation.scores.estimate`.

    Shapes: generative, discriminative (n_splits, n_sizes).
    """
    gap = discriminative - generative
    gap[np.abs(gap) <= _ROUNDING * np.abs(generative)] = 0.0
    at = np.asarray(sizes, dtype=np.float64)
    mean = gap.mean(axis=0, keepdims=True)
    found = float(_crossing_sizes(mean, at)[0])
    rng = np.random.default_rng(random_state)
    n_splits, low, high = len(gap), -np.inf, np.inf
    if any(np.isfinite(estimate(column, test_to_train).low) for column in gap.T):
        normal = rng.standard_normal((_DRAWS, n_splits))
        scale = np.sqrt((1 / n_splits + test_to_train) / rng.chisquare(n_splits - 1, _DRAWS))
        drawn = np.sort(_crossing_sizes(mean + scale[:, None] * (normal @ (gap - mean)), at))
        low, high = (float(drawn[round(q * (_DRAWS - 1))]) for q in (0.025, 0.975))
        # Of two splits, most curves drawn may cross on one side of the mean curve's crossing.
        low, high = min(low, found), max(high, found)
    status: Status = "not seen" if found > 0 else "before" if gap.any() else "level"
    if np.isfinite(found):
        # At the largest sizes both may err at no row: none has overtaken the other.
        status = "crossed" if (mean[0, at > found * (1 - _ROUNDING)] < 0).any() else "caught up"
    return Crossing(
        status,
        _finite(found),
        _finite(low),
        _finite(high),
        int(sizes[0]),
        int(sizes[-1]),
    )


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def gain_per_doubling(
    scores: Floats, sizes: Sequence[int], test_to_train: float
) -> Estimate | None:
    """Return what the slope over the last sizes, up to three, promises of twice the training rows.

    Curves flatten, so that this is the most to hope for; no score falls below zero. Shapes: scores
    (n_splits, n_sizes).
    """
    if len(sizes) < 2:
        return None
    x = np.log2(np.asarray(sizes[-SLOPE_SIZES:], dtype=np.float64))
    x -= x.mean()
    slopes = scores[:, -SLOPE_SIZES:] @ x / (x @ x)
    found = estimate(np.maximum(slopes, -scores[:, -1]), test_to_train)
    return replace(found, low=max(found.low, -float(scores[:, -1].mean())))
