"""How a new row's class scores vary with what a posterior follows from: for the delta method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crossfade._typing import Floats
from crossfade.densities.base import Density
from crossfade.densities.filling import STEP
from crossfade.tradeoff.bound_rows import by_factor
from crossfade.tradeoff.labelled_rows import log_normalise
from crossfade.tradeoff.objective import Parameters, TradeoffObjective


def score_gradients(
    density: Density, optimum: Parameters, to_offsets: Floats, n_classes: int, pool_scale: float
) -> Callable[[Floats], Floats]:
    """Return what gives the gradients of class scores in what a posterior follows from.

    A mixture's score is log Σ_r exp(s_r) over its states' scores s_r, which are linear in what they
    follow from. `to_offsets` (n_states, q): Their gradients but for a row's statistics.

    Shapes: rows (n_rows, n_features) → (n_rows, n_classes, q).
    """
    natural = optimum.natural
    k, p = natural.shape
    scale_at = k * (p + 1)
    partition = density.log_partition(natural)
    is_density = bool(np.isfinite(partition).all()) and optimum.absent is None
    at = density.filling
    n_filling = at.size if density.fills_statistics.any() else 0

    def block(X: Floats) -> Floats:
        found = np.tile(to_offsets, (len(X), 1, 1))
        if is_density:
            changes = density.expected_statistics(X, natural)
        else:
            changes = np.repeat(density.sufficient_statistics(X)[:, None], k, axis=1)
        missing = density.missing_factors(X)
        if optimum.absent is not None and missing is not None:
            changes[np.broadcast_to(missing[:, None, density.factors], changes.shape)] = 0.0
            for c in range(k):
                found[:, c, scale_at + 1 + c * missing.shape[1] :][:, : missing.shape[1]] = missing
        elif is_density and missing is not None:
            # S·A(β/S): the scale S moves what a missing factor adds, too.
            bent = partition - np.stack(
                [np.bincount(density.factors, row, minlength=density.n_factors)
                 for row in density.mean(natural) * natural]
            )  # fmt: skip
            found[:, :, scale_at] += missing.astype(np.float64) @ bent.T
        for c in range(k):
            found[:, c, c * p : c * p + p] += changes[:, c]
        gone = np.flatnonzero(np.isnan(X).any(axis=1)) if n_filling else np.zeros(0, np.int64)
        for j, step in enumerate(STEP * np.eye(n_filling) if gone.size else ()):
            ends = (density.filled_cells(X[gone], at + sign * step) for sign in (1.0, -1.0))
            change = np.subtract(*(density.scores(one, natural) for one in ends))
            found[gone, :, found.shape[2] - n_filling + j] = pool_scale * change / (2.0 * STEP)
        if k == n_classes:
            return found
        scores = density.scores(X, natural) + optimum.offset
        shares = log_normalise(scores)[1].reshape(len(X), n_classes, -1)
        shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1e-300)
        found = found.reshape(*shares.shape, -1)
        return np.asarray(np.einsum("nkr,nkrq->nkq", shares, found))

    return block


def to_natural(objective: TradeoffObjective, theta: Floats, has_absent: bool = False) -> Floats:
    """Return d(natural parameters by class, offsets, a scale, absent terms)/dθ.

    Of words that is once A is zero where it is counted by words, and of all words there are. What a
    missing factor adds is A_f(η_k), or η_kf·mean_f, the mean being given.

    Shapes: → (n_parameters, K (p + 1) + 1), and K n_factors more where there are absent terms.
    """
    passes, density = objective.passes, objective.density
    k, n_free = passes.n_classes, passes.n_free
    free, tied = np.flatnonzero(passes.free), np.flatnonzero(passes.tied)
    by_word = np.flatnonzero(density.word_factors & (objective.tradeoff > 0.0))
    mean = density.mean(passes.natural(theta)) if by_word.size else np.zeros((k, passes.tied.size))
    blocks, offsets = [], np.zeros((passes.n_parameters, k))
    absent: list[Floats] = []
    slopes = np.tile(passes.mean, (k, 1))
    if has_absent and objective.tradeoff > 0.0:
        slopes = density.mean(passes.natural(theta)) * ~density.word_factors[passes.factors]
    for c in range(k):
        block = np.zeros((passes.n_parameters, passes.tied.size))
        block[c * n_free + np.arange(n_free), free] = 1.0 / passes.free_scale
        if passes.n_tied:
            block[k * n_free + k + np.arange(tied.size), tied] = 1.0 / passes.scale[tied]
        offsets[:, c] -= block @ passes.mean
        offsets[k * n_free + c, c] += 1.0
        if has_absent:
            added = by_factor(block * slopes[c], passes.factors, density.n_factors)
            absent.append(density.spread_factors(added))
        for factor in by_word:
            own = np.flatnonzero(passes.factors == factor)
            moved = block[:, own] @ mean[c, own]
            block[:, own] -= moved[:, None]
            offsets[:, c] += moved
        blocks.append(density.spread(block)[1])
    return np.hstack([*blocks, offsets, np.zeros((len(offsets), 1)), *absent])
