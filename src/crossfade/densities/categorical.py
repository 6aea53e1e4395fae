"""Columns of codes 0 … L-1, in no order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import counted
from crossfade._typing import Floats, Integers
from crossfade.densities.base import Bound, Density, Term, refuse
from crossfade.densities.bernoulli import check_alpha
from crossfade.densities.univariate import safe_mean
from crossfade.errors import DataError

#: Estimated probabilities are at least this, so that their logarithms are finite.
_EDGE = 1e-15

#: Tables of class by level with more cells than this are summed as lists of the cells that occur.
_DENSE_CELLS = 65_536


@dataclass(frozen=True)
class Tally:
    """A large, mostly empty table of sums: flat positions and what to add there."""

    shape: tuple[int, int]
    positions: tuple[Integers, ...]
    amounts: tuple[Floats, ...]

    def __add__(self, other: Tally) -> Tally:
        merged = Tally(self.shape, self.positions + other.positions, self.amounts + other.amounts)
        # Merging only when the tail has outgrown the merged head keeps the whole work linear.
        head, total = merged.positions[0].size, sum(p.size for p in merged.positions)
        return merged.compact() if total > 2 * head + _DENSE_CELLS else merged

    def compact(self) -> Tally:
        """Return the same sums with each position once."""
        positions, where = np.unique(np.concatenate(self.positions), return_inverse=True)
        amounts = _summed(where, np.concatenate(self.amounts), positions.size)
        return Tally(self.shape, (positions,), (amounts,))

    def table(self) -> Floats:
        """Return the sums as a dense table."""
        positions, amounts = np.concatenate(self.positions), np.concatenate(self.amounts)
        return _summed(positions, amounts, self.shape[0] * self.shape[1]).reshape(self.shape)


def _summed(positions: Integers, amounts: Floats, size: int) -> Floats:
    """Return the sums of amounts by position, floats also where there is nothing to sum."""
    return np.bincount(positions, amounts, size).astype(np.float64, copy=False)


#: Most indicator columns that are formed block by block.
_DENSE_STATISTICS = 1_000


class Categorical(Density):
    """Independent columns of codes, each with its own number of levels.

    A column of L levels has L - 1 statistics: the indicators of all levels but its base, in the
    order of the codes; their natural parameters are the log odds against the base. The base is
    the column's most frequent level, so that no result depends on how levels are numbered, the
    penalty at tradeoff 0 included. (It can only be known after a pass over the data: until bound,
    it is the last level.) A column of one level has none and is harmless. Rows are looked up, never
    one-hot encoded, so that a column may have a million levels; only :meth:`hessian` and
    :meth:`sufficient_statistics` are dense.

    With ``alpha=0`` a level never seen in a class has probability 1e-15 there, not 0.

    Parameters
    ----------
    levels : sequence of int
        Number of levels of each column, at least 1.
    alpha : float, default=1.0
        Pseudo-count of each level in each class (Laplace's smoothing).

    Raises
    ------
    DataError
        If a number of levels is not a positive whole number, or `alpha` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Categorical
    >>> X, y = np.array([[0.0], [1.0], [2.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> begun = Categorical([3]).begin(X)
    >>> bound = begun.bind(begun.summary(X, y, None, 2))
    >>> eta = bound.density.estimate(
    ...     bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    ... )
    >>> bound.density.level_probabilities(eta)  # (1 + counts) / (2 + 3)
    array([[0.4, 0.4, 0.2],
           [0.2, 0.2, 0.6]])
    """

    _offsets: Integers
    _columns: Integers
    _base: Integers
    _kept: Integers

    kind: ClassVar[str] = "categorical"

    def __init__(self, levels: Sequence[int], alpha: float = 1.0):
        check_alpha(alpha)
        if any(int(n) != n or n < 1 for n in levels):
            raise DataError(
                f"levels: expected whole numbers of at least 1, got {list(levels)!r}; "
                "give each column's number of levels (1 for a column without any)"
            )
        self.levels = tuple(int(n) for n in levels)
        self.alpha = alpha

    def sums_alike(self, other: Density) -> bool:
        return isinstance(other, Categorical) and vars(self) == vars(other)

    @property
    def n_levels(self) -> int:
        """Number of levels of all columns together."""
        return sum(self.levels)

    # -- from data to a bound density ------------------------------------------------------------

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        d = head.shape[1]
        if d != len(self.levels):
            raise DataError(
                f"levels: expected one number for each of {counted(d, 'column')}, got "
                f"{len(self.levels)}; give each column's number of levels"
            )
        new = copy.copy(self)
        levels = np.asarray(self.levels, dtype=np.int64)
        new.n_features, new.n_factors = d, d
        new.feature_factors = np.arange(d)
        new._offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(levels)])[:d]
        new._columns = np.repeat(np.arange(d), levels)
        return new._with_base(new._offsets + levels - 1)

    def _with_base(self, base: Integers) -> Self:
        """Return a copy whose columns have these levels (table positions) as base."""
        new = copy.copy(self)
        kept = np.ones(self.n_levels, dtype=bool)
        kept[base] = False
        new._base, new._kept = base, np.flatnonzero(kept)
        new.n_statistics = new._kept.size
        new.factors = self._columns[new._kept]
        new.tied = np.zeros(new.n_statistics, dtype=bool)
        return new

    @property
    def idle(self) -> NDArray[np.bool_]:
        return np.asarray(self.levels) == 1

    @property
    def forms_statistics(self) -> bool:
        return self.n_statistics <= _DENSE_STATISTICS

    def check(self, X: Floats) -> None:
        # NaN compares false throughout.
        wrong = (X < 0) | (np.asarray(self.levels) <= X) | (np.floor(X) != X) & ~np.isnan(X)
        refuse(
            X,
            wrong,
            expected="codes 0 … levels - 1",
            remedy="make cells of unknown levels missing, or widen the density first",
        )

    def _positions(self, X: Floats) -> Integers:
        """Return where each cell's level stands in the table; n_levels where it is missing."""
        missing = np.isnan(X)
        if not missing.any():
            return X.astype(np.int64) + self._offsets
        found: Integers = np.where(missing, 0.0, X).astype(np.int64) + self._offsets
        found[missing] = self.n_levels
        return found

    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        self.check(X)
        present = ~np.isnan(X)
        positions = (self._positions(X) + codes[:, None] * self.n_levels)[present]
        amounts = np.ones(positions.size)
        if weights is not None:
            amounts = np.broadcast_to(weights[:, None], X.shape)[present]
        tally = Tally((n_classes, self.n_levels), (positions,), (amounts,))
        return (tally.compact() if n_classes * self.n_levels > _DENSE_CELLS else tally.table(),)

    def bind(self, summary: Any) -> Bound:
        (table,) = summary
        if isinstance(table, Tally):
            table = table.table()
        overall = table.sum(axis=0)
        base = np.array(
            [
                o + int(overall[o : o + n].argmax())
                for o, n in zip(self._offsets, self.levels, strict=True)
            ],
            dtype=np.int64,
        )
        new = self._with_base(base)
        counts = self._by_factor(table)
        mean = safe_mean(overall, counts.sum(axis=0)[self._columns])[new._kept]
        spread = np.sqrt(mean * (1.0 - mean))
        pseudo = np.full_like(counts, self.alpha)
        return Bound(
            density=new,
            counts=counts,
            sums=table[:, new._kept],
            prior_counts=pseudo * np.asarray(self.levels),
            prior_sums=pseudo[:, new.factors],
            statistic_mean=mean,
            statistic_scale=np.where(spread > 0, spread, 1.0),
        )

    def widen(self, summary: Any, levels: Sequence[int]) -> tuple[Self, Any]:
        """Return the density and a summary for more levels, new codes following the old ones.

        Parameters
        ----------
        summary : tuple
            What :meth:`summary` returned for the present levels.
        levels : sequence of int
            The new numbers of levels, none less than now.

        Returns
        -------
        density : Categorical
            Begun, with the new levels.
        summary : tuple
            The same sums, to which the new density's summaries may be added.
        """
        if len(levels) != len(self.levels) or any(map(int.__lt__, map(int, levels), self.levels)):
            raise DataError(
                f"levels: expected {len(self.levels)} numbers no less than {self.levels!r}, "
                f"got {tuple(levels)!r}; levels are only ever added"
            )
        new = copy.copy(self)
        new.levels = tuple(int(n) for n in levels)
        new = new.begin(np.zeros((1, self.n_features)))
        moved = (
            new._offsets[self._columns] + np.arange(self.n_levels) - self._offsets[self._columns]
        )
        (table,) = summary
        if isinstance(table, Tally):
            flat = table.compact()
            rows, cells = np.divmod(flat.positions[0], self.n_levels)
            shape = (table.shape[0], new.n_levels)
            return new, (Tally(shape, (rows * new.n_levels + moved[cells],), flat.amounts),)
        wide = np.zeros((table.shape[0], new.n_levels))
        wide[:, moved] = table
        if wide.size > _DENSE_CELLS:
            occupied = np.flatnonzero(wide)
            return new, (Tally(wide.shape, (occupied,), (wide.ravel()[occupied],)),)
        return new, (wide,)

    # -- tables: every level, the bases included, shape (n_classes, n_levels) --------------------

    def _table(self, flat: Floats) -> Floats:
        """Return values of statistics as a table with zero at the bases."""
        table = np.zeros((*flat.shape[:-1], self._columns.size))
        table[..., self._kept] = flat
        return table

    def _by_factor(self, table: Floats) -> Floats:
        """Sum a table over the levels of each column."""
        return np.add.reduceat(table, self._offsets, axis=-1)

    def _softmax(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return log A by column, and the table of probabilities."""
        table = self._table(eta)
        largest = np.maximum.reduceat(table, self._offsets, axis=-1)
        with np.errstate(invalid="ignore"):
            table -= largest[..., self._columns]
        np.exp(table, out=table)
        totals = self._by_factor(table)
        table /= totals[..., self._columns]
        return largest + np.log(totals), table

    def level_probabilities(self, eta: Floats) -> Floats:
        """Return P(level | class) for all levels of all columns, shape (n_classes, n_levels)."""
        return self._softmax(eta)[1]

    # -- the exponential family ------------------------------------------------------------------

    def sufficient_statistics(self, X: Floats) -> Floats:
        onehot = np.zeros((X.shape[0], self.n_levels + 1))
        np.put_along_axis(onehot, self._positions(X), 1.0, axis=1)
        return onehot[:, self._kept]

    @property
    def indicators(self) -> NDArray[np.bool_]:
        return np.ones(self.n_statistics, dtype=bool)

    def indicated(self, X: Floats) -> Integers:
        places = np.full(self.n_levels + 1, self.n_statistics)
        places[self._kept] = np.arange(self.n_statistics)
        found: Integers = places[self._positions(X)]
        return found

    def log_base_measure(self, X: Floats) -> Floats:
        return np.zeros(X.shape)

    def log_partition(self, eta: Floats) -> Floats:
        partition = self._softmax(eta)[0]
        return np.where(np.isnan(partition), np.inf, partition)

    def mean(self, eta: Floats) -> Floats:
        return self._softmax(eta)[1].take(self._kept, axis=-1)

    def hessian(self, eta: Floats) -> Floats:
        p = self.mean(eta)
        dense = np.zeros((len(p), self.n_statistics, self.n_statistics))
        edges = np.searchsorted(self.factors, np.arange(self.n_factors + 1))
        for first, last in pairwise(edges):
            own = p[:, first:last]
            dense[:, first:last, first:last] = -own[:, :, None] * own[:, None, :]
        np.einsum("kpp->kp", dense)[:] += p
        return dense

    def some_hessian(self, eta: Floats, index: Integers) -> Floats:
        p, factors = self.mean(eta)[:, index], self.factors[index]
        dense = -p[:, :, None] * p[:, None, :]
        dense *= factors[:, None] == factors
        np.einsum("kpp->kp", dense)[:] += p
        return dense

    def hessian_diagonal(self, eta: Floats) -> Floats:
        p = self.mean(eta)
        return p - p**2

    def square_sums(self, X: Floats, weights: Floats) -> Floats:
        return self.weighted_sums(X, weights)  # of 0 and 1

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        p = self.mean(eta)
        product = p * direction
        return product - p * self._by_factor(self._table(product))[:, self.factors]

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        # (diag(p) - p pᵀ)⁻¹ = diag(1/p) + 1 1ᵀ / p_base, the base's probability being the rest.
        table = np.maximum(self._softmax(eta)[1], 1e-100)  # lost to rounding: finite all the same
        base = table[:, self._base]
        total = self._by_factor(self._table(vector))
        return vector / table[:, self._kept] + (total / base)[:, self.factors]

    def natural(self, mean: Floats) -> Floats:
        base = 1.0 - self._by_factor(self._table(mean))
        return np.log(np.maximum(mean, _EDGE)) - np.log(np.maximum(base, _EDGE))[..., self.factors]

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        seen = counts[:, self.factors]
        total = seen.sum(axis=0)
        default = 1.0 / np.asarray(self.levels)[self.factors]
        pooled = np.where(total > 0, safe_mean(sums.sum(axis=0), total), default)
        return self.natural(np.where(seen > 0, safe_mean(sums, seen), pooled))

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        probabilities = self.level_probabilities(eta)
        drawn = np.empty((size, self.n_features))
        for column, (start, number) in enumerate(zip(self._offsets, self.levels, strict=True)):
            cumulative = np.cumsum(probabilities[start : start + number])
            cumulative /= cumulative[-1]
            drawn[:, column] = np.searchsorted(cumulative, rng.random(size), side="right")
        return drawn

    # -- where rows meet parameters --------------------------------------------------------------

    def terms(self, names: Sequence[str], levels: Sequence[Any]) -> list[Term]:
        known = [
            one if one is not None and len(one) == n else range(n)
            for one, n in zip(levels, self.levels, strict=True)
        ]
        every = [
            Term(f"{names[j]} = {level}", (j,)) for j, own in enumerate(known) for level in own
        ]
        return [every[place] for place in self._kept]

    def by_level(self, eta: Floats) -> Floats:
        """Return η by level, (n_levels + 1, n_classes); the last row, for missing cells, is 0."""
        table = np.zeros((self.n_levels + 1, eta.shape[0]))
        table[self._kept] = eta.T
        return table

    def scores_by_column(self, X: Floats, eta: Floats) -> Floats:
        return self.by_level(eta)[self._positions(X)]

    def scores(self, X: Floats, eta: Floats) -> Floats:
        table = self.by_level(eta)
        values = np.zeros((X.shape[0], eta.shape[0]))
        for found in self._positions(X).T:
            values += table[found]
        return values

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        positions = self._positions(X)
        table = np.zeros((weights.shape[1], self.n_levels))
        for found in positions.T:
            for k in range(weights.shape[1]):
                table[k] += _summed(found, weights[:, k], self.n_levels + 1)[:-1]
        return table[:, self._kept]
