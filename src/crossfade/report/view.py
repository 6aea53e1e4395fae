"""What the page and its Markdown say, from a comparison's records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from crossfade.charts.theme import LIGHT, shown
from crossfade.evaluation.scores import Estimate
from crossfade.evidence.comparison import Comparison, DataSummary, ModelResult, TableOrigin
from crossfade.evidence.details import WeightInterval
from crossfade.evidence.numbers import decimals
from crossfade.report.figures import LABELS, bar_names


class Number(NamedTuple):
    """A number as it is shown, with its value as JSON has it."""

    text: str
    value: float | int


class Around(NamedTuple):
    """A mean and what surrounds it, which one split alone does not tell."""

    mean: Number
    standard_error: Number | None
    low: Number | None
    high: Number | None


class ModelRow(NamedTuple):
    """A row of the table of models; `family` is the heading that begins above it."""

    family: str | None
    inside: bool
    name: str
    full_name: str
    tradeoff: Number | None
    best: bool
    tied: bool
    scores: dict[str, Around | None]
    lowest: set[str]
    gap: Around | None
    splits: Number
    seconds: Number | None
    failure: str | None


class ModelTable(NamedTuple):
    """The table of models; `unit` is that of fit times, `label` names the criterion.

    `headings`: Of the scores, by metric.
    """

    rows: list[ModelRow]
    unit: str
    label: str
    headings: dict[str, str]


class Move(NamedTuple):
    """A weight that moves with λ by more than chance explains."""

    name: str
    of_class: str | None
    generative: Number
    discriminative: Number
    change: Number
    low: Number
    high: Number


class Moves(NamedTuple):
    """The columns whose weights move most, among how many that move and that were looked at."""

    named: list[Move]
    moved: int
    probed: int


class ClassWords(NamedTuple):
    """The words that say most for a class: each with its column, weight, rows and bar's width."""

    label: str
    hue: int
    rows: list[tuple[str, str, Number, Number, float]]


class ColumnRow(NamedTuple):
    """A column's row in the table of columns."""

    name: str
    density: str
    reason: str
    missing: int


_DENSITIES: Final = {
    "gaussian": "Gaussian",
    "johnson_su": "Johnson's S_U",
    "poisson": "Poisson",
    "bernoulli": "Bernoulli",
}

#: Headings of scores that are not shown as they are.
_HEADINGS: Final = {"error": "error %"}

#: Columns and classes that are listed.
_MOST_COLUMNS: Final = 100
_MOST_CLASSES: Final = 30

#: Densities that the page says are wrong.
_MOST_WRONG: Final = 10

#: Weights that are named in words.
_MOST_MOVES: Final = 3


def sections(
    result: Comparison, table: TableOrigin | None = None, command: str | None = None
) -> dict[str, Any]:
    """Return what the page's template reads, besides the charts."""
    data, details = result.data, result.details
    source = re.split(r"[/\\]", table.name)[-1] if table else ""
    return {
        "result": result,
        "data": data,
        "details": details,
        "table": table,
        "command": command,
        "title": shown(source or "Comparison of models", 80),
        "criterion": LABELS[result.criterion],
        "classes": [shown(name) for name in data.classes],
        "crossing": result.ends and result.ends.crossing[result.criterion],
        "models": model_table(result),
        "moves": _moves(result),
        "wrong_densities": (wrong := _wrong_densities(result))[:_MOST_WRONG],
        "more_wrong": len(wrong[_MOST_WRONG:]),
        "words": _words(result),
        # The evidence on a table of many rows is that of a sample.
        "sample": details.n_rows if details and details.n_rows < data.n_rows else None,
        "columns": _columns(data)[:_MOST_COLUMNS],
        "more_columns": max(0, len(data.column_missing) - _MOST_COLUMNS),
        "class_rows": _class_rows(data)[:_MOST_CLASSES],
        "more_classes": max(0, len(data.classes) - _MOST_CLASSES),
        "dropped": data.n_dropped + (table.n_dropped if table else 0),
        "notes": [*(table.notes if table else ()), *result.notes],
    }


def _count(value: float) -> Number:
    return Number(f"{value:,.0f}", value)


def _rounded(value: float, pattern: str) -> Number:
    return Number(format(value, pattern), value)


def _percent(value: float, places: int = 1) -> Number:
    return Number(f"{100 * value:.{places}f} %", value)


def _around(found: Estimate, scale: float = 1.0, places: int | None = None) -> Around:
    """Return mean, standard error and ends of an interval as numbers of like precision."""
    if places is None:
        places = decimals(found.standard_error)

    def number(value: float) -> Number:
        text = f"{scale * value:.{places}f}"
        return Number(text.lstrip("-") if float(text) == 0 else text, value)

    around = (found.standard_error, found.low, found.high)
    return Around(number(found.mean), *(number(v) if isfinite(v) else None for v in around))


#: What templates put numbers into words with.
FILTERS: Final = {
    "count": _count,
    "rounded": _rounded,
    "percent": _percent,
    "around": _around,
    "shown": shown,
}


# -- models --------------------------------------------------------------------------------------


def model_table(result: Comparison) -> ModelTable:
    """Return the table of models, also of a comparison under way."""
    fits = [model.fit_seconds for model in result.rows if model.fit_seconds]
    unit, scale, pattern = ("ms", 1e3, ".1f") if max(fits, default=0.0) < 1 else ("s", 1.0, ".2f")
    means = [{m: found.mean for m, found in model.estimates.items()} for model in result.rows]
    lowest = {metric: min(found.get(metric, inf) for found in means) for metric in result.metrics}
    rows, family = [], None
    for model in result.rows:
        gap, seconds = model.differences.get(result.criterion), model.fit_seconds
        found = model.estimates
        starts = model.family is not None and model.family != family
        family = model.family
        rows.append(
            ModelRow(
                family=shown(family or "") if starts else None,
                inside=family is not None,
                name=shown(_short(model)),
                full_name=shown(model.name, 300),
                tradeoff=_lambda(model),
                best=model.name == result.best,
                tied=gap is not None and not gap.excludes_zero,
                scores={
                    metric: _score(model.estimates.get(metric), metric, 3)
                    for metric in result.metrics
                },
                lowest={metric for metric in found if found[metric].mean == lowest[metric]},
                gap=_score(gap, result.criterion, None),
                splits=_count(model.n_splits),
                seconds=Number(format(scale * seconds, pattern), seconds) if seconds else None,
                failure=model.failure,
            )
        )
    headings = {metric: _HEADINGS.get(metric, LABELS[metric]) for metric in result.metrics}
    return ModelTable(rows, unit, LABELS[result.criterion], headings)


def _score(found: Estimate | None, metric: str, places: int | None) -> Around | None:
    """Return a score, or a difference of two; errors are shown in per cent."""
    if found is None:
        return None
    return _around(found, 100.0, 1) if metric == "error" else _around(found, 1.0, places)


def _short(model: ModelResult) -> str:
    """Return a model's name without its family's."""
    return (model.family and model.name.removeprefix(model.family).strip()) or model.name


def _lambda(model: ModelResult) -> Number | None:
    value = model.chosen.median if model.chosen else model.tradeoff
    return _rounded(value, ".2g") if isinstance(value, (int, float)) else None


# -- weights -------------------------------------------------------------------------------------


def _moves(result: Comparison) -> Moves | None:
    weights = result.details and result.details.weights
    if not weights:
        return None
    names, classes, change = bar_names(result.data, weights), result.data.classes, weights.change
    sure = (change.low > 0) | (change.high < 0)
    order = np.argsort(-np.abs(change.value), axis=None, kind="stable")
    places = (np.unravel_index(at, sure.shape) for at in order if sure.flat[at])
    named: dict[int, tuple[Any, ...]] = {}
    for bar, score in places:
        named.setdefault(weights.bars[bar].column, (bar, score))

    def number(found: WeightInterval, at: tuple[Any, ...]) -> Number:
        return _rounded(found.value[at], ".2f")

    return Moves(
        [
            Move(
                shown(names[at[0]]),
                None if len(classes) == 2 else shown(classes[at[1]]),
                number(weights.generative, at),
                number(weights.discriminative, at),
                number(change, at),
                _rounded(change.low[at], ".2f"),
                _rounded(change.high[at], ".2f"),
            )
            for at in list(named.values())[:_MOST_MOVES]
        ],
        len(named),
        len({bar.column for bar in weights.bars}),
    )


def _words(result: Comparison) -> list[ClassWords]:
    found = result.details.words if result.details else ()
    most = max((one.value for one in found), default=1.0)
    several = len({one.column for one in found}) > 1
    return [
        ClassWords(
            shown(label, 120),
            result.data.classes.index(label) % len(LIGHT.classes),
            [
                (
                    shown(one.word, 60),
                    shown(one.column, 40) if several else "",
                    _rounded(one.value, ".2f"),
                    _count(one.n_rows),
                    one.value / most,
                )
                for one in found
                if one.label == label
            ],
        )
        for label in dict.fromkeys(one.label for one in found)
    ]


# -- densities -----------------------------------------------------------------------------------


def _wrong_densities(result: Comparison) -> list[tuple[str, str, str, str, Number]]:
    """Return column, density, class, complaint and p-value of those that are wrong."""
    found = result.details.densities if result.details else ()
    wrong = sorted((one for one in found if one.is_wrong), key=lambda one: -one.statistic)
    return [
        (
            shown(one.column, 60),
            _DENSITIES.get(one.density, one.density),
            shown(one.label, 60),
            one.complaint,
            _rounded(one.p_value, ".2g"),
        )
        for one in wrong
    ]


# -- data ----------------------------------------------------------------------------------------


def _columns(data: DataSummary) -> list[ColumnRow]:
    return [
        ColumnRow(shown(name, 120), _DENSITIES.get(one.density, one.density), one.reason, missing)
        for name, one, missing in zip(
            data.column_names, data.densities, data.column_missing, strict=True
        )
    ]


def _class_rows(data: DataSummary) -> Sequence[tuple[str, int]]:
    """Return classes and their rows, the commonest first."""
    pairs = zip(data.classes, data.class_counts, strict=True)
    return [(shown(name, 120), n) for name, n in sorted(pairs, key=lambda pair: -pair[1])]
