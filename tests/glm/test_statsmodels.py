"""Agreement with statsmodels on twenty random designs: 1e-8 in β, 1e-6 in all that follows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.stats

from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from tests.glm.designs import MODELS, design, fit, respond, truth

sm = pytest.importorskip("statsmodels.api")
DomainWarning = pytest.importorskip("statsmodels.tools.sm_exceptions").DomainWarning
links = sm.families.links
LINKS = {
    "logit": links.Logit,
    "probit": links.Probit,
    "cloglog": links.CLogLog,
    "log": links.Log,
    "identity": links.Identity,
    "sqrt": links.Sqrt,
}


def reference(family, link, X, y, size, weights=None, offset=None):
    """Fit by statsmodels, converged to its last digit."""
    exog = np.column_stack([np.ones(len(X)), X])
    kind = sm.families.Binomial if family == "binomial" else sm.families.Poisson
    options = {"freq_weights": weights, "offset": offset}
    endog = y
    if family == "binomial":
        endog = np.column_stack([y, size - y])
    elif link == "log":
        options["exposure"] = size
    options = {key: value for key, value in options.items() if value is not None}
    with warnings.catch_warnings():
        # statsmodels warns of every link that does not keep means positive by itself.
        warnings.simplefilter("ignore", DomainWarning)
        model = sm.GLM(endog, exog, family=kind(LINKS[link]()), **options)
    return model.fit(tol=1e-13, maxiter=200, tol_criterion="params")


def case(seed):
    """One of the twenty designs: family and link in turn, weights and offset in some."""
    family, link = MODELS[seed % len(MODELS)]
    X = design(seed, n=90 + 7 * seed, d=2 + seed % 3)
    beta = truth(family, link, X, seed)
    y, size = respond(family, link, X, beta, seed)
    if family == "poisson" and link != "log":
        size = np.ones(len(X))
        y = np.random.default_rng(seed).poisson(_mean(link, X, beta))
    rng = np.random.default_rng(seed + 500)
    weights = rng.integers(1, 4, len(X)).astype(float) if seed % 4 == 1 else None
    offset = rng.uniform(0.0, 0.3, len(X)) if seed % 5 == 2 else None
    return family, link, X, y, size, weights, offset


def _mean(link, X, beta):
    eta = beta[0] + X @ beta[1:]
    return eta if link == "identity" else eta**2


def both(seed):
    family, link, X, y, size, weights, offset = case(seed)
    ours = fit(family, link, X, y, size, sample_weight=weights, offset=offset, tol_digits=11)
    return ours, reference(family, link, X, y, size, weights, offset), X, y


@pytest.mark.parametrize("seed", range(20))
def test_twenty_designs(seed):
    ours, theirs, X, _ = both(seed)
    beta = np.concatenate([[ours.intercept_], ours.coef_])
    np.testing.assert_allclose(beta, theirs.params, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(ours.covariance_, theirs.cov_params(), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(ours.deviance_, theirs.deviance, rtol=1e-6)
    np.testing.assert_allclose(ours.null_deviance_, theirs.null_deviance, rtol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-6)
    np.testing.assert_allclose(ours.aic_, theirs.aic, rtol=1e-6)
    assert ours.df_residual_ == theirs.df_resid
    table = ours.summary()
    np.testing.assert_allclose(table.statistics, theirs.tvalues, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(table.p_values, theirs.pvalues, rtol=1e-5, atol=1e-12)
    limits = np.column_stack([table.lower, table.upper])
    np.testing.assert_allclose(limits, theirs.conf_int(), rtol=1e-6, atol=1e-7)
    assert X.shape[0] == 90 + 7 * seed


@pytest.mark.parametrize("seed", [0, 3, 4, 6, 8, 10, 15])
def test_residuals_and_influence(seed):
    ours, theirs, _, _ = both(seed)
    for kind in ("pearson", "deviance", "response"):
        expected = getattr(theirs, f"resid_{kind}")
        np.testing.assert_allclose(ours.residuals(kind), expected, rtol=1e-6, atol=1e-7)
    found = ours.influence()
    np.testing.assert_allclose(found.leverage.sum(), ours.rank_, rtol=1e-9)
    if ours.link_.name not in ("logit", "log"):
        return  # statsmodels takes the observed information there, R and we the expected
    their_influence = theirs.get_influence()
    np.testing.assert_allclose(found.leverage, their_influence.hat_matrix_diag, rtol=1e-6)
    np.testing.assert_allclose(
        found.cooks_distance, their_influence.cooks_distance[0], rtol=1e-5, atol=1e-12
    )
    np.testing.assert_allclose(
        found.standardized_pearson, their_influence.resid_studentized, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        ours.pearson_dispersion_, theirs.pearson_chi2 / theirs.df_resid, rtol=1e-7
    )


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_robust_and_clustered_covariances(family, link):
    """The second derivative is observed, with every link; leverages are those of statsmodels."""
    X = design(30)
    y, size = respond(family, link, X, truth(family, link, X, 30), 30)
    if family == "poisson" and link != "log":
        y, size = np.maximum(y, 1), np.ones(len(X))
    ours = fit(family, link, X, y, size, tol_digits=11)
    groups = np.random.default_rng(1).integers(0, 15, len(X))
    plain = reference(family, link, X, y, size)
    H = plain.model.hessian(plain.params)
    scores = plain.model.score_obs(plain.params)
    left = 1.0 - plain.get_influence(observed=True).hat_matrix_diag
    for kind in ("HC0", "HC1", "HC2", "HC3", "cluster"):
        if kind in ("HC2", "HC3"):  # by hand: statsmodels gives HC0 by these names
            each = scores / left[:, None] ** {"HC2": 0.5, "HC3": 1.0}[kind]
            wanted = np.linalg.solve(H, np.linalg.solve(H, each.T @ each).T)
        else:
            beside = {"cov_kwds": {"groups": groups}} if kind == "cluster" else {}
            theirs = plain.model.fit(
                cov_type=kind, start_params=plain.params, tol=1e-13, maxiter=100, **beside
            )
            # statsmodels leaves HC1's n/(n-p) out for generalised linear models.
            wanted = theirs.cov_params() * (len(X) / (len(X) - 4) if kind == "HC1" else 1.0)
        labels = np.array([f"g{g}" for g in groups]) if kind == "cluster" else None
        found = ours.robust_covariance(kind, labels)
        scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        np.testing.assert_allclose(found / scale, wanted / scale, atol=1e-6)
        table = ours.summary(covariance=kind, groups=labels)
        np.testing.assert_allclose(table.standard_errors, np.sqrt(np.diag(found)), rtol=1e-13)
        assert f"robust ({kind})" in str(table)


def test_working_residuals():
    """(ȳ - π) dη/dπ, the residual part of IRLS's response z."""
    ours, theirs, _, y = both(0)
    share = theirs.fittedvalues
    expected = (y / case(0)[4] - share) / (share * (1.0 - share))
    np.testing.assert_allclose(ours.residuals("working"), expected, rtol=1e-7, atol=1e-8)


def test_quasi_fit():
    X = design(31)
    rng = np.random.default_rng(3)
    y = rng.negative_binomial(2, 0.3, len(X))
    ours = PoissonRegression(tol_digits=11).fit(X, y)
    exog = np.column_stack([np.ones(len(X)), X])
    theirs = sm.GLM(y, exog, family=sm.families.Poisson()).fit(scale="X2", tol=1e-13, use_t=True)
    table = ours.summary(dispersion="pearson")
    np.testing.assert_allclose(table.standard_errors, theirs.bse, rtol=1e-7)
    np.testing.assert_allclose(table.p_values, theirs.pvalues, rtol=1e-6)
    assert table.statistic_name == "t"


def test_score_test_of_added_columns():
    X = design(32, d=4)
    y, size = respond("poisson", "log", X, truth("poisson", "log", X, 32), 32)
    ours = PoissonRegression(tol_digits=11).fit(X[:, :2], y, exposure=size)
    exog = np.column_stack([np.ones(len(X)), X[:, :2]])
    theirs = sm.GLM(y, exog, family=sm.families.Poisson(), exposure=size).fit(tol=1e-13)
    found = ours.score_test(added=X[:, 2:])
    # Rao's statistic by hand at the small model's means.
    everything = np.column_stack([exog, X[:, 2:]])
    mean = theirs.fittedvalues
    score = everything.T @ (y - mean)
    information = everything.T @ (everything * mean[:, None])
    np.testing.assert_allclose(
        found.statistic, score @ np.linalg.solve(information, score), rtol=1e-7
    )
    assert found.df == 2


def test_wald_test():
    ours, theirs, X, _ = both(6)
    matrix = np.eye(X.shape[1] + 1)[1:]
    expected = theirs.wald_test(matrix, scalar=True)
    found = ours.wald_test([f"x{j}" for j in range(X.shape[1])])
    np.testing.assert_allclose(found.statistic, expected.statistic, rtol=1e-6)
    np.testing.assert_allclose(found.p_value, expected.pvalue, rtol=1e-5)
    assert found.df == X.shape[1]


def test_predictions_with_intervals():
    ours, theirs, X, _ = both(0)
    new = X[:7] * 1.1
    expected = theirs.get_prediction(np.column_stack([np.ones(7), new])).summary_frame(alpha=0.1)
    found = ours.predict_interval(new, level=0.9)
    np.testing.assert_allclose(found.mean, expected["mean"], rtol=1e-7)
    np.testing.assert_allclose(found.lower, expected["mean_ci_lower"], rtol=1e-6)
    np.testing.assert_allclose(found.upper, expected["mean_ci_upper"], rtol=1e-6)
    assert found.frame().shape == (7, 5)


def test_multinomial_logit():
    X = design(33, n=150)
    rng = np.random.default_rng(4)
    scores = np.column_stack([np.zeros(150), X @ rng.normal(size=(3, 2)) / X.std()])
    scores += rng.gumbel(size=(150, 3))
    y = scores.argmax(axis=1)
    ours = MultinomialRegression(tol_digits=11).fit(X, y)
    exog = np.column_stack([np.ones(150), X])
    theirs = sm.MNLogit(y, exog).fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    beta = np.column_stack([ours.intercept_, ours.coef_])
    np.testing.assert_allclose(beta, np.asarray(theirs.params).T, rtol=1e-8)
    np.testing.assert_allclose(ours.covariance_, np.asarray(theirs.cov_params()), rtol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-10)
    np.testing.assert_allclose(ours.pseudo_r2_, theirs.prsquared, rtol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict(exog), rtol=1e-7)
    robust = sm.MNLogit(y, exog).fit(
        method="newton", maxiter=100, tol=1e-14, disp=0, cov_type="HC0"
    )
    np.testing.assert_allclose(
        ours.robust_covariance("HC0"), np.asarray(robust.cov_params()), rtol=1e-6, atol=1e-12
    )
    # One column in all classes: likelihood ratio against the model without it.
    less = sm.MNLogit(y, exog[:, [0, 2, 3]]).fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    found = ours.likelihood_ratio_test("x0")
    np.testing.assert_allclose(found.statistic, 2.0 * (theirs.llf - less.llf), rtol=1e-7)
    assert found.df == 2
    np.testing.assert_allclose(found.p_value, scipy.stats.chi2.sf(found.statistic, 2), rtol=1e-12)


def test_two_class_multinomial_is_the_logit():
    X = design(34)
    y = np.where(np.random.default_rng(5).random(len(X)) < 0.4, "yes", "no")
    one = MultinomialRegression(tol_digits=11).fit(X, y)
    two = BinomialRegression(tol_digits=11).fit(X, y)
    np.testing.assert_allclose(one.coef_[0], two.coef_, rtol=1e-9)
    np.testing.assert_allclose(one.covariance_, two.covariance_, rtol=1e-8)
    np.testing.assert_allclose(one.log_likelihood_, two.log_likelihood_, rtol=1e-13)
    np.testing.assert_allclose(
        one.confidence_intervals(kind="profile"),
        two.confidence_intervals(kind="profile"),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        one.score_test("x1").statistic, two.score_test("x1").statistic, rtol=1e-8
    )
