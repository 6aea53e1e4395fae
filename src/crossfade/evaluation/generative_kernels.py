"""The generative curve of independent columns: parameters at every size come from running sums.

All nested fits of one split in one loop, and their test scores. What it computes is what the
estimators compute; the tests compare.
"""

from __future__ import annotations

import math

import numpy as np

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers
from crossfade.evaluation.kinds import BERNOULLI, POISSON, SHARED_GAUSSIAN
from crossfade.evaluation.score_kernels import add_scores

_FAST = {"reassoc", "nsz", "contract"}

#: Estimated probabilities and rates keep this distance from the end of their range.
_EDGE = 1e-15


@kernel()
def _clipped(share: float) -> float:
    return min(max(share, _EDGE), 1.0 - _EDGE)


@kernel()
def _number_column(
    kind: int, smoothing: float, counts: Floats, first: Floats, second: Floats, terms: Floats
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


@kernel()
def _level_table(offset: int, levels: int, alpha: float, sums: Floats, logs: Floats) -> None:
    """Write the log-probability of each level of one column in each class.

    A level that no row has yet is none: it is left out, as an estimator leaves out what it has not
    seen.
    """
    n_classes = sums.shape[0]
    total = 0.0
    known = 0
    for level in range(offset, offset + levels):
        before = total
        for k in range(n_classes):
            total += sums[k, level]
        known += total > before
    for k in range(n_classes):
        seen = alpha * known
        for level in range(offset, offset + levels):
            seen += sums[k, level]
        norm = 0.0
        for level in range(offset, offset + levels):
            everywhere = 0.0
            for c in range(n_classes):
                everywhere += sums[c, level]
            logs[k, level] = 0.0
            if everywhere > 0.0:
                own = sums[k, level] + alpha
                logs[k, level] = max(own / seen if seen > 0.0 else everywhere / total, _EDGE)
                norm += logs[k, level]
        for level in range(offset, offset + levels):
            if logs[k, level] > 0.0:
                logs[k, level] = math.log(logs[k, level] / norm)


@kernel(fastmath=_FAST)
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

    Takes numbers (n_rows, n_numbers); codes (n_rows, n_categorical); y (n_rows,); kinds,
    smoothing (n_numbers,); offsets, levels, alphas (n_categorical,); shares (n_classes,);
    scores (n_sizes, 3); numbers: columns of numbers, NaN where missing; Gaussian ones with
    location 0 and scale 1.
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
            add_scores(differences, y[row], out)
        out /= test.shape[0]
