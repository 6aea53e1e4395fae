"""The posterior as a linear function of sufficient statistics, and as scikit-learn's model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from crossfade import NaiveBayes
from tests.classifiers.models import (
    CONTINUOUS,
    CONTINUOUS_AND_TRADEOFFS,
    DENSITIES,
    continuous,
    mixed,
)


@pytest.mark.parametrize(
    ("name", "tradeoff", "k"),
    [
        (name, tradeoff, k)
        for name, tradeoff in CONTINUOUS_AND_TRADEOFFS
        for k in (2, 3)
        if tradeoff != "auto" or (k == 2) is (name == "full")
    ],
)
def test_coefficients_make_the_decision(name, tradeoff, k):
    X, y = continuous(k=k)
    X = X * [1e-3, 1.0, 50.0] + [0.0, 7.0, -300.0]
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    T = model.sufficient_statistics(X)
    assert model.coef_.shape == (1 if k == 2 else k, T.shape[1])
    assert model.intercept_.shape == (model.coef_.shape[0],)
    scores = T @ model.coef_.T + model.intercept_
    decision = model.decision_function(X)
    if k == 2:
        np.testing.assert_allclose(scores[:, 0], decision, atol=1e-7)
        posterior = model.predict_proba(X)
        np.testing.assert_allclose(decision, np.log(posterior[:, 1] / posterior[:, 0]), atol=1e-6)
        np.testing.assert_array_equal(model.predict(X), (decision > 0).astype(int))
    else:
        np.testing.assert_allclose(log_softmax(scores, axis=1), decision, atol=1e-7)
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-6)
        np.testing.assert_array_equal(model.predict(X), decision.argmax(axis=1))


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("k", [2, 3])
def test_coefficients_of_mixed_columns(k, tradeoff):
    X, y = mixed(k=k)
    model = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
    T = model.sufficient_statistics(X)
    # x and x², one indicator less than categories, the bit and the count.
    assert T.shape[1] == 2 + 2 + 1 + 1
    scores = T @ model.coef_.T + model.intercept_
    full = scores if k == 3 else np.column_stack([np.zeros(len(X)), scores])
    np.testing.assert_allclose(log_softmax(full, axis=1), model.predict_log_proba(X), atol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_bernoulli_coefficients_are_the_textbooks(alpha):
    """w_j = log a_j (1 - b_j) / (b_j (1 - a_j)), a and b the chances in the two classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.random((200, 4)) < [0.2, 0.5, 0.9, 0.4] + 0.1 * y[:, None]
    model = NaiveBayes(tradeoff=1, alpha=alpha).fit(X, y)
    a, b = ((X[y == k].sum(axis=0) + alpha) / ((y == k).sum() + 2 * alpha) for k in (1, 0))
    np.testing.assert_allclose(model.coef_[0], np.log(a * (1 - b) / (b * (1 - a))), rtol=1e-10)
    bias = np.log((y == 1).mean() / (y == 0).mean()) + np.log((1 - a) / (1 - b)).sum()
    np.testing.assert_allclose(model.intercept_, bias, rtol=1e-10)


def test_shared_variance_coefficients_are_fishers():
    X, y = continuous(k=2)
    model = NaiveBayes(shared_variance=True, tradeoff=1, var_smoothing=0).fit(X, y)
    means = np.array([X[y == k].mean(axis=0) for k in range(2)])
    variance = ((X - means[y]) ** 2).mean(axis=0)
    np.testing.assert_allclose(model.coef_[0], (means[1] - means[0]) / variance, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_to_logistic_regression_has_the_same_posteriors(name, tradeoff, k):
    X, y = continuous(k=k)
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    logistic = model.to_logistic_regression()
    assert type(logistic) is LogisticRegression
    linear = "shared" in name
    assert model.density_.linear_in_columns == linear
    T = X if linear else model.sufficient_statistics(X)
    np.testing.assert_allclose(logistic.predict_proba(T), model.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(logistic.predict(T), model.predict(X))
    # It is a copy: nothing of the model changes with it.
    before = model.predict_proba(X)
    logistic.coef_[:] = 0.0
    logistic.classes_[:] = 9
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == list(range(k))


@pytest.mark.parametrize("density", ["bernoulli", "poisson"])
@pytest.mark.parametrize("k", [2, 3])
def test_to_logistic_regression_over_discrete_columns(density, k):
    rng = np.random.default_rng(0)
    y = rng.integers(k, size=150)
    X = rng.poisson(0.5 + 0.4 * y[:, None], size=(150, 3)).astype(float)
    X = np.minimum(X, 1.0) if density == "bernoulli" else X
    names = np.array(["low", "mid", "top"])[y]
    for tradeoff in (1, 0):
        model = NaiveBayes(density, tradeoff=tradeoff).fit(X, names)
        logistic = model.to_logistic_regression()
        np.testing.assert_allclose(logistic.predict_proba(X), model.predict_proba(X), atol=1e-10)
        assert logistic.predict(X).tolist() == model.predict(X).tolist()


def test_to_logistic_regression_knows_the_columns_names():
    import pandas as pd

    X, y = continuous()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = NaiveBayes(shared_variance=True, tradeoff=1).fit(table, y)
    logistic = model.to_logistic_regression()
    assert logistic.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        logistic.predict_proba(table), model.predict_proba(table), atol=1e-10
    )


def test_statistics_of_missing_cells_are_zero():
    X, y = mixed(missing=0.2)
    model = NaiveBayes(DENSITIES, tradeoff=1).fit(X, y)
    empty = model.sufficient_statistics(np.full((1, 4), np.nan))
    np.testing.assert_array_equal(empty, 0.0)


def test_statistics_are_in_the_columns_units():
    X, y = continuous(k=2)
    table = pl.DataFrame(X, schema=["a", "b", "c"])
    T = NaiveBayes(tradeoff=0).fit(table, y).sufficient_statistics(table)
    np.testing.assert_array_equal(T, np.hstack([X, X**2]))
    T = CONTINUOUS["full"](tradeoff=0).fit(table, y).sufficient_statistics(table)
    pairs = [X[:, i] * X[:, j] for i in range(3) for j in range(i + 1)]
    np.testing.assert_allclose(T, np.column_stack([X, *pairs]), rtol=1e-12)
