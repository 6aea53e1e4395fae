"""Ng & Jordan (2001), section 3: how the rows needed grow with the number of features.

Two Gaussian classes; each feature is the class's ±δ plus noise, and the noises have a common part:
the features are n measurements of one thing. The distance of the classes tends to a limit, the
best rule weighs all features alike, and naive Bayes and logistic regression both tend to it, so
that both have the same asymptotic error. Three sizes are looked for:

- Rows until *every* estimate of naive Bayes (2n class means and n variances) is within ε of its
  limit (Lemma 3): proportional to log n, by the largest of n errors.
- Rows until the error of naive Bayes is within ε of its limit. Theorem 4 bounds it through the
  former, so by order log n; errors of estimates that cancel out can make it less than that.
- Rows until the error of logistic regression is (Proposition 2): proportional to n. Without a
  penalty it does not depend on the coordinates, so n independent features would need as many.

Errors are exact: those of a linear rule under Gaussian classes.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any, Final

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.classifiers import NaiveBayes
from crossfade.errors import CrossfadeWarning
from reproduction.base import Experiment, Outcome, Section, Settings, records
from reproduction.rules import rule_error
from reproduction.trials import generator, run_trials

COLUMNS: Final = ("n_features", "what", "rows", "repeats")

N_FEATURES: Final = (2, 5, 10, 20, 50, 100, 200, 500, 1000)

ESTIMATES, GENERATIVE, DISCRIMINATIVE = (
    "naive Bayes, every estimate",
    "naive Bayes, error",
    "logistic regression, error",
)
WHAT: Final = (ESTIMATES, GENERATIVE, DISCRIMINATIVE)

#: Half the distance of the classes in a feature of variance 1, and the share of common noise.
_SHIFT, _COMMON = 0.5, 0.25

#: ε of the errors, and of the estimates.
_EXCESS, _DEVIATION = 0.05, 0.25

#: Training sizes tried are apart by this factor.
_STEP = 1.15


def run(settings: Settings) -> Outcome:
    """Look for the sizes."""
    rows: list[dict[str, Any]] = []
    before = dict.fromkeys(WHAT, (1, 8.0))
    total = len(N_FEATURES) * len(WHAT)
    for n in N_FEATURES:
        for what in WHAT:
            repeats = settings.repeats
            if what == DISCRIMINATIVE:
                # A large problem varies less from one training set to the next, and costs more.
                repeats = min(repeats, max(4, 20 * repeats // n))
            n_before, found_before = before[what]
            grows = n / n_before if what == DISCRIMINATIVE else 1.0
            found = _rows_needed(settings, n, what, repeats, found_before * grows)
            before[what] = n, found
            rows.append(dict(zip(COLUMNS, (n, what, found, repeats), strict=True)))
            if settings.progress is not None:
                settings.progress(len(rows), total, f"{n} features, {what}")
    return _outcome(rows)


def _rows_needed(
    settings: Settings, n_features: int, what: str, repeats: int, near: float
) -> float:
    """Return the size where the mean distance from the limit falls to ε, interpolated in log m."""
    wanted = _DEVIATION if what == ESTIMATES else _EXCESS

    def distance(growth: int) -> float:
        m = _size(growth)
        tasks = [(settings.seed, n_features, what, m, repeat) for repeat in range(repeats)]
        return float(np.mean(run_trials(_distance, tasks)))

    growth = max(round(math.log(near / 4.0, _STEP)), 0)
    at = distance(growth)
    step = 1 if at > wanted else -1
    while True:
        if growth + step < 0:
            return float(_size(growth))
        there = distance(growth + step)
        if (there > wanted) != (at > wanted):
            break
        growth, at = growth + step, there
    low, high = sorted((growth, growth + step))
    above, below = (at, there) if step > 0 else (there, at)
    share = (above - wanted) / (above - below)
    return float(_size(low) * (_size(high) / _size(low)) ** share)


def _size(growth: int) -> int:
    """Return an even training size of a fixed geometric series."""
    return 2 * max(2, round(2.0 * _STEP**growth))


def draw(n_features: int, number: int, rng: np.random.Generator) -> tuple[Floats, Integers]:
    """Return rows, half of them of each class, and the classes."""
    codes = np.arange(number) % 2
    X = math.sqrt(1.0 - _COMMON) * rng.normal(size=(number, n_features))
    X += math.sqrt(_COMMON) * rng.normal(size=(number, 1))
    X += np.where(codes == 1, _SHIFT, -_SHIFT)[:, None]
    return X, codes


def _distance(seed: int, n_features: int, what: str, m: int, repeat: int) -> float:
    """Return how far a fit is from its limit."""
    X, codes = draw(n_features, m, generator(seed, n_features, m, repeat))
    tradeoff = 0.0 if what == DISCRIMINATIVE else 1.0
    model = NaiveBayes("gaussian", shared_variance=True, tradeoff=tradeoff, l2=0.0)
    with warnings.catch_warnings():
        # Small training sets are separable: what the solver stops at is far from the limit, as
        # every solution is.
        warnings.simplefilter("ignore", CrossfadeWarning)
        model.fit(X, codes)
    if what == ESTIMATES:
        return _largest_deviation(model)
    return excess_error(model.coef_[0], float(model.intercept_[0]))


def _largest_deviation(model: NaiveBayes) -> float:
    """Return the largest distance of an estimate from its limit: ±δ and 1."""
    worst = 0.0
    for code, sign in enumerate((-1.0, 1.0)):
        first, second = model.class_densities_[code].mean_parameters.reshape(2, -1)
        deviations = np.abs(first - sign * _SHIFT), np.abs(second - first**2 - 1.0)
        worst = max(worst, *(float(one.max()) for one in deviations))
    return worst


def excess_error(slopes: Floats, intercept: float) -> float:
    """Return how much the error of a linear rule exceeds the least one.

    Shapes: slopes (n_features,).
    """

    def error(w: Floats, b: float) -> float:
        total = float(w.sum())
        deviation = math.sqrt((1.0 - _COMMON) * float(w @ w) + _COMMON * total**2)
        return rule_error(_SHIFT * total, b, deviation)

    return error(slopes, intercept) - error(np.ones_like(slopes), 0.0)


# -- what it came to -----------------------------------------------------------------------------


def _slope(x: list[float], y: list[float]) -> tuple[float, float, float]:
    """Return slope, intercept and R² of the least-squares line."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.array(y) - (slope * np.array(x) + intercept)
    return float(slope), float(intercept), float(1.0 - rest.var() / np.var(y))


def _outcome(rows: list[dict[str, Any]]) -> Outcome:
    found = {what: [row["rows"] for row in rows if row["what"] == what] for what in WHAT}
    n = [float(one) for one in N_FEATURES]
    log_n = np.log(n).tolist()
    fits: dict[str, dict[str, float]] = {}
    for what in WHAT:
        power, _, fit_of_power = _slope(log_n, np.log(found[what]).tolist())
        per_log, at_one, fit_of_log = _slope(log_n, found[what])
        fits[what] = {
            "power_of_n": power,
            "r_squared_power": fit_of_power,
            "rows_per_log_n": per_log,
            "rows_at_n_1": at_one,
            "r_squared_log": fit_of_log,
        }
    large = range(len(N_FEATURES) // 3, len(N_FEATURES))
    fewest = N_FEATURES[large.start]
    growth = _slope([log_n[i] for i in large], [math.log(found[DISCRIMINATIVE][i]) for i in large])
    fits[DISCRIMINATIVE][f"power_of_n_from_{fewest}_features"] = growth[0]
    table = Section(
        f"Training rows until an error is within {_EXCESS:g} of its limit, all estimates "
        f"within {_DEVIATION:g}",
        ("features", "NB, estimates", "NB, error", "logistic, error"),
        tuple(
            (f"{one}", *(f"{found[what][i]:,.0f}" for what in WHAT))
            for i, one in enumerate(N_FEATURES)
        ),
    )
    estimates, error = fits[ESTIMATES], fits[GENERATIVE]
    findings = (
        f"Every estimate of naive Bayes: rows ≈ {estimates['rows_at_n_1']:.0f} + "
        f"{estimates['rows_per_log_n']:.0f} log n (R² {estimates['r_squared_log']:.3f}).",
        f"Error of naive Bayes: rows ≈ {error['rows_at_n_1']:.0f} + "
        f"{error['rows_per_log_n']:.1f} log n, ∝ n to the power {error['power_of_n']:.2f}: within "
        "the bound of order log n.",
        f"Error of logistic regression: rows ∝ n to the power {growth[0]:.2f} from {fewest} "
        f"features on (R² {growth[2]:.3f}).",
    )
    return Outcome(
        COLUMNS,
        records(rows, COLUMNS),
        (table,),
        findings,
        partial(_chart, rows),
        {"fits": fits, "excess": _EXCESS, "deviation": _DEVIATION},
    )


def _chart(rows: list[dict[str, Any]]) -> Any:
    from reproduction.charts import growth_chart

    return growth_chart(rows)


EXPERIMENT: Final = Experiment(
    name="regimes",
    source="Ng & Jordan (2001), section 3",
    question="How many rows each classifier needs to come near its limit, as features grow.",
    repeats=50,
    unit="runs",
    minutes=0.5,
    run=run,
)
