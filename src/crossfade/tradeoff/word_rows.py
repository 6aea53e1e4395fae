"""Rows that are counts of many words and nothing else, each gone through once for all its sums."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import BLOCK_ROWS, for_each_block, n_threads
from crossfade.rowwise import add_curvature, add_entry_sums, entry_posteriors

#: Rows whose posteriors are kept until they are summed: of 20 classes 1.3 MB.
_SUMMED_ROWS = 4 * BLOCK_ROWS

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

    def terms(
        self, weights: Floats, offsets: Floats, gradient: bool
    ) -> tuple[float, Floats, Floats]:
        """Return Σ w log Σ exp s, and Σ w τ of the counts, (n_classes, n_words), and of one."""
        slopes = np.empty((self.n_words + 1, offsets.size))
        slopes[:-1], slopes[-1] = weights.T, offsets
        total = np.zeros(slopes.shape if gradient else (1, offsets.size))
        value = self.add_posteriors(slopes, total if gradient else None)
        return value, np.ascontiguousarray(total[:-1].T), total[-1].copy()

    def add_posteriors(self, slopes: Floats, total: Floats | None) -> float:
        """Return Σ w log Σ exp s, s = J slopes, and add Σ w τ of counts and of one to `total`.

        Words, not rows, are shared out among threads: of many words a second sum is too large.
        """
        value, k = 0.0, slopes.shape[1]
        if total is None:
            return self._posteriors(slice(0, self.n_rows), slopes, np.empty((0, k)))
        words = self._shares_of_words()
        tau = np.empty((min(self.n_rows, _SUMMED_ROWS), k))
        for start in range(0, self.n_rows, len(tau)):
            rows = slice(start, min(start + len(tau), self.n_rows))
            own = tau[: rows.stop - start]
            value += self._posteriors(rows, slopes, own)
            total[-1] += own.sum(axis=0)
            self._add(rows, own, words, total)
        return value

    def _posteriors(self, rows: slice, slopes: Floats, out: NDArray[Any]) -> float:
        """Return Σ w log Σ exp s of some rows, and write w τ to `out`."""
        n_rows = rows.stop - rows.start
        values = np.zeros(-(-n_rows // BLOCK_ROWS))

        def score(some: slice) -> None:
            entries = self._rows(slice(rows.start + some.start, rows.start + some.stop))
            values[some.start // BLOCK_ROWS] = entry_posteriors(*entries, slopes, out[some])

        for_each_block(score, n_rows)
        return float(values.sum())

    def _add(self, rows: slice, tau: Floats, words: list[tuple[int, int]], total: Floats) -> None:
        """Add J'τ of some rows to `total`, but for the last row."""
        *entries, _ = self._rows(rows)

        def add(share: slice) -> None:
            add_entry_sums(*entries, tau, *words[share.start], total)

        for_each_block(add, len(words), block_rows=1)

    def posterior(self, slopes: Floats) -> Singles:
        """Return the posteriors of all rows, (n_rows, n_classes)."""
        found = np.empty((self.n_rows, slopes.shape[1]), np.float32)
        WordRows(self.counts, None)._posteriors(slice(0, self.n_rows), slopes, found)
        return found

    def curvature(self, posterior: Singles, step: Singles | None, total: Singles) -> Singles:
        """Add Σ w J'(diag τ - ττ')J step to `total`; without a step the diagonal of that sum."""
        given = np.empty((0, total.shape[1]), np.float32) if step is None else step
        sums = [total] + [np.zeros_like(total) for _ in self._parts[1:]]

        def part(number: int) -> None:
            *entries, own = self._rows(self._parts[number])
            add_curvature(*entries, posterior[self._parts[number]], own, given, sums[number])

        self._each(part)
        return _added(sums)

    def _shares_of_words(self) -> list[tuple[int, int]]:
        """Return for each thread its first word and its end: all have as many entries."""
        shares = np.linspace(0, self.counts.nnz, n_threads() + 1)
        ends = np.searchsorted(self._entries_before, shares)
        ends[0], ends[-1] = 0, self.n_words
        return list(pairwise(ends.tolist()))

    @cached_property
    def _entries_before(self) -> Integers:
        """How many entries are of a word or one before, by word."""
        return np.cumsum(np.bincount(self.counts.indices, minlength=self.n_words))

    def _rows(self, rows: slice) -> tuple[Any, ...]:
        """Return entries, columns and ends of some rows, and their weights."""
        counts = self.counts
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
