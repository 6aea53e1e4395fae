"""The multivariate Gaussian as an exponential family in standardised columns z.

How it is bound to data, and what its parameters mean, is :mod:`crossfade.densities.multivariate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.densities.base import Density, Term
from crossfade.densities.covariance import Structure
from crossfade.densities.family import not_a_density
from crossfade.densities.filling import (
    Conditional,
    conditional_means,
    left_by_row,
    missing_patterns,
    unpacked,
)
from crossfade.densities.standardised import Standardised
from crossfade.densities.univariate import safe_mean

#: Most second statistics that are formed block by block.
_DENSE_STATISTICS = 500

#: Doubles of the covariances of rows' statistics that are held at a time.
_SPREAD_DOUBLES = 1_000_000


class StandardisedGaussian(Standardised, Density):
    """η·T(z) - A(η) of bound densities, T being z and its second moments."""

    shared: bool
    missing: str
    _structure: Structure
    _varies: NDArray[np.bool_] | None
    _total: tuple[Floats, Floats]

    @property
    def varies(self) -> NDArray[np.bool_]:
        return super().varies if self._varies is None else self._varies

    def _varying(self, flat: Floats) -> Floats:
        """Return the same with zeros for statistics that do not vary."""
        return flat if self._varies is None else np.where(self._varies, flat, 0.0)

    def _filled(self, flat: Floats, unit: Callable[[], Floats]) -> Floats:
        """Return the same with the standard Gaussian's values for statistics that do not vary."""
        return flat if self._varies is None else np.where(self._varies, flat, unit())

    def _standard_mean(self) -> Floats:
        structure = self._structure
        second = structure.flat(structure.from_diagonal(np.ones(self.n_features)))
        return np.concatenate([np.zeros(self.n_features), second])

    def _standard_natural(self) -> Floats:
        structure = self._structure
        variances = structure.from_diagonal(np.ones((1, self.n_features)))
        parts = structure.natural(np.zeros((1, self.n_features)), variances)
        return np.hstack(parts)[0]

    @property
    def standard_total(self) -> tuple[Floats, Floats]:
        """Mean and covariance of all rows in the standardised columns, (d,), (d, d)."""
        return self._total

    def standard_moments(self, eta: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return means and covariances of the standardised columns, and which columns vary.

        Shapes: → (K, d), (K, d, d), (d,).
        """
        m, C = self._moments_of(eta)
        C = C if C.ndim == 3 else C[:, :, None] * np.eye(self.n_features)
        return m, C, self._inverse_scale > 0

    def _moments_of(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return means and covariances in z; those of columns that do not vary are 0 and 1."""
        return self._structure.moments(*self._split(self._filled(eta, self._standard_natural)))

    def _split(self, flat: Floats) -> tuple[Floats, Floats]:
        return flat[..., : self.n_features], flat[..., self.n_features :]

    def _means(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """Return mean statistics by class; a class without rows gets those of all classes."""
        total = counts.sum()
        if not total > 0:
            return self._split(np.broadcast_to(self._standard_mean(), sums.shape))
        means = np.where(counts > 0, safe_mean(sums, counts), sums.sum(axis=0) / total)
        return self._split(means)

    def moments(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return means and covariances by class, in the columns' own units.

        Parameters
        ----------
        eta : ndarray of shape (n_classes, n_statistics)

        Returns
        -------
        means : ndarray of shape (n_classes, n_features)
        covariances : ndarray of shape (n_classes, n_features, n_features)
            NaN outside the domain. Columns without variation have mean their value, variance 0.
        """
        m, C = self._moments_of(eta)
        scale = self._spread
        if C.ndim == 2:
            C = C[:, :, None] * np.eye(self.n_features)
        return self._in_own_units(m), C * scale[:, None] * scale

    def sufficient_statistics(self, X: Floats) -> Floats:
        z = self.standardised(X)
        return np.hstack([z, self._structure.statistics(z)])

    def conditional_statistics(self, X: Floats, eta: Floats) -> Floats:
        if self.missing != "marginal" or not np.isnan(X).any():
            return super().conditional_statistics(X, eta)
        found = np.empty((len(X), len(eta), self.n_statistics))
        for k, (there, filled, C) in enumerate(self._filled_by_class(X, eta)):
            seconds = self._structure.statistics(filled) + self._left_over(there, C)
            found[:, k] = np.hstack([filled, seconds])
        return found

    def conditional(self, X: Floats, eta: Floats) -> Any:
        if self.missing != "marginal" or not np.isnan(X).any():
            return self.standardised(X)
        means, C, _ = self.standard_moments(eta)
        there = self._standard(X)
        return [Conditional.of(there, *moments) for moments in zip(means, C, strict=True)]

    def conditional_scores(self, given: Any, eta: Floats, partition: Floats) -> Floats:
        if isinstance(given, np.ndarray):
            return self._scores(given, eta)
        values = np.stack([own.log_densities() for own in given], axis=1)
        return values + partition.sum(axis=1)

    def conditional_sums(self, given: Any, weights: Floats) -> Floats:
        structure = self._structure
        if isinstance(given, np.ndarray):
            return np.hstack([weights.T @ given, structure.weighted_sums(given, weights)])
        found = np.empty((len(given), self.n_statistics))
        for k, expected in enumerate(given):
            own, left = weights[:, k : k + 1], expected.left_over(weights[:, k])
            seconds = structure.weighted_sums(expected.filled, own)
            seconds = seconds + structure.flat(self._own_moments(left[None]))
            found[k] = np.hstack([own.T @ expected.filled, seconds])[0]
        return found

    def conditional_spread(self, X: Floats, weights: Floats, eta: Floats) -> Floats | None:
        gone = np.flatnonzero(np.isnan(X).any(axis=1))
        if self.missing != "marginal" or not gone.size:
            return None
        p = self.n_statistics
        found, size = np.zeros((len(eta), p, p)), max(1, _SPREAD_DOUBLES // p**2)
        for rows in (gone[first : first + size] for first in range(0, gone.size, size)):
            for k, (there, filled, C) in enumerate(self._filled_by_class(X[rows], eta)):
                left = self._own_moments(left_by_row(there, C))
                spread = self._structure.hessian(filled, left).reshape(len(rows), -1)
                found[k] += (weights[rows, k] @ spread).reshape(p, p)
        if self._varies is not None:
            found *= np.outer(self._varies, self._varies)
        return found

    def _filled_by_class(self, X: Floats, eta: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield of each class z, the same filled with what it expects, and its covariance."""
        means, C, _ = self.standard_moments(eta)
        there = self._standard(X)
        for mean, own in zip(means, C, strict=True):
            yield there, conditional_means(there, mean, own), own

    def left_over(self, X: Floats, filling: Floats) -> Floats | None:
        if self.missing != "marginal" or not filling.size or not np.isnan(X).any():
            return None
        z = self._standard(X)
        seconds = self._left_over(z, unpacked(filling, self.n_features)[1])
        return np.hstack([np.zeros_like(z), seconds])

    def _left_over(self, z: Floats, C: Floats) -> Floats:
        """Return what second statistics of missing cells lack at their means given the others."""
        return self._structure.flat(self._own_moments(left_by_row(z, C)))

    def _own_moments(self, C: Floats) -> Floats:
        """Return covariances, (n, d, d), as the structure has them: some have variances alone."""
        alone = self._structure.diagonal(C).ndim == C.ndim
        return np.diagonal(C, axis1=1, axis2=2) if alone else C

    def log_base_measure(self, X: Floats) -> Floats:
        active = self._inverse_scale > 0
        of_column = -np.log(self._scale[active]) - 0.5 * np.log(2.0 * np.pi)
        if self.missing == "marginal":
            return ~np.isnan(X[:, active]) @ of_column[:, None]
        return np.full((X.shape[0], 1), of_column.sum())

    def missing_factors(self, X: Floats) -> NDArray[np.bool_] | None:
        return None if self.fills_missing else super().missing_factors(X)

    def relative_log_density(
        self, X: Floats, eta: Floats, partition: Floats | None = None
    ) -> Floats:
        values = super().relative_log_density(X, eta, partition)
        if self.missing != "marginal" or not np.isnan(X).any():
            return values
        z = (X - self._location) * self._inverse_scale
        m, C, active = self.standard_moments(eta)
        z, m, C = z[:, active], m[:, active], C[:, active][:, :, active]
        some = np.flatnonzero(np.isnan(X).any(axis=1))
        for k, moments in enumerate(zip(m, C, strict=True)):
            values[some, k] = Conditional.of(z[some], *moments).log_densities()
        return values

    def amounts(self, X: Floats) -> Floats:
        return (~np.isnan(X)).astype(np.float64)

    def surprise(self, X: Floats, eta: Floats) -> Floats:
        """Return -log f in pieces, here half the squares of columns, each after those before it.

        What the covariance adds is shared out equally: at its mean, a row without some cells
        surprises by the share of cells that it has.
        """
        z = (X - self._location) * self._inverse_scale
        m, C, active = self.standard_moments(eta)
        found = np.zeros((*X.shape, eta.shape[0]))
        d = max(np.count_nonzero(active), 1)
        units = np.log(self._scale[active]).sum() / d + 0.5 * np.log(2.0 * np.pi)
        complete = np.flatnonzero(~np.isnan(X).any(axis=1))
        for gone, rows in [(np.zeros(X.shape[1], dtype=bool), complete), *missing_patterns(X)]:
            here = np.flatnonzero(~gone & active)
            for k in range(eta.shape[0]):
                root = np.linalg.cholesky(C[k][np.ix_(here, here)])
                away = np.linalg.solve(root, (z[rows][:, here] - m[k, here]).T).T
                found[rows[:, None], here, k] = 0.5 * away**2 + units
        for k in range(eta.shape[0]):
            whole = np.linalg.slogdet(C[k][np.ix_(active, active)])[1] / 2.0 / d
            found[:, active, k] += whole * ~np.isnan(X[:, active])
        return found

    def log_partition(self, eta: Floats) -> Floats:
        eta = self._filled(eta, self._standard_natural)
        with np.errstate(all="ignore"):
            values = self._structure.log_partition(*self._split(eta))
        return np.where(np.isnan(values), np.inf, values)[:, None]

    def mean(self, eta: Floats) -> Floats:
        with np.errstate(all="ignore"):
            m, C = self._moments_of(eta)
            return self._varying(
                np.hstack([m, self._structure.flat(C + self._structure.outer(m, m))])
            )

    def hessian(self, eta: Floats) -> Floats:
        with np.errstate(all="ignore"):
            dense = self._structure.hessian(*self._moments_of(eta))
        if self._varies is not None:
            dense = dense * np.outer(self._varies, self._varies)
        return dense

    def free_hessian(self, eta: Floats) -> Floats:
        if not self.shared:
            return self.hessian(eta)
        with np.errstate(all="ignore"):
            C = self._moments_of(eta)[1]
        dense = C if C.ndim == 3 else C[:, :, None] * np.eye(self.n_features)
        if self._varies is not None:
            active = self._structure.active
            dense = dense * np.outer(active, active)
        return dense

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        direction = self._varying(direction)
        with np.errstate(all="ignore"):
            m, C = self._moments_of(eta)
            bent = np.hstack(self._structure.hessian_product(m, C, *self._split(direction)))
        return self._varying(bent)

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        vector = self._varying(vector)
        with np.errstate(all="ignore"):
            m, C = self._moments_of(eta)
            solved = np.hstack(self._structure.inverse_product(m, C, *self._split(vector)))
        return self._varying(solved)

    def natural(self, mean: Floats) -> Floats:
        m, squares = self._split(self._filled(mean, self._standard_mean))
        return np.hstack(self._structure.natural(m, self._structure.covariance(m, squares)))

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        m, squares = self._means(counts, sums)
        C = self._structure.covariance(m, squares)
        if self.shared:
            share = np.ravel(counts / max(counts.sum(), np.finfo(float).tiny))
            pooled = np.tensordot(share, C, axes=1) if share.any() else C[0]
            C = np.broadcast_to(pooled, C.shape)
        if self._varies is not None:
            C = C + self._structure.from_diagonal(
                np.where(self._structure.active, 0.0, 1.0 - self._structure.diagonal(C))
            )
        return np.hstack(self._structure.natural(m, C))

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        if not np.isfinite(self.log_partition(eta[None])).all():
            raise not_a_density()
        m, C = self._moments_of(eta[None])
        root = self._structure.root(C[0])
        noise = rng.standard_normal((size, self.n_features))
        z = m[0] + (noise @ root.T if root.ndim == 2 else noise * root)
        return self._in_own_units(z)

    # -- the linear view, in the columns' own units ----------------------------------------------

    @property
    def n_linear(self) -> int:
        return self.n_features

    @property
    def forms_statistics(self) -> bool:
        return self.shared or self._structure.size <= _DENSE_STATISTICS

    @property
    def linear_in_columns(self) -> bool:
        return self.shared

    def free_statistics(self, X: Floats) -> Floats:
        return self.standardised(X) if self.shared else self.sufficient_statistics(X)

    def column_units_statistics(self, X: Floats) -> Floats:
        return X if self.shared else np.hstack([X, self._unscaled.statistics(X)])

    def terms(self, names: Sequence[str], levels: Sequence[Any]) -> list[Term]:
        linear = [Term(name, (j,)) for j, name in enumerate(names)]
        if self.shared:
            return linear
        d = self.n_features
        pairs = [(i, j) for i in range(d) for j in range(i + 1)]
        if self._unscaled.size == d:
            pairs = [(j, j) for j in range(d)]
        return linear + [
            linear[i].squared if i == j else Term(f"{names[j]}·{names[i]}", (j, i))
            for i, j in pairs
        ]

    def column_units_coefficients(self, eta: Floats) -> tuple[Floats, Floats]:
        inverse, location = self._inverse_scale, self._location
        linear = eta[:, : self.n_features] * inverse
        constant = -linear @ location
        if self.shared:
            return linear, constant
        # b · second statistics of z is a quadratic form in x - location, in the columns' units.
        unscaled = self._unscaled
        square = self._structure.rescaled(eta[:, self.n_features :], inverse)
        towards = unscaled.derivative(square, location)
        constant = constant + unscaled.scores(location[None], square)[0]
        return np.hstack([linear - towards, square]), constant

    @property
    def _unscaled(self) -> Structure:
        """The second statistics of columns in their own units (those of a sphere are single)."""
        kind = type(self._structure).of_single_columns()
        return kind(self.n_features, np.ones(self.n_features, dtype=bool))

    # -- where rows meet parameters --------------------------------------------------------------

    def standardised(self, X: Floats) -> Floats:
        """Return z, shape (n_rows, n_features)."""
        z = X - self._location
        z *= self._inverse_scale
        if self.fills_missing and np.isnan(z).any():
            mean, C = self.standard_total
            z = np.where(self._inverse_scale > 0, conditional_means(z, mean, C), 0.0)
        return z

    def scores(self, X: Floats, eta: Floats) -> Floats:
        return self._scores(self.standardised(X), eta)

    def _scores(self, z: Floats, eta: Floats) -> Floats:
        a, b = self._split(eta)
        values = self._structure.scores(z, b)
        values += z @ a.T
        return values

    def quadratic_form(self, eta: Floats) -> Floats:
        """Return the symmetric B_k of z·B_k z + a_k·z = η_k·T(x), shape (n_classes, d, d)."""
        b = self._split(eta)[1]
        # The gradient is 2 B z: at the unit vectors, twice the columns of B.
        columns = [self._structure.derivative(b, unit) / 2.0 for unit in np.eye(self.n_features)]
        return np.stack(columns, axis=2)

    def scores_by_column(self, X: Floats, eta: Floats) -> Floats:
        """Return η_k·T(x_i) shared out over the columns, shape (n_rows, n_features, n_classes).

        A column has its own linear and square term and half of every product with another. The
        quadratic form of a shared covariance, which is the same in all classes, is left out.
        """
        z = self.standardised(X)
        if self.shared:
            return z[:, :, None] * self._split(eta)[0].T
        images = np.einsum("kij,nj->nki", self.quadratic_form(eta), z)
        return z[:, :, None] * (self._split(eta)[0] + images).swapaxes(1, 2)

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        z = self.standardised(X)
        return np.hstack([weights.T @ z, self._structure.weighted_sums(z, weights)])
