"""Learning curves as they come out: every score, crossings, what more labels promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crossfade._checks import check_choice, counted
from crossfade._findings import Finding
from crossfade._optional import import_optional
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.evaluation.crossing import Crossing, find_crossing
from crossfade.evaluation.extrapolation import Extrapolation, extrapolate
from crossfade.evaluation.scores import METRIC_LABELS, METRICS, Estimate, estimate


def check_metric(metric: str, known: Sequence[str] = METRICS) -> None:
    """Refuse the name of a score that there is not."""
    check_choice("metric", metric, known, "error is the share of wrong decisions")


@dataclass(frozen=True, repr=False)
class LearningCurve(Finding):
    """Scores of models on nested training sets, over random splits; a run makes these.

    Parameters
    ----------
    models : tuple of str
        Names, in the order given.
    sizes : tuple of int
        Training sizes, ascending; within a split a larger set contains the smaller.
    scores : mapping of str to mapping of str to ndarray of shape (n_splits, n_sizes)
        By model, then by metric (log_loss, brier, error; lower is better); NaN where a model could
        not be fitted or has no probabilities.
    n_train, n_test : int
        Rows on either side of each split.
    random_state : int
        Seed of the splits.
    unit : {"rows", "sequences"}
        What sizes count.
    complete : bool
        False if the run was interrupted and fewer splits than asked for are in it.
    notes : tuple of str
        Failures and warnings of models, rows left out.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from crossfade import NaiveBayes, learning_curve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {"generative": NaiveBayes(tradeoff=1), "discriminative": NaiveBayes(tradeoff=0)}
    >>> sizes = [10, 20, 40, 80, 160, 320]
    >>> curve = learning_curve(X, y, models=models, n_splits=20, train_sizes=sizes)
    >>> [round(at.mean, 3) for at in curve.summary()["generative"]][-1]
    0.069
    """

    _KEYS: ClassVar = {
        "sizes": "sizes",
        "mean": "_means",
        "splits": "n_splits",
        "interval": "_intervals",
    }

    models: tuple[str, ...]
    sizes: tuple[int, ...]
    scores: Mapping[str, Mapping[str, Floats]]
    n_train: int
    n_test: int
    random_state: int
    unit: str = "rows"
    complete: bool = True
    notes: tuple[str, ...] = ()

    @property
    def n_splits(self) -> int:
        """Number of finished splits."""
        return int(self.scores[self.models[0]]["error"].shape[0])

    def __repr__(self) -> str:
        return (
            f"<LearningCurve: {', '.join(map(repr, self.models))} on "
            f"{counted(len(self.sizes), 'size')} from {self.sizes[0]} to {self.sizes[-1]} "
            f"{self.unit}, "
            f"{counted(self.n_splits, 'split')}{'' if self.complete else ' (interrupted)'}. See "
            ".frame(), .crossings(), .extrapolate(m), .plot()>"
        )

    # -- as tables -------------------------------------------------------------------------------

    def columns(self) -> dict[str, Any]:
        """Return the columns of :meth:`frame` as lists and arrays, by name."""
        n, s = self.n_splits, len(self.sizes)
        count = len(self.models)
        flat = {
            metric: np.stack([self.scores[name][metric] for name in self.models], axis=2).ravel()
            for metric in ("error", "log_loss", "brier")
        }
        return {
            "split": np.repeat(np.arange(n), s * count),
            "m": np.tile(np.repeat(np.asarray(self.sizes, dtype=np.int64), count), n),
            "model": list(self.models) * (n * s),
            **flat,
        }

    def frame(self) -> Any:
        """Return every score as a polars DataFrame, a row per split, size and model.

        Returns
        -------
        polars.DataFrame
            Columns split, m (training rows or sequences), model, error, log_loss, brier; null
            where a model could not be fitted or has no probabilities.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        return import_optional("polars", "data frames").DataFrame(self.columns(), nan_to_null=True)

    @property
    def ratio(self) -> float:
        """n_test/n_train of the splits, for the corrected standard errors at every size.

        Scores of two splits are correlated as far as they share test rows: n_test of all rows,
        however few of the others a model was trained on. Nadeau and Bengio's n_test/n_train
        writes ρ/(1-ρ) for that share ρ; with m in place of n_train it would be n_test/(m+n_test),
        and errors at small sizes several times too wide.
        """
        return self.n_test / self.n_train

    def summary(self, metric: str = "error") -> dict[str, list[Estimate]]:
        """Return mean, standard error and 95 % interval at each size, by model.

        Repeated splits share rows; the standard errors are corrected for it (see
        :func:`crossfade.evaluation.scores.estimate` and :attr:`ratio`).

        Parameters
        ----------
        metric : {"error", "log_loss", "brier"}, default="error"
        """
        check_metric(metric, self._metrics)
        return {
            name: [estimate(column, self.ratio) for column in self.scores[name][metric].T]
            for name in self.models
        }

    def difference(self, first: str, second: str, metric: str = "error") -> list[Estimate]:
        """Return the mean of first minus second at each size, paired over splits.

        Parameters
        ----------
        first, second : str
            Names of models.
        metric : {"error", "log_loss", "brier"}, default="error"
        """
        check_metric(metric, self._metrics)
        gap = self._named(first)[metric] - self._named(second)[metric]
        return [estimate(column, self.ratio) for column in gap.T]

    def _named(self, name: str) -> Mapping[str, Floats]:
        if name not in self.scores:
            raise DataError(
                f"model: expected one of {', '.join(map(repr, self.models))}, got {name!r}; "
                "use a name of the models given"
            )
        return self.scores[name]

    @property
    def _metrics(self) -> tuple[str, ...]:
        return tuple(next(iter(self.scores.values()), METRICS))

    @property
    def _means(self) -> dict[str, dict[str, Floats]]:
        return {
            name: {metric: values.mean(axis=0) for metric, values in scores.items()}
            for name, scores in self.scores.items()
        }

    @property
    def _intervals(self) -> dict[str, dict[str, list[tuple[float, float]]]]:
        bands = {metric: self.summary(metric) for metric in self._metrics}
        return {
            name: {m: [(at.low, at.high) for at in bands[m][name]] for m in bands}
            for name in self.models
        }

    def plot(self, metric: str = "error", *, crossings: bool = True) -> Any:
        """Return a chart of the curves with 95 % bands, and where two models cross.

        Parameters
        ----------
        metric : {"error", "log_loss", "brier"}, default="error"
        crossings : bool, default=True
            Whether to mark crossings, with their intervals, where there are two models.

        Returns
        -------
        altair.LayerChart
            ``chart.save("curve.png")`` writes a picture, ``.html`` a page.

        Raises
        ------
        MissingExtraError
            If Altair is not installed.
        """
        from crossfade.charts.learning_curves import learning_curves

        rows = [
            {"model": name, "size": m, "mean": at.mean, "low": at.low, "high": at.high}
            for name, estimates in self.summary(metric).items()
            for m, at in zip(self.sizes, estimates, strict=True)
            if np.isfinite(at.mean)
        ]
        if not rows:
            raise DataError(
                f"metric: expected one that a model has, got {metric!r}, but no model gives "
                'probabilities; use metric="error"'
            )
        marks = []
        if crossings and len(self.models) == 2:
            for crossing in self.crossings(metric).values():
                low = crossing.smallest if crossing.low is None else crossing.low
                high = crossing.largest if crossing.high is None else crossing.high
                marks.append({"size": crossing.size, "low": low, "high": high})
        label = METRIC_LABELS[metric]
        return learning_curves(rows, self.models, label, crossings=marks, unit=self.unit)

    # -- what it says ----------------------------------------------------------------------------

    def usable(self, names: Sequence[str], metric: str) -> tuple[tuple[int, ...], list[Floats]]:
        """Return the sizes at which every named model ran in every split, and the scores there."""
        columns = [self._named(name)[metric] for name in names]
        whole = np.logical_and.reduce([np.isfinite(c).all(axis=0) for c in columns])
        sizes = tuple(m for m, keep in zip(self.sizes, whole, strict=True) if keep)
        return sizes, [c[:, whole] for c in columns]

    def crossings(self, metric: str = "error") -> dict[tuple[str, str], Crossing]:
        """Return for each two models where the second overtakes the first for good.

        Parameters
        ----------
        metric : {"error", "log_loss", "brier"}, default="error"

        Returns
        -------
        dict of (str, str) to Crossing
            Pairs in which the first is better (or as good) at the smallest size: the one that may
            be overtaken. Pairs without a size at which both ran are left out.
        """
        check_metric(metric, self._metrics)
        found = {}
        for i, one in enumerate(self.models):
            for other in self.models[i + 1 :]:
                sizes, (a, b) = self.usable((one, other), metric)
                if not sizes:
                    continue
                early, late, first, second = one, other, a, b
                if b[:, 0].mean() < a[:, 0].mean():
                    early, late, first, second = other, one, b, a
                found[early, late] = find_crossing(
                    first, second, sizes, self.ratio, self.random_state
                )
        return found

    def extrapolate(self, m: int, metric: str = "error") -> dict[str, Extrapolation]:
        """Return what each model's curve promises at a larger training size, by name.

        An inverse power law a + b m^-c is fitted to the mean scores; splits drawn again with
        replacement give intervals. Each answer has a plain ``statement``, also where the data do
        not support an extrapolation: then it says why, and there are no numbers.

        Parameters
        ----------
        m : int
            Training size, larger than those observed.
        metric : {"error", "log_loss", "brier"}, default="error"

        Returns
        -------
        dict of str to Extrapolation
        """
        check_metric(metric, self._metrics)
        whole = isinstance(m, (int, np.integer)) and not isinstance(m, bool)
        if not whole or m <= self.sizes[-1]:
            raise DataError(
                f"m: expected a whole number above the largest training size {self.sizes[-1]}, "
                f"got {m!r}; what was observed is in summary()"
            )
        found = {}
        for name in self.models:
            sizes, (scores,) = self.usable([name], metric)
            found[name] = extrapolate(
                name, metric, scores, sizes, int(m), unit=self.unit, random_state=self.random_state
            )
        return found
