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
    passes = objective.passes
    lam, k = objective.tradeoff, passes.n_classes
    H = np.zeros((passes.n_parameters, passes.n_parameters))
    log_z_gradient = np.zeros(passes.n_parameters)
    partition_weight = np.zeros_like(passes.missing_counts)
    if lam > 0.0:
        partition_weight -= objective.lost(theta)
    if lam < 1.0:
        lost = add_row_curvature(passes, H, theta, share, 1.0 - lam)
        if passes.has_missing:
            partition_weight += (1.0 - lam) * lost
        penalty = (1.0 - lam) * objective.penalty * (np.eye(k) - 1.0 / k)
        _of_same_statistic(passes, H)[:] += penalty[:, :, None]
    if lam > 0.0:
        at = passes.at(theta)
        inner = passes.density.hessian(at.natural)
        log_terms = passes.split(theta)[1] + at.partition.sum(axis=1)
        weight = np.exp(log_terms - np.logaddexp.reduce(log_terms))
        total = passes.total * lam - rows_less
        partition_weight += total * weight[:, None] + lam * passes.bound.prior_counts
        columns = class_columns(passes, at.slope)
        log_z_gradient = columns.T @ weight
        # The covariance over classes of the gradients of c_k + A(η_k).
        columns -= weight @ columns
        columns *= np.sqrt(total * weight)[:, None]
        H += columns.T @ columns
        _add_partition_curvature(passes, H, inner, np.maximum(partition_weight, 0.0))
    _pin(passes, H, every_class=lam == 0.0)
    if (partition_weight < 0.0).any():
        less = np.zeros_like(H)
        _add_partition_curvature(passes, less, inner, np.maximum(-partition_weight, 0.0))
        H -= less
        lowest = _lowest_eigenvalue(H) if shifted else 0.0
        if lowest < 0.0:
            # A step of about the length at which the quadratic model can still be believed.
            H[np.diag_indices_from(H)] -= 2.0 * lowest
    return H, log_z_gradient


def class_columns(passes: RowPasses, slope: Floats) -> Floats:
    """Return the gradients of c_k + A(η_k), one row per class, shape (K, n_parameters)."""
    k, p = passes.n_classes, passes.n_free
    columns = np.zeros((k, passes.n_parameters))
    columns[:, : k * p].reshape(k, k, p)[np.arange(k), np.arange(k)] = slope[:, passes.free]
    columns[np.arange(k), k * p + np.arange(k)] = 1.0
    columns[:, k * p + k :] = slope[:, passes.tied]
    return columns


def _add_partition_curvature(passes: RowPasses, H: Floats, inner: Floats, weight: Floats) -> None:
    """Add Σ_kf weight_kf ∇²A_f(η_k) to H."""
    k, p = passes.n_classes, passes.n_free
    root = np.sqrt(weight).take(passes.factors, axis=1) / passes.scale
    of_weights, ties = _of_classes(H, k, p), slice(k * p + k, None)
    # As many classes at a time as stay in cache.
    some = max(1, _IN_CACHE // max(root.shape[1] ** 2, 1))
    for first in range(0, k, some):
        own = slice(first, min(first + some, k))
        scaled = inner[own] * root[own, :, None]
        scaled *= root[own, None, :]
        if not isinstance(passes.free_places, slice):  # tied statistics last
            scaled = scaled[:, passes.free_first[:, None], passes.free_first]
        of_weights[own] += scaled[:, :p, :p]
        if passes.n_tied:
            place, cross = slice(own.start * p, own.stop * p), scaled[:, :p, p:]
            H[place, ties] += cross.reshape(-1, passes.n_tied)
            H[ties, place] += cross.reshape(-1, passes.n_tied).T
            H[ties, ties] += scaled[:, p:, p:].sum(axis=0)


def _of_classes(H: Floats, k: int, p: int) -> Floats:
    """Return a view of H between the weights of a class, by class, (K, p, p)."""
    down, right = H.strides
    return np.ndarray((k, p, p), H.dtype, H, 0, (p * (down + right), down, right))


def _of_same_statistic(passes: RowPasses, H: Floats) -> Floats:
    """Return a view of H between classes' weights of the same statistic, (K, K, p)."""
    k, p = passes.n_classes, passes.n_free
    down, right = H.strides
    return np.ndarray((k, k, p), H.dtype, H, 0, (p * down, p * right, down + right))


def _pin(passes: RowPasses, H: Floats, *, every_class: bool) -> None:
    """Give the directions that change nothing a curvature, so that H can be factorised.

    They carry no gradient: adding a constant to every c_k; at λ = 0 (`every_class`) also adding
    one vector to every class's weights, and the tied weights.
    """
    k, p = passes.n_classes, passes.n_free
    size = max(float(np.trace(H)) / max(H.shape[0], 1), 1e-300)
    H[k * p : k * p + k, k * p : k * p + k] += size / k
    if every_class:
        _of_same_statistic(passes, H)[:] += size / k
        tied = np.arange(k * p + k, H.shape[0])
        H[tied, tied] += size


def _lowest_eigenvalue(H: Floats) -> float:
    """Return the lowest eigenvalue of a symmetric matrix, or zero where none is below."""
    if scipy.linalg.lapack.dpotrf(H, lower=1)[1] == 0:
        return 0.0
    values = scipy.linalg.eigh(H, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)
    return min(float(values[0]), 0.0)
