"""What the algebra of second moments must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.densities.covariance.moments import PowerSums

#: A direction in which a class varies less than this share of the pooled variance is singular.
SINGULAR = 1e-12


class Structure(ABC):
    """Second moments of d columns, of which `active` vary at all."""

    def __init__(self, d: int, active: NDArray[np.bool_]):
        self.d = d
        self.active = active

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of second statistics."""

    @classmethod
    def of_single_columns(cls) -> type[Structure]:
        """Return the structure whose second statistics are each of one column, or of one pair."""
        return cls

    # -- rows ------------------------------------------------------------------------------------

    @abstractmethod
    def statistics(self, Z: Floats) -> Floats:
        """Return the second statistics of each row, shape (n_rows, size)."""

    @abstractmethod
    def scores(self, Z: Floats, b: Floats) -> Floats:
        """Return b_k · second statistics of each row, shape (n_rows, n_classes)."""

    @abstractmethod
    def weighted_sums(self, Z: Floats, weights: Floats) -> Floats:
        """Return weighted sums of the second statistics, shape (n_classes, size)."""

    @staticmethod
    @abstractmethod
    def product(U: Floats) -> Floats:
        """Return the rows' summed second moments, shape (d, d) or (d,)."""

    @staticmethod
    @abstractmethod
    def higher(U: Floats, weights: Floats | None) -> tuple[Floats, ...]:
        """Return Σ w u_i² u_j and Σ w u_i² u_j² (and Σ w u_i u_j if `product` lacks pairs)."""

    @abstractmethod
    def mean_squares(self, sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
        """Return the mean square of each second statistic, shape (size,)."""

    @abstractmethod
    def derivative(self, b: Floats, z: Floats) -> Floats:
        """Return the gradient of b_k · second statistics at one z, shape (n_classes, d)."""

    @abstractmethod
    def rescaled(self, b: Floats, factor: Floats) -> Floats:
        """Return b for x with z = factor · x (a sphere's: for each square of x)."""

    # -- moments ---------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def outer(x: Floats, y: Floats) -> Floats:
        """Return x yᵀ, or its diagonal, for vectors of shape (..., d)."""

    @staticmethod
    @abstractmethod
    def diagonal(C: Floats) -> Floats:
        """Return the variances, shape (..., d)."""

    @staticmethod
    @abstractmethod
    def from_diagonal(variances: Floats) -> Floats:
        """Return the covariance with these variances and no correlation."""

    @abstractmethod
    def flat(self, moments: Floats) -> Floats:
        """Return second moments as statistics are laid out, shape (..., size)."""

    @abstractmethod
    def covariance(self, m: Floats, flat: Floats) -> Floats:
        """Return C from mean statistics m and E[second statistics]."""

    @abstractmethod
    def missing_variance(self, C: Floats, reference: Floats) -> Floats:
        """Return a variance for the directions that have next to none, and zero for all others.

        Shapes: reference (d,).
        """

    # -- natural parameters ----------------------------------------------------------------------

    @abstractmethod
    def natural(self, m: Floats, C: Floats) -> tuple[Floats, Floats]:
        """Return (a, b) of means m and covariances C (raised a little where singular)."""

    @abstractmethod
    def moments(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return (m, C); NaN outside the domain."""

    @abstractmethod
    def log_partition(self, a: Floats, b: Floats) -> Floats:
        """Return A, shape (n_classes,); +inf or NaN outside the domain."""

    @abstractmethod
    def hessian(self, m: Floats, C: Floats) -> Floats:
        """Return cov(T), shape (n_classes, d + size, d + size)."""

    @abstractmethod
    def hessian_product(self, m: Floats, C: Floats, u: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Return cov(T) (u, w), in its two parts."""

    @abstractmethod
    def inverse_product(self, m: Floats, C: Floats, r: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Return cov(T)⁻¹ (r, s), in its two parts."""

    @abstractmethod
    def root(self, C: Floats) -> Floats:
        """Return R of shape (d, d) or (d,) with R Rᵀ = C for one class."""
