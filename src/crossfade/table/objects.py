"""Columns and labels held as Python objects: what are they really?

One C-speed look at the types of the cells decides: numbers, booleans or text, with or without
missing cells. Anything else is refused, naming the column and two of its cells.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import is_missing, show
from crossfade.errors import CellTypeError, DataError

#: What a column's cells are, before it is decided what the column means.
Storage = Literal["boolean", "integer", "float", "category", "missing"]

_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
_NESTED = (list, tuple, dict, set, frozenset, np.ndarray)


def _group(kind: type) -> str:
    if issubclass(kind, (bool, np.bool_)):
        return "boolean"
    if issubclass(kind, (numbers.Integral, np.integer)):
        return "integer"
    if issubclass(kind, (numbers.Real, Decimal, np.floating)):
        return "float"
    if issubclass(kind, str):
        return "category"
    if issubclass(kind, (numbers.Complex, np.complexfloating)):
        return "complex"
    if issubclass(kind, _TIMES):
        return "time"
    if issubclass(kind, _NESTED):
        return "nested"
    return "other"


def _only_nan(items: Sequence[Any], kinds: set[type]) -> bool:
    """Return whether every cell of these types is NaN."""
    return all(is_missing(item) for item in items if type(item) in kinds)


def object_storage(items: Sequence[Any], where: str) -> Storage:
    """Return what a sequence of Python objects holds."""
    groups: dict[str, set[type]] = {}
    for kind in set(map(type, items)):
        if kind is type(None) or kind.__name__ in {"NAType", "NaTType"}:
            continue
        groups.setdefault(_group(kind), set()).add(kind)
    if "float" in groups and len(groups) > 1 and _only_nan(items, groups["float"]):
        del groups["float"]
    _refuse_foreign(groups, items, where)
    if set(groups) == {"integer", "float"}:
        return "float"
    if len(groups) > 1:
        ordered = [g for g in ("integer", "float", "boolean", "category") if g in groups]
        first, second = (_example(items, groups[group]) for group in (ordered[0], ordered[-1]))
        raise DataError(
            f"{where}: expected cells of one type, got {show(first)} ({type(first).__name__}) and "
            f"{show(second)} ({type(second).__name__}); make them all numbers or all text"
        )
    storage = next(iter(groups), "missing")
    if storage == "float" and _only_nan(items, groups["float"]):
        return "missing"
    return storage  # type: ignore[return-value]


def _example(items: Sequence[Any], kinds: set[type]) -> Any:
    return next(item for item in items if type(item) in kinds and not is_missing(item))


def _refuse_foreign(groups: dict[str, set[type]], items: Sequence[Any], where: str) -> None:
    if "complex" in groups:
        raise DataError(
            f"{where}: Complex data not supported, got {show(_example(items, groups['complex']))}; "
            "split it into its real and its imaginary part"
        )
    if "time" in groups:
        raise DataError(
            f"{where}: expected numbers or text, got a date or time, "
            f"{show(_example(items, groups['time']))}; turn it into numbers (a year, days since "
            "a start) or into text"
        )
    for group in ("nested", "other"):
        if group in groups:
            found = next(item for item in items if type(item) in groups[group])
            raise CellTypeError(
                f"{where}: a cell given as argument must be a string or a number, got "
                f"{show(found)} ({type(found).__name__}); give each part its own column, or "
                "turn the cells into text"
            )


def numbers_from_objects(items: Sequence[Any], storage: Storage, where: str) -> NDArray[Any]:
    """Return an array of numbers or booleans, NaN where a cell is missing."""
    if storage == "missing":
        return np.full(len(items), np.nan)
    kinds = set(map(type, items))
    complete = all(_group(kind) == storage for kind in kinds)
    if complete and storage == "boolean":
        return np.fromiter(items, dtype=bool, count=len(items))
    try:
        if complete and storage == "integer":
            return np.array(items, dtype=np.int64)
    except OverflowError:
        pass  # larger than 64 bits: as floating-point numbers
    if any(kind.__name__ in {"NAType", "NaTType"} for kind in kinds):
        items = [None if is_missing(item) else item for item in items]
    try:
        return np.array(items, dtype=np.float64)  # None becomes NaN
    except OverflowError:
        raise DataError(
            f"{where}: expected numbers below 1.8e308, got a larger one; rescale the column"
        ) from None
