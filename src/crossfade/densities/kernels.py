"""Compiled loops over one block of rows, each beside its NumPy twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from crossfade._compiled import REORDERED, kernel
from crossfade._typing import Floats, Integers
from crossfade.table.columnwise import ColumnArrays

#: Cells of a block of rows from which on compiled moments are worth loading the compiler.
MOMENT_CELLS = 65_536

#: Rows from which on compiled moments of single columns are, and most classes for these.
COLUMN_CELLS, _FEW_CLASSES = 4_096, 8

#: Cells times classes from which on compiled scores are.
SCORE_CELLS = 131_072

#: Pairs of products from which on compiled covariances are.
PAIRS = 10_000


#: Rows times classes from which on a row's weight stands alone, without the zeros beside it.
_SPARSE_CELLS = 1 << 23


def class_weights(codes: Integers, weights: Floats | None, n_classes: int) -> Any:
    """Return each row's weight in its own class's column, an array or, of many cells, sparse.

    Shapes: codes (n_rows,); weights (n_rows,); → (n_rows, n_classes).
    """
    n_rows = codes.shape[0]
    given = np.ones(n_rows) if weights is None else weights
    if n_rows * n_classes > _SPARSE_CELLS:
        starts = np.arange(n_rows + 1)
        return scipy.sparse.csr_array((given, codes, starts), shape=(n_rows, n_classes))
    onehot = np.zeros((n_rows, n_classes))
    onehot[np.arange(n_rows), codes] = given
    return onehot


def grouped_moments_numpy(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, n_classes: int, fourth: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Specification: through matrix products with the one-hot classes."""
    onehot = class_weights(codes, weights if weights.shape[0] else None, n_classes)
    u = X - shift
    missing = np.isnan(X)
    some_missing = bool(missing.any())
    if some_missing:
        u[missing] = 0.0
        counts = onehot.T @ ~missing
    else:
        counts = np.repeat(onehot.sum(axis=0)[:, None], X.shape[1], axis=1)
    squares = u * u
    s3, s4 = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    if fourth:
        row_weights = onehot.sum(axis=1)
        s3, s4 = row_weights @ (squares * u), row_weights @ (squares * squares)
    return counts, onehot.T @ u, onehot.T @ squares, s3, s4


@kernel(
    "M I V V n b",
    twin=grouped_moments_numpy,
    when=lambda X, *_: X.size >= MOMENT_CELLS,
    fastmath=REORDERED,
)
def grouped_moments(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, n_classes: int, fourth: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Sum powers of x - shift: first and second by class and column, higher ones by column.

    Shapes: X (n_rows, d); codes (n_rows,); weights (n_rows,); shift (d,); counts, first, second
    (n_classes, d); third_power, fourth_power (d,).
    """
    n_rows, d = X.shape
    counts = np.zeros((n_classes, d))
    s1 = np.zeros((n_classes, d))
    s2 = np.zeros((n_classes, d))
    s3 = np.zeros(d)
    s4 = np.zeros(d)
    rows = np.zeros(n_classes)
    weighted = weights.shape[0] > 0
    # The plain loops are kept apart, without weights or NaN tests, to run at memory speed.
    for i in range(n_rows):
        k = codes[i]
        w = weights[i] if weighted else 1.0
        rows[k] += w
        if fourth:
            for j in range(d):
                u = X[i, j] - shift[j]
                wu = w * u
                wuu = wu * u
                s1[k, j] += wu
                s2[k, j] += wuu
                s3[j] += wuu * u
                s4[j] += wuu * (u * u)
        else:
            for j in range(d):
                u = X[i, j] - shift[j]
                wu = w * u
                s1[k, j] += wu
                s2[k, j] += wu * u
    complete = True
    for k in range(n_classes):
        for j in range(d):
            counts[k, j] = rows[k]
            if s1[k, j] != s1[k, j]:
                complete = False
    if complete:
        return counts, s1, s2, s3, s4
    counts[:], s1[:], s2[:], s3[:], s4[:] = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        k = codes[i]
        w = weights[i] if weighted else 1.0
        for j in range(d):
            x = X[i, j]
            present = x == x
            u = x - shift[j] if present else 0.0
            wu = w * u
            wuu = wu * u
            counts[k, j] += w if present else 0.0
            s1[k, j] += wu
            s2[k, j] += wuu
            if fourth:
                s3[j] += wuu * u
                s4[j] += wuu * (u * u)
    return counts, s1, s2, s3, s4


def column_moments_numpy(
    x: Floats, members: Floats, weights: Floats, shift: float, fourth: bool
) -> tuple[Floats, Floats, float, float]:
    """Specification."""
    u = x - shift
    squares = u * u
    cubes = squares * u * (weights if weights.shape[0] else 1.0)
    higher = (float(cubes.sum()), float(cubes @ u)) if fourth else (0.0, 0.0)
    return members @ u, members @ squares, *higher


@kernel(
    "V M V x b",
    twin=column_moments_numpy,
    when=lambda x, *_: x.size >= COLUMN_CELLS,
    fastmath=REORDERED,
)
def column_moments(
    x: Floats, members: Floats, weights: Floats, shift: float, fourth: bool
) -> tuple[Floats, Floats, float, float]:
    """Sum powers of one column's x - shift, the first two by class.

    Shapes: x (n_rows,); members (n_classes, n_rows): a row's weight in its own class, else 0;
    weights (n_rows,).
    """
    n_classes, n_rows = members.shape
    s1, s2, s3, s4 = np.zeros(n_classes), np.zeros(n_classes), 0.0, 0.0
    weighted = weights.shape[0] > 0
    for start in range(0, n_rows, 1024):
        stop = min(start + 1024, n_rows)
        # One loop for each sum's kind, without a branch in it, to run at the cache's speed.
        for k in range(n_classes):
            a, b = 0.0, 0.0
            for i in range(start, stop):
                u = x[i] - shift
                wu = members[k, i] * u
                a += wu
                b += wu * u
            s1[k] += a
            s2[k] += b
        if fourth:
            a, b = 0.0, 0.0
            if weighted:
                for i in range(start, stop):
                    u = x[i] - shift
                    cube = weights[i] * u * (u * u)
                    a += cube
                    b += cube * u
            else:
                for i in range(start, stop):
                    u = x[i] - shift
                    square = u * u
                    a += square * u
                    b += square * square
            s3 += a
            s4 += b
    return s1, s2, s3, s4


def moments(
    X: Any, codes: Integers, weights: Floats | None, shift: Floats, n_classes: int, fourth: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return what :func:`grouped_moments` does, of columns that lie apart, too."""
    if isinstance(X, ColumnArrays) and n_classes <= _FEW_CLASSES:
        members = np.equal(codes, np.arange(n_classes)[:, None]).astype(np.float64)
        if weights is not None:
            members *= weights
        pairs = zip(X.columns, shift.tolist(), strict=True)
        sums = [column_moments(x, members, weights, s, fourth) for x, s in pairs]
        s1, s2, s3, s4 = (np.array(one).T.copy() for one in zip(*sums, strict=True))
        if np.isfinite(s1).all():  # no cell is missing
            counts = np.repeat(members.sum(axis=1)[:, None], shift.size, axis=1)
            return counts, s1, s2, s3, s4
    return grouped_moments(np.asarray(X), codes, weights, shift, n_classes, fourth)


def quadratic_scores_numpy(
    X: Floats,
    location: Floats,
    inverse_scale: Floats,
    linear: Floats,
    square: Floats,
    partition: Floats,
) -> Floats:
    """Specification: through matrix products."""
    z = X - location
    z *= inverse_scale
    missing = np.isnan(X)
    some_missing = bool(missing.any())
    if some_missing:
        z[missing] = 0.0
    out: Floats = z @ linear.T
    z *= z
    out += z @ square.T
    out -= partition.sum(axis=1)
    if some_missing:
        out += missing.astype(np.float64) @ partition.T
    return out


@kernel(
    "M V V M M M",
    twin=quadratic_scores_numpy,
    when=lambda X, _, __, linear, *___: X.size * len(linear) >= SCORE_CELLS,
    fastmath=REORDERED,
)
def quadratic_scores(
    X: Floats,
    location: Floats,
    inverse_scale: Floats,
    linear: Floats,
    square: Floats,
    partition: Floats,
) -> Floats:
    """Return Σ_j (a_kj z_j + b_kj z_j² - A_kj), z = (x - location)·inverse_scale; NaN left out.

    Shapes: X (n_rows, d); location, inverse_scale (d,); linear, square, partition (n_classes,
    d); → (n_rows, n_classes).
    """
    n_rows, d = X.shape
    n_classes = linear.shape[0]
    out = np.empty((n_rows, n_classes))
    z = np.empty(d)
    total = np.zeros(n_classes)
    for k in range(n_classes):
        for j in range(d):
            total[k] += partition[k, j]
    # With few columns the loops that become vector instructions run over a tile of rows. Rows are
    # counted on to where such tiles end: at the first one with a missing cell.
    tile = 64 if d < 8 else 0
    tiled = np.empty((d, tile))
    score = np.empty(tile)
    done = 0
    check = 0.0
    while tile > 0 and done < n_rows:
        size = min(tile, n_rows - done)
        for j in range(d):
            for i in range(size):
                tiled[j, i] = (X[done + i, j] - location[j]) * inverse_scale[j]
            for i in range(size):
                check += tiled[j, i]
        if check != check:
            break
        for k in range(n_classes):
            for i in range(size):
                score[i] = -total[k]
            for j in range(d):
                a, b = linear[k, j], square[k, j]
                for i in range(size):
                    score[i] += tiled[j, i] * (a + b * tiled[j, i])
            for i in range(size):
                out[done + i, k] = score[i]
        done += size
    for i in range(done, n_rows):
        check = 0.0
        for j in range(d):
            zj = (X[i, j] - location[j]) * inverse_scale[j]
            z[j] = zj
            check += zj
        if check == check:
            for k in range(n_classes):
                s = 0.0
                for j in range(d):
                    s += z[j] * (linear[k, j] + square[k, j] * z[j])
                out[i, k] = s - total[k]
        else:
            for k in range(n_classes):
                s = 0.0
                for j in range(d):
                    if X[i, j] == X[i, j]:
                        s += z[j] * (linear[k, j] + square[k, j] * z[j]) - partition[k, j]
                out[i, k] = s
    return out


def product_covariances_numpy(C: Floats, m: Floats, i: Integers, j: Integers) -> Floats:
    """Specification of :func:`product_covariances`, for any leading axes."""
    # C_ik S_jl + m_i m_k C_jl + (k and l exchanged) with S = C + m mᵀ.
    rows_i, rows_j = C[..., i, :], C[..., j, :]
    mi, mj = m[..., i], m[..., j]
    ik, jl = rows_i[..., i], rows_j[..., j]
    il, jk = rows_i[..., j], rows_j[..., i]
    out: Floats = ik * jl + il * jk
    if m.any():
        # Each covariance times the means of the two columns it leaves out.
        for covariance, row, column in ((ik, mj, mj), (jl, mi, mi), (il, mj, mi), (jk, mi, mj)):
            covariance *= row[..., :, None]
            covariance *= column[..., None, :]
            out += covariance
    return out


@kernel(
    "M V I I",
    twin=product_covariances_numpy,
    when=lambda _, __, i, ___: i.size**2 >= PAIRS,
    fastmath=REORDERED,
)
def product_covariances(C: Floats, m: Floats, i: Integers, j: Integers) -> Floats:
    """Return cov(z_i z_j, z_k z_l) of a Gaussian for pairs of products, by Isserlis' theorem.

    Shapes: C (d, d); m (d,); i, j (n_products,); → (n_products, n_products).
    """
    n = i.size
    out = np.empty((n, n))
    for a in range(n):
        p, q = i[a], j[a]
        for b in range(n):
            k, o = i[b], j[b]
            mm = m[q] * m[o]
            mk = m[q] * m[k]
            value = C[p, k] * (C[q, o] + mm) + C[p, o] * (C[q, k] + mk)
            out[a, b] = value + m[p] * (m[k] * C[q, o] + m[o] * C[q, k])
    return out
