"""Compiled chain recursions, one sequence at a time.

Everything here is compiled, takes arrays and knows no model. The hidden Markov model calls it
through blocks of sequences (:mod:`crossfade.chains.block_kernels`); a kernel of another model
(the random field's, which computes its scores in the same pass) may call it itself. Import this
module when first used: compilation, or loading from the cache, takes a moment. (Numba's cache does
not see changes in functions that another file calls: after editing, ``make clean``.)

Per sequence of T steps and K states (``log_b``: rows of log-potentials, ``b``: their exponentials
after subtraction of each row's maximum, ``shift``: those maxima; ``at`` (T,): which row is each
step's, so that steps with equal potentials share one; all C order):

``scaled_forward(log_b, b, at, chain, alpha, inverse, work) -> float``
    Writes forward vectors to ``alpha`` (T, K), which sum to 1 once multiplied by ``inverse``
    (T,), written as well. Returns log Σ paths, of the *shifted* potentials: add the steps' shifts
    and ``chain_shift(chain, T)``. Returns NaN when scaled arithmetic cannot be trusted with this
    sequence (then call ``log_forward_backward``). ``work``: (WORK_ROWS, K) scratch.
``scaled_backward(b, at, chain, alpha, inverse, outer, work) -> bool``
    Overwrites ``alpha`` with the marginals and adds to ``outer`` (K, K) a matrix that, multiplied
    by ``chain.transitions`` entry by entry, is the expected number of transitions (multiply once,
    after the last sequence; give it shape (0, K) when they are not wanted). False when it cannot
    be trusted: then ``alpha`` and ``outer`` are spoilt, so hand it a private ``outer`` when
    ``chain.audit`` is set; without it, it never fails after a forward pass that did not.
``log_forward_backward(log_b, chain, marginals, edges_total, edges) -> float``
    The same in logarithms, ``log_b`` (T, K) a row a step: writes ``marginals`` (T, K), adds
    expected transitions themselves to ``edges_total`` (K, K), writes each edge's to ``edges``
    (T-1, K, K) if that has T-1 rows (give it shape (0, K, K) otherwise), returns the
    log-partition of the unshifted potentials. Ten times slower, always right.
``forward_backward_sequence(log_b, b, shift, at, chain, marginals, outer, direct, scratch, inverse,
work) -> float``
    The three above put together: marginals to ``marginals``, expected transitions as
    ``outer * chain.transitions + direct``; returns the log-partition. ``scratch`` is (K, K),
    ``inverse`` at least (T,), ``work`` (WORK_ROWS, K).
``viterbi_sequence(log_b, at, chain, arrivals, path, work) -> float``
    Writes the best path to ``path`` (T,) and returns its score; ``arrivals`` (T, K) and ``work``
    (2, K) are scratch.

When are scaled recursions safe? Potentials below 1e-308 of the row's largest become zero. If every
transition is possible and none is tiny (``chain.audit`` False), what was lost could at the next
step not have mattered: any state is entered from the best one with a far larger weight. Otherwise
``scaled_forward`` carries along an upper bound of what underflow may have cost, and gives up when
it could show; ``scaled_backward`` checks at each step that Σ αβ has kept its value.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np
from numba import njit

from crossfade._typing import Floats, Integers
from crossfade.chains.vector_kernels import (
    add_products,
    first_origin,
    largest_arrivals,
    weighted_rows,
)

__all__ = [
    "WORK_ROWS",
    "Chain",
    "chain_shift",
    "forward_backward_sequence",
    "gathered_rows",
    "log_forward_backward",
    "make_chain",
    "scaled_backward",
    "scaled_forward",
    "total_shift",
    "viterbi_sequence",
]

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

#: Sums may be taken in any order (vector lanes), but infinities and NaN keep their meaning.
_FAST = {"reassoc", "nsz", "contract"}

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


@njit(nogil=True, cache=True)
def chain_shift(chain: Any, length: int) -> float:
    """Return what start, transitions and stop were shifted by over a sequence of this length."""
    return chain.shifts[0] + (length - 1) * chain.shifts[1] + chain.shifts[2]


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def scaled_forward(
    log_b: Floats,
    b: Floats,
    at: Integers,
    chain: Any,
    alpha: Floats,
    inverse: Floats,
    work: Floats,
) -> float:
    """Run the scaled forward recursion over one sequence; see the module's beginning."""
    n_steps = at.shape[0]
    n_states = b.shape[1]
    transitions = chain.transitions
    predicted = work[0]
    log_total = 0.0
    product = 1.0
    before = 1.0
    for t in range(n_steps):
        row = at[t]
        if t == 0:
            for k in range(n_states):
                predicted[k] = chain.start[k]
        else:
            weighted_rows(alpha, t - 1, transitions, work, 0)
        # The scale of the step before comes in here, so that nothing waits for its division.
        total = 0.0
        for k in range(n_states):
            value = predicted[k] * b[row, k] * before
            alpha[t, k] = value
            total += value
        if not (total > _TINY and total < np.inf):
            return np.nan
        before = 1.0 / total
        inverse[t] = before
        product *= total
        if product < 1e-100 or product > 1e100:
            log_total += math.log(product)
            product = 1.0
        if chain.audit and _possible_loss(t, row, log_b, b, chain, before, work) > _TOLERATED:
            return np.nan
    last = 0.0
    for k in range(n_states):
        last += alpha[n_steps - 1, k] * chain.stop[k]
    last *= before
    if not (last > 1e-100 and last < np.inf):
        return np.nan
    return log_total + math.log(product) + math.log(last)


@njit(nogil=True, cache=True)
def _possible_loss(
    t: int, row: int, log_b: Floats, b: Floats, chain: Any, scale: float, work: Floats
) -> float:
    """Advance the bound, per state, of the forward weight that underflow may have cost."""
    n_states = b.shape[1]
    bound = work[1]
    entering = work[2]
    for k in range(n_states):
        entering[k] = 0.0
    if t == 0:
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


@njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def scaled_backward(
    b: Floats,
    at: Integers,
    chain: Any,
    alpha: Floats,
    inverse: Floats,
    outer: Floats,
    work: Floats,
) -> bool:
    """Run the scaled backward recursion over one sequence; see the module's beginning."""
    n_steps = at.shape[0]
    n_states = b.shape[1]
    transposed = chain.transposed
    beta = work[0]
    weights = work[1 : 1 + _STEPS]
    after = work[1 + _STEPS : WORK_ROWS]
    audit = chain.audit
    counted = outer.shape[0] > 0
    allowance = 1e-9 + 1e-14 * n_steps
    drift = 1.0
    total = 0.0
    for k in range(n_states):
        total += alpha[n_steps - 1, k] * chain.stop[k]
    # Where no path arrives nothing matters, and β may be beyond all bounds.
    scale = 1.0 / (total * inverse[n_steps - 1])
    for k in range(n_states):
        beta[k] = chain.stop[k] * scale
        if audit and alpha[n_steps - 1, k] == 0.0:
            beta[k] = 0.0
        alpha[n_steps - 1, k] *= inverse[n_steps - 1] * beta[k]
    slot = 0
    for t in range(n_steps - 2, -1, -1):
        scale = inverse[t + 1]
        row = at[t + 1]
        for j in range(n_states):
            after[slot, j] = b[row, j] * beta[j] * scale
        weighted_rows(after, slot, transposed, work, 0)
        if audit:
            for i in range(n_states):
                if alpha[t, i] == 0.0:
                    beta[i] = 0.0
        scale = inverse[t]
        total = 0.0
        for i in range(n_states):
            value = alpha[t, i] * scale
            weights[slot, i] = value
            value *= beta[i]
            alpha[t, i] = value
            total += value
        if not abs(drift * total - 1.0) <= allowance:
            return False
        scale = 1.0 / total
        for i in range(n_states):
            alpha[t, i] *= scale
        # Rounding must not accumulate over a million steps: Σ αβ is 1 at each.
        if abs(total - 1.0) > 1e-13:
            drift *= total
            for i in range(n_states):
                beta[i] *= scale
        slot += 1
        if slot == _STEPS:
            slot = 0
            if counted:
                add_products(weights, after, _STEPS, outer)
    if counted and slot > 0:
        add_products(weights, after, slot, outer)
    return True


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def log_forward_backward(
    log_b: Floats, chain: Any, marginals: Floats, edges_total: Floats, edges: Floats
) -> float:
    """Run both recursions over one sequence in logarithms; see the module's beginning."""
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


@njit(nogil=True, cache=True)
def total_shift(shift: Floats, at: Integers, chain: Any) -> float:
    """Return what all potentials of a sequence were shifted by."""
    total = chain_shift(chain, at.shape[0])
    for t in range(at.shape[0]):
        total += shift[at[t]]
    return total


@njit(nogil=True, cache=True)
def gathered_rows(log_b: Floats, at: Integers) -> Floats:
    """Return each step's own row."""
    rows = np.empty((at.shape[0], log_b.shape[1]))
    for t in range(at.shape[0]):
        rows[t] = log_b[at[t]]
    return rows


@njit(nogil=True, cache=True)
def forward_backward_sequence(
    log_b: Floats,
    b: Floats,
    shift: Floats,
    at: Integers,
    chain: Any,
    marginals: Floats,
    outer: Floats,
    direct: Floats,
    scratch: Floats,
    inverse: Floats,
    work: Floats,
) -> float:
    """Run both recursions over one sequence, in logarithms if need be; see the beginning."""
    n_states = b.shape[1]
    value = scaled_forward(log_b, b, at, chain, marginals, inverse, work)
    if value == value:
        counted = outer.shape[0] > 0
        if chain.audit and counted:
            scratch[:] = 0.0
            if scaled_backward(b, at, chain, marginals, inverse, scratch, work):
                for i in range(n_states):
                    for j in range(n_states):
                        outer[i, j] += scratch[i, j]
                return value + total_shift(shift, at, chain)
        elif scaled_backward(b, at, chain, marginals, inverse, outer, work):
            return value + total_shift(shift, at, chain)
    none = np.empty((0, n_states, n_states))
    return log_forward_backward(gathered_rows(log_b, at), chain, marginals, direct, none)


@njit(nogil=True, cache=True)
def viterbi_sequence(
    log_b: Floats, at: Integers, chain: Any, arrivals: Floats, path: Integers, work: Floats
) -> float:
    """Find the best path of one sequence; ties go to the lower state; see the beginning.

    No back-pointers: the one path's predecessors are those whose sums are the maxima kept in
    ``arrivals``, so that the forward loop is a maximum only, in vector instructions.
    """
    n_steps = at.shape[0]
    n_states = log_b.shape[1]
    log_transitions, log_transposed = chain.log_transitions, chain.log_transposed
    for k in range(n_states):
        arrivals[0, k] = chain.log_start[k]
        work[0, k] = chain.log_start[k] + log_b[at[0], k]
    for t in range(1, n_steps):
        now = t % 2
        largest_arrivals(work, 1 - now, log_transitions, log_b, at[t], arrivals, t, work, now)
    last = work[(n_steps - 1) % 2]
    state = 0
    score = last[0] + chain.log_stop[0]
    for k in range(1, n_states):
        value = last[k] + chain.log_stop[k]
        if value > score:
            score = value
            state = k
    path[n_steps - 1] = state
    for t in range(n_steps - 2, -1, -1):
        value = arrivals[t + 1, state]
        state = first_origin(arrivals, t, log_b, at[t], log_transposed, state, value)
        path[t] = state
    return score
