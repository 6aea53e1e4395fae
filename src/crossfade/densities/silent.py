"""Columns that a member of a pool does not look at."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Bound, Density
from crossfade.densities.family import not_a_density


class Silent(Density):
    """Columns that say nothing: no statistic to be fitted, zeros where another density has some.

    `spread` gives zeros for the statistics and factors of the density that it stands for, so that a
    pool may add its parameters to those of members that look at these columns.
    """

    def __init__(self, density: Density) -> None:
        self.density = density

    _stands_for: Density

    @property
    def idle(self) -> NDArray[np.bool_]:
        return np.ones(self.n_factors, dtype=bool)

    @property
    def n_spread(self) -> int:
        return self._stands_for.n_statistics

    def _of(self, factors: Integers, n_factors: int) -> Self:
        new = copy.copy(self)
        new.n_statistics, new.factors, new.n_factors = factors.size, factors, n_factors
        new.tied = np.zeros(factors.size, dtype=bool)
        return new

    def begin(self, head: Any, *, scales: bool = True) -> Self:
        new = self._of(np.zeros(0, np.int64), 1)
        new._stands_for = self.density.begin(head, scales=scales)
        new.n_features = head.shape[1]
        new.feature_factors = np.zeros(new.n_features, np.int64)
        return new

    def spread(self, eta: Floats) -> tuple[Density, Floats]:
        other = self._stands_for
        return self._of(other.factors, other.n_factors), np.zeros((len(eta), other.n_statistics))

    def spread_factors(self, values: Floats) -> Floats:
        return np.zeros((len(values), self._stands_for.n_factors))

    def gathered(self, eta: Floats) -> Floats:
        return eta[:, :0]

    def check(self, X: Any) -> None:
        """Cells are not looked at."""

    def summary(self, X: Any, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        return (np.bincount(codes, weights, n_classes).astype(np.float64)[:, None],)

    def bind(self, summary: Any) -> Bound:
        (counts,) = summary
        none = np.zeros((counts.shape[0], 0))
        prior = np.zeros_like(counts)
        return Bound(self, counts, none, prior, none, np.zeros(0), np.ones(0))

    def sufficient_statistics(self, X: Any) -> Floats:
        return np.zeros((X.shape[0], self.n_statistics))

    def scores(self, X: Any, eta: Floats) -> Floats:
        return np.zeros((X.shape[0], eta.shape[0]))

    def scores_by_column(self, X: Any, eta: Floats) -> Floats:
        return np.zeros((*X.shape, eta.shape[0]))

    def log_base_measure(self, X: Any) -> Floats:
        return np.zeros((X.shape[0], 1))

    def missing_factors(self, X: Any) -> None:
        return None

    def log_partition(self, eta: Floats) -> Floats:
        return np.zeros((*eta.shape[:-1], self.n_factors))

    def mean(self, eta: Floats) -> Floats:
        return np.zeros_like(eta)

    def hessian(self, eta: Floats) -> Floats:
        return np.zeros((*eta.shape, eta.shape[-1]))

    def natural(self, mean: Floats) -> Floats:
        return np.zeros_like(mean)

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        return np.zeros_like(vector)

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        raise not_a_density()
