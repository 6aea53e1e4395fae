"""Columns of counts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from crossfade._typing import Floats
from crossfade.densities.bernoulli import check_alpha
from crossfade.densities.univariate import Univariate, safe_mean

#: Estimated rates are at least this, so that their logarithms are finite.
_EDGE = 1e-15


class Poisson(Univariate):
    """Independent columns of counts 0, 1, 2, …; the natural parameter is the log of the rate.

    With ``alpha=0``, or in a column of zeros, a class's rate is at least 1e-15.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the prior, in rows that have the column's overall mean.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Poisson
    >>> X, y = np.array([[0.0], [2.0], [7.0], [7.0]]), np.array([0, 0, 1, 1])
    >>> begun = Poisson().begin(X)
    >>> bound = begun.bind(begun.summary(X, y, None, 2))
    >>> eta = bound.density.estimate(
    ...     bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    ... )
    >>> bound.density.mean(eta)  # (2 + 4) / (2 + 1) and (14 + 4) / (2 + 1)
    array([[2.],
           [6.]])
    """

    domain = "whole numbers, 0 or more"
    remedy = "use 'gaussian' for this column, or round it"

    kind: ClassVar[str] = "count"

    def __init__(self, alpha: float = 1.0):
        check_alpha(alpha)
        self.alpha = alpha

    def in_domain(self, x: Floats) -> NDArray[np.bool_]:
        return (x >= 0) & (x == np.floor(x))

    def column_statistics(self, x: Floats) -> Floats:
        return x[..., None]

    def column_log_base_measure(self, x: Floats) -> Floats:
        return -gammaln(x + 1.0)

    def column_log_partition(self, eta: Floats) -> Floats:
        return np.exp(eta[..., 0])

    def column_mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def column_covariance(self, eta: Floats) -> Floats:
        return np.exp(eta)[..., None]

    def column_natural(self, mean: Floats) -> Floats:
        return np.log(np.maximum(mean, _EDGE))

    def column_prior(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        total = counts.sum(axis=0)
        overall = safe_mean(sums.sum(axis=0), total[:, None])
        pseudo_counts = np.where(total > 0, np.full_like(counts, self.alpha), 0.0)
        return pseudo_counts, pseudo_counts[..., None] * overall

    def column_sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return rng.poisson(np.exp(eta[:, 0]), (size, len(eta))).astype(np.float64)
