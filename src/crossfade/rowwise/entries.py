"""Entries of sparse rows added up by column."""

from __future__ import annotations

import numpy as np

from crossfade._compiled import kernel
from crossfade._typing import Floats, Integers

__all__ = ["add_entries"]

#: Entries below which NumPy is used: loading the compiler takes longer than they do.
FEW_ENTRIES = 1 << 18


def add_entries_numpy(
    data: Floats, indices: Integers, indptr: Integers, rows: Integers, weights: Floats, out: Floats
) -> None:
    """Specification of :func:`add_entries`; no entry in `weights` stands for all one."""
    sizes = indptr[rows + 1] - indptr[rows]
    entries = np.arange(sizes.sum()) + np.repeat(indptr[rows] - np.cumsum(sizes) + sizes, sizes)
    values = data[entries]
    if weights.size:
        values = values * np.repeat(weights[rows], sizes)
    out += np.bincount(indices[entries], values, minlength=out.size)


@kernel(
    "V I4 I4 I V V!",
    "V I I I V V!",
    twin=add_entries_numpy,
    when=lambda data, *_: data.size >= FEW_ENTRIES,
)
def add_entries(
    data: Floats, indices: Integers, indptr: Integers, rows: Integers, weights: Floats, out: Floats
) -> None:
    """Add some rows of a CSR matrix, each times its weight, to `out`.

    Shapes: rows (n_some,); weights (n_rows,) or none; out (n_columns,).
    """
    for r in range(rows.size):
        i = rows[r]
        if weights.size:
            weight = weights[i]
            for e in range(indptr[i], indptr[i + 1]):
                out[indices[e]] += weight * data[e]
        else:
            for e in range(indptr[i], indptr[i + 1]):
                out[indices[e]] += data[e]
