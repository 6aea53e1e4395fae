"""Posteriors and their normalisers from the scores of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._compiled import FUSED, REORDERED, kernel
from crossfade._typing import Floats
from crossfade.rowwise.functions import exp, log1p

#: Rows below which NumPy is used: loading the compiler takes longer than they do.
FEW_ROWS = 512


#: Exponentials below which NumPy is used, of which the columns are few.
FEW_CELLS = 1 << 18


def many_rows(*arrays: NDArray[Any]) -> bool:
    """Return whether the first array has enough rows for compiled code."""
    return len(arrays[0]) >= FEW_ROWS


def two_classes_numpy(difference: Floats, log_sum: Floats) -> None:
    """Specification of :func:`two_classes`."""
    e = np.exp(-np.abs(difference))
    log_sum[:] = np.maximum(difference, 0.0) + np.log1p(e)
    difference[:] = np.where(difference > 0.0, 1.0, e) / (1.0 + e)


@kernel("V! V!", twin=two_classes_numpy, when=many_rows, fastmath=FUSED)
def two_classes(difference: Floats, log_sum: Floats) -> None:
    """Write log(1 + exp d) to `log_sum` and the first class's posterior over d.

    Shapes: difference (n_rows,); log_sum (n_rows,).
    """
    for i in range(difference.size):
        d = difference[i]
        e = exp(-abs(d))
        log_sum[i] = (d if d > 0.0 else 0.0) + log1p(e)
        difference[i] = (1.0 if d > 0.0 else e) / (1.0 + e)


def softmax_numpy(scores: Floats, log_sum: Floats, reference: bool) -> None:
    """Specification of :func:`softmax`."""
    top = scores.max(axis=1)
    if reference:
        top = np.maximum(top, 0.0)
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    if reference:
        total += np.exp(-top)
    scores /= total[:, None]
    log_sum[:] = top + np.log(total)


@kernel("M! V! b", twin=softmax_numpy, when=many_rows, fastmath=FUSED)
def softmax(scores: Floats, log_sum: Floats, reference: bool) -> None:
    """Write log Σ_k exp s_k to `log_sum` and the posteriors over the scores.

    Shapes: scores (n_rows, n_classes); log_sum (n_rows,). With `reference`, one more class, whose
    score is zero, is left out of them.
    """
    n_rows, n_classes = scores.shape
    for i in range(n_rows):
        top = 0.0 if reference else scores[i, 0]
        for k in range(n_classes):
            top = scores[i, k] if scores[i, k] > top else top
        for k in range(n_classes):
            scores[i, k] -= top
        log_sum[i] = top
    # All at once, so that it is done in vectors whatever the number of classes.
    flat = scores.reshape(-1)
    for j in range(flat.size):
        flat[j] = exp(flat[j])
    for i in range(n_rows):
        total = exp(-log_sum[i]) if reference else 0.0
        for k in range(n_classes):
            total += scores[i, k]
        inverse = 1.0 / total
        for k in range(n_classes):
            scores[i, k] *= inverse
        log_sum[i] += np.log(total)


def log_sums_numpy(values: Floats, sizes: Floats, out: Floats) -> None:
    """Specification of :func:`log_sums`."""
    top = values.max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.exp(values - top[:, None])
        terms *= sizes if sizes.size else 1.0
        out[:] = top + np.log(terms.sum(axis=1))


@kernel(
    "M V V!",
    twin=log_sums_numpy,
    when=lambda values, *_: values.size >= FEW_CELLS,
    fastmath=REORDERED,
)
def log_sums(values: Floats, sizes: Floats, out: Floats) -> None:
    """Write log Σ_j sizes_j exp v_kj to `out`; no entry in `sizes` stands for all one.

    Shapes: values (n_classes, n_words); sizes (n_words,) or none; out (n_classes,).
    """
    for k in range(values.shape[0]):
        top, total = values[k, 0], 0.0
        for j in range(values.shape[1]):
            top = values[k, j] if values[k, j] > top else top
        if sizes.size:
            for j in range(values.shape[1]):
                total += sizes[j] * exp(values[k, j] - top)
        else:
            for j in range(values.shape[1]):
                total += exp(values[k, j] - top)
        out[k] = top + np.log(total)
