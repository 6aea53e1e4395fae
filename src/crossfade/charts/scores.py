"""Charts of scores: models against the best one, and losses along λ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.charts.theme import LIGHT, Colours, altair, follows, records

__all__ = ["model_differences", "path_losses"]


def model_differences(
    rows: Sequence[Mapping[str, Any]], label: str, colours: Colours = LIGHT
) -> Any:
    """Draw each model's distance to the best one, with its interval.

    Parameters
    ----------
    rows : sequence of mapping
        Keys ``model`` (text), ``mean``, ``low``, ``high`` (numbers), ``verdict`` (text: "best",
        "cannot be told apart", "worse"), in the order drawn.
    label : str
        Name of the score.
    colours : Colours

    Returns
    -------
    altair.LayerChart
    """
    alt = altair()
    base = alt.Chart(records(rows))
    names = [row["model"] for row in rows]
    y = alt.Y("model:N", sort=names, title=None, axis=alt.Axis(grid=True, minExtent=60))
    color = alt.Color(
        "verdict:N",
        title=None,
        legend=alt.Legend(columns=3),
        scale=alt.Scale(
            domain=["best", "cannot be told apart", "worse"],
            range=[colours.discriminative, colours.ink, colours.soft],
        ),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("mean:Q", title="difference", format=".4f"),
        alt.Tooltip("low:Q", title="95 % from", format=".4f"),
        alt.Tooltip("high:Q", title="to", format=".4f"),
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
        shape=alt.Shape(
            "verdict:N",
            title=None,
            legend=alt.Legend(columns=3),
            scale=alt.Scale(
                domain=["best", "cannot be told apart", "worse"],
                range=["diamond", "circle", "square"],
            ),
        ),
        tooltip=tooltip,
    )
    zero = (
        alt.Chart(records([{"at": 0}]))
        .mark_rule(color=colours.ink, strokeDash=[4, 3])
        .encode(x="at:Q")
    )
    return (zero + span + dot).properties(
        width="container",
        height=24 * len(names),
        description=f"Difference in {label} of each model to the best one, with 95 % intervals.",
    )


def path_losses(
    losses: Sequence[Sequence[float | None]],
    labels: Sequence[str],
    names: Sequence[str],
    chosen: float | None,
    title: str,
    colours: Colours = LIGHT,
    slider: str | None = None,
    slider_places: Sequence[float] = (),
) -> Any:
    """Draw a loss along λ, from generative to discriminative.

    Parameters
    ----------
    losses : sequence of sequence of float
        One a line, a value a place on the path; None where there is none.
    labels : sequence of str
        λ at each place, as text.
    names : sequence of str
        Name of each line ("l2 = 1"); one line needs none.
    chosen : float or None
        Where on the path the chosen λ lies: 0 the first place, 0.5 between the first and second.
    title : str
        Name of the loss.
    colours : Colours
    slider : str, optional
        CSS selector of the range input that says which λ is looked at.
    slider_places : sequence of float
        Where on this chart each of its positions lies; as `chosen`.

    Returns
    -------
    altair.LayerChart
    """
    alt = altair()
    values = [
        {"place": i, "loss": loss, "line": name, "tradeoff": labels[i]}
        for line, name in zip(losses, names, strict=True)
        for i, loss in enumerate(line)
        if loss is not None
    ]
    base = alt.Chart(records(values))
    x = alt.X(
        "place:Q",
        title="λ: generative → discriminative",
        scale=alt.Scale(domain=[0, len(labels) - 1], nice=False, padding=8),
        axis=alt.Axis(
            values=list(range(len(labels))),
            grid=False,
            labelExpr=f"{[str(label) for label in labels]}[datum.value]",
            labelOverlap=True,
        ),
    )
    y = alt.Y("loss:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
    tooltip = [
        alt.Tooltip("tradeoff:N", title="λ"),
        alt.Tooltip("loss:Q", title=title, format=".4f"),
        *([alt.Tooltip("line:N", title="penalty")] if len(names) > 1 else []),
    ]
    detail: dict[str, Any] = {}
    if len(names) > 1:
        detail = {
            "strokeDash": alt.StrokeDash("line:N", title=None, sort=list(names)),
            "opacity": alt.value(0.8),
        }
    line = base.mark_line(color=colours.ink, strokeWidth=1.5).encode(x=x, y=y, **detail)
    dots = base.mark_point(filled=True, size=26, color=colours.ink, opacity=1).encode(
        x=x, y=y, tooltip=tooltip
    )
    layers = [line, dots]
    if chosen is not None:
        layers.append(
            alt.Chart(records([{"at": chosen}]))
            .mark_rule(color=colours.discriminative, strokeWidth=2, strokeDash=[5, 3])
            .encode(x="at:Q")
        )
    if slider is not None:
        positions = [{"position": i, "at": at} for i, at in enumerate(slider_places)]
        layers.append(
            alt.Chart(records(positions))
            .transform_filter("datum.position == toNumber(tradeoff)")
            .mark_rule(color=colours.generative, strokeWidth=2)
            .encode(x="at:Q")
        )
    chart = alt.layer(*layers)
    if slider is not None:
        places = [str(i) for i in range(len(slider_places))]
        chart = chart.add_params(follows("tradeoff", slider, 0, places))
    return chart.properties(
        width="container",
        height=150,
        title=title,
        description=f"{title} out of fold along the path from the generative to the "
        "discriminative fit; the chosen place is marked.",
    )
