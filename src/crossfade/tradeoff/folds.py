"""Rows dealt over folds, by nothing that another layout of the same table alters.

Each class is cut into one run of rows a fold, in the order of a hash of their contents. The hash
does not change with the order or the sign of columns, their units, the names and order of labels,
or the order of rows. It is a row's own: of rows that change, come or go, or of rounding, a few
others change their fold. Rows that it does not tell apart are ordered by one that tells more. A
cell counts by its distance from the middle of its column's range, in units of that
range; rows and columns then tell each other apart in turns, as colours do in Weisfeiler & Leman's
refinement (1968), so that neither needs a place in an order. Which side of the middle a cell is on
counts once the column's orientation has been found from the rows' own hashes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.optim.newton import sample_rows
from crossfade.table.contents import (
    STEPS,
    Hashes,
    distinct,
    hashed_rows,
    in_range,
    keys_of_rows,
    mixed,
    ranges,
    steps,
)
from crossfade.tradeoff.labelled_rows import LabelledRows

_BELOW = np.uint64(1 << 61)

#: Sorts of rows at most, and rows of each on average, that are draws whatever their classes are.
_FEW_SORTS, _OFTEN = 20, 20

#: Even parts of a weight above it (a multiple of usual numbers of folds), and parts of all rows.
_PIECES, _MOST_PIECES = 10, 50_000


def folds(rows: LabelledRows, n_folds: int, groups: Integers | None = None) -> Integers:
    """Return each row's fold, -1 for rows that are never held out.

    Equal rows of a class share a fold, so that no row is predicted by its own copy, unless they are
    draws of few values (see :func:`are_draws`), which are dealt one by one. A class with one such
    row (or in one group) always stays in the training part.

    Shapes: groups (n_samples,); → (n_samples,).
    """
    cells = _own_cells(rows)
    first, which = distinct(cells, rows.codes)
    codes = rows.codes[first]
    keys = _row_keys(cells[first])
    if np.unique(keys ^ mixed(codes)).size < keys.size:
        keys = _row_keys(cells[first], np.bincount(which, rows.often).astype(np.float64))
    if groups is not None:
        return _group_folds(rows, n_folds, groups, keys, which)
    coarse = keys_of_rows(cells[first], _steps_for(first.size))
    draws = are_draws(rows, cells)
    copies, place = np.ones(codes.size, np.int64), np.zeros(which.size, np.int64)
    if draws:
        copies = np.bincount(which)
        order = np.lexsort((-rows.often, which))
        place[order] = np.arange(which.size) - np.repeat(np.cumsum(copies) - copies, copies)
    sizes = np.bincount(codes, copies, minlength=rows.n_classes)
    contents = np.zeros(rows.n_classes, dtype=np.uint64)
    np.add.at(contents, codes, keys)
    begin = np.empty(codes.size, dtype=np.int64)
    start = 0
    for c in np.lexsort((contents, sizes)):
        own = np.flatnonzero(codes == c)
        own = own[np.lexsort((keys[own], coarse[own]))]
        dealt = np.arange(start, start + int(sizes[c])) % n_folds
        # One run of rows a fold: a row that moves takes few others with it. Draws come in turn.
        begin[own] = np.cumsum(copies[own]) - copies[own] + start if draws else np.sort(dealt)
        start += int(sizes[c])
    fold = (begin[which] + place) % n_folds
    return np.where(sizes[rows.codes] > 1, fold, -1)


def _steps_for(n_rows: int) -> float:
    """Return steps of a column's range: as few as leave so many rows apart."""
    return float(min(STEPS, 2.0 ** (np.ceil(np.log2(n_rows)) + 3.0)))


def _own_cells(rows: LabelledRows) -> Floats:
    """Return the cells that tell rows apart."""
    # Derived columns say no more of a row, but would by the order of the columns they come from.
    cells = np.asarray(rows.X, dtype=np.float64)[:, : rows.n_own]
    # A column that is the same in all rows, or has no cell, tells none of them apart.
    varies = (cells != cells[:1]) & ~(np.isnan(cells) & np.isnan(cells[:1]))
    return cells[:, varies.any(axis=0)]


def are_draws(rows: LabelledRows, cells: Floats | None = None) -> bool:
    """Return whether equal rows are draws of few values: rows with the same cells differ in class.

    A tenth of the rows that have an equal lie where that is so. Copies of one row, as of a table
    that was joined or drawn from with replacement, have its class. Draws, too, are rows of a few
    sorts that come again and again, where their cells may tell the class.
    """
    cells = _own_cells(rows) if cells is None else cells
    first, which = distinct(cells, np.zeros_like(rows.codes))
    often = np.bincount(which, rows.often)
    differ = np.zeros(first.size, dtype=bool)
    differ[which[rows.codes != rows.codes[first][which]]] = True
    if first.size <= _FEW_SORTS and often.sum() >= _OFTEN * first.size:
        return True
    return bool(differ.any() and 10.0 * often[differ].sum() >= often[often >= 2.0].sum())


def drawn_one_by_one(rows: LabelledRows) -> tuple[Integers, Floats] | None:
    """Return places of rows, and shares of their weights, so that draws lie in folds one by one.

    A weight of seven then is dealt as seven equal rows are. None where rows can stay as they are.
    """
    units = np.maximum(np.floor(rows.often + 1e-9), 1.0)
    each, rest = np.divmod(units, _PIECES)
    pieces = (np.where(each > 0.0, _PIECES, 0) + rest).astype(np.int64)
    if not pieces.size < pieces.sum() <= _MOST_PIECES or not are_draws(rows):
        return None
    index = np.repeat(np.arange(pieces.size), pieces)
    number = np.arange(index.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    held = np.where((number < _PIECES) & (each[index] > 0.0), each[index], 1.0)
    return index, held / units[index]


def one_by_one(rows: LabelledRows) -> LabelledRows:
    """Return rows whose draws lie in folds one by one."""
    drawn = drawn_one_by_one(rows)
    if drawn is None or rows.weights is None:
        return rows
    index, share = drawn
    return replace(rows.take(index), weights=rows.weights[index] * share)


def drawn_evenly(rows: LabelledRows, most: int) -> Integers:
    """Return places of at most so many rows, rising: every so many-th in the order of contents."""
    if rows.n_samples <= most:
        return np.arange(rows.n_samples)
    cells = np.asarray(rows.X, dtype=np.float64)[:, : rows.n_own]
    sizes = np.argsort(np.argsort(rows.class_weights, kind="stable"))
    order = np.lexsort((sizes[rows.codes], keys_of_rows(cells)))
    return np.sort(order[sample_rows(rows.n_samples, most / rows.n_samples)])


def order_by_contents(rows: LabelledRows) -> Integers:
    """Return places of rows in an order of their contents and classes, however they lie."""
    cells = _own_cells(rows)
    keys = _row_keys(cells)
    _, exact = distinct(cells, np.zeros_like(rows.codes))
    contents = np.zeros(rows.n_classes, dtype=np.uint64)
    np.add.at(contents, rows.codes, keys)
    ranks = np.argsort(np.lexsort((contents, rows.class_weights)))  # whatever classes are called
    return np.lexsort((rows.often, ranks[rows.codes], exact, keys))


def _row_keys(X: Floats, often: Floats | None = None) -> Hashes:
    """Return a hash of each row's contents that no change of layout alters, shape (n_rows,).

    `often` tells rows and columns apart that are alike but for how often they occur.
    """
    z = in_range(X, *ranges(X))
    cells = steps(X, z)
    told = np.empty((len(X), 0 if often is None else 1), dtype=np.uint64)
    told[:] = 0.0 if often is None else np.round(1024.0 * often)[:, None]
    keys = hashed_rows(np.hstack([cells, told]))
    # A column's orientation: the side on which rows of large hashes lie. None if it has no side.
    height = keys / 2.0**63 - 1.0
    lean, size = height @ z, np.abs(height) @ np.abs(z)
    side = np.where(np.abs(lean) > 1e-9 * size, np.sign(lean), 0.0)
    cells = np.where(z * side < -0.5 / STEPS, cells | _BELOW, cells)
    return hashed_rows(np.hstack([cells, told]))


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
