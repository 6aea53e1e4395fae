"""Tests and intervals against each other, against brute force, and against simulation's truth."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from crossfade.errors import DataError, SeparationWarning
from crossfade.glm import (
    BinomialRegression,
    MultinomialRegression,
    PoissonRegression,
    compare_nested,
)
from tests.glm.designs import MODELS, design, fit, respond, truth


def model_of(family, link, seed=40, **options):
    X = design(seed)
    y, size = respond(family, link, X, truth(family, link, X, seed), seed)
    return fit(family, link, X, y, size, tol_digits=11, **options), X, y, size


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_profile_intervals_by_direct_root_finding(family, link):
    """Refit with a coefficient fixed (as an offset) until twice the loss is the χ² quantile."""
    model, X, y, size = model_of(family, link)
    low, high = model.confidence_intervals(0.9, kind="profile", columns="x1")[0]
    quantile = scipy.stats.chi2.ppf(0.9, 1)

    def lost(value):
        rest = fit(family, link, X[:, [0, 2]], y, size, offset=value * X[:, 1], tol_digits=11)
        return 2.0 * (model.log_likelihood_ - rest.log_likelihood_) - quantile

    error = model.standard_errors_[2]
    for found, sign in ((low, -1.0), (high, 1.0)):
        edge = scipy.optimize.brentq(
            lost,
            model.coef_[1] + sign * 0.8 * error,
            model.coef_[1] + sign * 2.4 * error,
            xtol=1e-11,
        )
        np.testing.assert_allclose(found, edge, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_likelihood_ratio_is_the_nested_comparison(family, link):
    model, X, y, size = model_of(family, link)
    small = fit(family, link, X[:, :1], y, size, tol_digits=11)
    by_name = model.likelihood_ratio_test(["x1", "x2"])
    by_fits = compare_nested(small, model)
    np.testing.assert_allclose(by_name.statistic, by_fits.statistic, rtol=1e-8)
    assert by_name.df == by_fits.df == 2
    np.testing.assert_allclose(by_fits.statistic, small.deviance_ - model.deviance_, rtol=1e-8)
    np.testing.assert_allclose(
        model.likelihood_ratio_test([1, 2, 3]).statistic,
        model.null_deviance_ - model.deviance_,
        rtol=1e-8,
    )


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_score_test_by_name_is_that_of_added_columns(family):
    link = "probit" if family == "binomial" else "log"
    model, X, y, size = model_of(family, link)
    small = fit(family, link, X[:, :1], y, size, tol_digits=11)
    by_name = model.score_test(["x1", "x2"])
    added = small.score_test(added=X[:, 1:])
    np.testing.assert_allclose(by_name.statistic, added.statistic, rtol=1e-6)
    assert by_name.df == added.df == 2


def test_the_three_tests_agree_where_there_is_much_data():
    X = design(41, n=4000)
    beta = truth("binomial", "logit", X, 41)
    beta[2] = 0.0
    y, size = respond("binomial", "logit", X, beta, 41)
    model = fit("binomial", "logit", X, y, size)
    statistics = [
        test("x1").statistic
        for test in (model.wald_test, model.score_test, model.likelihood_ratio_test)
    ]
    np.testing.assert_allclose(statistics, statistics[0], rtol=0.02)


def test_wald_test_of_values():
    model, *_ = model_of("poisson", "log")
    at_estimate = model.wald_test("x0", model.coef_[0])
    np.testing.assert_allclose(at_estimate.statistic, 0.0, atol=1e-20)
    z = model.summary().statistics[1]
    np.testing.assert_allclose(model.wald_test("x0").statistic, z**2, rtol=1e-10)
    assert str(model.wald_test("x0")).startswith("Wald test, no effect of x0: χ²(1) = ")


def test_multinomial_profile_and_tests():
    X = design(42, n=90, d=2)
    y = np.random.default_rng(0).choice(["a", "b", "c"], 90)
    model = MultinomialRegression(reference="b", tol_digits=11).fit(X, y)
    assert model.reference_ == "b"
    assert model.contrasts_.tolist() == ["a", "c"]
    small = MultinomialRegression(reference="b", tol_digits=11).fit(X[:, :1], y)
    assert model.names_[:3] == ("a: Intercept", "a: x0", "a: x1")
    compared = compare_nested(small, model)
    named = model.likelihood_ratio_test("x1")
    np.testing.assert_allclose(compared.statistic, named.statistic, rtol=1e-8)
    assert named.df == 2
    for low, high in model.confidence_intervals(kind="profile", columns=["a: x0", "c: x1"]):
        assert low < high
    np.testing.assert_allclose(model.wald_test("x1").statistic, named.statistic, rtol=0.2)
    np.testing.assert_allclose(model.score_test("x1").statistic, named.statistic, rtol=0.2)
    # The reference changes names, not the model.
    other = MultinomialRegression(tol_digits=11).fit(X, y)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-8)
    np.testing.assert_allclose(model.residuals().sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        (model.residuals("deviance") ** 2).sum(), model.deviance_, rtol=1e-12
    )
    assert "pseudo R²" in str(model.summary())


def test_deviance_residuals_and_leverage_add_up():
    model, _, y, size = model_of("binomial", "cloglog")
    np.testing.assert_allclose((model.residuals() ** 2).sum(), model.deviance_, rtol=1e-10)
    influence = model.influence()
    np.testing.assert_allclose(influence.leverage.sum(), 4.0, rtol=1e-10)
    likelihood = model.residuals("likelihood")
    deviance, pearson = (
        np.abs(influence.standardized_deviance),
        np.abs(influence.standardized_pearson),
    )
    between = (np.abs(likelihood) >= np.minimum(deviance, pearson) - 1e-12) & (
        np.abs(likelihood) <= np.maximum(deviance, pearson) + 1e-12
    )
    assert between.all()
    assert len(y) == len(size)


def test_cooks_distance_is_a_step_without_the_row():
    model, X, y, size = model_of("poisson", "log")
    distances = model.influence().cooks_distance
    row = int(distances.argmax())
    kept = np.arange(len(y)) != row
    without = fit("poisson", "log", X[kept], y[kept], size[kept], tol_digits=11)
    moved = np.concatenate([[without.intercept_ - model.intercept_], without.coef_ - model.coef_])
    exact = moved @ np.linalg.solve(model.covariance_, moved) / 4
    np.testing.assert_allclose(distances[row], exact, rtol=0.2)


def test_robust_covariance_where_the_variance_is_wrong():
    """Twice every row: the model's errors shrink by √2, those clustered by row do not."""
    X = design(43)
    y = np.random.default_rng(1).poisson(2.0, len(X))
    once = PoissonRegression().fit(X, y)
    twice = PoissonRegression().fit(np.vstack([X, X]), np.concatenate([y, y]))
    groups = np.tile(np.arange(len(X)), 2)
    np.testing.assert_allclose(
        twice.standard_errors_, once.standard_errors_ / np.sqrt(2), rtol=1e-7
    )
    g, n = len(X), len(X)
    factor = g / (g - 1) * (2 * n - 1) / (2 * n - 4)
    np.testing.assert_allclose(
        twice.robust_covariance("cluster", groups),
        factor * once.robust_covariance("HC0"),
        rtol=1e-7,
    )


@pytest.mark.parametrize(("kind", "power"), [("HC2", 1), ("HC3", 2)])
def test_leverage_of_groups_by_hand(kind, power):
    """A row's leverage is one over its group: each share varies as p(1-p)/n / (1-1/n)ᵖ."""
    n, p = np.array([4, 9, 16]), np.array([0.25, 1 / 3, 0.75])
    group = np.repeat(np.arange(3), n)
    y = np.concatenate([np.arange(size) < size * share for size, share in zip(n, p, strict=True)])
    X = np.eye(3)[group]
    for model, moved in (  # variances of Σ(y - mean), by dη of a mean
        (BinomialRegression(fit_intercept=False), 1.0 / (p * (1.0 - p))),
        (PoissonRegression(fit_intercept=False), 1.0 / p),
    ):
        found = model.fit(X, y.astype(int)).robust_covariance(kind)
        wanted = p * (1.0 - p) / n / (1.0 - 1.0 / n) ** power * moved**2
        np.testing.assert_allclose(found, np.diag(wanted), rtol=1e-7, atol=1e-12)
    several = MultinomialRegression(fit_intercept=False).fit(X, y.astype(int))
    logit = BinomialRegression(fit_intercept=False).fit(X, y.astype(int))
    np.testing.assert_allclose(
        several.robust_covariance(kind), logit.robust_covariance(kind), rtol=1e-7, atol=1e-12
    )


@pytest.mark.parametrize(("kind", "power"), [("HC2", 0.5), ("HC3", 1.0)])
def test_leverage_of_several_classes_by_matrices(kind, power):
    X = design(36, n=60)
    y = np.random.default_rng(6).integers(0, 3, 60)
    model = MultinomialRegression(tol_digits=11).fit(X, y)
    shares, Z = model.predict_proba(X)[:, 1:], np.column_stack([np.ones(60), X])
    bends = [
        np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z)) for p, z in zip(shares, Z, strict=True)
    ]
    values, axes = np.linalg.eigh(sum(bends))
    half = axes / np.sqrt(values) @ axes.T
    scores = np.einsum("nk,np->nkp", shares - np.eye(3)[y][:, 1:], Z).reshape(60, -1)
    for row, D in enumerate(bends):
        own, ways = np.linalg.eigh(np.eye(8) - half @ D @ half)
        scores[row] = ways @ (own**-power * (ways.T @ (half @ scores[row])))
    np.testing.assert_allclose(
        model.robust_covariance(kind), half @ scores.T @ scores @ half, rtol=1e-6, atol=1e-10
    )


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_hc3_is_the_jackknife_of_steps_and_right_where_the_mean_is_wrong(family, link):
    X = design(44, n=80, d=2)
    y, size = respond(family, link, X, truth(family, link, X, 44), 44)
    Z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    y = np.clip(y + np.round(Z**2), 1, size if family == "binomial" else np.inf)  # a wrong mean
    model = fit(family, link, X, y, size, tol_digits=10)
    moved = []
    for row in range(len(X)):
        kept = np.arange(len(X)) != row
        one = fit(family, link, X[kept], y[kept], size[kept], tol_digits=10)
        moved.append([one.intercept_ - model.intercept_, *(one.coef_ - model.coef_)])
    jackknife = np.sqrt(np.square(moved).sum(axis=0))
    errors = np.sqrt(np.diagonal(model.robust_covariance("HC3")))
    np.testing.assert_allclose(errors, jackknife, rtol=0.03)
    plain = np.sqrt(np.diagonal(model.robust_covariance("HC0")))
    assert (plain < errors).all()


def test_a_row_that_a_column_belongs_to_alone_has_no_error_of_its_own():
    """Its leverage is 1, and counts as 0.99: its score is 0."""
    X = np.column_stack([np.arange(12) % 3, np.arange(12) == 5])
    fitted = PoissonRegression(tol_digits=12).fit(X, np.arange(12) % 5 + 1)
    errors = np.sqrt(np.diagonal(fitted.robust_covariance("HC3")))
    without = PoissonRegression(tol_digits=12).fit(
        np.delete(X[:, :1], 5, 0), np.delete(np.arange(12) % 5 + 1, 5)
    )
    np.testing.assert_allclose(
        errors[:2], np.sqrt(np.diagonal(without.robust_covariance("HC3"))), rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["HC0", "HC2", "HC3"])
def test_robust_errors_of_what_separation_leaves(kind):
    """The rest is a fit of the rows left: with every link, and where none is left."""
    rng = np.random.default_rng(8)
    apart, x = np.arange(60) >= 45, rng.normal(size=60)
    y = np.where(apart, 1, rng.integers(0, 2, 60))
    for link in ("logit", "probit", "cloglog"):
        with pytest.warns(SeparationWarning):
            model = BinomialRegression(link, tol_digits=11).fit(np.column_stack([x, apart]), y)
        rest = BinomialRegression(link, tol_digits=11).fit(x[~apart, None], y[~apart])
        np.testing.assert_allclose(
            model.robust_covariance(kind)[:2, :2], rest.robust_covariance(kind), rtol=1e-6
        )
        with pytest.warns(SeparationWarning):
            nothing = BinomialRegression(link).fit(x[:, None], x > 0.0)
        assert np.isinf(np.diagonal(nothing.robust_covariance(kind))).all()


def test_overdispersion_is_recognised():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 1))
    mean = np.exp(1.5 + 0.9 * X[:, 0])
    plain = PoissonRegression().fit(X, rng.poisson(mean)).dispersion_test()
    assert plain.p_value > 0.01
    assert 0.9 < plain.dispersion < 1.1
    assert "no sign" in plain.suggestion
    gamma = rng.poisson(mean * rng.gamma(2.0, 0.5, 3000))
    assert "negative binomial" in PoissonRegression().fit(X, gamma).dispersion_test().suggestion
    shares = rng.negative_binomial(mean / 2.0, 1.0 / 3.0)
    found = PoissonRegression().fit(X, shares).dispersion_test()
    np.testing.assert_allclose(found.dispersion, 3.0, rtol=0.2)
    assert found.suggestion.startswith("use summary(dispersion='pearson')")
    p = rng.beta(2.0, 3.0, 500)
    trials = np.full(500, 12)
    model = BinomialRegression().fit(X[:500], rng.binomial(trials, p), trials=trials)
    assert model.dispersion_test().p_value < 1e-6
    assert "quasi-binomial" in str(model.dispersion_test())
    y = rng.binomial(12, 0.4, 500)
    even = BinomialRegression().fit(X[:500], y, trials=trials)
    assert even.dispersion_test().p_value > 0.01


def test_ridge_errors_say_what_they_mean():
    model, X, _, size = model_of("binomial", "logit", l2=3.0)
    X1 = np.column_stack([np.ones(len(X)), X])
    p = model.predict_proba(X)[:, 1]
    information = X1.T @ (X1 * (size * p * (1 - p))[:, None])
    posterior = np.linalg.inv(information + np.diag([0.0, 3.0, 3.0, 3.0]))
    np.testing.assert_allclose(model.covariance_, posterior, rtol=1e-8)
    assert "posterior under a normal prior of variance 1/l2" in str(model.summary())
    with pytest.raises(DataError, match="expected a maximum-likelihood fit, got a penalised one"):
        model.score_test("x0")
    np.testing.assert_allclose(
        model.penalised_log_likelihood_,
        model.log_likelihood_ - 1.5 * (model.coef_**2).sum(),
        rtol=1e-12,
    )


def test_summary_in_all_its_forms():
    model, *_ = model_of("poisson", "log")
    summary = model.summary(intervals="profile")
    assert repr(summary) == str(summary)
    assert summary._repr_html_().count("<tr>") == 7 + 5
    frame = summary.frame()
    assert type(frame).__module__.startswith("polars")
    assert frame.columns == [
        "term",
        "estimate",
        "standard_error",
        "statistic",
        "p_value",
        "lower",
        "upper",
    ]
    assert frame["term"].to_list() == ["Intercept", "x0", "x1", "x2"]
    limits = model.confidence_intervals(kind="profile")
    np.testing.assert_allclose(frame.select("lower", "upper").to_numpy(), limits, rtol=1e-12)


def test_prediction_intervals_of_counts():
    model, X, *_ = model_of("poisson", "log")
    one = model.predict_interval(X[:3], exposure=[1.0, 2.0, 4.0])
    rates = model.predict_interval(X[:3])
    np.testing.assert_allclose(one.upper, rates.upper * [1.0, 2.0, 4.0])
    np.testing.assert_allclose(one.mean, model.predict(X[:3], exposure=[1.0, 2.0, 4.0]))
    robust = model.predict_interval(X[:3], covariance="HC1")
    assert not np.allclose(robust.standard_error, rates.standard_error)


def test_compare_nested_refuses_what_it_cannot_compare():
    model, X, y, size = model_of("binomial", "logit")
    small = fit("binomial", "logit", X[:, :1], y, size)
    other = fit("binomial", "logit", X[:, 1:], y, size)
    with pytest.raises(DataError, match="expected a model that contains the other"):
        compare_nested(model, small)
    with pytest.raises(DataError, match="expected a model that contains the other"):
        compare_nested(small, other)
    with pytest.raises(DataError, match="compare fits of one family and link"):
        compare_nested(small, fit("binomial", "probit", X, y, size))
    with pytest.raises(DataError, match="expected the same responses"):
        compare_nested(fit("binomial", "logit", X[:, :1], y * 0 + 1, size), model)
    with pytest.raises(DataError, match="got a penalised one"):
        compare_nested(small, fit("binomial", "logit", X, y, size, l2=1.0))
    # Nested by span, not by name: the same columns in other units.
    moved = fit("binomial", "logit", X[:, :1] * 3.0 + 1.0, y, size)
    np.testing.assert_allclose(
        compare_nested(moved, model).statistic, compare_nested(small, model).statistic, rtol=1e-8
    )


def test_a_pickle_predicts_and_summarises_without_the_training_rows():
    model, X, *_ = model_of("binomial", "logit")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.summary().p_values, model.summary().p_values)
    assert len(pickle.dumps(model)) < 20_000
    with pytest.raises(DataError, match="pickles leave the training rows out"):
        again.residuals()


def test_likelihood_ratio_with_separation():
    """The supremum of the likelihood is what is compared; Wald's test has nothing to say."""
    x = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    with pytest.warns(SeparationWarning):
        model = BinomialRegression().fit(x, [0, 0, 0, 1, 1, 1])
    test = model.likelihood_ratio_test("x0")
    np.testing.assert_allclose(test.statistic, 12.0 * np.log(2.0), rtol=1e-9)
    with pytest.raises(DataError, match="expected estimable coefficients"):
        model.wald_test("x0")
