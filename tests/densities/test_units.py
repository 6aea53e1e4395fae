"""What a column is measured in changes nothing: scales from 1e-9 to 1e9, origins far away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from crossfade.densities import Gaussian, MultivariateGaussian
from crossfade.densities.multivariate import COVARIANCES
from crossfade.densities.univariate import finite_medians
from tests.densities.cases import bound_to, estimate, gaussian_columns, labels, posterior

X, Y = gaussian_columns(100), labels(100)
DENSITIES = {
    "gaussian": Gaussian(),
    "gaussian_shared": Gaussian(shared_variance=True),
    "smoothed": Gaussian(var_smoothing=0.1),
    **{name: MultivariateGaussian(name) for name in COVARIANCES},
    "shrunk": MultivariateGaussian("full", shrinkage=0.2, pooling=0.5),
}
every_density = pytest.mark.parametrize("name", DENSITIES)


def assert_unit_free(
    name: str,
    scale: np.ndarray,
    origin: np.ndarray,
    *,
    rtol: float = 1e-9,
    natural_rtol: float = 1e-9,
) -> None:
    density = DENSITIES[name]
    moved = X * scale + origin
    plain = (moved - origin) / scale  # what is left of X far from the origin
    one, other = bound_to(density, plain, Y), bound_to(density, moved, Y)
    eta, moved_eta = estimate(one), estimate(other)
    assert_allclose(moved_eta, eta, rtol=natural_rtol, atol=natural_rtol * np.abs(eta).max())
    assert_allclose(other.statistic_scale, one.statistic_scale, rtol=natural_rtol)
    w = np.bincount(Y)
    assert_allclose(
        posterior(other, moved_eta, moved, w), posterior(one, eta, plain, w), atol=10 * rtol
    )
    change = other.density.log_density(moved, moved_eta) - one.density.log_density(plain, eta)
    assert_allclose(change, -np.log(scale).sum(), rtol=100 * rtol, atol=100 * rtol)


@every_density
def test_scales_from_1e_minus_9_to_1e9_side_by_side(name: str):
    assert_unit_free(name, np.array([1e-9, 1.0, 1e9]), np.array([0.0, 3.0, 1e9]))


@every_density
def test_mean_of_1e9_and_deviation_of_one(name: str):
    # Doubles near 1e9 are 1e-7 apart, and so is the point that natural parameters refer to; what
    # is said of rows is as exact as ever.
    assert_unit_free(name, np.ones(3), np.array([1e9, -1e9, 0.0]), natural_rtol=1e-6)


@every_density
@given(
    exponents=st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    origins=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
)
def test_any_units(name: str, exponents: list[int], origins: list[float]):
    scale = 10.0 ** np.array(exponents)
    assert_unit_free(name, scale, scale * np.array(origins), rtol=1e-8, natural_rtol=1e-8)


@every_density
def test_sorted_rows_whose_head_is_no_guide(name: str):
    density, order = DENSITIES[name], np.argsort(X[:, 0])
    far = X.copy()
    far[:, 0] *= 1e6
    one = bound_to(density, far, Y, head=far[order[:1]])
    other = bound_to(density, far, Y, head=far)
    assert_allclose(estimate(one), estimate(other), rtol=1e-9, atol=1e-9)


@every_density
def test_a_constant_column_is_harmless(name: str):
    density = DENSITIES[name]
    wide = np.insert(X, 1, 0.1, axis=1)
    one, other = bound_to(density, X, Y), bound_to(density, wide, Y)
    eta, wide_eta = estimate(one), estimate(other)
    assert np.isfinite(wide_eta).all()
    expected = one.density.log_density(X, eta)
    assert_allclose(other.density.log_density(wide, wide_eta), expected, rtol=1e-9, atol=1e-9)
    # Whatever it holds later, as long as it is finite.
    wide[:, 1] = np.linspace(-1e12, 1e12, 100)
    assert_allclose(other.density.log_density(wide, wide_eta), expected, rtol=1e-9, atol=1e-9)
    drawn = other.density.sample(wide_eta[0], 4, np.random.default_rng(0))
    assert_array_equal(drawn[:, 1], np.full(4, 0.1))
    assert np.isfinite(other.statistic_scale).all()


@every_density
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-300])
def test_constant_columns_only(name: str, value: float):
    constant = np.full((20, 2), value)
    y = np.arange(20) % 3
    bound = bound_to(DENSITIES[name], constant, y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert_array_equal(bound.statistic_scale, np.ones(bound.density.n_statistics))
    values = bound.density.relative_log_density(constant + 5.0, eta)
    assert_allclose(values, np.repeat(values[:, :1], 3, axis=1), atol=1e-12)


@every_density
def test_a_class_of_one_row_has_finite_parameters(name: str):
    y = np.where(np.arange(100) == 4, 2, Y % 2)
    bound = bound_to(DENSITIES[name], X, y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert np.isfinite(bound.density.log_density(X, eta)).all()


@every_density
def test_a_column_constant_within_every_class_has_finite_parameters(name: str):
    separated = X.copy()
    separated[:, 0] = Y
    bound = bound_to(DENSITIES[name], separated, Y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    if "spherical" not in name:  # which spreads the certainty over all columns
        assert_array_equal(bound.density.log_density(separated, eta).argmax(axis=1), Y)


def test_zero_variance_without_smoothing_is_raised_not_infinite():
    x, y = np.array([[0.0], [1.0], [5.0]]), np.array([0, 0, 1])
    for shared in (False, True):
        bound = bound_to(Gaussian(shared, var_smoothing=0.0), x, y, n_classes=2)
        eta = estimate(bound)
        assert np.isfinite(eta).all()
        assert_array_equal(bound.density.log_density(x, eta).argmax(axis=1), y)


def test_a_balanced_column_of_two_values_has_no_second_scale():
    # z² is then 1 throughout: rounding must not be taken for variation.
    x = np.array([0.1, 0.3] * 50)[:, None]
    bound = bound_to(Gaussian(), x, np.arange(100) % 3)
    assert_array_equal(bound.statistic_scale, [1.0, 1.0])


def test_medians_of_finite_cells_are_numpy_s():
    rng = np.random.default_rng(0)
    for n in range(1, 9):
        X = rng.normal(size=(n, 40)) * 10.0 ** rng.integers(-9, 9, size=40)
        X[rng.random(X.shape) < 0.4] = np.nan
        X[rng.random(X.shape) < 0.1] = np.inf
        finite = np.where(np.isfinite(X), X, np.nan)
        known = ~np.isnan(finite).all(axis=0)
        found = finite_medians(X)
        assert_array_equal(found[known], np.nanmedian(finite[:, known], axis=0))
        assert_array_equal(found[~known], 0.0)
