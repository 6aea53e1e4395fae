"""What only several columns together have: collinearity, too few rows, large products."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade import GaussianDiscriminant
from crossfade.densities import MultivariateGaussian
from crossfade.densities.covariance import Full, PowerSums, fourth_moments
from crossfade.densities.multivariate import COVARIANCES
from crossfade.errors import DataError, DomainError, NotADensityError
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise
from tests.densities.cases import N_CLASSES, bound_to, case, estimate, gaussian_columns, labels

FULL = ["full", "shared_full"]


@pytest.mark.parametrize("covariance", FULL)
def test_collinear_columns_have_finite_parameters(covariance: str):
    X, y = gaussian_columns(120), labels(120)
    doubled = np.c_[X, 3.0 * X[:, 0] - X[:, 1] + 5.0]
    bound = bound_to(MultivariateGaussian(covariance), doubled, y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert np.isfinite(bound.density.log_partition(eta)).all()
    values = bound.density.log_density(doubled, eta)
    plain = bound_to(MultivariateGaussian(covariance), X, y)
    expected = plain.density.log_density(X, estimate(plain))
    # The column that follows from the others says next to nothing of the class.
    assert_allclose(
        values - values[:, :1],
        expected - expected[:, :1],
        rtol=0.01,
        atol=1e-3 * np.abs(expected).max(),
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_fewer_rows_than_columns_have_finite_parameters(covariance: str):
    X, y = np.random.default_rng(0).normal(size=(9, 6)), np.arange(9) % 3
    bound = bound_to(MultivariateGaussian(covariance), X, y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert np.isfinite(bound.density.log_density(X, eta)).all()


def test_only_what_is_singular_is_touched():
    X, y = gaussian_columns(120), labels(120)
    X[y == 1, 2] = X[y == 1, 0]
    bound = bound_to(MultivariateGaussian("full"), X, y)
    touched = (bound.prior_sums != 0.0).any(axis=1)
    assert_array_equal(touched, [False, True, False])
    got = bound.density.moments(estimate(bound))[1]
    for k in (0, 2):
        assert_allclose(got[k], np.cov(X[y == k].T, bias=True), rtol=1e-10)
    within = sum(((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum(axis=0) for k in range(3)) / 120
    unit = np.sqrt(within)
    null = np.linalg.eigh(np.cov((X[y == 1] / unit).T, bias=True))[1][:, 0] * unit
    expected = np.cov(X[y == 1].T, bias=True) + np.outer(null, null) / 120
    assert_allclose(got[1], expected, rtol=1e-10)


def test_shrinkage_alone_mends_what_is_singular():
    X, y = gaussian_columns(120), labels(120)
    X[:, 2] = X[:, 0]
    bound = bound_to(MultivariateGaussian("full", shrinkage=0.1), X, y)
    within = [((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum(axis=0) for k in range(3)]
    raw = np.array([np.cov(X[y == k].T, bias=True) for k in range(3)])
    got = bound.density.moments(estimate(bound))[1]
    expected = 0.9 * raw + 0.1 * np.diag(sum(within) / 120)
    assert_allclose(got, expected, rtol=1e-11)


def test_outside_the_domain():
    bound, eta, X, _ = case("full")
    density = bound.density
    outside = eta.copy()
    outside[1, density.n_features :] *= -1.0
    partition = density.log_partition(outside)
    assert_array_equal(np.isinf(partition)[:, 0], [False, True, False])
    mean = density.mean(outside)
    assert_array_equal(np.isnan(mean).any(axis=1), [False, True, False])
    assert_allclose(mean[0], density.mean(eta)[0], rtol=1e-13)
    assert np.isfinite(density.scores(X, outside)).all()
    with pytest.raises(NotADensityError, match=r"eta: expected natural parameters of a density"):
        density.sample(outside[1], 3, np.random.default_rng(0))


def test_natural_parameters_of_a_singular_covariance_are_finite():
    structure = Full(2, np.ones(2, dtype=bool))
    for C in (np.zeros((1, 2, 2)), np.ones((1, 2, 2)), -1e-17 * np.ones((1, 2, 2))):
        a, b = structure.natural(np.ones((1, 2)), C)
        assert np.isfinite(a).all()
        assert np.isfinite(b).all()
        assert np.isfinite(structure.log_partition(a, b)).all()


def test_missing_cells_are_refused_with_the_remedy():
    X, y = gaussian_columns(30), labels(30)
    X[4, [0, 2]] = np.nan
    begun = MultivariateGaussian().begin(X)
    assert not begun.allows_missing
    message = (
        r"columns 0, 2: expected no missing cells, got nan; fill or drop them, or use NaiveBayes"
    )
    with pytest.raises(DomainError, match=message):
        begun.summary(X, y, None, N_CLASSES)
    with pytest.raises(DomainError, match=message):
        begun.check(X)


def test_infinite_and_too_large_cells_are_refused():
    X, y = gaussian_columns(30), labels(30)
    X[4, 1] = -np.inf
    with pytest.raises(DomainError, match=r"column 1: expected finite numbers, got -inf"):
        MultivariateGaussian().begin(X).summary(X, y, None, N_CLASSES)
    X[4, 1] = 1e100
    with pytest.raises(DomainError, match=r"column 1: expected numbers with finite fourth powers"):
        MultivariateGaussian().begin(X).summary(X, y, None, N_CLASSES)


def test_the_column_that_is_too_large_is_named_beside_missing_cells():
    X, y = gaussian_columns(30), labels(30)
    X[:, 1] *= 1e140
    X[np.arange(30), np.arange(30) % X.shape[1]] = np.nan
    with pytest.raises(
        DomainError, match=r"column 'x1': expected .* powers, got \d.*e\+1(39|4\d);"
    ):
        GaussianDiscriminant(tradeoff=0).fit(X, y)


def test_parameters_are_checked():
    with pytest.raises(
        DataError, match=r"covariance: expected 'shared' or one of 'full', .*got 'tied'"
    ):
        MultivariateGaussian("tied")
    for shrinkage in (-0.1, 1.0, np.nan):
        with pytest.raises(DataError, match=r"shrinkage: expected a finite number in \[0, 1\)"):
            MultivariateGaussian(shrinkage=shrinkage)
        with pytest.raises(DataError, match=r"pooling: expected a finite number in \[0, 1\)"):
            MultivariateGaussian(pooling=shrinkage)
    assert MultivariateGaussian("shared").shared
    assert not MultivariateGaussian("full").shared


@pytest.mark.parametrize("covariance", FULL)
def test_many_columns_and_classes_go_through_strips(covariance: str):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(700, 40)), np.arange(700) % 7
    bound = bound_to(MultivariateGaussian(covariance), X, y, n_classes=7)
    eta = estimate(bound) + (0.0 if covariance == "shared_full" else 0.01)
    T = bound.density.sufficient_statistics(X)
    weights = rng.random((700, 7))
    assert_allclose(bound.density.scores(X, eta), T @ eta.T, rtol=1e-9, atol=1e-9)
    assert_allclose(bound.density.weighted_sums(X, weights), weights.T @ T, rtol=1e-9, atol=1e-9)


def test_more_classes_than_a_byte_counts():
    X, y = np.random.default_rng(0).normal(size=(900, 2)), np.arange(900) % 300
    bound = bound_to(MultivariateGaussian("diagonal"), X, y, n_classes=300)
    assert_array_equal(bound.counts, np.full((300, 1), 3.0))
    z = bound.density.standardised(X)
    assert_allclose(bound.sums[299, :2], z[y == 299].sum(axis=0), rtol=1e-11)


def test_fourth_moments_about_another_point():
    u = np.random.default_rng(0).normal(2.0, 1.0, (500, 3))
    sums = PowerSums(500.0, *[(u**power).sum(axis=0) for power in (1, 2, 3, 4)])
    offset = np.array([2.0, -1.0, 0.3])
    assert_allclose(
        fourth_moments(sums, offset, np.ones_like(offset)),
        ((u - offset) ** 4).mean(axis=0),
        rtol=1e-12,
    )


@pytest.mark.parametrize("covariance", ["spherical", "shared_spherical"])
def test_spherical_in_the_columns_own_units(covariance: str):
    # Known in closed form: the mean over columns of the within-class variances as given.
    X, y = gaussian_columns(120) * np.array([1.0, 5.0, 0.2]), labels(120)
    bound = bound_to(MultivariateGaussian(covariance, standardise=False), X, y)
    got = bound.density.moments(estimate(bound))[1]
    own = np.array([X[y == k].var(axis=0).mean() for k in range(N_CLASSES)])
    if covariance == "shared_spherical":
        own = np.full(N_CLASSES, np.bincount(y) @ own / 120)
    assert_allclose(got, own[:, None, None] * np.eye(3), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "shared_full", "diagonal", "shared_diagonal"])
def test_other_covariances_do_not_depend_on_the_standardisation(covariance: str):
    X, y = gaussian_columns(120) * np.array([1.0, 5.0, 0.2]), labels(120)
    bounds = [
        bound_to(MultivariateGaussian(covariance, standardise=each), X, y) for each in (True, False)
    ]
    # The penalty is on the weights of standardised columns in either case.
    posteriors = []
    for bound in bounds:
        objective = TradeoffObjective.of(LabelledRows(X, y, None, N_CLASSES), bound, 0.5, 2.0)
        solution = minimise(objective, cold_start(objective))
        posteriors.append(log_normalise(objective.passes.scores(solution.theta))[1])
    assert_allclose(*posteriors, rtol=1e-7, atol=1e-9)
