"""``crossfade curve DATA``: learning curves, where they cross, what more labels promise."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands import options


def curve(
    data: options.Data,
    target: options.Target = None,
    models: options.ModelNames = "nb:generative,nb:discriminative",
    sizes: Annotated[
        str,
        typer.Option(
            help="Training sizes: log, or comma-separated counts or fractions of the training part."
        ),
    ] = "log",
    splits: options.Splits = 100,
    train_size: options.TrainSize = 0.8,
    seed: options.Seed = 0,
    metric: Annotated[str, typer.Option(help="What is shown: error, log_loss or brier.")] = "error",
    extrapolate: Annotated[
        int | None,
        typer.Option(
            metavar="M", help="Training size to extrapolate to.  [default: twice as many]"
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save finished splits there; a stopped run continues from it."
        ),
    ] = None,
    drop: options.Drop = None,
    missing: options.Missing = None,
    text: options.Text = None,
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write every score, one row per split and size."),
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
    from crossfade.commands.output import check_outputs, live_progress, write_json
    from crossfade.commands.tables import open_table
    from crossfade.comparison.models import choose_models
    from crossfade.evaluation import learning_curve
    from crossfade.evaluation.result import check_metric
    from crossfade.files import write_whole

    check_metric(metric)
    if chart is not None:
        check_chart(chart)
    check_outputs(
        {"--csv": csv, "--chart": chart, "--json": json, "--checkpoint": checkpoint}, data
    )
    chosen = choose_models(models.split(","))
    table = open_table(
        data, target, drop=drop, missing=missing, text=text, separator=separator, encoding=encoding
    )
    if extrapolate is not None:
        _check_ahead(extrapolate, _numbers(sizes), train_size, len(table.y))
    with live_progress(table.name) as progress:
        curve = learning_curve(
            table.X,
            table.y,
            models=chosen,
            train_sizes=_numbers(sizes),
            n_splits=splits,
            train_size=int(train_size) if train_size > 1 else train_size,
            random_state=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
    ahead = 2 * curve.sizes[-1] if extrapolate is None else extrapolate
    found = findings(curve, metric, ahead)
    print_curve(curve, metric, found, table)
    # What was found is shown by now, and a file that cannot be written does not keep the others.
    with ExitStack() as files:
        if chart is not None:
            files.callback(write_chart, curve, metric, chart)
        if json is not None:
            files.callback(write_json, json, table.to_dict() | found)
        if csv is not None:
            files.callback(write_whole, csv, curve.frame().write_csv().encode())
    if not curve.complete:
        raise KeyboardInterrupt


def _check_ahead(ahead: int, sizes: Any, train_size: float, n_rows: int) -> None:
    """Refuse a size that is surely observed, before it is."""
    from crossfade.errors import DataError

    n_train = train_size if train_size > 1 else train_size * n_rows
    counted = isinstance(sizes, list) and max(sizes) > 1
    largest = int(max(sizes) if counted else n_train)
    if ahead < largest:
        raise DataError(
            f"--extrapolate: expected more rows than the largest training size, about {largest:,}, "
            f"got {ahead:,}; what is observed is in the table"
        )


def _numbers(text: str) -> Any:
    """Return training sizes as numbers; text that is none is left to be refused by name."""
    try:
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        return text
