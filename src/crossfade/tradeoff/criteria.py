"""Losses of class scores, and the criterion by which a model is chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.tradeoff.labelled_rows import log_normalise

__all__ = ["CRITERIA", "Losses", "check_criterion", "decisions", "losses", "row_losses"]

CRITERIA = ("log_loss", "brier", "error")


@dataclass(frozen=True)
class Losses:
    """Weighted mean losses of a set of scores.

    Attributes
    ----------
    log_loss : float
        Nats per row.
    brier : float
        Squared distance of the posterior from the label's indicator, summed over classes.
    error : float
        Share of rows whose most probable class is not theirs.
    cost : float
        Mean cost of the decision of least expected cost; the error where no costs are given.
    """

    log_loss: float
    brier: float
    error: float
    cost: float


def row_losses(scores: Floats, codes: Integers, costs: Floats | None = None) -> Floats:
    """Return log-loss, Brier loss, error and cost of every row, shape (4, n_rows)."""
    log_sum, posterior = log_normalise(scores.copy())
    rows = np.arange(codes.size)
    log_loss = log_sum - scores[rows, codes]
    brier = (posterior**2).sum(axis=1) - 2.0 * posterior[rows, codes] + 1.0
    error = (posterior.argmax(axis=1) != codes).astype(np.float64)
    cost = error
    if costs is not None:
        cost = costs[codes, (posterior @ costs).argmin(axis=1)]
    return np.stack([log_loss, brier, error, cost])


def losses(
    scores: Floats, codes: Integers, weights: Floats | None, costs: Floats | None = None
) -> Losses:
    """Return the losses of class scores.

    Shapes: scores (n_rows, n_classes); codes (n_rows,); weights (n_rows,); costs (n_classes,
    n_classes).
    """
    means = np.average(row_losses(scores, codes, costs), axis=1, weights=weights)
    return Losses(*means.tolist())


def check_criterion(selection: str | ArrayLike, n_classes: int) -> tuple[str, Floats | None]:
    """Return the criterion's name and the cost matrix, if that is what was given."""
    if isinstance(selection, str):
        if selection not in CRITERIA:
            raise DataError(
                f"selection: expected one of {', '.join(map(repr, CRITERIA))} or a cost matrix, "
                f"got {selection!r}; name one of these"
            )
        return selection, None
    costs = np.asarray(selection, dtype=np.float64)
    if costs.shape != (n_classes, n_classes) or not np.isfinite(costs).all():
        raise DataError(
            f"selection: expected a matrix of finite costs of shape ({n_classes}, {n_classes}), "
            f"costs[true, decided], got shape {costs.shape}; give one row and one column per class"
        )
    return "cost", costs


def decisions(posterior: Floats, selection: str | ArrayLike) -> Integers:
    """Return the class of least expected cost, or the most probable one, by row."""
    _, costs = check_criterion(selection, posterior.shape[1])
    return posterior.argmax(axis=1) if costs is None else (posterior @ costs).argmin(axis=1)
