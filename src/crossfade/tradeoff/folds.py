"""Rows dealt over folds, by nothing that another layout of the same table alters.

Each class is dealt over the folds in the order of a hash of its rows' contents. The hash does not
change with the order or the sign of columns, their units, the names and order of labels, or the
order of rows. A cell counts by its distance from the middle of its column's range, in units of that
range; rows and columns then tell each other apart in turns, as colours do in Weisfeiler & Leman's
refinement (1968), so that neither needs a place in an order. Which side of the middle a cell is on
counts once the column's orientation has been found from the rows' own hashes.
"""

from __future__ import annotations

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.table.contents import (
    STEPS,
    Hashes,
    distinct,
    hashed_rows,
    in_range,
    mixed,
    ranges,
    steps,
)
from crossfade.tradeoff.labelled_rows import LabelledRows

_BELOW = np.uint64(1 << 61)


def folds(rows: LabelledRows, n_folds: int, groups: Integers | None = None) -> Integers:
    """Return each row's fold, -1 for rows that are never held out.

    Equal rows share a fold, so that a weight of three and three equal rows are the same thing and
    no row is predicted by its own copy. A class with one distinct row (or in one group) always
    stays in the training part.

    Shapes: groups (n_samples,); → (n_samples,).
    """
    # Derived columns say no more of a row, but would by the order of the columns they come from.
    cells = np.asarray(rows.X, dtype=np.float64)[:, : rows.n_own]
    # A column that is the same in all rows, or has no cell, tells none of them apart.
    varies = (cells != cells[:1]) & ~(np.isnan(cells) & np.isnan(cells[:1]))
    cells = cells[:, varies.any(axis=0)]
    first, which = distinct(cells, rows.codes)
    codes = rows.codes[first]
    keys = _row_keys(cells[first])
    if groups is not None:
        return _group_folds(rows, n_folds, groups, keys, which)
    sizes = np.bincount(codes, minlength=rows.n_classes)
    contents = np.zeros(rows.n_classes, dtype=np.uint64)
    np.add.at(contents, codes, keys)
    fold = np.empty(codes.size, dtype=np.int64)
    start = 0
    for c in np.lexsort((contents, sizes)):
        own = np.flatnonzero(codes == c)
        own = own[np.argsort(keys[own], kind="stable")]
        fold[own] = (np.arange(own.size) + start) % n_folds if own.size > 1 else -1
        start += own.size
    return fold[which]


def _row_keys(X: Floats) -> Hashes:
    """Return a hash of each row's contents that no change of layout alters, shape (n_rows,)."""
    z = in_range(X, *ranges(X))
    cells = steps(X, z)
    keys = hashed_rows(cells)
    # A column's orientation: the side on which rows of large hashes lie. None if it has no side.
    height = keys / 2.0**63 - 1.0
    lean, size = height @ z, np.abs(height) @ np.abs(z)
    side = np.where(np.abs(lean) > 1e-9 * size, np.sign(lean), 0.0)
    return hashed_rows(np.where(z * side < -0.5 / STEPS, cells | _BELOW, cells))


def _group_folds(
    rows: LabelledRows, n_folds: int, groups: Integers, keys: Hashes, which: Integers
) -> Integers:
    """Deal whole groups, the largest first, each to the fold that it fills up most evenly."""
    n_groups = int(groups.max()) + 1
    # Which of the distinct rows a group holds, each counted once.
    held_by, holds = np.divmod(np.unique(groups * keys.size + which), keys.size)
    contents = np.zeros(n_groups, dtype=np.uint64)
    np.add.at(contents, held_by, mixed(keys[holds]))
    weight = np.zeros((n_groups, rows.n_classes))
    np.add.at(weight, (groups, rows.codes), 1.0 if rows.weights is None else rows.weights)
    share = weight / np.maximum(rows.class_weights, 1e-300)
    held = np.zeros((n_folds, rows.n_classes))
    fold = np.empty(n_groups, dtype=np.int64)
    for group in np.lexsort((contents, -np.round(share.max(axis=1), 12))):
        filled = held + share[group]
        # Rounded, so that the order in which classes are summed does not decide between equals.
        added = np.round((filled**2).sum(axis=1) - (held**2).sum(axis=1), 12)
        fold[group] = int(np.argmin(added))
        held[fold[group]] += share[group]
    # Where a fold holds all rows of a class, nothing could be learnt about that class without it.
    emptied = (held >= 1.0 - 1e-12) & (rows.class_weights > 0)
    stays = (emptied[fold] & (share > 0)).any(axis=1)
    return np.where(stays, -1, fold)[groups]
