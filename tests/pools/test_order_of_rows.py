"""How rows lie, and what classes are called, changes nothing, whatever members draw by place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from crossfade import PooledClassifier, explain

FOREST = ("forest", RandomForestClassifier(10, random_state=0))
BAGS = ("bags", BaggingClassifier(DecisionTreeClassifier(max_depth=2), 5, random_state=0))


def table(n=120, seed=0):
    """Return numbers and categories, some of them with equal rows, and three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    columns = {
        "a": rng.normal(size=n) + y,
        "b": rng.normal(size=n),
        "kind": rng.choice(list("pqr"), n),
        "flag": rng.random(n) < 0.2 + 0.3 * y,
    }
    columns["a"][::3] = columns["b"][::3] = 0.0
    return pl.DataFrame(columns), y


def numbers(n=120):
    X, y = table(n)
    return X[["a", "b", "flag"]].to_numpy().astype(float), y


WEIGHTS = np.random.default_rng(1).integers(4, size=120)

CASES = {
    "default": (table, PooledClassifier(cv=2), {}),
    "by class": (numbers, PooledClassifier([FOREST, "nb"], cv=3, weights="by_class"), {}),
    "draws": (numbers, PooledClassifier([FOREST, BAGS], cv=3), {}),
    "sigmoid": (numbers, PooledClassifier([("svm", LinearSVC())], cv=2), {}),
    "weights": (numbers, PooledClassifier([FOREST], cv=2), {"sample_weight": WEIGHTS}),
    "groups": (numbers, PooledClassifier([FOREST], cv=2), {"groups": np.arange(120) // 4}),
    "few values": (
        lambda: (numbers()[0][:, 2:], numbers()[1]),
        PooledClassifier([FOREST, BAGS], cv=2),
        {},
    ),
    "pandas": (
        lambda: (table()[0].to_pandas(), table()[1]),
        PooledClassifier(["forest"], cv=2),
        {},
    ),
    "sparse": (
        lambda: (scipy.sparse.csr_array(np.abs(numbers()[0]).round()), numbers()[1]),
        PooledClassifier([FOREST], cv=2),
        {},
    ),
    "lists": (lambda: (numbers()[0].tolist(), numbers()[1]), PooledClassifier([FOREST], cv=2), {}),
}


def taken(X, order):
    if isinstance(X, pd.DataFrame):
        return X.iloc[order]
    return [X[i] for i in order] if isinstance(X, list) else X[order]


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_the_same_however_rows_lie_and_classes_are_called(case):
    make, pool, given = CASES[case]
    X, y = make()
    expected = pool.fit(X, y, **given).predict_proba(X)
    order = np.random.default_rng(2).permutation(len(y))
    names = np.array(["w", "u", "v"])
    moved = {key: values[order] for key, values in given.items()}
    pool.fit(taken(X, order), names[y[order]], **moved)
    found = pool.predict_proba(X)[:, np.argsort(np.argsort(names))]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_nor_are_intervals_and_explanations_others():
    X, y = numbers()
    pool = PooledClassifier([FOREST], cv=2).fit(X, y)
    order = np.random.default_rng(3).permutation(len(y))
    other = PooledClassifier([FOREST], cv=2).fit(X[order], y[order])
    some = X[:5]
    for one, two in zip(
        pool.predict_proba(some, interval=0.9), other.predict_proba(some, interval=0.9), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-9)
    found = explain(pool, some).contributions
    np.testing.assert_allclose(found, explain(other, some).contributions, rtol=0, atol=1e-9)


class Follows(RandomForestClassifier):
    """A member that tells the order of the rows it was fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.rows_ = np.asarray(X)[:, 0]
        return super().fit(X, y)


def test_splits_that_are_given_leave_rows_as_they_lie():
    # They may mean something, as time does.
    X, y = numbers()
    X[:, 0], X[:, 1] = np.arange(120), y
    pool = PooledClassifier([("one", Follows(5))], cv=KFold(3)).fit(X, y)
    np.testing.assert_array_equal(pool.estimators_[0].rows_, X[:, 0])
