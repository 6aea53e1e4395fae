"""Training a hidden Markov model without, or with only some, labels: EM and its Viterbi kin.

Baum-Welch (Baum et al. 1970; Rabiner 1989, section III.C) alternates expected counts and their
estimate; Viterbi training (Juang & Rabiner 1990) the best path's counts. Labels that are known are
kept: other states are forbidden there, which makes EM on partly labelled sequences. Smoothing is a
conjugate prior on what is possible at the start, so what never falls is the log-likelihood plus the
log prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import single_threaded_blas
from crossfade.chains.block_recursions import StepScorer, best_paths, expectations
from crossfade.chains.input import Layout
from crossfade.chains.markov import ChainCounts, ChainParameters, estimate_chain, label_counts
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission, by_step


@dataclass(frozen=True)
class Training:
    """Where training ended, and why; `history` is the penalised objective before each iteration."""

    parameters: ChainParameters
    history: tuple[float, ...]
    converged: bool
    message: str


def restrict(scorer: StepScorer, codes: Integers | None) -> StepScorer:
    """Return a scorer of steps that forbids what known labels rule out."""
    if codes is None:
        return scorer

    def restricted(steps: slice) -> Floats:
        values = scorer(steps)
        here = codes[steps]
        rows = np.flatnonzero(here >= 0)
        kept = values[rows, here[rows]]
        values[rows] = -np.inf
        values[rows, here[rows]] = kept
        return values

    return restricted


def first_parameters(
    emission: Emission,
    observations: Any,
    layout: Layout,
    codes: Integers | None,
    n_states: int,
    alpha: float,
    rng: np.random.Generator,
) -> ChainParameters:
    """Return where to start: the known labels' estimate, or that of a random assignment."""
    even = estimate_chain(
        ChainCounts(np.ones(n_states), np.ones((n_states, n_states)), np.ones(n_states)),
        0.0,
        np.empty(0),
        stop=False,
    )
    if codes is None:
        weight = emission.random_weights(observations, n_states, rng)
        before = layout.followed()
        together = weight[before].T @ weight[before + 1]
        # A little of its own for each start; and no transition starts out impossible.
        jitter = rng.gamma(2.0, 0.5, size=(n_states, n_states))
        none = np.ones(n_states)
        counts = ChainCounts(weight[layout.firsts()].sum(axis=0) + 1.0, together + jitter, none)
    else:
        known = codes >= 0
        weight = np.full((layout.n_steps, n_states), 0.01 / n_states)
        weight[known] = 0.0
        weight[known, codes[known]] = 1.0
        found = label_counts(codes, layout, n_states)
        counts = ChainCounts(found.initial + 0.1, found.transitions + 0.1, found.final)
    theta = emission.estimate(*emission.sums(observations, weight), None)
    return estimate_chain(counts, alpha, theta, stop=False, previous=even)


def expectation_maximisation(
    emission: Emission,
    observations: Any,
    layout: Layout,
    start: ChainParameters,
    *,
    codes: Integers | None,
    alpha: float,
    viterbi_training: bool,
    max_iter: int,
    tol: float,
) -> Training:
    """Improve `start` until the objective gains no more than `tol` per step."""
    history: list[float] = []
    parameters, before = start, start
    message, converged = f"stopped after max_iter={max_iter} iterations", False
    step = _best_paths if viterbi_training else _expected_counts
    for _ in range(max_iter):
        # Blocks are small: BLAS on threads of its own would only get in their way.
        with single_threaded_blas():
            counts, emitted, value = step(emission, observations, layout, parameters, codes)
        value += _log_prior(parameters, emission, alpha)
        value = -np.inf if np.isnan(value) else value
        if not history and not np.isfinite(value):
            raise DataError(
                "X: expected sequences that the model can produce, got an objective of "
                f"{value!r}; smooth with alpha > 0, and look for labels that contradict X"
            )
        gain = value - history[-1] if history else np.inf
        if gain < 0.0:
            # Rounding; or a density's floor for its variances, which is no part of the objective.
            # The point before stays.
            parameters = before
            converged = -gain <= max(tol * layout.n_steps, 1e-9 * abs(value))
            message = "the objective rises no further"
            if not converged:
                message = f"stopped where the next step would lower the objective by {-gain:.1e}"
            break
        history.append(value)
        if gain <= tol * max(layout.n_steps, 1):
            message = f"the objective gained {gain:.1e}, within tol={tol:g} per step"
            converged = True
            break
        before = parameters
        theta = emission.estimate(*emitted, parameters.theta)
        parameters = estimate_chain(counts, alpha, theta, stop=False, previous=parameters)
    return Training(parameters, tuple(history), converged, message)


def _log_prior(parameters: ChainParameters, emission: Emission, alpha: float) -> float:
    value = emission.log_prior(parameters.theta)
    if alpha > 0:
        for share in (parameters.start, parameters.transitions):
            value += alpha * float(np.log(share[share > 0.0]).sum())
    return value


_Step = tuple[ChainCounts, tuple[Floats, Floats], float]


def _expected_counts(
    emission: Emission,
    observations: Any,
    layout: Layout,
    parameters: ChainParameters,
    codes: Integers | None,
) -> _Step:
    scorer = by_step(emission.log_likelihoods(parameters.theta), observations)
    stored = None
    if not emission.small_sums:
        stored = np.empty((layout.n_steps, parameters.n_states))

    def consume(steps: slice, marginals: Floats) -> Any:
        return emission.sums(observations[steps], marginals) if stored is None else None

    found = expectations(
        restrict(scorer, codes),
        layout.offsets,
        *parameters.logs(),
        consume=consume,
        marginals=stored,
    )
    emitted = found.consumed if stored is None else emission.sums(observations, stored)
    counts = ChainCounts(found.initial_sums, found.transition_sums, found.final_sums)
    return counts, emitted, float(found.log_partition.sum())


def _best_paths(
    emission: Emission,
    observations: Any,
    layout: Layout,
    parameters: ChainParameters,
    codes: Integers | None,
) -> _Step:
    scorer = by_step(emission.log_likelihoods(parameters.theta), observations)
    paths, scores = best_paths(restrict(scorer, codes), layout.offsets, *parameters.logs())
    n_states = parameters.n_states
    weight = np.zeros((layout.n_steps, n_states))
    weight[np.arange(layout.n_steps), paths] = 1.0
    counts = label_counts(paths, layout, n_states)
    return counts, emission.sums(observations, weight), float(scores.sum())
