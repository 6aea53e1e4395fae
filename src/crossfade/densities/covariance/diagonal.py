"""A diagonal of second moments, or one number for all columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.densities.covariance.full import Full
from crossfade.densities.covariance.moments import PowerSums, fourth_moments, mean_squared_products
from crossfade.densities.covariance.structure import SINGULAR, Structure


class Diagonal(Structure):
    """The squares z_j², each column with its own variance."""

    @property
    def size(self) -> int:
        return self.d

    def spread(self, b: Floats) -> Floats:
        """Return the natural parameters of the single squares, shape (n_classes, d)."""
        return b

    def gathered(self, squares: Floats) -> Floats:
        """Return second statistics from single squares."""
        return squares

    def statistics(self, Z: Floats) -> Floats:
        return self.gathered(Z * Z)

    def scores(self, Z: Floats, b: Floats) -> Floats:
        return self.statistics(Z) @ b.T

    def weighted_sums(self, Z: Floats, weights: Floats) -> Floats:
        return self.gathered(weights.T @ (Z * Z))

    def derivative(self, b: Floats, z: Floats) -> Floats:
        return 2.0 * self.spread(b) * z

    def rescaled(self, b: Floats, factor: Floats) -> Floats:
        return self.spread(b) * factor**2

    @staticmethod
    def product(U: Floats) -> Floats:
        return (U * U).sum(axis=0)

    @staticmethod
    def higher(U: Floats, weights: Floats | None) -> tuple[Floats, ...]:
        squares = U * U
        weighted = squares if weights is None else squares * weights[:, None]
        return (weighted * U).sum(axis=0), (weighted * squares).sum(axis=0)

    def mean_squares(self, sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
        return fourth_moments(sums, offset, inverse)

    @staticmethod
    def outer(x: Floats, y: Floats) -> Floats:
        return x * y

    @staticmethod
    def diagonal(C: Floats) -> Floats:
        return C

    @staticmethod
    def from_diagonal(variances: Floats) -> Floats:
        return variances

    def flat(self, moments: Floats) -> Floats:
        return self.gathered(moments)

    def covariance(self, m: Floats, flat: Floats) -> Floats:
        return flat - m**2

    def missing_variance(self, C: Floats, reference: Floats) -> Floats:
        low: NDArray[np.bool_] = SINGULAR * reference > C
        return np.where(low, reference, 0.0)

    def natural(self, m: Floats, C: Floats) -> tuple[Floats, Floats]:
        floor = 1e-14 * np.maximum(C.max(axis=-1, keepdims=True), 1.0)
        C = np.maximum(C, floor)
        return m / C, self._natural_squares(-0.5 / C)

    def _natural_squares(self, b: Floats) -> Floats:
        return b

    def moments(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        square = self.spread(b)
        C = np.where(square < 0, -0.5 / square, np.nan)
        return a * C, C

    def log_partition(self, a: Floats, b: Floats) -> Floats:
        C = self.moments(a, b)[1]
        return 0.5 * (a * a * C + np.log(C)).sum(axis=-1)

    def hessian(self, m: Floats, C: Floats) -> Floats:
        dense = np.zeros((m.shape[0], 2, self.d, 2, self.d))
        j = np.arange(self.d)
        dense[:, 0, j, 0, j] = C
        dense[:, 0, j, 1, j] = dense[:, 1, j, 0, j] = 2.0 * m * C
        dense[:, 1, j, 1, j] = 2.0 * C**2 + 4.0 * m**2 * C
        return dense.reshape(m.shape[0], 2 * self.d, 2 * self.d)

    def hessian_product(self, m: Floats, C: Floats, u: Floats, w: Floats) -> tuple[Floats, Floats]:
        w = self.spread(w)
        first = C * (u + 2.0 * w * m)
        return first, self.gathered(2.0 * m * first + 2.0 * C**2 * w)

    def inverse_product(self, m: Floats, C: Floats, r: Floats, s: Floats) -> tuple[Floats, Floats]:
        w = (s - 2.0 * m * r) / (2.0 * C**2)
        return r / C - 2.0 * w * m, w

    def root(self, C: Floats) -> Floats:
        return np.sqrt(C)


class Spherical(Diagonal):
    """The sum of all squares: one variance for all columns that vary, 1 for those that do not."""

    @property
    def size(self) -> int:
        return 1

    @classmethod
    def of_single_columns(cls) -> type[Structure]:
        return Diagonal

    def spread(self, b: Floats) -> Floats:
        return np.where(self.active, b, -0.5)

    def gathered(self, squares: Floats) -> Floats:
        return squares[..., self.active].sum(axis=-1, keepdims=True)

    def _direction(self, w: Floats) -> Floats:
        return np.where(self.active, w, 0.0)

    @property
    def _number(self) -> int:
        return max(int(self.active.sum()), 1)

    @staticmethod
    def higher(U: Floats, weights: Floats | None) -> tuple[Floats, ...]:
        weighted = U if weights is None else U * weights[:, None]
        return (*Full.higher(U, weights), weighted.T @ U)

    def mean_squares(self, sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
        # (Σ z_i²)² is the sum over all pairs of z_i² z_j².
        products = mean_squared_products(sums, offset, inverse)
        return products.sum(keepdims=True).reshape(1)

    def covariance(self, m: Floats, flat: Floats) -> Floats:
        variance = (flat - self.gathered(m**2)) / self._number
        return np.where(self.active, variance, 1.0)

    def _natural_squares(self, b: Floats) -> Floats:
        first = int(np.argmax(self.active))
        return b[..., first : first + 1]

    def hessian(self, m: Floats, C: Floats) -> Floats:
        n_classes, d = m.shape
        dense = np.zeros((n_classes, d + 1, d + 1))
        j = np.arange(d)
        dense[:, j, j] = C
        dense[:, :d, d] = dense[:, d, :d] = np.where(self.active, 2.0 * m * C, 0.0)
        dense[:, d:, d] = self.gathered(2.0 * C**2 + 4.0 * m**2 * C)
        return dense

    def hessian_product(self, m: Floats, C: Floats, u: Floats, w: Floats) -> tuple[Floats, Floats]:
        w = self._direction(w)
        first = C * (u + 2.0 * w * m)
        return first, self.gathered(2.0 * m * first + 2.0 * C**2 * w)

    def inverse_product(self, m: Floats, C: Floats, r: Floats, s: Floats) -> tuple[Floats, Floats]:
        curvature = np.maximum(self.gathered(2.0 * C**2), np.finfo(float).tiny)
        w = (s - self.gathered(2.0 * m * r)) / curvature
        return r / C - 2.0 * self._direction(w) * m, w
