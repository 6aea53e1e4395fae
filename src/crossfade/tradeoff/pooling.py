"""Weights of a pool of models, from class scores that each row's own label did not touch.

With s_g(x) the class scores of model g relative to the class shares π, the pool's posterior is

    P(y | x) ∝ π_y exp Σ_g w_g s_gy(x),   w_g ≥ 0,

a logarithmic opinion pool (Genest & Zidek 1986), and for models of one exponential family a model
of that family. The weights minimise the loss of out-of-fold scores. Two things keep few rows from
choosing wildly: a ridge, and, as in Platt's scaling (1999), a part of a row whose label is spread
as π, without which separated rows would ask for endless scores. The ridge is on what models
contribute, not on bare weights: one whose scores are ten times as large as others', as those of
naive Bayes with many columns are, gains a great deal from rows it is right on, and would lose far
more on the one row in a hundred that few rows do not show. Usual is what the models that say
something do: many silent ones would else make all that others say an excess.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.optimize

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.labelled_rows import log_normalise

#: The ridge is this, times the number of models, times their squared distances from where it draws
#: them, halved; each times its mean squared score, in units of the lower quartile of all models'.
_RIDGE = 1.0

#: Mean square of a row's centred scores, in nats², below which a model says next to nothing.
_SILENT = 0.1

#: Pseudo-rows spread over the rows, their labels as the class shares.
_PSEUDO_ROWS = 0.2

#: Nats, and root sums of squares of the rows', by which one model alone is better beyond doubt.
_BEYOND_DOUBT, _SURE = 20.0, 4.0

_MOST_STEPS = 200

#: A smaller share of the weight is not worth its fit to full tolerance.
LEAST_SHARE = 1e-3


class PoolLoss(Protocol):
    """The loss of a pool, a convex function of its weights."""

    def evaluate(self, w: Floats) -> tuple[float, Any]:
        """Return the value, and whatever :meth:`model` needs of this evaluation."""

    def model(self, w: Floats, seen: Any) -> tuple[Floats, Floats]:
        """Return the gradient and the (positive definite) Hessian."""


class Ridge:
    """What draws the weights of a pool towards equal contributions.

    `sizes` (n_models,): Sum of squares of each model's centred scores.
    `n_rows`: Total weight of the rows.
    `ordinary`: Mean square that is no excess, however little the models say; of many points of one
        grid, those that say something tell it.
    """

    def __init__(self, sizes: Floats, n_rows: float, ordinary: float | None = None) -> None:
        if ordinary is None:
            telling = sizes[sizes >= _SILENT * n_rows]
            usual = _lower_quartile(telling if telling.size else sizes)
        else:
            usual = max(_lower_quartile(sizes), ordinary * n_rows)
        excess = np.maximum(sizes / usual, 1.0) if usual > 0.0 else np.ones_like(sizes)
        self.strength = _RIDGE * len(sizes) * excess
        self.middle = (1.0 / excess) / (1.0 / excess).sum()

    def value(self, w: Floats) -> float:
        """Return what it adds to the loss."""
        return 0.5 * float(self.strength @ (w - self.middle) ** 2)

    def gradient(self, w: Floats) -> Floats:
        """Return its gradient; its Hessian is diagonal, `strength`."""
        return self.strength * (w - self.middle)


def _lower_quartile(sizes: Floats) -> float:
    return float(np.sort(sizes)[sizes.size // 4])


def pseudo_share(n_rows: float) -> float:
    """Return the share of a label that is spread as the class shares."""
    return _PSEUDO_ROWS / (_PSEUDO_ROWS + n_rows)


def spread_labels(codes: Integers, weights: Floats, log_prior: Floats) -> Floats:
    """Return the labels as indicators, a part of a row in all spread as the class shares."""
    pseudo = pseudo_share(float(weights.sum()))
    labels = np.tile(pseudo * np.exp(log_prior), (codes.size, 1))
    labels[np.arange(codes.size), codes] += 1.0 - pseudo
    return labels


def shares_of(pool: Floats, best: int) -> tuple[Floats, float]:
    """Return weights that sum to one, without the negligible, and the pool's scale.

    No weight at all is the class shares: nothing was learnt. The density then is the best's.
    """
    scale = float(pool.sum())
    kept = np.where(pool < LEAST_SHARE * scale, 0.0, pool)
    if scale <= 0.0:
        kept = np.zeros(pool.size)
        kept[best] = 1.0
    return kept / kept.sum(), scale


def pool_or_one(
    scores: Floats, codes: Integers, weights: Floats | None, log_prior: Floats, *, brier: bool
) -> Floats:
    """Return the weights of the pool, or of one model alone that is better beyond doubt.

    The ridge holds back a model whose scores are far larger than all others', as it should where
    few rows speak for it. Those of a column that tells the class are 1e9 times as large, and right.

    Shapes: scores (n_models, n_rows, n_classes); codes, weights (n_rows,); log_prior (n_classes,);
    → (n_models,).
    """
    every = LogarithmicLoss(scores, codes, weights, log_prior)
    found = every.least(brier=brier)
    own = np.take_along_axis(scores, codes[None, :, None], axis=2)[:, :, 0]
    best = int(np.argmin((np.logaddexp.reduce(scores, axis=2) - own) @ every.weights))
    alone = LogarithmicLoss(scores[[best]], codes, weights, log_prior)
    share = alone.least(brier=brier)
    gain = every.by_row(found) - alone.by_row(share)
    total, spread = float(every.weights @ gain), float(np.sqrt(every.weights @ gain**2))
    if total >= max(_BEYOND_DOUBT, _SURE * spread):  # no number is no proof
        return np.where(np.arange(len(scores)) == best, share[0], 0.0)
    return found


class LogarithmicLoss:
    """Log-loss (or Brier score) of rows, as a function of the pool's weights."""

    brier = False

    def __init__(
        self,
        scores: Floats,
        codes: Integers,
        weights: Floats | None,
        log_prior: Floats,
        ordinary: float | None = None,
    ) -> None:
        relative = scores - log_prior
        self.scores = relative - relative.mean(axis=2, keepdims=True)
        self.log_prior = log_prior
        self.weights = np.ones(codes.size) if weights is None else weights
        self.labels = spread_labels(codes, self.weights, log_prior)
        sizes = np.einsum("gnk,n->g", self.scores**2, self.weights)
        self.ridge = Ridge(sizes, float(self.weights.sum()), ordinary)

    def of_members(self, kept: Integers) -> LogarithmicLoss:
        """Return the loss as a function of the weights of these alone."""
        some = copy.copy(self)
        some.scores = self.scores[kept]
        some.ridge = copy.copy(self.ridge)
        some.ridge.strength, some.ridge.middle = self.ridge.strength[kept], self.ridge.middle[kept]
        return some

    def by_class(self, relative: Floats) -> LogarithmicLoss:
        """Return the loss as a function of a weight for each model and class, in this order.

        The ridge is such that weights that are equal over classes have the same loss as before.

        Shapes: relative (n_models, n_rows, n_classes), scores relative to the class shares.
        """
        wide, k = copy.copy(self), relative.shape[2]
        by_class = relative[:, None] * np.eye(k)[:, None, :]
        wide.scores = by_class.reshape(-1, *relative.shape[1:])
        wide.ridge = copy.copy(self.ridge)
        wide.ridge.strength = np.repeat(self.ridge.strength / k, k)
        wide.ridge.middle = np.repeat(self.ridge.middle, k)
        return wide

    def least(self, *, brier: bool = False) -> Floats:
        """Return the weights of least loss, (n_weights,)."""
        found = least_loss(self, np.zeros(self.scores.shape[0]))
        if not brier:
            return found
        # Not convex: from where the log-loss is least.
        self.brier = True
        return least_loss(self, found)

    def by_row(self, w: Floats) -> Floats:
        """Return the log-loss of each row, whatever is minimised, (n_rows,)."""
        pooled = self.log_prior + np.tensordot(w, self.scores, axes=1)
        return np.asarray(log_normalise(pooled.copy())[0] - (self.labels * pooled).sum(axis=1))

    def evaluate(self, w: Floats) -> tuple[float, Floats]:
        """Return the value and the posteriors."""
        pooled = self.log_prior + np.tensordot(w, self.scores, axes=1)
        log_sum, posterior = log_normalise(pooled.copy())
        if self.brier:
            row = ((posterior - self.labels) ** 2).sum(axis=1)
        else:
            row = log_sum - (self.labels * pooled).sum(axis=1)
        value = float(self.weights @ row)
        return value + self.ridge.value(w), posterior

    def model(self, w: Floats, posterior: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian (Gauss-Newton's for the Brier score)."""
        gap, n_models = posterior - self.labels, len(self.scores)
        gap *= self.weights[:, None]
        spread = self.scores - np.einsum("gnk,nk->gn", self.scores, posterior)[:, :, None]
        if self.brier:
            # ∂p/∂w_g = p ∘ (s_g - p·s_g)
            spread *= posterior
            gradient = 2.0 * (spread.reshape(n_models, -1) @ gap.ravel())
            spread *= np.sqrt(2.0 * self.weights)[:, None]
        else:
            gradient = self.scores.reshape(n_models, -1) @ gap.ravel()
            spread *= np.sqrt(posterior * self.weights[:, None])
        flat = spread.reshape(n_models, -1)
        H = flat @ flat.T
        H[np.diag_indices(n_models)] += self.ridge.strength
        return gradient + self.ridge.gradient(w), H

    def row_gradients(self, w: Floats, posterior: Floats) -> Floats:
        """Return each row's part of the gradient, its weight left out, (n_rows, n_models)."""
        gap, scores = posterior - self.labels, self.scores
        if self.brier:
            gap *= 2.0 * posterior
            scores = scores - np.einsum("gnk,nk->gn", scores, posterior)[:, :, None]
        found: Floats = np.einsum("gnk,nk->ng", scores, gap)
        return found

    def hessian(self, w: Floats, posterior: Floats) -> Floats:
        """Return the exact Hessian, for the Brier score as well."""
        H = self.model(w, posterior)[1]
        if self.brier:
            gap = posterior - self.labels
            bent = gap - (posterior * gap).sum(axis=1, keepdims=True)
            bent *= 2.0 * posterior * self.weights[:, None]
            spread = self.scores - np.einsum("gnk,nk->gn", self.scores, posterior)[:, :, None]
            H += np.einsum("gnk,hnk,nk->gh", spread, spread, bent, optimize=True)
        return H


def least_loss(loss: PoolLoss, start: Floats) -> Floats:
    """Return the weights w ≥ 0 of least loss, by Newton's method with exact steps under w ≥ 0."""
    w = start
    value, seen = loss.evaluate(w)
    for _ in range(_MOST_STEPS):
        gradient, H = loss.model(w, seen)
        step = _nonnegative_minimiser(H, gradient - H @ w) - w
        slope = float(gradient @ step)
        # What the step promises, in nats over all rows.
        if slope > -1e-13 * (1.0 + abs(value)):
            break
        length = 1.0
        while length > 1e-10:
            trial = np.maximum(w + length * step, 0.0)
            trial_value, trial_seen = loss.evaluate(trial)
            if trial_value <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            break
        w, value, seen = trial, trial_value, trial_seen
    return w


def _nonnegative_minimiser(H: Floats, q: Floats) -> Floats:
    """Return the minimiser of ½ w·Hw + q·w over w ≥ 0, H positive definite."""
    # Scores of 1e9 (a column that never varies within a class) next to scores of 1.
    scale = 1.0 / np.sqrt(np.diagonal(H))
    scaled = H * scale * scale[:, None]
    scaled[np.diag_indices_from(scaled)] += 1e-14
    R = scipy.linalg.cholesky(scaled, lower=False, check_finite=False)
    right = scipy.linalg.solve_triangular(R, -q * scale, trans=1, check_finite=False)
    found: Floats = scipy.optimize.nnls(R, right)[0]
    return found * scale
