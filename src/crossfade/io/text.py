"""Is this file a table of delimited text? Checked before it is parsed, so that errors are exact.

A parser that meets a short line, a stray quote or a foreign encoding guesses, or stops with a
message about its own insides. Here the bytes are looked at first (some nanoseconds a byte): what
is wrong is said with its line number, and what passes is parsed without surprises.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np

from crossfade._checks import counted, listed, show
from crossfade.errors import DataError
from crossfade.io.encoding import as_utf8, not_utf8, zero_byte

_CHUNK = 1 << 22
#: Bytes below the header that tell whether columns without a name are empty.
_HEAD = 1 << 16
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_OTHER_SEPARATORS = {" ": "space", ":": "colon"}
#: A name that is hardly one: a number with decimals or a sign.
_MEASURED = re.compile(r"[+-]\d+|[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?")
_QUOTE, _NEWLINE = ord('"'), ord("\n")

#: How files that are no text tables begin, and what they are.
_OTHERS = {
    b"PK\x03\x04": "a zip or Excel file; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save the sheet as CSV",
    b"PAR1": "a Parquet file; give it a name that ends in .parquet",
    b"ARROW1": "an Arrow file; give it a name that ends in .arrow",
    b"%PDF": "a PDF file; save the table as CSV",
    **dict.fromkeys((b"<!", b"<?xml", b"<html", b"<table"), "HTML or XML; save the table as CSV"),
    **dict.fromkeys((b"{", b"[{", b"[["), "JSON; save the table as CSV"),
}


@dataclass(frozen=True)
class Delimited:
    """Text that is a proper table.

    `data`: UTF-8, lines ended by a newline, no blank lines at the end.
    `names`: The header's names, spaces around them removed; `unnamed` are those it did not give.
    `n_rows`: Records after the header, blank lines among them.
    `blank`: Which of these are blank lines; of a single column they are missing cells, and none is.
    `skipped`: Lines of the file between its header and the first record here (see
        :func:`text_batches`).
    """

    data: bytes
    separator: str
    names: tuple[str, ...]
    n_rows: int
    skipped: int = 0
    blank: tuple[int, ...] = ()
    unnamed: tuple[str, ...] = ()


def check_text(
    raw: bytes, path: str, separator: str | None, encoding: str | None = None
) -> Delimited:
    """Return the text as a proper table."""
    file = cast(BinaryIO, io.BufferedReader(cast(Any, io.BytesIO(_decompressed(raw, path)))))
    data = _decoded(as_utf8(file, path, encoding).read(), path)
    data, _, separator, names, unnamed = _header(data, path, separator)
    n_records, blank = _check_records(data, separator, len(names), path)
    if n_records - len(blank) == 1:
        raise _no_rows(names, path)
    skipped = tuple(i - 1 for i in blank)
    return Delimited(data, separator, names, n_records - 1, blank=skipped, unnamed=unnamed)


def text_batches(
    file: BinaryIO,
    path: str,
    separator: str | None,
    size: int = _CHUNK,
    *,
    empty: bool = False,
    encoding: str | None = None,
) -> Iterator[Delimited]:
    """Yield a file as proper tables of some rows each, one after the other.

    No more than a few times `size` is held at any time, whatever the size of the file.
    """
    if file.peek(2)[:2] == b"\x1f\x8b":  # type: ignore[attr-defined]
        file = cast(BinaryIO, gzip.GzipFile(fileobj=file))
    try:
        file = as_utf8(file, path, encoding)
    except (EOFError, OSError, zlib.error) as error:
        raise _damaged(error, path) from None
    parts = _whole_records(_blocks(file, path, size), path, size)
    first = _decoded(next(parts, b""), path)
    if _header_end(first, path) == len(first) - 1:
        first += next(parts, b"")
    first, end, separator, names, unnamed = _header(first, path, separator)
    header, body = first[: end + 1], first[end + 1 :]
    if not body:
        if not empty:
            raise _no_rows(names, path)
        yield Delimited(header, separator, names, 0, 0, unnamed=unnamed)
    first_line, skipped = header.count(b"\n") + 1, 0
    while body:
        _check_encoding(body, path, first_line + skipped)
        n_rows, blank = _check_records(body, separator, len(names), path, first_line + skipped)
        yield Delimited(header + body, separator, names, n_rows, skipped, blank, unnamed)
        skipped += body.count(b"\n")
        body = next(parts, b"")


def _blocks(file: BinaryIO, path: str, size: int) -> Iterator[bytes]:
    """Yield a file in blocks of bytes; lines that end as old Macs had it end as elsewhere."""
    try:
        head = file.peek(8192)  # type: ignore[attr-defined]
        old_macs = b"\r" in head[:-1] and b"\n" not in head
        while block := file.read(size):
            yield block.replace(b"\r", b"\n") if old_macs else block
    except (EOFError, OSError, zlib.error) as error:
        raise _damaged(error, path) from None


def _whole_records(blocks: Iterator[bytes], path: str, size: int) -> Iterator[bytes]:
    """Yield the same bytes cut where records end; blank lines at the very end are left out."""
    rest, lines = b"", 0
    for block in blocks:
        rest += block
        cut = _last_record_end(rest)
        # Blank lines stay behind: they may be the last ones.
        part = rest[: cut + 1].rstrip(b"\r\n")
        if part:
            rest = rest[len(part) :]
            ending = rest.index(b"\n") + 1
            part, rest = part + b"\n", rest[ending:]
            lines += part.count(b"\n")
            yield part
        elif len(rest) > 16 * size + 1_000_000:
            raise _broken_quotes(path, lines + 1)
    rest = rest.rstrip(b"\r\n")
    if rest:
        yield rest + b"\n"


def _last_record_end(data: bytes) -> int:
    """Return where the last newline outside quotes stands, -1 without one."""
    end = data.rfind(b"\n")
    quotes = data.count(b'"', 0, max(end, 0))
    while end >= 0 and quotes % 2:
        # All newlines after the quote that opened are inside it.
        before = data.rfind(b"\n", 0, data.rfind(b'"', 0, end))
        quotes -= data.count(b'"', max(before, 0), end)
        end = before
    return end


def _header(
    data: bytes, path: str, separator: str | None
) -> tuple[bytes, int, str, tuple[str, ...], tuple[str, ...]]:
    """Return the text, where its header ends, the separator, the names, and those made up.

    Where the first row alone ends with a separator, the header is given one, too.
    """
    end = _header_end(data, path)
    header = data[:end].decode()
    first = header.strip()
    if not first or re.fullmatch('"?sep=."?', first, re.IGNORECASE):
        found = f"{first!r}, which Excel alone reads" if first else "a blank line"
        raise DataError(
            f"{path}: expected the names of the columns in line 1, got {found}; delete what stands "
            "above the names"
        )
    separator = separator or _sniffed(header, path)
    names = _names(header, separator, path)
    below = data[end + 1 :][:_HEAD]
    text = io.StringIO(below.decode(errors="replace"), newline="")
    row = next((row for row in csv.reader(text, delimiter=separator) if row), [])
    if len(row) == len(names) + 1 and not row[-1].strip() and len(names) > 1:
        data = data[:end] + separator.encode() + data[end:]
        end, names = end + len(separator.encode()), (*names, "")
    given = _all_named(names, below, separator)
    check_names(given, path)
    return data, end, separator, given, tuple(name for name in given if name not in names)


def _no_rows(names: tuple[str, ...], path: str) -> DataError:
    return DataError(
        f"{path}: expected rows below the header, got none; the header names "
        f"{counted(len(names), 'column')}"
    )


def _damaged(error: Exception, path: str) -> DataError:
    return DataError(
        f"{path}: expected a whole gzip file, got a damaged one ({error}); copy it again"
    )


def _decompressed(raw: bytes, path: str) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise _damaged(error, path) from None


def _decoded(data: bytes, path: str) -> bytes:
    """Return UTF-8 without byte-order mark, with plain newlines, ending in just one."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    for begin, told in _OTHERS.items():
        if data[:10].lower().startswith(begin.lower()):
            raise DataError(f"{path}: expected a text table, got {told}")
    _check_encoding(data, path)
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    data = data.rstrip(b"\r\n \t") if not data.strip() else data.rstrip(b"\r\n")
    if not data:
        raise DataError(f"{path}: expected a header line and rows, got an empty file")
    return data + b"\n"


def _check_encoding(data: bytes, path: str, line: int = 1) -> None:
    """Refuse what is not UTF-8, `data` beginning in this line of the file."""
    if b"\0" in data:
        raise zero_byte(data, path, data.count(b"\n", 0, data.index(0)) + line)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        at = error.start
        raise not_utf8(data, at, path, data.count(b"\n", 0, at) + line) from None


def _header_end(data: bytes, path: str) -> int:
    """Return where the first record ends: the first newline outside quotes."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        if data.count(b'"', 0, end) % 2 == 0:
            return end
        start = end + 1
    raise _broken_quotes(path, 1)


def _sniffed(header: str, path: str) -> str:
    lower = path.lower().removesuffix(".gz")
    first = "\t" if lower.endswith((".tsv", ".tab")) else ","
    others = Counter({other: header.count(other) for other in _SEPARATORS})
    if others[first] or not any(others.values()):
        return first
    return others.most_common(1)[0][0]


def _names(header: str, separator: str, path: str) -> tuple[str, ...]:
    try:
        fields = next(csv.reader(io.StringIO(header, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise DataError(
            f"{path}: expected a header of column names, got a line that cannot be read ({error}); "
            "quote a name that holds the separator or a quote, or name the separator (--separator)"
        ) from None
    return tuple(name.strip() for name in fields)


def _all_named(names: tuple[str, ...], below: bytes, separator: str) -> tuple[str, ...]:
    """Return names also for columns that the header gives none, called as pandas calls them.

    R and pandas give none to row names, spreadsheets none to an empty column.
    """
    unnamed = [i for i, name in enumerate(names) if not name]
    if 2 * len(unnamed) >= len(names):
        # Hardly the line of the names, unless these columns are empty.
        text = io.StringIO(below.decode(errors="replace"), newline="")
        for row in csv.reader(text, delimiter=separator):
            if any(cell.strip() for i in unnamed for cell in row[i : i + 1]):
                return names
    return tuple(name or f"Unnamed: {i}" for i, name in enumerate(names))


def check_names(names: Sequence[str], path: str) -> None:
    remedy = "name it, or leave it out if it numbers the rows"
    if 2 * sum(map(bool, names)) < len(names):
        remedy = "delete what stands above the names of the columns"
    for position, name in enumerate(names):
        if not name:
            raise DataError(
                f"{path}: expected a name for every column, got none for column {position + 1} of "
                f"{len(names)} in the header; {remedy}"
            )
    for name, times in Counter(names).most_common(1):
        if times == 1:
            return
        raise DataError(
            f"{path}: expected column names that differ, got {show(name)} {times} times in the "
            "header; rename or drop the repeated columns"
        )


def _check_records(
    data: bytes, separator: str, n_fields: int, path: str, first_line: int = 1
) -> tuple[int, tuple[int, ...]]:
    """Return how many records there are, all of `n_fields` fields, and which are blank lines.

    A quoted newline ends no record.
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    quoted = b'"' in data
    inside, separators, ends, counts = 0, 0, [], []
    for start in range(0, raw.size, _CHUNK):
        part = raw[start : start + _CHUNK]
        is_separator, is_end = part == ord(separator), part == _NEWLINE
        if quoted:
            parity = np.cumsum(part == _QUOTE, dtype=np.uint8) + np.uint8(inside)
            inside = int(parity[-1]) & 1
            outside = (parity & 1) == 0
            is_separator &= outside
            is_end &= outside
        places = np.flatnonzero(is_end)
        ends.append(places + start)
        running = np.cumsum(is_separator)
        counts.append(running[places] + separators)
        separators += int(running[-1])
    fields = np.diff(np.concatenate(counts), prepend=0) + 1
    wrong = np.flatnonzero(fields != n_fields)
    record_ends = np.concatenate(ends)
    blank = [
        i
        for i in wrong[fields[wrong] == 1].tolist()
        if not data[int(record_ends[i - 1]) + 1 if i else 0 : int(record_ends[i])].strip()
    ]
    wrong = np.setdiff1d(wrong, blank)
    if inside:
        # The quote left open is in the first record that is odd, or in the one that never ends.
        before = record_ends[: wrong[0] if wrong.size else None]
        start = int(before[-1]) + 1 if before.size else 0
        raise _broken_quotes(path, data.count(b"\n", 0, start) + first_line)
    if wrong.size:
        end = int(record_ends[wrong[0]])
        line = data.count(b"\n", 0, end) + first_line
        few = "line" if wrong.size == 2 else "lines"
        more = f" (and {wrong.size - 1} more such {few})" if wrong.size > 1 else ""
        remedy = "fill the line, or quote a field that holds the separator"
        longer = int((fields == n_fields + 1).sum())
        if n_fields == 1:
            remedy = "delete what stands above the names of the columns"
        elif longer > 1 and longer >= fields.size - len(blank) - 1:
            remedy = "quote a field that holds the separator, or name the column that the header "
            remedy += "leaves out, perhaps of row names"
        known = _SEPARATORS | _OTHER_SEPARATORS
        raise DataError(
            f"{path}: expected {counted(n_fields, 'field')} as in the header, separated "
            f"by {known.get(separator, repr(separator) + ' sign')}s, got {int(fields[wrong[0]])} "
            f"in line {line}{more}; {remedy}"
        )
    return int(fields.size), tuple(blank)


def header_notes(
    names: Sequence[str], unnamed: Sequence[str], empty: Sequence[str] = ()
) -> list[str]:
    """Return notes on columns that the header does not name, and on a header that may be a row.

    `empty`: Columns without a name that are left out.
    """
    notes = []
    if empty:
        called = "A column" if len(empty) == 1 else f"{len(empty)} columns"
        verb = "is" if len(empty) == 1 else "are"
        notes.append(f"{called} without a name and without cells {verb} left out.")
    if unnamed:
        called = "A column without a name is" if len(unnamed) == 1 else "Columns without a name are"
        notes.append(f"{called} called {listed(unnamed)}.")
    if numbers := [name for name in names if _MEASURED.fullmatch(name)]:
        notes.append(
            f"The first line is read as the names of the columns, and {show(numbers[0])} is one of "
            "them; if that line is a row, write a line of names above it."
        )
    return notes


def blank_lines(number: int) -> list[str]:
    """Return a note on blank lines that were skipped, if there were any."""
    if not number:
        return []
    return [f"{counted(number, 'blank line')} {'was' if number == 1 else 'were'} skipped."]


def _broken_quotes(path: str, line: int) -> DataError:
    return DataError(
        f"{path}: expected every quote to be closed, got one left open, probably in line {line}; "
        'close it, or write a quote inside a quoted field twice ("")'
    )
