"""Models of every kind, and tables they take."""

from __future__ import annotations

import numpy as np

from crossfade import GaussianDiscriminant, NaiveBayes

#: Tradeoffs that stand for all: both ends, between, and chosen.
TRADEOFFS = (1, 0.5, 0, "auto")

#: Every model of continuous columns, by name.
CONTINUOUS = {
    "naive bayes": lambda **p: NaiveBayes(**p),
    "shared variance": lambda **p: NaiveBayes(shared_variance=True, **p),
    "shared": lambda **p: GaussianDiscriminant("shared", **p),
    "full": lambda **p: GaussianDiscriminant("full", **p),
    "diagonal": lambda **p: GaussianDiscriminant("diagonal", **p),
    "shared_diagonal": lambda **p: GaussianDiscriminant("shared_diagonal", **p),
    "spherical": lambda **p: GaussianDiscriminant("spherical", **p),
    "shared_spherical": lambda **p: GaussianDiscriminant("shared_spherical", **p),
}

#: A choice of the tradeoff is some hundred fits, and the same code whatever the model: where each
#: tradeoff is tried with each model, it is tried with these.
CHOOSING = ("naive bayes", "full")

#: Models and tradeoffs, each with each but for choices.
CONTINUOUS_AND_TRADEOFFS = [
    (name, tradeoff)
    for tradeoff in TRADEOFFS
    for name in (CHOOSING if tradeoff == "auto" else CONTINUOUS)
]


def posterior_scores(model, joint):
    """Return log-posteriors, up to a term common to the classes, from log p(x, y)."""
    prior = np.log(model.class_prior_)
    return prior + model.posterior_scale_ * (joint - prior)


def continuous(n=150, k=3, d=3, seed=0):
    """Return correlated columns with class means and spreads that differ, overlapping."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    X = rng.normal(size=(n, d)) * (1.0 + 0.4 * y[:, None]) + 0.8 * y[:, None]
    X[:, 1:] += 0.5 * X[:, :-1]
    return X, y


#: Densities of the columns of :func:`mixed`.
DENSITIES = {0: "gaussian", 1: "bernoulli", 2: "categorical", 3: "poisson"}


def mixed(n=150, k=2, seed=0, missing=0.0):
    """Return one column of each kind, as floats."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    X = np.column_stack(
        [
            rng.normal(size=n) + y,
            rng.random(n) < 0.3 + 0.2 * y,
            np.minimum(2, rng.integers(3, size=n) + (rng.random(n) < 0.4 * y)),
            rng.poisson(1.0 + y),
        ]
    ).astype(float)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, y
