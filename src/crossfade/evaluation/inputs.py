"""A table with labels, read once: what splits, models and fast curves start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from crossfade._checks import is_missing, show
from crossfade.classifiers.checks import refuse_unlabelled
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import Evaluator
from crossfade.table import Schema, check_cells, encode_labels
from crossfade.table.columns import Columns, read_columns
from crossfade.table.documents import indexable, is_sparse


def check_models(models: Mapping[Any, Any]) -> None:
    """Raise a DataError where a name is not text, or a model no classifier."""
    for name, model in models.items():
        if not isinstance(name, str):
            raise DataError(
                f"models: expected names that are text, got {name!r}; use {str(name)!r}"
            )
        methods = ("fit", "predict", "get_params")
        if isinstance(model, type) or not all(hasattr(model, method) for method in methods):
            raise DataError(
                f"models: expected scikit-learn classifiers, got {model!r} under {name!r}; "
                "give an unfitted estimator with fit, predict and get_params"
            )
        refuse_unlabelled("models", name, model)


@dataclass(frozen=True)
class LabelledTable:
    """The rows of a checked table that can be used, their columns, and what was left out.

    `n_dropped`: Rows without a label.
    `alone`: Labels that one row alone has, and `notes` on them.
    """

    evaluator: Evaluator
    columns: Columns
    schema: Schema
    n_dropped: int
    notes: tuple[str, ...] = ()
    alone: tuple[Any, ...] = ()


def read_table(X: Any, y: Any) -> LabelledTable:
    """Check a table and its labels; rows without a label or alone in their class are left out."""
    table = X if nw.dependencies.is_into_dataframe(X) else _as_array(X)
    table = indexable(table)
    columns = read_columns(table, sparse=True)
    if nw.dependencies.is_into_dataframe(y):
        frame = nw.from_native(y, eager_only=True)
        # More columns than one are refused with their number, as those of an array.
        y = frame[:, 0].to_native() if len(frame.columns) == 1 else frame.to_numpy()
    labelled = np.flatnonzero(_has_label(y))
    n_dropped = columns.n_rows - len(labelled) if _length(y) == columns.n_rows else 0
    if n_dropped:
        y = _take(y, labelled)
        table = _take(table, labelled)
        columns = read_columns(table, sparse=True) if len(labelled) else columns
    if not len(labelled):
        raise DataError("y: expected labels, got missing cells only; choose another target column")
    classes, codes = encode_labels(y, n_samples=columns.n_rows)
    notes: tuple[str, ...] = ()
    single: tuple[Any, ...] = ()
    if (alone := np.bincount(codes, minlength=len(classes)) < 2).any():
        notes = (_single_rows(classes, alone),)
        single = tuple(classes[alone].tolist())
        kept = np.flatnonzero(~alone[codes])
        table = _take(table, kept)
        columns = read_columns(table, sparse=True)
        classes, codes = classes[~alone], (np.cumsum(~alone) - 1)[codes[kept]]
    schema = Schema.learn(columns)
    check_cells(np.asarray(schema.encode(columns)), schema.names)
    return LabelledTable(
        Evaluator(table, classes[codes], classes, codes), columns, schema, n_dropped, notes, single
    )


def _as_array(X: Any) -> Any:
    """Return nested lists as an array that keeps numbers apart from text; the rest as it is."""
    if not isinstance(X, (list, tuple)):
        return X
    try:
        array = np.asarray(X)
        return np.asarray(X, dtype=object) if array.dtype.kind in "USO" else array
    except ValueError:
        return X  # rows of different lengths: the reader of tables says so


def _length(y: Any) -> int:
    return len(y) if hasattr(y, "__len__") else -1


def _has_label(y: Any) -> NDArray[np.bool_]:
    """Return for each row whether it has a label; all true where that is not for us to tell."""
    if nw.dependencies.is_into_series(y):
        series = nw.from_native(y, series_only=True)
        present = ~series.is_null()
        if series.dtype.is_float():
            present = present & ~series.is_nan().fill_null(True)
        return present.to_numpy().astype(bool)
    if not hasattr(y, "__len__"):
        return np.ones(1, dtype=bool)
    items = y.tolist() if isinstance(y, np.ndarray) else list(y)
    return np.array([not is_missing(item) for item in items], dtype=bool)


def _take(values: Any, rows: NDArray[np.int64]) -> Any:
    if nw.dependencies.is_into_dataframe(values):
        return nw.from_native(values, eager_only=True)[rows].to_native()
    if nw.dependencies.is_into_series(values):
        return nw.from_native(values, series_only=True)[rows].to_native()
    if isinstance(values, np.ndarray) or is_sparse(values):
        return values[rows]
    return [values[row] for row in rows.tolist()]


def _single_rows(classes: NDArray[Any], alone: NDArray[np.bool_]) -> str:
    """Return a note on classes of one row, or refuse them where little else would be left.

    Shapes: classes, alone (n_classes,).
    """
    single = classes[alone].tolist()
    shown = ", ".join(show(label) for label in single[:3]) + (", …" if len(single) > 3 else "")
    measured = classes.dtype.kind in "iuf" and len(single) > 3
    if len(classes) - len(single) > 1 and not measured:
        rows = "1 row was" if len(single) == 1 else f"{len(single)} rows were"
        noun = "its class" if len(single) == 1 else "their classes"
        return (
            f"{rows} left out, alone in {noun} ({shown}): a class takes one row to fit and one to "
            "test on."
        )
    noun = "class has" if len(single) == 1 else "classes have"
    remedy = (
        "if the target is a number, cut it into classes first, or fit counts with crossfade glm "
        "--family poisson (PoissonRegression)"
        if measured
        else "drop or merge rare classes, or add rows"
    )
    raise DataError(
        f"y: expected at least 2 rows of every class, one to fit and one to test on, but "
        f"{len(single)} {noun} 1 row ({shown}); {remedy}"
    )
