"""Compiled passes of the random field: scores, recursions and scattered sums, sentence by sentence.

The recursions are those of :mod:`crossfade.chains.kernels`. What is added here is where scores
come from and where marginals go: an attribute either has weights for most labels, and then a
row of ``dense`` (one padded row of all labels, added by vector instructions), or for few, and then
a range of ``pair_labels`` and ``weights``. Attributes are numbered so that the dense ones come
first: number a is dense when ``a < dense.shape[0]``, and otherwise has pairs
``pair_starts[a] : pair_starts[a + 1]``.

The plain form of the scores is a sparse product of tokens and weights, that of the sums its
transpose applied to the marginals; the tests compare.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossfade._compiled import REORDERED, kernel
from crossfade._typing import Floats, Integers
from crossfade.chains.kernels import WORK_ROWS, forward_backward_block, log_forward_backward

__all__ = ["expectation_block", "score_block", "stochastic_pass"]


@kernel(fastmath=REORDERED)
def _token_scores(
    begin: int,
    end: int,
    attributes: Integers,
    values: Floats,
    dense: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    weights: Floats,
    scores: Floats,
) -> None:
    """Write the sum of a token's weights, for each label, to ``scores`` (padded)."""
    n_dense, width = dense.shape
    plain = values.shape[0] == 0
    for k in range(width):
        scores[k] = 0.0
    for e in range(begin, end):
        a = attributes[e]
        value = 1.0 if plain else values[e]
        if a < n_dense:
            for k in range(width):
                scores[k] += dense[a, k] * value
        else:
            for p in range(pair_starts[a], pair_starts[a + 1]):
                scores[pair_labels[p]] += weights[p] * value


@kernel()
def score_block(
    first: int,
    last: int,
    token_starts: Integers,
    attributes: Integers,
    values: Floats,
    dense: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    weights: Floats,
    scores: Floats,
) -> None:
    """Write the scores of tokens ``first`` to ``last`` to rows of ``scores`` (n_tokens, K)."""
    padded = np.empty(dense.shape[1])
    for t in range(first, last):
        _token_scores(
            token_starts[t],
            token_starts[t + 1],
            attributes,
            values,
            dense,
            pair_starts,
            pair_labels,
            weights,
            padded,
        )
        for k in range(scores.shape[1]):
            scores[t, k] = padded[k]


@kernel(fastmath=REORDERED)
def _scatter(
    begin: int,
    end: int,
    attributes: Integers,
    values: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    sums: Floats,
    dense_sums: Floats,
    pair_sums: Floats,
    squared: bool,
) -> None:
    """Add ``sums`` (padded, one number per label) to every attribute of a token."""
    n_dense, width = dense_sums.shape
    plain = values.shape[0] == 0
    for e in range(begin, end):
        a = attributes[e]
        value = 1.0 if plain else values[e]
        if squared:
            value *= value
        if a < n_dense:
            for k in range(width):
                dense_sums[a, k] += sums[k] * value
        else:
            for p in range(pair_starts[a], pair_starts[a + 1]):
                pair_sums[p] += sums[pair_labels[p]] * value


@kernel()
def _sentence_scores(
    lo: int,
    token_starts: Integers,
    attributes: Integers,
    values: Floats,
    dense: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    weights: Floats,
    scale: float,
    padded: Floats,
    log_b: Floats,
    b: Floats,
    shift: Floats,
) -> None:
    """Write a sentence's scores, times `scale`, in the three forms the recursions take."""
    for t in range(log_b.shape[0]):
        _token_scores(
            token_starts[lo + t],
            token_starts[lo + t + 1],
            attributes,
            values,
            dense,
            pair_starts,
            pair_labels,
            weights,
            padded,
        )
        largest = -np.inf
        for k in range(log_b.shape[1]):
            value = padded[k] * scale
            log_b[t, k] = value
            largest = value if value > largest else largest
        shift[t] = largest
        for k in range(log_b.shape[1]):
            b[t, k] = math.exp(log_b[t, k] - largest)


@kernel()
def expectation_block(
    first: int,
    last: int,
    offsets: Integers,
    token_starts: Integers,
    attributes: Integers,
    values: Floats,
    dense: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    weights: Floats,
    chain: Any,
    variances: bool,
    dense_sums: Floats,
    pair_sums: Floats,
    outer: Floats,
    direct: Floats,
    ends: Floats,
) -> float:
    """Add expected counts over sequences ``first`` to ``last``; return their log-partitions' sum.

    Expected transitions are ``outer * chain.transitions + direct``. With `variances`, variances of
    a token's state counts, value² p (1 - p), are added instead of expectations.
    """
    n_states = chain.start.shape[0]
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    log_b = np.empty((longest, n_states))
    b = np.empty((longest, n_states))
    marginals = np.empty((longest, n_states))
    shift, inverse = np.empty((2, longest))
    steps = np.arange(longest)
    work = np.empty((WORK_ROWS, n_states))
    scratch = np.empty((n_states, n_states))
    none = np.empty((0, n_states, n_states))
    span, value = np.zeros(2, np.int64), np.empty(1)
    padded = np.zeros(dense.shape[1])
    total = 0.0
    for s in range(first, last):
        lo = offsets[s]
        length = offsets[s + 1] - lo
        if length == 0:
            continue
        _sentence_scores(
            lo,
            token_starts,
            attributes,
            values,
            dense,
            pair_starts,
            pair_labels,
            weights,
            1.0,
            padded,
            log_b[:length],
            b[:length],
            shift[:length],
        )
        here = marginals[:length]
        span[1] = length
        forward_backward_block(
            log_b,
            b,
            shift,
            steps,
            span,
            chain,
            True,
            here,
            value,
            outer,
            scratch,
            ends,
            inverse,
            work,
        )
        if value[0] != value[0]:
            value[0] = log_forward_backward(log_b[:length], chain, here, direct, none)
            for k in range(n_states):
                ends[0, k] += here[0, k]
                ends[1, k] += here[length - 1, k]
        total += value[0]
        padded[:] = 0.0
        for t in range(length):
            for k in range(n_states):
                p = marginals[t, k]
                padded[k] = p * (1.0 - p) if variances else p
            _scatter(
                token_starts[lo + t],
                token_starts[lo + t + 1],
                attributes,
                values,
                pair_starts,
                pair_labels,
                padded,
                dense_sums,
                pair_sums,
                variances,
            )
    return total


@kernel()
def _exponentials(log_values: Floats, values: Floats) -> float:
    """Write exp(log_values - largest) to `values`; return the largest (0 if all are -inf)."""
    largest = -np.inf
    for i in range(log_values.shape[0]):
        largest = log_values[i] if log_values[i] > largest else largest
    if largest == -np.inf:
        largest = 0.0
    for i in range(log_values.shape[0]):
        values[i] = math.exp(log_values[i] - largest)
    return largest


@kernel()
def _refresh_chain(chain: Any) -> None:
    """Recompute the exponentials of a chain whose log-potentials were changed in place."""
    n_states = chain.log_start.shape[0]
    chain.shifts[0] = _exponentials(chain.log_start, chain.start)
    chain.shifts[1] = _exponentials(chain.log_transitions.ravel(), chain.transitions.ravel())
    chain.shifts[2] = _exponentials(chain.log_stop, chain.stop)
    for i in range(n_states):
        for j in range(n_states):
            value = chain.transitions[i, j]
            chain.transposed[j, i] = value
            allowed = chain.log_transitions[i, j] > -np.inf
            chain.raised[i, j] = max(value, 1e-50) if allowed else 0.0


@kernel(fastmath=REORDERED)
def _descend_token(
    begin: int,
    end: int,
    attributes: Integers,
    values: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    change: Floats,
    dense: Floats,
    dense_mask: Floats,
    weights: Floats,
) -> None:
    """Add ``change`` (padded, one number per label) to the weights of a token's attributes."""
    n_dense, width = dense.shape
    plain = values.shape[0] == 0
    for e in range(begin, end):
        a = attributes[e]
        value = 1.0 if plain else values[e]
        if a < n_dense:
            for k in range(width):
                dense[a, k] += change[k] * value * dense_mask[a, k]
        else:
            for p in range(pair_starts[a], pair_starts[a + 1]):
                weights[p] += change[pair_labels[p]] * value


@kernel()
def _descend_chain(
    path: Integers,
    marginals: Floats,
    edges: Floats,
    rate: float,
    kept: float,
    chosen: Floats,
    chain: Any,
) -> None:
    """Take the step of the start, transition and stop weights that are `chosen`."""
    length, n_states = marginals.shape
    for t in range(1, length):
        edges[path[t - 1], path[t]] -= 1.0
    for i in range(n_states):
        for j in range(n_states):
            if chosen[i, j] > 0.0:
                chain.log_transitions[i, j] *= kept
                chain.log_transitions[i, j] -= rate * edges[i, j]
        if chosen[n_states, i] > 0.0:
            chain.log_start[i] *= kept
            chain.log_start[i] -= rate * (marginals[0, i] - (path[0] == i))
        if chosen[n_states + 1, i] > 0.0:
            chain.log_stop[i] *= kept
            chain.log_stop[i] -= rate * (marginals[length - 1, i] - (path[length - 1] == i))


@kernel()
def _rescale(weights: Floats, dense: Floats, scale: float) -> None:
    for p in range(weights.shape[0]):
        weights[p] *= scale
    for a in range(dense.shape[0]):
        for k in range(dense.shape[1]):
            dense[a, k] *= scale


@kernel()
def stochastic_pass(
    order: Integers,
    labels: Integers,
    offsets: Integers,
    token_starts: Integers,
    attributes: Integers,
    values: Floats,
    dense: Floats,
    dense_mask: Floats,
    pair_starts: Integers,
    pair_labels: Integers,
    weights: Floats,
    chain: Any,
    chosen: Floats,
    rates: Floats,
    shrinkage: float,
) -> None:
    """Take one gradient step per sentence, in this order, each of its own length.

    Changes ``dense``, ``weights`` and the chain's weights in place. ``dense_mask`` is 1 where a
    dense row has a weight, ``chosen`` (K + 2, K) where a transition, a start, a stop has one.
    ``shrinkage`` is the share of the penalty's gradient that falls to one sentence: weights are
    held as a common scale times what is stored, so that shrinking all costs one multiplication
    (Bottou 2010, "Large-scale machine learning with stochastic gradient descent").
    """
    n_states = chain.start.shape[0]
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    log_b = np.empty((longest, n_states))
    b = np.empty((longest, n_states))
    marginals = np.empty((longest, n_states))
    shift, inverse = np.empty((2, longest))
    steps = np.arange(longest)
    work = np.empty((WORK_ROWS, n_states))
    outer = np.empty((n_states, n_states))
    direct = np.empty((n_states, n_states))
    scratch = np.empty((n_states, n_states))
    none = np.empty((0, n_states, n_states))
    span, value, ends = np.zeros(2, np.int64), np.empty(1), np.empty((2, n_states))
    padded = np.zeros(dense.shape[1])
    scale = 1.0
    for number in range(order.shape[0]):
        rate = rates[number]
        lo = offsets[order[number]]
        hi = offsets[order[number] + 1]
        length = hi - lo
        if length == 0:
            continue
        _sentence_scores(
            lo,
            token_starts,
            attributes,
            values,
            dense,
            pair_starts,
            pair_labels,
            weights,
            scale,
            padded,
            log_b[:length],
            b[:length],
            shift[:length],
        )
        _refresh_chain(chain)
        outer[:] = 0.0
        direct[:] = 0.0
        here = marginals[:length]
        span[1] = length
        forward_backward_block(
            log_b,
            b,
            shift,
            steps,
            span,
            chain,
            True,
            here,
            value,
            outer,
            scratch,
            ends,
            inverse,
            work,
        )
        if value[0] != value[0]:
            log_forward_backward(log_b[:length], chain, here, direct, none)
        kept = max(1.0 - rate * shrinkage, 0.5)
        scale *= kept
        step = -rate / scale
        padded[:] = 0.0
        for t in range(length):
            for k in range(n_states):
                padded[k] = step * marginals[t, k]
            padded[labels[lo + t]] -= step
            _descend_token(
                token_starts[lo + t],
                token_starts[lo + t + 1],
                attributes,
                values,
                pair_starts,
                pair_labels,
                padded,
                dense,
                dense_mask,
                weights,
            )
        for i in range(n_states):
            for j in range(n_states):
                direct[i, j] += outer[i, j] * chain.transitions[i, j]
        _descend_chain(labels[lo:hi], here, direct, rate, kept, chosen, chain)
        if scale < 1e-6:
            _rescale(weights, dense, scale)
            scale = 1.0
    _rescale(weights, dense, scale)
