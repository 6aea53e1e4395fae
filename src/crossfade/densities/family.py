"""An exponential family over a row's columns, f(x; η) = h(x) exp(η·T(x) - A(η)).

It knows nothing of data to bind it to, of the tradeoff λ, of priors over classes or of solvers.
Everything is vectorised over rows (leading axis of ``X``) and over classes (leading axis of
``eta``).

A row's columns may be missing (NaN). A density is a product of *factors* (for naive Bayes one a
column, for a multivariate Gaussian one in all); a factor with a missing column is left out of the
product. The statistics of a left-out factor are zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.errors import NotADensityError


class ExponentialFamily(ABC):
    """An exponential family over the columns of a row, the same family for every class.

    The attributes are those of :class:`~crossfade.densities.Density`.
    """

    allows_missing: bool = True

    n_features: int
    n_statistics: int
    n_factors: int
    factors: Integers
    feature_factors: Integers
    tied: NDArray[np.bool_]

    @property
    def idle(self) -> NDArray[np.bool_]:
        """Factors that have no part in A and say nothing (a constant column), (n_factors,)."""
        return np.zeros(self.n_factors, dtype=bool)

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Statistics that are 0 or 1, of which a factor has at most one that is 1."""
        return np.zeros(self.n_statistics, dtype=bool)

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Statistics that vary at all, once bound."""
        return np.ones(self.n_statistics, dtype=bool)

    def indicated(self, X: Floats) -> Integers:
        """Return which of the indicators are 1, n_statistics for none, (n_rows, n_some_columns)."""
        return np.empty((X.shape[0], 0), dtype=np.int64)

    @property
    def word_factors(self) -> NDArray[np.bool_]:
        """Factors whose A is counted once for each word of a row, not once for the row."""
        return np.zeros(self.n_factors, dtype=bool)

    @property
    def per_word(self) -> bool:
        """Whether there is such a factor."""
        return bool(self.word_factors.any())

    # -- parameters --------------------------------------------------------------------------------

    @abstractmethod
    def log_partition(self, eta: Floats) -> Floats:
        """Return A(η) by factor, shape (n_classes, n_factors); +inf outside the domain.

        Parameters
        ----------
        eta : ndarray of shape (n_classes, n_statistics)
            Natural parameters. Must not raise, warn or return NaN outside the domain: A is the
            barrier that line searches run into.
        """

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Return ∇A(η) = E[T], the mean parameters, shape (n_classes, n_statistics)."""

    @abstractmethod
    def hessian(self, eta: Floats) -> Floats:
        """Return ∇²A(η) = cov(T), shape (n_classes, n_statistics, n_statistics)."""

    def free_hessian(self, eta: Floats) -> Floats:
        """Return the part of ∇²A(η) between statistics that are not tied.

        Override where the rest is large.
        """
        return self.some_hessian(eta, np.flatnonzero(~self.tied))

    def some_hessian(self, eta: Floats, index: Integers) -> Floats:
        """Return the part of ∇²A(η) between these statistics; override where the rest is large."""
        return self.hessian(eta)[:, index[:, None], index]

    def hessian_diagonal(self, eta: Floats) -> Floats:
        """Return the diagonal of ∇²A(η), shape (n_classes, n_statistics)."""
        return np.einsum("kpp->kp", self.hessian(eta)).copy()

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        """Return ∇²A(η) v for each class, shape (n_classes, n_statistics).

        Override where the dense Hessian is too large to form.
        """
        return np.einsum("kpq,kq->kp", self.hessian(eta), direction)

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        """Return (∇²A(η))⁻¹ v for each class, shape (n_classes, n_statistics).

        It is the derivative of :meth:`natural` along v at the mean parameters of η, and a
        preconditioner for solvers. Override where the dense Hessian is too large to form.
        """
        solved: Any = np.linalg.solve(self.hessian(eta), vector[..., None])
        return solved[..., 0]

    @abstractmethod
    def natural(self, mean: Floats) -> Floats:
        """Return the natural parameters with these mean parameters: the inverse of :meth:`mean`."""

    def normalised(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return η with A(η) = 0 where A is counted by words, and A, which the offset takes up.

        Shapes: eta (n_classes, n_statistics); → the same, and (n_classes,).
        """
        return eta, np.zeros(eta.shape[0])

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        """Return the maximum-likelihood η from counts and sums (prior already added in).

        Parameters
        ----------
        counts : ndarray of shape (n_classes, n_factors)
        sums : ndarray of shape (n_classes, n_statistics)

        Returns
        -------
        ndarray of shape (n_classes, n_statistics)
            Maximises Σ_k (η_k·sums_k - A(η_k)·counts_k); equal over classes where tied. Densities
            with tied statistics override this.
        """
        return self.natural(sums / counts[:, self.factors])

    @abstractmethod
    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw rows from one class's density, in the columns' own units.

        Parameters
        ----------
        eta : ndarray of shape (n_statistics,)
        size : int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of shape (size, n_features)

        Raises
        ------
        NotADensityError
            If η lies outside the domain.
        """

    # -- rows (override for speed) -----------------------------------------------------------------

    @abstractmethod
    def sufficient_statistics(self, X: Floats) -> Floats:
        """Return T(x), shape (n_rows, n_statistics); zero where the factor is missing."""

    @abstractmethod
    def log_base_measure(self, X: Floats) -> Floats:
        """Return log h(x) by factor, shape (n_rows, n_factors); zero where it is missing.

        Densities are with respect to the columns' own units, so a density that standardises its
        columns includes the log of the scale here.
        """

    @property
    def forms_statistics(self) -> bool:
        """Whether T(x) is small enough to be formed block by block, else scores and sums are used.

        Override with False where :meth:`scores` and :meth:`weighted_sums` are cheaper than T(x)
        for many statistics (products of columns, categories with many levels).
        """
        return True

    def free_statistics(self, X: Floats) -> Floats:
        """Return T(x) without the tied statistics, shape (n_rows, n_statistics - n_tied).

        Override where the tied ones need not be computed at all.
        """
        statistics = self.sufficient_statistics(X)
        return statistics[:, ~self.tied] if self.tied.any() else statistics

    def some_statistics(self, X: Any, index: Integers) -> Floats:
        """Return some of T(x), shape (n_rows, index.size)."""
        return self.sufficient_statistics(X)[:, index]

    def missing_factors(self, X: Floats) -> NDArray[np.bool_] | None:
        """Return which factors are missing in which row, (n_rows, n_factors), or None for none."""
        flat = np.asarray(X).ravel()
        # A sum of squares is NaN only if a cell is: one fast read instead of a mask.
        with np.errstate(over="ignore"):
            if not np.isnan(flat @ flat):
                return None
        missing = np.isnan(np.asarray(X))
        absent = np.zeros((X.shape[0], self.n_factors), dtype=bool)
        for feature in np.flatnonzero(missing.any(axis=0)):
            absent[:, self.feature_factors[feature]] |= missing[:, feature]
        return absent

    def left_out(self, X: Floats) -> Floats | None:
        """Return how often each factor's A is left out of a row, (n_rows, n_factors), None for 0.

        1 where the factor is missing, and 1 - N for a document, whose N words have an A each.
        """
        absent = self.missing_factors(X)
        return None if absent is None else absent.astype(np.float64)

    def conditional_statistics(self, X: Floats, eta: Floats) -> Floats:
        """Return E_k[T | the factor's cells that are there], (n_rows, n_classes, n_statistics).

        Zero where the factor is missing. Override where what is missing of a factor follows from a
        class's density and the factor's other cells; the next four with it.
        """
        return np.repeat(self.sufficient_statistics(X)[:, None], eta.shape[0], axis=1)

    def conditional(self, X: Floats, eta: Floats) -> Any:
        """Return what the next two make scores and sums of, here the cells."""
        return X

    def conditional_scores(self, given: Any, eta: Floats, partition: Floats) -> Floats:
        """Return log ∫ exp(η_k·T) over what a row lacks, (n_rows, n_classes); its gradient is that.

        `given`: :meth:`conditional` of the rows and η. `partition`: :meth:`log_partition` of η.
        """
        left_out, values = self.left_out(given), self.scores(given, eta)
        return values if left_out is None else values + left_out @ partition.T

    def conditional_sums(self, given: Any, weights: Floats) -> Floats:
        """Return Σ_i weights_ik E_k[T | …], shape (n_classes, n_statistics), of the same."""
        return self.weighted_sums(given, weights)

    def conditional_spread(self, X: Floats, weights: Floats, eta: Floats) -> Floats | None:
        """Return Σ_i weights_ik cov_k(T | the factor's cells that are there), None for nothing.

        Shapes: → (n_classes, n_statistics, n_statistics).
        """
        return None

    def expected_statistics(self, X: Floats, eta: Floats) -> Floats:
        """Return E_k[T | the cells that are there], shape (n_rows, n_classes, n_statistics)."""
        known = self.conditional_statistics(X, eta)
        absent = self.missing_factors(X) if self.allows_missing else None
        if absent is not None:
            known += absent[:, None, self.factors] * self.mean(eta)
        return known

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        """Return Σ_i weights_ik T(x_i), shape (n_classes, n_statistics).

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        weights : ndarray of shape (n_rows, n_classes)
        """
        return weights.T @ self.sufficient_statistics(X)

    def square_sums(self, X: Any, weights: Floats) -> Floats:
        """Return Σ_i weights_ik T(x_i)², shape (n_classes, n_statistics)."""
        return np.asarray(weights.T @ self.sufficient_statistics(X) ** 2)

    # -- where rows meet parameters ----------------------------------------------------------------

    def scores(self, X: Floats, eta: Floats) -> Floats:
        """Return η_k·T(x_i), shape (n_rows, n_classes); missing factors add nothing."""
        return self.sufficient_statistics(X) @ eta.T

    def scores_by_column(self, X: Floats, eta: Floats) -> Floats:
        """Return η_k·T(x_i) shared out over the columns, shape (n_rows, n_features, n_classes).

        Summed over columns it is :meth:`scores`, up to a term that all classes have. Override where
        columns share statistics.
        """
        shares = np.empty((*X.shape, eta.shape[0]))
        for column in range(X.shape[1]):
            alone = np.full_like(X, np.nan)
            alone[:, column] = X[:, column]
            shares[:, column] = self.scores(alone, eta)
        return shares

    def relative_log_density(
        self, X: Floats, eta: Floats, partition: Floats | None = None
    ) -> Floats:
        """Return η_k·T(x_i) - A(η_k), missing factors left out, shape (n_rows, n_classes).

        It is log f(x_i; η_k) up to log h(x_i), which all classes share: all a posterior needs.
        `partition` is :meth:`log_partition` of η, where it is known already.
        """
        values = self.scores(X, eta)
        partition = self.log_partition(eta) if partition is None else partition
        if partition.any():
            values -= partition.sum(axis=1)
        absent = self.missing_factors(X) if self.allows_missing else None
        if absent is not None:
            values += absent.astype(np.float64) @ partition.T
        return values

    def log_density(self, X: Floats, eta: Floats) -> Floats:
        """Return log f(x_i; η_k), shape (n_rows, n_classes); missing factors are left out."""
        values = self.relative_log_density(X, eta)
        # A product with ones: NumPy's sum over few columns takes ten times as long.
        values += self.log_base_measure(X) @ np.ones((self.n_factors, 1))
        return values

    def amounts(self, X: Floats) -> Floats:
        """Return how much a row has of each piece of :meth:`surprise`, (n_rows, n_pieces).

        1, 0 where it is missing; of a document, its words.
        """
        left_out = self.left_out(X)
        return np.ones((X.shape[0], self.n_factors)) if left_out is None else 1.0 - left_out

    def surprise(self, X: Floats, eta: Floats) -> Floats:
        """Return -log f(x_i; η_k) in pieces, (n_rows, n_pieces, n_classes), here the factors.

        A piece is zero where it is missing. Of complete rows the pieces' sum is exactly that; of
        others it is up to a term that is the same for all rows with the same cells.
        """
        if self.n_factors == 1:
            return -self.log_density(X, eta)[:, None]
        if self.forms_statistics:
            statistics, p = self.sufficient_statistics(X), self.n_statistics
            to_factors = scipy.sparse.csr_array(
                (np.ones(p), (self.factors, np.arange(p))), shape=(self.n_factors, p)
            )
            scores = np.stack([(to_factors @ (statistics * one).T).T for one in eta], axis=2)
        else:
            scores = self.scores_by_column(X, eta)
        scores -= self.amounts(X)[:, :, None] * self.log_partition(eta).T
        return -scores - self.log_base_measure(X)[:, :, None]


def not_a_density() -> NotADensityError:
    """Return the error of asking a density of parameters outside the domain."""
    return NotADensityError(
        "eta: expected natural parameters of a density, got some outside the domain (a variance "
        "that is not positive); fit with tradeoff > 0 to get a density"
    )
