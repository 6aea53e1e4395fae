"""Compiled learning curves: all nested fits of one split in one loop, and their test scores.

Two fits have one: the generative one of independent columns, whose parameters at every size come
from running sums, and the discriminative one, a penalised logistic regression by Newton's method
that starts at the optimum of the size before. What they compute is what the estimators compute;
the tests compare.

Class scores are kept as differences to class 0, K - 1 of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from crossfade.densities.base import Floats, Integers

__all__ = ["CATEGORICAL", "GAUSSIAN", "discriminative_curve", "generative_curve"]

_FAST = {"reassoc", "nsz", "contract"}

#: Kinds of columns.
GAUSSIAN, SHARED_GAUSSIAN, BERNOULLI, POISSON, CATEGORICAL = 0, 1, 2, 3, 4

#: Estimated probabilities and rates keep this distance from the end of their range.
_EDGE = 1e-15

#: A probability of zero given to what happened counts as this.
_SMALLEST = 2.220446049250313e-16

#: Largest gradient entry of an optimum, a training row.
_TOLERANCE = 1e-9

_NEWTON_STEPS = 100
_HALVINGS = 40


@njit(nogil=True, cache=True)
def _add_scores(differences: Floats, truth: int, out: Floats) -> None:
    """Add one test row's log-loss, Brier score and error to `out`."""
    top, best = 0.0, 0
    for k in range(differences.shape[0]):
        if differences[k] > top:
            top, best = differences[k], k + 1
    total = math.exp(-top)
    for k in range(differences.shape[0]):
        total += math.exp(differences[k] - top)
    own = math.exp((differences[truth - 1] if truth > 0 else 0.0) - top) / total
    squares = (math.exp(-top) / total) ** 2
    for k in range(differences.shape[0]):
        squares += (math.exp(differences[k] - top) / total) ** 2
    out[0] -= math.log(max(own, _SMALLEST))
    out[1] += squares - 2.0 * own + 1.0
    out[2] += 0.0 if best == truth else 1.0


# -- the generative fit: running sums ------------------------------------------------------------


@njit(nogil=True, cache=True)
def _clipped(share: float) -> float:
    return min(max(share, _EDGE), 1.0 - _EDGE)


@njit(nogil=True, cache=True)
def _number_column(
    kind: int,
    smoothing: float,
    counts: Floats,
    first: Floats,
    second: Floats,
    terms: Floats,
) -> None:
    """Write a column's log-density in each class: terms (a, b, c, e) of a + b x + c (x - e)²."""
    n_classes = counts.shape[0]
    total, all_first, all_second = 0.0, 0.0, 0.0
    for k in range(n_classes):
        total += counts[k]
        all_first += first[k]
        all_second += second[k]
    pooled = all_first / total if total > 0.0 else 0.0
    if kind == BERNOULLI:
        for k in range(n_classes):
            seen = counts[k] + 2.0 * smoothing
            fallback = pooled if total > 0.0 else 0.5
            p = _clipped((first[k] + smoothing) / seen if seen > 0.0 else fallback)
            terms[k, 0], terms[k, 1] = math.log1p(-p), math.log(p / (1.0 - p))
        return
    if kind == POISSON:
        pseudo = smoothing if total > 0.0 else 0.0
        for k in range(n_classes):
            seen = counts[k] + pseudo
            fallback = pooled if total > 0.0 else 1.0
            rate = max((first[k] + pseudo * pooled) / seen if seen > 0.0 else fallback, _EDGE)
            terms[k, 0], terms[k, 1] = -rate, math.log(rate)
        return
    mean_square = all_second / total if total > 0.0 else 0.0
    variance = mean_square - pooled * pooled
    if variance <= 1e-13 * mean_square:  # a point mass says nothing about the class
        terms[:] = 0.0
        return
    added = smoothing * variance
    within, within_square = 0.0, 0.0
    for k in range(n_classes):
        if counts[k] > 0.0:
            mean = first[k] / counts[k]
            within += second[k] - counts[k] * mean * mean
            within_square += second[k] - 2.0 * pooled * first[k] + counts[k] * pooled * pooled
    shared = max(within / total + added, 1e-14 * max(within_square / total + added, variance))
    for k in range(n_classes):
        mean, own = pooled, variance + added
        if counts[k] > 0.0:
            mean = first[k] / counts[k]
            about = second[k] / counts[k] - 2.0 * pooled * mean + pooled * pooled + added
            own = second[k] / counts[k] - mean * mean + added
            own = max(own, 1e-14 * max(about, variance))
        if kind == SHARED_GAUSSIAN:
            own = shared
        terms[k, 0] = -0.5 * math.log(own)
        terms[k, 2], terms[k, 3] = -0.5 / own, mean


@njit(nogil=True, cache=True)
def _level_table(offset: int, levels: int, alpha: float, sums: Floats, logs: Floats) -> None:
    """Write the log-probability of each level of one column in each class."""
    n_classes = sums.shape[0]
    total = 0.0
    for k in range(n_classes):
        for level in range(offset, offset + levels):
            total += sums[k, level]
    for k in range(n_classes):
        seen = alpha * levels
        for level in range(offset, offset + levels):
            seen += sums[k, level]
        norm = 0.0
        for level in range(offset, offset + levels):
            if seen > 0.0:
                p = (sums[k, level] + alpha) / seen
            elif total > 0.0:
                p = 0.0
                for c in range(n_classes):
                    p += sums[c, level] / total
            else:
                p = 1.0 / levels
            logs[k, level] = max(p, _EDGE)
            norm += logs[k, level]
        for level in range(offset, offset + levels):
            logs[k, level] = math.log(logs[k, level] / norm)


@njit(nogil=True, cache=True, fastmath=_FAST)
def generative_curve(
    numbers: Floats,
    codes: Integers,
    y: Integers,
    train: Integers,
    test: Integers,
    sizes: Integers,
    n_classes: int,
    kinds: Integers,
    smoothing: Floats,
    offsets: Integers,
    levels: Integers,
    alphas: Floats,
    shares: Floats,
    scores: Floats,
) -> None:
    """Fit independent columns at every nested size of one split, and score the test rows.

    Parameters
    ----------
    numbers : ndarray of shape (n_rows, n_numbers)
        Columns of numbers, NaN where missing; Gaussian ones with location 0 and scale 1.
    codes : ndarray of shape (n_rows, n_categorical), int64
        Position of each cell's level in the table of all levels, -1 where missing.
    y : ndarray of shape (n_rows,), int64
    train, test : ndarray, int64
        Rows, training rows in nested order.
    sizes : ndarray, int64
        Rising.
    n_classes : int
    kinds, smoothing : ndarray of shape (n_numbers,)
        Family of each column of numbers, and its variance share or pseudo-count.
    offsets, levels, alphas : ndarray of shape (n_categorical,)
        First position and number of levels in the table, and pseudo-count, by column.
    shares : ndarray of shape (n_classes,) or (0,)
        Class prior where it is not the training rows' own.
    scores : ndarray of shape (n_sizes, 3)
        Gets log-loss, Brier score and error.
    """
    n_numbers, n_categorical = numbers.shape[1], codes.shape[1]
    n_levels = 0
    for c in range(n_categorical):
        n_levels += levels[c]
    class_counts = np.zeros(n_classes)
    counts = np.zeros((n_numbers, n_classes))
    first = np.zeros((n_numbers, n_classes))
    second = np.zeros((n_numbers, n_classes))
    table = np.zeros((n_classes, n_levels))
    terms = np.zeros((n_numbers, n_classes, 4))
    logs = np.zeros((n_classes, n_levels))
    differences = np.zeros(n_classes - 1)
    start = 0
    for s in range(sizes.shape[0]):
        for position in range(start, sizes[s]):
            row = train[position]
            k = y[row]
            class_counts[k] += 1.0
            for j in range(n_numbers):
                x = numbers[row, j]
                if not math.isnan(x):
                    counts[j, k] += 1.0
                    first[j, k] += x
                    second[j, k] += x * x
            for c in range(n_categorical):
                if codes[row, c] >= 0:
                    table[k, codes[row, c]] += 1.0
        start = sizes[s]
        for j in range(n_numbers):
            _number_column(kinds[j], smoothing[j], counts[j], first[j], second[j], terms[j])
        for c in range(n_categorical):
            _level_table(offsets[c], levels[c], alphas[c], table, logs)
        out = scores[s]
        out[:] = 0.0
        for t in range(test.shape[0]):
            row = test[t]
            for k in range(1, n_classes):
                if shares.shape[0] > 0:
                    value = math.log(shares[k] / shares[0])
                else:
                    value = math.log(class_counts[k] / class_counts[0])
                for j in range(n_numbers):
                    x = numbers[row, j]
                    if not math.isnan(x):
                        a, b = terms[j, k], terms[j, 0]
                        value += a[0] - b[0] + x * (a[1] - b[1])
                        value += a[2] * (x - a[3]) ** 2 - b[2] * (x - b[3]) ** 2
                for c in range(n_categorical):
                    code = codes[row, c]
                    if code >= 0:
                        value += logs[k, code] - logs[0, code]
                differences[k - 1] = value
            _add_scores(differences, y[row], out)
        out /= test.shape[0]


# -- the discriminative fit: Newton from size to size --------------------------------------------


@njit(nogil=True, cache=True)
def _standardise(
    powers: Floats,
    n: float,
    blocks: Integers,
    square_scale: Floats,
    theta: Floats,
    penalty: Floats,
    coupling: Floats,
    active: Any,
) -> None:
    """Write the penalty on the weights at this size, and which statistics vary.

    The penalty is the sum of squares of the weights of statistics standardised over the training
    rows, written as penalty_j w_j² and 2 coupling_j w_j w_{j+1} of the statistics as they are.

    Parameters
    ----------
    powers : ndarray of shape (4, n_statistics)
        Sums of the first four powers of the statistics over the training rows.
    n : float
        Number of training rows.
    blocks : ndarray of shape (n_columns, 3), int64
        Kind, first statistic and number of statistics of each column.
    square_scale : ndarray of shape (n_statistics,)
        What x² was divided by, where a column has x and x².
    theta : ndarray of shape (K - 1, n_statistics + 1)
        Weights and intercepts; changed to have weight 0 for each column's most frequent level.
    penalty, coupling, active : ndarray of shape (n_statistics,)
        Written.
    """
    last = theta.shape[1] - 1
    coupling[:] = 0.0
    for b in range(blocks.shape[0]):
        kind, j, width = blocks[b, 0], blocks[b, 1], blocks[b, 2]
        if kind == CATEGORICAL:
            base = j
            for i in range(j, j + width):
                if powers[0, i] > powers[0, base]:
                    base = i
            for i in range(j, j + width):
                share = powers[0, i] / n
                active[i] = i != base and share > 0.0
                penalty[i] = share * (1.0 - share) if active[i] else 1.0
            for k in range(theta.shape[0]):
                common = theta[k, base]
                theta[k, last] += common
                for i in range(j, j + width):
                    theta[k, i] = theta[k, i] - common if active[i] else 0.0
            continue
        m1, m2 = powers[0, j] / n, powers[1, j] / n
        variance = m2 - m1 * m1
        active[j] = variance > 1e-13 * m2
        penalty[j] = variance if active[j] else 1.0
        if kind != GAUSSIAN:
            continue
        active[j + 1], penalty[j + 1] = False, 1.0
        if active[j]:
            m3, m4 = powers[2, j] / n, powers[3, j] / n
            fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1 * m1 * m2 - 3.0 * m1**4
            kurtosis = fourth / (variance * variance)
            spread = kurtosis - 1.0  # the variance of z², z the standardised x
            if spread > 1e-13 * kurtosis:
                # a z + b z² = x (a / s - 2 b m / s²) + x² b / s² + …
                active[j + 1] = True
                up = 1.0 / square_scale[j + 1]
                coupling[j] = 2.0 * m1 * variance * up
                penalty[j + 1] = (4.0 * m1 * m1 * variance + variance**2 * spread) * up * up


@njit(nogil=True, cache=True, fastmath=_FAST)
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


@njit(nogil=True, cache=True)
def _penalised(
    theta: Floats, penalty: Floats, coupling: Floats, l2: float, gradient: Floats
) -> float:
    """Return the penalty's value and add its gradient.

    It is l2/2 Σ_k ‖W_k - mean W‖², in differences V to class 0 l2/2 (Σ_k ‖V_k‖² - ‖Σ V_k‖²/K).
    """
    n_others, width = theta.shape[0], theta.shape[1] - 1
    value = 0.0
    for j in range(width):
        mean = 0.0
        other = 0.0
        coupled = coupling[j] != 0.0
        for k in range(n_others):
            mean += theta[k, j]
            if coupled:
                other += theta[k, j + 1]
        mean /= n_others + 1.0
        other /= n_others + 1.0
        for k in range(n_others):
            centred = theta[k, j] - mean
            value += 0.5 * l2 * penalty[j] * theta[k, j] * centred
            gradient[k, j] += l2 * penalty[j] * centred
            if coupled:
                value += l2 * coupling[j] * theta[k, j + 1] * centred
                gradient[k, j] += l2 * coupling[j] * (theta[k, j + 1] - other)
                gradient[k, j + 1] += l2 * coupling[j] * centred
    return value


@njit(nogil=True, cache=True, fastmath=_FAST)
def _gradient(design: Floats, y: Integers, probabilities: Floats, gradient: Floats) -> None:
    n_rows, width = design.shape
    gradient[:] = 0.0
    for i in range(n_rows):
        for k in range(gradient.shape[0]):
            residual = probabilities[i, k] - (1.0 if y[i] == k + 1 else 0.0)
            for j in range(width):
                gradient[k, j] += residual * design[i, j]
            gradient[k, width] += residual


@njit(nogil=True, cache=True, fastmath=_FAST)
def _hessian(
    design: Floats,
    probabilities: Floats,
    penalty: Floats,
    coupling: Floats,
    l2: float,
    hessian: Floats,
) -> None:
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
                block[j, j] += share * penalty[j]
                if coupling[j] != 0.0:
                    block[j, j + 1] += share * coupling[j]
                    block[j + 1, j] += share * coupling[j]
            for j in range(side):
                for i in range(side):
                    hessian[a * side + i, b * side + j] = block[i, j]
                    hessian[b * side + i, a * side + j] = block[i, j]
    largest = 0.0
    for j in range(n_others * side):
        largest = max(largest, hessian[j, j])
    for j in range(n_others * side):
        hessian[j, j] += 1e-12 * max(hessian[j, j], 1e-6 * largest)


@njit(nogil=True, cache=True, fastmath=_FAST)
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


@njit(nogil=True, cache=True, fastmath=_FAST)
def _forward(factor: Floats, right: Floats) -> None:
    """Overwrite b with L⁻¹ b."""
    for i in range(right.shape[0]):
        total = right[i]
        for c in range(i):
            total -= factor[i, c] * right[c]
        right[i] = total / factor[i, i]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _backward(factor: Floats, right: Floats) -> None:
    """Overwrite b with L⁻ᵀ b."""
    for i in range(right.shape[0] - 1, -1, -1):
        right[i] /= factor[i, i]
        for c in range(i):
            right[c] -= factor[i, c] * right[i]


@njit(nogil=True, cache=True)
def _move(start: Floats, step: Floats, length: float, out: Floats) -> None:
    for k in range(start.shape[0]):
        for j in range(start.shape[1]):
            out[k, j] = start[k, j] - length * step[k, j]


@njit(nogil=True, cache=True)
def _newton(
    design: Floats,
    y: Integers,
    penalty: Floats,
    coupling: Floats,
    l2: float,
    theta: Floats,
) -> None:
    """Move theta to the minimum of the penalised conditional log-likelihood."""
    n_rows = design.shape[0]
    n_others, side = theta.shape
    probabilities = np.empty((n_rows, n_others))
    gradient = np.empty((n_others, side))
    hessian = np.empty((n_others * side, n_others * side))
    step = np.empty((n_others, side))
    trial = np.empty((n_others, side))
    value = _probabilities(design, theta, y, probabilities)
    if not value <= n_rows * math.log(n_others + 1.0):
        # Far out where few rows were separated, Newton's steps are short: better from nothing.
        theta[:] = 0.0
        value = _probabilities(design, theta, y, probabilities)
    for _ in range(_NEWTON_STEPS):
        _gradient(design, y, probabilities, gradient)
        value += _penalised(theta, penalty, coupling, l2, gradient)
        largest = 0.0
        for k in range(n_others):
            for j in range(side):
                largest = max(largest, abs(gradient[k, j]))
        if largest <= _TOLERANCE * n_rows:
            return
        _hessian(design, probabilities, penalty, coupling, l2, hessian)
        _factorise(hessian)
        step[:] = gradient
        _forward(hessian, step.reshape(n_others * side))
        _backward(hessian, step.reshape(n_others * side))
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
            penalised = trial_value + _penalised(trial, penalty, coupling, l2, gradient)
            if penalised <= value - 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            return
        theta[:] = trial
        value = trial_value


@njit(nogil=True, cache=True)
def _newton_over_rows(
    design: Floats, y: Integers, penalty: Floats, l2: float, theta: Floats
) -> None:
    """What :func:`_newton` does, for fewer rows than statistics and a penalty without coupling.

    The best weights of a class are W = P⁻¹ Zᵀ α, P the penalty and Z the design, so that with
    Z P⁻¹ Zᵀ = L Lᵀ and β = Lᵀ α the scores are L β and the penalty is ‖β‖²: the same problem with
    L as its design.
    """
    n_rows, width = design.shape
    scaled = np.empty((n_rows, width))
    for i in range(n_rows):
        for j in range(width):
            scaled[i, j] = design[i, j] / penalty[j]
    factor = np.dot(scaled, design.T)
    largest = 0.0
    for i in range(n_rows):
        largest = max(largest, factor[i, i])
    for i in range(n_rows):
        factor[i, i] += 1e-12 * largest  # equal rows
    _factorise(factor)
    for i in range(n_rows):
        for j in range(i + 1, n_rows):
            factor[i, j] = 0.0
    n_others = theta.shape[0]
    beta = np.empty((n_others, n_rows + 1))
    for k in range(n_others):
        for i in range(n_rows):
            beta[k, i] = 0.0
            for j in range(width):
                beta[k, i] += design[i, j] * theta[k, j]
        _forward(factor, beta[k, :n_rows])
        beta[k, n_rows] = theta[k, width]
    _newton(factor, y, np.ones(n_rows), np.zeros(n_rows), l2, beta)
    for k in range(n_others):
        _backward(factor, beta[k, :n_rows])
        theta[k, width] = beta[k, n_rows]
        for j in range(width):
            theta[k, j] = 0.0
        for i in range(n_rows):
            for j in range(width):
                theta[k, j] += scaled[i, j] * beta[k, i]


@njit(nogil=True, cache=True)
def _minimise(
    design: Floats,
    y: Integers,
    penalty: Floats,
    coupling: Floats,
    active: Any,
    l2: float,
    theta: Floats,
) -> None:
    """Move theta to the minimum over the statistics that vary; the others keep weight 0."""
    n_rows, width = design.shape
    n_others = theta.shape[0]
    kept = np.empty(width, np.int64)
    n_kept, coupled = 0, False
    for j in range(width):
        if active[j]:
            kept[n_kept] = j
            n_kept += 1
            coupled = coupled or coupling[j] != 0.0
    small = np.empty((n_rows, n_kept))
    for i in range(n_rows):
        for j in range(n_kept):
            small[i, j] = design[i, kept[j]]
    own = np.empty((n_others, n_kept + 1))
    strength, tie = np.empty(n_kept), np.empty(n_kept)
    for j in range(n_kept):
        strength[j], tie[j] = penalty[kept[j]], coupling[kept[j]]
        for k in range(n_others):
            own[k, j] = theta[k, kept[j]]
    for k in range(n_others):
        own[k, n_kept] = theta[k, width]
    if n_kept > n_rows and l2 > 0.0 and not coupled:
        _newton_over_rows(small, y, strength, l2, own)
    else:
        _newton(small, y, strength, tie, l2, own)
    theta[:] = 0.0
    for k in range(n_others):
        for j in range(n_kept):
            theta[k, kept[j]] = own[k, j]
        theta[k, width] = own[k, n_kept]


@njit(nogil=True, cache=True, fastmath=_FAST)
def discriminative_curve(
    statistics: Floats,
    y: Integers,
    train: Integers,
    test: Integers,
    sizes: Integers,
    n_classes: int,
    blocks: Integers,
    square_scale: Floats,
    l2: float,
    shares: Floats,
    scores: Floats,
) -> None:
    """Fit penalised logistic regression at every nested size of one split; score the test rows.

    Parameters
    ----------
    statistics : ndarray of shape (n_rows, n_statistics)
        Columns of numbers centred and scaled (x and x² where variances differ by class), an
        indicator for each level.
    y, train, test, sizes, n_classes, shares, scores
        As in :func:`generative_curve`.
    blocks, square_scale
        As in :func:`_standardise`.
    l2 : float
        Strength of the penalty on the weights of the standardised statistics.
    """
    width = statistics.shape[1]
    n_train = sizes[-1]
    design = np.empty((n_train, width))
    labels = np.empty(n_train, np.int64)
    for i in range(n_train):
        design[i] = statistics[train[i]]
        labels[i] = y[train[i]]
    powers = np.zeros((4, width))
    counts = np.zeros(n_classes)
    theta = np.zeros((n_classes - 1, width + 1))
    penalty = np.ones(width)
    coupling = np.zeros(width)
    active = np.ones(width, np.bool_)
    differences = np.zeros(n_classes - 1)
    # For two classes the penalty counts twice: it is then that on the difference of weights.
    strength = 2.0 * l2 if n_classes == 2 else l2
    start = 0
    for s in range(sizes.shape[0]):
        m = sizes[s]
        for i in range(start, m):
            counts[labels[i]] += 1.0
            for j in range(width):
                x = design[i, j]
                powers[0, j] += x
                powers[1, j] += x * x
                powers[2, j] += x * x * x
                powers[3, j] += x * x * x * x
        if start == 0:
            for k in range(1, n_classes):
                theta[k - 1, width] = math.log(counts[k] / counts[0])
        start = m
        _standardise(powers, m, blocks, square_scale, theta, penalty, coupling, active)
        _minimise(design[:m], labels[:m], penalty, coupling, active, strength, theta)
        out = scores[s]
        out[:] = 0.0
        for t in range(test.shape[0]):
            row = statistics[test[t]]
            for k in range(1, n_classes):
                value = theta[k - 1, width]
                if shares.shape[0] > 0:
                    value += math.log(shares[k] / shares[0]) - math.log(counts[k] / counts[0])
                for j in range(width):
                    value += theta[k - 1, j] * row[j]
                differences[k - 1] = value
            _add_scores(differences, y[test[t]], out)
        out /= test.shape[0]
