"""Sums of powers over rows, and the moments they make."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from crossfade._typing import Floats
from crossfade.errors import DomainError

#: One by the least standard deviation whose fourth power is a normal number.
_LARGEST_INVERSE: Final = 1e75


class PowerSums(NamedTuple):
    """Weighted sums over rows of powers of u = x - shift: by column, or by pair of columns."""

    weight: Any
    first: Floats
    second: Floats
    third: Floats
    fourth: Floats
    pairs: Floats | None = None


def fourth_moments(sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
    """Return E z⁴ by column, z = (u - offset) · inverse; zero where nothing was summed."""
    _refuse_small(inverse)
    n = np.maximum(sums.weight, np.finfo(float).tiny)
    rest = offset * (1.5 * sums.second - offset * (sums.first - 0.25 * n * offset))
    moments: Floats = (sums.fourth - 4.0 * offset * (sums.third - rest)) / n
    return moments * inverse**4


def mean_squared_products(sums: PowerSums, offset: Floats, inverse: Floats) -> Floats:
    """Return E z_i² z_j² for all pairs of columns, z = (u - offset) · inverse."""
    _refuse_small(inverse)
    mi, mj = offset[:, None], offset
    second = sums.second if sums.pairs is None else sums.pairs
    squares = np.diagonal(second)
    total = (
        sums.fourth
        - 2.0 * (mj * sums.third + mi * sums.third.T)
        + mj**2 * squares[:, None]
        + mi**2 * squares
        + 4.0 * mi * mj * second
        - 2.0 * mi * mj * (mj * sums.first[:, None] + mi * sums.first)
        + sums.weight * mi**2 * mj**2
    )
    moments: Floats = total / np.maximum(sums.weight, np.finfo(float).tiny)
    return moments * inverse[:, None] ** 2 * inverse**2


def _refuse_small(inverse: Floats) -> None:
    """Refuse columns whose fourth powers vanish; `inverse` is one by their standard deviations."""
    small = inverse > _LARGEST_INVERSE
    if small.any():
        column = int(np.argmax(small))
        raise DomainError(
            (column,),
            f"numbers that spread by {1.0 / _LARGEST_INVERSE:g} or more",
            float(1.0 / inverse[column]),
            "change the column's unit",
        )
