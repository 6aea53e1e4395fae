"""Do columns look as their densities say? Probability integral transforms of rows out of fold.

A number's transform is the share of its class's density below it, drawn evenly from what a jump of
the density leaves open (Smith 1985; Czado, Gneiting & Held 2009). If the density is true, the
transforms are uniform. Whatever the density, they are found from draws of it: a number's rank among
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from crossfade._typing import Floats

_BINS = 10

#: Standard errors by which a moment must differ to be named.
_CLEAR = 2.0


def transforms(x: Floats, drawn: Floats, rng: np.random.Generator) -> Floats:
    """Return where numbers lie in a density of which there are draws, strictly within (0, 1).

    Shapes: x (n_rows,); drawn (n_draws,); → (n_rows,).
    """
    order = np.sort(drawn)
    below, upto = np.searchsorted(order, x, "left"), np.searchsorted(order, x, "right")
    # The number itself is one more among its equals: under the density its rank is uniform.
    found: Floats = (below + rng.random(x.size) * (upto - below + 1)) / (drawn.size + 1)
    return found


def anderson_darling(u: Floats) -> float:
    """Return A² of transforms against the uniform distribution (Anderson & Darling 1952)."""
    n, u = u.size, np.sort(u)
    weights = 2.0 * np.arange(1, n + 1) - 1.0
    return float(-n - weights @ (np.log(u) + np.log1p(-u[::-1])) / n)


@dataclass(frozen=True)
class ColumnFit:
    """How one column's numbers in one class lie in their density.

    Attributes
    ----------
    column, code : int
        Numbers of the column and of the class.
    n_rows : int
        Cells that were looked at.
    shares : ndarray of shape (10,)
        Shares of the transforms in ten equal bins; a tenth each if the density is true.
    statistic : float
        Anderson and Darling's A² of the transforms.
    complaint : str
        How they differ most clearly, in words, if they differ.
    p_value : float
        Of the hypothesis that the densities are true, all columns and classes counted: of tables
        for which they are, 5 % have one of .05 or less.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> y = np.repeat([0, 1], 200)
    >>> X = np.random.default_rng(0).exponential(size=(400, 1)) + y[:, None]
    >>> fits = NaiveBayes("gaussian", tradeoff=1).fit(X, y).density_fits()
    >>> [(fit.column, fit.code, fit.complaint) for fit in fits]
    [(0, 0, 'heavy right tail'), (0, 1, 'heavy right tail')]
    """

    column: int
    code: int
    n_rows: int
    shares: Floats
    statistic: float
    complaint: str
    p_value: float = 1.0


def column_fit(column: int, code: int, u: Floats) -> ColumnFit:
    """Return the record of a column's transforms in a class."""
    shares = np.bincount(np.minimum((u * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS)
    return ColumnFit(column, code, u.size, shares / u.size, anderson_darling(u), _complaint(u))


def _complaint(u: Floats) -> str:
    """Return what normal scores of the transforms show by more than two standard errors."""
    z, n = ndtri(u), u.size
    mean, spread = float(z.mean()), max(float(z.std()), 1e-9)
    skew = float(((z - mean) ** 3).mean()) / spread**3 / np.sqrt(6.0 / n)
    peak = (float(((z - mean) ** 4).mean()) / spread**4 - 3.0) / np.sqrt(24.0 / n)
    left, right = (np.count_nonzero(side > 2.0) for side in (np.median(z) - z, z - np.median(z)))
    if abs(skew) > max(_CLEAR, 0.5 * abs(peak)) or (
        peak > 0.0 and abs(skew) > _CLEAR and max(left, right) > 3 * min(left, right)
    ):
        return f"heavy {'right' if skew > 0 else 'left'} tail"
    if abs(peak) > _CLEAR:
        return "heavy tails" if peak > 0 else "light tails, or several groups of values"
    wide = (spread**2 - 1.0) / np.sqrt(2.0 / n)
    if abs(wide) > _CLEAR:
        return f"values spread {'more' if wide > 0 else 'less'} than it says"
    if abs(mean) * np.sqrt(n) > _CLEAR:
        return f"values {'higher' if mean > 0 else 'lower'} than it says"
    return "another shape"
