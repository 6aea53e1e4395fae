"""Names of the arrays and callbacks that the whole package passes around."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Told (steps done, steps in all, what is being done).
Progress = Callable[[int, int, str], None]
