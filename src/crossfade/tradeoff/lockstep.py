"""Fits to few rows each, minimised side by side by Newton's steps.

The folds of a grid are many small problems of one shape: rows, statistics and densities differ in
their numbers alone. Where rows are few, a step's calls take longer than its arithmetic: here one
call serves all of them. Every fit starts beside one of much the same rows, so that none waits for
its predecessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import single_threaded_blas
from crossfade.optim.newton import Curvature, factorise, solve
from crossfade.optim.solver import Solution
from crossfade.tradeoff.bound_rows import by_factor
from crossfade.tradeoff.class_blocks import by_factors_pays
from crossfade.tradeoff.dense_curvature import add_curvature_of_densities, definite
from crossfade.tradeoff.formed_curvature import others
from crossfade.tradeoff.level_blocks import has_levels
from crossfade.tradeoff.objective import TradeoffObjective

#: Most parameters of a fit, and doubles of rows by class that are worked on at once: 2 MB.
_MOST_PARAMETERS, _MOST_DOUBLES = 150, 262_144

#: Evaluations after which a fit is left to be searched for by itself.
_MOST_ROUNDS = 25

#: Multiple of what a last step may promise, by a Hessian of another point.
_LESS_SURE = 0.1

#: Steps that a Hessian of many parameters is kept for, the share of its promise that a step must
#: keep for that, and from how many parameters.
_KEEP, _WORTHWHILE, _KEEPING = 6, 0.5, 60


def goes_in_lockstep(objective: TradeoffObjective) -> bool:
    """Return whether rows are few, and a Hessian small enough to be formed at every step."""
    rows, passes = objective.rows, objective.passes
    return (
        objective.exact_labels
        and objective.unlabelled is None
        and objective.tradeoff < 1.0
        and not (passes.reads_words or rows.is_part)
        and passes.n_free > 0
        and passes.n_parameters <= _MOST_PARAMETERS
        and rows.n_samples * passes.n_classes * (passes.n_free + 1) <= _MOST_DOUBLES
        and rows.n_samples <= passes.block_rows
        and objective.density.forms_statistics
        and not has_levels(objective)
        and not by_factors_pays(objective)
    )


def in_lockstep(
    objectives: Sequence[TradeoffObjective],
    starts: Sequence[Floats],
    *,
    tol: float,
    enough: float,
) -> list[Solution | None]:
    """Minimise many functions, each from its start; None where this does not get there.

    A step that promises less than `enough` nats per row is the last one, and not evaluated.
    """
    found: list[Solution | None] = [None] * len(objectives)
    alike: dict[Any, list[int]] = {}
    for g, (one, start) in enumerate(zip(objectives, starts, strict=True)):
        if start.size == one.n_parameters and np.isfinite(start).all() and goes_in_lockstep(one):
            alike.setdefault(_shape(one), []).append(g)
    with single_threaded_blas():
        for same in alike.values():
            first, known = objectives[same[0]], {}
            for g in same:
                bound = objectives[g].bound
                if id(bound) not in known:
                    known[id(bound)] = _has_same_partition(first, objectives[g], starts[g])
            same = [g for g in same if known[id(objectives[g].bound)]]
            largest = max(objectives[g].rows.n_samples for g in same)
            passes = objectives[same[0]].passes
            each = largest * passes.n_classes * (passes.n_free + 1)
            # As many at a time as stay in cache.
            some = max(1, _MOST_DOUBLES // each)
            for begin in range(0, len(same), some):
                own = same[begin : begin + some]
                stack = _Stack([objectives[g] for g in own])
                solutions = _minimised(stack, [starts[g] for g in own], tol, enough)
                for g, solution in zip(own, solutions, strict=True):
                    found[g] = solution
    return found


def _shape(objective: TradeoffObjective) -> Any:
    """Return what functions have in common that are minimised together."""
    passes, zero = objective.passes, objective.tradeoff == 0.0
    sizes = passes.n_classes, passes.has_missing, passes.factors.tobytes(), passes.tied.tobytes()
    return zero, *sizes, type(passes.density)


def _has_same_partition(one: TradeoffObjective, other: TradeoffObjective, start: Floats) -> bool:
    """Return whether A is the same function: of a column that never varies it is another one."""
    if one.tradeoff == 0.0 or one.density is other.density:
        return True
    eta = other.passes.natural(start)
    first, second = one.density.log_partition(eta), other.density.log_partition(eta)
    # Up to rounding, which depends on where columns lie.
    return first.shape == second.shape and np.allclose(first, second, rtol=1e-12, atol=1e-12)


def _minimised(
    stack: _Stack, starts: Sequence[Floats], tol: float, enough: float
) -> list[Solution | None]:
    n = len(starts)
    found: list[Solution | None] = [None] * n
    theta = np.stack([start[: stack.size] for start in starts])
    step, gradient = np.zeros_like(theta), np.zeros_like(theta)
    value, length, promise = np.full(n, np.inf), np.ones(n), np.zeros(n)
    n_steps = np.zeros(n, dtype=np.int64)
    models: list[Curvature | None] = [None] * n

    def end(g: int, low: float, norm: float, words: str) -> None:
        rest = np.zeros(starts[g].size - stack.size)
        found[g] = Solution(np.append(theta[g], rest), low, norm, int(n_steps[g]), True, words)

    open_ = np.arange(n)
    for trial in range(_MOST_ROUNDS):
        candidate = theta[open_] + length[open_, None] * step[open_]
        seen = stack.at(candidate, open_)
        least = value[open_] - 1e-4 * length[open_] * promise[open_]
        better = np.isfinite(seen.value) & (seen.value <= least)
        shorter = open_[~better] if trial else open_[:0]
        length[shorter] *= 0.5
        seen = seen.some(better)
        norms = np.abs(seen.gradient).max(axis=1, initial=0.0) / stack.n_rows[seen.number]
        fresh = np.zeros(len(norms), dtype=bool)
        going: list[int] = []
        last: list[int] = []
        for place, g in enumerate(seen.number):
            model, before = models[g], promise[g]
            if model is not None:
                model.learn(length[g] * step[g], seen.gradient[place] - gradient[g])
            theta[g], gradient[g] = candidate[better][place], seen.gradient[place]
            value[g], length[g] = seen.value[place], 1.0
            if model is not None:
                step[g] = -model.solve(gradient[g])
                promise[g] = -float(gradient[g] @ step[g])
            if norms[place] <= tol:
                if model is None:
                    end(g, float(value[g]), float(norms[place]), "within the tolerance")
                else:  # whose last step costs nothing, and takes off most of what is left
                    last.append(int(g))
                continue
            stale = model is None or len(model.steps) >= _KEEP or stack.size <= _KEEPING
            fresh[place] = stale or not 0.0 < promise[g] < _WORTHWHILE * before
            going.append(int(g))
        anew = seen.some(fresh)
        for g, H in zip(anew.number, stack.curvature(anew), strict=True):
            try:
                models[g] = Curvature(partial(solve, factorise(H)), exact=True)
            except scipy.linalg.LinAlgError:
                going.remove(int(g))
                continue
            step[g] = -models[g].solve(gradient[g])
            promise[g] = -float(gradient[g] @ step[g])
        n_steps[going] += 1
        for g in going:
            model = models[g]
            sure = _LESS_SURE if model is not None and model.steps else 1.0
            if promise[g] < sure * enough * stack.n_rows[g]:
                last.append(g)
        if last:
            theta[last] += step[last]
            for g, inside in zip(last, stack.inside(theta[last], np.array(last)), strict=True):
                if inside:
                    end(g, float(value[g] - 0.5 * promise[g]), 0.0, "the last step is small")
        going = [g for g in going if g not in last]
        open_ = np.sort(np.concatenate([shorter, np.array(going, dtype=np.int64)]))
        if not open_.size:
            break
    return found


@dataclass(frozen=True)
class _Seen:
    """What P functions are at a point each, number (P,) tells which.

    Shapes: value (P,); gradient (P, n_parameters); posterior (P, n_samples, K); where densities
    have a part eta, slope (P, K, n_statistics), log_terms (P, K), weight (P, K, m), that of each
    factor's A.
    """

    number: Integers
    value: Floats
    gradient: Floats
    posterior: Floats
    densities: tuple[Floats, ...]

    def some(self, which: NDArray[np.bool_]) -> _Seen:
        """Return the same of some of the functions."""
        if which.all():
            return self
        return _Seen(
            self.number[which],
            self.value[which],
            self.gradient[which],
            self.posterior[which],
            tuple(one[which] for one in self.densities),
        )


class _Stack:
    """Functions of one shape: Φ of different rows, λ and penalties.

    Rows beyond a function's own have weight 0. A row of B: standardised statistics, what it lacks,
    and 1.
    """

    def __init__(self, objectives: Sequence[TradeoffObjective]) -> None:
        self.with_densities = objectives[0].tradeoff > 0.0
        if not self.with_densities:
            objectives = [one.without_tied() for one in objectives]
        passes = [one.passes for one in objectives]
        self.one = passes[0]
        self.size, p = self.one.n_parameters, self.one.n_free
        self.n_rows = np.array([own.total for own in passes])
        self.lam = np.array([one.tradeoff for one in objectives])
        self.penalty = (1.0 - self.lam) * [one.penalty for one in objectives]
        n = max(own.rows.n_samples for own in passes)
        designs: dict[int, tuple[Floats, Floats | None]] = {}
        for one, own in zip(objectives, passes, strict=True):
            if id(own.rows) not in designs:
                at = own.row_coefficients(one.theta(one.generative()))
                design, _, weights = own.design(slice(0, own.rows.n_samples), *at)
                designs[id(own.rows)] = design.copy(), weights
        self.lack = np.zeros(0, dtype=np.int64)  # factors that rows lack
        if self.one.has_missing and not self.one.at_mean:
            gaps = [design[:, p:-1].any(axis=0) for design, _ in designs.values()]
            self.lack = np.flatnonzero(np.any(gaps, axis=0))
        m = self.lack.size
        self.B, self.weights = np.zeros((len(passes), n, p + m + 1)), np.zeros((len(passes), n))
        for g, own in enumerate(passes):
            design, weights = designs[id(own.rows)]
            rows = slice(0, len(design))
            self.B[g, rows, :p], self.B[g, rows, -1] = design[:, :p], 1.0
            self.B[g, rows, p:-1] = design[:, p + self.lack]
            self.weights[g, rows] = 1.0 if weights is None else weights
        #: Where B tells that a statistic's factor is lacked, and whether it does.
        place = np.full(self.one.density.n_factors, -1)
        place[self.lack] = p + np.arange(m)
        self.place = place[self.one.factors]
        self.mass = np.stack([own.class_weights for own in passes])
        self.sums = np.stack([own.free_sums for own in passes])
        if self.with_densities:
            self.mean = np.stack([own.mean for own in passes])[:, None]
            self.scale = np.stack([own.scale for own in passes])[:, None]
            self.lacking = np.stack([own.missing_counts for own in passes])
            self.prior = np.stack([own.bound.prior_counts for own in passes])
            self.prior_sums = np.stack([own.free_prior_sums for own in passes])
            self.tied_sums = np.stack([own.tied_totals + own.tied_prior_totals for own in passes])

    def _partition(self, theta: Floats, number: Integers) -> tuple[Floats, Floats]:
        """Return η, (P, K, n_statistics), and A of the centred statistics, (P, K, m)."""
        one = self.one
        eta = theta.take(one.own_places, axis=1)
        eta /= self.scale[number]
        flat = eta.reshape(-1, one.factors.size)
        partition = one.density.log_partition(flat)
        centre = (eta * self.mean[number]).reshape(flat.shape)
        partition = partition - by_factor(centre, one.factors, partition.shape[1])
        return eta, partition.reshape(*eta.shape[:2], -1)

    def inside(self, theta: Floats, number: Integers) -> NDArray[np.bool_]:
        """Return whether the classes have densities there."""
        if not self.with_densities:
            return np.asarray(np.isfinite(theta).all(axis=1))
        return np.asarray(np.isfinite(self._partition(theta, number)[1]).all(axis=(1, 2)))

    def at(self, theta: Floats, number: Integers) -> _Seen:
        """Return values and gradients of these functions, as the objective has them."""
        one, k, p = self.one, self.one.n_classes, self.one.n_free
        lam, penalty, B = self.lam[number], self.penalty[number], self.B[number]
        W, c = theta[:, : k * p].reshape(-1, k, p), theta[:, k * p : k * p + k]
        tied = theta[:, k * p + k :]
        inside = np.ones(len(theta), dtype=bool)
        if self.with_densities:
            eta, A = self._partition(theta, number)
            inside = np.asarray(np.isfinite(A).all(axis=(1, 2)))
            A[~inside] = 0.0
            flat = eta[inside].reshape(-1, one.factors.size)
            slope = np.zeros_like(eta)
            slope[inside] = one.density.mean(flat).reshape(-1, *eta.shape[1:])
            slope -= self.mean[number]
            slope /= self.scale[number]
            log_terms = c + A.sum(axis=2)
            log_z = np.logaddexp.reduce(log_terms, axis=1)
        lacked = A[:, :, self.lack] if self.lack.size else W[:, :, :0]
        posterior = B @ np.concatenate([W, lacked, c[:, :, None]], axis=2).swapaxes(1, 2)
        top = posterior.max(axis=2, keepdims=True)
        posterior -= top
        np.exp(posterior, out=posterior)
        total = posterior.sum(axis=2, keepdims=True)
        posterior /= total
        log_sums = (np.log(total) + top)[:, :, 0]
        weights = self.weights[number]
        shares = (posterior * weights[:, :, None]).swapaxes(1, 2)
        sums = shares @ B
        centred = W - W.mean(axis=1, keepdims=True)
        value = (1.0 - lam) * np.einsum("gi,gi->g", weights, log_sums)
        value += 0.5 * penalty * np.einsum("gkj,gkj->g", centred, centred)
        value -= np.einsum("gk,gk->g", c, self.mass[number])
        value -= np.einsum("gkj,gkj->g", W, self.sums[number])
        gradient = np.empty_like(theta)
        g_W, g_c = gradient[:, : k * p].reshape(-1, k, p), gradient[:, k * p : k * p + k]
        by_point = (1.0 - lam)[:, None, None]
        g_W[:] = by_point * sums[:, :, :p] + penalty[:, None, None] * centred - self.sums[number]
        g_c[:] = by_point[:, 0] * sums[:, :, -1] - self.mass[number]
        densities: tuple[Floats, ...] = ()
        if self.with_densities:
            weight = lam[:, None, None] * self.prior[number] - self.lacking[number]
            tied_sums = self.tied_sums[number]
            prior = np.einsum("gkj,gkj->g", W, self.prior_sums[number])
            prior += np.einsum("gj,gj->g", tied, tied_sums)
            value += (A * weight).sum(axis=(1, 2)) + lam * (self.n_rows[number] * log_z - prior)
            share = (lam * self.n_rows[number])[:, None] * np.exp(log_terms - log_z[:, None])
            weight += share[:, :, None]
            weight[:, :, self.lack] += by_point * sums[:, :, p:-1]
            pull = weight.take(one.factors, axis=2) * slope
            g_W += pull[:, :, one.free_places] - lam[:, None, None] * self.prior_sums[number]
            g_c += share
            pull = pull.take(one.tied_places, axis=2).sum(axis=1)
            gradient[:, k * p + k :] = pull - lam[:, None] * tied_sums
            densities = eta, slope, log_terms, weight
        value[~inside | ~np.isfinite(gradient).all(axis=1)] = np.inf
        return _Seen(number, value, gradient, posterior, densities)

    def curvature(self, seen: _Seen) -> Floats:
        """Return the Hessians, made definite, (P, n_parameters, n_parameters)."""
        number = seen.number
        if not number.size:
            return np.zeros((0, self.size, self.size))
        H = np.ascontiguousarray(self._rows_curvature(seen))
        H *= (1.0 - self.lam[number])[:, None, None]
        terms = None
        if self.with_densities:
            eta, slope, log_terms, weight = seen.densities
            inner = self.one.density.hessian(eta.reshape(-1, eta.shape[2]))
            terms = slope, log_terms, inner.reshape(*eta.shape, -1), weight
        total, scale = (self.lam * self.n_rows)[number], None
        if self.with_densities:
            scale = self.scale[number]
        less = add_curvature_of_densities(self.one, H, self.penalty[number], total, terms, scale)
        if less is not None:
            for g in np.flatnonzero((weight < 0.0).any(axis=(1, 2))):
                H[g] = definite(H[g] - less[g])
        return H

    def _rows_curvature(self, seen: _Seen) -> Floats:
        """Return Σ w J'(diag τ - ττ')J, as :mod:`crossfade.tradeoff.formed_curvature` has it."""
        posterior, B = seen.posterior, self.B[seen.number]
        (n_points, n, k), width = posterior.shape, B.shape[2]
        weights = self.weights[seen.number][:, :, None]
        if k == 2:
            B *= np.sqrt(posterior[:, :, :1] * posterior[:, :, 1:] * weights)
            return self._of_parameters(B.swapaxes(1, 2) @ B, seen)
        rest = others(posterior.reshape(-1, k)).reshape(posterior.shape)
        roots = np.sqrt(posterior * rest * weights)[:, :, :-1]
        every = B[:, :, None] * (posterior * np.sqrt(weights))[:, :, :-1, None]
        every = every.reshape(n_points, n, -1)
        found = every.swapaxes(1, 2) @ every
        np.negative(found, out=found)
        for c in range(k - 1):
            own = slice(c * width, c * width + width)
            scaled = B * roots[:, :, c, None]
            found[:, own, own] = scaled.swapaxes(1, 2) @ scaled
        return self._of_parameters(found, seen)

    def _of_parameters(self, formed: Floats, seen: _Seen) -> Floats:
        """Return what is formed over (B, 1) of all classes but the last, as the parameters' own."""
        slope = None
        if self.lack.size:
            slope = np.where(self.place >= 0, seen.densities[1], 0.0)[..., None]
        once = self._changed(formed, slope)
        return self._changed(once.swapaxes(1, 2), slope)

    def _changed(self, formed: Floats, slope: Floats | None) -> Floats:
        """Return R times what is formed; R tells how coefficients change with parameters."""
        one, k, p = self.one, self.one.n_classes - 1, self.one.n_free
        by_class = formed.reshape(len(formed), k, -1, formed.shape[2])
        weights = last = by_class[:, :, :p]
        tied = np.zeros((len(formed), one.n_tied, formed.shape[2]))
        if slope is not None:
            free = one.free_places
            lacked = by_class.take(self.place[free], axis=2)
            weights = weights + slope[:, :-1, free] * lacked
            last = last + slope[:, -1:, free] * lacked
            if one.n_tied:
                own = slope.take(one.tied_places, axis=2)
                lacked = by_class.take(self.place[one.tied_places], axis=2)
                tied = ((own[:, :-1] - own[:, -1:]) * lacked).sum(axis=1)
        offsets = by_class[:, :, -1]
        last, rest = last.sum(axis=1), offsets.sum(axis=1, keepdims=True)
        weights = weights.reshape(len(formed), k * p, -1)
        return np.concatenate([weights, -last, offsets, -rest, tied], axis=1)
