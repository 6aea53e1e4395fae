"""Is a row like those that the model was fitted to? P-values of its density, from rows out of fold.

A row's surprise is -log Σ_k p_k f_k(x). Rows that their densities did not see show how large it
usually is, however wrong the densities are: a row's p-value is the share of these that are no less
surprising (conformal: Vovk, Gammerman & Shafer 2005). A row that lacks cells is compared with what
these rows come to without the same cells, a document with what they would come to with as many
words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers

#: Cells whose surprise is kept with a model at most, and rows of them in any case.
_MOST_CELLS, _FEWEST = 100_000, 200

#: What a piece counts as at most, for single precision.
_FAR = 1e30


@dataclass(frozen=True)
class Usual:
    """The surprise of rows by densities that did not see them.

    `surprise` (n_rows, n_classes): -log f_k of each class, of the cells that are there.
    `some` (n_some,): Rows whose pieces are kept.
    `pieces` (n_some, n_pieces): What each piece of these comes to, whatever their class; of a
        document, with a usual number of words; another row's where it is missing.
    `added` (n_rows,): What these pieces are more than those of the surprise.
    `codes`, `weights` (n_rows,).
    `of_words`: Which pieces are documents, (n_pieces,).
    `word_mean`, `length` (n_pieces,): Surprise of a word, and the usual number of words.
    """

    surprise: Floats
    some: Integers
    pieces: NDArray[np.float32]
    added: Floats
    codes: Integers
    weights: Floats
    of_words: NDArray[np.bool_]
    word_mean: Floats
    length: Floats

    @classmethod
    def of(
        cls,
        surprise: Floats,
        pieces: Floats,
        amounts: Floats,
        of_words: NDArray[np.bool_],
        codes: Integers,
        weights: Floats,
    ) -> Usual:
        """Return the record of rows, `amounts` saying how much of each piece they have."""
        units = np.maximum(weights @ amounts, 1e-300)
        mean, length = weights @ pieces / units, units / weights.sum()
        added = _even(pieces, amounts, of_words, mean, length)
        pieces = pieces.copy()
        pieces[:, of_words] += added[:, of_words]
        rng = np.random.default_rng(0)
        for piece in np.flatnonzero(~of_words & (amounts == 0.0).any(axis=0)):
            gone = amounts[:, piece] == 0.0
            if not gone.all():
                drawn = rng.choice(pieces[~gone, piece], np.count_nonzero(gone))
                pieces[gone, piece] = added[gone, piece] = drawn
        n, most = len(pieces), max(_FEWEST, _MOST_CELLS // max(pieces.shape[1], 1))
        some = np.linspace(0, n - 1, min(n, most)).astype(np.int64)
        kept = np.clip(pieces[some], -_FAR, _FAR).astype(np.float32)
        return cls(surprise, some, kept, added.sum(axis=1), codes, weights, of_words, mean, length)

    def least(self, ratio: Floats) -> float:
        """Return the p-value of the strangest row there can be."""
        weights = self.weights * ratio[self.codes]
        return float(_shares_above(np.zeros(weights.size), weights, np.array([np.inf]))[0])

    def evened(self, pieces: Floats, amounts: Floats) -> Floats:
        """Return what documents' surprise changes by with a usual number of words, (n_new,)."""
        return _even(pieces, amounts, self.of_words, self.word_mean, self.length).sum(axis=1)

    def p_values(
        self, score: Floats, gone: NDArray[np.bool_] | None, shares: Floats, ratio: Floats
    ) -> Floats:
        """Return the share of usual rows that are no less surprising, (n_new,).

        `score` (n_new,): The surprise. `gone` (n_new, n_pieces) or None: What the rows lack.
        `shares` (n_classes,): Of the classes. `ratio` (n_classes,): How many times as large they
        are as among the rows of fit.
        """
        own = total_surprise(self.surprise, shares) + self.added
        weights = self.weights * ratio[self.codes]
        found = _shares_above(own, weights, score)
        if gone is None:
            return found
        some = np.flatnonzero(gone.any(axis=1))
        patterns, which = np.unique(np.packbits(gone[some], axis=1), axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        starts = np.searchsorted(which.ravel()[order], np.arange(len(patterns) + 1))
        for start, end in pairwise(starts.tolist()):
            rows = some[order[start:end]]
            without = own[self.some] - self.pieces[:, gone[rows[0]]].sum(axis=1, dtype=np.float64)
            found[rows] = _shares_above(without, weights[self.some], score[rows])
        found[gone.all(axis=1)] = 1.0  # nothing of such a row is strange
        return found


def _even(
    pieces: Floats, amounts: Floats, of_words: NDArray[np.bool_], mean: Floats, length: Floats
) -> Floats:
    """Return what documents' pieces change by with a usual number of words, 0 for other pieces.

    How far they are from what is usual grows as the root of the number of words.
    """
    change = np.zeros_like(pieces)
    if of_words.any():
        c, a, mean, length = pieces[:, of_words], amounts[:, of_words], mean[of_words], length
        length = length[of_words]
        away = (c - a * mean) * np.sqrt(length / np.maximum(a, 1e-300))
        change[:, of_words] = np.where(a > 0.0, away, 0.0) + length * mean - c
    return change


def _shares_above(own: Floats, weights: Floats, score: Floats) -> Floats:
    """Return the share of rows that are not below each score, the new row being one of them."""
    order = np.argsort(own, kind="stable")
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    unit = above[0] / np.count_nonzero(weights) if above[0] > 0.0 else 1.0
    found: Floats = (above[np.searchsorted(own[order], score)] + unit) / (above[0] + unit)
    return found


def total_surprise(surprise: Floats, shares: Floats) -> Floats:
    """Return -log Σ_k p_k f_k(x), (n_rows,), from -log f_k, (n_rows, n_classes)."""
    used = shares > 0.0
    found: Floats = -np.logaddexp.reduce(np.log(shares[used]) - surprise[:, used], axis=1)
    return found + 0.0  # no -0.0
