"""The fitted density of one class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats
from crossfade.densities.base import Density


@dataclass(frozen=True)
class ClassDensity:
    """The fitted density of one class, a mixture of one or more components.

    Shapes: natural (n_components, n_statistics); shares (n_components,), 1 in all.
    """

    density: Density
    natural: Floats
    shares: Floats

    @property
    def mean_parameters(self) -> Floats:
        """E[T(x)] in each component, shape (n_components, n_statistics)."""
        return self.density.mean(self.natural)

    def log_density(self, X: ArrayLike) -> Floats:
        """Return log f(x), shape (n_samples,), of rows of numbers (categories as codes)."""
        matrix = np.ascontiguousarray(X, dtype=np.float64)
        log_densities = self.density.log_density(matrix, self.natural) + np.log(self.shares)
        return np.logaddexp.reduce(log_densities, axis=1)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw rows of numbers (categories as codes), shape (n_samples, n_features)."""
        component = rng.choice(self.shares.size, size=n_samples, p=self.shares)
        drawn = np.empty((n_samples, self.density.n_features))
        for number in range(self.shares.size):
            own = np.flatnonzero(component == number)
            drawn[own] = self.density.sample(self.natural[number], own.size, rng)
        return drawn
