"""From rows to estimates: solve, prove that the optimum is finite or find how it is not, invert."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import single_threaded_blas
from crossfade.errors import DataError
from crossfade.glm.data import Data
from crossfade.glm.design import Design, measure, refuse_missing, stacked_triangle
from crossfade.glm.families import Family, PoissonFamily
from crossfade.glm.firth import FirthProblem
from crossfade.glm.inverses import invert, root_of_inverse, root_of_inverse_information
from crossfade.glm.irls import EdgeReached, GlmProblem, Iteration, Solved, relative_change, solve
from crossfade.glm.likelihood import Likelihood
from crossfade.glm.multinomial import MultinomialProblem
from crossfade.glm.restricted import Restricted
from crossfade.glm.separation import (
    certainly_finite,
    decide,
    decide_in_parts,
    determined_basis,
    estimable,
    unmoved,
)

#: Steps after which a fit that goes on is asked whether a finite optimum exists.
_PATIENCE = 15

#: The same where each step takes a pass over rows that are not at hand.
_PATIENCE_IN_PARTS = 6

#: Predictors outside the link's domain that a step may lead to, each nearer by a factor of four,
#: and what then counts as a row's responses, where there are none.
_OUTSIDE, _LITTLE = 8, 0.01


@dataclass(frozen=True)
class FitSettings:
    """How to fit; `method` is "irls" or "firth"."""

    intercept: bool = True
    l2: float = 0.0
    method: str = "irls"
    tol_digits: float = 8.0
    max_iter: int = 100


@dataclass(frozen=True)
class Fit:
    """A fitted likelihood, with everything that inference needs.

    `whole`, `problem`, `rows`: Over all rows; over those, numbered, that no infinite estimate fits.
    `theta`, `root`, `value`: Finite part of the estimate in standardised coordinates
        (n_parameters,), R (n_parameters, rank) with R Rᵀ its covariance within what can be
        estimated, the objective there.
    `beta`: The same in the columns' own units; 0 for aliased columns.
    `estimates`, `covariance`: Infinite along separated columns, NaN where a sign is open or a
        column is aliased.
    `direction`: Along which the likelihood rises without end, or None.
    `rank`: Number of columns (and constants) that are linearly independent.
    Shapes: (n_names,) unless said; covariance (n_names, n_names).
    """

    whole: Likelihood
    problem: Likelihood
    rows: NDArray[np.int64] | None
    theta: Floats
    root: Floats
    value: float
    beta: Floats
    estimates: Floats
    covariance: Floats
    direction: Floats | None
    aliased: NDArray[np.bool_]
    separated: NDArray[np.bool_]
    rank: int
    converged: bool
    message: str
    history: tuple[Iteration, ...]

    @property
    def transform(self) -> Floats:
        """Return T with β = T θ."""
        return self.problem.matrix()


def fit_glm(data: Data, family: Family, names: list[str], settings: FitSettings) -> Fit:
    """Fit a binomial or Poisson model."""
    # The threads of BLAS and those of the blocks would wait for each other.
    with single_threaded_blas():
        design = data.measured(settings.intercept, names)
        if settings.l2 == 0.0:
            return _fit_glm(design, data, family, names, settings)
        fit = _fit_glm(design.with_all_columns(), data, family, names, settings)
        return replace(fit, rank=min(fit.rank, design.n_parameters))


def _fit_glm(
    design: Design, data: Data, family: Family, names: list[str], settings: FitSettings
) -> Fit:
    if settings.method == "firth":
        return _solve(FirthProblem(design, data, family), settings, names).fit()
    problem = GlmProblem(design, data, family, settings.l2)
    low, high = data.sign_range(family)
    if settings.l2 > 0.0 and low == high != 0.0 and settings.intercept:
        # Only the intercept is free; it recedes where all rows ask for the same.
        direction = np.zeros(design.n_parameters)
        direction[0] = low
        pinned = np.diag(np.sqrt(problem.penalty))[1:]
        return _limit_of_rows(problem, np.arange(0), pinned, direction, settings)
    if settings.l2 > 0.0 or low == high == 0.0:
        return _solved_inside(problem, settings, names).fit()
    patience = _PATIENCE if data.at_hand else _PATIENCE_IN_PARTS
    end = _solve(problem, settings, names, patience=patience)
    if end.settled and certainly_finite(problem, end.theta, end.step, end.curvature):
        return end.fit()
    if not data.at_hand:
        return _decided_in_parts(problem, end, settings)
    recession, proven = decide(problem, end.theta)
    if recession is None:
        return _go_on(end, settings, proven)
    left = np.flatnonzero(~recession.separated_rows)
    triangle = stacked_triangle(design.with_rows(data.X[left]))
    return _limit_of_rows(problem, left, triangle, recession.direction, settings)


def _solved_inside(problem: GlmProblem, settings: FitSettings, names: list[str]) -> _End:
    """Solve; refuse an optimum at the edge of the link's domain, where no theory gives errors."""
    family = problem.family
    if not isinstance(family, PoissonFamily) or family.link.lowest_eta == -np.inf:
        return _solve(problem, settings, names)
    try:
        problem.patience = _OUTSIDE
        return _solve(problem, settings, names)
    except EdgeReached:
        # From the optimum with something for a count in every row steps can be shorter.
        little = PoissonFamily(family.link, _LITTLE)
        near = GlmProblem(problem.design, problem.data, little, problem.l2)
        digits, steps = settings.tol_digits, settings.max_iter
        start = solve(near, near.start(), tol_digits=digits, max_iter=steps).solution.theta
        try:
            return _solve(problem, settings, names, start=start)
        except EdgeReached:
            raise DataError(
                f"link: expected counts that some positive rates explain best, got {family.link!r} "
                "and rows without counts whose best rate is below 0; use link='log' or 'sqrt', or "
                "leave out columns"
            ) from None
    finally:
        problem.patience = np.inf


def _decided_in_parts(problem: GlmProblem, end: _End, settings: FitSettings) -> Fit:
    """As for rows at hand, which a few of them stand for."""
    direction, determining, proven = decide_in_parts(problem, end.theta)
    if direction is None:
        return _go_on(end, settings, proven or end.settled)
    still = problem.data.filtered(unmoved(problem.design, direction))
    limit = GlmProblem(problem.design, still, problem.family)
    return _limit(problem, limit, determining, None, direction, settings)


def _limit_of_rows(
    problem: GlmProblem,
    left: NDArray[np.int64],
    determining: Floats,
    direction: Floats,
    settings: FitSettings,
) -> Fit:
    some = problem.data.take(left)
    design = problem.design.with_rows(some.X)
    limit = GlmProblem(design, some, problem.family, problem.l2)
    return _limit(problem, limit, determining, left, direction, settings)


def fit_multinomial(data: Data, n_classes: int, names: list[str], settings: FitSettings) -> Fit:
    """Fit a multinomial logit; ``data.y`` holds class codes, 0 for the reference."""
    with single_threaded_blas():
        return _fit_multinomial(data, n_classes, names, settings)


def _fit_multinomial(data: Data, n_classes: int, names: list[str], settings: FitSettings) -> Fit:
    design = measure(data.X, settings.intercept, names, data.weights)
    if settings.l2 > 0.0:
        problem = MultinomialProblem(design.with_all_columns(), data, n_classes, settings.l2)
        fit = _solve(problem, settings, names).fit()
        return replace(fit, rank=design.n_parameters * (n_classes - 1))
    problem = MultinomialProblem(design, data, n_classes)
    end = _solve(problem, settings, names, patience=_PATIENCE)
    # As in certainly_finite: no weight of a comparison changes by more than half of itself.
    reach = float(np.linalg.norm(end.step)) * np.sqrt(data.n_rows * len(end.step))
    if end.settled and reach < 0.25:
        return end.fit()
    recession, proven = decide(problem, end.theta)
    if recession is None:
        return _go_on(end, settings, proven)
    allowed = problem.possible(recession.direction)
    limit = MultinomialProblem(design, data, n_classes, 0.0, allowed)
    open_pairs = allowed & (problem.comparison_weights(end.theta) >= 0.0)
    determining, _, _ = problem.comparisons(open_pairs)
    return _limit(problem, limit, determining, None, recession.direction, settings)


@dataclass(frozen=True)
class _End:
    """Where a solver ended, the information there, and the exact Newton step that would follow.

    `faint` counts the rows whose weight in the information is next to nothing.
    """

    problem: GlmProblem | MultinomialProblem
    solved: Solved
    curvature: Floats
    faint: int
    step: Floats

    @property
    def theta(self) -> Floats:
        return self.solved.solution.theta

    @property
    def settled(self) -> bool:
        """Return whether the solver converged, to where every row still says something."""
        return self.solved.solution.converged and not self.faint

    def fit(self) -> Fit:
        problem, last = self.problem, self.solved.solution
        solved = self.solved
        if isinstance(problem, GlmProblem) and problem.ends_exactly and last.converged:
            # After a step this small the next one is nothing: it needs no look at the rows.
            value = last.value + 0.5 * float(solved.gradient @ self.step)
            end = replace(last, theta=last.theta + self.step, value=value)
            solved = replace(solved, solution=end)
        return _finite(problem, solved, self.curvature)


def _solve(
    problem: GlmProblem | MultinomialProblem,
    settings: FitSettings,
    names: list[str],
    patience: int | None = None,
    start: Floats | None = None,
) -> _End:
    steps = settings.max_iter if patience is None else min(patience, settings.max_iter)
    digits = settings.tol_digits
    if isinstance(problem, GlmProblem):
        # After a smaller change the next one is its square, and the last.
        problem.far = 10.0 ** (-0.5 * digits)
    start = problem.start() if start is None else start
    solved = solve(problem, start, tol_digits=digits, max_iter=steps)
    if not np.isfinite(solved.solution.value) or not np.isfinite(solved.gradient).all():
        refuse_missing(problem.design.X, names)
    end = _look(problem, solved)
    left = steps - len(solved.history)
    # The curvature of a sample may be too large where few rows matter, and its steps too short.
    if (
        problem.design.telling is not None
        and solved.solution.converged
        and left > 0
        and relative_change(problem, end.theta, end.step) >= 2.0 * 10.0**-digits
    ):
        more = solve(problem, end.theta, tol_digits=digits, max_iter=left, sampled=False)
        end = _look(problem, Solved(more.solution, solved.history + more.history, more.gradient))
    return end


def _look(problem: GlmProblem | MultinomialProblem, solved: Solved) -> _End:
    curvature, faint = problem.information(solved.solution.theta)
    return _End(problem, solved, curvature, faint, -(invert(curvature) @ solved.gradient))


def _go_on(end: _End, settings: FitSettings, proven: bool) -> Fit:
    """Give a fit with a finite optimum its remaining steps, afresh where it may have strayed."""
    problem, solved = end.problem, end.solved
    left = settings.max_iter - len(solved.history)
    if (solved.solution.converged and proven) or left <= 0:
        return end.fit()
    start = end.theta if proven else problem.start()
    more = solve(problem, start, tol_digits=settings.tol_digits, max_iter=left, sampled=proven)
    history = solved.history + more.history
    return _look(problem, Solved(more.solution, history, more.gradient)).fit()


def _finite(problem: Likelihood, solved: Solved, matrix: Floats) -> Fit:
    theta = solved.solution.theta
    if isinstance(problem, GlmProblem):
        problem.forget_samples()
        root = root_of_inverse_information(problem, theta, matrix)
    else:
        root = root_of_inverse(matrix)
    transform = problem.matrix()
    aliased = np.asarray(~transform.any(axis=1))
    beta = transform @ theta
    own = transform @ root
    covariance = own @ own.T
    covariance[aliased] = np.nan
    covariance[:, aliased] = np.nan
    return Fit(
        whole=problem,
        problem=problem,
        rows=None,
        theta=theta,
        root=root,
        value=solved.solution.value,
        beta=beta,
        estimates=beta,
        covariance=covariance,
        direction=None,
        aliased=aliased,
        separated=np.zeros_like(aliased),
        rank=len(theta),
        converged=solved.solution.converged,
        message=solved.solution.message,
        history=solved.history,
    )


def _limit(
    whole: Likelihood,
    problem: Likelihood,
    rows: Floats,
    left: NDArray[np.int64] | None,
    direction: Floats,
    settings: FitSettings,
) -> Fit:
    """Fit the limiting conditional model: what the separated rows leave to be estimated."""
    basis = determined_basis(rows)
    size = len(direction)
    theta, root, value = np.zeros(size), np.zeros((size, 0)), 0.0
    converged, message, history = True, "all rows are fitted exactly in the limit", ()
    if basis.shape[1]:
        restricted = Restricted(problem, np.zeros(size), basis)
        solved = solve(
            restricted,
            restricted.start(),
            tol_digits=settings.tol_digits,
            max_iter=settings.max_iter,
        )
        solution = solved.solution
        theta, value = restricted.expand(solution.theta), solution.value
        root = basis @ root_of_inverse(restricted.information(solution.theta)[0])
        converged, message = solution.converged, solution.message
        history = solved.history  # type: ignore[assignment]
    transform = problem.matrix()
    aliased = np.asarray(~transform.any(axis=1))
    separated = ~estimable(basis, transform) & ~aliased
    push = transform @ direction
    push[np.abs(push) < 1e-9 * np.linalg.norm(transform, axis=1)] = 0.0
    beta = transform @ theta
    estimates = beta.copy()
    with np.errstate(invalid="ignore"):
        estimates[separated] = np.sign(push[separated]) * np.inf
    own = transform @ root
    covariance = own @ own.T
    for absent in (separated, aliased):
        covariance[absent] = np.nan
        covariance[:, absent] = np.nan
    covariance[separated, separated] = np.inf
    return Fit(
        whole=whole,
        problem=problem,
        rows=left,
        theta=theta,
        root=root,
        value=value,
        beta=beta,
        estimates=estimates,
        covariance=covariance,
        direction=push,
        aliased=aliased,
        separated=separated,
        rank=size,
        converged=converged,
        message=message,
        history=history,
    )


def null_value(data: Data, family: Family, intercept: bool) -> float:
    """Return the loss of the model without columns (with the constant, if there is one)."""
    bare = data.bare()
    design = Design(bare.X, intercept, np.zeros(0), np.zeros(0))
    problem = GlmProblem(design, bare, family)
    if not intercept:
        return problem.value(np.zeros(0))
    low, high = data.sign_range(family)
    if low == high != 0.0:
        return 0.0
    return solve(problem, problem.start(), tol_digits=8.0, max_iter=50).solution.value
