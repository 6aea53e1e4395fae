"""Standard errors: against other formulas, and against what each row's weight does to the fit."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from scipy.special import expit, logit, softmax
from scipy.stats import norm
from sklearn.base import clone

from crossfade import DataError, GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.densities import BinaryWords, Gaussian, JohnsonSU, Multinomial
from crossfade.errors import SeparationWarning
from crossfade.glm import BinomialRegression, MultinomialRegression
from crossfade.io import load_model, save_model, scan
from crossfade.table.text import Text
from crossfade.tradeoff.estimating import (
    _normaliser_gradient,
    curvature,
    row_gradients,
    unlabelled_gradients,
)
from crossfade.tradeoff.leverage import without_itself
from crossfade.tradeoff.limit import moves_of_limit, settled
from crossfade.tradeoff.path import cold_start, minimise
from crossfade.tradeoff.pooling import least_loss
from crossfade.tradeoff.score_slopes import to_natural
from tests.classifiers.models import DENSITIES, mixed
from tests.classifiers.test_unlabelled import DENSITIES as UNLABELLED
from tests.classifiers.test_unlabelled import case


def drawn(n=120, k=2, d=2, seed=0):
    """Return correlated columns and classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat(np.arange(k), 4), rng.integers(k, size=n - 4 * k)])
    X = rng.normal(size=(n, d)) * (1.0 + 0.2 * y[:, None]) + 0.7 * y[:, None]
    X[:, 1:] += 0.5 * X[:, :-1]
    return X, y


def gaussian(tradeoff, **parameters):
    return NaiveBayes("gaussian", tradeoff=tradeoff, l2=0, var_smoothing=0, **parameters)


def without_leverage(model):
    """Return the model with the errors of gradients as they are, in intervals, too."""
    model._fitted = model._fitted.with_errors(model._fitted.computed_errors("HC0"))
    return model


# -- the ends, by other formulas -------------------------------------------------------------------


def test_without_penalty_the_discriminative_end_has_the_robust_errors_of_a_regression():
    X, y = drawn()
    regression = BinomialRegression().fit(X, y)
    found = gaussian(0, shared_variance=True).fit(X, y).summary(covariance="HC0")
    assert_allclose(found.covariance, regression.robust_covariance("HC0"), rtol=1e-8)
    assert_allclose(found.estimates, np.append(regression.intercept_, regression.coef_), rtol=1e-8)
    said = regression.summary(covariance="HC0")
    for name in ("standard_errors", "statistics", "p_values", "lower", "upper"):
        assert_allclose(getattr(found, name), getattr(said, name), rtol=1e-7)


def test_in_groups_it_has_its_cluster_robust_errors():
    X, y = drawn()
    groups = np.random.default_rng(1).integers(25, size=len(y))
    expected = BinomialRegression().fit(X, y).robust_covariance("cluster", groups)
    expected *= (len(y) - 3) / (len(y) - 1)  # a factor for the coefficients, which no λ > 0 has
    found = gaussian(0, shared_variance=True).fit(X, y, groups=groups).summary(covariance="HC0")
    assert_allclose(found.covariance, expected, rtol=1e-8)
    assert ("groups", "25") in found.facts


def test_of_several_classes_it_has_the_errors_of_the_multinomial_regression():
    X, y = drawn(200, 3)
    regression = MultinomialRegression().fit(X, y)
    found = gaussian(0, shared_variance=True).fit(X, y).summary(covariance="HC0")
    assert_allclose(found.covariance, regression.robust_covariance("HC0"), rtol=1e-7)


def test_the_generative_end_has_the_errors_of_means_and_a_variance():
    X, y = drawn(d=1)
    found = gaussian(1, shared_variance=True).fit(X, y).summary(covariance="HC0")
    x, counts = X[:, 0], np.bincount(y)
    means = np.array([x[y == 0].mean(), x[y == 1].mean()])
    away = x - means[y]
    variance = np.mean(away**2)
    slope = (means[1] - means[0]) / variance
    # Derivatives of the slope and the intercept in each row's weight.
    of_mean = np.where(np.arange(2) == y[:, None], away[:, None] / counts, 0.0)
    of_variance = (away**2 - variance) / len(y)
    of_slope = (of_mean[:, 1] - of_mean[:, 0]) / variance - slope / variance * of_variance
    square = means[1] ** 2 - means[0] ** 2
    of_square = 2.0 * (means[1] * of_mean[:, 1] - means[0] * of_mean[:, 0])
    of_prior = np.where(y == 1, 1.0 / counts[1], -1.0 / counts[0])
    of_intercept = of_prior - of_square / (2 * variance) + square / (2 * variance**2) * of_variance
    influence = np.column_stack([of_intercept, of_slope])
    assert_allclose(found.covariance, influence.T @ influence, rtol=1e-9)


def test_the_generative_end_has_the_errors_of_counts():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = pd.DataFrame({"c": rng.choice(list("abc"), 200, p=[0.2, 0.3, 0.5])})
    found = NaiveBayes(tradeoff=1, alpha=0).fit(X, y).summary(covariance="HC0")
    counts = np.array([[np.sum((X.c == c) & (y == k)) for c in "abc"] for k in (0, 1)])
    base = [term.removeprefix("c = ") for term in found.terms[1:]]
    (left_out,) = set("abc") - set(base)
    for term, error in zip(base, found.standard_errors[1:], strict=True):
        both = counts[:, ["abc".index(term), "abc".index(left_out)]]
        assert_allclose(error**2, (1.0 / both).sum(), rtol=1e-9)  # Woolf's, of an odds ratio
    assert [one.df for one in found.tests] == [2]


# -- any λ: what a row's weight does to the fit ----------------------------------------------------


def moved_by_rows(make, X, y, of_fit, step=1e-3, **given):
    """Return the derivative of what a fit gives in each row's weight, by differences."""
    found = []
    for row in range(len(y)):
        ends = []
        for sign in (1, -1):
            weights = np.ones(len(y))
            weights[row] += sign * step
            ends.append(of_fit(make().fit(X, y, weights, **given)))
        found.append((ends[0] - ends[1]) / (2 * step))
    return np.array(found)


def covariance(influence):
    away = influence - influence.mean(axis=0)
    return away.T @ away


def linear(model):
    coefficients, intercepts = model._log_odds_linear(0)
    return np.column_stack([intercepts, coefficients]).ravel()


MODELS = {
    "own variances": lambda t, **p: gaussian(t, **p),
    "shared variance": lambda t, **p: gaussian(t, shared_variance=True, **p),
    "full": lambda t, **p: GaussianDiscriminant("full", tradeoff=t, l2=0, **p),
    "shared": lambda t, **p: GaussianDiscriminant("shared", tradeoff=t, l2=0, **p),
    "spherical": lambda t, **p: GaussianDiscriminant(
        "spherical", tradeoff=t, l2=0, standardise=False, **p
    ),
    "shrunk": lambda t, **p: GaussianDiscriminant("full", tradeoff=t, l2=0, shrinkage=0.4, **p),
    "shared and shrunk": lambda t, **p: GaussianDiscriminant(
        "shared", tradeoff=t, l2=0, shrinkage=0.4, **p
    ),
}


def check(make, X, y, new, factors=1.0, **given):
    """Compare standard errors with what each row's weight does to the fit."""

    def of_fit(model):
        return np.concatenate([linear(model), logit(model.predict_proba(new)).ravel()])

    model = without_leverage(make().fit(X, y, **given))
    found = model.summary(covariance="HC0")
    expected = covariance(moved_by_rows(make, X, y, of_fit, **given) * factors)
    size = found.estimates.size
    scale = np.sqrt(np.diagonal(expected))
    assert_allclose(found.standard_errors, scale[:size], rtol=2e-5)
    assert_allclose(
        found.covariance / np.outer(scale[:size], scale[:size]),
        expected[:size, :size] / np.outer(scale[:size], scale[:size]),
        atol=2e-5,
    )
    posterior, low, high = model.predict_proba(new, interval=0.9)
    assert_allclose(posterior, model.predict_proba(new), rtol=1e-12)
    width = norm.ppf(0.95) * scale[size:].reshape(posterior.shape)
    assert_allclose(low, expit(logit(posterior) - width), rtol=1e-4)
    assert_allclose(high, expit(logit(posterior) + width), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "tradeoff"),
    [
        *((name, 0.5) for name in MODELS if name != "shared and shrunk"),
        ("shared", 0),
        ("shared", 1),
        ("full", 0),
        ("full", 1),
        ("shrunk", 1),
        pytest.param("shared and shrunk", 0.5, marks=pytest.mark.slow),
        pytest.param("spherical", 1, marks=pytest.mark.slow),
    ],
)
def test_errors_are_those_of_what_each_row_does_to_the_fit(name, tradeoff):
    X, y = drawn(24 if name == "shared" else 20, 3 if name == "shared" else 2)
    check(lambda: MODELS[name](tradeoff), X, y, X[:4] + 0.3)


@pytest.mark.parametrize(
    ("tradeoff", "missing"),
    [
        (1, 0.0),
        (0.4, 0.1),
        pytest.param(0.4, 0.0, marks=pytest.mark.slow),
        pytest.param(1, 0.1, marks=pytest.mark.slow),
    ],
)
def test_so_with_columns_of_every_kind_and_missing_cells(tradeoff, missing):
    X, y = mixed(40 if missing == 0.0 else 60, missing=missing)
    new = X[:5].copy()
    new[1:4, :3] = np.where(np.eye(3) > 0, np.nan, new[1:4, :3])
    # Smoothed towards what all rows are, which each row moves.
    check(
        lambda: NaiveBayes(DENSITIES, tradeoff=tradeoff, l2=0, var_smoothing=0.1, alpha=1),
        X,
        y,
        new,
    )


@pytest.mark.parametrize("tradeoff", [1.0, 0.4])
@pytest.mark.parametrize(
    "density", [Gaussian(False, 0.1, 2.0), JohnsonSU(0.0, 1.0, True, 0.0, 2.0)]
)
def test_pseudo_rows_move_with_the_class_in_whose_middle_they_are(density, tradeoff):
    X, y = drawn(24, 2)
    X[3, 0] = X[20, 1] = np.nan
    check(lambda: NaiveBayes(density, tradeoff=tradeoff, l2=0), X, y, X[:4])


@pytest.mark.parametrize("tradeoff", [1.0, pytest.param(0.4, marks=pytest.mark.slow)])
def test_so_do_those_that_a_search_has(tradeoff, monkeypatch):
    monkeypatch.setattr("crossfade.tradeoff.grid.TRADEOFFS", (tradeoff,))
    X, y = drawn(24, 2)
    category = np.random.default_rng(3).choice(["u", None, "v"], 24)
    table = pd.DataFrame(X).add_prefix("x").assign(c=category)
    make = partial(GaussianDiscriminant, "full", tradeoff="best", l2=0)
    (member,) = make().fit(table, y)._fitted.evidence.members
    assert (member.objective.bound.prior_counts[:, 0] > 0).all()
    check(make, table, y, table[:4])


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_shares_that_are_given_are_fixed_and_those_of_rows_are_not(tradeoff):
    X, y = drawn(24, 3)
    check(lambda: gaussian(tradeoff, class_prior=[0.5, 0.3, 0.2]), X, y, X[:3])


@pytest.mark.parametrize("tradeoff", [0.5, "auto"])
def test_shares_given_later_have_the_errors_of_shares_given_first(tradeoff):
    X, y = drawn(60, 3)
    shares = [0.5, 0.3, 0.2]
    make = NaiveBayes if tradeoff == "auto" else lambda: gaussian(tradeoff)
    later = make().fit(X, y).with_class_prior(shares)
    posterior, low, high = later.predict_proba(X, interval=0.9)
    assert_allclose(posterior, later.predict_proba(X), rtol=1e-12)
    if tradeoff != "auto":
        first = gaussian(tradeoff, class_prior=shares).fit(X, y)
        assert_allclose((posterior, low, high), first.predict_proba(X, interval=0.9), rtol=1e-9)
    assert ((low < posterior) & (posterior < high)).all()


def test_what_a_class_counts_for_is_no_number_of_rows():
    X, y = drawn(30)
    check(lambda: gaussian(0.5, class_weight={0: 3.0, 1: 1.0}), X, y, X[:3])


# -- few rows: what each row draws to itself -------------------------------------------------------


def test_without_penalty_the_discriminative_end_divides_by_one_less_the_leverage():
    X, y = drawn()
    found = gaussian(0, shared_variance=True).fit(X, y).summary()
    regression = BinomialRegression().fit(X, y)
    design = np.column_stack([np.ones(len(y)), X])
    p = expit(regression.intercept_ + X @ regression.coef_)
    H = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
    leverage = np.einsum("ij,jk,ik->i", design, H, design) * p * (1 - p)
    moved = design * ((y - p) / (1 - leverage))[:, None] @ H
    assert_allclose(found.covariance, moved.T @ moved, rtol=1e-8)
    assert "Standard errors: sandwich (HC3)." in str(found)
    assert "asinh(x): " not in str(found)


def test_a_summary_says_what_asinh_is_of():
    X, y = drawn()
    summary = str(NaiveBayes(JohnsonSU(0.0, 1.0), tradeoff=0.5).fit(X, y).summary())
    assert "asinh(x0)" in summary
    assert "asinh(x): asinh of x less its mean, over its standard deviation" in summary


@pytest.mark.parametrize("tradeoff", [0, 0.5, 1])
@pytest.mark.parametrize("name", ["shared", "full", "mixture"])
def test_gradients_are_those_at_the_fit_without_the_row_to_first_order(name, tradeoff):
    X, y = drawn(60, 3) if name != "mixture" else humps(60)
    model = {
        "shared": lambda: GaussianDiscriminant("shared", tradeoff=tradeoff),
        "full": lambda: GaussianDiscriminant("full", tradeoff=tradeoff),
        "mixture": lambda: GaussianDiscriminant("diagonal", components=2, tradeoff=tradeoff),
    }[name]().fit(X, y)
    ((objective, theta),) = ((one.objective, one.theta) for one in model._fitted.evidence.members)
    rows, every = row_gradients(objective, theta), slice(0, 60)

    def own(at):
        found = row_gradients(objective, at)(every)
        return found - tradeoff * (_normaliser_gradient(objective, at) if tradeoff else 0.0)

    ends = [[own(theta + sign * 1e-5 * one) for sign in (1, -1)] for one in np.eye(theta.size)]
    D = np.stack([(ahead - behind) / 2e-5 for ahead, behind in ends], axis=2)
    inverse = np.linalg.inv(curvature(objective, theta))
    left = 1.0 - tradeoff / np.bincount(y)[y]
    expected = np.linalg.solve(np.eye(theta.size) - D @ inverse, rows(every)[:, :, None])[:, :, 0]
    found = without_itself(objective, theta, inverse, rows)(every)
    assert_allclose(found, expected / left[:, None], rtol=1e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("tradeoff", [0, 0.5, 1])
def test_errors_come_nearer_to_those_of_fits_without_each_row(tradeoff):
    X, y = drawn(80, 3)
    make = partial(NaiveBayes, "gaussian", shared_variance=True, tradeoff=tradeoff)
    model = make().fit(X, y)
    left_out = [linear(make().fit(np.delete(X, i, axis=0), np.delete(y, i))) for i in range(80)]
    expected = np.sqrt(((left_out - linear(model)) ** 2).sum(axis=0))
    near = model.summary().standard_errors / expected
    far = model.summary(covariance="HC0").standard_errors / expected
    assert (np.abs(near - 1.0) < 0.7 * np.abs(far - 1.0)).all()


@pytest.mark.parametrize("n_groups", [6, 40])
@pytest.mark.parametrize("tradeoff", [0, 0.5, 1])
@pytest.mark.parametrize("name", ["shared", "full", "mixture"])
def test_gradients_of_groups_are_those_at_the_fit_without_the_group(name, tradeoff, n_groups):
    """Of groups that have more rows than the fit has parameters, and of fewer."""
    X, y = drawn(200, 3) if name != "mixture" else humps(200)
    groups, weights = np.arange(200) ** 2 % 97 % n_groups, 1.0 + np.arange(200) % 2
    model = {
        "shared": lambda: GaussianDiscriminant("shared", tradeoff=tradeoff),
        "full": lambda: GaussianDiscriminant("full", tradeoff=tradeoff),
        "mixture": lambda: GaussianDiscriminant("diagonal", components=2, tradeoff=tradeoff),
    }[name]().fit(X, y, weights)
    ((objective, theta),) = ((one.objective, one.theta) for one in model._fitted.evidence.members)
    rows, every = row_gradients(objective, theta), slice(0, 200)
    members = np.eye(groups.max() + 1)[groups].T * weights
    k = y.max() + 1
    of_class = members @ np.eye(k)[y] / np.bincount(y, weights)
    divided = rows(every) / (1.0 - tradeoff * of_class[groups, y])[:, None]

    def own(at):
        found = row_gradients(objective, at)(every)
        return members @ (
            found - tradeoff * (_normaliser_gradient(objective, at) if tradeoff else 0.0)
        )

    ends = [[own(theta + sign * 1e-5 * one) for sign in (1, -1)] for one in np.eye(theta.size)]
    D = np.stack([(ahead - behind) / 2e-5 for ahead, behind in ends], axis=2)
    inverse = np.linalg.inv(curvature(objective, theta))
    expected = np.linalg.solve(np.eye(theta.size) - D @ inverse, (members @ divided)[:, :, None])[
        :, :, 0
    ]
    found = members @ without_itself(objective, theta, inverse, rows, groups)(every)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tradeoff", [0, 0.5, 1])
def test_errors_come_nearer_to_those_of_fits_without_each_group(tradeoff):
    X, y = drawn(150, 3)
    groups = np.arange(150) ** 2 % 97 % 12
    X += np.random.default_rng(1).normal(size=(12, 1))[groups]
    make = partial(NaiveBayes, "gaussian", shared_variance=True, tradeoff=tradeoff)
    model = make().fit(X, y, groups=groups)
    left_out = [linear(make().fit(X[groups != g], y[groups != g])) for g in range(12)]
    expected = np.sqrt(12 / 11 * ((left_out - np.mean(left_out, axis=0)) ** 2).sum(axis=0))
    near = model.summary().standard_errors / expected
    far = model.summary(covariance="HC0").standard_errors / expected
    assert (np.abs(near - 1.0) < 0.6 * np.abs(far - 1.0)).all()


def test_the_discriminative_end_leaves_out_groups_as_a_regression_does():
    """CR3 by its formula: residuals of a group times the inverse of one less its leverage."""
    X, y = drawn()
    groups = np.arange(len(y)) % 15
    found = gaussian(0, shared_variance=True).fit(X, y, groups=groups).summary()
    regression = BinomialRegression().fit(X, y)
    design = np.column_stack([np.ones(len(y)), X])
    p = expit(regression.intercept_ + X @ regression.coef_)
    H = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
    moved = []
    for g in range(15):
        own = groups == g
        Z, w = design[own], (p * (1 - p))[own]
        left = np.linalg.solve(np.eye(own.sum()) - Z @ H @ Z.T * w, np.eye(own.sum()))
        moved.append(H @ (Z.T @ ((y - p)[own] + w * (left @ (Z @ H @ (Z.T @ (y - p)[own]))))))
    assert_allclose(found.covariance, 15 / 14 * np.array(moved).T @ moved, rtol=1e-7)


def test_a_model_without_rows_has_errors_by_leverage_alone():
    X, y = drawn(60)
    model = gaussian(0.5).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.summary().covariance, model.summary().covariance, rtol=1e-12)
    with pytest.raises(DataError, match=r"^covariance: expected 'HC3', which a model without"):
        again.summary(covariance="HC0")
    with pytest.raises(DataError, match=r"^covariance: expected .*'HC3'.*, got 'HC1'"):
        model.summary(covariance="HC1")


# -- cells that are filled in ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tradeoff", "unlabelled"),
    [
        ("full", 0.5, 0),
        ("shared", 1, 0),
        ("shared", 0, 0),
        pytest.param("full", 1, 0, marks=pytest.mark.slow),
        pytest.param("shared", 0.5, 8, marks=pytest.mark.slow),
        pytest.param("spherical", 0.5, 0, marks=pytest.mark.slow),
        pytest.param("shrunk", 1, 0, marks=pytest.mark.slow),
    ],
)
def test_filled_cells_vary_with_what_they_are_filled_by(name, tradeoff, unlabelled, monkeypatch):
    monkeypatch.setattr("crossfade.densities.filling._CHANGE", 0.0)
    monkeypatch.setattr("crossfade.densities.filling._STEPS", 150)
    X, y = drawn(24)
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    given, new = {}, X[np.isnan(X).any(axis=1)][:3]
    assert np.isnan(new).any(axis=1).all()
    if unlabelled:
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order].astype(object)
        y[-unlabelled:] = None
        given = {"unlabelled": "missing", "unlabelled_weight": 0}
    check(lambda: MODELS[name](tradeoff, **given), X, y, np.vstack([new, np.ones((1, 2))]))


@pytest.mark.parametrize("tradeoff", [0, 0.5, 1])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_column_without_cells_changes_no_interval(tradeoff, share):
    X, y = drawn(60)
    X[np.random.default_rng(2).random(X.shape) < share] = np.nan
    longer, weights = np.insert(X, 1, np.nan, axis=1), np.ones(len(y))
    longer[0, 1], weights[0] = 1.0, 0.0  # a row that does not count has one
    model = GaussianDiscriminant("full", tradeoff=tradeoff)
    expected = model.fit(X, y, sample_weight=weights).predict_proba(X[1:9], interval=0.9)
    found = model.fit(longer, y, sample_weight=weights).predict_proba(longer[1:9], interval=0.9)
    assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_filled_cells_beside_categories_vary_so_too(monkeypatch):
    monkeypatch.setattr("crossfade.densities.filling._CHANGE", 0.0)
    monkeypatch.setattr("crossfade.densities.filling._STEPS", 150)
    X, y = drawn(40)
    rng = np.random.default_rng(2)
    X[rng.random(X.shape) < 0.2] = np.nan
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=rng.choice(["u", "v"], 40))
    table.loc[3, "c"] = None
    new = table[table[["a", "b"]].isna().any(axis=1) | table["c"].isna()][:5]
    check(lambda: GaussianDiscriminant("full", tradeoff=0.5, l2=0), table, y, new)


def test_rows_without_a_label_beside_filled_cells_have_errors_below_the_generative_end():
    X, y = drawn(80)
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    labels = y.astype(object)
    labels[::2] = None
    given = {"unlabelled": "missing", "unlabelled_weight": 0.5}
    model = GaussianDiscriminant(tradeoff=0.5, **given).fit(X, labels)
    _, low, high = model.predict_proba(X, interval=0.9)
    assert (low < high).all()
    model = GaussianDiscriminant(tradeoff=1, **given).fit(X, labels)
    with pytest.raises(DataError, match=r"^tradeoff: expected less than 1 .* rows without a label"):
        model.summary()


# -- rows without a label --------------------------------------------------------------------------

WEIGHTS = {0: 2.0, 1: 1.0}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", UNLABELLED)
@pytest.mark.parametrize("tradeoff", [1.0, 0.4])
def test_curvature_with_rows_without_a_label_is_that_of_their_own_likelihood(
    name, tradeoff, missing
):
    if missing and name == "full":
        pytest.skip("cells of a joint Gaussian are filled in")
    objective, _, weights = case(UNLABELLED[name], missing)
    objective = objective.with_penalty(0.0).with_tradeoff(tradeoff)
    theta = minimise(objective, cold_start(objective)).theta

    def gradient(at):
        return objective.completed(at)[0].value_and_gradient(at)[1]

    rng, H = np.random.default_rng(0), curvature(objective, theta)
    for _ in range(5):
        v = rng.normal(size=theta.size)
        of_offsets = objective.split(v)[1]
        of_offsets -= of_offsets.mean()  # adding a constant to these changes nothing
        step = 1e-5 * v
        expected = (gradient(theta + step) - gradient(theta - step)) / 2e-5
        assert_allclose(H @ v, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    # Rows' own gradients sum to the whole one, but for the prior's.
    found = weights[:40] @ row_gradients(objective, theta)(slice(0, 40))
    found += weights[40:] @ unlabelled_gradients(objective, theta)(slice(0, 20))
    passes, counts = objective.passes, objective.bound.prior_counts
    pull = counts[:, passes.factors] * passes.at(theta).slope - passes.prior_sums
    pull = objective.join(pull[:, passes.free], np.zeros(3), pull[:, passes.tied].sum(axis=0))
    assert_allclose(found + tradeoff * pull, gradient(theta), atol=1e-9 * len(weights))


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (lambda **p: gaussian(0.5, shared_variance=True, class_weight=WEIGHTS, **p), 0.1),
        (lambda **p: gaussian(1, class_prior=[0.3, 0.7], **p), 0.0),
        pytest.param(lambda **p: gaussian(0.5, **p), 0.0, marks=pytest.mark.slow),
        pytest.param(
            lambda **p: GaussianDiscriminant("full", tradeoff=1, shrinkage=0.3, **p),
            0.0,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rows_without_a_label_move_a_fit_as_its_errors_say(make, missing, monkeypatch):
    # So many rounds, whether the value still falls or not: it is flat long before the gradient is.
    monkeypatch.setattr("crossfade.tradeoff.path._EM_TOL", -1.0)
    monkeypatch.setattr("crossfade.tradeoff.path._EM_STEPS", 40)
    X, y = drawn(24)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    order = np.random.default_rng(0).permutation(24)
    X, labels = X[order], y[order].astype(object)
    labels[16:] = None
    new = np.nan_to_num(X[:4]) + 0.3
    check(lambda: make(unlabelled="missing", unlabelled_weight=0.6), X, labels, new)


def test_of_two_kinds_of_rows_each_group_may_have_both():
    X, y = drawn(60)
    labels, groups = y.astype(object), np.arange(60) % 20
    labels[::2] = None

    def fitted(groups):
        model = gaussian(0.5, unlabelled="missing", unlabelled_weight=0.5)
        return model.fit(X, labels, groups=groups)

    alone, apart = fitted(None).summary(), fitted(np.arange(60)).summary()
    assert_allclose(apart.covariance, alone.covariance * 60 / 59, rtol=1e-9)
    assert dict(alone.facts)["of them without a label"] == "30, counting 0.5 each"
    for_nothing = gaussian(0.5, unlabelled="missing", unlabelled_weight=0).fit(X, labels).summary()
    assert dict(for_nothing.facts)["beside them without a label"] == "30, counting 0"
    whole, names = fitted(groups), np.array([f"g{g}" for g in groups])
    assert ("groups", "20") in whole.summary().facts
    given = whole.summary(X, labels, groups=names).covariance
    assert_allclose(given, fitted(groups).summary().covariance, rtol=1e-9)
    assert not np.allclose(given, alone.covariance)


@pytest.mark.parametrize("weight", ["auto", 0.5])
def test_a_pool_with_rows_without_a_label_has_errors(weight):
    X, y = drawn(200, d=2)
    labels = y.astype(object)
    labels[50:] = None
    model = NaiveBayes("gaussian", unlabelled="missing", unlabelled_weight=weight).fit(X, labels)
    assert model.unlabelled_weight_ > 0.0
    _, low, high = model.predict_proba(X, interval=0.95)
    assert (low < high).all()
    members = [one.objective for one in model._fitted.evidence.members]
    assert any(one.unlabelled is not None for one in members)
    assert any(one.tradeoff == 0.0 for one in members)


def test_rows_without_a_label_that_count_for_next_to_nothing_change_no_error_of_a_pool():
    X, y = drawn(120, k=3, d=2)
    labels = y.astype(object)
    labels[60:] = None
    few, none = (
        NaiveBayes("gaussian", unlabelled="missing", unlabelled_weight=weight).fit(X, labels)
        for weight in (1e-9, 0)
    )
    # They have their part of what the penalty pulls, as every row has.
    assert_allclose(few.summary().standard_errors, none.summary().standard_errors, rtol=5e-3)


# -- mixtures --------------------------------------------------------------------------------------


def humps(n, seed=0):
    """Return two classes, each of two humps."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(2, size=(2, n))
    centres = np.array([[[-2.0, 0.0], [2.0, 0.0]], [[0.0, -1.0], [0.0, 2.0]]])
    return centres[y, z] + 0.8 * rng.normal(size=(n, 2)), y


@pytest.mark.parametrize(
    ("tradeoff", "missing", "unlabelled"), [(0.5, 0, 0), (0.5, 0, 12), (1, 8, 12)]
)
def test_errors_of_a_mixture_are_those_of_what_each_row_does_to_it(
    tradeoff, missing, unlabelled, monkeypatch
):
    monkeypatch.setattr("crossfade.tradeoff.expectation._PSEUDO_ROWS", 0.0)  # they move with rows
    monkeypatch.setattr("crossfade.tradeoff.path._AT_REST", 0.0)  # nor is EM ever quite at rest
    X, y = humps(44)
    new, labels = X[:4] + 0.3, y.astype(object) if unlabelled else y
    X[np.arange(missing), np.arange(missing) % 2] = np.nan
    labels[44 - unlabelled :] = None if unlabelled else y[44:]
    given = {"unlabelled": "missing", "unlabelled_weight": 0.6} if unlabelled else {}
    make = partial(
        GaussianDiscriminant, "diagonal", components=2, tradeoff=tradeoff, l2=0, n_init=1, **given
    )

    def of_fit(model):
        return np.concatenate([linear(model), logit(model.predict_proba(new)[:, 1])])

    model = without_leverage(make().fit(X, labels))
    expected = covariance(moved_by_rows(make, X, labels, of_fit))
    said = model.summary(covariance="HC0")
    scale = np.sqrt(np.diagonal(expected))
    assert_allclose(said.standard_errors, scale[: said.estimates.size], rtol=2e-3)
    posterior, low, high = model.predict_proba(new, interval=0.9)
    width = norm.ppf(0.95) * scale[said.estimates.size :]
    assert_allclose(logit(high[:, 1]) - logit(posterior[:, 1]), width, rtol=2e-3)
    assert_allclose(logit(posterior[:, 1]) - logit(low[:, 1]), width, rtol=2e-3)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_curvature_of_a_mixture_is_that_of_its_objective(tradeoff):
    X, y = humps(150)
    model = GaussianDiscriminant("diagonal", components=2, tradeoff=tradeoff).fit(X, y)
    ((objective, theta),) = ((one.objective, one.theta) for one in model._fitted.evidence.members)
    rng, H = np.random.default_rng(0), curvature(objective, theta)
    for _ in range(5):
        v = rng.normal(size=theta.size)
        for part in objective.split(v)[: 2 if tradeoff == 0 else 1]:
            part -= part.mean(axis=0) if tradeoff == 0 else 0.0
        objective.split(v)[1][:] -= objective.split(v)[1].mean()
        ends = (objective.value_and_gradient(theta + sign * 1e-5 * v)[1] for sign in (1, -1))
        expected = np.subtract(*ends) / 2e-5
        assert_allclose(H @ v, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_mixtures_have_intervals_and_coefficients_of_components():
    X, y = humps(200)
    names = np.array(["a", "b"])[y]
    model = GaussianDiscriminant(components=2, tradeoff="auto").fit(X, names)
    posterior, low, high = model.predict_proba(X, interval=0.9)
    assert ((low < posterior) & (posterior < high)).all()
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict_proba(X, interval=0.9), (posterior, low, high), rtol=1e-9)
    said = model.summary(reference="b")
    assert said.reference == "b (1)"
    assert set(said.classes) == {"a (1)", "a (2)", "b (2)"}
    assert "Components have no names: errors are of these as the fit found them." in str(said)
    # The components' own posterior is linear in the columns, with these coefficients.
    linear_in = np.column_stack([np.ones(len(X)), X]) @ said.estimates.reshape(3, 3).T
    scores = np.insert(linear_in, 2, 0.0, axis=1)
    assert_allclose(softmax(scores, axis=1).reshape(-1, 2, 2).sum(axis=2), posterior, rtol=1e-8)


def test_components_that_change_places_change_no_interval():
    X, y = humps(150)
    model = GaussianDiscriminant("full", components=2, tradeoff=1).fit(X, y)
    (own,) = model._fitted.evidence.members
    order = np.array([1, 0, 3, 2])
    found = own.objective.parameters(own.theta)
    swapped = replace(found, natural=found.natural[order], offset=found.offset[order])
    member = replace(own, found=own.objective.theta(swapped))
    evidence = replace(model._fitted.evidence, members=(member,))
    expected = model.predict_proba(X, interval=0.9)
    model._fitted = replace(model._fitted, optimum=swapped, evidence=evidence)
    assert_allclose(model.predict_proba(X, interval=0.9), expected, rtol=1e-6)


def test_components_that_are_equal_have_no_errors():
    X, y = humps(150)
    model = GaussianDiscriminant("full", components=2, tradeoff=1).fit(X, y)
    (own,) = model._fitted.evidence.members
    found = own.objective.parameters(own.theta)
    order = np.array([0, 0, 2, 3])
    alike = replace(found, natural=found.natural[order], offset=found.offset[order])
    member = replace(own, found=own.objective.theta(alike))
    evidence = replace(model._fitted.evidence, members=(member,))
    model._fitted = replace(model._fitted, evidence=evidence)
    for ask in (model.summary, lambda: model.predict_proba(X, interval=0.9)):
        with pytest.raises(DataError, match=r"components: expected ones that differ, .* fit fewer"):
            ask()


@pytest.mark.parametrize("covariance", ["shared", "full", "diagonal", "spherical"])
@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_columns_that_never_vary_leave_mixtures_their_errors(covariance, tradeoff):
    X, y = humps(150)
    more = np.insert(X, 1, 3.0, axis=1)
    model = GaussianDiscriminant(covariance, components=2, tradeoff=tradeoff)
    expected = clone(model).fit(X, y).predict_proba(X, interval=0.9)
    found = model.fit(more, y).predict_proba(more, interval=0.9)
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, atol=1e-6)


def test_components_without_rows_have_no_coefficients_and_disturb_no_interval():
    X, y = humps(150)
    X[0] = 1e3
    model = GaussianDiscriminant("spherical", components=3, tradeoff=1).fit(X, y)
    said = r"components: expected more than a row in each .*, got [\d.e-]+ in [01] \([123]\); fit"
    with pytest.raises(DataError, match=said):
        model.summary()
    # With few components needed, the conditional likelihood leaves one without a row.
    model = GaussianDiscriminant("diagonal", components=2, tradeoff=0).fit(X[1:], y[1:])
    with pytest.raises(DataError, match=r"got .*e-[0-9]+ in [01] "):
        model.summary()
    posterior, low, high = model.predict_proba(X[1:], interval=0.9)
    assert ((low <= posterior) & (posterior <= high)).all()


# -- words -----------------------------------------------------------------------------------------


def documents(n, n_words=5, k=2, seed=0):
    """Return counts of words of documents of different lengths, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    shares = rng.dirichlet(np.full(n_words, 2.0), size=k)
    X = np.array([rng.multinomial(rng.integers(3, 15), shares[c]) for c in y])
    return scipy.sparse.csr_array(X.astype(float)), y


WORDS = {
    "counts": lambda: Multinomial(alpha=0.5),
    "occurrences": lambda: BinaryWords(alpha=0.5),
}


@pytest.mark.parametrize(
    ("name", "tradeoff"),
    [
        ("counts", 0.5),
        ("occurrences", 0.5),
        pytest.param("counts", 1, marks=pytest.mark.slow),
        pytest.param("occurrences", 1, marks=pytest.mark.slow),
    ],
)
def test_errors_of_words_are_those_of_what_each_document_does(name, tradeoff):
    X, y = documents(30, 4)
    # Words of the same documents are one to the fit.
    X = scipy.sparse.csr_array(scipy.sparse.hstack([X, X[:, [1]]]))
    check(lambda: NaiveBayes(WORDS[name](), tradeoff=tradeoff, l2=0), X, y, X[:4])


def test_without_penalty_words_have_the_robust_errors_of_a_regression():
    X, y = documents(200, 3)
    found = NaiveBayes("multinomial", tradeoff=0, l2=0).fit(X, y).summary(covariance="HC0")
    regression = BinomialRegression().fit(X.toarray(), y)
    assert_allclose(found.covariance, regression.robust_covariance("HC0"), rtol=1e-8)
    y[::7] = 2
    found = NaiveBayes("multinomial", tradeoff=0, l2=0).fit(X, y).summary(covariance="HC0")
    several = MultinomialRegression().fit(X.toarray(), y)
    expected = several.robust_covariance("HC0")
    assert_allclose(found.covariance, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_the_generative_end_has_the_errors_of_a_ratio_of_counts():
    X, y = documents(80, 3)
    found = NaiveBayes(Multinomial(alpha=0), tradeoff=1).fit(X, y).summary(covariance="HC0")
    counts, expected = X.toarray(), 0.0
    for k in (0, 1):
        own = counts[y == k]
        total = own.sum()
        share = own.sum(axis=0) / total
        away = (own / share - own.sum(axis=1, keepdims=True)) / total
        expected = expected + (away**2).sum(axis=0)
    assert_allclose(found.standard_errors[1:] ** 2, expected, rtol=1e-9)


@pytest.mark.parametrize("tradeoff", [0, 1, "auto"])
def test_text_beside_numbers_has_intervals_and_files_have_them_too(tradeoff):
    rng = np.random.default_rng(0)
    X, y = documents(90, 8)
    texts = [" ".join(f"w{j}" for j in rng.permutation(row.indices)) for row in X]
    table = pd.DataFrame({"text": texts, "x": rng.normal(size=90) + y})
    table.loc[3, "x"] = np.nan
    text = Text(ngram_range=(1, 1))
    model = NaiveBayes({"text": text}, tradeoff=tradeoff).fit(table, y)
    posterior, low, high = model.predict_proba(table, interval=0.9)
    assert ((low < posterior) & (posterior < high)).all()
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict_proba(table, interval=0.9), (posterior, low, high), rtol=1e-9)
    assert str(again.summary()) == str(model.summary())
    assert [one.column for one in model.summary().tests] == ["text", "x"]


# -- a pool ----------------------------------------------------------------------------------------


def pooled(weights, thetas, members):
    found = [one.objective.parameters(theta) for one, theta in zip(members, thetas, strict=True)]
    flat = [np.concatenate([each.natural.ravel(), each.offset, [1.0]]) for each in found]
    return np.asarray(weights) @ flat


def test_errors_of_a_pool_are_those_of_its_stacked_equations():
    X, y = drawn(60, d=2)
    evidence = NaiveBayes("gaussian").fit(X, y)._fitted.evidence
    members, loss = evidence.members, evidence.weighing.loss
    assert len(members) > 1
    weights = least_loss(loss, np.array([one.weight for one in members]))
    # Weights of next to nothing were left out.
    assert_allclose(weights, [one.weight for one in members], atol=1e-3)
    members = tuple(replace(one, weight=w) for one, w in zip(members, weights, strict=True))
    evidence = replace(evidence, members=members)
    steps = [
        -np.linalg.solve(
            one.objective.curvature(one.theta),
            row_gradients(one.objective, one.theta)(slice(0, len(y))).T,
        ).T
        for one in members
    ]
    index, step, influence = evidence.weighing.index, 1e-2, []
    for row in range(len(y)):
        ends = []
        for sign in (step, -step):
            thetas = [
                one.theta + sign * each[row] for one, each in zip(members, steps, strict=True)
            ]
            moved = copy.copy(loss)
            moved.weights = loss.weights + sign * (index == row)
            moved.scores = loss.scores.copy()
            for g, (one, theta) in enumerate(zip(members, thetas, strict=True)):
                passes = one.objective.passes
                change = (passes.scores(theta) - passes.scores(one.theta))[index]
                moved.scores[g] += change - change.mean(axis=1, keepdims=True)
            ends.append(pooled(least_loss(moved, weights), thetas, members))
        influence.append((ends[0] - ends[1]) / (2 * step))
    expected = covariance(np.array(influence))
    # What both classes have in common is the limit's, which no posterior of whole rows tells.
    p = members[0].objective.density.n_statistics
    contrasts = np.zeros((p + 2, 2 * p + 3))
    contrasts[:p, :p], contrasts[:p, p : 2 * p] = -np.eye(p), np.eye(p)
    contrasts[p:, 2 * p :] = [[-1, 1, 0], [0, 0, 1]]
    size = len(expected)
    found = evidence.covariance("HC0").covariance[:size, :size]
    wanted, said = (contrasts @ one @ contrasts.T for one in (expected, found))
    scale = np.sqrt(np.diagonal(wanted))
    assert_allclose(said / np.outer(scale, scale), wanted / np.outer(scale, scale), atol=2e-3)


def test_a_pool_says_how_its_errors_were_found_and_has_intervals():
    X, y = drawn(150)
    model = NaiveBayes().fit(X, y)
    said = str(model.summary())
    assert "stacked equations of the pool's fits and weights" in said
    posterior, low, high = model.predict_proba(X, interval=0.95)
    assert ((low > 0) & (low < posterior) & (posterior < high) & (high < 1)).all()
    assert_allclose(low[:, 0], 1 - high[:, 1], rtol=1e-9)
    later = model.summary(X, y)
    assert "their weights taken as given" in str(later)
    # The weights vary, too.
    assert not np.allclose(later.standard_errors, model.fit(X, y).summary().standard_errors)


def gappy(X):
    """Return five rows, of which one is whole and one has nothing."""
    new = X[:5].copy()
    new[[1, 3], 0] = new[[2, 3], 1] = np.nan
    new[4] = np.nan
    return new


@pytest.mark.parametrize(
    "name",
    [
        "shared variance",
        pytest.param("columns of every kind", marks=pytest.mark.slow),
        pytest.param("own variances", marks=pytest.mark.slow),
        pytest.param("beside cells that are filled in", marks=pytest.mark.slow),
    ],
)
def test_densities_that_the_discriminative_end_leaves_open_vary_as_their_limit(name, monkeypatch):
    monkeypatch.setattr("crossfade.tradeoff.grid.TRADEOFFS", (0.0,))
    X, y = drawn(24, 2)
    table, new = X, gappy(X)
    make = partial(gaussian, "best", shared_variance=name == "shared variance")
    if name == "columns of every kind":
        table, y = mixed(50)
        new = gappy(table)
        make = partial(NaiveBayes, DENSITIES, tradeoff="best", l2=0, var_smoothing=0, alpha=0)
    if name == "beside cells that are filled in":
        make = partial(GaussianDiscriminant, "full", tradeoff="best", l2=0)
        table = (
            pd.DataFrame(X)
            .add_prefix("x")
            .assign(c=np.random.default_rng(3).choice(["u", "v"], 24))
        )
        new = table[:4].assign(c=["u", None, None, "v"])
    assert make().fit(table, y)._fitted.open is not None
    check(make, table, y, new)


def test_the_limit_of_a_pool_moves_with_the_pool_and_its_scale():
    X, y = drawn(60, 3)
    evidence = NaiveBayes("gaussian").fit(X, y)._fitted.evidence
    objective, pool = evidence.open
    scale = sum(one.weight for one in evidence.members)
    size = pool.natural.size

    def limit(at):
        eta, offset = at[:size] / at[-1], at[size:-1] / at[-1]
        own = replace(pool, natural=eta.reshape(pool.natural.shape), offset=offset)
        return settled(objective, own), own

    at = scale * np.concatenate([pool.natural.ravel(), pool.offset, [1.0]])
    theta, _ = limit(at)
    to = to_natural(objective, theta)
    found, _ = moves_of_limit(objective, pool, theta, curvature(objective, theta), to)
    for j, step in enumerate(1e-5 * np.eye(at.size)):
        ends = [(at + step, 1.0), (at - step, -1.0)]
        change = sum(
            sign * end[-1] * objective.parameters(limit(end)[0]).natural for end, sign in ends
        )
        assert_allclose(found[j, :size], change.ravel() / 2e-5, rtol=1e-5, atol=1e-6)


def test_rows_with_gaps_have_the_intervals_of_the_limit_of_a_pool():
    X, y = drawn(60)
    model = NaiveBayes("gaussian", shared_variance=True).fit(X, y)
    assert (model.tradeoff_path_["weight"][model.tradeoff_path_["tradeoff"] == 0] > 0).any()
    new = gappy(X)
    found = model.predict_proba(new, interval=0.9)
    posterior, low, high = found
    assert ((low < posterior) & (posterior < high)).all()
    assert_allclose(model.predict_proba(new[:1], interval=0.9), np.array(found)[:, :1], rtol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict_proba(new, interval=0.9), found, rtol=1e-9)
    # Files of before tell of complete rows alone.
    of_before = replace(model._fitted.errors, settled=False)
    model._fitted = model._fitted.with_errors(of_before)
    _, low, high = model.predict_proba(new, interval=0.9)
    assert np.isnan([low[1:], high[1:]]).all()
    assert_allclose(low[0], found[1][0], rtol=1e-12)


# -- equalities ------------------------------------------------------------------------------------

TRADEOFFS = (0, 0.5, 1)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_weights_are_repetitions_with_groups_and_without(tradeoff):
    X, y = drawn(80, 3)
    times = np.random.default_rng(3).integers(0, 4, size=len(y))
    X2, y2 = np.repeat(X, times, axis=0), np.repeat(y, times)
    groups = np.arange(len(y)) // 3
    for given in (None, groups):
        many = None if given is None else np.repeat(given, times)
        weighted = gaussian(tradeoff).fit(X, y, times, groups=given).summary()
        repeated = gaussian(tradeoff).fit(X2, y2, groups=many).summary()
        assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-6, atol=1e-12)
        assert dict(weighted.facts) == dict(repeated.facts)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_neither_the_order_of_rows_nor_groups_of_one_row_matter(tradeoff):
    X, y = drawn(60)
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (gaussian(tradeoff).fit(X[rows], y[rows]) for rows in (slice(None), order))
    assert_allclose(one.summary().covariance, other.summary().covariance, rtol=1e-7, atol=1e-12)
    alone = gaussian(tradeoff).fit(X, y, groups=np.arange(len(y))).summary()
    few = len(y) / (len(y) - 1)
    assert_allclose(alone.covariance, few * one.summary().covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("power", [-100, -70, 70, 80, 100, 120])
@pytest.mark.parametrize("name", ["own variances", "shared variance", "full", "shared"])
def test_units_of_any_size_change_no_test(name, power):
    X, y = drawn()
    for tradeoff in (1,) if abs(power) > 75 else (0, 0.5, 1):  # λ < 1 refuses larger numbers
        expected = MODELS[name](tradeoff).fit(X, y).summary()
        found = MODELS[name](tradeoff).fit(X * 10.0**power, y).summary()
        assert_allclose(found.statistics, expected.statistics, rtol=1e-6)
        assert_allclose(found.p_values, expected.p_values, rtol=1e-5)
        for mine, theirs in zip(found.tests, expected.tests, strict=True):
            assert_allclose(mine.statistic, theirs.statistic, rtol=1e-6)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_a_shift_of_columns_changes_no_test_of_a_column(tradeoff):
    X, y = drawn()
    X = np.round(X * 64.0) / 64.0  # which a shift by a power of two keeps
    for name in ("own variances", "shared variance", "shared"):
        expected = MODELS[name](tradeoff).fit(X, y)
        found = MODELS[name](tradeoff).fit(X + 2.0**30, y)
        for mine, theirs in zip(found.summary().tests, expected.summary().tests, strict=True):
            assert_allclose(mine.statistic, theirs.statistic, rtol=1e-5)
        limits = found.predict_proba(X + 2.0**30, interval=0.9)
        assert_allclose(limits, expected.predict_proba(X, interval=0.9), atol=1e-6)


@pytest.mark.parametrize("tradeoff", [*TRADEOFFS, "auto"])
def test_units_change_coefficients_and_errors_alike(tradeoff):
    X, y = drawn(60)
    factor = np.array([1e3, 1e-2])
    make = (lambda: NaiveBayes("gaussian")) if tradeoff == "auto" else lambda: gaussian(tradeoff)
    one, other = make().fit(X, y), make().fit(X * factor + 7.0, y)
    a, b = one.summary(), other.summary()
    units = np.concatenate([factor, factor**2])
    squares = slice(3, 5)
    assert_allclose(a.statistics[squares], b.statistics[squares], rtol=1e-5)
    assert_allclose(a.standard_errors[squares], (b.standard_errors[1:] * units)[2:], rtol=1e-5)
    for mine, theirs in zip(a.tests, b.tests, strict=True):
        assert_allclose(mine.statistic, theirs.statistic, rtol=1e-5)
    limits = one.predict_proba(X[:9], interval=0.9)
    assert_allclose(limits, other.predict_proba(X[:9] * factor + 7.0, interval=0.9), rtol=1e-6)


@pytest.mark.parametrize("tradeoff", [*TRADEOFFS, "auto"])
def test_classes_may_be_named_and_compared_otherwise(tradeoff):
    X, y = drawn(90, 3)
    names = np.array(["z", "y", "x"])
    make = (lambda: NaiveBayes("gaussian")) if tradeoff == "auto" else lambda: gaussian(tradeoff)
    one = make().fit(X, y)
    other = make().fit(X, names[y])
    a, b = one.summary(reference=2), other.summary(reference="x")
    key = ["class", "term"]
    left = a.frame().with_columns(**{"class": np.array([names[c] for c in a.classes])}).sort(key)
    right = b.frame().sort(key)
    for column in ("estimate", "standard_error", "statistic"):
        assert_allclose(left[column].to_numpy(), right[column].to_numpy(), rtol=1e-5, atol=1e-10)
    for mine, theirs, first in zip(a.tests, b.tests, one.summary().tests, strict=True):
        assert_allclose([theirs.statistic, first.statistic], mine.statistic, rtol=1e-5)
        assert mine.df == first.df == 4


def test_the_errors_of_two_classes_follow_from_those_against_a_third():
    X, y = drawn(90, 3)
    model = gaussian(0.5).fit(X, y)
    size = 5
    by_first, by_last = model.summary(), model.summary(reference=2)
    contrast = np.hstack([np.eye(size), -np.eye(size)])  # of 1 against 2
    assert_allclose(
        contrast @ by_first.covariance @ contrast.T,
        by_last.covariance[size:, size:],
        rtol=1e-9,
        atol=1e-12,
    )


# -- what is kept, shown and refused ---------------------------------------------------------------


@pytest.mark.parametrize("tradeoff", [0, 0.5, "auto"])
def test_models_from_files_have_the_same_errors(tradeoff, tmp_path):
    X, y = mixed(80)
    model = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    for again in (load_model(tmp_path / "m.skops").estimator, pickle.loads(pickle.dumps(model))):
        assert str(again.summary()) == str(model.summary())
        for mine, theirs in zip(
            model.predict_proba(X, interval=0.9), again.predict_proba(X, interval=0.9), strict=True
        ):
            assert_allclose(mine, theirs, rtol=1e-12)
        assert again._fitted.evidence is None


def test_rows_of_fit_bring_errors_where_the_model_has_none(monkeypatch):
    X, y = drawn(60)
    model = gaussian(0.5).fit(X, y)
    expected, plain = model.summary(), model.summary(covariance="HC0")
    monkeypatch.setattr("crossfade.tradeoff.influence.MOST_ASKED_FOR", 12)
    model = gaussian(0.5).fit(X, y)
    assert model._fitted.evidence.rows.n_samples == 0
    with pytest.raises(DataError, match=r"got 60 rows and 13 parameters.*summary\(X, y\)"):
        model.predict_proba(X, interval=0.95)
    found = model.summary(X, y)
    assert_allclose(found.covariance, expected.covariance, rtol=1e-12)
    intervals = model.predict_proba(X, interval=0.95)
    found = model.summary(X, y, covariance="HC0")  # which intervals do not have from then on
    assert_allclose(found.covariance, plain.covariance, rtol=1e-12)
    assert_allclose(model.predict_proba(X, interval=0.95), intervals, rtol=1e-12)
    monkeypatch.undo()
    weights = np.repeat([1.0, 2.0], 30)
    balanced = gaussian(0.5, class_weight="balanced").fit(X, y, weights)
    assert_allclose(
        balanced.summary().covariance, balanced.summary(X, y, weights).covariance, rtol=1e-12
    )


@pytest.mark.parametrize("limit", ["_MOST_PARAMETERS", "_MOST_WORK"])
@pytest.mark.parametrize("tradeoff", [0.5, "auto"])
def test_what_takes_long_has_errors_when_asked_and_files_have_them_from_then_on(
    limit, tradeoff, monkeypatch
):
    X, y = drawn(60)
    expected = gaussian(tradeoff).fit(X, y).summary()
    monkeypatch.setattr(f"crossfade.tradeoff.influence.{limit}", 12)
    model = gaussian(tradeoff).fit(X, y)
    with pytest.raises(DataError, match=r"got one that does not: .*--intervals"):
        pickle.loads(pickle.dumps(model)).summary()
    assert str(model.summary()) == str(expected)
    assert str(pickle.loads(pickle.dumps(model)).summary()) == str(expected)


def test_other_rows_than_those_of_fit_are_refused_and_change_nothing():
    X, y = drawn(60)
    model = gaussian(0.5).fit(X, y)
    expected = model.summary().covariance
    for rows, weights in ((slice(0, 20), None), (slice(None), np.full(60, 2.0))):
        with pytest.raises(DataError, match="X: expected the rows of fit, whose weights sum to 60"):
            model.summary(X[rows], y[rows], weights)
    assert_allclose(model.summary().covariance, expected, rtol=0)


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize("tradeoff", [0, 0.5])
def test_rows_too_far_for_limits_are_refused_without_a_warning(make, tradeoff):
    X, y = drawn(60)
    model = make(tradeoff=tradeoff).fit(X, y)
    with pytest.raises(DataError, match="expected numbers near enough to those of fit"):
        model.predict_proba(np.full((2, 2), 1e200), interval=0.95)


def test_rows_in_parts_have_intervals_part_by_part(tmp_path):
    X, y = drawn(300)
    names = ["a", "b"]
    pd.DataFrame(X, columns=names).to_parquet(tmp_path / "t.parquet")
    model = gaussian(0.5).fit(pd.DataFrame(X, columns=names), y)
    whole = model.predict_proba(pd.DataFrame(X, columns=names), interval=0.8)
    parts = model.predict_proba(scan(tmp_path / "t.parquet"), interval=0.8)
    assert_allclose(whole, parts, rtol=1e-12)


def test_dask_collections_have_intervals_lazily():
    dask = pytest.importorskip("dask.dataframe")
    X, y = drawn(100)
    table = pd.DataFrame(X, columns=["a", "b"])
    model = gaussian(0.5).fit(table, y)
    parts = model.predict_proba(dask.from_pandas(table, npartitions=3), interval=0.8)
    for one, whole in zip(parts, model.predict_proba(table, interval=0.8), strict=True):
        assert_allclose(one.compute(), whole, rtol=1e-12)


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_rows_in_parts_have_errors_by_a_table_of_them(tradeoff, tmp_path):
    X, y = drawn(300)
    table = pd.DataFrame(X, columns=["a", "b"])
    table.assign(y=y).to_parquet(tmp_path / "t.parquet")
    model = gaussian(tradeoff).fit(scan(tmp_path / "t.parquet"), "y")
    expected = gaussian(tradeoff).fit(table, y).summary()
    for given in ((), (table, y)):
        found = model.summary(*given).covariance
        assert_allclose(found, expected.covariance, rtol=1e-6, atol=1e-9)
    batches = gaussian(1).partial_fit(table, y)
    with pytest.raises(DataError, match="fit it to all rows at once"):
        batches.summary()


@pytest.mark.parametrize("class_weight", [None, {0: 3.0, 1: 1.0}])
def test_many_rows_in_parts_have_the_errors_of_an_even_sample(class_weight, tmp_path, monkeypatch):
    monkeypatch.setattr("crossfade.tradeoff.source_rows.SAMPLE_ROWS", 3_000)
    X, y = drawn(12_000)
    table = pd.DataFrame(X, columns=["a", "b"])
    groups = np.arange(12_000) % 600
    table.assign(y=y, g=groups).to_parquet(tmp_path / "t.parquet")
    for tradeoff in (1, 0.5):
        make = partial(gaussian, tradeoff, class_weight=class_weight)
        model = make().fit(scan(tmp_path / "t.parquet", drop=["g"]), "y")
        found, expected = (one.summary().covariance for one in (model, make().fit(table, y)))
        # 3,000 rows tell an error to 1.3 %, where tails are no heavier than a Gaussian's.
        spread = np.sqrt(np.diagonal(found) / np.diagonal(expected))
        assert_allclose(spread, 1.0, atol=0.08)
        assert len(model._joint.rows.codes) == len(model._unseen.rows.codes) == 3_000
        assert_allclose(model.predict_set(table, 0.9)[np.arange(12_000), y].mean(), 0.9, atol=0.03)
    # A part of each group is no group.
    grouped = gaussian(0.5).fit(scan(tmp_path / "t.parquet"), "y", groups="g")
    with pytest.raises(DataError, match="rows in parts without groups or filled-in cells"):
        grouped.summary()
    monkeypatch.undo()
    grouped = gaussian(0.5).fit(scan(tmp_path / "t.parquet"), "y", groups="g")
    expected = gaussian(0.5).fit(table, y, groups=groups).summary()
    assert_allclose(grouped.summary().covariance, expected.covariance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("covariance", ["full", "shared"])
@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_a_constant_column_changes_no_interval_of_rows_with_gaps(tradeoff, covariance, components):
    """Its variance of 0 ended in a singular matrix, and in no errors at all."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=160)
    X = rng.normal(size=(160, 2)) + y[:, None] + 5.0 * rng.integers(2, size=(160, 1))
    X[rng.random(160) < 0.1, 1] = np.nan
    padded = np.insert(X, 1, 3.0, axis=1)
    padded[rng.random(160) < 0.1, 1] = np.nan
    make = GaussianDiscriminant(covariance, tradeoff=tradeoff, components=components)
    expected = clone(make).fit(X, y).predict_proba(X, interval=0.95)
    found = clone(make).fit(padded, y).predict_proba(padded, interval=0.95)
    assert_allclose(found, expected, atol=1e-3 if components > 1 else 1e-7)


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_a_constant_column_changes_no_error_of_a_pool(covariance):
    """Its members at λ = 0 leave directions open that nothing depends on."""
    X, y = drawn(80)
    expected, found = (
        GaussianDiscriminant(covariance).fit(one, y) for one in (X, np.insert(X, 1, 3.0, axis=1))
    )
    errors, padded = (one.summary().standard_errors for one in (expected, found))
    assert_allclose(padded[padded > 0.0], errors, rtol=1e-6)
    assert found.summary().standard_errors.size > errors.size


def test_a_pool_of_constant_columns_has_the_errors_of_its_shares():
    y = np.arange(40) % 4 // 3
    summary = GaussianDiscriminant("full").fit(np.ones((40, 2)), y).summary()
    assert (summary.standard_errors[1:] == 0.0).all()
    # Woolf's of the odds, and a little for what leaving a row out does.
    assert_allclose(summary.standard_errors[0], np.sqrt(1 / 10 + 1 / 30), rtol=0.1)


def test_more_parameters_than_memory_holds_are_refused(monkeypatch):
    X, y = drawn(60)
    monkeypatch.setattr("crossfade.classifiers.standard_errors._MOST_PARAMETERS", 10)
    with pytest.raises(
        DataError, match=r"^X: expected a model of at most 10 parameters .* got 15;"
    ):
        GaussianDiscriminant("full", tradeoff=0.5).fit(X, y).summary(X, y)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_at_zero_missing_cells_have_the_intervals_of_cells_filled_by_means(missing):
    X, y = drawn(90)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    model, by_hand = (gaussian(0, shared_variance=True).fit(one, y) for one in (X, filled))
    new = X[:20].copy()
    new[:3] = np.where(np.arange(X.shape[1]) == 0, np.nan, new[:3])
    new_filled = np.where(np.isnan(new), np.nanmean(X, axis=0), new)
    expected = by_hand.predict_proba(new_filled, interval=0.9)
    assert_allclose(model.predict_proba(new, interval=0.9), expected, rtol=1e-5)
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict_proba(new, interval=0.9), expected, rtol=1e-5)


@pytest.mark.parametrize("make", [NaiveBayes, lambda: GaussianDiscriminant("shared")])
def test_a_pool_fitted_to_rows_with_gaps_has_intervals_of_such_rows(make):
    """Gradients of scores in what they follow from, and of that in members' parameters."""
    X, y = drawn(100)
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    kinds = np.random.default_rng(3).choice(["a", "b", None], 100, p=[0.4, 0.4, 0.2])
    table = pd.DataFrame({"kind": kinds} | {f"x{j}": x for j, x in enumerate(X.T)})
    model = make().fit(table, y)
    posterior, low, high = model.predict_proba(table, interval=0.9)
    assert ((low < posterior) & (posterior < high)).all()
    fitted = model._fitted
    matrix, optimum = model._encoded(table), fitted.optimum
    k, p = optimum.natural.shape
    m, gradients = optimum.absent.shape[1], fitted.score_gradients()(matrix)

    def scores(natural, absent):
        return fitted.density.relative_log_density(matrix, natural, absent) + absent.sum(axis=1)

    for c, j in np.ndindex(k, p):
        step = np.zeros((k, p))
        step[c, j] = 1e-6
        ends = [scores(optimum.natural + sign * step, optimum.absent) for sign in (1, -1)]
        change = np.subtract(*ends) / 2e-6
        assert_allclose(gradients[:, :, c * p + j], change, atol=1e-6)
    for c, f in np.ndindex(k, m):
        step = np.zeros((k, m))
        step[c, f] = 1e-6
        ends = [scores(optimum.natural, optimum.absent + sign * step) for sign in (1, -1)]
        change = np.subtract(*ends) / 2e-6
        assert_allclose(gradients[:, :, k * (p + 1) + 1 + c * m + f], change, atol=1e-6)
    for member in fitted.evidence.members:
        at, theta = member.objective, member.theta

        def absent(theta, at=at):
            density, found = at.spread(theta)
            own = found.absent
            return density.log_partition(found.natural) if own is None else own

        found = to_natural(at, theta, has_absent=True)[:, k * (p + 1) + 1 :]
        for j, step in enumerate(1e-6 * np.eye(theta.size)):
            change = (absent(theta + step) - absent(theta - step)) / 2e-6
            assert_allclose(found[j], change.ravel(), atol=1e-5 * max(1.0, np.abs(change).max()))


@pytest.mark.parametrize(("tradeoff", "known"), [(0, False), (0.5, False), (1, True)])
def test_cells_filled_by_rows_that_lack_none_have_no_interval(tradeoff, known):
    X, y = drawn(60)
    model = GaussianDiscriminant("full", tradeoff=tradeoff).fit(X, y)
    X[3, 0] = np.nan
    _, low, high = model.predict_proba(X, interval=0.9)
    assert np.isfinite([low[3], high[3]]).all() == known
    assert np.isfinite(np.delete(low, 3, axis=0)).all()
    X[4:9, 1] = np.nan
    model.fit(X, y)
    _, low, high = model.predict_proba(X, interval=0.9)
    assert (low < high).all()


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
@pytest.mark.parametrize("tradeoff", [0, 0.5, 1, "auto"])
def test_a_column_without_any_cell_in_fit_changes_no_interval(tradeoff, gone):
    X, y = mixed(60)
    X[:, gone] = np.nan
    rest = np.delete(np.arange(4), gone)
    kinds = {place: DENSITIES[j] for place, j in enumerate(rest.tolist())}
    alone = NaiveBayes(kinds, tradeoff=tradeoff).fit(X[:, rest], y)
    model = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
    found, wanted = (
        np.array(one.predict_proba(rows, interval=0.9))
        for one, rows in ((model, X), (alone, X[:, rest]))
    )
    assert np.isfinite(wanted).all()
    assert_allclose(found, wanted, rtol=1e-5)
    said = model.summary()
    of_column = [j for j, term in enumerate(said.terms) if term.startswith(f"x{gone}")]
    assert (said.standard_errors[of_column] == 0.0).all()
    assert (np.delete(said.standard_errors, of_column) > 0.0).all()
    if tradeoff == 0:
        X[3, rest[0]] = np.nan
        _, low, high = model.predict_proba(X, interval=0.9)
        assert (low < high).all()


@pytest.mark.parametrize("tradeoff", [0.5, 1])
def test_words_beyond_the_limit_refuse_and_a_pool_of_one_has_intervals(tradeoff, monkeypatch):
    monkeypatch.setattr("crossfade.tradeoff.influence.MOST_ASKED_FOR", 5)
    X, y = documents(60)
    model = NaiveBayes("multinomial", tradeoff=tradeoff).fit(X, y)
    for ask in (model.summary, lambda: model.summary(X, y)):
        with pytest.raises(DataError, match=r"of words, got .* a pool of this one model has inter"):
            ask()
    assert model.summary(errors=False).estimates.size == 6
    pool = PooledClassifier([("name", NaiveBayes("multinomial", tradeoff=tradeoff))]).fit(X, y)
    posterior, low, high = pool.predict_proba(X, interval=0.95)
    assert ((low < posterior) & (posterior < high)).all()


def test_wrong_arguments_are_refused():
    X, y = drawn(60)
    model = gaussian(1).fit(X, y)
    for reference in (5, [0, 1], np.array([0, 1]), float("nan")):
        with pytest.raises(DataError, match="reference: expected one of the classes 0, 1, got"):
            model.summary(reference=reference)
    for given in ({"y": y}, {"sample_weight": np.ones(60)}, {"groups": y}):
        with pytest.raises(DataError, match="X: expected the rows of fit with y"):
            model.summary(**given)
    with pytest.raises(DataError, match="level"):
        model.summary(level=1.5)
    with pytest.raises(DataError, match="interval"):
        model.predict_proba(X, interval=95)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NaiveBayes(tradeoff=0.5),
        lambda: NaiveBayes(tradeoff=0.5, shared_variance=True),
        *(
            lambda name=name: GaussianDiscriminant(name, tradeoff=0.5)
            for name in ("full", "diagonal", "spherical", "shared")
        ),
    ],
)
def test_terms_say_which_statistic_they_are(make):
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.normal(size=(90, 3)), columns=["a", "b", "longer name"])
    table["c"] = rng.choice(["u", "v", "w"], 90)
    table["d"] = rng.random(90) < 0.4
    model = make().fit(table, rng.integers(2, size=90))

    def statistic(term):
        if " = " in term:
            name, level = term.split(" = ")
            return table[name] == level
        if term.endswith("²"):
            return table[term[:-1]] ** 2
        found = np.ones(len(table))
        for name in term.split("·"):
            found = found * table[name]
        return found

    terms = model.summary().terms[1:]
    expected = np.column_stack([statistic(term).astype(float) for term in terms])
    assert_allclose(model.sufficient_statistics(table), expected, rtol=1e-12)
    assert_allclose(
        expected @ model.coef_[0] + model.intercept_[0], model.decision_function(table), rtol=1e-7
    )


def test_a_summary_is_shown_as_text_as_a_frame_and_in_notebooks():
    rng = np.random.default_rng(0)
    y = np.repeat(["<i>no</i>", "yes"], 60)
    table = pd.DataFrame(
        {"a": rng.normal(size=120), "b": rng.choice(["u", "v", "w"], 120), "k": np.ones(120)}
    )
    found = NaiveBayes(tradeoff=0.5).fit(table, y).summary()
    text = str(found)
    assert text.startswith("NaiveBayes: log-odds of yes against <i>no</i>")
    assert "\nintercept " in text
    assert "\ntest: no effect " in text
    tested = text.partition("\ntest: no effect ")[2]
    assert "\nb  " in tested
    assert "\nk  " not in tested  # constant: without a coefficient there is nothing to test
    assert "<i>" not in found._repr_html_()
    assert "&lt;i&gt;no" in found._repr_html_()
    assert found.frame().columns[:3] == ["class", "term", "estimate"]
    assert {"a", "a²"} < set(found.terms)
    assert sum(term.startswith("b = ") for term in found.terms) == 2
    assert found.tests_frame()["column"].to_list() == ["a", "b", "k"]
    assert [one.df for one in found.tests] == [2, 2, 0]


def test_classes_that_are_separated_have_no_standard_errors(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = NaiveBayes("gaussian", tradeoff=0, l2=0)
    with pytest.warns(SeparationWarning):
        model.fit(X, y)
    summary = model.summary()
    assert np.isnan(summary.frame()["standard_error"].to_numpy()).all()
    assert "the columns separate the classes" in str(summary)
    _, low, high = model.predict_proba(X, interval=0.9)
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    penalised = NaiveBayes(tradeoff=0).fit(X, y).summary()
    assert np.isfinite(penalised.standard_errors).all()


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_rows_that_are_written_over_after_fit_change_nothing(tradeoff):
    X, y = drawn(80)
    weights = np.ones(80)
    expected = gaussian(tradeoff).fit(X.copy(), y, weights.copy()).summary().standard_errors
    model = gaussian(tradeoff).fit(X, y, weights)
    X[:], weights[:] = 7.0, 3.0
    assert_allclose(model.summary().standard_errors, expected, rtol=1e-12)
