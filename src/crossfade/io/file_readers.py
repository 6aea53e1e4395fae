"""Readers of table files of one format: frames of some columns, some rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from crossfade._checks import show
from crossfade._optional import import_optional
from crossfade.blocks import read_ahead
from crossfade.errors import DataError
from crossfade.io.batches import Batch, file_format, read_batches
from crossfade.io.cell_notes import Texts
from crossfade.io.cells import cells_as_read, unmarked
from crossfade.io.gathered import CellReading, Gathered, gather, readings_of
from crossfade.io.reading import no_parquet, opened
from crossfade.io.text import blank_lines, check_names, header_notes

#: Bytes of a Parquet column that are read from the file at once.
_BUFFER = 1 << 20

Result = TypeVar("Result")


class Reader(ABC):
    """What yields frames of some columns of some files.

    `types`: Each column's kind where its type alone tells it, else None.
    `n_rows`: None where it is not known.
    `progress`: Told how much has been read by what the reader reads for itself.
    `notes`: How cells were read that Python would read otherwise, or not, once that is known.
    `unseen`: Marks for missing cells that no cell had so far.
    `written`: How the numbers of columns of text are written, once that is known.
    """

    types: dict[str, Any]
    notes: tuple[str, ...] = ()
    written: dict[str, dict[str, Any]] | None = None
    n_rows: int | None = None
    progress: Callable[[int, int, str], None] | None = None

    def __init__(self, files: list[Path], missing: frozenset[str]) -> None:
        self.files, self.missing, self.unseen = files, missing, set(missing)
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

    def _opened(self, look: Callable[[Path], Result]) -> list[Result]:
        """Return what is seen of every file at its beginning; name all that cannot be opened."""
        found, damaged = [], []
        for file in self.files:
            try:
                found.append(look(file))
            except Exception as error:  # pyarrow raises its own, OSError and ValueError
                damaged.append((file, error))
        if damaged:
            raise self._broken(damaged, "opened")
        return found

    def _broken(self, damaged: list[tuple[Path, Exception]], how: str = "read") -> DataError:
        """Return the error of damaged files, all others having been opened or read."""
        said = "; ".join(self._damage(file, error) for file, error in damaged[:5])
        more = f" and {len(damaged) - 5} more" if len(damaged) > 5 else ""
        if len(self.files) == 1:
            return DataError(said)
        others = len(self.files) - len(damaged)
        rest = f"the other {others}" if others else "none"
        return DataError(
            f"{said}{more}; {rest} of {len(self.files)} files can be {how}: write again what is "
            "damaged, or leave it out"
        )

    def _damage(self, file: Path, error: Exception) -> str:
        return str(error)

    def _same_columns(self, found: list[list[str]]) -> None:
        check_names(found[0], str(self.files[0]))
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
    files: list[Path],
    missing: frozenset[str],
    text: frozenset[str],
    drop: frozenset[str],
    separator: str | None,
    encoding: str | None,
) -> Reader:
    for file in files:
        with opened(file):
            pass  # says what is there instead
    kind = file_format(files[0])
    if kind == "text":
        return TextReader(files, missing, text, drop, separator, encoding)
    return ArrowReader(files, missing, is_arrow=kind == "Arrow")


class ArrowReader(Reader):
    """Parquet and Arrow files, in batches."""

    def __init__(self, files: list[Path], missing: frozenset[str], *, is_arrow: bool) -> None:
        super().__init__(files, missing)
        self.is_arrow = is_arrow
        self._noted: set[str] = set()
        self._pa = import_optional("pyarrow", "tables larger than memory")
        self._pl = import_optional("polars", "tables from files")
        looked = self._opened(self._looked)
        schemas, self.lengths = [one for one, _ in looked], [n_rows for _, n_rows in looked]
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

    def _damage(self, file: Path, error: Exception) -> str:
        return str(no_parquet(error, file, "an Arrow" if self.is_arrow else "a Parquet"))

    def frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        few: list[Any] = []  # small files are summed together
        words = {name: Texts(name) for name in columns if name not in self._noted}
        for file in self.files:
            try:
                for batch in self._batches(file, columns, rows):
                    frame = self._frame(batch, columns)
                    for name, texts in words.items():
                        if frame[name].dtype == self._pl.String:
                            texts.add(frame[name])
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
                raise self._broken([(file, error), *self._damaged_after(file, columns)]) from None
        if few:
            yield self._pl.concat(few)
        told = [note for texts in words.values() for note in texts.notes(numbers=False)]
        self.notes, self._noted = (*self.notes, *told), self._noted | words.keys()

    def _damaged_after(self, file: Path, columns: list[str]) -> Iterator[tuple[Path, Exception]]:
        for later in self.files[self.files.index(file) + 1 :]:
            try:
                for _ in self._batches(later, columns, 1 << 16):
                    pass
            except Exception as error:
                yield later, error

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

        # Some row groups at a time, since a reader keeps what it has read of all that it was given;
        # not mapped, since pages of a mapped file count as the process's memory.
        with pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER) as parquet:
            some: list[int] = []
            held = 0
            for group in range(parquet.num_row_groups):
                some.append(group)
                held += parquet.metadata.row_group(group).num_rows
                if held >= rows or group == parquet.num_row_groups - 1:
                    yield from parquet.iter_batches(rows, row_groups=some, columns=columns)
                    some, held = [], 0

    def _frame(self, batch: Any, columns: list[str]) -> Any:
        batch = batch.select(columns)
        for j, field in enumerate(batch.schema):
            if self._pa.types.is_decimal256(field.type):  # polars has none of these
                batch = batch.set_column(j, field.name, batch[j].cast(self._pa.float64()))
            elif field.type == self._pa.month_day_nano_interval():
                raise DataError(
                    f"X: column {show(field.name)}: expected numbers or text, got type "
                    f"{field.type}; turn it into numbers, or leave it out"
                )
        frame = self._pl.from_arrow(batch, rechunk=False)
        return cells_as_read(frame, self.missing, self.unseen)


class TextReader(Reader):
    """Delimited text, whose columns get their types from a pass of their own."""

    def __init__(
        self,
        files: list[Path],
        missing: frozenset[str],
        text: frozenset[str],
        drop: frozenset[str],
        separator: str | None,
        encoding: str | None,
    ) -> None:
        super().__init__(files, missing)
        self._text, self._unjudged = text | drop, drop
        self._how: dict[str, Any] = {"separator": separator, "encoding": encoding}
        self._readings: dict[str, CellReading] | None = None  # of all columns with cells
        heads = self._opened(lambda file: next(iter(self._batches(file))))
        names = [head.frame.columns for head in heads]
        self._unnamed = heads[0].unnamed
        self._same_columns(names)
        # What a column holds, all its cells say: the first pass that asks finds out.
        self.types = dict.fromkeys(names[0])
        for name in self._unnamed:
            shown = any((head.frame[name].str.strip_chars() != "").any() for head in heads)
            # As of a whole table, it is no column if it has no cell anywhere.
            if not shown and name not in self._found():
                del self.types[name]

    def _batches(self, file: Path) -> Iterator[Batch]:
        # One file of many may have no rows.
        empty = len(self.files) > 1
        yield from read_batches(file, **self._how, empty=empty)

    def _raw(self, file: Path) -> Iterator[Batch]:
        yield from (batch for batch in self._batches(file) if batch.frame.height)

    def _found(self) -> dict[str, CellReading]:
        """Return how every column that has cells is read, which all files tell together."""
        if self._readings is not None:
            return self._readings
        pl = import_optional("polars", "tables from files")
        path, remedy = _together(self.files), "write them in one way, or name the column in text"
        gathered: dict[str, Gathered] = {}
        judged = [name for name in self.types if name not in self._unjudged]
        words = {name: Texts(name, self.missing) for name in judged}
        damaged: list[tuple[Path, Exception]] = []
        skipped = n_rows = done = 0
        sizes = [0 if stamp is None else stamp[0] for stamp in self._stamps]
        for file, size in zip(self.files, sizes, strict=True):
            held = 0
            try:
                for raw in read_ahead(self._batches(file)):
                    skipped += raw.skipped
                    n_rows += raw.frame.height
                    held += int(raw.frame.estimated_size())  # about the bytes of its text
                    if self.progress is not None:
                        self.progress(done + min(held, size), sum(sizes), "types of columns")
                    if not raw.frame.height:
                        continue
                    asked = [name for name in raw.frame.columns if name not in self._text]
                    gather(gathered, raw.frame, self.missing, asked, raw.first, f" of {file}")
                    for name, texts in words.items():
                        texts.add(raw.frame[name])
            except DataError as error:
                damaged.append((file, error))
            done += size
        if damaged:
            raise self._broken(damaged)
        self.n_rows = n_rows
        found = dict.fromkeys(self._text, CellReading(pl.String))
        notes = blank_lines(skipped)
        for name, reading, told in readings_of(gathered, path, remedy):
            if reading is not None:
                found[name] = reading
            notes += told
        for name, texts in words.items():
            if name in found and found[name].dtype == pl.String:
                notes += texts.notes(numbers=name not in self._text)
        empty = [name for name in self._unnamed if name not in found]
        named = [name for name in self._unnamed if name in found]
        self._readings = found
        self.notes = (*header_notes(list(self.types), named, empty), *notes)
        self.written = {name: one.written for name, one in found.items() if one.written}
        return found

    def frames(self, columns: list[str], rows: int) -> Iterator[Any]:
        pl = import_optional("polars", "tables from files")
        readings = self._found()
        empty = [*self.missing, ""]
        for file in self.files:
            for raw in self._raw(file):
                read = []
                for name in columns:
                    cells, stripped = raw.frame[name], raw.frame[name].str.strip_chars()
                    is_empty = stripped.is_in(empty)
                    if self.unseen and is_empty.any():
                        self.unseen.difference_update(stripped.filter(is_empty).unique())
                    reading = readings.get(name, CellReading(pl.Float64))
                    if reading.dtype != pl.String:
                        read_cells = reading.read(stripped.set(is_empty, None))
                        cells = unmarked(read_cells, self.missing, self.unseen)
                    elif is_empty.any():
                        cells = cells.set(is_empty, None)
                    read.append(cells.alias(name))
                yield pl.DataFrame(read)


def _together(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{len(files)} files"
