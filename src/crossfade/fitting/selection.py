"""Choosing λ on the path by scores that each row's own label did not touch.

The selector knows only out-of-fold scores, labels and weights. Where these come from is a stated
rule: approximate leave-one-out when there are many rows against the parameters, else refits on
folds, warm-started down the path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfade.densities.base import Floats, Integers
from crossfade.errors import DataError
from crossfade.fitting.labelled_rows import LabelledRows, log_normalise
from crossfade.fitting.leave_one_out import approximate_leave_one_out
from crossfade.fitting.newton import sample_rows
from crossfade.fitting.objective import TradeoffObjective
from crossfade.fitting.path import TRADEOFFS, PathPoint, curvature_share, follow, is_dense, is_wide
from crossfade.fitting.scoring import held_out_scores

__all__ = ["CRITERIA", "Losses", "Selection", "folds", "losses", "select_tradeoff"]

CRITERIA = ("log_loss", "brier", "error")

#: Rows a parameter that varies between classes must have for the approximation to be used.
_ROWS_PER_PARAMETER = 10

#: Fewest rows for the approximation.
_FEWEST_ROWS = 400

#: Most rows whose left-out scores are computed; beyond, an evenly spread sample of them.
_MOST_ROWS = 3_000

#: Folds, and folds where a refit is dear.
_N_FOLDS = 10
_N_FOLDS_WIDE = 3


@dataclass(frozen=True)
class Losses:
    """Weighted mean losses of a set of scores.

    Attributes
    ----------
    log_loss : float
        Nats a row.
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


def losses(
    scores: Floats, codes: Integers, weights: Floats | None, costs: Floats | None = None
) -> Losses:
    """Return the losses of class scores.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Log-posteriors up to a term common to the classes; not changed.
    codes : ndarray of shape (n_rows,), int
    weights : ndarray of shape (n_rows,) or None
    costs : ndarray of shape (n_classes, n_classes), optional
        costs[true, decided].

    Returns
    -------
    Losses
    """
    log_sum, posterior = log_normalise(scores.copy())
    rows = np.arange(codes.size)
    log_loss = log_sum - scores[rows, codes]
    brier = (posterior**2).sum(axis=1) - 2.0 * posterior[rows, codes] + 1.0
    error = (posterior.argmax(axis=1) != codes).astype(np.float64)
    cost = error
    if costs is not None:
        cost = costs[codes, (posterior @ costs).argmin(axis=1)]
    means = [float(np.average(loss, weights=weights)) for loss in (log_loss, brier, error, cost)]
    return Losses(*means)


@dataclass(frozen=True)
class Selection:
    """The path, its out-of-fold losses and the choice.

    Attributes
    ----------
    tradeoffs : ndarray of shape (n_path,)
    losses : tuple of Losses
    objective : ndarray of shape (n_path,)
        Φ_λ at its minimiser.
    chosen : int
        Position on the path.
    points : tuple of PathPoint
        The fits on all rows.
    method : str
        In words: where the out-of-fold scores come from.
    """

    tradeoffs: Floats
    losses: tuple[Losses, ...]
    objective: Floats
    chosen: int
    points: tuple[PathPoint, ...]
    method: str

    def path(self) -> dict[str, NDArray[np.float64]]:
        """Return the path as arrays of equal length."""
        return {
            "tradeoff": self.tradeoffs.copy(),
            "log_loss": np.array([at.log_loss for at in self.losses]),
            "brier": np.array([at.brier for at in self.losses]),
            "error": np.array([at.error for at in self.losses]),
            "objective": self.objective.copy(),
        }


def check_criterion(selection: str | ArrayLike, n_classes: int) -> tuple[str, Floats | None]:
    """Return the criterion's name and the cost matrix, if that is what was given.

    Raises
    ------
    DataError
        If `selection` is neither a known name nor a matrix of finite costs, one row a class.
    """
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
            f"costs[true, decided], got shape {costs.shape}; give one row and one column a class"
        )
    return "cost", costs


def select_tradeoff(
    objective: TradeoffObjective,
    refit: Callable[[LabelledRows], TradeoffObjective],
    *,
    selection: str | ArrayLike = "log_loss",
    score_shift: Floats | None = None,
    tradeoffs: tuple[float, ...] = TRADEOFFS,
) -> Selection:
    """Follow the path and choose λ by its out-of-fold loss.

    Parameters
    ----------
    objective : TradeoffObjective
        On all rows; its own λ is not used.
    refit : callable
        Makes the objective of some rows (a fold's training part), the density bound to them alone.
    selection : {"log_loss", "brier", "error"} or array of shape (n_classes, n_classes)
        Criterion, or costs[true, decided].
    score_shift : ndarray of shape (n_classes,), optional
        Added to all scores: what a class prior other than the data's adds. Rows are then weighted
        by the prior's ratio to the data's, so that the loss is that of the shifted population.
    tradeoffs : tuple of float
        Falling.

    Returns
    -------
    Selection
    """
    criterion, costs = check_criterion(selection, objective.rows.n_classes)
    points = follow(objective, tradeoffs)
    rows = objective.rows
    varying = (objective.n_classes - 1) * (objective.n_free + 1)
    # By weight, so that a weight of three and three equal rows are the same thing here, too.
    enough = objective.n_rows >= max(_FEWEST_ROWS, _ROWS_PER_PARAMETER * varying)
    if enough and objective.exact_labels and is_dense(objective):
        index = None
        if rows.n_samples > _MOST_ROWS:
            index = sample_rows(rows.n_samples, _MOST_ROWS / rows.n_samples)
        scored = rows if index is None else rows.take(index)
        scores = [
            approximate_leave_one_out(
                objective.with_tradeoff(at.tradeoff),
                at.solution.theta,
                index,
                share=curvature_share(objective),
            ).scores
            for at in points
        ]
        method = f"approximate leave-one-out over {scored.n_samples} rows"
    else:
        n_folds = _N_FOLDS_WIDE if is_wide(objective) else _N_FOLDS
        fold = folds(rows, n_folds)
        scores = _fold_scores(objective, fold, refit, points)
        kept = np.flatnonzero(fold >= 0)
        scored = rows.take(kept)
        scores = [s[kept] for s in scores]
        method = f"refits on {n_folds} folds of {rows.n_samples} rows"
    if not scored.n_samples:
        return _unscored(points, tradeoffs)
    weights = scored.weights
    if score_shift is not None:
        ratio = np.exp(score_shift)[scored.codes]
        weights = ratio if weights is None else weights * ratio
        scores = [s + score_shift for s in scores]
    path_losses = tuple(losses(s, scored.codes, weights, costs) for s in scores)
    values = np.array([getattr(at, criterion) for at in path_losses])
    # Among equals (errors often are) the smaller log-loss decides.
    order = np.lexsort((np.array([at.log_loss for at in path_losses]), values))
    return Selection(
        np.array(tradeoffs),
        path_losses,
        np.array([at.solution.value for at in points]),
        int(order[0]),
        tuple(points),
        method,
    )


def _unscored(points: list[PathPoint], tradeoffs: tuple[float, ...]) -> Selection:
    """Return the generative end: no class can spare a row, and it needs the fewest."""
    nothing = Losses(np.nan, np.nan, np.nan, np.nan)
    return Selection(
        np.array(tradeoffs),
        (nothing,) * len(points),
        np.array([at.solution.value for at in points]),
        0,
        tuple(points),
        "no class has two different rows: the first tradeoff, unscored",
    )


def folds(rows: LabelledRows, n_folds: int) -> Integers:
    """Return each row's fold, -1 for rows that are never held out.

    Equal rows share a fold, so that a weight of three and three equal rows are the same thing, no
    row is predicted by its own copy, and the order of the rows does not matter. Each class is
    dealt over the folds in the order of its rows' values. A class with one distinct row always
    stays in the training part.

    Parameters
    ----------
    rows : LabelledRows
    n_folds : int

    Returns
    -------
    ndarray of shape (n_samples,), int
    """
    # Two missing cells are equal here; infinity stands for them, since it is refused in data.
    values = np.where(np.isnan(rows.X), np.inf, rows.X) if rows.has_missing else rows.X
    keys = np.column_stack([rows.codes.astype(np.float64), values])
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    codes = distinct[:, 0].astype(np.int64)
    fold = np.empty(codes.size, dtype=np.int64)
    start = 0
    for c in range(rows.n_classes):
        own = np.flatnonzero(codes == c)
        fold[own] = (np.arange(own.size) + start) % n_folds if own.size > 1 else -1
        start += own.size
    return fold[which]


def _fold_scores(
    objective: TradeoffObjective,
    fold: Integers,
    refit: Callable[[LabelledRows], TradeoffObjective],
    points: list[PathPoint],
) -> list[Floats]:
    rows = objective.rows
    scores = [np.zeros((rows.n_samples, rows.n_classes)) for _ in points]
    for number in range(int(fold.max(initial=-1)) + 1):
        held = np.flatnonzero(fold == number)
        if not held.size:
            continue
        train, test = rows.take(np.flatnonzero(fold != number)), rows.take(held)
        part = refit(train)
        path = follow(part, tuple(at.tradeoff for at in points))
        for at, out in zip(path, scores, strict=True):
            own = part.with_tradeoff(at.tradeoff)
            out[held] = held_out_scores(own, at.solution.theta, test)
    return scores
