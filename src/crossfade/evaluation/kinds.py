"""Kinds of columns, as compiled curves know them."""

from __future__ import annotations

from typing import Final

GAUSSIAN: Final = 0
SHARED_GAUSSIAN: Final = 1
BERNOULLI: Final = 2
POISSON: Final = 3
CATEGORICAL: Final = 4
