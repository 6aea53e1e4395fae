"""From matrices back to tables of the kind that came in."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from crossfade.table.schema import Schema


def table_library(X: Any) -> str | None:
    """Return the name of the data-frame library that holds a table, None for arrays and lists."""
    if not nw.dependencies.is_into_dataframe(X):
        return None
    return nw.from_native(X, eager_only=True).implementation.value


def decoded_table(schema: Schema, matrix: NDArray[np.float64], library: str | None) -> Any:
    """Return a matrix as a table in its own values. Shapes: matrix (n_rows, n_features)."""
    coded = any(known is not None for known in schema.categories)
    if library is None and not coded:
        return matrix
    columns = schema.decode(matrix)
    if library is None:
        table = np.empty(matrix.shape, dtype=object)
        for j, column in enumerate(columns):
            table[:, j] = column
        return table
    backend: Any = library
    return nw.from_dict(dict(zip(schema.names, columns, strict=True)), backend=backend).to_native()
