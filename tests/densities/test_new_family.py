"""A new family is one class of about 40 lines: here is one, from nothing, and what it then does."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from crossfade.densities import Product
from crossfade.errors import DomainError, NotADensityError
from tests.densities.cases import Exponential, Geometric, bound_to, derivative, estimate, labels


def test_it_takes_about_forty_lines():
    assert len(inspect.getsource(Geometric).splitlines()) <= 40
    assert len(inspect.getsource(Exponential).splitlines()) <= 40


@pytest.fixture(scope="module")
def fitted():
    y = labels(200)
    X = np.random.default_rng(0).geometric(np.array([0.2, 0.5, 0.4])[y, None], (200, 2)) - 1.0
    bound = bound_to(Geometric(), X, y)
    return bound, estimate(bound), X, y


def test_estimate_and_density(fitted):
    bound, eta, X, y = fitted
    expected = []
    for k in range(3):
        mean = (X[y == k].sum(axis=0) + 1.0) / ((y == k).sum() + 1.0)
        expected.append(stats.geom(1.0 / (1.0 + mean), loc=-1).logpmf(X).sum(axis=1))
    assert_allclose(bound.density.log_density(X, eta), np.transpose(expected), rtol=1e-10)


def test_derivatives(fitted):
    bound, eta, _, _ = fitted
    density, v = bound.density, np.random.default_rng(1).uniform(-0.1, 0.1, eta.shape)
    slope = derivative(lambda h: density.log_partition(eta + h * v).sum(axis=1))
    assert_allclose((density.mean(eta) * v).sum(axis=1), slope, rtol=1e-8)
    bent = derivative(lambda h: density.mean(eta + h * v))
    assert_allclose(density.hessian_product(eta, v), bent, rtol=1e-8)
    assert_allclose(density.inverse_hessian_product(eta, bent), v, rtol=1e-7)
    assert_allclose(density.natural(density.mean(eta)), eta, rtol=1e-12)


def test_boundary_domain_and_missing_cells(fitted):
    bound, eta, X, _ = fitted
    density = bound.density
    assert_array_equal(density.log_partition(np.zeros((1, 2))), [[np.inf, np.inf]])
    assert_array_equal(density.log_partition(np.ones((1, 2))), [[np.inf, np.inf]])
    with pytest.raises(NotADensityError):
        density.sample(np.ones(2), 3, np.random.default_rng(0))
    with pytest.raises(DomainError, match=r"column 1: expected whole numbers, 0 or more, got 0.5"):
        density.check(np.array([[1.0, 0.5], [np.nan, 2.0]]))
    holed = X.copy()
    holed[0] = np.nan
    assert_array_equal(density.log_density(holed, eta)[0], np.zeros(3))
    assert_array_equal(density.log_density(holed, eta)[1:], density.log_density(X, eta)[1:])


def test_it_joins_a_product(fitted):
    _, eta, X, y = fitted
    T = np.random.default_rng(2).exponential(1.0 + y)[:, None]
    both = bound_to(
        Product([(Exponential(), [1]), (Geometric(), [2, 0])]), np.c_[X[:, :1], T, X[:, 1]], y
    )
    joined = estimate(both)
    assert_allclose(joined[:, 1:], eta[:, ::-1], rtol=1e-12)
    assert_allclose(joined[:, 0], [-1.0 / T[y == k].mean() for k in range(3)], rtol=1e-12)
    drawn = both.density.sample(joined[0], 20_000, np.random.default_rng(0))
    assert_allclose(drawn.mean(axis=0), both.density.mean(joined)[0][[2, 0, 1]], rtol=0.05)
