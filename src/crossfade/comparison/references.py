"""The models that people would otherwise pick: scikit-learn's, on the input that suits each."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats
from crossfade.table.preparation import Preparation
from crossfade.table.schema import Schema

__all__ = ["REFERENCES", "Boosting", "Indicators", "mean_log_probability", "references"]

#: Levels of a categorical column that histogram gradient boosting has bins for; one bin is for
#: missing cells.
_MOST_LEVELS: Final = 254


class Indicators(Preparation):
    """Turn any table into numbers for trees: one 0/1 column per category, missing numbers as NaN.

    Like :class:`~crossfade.table.preparation.Preparation`, but nothing is filled in or scaled.
    """

    def _standardised(self, expanded: Floats) -> Floats:
        return expanded


class Boosting(ClassifierMixin, BaseEstimator):
    """Histogram gradient boosting that takes any table; categories and missing cells natively.

    Categories become the boosting's own categorical features, the most frequent 254 of each
    column; rarer ones count as missing.

    `random_state`: Of the validation rows that large tables are stopped by.
    """

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the columns and boost.

        Shapes: X (n_rows, n_columns); y (n_rows,).
        """
        self.schema_ = Schema.learn(X)
        matrix = self.schema_.encode(X)
        categorical = np.array([kind == "categorical" for kind in self.schema_.kinds])
        self.levels_ = [
            _frequent(column) if named else None
            for column, named in zip(matrix.T, categorical, strict=True)
        ]
        model = HistGradientBoostingClassifier(
            categorical_features=categorical, random_state=self.random_state
        )
        self.model_ = model.fit(self._coded(matrix), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        check_is_fitted(self)
        found: NDArray[Any] = self.model_.predict(self._coded(self.schema_.encode(X)))
        return found

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities, shape (n_rows, n_classes)."""
        check_is_fitted(self)
        found: Floats = self.model_.predict_proba(self._coded(self.schema_.encode(X)))
        return found

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


def mean_log_probability(model: Any, X: Any, y: Any) -> float:
    """Score a classifier by its log-loss, also where a fold lacks a class."""
    with np.errstate(divide="ignore"):
        found = np.asarray(model.predict_log_proba(X))
    truth = np.searchsorted(model.classes_, y)
    return float(np.mean(np.maximum(found[np.arange(len(truth)), truth], -700.0)))


def _logistic() -> Any:
    settings = {"Cs": 10, "cv": 5, "scoring": mean_log_probability, "max_iter": 1000}
    # What the versions of scikit-learn that know these would otherwise warn of.
    newer = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    known = signature(LogisticRegressionCV).parameters
    if "use_legacy_attributes" in known:
        settings |= newer
    return make_pipeline(Preparation(drop_first=True), LogisticRegressionCV(**settings))


def _support_vectors() -> Any:
    # One SVM on all training rows; only its sigmoid comes from the folds.
    return CalibratedClassifierCV(LinearSVC(random_state=0), cv=3, ensemble=False)


class Reference(NamedTuple):
    """A short name, what makes the model, and whether it is compared unless asked for."""

    short: str
    make: Callable[[], Any]
    by_default: bool = True


#: The models from scikit-learn that ours are compared with, in the order of the tables.
REFERENCES: Final = {
    "logistic regression": Reference("logistic", _logistic),
    "random forest": Reference(
        "forest", lambda: make_pipeline(Indicators(), RandomForestClassifier(random_state=0))
    ),
    "gradient boosting": Reference("boosting", Boosting),
    "k-nearest neighbours": Reference(
        "knn", lambda: make_pipeline(Preparation(), KNeighborsClassifier()), by_default=False
    ),
    "linear SVM": Reference(
        "svm", lambda: make_pipeline(Preparation(), _support_vectors()), by_default=False
    ),
    "majority class": Reference("majority", lambda: DummyClassifier(strategy="prior")),
}


def references(*, everything: bool = False) -> dict[str, Any]:
    """Return the models of :data:`REFERENCES`, unfitted, by name."""
    return {name: one.make() for name, one in REFERENCES.items() if everything or one.by_default}
