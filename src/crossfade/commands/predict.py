"""``crossfade predict MODEL DATA``: probabilities for new rows, however many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import ModelFile, NewData, Separator

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("predict", short_help="Predict the class of each row, with probabilities, as CSV.")(
        predict
    )


def predict(
    model: ModelFile,
    data: NewData,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to write; stdout by default."),
    ] = None,
    separator: Separator = None,
    batch: Annotated[
        float, typer.Option(metavar="MB", help="How much of the file to take at a time.")
    ] = 16.0,
) -> None:
    """Predict the class of each row and the probability of every class, as CSV.

    The first column is the prediction, then comes one column P(class) for every class. Columns
    are matched by name, whatever their order; those that the model does not know are ignored and
    named on stderr. Files larger than memory are read in batches. The file is written whole or
    not at all.
    """
    import numpy as np

    from crossfade.commands.new_rows import NewRows
    from crossfade.commands.output import check_writable, say
    from crossfade.errors import DataError
    from crossfade.io import load_model

    if not batch > 0:
        raise DataError(f"--batch: expected megabytes above 0, got {batch:g}; 16 is the default")
    if out is not None:
        check_writable(out, "--out", model, data)
        if out.suffix.lower() != ".csv":
            raise DataError(
                f"--out: expected a name ending in .csv, got {str(out)!r}; predictions are CSV"
            )
    saved = load_model(model)
    rows = NewRows(saved, data, separator=separator, size=max(1, int(batch * 1e6)))
    n_rows = 0
    with _output(out) as write:
        for table, first in rows.batches():
            probabilities = saved.estimator.predict_proba(table)
            decided = saved.estimator.predict(table)
            write(_as_csv(saved.estimator.classes_, decided, probabilities, header=first == 1))
            n_rows += len(np.atleast_1d(decided))
    for note in rows.notes():
        say(f"note: {note}", stderr=True)
    if out is not None:
        say(f"{n_rows:,} row{'s' if n_rows != 1 else ''} written to {out}", stderr=True)


@contextmanager
def _output(out: Path | None) -> Iterator[Any]:
    """Yield what writes bytes, to a file that appears when all is written, or to stdout."""
    from crossfade.commands.output import hand_over
    from crossfade.files import whole_file

    if out is None:
        yield hand_over
        return
    with whole_file(out) as file:
        yield file.write


def _as_csv(classes: Any, decided: Any, probabilities: Any, *, header: bool) -> bytes:
    import polars as pl

    frame = pl.DataFrame(
        [
            pl.Series("prediction", [str(label) for label in decided.tolist()]),
            *(
                pl.Series(f"P({label})", column)
                for label, column in zip(classes.tolist(), probabilities.T, strict=True)
            ),
        ]
    )
    return frame.write_csv(include_header=header).encode()
