"""The models that people would otherwise pick: scikit-learn's, on the input that suits each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, Final, NamedTuple, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from crossfade.pools.members import boosting, random_forest
from crossfade.table.preparation import WithWords

#: Rows of a fit from which they are not rotated.
_MOST_ROTATED: Final = 1_000


def mean_log_probability(model: Any, X: Any, y: Any) -> float:
    """Score a classifier by its log-loss, also where a fold lacks a class."""
    with np.errstate(divide="ignore"):
        found = np.asarray(model.predict_log_proba(X))
    truth = np.searchsorted(model.classes_, y)
    return float(np.mean(np.maximum(found[np.arange(len(truth)), truth], -700.0)))


class _Folds(StratifiedKFold):
    """Folds of which some lack a class that has fewer rows than there are folds, unremarked.

    The score of a fold knows what to do with it.
    """

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[Any]:
        """Return the rows of each fold's two parts."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class")
            return iter(list(super().split(X, y, groups)))


class _Rotated(TransformerMixin, BaseEstimator):
    """Rows along their own directions, where these are fewer than their columns.

    A logistic regression with a penalty on the sum of squares is the same there (Hastie and
    Tibshirani 2004, Biostatistics 5), and its solver has numbers of rows, not of words, to move.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the directions, of few rows; shapes: X (n_rows, n_columns)."""
        self.rows_ = None
        if X.shape[0] < min(X.shape[1], _MOST_ROTATED):
            products = X @ X.T
            products = products.toarray() if scipy.sparse.issparse(products) else products
            squares, directions = np.linalg.eigh(products)
            kept = squares > 1e-12 * squares[-1]
            self.rows_, self.map_ = X, directions[:, kept] / np.sqrt(squares[kept])
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows' coordinates, or the rows as they are."""
        return X if self.rows_ is None else (X @ self.rows_.T) @ self.map_


def _logistic() -> Any:
    settings = {"Cs": 10, "cv": _Folds(5), "scoring": mean_log_probability, "max_iter": 1000}
    # What the versions of scikit-learn that know these would otherwise warn of.
    newer = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    known = signature(LogisticRegressionCV).parameters
    if "use_legacy_attributes" in known:
        settings |= newer
    return make_pipeline(WithWords(drop_first=True), _Rotated(), LogisticRegressionCV(**settings))


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
    "random forest": Reference("forest", random_forest),
    "gradient boosting": Reference("boosting", boosting),
    "k-nearest neighbours": Reference(
        "knn", lambda: make_pipeline(WithWords(), KNeighborsClassifier()), by_default=False
    ),
    "linear SVM": Reference(
        "svm", lambda: make_pipeline(WithWords(), _support_vectors()), by_default=False
    ),
    "majority class": Reference("majority", lambda: DummyClassifier(strategy="prior")),
}


def references(*, everything: bool = False) -> dict[str, Any]:
    """Return the models of :data:`REFERENCES`, unfitted, by name."""
    return {name: one.make() for name, one in REFERENCES.items() if everything or one.by_default}
