"""Columns of one value, or of none: they say nothing."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.densities.univariate import Univariate


class Constant(Univariate):
    """Columns that had one value in all rows of fit, or no cell: point masses without statistics.

    Whatever comes later, they say nothing about the class, and draws return the value: what a
    :class:`~crossfade.densities.Gaussian` makes of such a column, but at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.densities import Constant
    >>> density = Constant().begin(np.full((3, 1), 7.0))
    >>> density.n_statistics
    0
    >>> density.log_density(np.array([[7.0], [8.0]]), np.zeros((2, 0)))
    array([[0., 0.],
           [0., 0.]])
    """

    n_column_statistics: ClassVar[int] = 0
    default_mean: ClassVar[tuple[float, ...]] = ()

    _value: Floats

    @property
    def idle(self) -> NDArray[np.bool_]:
        return np.ones(self.n_features, dtype=bool)

    def begin(self, head: Floats, *, scales: bool = True) -> Self:
        new = super().begin(head, scales=scales)
        value = np.fmax.reduce(head, axis=0, initial=-np.inf)
        new._value = np.where(np.isfinite(value), value, 0.0)
        return new

    def column_statistics(self, x: Floats) -> Floats:
        return np.zeros((*x.shape, 0))

    def column_log_partition(self, eta: Floats) -> Floats:
        return np.zeros(eta.shape[:-1])

    def column_mean(self, eta: Floats) -> Floats:
        return np.zeros_like(eta)

    def column_covariance(self, eta: Floats) -> Floats:
        return np.zeros((*eta.shape, 0))

    def column_natural(self, mean: Floats) -> Floats:
        return np.zeros_like(mean)

    def column_sample(self, eta: Floats, size: int, rng: np.random.Generator) -> Floats:
        return np.tile(self._value, (size, 1))
