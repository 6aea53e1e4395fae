"""Approximate against exact leave-one-out, and whether the rule knows when to trust it.

    python -m benchmarks.leave_one_out --picture docs/images/leave_one_out.svg

For some points of the grid of NaiveBayes, an evenly spread sample of rows is scored by the
approximation and by refits without the row; "reliable" is what the selector would say.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.selection import SETS, data_set
from crossfade import NaiveBayes
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.criteria import losses
from crossfade.tradeoff.fitting import FitOptions, bound_rows
from crossfade.tradeoff.leave_one_out import approximate_leave_one_out
from crossfade.tradeoff.out_of_fold import Member, out_of_fold
from crossfade.tradeoff.path import follow, minimise
from crossfade.tradeoff.scoring import held_out_scores

_POINTS = ((1.0, 1.0), (0.5, 1.0), (0.0, 10.0), (0.0, 0.1))


def compare(name: str, n: int, n_refits: int) -> list[dict[str, Any]]:
    """Return both mean log-losses of every point, over the same rows."""
    data = data_set(name)
    if data is None:
        return []
    X, y = data
    index = sample_rows(len(y), min(1.0, n / len(y)))
    model = NaiveBayes()
    rows, schema, choices, _ = model._read(X[index], y[index], None)
    densities, options = model._densities(schema, choices), FitOptions(model.l2)

    def refit(variant: int, part: Any) -> Any:
        return options.objective(part, bind(densities[variant], part))

    members = []
    for variant, density in enumerate(densities):
        rows, bound, _ = bound_rows(rows, density)
        objective = options.objective(rows, bound)
        for point in follow(objective, _POINTS, tol=1e-8):
            at = objective.with_tradeoff(point.tradeoff).with_penalty(point.l2)
            members.append(Member(variant, at, point))
    reliable = out_of_fold(members, refit).method.startswith("approximate")
    scored = sample_rows(rows.n_samples, min(1.0, n_refits / rows.n_samples))
    found = []
    for member in members:
        theta = member.point.solution.theta
        near = approximate_leave_one_out(member.objective, theta, scored).scores
        exact = np.zeros_like(near)
        for place, i in enumerate(scored):
            rest = rows.take(np.delete(np.arange(rows.n_samples), i))
            part = refit(member.variant, rest)
            part = part.with_tradeoff(member.point.tradeoff).with_penalty(member.point.l2)
            own = minimise(part, theta, tol=1e-7).theta
            exact[place] = held_out_scores(part, own, rows.take(np.array([i])))[0]
        codes = rows.codes[scored]
        found.append(
            {
                "data set": name,
                "rows": rows.n_samples,
                "variances": "shared" if member.variant == len(densities) - 1 else "a class's own",
                "tradeoff": member.point.tradeoff,
                "l2": member.point.l2,
                "approximate": losses(near, codes, None)["log_loss"],
                "exact": losses(exact, codes, None)["log_loss"],
                "rule": "reliable" if reliable else "refit on folds",
            }
        )
    return found


def picture(found: list[dict[str, Any]], file: Path) -> None:
    """Save the errors of the approximate mean log-losses, a line a data set."""
    import altair as alt

    rows = [
        one | {"error": 100.0 * (one["approximate"] / one["exact"] - 1.0), "set": one["data set"]}
        for one in found
    ]
    names = list(dict.fromkeys(one["set"] for one in rows))
    allowed = alt.Data(values=[{"low": -2.0, "high": 2.0}])
    band = alt.Chart(allowed).mark_rect(color="#e4e7ea").encode(x="low:Q", x2="high:Q")
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=50, opacity=0.75)
        .encode(
            x=alt.X(
                "error:Q",
                scale=alt.Scale(type="symlog", constant=1.0),
                axis=alt.Axis(values=[-30, -10, -5, -2, 0, 2, 5, 10, 30], grid=False),
                title="error of the mean log-loss by approximate leave-one-out, %",
            ),
            y=alt.Y("set:N", sort=names, title=None, axis=alt.Axis(grid=True)),
            color=alt.Color(
                "rule:N",
                scale=alt.Scale(
                    domain=["reliable", "refit on folds"], range=["#1f6f8b", "#d98c3a"]
                ),
                title="the rule says",
                legend=alt.Legend(orient="top"),
            ),
        )
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    (band + points).properties(width=420, height=alt.Step(22)).save(file)


def table(found: list[dict[str, Any]]) -> str:
    """Return the largest errors by data set."""
    lines = ["| data set | rows | the rule says | largest error of the mean log-loss |"]
    lines.append("|---|---:|---|---:|")
    for name in dict.fromkeys(one["data set"] for one in found):
        own = [one for one in found if one["data set"] == name]
        errors = [abs(one["approximate"] / one["exact"] - 1) for one in own]
        lines.append(
            f"| {name} | {own[0]['rows']} | {own[0]['rule']} | {100 * max(errors):.1f} % |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print the table and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leave_one_out", description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, metavar="SET")
    parser.add_argument("--rows", type=int, default=600, help="rows that are fitted")
    parser.add_argument("--refits", type=int, default=100, help="rows that are left out exactly")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the numbers as JSON")
    options = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    for name in options.sets:
        print(name, file=sys.stderr, flush=True)
        found += compare(name, options.rows, options.refits)
    print(table(found))
    if options.store is not None:
        options.store.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if options.picture is not None:
        picture(found, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
