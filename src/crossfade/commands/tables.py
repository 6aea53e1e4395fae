"""Opening the table that a command was given: a file, or a bundled data set by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from crossfade import datasets
from crossfade._checks import did_you_mean, listed
from crossfade.comparison.problem import left_out
from crossfade.errors import DataError
from crossfade.evidence.comparison import TableOrigin
from crossfade.io.file_source import FileSource, scan

#: Bytes of a file above which it is read some rows at a time: text, and Parquet, which is packed.
_LARGE_TEXT, _LARGE_PARQUET = 1_000_000_000, 300_000_000


@dataclass(frozen=True)
class OpenTable(TableOrigin):
    """A table with its target taken out.

    `X` (n_rows, n_columns): The other columns.
    `y` (n_rows,): The target.
    `names`: Names of the columns.
    `written`: As in :class:`~crossfade.datasets.Dataset`.
    `source`: Where the rows of a large table are read from; `X` and `y` are then an even sample.
    """

    X: Any
    y: Any
    names: tuple[str, ...]
    source: FileSource | None = None
    written: dict[str, dict[str, Any]] | None = None

    def named(self) -> OpenTable:
        """Return the same with columns that have names, also where a data set is an array."""
        if not isinstance(self.X, np.ndarray):
            return self
        import polars as pl

        return replace(self, X=pl.DataFrame(self.X, schema=list(self.names)))

    def grouped(self, column: str) -> tuple[OpenTable, Any]:
        """Return the table, which is in memory, without a column of groups, and that column."""
        X, names = _without(self.X, self.names, [column], self.target, "--groups")
        groups = nw.from_native(self.X, eager_only=True)[column].to_numpy()
        return replace(self, X=X, names=names), groups


def open_table(
    name: str,
    target: str | None = None,
    *,
    drop: Sequence[str] | None = None,
    missing: Collection[str] | None = None,
    text: Collection[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    batches: bool = False,
    sampled: bool = True,
    unlabelled: bool = False,
) -> OpenTable:
    """Open a file or a bundled data set and split off the target.

    Takes drop: columns to leave out; batches: read some rows at a time also what is not large;
    sampled: of a large table, draw the sample; unlabelled: keep rows without a target.
    """
    if name not in datasets.bundled() and (batches or is_large(Path(name))):
        label = target or "target"
        if unlabelled:
            raise DataError(
                f"--unlabelled: expected a table that is read at once, got {name}, which is read "
                "some rows at a time; leave it out, or give a sample of the rows"
            )
        source = scan(
            datasets.find(name),
            label,
            drop=drop or (),
            missing_values=missing or (),
            text=text or (),
            separator=separator,
            encoding=encoding,
        )
        return _open_large(name, label, source, sampled=sampled)
    data = datasets.load(
        name,
        target,
        missing_values=missing or (),
        text=text or (),
        separator=separator,
        encoding=encoding,
        drop=drop or (),
        unlabelled=unlabelled,
    )
    label = target or "target"
    X, names = _without(data.X, data.feature_names, drop or (), label)
    notes = list(data.notes)
    for note in left_out(data.n_dropped, label):
        notes.append(f"{note[:-1]}; crossfade fit --unlabelled learns from such, too.")
    if drop:
        notes.append(f"Left out as asked: {', '.join(drop)}.")
    return OpenTable(
        name, label, data.n_dropped, tuple(notes), X, data.y, names, written=data.written
    )


def is_large(path: Path) -> bool:
    """Return whether a table is read some rows at a time unasked."""
    if path.is_dir() or (not path.exists() and any(mark in str(path) for mark in "*?[")):
        return True
    if path.suffix.lower() in (".arrow", ".feather", ".ipc"):
        return True
    most = _LARGE_PARQUET if path.suffix.lower() in (".parquet", ".pq") else _LARGE_TEXT
    return path.is_file() and path.stat().st_size > most


def _open_large(name: str, target: str, source: FileSource, *, sampled: bool) -> OpenTable:
    from crossfade.commands.output import live_progress

    X, y, notes = None, (), [f"The rows of {name} are read some at a time."]
    if sampled:
        with live_progress(name) as progress:
            source.progress = progress
            X, y, n_rows = source.sample()
        source.progress = None
        if len(y) < n_rows:
            notes[0] = f"The figures are of {len(y):,} rows of all {n_rows:,}, drawn evenly."
        notes += source.notes
    return OpenTable(name, target, source.n_dropped, tuple(notes), X, y, source.names, source)


def _without(
    X: Any, names: tuple[str, ...], drop: Sequence[str], target: str, option: str = "--drop"
) -> tuple[Any, tuple[str, ...]]:
    """Return the table and its names without some columns."""
    for column in drop:
        if column == target:
            raise DataError(f"{option}: expected columns besides the target, got {column!r}")
        if column not in names:
            hint = did_you_mean(column, names, f"the columns are {listed(names)}")
            raise DataError(f"{option}: expected a column of the table, got {column!r}; {hint}")
    kept = tuple(name for name in names if name not in drop)
    if not kept:
        raise DataError(f"{option}: expected to leave at least one column, got all of them")
    if not drop:
        return X, kept
    if isinstance(X, np.ndarray):
        return X[:, [names.index(name) for name in kept]], kept
    return nw.from_native(X, eager_only=True).select(kept).to_native(), kept
