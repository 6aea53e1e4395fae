"""Data sets by name or from a file, ready for estimators and comparisons."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn.datasets

from crossfade._checks import counted, listed, show
from crossfade._names import BUNDLED, is_bundled, no_such_data
from crossfade.errors import DataError

if TYPE_CHECKING:
    from crossfade.io.cells import TableFile

__all__ = ["Dataset", "bundled", "data_directory", "find", "load"]


@dataclass(frozen=True)
class Dataset:
    """A data set: what estimators take, and what to call it.

    Attributes
    ----------
    name : str
    X : data frame or ndarray of shape (n_rows, n_features)
        Whatever the estimators take: an array for bundled data, a polars frame from a file.
    y : series or ndarray of shape (n_rows,)
        Class labels, words where the source has words.
    target_names : tuple
        The labels that occur, in ascending order.
    description : str
        One line.
    n_dropped : int
        Rows left out because their target was missing.
    feature_names : tuple of str
    notes : tuple of str
        What a reader should know of how cells were read.
    written : dict or None
        How the numbers of columns of a text file are written, where otherwise than 1234.5.
    """

    name: str
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    target_names: tuple[Any, ...]
    description: str
    n_dropped: int = 0
    feature_names: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    written: dict[str, dict[str, Any]] | None = field(default=None, repr=False)


def bundled() -> tuple[str, ...]:
    """Return the names of the data sets that come with scikit-learn."""
    return BUNDLED


def data_directory() -> Path | None:
    """Return the folder that the environment variable ``CROSSFADE_DATA`` names, if it is there."""
    named = os.environ.get("CROSSFADE_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def load(
    name_or_path: str | Path,
    target: str | None = None,
    *,
    missing_values: Collection[str] = (),
    text: Collection[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
    drop: Collection[str] = (),
    unlabelled: bool = False,
) -> Dataset:
    """Load a data set by name or from a file.

    Parameters
    ----------
    name_or_path : str or Path
        A bundled data set ("breast-cancer", "digits", "iris", "wine"), a file (see
        :func:`~crossfade.io.reading.read_file`), or the name of a file in
        :func:`data_directory`, folder and suffix optional ("pima", "statlog/vehicle").
    target : str, optional
        The column of classes in a file; by default the one called "target". Not for bundled data.
    missing_values, text, separator, encoding, drop
        As for :func:`~crossfade.io.reading.read_file`.
    unlabelled : bool, default=False
        Whether rows without a target stay; else they are left out.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If there is no such data set, file or column; near names are listed.

    Examples
    --------
    >>> load("iris").target_names
    ('setosa', 'versicolor', 'virginica')
    """
    name = str(name_or_path)
    if is_bundled(name) and not Path(name).is_file():
        return _bundled(name.lower().replace("_", "-").replace(" ", "-"), target)
    path = find(name)
    from crossfade.io.reading import read_file

    table = read_file(
        path,
        missing_values=missing_values,
        text=text,
        separator=separator,
        encoding=encoding,
        drop=drop,
    )
    return _from_file(path, target, table, unlabelled)


def _bundled(key: str, target: str | None) -> Dataset:
    if target is not None:
        raise DataError(
            f"target: expected none for the bundled data set {key!r}, got {show(target)}; its "
            "target is fixed"
        )
    data = getattr(sklearn.datasets, f"load_{key.replace('-', '_')}")()
    words = np.asarray(data.target_names)
    n_rows, n_columns = data.data.shape
    return Dataset(
        name=key,
        X=data.data,
        y=words[data.target],
        target_names=tuple(sorted(words.tolist())),
        description=f"{key} (scikit-learn): {counted(n_rows, 'row')}, "
        f"{counted(n_columns, 'column')}, {len(words)} classes",
        feature_names=tuple(str(column) for column in data.feature_names),
    )


def find(name: str) -> Path:
    """Return the file that a path, or the name of a file in :func:`data_directory`, stands for.

    Raises
    ------
    DataError
        If a name without folder and suffix is not that of a file there; near names are listed.
    """
    path = Path(name)
    if path.exists():
        return path
    folder = data_directory()
    shared: dict[str, Path] = {}
    if folder is not None:
        for file in sorted(folder.glob("*/*.csv*")):
            stem = file.name.removesuffix(".gz").removesuffix(".csv")
            for alias in (stem, f"{file.parent.name}/{stem}", f"{file.parent.name}/{file.name}"):
                shared.setdefault(alias, file)
    if name in shared:
        return shared[name]
    if path.suffix or path.parent != Path("."):
        return path  # read_table says that it is not there, and what is
    raise DataError(no_such_data(name, shared))


def _from_file(path: Path, target: str | None, table: TableFile, unlabelled: bool) -> Dataset:
    from crossfade.io.target import split_target
    from crossfade.table.labels import encode_labels

    frame, notes, written = table
    if target is None:
        if "target" not in frame.columns:
            hint = "; say what stands between cells (--separator)" if frame.width == 1 else ""
            raise DataError(
                "target: expected the name of the column of classes, got none; the columns are "
                f"{listed(frame.columns)}{hint}"
            )
        target = "target"
    if frame.width == 1 and target not in frame.columns:
        raise DataError(
            f"target: expected a column of the table, got {show(target)}; the only column is "
            f"{show(frame.columns[0])}: say what stands between cells (--separator)"
        )
    X, y, n_dropped = split_target(frame, target, keep=unlabelled)
    classes, _ = encode_labels(y.drop_nulls() if unlabelled else y, minimum=1)
    name = Path(path.name.removesuffix(".gz")).stem
    dropped = f", {counted(n_dropped, 'row')} without a target left out" if n_dropped else ""
    return Dataset(
        name=name,
        X=X,
        y=y,
        target_names=tuple(classes.tolist()),
        description=f"{path.name}: {counted(X.height, 'row')}, {counted(X.width, 'column')}, "
        f"{len(classes)} classes{dropped}",
        n_dropped=n_dropped,
        feature_names=tuple(X.columns),
        notes=notes,
        written=written,
    )
