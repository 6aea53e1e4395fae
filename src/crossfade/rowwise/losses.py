"""Losses of generalised linear models, their slopes, and passes over a block of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crossfade._compiled import FUSED, REORDERED, kernel
from crossfade._typing import Floats
from crossfade.rowwise.functions import exp, log1p
from crossfade.rowwise.posteriors import many_rows

#: A pass over a block of rows for one kind of loss, as :func:`logistic_pass` is.
Pass = Callable[
    [Floats, Floats, float, Floats | None, Floats, Floats, Floats | None],
    tuple[float, float, Floats],
]


@kernel(inline="always", fastmath=FUSED)
def _logistic(eta: float, y: float, m: float) -> tuple[float, float, float]:
    """Return m log(1 + exp η) - y η and its two derivatives, without cancellation."""
    e = exp(-abs(eta))
    likely = 1.0 / (1.0 + e)
    unlikely = e * likely
    success = likely if eta >= 0.0 else unlikely
    failure = unlikely if eta >= 0.0 else likely
    # What was not counted costs nothing, at an infinite predictor neither.
    above = eta if eta > 0.0 and m != y else 0.0
    below = -eta if eta < 0.0 and y != 0.0 else 0.0
    loss = (m - y) * above + y * below + m * log1p(e)
    return loss, (m - y) * success - y * failure, m * (unlikely * likely)


@kernel(inline="always", fastmath=FUSED)
def _poisson(eta: float, y: float, m: float) -> tuple[float, float, float]:
    """Return m exp η - y η and its two derivatives."""
    rate = m * exp(eta)
    return rate - y * eta, rate - y, rate


def logistic_loss_numpy(
    eta: Floats, successes: Floats, trials: Floats, loss: Floats, slope: Floats
) -> None:
    """Specification of :func:`logistic_loss`."""
    small = np.exp(-np.abs(eta))
    tail = np.log1p(small)
    likely, unlikely = 1.0 / (1.0 + small), small / (1.0 + small)
    positive = eta >= 0.0
    failures = trials - successes
    # What was not counted costs nothing, at an infinite predictor neither.
    above = np.where((eta > 0.0) & (failures != 0.0), eta, 0.0)
    below = np.where((eta < 0.0) & (successes != 0.0), -eta, 0.0)
    loss[:] = failures * above + successes * below + trials * tail
    slope[:] = failures * np.where(positive, likely, unlikely) - successes * np.where(
        positive, unlikely, likely
    )


@kernel("V V V V! V!", twin=logistic_loss_numpy, when=many_rows, fastmath=FUSED)
def logistic_loss(
    eta: Floats, successes: Floats, trials: Floats, loss: Floats, slope: Floats
) -> None:
    """Write m log(1 + exp η) - y η to `loss` and its derivative m π(η) - y to `slope`."""
    for i in range(eta.size):
        loss[i], slope[i], _ = _logistic(eta[i], successes[i], trials[i])


def logistic_information_numpy(eta: Floats, trials: Floats) -> Floats:
    """Specification of :func:`logistic_information`."""
    e = np.exp(-np.abs(eta))
    return trials * (e / np.square(1.0 + e))


@kernel("V V", twin=logistic_information_numpy, when=many_rows, fastmath=FUSED)
def logistic_information(eta: Floats, trials: Floats) -> Floats:
    """Return m π(η)(1 - π(η)), the second derivative of the logistic loss.

    Shapes: eta, trials (n_rows,); → (n_rows,).
    """
    out = np.empty(eta.size)
    for i in range(eta.size):
        e = exp(-abs(eta[i]))
        likely = 1.0 / (1.0 + e)
        out[i] = trials[i] * (e * likely * likely)
    return out


#: Rows whose predictors are held at once; their cells stay in a first-level cache.
_TILE = 64


@kernel(inline="always", fastmath=REORDERED)
def _tile_predictors(
    X: Floats, start: int, stop: int, slopes: Floats, constant: float, offset: Floats, eta: Floats
) -> None:
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * slopes[j]
        eta[i - start] = total + constant
    if offset.size:
        for i in range(start, stop):
            eta[i - start] += offset[i]


@kernel(inline="always", fastmath=REORDERED)
def _tile_sum(values: Floats, size: int) -> float:
    """Return the sum, in an order that does not depend on where arrays lie in memory.

    A loop that also writes is compiled twice, for arrays that overlap and for others; which one
    runs is a matter of addresses, and the two would add up in different orders.
    """
    total = 0.0
    for i in range(size):
        total += values[i]
    return total


@kernel(inline="always", fastmath=REORDERED)
def _add_tile(X: Floats, start: int, stop: int, slope: Floats, sums: Floats) -> None:
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


def _many_by_rows(X: Floats, *_: Any) -> bool:
    """Return whether one loop over rows pays; products read columns where these lie apart."""
    return bool(X.flags.c_contiguous) and many_rows(X)


def _whole_pass(terms: Callable[..., Any], terms_numpy: Callable[..., Any]) -> Pass:
    """Return a pass: the loss of η = X β + constant + offset over a block, and its sums.

    Shapes: X (n_rows, n_columns); slopes (n_columns,); offset (n_rows,) or (0,); y, size (n_rows,);
    sums (n_columns,); information, each row's second derivative, (n_rows,) or (0,).
    """

    def row_terms_numpy(
        eta: Floats, y: Floats, size: Floats, information: Floats
    ) -> tuple[float, float]:
        loss, slope, curve = terms_numpy(eta, y, size)
        eta[:] = slope
        if information.size:
            information[:] = curve
        return float(loss.sum()), float(slope.sum())

    @kernel("V! V V V!", twin=row_terms_numpy, when=many_rows, fastmath=REORDERED)
    def row_terms(eta: Floats, y: Floats, size: Floats, information: Floats) -> tuple[float, float]:
        loss, curve = np.empty(_TILE), np.empty(_TILE)
        value = total = 0.0
        for start in range(0, eta.size, _TILE):
            stop = min(start + _TILE, eta.size)
            for i in range(start, stop):
                at = i - start
                loss[at], eta[i], curve[at] = terms(eta[i], y[i], size[i])
            for i in range(start, stop if information.size else start):
                information[i] = curve[i - start]
            value += _tile_sum(loss, stop - start)
            total += _tile_sum(eta[start:stop], stop - start)
        return value, total

    def by_columns(
        X: Floats,
        slopes: Floats,
        constant: float,
        offset: Floats,
        y: Floats,
        size: Floats,
        information: Floats,
    ) -> tuple[float, float, Floats]:
        eta = X @ slopes + constant
        if offset.size:
            eta += offset
        value, total = row_terms(eta, y, size, information)
        return value, total, eta @ X

    @kernel("M V x V V V V!", twin=by_columns, when=_many_by_rows, fastmath=REORDERED)
    def whole_pass(
        X: Floats,
        slopes: Floats,
        constant: float,
        offset: Floats,
        y: Floats,
        size: Floats,
        information: Floats,
    ) -> tuple[float, float, Floats]:
        eta, slope, curve = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE)
        sums = np.zeros(X.shape[1])
        value = total = 0.0
        for start in range(0, X.shape[0], _TILE):
            stop = min(start + _TILE, X.shape[0])
            _tile_predictors(X, start, stop, slopes, constant, offset, eta)
            for i in range(start, stop):
                at = i - start
                eta[at], slope[at], curve[at] = terms(eta[at], y[i], size[i])
            for i in range(start, stop if information.size else start):
                information[i] = curve[i - start]
            value += _tile_sum(eta, stop - start)
            total += _tile_sum(slope, stop - start)
            _add_tile(X, start, stop, slope, sums)
        return value, total, sums

    return whole_pass


def _logistic_numpy(eta: Floats, y: Floats, m: Floats) -> tuple[Floats, Floats, Floats]:
    loss, slope = np.empty_like(eta), np.empty_like(eta)
    logistic_loss_numpy(eta, y, m, loss, slope)
    return loss, slope, logistic_information_numpy(eta, m)


def _poisson_numpy(eta: Floats, y: Floats, m: Floats) -> tuple[Floats, Floats, Floats]:
    rate = m * np.exp(eta)
    return rate - y * eta, rate - y, rate


logistic_pass = _whole_pass(_logistic, _logistic_numpy)
poisson_pass = _whole_pass(_poisson, _poisson_numpy)
