"""The discriminative curve: logistic regression that starts at the optimum of the size before.

All nested fits of one split in one loop, and their test scores. What it computes is what the
estimators compute; the tests compare.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers
from crossfade.evaluation.kinds import CATEGORICAL, GAUSSIAN
from crossfade.evaluation.newton_kernels import minimise
from crossfade.evaluation.score_kernels import add_scores

__all__ = ["discriminative_curve"]

_FAST = {"reassoc", "nsz", "contract"}


@kernel()
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

    Shapes: powers (4, n_statistics); blocks (n_columns, 3); square_scale (n_statistics,); theta
    (K - 1, n_statistics + 1); penalty, coupling, active (n_statistics,).
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


@kernel(fastmath=_FAST)
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

    Takes statistics (n_rows, n_statistics); statistics: columns of numbers centred and scaled
    (x and x² where variances differ by class), an indicator for each level.
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
        minimise(design[:m], labels[:m], penalty, coupling, active, strength, theta)
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
            add_scores(differences, y[test[t]], out)
        out /= test.shape[0]
