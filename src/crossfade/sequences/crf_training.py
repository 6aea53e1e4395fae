"""The random field's training: which weights there are, the objective, and how it is minimised.

A weight vector θ holds, in this order: a weight for every pair (attribute, label) that has one,
attribute by attribute; a weight for every transition that has one; start weights; stop weights.
The objective is

    F(θ) = Σ_s [log Z_s(θ) - score_s(y_s; θ)] + l2 · Σ θ²  (+ l1 · Σ |θ|)

which, with the same weights, is that of CRFsuite's L-BFGS training (its ``c2`` and ``c1``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade.blocks import for_each_block, single_threaded_blas
from crossfade.densities.base import Floats, Integers
from crossfade.fitting.lbfgs import lbfgs
from crossfade.fitting.newton import Iterate, Solution
from crossfade.sequences.features import EncodedSequences

__all__ = ["Objective", "TrainingOptions", "WeightLayout", "choose_weights", "train"]

#: Parts of the corpus that are summed apart: a fixed number, so that results do not depend on
#: the number of threads; each has its own gradient, so fewer where gradients are large.
_PARTS, _PARTS_WHEN_LARGE, _LARGE = 8, 4, 4_000_000

#: The stochastic passes' first step, times a token's mean squared norm of attributes.
_FIRST_STEP = 2.7
#: Fewer sequences than this are left to L-BFGS alone.
_FEW_SEQUENCES = 50
#: The decrease of the objective is judged over this many steps.
_PERIOD = 10


@dataclass(frozen=True)
class WeightLayout:
    """Which weights there are and where they stand in θ.

    Attributes
    ----------
    n_labels : int
    rank : ndarray of int32, shape (n_attributes,)
        The number of each attribute in this layout: those with weights for most labels first.
    pair_starts : ndarray of shape (n_attributes + 1,)
        Where each attribute's pairs begin, attributes in order of rank.
    pair_labels : ndarray of int32, shape (n_pairs,)
        The label of each pair, ascending within an attribute.
    n_dense : int
        The attributes of rank below this are kept as rows of all labels while computing.
    transitions : ndarray of int
        from * n_labels + to of the transitions that have a weight, ascending.
    starts, stops : ndarray of int
        The labels that have a start weight, and a stop weight.
    allowed : ndarray of bool, shape (n_labels, n_labels)
        The transitions that may occur at all.
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
        return ranks * _padded(self.n_labels) + labels

    def dense_rows(self, theta: Floats) -> Floats:
        """Return the dense attributes' weights as rows, padded to whole vector registers."""
        rows = np.zeros((self.n_dense, _padded(self.n_labels)))
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


def _padded(n_labels: int) -> int:
    return -(-n_labels // 8) * 8


def pair_layout(
    codes: Integers, n_attributes: int, n_labels: int
) -> tuple[NDArray[np.int32], Integers, NDArray[np.int32], int, Integers]:
    """Order pairs so that attributes with weights for many labels come first.

    Parameters
    ----------
    codes : ndarray of int, ascending
        attribute * n_labels + label of the pairs that have a weight.
    n_attributes, n_labels : int

    Returns
    -------
    rank, pair_starts, pair_labels, n_dense
        As :class:`WeightLayout` has them.
    order : ndarray of shape (n_pairs,)
        Place in `codes` of each pair of the layout.
    """
    attributes, labels = np.divmod(codes, n_labels)
    counts = np.bincount(attributes, minlength=n_attributes)
    sequence = np.argsort(-counts, kind="stable")
    rank = np.empty(n_attributes, dtype=np.int32)
    rank[sequence] = np.arange(n_attributes, dtype=np.int32)
    order = np.argsort(rank[attributes], kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts[sequence])]).astype(np.int64)
    # A row costs a fraction of its length where vector instructions do it, a pair costs one.
    n_dense = int((4 * counts >= _padded(n_labels)).sum())
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
    """Return the layout of the weights that a labelled corpus calls for.

    Parameters
    ----------
    encoded : EncodedSequences
    codes : ndarray of shape (n_tokens,)
        Label of each token.
    n_labels : int
    start_stop : bool
        Whether there are start and stop weights.
    unseen_states, unseen_transitions : bool
        Whether pairs and transitions (starts, stops) that do not occur get a weight as well.
    allowed : ndarray of bool, shape (n_labels, n_labels)

    Returns
    -------
    WeightLayout
    """
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


class Objective:
    """F without its L1 term, as the solvers take it.

    Parameters
    ----------
    encoded : EncodedSequences
    codes : ndarray of shape (n_tokens,)
        Label of each token.
    layout : WeightLayout
    l2 : float

    Attributes
    ----------
    observed : ndarray of shape (n_weights,)
        How often each weight counts in the labelled corpus: θ · observed is the score of y.
    n_evaluations : int
        Passes over the corpus so far.
    """

    def __init__(
        self, encoded: EncodedSequences, codes: Integers, layout: WeightLayout, l2: float
    ) -> None:
        self.layout, self.l2 = layout, l2
        self.codes = codes
        self.offsets = encoded.layout.offsets
        self.token_starts = encoded.token_starts
        self.attributes = layout.rank[encoded.attributes]
        self.values = np.empty(0) if encoded.values is None else encoded.values
        self.observed = self._observed(encoded)
        self.n_evaluations = 0
        n_parts = _PARTS if layout.n_weights < _LARGE else _PARTS_WHEN_LARGE
        even = np.linspace(0, encoded.n_tokens, n_parts + 1)[1:-1]
        inner = np.searchsorted(self.offsets, even)
        self._cuts = np.concatenate([[0], inner, [len(encoded)]]).astype(np.int64)
        self._sparse_sums = np.empty((n_parts, layout.n_pairs))
        self._dense_sums = np.empty((n_parts, layout.n_dense, _padded(layout.n_labels)))

    @property
    def n_rows(self) -> float:
        """Number of tokens."""
        return float(max(len(self.codes), 1))

    def _observed(self, encoded: EncodedSequences) -> Floats:
        layout, codes, n_labels = self.layout, self.codes, self.layout.n_labels
        token_labels = np.repeat(codes, np.diff(encoded.token_starts))
        places = np.searchsorted(
            layout.codes, self.attributes.astype(np.int64) * n_labels + token_labels
        )
        state = np.bincount(places, weights=encoded.values, minlength=layout.n_pairs)
        origins = encoded.layout.followed()
        edges = np.bincount(codes[origins] * n_labels + codes[origins + 1], minlength=n_labels**2)
        first = np.bincount(codes[encoded.layout.firsts()], minlength=n_labels)
        last = np.bincount(codes[encoded.layout.lasts()], minlength=n_labels)
        return np.concatenate(
            [state, layout.select(*(part.astype(np.float64) for part in (first, edges, last)))]
        )

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return F and its gradient at θ."""
        log_partition, gradient = self._sums(theta, variances=False)
        gradient -= self.observed
        gradient += 2.0 * self.l2 * theta
        score = float(theta @ self.observed)
        return log_partition - score + self.l2 * float(theta @ theta), gradient

    def scale(self, theta: Floats) -> Floats:
        """Return the scale of each weight's curvature: what stands in for the Hessian's diagonal.

        The diagonal itself, the variances of single tokens' counts, would overrate how much
        attributes differ, since many act together at each token; of the powers tried, its square
        root needs fewest evaluations both at first and for the last digits.
        """
        variances = self._sums(theta, variances=True)[1]
        # Without a penalty a weight that hardly matters would have next to no curvature.
        curvature = np.maximum(variances, 0.0) + max(2.0 * self.l2, 1e-3)
        root: Floats = np.sqrt(curvature)
        return root

    def _sums(self, theta: Floats, *, variances: bool) -> tuple[float, Floats]:
        """Return Σ log Z and the expected counts (or variances) of all weights."""
        from crossfade.sequences.crf_kernels import expectation_block
        from crossfade.sequences.kernels import make_chain

        self.n_evaluations += 1
        layout, n_labels = self.layout, self.layout.n_labels
        rows = layout.dense_rows(theta)
        chain = make_chain(*layout.potentials(theta))
        weights = np.ascontiguousarray(theta[: layout.n_pairs])
        n_dense_pairs, n_parts = layout.n_dense_pairs, len(self._cuts) - 1
        log_partition = np.zeros(n_parts)
        edges = np.zeros((n_parts, 2, n_labels, n_labels))
        ends = np.zeros((n_parts, 2, n_labels))

        def add_part(which: slice) -> None:
            part = which.start
            self._dense_sums[part] = 0.0
            self._sparse_sums[part, n_dense_pairs:] = 0.0
            log_partition[part] = expectation_block(
                self._cuts[part],
                self._cuts[part + 1],
                self.offsets,
                self.token_starts,
                self.attributes,
                self.values,
                rows,
                layout.pair_starts,
                layout.pair_labels,
                weights,
                chain,
                variances,
                self._dense_sums[part],
                self._sparse_sums[part],
                edges[part, 0],
                edges[part, 1],
                ends[part, 0],
                ends[part, 1],
            )

        for_each_block(add_part, n_parts, block_rows=1)
        sums = np.empty(layout.n_weights)

        def add_up(which: slice) -> None:
            places = slice(n_dense_pairs + which.start, n_dense_pairs + which.stop)
            np.add.reduce(self._sparse_sums[:, places], axis=0, out=sums[places])

        for_each_block(add_up, layout.n_pairs - n_dense_pairs, block_rows=8192)
        sums[:n_dense_pairs] = layout.from_rows(self._dense_sums.sum(axis=0))
        outer, direct = edges.sum(axis=0)
        first, last = ends.sum(axis=0)
        sums[layout.n_pairs :] = layout.select(first, outer * chain.transitions + direct, last)
        return float(log_partition.sum()), sums

    def stochastic_passes(self, passes: int, first_step: float, seed: int) -> Floats:
        """Descend sentence by sentence from θ = 0, in random order, with steps falling to zero.

        Parameters
        ----------
        passes : int
            Passes over the corpus.
        first_step : float
            Length of the first step.
        seed : int

        Returns
        -------
        ndarray of shape (n_weights,)
            Not checked: it may be useless (even NaN) if the first step was too long.
        """
        from crossfade.sequences.crf_kernels import stochastic_pass
        from crossfade.sequences.kernels import make_chain

        layout, n_labels, n_sequences = self.layout, self.layout.n_labels, len(self.offsets) - 1
        theta = np.zeros(layout.n_weights)
        rows, mask = layout.dense_rows(theta), layout.dense_rows(np.ones(layout.n_weights))
        weights = theta[: layout.n_pairs].copy()
        start, edges, stop = layout.potentials(theta)
        chain = make_chain(start, edges, stop)
        chosen = np.zeros((n_labels + 2, n_labels))
        chosen[:n_labels].ravel()[layout.transitions] = 1.0
        chosen[n_labels, layout.starts], chosen[n_labels + 1, layout.stops] = 1.0, 1.0
        rng = np.random.default_rng(seed)
        done = np.arange(passes * n_sequences).reshape(passes, n_sequences) / (passes * n_sequences)
        for number in range(passes):
            stochastic_pass(
                rng.permutation(n_sequences),
                self.codes,
                self.offsets,
                self.token_starts,
                self.attributes,
                self.values,
                rows,
                mask,
                layout.pair_starts,
                layout.pair_labels,
                weights,
                chain,
                chosen,
                first_step * (1.0 - done[number]),
                2.0 * self.l2 / n_sequences,
            )
        weights[: layout.n_dense_pairs] = layout.from_rows(rows)
        others = layout.select(chain.log_start, chain.log_transitions, chain.log_stop)
        return np.concatenate([weights, others])

    def mean_squared_norm(self) -> float:
        """Return the mean over tokens of Σ value² of their attributes."""
        total = float(self.values @ self.values) if len(self.values) else len(self.attributes)
        return float(total / self.n_rows)


@dataclass(frozen=True)
class TrainingOptions:
    """How the objective is minimised.

    Attributes
    ----------
    l1 : float
    passes : int
        Stochastic passes before L-BFGS.
    tol : float
        Least relative decrease of F over ten steps.
    max_iter : int
        Most L-BFGS steps.
    seed : int
        Of the order of sentences.
    target : float
        L-BFGS stops when F is no larger; for comparisons at equal objective.
    """

    l1: float = 0.0
    passes: int = 10
    tol: float = 1e-5
    max_iter: int = 1000
    seed: int = 0
    target: float = field(default=-np.inf)


def train(objective: Objective, options: TrainingOptions) -> Solution:
    """Minimise F: stochastic passes first, L-BFGS from there.

    The passes bring F, in the time of some ten evaluations, to where L-BFGS alone comes in a
    hundred; L-BFGS then converges to the optimum that does not depend on them.

    Parameters
    ----------
    objective : Objective
    options : TrainingOptions

    Returns
    -------
    Solution
    """
    decreases: list[float] = []

    def monitor(before: Iterate, after: Iterate) -> str | None:
        if not decreases:
            decreases.append(before.value)
        decreases.append(after.value)
        if after.value <= options.target:
            return f"objective {after.value:.6g} has reached the target"
        if len(decreases) <= _PERIOD:
            return None
        share = (decreases[-1 - _PERIOD] - after.value) / max(abs(after.value), 1e-300)
        if share > options.tol:
            return None
        return f"objective fell by {share:.1e} in {_PERIOD} steps, within tol={options.tol:.1e}"

    # The vectors are read from memory faster than threads could be woken for them.
    with single_threaded_blas():
        return lbfgs(
            objective,
            _start(objective, options),
            l1=options.l1,
            diagonal=objective.scale,
            tol=1e-10,
            max_iter=options.max_iter,
            monitor=monitor,
        )


def _start(objective: Objective, options: TrainingOptions) -> Floats:
    """Return where L-BFGS starts: the result of the stochastic passes if it is of use, or zero."""
    zero = np.zeros(objective.layout.n_weights)
    # An L1 penalty makes most weights zero, from where L-BFGS had better start then.
    if not options.passes or options.l1 > 0.0 or len(objective.offsets) <= _FEW_SEQUENCES:
        return zero
    step = _FIRST_STEP / max(objective.mean_squared_norm(), 1e-300)
    at_zero = objective.value_and_gradient(zero)[0]
    for _ in range(2):
        theta = objective.stochastic_passes(options.passes, step, options.seed)
        if np.isfinite(theta).all() and objective.value_and_gradient(theta)[0] < at_zero:
            return theta
        step *= 0.05
    return zero
