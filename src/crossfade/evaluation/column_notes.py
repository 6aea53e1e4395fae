"""What the reader should know of columns before models are fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln
from scipy.stats import spearmanr

from crossfade._checks import counted, show
from crossfade._typing import Floats
from crossfade.evaluation.inputs import LabelledTable
from crossfade.table.contents import distinct
from crossfade.table.text import are_dates, numeral_among

#: Of fewer, a column may rise by chance.
_FEWEST_ROWS = 12

#: Classes that are numbers, of which fewer are hardly counts.
_FEWEST_COUNTS = 6

#: Share of rows from which on copies of others are told.
_SHARE_OF_COPIES = 0.05

#: Of columns with no more different values each, rows may be equal however many columns there are.
_FEW_VALUES = 20

#: Log of the probability from which on a column that tells every class does so by chance.
_BY_CHANCE = math.log(1e-6)


def column_notes(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return notes on columns that are not what they seem; encoded: all of them as numbers."""
    if table.schema.sparse:
        return []
    return [
        *_counted_target(table),
        *_dates(table),
        *_numerals(table),
        *_row_numbers(table, encoded),
        *_labels_again(table, encoded),
        *_marks(table, encoded),
        *_copies(table, encoded),
    ]


def _counted_target(table: LabelledTable) -> list[str]:
    """Return a note on classes that are whole numbers from 0 or 1, the larger the rarer."""
    classes = table.evaluator.classes
    if classes.dtype.kind not in "iuf" or len(classes) < _FEWEST_COUNTS or classes[0] not in (0, 1):
        return []
    sizes = np.bincount(table.evaluator.codes)
    top = int(np.argmax(sizes))
    falls = spearmanr(classes[top:], sizes[top:]).statistic if top < len(sizes) - 3 else 0.0
    if not (falls < -0.9 and sizes[top] >= 5 * sizes[-1]):
        return []
    return [
        f"The classes are numbers from {classes[0]} to {classes[-1]}, the larger rare: if they "
        "are counts, crossfade glm --family poisson (PoissonRegression) knows their order."
    ]


def _dates(table: LabelledTable) -> list[str]:
    """Return a note on columns of dates or times, which would pass for categories."""
    schema = table.schema
    if not {"categorical", "identifier"} & set(schema.kinds):
        return []
    found = [
        column.where.removeprefix("X: ")
        for column, kind in zip(table.columns.columns, schema.kinds, strict=True)
        if kind in ("categorical", "identifier") and are_dates(column.factorised[0])
    ]
    if not found:
        return []
    return [
        f"{', '.join(found)}: dates and times are read as text, where none is before another, and "
        "left out where more than 20 differ; to use them, give numbers, for example days since a "
        "start, or hours."
    ]


def _numerals(table: LabelledTable) -> list[str]:
    """Return a note on columns of text that holds measurements."""
    found = [
        f"{column.where.removeprefix('X: ')} ({show(cell)})"
        for column, kind in zip(table.columns.columns, table.schema.kinds, strict=True)
        if kind in ("categorical", "identifier")
        and column.storage == "category"
        and (cell := numeral_among(column.factorised[0]))
    ]
    if not found:
        return []
    return [
        f"{', '.join(found)}: numbers in text are categories, left out where nearly all differ; "
        "turn the text into numbers, empty cells where there is none."
    ]


def _row_numbers(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return a note on whole numbers that rise with every row, as row numbers do."""
    if len(encoded) < _FEWEST_ROWS:
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


def _labels_again(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return a note on columns of which no value occurs in two classes, beyond chance.

    A missing cell is a value, too: a reason for leaving that only those have who left.
    """
    labels = table.evaluator.codes
    n_rows, sizes = len(labels), np.bincount(labels)
    n_classes = len(sizes)
    # Of one labelling among all with as many rows of each class.
    chance = float(gammaln(sizes + 1.0).sum() - gammaln(n_rows + 1.0)) + math.log(encoded.shape[1])
    found = []
    for column, kind, values in zip(
        table.columns.columns, table.schema.kinds, encoded.T, strict=True
    ):
        read = column.factorised[1] if kind in ("text", "identifier") else values
        order = np.argsort(read, kind="stable")
        value, label = read[order], labels[order]
        other = (value[1:] != value[:-1]) & ~(np.isnan(value[1:]) & np.isnan(value[:-1]))
        changes = label[1:] != label[:-1]
        if (changes & ~other).any():
            continue
        ways = (1 + int(other.sum())) * math.log(n_classes)
        if kind in ("continuous", "count") and changes.sum() == n_classes - 1:
            ways = min(ways, math.lgamma(n_classes + 1))
        if ways + chance < _BY_CHANCE:
            found.append(column.where.removeprefix("X: "))
    if not found:
        return []
    tell, what = ("tells", "a column") if len(found) == 1 else ("tell", "columns")
    tell += " the class of every row" + ("" if len(found) == 1 else ", each alone")
    return [
        f"{', '.join(found)}: {tell}. Where that is known only after the class, or numbers groups "
        f"of rows of one class, it tells nothing of new rows; leave such {what} out (--drop)."
    ]


def _marks(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return a note on numbers such as -999 that come again and again, far from all others."""
    found = [
        (f"{column.where.removeprefix('X: ')} ({mark:.0f} in {counted(times, 'row')})", mark)
        for column, kind, values in zip(
            table.columns.columns, table.schema.kinds, encoded.T, strict=True
        )
        if kind in ("continuous", "count")
        for mark, times in _nines(values[~np.isnan(values)])
    ]
    if not found:
        return []
    marks = " ".join(f"--missing={mark:.0f}" for mark in sorted({mark for _, mark in found})[:4])
    return [
        f"{', '.join(told for told, _ in found)}: far from all other numbers. If it stands for a "
        f"missing cell, say so, with {marks}; it may also be where a scale ends."
    ]


def _copies(table: LabelledTable, encoded: Floats) -> list[str]:
    """Return a note on rows that are copies of others, as no chance makes them."""
    kinds, cells = table.schema.kinds, np.array(encoded, dtype=np.float64)
    for j, kind in enumerate(kinds):
        if kind == "text":
            cells[:, j] = table.columns.columns[j].factorised[1]
    cells, labels = cells[:, [kind != "identifier" for kind in kinds]], table.evaluator.codes
    n_rows = len(cells)
    first, which = distinct(cells, labels)
    n_copies = n_rows - len(first)
    if n_copies < max(2, _SHARE_OF_COPIES * n_rows):
        return []
    # Equal cells of rows of several classes are draws of few values.
    sizes, either = np.bincount(which), distinct(cells, np.zeros_like(labels))[1]
    classes = np.bincount(either[first])[either]
    repeated = np.maximum(sizes[which], classes) > 1
    if 10 * (classes > 1).sum() >= repeated.sum():
        return []
    # Pairs of equal rows, and as many as there were if columns had nothing to do with each other.
    counts = [np.unique(one, return_counts=True)[1] for one in (*cells.T, labels)]
    alike = np.prod([np.square(one / n_rows).sum() for one in counts])
    by_chance = 0.0 if "text" in kinds else n_rows * (n_rows - 1.0) * alike
    if max(map(len, counts)) <= _FEW_VALUES or (sizes * (sizes - 1.0)).sum() < 10.0 * by_chance:
        return []
    return [
        f"{n_copies:,} of {counted(n_rows, 'row')} are copies of others, in all cells and the "
        "class. Copies that are trained on and tested on make models look better than they are; "
        "leave them out, if they are no rows of their own."
    ]


def _nines(values: Floats) -> Iterator[tuple[float, int]]:
    """Yield ends of a column that are all nines, and farther off than the others are apart.

    Beside 99, also 98, 97, 88 and 77, which tell why a cell is missing.
    """
    ends = (float(values.min()), float(values.max())) if values.size else ()
    marks = sorted({mark for end in ends for mark in _marks_of(end)})
    others = values[~np.isin(values, marks)]
    width = np.ptp(others) if others.size else 0.0
    for mark in marks:
        times = int((values == mark).sum())
        if times > 1 and 0.0 < width < np.abs(others - mark).min():
            yield mark, times


def _marks_of(end: float) -> list[float]:
    """Return what may be written where a cell is missing, if this is all nines."""
    nines = f"{abs(end):.0f}"
    if set(nines) != {"9"} or not end.is_integer() or end == 9.0:
        return []
    sizes = (abs(end), abs(end) - 1, abs(end) - 2, *(float(n * len(nines)) for n in "87"))
    return [float(np.copysign(size, end)) for size in sizes]
