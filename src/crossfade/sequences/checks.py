"""Refusals of parameters that the sequence models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade.errors import DataError

__all__ = ["check_number"]


def check_number(name: str, value: Any, least: float, *, whole: bool = False) -> None:
    """Raise a DataError where a setting is no number, not finite or too small.

    Parameters
    ----------
    name : str
    value : object
    least : float
    whole : bool, default=False
        Whether it has to be a whole number; 20.0 is one.

    Examples
    --------
    >>> from crossfade.sequences.checks import check_number
    >>> check_number("n_init", 0, 1, whole=True)
    Traceback (most recent call last):
        ...
    crossfade.errors.DataError: n_init: expected a whole number >= 1, got 0
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    fits = number and least <= value < np.inf
    if not fits or (whole and int(value) != value):
        kind = "whole" if whole else "finite"
        raise DataError(f"{name}: expected a {kind} number >= {least:g}, got {value!r}")
