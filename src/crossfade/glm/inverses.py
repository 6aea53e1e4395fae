"""Inverses of a likelihood's curvature, as roots: covariances of coefficients come from them."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.glm.data import Data
from crossfade.glm.irls import GlmProblem


def root_of_inverse_information(problem: GlmProblem, theta: Floats, curvature: Floats) -> Floats:
    """Return R with R Rᵀ the inverse of the curvature, from √W Z itself where digits are short."""
    if problem.design.doubtful and problem.l2 == 0.0:

        def root(data: Data) -> Floats:
            weights = problem.over(data).information_weights(slice(0, data.n_rows), theta)
            return np.sqrt(weights)

        triangle = problem.data.triangle(problem.design, root)
        return np.asarray(scipy.linalg.solve_triangular(triangle, np.eye(len(theta))))
    return root_of_inverse(curvature)


def root_of_inverse(curvature: Floats) -> Floats:
    """Return R with R Rᵀ the inverse of a positive definite matrix, scaled to a unit diagonal."""
    lengths = np.sqrt(np.maximum(np.diagonal(curvature), np.finfo(float).tiny))
    scaled = curvature / np.outer(lengths, lengths)
    try:
        factor = scipy.linalg.cholesky(scaled, check_finite=False)
        root = scipy.linalg.solve_triangular(factor, np.eye(len(lengths)), check_finite=False)
    except scipy.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        kept = values > 1e-15 * len(values) * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])
    return root / lengths[:, None]


def invert(curvature: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    root = root_of_inverse(curvature)
    return np.asarray(root @ root.T)
