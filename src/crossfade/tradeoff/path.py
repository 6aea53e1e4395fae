"""From the generative fit to the discriminative one: Φ_λ minimised down a grid of λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import single_threaded_blas
from crossfade.optim.lbfgs import QuasiNewton
from crossfade.optim.newton import ConjugateGradient, Dense, Invert, Sampled, inverse
from crossfade.optim.solver import InnerSolve, Problem, Solution, descend
from crossfade.tradeoff.class_blocks import (
    MANY_ROWS,
    by_factors_pays,
    has_class_blocks,
    has_many_classes,
    is_short,
)
from crossfade.tradeoff.grid import is_dense
from crossfade.tradeoff.level_blocks import ByLevels, has_levels, leaves_few
from crossfade.tradeoff.lockstep import in_lockstep
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.preconditioner import preconditioner
from crossfade.tradeoff.single_precision import WordProblem

#: With missing cells a smaller λ is entered from here: further down the function is hardly convex.
_LAST_WITH_MISSING = 0.01

#: Most parameters whose curvature is summed in every pass over rows that are not at hand.
_IN_ONE_PASS = 200

#: How many times the sample must be rows whose curvature is summed, to be worth it.
_WORTHWHILE = 4

#: Multiple of the tolerance where a fit starts beside that of other rows.
_BESIDE_TOL = 0.3

#: Multiple of the tolerance where there are words.
_OF_WORDS_TOL = 0.03

#: Multiple of the tolerance below which no step by conjugate gradients need aim.
_ENOUGH = 0.3

#: Parameters up to which fits at λ = 0 are as exact as where a Hessian is formed: standard errors
#: of words are computed of so many.
_EXACT = 3_000

#: Most Newton steps to a point beside another path's; next to singular densities that may be far
#: off, and the fit begins again at what is known to be low.
_MOST_STEPS_BESIDE = 25

#: Most steps from the classes' own blocks: a Newton step costs tens of them.
_MOST_STEPS_BY_CLASSES = 600

#: Evaluations of such a step, in the mean, at which Newton's steps take over: beside the edge of
#: the densities a line search takes many.
_MOST_TRIALS = 4.0

#: Nats per row that a step to a point of the path must promise for a look at where it leads. At
#: 1e-4 probabilities were off by up to .009, and depended on the order of rows; at 1e-6 by 1e-4.
_ENOUGH_GAIN = 1e-6

#: Parameters from which a Hessian costs several gradients, and is kept for some steps.
_KEEPING = 60

#: Gradient norm, per row, up to which EM of a mixture has come to rest.
_AT_REST = 1e-5

#: Rows that a cold start over many rows is first minimised over.
_FIRST_SAMPLE = 5_000

#: Rows from which curvature is taken from a share of them where a rough optimum will do.
_SOME_ROWS = 4_000

#: Tolerance of a rough optimum: good enough to compare points of the path.
_ROUGH = 1e-5


#: EM with unlabelled rows ends where the objective falls by less, in nats per row, where a rough
#: optimum will do and else, and after so many rounds, each of so many steps of a solver.
_EM_ROUGH, _EM_TOL = 1e-5, 1e-10
_EM_STEPS, _STEPS_BETWEEN = 500, 3


@dataclass(frozen=True)
class PathPoint:
    """The minimiser at one λ and one strength of the penalty.

    `solution`: In the objective's standardised parameters.
    """

    tradeoff: float
    l2: float
    solution: Solution


def curvature_share(objective: TradeoffObjective, least: float = 0.1) -> float:
    """Return the share of the rows whose curvature stands for all rows', `least` or more."""
    n = objective.rows.n_samples
    if n < _SOME_ROWS:
        return 1.0
    return min(1.0, max(least, 20 * objective.n_parameters / n))


def minimise(
    objective: TradeoffObjective,
    start: Floats | None = None,
    *,
    tol: float | None = None,
    max_iter: int = 200,
    cold: bool = False,
    enough: float = 0.0,
) -> Solution:
    """Minimise Φ_λ from a starting point, by the solver that suits its size; None for a cold one.

    Takes enough: nats per row; a Newton step that promises less is taken without a look at where it
    leads.
    """
    if start is None:
        start = cold_start(objective)
    if objective.unlabelled is not None and objective.exact_labels:
        if objective.tradeoff > 0.0:
            return _with_unlabelled(objective, start, tol)
        objective = objective.with_unlabelled(None)
    if objective.tradeoff == 1.0:
        found = _closed_form(objective)
        if objective.exact_labels or found.gradient_norm <= _AT_REST or not is_dense(objective):
            return found
        with single_threaded_blas():  # EM stopped on the way
            return descend(objective, found.theta, Dense(), tol=tol or 1e-8, max_iter=max_iter)
    if objective.tradeoff == 0.0 and objective.passes.n_tied:
        free = objective.without_tied()
        solution = minimise(
            free,
            start[: free.n_parameters],
            tol=tol,
            max_iter=max_iter,
            cold=cold,
            enough=enough,
        )
        return replace(solution, theta=np.append(solution.theta, np.zeros(objective.passes.n_tied)))
    if objective.tradeoff == 0.0:
        start = _centred(objective, start)
    if cold and objective.rows.is_part:
        # A pass over rows that are not at hand takes longest: their sample goes ahead.
        at_hand = objective.sampled(1.0)
        is_all = at_hand.rows.n_samples == objective.rows.n_samples
        near = minimise(at_hand, start, tol=tol if is_all else 1e-6, cold=True).theta
        every = _stride(objective, at_hand.rows.n_samples)
        if every:
            with single_threaded_blas():
                whole = _InOnePass(objective, every, tol or 1e-8)
                solution = descend(whole, near, Dense(), tol=tol or 1e-8, max_iter=max_iter)
        else:
            solution = minimise(objective, near, tol=tol, max_iter=max_iter)
        if np.isfinite(solution.value):
            return solution
        cold = False
    sparse, short = objective.density.reads_words, is_short(objective)
    newton_tol = tol or (1e-8 if objective.has_missing or sparse else 1e-10)
    if cold and objective.has_gaps and 0.0 < objective.tradeoff < _LAST_WITH_MISSING:
        # Down there all but the posterior is a long, narrow, bent valley: enter it from above.
        above = objective.with_tradeoff(_LAST_WITH_MISSING)
        start = minimise(above, start, tol=1e-3).theta
    # Far from the optimum, missing cells and components bend the function down.
    bends = (objective.has_missing and objective.tradeoff > 0.0) or not objective.exact_labels
    dense = is_dense(objective)
    by_factors = not (dense and leaves_few(objective)) and by_factors_pays(objective)
    levels = None
    if dense and not by_factors and has_levels(objective):
        levels = ByLevels.of(objective)
    dense_enough = dense and not short
    productless = not dense_enough and bends and not sparse
    few = objective.rows.n_samples < MANY_ROWS and levels is None and not sparse
    many_classes = few and has_many_classes(objective) and has_class_blocks(objective)
    if productless or by_factors or many_classes:
        own_tol, most_trials = newton_tol, _MOST_TRIALS
        if productless:
            own_tol, most_trials = tol or 1e-8, np.inf
        solution = _by_classes(objective, start, own_tol, most_trials)
        if solution.converged or productless:
            return solution
        start = solution.theta
    if not dense_enough:
        with single_threaded_blas():  # its threads and those of the blocks would wait in turns
            loosest = 0.5 if sparse else 0.1
            # Words' preconditioner takes some products itself, and at λ = 0 hardly changes. That of
            # few rows takes some, too.
            renewed = 20 if sparse and objective.tradeoff == 0.0 else 6 if short else 1
            exact = objective.tradeoff == 0.0 and objective.n_parameters <= _EXACT
            own_tol = tol or (1e-10 if exact else 1e-8)
            words = WordProblem.of(objective)
            invert = partial(preconditioner, objective) if words is None else words.preconditioner
            inner = ConjugateGradient(invert, loosest, _ENOUGH * own_tol, renewed, words)
            given = [start if words is None else words.by_word(start)]
            del start  # of many words it takes megabytes, which nobody needs after the first step
            found = descend(words or objective, given.pop(), inner, tol=own_tol, max_iter=max_iter)
            return found if words is None else replace(found, theta=words.by_class(found.theta))
    eliminate: Invert | None = None if levels is None else partial(_by_levels, levels)
    rough = tol is not None and tol >= _ROUGH
    many = objective.rows.n_samples >= (_SOME_ROWS if rough else MANY_ROWS)
    inner_solve: InnerSolve[Problem] = Dense(enough=enough, invert=eliminate)
    if objective.exact_labels and many:
        newton_tol = tol or 1e-8
        first = max(_FIRST_SAMPLE, 10 * objective.n_parameters) / objective.rows.n_samples
        sample = objective.sampled(first) if cold and first < 0.5 else None
        inner_solve = Sampled(
            share=curvature_share(objective), sample=sample, enough=enough, invert=eliminate
        )
    elif objective.exact_labels and objective.n_parameters > _KEEPING:
        inner_solve = Sampled(
            share=1.0, near=np.inf, worthwhile=0.5, keep=6, enough=enough, invert=eliminate
        )
    with single_threaded_blas():
        return descend(objective, start, inner_solve, tol=newton_tol, max_iter=max_iter)


def _closed_form(objective: TradeoffObjective, *, valued: bool = True) -> Solution:
    """Return the fit at λ = 1; how low it lies is left out where nobody asks."""
    theta, value, norm = objective.theta(objective.generative()), np.nan, 0.0
    if valued:
        value, gradient = objective.value_and_gradient(theta)
        norm = float(np.abs(gradient).max(initial=0.0)) / objective.n_rows
    words = "closed form of the generative fit" if objective.exact_labels else "EM came to rest"
    return Solution(theta, value, norm, 0, True, words)


def _by_levels(levels: ByLevels, theta: Floats, share: float = 1.0) -> Callable[[Floats], Floats]:
    """Return v ↦ H⁻¹v by elimination of a column's levels, or where that cannot be, of H whole."""
    return levels.inverse(theta) or inverse(levels.objective, theta, share)


def _stride(objective: TradeoffObjective, n_sample: int) -> int:
    """Return of how many rows one's curvature is summed in passes over all; 0 for the sample's."""
    if not is_dense(objective):
        return 0
    if objective.has_gaps:
        # Where the function bends, the curvature of a share of the rows is worth little.
        return int(objective.n_parameters <= _IN_ONE_PASS)
    k, width = objective.passes.n_classes, objective.passes.n_free + 1
    every = -(-(k * (k - 1) // 2) * width // objective.rows.spare)
    worth = every == 1 or objective.rows.n_samples >= _WORTHWHILE * every * n_sample
    return every if worth else 0


def _with_unlabelled(objective: TradeoffObjective, start: Floats, tol: float | None) -> Solution:
    """Minimise with unlabelled rows: expect their labels, minimise, and so on, ever lower (EM)."""
    assert objective.unlabelled is not None
    labelled = objective.with_unlabelled(None)
    theta = start
    if objective.tradeoff == 1.0:
        theta = objective.theta(objective.generative())
    n_rows = objective.n_rows + float(objective.unlabelled.weights.sum())
    enough = n_rows * (_EM_ROUGH if tol is not None and tol >= _ROUGH else _EM_TOL)
    before, n_iter = np.inf, 0
    while True:
        completed, added = objective.completed(theta)
        value = labelled.value(theta) + added
        if not before - value > enough or n_iter == _EM_STEPS:
            break
        before, n_iter = value, n_iter + 1
        theta = minimise(completed, theta, tol=tol, max_iter=_STEPS_BETWEEN).theta
    gradient = completed.value_and_gradient(theta)[1]
    norm = float(np.abs(gradient).max(initial=0.0)) / n_rows
    words = f"EM with unlabelled rows: {n_iter} rounds, gradient norm {norm:.1e}"
    return Solution(theta, value, norm, n_iter, True, words)


class _InOnePass:
    """An objective whose curvature is summed in the pass that sums its gradient.

    `every`: Of how many rows one stands for the others there.
    `tol`: Gradient norm that is aimed at: a point expected within it keeps the curvature before.
    """

    def __init__(self, objective: TradeoffObjective, every: int, tol: float) -> None:
        self.objective, self.rows, self.n_rows = objective, objective.rows, objective.n_rows
        self._some = replace(objective, passes=replace(objective.passes, every=every))
        self._tol, self._norms = tol, [np.inf, np.inf]
        self._known: tuple[Floats, Floats] | None = None

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return Φ_λ and its gradient."""
        works: list[Callable[[Floats], Any]]
        works = [self.objective.value_and_gradient, self._some.curvature]
        before, last = self._norms[-2:]
        # Newton's steps square the error.
        is_last = last < before < np.inf and last * (last / before) ** 2 < 0.1 * self._tol
        if is_last and self._known is not None:
            value, gradient = self.objective.value_and_gradient(theta)
            self._known = theta.copy(), self._known[1]
        else:
            (value, gradient), curvature = self.rows.fits(lambda work: work(theta), works)
            self._known = theta.copy(), curvature
        self._norms.append(float(np.abs(gradient).max(initial=0.0)) / self.n_rows)
        return value, gradient

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian, as :meth:`TradeoffObjective.curvature` does."""
        if self._known is None or not np.array_equal(self._known[0], theta):
            return self._some.curvature(theta)
        return self._known[1]


def _by_classes(
    objective: TradeoffObjective, start: Floats, tol: float, most_trials: float
) -> Solution:
    """Minimise by quasi-Newton steps that begin from the classes' own blocks of the Hessian."""
    with single_threaded_blas():
        return descend(
            objective,
            start,
            QuasiNewton(
                inverse=partial(preconditioner, objective), memory=30, most_trials=most_trials
            ),
            tol=tol,
            max_iter=_MOST_STEPS_BY_CLASSES,
        )


def _centred(objective: TradeoffObjective, theta: Floats) -> Floats:
    """Return the same posterior without what all classes have in common: minimum norm.

    A density that is next to singular has huge common parameters, in which the differences that
    matter at λ = 0 would lose their digits.
    """
    weights, offsets, tied = objective.split(theta)
    return objective.join(weights - weights.mean(axis=0), offsets - offsets.mean(), 0.0 * tied)


def cold_start(objective: TradeoffObjective) -> Floats:
    """Return where a fit without a neighbour on the path starts.

    The generative fit with its class differences shrunk to the share of lowest objective: far out
    on the logistic curve Newton's steps are short. If that is worse still, one density for all
    classes.
    """
    start = objective.theta(objective.generative())
    if objective.tradeoff == 1.0:
        return start
    probe = objective
    is_long = objective.rows.is_part or objective.rows.n_samples >= MANY_ROWS
    if objective.exact_labels and is_long:
        probe = objective.sampled(min(1.0, 2_000 / objective.rows.n_samples))
    mean_w, mean_c = (part.mean(axis=0) for part in objective.split(start)[:2])

    def shrunk(share: float) -> Floats:
        found = start.copy()  # of many words it takes megabytes: no more of them at a time
        for part, mean in zip(objective.split(found)[:2], (mean_w, mean_c), strict=True):
            part -= mean
            part *= share
            part += mean
        return found

    best_share, best_value = None, np.inf
    for share in (1.0, 0.3, 0.1, 0.0):
        value = probe.value(shrunk(share))
        if value < best_value:
            best_share, best_value = share, value
    best = start if best_share is None else shrunk(best_share)
    if objective.tradeoff > 0.0:
        # The mean of classes' parameters is as extreme as the narrowest of them.
        common = objective.theta(objective.one_density())
        best = common if probe.value(common) < best_value else best
    return best


def follow(
    objective: TradeoffObjective,
    points: Sequence[tuple[float, float]],
    *,
    tol: float = 1e-4,
    near: Sequence[Floats] | None = None,
    known: Mapping[int, Solution] | None = None,
) -> list[PathPoint]:
    """Minimise at each (λ, l2) in turn, each from its nearest predecessor.

    Takes near: the fits of much the same rows, beside which a fit starts; NaN where a parameter has
    no counterpart there. Takes known: points that are found already, by their number.
    """
    found: list[PathPoint] = []
    known = known or {}
    for number, (tradeoff, l2) in enumerate(points):
        at = objective.with_tradeoff(tradeoff).with_penalty(l2)
        if near is not None and tradeoff == 1.0 and objective.unlabelled is None:
            found.append(PathPoint(tradeoff, l2, _closed_form(at, valued=False)))
            continue
        if number in known:
            found.append(PathPoint(tradeoff, l2, known[number]))
            continue
        before = _nearest(found, tradeoff, l2)
        start = None if before is None else found[before].solution.theta
        own, enough, most = tol, 0.0, 200
        first = before is not None and found[before].tradeoff == 1.0
        if tradeoff < 1.0 and objective.unlabelled is None:
            if near is not None:
                other = None if before is None else near[before]
                start = _beside(at, near[number], other, start, first)
            elif first:
                start = None  # what is next to singular at λ = 1 is far away from all else
        if near is not None:
            enough, most = _ENOUGH_GAIN, _MOST_STEPS_BESIDE
        if objective.density.reads_words:  # words are rare: a row's small gradient is large to them
            own *= _OF_WORDS_TOL
        elif near is not None:  # a start that saw the rows held out is to leave no trace of them
            own *= _BESIDE_TOL
        if start is None:  # λ = 1 is not searched for
            start = cold_start(at) if tradeoff < 1.0 else np.zeros(0)
        solution = minimise(at, start, tol=own, max_iter=most, enough=enough)
        if near is not None and not solution.converged:
            solution = minimise(at, cold_start(at), tol=own)
        if enough and not _is_inside(at, solution.theta):  # one step too far
            solution = minimise(at, start, tol=own)
        found.append(PathPoint(tradeoff, l2, solution))
    return found


def follow_beside(
    objectives: Sequence[TradeoffObjective],
    points: Sequence[tuple[float, float]],
    near: Sequence[Sequence[Floats]],
    *,
    tol: float = 1e-4,
) -> list[list[PathPoint]]:
    """Minimise at each (λ, l2) for each of these rows, beside the fits of much the same rows."""
    places = [
        (i, number)
        for i in range(len(objectives))
        for number, (tradeoff, _) in enumerate(points)
        if tradeoff < 1.0
    ]
    each = [
        objectives[i].with_tradeoff(points[number][0]).with_penalty(points[number][1])
        for i, number in places
    ]
    starts = [near[i][number] for i, number in places]
    found = in_lockstep(each, starts, tol=_BESIDE_TOL * tol, enough=_ENOUGH_GAIN)
    known: list[dict[int, Solution]] = [{} for _ in objectives]
    for (i, number), solution in zip(places, found, strict=True):
        if solution is not None:
            known[i][number] = solution
    return [
        follow(objective, points, tol=tol, near=beside, known=own)
        for objective, beside, own in zip(objectives, near, known, strict=True)
    ]


def _is_inside(objective: TradeoffObjective, theta: Floats) -> bool:
    """Return whether the classes have densities there, as far as that is asked for."""
    if objective.tradeoff == 0.0:
        return bool(np.isfinite(theta).all())
    return bool(np.isfinite(objective.passes.at(theta).partition).all())


def _beside(
    objective: TradeoffObjective,
    near: Floats,
    before: Floats | None,
    last: Floats | None,
    first: bool,
) -> Floats | None:
    """Return a start beside the other path's point, or the path's last point.

    Beside it by as much as the last points of both paths were beside each other, in proportion to
    the size of the weights; where the other path has no such parameter (NaN), at the last point.
    That point itself may be lower at λ = 0, where no density holds back the weights of rare levels;
    the `first` point below λ = 1 may be lower at the other path's: closed forms of densities that
    are next to singular lie anywhere.
    """
    theta = near
    if theta.size != objective.n_parameters:
        return last
    if last is not None and before is not None:
        moved = theta + _growth(objective, before, near) * (last - before)
        theta = np.where(np.isnan(moved), last, moved)
        other = np.where(np.isnan(near), last, near) if first else last
        unsure = first or objective.tradeoff == 0.0
        if unsure and objective.value(other) < objective.value(theta):
            theta = other
    if np.isnan(theta).any():
        return last
    return theta if _is_inside(objective, theta) else last


def _growth(objective: TradeoffObjective, before: Floats, after: Floats) -> float:
    """Return how many times as large differences between classes have become, by their weights.

    By how much fits to other rows differ grows alike: a penalty draws in both. At most 1 above
    λ = 0, where densities hold both back.
    """
    sizes = []
    for theta in (before, after):
        weights = objective.split(np.where(np.isnan(before + after), 0.0, theta))[0]
        sizes.append(float(np.linalg.norm(weights - weights.mean(axis=0))))
    growth = sizes[1] / sizes[0] if sizes[0] > 0.0 else 1.0
    return growth if objective.tradeoff == 0.0 else min(growth, 1.0)


def _nearest(found: list[PathPoint], tradeoff: float, l2: float) -> int | None:
    """Return the last point at this λ, else of those at the λ before it the nearest in l2."""
    if not found:
        return None
    last = len(found) - 1
    if found[last].tradeoff != tradeoff:
        before = [i for i, point in enumerate(found) if point.tradeoff == found[last].tradeoff]
        last = min(before, key=lambda i: abs(np.log((found[i].l2 + 1e-300) / (l2 + 1e-300))))
    return last
