"""λ · joint + (1 - λ) · conditional log-likelihood of a labelled chain, as a function of weights.

The normaliser of the joint likelihood over states, observations and lengths, its derivatives, and
the objective with smoothing and penalty (:mod:`crossfade.hmm.path` says why).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.chains.block_recursions import expectations
from crossfade.chains.input import Layout
from crossfade.chains.markov import ChainCounts, ChainParameters, estimate_chain, label_counts
from crossfade.hmm.emission import Emission, by_step
from crossfade.tradeoff.bound_rows import by_factor

#: Log-probability that stands for log 0 where weights must start finite.
_LOG_NOTHING = -30.0


@dataclass(frozen=True)
class ChainWeights:
    """Weights of a chain, not normalised.

    Shapes: start (n_states,); transitions (n_states, n_states); stop (n_states,).
    `theta`: The emission's parameters, one row per state.
    `absent` (n_states, n_factors) or None: What a missing factor adds; None stands for A(θ).
    """

    start: Floats
    transitions: Floats
    stop: Floats
    theta: Floats
    absent: Floats | None = None


@dataclass(frozen=True)
class LabelledChain:
    """Labelled sequences, summed up.

    Shapes: observations an array of n_steps observations; codes (n_steps,).
    `emission`: Bound.
    `emission_counts`, `emission_sums`: What the emission's estimate needs, prior left out.
    `missing`: Weight of missing factors by state.
    """

    emission: Emission
    observations: Any
    layout: Layout
    codes: Integers
    counts: ChainCounts
    emission_counts: Floats
    emission_sums: Floats
    missing: Floats | None
    alpha: float

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.counts.initial)

    @property
    def mean_statistics(self) -> Floats:
        """Return the mean of each statistic where it is not missing, (n_statistics,)."""
        seen = self.emission_counts.sum(axis=0)[self.emission.factors]
        return self.emission_sums.sum(axis=0) / np.where(seen > 0.0, seen, 1.0)

    @property
    def mean_length(self) -> float:
        """Steps per sequence."""
        return self.layout.n_steps / max(float(self.counts.initial.sum()), 1.0)

    def sequence(self, number: int) -> LabelledChain:
        """Return one of the sequences alone."""
        steps, layout = self.layout.take([number])
        observed, codes = self.observations[steps], self.codes[steps]
        return summed(self.emission, observed, layout, codes, self.n_states, self.alpha)

    def from_counts(self, *, stop: bool) -> ChainParameters:
        """Return the (smoothed) count estimate: λ = 1."""
        theta = self.emission.estimate(self.emission_counts, self.emission_sums, None)
        return estimate_chain(self.counts, self.alpha, theta, stop=stop)

    def weights_from(self, parameters: ChainParameters) -> ChainWeights:
        """Return finite weights of a hidden Markov model that knows its end."""
        b = self.emission.partition(parameters.theta).sum(axis=1)
        start, transitions, stop = (np.maximum(p, _LOG_NOTHING) for p in parameters.logs())
        theta = parameters.theta
        if np.isinf(theta).any():
            theta = np.maximum(theta, _LOG_NOTHING)
        return ChainWeights(start - b, transitions - b, stop, theta)


def labelled_chain(
    named: Emission, raw: Any, layout: Layout, codes: Integers, n_states: int, *, alpha: float
) -> LabelledChain:
    """Bind the emission to labelled data and sum them up."""
    emission = named.bind(raw, codes, n_states)
    return summed(emission, emission.observe(raw), layout, codes, n_states, alpha)


def summed(
    emission: Emission,
    observations: Any,
    layout: Layout,
    codes: Integers,
    n_states: int,
    alpha: float,
) -> LabelledChain:
    onehot = np.zeros((layout.n_steps, n_states))
    onehot[np.arange(layout.n_steps), codes] = 1.0
    emitted, sums = emission.sums(observations, onehot)
    missing = emission.missing_counts(observations, onehot)
    counts = label_counts(codes, layout, n_states)
    return LabelledChain(
        emission, observations, layout, codes, counts, emitted, sums, missing, alpha
    )


@dataclass(frozen=True)
class _Everything:
    """log Z and the expected counts of one sequence drawn from the chain."""

    log_total: float
    onward: Floats
    initial: Floats
    transitions: Floats
    final: Floats
    visits: Floats


def everything(start: Floats, transitions: Floats, stop: Floats) -> _Everything | None:
    """Return log Z and its derivatives; None where Z is infinite.

    Shapes: start (n_states,); transitions (n_states, n_states); stop (n_states,).
    """
    if not (np.isfinite(start).all() and np.isfinite(transitions).all()):
        return None
    if transitions.max() > 700.0:
        return None
    shift_start, shift_stop = float(start.max()), float(stop.max())
    entering, ending = np.exp(start - shift_start), np.exp(stop - shift_stop)
    steps = np.exp(transitions)
    system = np.eye(len(start)) - steps
    try:
        onward, sure = np.linalg.solve(system, np.column_stack([ending, np.ones(len(start))])).T
        arriving = np.linalg.solve(system.T, entering)
    except np.linalg.LinAlgError:
        return None
    # (I - M) r = 1 has a positive solution r exactly if M's spectral radius is below 1.
    if not (np.isfinite(sure).all() and (sure > 0.0).all()):
        return None
    onward, arriving = np.maximum(onward, 1e-300), np.maximum(arriving, 0.0)
    total = float(entering @ onward)
    return _Everything(
        np.log(total) + shift_start + shift_stop,
        onward,
        entering * onward / total,
        arriving[:, None] * steps * onward / total,
        arriving * ending / total,
        arriving * onward / total,
    )


class _Shifts:
    """The directions in the space of weights that no posterior notices, and the way off them.

    A constant on all starts, on all transitions, on all ends; for each state, a constant on what
    enters it taken off what leaves it; and where an emission's row may be shifted, the same
    constant on the row taken off what enters.
    """

    def __init__(self, n_states: int, row_length: int):
        k, n_chain = n_states, n_states**2 + 2 * n_states
        number = 3 + (2 * k if row_length else k)
        chain = np.zeros((n_chain, number))
        start, moves, stop = chain[:k], chain[k : k + k * k].reshape(k, k, number), chain[-k:]
        start[:, 0], moves[:, :, 1], stop[:, 2] = 1.0, 1.0, 1.0
        for state in range(k):
            start[state, 3 + state] += 1.0
            moves[:, state, 3 + state] += 1.0
            moves[state, :, 3 + state] -= 1.0
            stop[state, 3 + state] -= 1.0
            if row_length:
                start[state, 3 + k + state] -= 1.0
                moves[:, state, 3 + k + state] -= 1.0
        self._chain, self._k, self._row_length = chain, k, row_length
        gram = chain.T @ chain
        if row_length:
            gram[3 + k :, 3 + k :] += row_length * np.eye(k)
        self._inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)

    def removed(self, vector: Floats) -> Floats:
        """Return the shortest vector of weights with the same posteriors."""
        n_chain, k = len(self._chain), self._k
        along = self._chain.T @ vector[:n_chain]
        new = vector.copy()
        rows = new[n_chain : n_chain + k * self._row_length].reshape(k, self._row_length)
        if self._row_length:
            along[3 + k :] += rows.sum(axis=1)
        amounts = self._inverse @ along
        new[:n_chain] -= self._chain @ amounts
        if self._row_length:
            rows -= amounts[3 + k :, None]
        return new


class ChainObjective:
    """Minus L_λ, with smoothing and penalty, as a function of one vector of weights."""

    def __init__(self, data: LabelledChain, tradeoff: float, l2: float):
        self.data, self.tradeoff, self.l2 = data, tradeoff, l2
        self._width = data.emission_sums.shape[1]
        self._tied = np.asarray(data.emission.tied(self._width))
        self._shifts = _Shifts(data.n_states, self._width if data.emission.shiftable else 0)
        # Labels given observations do not tell densities, which missing cells would run after.
        self._mean = data.mean_statistics if tradeoff == 0.0 else None

    def over(self, data: LabelledChain) -> ChainObjective:
        """Return the same for other sequences, without the penalty."""
        found = copy.copy(self)
        found.data, found.l2 = data, 0.0
        return found

    def vector(self, weights: ChainWeights) -> Floats:
        """Return weights as one vector."""
        free = weights.theta[:, ~self._tied].ravel()
        shared = weights.theta[0, self._tied]
        parts = (weights.start, weights.transitions.ravel(), weights.stop, free, shared)
        return np.concatenate(parts)

    def weights(self, vector: Floats) -> ChainWeights:
        """Return a vector as weights."""
        k = self.data.n_states
        n_shared = int(self._tied.sum())
        theta = np.empty((k, self._width))
        free = vector[2 * k + k * k : len(vector) - n_shared]
        theta[:, ~self._tied] = free.reshape(k, -1)
        theta[:, self._tied] = vector[len(vector) - n_shared :]
        transitions = vector[k : k + k * k].reshape(k, k)
        return ChainWeights(vector[:k], transitions, vector[k + k * k : 2 * k + k * k], theta)

    def absent(self, theta: Floats) -> Floats:
        """Return what a missing factor adds to a state's potential: A, at λ = 0 θ·mean(T)."""
        emission = self.data.emission
        if self._mean is None:
            return emission.partition(theta)
        return by_factor(theta * self._mean, emission.factors, self.data.emission_counts.shape[1])

    def shortest(self, vector: Floats) -> Floats:
        """Return the shortest vector with the same posteriors: a random field's own weights."""
        return self._shifts.removed(vector)

    def _gradient(self, weights: ChainWeights) -> Floats:
        """Return a gradient in the form of weights as one vector: tied entries are summed."""
        free = weights.theta[:, ~self._tied].ravel()
        shared = weights.theta[:, self._tied].sum(axis=0)
        parts = (weights.start, weights.transitions.ravel(), weights.stop, free, shared)
        return np.concatenate(parts)

    @property
    def n_rows(self) -> float:
        """Return the number of steps, to which gradients are compared."""
        return float(self.data.layout.n_steps)

    def curvature(self, vector: Floats) -> Floats:
        """Return a rough curvature of each weight: how often it is used."""
        data = self.data
        sizes = np.abs(data.emission_sums)
        counts = data.counts
        used = self._gradient(ChainWeights(counts.initial, counts.transitions, counts.final, sizes))
        return used + 1.0 + (1.0 - self.tradeoff) * self.l2

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """Return value and gradient; (inf, zeros) outside the domain."""
        data, lam = self.data, self.tradeoff
        weights = self.weights(vector)
        counts, emission = data.counts, data.emission
        partition = self.absent(weights.theta)
        needs_partition = lam > 0.0 or data.missing is not None
        if needs_partition and not np.isfinite(partition).all():
            return np.inf, np.zeros_like(vector)
        value = -float(
            weights.start @ counts.initial
            + (weights.transitions * counts.transitions).sum()
            + weights.stop @ counts.final
            + (weights.theta * data.emission_sums).sum()
        )
        initial, moves, final = -counts.initial, -counts.transitions, -counts.final
        theta = -data.emission_sums
        lifted = np.zeros_like(partition)  # coefficients of A
        if data.missing is not None:
            lifted -= data.missing
            value -= float((data.missing * partition).sum())
        if lam > 0.0:
            joint = self._joint(weights, partition)
            if joint is None:
                return np.inf, np.zeros_like(vector)
            value += lam * joint[0]
            initial, moves = initial + lam * joint[1], moves + lam * joint[2]
            final, theta = final + lam * joint[3], theta + lam * joint[4]
            lifted += lam * joint[5]
        if lam < 1.0:
            share = 1.0 - lam
            total, expected, absent = self._conditional(weights, partition)
            value += share * total
            initial, moves = initial + share * expected.start, moves + share * expected.transitions
            final, theta = final + share * expected.stop, theta + share * expected.theta
            if absent is not None:
                lifted += share * absent
        if self._mean is not None:
            theta = theta + lifted[:, emission.factors] * self._mean
        elif needs_partition:
            theta = theta + emission.partition_gradient(weights.theta, lifted)
        gradient = self._gradient(ChainWeights(initial, moves, final, theta))
        if lam < 1.0:
            short = self.shortest(vector)
            value += 0.5 * (1.0 - lam) * self.l2 * float(short @ short)
            gradient += (1.0 - lam) * self.l2 * short
        if not np.isfinite(value):
            return np.inf, np.zeros_like(vector)
        return value, gradient

    def _joint(self, weights: ChainWeights, partition: Floats) -> tuple[Any, ...] | None:
        """Return (n + Kα) log Z - log prior, and its derivatives; None if infinite."""
        data, alpha, k = self.data, self.data.alpha, self.data.n_states
        b = partition.sum(axis=1)
        found = everything(weights.start + b, weights.transitions + b, weights.stop)
        if found is None:
            return None
        number = float(data.counts.initial.sum()) + k * alpha
        prior_counts, prior_sums = data.emission.prior()
        chain = weights.start.sum() + weights.transitions.sum() + weights.stop.sum()
        value = number * found.log_total - alpha * (float(chain) + (k + 1) * float(b.sum()))
        value -= float((weights.theta * prior_sums).sum())
        value += float((partition * prior_counts).sum())
        visits = number * found.visits - (k + 1) * alpha
        return (
            value,
            number * found.initial - alpha,
            number * found.transitions - alpha,
            number * found.final - alpha,
            np.broadcast_to(-prior_sums, weights.theta.shape),
            visits[:, None] + prior_counts,
        )

    def _conditional(
        self, weights: ChainWeights, partition: Floats
    ) -> tuple[float, ChainWeights, Floats | None]:
        """Return Σ log Z(x), its derivatives, and the expected weight of missing factors."""
        data = self.data
        emission, observations = data.emission, data.observations
        scorer = by_step(emission.potentials(weights.theta, partition), observations)
        stored = None
        if not emission.small_sums:
            stored = np.empty((data.layout.n_steps, data.n_states))
        gone = data.missing is not None

        def sums(rows: Any, marginals: Floats) -> tuple[Floats, Floats]:
            found = emission.sums(rows, marginals)[1]
            absent = emission.missing_counts(rows, marginals) if gone else None
            return found, np.zeros(data.emission_counts.shape) if absent is None else absent

        def consume(steps: slice, marginals: Floats) -> Any:
            return sums(observations[steps], marginals) if stored is None else None

        chain = (weights.start, weights.transitions, weights.stop)
        chain = tuple(np.ascontiguousarray(part) for part in chain)  # type: ignore[assignment]
        found = expectations(scorer, data.layout.offsets, *chain, consume=consume, marginals=stored)
        theta, absent = found.consumed if stored is None else sums(observations, stored)
        expected = ChainWeights(found.initial_sums, found.transition_sums, found.final_sums, theta)
        return float(found.log_partition.sum()), expected, absent if gone else None
