"""Methods of models that take tables, of rows in parts: part by part, on a cluster lazily."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from crossfade._optional import import_optional
from crossfade.blocks import threads
from crossfade.table.cluster import delayed_parts, is_lazy, whole_rows
from crossfade.table.source import Part, RowSource, no_column_beside, no_rows, rows_of


def part_by_part(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a table take sources and Dask collections: part by part, lazily there.

    What the method takes beside the table, unless it is a number, are then names of columns.
    """

    @functools.wraps(method)
    def of_any(self: Any, X: Any, **beside: Any) -> Any:
        numbers = {name: value for name, value in beside.items() if isinstance(value, float)}
        given = {
            name: value
            for name, value in beside.items()
            if value is not None and name not in numbers
        }
        if isinstance(X, RowSource):
            parts: list[Any] = []

            def keep(part: Part) -> None:
                parts.append(method(self, part.table, **part.beside, **numbers))

            X.beside(**given).reduce_parts(keep, lambda one, other: None)
            if not parts:
                raise no_rows()
            return np.concatenate(parts)
        if is_lazy(X):
            return _lazily(self, method, X, given, numbers)
        return method(self, X, **beside)

    return of_any


def _lazily(
    model: Any,
    method: Callable[..., Any],
    X: Any,
    beside: dict[str, Any],
    numbers: dict[str, float],
) -> Any:
    """Return a dask array of what a method makes of each partition."""
    dask = import_optional("dask", "Dask collections")
    array = import_optional("dask.array", "Dask collections")
    for name, column in beside.items():
        if not isinstance(column, str) or column not in list(getattr(X, "columns", ())):
            raise no_column_beside(name, column, list(getattr(X, "columns", ())))
    tables = delayed_parts(whole_rows(X))
    shape, dtype = _result_of(model, method.__name__, numbers)
    call = dask.delayed(_of_table, pure=False, traverse=False)
    kept = dask.delayed(model, pure=False, traverse=False)
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(tables)
    blocks = [
        array.from_delayed(call(kept, method.__name__, table, beside, numbers), (n, *shape), dtype)
        for table, n in zip(tables, chunks, strict=True)
    ]
    return array.concatenate(blocks, allow_unknown_chunksizes=True)


def _result_of(model: Any, name: str, numbers: dict[str, float]) -> tuple[tuple[int, ...], Any]:
    """Return the shape of a row's result, and its type."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return (), np.dtype(np.float64)
    if name in ("predict", "_decided"):
        return (), np.dtype(object) if "reject" in numbers else classes.dtype
    if name == "_intervals":
        return (3, classes.size), np.dtype(np.float64)
    of_rows = ("score_samples", "outlier_score", "outlier_p_value")
    alone = name in of_rows or (name == "decision_function" and classes.size == 2)
    return () if alone else (classes.size,), np.dtype(np.float64)


def _of_table(
    model: Any, name: str, table: Any, beside: dict[str, str], numbers: dict[str, float]
) -> Any:
    if not rows_of(table):
        shape, dtype = _result_of(model, name, numbers)
        return np.empty((0, *shape), dtype)
    given = {role: table[column] for role, column in beside.items()}
    with threads(1):
        own = table.drop(columns=list(set(beside.values()))) if beside else table
        return getattr(model, name)(own, **given, **numbers)
