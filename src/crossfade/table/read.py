"""What estimators call first: a table in, one matrix and its schema out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from crossfade._checks import show
from crossfade.blocks import BLOCK_ROWS
from crossfade.errors import DataError
from crossfade.table.columns import read_columns
from crossfade.table.schema import Schema

__all__ = ["check_finite", "read_features"]


def read_features(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    declared: Mapping[Any, str] | str | None = None,
    unknown: Literal["marginalise", "error"] = "marginalise",
    sample_weight: Any = None,
    extend: bool = False,
) -> tuple[NDArray[Any], Schema]:
    """Return a table as one matrix, with the schema that was learnt or is already known.

    Infinite values are not looked for: that would be one more pass over the data. Call
    :func:`check_finite` when sums over the matrix turn out not to be finite.

    Shapes: X (n_rows, n_features); sample_weight (n_rows,); matrix (n_rows, n_features).
    """
    columns = read_columns(X)
    if not reset:
        _check_same_columns(estimator, X)
        schema: Schema = estimator.schema_
        if extend:
            schema = schema.extended(columns)
        matrix = schema.encode(columns, unknown)
    else:
        schema = Schema.learn(columns, declared, sample_weight=sample_weight)
        # Categories of rows without weight are not in the schema, and must not be an error.
        matrix = schema.encode(columns)
        _check_same_columns(estimator, X, reset=True)
    if reset or extend:
        estimator.schema_ = schema
    return matrix, schema


def _check_same_columns(estimator: Any, X: Any, *, reset: bool = False) -> None:
    if not hasattr(X, "shape"):
        X = np.asarray(X, dtype=object)
    try:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise DataError(str(error)) from None


def check_finite(X: NDArray[Any], names: Sequence[str] | None = None) -> None:
    """Refuse infinite values, naming their columns; NaN (missing) is fine.

    Shapes: X (n_rows, n_features).
    """
    counts = np.zeros(X.shape[1], dtype=np.int64)
    for start in range(0, X.shape[0], BLOCK_ROWS):
        counts += np.isinf(X[start : start + BLOCK_ROWS]).sum(axis=0)
    bad = np.flatnonzero(counts)
    if not bad.size:
        return
    called = ", ".join(str(i) if names is None else show(names[i]) for i in bad[:5].tolist())
    raise DataError(
        f"X: expected finite numbers (NaN for missing cells), got infinity (inf) in "
        f"{int(counts.sum())} cells of column{'s' if bad.size > 1 else ''} {called}"
        f"{', …' if bad.size > 5 else ''}; replace them by numbers, or by NaN where unknown"
    )
