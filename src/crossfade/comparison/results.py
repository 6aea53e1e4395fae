"""What a comparison found: computed once, shown many ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crossfade._findings import Finding, as_json
from crossfade._optional import import_optional, versions
from crossfade._typing import Floats
from crossfade.comparison.details import Details
from crossfade.comparison.verdict import verdict
from crossfade.errors import MissingExtraError
from crossfade.evaluation.crossing import Crossing
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.scores import METRIC_LABELS, METRICS, Estimate
from crossfade.report.numbers import figure

__all__ = [
    "ComparisonResult",
    "DataSummary",
    "EndsResult",
    "ModelResult",
    "Status",
    "TradeoffChoice",
]


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
    density_report : tuple of dict
        The density that naive Bayes gives each of them, and why, as its ``density_report_`` has
        them; empty before a run.
    """

    n_rows: int
    n_columns: int
    n_dropped: int
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    column_names: tuple[str, ...]
    column_kinds: tuple[str, ...]
    column_missing: tuple[int, ...]
    density_report: tuple[Mapping[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under their names."""
        return {
            "rows": self.n_rows,
            "columns": self.n_columns,
            "rows_dropped": self.n_dropped,
            "classes": list(self.classes),
            "class_counts": list(self.class_counts),
            "column_kinds": dict(zip(self.column_names, self.column_kinds, strict=True)),
            "column_densities": [one["density"] for one in self.density_report],
            "density_reasons": [one["reason"] for one in self.density_report],
            "densities_by": [one["by"] for one in self.density_report],
            "missing_cells": list(self.column_missing),
        }


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
        ``log_loss``, ``brier`` and ``error`` by split; empty if the model failed.
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
    """

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

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the scores of single splits."""
        return {
            "name": self.name,
            "family": self.family,
            "tradeoff": self.tradeoff,
            "splits": self.n_splits,
            **{metric: as_json(self.estimates.get(metric)) for metric in METRICS},
            "fit_seconds": self.fit_seconds,
            "difference_to_best": {m: as_json(self.differences.get(m)) for m in METRICS},
            "chosen_tradeoff": as_json(self.chosen),
            "failure": self.failure,
        }


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
class ComparisonResult(Finding):
    """What :func:`crossfade.compare` found; it makes these, you read them.

    Parameters
    ----------
    models : tuple of ModelResult
        In the order given, failed ones included.
    best : str
        Name of the model with the lowest mean of `criterion`.
    criterion : {"log_loss", "brier", "error"}
        What "best" means.
    data : DataSummary
        The data.
    n_splits, n_splits_asked : int
        Splits that the best model was fitted on, and how many were asked for.
    ended : {"all splits", "settled", "time limit", "keyboard"}
        Why it ended: "settled" where more splits would hardly change the verdict.
    n_train, n_test : int
        Rows on either side of each split.
    random_state : int
        Seed of the splits.
    curve : LearningCurve or None
        The small learning curve of the best family's two ends and of the best model.
    ends : EndsResult or None
        Its two ends compared; None if no model has a tradeoff, or the run was interrupted.
    doubling : mapping of str to Estimate
        Change of the best model's scores if the training rows doubled, by metric.
    details : Details or None
        The evidence behind it: the path over λ, weights of columns, calibration; None if it was
        not asked for, or the run was interrupted.
    notes : tuple of str
        What else the reader should know: failures, warnings, rows dropped.
    seconds : float
        Wall-clock time of the whole comparison.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from crossfade import compare
    >>> result = compare(*load_iris(return_X_y=True), models={"normal": GaussianNB()})
    >>> result["normal"].estimates["error"].mean < 0.1
    True
    >>> result.frame()["model"].to_list()
    ['normal']
    """

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

    def __repr__(self) -> str:
        label = METRIC_LABELS[self.criterion]
        score = self[self.best].estimates[self.criterion]
        value = figure(score.mean, score.standard_error)
        error = figure(score.standard_error, score.standard_error)
        return (
            f"<ComparisonResult: {len(self.models)} models on {self.n_splits} splits of "
            f"{self.data.n_rows} rows; best is {self.best!r}, {label} {value} ± {error}. "
            "See .verdict(), .frame(), .to_dict()>"
        )

    def verdict(self) -> str:
        """Return the finding in three plain sentences.

        Every figure in it is one of :meth:`to_dict`, rounded. The first says which model is best
        and which others cannot be told apart from it, the second what the tradeoff between
        generative and discriminative does, the third what more labelled rows promise.
        """
        return " ".join(self.verdict_sentences)

    @property
    def verdict_sentences(self) -> tuple[str, ...]:
        """The three sentences of :meth:`verdict`, one by one."""
        return verdict(self)

    def frame(self) -> Any:
        """Return the table as a polars DataFrame, a row a model.

        Returns
        -------
        polars.DataFrame
            Columns model, family, tradeoff (as asked for, text), tradeoff_chosen (median over
            splits), splits; log_loss, brier, error, each followed by its standard error with the
            ending ``_se``; fit_seconds (median); log_loss_difference (to the best model, paired),
            with the ends of its 95 % interval under ``_low`` and ``_high``, likewise for brier and
            error; failure.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        pl = import_optional("polars", "data frames")
        rows = [self._frame_row(model) for model in self.models]
        text = {"model", "family", "tradeoff", "failure"}
        schema = {name: pl.String if name in text else pl.Float64 for name in rows[0]}
        schema["splits"] = pl.Int64
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _frame_row(self, model: ModelResult) -> dict[str, Any]:
        row: dict[str, Any] = {
            "model": model.name,
            "family": model.family,
            "tradeoff": None if model.tradeoff is None else str(model.tradeoff),
            "tradeoff_chosen": model.chosen.median if model.chosen else None,
            "splits": model.n_splits,
        }
        for metric in METRICS:
            value = model.estimates.get(metric)
            row[metric] = value.mean if value else None
            row[f"{metric}_se"] = value.standard_error if value else None
        row["fit_seconds"] = model.fit_seconds
        for metric in METRICS:
            gap = model.differences.get(metric)
            row[f"{metric}_difference"] = gap.mean if gap else None
            row[f"{metric}_difference_low"] = gap.low if gap else None
            row[f"{metric}_difference_high"] = gap.high if gap else None
        return row | {"failure": model.failure}

    def plot(self, chart: str = "differences") -> Any:
        """Return one of the page's charts.

        Parameters
        ----------
        chart : str, default="differences"
            "differences" (each model against the best), "learning" (curves against training
            rows), "log_loss", "brier" and "error" (along λ), "view" (the posterior over a plane,
            with a slider for λ), "weights" (of the columns, with the same slider), "ends" (weights
            of the generative and the discriminative fit), "reliability", "roc" or
            "precision_recall".

        Returns
        -------
        altair.Chart
            Notebooks show it; ``.save("chart.png")`` writes PNG, SVG or HTML.

        Raises
        ------
        DataError
            If there is no such chart, or nothing to draw on it.
        MissingExtraError
            If Altair is not installed.
        """
        from crossfade.report.page import draw

        return draw(self.to_dict(), chart)

    def to_html(self) -> str:
        """Return the whole finding as one self-contained HTML page.

        Write it to a file and open that in any browser: it fetches nothing.

        Raises
        ------
        MissingExtraError
            If the libraries of the extra "report" are not installed.
        """
        from crossfade.report.page import render_page

        return render_page(self.to_dict())

    def to_markdown(self) -> str:
        """Return verdict and table as Markdown."""
        from crossfade.report.markdown import to_markdown

        return to_markdown(self.to_dict())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the page, in a frame of its own."""
        bundle = {"text/plain": repr(self), "text/markdown": self.to_markdown()}
        try:
            from crossfade.report.page import in_frame

            return bundle | {"text/html": in_frame(self.to_html())}
        except MissingExtraError:
            return bundle

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the table and the verdict, ready for strict JSON.

        Returns
        -------
        dict
            Nested dictionaries, lists, text, numbers and None; no NaN and no infinity.
        """
        found: dict[str, Any] = as_json(
            {
                "data": self.data,
                "splits": {
                    "finished": self.n_splits,
                    "asked": self.n_splits_asked,
                    "ended": self.ended,
                    "train_rows": self.n_train,
                    "test_rows": self.n_test,
                    "random_state": self.random_state,
                    "complete": self.complete,
                },
                "criterion": self.criterion,
                "best": self.best,
                "models": self.models,
                "ends": self.ends,
                "curve": self._curve_dict(),
                "doubling_the_rows": self.doubling,
                "details": self.details,
                "notes": self.notes,
                "verdict": self.verdict_sentences,
                "seconds": self.seconds,
                "versions": versions(),
            }
        )
        return found

    def _curve_dict(self) -> dict[str, Any] | None:
        """Return the curve with the ends of 95 % intervals."""
        if self.curve is None:
            return None
        bands = {metric: self.curve.summary(metric) for metric in METRICS}
        return self.curve.to_dict() | {
            "interval": {
                name: {
                    metric: [[at.low, at.high] for at in summary[name]]
                    for metric, summary in bands.items()
                }
                for name in self.curve.models
            }
        }


@dataclass(frozen=True)
class Status:
    """How far a comparison is.

    Attributes
    ----------
    done, total : int
        Steps done, and steps in all at most.
    doing : str
        What is being fitted now.
    seconds : float
        Time since the start.
    seconds_left : float or None
        How long the table will take at most; None where that is not known yet.
    n_splits : int
        Splits that were asked for.
    partial : callable
        ``partial()`` returns the result so far; None before the first fit.
    """

    done: int
    total: int
    doing: str
    seconds: float
    seconds_left: float | None
    n_splits: int
    partial: Callable[[], ComparisonResult | None]
