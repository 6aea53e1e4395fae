"""A table split into its features and its target column."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from crossfade._checks import counted, show
from crossfade.errors import DataError
from crossfade.io.reading import check_columns

#: Different numbers up to which they may be classes, whatever they look like.
_FEW_CLASSES = 20


def split_target(frame: Any, target: str, *, keep: bool = False) -> tuple[Any, Any, int]:
    """Split a table into features and target; rows without a target are dropped and counted.

    Takes keep: they stay, and none is counted.
    """
    table = nw.from_native(frame, eager_only=True)
    check_columns([target], list(table.columns), "target")
    labels = table[target]
    refuse_type(labels, target)
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
    present = ~labels.is_null()
    n_dropped = len(table) - int(present.sum())
    if n_dropped == len(table):
        raise no_labels(target, n_dropped)
    if len(table.columns) == 1:
        raise DataError(
            f"target: expected columns besides {show(target)}, got no feature columns; add one to "
            "the table"
        )
    labelled, features = _refuse_quantity(labels.filter(present), target), table.drop(target)
    if keep:
        return features.to_native(), labels.cast(labelled.dtype).to_native(), 0
    if n_dropped:
        features = features.filter(present)
    return features.to_native(), labelled.to_native(), n_dropped


def refuse_type(labels: nw.Series[Any], target: str) -> None:
    """Refuse cells that are no labels, whatever they hold."""
    if labels.dtype.is_nested() or labels.dtype in (nw.Duration, nw.Binary):
        raise DataError(
            f"target: expected classes in column {show(target)}, got cells of type {labels.dtype} "
            f"such as {show(labels.to_list()[0])}; choose a column of classes"
        )


def no_labels(target: str, n_rows: int) -> DataError:
    """Return the error of a target without a label."""
    return DataError(
        f"target: expected labels in column {show(target)}, got "
        f"{counted(n_rows, 'empty cell')}; choose another column"
    )


def _refuse_quantity(labels: nw.Series[Any], target: str) -> nw.Series[Any]:
    """Return numeric labels as integers where they are whole; refuse what has no classes."""
    numeric = labels.dtype.is_numeric()
    remedy = "choose a column of classes"
    if numeric:
        remedy += ", or cut the quantity into classes first"
        whole = labels.dtype.is_integer() or bool((labels == labels.round()).all())
        if whole and labels.min() >= 0:
            remedy += ", or fit counts with crossfade glm --family poisson (PoissonRegression)"
    if numeric and not labels.dtype.is_integer():
        numbers = labels.cast(nw.Float64).to_numpy()
        inexact = numbers[~(np.abs(numbers) <= 2.0**53)]
        if inexact.size:
            raise DataError(
                f"target: expected classes in column {show(target)}, got the number "
                f"{inexact[0]:g}; whole numbers are exact up to 2^53: correct the cells, or "
                f"name {show(target)} in text (--text) to read labels of more digits"
            )
        fractions = numbers[numbers != numbers.round()]
        if fractions.size:
            if len(np.unique(numbers)) <= _FEW_CLASSES:
                remedy += f"; or name {show(target)} in text (--text) if each number is a class"
            raise DataError(
                f"target: expected classes in column {show(target)}, got a continuous quantity "
                f"such as {show(fractions[0])}; {remedy}"
            )
        labels = labels.cast(nw.Int64)
    distinct = labels.n_unique()
    if len(labels) > 20 and 2 * distinct > len(labels):
        what = "numbers" if numeric else "values"
        raise DataError(
            f"target: expected classes in column {show(target)}, got {distinct} different {what} "
            f"in {len(labels)} rows; {remedy}"
        )
    return labels
