"""Newton steps for smooth convex sums over rows, with a line search that A(η) may block.

The step's linear system is solved from the curvature of all rows (:class:`Dense`; with the expected
information as curvature that is iteratively reweighted least squares), from that of a share of
them until it no longer pays (:class:`Sampled`), or by conjugate gradients where the Hessian is too
large to form (:class:`ConjugateGradient`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from crossfade._typing import Floats, Integers
from crossfade.optim.lbfgs import Pair, two_loops
from crossfade.optim.solver import (
    Ended,
    Iterate,
    Problem,
    SmoothProblem,
    descend,
    evaluate,
    iterate,
    largest,
)

#: Called with a point and the step that would follow, before it costs a pass over the rows. Words
#: returned end the run there as converged.
Foresight = Callable[[Iterate, Floats], str | None]

_NONE = np.zeros(0)

#: Entries of a vector that are made wider at a time.
_SPAN = 1 << 16

#: Most conjugate gradient steps of one Newton step.
_MOST_INNER = 250

Operator = Callable[[NDArray[Any]], NDArray[Any]]

#: From a point and a share of the rows to v ↦ H⁻¹v, H the curvature there.
Invert = Callable[[Floats, float], Operator]

Factor = tuple[Floats, bool]


@dataclass(frozen=True)
class Dense:
    """The curvature of all rows at every step.

    `enough`: Nats per row; a step that promises less is the last one, and not evaluated.
    `invert`: How systems with the curvature are solved; else by its Cholesky factor.
    """

    foresight: Foresight | None = None
    enough: float = 0.0
    invert: Invert | None = None

    def points(self, problem: Problem, start: Floats) -> Generator[Iterate, None, Ended]:
        """Yield the start and the points after it."""
        at: Iterate | None = evaluate(problem, start)
        invert = self.invert or partial(inverse, problem)
        while at is not None:
            yield at
            step = -invert(at.theta, 1.0)(at.gradient)
            words = None if self.foresight is None else self.foresight(at, step)
            if words is not None:
                return words
            promise = -float(at.gradient @ step)
            if promise < self.enough * problem.n_rows:
                return _last(at, step, promise)
            at = _line_search(problem, at, step, promise)
        return promise


@dataclass(frozen=True)
class Sampled:
    """Gradients of all rows and the curvature of a share of them.

    While the gradient is large, the curvature is that of a share of the rows, anew at every step;
    then it is kept, improved by what the gradients reveal (BFGS), so that a step costs one pass.
    Where a step fails or no longer pays, the curvature of all rows replaces it.

    `near`: Gradient norm from which the curvature is kept, for `keep` steps at most.
    `worthwhile`: Share of the promised gain that a step must remove.
    `sample`: The function over some rows, whose optimum is the start.
    `larger`: The function over the rows whose curvature is taken: a step on these, whose gradient
        costs little beside it, halves the way that is left.
    `enough`: Nats per row; a step that promises less is the last one, and not evaluated.
    `invert`: How systems with the curvature are solved; else by its Cholesky factor.
    """

    share: float = 0.1
    near: float = 1e-3
    worthwhile: float = 0.05
    keep: int = 50
    sample: Problem | None = None
    larger: Problem | None = None
    foresight: Foresight | None = None
    enough: float = 0.0
    invert: Invert | None = None

    def points(self, problem: Problem, start: Floats) -> Generator[Iterate, None, Ended]:
        """Yield the start and the points after it."""
        invert = self.invert or partial(inverse, problem)
        at, model = self._rough_start(problem, start, invert)
        yield at
        trusted = True
        while True:
            if model is None or (at.gradient_norm > self.near and model.steps):
                whole = self.share if trusted else 1.0
                model = Curvature(invert(at.theta, whole), exact=not trusted)
            direction = model.solve(at.gradient)
            words = None if self.foresight is None else self.foresight(at, -direction)
            if words is not None:
                return words
            promise = float(at.gradient @ direction)
            if promise < self.enough * problem.n_rows:
                return _last(at, -direction, promise)
            fresh_and_exact = model.exact and not model.steps
            most = 60 if fresh_and_exact else 2
            new = _line_search(problem, at, -direction, promise, max_trials=most)
            if new is None:
                if fresh_and_exact:
                    return promise
                trusted, model = False, None
                continue
            yield new
            after = float(new.gradient @ model.solve(new.gradient))
            stale = after > self.worthwhile * promise or len(model.steps) + 1 >= self.keep
            if stale and at.gradient_norm <= self.near:
                trusted, model = False, None
            else:
                model.learn(new.theta - at.theta, new.gradient - at.gradient)
            at = new

    def _rough_start(
        self, problem: Problem, start: Floats, invert: Invert
    ) -> tuple[Iterate, Curvature | None]:
        """Return where to begin, and the curvature that led there."""
        if self.sample is None:
            return evaluate(problem, start), None
        theta = descend(self.sample, start, Dense(), tol=self.near, max_iter=25).theta
        model = None
        if self.larger is not None:
            near = evaluate(self.larger, theta)
            if np.isfinite(near.value) and np.isfinite(near.gradient_norm):
                model = Curvature(invert(theta, self.share), exact=False)
                step = -model.solve(near.gradient)
                promise = -float(near.gradient @ step)
                nearer = _line_search(self.larger, near, step, promise, max_trials=2)
                theta, model = (theta, None) if nearer is None else (nearer.theta, model)
        rough = evaluate(problem, theta)
        if np.isfinite(rough.value) and rough.gradient_norm <= 30.0 * self.near:
            return rough, model
        # The sample was misleading (a class it lacks, say): go on from the better of the two.
        given = evaluate(problem, start)
        better = np.isfinite(rough.value) and rough.value < given.value
        return rough if better else given, None


class ProblemOfProducts(SmoothProblem, Protocol):
    """A convex function that is a sum over rows and whose Hessian is known by its products."""

    def curvature_product(self, theta: Floats) -> Operator:
        """Return v ↦ H v."""


class System(Protocol):
    """The linear system of a Newton step, in single precision."""

    def product(self, v: NDArray[Any]) -> NDArray[Any]:
        """Return H v."""

    def preconditioner(self) -> Operator:
        """Return v ↦ M⁻¹ v with M close to the Hessian."""


class SinglePrecision(Protocol):
    """The systems of a problem's Newton steps in single precision."""

    def at(self, theta: Floats) -> System:
        """Return the system at a point."""


@dataclass(frozen=True)
class ConjugateGradient:
    """Inexact Newton steps by preconditioned conjugate gradients (Eisenstat & Walker 1996).

    `preconditioner`: Gives, at a point, v ↦ M⁻¹ v with M close to the Hessian.
    `enough`: Gradient norm that a step need not promise to go below.
    `renewed`: Products after which the preconditioner is made anew: it costs some itself.
    `single`: The same systems in single precision. They serve as long as each is solved within the
        most products, every step lowers the function and every second one the gradient norm.
    """

    preconditioner: Callable[[Floats], Operator]
    loosest: float = 0.1
    enough: float = 0.0
    renewed: int = 1
    single: SinglePrecision | None = None

    def points(self, problem: ProblemOfProducts, start: Floats) -> Generator[Iterate, None, Ended]:
        """Yield the start and the points after it."""
        at: Iterate | None = evaluate(problem, start)
        assert at is not None
        first = lowest = max(at.gradient_norm, 1e-300)
        del start  # of many words each of these takes megabytes
        precondition: Operator | None = None
        single, n_products, n_higher = self.single, 0, 0
        while at is not None:
            yield at
            inner = min(self.loosest, np.sqrt(at.gradient_norm / first))
            new = None
            while new is None:
                stale = precondition is None or n_products >= self.renewed
                n_products = 0 if stale else n_products
                kept, precondition = [None if stale else precondition], None
                given, at = [at.gradient], replace(at, gradient=_NONE)
                found = self._step(problem, at, given, inner, kept.pop(), single)
                step, promise, taken, precondition = found
                n_products += taken
                del found
                if single is None:
                    new = _line_search(problem, at, step, promise)
                    break
                if 0.0 < promise < np.inf:
                    new = _line_search(problem, at, step, promise)
                n_higher = 0 if new is not None and new.gradient_norm < lowest else n_higher + 1
                if new is None or taken == _MOST_INNER or n_higher == 2:
                    single = precondition = None
                if new is None:
                    at = evaluate(problem, at.theta)
            at = new
            del step, new
            lowest = lowest if at is None else min(lowest, at.gradient_norm)
        return promise

    def _step(
        self,
        problem: ProblemOfProducts,
        at: Iterate,
        gradient: list[Floats],
        inner: float,
        precondition: Operator | None,
        single: SinglePrecision | None,
    ) -> tuple[Floats, float, int, Operator]:
        """Return the step, minus the slope along it, how many products it took, and how.

        `gradient`: Alone in a list, which is emptied: of many words it takes megabytes.
        """
        enough = self.enough * problem.n_rows
        if single is None:
            product = problem.curvature_product(at.theta)
            precondition = precondition or self.preconditioner(at.theta)
            found = _conjugate_gradients(product, gradient.pop(), precondition, inner, enough)
            return *found, precondition
        # Relative to the gradient: squares of its entries may lie outside single precision.
        unit = max(at.gradient_norm * problem.n_rows, 1e-300)
        given: list[NDArray[Any]] = [np.empty(gradient[0].size, np.float32)]
        np.divide(gradient.pop(), unit, out=given[0], casting="same_kind")
        system = single.at(at.theta)
        precondition = precondition or system.preconditioner()
        with np.errstate(invalid="ignore", over="ignore"):
            step, promise, taken = _conjugate_gradients(
                system.product, given.pop(), precondition, inner, enough / unit
            )
            step *= unit
        return step, promise * unit**2, taken, precondition


def factorise(matrix: Floats) -> Factor:
    """Return a Cholesky factor for :func:`scipy.linalg.cho_solve`, with the least ridge."""
    # Of small matrices SciPy's own wrapper takes longer than the factorisation.
    factor, failed = dpotrf(matrix.T, lower=1, clean=0)
    if not failed:
        return factor, True
    diagonal = np.diagonal(matrix)
    largest = float(diagonal.max(initial=0.0)) or 1.0
    little = np.maximum(diagonal, 1e-6 * largest)
    ridge = np.where(diagonal > 0.0, 0.0, 1e-12)
    for _ in range(12):
        damped = matrix.copy(order="F")
        np.einsum("ii->i", damped)[:] += ridge * little
        factor, failed = dpotrf(damped, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return factor, True
        ridge = np.maximum(1e-12, 10.0 * ridge)
    raise scipy.linalg.LinAlgError("curvature matrix is not positive semidefinite")


def inverse(problem: Problem, theta: Floats, share: float = 1.0) -> Operator:
    """Return v ↦ H⁻¹v by a Cholesky factor."""
    return partial(solve, factorise(problem.curvature(theta, share)))


def solve(factor: Factor, vector: Floats) -> Floats:
    """Return the solution of a factorised system, of shape (n,)."""
    found: Floats = dpotrs(factor[0], vector, lower=1)[0] if vector.size else vector
    return found


def sample_rows(n_rows: int, share: float) -> Integers:
    """Return about `share` of the row numbers, rising: one drawn from each run of 1/share."""
    number = max(1, round(n_rows * share)) if n_rows else 0
    if number >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    edges = np.linspace(0, n_rows, number + 1)
    jitter = np.random.default_rng(0).random(number)
    drawn = np.floor(edges[:-1] + jitter * np.diff(edges)).astype(np.int64)
    # Rising already; a run shorter than one row may repeat its neighbour's.
    drawn = np.minimum(drawn, n_rows - 1)
    return drawn[np.append(True, np.diff(drawn) > 0)]


class Curvature:
    """An inverse curvature, improved by the gradient changes seen since (limited-memory BFGS)."""

    def __init__(self, first: Operator, *, exact: bool) -> None:
        self.first = first
        self.exact = exact
        self.steps: list[Pair] = []

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse curvature times the gradient (the two-loop recursion)."""
        return two_loops(self.steps, gradient, self.first)

    def learn(self, moved: Floats, change: Floats) -> None:
        """Note a step and the change of the gradient along it."""
        product = float(moved @ change)
        # In a convex function it is negative by rounding only; then nothing can be learnt from it.
        if product > 1e-14 * float(np.linalg.norm(moved) * np.linalg.norm(change)):
            self.steps.append(Pair(moved, change, 1.0 / product))


def _last(at: Iterate, step: Floats, promise: float) -> Iterate:
    """Return the point that a step leads to, as the quadratic model has it: no gradient is left."""
    value = at.value - 0.5 * promise
    return Iterate(at.theta + step, value, np.zeros_like(step), 0.0)


def _conjugate_gradients(
    product: Operator,
    gradient: NDArray[Any],
    precondition: Operator,
    tol: float,
    enough: float,
) -> tuple[NDArray[Any], float, int]:
    """Return a step, minus the slope along it, and how many products it took.

    The slope is known from the steps' own numbers, which rounding hardly changes (Strakoš & Tichý
    2002), so that the gradient is not kept.
    """
    x, promise, taken = np.zeros_like(gradient), 0.0, 0
    residual = -gradient
    del gradient  # of many words each of these takes megabytes
    direction = precondition(residual)
    rho = float(residual @ direction)
    stop = tol**2 * rho
    for _ in range(_MOST_INNER):
        if not rho > stop or rho <= 0.0 or (taken and largest(residual) <= enough):
            break
        bent = product(direction)
        taken += 1
        curvature = float(direction @ bent)
        if not curvature > 0.0:
            break
        alpha = rho / curvature
        bent *= alpha
        residual -= bent
        x += np.multiply(direction, alpha, out=bent)
        promise += alpha * rho
        del bent
        z = precondition(residual)
        new_rho = float(residual @ z)
        direction *= new_rho / rho
        direction += z
        del z
        rho = new_rho
    # No step was taken where there is none: the residual is minus the gradient still.
    return (x, promise, taken) if x.any() else (precondition(residual), rho, taken)


def _dot(gradient: Floats, step: NDArray[Any]) -> float:
    """Return their product; of different widths, no vector is copied whole."""
    if gradient.dtype == step.dtype:
        return float(gradient @ step)
    spans = range(0, gradient.size, _SPAN)
    return sum(float(gradient[i : i + _SPAN] @ step[i : i + _SPAN]) for i in spans)


def _line_search(
    problem: SmoothProblem, at: Iterate, step: Floats, promise: float, *, max_trials: int = 60
) -> Iterate | None:
    """Return the first halving of the step that lowers the function, or its slope near the end.

    `promise`: Minus the slope along the step where it begins.
    """
    slope = -promise
    noise = 1e-13 * (abs(at.value) + problem.n_rows)  # what rounding does to a sum over rows
    shortest, longest = 1e-16 * (1.0 + largest(at.theta)), largest(step)
    length = 1.0
    for trial in range(max_trials):
        if length * longest < shortest:
            break  # no step at all, to rounding
        candidate = np.multiply(step, length, out=np.empty_like(at.theta))
        candidate += at.theta
        new_value, new_gradient = problem.value_and_gradient(candidate)
        if np.isfinite(new_value) and np.isfinite(new_gradient).all():
            if -length * slope > noise:
                better = new_value <= at.value + 1e-4 * length * slope
            else:
                # The value is rounding there; the slope along the step is not yet.
                flatter = abs(_dot(new_gradient, step)) < 0.9 * abs(slope)
                better = flatter and new_value <= at.value + noise
            if better:
                return iterate(problem, candidate, new_value, new_gradient)
        if -slope <= noise and trial >= 3:
            break  # what the full step could gain is rounding; shorter ones gain less
        del candidate, new_gradient  # of many words these take megabytes
        length *= 0.5 if np.isfinite(new_value) else 0.25
    return None
