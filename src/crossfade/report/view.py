"""What the page says, section by section, from a comparison's plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from crossfade.charts.theme import shown
from crossfade.choice import Reason
from crossfade.report.figures import METRICS, bar_names
from crossfade.report.numbers import decimals

__all__ = ["Number", "models_so_far", "sections"]


class Number(NamedTuple):
    """A number as it is shown, with its value as JSON has it."""

    text: str
    value: float | int


#: How a column came to its density where its kind alone decided.
_REASONS: Final = {
    "continuous": "numbers unlike counts",
    "count": "whole numbers from 0, like counts",
    "boolean": "yes or no, or 0 and 1 alone",
    "categorical": "text or categories",
}

_DENSITIES: Final = {
    "gaussian": "Gaussian",
    "johnson_su": "Johnson's S_U",
    "poisson": "Poisson",
    "bernoulli": "Bernoulli",
    "categorical": "categorical",
}

#: Columns and classes that are listed.
_MOST_COLUMNS: Final = 100
_MOST_CLASSES: Final = 30

#: Weights that are named in words.
_MOST_MOVES: Final = 3


def sections(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page's template fills in."""
    data = content["data"]
    return {
        "title": shown(_title(content), 80),
        "summary": {
            "rows": _count(data["rows"]),
            "columns": _count(data["columns"]),
            "classes": f"{len(data['classes']):,}",
            "target": shown(content["target"]) if "target" in content else None,
            "splits": _count(content["splits"]["finished"]),
            "train": _count(content["splits"]["train_rows"]),
            "test": _count(content["splits"]["test_rows"]),
        },
        "complete": content["splits"]["complete"],
        "verdict": content["verdict"],
        "models": models_so_far(content),
        "curve": _curve(content),
        "tradeoff": _tradeoff(content),
        "calibration": _calibration(content),
        "weights": _weights(content),
        "data": _data(content),
        "made": _made(content),
        "notes": [*content.get("opening_notes", ()), *content["notes"]],
    }


def _title(content: Mapping[str, Any]) -> str:
    source = content.get("source")
    return re.split(r"[/\\]", source)[-1] if source else "Comparison of models"


def _count(value: int) -> Number:
    return Number(f"{value:,}", value)


def _rounded(value: float, pattern: str) -> Number:
    return Number(format(value, pattern), value)


def _percent(value: float, places: int = 1) -> Number:
    return Number(f"{100 * value:.{places}f} %", value)


def _around(found: Mapping[str, float], scale: float = 1.0, places: int | None = None) -> Any:
    """Return mean, standard error and ends of an interval as numbers of like precision."""
    if places is None:
        places = decimals(found["standard_error"])

    def number(key: str) -> Number | None:
        if found[key] is None:  # one split has no spread
            return None
        text = f"{scale * found[key]:.{places}f}"
        return Number(text.lstrip("-") if float(text) == 0 else text, found[key])

    return {key: number(key) for key in ("mean", "standard_error", "low", "high")}


# -- models --------------------------------------------------------------------------------------


def models_so_far(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of models, also of a comparison under way."""
    criterion = content["criterion"]
    fits = [m["fit_seconds"] for m in content["models"] if m["fit_seconds"]]
    unit, scale, pattern = ("ms", 1e3, ".1f") if max(fits, default=0.0) < 1 else ("s", 1.0, ".2f")
    rows, family = [], None
    for model in content["models"]:
        gap, seconds = model["difference_to_best"][criterion], model["fit_seconds"]
        starts = model["family"] is not None and model["family"] != family
        family = model["family"]
        rows.append(
            {
                "family": shown(family) if starts else None,
                "inside": family is not None,
                "name": shown(_short(model)),
                "full_name": shown(model["name"], 300),
                "tradeoff": _lambda(model),
                "best": model["name"] == content["best"],
                "tied": gap is not None and gap["low"] <= 1e-12,
                "scores": {metric: _score(content, model, metric) for metric in METRICS},
                "gap": gap and _around(gap, *((100.0, 1) if criterion == "error" else ())),
                "splits": _count(model["splits"]),
                "seconds": seconds and Number(format(scale * seconds, pattern), seconds),
                "failure": model["failure"],
            }
        )
    return {"rows": rows, "unit": unit, "label": METRICS[criterion]}


def _score(content: Mapping[str, Any], model: Mapping[str, Any], metric: str) -> Any:
    if model[metric] is None:
        return None
    lowest = min(m[metric]["mean"] for m in content["models"] if m[metric])
    scale, places = (100.0, 1) if metric == "error" else (1.0, 3)
    return _around(model[metric], scale, places) | {"lowest": model[metric]["mean"] == lowest}


def _short(model: Mapping[str, Any]) -> str:
    """Return a model's name without its family's."""
    family = model["family"]
    return (family and model["name"].removeprefix(family).strip()) or model["name"]


def _lambda(model: Mapping[str, Any]) -> Number | None:
    chosen = model["chosen_tradeoff"]
    value = chosen["median"] if chosen else model["tradeoff"]
    return _rounded(value, ".2g") if isinstance(value, (int, float)) else None


# -- learning curves -----------------------------------------------------------------------------


def _curve(content: Mapping[str, Any]) -> dict[str, Any] | None:
    if content["curve"] is None:
        return None
    ends = content["ends"]
    return {
        "label": METRICS[content["criterion"]],
        "splits": _count(content["curve"]["splits"]),
        "crossing": ends and _crossing(ends["crossing"][content["criterion"]]),
    }


def _crossing(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the crossing, with the largest or smallest size tried where it was not seen."""
    return {
        "status": found["status"],
        "size": None if found["size"] is None else Number(f"{found['size']:,.0f}", found["size"]),
        "low": found["low"] and Number(f"{found['low']:,.0f}", found["low"]),
        "high": found["high"] and Number(f"{found['high']:,.0f}", found["high"]),
        "smallest": _count(found["smallest"]),
        "largest": _count(found["largest"]),
    }


# -- λ -------------------------------------------------------------------------------------------


def _tradeoff(content: Mapping[str, Any]) -> dict[str, Any] | None:
    details = content["details"]
    if not details or not details["tradeoffs"]:
        return None
    view = details["view"]
    return {
        "family": shown(details["family"]),
        "chosen": None if details["chosen"] is None else _rounded(details["chosen"], ".2g"),
        "method": details["method"],
        "pooled": len(set((details["path"] or {}).get("l2", ()))) > 1,
        "agreement": None
        if view is None
        else (_percent(min(view["agreement"]), 0), _percent(max(view["agreement"]), 0)),
        "points": None if view is None else f"{len(view['points']):,}",
        "sample": _sample(content),
        "classes": [shown(name) for name in content["data"]["classes"]],
    }


def _sample(content: Mapping[str, Any]) -> Number | None:
    """Return how many rows the evidence was computed on, None where those are all."""
    rows = content["details"]["rows"]
    return _count(rows) if rows < content["data"]["rows"] else None


# -- calibration ---------------------------------------------------------------------------------


def _calibration(content: Mapping[str, Any]) -> dict[str, Any] | None:
    details = content["details"]
    if not details or not details["calibration"]:
        return None
    classes = content["data"]["classes"]
    ranking = details["ranking"]
    rows = [
        {
            "name": shown(name),
            "best": name == content["best"],
            "error": _around(found["error"]),
            "area": name in ranking and _around(ranking[name]["area"]),
            "precision": name in ranking and _around(ranking[name]["average_precision"]),
        }
        for name, found in details["calibration"].items()
    ]
    return {
        "rows": rows,
        "positive": shown(classes[1]) if len(classes) == 2 else None,
        "splits": _count(details["splits"]),
        "sample": _sample(content),
    }


# -- weights -------------------------------------------------------------------------------------


def _weights(content: Mapping[str, Any]) -> dict[str, Any] | None:
    details = content["details"]
    if not details or details["weights"] is None:
        return None
    weights, classes = details["weights"], content["data"]["classes"]
    names = bar_names(content)
    change = weights["change"]
    moves = []
    for bar, scores in enumerate(change["value"]):
        for score, value in enumerate(scores):
            low, high = change["low"][bar][score], change["high"][bar][score]
            if low > 0 or high < 0:
                moves.append((abs(value), bar, score))
    moves.sort(key=lambda move: (-move[0], move[1], move[2]))
    named: dict[int, tuple[int, int]] = {}
    for _, bar, score in moves:
        column = weights["bars"][bar]["column"]
        named.setdefault(column, (bar, score))
    return {
        "classes": [shown(name) for name in classes],
        "two": len(classes) == 2,
        "independent": details["assumption"] == "independent",
        "moved": f"{len(named):,}",
        "probed": f"{len({bar['column'] for bar in weights['bars']}):,}",
        "moves": [
            {
                "name": shown(names[bar]),
                "class": None if len(classes) == 2 else shown(classes[score]),
                **{
                    key: Number(
                        f"{weights[key]['value'][bar][score]:.2f}",
                        weights[key]["value"][bar][score],
                    )
                    for key in ("generative", "discriminative", "change")
                },
                "low": _rounded(change["low"][bar][score], ".2f"),
                "high": _rounded(change["high"][bar][score], ".2f"),
                "shrinks": abs(weights["discriminative"]["value"][bar][score])
                < abs(weights["generative"]["value"][bar][score]),
            }
            for bar, score in list(named.values())[:_MOST_MOVES]
        ],
    }


# -- data and making -----------------------------------------------------------------------------


def _data(content: Mapping[str, Any]) -> dict[str, Any]:
    data = content["data"]
    columns = [
        {
            "name": shown(name, 120),
            "kind": kind,
            "density": _DENSITIES.get(density, density),
            "reason": reason
            if by != Reason.TYPE.value
            else _by_type(kind, missing == data["rows"]),
            "missing": _count(missing),
            "share": f"{missing / data['rows']:.1%}" if missing else None,
        }
        for (name, kind), density, reason, by, missing in zip(
            data["column_kinds"].items(),
            data["column_densities"],
            data["density_reasons"],
            data["densities_by"],
            data["missing_cells"],
            strict=True,
        )
    ]
    classes = sorted(
        zip(data["classes"], data["class_counts"], strict=True), key=lambda pair: -pair[1]
    )
    return {
        "columns": columns[:_MOST_COLUMNS],
        "more_columns": max(0, len(columns) - _MOST_COLUMNS),
        "classes": [
            {
                "name": shown(name, 120),
                "count": _count(count),
                "share": f"{count / data['rows']:.1%}",
            }
            for name, count in classes[:_MOST_CLASSES]
        ],
        "more_classes": max(0, len(classes) - _MOST_CLASSES),
        "dropped": f"{data['rows_dropped'] + content.get('rows_without_target', 0):,}",
        "missing": f"{sum(data['missing_cells']):,}",
    }


def _by_type(kind: str, empty: bool) -> str:
    """Return why a column of this kind has its density, where that alone decided."""
    return "no cell with a value" if empty and kind == "continuous" else _REASONS[kind]


def _made(content: Mapping[str, Any]) -> dict[str, Any]:
    splits = content["splits"]
    return {
        "versions": content["versions"],
        "seed": _count(splits["random_state"]),
        "seconds": _rounded(content["seconds"], ".1f"),
        "criterion": METRICS[content["criterion"]],
        "command": content.get("command"),
    }
