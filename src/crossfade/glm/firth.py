"""Firth's penalised likelihood: finite estimates, less bias.

ℓ*(β) = ℓ(β) + ½ log |XᵀWX|: Jeffreys' prior as a penalty. With the logit link its maximum removes
the first-order bias of the maximum-likelihood estimate (Firth 1993, Biometrika 80:27), and it is
finite even where the data are separated (Heinze & Schemper 2002, Statistics in Medicine 21:2409).
With the other links, and for counts, it is the same penalty: it keeps estimates finite, though the
bias is removed exactly for canonical links only.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.glm.data import Data
from crossfade.glm.design import Design
from crossfade.glm.families import Family
from crossfade.glm.irls import GlmProblem


class FirthProblem(GlmProblem):
    """Negative penalised log-likelihood. Its curvature is the unpenalised information."""

    def __init__(self, design: Design, data: Data, family: Family) -> None:
        super().__init__(design, data, family)

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient: -ℓ - ½ log|I| and -s - ½ Σ h_i (log W_i)' z_i."""
        value, gradient = super().value_and_gradient(theta)
        if not np.isfinite(value):
            return value, gradient
        information = self.information(theta)[0]
        try:
            factor = scipy.linalg.cholesky(information, lower=True, check_finite=False)
        except (scipy.linalg.LinAlgError, ValueError):
            return np.inf, np.full_like(theta, np.nan)
        log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())

        def pull(rows: slice) -> Floats:
            with np.errstate(invalid="ignore", over="ignore"):
                leverage = self.leverage(rows, theta, factor)
                slopes = self.family.information_slope(self.predictor(rows, theta))
                return self.design.transposed(rows, leverage * slopes)

        shift = block_sum(pull, self.data.n_rows)
        return value - 0.5 * log_determinant, gradient - 0.5 * shift

    def leverage(self, rows: slice, theta: Floats, factor: Floats) -> Floats:
        """Return the diagonal of √W Z (ZᵀWZ)⁻¹ Zᵀ √W for a block, given the Cholesky factor."""
        whitened = scipy.linalg.solve_triangular(
            factor, self.design.standard(rows).T, lower=True, check_finite=False
        )
        return self.information_weights(rows, theta) * np.square(whitened).sum(axis=0)

    def sample(self, share: float) -> FirthProblem:
        """Return the function itself: its penalty has no meaning for a share of the rows."""
        return self

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return XᵀWX in standardised coordinates."""
        return self.information(theta)[0]
