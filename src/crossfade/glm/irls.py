"""Iteratively reweighted least squares: the likelihood as a problem, and its solution.

β ← (XᵀWX)⁻¹ XᵀW z with z = Xβ + W⁻¹(y - μ) is one Newton step with the expected information as
curvature, β ← β + (XᵀWX)⁻¹ Xᵀ(y - μ) for a canonical link (Sarkar, Lecture 14, section 14.3.1).
So the solver is :class:`crossfade.optim.newton.Dense`; this module states the problem as sums
over blocks of rows, and the lecture's stopping rule, ‖Δβ‖/‖β‖ < 10⁻ᶜ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, for_each_block
from crossfade.errors import DataError
from crossfade.glm.data import Data
from crossfade.glm.design import MANY_ROWS, Design, smallest_pivot
from crossfade.glm.families import Family
from crossfade.glm.likelihood import Likelihood, RowParts
from crossfade.glm.sampling import sample_data
from crossfade.optim.newton import Dense, Sampled
from crossfade.optim.solver import InnerSolve, Iterate, Problem, Solution, descend

#: A comparison of this weight, of 1, says nothing that rounding would not.
FAINT = 1e-7

#: Largest gradient entry per row from which the curvature is kept: a tenth of the rows is wrong in
#: its second digit anyway, which is what is lost by keeping it from there.
_NEAR = 3e-3

#: Share of a column that others leave free above which single precision says enough of it.
_CLEAR = 1e-4

#: Variance of the normal prior, in standardised columns, under which a sample's optimum is sought.
_LOOSE = 25.0


@dataclass(frozen=True)
class Iteration:
    """One step of the fit.

    `objective`: Negative log-likelihood (without constants), penalty included, after the step.
    `change`: ‖Δβ‖/‖β‖ of the step, columns measured in their standard deviations.
    `gradient_norm`: Largest gradient entry divided by the number of observations, after the step.
    `coefficients`: β after the step, intercept first.
    """

    objective: float
    change: float
    gradient_norm: float
    coefficients: Floats


@dataclass(frozen=True)
class Solved:
    """A solution, the steps that led to it, and the gradient that is left there."""

    solution: Solution
    history: tuple[Iteration, ...]
    gradient: Floats


class _AllSums(NamedTuple):
    """What a pass over the rows finds at θ, penalties left out; `faint` counts rows.

    `exact`: Whether the information is in double precision.
    `curvature`: The loss's own, where its steps are taken from that.
    """

    theta: Floats
    exact: bool
    value: float
    gradient: Floats
    information: Floats
    faint: float
    curvature: Floats


class EdgeReached(Exception):
    """Steps end at the edge of the link's domain."""


class GlmProblem:
    """Negative log-likelihood of a generalised linear model plus ½ l2 Σ β_j², by blocks of rows.

    The columns are in their own units, the intercept is free.

    `far`: Relative change of θ from which the curvature of rows that are not at hand is taken in
        single precision: the next step is not the last. It is doubted, and taken again, where
        columns are nearly collinear; and no more after a step that did not halve the gradient.
    `patience`: How many values outside the link's domain may follow each other.
    """

    def __init__(self, design: Design, data: Data, family: Family, l2: float = 0.0) -> None:
        self.design, self.data, self.family, self.l2 = design, data, family, l2
        columns = design.units()[1]
        self.penalty = l2 / columns**2
        if design.intercept:
            self.penalty = np.concatenate([[0.0], self.penalty])
        self._samples: dict[float, GlmProblem] = {}
        self._known: _AllSums | None = None
        self._weights: tuple[Floats, Floats] | None = None  # θ, and W of all rows there
        self.far = self.patience = np.inf
        self._outside = 0

    def __getstate__(self) -> dict[str, Any]:
        # What goes to other machines sums over the rows it finds there.
        return self.__dict__ | {"_samples": {}, "_known": None, "_weights": None}

    def over(self, data: Data) -> GlmProblem:
        """Return the likelihood of a part of the rows, for sums over it."""
        if data is self.data:
            return self
        return GlmProblem(self.design.with_rows(data.X), data, self.family, self.l2)

    @cached_property
    def n_rows(self) -> float:
        """Return the number of observations: rows by weight, and by trials where there are any."""
        return self.data.occasions if self.family.size_is_trials else self.data.total_weight

    @cached_property
    def _weighted(self) -> tuple[Floats, Floats]:
        """Return responses and sizes times the row weights."""
        data = self.data
        if data.weights is None:
            return data.y, np.ascontiguousarray(data.size)
        return data.y * data.weights, data.size * data.weights

    def matrix(self) -> Floats:
        """Return T with β = T θ."""
        return self.design.matrix()

    def coefficients(self, theta: Floats) -> Floats:
        """Return β of θ."""
        return self.matrix() @ theta

    def predictor(self, rows: slice, theta: Floats) -> Floats:
        """Return the linear predictors of a block, offset included."""
        eta = self.design.predictor(rows, theta)
        return eta if self.data.offset is None else eta + self.data.offset[rows]

    def start(self) -> Floats:
        """Return the constant that fits the mean, and zero slopes."""
        data, link = self.data, self.family.link
        theta = np.zeros(self.design.n_parameters)
        total, occasions = data.responses, data.occasions
        low, high = link.mean_range
        mean = (total + 0.5) / (occasions + 1.0) if high == 1.0 else total / occasions
        mean = mean if mean > low else 0.5 / (occasions + 1.0)
        constant = float(link.link(np.array(mean)))
        if self.design.intercept:
            shift, least = data.offsets
            if link.lowest_eta > -np.inf:
                shift = min(least, 0.0)
            theta[0] = constant - shift
        elif link.lowest_eta > -np.inf:
            theta = self._inside(constant)
        if data.at_hand or not self.design.X.shape[1]:
            return theta
        near = self._near(theta)
        return near if np.isfinite(self.value(near)) else theta

    def _near(self, theta: Floats) -> Floats:
        """Return the optimum of a sample of the rows, under a penalty that keeps it finite."""
        some = self.over(self.data.sample)
        share = self.n_rows / max(some.data.n_rows, 1)
        some.penalty = some.penalty + share / _LOOSE
        if self.design.intercept:
            some.penalty[0] = 0.0
        # Further than this the sample itself is off.
        return descend(some, theta, Dense(), tol=1e-5, max_iter=30).theta

    def _inside(self, constant: float) -> Floats:
        """Return a θ near least squares of the constant whose linear predictors are all legal."""
        if not self.data.at_hand:
            raise DataError(
                f"fit_intercept: expected True with link={self.family.link.name!r} for rows that "
                "are read in parts, got False; keep the intercept, or fit to a table in memory"
            )
        from crossfade.glm.separation import inner_point

        return inner_point(self.design, self.data, constant)

    def value(self, theta: Floats) -> float:
        """Return the negative log-likelihood without constants, penalty included."""
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient: one pass over the rows."""
        if self.data.at_hand:
            value, gradient = self._sums(theta)
        else:
            known = self._pass(theta)
            value, gradient = known.value, known.gradient
        value = np.inf if np.isnan(value) else value
        self._outside = self._outside + 1 if value == np.inf else 0
        if self._outside > self.patience:
            raise EdgeReached
        pull = self.penalty * theta
        return value + 0.5 * float(pull @ theta), gradient + pull

    def _pass(self, theta: Floats, *, exact: bool = False) -> _AllSums:
        """Return all sums at θ: a pass over the rows takes longer than any of them."""
        known = self._known
        if known is not None and np.array_equal(known.theta, theta) and (known.exact or not exact):
            return known
        rough = not exact and self._is_far(theta)

        def sums(data: Data) -> tuple[Any, ...]:
            part = self.over(data)

            def of_block(rows: slice) -> tuple[Any, ...]:
                block, weights = part.design.block_by_rows(rows), np.empty(rows.stop - rows.start)
                with np.errstate(all="ignore"):
                    found: tuple[Any, ...] = part._block_sums(rows, theta, block, weights)
                    found += part._weighted_products(block, rows, weights, rough)
                    if part.family.newton:
                        own = part.own_curvature(rows, theta)
                        found += part._weighted_products(block, rows, own, rough)[:1]
                    return found

            return block_sum(of_block, data.n_rows, block_rows=part.design.block_rows)

        value, gradient, gram, faint, *own = self.data.total(sums)
        matrices = [self.design.standardised_products(one, rough) for one in (gram, *own)]
        found = _AllSums(theta.copy(), not rough, value, gradient, matrices[0], faint, matrices[-1])
        if known is not None and not known.exact:
            before, after = (np.abs(s.gradient + self.penalty * s.theta) for s in (known, found))
            if not after.max() < 0.5 * before.max():
                self.far = np.inf
        self._known = found
        return found

    def _is_far(self, theta: Floats) -> bool:
        """Return whether θ is still so far from the end that a rough curvature leads on as well."""
        if self._known is None:
            change = np.inf
        else:
            change = relative_change(self, theta, theta - self._known.theta)
        return not self.design.doubtful and self.far < np.inf and change >= self.far

    def _sums(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient without the penalty; keep W where it comes along."""
        design, n_rows = self.design, self.data.n_rows
        if self.family.whole_pass is None:
            kept = np.empty(0)
        else:  # memory asked for anew would be cleared first
            kept = np.empty(n_rows) if self._weights is None else self._weights[1]

        def of_block(rows: slice) -> tuple[float, Floats]:
            return self._block_sums(rows, theta, design.block(rows), kept[rows])

        size = design.loop_rows if len(kept) else design.block_rows
        found = block_sum(of_block, n_rows, block_rows=size)
        self._weights = (theta.copy(), kept) if len(kept) else None
        return found

    def _block_sums(
        self, rows: slice, theta: Floats, block: Floats, information: Floats
    ) -> tuple[float, Floats]:
        """Return value and gradient of a block; W, row weights included, to `information`."""
        data, design = self.data, self.design
        slopes, constant = design.own_units(theta)
        offset = None if data.offset is None else data.offset[rows]
        # Set here and not around the sum: threads do not inherit it.
        with np.errstate(invalid="ignore", over="ignore"):
            whole_pass = self.family.whole_pass
            if whole_pass is not None:
                y, size = self._weighted
                loss, total, columns = whole_pass(
                    block, slopes, constant, offset, y[rows], size[rows], information
                )
                return loss, design.standardised_sums(total, columns)
            eta = block @ slopes + constant
            eta = eta if offset is None else eta + offset
            size = data.size[rows]
            losses, slope = self.family.loss(eta, data.y[rows], size)
            weights = 1.0 if data.weights is None else data.weights[rows]
            if len(information):
                information[:] = self.family.information(eta, size) * weights
            slope = slope * weights
            columns = design.standardised_sums(slope.sum(), slope @ block)
            return float((losses * weights).sum()), columns

    def known_weights(self, theta: Floats) -> Floats | None:
        """Return W of all rows where it came along with the sums at θ, as at canonical links."""
        known = self._weights
        return known[1] if known is not None and np.array_equal(known[0], theta) else None

    def information_weights(self, rows: slice, theta: Floats) -> Floats:
        """Return W of a block, row weights included."""
        data = self.data
        weights = self.family.information(self.predictor(rows, theta), data.size[rows])
        return weights if data.weights is None else weights * data.weights[rows]

    @property
    def ends_exactly(self) -> bool:
        """Return whether the information at the end gives Newton's step from there, digits left."""
        return self.family.canonical and not self.design.doubtful

    def own_curvature(self, rows: slice, theta: Floats) -> Floats:
        """Return what a block's loss bends by, row weights included."""
        data = self.data
        own = self.family.curvature(self.predictor(rows, theta), data.y[rows], data.size[rows])
        return own if data.weights is None else own * data.weights[rows]

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return XᵀWX, or the loss's own curvature, in standardised coordinates, penalty added."""
        if share < 1.0:
            return self.sample(share).curvature(theta)
        if not self.data.at_hand:
            known = self._pass(theta)
            matrix = known.curvature + np.diag(self.penalty)
            if known.exact or (np.isfinite(matrix).all() and smallest_pivot(matrix) > _CLEAR):
                return matrix
            self.far = np.inf
            return self._pass(theta, exact=True).curvature + np.diag(self.penalty)
        if not self.family.newton:
            return self.information(theta)[0]
        return self._information(theta, own=True)[0] + np.diag(self.penalty)

    def information(self, theta: Floats) -> tuple[Floats, int]:
        """Return the curvature and how many rows have next to no weight in it."""
        if self.data.at_hand:
            matrix, faint = self._information(theta)
        else:
            known = self._pass(theta, exact=True)
            matrix, faint = known.information.copy(), known.faint
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix, int(faint)

    def _information(self, theta: Floats, own: bool = False) -> tuple[Floats, float]:
        """Return the information, or the own curvature, without penalty, and its faint rows."""
        design, kept = self.design, self.known_weights(theta)

        def of_block(rows: slice) -> tuple[Floats, float]:
            if own:
                weights = self.own_curvature(rows, theta)
            else:
                weights = self.information_weights(rows, theta) if kept is None else kept[rows]
            return self._weighted_products(design.block(rows), rows, weights)

        size = design.block_rows if kept is None else design.loop_rows
        gram, faint = block_sum(of_block, self.data.n_rows, block_rows=size)
        return design.standardised_products(gram), faint

    def _weighted_products(
        self, block: Floats, rows: slice, weights: Floats, rough: bool = False
    ) -> tuple[Floats, float]:
        """Return the products of a block, by weight W, and how many of its rows are faint."""
        faint = np.count_nonzero(weights < FAINT * self._weighted[1][rows])
        products = self.design.rough_products if rough else self.design.products
        return products(block, weights), float(faint)

    @cached_property
    def _kinds(self) -> NDArray[np.int8]:
        """Return of each row whether it has a response, and whether it could have more."""
        y, size = self.data.y, self.data.size
        return (y > 0.0).astype(np.int8) + (self.family.recession_signs(y, size) > 0.0)

    def sample(self, share: float) -> GlmProblem:
        """Return the same function over a share of the rows, scaled up to all."""
        if share not in self._samples:
            _, some, design = sample_data(self.design, self.data, self._kinds, share)
            self._samples[share] = GlmProblem(design, some, self.family, self.l2)
        return self._samples[share]

    def forget_samples(self) -> None:
        """Free the rows copied for samples, and what was kept of all."""
        self._samples.clear()
        self._weights = None

    def row_parts(self, rows: slice, theta: Floats, root: Floats) -> RowParts:
        """Return what each row says along `root`, of its one predictor."""
        eta, y, size = self.predictor(rows, theta), self.data.y[rows], self.data.size[rows]
        slope = self.family.loss(eta, y, size)[1]
        factor = np.sqrt(self.family.curvature(eta, y, size))
        along = self.design.standard(rows) @ root
        return RowParts(along[:, None], slope[:, None], factor[:, None, None])

    # -- comparisons: what each row asks of its predictor (see crossfade.glm.separation) ----------

    def comparison_weights(self, theta: Floats) -> Floats:
        """Return |slope| by trial, infinite for rows with a finite best predictor, (n_rows, 1)."""
        weights = np.empty((self.data.n_rows, 1))

        def work(rows: slice) -> None:
            y, size = self.data.y[rows], self.data.size[rows]
            _, slope = self.family.loss(self.predictor(rows, theta), y, size)
            open_ended = self.family.recession_signs(y, size) != 0.0
            weights[rows, 0] = np.where(open_ended, np.abs(slope) / size, np.inf)

        for_each_block(work, self.data.n_rows, block_rows=self.design.block_rows)
        return weights

    def evidence(self, theta: Floats, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return Σ ω z zᵀ and Σ -slope z over the rows used; ω is |slope|, or the row's size."""

        def sums(rows: slice) -> tuple[Floats, Floats]:
            y, size = self.data.y[rows], self.data.size[rows]
            _, slope = self.family.loss(self.predictor(rows, theta), y, size)
            open_ended = self.family.recession_signs(y, size) != 0.0
            counted = used[rows, 0].astype(np.float64)
            if self.data.weights is not None:
                counted *= self.data.weights[rows]
            metric = np.where(open_ended, np.abs(slope), size) * counted
            return (
                self.design.cross_products(rows, metric),
                self.design.transposed(rows, -slope * counted),
            )

        return block_sum(sums, self.data.n_rows, block_rows=self.design.block_rows)

    def moved(self, direction: Floats) -> Floats:
        """Return |z δ| of the rows, (n_rows, 1)."""
        moved = np.empty((self.data.n_rows, 1))

        def work(rows: slice) -> None:
            moved[rows, 0] = np.abs(self.design.predictor(rows, direction))

        for_each_block(work, self.data.n_rows, block_rows=self.design.block_rows)
        return moved

    def comparisons(self, which: NDArray[np.bool_]) -> tuple[Floats, Floats, Integers]:
        """Return the rows of Z, what each of them asks for (see recession_signs), their numbers."""
        rows = np.flatnonzero(which[:, 0])
        signs = self.family.recession_signs(self.data.y[rows], self.data.size[rows])
        some = self.design.with_rows(self.design.X[rows])
        return some.standard(slice(0, len(rows))), signs, rows


def solve(
    problem: Likelihood, start: Floats, *, tol_digits: float, max_iter: int, sampled: bool = True
) -> Solved:
    """Fit by the lecture's rule: stop when ‖Δβ‖/‖β‖ < 10⁻ᶜ.

    Where rows are many, and a step costs its pass over them, a step that would be ten times smaller
    still is not taken; nor one that is small enough, where the errors' own information gives it
    exactly (see ``ends_exactly``).
    Norms are taken in standardised coordinates, so that the rule does not depend on units, and
    ‖β‖ counts as at least the size of a standard error, so that it ends where β is zero.
    """
    history: list[Iteration] = []
    gradients: list[Floats] = []
    exactly = isinstance(problem, GlmProblem) and problem.ends_exactly
    enough = 10.0**-tol_digits * (1.0 if exactly else 0.1)

    def watch(before: Iterate, after: Iterate) -> str | None:
        gradients[:] = [after.gradient]
        change = relative_change(problem, after.theta, after.theta - before.theta)
        history.append(
            Iteration(after.value, change, after.gradient_norm, problem.coefficients(after.theta))
        )
        if change < 10.0**-tol_digits:
            return f"relative change {change:.1e} is below 1e-{tol_digits:g}"
        return None

    def foresee(at: Iterate, step: Floats) -> str | None:
        change = relative_change(problem, at.theta, step)
        if gradients and change < enough:
            return f"the next relative change, {change:.1e}, is within {enough:.0e}"
        return None

    inner: InnerSolve[Problem] = Dense(None if problem.data.at_hand else foresee)
    many = problem.data.n_rows >= max(MANY_ROWS, 100 * len(start))
    # The curvature of a tenth of many rows is worth its noise, where the rows allow a sample.
    if sampled and many and problem.design.telling is not None:
        share = max(0.1, 20_000 / problem.data.n_rows)
        fewer, some = problem.sample(0.3 * share), problem.sample(share)
        inner = Sampled(share=share, near=_NEAR, sample=fewer, larger=some, foresight=foresee)
    solution = descend(problem, start, inner, tol=0.0, max_iter=max_iter, monitor=watch)
    gradient = gradients[0] if gradients else problem.value_and_gradient(solution.theta)[1]
    return Solved(solution, tuple(history), gradient)


def relative_change(problem: Likelihood, theta: Floats, step: Floats) -> float:
    """Return ‖Δβ‖/‖β‖ in standardised coordinates, ‖β‖ counting at least as a standard error."""
    smallest = 1.0 / np.sqrt(max(problem.n_rows, 1.0))
    return float(np.linalg.norm(step)) / max(float(np.linalg.norm(theta)), smallest)
