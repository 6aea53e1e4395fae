"""One look for all charts: colours that colour-blind readers can tell apart, light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from crossfade._optional import import_optional


@dataclass(frozen=True)
class Colours:
    """What each thing is drawn in: `best` is a best model that is neither end of a family.

    `classes`: Okabe and Ito's palette, ordered so that neighbours differ most.
    """

    paper: str
    ink: str
    soft: str
    faint: str
    generative: str
    discriminative: str
    best: str
    classes: tuple[str, ...]


LIGHT: Final = Colours(
    paper="#ffffff",
    ink="#1b1f24",
    soft="#59636e",
    faint="#e3e7eb",
    generative="#7a3fb8",
    discriminative="#00796b",
    best="#1b1f24",
    classes=(
        "#0072b2", "#d98200", "#009e73", "#b8478f", "#d55e00", "#4aa3d8", "#8a7a00", "#6b7280",
    ),
)  # fmt: skip

DARK: Final = Colours(
    paper="#14181d",
    ink="#e8ecf0",
    soft="#a3adb8",
    faint="#2b323a",
    generative="#c195f2",
    discriminative="#3fc6b4",
    best="#e8ecf0",
    classes=(
        "#56b4e9", "#f0a830", "#2fc699", "#e48ac0", "#ff8a4c", "#8fd0f5", "#d6c84a", "#a3adb8",
    ),
)  # fmt: skip

#: On a page the style sheet decides, so that one drawing serves light, dark and print.
STYLE_SHEET: Final = Colours(
    paper="var(--paper)",
    ink="var(--ink)",
    soft="var(--soft)",
    faint="var(--faint)",
    generative="var(--generative)",
    discriminative="var(--discriminative)",
    best="var(--ink)",
    classes=tuple(f"var(--class-{number})" for number in range(8)),
)

#: Marks of classes and models: colour is never the only difference.
SHAPES: Final = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left",
)  # fmt: skip

#: Dashes of the two ends of a family, and of a best model that is neither.
ROLE_DASHES: Final = {"generative": [7, 3], "discriminative": [1, 0], "best": [2, 2]}

_FONT: Final = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', sans-serif"


def altair() -> Any:
    """Return the module altair."""
    return import_optional("altair", "charts")


def themed(chart: Any, colours: Colours = LIGHT) -> Any:
    """Return the chart in the house's look."""
    return chart.configure(
        background="transparent" if colours is STYLE_SHEET else colours.paper,
        font=_FONT,
        padding=4,
        view={"stroke": None},
        axis={
            "labelColor": colours.soft,
            "titleColor": colours.ink,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "gridColor": colours.faint,
            "domainColor": colours.soft,
            "tickColor": colours.soft,
            "tickSize": 4,
            "labelLimit": 180,
        },
        axisY={"domain": False, "ticks": False},
        legend={
            "labelColor": colours.ink,
            "titleColor": colours.ink,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "labelLimit": 260,
            "orient": "top",
            "columns": 1,
            "rowPadding": 1,
            "symbolStrokeWidth": 2,
            "symbolOpacity": 1,
        },
        title={
            "color": colours.ink,
            "anchor": "start",
            "fontSize": 13,
            "fontWeight": 600,
            "offset": 8,
        },
        header={"labelColor": colours.ink, "titleColor": colours.ink},
        text={"color": colours.ink},
    )


def records(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as the data of a chart; what is not known (NaN) is left open.

    As text: Altair copies and checks a chart's data at every step, and a text is quickly copied.
    """
    known = [{key: None if one != one else one for key, one in row.items()} for row in rows]
    values = json.dumps(known, ensure_ascii=False, allow_nan=False)
    return altair().InlineData(values=values, format={"type": "json"})


def by_value(
    channel: str, field: str, values: Sequence[Any], marks: Sequence[Any], **options: Any
) -> Any:
    """Return a channel ("Color", "Shape", "StrokeDash") that gives each value its mark."""
    alt = altair()
    scale = alt.Scale(domain=list(values), range=list(marks))
    return getattr(alt, channel)(f"{field}:N", title=None, scale=scale, **options)


def vertical_rule(at: float, **mark: Any) -> Any:
    """Return a layer with a vertical line at a place on the horizontal axis."""
    return altair().Chart(records([{"at": at}])).mark_rule(**mark).encode(x="at:Q")


def interval_tooltips(number: str) -> list[Any]:
    """Return what is said of the ends of an interval, the fields ``low`` and ``high``."""
    alt = altair()
    return [
        alt.Tooltip("low:Q", title="95 % from", format=number),
        alt.Tooltip("high:Q", title="to", format=number),
    ]


def follows(name: str, selector: str | None, start: int, choices: Sequence[str]) -> Any:
    """Return a parameter that says which of several places or classes is looked at."""
    alt = altair()
    if selector is not None:
        # The input's own value counts from the start; Vega reads it when it binds.
        bind = alt.BindDirect(element=selector, event="input")
    elif name == "tradeoff":
        bind = alt.binding_range(min=0, max=len(choices) - 1, step=1, name="place on the path ")
    else:
        numbers = [str(k) for k in range(len(choices))]
        bind = alt.binding_select(options=numbers, labels=list(choices), name="class ")
    return alt.param(name=name, value=str(start), bind=bind)


def shown(name: str, longest: int = 60) -> str:
    """Return a name fit for a label: one line, visible, not too long."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    if not text.strip():
        return "(empty)" if not text else f"({len(text)} spaces)"
    return text if len(text) <= longest else text[: longest - 1] + "…"


#: What every object of JavaScript has: Vega, which keeps groups in plain objects by their value,
#: would find these there before it put them in.
_OF_OBJECTS: Final = {
    "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__",
    "__lookupGetter__", "__lookupSetter__",
}  # fmt: skip


def labels(names: Sequence[str], longest: int = 60) -> list[str]:
    """Return names fit for labels, no two of them alike."""
    taken: dict[str, int] = {}
    found = []
    for name in names:
        label = shown(name, longest)
        if label in _OF_OBJECTS:
            label += "\u200b"  # invisible
        taken[label] = taken.get(label, 0) + 1
        found.append(label if taken[label] == 1 else f"{label} ({taken[label]})")
    return found
