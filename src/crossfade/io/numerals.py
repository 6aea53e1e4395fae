"""Numbers as people write them: $1, 5 %, 1 234, 1'234, 1_000, −1.5, 1,5, digits of any script.

A column is read as numbers where all its cells can mean only one thing together: one sign of
currency or percent in every cell or in none, one separator of groups of three digits, and commas
that some cell shows to be decimal commas or separators. ``5%`` is 5.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from crossfade._optional import import_optional

if TYPE_CHECKING:
    import polars as pl

__all__ = ["looks_numeric", "plain_numerals"]

_SYMBOLS: Final = "[$€£¥₹%]"
_SPACES: Final = " \u00a0\u2009\u202f"
_GROUPING: Final = f"[{_SPACES}'’_٬]"
_SIGN: Final = r"[+\-−]?"

#: What may be a number, before it is known which comma means what.
_NUMERAL: Final = (
    rf"^{_SIGN}[{_SPACES}]?{_SYMBOLS}?[{_SPACES}]?{_SIGN}"
    rf"[\d.,٫]*\d[\d.,٫'’_٬{_SPACES}]*{_SYMBOLS}?$"
)


def looks_numeric(cells: pl.Series) -> bool:
    """Return whether every cell is made of digits and what is written around them."""
    return all(bool(some.str.contains(_NUMERAL).all()) for some in (cells.head(100), cells))


def plain_numerals(cells: pl.Series) -> pl.Series | None:
    """Return the cells as Python would write them, None where not all have one meaning.

    Missing cells stay missing.
    """
    present = cells.drop_nulls()
    if not looks_numeric(present) or present.str.extract(f"({_SYMBOLS})").n_unique() > 1:
        return None
    text = _ascii_digits(cells).str.replace_all("−", "-", literal=True)
    text = text.str.replace(_SYMBOLS, "").str.strip_chars()
    text = text.str.replace(rf"^([+-])[{_SPACES}]", "${1}").str.replace_all("٫", ".", literal=True)
    separators = text.str.extract(f"({_GROUPING})").drop_nulls().unique().to_list()
    if len(separators) > 1:
        return None
    if separators and (text := _ungrouped(text, separators[0])) is None:
        return None
    commas = text.str.contains(",", literal=True)
    if commas.any():
        text = _without_commas(text, bool(separators))
    return text


def _ungrouped(text: Any, separator: str) -> Any:
    """Return numbers without the separator of their groups of three, None if it is none."""
    grouped = text.filter(text.str.contains(separator, literal=True))
    mark = re.escape(separator)
    if not grouped.str.contains(rf"^[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:[.,]\d*)?$").all():
        return None
    return text.str.replace_all(separator, "", literal=True)


def _without_commas(text: Any, grouped: bool) -> Any:
    """Return numbers with a decimal point alone, None where commas could be either."""
    with_comma = text.filter(text.str.contains(",", literal=True))
    # 1,5 or 1.234,5: one comma, after all dots, not before exactly three digits in every cell.
    decimal = with_comma.str.contains(r"^[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+$").all()
    sure = grouped or with_comma.str.contains(r"\.|^[+-]?(?:0|\d{4,})?,|,(?:\d{1,2}|\d{4,})$").any()
    if decimal and sure:
        # Then a dot separates groups in every cell; 1.5 beside 1,5 is neither.
        dotted = text.filter(text.str.contains(".", literal=True))
        if not dotted.str.contains(r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?$").all():
            return None
        return text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    thousands = with_comma.str.contains(r"^[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$").all()
    if thousands and not grouped and with_comma.str.contains(r",.*,|\.").any():
        return text.str.replace_all(",", "", literal=True)
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
