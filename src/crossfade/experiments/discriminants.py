"""The inputs of Bouchard & Triggs (2004), section 5: discriminant directions, then components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers

__all__ = ["DiscriminantInputs"]

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

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.experiments.discriminants import DiscriminantInputs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.normal(size=(100, 6)) + 2 * y[:, None]
    >>> Z = DiscriminantInputs.of(X, y, 4)(X)
    >>> Z.shape, round(float(np.mean([Z[y == k, 0].var() for k in (0, 1)])), 6)
    ((100, 4), 1.0)
    """

    mean: Floats
    scale: Floats
    directions: Floats

    @classmethod
    def of(cls, X: Floats, codes: Integers, number: int) -> Self:
        """Return the inputs that training rows determine.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_columns)
        codes : ndarray of shape (n_samples,)
            Classes 0 … K-1, each with a row.
        number : int
            Inputs in all: the first min(K - 1, number) are discriminant directions with unit
            within-class variance, uncorrelated within classes; the others are the leading
            principal components, at their own scale, of what the standardised columns have
            besides these directions.
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
