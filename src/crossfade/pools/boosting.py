"""Gradient boosting that takes the tables that the rest of Crossfade takes."""

from __future__ import annotations

from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats
from crossfade.blocks import few_threads
from crossfade.table.columns import read_columns
from crossfade.table.contents import order_of_columns
from crossfade.table.schema import Schema

#: Levels of a categorical column that histogram gradient boosting has bins for; one bin is for
#: missing cells.
_MOST_LEVELS: Final = 254

#: Steps, each a tree for every class: scikit-learn's default.
_N_STEPS: Final = 100


class Boosting(ClassifierMixin, BaseEstimator):
    """Histogram gradient boosting of any table: 254 categories, missing cells, no free text."""

    def __init__(self, *, random_state: int = 0, schema: Schema | None = None) -> None:
        self.random_state = random_state
        self.schema = schema

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the columns and boost.

        Shapes: X (n_rows, n_columns); y, sample_weight (n_rows,).
        """
        X = read_columns(X)
        self.schema_ = Schema.learn(X) if self.schema is None else self.schema
        kinds = self.schema_.kinds
        encoded = np.asarray(self.schema_.encode(X))
        empty = np.isnan(encoded).all(axis=0)
        kept = np.flatnonzero([kind != "text" for kind in kinds] & ~empty)
        # Of equally good splits the same one wherever columns lie.
        self.columns_ = kept[order_of_columns(encoded[:, kept])]
        matrix = self._cells(X)
        categorical = np.array([kinds[j] == "categorical" for j in self.columns_])
        self.levels_ = [
            _frequent(column) if named else None
            for column, named in zip(matrix.T, categorical, strict=True)
        ]
        model = HistGradientBoostingClassifier(
            max_iter=_N_STEPS, categorical_features=categorical, random_state=self.random_state
        )
        with few_threads(matrix.size):
            self.model_ = model.fit(self._coded(matrix), y, sample_weight)
        # Predictions need none, and files are the safer without.
        vars(self.model_).pop("_feature_subsample_rng", None)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        check_is_fitted(self)
        matrix = self._coded(self._cells(X))
        with few_threads(matrix.size):
            found: NDArray[Any] = self.model_.predict(matrix)
        return found

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, shape (n_rows, n_classes)."""
        check_is_fitted(self)
        matrix = self._coded(self._cells(X))
        with few_threads(matrix.size):
            found: Floats = self.model_.predict_proba(matrix)
        return found

    def _cells(self, X: Any) -> NDArray[Any]:
        """Return the columns that are no free text, as the trees know them."""
        return np.asarray(self.schema_.encode(X))[:, self.columns_]

    def _coded(self, matrix: NDArray[Any]) -> Floats:
        coded = np.array(matrix, dtype=np.float64)
        for j, levels in enumerate(self.levels_):
            if levels is not None:
                place = np.searchsorted(levels, coded[:, j])
                known = np.append(levels, np.nan)[place] == coded[:, j]
                coded[:, j] = np.where(known, place, np.nan)
        return coded


def _frequent(codes: NDArray[Any]) -> NDArray[Any]:
    """Return the most frequent codes, ascending."""
    present, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
    return np.sort(present[np.argsort(-counts, kind="stable")][:_MOST_LEVELS])
