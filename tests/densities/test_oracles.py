"""Log-densities against SciPy, generative fits against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB

from crossfade.densities import Bernoulli, Categorical, Gaussian, MultivariateGaussian
from crossfade.densities.multivariate import COVARIANCES
from tests.densities.cases import (
    N_CLASSES,
    binary_columns,
    bound_to,
    case,
    coded_columns,
    estimate,
    gaussian_columns,
    labels,
    posterior,
)


def by_class(X: np.ndarray, y: np.ndarray):
    return [X[y == k] for k in range(N_CLASSES)]


def test_gaussian_log_density():
    bound, eta, X, y = case("gaussian_shared")
    means = np.array([rows.mean(axis=0) for rows in by_class(X, y)])
    deviation = np.sqrt(((X - means[y]) ** 2).mean(axis=0))
    expected = [stats.norm(m, deviation).logpdf(X).sum(axis=1) for m in means]
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-10)


def test_smoothing_adds_a_share_of_the_column_variance():
    X, y = gaussian_columns(80), labels(80)
    bound = bound_to(Gaussian(var_smoothing=0.25), X, y)
    eta = estimate(bound)
    expected = [
        stats.norm(rows.mean(axis=0), np.sqrt(rows.var(axis=0) + 0.25 * X.var(axis=0)))
        .logpdf(X)
        .sum(axis=1)
        for rows in by_class(X, y)
    ]
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-10)


def test_bernoulli_log_density():
    bound, eta, X, y = case("bernoulli")
    expected = [
        stats.bernoulli((rows.sum(axis=0) + 1) / (len(rows) + 2)).logpmf(X).sum(axis=1)
        for rows in by_class(X, y)
    ]
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-10)


def test_poisson_log_density():
    bound, eta, X, y = case("poisson")
    expected = [
        stats.poisson((rows.sum(axis=0) + X.mean(axis=0)) / (len(rows) + 1)).logpmf(X).sum(axis=1)
        for rows in by_class(X, y)
    ]
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-10)


def test_categorical_log_density_sums_to_one_over_all_rows():
    bound, eta, _, _ = case("categorical")
    grid = np.array([[a, 0, b] for a in range(4) for b in range(2)], dtype=float)
    total = np.exp(bound.density.log_density(grid, eta)).sum(axis=0)
    assert_allclose(total, 1.0, rtol=1e-12)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_multivariate_log_density(covariance: str):
    bound, eta, X, y = case(covariance)
    means, covariances = bound.density.moments(eta)
    assert_allclose(means, [rows.mean(axis=0) for rows in by_class(X, y)], rtol=1e-10)
    expected = [
        stats.multivariate_normal(m, c).logpdf(X) for m, c in zip(means, covariances, strict=True)
    ]
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_multivariate_covariances_are_maximum_likelihood(covariance: str):
    bound, eta, X, y = case(covariance)
    scale = X.std(axis=0)
    residual = [(rows - rows.mean(axis=0)) / scale for rows in by_class(X, y)]
    if covariance.startswith("shared_"):
        residual = [np.vstack(residual)] * N_CLASSES
    full = np.array([r.T @ r / len(r) for r in residual])
    if "diagonal" in covariance:
        full = full * np.eye(3)
    if "spherical" in covariance:
        full = np.trace(full, axis1=1, axis2=2)[:, None, None] / 3 * np.eye(3)
    assert_allclose(
        bound.density.moments(eta)[1], full * np.outer(scale, scale), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("pooling", [0.0, 0.4])
def test_regularised_covariances_by_hand(pooling):
    """Friedman's (1989) two weights: of the pooled covariance, then of its diagonal."""
    X, y = gaussian_columns(90), labels(90)
    means = np.array([rows.mean(axis=0) for rows in by_class(X, y)])
    residual = X - means[y]
    pooled = (residual**2).mean(axis=0)
    for covariance in ("full", "shared_full", "diagonal"):
        density = MultivariateGaussian(covariance, shrinkage=0.3, pooling=pooling)
        bound = bound_to(density, X, y)
        got_means, got = bound.density.moments(estimate(bound))
        groups = [residual] * 3 if covariance == "shared_full" else by_class(residual, y)
        raw = np.array([g.T @ g / len(g) for g in groups])
        if covariance == "diagonal":
            raw = raw * np.eye(3)
        towards = np.average(raw, axis=0, weights=np.bincount(y)) if len(groups) == 3 else raw
        raw = (1.0 - pooling) * raw + pooling * towards
        assert_allclose(got, 0.7 * raw + 0.3 * np.diag(pooled), rtol=1e-9, atol=1e-12)
        assert_allclose(got_means, means, rtol=1e-10)


SKLEARN = {
    "gaussian": (Gaussian(var_smoothing=0.0), GaussianNB(var_smoothing=0.0), gaussian_columns),
    "bernoulli": (Bernoulli(0.7), BernoulliNB(alpha=0.7), binary_columns),
    "categorical": (Categorical([4, 1, 2], 0.7), CategoricalNB(alpha=0.7), coded_columns),
    "shared": (
        MultivariateGaussian("shared"),
        LinearDiscriminantAnalysis(solver="lsqr"),
        gaussian_columns,
    ),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_generative_posteriors_are_those_of_scikit_learn(name: str):
    density, other, columns = SKLEARN[name]
    X, y = columns(150), labels(150)
    bound = bound_to(density, X, y)
    ours = posterior(bound, estimate(bound), X, np.bincount(y))
    assert_allclose(ours, other.fit(X, y).predict_proba(X), rtol=1e-8, atol=1e-10)


def test_full_covariance_posteriors_are_those_of_quadratic_discriminant_analysis():
    X, y = gaussian_columns(150), labels(150)
    bound = bound_to(MultivariateGaussian("full"), X, y)
    ours = posterior(bound, estimate(bound), X, np.bincount(y))
    theirs = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, y)
    unbiased = np.allclose(theirs.covariance_[0], np.cov(X[y == 0].T), rtol=1e-9)
    if unbiased:  # scikit-learn before 1.8 divides by n - 1; the maximum likelihood is by n
        for k in range(N_CLASSES):
            n = (y == k).sum()
            theirs.scalings_[k] = theirs.scalings_[k] * (n - 1) / n
    assert_allclose(ours, theirs.predict_proba(X), rtol=1e-8, atol=1e-10)


def test_weighted_gaussian_is_scikit_learns():
    X, y = gaussian_columns(150), labels(150)
    w = np.random.default_rng(1).uniform(0.1, 4.0, 150)
    bound = bound_to(Gaussian(var_smoothing=0.0), X, y, w)
    ours = posterior(bound, estimate(bound), X, np.bincount(y, w))
    other = GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=w)
    assert_allclose(ours, other.predict_proba(X), rtol=1e-8, atol=1e-10)
