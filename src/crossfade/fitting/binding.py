"""From a density and labelled rows to the sums every fit starts from: one pass over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade.blocks import block_sum
from crossfade.densities.base import Bound, Density
from crossfade.fitting.objective import LabelledRows

__all__ = ["bind", "summarise"]

#: Rows looked at for a rough centre before the pass.
_HEAD = 256


def summarise(density: Density, rows: LabelledRows, started: Density | None = None) -> tuple[Density, Any]:
    """Sum the rows by class in one pass.

    Parameters
    ----------
    density : Density
        Unbound.
    rows : LabelledRows
    started : Density, optional
        What an earlier call returned: its reference point is used again, so that the summaries
        can be added (``partial_fit``).

    Returns
    -------
    started : Density
        The density with its reference point.
    summary : tuple of ndarray
        Additive over calls with the same `started`.
    """
    n = rows.n_samples
    if started is None:
        head = np.unique(np.linspace(0, n - 1, min(n, _HEAD)).astype(np.int64))
        started = density.begin(rows.block(head))
    begun = started

    def block(span: slice) -> Any:
        return begun.summary(
            rows.block(span), rows.codes[span], rows.block_weights(span), rows.n_classes
        )

    return begun, block_sum(block, n)


def bind(density: Density, rows: LabelledRows) -> Bound:
    """Return the density bound to the rows, with counts, sums and prior.

    Parameters
    ----------
    density : Density
        Unbound; not changed.
    rows : LabelledRows

    Returns
    -------
    Bound
    """
    started, summary = summarise(density, rows)
    return started.bind(summary)
