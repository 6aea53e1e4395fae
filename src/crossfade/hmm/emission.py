"""The seam between a chain and what its states emit.

A chain model needs little of its emissions: each state's log-potential at each step, the sums that
estimate them, and b = the log of all that a state can emit (log-partition, zero when normalised).

Parameters θ are natural ones, one row per state: η for a density, the log-weights of the
symbols (normalised or not) for symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block
from crossfade.chains.block_recursions import Lookup, StepScorer
from crossfade.chains.input import Layout

#: From stacked observations to an array (n_steps, n_states).
Scorer = Callable[[Any], Floats]

#: Steps scored at a time.
_SCORE_ROWS = 8192


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
    def any_observed(self, raw: Any) -> bool:
        """Return whether some value is not missing."""

    @abstractmethod
    def bind(self, raw: Any, codes: Integers | None, n_states: int) -> Emission:
        """Return a copy that knows domain, centre and prior; `codes` are labels where known."""

    @abstractmethod
    def observe(self, raw: Any) -> Any:
        """Return raw observations as the other methods want them (bound emissions)."""

    @abstractmethod
    def potentials(self, theta: Floats, absent: Floats | None = None) -> Scorer:
        """Return the function from observations to log-potentials (n_steps, n_states).

        They are not normalised: what a state emits has log-weight b in all, which is also the
        potential of a missing step, unless `absent`, of the shape of A, says what a missing factor
        adds.
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

    @property
    @abstractmethod
    def factors(self) -> Integers:
        """Return which factor each statistic belongs to, (n_statistics,); of bound emissions."""

    @abstractmethod
    def sums(self, observations: Any, weights: Floats) -> tuple[Floats, Floats]:
        """Return counts and θ-shaped sums of steps weighted (n_steps, n_states)."""

    @abstractmethod
    def missing_counts(self, observations: Any, weights: Floats) -> Floats | None:
        """Return the weight of what is missing, as counts' shape; None if nothing is."""

    @abstractmethod
    def estimate(self, counts: Floats, sums: Floats, previous: Floats | None) -> Floats:
        """Return θ from data's counts and sums plus the prior; rows without either keep θ.

        What the previous θ makes impossible stays so.
        """

    @abstractmethod
    def prior(self) -> tuple[Floats, Floats]:
        """Return the prior's (counts, sums), of the shapes that :meth:`sums` returns."""

    @abstractmethod
    def log_prior(self, theta: Floats) -> float:
        """Return the log density of θ's possible parts in the conjugate prior, up to a constant."""

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

    @abstractmethod
    def coefficients(self, sums: Floats) -> tuple[Floats, Floats, list[str], list[list[str]]]:
        """Return what makes θ coefficients in the units of the columns, and constants.

        `sums`: Of the steps of fit, as :meth:`sums` returns them.

        Shapes: → (n_parameters, n_terms); (n_parameters,); names of terms and of their columns.
        """

    @abstractmethod
    def in_usual_terms(self, theta: Floats) -> dict[str, Any]:
        """Return the model's attributes that show θ: ``means_``, ``emissionprob_`` and the like."""

    def normalised(self, theta: Floats) -> Floats:
        """Return the parameters of the same distributions with log-likelihoods read off them."""
        return theta


@dataclass(frozen=True)
class TableScorer:
    """Log-potentials of symbols, a row a code; the last row is that of code -1, a missing step."""

    table: Floats

    def __call__(self, codes: Integers) -> Floats:
        """Return the rows of these codes."""
        return np.take(self.table, codes, axis=0, mode="wrap")


def by_step(scorer: Scorer, observations: Any) -> StepScorer:
    """Return the function from a slice of steps to their log-potentials."""
    if isinstance(scorer, TableScorer):
        return Lookup(scorer.table, observations)
    return lambda steps: scorer(observations[steps])


def taken(raw: Any, steps: Integers) -> Any:
    """Return the raw observations of some steps."""
    return [raw[i] for i in steps] if isinstance(raw, list) else raw[steps]


def score_steps(scorer: StepScorer, n_steps: int, n_states: int) -> Floats:
    """Return the scores of all steps, block by block on threads, (n_steps, n_states)."""
    values = np.empty((n_steps, n_states))

    def work(rows: slice) -> None:
        values[rows] = scorer(rows)

    for_each_block(work, n_steps, block_rows=_SCORE_ROWS)
    return values
