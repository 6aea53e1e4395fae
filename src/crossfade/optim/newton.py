"""Newton's method for smooth convex sums over rows, with a line search that A(η) may block.

Two solvers share one line search. :func:`newton` takes the curvature of all rows at every step:
with the expected information as curvature it is Fisher scoring, that is, iteratively reweighted
least squares. :func:`sampled_newton` is for many rows: its curvature comes from a share of them
until that no longer pays.

A solver and a problem know each other only by :class:`Problem`. The result,
:class:`Solution`, says in words why the solver stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers

__all__ = [
    "Iterate",
    "Monitor",
    "Problem",
    "Solution",
    "factorise",
    "line_search",
    "newton",
    "sample_rows",
    "sampled_newton",
]


class Problem(Protocol):
    """A convex function of a parameter vector, to be minimised; a sum over rows.

    ``value`` returns +inf outside the domain and never warns there. ``curvature`` may use only a
    share of the rows (scaled up to all) when `share` is below 1.
    """

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows: gradients are judged relative to it."""

    def value(self, theta: Floats) -> float:
        """Return the function at `theta` of shape (n_parameters,)."""

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the function and its gradient of shape (n_parameters,)."""

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian, or a positive semidefinite stand-in, (n_parameters, n_parameters)."""


@dataclass(frozen=True)
class Solution:
    """Where a solver stopped, and why.

    Shapes: theta (n_parameters,); history a tuple of (value, gradient_norm) pairs, one per step,
    the start included..
    `value`: The function there.
    `gradient_norm`: Largest absolute gradient entry there, divided by the total weight of the rows.
    `n_iter`: Steps taken.
    `message`: Why it stopped, in words.
    """

    theta: Floats
    value: float
    gradient_norm: float
    n_iter: int
    converged: bool
    message: str
    history: tuple[tuple[float, float], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Iterate:
    """One point of a solver's path.

    Shapes: theta (n_parameters,); gradient (n_parameters,).
    `gradient_norm`: Largest absolute gradient entry, divided by the total weight of the rows.
    """

    theta: Floats
    value: float
    gradient: Floats
    gradient_norm: float


#: Called after every step with the points before and after it. Words returned end the run as
#: converged and become its message; None lets it go on.
Monitor = Callable[[Iterate, Iterate], str | None]

#: Called with a point and the step that would follow, before it costs a pass over the rows. Words
#: returned end the run there as converged.
Foresight = Callable[[Iterate, Floats], str | None]

Factor = tuple[Floats, bool]

#: Nats per row that a step may still promise where none is found that gains anything.
_NEGLIGIBLE = 1e-6


def factorise(matrix: Floats) -> Factor:
    """Return a Cholesky factor for :func:`scipy.linalg.cho_solve`, with the least ridge that works.

    A parameter without curvature (a constant column's) gets a little in any case. Another singular
    direction (a duplicated column, an empty cell) gets a ridge of 1e-12 times the diagonal, and
    more only if that does not suffice.
    """
    diagonal = np.diagonal(matrix)
    largest = float(diagonal.max(initial=0.0)) or 1.0
    little = np.maximum(diagonal, 1e-6 * largest)
    ridge = np.where(diagonal > 0.0, 0.0, 1e-12)
    for _ in range(12):
        damped = matrix.copy()
        damped[np.diag_indices_from(damped)] += ridge * little
        try:
            return scipy.linalg.cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            ridge = np.maximum(1e-12, 10.0 * ridge)
    raise scipy.linalg.LinAlgError("curvature matrix is not positive semidefinite")


def newton(
    problem: Problem,
    start: Floats,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    monitor: Monitor | None = None,
) -> Solution:
    """Minimise by Newton's method with a backtracking (barrier) line search.

    Shapes: start (n_parameters,).
    """
    at = _evaluate(problem, np.array(start, dtype=np.float64))
    path = _Path(at, monitor)
    while not path.finished(tol, max_iter):
        at = path.last
        step = -scipy.linalg.cho_solve(factorise(problem.curvature(at.theta)), at.gradient)
        accepted = line_search(problem, at.theta, at.value, at.gradient, step)
        if accepted is None:
            path.stuck(tol, float(at.gradient @ step), problem.n_rows)
            break
        path.move(_iterate(problem, *accepted))
    return path.solution()


def sampled_newton(
    problem: Problem,
    start: Floats,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    share: float = 0.1,
    near: float = 1e-3,
    worthwhile: float = 0.05,
    keep: int = 50,
    sample: Problem | None = None,
    monitor: Monitor | None = None,
    foresight: Foresight | None = None,
) -> Solution:
    """Minimise with gradients of all rows and the curvature of a share of them.

    While the gradient is large, the curvature comes from a share of the rows, anew at every step.
    Once the gradient is small, the curvature is kept and improved only by what the gradients of
    the steps reveal (BFGS), so that a step costs one pass over the rows. Where a step fails, or
    the steps no longer pay, the curvature of all rows replaces it: at worst this is Newton's
    method with some passes wasted, however the rows are sorted and however rare a class is.

    Shapes: start (n_parameters,).
    """
    path = _Path(_rough_start(problem, start, near, sample), monitor)
    model: _Curvature | None = None
    trusted = True
    while not path.finished(tol, max_iter):
        at = path.last
        if model is None or (at.gradient_norm > near and model.steps):
            whole = share if trusted else 1.0
            model = _Curvature(problem.curvature(at.theta, whole), exact=not trusted)
        direction = model.solve(at.gradient)
        if foresight is not None and path.foreseen(foresight(at, -direction)):
            break
        fresh_and_exact = model.exact and not model.steps
        accepted = line_search(
            problem,
            at.theta,
            at.value,
            at.gradient,
            -direction,
            max_trials=60 if fresh_and_exact else 2,
        )
        if accepted is None:
            if fresh_and_exact:
                path.stuck(tol, -float(at.gradient @ direction), problem.n_rows)
                break
            trusted, model = False, None
            continue
        new = _iterate(problem, *accepted)
        if path.move(new):
            break
        before = float(at.gradient @ direction)
        after = float(new.gradient @ model.solve(new.gradient))
        stale = after > worthwhile * before or len(model.steps) + 1 >= keep
        if stale and at.gradient_norm <= near:
            trusted, model = False, None
        else:
            model.learn(new.theta - at.theta, new.gradient - at.gradient)
    return path.solution()


def sample_rows(n_rows: int, share: float, seed: int = 0) -> Integers:
    """Return a share of the row numbers, evenly spread and jittered, in rising order.

    One row is drawn from each run of 1/share consecutive rows: rows sorted by class or by a
    column, or with a period, are as well represented as shuffled ones.

    Shapes: → (about share * n_rows,).
    """
    number = max(1, round(n_rows * share)) if n_rows else 0
    if number >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    edges = np.linspace(0, n_rows, number + 1)
    jitter = np.random.default_rng(seed).random(number)
    drawn = np.floor(edges[:-1] + jitter * np.diff(edges)).astype(np.int64)
    # Rising already; a run shorter than one row may repeat its neighbour's.
    drawn = np.minimum(drawn, n_rows - 1)
    return drawn[np.append(True, np.diff(drawn) > 0)]


def _rough_start(problem: Problem, start: Floats, near: float, sample: Problem | None) -> Iterate:
    theta = np.array(start, dtype=np.float64)
    if sample is None:
        return _evaluate(problem, theta)
    rough = _evaluate(problem, newton(sample, theta, tol=near, max_iter=25).theta)
    if np.isfinite(rough.value) and rough.gradient_norm <= 30.0 * near:
        return rough
    # The sample was misleading (a class it lacks, say): go on from the better of the two points.
    given = _evaluate(problem, theta)
    return rough if np.isfinite(rough.value) and rough.value < given.value else given


class _Curvature:
    """A factorised curvature, improved by the gradient changes seen since (limited-memory BFGS)."""

    def __init__(self, matrix: Floats, *, exact: bool) -> None:
        self.factor = factorise(matrix)
        self.exact = exact
        self.steps: list[tuple[Floats, Floats, float]] = []

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse curvature times the gradient (the two-loop recursion)."""
        vector = gradient.copy()
        weights = []
        for moved, change, product in reversed(self.steps):
            weight = float(moved @ vector) / product
            vector -= weight * change
            weights.append(weight)
        vector = scipy.linalg.cho_solve(self.factor, vector, check_finite=False)
        for (moved, change, product), weight in zip(self.steps, reversed(weights), strict=True):
            vector += (weight - float(change @ vector) / product) * moved
        return vector

    def learn(self, moved: Floats, change: Floats) -> None:
        """Note a step and the change of the gradient along it."""
        product = float(moved @ change)
        # In a convex function it is negative by rounding only; then nothing can be learnt from it.
        if product > 1e-14 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
            self.steps.append((moved, change, product))


class _Path:
    """The points of one run, and why it ended."""

    def __init__(self, start: Iterate, monitor: Monitor | None) -> None:
        self.last = start
        self.history = [(start.value, start.gradient_norm)]
        self.monitor = monitor
        self.message = ""
        self.converged = False

    def move(self, to: Iterate) -> bool:
        """Go to the next point; return whether the monitor ends the run there."""
        before, self.last = self.last, to
        self.history.append((to.value, to.gradient_norm))
        return self.foreseen(self.monitor(before, to) if self.monitor is not None else None)

    def foreseen(self, words: str | None) -> bool:
        """Note why no further step is needed, if so; return whether that ends the run."""
        if words is not None:
            self.message, self.converged = words, True
        return words is not None

    def finished(self, tol: float, max_iter: int) -> bool:
        if self.converged:
            return True
        norm = self.last.gradient_norm
        if not (np.isfinite(self.last.value) and np.isfinite(norm)):
            self.message = "the function or its gradient is not finite at the start"
            return True
        if norm <= tol:
            self.message = f"gradient norm {norm:.1e} is within the tolerance {tol:.1e}"
            self.converged = True
            return True
        if len(self.history) > max_iter:
            self.message = f"stopped after max_iter={max_iter} steps"
            return True
        return False

    def stuck(self, tol: float, slope: float, n_rows: float) -> None:
        """No step is accepted: an optimum to rounding, or a failure."""
        norm = self.last.gradient_norm
        self.message = f"no step lowers the objective further; gradient norm {norm:.1e}"
        # Next to singular densities the gradient itself is known to few digits: what counts is how
        # much a whole step could still gain. What rounding of a huge value hides is not nothing.
        self.converged = norm <= 1e3 * tol or -slope <= _NEGLIGIBLE * n_rows

    def solution(self) -> Solution:
        last = self.last
        return Solution(
            last.theta,
            last.value,
            last.gradient_norm,
            len(self.history) - 1,
            self.converged,
            self.message,
            tuple(self.history),
        )


def _iterate(problem: Problem, theta: Floats, value: float, gradient: Floats) -> Iterate:
    norm = float(np.abs(gradient).max(initial=0.0)) / max(problem.n_rows, 1e-300)
    return Iterate(theta, value, gradient, norm)


def _evaluate(problem: Problem, theta: Floats) -> Iterate:
    return _iterate(problem, theta, *problem.value_and_gradient(theta))


def _noise(value: float, n_rows: float) -> float:
    """Return how much a sum over rows may change by rounding alone."""
    return 1e-13 * (abs(value) + n_rows)


def line_search(
    problem: Problem,
    theta: Floats,
    value: float,
    gradient: Floats,
    step: Floats,
    *,
    max_trials: int = 60,
) -> tuple[Floats, float, Floats] | None:
    """Return the first point on the step's halvings that lowers the function enough, or None.

    Near the optimum the function changes by less than it can be computed to; there a step is
    taken when it lowers the slope along itself.

    Shapes: theta, gradient, step (n_parameters,).
    """
    slope = float(gradient @ step)
    noise = _noise(value, problem.n_rows)
    shortest = 1e-16 * (1.0 + float(np.abs(theta).max(initial=0.0)))
    largest = float(np.abs(step).max(initial=0.0))
    length = 1.0
    for trial in range(max_trials):
        if length * largest < shortest:
            break  # no step at all, to rounding
        candidate = theta + length * step
        new_value, new_gradient = problem.value_and_gradient(candidate)
        if np.isfinite(new_value) and np.isfinite(new_gradient).all():
            if -length * slope > noise:
                better = new_value <= value + 1e-4 * length * slope
            else:
                # The value is rounding there; the slope along the step is not yet.
                flatter = abs(float(new_gradient @ step)) < 0.9 * abs(slope)
                better = flatter and new_value <= value + noise
            if better:
                return candidate, new_value, new_gradient
        if -slope <= noise and trial >= 3:
            break  # what the full step could gain is rounding; shorter ones gain less
        length *= 0.5 if np.isfinite(new_value) else 0.25
    return None
