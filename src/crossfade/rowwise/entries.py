"""Entries of sparse rows: their sums by class, products of a CSR matrix and of its transpose.

What costs time is not arithmetic but the memory that an entry's column points to, which may lie
anywhere: it is asked for some entries ahead.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from crossfade._compiled import FUSED, kernel, prefetch
from crossfade._typing import Floats, Integers

#: Entries below which NumPy is used: loading the compiler takes longer than they do.
FEW_ENTRIES = 1 << 18

#: Columns of a dense factor from which the loops here are faster than SciPy's.
FEW_COLUMNS = 6

#: Entries ahead of which memory is asked for, and doubles of a line of the cache.
_AHEAD = 12
_LINE = 8

#: Indices without a sign: of others, each access would ask whether they count from the end.
_U = np.uint64


def many_entries(n_entries: int, n_columns: int) -> bool:
    """Return whether products with so many dense columns are taken faster here than by SciPy."""
    return n_entries >= FEW_ENTRIES and n_columns >= FEW_COLUMNS


def add_by_class_numpy(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    codes: Integers,
    weights: Floats,
    first: int,
    out: Floats,
) -> None:
    """Specification of :func:`add_by_class`; no entry in `weights` stands for all one."""
    sizes = np.diff(indptr)
    place = np.repeat(codes - first, sizes)
    values = data * np.repeat(weights, sizes) if weights.size else data
    own = np.flatnonzero((place >= 0) & (place < out.shape[1]))
    place = indices[own].astype(np.int64) * out.shape[1] + place[own]
    out += np.bincount(place, values[own], minlength=out.size).reshape(out.shape)


@kernel(
    "V I4 I4 I V n M!",
    "V I I I V n M!",
    twin=add_by_class_numpy,
    when=lambda data, *_: data.size >= FEW_ENTRIES,
)
def add_by_class(
    data: Floats,
    indices: Integers,
    indptr: Integers,
    codes: Integers,
    weights: Floats,
    first: int,
    out: Floats,
) -> None:
    """Add each row of a CSR matrix, times its weight, to its class's column of `out`.

    Shapes: codes (n_rows,); weights (n_rows,) or none; out (n_columns, some classes from `first`
    on).
    """
    n_classes = out.shape[1]
    flat, last = out.reshape(-1), indices.size - 1
    for i in range(codes.size):
        k = codes[i] - first
        if 0 <= k < n_classes:
            weight = weights[i] if weights.size else 1.0
            for e in range(indptr[i], indptr[i + 1]):
                prefetch(flat, np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes + k)
                flat[_U(indices[_U(e)]) * _U(n_classes) + _U(k)] += weight * data[_U(e)]


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


def add_entry_sums_numpy(
    data: Floats, indices: Integers, indptr: Integers, weights: Floats, out: Floats
) -> None:
    """Specification of :func:`add_entry_sums`."""
    shape = indptr.size - 1, out.shape[0]
    out += scipy.sparse.csr_array((data, indices, indptr), shape=shape).T @ weights


@kernel("V I4 I4 M M!", "V I I M M!", twin=add_entry_sums_numpy, fastmath=FUSED)
def add_entry_sums(
    data: Floats, indices: Integers, indptr: Integers, weights: Floats, out: Floats
) -> None:
    """Add the product of a CSR matrix's transpose and a dense matrix to `out`.

    Shapes: weights (n_rows, n_classes); out (n_columns, n_classes).
    """
    n_classes = weights.shape[1]
    given, to, last = weights.reshape(-1), out.reshape(-1), indices.size - 1
    for i in range(weights.shape[0]):
        row = _U(i * n_classes)
        for e in range(indptr[i], indptr[i + 1]):
            ahead = np.int64(indices[_U(min(e + _AHEAD, last))]) * n_classes
            for k in range(0, n_classes, _LINE):
                prefetch(to, ahead + k)
            value, start = data[_U(e)], _U(indices[_U(e)]) * _U(n_classes)
            for k in range(n_classes):
                to[start + _U(k)] += value * given[row + _U(k)]
