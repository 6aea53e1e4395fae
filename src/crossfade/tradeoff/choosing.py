"""Fits to a grid of λ, penalties and densities: a pool of its points, or the best one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Integers
from crossfade.densities.base import Density
from crossfade.tradeoff.binding import RowSums, bind, compact
from crossfade.tradeoff.fitting import FitOptions, Fitted, bound_rows, left_open, worries
from crossfade.tradeoff.grid import Points
from crossfade.tradeoff.influence import FittedMember, OpenDensities, stacked_fits
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.out_of_fold import Refit
from crossfade.tradeoff.selection import Selection, polish, select

#: From a fold's training rows to all rows, and the densities that the training rows choose.
ByFold = Callable[[Integers], tuple[LabelledRows, Sequence[Density]]]


def choose_tradeoff(
    rows: LabelledRows,
    densities: Sequence[Density],
    options: FitOptions,
    *,
    pooled: bool,
    selection: str | ArrayLike = "log_loss",
    groups: Integers | None = None,
    by_fold: ByFold | None = None,
    fold: Integers | None = None,
    grid: Sequence[Points] | None = None,
    unlabelled_weights: Sequence[float] = (0.0,),
    learnt_words: bool = False,
) -> Fitted:
    """Pool a grid of λ, penalties and these variants of the density, or fit its best point.

    The variants have the same statistics; the widest comes first. Where rows chose the densities,
    `by_fold` lets a fold's training rows choose theirs. `fold` names the folds to score on,
    `grid` each variant's own points. Each is fitted with each of `unlabelled_weights`, what a row
    without a label counts; 0 comes first. `learnt_words`: As for :func:`fit_tradeoff`.
    """
    everything, rows = rows, rows.at_hand
    objectives, n_densities, sums = [], len(densities), RowSums()

    def reduced(
        density: Density, rows: LabelledRows, weight: float
    ) -> tuple[Density, LabelledRows]:
        # A word that only rows held out have would count for the class of fewer words; those of new
        # documents count for none.
        if learnt_words and density.reads_words:
            others = rows.unlabelled
            density = density.for_words_of(rows.X, others.X if others and weight > 0.0 else None)
        return compact(density, rows, with_others=weight > 0.0)

    for weight in unlabelled_weights:
        for density in densities:
            density, own = reduced(density, rows, weight)
            own, bound, _ = bound_rows(own, density, known=sums)
            objectives.append(options.objective(own, bound, weight))
    if grid is not None and len(unlabelled_weights) > 1:
        densely = [[point for point in own if point[0] > 0.0] for own in grid]
        grid = [own for w in unlabelled_weights for own in (densely if w > 0.0 else grid)]
    rows = replace(rows, has_missing=objectives[-1].rows.has_missing)
    shift = options.prior_shift(everything.class_weights)

    def refit(variants: Sequence[Density]) -> Refit:
        # A fold's choice may leave nothing that variants differ in.
        last, sums = len(variants) - 1, RowSums()

        def of_part(variant: int, part: LabelledRows) -> TradeoffObjective:
            weight = unlabelled_weights[variant // n_densities]
            density = variants[min(variant % n_densities, last)]
            density, part = reduced(density, part, weight)
            return options.objective(part, bind(density, part, sums), weight)

        return of_part

    def without(train: Integers) -> tuple[LabelledRows, Refit]:
        if by_fold is None:
            return rows, refit(densities)
        chosen_rows, variants = by_fold(train)
        return replace(chosen_rows, has_missing=rows.has_missing), refit(variants)

    chosen = select(
        objectives,
        refit(densities),
        without,
        pooled=pooled,
        selection=selection,
        score_shift=shift,
        groups=groups,
        fold=fold,
        grid=grid,
    )
    if everything.is_part:
        chosen = _on_all_rows(chosen, everything, densities, options)
    pool = polish(chosen)
    # What all classes have in common, the points at λ = 0 leave open.
    undetermined = any(member.objective.tradeoff == 0.0 for member in pool.members)
    joint = left_open(pool.objective) if undetermined else None
    stays_open = joint is None or pool.parameters.absent is not None
    number = np.array([member.variant for member in chosen.members])
    each = np.array(unlabelled_weights)[number // n_densities]
    path = chosen.path() | {"variant": (number % n_densities).astype(np.float64)}
    return Fitted(
        density=pool.density,
        optimum=pool.parameters,
        class_weights=everything.class_weights,
        shift=shift,
        tradeoff=chosen.tradeoff,
        solution=pool.solution,
        path=path if rows.unlabelled is None else path | {"unlabelled_weight": each},
        selection=chosen.method,
        scale=pool.scale,
        n_components=options.n_components,
        warnings=worries([(m.objective, m.point.solution) for m in pool.members]),
        open=joint,
        held_out=chosen.held_out,
        left_out=chosen.left_out,
        evidence=stacked_fits(
            [
                FittedMember(one.objective, one.point.solution.theta, pool.scale * weight)
                for one, weight in zip(pool.members, pool.weights, strict=True)
            ],
            groups,
            chosen.weighing,
            has_absent=pool.parameters.absent is not None,
            open=None if stays_open else OpenDensities.of(pool.objective, pool.parameters),
        ),
        unlabelled_weight=float(chosen.shares @ each),
    )


def _on_all_rows(
    chosen: Selection, rows: LabelledRows, densities: Sequence[Density], options: FitOptions
) -> Selection:
    """Return a choice that a sample made with its members on all rows, to be fitted there."""
    shared = {m.variant for m, w in zip(chosen.members, chosen.shares, strict=True) if w}
    used = sorted(shared | {0} if densities[0].reads_words else shared)

    def bound(variant: int) -> TradeoffObjective:
        own, found, _ = bound_rows(rows, densities[variant % len(densities)])
        return options.objective(own, found)

    on_all = dict(zip(used, rows.fits(bound, used), strict=True))
    sample = chosen.members[0].objective.rows.n_samples
    members = tuple(
        replace(
            member,
            objective=on_all[member.variant]
            .with_tradeoff(member.point.tradeoff)
            .with_penalty(member.point.l2),
        )
        if member.variant in on_all
        else member
        for member, share in zip(chosen.members, chosen.shares, strict=True)
    )
    method = (
        f"{chosen.method}; chosen on {sample:,} rows of all {rows.n_samples:,}, drawn evenly, and "
        "fitted to all"
    )
    return replace(chosen, members=members, method=method, held_out=None, weighing=None)
