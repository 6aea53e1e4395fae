"""The choice among fitted points, whatever was fitted and whatever their losses are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.pooling import shares_of

#: Standard errors that a gain of nothing exceeds once in 20 times.
_BEYOND_CHANCE = 1.645


@dataclass(frozen=True)
class Choice:
    """What was chosen among points (λ, l2).

    `shares` (n_points,): Weights that sum to one; one alone above zero where a point was picked.
    `scale`: The power of the pool's posterior, the sum of its weights; 1 where a point was picked.
    `method`: In words: where the losses come from, what was chosen, how flat and how sure that is.
    """

    points: Sequence[tuple[float, float]]
    shares: Floats
    scale: float
    method: str

    @property
    def tradeoff(self) -> float:
        """The weighted mean λ."""
        return float(self.shares @ [tradeoff for tradeoff, _ in self.points])

    def path(self) -> dict[str, Floats]:
        """Return the points as arrays of equal length."""
        tradeoff, l2 = np.array(self.points, dtype=np.float64).T
        return {"tradeoff": tradeoff, "l2": l2, "weight": self.scale * self.shares}


def unscored(points: Sequence[tuple[float, float]], why: str) -> Choice:
    """Return the first point, the generative end, which needs the fewest rows."""
    return Choice(points, np.eye(len(points))[0], 1.0, f"{why}: the first tradeoff, unscored")


def choose(
    method: str,
    points: Sequence[tuple[float, float]],
    name: str,
    means: Floats,
    each: Floats,
    weights: Floats | None = None,
    *,
    ties: Floats | None = None,
    pool: Callable[[], tuple[Floats, float]] | None = None,
    groups: Integers | None = None,
) -> Choice:
    """Pick the point of least mean loss, or take the pool; say how flat and how sure that is.

    `points` are (λ, l2), `name` is the loss's, `ties` decides among equal means, and `pool` returns
    the weights of a pool and its mean loss.

    Shapes: means, ties (n_points,); each (n_points, n_units), the losses; weights, groups
    (n_units,).
    """
    best = int(np.lexsort((means if ties is None else ties, means))[0])
    alone = f"tradeoff {points[best][0]:g} with l2 {points[best][1]:g}"
    near = _level(each, weights, best, groups)
    level = f"{near} of {len(points)} points are within one standard error"
    if pool is None:
        words = f"best of {len(points)} points is {alone}, {name} {means[best]:.4g}; {level}"
        return Choice(points, np.eye(len(points))[best], 1.0, f"{method}: {words} of the best")
    shared, loss = pool()
    falling = np.cumsum(np.sort(shared)[::-1])
    half = int(np.searchsorted(falling, 0.5 * falling[-1])) + 1
    holders = "1 of them holds" if half == 1 else f"{half} of them hold"
    scale = float(shared.sum())
    words = (
        f"pool of {len(points)} points, {holders} half the weight, posterior scale "
        f"{scale:{'.2f' if scale >= 0.005 else '.1e'}}, {name} {loss:.4g}; the best point alone, "
        f"{alone}, has {means[best]:.4g}, and {level}"
    )
    return Choice(points, *shares_of(shared, best), f"{method}: {words} of the best")


def _level(each: Floats, weights: Floats | None, best: int, groups: Integers | None) -> int:
    """Return how many points' mean losses cannot be told from the best one's."""
    mean, error = _mean_and_error(each - each[best], weights, groups)
    return int((mean <= error).sum())


def _mean_and_error(
    gap: Floats, weights: Floats | None, groups: Integers | None
) -> tuple[Floats, Floats]:
    """Return means over the last axis and their standard errors, of groups cluster-robust."""
    w = np.ones(gap.shape[-1]) if weights is None else weights
    mean = np.average(gap, axis=-1, weights=w)
    apart, total = gap - mean[..., None], float(w.sum())
    if groups is None:
        spread = np.average(apart**2, axis=-1, weights=w) / max(total, 1.0)
    else:
        sums = np.zeros((int(groups.max()) + 1, *mean.shape))
        np.add.at(sums, groups, np.moveaxis(w * apart, -1, 0))
        spread = (sums**2).sum(axis=0) / total**2
    return mean, np.sqrt(spread)


def paired_gain(
    after: Floats, before: Floats, weights: Floats | None, groups: Integers | None = None
) -> tuple[float, float]:
    """Return by how much the losses of the same units are lower, and its standard error."""
    mean, error = _mean_and_error(before - after, weights, groups)
    return float(mean), float(error)


def is_clearly_lower(
    after: Floats, before: Floats, weights: Floats | None, groups: Integers | None = None
) -> bool:
    """Return whether the losses of the same units are lower in the mean, and beyond chance.

    The gain of one unit, where others stay as they are, is one standard error, however large. Nats
    are without bound: chance is told on a scale on which hundreds of them are a few.
    """
    gain = before - after
    log = np.sign(gain) * np.log1p(np.abs(gain))
    mean, error = paired_gain(-log, np.zeros_like(log), weights, groups)
    return mean > _BEYOND_CHANCE * error and paired_gain(after, before, weights)[0] > 0.0


def n_apart(weights: Floats, groups: Integers | None) -> float:
    """Return how many rows say something of their own: by weight, of groups the groups.

    Of groups of unequal weight, as many as there are of equal ones (Kish 1965).
    """
    total = float(weights.sum())
    if groups is None:
        return total
    of_groups = np.bincount(groups, weights)
    return min(total, total**2 / float((of_groups**2).sum()))
