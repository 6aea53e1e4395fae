"""Text in other encodings than UTF-8, as UTF-8."""

from __future__ import annotations

import codecs
import io
from encodings.aliases import aliases
from typing import BinaryIO, cast

from crossfade._checks import did_you_mean, show
from crossfade.errors import DataError

_CHUNK = 1 << 20

#: Encodings that the first bytes of a file tell.
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def check_encoding(encoding: str | None) -> str | None:
    """Return an encoding's own name, None for UTF-8; refuse what is none."""
    if encoding is None:
        return None
    try:
        name = codecs.lookup(encoding).name
        b"?".decode(name, "replace")
    except (LookupError, TypeError, ValueError):
        known = sorted(one.replace("_", "-") for one in set(aliases.values()) if "codec" not in one)
        remedy = did_you_mean(str(encoding), known, "Excel's CSV is often cp1252")
        raise DataError(
            "encoding: expected the name of an encoding such as utf-8, cp1252 or utf-16, got "
            f"{show(encoding)}; {remedy}"
        ) from None
    return None if name in ("utf-8", "utf-8-sig", "ascii") else name


def as_utf8(file: BinaryIO, path: str, encoding: str | None) -> BinaryIO:
    """Return a file as UTF-8; its byte-order mark counts for more than the encoding."""
    head = file.peek(4)[:4]  # type: ignore[attr-defined]
    mark = next((one for one in (codecs.BOM_UTF8, *_MARKS) if head.startswith(one)), b"")
    found = _MARKS.get(mark) if mark else check_encoding(encoding)
    if found is None:
        return file
    file.read(len(mark))
    return cast(BinaryIO, io.BufferedReader(_Recoded(file, path, found), _CHUNK))


class _Recoded(io.RawIOBase):
    """What a file of text holds, as UTF-8."""

    def __init__(self, file: BinaryIO, path: str, encoding: str) -> None:
        self._file, self._path, self._encoding = file, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._left = memoryview(b"")
        self._line = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        block = b"?"
        while not len(self._left) and block:
            block = self._file.read(_CHUNK)
            self._left = memoryview(self._decoded(block).encode("utf-8", "surrogatepass"))
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def _decoded(self, block: bytes) -> str:
        try:
            text = self._decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._encoding, "replace")
            raise DataError(
                f"{self._path}: expected text encoded as {self._encoding}, got byte "
                f"0x{error.object[error.start]:02x} in line {self._line + before.count(chr(10))}; "
                "name another encoding (--encoding), or save the file again as UTF-8"
            ) from None
        self._line += text.count("\n")
        return text


def not_utf8(data: bytes, at: int, path: str, line: int) -> DataError:
    """Return the error of a byte that UTF-8 does not have there, in this line of the file."""
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        meant, name = "in another encoding, perhaps that of DOS", "cp850"
    else:
        meant, name = "Windows-1252 (Latin-1), as Excel writes CSV", "cp1252"
    return DataError(
        f"{path}: expected text encoded as UTF-8, got byte 0x{data[at]:02x} in line {line}, which "
        f"is probably {meant}; name the encoding (--encoding {name}), or save the file again as "
        "UTF-8 (in a spreadsheet: CSV UTF-8)"
    )


def zero_byte(data: bytes, path: str, line: int) -> DataError:
    """Return the error of text with a byte 0 in this line of the file."""
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        some = data[first:400:2]
        if 2 * some.count(0) > len(some):
            return DataError(
                f"{path}: expected text encoded as UTF-8, got what is probably UTF-16; name the "
                f"encoding (--encoding {name}), or save the file again as UTF-8"
            )
    return DataError(
        f"{path}: expected a text table, got binary data (line {line} holds a zero byte); save it "
        "as CSV"
    )
