"""``crossfade compare DATA``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        "compare", short_help="Find out which classifier fits a table, and how sure that is."
    )(compare)


def compare(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A CSV, TSV or Parquet file (also .gz), or the name of a bundled data set.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="COL", help="Column to predict; 'target' if there is one."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits.")] = 20,
    train_size: Annotated[
        float, typer.Option(help="Training rows of a split: a fraction, or a number of rows.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 0,
    criterion: Annotated[
        str, typer.Option(help="What makes a model best: log_loss, brier or error.")
    ] = "log_loss",
    models: Annotated[
        str | None,
        typer.Option(
            help="Models, comma-separated: nb, shared, full, knn, svm, majority; one variant "
            "with a colon, as in nb:auto.  [default: all]",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", help="Column to leave out, such as a row number; may be repeated."
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="CELL", help="Cell that means missing, such as 999; may be repeated."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", help="Column to read as text, such as a code; may be repeated."
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="What separates cells, if neither comma nor tab."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write everything as one self-contained web page."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write every number as JSON.")
    ] = None,
) -> None:
    """Find out which classifier fits a table, how sure that is, and what more rows would bring.

    Fits naive Bayes and Gaussian discriminants, each generative (λ=1), discriminative (λ=0) and
    with λ chosen on held-out rows, and k-nearest neighbours, a linear SVM and the majority class,
    all on the same random splits.
    """
    from crossfade.commands.comparison_view import print_result
    from crossfade.commands.output import (
        check_writable,
        command_line,
        live_progress,
        write_json,
        write_whole,
    )
    from crossfade.commands.tables import open_table
    from crossfade.comparison import compare as run
    from crossfade.report.page import check_installed, render_page

    for file, option in ((json, "--json"), (out, "--out")):
        if file is not None:
            check_writable(file, option)
    if out is not None:
        check_installed()
    table = open_table(
        data,
        target=target,
        drop=drop or (),
        missing_values=missing or (),
        text=text or (),
        separator=separator,
    ).named()
    chosen = None if models is None else models.split(",")
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
    if json is not None or out is not None:
        content = table.to_dict() | {"command": command_line()} | result.to_dict()
        if json is not None:
            write_json(json, content)
        if out is not None:
            write_whole(out, render_page(content).encode("utf-8", errors="replace"))
    print_result(result, table)
    if not result.complete:
        raise KeyboardInterrupt
