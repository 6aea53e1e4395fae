"""Compiled twins of the functions of :mod:`crossfade.rowwise`, one block at a time.

What a block of scores costs beyond its matrix products is a dozen short array operations, between
which threads wait for the interpreter's lock. Here each is one loop, free of the lock, and written
so that it becomes vector instructions: :func:`_exp` and :func:`_log1p` are branch-free polynomials
with an error of two units in the last place.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from crossfade._typing import Floats, Integers

__all__ = [
    "add_products",
    "group_rows",
    "logistic_information",
    "logistic_loss",
    "logistic_pass",
    "poisson_pass",
    "scale_rows",
    "softmax",
    "standardise_rows",
    "two_classes",
]


#: log 2 in two parts, the first with so few digits that its multiples by whole numbers are exact.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOG_2_INVERSE = 1.4426950408889634

#: Where exp leaves the normal numbers: zero is returned below, infinity above.
_LOWEST, _HIGHEST = -708.0, 709.0

#: Additions and multiplications may be fused; NaN and infinities keep their meaning.
_FUSED = {"contract"}

#: Sums may be taken in any order as well.
_REORDERED = {"contract", "reassoc"}

_MATRIX = "Array(float64, 2, 'C', readonly=True)"
_IN = "Array(float64, 1, 'C', readonly=True)"


@njit(inline="always", fastmath=_FUSED, error_model="numpy")
def _exp(x: float) -> float:  # pragma: no cover - compiled; tested through its callers
    """Return exp(x), zero below -708: 2^k times a Taylor polynomial in |r| ≤ (log 2)/2."""
    bounded = x if x > _LOWEST else _LOWEST
    bounded = bounded if bounded < _HIGHEST else _HIGHEST
    k = np.floor(bounded * _LOG_2_INVERSE + 0.5)
    r = (bounded - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    result = p * power if x >= _LOWEST else 0.0
    result = result if x <= _HIGHEST else np.inf
    return result if x == x else x


@njit(inline="always", fastmath=_FUSED, error_model="numpy")
def _log1p(u: float) -> float:  # pragma: no cover - compiled; tested through its callers
    """Return log(1+u) for 0 ≤ u ≤ 1: twice the series of artanh at u/(2+u) ≤ 1/3."""
    s = u / (2.0 + u)
    z = s * s
    p = 1.0 / 35.0
    p = p * z + 1.0 / 33.0
    p = p * z + 1.0 / 31.0
    p = p * z + 1.0 / 29.0
    p = p * z + 1.0 / 27.0
    p = p * z + 1.0 / 25.0
    p = p * z + 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return 2.0 * (s + s * z * p)


@njit(inline="always", fastmath=_FUSED, error_model="numpy")
def _logistic(eta: float, y: float, m: float) -> tuple[float, float]:  # pragma: no cover
    """Return m log(1 + exp η) - y η and its derivative, without cancellation."""
    e = _exp(-abs(eta))
    likely = 1.0 / (1.0 + e)
    unlikely = e * likely
    success = likely if eta >= 0.0 else unlikely
    failure = unlikely if eta >= 0.0 else likely
    # What was not counted costs nothing, at an infinite predictor neither.
    above = eta if eta > 0.0 and m != y else 0.0
    below = -eta if eta < 0.0 and y != 0.0 else 0.0
    return (m - y) * above + y * below + m * _log1p(e), (m - y) * success - y * failure


@njit(inline="always", fastmath=_FUSED, error_model="numpy")
def _poisson(eta: float, y: float, m: float) -> tuple[float, float]:  # pragma: no cover
    """Return m exp η - y η and its derivative."""
    rate = m * _exp(eta)
    return rate - y * eta, rate - y


@njit(
    "void(float64[::1], float64[::1])",
    nogil=True,
    cache=True,
    fastmath=_FUSED,
    error_model="numpy",
)
def two_classes(difference: Floats, log_sum: Floats) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.two_classes_numpy`."""
    for i in range(difference.size):
        d = difference[i]
        e = _exp(-abs(d))
        log_sum[i] = (d if d > 0.0 else 0.0) + _log1p(e)
        difference[i] = (1.0 if d > 0.0 else e) / (1.0 + e)


@njit(
    "void(float64[:, ::1], float64[::1], boolean)",
    nogil=True,
    cache=True,
    fastmath=_FUSED,
    error_model="numpy",
)
def softmax(
    scores: Floats, log_sum: Floats, reference: bool
) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.softmax_numpy`."""
    n_rows, n_classes = scores.shape
    for i in range(n_rows):
        top = 0.0 if reference else scores[i, 0]
        for k in range(n_classes):
            top = scores[i, k] if scores[i, k] > top else top
        for k in range(n_classes):
            scores[i, k] -= top
        log_sum[i] = top
    # All at once, so that it is done in vectors whatever the number of classes.
    flat = scores.reshape(-1)
    for j in range(flat.size):
        flat[j] = _exp(flat[j])
    for i in range(n_rows):
        total = _exp(-log_sum[i]) if reference else 0.0
        for k in range(n_classes):
            total += scores[i, k]
        inverse = 1.0 / total
        for k in range(n_classes):
            scores[i, k] *= inverse
        log_sum[i] += np.log(total)


@njit(
    f"void({_IN}, {_IN}, {_IN}, float64[::1], float64[::1])",
    nogil=True,
    cache=True,
    fastmath=_FUSED,
    error_model="numpy",
)
def logistic_loss(
    eta: Floats, successes: Floats, trials: Floats, loss: Floats, slope: Floats
) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.logistic_loss_numpy`."""
    for i in range(eta.size):
        loss[i], slope[i] = _logistic(eta[i], successes[i], trials[i])


@njit(
    [
        f"void({_MATRIX}, {_IN}, float64[:, ::1])",
        f"void({_MATRIX}, {_IN}, float64[:, ::1])".replace("float64", "float32"),
    ],
    nogil=True,
    cache=True,
    error_model="numpy",
)
def scale_rows(X: Floats, factors: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.scale_rows_numpy`."""
    for i in range(X.shape[0]):
        factor = factors[i]
        for j in range(X.shape[1]):
            out[i, j] = X[i, j] * factor
        if out.shape[1] > X.shape[1]:
            out[i, X.shape[1]] = factor


@njit(
    [
        f"void({_MATRIX}, {_IN}, {_IN}, {_IN}, float64[:, ::1])",
        f"void({_MATRIX}, {_IN}, {_IN}, {_IN}, float32[:, ::1])",
    ],
    nogil=True,
    cache=True,
    error_model="numpy",
)
def standardise_rows(
    X: Floats, origin: Floats, inverse: Floats, factors: Floats, out: Floats
) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.standardise_rows_numpy`."""
    for i in range(X.shape[0]):
        factor = factors[i]
        for j in range(X.shape[1]):
            out[i, j] = (X[i, j] - origin[j]) * inverse[j] * factor
        if out.shape[1] > X.shape[1]:
            out[i, X.shape[1]] = factor


@njit(f"void({_IN}, {_IN}, float64[::1])", nogil=True, cache=True, fastmath=_FUSED)
def logistic_information(
    eta: Floats, trials: Floats, out: Floats
) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.logistic_information_numpy`."""
    for i in range(eta.size):
        e = _exp(-abs(eta[i]))
        likely = 1.0 / (1.0 + e)
        out[i] = trials[i] * (e * likely * likely)


_PASS = f"UniTuple(float64, 2)({_MATRIX}, {_IN}, float64, {_IN}, {_IN}, {_IN}, float64[::1])"

#: Rows whose predictors are held at once; their cells stay in a first-level cache.
_TILE = 64


@njit(inline="always", fastmath=_REORDERED, error_model="numpy")
def _tile_predictors(
    X: Floats, start: int, stop: int, slopes: Floats, constant: float, offset: Floats, eta: Floats
) -> None:  # pragma: no cover - compiled
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * slopes[j]
        eta[i - start] = total + constant
    if offset.size:
        for i in range(start, stop):
            eta[i - start] += offset[i]


@njit(inline="always", fastmath=_REORDERED, error_model="numpy")
def _tile_sum(values: Floats, size: int) -> float:  # pragma: no cover - compiled
    """Return the sum, in an order that does not depend on where arrays lie in memory.

    A loop that also writes is compiled twice, for arrays that overlap and for others; which one
    runs is a matter of addresses, and the two would add up in different orders.
    """
    total = 0.0
    for i in range(size):
        total += values[i]
    return total


@njit(inline="always", fastmath=_REORDERED, error_model="numpy")
def _add_tile(
    X: Floats, start: int, stop: int, slope: Floats, sums: Floats
) -> None:  # pragma: no cover - compiled
    """Add slope · X of a tile to the sums, four rows at a time."""
    i = start
    while i + 4 <= stop:
        a, b = slope[i - start], slope[i - start + 1]
        c, d = slope[i - start + 2], slope[i - start + 3]
        for j in range(X.shape[1]):
            sums[j] += a * X[i, j] + b * X[i + 1, j] + c * X[i + 2, j] + d * X[i + 3, j]
        i += 4
    while i < stop:
        for j in range(X.shape[1]):
            sums[j] += slope[i - start] * X[i, j]
        i += 1


@njit(_PASS, nogil=True, cache=True, fastmath=_REORDERED, error_model="numpy")
def logistic_pass(
    X: Floats,
    slopes: Floats,
    constant: float,
    offset: Floats,
    successes: Floats,
    trials: Floats,
    sums: Floats,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.logistic_pass_numpy`."""
    eta, slope = np.empty(_TILE), np.empty(_TILE)
    value = total = 0.0
    for start in range(0, X.shape[0], _TILE):
        stop = min(start + _TILE, X.shape[0])
        _tile_predictors(X, start, stop, slopes, constant, offset, eta)
        for i in range(start, stop):
            eta[i - start], slope[i - start] = _logistic(eta[i - start], successes[i], trials[i])
        value += _tile_sum(eta, stop - start)
        total += _tile_sum(slope, stop - start)
        _add_tile(X, start, stop, slope, sums)
    return value, total


@njit(_PASS, nogil=True, cache=True, fastmath=_REORDERED, error_model="numpy")
def poisson_pass(
    X: Floats,
    slopes: Floats,
    constant: float,
    offset: Floats,
    counts: Floats,
    exposure: Floats,
    sums: Floats,
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.poisson_pass_numpy`."""
    eta, slope = np.empty(_TILE), np.empty(_TILE)
    value = total = 0.0
    for start in range(0, X.shape[0], _TILE):
        stop = min(start + _TILE, X.shape[0])
        _tile_predictors(X, start, stop, slopes, constant, offset, eta)
        for i in range(start, stop):
            eta[i - start], slope[i - start] = _poisson(eta[i - start], counts[i], exposure[i])
        value += _tile_sum(eta, stop - start)
        total += _tile_sum(slope, stop - start)
        _add_tile(X, start, stop, slope, sums)
    return value, total


@njit(
    f"void({_MATRIX}, Array(float64, 2, 'A', readonly=True), float64[:, ::1])",
    nogil=True,
    cache=True,
    fastmath=_REORDERED,
    error_model="numpy",
)
def add_products(images: Floats, Z: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.add_products_numpy`."""
    n_columns = Z.shape[1]
    row = np.empty(n_columns)
    for i in range(out.shape[0]):
        for j in range(n_columns):
            row[j] = Z[i, j]
        for k in range(out.shape[1]):
            total = 0.0
            for j in range(n_columns):
                total += images[i, k * n_columns + j] * row[j]
            out[i, k] += total


@njit(
    f"void({_MATRIX}, Array(int64, 1, 'C', readonly=True), {_IN}, {_IN}, int64[::1], "
    "float64[:, ::1])",
    nogil=True,
    cache=True,
    error_model="numpy",
)
def group_rows(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, ends: Integers, out: Floats
) -> None:  # pragma: no cover - compiled
    """Compiled :func:`crossfade.rowwise.group_rows_numpy`."""
    n_rows, n_columns = X.shape
    ends[:] = 0
    for i in range(n_rows):
        ends[codes[i]] += 1
    total = 0
    for k in range(ends.size):
        count = ends[k]
        ends[k] = total
        total += count
    # Each class's place moves on as its rows are written, from its start to its end.
    for i in range(n_rows):
        place = ends[codes[i]]
        ends[codes[i]] = place + 1
        for j in range(n_columns):
            out[place, j] = X[i, j] - shift[j]
        out[place, n_columns] = weights[i] if weights.size else 1.0
