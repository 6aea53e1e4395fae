"""``crossfade curve DATA``: learning curves, where they cross, what more labels promise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("curve", short_help="Show how models improve with the number of labelled rows.")(
        curve
    )


def curve(
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
    models: Annotated[
        str,
        typer.Option(
            help="Models, comma-separated: nb, shared, full, knn, svm, majority; one variant "
            "with a colon, as in nb:auto."
        ),
    ] = "nb:generative,nb:discriminative",
    sizes: Annotated[
        str,
        typer.Option(
            help="Training sizes: log, or comma-separated counts or fractions of the training part."
        ),
    ] = "log",
    splits: Annotated[int, typer.Option(help="Number of random splits.")] = 100,
    train_size: Annotated[
        float, typer.Option(help="Training rows of a split: a fraction, or a number of rows.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 0,
    metric: Annotated[str, typer.Option(help="What is shown: error, log_loss or brier.")] = "error",
    extrapolate: Annotated[
        int | None,
        typer.Option(metavar="M", help="Training size to look ahead to.  [default: twice as many]"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep finished splits there; a run that was stopped continues."
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
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write every score, a row per split and size."),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw the curves: a .png, .svg, .html or .json."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write means and findings as JSON.")
    ] = None,
) -> None:
    """Show how models improve with labelled rows, where one overtakes the other, and what more
    rows promise.

    Every model is fitted on nested training sets of many random splits.
    """
    from crossfade.commands.curve_view import check_chart, findings, print_curve, write_chart
    from crossfade.commands.output import check_writable, live_progress, write_json, write_whole
    from crossfade.commands.tables import open_table
    from crossfade.comparison.models import choose_models, default_models
    from crossfade.curves import learning_curve
    from crossfade.curves.result import check_metric
    from crossfade.rows import Schema

    check_metric(metric)
    if chart is not None:
        check_chart(chart)
    for path, option in (
        (csv, "--csv"),
        (chart, "--chart"),
        (json, "--json"),
        (checkpoint, "--checkpoint"),
    ):
        if path is not None:
            check_writable(path, option)
    table = open_table(
        data,
        target=target,
        drop=drop or (),
        missing_values=missing or (),
        text=text or (),
        separator=separator,
    )
    chosen = choose_models(models.split(","), default_models(Schema.learn(table.X)))
    with live_progress(table.name) as progress:
        curve = learning_curve(
            chosen,
            table.X,
            table.y,
            train_sizes=_numbers(sizes),
            n_splits=splits,
            train_size=int(train_size) if train_size > 1 else train_size,
            random_state=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    ahead = 2 * curve.sizes[-1] if extrapolate is None else extrapolate
    found = findings(curve, metric, ahead)
    if csv is not None:
        write_whole(csv, curve.frame().write_csv().encode())
    if json is not None:
        write_json(json, table.to_dict() | found)
    if chart is not None:
        write_chart(curve, metric, chart)
    print_curve(curve, metric, found, table)
    if not curve.complete:
        raise KeyboardInterrupt


def _numbers(text: str) -> Any:
    """Return training sizes as numbers; text that is none is left to be refused by name."""
    try:
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        return text
