"""Do densities find strangers, and are their p-values what they say?

One class after the other is held out of training, so that its rows are strangers among rows of the
others that training did not see either. Score: the area under the curve, against scikit-learn's
detectors, which get the same columns (categories as indicators, numbers standardised). Calibration:
the share of rows that are no strangers with a p-value of .05 or less.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from benchmarks.in_use import mean_rows
from crossfade import GaussianDiscriminant, NaiveBayes

TITLE = "strangers: rows of a class that training never saw"
SETS = ("iris", "wine", "vehicle", "satimage", "optdigits", "lymphography")

#: Rows of training and of the test at most, classes held out at most, and rows they have at least.
_MOST_ROWS, _MOST_CLASSES, _FEWEST = 1_000, 4, 20


def table(n_splits: int = 3, sets: Sequence[str] = SETS, say: Callable[[str], None] = print) -> str:
    """Return areas under the curve and calibration, a line per data set."""
    heads = ["naive Bayes", "full Gaussian", "isolation forest", "local outlier factor"]
    heads += ["p ≤ .05: naive Bayes", "full Gaussian"]
    return mean_rows(heads, {4, 5}, _rows, n_splits, sets, say)


def _rows(X: Any, y: Any, split: int) -> list[list[float]]:
    labels, counts = np.unique(y, return_counts=True)
    return [_row(X, y, label, split) for label in labels[counts >= _FEWEST][:_MOST_CLASSES]]


def _row(X: Any, y: Any, label: Any, split: int) -> list[float]:
    rng = np.random.default_rng(split)
    known = rng.permutation(np.flatnonzero(y != label))
    half = min(len(known) // 2, _MOST_ROWS)
    train, fresh = known[:half], known[half : half + _MOST_ROWS]
    strangers = rng.permutation(np.flatnonzero(y == label))[:_MOST_ROWS]
    test = np.append(fresh, strangers)
    strange = np.repeat([0, 1], [len(fresh), len(strangers)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = [model.fit(X[train], y[train]) for model in _models()]
        scores = [model.outlier_score(X[test]) for model in own]
        numbers = X.to_dummies([c for c in X.columns if not X[c].dtype.is_numeric()]).to_numpy()
        Z = StandardScaler().fit(numbers[train]).transform(numbers)
        for rival in (IsolationForest(random_state=split), LocalOutlierFactor(novelty=True)):
            scores.append(-rival.fit(Z[train]).score_samples(Z[test]))
        held = [np.mean(model.outlier_p_value(X[fresh]) <= 0.05) for model in own]
    return [*(roc_auc_score(strange, score) for score in scores), *held]


def _models() -> list[Any]:
    return [NaiveBayes(tradeoff=1), GaussianDiscriminant("full", tradeoff=1)]
