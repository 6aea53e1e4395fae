"""Which weights a random field has, and where they stand in its vector θ.

In this order: a weight for every pair (attribute, label) that has one, attribute by attribute; a
weight for every transition that has one; start weights; stop weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.chains.attributes import EncodedSequences


@dataclass(frozen=True)
class WeightLayout:
    """Which weights there are and where they stand in θ.

    `rank` (n_attributes,): The number of each attribute in this layout: those with weights for most
        labels first.
    `pair_starts` (n_attributes + 1,): Where each attribute's pairs begin, attributes in order of
        rank.
    `pair_labels` (n_pairs,): The label of each pair, ascending within an attribute.
    `n_dense`: The attributes of rank below this are kept as rows of all labels while computing.
    `transitions`: from * n_labels + to of the transitions that have a weight, ascending.
    `starts`, `stops`: The labels that have a start weight, and a stop weight.
    `allowed` (n_labels, n_labels): The transitions that may occur at all.
    """

    n_labels: int
    rank: NDArray[np.int32]
    pair_starts: Integers
    pair_labels: NDArray[np.int32]
    n_dense: int
    transitions: Integers
    starts: Integers
    stops: Integers
    allowed: NDArray[np.bool_]

    @property
    def n_pairs(self) -> int:
        """Number of state weights."""
        return len(self.pair_labels)

    @property
    def n_weights(self) -> int:
        """Length of θ."""
        return self.n_pairs + len(self.transitions) + len(self.starts) + len(self.stops)

    @property
    def n_dense_pairs(self) -> int:
        """Number of pairs that belong to dense attributes; they come first."""
        return int(self.pair_starts[self.n_dense])

    @cached_property
    def codes(self) -> Integers:
        """rank * n_labels + label of each pair, ascending."""
        ranks = np.repeat(np.arange(len(self.rank)), np.diff(self.pair_starts))
        return ranks * self.n_labels + self.pair_labels

    @cached_property
    def _dense_places(self) -> Integers:
        ranks, labels = np.divmod(self.codes[: self.n_dense_pairs], self.n_labels)
        return ranks * padded(self.n_labels) + labels

    def dense_rows(self, theta: Floats) -> Floats:
        """Return the dense attributes' weights as rows, padded to whole vector registers."""
        rows = np.zeros((self.n_dense, padded(self.n_labels)))
        rows.ravel()[self._dense_places] = theta[: self.n_dense_pairs]
        return rows

    def from_rows(self, rows: Floats) -> Floats:
        """Return the entries of padded rows that are weights, shape (n_dense_pairs,)."""
        return rows.ravel()[self._dense_places]

    def split(self, theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return views of the state, transition, start and stop weights."""
        cuts = np.cumsum([self.n_pairs, len(self.transitions), len(self.starts)])
        state, transition, start, stop = np.split(theta, cuts)
        return state, transition, start, stop

    def tables(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return start (K,), transition (K, K) and stop (K,) weights; zero where there is none."""
        _, transition, start, stop = self.split(theta)
        edges = np.zeros(self.n_labels**2)
        edges[self.transitions] = transition
        ends = np.zeros((2, self.n_labels))
        ends[0, self.starts], ends[1, self.stops] = start, stop
        return ends[0], edges.reshape(self.n_labels, self.n_labels), ends[1]

    def potentials(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the tables with -inf for forbidden transitions, as the recursions take them."""
        start, edges, stop = self.tables(theta)
        edges[~self.allowed] = -np.inf
        return start, edges, stop

    def select(self, start: NDArray[Any], edges: NDArray[Any], stop: NDArray[Any]) -> Floats:
        """Return the entries of such tables that have a weight, in θ's order."""
        return np.concatenate(
            [edges.ravel()[self.transitions], start[self.starts], stop[self.stops]]
        )


def padded(n_labels: int) -> int:
    """Return the length of a row of so many labels that fills whole vector registers."""
    return -(-n_labels // 8) * 8


def pair_layout(
    codes: Integers, n_attributes: int, n_labels: int
) -> tuple[NDArray[np.int32], Integers, NDArray[np.int32], int, Integers]:
    """Order pairs so that attributes with weights for many labels come first.

    Shapes: order (n_pairs,).
    """
    attributes, labels = np.divmod(codes, n_labels)
    counts = np.bincount(attributes, minlength=n_attributes)
    sequence = np.argsort(-counts, kind="stable")
    rank = np.empty(n_attributes, dtype=np.int32)
    rank[sequence] = np.arange(n_attributes, dtype=np.int32)
    order = np.argsort(rank[attributes], kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts[sequence])]).astype(np.int64)
    # A row costs a fraction of its length where vector instructions do it, a pair costs one.
    n_dense = int((4 * counts >= padded(n_labels)).sum())
    return rank, starts, labels[order].astype(np.int32), n_dense, order


def choose_weights(
    encoded: EncodedSequences,
    codes: Integers,
    n_labels: int,
    *,
    start_stop: bool,
    unseen_states: bool,
    unseen_transitions: bool,
    allowed: NDArray[np.bool_],
) -> WeightLayout:
    """Return the layout of the weights that a labelled corpus calls for."""
    n_attributes = len(encoded.encoder)
    if unseen_states:
        pairs = np.arange(n_attributes * n_labels, dtype=np.int64)
    else:
        token_labels = np.repeat(codes, np.diff(encoded.token_starts))
        pairs = _distinct(
            encoded.attributes.astype(np.int64) * n_labels + token_labels, n_attributes * n_labels
        )
    rank, pair_starts, pair_labels, n_dense, _ = pair_layout(pairs, n_attributes, n_labels)
    layout = encoded.layout
    everything = np.arange(n_labels)
    none = np.empty(0, dtype=np.int64)
    starts = everything if unseen_transitions else np.unique(codes[layout.firsts()])
    stops = everything if unseen_transitions else np.unique(codes[layout.lasts()])
    if unseen_transitions:
        transitions = np.flatnonzero(allowed)
    else:
        origins = layout.followed()
        transitions = np.unique(codes[origins] * n_labels + codes[origins + 1])
    return WeightLayout(
        n_labels,
        rank,
        pair_starts,
        pair_labels,
        n_dense,
        transitions,
        starts if start_stop else none,
        stops if start_stop else none,
        allowed,
    )


def _distinct(values: Integers, bound: int) -> Integers:
    """Return the distinct values, ascending; by marking where that takes little memory."""
    if bound > 500_000_000:
        return np.unique(values)
    seen = np.zeros(bound, dtype=bool)
    seen[values] = True
    return np.flatnonzero(seen)


def without_zeros(layout: WeightLayout, theta: Floats) -> tuple[WeightLayout, Floats]:
    """Return layout and weights without the zero weights, so that tagging need not visit them."""
    state, transition, start, stop = layout.split(theta)
    ranks, labels = np.divmod(layout.codes, layout.n_labels)
    attribute_of = np.argsort(layout.rank)
    kept = np.flatnonzero(state)
    codes = attribute_of[ranks[kept]] * layout.n_labels + labels[kept]
    by_code = np.argsort(codes)
    rank, pair_starts, pair_labels, n_dense, order = pair_layout(
        codes[by_code], len(layout.rank), layout.n_labels
    )
    smaller = WeightLayout(
        layout.n_labels,
        rank,
        pair_starts,
        pair_labels,
        n_dense,
        layout.transitions[transition != 0.0],
        layout.starts[start != 0.0],
        layout.stops[stop != 0.0],
        layout.allowed,
    )
    others = (part[part != 0.0] for part in (transition, start, stop))
    return smaller, np.concatenate([state[kept][by_code][order], *others])
