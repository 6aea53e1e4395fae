"""Rows whose columns lie apart, as files give them: for sums that need no matrix of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats


@dataclass(frozen=True)
class ColumnArrays:
    """A matrix of shape (n_rows, n_columns) of which each column is an array of doubles."""

    columns: tuple[Floats, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns[0].shape[0], len(self.columns)

    def __getitem__(self, rows: Any) -> Floats:
        """Return some rows as a matrix, by columns."""
        columns = [column[rows] for column in self.columns]
        return np.concatenate(columns).reshape(len(columns), -1).T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.stack(self.columns, axis=-1).astype(dtype or np.float64, copy=False)

    def at(self, places: NDArray[np.integer[Any]]) -> ColumnArrays:
        """Return some of the columns."""
        return ColumnArrays(tuple(self.columns[j] for j in places.tolist()))

    def block(self, rows: slice) -> ColumnArrays:
        """Return consecutive rows, uncopied."""
        return ColumnArrays(tuple(column[rows] for column in self.columns))
