"""Logistic regression on many words: parameters in the order of words, and Newton's systems.

What costs time is the memory that words point to. A word's weights of all classes lie together, as
rows ask for them, so that no vector is turned. In the systems numbers of half the width take half
of the time: an inexact step needs no more digits; value and gradient, which say when it is enough,
have them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.preconditioner import preconditioner, word_blocks
from crossfade.tradeoff.word_rows import Singles, WordRows

#: Posteriors that are kept whatever the words, and how many for each entry: 32 MB, and a quarter of
#: what the entries take.
_KEPT_POSTERIORS = 8_388_608
_POSTERIORS_PER_ENTRY = 0.75


class WordProblem:
    """Φ_λ of words alone at λ = 0, its systems as :class:`~crossfade.optim.newton.SinglePrecision`.

    A vector holds each word's weights by class, words one after the other, and the offsets.
    """

    def __init__(self, objective: TradeoffObjective, rows: WordRows) -> None:
        self.objective, self.rows, self.n_rows = objective, rows, objective.n_rows
        self.shape = rows.n_words + 1, objective.passes.n_classes
        self.strength = objective.penalty * objective.density.penalty_profile[:, None]

    @classmethod
    def of(cls, objective: TradeoffObjective) -> Self | None:
        """Return the problem of many words and nothing else at λ = 0, None of others."""
        if objective.tradeoff > 0.0 or not objective.exact_labels:
            return None
        rows = objective.passes.word_rows
        if rows is None:
            return None
        most = max(_KEPT_POSTERIORS, _POSTERIORS_PER_ENTRY * rows.counts.nnz)
        return cls(objective, rows) if rows.n_rows * objective.passes.n_classes <= most else None

    def by_word(self, theta: Floats) -> Floats:
        """Return the objective's parameter vector word by word."""
        weights, offsets, _ = self.objective.split(theta)
        found = np.empty(self.shape)
        found[:-1], found[-1] = weights.T, offsets
        return found.reshape(-1)

    def by_class(self, vector: Floats) -> Floats:
        """Return the objective's parameter vector."""
        each = vector.reshape(self.shape)
        found = np.empty(vector.size)
        weights, offsets, _ = self.objective.split(found)
        weights[:], offsets[:] = each[:-1].T, each[-1]
        return found

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return Φ_λ and its gradient."""
        each, total = theta.reshape(self.shape), np.zeros(self.shape)
        value = self.rows.add_posteriors(each, total)
        sums, mass = self.objective.passes.free_sums.T, self.objective.passes.class_weights

        def of_words(some: slice) -> float:
            own, given = each[:-1][some], sums[some]
            pull = own - own.mean(axis=1, keepdims=True)
            scaled = self.strength[some] * pull
            total[:-1][some] += scaled
            total[:-1][some] -= given
            return 0.5 * float(np.vdot(pull, scaled)) - float(np.einsum("jk,jk->", own, given))

        value += block_sum(of_words, self.rows.n_words)
        total[-1] -= mass
        return value - float(each[-1] @ mass), total.reshape(-1)

    def curvature_product(self, theta: Floats) -> Callable[[Floats], Floats]:
        """Return v ↦ H v in double precision."""
        product = self.objective.curvature_product(self.by_class(theta))
        return lambda v: self.by_word(product(self.by_class(v)))

    def preconditioner(self, theta: Floats) -> Callable[[Floats], Floats]:
        """Return v ↦ M⁻¹ v in double precision."""
        solve = preconditioner(self.objective, self.by_class(theta))
        return lambda v: self.by_word(solve(self.by_class(v)))

    def at(self, theta: Floats) -> WordSystem:
        """Return the system at a point."""
        return WordSystem(self, theta.reshape(self.shape))


class WordSystem:
    """The system at one point, for vectors whose classes' weights have mean zero."""

    def __init__(self, problem: WordProblem, theta: Floats) -> None:
        self._problem, self._theta, self._shape = problem, theta, problem.shape
        self._posterior = problem.rows.posterior(theta)
        self._penalty = np.append(problem.strength, 0.0).astype(np.float32)[:, None]

    def product(self, v: Singles) -> Singles:
        """Return H v."""
        step = v.reshape(self._shape)
        return self._curvature(step, self._penalty * step).reshape(-1)

    def _curvature(self, step: Singles | None, total: Singles) -> Singles:
        return self._problem.rows.curvature(self._posterior, step, total)

    def preconditioner(self) -> Callable[[Singles], Singles]:
        """Return v ↦ M⁻¹ v, in the directions that change the objective."""
        shape, k = self._shape, self._shape[1]
        theta = self._theta
        coefficients = theta[:-1].T, theta[-1], None
        blocks = word_blocks(self._problem.objective, None, coefficients, self._squares)
        scale = np.ascontiguousarray((1.0 / blocks.own).T, np.float32)
        places, inverses = np.append(blocks.heavy, shape[0] - 1), blocks.inverses.astype(np.float32)
        mean = np.full((k, 1), 1.0 / k, np.float32)

        def solve(v: Singles) -> Singles:
            given, found = v.reshape(shape), np.empty(shape, np.float32)
            np.multiply(given[:-1], scale, out=found[:-1])
            found[places] = (inverses @ given[places].T[:, :, None])[:, :, 0].T
            # What classes have in common changes nothing.
            found -= found @ mean
            return found.reshape(-1)

        return solve

    def _squares(self) -> Any:
        total = np.zeros(self._shape, np.float32)
        return self._curvature(None, total)[:-1].T
