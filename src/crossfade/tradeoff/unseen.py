"""Rows that are kept beside a fit at a given λ, and what fits without them say of them.

A chosen λ has scored rows out of fold already. For a given one that is done when it is first asked
for, by fits of five folds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import single_threaded_blas
from crossfade.densities.base import Density
from crossfade.inference.held_out import HeldOut
from crossfade.optim.newton import sample_rows
from crossfade.table.documents import n_cells
from crossfade.tradeoff.choosing import ByFold
from crossfade.tradeoff.fitting import FitOptions, fit_tradeoff
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows

#: Rows that are kept of a table of more cells than `_MOST_CELLS` (16 MB), and fewest of each class
#: among them.
MOST_ROWS, _FEWEST_OF_A_CLASS = 5_000, 50
_MOST_CELLS = 2_097_152

_N_FOLDS = 5


def kept_rows(rows: LabelledRows, groups: Integers | None) -> tuple[LabelledRows, Integers | None]:
    """Return a copy of the rows, of a large table of some, with their groups."""
    others, n = rows.unlabelled, rows.n_samples
    cells = n_cells(rows.X) + (0 if others is None else n_cells(others.X))
    most = n if cells <= _MOST_CELLS else MOST_ROWS
    if others is not None:
        part = sample_rows(others.X.shape[0], min(1.0, most / n))
        weights = None if others.weights is None else others.weights[part]
        together = None if others.groups is None else others.groups[part]
        rows = replace(rows, unlabelled=OtherRows(others.X[part], weights, together))
    if n > most:
        return drawn_by_class(rows, groups, most)
    return rows.take(np.arange(n)), groups


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


@dataclass(frozen=True)
class UnseenRows:
    """Rows whose posteriors by fits without them are found when they are first asked for.

    `unlabelled_weight`, `learnt_words`: As for :func:`fit_tradeoff`.
    """

    rows: LabelledRows
    groups: Integers | None
    density: Density
    tradeoff: float
    options: FitOptions
    by_fold: ByFold | None = None
    unlabelled_weight: float = 0.0
    learnt_words: bool = False

    @property
    def is_known(self) -> bool:
        """Whether they have been asked for."""
        return "held_out" in self.__dict__

    @property
    def is_closed_form(self) -> bool:
        """Whether no fit of them takes more than a look at the rows."""
        return (
            self.tradeoff == 1.0 and self.options.n_components == 1 and not self.unlabelled_weight
        )

    @cached_property
    def held_out(self) -> HeldOut | None:
        """Log-posteriors for the class shares of the rows; None where no row can be held out."""
        rows, fold = self.rows, folds(self.rows, _N_FOLDS, self.groups)
        held = np.flatnonzero(fold >= 0)
        if not held.size:
            return None
        scores = np.empty((rows.n_samples, rows.n_classes))
        with single_threaded_blas(), np.errstate(invalid="ignore", over="ignore"):
            for number in np.unique(fold[held]):
                own = np.flatnonzero(fold == number)
                scores[own] = self._without(own, np.flatnonzero(fold != number))
        weights = None if rows.weights is None else rows.weights[held]
        factors = rows.class_factors
        return HeldOut.of(scores[held], rows.codes[held], weights, class_factors=factors)

    def _without(self, held: Integers, train: Integers) -> Floats:
        """Return log-posteriors of rows by the fit to other rows, (n_held, n_classes)."""
        rows, density = self.rows, self.density
        if self.by_fold is not None:
            rows, (density, *_) = self.by_fold(train)
        fitted = fit_tradeoff(
            rows.take(train),
            density,
            self.tradeoff,
            self.options,
            unlabelled_weight=self.unlabelled_weight,
            learnt_words=self.learnt_words,
        )
        found = fitted.posterior(rows.take(held).X, log=True)
        return found if fitted.shift is None else found - fitted.shift
