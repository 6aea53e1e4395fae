"""Compiled chain recursions over a block of whole sequences.

``offsets`` (n_sequences + 1,) counts from the block's first step; ``at`` holds the row of each
step of the block. Everything else is as :mod:`crossfade.chains.kernels` has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from crossfade._typing import Floats, Integers
from crossfade.chains.kernels import (
    WORK_ROWS,
    forward_backward_sequence,
    gathered_rows,
    log_forward_backward,
    scaled_forward,
    total_shift,
    viterbi_sequence,
)

__all__ = [
    "add_rows",
    "forward_backward_block",
    "forward_block",
    "log_edges_block",
    "shift_rows",
    "viterbi_block",
]


@njit(nogil=True, cache=True)
def shift_rows(log_b: Floats, shifted: Floats, shift: Floats) -> None:
    """Write ``log_b`` less its row maxima to ``shifted`` and the maxima to ``shift``."""
    n_rows, n_states = log_b.shape
    for t in range(n_rows):
        largest = log_b[t, 0]
        for k in range(1, n_states):
            value = log_b[t, k]
            largest = value if value > largest else largest
        if largest == -np.inf:
            largest = 0.0
        shift[t] = largest
        for k in range(n_states):
            shifted[t, k] = log_b[t, k] - largest


@njit(nogil=True, cache=True)
def add_rows(codes: Integers, weights: Floats, table: Floats) -> None:
    """Add each row of ``weights`` to the row of ``table`` that its code names; -1 for none."""
    for t in range(codes.shape[0]):
        code = codes[t]
        if code >= 0:
            for k in range(weights.shape[1]):
                table[code, k] += weights[t, k]


@njit(nogil=True, cache=True)
def forward_backward_block(
    log_b: Floats,
    b: Floats,
    shift: Floats,
    at: Integers,
    offsets: Integers,
    chain: Any,
    marginals: Floats,
    log_partition: Floats,
    outer: Floats,
    direct: Floats,
    initial: Floats,
    final: Floats,
) -> None:
    """Run :func:`forward_backward_sequence` over a block; ``offsets`` count from its first row."""
    n_states = b.shape[1]
    scratch = np.empty((n_states, n_states))
    work = np.empty((WORK_ROWS, n_states))
    inverse = np.empty(_longest(offsets))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if lo == hi:
            log_partition[s] = 0.0
            continue
        log_partition[s] = forward_backward_sequence(
            log_b,
            b,
            shift,
            at[lo:hi],
            chain,
            marginals[lo:hi],
            outer,
            direct,
            scratch,
            inverse,
            work,
        )
        for k in range(n_states):
            initial[k] += marginals[lo, k]
            final[k] += marginals[hi - 1, k]


@njit(nogil=True, cache=True)
def _longest(offsets: Integers) -> int:
    longest = 0
    for s in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@njit(nogil=True, cache=True)
def forward_block(
    log_b: Floats,
    b: Floats,
    shift: Floats,
    at: Integers,
    offsets: Integers,
    chain: Any,
    log_partition: Floats,
) -> None:
    """Write the log-partition of each sequence of a block."""
    n_states = b.shape[1]
    longest = _longest(offsets)
    alpha = np.empty((longest, n_states))
    inverse = np.empty(longest)
    work = np.empty((WORK_ROWS, n_states))
    spare = np.empty((n_states, n_states))
    none = np.empty((0, n_states, n_states))
    for s in range(offsets.shape[0] - 1):
        here = at[offsets[s] : offsets[s + 1]]
        length = here.shape[0]
        if length == 0:
            log_partition[s] = 0.0
            continue
        value = scaled_forward(log_b, b, here, chain, alpha, inverse, work)
        if value == value:
            log_partition[s] = value + total_shift(shift, here, chain)
        else:
            rows = gathered_rows(log_b, here)
            log_partition[s] = log_forward_backward(rows, chain, alpha[:length], spare, none)


@njit(nogil=True, cache=True)
def log_edges_block(
    log_b: Floats, offsets: Integers, edge_offsets: Integers, chain: Any, edges: Floats
) -> None:
    """Write the marginals of each edge of a block of sequences, ``edges`` (n_edges, K, K)."""
    n_states = log_b.shape[1]
    marginals = np.empty(log_b.shape)
    total = np.empty((n_states, n_states))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if hi - lo > 1:
            here = edges[edge_offsets[s] : edge_offsets[s + 1]]
            log_forward_backward(log_b[lo:hi], chain, marginals[lo:hi], total, here)


@njit(nogil=True, cache=True)
def viterbi_block(
    log_b: Floats, at: Integers, offsets: Integers, chain: Any, paths: Integers, scores: Floats
) -> None:
    """Write the best path and its score for each sequence of a block."""
    arrivals = np.empty((_longest(offsets), log_b.shape[1]))
    work = np.empty((2, log_b.shape[1]))
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if lo == hi:
            scores[s] = 0.0
        else:
            scores[s] = viterbi_sequence(log_b, at[lo:hi], chain, arrivals, paths[lo:hi], work)
