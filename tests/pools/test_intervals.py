"""Standard errors of a pool's weights, and intervals of its probabilities."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import t
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from crossfade import DataError, NaiveBayes, PooledClassifier
from crossfade.io import load_model, save_model
from crossfade.pools.jackknife import Jackknife, _groups
from crossfade.pools.weights import POOLINGS, Evidence, weigh, weights_covariance
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows

PAIR = [("nb", NaiveBayes(tradeoff=1)), ("lr", LogisticRegression(max_iter=2000, tol=1e-9))]


class Known(ClassifierMixin, BaseEstimator):
    """A posterior that no row moves: the log-odds `slope` times a column."""

    def __init__(self, column=0, slope=1.0):
        self.column = column
        self.slope = slope

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = expit(self.slope * np.asarray(X)[:, self.column])
        return np.column_stack([1 - p, p])


def known(n, seed):
    """Return rows whose log-odds are .8 x0 + .5 x1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (rng.random(n) < expit(0.8 * X[:, 0] + 0.5 * X[:, 1])).astype(int)


def of_known(X, y, **more):
    members = [("a", Known(0)), ("b", Known(1))]
    return PooledClassifier(members, pseudo_count=1e-9).fit(X, y, **more)


# -- weights ---------------------------------------------------------------------------------------


def test_two_known_members_are_a_logistic_regression_with_robust_errors():
    X, y = known(400, 0)
    pool = of_known(X, y)
    said = pool.summary()
    w = said.estimates
    share = y.mean()
    # By hand, two classes: log-odds logit(π) + Σ w (x - logit π), ridge 2 and its pseudo-rows.
    relative = X - logit(share)
    p = expit(logit(share) + relative @ w)
    label = 0.2 / 400.2 * share + 400 / 400.2 * y
    excess = np.maximum(0.5 * (relative**2).sum(axis=0) / 400, 1.0)
    H = (relative * (p * (1 - p))[:, None]).T @ relative + np.diag(2 * excess)
    u = (relative * (p - label)[:, None]) @ np.linalg.inv(H)
    V = u.T @ u - np.outer(u.sum(axis=0), u.sum(axis=0)) / 400
    np.testing.assert_allclose(said.standard_errors, np.sqrt(np.diag(V)), rtol=1e-6)
    np.testing.assert_allclose(said.upper - w, 1.959964 * said.standard_errors, rtol=1e-6)
    assert said.names == ("a", "b")
    assert "sandwich" in str(said)
    assert said.frame()["estimate"].to_list() == w.tolist()


def said_of(X, y, by_class=False, selection="log_loss"):
    """Return what two known members say of rows."""
    p = expit(1.2 * X.T)
    scores = np.log(np.stack([1 - p, p], axis=2))
    prior, ones = np.log(np.bincount(y) / len(y)), np.ones(len(y))
    fold = np.arange(len(y)) % 5
    return Evidence(scores, y, fold, ones, prior, selection, np.arange(len(y)), by_class)


@pytest.mark.slow
def test_intervals_of_weights_hold_what_they_are_to_hold():
    goal = weigh(said_of(*known(100_000, 1)), ["logarithmic"]).weights
    held = []
    for draw in range(300):
        given = said_of(*known(300, [2, draw]))
        error = np.sqrt(np.diag(weights_covariance(given, "logarithmic")[0]))
        held.append(np.abs(weigh(given, ["logarithmic"]).weights - goal) < 1.96 * error)
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.parametrize(
    ("pooling", "by_class"), [("linear", False), ("logarithmic", False), ("logarithmic", True)]
)
@pytest.mark.parametrize("selection", ["log_loss", "brier"])
def test_errors_are_those_of_weights_without_some_rows(pooling, by_class, selection):
    given = said_of(*known(1_000, 5), by_class, selection)
    covariance, total = weights_covariance(given, pooling)
    assert total == 1_000
    group = np.random.default_rng(0).permutation(1_000) % 100
    replicas = [
        weigh(given.of_table(np.flatnonzero(group != g)), [pooling]).weights.ravel()
        for g in range(100)
    ]
    expected = np.sqrt(99 * np.var(replicas, axis=0))
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), expected, rtol=0.25)


def test_weights_of_rows_are_repetitions_and_groups_are_summed_first():
    X, y = known(150, 3)
    weights = np.tile([1.0, 2.0, 0.0], 50)
    members = [("a", Known(0)), ("b", Known(1))]
    fitted = [(name, FrozenEstimator(one.fit(X, y))) for name, one in members]
    one = PooledClassifier(fitted).fit(X, y, sample_weight=weights)
    index = np.repeat(np.arange(150), weights.astype(int))
    other = PooledClassifier(fitted).fit(X[index], y[index])
    errors = [pool.summary().standard_errors for pool in (one, other)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-6)
    # A group of equal rows is one row, but for the ridge, of which three rows feel a third.
    X, y = known(3_000, 3)
    groups = np.tile(np.arange(3_000), 3)
    copied = of_known(np.tile(X, (3, 1)), np.tile(y, 3), groups=groups)
    alone, together = of_known(X, y).summary(), copied.summary()
    ratio = together.standard_errors / alone.standard_errors
    np.testing.assert_allclose(ratio, 1.0, atol=0.01)


@pytest.mark.parametrize("pooling", ["linear", "logarithmic"])
def test_intervals_of_weights_end_where_weights_do(pooling):
    X, y = known(60, 10)
    members = [("a", Known(0)), ("b", Known(1)), ("c", Known(1, slope=0.5))]
    said = PooledClassifier(members, pooling=pooling).fit(X, y).summary(level=0.999)
    found = np.isfinite(said.standard_errors)
    assert found.any()
    half = 3.290527 * said.standard_errors
    lower, upper = said.estimates - half, said.estimates + half
    most = 1.0 if pooling == "linear" else np.inf
    np.testing.assert_allclose(said.lower[found], np.maximum(lower, 0.0)[found], rtol=1e-6)
    np.testing.assert_allclose(said.upper[found], np.minimum(upper, most)[found], rtol=1e-6)
    assert (lower[found] < 0.0).any()


def test_files_keep_intervals_that_were_asked_for(tmp_path, monkeypatch):
    X, y = known(80, 9)
    pool = PooledClassifier([PAIR[0], "forest"], cv=2).fit(X, y)
    wanted = pool.predict_proba(X, interval=0.95)
    save_model(pool, tmp_path / "pool.skops")
    copies = pickle.loads(pickle.dumps(pool)), load_model(tmp_path / "pool.skops").estimator
    for one in copies:
        np.testing.assert_array_equal(one.predict_proba(X, interval=0.95), wanted)
        shifted = pool.predict_proba(X, interval=0.9, class_prior=[0.9, 0.1])
        again = one.predict_proba(X, interval=0.9, class_prior=[0.9, 0.1])
        np.testing.assert_array_equal(again, shifted)
        assert one._jackknife._fits is None  # no rows
    monkeypatch.setattr("crossfade.pools.jackknife._MOST_BYTES", 1_000)
    assert pickle.loads(pickle.dumps(pool))._jackknife is None


def test_what_the_default_pool_of_1000_rows_takes_is_kept():
    jackknife = Jackknife(None)
    jackknife._replicas = [np.zeros(30_000_000 // 8)]  # ten pools without a group: 29 MB
    assert jackknife.without_rows() is jackknife


def test_a_weight_of_zero_has_no_error():
    X, y = known(300, 4)
    wrong = [("a", Known(0)), ("b", Known(1)), ("turned", Known(0, slope=-1.0))]
    said = PooledClassifier(wrong).fit(X, y).summary()
    assert said.estimates[2] == 0.0
    assert np.isnan([said.standard_errors[2], said.p_values[2], said.lower[2]]).all()
    assert "on the edge" in said.notes[1]
    assert np.isfinite(said.standard_errors[:2]).all()


def test_weights_by_class_have_names_of_both():
    said = PooledClassifier([("a", Known(0)), ("b", Known(1))], weights="by_class").fit(
        *known(600, 5)
    )
    assert said.summary().names == ("a: 0", "a: 1", "b: 0", "b: 1")
    assert np.isfinite(said.summary().standard_errors).all()


@pytest.mark.parametrize("by_class", [False, True])
def test_errors_take_more_rows_or_groups_than_weights(by_class):
    given = said_of(*known(1_000, 5), by_class, "log_loss")
    free = (POOLINGS["logarithmic"](given)[1] > 0.0).sum()
    for n in (1, free, free + 1, 50):
        covariance, total = weights_covariance(given, "logarithmic", np.arange(1_000) % n)
        assert (covariance is None) == (n <= free)
        assert total == 1_000
    for n in range(2, 9):
        for times in (1, 3):
            part = replace(given.rows(np.arange(n)), weights=np.full(n, float(times)))
            free = (POOLINGS["logarithmic"](part)[1] > 0.0).sum()
            covariance, _ = weights_covariance(part, "logarithmic")
            assert (covariance is None) == (times * n <= free)


def test_a_summary_of_too_few_rows_says_so():
    rng = np.random.default_rng(0)
    said = PooledClassifier(weights="by_class").fit(rng.normal(size=(3, 2)), ["a", "b", "a"])
    said = said.summary()
    assert np.isfinite(said.estimates).all()
    for missing in (said.standard_errors, said.statistics, said.p_values, said.lower, said.upper):
        assert np.isnan(missing).all()
    assert said.notes[0].startswith("No standard errors: expected more held-out rows")
    assert "No standard errors" in str(said)


# -- probabilities ---------------------------------------------------------------------------------


def test_intervals_are_the_jackknife_s():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = rng.normal(size=(200, 2)) + y[:, None]
    pool = PooledClassifier(PAIR).fit(X, y)
    p, low, high = pool.predict_proba(X[:5], interval=0.9)
    np.testing.assert_allclose(p, pool.predict_proba(X[:5]), rtol=1e-12)
    group = folds(LabelledRows(X, np.zeros_like(y), None, 1), 10)
    others = []
    for g in range(10):
        rows = group != g
        shares = np.bincount(y[rows]) / rows.sum()
        scores = np.log(shares)
        # Weights by the pool's own held-out probabilities of the rows that are left.
        replica = pool._jackknife.replicas()[g].weighed
        weights = dict(zip(replica.kept, replica.of_kept.weights, strict=True))
        for name, model in PAIR:
            fitted = clone(model).fit(X[rows], y[rows])
            each = (rows.sum() * fitted.predict_proba(X[:5]) + shares) / (rows.sum() + 1)
            scores = scores + weights.get(name, 0.0) * np.log(each / shares)
        q = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        others.append(logit(q))
    half = t.ppf(0.95, 9) * np.sqrt(9 * np.var(others, axis=0))
    np.testing.assert_allclose(low, expit(logit(p) - half), rtol=1e-6)
    np.testing.assert_allclose(high, expit(logit(p) + half), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_how_many_rows_a_class_has_is_chance_too(grouped):
    # A member that says nothing leaves the class shares, whose log-odds have variance 1/a + 1/b.
    ratios = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(200, 1)), (rng.random(200) < 0.3).astype(int)
        groups = np.arange(200) if grouped else None
        pool = PooledClassifier([("none", DummyClassifier())]).fit(X, y, groups=groups)
        p, low, high = pool.predict_proba(X[:1], interval=0.9)
        np.testing.assert_allclose(p[0, 1], y.mean(), rtol=0.05)
        error = (logit(high[0, 1]) - logit(low[0, 1])) / 2 / t.ppf(0.95, 9)
        ratios.append(error**2 / (1 / y.sum() + 1 / (200 - y.sum())))
    assert 0.75 < np.mean(ratios) < 1.3


def test_a_class_that_a_group_would_take_away_is_dealt_class_by_class():
    X, y = known(40, 0)
    for seed in range(20):
        rare = y.copy()
        rare[np.random.default_rng(seed).choice(40, 2, replace=False)] = 2
        rows = LabelledRows(X, rare, None, 3)
        group = _groups(rows, None)
        assert np.unique(group[rare == 2]).size == 2
        assert (group >= 0).all()


def truth(X):
    return expit(X @ [0.8, 0.5])


@pytest.mark.slow
def test_intervals_hold_the_truth_where_the_members_can_say_it():
    rng = np.random.default_rng(6)
    new = rng.normal(size=(30, 2))
    members = [("lr", LogisticRegression(C=1e6)), ("nb", NaiveBayes(tradeoff=0.01, l2=1e-6))]
    held = []
    for draw in range(25):
        X, y = known(300, [7, draw])
        _, low, high = PooledClassifier(members, cv=3).fit(X, y).predict_proba(new, interval=0.95)
        held.append((low[:, 1] <= truth(new)) & (truth(new) <= high[:, 1]))
    assert 0.9 <= np.mean(held) <= 0.995


def test_intervals_go_with_other_shares_tables_and_groups():
    X, y = known(80, 8)
    table = pd.DataFrame(X, columns=["a", "b"])
    groups = np.arange(80) // 2
    pool = PooledClassifier(["nb", PAIR[1]]).fit(table, y, groups=groups)
    given = table.copy()
    table.loc[:, "a"] = 1e6  # what happens to a table after fit is nothing to the pool
    p, low, high = pool.predict_proba(given[:4], interval=0.95)
    assert ((low < p) & (p < high)).all()
    np.testing.assert_allclose(low[:, 0], 1 - high[:, 1], rtol=1e-9)
    shifted = pool.with_class_prior([0.9, 0.1])
    q, below, above = shifted.predict_proba(given[:4], interval=0.95)
    assert ((below < q) & (q < above) & (q[:, :1] > p[:, :1])[:, :1]).all()
    assert shifted._jackknife is pool._jackknife  # ten fits, once


def test_where_there_are_no_intervals_it_says_so():
    X, y = known(60, 9)
    pool = PooledClassifier(PAIR, cv=2).fit(X, y)
    loaded = pickle.loads(pickle.dumps(pool))
    with pytest.raises(DataError, match="interval: expected a pool with its rows of fit"):
        loaded.predict_proba(X, interval=0.95)
    pool.predict_proba(X, interval=0.95)
    pool._jackknife._replicas[0].weighed.models.append(type("Local", (), {})())
    assert copy.deepcopy(pool)._jackknife is None  # what no file can hold is left out
    np.testing.assert_array_equal(loaded.summary().estimates, pool.summary().estimates)
    with pytest.raises(DataError, match="interval: expected a finite number in"):
        pool.predict_proba(X, interval=95)
    with pytest.raises(DataError, match="level: expected"):
        pool.summary(level=1)
    few = PooledClassifier([("a", Known())]).fit([[0.0, 1.0], [1.0, 2.0]], [0, 1])
    with pytest.raises(DataError, match="interval: expected rows for three groups"):
        few.predict_proba(X, interval=0.95)
    assert np.isnan(few.summary().standard_errors).all()
