"""Tables for models that need plain numbers: one-hot, median for missing cells, unit scale."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.validation import check_is_fitted

from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.table.columns import read_columns
from crossfade.table.contents import order_of_columns
from crossfade.table.read import check_finite
from crossfade.table.schema import Schema


class Preparation(TransformerMixin, BaseEstimator):
    """Turn any table into standardised numbers without missing cells.

    Numeric and boolean columns keep one column: missing cells get the median of the training
    rows, then the column is centred and divided by its standard deviation. Text and categorical
    columns become one 0/1 column per category seen in the training rows (the most frequent
    `max_levels` of them), standardised likewise; other categories and missing cells are zero in
    all of these before they are centred. Constant columns become zero. Free text and identifiers
    get no column.

    It takes the frames that the rest of Crossfade takes (pandas, polars, pyarrow) and reads them
    the same way, which a pipeline of scikit-learn's own transformers does not.

    `max_levels`: Most categories of one column that get a separate column.
    `drop_first`: Leave out each text column's most frequent category, whose column is otherwise one
        minus the sum of the others: wanted by models that invert a covariance.
    `schema`: What each column is, where it is known from more rows; None learns it.

    `schema_`: What each column of the training rows is.
    `levels_`: Codes of the categories that get a column, by column; None for columns of numbers.

    Examples
    --------
    >>> import polars as pl
    >>> from crossfade.table.preparation import Preparation
    >>> frame = pl.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> Preparation().fit_transform(frame).round(2)
    array([[-1.22,  0.71, -0.71],
           [ 0.  , -1.41,  1.41],
           [ 1.22,  0.71, -0.71]])
    """

    def __init__(
        self, *, max_levels: int = 50, drop_first: bool = False, schema: Schema | None = None
    ) -> None:
        self.max_levels = max_levels
        self.drop_first = drop_first
        self.schema = schema

    @property
    def source_columns_(self) -> NDArray[np.int64]:
        """Position of the column that each prepared column comes from."""
        widths = [1 if levels is None else len(levels) for levels in self.levels_]
        return np.repeat(np.arange(len(widths)), widths)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn categories, medians, centres and scales; X (n_samples, n_features)."""
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Learn from the rows and return them prepared (the table is read once)."""
        return self._standardised(self._fit(X))

    def transform(self, X: Any) -> Floats:
        """Return the prepared rows, shape (n_samples, n_prepared_columns)."""
        check_is_fitted(self)
        return self.prepared(self._encoded(X))

    def prepared(self, matrix: NDArray[Any]) -> Floats:
        """Return the prepared rows of a table that the schema has encoded."""
        return self._standardised(self._expand(matrix))

    @whole_or_not_at_all
    def _fit(self, X: Any) -> Floats:
        """Learn, and return the rows expanded but not yet filled and scaled."""
        self.schema_ = Schema.learn(X) if self.schema is None else self.schema
        self.n_features_in_ = self.schema_.n_features
        matrix = self._encoded(X)
        self.levels_ = [
            self._levels(column) if kind in ("categorical", "text", "identifier") else None
            for column, kind in zip(matrix.T, self.schema_.kinds, strict=True)
        ]
        expanded = self._expand(matrix)
        self.medians_ = np.array([_median(column) for column in expanded.T])
        filled = np.where(np.isnan(expanded), self.medians_, expanded)
        self.means_ = filled.mean(axis=0)
        scales = filled.std(axis=0)
        # Rounding makes the deviation of a constant column a tiny number rather than zero.
        self.scales_ = np.where(scales <= 1e-12 * np.abs(self.means_), np.inf, scales)
        return expanded

    def _encoded(self, X: Any) -> NDArray[Any]:
        matrix = self.schema_.encode(X)
        aside = [j for j, kind in enumerate(self.schema_.kinds) if kind in ("text", "identifier")]
        if aside:
            matrix = np.array(matrix)
            matrix[:, aside] = np.nan
        check_finite(matrix, self.schema_.names)
        return matrix

    def _levels(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of the categories that get a column, the most frequent first."""
        present, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
        # A stable sort breaks ties by the order of the categories, whatever that of the rows.
        order = np.argsort(-counts, kind="stable")
        return present[order][int(self.drop_first) : self.max_levels]

    def _expand(self, matrix: NDArray[Any]) -> Floats:
        parts = []
        for column, levels in zip(matrix.T, self.levels_, strict=True):
            parts.append(column[:, None] if levels is None else column[:, None] == levels)
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def _standardised(self, expanded: Floats) -> Floats:
        np.copyto(expanded, self.medians_, where=np.isnan(expanded))
        expanded -= self.means_
        expanded /= self.scales_
        return expanded


class WithWords(Preparation):
    """A Preparation with tf-idf of words for free text and for sparse tables.

    The rows that it returns are then sparse.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn columns and words."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Learn columns and words from the rows and return these."""
        self.weights_: list[Any] = []
        X = read_columns(X, sparse=True)  # cut into words once
        if X.words is not None:
            self.schema_ = Schema.learn(X)
            self.weights_ = [TfidfTransformer().fit(one) for one in self._words(X)]
            return self.transform(X)
        prepared = super().fit_transform(X)
        if not self.schema_.texts:
            return prepared
        self.weights_ = [TfidfTransformer().fit(one) for one in self._words(X)]
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Return the rows, sparse where there are words."""
        X = read_columns(X, sparse=True)
        if self.schema_.sparse:
            return self.weights_[0].transform(self._words(X)[0])
        prepared = super().transform(X)
        if not self.weights_:
            return prepared
        prepared = np.where(np.isnan(prepared), self.medians_, prepared)
        words = [one.transform(own) for one, own in zip(self.weights_, self._words(X), strict=True)]
        return scipy.sparse.hstack([*words, prepared]).tocsr()

    def _words(self, X: Any) -> list[Any]:
        return list(self.schema_.encode(X).words.values())


class Indicators(WithWords):
    """Turn any table into numbers for trees: one 0/1 column per category, missing numbers as NaN.

    Like :class:`Preparation`, but nothing is filled in or scaled, and columns are in an order of
    their contents: trees that draw columns by chance draw the same wherever these lie.
    """

    @property
    def source_columns_(self) -> NDArray[np.int64]:
        """Position of the column that each prepared column comes from."""
        return super().source_columns_[self.order_]

    def _fit(self, X: Any) -> Floats:
        expanded = super()._fit(X)
        self.order_ = order_of_columns(expanded)
        self.medians_ = self.medians_[self.order_]
        return expanded

    def _standardised(self, expanded: Floats) -> Floats:
        return expanded[:, self.order_]


def _median(column: Floats) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else 0.0
