"""What each column is worth to a model: weights, in the columns that the user knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from crossfade._typing import Floats, Integers
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.explanation import word_scores
from crossfade.evidence.details import Bar, WordWeight
from crossfade.table.decoding import decoded_table, table_library
from crossfade.table.schema import Schema

#: Columns that are probed; of wider tables those that separate the classes most.
_MOST_COLUMNS = 40

#: Categories of a column that are probed, besides the most frequent one.
_MOST_LEVELS = 5

#: Words that are named for each class.
_MOST_WORDS = 12


@dataclass(frozen=True)
class Probes:
    """Pairs of rows that differ in one column.

    `low`, `high` (n_bars,), int64: The rows of each pair.
    `steps` (n_bars,): Standard deviations of the column between them; 1 for categories.
    """

    X: Any
    bars: tuple[Bar, ...]
    low: Integers
    high: Integers
    steps: Floats


def make_probes(X: Any, schema: Schema, codes: Integers) -> Probes | None:
    """Return the rows at which models are asked for the weight of each column.

    A number goes from one standard deviation below its mean to one above, within what occurs; a
    boolean from its first value to its second; text from its commonest category to each of the next
    five. Other columns stay at their median or commonest value; free text and identifiers are
    missing, and not probed. Shapes: X (n_rows, n_columns); codes (n_rows,).
    """
    if schema.sparse:
        return None
    matrix = np.array(schema.encode(X), dtype=np.float64)
    # A step from one text to another says nothing of others.
    matrix[:, [kind in ("text", "identifier") for kind in schema.kinds]] = np.nan
    base = np.array([_usual(c, k) for c, k in zip(matrix.T, schema.kinds, strict=True)])
    rows, bars, steps = [base], list[Bar](), list[float]()
    low, high = list[int](), list[int]()
    for j in _separating(matrix, schema, codes):
        for bar, start, end, step in _pairs(j, matrix[:, j], schema):
            bars.append(bar)
            for value, numbers in ((start, low), (end, high)):
                row = base.copy()
                row[j] = value
                numbers.append(len(rows))
                rows.append(row)
            steps.append(step)
    if not bars:
        return None
    table = decoded_table(schema, np.array(rows), table_library(X))
    return Probes(table, tuple(bars), np.array(low), np.array(high), np.array(steps))


def weights(scores: Floats, probes: Probes) -> Floats:
    """Return the weights from the class scores of the probes.

    Shapes: scores (n_probes, n_classes); → (n_bars, 1).
    """
    if scores.shape[1] == 2:
        scores = scores[:, 1:] - scores[:, :1]
    else:
        scores = scores - scores.mean(axis=1, keepdims=True)
    return (scores[probes.high] - scores[probes.low]) / probes.steps[:, None]


def word_weights(model: Any, X: Any, labels: Sequence[str]) -> tuple[WordWeight, ...]:
    """Return the words that tell these rows apart most, class by class.

    A word's say is the standard deviation, over the rows, of what it adds: nothing where it is in
    every row, and little where it is rare.

    `labels`: The model's classes as text.
    """
    if not isinstance(model, TradeoffClassifier):
        return ()
    found: list[list[tuple[float, WordWeight]]] = [[] for _ in labels]
    for column, (words, by_class) in word_scores(model, X).items():
        place, n_rows = by_class[0].indices, np.bincount(by_class[0].indices, minlength=len(words))
        added = np.stack([one.data for one in by_class])
        added -= added.mean(axis=0)
        if len(labels) == 2:
            added *= 2.0  # against the other class
        for k, label in enumerate(labels):
            sums = np.bincount(place, added[k], len(words))
            squares = np.bincount(place, added[k] ** 2, len(words))
            # Not exactly 0 where every row has the same: rounding is no say.
            variance = squares - sums**2 / by_class[0].shape[0]
            say = np.where(variance > 1e-9 * squares, variance, 0.0) * (sums > 0.0)
            for j in np.argsort(-say, kind="stable")[:_MOST_WORDS].tolist():
                if say[j] > 0.0:
                    mean, times = float(sums[j] / n_rows[j]), int(n_rows[j])
                    one = WordWeight(column, str(words[j]), label, mean, times)
                    found[k].append((float(say[j]), one))
    return tuple(
        one
        for of_class in found
        for _, one in sorted(of_class, key=lambda pair: -pair[0])[:_MOST_WORDS]
    )


def jackknife(values: Sequence[Floats], test_to_train: float) -> tuple[Floats, float]:
    """Return the standard error of an estimate from its values on random parts of the rows.

    The delete-d jackknife (Shao and Wu 1989, Annals of Statistics 17): with d rows left out of n,
    the variance on all rows is (n-d)/d times the mean squared deviation of those on parts.
    """
    parts = np.stack(values)
    error = parts.std(axis=0, ddof=1) / np.sqrt(test_to_train)
    return error, float(stats.t.ppf(0.975, len(parts) - 1))


def _usual(column: Floats, kind: str) -> float:
    """Return the median of numbers, the most frequent of anything else; NaN if there is none."""
    present = column[~np.isnan(column)]
    if not present.size:
        return np.nan
    if kind in ("continuous", "count"):
        return float(np.quantile(present, 0.5, method="lower"))
    values, counts = np.unique(present, return_counts=True)
    return float(values[counts.argmax()])


def _separating(matrix: Floats, schema: Schema, codes: Integers) -> list[int]:
    """Return the columns that separate the classes most, in the table's order."""
    shares = [
        -1.0 if np.isnan(column).all() else _between(column, kind, codes)
        for column, kind in zip(matrix.T, schema.kinds, strict=True)
    ]
    order = np.argsort(-np.array(shares), kind="stable")[:_MOST_COLUMNS]
    return sorted(j for j in order.tolist() if shares[j] >= 0.0)


def _between(column: Floats, kind: str, codes: Integers) -> float:
    """Return the share of a column's variance that lies between classes."""
    present = ~np.isnan(column)
    values, codes = column[present], codes[present]
    if kind == "categorical":
        expanded = (values[:, None] == np.unique(values)[:50]).astype(np.float64)
    else:
        expanded = values[:, None]
    expanded = expanded - expanded.mean(axis=0)
    total = float((expanded**2).sum())
    if total <= 0.0:
        return -1.0
    onehot = np.eye(int(codes.max()) + 1)[codes]
    sums = onehot.T @ expanded
    counts = onehot.sum(axis=0)
    return float((sums**2 / np.maximum(counts, 1.0)[:, None]).sum()) / total


def _pairs(j: int, column: Floats, schema: Schema) -> list[tuple[Bar, float, float, float]]:
    present = column[~np.isnan(column)]
    if schema.kinds[j] == "categorical":
        known = schema.categories[j] or ()
        values, counts = np.unique(present, return_counts=True)
        first, *others = values[np.argsort(-counts, kind="stable")][: _MOST_LEVELS + 1]
        return [
            (Bar(j, str(known[int(v)]), str(known[int(first)])), float(first), float(v), 1.0)
            for v in others
        ]
    low, high = float(present.min()), float(present.max())
    if low == high:
        return []
    if schema.kinds[j] == "boolean":
        names = schema.categories[j] or ("0", "1")
        return [(Bar(j, str(names[-1]), str(names[0])), 0.0, 1.0, 1.0)]
    mean, deviation = float(present.mean()), float(present.std())
    start, end = max(low, mean - deviation), min(high, mean + deviation)
    if (present == np.round(present)).all():
        start, end = float(np.floor(start)), float(np.ceil(end))
    return [(Bar(j, None, None), start, end, (end - start) / deviation)]
