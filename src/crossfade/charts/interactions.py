"""Charts of what columns say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crossfade.charts.theme import LIGHT, Colours, altair, by_value, records

_MORE, _LESS = "more often than predicted", "less often"

#: Side of a map and width of a character, in pixels; maps beside each other.
_SIDE: Final = 150
_CHARACTER: Final = 6.5
_BESIDE: Final = 4


def residual_maps(maps: Sequence[Mapping[str, Any]], colours: Colours = LIGHT) -> Any:
    """Draw by how much a class is more frequent than predicted, by parts of two columns each.

    Takes maps: keys ``title``, ``label`` (of the class), ``columns`` (one or two names), ``first``
    and ``second`` (names of their parts) and ``rows``, whose keys are ``first``, ``second`` (which
    part), ``residual`` and ``count``.
    """
    alt = altair()
    largest = max(abs(row["residual"]) for one in maps for row in one["rows"])
    hues = [colours.discriminative, colours.generative]
    color = by_value("Color", "sign", [_MORE, _LESS], hues, legend=alt.Legend(columns=2))
    opacity = alt.Opacity(
        "size:Q", legend=None, scale=alt.Scale(domain=[0.0, largest], range=[0.04, 0.75])
    )
    charts = []
    for one in maps:
        rows = [
            dict(row)
            | {
                "sign": _MORE if row["residual"] >= 0.0 else _LESS,
                "size": abs(row["residual"]),
                "text": _points(row["residual"]),
                "part": one["first"][row["first"]],
                "other": one["second"][row["second"]],
            }
            for row in one["rows"]
        ]
        base = alt.Chart(records(rows)).encode(
            x=_axis(alt.X, "part", one["columns"][0], one["first"]),
            y=_axis(alt.Y, "other", one["columns"][-1], one["second"]),
            tooltip=[
                alt.Tooltip("part:N", title=one["columns"][0]),
                *([alt.Tooltip("other:N", title=one["columns"][1])] if one["columns"][1:] else []),
                alt.Tooltip("residual:Q", title="share less predicted", format="+.1%"),
                alt.Tooltip("count:Q", title="test rows"),
            ],
        )
        boxes = base.mark_rect().encode(color=color, opacity=opacity)
        text = base.mark_text(fontSize=10, color=colours.ink).encode(text="text:N")
        height = _SIDE if one["columns"][1:] else _SIDE / 4
        title = alt.Title(one["title"], subtitle=one["label"], subtitleColor=colours.soft)
        charts.append(alt.layer(boxes, text).properties(width=_SIDE, height=height, title=title))
    return (
        alt.concat(*charts, columns=_BESIDE)
        .resolve_scale(color="shared", opacity="shared")
        .properties(
            description="By parts of two columns, by how much a class is more frequent among test "
            "rows than naive Bayes predicts, in percentage points."
        )
    )


def _points(residual: float) -> str:
    """Return a difference of shares in percentage points."""
    points = round(100.0 * residual)
    return f"{points:+d}".replace("-", "−") if points else "0"


def _axis(channel: Any, field: str, title: str, names: Sequence[str]) -> Any:
    """Return an axis with a place for each part, none where there is but one."""
    alt = altair()
    across = field == "part"
    # Names that do not fit beside each other are turned.
    turned = across and max(map(len, names)) * _CHARACTER > _SIDE / len(names)
    axis = alt.Axis(
        labelAngle=-35 if turned else 0,
        labelAlign="right" if turned else alt.Undefined,
        labelLimit=80,
        grid=False,
    )
    order = list(names) if across else list(reversed(names))
    return channel(
        f"{field}:N",
        title=title,
        axis=axis if len(names) > 1 else None,
        scale=alt.Scale(domain=order),
    )
