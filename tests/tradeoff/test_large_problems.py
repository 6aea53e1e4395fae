"""Problems whose Hessian is too large to form: they converge, in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.densities import MultivariateGaussian
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.grid import is_dense
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise


@pytest.fixture(scope="module")
def wide():
    """Fifty correlated columns, five classes of different covariances."""
    rng = np.random.default_rng(0)
    n, d, k = 1500, 50, 5
    y = rng.integers(k, size=n)
    mixing = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.geomspace(1.0, 0.1, d)
    X = (rng.normal(size=(n, d)) * (1.0 + 0.05 * y[:, None])) @ mixing
    X += rng.normal(size=(k, d))[y] * 0.3
    return X, y


@pytest.mark.parametrize("tradeoff", [0.5, pytest.param(0.0, marks=pytest.mark.slow)])
def test_full_covariance_of_fifty_columns_and_five_classes(wide, tradeoff):
    X, y = wide
    rows = LabelledRows(X, y.astype(np.int64), None, 5)
    tracemalloc.start()
    try:
        objective = TradeoffObjective.of(
            rows, bind(MultivariateGaussian("full"), rows), tradeoff, 1.0
        )
        assert not is_dense(objective)
        assert objective.n_parameters == 5 * (50 + 1275 + 1)
        solution = minimise(objective, cold_start(objective))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert solution.converged, solution.message
    assert solution.gradient_norm < 1e-8
    # One dense Hessian would be 350 MB.
    assert peak < 150e6


@pytest.mark.parametrize("tradeoff", [0.5, 0.05])
def test_a_shared_covariance_of_sixty_columns(wide, tradeoff):
    X, y = wide
    X = np.hstack([X, X[:, :10] ** 2])
    rows = LabelledRows(X, y % 3, None, 3)
    objective = TradeoffObjective.of(
        rows, bind(MultivariateGaussian("shared"), rows), tradeoff, 1.0
    )
    assert not is_dense(objective)
    solution = minimise(objective, cold_start(objective))
    assert solution.converged, solution.message
    assert solution.gradient_norm < 1e-8


def test_a_shared_covariance_of_more_columns_than_rows():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 150)), np.arange(50) % 2
    tracemalloc.start()
    try:
        model = GaussianDiscriminant("shared", tradeoff=0.5).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.solution_.converged
    # The density's Hessian would be 2.1 GB.
    assert peak < 100e6


def test_the_estimator_fits_it_at_tradeoff_one_and_tells_classes_apart(wide):
    X, y = wide
    model = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    assert model.score(X, y) > 0.9


def test_a_column_of_many_categories():
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=2000)
    word = np.where(rng.random(2000) < 0.5, y * 1000 + rng.integers(1000, size=2000), 2500)
    X = word[:, None]
    tracemalloc.start()
    try:
        model = NaiveBayes("categorical", tradeoff=0.5).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.solution_.converged, model.solution_.message
    assert peak < 100e6
