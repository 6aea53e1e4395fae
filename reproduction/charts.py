"""Pictures of the published experiments, from plain rows (mappings of column to cell)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossfade.charts.theme import LIGHT, altair, themed
from crossfade.charts.theme import records as data

Rows = Sequence[Mapping[str, Any]]

#: Our numbers and printed ones; the two ends of a pair have the theme's colours.
OURS, PRINTED = LIGHT.classes[0], LIGHT.classes[4]
ENDS = [LIGHT.generative, LIGHT.discriminative]


def _span(values: Sequence[float], room: float = 0.08) -> list[float]:
    low, high = min(values), max(values)
    margin = room * (high - low or abs(high) or 1.0)
    return [low - margin, high + margin]


def published_table_chart(rows: Rows) -> Any:
    """Return small charts of error against λ, one column per data set and one row per density.

    Takes rows: columns dataset, density, tradeoff, published, ours, standard_error.
    """
    alt = altair()
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    densities = list(dict.fromkeys(row["density"] for row in rows))
    lines = []
    for i, density in enumerate(densities):
        cells = []
        for j, dataset in enumerate(datasets):
            shown = [r for r in rows if r["dataset"] == dataset]
            span = _span([v for r in shown for v in (r["published"], r["ours"])], room=0.12)
            own = [
                {
                    "λ": r["tradeoff"],
                    "error": r[value],
                    "low": r["ours"] - 2 * r["standard_error"],
                    "high": r["ours"] + 2 * r["standard_error"],
                    "what": what,
                }
                for r in shown
                if r["density"] == density
                for value, what in (
                    ("ours", "ours, ± 2 standard errors"),
                    ("published", "published"),
                )
            ]
            base = alt.Chart(data(own)).encode(
                x=alt.X(
                    "λ:Q",
                    title="λ" if i == len(densities) - 1 else None,
                    axis=alt.Axis(
                        values=[0, 0.25, 0.5, 0.75, 1],
                        labelExpr="'' + datum.value",
                        labels=i == len(densities) - 1,
                    ),
                ),
                y=alt.Y(
                    "error:Q",
                    title=density if j == 0 else None,
                    scale=alt.Scale(domain=span, zero=False),
                    axis=alt.Axis(format=".2f", tickCount=4),
                ),
                color=alt.Color(
                    "what:N",
                    legend=alt.Legend(title=None, columns=2),
                    scale=alt.Scale(
                        domain=["ours, ± 2 standard errors", "published"], range=[OURS, PRINTED]
                    ),
                ),
            )
            ours = alt.datum.what == "ours, ± 2 standard errors"
            bars = (
                base.transform_filter(ours)
                .mark_rule(clip=True)
                .encode(y=alt.Y("low:Q", scale=alt.Scale(domain=span)), y2="high:Q")
            )
            line = base.transform_filter(ours).mark_line(point=alt.OverlayMarkDef(size=22))
            printed = base.transform_filter(alt.datum.what == "published").mark_point(
                shape="diamond", size=45, strokeWidth=1.6
            )
            title = dataset if i == 0 else ""
            cells.append(
                alt.layer(bars, line, printed).properties(width=150, height=110, title=title)
            )
        lines.append(alt.hconcat(*cells, spacing=42, bounds="flush"))
    chart = alt.vconcat(*lines, spacing=10).properties(
        title=alt.Title(
            "Test error against λ, from discriminative (0) to generative (1)",
            subtitle="Bouchard & Triggs (2004), Table 1",
        )
    )
    return themed(chart)


def loss_against_tradeoff_chart(rows: Rows) -> Any:
    """Return small charts of loss against λ, a simulation a row and a sample size a column.

    Takes rows: columns simulation, n, tradeoff, loss, lower, upper, mean.
    """
    alt = altair()
    simulations = list(dict.fromkeys(row["simulation"] for row in rows))
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    lines = []
    for simulation in simulations:
        cells = []
        for n in sizes:
            own = [r for r in rows if r["simulation"] == simulation and r["n"] == n]
            span = _span([v for r in own for v in (r["lower"], r["upper"])])
            values = [
                {"λ": r["tradeoff"], **{k: r[k] for k in ("loss", "lower", "upper", "mean")}}
                for r in own
            ]
            best = min(values, key=lambda value: value["mean"])
            base = alt.Chart(data(values)).encode(
                x=alt.X(
                    "λ:Q",
                    title="λ",
                    axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], labelExpr="'' + datum.value"),
                )
            )
            y = alt.Y(
                "loss:Q",
                title=f"simulation {simulation}" if n == sizes[0] else None,
                scale=alt.Scale(domain=span, zero=False),
                axis=alt.Axis(tickCount=5),
            )
            band = base.mark_area(opacity=0.18, color=OURS).encode(
                y=alt.Y("lower:Q", scale=alt.Scale(domain=span, zero=False)), y2="upper:Q"
            )
            line = base.mark_line(color=OURS, point=alt.OverlayMarkDef(size=18, color=OURS)).encode(
                y=y
            )
            mark = (
                alt.Chart(data([best]))
                .mark_point(shape="diamond", size=90, color=PRINTED, filled=True, opacity=1)
                .encode(x="λ:Q", y="loss:Q")
            )
            cells.append(
                alt.layer(band, line, mark).properties(
                    width=220, height=150, title=f"n = {n}, best λ = {best['λ']:g}"
                )
            )
        lines.append(alt.hconcat(*cells, spacing=56, bounds="flush"))
    chart = alt.vconcat(*lines, spacing=14).properties(
        title=alt.Title(
            "Logistic loss on 100,000 test rows against λ, median of runs with its 95 % interval",
            subtitle="Bouchard & Triggs (2004), Figure 1. Diamond: least mean loss.",
        )
    )
    return themed(chart)


def efficiency_chart(rows: Rows, curve: Rows) -> Any:
    """Return simulated efficiencies over the theoretical curve.

    Takes rows: columns distance, ours, standard_error; curve: columns distance, theory.
    """
    alt = altair()
    points = [
        {
            "distance": r["distance"],
            "efficiency": r["ours"],
            "low": r["ours"] - 2 * r["standard_error"],
            "high": r["ours"] + 2 * r["standard_error"],
        }
        for r in rows
    ]
    x = alt.X("distance:Q", title="Mahalanobis distance of the classes")
    title = "efficiency of logistic regression"
    line = (
        alt.Chart(data(curve))
        .mark_line(color=PRINTED)
        .encode(x=x, y=alt.Y("theory:Q", title=title, scale=alt.Scale(domain=[0, 1.1])))
    )
    base = alt.Chart(data(points)).encode(x=x)
    bars = base.mark_rule(color=OURS, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    dots = base.mark_point(filled=True, size=45, color=OURS, opacity=1).encode(y="efficiency:Q")
    chart = alt.layer(line, bars, dots).properties(
        width=460,
        height=280,
        title=alt.Title(
            "Excess error of discriminant analysis over that of logistic regression",
            subtitle="Line: Efron (1975). Points: simulation, ± 2 standard errors.",
        ),
    )
    return themed(chart)


def growth_chart(rows: Rows) -> Any:
    """Return rows needed against the number of features, both logarithmic, a line a quantity.

    Takes rows: columns n_features, what, rows.
    """
    alt = altair()
    kinds = list(dict.fromkeys(row["what"] for row in rows))
    values = [{k: r[k] for k in ("n_features", "what", "rows")} for r in rows]
    log = alt.Scale(type="log")
    chart = (
        alt.Chart(data(values))
        .mark_line(point=alt.OverlayMarkDef(size=40))
        .encode(
            x=alt.X(
                "n_features:Q",
                title="features n",
                scale=log,
                axis=alt.Axis(values=sorted({r["n_features"] for r in rows}), format=",d"),
            ),
            y=alt.Y(
                "rows:Q",
                title="training rows needed",
                scale=log,
                axis=alt.Axis(values=[10, 100, 1000, 10000], format=",d"),
            ),
            color=alt.Color(
                "what:N",
                legend=alt.Legend(title=None),
                scale=alt.Scale(domain=kinds, range=[LIGHT.soft, *ENDS]),
            ),
        )
        .properties(
            width=460,
            height=300,
            title=alt.Title(
                "Rows needed to come near the limit, as features grow",
                subtitle="Ng & Jordan (2001): order log n for naive Bayes, order n for logistic "
                "regression",
            ),
        )
    )
    return themed(chart)


def learning_curves_chart(rows: Rows, *, columns: int = 5) -> Any:
    """Return one small chart per problem: test error against training size, one line per model.

    Takes rows: columns problem, m, model, error, standard_error.
    """
    alt = altair()
    models = list(dict.fromkeys(row["model"] for row in rows))
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    cells = []
    for number, problem in enumerate(problems):
        own = [
            {
                **{k: r[k] for k in ("m", "model", "error")},
                "low": r["error"] - 2 * r["standard_error"],
                "high": r["error"] + 2 * r["standard_error"],
            }
            for r in rows
            if r["problem"] == problem
        ]
        span = _span([v for r in own for v in (r["low"], r["high"])])
        largest = max(r["m"] for r in own)
        ticks = (4, 5, 6, 7) if largest < 10 else (4, 10, 30, 100, 300, 1000, 3000)
        base = alt.Chart(data(own)).encode(
            x=alt.X(
                "m:Q",
                title="m" if number >= len(problems) - columns else None,
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(
                    values=[t for t in ticks if t <= 0.9 * largest or t < 10], format="d"
                ),
            ),
            color=alt.Color(
                "model:N",
                legend=alt.Legend(title=None, columns=len(models)),
                scale=alt.Scale(domain=models, range=[*ENDS, LIGHT.best][: len(models)]),
            ),
        )
        y = alt.Scale(domain=[max(span[0], 0.0), span[1]], zero=False)
        axis = alt.Axis(format=".2f", tickCount=4)
        title = "test error" if number % columns == 0 else None
        band = base.mark_area(opacity=0.2, clip=True).encode(
            y=alt.Y("low:Q", title=title, scale=y, axis=axis), y2="high:Q"
        )
        line = base.mark_line(strokeWidth=1.6).encode(y=alt.Y("error:Q", title=title, scale=y))
        cells.append(alt.layer(band, line).properties(width=150, height=105, title=problem))
    lines = [
        alt.hconcat(*cells[start : start + columns], spacing=48, bounds="flush")
        for start in range(0, len(cells), columns)
    ]
    chart = alt.vconcat(*lines, spacing=10).properties(
        title=alt.Title(
            "Test error against the number of training rows m (logarithmic)",
            subtitle="Ng & Jordan (2001), Figure 1: mean of random splits, ± 2 standard errors",
        )
    )
    return themed(chart)
