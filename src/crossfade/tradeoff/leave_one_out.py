"""Every row's score by the model fitted without it, at the price of one factorisation.

At the optimum θ with Hessian H, leaving row i out moves θ by one Newton step,
θ_{-i} ≈ θ - H_{-i}⁻¹ g_i, with g_i the row's own gradient and H_{-i} the Hessian without its part.
The row's part is λ ∇² log Z, the same for every row, and (1-λ) J_i'(diag τ - ττ')J_i of rank K-1,
which the Woodbury identity takes out of the inverse. (Rad & Maleki 2020 derive this for penalised
regression; the joint part is what the tradeoff adds.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block, single_threaded_blas
from crossfade.optim.newton import factorise
from crossfade.tradeoff.objective import TradeoffObjective

#: A row whose leverage reaches this is scored with this: beyond it the one step is meaningless.
_LARGEST_LEVERAGE = 0.99


@dataclass(frozen=True)
class LeftOut:
    """Out-of-sample scores and how far they can be trusted.

    `scores` (n_rows, n_classes): Log-posteriors up to a term common to the classes, the last
        class's being zero.
    `fitted` (n_rows, n_classes): The same by the fit on all rows.
    `leverage` (n_rows,): How much of a row's fit is due to the row itself; near 1 the approximation
        fails.
    """

    scores: Floats
    fitted: Floats
    leverage: Floats


def approximate_leave_one_out(
    objective: TradeoffObjective,
    theta: Floats,
    index: Integers | None = None,
    *,
    share: float = 1.0,
) -> LeftOut:
    """Score rows by the model fitted without them, to first order.

    Shapes: theta (n_parameters,).

    One unit of weight is left out of a row, or all of it if it has less: a row of weight three
    then counts as three equal rows.
    """
    lam, k = objective.tradeoff, objective.passes.n_classes
    with single_threaded_blas():  # threads would wait for each other over such small products
        H, log_z_gradient = objective.leave_one_out_curvature(theta, share)
        factor = factorise(H)
        maps = objective.passes.coefficient_maps(theta)
        eta, offset, absent = objective.passes.row_coefficients(theta)
        last = maps[-1]
        contrasts = [maps[a] - last for a in range(k - 1)]
        half = [scipy.linalg.cho_solve(factor, c.T, check_finite=False).T for c in contrasts]
        forms = {(a, b): half[a] @ contrasts[b].T for a in range(k - 1) for b in range(a, k - 1)}
        towards_last = [half[a] @ last.T for a in range(k - 1)]
        normaliser = np.array([half[a] @ log_z_gradient for a in range(k - 1)])
    # The scores leave out what is tied, all classes having it in common; the joint part of a
    # row's gradient does not.
    with_tied = lam > 0.0 and objective.passes.n_tied > 0
    towards_tied = [h[:, h.shape[1] - objective.passes.n_tied :] for h in half]
    n = objective.rows.n_samples if index is None else index.size
    scores, fitted = np.zeros((n, k)), np.zeros((n, k))
    leverage = np.empty(n)

    def block(span: slice) -> None:
        rows = span if index is None else index[span]
        Z, posterior, weights = objective.passes.design(rows, eta, offset, absent)
        unit = np.ones(Z.shape[0]) if weights is None else np.minimum(weights, 1.0)
        tau = posterior[:, :-1]
        Q = np.empty((Z.shape[0], k - 1, k - 1))
        for (a, b), form in forms.items():
            Q[:, a, b] = Q[:, b, a] = np.einsum("ij,ij->i", Z @ form, Z)
        codes = objective.rows.codes[rows]
        own = (codes[:, None] == np.arange(k - 1)).astype(np.float64) - (1.0 - lam) * tau
        change = np.einsum("iab,ib->ia", Q, own)
        if lam > 0.0:
            for a in range(k - 1):
                change[:, a] += lam * np.einsum("ij,ij->i", Z @ towards_last[a], Z)
            change -= lam * (Z @ normaliser.T)
        if with_tied:
            statistics = objective.passes.tied_statistics(rows)
            for a in range(k - 1):
                change[:, a] += lam * np.einsum("ij,ij->i", Z @ towards_tied[a], statistics)
        kept = (1.0 - lam) * unit
        change, leverage[span] = _without(Q, tau, kept, change)
        fitted[span, :-1] = np.log(np.maximum(tau, 1e-300)) - np.log(
            np.maximum(posterior[:, -1:], 1e-300)
        )
        scores[span, :-1] = fitted[span, :-1] - unit[:, None] * change

    for_each_block(block, n, block_rows=objective.passes.block_rows)
    return LeftOut(scores, fitted, leverage)


def _without(Q: Floats, tau: Floats, kept: Floats, change: Floats) -> tuple[Floats, Floats]:
    """Solve (I - κ Q V) x = change for every row, V = diag τ - ττ'; return x and the leverage."""
    if Q.shape[1] == 1:
        leverage = kept * Q[:, 0, 0] * tau[:, 0] * (1.0 - tau[:, 0])
        return change / (1.0 - np.minimum(leverage, _LARGEST_LEVERAGE))[:, None], leverage
    QV = Q * tau[:, None, :] - np.einsum("iab,ib,ic->iac", Q, tau, tau)
    QV *= kept[:, None, None]
    # The trace bounds the largest eigenvalue: a cheap, cautious leverage.
    leverage = np.einsum("iaa->i", QV)
    QV *= (np.minimum(leverage, _LARGEST_LEVERAGE) / np.maximum(leverage, 1e-300))[:, None, None]
    return np.linalg.solve(np.eye(Q.shape[1]) - QV, change[:, :, None])[:, :, 0], leverage
