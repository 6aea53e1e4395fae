"""Compiled chain recursions: scaled, with logarithms where scaling could lose anything.

Import this module when first used: :mod:`crossfade.chains.vector_kernels` loads the compiler.
(Numba's cache does not see changes in functions that another file calls: after editing, ``make
clean``.) The NumPy twin of all this is ``tests/chains/reference.py``.

Arguments, of T steps and K states, all in C order: ``log_b``, rows of log-potentials; ``b``, their
exponentials after subtraction of each row's maximum; ``shift``, those maxima; ``at`` (T,), which
row is each step's, so that steps with equal potentials share one; ``offsets``, first step of each
sequence of a block; ``work`` (WORK_ROWS, K), scratch.

When are scaled recursions safe? Potentials below 1e-308 of the row's largest become zero. If every
transition is possible and none is tiny (``chain.audit`` False), what was lost could at the next
step not have mattered: any state is entered from the best one with a far larger weight. Otherwise
the forward pass carries along an upper bound of what underflow may have cost, and gives up when it
could show; the backward pass checks at each step that Σ αβ has kept its value. Such sequences have
log-partition NaN, and go to :func:`log_forward_backward`: ten times slower, always right.

Both passes are written out in one function: what is compiled apart is compiled once more in every
caller.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from crossfade._compiled import REORDERED, kernel
from crossfade._typing import Floats, Integers
from crossfade.chains.vector_kernels import (
    add_products,
    first_origin,
    largest_arrivals,
    weighted_rows,
)

#: What all steps of all sequences share. ``log_*`` as given; ``start``, ``transitions`` and
#: ``stop`` exponentials after subtraction of the largest entry (kept in ``shifts``);
#: ``transposed`` and ``log_transposed`` the transitions transposed, contiguous; ``raised`` the
#: transitions, allowed ones at least 1e-50; ``audit`` whether some transition is forbidden or tiny.
Chain = namedtuple(
    "Chain",
    "log_start log_transitions log_transposed log_stop "
    "start transitions transposed raised stop shifts audit",
)

#: Steps whose transitions are counted together, with one load and store of each count.
_STEPS = 8

#: Rows of scratch that a sequence needs: one or two vectors, and weights of these steps twice.
WORK_ROWS = 1 + 2 * _STEPS

#: Added at each reachable state and step to the bound of what underflow may have cost.
_LOSS = 1e-250
#: A possible loss beyond this share of the total sends the sequence to logarithms.
_TOLERATED = 1e-15
#: A step's scale below this cannot be trusted either.
_TINY = 1e-200


def make_chain(log_start: Floats, log_transitions: Floats, log_stop: Floats) -> Any:
    """Return the :data:`Chain` of these log-potentials (C-contiguous float64, -inf allowed)."""
    start, start_shift = _exponentials(log_start)
    transitions, transition_shift = _exponentials(log_transitions)
    stop, stop_shift = _exponentials(log_stop)
    allowed = log_transitions > -np.inf
    return Chain(
        log_start,
        log_transitions,
        np.ascontiguousarray(log_transitions.T),
        log_stop,
        start,
        transitions,
        np.ascontiguousarray(transitions.T),
        np.where(allowed, np.maximum(transitions, 1e-50), 0.0),
        stop,
        np.array([start_shift, transition_shift, stop_shift]),
        bool(transitions.min(initial=1.0) < 1e-100),
    )


def _exponentials(log_values: Floats) -> tuple[Floats, float]:
    largest = float(log_values.max(initial=-np.inf))
    shift = largest if np.isfinite(largest) else 0.0
    return np.exp(log_values - shift), shift


@kernel()
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


@kernel()
def _possible_loss(
    first: bool, row: int, log_b: Floats, b: Floats, chain: Any, scale: float, work: Floats
) -> float:
    """Advance the bound, per state, of the forward weight that underflow may have cost."""
    n_states = b.shape[1]
    bound = work[1]
    entering = work[2]
    for k in range(n_states):
        entering[k] = 0.0
    if first:
        for k in range(n_states):
            if chain.log_start[k] > -np.inf:
                entering[k] = _LOSS
    else:
        for j in range(n_states):
            weight = bound[j]
            if weight > 0.0:
                for k in range(n_states):
                    entering[k] += weight * chain.raised[j, k]
    loss = 0.0
    for k in range(n_states):
        if entering[k] > 0.0 and log_b[row, k] > -np.inf:
            bound[k] = (entering[k] * b[row, k]) * scale + _LOSS * max(1.0, scale)
        else:
            bound[k] = 0.0
        loss += bound[k]
    return loss


@kernel(fastmath=REORDERED)
def forward_backward_block(
    log_b: Floats,
    b: Floats,
    shift: Floats,
    at: Integers,
    offsets: Integers,
    chain: Any,
    backward: bool,
    marginals: Floats,
    log_partition: Floats,
    outer: Floats,
    spare: Floats,
    ends: Floats,
    inverse: Floats,
    work: Floats,
) -> None:
    """Run the scaled recursions over a block of sequences, or the forward one alone.

    What fails has log-partition NaN. Times the transitions, entry by entry, ``outer`` (K, K) is the
    expected number of transitions; with (0, K) nothing is counted. ``ends`` (2, K) are expected
    first and last states, ``inverse`` (longest sequence,), ``spare`` (K, K) scratch.
    """
    n_states = b.shape[1]
    transitions, transposed = chain.transitions, chain.transposed
    start, stop, audit = chain.start, chain.stop, chain.audit
    counted = outer.shape[0] > 0
    # Counts of a sequence that may fail are kept apart until it has not.
    counts = spare if audit else outer
    weights, after = work[1 : 1 + _STEPS], work[1 + _STEPS :]
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if lo == hi:
            log_partition[s] = 0.0
            continue
        log_partition[s] = np.nan
        shifts = chain.shifts[0] + (hi - lo - 1) * chain.shifts[1] + chain.shifts[2]
        log_total, product, scale, last = 0.0, 1.0, 1.0, 0.0
        for t in range(lo, hi):
            row = at[t]
            shifts += shift[row]
            if t > lo:
                weighted_rows(marginals, t - 1, transitions, work, 0)
            # The scale of the step before comes in here, so that nothing waits for its division.
            total = 0.0
            for k in range(n_states):
                entering = start[k] if t == lo else work[0, k]
                value = entering * b[row, k] * scale
                marginals[t, k] = value
                total += value
            if not (total > _TINY and total < np.inf):
                break
            scale = 1.0 / total
            inverse[t - lo] = scale
            product *= total
            if product < 1e-100 or product > 1e100:
                log_total += math.log(product)
                product = 1.0
            if audit and _possible_loss(t == lo, row, log_b, b, chain, scale, work) > _TOLERATED:
                break
            if t == hi - 1:
                for k in range(n_states):
                    last += marginals[t, k] * stop[k]
                last *= scale
        if not (last > 1e-100 and last < np.inf):
            continue
        total = log_total + math.log(product) + math.log(last) + shifts
        if not backward:
            log_partition[s] = total
            continue
        if audit:
            spare[:] = 0.0
        # Where no path arrives nothing matters, and β may be beyond all bounds.
        scale = 1.0 / last
        for k in range(n_states):
            value = marginals[hi - 1, k]
            work[0, k] = 0.0 if audit and value == 0.0 else stop[k] * scale
            marginals[hi - 1, k] = value * (inverse[hi - 1 - lo] * work[0, k])
        allowance, drift, slot = 1e-9 + 1e-14 * (hi - lo), 1.0, 0
        sound = True
        for t in range(hi - 2, lo - 1, -1):
            row = at[t + 1]
            scale = inverse[t + 1 - lo]
            for j in range(n_states):
                after[slot, j] = b[row, j] * work[0, j] * scale
            weighted_rows(after, slot, transposed, work, 0)
            scale = inverse[t - lo]
            share = 0.0
            for i in range(n_states):
                value = marginals[t, i] * scale
                weights[slot, i] = value
                if audit and value == 0.0:
                    work[0, i] = 0.0
                value *= work[0, i]
                marginals[t, i] = value
                share += value
            sound = abs(drift * share - 1.0) <= allowance
            if not sound:
                break
            scale = 1.0 / share
            for i in range(n_states):
                marginals[t, i] *= scale
            # Rounding must not accumulate over a million steps: Σ αβ is 1 at each.
            if abs(share - 1.0) > 1e-13:
                drift *= share
                for i in range(n_states):
                    work[0, i] *= scale
            slot += 1
            if counted and (slot == _STEPS or t == lo):
                add_products(weights, after, slot, counts)
            slot %= _STEPS
        if not sound:
            continue
        log_partition[s] = total
        for k in range(n_states):
            ends[0, k] += marginals[lo, k]
            ends[1, k] += marginals[hi - 1, k]
        if audit and counted:
            for i in range(n_states):
                for j in range(n_states):
                    outer[i, j] += spare[i, j]


@kernel()
def _log_sum(values: Floats) -> float:
    largest = values[0]
    for k in range(1, values.shape[0]):
        if values[k] > largest or values[k] != values[k]:
            largest = values[k]
    if not abs(largest) < np.inf:
        return largest
    total = 0.0
    for k in range(values.shape[0]):
        total += math.exp(values[k] - largest)
    return largest + math.log(total)


@kernel()
def log_forward_backward(
    log_b: Floats, chain: Any, marginals: Floats, edges_total: Floats, edges: Floats
) -> float:
    """Run both recursions over one sequence in logarithms; return the log-partition.

    Writes ``marginals`` (T, K), adds the expected transitions themselves to ``edges_total`` (K, K),
    and writes those of each pair of steps to ``edges`` (T-1, K, K) if that has T-1 rows.
    """
    n_steps, n_states = log_b.shape
    values = np.empty(n_states)
    beta = chain.log_stop.copy()
    after = np.empty(n_states)
    for k in range(n_states):
        marginals[0, k] = chain.log_start[k] + log_b[0, k]
    for t in range(1, n_steps):
        for k in range(n_states):
            for j in range(n_states):
                values[j] = marginals[t - 1, j] + chain.log_transitions[j, k]
            marginals[t, k] = _log_sum(values) + log_b[t, k]
    for k in range(n_states):
        values[k] = marginals[n_steps - 1, k] + beta[k]
    log_total = _log_sum(values)
    if not abs(log_total) < np.inf:
        marginals[:] = 0.0
        edges[:] = 0.0
        return log_total
    for k in range(n_states):
        marginals[n_steps - 1, k] = math.exp(values[k] - log_total)
    for t in range(n_steps - 2, -1, -1):
        for j in range(n_states):
            after[j] = log_b[t + 1, j] + beta[j]
        for i in range(n_states):
            for j in range(n_states):
                values[j] = chain.log_transitions[i, j] + after[j]
                expected = math.exp(marginals[t, i] + values[j] - log_total)
                edges_total[i, j] += expected
                if edges.shape[0] > t:
                    edges[t, i, j] = expected
            beta[i] = _log_sum(values)
        for i in range(n_states):
            marginals[t, i] = math.exp(marginals[t, i] + beta[i] - log_total)
    return log_total


@kernel()
def viterbi_block(
    log_b: Floats,
    at: Integers,
    offsets: Integers,
    chain: Any,
    paths: Integers,
    scores: Floats,
    arrivals: Floats,
    work: Floats,
) -> None:
    """Write each sequence's best path and score, ties to the lower state, without back-pointers.

    The path's predecessors are those whose sums are the maxima in ``arrivals`` (longest sequence,
    K), so that the forward loop is a maximum only, in vector instructions.
    """
    n_states = log_b.shape[1]
    log_transitions, log_transposed = chain.log_transitions, chain.log_transposed
    log_start, log_stop = chain.log_start, chain.log_stop
    for s in range(offsets.shape[0] - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if lo == hi:
            scores[s] = 0.0
            continue
        for k in range(n_states):
            arrivals[0, k] = log_start[k]
            work[0, k] = log_start[k] + log_b[at[lo], k]
        for t in range(1, hi - lo):
            now = t % 2
            row = at[lo + t]
            largest_arrivals(work, 1 - now, log_transitions, log_b, row, arrivals, t, work, now)
        last = (hi - lo - 1) % 2
        state, score = 0, work[last, 0] + log_stop[0]
        for k in range(1, n_states):
            value = work[last, k] + log_stop[k]
            if value > score:
                state, score = k, value
        paths[hi - 1] = state
        for t in range(hi - lo - 2, -1, -1):
            value = arrivals[t + 1, state]
            row = at[lo + t]
            state = first_origin(arrivals, t, log_b, row, log_transposed, state, value)
            paths[lo + t] = state
        scores[s] = score
