"""The multinomial logit: one coefficient vector for each class but the first, the reference.

log(P(y = k | x) / P(y = reference | x)) = xᵀβ_k. Its information is the block matrix
Σ_i w_i (diag(π_i) - π_i π_iᵀ) ⊗ x_i x_iᵀ over the classes but the reference (McCullagh & Nelder
1989, section 5.2). θ and β hold the classes' vectors one after another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, for_each_block
from crossfade.glm.data import Data
from crossfade.glm.design import Design
from crossfade.glm.irls import FAINT
from crossfade.glm.likelihood import RowParts
from crossfade.glm.sampling import sample_data


def class_probabilities(eta: Floats, allowed: NDArray[np.bool_] | None = None) -> Floats:
    """Return probabilities of all classes, the reference first, from the other classes' η.

    Shapes: eta (n_rows, n_classes - 1).
    """
    scores = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


class MultinomialProblem:
    """Negative log-likelihood of the multinomial logit, as sums over blocks of rows.

    `data`: ``y`` holds class codes, 0 for the reference; ``size`` is not used.
    `allowed` (n_rows, n_classes), optional: What a limiting conditional model leaves possible.
    """

    def __init__(
        self,
        design: Design,
        data: Data,
        n_classes: int,
        l2: float = 0.0,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        self.design, self.data, self.n_classes, self.l2 = design, data, n_classes, l2
        self.allowed = allowed
        penalty = l2 / design.units()[1] ** 2
        if design.intercept:
            penalty = np.concatenate([[0.0], penalty])
        self.penalty = np.tile(penalty, n_classes - 1)

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""
        return self.data.total_weight

    def matrix(self) -> Floats:
        """Return T with β = T θ, one block per class."""
        return np.asarray(np.kron(np.eye(self.n_classes - 1), self.design.matrix()))

    def coefficients(self, theta: Floats) -> Floats:
        """Return β of θ, one block per class."""
        blocks = theta.reshape(self.n_classes - 1, -1) @ self.design.matrix().T
        return blocks.ravel()

    def start(self) -> Floats:
        """Return constants that fit the class shares, and zero slopes."""
        theta = np.zeros((self.n_classes - 1, self.design.n_parameters))
        if self.design.intercept and self.allowed is None:
            codes = self.data.y.astype(np.int64)
            counts = np.bincount(codes, weights=self.data.weights, minlength=self.n_classes)
            theta[:, 0] = np.log((counts[1:] + 0.5) / (counts[0] + 0.5))
        return theta.ravel()

    def over(self, data: Data) -> MultinomialProblem:
        """Return the likelihood itself: its rows are at hand."""
        return self

    def predictor(self, rows: slice, theta: Floats) -> Floats:
        """Return η of all classes but the reference, (n_block, n_classes - 1)."""
        eta = self.design.predictor(rows, theta.reshape(self.n_classes - 1, -1).T)
        return eta if self.data.offset is None else eta + self.data.offset[rows, None]

    def probabilities(self, rows: slice, theta: Floats) -> Floats:
        """Return the probabilities of all classes, (n_block, n_classes)."""
        allowed = None if self.allowed is None else self.allowed[rows]
        return class_probabilities(self.predictor(rows, theta), allowed)

    def log_probabilities(self, rows: slice, theta: Floats) -> Floats:
        """Return log P of the class each row has, shape (n_block,)."""
        eta = self.predictor(rows, theta)
        scores = np.concatenate([np.zeros((len(eta), 1)), eta], axis=1)
        if self.allowed is not None:
            scores = np.where(self.allowed[rows], scores, -np.inf)
        own = scores[np.arange(len(eta)), self.data.y[rows].astype(np.int64)]
        top = scores.max(axis=1)
        scores -= top[:, None]
        return own - top - np.log(np.exp(scores).sum(axis=1))

    def residuals(self, rows: slice, theta: Floats) -> Floats:
        """Return π_k - 1[y = k] for all classes but the reference."""
        residual = self.probabilities(rows, theta)
        residual[np.arange(len(residual)), self.data.y[rows].astype(np.int64)] -= 1.0
        return residual[:, 1:]

    def value(self, theta: Floats) -> float:
        """Return the negative log-likelihood, penalty included."""
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient: one pass over the rows."""
        weights = self.data.weights

        def sums(rows: slice) -> tuple[float, Floats]:
            with np.errstate(invalid="ignore", over="ignore"):
                loss = -self.log_probabilities(rows, theta)
                residual = self.residuals(rows, theta)
                if weights is not None:
                    loss = loss * weights[rows]
                    residual = residual * weights[rows, None]
                return float(loss.sum()), self.design.transposed(rows, residual).T.ravel()

        value, gradient = block_sum(sums, self.data.n_rows)
        value = np.inf if np.isnan(value) else value
        pull = self.penalty * theta
        return value + 0.5 * float(pull @ theta), gradient + pull

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the information in standardised coordinates, plus the penalty's curvature."""
        if share < 1.0:
            return self.sample(share).curvature(theta)
        return self.information(theta)[0]

    def information(self, theta: Floats) -> tuple[Floats, int]:
        """Return the curvature and how many comparisons have next to no weight in it."""

        def blocks(rows: slice) -> tuple[Floats, float]:
            shares = self.probabilities(rows, theta)
            faint = np.count_nonzero(shares < FAINT)
            shares = shares[:, 1:]
            weights = -shares[:, :, None] * shares[:, None, :]
            weights[:, range(shares.shape[1]), range(shares.shape[1])] += shares
            return self._blocks(rows, weights), float(faint)

        matrix, faint = block_sum(blocks, self.data.n_rows)
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix, int(faint)

    def _blocks(self, rows: slice, factors: Floats) -> Floats:
        """Return Σ_i w_i factors_i ⊗ z_i z_iᵀ of a block; factors (n_block, K - 1, K - 1)."""
        size, others = self.design.n_parameters, self.n_classes - 1
        Z = self.design.standard(rows)
        weighted = Z if self.data.weights is None else Z * self.data.weights[rows, None]
        total = np.empty((others, size, others, size))
        for a in range(others):
            for b in range(a, others):
                total[a, :, b, :] = (Z * factors[:, a, b, None]).T @ weighted
                total[b, :, a, :] = total[a, :, b, :].T
        return total.reshape(others * size, others * size)

    def sample(self, share: float) -> MultinomialProblem:
        """Return the same function over a share of the rows, scaled up to all."""
        kinds = self.data.y.astype(np.int64)
        rows, some, design = sample_data(self.design, self.data, kinds, share)
        allowed = None if self.allowed is None else self.allowed[rows]
        return MultinomialProblem(design, some, self.n_classes, self.l2, allowed)

    def forget_samples(self) -> None:
        """Do nothing: samples are not kept."""

    def row_parts(self, rows: slice, theta: Floats, root: Floats) -> RowParts:
        """Return what each row says along `root`, of each class but the reference."""
        shares, others = self.probabilities(rows, theta), self.n_classes - 1
        by_class = root.reshape(others, self.design.n_parameters, root.shape[1])
        along = (self.design.standard(rows) @ by_class).swapaxes(0, 1)
        # diag π - ππᵀ = LLᵀ.
        factor = (np.eye(self.n_classes) - shares[:, :, None]) * np.sqrt(shares)[:, None, :]
        return RowParts(along, self.residuals(rows, theta), factor[:, 1:])

    # -- comparisons: a row's own class with each other one (see crossfade.glm.separation) --------

    def comparison_weights(self, theta: Floats) -> Floats:
        """Return π of the classes that a row does not have, -1 of its own, (n_rows, n_classes)."""
        weights = np.empty((self.data.n_rows, self.n_classes))

        def work(rows: slice) -> None:
            weights[rows] = self.probabilities(rows, theta)
            weights[rows][range(rows.stop - rows.start), self._codes(rows)] = -1.0

        for_each_block(work, self.data.n_rows)
        return weights

    def _codes(self, rows: slice) -> Integers:
        return self.data.y[rows].astype(np.int64)

    def evidence(self, theta: Floats, used: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return Σ π c cᵀ and Σ π c over the comparisons used, c = (e_own - e_other) ⊗ z."""

        def sums(rows: slice) -> tuple[Floats, Floats]:
            weights = self.probabilities(rows, theta) * used[rows]
            each, own = np.arange(len(weights)), self._codes(rows)
            weights[each, own] = 0.0
            signed = -weights
            signed[each, own] = weights.sum(axis=1)
            factors = np.zeros((len(weights), self.n_classes, self.n_classes))
            factors[:, range(self.n_classes), range(self.n_classes)] = np.abs(signed)
            factors[each, own] += np.minimum(signed, 0.0)
            factors[each, :, own] += np.minimum(signed, 0.0)
            signed = signed[:, 1:]
            if self.data.weights is not None:
                signed = signed * self.data.weights[rows, None]
            gradient = self.design.transposed(rows, signed).T.ravel()
            return self._blocks(rows, factors[:, 1:, 1:]), gradient

        return block_sum(sums, self.data.n_rows)

    def _pushes(self, direction: Floats) -> Floats:
        """Return how far a direction moves the predictors, 0 for the reference."""
        blocks = direction.reshape(self.n_classes - 1, -1).T
        pushes = np.zeros((self.data.n_rows, self.n_classes))

        def work(rows: slice) -> None:
            pushes[rows, 1:] = self.design.predictor(rows, blocks)

        for_each_block(work, self.data.n_rows)
        return pushes

    def moved(self, direction: Floats) -> Floats:
        """Return |c δ| of the comparisons, (n_rows, n_classes)."""
        pushes = self._pushes(direction)
        own = np.take_along_axis(pushes, self._codes(slice(None))[:, None], axis=1)
        return np.abs(own - pushes)

    def comparisons(self, which: NDArray[np.bool_]) -> tuple[Floats, Floats, Integers]:
        """Return c of the comparisons, what each asks for (+1: may rise without end), their rows.

        c θ is η_own - η_other.
        """
        rows, others = np.nonzero(which)
        codes = self._codes(slice(None))[rows]
        signs_of = np.eye(self.n_classes)[:, 1:]
        contrast = signs_of[codes] - signs_of[others]
        Z = self.design.with_rows(self.design.X[rows]).standard(slice(0, len(rows)))
        each = (contrast[:, :, None] * Z[:, None, :]).reshape(len(rows), self.penalty.size)
        return each, np.ones(len(rows)), rows

    def possible(self, direction: Floats) -> NDArray[np.bool_]:
        """Return which classes stay possible in the limit along a direction of recession."""
        return top_classes(self._pushes(direction)[:, 1:])


def top_classes(push: Floats) -> NDArray[np.bool_]:
    """Return the classes whose push (0 for the reference) is the largest of the row."""
    scores = np.concatenate([np.zeros((len(push), 1)), push], axis=1)
    return scores >= scores.max(axis=1, keepdims=True) - 1e-7
