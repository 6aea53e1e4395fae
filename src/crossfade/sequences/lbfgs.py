"""Limited-memory BFGS for smooth convex functions that may be +inf outside a domain."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crossfade.blocks import single_threaded_blas
from crossfade.densities.base import Floats

__all__ = ["Minimum", "minimise"]

_MEMORY = 20


@dataclass(frozen=True)
class Minimum:
    """Where the minimiser stopped, and why.

    Attributes
    ----------
    theta : ndarray of shape (n_parameters,)
    value : float
    promised : float
        What the next step promised to gain.
    n_iter, n_evaluations : int
    converged : bool
    message : str
    """

    theta: Floats
    value: float
    promised: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str


def minimise(
    function: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    scale: Floats,
    max_iter: int = 500,
    tol: float = 1e-9,
) -> Minimum:
    """Minimise a function given with its gradient.

    Parameters
    ----------
    function : callable
        Takes θ, returns value and gradient; (inf, anything) outside the domain.
    start : ndarray of shape (n_parameters,)
        Inside the domain; not changed.
    scale : ndarray of shape (n_parameters,)
        Rough inverse curvature of each parameter: where the first step's size comes from.
    max_iter : int, default=500
    tol : float, default=1e-9
        Stop when the next step promises to gain no more than `tol` of the value's size.

    Returns
    -------
    Minimum

    Notes
    -----
    Nocedal & Wright (2006), algorithms 7.4 and 7.5, with the bisecting line search for the weak
    Wolfe conditions of Lewis & Overton (2013), which needs no more than comparisons, so that an
    infinite value is just a step too long.
    """
    # Products of vectors this short gain nothing from threads, and lose much on a busy machine.
    with single_threaded_blas():
        return _minimise(function, start, scale, max_iter, tol)


def _minimise(
    function: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    scale: Floats,
    max_iter: int,
    tol: float,
) -> Minimum:
    theta = np.array(start, dtype=np.float64)
    value, gradient = function(theta)
    n_evaluations, n_iter = 1, 0
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    message, converged = f"stopped after max_iter={max_iter} steps", False
    direction = _direction(gradient, pairs, scale)
    promised = -0.5 * float(gradient @ direction)
    while True:
        if promised <= tol * max(abs(value), 1e-300):
            message = f"the next step promises {promised:.1e}, within tol={tol:g} of the value"
            converged = True
            break
        if n_iter == max_iter:
            break
        found = _line_search(function, theta, value, gradient, direction)
        n_evaluations += found[3]
        if found[0] is None:
            if pairs:  # a spoilt memory: begin again from here
                pairs.clear()
                direction = _direction(gradient, pairs, scale)
                promised = -0.5 * float(gradient @ direction)
                continue
            message = f"no step lowers the value further; the next promised {promised:.1e}"
            converged = promised <= 1e3 * tol * max(abs(value), 1e-300)
            break
        new_theta, new_value, new_gradient = found[0], found[1], found[2]
        n_iter += 1
        move, change = new_theta - theta, new_gradient - gradient
        curvature = float(move @ change)
        if curvature > 0.0:
            pairs.append((move, change, curvature))
        theta, value, gradient = new_theta, new_value, new_gradient
        direction = _direction(gradient, pairs, scale)
        promised = -0.5 * float(gradient @ direction)
    return Minimum(theta, value, promised, n_iter, n_evaluations, converged, message)


def _direction(
    gradient: Floats, pairs: deque[tuple[Floats, Floats, float]], scale: Floats
) -> Floats:
    """Return minus the gradient times the inverse Hessian that the last steps suggest."""
    vector = gradient.copy()
    weights = []
    for move, change, curvature in reversed(pairs):
        weight = float(move @ vector) / curvature
        weights.append(weight)
        vector -= weight * change
    if pairs:
        _, change, curvature = pairs[-1]
        vector *= scale * (curvature / float((change * scale) @ change))
    else:
        vector *= scale
    for (move, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
        vector += (weight - float(change @ vector) / curvature) * move
    return -vector


def _line_search(
    function: Callable[[Floats], tuple[float, Floats]],
    theta: Floats,
    value: float,
    gradient: Floats,
    direction: Floats,
) -> tuple[Floats | None, float, Floats, int]:
    slope = float(gradient @ direction)
    noise = 1e-14 * abs(value)
    low, high, length = 0.0, np.inf, 1.0
    for trial in range(1, 41):
        candidate = theta + length * direction
        new_value, new_gradient = function(candidate)
        if not new_value <= value + 1e-4 * length * slope + noise:
            high = length
        elif float(new_gradient @ direction) < 0.9 * slope:
            low = length
        else:
            return candidate, new_value, new_gradient, trial
        length = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return None, value, gradient, 40
