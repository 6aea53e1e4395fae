"""Entries of sparse rows: their sums by class, products of a CSR matrix and of its transpose.

What costs time is not arithmetic but the memory that an entry's column points to, which may lie
anywhere: it is asked for some entries ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from crossfade._compiled import FUSED, LANES, REORDERED, add_multiples, kernel, prefetch
from crossfade._typing import Floats, Integers
from crossfade.rowwise.functions import exp
from crossfade.rowwise.posteriors import softmax_numpy

#: Entries below which NumPy is used: loading the compiler takes longer than they do.
FEW_ENTRIES = 1 << 18

#: Columns of a dense factor from which the loops here are faster than SciPy's.
FEW_COLUMNS = 6

#: Entries ahead of which memory is asked for, and doubles of a line of the cache.
_AHEAD = 12
_LINE = 8

#: Rows ahead of which the same is done.
_ROWS_AHEAD = 2

#: Half a unit in the last place of single precision, and terms whose rounding is known to add up as
#: stated; and a bound beside which what the smallest numbers may be off by is nothing.
_UNIT, _MOST_ROUNDED = 2.0**-24, 100_000
SMALLEST_BOUND = 1e-23

#: The bits of infinity, as an integer.
_INFINITY = 0x7FF0000000000000

#: Indices without a sign: of others, each access would ask whether they count from the end.
_U = np.uint64


def many_entries(n_entries: int, n_columns: int) -> bool:
    """Return whether products with so many dense columns are taken faster here than by SciPy."""
    return n_entries >= FEW_ENTRIES and n_columns >= FEW_COLUMNS


def entry_faults_numpy(
    data: Floats, indices: Integers, indptr: Integers, n_columns: int, found: Integers
) -> None:
    """Specification of :func:`entry_faults`."""
    falls = np.diff(indices) <= 0
    first = indptr[1:-1]
    falls[first[(first > 0) & (first < indices.size)] - 1] = False
    inside = (indices >= 0) & (indices < n_columns)
    found[:] = (~((data > 0.0) & (data < np.inf))).sum(), falls.sum(), (~inside).sum()


@kernel(
    "V I4 I4 n I!",
    "V I I n I!",
    twin=entry_faults_numpy,
    when=lambda data, *_: data.size >= FEW_ENTRIES,
)
def entry_faults(
    data: Floats, indices: Integers, indptr: Integers, n_columns: int, found: Integers
) -> None:
    """Write to `found` how many entries of a CSR matrix are none that a count can be.

    Shapes: found (3,): not above 0 and finite; not right of the one before; no column at all.
    """
    # Of doubles above 0 the bits rise as they do; other than finite ones lie outside these ends.
    bits, odd, low, high = data.view(np.int64), 0, np.int64(1), np.int64(1)
    for e in range(bits.size):
        low, high = min(low, bits[_U(e)]), max(high, bits[_U(e)])
    if low <= 0 or high >= _INFINITY:
        for e in range(data.size):
            odd += not (data[_U(e)] > 0.0 and data[_U(e)] < np.inf)
    falls, outside = np.int32(0), 0
    if indices.size:
        first = last = indices[0]
        for e in range(indices.size - 1):
            here, right = indices[_U(e)], indices[_U(e) + _U(1)]
            falls += np.int32(right <= here)
            first, last = min(first, right), max(last, right)
        if first < 0 or last >= n_columns:
            for e in range(indices.size):
                outside += (indices[_U(e)] < 0) | (indices[_U(e)] >= n_columns)
    for i in range(1, indptr.size - 1):
        e = indptr[i]
        if indptr[i - 1] < e and 0 < e < indices.size:  # a row's first entry
            falls -= indices[e] <= indices[e - 1]
    found[0], found[1], found[2] = odd, falls, outside


def add_by_class_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    order: Integers,
    codes: Integers,
    weights: Floats,
    out: Floats,
) -> None:
    """Specification of :func:`add_by_class`; no entry in `weights` stands for all one."""
    whole = scipy.sparse.csr_array((data, indices, indptr), shape=(indptr.size - 1, out.shape[1]))
    for k in range(len(out)):
        own = order[codes[order] == k]
        out[k] += (weights[own] if weights.size else np.ones(own.size)) @ whole[own]


@kernel(
    "V I4 I4 I I V M!",
    "V I I I I V M!",
    twin=add_by_class_numpy,
    when=lambda data, *_: data.size >= FEW_ENTRIES,
)
def add_by_class(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    order: Integers,
    codes: Integers,
    weights: Floats,
    out: Floats,
) -> None:
    """Add some rows of a CSR matrix, times their weights, to their classes' rows of `out`.

    Shapes: order, which rows, in turn; codes and weights (n_rows,), or no weights; out (n_classes,
    n_columns).
    """
    for place in range(order.size):
        i = order[place]
        own = out[codes[i]]
        # Memory reads ahead by itself within a row only.
        next_one = indptr[order[min(place + _ROWS_AHEAD, order.size - 1)]]
        for e in range(next_one, next_one + 8 * _LINE, _LINE):
            prefetch(data, e)
        for e in range(next_one, next_one + 8 * _LINE, 2 * _LINE):
            prefetch(indices, e)
        if weights.size:
            for e in range(indptr[i], indptr[i + 1]):
                own[_U(indices[_U(e)])] += weights[i] * data[_U(e)]
        else:
            for e in range(indptr[i], indptr[i + 1]):
                own[_U(indices[_U(e)])] += data[_U(e)]


def entry_scores_numpy(
    data: Floats, indices: Integers, indptr: Integers, slopes: Floats, out: Floats
) -> None:
    """Specification of :func:`entry_scores`."""
    shape = indptr.size - 1, slopes.shape[0]
    out[:] = scipy.sparse.csr_array((data, indices, indptr), shape=shape) @ slopes


@kernel("V I4 I4 M M!", "V I I M M!", twin=entry_scores_numpy, fastmath=FUSED)
def entry_scores(
    data: Floats, indices: Integers, indptr: Integers, slopes: Floats, out: Floats
) -> None:
    """Write the product of a CSR matrix and a dense one to `out`.

    Shapes: slopes (n_columns, n_classes); out (n_rows, n_classes).
    """
    n_classes = slopes.shape[1]
    flat, to, last = slopes.reshape(-1), out.reshape(-1), indices.size - 1
    for i in range(out.shape[0]):
        row = _U(i * n_classes)
        for k in range(n_classes):
            to[row + _U(k)] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            ahead = np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes
            for k in range(0, n_classes, _LINE):
                prefetch(flat, ahead + k)
            value, start = data[_U(e)], _U(indices[_U(e)]) * _U(n_classes)
            for k in range(n_classes):
                to[row + _U(k)] += value * flat[start + _U(k)]


def aligned_table(n_rows: int, n_columns: int) -> NDArray[np.float32]:
    """Return zeros of at least so many columns: a row's begin a line of the cache, or share one."""
    width = LANES if n_columns <= LANES else -(-n_columns // (2 * _LINE)) * 2 * _LINE
    whole = np.zeros(n_rows * width + 2 * _LINE, np.float32)
    first = -(whole.ctypes.data // whole.itemsize) % (2 * _LINE)
    return whole[first : first + n_rows * width].reshape(n_rows, width)


def centre_rounded_numpy(values: Floats, out: NDArray[Any]) -> None:
    """Specification of :func:`centre_rounded`."""
    n_classes, size = len(values), np.abs(values).max(axis=0)
    centred = values - values.mean(axis=0)
    out[:, :n_classes] = centred.T
    out[:, n_classes] = np.abs(centred).max(axis=0) + 2.0**-29 * size + 1e-37


@kernel("M M4!", twin=centre_rounded_numpy)
def centre_rounded(values: Floats, out: NDArray[Any]) -> None:
    """Write values less their mean over classes to `out`, and a bound of these behind them.

    The bound has room for what the mean is off by. Shapes: values (n_classes, n_columns); out
    (n_columns, > n_classes).
    """
    n_classes = values.shape[0]
    for j in range(values.shape[1]):
        total = size = bound = 0.0
        for k in range(n_classes):
            total += values[k, j]
            size = max(size, abs(values[k, j]))
        mean = total / n_classes
        for k in range(n_classes):
            centred = values[k, j] - mean
            out[j, k] = centred
            bound = max(bound, abs(centred))
        # Of what is not finite nothing is known; a maximum may leave NaN out.
        out[j, n_classes] = bound + 2.0**-29 * size + 1e-37 + 0.0 * total


def decide_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    slopes: NDArray[Any],
    n_classes: int,
    out: Integers,
) -> None:
    """Specification of :func:`decide`."""
    shape = indptr.size - 1, slopes.shape[0] - 1
    row, faults = np.repeat(np.arange(shape[0]), np.diff(indptr)), ~((data >= 0) & (data < np.inf))
    faults |= np.signbit(data) | (indices < 0) | (indices >= shape[1])
    faults[1:] |= (np.diff(indices) <= 0) & (np.diff(row) == 0)
    odd = np.bincount(row, faults, shape[0]) > 0.0
    data, indices = np.where(odd[row], 0.0, data), np.where(odd[row], 0, indices)
    counts = scipy.sparse.csr_array((data.astype(np.float32), indices, indptr), shape=shape)
    scores = counts @ slopes[:-1] + slopes[-1]
    best = np.sort(scores[:, :n_classes], axis=1)
    size = np.diff(indptr)
    with np.errstate(invalid="ignore"):
        off = 2.04 * (size + 8.0) * _UNIT * scores[:, n_classes]
        apart = best[:, -1] - best[:, -2] > off
    found = scores[:, :n_classes].argmax(axis=1)
    out[:] = np.where(odd, -2, np.where(apart & (size < _MOST_ROUNDED), found, -1))


@kernel("V I4 I4 M4 n I!", "V I I M4 n I!", twin=decide_numpy, fastmath=FUSED)
def decide(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    slopes: NDArray[Any],
    n_classes: int,
    out: Integers,
) -> None:
    """Write each row's class of the largest score to `out`, -1 where rounding could change it.

    And -2 where it has an entry, zeros apart, that :func:`entry_faults` counts: what is read once
    need not be looked at before.

    Of m terms, rounded at most thrice each, a sum in single precision is off by (m + 3) 2^-24 times
    the sum of their sizes, but for what 1.02 and 8 leave room for. Two such sums are compared.
    Shapes: slopes (n_columns + 1, ≥ n_classes + 1), an :func:`aligned_table` whose last row is the
    offsets', and whose column n_classes bounds the others of its row, in the last row from
    SMALLEST_BOUND; out (n_rows,).
    """
    width, bits = slopes.shape[1], data.view(np.int64)
    own = np.empty(width, np.float32)
    for i in range(out.size):
        start, end = max(0, indptr[i]), min(indptr[i + 1], indices.size)
        low, high, falls, outside = np.int64(0), np.int64(0), np.int32(0), False
        for e in range(start, end):
            low, high = min(low, bits[_U(e)]), max(high, bits[_U(e)])
        for e in range(start, end - 1):
            falls += np.int32(indices[_U(e) + _U(1)] <= indices[_U(e)])
        if end > start:
            outside = indices[_U(start)] < 0 or indices[_U(end - 1)] >= slopes.shape[0] - 1
        if low < 0 or high >= _INFINITY or falls > 0 or outside:
            out[i] = -2
            continue
        for k in range(width):
            own[k] = slopes[-1, k]
        for first in range(0, width - 31, 32):
            add_multiples(4, own, data, indices, start, end, slopes, first)
        if width % 32 >= 16:
            add_multiples(2, own, data, indices, start, end, slopes, width // 32 * 32)
        if width % 16 >= 8:
            add_multiples(1, own, data, indices, start, end, slopes, width // 16 * 16)
        size = end - start
        best, off = own[0], 2.04 * (size + 8.0) * _UNIT * own[n_classes]
        for k in range(1, n_classes):
            best = max(best, own[k])
        # Rounded once more, which 8 has room for. Of what is not finite, none or all are near.
        least, near, label = np.float32(best - off), np.int32(0), np.int32(0)
        for k in range(n_classes):
            near += np.int32(own[k] >= least)
            label += np.int32(k) * np.int32(own[k] == best)
        out[i] = label if near == 1 and size < _MOST_ROUNDED else -1


def add_entry_sums_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    weights: Floats,
    first: int,
    end: int,
    out: Floats,
) -> None:
    """Specification of :func:`add_entry_sums`."""
    shape = indptr.size - 1, out.shape[0]
    counts = scipy.sparse.csr_array((data, indices, indptr), shape=shape)
    out[first:end] += (counts.T @ weights)[first:end]


@kernel("V I4 I4 M n n M!", "V I I M n n M!", twin=add_entry_sums_numpy, fastmath=FUSED)
def add_entry_sums(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    weights: Floats,
    first: int,
    end: int,
    out: Floats,
) -> None:
    """Add the product of a CSR matrix's transpose and a dense matrix to rows first:end of `out`.

    Shapes: weights (n_rows, n_classes); out (n_columns, n_classes).
    """
    n_classes = weights.shape[1]
    given, to, last = weights.reshape(-1), out.reshape(-1), indices.size - 1
    for i in range(weights.shape[0]):
        row = _U(i * n_classes)
        for e in range(indptr[i], indptr[i + 1]):
            if indices[_U(e)] < first or indices[_U(e)] >= end:
                continue
            ahead = np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes
            for k in range(0, n_classes, _LINE):
                prefetch(to, ahead + k)
            value, start = data[_U(e)], _U(indices[_U(e)]) * _U(n_classes)
            for k in range(n_classes):
                to[start + _U(k)] += value * given[row + _U(k)]


def entry_posteriors_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    weights: Floats,
    slopes: Floats,
    out: NDArray[Any],
) -> float:
    """Specification of :func:`entry_posteriors`."""
    shape = indptr.size - 1, slopes.shape[0] - 1
    counts = scipy.sparse.csr_array((data, indices, indptr), shape=shape)
    scores = counts @ slopes[:-1] + slopes[-1]
    log_sum = np.empty(shape[0])
    softmax_numpy(scores, log_sum, False)
    if out.size:
        out[:] = scores * weights[:, None] if weights.size else scores
    return float(log_sum @ weights if weights.size else log_sum.sum())


@kernel(
    "V I4 I4 V M M!",
    "V I4 I4 V M M4!",
    "V I I V M M!",
    "V I I V M M4!",
    twin=entry_posteriors_numpy,
    fastmath=REORDERED,
)
def entry_posteriors(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    weights: Floats,
    slopes: Floats,
    out: NDArray[Any],
) -> float:
    """Return Σ w log Σ_k exp s_k, and write w τ, τ the posterior of scores s, to `out`.

    J of a row is its counts and a one, s = J slopes. Shapes: weights, w (n_rows,), no entry for all
    one; slopes (n_columns + 1, n_classes); out (n_rows, n_classes) or none.
    """
    n_classes, last, value = slopes.shape[1], indices.size - 1, 0.0
    offset = _U((slopes.shape[0] - 1) * n_classes)
    own = np.empty(n_classes)
    flat, kept = slopes.reshape(-1), out.reshape(-1)
    for i in range(indptr.size - 1):
        for k in range(n_classes):
            own[k] = flat[offset + _U(k)]
        for e in range(indptr[i], indptr[i + 1]):
            ahead = np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes
            for k in range(0, n_classes, _LINE):
                prefetch(flat, ahead + k)
            count, start = data[_U(e)], _U(indices[_U(e)]) * _U(n_classes)
            for k in range(n_classes):
                own[k] += count * flat[start + _U(k)]
        top, total = own[0], 0.0
        for k in range(n_classes):
            top = own[k] if own[k] > top else top
        for k in range(n_classes):
            own[k] = exp(own[k] - top)
            total += own[k]
        weight = weights[_U(i)] if weights.size else 1.0
        value += weight * (top + np.log(total))
        if kept.size:
            for k in range(n_classes):
                kept[_U(i * n_classes + k)] = own[k] * (weight / total)
    return value


def add_curvature_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    posterior: NDArray[Any],
    weights: Floats,
    step: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Specification of :func:`add_curvature`."""
    shape = indptr.size - 1, out.shape[0] - 1
    counts = scipy.sparse.csr_array((data.astype(np.float32), indices, indptr), shape=shape)
    change = 1.0 - posterior
    if step.size:
        change = counts @ step[:-1] + step[-1]
        change -= (posterior * change).sum(axis=1, keepdims=True)
    change *= posterior
    if weights.size:
        change *= weights.astype(np.float32)[:, None]
    out[:-1] += (counts if step.size else counts.power(2)).T @ change
    out[-1] += change.sum(axis=0)


@kernel("V I4 I4 M4 V M4 M4!", "V I I M4 V M4 M4!", twin=add_curvature_numpy, fastmath=REORDERED)
def add_curvature(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    posterior: NDArray[Any],
    weights: Floats,
    step: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """Add Σ w J'(diag τ - ττ')J step to `out`, the diagonal of Σ w J'(diag τ - ττ')J without one.

    J of a row is its counts and a one. Shapes: posterior, τ (n_rows, n_classes); weights, w
    (n_rows,), no entry for all one; step (n_columns + 1, n_classes) or none; out (n_columns + 1,
    n_classes).
    """
    n_classes, last, zero = out.shape[1], indices.size - 1, np.float32(0.0)
    offset = _U((out.shape[0] - 1) * n_classes)
    change = np.empty(n_classes, np.float32)
    flat, to, given = step.reshape(-1), out.reshape(-1), posterior.reshape(-1)
    for i in range(posterior.shape[0]):
        row = _U(i * n_classes)
        mean, weight = zero, np.float32(weights[_U(i)] if weights.size else 1.0)
        if flat.size:
            for k in range(n_classes):
                change[k] = flat[offset + _U(k)]
            for e in range(indptr[i], indptr[i + 1]):
                ahead = np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes
                for k in range(0, n_classes, 2 * _LINE):
                    prefetch(flat, ahead + k)
                    prefetch(to, ahead + k)
                value, start = np.float32(data[_U(e)]), _U(indices[_U(e)]) * _U(n_classes)
                for k in range(n_classes):
                    change[k] += value * flat[start + _U(k)]
            for k in range(n_classes):
                mean += given[row + _U(k)] * change[k]
        else:
            for k in range(n_classes):
                change[k] = np.float32(1.0) - given[row + _U(k)]
        for k in range(n_classes):
            change[k] = weight * given[row + _U(k)] * (change[k] - mean)
            to[offset + _U(k)] += change[k]
        for e in range(indptr[i], indptr[i + 1]):
            value, start = np.float32(data[_U(e)]), _U(indices[_U(e)]) * _U(n_classes)
            value *= np.float32(1.0) if flat.size else value
            for k in range(n_classes):
                to[start + _U(k)] += value * change[k]
