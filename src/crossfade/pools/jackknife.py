"""Intervals of a pool's probabilities: the jackknife over groups of rows, weights and all.

Rows are dealt to ten groups. Without each, members are fitted and weighed anew; how far these ten
pools are apart tells how far the pool could be from what it tends to (Shao & Wu 1989), whatever its
members are: (G - 1)/G Σ_g (ℓ_g - mean ℓ)² is the variance of a log-odds ℓ, of G - 1 degrees of
freedom.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit
from scipy.stats import t

from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.pools.training import MemberFits, Weighed
from crossfade.table.rows import rows_at
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows

if TYPE_CHECKING:
    from crossfade.pools.pooled import PooledClassifier

_GROUPS: Final = 10

#: Cells and held-out scores that are kept for it: 16 MB.
_MOST_CELLS: Final = 2_097_152


#: What pools without a group of rows may take in a file.
_MOST_BYTES: Final = 134_217_728


@dataclass(frozen=True)
class Replica:
    """A pool without one group of rows."""

    weighed: Weighed
    shares: Floats
    n_rows: float


class Jackknife:
    """Pools without a group of rows each, fitted when first asked for."""

    def __init__(self, fits: MemberFits) -> None:
        self._fits: MemberFits | None = fits
        self._replicas: list[Replica] = []

    def replicas(self) -> list[Replica]:
        """Return the pools."""
        fits = self._fits
        if fits is not None:
            data = fits.data
            group = _groups(data.rows, data.groups)
            numbers = np.unique(group[group >= 0])
            if numbers.size < 3:
                raise DataError(
                    f"interval: expected rows for three groups that can be left out, got "
                    f"{data.rows.n_samples} rows; give more rows of each class, or more groups"
                )
            others = _groups_of_others(data.rows.unlabelled, numbers, group, data.groups)
            self._replicas = [
                _replica(fits.without_others(others == g), np.flatnonzero(group != g))
                for g in numbers
            ]
            self._fits = None
        return self._replicas

    def without_rows(self) -> Jackknife | None:
        """Return the pools for a file; None where they are not fitted, or are large."""
        if not self._replicas:
            return None
        try:
            size = len(pickle.dumps(self._replicas))
        except (AttributeError, TypeError, pickle.PicklingError):  # a member of one's own
            return None
        return self if size <= _MOST_BYTES else None

    def limits(
        self, pool: PooledClassifier, X: Any, interval: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return posteriors and their limits, each (n_rows, n_classes)."""
        others = [_log_odds(_as_pool(pool, one).predict_log_proba(X)) for one in self.replicas()]
        g = len(others)
        spread = np.sqrt((g - 1.0) * np.var(others, axis=0))
        log_posterior = pool.predict_log_proba(X)
        half = t.ppf(0.5 + interval / 2.0, g - 1) * spread
        own = _log_odds(log_posterior)
        return np.exp(log_posterior), expit(own - half), expit(own + half)


def kept_rows(fits: MemberFits, names: list[str]) -> Jackknife | None:
    """Return what intervals need, with a copy of the rows; None where there are many."""
    data = fits.data
    others = data.rows.unlabelled
    n = data.rows.n_samples + (0 if others is None else others.X.shape[0])
    if n * data.rows.X.shape[1] + fits.evidence(names).scores.size > _MOST_CELLS:
        return None
    # The user may write into what fit was given.
    every = np.arange(n)
    return Jackknife(fits.over(rows_at(data.X, every)))


def _groups(rows: LabelledRows, groups: Integers | None) -> Integers:
    """Deal rows to groups, whatever their classes: how many of each there are is chance, too.

    Class by class where a class could not be learnt without some group.
    """
    alike = replace(rows, codes=np.zeros_like(rows.codes), n_classes=1)
    found = folds(alike, _GROUPS, groups)
    whole = (np.ptp(found[rows.codes == code]) == 0 for code in np.unique(rows.codes))
    return folds(rows, _GROUPS, groups) if any(whole) else found


def _groups_of_others(
    others: OtherRows | None, numbers: Integers, group: Integers, groups: Integers | None
) -> Integers:
    """Deal rows without a label to the same groups, in turns, or with the rows they belong to."""
    if others is None:
        return np.zeros(0, dtype=np.int64)
    if groups is None or others.groups is None:
        return numbers[np.arange(others.X.shape[0]) % numbers.size]
    dealt = numbers[np.arange(1 + max(groups.max(), others.groups.max())) % numbers.size]
    dealt[groups] = group
    return np.asarray(dealt[others.groups])


def _replica(fits: MemberFits, index: Integers) -> Replica:
    rows = fits.data.rows.take(index)
    shares = rows.class_weights / rows.class_weights.sum()
    return Replica(fits.weighed(index), shares, fits.data.n_rows(index))


def _as_pool(pool: PooledClassifier, one: Replica) -> PooledClassifier:
    """Return a pool's replica, for the class shares that the pool is used with."""
    found = copy.copy(pool)
    found.estimators_, found.member_names_ = one.weighed.models, one.weighed.kept
    found._weighing, found._n_rows = one.weighed.of_kept, one.n_rows
    found._row_shares = one.shares
    if np.array_equal(pool.class_prior_, pool._row_shares):
        found.class_prior_ = one.shares
    return found


def _log_odds(log_posterior: Floats) -> Floats:
    """Return log-odds of each class against all others."""
    found = np.empty_like(log_posterior)
    for k in range(log_posterior.shape[1]):
        others = np.logaddexp.reduce(np.delete(log_posterior, k, axis=1), axis=1)
        found[:, k] = log_posterior[:, k] - others
    return found
