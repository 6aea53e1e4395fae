"""Fits at several λ of one training set, each started from its predecessor.

The estimators fit one λ each, check their input, and at λ = 0 go on to the density that the
posterior leaves open. An experiment fits small training sets by the thousand and needs class
scores only: it takes the same objective and solver by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Density
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import PathPoint, follow
from crossfade.tradeoff.scoring import held_out_scores


@dataclass(frozen=True)
class FittedPath:
    """Fits of one training set, a point for each λ.

    Attributes
    ----------
    objective : TradeoffObjective
    points : list of PathPoint
    """

    objective: TradeoffObjective
    points: list[PathPoint]

    def scores(self, X: Floats) -> Iterator[Floats]:
        """Yield, for every λ, log p_k f_k(x) up to a term common to the classes.

        Shapes: X (n_samples, n_features).
        """
        test = LabelledRows(X, np.zeros(X.shape[0], np.int64), None, self.objective.rows.n_classes)
        at = self.objective.with_tradeoff
        fits = [(at(point.tradeoff), point.solution.theta) for point in self.points]
        yield from held_out_scores(fits, test)

    def log_odds(self) -> tuple[Floats, Floats]:
        """Return the log-odds of the second of two classes as linear functions of the columns.

        Shapes: slopes (n_tradeoffs, n_features); intercepts (n_tradeoffs,).
        """
        density = self.objective.density
        slopes, intercepts = [], []
        for point in self.points:
            fitted = self.objective.parameters(point.solution.theta)
            difference = np.diff(fitted.natural[:, ~density.tied], axis=0)
            slope, constant = density.column_units_coefficients(difference)
            slopes.append(slope[0])
            intercepts.append(fitted.offset[1] - fitted.offset[0] + constant[0])
        return np.array(slopes), np.array(intercepts)


def fit_path(
    density: Density,
    X: Floats,
    codes: Integers,
    *,
    n_classes: int,
    tradeoffs: Sequence[float],
    n_components: int = 1,
    seed: int = 0,
    tol: float = 1e-5,
) -> FittedPath:
    """Fit training rows at every λ, without a penalty.

    Shapes: X (n_samples, n_features); codes (n_samples,).
    """
    rows = LabelledRows(X, codes, None, n_classes)
    bound = bind(density, rows)
    objective = (
        TradeoffObjective.of(rows, bound, 1.0, 0.0)
        if n_components == 1
        else MixtureObjective.of(rows, bound, 1.0, 0.0, n_components=n_components, seed=seed)
    )
    return FittedPath(objective, follow(objective, [(at, 0.0) for at in tradeoffs], tol=tol))
