"""Efron's efficiency: what logistic regression loses where discriminant analysis is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad

from crossfade.errors import DataError


def relative_efficiency(distance: ArrayLike, prior: float = 0.5) -> Any:
    """Return the asymptotic efficiency of logistic regression against discriminant analysis.

    Statement. Let two classes be Gaussian with one covariance matrix, at Mahalanobis distance Δ,
    with shares π and 1 - π. As m grows, the mean excess error of each procedure over the best rule
    falls like c/m; the efficiency is the ratio of the two c, linear discriminant analysis first:
    logistic regression needs 1/efficiency as many rows. It is

        Eff(Δ) = (1 + π(1-π)Δ²) e^(-Δ²/8) ∫ φ(x) / (π e^(Δx/2) + (1-π) e^(-Δx/2)) dx,

    φ the standard normal density (Efron 1975, "The efficiency of logistic regression compared to
    normal discriminant analysis", JASA 70, theorem 2 and table 1).

    Assumptions. Exact for any number of columns where the classes have equal shares, since then
    every coordinate of the boundary has this ratio of variances: 1/A against 1/(π(1-π)) + Δ², with
    A = E[p(1-p)] of the true posterior p. For unequal shares it is the limit of many columns.

    Parameters
    ----------
    distance : float or array-like
        Δ ≥ 0.
    prior : float, default=0.5
        π in (0, 1).

    Returns
    -------
    float or ndarray
        In (0, 1], by adaptive quadrature to 1e-10.

    Raises
    ------
    DataError
        If an argument is out of its range.

    Examples
    --------
    >>> from crossfade.theory import relative_efficiency
    >>> relative_efficiency([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]).round(3)
    array([1.   , 0.995, 0.968, 0.899, 0.786, 0.641, 0.486, 0.343])
    """
    given = np.asarray(distance, dtype=np.float64)
    if not (np.isfinite(given) & (given >= 0.0)).all():
        raise DataError(
            f"distance: expected Mahalanobis distances of at least 0, got {distance!r}; it is the "
            "distance of the class means in units of their common standard deviation"
        )
    if not 0.0 < prior < 1.0:
        raise DataError(
            f"prior: expected the share of one class, in (0, 1), got {prior!r}; 0.5 means equal"
        )
    values = np.array([_efficiency(float(d), prior) for d in given.ravel()]).reshape(given.shape)
    return float(values) if given.ndim == 0 else values


def _efficiency(distance: float, prior: float) -> float:
    def integrand(x: float) -> float:
        # Both exponentials and φ in one exponent each, so that nothing overflows.
        a = np.log(prior) + distance * x / 2.0
        b = np.log1p(-prior) - distance * x / 2.0
        return float(np.exp(-0.5 * x * x - distance**2 / 8.0 - np.logaddexp(a, b)))

    area = quad(integrand, -np.inf, np.inf, epsabs=1e-12, epsrel=1e-10)[0] / np.sqrt(2.0 * np.pi)
    return float((1.0 + prior * (1.0 - prior) * distance**2) * area)
