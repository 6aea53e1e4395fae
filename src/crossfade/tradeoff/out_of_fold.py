"""Class scores that each row's own label did not touch, for every point of a grid of fits.

They come from one of two sources, by a stated rule. Approximate leave-one-out costs one
factorisation per point. It is used where there are at least 400 rows and 10 rows per parameter that
differs between classes, and where it is seen to be true: either it corrects the mean log-loss of
the fitted rows by no more than 2 %, or the most influential rows are refitted without themselves
and what that shows of its error amounts to no more than 2 %. Everything else, and all rows in
groups, is refitted on folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import map_fits
from crossfade.densities.base import Density
from crossfade.densities.product import Product
from crossfade.tradeoff.criteria import row_losses
from crossfade.tradeoff.folds import drawn_evenly, folds
from crossfade.tradeoff.grid import is_dense, is_wide
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.leave_one_out import LeftOut, approximate_leave_one_out
from crossfade.tradeoff.lockstep import goes_in_lockstep
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.path import PathPoint, curvature_share, follow_beside, minimise
from crossfade.tradeoff.remembered import once
from crossfade.tradeoff.scoring import held_out_scores

#: Rows per parameter that varies between classes must have for the approximation to be used.
_ROWS_PER_PARAMETER = 10

#: Fewest rows for the approximation.
_FEWEST_ROWS = 400

#: Most rows whose left-out scores are computed; beyond, an evenly spread sample of them.
_MOST_ROWS = 2_000

#: Rows at least whose curvature stands for all rows'.
_CURVED_ROWS = 10_000

#: Share of the mean log-loss by which the approximation may err.
_TOLERANCE = 0.02

#: Most influential rows that are refitted to see whether it does.
_CHECKED_ROWS = 3

#: Folds, and folds where refits are slow.
_N_FOLDS = 5
_N_FOLDS_WIDE = 3

#: Makes the objective of one density variant for some rows, the density bound to them alone.
Refit = Callable[[int, LabelledRows], TradeoffObjective]

#: From a fold's training rows to all rows as they are coded for that fold, and its objectives.
Without = Callable[[Integers], tuple[LabelledRows, Refit]]


@dataclass(frozen=True)
class Member:
    """One fit of the grid.

    `variant`: Number of its density.
    `objective`: On all rows, at its λ and l2.
    """

    variant: int
    objective: TradeoffObjective
    point: PathPoint


@dataclass(frozen=True)
class OutOfFold:
    """Scores of every member, on which rows, and by which method, in words.

    Shapes: scores (n_members, n_scored, n_classes), up to a term common to the classes; index
    (n_scored,), places among all rows; fold (n_scored,), None where rows were left out one by one.
    """

    scores: Floats
    rows: LabelledRows
    method: str
    index: Integers
    fold: Integers | None = None


def out_of_fold(
    members: Sequence[Member],
    refit: Refit,
    without: Without,
    groups: Integers | None = None,
    fold: Integers | None = None,
) -> OutOfFold:
    """Score rows by models that did not see them, on these folds where they are given."""
    objectives = [member.objective for member in members]
    if (
        fold is None
        and groups is None
        and all(_large_enough(objective) for objective in objectives)
    ):
        found = _left_out(members, refit)
        if found is not None:
            return found
    rows = objectives[0].rows
    if fold is None:
        n_folds = _N_FOLDS_WIDE if any(map(is_wide, objectives)) else _N_FOLDS
        fold = folds(rows, n_folds, groups)
    else:
        n_folds = int(fold.max(initial=-1)) + 1
    kept = np.flatnonzero(fold >= 0)
    # Closed forms have no start.
    searched = {at.variant for at in members if at.point.tradeoff < 1.0 or at.objective.unlabelled}
    optima = {
        g: at.objective.spread(at.point.solution.theta)[1]
        for g, at in enumerate(members)
        if at.variant in searched
    }
    scores = np.zeros((len(members), rows.n_samples, rows.n_classes))

    def score(numbers: list[int]) -> None:
        parts = []
        for number in numbers:
            held = np.flatnonzero(fold == number)
            if held.size:
                train = np.flatnonzero(fold != number)
                coded, own = without(train)
                parts.append(_Fold(own, coded.take(train), coded.take(held), held))
        _score_folds(members, optima, parts, scores)

    # Of few rows all folds at once: their fits are found side by side.
    every = list(range(int(fold.max(initial=-1)) + 1))
    few = any(goes_in_lockstep(at.objective) for at in members)
    map_fits(score, [every] if few else [[number] for number in every], rows.n_samples)
    of_groups = "" if groups is None else f" of {int(groups.max()) + 1} groups"
    method = f"refits on {n_folds} folds of {rows.n_samples} rows{of_groups}"
    return OutOfFold(scores[:, kept], rows.take(kept), method, kept, fold[kept])


class _Fold(NamedTuple):
    """A fold: how its training rows are fitted, these rows and those held out, and their places."""

    refit: Refit
    train: LabelledRows
    test: LabelledRows
    held: Integers


def _score_folds(
    members: Sequence[Member],
    optima: Mapping[int, Parameters],
    folds: Sequence[_Fold],
    scores: Floats,
) -> None:
    for variant in sorted({member.variant for member in members}):
        own = [number for number, member in enumerate(members) if member.variant == variant]
        same = [members[g] for g in own]
        points = [(member.point.tradeoff, member.point.l2) for member in same]
        parts = [fold.refit(variant, fold.train) for fold in folds]
        near = [_beside(part, own, same, optima) for part in parts]
        cells = [fold.test.X for fold in folds]
        work = partial(_scores_of_folds, parts, points, near, [fold.test for fold in folds])
        every = once(work, [part.content for part in parts], points, near, cells)
        for fold, found in zip(folds, every, strict=True):
            scores[np.array(own)[:, None], fold.held] = found


def _beside(
    part: TradeoffObjective,
    own: Sequence[int],
    same: Sequence[Member],
    optima: Mapping[int, Parameters],
) -> list[Floats]:
    """Return the fits of all rows as a fold's parameters.

    They are near; at the tolerance, nothing of the rows held out is left of them.
    """
    whole = same[0].objective
    if own[0] not in optima:
        return [np.zeros(0)] * len(own)
    if _is_alike(part.density, whole.density):
        return [part.gather(optima[g]) for g in own]
    carried = _counterparts(part, whole)  # the fold has chosen other densities of some columns
    return [carried(member) for member in same]


def _scores_of_folds(
    parts: Sequence[TradeoffObjective],
    points: Sequence[tuple[float, float]],
    near: Sequence[Sequence[Floats]],
    tests: Sequence[LabelledRows],
) -> list[Floats]:
    """Return the scores of rows held out, by folds' fits, (n_points, n_rows, n_classes) each."""
    paths = follow_beside(parts, points, near)
    return [
        held_out_scores([(part.with_tradeoff(at.tradeoff), at.solution.theta) for at in path], test)
        for part, path, test in zip(parts, paths, tests, strict=True)
    ]


def _is_alike(one: Density, other: Density) -> bool:
    """Return whether parameters of both mean the same statistics, in the same order."""
    if isinstance(one, Product) and isinstance(other, Product):
        pairs = list(zip(one.parts, other.parts, strict=False))
        return len(one.parts) == len(other.parts) and all(
            list(a[1]) == list(b[1]) and _is_alike(a[0], b[0]) for a, b in pairs
        )
    return type(one) is type(other) and one.n_spread == other.n_spread


def _counterparts(part: TradeoffObjective, whole: TradeoffObjective) -> Callable[[Member], Floats]:
    """Return what takes a fit's standardised parameters to those of other densities, NaN if none.

    Columns count: what they have in standard units is alike, whatever their density.
    """
    places = {key: place for place, key in enumerate(_statistic_keys(whole.density))}
    source = np.array([places.get(key, -1) for key in _statistic_keys(part.density)], dtype=np.intp)

    def carried(member: Member) -> Floats:
        weights, offsets, tied = whole.split(member.point.solution.theta)
        full = np.full((len(offsets), whole.passes.tied.size + 1), np.nan)
        full[:, :-1][:, whole.passes.free], full[:, :-1][:, whole.passes.tied] = weights, tied
        found = full[:, source]
        mine = part.passes.tied
        return part.join(found[:, part.passes.free], offsets, found[:, mine].mean(axis=0))

    return carried


def _statistic_keys(density: Density) -> list[tuple[Any, ...]]:
    """Return what tells statistics apart: their factor's columns and which of how many they are."""
    columns: dict[int, list[int]] = {}
    for column, factor in enumerate(density.feature_factors.tolist()):
        columns.setdefault(factor, []).append(column)
    sizes = np.bincount(density.factors, minlength=density.n_factors)
    seen: dict[int, int] = {}
    keys = []
    for factor in density.factors.tolist():
        seen[factor] = seen.get(factor, -1) + 1
        keys.append((*columns.get(factor, ()), int(sizes[factor]), seen[factor]))
    return keys


# -- leave-one-out ---------------------------------------------------------------------------------


def _large_enough(objective: TradeoffObjective) -> bool:
    """Return whether there are rows enough (by weight: three equal rows are a weight of three)."""
    if objective.unlabelled is not None:  # whose expected labels a row left out has moved
        return False
    varying = (objective.passes.n_classes - 1) * (objective.passes.n_free + 1)
    fewest = max(_FEWEST_ROWS, _ROWS_PER_PARAMETER * varying)
    return objective.n_rows >= fewest and objective.exact_labels and is_dense(objective)


def _left_out(members: Sequence[Member], refit: Refit) -> OutOfFold | None:
    """Return approximate leave-one-out scores, None where they cannot be trusted."""
    rows = members[0].objective.rows
    index = drawn_evenly(rows, _MOST_ROWS)
    scored = rows.take(index)

    def left_out(member: Member) -> LeftOut:
        objective, theta = member.objective, member.point.solution.theta
        # A row's influence is a small correction: its curvature need not be as near as a step's.
        share = curvature_share(objective, least=_CURVED_ROWS / rows.n_samples)
        return approximate_leave_one_out(objective, theta, index, share=share)

    found: dict[int, LeftOut] = {}

    def trusted(g: int) -> bool:
        one = found[g]
        if _correction(one, scored) <= _TOLERANCE:
            return True
        return _error_seen(members[g], one.fitted, one.scores, scored, index, refit) <= _TOLERANCE

    def weakest(g: int) -> tuple[float, float]:
        return members[g].point.tradeoff, members[g].point.l2

    variants = {member.variant for member in members}
    own = [[g for g, member in enumerate(members) if member.variant == v] for v in variants]
    # Asked first are those that tell as a rule: where one may not be trusted, no other is needed.
    first = [min(some, key=weakest) for some in own]
    for g in first:
        found[g] = left_out(members[g])
        if not trusted(g):
            return None
    rest = [g for g in range(len(members)) if g not in found]
    found |= zip(rest, map_fits(left_out, [members[g] for g in rest], rows.n_samples), strict=True)
    worst = {max(some, key=lambda g: _correction(found[g], scored)) for some in own}
    if not all(trusted(g) for g in worst.difference(first)):
        return None
    scores = np.stack([found[g].scores for g in range(len(members))])
    method = f"approximate leave-one-out over {scored.n_samples} rows"
    return OutOfFold(scores, scored, method, index)


def _correction(found: LeftOut, rows: LabelledRows) -> float:
    """Return the share of the mean log-loss that fitted rows do not show."""
    outside = _mean_log_loss(found.scores, rows)
    return (outside - _mean_log_loss(found.fitted, rows)) / max(outside, 1e-300)


def _mean_log_loss(scores: Floats, rows: LabelledRows) -> float:
    return float(np.average(row_losses(scores, rows.codes)["log_loss"], weights=rows.weights))


def _error_seen(
    member: Member,
    fitted: Floats,
    scores: Floats,
    scored: LabelledRows,
    index: Integers,
    refit: Refit,
) -> float:
    """Return the relative error of the mean log-loss, judged by the most influential rows.

    Their share of the correction that was wrong is taken for every row's, which is cautious: the
    rest of the rows move the fit less, and one step is the better for them.
    """
    before = row_losses(fitted, scored.codes)["log_loss"]
    after = row_losses(scores, scored.codes)["log_loss"]
    influence = np.abs(after - before)
    order = np.argsort(-influence, kind="stable")
    # Copies of a row tell nothing new.
    fresh = np.append(True, np.diff(influence[order]) < -1e-9 * influence[order[0]])
    checked = order[fresh][:_CHECKED_ROWS]
    exact = np.array([_refitted_loss(member, int(index[i]), refit) for i in checked])
    total = float(np.abs(exact - before[checked]).sum())
    wrong = float(np.abs(exact - after[checked]).sum()) / max(total, 1e-300)
    mean = float(np.average(after, weights=scored.weights))
    correction = mean - float(np.average(before, weights=scored.weights))
    return wrong * correction / max(mean, 1e-300)


def _refitted_loss(member: Member, i: int, refit: Refit) -> float:
    """Return one row's log-loss by the fit without it (without one unit of its weight)."""
    rows = member.objective.rows
    if rows.weights is not None and rows.weights[i] > 1.0:
        weights = rows.weights.copy()
        weights[i] -= 1.0
        rest = replace(rows, weights=weights)
    else:
        rest = rows.take(np.delete(np.arange(rows.n_samples), i))
    point = member.point
    objective = refit(member.variant, rest).with_tradeoff(point.tradeoff).with_penalty(point.l2)
    theta = minimise(objective, point.solution.theta, tol=1e-6).theta
    own = rows.take(np.array([i]))
    (found,) = held_out_scores([(objective, theta)], own)
    return float(row_losses(found, own.codes)["log_loss"][0])
