"""Scores of one set of predictions, and what their mean over repeated splits is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from crossfade._findings import Finding
from crossfade._typing import Floats, Integers

#: Scores of a prediction; lower is better for all of them.
METRICS: Final = ("log_loss", "brier", "error")

#: With what decisions cost, where costs are given.
EVERY_METRIC: Final = (*METRICS, "cost")

METRIC_LABELS: Final = {
    "log_loss": "log-loss",
    "brier": "Brier score",
    "error": "test error",
    "cost": "expected cost",
}

#: A probability of zero given to what happened counts as this, as scikit-learn's log_loss has it.
_SMALLEST: Final = float(np.finfo(np.float64).eps)


def score_predictions(
    predicted: Integers, posterior: Floats | None, truth: Integers, costs: Floats | None = None
) -> dict[str, float]:
    """Return the scores of a model on test rows.

    With costs, `cost` is that of the decisions of least expected cost; of the predicted labels
    where there are no probabilities.

    Shapes: predicted (n_rows,); posterior (n_rows, n_classes); truth (n_rows,); costs (n_classes,
    n_classes), of the true class and the decided one.
    """
    error = float(np.mean(predicted != truth))
    cost = {}
    if costs is not None:
        decided = predicted if posterior is None else (posterior @ costs).argmin(axis=1)
        cost["cost"] = float(np.mean(costs[truth, decided]))
    if posterior is None:
        return {"log_loss": np.nan, "brier": np.nan, "error": error, **cost}
    of_truth = posterior[np.arange(len(truth)), truth]
    # Σ_k (p_k - 1[y=k])² = Σ_k p_k² - 2 p_y + 1
    brier = np.einsum("nk,nk->n", posterior, posterior) - 2 * of_truth + 1
    return {
        "log_loss": float(-np.mean(np.log(np.clip(of_truth, _SMALLEST, 1.0)))),
        "brier": float(np.mean(brier)),
        "error": error,
        **cost,
    }


#: Scores of equal models may differ by so much.
_ROUNDING: Final = 1e-12

#: Values that must be equal before they are taken to have no spread: fewer may be so by chance.
_FEWEST_EQUAL: Final = 5


@dataclass(frozen=True)
class Estimate(Finding):
    """A mean over splits, its corrected standard error (:func:`estimate`) and its 95 % interval.

    Where the splits do not tell a spread, all but the mean is NaN.
    """

    mean: float
    standard_error: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the 95 % interval lies wholly on one side of zero (by more than rounding)."""
        return bool(self.low > _ROUNDING or self.high < -_ROUNDING)

    def shifted(self, amount: float) -> Estimate:
        """Return the estimate moved by so much, as sure as before."""
        low, high = self.low + amount, self.high + amount
        return Estimate(self.mean + amount, self.standard_error, low, high)


def estimate(values: Floats, test_to_train: float) -> Estimate:
    """Estimate the mean of a score over repeated splits of the same rows.

    Scores of splits that share rows are correlated; Nadeau and Bengio (2003, "Inference for the
    generalization error", Machine Learning 52, section 5) correct s/√J to s·√(1/J +
    n_test/n_train). One value has no spread, and that of two to four equal ones is not known: a
    share of a few test rows is easily the same twice.
    """
    n_splits = len(values)
    mean = float(np.mean(values))
    spread = float(np.std(values, ddof=1)) if n_splits > 1 else 0.0
    if n_splits < _FEWEST_EQUAL and spread <= _ROUNDING * max(1.0, abs(mean)):
        return Estimate(mean, np.nan, np.nan, np.nan)
    standard_error = spread * float(np.sqrt(1 / n_splits + test_to_train))
    half = float(stats.t.ppf(0.975, n_splits - 1)) * standard_error
    return Estimate(mean, standard_error, mean - half, mean + half)


def difference(values: Floats, reference: Floats, test_to_train: float) -> Estimate:
    """Estimate the mean of ``values - reference``, paired over splits (see :func:`estimate`)."""
    return estimate(values - reference, test_to_train)
