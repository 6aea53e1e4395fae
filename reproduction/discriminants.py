"""The inputs of Bouchard & Triggs (2004), section 5: discriminant directions, then components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers

#: Added to within-class variances of standardised columns: collinear columns have none.
_RIDGE = 1e-8


@dataclass(frozen=True)
class DiscriminantInputs:
    """Fisher's discriminant directions of training rows, completed by principal components.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_columns,)
    directions : ndarray of shape (n_columns, n_inputs)
        Of the standardised columns.
    """

    mean: Floats
    scale: Floats
    directions: Floats

    @classmethod
    def of(cls, X: Floats, codes: Integers, number: int) -> Self:
        """Return the inputs that training rows determine.

        Shapes: X (n_samples, n_columns); codes (n_samples,).
        """
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        Z = (X - mean) / scale
        centres = np.array([Z[codes == k].mean(axis=0) for k in range(int(codes.max()) + 1)])
        deviations = Z - centres[codes]
        within = deviations.T @ deviations / Z.shape[0] + _RIDGE * np.eye(Z.shape[1])
        between = centres[codes].T @ centres[codes] / Z.shape[0]
        # Eigenvectors of the pencil are scaled to V' within V = I.
        vectors = scipy.linalg.eigh(between, within)[1][:, ::-1]
        fisher = vectors[:, : min(centres.shape[0] - 1, number)]
        rest = number - fisher.shape[1]
        if rest > 0:
            basis = np.linalg.qr(fisher)[0]
            residual = Z - (Z @ basis) @ basis.T
            components = np.linalg.svd(residual, full_matrices=False)[2][:rest].T
            fisher = np.hstack([fisher, components])
        return cls(mean, scale, fisher)

    def __call__(self, X: Floats) -> Floats:
        """Return the inputs of rows, shape (n_samples, n_inputs)."""
        return np.ascontiguousarray(((X - self.mean) / self.scale) @ self.directions)
