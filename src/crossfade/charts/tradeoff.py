"""Charts that move with λ: the posterior over a view of the data, and the weights of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log10
from typing import Any, Final

from crossfade.charts.theme import (
    LIGHT,
    SHAPES,
    Colours,
    altair,
    by_value,
    follows,
    interval_tooltips,
    records,
    vertical_rule,
)

#: How many times the usual weight the largest may be on a linear axis.
_FAR: Final = 25.0


def posterior_view(
    cells: Sequence[Mapping[str, Any]],
    boundary: Sequence[Mapping[str, float]],
    points: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    titles: tuple[str, str],
    places: Sequence[str],
    start: int = 0,
    slider: str | None = None,
    colours: Colours = LIGHT,
) -> Any:
    """Draw rows in a plane over the classes that a model gives each place, at the λ of a slider.

    Takes cells: keys ``x``, ``x2``, ``y``, ``y2``, and two lists with one entry per place on the
    path: ``k``, position in `classes` of the most probable class, and ``p``, its posterior.
    """
    alt = altair()
    hues = [colours.classes[k % len(colours.classes)] for k in range(len(classes))]
    shapes = [SHAPES[k % len(SHAPES)] for k in range(len(classes))]
    share = 1.0 / len(classes)

    def axis(title: str) -> Any:
        return alt.Axis(title=title, grid=False, labels=False, ticks=False, domain=False)

    low_x, high_x = min(c["x"] for c in cells), max(c["x2"] for c in cells)
    low_y, high_y = min(c["y"] for c in cells), max(c["y2"] for c in cells)
    x = alt.X("x:Q", scale=alt.Scale(domain=[low_x, high_x], nice=False), axis=axis(titles[0]))
    y = alt.Y("y:Q", scale=alt.Scale(domain=[low_y, high_y], nice=False), axis=axis(titles[1]))
    now = alt.Chart(records(cells))
    field = (
        now.transform_calculate(
            winner="datum.k[toNumber(tradeoff)]",
            sure=f"0.08 + 0.5 * (datum.p[toNumber(tradeoff)] - {share}) / {1 - share}",
        )
        .mark_rect(strokeWidth=0)
        .encode(
            x=x,
            x2="x2:Q",
            y=y,
            y2="y2:Q",
            fill=alt.Fill(
                "winner:N", scale=alt.Scale(domain=list(range(len(hues))), range=hues), legend=None
            ),
            fillOpacity=alt.FillOpacity("sure:Q", scale=None, legend=None),
        )
    )
    line = (
        alt.Chart(records(boundary))
        .transform_filter("datum.place == toNumber(tradeoff)")
        .mark_rule(color=colours.ink, strokeWidth=2, strokeCap="round")
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    )
    dots = (
        alt.Chart(records(points))
        .mark_point(filled=True, size=34, opacity=0.95, stroke=colours.paper, strokeWidth=0.8)
        .encode(
            x=x,
            y=y,
            color=by_value("Color", "label", classes, hues),
            shape=by_value("Shape", "label", classes, shapes),
            tooltip=alt.Tooltip("label:N", title="class"),
        )
    )
    return (
        alt.layer(field, line, dots)
        .add_params(follows("tradeoff", slider, start, places))
        .properties(
            width="container",
            height=380,
            description="Rows on two discriminant directions, over the class that the model gives "
            "each place and the boundary between classes, at the λ of the slider.",
        )
    )


def weight_path(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    span: tuple[float, float],
    *,
    title: str,
    places: Sequence[str],
    start: int = 0,
    slider: str | None = None,
    classes: Sequence[str] = (),
    chooser: str | None = None,
    colours: Colours = LIGHT,
) -> Any:
    """Draw the weight of each column as a bar, at the λ of a slider.

    Takes rows: keys ``name``, ``score`` (which class the weight is for) and ``w``, a list with
    one weight per place on the path.
    """
    alt = altair()
    base = alt.Chart(records(rows))
    if classes:
        base = base.transform_filter("datum.score == toNumber(score)")
    base = base.transform_calculate(
        now="datum.w[toNumber(tradeoff)]",
        generative="datum.w[0]",
        sign="datum.w[toNumber(tradeoff)] < 0 ? 'down' : 'up'",
        said="datum.name + ': ' + format(datum.w[toNumber(tradeoff)], '.3f')",
    )
    sizes = [max(map(abs, row["w"])) for row in rows]
    x = alt.X("now:Q", stack=None, **_weight_axis(title, sizes, span))
    y = alt.Y("name:N", sort=list(names), title=None, axis=alt.Axis(minExtent=50))
    bars = base.mark_bar(height={"band": 0.7}).encode(
        x=x,
        y=y,
        color=alt.Color(
            "sign:N",
            legend=None,
            scale=alt.Scale(domain=["down", "up"], range=list(colours.classes[:2])),
        )
        if not classes
        else alt.value(colours.classes[0]),
        description=alt.Description("said:N"),
        tooltip=[
            alt.Tooltip("name:N", title="column"),
            alt.Tooltip("now:Q", title="weight", format=".3f"),
            alt.Tooltip("generative:Q", title="at λ = 1", format=".3f"),
        ],
    )
    tick = base.mark_tick(aria=False, color=colours.ink, thickness=2, size=14).encode(
        x=alt.X("generative:Q"), y=y
    )
    chart = alt.layer(bars, tick).add_params(follows("tradeoff", slider, start, places))
    if classes:
        chart = chart.add_params(follows("score", chooser, 0, classes))
    return chart.properties(
        width="container",
        height=22 * len(names),
        description="Weight of each column at the λ of the slider; a tick marks its weight in the "
        "generative fit.",
    )


def weight_ends(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    *,
    title: str,
    classes: Sequence[str] = (),
    chooser: str | None = None,
    colours: Colours = LIGHT,
) -> Any:
    """Draw the generative and the discriminative estimate of each weight, with intervals.

    Takes rows: keys ``name``, ``score``, ``end`` ("generative" or "discriminative"), ``value``,
    ``low``, ``high``.
    """
    alt = altair()
    base = alt.Chart(records(rows))
    if classes:
        base = base.transform_filter("datum.score == toNumber(score)")
    ends = ["generative", "discriminative"]
    y = alt.Y("name:N", sort=list(names), title=None, axis=alt.Axis(grid=True, minExtent=50))
    offset = alt.YOffset("end:N", sort=ends)
    hues = [colours.generative, colours.discriminative]
    color = by_value("Color", "end", ends, hues, sort=ends)
    tooltip = [
        alt.Tooltip("name:N", title="column"),
        alt.Tooltip("end:N", title="fit"),
        alt.Tooltip("value:Q", title="weight", format=".3f"),
        *interval_tooltips(".3f"),
    ]
    sizes = [abs(row["value"]) for row in rows]
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    zero = vertical_rule(0.0, color=colours.soft)
    span = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", **_weight_axis(title, sizes, (low, high))),
        x2="high:Q",
        y=y,
        yOffset=offset,
        color=color,
    )
    dots = base.mark_point(filled=True, size=46, opacity=1).encode(
        x="value:Q",
        y=y,
        yOffset=offset,
        color=color,
        shape=by_value("Shape", "end", ends, ["square", "circle"]),
        tooltip=tooltip,
    )
    chart = alt.layer(zero, span, dots)
    if classes:
        chart = chart.add_params(follows("score", chooser, 0, classes))
    return chart.properties(
        width="container",
        height=28 * len(names),
        description="Weight of each column in the generative and in the discriminative fit, with "
        "95 % intervals.",
    )


def _weight_axis(title: str, sizes: Sequence[float], span: tuple[float, float]) -> dict[str, Any]:
    """Return the axis of weights: linear, unless few of them would squeeze the others flat."""
    alt = altair()
    low, high = min(span[0], 0.0), max(span[1], 0.0)
    usual = sorted(sizes)[len(sizes) // 2]
    if max(sizes) <= _FAR * usual or not usual:
        scale = alt.Scale(domain=[low, high], nice=True, clamp=True)
        return {"title": title, "scale": scale, "axis": alt.Axis(tickCount=6, titleAnchor="end")}
    unit = 10.0 ** round(log10(usual))
    steps = [unit * 10.0**k for k in range(1 + max(0, ceil(log10(max(-low, high) / unit))))]
    ticks = [-step for step in reversed(steps) if -step >= low] + [0.0]
    ticks += [step for step in steps if step <= high]
    return {
        "title": f"{title} (logarithmic beyond ±{unit:g})",
        "scale": alt.Scale(
            type="symlog", constant=unit, domain=[1.2 * low, 1.2 * high], nice=False, clamp=True
        ),
        "axis": alt.Axis(values=ticks, titleAnchor="end", format="~r"),
    }
