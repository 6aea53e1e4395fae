"""A column of many levels: rows are kept by them, and Newton's systems eliminate them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.densities import Categorical
from crossfade.densities.base import Density
from crossfade.optim.newton import inverse
from crossfade.tradeoff import bound_rows, level_blocks, path
from crossfade.tradeoff.level_blocks import ByLevels, has_levels
from crossfade.tradeoff.path import cold_start, minimise
from tests.densities.cases import bound_to, coded_columns, labels
from tests.tradeoff.cases import make, specification, start
from tests.tradeoff.test_derivatives import directions, slope, unpinned


@pytest.fixture
def any_number(monkeypatch):
    """Treat columns of three levels as columns of many."""
    monkeypatch.setattr(bound_rows, "_FEWEST_LEVELS", 2)
    monkeypatch.setattr(bound_rows, "_WORTH_SAVING", -1e9)
    monkeypatch.setattr(bound_rows, "_LOOK", -9)
    monkeypatch.setattr(level_blocks, "_MOST_REST", 1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["categorical", "product"])
@pytest.mark.usefixtures("any_number")
def test_value_and_gradient_of_rows_kept_by_levels(name, k, weighted, missing):
    for tradeoff in (0.4, 0.0):
        objective = make(name, k, tradeoff=tradeoff, weighted=weighted, missing=missing)
        assert objective.passes.kept.indicated is not None
        theta = start(objective)
        value, gradient = objective.value_and_gradient(theta)
        assert value == pytest.approx(specification(objective, theta), rel=1e-11)
        for v in directions(objective, theta):
            expected = slope(objective.value, theta, v)
            assert gradient @ v == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["categorical", "product"])
@pytest.mark.usefixtures("any_number")
def test_systems_without_levels_have_the_solutions_of_the_whole(name, k, weighted, missing):
    for tradeoff, l2 in ((0.9, 0.7), (0.4, 0.0), (0.1, 5.0), (0.0, 0.7)):
        objective = make(name, k, tradeoff=tradeoff, l2=l2, weighted=weighted, missing=missing)
        assert has_levels(objective)
        theta = minimise(objective, cold_start(objective), cold=True).theta
        ByLevels.of(objective.with_tradeoff(0.6))  # another λ on the same rows leaves no trace
        found, whole = ByLevels.of(objective).inverse(theta), inverse(objective, theta)
        assert found is not None
        for v in directions(objective, theta):
            right = unpinned(objective, v)
            expected = unpinned(objective, whole(right))
            scale = np.abs(expected).max()
            assert_allclose(unpinned(objective, found(right)), expected, atol=1e-9 * scale)


@pytest.mark.parametrize("model", [NaiveBayes(), GaussianDiscriminant("full")])
@pytest.mark.parametrize(("tradeoff", "share"), [(0.3, 0.0), (0.3, 0.1), (0.0, 0.1), (0.0, 0.0)])
def test_fits_are_those_of_whole_systems(monkeypatch, model, tradeoff, share):
    rng = np.random.default_rng(0)
    n, k = 240, 3
    y = rng.integers(k, size=n)
    level = (rng.integers(40, size=n) + y) % 40
    table = pl.DataFrame(
        {
            "place": [None if rng.random() < share else f"p{one}" for one in level],
            "kind": [f"k{one}" for one in rng.integers(3, size=n)],
            "size": rng.normal(size=n) + 0.5 * y,
            "age": [None if rng.random() < share else one for one in rng.normal(size=n)],
        }
    )
    used = []
    original = path._by_levels

    def noted(*args):
        used.append(1)
        return original(*args)

    monkeypatch.setattr(path, "_by_levels", noted)
    model = type(model)(**model.get_params()).set_params(tradeoff=tradeoff)
    found = model.fit(table, y).predict_proba(table)
    assert used
    monkeypatch.setattr(path, "has_levels", lambda objective: False)
    monkeypatch.setattr(bound_rows, "_FEWEST_LEVELS", 10_000)
    used.clear()
    expected = model.fit(table, y).predict_proba(table)
    assert not used
    assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_where_one_column_has_nearly_all_levels_newton_takes_few_steps(share):
    """As with titanic's cabins: from blocks of single factors twice as many are needed."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=900)
    table = pl.DataFrame(
        {
            "cabin": [f"c{one}" for one in (rng.integers(190, size=900) + 9 * y) % 190],
            "age": [None if rng.random() < share else one for one in rng.normal(size=900) + y],
        }
    )
    model = NaiveBayes(tradeoff=0.3).fit(table, y)
    assert model.solution_.converged
    assert model.solution_.n_iter <= 12


@pytest.mark.filterwarnings("ignore::crossfade.errors.SeparationWarning")
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_classes_apart_by_levels_are_fitted_without_a_penalty(monkeypatch, share):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    table = pl.DataFrame(
        {
            name: [None if rng.random() < share else f"p{one}" for one in column]
            for name, column in (
                ("place", (rng.integers(40, size=300) + 3 * y) % 40),
                ("shop", (rng.integers(45, size=300) + 2 * y) % 45),
            )
        }
    )
    model = NaiveBayes(tradeoff=0.0, l2=0.0)
    found = model.fit(table, y).predict_proba(table)
    monkeypatch.setattr(path, "has_levels", lambda objective: False)
    expected = model.fit(table, y).predict_proba(table)
    assert_allclose(found, expected, atol=1e-6)


def test_sums_of_squares_and_variances_of_levels_are_those_of_indicators():
    X, codes = coded_columns(60), labels(60)
    density = bound_to(Categorical([4, 1, 2]), X, codes).density
    weights = np.random.default_rng(0).random((60, 3))
    eta = np.random.default_rng(1).normal(size=(3, density.n_statistics))
    expected = Density.square_sums(density, X, weights)
    assert_allclose(density.square_sums(X, weights), expected, rtol=1e-12)
    expected = Density.hessian_diagonal(density, eta)
    assert_allclose(density.hessian_diagonal(eta), expected, rtol=1e-12)
