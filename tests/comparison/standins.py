"""Small stand-ins with a tradeoff, made of scikit-learn parts, for tests of the comparison."""

from __future__ import annotations

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


def blends(schema: Any = None) -> dict[str, Any]:
    """Return a family of three."""
    return {
        "blend generative": Blend(tradeoff=1.0),
        "blend discriminative": Blend(tradeoff=0.0),
        "blend auto": Blend(tradeoff="auto"),
    }
