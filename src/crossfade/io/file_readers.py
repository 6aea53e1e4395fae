"""Readers of table files of one format: frames of some columns, some rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crossfade._checks import show
from crossfade._optional import import_optional
from crossfade.blocks import read_ahead
from crossfade.errors import DataError
from crossfade.io.batches import Batch, file_format, read_batches
from crossfade.io.numerals import Notation, Shown, TwoNotations, Written
from crossfade.io.reading import cells_as_read, opened

__all__ = ["ArrowReader", "Reader", "TextReader", "reader_of"]


class Reader(ABC):
    """What yields frames of some columns of some files.

    `types`: Each column's kind where its type alone tells it, else None.
    `n_rows`: None where it is not known.
    `size`: How much of the files has been read, and how much there is.
    """

    types: dict[str, Any]
    n_rows: int | None = None
    size: tuple[int, int] = 0, 0

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self._stamps = [_stamp(file) for file in files]

    def check_unchanged(self) -> None:
        """Refuse files that are not what they were when they were first looked at."""
        for file, before in zip(self.files, self._stamps, strict=True):
            now = _stamp(file)
            if now != before:
                raise DataError(
                    f"{file}: expected the file as it was at first, for all passes over the rows, "
                    f"got {'none' if now is None else 'a changed one'}; call scan again, and fit "
                    "while nothing writes to the files"
                )

    @abstractmethod
    def frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Yield frames of these columns, of about so many rows."""

    def _same_columns(self, found: list[list[str]]) -> None:
        for file, names in zip(self.files, found, strict=True):
            if set(names) != set(found[0]):
                missing = [name for name in found[0] if name not in names]
                extra = [name for name in names if name not in found[0]]
                words = [f"{show(n)} is missing" for n in missing[:3]]
                words += [f"{show(n)} is new" for n in extra[:3]]
                raise DataError(
                    f"{file}: expected the columns of {self.files[0]}, but {', '.join(words)}; "
                    "write the file again, or leave it out"
                )


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Return what changes with a file's contents, None without a file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def reader_of(
    files: list[Path], missing: frozenset[str], text: frozenset[str], separator: str | None
) -> Reader:
    for file in files:
        with opened(file):
            pass  # says what is there instead
    kind = file_format(files[0])
    if kind == "text":
        return TextReader(files, missing, text, separator)
    return ArrowReader(files, missing, is_arrow=kind == "Arrow")


class ArrowReader(Reader):
    """Parquet and Arrow files, in batches."""

    def __init__(self, files: list[Path], missing: frozenset[str], *, is_arrow: bool) -> None:
        super().__init__(files)
        self.missing, self.is_arrow = missing, is_arrow
        self._pa = import_optional("pyarrow", "tables larger than memory")
        self._pl = import_optional("polars", "tables from files")
        schemas, self.lengths = [], []
        damaged: list[tuple[Path, Exception]] = []
        for file in files:
            try:
                schema, n_rows = self._looked(file)
            except Exception as error:  # pyarrow raises its own, OSError and ValueError
                damaged.append((file, error))
                continue
            schemas.append(schema)
            self.lengths.append(n_rows)
        if damaged:
            raise self._broken(damaged)
        self._same_columns([schema.names for schema in schemas])
        self.types = {
            name: self._kind([schema.field(name).type for schema in schemas])
            for name in schemas[0].names
        }
        self.n_rows = sum(self.lengths)

    def _looked(self, file: Path) -> tuple[Any, int]:
        if self.is_arrow:
            with self._pa.memory_map(str(file)) as source:
                reader = self._pa.ipc.open_file(source)
                every = range(reader.num_record_batches)
                return reader.schema, sum(reader.get_batch(i).num_rows for i in every)
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(file) as parquet:
            return parquet.schema_arrow, parquet.metadata.num_rows

    def _kind(self, types: list[Any]) -> str | None:
        check = self._pa.types
        if all(check.is_floating(one) or check.is_decimal(one) for one in types):
            return "continuous"
        return "boolean" if all(check.is_boolean(one) for one in types) else None

    def _broken(self, damaged: list[tuple[Path, Exception]]) -> DataError:
        kind = "an Arrow" if self.is_arrow else "a Parquet"
        said = "; ".join(
            f"{file}: expected {kind} file, got something else ({_first_line(error)})"
            for file, error in damaged[:5]
        )
        more = f" and {len(damaged) - 5} more" if len(damaged) > 5 else ""
        others = len(self.files) - len(damaged)
        return DataError(
            f"{said}{more}; the other {others} of {len(self.files)} files can be read: write "
            "again what is damaged, or leave it out"
        )

    def frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        few: list[Any] = []  # small files are summed together
        for file in self.files:
            try:
                for batch in self._batches(file, columns, rows):
                    frame = self._frame(batch, columns)
                    if few and frame.schema != few[0].schema:
                        yield self._pl.concat(few)
                        few = []
                    few.append(frame)
                    if sum(one.height for one in few) >= rows // 2:
                        yield self._pl.concat(few)
                        few = []
            except DataError:
                raise
            except Exception as error:
                raise self._broken([(file, error)]) from None
        if few:
            yield self._pl.concat(few)

    def _batches(self, file: Path, columns: list[str], rows: int) -> Iterator[Any]:
        if self.is_arrow:
            with self._pa.memory_map(str(file)) as source:
                reader = self._pa.ipc.open_file(source)
                for i in range(reader.num_record_batches):
                    batch = reader.get_batch(i).select(columns)
                    for start in range(0, batch.num_rows, rows):
                        yield batch.slice(start, rows)
            return
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(file, memory_map=True) as parquet:
            yield from parquet.iter_batches(rows, columns=columns)

    def _frame(self, batch: Any, columns: list[str]) -> Any:
        frame = self._pl.from_arrow(batch.select(columns), rechunk=False)
        return cells_as_read(frame, self.missing)


class TextReader(Reader):
    """Delimited text, whose columns get their types from a pass of their own."""

    def __init__(
        self,
        files: list[Path],
        missing: frozenset[str],
        text: frozenset[str],
        separator: str | None,
    ) -> None:
        super().__init__(files)
        self._missing, self._text, self._separator = missing, text, separator
        self._dtypes: dict[str, Any] | None = None  # of all columns with cells, once looked at
        self._written = _written(files, {})
        names = []
        for file in files:
            names.append(next(iter(self._batches(file))).frame.columns)
        self._same_columns(names)
        # What a column holds, all its cells say: the first pass that asks finds out.
        self.types = dict.fromkeys(names[0])

    def _batches(self, file: Path) -> Iterator[Batch]:
        # One file of many may have no rows.
        empty = len(self.files) > 1
        yield from read_batches(file, separator=self._separator, empty=empty)

    def _raw(self, file: Path) -> Iterator[Batch]:
        yield from (batch for batch in self._batches(file) if batch.frame.height)

    def _cells(self, raw: Batch, file: Path, text: frozenset[str]) -> Any:
        return cells_as_read(
            raw.frame,
            self._missing,
            text=text,
            where=str(file),
            written=self._written,
            first=raw.first,
        )

    def _found(self) -> dict[str, Any]:
        """Return the type of every column that serves the cells of all files."""
        known: dict[str, Shown] = {}
        while self._dtypes is None:
            self._written = _written(self.files, known)
            try:
                self._dtypes = self._surveyed()
            except TwoNotations as error:
                if error.name in known or error.later.notation.decimal != ",":
                    raise
                # Dots that came before may have separated thousands: once more, knowing that.
                known[error.name] = error.later._replace(notation=Notation(decimal=","))
        return self._dtypes

    def _surveyed(self) -> dict[str, Any]:
        pl = import_optional("polars", "tables from files")
        dtypes: dict[str, Any] = {}
        marked: set[str] = set()
        for file in self.files:
            for raw in read_ahead(self._raw(file)):
                frame = self._cells(raw, file, self._text)
                for name, dtype in frame.schema.items():
                    if frame[name].null_count() < frame.height:
                        dtypes[name] = _wider(dtypes.get(name, dtype), dtype, f"{file}: {name}")
                unknown = [name for name in frame.columns if name not in {*dtypes, *marked}]
                if unknown:
                    cells = cells_as_read(raw.frame.select(unknown), self._missing)
                    marked |= {one.name for one in cells if one.null_count() < one.len()}
        # A column of nothing but NA has text.
        return dict.fromkeys(marked, pl.String) | dtypes

    def frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        pl = import_optional("polars", "tables from files")
        dtypes = self._found()
        as_text = {name for name, dtype in dtypes.items() if dtype == pl.String} | self._text
        wanted = {name: dtypes.get(name, pl.Float64) for name in columns}
        for file in self.files:
            for raw in self._raw(file):
                own = frozenset(as_text & set(columns))
                frame = self._cells(raw._replace(frame=raw.frame.select(columns)), file, own)
                yield frame.select(pl.col(name).cast(dtype) for name, dtype in wanted.items())


def _written(files: list[Path], known: dict[str, Shown]) -> Written:
    path = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    remedy = "write them in one way, or name the column in text"
    return Written(path, known, remedy)


def _wider(one: Any, other: Any, where: str) -> Any:
    """Return the type that holds the cells of both, whole numbers among text being codes."""
    pl = import_optional("polars", "tables from files")
    if one == other:
        return one
    pair = {one, other}
    if pair == {pl.Int64, pl.Float64}:
        return pl.Float64
    if pair == {pl.Int64, pl.String}:
        return pl.String
    raise DataError(
        f"{where}: expected cells of one type in the whole column, got {one} in some rows and "
        f"{other} in others; correct the cells, or name the column in text (--text)"
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
