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
from collections import namedtuple
from typing import Any

import numpy as np

from crossfade._compiled import REORDERED, kernel
from crossfade._typing import Floats, Integers
from crossfade.chains.kernels import WORK_ROWS, forward_backward_block, log_forward_backward

#: Where each token's attributes begin, their numbers and values (none: all 1), and the pairs.
Tokens = namedtuple("Tokens", "starts attributes values pair_starts pair_labels")

#: What the recursions over one sentence write to, with room for the longest.
_Scratch = namedtuple(
    "_Scratch", "log_b b marginals shift inverse steps work matrix none span value padded"
)


@kernel(fastmath=REORDERED)
def _token_scores(token: int, tokens: Any, dense: Floats, weights: Floats, scores: Floats) -> None:
    """Write the sum of a token's weights, for each label, to ``scores`` (padded)."""
    n_dense, width = dense.shape
    attributes, values = tokens.attributes, tokens.values
    pair_starts, pair_labels = tokens.pair_starts, tokens.pair_labels
    plain = values.shape[0] == 0
    for k in range(width):
        scores[k] = 0.0
    for e in range(tokens.starts[token], tokens.starts[token + 1]):
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
    first: int, last: int, tokens: Any, dense: Floats, weights: Floats, scores: Floats
) -> None:
    """Write the scores of tokens ``first`` to ``last`` to rows of ``scores`` (n_tokens, K)."""
    padded = np.empty(dense.shape[1])
    for t in range(first, last):
        _token_scores(t, tokens, dense, weights, padded)
        for k in range(scores.shape[1]):
            scores[t, k] = padded[k]


@kernel(fastmath=REORDERED)
def _scatter(
    token: int, tokens: Any, sums: Floats, dense_sums: Floats, pair_sums: Floats, squared: bool
) -> None:
    """Add ``sums`` (padded, one number per label) to every attribute of a token."""
    n_dense, width = dense_sums.shape
    attributes, values = tokens.attributes, tokens.values
    pair_starts, pair_labels = tokens.pair_starts, tokens.pair_labels
    plain = values.shape[0] == 0
    for e in range(tokens.starts[token], tokens.starts[token + 1]):
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
def _scratch(longest: int, n_states: int, width: int) -> Any:
    return _Scratch(
        np.empty((longest, n_states)),
        np.empty((longest, n_states)),
        np.empty((longest, n_states)),
        np.empty(longest),
        np.empty(longest),
        np.arange(longest),
        np.empty((WORK_ROWS, n_states)),
        np.empty((n_states, n_states)),
        np.empty((0, n_states, n_states)),
        np.zeros(2, np.int64),
        np.empty(1),
        np.zeros(width),
    )


@kernel()
def _recur(
    lo: int,
    length: int,
    tokens: Any,
    dense: Floats,
    weights: Floats,
    scale: float,
    chain: Any,
    outer: Floats,
    direct: Floats,
    ends: Floats,
    scratch: Any,
) -> float:
    """Write a sentence's marginals, and add to its expected transitions and ends.

    Its scores are those of the weights times `scale`. Returns its log-partition.
    """
    log_b, b, shift, padded = scratch.log_b, scratch.b, scratch.shift, scratch.padded
    n_states = log_b.shape[1]
    for t in range(length):
        _token_scores(lo + t, tokens, dense, weights, padded)
        largest = -np.inf
        for k in range(n_states):
            value = padded[k] * scale
            log_b[t, k] = value
            largest = value if value > largest else largest
        shift[t] = largest
        for k in range(n_states):
            b[t, k] = math.exp(log_b[t, k] - largest)
    marginals, value, span = scratch.marginals[:length], scratch.value, scratch.span
    span[1] = length
    backward = length > 0  # a literal True has a type of its own, and is compiled once more
    forward_backward_block(
        log_b, b, shift, scratch.steps, span, chain, backward, marginals, value, outer,
        scratch.matrix, ends, scratch.inverse, scratch.work,
    )  # fmt: skip
    if value[0] != value[0]:
        value[0] = log_forward_backward(log_b[:length], chain, marginals, direct, scratch.none)
        for k in range(n_states):
            ends[0, k] += marginals[0, k]
            ends[1, k] += marginals[length - 1, k]
    return value[0]


@kernel()
def expectation_block(
    first: int,
    last: int,
    offsets: Integers,
    tokens: Any,
    dense: Floats,
    weights: Floats,
    chain: Any,
    variances: bool,
    dense_sums: Floats,
    pair_sums: Floats,
    outer: Floats,
    direct: Floats,
    ends: Floats,
) -> float:
    """Add expected counts of sequences (or variances, value² p (1 - p)); sum their log-partitions.

    Expected transitions are ``outer * chain.transitions + direct``.
    """
    n_states, longest = chain.start.shape[0], np.int64(0)
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    scratch = _scratch(longest, n_states, dense.shape[1])
    padded, marginals = scratch.padded, scratch.marginals
    total = 0.0
    for s in range(first, last):
        lo = offsets[s]
        length = offsets[s + 1] - lo
        if length == 0:
            continue
        total += _recur(
            lo, length, tokens, dense, weights, 1.0, chain, outer, direct, ends, scratch
        )
        padded[:] = 0.0
        for t in range(length):
            for k in range(n_states):
                p = marginals[t, k]
                padded[k] = p * (1.0 - p) if variances else p
            _scatter(lo + t, tokens, padded, dense_sums, pair_sums, variances)
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
    token: int, tokens: Any, change: Floats, dense: Floats, dense_mask: Floats, weights: Floats
) -> None:
    """Add ``change`` (padded, one number per label) to the weights of a token's attributes."""
    n_dense, width = dense.shape
    attributes, values = tokens.attributes, tokens.values
    pair_starts, pair_labels = tokens.pair_starts, tokens.pair_labels
    plain = values.shape[0] == 0
    for e in range(tokens.starts[token], tokens.starts[token + 1]):
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
    tokens: Any,
    dense: Floats,
    dense_mask: Floats,
    weights: Floats,
    chain: Any,
    chosen: Floats,
    rates: Floats,
    shrinkage: float,
) -> None:
    """Take one gradient step per sentence, in this order, each of its own length, in place.

    ``dense_mask`` is 1 where a dense row has a weight, ``chosen`` (K + 2, K) where a transition, a
        start, a stop has one. ``shrinkage`` is a sentence's share of the penalty's gradient:
        weights are a common scale times what is stored, so that shrinking all is one multiplication
        (Bottou 2010).
    """
    n_states, longest = chain.start.shape[0], np.int64(0)
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    scratch = _scratch(longest, n_states, dense.shape[1])
    padded, marginals = scratch.padded, scratch.marginals
    outer, direct = np.empty((n_states, n_states)), np.empty((n_states, n_states))
    ends = np.zeros((2, n_states))
    scale = 1.0
    for number in range(order.shape[0]):
        rate = rates[number]
        lo, hi = offsets[order[number]], offsets[order[number] + 1]
        length = hi - lo
        if length == 0:
            continue
        _refresh_chain(chain)
        outer[:] = 0.0
        direct[:] = 0.0
        _recur(lo, length, tokens, dense, weights, scale, chain, outer, direct, ends, scratch)
        kept = max(1.0 - rate * shrinkage, 0.5)
        scale *= kept
        step = -rate / scale
        padded[:] = 0.0
        for t in range(length):
            for k in range(n_states):
                padded[k] = step * marginals[t, k]
            padded[labels[lo + t]] -= step
            _descend_token(lo + t, tokens, padded, dense, dense_mask, weights)
        for i in range(n_states):
            for j in range(n_states):
                direct[i, j] += outer[i, j] * chain.transitions[i, j]
        _descend_chain(labels[lo:hi], marginals[:length], direct, rate, kept, chosen, chain)
        if scale < 1e-6:
            _rescale(weights, dense, scale)
            scale = 1.0
    _rescale(weights, dense, scale)
