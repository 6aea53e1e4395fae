"""Table files a batch of rows at a time, for tables larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.io.reading import is_parquet, no_parquet, opened, parse_text
from crossfade.io.text import text_batches

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Batch", "read_batches"]


class Batch(NamedTuple):
    """Some rows of a table, text as it stands in the file; `first` is 1 below the header."""

    frame: pl.DataFrame
    first: int


def read_batches(
    path: str | Path, *, separator: str | None = None, size: int = 1 << 24
) -> Iterator[Batch]:
    """Yield the rows of a file, whatever its size, in constant memory."""
    place = Path(path)
    if is_parquet(place):
        yield from _parquet_batches(place, size)
        return
    first = 1
    with opened(place) as file:
        for table in text_batches(file, str(place), separator, size):
            frame = parse_text(table, str(place))
            yield Batch(frame, first)
            first += frame.height


def _parquet_batches(place: Path, size: int) -> Iterator[Batch]:
    pl = import_optional("polars", "tables from files")
    with opened(place):
        pass  # says what is there instead
    try:
        scan = pl.scan_parquet(place, glob=False)
        width = len(scan.collect_schema())
        n_rows = scan.select(pl.len()).collect().item()
    except Exception as error:  # polars raises its own and Rust's errors
        raise no_parquet(error, place) from None
    if not n_rows:
        raise DataError(f"{place}: expected rows, got a table of shape {(0, width)}")
    step = max(1, size // (8 * max(width, 1)))
    for start in range(0, n_rows, step):
        yield Batch(scan.slice(start, step).collect(), start + 1)
