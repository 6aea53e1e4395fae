"""Numeric observations: :class:`DensityEmission` gives a chain any density.

So that a new :class:`crossfade.densities.base.Density` works in a hidden Markov model at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._checks import counted
from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, for_each_block
from crossfade.chains.input import Layout, stack_numbers
from crossfade.densities import (
    Density,
    Gaussian,
    JohnsonSU,
    MultivariateGaussian,
    Univariate,
    reference_rows,
)
from crossfade.densities.base import Bound
from crossfade.errors import DataError, NotADensityError
from crossfade.hmm.emission import Emission, Scorer

#: Rows looked at when starting points are drawn.
_START_ROWS = 20_000


@dataclass(frozen=True)
class DensityEmission(Emission):
    """Numeric columns with any density.

    `bound`: Prior and bound density once data are known.
    """

    density: Density
    bound: Bound | None = None
    small_sums = True
    shiftable = False

    def read(self, X: Any, lengths: ArrayLike | None) -> tuple[Floats, Layout]:
        return stack_numbers(X, lengths)

    def any_observed(self, raw: Floats) -> bool:
        return not bool(np.isnan(raw).all())

    def observe(self, raw: Floats) -> Floats:
        density = self._ready.density
        if len(raw) == 0:
            return np.zeros((0, density.n_features))
        if raw.shape[1] != density.n_features:
            raise DataError(
                f"X: expected {counted(density.n_features, 'column')} as in fit, got {raw.shape[1]}"
            )
        density.check(self._filled(raw)[0])
        return raw

    def _filled(self, rows: Floats) -> tuple[Floats, Any]:
        """Return rows fit for a density that knows no missing cells, and which rows to ignore."""
        if self.density.allows_missing:
            return rows, None
        missing = np.isnan(rows)
        if not missing.any():
            return rows, None
        gone = missing.any(axis=1)
        partly = gone & ~missing.all(axis=1)
        if partly.any():
            raise DataError(
                f"X: expected steps with all columns or none, got {rows[partly][0]!r}; "
                f"{type(self.density).__name__} has one factor, use emission='gaussian' for steps "
                "with some columns missing"
            )
        return np.where(missing, 0.0, rows), gone

    def bind(self, raw: Floats, codes: Integers | None, n_states: int) -> DensityEmission:
        filled, gone = self._filled(raw)
        present = np.flatnonzero(~gone) if gone is not None else np.arange(len(raw))
        if len(present) == 0:
            raise DataError("X: expected at least one step, got none; pass non-empty sequences")
        begun = self.density.begin(reference_rows(filled[present]), scales=False)
        if codes is None:
            # The prior of a state is that of an even share of all steps.
            codes = np.arange(len(raw), dtype=np.int64) % n_states
        known = codes >= 0 if gone is None else (codes >= 0) & ~gone
        codes = np.maximum(codes, 0)

        def work(rows: slice) -> Any:
            weights = None if known[rows].all() else known[rows].astype(np.float64)
            return begun.summary(filled[rows], codes[rows], weights, n_states)

        return replace(self, bound=begun.bind(block_sum(work, len(raw))))

    @property
    def _ready(self) -> Bound:
        assert self.bound is not None
        return self.bound

    def potentials(self, theta: Floats, absent: Floats | None = None) -> Scorer:
        density = self._ready.density
        partition = density.log_partition(theta) if absent is None else absent
        is_density = bool(np.isfinite(partition).all())

        def scorer(observations: Floats) -> Floats:
            rows, gone = self._filled(observations)
            with np.errstate(over="ignore", invalid="ignore"):
                values = density.scores(rows, theta)
            self._refuse_far(rows, values, theta)
            missing = density.missing_factors(rows)
            if not is_density and (missing is not None or gone is not None):
                raise NotADensityError(
                    "X: expected no missing cell, since the fit left no density to integrate it "
                    "out of (a variance that is not positive), got one; fit with tradeoff > 0"
                )
            if missing is not None:
                values += missing.astype(np.float64) @ partition.T
            if gone is not None:
                values[gone] = partition.sum(axis=1)  # all a state emits
            return np.ascontiguousarray(values)

        return scorer

    @staticmethod
    def _refuse_far(rows: Floats, values: Floats, theta: Floats) -> None:
        """Refuse cells whose scores are no numbers, or that no state can have."""
        lost = ~(values < np.inf).all(axis=1) | (values == -np.inf).all(axis=1)
        if lost.any() and np.isfinite(theta).all():
            raise DataError(
                "X: expected numbers near enough to those of fit for their scores to be "
                f"computed, got {float(np.nanmax(np.abs(rows[lost]))):g}; correct the cell, or "
                "make it missing where it is unknown"
            )

    def log_likelihoods(self, theta: Floats) -> Scorer:
        density = self._ready.density

        def scorer(observations: Floats) -> Floats:
            rows, gone = self._filled(observations)
            with np.errstate(over="ignore", invalid="ignore"):
                values = density.log_density(rows, theta)
            values[np.isnan(values)] = -np.inf  # farther than numbers can tell
            if gone is not None:
                values[gone] = 0.0
            return np.ascontiguousarray(values)

        return scorer

    def partition(self, theta: Floats) -> Floats:
        return self._ready.density.log_partition(theta)

    def partition_gradient(self, theta: Floats, weights: Floats) -> Floats:
        density = self._ready.density
        return weights[:, density.factors] * density.mean(theta)

    @property
    def factors(self) -> Integers:
        return self._ready.density.factors

    def sums(self, observations: Floats, weights: Floats) -> tuple[Floats, Floats]:
        density = self._ready.density
        counts = np.repeat(weights.sum(axis=0)[:, None], density.n_factors, axis=1)
        missing = self.missing_counts(observations, weights)
        if missing is not None:
            counts -= missing
        rows, gone = self._filled(observations)
        if gone is not None:
            weights = np.where(gone[:, None], 0.0, weights)
        return counts, density.weighted_sums(rows, weights)

    def missing_counts(self, observations: Floats, weights: Floats) -> Floats | None:
        density = self._ready.density
        if density.allows_missing:
            absent = density.missing_factors(observations)
        else:
            gone = self._filled(observations)[1]
            absent = None if gone is None else np.repeat(gone[:, None], density.n_factors, axis=1)
        return None if absent is None else weights.T @ absent.astype(np.float64)

    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        bound = self._ready
        # Rounding may leave a missing factor a count below zero.
        total = np.maximum(counts, 0.0) + bound.prior_counts
        theta = bound.density.estimate(total, sums + bound.prior_sums)
        if previous is not None:
            unseen = ~(total > 1e-12)[:, bound.density.factors]
            theta = np.where(unseen, previous, theta)
        return theta

    def prior(self) -> tuple[Floats, Floats]:
        return self._ready.prior_counts, self._ready.prior_sums

    def log_prior(self, theta: Floats) -> float:
        bound = self._ready
        partition = bound.density.log_partition(theta)
        if not np.isfinite(partition).all():
            return -np.inf
        return float((theta * bound.prior_sums).sum() - (partition * bound.prior_counts).sum())

    def random_weights(
        self, observations: Floats, n_states: int, rng: np.random.Generator
    ) -> Floats:
        rows = observations
        if len(rows) > _START_ROWS:
            rows = rows[np.sort(rng.choice(len(rows), _START_ROWS, replace=False))]
        present = ~np.isnan(rows)
        n_present = np.maximum(present.sum(axis=0), 1)
        centre = np.where(present, rows, 0.0).sum(axis=0) / n_present
        spread = np.sqrt((np.where(present, rows - centre, 0.0) ** 2).sum(axis=0) / n_present)
        spread[spread == 0.0] = 1.0

        def points(table: Floats) -> Floats:
            # A missing cell lies at its column's mean.
            return np.nan_to_num((table - centre) / spread)

        centres = _spread_out(points(rows), n_states, rng)
        # Not all of a step goes to its nearest state: no observation starts out impossible.
        weights = np.full((len(observations), n_states), 0.1 / n_states)

        def work(block: slice) -> None:
            nearest = _nearest(points(observations[block]), centres)
            weights[np.arange(block.start, block.stop), nearest] += 0.9

        for_each_block(work, len(observations))
        return weights

    def order(self, theta: Floats) -> Integers:
        means = self._ready.density.mean(theta)
        return np.lexsort(means.T[::-1])

    def coefficients(self, sums: Floats) -> tuple[Floats, Floats, list[str], list[list[str]]]:
        density = self._ready.density
        free = np.flatnonzero(~density.tied)
        names = [f"x{j}" for j in range(density.n_features)]
        found = density.terms(names, [None] * len(names))
        each, each_constant = density.column_units_coefficients(np.eye(free.size))
        slopes, constants = np.zeros((density.tied.size, len(found))), np.zeros(density.tied.size)
        slopes[free], constants[free] = each, each_constant
        columns = [[names[j] for j in term.columns] for term in found]
        return slopes, constants, [term.name for term in found], columns

    def in_usual_terms(self, theta: Floats) -> dict[str, Any]:
        density = self._ready.density
        if not np.isfinite(density.log_partition(theta)).all():
            return {}
        normal = not isinstance(density, JohnsonSU)
        if normal and isinstance(density, (MultivariateGaussian, Gaussian)):
            means, covariances = density.moments(theta)
            return {"means_": means, "covars_": covariances}
        if isinstance(density, Univariate) and density.linear_in_columns:
            return {"means_": density.column_mean(theta[..., None])[..., 0]}
        return {}

    def sample(self, theta: Floats, codes: Integers, rng: np.random.Generator) -> Floats:
        density = self._ready.density
        values = np.empty((len(codes), density.n_features))
        for state in range(len(theta)):
            steps = np.flatnonzero(codes == state)
            values[steps] = density.sample(theta[state], len(steps), rng)
        return values

    def n_free(self, n_states: int) -> int:
        tied = self._ready.density.tied
        return int(n_states * (~tied).sum() + tied.sum())

    def tied(self, n_parameters: int) -> Any:
        return self._ready.density.tied


def _nearest(points: Floats, centres: Floats) -> Integers:
    distance = (centres**2).sum(axis=1) - 2.0 * points @ centres.T
    return distance.argmin(axis=1)


def _spread_out(points: Floats, n_centres: int, rng: np.random.Generator) -> Floats:
    """Return centres by k-means++ and a few of Lloyd's steps (Arthur & Vassilvitskii 2007)."""
    centres = [points[rng.integers(len(points))]]
    distance = np.full(len(points), np.inf)
    while len(centres) < n_centres:
        distance = np.minimum(distance, ((points - centres[-1]) ** 2).sum(axis=1))
        total = distance.sum()
        share = distance / total if total > 0 else np.full(len(points), 1.0 / len(points))
        centres.append(points[rng.choice(len(points), p=share)])
    found = np.array(centres)
    for _ in range(10):
        codes = _nearest(points, found)
        for k in range(n_centres):
            if (codes == k).any():
                found[k] = points[codes == k].mean(axis=0)
    return found
