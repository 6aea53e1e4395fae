"""Columns in standard units, as Gaussians of one column and of many have them."""

from __future__ import annotations

import numpy as np

from crossfade._typing import Floats


class Standardised:
    """A density of z = (x - location) / scale; z is 0 where a column is constant."""

    _location: Floats
    _scale: Floats
    _inverse_scale: Floats

    @property
    def standardisation(self) -> tuple[Floats, Floats]:
        """Location and inverse scale, which is 0 where a column is constant, both (d,)."""
        return self._location, self._inverse_scale

    @property
    def _spread(self) -> Floats:
        """Scale, 0 where a column is constant, (d,)."""
        return np.where(self._inverse_scale > 0, self._scale, 0.0)

    def _standard(self, X: Floats) -> Floats:
        """Return z, NaN where a column that varies is missing, (n_rows, d)."""
        return np.where(self._inverse_scale > 0, (X - self._location) * self._inverse_scale, 0.0)

    def _in_own_units(self, z: Floats) -> Floats:
        return self._location + self._spread * z
