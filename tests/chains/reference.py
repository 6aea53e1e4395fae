"""The chain recursions in plain logarithms, step by step: what the compiled ones should give."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.chains.recursions import ForwardBackward


def log_sum_exp(values: Floats, axis: int = -1) -> Floats:
    """Return log Σ exp along an axis; -inf where all are."""
    largest = values.max(axis=axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(values - largest).sum(axis=axis, keepdims=True))
    return np.squeeze(total + largest, axis=axis)


def _sequences(log_emissions: Floats, offsets: Integers) -> Iterator[Floats]:
    for lo, hi in itertools.pairwise(offsets):
        yield log_emissions[lo:hi]


def _forward(log_b: Floats, log_initial: Floats, log_transitions: Floats) -> Floats:
    """Return log α, shape (T, K): α_t(k) sums over all beginnings that are in k at t."""
    alpha = np.empty_like(log_b)
    alpha[0] = log_initial + log_b[0]
    for t in range(1, len(log_b)):
        alpha[t] = log_sum_exp(alpha[t - 1][:, None] + log_transitions, axis=0) + log_b[t]
    return alpha


def _backward(log_b: Floats, log_transitions: Floats, log_final: Floats) -> Floats:
    """Return log β, shape (T, K): β_t(k) sums over all continuations from k at t."""
    beta = np.empty_like(log_b)
    beta[-1] = log_final
    for t in range(len(log_b) - 2, -1, -1):
        beta[t] = log_sum_exp(log_transitions + (log_b[t + 1] + beta[t + 1]), axis=1)
    return beta


def forward_backward(
    log_emissions: Floats,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats | None = None,
) -> ForwardBackward:
    """Return log-partitions, marginals and expected transitions of every sequence."""
    n_states = len(log_initial)
    final = np.zeros(n_states) if log_final is None else np.asarray(log_final, dtype=np.float64)
    partition = np.zeros(len(offsets) - 1)
    marginals = np.zeros_like(log_emissions)
    initial_sums, final_sums = np.zeros((2, n_states))
    for s, log_b in enumerate(_sequences(log_emissions, offsets)):
        if not len(log_b):
            continue
        alpha = _forward(log_b, log_initial, log_transitions)
        partition[s] = log_sum_exp(alpha[-1] + final)
        if partition[s] == -np.inf:
            continue
        here = np.exp(alpha + _backward(log_b, log_transitions, final) - partition[s])
        marginals[offsets[s] : offsets[s + 1]] = here
        initial_sums += here[0]
        final_sums += here[-1]
    edges = edge_marginals(log_emissions, offsets, log_initial, log_transitions, log_final)
    return ForwardBackward(partition, marginals, edges.sum(axis=0), initial_sums, final_sums)


def log_partition(
    log_emissions: Floats,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats | None = None,
) -> Floats:
    """Return the log of the sum over all paths for each sequence."""
    final = 0.0 if log_final is None else log_final
    partition = np.zeros(len(offsets) - 1)
    for s, log_b in enumerate(_sequences(log_emissions, offsets)):
        if len(log_b):
            partition[s] = log_sum_exp(_forward(log_b, log_initial, log_transitions)[-1] + final)
    return partition


def edge_marginals(
    log_emissions: Floats,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats | None = None,
) -> Floats:
    """Return the probability of each pair of neighbouring states, for every pair of steps."""
    n_states = len(log_initial)
    final = np.zeros(n_states) if log_final is None else np.asarray(log_final, dtype=np.float64)
    edges = [np.zeros((0, n_states, n_states))]
    for log_b in _sequences(log_emissions, offsets):
        if not len(log_b):
            continue
        alpha = _forward(log_b, log_initial, log_transitions)
        beta = _backward(log_b, log_transitions, final)
        log_total = log_sum_exp(alpha[-1] + final)
        if log_total == -np.inf:
            edges.append(np.zeros((len(log_b) - 1, n_states, n_states)))
            continue
        entering = (log_b[1:] + beta[1:])[:, None, :]
        edges.append(np.exp(alpha[:-1, :, None] + log_transitions + entering - log_total))
    return np.concatenate(edges)


def viterbi(
    log_emissions: Floats,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats | None = None,
) -> tuple[Integers, Floats]:
    """Return the best path of every sequence and its log-potential."""
    final = 0.0 if log_final is None else log_final
    paths, scores = np.zeros(len(log_emissions), dtype=np.int64), np.zeros(len(offsets) - 1)
    for s, log_b in enumerate(_sequences(log_emissions, offsets)):
        if not len(log_b):
            continue
        best, pointers = log_initial + log_b[0], []
        for row in log_b[1:]:
            arriving = best[:, None] + log_transitions
            pointers.append(arriving.argmax(axis=0))
            best = arriving.max(axis=0) + row
        best = best + final
        state = int(best.argmax())
        scores[s] = best[state]
        path = [state]
        for pointer in reversed(pointers):
            path.append(int(pointer[path[-1]]))
        paths[offsets[s] : offsets[s + 1]] = path[::-1]
    return paths, scores
