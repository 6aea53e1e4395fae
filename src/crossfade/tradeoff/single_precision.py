"""Newton's systems of logistic regression on many words, in single precision.

What costs time is the memory that words point to: numbers of half the width take half of it. An
inexact step needs no more digits; value and gradient, which say when it is enough, have them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from crossfade._typing import Floats
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.preconditioner import word_blocks
from crossfade.tradeoff.word_rows import Singles, WordRows

#: Posteriors that are kept whatever the words, and how many for each entry: 32 MB, and a quarter of
#: what the entries take.
_KEPT_POSTERIORS = 8_388_608
_POSTERIORS_PER_ENTRY = 0.75


class WordSystems:
    """Systems of words alone at λ = 0, as :class:`~crossfade.optim.newton.SinglePrecision` has it.

    A vector holds each word's weights by class, words one after the other, and the offsets.
    """

    def __init__(self, objective: TradeoffObjective, rows: WordRows) -> None:
        self._objective, self._rows = objective, rows
        self._shape = rows.n_words + 1, objective.passes.n_classes

    @classmethod
    def of(cls, objective: TradeoffObjective) -> Self | None:
        """Return the systems of many words and nothing else at λ = 0, None of others."""
        if objective.tradeoff > 0.0 or not objective.exact_labels:
            return None
        rows = objective.passes.word_rows
        if rows is None:
            return None
        most = max(_KEPT_POSTERIORS, _POSTERIORS_PER_ENTRY * rows.counts.nnz)
        return cls(objective, rows) if rows.n_rows * objective.passes.n_classes <= most else None

    def narrowed(self, vector: Floats, unit: float = 1.0) -> Singles:
        """Return a parameter vector in single precision, word by word, divided by a number."""
        weights, offsets, _ = self._objective.split(vector)
        found = np.empty(self._shape, np.float32)
        np.divide(weights.T, unit, out=found[:-1], casting="same_kind")
        np.divide(offsets, unit, out=found[-1], casting="same_kind")
        return found.reshape(-1)

    def widened(self, vector: Singles) -> Singles:
        """Return the parameter vector, class by class."""
        each, found = vector.reshape(self._shape), np.empty(vector.size, np.float32)
        n_words, k = self._rows.n_words, self._shape[1]
        found[: k * n_words].reshape(k, n_words)[:], found[k * n_words :] = each[:-1].T, each[-1]
        return found

    def at(self, theta: Floats) -> WordSystem:
        """Return the system at a point."""
        return WordSystem(self._objective, self._rows, theta)


class WordSystem:
    """The system at one point, for vectors whose classes' weights have mean zero."""

    def __init__(self, objective: TradeoffObjective, rows: WordRows, theta: Floats) -> None:
        self._objective, self._rows, self._theta = objective, rows, theta
        weights, offsets, _ = objective.split(theta)
        self._posterior = rows.posterior(weights, offsets)
        self._shape = rows.n_words + 1, offsets.size
        penalty = objective.penalty * objective.density.penalty_profile
        self._penalty = np.append(penalty, 0.0).astype(np.float32)[:, None]

    def product(self, v: Singles) -> Singles:
        """Return H v."""
        step = v.reshape(self._shape)
        return self._rows.curvature(self._posterior, step, self._penalty * step).reshape(-1)

    def preconditioner(self) -> Callable[[Singles], Singles]:
        """Return v ↦ M⁻¹ v, in the directions that change the objective."""
        shape, k = self._shape, self._shape[1]
        blocks = word_blocks(self._objective, self._theta, self._squares)
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
        return self._rows.curvature(self._posterior, None, total)[:-1].T
