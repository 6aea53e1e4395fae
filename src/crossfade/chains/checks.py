"""Refusals of parameters that the sequence models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade.errors import DataError

__all__ = ["check_number"]


def check_number(name: str, value: Any, least: float, *, whole: bool = False) -> None:
    """Raise a DataError where a setting is no number, not finite or too small."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    fits = number and least <= value < np.inf
    if not fits or (whole and int(value) != value):
        kind = "whole" if whole else "finite"
        raise DataError(f"{name}: expected a {kind} number >= {least:g}, got {value!r}")
