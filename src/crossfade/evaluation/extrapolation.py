"""What more labels promise: an inverse power law fitted to a curve, with its uncertainty.

The mean error at m training rows is modelled as a + b m^-c, a ≥ 0 the error that remains, b ≥ 0
and 0 < c ≤ 2 (Cortes, Jackel, Solla, Vapnik and Denker 1993, "Learning curves: asymptotic values
and rate of convergence", NIPS 6; Mukherjee et al. 2003, J. Comput. Biol. 10). Splits drawn again
with replacement tell how much of it is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade._checks import counted
from crossfade._findings import Finding
from crossfade._typing import Floats
from crossfade.evaluation.scores import METRIC_LABELS

#: Exponents tried; between them the fit changes by less than the resampling does.
_EXPONENTS = np.geomspace(0.05, 2.0, 60)

_RESAMPLES = 500

#: Fewest sizes from which three parameters and a misfit can be estimated.
_FEWEST_SIZES = 4

#: Sizes beyond this many times the largest one are not believed.
_FARTHEST = 10.0


@dataclass(frozen=True)
class PowerLaw(Finding):
    """Score at m: asymptote + scale · m^-exponent."""

    asymptote: float
    scale: float
    exponent: float

    def at(self, m: Any) -> Any:
        """Return the score at m."""
        return self.asymptote + self.scale * np.asarray(m, dtype=np.float64) ** -self.exponent

    def size_for(self, score: float) -> float:
        """Return the size at which the score is reached, inf where it never is."""
        if score <= self.asymptote or self.scale == 0.0:
            return np.inf
        return float((self.scale / (score - self.asymptote)) ** (1.0 / self.exponent))


def fit_power_law(sizes: Floats, means: Floats, weights: Floats) -> PowerLaw:
    """Fit a + b m^-c, a, b ≥ 0, by weighted least squares. Shapes: all (n_sizes,)."""
    return _fit_all(sizes, means[None], weights)[0]


def _fit_all(sizes: Floats, means: Floats, weights: Floats) -> list[PowerLaw]:
    """Fit a law to each row of means: least squares in closed form at every exponent."""
    w = weights / weights.sum()
    falling = (sizes / sizes[0]) ** -_EXPONENTS[:, None]  # (exponents, sizes)
    middle = falling @ w
    centred = falling - middle[:, None]
    mean = means @ w  # (rows,)
    total = (means**2) @ w
    # The slope b of each (row, exponent), then the corners of a ≥ 0, b ≥ 0.
    slope = np.maximum((means * w) @ centred.T / ((centred**2) @ w), 0.0)
    base = mean[:, None] - slope * middle
    at_zero = np.maximum((means * w) @ falling.T / ((falling**2) @ w), 0.0)
    slope = np.where(base < 0.0, at_zero, slope)
    base = np.maximum(base, 0.0)
    cross = (means * w) @ falling.T
    misfit = (
        total[:, None]
        - 2.0 * (base * mean[:, None] + slope * cross)
        + base**2
        + 2.0 * base * slope * middle
        + slope**2 * ((falling**2) @ w)
    )
    best = misfit.argmin(axis=1)
    rows = np.arange(means.shape[0])
    return [
        PowerLaw(float(a), float(b * sizes[0] ** _EXPONENTS[e]), float(_EXPONENTS[e]))
        for a, b, e in zip(base[rows, best], slope[rows, best], best, strict=True)
    ]


@dataclass(frozen=True)
class Extrapolation(Finding):
    """What one model's curve promises at a larger training size.

    Attributes
    ----------
    model, metric : str
    m : int
        The size asked about.
    expected, low, high : float or None
        Score there and its 95 % interval over resampled splits; None where it is not supported.
    gain, gain_low, gain_high : float or None
        How much lower that is than the fitted curve at the largest size observed.
    law : PowerLaw or None
        The fitted curve.
    m_for_point : float or None
        Training size at which the score is .01 lower than at the largest size observed (one point
        of error), inf where the fitted curve never gets there; None where not supported.
    m_for_point_low, m_for_point_high : float or None
        Its 95 % interval.
    supported : bool
    statement : str
        In a plain sentence: what to expect, or why the data do not support an extrapolation.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from crossfade import NaiveBayes, learning_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {"generative": NaiveBayes(tradeoff=1), "discriminative": NaiveBayes(tradeoff=0)}
    >>> sizes = [10, 20, 40, 80, 160, 320]
    >>> curve = learning_curve(X, y, models=models, train_sizes=sizes, n_splits=20)
    >>> promise = curve.extrapolate(640)["discriminative"]
    >>> promise.supported, promise.m
    (True, 640)
    """

    model: str
    metric: str
    m: int
    expected: float | None
    low: float | None
    high: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    law: PowerLaw | None
    m_for_point: float | None
    m_for_point_low: float | None
    m_for_point_high: float | None
    supported: bool
    statement: str


def extrapolate(
    model: str,
    metric: str,
    scores: Floats,
    sizes: Sequence[int],
    m: int,
    *,
    unit: str = "rows",
    random_state: int = 0,
) -> Extrapolation:
    """Fit the power law to a curve and say what it promises at m.

    Supported: four sizes and five splits or more, m at most ten times the largest size, a curve
    that still falls by more than chance, and a law that fits its last third. Shapes: scores
    (n_splits, n_sizes).
    """
    at = np.asarray(sizes, dtype=np.float64)
    reason = _too_little(scores, at, m, unit)
    if reason:
        return _unsupported(model, metric, m, reason, None)
    law, laws = _fits(scores, at, random_state)
    reason = _misfit(scores, at, law, unit)
    if reason:
        return _unsupported(model, metric, m, reason, law)
    largest = at[-1]
    expected, gain = float(law.at(m)), float(law.at(largest) - law.at(m))
    low, high = _interval([float(one.at(m)) for one in laws])
    gain_low, gain_high = _interval([float(one.at(largest) - one.at(m)) for one in laws])
    point = law.size_for(float(law.at(largest)) - 0.01)
    point_low, point_high = _interval([one.size_for(float(one.at(largest)) - 0.01) for one in laws])
    label = METRIC_LABELS[metric]
    statement = (
        f"{model}: at {m:,} {unit} the {label} is expected to be {expected:.3f} (95 % interval "
        f"{low:.3f} to {high:.3f}), {gain:.3f} lower than the smoothed curve at "
        f"{int(largest):,}; " + _point_words(point, point_low, point_high, int(largest), unit)
    )
    return Extrapolation(
        model, metric, m, expected, low, high, gain, gain_low, gain_high, law,
        point, point_low, point_high, True, statement,
    )  # fmt: skip


def _point_words(point: float, low: float, high: float, largest: int, unit: str) -> str:
    farthest = _FARTHEST * largest
    if not np.isfinite(point):
        return f"no number of {unit} is expected to make it one hundredth lower."
    if point > farthest:
        return f"one hundredth lower takes more than {farthest:,.0f} {unit}, too many to estimate."
    more = f"{max(low - largest, 1):,.0f}"
    interval = f"{more} to {high - largest:,.0f}" if high <= farthest else f"at least {more}"
    return (
        f"one hundredth lower takes about {max(point - largest, 1):,.0f} more {unit} ({interval})."
    )


def _fits(scores: Floats, at: Floats, random_state: int) -> tuple[PowerLaw, list[PowerLaw]]:
    """Return the fitted law, and those of resampled splits."""
    n_splits = scores.shape[0]
    spread = scores.var(axis=0, ddof=1)
    weights = 1.0 / np.maximum(spread, 1e-3 * spread.max() + 1e-12)
    law = fit_power_law(at, scores.mean(axis=0), weights)
    rng = np.random.default_rng(random_state)
    drawn = rng.multinomial(n_splits, np.full(n_splits, 1 / n_splits), size=_RESAMPLES)
    means = drawn @ scores / n_splits
    return law, _fit_all(at, means, weights)


def _too_little(scores: Floats, at: Floats, m: int, unit: str) -> str:
    if at.size < _FEWEST_SIZES:
        return f"a curve of {counted(at.size, 'size')} is too short for a power law; take "
        f"{_FEWEST_SIZES} or more"
    if scores.shape[0] < 5:
        splits = counted(scores.shape[0], "split")
        return f"{splits} can give no uncertainty; take at least 5"
    if m > _FARTHEST * at[-1]:
        return (
            f"{m:,} {unit} is more than ten times the largest training set, {int(at[-1]):,}: "
            "nothing observed shows whether the curve continues in the same way"
        )
    return ""


def _misfit(scores: Floats, at: Floats, law: PowerLaw, unit: str) -> str:
    """Return why the curve cannot be continued, "" where it can."""
    n_splits, n_sizes = scores.shape
    half = scores[:, n_sizes // 2 :]
    fall = half[:, 0] - half[:, -1]
    error = float(fall.std(ddof=1)) / np.sqrt(n_splits)
    if fall.mean() <= 2.0 * error:
        return (
            f"from {int(at[n_sizes // 2]):,} to {int(at[-1]):,} {unit} the curve does not fall by "
            "more than chance, so it does not show how it continues"
        )
    tail = slice(-max(2, n_sizes // 3), None)
    means = scores.mean(axis=0)[tail]
    errors = scores.std(axis=0, ddof=1)[tail] / np.sqrt(n_splits)
    off = np.abs(means - law.at(at[tail]))
    if (off > np.maximum(3.0 * errors, 0.01)).any():
        return (
            f"no power law fits the curve's end: it is off by {float(off.max()):.3f} at its last "
            "sizes"
        )
    return ""


def _unsupported(
    model: str, metric: str, m: int, reason: str, law: PowerLaw | None
) -> Extrapolation:
    label = METRIC_LABELS[metric]
    statement = f"{model}: the data do not support an extrapolation of the {label}: {reason}."
    none = (None,) * 6
    return Extrapolation(model, metric, m, *none, law, None, None, None, False, statement)


def _interval(values: list[float]) -> tuple[float, float]:
    ordered = np.sort(np.array(values))
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in (0.025, 0.975))
    return float(low), float(high)
