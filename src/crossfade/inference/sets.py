"""Prediction sets that hold the true class with a wanted probability.

Vovk, Gammerman & Shafer (2005), "Algorithmic Learning in a Random World": the least probability
that a class must have to be in the set is a quantile of those that held-out rows gave to their own
classes. Here these are out of fold (cross-conformal: Vovk 2015), so that no row is lost to it.
"""

from __future__ import annotations

import numpy as np

from crossfade._typing import Floats
from crossfade.inference.held_out import HeldOut


def least_probabilities(held_out: HeldOut, coverage: float, *, by_class: bool) -> Floats:
    """Return the least probability with which a class is in a set, by class, (n_classes,).

    The row to come counts as one more row, of which the worst is assumed; with too few rows for
    the coverage every class is in. `by_class`: A quantile for each class, so that rows of every
    class are covered.
    """
    n_classes = held_out.log_posterior.shape[1]
    log_posterior, weights = held_out.as_rows_come()
    own = np.exp(log_posterior[np.arange(len(held_out.codes)), held_out.codes])
    groups = (
        [held_out.codes == code for code in range(n_classes)]
        if by_class
        else [np.ones(len(own), dtype=bool)]
    )
    least = [_least(own[group], weights[group], 1.0 - coverage, own.size) for group in groups]
    return np.broadcast_to(least, (n_classes,)).copy()


def _least(own: Floats, weights: Floats, share: float, n_rows: int) -> float:
    """Return the quantile; below it by a fold's chance where that alone tells most rows apart.

    A model that knows nothing gives all rows the class shares, which differ from fold to fold.
    """
    found = _quantile(own, weights, share)
    chance = float(np.sqrt(found * (1.0 - found) / n_rows))
    near = np.abs(own - found) <= chance
    alike = weights[near].sum() > 0.5 * weights.sum()
    return max(found - chance, 0.0) if alike else found


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the largest value with no more than `share` of the rows strictly below it.

    Of all weight, one row more included; 0 where that is less than one row.
    """
    if not values.size:
        return 0.0
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    unit = float(weights.sum() / np.count_nonzero(weights)) if weights.any() else 1.0
    below = np.cumsum(weights) - weights + unit  # up to each value, the new row below it
    allowed = share * (weights.sum() + unit) * (1.0 + 1e-12)
    fits = np.flatnonzero(below <= allowed)
    return float(values[fits[-1]]) if fits.size else 0.0
