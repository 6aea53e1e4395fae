"""What rows look like, whatever their classes: the joint density at the generative end.

Where a model's λ is small its densities serve its posterior. Whether a row is like the rows of fit
is a question for densities alone, so it is put to the fit at λ = 1, which is in closed form. So
are the fits of folds, by which each row's own part is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block
from crossfade.densities.base import Density
from crossfade.inference.strangers import Usual, total_surprise
from crossfade.table.documents import MixedRows, block_of
from crossfade.table.read import has_missing_cells
from crossfade.tradeoff.fitting import FitOptions, Fitted, add_rows, fit_tradeoff
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import MOST_ROWS, LabelledRows, drawn_by_class

#: Most rows whose surprise is kept.
_MOST_KEPT = 1_000

#: Folds, folds of documents (each of which has words of its own), and folds of slow fits.
_N_FOLDS, _N_FOLDS_WORDS, _N_FOLDS_SLOW = 10, 20, 5


#: Places of the words, or the categories, that rows have, by column.
Known = tuple[tuple[int, NDArray[np.generic]], ...]


@dataclass(frozen=True)
class JointDensity:
    """Densities of the classes, and how surprising rows usually are to them.

    `usual`: None where no row was held out.
    `known`: Of columns of which these rows have not all that the model has learnt from more rows.
    """

    fitted: Fitted
    usual: Usual | None
    known: Known = ()

    def scores(self, X: Floats, shares: Floats) -> Floats:
        """Return -log Σ_k p_k f_k(x), shape (n_rows,)."""
        found = np.empty(X.shape[0])
        density, natural = self.fitted.density, self.fitted.parameters.natural

        def block(rows: slice) -> None:
            surprise = -density.log_density(_only_known(block_of(X, rows), self.known), natural)
            found[rows] = total_surprise(_by_class(self.fitted, surprise), shares)

        with np.errstate(invalid="ignore", over="ignore"):
            for_each_block(block, X.shape[0])
        return found

    def p_values(self, X: Floats, shares: Floats, ratio: Floats) -> Floats:
        """Return the share of usual rows that are no less surprising, (n_rows,)."""
        assert self.usual is not None
        usual = self.usual
        if not (usual.of_words.any() or self.known or has_missing_cells(X)):
            return usual.p_values(self.scores(X, shares), None, shares, ratio)
        found = np.empty(X.shape[0])
        gone = np.empty((X.shape[0], usual.length.size), dtype=bool)

        def block(rows: slice) -> None:
            part = _only_known(block_of(X, rows), self.known)
            surprise, pieces, amounts = _pieces(self.fitted, part)
            found[rows] = total_surprise(surprise, shares) + usual.evened(pieces, amounts)
            gone[rows] = (amounts == 0.0) & ~usual.of_words

        with np.errstate(invalid="ignore", over="ignore"):
            for_each_block(block, X.shape[0])
        return usual.p_values(found, gone, shares, ratio)


@dataclass(frozen=True)
class JointRows:
    """Rows whose joint density is found when it is first asked for.

    `densities`: What it is chosen among, by the density of rows out of fold.
    `learnt`: Columns whose categories, or words, were learnt from the rows and maybe from others,
        and how many of these there are.
    """

    rows: LabelledRows
    groups: Integers | None
    densities: Sequence[Density]
    options: FitOptions
    learnt: Mapping[int, int]

    @classmethod
    def of(
        cls,
        rows: LabelledRows,
        densities: Sequence[Density],
        options: FitOptions,
        learnt: Mapping[int, int],
        groups: Integers | None = None,
    ) -> JointRows:
        """Return the rows; of many an evenly drawn part, by class."""
        return cls(*drawn_by_class(rows, groups, MOST_ROWS), densities, options, learnt)

    @cached_property
    def _folds(self) -> Integers:
        n_folds = _N_FOLDS_WORDS if self.densities[0].reads_words else _N_FOLDS
        n_folds = _N_FOLDS_SLOW if self.options.n_components > 1 else n_folds
        return folds(self.rows, n_folds, self.groups)

    @cached_property
    def _held(self) -> Integers:
        """Rows whose surprise is kept."""
        held = np.flatnonzero(self._folds >= 0)
        return held[np.linspace(0, held.size - 1, min(held.size, _MOST_KEPT)).astype(np.int64)]

    @cached_property
    def density(self) -> Density:
        """The density that is chosen."""
        fold, held = self._folds, self._held
        if len(self.densities) == 1 or not held.size:
            return self.densities[0]
        some = held[fold[held] == fold[held[0]]]
        losses = [self._surprise_of(one, fold, some) for one in self.densities]
        return self.densities[int(np.argmin(losses))]

    @cached_property
    def described(self) -> JointDensity:
        """The joint density of these rows."""
        found = _known(self.rows, self.learnt)
        known = tuple((j, some) for j, some in found if some.size < self.learnt[j])
        rows = replace(self.rows, X=_only_known(self.rows.X, known))
        fitted = self._fit(self.density, rows)
        if not self._held.size:
            return JointDensity(fitted, None, known)
        usual = self._usual(self.density, fitted, self._folds, self._held)
        return JointDensity(fitted, usual, known)

    def _fit(self, density: Density, rows: LabelledRows) -> Fitted:
        if self.options.n_components == 1:
            fitted = add_rows(rows, density, self.options)
        else:
            fitted = fit_tradeoff(rows, density, 1.0, self.options)
        return replace(fitted, sums=None, warnings=(), evidence=None)

    def _without(
        self, density: Density, fold: Integers, held: Integers
    ) -> tuple[Fitted, LabelledRows]:
        """Return a fit without the fold of some rows, and these rows as they are new to it."""
        train = self.rows.take(np.flatnonzero(fold != fold[held[0]]))
        test, known = self.rows.take(held), _known(train, self.learnt)
        train, test = (replace(one, X=_only_known(one.X, known)) for one in (train, test))
        return self._fit(density, train), test

    def _surprise_of(self, density: Density, fold: Integers, held: Integers) -> float:
        """Return the mean surprise of rows of one fold."""
        fitted, test = self._without(density, fold, held)
        surprise = -fitted.density.log_density(test.block(slice(None)), fitted.parameters.natural)
        own = total_surprise(_by_class(fitted, surprise), fitted.shares)
        return float(np.average(own, weights=test.weights))

    def _usual(self, density: Density, whole: Fitted, fold: Integers, held: Integers) -> Usual:
        """Return the surprise of held-out rows by the fits of their folds."""
        rows = self.rows.take(held)
        found: list[tuple[Integers, tuple[Floats, Floats, Floats]]] = []
        for number in np.unique(fold[held]):
            own = np.flatnonzero(fold[held] == number)
            fitted, test = self._without(density, fold, held[own])
            found.append((own, _pieces(fitted, test.block(slice(None)))))
        place = np.argsort(np.concatenate([own for own, _ in found]))
        surprise, pieces, amounts = (
            np.concatenate([one[part] for _, one in found])[place] for part in range(3)
        )
        of_words = np.zeros(pieces.shape[1], dtype=bool)
        if whole.density.per_word:
            of_words = whole.density.word_factors
        weights = np.ones(held.size) if rows.weights is None else rows.weights
        return Usual.of(surprise, pieces, amounts, of_words, rows.codes, weights)


def _known(rows: LabelledRows, learnt: Mapping[int, int]) -> Known:
    """Return the words and the categories that rows have."""
    mixed = isinstance(rows.X, MixedRows)
    words, numbers = (rows.X.words, rows.X.numbers) if mixed else ({}, rows.X)

    def of(column: int) -> NDArray[np.generic]:
        if column in words:
            return np.flatnonzero(words[column].sum(axis=0))
        found: NDArray[np.generic] = np.unique(numbers[:, column])
        return found[~np.isnan(found)]

    return tuple((column, of(column)) for column in learnt)


def _only_known(X: Any, known: Known) -> Any:
    """Return rows without other words, and with other categories missing.

    A density does not know those that its rows do not have; rows that come later, and rows out of
    fold, are read without them.
    """
    if not known:
        return X
    mixed = isinstance(X, MixedRows)
    words, numbers = dict(X.words) if mixed else {}, np.array(X.numbers if mixed else X, float)
    for column, some in known:
        if column in words:
            words[column] = words[column][:, some]
        else:
            numbers[~np.isin(numbers[:, column], some), column] = np.nan
    return MixedRows(numbers, words) if mixed else numbers


def _pieces(fitted: Fitted, part: Floats) -> tuple[Floats, Floats, Floats]:
    """Return -log f_k of classes, and in pieces by the posterior, and how much there is of each.

    With τ the posterior, -log Σ_k p_k f_k is Σ_k τ_k (-log f_k), which has pieces, and a part of
    τ and p alone.

    Shapes: (n_rows, n_classes); (n_rows, n_pieces), the same.
    """
    each = fitted.density.surprise(part, fitted.parameters.natural)
    total = each.sum(axis=1)
    with np.errstate(divide="ignore"):
        joint = fitted.scorer.log_prior - total
    posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    pieces = np.einsum("nqk,nk->nq", each, posterior)
    return _by_class(fitted, total), pieces, fitted.density.amounts(part)


def _by_class(fitted: Fitted, surprise: Floats) -> Floats:
    """Return -log f_k of classes from that of their components, (n_rows, n_classes)."""
    if fitted.n_components == 1:
        return surprise
    log_prior = fitted.scorer.log_prior.reshape(-1, fitted.n_components)
    shares = log_prior - np.logaddexp.reduce(log_prior, axis=1)[:, None]
    by_component = surprise.reshape(len(surprise), *shares.shape)
    found: Floats = -np.logaddexp.reduce(shares - by_component, axis=2)
    return found
