"""The choice of λ and penalty for labelled chains: a pool of the grid, or its best point.

What :mod:`crossfade.tradeoff.selection` is for tables, and of the same parts: the grid, the choice
(:mod:`crossfade.tradeoff.choice`), the ridge and the minimiser. A sequence takes the place of a
row, a path that of a label. With s_g(x, y) the score of path y by point g, relative to independent
steps of shares π, the pool's posterior is

    P(y | x) ∝ Π_t π[y_t] exp Σ_g w_g s_g(x, y),   w_g ≥ 0.

Scores are linear in the weights of a chain, so that this is one chain of the same family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.chains.block_recursions import expectations
from crossfade.chains.input import Layout
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission, by_step, score_steps, taken
from crossfade.hmm.objective import ChainWeights, LabelledChain, labelled_chain
from crossfade.hmm.path import ChainFit, StopRule, conditional_log_likelihood, path, read_as_model
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.choice import Choice, choose, unscored
from crossfade.tradeoff.grid import points
from crossfade.tradeoff.pooling import Ridge, least_loss, pseudo_share

_N_FOLDS = 5

#: Scores of steps, states and points that are kept for weighing the points: 160 MB.
_MOST_SCORES = 20_000_000

#: What stands for λ = 0 in the grid: next to the random field, but a density of the observations,
#: so that the pool is one, and can leave out what is missing.
_LAST = 0.01

#: Step of the differences of gradients that make the Hessian, for scores of one.
_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class ChainSelection(Choice):
    """The choice, its held-out losses and what the pool is relative to.

    `log_loss` (n_points,): Minus the held-out conditional log-likelihood per step.
    `log_prior` (n_states,): Logarithms of the states' shares π.
    """

    log_loss: Floats
    log_prior: Floats

    def path(self) -> dict[str, Floats]:
        return super().path() | {"log_loss": self.log_loss}


def select_chain(
    named: Emission,
    raw: Any,
    layout: Layout,
    codes: Integers,
    n_states: int,
    *,
    pooled: bool,
    alpha: float,
    l2: float,
    settings: StopRule,
    rng: np.random.Generator,
) -> ChainSelection:
    """Score the grid on held-out sequences, and pool it or pick its best point."""
    filled = np.flatnonzero(np.diff(layout.offsets) > 0)
    if len(filled) < 2:
        raise DataError(
            f"tradeoff: expected a number for {len(filled)} sequence, got 'auto' or 'best'; "
            "held-out folds need at least two sequences"
        )
    grid = points(l2, last=_LAST)
    counts = np.bincount(codes, minlength=n_states).astype(np.float64)
    log_prior = np.log(np.maximum(counts / counts.sum(), 1e-300))
    dealt = _folds(filled, layout, codes, n_states, rng)
    if not dealt:
        first = unscored(grid, "no state is in two folds of sequences")
        return ChainSelection(
            **vars(first), log_loss=np.full(len(grid), np.nan), log_prior=log_prior
        )
    share = min(1.0, _MOST_SCORES / (len(grid) * n_states * layout.n_steps))
    losses, kept = [], []
    for held in dealt:
        steps, train = layout.take(np.setdiff1d(filled, held))
        data = labelled_chain(named, taken(raw, steps), train, codes[steps], n_states, alpha=alpha)
        fits = list(path(data, grid, settings))
        losses.append(_losses(fits, data.emission, raw, codes, layout, held))
        if pooled:
            steps, part = layout.take(held[sample_rows(held.size, share)])
            observed = data.emission.observe(taken(raw, steps))
            weights = [fit.weights for fit in fits]
            kept.append(_FoldScores.of(weights, data.emission, observed, part, codes[steps]))
    each = np.concatenate(losses, axis=1)
    log_loss = each.sum(axis=1) / np.diff(layout.offsets)[np.concatenate(dealt)].sum()

    def pool() -> tuple[Floats, float]:
        loss = _SequencesLoss(kept, log_prior)
        found = least_loss(loss, np.zeros(len(grid)))
        return found, loss.mean(found)

    method = f"refits on {len(dealt)} folds of {len(filled)} sequences"
    name = "log-loss per step"
    chosen = choose(method, grid, name, log_loss, each, pool=pool if pooled else None)
    return ChainSelection(**vars(chosen), log_loss=log_loss, log_prior=log_prior)


def _losses(
    fits: Sequence[ChainFit],
    emission: Emission,
    raw: Any,
    codes: Integers,
    layout: Layout,
    held: Integers,
) -> Floats:
    """Return minus the conditional log-likelihood of held-out sequences, (n_fits, n_held)."""
    steps, part = layout.take(held)
    observed, own = emission.observe(taken(raw, steps)), codes[steps]
    found = [
        -conditional_log_likelihood(fit.weights, emission, observed, part, own) for fit in fits
    ]
    return np.maximum(found, 0.0)  # but for rounding they are


def _folds(
    filled: Integers, layout: Layout, codes: Integers, n_states: int, rng: np.random.Generator
) -> list[Integers]:
    """Deal sequences to folds; where a fold has all steps of a state, those are never held out."""
    steps = np.zeros((layout.n_sequences, n_states))
    sequence = np.repeat(np.arange(layout.n_sequences), np.diff(layout.offsets))
    np.add.at(steps, (sequence, codes), 1.0)
    found = []
    for fold in np.array_split(rng.permutation(filled), min(_N_FOLDS, len(filled))):
        alone = steps[fold].sum(axis=0) == steps.sum(axis=0)
        found.append(np.sort(fold[~(steps[fold][:, alone] > 0).any(axis=1)]))
    return [held for held in found if held.size]


def fit_selected(data: LabelledChain, chosen: ChainSelection, settings: StopRule) -> ChainFit:
    """Return the chosen point, or the pool, fitted on all sequences.

    Its parameters are those of the weighted mean of the points' chains, a density since log Z is
    convex. A mean of logarithms makes sequences short: a constant per step, which no posterior
    notices, gives them their mean length. What is missing is integrated out of this density, and
    only then is the posterior raised to the pool's power.
    """
    kept = np.flatnonzero(chosen.shares)
    fits = list(path(data, [chosen.points[g] for g in kept.tolist()], settings))
    if len(fits) == 1 and chosen.scale == 1.0:
        return fits[0]
    shares = chosen.shares[kept]
    mean, model = fits[0].weights, fits[0].parameters
    if len(fits) > 1:
        mean = _mean(shares, [fit.weights for fit in fits])
        model = read_as_model(mean, data.emission, data.mean_length, shift=True)
    absent = chosen.scale * data.emission.partition(mean.theta)
    worst = next((fit for fit in fits if not fit.converged), fits[-1])
    return ChainFit(
        chosen.tradeoff,
        float(shares @ [fit.l2 for fit in fits]),
        replace(_relative(mean, chosen.scale, chosen.log_prior), absent=absent),
        model,
        all(fit.converged for fit in fits),
        sum(fit.n_iter for fit in fits),
        f"pool of {len(fits)} fits, of which the least exact: {worst.message}",
    )


def _mean(shares: Floats, weights: Sequence[ChainWeights]) -> ChainWeights:
    def mean(name: str) -> Floats:
        parts = np.stack([getattr(one, name) for one in weights])
        return np.tensordot(shares, parts, axes=1)

    return ChainWeights(mean("start"), mean("transitions"), mean("stop"), mean("theta"))


def _relative(weights: ChainWeights, scale: float, log_prior: Floats) -> ChainWeights:
    """Return the weights of π times the ratio of a chain to π, raised to a power."""
    prior = (1.0 - scale) * log_prior
    return ChainWeights(
        scale * weights.start + prior,
        scale * weights.transitions + prior,
        scale * weights.stop,
        scale * weights.theta,
    )


@dataclass(frozen=True)
class _FoldScores:
    """What a fold's fits say of its held-out sequences.

    `scores` (n_points, n_steps, n_states): Log-potentials of the emissions.
    `start`, `transitions`, `stop`: Of shapes (n_points, n_states), (n_points, n_states, n_states)
        and (n_points, n_states).
    """

    layout: Layout
    codes: Integers
    scores: Floats
    start: Floats
    transitions: Floats
    stop: Floats

    @classmethod
    def of(
        cls,
        weights: Sequence[ChainWeights],
        emission: Emission,
        observations: Any,
        layout: Layout,
        codes: Integers,
    ) -> _FoldScores:
        n_states = len(weights[0].start)
        scores = np.empty((len(weights), layout.n_steps, n_states))
        for place, one in zip(scores, weights, strict=True):
            scorer = by_step(emission.potentials(one.theta), observations)
            place[:] = score_steps(scorer, layout.n_steps, n_states)
        chain = [np.stack([getattr(one, n) for one in weights]) for n in _CHAIN]
        return cls(layout, codes, scores, *chain)

    def pooled(self, w: Floats, log_prior: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the pool's log-potentials, and its start, transitions and end."""
        values = np.tensordot(w, self.scores, axes=1) + (1.0 - w.sum()) * log_prior
        chain = (np.tensordot(w, getattr(self, name), axes=1) for name in _CHAIN)
        return values, *chain

    def expected(self, marginals: Floats, initial: Floats, moves: Floats, final: Floats) -> Floats:
        """Return what is expected of each point's scores."""
        total: Floats = np.einsum("gtk,tk->g", self.scores, marginals)
        total += self.start @ initial + self.stop @ final
        return total + np.tensordot(self.transitions, moves, axes=2)

    def sizes(self, log_prior: Floats) -> Floats:
        """Return the sums of squares of the points' scores about their means over all paths.

        Over paths of independent, equally likely steps a score is a sum of uncorrelated parts:
        of each step, and of each pair of steps beyond what the steps say alone.
        """
        layout, k = self.layout, len(log_prior)
        leaving, entering = self.transitions.mean(axis=2), self.transitions.mean(axis=1)
        beyond = self.transitions - leaving[:, :, None] - entering[:, None, :]
        beyond += self.transitions.mean(axis=(1, 2))[:, None, None]
        before = layout.followed()
        found = np.empty(len(self.scores))
        for g, scores in enumerate(self.scores):
            own = scores - log_prior
            own[layout.firsts()] += self.start[g]
            own[layout.lasts()] += self.stop[g]
            own[before] += leaving[g]
            own[before + 1] += entering[g]
            own -= own.mean(axis=1, keepdims=True)
            found[g] = (own**2).sum() + before.size * (beyond[g] ** 2).sum() / k
        return found


_CHAIN = ("start", "transitions", "stop")


class _SequencesLoss:
    """Minus the log-probability of held-out paths, as a function of the pool's weights."""

    def __init__(self, folds: Sequence[_FoldScores], log_prior: Floats) -> None:
        self.folds, self.log_prior = folds, log_prior
        self.n_steps = max(sum(fold.layout.n_steps for fold in folds), 1)
        pseudo, k = pseudo_share(self.n_steps), len(log_prior)
        prior = np.exp(log_prior)
        self.own = np.zeros(len(folds[0].scores))
        self.spread = np.zeros_like(self.own)
        self.own_prior = self.spread_prior = 0.0
        for fold in folds:
            layout, codes = fold.layout, fold.codes
            n, number = layout.n_steps, layout.n_sequences
            onehot = np.zeros((n, k))
            onehot[np.arange(n), codes] = 1.0
            before = layout.followed()
            moves = np.zeros((k, k))
            np.add.at(moves, (codes[before], codes[before + 1]), 1.0)
            ends = (onehot[layout.firsts()].sum(axis=0), moves, onehot[layout.lasts()].sum(axis=0))
            self.own += fold.expected(onehot, *ends)
            self.own_prior += float((onehot @ log_prior).sum())
            likely = np.broadcast_to(prior, (n, k))
            pairs = before.size * np.outer(prior, prior)
            self.spread += fold.expected(likely, number * prior, pairs, number * prior)
            self.spread_prior += n * float(prior @ log_prior)
        self.labels = (1.0 - pseudo) * self.own + pseudo * self.spread
        self.labels_prior = (1.0 - pseudo) * self.own_prior + pseudo * self.spread_prior
        sizes = np.sum([fold.sizes(log_prior) for fold in folds], axis=0)
        self.ridge = Ridge(sizes, self.n_steps)
        # Scores of 1e9 (a state that was seen once) next to scores of one.
        largest = np.max([np.abs(f.scores).max(axis=(1, 2), initial=0.0) for f in folds], axis=0)
        self.differences = _DIFFERENCE / (1.0 + largest)

    def _log_partition(self, w: Floats) -> tuple[float, Floats]:
        """Return Σ log Z(x) of the pool and its gradient."""
        value, gradient = 0.0, np.zeros_like(w)
        for fold in self.folds:
            values, *chain = fold.pooled(w, self.log_prior)
            marginals = np.empty_like(values)
            start, transitions, stop = (np.ascontiguousarray(part) for part in chain)
            found = expectations(
                values.__getitem__,
                fold.layout.offsets,
                start,
                transitions,
                stop,
                marginals=marginals,
            )
            value += float(found.log_partition.sum())
            gradient += fold.expected(
                marginals, found.initial_sums, found.transition_sums, found.final_sums
            )
            gradient -= float((marginals @ self.log_prior).sum())
        return value, gradient

    def mean(self, w: Floats) -> float:
        """Return the log-loss per step, without ridge and pseudo-rows."""
        own = float(w @ self.own) + (1.0 - w.sum()) * self.own_prior
        return (self._log_partition(w)[0] - own) / self.n_steps

    def evaluate(self, w: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient of what is no ridge."""
        value, gradient = self._log_partition(w)
        value -= float(w @ self.labels) + (1.0 - w.sum()) * self.labels_prior
        gradient -= self.labels - self.labels_prior
        return value + self.ridge.value(w), gradient

    def model(self, w: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian, by differences of gradients."""
        H = np.empty((w.size, w.size))
        for g, difference in enumerate(self.differences):
            moved = w.copy()
            moved[g] += difference
            H[g] = (self.evaluate(moved)[1] - gradient) / difference
        # Differences are not exact; a log-sum-exp is convex.
        size = 1.0 / np.sqrt(np.maximum(np.diagonal(H), 1e-300))
        values, vectors = np.linalg.eigh(0.5 * (H + H.T) * size * size[:, None])
        root = vectors * np.sqrt(np.maximum(values, 0.0)) / size[:, None]
        H = root @ root.T
        H[np.diag_indices(w.size)] += self.ridge.strength
        return gradient + self.ridge.gradient(w), H
