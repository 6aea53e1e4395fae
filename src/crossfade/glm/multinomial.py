"""The multinomial logit: one coefficient vector for each class but the first, the reference.

log(P(y = k | x) / P(y = reference | x)) = xᵀβ_k. Its information is the block matrix
Σ_i w_i (diag(π_i) - π_i π_iᵀ) ⊗ x_i x_iᵀ over the classes but the reference (McCullagh & Nelder
1989, section 5.2). θ and β hold the classes' vectors one after another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.glm.design import Data, Design
from crossfade.optim.newton import sample_rows

__all__ = ["MultinomialProblem", "class_probabilities"]


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

    Parameters
    ----------
    design : Design
    data : Data
        ``y`` holds class codes, 0 for the reference; ``size`` is not used.
    n_classes : int
    l2 : float, default=0.0
        Ridge on all coefficients but the intercepts, columns in their own units.
    allowed : ndarray of bool, shape (n_rows, n_classes), optional
        Classes that a limiting conditional model leaves possible, row by row.
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
        """Return T with β = T θ, one block a class."""
        return np.asarray(np.kron(np.eye(self.n_classes - 1), self.design.matrix()))

    def coefficients(self, theta: Floats) -> Floats:
        """Return β of θ, one block a class."""
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
        size, others = self.design.n_parameters, self.n_classes - 1
        weights = self.data.weights

        def sums(rows: slice) -> Floats:
            shares = self.probabilities(rows, theta)[:, 1:]
            Z = self.design.standard(rows)
            row_weights = np.ones(len(Z)) if weights is None else weights[rows]
            total = np.empty((others, size, others, size))
            for a in range(others):
                for b in range(a, others):
                    factor = shares[:, a] * ((a == b) - shares[:, b]) * row_weights
                    total[a, :, b, :] = (Z * factor[:, None]).T @ Z
                    total[b, :, a, :] = total[a, :, b, :].T
            return total.reshape(others * size, others * size)

        matrix = block_sum(sums, self.data.n_rows)
        matrix[np.diag_indices_from(matrix)] += self.penalty
        return matrix

    def sample(self, share: float) -> MultinomialProblem:
        """Return the same function over a share of the rows, scaled up to all."""
        rows = sample_rows(self.data.n_rows, share)
        some = self.data.take(rows, self.data.n_rows / max(len(rows), 1))
        allowed = None if self.allowed is None else self.allowed[rows]
        return MultinomialProblem(
            self.design.with_rows(some.X), some, self.n_classes, self.l2, allowed
        )

    def forget_samples(self) -> None:
        """Do nothing: samples are not kept."""

    def score_rows(self, rows: slice, theta: Floats) -> Floats:
        """Return each row's gradient (weights and penalty left out), (n_block, n_parameters)."""
        residual, Z = self.residuals(rows, theta), self.design.standard(rows)
        return (residual[:, :, None] * Z[:, None, :]).reshape(len(Z), self.penalty.size)

    def comparisons(self, allowed: NDArray[np.bool_] | None = None) -> Floats:
        """Return one row for every class a row did not have.

        The row of (i, k) is x_i in the coefficients of the class that i has minus x_i in those of
        k: its predictor η_y - η_k may rise for ever.
        """
        Z = self.design.standard(slice(0, self.data.n_rows))
        codes = self.data.y.astype(np.int64)
        signs_of = np.eye(self.n_classes)[:, 1:]
        parts = []
        for k in range(self.n_classes):
            other = codes != k
            rows = np.flatnonzero(other if allowed is None else other & allowed[:, k])
            contrast = signs_of[codes[rows]] - signs_of[k]
            parts.append(
                (contrast[:, :, None] * Z[rows, None, :]).reshape(len(rows), self.penalty.size)
            )
        return np.concatenate(parts)

    def possible(self, direction: Floats) -> NDArray[np.bool_]:
        """Return which classes stay possible in the limit along a direction of recession."""
        push = self.design.predictor(
            slice(0, self.data.n_rows), direction.reshape(self.n_classes - 1, -1).T
        )
        return top_classes(push)


def top_classes(push: Floats) -> NDArray[np.bool_]:
    """Return the classes whose push (0 for the reference) is the largest of the row."""
    scores = np.concatenate([np.zeros((len(push), 1)), push], axis=1)
    return scores >= scores.max(axis=1, keepdims=True) - 1e-7
