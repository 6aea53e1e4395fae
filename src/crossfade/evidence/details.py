"""The evidence behind a comparison as records: path, view, weights, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crossfade._findings import Finding
from crossfade._typing import Floats, Integers
from crossfade.evaluation.scores import Estimate


@dataclass(frozen=True)
class Bar(Finding):
    """One weight's place.

    `column`: Number of the column.
    `level`: The category, or the second value of a boolean column, whose weight it is; None for a
        column of numbers.
    `against`: The category that it is compared with.
    """

    column: int
    level: str | None
    against: str | None


@dataclass(frozen=True)
class Calibration(Finding):
    """Predicted probabilities against what happened, in bins.

    `mean` (n_bins,): Mean predicted probability of the bin; empty bins are left out.
    `frequency`, `low`, `high` (n_bins,): How often it happened, with a 95 % interval (Wilson 1927).
        A row that is a test row of several splits counts once in it.
    `share` (n_bins,): Share of the predictions in the bin.
    `error`: Expected calibration error: the mean over predictions of the distance between bin's
        mean and frequency, by split.
    """

    mean: Floats
    frequency: Floats
    low: Floats
    high: Floats
    share: Floats
    error: Estimate


@dataclass(frozen=True)
class Ranking(Finding):
    """How well the second class's probability ranks rows, averaged over splits.

    `place` (n_places,): False-positive rates, and recalls.
    `true_positive` (n_places,): Mean true-positive rate at each false-positive rate.
    `precision` (n_places,): Mean precision at each recall.
    `area`, `average_precision`: Area under the ROC curve, ties counting half; average precision.
    `prevalence`: Share of the second class: the precision of guessing.
    """

    place: Floats
    true_positive: Floats
    precision: Floats
    area: Estimate
    average_precision: Estimate
    prevalence: float


@dataclass(frozen=True)
class Thresholds(Finding):
    """What decisions cost by the probability from which the second class is decided for.

    `threshold` (n_thresholds,).
    `mean`, `low`, `high` (n_thresholds,): Mean cost of test rows over splits, with a 95 % interval.
    `right`: The threshold of least expected cost, for probabilities that are true.
    `cost`: What decisions by it cost.
    `least`: The threshold of least mean cost among all, which these rows chose.
    """

    threshold: Floats
    mean: Floats
    low: Floats
    high: Floats
    right: float
    cost: Estimate
    least: float


@dataclass(frozen=True)
class DensityFit(Finding):
    """How a column's numbers in a class lie in the density of the generative end.

    `column`, `label`: The column and the class, as text.
    `density`: Its name.
    `n_rows`: Cells that were looked at.
    `shares` (10,): Of their probability integral transforms out of fold, in ten equal bins.
    `statistic`, `p_value`: Anderson and Darling's A², and the p-value with all columns and classes
        counted.
    `complaint`: How they differ most clearly, in words, if they differ.
    """

    column: str
    label: str
    density: str
    n_rows: int = field(metadata={"key": "rows"})
    shares: Floats
    statistic: float
    p_value: float
    complaint: str

    @property
    def is_wrong(self) -> bool:
        """Whether the numbers differ from the density by more than chance explains."""
        return self.p_value <= 0.05


@dataclass(frozen=True)
class View(Finding):
    """A model family's posterior over two discriminant directions, along the path.

    `points` (n_shown, 2): Rows of the sample.
    `codes` (n_shown,), int64: Their classes.
    `low`, `high` (2,): Ends of the part that holds nearly all rows.
    `surfaces` (n_path, 6, n_classes): See :func:`~crossfade.comparison.plane.posterior_surface`.
    `agreement` (n_path,): Share of rows at whose place the view shows the class that the model
        decides for.
    """

    points: Floats
    codes: Integers
    low: Floats
    high: Floats
    surfaces: Floats
    agreement: Floats


@dataclass(frozen=True)
class WeightInterval(Finding):
    """Weights with 95 % intervals, each of shape (n_bars, n_scores)."""

    value: Floats
    standard_error: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, value: Floats, error: Floats, half: float) -> WeightInterval:
        """Return the interval of `half` standard errors to either side."""
        return cls(value, error, value - half * error, value + half * error)


@dataclass(frozen=True)
class Weights(Finding):
    """What each column is worth along the path, and at its ends with uncertainty.

    `path` (n_path, n_bars, n_scores): Log-odds a standard deviation (or a change of category) at
        each λ; one score for two classes, else one per class. The first is the generative end, the
        last the discriminative.
    `generative_error`, `discriminative_error`, `change_error` (n_bars, n_scores): Standard errors
        of the two ends and of their difference (delete-d jackknife).
    `half`: How many of them a 95 % interval takes to either side.
    """

    _KEYS: ClassVar = {k: k for k in ("bars", "path", "generative", "discriminative", "change")}

    bars: tuple[Bar, ...]
    path: Floats
    generative_error: Floats
    discriminative_error: Floats
    change_error: Floats
    half: float

    @property
    def generative(self) -> WeightInterval:
        """The generative end."""
        return WeightInterval.of(self.path[0], self.generative_error, self.half)

    @property
    def discriminative(self) -> WeightInterval:
        """The discriminative end."""
        return WeightInterval.of(self.path[-1], self.discriminative_error, self.half)

    @property
    def change(self) -> WeightInterval:
        """The discriminative end less the generative."""
        return WeightInterval.of(self.path[-1] - self.path[0], self.change_error, self.half)


@dataclass(frozen=True)
class WordWeight(Finding):
    """What a word says for a class.

    `column`: Name of its column of text; "" in a sparse table, whose columns are the words.
    `label`: The class, as text.
    `value`: What it adds to the log-odds of the class (of more than two: against the mean of all
        classes), the mean over the rows in which it occurs.
    `n_rows`: How many rows these are.
    """

    column: str
    word: str
    label: str
    value: float
    n_rows: int = field(metadata={"key": "rows"})


@dataclass(frozen=True)
class Details(Finding):
    """What a comparison's page shows besides the table.

    `n_rows`: Rows that all of it was computed on; fewer than the table has where that is large.
    `n_splits`: Splits for calibration, ranking and standard errors.
    `family`, `assumption`: The family whose λ is moved, and what its generative end believes of the
        columns.
    `tradeoffs`: The λ of `view` and `weights`, falling.
    `path`: The out-of-fold losses along the path on all rows, as ``tradeoff_path_`` has them.
    `chosen`: The λ chosen there.
    `method`: Where its losses came from.
    `words`: By class, the words that say most for it in all rows together, in falling order, of the
        family's member that chose λ; empty without text.
    `calibration`, `ranking`, `thresholds`: By model; but for the first, for two classes only.
    `densities`: How columns of numbers fit in each class at the family's generative end.
    `notes`: What could not be computed, and why.
    """

    n_rows: int = field(metadata={"key": "rows"})
    n_splits: int = field(metadata={"key": "splits"})
    family: str | None
    assumption: str | None
    tradeoffs: tuple[float, ...]
    path: Mapping[str, NDArray[np.float64]] | None
    chosen: float | None
    method: str | None
    view: View | None
    weights: Weights | None
    words: tuple[WordWeight, ...]
    calibration: Mapping[str, Calibration]
    ranking: Mapping[str, Ranking]
    thresholds: Mapping[str, Thresholds]
    densities: tuple[DensityFit, ...]
    notes: tuple[str, ...]
