"""The solver loop: from a start, step by step, until there is a reason to stop.

How a step is found is the inner solve's part, one of four: :class:`~crossfade.optim.newton.Dense`,
:class:`~crossfade.optim.newton.Sampled`, :class:`~crossfade.optim.newton.ConjugateGradient` and
:class:`~crossfade.optim.lbfgs.QuasiNewton`. :func:`descend` does the rest: it counts, tells the
monitor, stops, and says in words why.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats


class SmoothProblem(Protocol):
    """A smooth function of a parameter vector, to be minimised."""

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows: gradients are judged relative to it."""

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the function and a fresh gradient array; +inf outside the domain, no warning."""


class Problem(SmoothProblem, Protocol):
    """A convex function that is a sum over rows and whose Hessian can be formed."""

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian, or a positive semidefinite stand-in, (n_parameters, n_parameters).

        It may use only a share of the rows, scaled up to all, when `share` is below 1.
        """


@dataclass(frozen=True)
class Solution:
    """Where a solver stopped, and why.

    Shapes: theta (n_parameters,); history a tuple of (value, gradient_norm) pairs, one per step,
    the start included.
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


#: Why there is no further point. Words: none is needed. A number: no step lowers the function, and
#: this much a whole step could still gain; infinite where that is not known. A point: the last one,
#: of which the model of the function tells enough.
Ended = str | float | Iterate


_Some = TypeVar("_Some", bound=SmoothProblem)
_Solved = TypeVar("_Solved", contravariant=True)


class InnerSolve(Protocol[_Solved]):
    """How the next point is found."""

    def points(self, problem: _Solved, start: Floats) -> Generator[Iterate, None, Ended]:
        """Yield the start, then point after point; at the end return why there is no next."""


_NONE = np.zeros(0)

#: Nats per row that a step may still promise where none is found that gains anything.
_NEGLIGIBLE = 1e-6


def descend(
    problem: _Some,
    start: Floats,
    inner: InnerSolve[_Some],
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    monitor: Monitor | None = None,
) -> Solution:
    """Minimise from a start until the gradient norm is within `tol`."""
    points = inner.points(problem, np.asarray(start, dtype=np.float64))
    del start  # of many words it takes megabytes, which nobody needs after the first step
    at = next(points)
    history = [(at.value, at.gradient_norm)]
    words: str | None = None
    while words is None:
        norm = at.gradient_norm
        if not (np.isfinite(at.value) and np.isfinite(norm)):
            converged, words = False, "the function or its gradient is not finite at the start"
        elif norm <= tol:
            converged = True
            words = f"gradient norm {norm:.1e} is within the tolerance {tol:.1e}"
        elif len(history) > max_iter:
            converged, words = False, f"stopped after max_iter={max_iter} steps"
        else:
            before = at
            if monitor is None:
                before = at = replace(at, gradient=_NONE)  # the inner solve knows what it needs
            try:
                at = next(points)
            except StopIteration as end:
                if isinstance(end.value, str):
                    converged, words = True, end.value
                elif isinstance(end.value, Iterate):
                    at, converged = end.value, True
                    history.append((at.value, at.gradient_norm))
                    words = "the last step promised so little that it was not evaluated"
                else:
                    # Next to singular densities the gradient itself is known to few digits: what
                    # counts is how much a whole step could still gain. What rounding of a huge
                    # value hides is not nothing.
                    converged = norm <= 1e3 * tol or end.value <= _NEGLIGIBLE * problem.n_rows
                    words = f"no step lowers the objective further; gradient norm {norm:.1e}"
            else:
                history.append((at.value, at.gradient_norm))
                words = None if monitor is None else monitor(before, at)
                converged = True
    return Solution(
        at.theta, at.value, at.gradient_norm, len(history) - 1, converged, words, tuple(history)
    )


def iterate(problem: SmoothProblem, theta: Floats, value: float, gradient: Floats) -> Iterate:
    """Return the point with its gradient norm."""
    norm = largest(gradient) / max(problem.n_rows, 1e-300)
    return Iterate(theta, value, gradient, norm)


def largest(vector: NDArray[Any]) -> float:
    """Return the largest absolute entry; of many words a copy would take megabytes."""
    return max(float(vector.max(initial=0.0)), -float(vector.min(initial=0.0)))


def evaluate(problem: SmoothProblem, theta: Floats) -> Iterate:
    """Return the point with value and gradient."""
    return iterate(problem, theta, *problem.value_and_gradient(theta))
