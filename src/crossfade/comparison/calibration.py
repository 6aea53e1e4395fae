"""Whether probabilities agree with what happened, how well they rank, and what decisions cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from crossfade._typing import Floats, Integers
from crossfade.evaluation.scores import estimate
from crossfade.evidence.details import Calibration, Ranking, Thresholds

_BINS = 10

#: Places at which curves of single splits are averaged.
_GRID = np.linspace(0.0, 1.0, 51)

_QUANTILE = float(stats.norm.ppf(0.975))


def calibrate(
    posteriors: Sequence[Floats], truths: Sequence[Integers], test_to_train: float
) -> Calibration:
    """Return the reliability of posteriors on the test rows of several splits.

    Shapes: posteriors (n_test, n_classes); truths (n_test,).
    """
    sums = np.stack([_binned(p, y) for p, y in zip(posteriors, truths, strict=True)])
    count, probability, happened = sums.sum(axis=0)
    kept = count > 0
    n, mean, frequency = count[kept], probability[kept] / count[kept], happened[kept] / count[kept]
    # The expected number of splits that test one row; each row's answer is one piece of evidence.
    repeats = max(1.0, len(sums) * test_to_train / (1.0 + test_to_train))
    low, high = _wilson(frequency, n / repeats)
    by_split = np.abs(sums[:, 1] - sums[:, 2]).sum(axis=1) / sums[:, 0].sum(axis=1)
    return Calibration(
        mean, frequency, low, high, n / count.sum(), estimate(by_split, test_to_train)
    )


def _binned(posterior: Floats, truth: Integers) -> Floats:
    """Return count, summed probability and number of happenings a bin, shape (3, n_bins)."""
    own = truth[:, None] == np.arange(posterior.shape[1])
    if posterior.shape[1] == 2:
        posterior, own = posterior[:, 1:], own[:, 1:]
    p, happened = posterior.ravel(), own.ravel().astype(np.float64)
    bins = np.minimum((p * _BINS).astype(np.int64), _BINS - 1)
    return np.stack(
        [np.bincount(bins, weights, _BINS) for weights in (np.ones_like(p), p, happened)]
    )


def _wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    z2 = _QUANTILE**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _QUANTILE / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def rank(scores: Sequence[Floats], truths: Sequence[Integers], test_to_train: float) -> Ranking:
    """Return ROC and precision-recall curves of two classes, averaged over splits."""
    curves = [_curves(s, y) for s, y in zip(scores, truths, strict=True)]
    rates, precisions, areas, averages = zip(*curves, strict=True)
    return Ranking(
        _GRID,
        np.mean(rates, axis=0),
        np.mean(precisions, axis=0),
        estimate(np.array(areas), test_to_train),
        estimate(np.array(averages), test_to_train),
        float(np.mean(np.concatenate(list(truths)))),
    )


def costs_by_threshold(
    scores: Sequence[Floats], truths: Sequence[Integers], costs: Floats | None, test_to_train: float
) -> Thresholds:
    """Return what decisions of two classes cost, by threshold; without costs, how often they err.

    Shapes: scores (n_test,), of the second class; truths (n_test,); costs (2, 2).
    """
    table = 1.0 - np.eye(2) if costs is None else costs
    extra = table - np.diagonal(table)[:, None]
    right = float(extra[0, 1] / (extra[0, 1] + extra[1, 0]))
    every = np.append(_GRID, right)
    by_split = np.array([_costs(s, y, table, every) for s, y in zip(scores, truths, strict=True)])
    *found, at_right = (estimate(column, test_to_train) for column in by_split.T)
    mean = np.array([one.mean for one in found])
    return Thresholds(
        _GRID,
        mean,
        np.array([one.low for one in found]),
        np.array([one.high for one in found]),
        right,
        at_right,
        float(_GRID[mean.argmin()]),
    )


def _costs(scores: Floats, truth: Integers, costs: Floats, thresholds: Floats) -> Floats:
    """Return the mean cost of deciding for the second class above each threshold."""
    total = np.zeros(len(thresholds))
    for code in (0, 1):
        own = np.sort(scores[truth == code])
        first = np.searchsorted(own, thresholds, side="right")
        total += first * costs[code, 0] + (own.size - first) * costs[code, 1]
    return total / len(truth)


def _curves(scores: Floats, truth: Integers) -> tuple[Floats, Floats, float, float]:
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)  # ends of ties
    tp, fp = hits[last].astype(np.float64), last + 1 - hits[last]
    recall = np.append(0.0, tp / tp[-1])
    fall_out = np.append(0.0, fp / fp[-1])
    precision = tp / (tp + fp)
    area = float(np.sum(np.diff(fall_out) * (recall[1:] + recall[:-1]) / 2))
    average = float(np.sum(np.diff(recall) * precision))
    # At one false-positive rate the highest point; a recall between thresholds takes the next one.
    rate = np.interp(_GRID, fall_out, recall)
    at = np.minimum(np.searchsorted(recall[1:], _GRID - 1e-12), len(precision) - 1)
    return rate, precision[at], area, average
