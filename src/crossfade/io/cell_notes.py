"""What a reader should know of how the cells of a table were read, at once or in parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from crossfade._checks import listed, show
from crossfade._optional import import_optional
from crossfade.table.text import is_text

if TYPE_CHECKING:
    import polars as pl

#: What stands for a missing cell in a column of numbers.
NOT_AVAILABLE = frozenset(
    {"NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "NAN", "NULL", "Null", "null", "None"}
    | {"n.a.", "N.A.", "none", "nil", "?", "-", ".", "missing"}
)

#: Those of them that are hardly a word.
_MARKS = NOT_AVAILABLE - {"None", "none", "nil", "-", "missing"}

#: Different cells that are remembered of a column that comes in parts.
_MOST = 10_000


class Texts:
    """How often each cell of a column in parts occurs: of all parts, or of the first if many."""

    def __init__(self, name: str, missing: Collection[str] = ()) -> None:
        self._name, self._missing, self._full = name, {*missing, ""}, False
        self._counts: dict[str, int] = {}

    def add(self, cells: pl.Series) -> None:
        """Take note of a part."""
        if self._full:
            return
        present = cells.drop_nulls()
        different = present.unique(maintain_order=True)
        self._full = len(different) + len(self._counts) > _MOST
        if not (self._full and self._counts):
            for cell, number in zip(different, present.unique_counts(), strict=True):
                self._counts[cell] = self._counts.get(cell, 0) + number

    def notes(self, *, numbers: bool) -> list[str]:
        """Return notes on the column as text; on numbers in it, too, where asked."""
        pl = import_optional("polars", "tables from files")
        counts = {one: n for one, n in self._counts.items() if one.strip() not in self._missing}
        found = pl.Series(self._name, list(counts), dtype=pl.String)
        return _on_text(found, sum(counts.values()), counts.__getitem__, numbers)


def notes_on_text(cells: pl.Series, *, numbers: bool) -> list[str]:
    """Return notes on a column of text; on numbers in it, too, where asked."""
    cells = cells.drop_nulls()
    found = cells.unique(maintain_order=True)
    return _on_text(found, len(cells), lambda one: int((cells == one).sum()), numbers)


def _on_text(
    found: pl.Series, n_cells: int, count: Callable[[str], int], numbers: bool
) -> list[str]:
    """Return the notes on different cells in order of appearance; `count` tells how often each."""
    notes = _about_words(found, n_cells)
    return notes + _about_numerals(found, n_cells, count) if numbers else notes


def notes_on_digits(numbers: pl.Series, cells: pl.Series) -> list[str]:
    """Return a note where whole numbers, of which these are the cells, are not kept exactly."""
    if largest(numbers) <= 1 << 53 or not cells.str.contains(r"^\s*[+-]?\d{16,}\s*$").any():
        return []
    return [
        f"{show(numbers.name)}: whole numbers of more than 15 digits are not kept exactly, and "
        "tell no rows apart; leave them out (--drop) where they name rows, or read them as text "
        "(--text)"
    ]


def notes_on_points(name: str, cells: pl.Series) -> list[str]:
    """Return a note where 987 stands beside 1.011, which may be a thousand."""
    dotted = cells.str.contains(".", literal=True).fill_null(False)
    whole = cells.filter(~dotted & cells.str.contains(r"^\D*[1-9]\d\d\D*$"))
    if not dotted.any() or not len(whole):
        return []
    return [
        f"{show(name)}: {show(cells.filter(dotted)[0])} stands beside {show(whole[0])} and is read "
        "with a decimal point; delete the points if they stand between groups of three digits"
    ]


def notes_on_marks(unseen: set[str]) -> list[str]:
    """Return a note on marks for missing cells that no cell has."""
    return [f"No cell is {listed(sorted(unseen))}, said to mean missing."] if unseen else []


def largest(series: pl.Series) -> float:
    """Return the largest size of numbers, without a query's threads."""
    ends: list[Any] = [series.min(), series.max()]
    return max((abs(end) for end in ends if end is not None), default=0)


def _about_numerals(found: pl.Series, n_cells: int, count: Callable[[str], int]) -> list[str]:
    """Return a note where numbers are text."""
    name, plain = show(found.name), found.str.strip_chars()
    number = r"^[+-]?\d+(?:[.,]\d+)*"
    units = plain.str.extract(number + r"\s*([^\d\s.,:/+-][^\d\s]{0,4})$").unique()
    if len(found) > 2 and len(units) == 1 and units[0] is not None:
        return [
            f"{name}: {show(plain[0])} is read as text, each such cell as a value of its own; "
            f"delete the unit {show(units[0])} to have numbers"
        ]
    other = ~plain.str.contains(number + "$")
    one = plain.filter(other).unique()
    few = len(one) == 1 and 5 * sum(map(count, found.filter(other))) <= n_cells
    if few and plain.n_unique() > 3 and re.search(r"\d", one[0]) is None:
        return [
            f"{name}: is read as text because {show(one[0])} stands among numbers; --missing "
            f"{show(one[0])} reads them as numbers"
        ]
    return []


def _about_words(found: pl.Series, n_cells: int) -> list[str]:
    """Return notes where two texts of a column hardly differ, or one may stand for no value."""
    plain = found.str.strip_chars()
    marks = plain.filter(plain.is_in(list(_MARKS))).unique(maintain_order=True).to_list()
    alike = found.len() > plain.str.to_lowercase().n_unique()
    if not marks and not alike and not found.str.contains(r"[^\x00-\x7F]|\s\s").any():
        return []
    values = found.to_list()
    if is_text(values, n_cells):
        return []  # its words count, not its cells
    notes = []
    if marks:
        marks = plain.filter(plain.is_in(list(NOT_AVAILABLE))).unique(maintain_order=True).to_list()
        kept = "is kept as a value" if len(marks) == 1 else "are kept as values"
        notes.append(
            f"{show(found.name)}: {listed(marks)} {kept} like others; --missing {show(marks[0])} "
            "reads such cells as missing"
        )
    seen: dict[str, str] = {}
    for value in values:
        folded = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
        known = seen.setdefault(folded, value)
        if known != value:
            notes.append(
                f"{show(found.name)}: {known!a} and {value!a} look alike but are two values; "
                "correct the cells if they are one"
            )
            break
    return notes
