"""Rows as numbers, with those that have a label apart from those that have none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from crossfade._typing import Floats, Integers
from crossfade.table import check_weights, encode_labels, labelled_first
from crossfade.table.groups import numbered_first
from crossfade.table.read import without_cells
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows


class Labelled(NamedTuple):
    """Rows with their classes, and the numbers of the groups of those with a label.

    `order` (n_rows,): Places of the rows that say anything, labelled ones first; None for all.
    """

    rows: LabelledRows
    classes: NDArray[Any]
    groups: Integers | None
    order: Integers | None


def labelled_rows(
    matrix: Any,
    y: Any,
    given: Floats | None,
    groups: Integers | None,
    *,
    unlabelled: Any,
    class_weight: Any,
    classes: NDArray[Any] | None = None,
) -> Labelled:
    """Return rows of a fit; `given` are their own weights, `classes` those of an earlier fit."""
    order, n = labelled_first(y, unlabelled, matrix.shape[0])
    others = None
    if order is not None:
        kept, rest = order[:n], order[n:]
        # A row without a cell says nothing, whatever would be filled in.
        order = np.concatenate([kept, rest[~without_cells(matrix[rest])]])
        y, matrix, together = _safe_indexing(y, kept), matrix[order], None
        if groups is not None:
            groups, together = numbered_first(groups[order], n)
        given = None if given is None else given[order]
        if order.size > n:
            others = OtherRows(matrix[n:], None if given is None else given[n:], together)
        given = None if given is None else given[:n]
    classes, codes = encode_labels(y, classes, minimum=2 if classes is None else 1, n_samples=n)
    weights = check_weights(given, n, class_weight, codes, classes)
    rows = LabelledRows(
        matrix[:n],
        codes,
        weights,
        classes.size,
        class_factors=_class_factors(class_weight, weights, given, codes),
        unlabelled=others,
    )
    return Labelled(rows, classes, groups, order)


def _class_factors(
    class_weight: Any, weights: Floats | None, given: Floats | None, codes: Integers
) -> Floats | None:
    """Return what each class's rows are weighed with besides their own weights, (n_classes,)."""
    if class_weight is None or weights is None:
        return None
    own = np.ones_like(weights) if given is None else given
    seen = np.flatnonzero(own > 0.0)
    first = seen[np.unique(codes[seen], return_index=True)[1]]
    factors = np.ones(int(codes.max()) + 1)
    factors[codes[first]] = weights[first] / own[first]
    return factors
