"""One fit, scored on test rows: the unit of work of a comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from crossfade._checks import show
from crossfade._typing import Floats, Integers
from crossfade.errors import DataError, NumeralsWarning, TradeoffWarning
from crossfade.evaluation.scores import EVERY_METRIC, METRICS, score_predictions
from crossfade.processes import apart
from crossfade.table.text import Cuts


@dataclass(frozen=True)
class Evaluation:
    """What one fit came to.

    `scores`: By metric, on the test rows (NaN of what needs probabilities, without any).
    `tradeoff`: None for a model without one.
    `posterior` (n_test, n_classes): None without probabilities, and where it was not kept.
    """

    scores: dict[str, float]
    seconds: float
    tradeoff: float | None
    posterior: Floats | None = None


@dataclass(frozen=True)
class Failure:
    """Why a model could not be fitted or used."""

    reason: str


@dataclass
class Counts:
    """What models said and where they failed: in how many fits, and the first message.

    Keys are (model name, warning class), and model names.
    """

    warnings: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, later: Counts) -> None:
        """Add what was counted later."""
        _add(self.warnings, later.warnings)
        _add(self.failures, later.failures)

    def warning_notes(self, models: Collection[str] | None = None) -> list[str]:
        """Return what these models' warnings (all models' by default) tell a reader."""
        notes = []
        for (name, category), (times, message) in self.warnings.items():
            if models is not None and name not in models:
                continue
            # Which tradeoff a fit has, where cells are missing, is the same in every fit.
            fits = "1 fit" if times == 1 else f"{times} fits, the first"
            said = "" if category == TradeoffWarning.__name__ else f"{category} in {fits}: "
            notes.append(f"{name}: {said}{message}")
        return notes


def _add(counts: dict[Any, tuple[int, str]], later: dict[Any, tuple[int, str]]) -> None:
    for key, (times, text) in later.items():
        before, first = counts.get(key, (0, text))
        counts[key] = (before + times, first)


@dataclass
class Evaluator:
    """Fits models on some rows of a table and scores them on others.

    Shapes: X (n_rows, n_columns), in the form that models are to see; y, codes (n_rows,); classes
    (n_classes,), sorted; costs (n_classes, n_classes), of the true class and the decided one.
    `cuts`: What cells of text were cut into, which models share.
    """

    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    codes: Integers
    counts: Counts = field(default_factory=Counts)
    costs: Floats | None = None
    cuts: Cuts = field(default_factory=Cuts)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What predictions are scored by."""
        return METRICS if self.costs is None else EVERY_METRIC

    def afresh(self) -> Evaluator:
        """Return an evaluator of the same rows that has seen no warnings."""
        return replace(self, counts=Counts())

    def rows(self, index: Integers) -> Any:
        """Return some rows of the table, in its own type."""
        frame = nw.from_native(self.X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return frame[index].to_native()
        return self.X[index]

    def labels(self, index: Integers) -> Any:
        """Return their labels, as models are fitted to them."""
        return self.y[index]

    def truth(self, index: Integers) -> Integers:
        """Return the class of everything that is predicted of these rows."""
        return self.codes[index]

    def stacked(self, predictions: Any) -> NDArray[Any]:
        """Return a model's predictions, one after the other, as :meth:`truth` has them."""
        return np.asarray(predictions)

    def fit(self, name: str, model: Any, train: Integers) -> Any | Failure:
        """Return a clone fitted on the training rows, or why there is none."""
        X = self.rows(train)
        fitted = clone(model)
        with self.cuts.shared():
            return self.guarded(name, lambda: fitted.fit(X, self.labels(train)))

    def evaluate(
        self, models: dict[str, Any], train: Integers, test: Integers
    ) -> dict[str, Evaluation | Failure]:
        """Fit each model on the training rows and score it on the test rows."""
        X_train, y_train, X_test = self.rows(train), self.labels(train), self.rows(test)
        truth = self.truth(test)

        def run(model: Any) -> Evaluation:
            fresh = clone(model)
            with self.cuts.shared():
                # What another model's fit spared this one is part of what it takes.
                start, saved = perf_counter(), self.cuts.saved
                fresh.fit(X_train, y_train)
                seconds = perf_counter() - start + self.cuts.saved - saved
                predicted, posterior = self.predict(fresh, X_test)
            scores = score_predictions(predicted, posterior, truth, self.costs)
            return Evaluation(scores, seconds, fitted_tradeoff(fresh), posterior)

        return {name: self.guarded(name, partial(run, model)) for name, model in models.items()}

    def predict(self, fitted: Any, X: Any) -> tuple[Integers, Floats | None]:
        """Return predicted codes and the posterior over all classes, None for a model without."""
        predicted = self.codes_of(self.stacked(fitted.predict(X)))
        if not hasattr(fitted, "predict_proba"):
            return predicted, None
        posterior = np.zeros((len(predicted), len(self.classes)))
        posterior[:, self.codes_of(np.asarray(fitted.classes_))] = self.stacked(
            fitted.predict_proba(X)
        )
        if not np.isfinite(posterior).all():
            raise DataError("predict_proba returned values that are not finite")
        return predicted, posterior

    def codes_of(self, labels: NDArray[Any]) -> Integers:
        """Return the position of each label in `classes`."""
        if labels.ndim == 2 and labels.shape[1] == 1:  # some libraries predict a column
            labels = labels[:, 0]
        codes = np.searchsorted(self.classes, labels)
        codes = np.minimum(codes, len(self.classes) - 1).astype(np.int64)
        other = labels[self.classes[codes] != labels]
        if other.size:
            raise DataError(
                f"expected predictions to be labels of y, got {show(other[0])}; use a classifier"
            )
        return codes

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """Yield the counts of what happens inside; they are added to the others at the end."""
        before, self.counts = self.counts, Counts()
        try:
            yield self.counts
        finally:
            before.add(self.counts)
            self.counts = before

    def guarded(self, name: str, work: Callable[[], Any]) -> Any:
        """Run the work apart; return a Failure in place of an exception, and count warnings."""
        found = Counts()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = apart(work)
            except Exception as error:  # whatever a model does, the others go on
                result = Failure(_first_line(error))
                found.failures[name] = (1, result.reason)
        for warning in reversed(caught):
            if issubclass(warning.category, NumeralsWarning):
                continue  # the notes on columns tell it once
            found.warnings[name, warning.category.__name__] = (1, _shorten(str(warning.message)))
        self.counts.add(found)
        return result


def _first_line(error: Exception) -> str:
    text = _shorten(str(error)) or "no message"
    # Errors of input explain themselves; for others the class is part of the explanation.
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"


def fitted_tradeoff(model: Any) -> float | None:
    """Return the tradeoff of a fitted model, chosen or given; None for a model without one."""
    last = model[-1] if isinstance(model, Pipeline) else model
    value = getattr(last, "tradeoff_", None)
    return None if value is None else float(value)
