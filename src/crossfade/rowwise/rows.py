"""Blocks of rows weighted, standardised, sorted by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._compiled import REORDERED, kernel
from crossfade._typing import Floats, Integers
from crossfade.rowwise.posteriors import many_rows


def scale_rows_numpy(X: NDArray[Any], factors: NDArray[Any], out: NDArray[Any]) -> None:
    """Specification of :func:`scale_rows`."""
    np.multiply(X, factors[:, None], out=out[:, : X.shape[1]])
    out[:, X.shape[1] :] = factors[:, None]


@kernel("M V M!", "M4 V4 M4!", twin=scale_rows_numpy, when=many_rows)
def scale_rows(X: Floats, factors: Floats, out: Floats) -> None:
    """Write each row of X times its factor to `out`.

    Shapes: X (n_rows, n_columns); factors (n_rows,); out (n_rows, n_columns).
    """
    for i in range(X.shape[0]):
        factor = factors[i]
        for j in range(X.shape[1]):
            out[i, j] = X[i, j] * factor
        if out.shape[1] > X.shape[1]:
            out[i, X.shape[1]] = factor


def standardise_rows_numpy(
    X: Floats, origin: Floats, inverse: Floats, factors: Floats, out: NDArray[Any]
) -> None:
    """Specification of :func:`standardise_rows`."""
    p = X.shape[1]
    own = out[:, :p]
    np.subtract(X, origin, out=own, casting="same_kind")
    np.multiply(own, inverse, out=own, casting="same_kind")
    np.multiply(own, factors[:, None], out=own, casting="same_kind")
    out[:, p:] = factors[:, None]


@kernel("M V V V M!", "M V V V M4!", twin=standardise_rows_numpy, when=many_rows)
def standardise_rows(
    X: Floats, origin: Floats, inverse: Floats, factors: Floats, out: Floats
) -> None:
    """Write each row of (X - origin) / scale times its factor to `out`.

    Shapes: X (n_rows, n_columns); origin, inverse (n_columns,); factors (n_rows,); out (n_rows,
    n_columns).
    """
    for i in range(X.shape[0]):
        factor = factors[i]
        for j in range(X.shape[1]):
            out[i, j] = (X[i, j] - origin[j]) * inverse[j] * factor
        if out.shape[1] > X.shape[1]:
            out[i, X.shape[1]] = factor


def squared_images_numpy(X: Floats, directions: Floats, constants: Floats, out: Floats) -> None:
    """Specification of :func:`squared_images`."""
    out[:] = 0.0
    # One vector after the other: faster than a product with a narrow matrix.
    for direction, constant in zip(directions, constants, strict=True):
        out += np.square(X @ direction + constant)


@kernel("M M V V!", twin=squared_images_numpy, when=many_rows, fastmath=REORDERED)
def squared_images(X: Floats, directions: Floats, constants: Floats, out: Floats) -> None:
    """Write each row's sum of squared projections X d + c to `out`: one read of the rows for all.

    Shapes: X (n_rows, n_columns); directions (n_directions, n_columns); constants (n_directions,);
    out (n_rows,).
    """
    for i in range(X.shape[0]):
        total = 0.0
        for k in range(directions.shape[0]):
            image = 0.0
            for j in range(X.shape[1]):
                image += X[i, j] * directions[k, j]
            total += (image + constants[k]) ** 2
        out[i] = total


def group_rows_numpy(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, ends: Integers, out: Floats
) -> None:
    """Specification of :func:`group_rows`; no entry in `weights` stands for all one."""
    order = np.argsort(codes, kind="stable")
    np.cumsum(np.bincount(codes, minlength=ends.size), out=ends)
    out[:, :-1] = X[order] - shift
    out[:, -1] = weights[order] if weights.size else 1.0


@kernel("M I V V I! M!", twin=group_rows_numpy, when=many_rows)
def group_rows(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, ends: Integers, out: Floats
) -> None:
    """Write the rows of X, shifted, to `out`: one class after the other, in their order.

    Shapes: X (n_rows, n_columns); codes (n_rows,); weights (n_rows,); shift (n_columns,); ends
    (n_classes,); out (n_rows, n_columns + 1).
    """
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


def add_rows_numpy(codes: Integers, X: Floats, out: Floats) -> None:
    """Specification of :func:`add_rows`."""
    some = codes >= 0
    np.add.at(out, codes[some], X[some])


@kernel("I M M!", twin=add_rows_numpy, when=many_rows)
def add_rows(codes: Integers, X: Floats, out: Floats) -> None:
    """Add each row of X to the row of `out` that its code names; rows with code -1 to none.

    Shapes: codes (n_rows,); X (n_rows, n_columns); out (n_codes, n_columns).
    """
    for i in range(X.shape[0]):
        if codes[i] >= 0:
            for j in range(X.shape[1]):
                out[codes[i], j] += X[i, j]


def add_products_numpy(images: Floats, Z: Floats, out: Floats) -> None:
    """Specification of :func:`add_products`."""
    out += np.einsum("nkj,nj->nk", images.reshape(*out.shape, Z.shape[1]), Z)


@kernel("M M M!", twin=add_products_numpy, when=many_rows, fastmath=REORDERED)
def add_products(images: Floats, Z: Floats, out: Floats) -> None:
    """Add each row's inner products of several images with the row itself to `out`.

    Shapes: images (n_rows, n_images * n_columns); Z (n_rows, n_columns); out (n_rows,
    n_images).
    """
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
