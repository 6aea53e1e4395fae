"""Emissions by name, from parameters in the usual terms, and back to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats
from crossfade.densities import DENSITIES, Density, Gaussian, MultivariateGaussian, Poisson
from crossfade.densities.base import Bound
from crossfade.errors import DataError
from crossfade.hmm.density_emission import DensityEmission
from crossfade.hmm.emission import Emission
from crossfade.hmm.symbol_emission import SymbolEmission


def emission_for(emission: Any, alpha: float, shrinkage_rows: float = 0.0) -> Emission:
    """Return the emission a user named."""
    if isinstance(emission, Density):
        return DensityEmission(emission)
    if emission == "categorical":
        return SymbolEmission(alpha)
    if emission == "gaussian":
        return DensityEmission(Gaussian(shrinkage_rows=shrinkage_rows))
    if not isinstance(emission, str) or emission not in DENSITIES:
        raise DataError(
            f"emission: expected one of {', '.join(map(repr, DENSITIES))} or a density, got "
            f"{emission!r}; densities are in crossfade.densities"
        )
    kind: Any = DENSITIES[emission]
    return DensityEmission(kind(alpha))


def _unit_bound(density: Density, n_features: int, n_states: int) -> Bound:
    """Return a density bound to nothing: location 0, scale 1, no prior."""
    rows = np.concatenate([np.eye(n_features), -np.eye(n_features)]) * np.sqrt(n_features)
    begun = density.begin(rows, scales=False)
    codes = np.arange(len(rows), dtype=np.int64) % n_states
    bound = begun.bind(begun.summary(rows, codes, None, n_states))
    return replace(
        bound,
        prior_counts=np.zeros_like(bound.prior_counts),
        prior_sums=np.zeros_like(bound.prior_sums),
    )


def gaussian_emission(means: Floats, covars: Floats) -> tuple[DensityEmission, Floats]:
    """Return the emission with these means, and variances or full covariances, and its θ."""
    if means.ndim != 2 or covars.shape not in (means.shape, (*means.shape, means.shape[1])):
        raise DataError(
            "covars: expected shape (n_states, n_features) or (n_states, n_features, n_features) "
            f"to go with means, got {covars.shape!r} and {means.shape!r}"
        )
    n_states, d = means.shape
    if covars.ndim == 2:
        density: Density = Gaussian()
        moments = np.hstack([means, means**2 + covars])
    else:
        density = MultivariateGaussian("full")
        lower = np.tril_indices(d)
        products = means[:, :, None] * means[:, None, :] + covars
        moments = np.hstack([means, products[:, lower[0], lower[1]]])
    bound = _unit_bound(density, d, n_states)
    theta = bound.density.natural(moments)
    if not np.isfinite(bound.density.log_partition(theta)).all():
        raise DataError("covars: expected positive definite covariances, got others")
    return DensityEmission(density, bound), theta


def poisson_emission(rates: Floats, alpha: float) -> tuple[DensityEmission, Floats]:
    """Return the emission with these rates, shape (n_states, n_features), and its θ."""
    if rates.ndim != 2 or not (rates > 0).all():
        raise DataError(
            f"rates: expected positive numbers of shape (n_states, n_features), got {rates!r}"
        )
    density = Poisson(alpha)
    n_states, d = rates.shape
    begun = density.begin(np.ones((1, d)), scales=False)
    codes = np.arange(n_states, dtype=np.int64)
    bound = begun.bind(begun.summary(np.ones((n_states, d)), codes, None, n_states))
    return DensityEmission(density, bound), np.log(rates)


def emission_from(
    emissionprob: ArrayLike | None,
    symbols: Sequence[Any] | None,
    means: ArrayLike | None,
    covars: ArrayLike | None,
    rates: ArrayLike | None,
    alpha: float,
) -> tuple[str | Density, Emission, Floats]:
    """Return the name or density, the bound emission and θ of parameters in the usual terms."""
    if emissionprob is not None:
        table = np.asarray(emissionprob, dtype=np.float64)
        known = tuple(range(table.shape[-1]) if symbols is None else symbols)
        symbolic = SymbolEmission(alpha).with_symbols(known)
        return "categorical", symbolic, symbolic.from_probabilities(table)
    if means is not None and covars is not None:
        gaussian, theta = gaussian_emission(
            np.asarray(means, dtype=np.float64), np.asarray(covars, dtype=np.float64)
        )
        full = isinstance(gaussian.density, MultivariateGaussian)
        return gaussian.density if full else "gaussian", gaussian, theta
    if rates is not None:
        return "poisson", *poisson_emission(np.asarray(rates, dtype=np.float64), alpha)
    raise DataError("emissionprob: expected emissionprob, means with covars, or rates, got none")
