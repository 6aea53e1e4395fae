"""What the states of a chain emit: the seam between the chain and the densities.

A chain model needs little of its emissions: each state's log-potential at each step, the sums that
estimate them, and b = the log of all that a state can emit (log-partition, zero when normalised).
:class:`DensityEmission` gives this for any :class:`crossfade.densities.base.Density`, so that a
new density works in a hidden Markov model at once; :class:`SymbolEmission` for words and other
symbols, looked up in a table of as many columns as there are symbols.

Parameters θ are natural ones, an array of a row a state: η for a density, the log-weights of the
symbols (normalised or not) for symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from crossfade.blocks import block_sum, for_each_block
from crossfade.densities import (
    Density,
    Gaussian,
    MultivariateGaussian,
    Poisson,
    reference_rows,
)
from crossfade.densities.base import Bound, Floats, Integers
from crossfade.errors import DataError
from crossfade.sequences.input import Layout, encode, is_missing, stack_numbers, stack_symbols
from crossfade.sequences.recursions import Lookup, StepScorer

__all__ = [
    "DensityEmission",
    "Emission",
    "SymbolEmission",
    "by_step",
    "emission_for",
    "emission_from",
    "gaussian_moments",
    "score_steps",
]

#: From stacked observations to an array (n_steps, n_states).
Scorer = Callable[[Any], Floats]

#: Weight of the cell for unseen symbols where smoothing gives it none: scores must stay finite.
_RESERVE = 1e-10

#: Steps scored at a time.
_SCORE_ROWS = 8192

#: Rows looked at when starting points are drawn.
_START_ROWS = 20_000


class Emission(ABC):
    """What states emit. Unbound as a user writes it; :meth:`bind` returns a copy that knows data.

    Observations are stacked: an array with a row (or entry) a step.
    """

    #: Whether sums over a block of steps are small enough to be made block by block.
    small_sums: bool
    #: Whether a constant on a state's whole row of θ only changes b.
    shiftable: bool

    @abstractmethod
    def read(self, X: Any, lengths: ArrayLike | None) -> tuple[Any, Layout]:
        """Return raw observations stacked, and their layout."""

    @abstractmethod
    def bind(self, raw: Any, codes: Integers | None, n_states: int) -> Emission:
        """Return a copy that knows domain, centre and prior; `codes` are labels where known."""

    @abstractmethod
    def observe(self, raw: Any) -> Any:
        """Return raw observations as the other methods want them (bound emissions)."""

    @abstractmethod
    def potentials(self, theta: Floats) -> Scorer:
        """Return the function from observations to log-potentials (n_steps, n_states).

        They are not normalised: what a state emits has log-weight b in all, which is also the
        potential of a missing step.
        """

    @abstractmethod
    def log_likelihoods(self, theta: Floats) -> Scorer:
        """Return the function from observations to log p(x_t | state), zero for a missing step."""

    @abstractmethod
    def partition(self, theta: Floats) -> Floats:
        """Return log-partitions A by factor, (n_states, n_factors); +inf outside the domain.

        Their sum over factors is b.
        """

    @abstractmethod
    def partition_gradient(self, theta: Floats, weights: Floats) -> Floats:
        """Return the gradient of Σ weights·A(θ), weights (n_states, n_factors), shape of θ."""

    @abstractmethod
    def sums(self, observations: Any, weights: Floats) -> tuple[Floats, Floats]:
        """Return (counts, sums) of weighted steps: counts as the estimate needs them.

        `weights` (n_steps, n_states). Sums have the shape of θ and are the gradient of
        Σ weights·potentials with respect to θ, missing steps left out.
        """

    @abstractmethod
    def missing_counts(self, observations: Any, weights: Floats) -> Floats | None:
        """Return the weight of what is missing, as counts' shape; None if nothing is."""

    @abstractmethod
    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        """Return θ from data's counts and sums plus the prior; rows without either keep θ."""

    @abstractmethod
    def prior(self) -> tuple[Floats, Floats]:
        """Return the prior's (counts, sums), of the shapes that :meth:`sums` returns."""

    @abstractmethod
    def log_prior(self, theta: Floats) -> float:
        """Return the conjugate prior's log density, up to a constant."""

    @abstractmethod
    def random_weights(self, observations: Any, n_states: int, rng: np.random.Generator) -> Floats:
        """Return a random plausible share of each step for each state, to start from."""

    @abstractmethod
    def order(self, theta: Floats) -> Integers:
        """Return the canonical order of the states."""

    @abstractmethod
    def sample(self, theta: Floats, codes: Integers, rng: np.random.Generator) -> Any:
        """Draw an observation for each state number in `codes`."""

    @abstractmethod
    def n_free(self, n_states: int) -> int:
        """Return the number of free parameters."""

    @abstractmethod
    def tied(self, n_parameters: int) -> Any:
        """Return which columns of θ are equal in all states, (n_parameters,) bool."""

    def normalised(self, theta: Floats) -> Floats:
        """Return the parameters of the same distributions with log-likelihoods read off them."""
        return theta


def by_step(scorer: Scorer, observations: Any) -> StepScorer:
    """Return the function from a slice of steps to their log-potentials."""
    if isinstance(scorer, TableScorer):
        return Lookup(scorer.table, observations)
    return lambda steps: scorer(observations[steps])


def score_steps(scorer: StepScorer, n_steps: int, n_states: int) -> Floats:
    """Return the scores of all steps, block by block on threads, (n_steps, n_states)."""
    values = np.empty((n_steps, n_states))

    def work(rows: slice) -> None:
        values[rows] = scorer(rows)

    for_each_block(work, n_steps, block_rows=_SCORE_ROWS)
    return values


def emission_for(emission: Any, alpha: float) -> Emission:
    """Return the emission a user named.

    Parameters
    ----------
    emission : {"categorical", "gaussian", "poisson"} or Density
    alpha : float
        Smoothing of the named kinds; a density keeps its own.

    Raises
    ------
    DataError
        If it is none of these.
    """
    if isinstance(emission, Density):
        return DensityEmission(emission)
    if emission == "categorical":
        return SymbolEmission(alpha)
    if emission == "gaussian":
        return DensityEmission(Gaussian())
    if emission == "poisson":
        return DensityEmission(Poisson(alpha))
    raise DataError(
        "emission: expected 'categorical', 'gaussian', 'poisson' or a density, got "
        f"{emission!r}; densities are in crossfade.densities"
    )


# -- densities -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DensityEmission(Emission):
    """Numeric columns with any density.

    Attributes
    ----------
    density : Density
    bound : Bound or None
        Prior and bound density once data are known.
    """

    density: Density
    bound: Bound | None = None
    small_sums = True
    shiftable = False

    def read(self, X: Any, lengths: ArrayLike | None) -> tuple[Floats, Layout]:
        return stack_numbers(X, lengths)

    def observe(self, raw: Floats) -> Floats:
        density = self._ready.density
        if len(raw) == 0:
            return np.zeros((0, density.n_features))
        if raw.shape[1] != density.n_features:
            raise DataError(
                f"X: expected {density.n_features} columns as in fit, got {raw.shape[1]}"
            )
        density.check(self._filled(raw)[0])
        return raw

    def _filled(self, rows: Floats) -> tuple[Floats, Any]:
        """Return rows fit for a density that knows no missing cells, and which rows to ignore."""
        if self.density.allows_missing:
            return rows, None
        missing = np.isnan(rows)
        if not missing.any():
            return rows, None
        gone = missing.any(axis=1)
        partly = gone & ~missing.all(axis=1)
        if partly.any():
            raise DataError(
                f"X: expected steps with all columns or none, got {rows[partly][0]!r}; "
                f"{type(self.density).__name__} has one factor, use emission='gaussian' for steps "
                "with some columns missing"
            )
        return np.where(missing, 0.0, rows), gone

    def bind(self, raw: Floats, codes: Integers | None, n_states: int) -> DensityEmission:
        filled, gone = self._filled(raw)
        present = np.flatnonzero(~gone) if gone is not None else np.arange(len(raw))
        if len(present) == 0:
            raise DataError("X: expected at least one step, got none; pass non-empty sequences")
        begun = self.density.begin(reference_rows(filled[present]), scales=False)
        if codes is None:
            # The prior of a state is that of an even share of all steps.
            codes = np.arange(len(raw), dtype=np.int64) % n_states
        known = codes >= 0 if gone is None else (codes >= 0) & ~gone
        codes = np.maximum(codes, 0)

        def work(rows: slice) -> Any:
            weights = None if known[rows].all() else known[rows].astype(np.float64)
            return begun.summary(filled[rows], codes[rows], weights, n_states)

        return replace(self, bound=begun.bind(block_sum(work, len(raw))))

    @property
    def _ready(self) -> Bound:
        assert self.bound is not None
        return self.bound

    def potentials(self, theta: Floats) -> Scorer:
        density = self._ready.density
        partition = density.log_partition(theta)

        def scorer(observations: Floats) -> Floats:
            rows, gone = self._filled(observations)
            values = density.scores(rows, theta)
            absent = density.missing_factors(rows)
            if absent is not None:
                values += absent.astype(np.float64) @ partition.T
            if gone is not None:
                values[gone] = partition.sum(axis=1)  # all a state emits
            return np.ascontiguousarray(values)

        return scorer

    def log_likelihoods(self, theta: Floats) -> Scorer:
        density = self._ready.density

        def scorer(observations: Floats) -> Floats:
            rows, gone = self._filled(observations)
            values = density.log_density(rows, theta)
            if gone is not None:
                values[gone] = 0.0
            return np.ascontiguousarray(values)

        return scorer

    def partition(self, theta: Floats) -> Floats:
        return self._ready.density.log_partition(theta)

    def partition_gradient(self, theta: Floats, weights: Floats) -> Floats:
        density = self._ready.density
        return weights[:, density.factors] * density.mean(theta)

    def sums(self, observations: Floats, weights: Floats) -> tuple[Floats, Floats]:
        density = self._ready.density
        counts = np.repeat(weights.sum(axis=0)[:, None], density.n_factors, axis=1)
        missing = self.missing_counts(observations, weights)
        if missing is not None:
            counts -= missing
        rows, gone = self._filled(observations)
        if gone is not None:
            weights = np.where(gone[:, None], 0.0, weights)
        return counts, density.weighted_sums(rows, weights)

    def missing_counts(self, observations: Floats, weights: Floats) -> Floats | None:
        density = self._ready.density
        if density.allows_missing:
            absent = density.missing_factors(observations)
        else:
            gone = self._filled(observations)[1]
            absent = None if gone is None else np.repeat(gone[:, None], density.n_factors, axis=1)
        return None if absent is None else weights.T @ absent.astype(np.float64)

    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        bound = self._ready
        # Rounding may leave a missing factor a count below zero.
        total = np.maximum(counts, 0.0) + bound.prior_counts
        theta = bound.density.estimate(total, sums + bound.prior_sums)
        if previous is not None:
            unseen = ~(total > 1e-12)[:, bound.density.factors]
            theta = np.where(unseen, previous, theta)
        return theta

    def prior(self) -> tuple[Floats, Floats]:
        return self._ready.prior_counts, self._ready.prior_sums

    def log_prior(self, theta: Floats) -> float:
        bound = self._ready
        partition = bound.density.log_partition(theta)
        return float((theta * bound.prior_sums).sum() - (partition * bound.prior_counts).sum())

    def random_weights(
        self, observations: Floats, n_states: int, rng: np.random.Generator
    ) -> Floats:
        rows = observations
        if len(rows) > _START_ROWS:
            rows = rows[np.sort(rng.choice(len(rows), _START_ROWS, replace=False))]
        present = ~np.isnan(rows)
        n_present = np.maximum(present.sum(axis=0), 1)
        centre = np.where(present, rows, 0.0).sum(axis=0) / n_present
        spread = np.sqrt((np.where(present, rows - centre, 0.0) ** 2).sum(axis=0) / n_present)
        spread[spread == 0.0] = 1.0

        def points(table: Floats) -> Floats:
            # A missing cell lies at its column's mean.
            return np.nan_to_num((table - centre) / spread)

        centres = _spread_out(points(rows), n_states, rng)
        # Not all of a step goes to its nearest state: no observation starts out impossible.
        weights = np.full((len(observations), n_states), 0.1 / n_states)

        def work(block: slice) -> None:
            nearest = _nearest(points(observations[block]), centres)
            weights[np.arange(block.start, block.stop), nearest] += 0.9

        for_each_block(work, len(observations))
        return weights

    def order(self, theta: Floats) -> Integers:
        means = self._ready.density.mean(theta)
        return np.lexsort(means.T[::-1])

    def sample(self, theta: Floats, codes: Integers, rng: np.random.Generator) -> Floats:
        density = self._ready.density
        values = np.empty((len(codes), density.n_features))
        for state in range(len(theta)):
            steps = np.flatnonzero(codes == state)
            values[steps] = density.sample(theta[state], len(steps), rng)
        return values

    def n_free(self, n_states: int) -> int:
        tied = self._ready.density.tied
        return int(n_states * (~tied).sum() + tied.sum())

    def tied(self, n_parameters: int) -> Any:
        return self._ready.density.tied


def _nearest(points: Floats, centres: Floats) -> Integers:
    distance = (centres**2).sum(axis=1) - 2.0 * points @ centres.T
    return distance.argmin(axis=1)


def _spread_out(points: Floats, n_centres: int, rng: np.random.Generator) -> Floats:
    """Return centres by k-means++ and a few of Lloyd's steps (Arthur & Vassilvitskii 2007)."""
    centres = [points[rng.integers(len(points))]]
    distance = np.full(len(points), np.inf)
    while len(centres) < n_centres:
        distance = np.minimum(distance, ((points - centres[-1]) ** 2).sum(axis=1))
        total = distance.sum()
        share = distance / total if total > 0 else np.full(len(points), 1.0 / len(points))
        centres.append(points[rng.choice(len(points), p=share)])
    found = np.array(centres)
    for _ in range(10):
        codes = _nearest(points, found)
        for k in range(n_centres):
            if (codes == k).any():
                found[k] = points[codes == k].mean(axis=0)
    return found


@dataclass(frozen=True)
class TableScorer:
    """Log-potentials of symbols, a row a code; the last row is that of code -1, a missing step."""

    table: Floats

    def __call__(self, codes: Integers) -> Floats:
        """Return the rows of these codes."""
        return np.take(self.table, codes, axis=0, mode="wrap")


def _looked_up(theta: Floats, missing: Floats) -> TableScorer:
    return TableScorer(np.vstack([theta.T, missing]))


# -- symbols -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SymbolEmission(Emission):
    """One symbol a step: words, tags, codes. The last column of θ is the cell of unseen symbols.

    Attributes
    ----------
    alpha : float
        Pseudo-count of each symbol's cell and of the reserved one in each state. Where it is 0
        the reserved cell has weight 1e-10 on top of probabilities that sum to 1, in every state.
    symbols : tuple
        The known symbols, sorted where they can be (bound).
    """

    alpha: float
    symbols: tuple[Any, ...] = ()
    known: dict[Any, int] = field(default_factory=dict, repr=False)
    shiftable = True

    @property
    def small_sums(self) -> bool:  # type: ignore[override]
        return len(self.symbols) < 1000

    def read(self, X: Any, lengths: ArrayLike | None) -> tuple[Any, Layout]:
        return stack_symbols(X, lengths)

    def observe(self, raw: Any) -> Integers:
        return encode(raw, self.known)

    def bind(self, raw: Any, codes: Integers | None, n_states: int) -> SymbolEmission:
        if isinstance(raw, np.ndarray):
            raw = np.unique(raw).tolist()
        found = {symbol for symbol in raw if not is_missing(symbol)}
        if not found:
            raise DataError("X: expected at least one symbol, got none; pass non-empty sequences")
        try:
            symbols = tuple(sorted(found))
        except TypeError:  # of several kinds: in the order they came
            symbols = tuple(dict.fromkeys(s for s in raw if not is_missing(s)))
        return self.with_symbols(symbols)

    def with_symbols(self, symbols: tuple[Any, ...]) -> SymbolEmission:
        """Return a copy that knows these symbols."""
        return SymbolEmission(self.alpha, symbols, {s: code for code, s in enumerate(symbols)})

    def potentials(self, theta: Floats) -> Scorer:
        return _looked_up(theta, self.partition(theta)[:, 0])

    def log_likelihoods(self, theta: Floats) -> Scorer:
        return _looked_up(theta, np.zeros(len(theta)))

    def normalised(self, theta: Floats) -> Floats:
        return theta - self.partition(theta)

    def partition(self, theta: Floats) -> Floats:
        return np.asarray(logsumexp(theta, axis=1, keepdims=True))

    def partition_gradient(self, theta: Floats, weights: Floats) -> Floats:
        return weights * np.exp(theta - self.partition(theta))

    def sums(self, observations: Integers, weights: Floats) -> tuple[Floats, Floats]:
        from crossfade.sequences import kernels

        table = np.zeros((len(self.symbols) + 1, weights.shape[1]))
        kernels.add_rows(observations, np.ascontiguousarray(weights), table)
        return table.sum(axis=0)[:, None], table.T

    def missing_counts(self, observations: Integers, weights: Floats) -> Floats | None:
        missing = observations < 0
        return weights[missing].sum(axis=0)[:, None] if missing.any() else None

    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        weights = sums + self.alpha
        total = weights.sum(axis=1, keepdims=True)
        even = np.full(weights.shape, 1.0 / weights.shape[1])
        share = np.divide(weights, total, out=even, where=total > 0)
        with np.errstate(divide="ignore"):
            theta = np.log(share)
        if self.alpha == 0:
            theta[:, -1] = np.log(_RESERVE)
        if previous is not None:
            theta = np.where(total > 0, theta, previous)
        return theta

    def prior(self) -> tuple[Floats, Floats]:
        n_cells = len(self.symbols) + 1
        return np.full((1, 1), self.alpha * n_cells), np.full((1, n_cells), self.alpha)

    def log_prior(self, theta: Floats) -> float:
        return float(self.alpha * theta.sum()) if self.alpha else 0.0

    def random_weights(
        self, observations: Integers, n_states: int, rng: np.random.Generator
    ) -> Floats:
        # A symbol's steps go together: shares drawn a step would average out.
        table = rng.dirichlet(np.ones(n_states), size=len(self.symbols) + 2)
        return table[observations]

    def order(self, theta: Floats) -> Integers:
        return np.lexsort(-theta.T[::-1])

    def sample(self, theta: Floats, codes: Integers, rng: np.random.Generator) -> Any:
        share = np.exp(theta[:, :-1])
        running = np.cumsum(share / share.sum(axis=1, keepdims=True), axis=1)
        draws = rng.random(len(codes))
        chosen = np.empty(len(codes), dtype=np.int64)
        for state in range(len(theta)):
            steps = codes == state
            chosen[steps] = np.searchsorted(running[state], draws[steps], side="right")
        symbols = np.array(self.symbols)
        return symbols[np.minimum(chosen, len(symbols) - 1)]

    def n_free(self, n_states: int) -> int:
        return n_states * (len(self.symbols) - 1)

    def tied(self, n_parameters: int) -> Any:
        return np.zeros(n_parameters, dtype=bool)

    def from_probabilities(self, table: Floats) -> Floats:
        """Return θ of these symbol probabilities, shape (n_states, n_symbols)."""
        if table.ndim != 2 or table.shape[1] != len(self.symbols):
            raise DataError(
                f"emissionprob: expected a column for each of {len(self.symbols)} symbols, got "
                f"shape {table.shape!r}"
            )
        if (table < 0).any() or not np.allclose(table.sum(axis=1), 1.0, atol=1e-8):
            raise DataError(f"emissionprob: expected rows that sum to 1, got {table!r}")
        with np.errstate(divide="ignore"):
            return np.log(np.hstack([table, np.full((len(table), 1), _RESERVE)]))


# -- from and to the usual terms -----------------------------------------------------------------


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


def gaussian_moments(emission: DensityEmission, theta: Floats) -> tuple[Floats, Floats] | None:
    """Return means and (co)variances in the columns' units; None if it is no Gaussian density."""
    density = emission.bound.density if emission.bound is not None else None
    if not isinstance(density, Gaussian | MultivariateGaussian):
        return None
    if not np.isfinite(density.log_partition(theta)).all():
        return None
    if isinstance(density, MultivariateGaussian):
        means, covariances = density.moments(theta)
        return means, covariances
    d = density.n_features
    first, second = density.mean(theta)[:, :d], density.mean(theta)[:, d:]
    scale = np.where(density._inverse_scale > 0, density._scale, 0.0)
    return density._location + scale * first, scale**2 * (second - first**2)


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
