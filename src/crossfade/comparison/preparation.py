"""Tables for models that need plain numbers: one-hot, median for missing cells, unit scale."""

from __future__ import annotations

from collections import Counter
from numbers import Number
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from crossfade.densities.base import Floats
from crossfade.errors import DataError

__all__ = ["Preparation"]

Column = nw.Series[Any] | NDArray[Any]


class Preparation(TransformerMixin, BaseEstimator):
    """Turn any table into standardised numbers without missing cells.

    Numeric and boolean columns keep one column: missing cells get the median of the training
    rows, then the column is centred and divided by its standard deviation. Text and categorical
    columns become one 0/1 column a level seen in the training rows (the most frequent
    `max_levels` of them), standardised likewise; other levels and missing cells are zero in all.
    Constant columns become zero.

    It takes frames (pandas, polars, pyarrow) as they are, which a pipeline of scikit-learn's own
    transformers does not.

    Parameters
    ----------
    max_levels : int, default=50
        Most levels of one column that get a column of their own.
    drop_first : bool, default=False
        Leave out each text column's most frequent level, whose column is otherwise one minus the
        sum of the others: wanted by models that invert a covariance.

    Examples
    --------
    >>> import polars as pl
    >>> from crossfade.comparison.preparation import Preparation
    >>> frame = pl.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> Preparation().fit_transform(frame).round(2)
    array([[-1.22,  0.71, -0.71],
           [ 0.  , -1.41,  1.41],
           [ 1.22,  0.71, -0.71]])
    """

    def __init__(self, *, max_levels: int = 50, drop_first: bool = False) -> None:
        self.max_levels = max_levels
        self.drop_first = drop_first

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn levels, medians, centres and scales from training rows.

        Parameters
        ----------
        X : frame or array-like of shape (n_samples, n_features)
            Training rows.
        y : ignored
            For scikit-learn's sake.
        """
        columns = _columns(X)
        self.n_features_in_ = len(columns)
        self.levels_ = [None if _is_numeric(c) else self._levels(c) for c in columns]
        expanded = self._expand(columns)
        self.medians_ = np.array([_median(column) for column in expanded.T])
        filled = np.where(np.isnan(expanded), self.medians_, expanded)
        self.means_ = filled.mean(axis=0)
        scales = filled.std(axis=0)
        # Rounding makes the deviation of a constant column a tiny number rather than zero.
        self.scales_ = np.where(scales <= 1e-12 * np.abs(self.means_), np.inf, scales)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the prepared rows, shape (n_samples, n_prepared_columns)."""
        check_is_fitted(self)
        columns = _columns(X)
        if len(columns) != self.n_features_in_:
            raise DataError(
                f"X: expected {self.n_features_in_} columns as in fit, got {len(columns)}; "
                "give the same columns"
            )
        expanded = self._expand(columns)
        np.copyto(expanded, self.medians_, where=np.isnan(expanded))
        expanded -= self.means_
        expanded /= self.scales_
        return expanded

    def _levels(self, column: Column) -> list[Any]:
        # Ties broken by the level itself, so that row order does not matter.
        ordered = sorted(_counts(column), key=lambda pair: (-pair[1], str(pair[0])))
        return [level for level, _ in ordered[int(self.drop_first) : self.max_levels]]

    def _expand(self, columns: list[Column]) -> Floats:
        parts: list[NDArray[Any]] = []
        for column, levels in zip(columns, self.levels_, strict=True):
            if levels is None:
                parts.append(_numbers(column))
            else:
                parts.extend(_indicator(column, level) for level in levels)
        n_rows = len(columns[0]) if columns else 0
        expanded = np.empty((n_rows, len(parts)), order="F")
        for j, part in enumerate(parts):
            expanded[:, j] = part
        return np.ascontiguousarray(expanded)


def _columns(X: Any) -> list[Column]:
    """Return a frame's columns as narwhals series, an array's as arrays."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [frame[name] for name in frame.columns]
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(
            f"X: expected a table of shape (n_samples, n_features), got shape {array.shape}; "
            "give a frame or a two-dimensional array"
        )
    return list(array.T)


def _is_numeric(column: Column) -> bool:
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "biuf":
            return True
        if column.dtype.kind != "O":
            return False
        return all(isinstance(v, Number) for v in column if not _is_missing(v))
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def _is_missing(value: Any) -> bool:
    # NaN differs from itself; comparing pandas' NA gives NA, whose truth is an error.
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _numbers(column: Column) -> Floats:
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            return np.array([np.nan if _is_missing(v) else float(v) for v in column])
        return column.astype(np.float64)
    return column.cast(nw.Float64).to_numpy().astype(np.float64)


def _counts(column: Column) -> list[tuple[Any, int]]:
    if isinstance(column, np.ndarray):
        return list(Counter(v for v in column.tolist() if not _is_missing(v)).items())
    counts = column.drop_nulls().value_counts(sort=False)
    level, count = counts.columns
    return list(zip(counts[level].to_list(), counts[count].to_list(), strict=True))


def _indicator(column: Column, level: Any) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return np.array([v == level and not _is_missing(v) for v in column.tolist()], dtype=float)
    return (column == level).fill_null(False).to_numpy()


def _median(column: Floats) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else 0.0
