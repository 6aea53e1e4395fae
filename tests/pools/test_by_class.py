"""A weight for each member and class: beta calibration, and the shared weights where these are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from crossfade import DataError, NaiveBayes, PooledClassifier, explain
from crossfade.pools.weights import POOLINGS, pooled, weigh
from crossfade.tradeoff.pooling import LogarithmicLoss
from tests.pools.test_pooled import evidence

PAIR = [("nb", NaiveBayes(tradeoff=1)), ("lr", LogisticRegression(max_iter=2000, tol=1e-9))]


def by_class(**changes):
    return dataclasses.replace(evidence(**changes), by_class=True)


@pytest.mark.parametrize("selection", ["log_loss", "brier"])
def test_weights_that_are_equal_over_classes_have_the_shared_loss(selection):
    given = by_class(selection=selection)
    shared = POOLINGS["logarithmic"](dataclasses.replace(given, by_class=False))[0]
    wide = POOLINGS["logarithmic"](given)[0]
    for w in (np.zeros(4), np.array([0.5, 0.0, 0.3, 0.1]), np.full(4, 2.0)):
        value, seen = shared.evaluate(w)
        spread = np.repeat(w, 3)
        wide_value, wide_seen = wide.evaluate(spread)
        assert wide_value == pytest.approx(value, rel=1e-12)
        gradient = wide.model(spread, wide_seen)[0].reshape(4, 3).sum(axis=1)
        np.testing.assert_allclose(gradient, shared.model(w, seen)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("selection", ["log_loss", "brier"])
def test_gradients_by_row_and_the_hessian_are_those_of_the_value(selection):
    loss = POOLINGS["logarithmic"](by_class(n=40, selection=selection))[0]
    w = np.linspace(0.1, 0.6, 12)
    found = loss.evaluate(w)[1]
    slope = approx_fprime(w, lambda v: loss.evaluate(v)[0], 1e-7)
    rows = loss.row_gradients(w, found).sum(axis=0) + loss.ridge.gradient(w)
    np.testing.assert_allclose(rows, slope, atol=2e-4)
    np.testing.assert_allclose(loss.model(w, found)[0], rows, rtol=1e-9)

    def gradient(v):
        return loss.model(v, loss.evaluate(v)[1])[0]

    H = [(gradient(w + step) - gradient(w - step)) / 2e-5 for step in 1e-5 * np.eye(12)]
    np.testing.assert_allclose(loss.hessian(w, found), H, atol=1e-6)


def test_the_weights_are_those_of_least_loss():
    given = by_class(n=400)
    loss = POOLINGS["logarithmic"](given)[0]
    found = weigh(given, ["logarithmic"]).weights
    relative = given.scores - given.log_prior
    labels = 0.2 / 400.2 * np.exp(given.log_prior) + 400 / 400.2 * np.eye(3)[given.codes]
    strength, middle = loss.ridge.strength, loss.ridge.middle

    def value(flat):
        joint = given.log_prior + (flat.reshape(4, 1, 3) * relative).sum(axis=0)
        joint -= np.logaddexp.reduce(joint, axis=1)[:, None]
        return -(labels * joint).sum() + 0.5 * (strength * (flat - middle) ** 2).sum()

    best = minimize(value, np.full(12, 0.2), bounds=[(0, None)] * 12, method="L-BFGS-B",
                    options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000})  # fmt: skip
    np.testing.assert_allclose(found.ravel(), best.x, atol=2e-3)
    assert value(found.ravel()) <= best.fun + 1e-4


def test_a_member_that_is_surer_of_one_class_than_it_should_be_is_mended_there():
    """Two classes: beta calibration, the log-odds a log p1 - b log p0 + log-odds of the shares."""
    rng = np.random.default_rng(3)
    n = 20_000
    p = rng.beta(0.5, 0.5, size=n).clip(1e-9, 1 - 1e-9)
    odds = 0.4 * np.log(p / 0.5) - 1.3 * np.log((1 - p) / 0.5)
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    scores = np.log(np.stack([1 - p, p], axis=1))[None]
    ones, half = np.ones(n), np.log([0.5, 0.5])
    template = by_class()
    given = dataclasses.replace(
        template, scores=scores, codes=y, fold=np.arange(n) % 5, weights=ones, log_prior=half
    )
    found = weigh(given, ["logarithmic"]).weights
    np.testing.assert_allclose(found, [[1.3, 0.4]], atol=0.06)
    shared = dataclasses.replace(given, by_class=False)
    losses = [
        one.losses(pooled(weigh(one, ["logarithmic"]), scores, half)) for one in (given, shared)
    ]
    assert losses[0]["log_loss"] < losses[1]["log_loss"]


def test_classes_named_anew_have_their_weights():
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    names = np.array(["setosa", "zebra", "apple"])
    one = PooledClassifier(PAIR, weights="by_class").fit(X, y)
    other = PooledClassifier(PAIR, weights="by_class").fit(X, names[y])
    order = [other.classes_.tolist().index(name) for name in names]
    for name, w in one.weights_by_class_.items():
        np.testing.assert_allclose(other.weights_by_class_[name][order], w, atol=1e-4)
        assert one.weights_[name] == pytest.approx(w.mean())
    np.testing.assert_allclose(other.predict_proba(X)[:, order], one.predict_proba(X), atol=1e-4)


def test_weights_are_repetitions():
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    weights = np.tile([1, 2, 0], 50)
    weighted = PooledClassifier(PAIR, weights="by_class").fit(X, y, sample_weight=weights)
    repeated = PooledClassifier(PAIR, weights="by_class").fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_the_formula_its_explanation_and_what_is_refused():
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(size=X.shape)
    pool = PooledClassifier(PAIR, weights="by_class").fit(X, y)
    shares = np.full(3, 1 / 3)
    each = [(150 * m.predict_proba(X) + shares) / 151 for m in pool.estimators_]
    expected = shares * np.prod(
        [
            (p / shares) ** pool.weights_by_class_[name]
            for p, name in zip(each, pool.member_names_, strict=True)
        ],
        axis=0,
    )
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pool.predict_proba(X), expected, rtol=1e-9)
    found = explain(pool, X[:3])
    scores = found.scores - np.logaddexp.reduce(found.scores, axis=1)[:, None]
    np.testing.assert_allclose(scores, np.log(expected[:3]), atol=1e-9)
    # A mixture has shared weights; the better of the two may be either.
    best = PooledClassifier(PAIR, weights="by_class", pooling="best").fit(X, y)
    assert (best.weights_by_class_ is None) == (best.pooling_ == "linear")
    with pytest.raises(DataError, match="weights: expected 'shared' with pooling='linear'"):
        PooledClassifier(PAIR, weights="by_class", pooling="linear").fit(X, y)
    with pytest.raises(DataError, match="weights: expected 'shared' or 'by_class', got 'each'"):
        PooledClassifier(PAIR, weights="each").fit(X, y)


def test_many_classes_are_weighed_on_as_many_rows_as_memory_allows():
    given = by_class(n=200)
    assert given.sample().codes.size == 200
    wide = np.broadcast_to(given.scores[:, :, :1], (4, 200, 300))
    many = dataclasses.replace(given, scores=wide, log_prior=np.zeros(300))
    assert many.sample().codes.size <= 20_000_000 // (4 * 300**2) + 1
    assert isinstance(POOLINGS["logarithmic"](given)[0], LogarithmicLoss)
