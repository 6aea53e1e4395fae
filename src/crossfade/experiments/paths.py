"""Fits at several λ of one training set, each started from its predecessor.

The estimators fit one λ each, check their input, and at λ = 0 go on to the density that the
posterior leaves open. An experiment fits small training sets by the thousand and needs class
scores only: it takes the same objective and solver by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossfade.densities.base import Density, Floats, Integers
from crossfade.fitting.binding import bind
from crossfade.fitting.labelled_rows import LabelledRows
from crossfade.fitting.mixture import MixtureObjective
from crossfade.fitting.objective import TradeoffObjective
from crossfade.fitting.path import follow
from crossfade.fitting.scoring import held_out_scores

__all__ = ["path_scores"]


def path_scores(
    density: Density,
    X: Floats,
    codes: Integers,
    X_test: Floats,
    *,
    n_classes: int,
    tradeoffs: Sequence[float],
    n_components: int = 1,
    seed: int = 0,
    tol: float = 1e-5,
) -> list[Floats]:
    """Return class scores of test rows at every λ, without a penalty.

    Parameters
    ----------
    density : Density
        Unbound.
    X : ndarray of shape (n_samples, n_features)
        Complete training rows.
    codes : ndarray of shape (n_samples,)
        Their classes, 0 … n_classes-1.
    X_test : ndarray of shape (n_test, n_features)
    n_classes : int
    tradeoffs : sequence of float
        λ, falling.
    n_components : int, default=1
        Of each class; with more than one the path starts from the best of five runs of EM.
    seed : int, default=0
        Of their starts.
    tol : float, default=1e-5
        Largest gradient entry allowed, a row.

    Returns
    -------
    list of ndarray of shape (n_test, n_classes)
        log p_k f_k(x) up to a term common to the classes.
    """
    rows = LabelledRows(X, codes, None, n_classes)
    bound = bind(density, rows)
    objective = (
        TradeoffObjective(rows, bound, 1.0, 0.0)
        if n_components == 1
        else MixtureObjective(rows, bound, 1.0, 0.0, n_components=n_components, seed=seed)
    )
    test = LabelledRows(X_test, np.zeros(X_test.shape[0], np.int64), None, n_classes)
    return [
        held_out_scores(objective.with_tradeoff(point.tradeoff), point.solution.theta, test)
        for point in follow(objective, tuple(tradeoffs), tol=tol)
    ]
