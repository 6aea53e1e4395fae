"""From a user's table and labels to the problem that a comparison solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from crossfade.comparison.evaluation import Evaluator
from crossfade.comparison.results import DataSummary
from crossfade.comparison.scores import METRICS
from crossfade.errors import DataError

__all__ = ["Problem", "check_settings", "read_problem"]


@dataclass(frozen=True)
class Problem:
    """A checked table with labels.

    Attributes
    ----------
    evaluator : Evaluator
        Holds the rows that have a label.
    data : DataSummary
        Counts for the reader.
    notes : tuple of str
        What was done to the rows.
    """

    evaluator: Evaluator
    data: DataSummary
    notes: tuple[str, ...]


def check_settings(*, n_splits: int, criterion: str, random_state: int) -> None:
    """Raise a DataError where a setting cannot be used."""
    for name, value, least in (("n_splits", n_splits, 2), ("random_state", random_state, 0)):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least:
            raise DataError(
                f"{name}: expected a whole number of at least {least}, got {value!r}; "
                f"use for example {20 if least else 0}"
            )
    if criterion not in METRICS:
        raise DataError(
            f"criterion: expected one of {', '.join(METRICS)}, got {criterion!r}; "
            "use log_loss unless costs are equal and only decisions count"
        )
