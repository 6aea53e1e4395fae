"""Samples of rows that show whatever is rare: telling rows of the design, rare responses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.glm.data import Data
from crossfade.glm.design import Design
from crossfade.optim.newton import sample_rows

#: Rows of one kind of response (failures only, say) up to which all of them are in every sample.
_RARE = 1000


def sample_data(
    design: Design, data: Data, kinds: NDArray[np.integer], share: float
) -> tuple[Integers, Data, Design]:
    """Return a share of the rows, with all telling ones and rare `kinds` (n_rows,), and which."""
    always: NDArray[np.bool_] = np.zeros(data.n_rows, dtype=bool)
    counts = np.bincount(kinds)
    for kind in np.flatnonzero((counts > 0) & (counts <= _RARE)):
        always |= kinds == kind
    if design.telling is not None:
        always[design.telling] = True
    drawn = sample_rows(data.n_rows, share)
    drawn = drawn[~always[drawn]]
    rows = np.concatenate([np.flatnonzero(always), drawn])
    factors: Floats = np.ones(len(rows))
    if len(drawn):
        factors[-len(drawn) :] = (data.n_rows - int(always.sum())) / len(drawn)
    some = data.take(rows, factors)
    return rows, some, design.with_rows(some.X)
