"""The curvature that rows give, formed as a matrix: Σ w J'(diag τ - ττ')J.

A row's score in every class is linear in one design B: its statistics, and which factors it lacks.
Off the classes' own blocks the curvature over B is -Σ w (τB)'(τB), one product for all pairs of
classes. Their own blocks are formed apart, with τ(1-τ), so that no difference loses what is next to
nothing; the last class's blocks are what is left of the others'. What a class's weights are to B
follows from the slopes of A, by class.
"""

from __future__ import annotations

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
    """A block of rows' curvature over B and one, by class, and from there over the parameters."""

    def __init__(self, passes: RowPasses, theta: Floats, dtype: type) -> None:
        self.dtype, self.passes = dtype, passes
        self.eta, self.offset, self.absent = passes.row_coefficients(theta)
        alike = self.absent is None or passes.at_mean
        #: A missing factor's coefficient is A_f(η_k): its slope is the class's mean.
        slope = None if alike else passes.absent(theta)[1]
        if slope is not None:
            self.free_slope = slope.take(passes.free_first[: passes.n_free], axis=1)[:, :, None]
            tied = slope.take(passes.tied_places, axis=1)[:, :, None]
            self.tied_slope = tied[:-1] - tied[-1]
        self.has_slope = slope is not None
        self.n_classes, self.k = passes.n_classes, passes.n_classes - 1
        self.p = passes.n_free + (0 if alike else passes.density.n_factors)
        self.width = self.k * (self.p + 1) + 1

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
        own_roots = np.sqrt(posterior * others(posterior)) * roots
        if self.n_classes == 2:
            Z *= own_roots[:, :1]
            return np.asarray(Z.T @ Z, dtype=np.float64), lost, total
        # In the order of the parameters: W, c.
        every = workspace("all classes", n, self.width - 1, dtype=self.dtype)
        by_class = every[:, : k * p].reshape(n, k, p)
        shares = posterior[:, :k] * roots
        every[:, k * p :] = shares
        scaled = workspace("curvature", n, p + 1, dtype=self.dtype)
        blocks: Floats = np.empty((k, p + 1, p + 1), dtype=self.dtype)
        for c in range(k):
            np.multiply(Z, own_roots[:, c, None], out=scaled, casting="same_kind")
            np.matmul(scaled.T, scaled, out=blocks[c])
            np.multiply(Z[:, :p], shares[:, c, None], out=by_class[:, c], casting="same_kind")
        found = np.negative(every.T @ every, dtype=np.float64)
        for c in range(k):
            w, o = slice(c * p, c * p + p), k * p + c
            found[w, w], found[o, o] = blocks[c, :p, :p], blocks[c, p, p]
            found[w, o] = found[o, w] = blocks[c, :p, p]
        return found, lost, total

    def _design(
        self, own: RowPasses, rows: slice
    ) -> tuple[Floats, Floats | None, Floats, Floats | None]:
        """Return (B, 1), the missing factors, posteriors and weights; B may be changed."""
        p = own.n_free
        if self.absent is not None:
            design, posterior, weights = own.design(rows, self.eta, self.offset, self.absent)
            Z = workspace("standardised", len(design), self.p + 1, dtype=self.dtype)
            Z[:, :-1], Z[:, -1] = design[:, : self.p], 1.0
            return Z, design[:, p:-1], posterior, weights
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

    def add(self, H: Floats, found: Floats) -> None:
        """Add what was formed to H, and the last class's part."""
        H += self._of_parameters(self._of_parameters(found).T)

    def _of_parameters(self, formed: Floats) -> Floats:
        """Return R times rows of B and one, by class; R tells how these change with θ.

        Coefficients are less the last class's: it moves all others by as much, downwards.
        """
        passes, k, n, width = self.passes, self.k, self.passes.n_free, formed.shape[1]
        offsets = formed[k * self.p :]
        of_classes = formed[: k * self.p].reshape(k, self.p, width)
        weights, last = of_classes[:, :n], of_classes[:, :n]
        tied = np.zeros((passes.n_tied, width))
        if self.has_slope:
            gaps, slope = of_classes[:, n:], self.free_slope
            own = gaps.take(passes.free_factors, axis=1)
            weights, last = weights + slope[:-1] * own, last + slope[-1] * own
            if passes.n_tied:  # a tied weight moves all classes' missing factors
                own = gaps.take(passes.factors[passes.tied_places], axis=1)
                tied = (self.tied_slope * own).sum(axis=0)
        each = (weights.reshape(k * n, width), -last.sum(axis=0))
        return np.concatenate((*each, offsets, -offsets.sum(axis=0, keepdims=True), tied))


def others(posterior: Floats) -> Floats:
    """Return 1 - τ, by the other classes' sum where that is next to nothing."""
    if posterior.shape[1] == 2:
        return posterior[:, ::-1]
    rest = 1.0 - posterior
    top = np.arange(len(posterior)), posterior.argmax(axis=1)
    without = posterior.copy()
    without[top] = 0.0
    rest[top] = without.sum(axis=1)
    return rest
