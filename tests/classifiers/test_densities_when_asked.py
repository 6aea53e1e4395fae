"""At λ = 0 the classes' densities are found when asked for; posteriors do not wait for them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.tradeoff import limit

MODELS = {
    "naive Bayes": lambda tradeoff: NaiveBayes("gaussian", tradeoff=tradeoff),
    "shared": lambda tradeoff: GaussianDiscriminant("shared", tradeoff=tradeoff),
    "full": lambda tradeoff: GaussianDiscriminant("full", tradeoff=tradeoff),
}


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each search for a density."""
    seen: list[int] = []
    real = limit.density_limit
    monkeypatch.setattr(limit, "density_limit", lambda *a: (seen.append(1), real(*a))[1])
    return seen


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0, "auto", "best"])
@pytest.mark.parametrize("name", MODELS)
def test_the_densities_have_the_posterior_of_the_fit(name, tradeoff, searches):
    X, y = load_iris(return_X_y=True)
    # Two classes that overlap, so that a pool's posterior is raised to some power.
    X, y = X[50:, 1:], y[50:]
    model = MODELS[name](tradeoff).fit(X, y)
    before = model.predict_proba(X)
    assert not searches
    scorer = model._fitted.whole.scorer
    assert_allclose(scorer.posterior(X), before, atol=1e-9)
    if tradeoff == 0.0:
        assert len(searches) == 1
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), before)
    assert_array_equal(again.joint_log_likelihood(X), model.joint_log_likelihood(X))


@pytest.mark.parametrize("tradeoff", [0.0, "auto"])
def test_rows_with_missing_cells_ask_for_them(tradeoff, searches):
    X, y = load_iris(return_X_y=True)
    holes = X.copy()
    holes[::2, 1] = holes[::3, 2] = np.nan
    holes[7] = np.nan
    shared = tradeoff == 0.0  # cells are statistics then
    model = NaiveBayes("gaussian", tradeoff=tradeoff, shared_variance=shared).fit(X, y)
    posterior = model.predict_proba(holes)
    # At tradeoff 0 a missing cell is its column's mean, which takes no density.
    assert len(searches) == (tradeoff == "auto")
    joint = model.joint_log_likelihood(holes[7:8])[0]
    assert_allclose(np.exp(joint), model.class_prior_, rtol=1e-9)
    empty = (
        model.class_prior_ if tradeoff == "auto" else model.predict_proba(X.mean(axis=0)[None])[0]
    )
    assert_allclose(posterior[7], empty, rtol=1e-9)
    assert len(searches) == 1


def test_rows_that_change_after_the_fit_change_no_density():
    X, y = load_iris(return_X_y=True)
    X = np.ascontiguousarray(X)
    model = GaussianDiscriminant("full", tradeoff=0).fit(X, y)
    same = copy.deepcopy(model)
    expected = same.joint_log_likelihood(X[:5])
    rows = X[:5].copy()
    X[:] = 0.0
    assert_allclose(model.joint_log_likelihood(rows), expected, rtol=1e-9)
