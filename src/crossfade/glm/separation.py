"""Separation: whether a finite estimate exists, and along which columns it does not.

A direction δ along which every row's likelihood only rises is one of recession: sᵢ xᵢᵀδ ≥ 0 for
rows whose best linear predictor is infinite (sᵢ its sign: all trials succeeded, or none), and
xᵢᵀδ = 0 for all others. Such directions are found by linear programmes (Konis 2007, Linear
programming algorithms for detecting separated data; solved by HiGHS), repeated until no row is
left that a further direction would separate. Rows with xᵢᵀδ ≠ 0 are then fitted exactly, in the
limit; the others make up the limiting conditional model, in which all that can be estimated is
(Albert & Anderson 1984; Geyer 2009, Likelihood inference in exponential families and directions
of recession).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.errors import DataError
from crossfade.glm.data import Data
from crossfade.glm.design import Design, stacked_triangle
from crossfade.glm.irls import FAINT, GlmProblem
from crossfade.optim.newton import sample_rows

#: Rows a linear programme starts with; more are added only where they are violated.
_PROGRAMME_ROWS = 2000

_TOLERANCE = 1e-7

#: How far a direction may move rows that are constant along it, by rounding.
_CONSTANT = 1e-6

#: Share of a direction, by rounding, in what the rows that it leaves where they are determine.
_INSIDE = 1e-4

#: Attempts at weights that sum to zero.
_ROUNDS = 8


@dataclass(frozen=True)
class Recession:
    """A direction along which the likelihood rises without end, largest entry 1 in absolute value.

    Shapes: direction (n_parameters,); separated_rows (n_rows,), where xᵢᵀδ ≠ 0.
    """

    direction: Floats
    separated_rows: NDArray[np.bool_]


class Compared(Protocol):
    """A likelihood whose rows ask one or more linear predictors to rise or fall, or be equal."""

    def comparison_weights(self, theta: Floats) -> Floats:
        """Return weights by row and comparison, (n_rows, n_kinds); negative where there is none."""

    def evidence(self, theta: Floats, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return Σ ω c cᵀ and Σ ω c over the comparisons used."""

    def moved(self, direction: Floats) -> Floats:
        """Return |c δ|: how far a direction moves the comparisons, (n_rows, n_kinds)."""

    def comparisons(self, which: NDArray[np.bool_]) -> tuple[Floats, Floats, Integers]:
        """Return c, what each asks for (+1, -1; 0 is equality), and the row it belongs to."""


def certainly_finite(problem: GlmProblem, theta: Floats, step: Floats, information: Floats) -> bool:
    """Return whether the last Newton step proves that a finite optimum exists.

    With residuals r and the step Δ = (ZᵀWZ)⁻¹Zᵀr, the corrected r - W ZΔ are orthogonal to all
    columns. If they keep the signs of r, they are strictly positive weights on sᵢxᵢ that sum to
    zero, and no direction of recession exists (Stiemke's lemma).
    """
    # No row of Z is longer than the sum of squares of all of them allows.
    reach = float(np.linalg.norm(step)) * np.sqrt(problem.data.n_rows * max(len(step), 1.0))
    if reach < 0.5 and problem.family.link.name in ("logit", "log"):
        return True
    if not problem.data.at_hand:
        return False  # a few rows tell without a pass: see decide_in_parts
    known = problem.known_weights(theta)
    if known is not None:
        # There |r| ≥ W, and no row's W (zΔ)² is more than that of all together.
        few = np.flatnonzero(~(known > 4.01 * float(step @ information @ step)))
        if len(few) < 0.1 * len(known):
            problem = problem.over(problem.data.take(few))
    data, family = problem.data, problem.family

    def violations(rows: slice) -> float:
        y, size = data.y[rows], data.size[rows]
        eta = problem.predictor(rows, theta)
        _, slope = family.loss(eta, y, size)
        moved = np.abs(problem.design.predictor(rows, step)) * family.information(eta, size)
        infinite = family.recession_signs(y, size) != 0.0
        return float(np.count_nonzero(infinite & ~(moved < 0.5 * np.abs(slope))))

    return block_sum(violations, data.n_rows) == 0.0


def decide(problem: Compared, theta: Floats) -> tuple[Recession | None, bool]:
    """Return the direction of recession, if any, and whether θ's own weights prove the rest.

    Comparisons whose weights at θ can be made to sum to zero exactly, each keeping at least half
    of itself, are constant along every direction of recession (Stiemke's lemma). What they leave
    open is a space of few dimensions, in which the other comparisons are put before the linear
    programmes. Where the weights prove nothing, all comparisons are.
    """
    weights = problem.comparison_weights(theta)
    everything = weights >= 0.0
    used, floor = weights > FAINT, FAINT
    for _ in range(_ROUNDS):
        matrix, gradient = problem.evidence(theta, used)
        split = _split(matrix, gradient)
        if split is None or any(
            (used & ~(problem.moved(open_direction) < _CONSTANT)).any()
            for open_direction in split[1].T
        ):
            # Weights so small that rounding hides what they say are left out.
            floor *= 100.0
            used &= weights > floor
            continue
        step, open_directions = split
        shaken = used & np.isfinite(weights) & ~(problem.moved(step) < 0.5)
        if shaken.any():
            used &= ~shaken
            continue
        found = _within(problem, everything & ~used, open_directions)
        return _real(problem, everything, found), True
    return _real(problem, everything, _within(problem, everything, np.eye(len(theta)))), False


def _real(
    problem: Compared, everything: NDArray[np.bool_], found: Recession | None
) -> Recession | None:
    """Return a direction that comparisons which seem unmoved by it leave open, or None.

    Beside a cell of 1e8 all others of its column look alike: a direction seems to move that row
    alone. But together they tell where it leads, and the optimum along it is finite.
    """
    while found is not None:
        moved = found.separated_rows[:, None] & (problem.moved(found.direction) > _TOLERANCE)
        still = everything & ~moved
        basis = determined_basis(problem.comparisons(still)[0])
        inside = float(np.linalg.norm(basis.T @ found.direction))
        if inside <= _INSIDE * float(np.linalg.norm(found.direction)):
            break
        open_directions = np.asarray(scipy.linalg.null_space(basis.T))
        found = _within(problem, everything, open_directions)
    return found


def decide_in_parts(problem: GlmProblem, theta: Floats) -> tuple[Floats | None, Floats, bool]:
    """Return a direction of recession or None, R of rows that span what it leaves, and as decide.

    A direction of recession of all rows is one of any of them. So a few rows say what it can be;
    rows that it would lower, and rows on which it is open, join them until there are none.
    """
    some = problem.data.sample
    while True:
        few = problem.over(some)
        recession, proven = decide(few, theta)
        moved = np.zeros(some.n_rows, dtype=bool)
        direction = np.zeros(len(theta))
        if recession is not None:
            direction, moved = recession.direction, recession.separated_rows
        determining = stacked_triangle(few.design.with_rows(some.X[~moved]))
        basis = determined_basis(determining)
        rest = scipy.linalg.null_space(basis.T) if basis.shape[1] else np.eye(len(theta))
        if recession is None and not rest.shape[1]:
            return None, determining, proven
        found = problem.data.collected(
            partial(_against, problem, direction, np.asarray(rest)), _worst_of_both
        )
        if not len(found[0]):
            return (None if recession is None else direction), determining, proven
        some = _both(some, found[1])


def unmoved(design: Design, direction: Floats) -> Callable[[Data], NDArray[np.bool_]]:
    """Return what tells which rows a direction does not move."""

    def of(data: Data) -> NDArray[np.bool_]:
        along = design.with_rows(data.X).predictor(slice(0, data.n_rows), direction)
        return np.asarray(np.abs(along) <= _TOLERANCE)

    return of


def _against(
    problem: GlmProblem, direction: Floats, rest: Floats, data: Data
) -> tuple[Floats, Data]:
    """Return the rows that a direction lowers most, or that `rest` leaves open, and how much."""
    every = slice(0, data.n_rows)
    signs = problem.family.recession_signs(data.y, data.size)
    design = problem.design.with_rows(data.X)
    along = design.predictor(every, direction)
    broken = np.where(signs == 0.0, np.abs(along), -signs * along)
    if rest.shape[1]:
        left_open = np.abs(design.predictor(every, rest)).max(axis=1)
        broken = np.where(np.abs(along) <= _TOLERANCE, left_open, broken)
    rows = np.argsort(-broken, kind="stable")[:_PROGRAMME_ROWS]
    rows = rows[broken[rows] > _TOLERANCE]
    return broken[rows], data.take(rows)


def _worst_of_both(one: tuple[Floats, Data], other: tuple[Floats, Data]) -> tuple[Floats, Data]:
    broken, data = np.concatenate([one[0], other[0]]), _both(one[1], other[1])
    rows = np.argsort(-broken, kind="stable")[:_PROGRAMME_ROWS]
    return broken[rows], data.take(rows)


def _both(one: Data, other: Data) -> Data:
    """Return the rows of both, each counting once: only what they ask for is of interest."""
    columns = (np.concatenate([getattr(one, n), getattr(other, n)]) for n in ("X", "y", "size"))
    return Data(*columns)


def _within(problem: Compared, which: NDArray[np.bool_], basis: Floats) -> Recession | None:
    """Return the direction of recession within the span of `basis` that these rows allow."""
    if not basis.shape[1]:
        return None
    contrasts, signs, rows = problem.comparisons(which)
    found = find_recession(contrasts @ basis, signs)
    if found is None:
        return None
    direction = basis @ found.direction
    separated = np.zeros(len(which), dtype=bool)
    separated[rows[found.separated_rows]] = True
    return Recession(direction / np.abs(direction).max(), separated)


def _split(matrix: Floats, gradient: Floats) -> tuple[Floats, Floats] | None:
    """Return the smallest solution of matrix @ step = gradient and the null space of the matrix.

    None where rounding hides which directions belong to it.
    """
    lengths = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    lengths[lengths <= 1e-150] = 1.0
    values, vectors = np.linalg.eigh(matrix / np.outer(lengths, lengths))
    ranged = values > 1e-8
    if (values[~ranged] > 1e-11).any():
        return None
    directions = vectors / lengths[:, None]
    scaled = directions[:, ranged]
    null = directions[:, ~ranged]
    return scaled @ ((scaled.T @ gradient) / values[ranged]), null / np.abs(null).max(axis=0)


def find_recession(Z: Floats, signs: Floats) -> Recession | None:
    """Return a direction of recession that separates all rows that any one does.

    Shapes: Z (n_rows, n_parameters); signs (n_rows,).
    """
    oriented = Z * np.where(signs == 0.0, 1.0, signs)[:, None]
    # Identical rows say the same thing; a grouped or discrete design shrinks to a few.
    keyed = np.column_stack([oriented, signs == 0.0])
    distinct, inverse = np.unique(keyed, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    oriented, equal = distinct[:, :-1], distinct[:, -1] == 1.0
    total = np.zeros(Z.shape[1])
    open_rows = ~equal
    while open_rows.any():
        found = _programme(oriented, equal, open_rows)
        if found is None:
            break
        total += found
        open_rows &= oriented @ found <= _TOLERANCE
    if not total.any():
        return None
    direction = total / np.abs(total).max()
    moved = np.abs(oriented @ direction) > _TOLERANCE
    return Recession(direction, moved[inverse])


def _programme(rows: Floats, equal: NDArray[np.bool_], gain: NDArray[np.bool_]) -> Floats | None:
    """Maximise the summed margins of `gain` rows within the box and the cone of all rows.

    Rows enter the programme when a solution of fewer rows violates them.
    """
    count = len(rows)
    included = np.zeros(count, dtype=bool)
    if count > _PROGRAMME_ROWS:
        included[sample_rows(count, _PROGRAMME_ROWS / count)] = True
    else:
        included[:] = True
    objective = -rows[gain].sum(axis=0)
    objective = objective / max(np.abs(objective).max(), 1e-300)
    while True:
        solution = _solve(rows[included], equal[included], objective)
        margins = rows @ solution
        if included.all():
            break
        broken = np.where(equal, np.abs(margins), -margins)
        broken[included] = 0.0
        worst = np.argsort(-broken)[:_PROGRAMME_ROWS]
        worst = worst[broken[worst] > _TOLERANCE]
        if not len(worst):
            break
        included[worst] = True
    if not (margins[gain] > _TOLERANCE).any():
        return None
    return np.where(np.abs(solution) > _TOLERANCE, solution, 0.0)


def _solve(rows: Floats, equal: NDArray[np.bool_], objective: Floats) -> Floats:
    result = scipy.optimize.linprog(
        objective,
        A_ub=-rows[~equal] if (~equal).any() else None,
        b_ub=np.zeros(int((~equal).sum())) if (~equal).any() else None,
        A_eq=rows[equal] if equal.any() else None,
        b_eq=np.zeros(int(equal.sum())) if equal.any() else None,
        bounds=(-1.0, 1.0),
        method="highs",
    )
    if result.x is None:
        raise RuntimeError(f"the separation programme failed: {result.message}")
    return np.asarray(result.x, dtype=np.float64)


def determined_basis(rows: Floats) -> Floats:
    """Return orthonormal columns that span what these rows determine of θ.

    Shapes: rows (n_rows, n_parameters); → (n_parameters, rank).
    """
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    triangle = np.linalg.qr(rows, mode="r")
    _, values, directions = scipy.linalg.svd(triangle, full_matrices=True)
    rank = int((values > 1e-9 * max(float(values.max()), 1.0)).sum())
    return np.ascontiguousarray(directions[:rank].T)


def estimable(basis: Floats, matrix: Floats) -> NDArray[np.bool_]:
    """Return which entries of β = T θ lie in what is determined (see :func:`determined_basis`)."""
    lengths = np.linalg.norm(matrix, axis=1)
    missed = matrix - (matrix @ basis) @ basis.T
    return np.linalg.norm(missed, axis=1) <= 1e-7 * np.maximum(lengths, 1e-300)


def positive_predictors(columns: Floats, offset: Floats, most: float) -> Floats | None:
    """Return u with columns @ u + offset > 0 in every row, or None where there is none.

    Shapes: columns (n_rows, n_free); offset (n_rows,).
    """
    size = columns.shape[1]
    objective = np.zeros(size + 1)
    objective[-1] = -1.0
    result = scipy.optimize.linprog(
        objective,
        A_ub=np.column_stack([-columns, np.ones(len(columns))]),
        b_ub=offset,
        bounds=[(None, None)] * size + [(None, most)],
        method="highs",
    )
    if result.x is None or result.x[-1] <= 1e-9 * most:
        return None
    return np.asarray(result.x[:-1], dtype=np.float64)


def inner_point(design: Design, data: Data, constant: float) -> Floats:
    """Return a θ with positive linear predictors, near `constant` where that is possible."""
    Z = design.standard(slice(0, data.n_rows))
    offset = np.zeros(data.n_rows) if data.offset is None else data.offset
    theta = np.asarray(scipy.linalg.lstsq(Z, constant - offset)[0], dtype=np.float64)
    if (Z @ theta + offset > 0.01 * constant).all():
        return theta
    found = positive_predictors(Z, offset, constant)
    if found is None:
        raise DataError(
            "link: expected a design that allows positive means in every row, got none without an "
            "intercept; use fit_intercept=True or link='log'"
        )
    return found
