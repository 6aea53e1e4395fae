"""The grid of λ and penalties that a choice is made among, and what of it is worth its time."""

from __future__ import annotations

from collections.abc import Sequence

from crossfade.tradeoff.objective import TradeoffObjective

#: The grid of λ, from generative to discriminative.
TRADEOFFS: tuple[float, ...] = (1.0, 0.9, 0.5, 0.1, 0.0)

#: Multiples of the penalty that are tried, and at which λ they are all tried; elsewhere only 1 is.
PENALTIES: tuple[float, ...] = (0.1, 1.0, 10.0)
_ALL_PENALTIES = (0.5, 0.0)

#: Pseudo-rows per class with the variance of all classes, where the tradeoff is chosen: of few rows
#: a class's own variance may be nothing, and its posterior then certainty.
SHRINKAGE_ROWS = 2.0

#: Largest number of parameters whose Hessian is formed (1,500² doubles are 18 MB).
_DENSE = 1_500

#: A tradeoff below 1 joins up to so many times the parameters of a logistic regression.
_PAYING = 10

#: Parameters per row beyond which neighbouring tradeoffs are not told apart, and those below 1 that
#: are then tried.
_PARAMETERS_PER_ROW = 10
_OF_FEW_ROWS = (0.5, 0.0)

#: Columns of one covariance up to which it is chosen unasked: the time grows with their cube.
MOST_JOINT_COLUMNS = 300

#: Number of parameters from which fits are so slow that fewer folds must do.
_WIDE = 150

#: Tradeoffs below 1 that are tried with unlabelled rows, which have a part in densities alone.
_WITH_UNLABELLED = (0.5,)

#: A grid: λ, and a multiple of the penalty.
Points = Sequence[tuple[float, float]]


def is_dense(objective: TradeoffObjective) -> bool:
    """Return whether the objective's Hessian is small enough to be formed."""
    return objective.n_parameters <= _DENSE and objective.density.forms_statistics


def is_slow(objective: TradeoffObjective) -> bool:
    """Return whether what is searched for at its λ is too much for a Hessian to be formed."""
    return not objective.density.reads_words and not _is_dense_at(objective, objective.tradeoff)


def _is_dense_at(objective: TradeoffObjective, tradeoff: float) -> bool:
    searched = n_searched(objective, tradeoff)
    return not searched or (searched <= _DENSE and objective.density.forms_statistics)


def is_wide(objective: TradeoffObjective) -> bool:
    """Return whether fits are so slow that fewer folds must do."""
    return n_searched(objective, objective.tradeoff) > _WIDE


def grids(
    objectives: Sequence[TradeoffObjective], given: Sequence[Points] | None = None
) -> tuple[list[list[tuple[float, float]]], str]:
    """Return each variant's points (λ, l2), in the order in which they are fitted, and a remark.

    λ = 1 is a closed form. A smaller λ joins where the parameters to be searched for are no more
    than those of a logistic regression on the same columns, or `_PAYING` times as many if their
    Hessian can be formed; of rows so few that there are over ten parameters to each, half of them
    are tried. Of variants that differ in their prior alone it joins for the first only:
    below λ = 1 the penalty regularises. Beside fits without unlabelled rows, fewer are tried of
    those with them. At λ = 1 the penalty has no part. Where fits are slow (mixtures, a Hessian too
    large to be formed) it is not varied. Takes given: each variant's own grid instead.
    """
    found: list[list[tuple[float, float]]] = []
    if given is not None:
        for objective, own in zip(objectives, given, strict=True):
            found.append([(t, objective.l2 * multiple) for t, multiple in own])
        return found, ""
    kinds: set[tuple[bytes, bool]] = set()
    none_alone = all(objective.unlabelled is not None for objective in objectives)
    remarks = []
    sizes: dict[tuple[str, str], list[str]] = {}  # parameters, by what few rows leave out
    for objective in objectives:
        below = sorted(each for each in TRADEOFFS if each < 1.0)
        regression = objective.passes.n_classes * (objective.density.n_linear + 1)
        most = most_searched(regression)
        alone = objective.unlabelled is None or none_alone
        kind = objective.passes.tied.tobytes(), alone
        below = below if alone else [t for t in below if t in _WITH_UNLABELLED]
        kept = [] if kind in kinds else [t for t in below if n_searched(objective, t) <= most]
        if has_few_rows(objective) and alone:
            fewer = [t for t in kept if t in _OF_FEW_ROWS]
            if fewer != kept:
                left = ", ".join(f"{each:g}" for each in kept if each not in fewer)
                size = str(objective.n_parameters)
                sizes.setdefault((left, f"{objective.n_rows:g}"), []).append(size)
            below = [t for t in below if t not in kept or t in fewer]
            kept = fewer
        if kind not in kinds and kept != below and alone:
            left = ", ".join(f"{each:g}" for each in below if each not in kept)
            remarks.append(
                f"{_tradeoffs(left)} left out, with {objective.n_parameters} parameters; at most "
                f"{most} are worth their time, where a logistic regression has {regression}"
            )
        kinds.add(kind)
        several = (
            alone and objective.exact_labels and all(_is_dense_at(objective, each) for each in kept)
        )
        tried = points(objective.l2, several=several)
        found.append([point for point in tried if point[0] in (1.0, *kept)])
    few = [
        f"{_tradeoffs(left)} left out, with {' or '.join(size)} parameters of {rows} rows"
        for (left, rows), size in sizes.items()
    ]
    return found, "; ".join([*few, *remarks])


def _tradeoffs(left: str) -> str:
    """Return tradeoffs with their verb."""
    return f"tradeoffs {left} are" if "," in left else f"the tradeoff {left} is"


def most_searched(regression: int) -> int:
    """Return the most parameters worth their time where a logistic regression has so many."""
    return max(regression, min(_PAYING * regression, _DENSE))


def has_few_rows(objective: TradeoffObjective) -> bool:
    """Return whether rows are so few that they hardly tell a tradeoff from the next."""
    few = objective.n_parameters > _PARAMETERS_PER_ROW * objective.n_rows
    return few and not objective.density.reads_words


def n_searched(objective: TradeoffObjective, tradeoff: float) -> int:
    """Return how many parameters a solver searches for at this λ."""
    if tradeoff == 1.0 and objective.exact_labels:
        return 0
    return objective.n_parameters - (objective.passes.n_tied if tradeoff == 0.0 else 0)


def points(l2: float, *, several: bool = True, last: float = 0.0) -> list[tuple[float, float]]:
    """Return the points (λ, l2) of every grid, λ falling, at one λ the penalty falling."""
    found: list[tuple[float, float]] = []
    for tradeoff in TRADEOFFS:
        multiples = PENALTIES if several and tradeoff in _ALL_PENALTIES else (1.0,)
        l2s = sorted({l2 * multiple for multiple in multiples}, reverse=True)
        found.extend((max(tradeoff, last), penalty) for penalty in l2s)
    return found
