"""Some rows of what users give: by place, and those that have a weight."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from crossfade._typing import Floats, Integers
from crossfade.table.columns import count_rows
from crossfade.table.documents import indexable
from crossfade.table.groups import encode_groups
from crossfade.table.weights import check_weights


def rows_at(X: Any, places: Integers) -> Any:
    """Return the rows of a table in these places."""
    return _safe_indexing(indexable(X), places)


class Present(NamedTuple):
    """Rows with weight: their places, what is in them, and the numbers of their groups.

    `weights` (n_rows,): None where all are one.
    """

    X: Any
    y: Any
    weights: Floats | None
    groups: Integers | None
    places: Integers


def present_rows(X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Present:
    """Return the rows with weight: zero means absent, also for kinds and categories."""
    n = count_rows(X)
    weights = None if sample_weight is None else check_weights(sample_weight, n)
    numbers = None if groups is None else encode_groups(groups, n)
    places = np.arange(n)
    if weights is not None and not weights.all():
        places = np.flatnonzero(weights)
        X, y = rows_at(X, places), _safe_indexing(y, places)
        weights = check_weights(weights[places], places.size)
        if numbers is not None:
            numbers = np.unique(numbers[places], return_inverse=True)[1]
    return Present(X, y, weights, numbers, places)
