"""Rows, classes and weights as every pass over the data needs them, and posteriors from scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import map_fits
from crossfade.densities.base import reference_rows
from crossfade.optim.newton import sample_rows
from crossfade.rowwise import softmax, two_classes
from crossfade.table.documents import block_of, lent_block, stacked

#: Rows of counts of words that are read at once: what they sum to is as wide as the vocabulary.
WORD_ROWS = 1 << 15

#: Rows that are kept of large tables, and fewest of each class among them.
MOST_ROWS, _FEWEST_OF_A_CLASS = 5_000, 50

Sums = TypeVar("Sums")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class OtherRows:
    """Rows of the same table that have no label.

    `X` (n_rows, n_features); `weights` (n_rows,) or None; `groups` (n_rows,) or None: Rows that
    belong together, numbered with the labelled ones.
    """

    X: Any
    weights: Floats | None
    groups: Integers | None = None

    @property
    def often(self) -> Floats:
        """Return how often each row occurs, shape (n_rows,)."""
        return np.ones(self.X.shape[0]) if self.weights is None else self.weights

    def take(self, index: Integers) -> OtherRows:
        """Return the rows at these positions."""
        weights = None if self.weights is None else self.weights[index]
        return OtherRows(
            self.X[index], weights, None if self.groups is None else self.groups[index]
        )


@dataclass(frozen=True)
class LabelledRows:
    """Rows, their classes and weights, as every pass over the data needs them.

    `X` (n_samples, n_features): NaN marks a missing cell.
    `codes` (n_samples,): Class of each row, 0 … n_classes-1.
    `weights` (n_samples,) or None: Row weights, None for all one.
    `has_missing`: Whether any cell is NaN.
    `is_part`: Whether they are read for one pass only, and are a part of all rows.
    `class_factors` (n_classes,) or None: The part of the weights that is not how often a row
        occurs, but how much its class is to count.
    `unlabelled`: Rows without a label, if any; rows that are taken keep all of these beside them.
    `n_own`: How many columns are the table's, None for all; those behind them are made of these.
    """

    X: Any
    codes: Integers
    weights: Floats | None
    n_classes: int
    has_missing: bool = False
    is_part: bool = False
    class_factors: Floats | None = None
    unlabelled: OtherRows | None = None
    n_own: int | None = None

    @property
    def n_samples(self) -> int:
        """Return the number of rows, whatever their weights."""
        return int(self.X.shape[0])

    @cached_property
    def class_weights(self) -> Floats:
        """Return the summed weight of each class, shape (n_classes,)."""
        return np.bincount(self.codes, self.weights, minlength=self.n_classes).astype(np.float64)

    @property
    def without_factors(self) -> Floats:
        """Return how often each class occurs, whatever it is to count, shape (n_classes,)."""
        factors = self.class_factors
        return self.class_weights if factors is None else self.class_weights / factors

    @property
    def often(self) -> Floats:
        """Return how often each row occurs, whatever its class is to count, shape (n_samples,)."""
        weights, factors = self.weights, self.class_factors
        if weights is None:
            return np.ones(self.n_samples)
        return weights if factors is None else weights / factors[self.codes]

    def sample_by_class(self, share: float, fewest: int) -> list[Integers]:
        """Return an evenly drawn part of each class, in order, of `fewest` rows if it has them."""
        return [
            own[sample_rows(own.size, min(1.0, max(share, fewest / max(own.size, 1))))]
            for own in self._by_class
        ]

    @cached_property
    def _by_class(self) -> list[Integers]:
        """The rows of each class."""
        # Of small integers the sort takes no longer than a look at the rows for two classes.
        codes = self.codes.astype(np.min_scalar_type(self.n_classes))
        sizes = np.bincount(codes, minlength=self.n_classes)
        return np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])

    def block(self, rows: slice | Integers) -> Any:
        """Return one block of rows, its numbers as C-ordered doubles; of a part it may be lent."""
        if isinstance(rows, slice):
            return lent_block(self.X, rows)
        return block_of(self.X, rows)

    def block_as_it_lies(self, rows: slice | Integers) -> Any:
        """Return the same, by columns where these lie so: as products can read it, uncopied."""
        if self.is_part and isinstance(self.X, np.ndarray) and isinstance(rows, slice):
            return self.X[rows].astype(np.float64, copy=False)
        return self.block(rows)

    def block_weights(self, rows: slice | Integers) -> Floats | None:
        """Return one block's weights, None for all one."""
        return None if self.weights is None else self.weights[rows]

    @property
    def spare(self) -> int:
        """Return the products per cell that cost little beside getting at it at each pass."""
        return 1

    @property
    def at_hand(self) -> LabelledRows:
        """Return rows that can be looked at one by one: all of them."""
        return self

    @property
    def everything(self) -> tuple[Any, Floats | None]:
        """Cells and weights of all rows, those without a label last."""
        others = self.unlabelled
        if others is None:
            return self.X, self.weights
        X = stacked(self.X, others.X)
        if self.weights is None and others.weights is None:
            return X, None
        each = [(self.X, self.weights), (others.X, others.weights)]
        return X, np.concatenate([np.ones(x.shape[0]) if w is None else w for x, w in each])

    def recoded(self, X: Any) -> LabelledRows:
        """Return the rows with other cells for :attr:`everything`."""
        n = self.n_samples
        if self.unlabelled is None:
            return replace(self, X=X)
        return replace(self, X=X[:n], unlabelled=replace(self.unlabelled, X=X[n:]))

    def head(self) -> Any:
        """Return a few rows that tell where columns lie, roughly."""
        return reference_rows(self.X)

    def total(self, function: Callable[[LabelledRows], Sums]) -> Sums:
        """Return the sum of a function over all parts of the rows: these here are one part."""
        return function(self)

    def fits(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``function(item)`` for every item, each of which sums over the rows."""
        return map_fits(function, items, self.n_samples)

    def sampled(self, share: float) -> LabelledRows:
        """Return a share of the rows, evenly spread."""
        return self.take(sample_rows(self.n_samples, share))

    def take(self, index: Integers) -> LabelledRows:
        """Return the rows at these positions."""
        return replace(
            self,
            X=self.X[index],
            codes=self.codes[index],
            weights=None if self.weights is None else self.weights[index],
        )


def drawn_by_class(
    rows: LabelledRows, groups: Integers | None, most: int
) -> tuple[LabelledRows, Integers | None]:
    """Return at most so many rows, drawn evenly from each class, with weights that even it out."""
    if rows.n_samples <= most:
        return rows, groups
    kept = rows.sample_by_class(most / rows.n_samples, _FEWEST_OF_A_CLASS)
    sizes = np.bincount(rows.codes, minlength=rows.n_classes)
    each = sizes / np.maximum([own.size for own in kept], 1)
    index = np.sort(np.concatenate(kept))
    some = rows.take(index)
    weights = np.ones(index.size) if some.weights is None else some.weights
    some = replace(some, weights=weights * (each / each.min())[some.codes])
    return some, None if groups is None else np.unique(groups[index], return_inverse=True)[1]


def log_normalise(scores: Floats) -> tuple[Floats, Floats]:
    """Return log Σ_k exp(s_k) by row and the posteriors, written over `scores`.

    Shapes: scores (n_samples, n_classes); log_sum (n_samples,); posterior (n_samples,
    n_classes).
    """
    log_sum = np.empty(scores.shape[0])
    softmax(scores, log_sum, False)
    return log_sum, scores


def normalise_differences(differences: Floats) -> tuple[Floats, Floats]:
    """Like :func:`log_normalise` for scores minus the last class's, which is left out.

    One exponential per row and class less: for two classes half of the work.
    """
    log_sum = np.empty(differences.shape[0])
    if differences.shape[1] == 1:
        two_classes(differences.ravel(), log_sum)
    else:
        softmax(differences, log_sum, True)
    return log_sum, differences
