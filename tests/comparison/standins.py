"""Small stand-ins with a tradeoff, made of scikit-learn parts, for tests of the comparison."""

from __future__ import annotations

import time
import warnings
from multiprocessing import current_process
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from crossfade.table.preparation import Preparation


class Blend(ClassifierMixin, BaseEstimator):
    """Posteriors between GaussianNB (tradeoff 1) and logistic regression (0); "auto" is 0.25."""

    def __init__(self, density: Any = "auto", *, tradeoff: float | str = "auto") -> None:
        self.density = density
        self.tradeoff = tradeoff

    def fit(self, X: Any, y: Any) -> Self:
        self.tradeoff_ = 0.25 if self.tradeoff == "auto" else float(self.tradeoff)
        self.preparation_ = Preparation()
        Z = self.preparation_.fit_transform(X)
        shares = self.tradeoff_, 1.0 - self.tradeoff_
        parts = zip(shares, (GaussianNB(), LogisticRegression(max_iter=1000)), strict=True)
        self.parts_ = [(share, part.fit(Z, y)) for share, part in parts if share]
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        Z = self.preparation_.transform(X)
        return sum(share * part.predict_proba(Z) for share, part in self.parts_)

    def predict(self, X: Any) -> Any:
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class Breaks(ClassifierMixin, BaseEstimator):
    """Fails on training sets that hold row 0, and warns on all."""

    def fit(self, X: Any, y: Any) -> Self:
        warnings.warn("a little odd", UserWarning, stacklevel=2)
        if 7.0 in np.asarray(X)[:, 0]:
            raise ValueError("row 0 is not\nwelcome")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.repeat(self.classes_[:1], len(X))


class Sign(ClassifierMixin, BaseEstimator):
    """Gives the sign of the first column probability `sure`; its fit takes so many seconds.

    On processes that share the work it takes `elsewhere` seconds more.
    """

    def __init__(self, sure: float = 0.9, seconds: float = 0.0, elsewhere: float = 0.0) -> None:
        self.sure = sure
        self.seconds = seconds
        self.elsewhere = elsewhere

    def fit(self, X: Any, y: Any) -> Self:
        here = current_process().name == "MainProcess"
        time.sleep(self.seconds + (0.0 if here else self.elsewhere))
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        p = np.where(np.asarray(X)[:, 0] > 0, self.sure, 1 - self.sure)
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def blends(schema: Any = None) -> dict[str, Any]:
    """Return a family of three."""
    return {
        "blend generative": Blend(tradeoff=1.0),
        "blend discriminative": Blend(tradeoff=0.0),
        "blend auto": Blend(tradeoff="auto"),
    }
