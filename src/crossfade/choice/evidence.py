"""Which density a column has within a class: what its own rows say.

Grades from 1 to 5, codes of regions and small counts come as whole numbers alike; lengths, incomes
and concentrations have tails in which a Gaussian sees near certainty. Each family makes of the
column alone a classifier, generative and in closed form, which is scored on folds. Of few whole
numbers a table of folds, classes and values holds all that this takes, so the rows are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.labelled_rows import LabelledRows

#: Most different values of a column whose density is put to the test.
_MOST_VALUES = 12

#: Fewest: of two values every family makes the same classifier, but for smoothing.
_FEWEST_VALUES = 3

#: Rows per value, by weight: a few rows of a column of many whole numbers show few of them.
_ROWS_PER_VALUE = 20

#: The same, the commonest value apart: where nearly all rows are zero, each other value is rare.
_ROWS_PER_RARE_VALUE = 10

#: Rows, by weight, that must differ from the commonest value for classes to have variances of their
#: own: where nearly all rows are zero, most classes have seen nothing else.
_FEWEST_DIFFERENT = 20

#: Rows that are looked at first.
_LOOK = 1_000

#: Pseudo-rows of smoothing, in every family.
_PSEUDO_ROWS = 1.0

#: Standard errors by which a Gaussian must beat Johnson's S_U, which loses less where it is wrong.
_ERRORS_AGAINST_TAILS = 2.0

#: Pseudo-rows per class with the variance of all classes, as the fits have.
_VARIANCE_ROWS = 2.0

#: Cells times classes that are scored at once: 16 MB.
_SCORED_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class ColumnEvidence:
    """How the families did on one column.

    `chosen`: The default, or the family of least loss if it beats the default by more than the
        standard error of the difference (two of them against Johnson's S_U).
    `log_loss`: Out-of-fold log-loss of the column alone, in nats per row, by family.
    `standard_error`: Of the difference between the default and the best of the others.
    """

    chosen: str
    default: str
    log_loss: dict[str, float]
    standard_error: float


def is_candidate(x: Floats, weights: Floats | None) -> bool:
    """Return whether a column holds few whole numbers, each of them often, missing cells apart."""
    if x.size > _LOOK and not _few_whole(np.unique(x[:_LOOK][~np.isnan(x[:_LOOK])])):
        return False  # a look is enough for most columns
    values, rows = _counted(x, weights)
    if values.size < _FEWEST_VALUES or not _few_whole(values):
        return False
    n_rows = x.size if weights is None else weights.sum()
    rare = rows.sum() - rows.max()
    return bool(
        n_rows >= _ROWS_PER_VALUE * values.size and rare >= _ROWS_PER_RARE_VALUE * (values.size - 1)
    )


def _few_whole(values: Floats) -> bool:
    return bool(values.size <= _MOST_VALUES and (values == np.floor(values)).all())


def _counted(x: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return the different values, missing ones apart, and the rows of each by weight."""
    present = ~np.isnan(x)
    values, place = np.unique(x[present], return_inverse=True)
    rows = np.bincount(place.ravel(), None if weights is None else weights[present])
    return values, rows.astype(np.float64)


def differs(x: Floats, weights: Floats | None) -> bool:
    """Return whether two rows that count have different values."""
    for some in (slice(_LOOK), slice(None)):
        counts = ~np.isnan(x[some])
        if weights is not None:
            counts &= weights[some] > 0.0
        cells = x[some][counts]
        if cells.size and cells.min() < cells.max():
            return True
    return False


def near_zero_variance(x: Floats, weights: Floats | None) -> bool:
    """Return whether so few rows differ from the commonest value that classes share a variance.

    After Kuhn & Johnson (2013, *Applied predictive modeling*), but by the number of rows.
    """
    different = 0.0
    for some in (slice(_LOOK), slice(None)):
        _, rows = _counted(x[some], None if weights is None else weights[some])
        different = float(rows.sum() - rows.max(initial=0.0))
        if different >= _FEWEST_DIFFERENT:
            return False
    return different > 0.0


def column_evidence(
    rows: LabelledRows, columns: Sequence[tuple[int, str]], fold: Integers
) -> dict[int, ColumnEvidence]:
    """Compare Gaussian, categorical and (whole numbers from 0 on) Poisson, column by column."""
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


def tail_evidence(
    rows: LabelledRows, centre: Floats, width: Floats, columns: Sequence[int], fold: Integers
) -> dict[int, ColumnEvidence]:
    """Compare Gaussian and Johnson's S_U, column by column.

    Shapes: centre, width (n_columns,); fold (n_samples,).
    """
    at_once = max(1, _SCORED_AT_ONCE // max(rows.n_samples * rows.n_classes, 1))
    found: dict[int, ColumnEvidence] = {}
    for start in range(0, len(columns), at_once):
        some = slice(start, start + at_once)
        found |= _of_tails(rows, centre[some], width[some], columns[some], fold)
    return found


def _of_tails(
    rows: LabelledRows, centre: Floats, width: Floats, columns: Sequence[int], fold: Integers
) -> dict[int, ColumnEvidence]:
    z = (np.asarray(rows.X[:, list(columns)], dtype=np.float64) - centre) / width
    present = ~np.isnan(z)
    z[~present] = 0.0
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    member = np.zeros((rows.n_samples, rows.n_classes))
    member[np.arange(rows.n_samples), rows.codes] = weights
    scored = (present & (fold >= 0)[:, None]) * weights[:, None]
    total = np.maximum(scored.sum(axis=0), 1e-300)
    losses = {
        "johnson_su": _gaussian_losses(np.arcsinh(z), present, member, rows.codes, fold),
        "gaussian": _gaussian_losses(z, present, member, rows.codes, fold),
    }
    means = {name: (loss * scored).sum(axis=0) / total for name, loss in losses.items()}
    gap = losses["johnson_su"] - losses["gaussian"]
    gain = means["johnson_su"] - means["gaussian"]
    error = np.sqrt((scored * (gap - gain) ** 2).sum(axis=0)) / total
    found = {}
    for i, j in enumerate(columns):
        # Of two values both say the same, but for rounding.
        clear = gain[i] > max(_ERRORS_AGAINST_TAILS * error[i], 1e-9)
        chosen = "gaussian" if clear else "johnson_su"
        shown = {name: float(mean[i]) for name, mean in means.items()}
        found[j] = ColumnEvidence(chosen, "johnson_su", shown, float(error[i]))
    return found


def _gaussian_losses(
    u: Floats, present: Any, member: Floats, codes: Integers, fold: Integers
) -> Floats:
    """Return each cell's out-of-fold log-loss where classes are Gaussian in u; 0 if not scored."""
    out = np.zeros(u.shape)
    own = np.arange(codes.size)
    for number in range(int(fold.max(initial=-1)) + 1):
        train, held = fold != number, np.flatnonzero(fold == number)
        weights = member[train].T
        counts, sums = weights @ present[train], weights @ u[train]
        mean = sums / np.maximum(counts, 1e-300)
        square = np.maximum(weights @ u[train] ** 2 - counts * mean**2, 0.0)
        within = square.sum(axis=0) / np.maximum(counts.sum(axis=0), 1e-300)
        within = np.maximum(within, 1e-9)
        variance = (square + _VARIANCE_ROWS * within) / (counts + _VARIANCE_ROWS)
        shares = weights.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_prior = np.log(shares / shares.sum())
        joint = -0.5 * (u[held, :, None] - mean.T) ** 2 / variance.T - 0.5 * np.log(variance.T)
        joint += log_prior
        loss = np.logaddexp.reduce(joint, axis=2)
        loss -= joint[own[: held.size], :, codes[held]]
        out[held] = np.where(present[held], loss, 0.0)
    return out
