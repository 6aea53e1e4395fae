"""From what users have (frames, arrays, lists) to what estimators compute on.

One matrix of floats with NaN for missing cells and categories as integer codes, one vector of
class codes, one vector of weights, and a frozen :class:`~crossfade.table.schema.Schema` that
remembers what each column is.
"""

from __future__ import annotations

from crossfade.table.kinds import Kind
from crossfade.table.labels import encode_labels, labelled_first
from crossfade.table.read import check_cells, check_finite, read_features
from crossfade.table.schema import Schema
from crossfade.table.weights import check_weights

__all__ = [
    "Kind",
    "Schema",
    "check_cells",
    "check_finite",
    "check_weights",
    "encode_labels",
    "labelled_first",
    "read_features",
]
