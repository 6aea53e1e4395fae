"""Leaving the densities out of a fit changes no posterior."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.tradeoff.limit import posteriors_only

MODELS = {
    "naive Bayes": lambda tradeoff: NaiveBayes("gaussian", tradeoff=tradeoff),
    "shared": lambda tradeoff: GaussianDiscriminant("shared", tradeoff=tradeoff),
    "full": lambda tradeoff: GaussianDiscriminant("full", tradeoff=tradeoff),
}


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0, "auto", "best"])
@pytest.mark.parametrize("name", MODELS)
def test_posteriors_are_the_same_without_the_densities(name, tradeoff):
    X, y = load_iris(return_X_y=True)
    # Two classes that overlap, so that a pool's posterior is raised to some power.
    X, y = X[50:, 1:], y[50:]
    whole = MODELS[name](tradeoff).fit(X, y)
    with posteriors_only():
        quick = MODELS[name](tradeoff).fit(X, y)
    np.testing.assert_allclose(quick.predict_proba(X), whole.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(quick.decision_function(X), whole.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("tradeoff", [0.0, "auto", "best"])
def test_rows_with_missing_cells_find_their_density_after_all(tradeoff):
    X, y = load_iris(return_X_y=True)
    holes = X.copy()
    holes[::2, 1] = holes[::3, 2] = np.nan
    holes[7] = np.nan
    whole = NaiveBayes("gaussian", tradeoff=tradeoff).fit(X, y)
    with posteriors_only():
        quick = NaiveBayes("gaussian", tradeoff=tradeoff).fit(X, y)
    np.testing.assert_allclose(quick.predict_proba(holes), whole.predict_proba(holes), atol=1e-9)


def test_categories_not_seen_find_their_density_after_all():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    X = np.where(rng.random((120, 3)) < 0.3 + 0.4 * y[:, None], "a", "b").astype(object)
    new = X.copy()
    new[::2, 0] = "c"
    whole = NaiveBayes(tradeoff=0).fit(X, y)
    with posteriors_only():
        quick = NaiveBayes(tradeoff=0).fit(X, y)
    np.testing.assert_allclose(quick.predict_proba(new), whole.predict_proba(new), atol=1e-9)
