"""Products with the curvature that rows give, at one parameter vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crossfade._typing import Floats
from crossfade.tradeoff.bound_rows import by_factor
from crossfade.tradeoff.labelled_rows import log_normalise

if TYPE_CHECKING:
    from crossfade.tradeoff.passes import RowPasses

#: Posteriors that are kept for the products with one Hessian: 32 MB.
_KEPT_POSTERIORS = 4_194_304


class RowCurvature:
    """Σ w J'(diag τ - ττ')J by its products with vectors, the posteriors τ kept where they are few.

    `lost` (n_classes, n_factors): Σ w τ of the missing factors.
    """

    def __init__(self, passes: RowPasses, theta: Floats) -> None:
        self._passes = passes
        self._at: tuple[Floats, Floats, Floats | None] | None
        self._at = passes.row_coefficients(theta)
        self._has_absent = self._at[2] is not None
        shape = passes.rows.n_samples, passes.n_classes
        few = shape[0] * shape[1] <= _KEPT_POSTERIORS and not passes.rows.is_part
        self._kept = np.empty(shape) if few else None
        n_missing = passes.density.n_factors if self._has_absent else 0
        self.lost = np.zeros((passes.n_classes, n_missing))
        if self._kept is None and not n_missing:
            return
        kept, none = self._kept, np.zeros_like(self.lost)
        posterior_of = self._posterior

        def block(own: RowPasses, rows: slice) -> Floats:
            _, missing, posterior = posterior_of(own, rows)
            if kept is not None:
                kept[rows] = posterior
            if missing is None:
                return none.copy()
            weights = own.rows.block_weights(rows)
            return (posterior if weights is None else posterior * weights[:, None]).T @ missing

        self.lost = passes.sum(block, passes.block_rows)
        if kept is not None:
            self._at = None

    def _posterior(self, own: RowPasses, rows: slice) -> tuple[Floats, Floats | None, Floats]:
        """Return a block's statistics, missing factors and posteriors."""
        assert self._at is not None
        carrier, missing, scores = own.block_scores(rows, *self._at)
        return carrier, missing, log_normalise(scores)[1]

    def _block(self, own: RowPasses, rows: slice) -> tuple[Any, Floats | None, Floats]:
        """Return the same, the posteriors kept where they can be."""
        if self._kept is None:
            return self._posterior(own, rows)
        carrier, missing = own.block_carrier(rows, missing=self._has_absent)
        return carrier, missing, self._kept[rows]

    def squares(self) -> Floats:
        """Return Σ w τ(1-τ) T̃² by class: the diagonal, but for missing factors."""
        passes = self._passes

        def block(own: RowPasses, rows: slice) -> tuple[Floats, Floats, Floats]:
            _, _, posterior = self._block(own, rows)
            spread = posterior * (1.0 - posterior)
            weights = own.rows.block_weights(rows)
            if weights is not None:
                spread *= weights[:, None]
            X, density = own.rows.block(rows), own.density
            sums = density.weighted_sums(X, spread)
            return density.square_sums(X, spread), sums, spread.sum(axis=0)

        squares, sums, mass = passes.sum(block, passes.block_rows)
        free, mean = passes.free, passes.free_mean
        centred = squares[:, free] - 2.0 * mean * sums[:, free] + mass[:, None] * mean**2
        return np.maximum(centred, 0.0) / passes.free_scale**2

    def own_squares(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the same, missing factors as they are, and Σ w τ(1-τ), by class."""
        passes = self._passes
        index, mean, scale = np.flatnonzero(passes.free), passes.free_mean, passes.free_scale
        n_gaps = passes.density.n_factors if self._has_absent else 0

        def block(own: RowPasses, rows: slice) -> tuple[Floats, ...]:
            carrier, missing, posterior = self._block(own, rows)
            spread = posterior * (1.0 - posterior)
            weights = own.rows.block_weights(rows)
            if weights is not None:
                spread *= weights[:, None]
            sums, squares = own.sums_and_squares(rows, carrier, spread)
            gaps = np.zeros((passes.n_classes, n_gaps))
            return (
                squares,
                sums,
                spread.sum(axis=0),
                gaps if missing is None else spread.T @ missing,
            )

        squares, sums, mass, gaps = passes.sum(block, passes.block_rows)
        present = mass[:, None]
        if self._has_absent:
            present = (present - gaps)[:, passes.free_factors]
        centred = np.maximum(squares - 2.0 * mean * sums + present * mean**2, 0.0) / scale**2
        if self._has_absent and not passes.at_mean:
            centred += gaps[:, passes.free_factors] * passes.absent(theta)[1][:, index] ** 2
        return centred, mass

    def product(
        self, v_weights: Floats, v_offsets: Floats, v_absent: Floats | None
    ) -> tuple[Floats, Floats, Floats]:
        """Return the product over the free weights, the offsets and the missing factors' terms."""
        passes = self._passes
        none = np.zeros_like(self.lost[1:])
        step, moved = passes.coefficients(v_weights)
        step_offset = v_offsets + moved
        # Relative to the last class, whose sums are what is left of those of the others.
        step, step_offset = passes.turned_differences(step), step_offset[:-1] - step_offset[-1]
        if self._has_absent:
            v_absent = np.zeros((passes.n_classes, 1)) if v_absent is None else v_absent
            v_absent = (
                v_absent[:-1]
                - v_absent[-1]
                + by_factor(step * passes.free_mean, passes.free_factors, passes.density.n_factors)
            )

        def block(own: RowPasses, rows: slice) -> tuple[Floats, Floats, Floats]:
            carrier, missing, posterior = self._block(own, rows)
            others = posterior[:, :-1]
            change = own.block_changes(carrier, step)
            change += step_offset
            if missing is not None and v_absent is not None:
                change += missing @ v_absent.T
            change -= (others * change).sum(axis=1)[:, None]
            change *= others
            weights = own.rows.block_weights(rows)
            if weights is not None:
                change *= weights[:, None]
            lost = none.copy() if missing is None else change.T @ missing
            return *own.block_sums(carrier, missing, change), lost

        found = passes.sum(block, passes.block_rows)
        sums, mass, lost = (np.append(one, -one.sum(axis=0)[None], axis=0) for one in found)
        return sums, mass, lost
