"""Charts of densities: how numbers lie in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.charts.theme import LIGHT, Colours, altair, by_value, records


def transform_histograms(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], colours: Colours = LIGHT
) -> Any:
    """Draw small histograms of transforms, which are flat where a density is true.

    Takes rows: keys ``name`` (of the histogram), ``place`` (the bin's middle, from 0 to 1),
    ``share``, ``wrong``.
    """
    alt = altair()
    n_bins = sum(row["name"] == names[0] for row in rows)
    base = alt.Chart(records([dict(row) | {"even": 1.0 / n_bins} for row in rows]))
    hues = [colours.generative, colours.soft]
    bars = base.mark_bar(width={"band": 0.9}).encode(
        x=alt.X("place:O", title=None, axis=alt.Axis(labels=False, ticks=False), sort="ascending"),
        y=alt.Y("share:Q", title=None, axis=alt.Axis(format=".0%", tickCount=3)),
        color=by_value("Color", "wrong", ["wrong", "no clear difference"], hues),
        tooltip=[
            alt.Tooltip("name:N"),
            alt.Tooltip("place:Q", title="of the density, around", format=".0%"),
            alt.Tooltip("share:Q", title="share of the numbers", format=".1%"),
        ],
    )
    rule = base.mark_rule(color=colours.ink, strokeDash=[4, 3]).encode(y="even:Q")
    return (
        alt.layer(bars, rule)
        .properties(width=150, height=70)
        .facet(facet=alt.Facet("name:N", title=None, sort=list(names)), columns=4)
        .properties(
            title="Where numbers lie in their densities",
            description="Histograms of where numbers lie in the densities of their columns, from "
            "the lowest tenth to the highest; flat where the density is true (dashed).",
        )
    )
