"""Penalised logistic regression by Newton's method, compiled: one fit of a discriminative curve.

Weights and scores are differences to class 0, K - 1 of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers

_FAST = {"reassoc", "nsz", "contract"}

#: Largest gradient entry of an optimum, a training row.
_TOLERANCE = 1e-9

_NEWTON_STEPS = 100
_HALVINGS = 40


@kernel(fastmath=_FAST)
def _probabilities(design: Floats, theta: Floats, y: Integers, probabilities: Floats) -> float:
    """Write P(y = k) of classes 1 … K - 1 by row; return the sum of -log P(own class)."""
    n_rows, width = design.shape
    n_others = theta.shape[0]
    value = 0.0
    for i in range(n_rows):
        top = 0.0
        for k in range(n_others):
            score = theta[k, width]
            for j in range(width):
                score += theta[k, j] * design[i, j]
            probabilities[i, k] = score
            top = max(top, score)
        own = probabilities[i, y[i] - 1] if y[i] > 0 else 0.0
        total = math.exp(-top)
        for k in range(n_others):
            probabilities[i, k] = math.exp(probabilities[i, k] - top)
            total += probabilities[i, k]
        for k in range(n_others):
            probabilities[i, k] /= total
        value += top + math.log(total) - own
    return value


@kernel()
def _penalised(theta: Floats, l2: float, gradient: Floats) -> float:
    """Return the penalty's value and add its gradient.

    It is l2/2 Σ_k ‖W_k - mean W‖², in differences V to class 0 l2/2 (Σ_k ‖V_k‖² - ‖Σ V_k‖²/K).
    """
    n_others, width = theta.shape[0], theta.shape[1] - 1
    value = 0.0
    for j in range(width):
        mean = 0.0
        for k in range(n_others):
            mean += theta[k, j]
        mean /= n_others + 1.0
        for k in range(n_others):
            centred = theta[k, j] - mean
            value += 0.5 * l2 * theta[k, j] * centred
            gradient[k, j] += l2 * centred
    return value


@kernel(fastmath=_FAST)
def _gradient(design: Floats, y: Integers, probabilities: Floats, gradient: Floats) -> None:
    n_rows, width = design.shape
    gradient[:] = 0.0
    for i in range(n_rows):
        for k in range(gradient.shape[0]):
            residual = probabilities[i, k] - (1.0 if y[i] == k + 1 else 0.0)
            for j in range(width):
                gradient[k, j] += residual * design[i, j]
            gradient[k, width] += residual


@kernel(fastmath=_FAST)
def _hessian(design: Floats, probabilities: Floats, l2: float, hessian: Floats) -> None:
    """Write the Hessian over (K - 1)(n_statistics + 1) parameters, class after class."""
    n_rows, width = design.shape
    n_others = probabilities.shape[1]
    side = width + 1
    weighted = np.empty((n_rows, side))
    plain = np.empty((n_rows, side))
    for i in range(n_rows):
        for j in range(width):
            plain[i, j] = design[i, j]
        plain[i, width] = 1.0
    for a in range(n_others):
        for b in range(a + 1):
            for i in range(n_rows):
                w = probabilities[i, a] * ((1.0 if a == b else 0.0) - probabilities[i, b])
                for j in range(side):
                    weighted[i, j] = w * plain[i, j]
            block = np.dot(plain.T, weighted)
            share = l2 * ((1.0 if a == b else 0.0) - 1.0 / (n_others + 1.0))
            for j in range(width):
                block[j, j] += share
            for j in range(side):
                for i in range(side):
                    hessian[a * side + i, b * side + j] = block[i, j]
                    hessian[b * side + i, a * side + j] = block[i, j]
    largest = 0.0
    for j in range(n_others * side):
        largest = max(largest, hessian[j, j])
    for j in range(n_others * side):
        hessian[j, j] += 1e-12 * max(hessian[j, j], 1e-6 * largest)


@kernel(fastmath=_FAST)
def _factorise(matrix: Floats) -> None:
    """Overwrite the lower triangle of a positive definite matrix with its Cholesky factor."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            total = matrix[i, j]
            for c in range(j):
                total -= matrix[i, c] * matrix[j, c]
            if i == j:
                # Where rounding has eaten a pivot, its direction is left alone.
                matrix[i, i] = math.sqrt(total) if total > 0.0 else 1e150
            else:
                matrix[i, j] = total / matrix[j, j]


@kernel(fastmath=_FAST)
def _forward(factor: Floats, right: Floats) -> None:
    """Overwrite b with L⁻¹ b."""
    for i in range(right.shape[0]):
        total = right[i]
        for c in range(i):
            total -= factor[i, c] * right[c]
        right[i] = total / factor[i, i]


@kernel(fastmath=_FAST)
def _backward(factor: Floats, right: Floats) -> None:
    """Overwrite b with L⁻ᵀ b."""
    for i in range(right.shape[0] - 1, -1, -1):
        right[i] /= factor[i, i]
        for c in range(i):
            right[c] -= factor[i, c] * right[i]


@kernel()
def _move(start: Floats, step: Floats, length: float, out: Floats) -> None:
    for k in range(start.shape[0]):
        for j in range(start.shape[1]):
            out[k, j] = start[k, j] - length * step[k, j]


@kernel()
def _newton(design: Floats, y: Integers, l2: float, theta: Floats) -> None:
    """Move theta to the minimum of the penalised conditional log-likelihood."""
    n_rows = design.shape[0]
    n_others, side = theta.shape
    probabilities = np.empty((n_rows, n_others))
    flat_gradient, flat_step = np.empty(n_others * side), np.empty(n_others * side)
    gradient = flat_gradient.reshape((n_others, side))
    step = flat_step.reshape((n_others, side))
    hessian = np.empty((n_others * side, n_others * side))
    trial = np.empty((n_others, side))
    value = _probabilities(design, theta, y, probabilities)
    for _ in range(_NEWTON_STEPS):
        _gradient(design, y, probabilities, gradient)
        value += _penalised(theta, l2, gradient)
        largest = 0.0
        for k in range(n_others):
            for j in range(side):
                largest = max(largest, abs(gradient[k, j]))
        if largest <= _TOLERANCE * n_rows:
            return
        _hessian(design, probabilities, l2, hessian)
        _factorise(hessian)
        for j in range(n_others * side):
            flat_step[j] = flat_gradient[j]
        _forward(hessian, flat_step)
        _backward(hessian, flat_step)
        slope = 0.0
        for k in range(n_others):
            for j in range(side):
                slope += gradient[k, j] * step[k, j]
        if slope <= 1e-13 * (abs(value) + n_rows):
            # What is left to gain is rounding: the whole step, and no further look.
            _move(theta, step, 1.0, theta)
            return
        length = 1.0
        for _ in range(_HALVINGS):
            _move(theta, step, length, trial)
            trial_value = _probabilities(design, trial, y, probabilities)
            penalised = trial_value + _penalised(trial, l2, gradient)
            if penalised <= value - 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            return
        _move(trial, step, 0.0, theta)
        value = trial_value


def minimise(
    design: Floats, y: Integers, active: NDArray[np.bool_], l2: float, theta: Floats
) -> None:
    """Move theta to the minimum over the statistics that vary; the others keep weight 0."""
    if active.all() and not (len(active) > len(design) and l2 > 0.0):
        _newton(design, y, l2, theta)
        return
    kept = np.flatnonzero(active)
    columns = np.append(kept, design.shape[1])
    small, own = np.take(design, kept, axis=1), np.take(theta, columns, axis=1)
    if kept.size > len(design) and l2 > 0.0:
        _minimise_over_rows(small, y, l2, own)
    else:
        _newton(small, y, l2, own)
    theta[:] = 0.0
    theta[:, columns] = own


def _minimise_over_rows(design: Floats, y: Integers, l2: float, theta: Floats) -> None:
    """What :func:`_newton` does, for fewer rows than statistics.

    The best weights of a class are W = Zᵀ α, Z being the design, so that with Z Zᵀ = L Lᵀ and
    β = Lᵀ α the scores are L β and the penalty is ‖β‖²: the same problem with L as its design.
    """
    n_rows = len(design)
    factor = design @ design.T
    factor.flat[:: n_rows + 1] += 1e-12 * factor.diagonal().max()  # equal rows
    _factorise(factor)
    factor = np.tril(factor)
    beta = np.column_stack([theta[:, :-1] @ design.T, theta[:, -1]])
    for row in beta:
        _forward(factor, row[:n_rows])
    _newton(factor, y, l2, beta)
    theta[:, -1] = beta[:, n_rows]
    for row in beta:
        _backward(factor, row[:n_rows])
    theta[:, :-1] = beta[:, :n_rows] @ design
