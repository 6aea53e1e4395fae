"""Hostile tables, labels and members: a pool fits, leaves the member out by name, or refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit

from crossfade import DataError, LeftOutWarning, NaiveBayes, PooledClassifier

PAIR = [("nb", NaiveBayes(tradeoff=1)), ("lr", LogisticRegression(max_iter=500))]


class Odd(ClassifierMixin, BaseEstimator):
    """A member whose probabilities are made odd."""

    def __init__(self, change="none"):
        self.change = change

    def fit(self, X, y):
        self.model_ = LogisticRegression(max_iter=500).fit(X, y)
        self.classes_ = self.model_.classes_
        if self.change == "order":
            self.classes_ = self.classes_[::-1]
        if self.change == "more":
            self.classes_ = np.append(self.classes_, "zz")
        if self.change == "writes":
            X[:] = 0.0
        if self.change == "warns":
            warnings.warn("odd", UserWarning, stacklevel=1)
        return self

    def predict_proba(self, X):
        p = self.model_.predict_proba(X)
        changes = {
            "order": lambda: p[:, ::-1],
            "more": lambda: np.hstack([p, np.zeros((len(p), 1))]),
            "half": lambda: 0.5 * p,
            "negative": lambda: p - 0.6,
            "zero": lambda: 0 * p,
            "rows": lambda: p[:-1],
            "flat": lambda: p[:, 0],
            "single": lambda: p.astype(np.float32),
            "sure": lambda: 1.0 * (p == p.max(axis=1, keepdims=True)),
            "list": lambda: p.tolist(),
        }
        return changes.get(self.change, lambda: p)()


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["no", "yes"], n // 2)
    return rng.normal(size=(n, 2)) + (y == "yes")[:, None], y


@pytest.mark.parametrize("change", ["none", "order", "half", "single", "sure", "list", "warns"])
def test_what_can_be_read_as_probabilities_is(change):
    X, y = table()
    pool = PooledClassifier([*PAIR, ("odd", Odd(change))])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "odd")
        pool.fit(X, y)
    assert not pool.left_out_
    posterior = pool.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert (posterior > 0).all()
    plain = PooledClassifier([*PAIR, ("odd", Odd())]).fit(X, y)
    if change != "sure":
        np.testing.assert_allclose(posterior, plain.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("change", ["more", "negative", "zero", "rows", "flat"])
def test_what_cannot_is_left_out_by_name(change):
    X, y = table()
    with pytest.warns(LeftOutWarning, match="'odd' was left out"):
        pool = PooledClassifier([*PAIR, ("odd", Odd(change))]).fit(X, y)
    np.testing.assert_array_equal(
        pool.predict_proba(X), PooledClassifier(PAIR).fit(X, y).predict_proba(X)
    )


def test_a_member_that_writes_into_its_rows_reaches_nobody_else():
    X, y = table()
    before = X.copy()
    pool = PooledClassifier([*PAIR, ("odd", Odd("writes"))])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pool.fit(X, y)
    finally:
        np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("pooling", ["logarithmic", "linear", "best"])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((20, 2)), np.arange(20) % 2),  # nothing to learn
        (np.c_[np.arange(20.0), np.full(20, np.pi)], np.arange(20) % 2),
        (np.arange(4.0)[:, None], np.arange(4) % 2),
        (np.arange(9.0)[:, None], np.array([0] * 8 + [1])),  # a class of one row
        (np.arange(12.0)[:, None], np.arange(12) < 6),  # separated, labels true and false
        (1e9 + np.arange(20.0)[:, None], np.arange(20) % 2),
        (np.tile(np.eye(3), (10, 1)), np.tile([2.0, 1.0, 7.0], 10)),  # a few distinct rows
        (np.arange(60.0)[:, None], np.arange(60) % 30),  # thirty classes of two rows
    ],
)
def test_odd_tables_have_probabilities(X, y, pooling):
    members = [("one", NaiveBayes(tradeoff=1)), ("two", NaiveBayes(tradeoff=0.5))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = PooledClassifier(members, pooling=pooling, cv=2).fit(X, y)
        posterior = pool.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert np.isfinite(pool.predict_log_proba(X)).all()
    assert set(pool.predict(X)) <= set(y)
    assert pool.predict_proba(X[:1]).shape == (1, len(set(y.tolist())))


def test_equal_members_say_together_what_one_says():
    X, y = table(200)
    one = PooledClassifier([("a", NaiveBayes(tradeoff=1))]).fit(X, y)
    both = PooledClassifier([(name, NaiveBayes(tradeoff=1)) for name in "abcd"]).fit(X, y)
    np.testing.assert_allclose(both.predict_proba(X), one.predict_proba(X), atol=0.01)


def test_missing_cells_rows_of_an_index_and_labels_in_a_column():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(60)[::-1] * 7)
    frame.loc[frame.index[:5], "a"] = np.nan
    labels = pd.Series(y, index=frame.index)
    pool = PooledClassifier(["nb", "boosting"], cv=2).fit(frame, labels)
    assert pool.predict_proba(frame.iloc[:3]).shape == (3, 2)
    empty = frame.assign(b=np.nan)
    with pytest.raises(DataError, match="b"):
        PooledClassifier(["nb"]).fit(empty.assign(b=np.inf), labels)


def test_weights_as_large_and_small_as_numbers_are():
    X, y = table()
    plain = PooledClassifier(PAIR).fit(X, y, np.ones(60)).predict_proba(X)
    for size in (1e6, 1e-3):
        pool = PooledClassifier(PAIR).fit(X, y, np.full(60, size))
        assert np.isfinite(pool.predict_log_proba(X)).all()
    assert plain.shape == (60, 2)


def test_only_one_class_of_weight_is_refused():
    X, y = table()
    with pytest.raises(DataError, match="at least"):
        PooledClassifier(PAIR).fit(X, y, 1.0 * (y == "no"))


def test_splits_that_overlap_and_leave_rows_out():
    X, y = table()
    cv = ShuffleSplit(4, test_size=0.3, random_state=0)
    pool = PooledClassifier(["nb", ("lr", LogisticRegression())], cv=cv).fit(X, y)
    assert np.isfinite(pool.pool_losses_["log_loss"])


def test_sparse_tables_go_to_members_that_take_them():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    counts = scipy.sparse.csr_matrix(rng.poisson(0.5 + 2.0 * y[:, None] * rng.random(30)))
    pool = PooledClassifier(["nb", ("lr", LogisticRegression(max_iter=500))], cv=3).fit(counts, y)
    assert pool.score(counts, y) > 0.8
