"""Branch-free exp and log1p for compiled loops: an error of two units in the last place."""

from __future__ import annotations

import numpy as np

from crossfade._compiled import FUSED, kernel

#: log 2 in two parts, the first with so few digits that its multiples by whole numbers are exact.
_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LOG_2_INVERSE = 1.4426950408889634

#: Where exp leaves the normal numbers: zero is returned below, infinity above.
_LOWEST, _HIGHEST = -708.0, 709.0


@kernel(inline="always", fastmath=FUSED)
def exp(x: float) -> float:
    """Return exp(x), zero below -708: 2^k times a Taylor polynomial in |r| ≤ (log 2)/2."""
    bounded = x if x > _LOWEST else _LOWEST
    bounded = bounded if bounded < _HIGHEST else _HIGHEST
    k = np.floor(bounded * _LOG_2_INVERSE + 0.5)
    r = (bounded - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    result = p * power if x >= _LOWEST else 0.0
    result = result if x <= _HIGHEST else np.inf
    return result if x == x else x


@kernel(inline="always", fastmath=FUSED)
def log1p(u: float) -> float:
    """Return log(1+u) for 0 ≤ u ≤ 1: twice the series of artanh at u/(2+u) ≤ 1/3."""
    s = u / (2.0 + u)
    z = s * s
    p = 1.0 / 35.0
    p = p * z + 1.0 / 33.0
    p = p * z + 1.0 / 31.0
    p = p * z + 1.0 / 29.0
    p = p * z + 1.0 / 27.0
    p = p * z + 1.0 / 25.0
    p = p * z + 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    return 2.0 * (s + s * z * p)
