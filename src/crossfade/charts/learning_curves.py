"""Chart of learning curves of any number of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crossfade.charts.theme import (
    LIGHT,
    ROLE_DASHES,
    Colours,
    altair,
    by_value,
    interval_tooltips,
    records,
)

_DASHES: Final = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3])

#: Means further apart than this are drawn on a logarithmic scale.
_SEVERALFOLD: Final = 6.0


def learning_curves(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    label: str,
    *,
    crossings: Sequence[Mapping[str, Any]] = (),
    beyond: Sequence[Mapping[str, Any]] = (),
    roles: Sequence[str] | None = None,
    unit: str = "rows",
    colours: Colours = LIGHT,
) -> Any:
    """Draw mean scores against training size, with bands.

    Takes rows: keys ``model`` (text), ``size``, ``mean``, ``low``, ``high``; crossings: keys
    ``size``, ``low``, ``high`` (None where open): drawn as a line and a band; beyond: keys
    ``model``, ``size``, ``mean``: an extrapolation, drawn dashed.
    """
    alt = altair()
    x_title = f"training {unit}"
    x = alt.X(
        "size:Q",
        title=x_title,
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(grid=False, format=",d", tickCount=6, labelOverlap=True),
    )
    scale = _scale(alt, [*rows, *beyond])
    y = alt.Y("mean:Q", title=label, scale=scale, axis=_axis(alt, scale))
    hues = [colours.classes[i % len(colours.classes)] for i in range(len(names))]
    dashes = [_DASHES[i % len(_DASHES)] for i in range(len(names))]
    if roles is not None:
        hues = [getattr(colours, role) for role in roles]
        dashes = [ROLE_DASHES[role] for role in roles]
    # A legend has room for words, not for sentences. Above the chart it has the chart's width,
    # whatever font the viewer has.
    legend = alt.Legend(
        symbolType="stroke",
        symbolSize=300,
        labelLimit=300,
        symbolOpacity=1,
        orient="top",
        columns=1,
    )
    color = by_value("Color", "model", names, hues, legend=legend)
    dash = by_value("StrokeDash", "model", names, dashes, legend=legend)
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("size:Q", title=x_title, format=",d"),
        alt.Tooltip("mean:Q", title=label, format=".4f"),
        *interval_tooltips(".4f"),
    ]
    layers = []
    seen = [crossing for crossing in crossings if crossing["size"] is not None]
    if seen:
        at = alt.Chart(records(seen))
        layers.append(
            at.mark_rect(color=colours.soft, opacity=0.14).encode(x=alt.X("low:Q"), x2="high:Q")
        )
        layers.append(
            at.mark_rule(color=colours.ink, strokeDash=[4, 3]).encode(
                x="size:Q", tooltip=alt.Tooltip("size:Q", title="crossing", format=",.0f")
            )
        )
    lowest = scale["domain"][0]
    # A logarithm has no zero, which the bands of tiny training sets may reach.
    base = alt.Chart(records([dict(row) | {"low": max(row["low"], lowest)} for row in rows]))
    layers += [
        base.mark_area(opacity=0.16, clip=True).encode(
            x=x, y=alt.Y("low:Q", title=label, scale=scale), y2="high:Q", color=color
        ),
        base.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color, strokeDash=dash),
        base.mark_point(filled=True, size=30, opacity=1, clip=True).encode(
            x=x, y=y, color=color, tooltip=tooltip
        ),
    ]
    if beyond:
        layers.append(
            alt.Chart(records(beyond))
            .mark_line(strokeWidth=1.5, strokeDash=[3, 4])
            .encode(x=x, y=y, color=color)
        )
    return alt.layer(*layers).properties(
        width=480,
        height=300,
        description=f"{label} against the number of training {unit}, with 95 % bands.",
    )


def _scale(alt: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a scale that holds all means, logarithmic where they differ severalfold.

    The wide bands of tiny training sets may run out of it.
    """
    means = [row["mean"] for row in rows]
    low, high = min(means), max(means)
    if low > 0 and high / low > _SEVERALFOLD:
        return alt.Scale(type="log", domain=[low / 1.3, high * 1.3], nice=False)
    margin = 0.12 * ((high - low) or abs(high) or 1.0)
    bottom = max(low - margin, 0.0) if low >= 0 else low - margin
    return alt.Scale(type="linear", zero=False, domain=[bottom, high + margin])


def _axis(alt: Any, scale: Any) -> Any:
    """Return an axis with few grid lines, also where it is logarithmic."""
    if scale["type"] != "log":
        return alt.Axis(tickCount=6)
    low, high = scale["domain"]
    steps = [step * 10.0**power for power in range(-6, 7) for step in (1, 2, 5)]
    return alt.Axis(values=[step for step in steps if low <= step <= high], format="~g")
