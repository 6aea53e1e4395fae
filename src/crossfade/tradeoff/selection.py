"""One selector over λ, the penalty and the variant of the density, for every estimator.

Every point of the grid is fitted, scored out of fold (:mod:`crossfade.tradeoff.out_of_fold`), and
then either all points are pooled (:mod:`crossfade.tradeoff.pooling`) or the best one is picked. The
pool of models of one exponential family is a model of that family,

    Σ_g w_g (η_g, c_g),

whose posterior is that of the weighted mean of the parameters (a proper density where all points
are, since natural parameters form a convex set), raised to the power Σ_g w_g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from crossfade._typing import Floats, Integers
from crossfade.blocks import map_fits
from crossfade.densities.base import Density
from crossfade.inference.held_out import HeldOut
from crossfade.optim.solver import Solution
from crossfade.tradeoff.choice import Choice, choose, is_clearly_lower, n_apart, unscored
from crossfade.tradeoff.criteria import LOSSES, check_criterion, losses, row_losses
from crossfade.tradeoff.grid import Points, grids, is_slow
from crossfade.tradeoff.influence import WeightEquations
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.out_of_fold import Member, Refit, Without, out_of_fold
from crossfade.tradeoff.path import cold_start, follow, minimise
from crossfade.tradeoff.pooling import LEAST_SHARE, LogarithmicLoss, pool_or_one
from crossfade.tradeoff.remembered import once

#: Most rows on which a choice is made among fits whose Hessian is too large to be formed, and
#: fewest of each class among them.
_MOST_ROWS_SLOW = 1_000
_FEWEST_OF_A_CLASS = 10

#: Gradient norm (per row) of a pool's members times their share of it.
_POOLED = 3e-9

#: Gradient norm (per row) where there are words, whose fits take hundreds of passes.
_OF_WORDS = 1e-6


@dataclass(frozen=True)
class Selection(Choice):
    """The choice, the fits on all rows and their losses out of fold.

    `held_out` (n_samples, n_classes) or None: On given folds, log-posteriors by the choice that the
        rows of other folds make.
    `left_out`: Log-posteriors of the choice for rows that its fits did not see.
    `weighing`: What the weights of a pool came from, where log-loss gave them.
    """

    members: tuple[Member, ...]
    losses: tuple[dict[str, float], ...]
    held_out: Floats | None = None
    left_out: HeldOut | None = None
    weighing: WeightEquations | None = None

    def path(self) -> dict[str, Floats]:
        return super().path() | {
            "variant": np.array([float(member.variant) for member in self.members]),
            **{name: np.array([at[name] for at in self.losses]) for name in LOSSES},
            "objective": np.array([member.point.solution.value for member in self.members]),
        }


def select(
    objectives: Sequence[TradeoffObjective],
    refit: Refit,
    without: Without,
    *,
    pooled: bool,
    selection: str | ArrayLike = "log_loss",
    score_shift: Floats | None = None,
    groups: Integers | None = None,
    fold: Integers | None = None,
    grid: Sequence[Points] | None = None,
) -> Selection:
    """Fit the grid and pool it, or pick its best point.

    Takes grid: each variant's own, else the usual one.

    Shapes: selection (n_classes, n_classes); score_shift (n_classes,); groups, fold (n_samples,).
    """
    slow = any(
        is_slow(objective.with_tradeoff(tradeoff))
        for objective, own in zip(objectives, grids(objectives, grid)[0], strict=True)
        for tradeoff, _ in own
    )
    if slow and objectives[0].rows.n_samples > _MOST_ROWS_SLOW:
        return _chosen_on_some_rows(objectives, refit, without, selection, score_shift, groups)
    return _choose(objectives, refit, without, pooled, selection, score_shift, groups, fold, grid)


def _choose(
    objectives: Sequence[TradeoffObjective],
    refit: Refit,
    without: Without,
    pooled: bool,
    selection: str | ArrayLike,
    score_shift: Floats | None,
    groups: Integers | None,
    fold: Integers | None = None,
    grid: Sequence[Points] | None = None,
) -> Selection:
    rows = objectives[0].rows
    criterion, costs = check_criterion(selection, rows.n_classes)
    members, remark = _fit_grid(objectives, grid)
    points = [(member.point.tradeoff, member.point.l2) for member in members]
    found = out_of_fold(members, refit, without, groups, fold)
    scored, scores = found.rows, found.scores
    if not scored.n_samples:
        nothing = dict.fromkeys((*LOSSES, "cost"), np.nan)
        alike = "has two different rows" if groups is None else "lies in two groups"
        first = unscored(points, f"no class {alike}")
        return Selection(**vars(first), members=members, losses=(nothing,) * len(members))
    weights = scored.weights
    log_prior = np.log(np.maximum(rows.class_weights / rows.class_weights.sum(), 1e-300))
    if score_shift is not None:
        ratio = np.exp(score_shift)[scored.codes]
        weights = ratio if weights is None else weights * ratio
        scores, log_prior = scores + score_shift, log_prior + score_shift
    loss = LOSSES.get(criterion)

    can_pool = pooled and objectives[0].exact_labels
    every = np.arange(scored.n_samples)
    together = None if groups is None else groups[found.index]
    repeats = np.ones(scored.n_samples) if scored.weights is None else scored.weights
    if scored.class_factors is not None:
        repeats = repeats / scored.class_factors[scored.codes]

    def by_row(joint: Floats) -> Floats:
        return row_losses(joint, scored.codes, costs)[criterion]

    each_row = np.stack([by_row(s) for s in scores])

    def best_on(some: Integers, among: Integers | slice = slice(None)) -> Floats:
        own = None if weights is None else weights[some]
        if not can_pool:
            means = np.average(each_row[among][:, some], axis=1, weights=own)
            return np.eye(means.size)[means.argmin()]
        brier = loss is not None and loss.sum_of_squares
        return pool_or_one(scores[among][:, some], scored.codes[some], own, log_prior, brier=brier)

    def joint_of(shares: Floats, some: Integers, among: Integers | slice = slice(None)) -> Floats:
        relative = scores[among][:, some] - log_prior
        joint: Floats = log_prior + np.tensordot(shares, relative, axes=1)
        return joint

    def by_others(
        some: Integers, chosen: Callable[[Integers], Floats], among: Integers | slice = slice(None)
    ) -> Floats:
        """Return class scores of these rows by what those of them in other folds choose."""
        assert found.fold is not None
        joint, own = np.empty((some.size, rows.n_classes)), found.fold[some]
        for number in np.unique(own):
            others = some[own != number]
            shares = chosen(others if others.size else some)
            joint[own == number] = joint_of(shares, some[own == number], among)
        return joint

    def trust(some: Integers) -> float:
        """Return how probable rows make the pool of all fits, beside that of those `alone`."""
        pools = (by_others(some, partial(best_on, among=a), a) for a in (slice(None), alone))
        with_others, plain = (row_losses(one, scored.codes[some])["log_loss"] for one in pools)
        gain = np.average(plain - with_others, weights=None if weights is None else weights[some])
        own = None if together is None else together[some]
        return float(expit(n_apart(repeats[some], own) * gain))

    def shares_on(some: Integers) -> Floats:
        if not trusted:
            return best_on(some)
        share = trusted if some is every else trust(some)
        shares = share * best_on(some)
        shares[alone] += (1.0 - share) * best_on(some, alone)
        return shares

    # Unlabelled rows may hurt, and a choice among more fits is easily too hopeful.
    trusted = 0.0
    alone = np.flatnonzero([member.objective.unlabelled is None for member in members])
    if 0 < alone.size < len(members):
        if can_pool:
            # Fits that get no weight would still alter how far the others' weights are drawn.
            trusted, shares = trust(every), best_on(every)
            of_others = shares.sum() - shares[alone].sum()
            use = trusted >= LEAST_SHARE and of_others > LEAST_SHARE * shares.sum()
        else:
            others = np.setdiff1d(np.arange(len(members)), alone)
            picks = (by_others(every, partial(best_on, among=a), a) for a in (others, alone))
            with_others, plain = map(by_row, picks)
            use = is_clearly_lower(with_others, plain, weights, together)
        if not use:
            members, points = tuple(members[g] for g in alone), [points[g] for g in alone]
            scores, each_row, trusted = scores[alone], each_row[alone], 0.0
    each = tuple(losses(s, scored.codes, weights, costs) for s in scores)

    def pool() -> tuple[Floats, float]:
        shares = shares_on(every)
        return shares, float(np.average(by_row(joint_of(shares, every)), weights=weights))

    held_out = None
    if fold is not None:
        held_out = np.full((rows.n_samples, rows.n_classes), np.nan)
        joint = by_others(every, shares_on)
        held_out[found.index] = joint - np.logaddexp.reduce(joint, axis=1)[:, None]

    chosen = choose(
        found.method,
        points,
        criterion if loss is None else loss.title,
        np.array([at[criterion] for at in each]),
        each_row,
        weights,
        # Among equals (errors often are) the smaller log-loss decides.
        ties=np.array([at["log_loss"] for at in each]),
        pool=pool if can_pool else None,
        groups=together,
    )
    if remark:
        chosen = replace(chosen, method=f"{chosen.method}; {remark}")
    whole = joint_of(chosen.scale * chosen.shares, every)
    used_for = None if score_shift is None else np.exp(score_shift)
    factors = scored.class_factors
    left_out = HeldOut.of(whole, scored.codes, scored.weights, used_for, factors)
    weighing = None
    if can_pool and chosen.scale > 0.0 and not (loss is not None and loss.sum_of_squares):
        whole_loss = LogarithmicLoss(scores, scored.codes, weights, log_prior)
        kept = np.flatnonzero(chosen.shares)
        weighing = WeightEquations(found.index, whole_loss.of_members(kept))
    return Selection(
        **vars(chosen),
        members=members,
        losses=each,
        held_out=held_out,
        left_out=left_out,
        weighing=weighing,
    )


def _chosen_on_some_rows(
    objectives: Sequence[TradeoffObjective],
    refit: Refit,
    without: Without,
    selection: str | ArrayLike,
    score_shift: Floats | None,
    groups: Integers | None,
) -> Selection:
    """Pick the best point on a sample of the rows; it alone is then fitted on all of them."""
    rows = objectives[0].rows
    parts = rows.sample_by_class(_MOST_ROWS_SLOW / rows.n_samples, _FEWEST_OF_A_CLASS)
    index = np.sort(np.concatenate(parts))
    some = rows.take(index)

    def without_some(train: Integers) -> tuple[LabelledRows, Refit]:
        coded, own = without(index[train])
        return coded.take(index), own

    chosen = _choose(
        [refit(variant, some) for variant in range(len(objectives))],
        refit,
        without_some,
        False,
        selection,
        score_shift,
        None if groups is None else np.unique(groups[index], return_inverse=True)[1],
    )
    members, g = list(chosen.members), int(chosen.shares.argmax())
    member = members[g]
    point = member.point
    objective = objectives[member.variant].with_tradeoff(point.tradeoff).with_penalty(point.l2)
    start = objective.theta(member.objective.parameters(point.solution.theta))
    if not np.isfinite(objective.value(start)):
        start = cold_start(objective)
    solution = replace(point.solution, theta=start)
    members[g] = Member(member.variant, objective, replace(point, solution=solution))
    method = (
        f"{chosen.method}; chosen on these rows of all {rows.n_samples}, because each fit is slow"
    )
    return replace(chosen, members=tuple(members), method=method)


def _fit_grid(
    objectives: Sequence[TradeoffObjective], grid: Sequence[Points] | None
) -> tuple[tuple[Member, ...], str]:
    """Return the fits of the grid, and what is to be said of it."""
    tried, remark = grids(objectives, grid)

    def path(variant: int) -> list[Member]:
        objective, points = objectives[variant], tried[variant]
        found = once(lambda: follow(objective, points), objective.content, points)
        return [
            Member(variant, objective.with_tradeoff(point.tradeoff).with_penalty(point.l2), point)
            for point in found
        ]

    paths = map_fits(path, range(len(objectives)), objectives[0].rows.n_samples)
    return tuple(member for path in paths for member in path), remark


@dataclass(frozen=True)
class Pool:
    """A fitted pool.

    `objective`, `density`: Of the largest family in it; the density bound to the rows as given.
    `parameters`: The weighted mean of the members' parameters.
    `scale`: Power to which its posterior, relative to the class shares, is raised.
    `members`, `weights` (n_members,): Those with weight, at their optimum to full tolerance.
    """

    objective: TradeoffObjective
    density: Density
    parameters: Parameters
    scale: float
    members: tuple[Member, ...]
    weights: Floats

    @property
    def solution(self) -> Solution:
        """What the solver says of all members together; it stopped as the worst of them did."""
        found = [member.point.solution for member in self.members]
        worst = max(found, key=lambda solution: solution.gradient_norm)
        return replace(
            worst,
            theta=self.objective.gather(self.parameters),
            value=float(self.weights @ [solution.value for solution in found]),
            n_iter=sum(solution.n_iter for solution in found),
            converged=all(solution.converged for solution in found),
            message=f"pool of {len(found)} fits, of which the least exact: {worst.message}",
        )


def polish(selection: Selection) -> Pool:
    """Minimise the chosen points to full tolerance and put them together."""
    kept = np.flatnonzero(selection.shares)

    def exact(g: int) -> Member:
        member, share = selection.members[g], float(selection.shares[g])
        # An error of a member is one of the pool in proportion to its share.
        tol = None if share == 1.0 else min(_POOLED / share, 3e-8)
        if member.objective.density.reads_words:
            tol = _OF_WORDS
        objective, start = member.objective, member.point.solution.theta
        # A sample's optimum is no more than where to start from on all rows.
        solution = minimise(objective, start, tol=tol, cold=objective.rows.is_part)
        return replace(member, point=replace(member.point, solution=solution))

    rows = selection.members[int(kept[0])].objective.rows
    members = rows.fits(exact, [int(g) for g in kept])
    weights = selection.shares[kept]
    first = min(members, key=lambda member: member.variant)
    if first.objective.density.reads_words:
        first = selection.members[0]  # members may look at different columns, this one at all
    density, _ = first.objective.spread(first.point.solution.theta)
    found = [m.objective.spread(m.point.solution.theta) for m in members]
    absent = None
    if any(m.objective.passes.at_mean for m in members):  # no density's A stands for these gaps
        each = [own.log_partition(p.natural) if p.absent is None else p.absent for own, p in found]
        absent = np.tensordot(weights, each, axes=1)
    mean = Parameters(
        np.tensordot(weights, [p.natural for _, p in found], axes=1),
        np.tensordot(weights, [p.offset for _, p in found], axes=1),
        absent,
    )
    # A mean of logarithms: what all classes have in common is left to make the shares sum to one.
    log_shares = mean.offset + density.log_partition(mean.natural).sum(axis=1)
    total = np.logaddexp.reduce(log_shares)
    if np.isfinite(total):
        mean = replace(mean, offset=mean.offset - total)
    return Pool(first.objective, density, mean, selection.scale, tuple(members), weights)
