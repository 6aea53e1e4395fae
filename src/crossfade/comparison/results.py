"""What a comparison found: computed once, shown many ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crossfade._checks import counted
from crossfade._optional import import_optional
from crossfade.errors import MissingExtraError
from crossfade.evaluation.scores import METRIC_LABELS
from crossfade.evidence.comparison import Comparison, ModelResult
from crossfade.evidence.numbers import around


@dataclass(frozen=True, repr=False)
class ComparisonResult(Comparison):
    """What :func:`crossfade.compare` found; it makes these, you read them.

    Parameters
    ----------
    models : tuple of ModelResult
        In the order given, failed ones included.
    best : str
        Name of the model with the lowest mean of `criterion`.
    criterion : {"log_loss", "brier", "error", "cost"}
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
    pool : PoolResult or None
        The pool of these models: its weights, scores, and what it gains over its best member. None
        where fewer than two have a weight, or posteriors were not kept (over 20,000 rows).
    interactions : tuple of Interaction
        Which columns say something together that naive Bayes does not see, by tests of its
        residuals on test rows, the ten strongest at most, and where; empty unless a model without
        a tradeoff is clearly ahead of it.
    costs : ndarray of shape (n_classes, n_classes) or None
        What decisions cost, ``costs[true, decided]``, where that was given.

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

    def __repr__(self) -> str:
        label = METRIC_LABELS[self.criterion]
        score = around(self[self.best].estimates[self.criterion])
        return (
            f"<ComparisonResult: {counted(len(self.models), 'model')} on "
            f"{counted(self.n_splits, 'split')} of {counted(self.data.n_rows, 'row')}; best is "
            f"{self.best!r}, {label} {score}. See .verdict(), .frame(), .to_dict()>"
        )

    def verdict(self) -> str:
        """Return the finding in three plain sentences.

        Every figure in it is one of :meth:`to_dict`, rounded. The first says which model is best
        and which others cannot be told apart from it, the second what the tradeoff between
        generative and discriminative does, the third what more labelled rows promise.
        """
        return " ".join(self.verdict_sentences)

    def frame(self) -> Any:
        """Return the table as a polars DataFrame, one row per model and one for their pool.

        Returns
        -------
        polars.DataFrame
            Columns model, family, tradeoff (as asked for, text), tradeoff_chosen (median over
            splits), splits; log_loss, brier, error, each followed by its standard error with the
            ending ``_se``; fit_seconds (median); log_loss_difference (to the best model, paired),
            with the ends of its 95 % interval under ``_low`` and ``_high``, likewise for brier and
            error; failure. Where costs were given, cost stands beside these scores.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        pl = import_optional("polars", "data frames")
        rows = [self._frame_row(model) for model in self.rows]
        text = {"model", "family", "tradeoff", "failure"}
        schema = {name: pl.String if name in text else pl.Float64 for name in rows[0]}
        schema["splits"] = pl.Int64
        return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)

    def _frame_row(self, model: ModelResult) -> dict[str, Any]:
        row: dict[str, Any] = {
            "model": model.name,
            "family": model.family,
            "tradeoff": None if model.tradeoff is None else str(model.tradeoff),
            "tradeoff_chosen": model.chosen.median if model.chosen else None,
            "splits": model.n_splits,
        }
        for metric in self.metrics:
            value = model.estimates.get(metric)
            row[metric] = value.mean if value else None
            row[f"{metric}_se"] = value.standard_error if value else None
        row["fit_seconds"] = model.fit_seconds
        for metric in self.metrics:
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
            of the generative and the discriminative fit), "reliability", "roc",
            "precision_recall", "thresholds" (what decisions cost), "densities" (where numbers lie
            in theirs) or "interactions" (what columns say together and naive Bayes does not see).

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

        return draw(self, chart)

    def to_html(self) -> str:
        """Return the whole finding as one self-contained HTML page.

        Write it to a file and open that in any browser: it fetches nothing.

        Raises
        ------
        MissingExtraError
            If the libraries of the extra "report" are not installed.
        """
        from crossfade.report.page import render_page

        return render_page(self)

    def to_markdown(self) -> str:
        """Return verdict and table as Markdown."""
        from crossfade.report.markdown import to_markdown

        return to_markdown(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show: the page, in a frame of its own."""
        bundle = {"text/plain": repr(self), "text/markdown": self.to_markdown()}
        try:
            from crossfade.report.page import in_frame

            return bundle | {"text/html": in_frame(self.to_html())}
        except MissingExtraError:
            return bundle


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
    seconds_after : float or None
        About how long the curve and the evidence will take after the table, or take still.
    """

    done: int
    total: int
    doing: str
    seconds: float
    seconds_left: float | None
    n_splits: int
    partial: Callable[[], ComparisonResult | None]
    seconds_after: float | None = None
