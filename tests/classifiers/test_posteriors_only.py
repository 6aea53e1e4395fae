"""Leaving the densities out of a fit changes no posterior."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.fitting.limit import posteriors_only

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
