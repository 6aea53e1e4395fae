"""``crossfade compare DATA``: the main job."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import (
    Data,
    Drop,
    Json,
    Missing,
    ModelNames,
    Seed,
    Separator,
    Splits,
    Target,
    Text,
    TrainSize,
)

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "compare", short_help="Find out which classifier fits a table, and how sure that is."
    )(compare)


def compare(
    data: Data,
    target: Target = None,
    splits: Splits = 20,
    train_size: TrainSize = 0.8,
    seed: Seed = 0,
    criterion: Annotated[
        str, typer.Option(help="What makes a model best: log_loss, brier or error.")
    ] = "log_loss",
    models: ModelNames = "default",
    drop: Drop = None,
    missing: Missing = None,
    text: Text = None,
    separator: Separator = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write everything as one self-contained web page."),
    ] = None,
    json: Json = None,
) -> None:
    """Find out which classifier fits a table, how sure that is, and what more rows would bring.

    Fits naive Bayes and Gaussian discriminants, each generative (λ=1), discriminative (λ=0) and
    with λ chosen on held-out rows, and beside them logistic regression, a random forest, gradient
    boosting and the majority class, all on the same random splits.
    """
    from crossfade.commands.comparison_view import print_result
    from crossfade.commands.output import (
        check_outputs,
        command_line,
        live_progress,
        write_json,
    )
    from crossfade.commands.tables import open_table
    from crossfade.comparison import compare as run
    from crossfade.report.page import check_installed

    check_outputs({"--json": json, "--out": out}, data)
    if out is not None:
        check_installed()
    table = open_table(
        data, target, drop=drop, missing=missing, text=text, separator=separator
    ).named()
    chosen = None if models == "default" else models.split(",")
    with live_progress(table.name) as progress:
        result = run(
            table.X,
            table.y,
            models=chosen,
            n_splits=splits,
            train_size=int(train_size) if train_size > 1 else train_size,
            criterion=criterion,
            random_state=seed,
            progress=progress,
        )
    print_result(result, table)
    # What was found is shown by now, and a file that cannot be written does not keep the other.
    with ExitStack() as files:
        content = table.to_dict() | {"command": command_line()} | result.to_dict()
        if out is not None:
            files.callback(_write_page, out, content)
        if json is not None:
            files.callback(write_json, json, content)
    if not result.complete:
        raise KeyboardInterrupt


def _write_page(path: Path, content: dict[str, Any]) -> None:
    from crossfade.files import write_whole
    from crossfade.report.page import render_page

    write_whole(path, render_page(content).encode("utf-8", errors="replace"))
