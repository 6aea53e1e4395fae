"""Stand-ins that learning curves are tested with: data, and models that misbehave."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression


def blobs(n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, 3, size=n))  # sorted: a class after the other
    return rng.normal(size=(n, 2)) + y[:, None], np.array(["a", "b", "c"])[y]


class Breaks(ClassifierMixin, BaseEstimator):
    """Cannot be fitted on fewer rows than it wants."""

    def __init__(self, least: int = 10) -> None:
        self.least = least

    def fit(self, X: Any, y: Any) -> Breaks:
        if len(X) < self.least:
            raise ValueError(f"{len(X)} rows are too few")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


class Slow(LogisticRegression):
    """Takes so many seconds to fit."""

    pause = 0.0

    def fit(self, X: Any, y: Any) -> Slow:
        time.sleep(self.pause)
        return super().fit(X, y)
