"""What a class looks like: an exponential family, how data bind it, and how it is read.

Two stages. An *unbound* density is what a user writes, ``Gaussian(shared_variance=True)``. It is
bound to data in one pass over blocks of rows: ``begin`` looks at a few rows, ``summary`` turns one
block into additive sums per class, ``bind`` turns the total into a *bound* density (location,
scale and number of columns fixed) with its counts and summed statistics. Binding never changes
the unbound object.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.densities.family import ExponentialFamily
from crossfade.errors import DomainError
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

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Poisson
    >>> X = np.array([[0.0], [2.0], [5.0]])
    >>> density = Poisson().begin(X)
    >>> bound = density.bind(density.summary(X, np.array([0, 0, 1]), None, 2))
    >>> bound.counts[:, 0]
    array([2., 1.])
    """

    density: Density
    counts: Floats
    sums: Floats
    prior_counts: Floats
    prior_sums: Floats
    statistic_mean: Floats
    statistic_scale: Floats


class Density(ExponentialFamily):
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

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Poisson
    >>> density = Poisson().begin(np.array([[0.0], [2.0], [5.0]]))
    >>> density.n_features, density.n_statistics, density.allows_missing
    (1, 1, True)
    """

    #: Whether a missing cell is filled from the row's others, so that its factor is never missing.
    fills_missing: bool = False

    #: The kind of column the density takes (see :class:`~crossfade.table.schema.Schema`).
    kind: ClassVar[str] = "continuous"

    #: Parameters that have a part in :meth:`bind` alone: no sum of rows depends on them.
    of_prior: ClassVar[tuple[str, ...]] = ()

    # -- from data to a bound density --------------------------------------------------------------

    def sums_alike(self, other: Density) -> bool:
        """Return whether both, not begun, differ in their prior alone."""
        mine, its = (
            {name: value for name, value in vars(one).items() if name not in self.of_prior}
            for one in (self, other)
        )
        plain = (str, int, float)
        return (
            type(self) is type(other)
            and mine.keys() == its.keys()
            and all(
                value is its[name] or (isinstance(value, plain) and value == its[name])
                for name, value in mine.items()
            )
        )

    def with_prior_of(self, other: Density) -> Density:
        """Return the density, begun, with the prior of one whose sums are alike."""
        new = copy.copy(self)
        for name in self.of_prior:
            setattr(new, name, getattr(other, name))
        return new

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
        """Return the prior's counts and sums where they follow from the rows' own, else None.

        Override where :meth:`bind` gives pseudo-rows that rows move, as those at a class's mean:
        standard errors then count how. A factor's prior follows from that factor's rows.

        Shapes: counts (n_classes, n_factors); sums (n_classes, n_statistics).
        """
        return None

    @property
    def sums_columns(self) -> bool:
        """Whether :meth:`summary` also takes blocks whose columns lie together in memory."""
        return False

    @property
    def penalty_profile(self) -> Floats:
        """Multiples of the penalty by statistic, shape (n_statistics,)."""
        return np.ones(self.n_statistics)

    # -- missing cells that are filled -------------------------------------------------------------

    def informed(self, X: Floats, weights: Floats | None) -> Density:
        """Return a copy that knows what it needs of all rows, whatever their classes."""
        return self

    @property
    def filled(self) -> bool:
        """Whether rows that it was informed of have cells to be filled."""
        return False

    @property
    def marginalises(self) -> bool:
        """Whether a row without some of a factor's cells has the density of the others."""
        return False

    @property
    def unfilled(self) -> Density:
        """The same where it :attr:`marginalises`, of rows that are not filled to be learnt from."""
        return self

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

    def left_over(self, X: Floats, filling: Floats) -> Floats | None:
        """Return what :meth:`summary` adds to statistics for cells that it fills, None for nothing.

        Takes filling: The numbers that it fills them by.

        Shapes: → (n_rows, n_statistics).
        """
        return None

    # -- words -------------------------------------------------------------------------------------

    @property
    def reads_words(self) -> bool:
        """Whether it reads counts of words, which are sparse."""
        return False

    def only_counts(self, X: Any) -> Any | None:
        """Return the statistics of rows, CSR, where they are counts of words and nothing else."""
        return None

    def smoothed(self, bound: Bound) -> tuple[Floats, Floats]:
        """Return what :meth:`estimate` does of sums and pseudo-sums together, and its A."""
        eta = self.estimate(bound.counts + bound.prior_counts, bound.sums + bound.prior_sums)
        return eta, self.log_partition(eta)

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

    # -- the linear view, in the columns' own units ------------------------------------------------

    @property
    def n_linear(self) -> int:
        """Columns of a logistic regression on these columns; a category has one per level."""
        return self.n_statistics

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


def refuse(X: Floats, wrong: NDArray[np.bool_], *, expected: str, remedy: str) -> None:
    """Raise a :class:`DomainError` naming the columns in which any cell is wrong."""
    if not wrong.any():
        return
    columns = np.flatnonzero(wrong.any(axis=0))
    got = float(X[wrong[:, columns[0]], columns[0]][0])
    raise DomainError(tuple(columns.tolist()), expected, got, remedy)


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

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import reference_rows
    >>> reference_rows(np.arange(10.0)[:, None], size=4).ravel()
    array([0., 3., 6., 9.])
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
