"""Each class's own block of the Hessian, inverted: whole, or each factor's own part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.bound_rows import by_factor
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.passes import RowPasses

#: Rows from which curvature is taken from a share of them.
MANY_ROWS = 20_000

#: Parameters up to which Newton's steps cost next to nothing; the share of levels that are most.
_SMALL, _MOSTLY = 300, 0.5

#: Parameters up to which Newton's steps on few rows pay where most columns have levels or one
#: statistic, of which blocks tell nearly all.
_SMALL_OF_SIMPLE = 200

#: Largest block of each class's own, and up to which it is inverted in the time that it saves.
LARGEST_CLASS, _CHEAPLY_INVERTED = 500, 100

#: Rows whose curvature stands for all rows' in the preconditioner.
SAMPLE = 4_096

#: Statistics of a factor, but for indicators, up to which its block is formed by itself.
_SMALL_FACTOR = 8


def has_class_blocks(objective: TradeoffObjective) -> bool:
    """Return whether each class's own block of the Hessian can be inverted."""
    return objective.density.forms_statistics and objective.passes.n_free <= LARGEST_CLASS


def has_small_factors(objective: TradeoffObjective) -> bool:
    """Return whether each factor's own block of the Hessian is small, or that of indicators."""
    if objective.density.reads_words or not objective.exact_labels:
        return False
    passes = objective.passes
    others = passes.free_factors[~objective.density.indicators[passes.free]]
    return int(np.bincount(others, minlength=1).max()) <= _SMALL_FACTOR


def has_many_classes(objective: TradeoffObjective) -> bool:
    """Return whether the classes' own blocks of the Hessian cost little against the whole."""
    if not objective.exact_labels or not objective.density.forms_statistics:
        return False
    # What classes share is no block of one class: it does not count here.
    own = objective.n_parameters - objective.passes.n_tied
    return own > max(LARGEST_CLASS, 5 * objective.passes.n_free)


def by_factors_pays(objective: TradeoffObjective) -> bool:
    """Return whether steps that begin from factors' own blocks end sooner than Newton's.

    They do where rows are few or classes many with large blocks, where levels make up most
    parameters, and where missing cells bend the function: there Newton's steps are many, too.
    Columns of numbers that go together take more of the others than they save.
    """
    passes, rows = objective.passes, objective.rows
    if rows.is_part or rows.n_samples >= MANY_ROWS or not has_small_factors(objective):
        return False
    if is_short(objective):
        return True
    if has_many_classes(objective) and has_class_blocks(objective):
        return passes.n_free > _CHEAPLY_INVERTED
    if objective.n_parameters <= _SMALL:
        return False
    bends = objective.has_missing and objective.tradeoff > 0.0
    levels = int(np.count_nonzero(objective.density.indicators[passes.free]))
    held = objective.tradeoff > 0.0 or objective.l2 > 0.0
    return bends or (held and levels > _MOSTLY * passes.n_free)


def is_short(objective: TradeoffObjective) -> bool:
    """Return whether rows are so few, of many parameters, that a step by factors pays most."""
    passes, factors = objective.passes, objective.passes.free_factors
    if objective.rows.n_samples > passes.n_free:
        return False
    simple = objective.density.indicators[passes.free] | (np.bincount(factors)[factors] == 1)
    mostly = np.count_nonzero(simple) > _MOSTLY * passes.n_free
    small = _SMALL_OF_SIMPLE if mostly else _SMALL
    return objective.n_parameters > small and has_small_factors(objective)


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


class OfFactors:
    """The inverses of the classes' own blocks without what rows couple of different factors.

    A factor's own is what its density gives, and a diagonal: what rows and the penalty add. Of
    indicators that is a diagonal and one of rank one. What log Z adds is as :class:`OfDensities`
    has it.
    """

    def __init__(self, objective: TradeoffObjective, theta: Floats) -> None:
        passes, lam, k = objective.passes, objective.tradeoff, objective.passes.n_classes
        total, natural = objective.n_rows, passes.natural(theta)
        added, of_rows, weight = np.zeros((k, passes.n_free)), np.zeros(k), None
        self._slope, self._mass = np.zeros_like(added), np.zeros(k)
        if lam < 1.0:
            added, of_rows = passes.row_curvature(theta).own_squares(theta)
            added = (1.0 - lam) * (added + objective.penalty * (1.0 - 1.0 / k))
            of_rows = (1.0 - lam) * of_rows
        if lam > 0.0:
            self._slope = passes.at(theta).slope[:, passes.free]
            self._mass = lam * np.maximum(passes.class_weights, 1e-6 * total)
            weight = objective.partition_weight(theta)[:, passes.free_factors]
            weight /= passes.free_scale**2
        share = np.maximum(passes.class_weights / total, 1.0 / total)
        self._of_rows = np.maximum(of_rows, 1e-3 * total * share * (1.0 - share))
        added = added + 1e-8 * np.maximum(added.mean(axis=1, keepdims=True), 1e-8 * total)
        one = objective.density.indicators[passes.free]
        self._own, others = np.flatnonzero(one), np.flatnonzero(~one)
        # Of indicators: diag(d) - m p p', of which d is m p + added.
        p = np.zeros((k, self._own.size))
        m = np.zeros_like(p)
        if weight is not None:
            p, m = objective.density.mean(natural)[:, passes.free][:, one], weight[:, one]
        self._inverse = 1.0 / (added[:, one] + m * p)
        self._root = np.sqrt(m) * p * self._inverse
        self._factor = np.unique(passes.free_factors[one], return_inverse=True)[1]
        rest = self._sums(p * added[:, one] * self._inverse)
        self._rest = np.maximum(rest + np.maximum(1.0 - self._sums(p), 0.0), 1e-12)
        self._places = [others[own] for own in _by_factor(passes.free_factors[others])]
        self._blocks = []
        for places in self._places:
            blocks = added[:, places][..., None] * np.eye(places.shape[1])
            if weight is not None:
                blocks += _curvature_of(objective, natural, places, weight)
            self._blocks.append(np.linalg.inv(blocks))
        self._solved = self._apart(self._slope)
        self._stiff = (self._slope * self._solved).sum(axis=1)

    def _sums(self, values: Floats) -> Floats:
        """Return sums over the indicators of each factor, (K, n_factors)."""
        return by_factor(values, self._factor, int(self._factor.max(initial=-1)) + 1)

    def _apart(self, weights: Floats) -> Floats:
        """Return the solutions of factors' own systems, (K, p)."""
        found = np.empty_like(weights)
        own = weights[:, self._own]
        along = self._sums(self._root * own) / self._rest
        found[:, self._own] = self._inverse * own + self._root * along[:, self._factor]
        for places, inverses in zip(self._places, self._blocks, strict=True):
            found[:, places] = np.einsum("kfab,kfb->kfa", inverses, weights[:, places])
        return found

    def solve(self, right: Floats) -> Floats:
        """Return the solutions of the classes' systems, (K, p + 1)."""
        found = self._apart(right[:, :-1])
        mass, of_rows, last = self._mass, self._of_rows, right[:, -1]
        along = (self._slope * found).sum(axis=1)
        pull = (of_rows * along + last) / (of_rows + mass * (1.0 + of_rows * self._stiff)) * mass
        found -= pull[:, None] * self._solved
        return np.column_stack([found, (last - pull) / of_rows])


def _curvature_of(
    objective: TradeoffObjective, natural: Floats, places: Integers, weight: Floats
) -> Floats:
    """Return the densities' own blocks of factors of one size, (K, n_factors, r, r).

    Shapes: places (n_factors, r); weight (K, p), by s².
    """
    passes = objective.passes
    index, scale = np.flatnonzero(passes.free)[places], passes.free_scale[places]
    found = np.empty((passes.n_classes, *places.shape, places.shape[1]))
    for a in range(places.shape[1]):
        direction = np.zeros(natural.shape)
        direction[:, index[:, a]] = 1.0 / scale[:, a]
        column = objective.density.hessian_product(natural, direction)[:, index]
        found[..., a] = column * weight[:, places] * scale
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
