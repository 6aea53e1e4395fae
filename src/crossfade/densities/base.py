"""What a class looks like: the interface of an exponential family over a row's columns.

A density here is f(x; η) = h(x) exp(η·T(x) - A(η)). It knows nothing of the tradeoff λ, of priors
over classes or of solvers. Everything is vectorised over rows (leading axis of ``X``) and over
classes (leading axis of ``eta``).

Two stages. An *unbound* density is what a user writes, ``Gaussian(shared_variance=True)``. It is
bound to data in one pass over blocks of rows: ``begin`` looks at a few rows, ``summary`` turns one
block into additive sums per class, ``bind`` turns the total into a *bound* density (location,
scale and number of columns fixed) with its counts and summed statistics. Binding never changes
the unbound object.

A row's columns may be missing (NaN). A density is a product of *factors* (for naive Bayes one a
column, for a multivariate Gaussian one in all); a factor with a missing column is left out of the
product. The statistics of a left-out factor are zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.errors import DomainError, NotADensityError
from crossfade.table.documents import MixedRows


class Term(NamedTuple):
    """A statistic in words, and the columns that it is of."""

    name: str
    columns: tuple[int, ...]

    @property
    def squared(self) -> Term:
        """The square of it."""
        plain = all(c.isalnum() or c in " _.()" for c in self.name)
        return Term(f"{self.name}²" if plain else f"({self.name})²", self.columns)


@dataclass(frozen=True)
class Bound:
    """A density bound to data, with what the data summed to.

    Attributes
    ----------
    density : Density
        The bound density.
    counts : ndarray of shape (n_classes, n_factors)
        Summed weight of the rows of a class in which the factor is present.
    sums : ndarray of shape (n_classes, n_statistics)
        Summed sufficient statistics, weights included, in the bound density's own coordinates.
    prior_counts : ndarray of shape (n_classes, n_factors)
        Pseudo-counts of the conjugate prior (the smoothing).
    prior_sums : ndarray of shape (n_classes, n_statistics)
        Pseudo-sums of the conjugate prior: its log-density is η·prior_sums - A(η)·prior_counts.
    statistic_mean, statistic_scale : ndarray of shape (n_statistics,)
        Mean and (maximum-likelihood) standard deviation of each statistic over all rows in which
        it is present; a statistic that does not vary has scale 1 (all 1 where
        ``begin(scales=False)`` said they are not needed).
    """

    density: Density
    counts: Floats
    sums: Floats
    prior_counts: Floats
    prior_sums: Floats
    statistic_mean: Floats
    statistic_scale: Floats


class Density(ABC):
    """An exponential family over the columns of a row, the same family for every class.

    Attributes
    ----------
    n_features : int
        Number of columns, d (bound densities).
    n_statistics : int
        Number of sufficient statistics, p (bound).
    factors : ndarray of shape (n_statistics,), int
        The factor each statistic belongs to (bound).
    feature_factors : ndarray of shape (n_features,), int
        The factor each column belongs to (bound).
    n_factors : int
        Number of factors, m (bound): as many values of A(η), one per factor.
    tied : ndarray of shape (n_statistics,), bool
        Statistics whose natural parameter is the same in every class (a shared variance) (bound).
    allows_missing : bool
        Whether a missing column can be left out of the product.
    """

    allows_missing: bool = True

    #: Whether a missing cell is filled from the row's others, so that its factor is never missing.
    fills_missing: bool = False

    #: The kind of column the density takes (see :class:`~crossfade.table.schema.Schema`).
    kind: ClassVar[str] = "continuous"

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

    # -- from data to a bound density ------------------------------------------------------------

    @property
    def filled(self) -> bool:
        """Whether rows that it was informed of have cells to be filled."""
        return False

    @property
    def fills_statistics(self) -> NDArray[np.bool_]:
        """Columns whose missing cells have statistics by :attr:`filling`, (n_features,)."""
        return np.zeros(self.n_features, dtype=bool)

    @property
    def filling(self) -> Floats:
        """The numbers by which cells were filled of the rows that it was informed of, if any."""
        return np.zeros(0)

    def filled_cells(self, X: Floats, filling: Floats) -> Floats:
        """Return the rows with cells filled by these numbers, where it fills any."""
        return X

    def filling_influence(self, X: Floats, weights: Floats) -> Floats:
        """Return how one more row of each moves :attr:`filling`, (n_rows, n_numbers)."""
        return np.zeros((X.shape[0], 0))

    def informed(self, X: Floats, weights: Floats | None) -> Density:
        """Return a copy that knows what it needs of all rows, whatever their classes."""
        return self

    def for_words_of(self, X: Any, others: Any | None) -> Density:
        """Return a copy that reads no word that these rows lack, nor, unless by tf-idf, others."""
        return self

    def compact(self, X: Any) -> tuple[Density, Any]:
        """Return a copy whose statistics that are equal in all rows are one, and its rows."""
        return self, X

    def spread(self, eta: Floats) -> tuple[Density, Floats]:
        """Return the density that :meth:`compact` was asked of, and its natural parameters."""
        return self, eta

    def spread_factors(self, values: Floats) -> Floats:
        """Return values of factors as those of the density that :meth:`spread` gives, (K, …)."""
        return values

    @property
    def n_spread(self) -> int:
        """How many natural parameters :meth:`spread` gives."""
        return self.n_statistics

    def gathered(self, eta: Floats) -> Floats:
        """Return natural parameters as :meth:`spread` gives them as those of this density."""
        return eta

    @abstractmethod
    def begin(self, head: Floats, *, scales: bool = True) -> Density:
        """Return a copy that knows its number of columns and a rough centre from a few rows.

        Parameters
        ----------
        head : ndarray of shape (n_head, n_features)
            Some rows (at least one), used for numerical reference points only: no result depends
            on which rows they are, but for rounding. Rows spread over the whole table serve best:
            a column missing in all of them has no reference point.
        scales : bool, default=True
            Whether `statistic_scale` will be asked for. Only a penalty on standardised statistics
            (λ < 1) needs it, and without it :meth:`summary` may have less to do: then all are 1.
        """

    def check(self, X: Floats) -> None:
        """Refuse values outside the family's domain; missing cells pass.

        Raises
        ------
        DomainError
            Naming the columns; here infinite values only.
        """
        refuse(X, np.isinf(X), expected="finite numbers", remedy="make infinite cells missing")

    @abstractmethod
    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        """Sum one block of rows by class (a tuple of arrays that may be added to another's).

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features), C order
            One block; NaN marks a missing cell.
        codes : ndarray of shape (n_rows,), int64
            Class of each row, 0 … n_classes-1.
        weights : ndarray of shape (n_rows,) or None
            Row weights, None for all one.
        n_classes : int
            Number of classes, K.

        Returns
        -------
        tuple of ndarray
            Additive over blocks.

        Raises
        ------
        DomainError
            If a value lies outside the family's domain (a negative count, an infinite value); it
            names the columns.
        """

    @abstractmethod
    def bind(self, summary: Any) -> Bound:
        """Return the bound density with counts, sums, prior and standardisation."""

    def prior_of_sums(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats] | None:
        """Return the prior's counts and sums where they are a share of the rows, else None.

        Override where :meth:`bind` gives pseudo-rows in proportion to rows: standard errors then
        count what a row adds to them.

        Shapes: counts (n_classes, n_factors); sums (n_classes, n_statistics).
        """
        return None

    # -- the exponential family (bound densities) ------------------------------------------------

    @abstractmethod
    def sufficient_statistics(self, X: Floats) -> Floats:
        """Return T(x), shape (n_rows, n_statistics); zero where the factor is missing."""

    @abstractmethod
    def log_base_measure(self, X: Floats) -> Floats:
        """Return log h(x) by factor, shape (n_rows, n_factors); zero where it is missing.

        Densities are with respect to the columns' own units, so a density that standardises its
        columns includes the log of the scale here.
        """

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
        free = np.flatnonzero(~self.tied)
        return self.hessian(eta)[:, free[:, None], free]

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

    # -- where rows meet parameters (override for speed) -----------------------------------------

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

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        """Return Σ_i weights_ik T(x_i), shape (n_classes, n_statistics).

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        weights : ndarray of shape (n_rows, n_classes)
        """
        return weights.T @ self.sufficient_statistics(X)

    @property
    def n_linear(self) -> int:
        """Columns of a logistic regression on these columns; a category has one per level."""
        return self.n_statistics

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

    def expected_statistics(self, X: Floats, eta: Floats) -> Floats:
        """Return E_k[T | the cells that are there], shape (n_rows, n_classes, n_statistics).

        Override where what is missing follows from a class's density and the row's other cells.
        """
        known = np.repeat(self.sufficient_statistics(X)[:, None], eta.shape[0], axis=1)
        absent = self.missing_factors(X) if self.allows_missing else None
        if absent is not None:
            known += absent[:, None, self.factors] * self.mean(eta)
        return known

    def left_over(self, X: Floats, filling: Floats) -> Floats | None:
        """Return what :meth:`summary` adds to statistics for cells that it fills, None for nothing.

        Takes filling: The numbers that it fills them by.

        Shapes: → (n_rows, n_statistics).
        """
        return None

    # -- the linear view, in the columns' own units ----------------------------------------------

    @property
    def linear_in_columns(self) -> bool:
        """Whether the free statistics are the columns themselves, up to scale and origin."""
        return False

    def column_units_statistics(self, X: Floats) -> Floats:
        """Return the free statistics in the columns' own units, (n_rows, n_free); zero if missing.

        The same as :meth:`free_statistics` unless the density standardises its columns.
        """
        return self.free_statistics(X)

    def column_units_coefficients(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return free natural parameters as coefficients of :meth:`column_units_statistics`.

        Parameters
        ----------
        eta : ndarray of shape (n_rows, n_free)

        Returns
        -------
        coefficients : ndarray of shape (n_rows, n_free)
        constant : ndarray of shape (n_rows,)
            What the change of units adds.
        """
        return eta, np.zeros(eta.shape[0])

    def terms(self, names: Sequence[str], levels: Sequence[Sequence[Any] | None]) -> list[Term]:
        """Return what :meth:`column_units_statistics` are, in words, and of which columns.

        Override where a statistic is not simply a column.

        Shapes: names, levels (n_features,), levels being a column's categories.
        """
        n_terms = self.column_units_coefficients(np.zeros((1, int((~self.tied).sum()))))[0].size
        if n_terms == self.n_features:
            return [Term(name, (j,)) for j, name in enumerate(names)]
        return [Term(f"statistic {t + 1}", tuple(range(self.n_features))) for t in range(n_terms)]

    # -- derived ---------------------------------------------------------------------------------

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

    @property
    def sums_columns(self) -> bool:
        """Whether :meth:`summary` also takes blocks whose columns lie together in memory."""
        return False

    @property
    def reads_words(self) -> bool:
        """Whether it reads counts of words, which are sparse."""
        return False

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Statistics that are 0 or 1, of which a factor has at most one that is 1."""
        return np.zeros(self.n_statistics, dtype=bool)

    @property
    def word_factors(self) -> NDArray[np.bool_]:
        """Factors whose A is counted once for each word of a row, not once for the row."""
        return np.zeros(self.n_factors, dtype=bool)

    @property
    def per_word(self) -> bool:
        """Whether there is such a factor."""
        return bool(self.word_factors.any())

    def normalised(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return η with A(η) = 0 where A is counted by words, and A, which the offset takes up.

        Shapes: eta (n_classes, n_statistics); → the same, and (n_classes,).
        """
        return eta, np.zeros(eta.shape[0])

    def hessian_diagonal(self, eta: Floats) -> Floats:
        """Return the diagonal of ∇²A(η), shape (n_classes, n_statistics)."""
        return np.einsum("kpp->kp", self.hessian(eta)).copy()

    @property
    def penalty_profile(self) -> Floats:
        """Multiples of the penalty by statistic, shape (n_statistics,)."""
        return np.ones(self.n_statistics)

    def some_statistics(self, X: Any, index: Integers) -> Floats:
        """Return some of T(x), shape (n_rows, index.size)."""
        return self.sufficient_statistics(X)[:, index]

    def square_sums(self, X: Any, weights: Floats) -> Floats:
        """Return Σ_i weights_ik T(x_i)², shape (n_classes, n_statistics)."""
        return np.asarray(weights.T @ self.sufficient_statistics(X) ** 2)

    def relative_log_density(
        self, X: Floats, eta: Floats, partition: Floats | None = None
    ) -> Floats:
        """Return η_k·T(x_i) - A(η_k), missing factors left out, shape (n_rows, n_classes).

        It is log f(x_i; η_k) up to log h(x_i), which all classes share: all a posterior needs.
        `partition` is :meth:`log_partition` of η, where it is known already.
        """
        values = self.scores(X, eta)
        partition = self.log_partition(eta) if partition is None else partition
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


def refuse(X: Floats, wrong: NDArray[np.bool_], *, expected: str, remedy: str) -> None:
    """Raise a :class:`DomainError` naming the columns in which any cell is wrong."""
    if not wrong.any():
        return
    columns = np.flatnonzero(wrong.any(axis=0))
    got = float(X[wrong[:, columns[0]], columns[0]][0])
    raise DomainError(tuple(columns.tolist()), expected, got, remedy)


def not_a_density() -> NotADensityError:
    """Return the error of asking a density of parameters outside the domain."""
    return NotADensityError(
        "eta: expected natural parameters of a density, got some outside the domain (a variance "
        "that is not positive); fit with tradeoff > 0 to get a density"
    )


def reference_rows(X: Any, size: int = 64) -> Any:
    """Return some rows for :meth:`Density.begin`, spread evenly over the table.

    A column missing in all of them gets its first present cell.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Not changed.
    size : int, default=64

    Returns
    -------
    ndarray of shape (min(n_rows, size), n_features)
    """
    positions = np.unique(np.linspace(0, max(X.shape[0] - 1, 0), size).astype(np.int64))
    if isinstance(X, MixedRows):
        return MixedRows(reference_rows(X.numbers, size), {j: c[:1] for j, c in X.words.items()})
    head = X[positions[: X.shape[0]]].astype(np.float64)
    if not head.size:
        return head
    for column in np.flatnonzero(np.isnan(head).all(axis=0)):
        present = np.flatnonzero(~np.isnan(X[:, column]))
        if present.size:
            head[0, column] = X[present[0], column]
    return head
