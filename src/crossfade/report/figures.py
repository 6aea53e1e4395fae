"""The charts of a comparison, made from its plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from crossfade.charts.learning_curves import learning_curves
from crossfade.charts.probabilities import rate_curves, reliability
from crossfade.charts.scores import model_differences, path_losses
from crossfade.charts.theme import LIGHT, Colours, labels, shown
from crossfade.charts.tradeoff import posterior_view, weight_ends, weight_path
from crossfade.report.surfaces import boundary_lines, posterior_cells

__all__ = ["CHARTS", "METRICS", "Figures", "bar_names"]

#: Names of the scores, as headings.
METRICS: Final = {"log_loss": "log-loss", "brier": "Brier score", "error": "error"}

#: Weights that are drawn: those that are largest anywhere on the path.
_MOST_BARS: Final = 15


@dataclass(frozen=True)
class Figures:
    """Every chart of a comparison, by name; None where the data have nothing to draw.

    `content`: As ``ComparisonResult.to_dict`` returns it.
    `slider`, `chooser`: CSS selectors of the inputs that move λ and choose a class; charts bring
        their own where there are none.
    """

    content: Mapping[str, Any]
    colours: Colours = LIGHT
    slider: str | None = None
    chooser: str | None = None

    @cached_property
    def details(self) -> Mapping[str, Any]:
        return self.content["details"] or {}

    @cached_property
    def classes(self) -> list[str]:
        return labels(self.content["data"]["classes"])

    @cached_property
    def models(self) -> dict[str, str]:
        """Labels of the models by name."""
        names = [model["name"] for model in self.content["models"]]
        ends = self.content["ends"] or {}
        names += [ends[end] for end in ("generative", "discriminative") if end in ends]
        names = list(dict.fromkeys(names))
        return dict(zip(names, labels(names), strict=True))

    @property
    def label(self) -> str:
        """Name of the criterion."""
        return METRICS[self.content["criterion"]]

    def role(self, name: str) -> str:
        """Return what a model is to the reader: an end of the family, or just the best."""
        ends = self.content["ends"] or {}
        for end in ("generative", "discriminative"):
            if ends.get(end) == name:
                return end
        return "best"

    def _in_order(self, names: Sequence[str]) -> list[str]:
        order = ["generative", "discriminative", "best"]
        return sorted(names, key=lambda name: order.index(self.role(name)))

    # -- scores ----------------------------------------------------------------------------------

    def differences(self) -> Any:
        """Each model against the best one."""
        criterion = self.content["criterion"]
        rows = []
        for model in self.content["models"]:
            gap = model["difference_to_best"][criterion]
            row = {"model": self.models[model["name"]]}
            if model["name"] == self.content["best"]:
                rows.append(row | {"mean": 0.0, "low": 0.0, "high": 0.0, "verdict": "best"})
            elif gap is not None:
                told = "cannot be told apart" if gap["low"] <= 1e-12 else "worse"
                ends = {key: gap[key] for key in ("mean", "low", "high")}
                rows.append(row | ends | {"verdict": told})
        return model_differences(rows, self.label, self.colours) if len(rows) > 1 else None

    def learning(self) -> Any:
        """Scores against training rows."""
        curve, criterion = self.content["curve"], self.content["criterion"]
        if curve is None or len(curve["sizes"]) < 2:
            return None
        names = self._in_order(list(curve["mean"]))
        rows = []
        for name in names:
            band = curve["interval"][name][criterion]
            for size, mean, (low, high) in zip(
                curve["sizes"], curve["mean"][name][criterion], band, strict=True
            ):
                if mean is not None:
                    numbers = {"size": size, "mean": mean, "low": low, "high": high}
                    rows.append({"model": self.models[name]} | numbers)
        chart = learning_curves(
            rows,
            [self.models[name] for name in names],
            self.label,
            crossings=self._crossings(),
            beyond=self._beyond(rows),
            roles=[self.role(name) for name in names],
            colours=self.colours,
        )
        return chart.properties(width="container")

    def _crossings(self) -> list[dict[str, float | None]]:
        ends = self.content["ends"]
        found = ends and ends["crossing"].get(self.content["criterion"])
        if not found or found["size"] is None:
            return []
        low = found["low"] if found["low"] is not None else found["smallest"]
        high = found["high"] if found["high"] is not None else found["largest"]
        return [{"size": found["size"], "low": low, "high": high}]

    def _beyond(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the best model's curve continued to twice the rows, at its present slope."""
        gain = self.content["doubling_the_rows"].get(self.content["criterion"])
        own = [row for row in rows if row["model"] == self.models[self.content["best"]]]
        if gain is None or not own:
            return []
        last = own[-1]
        ahead = {"size": 2 * last["size"], "mean": last["mean"] + gain["mean"]}
        return [{key: last[key] for key in ("model", "size", "mean")}, dict(last) | ahead]

    # -- λ ---------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> list[str]:
        """The λ of each place on the slider, as text."""
        return [f"{tradeoff:g}" for tradeoff in self.details.get("tradeoffs", ())]

    @cached_property
    def start(self) -> int:
        """The place that the slider starts at: the one nearest to the chosen λ."""
        chosen = self.details.get("chosen")
        if chosen is None or not self.places:
            return 0
        return int(np.argmin(np.abs(np.array(self.details["tradeoffs"]) - chosen)))

    def losses(self, metric: str) -> Any:
        """One loss along the path."""
        path = self.details.get("path")
        if not path or all(value is None for value in path[metric]):
            return None
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
            if loss is not None
        ]
        return path_losses(
            rows,
            [f"{tradeoff:g}" for tradeoff in tradeoffs],
            [
                # One line is ink; of several each penalty has a colour of its own.
                (name, 1 + hues.index(penalty) if len(kinds) > 1 else 0, int(variant))
                for (variant, penalty), name in named.items()
            ],
            _place(self.details["chosen"], tradeoffs),
            METRICS[metric],
            self.colours,
            (self.slider, [_place(at, tradeoffs) or 0.0 for at in self.details["tradeoffs"]]),
        )

    def view(self) -> Any:
        """The posterior over a plane."""
        view = self.details.get("view")
        if view is None:
            return None
        low, high = np.array(view["low"]), np.array(view["high"])
        surfaces = np.array(view["surfaces"])
        second = "second discriminant direction"
        if len(self.classes) == 2:
            second = "direction of largest spread left over"
        return posterior_view(
            posterior_cells(surfaces, low, high),
            boundary_lines(surfaces, low, high),
            [
                {"x": x, "y": y, "label": self.classes[code]}
                for (x, y), code in zip(view["points"], view["codes"], strict=True)
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
        weights = self.details.get("weights")
        if weights is None:
            return None
        path = np.array(weights["path"])
        shown = self.bars
        names = self._bar_labels(shown)
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
        weights = self.details.get("weights")
        if weights is None:
            return None
        shown = self.bars
        names = self._bar_labels(shown)
        n_scores = len(weights["change"]["value"][0])
        rows = [
            {"name": name, "score": score, "end": end}
            | {key: weights[end][key][bar][score] for key in ("value", "low", "high")}
            for name, bar in zip(names, shown, strict=True)
            for score in range(n_scores)
            for end in ("generative", "discriminative")
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
            first, second = labels(self.content["data"]["classes"], 24)
            return f"log-odds of {second} against {first}"
        return "log-probability against the mean of all classes"

    @cached_property
    def bars(self) -> list[int]:
        """The weights that are drawn, in the table's order: the largest on the path."""
        path = np.abs(np.array(self.details["weights"]["path"])).max(axis=(0, 2))
        return sorted(np.argsort(-path, kind="stable")[:_MOST_BARS].tolist())

    def _bar_labels(self, shown: Sequence[int]) -> list[str]:
        names = bar_names(self.content)
        return labels([names[bar] for bar in shown], 36)

    # -- probabilities ---------------------------------------------------------------------------

    def reliability(self) -> Any:
        """Whether probabilities agree with observed frequencies."""
        found = self.details.get("calibration")
        if not found:
            return None
        names = self._in_order(list(found))
        keys = ("mean", "frequency", "low", "high", "share")
        rows = [
            {"model": self.models[name]} | dict(zip(keys, numbers, strict=True))
            for name in names
            for numbers in zip(*(found[name][key] for key in keys), strict=True)
        ]
        return reliability(rows, *self._legend(names), self.colours)

    def roc(self) -> Any:
        """True-positive against false-positive rate."""
        titles = ("false-positive rate", "true-positive rate")
        return self._rates("true_positive", "ROC", titles, (0.0, 1.0))

    def precision_recall(self) -> Any:
        """Precision against recall."""
        found = self.details.get("ranking") or {}
        base = next(iter(found.values()))["prevalence"] if found else 0.0
        return self._rates(
            "precision", "Precision and recall", ("recall", "precision"), (base,) * 2
        )

    def _rates(
        self, key: str, title: str, titles: tuple[str, str], guessing: tuple[float, float]
    ) -> Any:
        found = self.details.get("ranking")
        if not found:
            return None
        names = self._in_order(list(found))
        rows = [
            {"model": self.models[name], "x": x, "y": y}
            for name in names
            for x, y in zip(found[name]["place"], found[name][key], strict=True)
        ]
        return rate_curves(
            rows,
            *self._legend(names),
            title=title,
            titles=titles,
            guessing=guessing,
            colours=self.colours,
        )

    def _legend(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        return [self.models[name] for name in names], [self.role(name) for name in names]


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
    "ends": Figures.weights_at_ends,
}


def bar_names(content: Mapping[str, Any]) -> list[str]:
    """Return a name for each weight: its column's, with the category where it is one."""
    columns = list(content["data"]["column_kinds"])
    names = []
    for bar in content["details"]["weights"]["bars"]:
        name = columns[bar["column"]]
        names.append(name if bar["level"] is None else f"{shown(name)} = {shown(bar['level'])}")
    return names


def _place(value: float | None, falling: Sequence[float]) -> float | None:
    """Return where a λ lies between the places of a path."""
    if value is None:
        return None
    return float(np.interp(-value, -np.array(falling), np.arange(len(falling))))
