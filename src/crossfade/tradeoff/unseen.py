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
from crossfade.inference.held_out import HeldOut, Moved, normalised
from crossfade.optim.newton import sample_rows
from crossfade.table.documents import MixedRows, n_cells
from crossfade.tradeoff.choosing import ByFold
from crossfade.tradeoff.fitting import FitOptions, fit_tradeoff
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.influence import StackedFits
from crossfade.tradeoff.labelled_rows import MOST_ROWS, LabelledRows, drawn_by_class

_N_FOLDS = 5

#: Rows that are kept for each parameter, and cells of rows beyond 5,000: 16 MB.
_ROWS_OF_A_PARAMETER, _MOST_CELLS = 20, 2_097_152


def kept_rows(
    rows: LabelledRows, groups: Integers | None, evidence: StackedFits | None
) -> tuple[LabelledRows, Integers | None]:
    """Return a copy of the rows, and their groups: those of standard errors, or of many some.

    Fits to few rows for their parameters say less of others than the fit to all does.
    """
    if evidence is not None and evidence.rows.n_samples and not isinstance(rows.X, MixedRows):
        return evidence.rows, evidence.groups
    others, n = rows.unlabelled, rows.n_samples
    asked = _ROWS_OF_A_PARAMETER * (0 if evidence is None else evidence.n_influences)
    most = max(MOST_ROWS, min(asked, _MOST_CELLS * n // max(n_cells(rows.X), 1)))
    if others is not None:
        part = sample_rows(others.X.shape[0], min(1.0, most / n))
        rows = replace(rows, unlabelled=others.take(part))
    if n > most:
        return drawn_by_class(rows, groups, most)
    return rows.take(np.arange(n)), groups


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
        n, k = rows.n_samples, rows.n_classes
        every, numbers = np.arange(n), np.unique(fold[held])
        seen = np.unique(rows.codes[held])  # a class of one row is in every fit
        repeats = np.ones(n) if rows.weights is None else rows.weights
        member = np.equal(numbers[:, None], fold) * repeats
        counts = np.maximum(member.sum(axis=1), 1e-300)
        scores, means = np.empty((n, k)), np.empty((numbers.size, numbers.size, k))
        with single_threaded_blas(), np.errstate(invalid="ignore", over="ignore"):

            def mean_posteriors(of_all: Floats) -> Floats:
                found = np.zeros((numbers.size, k))
                found[:, seen] = member @ np.exp(normalised(of_all[:, seen])) / counts[:, None]
                return found

            for j, number in enumerate(numbers):
                of_all = self._without(every, np.flatnonzero(fold != number))
                scores[fold == number] = of_all[fold == number]
                means[j] = mean_posteriors(of_all)
            moved = Moved.of(mean_posteriors(self._without(every, every)), means, counts)
        weights = None if rows.weights is None else rows.weights[held]
        factors = rows.class_factors
        return HeldOut.of(
            scores[held], rows.codes[held], weights, class_factors=factors, moved=moved
        )

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
