"""Documents as the words that occur in them: one yes or no for each word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossfade._typing import Floats
from crossfade.densities.bernoulli import check_alpha
from crossfade.densities.words import EDGE, Words


class BinaryWords(Words):
    """Which words occur, each by itself: BernoulliNB over a sparse block.

    The natural parameters are the logits of P(word occurs | class), and A(η) = Σ_j log(1 + exp
    η_j). The objective is concave at every λ.

    Parameters
    ----------
    alpha : float, default=1.0
        Pseudo-count of each word's occurring, and of its not occurring, in each class.
    by_ratio, used
        As of :class:`Multinomial`.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from crossfade.densities import BinaryWords
    >>> X = scipy.sparse.csr_array([[2.0, 0.0], [0.0, 1.0]])
    >>> begun = BinaryWords().begin(X)
    >>> bound = begun.bind(begun.summary(X, np.array([0, 1]), None, 2))
    >>> bound.density.mean(bound.density.estimate(
    ...     bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    ... ))  # (1 + 1) / (1 + 2) and so on
    array([[0.66666667, 0.33333333],
           [0.33333333, 0.66666667]])
    """

    binarise = True

    def __init__(
        self, alpha: float = 1.0, *, by_ratio: bool = False, used: NDArray[np.bool_] | None = None
    ) -> None:
        check_alpha(alpha)
        self.alpha, self.by_ratio, self.used = alpha, by_ratio, used

    def _factor_counts(self, mass: Floats, sums: Floats) -> Floats:
        return mass[:, None]

    def _prior(self, n_classes: int) -> tuple[Floats, Floats]:
        return np.full((n_classes, 1), 2.0 * self.alpha), self._prior_sums(n_classes)

    def log_partition(self, eta: Floats) -> Floats:
        terms = self._sizes * np.logaddexp(0.0, eta)
        return np.asarray(self._kept(terms).sum(axis=-1, keepdims=True))

    def log_base_measure(self, X: Any) -> Floats:
        return np.zeros((X.shape[0], 1))

    def mean(self, eta: Floats) -> Floats:
        return self._kept(np.asarray(self._sizes * expit(eta)))

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        return self.hessian_diagonal(eta) * direction

    def hessian_diagonal(self, eta: Floats) -> Floats:
        return self._kept(self._sizes * expit(eta) * expit(-eta))

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        return self._kept(vector / np.maximum(self.hessian_diagonal(eta), 1e-300))

    def natural(self, mean: Floats) -> Floats:
        inside = np.clip(mean / self._sizes, EDGE, 1.0 - EDGE)
        return self._kept(np.log(inside) - np.log1p(-inside))

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        return self.natural(sums / np.maximum(counts, EDGE))
