"""What the reader should know of columns before models are fitted to them."""

from __future__ import annotations

import numpy as np

from crossfade._typing import Floats
from crossfade.evaluation.inputs import LabelledTable
from crossfade.table.text import are_dates

#: Of fewer, a column may rise by chance.
_FEWEST_ROWS = 12


def column_notes(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return notes on columns of dates and of row numbers; encoded: all of them as numbers."""
    return [*_dates(table), *_row_numbers(table, encoded)]


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
        f"{', '.join(found)}: dates are read as text, where none is earlier than another, and left "
        "out where more than 20 differ; to use them, give numbers, for example days since a start."
    ]


def _row_numbers(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return a note on whole numbers that rise with every row, as row numbers do."""
    if table.schema.sparse or len(encoded) < _FEWEST_ROWS:
        return []
    found = [
        column.where.removeprefix("X: ")
        for column, kind, values in zip(
            table.columns.columns, table.schema.kinds, encoded.T, strict=True
        )
        if kind in ("continuous", "count")
        and bool((np.diff(values) > 0.0).all())
        and bool((values == np.rint(values)).all())
    ]
    if not found:
        return []
    one = len(found) == 1
    rise, numbers = ("rises", "a row number does") if one else ("rise", "row numbers do")
    return [
        f"{', '.join(found)}: {rise} with every row, as {numbers}. Row numbers tell nothing of new "
        "rows, and give away the classes of rows that are sorted by class; leave them out (--drop)."
    ]
