"""What the joint training of an entropic Markov chain minimises."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax

from crossfade._typing import Floats, Integers
from crossfade.chains import recursions
from crossfade.chains.input import Layout
from crossfade.chains.markov import label_counts, path_scores


class JointObjective:
    """Minus the conditional log-likelihood, penalised, over all parameters in one vector.

    The vector holds log-odds of initial, transitions and reference, then intercepts and
    coefficients of L. L's own normaliser is the same for all states at a step, so it cancels.
    """

    def __init__(
        self,
        features: Any,
        layout: Layout,
        codes: Integers,
        n_states: int,
        l2: float,
        *,
        tied: bool,
    ):
        self.features, self.layout, self.codes = features, layout, codes
        self.k, self.l2, self.tied = n_states, l2, tied
        self.counts = label_counts(codes, layout, n_states)
        # A sparse transpose in rows of its own: products with it are then one pass.
        self._transposed = features.T.tocsr() if hasattr(features, "tocsr") else features.T

    def vector(self, initial: Floats, transitions: Floats, reference: Floats) -> Floats:
        nothing = np.zeros(self.k * self.features.shape[1])
        parts = (initial, transitions.ravel(), reference, reference, nothing)
        return np.concatenate(parts)

    def parts(self, vector: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        k = self.k
        cuts = np.cumsum([k, k * k, k, k])
        initial, transitions, reference, intercept, coef = np.split(vector, cuts)
        if self.tied:
            initial = reference
        return initial, transitions.reshape(k, k), reference, intercept, coef.reshape(k, -1)

    @property
    def n_rows(self) -> float:
        """Return the number of steps, to which gradients are compared."""
        return float(self.layout.n_steps)

    def curvature(self, vector: Floats) -> Floats:
        """Return a rough curvature of each parameter: how often it is used."""
        features = self.features
        sparse = hasattr(features, "multiply")
        squares = features.multiply(features) if sparse else features**2
        used = np.asarray(squares.sum(axis=0)).ravel() / self.k
        total = np.bincount(self.codes, minlength=self.k).astype(np.float64)
        moves = self.counts.transitions.ravel()
        sizes = (self.counts.initial, moves, total, total, np.tile(used, self.k))
        return np.concatenate(sizes) + 1.0 + self.l2

    def value_and_gradient(self, vector: Floats) -> tuple[float, Floats]:
        """Return minus the penalised conditional log-likelihood, and its gradient."""
        odds = self.parts(vector)
        initial, transitions = log_softmax(odds[0]), log_softmax(odds[1], axis=1)
        reference = log_softmax(odds[2])
        values = np.asarray(self.features @ odds[4].T) + (odds[3] - reference)
        values = np.ascontiguousarray(values)
        zero = np.zeros(self.k)
        found = recursions.forward_backward(values, self.layout.offsets, initial, transitions)
        chain = (initial, transitions, zero)
        along = path_scores(values, self.layout, self.codes, chain)
        value = float(found.log_partition.sum() - along.sum())
        excess = found.marginals
        excess[np.arange(len(self.codes)), self.codes] -= 1.0
        by_state = excess.sum(axis=0)
        first = found.initial_sums - self.counts.initial
        moves = found.transition_sums - self.counts.transitions
        gradient = np.concatenate(
            [
                first - np.exp(initial) * first.sum(),
                (moves - np.exp(transitions) * moves.sum(axis=1, keepdims=True)).ravel(),
                np.exp(reference) * by_state.sum() - by_state,
                by_state,
                np.asarray(self._transposed @ excess).T.ravel(),
            ]
        )
        k = self.k
        if self.tied:
            start = slice(k + k * k, 2 * k + k * k)
            gradient[start] += gradient[:k]
            gradient[:k] = 0.0
        penalised = vector.copy()
        penalised[2 * k + k * k : 3 * k + k * k] = 0.0
        if self.tied:
            penalised[:k] = 0.0
        value += 0.5 * self.l2 * float(penalised @ penalised)
        return value, gradient + self.l2 * penalised
