"""The charts of a comparison, made from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite
from typing import Any, Final

import numpy as np

from crossfade.charts.densities import transform_histograms
from crossfade.charts.interactions import residual_maps
from crossfade.charts.learning_curves import learning_curves
from crossfade.charts.probabilities import rate_curves, reliability, threshold_costs
from crossfade.charts.scores import model_differences, path_losses
from crossfade.charts.theme import LIGHT, Colours, labels, shown
from crossfade.charts.tradeoff import posterior_view, weight_ends, weight_path
from crossfade.evaluation.scores import Estimate
from crossfade.evidence.comparison import Comparison, DataSummary
from crossfade.evidence.details import Weights
from crossfade.report.surfaces import boundary_lines, posterior_cells

#: Names of the scores, as headings.
METRICS: Final = {"log_loss": "log-loss", "brier": "Brier score", "error": "error"}
LABELS: Final = {**METRICS, "cost": "expected cost"}

#: Weights that are drawn: those that are largest anywhere on the path.
_MOST_BARS: Final = 15

#: Histograms of transforms that are drawn.
_MOST_DENSITIES: Final = 12


@dataclass(frozen=True)
class Figures:
    """Every chart of a comparison, by name; None where the data have nothing to draw.

    `slider`, `chooser`: CSS selectors of the inputs that move λ and choose a class; charts bring
        their own where there are none.
    """

    result: Comparison
    colours: Colours = LIGHT
    slider: str | None = None
    chooser: str | None = None

    @cached_property
    def classes(self) -> list[str]:
        return labels(self.result.data.classes)

    @cached_property
    def models(self) -> dict[str, str]:
        """Labels of the models by name."""
        names = list(dict.fromkeys([*(model.name for model in self.result.models), *self.roles]))
        return dict(zip(names, labels(names), strict=True))

    @property
    def label(self) -> str:
        """Name of the criterion."""
        return LABELS[self.result.criterion]

    @cached_property
    def roles(self) -> dict[str, str]:
        """What the two ends of the family are to the reader, by name; any other is the best."""
        ends = self.result.ends
        if ends is None:
            return {}
        return {ends.generative: "generative", ends.discriminative: "discriminative"}

    def _in_order(self, names: Iterable[str]) -> list[str]:
        order = list(self.roles)
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    # -- scores ----------------------------------------------------------------------------------

    def differences(self) -> Any:
        """Each model against the best one."""
        rows = []
        for model in self.result.models:
            gap = model.differences.get(self.result.criterion)
            row: dict[str, Any] = {"model": self.models[model.name]}
            if model.name == self.result.best:
                rows.append(row | {"mean": 0.0, "low": 0.0, "high": 0.0, "verdict": "best"})
            elif gap is not None:
                told = "worse" if gap.excludes_zero else "cannot be told apart"
                rows.append(row | _band(gap) | {"verdict": told})
        return model_differences(rows, self.label, self.colours) if len(rows) > 1 else None

    def learning(self) -> Any:
        """Scores against training rows."""
        curve = self.result.curve
        if curve is None or len(curve.sizes) < 2:
            return None
        names = self._in_order(curve.models)
        summary = curve.summary(self.result.criterion)
        rows = [
            {"model": self.models[name], "size": size} | _band(at)
            for name in names
            for size, at in zip(curve.sizes, summary[name], strict=True)
            if isfinite(at.mean)
        ]
        chart = learning_curves(
            rows,
            [self.models[name] for name in names],
            self.label,
            crossings=self._crossings(),
            beyond=self._beyond(rows),
            roles=self._legend(names)[1],
            colours=self.colours,
        )
        return chart.properties(width="container")

    def _crossings(self) -> list[dict[str, float | None]]:
        ends = self.result.ends
        found = ends and ends.crossing.get(self.result.criterion)
        if not found or found.size is None:
            return []
        low = found.smallest if found.low is None else found.low
        high = found.largest if found.high is None else found.high
        return [{"size": found.size, "low": low, "high": high}]

    def _beyond(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the best model's curve continued to twice the rows, at its present slope."""
        gain = self.result.doubling.get(self.result.criterion)
        own = [row for row in rows if row["model"] == self.models[self.result.best]]
        if gain is None or not own:
            return []
        last = own[-1]
        ahead = {"size": 2 * last["size"], "mean": last["mean"] + gain.mean}
        return [{key: last[key] for key in ("model", "size", "mean")}, dict(last) | ahead]

    # -- λ ---------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[str]:
        """The λ of each place on the slider, as text."""
        return [f"{tradeoff:g}" for tradeoff in self.tradeoffs]

    @property
    def tradeoffs(self) -> tuple[float, ...]:
        """The λ of each place on the slider, falling."""
        return self.result.details.tradeoffs if self.result.details else ()

    @cached_property
    def start(self) -> int:
        """The place that the slider starts at: the one nearest to the chosen λ."""
        details = self.result.details
        if details is None or details.chosen is None or not details.tradeoffs:
            return 0
        return int(np.argmin(np.abs(np.array(details.tradeoffs) - details.chosen)))

    def losses(self, metric: str) -> Any:
        """One loss along the path."""
        details = self.result.details
        if not details or not details.path or not np.isfinite(details.path[metric]).any():
            return None
        path = {key: column.tolist() for key, column in details.path.items()}
        tradeoffs = sorted(set(path["tradeoff"]), reverse=True)
        n = len(path["tradeoff"])
        penalties = path.get("l2", [1.0] * n)
        variants = path.get("variant", [0.0] * n)
        kinds = sorted(set(zip(variants, penalties, strict=True)), key=lambda kind: kind[::-1])
        hues = sorted(set(penalties))
        named = {
            (variant, penalty): f"l2 = {penalty:g}{', tied' if variant else ''}"
            for variant, penalty in kinds
        }
        rows = [
            {
                "place": tradeoffs.index(tradeoff),
                "tradeoff": f"{tradeoff:g}",
                "loss": loss,
                "line": named[variant, penalty],
                "weight": weight,
            }
            for tradeoff, penalty, variant, weight, loss in zip(
                path["tradeoff"],
                penalties,
                variants,
                path.get("weight", [0.0] * n),
                path[metric],
                strict=True,
            )
            if isfinite(loss)
        ]
        return path_losses(
            rows,
            [f"{tradeoff:g}" for tradeoff in tradeoffs],
            [
                # One line is ink; of several each penalty has a colour of its own.
                (name, 1 + hues.index(penalty) if len(kinds) > 1 else 0, int(variant))
                for (variant, penalty), name in named.items()
            ],
            _place(details.chosen, tradeoffs),
            METRICS[metric],
            self.colours,
            (self.slider, [_place(at, tradeoffs) or 0.0 for at in self.tradeoffs]),
        )

    def view(self) -> Any:
        """The posterior over a plane."""
        view = self.result.details and self.result.details.view
        if not view:
            return None
        second = "second discriminant direction"
        if len(self.classes) == 2:
            second = "direction of largest spread left over"
        return posterior_view(
            posterior_cells(view.surfaces, view.low, view.high),
            boundary_lines(view.surfaces, view.low, view.high),
            [
                {"x": x, "y": y, "label": self.classes[code]}
                for (x, y), code in zip(view.points.tolist(), view.codes.tolist(), strict=True)
            ],
            self.classes,
            titles=("first discriminant direction", second),
            slider=self.slider,
            start=self.start,
            places=self.places,
            colours=self.colours,
        )

    def weights_now(self) -> Any:
        """The weights at the slider's λ."""
        weights = self.result.details and self.result.details.weights
        if not weights:
            return None
        path = weights.path
        shown, names = self._bars(weights)
        rows = [
            {"name": name, "score": score, "w": path[:, bar, score].tolist()}
            for name, bar in zip(names, shown, strict=True)
            for score in range(path.shape[2])
        ]
        return weight_path(
            rows,
            names,
            (float(path[:, shown].min()), float(path[:, shown].max())),
            title=self.weight_title,
            slider=self.slider,
            start=self.start,
            places=self.places,
            chooser=self.chooser,
            classes=[] if path.shape[2] == 1 else self.classes,
            colours=self.colours,
        )

    def weights_at_ends(self) -> Any:
        """The weights of the two ends, with intervals."""
        weights = self.result.details and self.result.details.weights
        if not weights:
            return None
        shown, names = self._bars(weights)
        n_scores = weights.path.shape[2]
        ends = {"generative": weights.generative, "discriminative": weights.discriminative}
        rows = [
            {"name": name, "score": score, "end": end}
            | {"value": of.value[at], "low": of.low[at], "high": of.high[at]}
            for name, bar in zip(names, shown, strict=True)
            for score in range(n_scores)
            for end, of in ends.items()
            for at in [(bar, score)]
        ]
        return weight_ends(
            rows,
            names,
            title=self.weight_title,
            chooser=self.chooser and f"{self.chooser}-ends",
            classes=[] if n_scores == 1 else self.classes,
            colours=self.colours,
        )

    @property
    def weight_title(self) -> str:
        """What a weight is, in a few words."""
        if len(self.classes) == 2:
            first, second = labels(self.result.data.classes, 24)
            return f"log-odds of {second} against {first}"
        return "log-probability against the mean of all classes"

    def _bars(self, weights: Weights) -> tuple[list[int], list[str]]:
        """Return the weights that are drawn, in the table's order, and a label for each."""
        largest = np.abs(weights.path).max(axis=(0, 2))
        bars = sorted(np.argsort(-largest, kind="stable")[:_MOST_BARS].tolist())
        names = bar_names(self.result.data, weights)
        return bars, labels([names[bar] for bar in bars], 36)

    # -- probabilities ---------------------------------------------------------------------------

    def reliability(self) -> Any:
        """Whether probabilities agree with observed frequencies."""
        found = self.result.details and self.result.details.calibration
        if not found:
            return None
        names = self._in_order(found)
        rows = self._points(found, ("mean", "frequency", "low", "high", "share"))
        return reliability(rows, *self._legend(names), self.colours)

    def roc(self) -> Any:
        """True-positive against false-positive rate."""
        titles = ("false-positive rate", "true-positive rate")
        return self._rates("true_positive", "ROC", titles, (0.0, 1.0))

    def precision_recall(self) -> Any:
        """Precision against recall."""
        return self._rates("precision", "Precision and recall", ("recall", "precision"), None)

    def thresholds(self) -> Any:
        """What decisions cost, by the probability from which the second class is decided for."""
        found = self.result.details and self.result.details.thresholds
        if not found:
            return None
        names = self._in_order(found)
        return threshold_costs(
            self._points(found, ("threshold", "mean", "low", "high")),
            *self._legend(names),
            self.classes[1],
            found[names[0]].right,
            "error" if self.result.costs is None else LABELS["cost"],
            self.colours,
        )

    def densities(self) -> Any:
        """Where numbers lie in the densities of their columns, those that fit worst first."""
        found = self.result.details.densities if self.result.details else ()
        if not found:
            return None
        worst = sorted(found, key=lambda one: (one.p_value, -one.statistic))[:_MOST_DENSITIES]
        pairs = [f"{shown(one.column, 24)}, {shown(one.label, 24)}" for one in worst]
        names = labels(pairs, 48)
        rows = [
            {
                "name": name,
                "place": (number + 0.5) / len(one.shares),
                "share": share,
                "wrong": "wrong" if one.is_wrong else "no clear difference",
            }
            for name, one in zip(names, worst, strict=True)
            for number, share in enumerate(one.shares.tolist())
        ]
        return transform_histograms(rows, names, self.colours)

    def interactions(self) -> Any:
        """Where naive Bayes is wrong by what two columns say together, the strongest first."""
        found = self.result.interactions
        if not found:
            return None
        maps = [
            {
                "title": shown(one.name, 26),
                "label": f"class {shown(one.label, 20)}, χ² {one.statistic:.0f}",
                "columns": labels(one.columns, 24),
                "first": labels(one.first, 12),
                "second": labels(one.second, 12),
                "rows": [
                    {
                        "first": at[0],
                        "second": at[1],
                        "residual": residual,
                        "count": one.counts[at].item(),
                    }
                    for at, residual in np.ndenumerate(one.residual)
                    if isfinite(residual)
                ],
            }
            for one in found
        ]
        maps = [one for one in maps if one["rows"]]
        return residual_maps(maps, self.colours) if maps else None

    def _rates(
        self, key: str, title: str, titles: tuple[str, str], guessing: tuple[float, float] | None
    ) -> Any:
        found = self.result.details and self.result.details.ranking
        if not found:
            return None
        names = self._in_order(found)
        rows = [
            {"model": self.models[name], "x": x, "y": y}
            for name in names
            for x, y in zip(found[name].place, getattr(found[name], key), strict=True)
        ]
        return rate_curves(
            rows,
            *self._legend(names),
            title=title,
            titles=titles,
            guessing=guessing or (found[names[0]].prevalence,) * 2,
            colours=self.colours,
        )

    def _points(self, found: Mapping[str, Any], keys: Sequence[str]) -> list[dict[str, Any]]:
        """Return a row for every point of every model, with these of its numbers."""
        return [
            {"model": self.models[name]} | dict(zip(keys, numbers, strict=True))
            for name in self._in_order(found)
            for numbers in zip(*(getattr(found[name], key) for key in keys), strict=True)
        ]

    def _legend(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        roles = [self.roles.get(name, "best") for name in names]
        return [self.models[name] for name in names], roles


#: Every chart by its name.
CHARTS: Final[dict[str, Callable[[Figures], Any]]] = {
    "differences": Figures.differences,
    "learning": Figures.learning,
    **{metric: partial(Figures.losses, metric=metric) for metric in METRICS},
    "view": Figures.view,
    "weights": Figures.weights_now,
    "reliability": Figures.reliability,
    "roc": Figures.roc,
    "precision_recall": Figures.precision_recall,
    "thresholds": Figures.thresholds,
    "densities": Figures.densities,
    "interactions": Figures.interactions,
    "ends": Figures.weights_at_ends,
}


def bar_names(data: DataSummary, weights: Weights) -> list[str]:
    """Return a name for each weight: its column's, with the category where it is one."""
    names = []
    for bar in weights.bars:
        name = data.column_names[bar.column]
        names.append(name if bar.level is None else f"{shown(name)} = {shown(bar.level)}")
    return names


def _band(found: Estimate) -> dict[str, float]:
    """Return mean and interval as a chart's row has them."""
    return {"mean": found.mean, "low": found.low, "high": found.high}


def _place(value: float | None, falling: Sequence[float]) -> float | None:
    """Return where a λ lies between the places of a path."""
    if value is None:
        return None
    return float(np.interp(-value, -np.array(falling), np.arange(len(falling))))
