"""Products: the parts side by side, columns anywhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade.densities import (
    DENSITIES,
    Bernoulli,
    Gaussian,
    MultivariateGaussian,
    Poisson,
    Product,
)
from crossfade.errors import DataError, DomainError
from tests.densities.cases import MIXED, N_CLASSES, bound_to, case, estimate, labels, mixed_columns


def test_log_density_is_the_sum_of_the_parts():
    bound, eta, X, y = case("product")
    total = np.zeros((X.shape[0], N_CLASSES))
    for part, columns in MIXED.parts:
        own = bound_to(part, X[:, columns], y)
        total += own.density.log_density(X[:, columns], estimate(own))
    assert_allclose(bound.density.log_density(X, eta), total, rtol=1e-11)


def test_a_part_of_several_columns_is_one_factor():
    X, y = mixed_columns(90), labels(90)[:]
    X = X[:, [0, 3, 1]]
    product = Product([(MultivariateGaussian("full"), [2, 0]), (Bernoulli(), [1])])
    assert not product.allows_missing
    bound = bound_to(product, X, y)
    density = bound.density
    assert_array_equal(density.feature_factors, [0, 1, 0])
    assert_array_equal(density.factors, [0, 0, 0, 0, 0, 1])
    assert density.log_partition(estimate(bound)).shape == (N_CLASSES, 2)


def test_one_part_over_all_columns_copies_nothing():
    seen = []

    class Watching(Gaussian):
        def summary(self, X, codes, weights, n_classes):
            seen.append(X)
            return super().summary(X, codes, weights, n_classes)

    X, y = mixed_columns(30)[:, :3], labels(30)
    bound_to(Product([(Watching(), [0, 1, 2])]), X, y)
    assert seen[0] is X


def test_tied_statistics_stay_tied():
    bound, eta, _, _ = case("product")
    assert bound.density.tied.sum() == 1
    column = np.flatnonzero(bound.density.tied)[0]
    assert (eta[:, column] == eta[0, column]).all()


def test_errors_name_columns_of_the_whole():
    X, y = mixed_columns(30), labels(30)
    X[3, 6] = -2.0
    begun = MIXED.begin(X)
    with pytest.raises(
        DomainError, match=r"X: column 6: expected whole numbers, 0 or more, got -2"
    ):
        begun.summary(X, y, None, N_CLASSES)
    with pytest.raises(DomainError) as caught:
        begun.check(X)
    assert caught.value.columns == (6,)
    renamed = caught.value.renamed([f"c{j}" for j in range(10)])
    assert str(renamed) == (
        "X: column 'c6': expected whole numbers, 0 or more, got -2.0; "
        "use 'gaussian' for this column, or round it"
    )
    again = pickle.loads(pickle.dumps(renamed))
    assert str(again) == str(renamed)


def test_refusals():
    with pytest.raises(DataError, match=r"parts: expected at least one density"):
        Product([])
    with pytest.raises(
        DataError, match=r"parts: expected each column in one part, got \[0, 1, 1\]"
    ):
        Product([(Gaussian(), [0, 1]), (Poisson(), [1])])
    with pytest.raises(DataError, match=r"parts: expected columns 0 to 2, each once, got \[0, 1\]"):
        Product([(Gaussian(), [0, 1])]).begin(np.zeros((1, 3)))


@pytest.mark.parametrize("build", [Bernoulli, Poisson])
@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_a_bad_pseudo_count_is_refused(build, alpha: float):
    with pytest.raises(DataError, match=r"alpha: expected a finite number of at least 0"):
        build(alpha)


@pytest.mark.parametrize("smoothing", [-1e-9, np.nan, np.inf])
def test_a_bad_smoothing_is_refused(smoothing: float):
    with pytest.raises(DataError, match=r"var_smoothing: expected a finite number of at least 0"):
        Gaussian(var_smoothing=smoothing)


def test_values_outside_a_family_are_named():
    X = np.array([[0.0, 1.0, 0.5], [2.0, np.nan, -1.0]])
    with pytest.raises(DomainError, match=r"columns 0, 2: expected 0 or 1, got 2.0"):
        Bernoulli().begin(X).check(X)
    with pytest.raises(DomainError, match=r"column 2: expected whole numbers, 0 or more, got 0.5"):
        Poisson().begin(X).check(X)
    X[0, 1] = np.inf
    with pytest.raises(DomainError, match=r"column 1: expected finite numbers, got inf"):
        Gaussian().begin(X).check(X)


def test_many_columns_are_not_all_named():
    X = np.full((1, 30), -1.0)
    with pytest.raises(DomainError, match=r"columns 0, 1, .*, 9 and 20 more: expected 0 or 1"):
        Bernoulli().begin(X).check(X)


@pytest.mark.parametrize("density", [Bernoulli(alpha=0.0), Poisson(alpha=0.0)])
def test_without_smoothing_what_was_never_seen_is_next_to_impossible(density):
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1])
    bound = bound_to(density, X, y, n_classes=2)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    values = bound.density.log_density(X, eta)
    assert np.isfinite(values).all()
    assert_array_equal(values.argmax(axis=1), y)
    assert_allclose(values[2, 0], np.log(1e-15), rtol=1e-12)


def test_names_lead_to_densities():
    assert set(DENSITIES) == {"gaussian", "bernoulli", "categorical", "poisson"}
    assert DENSITIES["poisson"] is Poisson


def test_densities_can_be_pickled_and_begin_changes_nothing():
    before = dict(vars(MIXED))
    bound, eta, X, _ = case("product")
    assert vars(MIXED) == before
    again = pickle.loads(pickle.dumps(bound.density))
    assert_array_equal(again.log_density(X, eta), bound.density.log_density(X, eta))
