"""Small questions about single values that every room asks: shown how, missing, a number?"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from crossfade._names import near_names
from crossfade.errors import DataError


def show(value: Any, width: int = 60) -> str:
    """Return a value's repr on one line, shortened in its middle where it is long."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= width else f"{text[: width - 12]}…{text[-10:]}"


def counted(number: int, noun: str) -> str:
    """Return how many there are: "1 row", "2 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


#: Names that a message lists.
_MOST_NAMES = 8


def listed(names: Iterable[Any]) -> str:
    """Return the first names, and how many more there are."""
    shown = [show(name) for name in names]
    rest = len(shown) - _MOST_NAMES
    return ", ".join(shown[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the names that this one may have been meant for, else the other remedy."""
    near = near_names(name, known)
    return f"did you mean {' or '.join(map(show, near))}?" if near else otherwise


def is_missing(item: Any) -> bool:
    """Return whether an object stands for a missing cell: None, NaN, NaT or pandas' NA."""
    if item is None or type(item).__name__ in {"NAType", "NaTType"}:
        return True
    try:
        return bool(item != item)
    except (TypeError, ValueError, ArithmeticError):
        return False


def check_choice(
    name: str, value: Any, choices: Iterable[Any], remedy: str = "use one of these"
) -> None:
    """Refuse a setting that is none of the choices."""
    known = list(choices)
    if any(isinstance(value, type(one)) and value == one for one in known):
        return
    words = list(map(repr, known))
    few = f"{', '.join(words[:-1])} or {words[-1]}"
    expected = few if len(words) < 4 else f"one of {', '.join(words)}"
    raise DataError(f"{name}: expected {expected}, got {show(value)}; {remedy}")


def check_number(
    name: str,
    value: Any,
    least: float = -math.inf,
    remedy: str = "",
    *,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> float:
    """Return a setting as a float; refuse what is no finite number of the range."""
    low = least if above is None else above
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = _as_float(value)
        fits = math.isfinite(number) and (number.is_integer() or not whole)
        fits = fits and (number >= low if above is None else number > low)
        if fits and (below is None or number < below):
            return number
    if below is not None:
        bounds = f" in {'[' if above is None else '('}{low:g}, {below:g})"
    elif math.isinf(low):
        bounds = ""
    else:
        bounds = f" {'of at least' if above is None else 'above'} {low:g}"
    kind = "whole" if whole else "finite"
    raise DataError(
        f"{name}: expected a {kind} number{bounds}, got {value!r}{remedy and f'; {remedy}'}"
    )


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond 1.8e308
        return math.inf
