"""The hidden chain's own parameters: start, transitions, end; from counts, and in logarithms."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.chains.input import Layout
from crossfade.errors import DataError


@dataclass(frozen=True)
class ChainCounts:
    """Numbers of starts, transitions and ends, observed or expected.

    Shapes: initial (n_states,); final (n_states,).
    `transitions` (n_states, n_states): [from, to].
    """

    initial: Floats
    transitions: Floats
    final: Floats


@dataclass(frozen=True)
class ChainParameters:
    """A hidden chain and the natural parameters of what its states emit.

    `start` (n_states,): Probability of each first state.
    `transitions` (n_states, n_states): Probability of the next state given that there is one; rows
        sum to 1.
    `stop` (n_states,) or None: Probability that the sequence ends after a step in this state; None
        where the length of a sequence is taken as given.
    `theta`: The emission's parameters, one row per state.
    """

    start: Floats
    transitions: Floats
    stop: Floats | None
    theta: Floats

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.start)

    def logs(self) -> tuple[Floats, Floats, Floats]:
        """Return log initial, transition and final potentials for the recursions."""
        with np.errstate(divide="ignore"):
            start, transitions = np.log(self.start), np.log(self.transitions)
            if self.stop is None:
                return start, transitions, np.zeros(self.n_states)
            return start, transitions + np.log1p(-self.stop)[:, None], np.log(self.stop)

    def permuted(self, order: Integers) -> ChainParameters:
        """Return the same chain with its states in another order."""
        return replace(
            self,
            start=self.start[order],
            transitions=self.transitions[np.ix_(order, order)],
            stop=None if self.stop is None else self.stop[order],
            theta=self.theta[order],
        )


def label_counts(codes: Integers, layout: Layout, n_states: int) -> ChainCounts:
    """Count starts, transitions and ends of label sequences; a -1 on either side counts nothing."""
    first, last, before = codes[layout.firsts()], codes[layout.lasts()], layout.followed()
    origin, target = codes[before], codes[before + 1]
    known = (origin >= 0) & (target >= 0)
    flat = np.bincount(origin[known] * n_states + target[known], minlength=n_states**2)
    return ChainCounts(
        np.bincount(first[first >= 0], minlength=n_states).astype(np.float64),
        flat.reshape(n_states, n_states).astype(np.float64),
        np.bincount(last[last >= 0], minlength=n_states).astype(np.float64),
    )


def estimate_chain(
    counts: ChainCounts,
    alpha: float,
    theta: Floats,
    *,
    stop: bool,
    previous: ChainParameters | None = None,
) -> ChainParameters:
    """Return the chain of these counts, smoothed by `alpha`; what has no count keeps its value."""
    n_states = len(counts.initial)
    if previous is None:
        start = _shares(counts.initial[None] + alpha, None)[0]
        smoothed = counts.transitions + alpha
        transitions = _shares(smoothed, None)
    else:
        first = counts.initial + alpha * (previous.start > 0)
        start = _shares(first[None], previous.start)[0]
        smoothed = counts.transitions + alpha * (previous.transitions > 0)
        transitions = _shares(smoothed, previous.transitions)
    if not stop:
        return ChainParameters(start, transitions, None, theta)
    ends = counts.final + alpha
    total = ends + smoothed.sum(axis=1)
    even = np.full(n_states, 0.5)
    kept = even if previous is None or previous.stop is None else previous.stop
    ending = np.divide(ends, total, out=kept.copy(), where=total > 0)
    return ChainParameters(start, transitions, ending, theta)


def _shares(weights: Floats, previous: Floats | None) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    kept = np.full(weights.shape, 1.0 / weights.shape[1])
    if previous is not None:
        kept[:] = previous
    return np.divide(weights, total, out=kept, where=total > 0)


def stationary(transitions: Floats) -> Floats:
    """Return the distribution that the transitions leave unchanged.

    Shapes: result (n_states,).
    `transitions` (n_states, n_states): Rows sum to 1.
    Raises DataError: If there are several: the chain falls into parts that never reach each other.
    """
    n_states = len(transitions)
    system = np.vstack([transitions.T - np.eye(n_states), np.ones(n_states)])
    target = np.zeros(n_states + 1)
    target[-1] = 1.0
    if np.linalg.matrix_rank(system) < n_states:
        raise DataError(
            "transmat_: expected a chain with one stationary distribution, got one that falls "
            "into parts; smooth with alpha > 0"
        )
    found = np.maximum(np.linalg.lstsq(system, target, rcond=None)[0], 0.0)
    return found / found.sum()


def path_scores(
    values: Floats, layout: Layout, codes: Integers, chain: tuple[Floats, Floats, Floats]
) -> Floats:
    """Return each sequence's potential along given states; -inf where a state is none.

    Shapes: codes (n_steps,); chain a tuple of start, transition and end log-potentials.
    `values` (n_steps, n_states): Emission log-potentials.
    """
    start, transitions, stop = chain
    known = (codes >= 0) & (codes < values.shape[1])
    safe = np.where(known, codes, 0)
    steps = np.where(known, values[np.arange(len(codes)), safe], -np.inf)
    steps[layout.firsts()] += start[safe[layout.firsts()]]
    steps[layout.lasts()] += stop[safe[layout.lasts()]]
    before = layout.followed()
    steps[before] += transitions[safe[before], safe[before + 1]]
    sequence = np.repeat(np.arange(layout.n_sequences), np.diff(layout.offsets))
    totals = np.bincount(sequence, weights=steps, minlength=layout.n_sequences)
    return totals.astype(np.float64, copy=False)  # NumPy counts nothing in integers


def probabilities(startprob: ArrayLike, transmat: ArrayLike) -> tuple[Floats, Floats]:
    """Return start and transition probabilities, refused where they are none."""
    start = np.array(startprob, dtype=np.float64)
    transitions = np.array(transmat, dtype=np.float64)
    if start.ndim != 1 or transitions.shape != (len(start), len(start)):
        raise DataError(
            f"transmat: expected shape (n_states, n_states) to go with startprob, got "
            f"{transitions.shape!r} and {start.shape!r}"
        )
    for name, rows in (("startprob", start[None]), ("transmat", transitions)):
        if (rows < 0).any() or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-8):
            raise DataError(f"{name}: expected probabilities that sum to 1, got {rows!r}")
    return start, transitions


def sampled_path(parameters: ChainParameters, layout: Layout, rng: np.random.Generator) -> Integers:
    """Draw the hidden path of every sequence.

    Each step needs the one before, and a search in a list takes less time than NumPy's call.
    """
    start = np.cumsum(parameters.start).tolist()
    rows = np.cumsum(parameters.transitions, axis=1).tolist()
    last = parameters.n_states - 1
    draws = rng.random(layout.n_steps).tolist()
    codes: list[int] = []
    for first, end in pairwise(layout.offsets.tolist()):
        running = start
        for draw in draws[first:end]:
            state = min(bisect_right(running, draw), last)
            running = rows[state]
            codes.append(state)
    return np.array(codes, dtype=np.int64)
