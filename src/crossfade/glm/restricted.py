"""Likelihoods along some directions only."""

from __future__ import annotations

import numpy as np

from crossfade._typing import Floats
from crossfade.glm.data import Data
from crossfade.glm.likelihood import Likelihood, RowParts


class Restricted:
    """A likelihood whose θ = base + basis · u may only move along some directions.

    Shapes: base (n_parameters,); basis (n_parameters, n_free).
    """

    def __init__(self, inner: Likelihood, base: Floats, basis: Floats) -> None:
        self.inner, self.base, self.basis = inner, base, basis
        self.design, self.data = inner.design, inner.data

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""
        return self.inner.n_rows

    def expand(self, free: Floats) -> Floats:
        """Return θ of u."""
        return self.base + self.basis @ free

    def matrix(self) -> Floats:
        """Return the matrix by which β changes with u."""
        return self.inner.matrix() @ self.basis

    def coefficients(self, theta: Floats) -> Floats:
        """Return β of u."""
        return self.inner.coefficients(self.expand(theta))

    def start(self) -> Floats:
        """Return u = 0."""
        return np.zeros(self.basis.shape[1])

    def value(self, theta: Floats) -> float:
        """Return the value at u."""
        return self.inner.value(self.expand(theta))

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value at u and its gradient in u."""
        value, gradient = self.inner.value_and_gradient(self.expand(theta))
        return value, self.basis.T @ gradient

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the curvature in u."""
        return self.basis.T @ self.inner.curvature(self.expand(theta), share) @ self.basis

    def information(self, theta: Floats) -> tuple[Floats, int]:
        """Return the expected information in u, and its faint rows."""
        matrix, faint = self.inner.information(self.expand(theta))
        return self.basis.T @ matrix @ self.basis, faint

    def sample(self, share: float) -> Restricted:
        """Return the same restriction of fewer rows."""
        return Restricted(self.inner.sample(share), self.base, self.basis)

    def over(self, data: Data) -> Restricted:
        """Return the same restriction of a part of the rows."""
        return Restricted(self.inner.over(data), self.base, self.basis)

    def row_parts(self, rows: slice, theta: Floats, root: Floats) -> RowParts:
        """Return what each row says along `root`, within the span."""
        return self.inner.row_parts(rows, self.expand(theta), self.basis @ root)
