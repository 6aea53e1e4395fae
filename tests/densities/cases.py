"""Densities of every kind with data they fit, and what tests do with them again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crossfade.densities import (
    Bernoulli,
    Bound,
    Categorical,
    Density,
    Gaussian,
    JohnsonSU,
    MultivariateGaussian,
    Poisson,
    Product,
    Univariate,
    reference_rows,
)
from crossfade.densities.multivariate import COVARIANCES

N_CLASSES = 3


class Exponential(Univariate):
    """Waiting times: the statistic is x, the natural parameter minus the rate."""

    domain = "positive numbers"

    def in_domain(self, x):
        return x > 0

    def column_statistics(self, x):
        return x[..., None]

    def column_log_partition(self, eta):
        return -np.log(-eta[..., 0])

    def column_mean(self, eta):
        return -1.0 / eta

    def column_covariance(self, eta):
        return eta[..., None] ** -2.0

    def column_natural(self, mean):
        return -1.0 / mean

    def column_sample(self, eta, size, rng):
        return rng.exponential(-1.0 / eta[:, 0], (size, len(eta)))


class Geometric(Univariate):
    """Failures before a success: x = 0, 1, 2, …; η is the logarithm of a failure's probability."""

    domain = "whole numbers, 0 or more"

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def in_domain(self, x):
        return (x >= 0) & (x == np.floor(x))

    def column_statistics(self, x):
        return x[..., None]

    def column_log_partition(self, eta):
        return -np.log(-np.expm1(eta[..., 0]))

    def column_mean(self, eta):
        return -1.0 / np.expm1(-eta) * -1.0

    def column_covariance(self, eta):
        return (np.exp(eta) / np.expm1(eta) ** 2)[..., None]

    def column_natural(self, mean):
        return -np.log1p(1.0 / np.maximum(mean, 1e-15))

    def column_prior(self, counts, sums):
        return np.full_like(counts, self.alpha), np.full_like(sums, self.alpha)

    def column_sample(self, eta, size, rng):
        return rng.geometric(-np.expm1(eta[:, 0]), (size, len(eta))) - 1.0


class Gamma(Univariate):
    """Both parameters free: the statistics are log x and x; two a column, means by iteration."""

    n_column_statistics = 2
    domain = "positive numbers"
    default_mean = (-0.5772156649015329, 1.0)

    def in_domain(self, x):
        return x > 0

    def column_statistics(self, x):
        return np.stack([np.log(x), x], axis=-1)

    def column_log_partition(self, eta):
        from scipy.special import gammaln

        shape = eta[..., 0] + 1.0
        value = gammaln(shape) - shape * np.log(-eta[..., 1])
        return np.where(shape > 0.0, value, np.inf)

    def column_mean(self, eta):
        from scipy.special import digamma

        shape = eta[..., 0] + 1.0
        return np.stack([digamma(shape) - np.log(-eta[..., 1]), -shape / eta[..., 1]], axis=-1)

    def column_covariance(self, eta):
        from scipy.special import polygamma

        shape, minus_rate = eta[..., 0] + 1.0, eta[..., 1]
        rows = [
            [polygamma(1, shape), -1.0 / minus_rate],
            [-1.0 / minus_rate, shape / minus_rate**2],
        ]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def column_natural(self, mean):
        from scipy.special import digamma, polygamma

        gap = np.log(mean[..., 1]) - mean[..., 0]  # log E x - E log x = log(shape) - ψ(shape)
        shape = 0.5 / gap
        for _ in range(50):
            error = np.log(shape) - digamma(shape) - gap
            shape = np.abs(shape - error / (1.0 / shape - polygamma(1, shape)))
        return np.stack([shape - 1.0, -shape / mean[..., 1]], axis=-1)

    def column_sample(self, eta, size, rng):
        return rng.gamma(eta[:, 0] + 1.0, -1.0 / eta[:, 1], (size, len(eta)))


def labels(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, N_CLASSES, n)


def gaussian_columns(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixing = np.array([[1.0, 0.0, 0.0], [0.6, 0.7, 0.0], [-0.3, 0.5, 0.4]])
    spread = np.array([1.0, 0.6, 1.7])[labels(n, seed), None]
    return rng.normal(size=(n, 3)) @ mixing.T * spread + rng.normal(size=(3, 3))[labels(n, seed)]


def binary_columns(n: int, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(7).uniform(0.2, 0.8, (N_CLASSES, 2))[labels(n, seed)]
    return (np.random.default_rng(seed + 1).random((n, 2)) < chance) * 1.0


def count_columns(n: int, seed: int = 0) -> np.ndarray:
    rate = np.random.default_rng(8).uniform(0.5, 6.0, (N_CLASSES, 2))[labels(n, seed)]
    return np.random.default_rng(seed + 2).poisson(rate) * 1.0


def coded_columns(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed + 3)
    shifted = (rng.integers(0, 4, n) + labels(n, seed) * rng.integers(0, 2, n)) % 4
    return np.c_[shifted, np.zeros(n), rng.integers(0, 2, n)] * 1.0


def positive_columns(n: int, seed: int = 0) -> np.ndarray:
    scale = np.random.default_rng(9).uniform(0.5, 3.0, (N_CLASSES, 2))[labels(n, seed)]
    return np.random.default_rng(seed + 4).gamma(2.0, scale)


def mixed_columns(n: int, seed: int = 0) -> np.ndarray:
    parts = [gaussian_columns, binary_columns, count_columns, coded_columns]
    return np.hstack([part(n, seed) for part in parts])


MIXED = Product(
    [
        (Poisson(), [5, 6]),
        (Gaussian(), [2, 0]),
        (Categorical([4, 1, 2]), [7, 8, 9]),
        (Gaussian(shared_variance=True), [1]),
        (Bernoulli(), [4, 3]),
    ]
)

#: Name → (unbound density, its data of n rows).
CASES: dict[str, tuple[Density, Callable[..., np.ndarray]]] = {
    "gaussian": (Gaussian(), gaussian_columns),
    "gaussian_shared": (Gaussian(shared_variance=True, var_smoothing=0.0), gaussian_columns),
    "johnson_su": (JohnsonSU([0.3, -1.0, 0.0], [1.5, 0.7, 2.0]), gaussian_columns),
    "johnson_su_shared": (JohnsonSU(0.2, 0.8, shared_variance=True), gaussian_columns),
    "bernoulli": (Bernoulli(), binary_columns),
    "poisson": (Poisson(), count_columns),
    "categorical": (Categorical([4, 1, 2]), coded_columns),
    "exponential": (Exponential(), positive_columns),
    "gamma": (Gamma(), positive_columns),
    "product": (MIXED, mixed_columns),
    **{name: (MultivariateGaussian(name), gaussian_columns) for name in COVARIANCES},
    "shrunk": (MultivariateGaussian("full", shrinkage=0.3, pooling=0.5), gaussian_columns),
}

WITH_MISSING = [name for name, (density, _) in CASES.items() if density.allows_missing]


def bound_to(
    density: Density,
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    n_classes: int = N_CLASSES,
    head: np.ndarray | None = None,
    scales: bool = True,
) -> Bound:
    """Return the density bound to rows summed as one block."""
    begun = density.begin(reference_rows(X) if head is None else head, scales=scales)
    return begun.bind(begun.summary(X, y, weights, n_classes))


def estimate(bound: Bound) -> np.ndarray:
    """Return the smoothed maximum-likelihood natural parameters."""
    return bound.density.estimate(bound.counts + bound.prior_counts, bound.sums + bound.prior_sums)


def case(
    name: str, n: int = 120, seed: int = 0
) -> tuple[Bound, np.ndarray, np.ndarray, np.ndarray]:
    """Return a bound density with its parameters, rows and labels."""
    density, columns = CASES[name]
    X, y = columns(n, seed), labels(n, seed)
    bound = bound_to(density, X, y)
    return bound, estimate(bound), X, y


def derivative(function: Callable[[float], Any], h: float = 1e-3) -> Any:
    """Return the derivative at 0 by five points: exact to h⁴."""
    near, far = function(h) - function(-h), function(2 * h) - function(-2 * h)
    return (8.0 * near - far) / (12.0 * h)


def posterior(
    bound: Bound, eta: np.ndarray, X: np.ndarray, class_weights: np.ndarray
) -> np.ndarray:
    """Return Bayes' rule's posterior with priors proportional to the class weights."""
    joint = bound.density.relative_log_density(X, eta) + np.log(class_weights / class_weights.sum())
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
