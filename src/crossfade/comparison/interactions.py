"""What columns say together, where a model that sees it is ahead of naive Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from crossfade._typing import Floats
from crossfade.classifiers.interactions import named, screened, told_from_chance
from crossfade.evaluation.inputs import LabelledTable
from crossfade.evaluation.splits import Split

__all__ = ["interaction_note"]

_SHOWN: Final = 10


def interaction_note(
    name: str, posteriors: Sequence[Floats], splits: Sequence[Split], table: LabelledTable
) -> str | None:
    """Return which columns interact, by a model's posteriors of the splits' test rows.

    Shapes: posteriors (n_test, n_classes), one for each of the first splits.
    """
    codes, schema = table.evaluator.codes, table.schema
    if schema.sparse or schema.texts:
        return None
    total, times = np.zeros((len(codes), len(table.evaluator.classes))), np.zeros(len(codes))
    for posterior, split in zip(posteriors, splits, strict=False):
        total[split.test] += posterior
        times[split.test] += 1.0
    rows = np.flatnonzero(times)
    matrix = np.asarray(schema.encode(table.columns), dtype=np.float64)[rows]
    mean = total[rows] / times[rows, None]
    told = told_from_chance(screened(matrix, schema, codes[rows], mean, None))[:_SHOWN]
    if not told:
        return None
    shown = ", ".join(f"{named(one.derived, schema)} (χ² {one.statistic:.0f})" for one in told)
    return (
        f"{name} does not see what columns say together: its residuals on test rows ask for "
        f'{shown}; NaiveBayes(interactions="auto") takes such columns in.'
    )
