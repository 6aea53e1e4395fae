"""Charts of predicted probabilities: reliability, ROC, precision and recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.charts.theme import (
    LIGHT,
    ROLE_DASHES,
    Colours,
    altair,
    by_value,
    interval_tooltips,
    records,
    vertical_rule,
)


def reliability(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    roles: Sequence[str],
    colours: Colours = LIGHT,
) -> Any:
    """Draw how often what was predicted happened, against the predicted probability.

    Takes rows: keys ``model``, ``mean``, ``frequency``, ``low``, ``high``, ``share``.
    """
    alt = altair()
    base = alt.Chart(records(rows))
    unit = alt.Scale(domain=[0, 1], nice=False)
    percent = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    x = alt.X("mean:Q", title="predicted probability", scale=unit, axis=percent)
    y = alt.Y("frequency:Q", title="how often it happened", scale=unit, axis=percent)
    color, shape, _ = _by_model(names, roles, colours)
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("mean:Q", title="predicted", format=".1%"),
        alt.Tooltip("frequency:Q", title="happened", format=".1%"),
        *interval_tooltips(".1%"),
        alt.Tooltip("share:Q", title="share of predictions", format=".1%"),
    ]
    span = base.mark_rule(strokeWidth=1.5, opacity=0.8).encode(
        x=x, y=alt.Y("low:Q", title="how often it happened", scale=unit), y2="high:Q", color=color
    )
    dots = base.mark_point(filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=color,
        shape=shape,
        size=alt.Size(
            "share:Q", legend=None, scale=alt.Scale(type="sqrt", domain=[0, 1], range=[24, 420])
        ),
        tooltip=tooltip,
    )
    return alt.layer(_diagonal(alt, colours, 0.0, 1.0), span, dots).properties(
        width="container",
        height=300,
        title="Reliability",
        description="Observed frequency against predicted probability, in ten bins with 95 % "
        "intervals; on the diagonal the two agree.",
    )


def rate_curves(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    roles: Sequence[str],
    *,
    title: str,
    titles: tuple[str, str],
    guessing: tuple[float, float],
    colours: Colours = LIGHT,
) -> Any:
    """Draw one rate against another, as in ROC and precision-recall curves.

    Takes rows: keys ``model``, ``x``, ``y``, both from 0 to 1, in the curve's order.
    """
    alt = altair()
    color, _, dash = _by_model(names, roles, colours)
    percent = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    unit = alt.Scale(domain=[0, 1], nice=False)
    line = (
        alt.Chart(records(rows))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title=titles[0], scale=unit, axis=percent),
            y=alt.Y("y:Q", title=titles[1], scale=unit, axis=percent),
            order="x:Q",
            color=color,
            strokeDash=dash,
            tooltip=[
                alt.Tooltip("model:N"),
                alt.Tooltip("x:Q", title=titles[0], format=".1%"),
                alt.Tooltip("y:Q", title=titles[1], format=".1%"),
            ],
        )
    )
    return alt.layer(_diagonal(alt, colours, *guessing), line).properties(
        width="container",
        height=300,
        title=title,
        description=f"{title}: {titles[1]} against {titles[0]}, mean over splits; the dashed line "
        "is guessing.",
    )


def threshold_costs(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    roles: Sequence[str],
    positive: str,
    right: float,
    title: str,
    colours: Colours = LIGHT,
) -> Any:
    """Draw what decisions cost against the probability from which one is for the positive class.

    Takes rows: keys ``model``, ``threshold``, ``mean``, ``low``, ``high``; right: the threshold of
    probabilities that are true.
    """
    alt = altair()
    base = alt.Chart(records(rows))
    lines = alt.Legend(symbolType="stroke")  # not the band's circles
    color, _, dash = _by_model(names, roles, colours, legend=lines)
    x = alt.X(
        "threshold:Q",
        title=f"decide for {positive} from a probability of",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    mean = alt.Y("mean:Q", title=title)
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("threshold:Q", format=".0%"),
        alt.Tooltip("mean:Q", title=title, format=".4f"),
        *interval_tooltips(".4f"),
    ]
    band = base.mark_area(opacity=0.15).encode(
        x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=color
    )
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=mean, color=color, strokeDash=dash, tooltip=tooltip
    )
    rule = vertical_rule(right, color=colours.soft, strokeDash=[4, 3])
    return alt.layer(band, line, rule).properties(
        width="container",
        height=300,
        title="Thresholds",
        description=f"{title} of decisions against the threshold of the probability, mean over "
        "splits with 95 % intervals; dashed: the threshold for probabilities that are true.",
    )


def _diagonal(alt: Any, colours: Colours, start: float, end: float) -> Any:
    return (
        alt.Chart(records([{"x": 0, "y": start}, {"x": 1, "y": end}]))
        .mark_line(color=colours.soft, strokeWidth=1, strokeDash=[4, 3])
        .encode(x="x:Q", y="y:Q")
    )


def _by_model(
    names: Sequence[str], roles: Sequence[str], colours: Colours, **options: Any
) -> tuple[Any, Any, Any]:
    """Return the colour, shape and dash that tell models apart."""
    shapes = {"generative": "square", "discriminative": "circle", "best": "diamond"}
    return (
        by_value("Color", "model", names, [getattr(colours, role) for role in roles], **options),
        by_value("Shape", "model", names, [shapes[role] for role in roles], **options),
        by_value("StrokeDash", "model", names, [ROLE_DASHES[role] for role in roles], **options),
    )
