"""Posteriors from scores, losses, weighted rows: a block's work beyond its matrix products.

Each function takes one block of rows and writes its results over arrays it is given. For all but a
few rows it is a compiled loop (:mod:`crossfade.rowwise.kernels`), whose specification is the NumPy
twin here: a dozen short array operations, between which threads would wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers

__all__ = [
    "Pass",
    "add_products",
    "add_products_numpy",
    "group_rows",
    "group_rows_numpy",
    "logistic_information",
    "logistic_information_numpy",
    "logistic_loss",
    "logistic_loss_numpy",
    "logistic_pass",
    "logistic_pass_numpy",
    "poisson_pass",
    "poisson_pass_numpy",
    "scale_rows",
    "scale_rows_numpy",
    "softmax",
    "softmax_numpy",
    "standardise_rows",
    "standardise_rows_numpy",
    "two_classes",
    "two_classes_numpy",
]


#: A pass over a block of rows for one kind of loss, as :func:`logistic_pass` is.
Pass = Callable[[Floats, Floats, float, Floats | None, Floats, Floats], tuple[float, float, Floats]]

#: Rows below which NumPy is used: loading the compiler takes longer than they do.
FEW_ROWS = 512


def _compilable(*arrays: NDArray[Any], dtype: Any = np.float64) -> bool:
    """Return whether the compiled loop takes these arrays as they are."""
    return arrays[0].shape[0] >= FEW_ROWS and all(
        a.dtype == dtype and a.flags.c_contiguous and a.flags.aligned for a in arrays
    )


def two_classes(difference: Floats, log_sum: Floats) -> None:
    """Write log(1 + exp d) to `log_sum` and the first class's posterior over d.

    Shapes: difference (n_rows,); log_sum (n_rows,).
    """
    if _compilable(difference, log_sum):
        from crossfade.rowwise import kernels

        kernels.two_classes(difference, log_sum)
    else:
        two_classes_numpy(difference, log_sum)


def softmax(scores: Floats, log_sum: Floats, reference: bool = False) -> None:
    """Write log Σ_k exp s_k to `log_sum` and the posteriors over the scores.

    Shapes: scores (n_rows, n_classes); log_sum (n_rows,).
    """
    if reference and scores.shape[1] == 1 and scores.flags.c_contiguous:
        two_classes(scores[:, 0], log_sum)
    elif _compilable(scores, log_sum):
        from crossfade.rowwise import kernels

        kernels.softmax(scores, log_sum, reference)
    else:
        softmax_numpy(scores, log_sum, reference)


def logistic_loss(
    eta: Floats, successes: Floats, trials: Floats, loss: Floats, slope: Floats
) -> None:
    """Write m log(1 + exp η) - y η to `loss` and its derivative m π(η) - y to `slope`.

    Shapes: eta, successes, trials (n_rows,); loss, slope (n_rows,).
    """
    trials = np.ascontiguousarray(trials)  # one number for all rows has no memory of its own
    if _compilable(eta, successes, trials, loss, slope):
        from crossfade.rowwise import kernels

        kernels.logistic_loss(eta, successes, trials, loss, slope)
    else:
        logistic_loss_numpy(eta, successes, trials, loss, slope)


def logistic_information(eta: Floats, trials: Floats) -> Floats:
    """Return m π(η)(1 - π(η)), the second derivative of the logistic loss.

    Shapes: eta, trials (n_rows,); → (n_rows,).
    """
    trials = np.ascontiguousarray(trials)
    if _compilable(eta, trials):
        from crossfade.rowwise import kernels

        out = np.empty(eta.shape)
        kernels.logistic_information(eta, trials, out)
        return out
    return logistic_information_numpy(eta, trials)


def logistic_pass(
    X: Floats,
    slopes: Floats,
    constant: float,
    offset: Floats | None,
    successes: Floats,
    trials: Floats,
) -> tuple[float, float, Floats]:
    """Return the logistic loss of η = X β + constant + offset over a block, and its sums.

    Shapes: X (n_rows, n_columns); slopes (n_columns,); offset (n_rows,); successes, trials
    (n_rows,); sums (n_columns,).
    """
    trials = np.ascontiguousarray(trials)
    shift = np.zeros(0) if offset is None else offset
    if _compilable(X, successes, trials, shift):
        from crossfade.rowwise import kernels

        sums = np.zeros(X.shape[1])
        value, total = kernels.logistic_pass(X, slopes, constant, shift, successes, trials, sums)
        return value, total, sums
    return logistic_pass_numpy(X, slopes, constant, shift, successes, trials)


def poisson_pass(
    X: Floats,
    slopes: Floats,
    constant: float,
    offset: Floats | None,
    counts: Floats,
    exposure: Floats,
) -> tuple[float, float, Floats]:
    """Return the Poisson loss of η = X β + constant + offset over a block, and its sums.

    Shapes: X (n_rows, n_columns); slopes (n_columns,); offset (n_rows,); counts, exposure
    (n_rows,); sums (n_columns,).
    """
    exposure = np.ascontiguousarray(exposure)
    shift = np.zeros(0) if offset is None else offset
    if _compilable(X, counts, exposure, shift):
        from crossfade.rowwise import kernels

        sums = np.zeros(X.shape[1])
        value, total = kernels.poisson_pass(X, slopes, constant, shift, counts, exposure, sums)
        return value, total, sums
    return poisson_pass_numpy(X, slopes, constant, shift, counts, exposure)


def scale_rows(X: NDArray[Any], factors: NDArray[Any], out: NDArray[Any]) -> None:
    """Write each row of X times its factor to `out`.

    Shapes: X (n_rows, n_columns); factors (n_rows,); out (n_rows, n_columns).
    """
    if _compilable(X, factors, out) or _compilable(X, factors, out, dtype=np.float32):
        from crossfade.rowwise import kernels

        kernels.scale_rows(X, factors, out)
    else:
        scale_rows_numpy(X, factors, out)


def scale_rows_numpy(X: NDArray[Any], factors: NDArray[Any], out: NDArray[Any]) -> None:
    """Specification of :func:`scale_rows`."""
    np.multiply(X, factors[:, None], out=out[:, : X.shape[1]])
    out[:, X.shape[1] :] = factors[:, None]


def standardise_rows(
    X: Floats, origin: Floats, inverse: Floats, factors: Floats, out: NDArray[Any]
) -> None:
    """Write each row of (X - origin) / scale times its factor to `out`.

    Shapes: X (n_rows, n_columns); origin, inverse (n_columns,); factors (n_rows,); out (n_rows,
    n_columns).
    """
    single = out.dtype == np.float32 and out.flags.c_contiguous
    if _compilable(X, origin, inverse, factors) and (single or _compilable(out)):
        from crossfade.rowwise import kernels

        kernels.standardise_rows(X, origin, inverse, factors, out)
    else:
        standardise_rows_numpy(X, origin, inverse, factors, out)


def standardise_rows_numpy(
    X: Floats, origin: Floats, inverse: Floats, factors: Floats, out: NDArray[Any]
) -> None:
    """Specification of :func:`standardise_rows`."""
    p = X.shape[1]
    np.multiply((X - origin) * inverse, factors[:, None], out=out[:, :p], casting="same_kind")
    out[:, p:] = factors[:, None]


def group_rows(
    X: Floats, codes: Integers, weights: Floats | None, shift: Floats, ends: Integers, out: Floats
) -> None:
    """Write the rows of X, shifted, to `out`: one class after the other, in their order.

    Shapes: X (n_rows, n_columns); codes (n_rows,); weights (n_rows,); shift (n_columns,); ends
    (n_classes,); out (n_rows, n_columns + 1).
    """
    w = np.zeros(0) if weights is None else np.asarray(weights, dtype=np.float64)
    if _compilable(X, w, shift, out) and codes.dtype == np.int64 and codes.flags.c_contiguous:
        from crossfade.rowwise import kernels

        kernels.group_rows(X, codes, w, shift, ends, out)
    else:
        group_rows_numpy(X, codes, w, shift, ends, out)


def group_rows_numpy(
    X: Floats, codes: Integers, weights: Floats, shift: Floats, ends: Integers, out: Floats
) -> None:
    """Specification of :func:`group_rows`; no entry in `weights` stands for all one."""
    order = np.argsort(codes, kind="stable")
    np.cumsum(np.bincount(codes, minlength=ends.size), out=ends)
    out[:, :-1] = X[order] - shift
    out[:, -1] = weights[order] if weights.size else 1.0


def add_products(images: Floats, Z: Floats, out: Floats) -> None:
    """Add each row's inner products of several images with the row itself to `out`.

    Shapes: images (n_rows, n_images * n_columns); Z (n_rows, n_columns); out (n_rows,
    n_images).
    """
    if _compilable(images, out) and Z.dtype == np.float64 and Z.flags.aligned:
        from crossfade.rowwise import kernels

        kernels.add_products(images, Z, out)
    else:
        add_products_numpy(images, Z, out)


def add_products_numpy(images: Floats, Z: Floats, out: Floats) -> None:
    """Specification of :func:`add_products`."""
    out += np.einsum("nkj,nj->nk", images.reshape(*out.shape, Z.shape[1]), Z)


def two_classes_numpy(difference: Floats, log_sum: Floats) -> None:
    """Specification of :func:`two_classes`."""
    e = np.exp(-np.abs(difference))
    log_sum[:] = np.maximum(difference, 0.0) + np.log1p(e)
    difference[:] = np.where(difference > 0.0, 1.0, e) / (1.0 + e)


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


def logistic_loss_numpy(
    eta: Floats, successes: Floats, trials: Floats, loss: Floats, slope: Floats
) -> None:
    """Specification of :func:`logistic_loss`."""
    small = np.exp(-np.abs(eta))
    tail = np.log1p(small)
    likely, unlikely = 1.0 / (1.0 + small), small / (1.0 + small)
    positive = eta >= 0.0
    failures = trials - successes
    # What was not counted costs nothing, at an infinite predictor neither.
    above = np.where((eta > 0.0) & (failures != 0.0), eta, 0.0)
    below = np.where((eta < 0.0) & (successes != 0.0), -eta, 0.0)
    loss[:] = failures * above + successes * below + trials * tail
    slope[:] = failures * np.where(positive, likely, unlikely) - successes * np.where(
        positive, unlikely, likely
    )


def logistic_information_numpy(eta: Floats, trials: Floats) -> Floats:
    """Specification of :func:`logistic_information`."""
    e = np.exp(-np.abs(eta))
    return trials * (e / np.square(1.0 + e))


def logistic_pass_numpy(
    X: Floats, slopes: Floats, constant: float, offset: Floats, successes: Floats, trials: Floats
) -> tuple[float, float, Floats]:
    """Specification of :func:`logistic_pass`; no entry in `offset` stands for none."""
    eta = X @ slopes + constant
    if offset.size:
        eta += offset
    loss, slope = np.empty_like(eta), np.empty_like(eta)
    logistic_loss_numpy(eta, successes, trials, loss, slope)
    return float(loss.sum()), float(slope.sum()), slope @ X


def poisson_pass_numpy(
    X: Floats, slopes: Floats, constant: float, offset: Floats, counts: Floats, exposure: Floats
) -> tuple[float, float, Floats]:
    """Specification of :func:`poisson_pass`; no entry in `offset` stands for none."""
    eta = X @ slopes + constant
    if offset.size:
        eta += offset
    rate = exposure * np.exp(eta)
    loss, slope = rate - counts * eta, rate - counts
    return float(loss.sum()), float(slope.sum()), slope @ X
