"""Where rows meet parameters: the blocks of scores, sums and curvature that the objective adds up.

The statistics here are the *free* ones (tied statistics change no posterior) standardised to
T̃ = (T - mean)/scale, and a row's design is (T̃, missing factors, 1): its class scores are linear in
it, with coefficients that :meth:`RowPasses.row_coefficients` derives from a parameter vector.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block, workspace
from crossfade.rowwise import FEW_ENTRIES, logistic_pass, standardise_rows
from crossfade.tradeoff.bound_rows import KEPT_DOUBLES, BoundRows, Indicated, by_factor
from crossfade.tradeoff.labelled_rows import WORD_ROWS, log_normalise, normalise_differences
from crossfade.tradeoff.row_curvature import RowCurvature
from crossfade.tradeoff.word_rows import WordRows

#: Standard deviations from zero beyond which a column is standardised before it is used.
_FAR_FROM_ZERO = 1e3

#: Doubles in a block's statistics: 2 MB. Smaller blocks would have threads wait for each other.
_BLOCK_DOUBLES = 262_144


class RowPasses(BoundRows):
    """Passes over the rows.

    `by_state`: Whether statistics are what each state expects of them, tied ones among them.
    """

    by_state: ClassVar[bool] = False

    @cached_property
    def standardisation(self) -> tuple[bool, Floats, Floats]:
        """Return whether columns serve as they are, and x0 and 1/s with T̃ = (carried - x0)/s.

        Blocks carry their free statistics. Where these are the columns up to scale and origin, the
        columns themselves serve, and no copy of a block is made; but not where a column lies so
        far from zero, against its spread, that digits would be lost.
        """
        inverse = 1.0 / self.free_scale
        as_formed = False, self.free_mean, inverse
        if not self.density.linear_in_columns or self.rows.has_missing:
            return as_formed
        slopes, constants = self.density.column_units_coefficients(np.eye(self.n_free))
        moved = (self.free_mean - constants) * inverse
        inverse = np.diagonal(slopes) * inverse
        if np.abs(moved).max(initial=0.0) > _FAR_FROM_ZERO:
            return as_formed
        origin = np.divide(moved, inverse, out=np.zeros_like(moved), where=inverse > 0.0)
        return True, origin, inverse

    def carried(self, rows: slice | Integers, *, by_rows: bool = True) -> Floats:
        """Return what scores and sums of a block are taken from: not to be changed.

        `by_rows`: Whether rows must lie in one piece each.
        """
        if self.standardisation[0]:
            return self.rows.block(rows) if by_rows else self.rows.block_as_it_lies(rows)
        kept = self.kept.whole
        if kept is not None:
            return kept[rows]
        return self.density.free_statistics(self.rows.block(rows))

    def coefficients(self, standardised: Floats) -> tuple[Floats, Floats]:
        """Return weights of T̃ as weights of what blocks carry, and what that adds to offsets."""
        if self.as_counted:
            return standardised, np.zeros(len(standardised))
        _, origin, inverse = self.standardisation
        slopes = standardised * inverse
        return slopes, -(slopes @ origin)

    @cached_property
    def block_rows(self) -> int:
        """How many rows make a block whose statistics stay in cache."""
        if self.reads_words:
            return WORD_ROWS
        indicated = self.kept.indicated
        if indicated is not None:
            width = indicated.columns.size + self.rows.X.shape[1]
        else:
            width = self.n_free if self._forms_statistics else self.rows.X.shape[1]
        return min(max(_BLOCK_DOUBLES // max(width, 1), 128), 4096)

    @cached_property
    def _forms_statistics(self) -> bool:
        return self.density.forms_statistics

    def row_coefficients(self, theta: Floats) -> tuple[Floats, Floats, Floats | None]:
        """Return slopes of what blocks carry, the offset and the missing factors' terms, by class.

        s_ik = offset_k + slopes_k·T_i + Σ_f missing_if absent_kf, up to a term common to classes.
        """
        eta, offset, absent = self._row_coefficients(theta)
        return self.turned(eta), offset, absent

    def _row_coefficients(self, theta: Floats) -> tuple[Floats, Floats, Floats | None]:
        weights, offsets, _ = self.split(theta)
        eta, moved = self.coefficients(weights)
        offset = offsets + moved
        if not self.has_missing:
            return eta, offset, None
        absent = self.absent(theta)[0] + by_factor(
            eta * self.free_mean, self.free_factors, self.density.n_factors
        )
        return eta, offset, absent

    @cached_property
    def word_rows(self) -> WordRows | None:
        """The rows as counts of words, where they are many, whole and nothing else."""
        if self.rows.is_part or self.has_missing or not (self.reads_words and self.as_counted):
            return None
        counts = self.density.only_counts(self.rows.X)
        if counts is None or counts.nnz < FEW_ENTRIES:
            return None
        return WordRows(counts, self.rows.weights)

    def turned(self, slopes: Floats) -> Floats:
        """Return slopes as blocks ask for them: of words in Fortran order, once a pass."""
        return np.asfortranarray(slopes) if self.reads_words else slopes

    def turned_differences(self, slopes: Floats) -> Floats:
        """Return slopes relative to the last class's, in the same order, made at once."""
        found = np.empty((slopes.shape[1], len(slopes) - 1)).T if self.reads_words else None
        return np.subtract(slopes[:-1], slopes[-1], out=found)

    def _full(self, free: Floats) -> Floats:
        """Return coefficients of all statistics, zero where tied."""
        if not self.tied.any():
            return free
        full = np.zeros((free.shape[0], self.tied.size))
        full[:, self.free] = free
        return full

    def block_scores(
        self, rows: slice, eta: Floats, offset: Floats, absent: Floats | None
    ) -> tuple[Floats, Floats | None, Floats]:
        """Return the block's statistics (or its columns), which factors are missing, and scores.

        The scores last until the next block.
        """
        carrier, missing = self.block_carrier(rows, missing=absent is not None)
        scores = self.block_changes(carrier, eta)
        scores += offset
        if missing is not None and absent is not None:
            scores += missing @ absent.T
        return carrier, missing, scores

    def block_carrier(self, rows: slice, *, missing: bool) -> tuple[Any, Floats | None]:
        """Return the block's statistics (or its columns), and which factors are missing."""
        indicated = self.kept.indicated
        carrier: Any
        if indicated is not None:
            carrier = indicated.take(rows)
        else:
            formed = self._forms_statistics
            carrier = self.carried(rows, by_rows=False) if formed else self.rows.block(rows)
        return carrier, self.kept.left_out(rows) if missing else None

    def block_changes(self, carrier: Any, slopes: Floats) -> Floats:
        """Return slopes_k·T_i; the scores last until the next block."""
        if isinstance(carrier, Indicated):
            return carrier.scores(slopes, workspace("scores", len(carrier.rest), len(slopes)))
        if not self._forms_statistics:
            return self.density.scores(carrier, self._full(slopes))
        return np.matmul(carrier, slopes.T, out=workspace("scores", len(carrier), len(slopes)))

    def block_sums(self, carrier: Any, missing: Floats | None, R: Floats) -> tuple[Floats, Floats]:
        """Return Σ_i R_ik T̃_i over the free statistics, (R.shape[1], n_free), and Σ_i R_ik."""
        if isinstance(carrier, Indicated):
            sums = carrier.sums(R)
        elif self._forms_statistics:
            sums = R.T @ carrier
        else:
            sums = self.density.weighted_sums(carrier, R)
            if self.tied.any():
                sums = sums[:, self.free]
        mass = self._none_and_one[1][: R.shape[0]] @ R
        if self.as_counted:
            return sums, mass
        present = mass[:, None]
        if missing is not None:
            present = (present - R.T @ missing)[:, self.free_factors]
        _, origin, inverse = self.standardisation
        return (sums - present * origin) * inverse, mass

    def free_and_tied(self, sums: Floats) -> tuple[Floats, Floats]:
        """Return what :meth:`block_sums` gives of free statistics, and of tied ones in all."""
        return sums, self.tied_totals

    def design_spread(self, rows: slice, eta: Floats, weights: Floats) -> Floats | None:
        """Return how much statistics vary given a row's cells, weighted sums by class: nothing."""
        return None

    def sums_and_squares(self, rows: slice, carrier: Any, R: Floats) -> tuple[Floats, Floats]:
        """Return Σ_i R_ik T_i and Σ_i R_ik T_i² over the free statistics, (R.shape[1], n_free)."""
        if isinstance(carrier, Indicated):
            sums = carrier.sums(R)
            squares = sums.copy()
            squares[:, carrier.columns] = R.T @ carrier.rest**2
            return sums, squares
        if self._forms_statistics and not self.standardisation[0]:
            return R.T @ carrier, R.T @ carrier**2
        X = self.rows.block(rows)
        sums, squares = self.density.weighted_sums(X, R), self.density.square_sums(X, R)
        return sums[:, self.free], squares[:, self.free]

    def design(
        self, rows: slice | Integers, eta: Floats, offset: Floats, absent: Floats | None
    ) -> tuple[Floats, Floats, Floats | None]:
        """Return a block's design (T̃, missing factors, 1), its posteriors and its weights.

        The design of a block (of up to `block_rows` rows) lasts until the next one; where cells
        are missing it may serve again, and is not to be changed.
        """
        carrier = self.carried(rows)
        scores = carrier @ eta.T
        scores += offset
        if absent is None:
            n = carrier.shape[0]
            shape = n, self.n_free + 1
            Z = workspace("design", *shape) if n <= self.block_rows else np.empty(shape)
            _, origin, inverse = self.standardisation
            standardise_rows(carrier, origin, inverse, np.ones(n), Z)
        else:
            Z = self._design_with_missing(rows, carrier)
            scores += Z[:, self.n_free : -1] @ absent.T
        return Z, log_normalise(scores)[1], self.rows.block_weights(rows)

    def _design_with_missing(self, rows: slice | Integers, carrier: Floats) -> Floats:
        p, m = self.n_free, self.density.n_factors
        few = self.rows.n_samples * (p + m + 1) <= KEPT_DOUBLES and not self.rows.is_part
        place = (rows.start, rows.stop) if few and isinstance(rows, slice) else None
        if place in self._designs:
            return self._designs[place]
        Z = np.zeros((carrier.shape[0], p + m + 1))
        _, origin, inverse = self.standardisation
        standardise_rows(carrier, origin, inverse, np.ones(carrier.shape[0]), Z[:, :p])
        Z[:, -1] = 1.0
        missing = self.kept.left_out(rows)
        if missing is not None:
            Z[:, p:-1] = missing
            Z[:, :p][missing[:, self.free_factors] > 0.0] = 0.0
        if place is not None:
            self._designs[place] = Z
        return Z

    @cached_property
    def _designs(self) -> dict[tuple[int, int] | None, Floats]:
        """Designs of blocks by their first and last row."""
        return {}

    def tied_statistics(self, rows: slice | Integers) -> Floats:
        """Return a block's standardised tied statistics, zero where missing, (n_rows, n_tied)."""
        X = self.rows.block(rows)
        tied = self.tied
        statistics = self.density.sufficient_statistics(X)[:, tied]
        statistics -= self.mean[tied]
        statistics /= self.scale[tied]
        mask = self.density.missing_factors(X) if self.has_missing else None
        if mask is not None:
            statistics[mask[:, self.factors[tied]]] = 0.0
        return statistics

    def coefficient_maps(self, theta: Floats) -> Floats:
        """Return d(coefficients of a row's design, class k)/dθ, shape (K, width, n_parameters).

        A missing factor's coefficient is A_f(η_k), whose derivative is the slope of A_f.
        """
        k, p = self.n_classes, self.n_free
        m = self.density.n_factors if self.has_missing else 0
        maps = np.zeros((k, p + m + 1, self.n_parameters))
        own = np.arange(p)
        free_index = np.flatnonzero(self.free)
        tied_index = np.flatnonzero(self.tied)[: self.n_tied]
        slope = self.absent(theta)[1] if m else None
        for c in range(k):
            maps[c, own, c * p + own] = 1.0
            maps[c, p + m, k * p + c] = 1.0
            if slope is not None:
                maps[c, p + self.factors[free_index], c * p + own] = slope[c, free_index]
                columns = k * p + k + np.arange(tied_index.size)
                maps[c, p + self.factors[tied_index], columns] = slope[c, tied_index]
        return maps

    def row_terms(self, theta: Floats, gradient: bool) -> tuple[float, Floats, Floats, Floats]:
        """Return Σ w log Σ exp s and Σ w τ of T̃, of one and of the missing factors, by class.

        Scores are taken relative to the last class: its sums follow from the totals.
        """
        if self.word_rows is not None:
            weights, offset, _ = self.split(theta)
            return *self.word_rows.terms(weights, offset, gradient), np.zeros((0, 0))
        eta, offset, absent = self._row_coefficients(theta)
        eta, offset = self.turned_differences(eta), offset[:-1] - offset[-1]
        difference = None if absent is None else absent[:-1] - absent[-1]
        last_absent = None if absent is None else self.absent(theta)[0][-1]

        two_whole = self.n_classes == 2 and not self.has_missing and self.kept.indicated is None
        two_whole = two_whole and (self.standardisation[0] or self.kept.whole is not None)

        def block(own: RowPasses, rows: slice) -> tuple[float, Floats, Floats, Floats]:
            if two_whole:
                return own._two_class_block(rows, eta[0], float(offset[0]))
            carrier, missing, scores = own.block_scores(rows, eta, offset, difference)
            log_sum, posterior = normalise_differences(scores)
            weights = own.rows.block_weights(rows)
            if missing is not None and last_absent is not None:
                # The last class's own term was left out of the differences.
                log_sum = log_sum + missing @ last_absent
            value = float(log_sum.sum() if weights is None else log_sum @ weights)
            if not gradient:
                return value, np.zeros(0), np.zeros(0), np.zeros(0)
            if weights is not None:
                posterior = posterior * weights[:, None]
            lost = (
                np.zeros((0, 0))
                if absent is None
                else np.zeros((posterior.shape[1], absent.shape[1]))
            )
            if missing is not None:
                lost = posterior.T @ missing
            return value, *own.block_sums(carrier, missing, posterior), lost

        value, sums, mass, lost = self.sum(block, self.block_rows)
        # The last class's score itself: s_K = offset_K + W_K·T̃ (missing terms added above).
        weights, offsets, _ = self.split(theta)
        value += float(offsets[-1]) * self.total + float(weights[-1] @ self.free_totals)
        if not gradient:
            return value, sums, mass, lost
        sums, mass = _with_last(sums, self.free_totals), _with_last(mass, self.total)
        if absent is not None:
            lost = _with_last(lost, self.missing_totals)
        return value, sums, mass, lost

    def _two_class_block(
        self, rows: slice, slopes: Floats, constant: float
    ) -> tuple[float, Floats, Floats, Floats]:
        """Return :meth:`_row_terms` of a block whose statistics are at hand: one loop."""
        carrier = self.carried(rows, by_rows=False)
        weights = self.rows.block_weights(rows)
        none, one = self._none_and_one
        n = carrier.shape[0]
        weights = one[:n] if weights is None else np.asarray(weights, dtype=np.float64)
        value, mass, sums = logistic_pass(carrier, slopes, constant, None, none[:n], weights, None)
        _, origin, inverse = self.standardisation
        standardised = (sums - mass * origin) * inverse
        return value, standardised[None], np.array([mass]), np.zeros((0, 0))

    @cached_property
    def _none_and_one(self) -> tuple[Floats, Floats]:
        size = min(self.rows.n_samples, self.block_rows)
        return np.zeros(size), np.ones(size)

    def row_curvature(self, theta: Floats) -> RowCurvature:
        """Return Σ w J'(diag τ - ττ')J at θ, as its products."""
        # A digest: of many words a copy would be as large as all that a solver keeps.
        key = blake2b(np.ascontiguousarray(theta).data).digest()
        last: tuple[bytes, RowCurvature] | None = self.__dict__.get("_last_curvature")
        if last is None or last[0] != key:
            self.__dict__.pop("_last_curvature", None)
            last = self.__dict__["_last_curvature"] = key, RowCurvature(self, theta)
        return last[1]

    def scores(self, theta: Floats) -> Floats:
        """Return s_ik for all rows, up to a term common to the classes, (n_samples, n_classes)."""
        eta, offset, absent = self.row_coefficients(theta)
        out = np.empty((self.rows.n_samples, self.n_classes))

        def block(rows: slice) -> None:
            out[rows] = self.block_scores(rows, eta, offset, absent)[2]

        for_each_block(block, self.rows.n_samples, block_rows=self.block_rows)
        return out


def _with_last(sums: Floats, total: Any) -> Floats:
    """Return sums by class with the last class's, which is what is left of the total."""
    found = np.empty((len(sums) + 1, *sums.shape[1:]))
    found[:-1] = sums
    found[-1] = total - sums.sum(axis=0)
    return found
