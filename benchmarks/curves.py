"""Learning curves of naive Bayes and logistic regression: 20 sizes on 200 splits of one table.

Both contenders trace the same splits, the same nested training sets and equal penalties. The
table is the Pima Indians' (folder ng_jordan of the data sets); made-up rows of its size stand in
where it is not at hand. Accuracy is the largest difference of two mean errors, over sizes, to
scikit-learn's: for naive Bayes it must be 0 to 1e-12, for logistic regression below 1e-3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import learning_curve as scikit_learn_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.harness import Case
from crossfade import NaiveBayes, learning_curve
from crossfade.evaluation.splits import repeated_splits


class SharedVarianceNB(ClassifierMixin, BaseEstimator):
    """Gaussian naive Bayes with one variance per column for all classes, as an estimator."""

    def fit(self, X: Any, y: Any) -> SharedVarianceNB:
        self.classes_, codes = np.unique(y, return_inverse=True)
        counts = np.bincount(codes)
        self.means_ = np.array([X[codes == k].mean(axis=0) for k in range(counts.size)])
        self.variance_ = ((X - self.means_[codes]) ** 2).mean(axis=0) + 1e-9 * X.var(axis=0)
        self.log_prior_ = np.log(counts / counts.sum())
        return self

    def predict(self, X: Any) -> Any:
        squares = (X[:, None, :] - self.means_) ** 2 / self.variance_
        return self.classes_[(self.log_prior_ - 0.5 * squares.sum(axis=2)).argmax(axis=1)]


@dataclass(frozen=True)
class Data:
    """A table, splits and sizes."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    n_splits: int
    sizes: NDArray[np.int64]


def _pima(scale: float) -> Data:
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROSSFADE_DATA", beside))
    path = folder / "ng_jordan" / "pima.csv"
    if path.exists():
        table = pl.read_csv(path)
        y = table["target"].to_numpy().astype(np.int64)
        X = table.drop("target").to_numpy().astype(np.float64)
    else:
        rng = np.random.default_rng(0)
        y = (rng.random(768) < 0.35).astype(np.int64)
        X = rng.normal(size=(768, 8)) + 0.5 * y[:, None]
    sizes = np.unique(np.rint(np.geomspace(10, 614, 20)).astype(np.int64))
    return Data(X, y, max(2, round(200 * scale)), sizes)


def _ours(**options: Any) -> Callable[[Data], Callable[[], Any]]:
    def prepare(data: Data) -> Callable[[], Any]:
        model = NaiveBayes("gaussian", shared_variance=True, **options)

        def run() -> Any:
            curve = learning_curve(
                data.X,
                data.y,
                models={"model": model},
                train_sizes=data.sizes,
                n_splits=data.n_splits,
                train_size=614,
            )
            return curve.scores["model"]["error"]

        return run

    return prepare


def _theirs(model: Any) -> Callable[[Data], Callable[[], Any]]:
    def prepare(data: Data) -> Callable[[], Any]:
        splits = [
            (split.train, split.test)
            for split in repeated_splits(
                data.y, n_splits=data.n_splits, n_train=614, random_state=0
            )
        ]

        def run() -> Any:
            scores = scikit_learn_curve(
                model, data.X, data.y, cv=splits, train_sizes=data.sizes, n_jobs=2
            )[2]
            return 1.0 - scores.T

        return run

    return prepare


_LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
_REFERENCE: dict[int, Any] = {}


def _off(model: Any) -> Callable[[Data, Any], float]:
    """Return how far mean errors are from scikit-learn's."""

    def accuracy(data: Data, found: Any) -> float:
        if id(model) not in _REFERENCE:
            _REFERENCE[id(model)] = _theirs(model)(data)()
        return float(np.abs(found.mean(axis=0) - _REFERENCE[id(model)].mean(axis=0)).max())

    return accuracy


_NAIVE_BAYES = SharedVarianceNB()

CASES = [
    Case(
        name="learning curve of naive Bayes, 20 sizes, 200 splits",
        make=_pima,
        ours=_ours(tradeoff=1),
        rivals={"scikit-learn": _theirs(_NAIVE_BAYES)},
        goal=20.0,
        accuracy=_off(_NAIVE_BAYES),
        accuracy_name="mean error off by",
    ),
    Case(
        name="learning curve of logistic regression, 20 sizes, 200 splits",
        make=_pima,
        ours=_ours(tradeoff=0, l2=1.0),
        rivals={"scikit-learn": _theirs(_LOGISTIC)},
        goal=20.0,
        accuracy=_off(_LOGISTIC),
        accuracy_name="mean error off by",
    ),
]
