"""Missing numbers of a joint Gaussian, predicted from the row's other numbers."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from crossfade._typing import Floats, Integers
from crossfade.densities.univariate import finite_medians
from crossfade.table.contents import distinct, drawn_by_contents

#: Steps of EM, how many different rows it looks at, and the change of moments (in deviations) that
#: ends it.
_STEPS, _MOST_ROWS, _CHANGE = 50, 2_000, 1e-4

#: Doubles of the matrices that are held at a time.
_MOST_DOUBLES = 2_000_000

#: Ridge on correlations: columns that repeat each other tell no more than one of them.
RIDGE = 1e-8


#: Step, in deviations, of derivatives in the moments.
STEP = 1e-5

#: What the last few tables gave: the variants of a density that are tried ask for the same.
_recent: deque[tuple[Any, tuple[Floats, Floats]]] = deque(maxlen=4)


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


class _Group(NamedTuple):
    """Patterns with as many missing cells: which these are, and the rows of each.

    Shapes: absent (n_patterns, m); rows (n_rows,), and `which` pattern of these each has.
    """

    absent: Integers
    rows: Integers
    which: Integers


def _groups(X: Floats) -> Iterator[_Group]:
    """Yield all incomplete rows, so many at a time that their regressions fit in memory."""
    gone, which, some = _patterns(X)
    counts = gone.sum(axis=1)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(gone) + 1))
    for m in np.unique(counts).tolist():
        same = np.flatnonzero(counts == m)
        size = max(1, _MOST_DOUBLES // X.shape[1] ** 2)
        for first in range(0, same.size, size):
            own = same[first : first + size]
            lengths = starts[own + 1] - starts[own]
            rows = np.concatenate([order[starts[at] : starts[at + 1]] for at in own])
            absent = np.nonzero(gone[own])[1].reshape(own.size, m)
            yield _Group(absent, some[rows], np.repeat(np.arange(own.size), lengths))


class _Regressions:
    """Missing cells given the others, under a covariance of all columns.

    Of few missing cells by the precision matrix Q = C⁻¹: -Q_mm⁻¹ Q_mo, and Q_mm⁻¹ is left over; of
    many from the present ones: C_mo C_oo⁻¹.
    """

    def __init__(self, C: Floats) -> None:
        still = np.diagonal(C) <= 0.0
        if still.any():  # what never varies tells of no other column, whatever is beside it
            C = np.where(still | still[:, None], 0.0, C)
        self.C = C
        self.ridge = RIDGE * np.maximum(np.diagonal(C), 1e-300)
        self.ridged = C + np.diag(self.ridge)

    @cached_property
    def _precision(self) -> Floats:
        return np.asarray(np.linalg.inv(self.ridged), dtype=np.float64)

    def of(self, absent: Integers) -> tuple[Floats, Floats]:
        """Return coefficients by missing cell, and what covariance these leave.

        Shapes: absent (n_patterns, m); → (n_patterns, m, d), zero for the missing cells themselves
        or whatever they are multiplied with is, and (n_patterns, m, m).
        """
        (number, m), d = absent.shape, len(self.C)
        rows, columns = absent[:, :, None], absent[:, None, :]
        if 2 * m <= d:
            left: Any = np.linalg.inv(self._precision[rows, columns])
            slopes = -(left @ self._precision[absent])
            each = np.arange(m)
            left[:, each, each] -= self.ridge[absent]
            return slopes, left
        present = _present(absent, d)
        within = self.ridged[present[:, :, None], present[:, None, :]]
        across = self.C[present[:, :, None], columns]
        solved = np.linalg.solve(within, across)
        slopes = np.zeros((number, m, d))
        np.put_along_axis(slopes, present[:, None, :], solved.swapaxes(1, 2), axis=2)
        return slopes, self.C[rows, columns] - across.swapaxes(1, 2) @ solved


def _fill(filled: Floats, X: Floats, mean: Floats, group: _Group, slopes: Floats) -> None:
    """Put the means of missing cells given the others into the rows of a group."""
    absent, size = group.absent[group.which], max(1, _MOST_DOUBLES // slopes[0].size)
    for first in range(0, group.rows.size, size):
        at = slice(first, first + size)
        known = X[group.rows[at]] - mean
        known[np.isnan(known)] = 0.0
        told = (slopes[group.which[at]] @ known[:, :, None])[:, :, 0]
        filled[group.rows[at, None], absent[at]] = told + mean[absent[at]]


def _mass(group: _Group, weights: Floats) -> Floats:
    """Return what the rows of each pattern weigh."""
    found: Any = np.bincount(group.which, weights[group.rows], minlength=len(group.absent))
    return np.asarray(found, dtype=np.float64)


def _scattered(absent: Integers, left: Floats, mass: Floats, d: int) -> Floats:
    """Return the sum of what patterns leave, each by its mass, (d, d)."""
    places = absent[:, :, None] * d + absent[:, None, :]
    weighed = left * mass[:, None, None]
    total: Any = np.bincount(places.ravel(), weighed.ravel(), minlength=d * d)
    return np.asarray(total, dtype=np.float64).reshape(d, d)


def conditional_means(X: Floats, mean: Floats, C: Floats) -> Floats:
    """Return the rows with each missing cell at its mean given the row's other cells.

    Shapes: X (n_rows, d); mean (d,); C (d, d).
    """
    filled, regressions = X.copy(), _Regressions(C)
    for group in _groups(X):
        _fill(filled, X, mean, group, regressions.of(group.absent)[0])
    return filled


def conditional_moments(
    X: Floats, weights: Floats, means: Floats, C: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """Yield of each class the rows filled by it, and Σ_i w_i cov(missing cells given the others).

    Shapes: X (n_rows, d); weights (n_rows, n_classes); means (n_classes, d); C (n_classes, d, d).
    """
    groups = list(_groups(X))
    for w, mean, own in zip(weights.T, means, C, strict=True):
        filled, rest, regressions = X.copy(), np.zeros_like(own), _Regressions(own)
        for group in groups:
            slopes, left = regressions.of(group.absent)
            _fill(filled, X, mean, group, slopes)
            rest += _scattered(group.absent, left, _mass(group, w), len(own))
        yield filled, rest


def marginal_log_densities(X: Floats, means: Floats, C: Floats) -> tuple[Integers, Floats]:
    """Return which rows have missing cells, and log f of their others up to (2π)^(-1/2) for each.

    Shapes: X (n_rows, d); means (n_classes, d); C (n_classes, d, d); → (n_some,), (n_some,
    n_classes).
    """
    every, values = [np.zeros(0, dtype=np.int64)], [np.zeros((0, len(means)))]
    for group in _groups(X):
        present, own = _present(group.absent, X.shape[1]), np.empty((group.rows.size, len(means)))
        ends = np.searchsorted(group.which, np.arange(len(present)), side="right").tolist()
        here = present[group.which]
        for k, (mean, covariance) in enumerate(zip(means, C, strict=True)):
            roots = np.linalg.cholesky(covariance[present[:, :, None], present[:, None, :]])
            logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            away = X[group.rows[:, None], here] - mean[here]
            # A root has few rows, often one: each solved costs less than the root's inverse.
            for root, first, end in zip(roots, [0, *ends], ends, strict=False):
                if away.size:
                    away[first:end] = dtrtrs(root.T, away[first:end].T, trans=1)[0].T
            own[:, k] = -0.5 * (away**2).sum(axis=1) - logs[group.which]
        every.append(group.rows)
        values.append(own)
    return np.concatenate(every), np.concatenate(values)


def _present(absent: Integers, d: int) -> Integers:
    """Return the other cells of patterns, (n_patterns, d - m)."""
    there = np.ones((len(absent), d), dtype=bool)
    np.put_along_axis(there, absent, False, axis=1)
    return np.nonzero(there)[1].reshape(len(absent), d - absent.shape[1])


def left_over(X: Floats, C: Floats, weights: Floats) -> Floats:
    """Return Σ_i w_i cov(missing cells of row i given the others), (n_classes, d, d).

    Shapes: X (n_rows, d); C (d, d); weights (n_rows, n_classes).
    """
    total, regressions = np.zeros((weights.shape[1], *C.shape)), _Regressions(C)
    for group in _groups(X):
        left = regressions.of(group.absent)[1]
        for k in range(len(total)):
            total[k] += _scattered(group.absent, left, _mass(group, weights[:, k]), len(C))
    return total


def class_free_moments(X: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return mean and covariance of all rows, whatever their class, by EM over the missing cells.

    Shapes: X (n_rows, d); weights (n_rows,); → (d,), (d, d).
    """
    w: Floats = np.ones(X.shape[0]) if weights is None else weights
    index = _telling_rows(X)
    if index is not None:
        first, which = distinct(X[index].astype(np.float64), np.zeros(len(index), np.int64))
        X, w = X[index[first]], np.bincount(which, w[index]).astype(np.float64)
    X = np.ascontiguousarray(X, dtype=np.float64)
    key = X.shape, hashlib.blake2b(X.tobytes()).digest(), hashlib.blake2b(w.tobytes()).digest()
    known = next((found for other, found in list(_recent) if other == key), None)
    if known is None:
        known = _by_em(X, w)
        _recent.append((key, known))
    return known


def _telling_rows(X: Floats) -> Integers | None:
    """Return which rows the moments are of, None for all."""
    if X.shape[0] <= _MOST_ROWS:
        return None
    # Some rows tell enough, but which ones must not depend on the order of the rows.
    return np.asarray(drawn_by_contents(X, _MOST_ROWS), dtype=np.int64)


def left_by_row(X: Floats, C: Floats) -> Floats:
    """Return cov(missing cells of each row given the others), (n_rows, d, d)."""
    found, regressions = np.zeros((len(X), *C.shape)), _Regressions(C)
    for group in _groups(X):
        left = regressions.of(group.absent)[1]
        absent = group.absent[group.which]
        places = group.rows[:, None, None], absent[:, :, None], absent[:, None, :]
        found[places] = left[group.which]
    return found


def packed(mean: Floats, C: Floats) -> Floats:
    """Return moments as one vector, (..., d + d (d + 1)/2)."""
    lower = np.tril_indices(C.shape[-1])
    return np.concatenate([mean, C[..., lower[0], lower[1]]], axis=-1)


def unpacked(values: Floats, d: int) -> tuple[Floats, Floats]:
    """Return the moments that :func:`packed` made one vector of."""
    C, lower = np.zeros((d, d)), np.tril_indices(d)
    C[lower] = values[d:]
    return values[:d], C + np.tril(C, -1).T


def moment_influence(
    X: Floats, Z: Floats, weights: Floats, moments: tuple[Floats, Floats]
) -> Floats:
    """Return how one more row moves the packed moments of :func:`class_free_moments`.

    They solve Σ_i w_i (E[z_i] - mean) = 0, and so for the squares about the mean, the expectations
    given what cells are there. `Z` are the rows in the units of `moments`.

    Shapes: X, Z (n_rows, d); weights (n_rows,); → (n_rows, d + d (d + 1)/2).
    """
    found, d = np.zeros((len(X), packed(*moments).size)), Z.shape[1]
    index = _telling_rows(X)
    index = np.arange(len(X)) if index is None else index
    Z, weights, at = Z[index], weights[index], packed(*moments)
    away = conditional_means(Z, *moments) - moments[0]
    seconds = away[:, :, None] * away[:, None, :] + left_by_row(Z, moments[1]) - moments[1]
    seen = np.where(np.diagonal(moments[1]) > 0.0, weights @ ~np.isnan(Z), 0.0)
    # Moments of a column without cells, or that never varies, stay as they are.
    told = packed(seen, np.outer(seen, seen)) > 0.0
    if not told.any():
        return found
    whole = ~np.isnan(Z).any(axis=1)
    complete, of_complete = Z[whole], weights[whole]
    Z, of_others, groups = Z[~whole], weights[~whole], list(_groups(Z[~whole]))

    def total(values: Floats) -> Floats:
        """Return the sum of all rows' equations."""
        mean, C = unpacked(values, d)
        regressions, filled, rest = _Regressions(C), Z.copy(), -weights.sum() * C
        for group in groups:
            slopes, left = regressions.of(group.absent)
            _fill(filled, Z, mean, group, slopes)
            rest += _scattered(group.absent, left, _mass(group, of_others), d)
        first = np.zeros(d)
        for rows, own in ((filled, of_others), (complete, of_complete)):
            moved = rows - mean
            first += own @ moved
            rest += (moved * own[:, None]).T @ moved
        return packed(first, rest)

    slopes = [total(at + step) - total(at - step) for step in STEP * np.eye(at.size)[told]]
    slope = -np.array(slopes)[:, told].T / (2.0 * STEP)
    by_row = np.zeros((len(index), at.size))
    by_row[:, told] = np.linalg.solve(slope, packed(away, seconds)[:, told].T).T
    np.add.at(found, index, by_row)
    return found


def _by_em(X: Floats, w: Floats) -> tuple[Floats, Floats]:
    origin = finite_medians(X)
    X = X - origin  # about its median a column that never varies is zero, whatever sums round to
    present = ~np.isnan(X)
    seen = np.maximum(w @ present, 1e-300)
    centre = w @ np.where(present, X, 0.0) / seen
    deviation = np.sqrt(w @ np.where(present, X - centre, 0.0) ** 2 / seen)
    spread = np.where(deviation > 0.0, deviation, 1.0)
    Z = (X - centre) / spread
    mean, C = np.zeros(X.shape[1]), np.eye(X.shape[1])
    share = w / max(w.sum(), 1e-300)
    groups = list(_groups(Z))
    for _ in range(_STEPS):
        filled, rest, regressions = Z.copy(), np.zeros_like(C), _Regressions(C)
        for group in groups:
            slopes, left = regressions.of(group.absent)
            _fill(filled, Z, mean, group, slopes)
            rest += _scattered(group.absent, left, _mass(group, share), len(C))
        before, mean = (mean, C), share @ filled
        moved = filled - mean
        C = (moved * share[:, None]).T @ moved + rest
        change = max(np.abs(mean - before[0]).max(), np.abs(C - before[1]).max())
        if change < _CHANGE:
            break
    # Where EM stops, cells that are missing of a column that never varies still have a variance.
    return origin + centre + spread * mean, C * np.outer(deviation, deviation)
