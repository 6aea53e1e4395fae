"""Table files a batch of rows at a time, for tables larger than memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.io.encoding import check_encoding
from crossfade.io.reading import PACKED, is_parquet, no_parquet, opened, parse_text
from crossfade.io.text import text_batches

if TYPE_CHECKING:
    import polars as pl

_ARROW = (".arrow", ".feather", ".ipc")
_FORMATS = (".parquet", ".pq", *_ARROW, ".csv", ".tsv", ".csv.gz", ".tsv.gz")

#: Of these there may be others in a folder; they are refused by name, for their rows would lack.
_PACKED = tuple(f"{text}{packed}".lower() for text in (".csv", ".tsv") for packed in PACKED)


def table_files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files, of one format, that a file, a folder, a pattern or a list stands for."""
    if not isinstance(path, (str, Path)):
        named = [Path(one) for one in path]
    elif any(mark in str(path) for mark in "*?[") and not Path(path).exists():
        named = [Path(one) for one in sorted(glob.glob(str(path), recursive=True))]
    else:
        named = [Path(path)]
    inside = [file for one in named if one.is_dir() for file in _files_below(one)]
    files = [one for one in named if not one.is_dir()]
    if inside:
        # What a pattern names both by itself and in its folder is read once.
        files = sorted({os.path.realpath(one): one for one in [*inside, *files]}.values())
    if not files:
        raise DataError(
            f"path: expected table files ({', '.join(_FORMATS)}), got none in {str(path)!r}; "
            "name a file, or a folder that holds some"
        )
    formats = {file_format(file) for file in files}
    if len(formats) > 1:
        raise DataError(
            f"path: expected files of one format, got {' and '.join(sorted(formats))} in "
            f"{str(path)!r}; name those of one with a pattern such as '*.parquet'"
        )
    return files


def _files_below(folder: Path) -> list[Path]:
    """Return the table files in a folder and below it, each once."""
    found = [one for one in _below(folder) if one.name.lower().endswith((*_FORMATS, *_PACKED))]
    # The same file in several places is read once, by its own name if it is there.
    found.sort(key=lambda one: (os.path.realpath(one) != os.path.abspath(one), one))
    files = sorted({os.path.realpath(one): one for one in reversed(found)}.values())
    for one in files:
        if not one.is_file():
            what = "a link to nothing" if one.is_symlink() else "something else"
            raise DataError(f"{one}: expected a file of the table, got {what}; remove it")
    return files


def _below(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield what is in a folder and in those below it, hidden ones apart, links followed.

    `above`: Real paths of the folders on the way, to which a link leads back in a circle.
    """
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        inside = list(folder.iterdir())
    except OSError as error:
        raise DataError(
            f"{folder}: expected a folder that can be read, got {error.strerror}; allow it, or "
            "name the files"
        ) from None
    for one in inside:
        if one.name.startswith((".", "_")):
            continue
        if one.is_dir():
            yield from _below(one, (*above, real))
        else:
            yield one


def file_format(file: Path) -> str:
    """Return "Arrow", "Parquet" or "text"."""
    if file.suffix.lower() in _ARROW:
        return "Arrow"
    return "Parquet" if is_parquet(file) else "text"


class Batch(NamedTuple):
    """Some rows of a file, text as it stands in it; its first row is number 1.

    `skipped`: Blank lines among them. `unnamed`: Columns that the header gives no name.
    """

    frame: pl.DataFrame
    first: int
    file: Path
    skipped: int = 0
    unnamed: tuple[str, ...] = ()


def read_batches(
    path: str | Path | Sequence[Path],
    *,
    separator: str | None = None,
    encoding: str | None = None,
    size: int = 1 << 24,
    empty: bool = False,
) -> Iterator[Batch]:
    """Yield the rows of a file, a folder, a pattern or a list of files in constant memory.

    `empty`: Whether delimited text may have no rows, as it may among several files.
    """
    check_encoding(encoding)
    files = table_files(path)
    found, empty_one = empty, empty or len(files) > 1
    for file in files:
        text = file_format(file) == "text"
        how: dict[str, Any] = {"separator": separator, "encoding": encoding}
        how |= {"size": size, "empty": empty_one}
        for batch in _text(file, **how) if text else _typed(file, size):
            found = found or batch.frame.height > 0
            yield batch
    if not found:
        raise DataError(f"{files[0]}: expected rows, got a table without any; add some")


def _text(place: Path, **how: Any) -> Iterator[Batch]:
    first = 1
    with opened(place) as file:
        for table in text_batches(file, str(place), **how):
            frame = parse_text(table, str(place))
            yield Batch(frame, first, place, len(table.blank), table.unnamed)
            first += frame.height


def _typed(place: Path, size: int) -> Iterator[Batch]:
    pl = import_optional("polars", "tables from files")
    with opened(place):
        pass  # says what is there instead
    is_arrow = file_format(place) == "Arrow"
    try:
        scan = (pl.scan_ipc if is_arrow else pl.scan_parquet)(place, glob=False)
        width = len(scan.collect_schema())
        n_rows = scan.select(pl.len()).collect().item()
        step = max(1, size // (8 * max(width, 1)))
        for start in range(0, n_rows, step):
            yield Batch(scan.slice(start, step).collect(), start + 1, place)
    except Exception as error:  # polars raises its own and Rust's errors
        raise no_parquet(error, place, "an Arrow" if is_arrow else "a Parquet") from None
