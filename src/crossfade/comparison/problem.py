"""From a user's table and labels to the problem that a comparison solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossfade._checks import check_choice, check_number, show
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.evaluation.column_notes import column_notes
from crossfade.evaluation.evaluation import Evaluator
from crossfade.evaluation.inputs import LabelledTable, read_table
from crossfade.evaluation.scores import METRICS
from crossfade.evidence.comparison import DataSummary

#: Of it, sums over rows are finite too.
_MOST_COST = 1e100


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
    *,
    n_splits: int,
    criterion: str,
    random_state: int,
    time_limit: float | None,
    metrics: Sequence[str] = METRICS,
) -> None:
    """Raise a DataError where a setting cannot be used."""
    check_number("n_splits", n_splits, 2, "20 is the default", whole=True)
    check_number("random_state", random_state, 0, "use for example 0", whole=True)
    if time_limit is not None:
        check_number("time_limit", time_limit, 0.1, "give seconds, for example 60")
    remedy = "use log_loss unless costs are equal and only decisions count"
    if criterion == "cost" and "cost" not in metrics:
        remedy = "say what decisions cost: cost=(1, 5), or --cost 1,5"
    check_choice("criterion", criterion, metrics, remedy)


def read_costs(cost: Any, classes: Sequence[Any]) -> Floats:
    """Return what decisions cost, (n_classes, n_classes), of the true class and the decided one.

    Takes cost: that, or for two classes what a false positive and a false negative cost.
    """
    k = len(classes)
    try:
        costs = np.array(cost, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.empty(0)
    if k == 2 and costs.shape == (2,):
        costs = np.array([[0.0, costs[0]], [costs[1], 0.0]])
    names = ", ".join(show(one) for one in classes[:5]) + (", …" if k > 5 else "")
    if costs.shape != (k, k) or not (np.abs(costs) <= _MOST_COST).all():
        pair = "the costs of a false positive and a false negative, or " if k == 2 else ""
        raise DataError(
            f"cost: expected {pair}a matrix of finite costs of shape ({k}, {k}), cost[true, "
            f"decided] with the classes in the order {names}, got {cost!r}; give one row and one "
            "column per class"
        )
    extra = costs - np.diagonal(costs)[:, None]
    if (extra < 0.0).any() or (extra.sum(axis=1) <= 0.0).any():
        raise DataError(
            f"cost: expected that a wrong decision costs more than the right one in every class "
            f"({names}), got {cost!r}; the right decision's cost is on the diagonal, 0 as a rule"
        )
    return costs


def left_out(n_rows: int, what: str) -> tuple[str, ...]:
    """Return a note on rows that were left out, if there are any."""
    if not n_rows:
        return ()
    few = n_rows == 1
    rows, were = ("1 row has", "was") if few else (f"{n_rows:,} rows have", "were")
    return (f"{rows} no {what} and {were} left out.",)


def read_problem(X: Any, y: Any, cost: Any = None) -> ComparisonTask:
    """Check a table and its labels, and leave out the rows that cannot be compared on."""
    table = read_table(X, y)
    if cost is not None:
        classes = table.evaluator.classes.tolist()
        table = replace(table, evaluator=replace(table.evaluator, costs=read_costs(cost, classes)))
    n_dropped = table.n_dropped
    classes, schema = table.evaluator.classes, table.schema
    names, kinds = schema.names, schema.kinds
    if schema.sparse:
        names, kinds = (f"{schema.n_features:,} sparse columns",), ("count",)
    encoded = np.asarray(schema.encode(table.columns))
    data = DataSummary(
        n_rows=table.columns.n_rows,
        n_columns=len(table.columns.names),
        n_dropped=n_dropped,
        classes=tuple(str(label) for label in classes.tolist()),
        class_counts=tuple(np.bincount(table.evaluator.codes, minlength=len(classes)).tolist()),
        column_names=names,
        column_kinds=kinds,
        column_missing=tuple(np.isnan(encoded).sum(axis=0).tolist()),
    )
    notes = (*left_out(n_dropped, "label"), *table.notes, *column_notes(table, encoded))
    return ComparisonTask(table, data, notes)
