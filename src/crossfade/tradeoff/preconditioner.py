"""What stands for the Hessian's inverse where the Hessian is too large to form.

Each class's own block where these are small and rows many; else that of each factor where factors
are small; else the densities' own curvature, whose inverse they know in closed form. At λ = 0,
where they have no part, that is one dense block for all classes, from a sample of the rows, or a
diagonal where that would not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.optim.newton import factorise
from crossfade.tradeoff.class_blocks import (
    SAMPLE,
    Inverted,
    OfDensities,
    OfFactors,
    by_factors_pays,
    has_class_blocks,
    has_small_factors,
    some_rows,
)
from crossfade.tradeoff.labelled_rows import log_normalise
from crossfade.tradeoff.objective import TradeoffObjective

#: Largest block that is factorised: 2,500² doubles are 50 MB.
_LARGEST_BLOCK = 2_500

#: Statistics in the block of those that weigh most where there are words, and the doubles that such
#: blocks of all classes hold at most: 32 MB.
_HEAVY = 200
_CLASS_BLOCKS = 4_000_000


def preconditioner(objective: TradeoffObjective, theta: Floats) -> Callable[[Floats], Floats]:
    """Return v ↦ M⁻¹ v with M close to the Hessian, in the directions that change the objective."""
    if objective.density.reads_words:
        solve = _with_words(objective, theta)
    elif has_class_blocks(objective) and not by_factors_pays(objective):
        solve = _tied_blocks(objective, theta, Inverted(objective, theta))
    elif has_small_factors(objective):
        solve = _tied_blocks(objective, theta, OfFactors(objective, theta))
    elif objective.tradeoff > 0.0:
        solve = _tied_blocks(objective, theta, OfDensities(objective, theta))
    elif objective.passes.n_free > _LARGEST_BLOCK:
        solve = _diagonal(objective)
    else:
        solve = _common_block(objective, theta)

    def relevant(v: Floats) -> Floats:
        # One constant for all offsets changes nothing; at λ = 0 nor does one vector for all
        # weights. M knows nothing of that, and would put most of its answer there.
        weights, offsets, _ = objective.split(v)
        if objective.tradeoff == 0.0:
            weights -= weights.mean(axis=0)
        offsets -= offsets.mean()
        return v

    return lambda v: relevant(solve(relevant(v.copy())))


def _diagonal(objective: TradeoffObjective) -> Callable[[Floats], Floats]:
    """At λ = 0 standardised statistics have variance one: a class's curvature is its share's."""
    total = objective.n_rows
    share = np.maximum(objective.passes.class_weights / total, 1.0 / total)
    scale = total * np.maximum(share * (1.0 - share), 0.1 / total)

    def solve(v: Floats) -> Floats:
        weights, offsets, tied = objective.split(v)
        penalised = scale + objective.l2
        return objective.join(weights / penalised[:, None], offsets / scale, tied / total)

    return solve


class WordBlocks(NamedTuple):
    """What stands for the Hessian where there are words.

    `own` (n_classes, n_free): The diagonal; `tied` (n_tied,): That of tied weights.
    `heavy` (n_heavy,): Free statistics that weigh most, with whose diagonal the offsets' is not
        used, but `inverses` (n_classes, n_heavy + 1, n_heavy + 1).
    """

    own: Floats
    tied: Floats
    heavy: Integers
    inverses: Floats


def word_blocks(
    objective: TradeoffObjective,
    theta: Floats | None,
    coefficients: tuple[Floats, Floats, Floats | None],
    squares: Callable[[], Floats],
) -> WordBlocks:
    """Return the diagonal, and among the statistics that weigh most each class's whole block.

    Words differ by orders of magnitude in how often they occur. The frequent ones act together; a
    rare one has little but the penalty. Classes share one block, each times its own curvature.
    Of few rows a block takes longer than it saves: at λ = 0 the penalty alone then stands for
    words, as few eigenvalues stand out, and are found sooner than where words' own curvature is
    known. `theta`: Not needed at λ = 0. `coefficients`: Those of rows there. `squares`: Gives the
    diagonal of what rows add at λ = 0.
    """
    passes, lam, density, bound = (
        objective.passes,
        objective.tradeoff,
        objective.density,
        objective.bound,
    )
    k, total, free = passes.n_classes, passes.total, passes.free
    share = np.maximum(passes.class_weights / total, 1.0 / total)
    mass = total * share * np.maximum(1.0 - share, lam)
    penalty = (1.0 - lam) * objective.penalty * density.penalty_profile[free]
    rest, tied = penalty[None], np.full(passes.n_tied, total)
    if lam > 0.0:
        rest = np.full((k, free.size), 1e-300)
        assert theta is not None
        counts = (bound.counts + bound.prior_counts)[:, density.factors]
        curvature = density.hessian_diagonal(passes.natural(theta))
        rest += lam * counts * curvature / passes.scale**2
        tied = rest[:, passes.tied].sum(axis=0)[: passes.n_tied]
        rest = rest[:, free] + penalty
    few = objective.rows.n_samples < SAMPLE
    flat = density.word_factors[density.factors][free] & (few and lam == 0.0 < objective.l2)
    own = np.broadcast_to(rest, (k, rest.shape[1]))
    if lam < 1.0 and not flat.all():
        own = squares()
        own *= (1.0 - lam) * ~flat
        own += rest
    floor = 1e-6 * float(own.max(initial=1e-300))
    own = np.maximum(own, floor)
    if flat.all():
        mass = own.mean(axis=1)
    heavy, inverses = np.zeros(0, np.int64), 1.0 / mass[:, None, None]
    if lam < 1.0 and not few:
        least = np.maximum(rest, floor).astype(own.dtype)
        heavy = _heaviest((own / least).mean(axis=0), k)
        block, spread = _heavy_block(objective, theta, coefficients, heavy)
        inverses = ((1.0 - lam) * spread)[:, None, None] * block
        each = np.arange(heavy.size + 1)
        inverses[:, each, each] += np.maximum(
            np.column_stack([np.broadcast_to(rest[:, heavy], (k, heavy.size)), 1e-3 * mass]),
            1e-8 * np.trace(block),
        )
        inverses = np.asarray(np.linalg.inv(inverses), np.float64)
    return WordBlocks(own, tied, heavy, inverses)


def _with_words(objective: TradeoffObjective, theta: Floats) -> Callable[[Floats], Floats]:
    """Invert what :func:`word_blocks` gives."""
    passes = objective.passes
    own, tied, heavy, inverses = word_blocks(
        objective,
        theta,
        passes.row_coefficients(theta),
        lambda: passes.row_curvature(theta).squares(),
    )

    def solve(v: Floats) -> Floats:
        weights, offsets, ties = objective.split(v)
        found = np.empty_like(v)
        by_word, by_class, by_tie = objective.split(found)
        np.divide(weights, own, out=by_word)
        solved = inverses @ np.column_stack([weights[:, heavy], offsets])[:, :, None]
        by_word[:, heavy] = solved[:, :-1, 0]
        by_class[:] = solved[:, -1, 0]
        by_tie[:] = ties / tied
        return found

    return solve


def _heaviest(weight: Floats, n_classes: int) -> Integers:
    """Return which free statistics weigh more than 2, rising: no more than pay for their block."""
    most = min(_HEAVY, int(np.sqrt(_CLASS_BLOCKS / n_classes)))
    first = np.argsort(-weight, kind="stable")[:most]
    return np.sort(first[weight[first] > 2.0])


def _heavy_block(
    objective: TradeoffObjective,
    theta: Floats | None,
    coefficients: tuple[Floats, Floats, Floats | None],
    heavy: Integers,
) -> tuple[Floats, Floats]:
    """Return Σ w v z z' of some statistics and the offset, v the classes' mean τ(1-τ), and the
    multiple of v that is each class's own; from a sample of the rows.

    Shapes: heavy (p,); → (p + 1, p + 1) and (n_classes,).
    """
    passes, density, some = objective.passes, objective.density, some_rows(objective)
    eta, offset, absent = coefficients
    index = np.flatnonzero(passes.free)[heavy]
    factors = passes.factors[index]
    slope = None
    if absent is not None and theta is not None:
        slope = passes.absent(theta)[1][:, index].mean(axis=0)
    block, seen = np.zeros((heavy.size + 1, heavy.size + 1)), 0.0
    by_class = np.full(passes.n_classes, 1e-300)
    for first in range(0, some.rows.n_samples, SAMPLE):
        rows = slice(first, min(first + SAMPLE, some.rows.n_samples))
        _, missing, scores = some.block_scores(rows, eta, offset, absent)
        posterior, weights = log_normalise(scores)[1], some.rows.block_weights(rows)
        v = posterior * (1.0 - posterior)
        if weights is not None:
            v *= weights[:, None]
        seen += len(v) if weights is None else float(weights.sum())
        by_class += v.sum(axis=0)
        Z = density.some_statistics(some.rows.block(rows), index) - passes.mean[index]
        Z /= passes.scale[index]
        if missing is not None and slope is not None:
            Z[missing[:, factors] > 0.0] = 0.0
            Z += missing[:, factors] * slope
        Z = np.column_stack([Z, np.ones(len(Z))]) * np.sqrt(v.mean(axis=1))[:, None]
        block += Z.T @ Z
    return block * (passes.total / seen), by_class / by_class.mean()


def _common_block(objective: TradeoffObjective, theta: Floats) -> Callable[[Floats], Floats]:
    """Invert the classes' mean curvature in (W_k, c_k) at λ = 0, from a sample of the rows."""
    k, p = objective.passes.n_classes, objective.passes.n_free
    total, some = objective.n_rows, some_rows(objective)
    seen = 0.0
    eta, offset, absent = objective.passes.row_coefficients(theta)
    block = np.zeros((p + 1, p + 1))
    size, n = max(64, 4_000_000 // (p + 1)), some.rows.n_samples
    for first in range(0, n, size):
        Z, posterior, weights = some.design(slice(first, first + size), eta, offset, absent)
        seen += Z.shape[0] if weights is None else float(weights.sum())
        if absent is not None:
            Z = np.delete(Z, np.s_[p:-1], axis=1)
        v = (posterior * (1.0 - posterior)).sum(axis=1) / k
        Z = Z * np.sqrt(v if weights is None else v * weights)[:, None]
        block += Z.T @ Z
    block *= total / seen
    diagonal = np.einsum("ii->i", block)
    diagonal[:p] += objective.l2
    diagonal += 1e-8 * max(float(np.trace(block)) / (p + 1), 1e-300)
    factor = factorise(block)

    def solve(v: Floats) -> Floats:
        weights, offsets, tied = objective.split(v)
        by_class = np.vstack([weights.T, offsets])
        solved = scipy.linalg.cho_solve(factor, by_class, check_finite=False)
        return objective.join(solved[:p].T, solved[p], tied / total)

    return solve


def _tied_blocks(
    objective: TradeoffObjective, theta: Floats, blocks: Inverted | OfFactors | OfDensities
) -> Callable[[Floats], Floats]:
    """Invert the classes' own blocks, and what ties them by block elimination."""
    coupled = _Tied(objective, theta) if objective.passes.n_tied else None

    def solve_classes(weights: Floats, offsets: Floats) -> tuple[Floats, Floats]:
        solved = blocks.solve(np.column_stack([weights, offsets]))
        return solved[:, :-1], solved[:, -1]

    def solve(v: Floats) -> Floats:
        # Block elimination: the classes' own parameters, the tied ones, and back.
        weights, offsets, tied = objective.split(v)
        if coupled is None:
            return objective.join(*solve_classes(weights, offsets), tied)
        own, _ = solve_classes(weights, offsets)
        solved = coupled.solve(tied - coupled.to_tied(own))
        weights = weights - coupled.to_classes(solved)
        return objective.join(*solve_classes(weights, offsets), solved)

    return solve


class _Tied:
    """The density's curvature between the classes' own statistics and the tied ones."""

    def __init__(self, objective: TradeoffObjective, theta: Floats) -> None:
        self.objective = objective
        passes = objective.passes
        self.eta = passes.natural(theta)
        self.scale = objective.bound.statistic_scale
        self.weight = objective.partition_weight(theta)[:, objective.density.factors]
        self._share = self.weight / self.scale
        self._free, self._tied = passes.free, passes.tied

    # By products: the Hessian of a covariance of d columns has d⁴/4 entries.

    def to_tied(self, weights: Floats) -> Floats:
        """Return what changes of the classes' weights add to the tied gradient."""
        change = np.zeros(self.eta.shape)
        change[:, self._free] = weights
        moved = self.objective.density.hessian_product(self.eta, self._share * change) / self.scale
        return moved.sum(axis=0)[self._tied]

    def to_classes(self, tied: Floats) -> Floats:
        """Return what a change of the tied weights adds to the classes' gradients."""
        change = np.zeros(self.eta.shape)
        change[:, self._tied] = tied
        moved = self.objective.density.hessian_product(self.eta, change / self.scale) * self._share
        return moved[:, self._free]

    def solve(self, tied: Floats) -> Floats:
        """Return the tied weights that answer a gradient, the classes' own eliminated.

        That block of the inverse is the inverse curvature of one class's density: equal in all
        classes up to their weights, which add up.
        """
        full = np.zeros((1, self.eta.shape[1]))
        full[:, self.objective.passes.tied] = tied
        inverse = self.objective.density.inverse_hessian_product(self.eta[:1], full * self.scale)
        solved = inverse * self.scale / np.maximum(self.weight.sum(axis=0), 1e-300)
        return solved[0, self.objective.passes.tied]
