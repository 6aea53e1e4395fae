"""Numbers as people write them: $1, 5 %, 1 234, 1'234, 1_000, −1.5, 1,5e-3, digits of any script.

A column is read as numbers where all its cells can mean only one thing together: one sign of
currency or percent in every cell or in none, one separator of groups of three digits, and commas
that some cell shows to be decimal commas or separators. ``5%`` is 5. Where no cell of a column
shows what ``1.234`` or ``1,234`` means, the other columns of the file do, if they agree. Where a
column comes in parts (batches of a file, files of a folder), all parts have one reading, or are
refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crossfade._checks import show
from crossfade._optional import import_optional
from crossfade.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SYMBOLS: Final = "[$€£¥₹%]"
_SPACES: Final = " \u00a0\u2009\u202f"
_GROUPING: Final = f"[{_SPACES}'’_٬]"
_SIGN: Final = r"[+\-−]?"

#: What may be a number, before it is known which comma means what.
NUMERAL: Final = (
    rf"^{_SIGN}[{_SPACES}]?{_SYMBOLS}?[{_SPACES}]?{_SIGN}"
    rf"[\d.,٫]*\d[\d.,٫'’_٬{_SPACES}]*(?:[eE]{_SIGN}\d{{1,3}})?{_SYMBOLS}?$"
)

#: A number whose dots separate groups of three digits.
DOTTED: Final = r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?$"


#: A number whose marks separate groups or stand before decimals: only other cells tell.
_EITHER: Final = rf"^\D*[1-9]\d{{0,2}}(?:[.,]\d{{3}})+[{_SPACES}]*{_SYMBOLS}?$"


def may_mean_either(cells: pl.Series) -> bool:
    """Return whether there are commas or points, of which no cell shows alone what they mean."""
    parts = [cells.head(100), cells] if len(cells) > 100 else [cells]
    if any(shows_marks(some).any() for some in parts):
        return False
    return bool(cells.str.contains("[.,]").any())


def shows_marks(cells: pl.Series) -> pl.Series:
    """Return which cells have commas or points whose meaning they show, or that are text."""
    return (cells.str.contains("[.,]") & ~cells.str.contains(_EITHER)).fill_null(False)


def is_unsure(cells: pl.Series) -> bool:
    """Return whether other columns must tell what the commas or points of these cells mean."""
    if not may_mean_either(cells):
        return False
    marked = cells.filter(cells.str.contains("[.,]").fill_null(False))
    return not marked.str.contains(",", literal=True).any() or plain_numerals(marked) is None


def looks_numeric(cells: pl.Series) -> bool:
    """Return whether every cell is made of digits and what is written around them."""
    return all(bool(some.str.contains(NUMERAL).all()) for some in (cells.head(100), cells))


class Notation(NamedTuple):
    """How numbers are written; None for what their cells do not show.

    `symbol`: The sign of currency or percent, "" for none.
    `decimal`, `group`: What stands before decimals, and between groups of three digits.
    """

    symbol: str | None = None
    decimal: str | None = None
    group: str | None = None

    def joined(self, other: Notation) -> Notation | None:
        """Return the notation of the cells of both, None where there is none."""
        pairs = list(zip(self, other, strict=True))
        found = Notation(*(b if a is None else a for a, b in pairs))
        differ = any(None not in (a, b) and a != b for a, b in pairs)
        return None if differ or (found.group and found.group == found.decimal) else found

    @property
    def point(self) -> str | None:
        """What stands before decimals, by itself or as groups are separated by the other mark."""
        return self.decimal or {",": ".", ".": ","}.get(self.group or "")

    @property
    def settled(self) -> bool:
        """Whether it tells what commas and points mean."""
        return self.decimal is not None or self.group in {".", ","}


def told_as(cells: pl.Series, plain: pl.Series, read: pl.Series) -> str:
    """Return how the first cell is read that is not as it seemed plainly; "" if all are."""
    at_first = cells if plain.dtype == cells.dtype else read
    changed = (plain != at_first).arg_true()
    return f"{show(cells[changed[0]])} is read as {read[changed[0]]:.15g}" if len(changed) else ""


def notation_of_file(decimals: Iterable[str | None]) -> Notation:
    """Return how the numbers of a file are written that what columns show before decimals tells."""
    shown = set(decimals) - {None}
    if len(shown) != 1:
        return Notation()
    return Notation(None, ",", ".") if "," in shown else Notation(None, ".", ",")


class Shown(NamedTuple):
    """A notation, and a cell that shows it."""

    notation: Notation
    cell: str
    where: str


class Written:
    """How the numbers of columns that come in parts are written."""

    def __init__(self, path: str, remedy: str = "") -> None:
        self._path, self._remedy = path, remedy
        self._shown: dict[str, list[Shown]] = {}

    def settle(self, name: str, notation: Notation) -> None:
        """Take what all parts of a column tell together for what is known of it."""
        self._shown[name] = [Shown(notation, "", "all rows")]

    def known(self, name: str) -> Notation:
        """Return what is known of a column so far."""
        found = Notation()
        for one in self._shown.get(name, ()):
            found = found.joined(one.notation) or found
        return found

    def as_shown(self, name: str, cells: pl.Series) -> dict[str, Any] | None:
        """Return how a column is written, with a cell that shows it; None if as Python does."""
        known = self.known(name)
        marks = [one for one in (known.symbol, known.group, known.decimal) if one]
        if not marks or marks == ["."]:
            return None
        cells = cells.drop_nulls()
        cell = cells.filter(cells.str.contains(marks[0], literal=True))
        point = known.point or "."
        return {
            "cell": (cell if len(cell) else cells)[0],
            "symbol": known.symbol or "",
            "point": point,
            "fractions": bool(cells.str.contains(point, literal=True).any()),
        }

    def add(self, name: str, cells: pl.Series, notation: Notation, first: int, of: str) -> None:
        """Take note of one more part, whose first row has this number."""
        known = self.known(name)
        joined = known.joined(notation)
        if joined == known:
            return
        mark = notation.decimal or notation.group or notation.symbol or ""
        marked = cells.str.contains(mark, literal=True).fill_null(False)
        row = int((marked if marked.any() else cells.is_not_null()).arg_true()[0])
        later = Shown(notation, cells[row], f"row {first + row}{of}")
        for one in self._shown.setdefault(name, []):
            if one.notation.joined(notation) is None:
                raise DataError(
                    f"{self._path}: column {show(name)}: expected numbers written in one way in "
                    f"all rows, got {show(one.cell)} in {one.where} and {show(later.cell)} in "
                    f"{later.where}, which cannot be read in one way; {self._remedy}"
                )
        self._shown[name].append(later)

    def numbers(
        self, name: str, cells: pl.Series, floats: pl.Series, first: int, of: str
    ) -> pl.Series:
        """Return cells that Python reads as numbers in the way that the column is written."""
        present = cells.set(floats.is_null(), None)
        if present.null_count() == len(present):
            return floats
        known = self.known(name)
        dotted = None
        if known.decimal != ".":
            whole = floats.dtype.is_integer()
            dotted = not whole and bool(present.str.contains(".", literal=True).any())
        if dotted and known.decimal == ",":
            # 1.234 among decimal commas is a thousand.
            found = plain_numerals(present, known)
            if found is not None:
                text, notation = found
                self.add(name, present, notation, first, of)
                return text.cast(floats.dtype)
        decimal = known.decimal if dotted is None else "." if dotted else None
        self.add(name, present, Notation("", decimal), first, of)
        return floats

    def plain(
        self, name: str, cells: pl.Series, first: int, of: str
    ) -> tuple[pl.Series, pl.Series] | None:
        """Return cells as Python would write them, and as numbers; None without one meaning."""
        pl = import_optional("polars", "tables from files")
        found = plain_numerals(cells, self.known(name)) or plain_numerals(cells)
        numbers = None if found is None else found[0].cast(pl.Float64, strict=False)
        if found is None or numbers is None or numbers.null_count() > cells.null_count():
            return None
        self.add(name, cells, found[1], first, of)
        return found[0], numbers


#: How numbers were written in a table whose columns have types: not at all, but without percent.
TYPED: Final[dict[str, Any]] = {}


def written_otherwise(cells: pl.Series, point: str | None, fit: dict[str, Any] | None) -> pl.Series:
    """Return which cells mean something else if they are written as those of fit.

    `point`: What stands before decimals here, if that is known.
    `fit`: How numbers were written there, as :meth:`Written.as_shown` says; TYPED if they were not.
    """
    if fit is None:
        fit = {"symbol": "", "point": ".", "fractions": True}
    symbols = cells.str.extract(f"({_SYMBOLS})").fill_null("")
    if fit is TYPED:
        return (symbols == "%") & cells.is_not_null()
    if fit["symbol"] == "%":
        other = symbols != "%"
    else:
        other = (symbols == "%") | (
            (symbols != fit["symbol"]) & (symbols != "") & (fit["symbol"] != "")
        )
    marked = cells.str.contains(fit["point"], literal=True).fill_null(False)
    if point is not None and point != fit["point"]:
        other |= cells.str.contains("[.,]").fill_null(False)
    elif not fit["fractions"] and marked.any():
        # 1.500 may be a thousand and a half where fit saw 3,991 and no decimals.
        groups = cells.str.contains(_EITHER).fill_null(False)
        if groups.filter(marked).all():
            other |= marked
    return other & cells.is_not_null()


def plain_numerals(
    cells: pl.Series, known: Notation | None = None
) -> tuple[pl.Series, Notation] | None:
    """Return the cells as Python would write them and how they were; None without one meaning.

    `known`: How other cells of the column are written. Missing cells stay missing.
    """
    known = known or Notation()
    present = cells.drop_nulls()
    symbols = present.str.extract(f"({_SYMBOLS})").unique().to_list()
    if not looks_numeric(present) or len(symbols) > 1:
        return None
    text = _ascii_digits(cells).str.replace_all("−", "-", literal=True)
    text = text.str.replace(_SYMBOLS, "").str.strip_chars()
    text = text.str.replace(rf"^([+-])[{_SPACES}]", "${1}").str.replace_all("٫", ".", literal=True)
    power = text.str.extract(r"([eE][+-]?\d+)$", 1).fill_null("")
    text = text.str.replace(r"[eE][+-]?\d+$", "")
    separators = text.str.extract(f"({_GROUPING})").drop_nulls().unique().to_list()
    if len(separators) > 1:
        return None
    if separators and (text := _ungrouped(text, separators[0])) is None:
        return None
    group, decimal = separators[0] if separators else None, None
    dots = bool(text.str.contains(".", literal=True).any())
    if text.str.contains(",", literal=True).any():
        # 1,500e3 has a decimal comma: no groups stand before a power.
        powers = text.str.contains(",", literal=True) & (power != "")
        found = _without_commas(text, bool(separators) or bool(powers.any()), known)
        if found is None:
            return None
        text, comma_is_decimal = found
        decimal = "," if comma_is_decimal else "." if dots else None
        group = group or ("," if not comma_is_decimal else "." if dots else None)
    elif dots and known.decimal == ",":
        if not text.filter(text.str.contains(".", literal=True)).str.contains(DOTTED).all():
            return None
        text, group = text.str.replace_all(".", "", literal=True), "."
    elif dots:
        decimal = "."
    symbol = (symbols[0] or "") if symbols else None
    return text + power, Notation(symbol, decimal, group)


def _ungrouped(text: Any, separator: str) -> Any:
    """Return numbers without the separator of their groups of three, None if it is none."""
    grouped = text.filter(text.str.contains(separator, literal=True))
    mark = re.escape(separator)
    if not grouped.str.contains(rf"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:[.,]\d*)?$").all():
        return None
    return text.str.replace_all(separator, "", literal=True)


def _without_commas(text: Any, grouped: bool, known: Notation) -> Any:
    """Return numbers with a decimal point alone, and whether commas were decimal ones.

    None where commas could be either.
    """
    with_comma = text.filter(text.str.contains(",", literal=True))
    # 1,5 or 1.234,5: one comma, after all dots, not before exactly three digits in every cell.
    decimal = with_comma.str.contains(r"^[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+$").all()
    sure = grouped or with_comma.str.contains(r"\.|^[+-]?(?:0|\d{4,})?,|,(?:\d{1,2}|\d{4,})$").any()
    if decimal and (sure or known.decimal == ","):
        # Then a dot separates groups in every cell; 1.5 beside 1,5 is neither.
        dotted = text.filter(text.str.contains(".", literal=True))
        if not dotted.str.contains(DOTTED).all():
            return None
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        return text, True
    thousands = with_comma.str.contains(r"^[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$").all()
    surely = known.group == "," or with_comma.str.contains(r",.*,|\.").any()
    if thousands and not grouped and surely:
        return text.str.replace_all(",", "", literal=True), False
    return None


def _ascii_digits(cells: pl.Series) -> pl.Series:
    """Return the cells with the decimal digits of any script as 0 to 9."""
    if not cells.str.contains(r"[^\x00-\x7F]").any():
        return cells
    pl = import_optional("polars", "tables from files")
    used = {character for cell in cells.drop_nulls().unique().to_list() for character in cell}
    foreign = {c: str(unicodedata.decimal(c)) for c in used if c.isdecimal() and c > "\x7f"}
    if not foreign:
        return cells
    return pl.select(pl.lit(cells).str.replace_many(foreign)).to_series()
