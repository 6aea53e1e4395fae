"""What all cells of a column of text say together, gathered part by part.

A column of a file is read by the rules of :mod:`crossfade.io.cells`, which need all its cells.
Where these come in parts, the first of all cells that the rules cannot tell apart is kept, and the
others are counted. The rules then read the cells that were kept: a column has the type that it
would have in one file, whichever part shows what its commas mean.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfade._checks import show
from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.io.cell_notes import NOT_AVAILABLE, largest, notes_on_digits, notes_on_points
from crossfade.io.cells import (
    CODE,
    MOST_DIFFERENT,
    TRUTH,
    CellCounts,
    numerals_of,
    read_truth,
    too_large,
    typed_column,
)
from crossfade.io.numerals import (
    DOTTED,
    NUMERAL,
    Notation,
    Written,
    is_unsure,
    notation_of_file,
    plain_numerals,
)

if TYPE_CHECKING:
    import polars as pl

#: Cells that Python reads as numbers, as far as they are told apart.
_NUMBERS = ("code", "whole", "hundreds", "long", "beyond", "letters", "dotted", "fraction")


class CellReading(NamedTuple):
    """How a column's cells are read: the type, and the notation of its numbers.

    `written`: The latter as :meth:`Written.as_shown` says it.
    """

    dtype: Any
    notation: Notation = Notation()
    written: dict[str, Any] | None = None

    def read(self, cells: pl.Series) -> pl.Series:
        """Return cells, spaces around them removed, missing ones null, in the column's type."""
        pl = import_optional("polars", "tables from files")
        if self.dtype == pl.Boolean:
            return read_truth(cells)
        numbers = cells.cast(pl.Float64, strict=False).fill_nan(None)
        if self.notation.decimal == "," or numbers.null_count() > cells.null_count():
            others = cells.set(cells.is_in(list(NOT_AVAILABLE)), None)
            found = plain_numerals(others, self.notation)
            cells = others if found is None else found[0]
            numbers = cells.cast(pl.Float64, strict=False).fill_nan(None)
            assert numbers.null_count() == others.null_count()
        if self.dtype != pl.Int64:
            return numbers
        return cells.set(numbers.is_null(), None).cast(pl.Int64, strict=False)


class Gathered:
    """The cells of one column, as far as the rules of reading tell them apart."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._shown: dict[str, tuple[int, str, int, str]] = {}
        self._numbers = self._others = self._numerals = self._before = self._beyond = 0
        self._different: set[float] = set()
        self._written: set[str] = set()

    def add(self, cells: pl.Series, first: int, of: str) -> None:
        """Take note of a part, spaces around its cells removed and missing ones null.

        `first`: The number of its first row.
        `of`: The file that it is of, in words.
        """
        pl = import_optional("polars", "tables from files")
        if cells.null_count() == len(cells):
            return
        numbers = cells.cast(pl.Float64, strict=False).fill_nan(None)
        is_number = numbers.is_not_null()
        is_other = cells.is_not_null() & ~is_number
        n_numbers = int(is_number.sum())
        self._numbers += n_numbers
        if n_numbers:
            self._of_numbers(cells, numbers, is_number, first, of)
        if n_numbers + cells.null_count() < len(cells):
            self._of_others(cells, is_other, first, of)
        self._before += len(cells)

    def _of_numbers(
        self, cells: pl.Series, numbers: pl.Series, is_number: pl.Series, first: int, of: str
    ) -> None:
        pl = import_optional("polars", "tables from files")
        for some in (numbers.head(1000), numbers):
            if len(self._different) < MOST_DIFFERENT:
                different = some.drop_nulls().unique().head(MOST_DIFFERENT).to_list()
                self._different |= set(different)
        whole = cells.cast(pl.Int64, strict=False).is_not_null() & is_number
        coded = cells.str.contains(CODE).fill_null(False) & whole
        self._keep("code", coded, cells, first, of)
        self._keep("whole", whole & ~coded, cells, first, of)
        if "hundreds" not in self._shown:
            self._keep("hundreds", whole & numbers.is_between(100, 999), cells, first, of)
        if largest(numbers) > 1 << 53:
            long = cells.str.contains(r"^[+-]?\d{16,}$") & (numbers.abs() > 1 << 53)
            self._keep("long", long, cells, first, of)
            beyond = numbers.is_infinite() & cells.str.contains(r"\d")
            self._keep("beyond", beyond, cells, first, of)
            self._beyond += int(beyond.sum())
        fractions = is_number & ~whole
        if "letters" not in self._shown and fractions.any():
            letters = cells.str.contains("[a-zA-Z]").fill_null(False) & fractions
            self._keep("letters", letters, cells, first, of)
            fractions &= ~letters
        if "fraction" not in self._shown and fractions.any():
            # One alone says that dots stand before decimals.
            dotted = cells.str.contains(DOTTED).fill_null(False) & fractions
            self._keep("dotted", dotted, cells, first, of)
            self._keep("fraction", fractions & ~dotted, cells, first, of)

    def _of_others(self, cells: pl.Series, is_other: pl.Series, first: int, of: str) -> None:
        others = cells.filter(is_other)
        self._others += len(others)
        numerals = numerals_of(others)
        self._numerals += len(numerals)
        if len(self._written) < MOST_DIFFERENT:
            self._written |= set(numerals.unique().head(MOST_DIFFERENT).to_list())
        if "text" in self._shown:
            others = numerals
        different = others.unique(maintain_order=True)
        words = different.is_in([*NOT_AVAILABLE, *TRUTH])
        for word in different.filter(words).to_list():
            if word not in self._shown:
                self._keep(word, cells == word, cells, first, of)
        different = different.filter(~words)
        if not len(different):
            return
        numeral = different.str.contains(NUMERAL)
        if not numeral.all():
            text = different.filter(~numeral)[0]
            self._keep("text", cells == text, cells, first, of)
        different = different.filter(numeral)
        shapes = different.str.replace_all(r"\d", "1").str.replace_all("1{5,}", "11111")
        starts = different.str.contains(r"^\D*0")
        for shape, zero, cell in zip(shapes, starts, different, strict=True):
            key = f"{shape} from {zero}"
            if key not in self._shown:
                self._keep(key, cells == cell, cells, first, of)

    def _keep(self, key: str, which: pl.Series, cells: pl.Series, first: int, of: str) -> None:
        if key not in self._shown and which.any():
            row = int(which.fill_null(False).arg_max() or 0)
            self._shown[key] = self._before + row, cells[row], first + row, of

    @property
    def _in_order(self) -> dict[str, tuple[str, int, str]]:
        """The cells that are kept, first ones first, with their rows and files."""
        return {key: shown[1:] for key, shown in sorted(self._shown.items(), key=lambda i: i[1][0])}

    @property
    def _cells(self) -> pl.Series:
        pl = import_optional("polars", "tables from files")
        cells = [cell for cell, _, _ in self._in_order.values()]
        return pl.Series(self.name, cells, dtype=pl.String)

    @property
    def unsure(self) -> bool:
        """Whether other columns must tell what the column's commas or points mean."""
        return is_unsure(self._cells)

    def reading(
        self, path: str, remedy: str = "", known: Notation | None = None
    ) -> tuple[CellReading | None, list[str]]:
        """Return how the column is read, None without cells; and what is worth telling of it.

        `known`: What other columns say of its commas and points.
        """
        pl = import_optional("polars", "tables from files")
        if not self._shown:
            return None, []
        cells = self._cells
        notes: list[str] = []
        written = Written(path)
        if known is not None:
            written.settle(self.name, known)
        where = f"{path}: column {show(self.name)}"
        counts = CellCounts(
            self._numbers,
            frozenset(self._different),
            self._others,
            self._numerals,
            frozenset(self._written),
        )
        try:
            found = typed_column(cells, cells, where, notes, written, counts)
        except DataError as error:
            self._in_one_way(path, remedy)
            raise DataError(f"{error} ({self._places()})") from None
        if found.dtype == pl.String:
            self._in_one_way(path, remedy)
            return CellReading(found.dtype), notes
        if found.dtype.is_numeric() and "beyond" in self._shown:
            _, cell, row, of = self._shown["beyond"]
            raise too_large(where, cell, f"row {row}{of}", self._beyond)
        notes += notes_on_digits(found, cells)
        notation = written.known(self.name)
        if known is not None and known.decimal is None:
            notes += notes_on_points(self.name, cells)
        return CellReading(found.dtype, notation, written.as_shown(self.name, cells)), notes

    def _places(self) -> str:
        """Return where the first number stands, and the first cell that is none."""
        kinds = {key in _NUMBERS: shown for key, shown in reversed(self._in_order.items())}
        told = [f"{show(cell)} in row {row}{of}" for _, (cell, row, of) in sorted(kinds.items())]
        return ", ".join(told)

    def _in_one_way(self, path: str, remedy: str) -> None:
        """Refuse numbers that each can be read, but not all in one way."""
        pl = import_optional("polars", "tables from files")
        written, plain = Written(path, remedy=remedy), []
        for key, (cell, row, of) in self._in_order.items():
            found = plain_numerals(pl.Series([cell]))
            if found is None or key == "code":
                if cell not in NOT_AVAILABLE:
                    return
                continue
            plain.append((cell, found[1], row, of))
        for cell, notation, row, of in plain:
            written.add(self.name, pl.Series([cell]), notation, row, of)


def readings_of(
    gathered: dict[str, Gathered], path: str, remedy: str = "", *, refused: Any = nullcontext
) -> Iterator[tuple[str, CellReading | None, list[str]]]:
    """Yield how columns are read, and what is worth telling; those last that others explain.

    `refused`: Makes the context in which a column is read, which may suppress that it cannot be.
    """
    known: Notation | None = None
    decimals: set[str | None] = set()
    unsure = {name: one.unsure for name, one in gathered.items()}
    for name in sorted(gathered, key=lambda name: unsure[name]):
        if known is None and unsure[name]:
            known = notation_of_file(decimals)
        with refused():
            reading, notes = gathered[name].reading(path, remedy, known)
            decimals.add(None if reading is None else reading.notation.point)
            yield name, reading, notes


def gather(
    gathered: dict[str, Gathered],
    frame: pl.DataFrame,
    missing: Collection[str],
    names: Iterable[str],
    first: int,
    of: str,
) -> None:
    """Take note of some columns of text of a part."""
    empty = [*missing, ""]
    for name in names:
        stripped = frame[name].str.strip_chars()
        cells = stripped.set(stripped.is_in(empty), None)
        gathered.setdefault(name, Gathered(name)).add(cells, first, of)
