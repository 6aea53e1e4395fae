"""From a density and labelled rows to the sums every fit starts from: one pass over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import BLOCK_ROWS, block_sum
from crossfade.densities.base import Bound, Density, reference_rows
from crossfade.tradeoff.labelled_rows import LabelledRows

__all__ = ["bind", "has_missing", "has_missing_cells", "summarise"]

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
        density = density.informed(rows.X, rows.weights)
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


def has_missing(rows: LabelledRows, counts: Floats | None) -> bool:
    """Return whether a cell is missing: by the counts where they are exact, else by a look."""
    if counts is not None and rows.weights is None:
        return bool((counts < rows.class_weights[:, None]).any())
    return has_missing_cells(rows.X)


def has_missing_cells(X: NDArray[Any]) -> bool:
    def block(rows: slice) -> float:
        flat = np.ascontiguousarray(X[rows], dtype=np.float64).ravel()
        return float(np.isnan(flat @ flat))

    with np.errstate(over="ignore"):
        return block_sum(block, X.shape[0]) > 0.0
