"""What solvers and inference ask of a regression's likelihood."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from crossfade._typing import Floats
from crossfade.glm.data import Data
from crossfade.glm.design import Design


class RowParts(NamedTuple):
    """Of rows: V, r and L, where Vᵀr is a row's gradient and VᵀLLᵀV its part of the curvature.

    Shapes: (n_block, k, rank), (n_block, k), (n_block, k, j), for k predictors.
    """

    design: Floats
    slopes: Floats
    factor: Floats


class Likelihood(Protocol):
    """A regression likelihood in standardised coordinates, to be minimised (negated)."""

    design: Design
    data: Data

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""

    def matrix(self) -> Floats:
        """Return T with β = T θ."""

    def coefficients(self, theta: Floats) -> Floats:
        """Return β of θ."""

    def start(self) -> Floats:
        """Return a legal θ to start from."""

    def value(self, theta: Floats) -> float:
        """Return the negative log-likelihood without constants, penalty included."""

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient."""

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return what steps are solved from: near the value's own second derivative."""

    def information(self, theta: Floats) -> tuple[Floats, int]:
        """Return the expected information (plus the penalty's curvature), and its faint rows."""

    def over(self, data: Data) -> Likelihood:
        """Return the likelihood of a part of the rows, for sums over it."""

    def sample(self, share: float) -> Likelihood:
        """Return the same function over a share of the rows, scaled up to all."""

    def row_parts(self, rows: slice, theta: Floats, root: Floats) -> RowParts:
        """Return what each row says along `root` (weights and penalty left out)."""
