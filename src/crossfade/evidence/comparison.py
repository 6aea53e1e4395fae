"""A comparison as records: the data, each model's scores, the two ends, and all of it together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from crossfade._findings import Finding
from crossfade._optional import versions
from crossfade._typing import Floats
from crossfade.evaluation.crossing import Crossing
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.scores import EVERY_METRIC, METRICS, Estimate
from crossfade.evidence.details import Details
from crossfade.evidence.interactions import Interaction
from crossfade.evidence.verdict import verdict


@dataclass(frozen=True)
class TableOrigin(Finding):
    """Where a table came from.

    `name`: What the user called it: a path, or the name of a data set.
    `target`: Name of the target column.
    `n_dropped`: Rows left out because their target is missing.
    `notes`: What was done on opening, for the reader.
    """

    _KEYS: ClassVar = {
        "source": "name",
        "target": "target",
        "rows_without_target": "n_dropped",
        "opening_notes": "notes",
    }

    name: str
    target: str
    n_dropped: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ColumnDensity(Finding):
    """The density of a column, why it has it in words, and by what; see ``density_report_``."""

    column: str
    density: str
    reason: str
    by: str


@dataclass(frozen=True)
class DataSummary(Finding):
    """The data a comparison was made on.

    Attributes
    ----------
    n_rows, n_columns : int
        Rows with a label, and columns other than the target.
    n_dropped : int
        Rows left out because their label is missing.
    classes : tuple of str
        Class labels as text, in sorted order of the labels.
    class_counts : tuple of int
        Rows of each class.
    column_names : tuple of str
        Columns of the table.
    column_kinds : tuple of {"continuous", "count", "boolean", "categorical"}
        What each of them was taken for.
    column_missing : tuple of int
        Missing cells of each of them.
    densities : tuple of ColumnDensity
        The density that naive Bayes gives each of them, and why, as its ``density_report_`` has
        them; empty before a run.
    """

    _KEYS: ClassVar = {
        "rows": "n_rows",
        "columns": "n_columns",
        "rows_dropped": "n_dropped",
        "classes": "classes",
        "class_counts": "class_counts",
        "column_kinds": "kind_of",
        "column_densities": "column_densities",
        "density_reasons": "density_reasons",
        "densities_by": "densities_by",
        "missing_cells": "column_missing",
    }

    n_rows: int
    n_columns: int
    n_dropped: int
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    column_names: tuple[str, ...]
    column_kinds: tuple[str, ...]
    column_missing: tuple[int, ...]
    densities: tuple[ColumnDensity, ...] = ()

    @property
    def kind_of(self) -> dict[str, str]:
        """What each column was taken for, by name."""
        return dict(zip(self.column_names, self.column_kinds, strict=True))

    @property
    def column_densities(self) -> tuple[str, ...]:
        """Name of each column's density."""
        return tuple(one.density for one in self.densities)

    @property
    def density_reasons(self) -> tuple[str, ...]:
        """Why each column has it, in words."""
        return tuple(one.reason for one in self.densities)

    @property
    def densities_by(self) -> tuple[str, ...]:
        """Why each column has it, in a word."""
        return tuple(one.by for one in self.densities)


@dataclass(frozen=True)
class TradeoffChoice(Finding):
    """The tradeoff that an automatic choice arrived at.

    Attributes
    ----------
    median, smallest, largest : float
        Over the splits.
    """

    median: float
    smallest: float
    largest: float


@dataclass(frozen=True)
class ModelResult(Finding):
    """One model's row of the table.

    Attributes
    ----------
    name : str
        Name in the comparison.
    family : str or None
        What it shares with the models that differ from it in their tradeoff only.
    tradeoff : float, "auto" or None
        The tradeoff asked for; None for a model without one.
    n_splits : int
        Splits that it was fitted on, the first ones.
    scores : mapping of str to ndarray of shape (n_splits,)
        ``log_loss``, ``brier`` and ``error`` by split, and ``cost`` where costs are given; empty if
        the model failed.
    estimates : mapping of str to Estimate
        Their means with standard errors; a metric that the model does not have is left out. Where
        the best model has other splits, the mean is that one's plus the paired difference, so that
        means can be compared.
    differences : mapping of str to Estimate
        This model minus the best one, paired over the splits that both have; empty for the best.
    fit_seconds : float or None
        Wall-clock time of a fit, the median over splits.
    chosen : TradeoffChoice or None
        What an automatic tradeoff chose.
    failure : str or None
        Why the model could not be fitted.
    guesses : bool
        Whether it does not look at the columns (scikit-learn's DummyClassifier).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from crossfade import compare
    >>> row = compare(*load_iris(return_X_y=True), models={"normal": GaussianNB()})["normal"]
    >>> row.name, row.estimates["error"].mean < 0.1, row.failure
    ('normal', True, None)
    """

    _KEYS: ClassVar = {
        "name": "name",
        "family": "family",
        "tradeoff": "tradeoff",
        "splits": "n_splits",
        **{metric: f"estimates.{metric}" for metric in EVERY_METRIC},
        "fit_seconds": "fit_seconds",
        "difference_to_best": {metric: f"differences.{metric}" for metric in EVERY_METRIC},
        "chosen_tradeoff": "chosen",
        "failure": "failure",
    }

    name: str
    family: str | None
    tradeoff: float | str | None
    n_splits: int = 0
    scores: Mapping[str, Floats] = field(default_factory=dict)
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    differences: Mapping[str, Estimate] = field(default_factory=dict)
    fit_seconds: float | None = None
    chosen: TradeoffChoice | None = None
    failure: str | None = None
    guesses: bool = False


@dataclass(frozen=True)
class PoolResult(ModelResult):
    """The pool of a comparison's models, made of the fits of these: a row beside theirs.

    Of models that differ in their tradeoff only, it takes the one that chooses it. On each split
    the members' weights come from the split's training rows, as far as other splits tested models
    on them (see :class:`~crossfade.PooledClassifier` for the formula).

    Attributes
    ----------
    weights : mapping of str to float
        Of the models that have one, from all splits.
    rival : str
        The best of these models by itself.
    gain : mapping of str to Estimate
        The pool minus that model, paired over the pool's splits.
    """

    _KEYS: ClassVar = {
        **ModelResult._KEYS,
        "weights": "weights",
        "best_member": "rival",
        "difference_to_best_member": {metric: f"gain.{metric}" for metric in EVERY_METRIC},
    }

    weights: Mapping[str, float] = field(default_factory=dict)
    rival: str = ""
    gain: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class EndsResult(Finding):
    """The two ends of the best family: the generative and the discriminative fit.

    Attributes
    ----------
    family : str
        The family's label.
    difference : mapping of str to Estimate
        Discriminative minus generative, by metric, at all training rows.
    crossing : mapping of str to Crossing
        Where the discriminative fit overtakes the generative one, by metric.
    generative, discriminative : str
        The names of the two in the curve.
    """

    family: str
    generative: str
    discriminative: str
    difference: Mapping[str, Estimate] = field(metadata={"key": "discriminative_minus_generative"})
    crossing: Mapping[str, Crossing]


@dataclass(frozen=True, repr=False)
class Comparison(Finding):
    """Everything that was found; `ComparisonResult`, which can show it, describes its fields."""

    _KEYS: ClassVar = {
        "data": "data",
        "splits": {
            "finished": "n_splits",
            "asked": "n_splits_asked",
            "ended": "ended",
            "train_rows": "n_train",
            "test_rows": "n_test",
            "random_state": "random_state",
            "complete": "complete",
        },
        "criterion": "criterion",
        "costs": "costs",
        "best": "best",
        "models": "models",
        "pool": "pool",
        "ends": "ends",
        "curve": "curve",
        "doubling_the_rows": "doubling",
        "details": "details",
        "interactions": "interactions",
        "notes": "notes",
        "verdict": "verdict_sentences",
        "seconds": "seconds",
        "versions": "versions",
    }

    models: tuple[ModelResult, ...]
    best: str
    criterion: str
    data: DataSummary
    n_splits: int
    n_splits_asked: int
    ended: str
    n_train: int
    n_test: int
    random_state: int
    curve: LearningCurve | None
    ends: EndsResult | None
    doubling: Mapping[str, Estimate]
    details: Details | None
    notes: tuple[str, ...]
    seconds: float
    pool: PoolResult | None = None
    costs: Floats | None = None
    interactions: tuple[Interaction, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """What models are scored by."""
        return METRICS if self.costs is None else EVERY_METRIC

    @property
    def rows(self) -> tuple[ModelResult, ...]:
        """The models, and the pool of them where there is one."""
        return (*self.models, *([] if self.pool is None else [self.pool]))

    @property
    def complete(self) -> bool:
        """Whether neither Ctrl-C nor a time limit ended it."""
        return self.ended in ("all splits", "settled")

    def __getitem__(self, name: str) -> ModelResult:
        """Return the result of the model with this name."""
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(repr(model.name) for model in self.models)
        raise KeyError(f"no model named {name!r} was compared; there are {known}")

    @property
    def verdict_sentences(self) -> tuple[str, ...]:
        """The three sentences of :meth:`verdict`, one by one."""
        return verdict(self)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of what the numbers depend on."""
        return versions()
