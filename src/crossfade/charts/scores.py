"""Charts of scores: models against the best one, and losses along λ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.charts.theme import (
    LIGHT,
    Colours,
    altair,
    by_value,
    follows,
    interval_tooltips,
    records,
    vertical_rule,
)


def model_differences(
    rows: Sequence[Mapping[str, Any]], label: str, colours: Colours = LIGHT
) -> Any:
    """Draw each model's distance to the best one, with its interval.

    Takes rows: keys ``model`` (text), ``mean``, ``low``, ``high`` (numbers), ``verdict`` (text:
    "best", "cannot be told apart", "worse"), in the order drawn.
    """
    alt = altair()
    base = alt.Chart(records(rows))
    names = [row["model"] for row in rows]
    y = alt.Y("model:N", sort=names, title=None, axis=alt.Axis(grid=True, minExtent=60))
    verdicts, legend = ["best", "cannot be told apart", "worse"], alt.Legend(columns=1)
    hues = [colours.discriminative, colours.ink, colours.soft]
    color = by_value("Color", "verdict", verdicts, hues, legend=legend)
    shapes = ["diamond", "circle", "square"]
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("mean:Q", title="difference", format=".4f"),
        *interval_tooltips(".4f"),
    ]
    span = base.mark_rule(strokeWidth=2).encode(
        x=alt.X(
            "low:Q",
            title=f"{label} above the best (← lower is better)",
            axis=alt.Axis(tickCount=7, titleAnchor="end"),
        ),
        x2="high:Q",
        y=y,
        color=color,
        tooltip=tooltip,
    )
    dot = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="mean:Q",
        y=y,
        color=color,
        shape=by_value("Shape", "verdict", verdicts, shapes, legend=legend),
        tooltip=tooltip,
    )
    zero = vertical_rule(0.0, color=colours.ink, strokeDash=[4, 3])
    return (zero + span + dot).properties(
        width="container",
        height=24 * len(names),
        description=f"Difference in {label} of each model to the best one, with 95 % intervals.",
    )


def path_losses(
    rows: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    lines: Sequence[tuple[str, int, int]],
    chosen: float | None,
    title: str,
    colours: Colours = LIGHT,
    slider: tuple[str | None, Sequence[float]] = (None, ()),
) -> Any:
    """Draw a loss along λ, from generative to discriminative.

    Takes rows: keys ``place`` (on the path), ``loss``, ``line`` (text) and ``weight`` (in the
    pool, 0 to 1).
    """
    alt = altair()
    base = alt.Chart(records(rows))
    x = alt.X(
        "place:Q",
        title="λ: generative → discriminative",
        scale=alt.Scale(domain=[0, max(len(labels) - 1, 1)], nice=False, padding=8),
        axis=alt.Axis(
            values=list(range(len(labels))),
            grid=False,
            labelExpr=f"{list(labels)}[datum.value]",
            labelOverlap=True,
        ),
    )
    y = alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    names = [name for name, _, _ in lines]
    hues = [colours.ink, *colours.classes]
    legend = alt.Legend(columns=2, symbolType="stroke", orient="bottom") if len(lines) > 1 else None
    drawn = [hues[hue % len(hues)] for _, hue, _ in lines]
    color = by_value("Color", "line", names, drawn, legend=legend)
    dashes = [[4, 3] if dash else [1, 0] for _, _, dash in lines]
    dash = by_value("StrokeDash", "line", names, dashes, legend=legend)
    tooltip = [
        alt.Tooltip("tradeoff:N", title="λ"),
        alt.Tooltip("loss:Q", title=title, format=".4f"),
    ]
    if len(lines) > 1:
        tooltip += [
            alt.Tooltip("line:N", title="with"),
            alt.Tooltip("weight:Q", title="weight in the pool", format=".0%"),
        ]
    layers = [
        base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, strokeDash=dash),
        base.mark_point(filled=True, opacity=1).encode(
            x=x,
            y=y,
            color=color,
            size=alt.Size("weight:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[26, 600])),
            tooltip=tooltip,
        ),
    ]
    if chosen is not None:
        layers.append(
            vertical_rule(chosen, color=colours.discriminative, strokeWidth=2, strokeDash=[5, 3])
        )
    selector, positions = slider
    if positions:
        marks = [{"position": i, "at": at} for i, at in enumerate(positions)]
        layers.append(
            alt.Chart(records(marks))
            .transform_filter("datum.position == toNumber(tradeoff)")
            .mark_rule(color=colours.generative, strokeWidth=2)
            .encode(x="at:Q")
        )
    chart = alt.layer(*layers)
    if positions:
        names = [str(i) for i in range(len(positions))]
        chart = chart.add_params(follows("tradeoff", selector, 0, names))
    return chart.properties(
        width="container",
        height=150,
        title=title,
        description=f"{title} out of fold along the path from the generative to the "
        "discriminative fit; the chosen place is marked.",
    )
