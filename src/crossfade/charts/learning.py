"""Charts of learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crossfade.charts.theme import LIGHT, Colours, altair, records

__all__ = ["curves_by_size"]

#: Means further apart than this are drawn on a logarithmic scale.
_SEVERALFOLD: Final = 6.0


def curves_by_size(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    roles: Sequence[str],
    label: str,
    *,
    crossing: Mapping[str, float | None] | None = None,
    beyond: Sequence[Mapping[str, Any]] = (),
    colours: Colours = LIGHT,
) -> Any:
    """Draw scores against training rows, with bands.

    Parameters
    ----------
    rows : sequence of mapping
        Keys ``model`` (text), ``size``, ``mean``, ``low``, ``high``.
    names, roles : sequence of str
        The models in the legend's order, and what each is: "generative", "discriminative",
        "best".
    label : str
        Name of the score.
    crossing : mapping, optional
        ``size`` where the second overtakes the first, ``low`` and ``high`` its interval.
    beyond : sequence of mapping, optional
        As `rows`: an extrapolation, drawn dashed.
    colours : Colours

    Returns
    -------
    altair.LayerChart
    """
    alt = altair()
    scale = alt.Scale(domain=list(names), range=[getattr(colours, role) for role in roles])
    dashes = {"generative": [7, 3], "discriminative": [1, 0], "best": [2, 2]}
    x = alt.X(
        "size:Q",
        title="training rows",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(grid=False, format=",d", tickCount=6, labelOverlap=True),
    )
    y_scale = _scale(alt, [*rows, *beyond])
    lowest = y_scale["domain"][0]
    rows = [dict(row) | {"low": max(row["low"], lowest)} for row in rows]  # a log has no zero
    base = alt.Chart(records(rows))
    y = alt.Y("mean:Q", title=label, scale=y_scale, axis=_axis(alt, y_scale))
    legend = alt.Legend(symbolType="stroke", symbolSize=300)
    color = alt.Color("model:N", title=None, scale=scale, legend=legend)
    dash = alt.StrokeDash(
        "model:N",
        title=None,
        legend=legend,
        scale=alt.Scale(domain=list(names), range=[dashes[role] for role in roles]),
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("size:Q", title="training rows", format=",d"),
        alt.Tooltip("mean:Q", title=label, format=".4f"),
        alt.Tooltip("low:Q", title="95 % from", format=".4f"),
        alt.Tooltip("high:Q", title="to", format=".4f"),
    ]
    layers = []
    if crossing is not None and crossing.get("size") is not None:
        at = alt.Chart(records([crossing]))
        layers.append(
            at.mark_rect(color=colours.soft, opacity=0.16).encode(x=alt.X("low:Q"), x2="high:Q")
        )
        layers.append(
            at.mark_rule(color=colours.ink, strokeDash=[4, 3]).encode(
                x=alt.X("size:Q"), tooltip=alt.Tooltip("size:Q", title="crossing", format=",.0f")
            )
        )
    layers.append(
        base.mark_area(opacity=0.16, clip=True).encode(
            x=x, y=alt.Y("low:Q", title=label, scale=y_scale), y2="high:Q", color=color
        )
    )
    layers.append(base.mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash))
    layers.append(
        base.mark_point(filled=True, size=32, opacity=1).encode(
            x=x, y=y, color=color, tooltip=tooltip
        )
    )
    if beyond:
        layers.append(
            alt.Chart(records(beyond))
            .mark_line(strokeWidth=1.5, strokeDash=[3, 4])
            .encode(x=x, y=y, color=color)
        )
    return alt.layer(*layers).properties(
        width="container",
        height=300,
        description=f"{label} against the number of training rows, with 95 % bands.",
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
    return alt.Scale(zero=False, domain=[low - margin, high + margin])


def _axis(alt: Any, scale: Any) -> Any:
    """Return an axis with few grid lines, also where it is logarithmic."""
    if scale["type"] != "log":
        return alt.Axis(tickCount=6)
    low, high = scale["domain"]
    steps = [step * 10.0**power for power in range(-6, 7) for step in (1, 2, 5)]
    return alt.Axis(values=[step for step in steps if low <= step <= high], format="~g")
