"""Hashes of rows by what is in them, which neither units nor the order of rows or columns change.

A cell counts by its distance from the middle of its column's range, in units of that range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import BLOCK_ROWS, for_each_block

Hashes = NDArray[np.uint64]

#: Steps of a column's range that are told apart, so coarse that rounding does not move a cell.
STEPS = 2.0**20

#: Where steps begin: round numbers, of which tables are full, do not lie on their edges.
_EDGE = 0.3779

_MISSING = np.uint64(1 << 62)

#: Times that rows and columns tell each other apart.
_ROUNDS = 2


#: SplitMix64's step from one state to the next.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: Any) -> Hashes:
    """Return SplitMix64 (Steele, Lea & Flood 2014) of 64-bit states: the number that comes next."""
    x = np.asarray(values, dtype=np.uint64) + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def ranges(X: Floats) -> tuple[Floats, Floats]:
    """Return half of each column's least and of its largest cell: the whole range may be infinite.

    Shapes: X (n_rows, d); → (d,), (d,).
    """
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for first in range(0, X.shape[0], BLOCK_ROWS):
        block = X[first : first + BLOCK_ROWS]
        present = np.isfinite(block)
        low = np.minimum(low, np.where(present, block, np.inf).min(axis=0))
        high = np.maximum(high, np.where(present, block, -np.inf).max(axis=0))
    return 0.5 * low, 0.5 * high


def in_range(X: Floats, low: Floats, high: Floats) -> Floats:
    """Return cells from -1 to 1 by their place in the range, 0 where missing, (n_rows, d)."""
    with np.errstate(invalid="ignore", over="ignore"):
        z = (0.5 * X - 0.5 * (low + high)) / np.where(high > low, 0.5 * (high - low), 1.0)
    return np.where(np.isfinite(X), z, 0.0)


def steps(X: Floats, z: Floats, of_range: float = STEPS) -> Hashes:
    """Return how many steps cells lie from the middle of the range, (n_rows, d)."""
    found = np.floor(np.abs(z) * of_range + _EDGE).astype(np.uint64)
    return np.where(np.isfinite(X), found, _MISSING)


def _hashed_columns(cells: Hashes) -> Hashes:
    """Return a hash of each column, whatever the order of rows and columns (sums wrap around)."""
    columns = np.zeros(cells.shape[1], dtype=np.uint64)
    for _ in range(_ROUNDS):
        rows = mixed(cells ^ columns).sum(axis=1, dtype=np.uint64)
        columns = mixed(cells ^ rows[:, None]).sum(axis=0, dtype=np.uint64)
    return columns


def hashed_rows(cells: Hashes) -> Hashes:
    """Return a hash of each row, whatever the order of rows and columns."""
    return mixed(cells ^ _hashed_columns(cells)).sum(axis=1, dtype=np.uint64)


def order_of_columns(X: Floats) -> Integers:
    """Return positions of columns in an order that is the same however they, or rows, lie."""
    # Counted from the lower end: a category's column is not that of all other categories.
    cells = steps(X, in_range(X, *ranges(X)) + 1.0)
    return np.argsort(_hashed_columns(cells), kind="stable")


def distinct(X: Floats, codes: Integers) -> tuple[Integers, Integers]:
    """Return the position of one of each set of equal rows with equal codes, and each row's set."""
    cells = X + 0.0  # no -0.0
    cells[np.isnan(cells)] = np.nan  # of one bit pattern
    place = mixed(np.arange(cells.shape[1]))
    contents = mixed(cells.view(np.uint64) ^ place).sum(axis=1, dtype=np.uint64)
    contents ^= mixed(codes)
    _, first, which = np.unique(contents, return_index=True, return_inverse=True)
    return first, which.ravel()


def keys_of_rows(X: Floats, of_range: float = STEPS) -> Hashes:
    """Return a hash of each row's cells, whichever columns they are in, shape (n_rows,).

    `of_range`: Steps of half a column's range that are told apart.
    """
    low, high = ranges(X)
    keys = np.empty(X.shape[0], dtype=np.uint64)

    def block(rows: slice) -> None:
        cells = steps(X[rows], in_range(X[rows], low, high), of_range)
        keys[rows] = mixed(mixed(cells).sum(axis=1, dtype=np.uint64))

    for_each_block(block, X.shape[0])
    return keys


def drawn_by_contents(X: Floats, most: int) -> Integers:
    """Return the rows with the smallest hashes: about `most` different ones, and all their equals.

    Shapes: X (n_rows, d); → (n_drawn,).
    """
    keys = keys_of_rows(X)
    apart = np.unique(keys)
    if len(apart) <= most:
        return np.arange(X.shape[0])
    return np.flatnonzero(keys < apart[most])
