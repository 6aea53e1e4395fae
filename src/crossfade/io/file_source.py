"""Tables in files, read some rows at a time at each pass: for tables larger than memory.

Parquet, Arrow (IPC, Feather) and delimited text; one file, some files, or a folder of them. Only
the columns that a pass needs are read, the next rows while the present ones are summed. Cells are
read as :mod:`crossfade.io.cells` reads them: empty ones are missing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from crossfade._checks import listed, show
from crossfade._optional import import_optional
from crossfade.blocks import read_ahead
from crossfade.errors import DataError
from crossfade.io.batches import table_files
from crossfade.io.cell_notes import notes_on_marks
from crossfade.io.cells import cells_as_read
from crossfade.io.file_readers import ArrowReader, Reader, reader_of
from crossfade.io.target import no_labels, refuse_type
from crossfade.table.cluster import DaskSource
from crossfade.table.source import (
    Part,
    PartedSource,
    RowSource,
    first_rows,
    no_column,
    no_rows,
    rows_of,
)
from crossfade.table.survey import SAMPLE_ROWS, row_keys

Result = TypeVar("Result")

#: Cells that are read at a time (32 MB of numbers), and bounds on the rows that this makes.
_CELLS, _FEWEST, _MOST = 1 << 22, 1 << 12, 1 << 17


def scan(
    path: str | Path | Sequence[str | Path],
    target: str | None = None,
    *,
    columns: Collection[str] | None = None,
    drop: Collection[str] = (),
    missing_values: Collection[str] = (),
    text: Collection[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
) -> FileSource:
    """Return the rows of table files as a source that ``fit`` reads some at a time.

    Parameters
    ----------
    path : str, Path or sequence of these
        A file, a folder (all table files in it and below it, in the order of their names; links
        are followed, also out of the folder, and a file is read once), a pattern such as
        ``"2024-*/*.parquet"``, or a list of files. Folders named ``year=2024`` make no column.
    target : str, optional
        The column of labels; it can be given to ``fit`` instead. Rows without a label are left
        out, and counted in ``n_dropped``.
    columns : collection of str, optional
        Columns to use besides the target; all by default.
    drop : collection of str, optional
        Columns not to use.
    missing_values : collection of str, optional
        Cells that mean missing, besides empty ones: texts, or numbers in columns of numbers.
    text : collection of str, optional
        Columns of delimited text to read as text, such as codes.
    separator : str, optional
        Character between the cells of delimited text, if neither comma nor tab.
    encoding : str, optional
        Encoding of delimited text, such as "cp1252"; UTF-8, or what a byte-order mark tells, if
        not given.

    Returns
    -------
    FileSource
        Its `n_rows` are known before the first pass, but for delimited text.

    Raises
    ------
    DataError
        If a file is missing, damaged or has other columns than the first; every such file is
        named.

    Notes
    -----
    Memory holds three batches of rows at most (each of some 4 million cells), whatever the number
    of rows. Needs pyarrow for Parquet and Arrow files, polars for all.

    Examples
    --------
    >>> import tempfile, polars
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import scan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = {"x": [0.1, 0.3, 2.2, 2.4], "y": ["no", "no", "yes", "yes"]}
    ...     polars.DataFrame(rows).write_parquet(f"{folder}/part-0.parquet")
    ...     polars.DataFrame(rows).write_parquet(f"{folder}/part-1.parquet")
    ...     model = NaiveBayes(tradeoff=1).fit(scan(folder), "y")
    >>> model.class_count_, model.n_passes_
    (array([4., 4.]), 1)
    """
    files = table_files(path)
    unused = frozenset(drop) - {target}
    reader = reader_of(
        files, frozenset(missing_values), frozenset(text), unused, separator, encoding
    )
    for name in text:
        if name not in reader.types:
            raise no_column("text", name, list(reader.types))
    return FileSource(reader, target, columns, frozenset(drop))


class FileSource(PartedSource):
    """The rows of table files; see :func:`scan`.

    Attributes
    ----------
    names : tuple of str
        The columns besides the target.
    n_rows : int or None
        Rows of all files, those without a label included; of delimited text once they are read.
    n_dropped : int
        Rows without a label, once they have been read.
    n_passes : int
        How often the rows have been read.
    notes : tuple of str
        What a reader should know of how cells were read ("1.234,5", 1 beside true, NA among words),
        once they have been; which columns in names of folders are not read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crossfade.io import scan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "rows.csv")
    ...     _ = file.write_text("x,y,z\\n1.5,2,a\\n2.5,3,b\\n")
    ...     source = scan(file)
    ...     print(source.names)
    ('x', 'y', 'z')
    """

    def __init__(
        self,
        reader: Reader,
        target: str | None = None,
        columns: Collection[str] | None = None,
        drop: Collection[str] = (),
    ) -> None:
        self._reader, self._chosen, self._drop = reader, columns, drop
        self.target, self.n_dropped = target, 0
        self._head: Part | None = None
        self._begun: tuple[Part, Iterator[Part]] | None = None
        known = list(reader.types)
        roles = {"target": () if target is None else (target,), "columns": columns or ()}
        for role, wanted in (roles | {"drop": drop}).items():
            for one in wanted:
                if one not in known:
                    raise no_column(role, one, known)
        self.names = tuple(
            name
            for name in known
            if name != target and name not in drop and (columns is None or name in columns)
        )
        if not self.names:
            besides = "" if target is None else f" besides the target {show(target)}"
            raise DataError(f"X: expected columns{besides}, got none; choose others")

    def labelled(self, y: Any) -> FileSource:
        if y is None and self.target is not None:
            return self
        if not isinstance(y, str):
            raise DataError(
                f"y: expected the name of the column of labels in the files, got {show(y)}; for "
                f"example y={self.names[-1]!r}"
            )
        if y not in self._reader.types:
            raise no_column("y", y, list(self._reader.types))
        found = FileSource(self._reader, y, self._chosen, self._drop)
        found.progress = self.progress
        return found

    @property
    def settled(self) -> dict[int, str]:
        types = self._reader.types
        return {j: kind for j, name in enumerate(self.names) if (kind := types[name]) is not None}

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        return self._reader.n_rows

    @property
    def notes(self) -> tuple[str, ...]:
        folders = {part for file in self._reader.files for part in file.parts[:-1] if "=" in part}
        named = sorted({folder.partition("=")[0] for folder in folders} - set(self._reader.types))
        told = [f"Folders named {name}=… make no column {show(name)}." for name in named]
        unseen = notes_on_marks(self._reader.unseen) if self.n_passes else []
        return (*self._reader.notes, *unseen, *told)

    @property
    def written(self) -> dict[str, dict[str, Any]] | None:
        """How numbers are written as in :class:`~crossfade.datasets.Dataset`, once it is known."""
        return self._reader.written

    def parts(self, columns: Sequence[int] | None) -> Iterator[Part]:
        if columns is not None or self._begun is None:
            yield from self._parts(columns)
            return
        begun, self._begun = self._begun, None
        yield begun[0]
        yield from begun[1]

    def _parts(self, columns: Sequence[int] | None) -> Iterator[Part]:
        names = list(self.names if columns is None else [self.names[j] for j in columns])
        wanted = names if self.target is None else [*names, self.target]
        first, dropped = 0, 0
        self._reader.check_unchanged()
        self._reader.progress = self.progress
        with closing(read_ahead(self._reader.frames(wanted, _rows_of(wanted)))) as frames:
            for frame in frames:
                table, labels = _split(frame, self.target)
                n_rows = frame.height if labels is None else labels.len()
                yield Part(table if names else np.empty((n_rows, 0)), labels, first)
                first += n_rows
                dropped += frame.height - n_rows
        self._reader.check_unchanged()
        self.n_dropped = dropped

    def head(self) -> Part:
        if self._head is None:
            self._head = self.peek(first_rows)
        return self._head

    def peek(self, function: Callable[[Part], Result]) -> Result:
        if self._begun is None:
            # Pages are decoded whole: the next pass over all columns goes on from here.
            parts = self._parts(None)
            first = next((part for part in parts if rows_of(part.table)), None)
            if first is None:
                raise self._no_rows()
            self._begun = first, parts
        return function(self._begun[0])

    def _no_rows(self) -> DataError:
        labelless = self.target is not None and self.n_dropped
        return no_labels(str(self.target), self.n_dropped) if labelless else no_rows()

    def close(self) -> None:
        super().close()
        self._begun = None

    def sample(self, size: int = SAMPLE_ROWS) -> tuple[Any, Any, int]:
        """Return rows drawn evenly, their labels, and the number of all rows: one pass.

        Parameters
        ----------
        size : int, default=20,000
            How many rows at most; the same ones at every call.

        Returns
        -------
        X : polars.DataFrame of shape (min(size, n_rows), n_columns)
        y : polars.Series of shape (min(size, n_rows),)
        n_rows : int
        """
        pl = import_optional("polars", "tables from files")
        if self.target is None:
            raise DataError(
                "target: expected the column of labels for a sample, got None; name one of "
                f"{listed(self.names)}: scan(path, target)"
            )
        kept: list[tuple[Any, Any, Any]] = []
        limit, held = np.iinfo(np.uint64).max, 0

        def trimmed() -> None:
            nonlocal limit, held
            keys = np.concatenate([key for key, _, _ in kept])
            if keys.size > size:
                limit = np.partition(keys, size - 1)[size - 1]
            for place, (key, table, labels) in enumerate(kept):
                some = key <= limit
                kept[place] = key[some], table.filter(some), labels.filter(some)
            held = sum(len(key) for key, _, _ in kept)

        def draw(part: Part) -> int:
            nonlocal held
            keys = row_keys(part.first, part.labels.len())
            some = keys <= limit
            kept.append((keys[some], part.table.filter(some), part.labels.filter(some)))
            held += int(some.sum())
            if held > 2 * size:
                trimmed()
            return part.labels.len()

        n_rows = self.reduce_parts(draw, operator.add)
        if n_rows is None:
            raise self._no_rows()
        trimmed()
        X = pl.concat([table for _, table, _ in kept], how="vertical_relaxed")
        return X, pl.concat([labels for _, _, labels in kept]), n_rows

    def on_cluster(self) -> RowSource:
        """Return the same rows, read by the workers of the Dask cluster that is in use.

        Returns
        -------
        RowSource

        Raises
        ------
        DataError
            For delimited text, whose types all files together tell.
        """
        if not isinstance(self._reader, ArrowReader):
            raise DataError(
                "path: expected Parquet or Arrow files for a cluster, got delimited text; write it "
                "as Parquet first: polars.scan_csv(path).sink_parquet('table.parquet')"
            )
        return _FilesOnCluster(self._reader, self.names, self.target)


def _split(frame: Any, target: str | None) -> tuple[Any, Any]:
    """Return a frame without the target, and the target; rows without one are left out."""
    if target is None:
        return frame, None
    labels = frame[target]
    refuse_type(nw.from_native(labels, series_only=True), target)
    present = labels.is_not_null()
    if labels.dtype.is_float():
        present &= labels.is_not_nan()
    if not present.all():
        frame, labels = frame.filter(present), labels.filter(present)
    others = frame.clone()
    others.drop_in_place(target)  # without a query's threads
    return others, labels


def _rows_of(columns: list[str]) -> int:
    """Return the rows of a batch of these columns."""
    return int(np.clip(_CELLS // max(len(columns), 1), _FEWEST, _MOST))


class _FilesOnCluster(DaskSource):
    """Parts of files that workers read."""

    def __init__(self, reader: ArrowReader, names: tuple[str, ...], target: str | None) -> None:
        super().__init__(None)
        self._reader, self._columns, self._target = reader, names, target

    def labelled(self, y: Any) -> RowSource:
        return self if y is None else super().labelled(y)

    def _pairs(self) -> list[Any]:
        wanted = [*self._columns] if self._target is None else [*self._columns, self._target]
        rows = max(1, 4 * _CELLS // len(wanted))
        self._reader.check_unchanged()
        tasks = [
            self._delay(_read)(file, start, min(rows, n - start), wanted, self._target, *how)
            for file, n in zip(self._reader.files, self._reader.lengths, strict=True)
            for start in range(0, n, rows)
            for how in [(self._reader.missing, self._reader.is_arrow)]
        ]
        self._held = self._dask.persist(*tasks)
        return list(self._held)


def _read(
    file: Path,
    start: int,
    n_rows: int,
    columns: list[str],
    target: str | None,
    missing: frozenset[str],
    is_arrow: bool,
) -> tuple[Any, Any]:
    """Return some rows of a file and their labels."""
    pl = import_optional("polars", "tables from files")
    scanned = (pl.scan_ipc if is_arrow else pl.scan_parquet)(file)
    frame = scanned.select(columns).slice(start, n_rows).collect()
    return _split(cells_as_read(frame, missing), target)
