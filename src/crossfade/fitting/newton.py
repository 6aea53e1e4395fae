"""Newton's method for smooth convex sums over rows, with a line search that A(η) may block.

A solver and a problem know each other only by :class:`Problem`. The result,
:class:`Solution`, says in words why the solver stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg

from crossfade.densities.base import Floats

__all__ = ["Problem", "Solution", "factorise", "newton"]


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

    Attributes
    ----------
    theta : ndarray of shape (n_parameters,)
    value : float
        The function there.
    gradient_norm : float
        Largest absolute gradient entry there, divided by the total weight of the rows.
    n_iter : int
        Steps taken.
    converged : bool
    message : str
        Why it stopped, in words.
    history : tuple of (value, gradient_norm) pairs, one a step, the start included.
    """

    theta: Floats
    value: float
    gradient_norm: float
    n_iter: int
    converged: bool
    message: str
    history: tuple[tuple[float, float], ...] = field(default=(), repr=False)


Factor = tuple[Floats, bool]


def factorise(matrix: Floats) -> Factor:
    """Return a Cholesky factor for :func:`scipy.linalg.cho_solve`, with the least ridge that works.

    A singular direction (a duplicated column, an empty cell) gets a ridge of 1e-12 times the
    diagonal, and more only if that does not suffice.
    """
    diagonal = np.diagonal(matrix)
    largest = float(diagonal.max(initial=0.0)) or 1.0
    ridge = 0.0
    for _ in range(12):
        damped = matrix.copy()
        damped[np.diag_indices_from(damped)] += ridge * np.maximum(diagonal, 1e-6 * largest)
        try:
            return scipy.linalg.cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            ridge = max(1e-12, 10.0 * ridge)
    raise scipy.linalg.LinAlgError("curvature matrix is not positive semidefinite")


def newton(
    problem: Problem,
    start: Floats,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> Solution:
    """Minimise by Newton's method with a backtracking (barrier) line search.

    Parameters
    ----------
    problem : Problem
    start : ndarray of shape (n_parameters,)
        Inside the domain; not changed.
    tol : float, default=1e-8
        Stop when the largest absolute gradient entry is at most `tol` times the total weight.
    max_iter : int, default=100

    Returns
    -------
    Solution
    """
    theta = np.array(start, dtype=np.float64)
    value, gradient = problem.value_and_gradient(theta)
    history = [(value, _relative(gradient, problem.n_rows))]
    message, converged, n_iter = f"stopped after max_iter={max_iter} steps", False, 0
    for n_iter in range(max_iter + 1):
        norm = history[-1][1]
        if norm <= tol:
            message = f"gradient norm {norm:.1e} is within the tolerance {tol:.1e}"
            converged = True
            break
        if n_iter == max_iter:
            break
        step = -scipy.linalg.cho_solve(factorise(problem.curvature(theta)), gradient)
        accepted = line_search(problem, theta, value, gradient, step)
        if accepted is None:
            message = f"no step lowers the objective further; gradient norm {norm:.1e}"
            converged = norm <= 1e3 * tol
            break
        theta, value, gradient = accepted
        history.append((value, _relative(gradient, problem.n_rows)))
    return Solution(theta, value, history[-1][1], n_iter, converged, message, tuple(history))


def _relative(gradient: Floats, n_rows: float) -> float:
    return float(np.abs(gradient).max(initial=0.0)) / max(n_rows, 1e-300)


def line_search(
    problem: Problem, theta: Floats, value: float, gradient: Floats, step: Floats
) -> tuple[Floats, float, Floats] | None:
    """Return the first point on the step's halvings that lowers the function enough, or None.

    Near the optimum the function changes by less than it can be computed to; there a step is
    taken when it lowers the gradient.
    """
    slope = float(gradient @ step)
    noise = 1e-13 * (abs(value) + problem.n_rows)
    length = 1.0
    for _ in range(60):
        candidate = theta + length * step
        new_value, new_gradient = problem.value_and_gradient(candidate)
        if np.isfinite(new_value) and np.isfinite(new_gradient).all():
            if new_value <= value + 1e-4 * length * slope:
                return candidate, new_value, new_gradient
            flat = -length * slope <= noise and new_value <= value + noise
            if flat and np.abs(new_gradient).max() < np.abs(gradient).max():
                return candidate, new_value, new_gradient
        length *= 0.5 if np.isfinite(new_value) else 0.25
        if length * float(np.abs(step).max(initial=0.0)) < 1e-16 * (1.0 + float(np.abs(theta).max(initial=0.0))):
            break
    return None
