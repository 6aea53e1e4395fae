"""The full matrix of second moments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import workspace
from crossfade.densities.covariance.moments import PowerSums, mean_squared_products
from crossfade.densities.covariance.structure import SINGULAR, Structure
from crossfade.densities.kernels import (
    PAIRS,
    product_covariances,
    product_covariances_numpy,
)
from crossfade.rowwise import add_products

#: Parts that the columns of a quadratic form are taken in: more skip more zeros of its triangle,
#: in smaller and so slower products.
_PANELS = 4

#: Where there is a singular direction, those that vary less than this are taken to be such, too.
_NULL = 1e-10


class Full(Structure):
    """All products z_i z_j with i ≥ j: b_ij is -Ω_ij, b_ii is -Ω_ii/2, Ω the precision matrix."""

    def __init__(self, d: int, active: NDArray[np.bool_]):
        super().__init__(d, active)
        self._i, self._j, self._half = _lower_places(d)

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
        return flat.take(_square_places(self.d), axis=-1)

    def scores(self, Z: Floats, b: Floats) -> Floats:
        if b.shape[0] > 1 and (b == b[0]).all():
            # A shared covariance: the same quadratic form for all classes.
            return np.repeat(self.scores(Z, b[:1]), b.shape[0], axis=1)
        n_classes = b.shape[0]
        # All classes' matrices side by side: one wide product is faster than one per class. They
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
        return self.flat(mean_squared_products(sums, offset, inverse))

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
        singular = ~definite | (pivots < SINGULAR * reference).any(axis=-1)
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
        if i.size**2 < PAIRS:
            dense[:, d:, d:] = product_covariances_numpy(C, m, i, j)
            return dense
        for c in range(m.shape[0]):
            dense[c, d:, d:] = product_covariances(C[c], m[c], i, j)
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


@lru_cache(maxsize=8)
def _lower_places(d: int) -> tuple[Integers, Integers, Floats]:
    """Return rows and columns of a lower triangle, and ½ but on its diagonal; not to be changed."""
    i, j = np.tril_indices(d)
    return i, j, np.where(i == j, 1.0, 0.5)


@lru_cache(maxsize=8)
def _square_places(d: int) -> Integers:
    """Return where each cell of a symmetric matrix stands in its lower triangle, (d, d)."""
    i, j, _ = _lower_places(d)
    places = np.empty((d, d), dtype=np.intp)
    places[i, j] = places[j, i] = np.arange(i.size)
    return places


def _strips(n_rows: int, width: int, doubles: int) -> list[slice]:
    """Cut rows into strips of equal length whose `width` values per row stay in cache."""
    longest = max(32, doubles // width)
    step = -(-n_rows // max(1, -(-n_rows // longest))) or longest
    return [slice(start, start + step) for start in range(0, n_rows, step)]


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
