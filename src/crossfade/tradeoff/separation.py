"""Whether the columns separate the classes, so that no discriminative optimum exists."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.optim.newton import factorise
from crossfade.tradeoff.grid import is_dense
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.passes import RowPasses


def is_separated(objective: TradeoffObjective, theta: Floats) -> bool:
    """Return whether an unpenalised discriminative fit has no finite optimum, to rounding.

    Where the scores put every row on its own class's side, to grow them is always better. Where
    only some rows are separated, a further Newton step moves their scores by about one, however
    often; once their gradient is lost in rounding, so is the curvature along them.
    """
    if objective.tradeoff > 0.0 or objective.l2 > 0.0:
        return False
    if not _on_another_side(objective, theta):
        return True
    if not is_dense(objective) or not objective.exact_labels:
        return False
    # The whole step, without a line search: the value no longer tells what is an improvement.
    gradient, H = objective.value_and_gradient(theta)[1], objective.curvature(theta)
    step = -scipy.linalg.cho_solve(factorise(H), gradient)
    before, after = (objective.passes.row_coefficients(at) for at in (theta, theta + step))

    def run_away(own: RowPasses, rows: slice) -> float:
        moved = own.block_scores(rows, *after)[2].copy()
        moved -= own.block_scores(rows, *before)[2]
        moved -= moved.mean(axis=1, keepdims=True)
        return float(np.count_nonzero(np.abs(moved) > 0.05))

    passes = objective.passes
    return passes.sum(run_away, passes.block_rows) > 0.0 or _is_flat(objective, H)


def _is_flat(objective: TradeoffObjective, H: Floats) -> bool:
    """Return whether there is no curvature in a direction that does change the scores.

    What a direction could change is seen in the curvature where all classes are equally probable;
    columns that repeat each other are flat there too.
    """
    values, vectors = scipy.linalg.eigh(objective.curvature(np.zeros(objective.n_parameters)))
    matters = values > 1e-6 * values.max()
    root = vectors[:, matters] / np.sqrt(values[matters])
    return bool(scipy.linalg.eigvalsh(root.T @ H @ root).min() < 1e-9)


def _on_another_side(objective: TradeoffObjective, theta: Floats) -> float:
    """Return how many rows' largest score is not one of their own class's, by a clear margin."""
    coefficients = objective.passes.row_coefficients(theta)

    def others(own: RowPasses, rows: slice) -> float:
        codes, k = own.rows.codes[rows], own.rows.n_classes
        scores = own.block_scores(rows, *coefficients)[2]
        by_class = scores.reshape(codes.size, k, -1).max(axis=2)
        mine = by_class[np.arange(codes.size), codes]
        by_class[np.arange(codes.size), codes] = -np.inf
        return float(np.count_nonzero(mine - by_class.max(axis=1) <= 1e-6))

    return objective.passes.sum(others, objective.passes.block_rows)
