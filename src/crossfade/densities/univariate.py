"""One column at a time: the base of univariate families.

A family writes how one column behaves, as elementwise functions of arrays; :class:`Univariate`
makes of it a density for a block of columns, one factor per column. Every tradeoff, learning curve
and comparison then works for it.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Bound, Density, refuse
from crossfade.densities.family import not_a_density
from crossfade.densities.kernels import class_weights
from crossfade.table.read import check_large


def statistic_scales(mean_square: Floats, mean: Floats) -> Floats:
    """Return standard deviations from moments about any point; 1 where nothing varies."""
    variance = mean_square - mean**2
    # Below this the variance is rounding error of the two moments.
    varies = variance > 1e-13 * mean_square
    return np.sqrt(np.where(varies, variance, 1.0))


def safe_mean(sums: Floats, counts: Floats) -> Floats:
    """Return sums / counts, zero where there is nothing to average."""
    return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)


def finite_medians(X: Floats) -> Floats:
    """Return the medians of columns' finite cells, 0 without any (NumPy's take a call a column)."""
    finite = np.isfinite(X)
    rising = np.sort(np.where(finite, X, np.inf), axis=0)
    number = finite.sum(axis=0)
    middle = np.stack([np.maximum(number - 1, 0) // 2, number // 2])
    return np.where(number > 0, np.take_along_axis(rising, middle, axis=0).mean(axis=0), 0.0)


class Univariate(Density):
    """A univariate exponential family, independently in each of d columns given the class.

    A subclass writes the ``column_*`` methods: elementwise functions that broadcast over any
    leading axes, the q statistics of one column on the last axis. Outside the domain they may
    return NaN and may divide by zero: it is turned into +inf, or kept quiet, here.

    Statistic s of column j is number s·d + j: all first statistics, then all second ones.

    Attributes
    ----------
    n_column_statistics : int
        q, the number of statistics of one column (class attribute, default 1).
    domain, remedy : str
        What values the family takes, and what to do with others, for error messages.
    default_mean : tuple of q floats
        Mean parameters of a column with no cell at all.

    Examples
    --------
    The whole of a new family, the exponential distribution:

    >>> import numpy as np
    >>> from crossfade.densities import Univariate
    >>> class Exponential(Univariate):
    ...     domain = "positive numbers"
    ...     def in_domain(self, x):
    ...         return x > 0
    ...     def column_statistics(self, x):
    ...         return x[..., None]
    ...     def column_log_partition(self, eta):
    ...         return -np.log(-eta[..., 0])
    ...     def column_mean(self, eta):
    ...         return -1 / eta
    ...     def column_covariance(self, eta):
    ...         return eta[..., None] ** -2.0
    ...     def column_natural(self, mean):
    ...         return -1 / mean
    ...     def column_sample(self, eta, size, rng):
    ...         return rng.exponential(-1 / eta[:, 0], (size, len(eta)))
    >>> density = Exponential().begin(np.ones((1, 2)))
    >>> density.log_density(np.array([[1.0, 2.0]]), np.array([[-1.0, -0.5]]))
    array([[-2.69314718]])
    """

    n_column_statistics: ClassVar[int] = 1
    domain: ClassVar[str] = "finite numbers"
    remedy: ClassVar[str] = "choose another density for this column, or make such cells missing"
    default_mean: ClassVar[tuple[float, ...]] = (1.0,)

    _reference: Floats
    _scales: bool
    _still: NDArray[np.bool_]

    # -- what a family writes --------------------------------------------------------------------

    @abstractmethod
    def column_statistics(self, x: Floats) -> Floats:
        """Return T(x), shape (..., q), of values of shape (...)."""

    @abstractmethod
    def column_log_partition(self, eta: Floats) -> Floats:
        """Return A(η), shape (...), of natural parameters of shape (..., q)."""

    @abstractmethod
    def column_mean(self, eta: Floats) -> Floats:
        """Return ∇A(η), shape (..., q)."""

    @abstractmethod
    def column_covariance(self, eta: Floats) -> Floats:
        """Return ∇²A(η), shape (..., q, q)."""

    @abstractmethod
    def column_natural(self, mean: Floats) -> Floats:
        """Return η, shape (..., q), from mean parameters; finite also on their boundary."""

    @abstractmethod
    def column_sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Return draws of shape (size, d) for natural parameters of shape (d, q)."""

    def column_log_base_measure(self, x: Floats) -> Floats:
        """Return log h(x), shape (...); zero unless a family says otherwise."""
        return np.zeros(x.shape)

    def in_domain(self, x: Floats) -> NDArray[np.bool_]:
        """Return which values the family takes (missing ones are never asked for)."""
        return np.isfinite(x)

    def column_prior(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """Return the conjugate prior's pseudo-counts and pseudo-sums; none by default.

        Parameters
        ----------
        counts : ndarray of shape (n_classes, d)
        sums : ndarray of shape (n_classes, d, q)

        Returns
        -------
        tuple of ndarray
            Of the same shapes.
        """
        return np.zeros_like(counts), np.zeros_like(sums)

    # -- between (K, p) and (K, d, q) ------------------------------------------------------------

    def by_column(self, flat: Floats) -> Floats:
        """Reshape (..., d·q) parameters to (..., d, q)."""
        shape = (*flat.shape[:-1], self.n_column_statistics, self.n_features)
        return flat.reshape(shape).swapaxes(-1, -2)

    def flattened(self, columns: Floats) -> Floats:
        """Reshape (..., d, q) parameters to (..., d·q)."""
        return columns.swapaxes(-1, -2).reshape(*columns.shape[:-2], self.n_statistics)

    @property
    def linear_in_columns(self) -> bool:
        probe = np.array([0.0, 1.0, 2.0])
        return self.n_column_statistics == 1 and bool(
            np.array_equal(self.column_statistics(probe)[:, 0], probe)
        )

    # -- from data to a bound density ------------------------------------------------------------

    def sized(self, d: int, scales: bool) -> Self:
        """Return a copy for d columns."""
        new = copy.copy(self)
        q = self.n_column_statistics
        new.n_features, new.n_factors, new.n_statistics = d, d, d * q
        new.factors = np.tile(np.arange(d), q)
        new.feature_factors = np.arange(d)
        new.tied = np.zeros(d * q, dtype=bool)
        new._scales = scales
        new._still = np.zeros(d, dtype=bool)
        return new

    @property
    def idle(self) -> NDArray[np.bool_]:
        return self._still

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        new = self.sized(head.shape[1], scales)
        # Squares are taken about the statistics' rough mean, to keep their differences exact.
        statistics = np.nan_to_num(new.sufficient_statistics(head), posinf=0.0, neginf=0.0)
        new._reference = statistics.mean(axis=0)
        return new

    def check(self, X: Floats) -> None:
        with np.errstate(all="ignore"):
            wrong = ~(self.in_domain(X) & np.isfinite(X) | np.isnan(X))
        refuse(X, wrong, expected=self.domain, remedy=self.remedy)

    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        self.check(X)
        check_large(X)
        onehot = class_weights(codes, weights, n_classes)
        present = ~np.isnan(X)
        statistics = self.sufficient_statistics(X)
        squares = np.zeros(self.n_statistics)
        if self._scales:
            centred = (statistics - self._reference) * np.tile(present, self.n_column_statistics)
            squares = onehot.sum(axis=1) @ centred**2
        return onehot.T @ present, onehot.T @ statistics, squares

    def bind(self, summary: Any) -> Bound:
        counts, sums, squares = summary
        new = copy.copy(self)
        new._still = counts.sum(axis=0) == 0.0
        prior_counts, prior_sums = new.prior_of_sums(counts, sums)
        totals = counts.sum(axis=0)[self.factors]
        mean = safe_mean(sums.sum(axis=0), totals)
        scale = np.ones(self.n_statistics)
        if self._scales:
            offset = np.where(totals > 0, mean - self._reference, 0.0)
            scale = statistic_scales(safe_mean(squares, totals), offset)
        return Bound(
            density=new,
            counts=counts,
            sums=sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
            statistic_mean=mean,
            statistic_scale=scale,
        )

    def prior_of_sums(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        prior_counts, prior_sums = self.column_prior(counts, self.by_column(sums))
        prior_counts = np.where(self._still, 0.0, prior_counts)
        return prior_counts, self.flattened(np.where(self._still[:, None], 0.0, prior_sums))

    def scores_by_column(self, X: Floats, eta: Floats) -> Floats:
        statistics = self.by_column(self.sufficient_statistics(X))
        return np.einsum("ndq,kdq->ndk", statistics, self.by_column(eta))

    # -- the exponential family ------------------------------------------------------------------

    def sufficient_statistics(self, X: Floats) -> Floats:
        with np.errstate(all="ignore"):
            statistics = self.column_statistics(X)
        missing = np.isnan(X)
        # A family may return a view of X (T(x) = x), and what is returned here may be written to.
        if missing.any():
            statistics = np.where(missing[..., None], 0.0, statistics)
        elif np.may_share_memory(statistics, X):
            statistics = statistics.copy()
        return self.flattened(statistics)

    def log_base_measure(self, X: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = self.column_log_base_measure(X)
        return np.where(np.isnan(X), 0.0, values)

    def log_partition(self, eta: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = self.column_log_partition(self.by_column(eta))
        return np.where(self._still, 0.0, np.where(np.isnan(values), np.inf, values))

    def mean(self, eta: Floats) -> Floats:
        with np.errstate(all="ignore"):
            means = self.column_mean(self.by_column(eta))
        return self.flattened(np.where(self._still[:, None], 0.0, means))

    def _covariance(self, eta: Floats) -> Floats:
        with np.errstate(all="ignore"):
            blocks = self.column_covariance(self.by_column(eta))
        return np.where(self._still[:, None, None], 0.0, blocks)

    def hessian(self, eta: Floats) -> Floats:
        blocks = self._covariance(eta)
        d, q = self.n_features, self.n_column_statistics
        dense = np.zeros((eta.shape[0], q, d, q, d))
        columns = np.arange(d)
        # Advanced indices apart put the columns first: (d, K, q, q).
        dense[:, :, columns, :, columns] = blocks.transpose(1, 0, 2, 3)
        return dense.reshape(eta.shape[0], d * q, d * q)

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        return self.flattened(
            (self._covariance(eta) @ self.by_column(direction)[..., None])[..., 0]
        )

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        still = self._still[:, None]
        blocks = self._covariance(eta) + still[..., None] * np.eye(self.n_column_statistics)
        right = np.where(still, 0.0, self.by_column(vector))
        return self.flattened(_solve(blocks, right[..., None])[..., 0])

    def natural(self, mean: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return self.flattened(self.column_natural(self.by_column(mean)))

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        return self.natural(self.means_or_pooled(counts, sums))

    def means_or_pooled(self, counts: Floats, sums: Floats) -> Floats:
        """Return mean statistics by class; a class without cells of a column gets all classes'."""
        counts = counts[:, self.factors]
        totals = counts.sum(axis=0)
        default = np.repeat(np.asarray(self.default_mean, dtype=np.float64), self.n_features)
        pooled = np.where(totals > 0, safe_mean(sums.sum(axis=0), totals), default)
        return np.where(counts > 0, safe_mean(sums, counts), pooled)

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        if not np.isfinite(self.log_partition(eta)).all():
            raise not_a_density()
        return self.column_sample(self.by_column(eta), size, rng)


def _solve(blocks: Floats, right: Floats) -> Floats:
    """Solve positive definite systems, damped where one is singular (a probability of one)."""
    solved: Any
    try:
        solved = np.linalg.solve(blocks, right)
    except np.linalg.LinAlgError:
        diagonal = np.maximum(np.einsum("...ii->...i", blocks), 1e-12)
        root = 1.0 / np.sqrt(diagonal)[..., None]
        correlations = blocks * root * np.swapaxes(root, -1, -2) + 1e-9 * np.eye(blocks.shape[-1])
        solved = root * np.linalg.solve(correlations, root * right)
    return np.asarray(solved, dtype=np.float64)
