"""Missing numbers of a joint Gaussian, predicted from the row's other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.table.contents import distinct, drawn_by_contents

#: Steps of EM, how many different rows it looks at, and the change of moments (in deviations) that
#: ends it.
_STEPS, _MOST_ROWS, _CHANGE = 50, 2_000, 1e-4

#: Doubles of the matrices that are held at a time.
_MOST_DOUBLES = 2_000_000

#: Ridge on correlations: columns that repeat each other tell no more than one of them.
RIDGE = 1e-8


def missing_patterns(X: Floats) -> Iterator[tuple[NDArray[np.bool_], Integers]]:
    """Yield each pattern of missing cells, (n_columns,), with the rows that have it."""
    patterns, which, some = _patterns(X)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    for number, pattern in enumerate(patterns):
        yield pattern, some[order[starts[number] : starts[number + 1]]]


def _patterns(X: Floats) -> tuple[NDArray[np.bool_], Integers, Integers]:
    """Return the patterns of missing cells, each incomplete row's pattern, and these rows."""
    absent = np.isnan(X)
    some = np.flatnonzero(absent.any(axis=1))
    packed = np.ascontiguousarray(np.packbits(absent[some], axis=1))
    keys = packed.view([("", np.uint8)] * packed.shape[1]).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return absent[some[first]], which.ravel(), some


def _regressions(C: Floats, gone: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return coefficients of present columns for missing ones, and what covariance these leave.

    Shapes: C (d, d); gone (n_patterns, d); → (n_patterns, d, d), zero elsewhere, both.
    """
    here = (~gone).astype(np.float64)
    absent = 1.0 - here
    ridge = RIDGE * np.maximum(np.diagonal(C), 1e-300)
    within = C * here[:, :, None] * here[:, None, :]
    diagonal = np.arange(C.shape[0])
    within[:, diagonal, diagonal] += ridge * here + absent
    across = C * here[:, :, None] * absent[:, None, :]
    slopes: Any = np.linalg.solve(within, across)
    rest = C * absent[:, :, None] * absent[:, None, :] - slopes.swapaxes(1, 2) @ across
    return slopes, rest


def _fill(filled: Floats, rows: Integers, which: Integers, slopes: Floats, mean: Floats) -> None:
    """Put the means of missing cells given the others into some rows, each of its own pattern."""
    some = filled[rows]
    absent = np.isnan(some)
    known = np.where(absent, 0.0, some - mean)
    told = np.matmul(known[:, None, :], slopes[which])[:, 0, :] + mean
    filled[rows] = np.where(absent, told, some)


def _chunks(n_patterns: int, d: int) -> Iterator[slice]:
    size = max(1, _MOST_DOUBLES // max(d * d, 1))
    for first in range(0, n_patterns, size):
        yield slice(first, first + size)


def conditional_means(X: Floats, mean: Floats, C: Floats) -> Floats:
    """Return the rows with each missing cell at its mean given the row's other cells.

    Shapes: X (n_rows, d); mean (d,); C (d, d).
    """
    filled = X.copy()
    gone, which, some = _patterns(X)
    order = np.argsort(which, kind="stable")
    for chunk in _chunks(len(gone), X.shape[1]):
        slopes, _ = _regressions(C, gone[chunk])
        own = order[slice(*np.searchsorted(which[order], (chunk.start, chunk.stop)))]
        for rows in _chunks(own.size, X.shape[1]):
            at = own[rows]
            _fill(filled, some[at], which[at] - chunk.start, slopes, mean)
    return filled


def left_over(X: Floats, C: Floats, weights: Floats) -> Floats:
    """Return Σ_i w_i cov(missing cells of row i given the others), (n_classes, d, d).

    Shapes: X (n_rows, d); C (d, d); weights (n_rows, n_classes).
    """
    total = np.zeros((weights.shape[1], *C.shape))
    gone, which, some = _patterns(X)
    mass = np.zeros((len(gone), weights.shape[1]))
    np.add.at(mass, which, weights[some])
    for chunk in _chunks(len(gone), X.shape[1]):
        total += np.tensordot(mass[chunk].T, _regressions(C, gone[chunk])[1], axes=1)
    return total


def class_free_moments(X: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return mean and covariance of all rows, whatever their class, by EM over the missing cells.

    Shapes: X (n_rows, d); weights (n_rows,); → (d,), (d, d).
    """
    w: Floats = np.ones(X.shape[0]) if weights is None else weights
    if X.shape[0] > _MOST_ROWS:
        # Some rows tell enough, but which ones must not depend on the order of the rows.
        index = drawn_by_contents(X, _MOST_ROWS)
        first, which = distinct(X[index].astype(np.float64), np.zeros(len(index), np.int64))
        X, w = X[index[first]], np.bincount(which, w[index]).astype(np.float64)
    X = np.asarray(X, dtype=np.float64)
    present = ~np.isnan(X)
    seen = np.maximum(w @ present, 1e-300)
    centre = w @ np.where(present, X, 0.0) / seen
    spread = np.sqrt(w @ np.where(present, X - centre, 0.0) ** 2 / seen)
    spread = np.where(spread > 0.0, spread, 1.0)
    Z = (X - centre) / spread
    mean, C = np.zeros(X.shape[1]), np.eye(X.shape[1])
    share = w / max(w.sum(), 1e-300)
    gone, which, some = _patterns(Z)
    mass = np.bincount(which, share[some], minlength=len(gone))
    chunks = list(_chunks(len(gone), X.shape[1]))
    for _ in range(_STEPS):
        filled, rest = Z.copy(), np.zeros_like(C)
        for chunk in chunks:
            slopes, own = _regressions(C, gone[chunk])
            rows = np.flatnonzero((which >= chunk.start) & (which < chunk.stop))
            _fill(filled, some[rows], which[rows] - chunk.start, slopes, mean)
            rest += np.tensordot(mass[chunk], own, axes=1)
        before, mean = (mean, C), share @ filled
        moved = filled - mean
        C = (moved * share[:, None]).T @ moved + rest
        change = max(np.abs(mean - before[0]).max(), np.abs(C - before[1]).max())
        if change < _CHANGE:
            break
    return centre + spread * mean, C * np.outer(spread, spread)
