"""The univariate Gaussian, a column at a time: Gaussian naive Bayes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from crossfade._checks import check_number
from crossfade._typing import Floats, Integers
from crossfade.densities.base import Bound, Term
from crossfade.densities.covariance import PowerSums, fourth_moments
from crossfade.densities.kernels import moments, quadratic_scores
from crossfade.densities.standardised import Standardised
from crossfade.densities.univariate import Univariate, finite_medians, safe_mean, statistic_scales
from crossfade.errors import DomainError
from crossfade.table.read import check_large


class Gaussian(Standardised, Univariate):
    """Independent Gaussians, one per column, with a variance per class or one shared by all.

    The statistics are z and z² with z = (x - location) / scale, location and scale being the mean
    and maximum-likelihood standard deviation of the whole column, so that nothing depends on its
    units. They are laid out as all z first, then all z²; with a shared variance the second half
    is tied.

    A column without variation is a point mass: its z is 0 whatever comes later, it has no part in
    A, says nothing about the class, and draws return its value. A variance that would be zero
    otherwise (one row in a class and no smoothing) is raised to 1e-14 of the class's mean square
    in z, so that everything stays finite.

    Parameters
    ----------
    shared_variance : bool, default=False
        One variance per column for all classes: the posterior is then linear in x.
    var_smoothing : float, default=1e-9
        Added to each variance, as a fraction of the column's own overall variance.
    shrinkage_rows : float, default=0.0
        Pseudo-rows per class with its mean and the variance within all classes together: a class
        of m rows has the variance (m v + r v̄) / (m + r).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Gaussian
    >>> X, y = np.array([[1.0], [3.0], [10.0], [14.0]]), np.array([0, 0, 1, 1])
    >>> begun = Gaussian(var_smoothing=0).begin(X)
    >>> bound = begun.bind(begun.summary(X, y, None, 2))
    >>> eta = bound.density.estimate(bound.counts, bound.sums)
    >>> bound.density.log_density(np.array([[2.0]]), eta).round(3)  # N(2; 2, 1), N(2; 12, 4)
    array([[ -0.919, -14.112]])
    """

    n_column_statistics: ClassVar[int] = 2
    default_mean: ClassVar[tuple[float, ...]] = (0.0, 1.0)

    _shift: Floats

    def __init__(
        self,
        shared_variance: bool = False,
        var_smoothing: float = 1e-9,
        shrinkage_rows: float = 0.0,
    ):
        remedy = "it is a fraction of each column's variance, 1e-9 by default"
        check_number("var_smoothing", var_smoothing, 0.0, remedy)
        own = "0 leaves each class its own variance"
        check_number("shrinkage_rows", shrinkage_rows, 0.0, own)
        self.shared_variance = shared_variance
        self.var_smoothing = var_smoothing
        self.shrinkage_rows = shrinkage_rows

    # -- from data to a bound density ------------------------------------------------------------

    @property
    def sums_columns(self) -> bool:
        return True

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        d = head.shape[1]
        new = self.sized(d, scales)
        # A median is exact for a constant column, and a stray value does not move it.
        new._shift = finite_medians(head)
        new.tied = np.repeat([False, self.shared_variance], d)
        return new

    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            sums = moments(X, codes, weights, self._shift, n_classes, self._scales)
        finite = np.isfinite(sums[2]).all(axis=0) & np.isfinite(sums[4])
        if not finite.all():
            X = np.asarray(X)
            self.check(X)
        check_large(X, sums[2].sum(axis=0), self._shift)
        if not finite.all():
            column = int(np.argmin(finite))
            largest = float(np.nanmax(np.abs(X[:, column])))
            remedy = "change the column's unit, or take its logarithm"
            raise DomainError((column,), "numbers with finite fourth powers", largest, remedy)
        return sums

    def bind(self, summary: Any) -> Bound:
        counts, first, second, third, fourth = summary
        total = counts.sum(axis=0)
        offset = safe_mean(first.sum(axis=0), total)
        square = safe_mean(second.sum(axis=0), total)
        scale = statistic_scales(square, offset)
        constant = square - offset**2 <= 1e-13 * square
        new = self._located(self._shift + offset, scale, constant)
        # What the location was rounded to (far from zero) is what z is taken about, here as later.
        offset = new._location - self._shift

        inverse = new._inverse_scale
        z1 = (first - counts * offset) * inverse
        z2 = (second - 2 * offset * first + counts * offset**2) * inverse**2
        sums = np.hstack([z1, z2])
        mean = safe_mean(sums.sum(axis=0), np.tile(total, 2))
        scales = np.ones_like(mean)
        if self._scales:
            powers = PowerSums(total, first.sum(axis=0), second.sum(axis=0), third, fourth)
            squares = fourth_moments(powers, offset, inverse)
            scales[new.n_features :] = statistic_scales(squares, mean[new.n_features :])
        prior_counts, prior_sums = new.prior_of_sums(counts, sums)
        return Bound(
            density=new,
            counts=counts,
            sums=sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
            statistic_mean=mean,
            statistic_scale=scales,
        )

    def prior_of_sums(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        d = self.n_features
        z1, z2, total = sums[:, :d], sums[:, d:], counts.sum(axis=0)
        # Pseudo-rows at the class's mean that spread as the rows of all classes do about theirs.
        centre = safe_mean(z1, counts)
        within = safe_mean(np.maximum(z2 - counts * centre**2, 0.0).sum(axis=0), total)
        rows = np.where(counts > 0, self.shrinkage_rows, 0.0)
        variance = safe_mean(z2.sum(axis=0), total) - safe_mean(z1.sum(axis=0), total) ** 2
        smoothing = np.where(self._still, 0.0, self.var_smoothing * variance)
        squares = rows * (centre**2 + within) + (counts + rows) * smoothing
        return rows, np.hstack([rows * centre, squares])

    def _located(self, location: Floats, scale: Floats, constant: Any) -> Self:
        new = copy.copy(self)
        new._location, new._scale = location, scale
        new._inverse_scale = np.where(constant, 0.0, 1.0 / scale)
        new._still = constant
        return new

    # -- the exponential family, in z ------------------------------------------------------------

    def column_statistics(self, x: Floats) -> Floats:
        return np.stack([x, x * x], axis=-1)

    def column_log_partition(self, eta: Floats) -> Floats:
        linear, square = eta[..., 0], eta[..., 1]
        variance = -0.5 / square
        return 0.5 * (linear * (linear * variance) + np.log(variance))

    def column_mean(self, eta: Floats) -> Floats:
        variance = -0.5 / eta[..., 1]
        found = np.empty_like(eta)
        mean = np.multiply(eta[..., 0], variance, out=found[..., 0])
        found[..., 1] = variance + mean**2
        return found

    def moments(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return means and variances by class, in the columns' own units, (n_classes, d) each."""
        d = self.n_features
        first, second = self.mean(eta)[:, :d], self.mean(eta)[:, d:]
        return self._in_own_units(first), self._spread**2 * (second - first**2)

    def column_covariance(self, eta: Floats) -> Floats:
        variance = -0.5 / eta[..., 1]
        mean = eta[..., 0] * variance
        cross = 2 * mean * variance
        last = 2 * variance**2 + 4 * mean**2 * variance
        found = np.empty((*variance.shape, 2, 2))
        found[..., 0, 0], found[..., 1, 1] = variance, last
        found[..., 0, 1] = found[..., 1, 0] = cross
        return found

    def column_natural(self, mean: Floats) -> Floats:
        m, square = mean[..., 0], mean[..., 1]
        variance = np.maximum(square - m**2, 1e-14 * np.maximum(square, 1.0))
        variance = np.where(self._still, 1.0, variance)
        return np.stack([m / variance, -0.5 / variance], axis=-1)

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        means = self.means_or_pooled(counts, sums)
        if not self.shared_variance:
            return self.natural(means)
        d = self.n_features
        m, square = means[:, :d], means[:, d:]
        total = counts.sum(axis=0)
        seen = np.where(total > 0, counts, 1.0)  # a column without cells: any weights do
        within = (seen * (square - m**2)).sum(axis=0) / seen.sum(axis=0)
        floor = 1e-14 * np.maximum((seen * square).sum(axis=0) / seen.sum(axis=0), 1.0)
        variance = np.where(self._still, 1.0, np.maximum(within, floor))
        return np.hstack([m / variance, np.broadcast_to(-0.5 / variance, m.shape)])

    def column_sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        linear = np.where(self._still, 0.0, eta[:, 0])
        variance = -0.5 / np.where(self._still, -0.5, eta[:, 1])
        z = linear * variance + np.sqrt(variance) * rng.standard_normal((size, len(eta)))
        return self._in_own_units(z)

    # -- the linear view, in the columns' own units ----------------------------------------------

    @property
    def linear_in_columns(self) -> bool:
        return self.shared_variance

    def free_statistics(self, X: Floats) -> Floats:
        return self.standardised(X) if self.shared_variance else self.sufficient_statistics(X)

    def column_units_statistics(self, X: Floats) -> Floats:
        x = np.where(np.isnan(X), 0.0, X)
        return x if self.shared_variance else np.hstack([x, x * x])

    def terms(self, names: Sequence[str], levels: Sequence[Any]) -> list[Term]:
        linear = [Term(self._term_name(name), (j,)) for j, name in enumerate(names)]
        if self.shared_variance:
            return linear
        return linear + [term.squared for term in linear]

    def _term_name(self, name: str) -> str:
        return name

    def column_units_coefficients(self, eta: Floats) -> tuple[Floats, Floats]:
        d, inverse, location = self.n_features, self._inverse_scale, self._location
        linear = eta[:, :d] * inverse
        constant = -linear @ location
        if self.shared_variance:
            return linear, constant
        square = eta[:, d:] * inverse**2
        constant = constant + square @ location**2
        return np.hstack([linear - 2.0 * square * location, square]), constant

    # -- where rows meet parameters --------------------------------------------------------------

    def standardised(self, X: Floats) -> Floats:
        """Return z, zero where missing."""
        z = X - self._location
        z *= self._inverse_scale
        missing = np.isnan(z)
        if missing.any():
            z[missing] = 0.0
        return z

    def sufficient_statistics(self, X: Floats) -> Floats:
        z = self.standardised(X)
        return np.hstack([z, z * z])

    def log_base_measure(self, X: Floats) -> Floats:
        values = np.where(
            self._inverse_scale > 0, -np.log(self._scale) - 0.5 * np.log(2 * np.pi), 0
        )
        return np.where(np.isnan(X), 0.0, values)

    def scores(self, X: Floats, eta: Floats) -> Floats:
        return self._scores(X, eta, np.zeros((eta.shape[0], self.n_features)))

    def relative_log_density(
        self, X: Floats, eta: Floats, partition: Floats | None = None
    ) -> Floats:
        return self._scores(X, eta, self.log_partition(eta) if partition is None else partition)

    def _scores(self, X: Floats, eta: Floats, partition: Floats) -> Floats:
        d, location, inverse = self.n_features, self._location, self._inverse_scale
        scores: Floats = quadratic_scores(X, location, inverse, eta[:, :d], eta[:, d:], partition)
        return scores

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        z = self.standardised(X)
        first = weights.T @ z
        z *= z
        return np.hstack([first, weights.T @ z])
