"""Rows that are counts of many words and nothing else, each gone through once for all its sums."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import for_each_block
from crossfade.rowwise import add_curvature, add_posteriors

#: Entries for each word that are worth sums of their own, and the most such sums.
_ENTRIES_PER_WORD = 40
_MOST_PARTS = 16

Singles = NDArray[np.float32]


class WordRows:
    """Sums over rows of counts by word, (n_words + 1, n_classes): the last row is the offsets'.

    `counts` (n_rows, n_words): CSR. `weights` (n_rows,) or None.
    """

    def __init__(self, counts: Any, weights: Floats | None) -> None:
        self.counts, self._weights = counts, weights
        self.n_rows, self.n_words = counts.shape
        # The same parts whatever the number of threads, each of as many entries.
        each = counts.nnz // max(_ENTRIES_PER_WORD * self.n_words, 1)
        n_parts = 2 ** int(np.log2(np.clip(each, 2, _MOST_PARTS)))
        ends = np.searchsorted(counts.indptr, np.linspace(0, counts.nnz, n_parts + 1))
        ends[0], ends[-1] = 0, self.n_rows
        self._parts = [slice(a, b) for a, b in pairwise(ends)]

    def by_word(self, weights: Floats, offsets: Floats, dtype: type = np.float64) -> NDArray[Any]:
        """Return weights by class, (n_classes, n_words), and offsets, word by word."""
        found = np.empty((self.n_words + 1, offsets.size), dtype)
        found[:-1], found[-1] = weights.T, offsets
        return found

    def terms(
        self, weights: Floats, offsets: Floats, gradient: bool
    ) -> tuple[float, Floats, Floats]:
        """Return Σ w log Σ exp s, and Σ w τ of the counts, (n_classes, n_words), and of one."""
        value, total = self._summed(self.by_word(weights, offsets), gradient)
        return value, np.ascontiguousarray(total[:-1].T), total[-1].copy()

    def _summed(self, slopes: Floats, gradient: bool) -> tuple[float, Floats]:
        """Return the same sums by word, none in place of a gradient."""
        sums = [np.zeros(slopes.shape if gradient else (1, slopes.shape[1])) for _ in self._parts]
        values = np.zeros(len(sums))
        none = np.empty((0, slopes.shape[1]), np.float32)

        def part(number: int) -> None:
            out = sums[number] if gradient else sums[number][:0]
            values[number] = add_posteriors(*self._part(number), slopes, none, out)

        self._each(part)
        return float(values.sum()), _added(sums)

    def posterior(self, weights: Floats, offsets: Floats) -> Singles:
        """Return the posteriors of all rows, (n_rows, n_classes)."""
        slopes, none = self.by_word(weights, offsets), np.empty((0, offsets.size))
        found = np.empty((self.n_rows, offsets.size), np.float32)

        def part(number: int) -> None:
            add_posteriors(*self._part(number), slopes, found[self._parts[number]], none)

        self._each(part)
        return found

    def curvature(self, posterior: Singles, step: Singles | None, total: Singles) -> Singles:
        """Add Σ w J'(diag τ - ττ')J step to `total`; without a step the diagonal of that sum."""
        given = np.empty((0, total.shape[1]), np.float32) if step is None else step
        sums = [total] + [np.zeros_like(total) for _ in self._parts[1:]]

        def part(number: int) -> None:
            *entries, own = self._part(number)
            add_curvature(*entries, posterior[self._parts[number]], own, given, sums[number])

        self._each(part)
        return _added(sums)

    def _part(self, number: int) -> tuple[Any, ...]:
        """Return entries, columns and ends of the rows of a part, and their weights."""
        counts, rows = self.counts, self._parts[number]
        first, last = counts.indptr[rows.start], counts.indptr[rows.stop]
        ends = counts.indptr[rows.start : rows.stop + 1] - first
        weights = np.zeros(0) if self._weights is None else self._weights[rows]
        return counts.data[first:last], counts.indices[first:last], ends, weights

    def _each(self, part: Any) -> None:
        for_each_block(lambda span: part(span.start), len(self._parts), block_rows=1)


def _added(sums: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the sum of all, in the first one's place."""
    while len(sums) > 1:
        sums[0] += sums.pop(1)
    return sums[0]
