"""Which density a column of few whole numbers has within a class: what its own rows say.

Grades from 1 to 5, codes of regions and small counts come as whole numbers alike. Each family
makes of the column alone a classifier, generative and in closed form, which is scored on folds: a
table of folds, classes and values holds all that this takes, so the rows are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from crossfade.densities.base import Floats, Integers
from crossfade.fitting.labelled_rows import LabelledRows

__all__ = ["ColumnEvidence", "column_evidence", "is_candidate"]

#: Most different values of a column whose density is put to the test.
_MOST_VALUES = 12

#: Rows a value, by weight: a few rows of a column of many whole numbers show few of them.
_ROWS_PER_VALUE = 20

#: Fewest: of two values every family makes the same classifier, but for smoothing.
_FEWEST_VALUES = 3

#: Pseudo-rows of smoothing, in every family.
_PSEUDO_ROWS = 1.0


@dataclass(frozen=True)
class ColumnEvidence:
    """How the families did on one column.

    Attributes
    ----------
    chosen : str
        The default, or the family of least loss if it beats the default by more than the standard
        error of the difference.
    default : str
    log_loss : dict of str to float
        Out-of-fold log-loss of the column alone, in nats a row, by family.
    standard_error : float
        Of the difference between the default and the best of the others.
    """

    chosen: str
    default: str
    log_loss: dict[str, float]
    standard_error: float

    @property
    def reason(self) -> str:
        """The choice in words."""
        shown = ", ".join(f"{name} {loss:.4f}" for name, loss in self.log_loss.items())
        gain = f"standard error of the difference {self.standard_error:.4f}"
        return f"out-of-fold log-loss of the column alone: {shown}; {gain}"


def is_candidate(x: Floats, n_rows: float) -> bool:
    """Return whether a column holds few whole numbers, missing cells apart.

    Parameters
    ----------
    x : ndarray of shape (n_samples,)
    n_rows : float
        Total weight of the rows.
    """
    if x.size > 1_000 and not _few_whole(x[:1_000]):
        return False  # a look is enough for most columns
    values = np.unique(x[~np.isnan(x)])
    few = _FEWEST_VALUES <= values.size <= n_rows / _ROWS_PER_VALUE
    return bool(few and _few_whole(values))


def _few_whole(x: Floats) -> bool:
    values = np.unique(x[~np.isnan(x)])
    return bool(values.size <= _MOST_VALUES and (values == np.floor(values)).all())


def column_evidence(
    rows: LabelledRows, columns: Sequence[tuple[int, str]], fold: Integers
) -> dict[int, ColumnEvidence]:
    """Compare Gaussian, categorical and (whole numbers from 0 on) Poisson, column by column.

    Parameters
    ----------
    rows : LabelledRows
    columns : sequence of (int, str)
        Numbers of the columns and the family each has by default.
    fold : ndarray of shape (n_samples,), int
        Each row's fold, -1 for rows that are never held out.

    Returns
    -------
    dict of int to ColumnEvidence
    """
    return {j: _of_column(rows, j, default, fold) for j, default in columns}


def _of_column(rows: LabelledRows, j: int, default: str, fold: Integers) -> ColumnEvidence:
    x = np.asarray(rows.X[:, j], dtype=np.float64)
    present = ~np.isnan(x)
    values, place = np.unique(x[present], return_inverse=True)
    n_folds, k, m = int(fold.max(initial=0)) + 1, rows.n_classes, values.size
    # Rows never held out stand in a last fold of their own.
    number = np.where(fold < 0, n_folds, fold)[present]
    cell = (number * k + rows.codes[present]) * m + place.ravel()
    weights = None if rows.weights is None else rows.weights[present]
    table = np.bincount(cell, weights, (n_folds + 1) * k * m).reshape(n_folds + 1, k, m)
    train, held = table.sum(axis=0) - table[:n_folds], table[:n_folds]
    losses = {name: _loss(scores, train) for name, scores in _scores(train, values).items()}
    total = max(float(held.sum()), 1e-300)
    means = {name: float((loss * held).sum()) / total for name, loss in losses.items()}
    rivals = [name for name in means if name != default]
    best = min(rivals, key=lambda name: means[name])
    gap = losses[default] - losses[best]
    gain = means[default] - means[best]
    error = float(np.sqrt((held * (gap - gain) ** 2).sum() / total / total))
    return ColumnEvidence(best if gain > error else default, default, means, error)


def _scores(train: Floats, values: Floats) -> dict[str, Floats]:
    """Return log f(value) by family, shape (n_folds, n_classes, n_values), from training counts."""
    n = train.sum(axis=2)
    seen = np.maximum(n, 1e-300)
    mean = (train @ values) / seen
    square = (train * (values - mean[:, :, None]) ** 2).sum(axis=2)
    within = square.sum(axis=1, keepdims=True) / np.maximum(n.sum(axis=1, keepdims=True), 1e-300)
    within = np.maximum(within, 1e-9 * max(float(values.var()), 1e-300))
    variance = (square + _PSEUDO_ROWS * within) / (n + _PSEUDO_ROWS)
    distance = (values - mean[:, :, None]) ** 2
    gaussian = -0.5 * distance / variance[:, :, None] - 0.5 * np.log(variance)[:, :, None]
    categorical = np.log((train + _PSEUDO_ROWS) / (n + _PSEUDO_ROWS * values.size)[:, :, None])
    found = {"gaussian": gaussian, "categorical": categorical}
    if values[0] >= 0.0:
        overall = (n * mean).sum(axis=1, keepdims=True) / np.maximum(
            n.sum(axis=1, keepdims=True), 1e-300
        )
        rate = np.maximum((n * mean + _PSEUDO_ROWS * overall) / (n + _PSEUDO_ROWS), 1e-15)
        log_rate = np.log(rate)[:, :, None]
        found["poisson"] = values * log_rate - rate[:, :, None] - gammaln(values + 1.0)
    return found


def _loss(scores: Floats, train: Floats) -> Floats:
    """Return the log-loss of each class at each value, with the training part's class shares."""
    n = train.sum(axis=2)
    with np.errstate(divide="ignore"):
        joint = scores + np.log(n / np.maximum(n.sum(axis=1, keepdims=True), 1e-300))[:, :, None]
    loss: Floats = np.logaddexp.reduce(joint, axis=1)[:, None, :] - joint
    # A class without a row of training has no part; its rows are never held out.
    return np.where(np.isfinite(loss), loss, 0.0)
