"""Missing numbers of a joint Gaussian, predicted from the row's other numbers."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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

#: What the last tables gave: the variants of a density that are tried ask for the same, of all rows
#: and of those that each fold leaves, and so do other models on these rows.
_recent: deque[tuple[Any, tuple[Floats, Floats]]] = deque(maxlen=16)


def missing_patterns(X: Floats) -> Iterator[tuple[NDArray[np.bool_], Integers]]:
    """Yield each pattern of missing cells, (n_columns,), with the rows that have it."""
    patterns, which, some = _patterns(np.packbits(np.isnan(X), axis=1), X.shape[1])
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(patterns) + 1))
    for number, pattern in enumerate(patterns):
        yield pattern, some[order[starts[number] : starts[number + 1]]]


def _patterns(packed: Any, d: int) -> tuple[NDArray[np.bool_], Integers, Integers]:
    """Return the patterns of missing cells, each incomplete row's pattern, and these rows.

    Shapes: packed (n_rows, ⌈d/8⌉), the bits of absent cells.
    """
    some = np.flatnonzero(packed.any(axis=1))
    own = np.ascontiguousarray(packed[some])
    keys = own.view([("", np.uint8)] * own.shape[1]).ravel() if own.size else own.ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return np.unpackbits(own[first], axis=1, count=d).astype(bool), which.ravel(), some


class _Group(NamedTuple):
    """Patterns with as many missing cells: which these are, and the rows of each.

    Shapes: absent (n_patterns, m); rows (n_rows,), and `which` pattern of these each has.
    """

    absent: Integers
    rows: Integers
    which: Integers


def _groups(X: Floats) -> list[_Group]:
    """Return all incomplete rows, so many at a time that their regressions fit in memory."""
    return _grouped(np.packbits(np.isnan(X), axis=1).tobytes(), X.shape)


@lru_cache(maxsize=32)
def _grouped(absent: bytes, shape: tuple[int, int]) -> list[_Group]:
    """Return the groups of cells that are absent: steps of EM ask for the same each time."""
    n, d = shape
    bits = np.frombuffer(absent, dtype=np.uint8).reshape(n, (d + 7) // 8)
    gone, which, some = _patterns(bits, d)
    counts = gone.sum(axis=1)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(gone) + 1))
    found = []
    for m in np.unique(counts).tolist():
        same = np.flatnonzero(counts == m)
        size = max(1, _MOST_DOUBLES // d**2)
        for first in range(0, same.size, size):
            own = same[first : first + size]
            lengths = starts[own + 1] - starts[own]
            rows = np.concatenate([order[starts[at] : starts[at + 1]] for at in own])
            columns = np.nonzero(gone[own])[1].reshape(own.size, m)
            found.append(_Group(columns, some[rows], np.repeat(np.arange(own.size), lengths)))
    return found


class _Told(NamedTuple):
    """What present cells tell of missing ones, by pattern.

    Means are `sources` (n_rows, d) at `cells` (n_patterns, w) times `slopes` (n_patterns, m, w),
    `left` (n_patterns, m, m) is the covariance about them, and `log_det` (n_patterns,) that of the
    present cells' covariance.
    """

    slopes: Floats
    cells: Integers
    left: Floats
    log_det: Floats


class _Regressions:
    """Missing cells given the others, under a covariance of all columns.

    Of few missing cells by the precision matrix Q = C⁻¹: -Q_mm⁻¹ Q_mo, and Q_mm⁻¹ is left over; of
    many from the present ones: C_mo C_oo⁻¹.
    """

    def __init__(self, C: Floats, ridge: float = RIDGE) -> None:
        still = np.diagonal(C) <= 0.0
        if still.any():  # what never varies tells of no other column, whatever is beside it
            C = np.where(still | still[:, None], 0.0, C)
        self.C = C
        self.ridge = ridge * np.maximum(np.diagonal(C), 1e-300)
        self.ridged = C + np.diag(self.ridge)

    @cached_property
    def precision(self) -> Floats:
        """The inverse of the covariance, (d, d)."""
        return np.asarray(np.linalg.inv(self.ridged), dtype=np.float64)

    @cached_property
    def log_det(self) -> float:
        """The covariance's log-determinant."""
        return float(np.linalg.slogdet(self.ridged)[1])

    def of(self, absent: Integers) -> _Told:
        """Return what is told of patterns' missing cells, (n_patterns, m)."""
        m, d = absent.shape[1], len(self.C)
        rows, columns = absent[:, :, None], absent[:, None, :]
        if 2 * m <= d:
            within = self.precision[rows, columns]
            inverse: Any = np.linalg.inv(within)
            of_missing: Any = np.linalg.slogdet(within)[1]
            left, each = inverse.copy(), np.arange(m)
            left[:, each, each] -= self.ridge[absent]
            return _Told(-inverse, absent, left, self.log_det + of_missing)
        present = _present(absent, d)
        within = self.ridged[present[:, :, None], present[:, None, :]]
        across = self.C[present[:, :, None], columns]
        slopes: Any = np.linalg.solve(within, across).swapaxes(1, 2)
        log_det: Any = np.linalg.slogdet(within)[1]
        return _Told(slopes, present, self.C[rows, columns] - slopes @ across, log_det)

    def fill(self, filled: Floats, X: Floats, mean: Floats, group: _Group, told: _Told) -> None:
        """Put the means of missing cells given the others into the rows of a group."""
        size = max(1, _MOST_DOUBLES // max(told.slopes[0].size, 1))
        for first in range(0, group.rows.size, size):
            at = slice(first, first + size)
            rows, which = group.rows[at], group.which[at]
            sources = X[rows] - mean
            sources[np.isnan(sources)] = 0.0
            if told.cells is group.absent:
                sources = sources @ self.precision
            own = sources[np.arange(rows.size)[:, None], told.cells[which]]
            absent, slopes = group.absent[which], told.slopes[which]
            filled[rows[:, None], absent] = np.einsum("nij,nj->ni", slopes, own) + mean[absent]


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
        regressions.fill(filled, X, mean, group, regressions.of(group.absent))
    return filled


@dataclass(frozen=True)
class Conditional:
    """Rows of which cells are missing, under one Gaussian.

    `filled` (n_rows, d): With the missing cells' means given the others.
    `precision` (d, d): The inverse of the covariance.
    `log_det` (n_rows,): Log-determinant of the covariance of the row's present cells.
    `left`: Of groups of rows, the covariance of what is missing.
    """

    filled: Floats
    mean: Floats
    precision: Floats
    log_det: Floats
    left: list[tuple[_Group, Floats]]

    @classmethod
    def of(cls, X: Floats, mean: Floats, C: Floats) -> Self:
        """Return what is expected of rows, (n_rows, d), by a definite covariance."""
        regressions, filled, left = _Regressions(C, 0.0), X.copy(), []
        log_det = np.full(len(X), regressions.log_det)
        for group in _groups(X):
            told = regressions.of(group.absent)
            regressions.fill(filled, X, mean, group, told)
            log_det[group.rows] = told.log_det[group.which]
            left.append((group, told.left))
        return cls(filled, mean, regressions.precision, log_det, left)

    def log_densities(self) -> Floats:
        """Return log f of the present cells up to (2π)^(-1/2) for each, (n_rows,).

        Their square is that of the row filled with what they tell.
        """
        away = self.filled - self.mean
        squares = np.einsum("ni,ni->n", away @ self.precision, away)
        return np.asarray(-0.5 * (squares + self.log_det), dtype=np.float64)

    def left_over(self, weights: Floats) -> Floats:
        """Return Σ_i w_i cov(missing cells given the others), (d, d)."""
        total = np.zeros_like(self.precision)
        for group, left in self.left:
            total += _scattered(group.absent, left, _mass(group, weights), len(total))
        return total


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
        left = regressions.of(group.absent).left
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
        left = regressions.of(group.absent).left
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
    Z, of_others, groups = Z[~whole], weights[~whole], _groups(Z[~whole])

    def total(values: Floats) -> Floats:
        """Return the sum of all rows' equations."""
        mean, C = unpacked(values, d)
        regressions, filled, rest = _Regressions(C), Z.copy(), -weights.sum() * C
        for group in groups:
            told = regressions.of(group.absent)
            regressions.fill(filled, Z, mean, group, told)
            rest += _scattered(group.absent, told.left, _mass(group, of_others), d)
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
    groups = _groups(Z)
    for _ in range(_STEPS):
        filled, rest, regressions = Z.copy(), np.zeros_like(C), _Regressions(C)
        for group in groups:
            told = regressions.of(group.absent)
            regressions.fill(filled, Z, mean, group, told)
            rest += _scattered(group.absent, told.left, _mass(group, share), len(C))
        before, mean = (mean, C), share @ filled
        moved = filled - mean
        C = (moved * share[:, None]).T @ moved + rest
        change = max(np.abs(mean - before[0]).max(), np.abs(C - before[1]).max())
        if change < _CHANGE:
            break
    # Where EM stops, cells that are missing of a column that never varies still have a variance.
    return origin + centre + spread * mean, C * np.outer(deviation, deviation)
