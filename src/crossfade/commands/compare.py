"""``crossfade compare DATA``: the main job."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossfade.commands.options import (
    Batches,
    Cost,
    Data,
    Drop,
    Encoding,
    Json,
    Missing,
    ModelNames,
    Seed,
    Separator,
    Splits,
    Target,
    Text,
    TrainSize,
    read_cost,
)

if TYPE_CHECKING:
    from crossfade.commands.tables import OpenTable
    from crossfade.comparison import ComparisonResult


def compare(
    data: Data,
    target: Target = None,
    splits: Splits = 20,
    train_size: TrainSize = 0.8,
    seed: Seed = 0,
    criterion: Annotated[
        str | None,
        typer.Option(
            help="What makes a model best: log_loss, brier, error or cost. Without it cost "
            "where --cost is given, else log_loss.",
            show_default=False,
        ),
    ] = None,
    cost: Cost = None,
    models: ModelNames = "default",
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="End after so long, as in 60s, 5m or 1h.")
    ] = None,
    all_splits: Annotated[
        bool,
        typer.Option(
            "--all-splits", help="Fit every model on every split, also where that changes nothing."
        ),
    ] = False,
    drop: Drop = None,
    missing: Missing = None,
    text: Text = None,
    separator: Separator = None,
    encoding: Encoding = None,
    batches: Batches = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write everything as one self-contained web page."),
    ] = None,
    json: Json = None,
) -> None:
    """Find out which classifier fits a table, how sure that is, and what more rows would bring.

    Fits naive Bayes and Gaussian discriminants, each generative (λ=1), discriminative (λ=0) and
    with λ chosen on held-out rows, and beside them logistic regression, a random forest, gradient
    boosting and the majority class, all on the same random splits. Models that are clearly worse
    get fewer splits. Ctrl-C ends it with the verdict of the splits that are done.

    With --cost 1,5 the best model is the one whose decisions cost least, where a false negative
    (the second class taken for the first) costs five false positives.
    """
    from crossfade.commands.comparison_view import live_table, print_result
    from crossfade.commands.output import check_outputs, command_line, write_json
    from crossfade.commands.tables import open_table
    from crossfade.comparison import compare as run
    from crossfade.comparison.models import choose_models
    from crossfade.report.page import check_installed

    limit = None if time is None else _seconds(time)
    check_outputs({"--json": json, "--out": out}, data, endings={"--out": (".html", ".htm")})
    if out is not None:
        check_installed()
    costs = read_cost(cost)
    chosen = None if models == "default" else choose_models(models.split(","))
    table = open_table(
        data,
        target,
        drop=drop,
        missing=missing,
        text=text,
        separator=separator,
        encoding=encoding,
        batches=batches,
    ).named()
    with live_table() as watch:
        result = run(
            table.X,
            table.y,
            models=chosen,
            n_splits=splits,
            train_size=int(train_size) if train_size > 1 else train_size,
            criterion=criterion,
            cost=costs,
            random_state=seed,
            time_limit=limit,
            stop_early=not all_splits,
            evidence=json is not None or out is not None,
            watch=watch,
        )
    print_result(result, table)
    # What was found is shown by now, and a file that cannot be written does not keep the other.
    with ExitStack() as files:
        command = command_line()
        if out is not None:
            files.callback(_write_page, out, result, table, command)
        if json is not None:
            content = table.to_dict() | {"command": command} | result.to_dict()
            files.callback(write_json, json, content)
    if result.ended == "keyboard":
        raise KeyboardInterrupt


def _write_page(path: Path, result: ComparisonResult, table: OpenTable, command: str) -> None:
    from crossfade.files import write_whole
    from crossfade.report.page import render_page

    page = render_page(result, table, command=command)
    write_whole(path, page.encode("utf-8", errors="replace"))


def _seconds(text: str) -> float:
    """Return a time such as 90, 90s, 1.5m or 1h in seconds."""
    from crossfade.errors import DataError

    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = nan
    if not 0 < seconds < inf:
        raise DataError(f"--time: expected a time such as 60s, 5m or 1h, got {text!r}")
    return seconds
