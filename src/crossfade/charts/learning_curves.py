"""Chart of learning curves of any number of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.errors import MissingExtraError

__all__ = ["learning_curves"]

#: Okabe and Ito's colours, told apart by colour-blind readers too.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")

_DASHES = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3])


def learning_curves(
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    label: str,
    *,
    crossings: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    unit: str = "rows",
) -> Any:
    """Draw mean scores against training size, with bands.

    Parameters
    ----------
    rows : sequence of mapping
        Keys ``model`` (text), ``size``, ``mean``, ``low``, ``high``.
    names : sequence of str
        The models in the legend's order.
    label : str
        Name of the score.
    crossings : sequence of mapping, default=()
        Keys ``size``, ``low``, ``high`` (None where open): drawn as a line and a band.
    title : str, optional
    unit : str, default="rows"
        What sizes count.

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    MissingExtraError
        If Altair is not installed.
    """
    try:
        import altair as alt
    except ImportError:  # pragma: no cover - altair is installed where tests run
        raise MissingExtraError(
            "charts need altair, which the extra 'report' installs: pip install 'crossfade[report]'"
        ) from None
    x_title = f"training {unit}"
    x = alt.X(
        "size:Q",
        title=x_title,
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(grid=False, format=",d", tickCount=6, labelOverlap=True),
    )
    scale = alt.Scale(zero=False, domain=_span(rows))
    names = list(names)
    colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(names))]
    dashes = [_DASHES[i % len(_DASHES)] for i in range(len(names))]
    # A legend has room for words, not for sentences.
    legend = alt.Legend(
        symbolType="stroke", symbolSize=300, orient="bottom", labelLimit=300, symbolOpacity=1
    )
    color = alt.Color(
        "model:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=legend
    )
    dash = alt.StrokeDash(
        "model:N", title=None, scale=alt.Scale(domain=names, range=dashes), legend=legend
    )
    tooltip = [
        alt.Tooltip("model:N"),
        alt.Tooltip("size:Q", title=x_title, format=",d"),
        alt.Tooltip("mean:Q", title=label, format=".4f"),
        alt.Tooltip("low:Q", title="95 % from", format=".4f"),
        alt.Tooltip("high:Q", title="to", format=".4f"),
    ]
    layers = []
    seen = [crossing for crossing in crossings if crossing["size"] is not None]
    if seen:
        at = alt.Chart(alt.Data(values=[dict(crossing) for crossing in seen]))
        layers.append(at.mark_rect(color="#7F7F7F", opacity=0.12).encode(x="low:Q", x2="high:Q"))
        layers.append(at.mark_rule(color="#404040", strokeDash=[4, 3]).encode(x="size:Q"))
    base = alt.Chart(alt.Data(values=[dict(row) for row in rows]))
    layers += [
        base.mark_area(opacity=0.16, clip=True).encode(
            x=x, y=alt.Y("low:Q", title=label, scale=scale), y2="high:Q", color=color
        ),
        base.mark_line(strokeWidth=2, clip=True).encode(
            x=x, y=alt.Y("mean:Q", title=label, scale=scale), color=color, strokeDash=dash
        ),
        base.mark_point(filled=True, size=30, opacity=1, clip=True).encode(
            x=x, y=alt.Y("mean:Q", title=label, scale=scale), color=color, tooltip=tooltip
        ),
    ]
    chart = alt.layer(*layers).properties(
        width=480,
        height=300,
        description=f"{label} against the number of training {unit}, with 95 % bands.",
    )
    return chart.properties(title=title) if title else chart


def _span(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the range of the means with a margin; wide bands of tiny training sets run out."""
    means = [row["mean"] for row in rows]
    low, high = min(means), max(means)
    margin = 0.12 * ((high - low) or abs(high) or 1.0)
    return [max(low - margin, 0.0) if low >= 0 else low - margin, high + margin]
