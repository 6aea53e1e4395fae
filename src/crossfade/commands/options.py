"""Arguments and options that several commands share: one name, type and help text each."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from crossfade._names import is_bundled, no_such_data
from crossfade.files import kept_stream, no_such_file

Name = TypeVar("Name", str, Path, None)


def there(name: Name) -> Name:
    """Return the name of a file, before anything heavy is loaded; refuse one that is not there."""
    if name is not None and not Path(name).exists():
        raise FileNotFoundError(errno.ENOENT, no_such_file(Path(name)), str(name))
    return name


def _data_there(name: str | None) -> str | None:
    """Do so for rows: a name without folder and suffix may be that of a data set."""
    path = Path(name or "")
    if name == "-" or path.is_fifo():
        # What can be read but once is kept, since some work reads the rows several times.
        if name != "-":
            with path.open("rb") as stream:
                return str(kept_stream(stream))
        if sys.stdin.isatty():
            raise ValueError("data: expected rows on stdin, got a terminal; name a file")
        return str(kept_stream(sys.stdin.buffer))
    if os.environ.get("CROSSFADE_DATA") or any(mark in str(path) for mark in "*?["):
        return name
    if path.suffix or path.parent != Path("."):
        return name if name is None else there(name)
    if name is not None and not path.exists() and not is_bundled(name):
        raise ValueError(no_such_data(name))
    return name


# -- the table -----------------------------------------------------------------------------------

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV or Parquet file (also .gz), a folder or pattern of such files, - for "
        "stdin, or the name of a bundled data set.",
        show_default=False,
        callback=_data_there,
    ),
]

Target = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", metavar="COL", help="Column to predict; 'target' if there is one."
    ),
]

Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COL", help="Column to leave out, such as a row number; may be repeated."),
]

Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CELL", help="Cell that means missing, such as 999 or NA; may be repeated."
    ),
]

Text = Annotated[
    list[str] | None,
    typer.Option(metavar="COL", help="Column to read as text, such as a code; may be repeated."),
]

Batches = Annotated[
    bool,
    typer.Option(
        "--batches",
        help="Read the rows some at a time, also of a small file. Folders, patterns, Arrow files "
        "and files above 1 GB (Parquet: 300 MB) always are.",
    ),
]

Separator = Annotated[
    str | None,
    typer.Option(metavar="CHAR", help="Character between cells; found in the file if not given."),
]

Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of the text, such as cp1252 (Excel's CSV) or latin-1; UTF-8 if not given, "
        "and UTF-16 where the file begins with its mark.",
    ),
]

# -- splits and models ---------------------------------------------------------------------------

Splits = Annotated[int, typer.Option(help="Number of random splits.")]

TrainSize = Annotated[
    float, typer.Option(help="Training rows of a split: a fraction, or a number of rows.")
]

Seed = Annotated[int, typer.Option(help="Seed of the splits.")]

Cost = Annotated[
    str | None,
    typer.Option(
        metavar="FP,FN",
        help="What a false positive and a false negative cost, or a matrix (rows: true class) "
        "as in '0,1,9;2,0,9;1,1,0'.",
    ),
]


def read_cost(text: str | None) -> list[float] | list[list[float]] | None:
    """Return what decisions cost as numbers, a list for each class where there are several."""
    from crossfade.errors import DataError

    if text is None:
        return None
    try:
        rows = [[float(cell) for cell in row.split(",")] for row in text.split(";")]
    except ValueError:
        raise DataError(
            f"--cost: expected numbers such as 1,5 or a matrix such as '0,1;5,0', got {text!r}; "
            "commas stand between numbers, semicolons between rows"
        ) from None
    return rows[0] if len(rows) == 1 else rows


ModelNames = Annotated[
    str,
    typer.Option(
        help="Models, comma-separated: nb, shared, full, logistic, forest, boosting, knn, svm, "
        "majority, default or all; one variant or λ with a colon, as in nb:auto or nb:0.5; "
        "any class that can be imported, as in lightgbm.LGBMClassifier."
    ),
]

# -- a fitted model and new rows -----------------------------------------------------------------

ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A file that crossfade fit wrote.", callback=there),
]

NewData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="New rows: a CSV, TSV, Parquet or Arrow file (text also .gz), a folder or pattern of "
        "such files, - for stdin, or a bundled data set.",
        callback=_data_there,
    ),
]

NewDataIfAny = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="New rows, as for predict; without them the model's coefficients are shown.",
        show_default=False,
        callback=_data_there,
    ),
]

# -- what comes out ------------------------------------------------------------------------------

Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write every number as JSON.")]
