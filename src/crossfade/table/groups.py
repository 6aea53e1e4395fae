"""Rows that belong together: which group each is in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import is_missing, show
from crossfade.errors import DataError


def encode_groups(groups: Any, n_samples: int) -> NDArray[np.int64]:
    """Return the number of each row's group, in the order in which groups come.

    Shapes: groups (n_samples,), of any values that can be told apart; → (n_samples,).
    """
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise DataError(
            f"groups: expected shape ({n_samples},), got {labels.shape}; give one label per row"
        )
    if labels.dtype.kind in "mM":
        absent = np.isnat(labels)
        labels = labels.astype(object)
        labels[absent] = None
    items = labels.tolist()
    n_absent = sum(map(is_missing, items))
    if n_absent:
        raise DataError(
            f"groups: expected a group for every row, got {n_absent} missing ones in {n_samples} "
            "rows; give each of these rows its own group, or leave the rows out"
        )
    numbers: dict[Any, int] = {}
    try:
        codes = [numbers.setdefault(item, len(numbers)) for item in items]
    except TypeError:
        raise DataError(
            f"groups: expected text, numbers or dates, got {show(items[0])}; name each group"
        ) from None
    if len(numbers) < 2:
        raise DataError(
            "groups: expected at least two groups, got one; leave groups out if rows are "
            "independent of each other"
        )
    return np.asarray(codes, dtype=np.int64)


def numbered_first(
    numbers: NDArray[np.int64], n_first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the groups of the first rows numbered without gaps, and those of the rest with them.

    Shapes: numbers (n_rows,); → (n_first,), (n_rows - n_first,).
    """
    known, first = np.unique(numbers[:n_first], return_inverse=True)
    unseen = np.setdiff1d(numbers[n_first:], known)
    place = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    place[np.concatenate([known, unseen])] = np.arange(known.size + unseen.size)
    return first.astype(np.int64), place[numbers[n_first:]]
