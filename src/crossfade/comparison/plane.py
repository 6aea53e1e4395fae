"""A view of a table in two dimensions, and a model's posterior seen in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.report.surfaces import quadratic

#: Columns that the directions are found from; of wider tables those that separate classes most.
_MOST_COLUMNS = 300

#: Share of a column's variance that keeps the within-class covariance invertible.
_RIDGE = 1e-6


def discriminant_plane(Z: Floats, codes: Integers) -> Floats:
    """Return rows on the first two discriminant directions (Fisher 1936; Rao 1948).

    Two classes have one such direction; the second then is the direction of largest spread in what
    the first leaves over. Shapes: Z (n_rows, n_columns); codes (n_rows,); → (n_rows, 2).
    """
    onehot = np.eye(int(codes.max()) + 1)[codes]
    onehot = onehot[:, onehot.any(axis=0)]
    means = onehot.T @ Z / onehot.sum(axis=0)[:, None]
    between = (onehot @ means) ** 2
    if Z.shape[1] > _MOST_COLUMNS:
        kept = np.sort(np.argsort(-between.sum(axis=0), kind="stable")[:_MOST_COLUMNS])
        Z, means = Z[:, kept], means[:, kept]
    within = Z - onehot @ means
    S = within.T @ within / len(Z)
    S[np.diag_indices_from(S)] += _RIDGE
    centred = np.sqrt(onehot.mean(axis=0))[:, None] * (means - Z.mean(axis=0))
    size = S.shape[0]
    wanted = min(2, size)
    _, vectors = scipy.linalg.eigh(
        centred.T @ centred, S, subset_by_index=[size - wanted, size - 1]
    )
    first = Z @ vectors[:, -1:]
    if onehot.shape[1] > 2 and wanted == 2:
        plane = np.hstack([first, Z @ vectors[:, :1]])
    else:
        plane = np.hstack([first, _largest_remaining(Z, first)])
    plane -= plane.mean(axis=0)
    # A direction has no sign of its own: later classes lie to the right and above.
    sign = np.sign(
        (np.arange(onehot.shape[1]) - (onehot.shape[1] - 1) / 2)
        @ (onehot.T @ plane / onehot.sum(axis=0)[:, None])
    )
    return plane * np.where(sign == 0, 1.0, sign)


def _largest_remaining(Z: Floats, first: Floats) -> Floats:
    """Return the scores along the direction of largest spread that `first` leaves over."""
    centred = Z - Z.mean(axis=0)
    first = first - first.mean()
    rest = centred - first @ (first.T @ centred) / max(float((first**2).sum()), 1e-300)
    values, vectors = scipy.linalg.eigh(rest.T @ rest / len(Z))
    if values[-1] < 1e-9:
        return np.zeros_like(first)
    scores = rest @ vectors[:, -1:]
    return scores / np.sqrt(values[-1])


def class_scores(model: Any, X: Any, columns: Integers, n_classes: int) -> Floats:
    """Return log-posteriors, centred over classes, shape (n_rows, n_classes)."""
    with np.errstate(divide="ignore"):
        if hasattr(model, "predict_log_proba"):
            found = np.asarray(model.predict_log_proba(X), dtype=np.float64)
        else:
            found = np.log(np.asarray(model.predict_proba(X), dtype=np.float64))
    found = np.maximum(found, -700.0)  # what a double can still tell from zero
    scores = np.repeat(found.min(axis=1, keepdims=True), n_classes, axis=1)
    scores[:, columns] = found
    return scores - scores.mean(axis=1, keepdims=True)


def posterior_surface(plane: Floats, scores: Floats) -> Floats:
    """Return the least-squares quadratic surface of a model's class scores over a view.

    Shapes: plane (n_rows, 2); scores (n_rows, n_classes); → (6, n_classes).
    """
    surface: Any = np.linalg.lstsq(quadratic(plane), scores, rcond=None)[0]
    return surface


def agreement(plane: Floats, surface: Floats, scores: Floats) -> float:
    """Return the share of rows at whose place the surface's most probable class is the model's."""
    seen = (quadratic(plane) @ surface).argmax(axis=1)
    return float(np.mean(seen == scores.argmax(axis=1)))
