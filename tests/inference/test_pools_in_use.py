"""Pools where they are used: other class shares, prediction sets, explanations and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from crossfade import DataError, NaiveBayes, PooledClassifier
from crossfade.io import load_model, save_model

MEMBERS = [("nb", NaiveBayes(tradeoff=1)), ("tree", DecisionTreeClassifier(max_depth=2))]


def drawn(n, share, seed):
    """Return rows of two classes, the second with this share: one column a ring, one a shift."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return np.column_stack([rng.normal(size=n) * (1 + 2 * y), rng.normal(size=n) + y]), y


@pytest.fixture(scope="module", params=["logarithmic", "linear"])
def pool(request):
    return PooledClassifier(MEMBERS, pooling=request.param).fit(*drawn(400, 0.4, 0))


def test_other_shares_multiply_the_posterior_and_come_back(pool):
    X, _ = drawn(300, 0.4, 1)
    before = pool.predict_proba(X)
    moved = pool.with_class_prior({0: 0.9, 1: 0.1})
    wanted = before * [0.9, 0.1] / pool.class_prior_
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert_allclose(moved.predict_proba(X), wanted, rtol=1e-10)
    assert_array_equal(moved.predict(X), wanted.argmax(axis=1))
    given = np.array([0.9, 0.1])
    assert_allclose(pool.predict_proba(X, class_prior=given), wanted, rtol=1e-10)
    assert_allclose(pool.predict_log_proba(X, class_prior=given), np.log(wanted), rtol=1e-9)
    assert_array_equal(pool.predict(X, class_prior=given), wanted.argmax(axis=1))
    used = pool.with_class_prior(given)
    given[:] = 0.5
    assert_allclose(used.predict_proba(X), wanted, rtol=1e-10)
    assert_allclose(moved.class_prior_, [0.9, 0.1], rtol=1e-12)
    scores = moved.explain(X[:3]).scores
    scores = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    assert_allclose(scores, np.log(wanted[:3]), rtol=0, atol=1e-9)
    assert_allclose(pool.predict_proba(X), before, rtol=0, atol=0)
    for back in (moved.with_class_prior("empirical"), moved.with_class_prior(pool.class_prior_)):
        assert_allclose(back.predict_proba(X), before, rtol=1e-10)
        assert_array_equal(back.predict_set(X, 0.9), pool.predict_set(X, 0.9))


def test_shares_of_new_rows_are_found_and_sets_hold_the_truth_before_and_after(pool):
    held = []
    for seed in range(5):
        new, truth = drawn(1_500, 0.8, 10 + seed)
        adapted = pool.adapt(new)
        found = adapted.class_shares_
        assert found.calibrated
        assert found.p_value < 1e-3
        assert_allclose(found.shares, [0.2, 0.8], rtol=0, atol=0.12)
        assert_allclose(adapted.class_prior_, found.shares, rtol=1e-9)
        X, y = drawn(1_500, 0.4, 20 + seed)
        held.append(
            [
                pool.predict_set(X, 0.9)[np.arange(len(y)), y].mean(),
                adapted.predict_set(new, 0.9)[np.arange(len(truth)), truth].mean(),
            ]
        )
    # 400 rows of fit put a deviation of .015 on each, shares that are unsure a little more.
    assert_allclose(np.mean(held, axis=0), 0.9, rtol=0, atol=0.05)


def test_rows_held_out_are_scored_as_the_losses_say_and_each_once():
    X, y = drawn(200, 0.4, 3)
    cv = RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0)
    members = [("nb", GaussianNB()), ("lr", LogisticRegression())]
    for one, rows in ((5, 200), (cv, 200), ("prefit", 200)):
        given = [(name, model.fit(X, y)) for name, model in members] if one == "prefit" else members
        fitted = PooledClassifier(given, cv=one).fit(X, y)
        left_out = fitted._left_out()
        assert len(left_out.codes) == rows
        assert_array_equal(np.bincount(left_out.codes), np.bincount(y))
        if one is not cv:
            loss = -left_out.log_posterior[np.arange(rows), left_out.codes].mean()
            assert loss == pytest.approx(fitted.pool_losses_["log_loss"], rel=1e-10)


def test_with_repeated_splits_no_row_weighs_the_members_that_it_scores():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), np.tile([0, 1], 6)
    train, test = np.arange(8), np.arange(8, 12)
    splits = [(train, test), (train[::-1], test[::-1])]
    pool = PooledClassifier([("a", GaussianNB()), ("b", LogisticRegression())], cv=splits).fit(X, y)
    members = GaussianNB(), LogisticRegression()
    a, b = (one.fit(X[train], y[train]).predict_proba(X[test]) for one in members)
    drawn_in = [np.log((8 * p + 0.5) / 9) for p in (a, b)]
    # No other row is left: weights of one half each.
    wanted = np.mean(drawn_in, axis=0)
    wanted = wanted - np.logaddexp.reduce(wanted, axis=1)[:, None]
    loss = -wanted[np.arange(4), y[test]].mean()
    assert pool.pool_losses_["log_loss"] == pytest.approx(loss, rel=1e-10)


def test_an_adapted_pool_goes_into_files_and_copies(pool, tmp_path):
    X, _ = drawn(100, 0.4, 5)
    adapted = pool.adapt(drawn(200, 0.8, 6)[0])
    save_model(adapted, tmp_path / "pool.skops")
    copies = pickle.loads(pickle.dumps(adapted)), load_model(tmp_path / "pool.skops").estimator
    for copy in copies:
        assert_array_equal(copy.predict_proba(X), adapted.predict_proba(X))
        assert_array_equal(copy.predict_set(X, 0.8), adapted.predict_set(X, 0.8))
        assert str(copy.class_shares_) == str(adapted.class_shares_)
    fresh = clone(adapted)
    assert not hasattr(fresh, "class_shares_")
    assert fresh.fit(*drawn(60, 0.5, 7)).class_prior_.sum() == pytest.approx(1.0)


def test_a_pool_without_rows_held_out_says_so():
    X, y = drawn(60, 0.5, 8)
    one_of_each = np.unique(y, return_index=True)[1]
    members = [("nb", FrozenEstimator(GaussianNB().fit(X, y)))]
    pool = PooledClassifier(members).fit(X[one_of_each], y[one_of_each])
    with pytest.raises(DataError, match=r"cv: expected splits that hold rows out, got 5, .*"):
        pool.predict_set(X)
    assert not pool.adapt(X).class_shares_.calibrated
    with pytest.raises(DataError, match="class_prior"):
        pool.with_class_prior([0.5, 0.6])
