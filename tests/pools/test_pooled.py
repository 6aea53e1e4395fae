"""Pools of classifiers: weights that are optimal, and what a pool must do with bad members."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossfade import (
    DataError,
    GaussianDiscriminant,
    LeftOutWarning,
    NaiveBayes,
    PooledClassifier,
    explain,
)
from crossfade.io import load_model, save_model
from crossfade.pools.weights import Evidence, Weighing, cross_fitted, pooled, weigh

PAIR = [("nb", NaiveBayes(tradeoff=1)), ("lr", LogisticRegression(max_iter=2000, tol=1e-9))]


@parametrize_with_checks([PooledClassifier(PAIR, pooling="logarithmic", cv=2)])
def test_the_contract(estimator, check):
    check(estimator)


class Stub(ClassifierMixin, BaseEstimator):
    """Class shares as the posterior; tells of its fits, and fails where told to."""

    fits: list[set[int]] = []  # noqa: RUF012 what the test looks into

    def __init__(self, fails_without=None, nan=False):
        self.fails_without = fails_without
        self.nan = nan

    def fit(self, X, y):
        seen = set(np.asarray(X)[:, 0].astype(int).tolist())
        Stub.fits.append(seen)
        if self.fails_without is not None and self.fails_without not in seen:
            raise RuntimeError("a row is missing <here>")
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        shares = np.full_like(self.shares_, np.nan) if self.nan else self.shares_
        return np.tile(shares, (len(X), 1))


def blobs(n=120, k=3, seed=0):
    """Return rows whose first column numbers them, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return np.column_stack([np.arange(n), rng.normal(size=(n, 2)) + y[:, None]]), y


def evidence(n=300, k=3, seed=0, selection="log_loss"):
    """Return a true posterior, one with noise, one with other noise, and one of nothing."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, k))
    noise = rng.normal(size=(2, n, k))
    scores = np.stack([true, true + noise[0], true + noise[1], rng.normal(size=(n, k))])
    scores -= np.logaddexp.reduce(scores, axis=2, keepdims=True)
    codes = np.array([rng.choice(k, p=np.exp(row)) for row in scores[0]])
    prior = np.log(np.bincount(codes) / n)
    return Evidence(scores, codes, np.arange(n) % 5, np.ones(n), prior, selection)


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["log_loss", "brier"])
def test_a_linear_pool_is_the_best_mixture(selection):
    all_of_them = evidence(selection=selection)
    given = all_of_them.members([1, 2])  # both count
    found = weigh(given, ["linear"]).weights
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    n, k = given.scores.shape[1:]
    pseudo = 0.2 / (0.2 + n)
    labels = (1 - pseudo) * np.eye(k)[given.codes] + pseudo * np.exp(given.log_prior)

    def loss(share):
        w = np.array([share[0], 1.0 - share[0]])
        mixed = np.tensordot(w, np.exp(given.scores), axes=1)
        rows = -(labels * np.log(mixed)).sum()
        if selection == "brier":
            rows = ((labels - mixed) ** 2).sum()
        return rows + 0.5 * 2 * ((w - 0.5) ** 2).sum()

    best = minimize(loss, [0.5], bounds=[(0, 1)], method="L-BFGS-B", options={"ftol": 1e-14})
    assert loss(found[:1]) <= best.fun + 1e-4
    np.testing.assert_allclose(found[0], best.x[0], atol=2e-3)


@pytest.mark.parametrize("pooling", ["linear", "logarithmic"])
@pytest.mark.parametrize("selection", ["log_loss", "brier"])
def test_what_adds_nothing_has_hardly_any_weight(pooling, selection):
    given = evidence(2000, selection=selection)
    wrong = given.scores[:1, :, [1, 2, 0]]  # says the wrong class, so that it can only harm
    given = dataclasses.replace(given, scores=np.concatenate([given.scores, wrong]))
    found = weigh(given, [pooling]).weights
    assert found[0] > 0.8
    assert found[3] < 0.05
    assert found[4] < 0.02


def test_cross_fitted_scores_are_those_of_the_other_folds_weights():
    given = evidence()
    found = cross_fitted(given, ["logarithmic", "linear"])
    for fold in range(5):
        other = given.rows(np.flatnonzero(given.fold != fold))
        by_hand = pooled(weigh(other, ["logarithmic", "linear"]), given.scores, given.log_prior)
        own = given.fold == fold
        np.testing.assert_array_equal(found[own], by_hand[own])


def test_the_better_pooling_is_taken():
    rng = np.random.default_rng(1)
    n = 2000
    # Two experts who each know half of the rows and say the shares elsewhere: a product adds up.
    true = np.log(np.array([0.95, 0.05]))
    codes = rng.integers(2, size=n)
    expert = rng.integers(2, size=n)
    scores = np.full((2, n, 2), np.log(0.5))
    seen = np.where(rng.random(n) < 0.95, codes, 1 - codes)
    for g in range(2):
        own = np.flatnonzero(expert == g)
        scores[g, own] = true[np.stack([seen[own], 1 - seen[own]], axis=1)]
    given = Evidence(scores, codes, np.arange(n) % 5, np.ones(n), np.log([0.5, 0.5]), "log_loss")
    found = weigh(given, ["linear", "logarithmic"])
    assert found.pooling == "logarithmic"
    np.testing.assert_allclose(found.weights, 1.0, atol=0.1)
    # A mixture of two where one of them is right, and which it is the rows do not say.
    which = rng.integers(2, size=n)
    sure = np.log(np.array([[0.98, 0.02], [0.02, 0.98]]))
    scores = np.stack([np.tile(sure[0], (n, 1)), np.tile(sure[1], (n, 1))])
    given = Evidence(scores, which, np.arange(n) % 5, np.ones(n), np.log([0.5, 0.5]), "log_loss")
    mixed = pooled(weigh(given, ["linear"]), scores, given.log_prior)
    np.testing.assert_allclose(np.exp(mixed[0]), [0.5, 0.5], atol=0.03)


@pytest.mark.parametrize("n", [60, 300])
def test_a_member_that_says_next_to_nothing_does_not_silence_the_others(n):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    odds = 1.5 * (2 * y - 1) + rng.normal(size=n)  # Bayes' rule: 3 times as much
    telling, silent = np.stack([-odds, odds], axis=1), 0.03 * rng.normal(size=(n, 2))
    scores = np.stack([telling, silent])
    scores -= np.logaddexp.reduce(scores, axis=2, keepdims=True)
    given = Evidence(scores, y, np.arange(n) % 5, np.ones(n), np.log([0.5, 0.5]), "log_loss")
    assert weigh(given, ["logarithmic"]).weights[0] > 0.5  # and not 0.01


# -- what a pool says ------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["linear", "logarithmic"])
def test_the_posterior_is_the_formula_s(pooling):
    X, y = load_iris(return_X_y=True)
    pool = PooledClassifier(PAIR, pooling=pooling).fit(X, y)
    shares = np.full(3, 1 / 3)
    each = np.stack([(150 * m.predict_proba(X) + shares) / 151 for m in pool.estimators_])
    w = np.array([pool.weights_[name] for name in pool.member_names_])
    if pooling == "linear":
        expected = np.tensordot(w, each, axes=1)
    else:
        expected = shares * np.prod((each / shares) ** w[:, None, None], axis=0)
        expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pool.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(pool.predict_log_proba(X)), expected, rtol=1e-10)
    np.testing.assert_array_equal(pool.predict(X), pool.classes_[expected.argmax(axis=1)])


def test_losses_of_members_are_scikit_learn_s():
    X, y = load_iris(return_X_y=True)
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    pool = PooledClassifier(PAIR, cv=cv, pseudo_count=1e-9).fit(X, y)
    for name, model in PAIR:
        held = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
        assert pool.member_losses_[name]["log_loss"] == pytest.approx(log_loss(y, held), rel=1e-5)
        assert pool.member_losses_[name]["error"] == np.mean(held.argmax(axis=1) != y)
    assert set(pool.gains_) == {"nb", "lr"}


@pytest.mark.slow
def test_what_a_pool_reports_is_what_fresh_rows_show():
    reported, fresh = [], []
    for seed in range(8):
        X, y = blobs(4000, seed=seed)
        X = np.delete(X, 0, axis=1)
        models = [*PAIR, ("knn", KNeighborsClassifier()), ("none", DummyClassifier())]
        pool = PooledClassifier(models).fit(X[:200], y[:200])
        reported.append(pool.pool_losses_["log_loss"])
        fresh.append(log_loss(y[200:], pool.predict_proba(X[200:])))
    assert np.mean(reported) / np.mean(fresh) == pytest.approx(1.0, abs=0.06)


def test_a_forest_s_zeros_are_drawn_in():
    X, y = blobs(200)
    forest = RandomForestClassifier(20, random_state=0)
    assert (forest.fit(X, y).predict_proba(X) == 0).any()
    pool = PooledClassifier([("forest", forest)]).fit(X, y)
    assert np.isfinite(pool.predict_log_proba(X)).all()
    assert np.isfinite(pool.member_losses_["forest"]["log_loss"])


# -- equalities ------------------------------------------------------------------------------------


def test_weights_are_repetitions():
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    weights = np.tile([1, 2, 0], 50)
    weighted = PooledClassifier(PAIR).fit(X, y, sample_weight=weights)
    repeated = PooledClassifier(PAIR).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    for name, w in repeated.weights_.items():
        assert weighted.weights_[name] == pytest.approx(w, rel=1e-3)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_rows_without_weight_are_rows_left_out_to_a_forest_too():
    X, y = load_iris(return_X_y=True)
    weights = np.tile([1, 1, 0], 50)
    members = [("forest", RandomForestClassifier(10, random_state=0))]
    one = PooledClassifier(members).fit(X, y, sample_weight=weights)
    other = PooledClassifier(members).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_neither_the_order_of_rows_nor_names_of_labels_matter():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    names = np.array(["setosa", "zebra", "apple"])
    one = PooledClassifier(PAIR).fit(X, y)
    other = PooledClassifier(PAIR).fit(X[order], names[y[order]])
    column = [other.classes_.tolist().index(name) for name in names]
    found = other.predict_proba(X)[:, column]
    np.testing.assert_allclose(found, one.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_go_to_the_members_as_they_are(frame):
    X, y = load_iris(return_X_y=True)
    table = frame(dict(zip("abcd", X.T, strict=True)))
    found = PooledClassifier(PAIR).fit(table, list(y))
    np.testing.assert_allclose(
        found.predict_proba(table), PooledClassifier(PAIR).fit(X, y).predict_proba(X), atol=1e-9
    )
    with pytest.raises(DataError, match="feature names should match"):
        found.predict(table[["b", "a", "c", "d"]])


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_jobs_change_nothing(backend):
    X, y = blobs()
    models = [("nb", NaiveBayes(tradeoff=1)), ("knn", KNeighborsClassifier())]
    one = PooledClassifier(models).fit(X, y)
    with parallel_config(backend):
        two = PooledClassifier(models, n_jobs=2).fit(X, y)
    assert one.weights_ == two.weights_


def test_fits_are_told_as_they_begin(capsys):
    X, y = blobs()
    models = [
        ("nb", NaiveBayes(tradeoff=1)),
        ("knn", KNeighborsClassifier()),
        ("auto", NaiveBayes()),
    ]
    told = []
    pool = PooledClassifier(models, cv=3, verbose=lambda *step: told.append(step)).fit(X, y)
    # One that chooses on the folds is fitted once, the others to three folds, and where they count.
    kept = [name for name in pool.member_names_ if name != "auto"]
    names = ["auto", *["nb"] * 3, *["knn"] * 3, *kept]
    assert told == [(done, 9, f"fitting {name}") for done, name in enumerate(names)]
    assert capsys.readouterr().err == ""
    two = PooledClassifier(models, cv=3, verbose=True, n_jobs=2)
    with parallel_config("threading"):
        two.fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "pool: 0 s · fit 1 of 9, fitting auto"
    assert [line.rpartition(" ")[2] for line in lines] == names
    assert pickle.loads(pickle.dumps(two)).weights_ == pool.weights_
    with pytest.raises(DataError, match="verbose: expected True, False or what is called with"):
        PooledClassifier(models, verbose="yes").fit(X, y)


# -- members ---------------------------------------------------------------------------------------


def test_a_member_of_no_weight_is_not_fitted_to_all_rows():
    X, y = blobs()
    X[:, 1:] += 4.0 * y[:, None]  # so far apart that shares of classes add nothing
    Stub.fits.clear()
    pool = PooledClassifier(
        [("stub", Stub()), ("nb", NaiveBayes(tradeoff=1))], pooling="linear"
    ).fit(X, y)
    assert pool.weights_["stub"] == 0.0
    assert pool.member_names_ == ["nb"]
    assert [len(seen) for seen in Stub.fits] == [96] * 5


def test_groups_are_left_out_whole_and_given_to_members_that_take_them():
    X, y = blobs()
    groups = np.arange(120) // 6
    Stub.fits.clear()
    PooledClassifier([("stub", Stub()), ("nb", NaiveBayes())]).fit(X, y, groups=groups)
    for seen in Stub.fits:
        assert len(seen) == 6 * len({i // 6 for i in seen})


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (Stub(fails_without=7), "RuntimeError: 'a row is missing <here>'"),
        (Stub(nan=True), "probabilities are not finite"),
    ],
)
def test_a_member_that_fails_in_a_fold_is_named_and_left_out(member, reason):
    X, y = blobs()
    with pytest.warns(LeftOutWarning, match="'bad' was left out"):
        pool = PooledClassifier([*PAIR, ("bad", member)], cv=2).fit(X, y)
    assert reason in pool.left_out_["bad"]
    assert pool.weights_["bad"] == 0.0
    without = PooledClassifier(PAIR, cv=2).fit(X, y)
    np.testing.assert_array_equal(pool.predict_proba(X), without.predict_proba(X))
    with pytest.warns(LeftOutWarning):
        page = PooledClassifier([PAIR[0], ("<i>", member)], cv=2).fit(X, y)._repr_html_()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    with pytest.raises(DataError, match="at least one member that can be fitted"):
        PooledClassifier([("bad", member)], cv=2).fit(X, y)


def test_a_fold_may_lack_a_class():
    X, y = blobs(90)
    order = np.argsort(y, kind="stable")
    pool = PooledClassifier(PAIR, cv=KFold(3)).fit(X[order], y[order])
    assert np.isfinite(pool.member_losses_["nb"]["log_loss"])
    # Each class was unknown where it was held out: members say pseudo_count π / (n + 1).
    assert pool.member_losses_["nb"]["log_loss"] >= np.log(60)


def test_classes_of_one_row_each_leave_the_members_alike():
    pool = PooledClassifier([("a", Stub()), ("b", Stub())]).fit([[0.0], [1.0]], ["x", "y"])
    assert pool.weights_ == {"a": 0.5, "b": 0.5}
    np.testing.assert_allclose(pool.predict_proba([[3.0]]), 0.5)


@pytest.mark.parametrize("member", [LinearSVC(random_state=0), RidgeClassifier()])
def test_decision_values_get_a_sigmoid(member):
    X, y = load_iris(return_X_y=True)
    scaled = make_pipeline(StandardScaler(), member)
    pool = PooledClassifier([("svm", scaled)]).fit(X, y)
    assert pool.member_losses_["svm"]["log_loss"] < 0.6
    np.testing.assert_allclose(pool.predict_proba(X).sum(axis=1), 1.0)


def test_fitted_members_are_used_as_they_are():
    X, y = blobs(300)
    fitted = [(name, clone(model).fit(X[:150], y[:150])) for name, model in PAIR]
    frozen = [(name, FrozenEstimator(model)) for name, model in fitted]
    pools = [
        PooledClassifier(fitted, cv="prefit").fit(X[150:], y[150:]),
        PooledClassifier(frozen).fit(X[150:], y[150:]),
    ]
    kept = [dict(fitted)[name] for name in pools[0].member_names_]
    assert all(a is b for a, b in zip(pools[0].estimators_, kept, strict=True))
    assert pools[1].estimators_ == [dict(frozen)[name] for name in pools[1].member_names_]
    assert pools[0].member_losses_["lr"]["error"] == pools[1].member_losses_["lr"]["error"]


def test_names_bring_members_and_the_default_is_a_table_s():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    size = np.where(rng.random(100) < 0.1, np.nan, y + rng.normal(size=100))
    table = pd.DataFrame({"size": size, "colour": rng.choice(["red", "blue"], size=100)})
    pool = PooledClassifier(cv=2).fit(table, y)
    assert list(pool.weights_) == ["nb", "forest", "boosting"]  # one number has no covariance
    assert not pool.left_out_
    wide = table.assign(more=rng.normal(size=100))
    wider = PooledClassifier(cv=2).fit(wide, y)
    assert list(wider.weights_) == ["nb", "full", "forest", "boosting"]
    # Of few rows, boosting is another model on folds than on all of them.
    few = PooledClassifier(cv=2).fit(wide, y, sample_weight=(np.arange(100) > 0).astype(float))
    assert list(few.weights_) == ["nb", "full", "forest"]


# -- parameters ------------------------------------------------------------------------------------


def test_members_parameters_are_the_pool_s(unchanged):
    given = ["forest", *PAIR]
    pool = PooledClassifier(given)
    assert pool.get_params()["nb__alpha"] == 1.0
    pool = clone(pool).set_params(nb__alpha=0.5, lr="drop", cv=3)
    X, y = blobs()
    assert list(pool.fit(X, y).weights_) == ["forest", "nb"]
    assert pool.get_params()["nb"].alpha == 0.5
    assert given[1][1].alpha == 1.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        pool.set_params(other=1)


def test_clone_and_pickle():
    X, y = blobs()
    pool = PooledClassifier(PAIR).fit(X, y)
    same = pickle.loads(pickle.dumps(pool))
    np.testing.assert_array_equal(same.predict_proba(X), pool.predict_proba(X))
    assert not hasattr(clone(pool), "weights_")
    assert repr(PooledClassifier()) == "PooledClassifier()"
    assert "loss without it" in pool._repr_mimebundle_()["text/html"]
    assert "loss without it" not in PooledClassifier()._repr_html_()


def test_a_pool_of_own_members_is_kept_in_a_file(tmp_path):
    pytest.importorskip("skops")
    X, y = load_iris(return_X_y=True)
    pool = PooledClassifier(["nb", ("full", GaussianDiscriminant(tradeoff=1))]).fit(X, y)
    save_model(pool, tmp_path / "pool.skops")
    loaded = load_model(tmp_path / "pool.skops").estimator
    np.testing.assert_array_equal(loaded.predict_proba(X), pool.predict_proba(X))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimators": "all"}, "expected 'default' or a list of names"),
        ({"estimators": []}, "expected 'default' or a list of names"),
        ({"estimators": ["svm"]}, r"expected one of 'nb', .*, got 'svm'; name a classifier"),
        ({"estimators": [Stub()]}, r"got Stub\(\); name a classifier: \('mine', classifier\)"),
        ({"estimators": [("a__b", Stub())]}, "without '__', got .'a__b'.; rename"),
        ({"estimators": [("a", Stub()), ("a", Stub())]}, "a name of its own"),
        ({"estimators": [("cv", Stub())]}, "a name of its own"),
        ({"pooling": "mean"}, "pooling: expected 'best', 'logarithmic', 'linear', got 'mean'"),
        ({"selection": "error"}, "selection: expected 'log_loss' or 'brier', got 'error'"),
        ({"cv": 1}, "cv: expected a whole number of at least 2, got 1"),
        ({"cv": "all"}, "cv: expected a number of folds, 'prefit' or a splitter, got 'all'"),
        ({"cv": [(0, 1, 2)]}, "cv: expected pairs of positions"),
        ({"pseudo_count": 0}, "pseudo_count: expected a finite number above 0, got 0"),
    ],
)
def test_what_cannot_be_used_is_refused(parameters, message):
    X, y = blobs(30)
    with pytest.raises(DataError, match=message):
        PooledClassifier(**({"estimators": PAIR} | parameters)).fit(X, y)


def test_weights_that_a_member_cannot_take_are_refused():
    X, y = blobs(30)
    with pytest.raises(DataError, match="sample_weight: 'knn', KNeighborsClassifier, takes none"):
        PooledClassifier([("knn", KNeighborsClassifier())]).fit(X, y, np.arange(1.0, 31.0))


def test_a_pool_of_no_weight_says_the_class_shares():
    none = Weighing("logarithmic", np.zeros(2))
    shares = np.log([0.2, 0.8])
    np.testing.assert_allclose(pooled(none, np.zeros((2, 3, 2)), shares), np.tile(shares, (3, 1)))


# -- explanations ----------------------------------------------------------------------------------


def mixed(n=150, seed=0):
    """Return a table with a number, a category, missing cells and two columns that interact."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "b": rng.normal(size=n),
            "kind": rng.choice(["x", "y", "z"], size=n),
        }
    )
    odds = table["a"].fillna(0) * table["b"] + (table["kind"] == "x")
    return table, np.where(odds + rng.logistic(size=n) > 0, "yes", "no")


@pytest.mark.parametrize(("pooling", "k"), [("logarithmic", 3), ("linear", 2)])
def test_columns_and_members_add_up_to_the_pool_s_log_odds(pooling, k):
    table, y = mixed()
    y = y if k == 2 else np.where(table["kind"] == "z", "other", y)
    members = ["nb", ("lda", GaussianDiscriminant("shared", tradeoff=1)), "boosting"]
    members = members if k > 2 else members[::2]
    pool = PooledClassifier(members, pooling=pooling, cv=3).fit(table, y)
    found = explain(pool, table[:6])
    expected = pool.predict_log_proba(table[:6])
    scores = found.scores - np.logaddexp.reduce(found.scores, axis=1)[:, None]
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    if pooling == "logarithmic" and len(pool.member_names_) > 1:
        added = np.log(pool.class_prior_) + sum(found.members.values())
        added -= np.logaddexp.reduce(added, axis=1)[:, None]
        np.testing.assert_allclose(added, expected, atol=1e-9)


def test_a_member_of_ours_explains_itself():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = NaiveBayes(tradeoff=1).fit(X, y)
    pools = [
        PooledClassifier([("nb", FrozenEstimator(model))], pseudo_count=1e-12).fit(X, y),
        PooledClassifier([("nb", model)], cv="prefit", pseudo_count=1e-12).fit(X, y),
    ]
    for pool in pools:
        columns = explain(pool, X[:5]).log_odds(2)[1]
        expected = pool.weights_["nb"] * explain(model, X[:5]).log_odds(2)[1]
        np.testing.assert_allclose(columns, expected, rtol=1e-6)


class Product(ClassifierMixin, BaseEstimator):
    """A known posterior: log-odds x0 + 2 x1 x2 - 3 x3."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        X = np.asarray(X, dtype=float)
        p = 1 / (1 + np.exp(-(X[:, 0] + 2 * X[:, 1] * X[:, 2] - 3 * X[:, 3])))
        return np.column_stack([1 - p, p])


def test_shapley_values_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (rng.random(60) < Product().fit(X, [0, 1]).predict_proba(X)[:, 1]).astype(int)
    pool = PooledClassifier([("f", Product())], pseudo_count=1e-9).fit(X, y)
    columns = explain(pool, X[:3]).log_odds(1)[1] / pool.weights_["f"]
    b = pool.background_
    assert not (b[:, None] == X).all(axis=2).any()  # none is a row of the table
    # By hand: the value of a set of columns is the mean over the background of the others.
    for x, found in zip(X[:3], columns, strict=True):
        mean = b.mean(axis=0)
        both = 2 * (x[1] * x[2] - (b[:, 1] * b[:, 2]).mean())
        one = 2 * (x[1] * mean[2] - (b[:, 1] * b[:, 2]).mean())
        other = 2 * (x[2] * mean[1] - (b[:, 1] * b[:, 2]).mean())
        expected = [
            x[0] - mean[0], (one + both - other) / 2, (other + both - one) / 2,
            -3 * (x[3] - mean[3]),
        ]  # fmt: skip
        np.testing.assert_allclose(found, expected, atol=1e-6)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("estimators", "k"), [(["boosting"], 2), ("default", 3)])
def test_a_default_pool_is_kept_in_a_file(tmp_path, estimators, k):
    pytest.importorskip("skops")
    table, y = mixed()
    y = y if k == 2 else np.where(table["kind"] == "z", "other", y)
    pool = PooledClassifier(estimators, pooling="linear", cv=2).fit(table, y)
    save_model(pool, tmp_path / "pool.skops")
    loaded = load_model(tmp_path / "pool.skops").estimator
    np.testing.assert_array_equal(loaded.predict_proba(table), pool.predict_proba(table))


def spoilt_forest(pool):
    tree = pool.estimators_[0][-1].estimators_[0].tree_
    _, arguments, state = tree.__reduce__()
    nodes = state["nodes"].copy()
    yield "left_child", len(nodes) + 5, nodes, tree, arguments, state
    yield "left_child", 0, nodes, tree, arguments, state  # an endless loop
    yield "feature", 10**6, nodes, tree, arguments, state
    yield "feature", -7, nodes, tree, arguments, state


def test_a_forest_with_nodes_out_of_bounds_is_refused_before_it_predicts(tmp_path):
    pytest.importorskip("skops")
    fitted = PooledClassifier(["forest"], cv=2).fit(*mixed())
    forest = fitted.estimators_[0][-1]
    forest.estimators_ = forest.estimators_[:3]
    for number in range(4):
        pool = copy.deepcopy(fitted)
        what, value, nodes, tree, arguments, state = list(spoilt_forest(pool))[number]
        nodes[what][0] = value
        spoilt = type(tree)(*arguments)
        spoilt.__setstate__(state | {"nodes": nodes})
        pool.estimators_[0][-1].estimators_[0].tree_ = spoilt
        save_model(pool, tmp_path / "pool.skops")
        with pytest.raises(DataError, match=r"a tree (has a node|asks for a column) out of its"):
            load_model(tmp_path / "pool.skops")


@pytest.fixture(scope="module")
def boosted():
    table, y = mixed(400)
    table["kind"] = np.where(y == "yes", table["kind"], "w")  # worth a split
    return PooledClassifier(["boosting"], cv=2).fit(table, y)


@pytest.mark.parametrize(
    ("what", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 99), ("bitset_idx", 10**6)]
)
def test_a_boosting_with_nodes_out_of_bounds_is_refused_too(tmp_path, boosted, what, value):
    pytest.importorskip("skops")
    pool = copy.deepcopy(boosted)
    predictor = pool.estimators_[0].model_._predictors[0][0]
    nodes = predictor.nodes.copy()
    inner = nodes["is_leaf"] == 0
    nodes[what][inner & ((what != "bitset_idx") | (nodes["is_categorical"] == 1))] = value
    predictor.nodes = nodes
    save_model(pool, tmp_path / "pool.skops")
    with pytest.raises(DataError, match=r"out of its bounds|does not fit its columns"):
        load_model(tmp_path / "pool.skops")
