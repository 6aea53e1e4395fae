"""Frequent words act together: their block stands for the Hessian, and steps get cheaper."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from crossfade import NaiveBayes
from crossfade.densities import Gaussian, Multinomial, Product
from crossfade.table.documents import MixedRows
from crossfade.tradeoff import preconditioner as module
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.passes import RowCurvature
from crossfade.tradeoff.path import cold_start, minimise


def documents(n: int, n_words: int, n_classes: int) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Words as frequent as 1/rank, twice as frequent in one of the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    rank = np.arange(n_words)
    rates = 8.0 / (1.0 + rank) * np.where(rank % n_classes == y[:, None], 1.3, 1.0)
    return scipy.sparse.csr_array(rng.poisson(rates).astype(float)), y


def eigenvalues(objective: TradeoffObjective, theta: np.ndarray) -> np.ndarray:
    """Return those of M⁻¹H above zero, in the directions that the objective depends on."""
    product, solve = objective.curvature_product(theta), module.preconditioner(objective, theta)
    units = np.eye(objective.n_parameters)
    H, M = (np.column_stack([f(unit) for unit in units]) for f in (product, solve))
    assert_allclose(M, M.T, atol=1e-9 * np.abs(M).max())
    found = np.linalg.eigvals(M @ H).real
    return found[found > 1e-9 * found.max()]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("tradeoff", "missing"), [(0.3, False), (0.3, True), (0.0, False)])
def test_their_block_is_near_the_hessian(tradeoff, n_classes, missing, monkeypatch):
    S, y = documents(600, 40, n_classes)
    numbers = np.column_stack([np.random.default_rng(1).normal(size=(600, 2)), np.zeros(600)])
    numbers[::7, 0] = np.nan if missing else 0.0
    rows = LabelledRows(MixedRows.of(numbers, {2: S}), y, None, n_classes, missing)
    density = Product([(Gaussian(True), [0, 1]), (Multinomial(), [2])])
    objective = TradeoffObjective.of(rows, bind(density, rows), tradeoff, 1.0)
    theta = minimise(objective, cold_start(objective)).theta
    spread = {}
    for few in (10**6, 600):
        monkeypatch.setattr(module, "SAMPLE", few)
        found = eigenvalues(objective, theta)
        spread[few] = found.max() / found.min()
    assert spread[600] < 12.0
    assert spread[600] < spread[10**6]


def test_fits_take_a_third_of_the_products_and_end_where_they_did(monkeypatch):
    S, y = documents(5_000, 300, 3)
    products = []
    plain = RowCurvature.product
    monkeypatch.setattr(
        RowCurvature, "product", lambda self, *v: (products.append(1), plain(self, *v))[1]
    )
    model = NaiveBayes(tradeoff=0).fit(S, y)
    taken = len(products)
    monkeypatch.setattr(module, "SAMPLE", 10**6)
    NaiveBayes(tradeoff=0).fit(S, y)
    assert taken < (len(products) - taken) / 2.5
    rival = LogisticRegression(solver="newton-cg", tol=1e-10).fit(S, y)
    assert_allclose(model.predict_proba(S), rival.predict_proba(S), atol=1e-6)


def test_their_block_serves_several_steps(monkeypatch):
    S, y = documents(5_000, 300, 3)
    made = []
    own = module._heavy_block
    monkeypatch.setattr(module, "_heavy_block", lambda *a: made.append(1) or own(*a))
    solution = NaiveBayes(tradeoff=0).fit(S, y).solution_
    assert solution.converged
    assert 1 <= len(made) <= solution.n_iter / 2


@pytest.mark.parametrize("tradeoff", [1.0, 0.3, 0.0])
def test_a_sample_of_all_rows_is_the_same_function(tradeoff):
    S, y = documents(200, 30, 3)
    rows = LabelledRows(MixedRows.of(np.zeros((200, 1)), {0: S}), y, None, 3)
    density = Product([(Multinomial(), [0])])
    objective = TradeoffObjective.of(rows, bind(density, rows), tradeoff, 1.0)
    theta = np.random.default_rng(3).normal(size=objective.n_parameters)
    value, gradient = objective.value_and_gradient(theta)
    of_sample = objective.sampled(1.0).value_and_gradient(theta)
    assert_allclose(of_sample[0], value, rtol=1e-12)
    assert_allclose(of_sample[1], gradient, atol=1e-9 * np.abs(gradient).max())
