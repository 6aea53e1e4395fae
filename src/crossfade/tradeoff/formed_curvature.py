"""The curvature that rows give, formed as a matrix: Σ w J'(diag τ - ττ')J.

Off the classes' own blocks it is -Σ w (τJ)'(τJ), one product for all pairs of classes. Their own
blocks are formed apart, with τ(1-τ), so that no difference loses what is next to nothing. Where all
classes have the same J (no cell is missing), the last one's blocks are what is left of the others'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import workspace
from crossfade.rowwise import standardise_rows
from crossfade.tradeoff.labelled_rows import log_normalise

if TYPE_CHECKING:
    from crossfade.tradeoff.passes import RowPasses

#: Doubles in a block's J of all classes: 2 MB, but no fewer rows than a product needs to be fast.
_BLOCK_DOUBLES, _FEWEST_ROWS = 262_144, 512


def add_row_curvature(
    passes: RowPasses, H: Floats, theta: Floats, share: float, weight: float
) -> Floats:
    """Add weight · Σ w J'(diag τ - ττ')J to H; return Σ w τ of the missing factors, by class.

    `share`: Of the rows, evenly drawn ones standing for all.

    Shapes: H (n_parameters, n_parameters).
    """
    n_rows, some = passes.rows.n_samples, passes
    if n_rows * share < n_rows and n_rows * share > 10 * passes.n_parameters:
        some = passes.over(replace(passes.rows.sampled(share), is_part=True))
    sampled = some is not passes or passes.every > 1
    # What stands for all rows is wrong in its second digit: single precision is enough for it.
    form = _Form(passes, theta, np.float32 if sampled or passes.is_sample else np.float64)
    fewest = max(_BLOCK_DOUBLES // form.width, _FEWEST_ROWS)
    found, lost, seen = some.sum(form.block, min(passes.block_rows, fewest))
    if sampled:
        scale_up = passes.total / max(seen, 1e-300)
        found, lost = found * scale_up, lost * scale_up
    found *= weight
    form.add(H, found)
    return lost


class _Form:
    """A block of rows' curvature over (W_k, c_k) of the classes formed, and the tied weights."""

    def __init__(self, passes: RowPasses, theta: Floats, dtype: type) -> None:
        self.dtype = dtype
        self.eta, self.offset, self.absent = passes.row_coefficients(theta)
        alike = self.absent is None or passes.at_mean
        #: A missing factor's coefficient is A_f(η_k): its slope is the class's mean.
        self.slope = None if alike else passes.absent(theta)[1]
        self.n_classes, self.p = passes.n_classes, passes.n_free
        self.k = self.n_classes - 1 if alike else self.n_classes
        self.n_tied = 0 if alike else passes.n_tied
        self.width = self.k * (self.p + 1) + self.n_tied + 1

    def block(self, own: RowPasses, rows: slice) -> tuple[Floats, Floats, float]:
        """Return the block's curvature, Σ w τ of the missing factors, and its weight."""
        p, k = self.p, self.k
        Z, gaps, posterior, weights = self._design(own, rows)
        n = len(Z)
        lost = np.zeros((self.n_classes, 0 if gaps is None else gaps.shape[1]))
        if gaps is not None:
            lost += (posterior if weights is None else posterior * weights[:, None]).T @ gaps
        roots = np.ones((n, 1)) if weights is None else np.sqrt(weights)[:, None]
        total = float(n if weights is None else weights.sum())
        own_roots = np.sqrt(posterior * _others(posterior)) * roots
        if self.n_classes == 2 and self.slope is None:
            Z *= own_roots[:, :1]
            return np.asarray(Z.T @ Z, dtype=np.float64), lost, total
        if self.n_classes == 2:
            # One pair: τ(1-τ) times the square of what the difference of both scores is of.
            (one, tie), (other, other_tie) = self._by_class(own, Z, gaps, apart=True)
            parts = [one[:, :p], -other[:, :p], one[:, p:], -one[:, p:], tie - other_tie]
            both = np.concatenate(parts, axis=1)
            both *= own_roots[:, :1]
            return np.asarray(both.T @ both, dtype=np.float64), lost, total
        # In the order of the parameters: W, c, V.
        every = workspace("all classes", n, self.width - 1, dtype=self.dtype)
        every[:, k * p + k :] = 0.0
        by_class = every[:, : k * p].reshape(n, k, p)
        shares = posterior * roots
        every[:, k * p : k * p + k] = shares[:, :k]
        scaled = workspace("curvature", n, p + 1, dtype=self.dtype)
        blocks: Floats = np.empty((k, p + 1, p + 1), dtype=self.dtype)
        ties = [np.zeros((k, p + 1, self.n_tied)), np.zeros((self.n_tied, self.n_tied))]
        for c, (each, tied) in enumerate(self._by_class(own, Z, gaps)):
            np.multiply(each, own_roots[:, c, None], out=scaled, casting="same_kind")
            np.matmul(scaled.T, scaled, out=blocks[c])
            np.multiply(each[:, :p], shares[:, c, None], out=by_class[:, c], casting="same_kind")
            if self.n_tied:
                every[:, k * p + k :] += tied * shares[:, c, None]
                weighed = tied * (shares[:, c, None] * roots)
                ties[0][c] = each.T @ weighed
                ties[1] += tied.T @ weighed
        found = np.negative(every.T @ every, dtype=np.float64)
        self._set_own(found, blocks, *ties)
        return found, lost, total

    def _design(
        self, own: RowPasses, rows: slice
    ) -> tuple[Floats, Floats | None, Floats, Floats | None]:
        """Return (T̃, 1), zero where missing, the missing factors, posteriors and weights."""
        p = self.p
        if self.absent is not None:
            design, posterior, weights = own.design(rows, self.eta, self.offset, self.absent)
            whole: Floats = np.concatenate(
                [design[:, :p], design[:, -1:]], axis=1, dtype=self.dtype
            )
            return whole, design[:, p:-1], posterior, weights
        # Counted from the first row of all: which ones stand for the others is no matter of blocks.
        rows = slice(rows.start + -rows.start % own.every, rows.stop, own.every)
        carrier = own.carried(rows)
        n = len(carrier)
        scores = np.matmul(carrier, self.eta.T, out=workspace("scores", n, self.n_classes))
        scores += self.offset
        _, origin, inverse = own.standardisation
        Z = workspace("standardised", n, p + 1, dtype=self.dtype)
        standardise_rows(carrier, origin, inverse, np.ones(n), Z)
        return Z, None, log_normalise(scores)[1], own.rows.block_weights(rows)

    def _by_class(
        self, own: RowPasses, Z: Floats, gaps: Floats | None, *, apart: bool = False
    ) -> Iterator[tuple[Floats, Floats]]:
        """Yield what each class's score is of: (T̃, 1) and the tied weights, missing cells in.

        The first of the two lasts until the next one, unless they are to lie `apart`.
        """
        p = self.p
        if self.slope is None or gaps is None:
            for _ in range(self.k):
                yield Z, Z[:, :0]
            return
        each = Z.copy()
        free, tied = gaps[:, own.free_factors], gaps[:, own.factors[own.tied]]
        for c in range(self.k):
            each = Z.copy() if apart else each
            np.multiply(free, self.slope[c, own.free], out=each[:, :p], casting="same_kind")
            each[:, :p] += Z[:, :p]
            yield each, tied[:, : self.n_tied] * self.slope[c, own.tied][: self.n_tied]

    def _set_own(self, found: Floats, blocks: Floats, crossed: Floats, tied: Floats) -> None:
        """Set the classes' own blocks, and add what the tied weights have of τ alone."""
        p, k = self.p, self.k
        v = slice(k * p + k, None)
        for c in range(k):
            w, o = slice(c * p, c * p + p), k * p + c
            found[w, w], found[o, o] = blocks[c, :p, :p], blocks[c, p, p]
            found[w, o] = found[o, w] = blocks[c, :p, p]
            if self.n_tied:
                for place, cross in ((w, crossed[c, :p]), (slice(o, o + 1), crossed[c, p:])):
                    found[place, v] += cross
                    found[v, place] += cross.T
        found[v, v] += tied

    def add(self, H: Floats, found: Floats) -> None:
        """Add what was formed to H, and the last class's part where it was not."""
        p, k = self.p, self.k
        ends = self.n_classes * p, self.n_classes * p + self.n_classes
        # Of H and of what was formed: W, c and V.
        theirs = [slice(0, k * p), slice(ends[0], ends[0] + k), slice(ends[1], None)]
        ours = [slice(0, k * p), slice(k * p, k * p + k), slice(k * p + k, None)]
        if not self.n_tied:
            theirs, ours = theirs[:2], ours[:2]
        for row, i in zip(theirs, ours, strict=True):
            for column, j in zip(theirs, ours, strict=True):
                H[row, column] += found[i, j]
        if k == self.n_classes:
            return
        w, o = slice(k * p, k * p + p), slice(ends[0] + k, ends[0] + k + 1)
        weights = found[: k * p].reshape(k, p, -1).sum(axis=0)
        offsets = found[k * p :].sum(axis=0, keepdims=True)
        for place, part in ((w, weights), (o, offsets)):
            for column, j in zip(theirs, ours, strict=True):
                H[place, column] -= part[:, j]
                H[column, place] -= part[:, j].T
            H[place, w] += part[:, : k * p].reshape(-1, k, p).sum(axis=1)
            H[place, o] += part[:, k * p :].sum(axis=1, keepdims=True)


def _others(posterior: Floats) -> Floats:
    """Return 1 - τ, by the other classes' sum where that is next to nothing."""
    if posterior.shape[1] == 2:
        return posterior[:, ::-1]
    rest = 1.0 - posterior
    top = np.arange(len(posterior)), posterior.argmax(axis=1)
    without = posterior.copy()
    without[top] = 0.0
    rest[top] = without.sum(axis=1)
    return rest
