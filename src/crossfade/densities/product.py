"""Different densities for different columns, independent given the class."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Bound, Density, Term
from crossfade.densities.categorical import Categorical
from crossfade.errors import DataError, DomainError
from crossfade.table.columnwise import ColumnArrays
from crossfade.table.documents import MixedRows


def _joined(name: str, join: Callable[[Any], Any] = np.concatenate) -> Any:
    """Return a property: what the parts have under this name, joined."""
    return property(lambda product: join([getattr(part, name) for part, _ in product.parts]))


class Product(Density):
    """A product of densities, each over its own columns: f(x) = ∏ f_part(x[columns of part]).

    Statistics and factors are those of the parts, one part after the other.

    Parameters
    ----------
    parts : sequence of (Density, sequence of int)
        Each density with the numbers of its columns, in the order it sees them. Every column
        belongs to exactly one part.

    Raises
    ------
    DataError
        If a column belongs to two parts; in :meth:`begin`, if one belongs to none.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Bernoulli, Gaussian, Product
    >>> X = np.array([[0.0, 1.5], [1.0, 2.5], [1.0, 0.5]])
    >>> density = Product([(Gaussian(), [1]), (Bernoulli(), [0])]).begin(X)
    >>> bound = density.bind(density.summary(X, np.array([0, 1, 1]), None, 2))
    >>> bound.sums[:, 2]  # ones in column 0, by class
    array([0., 2.])
    """

    _statistics: list[slice]
    _factors: list[slice]

    filled, marginalises = _joined("filled", any), _joined("marginalises", any)
    sums_columns, reads_words = _joined("sums_columns", any), _joined("reads_words", any)
    forms_statistics = _joined("forms_statistics", all)
    n_spread, n_linear = _joined("n_spread", sum), _joined("n_linear", sum)
    filling, idle, varies = _joined("filling"), _joined("idle"), _joined("varies")
    indicators, word_factors = _joined("indicators"), _joined("word_factors")
    penalty_profile = _joined("penalty_profile")

    def __init__(self, parts: Sequence[tuple[Density, Sequence[int]]]):
        self.parts = tuple((density, np.asarray(columns, np.int64)) for density, columns in parts)
        if not self.parts:
            raise DataError("parts: expected at least one density with its columns, got []")
        self._all_columns = np.concatenate([columns for _, columns in self.parts])
        if np.unique(self._all_columns).size != self._all_columns.size:
            raise DataError(
                f"parts: expected each column in one part, got {self._all_columns.tolist()!r}; "
                "leave each column to one density"
            )
        self.allows_missing = all(density.allows_missing for density, _ in self.parts)
        self.fills_missing = any(density.fills_missing for density, _ in self.parts)

    def _columns_of(self, X: Any, columns: Integers) -> Any:
        """Return a part's columns, X itself where they are all of them in order."""
        if isinstance(X, MixedRows):
            if int(columns[0]) in X.words:
                return X.words[int(columns[0])]
            return np.take(X.numbers, columns, axis=1)
        if columns.size == X.shape[1] and (columns[:-1] < columns[1:]).all():
            return X
        return X.at(columns) if isinstance(X, ColumnArrays) else np.take(X, columns, axis=1)

    def _composed(self, parts: Sequence[Density]) -> Self:
        """Return a copy with these densities as parts, begun or bound."""
        new = copy.copy(self)
        new.parts = tuple(
            (part, columns) for part, (_, columns) in zip(parts, self.parts, strict=True)
        )
        new.n_features = self._all_columns.size
        new._statistics = _consecutive([part.n_statistics for part in parts])
        new._factors = _consecutive([part.n_factors for part in parts])
        new.n_statistics = new._statistics[-1].stop
        new.n_factors = new._factors[-1].stop
        new.tied = np.concatenate([part.tied for part in parts])
        new.factors = np.concatenate(
            [p.factors + s.start for p, s in zip(parts, new._factors, strict=True)]
        )
        new.feature_factors = np.empty(new.n_features, np.int64)
        for (part, columns), factors in zip(new.parts, new._factors, strict=True):
            new.feature_factors[columns] = part.feature_factors + factors.start
        return new

    # -- from data to a bound density ------------------------------------------------------------

    @property
    def unfilled(self) -> Self:
        return self._composed([part.unfilled for part, _ in self.parts])

    @property
    def fills_statistics(self) -> NDArray[np.bool_]:
        found = np.zeros(self.n_features, dtype=bool)
        for part, columns in self.parts:
            found[columns] = part.fills_statistics
        return found

    def _by_part(self, filling: Floats) -> list[Floats]:
        """Return each part's share of what cells are filled by."""
        sizes = _consecutive([part.filling.size for part, _ in self.parts])
        return [filling[own] for own in sizes]

    def filled_cells(self, X: Floats, filling: Floats) -> Floats:
        found = X.copy()
        for (part, columns), own in zip(self.parts, self._by_part(filling), strict=True):
            found[:, columns] = part.filled_cells(X[:, columns], own)
        return found

    def filling_influence(self, X: Floats, weights: Floats) -> Floats:
        return np.hstack(
            [p.filling_influence(self._columns_of(X, c), weights) for p, c in self.parts]
        )

    def informed(self, X: Floats, weights: Floats | None) -> Self:
        if not self.fills_missing and not any(part.reads_words for part, _ in self.parts):
            return self
        new = copy.copy(self)
        new.parts = tuple(
            (part.informed(self._columns_of(X, c), weights), c) for part, c in self.parts
        )
        return new

    def only_counts(self, X: Any) -> Any | None:
        part, columns = self.parts[0]
        return part.only_counts(self._columns_of(X, columns)) if len(self.parts) == 1 else None

    def for_words_of(self, X: Any, others: Any | None) -> Self:
        if not self.reads_words:
            return self
        new = copy.copy(self)
        new.parts = tuple(
            (
                part.for_words_of(
                    self._columns_of(X, c), None if others is None else self._columns_of(others, c)
                )
                if part.reads_words
                else part,
                c,
            )
            for part, c in self.parts
        )
        return new

    def compact(self, X: Any) -> tuple[Self, Any]:
        if not self.reads_words:
            return self, X
        new, words = copy.copy(self), dict(X.words)
        parts = []
        for part, columns in self.parts:
            if part.reads_words:
                part, words[int(columns[0])] = part.compact(self._columns_of(X, columns))
            parts.append((part, columns))
        new.parts = tuple(parts)
        return new, X.with_words(words)

    def spread(self, eta: Floats) -> tuple[Density, Floats]:
        found = [part.spread(own) for part, _, own in self.shared_out(eta)]
        if all(part is own for (part, _), (own, _) in zip(found, self.parts, strict=True)):
            return self, eta
        return self._composed([part for part, _ in found]), _side_by_side([one for _, one in found])

    def gathered(self, eta: Floats) -> Floats:
        found, start = [], 0
        for part, _ in self.parts:
            width = part.n_spread
            found.append(part.gathered(eta[:, start : start + width]))
            start += width
        return np.hstack(found)

    def spread_factors(self, values: Floats) -> Floats:
        factors = zip(self.parts, self._factors, strict=True)
        return np.hstack([part.spread_factors(values[:, f]) for (part, _), f in factors])

    def sums_alike(self, other: Density) -> bool:
        return (
            isinstance(other, Product)
            and len(self.parts) == len(other.parts)
            and all(
                np.array_equal(mine, its) and part.sums_alike(own)
                for (part, mine), (own, its) in zip(self.parts, other.parts, strict=True)
            )
        )

    def with_prior_of(self, other: Density) -> Density:
        assert isinstance(other, Product)
        pairs = zip(self.parts, other.parts, strict=True)
        return self._composed([part.with_prior_of(own) for (part, _), (own, _) in pairs])

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        if set(self._all_columns.tolist()) != set(range(head.shape[1])):
            raise DataError(
                f"parts: expected columns 0 to {head.shape[1] - 1}, each once, "
                f"got {sorted(self._all_columns.tolist())!r}; give every column a density"
            )
        return self._composed(
            [part.begin(self._columns_of(head, c), scales=scales) for part, c in self.parts]
        )

    def check(self, X: Floats) -> None:
        for part, columns in self.parts:
            with _numbered(columns):
                part.check(self._columns_of(X, columns))

    def summary(self, X: Floats, codes: Integers, weights: Floats | None, n_classes: int) -> Any:
        sums = []
        for part, columns in self.parts:
            own = self._columns_of(X, columns)
            if isinstance(own, ColumnArrays) and not part.sums_columns:
                own = np.asarray(own)
            with _numbered(columns):
                sums.append(part.summary(own, codes, weights, n_classes))
        return tuple(sums)

    def bind(self, summary: Any) -> Bound:
        bounds = [part.bind(sums) for (part, _), sums in zip(self.parts, summary, strict=True)]
        return Bound(
            density=self._composed([bound.density for bound in bounds]),
            counts=np.hstack([bound.counts for bound in bounds]),
            sums=_side_by_side([bound.sums for bound in bounds]),
            prior_counts=np.hstack([bound.prior_counts for bound in bounds]),
            prior_sums=_side_by_side([bound.prior_sums for bound in bounds]),
            statistic_mean=np.concatenate([bound.statistic_mean for bound in bounds]),
            statistic_scale=np.concatenate([bound.statistic_scale for bound in bounds]),
        )

    def widen(self, summary: Any, levels: Mapping[int, int]) -> tuple[Self, Any]:
        """Return the density and a summary with more levels in some categorical columns.

        Parameters
        ----------
        summary : tuple
            What :meth:`summary` returned for the present levels.
        levels : mapping of int to int
            Column number to new number of levels; other columns stay as they are.

        Returns
        -------
        density : Product
            Begun.
        summary : tuple
        """
        densities, sums = [], []
        for (part, columns), part_sums in zip(self.parts, summary, strict=True):
            if isinstance(part, Categorical):
                wanted = [levels.get(int(c), n) for c, n in zip(columns, part.levels, strict=True)]
                part, part_sums = part.widen(part_sums, wanted)
            densities.append(part)
            sums.append(part_sums)
        return self._composed(densities), tuple(sums)

    # -- the exponential family, part by part ----------------------------------------------------

    def _over_parts(self, function: Callable[[Density, slice, slice], Floats]) -> Floats:
        """Put side by side what `function(part, its statistics, its factors)` returns."""
        places = zip(self.parts, self._statistics, self._factors, strict=True)
        return _side_by_side([function(part, s, f) for (part, _), s, f in places])

    def _seen(self, X: Any) -> Iterator[tuple[Density, Any, slice, slice]]:
        """Yield each part, its columns of these rows, its statistics and its factors."""
        for (part, columns), s, f in zip(self.parts, self._statistics, self._factors, strict=True):
            yield part, self._columns_of(X, columns), s, f

    def shared_out(self, eta: Floats) -> Iterator[tuple[Density, Integers, Floats]]:
        """Yield each part, its columns, and its own of parameters of shape (..., n_statistics)."""
        for (part, columns), s in zip(self.parts, self._statistics, strict=True):
            yield part, columns, eta[..., s]

    def sufficient_statistics(self, X: Floats) -> Floats:
        return np.hstack([part.sufficient_statistics(own) for part, own, *_ in self._seen(X)])

    def conditional_statistics(self, X: Floats, eta: Floats) -> Floats:
        return _side_by_side(
            [part.conditional_statistics(own, eta[:, s]) for part, own, s, _ in self._seen(X)]
        )

    def conditional(self, X: Floats, eta: Floats) -> Any:
        seen = self._seen(X)
        return [(part, part.conditional(own, eta[:, s]), s, f) for part, own, s, f in seen]

    def conditional_scores(self, given: Any, eta: Floats, partition: Floats) -> Floats:
        return _added(p.conditional_scores(o, eta[:, s], partition[:, f]) for p, o, s, f in given)

    def conditional_sums(self, given: Any, weights: Floats) -> Floats:
        return _side_by_side([part.conditional_sums(own, weights) for part, own, *_ in given])

    def conditional_spread(self, X: Floats, weights: Floats, eta: Floats) -> Floats | None:
        dense = np.zeros((len(eta), self.n_statistics, self.n_statistics))
        found = [(p.conditional_spread(o, weights, eta[:, s]), s) for p, o, s, _ in self._seen(X)]
        for own, s in found:
            dense[:, s, s] = 0.0 if own is None else own
        return None if all(own is None for own, _ in found) else dense

    def left_over(self, X: Floats, filling: Floats) -> Floats | None:
        seen = zip(self._seen(X), self._by_part(filling), strict=True)
        found = [(part.left_over(own, numbers), s) for (part, own, s, _), numbers in seen]
        return _placed(found, np.zeros((X.shape[0], self.n_statistics)))

    def log_base_measure(self, X: Floats) -> Floats:
        return np.hstack([part.log_base_measure(own) for part, own, *_ in self._seen(X)])

    def log_partition(self, eta: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.log_partition(eta[..., s]))

    def mean(self, eta: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.mean(eta[..., s]))

    def hessian(self, eta: Floats) -> Floats:
        dense = np.zeros((eta.shape[0], self.n_statistics, self.n_statistics))
        for (part, _), s in zip(self.parts, self._statistics, strict=True):
            dense[:, s, s] = part.hessian(eta[:, s])
        return dense

    def some_hessian(self, eta: Floats, index: Integers) -> Floats:
        dense = np.zeros((len(eta), index.size, index.size))
        for (part, _), s in zip(self.parts, self._statistics, strict=True):
            own = np.flatnonzero((index >= s.start) & (index < s.stop))
            if own.size:
                found = part.some_hessian(eta[:, s], index[own] - s.start)
                first, end = int(own[0]), int(own[-1]) + 1
                if end - first == own.size:
                    dense[:, first:end, first:end] = found
                else:
                    dense[:, own[:, None], own] = found
        return dense

    def hessian_product(self, eta: Floats, direction: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.hessian_product(eta[:, s], direction[:, s]))

    def inverse_hessian_product(self, eta: Floats, vector: Floats) -> Floats:
        return self._over_parts(
            lambda part, s, f: part.inverse_hessian_product(eta[:, s], vector[:, s])
        )

    def natural(self, mean: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.natural(mean[..., s]))

    def estimate(self, counts: Floats, sums: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.estimate(counts[:, f], sums[:, s]))

    def smoothed(self, bound: Bound) -> tuple[Floats, Floats]:
        alone = len(self.parts) == 1
        return self.parts[0][0].smoothed(bound) if alone else super().smoothed(bound)

    def sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        drawn = np.empty((size, self.n_features))
        for part, columns, own in self.shared_out(eta):
            drawn[:, columns] = part.sample(own, size, rng)
        return drawn

    # -- the linear view, in the columns' own units ----------------------------------------------

    def indicated(self, X: Any) -> Integers:
        found = []
        for part, own, s, _ in self._seen(X):
            places = part.indicated(own)
            found.append(np.where(places < part.n_statistics, places + s.start, self.n_statistics))
        return np.hstack(found)

    def some_statistics(self, X: Any, index: Integers) -> Floats:
        found = np.empty((X.shape[0], index.size))
        for (part, columns), s in zip(self.parts, self._statistics, strict=True):
            here = (index >= s.start) & (index < s.stop)
            if here.any():
                own = self._columns_of(X, columns)
                found[:, here] = part.some_statistics(own, index[here] - s.start)
        return found

    def square_sums(self, X: Any, weights: Floats) -> Floats:
        return np.hstack([part.square_sums(own, weights) for part, own, *_ in self._seen(X)])

    def hessian_diagonal(self, eta: Floats) -> Floats:
        return self._over_parts(lambda part, s, f: part.hessian_diagonal(eta[:, s]))

    def normalised(self, eta: Floats) -> tuple[Floats, Floats]:
        if not self.per_word:
            return super().normalised(eta)
        found = [part.normalised(own) for part, _, own in self.shared_out(eta)]
        return np.hstack([one for one, _ in found]), np.sum([shift for _, shift in found], axis=0)

    @property
    def linear_in_columns(self) -> bool:
        in_order = bool((np.diff(self._all_columns) == 1).all())
        return in_order and all(part.linear_in_columns for part, _ in self.parts)

    def free_statistics(self, X: Floats) -> Floats:
        return _side_by_side([part.free_statistics(own) for part, own, *_ in self._seen(X)])

    def column_units_statistics(self, X: Floats) -> Floats:
        return np.hstack([part.column_units_statistics(own) for part, own, *_ in self._seen(X)])

    def prior_of_sums(self, counts: Floats, sums: Floats) -> tuple[Floats, Floats] | None:
        all_counts, all_sums, any_prior = np.zeros_like(counts), np.zeros_like(sums), False
        for (part, _), s, f in zip(self.parts, self._statistics, self._factors, strict=True):
            prior = part.prior_of_sums(counts[:, f], sums[:, s])
            if prior is not None:
                all_counts[:, f], all_sums[:, s] = prior
                any_prior = True
        return (all_counts, all_sums) if any_prior else None

    def terms(self, names: Sequence[str], levels: Sequence[Any]) -> list[Term]:
        return [
            Term(term.name, tuple(columns[list(term.columns)].tolist()))
            for part, columns in self.parts
            for term in part.terms([names[j] for j in columns], [levels[j] for j in columns])
        ]

    def column_units_coefficients(self, eta: Floats) -> tuple[Floats, Floats]:
        free = _consecutive([int((~part.tied).sum()) for part, _ in self.parts])
        pieces = [
            part.column_units_coefficients(eta[:, s])
            for (part, _), s in zip(self.parts, free, strict=True)
        ]
        return np.hstack([p for p, _ in pieces]), np.sum([c for _, c in pieces], axis=0)

    # -- where rows meet parameters --------------------------------------------------------------

    def missing_factors(self, X: Floats) -> NDArray[np.bool_] | None:
        if not self.fills_missing:
            return super().missing_factors(X)
        found = [(part.missing_factors(own), f) for part, own, _, f in self._seen(X)]
        return _placed(found, np.zeros((X.shape[0], self.n_factors), dtype=bool))

    def left_out(self, X: Floats) -> Floats | None:
        found = super().left_out(X)
        if not self.per_word:
            return found
        found = np.zeros((X.shape[0], self.n_factors)) if found is None else found
        for (part, columns), factors in zip(self.parts, self._factors, strict=True):
            if part.per_word:
                found[:, factors] = part.left_out(self._columns_of(X, columns))
        return found

    def scores(self, X: Floats, eta: Floats) -> Floats:
        return _added(part.scores(own, eta[:, s]) for part, own, s, _ in self._seen(X))

    def relative_log_density(
        self, X: Floats, eta: Floats, partition: Floats | None = None
    ) -> Floats:
        known = self.log_partition(eta) if partition is None else partition
        return _added(
            part.relative_log_density(own, eta[:, s], known[:, f])
            for part, own, s, f in self._seen(X)
        )

    def amounts(self, X: Floats) -> Floats:
        return np.hstack([part.amounts(own) for part, own, *_ in self._seen(X)])

    def surprise(self, X: Floats, eta: Floats) -> Floats:
        return np.concatenate(
            [part.surprise(own, eta[:, s]) for part, own, s, _ in self._seen(X)], axis=1
        )

    def scores_by_column(self, X: Floats, eta: Floats) -> Floats:
        shares = np.empty((*X.shape, eta.shape[0]))
        for part, columns, own in self.shared_out(eta):
            shares[:, columns] = part.scores_by_column(self._columns_of(X, columns), own)
        return shares

    def weighted_sums(self, X: Floats, weights: Floats) -> Floats:
        return _side_by_side([part.weighted_sums(own, weights) for part, own, *_ in self._seen(X)])


def _side_by_side(found: Sequence[Floats]) -> Floats:
    """Join along the last axis; what is alone, and may be as wide as words are, is not copied."""
    return found[0] if len(found) == 1 else np.concatenate(found, axis=-1)


def _added(found: Iterator[Floats]) -> Floats:
    """Add up fresh arrays."""
    values = next(found)
    for one in found:
        values += one
    return values


def _placed(found: Sequence[tuple[Any, slice]], whole: Any) -> Any:
    """Write columns in their places of `whole`; None if there are none at all."""
    for one, place in found:
        if one is not None:
            whole[:, place] = one
    return None if all(one is None for one, _ in found) else whole


def _consecutive(lengths: Sequence[int]) -> list[slice]:
    """Return slices of these lengths, one after the other."""
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


@contextmanager
def _numbered(columns: Integers) -> Iterator[None]:
    """Raise a part's errors with the columns' numbers in the product."""
    try:
        yield
    except DomainError as error:
        raise error.renamed(columns.tolist()) from None
