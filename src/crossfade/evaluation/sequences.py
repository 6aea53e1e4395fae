"""Sequences with a label at every step, as learning curves see them: sizes count sequences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Integers
from crossfade.chains.input import layout_of, read_labels
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import Evaluator


def are_sequences(y: Any) -> bool:
    """Return whether labels are lists of labels, one per sequence."""
    if not isinstance(y, (list, tuple)) or not y:
        return False
    return all(isinstance(labels, (list, tuple, np.ndarray)) for labels in y)


@dataclass
class SequenceEvaluator(Evaluator):
    """Fits models on some sequences and scores them on the steps of others.

    Shapes: y a list of sequences of labels.
    `classes` (n_classes,): The labels that occur.
    `codes` (n_steps,), int64: Position of each step's label in `classes`.
    `offsets` (n_sequences + 1,), int64: First step of each sequence.
    """

    offsets: Integers = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def rows(self, index: Integers) -> Any:
        return [self.X[i] for i in index]

    def labels(self, index: Integers) -> Any:
        return [self.y[i] for i in index]

    def truth(self, index: Integers) -> Integers:
        return np.concatenate([self.codes[self.offsets[i] : self.offsets[i + 1]] for i in index])

    def stacked(self, predictions: Any) -> NDArray[Any]:
        return np.concatenate([np.asarray(one) for one in predictions])


def read_sequences(X: Any, y: Any) -> SequenceEvaluator:
    """Check sequences and their labels."""
    if not isinstance(X, Iterable) or isinstance(X, (str, np.ndarray)):
        raise DataError(
            f"X: expected a list of sequences, as y is one of labels, got {type(X).__name__}; give "
            "both as lists"
        )
    listed: Any = list(X)
    tags: Any = list(y)
    labels = read_labels(tags, layout_of(listed))
    steps = layout_of(listed)
    if steps.n_sequences < 2 or (np.diff(steps.offsets) == 0).any():
        raise DataError(
            f"X: expected two sequences or more, none of them empty, got {steps.n_sequences}; "
            "leave empty ones out"
        )
    if labels.classes.size < 2:
        raise DataError("y: expected at least 2 different labels, got 1; give labelled sequences")
    return SequenceEvaluator(listed, tags, labels.classes, labels.codes, offsets=steps.offsets)
