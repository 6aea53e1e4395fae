"""Standard errors that do not take the model for true: the sandwich, and what follows from it.

An estimate solves Σ_i w_i ψ_i(θ) = 0, ψ_i the gradient of a row's part of the objective. A row
then moves it by its influence u_i = -H⁻¹ ψ_i, H the Hessian, and the covariance of the estimate is
that of Σ_i w_i u_i: H⁻¹ J H⁻¹ (Huber 1967, White 1982), "HC0". A row draws the fit towards itself,
so that its own gradient is too small; divided by one less its leverage it is not, "HC3"
(MacKinnon & White 1985). Rows that belong together are summed first (Liang & Zeger 1986), and have
a leverage together (Bell & McCaffrey 2002).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import chi2, norm

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum


@dataclass(frozen=True)
class PosteriorCovariance:
    """The covariance of what a posterior follows from.

    `covariance` (q, q): Of natural parameters and offsets of the pool, each times its scale, class
        after class; of that scale; of the logarithms of the classes' shares of the rows.
    `n_rows`: Their total weight.
    `n_groups`: Groups of rows that were summed first, None where rows are on their own.
    `weighed`: Whether the weights of a pool count as estimated; None without a pool.
    `n_unlabelled`: What of `n_rows` is of rows without a label.
    `kind`: "HC3", or "HC0" as of files before there was another.
    `settled`: Whether what a pool's classes have in common, which λ = 0 leaves open, is the limit's
        and varies as that does.
    """

    covariance: Floats
    n_rows: float
    n_groups: int | None = None
    weighed: bool | None = None
    n_unlabelled: float = 0.0
    kind: str = "HC0"
    settled: bool = False


def covariance_of_total(
    influences: Callable[[slice], tuple[Floats, Floats]],
    n_rows: int,
    groups: Integers | None = None,
    *,
    block_rows: int,
    around: Floats | None = None,
) -> tuple[Floats, float]:
    """Return the covariance of Σ_i w_i u_i over independent rows or groups, and Σ_i w_i.

    `influences` gives the u and the w of a block of rows; a weight of 3 means three equal rows.
    Of groups it is times G/(G-1). `around`: What the u are around, their mean if not given.

    Shapes: u (n_rows, q), w (n_rows,); groups (n_samples,); around (q,); → (q, q).
    """
    if groups is None:

        def block(rows: slice) -> tuple[Floats, Floats, float]:
            u, w = influences(rows)
            u = u if around is None else u - around
            total = w @ u
            return (u * w[:, None]).T @ u, total, float(w.sum())

        outer, total, weight = block_sum(block, n_rows, block_rows=block_rows)
        if around is None:
            outer = outer - np.outer(total, total) / weight
        return outer, weight
    number = int(groups.max()) + 1
    weights = np.zeros(number)
    sums: Floats | None = None
    for start in range(0, n_rows, block_rows):
        rows = slice(start, min(start + block_rows, n_rows))
        u, w = influences(rows)
        sums = np.zeros((number, u.shape[1])) if sums is None else sums
        np.add.at(sums, groups[rows], u * w[:, None])
        np.add.at(weights, groups[rows], w)
    assert sums is not None
    weight = float(weights.sum())
    mean = sums.sum(axis=0) / weight if around is None else around
    away = sums - weights[:, None] * mean
    n_groups = int(np.count_nonzero(weights))
    return n_groups / (n_groups - 1.0) * (away.T @ away), weight


def quadratic_forms(gradients: Floats, covariance: Floats) -> Floats:
    """Return g·V g by row, not below zero; shapes (..., q), (q, q) → (...)."""
    found: Floats = np.maximum(((gradients @ covariance) * gradients).sum(axis=-1), 0.0)
    return found


def posterior_interval(
    log_posterior: Floats, gradients: Floats, covariance: Floats, coverage: float
) -> tuple[Floats, Floats]:
    """Return limits of each posterior, by the delta method on the logit scale.

    `gradients` are those of the class scores.

    Shapes: log_posterior (n_rows, n_classes); gradients (n_rows, n_classes, q).
    """
    width = norm.ppf(0.5 + coverage / 2.0)
    low, high = np.empty_like(log_posterior), np.empty_like(log_posterior)
    for k in range(log_posterior.shape[1]):
        others = np.delete(log_posterior, k, axis=1)
        against = np.logaddexp.reduce(others, axis=1)
        shares = np.exp(others - against[:, None])
        change = gradients[:, k] - np.einsum("nl,nlq->nq", shares, np.delete(gradients, k, axis=1))
        half = width * np.sqrt(quadratic_forms(change, covariance))
        logit = log_posterior[:, k] - against
        low[:, k], high[:, k] = expit(logit - half), expit(logit + half)
    return low, high


def wald_test(estimates: Floats, covariance: Floats) -> tuple[float, int, float]:
    """Return χ², degrees of freedom and p-value of the hypothesis that all are zero.

    Estimates without any error say nothing, and do not count.
    """
    spread = np.sqrt(np.diagonal(covariance))
    seen = spread > 0.0
    if not seen.any():
        return 0.0, 0, float("nan")
    spread = spread[seen]
    values, vectors = np.linalg.eigh(covariance[np.ix_(seen, seen)] / np.outer(spread, spread))
    kept = values > 1e-10 * values[-1]
    along = vectors[:, kept].T @ (estimates[seen] / spread)
    statistic, df = float((along**2 / values[kept]).sum()), int(kept.sum())
    return statistic, df, float(chi2.sf(statistic, df))
