"""The small learning curve of a comparison: where two fits cross, and what more labels promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from crossfade.comparison.evaluation import Evaluation, Evaluator, Failure
from crossfade.comparison.scores import METRICS, Estimate, estimate
from crossfade.comparison.splits import Split
from crossfade.densities.base import Floats

__all__ = ["Crossing", "Curve", "find_crossing", "gain_per_doubling", "trace_curve"]

#: Splits drawn with replacement for the interval of a crossing.
_RESAMPLES = 2000

#: The end of the curve from which its slope is read: this many of the largest sizes.
_SLOPE_SIZES = 3


@dataclass(frozen=True)
class Curve:
    """Scores on nested training sets.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of training rows, ascending; within a split a larger set contains the smaller.
    scores : dict of str to dict of str to ndarray of shape (n_splits, n_sizes)
        By model, then by metric; NaN where a model could not be fitted.
    """

    sizes: tuple[int, ...]
    scores: Mapping[str, Mapping[str, Floats]]

    def to_dict(self) -> dict[str, Any]:
        """Return sizes and mean scores by model and metric."""
        return {
            "sizes": list(self.sizes),
            "mean": {
                name: {metric: values.mean(axis=0).tolist() for metric, values in scores.items()}
                for name, scores in self.scores.items()
            },
            "splits": len(next(iter(next(iter(self.scores.values())).values()))),
        }

    def usable(self, names: Sequence[str], metric: str) -> tuple[tuple[int, ...], list[Floats]]:
        """Return the sizes at which every named model ran in every split, and the scores there."""
        columns = [self.scores[name][metric] for name in names]
        whole = np.logical_and.reduce([np.isfinite(c).all(axis=0) for c in columns])
        sizes = tuple(m for m, keep in zip(self.sizes, whole, strict=True) if keep)
        return sizes, [c[:, whole] for c in columns]


def trace_curve(
    evaluator: Evaluator,
    models: Mapping[str, Any],
    splits: Sequence[Split],
    sizes: Sequence[int],
    known: Mapping[str, Mapping[str, Floats]],
    step: Callable[[str], None],
) -> Curve:
    """Fit the models on nested training sets.

    Parameters
    ----------
    evaluator : Evaluator
        Fits and scores.
    models : mapping of str to estimator
        Models by name.
    splits : sequence of Split
        The curve's splits.
    sizes : sequence of int
        Training sizes, ascending; the last is all training rows.
    known : mapping of str to mapping of str to ndarray of shape (n_splits,)
        Scores at the last size that are known already, by model and metric.
    step : callable
        Called with a few words after each set of fits.
    """
    shape = (len(splits), len(sizes))
    scores = {name: {metric: np.full(shape, np.nan) for metric in METRICS} for name in models}
    for name, columns in known.items():
        for metric in METRICS:
            scores[name][metric][:, -1] = columns[metric]
    for i, split in enumerate(splits):
        for j, size in enumerate(sizes):
            last = j == len(sizes) - 1
            wanted = {n: model for n, model in models.items() if not (last and n in known)}
            if not wanted:
                continue
            results = evaluator.evaluate(wanted, split.train[:size], split.test)
            for name, result in results.items():
                if isinstance(result, Failure):
                    continue
                assert isinstance(result, Evaluation)
                for metric in METRICS:
                    scores[name][metric][i, j] = result.scores[metric]
        step("learning curve")
    return Curve(tuple(sizes), scores)


@dataclass(frozen=True)
class Crossing:
    """Where the discriminative fit overtakes the generative one for good.

    Attributes
    ----------
    status : {"crossed", "not seen", "before"}
        "not seen": the generative fit is still ahead at the largest size tried. "before": the
        discriminative fit is ahead (or level) at every size tried.
    size : float or None
        Training rows at the crossing, interpolated between sizes in log rows.
    low, high : float or None
        95 % bootstrap interval over splits; None where an end lies outside the sizes tried.
    smallest, largest : int
        The sizes tried.
    """

    status: Literal["crossed", "not seen", "before"]
    size: float | None
    low: float | None
    high: float | None
    smallest: int
    largest: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under their names."""
        return {
            "status": self.status,
            "size": self.size,
            "low": self.low,
            "high": self.high,
            "smallest": self.smallest,
            "largest": self.largest,
        }


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
    generative: Floats, discriminative: Floats, sizes: Sequence[int], random_state: int
) -> Crossing:
    """Find where the mean discriminative curve falls below the generative one and stays there.

    Parameters
    ----------
    generative, discriminative : ndarray of shape (n_splits, n_sizes)
        Scores (lower is better) on the same splits.
    sizes : sequence of int
        Training sizes, ascending.
    random_state : int
        Seed of the bootstrap over splits.

    Returns
    -------
    Crossing
        With a percentile interval. Splits share rows, so the interval tells the uncertainty of
        this table's curves, not that of a fresh sample of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.comparison.learning import find_crossing
    >>> generative = np.array([[0.4, 0.4, 0.4], [0.4, 0.4, 0.4]])
    >>> discriminative = np.array([[0.6, 0.5, 0.3], [0.6, 0.5, 0.3]])
    >>> round(find_crossing(generative, discriminative, (10, 20, 40), 0).size, 2)
    28.28
    """
    gap = discriminative - generative
    at = np.asarray(sizes, dtype=np.float64)
    found = float(_crossing_sizes(gap.mean(axis=0, keepdims=True), at)[0])
    rng = np.random.default_rng(random_state)
    n_splits = len(gap)
    weights = rng.multinomial(n_splits, np.full(n_splits, 1 / n_splits), size=_RESAMPLES)
    resampled = np.sort(_crossing_sizes(weights @ gap / n_splits, at))
    low, high = (float(resampled[round(q * (_RESAMPLES - 1))]) for q in (0.025, 0.975))
    return Crossing(
        "crossed" if np.isfinite(found) else ("not seen" if found > 0 else "before"),
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
    """Return how much the score changes when the training rows double, at the curve's end.

    The slope of a line through the last three sizes against log2 of the size, by split, then
    averaged over splits (see :func:`crossfade.comparison.scores.estimate`). Curves flatten, so a
    straight continuation promises the most that can be hoped for.

    Parameters
    ----------
    scores : ndarray of shape (n_splits, n_sizes)
        Scores, lower is better.
    sizes : sequence of int
        Training sizes, ascending.
    test_to_train : float
        n_test/n_train of the splits.

    Returns
    -------
    Estimate or None
        Change a doubling; None with fewer than two sizes.
    """
    if len(sizes) < 2:
        return None
    x = np.log2(np.asarray(sizes[-_SLOPE_SIZES:], dtype=np.float64))
    x -= x.mean()
    slopes = scores[:, -_SLOPE_SIZES:] @ x / (x @ x)
    return estimate(slopes, test_to_train)
