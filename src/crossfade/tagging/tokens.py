"""Column files: one token per line, columns apart by tabs or spaces, a blank line after a sentence.

The form of the CoNLL shared tasks. The last column is usually the label.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from crossfade._checks import counted, show
from crossfade.errors import DataError
from crossfade.files import no_such_file, refuse_device

#: What stands between columns without tabs; str.split would cut at a no-break space as well.
_SPACES = re.compile("[ \t]+")


def read_columns(path: str | Path, *, encoding: str | None = None) -> list[list[tuple[str, ...]]]:
    """Read a column file, plain or compressed by gzip (``.gz``).

    Its encoding is UTF-8 if none is given, and UTF-16 where the file begins with its mark.

    Columns are apart by tabs if the first line of data has one (cells may then hold spaces), else
    by any run of spaces and tabs; a no-break space is part of a word. Lines of spaces and tabs
    alone end a sentence. Lines end as on any system: LF, CR LF or CR.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crossfade.tagging import read_columns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "tokens.txt")
    ...     _ = file.write_text("the D\\ndog N\\n\\nruns V\\n")
    ...     print(read_columns(file))
    [[('the', 'D'), ('dog', 'N')], [('runs', 'V')]]
    """
    sentences: list[list[tuple[str, ...]]] = []
    sentence: list[tuple[str, ...]] = []
    tabs = False
    width = 0
    for number, line in enumerate(_lines(Path(path), encoding), start=1):
        if not line.strip(" \t"):
            if sentence:
                sentences.append(sentence)
                sentence = []
            continue
        if not width and "\t" in line:
            tabs = True
        cells = tuple(line.split("\t") if tabs else _SPACES.split(line.strip(" \t")))
        width = width or len(cells)
        if len(cells) != width or not all(cells):
            raise DataError(
                f"{path}, line {number}: expected {counted(width, 'non-empty column')} as in the "
                f"first line, got {show(line)}; separate columns by tabs throughout, or by spaces "
                "throughout"
            )
        sentence.append(cells)
    if sentence:
        sentences.append(sentence)
    if not sentences:
        raise DataError(f"{path}: expected at least one token, got an empty file")
    return sentences


def _lines(path: Path, encoding: str | None) -> list[str]:
    refuse_device(path)
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise DataError(f"{path}: {no_such_file(path)}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"{path}: expected a column file that can be read ({reason}); check the path, or copy "
            "the file again"
        ) from error
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        text = content.decode(encoding or "utf-8-sig").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: expected {encoding or 'UTF-8'} text, got the byte "
            f"{content[error.start : error.start + 1]!r}; name the file's encoding, or convert it "
            "to UTF-8"
        ) from error
    except LookupError:
        raise DataError(
            f"encoding: expected the name of an encoding such as utf-8, cp1252 or utf-16, got "
            f"{encoding!r}"
        ) from None
    # Not splitlines: a word may hold a form feed or another of Unicode's line breaks.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def write_columns(sentences: Iterable[Sequence[Sequence[str]]], separator: str = "\t") -> str:
    """Return sentences as the text of a column file.

    Examples
    --------
    >>> from crossfade.tagging import write_columns
    >>> write_columns([[("the", "D"), ("dog", "N")], [("runs", "V")]], separator=" ").splitlines()
    ['the D', 'dog N', '', 'runs V']
    """
    blocks = ["".join(separator.join(token) + "\n" for token in s) for s in sentences]
    return "\n".join(blocks)
