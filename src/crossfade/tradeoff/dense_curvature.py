"""The Hessian of the tradeoff objective as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.tradeoff.formed_curvature import add_row_curvature
from crossfade.tradeoff.passes import RowPasses

if TYPE_CHECKING:
    from crossfade.tradeoff.objective import TradeoffObjective

#: Doubles of a part of a Hessian that stay in cache.
_IN_CACHE = 32_768


def dense_curvature(
    objective: TradeoffObjective,
    theta: Floats,
    share: float,
    rows_less: float = 0.0,
    *,
    shifted: bool = True,
) -> tuple[Floats, Floats]:
    """Return the Hessian, log Z counted for `rows_less`/λ rows less, and ∇ log Z.

    Where missing cells make it indefinite, it is `shifted` to be definite.
    """
    passes, lam = objective.passes, objective.tradeoff
    H = np.zeros((passes.n_parameters, passes.n_parameters))
    weight = np.zeros_like(passes.missing_counts)
    if lam > 0.0:
        weight -= objective.lost(theta)
    if lam < 1.0:
        lost = add_row_curvature(passes, H, theta, share, 1.0 - lam)
        if passes.has_missing:
            weight += (1.0 - lam) * lost
    terms, log_z_gradient = None, np.zeros(passes.n_parameters)
    if lam > 0.0:
        at = passes.at(theta)
        log_terms = passes.split(theta)[1] + at.partition.sum(axis=1)
        shares = np.exp(log_terms - np.logaddexp.reduce(log_terms))
        total = passes.total * lam - rows_less
        weight += total * shares[:, None] + lam * passes.bound.prior_counts
        log_z_gradient = shares @ _class_columns(passes, at.slope[None])[0]
        inner = passes.density.hessian(at.natural)
        terms = at.slope[None], log_terms[None], inner[None], weight[None]
    of_one = np.array([(1.0 - lam) * objective.penalty]), np.array([passes.total * lam - rows_less])
    less = add_curvature_of_densities(passes, H[None], *of_one, terms)
    if less is not None:
        H = definite(H - less[0]) if shifted else H - less[0]
    return H, log_z_gradient


def add_curvature_of_densities(
    passes: RowPasses,
    H: Floats,
    penalty: Floats,
    total: Floats,
    terms: tuple[Floats, Floats, Floats, Floats] | None,
    scale: Floats | None = None,
) -> Floats | None:
    """Add all but the rows' curvature to P Hessians; return what is to be taken off again, if any.

    Takes `penalty`, and `total` (P,), λ times the rows' weight; `terms` where densities have a
    part: slopes of A (P, K, n_statistics), log p (P, K), its curvature (P, K, n_statistics,
    n_statistics), and the weight of each factor's (P, K, m); the statistics' `scale` (P, 1,
    n_statistics), where it differs.
    """
    k, scale = passes.n_classes, passes.scale if scale is None else scale
    _of_same_statistic(passes, H)[:] += (penalty[:, None, None] * (np.eye(k) - 1.0 / k))[..., None]
    less = None
    if terms is not None:
        slope, log_terms, inner, weight = terms
        shares = np.exp(log_terms - np.logaddexp.reduce(log_terms, axis=1)[:, None])
        # The covariance over classes of the gradients of c_k + A(η_k).
        columns = _class_columns(passes, slope)
        columns -= shares[:, None] @ columns
        columns *= np.sqrt(total[:, None] * shares)[:, :, None]
        H += columns.swapaxes(1, 2) @ columns
        _add_partition_curvature(passes, H, inner, np.maximum(weight, 0.0), scale)
    _pin(passes, H, every_class=terms is None)
    if terms is not None and (weight < 0.0).any():
        less = np.zeros_like(H)
        _add_partition_curvature(passes, less, inner, np.maximum(-weight, 0.0), scale)
    return less


def definite(H: Floats) -> Floats:
    """Return a Hessian shifted to be definite, if it is not."""
    lowest = _lowest_eigenvalue(H)
    if lowest < 0.0:
        # A step of about the length at which the quadratic model can still be believed.
        H[np.diag_indices_from(H)] -= 2.0 * lowest
    return H


def class_columns(passes: RowPasses, slope: Floats) -> Floats:
    """Return the gradients of c_k + A(η_k), one row per class, shape (K, n_parameters)."""
    return _class_columns(passes, slope[None])[0]


def _class_columns(passes: RowPasses, slope: Floats) -> Floats:
    k, p = passes.n_classes, passes.n_free
    columns = np.zeros((len(slope), k, passes.n_parameters))
    for c in range(k):
        columns[:, c, c * p : c * p + p] = slope[:, c, passes.free_places]
        columns[:, c, k * p + c] = 1.0
    if passes.n_tied:
        columns[:, :, k * p + k :] = slope[:, :, passes.tied_places]
    return columns


def _add_partition_curvature(
    passes: RowPasses, H: Floats, inner: Floats, weight: Floats, scale: Floats
) -> None:
    """Add Σ_kf weight_kf ∇²A_f(η_k) to each of P Hessians."""
    k, p = passes.n_classes, passes.n_free
    root = np.sqrt(weight).take(passes.factors, axis=2) / scale
    of_weights, ties = _of_classes(H, k, p), slice(k * p + k, None)
    # As many classes at a time as stay in cache.
    some = max(1, _IN_CACHE // max(len(H) * root.shape[2] ** 2, 1))
    for first in range(0, k, some):
        own = slice(first, min(first + some, k))
        scaled = inner[:, own] * root[:, own, :, None]
        scaled *= root[:, own, None, :]
        if not isinstance(passes.free_places, slice):  # tied statistics last
            scaled = scaled[:, :, passes.free_first[:, None], passes.free_first]
        of_weights[:, own] += scaled[:, :, :p, :p]
        if passes.n_tied:
            place, cross = slice(own.start * p, own.stop * p), scaled[:, :, :p, p:]
            cross = cross.reshape(len(H), -1, passes.n_tied)
            H[:, place, ties] += cross
            H[:, ties, place] += cross.swapaxes(1, 2)
            H[:, ties, ties] += scaled[:, :, p:, p:].sum(axis=1)


def _of_classes(H: Floats, k: int, p: int) -> Floats:
    """Return a view of Hessians between the weights of a class, by class, (P, K, p, p)."""
    each, down, right = H.strides
    shape = len(H), k, p, p
    return np.ndarray(shape, H.dtype, H, 0, (each, p * (down + right), down, right))


def _of_same_statistic(passes: RowPasses, H: Floats) -> Floats:
    """Return a view of Hessians between classes' weights of one statistic, (P, K, K, p)."""
    k, p = passes.n_classes, passes.n_free
    each, down, right = H.strides
    shape = len(H), k, k, p
    return np.ndarray(shape, H.dtype, H, 0, (each, p * down, p * right, down + right))


def _pin(passes: RowPasses, H: Floats, *, every_class: bool) -> None:
    """Give the directions that change nothing a curvature, so that H can be factorised.

    They carry no gradient: adding a constant to every c_k; at λ = 0 (`every_class`) also adding
    one vector to every class's weights, and the tied weights.
    """
    k, p = passes.n_classes, passes.n_free
    traces = np.einsum("gii->g", H) / max(H.shape[1], 1)
    size = np.maximum(traces, 1e-300)
    H[:, k * p : k * p + k, k * p : k * p + k] += (size / k)[:, None, None]
    if every_class:
        _of_same_statistic(passes, H)[:] += (size / k)[:, None, None, None]
        tied = np.arange(k * p + k, H.shape[1])
        H[:, tied, tied] += size[:, None]


def _lowest_eigenvalue(H: Floats) -> float:
    """Return the lowest eigenvalue of a symmetric matrix, or zero where none is below."""
    if scipy.linalg.lapack.dpotrf(H, lower=1)[1] == 0:
        return 0.0
    values = scipy.linalg.eigh(H, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)
    return min(float(values[0]), 0.0)
