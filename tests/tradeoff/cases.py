"""Objectives of every density over small data, and the textbook formula they must equal."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from crossfade.densities import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultivariateGaussian,
    Poisson,
    Product,
)
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import Parameters, TradeoffObjective

COVARIANCES = (
    "full",
    "shared_full",
    "diagonal",
    "shared_diagonal",
    "spherical",
    "shared_spherical",
)

#: Unbound densities over the columns of :func:`table`, by the columns they take.
DENSITIES = {
    "gaussian": (lambda: Gaussian(), [0, 1]),
    "shared gaussian": (lambda: Gaussian(shared_variance=True), [0, 1]),
    "bernoulli": (lambda: Bernoulli(), [2, 3]),
    "categorical": (lambda: Categorical([3, 4]), [4, 5]),
    "poisson": (lambda: Poisson(), [6, 7]),
    "product": (
        lambda: Product(
            [
                (Gaussian(), [0]),
                (Gaussian(shared_variance=True), [1]),
                (Bernoulli(), [2]),
                (Categorical([3]), [3]),
                (Poisson(), [4]),
            ]
        ),
        [0, 1, 2, 4, 6],
    ),
    **{
        f"multivariate {name}": (lambda name=name: MultivariateGaussian(name, 0.05), [0, 1])
        for name in COVARIANCES
    },
}


def table(n: int, k: int, seed: int = 0):
    """Return eight columns of four kinds, each different between classes, and class codes."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    first = rng.normal(size=n) * (1.0 + 0.3 * codes) + codes
    second = 0.6 * first + rng.normal(size=n) - 0.5 * codes
    X = np.column_stack(
        [
            3.0 + 10.0 * first,
            second / 7.0,
            rng.random(n) < (codes + 1.0) / (k + 1.5),
            rng.random(n) < 0.4,
            np.minimum(2, rng.integers(3, size=n) + (rng.random(n) < 0.2 * codes)),
            rng.integers(4, size=n),
            rng.poisson(1.0 + codes),
            rng.poisson(3.0, size=n),
        ]
    )
    return X, codes.astype(np.int64)


def make(
    name: str,
    k: int = 2,
    *,
    tradeoff: float = 0.5,
    l2: float = 0.7,
    weighted: bool = False,
    missing: bool = False,
    n: int = 90,
    seed: int = 0,
) -> TradeoffObjective:
    """Return the objective of a density of :data:`DENSITIES` over its columns of the table."""
    density, columns = DENSITIES[name]
    X, codes = table(n, k, seed)
    X = np.ascontiguousarray(X[:, columns])
    rng = np.random.default_rng(seed + 1)
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    weights = rng.uniform(0.2, 3.0, size=n) if weighted else None
    rows = LabelledRows(X, codes, weights, k, has_missing=missing)
    return TradeoffObjective.of(rows, bind(density(), rows), tradeoff, l2)


def start(objective: TradeoffObjective, seed: int = 0) -> np.ndarray:
    """Return a point inside the domain: the generative fit to rows with random labels."""
    rng = np.random.default_rng(seed)
    rows, bound = objective.rows, objective.bound
    share = rng.dirichlet(np.full(objective.passes.n_classes, 0.5), size=rows.n_samples)
    share *= rng.gamma(0.5, size=rows.n_samples)[:, None]
    density = objective.density
    absent = density.missing_factors(rows.X)
    counts = np.repeat(share.sum(axis=0)[:, None], density.n_factors, axis=1)
    if absent is not None:
        counts = counts - share.T @ absent
    sums = density.weighted_sums(rows.X, share)
    eta = density.estimate(counts + bound.prior_counts, sums + bound.prior_sums)
    partition = density.log_partition(eta).sum(axis=1)
    log_prior = np.log(share.sum(axis=0) / share.sum())
    return objective.theta(Parameters(eta, log_prior - partition))


def specification(objective: TradeoffObjective, theta: np.ndarray) -> float:
    """Return Φ_λ from its definition: -λ log joint - (1-λ) log posterior - prior + penalty."""
    rows, bound, density, lam = (
        objective.rows,
        objective.bound,
        objective.density,
        objective.tradeoff,
    )
    parameters = objective.parameters(theta)
    eta = parameters.natural
    partition = density.log_partition(eta)
    log_prior = parameters.offset + partition.sum(axis=1)
    joint = density.relative_log_density(rows.X, eta) + log_prior
    if lam == 0.0 and objective.has_gaps:
        # A logistic regression on statistics that have their mean where they are missing.
        gone = density.missing_factors(rows.X)[:, density.factors]
        known = np.where(gone, bound.statistic_mean, density.sufficient_statistics(rows.X))
        joint = known @ eta.T + parameters.offset
    own = joint[np.arange(rows.n_samples), rows.codes]
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    likelihood = weights @ (lam * own + (1.0 - lam) * (own - logsumexp(joint, axis=1)))
    prior = (eta * bound.prior_sums).sum() - (partition * bound.prior_counts).sum()
    standardised = (eta * bound.statistic_scale)[:, ~density.tied]
    if objective.passes.n_classes == 2:
        penalty = ((standardised[1] - standardised[0]) ** 2).sum()
    else:
        penalty = ((standardised - standardised.mean(axis=0)) ** 2).sum()
    return float(-likelihood - lam * prior + (1.0 - lam) * 0.5 * objective.l2 * penalty)
