"""From members' out-of-fold probabilities to a pool's weights, and what the pool is worth.

Two pools of P_g(y | x), both with weights w ≥ 0:

    logarithmic  P(y | x) ∝ π_y ∏_g (P_g(y | x) / π_y)^{w_g}
    linear       P(y | x) = Σ_g w_g P_g(y | x),  Σ_g w_g = 1

A logarithmic pool can have a weight w_gy for each member and class: for one member and two classes
that is beta calibration (Kull, Silva Filho & Flach 2017). The loss stays convex, and with weights
that are equal over classes it is the same, ridge and all.

The weights minimise the loss of the out-of-fold probabilities, with the ridge and the pseudo-rows
of :mod:`crossfade.tradeoff.pooling`. Rows at the minimum give standard errors of the weights, for
members taken as they are: the sandwich of the minimum's equations. What is said of the pool itself
is cross-fitted: the weights that a row is scored with come from the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.inference.sandwich import covariance_of_total
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.criteria import LOSSES, row_losses
from crossfade.tradeoff.pooling import (
    LogarithmicLoss,
    PoolLoss,
    Ridge,
    least_loss,
    shares_of,
    spread_labels,
)

#: Most rows from which weights are found; a few numbers are certain long before.
_MOST_ROWS: Final = 20_000

#: Scores of members, rows and classes for each weight by class: 160 MB.
_MOST_SCORES: Final = 20_000_000

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
    `by_class`: Whether a logarithmic pool has a weight for each member and class.
    """

    scores: Floats
    codes: Integers
    fold: Integers
    weights: Floats
    log_prior: Floats
    selection: str
    position: Integers | None = None
    by_class: bool = False

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

    def of_table(self, index: Integers) -> Evidence:
        """Return what is said of these rows of the table."""
        own = np.arange(self.codes.size) if self.position is None else self.position
        return self.rows(np.flatnonzero(np.isin(own, index)))

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
        n, most = self.codes.size, _MOST_ROWS
        if self.by_class:
            k = self.log_prior.size
            most = min(most, _MOST_SCORES // (len(self.scores) * k * k))
        return self if n <= most else self.rows(sample_rows(n, most / n))

    def row_losses(self, joint: Floats) -> dict[str, Floats]:
        """Return each row's loss by every criterion."""
        return row_losses(joint, self.codes)

    def losses(self, joint: Floats) -> dict[str, float]:
        """Return the mean of each loss."""
        found = self.row_losses(joint)
        return {name: float(np.average(found[name], weights=self.weights)) for name in LOSSES}


@dataclass(frozen=True)
class Weighing:
    """The kind of a pool and its members' weights, (n_members,) or (n_members, n_classes)."""

    pooling: str
    weights: Floats

    @property
    def sizes(self) -> Floats:
        """Each member's weight, the mean over classes, (n_members,)."""
        w = self.weights
        return w if w.ndim == 1 else w.mean(axis=1)


def pooled(weighing: Weighing, scores: Floats, log_prior: Floats) -> Floats:
    """Return the pool's log-posterior up to a term common to the classes, (n_rows, n_classes).

    Shapes: scores (n_members, n_rows, n_classes).
    """
    if weighing.pooling == "linear":
        mixed: Floats = np.log(np.tensordot(weighing.weights, np.exp(scores), axes=1))
        return mixed
    if weighing.weights.ndim == 2:
        by_class: Floats = log_prior + np.einsum("gk,gnk->nk", weighing.weights, scores - log_prior)
        return by_class
    return log_prior + np.tensordot(weighing.weights, scores - log_prior, axes=1)


class LinearLoss:
    """Log-loss (or Brier score) of a mixture, as a function of its weights."""

    def __init__(self, evidence: Evidence) -> None:
        self.brier, self.weights = evidence.brier, evidence.weights
        self.posteriors = np.exp(evidence.scores)
        self.labels = spread_labels(evidence.codes, evidence.weights, evidence.log_prior)
        self.total = float(evidence.weights.sum())
        self.ridge = Ridge(np.ones(len(evidence.scores)), 1.0)

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
        slope, held = self._slope(mixed)
        curve = self.labels / np.maximum(mixed, 1e-300) ** 2
        if self.brier:
            curve = np.full_like(mixed, 2.0)
        flat = self.posteriors.reshape(n_members, -1)
        gradient = flat @ (slope * self.weights[:, None]).ravel()
        spread = flat * np.sqrt(curve * self.weights[:, None]).ravel()
        H = spread @ spread.T + self.total * _HELD
        H[np.diag_indices(n_members)] += self.ridge.strength
        return gradient + self.total * (held + _HELD * gap) + self.ridge.gradient(w), H

    def row_gradients(self, w: Floats, mixed: Floats) -> Floats:
        """Return each row's part of the gradient, its weight left out, (n_rows, n_members)."""
        slope, held = self._slope(mixed)
        found: Floats = np.einsum("gnk,nk->ng", self.posteriors, slope) + held
        return found

    def hessian(self, w: Floats, mixed: Floats) -> Floats:
        """Return the exact Hessian."""
        return self.model(w, mixed)[1]

    def _slope(self, mixed: Floats) -> tuple[Floats, float]:
        if self.brier:
            return 2.0 * (mixed - self.labels), 0.0
        return -self.labels / np.maximum(mixed, 1e-300), 1.0


class RowsLoss(PoolLoss, Protocol):
    """The loss of a pool whose rows' parts can be told apart."""

    def row_gradients(self, w: Floats, seen: Any) -> Floats:
        """Return each row's part of the gradient, its weight left out, (n_rows, n_weights)."""

    def hessian(self, w: Floats, seen: Any) -> Floats:
        """Return the exact Hessian."""


def _logarithmic(evidence: Evidence) -> tuple[RowsLoss, Floats]:
    of = evidence
    # Members are of any kinds: one that says next to nothing is no measure of the others.
    loss = LogarithmicLoss(of.scores, of.codes, of.weights, of.log_prior, _ORDINARY)
    if of.by_class:
        loss = loss.by_class(of.scores - of.log_prior)
    return loss, loss.least(brier=of.brier)


def _linear(evidence: Evidence) -> tuple[RowsLoss, Floats]:
    loss, n_members = LinearLoss(evidence), len(evidence.scores)
    return loss, least_loss(loss, np.full(n_members, 1.0 / n_members))


#: The pools: from evidence to a loss and the weights that make it least.
POOLINGS: Final[dict[str, Callable[[Evidence], tuple[RowsLoss, Floats]]]] = {
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
    found = Weighing(poolings[0], _weights_of(evidence, POOLINGS[poolings[0]](evidence)[1]))
    if found.pooling == "linear":
        found = replace(found, weights=found.weights / found.weights.sum())
    shares, scale = shares_of(found.sizes, 0)
    # What is negligible is nothing; where all of it is, the pool is the class shares.
    kept = scale * shares if scale > 0.0 else np.zeros(shares.size)
    if found.weights.ndim == 1:
        return replace(found, weights=kept)
    ratio = np.divide(kept, found.sizes, out=np.zeros(kept.size), where=kept > 0.0)
    return replace(found, weights=found.weights * ratio[:, None])


def _weights_of(evidence: Evidence, flat: Floats) -> Floats:
    """Return weights as (n_members,), or as (n_members, n_classes) where there are so many."""
    n_members = len(evidence.scores)
    return flat if flat.size == n_members else flat.reshape(n_members, -1)


def weights_covariance(
    evidence: Evidence, pooling: str, groups: Integers | None = None
) -> tuple[Floats | None, float]:
    """Return the covariance of a pool's weights, and the rows by weight.

    None where rows, or groups of them, are not more than the weights: what is fitted to them as
    well as that says nothing of chance.

    The sandwich H⁻¹ J H⁻¹ of the equations of the weights that are above zero, members and ridge
    taken as given; NaN for weights of zero, which are on the edge. Rows of a group are summed
    first; so is what different folds say of one row.

    Shapes: groups (n_samples,), of the table; → (n_weights, n_weights), by member, then class.
    """
    loss, w = POOLINGS[pooling](evidence)
    free = np.flatnonzero(w > 0.0)
    seen = loss.evaluate(w)[1]
    H = loss.hessian(w, seen)[np.ix_(free, free)]
    moved = loss.row_gradients(w, seen)[:, free] @ np.linalg.inv(H)
    n = evidence.codes.size
    position = np.arange(n) if evidence.position is None else evidence.position
    together: Integers | None = position if groups is None else groups[position]
    if groups is None and np.unique(position).size == n:
        together = None

    first = evidence.first_of_rows()
    apart = evidence.weights[first].sum() if groups is None else np.unique(groups[position]).size
    if apart <= free.size:
        return None, float(evidence.weights.sum())

    def influences(rows: slice) -> tuple[Floats, Floats]:
        return moved[rows], evidence.weights[rows]

    covariance, total = covariance_of_total(influences, n, together, block_rows=max(n, 1))
    found = np.full((w.size, w.size), np.nan)
    found[np.ix_(free, free)] = covariance
    return found, total


def cross_fitted(evidence: Evidence, poolings: Sequence[str]) -> Floats:
    """Return the pool's scores of each row, by weights from the other folds."""
    joint = np.empty(evidence.scores.shape[1:])
    for number in np.unique(evidence.fold):
        held, others = evidence.apart(number)
        found = weigh(evidence.rows(others), poolings)
        joint[held] = pooled(found, evidence.scores[:, held], evidence.log_prior)
    return joint
