"""Scores of one test row, as compiled curves add them up.

Class scores are kept as differences to class 0, K - 1 of them.
"""

from __future__ import annotations

import math

from crossfade._compiled import kernel
from crossfade._typing import Floats

#: A probability of zero given to what happened counts as this.
_SMALLEST = 2.220446049250313e-16


@kernel()
def add_scores(differences: Floats, truth: int, out: Floats) -> None:
    """Add one test row's log-loss, Brier score and error to `out`."""
    top, best = 0.0, 0
    for k in range(differences.shape[0]):
        if differences[k] > top:
            top, best = differences[k], k + 1
    total = math.exp(-top)
    for k in range(differences.shape[0]):
        total += math.exp(differences[k] - top)
    own = math.exp((differences[truth - 1] if truth > 0 else 0.0) - top) / total
    squares = (math.exp(-top) / total) ** 2
    for k in range(differences.shape[0]):
        squares += (math.exp(differences[k] - top) / total) ** 2
    out[0] -= math.log(max(own, _SMALLEST))
    out[1] += squares - 2.0 * own + 1.0
    out[2] += 0.0 if best == truth else 1.0
