"""The record that every pass starts from: labelled rows and the density bound to them.

A parameter vector holds the free weights W, the offsets c and the tied weights V, all of them of
statistics standardised to T̃ = (T - mean)/scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, for_each_block
from crossfade.densities.base import Bound, Density
from crossfade.tradeoff.binding import any_missing, with_unseen_factors
from crossfade.tradeoff.labelled_rows import LabelledRows

#: Doubles of statistics that are kept for all passes: 64 MB. More are formed anew, block by block,
#: which costs less than to read them.
KEPT_DOUBLES = 8_388_608

#: Levels of a column from which rows are kept by them where it is eliminated.
_FEWEST_LEVELS = 32

#: Products that take as long as a look at where a level stands, and how many a pass over the rows
#: must be spared, for rows to be kept by their levels.
_LOOK, _WORTH_SAVING = 4, 100_000

Sums = TypeVar("Sums")


class Placed(NamedTuple):
    """Rows as the level that they have of one column, and their other statistics.

    `levels` (L,), `columns` (q,): Places among the free statistics of the levels, and of the rest.
    `level` (n_samples,): L where a row has none of them: the base, or a missing cell.
    `rest` (n_samples, q): The other statistics.
    """

    levels: Integers
    columns: Integers
    level: Integers
    rest: Floats


class Indicated(NamedTuple):
    """Rows as the levels that they have of columns of several, and their other statistics.

    `levels` (L,), `columns` (q,): Places among the free statistics of the levels, and of the rest.
    `ones` (n_samples, L), `turned` (L, n_samples): The levels' indicators, sparse.
    `rest` (n_samples, q): The other statistics.
    """

    levels: Integers
    columns: Integers
    ones: Any
    turned: Any
    rest: Floats

    def take(self, rows: slice | Integers) -> Indicated:
        """Return the same of some rows."""
        if isinstance(rows, slice) and rows.start == 0 and rows.stop >= len(self.rest):
            return self
        ones = self.ones[rows]
        return self._replace(ones=ones, turned=ones.T, rest=self.rest[rows])

    def scores(self, slopes: Floats, out: Floats) -> Floats:
        """Return slopes_k·T_i, (n_samples, n_classes)."""
        np.matmul(self.rest, slopes[:, self.columns].T, out=out)
        out += self.ones @ np.ascontiguousarray(slopes[:, self.levels].T)
        return out

    def sums(self, R: Floats) -> Floats:
        """Return Σ_i R_ik T_i, (R.shape[1], n_free)."""
        found = np.empty((R.shape[1], self.levels.size + self.columns.size))
        found[:, self.columns] = R.T @ self.rest
        found[:, self.levels] = (self.turned @ np.ascontiguousarray(R)).T
        return found


class KeptStatistics:
    """The free statistics of all rows and what they lack, formed once where that is little."""

    def __init__(self, rows: LabelledRows, density: Density) -> None:
        self._rows, self._density = rows, density
        self._left_out: dict[tuple[int, int], Floats | None] = {}

    @cached_property
    def whole(self) -> Floats | None:
        """The statistics, shape (n_samples, n_free); None where they are many."""
        n_free = int((~np.asarray(self._density.tied, dtype=bool)).sum())
        if self._rows.is_part:
            return None
        if self._rows.n_samples * n_free > KEPT_DOUBLES or not self._density.forms_statistics:
            return None
        kept = np.empty((self._rows.n_samples, n_free))

        def block(rows: slice) -> None:
            kept[rows] = self._density.free_statistics(self._rows.block(rows))

        for_each_block(block, len(kept), block_rows=1_024)
        return kept

    @cached_property
    def placed(self) -> Placed | None:
        """The same by the levels of the column that has most; None where that saves little."""
        whole, free = self.whole, ~np.asarray(self._density.tied, dtype=bool)
        indicators, factors = self._density.indicators[free], self._density.factors[free]
        sizes = np.bincount(factors[indicators], minlength=1)
        if whole is None or sizes.max() < _FEWEST_LEVELS:
            return None
        own = indicators & (factors == sizes.argmax())
        levels, columns = np.flatnonzero(own), np.flatnonzero(~own)
        indicator = whole[:, levels]
        level = np.where(indicator.any(axis=1), indicator.argmax(axis=1), levels.size)
        return Placed(levels, columns, level, whole[:, columns])

    @cached_property
    def indicated(self) -> Indicated | None:
        """The same by the levels that rows have; None where that saves little."""
        density, n = self._density, self._rows.n_samples
        if self._rows.is_part or density.reads_words or not density.indicators.any():
            return None
        free = np.flatnonzero(~np.asarray(density.tied, dtype=bool))
        sizes = np.bincount(density.factors[density.indicators], minlength=density.n_factors)
        # A level costs a look at where it stands, and a number a class.
        least = self._rows.n_classes + _LOOK
        sparse = density.indicators & (sizes > least)[density.factors]
        own, rest = np.flatnonzero(sparse[free]), np.flatnonzero(~sparse[free])
        saved = n * (own.size - least * int((sizes > least).sum()))
        if saved < _WORTH_SAVING or n * rest.size > KEPT_DOUBLES:
            return None
        place = np.full(density.n_statistics + 1, -1)
        place[free[own]] = np.arange(own.size)
        others, found = np.empty((n, rest.size)), []

        def block(rows: slice) -> None:
            X = self._rows.block(rows)
            if rest.size:
                others[rows] = density.some_statistics(X, free[rest])
            found.append((rows.start, place[density.indicated(X)]))

        for_each_block(block, n, block_rows=1_024)
        levels = np.concatenate([each for _, each in sorted(found, key=lambda one: one[0])])
        ends = np.append(0, np.cumsum((levels >= 0).sum(axis=1)))
        index = levels[levels >= 0]
        shape = n, own.size
        ones = scipy.sparse.csr_array((np.ones(index.size), index, ends), shape=shape)
        return Indicated(own, rest, ones, ones.T, others)

    def left_out(self, rows: slice | Integers) -> Floats | None:
        """Return how often each factor's A is left out of each row of a block, None for never."""
        few = self._rows.n_samples * self._density.n_factors <= KEPT_DOUBLES
        few = few and not self._rows.is_part
        if not few or not isinstance(rows, slice):
            return self._density.left_out(self._rows.block(rows))
        place = rows.start, rows.stop
        if place not in self._left_out:
            self._left_out[place] = self._density.left_out(self._rows.block(rows))
        return self._left_out[place]


class AtTheta:
    """The density's terms at one parameter vector, each computed when first asked for."""

    def __init__(self, bound: BoundRows, theta: Floats) -> None:
        self.theta = theta.copy()
        self._bound = bound

    @cached_property
    def natural(self) -> Floats:
        """η, shape (n_classes, n_statistics)."""
        return self._bound.natural(self.theta)

    @cached_property
    def partition(self) -> Floats:
        """A of the centred statistics by factor, A_f(η) - η_f·mean_f, (n_classes, n_factors)."""
        bound = self._bound
        centre = by_factor(self.natural * bound.mean, bound.factors, bound.density.n_factors)
        return bound.density.log_partition(self.natural) - centre

    @cached_property
    def slope(self) -> Floats:
        """Gradient of that by standardised statistic, shape (n_classes, n_statistics)."""
        mean = self._bound.density.mean(self.natural)
        return (mean - self._bound.mean) / self._bound.scale


@dataclass(frozen=True, eq=False)
class BoundRows:
    """Labelled rows, the density bound to them, and what follows from both without a pass.

    `bound`: Density with counts, sums and prior; one row of each per class.
    `class_weights` (n_classes,): Total weight of each class's rows.
    `has_gaps`: Whether a cell is missing of a factor that has a say.
    `has_missing`: Whether a factor's A is not counted once a row: where there are gaps, and above λ
        = 0 where it is counted by words.
    `at_mean`: Whether a missing factor's term is that of its statistics' mean, not its A.
    `n_tied`: Tied weights in a parameter vector: all, or none where nothing depends on them.
    `is_sample`: Whether the rows stand for more than themselves.
    `every`: Of how many rows one stands for the others in curvature, where no cell is missing.

    A row's class may be a mixture of several *states*; all that is said here of classes is then
    true of states.
    """

    rows: LabelledRows
    bound: Bound
    class_weights: Floats
    has_gaps: bool
    has_missing: bool
    n_tied: int
    kept: KeptStatistics
    is_sample: bool = False
    every: int = 1
    at_mean: bool = False

    @classmethod
    def of(cls, rows: LabelledRows, bound: Bound, class_weights: Floats | None = None) -> Self:
        """Return the record of rows and of a density bound to them."""
        weights = rows.class_weights if class_weights is None else class_weights
        has_gaps = rows.has_missing and any_missing(weights, bound)
        if has_gaps:
            bound = with_unseen_factors(bound)
        n_tied = int(np.count_nonzero(bound.density.tied))
        kept = KeptStatistics(rows, bound.density)
        has_missing = has_gaps or bound.density.per_word
        return cls(rows, bound, weights, has_gaps, has_missing, n_tied, kept)

    def over(self, rows: LabelledRows) -> Self:
        """Return the same with other rows; the sums stay those of the bound density."""
        return replace(self, rows=rows, kept=KeptStatistics(rows, self.density))

    def sum(self, block: Callable[[Self, slice], Sums], block_rows: int) -> Sums:
        """Return the sum over all rows of what `block` makes of a block of a part of them."""

        def of_part(rows: LabelledRows) -> Sums:
            own = self if rows is self.rows else self.over(rows)
            return block_sum(lambda span: block(own, span), rows.n_samples, block_rows=block_rows)

        return self.rows.total(of_part)

    @cached_property
    def with_other_gaps(self) -> Self:
        """The same with a missing factor's A in place of its statistics' mean, or the reverse."""
        return replace(self, at_mean=not self.at_mean)

    @cached_property
    def without_tied(self) -> Self:
        """The same for parameter vectors without tied weights."""
        return replace(self, n_tied=0)

    # -- what follows from the bound density -----------------------------------------------------

    @cached_property
    def reads_words(self) -> bool:
        """Whether a part of the density reads counts of words."""
        return self.density.reads_words

    @cached_property
    def per_word(self) -> bool:
        """Whether a factor's A is counted by words."""
        return self.density.per_word

    @cached_property
    def density(self) -> Density:
        """The bound density."""
        return self.bound.density

    @cached_property
    def n_classes(self) -> int:
        """Number of classes (or states)."""
        return self.bound.counts.shape[0]

    @cached_property
    def tied(self) -> NDArray[np.bool_]:
        """Which statistics all classes share, shape (n_statistics,)."""
        return np.asarray(self.density.tied, dtype=bool)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Which statistics each class has its own weight for, shape (n_statistics,)."""
        return ~self.tied

    @cached_property
    def free_places(self) -> slice | Integers:
        """Places of the free statistics: a slice where the tied ones come last."""
        ordered = bool(self.free[: self.n_free].all())
        return slice(0, self.n_free) if ordered else np.flatnonzero(self.free)

    @cached_property
    def free_first(self) -> Integers:
        """Places of the free statistics, then those of the tied ones."""
        return np.append(np.flatnonzero(self.free), np.flatnonzero(self.tied))

    @cached_property
    def tied_places(self) -> Integers:
        """Places of the tied statistics."""
        return np.flatnonzero(self.tied)

    @cached_property
    def n_free(self) -> int:
        """Number of free statistics."""
        return int(self.free.sum())

    @cached_property
    def factors(self) -> Integers:
        """Factor of each statistic, shape (n_statistics,)."""
        return self.density.factors

    @cached_property
    def free_factors(self) -> Integers:
        """Factor of each free statistic."""
        return self.factors[self.free]

    @cached_property
    def scale(self) -> Floats:
        """Scale of each statistic."""
        return self.bound.statistic_scale

    @cached_property
    def mean(self) -> Floats:
        """Mean of each statistic."""
        return self.bound.statistic_mean

    @cached_property
    def free_scale(self) -> Floats:
        """Scale of each free statistic."""
        return self.scale[self.free]

    @cached_property
    def free_mean(self) -> Floats:
        """Mean of each free statistic."""
        return self.mean[self.free]

    @cached_property
    def total(self) -> float:
        """Total weight of the rows."""
        return float(self.class_weights.sum())

    @cached_property
    def as_counted(self) -> bool:
        """Whether statistics are neither centred nor scaled, and none is tied, as of words."""
        return bool((self.mean == 0.0).all() and (self.scale == 1.0).all() and self.free.all())

    @cached_property
    def sums(self) -> Floats:
        """Σ w T̃ by class, shape (n_classes, n_statistics)."""
        if self.as_counted:
            return self.bound.sums
        return (self.bound.sums - self.bound.counts[:, self.factors] * self.mean) / self.scale

    @cached_property
    def free_sums(self) -> Floats:
        """The same of the free statistics, (n_classes, n_free)."""
        return self.sums[:, self.free_places]

    @cached_property
    def free_totals(self) -> Floats:
        """The same of all classes together."""
        return np.asarray(self.free_sums.sum(axis=0))

    @cached_property
    def free_prior_sums(self) -> Floats:
        """Those of the prior's pseudo-rows over the free statistics."""
        return self.prior_sums[:, self.free_places]

    @cached_property
    def tied_totals(self) -> Floats:
        """Those of all rows over the tied statistics."""
        return np.asarray(self.sums[:, self.tied].sum(axis=0))

    @cached_property
    def tied_prior_totals(self) -> Floats:
        """Those of the prior's pseudo-rows over the tied statistics."""
        return np.asarray(self.prior_sums[:, self.tied].sum(axis=0))

    @cached_property
    def prior_sums(self) -> Floats:
        """The same of the prior's pseudo-rows."""
        counts = self.bound.prior_counts[:, self.factors]
        return (self.bound.prior_sums - counts * self.mean) / self.scale

    @cached_property
    def missing_counts(self) -> Floats:
        """Weight of the rows that lack a factor, shape (n_classes, n_factors)."""
        return self.class_weights[:, None] - self.bound.counts

    @cached_property
    def missing_totals(self) -> Floats:
        """The same of all classes together."""
        return np.asarray(self.missing_counts.sum(axis=0))

    # -- parameter vectors --------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Return the length of a parameter vector."""
        return self.n_classes * (self.n_free + 1) + self.n_tied

    def split(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return views of a parameter vector: W (K, n_free), c (K,), V (n_tied,)."""
        k, p = self.n_classes, self.n_free
        return theta[: k * p].reshape(k, p), theta[k * p : k * p + k], theta[k * p + k :]

    def natural(self, theta: Floats) -> Floats:
        """Return η, shape (n_classes, n_statistics)."""
        weights = self.split(theta)[0]
        if self.as_counted:
            return weights
        if self.n_free == self.tied.size:
            return weights / self.free_scale
        if not self.n_tied:
            eta = np.zeros((self.n_classes, self.tied.size))
            eta[:, self.free] = weights / self.free_scale
            return eta
        eta = theta.take(self.own_places)
        eta /= self.scale
        return eta

    @cached_property
    def own_places(self) -> Integers:
        """Where a parameter vector has each class's weight of each statistic, tied ones too."""
        k, p = self.n_classes, self.n_free
        places = np.empty((k, self.tied.size), dtype=np.int64)
        places[:, self.free] = np.arange(k * p).reshape(k, p)
        places[:, self.tied] = np.arange(k * p + k, self.n_parameters)
        return places

    def at(self, theta: Floats) -> AtTheta:
        """Return the density's terms at θ; a value, its gradient and curvature ask in turn."""
        last: AtTheta | None = self.__dict__.get("_last")
        if last is None or not np.array_equal(last.theta, theta):
            # One assignment: threads that ask for others lose a memory, never an answer.
            last = self.__dict__["_last"] = AtTheta(self, theta)
        return last

    def absent(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return terms of centred missing factors, (K, n_factors), and slopes by statistic."""
        if self.at_mean:
            return np.zeros_like(self.bound.counts), np.zeros((self.n_classes, self.tied.size))
        at = self.at(theta)
        return at.partition, at.slope


def by_factor(values: Floats, factors: Integers, n_factors: int) -> Floats:
    """Sum (n_classes, n_statistics) values within factors, shape (n_classes, n_factors)."""
    k = len(values)
    if k * n_factors == 0:
        return np.zeros((k, n_factors))
    # One call for all classes: of few statistics the calls take longest.
    places = factors + n_factors * np.arange(k)[:, None]
    sums = np.bincount(places.ravel(), values.ravel(), minlength=k * n_factors)
    return np.asarray(sums, dtype=np.float64).reshape(k, n_factors)
