"""Passes in which what a row lacks of a factor is what each state expects of it.

A row's score in a state is then log ∫ exp(η·T + c) over its missing cells, whose derivative is the
state's E[T | the cells that are there]: no longer linear in one set of statistics. Tied statistics
are among them, since states expect different ones.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.bound_rows import BoundRows, KeptStatistics
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise
from crossfade.tradeoff.passes import RowPasses


class StatePasses(RowPasses):
    """Passes over rows by what states expect; designs have one block for each state."""

    by_state: ClassVar[bool] = True

    @classmethod
    def beside(cls, passes: BoundRows, rows: LabelledRows) -> Self:
        """Return the passes over other rows, with the same parameters."""
        kept = KeptStatistics(rows, passes.density)
        return cls(
            rows, passes.bound, passes.class_weights, passes.has_gaps, True, passes.n_tied, kept
        )

    def row_coefficients(self, theta: Floats) -> tuple[Floats, Floats, Floats | None]:
        """Return η, the offset of T itself and A, by state."""
        eta = self.natural(theta)
        offset = self.split(theta)[1] - eta @ self.mean
        return eta, offset, self.density.log_partition(eta)

    def block_scores(
        self, rows: slice | Integers, eta: Floats, offset: Floats, absent: Floats | None
    ) -> tuple[Any, Floats | None, Floats]:
        """Return what states expect of the block, which factors are missing, and scores."""
        assert absent is not None
        X = self.rows.block(rows)
        given = self.density.conditional(X, eta)
        scores = self.density.conditional_scores(given, eta, absent)
        return given, self.density.left_out(X), scores + offset

    def block_sums(self, carrier: Any, missing: Floats | None, R: Floats) -> tuple[Floats, Floats]:
        """Return Σ_i R_ir E_r[T̃_i] over all statistics, (n_states, n_statistics), and Σ_i R_ir."""
        sums, mass = self.density.conditional_sums(carrier, R), R.sum(axis=0)
        present = np.repeat(mass[:, None], self.density.n_factors, axis=1)
        if missing is not None:
            present -= R.T @ missing
        return (sums - present[:, self.factors] * self.mean) / self.scale, mass

    def free_and_tied(self, sums: Floats) -> tuple[Floats, Floats]:
        """Return what :meth:`block_sums` gives of free statistics, and of tied ones in all."""
        return sums[:, self.free_places], sums[:, self.tied].sum(axis=0)

    def design(
        self, rows: slice | Integers, eta: Floats, offset: Floats, absent: Floats | None
    ) -> tuple[Floats, Floats, Floats | None]:
        """Return (E_r[T̃], missing factors, 1), (n_states, n_rows, …), posteriors and weights."""
        X = self.rows.block(rows)
        _, missing, scores = self.block_scores(rows, eta, offset, absent)
        gaps = np.zeros((len(X), self.density.n_factors)) if missing is None else missing
        T = self.density.conditional_statistics(X, eta)
        T -= ((1.0 - gaps)[:, self.factors] * self.mean)[:, None]
        T /= self.scale
        rest = np.hstack([gaps, np.ones((len(X), 1))])
        rest = np.broadcast_to(rest, (len(eta), *rest.shape))
        Z = np.concatenate([T.swapaxes(0, 1), rest], axis=2)
        return Z, log_normalise(scores)[1], self.rows.block_weights(rows)

    def design_spread(self, rows: slice, eta: Floats, weights: Floats) -> Floats | None:
        """Return Σ_i weights_ir cov_r(T̃_i | its cells), None for nothing."""
        found = self.density.conditional_spread(self.rows.block(rows), weights, eta)
        return None if found is None else found / np.outer(self.scale, self.scale)

    def tied_statistics(self, rows: slice | Integers) -> Floats:
        """Return none: they are in the design."""
        return np.zeros((len(self.rows.block(rows)), self.n_tied))

    def coefficient_maps(self, theta: Floats) -> Floats:
        """Return d(coefficients of a row's design in state r)/dθ.

        Shapes: → (n_states, width, n_parameters).
        """
        k, p, m, every = self.n_classes, self.n_free, self.density.n_factors, self.tied.size
        maps = np.zeros((k, every + m + 1, self.n_parameters))
        free, tied, slope = (
            np.flatnonzero(self.free),
            np.flatnonzero(self.tied),
            self.at(theta).slope,
        )
        for r in range(k):
            own = r * p + np.arange(p)
            shared = k * (p + 1) + np.arange(tied.size)
            for statistics, places in ((free, own), (tied, shared)):
                maps[r, statistics, places] = 1.0
                maps[r, every + self.factors[statistics], places] = slope[r, statistics]
            maps[r, -1, k * p + r] = 1.0
        return maps
