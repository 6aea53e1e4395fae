"""Each class's own block of the Hessian, inverted: whole, or among the rows where these are few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.passes import RowPasses

#: Largest block of each class's own.
LARGEST_CLASS = 500

#: Rows whose curvature stands for all rows' in the preconditioner.
SAMPLE = 4_096

#: Doubles in the weighted rows of all classes (64 MB), at most, where blocks are inverted among the
#: rows.
_ROW_SPACE = 8_000_000

#: Statistics of a factor from which the densities' whole curvature costs less than its products.
_MANY_PRODUCTS = 30


def has_class_blocks(objective: TradeoffObjective) -> bool:
    """Return whether each class's own block of the Hessian can be inverted."""
    small = objective.passes.n_free <= LARGEST_CLASS
    return objective.density.forms_statistics and (small or is_short(objective))


def is_short(objective: TradeoffObjective) -> bool:
    """Return whether rows are so few that blocks are inverted among them."""
    passes, few = objective.passes, min(objective.rows.n_samples, SAMPLE)
    if few > passes.n_free or not objective.density.forms_statistics:
        return False
    weighted_rows = passes.n_free * few
    factors_blocks = int((np.bincount(passes.free_factors) ** 2).sum())
    return factors_blocks <= weighted_rows and passes.n_classes * weighted_rows <= _ROW_SPACE


def some_rows(objective: TradeoffObjective) -> RowPasses:
    """Return passes over the rows whose curvature stands for all rows'."""
    rows = objective.rows.sampled(min(1.0, SAMPLE / objective.rows.n_samples))
    return objective.passes.over(replace(rows, is_part=True))


def _slopes(objective: TradeoffObjective, theta: Floats) -> Floats:
    """Return the slopes of A in the free weights, 0 where densities have no part, (K, p)."""
    passes, bound = objective.passes, objective.bound
    if objective.tradeoff == 0.0:
        return np.zeros((passes.n_classes, passes.n_free))
    mean = objective.density.mean(passes.natural(theta))
    slopes: Floats = ((mean - bound.statistic_mean) / bound.statistic_scale)[:, passes.free]
    return slopes


def _weighted_rows(
    objective: TradeoffObjective, theta: Floats, slope: Floats
) -> Iterator[tuple[int, Floats, float]]:
    """Yield a class and √(w τ(1-τ)(1-λ)) times its (T̃, 1) of a sample's rows, block by block.

    With what the rows weigh, told once for all classes.
    """
    p, lam = objective.passes.n_free, objective.tradeoff
    some = some_rows(objective)
    eta, offset, absent = objective.passes.row_coefficients(theta)
    size = objective.passes.block_rows
    for first in range(0, some.rows.n_samples if lam < 1.0 else 0, size):
        Z, posterior, weights = some.design(slice(first, first + size), eta, offset, absent)
        seen = float(Z.shape[0] if weights is None else weights.sum())
        if absent is None:
            own, missing = Z, None
        else:
            # A missing factor's term is A_f(η_k): its slope is the class's mean.
            own = np.ascontiguousarray(np.delete(Z, np.s_[p:-1], axis=1))
            missing = Z[:, p:-1][:, objective.passes.free_factors]
        for c in range(objective.passes.n_classes):
            v = posterior[:, c] * (1.0 - posterior[:, c]) * (1.0 - lam)
            root = np.sqrt(v if weights is None else v * weights)[:, None]
            if missing is None:
                scaled = own * root
            else:
                scaled = own.copy()
                scaled[:, :p] += missing * slope[c]
                scaled *= root
            yield c, scaled, 0.0 if c else seen


class Inverted:
    """The inverses of the classes' own blocks (W_k, c_k), the rows' part from a sample of them."""

    def __init__(self, objective: TradeoffObjective, theta: Floats) -> None:
        k, p, lam = objective.passes.n_classes, objective.passes.n_free, objective.tradeoff
        density, total = objective.density, objective.n_rows
        slope, seen = _slopes(objective, theta), 0.0
        blocks = np.zeros((k, p + 1, p + 1))
        for c, scaled, weight in _weighted_rows(objective, theta, slope):
            blocks[c] += scaled.T @ scaled
            seen += weight
        if lam < 1.0:
            blocks *= total / seen
        blocks[:, np.arange(p), np.arange(p)] += (1.0 - lam) * objective.l2
        if lam > 0.0:
            inner = density.free_hessian(objective.passes.natural(theta))
            weight_of = objective.partition_weight(theta)[:, objective.passes.free_factors]
            columns = _columns_of_log_z(objective, slope)
            for c in range(k):
                blocks[c] += np.outer(columns[c], columns[c])
                root = np.sqrt(weight_of[c]) / objective.passes.scale[objective.passes.free]
                blocks[c, :p, :p] += inner[c] * root * root[:, None]
        floor = 1e-8 * np.maximum(np.trace(blocks, axis1=1, axis2=2) / (p + 1), 1e-300)
        blocks[:, np.arange(p + 1), np.arange(p + 1)] += floor[:, None]
        self._inverses = np.linalg.inv(blocks)

    def solve(self, right: Floats) -> Floats:
        """Return the solutions of the classes' systems, (K, p + 1)."""
        solved: Floats = (self._inverses @ right[:, :, None])[:, :, 0]
        return solved


def _columns_of_log_z(objective: TradeoffObjective, slope: Floats) -> Floats:
    """Return what a class's own block has of log Z, as a root, (K, p + 1)."""
    share = objective.passes.class_weights / objective.n_rows
    root = np.sqrt(objective.tradeoff * objective.n_rows * share * (1.0 - share))
    columns: Floats = np.column_stack([slope, np.ones(len(slope))]) * root[:, None]
    return columns


class InRowSpace:
    """The same inverses where rows are few: of D + U'U by that of I + U D⁻¹ U' (Woodbury 1950).

    D is what the densities and the penalty add, a block for each factor.
    """

    def __init__(self, objective: TradeoffObjective, theta: Floats) -> None:
        k, p, lam = objective.passes.n_classes, objective.passes.n_free, objective.tradeoff
        n_rows = min(objective.rows.n_samples, SAMPLE) if lam < 1.0 else 0
        slope, seen, ends = _slopes(objective, theta), 0.0, np.zeros(k, dtype=np.int64)
        U = np.zeros((k, n_rows + 1, p + 1))
        for c, scaled, weight in _weighted_rows(objective, theta, slope):
            U[c, ends[c] : ends[c] + len(scaled)] = scaled
            ends[c] += len(scaled)
            seen += weight
        if seen < objective.n_rows and lam < 1.0:
            U *= np.sqrt(objective.n_rows / seen)
        U[:, -1] = _columns_of_log_z(objective, slope)
        curvature = np.einsum("krp,krp->kp", U, U)
        self._places = _by_factor(objective.passes.free_factors)
        blocks = self._own_blocks(objective, theta)
        total = sum((np.einsum("kfaa->k", own) for own in blocks), curvature.sum(axis=1))
        floor = np.maximum(1e-8 * total / (p + 1), 1e-300)
        for own in blocks:
            each = np.arange(own.shape[-1])
            own[..., each, each] += floor[:, None, None]
        self._inverses = [np.linalg.inv(own) for own in blocks]
        # Nearly nothing of an offset's curvature, which comes from the rows, but no zero.
        self._last = 1e-6 * curvature[:, -1] + floor
        self._U, self._solved = U, self._apart(U)
        core = self._solved @ U.transpose(0, 2, 1)
        each = np.arange(n_rows + 1)
        core[:, each, each] += 1.0
        self._core = np.linalg.inv(core)

    def _own_blocks(self, objective: TradeoffObjective, theta: Floats) -> list[Floats]:
        """Return D but for offsets, (K, n_factors, r, r) for factors of each size r."""
        passes, lam = objective.passes, objective.tradeoff
        k, largest = passes.n_classes, self._places[-1].shape[1] if self._places else 0
        blocks = [np.zeros((k, *places.shape, places.shape[1])) for places in self._places]
        if lam > 0.0:
            natural = passes.natural(theta)
            index, scale = np.flatnonzero(passes.free), passes.scale[passes.free]
            weight = objective.partition_weight(theta)[:, passes.free_factors] / scale
            if largest > _MANY_PRODUCTS and k * passes.n_free**2 <= _ROW_SPACE:
                whole = objective.density.free_hessian(natural)
                for places, own in zip(self._places, blocks, strict=True):
                    one, other = places[:, :, None], places[:, None, :]
                    own += whole[:, one, other] * (weight[:, one] / scale[other])
                largest = 0  # nothing is left to do
            for a in range(largest):
                # One statistic of each factor at a time: factors have nothing to do with others.
                some = [places[:, a] for places in self._places if places.shape[1] > a]
                chosen, direction = np.concatenate(some), np.zeros(natural.shape)
                direction[:, index[chosen]] = 1.0 / scale[chosen]
                column = weight * objective.density.hessian_product(natural, direction)[:, index]
                for places, own in zip(self._places, blocks, strict=True):
                    if places.shape[1] > a:
                        own[..., a] = column[:, places]
        for own in blocks:
            diagonal = np.arange(own.shape[-1])
            own[..., diagonal, diagonal] += (1.0 - lam) * objective.l2
        return blocks

    def _apart(self, right: Floats) -> Floats:
        """Return D⁻¹ times each row of what is given, (K, n, p + 1)."""
        found = np.empty_like(right)
        found[:, :, -1] = right[:, :, -1] / self._last[:, None]
        for places, inverses in zip(self._places, self._inverses, strict=True):
            if places.shape[1] == 1:
                found[:, :, places[:, 0]] = right[:, :, places[:, 0]] * inverses[:, None, :, 0, 0]
                continue
            by_factor = right[:, :, places].transpose(0, 2, 1, 3)  # K, factors, n, r
            found[:, :, places] = (by_factor @ inverses).transpose(0, 2, 1, 3)
        return found

    def solve(self, right: Floats) -> Floats:
        """Return the solutions of the classes' systems, (K, p + 1)."""
        first = self._apart(right[:, None, :])[:, 0]
        inner = self._core @ (self._U @ first[:, :, None])
        found: Floats = first - (inner.transpose(0, 2, 1) @ self._solved)[:, 0]
        return found


class OfDensities:
    """The inverses of what densities give the blocks at λ > 0, which they know in closed form.

    That is D∇²A + m ss' for a class's weights, m s between them and its offset, and m for the
    offset: s the slope of A, D the counts, smoothing included, m the class's weight. Near the
    barrier nothing else matters.
    """

    def __init__(self, objective: TradeoffObjective, theta: Floats) -> None:
        passes, bound, lam = objective.passes, objective.bound, objective.tradeoff
        self._density, self._scale, self._free = passes.density, passes.scale, passes.free
        self._eta, self._slope = passes.natural(theta), passes.at(theta).slope[:, passes.free]
        least = 1e-6 * objective.n_rows
        self._mass = lam * np.maximum(passes.class_weights, least)
        self._counts = lam * np.maximum(bound.counts + bound.prior_counts, least)[:, passes.factors]
        # Where a factor's free parameters are none, its tied statistics go with no other.
        self._alone = None
        if passes.n_tied:
            with_tied = np.isin(passes.factors, passes.factors[passes.tied]) & passes.free
            self._alone = np.where(with_tied, 0.0, self._eta)

    def _inverse(self, vector: Floats) -> Floats:
        inner = self._density.inverse_hessian_product(self._eta, vector * self._scale)
        found: Floats = inner * self._scale / self._counts
        return found

    def solve(self, right: Floats) -> Floats:
        """Return the solutions of the classes' systems, (K, p + 1)."""
        vector = np.zeros(self._eta.shape)
        vector[:, self._free] = right[:, :-1] - right[:, -1:] * self._slope
        found = self._inverse(vector)
        if self._alone is not None:
            # The inverse's block of the free ones is not the inverse of their block: take from it
            # what the tied ones answer. Their own block of the inverse does not depend on the rest.
            tied = np.where(self._free, 0.0, found)
            held = self._density.hessian_product(self._alone, tied / self._scale)
            held *= self._counts / self._scale
            found -= self._inverse(np.where(self._free, 0.0, held))
        weights = found[:, self._free]
        offsets = right[:, -1] / self._mass - (self._slope * weights).sum(axis=1)
        return np.column_stack([weights, offsets])


def _by_factor(factors: Integers) -> list[Integers]:
    """Return the places of each factor's statistics, (n_factors, r) for each size r, rising.

    Shapes: factors (p,).
    """
    order = np.argsort(factors, kind="stable")
    _, first, counts = np.unique(factors[order], return_index=True, return_counts=True)
    return [order[first[counts == size][:, None] + np.arange(size)] for size in np.unique(counts)]
