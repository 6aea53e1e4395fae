"""The types of columns of text.

Only empty cells are missing, with one exception: in a column that otherwise holds numbers, the
usual marks for "not available" (``NA``, ``NaN``, ``null``, ``?``, …) are missing as well, since
they can be nothing else there. In a column of text they stay text (NA is Namibia, or a house
without a basement); ``missing_values=["NA"]`` makes them missing everywhere.

A column becomes integers, floats or booleans (true/false) if all its cells are, else text. Whole
numbers with leading zeros (``007``) are codes and stay text. A column of numbers with some cells of
text among them is refused: reading it as categories would hide a mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfade._checks import counted, listed, show
from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.io.cell_notes import (
    NOT_AVAILABLE,
    largest,
    notes_on_digits,
    notes_on_marks,
    notes_on_points,
    notes_on_text,
)
from crossfade.io.numerals import (
    NUMERAL,
    Written,
    is_unsure,
    looks_numeric,
    notation_of_file,
    shows_marks,
    told_as,
)
from crossfade.table.text import are_dates

if TYPE_CHECKING:
    import polars as pl

#: Whole numbers with leading zeros: codes.
CODE = r"^[+-]?0\d"

#: Different numbers that are remembered: of more, it is no column of categories.
MOST_DIFFERENT = 21

#: Cells whose types are looked for at a time.
_BLOCK_CELLS = 1 << 22

#: Digits that mean the same beside them.
_BITS = {"1": True, "0": False}

TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class CellCounts(NamedTuple):
    """How many cells of a column are numbers, which (some of more than 20), and how many others.

    `numerals`, `written`: How many of the others people write as numbers, and which.
    """

    numbers: int
    different: frozenset[float]
    others: int
    numerals: int
    written: frozenset[str]


class TableFile(NamedTuple):
    """A table from a file, and what a reader should know of how its cells were read.

    `written`: How people wrote the numbers of its columns that Python would write otherwise; None
        where these have types of their own.
    """

    frame: pl.DataFrame
    notes: tuple[str, ...]
    written: dict[str, dict[str, Any]] | None = None


def cells_as_read(
    frame: pl.DataFrame, missing: Collection[str] = (), unseen: set[str] | None = None
) -> pl.DataFrame:
    """Return some rows of a file whose columns have types, as those of a whole file are read.

    `unseen`: Marks for missing cells; those that are seen are taken out.
    """
    pl = import_optional("polars", "tables from files")
    empty = [*missing, ""]
    changed = []
    for series in frame.iter_columns():
        if series.dtype == pl.String:
            stripped = series.str.strip_chars()
            is_empty = stripped.is_in(empty)
            if is_empty.any():
                changed.append(series.set(is_empty, None))
                if unseen:
                    unseen.difference_update(stripped.filter(is_empty).unique())
        elif (read := unmarked(_wide(pl, series), missing, unseen)) is not series:
            changed.append(read)
    return frame.with_columns(changed) if changed else frame


def typed_table(
    frame: pl.DataFrame,
    place: str,
    missing: frozenset[str],
    text: frozenset[str],
    unjudged: set[str],
) -> TableFile:
    """Return a table whose columns of text are numbers or booleans where all their cells are."""
    pl = import_optional("polars", "tables from files")
    notes: list[str] = []
    unseen = set(missing)
    columns = {series.name: _wide(pl, series) for series in frame.iter_columns()}
    words = [name for name, series in columns.items() if series.dtype == pl.String]
    height, written, unsure = frame.height, Written(place), {}
    # Asking a column costs a query, so that short ones are asked many at once, end to end.
    step = max(1, _BLOCK_CELLS // max(1, height))
    for start in range(0, len(words), step):
        block = words[start : start + step]
        cells = pl.concat([columns[name] for name in block], rechunk=True)
        stripped = cells.str.strip_chars()
        empty = stripped.is_in([*missing, ""])
        if unseen:
            unseen.difference_update(stripped.filter(empty).unique())
        cells, stripped = cells.set(empty, None), stripped.set(empty, None)
        floats = stripped.cast(pl.Float64, strict=False).fill_nan(None)
        whole = stripped.cast(pl.Int64, strict=False)
        coded = stripped.str.contains(CODE).fill_null(False)
        n_empty, n_odd, n_broken, n_coded = (
            one.to_numpy().reshape(len(block), height).sum(axis=1).tolist()
            for one in (stripped.is_null(), floats.is_null(), whole.is_null(), coded)
        )
        few = min(height, 100)
        first = pl.concat([stripped.slice(k * height, few) for k in range(len(block))])
        told = shows_marks(first).to_numpy().reshape(len(block), few).sum(axis=1).tolist()
        for k, name in enumerate(block):
            rows = k * height, height
            series = cells.slice(*rows)
            if name not in text and name not in unjudged:
                one = series.alias(name), stripped.slice(*rows)
                if n_broken[k] > n_empty[k] and not told[k] and is_unsure(one[1]):
                    unsure[name] = one
                elif n_odd[k] > n_empty[k] or n_empty[k] == height:
                    series = typed_column(*one, f"{place}: column {show(name)}", notes, written)
                elif n_broken[k] > n_odd[k] or not n_coded[k]:
                    broken = n_broken[k] > n_odd[k]
                    series = (floats if broken else whole).slice(*rows)
            columns[name] = series.alias(name)
    if unsure:
        dots = pl.col(words).str.contains(".", literal=True).any()
        dotted = frame.select(dots).row(0, named=True)
        known = notation_of_file(
            written.known(name).point
            or ("." if dotted[name] and columns[name].dtype == pl.Float64 else None)
            for name in words
        )
        for name, (series, stripped) in unsure.items():
            written.settle(name, known)
            where = f"{place}: column {show(name)}"
            read = typed_column(series, stripped.alias(name), where, notes, written)
            columns[name] = read.alias(name)
            if known.decimal is None:
                notes += notes_on_points(name, stripped)
    for name, series in columns.items():
        columns[name] = unmarked(series, missing, unseen)
    notes += notes_on_marks(unseen)
    shown = {}
    for name in words:
        if name in unjudged:
            continue
        series = columns[name]
        if series.dtype == pl.String:
            notes += notes_on_text(series, numbers=name not in text)
        if series.dtype.is_numeric():
            notes += notes_on_digits(series, frame[name])
            if largest(series) == float("inf"):
                refuse_beyond(frame[name], series, f"{place}: column {show(name)}")
            if as_shown := written.as_shown(name, frame[name]):
                shown[name] = as_shown
    return TableFile(pl.DataFrame(list(columns.values())), tuple(notes), shown)


def refuse_beyond(cells: pl.Series, numbers: pl.Series, where: str, first: int = 1) -> None:
    """Refuse digits that make a number larger than any, such as 1e400."""
    beyond = (numbers.cast(float).is_infinite() & cells.str.contains(r"\d")).fill_null(False)
    if beyond.any():
        row = int(beyond.arg_true()[0])
        raise too_large(where, cells[row], f"row {first + row}", int(beyond.sum()))


def too_large(where: str, cell: str, row: str, number: int) -> DataError:
    """Return the error of a cell, one of so many, that makes a number larger than any."""
    return DataError(
        f"{where}: expected numbers below 1.8e308, got {show(cell)} in {row} "
        f"({counted(number, 'such cell')}); correct the cells, or leave them empty where unknown"
    )


def _wide(pl: Any, series: pl.Series) -> pl.Series:
    """Return numbers of any width as 64-bit integers or floats, so that no arithmetic wraps.

    Dates and times are the text that they would be in a text file.
    """
    if series.dtype in (pl.String, pl.Int64, pl.Float64):
        return series
    if series.dtype.is_integer():
        wide = series.cast(pl.Int64, strict=False)
        return wide if wide.null_count() == series.null_count() else series.cast(pl.Float64)
    if is_date(series):
        return series.cast(pl.String)
    return series.cast(pl.Float64) if series.dtype.is_numeric() else series


def is_date(series: pl.Series) -> bool:
    """Return whether cells are dates or times, not durations."""
    return (
        series.dtype.is_temporal() and series.dtype != import_optional("polars", "dates").Duration
    )


def unmarked(
    series: pl.Series, missing: Collection[str], unseen: set[str] | None = None
) -> pl.Series:
    """Return numbers without those that a mark names, such as "999"; the same if there is none.

    `unseen`: Marks that are not seen yet; these are taken out.
    """
    pl = import_optional("polars", "tables from files")
    marks = {mark: number for mark in missing if (number := _number(mark)) is not None}
    if not marks or not series.dtype.is_numeric():
        return series
    numbers = series.cast(pl.Float64)
    named = numbers.is_in(list(marks.values()))
    if not named.any():
        return series
    if unseen:
        seen = set(numbers.filter(named).unique())
        unseen.difference_update([mark for mark, number in marks.items() if number in seen])
    return series.set(named, None)


def _number(mark: str) -> float | None:
    try:
        return float(mark)
    except ValueError:
        return None


def typed_column(
    series: pl.Series,
    stripped: pl.Series,
    where: str,
    notes: list[str],
    written: Written | None = None,
    counts: CellCounts | None = None,
) -> pl.Series:
    """Return the column as integers, floats or booleans if all its cells are, else unchanged.

    `written`: Takes note of how its numbers are written.
    `counts`: Of all cells, where these stand for more.
    """
    pl = import_optional("polars", "tables from files")
    numbers = stripped.cast(pl.Float64, strict=False).fill_nan(None)
    other = stripped.filter(numbers.is_null() & stripped.is_not_null())
    marks = set(other.unique().to_list())
    if not marks <= NOT_AVAILABLE:
        cells = stripped.set(stripped.is_in(list(NOT_AVAILABLE)), None)
        found = (written or Written(where)).plain(series.name, cells, 1, "")
        if found is None:
            counts = counts or _counts_of(numbers, other)
            _refuse_amid_text(cells, numbers, where, counts)
            return _text(series, stripped, numbers, other, where, notes, counts)
        plain, read = found
        notes.append(f"{show(series.name)}: {told_as(cells, plain, read)}")
        stripped, numbers = plain, read
    elif numbers.null_count() == len(series) > series.null_count():
        return series  # nothing but marks for missing cells
    elif written is not None:
        read = written.numbers(series.name, stripped, numbers, 1, "")
        if told := told_as(stripped, numbers, read):
            notes.append(f"{show(series.name)}: {told}")
        numbers = read
    whole = stripped.set(numbers.is_null(), None).cast(pl.Int64, strict=False)
    if whole.null_count() > numbers.null_count():
        return numbers
    return series if stripped.str.contains(CODE).any() else whole


def _counts_of(numbers: pl.Series, other: pl.Series) -> CellCounts:
    present, written = numbers.drop_nulls(), numerals_of(other)
    return CellCounts(
        len(present),
        frozenset(present.unique().head(MOST_DIFFERENT).to_list()),
        len(other),
        len(written),
        frozenset(written.unique().head(MOST_DIFFERENT).to_list()),
    )


def numerals_of(cells: pl.Series) -> pl.Series:
    """Return the cells that people write as numbers, and Python does not."""
    return cells.filter(cells.str.contains(NUMERAL).fill_null(False))


def _text(
    series: pl.Series,
    stripped: pl.Series,
    numbers: pl.Series,
    other: pl.Series,
    where: str,
    notes: list[str],
    counts: CellCounts,
) -> pl.Series:
    """Return a column as text or booleans; say where it looks like numbers."""
    if set(other.unique().to_list()) <= TRUTH.keys():
        return _truth(series, stripped, numbers, where, notes, counts)
    if counts.numbers:
        n_different = len(counts.different)
        _refuse_mixed(numbers, other, where, counts.numbers, n_different, counts.others)
    else:
        _refuse_commas(other, where)
    if looks_numeric(other) and not are_dates(other.unique().to_list()):
        notes.append(
            f"{show(series.name)}: cells such as {show(other[0])} may be numbers, but are not sure "
            "to be; the column is kept as text"
        )
    return series


def read_truth(cells: pl.Series) -> pl.Series:
    """Return true, false, 1 and 0 as booleans."""
    pl = import_optional("polars", "tables from files")
    return cells.replace_strict(TRUTH | _BITS, default=None, return_dtype=pl.Boolean)


def _truth(
    series: pl.Series,
    stripped: pl.Series,
    numbers: pl.Series,
    where: str,
    notes: list[str],
    counts: CellCounts,
) -> pl.Series:
    """Return true and false as booleans; beside them 0 and 1 mean the same, other numbers none."""
    if counts.numbers:
        digits = stripped.filter(numbers.is_not_null())
        wrong = digits.filter(~digits.is_in(list(_BITS))).to_list()
        wrong += [f"{one:g}" for one in counts.different - {0.0, 1.0}]
        if wrong:
            word = stripped.filter(numbers.is_null() & stripped.is_not_null())[0]
            raise DataError(
                f"{where}: expected true and false (or 1 and 0), or numbers, got both: "
                f"{show(word)} and {show(wrong[0])}; correct the cells, or name the column in text "
                "(--text)"
            )
        notes.append(f"{show(series.name)}: 1 is read as true and 0 as false, as in other rows")
    return read_truth(stripped)


def _refuse_commas(text: pl.Series, where: str) -> None:
    """Refuse numbers written with a comma: is 1,500 a thousand and a half, or one and a half?"""
    if text.str.contains(r"^[+-]?\d[\d. ]*,\d[\d,.]*$").all():
        raise DataError(
            f"{where}: expected numbers with a decimal point, got {show(text[0])}; write 1.5 for "
            "one and a half and 1500 without a comma, or name the column in text (--text)"
        )


def _refuse_amid_text(cells: pl.Series, numbers: pl.Series, where: str, counts: CellCounts) -> None:
    """Refuse a column of numbers as people write them ("1,5") with some text among them."""
    amid = numbers.is_not_null() | cells.str.contains(NUMERAL)
    if not counts.numerals or amid.all():
        return
    read = Written(where).plain(cells.name, cells.set(~amid, None), 1, "")
    if read is not None:
        n_numbers, n_others = counts.numbers + counts.numerals, counts.others - counts.numerals
        n_different = len(counts.different) + len(counts.written)
        _refuse_mixed(read[1], cells.filter(~amid), where, n_numbers, n_different, n_others)


def _refuse_mixed(
    numbers: pl.Series, other: pl.Series, where: str, n_numbers: int, distinct: int, n_others: int
) -> None:
    """Refuse a column of numbers with some text among them.

    Text next to a few numbers that come again and again ("0", "1", "2", "3+") is a column of
    categories; next to many different numbers it is a mistake, or a mark for a missing cell.
    """
    _refuse_commas(other, where)
    if n_numbers < max(2, n_others) or (distinct <= 20 and 2 * distinct <= n_numbers):
        return
    words = other.filter(~other.is_in(list(NOT_AVAILABLE)))
    found = Counter(words.to_list()).most_common()
    raise DataError(
        f"{where}: expected numbers or text, got both: {numbers.drop_nulls()[0]:g} and "
        f"{show(found[0][0])} ({n_others} of {n_numbers + n_others} cells are text); correct the "
        f"cells, or name {listed([cell for cell, _ in found])} in missing_values (--missing "
        "CELL, once for each), or the column in text (--text), or leave it out"
    )
