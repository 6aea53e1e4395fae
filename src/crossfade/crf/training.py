"""The random field's training: the objective, and how it is minimised.

The objective, as a function of the weights θ (:mod:`crossfade.crf.weights`), is

    F(θ) = Σ_s [log Z_s(θ) - score_s(y_s; θ)] + ½ l2 · Σ θ²  (+ l1 · Σ |θ|)

which, with the same weights, is that of CRFsuite's L-BFGS training (``c2`` = ½ l2, ``c1`` = l1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block, single_threaded_blas
from crossfade.chains.attributes import EncodedSequences
from crossfade.crf.weights import WeightLayout, padded
from crossfade.optim.lbfgs import QuasiNewton
from crossfade.optim.solver import Iterate, Solution, descend

#: Parts of the corpus that are summed apart: a fixed number, so that results do not depend on
#: the number of threads; each has its own gradient, so fewer where gradients are large.
_PARTS, _PARTS_WHEN_LARGE, _LARGE = 8, 4, 4_000_000

#: The stochastic passes' first step, times a token's mean squared norm of attributes.
_FIRST_STEP = 2.7
#: Fewer sequences than this are left to L-BFGS alone.
_FEW_SEQUENCES = 50
#: The decrease of the objective is judged over this many steps.
_PERIOD = 10


class Objective:
    """F without its L1 term; the score of y is θ · `observed`, the counts of the corpus."""

    def __init__(
        self, encoded: EncodedSequences, codes: Integers, layout: WeightLayout, l2: float
    ) -> None:
        self.layout, self.l2 = layout, l2
        self.codes = codes
        self.offsets = encoded.layout.offsets
        self.attributes = layout.rank[encoded.attributes]
        self.values = np.empty(0) if encoded.values is None else encoded.values
        self._tokens = (encoded.token_starts, self.attributes, self.values)
        self.observed = self._observed(encoded)
        self.n_evaluations = 0
        n_parts = _PARTS if layout.n_weights < _LARGE else _PARTS_WHEN_LARGE
        even = np.linspace(0, encoded.n_tokens, n_parts + 1)[1:-1]
        inner = np.searchsorted(self.offsets, even)
        self._cuts = np.concatenate([[0], inner, [len(encoded)]]).astype(np.int64)
        self._sparse_sums = np.empty((n_parts, layout.n_pairs))
        self._dense_sums = np.empty((n_parts, layout.n_dense, padded(layout.n_labels)))

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
        gradient += self.l2 * theta
        score = float(theta @ self.observed)
        return log_partition - score + 0.5 * self.l2 * float(theta @ theta), gradient

    def scale(self, theta: Floats) -> Floats:
        """Return the scale of each weight's curvature: what stands in for the Hessian's diagonal.

        The diagonal itself, the variances of single tokens' counts, would overrate how much
        attributes differ, since many act together at each token; of the powers tried, its square
        root needs fewest evaluations both at first and for the last digits. But values above 1
        are in some unit, which the curvature knows squared.
        """
        variances = self._sums(theta, variances=True)[1]
        # Without a penalty a weight that hardly matters would have next to no curvature.
        curvature = np.maximum(variances, 0.0) + max(self.l2, 1e-3)
        root: Floats = np.sqrt(curvature)
        if len(self.values):
            squares = np.bincount(self.attributes, weights=self.values**2)
            means = squares / np.maximum(np.bincount(self.attributes), 1)
            units = np.sqrt(np.maximum(means, 1.0))
            root[: self.layout.n_pairs] *= units[self.layout.codes // self.layout.n_labels]
        return root

    def _sums(self, theta: Floats, *, variances: bool) -> tuple[float, Floats]:
        """Return Σ log Z and the expected counts (or variances) of all weights."""
        from crossfade.chains.kernels import make_chain
        from crossfade.crf.kernels import Tokens, expectation_block

        self.n_evaluations += 1
        layout, n_labels = self.layout, self.layout.n_labels
        rows = layout.dense_rows(theta)
        chain = make_chain(*layout.potentials(theta))
        tokens = Tokens(*self._tokens, layout.pair_starts, layout.pair_labels)
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
                tokens,
                rows,
                weights,
                chain,
                variances,
                self._dense_sums[part],
                self._sparse_sums[part],
                edges[part, 0],
                edges[part, 1],
                ends[part],
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

        They pay: on a fifth of CoNLL-2000 a fit takes 2.9 CPU-seconds in place of 6.8 without.
        Shapes: → (n_weights,).
        """
        from crossfade.chains.kernels import make_chain
        from crossfade.crf.kernels import Tokens, stochastic_pass

        layout, n_labels, n_sequences = self.layout, self.layout.n_labels, len(self.offsets) - 1
        theta = np.zeros(layout.n_weights)
        rows, mask = layout.dense_rows(theta), layout.dense_rows(np.ones(layout.n_weights))
        weights = theta[: layout.n_pairs].copy()
        start, edges, stop = layout.potentials(theta)
        chain = make_chain(start, edges, stop)
        tokens = Tokens(*self._tokens, layout.pair_starts, layout.pair_labels)
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
                tokens,
                rows,
                mask,
                weights,
                chain,
                chosen,
                first_step * (1.0 - done[number]),
                self.l2 / n_sequences,
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

    `passes`: Stochastic ones, before L-BFGS.
    `delta`: Least relative decrease of F over ten steps.
    """

    l1: float = 0.0
    passes: int = 10
    delta: float = 1e-5
    max_iter: int = 1000
    seed: int = 0


def train(objective: Objective, options: TrainingOptions) -> Solution:
    """Minimise F: stochastic passes come near in the time of ten evaluations, L-BFGS ends it."""
    decreases: list[float] = []

    def monitor(before: Iterate, after: Iterate) -> str | None:
        if not decreases:
            decreases.append(before.value)
        decreases.append(after.value)
        if len(decreases) <= _PERIOD:
            return None
        share = (decreases[-1 - _PERIOD] - after.value) / max(abs(after.value), 1e-300)
        if share > options.delta:
            return None
        return f"objective fell by {share:.1e} in {_PERIOD} steps, within delta={options.delta:.1e}"

    # The vectors are read from memory faster than threads could be woken for them.
    with single_threaded_blas():
        return descend(
            objective,
            _start(objective, options),
            QuasiNewton(l1=options.l1, diagonal=objective.scale),
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
