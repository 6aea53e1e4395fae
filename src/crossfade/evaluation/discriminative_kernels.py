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
from crossfade.evaluation.newton_kernels import minimise
from crossfade.evaluation.score_kernels import add_scores

__all__ = ["discriminative_curve"]

_FAST = {"reassoc", "nsz", "contract"}


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


def _standards(cells: Floats, origin: Any) -> tuple[Floats, Floats]:
    """Return means, and one by standard deviations: 0 where nothing but rounding varies.

    Moments are about `origin`, then about the mean: a far-off cell among other rows leaves those of
    these rows as exact as they are.
    """
    moved = cells - origin
    mean = moved.mean(axis=0)
    moved -= mean
    variance = np.square(moved, out=moved).mean(axis=0)
    varies = variance > 1e-13 * (variance + mean**2)
    return origin + mean, np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)


def discriminative_curve(
    statistics: Floats,
    y: Integers,
    train: Integers,
    test: Integers,
    sizes: Integers,
    n_classes: int,
    squared: Integers,
    levels: Integers,
    l2: float,
    shares: Floats,
    scores: Floats,
) -> None:
    """Fit penalised logistic regression at every nested size of one split; score the test rows.

    The statistics are standardised over the training rows of each size, and so are the squares of
    some of them; the weights of the size before are where the next fit starts.

    Shapes: statistics (n_rows, n_statistics), numbers and an indicator for each level of a
    category; squared (n,), those whose squares are statistics, too; levels (n_categories, 2), the
    first indicator of each and the one after the last.
    """
    rows, labels = statistics[train[: sizes[-1]]], y[train[: sizes[-1]]]
    tested, truth = statistics[test], y[test]
    theta = np.zeros((n_classes - 1, statistics.shape[1] + squared.size + 1))
    # For two classes the penalty counts twice: it is then that on the difference of weights.
    strength = 2.0 * l2 if n_classes == 2 else l2
    shift = np.zeros(n_classes - 1)
    for m, out in zip(sizes.tolist(), scores, strict=True):
        location, inverse = _standards(rows[:m], rows[0])
        for first, end in levels.tolist():
            # The weight of the commonest one, the first of several, follows from the others'.
            inverse[first + rows[:m, first:end].sum(axis=0).argmax()] = 0.0
        z = [(cells - location) * inverse for cells in (rows[:m], tested)]
        squares = [one[:, squared] ** 2 for one in z]
        location, inverse_square = _standards(squares[0], 0.0)
        design, tests = (
            np.ascontiguousarray(np.hstack([one, (square - location) * inverse_square]))
            for one, square in zip(z, squares, strict=True)
        )
        counts = np.bincount(labels[:m], minlength=n_classes)
        if not theta.any():
            theta[:, -1] = np.log(counts[1:] / counts[0])
        if shares.size:
            shift = np.log(shares[1:] / shares[0]) - np.log(counts[1:] / counts[0])
        active = np.concatenate([inverse, inverse_square]) > 0.0
        minimise(design, labels[:m], active, strength, theta)
        _score(tests, truth, theta, shift, out)
