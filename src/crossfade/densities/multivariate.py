"""The multivariate Gaussian: Gaussian discriminant analysis."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import check_choice, check_number
from crossfade._typing import Floats, Integers
from crossfade.blocks import workspace
from crossfade.densities.base import Bound, refuse
from crossfade.densities.covariance import STRUCTURES, PowerSums
from crossfade.densities.filling import (
    class_free_moments,
    conditional_means,
    left_over,
    moment_influence,
    packed,
    unpacked,
)
from crossfade.densities.kernels import class_weights
from crossfade.densities.multivariate_family import StandardisedGaussian
from crossfade.densities.univariate import finite_medians, safe_mean, statistic_scales
from crossfade.errors import DataError, DomainError
from crossfade.rowwise import group_rows
from crossfade.table.read import check_large, has_missing_cells

COVARIANCES = tuple(f"{shared}{name}" for name in STRUCTURES for shared in ("", "shared_"))


class MultivariateGaussian(StandardisedGaussian):
    """A Gaussian over all columns, with covariances per class or one shared by all classes.

    The statistics are z, then its second moments, z = (x - location) / scale with the mean and
    maximum-likelihood standard deviation of each whole column, so that nothing depends on units:
    ``full`` has the products z_i z_j with i ≥ j in the order (0,0), (1,0), (1,1), (2,0), …;
    ``diagonal`` the squares z_j²; ``spherical`` their sum, one variance for all columns *in these
    standardised units* (or in the given ones, see `standardise`). With ``shared_`` in front the
    second moments are tied, and of their sums only the total over classes has a meaning (the
    classes get equal shares per row). All columns are one factor.

    A column without variation has z = 0 whatever comes later: it is a point mass, has no part in A
    and says nothing about the class. A covariance that is
    singular, or next to it (collinear columns, no more rows than columns: some direction has less
    than 1e-12 of the pooled variance), has no maximum-likelihood density: such directions get
    1/n of the pooled within-class variances, as a prior worth one row; all others keep the plain
    maximum-likelihood estimates.

    Parameters
    ----------
    covariance : str, default="shared_full"
        One of "full", "shared_full" (or "shared"), "diagonal", "shared_diagonal", "spherical",
        "shared_spherical".
    shrinkage : float, default=0.0
        s in [0, 1): the covariance is (1 - s) Σ + s D, D the diagonal of pooled within-class
        variances, by a conjugate prior of s/(1 - s) pseudo-rows per row at the class's mean.
    pooling : float, default=0.0
        w in [0, 1): Σ is (1 - w) Σ_k + w S before that, S the pooled within-class covariance
        (Friedman 1989). A shared covariance is S already.
    shrinkage_rows : float, default=0.0
        So many pseudo-rows per class in addition, however many rows the class has.
    standardise : bool, default=True
        Whether each column has its own scale. If not, all have one, and ``spherical`` means equal
        variances of the columns as they are: for columns of one unit, where it matters which of
        them vary most. No other covariance depends on it.
    missing : {"refuse", "mean", "marginal"}, default="refuse"
        What a missing cell is: "mean", its mean given the row's other cells, by the mean and
        covariance of all classes together; "marginal", nothing: the row's density is that of its
        other cells. (Either way, rows to learn from are filled by those means; "marginal" adds the
        variance that they leave.)
    reference : pair of ndarray of shape (n_features,) and (n_features, n_features), optional
        Mean and covariance of all rows, for tables to learn from that have missing cells.

    Raises
    ------
    DataError
        If a parameter is not one of these.

    Notes
    -----
    η·T - A(η) with A(η) = aᵀ Ω⁻¹ a / 2 - log det(Ω) / 2, Ω being the precision matrix in z: A is
    +inf where it is not positive definite. Products with ∇²A and its inverse cost K d³ and never
    form a matrix over the statistics; scores are quadratic forms, not products with T(x).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import MultivariateGaussian
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(500, 2)), np.repeat([0, 1], 250)
    >>> begun = MultivariateGaussian("full").begin(X)
    >>> bound = begun.bind(begun.summary(X, y, None, 2))
    >>> eta = bound.density.estimate(bound.counts, bound.sums)
    >>> mean, covariance = bound.density.moments(eta)
    >>> bool(np.allclose(covariance[1], np.cov(X[y == 1].T, bias=True)))
    True
    """

    of_prior = ("shrinkage", "shrinkage_rows", "pooling")

    _shift: Floats
    _scales: bool

    def __init__(
        self,
        covariance: str = "shared_full",
        shrinkage: float = 0.0,
        shrinkage_rows: float = 0.0,
        *,
        pooling: float = 0.0,
        standardise: bool = True,
        missing: str = "refuse",
        reference: tuple[Floats, Floats] | None = None,
    ):
        name = "shared_full" if covariance == "shared" else covariance
        if name not in COVARIANCES:
            raise DataError(
                f"covariance: expected 'shared' or one of {', '.join(map(repr, COVARIANCES))}, "
                f"got {covariance!r}"
            )
        remedy = "use covariance='shared_diagonal' for shrinkage 1"
        check_number("shrinkage", shrinkage, 0.0, remedy, below=1.0)
        check_number("pooling", pooling, 0.0, "use a shared covariance for pooling 1", below=1.0)
        remedy = "0 adds nothing to the shrinkage"
        check_number("shrinkage_rows", shrinkage_rows, 0.0, remedy)
        self.covariance = covariance
        self.shrinkage = shrinkage
        self.standardise = standardise
        self.shrinkage_rows = shrinkage_rows
        self.shared = name.startswith("shared_")
        self.pooling = 0.0 if self.shared else pooling
        ways, remedy = ("refuse", "mean", "marginal"), "'mean' fills cells from the row's others"
        check_choice("missing", missing, ways, remedy)
        self.missing, self.reference = missing, reference
        self.allows_missing = self.fills_missing = missing != "refuse"
        self._kind = STRUCTURES[name.removeprefix("shared_")]

    @property
    def filled(self) -> bool:
        return self.reference is not None

    @property
    def marginalises(self) -> bool:
        return self.missing == "marginal"

    @property
    def unfilled(self) -> Self:
        new = copy.copy(self)
        new.reference = None if self.marginalises else self.reference
        return new

    @property
    def fills_statistics(self) -> NDArray[np.bool_]:
        return np.full(self.n_features, self.missing == "mean")

    @property
    def filling(self) -> Floats:
        return packed(*self._total) if self.filled else np.zeros(0)

    def filled_cells(self, X: Floats, filling: Floats) -> Floats:
        if not filling.size:
            return X
        mean, C = unpacked(filling, self.n_features)
        C = C * np.outer(self._spread, self._spread)
        return conditional_means(X, self._in_own_units(mean), C)

    def filling_influence(self, X: Floats, weights: Floats) -> Floats:
        if not self.filled:
            return super().filling_influence(X, weights)
        return moment_influence(X, self._standard(X), weights, self._total)

    def informed(self, X: Floats, weights: Floats | None) -> Self:
        if not self.fills_missing or not has_missing_cells(X):
            return self
        numbers = np.asarray(X, dtype=np.float64)
        if np.isinf(numbers).any():
            return self
        new = copy.copy(self)
        new.reference = class_free_moments(numbers, weights)
        return new

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        d = head.shape[1]
        new = self._sized(np.ones(d, dtype=bool))
        new._shift = finite_medians(head)
        new._scales = scales
        return new

    def _sized(self, active: Any) -> Self:
        new = copy.copy(self)
        d = active.shape[0]
        new._structure = self._kind(d, active)
        new.n_features, new.n_factors = d, 1
        new.n_statistics = d + new._structure.size
        new.factors = np.zeros(new.n_statistics, np.int64)
        new.feature_factors = np.zeros(d, np.int64)
        new.tied = np.repeat([False, self.shared], [d, new._structure.size])
        # Statistics that vary at all: those of a column that does not are zero.
        new._varies = None
        if not active.all():
            structure, seen = new._structure, active.astype(np.float64)
            pairs = structure.flat(structure.outer(seen, seen))
            new._varies = np.concatenate([seen, pairs]) > 0.0
        return new

    def check(self, X: Floats) -> None:
        missing = np.isnan(X)
        refuse(
            X,
            missing & (self.reference is None),
            expected="no missing cells",
            remedy="fill or drop them, or use NaiveBayes, which leaves missing cells out",
        )
        super().check(X)

    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.fills_missing and self.reference is not None and np.isnan(X).any():
                sums = self._filled_moments(X, self.reference, codes, weights, n_classes)
            else:
                sums = self._moments(X, codes, weights, n_classes)
        # A value that is not finite, or too large to be squared, shows in its own column's square.
        squares = [self._structure.diagonal(sums[2])]
        if self._scales:
            squares.append(np.atleast_1d(np.diagonal(sums[4]) if sums[4].ndim == 2 else sums[4]))
        finite = all(np.isfinite(part).all() for part in squares)
        if not finite:
            self.check(X)
        check_large(X, squares[0].sum(axis=0), self._shift)
        if not finite:
            sizes = np.abs(np.where(np.isnan(X), 0.0, X)).max(axis=0)
            column, largest = int(sizes.argmax()), float(sizes.max())
            remedy = "change the column's unit, or take its logarithm"
            raise DomainError((column,), "numbers with finite fourth powers", largest, remedy)
        return sums

    def _filled_moments(
        self,
        X: Floats,
        reference: tuple[Floats, Floats],
        codes: Integers,
        weights: Floats | None,
        n_classes: int,
    ) -> tuple[Floats, ...]:
        mean, C = reference
        sums = self._moments(conditional_means(X, mean, C), codes, weights, n_classes)
        if self.missing == "mean":
            return sums
        rest = left_over(X, C, class_weights(codes, weights, n_classes))
        rest = rest.sum(axis=0, keepdims=True) if self.shared else rest
        if sums[2].ndim == 2:
            rest = np.diagonal(rest, axis1=1, axis2=2)
        return (*sums[:2], sums[2] + rest, *sums[3:])

    def _moments(
        self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int
    ) -> tuple[Floats, ...]:
        structure = self._structure
        if self.shared:
            U = X - self._shift
            onehot = class_weights(codes, weights, n_classes)
            rooted = U if weights is None else U * np.sqrt(weights)[:, None]
            sums = onehot.sum(axis=0), onehot.T @ U, structure.product(rooted)[None]
            return (*sums, *structure.higher(U, weights)) if self._scales else sums
        # One class after the other.
        d = X.shape[1]
        ends = np.empty(n_classes, dtype=np.int64)
        grouped = workspace("grouped rows", len(X), d + 1)
        group_rows(X, codes, weights, self._shift, ends, grouped)
        counts, first = np.empty(n_classes), np.empty((n_classes, d))
        second, higher = [], []
        for k, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            U, w = grouped[start:end, :d], grouped[start:end, d]
            counts[k] = w.sum()
            np.matmul(w, U, out=first[k])
            second.append(structure.product(U if weights is None else U * np.sqrt(w)[:, None]))
            if self._scales:
                higher.append(structure.higher(U, None if weights is None else w))
        sums = counts, first, np.array(second)
        return (*sums, *(sum(parts) for parts in zip(*higher, strict=True)))

    def bind(self, summary: Any) -> Bound:
        counts, first, second = summary[:3]
        weight = counts.sum()
        total, square = first.sum(axis=0), self._structure.diagonal(second.sum(axis=0))
        offset, mean_square = safe_mean(total, weight), safe_mean(square, weight)
        deviation = statistic_scales(mean_square, offset)
        constant = mean_square - offset**2 <= 1e-13 * mean_square
        scale = deviation
        if not self.standardise and not constant.all():
            scale = np.full_like(deviation, np.sqrt((deviation[~constant] ** 2).mean()))
        new = self._sized(~constant)
        new._location, new._scale = self._shift + offset, scale
        # What the location was rounded to (far from zero) is what z is taken about, here as later.
        offset = new._location - self._shift
        new._inverse_scale = np.where(constant, 0.0, 1.0 / scale)
        sums, statistic_mean = new._standardised_sums(counts, first, second, offset)
        new._total = new._class_free(statistic_mean)
        scales = np.ones(new.n_statistics)
        if self._scales:
            mean = statistic_mean[new.n_features :]
            scales[: new.n_features] = np.where(constant, 1.0, deviation / scale)
            scales[new.n_features :] = new._second_scales(summary, offset, mean)
        prior_counts, prior_sums = new._prior(counts, sums)
        return Bound(
            density=new,
            counts=counts[:, None],
            sums=sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
            statistic_mean=statistic_mean,
            statistic_scale=scales,
        )

    def _class_free(self, statistic_mean: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance in z of all classes together."""
        inverse = self._inverse_scale
        if self.reference is not None:
            mean, C = self.reference
            return (mean - self._location) * inverse, C * np.outer(inverse, inverse)
        mean, second = self._split(statistic_mean)
        C = self._structure.covariance(mean[None], second[None])[0]
        return mean, C if C.ndim == 2 else np.diag(C)

    def _standardised_sums(
        self, counts: Floats, first: Floats, second: Floats, offset: Floats
    ) -> tuple[Floats, Floats]:
        """Return sums of T by class, and the mean of T, from moments about the shift."""
        structure, inverse = self._structure, self._inverse_scale
        z = (first - counts[:, None] * offset) * inverse
        n, s = counts, first
        if self.shared:
            n, s = counts.sum(keepdims=True), first.sum(axis=0, keepdims=True)
        each = np.broadcast_to(offset, s.shape)
        weight = n.reshape(-1, *[1] * (second.ndim - 1))
        moved = second - structure.outer(each, s) - structure.outer(s, each)
        moved = moved + weight * structure.outer(each, each)
        squares = structure.flat(moved * structure.outer(inverse, inverse))
        total = counts.sum()
        mean = safe_mean(squares.sum(axis=0), total)
        if self.shared:
            squares = counts[:, None] * mean
        return np.hstack([z, squares]), np.concatenate([safe_mean(z.sum(axis=0), total), mean])

    def _second_scales(self, summary: Any, offset: Floats, mean: Floats) -> Floats:
        """Return standard deviations of the second statistics, from moments about the shift."""
        totals = PowerSums(*(part.sum(axis=0) for part in summary[:3]), *summary[3:])
        squares = self._structure.mean_squares(totals, offset, self._inverse_scale)
        return statistic_scales(squares, mean)

    def prior_of_sums(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats] | None:
        if not self.shrinkage and not self.shrinkage_rows and not self.pooling:
            return None
        n = counts[:, 0]
        if self.shared:
            mean = sums[:, self.n_features :].sum(axis=0) / n.sum()
            sums = np.hstack([sums[:, : self.n_features], n[:, None] * mean])
        return self._prior(n, sums)

    def _prior(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """Return pseudo-counts and pseudo-sums of shrinkage and of what singularity needs."""
        structure = self._structure
        means, squares = self._means(counts[:, None], sums)
        C = structure.covariance(means, squares)
        share = counts / max(counts.sum(), np.finfo(float).tiny)
        pooled = (share[:, None] * structure.diagonal(C)).sum(axis=0)
        reference = np.where(pooled > 1e-14, pooled, 1.0)

        # Pseudo-rows with the pooled covariance, and with its diagonal.
        diagonal, S = structure.from_diagonal(reference), np.tensordot(share, C, axes=1)
        of_pool = counts * self.pooling / (1.0 - self.pooling)
        of_diagonal = (counts + of_pool) * self.shrinkage / (1.0 - self.shrinkage)
        of_diagonal = of_diagonal + np.where(counts > 0, self.shrinkage_rows, 0.0)
        pseudo = of_pool + of_diagonal
        whole = np.maximum(counts + pseudo, np.finfo(float).tiny)
        to_pool, to_diagonal = (
            (rows / whole).reshape(-1, *[1] * (C.ndim - 1)) for rows in (of_pool, of_diagonal)
        )
        second = of_pool[:, None] * structure.flat(S) + of_diagonal[:, None] * structure.flat(
            diagonal
        )
        second = second + pseudo[:, None] * structure.flat(structure.outer(means, means))
        still = np.where(structure.active, 0.0, 1.0)
        shrunk = (1.0 - to_pool - to_diagonal) * C + to_pool * S
        shrunk = shrunk + to_diagonal * diagonal + structure.from_diagonal(still)
        if self.shared:
            shrunk = np.tensordot(share, shrunk, axes=1)[None]
        # One row's worth of variance, in all, where rows tell nothing of it: the same variance in
        # every class, so that columns that are collinear in all of them speak for none.
        missing = structure.flat(structure.missing_variance(shrunk, reference))
        second = second + share[:, None] * missing
        prior = np.hstack([pseudo[:, None] * means, second])
        return pseudo[:, None], self._varying(prior)
