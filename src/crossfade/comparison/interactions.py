"""What columns say together, where a model that sees it is ahead of naive Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.classifiers.interactions import Derived, Screened, named, screened, told_from_chance
from crossfade.evaluation.inputs import LabelledTable
from crossfade.evaluation.splits import Split
from crossfade.evidence.interactions import Interaction
from crossfade.table.schema import Schema

_SHOWN: Final = 10

#: Parts that a column of numbers is cut into beside another one, and by itself; most categories.
_PARTS: Final = 4
_PARTS_ALONE: Final = 8
_MOST_LEVELS: Final = 6

#: Rows of a cell below which its mean residual says nothing.
_FEWEST: Final = 5


def find_interactions(
    posteriors: Sequence[Floats], splits: Sequence[Split], table: LabelledTable
) -> tuple[Interaction, ...]:
    """Return which columns interact, by a model's posteriors of the splits' test rows.

    Shapes: posteriors (n_test, n_classes), one for each of the first splits.
    """
    codes, schema, classes = table.evaluator.codes, table.schema, table.evaluator.classes
    if schema.sparse or schema.texts:
        return ()
    total, times = np.zeros((len(codes), len(classes))), np.zeros(len(codes))
    for posterior, split in zip(posteriors, splits, strict=False):
        total[split.test] += posterior
        times[split.test] += 1.0
    rows = np.flatnonzero(times)
    matrix = np.asarray(schema.encode(table.columns), dtype=np.float64)[rows]
    mean = total[rows] / times[rows, None]
    residual = np.eye(len(classes))[codes[rows]] - mean
    told: dict[tuple[int, int], Screened] = {}
    for one in told_from_chance(screened(matrix, schema, codes[rows], mean, None)):
        told.setdefault((one.derived.first, one.derived.second), one)  # one picture of a column
    found = []
    for derived, statistic, p_value in list(told.values())[:_SHOWN]:
        first, second = _axes(derived, matrix, schema)
        sums, counts = _cells(first[0], second[0], residual, (len(first[1]), len(second[1])))
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.where(counts >= _FEWEST, sums / counts, np.nan)
        # Of two classes each is the other's mirror; of more, the one that is told apart worst.
        k = 1 if len(classes) == 2 else int(np.nansum(counts * means**2, axis=(1, 2)).argmax())
        found.append(
            Interaction(
                named(derived, schema),
                tuple(str(schema.names[j]) for j in dict.fromkeys((derived.first, derived.second))),
                float(statistic),
                float(p_value),
                str(classes[k]),
                first[1],
                second[1],
                means[k],
                counts,
            )
        )
    return tuple(found)


def interaction_note(name: str, found: Sequence[Interaction]) -> str:
    """Return in a sentence what a model does not see."""
    shown = ", ".join(f"{one.name} (χ² {one.statistic:.0f})" for one in found)
    return (
        f"{name} does not see what columns say together: its residuals on test rows ask for "
        f'{shown}; NaiveBayes(interactions="auto", thresholds="auto") takes such columns in.'
    )


def _axes(
    one: Derived, matrix: Floats, schema: Schema
) -> tuple[tuple[Integers, tuple[str, ...]], ...]:
    """Return the parts of either column; of one column alone the second has one part."""
    if one.alone:
        alone = _parts(one.first, matrix[:, one.first], schema, _PARTS_ALONE)
        return alone, (np.zeros(len(matrix), dtype=np.int64), ("",))
    first, second = (_parts(j, matrix[:, j], schema, _PARTS) for j in (one.first, one.second))
    return first, second


def _parts(j: int, column: Floats, schema: Schema, number: int) -> tuple[Integers, tuple[str, ...]]:
    present = ~np.isnan(column)
    if schema.kinds[j] in ("categorical", "boolean"):
        known = schema.categories[j] or ("0", "1")
        values, counts = np.unique(column[present], return_counts=True)
        kept = np.sort(values[np.argsort(-counts, kind="stable")][:_MOST_LEVELS])
        place = np.searchsorted(kept, column)
        own = np.append(kept, np.nan)[place] == column
        names = tuple(str(known[int(value)]) for value in kept)
        rest = present & ~own
        return np.where(own, place, np.where(rest, len(kept), -1)), (
            (*names, "others") if rest.any() else names
        )
    edges = np.unique(np.quantile(column[present], np.arange(1, number) / number))
    place = np.where(present, np.searchsorted(edges, column), -1)
    used = np.unique(place[present])
    # What is usual in a part is shorter than its limits.
    names = tuple(f"{np.median(column[place == part]):.3g}" for part in used)
    return np.where(present, np.searchsorted(used, place), -1), names


def _cells(
    first: Integers, second: Integers, residual: Floats, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """Return sums of residuals, (n_classes, n_first, n_second), and rows by cell."""
    own = np.flatnonzero((first >= 0) & (second >= 0))
    cell = first[own] * shape[1] + second[own]
    size = shape[0] * shape[1]
    sums = np.zeros((residual.shape[1], size))
    for k, column in enumerate(residual[own].T):
        sums[k] = np.bincount(cell, column, minlength=size)
    counts = np.bincount(cell, minlength=size).astype(np.float64)
    return sums.reshape(-1, *shape), counts.reshape(shape)
