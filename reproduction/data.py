"""Data sets of the papers: looked up in a folder, else fetched from OpenML."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.datasets import data_directory
from crossfade.errors import DataError

#: Seconds between tries, and tries, of a download.
_DELAY, _TRIES = 1.0, 1


@dataclass(frozen=True)
class Source:
    """Where a data set is found.

    Attributes
    ----------
    file : str
        Name of the file in the folder, less ``.csv`` or ``.csv.gz``.
    openml : str
        Name of the data set there.
    version : int
    target : str or None
        The column of classes at OpenML, where it is not the one that OpenML names.
    """

    file: str
    openml: str
    version: int = 1
    target: str | None = None


@dataclass(frozen=True)
class Table:
    """A data set as numbers.

    Attributes
    ----------
    names : tuple of str
    X : ndarray of shape (n_rows, n_columns)
        Categories as codes; NaN where missing.
    nominal : ndarray of bool, shape (n_columns,)
        Which columns are categories.
    target : ndarray of shape (n_rows,)
        Class labels as text, or numbers where the target is one.
    """

    names: tuple[str, ...]
    X: Floats
    nominal: NDArray[np.bool_]
    target: NDArray[Any]

    def columns(self, kind: Literal["all", "numeric", "nominal"]) -> Floats:
        """Return the columns of a kind."""
        chosen = {"all": self.nominal | True, "numeric": ~self.nominal, "nominal": self.nominal}
        return np.ascontiguousarray(self.X[:, chosen[kind]])

    def column(self, name: str) -> Floats | None:
        """Return one column, None where there is none of this name (in any case of letters)."""
        lower = [one.lower() for one in self.names]
        return self.X[:, lower.index(name.lower())] if name.lower() in lower else None


def read_source(source: Source, folder: Path | None) -> Table:
    """Return a data set from the folder, else from OpenML."""
    named = os.environ.get("CROSSFADE_DATA")
    asked, name = (named, "CROSSFADE_DATA") if folder is None else (str(folder), "data")
    if asked and not Path(asked).is_dir():
        raise DataError(f"{name}: expected a folder, got {asked!r}; name the folder of data sets")
    place = folder if folder is not None else data_directory()
    path = _find(source.file, place)
    return _from_file(path) if path is not None else _from_openml(source, place)


def _find(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    found = [path for suffix in (".csv", ".csv.gz") for path in folder.rglob(f"{name}{suffix}")]
    return min(found, default=None)


def _from_file(path: Path) -> Table:
    from crossfade.datasets import load

    data = load(path, target="target")
    frame = data.X
    nominal = np.array([not frame[name].dtype.is_numeric() for name in frame.columns])
    X = np.empty(frame.shape)
    for j, name in enumerate(frame.columns):
        column = frame[name]
        X[:, j] = _codes(column.to_list()) if nominal[j] else column.cast(float).to_numpy()
    target = data.y.to_numpy()
    return Table(tuple(frame.columns), X, nominal, _labels(target))


def _codes(cells: list[Any]) -> Floats:
    """Return the number of each cell's category in sorted order, NaN where there is none."""
    known = {word: float(i) for i, word in enumerate(sorted({c for c in cells if c is not None}))}
    return np.array([np.nan if cell is None else known[cell] for cell in cells])


def _labels(target: NDArray[Any]) -> NDArray[Any]:
    return target.astype(str) if target.dtype.kind not in "fc" else target


def _from_openml(source: Source, folder: Path | None) -> Table:
    from sklearn.datasets import fetch_openml

    options = {} if source.target is None else {"target_column": source.target}
    try:
        with warnings.catch_warnings():
            # One line tells of a failure; scikit-learn would announce its second try as well.
            warnings.filterwarnings("ignore", message="A network error occurred")
            data = fetch_openml(
                source.openml,
                version=source.version,
                as_frame=False,
                parser="liac-arff",
                n_retries=_TRIES,
                delay=_DELAY,
                **options,
            )
    except Exception as error:  # no network, no such data set, a broken download
        searched = f"not in {str(folder)!r}" if folder is not None else "no folder is given"
        raise DataError(
            f"data: expected the data set {source.file!r} ({searched}), and OpenML's "
            f"{source.openml!r} version {source.version} could not be fetched "
            f"({type(error).__name__}); put {source.file}.csv with a column 'target' into a folder "
            "and name it with --data or CROSSFADE_DATA"
        ) from error
    names = tuple(str(name) for name in data.feature_names)
    X = np.array(data.data, dtype=np.float64)
    nominal = np.zeros(len(names), dtype=bool)
    for name, categories in (data.categories or {}).items():
        j = names.index(name)
        numbers = _numbers(categories)
        if numbers is None:
            nominal[j] = True
            continue
        known = np.isfinite(X[:, j])
        X[known, j] = numbers[X[known, j].astype(np.int64)]
    return Table(names, X, nominal, _labels(np.asarray(data.target)))


def _numbers(categories: list[str]) -> Floats | None:
    """Return categories that are all numbers as such, which is how a file would be read."""
    try:
        return np.array(categories, dtype=np.float64)
    except ValueError:
        return None
