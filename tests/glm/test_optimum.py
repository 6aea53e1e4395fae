"""Constructed optima: choose β, then responses whose likelihood is largest exactly there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import poisson

from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from crossfade.glm.links import LINKS
from tests.glm.designs import MODELS, design, fit, truth


def exact_responses(family, link, X, beta):
    """Give every row twice, with weights that make its mean response the model's own mean."""
    mean = LINKS[link]().inverse(beta[0] + X @ beta[1:])
    high = np.ones(len(X)) if family == "binomial" else np.ceil(mean) + 1.0
    y = np.concatenate([high, np.zeros(len(X))])
    weights = np.concatenate([mean / high, 1.0 - mean / high])
    return np.vstack([X, X]), y, weights


@pytest.mark.parametrize(("family", "link"), MODELS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_fit_finds_the_chosen_coefficients(family, link, intercept):
    X = design(11, n=60)
    beta = truth(family, link, X, 11)
    if not intercept:
        if link in ("identity", "sqrt"):
            X = np.abs(X) + 0.3
        beta = np.concatenate([[0.0], np.abs(beta[1:]) + 0.05])
        X = X / np.abs(X).max()
    X2, y, weights = exact_responses(family, link, X, beta)
    size = np.ones(len(y))
    model = fit(
        family,
        link,
        X2,
        y.astype(int),
        size,
        sample_weight=weights,
        tol_digits=11,
        fit_intercept=intercept,
    )
    assert model.converged_
    np.testing.assert_allclose(model.coef_, beta[1:], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, beta[0], rtol=1e-8, atol=1e-8)


def test_multinomial_finds_the_chosen_coefficients():
    X = design(12, n=80)
    rng = np.random.default_rng(0)
    coef = rng.normal(size=(2, 3)) / X.std(axis=0)
    intercept = np.array([0.3, -0.5])
    eta = np.column_stack([np.zeros(80), X @ coef.T + intercept])
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    model = MultinomialRegression(tol_digits=11).fit(
        np.vstack([X, X, X]), np.repeat(["a", "b", "c"], 80), sample_weight=p.T.ravel()
    )
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-7)


def test_ridge_optimum():
    """At the optimum the score of each slope equals l2 β, and that of the intercept is zero."""
    X = design(13, n=50)
    beta = truth("binomial", "logit", X, 13)
    y = (np.random.default_rng(5).random(50) < 0.5).astype(int)
    model = fit("binomial", "logit", X, y, np.ones(50), l2=2.5, tol_digits=11)
    residual = y - model.predict_proba(X)[:, 1]
    np.testing.assert_allclose(X.T @ residual, 2.5 * model.coef_, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(residual.sum(), 0.0, atol=1e-9)
    assert beta.shape == (4,)


@pytest.mark.parametrize("added", ["the same", "a sum", "a constant", "more than rows"])
@pytest.mark.parametrize("kind", ["binomial", "poisson", "multinomial"])
def test_a_ridge_shares_out_what_columns_say_together(kind, added):
    """With a penalty no column is determined by others: each has its own best coefficient."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    more = {
        "the same": X[:, :1],
        "a sum": X[:, :1] - 2.0 * X[:, 1:2],
        "a constant": np.full((60, 1), 3.0),
        "more than rows": rng.standard_normal((60, 70)),
    }[added]
    Z = np.column_stack([X, more])
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    model = {
        "binomial": BinomialRegression(l2=0.7, tol_digits=11),
        "poisson": PoissonRegression(l2=0.7, tol_digits=11),
        "multinomial": MultinomialRegression(l2=0.7, tol_digits=11),
    }[kind]
    y = y if kind == "poisson" else np.minimum(y, 1 + (kind == "multinomial"))
    model.fit(Z, y)
    if kind == "poisson":
        residual = (y - model.predict(Z))[None]
    else:
        residual = ((y[:, None] == model.classes_) - model.predict_proba(Z)).T[1:]
    np.testing.assert_allclose(residual @ Z, 0.7 * np.atleast_2d(model.coef_), atol=1e-7)
    np.testing.assert_allclose(residual.sum(axis=1), 0.0, atol=1e-7)
    assert model.aliased_ == []
    assert np.isfinite(model.standard_errors_).all()
    assert model.df_residual_ == 60 - model.rank_
    few = {"the same": 4, "a sum": 4, "a constant": 4, "more than rows": 60}[added]
    assert model.rank_ == few * len(residual)


@pytest.mark.parametrize("digits", [3, 6])
@pytest.mark.parametrize("kind", ["binomial", "poisson"])
def test_the_errors_information_gives_the_last_step_of_many_rows(kind, digits):
    """A step below 10⁻ᶜ is Newton's, to an optimum of twice the digits and without a pass."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((45_000, 3))
    eta = X @ [0.5, -1.0, 0.2] - 0.5
    if kind == "binomial":
        y = (rng.random(45_000) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
        model = BinomialRegression(tol_digits=digits).fit(X, y)
        residual = y - model.predict_proba(X)[:, 1]
        least = -np.log(np.where(y == 1, *model.predict_proba(X).T[::-1])).sum()
    else:
        y = rng.poisson(np.exp(eta))
        model = PoissonRegression(tol_digits=digits).fit(X, y)
        residual = y - model.predict(X)
        least = -poisson.logpmf(y, model.predict(X)).sum()
    slopes = np.append(residual @ X, residual.sum())
    assert np.abs(slopes).max() / len(y) < 10.0 ** (1 - 2 * digits)
    assert model.log_likelihood_ == pytest.approx(-least, rel=10.0 ** (-2 * digits))


@pytest.mark.parametrize("digits", [2, 6, 10])
def test_the_stopping_rule_is_the_lectures(digits):
    """The last step's ‖Δβ‖/‖β‖ is below 10⁻ᶜ, none before it is."""
    X = design(14)
    y = (np.random.default_rng(6).random(len(X)) < 0.4).astype(int)
    model = fit("binomial", "probit", X, y, np.ones(len(X)), tol_digits=digits)
    changes = [step.change for step in model.history_]
    assert model.n_iter_ == len(changes)
    assert changes[-1] < 10.0**-digits
    assert all(change >= 10.0**-digits for change in changes[:-1])
    last = np.concatenate([[model.intercept_], model.coef_])
    np.testing.assert_array_equal(model.history_[-1].coefficients, last)
    objectives = [step.objective for step in model.history_]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(objectives))


def test_the_rule_ends_where_the_coefficients_are_zero():
    """‖β‖ near 0 cannot be divided by; here β is exactly zero."""
    X = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    model = fit("binomial", "logit", X, np.array([1, 1, 0, 0]), np.ones(4))
    assert model.converged_
    assert model.n_iter_ <= 2
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-15)


def test_irls_step_by_hand():
    """One step of the history is β ← (XᵀWX)⁻¹ XᵀW z, W = m π(1-π), z = Xβ + W⁻¹(y - μ)."""
    dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
    dead = np.array([6, 13, 18, 28, 52, 53, 61, 60])
    m = np.array([59, 60, 62, 56, 63, 59, 62, 60])
    model = fit("binomial", "logit", dose[:, None], dead, m)
    X = np.column_stack([np.ones(8), dose])
    steps = [step.coefficients for step in model.history_]
    for before, after in itertools.pairwise(steps):
        p = 1.0 / (1.0 + np.exp(-X @ before))
        W = m * p * (1.0 - p)
        z = X @ before + (dead - m * p) / W
        by_hand = np.linalg.solve(X.T @ (X * W[:, None]), X.T @ (W * z))
        np.testing.assert_allclose(after, by_hand, rtol=1e-8)


def test_step_halving_when_the_deviance_rises():
    """A start far away makes full Newton steps overshoot; halved ones still arrive."""
    X = np.array([[0.0], [0.0], [0.0], [100.0]])
    y = np.array([1, 0, 1, 9000])
    model = fit("poisson", "log", X, y, np.ones(4))
    assert model.converged_
    np.testing.assert_allclose(model.predict(X), [2 / 3, 2 / 3, 2 / 3, 9000.0], rtol=1e-9)
