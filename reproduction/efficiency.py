"""Efron (1975): how efficient logistic regression is where linear discriminant analysis is true.

Two Gaussian classes of equal probability and one covariance, a Mahalanobis distance apart. Both
classifiers tend to the best rule; the asymptotic relative efficiency is the limit of the ratio of
their excess errors, that of discriminant analysis over that of logistic regression. Excess errors
of the fitted rules are exact here: the error of a linear rule under Gaussian classes is a value of
the normal distribution function. The number of training rows grows with the distance, so that
logistic regression always has the same information and is as near to its limit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from crossfade._typing import Floats
from crossfade.classifiers import GaussianDiscriminant
from crossfade.theory import relative_efficiency
from reproduction.base import Experiment, Outcome, Section, Settings, records
from reproduction.rules import rule_error
from reproduction.trials import generator, run_trials

COLUMNS: Final = ("distance", "n", "theory", "ours", "standard_error")

DISTANCES: Final = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)

_N_COLUMNS = 4

#: Σ p(1 - p) over the training rows: what logistic regression learns an intercept from.
_INFORMATION = 1000.0


def run(settings: Settings) -> Outcome:
    """Run the simulation at each distance."""
    rows: list[dict[str, Any]] = []
    for number, distance in enumerate(DISTANCES):
        expected = float(relative_efficiency(distance))
        # E p(1 - p) = efficiency / (4 + distance²) with equal classes.
        n = math.ceil(_INFORMATION * (4.0 + distance**2) / expected)
        excess = np.array(
            run_trials(
                _trial,
                [(settings.seed, number, distance, n, r) for r in range(settings.repeats)],
                progress=settings.progress,
                text=f"distance {distance:g}",
                done=number * settings.repeats,
                total=len(DISTANCES) * settings.repeats,
            )
        )
        ours, error = _ratio(excess[:, 0], excess[:, 1])
        rows.append(dict(zip(COLUMNS, (distance, n, expected, ours, error), strict=True)))
    return _outcome(rows)


def _trial(seed: int, number: int, distance: float, n: int, repeat: int) -> tuple[float, float]:
    """Return the excess errors of discriminant analysis and of logistic regression."""
    rng = generator(seed, number, repeat)
    codes = rng.integers(2, size=n)
    X = rng.normal(size=(n, _N_COLUMNS))
    X[:, 0] += np.where(codes == 1, 0.5, -0.5) * distance
    models = (GaussianDiscriminant("shared", tradeoff=end, l2=0.0) for end in (1.0, 0.0))
    generative, discriminative = (
        excess_error(model.coef_[0], float(model.intercept_[0]), distance)
        for model in (model.fit(X, codes) for model in models)
    )
    return generative, discriminative


def excess_error(slopes: Floats, intercept: float, distance: float) -> float:
    """Return how much the error of a linear rule exceeds the least one.

    Shapes: slopes (n_features,).
    """
    signal = 0.5 * distance * float(slopes[0])
    found = rule_error(signal, intercept, float(np.linalg.norm(slopes)))
    return found - rule_error(0.5 * distance, 0.0, 1.0)


def _ratio(numerator: Floats, denominator: Floats) -> tuple[float, float]:
    """Return the ratio of two means of pairs and its standard error (delta method)."""
    ratio = float(numerator.mean() / denominator.mean())
    n = numerator.size
    if n < 2:
        return ratio, 0.0
    rest = numerator - ratio * denominator
    return ratio, float(rest.std(ddof=1) / np.sqrt(n) / denominator.mean())


# -- what it came to -----------------------------------------------------------------------------


def _outcome(rows: list[dict[str, Any]]) -> Outcome:
    table = Section(
        "Asymptotic relative efficiency of logistic regression",
        ("distance", "training rows", "theory", "simulation", "standard error"),
        tuple(
            (
                f"{row['distance']:g}",
                f"{row['n']:,}",
                f"{row['theory']:.3f}",
                f"{row['ours']:.3f}",
                f"{row['standard_error']:.3f}",
            )
            for row in rows
        ),
    )
    apart = [abs(r["ours"] - r["theory"]) / max(r["standard_error"], 1e-12) for r in rows]
    finding = (
        f"{sum(one <= 2.0 for one in apart)} of {len(rows)} simulated efficiencies are within two "
        f"standard errors of theory, all within {max(apart):.1f}."
    )
    return Outcome(
        COLUMNS,
        records(rows, COLUMNS),
        (table,),
        (finding,),
        partial(_chart, rows),
        {"columns": _N_COLUMNS, "information": _INFORMATION},
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    from reproduction.charts import efficiency_chart

    curve = [
        {"distance": distance, "theory": float(relative_efficiency(distance))}
        for distance in np.linspace(0.05, 4.2, 84).tolist()
    ]
    return efficiency_chart(rows, curve)


EXPERIMENT: Final = Experiment(
    name="efficiency",
    source="Efron (1975), Table 1",
    question="How many rows logistic regression wastes where discriminant analysis is true.",
    repeats=500,
    unit="runs",
    minutes=1.0,
    run=run,
)
