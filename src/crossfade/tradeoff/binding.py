"""From a density and labelled rows to the sums every fit starts from: one pass over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade.blocks import BLOCK_ROWS, block_sum
from crossfade.densities.base import Bound, Density, reference_rows
from crossfade.tradeoff.labelled_rows import LabelledRows

__all__ = ["bind", "summarise"]

#: Doubles in a block: enough rows of each class for their products to be fast.
_BLOCK_DOUBLES = 400_000


def summarise(
    density: Density,
    rows: LabelledRows,
    *,
    started: Density | None = None,
    scales: bool = True,
) -> tuple[Density, Any]:
    """Sum the rows by class in one pass."""
    begun = started
    if begun is None:
        begun = density.begin(reference_rows(rows.X).astype(float), scales=scales)

    def block(span: slice) -> Any:
        return begun.summary(
            rows.block(span), rows.codes[span], rows.block_weights(span), rows.n_classes
        )

    block_rows = int(np.clip(_BLOCK_DOUBLES // max(rows.X.shape[1], 1), BLOCK_ROWS, 8 * BLOCK_ROWS))
    return begun, block_sum(block, rows.n_samples, block_rows=block_rows)


def bind(density: Density, rows: LabelledRows) -> Bound:
    """Return the density bound to the rows, with counts, sums and prior."""
    started, summary = summarise(density, rows)
    return started.bind(summary)
