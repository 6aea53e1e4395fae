"""The discriminative curve: logistic regression that starts at the optimum of the size before.

All nested fits of one split, and their test scores. What it computes is what the estimators
compute; the tests compare. The loop over sizes is not compiled: one loop of all that it calls would
take three times as long to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers
from crossfade.evaluation.kinds import CATEGORICAL, GAUSSIAN
from crossfade.evaluation.newton_kernels import minimise
from crossfade.evaluation.score_kernels import add_scores

__all__ = ["discriminative_curve"]

_FAST = {"reassoc", "nsz", "contract"}


@kernel(fastmath=_FAST)
def _add_powers(rows: Floats, labels: Integers, powers: Floats, counts: Floats) -> None:
    """Add the sums of the rows' first four powers, shape (4, n_statistics), and of labels."""
    for i in range(rows.shape[0]):
        counts[labels[i]] += 1.0
        for j in range(rows.shape[1]):
            x = rows[i, j]
            powers[0, j] += x
            powers[1, j] += x * x
            powers[2, j] += x * x * x
            powers[3, j] += x * x * x * x


@kernel(fastmath=_FAST)
def _score(rows: Floats, truth: Integers, theta: Floats, shift: Floats, out: Floats) -> None:
    """Write the mean scores of test rows; shift (K - 1,) is added to their differences."""
    width = rows.shape[1]
    differences = np.empty(shift.shape[0])
    out[:] = 0.0
    for i in range(rows.shape[0]):
        for k in range(shift.shape[0]):
            value = theta[k, width] + shift[k]
            for j in range(width):
                value += theta[k, j] * rows[i, j]
            differences[k] = value
        add_scores(differences, truth[i], out)
    for score in range(out.shape[0]):
        out[score] /= rows.shape[0]


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
    design, labels = statistics[train[: sizes[-1]]], y[train[: sizes[-1]]]
    tested, truth = statistics[test], y[test]
    powers, counts = np.zeros((4, width)), np.zeros(n_classes)
    theta = np.zeros((n_classes - 1, width + 1))
    penalty, coupling = np.ones(width), np.zeros(width)
    active = np.ones(width, dtype=np.bool_)
    # For two classes the penalty counts twice: it is then that on the difference of weights.
    strength = 2.0 * l2 if n_classes == 2 else l2
    shift = np.zeros(n_classes - 1)
    start = 0
    for m, out in zip(sizes.tolist(), scores, strict=True):
        _add_powers(design[start:m], labels[start:m], powers, counts)
        if start == 0:
            theta[:, width] = np.log(counts[1:] / counts[0])
        if shares.size:
            shift = np.log(shares[1:] / shares[0]) - np.log(counts[1:] / counts[0])
        start = m
        _standardise(powers, m, blocks, square_scale, theta, penalty, coupling, active)
        minimise(design[:m], labels[:m], penalty, coupling, active, strength, theta)
        _score(tested, truth, theta, shift, out)
