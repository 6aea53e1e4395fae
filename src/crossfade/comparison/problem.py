"""From a user's table and labels to the problem that a comparison solves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade._checks import check_choice, check_number
from crossfade.evaluation.evaluation import Evaluator
from crossfade.evaluation.inputs import LabelledTable, read_table
from crossfade.evaluation.scores import METRICS
from crossfade.evidence.comparison import DataSummary
from crossfade.table.text import are_dates

__all__ = ["ComparisonTask", "check_settings", "left_out", "read_problem"]


@dataclass(frozen=True)
class ComparisonTask:
    """A checked table with labels, counts of it for the reader, and what was done to its rows."""

    table: LabelledTable
    data: DataSummary
    notes: tuple[str, ...]

    @property
    def evaluator(self) -> Evaluator:
        """Return what fits models on some of the rows and scores them on others."""
        return self.table.evaluator


def check_settings(
    *, n_splits: int, criterion: str, random_state: int, time_limit: float | None
) -> None:
    """Raise a DataError where a setting cannot be used."""
    check_number("n_splits", n_splits, 2, "20 is the default", whole=True)
    check_number("random_state", random_state, 0, "use for example 0", whole=True)
    if time_limit is not None:
        check_number("time_limit", time_limit, 0.1, "give seconds, for example 60")
    remedy = "use log_loss unless costs are equal and only decisions count"
    check_choice("criterion", criterion, METRICS, remedy)


def left_out(n_rows: int, what: str) -> tuple[str, ...]:
    """Return a note on rows that were left out, if there are any."""
    if not n_rows:
        return ()
    few = n_rows == 1
    rows, were = ("1 row has", "was") if few else (f"{n_rows:,} rows have", "were")
    return (f"{rows} no {what} and {were} left out.",)


def read_problem(X: Any, y: Any) -> ComparisonTask:
    """Check a table and its labels, and leave out the rows that have no label.

    Shapes: X (n_rows, n_columns); y (n_rows,).
    """
    table = read_table(X, y)
    n_dropped = table.n_dropped
    classes, schema = table.evaluator.classes, table.schema
    names, kinds = schema.names, schema.kinds
    if schema.sparse:
        names, kinds = (f"{schema.n_features:,} sparse columns",), ("count",)
    data = DataSummary(
        n_rows=table.columns.n_rows,
        n_columns=len(table.columns.names),
        n_dropped=n_dropped,
        classes=tuple(str(label) for label in classes.tolist()),
        class_counts=tuple(np.bincount(table.evaluator.codes, minlength=len(classes)).tolist()),
        column_names=names,
        column_kinds=kinds,
        column_missing=tuple(
            np.isnan(np.asarray(schema.encode(table.columns))).sum(axis=0).tolist()
        ),
    )
    return ComparisonTask(table, data, (*left_out(n_dropped, "label"), *_dates(table)))


def _dates(table: LabelledTable) -> list[str]:
    """Return a note on columns of dates, which would pass for categories."""
    schema = table.schema
    if schema.sparse or not {"categorical", "identifier"} & set(schema.kinds):
        return []
    found = [
        column.where.removeprefix("X: ")
        for column, kind in zip(table.columns.columns, schema.kinds, strict=True)
        if kind in ("categorical", "identifier") and are_dates(column.factorised[0])
    ]
    if not found:
        return []
    return [
        f"{', '.join(found)}: dates are read as text, where none is earlier than another; to use "
        "their order, give numbers, for example days since a start."
    ]
