"""From a density and labelled rows to the sums every fit starts from: one pass over the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import BLOCK_ROWS, MANY_ROWS, block_sum
from crossfade.densities.base import Bound, Density
from crossfade.errors import DomainError
from crossfade.table.columnwise import ColumnArrays
from crossfade.table.documents import MixedRows
from crossfade.table.read import has_missing_cells
from crossfade.tradeoff.labelled_rows import WORD_ROWS, LabelledRows

#: What stands for λ = 0 where cells are missing.
SMALLEST_WITH_MISSING = 1e-4

#: Doubles in a block: enough rows of each class for their products to be fast.
_BLOCK_DOUBLES = 400_000


def summarise(
    density: Density, rows: LabelledRows, *, started: Density | None = None, scales: bool = True
) -> tuple[Density, Any]:
    """Sum the rows by class in one pass."""
    if started is not None:
        return started, _sums(started, rows)
    if not density.fills_missing:
        begun = density.informed(rows.X, rows.weights).begin(rows.head(), scales=scales)
        return begun, _sums(begun, rows)
    some, head = rows.at_hand, rows.head()
    everything = some.everything
    many = everything[0] is rows.X and rows.n_samples >= MANY_ROWS
    if many and not has_missing_cells(head):
        # A look at every cell first is one more read of memory, and the sums tell as well.
        try:
            begun = density.begin(head, scales=scales)
            return begun, _sums(begun, rows)
        except DomainError:
            if not has_missing_cells(rows.X):
                raise
    begun = density.informed(*everything).begin(head, scales=scales)
    return begun, _sums(begun, rows)


class RowSums:
    """Sums over rows, taken once for all densities that differ in their prior alone."""

    def __init__(self) -> None:
        self._known: tuple[LabelledRows | None, list[tuple[Density, Density, Any]]] = None, []

    def summarise(self, density: Density, rows: LabelledRows) -> tuple[Density, Any]:
        """Return what :func:`summarise` does."""
        known = self._known
        if known[0] is not rows:
            known = self._known = rows, []
        for given, started, summary in known[1]:
            if given.sums_alike(density):
                return started.with_prior_of(density), summary
        started, summary = summarise(density, rows)
        if not density.reads_words:  # whose sums are wide
            known[1].append((density, started, summary))
        return started, summary


def _sums(begun: Density, rows: LabelledRows) -> Any:
    block_rows = int(np.clip(_BLOCK_DOUBLES // max(rows.X.shape[1], 1), BLOCK_ROWS, 8 * BLOCK_ROWS))
    if begun.reads_words:
        # What a block sums to is as wide as the words: one block, unless there are numbers, too.
        block_rows = WORD_ROWS if rows.X.shape[1] > 1 else max(rows.n_samples, 1)

    def of_part(part: LabelledRows) -> Any:
        columnwise = begun.sums_columns and isinstance(part.X, ColumnArrays)

        def block(span: slice) -> Any:
            codes, weights = part.codes[span], part.block_weights(span)
            X = part.X.block(span) if columnwise else part.block(span)
            return begun.summary(X, codes, weights, part.n_classes)

        many = 16 * BLOCK_ROWS if columnwise else block_rows
        return block_sum(block, part.n_samples, block_rows=many)

    return rows.total(of_part)


def compact(
    density: Density, rows: LabelledRows, *, with_others: bool = False
) -> tuple[Density, LabelledRows]:
    """Return both with statistics that are equal in all rows as one: a smaller, equal problem."""
    if not density.reads_words:
        return density, rows
    # Weighed by words of other rows, documents would lose length to what has no weight.
    density = density.informed(rows.X, rows.weights)
    if with_others:
        density, X = density.compact(rows.everything[0])
        return density, rows.recoded(X)
    density, X = density.compact(rows.X)
    return density, replace(rows, X=X, unlabelled=None if X is not rows.X else rows.unlabelled)


def bind(density: Density, rows: LabelledRows, sums: RowSums | None = None) -> Bound:
    """Return the density bound to the rows, with counts, sums and prior."""
    started, summary = (sums or RowSums()).summarise(density, rows)
    return started.bind(summary)


def has_missing(rows: LabelledRows, counts: Floats | None) -> bool:
    """Return whether a cell is missing: by the counts where they are exact, else by a look."""
    if counts is not None and rows.weights is None and not isinstance(rows.X, MixedRows):
        return bool((counts < rows.class_weights[:, None]).any())
    return rows.total(lambda part: 1.0 * has_missing_cells(part.X)) > 0.0


def any_missing(class_weights: Floats, bound: Bound) -> bool:
    """Return whether a cell is missing of a factor that has a say."""
    absent = bound.counts < class_weights[:, None] * (1.0 - 1e-9)
    return bool((absent & ~bound.density.idle).any())


def with_unseen_factors(bound: Bound) -> Bound:
    """Return the bound density with parameters held in place where no cell speaks for them.

    Else a class without any cell of a factor has that part pulled wherever it lowers the others'
    loss. Pseudo-rows that are as it is estimated to be, as all classes are, keep the column from
    saying anything about it; a variance that classes share stays that of the classes with cells.
    """
    unseen = (bound.counts + bound.prior_counts <= 0.0) / SMALLEST_WITH_MISSING
    if not unseen.any():
        return bound
    unseen *= bound.counts.max(axis=0)
    density, counts = bound.density, bound.prior_counts
    as_all = density.mean(density.estimate(bound.counts + counts, bound.sums + bound.prior_sums))
    return replace(
        bound,
        prior_counts=counts + unseen,
        prior_sums=bound.prior_sums + unseen[:, density.factors] * as_all,
    )
