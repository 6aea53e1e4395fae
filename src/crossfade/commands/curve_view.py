"""Learning curves on the terminal and in files."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from crossfade._checks import counted
from crossfade._findings import as_json
from crossfade.charts.files import ENDINGS, check_available, drawn
from crossfade.commands.output import console, plain, shortened
from crossfade.errors import DataError
from crossfade.evaluation.result import LearningCurve
from crossfade.evaluation.scores import METRIC_LABELS
from crossfade.files import write_whole

if TYPE_CHECKING:
    from crossfade.commands.tables import OpenTable


def findings(curve: LearningCurve, metric: str, ahead: int) -> dict[str, Any]:
    """Return sizes, means with intervals, crossings and what more rows promise, for strict JSON."""
    summary = curve.summary(metric)
    promised = curve.extrapolate(ahead, metric) if curve.n_splits > 1 else {}
    return {
        "metric": metric,
        "sizes": list(curve.sizes),
        "splits": curve.n_splits,
        "train_rows": curve.n_train,
        "test_rows": curve.n_test,
        "random_state": curve.random_state,
        "complete": curve.complete,
        "curves": as_json(summary),
        "crossings": [
            {"overtaken": early, "overtaking": late, **crossing.to_dict()}
            for (early, late), crossing in curve.crossings(metric).items()
        ],
        "extrapolation": as_json(promised),
        "notes": list(curve.notes),
    }


def check_chart(path: Path) -> None:
    """Refuse a chart that could not be drawn or named so, before any work."""
    if _ending(path) not in ENDINGS:
        raise DataError(
            f"--chart: expected a file that ends in .png, .svg, .html or .json, got {path.name!r}; "
            "rename it"
        )
    check_available(_ending(path))


def write_chart(curve: LearningCurve, metric: str, path: Path) -> None:
    """Draw the curves into a file, whole or not at all."""
    write_whole(path, drawn(curve.plot(metric), _ending(path), scale=2))


def _ending(path: Path) -> str:
    return path.suffix.lower().lstrip(".")


def print_curve(curve: LearningCurve, metric: str, found: dict[str, Any], table: OpenTable) -> None:
    """Print the table of means, the crossings and the outlook."""
    out = console()
    label = METRIC_LABELS[metric]
    out.print()
    title = Text(shortened(Path(table.name).name or table.name, 36), style="bold")
    title.append(f"  {label} by number of training rows", style="")
    out.print(title)
    out.print(
        Text(
            f"{counted(curve.n_splits, 'split')} of "
            f"{curve.n_train:,} training and {counted(curve.n_test, 'test row')}, seed "
            f"{curve.random_state}; mean ± std. error",
            style="dim",
        )
    )
    out.print(_table(curve, metric))
    for crossing in found["crossings"]:
        out.print(Text(plain(_crossing_words(crossing))))
    for promise in found["extrapolation"].values():
        out.print(Text(plain(promise["statement"])))
    for note in [*table.notes, *curve.notes]:
        out.print(Text("· " + plain(note), style="dim"))
    out.print()


def _table(curve: LearningCurve, metric: str) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    shown.add_column("rows", justify="right", min_width=6)
    for name in curve.models:
        shown.add_column(plain(name), justify="right", min_width=16)
    summary = curve.summary(metric)
    for s, size in enumerate(curve.sizes):
        cells = []
        for name in curve.models:
            at = summary[name][s]
            error = f" ± {at.standard_error:.4f}" if isfinite(at.standard_error) else ""
            cells.append(f"{at.mean:.4f}{error}" if at.mean == at.mean else "–")
        shown.add_row(f"{size:,}", *cells)
    return shown


def _crossing_words(crossing: dict[str, Any]) -> str:
    early, late = crossing["overtaken"], crossing["overtaking"]
    first, last = f"{crossing['smallest']:,}", f"{crossing['largest']:,}"
    if crossing["status"] == "not seen":
        return f"{early} is ahead of {late} at the largest size, {last} rows: no crossing is seen."
    if crossing["status"] == "level":
        return f"{late} and {early} have the same score at every size from {first} to {last} rows."
    if crossing["status"] == "before":
        return f"{late} is level with {early} or ahead at every size from {first} rows."
    low = f"below {first}" if crossing["low"] is None else f"{crossing['low']:,.0f}"
    high = f"beyond {last}" if crossing["high"] is None else f"{crossing['high']:,.0f}"
    does = "overtakes" if crossing["status"] == "crossed" else "draws level with, but not ahead of,"
    return (
        f"{late} {does} {early} at about {crossing['size']:,.0f} rows "
        f"(95 % interval {low} to {high})."
    )
