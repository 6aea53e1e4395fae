"""Missing numbers of a joint Gaussian, told from the row's other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers

__all__ = ["RIDGE", "class_free_moments", "conditional_means", "left_over", "missing_patterns"]

#: Steps of EM, most rows it looks at, and the change of moments (in deviations) that ends it.
_STEPS, _MOST_ROWS, _CHANGE = 50, 2_000, 1e-4

#: Ridge on correlations: columns that repeat each other tell no more than one of them.
RIDGE = 1e-8


def missing_patterns(X: Floats) -> Iterator[tuple[NDArray[np.bool_], Integers]]:
    """Yield each pattern of missing cells, (n_columns,), with the rows that have it."""
    absent = np.isnan(X)
    some = np.flatnonzero(absent.any(axis=1))
    patterns, which = np.unique(absent[some], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield pattern, some[which.ravel() == number]


def _regression(C: Floats, gone: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return coefficients of missing columns on present ones, and what variance they leave."""
    here = ~gone
    within = C[np.ix_(here, here)]
    within = within + np.diag(RIDGE * np.maximum(np.diagonal(within), 1e-300))
    slopes: Any = np.linalg.solve(within, C[np.ix_(here, gone)]).T
    return slopes, C[np.ix_(gone, gone)] - slopes @ C[np.ix_(here, gone)]


def conditional_means(X: Floats, mean: Floats, C: Floats) -> Floats:
    """Return the rows with each missing cell at its mean given the row's other cells.

    Shapes: X (n_rows, d); mean (d,); C (d, d).
    """
    filled = X.copy()
    for gone, rows in missing_patterns(X):
        slopes, _ = _regression(C, gone)
        known = X[rows][:, ~gone] - mean[~gone]
        filled[np.ix_(rows, gone)] = mean[gone] + known @ slopes.T
    return filled


def left_over(X: Floats, C: Floats, weights: Floats) -> Floats:
    """Return Σ_i w_i cov(missing cells of row i given the others), (n_classes, d, d).

    Shapes: X (n_rows, d); C (d, d); weights (n_rows, n_classes).
    """
    total = np.zeros((weights.shape[1], *C.shape))
    for gone, rows in missing_patterns(X):
        rest = _regression(C, gone)[1]
        total[np.ix_(np.arange(len(total)), gone, gone)] += (
            weights[rows].sum(axis=0)[:, None, None] * rest
        )
    return total


def class_free_moments(X: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return mean and covariance of all rows, whatever their class, by EM over the missing cells.

    Shapes: X (n_rows, d); weights (n_rows,); → (d,), (d, d).
    """
    n = X.shape[0]
    index = np.unique(np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.int64))
    X = np.asarray(X[index], dtype=np.float64)
    w = np.ones(len(X)) if weights is None else weights[index]
    present = ~np.isnan(X)
    seen = np.maximum(w @ present, 1e-300)
    centre = w @ np.where(present, X, 0.0) / seen
    spread = np.sqrt(w @ np.where(present, X - centre, 0.0) ** 2 / seen)
    spread = np.where(spread > 0.0, spread, 1.0)
    Z = (X - centre) / spread
    mean, C = np.zeros(X.shape[1]), np.eye(X.shape[1])
    share = w / max(w.sum(), 1e-300)
    for _ in range(_STEPS):
        filled = conditional_means(Z, mean, C)
        before, mean = (mean, C), share @ filled
        moved = filled - mean
        rest = left_over(Z, C, share[:, None])[0]
        C = (moved * share[:, None]).T @ moved + rest
        change = max(np.abs(mean - before[0]).max(), np.abs(C - before[1]).max())
        if change < _CHANGE:
            break
    return centre + spread * mean, C * np.outer(spread, spread)
