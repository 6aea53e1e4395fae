"""Designs and responses that several tests draw."""

from __future__ import annotations

import numpy as np

from crossfade.glm import BinomialRegression, PoissonRegression
from crossfade.glm.links import get_link

BINOMIAL = ("logit", "probit", "cloglog")
POISSON = ("log", "identity", "sqrt")
MODELS = [("binomial", link) for link in BINOMIAL] + [("poisson", link) for link in POISSON]


def design(seed, n=120, d=3):
    """Columns of several scales, correlated, one of them discrete."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    X[:, 0] = np.round(X[:, 0])
    return X * rng.uniform(0.1, 20.0, size=d) + rng.normal(size=d)


def truth(family, link, X, seed):
    """Coefficients that keep every mean inside the link's domain, intercept first."""
    rng = np.random.default_rng(seed + 1000)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    slopes = rng.normal(size=X.shape[1]) * 0.5
    centre = {"identity": 6.0, "sqrt": 3.0}.get(link, 0.3)
    if link in ("identity", "sqrt"):
        slopes *= 0.8 * centre / max(np.abs(Z @ slopes).max(), 1e-9)
    raw = slopes / X.std(axis=0)
    return np.concatenate([[centre - raw @ X.mean(axis=0)], raw])


def respond(family, link, X, beta, seed):
    """Responses and their sizes (trials or exposure)."""
    rng = np.random.default_rng(seed + 2000)
    mean = get_link(link, BINOMIAL + POISSON).inverse(beta[0] + X @ beta[1:])
    if family == "binomial":
        size = rng.integers(1, 9, len(X)).astype(float)
        return rng.binomial(size.astype(int), mean), size
    size = rng.uniform(0.5, 3.0, len(X))
    return rng.poisson(size * mean), size


def fit(family, link, X, y, size, **options):
    """Fit our model, the size being trials or exposure."""
    kwargs = {k: options.pop(k) for k in ("offset", "sample_weight") if k in options}
    model = BinomialRegression if family == "binomial" else PoissonRegression
    kwargs["trials" if family == "binomial" else "exposure"] = size
    return model(link, **options).fit(X, y, **kwargs)
