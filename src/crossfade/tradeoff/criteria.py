"""Losses of class scores, and the criterion by which a model is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.tradeoff.labelled_rows import log_normalise


class Loss(NamedTuple):
    """A loss of rows from their own class's log-posterior, all log-posteriors and the codes.

    A pool's weights minimise it themselves where it is a sum of squares, else the log-loss.
    """

    title: str
    of_rows: Callable[[Floats, Floats, Integers], Floats]
    sum_of_squares: bool = False


def _brier(log_truth: Floats, posterior: Floats, codes: Integers) -> Floats:
    """Return squared distances of posteriors from the labels' indicators, summed over classes."""
    truth = posterior[np.arange(codes.size), codes]
    loss: Floats = (posterior**2).sum(axis=1) - 2.0 * truth + 1.0
    return loss


#: What λ may be chosen by: the one list of losses, by the names that users write.
LOSSES = {
    "log_loss": Loss("log-loss", lambda log_truth, posterior, codes: -log_truth),
    "brier": Loss("Brier score", _brier, sum_of_squares=True),
    "error": Loss(
        "error", lambda log_truth, posterior, codes: 1.0 * (posterior.argmax(axis=1) != codes)
    ),
}


def row_losses(scores: Floats, codes: Integers, costs: Floats | None = None) -> dict[str, Floats]:
    """Return every loss of every row, and the cost of the decision of least expected cost.

    The cost is the error where no costs are given.
    """
    log_sum, posterior = log_normalise(scores.copy())
    log_truth = scores[np.arange(codes.size), codes] - log_sum
    found = {name: loss.of_rows(log_truth, posterior, codes) for name, loss in LOSSES.items()}
    cost = found["error"]
    if costs is not None:
        cost = costs[codes, (posterior @ costs).argmin(axis=1)]
    return found | {"cost": cost}


def losses(
    scores: Floats, codes: Integers, weights: Floats | None, costs: Floats | None = None
) -> dict[str, float]:
    """Return the weighted mean of each of :func:`row_losses`.

    Shapes: scores (n_rows, n_classes); codes (n_rows,); weights (n_rows,); costs (n_classes,
    n_classes).
    """
    found = row_losses(scores, codes, costs)
    return {name: float(np.average(each, weights=weights)) for name, each in found.items()}


def check_criterion(selection: str | ArrayLike, n_classes: int) -> tuple[str, Floats | None]:
    """Return the criterion's name and the cost matrix, if that is what was given."""
    if isinstance(selection, str):
        if selection not in LOSSES:
            raise DataError(
                f"selection: expected one of {', '.join(map(repr, LOSSES))} or a cost matrix, "
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
