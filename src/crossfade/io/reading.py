"""Table files as polars data frames."""

from __future__ import annotations

import codecs
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from crossfade._checks import did_you_mean, listed, show
from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.files import no_such_file, refuse_device
from crossfade.io.cells import TableFile, typed_table
from crossfade.io.encoding import check_encoding
from crossfade.io.text import Delimited, blank_lines, check_text, header_notes

if TYPE_CHECKING:
    import polars as pl

_TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
_PARQUET_SUFFIXES = (".parquet", ".pq")

#: Endings of packed files that are not unpacked here.
PACKED = (".bz2", ".xz", ".zst", ".zip", ".7z", ".lz4", ".Z")

#: How files begin whose format an error names, and what they are.
_TOLD = {
    b"\xff\xff\xff\xff": "an Arrow stream; make it a file: pyarrow.feather.write_feather("
    "pyarrow.ipc.open_stream(path).read_all(), new_path)",
    b"FEA1": "Feather of version 1; write it again: pyarrow.feather.write_feather("
    "pyarrow.feather.read_table(path), new_path)",
}


def read_table(path: str | Path, **options: Any) -> pl.DataFrame:
    """Read a table from a file; see :func:`read_file`."""
    return read_file(path, **options).frame


def read_file(
    path: str | Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    missing_values: Collection[str] = (),
    text: Collection[str] = (),
    drop: Collection[str] = (),
    only: Collection[str] | None = None,
) -> TableFile:
    """Read a table from a file.

    Columns of `drop`, and all but those of `only`, stay in it, but what they hold is not judged.
    """
    place = Path(path)
    if separator is not None and (not isinstance(separator, str) or len(separator) != 1):
        raise DataError(f"separator: expected one character, got {separator!r}; for instance ';'")
    check_encoding(encoding)
    if isinstance(missing_values, str):
        missing_values = (missing_values,)
    parquet, notes = is_parquet(place), []
    with opened(place) as file:
        raw = file.read()
    if parquet:
        # Its columns have types already.
        frame = _read_parquet(raw, place)
        check_columns(text, frame.columns, "text")
        text = frame.columns
    else:
        table = check_text(raw, str(place), separator, encoding)
        frame = parse_text(table, str(place))
        frame, empty = _without_empty(frame, table.unnamed)
        named = [name for name in table.unnamed if name not in empty]
        notes = [*header_notes(table.names, named, empty), *blank_lines(len(table.blank))]
        check_columns(text, frame.columns, "text")
    unjudged = {*drop, *(set() if only is None else set(frame.columns).difference(only))}
    read = typed_table(frame, str(place), frozenset(missing_values), frozenset(text), unjudged)
    return read._replace(notes=(*notes, *read.notes), written=None if parquet else read.written)


def _without_empty(frame: pl.DataFrame, unnamed: Collection[str]) -> tuple[pl.DataFrame, list[str]]:
    """Return a frame without those columns without a name that have no cells, and these."""
    empty = [name for name in unnamed if not (frame[name].str.strip_chars() != "").any()]
    return frame.drop(empty) if len(empty) < frame.width else frame, empty


def is_parquet(place: Path) -> bool:
    """Return whether a file is Parquet, by its suffix; refuse suffixes of other formats."""
    suffix = Path(place.name.lower().removesuffix(".gz")).suffix
    if suffix not in (*_TEXT_SUFFIXES, *_PARQUET_SUFFIXES, ""):
        remedy = "unpack it first" if suffix in map(str.lower, PACKED) else "save the table as CSV"
        raise DataError(
            f"{place}: expected a .csv, .tsv or .parquet file (text also with .gz), got "
            f"{suffix!r}; {remedy}"
        )
    return suffix in _PARQUET_SUFFIXES


@contextmanager
def opened(place: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; say what is there instead where it cannot be."""
    refuse_device(place)
    try:
        file = place.open("rb")
    except FileNotFoundError:
        raise DataError(f"{place}: {no_such_file(place)}") from None
    except IsADirectoryError:
        raise DataError(f"{place}: expected a file, got a folder; name a file in it") from None
    except OSError as error:
        raise DataError(f"{place}: cannot be read ({error.strerror}); check its rights") from None
    with file:
        yield file


def _read_parquet(raw: bytes, place: Path) -> pl.DataFrame:
    pl = import_optional("polars", "tables from files")
    try:
        frame = pl.read_parquet(io.BytesIO(raw))
    except Exception as error:  # polars raises its own and Rust's errors
        raise no_parquet(error, place) from None
    if frame.is_empty():
        raise DataError(f"{place}: expected rows, got a table of shape {frame.shape}")
    return frame


def no_parquet(error: Exception, place: Path, expected: str = "a Parquet") -> DataError:
    """Return the error of a file that polars or pyarrow cannot read."""
    with suppress(OSError), place.open("rb") as file:
        if told := _TOLD.get(file.read(4)):
            return DataError(f"{place}: expected {expected} file, got {told}")
    said = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return DataError(
        f"{place}: expected {expected} file, got something else ({said}); write it again, or give "
        "it the ending of its format"
    )


def parse_text(table: Delimited, place: str) -> pl.DataFrame:
    """Return the cells of a proper table as text, without blank lines."""
    pl = import_optional("polars", "tables from files")
    # Text that begins as zlib's files do, such as a column x^2, would be taken for compressed.
    data = codecs.BOM_UTF8 + table.data if table.data.startswith(b"x") else table.data
    try:
        frame = pl.read_csv(io.BytesIO(data), separator=table.separator, infer_schema=False)
        frame.columns = list(table.names)
    except pl.exceptions.PolarsError:
        frame = pl.DataFrame()
    if frame.height != table.n_rows:
        raise DataError(
            f"{place}: expected quotes around whole fields, got a quote inside a field in line "
            f"{_odd_quote(table)}; quote the whole field and write inner quotes twice"
        )
    if table.blank:
        is_blank = pl.int_range(frame.height, eager=True).is_in(table.blank)
        frame = frame.filter(~is_blank)
    return frame


def _odd_quote(table: Delimited) -> int:
    """Return the file's first line in which a quote neither opens nor closes a field."""
    import re

    separator = re.escape(table.separator)
    pattern = re.compile(rf'[^{separator}"]"[^{separator}"]|^[^"]*[^{separator}"\n]"'.encode())
    lines = table.data.splitlines()
    odd = next((i for i, line in enumerate(lines, 1) if pattern.search(line)), 1)
    return table.skipped + odd


def check_columns(wanted: Collection[str], names: list[str], parameter: str) -> None:
    for name in wanted:
        if name not in names:
            remedy = did_you_mean(str(name), names, f"the columns are {listed(names)}")
            raise DataError(
                f"{parameter}: expected a column of the table, got {show(name)}; {remedy}"
            )
