"""The algebra of a Gaussian's second moments: a full matrix, a diagonal, or one number.

Each structure works in standardised coordinates z with natural parameters (a, b), a the part of
z and b that of the second statistics, and with means m and covariances C in its own
representation: (n_classes, d, d) for :class:`Full`, (n_classes, d) for the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossfade.blocks import workspace
from crossfade.densities.base import Floats
from crossfade.rowwise import add_products

__all__ = [
    "STRUCTURES",
    "Diagonal",
    "Full",
    "PowerSums",
    "Spherical",
    "Structure",
    "fourth_moments",
]

#: Parts that the columns of a quadratic form are taken in: more skip more zeros of its triangle,
#: in smaller and so slower products.
_PANELS = 4

#: A direction in which a class varies less than this share of the pooled variance is singular.
_SINGULAR = 1e-12

#: Where there is such a direction, those that vary less than this are taken to be such, too.
_NULL = 1e-10


class PowerSums(NamedTuple):
    """Weighted sums over rows of powers of u = x - shift: by column, or by pair of columns."""

    weight: Any
    first: Floats
    second: Floats
    third: Floats
    fourth: Floats
    pairs: Floats | None = None


class Structure(ABC):
    """Second moments of d columns, of which `active` vary at all."""

    def __init__(self, d: int, active: NDArray[np.bool_]):
        self.d = d
        self.active = active

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of second statistics."""

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
        """Return the mean square of each second statistic, shape (size,).

        Parameters
        ----------
        sums : PowerSums
            Over all rows.
        offset, inverse : ndarray of shape (d,)
            z = (u - offset) · inverse.
        """

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

        Parameters
        ----------
        C : ndarray
            Covariances, one a class.
        reference : ndarray of shape (d,)
            Each column's variance, by which directions are judged and which they are given.
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


class Full(Structure):
    """All products z_i z_j with i ≥ j: b_ij is -Ω_ij, b_ii is -Ω_ii/2, Ω the precision matrix."""

    def __init__(self, d: int, active: NDArray[np.bool_]):
        super().__init__(d, active)
        self._i, self._j = np.tril_indices(d)
        self._half = np.where(self._i == self._j, 1.0, 0.5)

    @property
    def size(self) -> int:
        return self._i.size

    def statistics(self, Z: Floats) -> Floats:
        return Z[:, self._i] * Z[:, self._j]

    def _triangular(self, b: Floats) -> Floats:
        """Return the lower triangular B with zᵀ B z = b · second statistics."""
        matrix = np.zeros((*b.shape[:-1], self.d, self.d))
        matrix[..., self._i, self._j] = b
        return matrix

    def _symmetric(self, b: Floats) -> Floats:
        """Return the symmetric W with zᵀ W z = b · second statistics."""
        return self._unpacked(b * self._half)

    def _unpacked(self, flat: Floats) -> Floats:
        matrix = self._triangular(flat)
        matrix[..., self._j, self._i] = flat
        return matrix

    def scores(self, Z: Floats, b: Floats) -> Floats:
        if b.shape[0] > 1 and (b == b[0]).all():
            # A shared covariance: the same quadratic form for all classes.
            return np.repeat(self.scores(Z, b[:1]), b.shape[0], axis=1)
        n_classes = b.shape[0]
        # All classes' matrices side by side: one wide product is faster than one a class. They
        # are triangular, so that a panel of their columns needs the later rows only.
        triangles = self._triangular(b).swapaxes(0, 1)
        width = -(-self.d // _PANELS)
        panels = [
            (first, np.ascontiguousarray(triangles[first:, :, first : first + width]))
            for first in range(0, self.d, width)
        ]
        values = np.zeros((Z.shape[0], n_classes))
        for rows in _strips(Z.shape[0], n_classes * width, 131_072):
            for first, panel in panels:
                rest, wide = Z[rows, first:], panel.reshape(self.d - first, -1)
                images = workspace("images", rest.shape[0], wide.shape[1])
                np.matmul(rest, wide, out=images)
                add_products(images, rest[:, : panel.shape[2]], values[rows])
        return values

    def weighted_sums(self, Z: Floats, weights: Floats) -> Floats:
        n_classes = weights.shape[1]
        sums = np.zeros((n_classes * self.d, self.d))
        for rows in _strips(Z.shape[0], sums.shape[0], 65_536):
            wide = np.einsum("nk,nj->nkj", weights[rows], Z[rows])
            sums += wide.reshape(-1, n_classes * self.d).T @ Z[rows]
        return self.flat(sums.reshape(n_classes, self.d, self.d))

    def derivative(self, b: Floats, z: Floats) -> Floats:
        return 2.0 * self._symmetric(b) @ z

    def rescaled(self, b: Floats, factor: Floats) -> Floats:
        return b * factor[self._i] * factor[self._j]

    @staticmethod
    def product(U: Floats) -> Floats:
        return U.T @ U

    @staticmethod
    def higher(U: Floats, weights: Floats | None) -> tuple[Floats, ...]:
        squares = U * U
        weighted = squares if weights is None else squares * weights[:, None]
        return weighted.T @ U, weighted.T @ squares

    def mean_squares(self, sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
        return self.flat(_mean_squared_products(sums, offset, inverse))

    @staticmethod
    def outer(x: Floats, y: Floats) -> Floats:
        return x[..., :, None] * y[..., None, :]

    @staticmethod
    def diagonal(C: Floats) -> Floats:
        return np.diagonal(C, axis1=-2, axis2=-1)

    @staticmethod
    def from_diagonal(variances: Floats) -> Floats:
        return variances[..., :, None] * np.eye(variances.shape[-1])

    def flat(self, moments: Floats) -> Floats:
        return moments[..., self._i, self._j]

    def covariance(self, m: Floats, flat: Floats) -> Floats:
        return self._unpacked(flat) - self.outer(m, m)

    def missing_variance(self, C: Floats, reference: Floats) -> Floats:
        factors, definite = _cholesky(C)
        pivots: Floats = self.diagonal(factors) ** 2
        singular = ~definite | (pivots < _SINGULAR * reference).any(axis=-1)
        out = np.zeros_like(C)
        unit = np.sqrt(reference)
        for k in np.flatnonzero(singular):
            values, vectors = np.linalg.eigh(C[k] / self.outer(unit, unit))
            # No pivot is smaller than the least eigenvalue; others that are next to it go along.
            null = vectors[:, values <= max(_NULL, float(values[0]))]
            out[k] = (null @ null.T) * self.outer(unit, unit)
        return out

    def natural(self, m: Floats, C: Floats) -> tuple[Floats, Floats]:
        precision = _inverse(_definite(C))
        a = np.einsum("kij,kj->ki", precision, m)
        return a, self.flat(-0.5 * precision) / self._half

    def moments(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        C = _inverse(_cholesky(-2.0 * self._symmetric(b))[0])
        return np.einsum("kij,kj->ki", C, a), C

    def log_partition(self, a: Floats, b: Floats) -> Floats:
        factors, definite = _cholesky(-2.0 * self._symmetric(b))
        half: Any = np.linalg.solve(
            np.where(definite[:, None, None], factors, np.eye(self.d)), a[..., None]
        )
        values = 0.5 * (half[..., 0] ** 2).sum(axis=-1) - np.log(self.diagonal(factors)).sum(
            axis=-1
        )
        return np.where(definite, values, np.inf)

    def hessian(self, m: Floats, C: Floats) -> Floats:
        i, j, d = self._i, self._j, self.d
        dense = np.empty((m.shape[0], d + i.size, d + i.size))
        dense[:, :d, :d] = C
        cross = C[:, :, i] * m[:, None, j] + C[:, :, j] * m[:, None, i]
        dense[:, :d, d:] = cross
        dense[:, d:, :d] = cross.swapaxes(1, 2)
        # cov(z_i z_j, z_k z_l) by Isserlis, C_ik S_jl + m_i m_k C_jl + (k and l exchanged) with
        # S = C + m mᵀ; by the symmetry of C it is C_ik C_jl + C_ik m_j m_l + m_i m_k C_jl + ….
        block = dense[:, d:, d:]
        for c in range(m.shape[0]):
            rows_i, rows_j = C[c][i], C[c][j]
            mi, mj = m[c][i], m[c][j]
            ik, jl = rows_i[:, i], rows_j[:, j]
            il, jk = rows_i[:, j], rows_j[:, i]
            np.multiply(ik, jl, out=block[c])
            block[c] += il * jk
            if m[c].any():
                # Each covariance times the means of the two columns it leaves out.
                for covariance, row, column in (
                    (ik, mj, mj),
                    (jl, mi, mi),
                    (il, mj, mi),
                    (jk, mi, mj),
                ):
                    covariance *= row[:, None]
                    covariance *= column
                    block[c] += covariance
        return dense

    def hessian_product(self, m: Floats, C: Floats, u: Floats, w: Floats) -> tuple[Floats, Floats]:
        W = self._symmetric(w)
        # u·z + zᵀWz = constant + g·ε + εᵀWε with z = m + ε and g = u + 2 W m.
        g = u + 2.0 * np.einsum("kij,kj->ki", W, m)
        first = np.einsum("kij,kj->ki", C, g)
        second = self.outer(m, first) + self.outer(first, m) + 2.0 * C @ W @ C
        return first, self.flat(second)

    def inverse_product(self, m: Floats, C: Floats, r: Floats, s: Floats) -> tuple[Floats, Floats]:
        precision = _inverse(_cholesky(C)[0])
        rest = self._unpacked(s) - self.outer(m, r) - self.outer(r, m)
        W = 0.5 * precision @ rest @ precision
        g = np.einsum("kij,kj->ki", precision, r)
        u = g - 2.0 * np.einsum("kij,kj->ki", W, m)
        return u, self.flat(W) / self._half

    def root(self, C: Floats) -> Floats:
        factors: Floats = _definite(C[None])[0]
        return factors


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
        return fourth_moments(sums, offset) * inverse**4

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
        low: NDArray[np.bool_] = _SINGULAR * reference > C
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
        products = _mean_squared_products(sums, offset, inverse)
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


STRUCTURES: dict[str, type[Structure]] = {
    "full": Full,
    "diagonal": Diagonal,
    "spherical": Spherical,
}


def _strips(n_rows: int, width: int, doubles: int) -> list[slice]:
    """Cut rows into strips of equal length whose `width` values a row stay in cache."""
    longest = max(32, doubles // width)
    step = -(-n_rows // max(1, -(-n_rows // longest))) or longest
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def fourth_moments(sums: PowerSums, offset: Floats) -> Floats:
    """Return E(u - offset)⁴ by column; zero where nothing was summed."""
    n = np.maximum(sums.weight, np.finfo(float).tiny)
    rest = offset * (1.5 * sums.second - offset * (sums.first - 0.25 * n * offset))
    moments: Floats = (sums.fourth - 4.0 * offset * (sums.third - rest)) / n
    return moments


def _mean_squared_products(sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
    """Return E z_i² z_j² for all pairs of columns, z = (u - offset) · inverse."""
    mi, mj = offset[:, None], offset
    second = sums.second if sums.pairs is None else sums.pairs
    squares = np.diagonal(second)
    total = (
        sums.fourth
        - 2.0 * (mj * sums.third + mi * sums.third.T)
        + mj**2 * squares[:, None]
        + mi**2 * squares
        + 4.0 * mi * mj * second
        - 2.0 * mi * mj * (mj * sums.first[:, None] + mi * sums.first)
        + sums.weight * mi**2 * mj**2
    )
    moments: Floats = total / np.maximum(sums.weight, np.finfo(float).tiny)
    return moments * inverse[:, None] ** 2 * inverse**2


def _cholesky(matrices: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return lower Cholesky factors, and which matrices have one (others' factors are NaN)."""
    try:
        factors: Any = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        factors = np.full_like(matrices, np.nan)
        for k, matrix in enumerate(matrices):
            try:
                factors[k] = np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                continue
    definite: Any = np.isfinite(factors).all(axis=(-2, -1))
    return factors, definite


def _inverse(factors: Floats) -> Floats:
    """Return (L Lᵀ)⁻¹ for each lower factor L; NaN where L is."""
    finite: Any = np.isfinite(factors).all(axis=(-2, -1))
    usable = finite[:, None, None]
    roots: Any = np.linalg.inv(np.where(usable, factors, np.eye(factors.shape[-1])))
    return np.where(usable, roots.swapaxes(-1, -2) @ roots, np.nan)


def _definite(matrices: Floats) -> Floats:
    """Return Cholesky factors, of a slightly larger matrix where there is none."""
    factors, definite = _cholesky(matrices)
    eye = np.eye(matrices.shape[-1])
    for k in np.flatnonzero(~definite):
        ridge = 1e-14 * max(1.0, float(np.diagonal(matrices[k]).max(initial=0.0)))
        while not definite[k]:
            found, good = _cholesky((matrices[k] + ridge * eye)[None])
            factors[k], definite[k] = found[0], good.all() or not np.isfinite(ridge)
            ridge *= 10.0
    return factors
