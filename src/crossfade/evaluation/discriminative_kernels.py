"""The discriminative curve: logistic regression at every size.

All nested fits of one split, and their test scores. What it computes is what the estimators
compute; the tests compare. The loop over sizes is not compiled: one loop of all that it calls would
take three times as long to compile.
"""

from __future__ import annotations

import math

import numpy as np

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers
from crossfade.evaluation.newton_kernels import minimise
from crossfade.evaluation.score_kernels import add_scores

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


@kernel()
def _standards(
    cells: Floats, count: int, origin: Floats, location: Floats, inverse: Floats
) -> None:
    """Write the last columns' means and one by standard deviations: 0 where nothing varies.

    Moments are about `origin`, then about the mean: a far-off cell among other rows leaves those of
    these rows as exact as they are.
    """
    n_rows, width = cells.shape
    first = width - count
    for j in range(first, width):
        location[j] = inverse[j] = 0.0
    for i in range(n_rows):
        for j in range(first, width):
            location[j] += cells[i, j] - origin[j]
    for j in range(first, width):
        location[j] /= n_rows
    for i in range(n_rows):
        for j in range(first, width):
            inverse[j] += (cells[i, j] - origin[j] - location[j]) ** 2
    for j in range(first, width):
        variance = inverse[j] / n_rows
        varies = variance > 1e-13 * (variance + location[j] * location[j])  # by more than rounding
        inverse[j] = 1.0 / math.sqrt(variance) if varies else 0.0
        location[j] += origin[j]


@kernel()
def _standardise(
    rows: Floats,
    tested: Floats,
    squared: Integers,
    levels: Integers,
    design: Floats,
    tests: Floats,
    inverse: Floats,
) -> None:
    """Write the statistics of training and test rows; `inverse` is 0 where one says nothing.

    Of a level that no training row has, the statistics are those of a missing cell: their mean.
    """
    width, side = rows.shape[1], design.shape[1]
    location, nothing, counts = np.zeros(side), np.zeros(side), np.zeros(side)
    _standards(rows, width, rows[0], location, inverse)
    for c in range(levels.shape[0]):
        # The weight of the commonest one, the first of several, follows from the others'.
        commonest, most = levels[c, 0], -1.0
        for j in range(levels[c, 0], levels[c, 1]):
            for i in range(rows.shape[0]):
                counts[j] += rows[i, j]
            if counts[j] > most:
                commonest, most = j, counts[j]
        inverse[commonest] = 0.0
    for given, out in ((rows, design), (tested, tests)):
        for i in range(given.shape[0]):
            for j in range(width):
                out[i, j] = (given[i, j] - location[j]) * inverse[j]
            for q in range(squared.shape[0]):
                out[i, width + q] = out[i, squared[q]] ** 2
    for c in range(levels.shape[0]):
        for i in range(tested.shape[0]):
            known = 0.0
            for j in range(levels[c, 0], levels[c, 1]):
                known += tested[i, j] * counts[j]
            if known == 0.0:
                for j in range(levels[c, 0], levels[c, 1]):
                    tests[i, j] = 0.0
    _standards(design, side - width, nothing, location, inverse)
    for out in (design, tests):
        for i in range(out.shape[0]):
            for j in range(width, side):
                out[i, j] = (out[i, j] - location[j]) * inverse[j]


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
    some of them.

    Shapes: statistics (n_rows, n_statistics), numbers and an indicator for each level of a
    category; squared (n,), those whose squares are statistics, too; levels (n_categories, 2), the
    first indicator of each and the one after the last.
    """
    rows, labels = statistics[train[: sizes[-1]]], y[train[: sizes[-1]]]
    tested, truth = statistics[test], y[test]
    side = statistics.shape[1] + squared.size
    design, tests = np.empty((len(rows), side)), np.empty((len(tested), side))
    inverse = np.empty(side)
    theta = np.zeros((n_classes - 1, side + 1))
    # For two classes the penalty counts twice: it is then that on the difference of weights.
    strength = 2.0 * l2 if n_classes == 2 else l2
    shift = np.zeros(n_classes - 1)
    for m, out in zip(sizes.tolist(), scores, strict=True):
        _standardise(rows[:m], tested, squared, levels, design[:m], tests, inverse)
        counts = np.bincount(labels[:m], minlength=n_classes)
        # Not from the size before: of a row that was far on the wrong side steps are short.
        theta[:] = 0.0
        theta[:, -1] = np.log(counts[1:] / counts[0])
        if shares.size:
            shift = np.log(shares[1:] / shares[0]) - np.log(counts[1:] / counts[0])
        minimise(design[:m], labels[:m], inverse > 0.0, strength, theta)
        _score(tests, truth, theta, shift, out)
