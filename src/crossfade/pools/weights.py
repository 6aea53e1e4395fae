"""From members' out-of-fold probabilities to a pool's weights, and what the pool is worth.

Two pools of P_g(y | x), both with weights w ≥ 0:

    logarithmic  P(y | x) ∝ π_y ∏_g (P_g(y | x) / π_y)^{w_g}
    linear       P(y | x) = Σ_g w_g P_g(y | x),  Σ_g w_g = 1

The weights minimise the loss of the out-of-fold probabilities, with the ridge and the pseudo-rows
of :mod:`crossfade.tradeoff.pooling`. What is said of the pool itself is cross-fitted: the weights
that a row is scored with come from the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.criteria import LOSSES, row_losses
from crossfade.tradeoff.pooling import (
    Ridge,
    least_loss,
    pool_weights,
    shares_of,
    spread_labels,
)

__all__ = ["POOLINGS", "Evidence", "Weighing", "cross_fitted", "drawn_in", "pooled", "weigh"]

#: Most rows from which weights are found; a few numbers are certain long before.
_MOST_ROWS: Final = 20_000

#: Mean square of a row's centred scores, in nats, that the ridge takes for ordinary.
_ORDINARY: Final = 1.0

#: How hard a linear pool's weights are held to a sum of one, per row.
_HELD: Final = 1e4


def drawn_in(posterior: Floats, n_rows: float, shares: Floats, pseudo_count: float) -> Floats:
    """Return log-probabilities as after `pseudo_count` more rows with the class shares.

    Shapes: posterior (n_rows, n_classes); shares (n_classes,).
    """
    return np.log((n_rows * posterior + pseudo_count * shares) / (n_rows + pseudo_count))


@dataclass(frozen=True)
class Evidence:
    """What members say of rows that they were not fitted to; `selection` is "log_loss" or "brier".

    Shapes: scores (n_members, n_rows, n_classes), log-probabilities; log_prior (n_classes,); codes,
    fold, weights (n_rows,). `position` (n_rows,): Which of the table, where folds may share rows.
    """

    scores: Floats
    codes: Integers
    fold: Integers
    weights: Floats
    log_prior: Floats
    selection: str
    position: Integers | None = None

    @property
    def brier(self) -> bool:
        """Whether weights minimise a sum of squares."""
        return LOSSES[self.selection].sum_of_squares

    def rows(self, index: Integers) -> Evidence:
        """Return the rows at these positions."""
        return replace(
            self,
            scores=self.scores[:, index],
            codes=self.codes[index],
            fold=self.fold[index],
            weights=self.weights[index],
            position=None if self.position is None else self.position[index],
        )

    def apart(self, number: int) -> tuple[Integers, Integers]:
        """Return where the fold's rows are, and where all that are not of the fold."""
        own = self.fold == number
        held = np.flatnonzero(own)
        if self.position is not None:
            own |= np.isin(self.position, self.position[held])
        return held, np.flatnonzero(~own)

    def first_of_rows(self) -> Integers:
        """Return where each row of the table stands first."""
        n = self.codes.size
        if self.position is None:
            return np.arange(n)
        return np.sort(np.unique(self.position, return_index=True)[1])

    def members(self, index: Sequence[int]) -> Evidence:
        """Return what some of the members say."""
        return replace(self, scores=self.scores[list(index)])

    def sample(self) -> Evidence:
        """Return at most 20,000 of the rows, evenly spread."""
        n = self.codes.size
        return self if n <= _MOST_ROWS else self.rows(sample_rows(n, _MOST_ROWS / n))

    def row_losses(self, joint: Floats) -> dict[str, Floats]:
        """Return each row's loss by every criterion."""
        return row_losses(joint, self.codes)

    def losses(self, joint: Floats) -> dict[str, float]:
        """Return the mean of each loss."""
        found = self.row_losses(joint)
        return {name: float(np.average(found[name], weights=self.weights)) for name in LOSSES}


@dataclass(frozen=True)
class Weighing:
    """The kind of a pool and its members' weights, shape (n_members,)."""

    pooling: str
    weights: Floats


def pooled(weighing: Weighing, scores: Floats, log_prior: Floats) -> Floats:
    """Return the pool's log-posterior up to a term common to the classes, (n_rows, n_classes).

    Shapes: scores (n_members, n_rows, n_classes).
    """
    if weighing.pooling == "linear":
        mixed: Floats = np.log(np.tensordot(weighing.weights, np.exp(scores), axes=1))
        return mixed
    return log_prior + np.tensordot(weighing.weights, scores - log_prior, axes=1)


class LinearLoss:
    """Log-loss (or Brier score) of a mixture, as a function of its weights."""

    def __init__(self, evidence: Evidence) -> None:
        self.brier, self.weights = evidence.brier, evidence.weights
        self.posteriors = np.exp(evidence.scores)
        self.labels = spread_labels(evidence.codes, evidence.weights, evidence.log_prior)
        self.total = float(evidence.weights.sum())
        self.ridge = Ridge(np.ones(len(evidence.scores)))

    def evaluate(self, w: Floats) -> tuple[float, Floats]:
        """Return the value and the mixture's probabilities."""
        mixed = np.tensordot(w, self.posteriors, axes=1)
        gap = float(w.sum()) - 1.0
        if self.brier:
            row, held = ((mixed - self.labels) ** 2).sum(axis=1), 0.0
        else:
            # The least of -Σ t log(w·p) + Σ w has Σ w = 1, whatever the p.
            row, held = -(self.labels * np.log(np.maximum(mixed, 1e-300))).sum(axis=1), gap
        value = float(self.weights @ row) + self.total * (held + 0.5 * _HELD * gap**2)
        return value + self.ridge.value(w), mixed

    def model(self, w: Floats, mixed: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian."""
        n_members, gap = len(w), float(w.sum()) - 1.0
        if self.brier:
            slope, curve, held = 2.0 * (mixed - self.labels), np.full_like(mixed, 2.0), 0.0
        else:
            safe = np.maximum(mixed, 1e-300)
            slope, curve, held = -self.labels / safe, self.labels / safe**2, 1.0
        flat = self.posteriors.reshape(n_members, -1)
        gradient = flat @ (slope * self.weights[:, None]).ravel()
        spread = flat * np.sqrt(curve * self.weights[:, None]).ravel()
        H = spread @ spread.T + self.total * _HELD
        H[np.diag_indices(n_members)] += self.ridge.strength
        return gradient + self.total * (held + _HELD * gap) + self.ridge.gradient(w), H


def _logarithmic(evidence: Evidence) -> Floats:
    of = evidence
    # Members are of any kinds: one that says next to nothing is no measure of the others.
    return pool_weights(
        of.scores, of.codes, of.weights, of.log_prior, brier=of.brier, ordinary=_ORDINARY
    )


def _linear(evidence: Evidence) -> Floats:
    loss, n_members = LinearLoss(evidence), len(evidence.scores)
    found = least_loss(loss, np.full(n_members, 1.0 / n_members))
    total: Floats = found / found.sum()
    return total


#: The pools: from evidence to the weights of least loss.
POOLINGS: Final[dict[str, Callable[[Evidence], Floats]]] = {
    "logarithmic": _logarithmic,
    "linear": _linear,
}


def weigh(evidence: Evidence, poolings: Sequence[str]) -> Weighing:
    """Return the weights; of several poolings, those of the one with the less cross-fitted loss."""
    if not evidence.codes.size:
        n_members = len(evidence.scores)
        return Weighing(poolings[0], np.full(n_members, 1.0 / n_members))
    if len(poolings) > 1:
        losses = [
            evidence.losses(cross_fitted(evidence, [one]))[evidence.selection] for one in poolings
        ]
        poolings = [poolings[int(np.argmin(losses))]]
    found = POOLINGS[poolings[0]](evidence)
    shares, scale = shares_of(found, 0)
    # What is negligible is nothing; where all of it is, the pool is the class shares.
    return Weighing(poolings[0], scale * shares if scale > 0.0 else np.zeros(found.size))


def cross_fitted(evidence: Evidence, poolings: Sequence[str]) -> Floats:
    """Return the pool's scores of each row, by weights from the other folds."""
    joint = np.empty(evidence.scores.shape[1:])
    for number in np.unique(evidence.fold):
        held, others = evidence.apart(number)
        found = weigh(evidence.rows(others), poolings)
        joint[held] = pooled(found, evidence.scores[:, held], evidence.log_prior)
    return joint
