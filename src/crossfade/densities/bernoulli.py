"""Columns of zeros and ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from crossfade._checks import check_number
from crossfade._typing import Floats
from crossfade.densities.univariate import Univariate

#: Estimated probabilities keep this distance from 0 and 1, so that their logits are finite.
_EDGE = 1e-15


def check_alpha(alpha: float) -> None:
    """Refuse a pseudo-count that is negative or not finite."""
    check_number("alpha", alpha, 0.0, "1.0 is Laplace's pseudo-count")


class Bernoulli(Univariate):
    """Independent columns of 0 and 1; the natural parameter is the logit of P(x = 1).

    With ``alpha=0`` a value never seen in a class has probability 1e-15 there, not 0: natural
    parameters stay finite, and a row that no class could have produced still has a posterior.

    Parameters
    ----------
    alpha : float, default=1.0
        Pseudo-count of each of the two values in each class (Laplace's smoothing).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Bernoulli
    >>> X, y = np.array([[1.0], [1.0], [0.0]]), np.array([0, 0, 1])
    >>> begun = Bernoulli().begin(X)
    >>> bound = begun.bind(begun.summary(X, y, None, 2))
    >>> eta = bound.density.estimate(
    ...     bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    ... )
    >>> bound.density.mean(eta)  # (2 + 1) / (2 + 2) and (0 + 1) / (1 + 2)
    array([[0.75      ],
           [0.33333333]])
    """

    domain = "0 or 1"
    remedy = "use 'categorical' for codes, 'poisson' for counts, 'gaussian' for measurements"
    default_mean: ClassVar[tuple[float, ...]] = (0.5,)

    kind: ClassVar[str] = "boolean"

    def __init__(self, alpha: float = 1.0):
        check_alpha(alpha)
        self.alpha = alpha

    def in_domain(self, x: Floats) -> NDArray[np.bool_]:
        return (x == 0) | (x == 1)

    def column_statistics(self, x: Floats) -> Floats:
        return x[..., None]

    def column_log_partition(self, eta: Floats) -> Floats:
        return np.logaddexp(0.0, eta[..., 0])

    def column_mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def column_covariance(self, eta: Floats) -> Floats:
        return (expit(eta) * expit(-eta))[..., None]

    def column_natural(self, mean: Floats) -> Floats:
        return logit(np.clip(mean, _EDGE, 1.0 - _EDGE))

    def column_prior(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        return np.full_like(counts, 2 * self.alpha), np.full_like(sums, self.alpha)

    def column_sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return (rng.random((size, len(eta))) < expit(eta[:, 0])).astype(np.float64)
