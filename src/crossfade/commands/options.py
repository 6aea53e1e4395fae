"""Arguments and options that several commands share: one name, type and help text each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Batches",
    "Data",
    "Drop",
    "Json",
    "Missing",
    "ModelFile",
    "ModelNames",
    "NewData",
    "NewDataIfAny",
    "Seed",
    "Separator",
    "Splits",
    "Target",
    "Text",
    "TrainSize",
]

# -- the table -----------------------------------------------------------------------------------

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, TSV or Parquet file (also .gz), a folder or pattern of such files, or the "
        "name of a bundled data set.",
        show_default=False,
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
    typer.Option(metavar="CELL", help="Cell that means missing, such as 999; may be repeated."),
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
    typer.Option(metavar="CHAR", help="Character between cells, if it is neither comma nor tab."),
]

# -- splits and models ---------------------------------------------------------------------------

Splits = Annotated[int, typer.Option(help="Number of random splits.")]

TrainSize = Annotated[
    float, typer.Option(help="Training rows of a split: a fraction, or a number of rows.")
]

Seed = Annotated[int, typer.Option(help="Seed of the splits.")]

ModelNames = Annotated[
    str,
    typer.Option(
        help="Models, comma-separated: nb, shared, full, logistic, forest, boosting, knn, svm, "
        "majority, default or all; one variant with a colon, as in nb:auto; any class that can be "
        "imported, as in lightgbm.LGBMClassifier."
    ),
]

# -- a fitted model and new rows -----------------------------------------------------------------

ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that crossfade fit wrote.")
]

NewData = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="New rows: a CSV, TSV, Parquet or Arrow file (text also .gz), a folder or pattern of "
        "such files, or a bundled data set.",
    ),
]

NewDataIfAny = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA]",
        help="New rows, as for predict; without them the model's coefficients are shown.",
        show_default=False,
    ),
]

# -- what comes out ------------------------------------------------------------------------------

Json = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write every number as JSON.")]
