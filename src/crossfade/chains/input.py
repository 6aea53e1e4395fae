"""Sequences as people have them, turned into stacked steps and offsets, and back.

Two forms are read everywhere: a list of sequences (arrays, lists of symbols, …), or all steps in
one array together with ``lengths``, as hmmlearn has it (one sequence when `lengths` is left out).
What comes out has the form of what went in: :meth:`Layout.restore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from crossfade._checks import counted, is_missing, show
from crossfade._typing import Floats, Integers
from crossfade.errors import DataError


@dataclass(frozen=True)
class Layout:
    """Where each sequence's steps stand, and in which form the sequences came.

    `offsets` (n_sequences + 1,), int64: First step of each sequence, and the number of steps.
    `listed`: Whether the sequences came as a list (else as one array).
    """

    offsets: Integers
    listed: bool

    @property
    def n_sequences(self) -> int:
        """Number of sequences, empty ones included."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """Number of steps of all sequences together."""
        return int(self.offsets[-1])

    def restore(self, flat: NDArray[Any]) -> Any:
        """Return stacked results in the form the sequences came in: a list, or one array."""
        if not self.listed:
            return flat
        return [flat[lo:hi] for lo, hi in pairwise(self.offsets)]

    def firsts(self) -> Integers:
        """Return the first step of each sequence that has one."""
        return self.offsets[:-1][np.diff(self.offsets) > 0]

    def lasts(self) -> Integers:
        """Return the last step of each sequence that has one."""
        return self.offsets[1:][np.diff(self.offsets) > 0] - 1

    def followed(self) -> Integers:
        """Return the steps that another step of the same sequence follows."""
        inner = np.ones(self.n_steps, dtype=bool)
        inner[self.lasts()] = False
        return np.flatnonzero(inner)

    def take(self, sequences: Iterable[int]) -> tuple[Integers, Layout]:
        """Return the steps of some sequences, in order, and their own layout."""
        chosen = np.asarray(list(sequences), dtype=np.int64)
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        steps = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], lengths)
        return steps, Layout(offsets, self.listed)


def names_array(names: Iterable[Any]) -> NDArray[Any]:
    """Return names (symbols, labels) as one row (n_names,), where NumPy would make "1" of 1."""
    given = list(names)
    if given:
        try:
            array = np.array(given)
        except ValueError:  # tuples of several lengths
            array = np.empty(0)
        if array.ndim == 1 and array.tolist() == given:
            return array
    return np.fromiter(given, dtype=object, count=len(given))


def layout_of(X: Any, lengths: ArrayLike | None = None) -> Layout:
    """Return the layout of sequences given as a list, or as one array with lengths."""
    if lengths is not None:
        return Layout(_offsets(lengths, _count(X)), listed=False)
    if scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object and X.ndim < 3):
        return Layout(np.array([0, _count(X)], dtype=np.int64), listed=False)
    _refuse_unsplit(X)
    if isinstance(X, str | bytes) or not hasattr(X, "__len__") or hasattr(X, "columns"):
        raise DataError(
            "X: expected a list of sequences, or one array with lengths, got "
            f"{type(X).__name__}; pass a data frame's .to_numpy() with lengths"
        )
    counts = []
    for number, sequence in enumerate(X):
        _refuse_unsplit(sequence)
        if isinstance(sequence, str | bytes) or not (
            hasattr(sequence, "__len__") or scipy.sparse.issparse(sequence)
        ):
            raise DataError(
                f"X: expected a list of sequences, got {sequence!r} as sequence {number}; "
                "write [X] for a single sequence, or pass lengths"
            )
        counts.append(_count(sequence))
    return Layout(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), listed=True)


def _refuse_unsplit(text: Any) -> None:
    if isinstance(text, str) and len(text.split()) != 1:
        raise DataError(
            f"X: expected a list of sequences of words, got the text {show(text)}; split texts "
            "into words, [text.split() for text in X], or write [X] for a single sequence"
        )


def _count(values: Any) -> int:
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def _offsets(lengths: ArrayLike, n_steps: int) -> Integers:
    given = np.asarray(lengths)
    if given.size == 0:
        given = given.astype(np.int64)
    whole = given.ndim == 1 and given.dtype.kind in "iu" and bool((given >= 0).all())
    if not whole or int(given.sum()) != n_steps:
        raise DataError(
            f"lengths: expected whole numbers that add up to the {counted(n_steps, 'step')} of X, "
            f"got {lengths!r}; give each sequence's number of steps"
        )
    return np.concatenate([[0], np.cumsum(given)]).astype(np.int64)


def stack_numbers(X: Any, lengths: ArrayLike | None = None) -> tuple[Floats, Layout]:
    """Return numeric observations stacked, and their layout."""
    layout = layout_of(X, lengths)
    parts = X if layout.listed else [X]
    arrays = [_numbers(part, number, layout.listed) for number, part in enumerate(parts)]
    widths = {array.shape[1] for array in arrays if len(array)}
    if len(widths) > 1:
        first = next(a.shape[1] for a in arrays if len(a))
        odd = next(n for n, a in enumerate(arrays) if len(a) and a.shape[1] != first)
        raise DataError(
            f"X: expected {counted(first, 'column')} in every sequence, got "
            f"{arrays[odd].shape[1]} in sequence {odd}; give all sequences the same columns"
        )
    filled = [array for array in arrays if len(array)] or arrays[:1]
    if not filled:
        return np.zeros((0, 1)), layout
    values = filled[0] if len(filled) == 1 else np.concatenate(filled)
    if np.isinf(values).any():
        step, column = (int(i) for i in np.argwhere(np.isinf(values))[0])
        raise DataError(
            f"X: expected finite numbers or NaN (missing), got {values[step, column]!r} at step "
            f"{step}, column {column}; replace it by NaN if it is unknown"
        )
    return values, layout


def _numbers(part: Any, number: int, listed: bool) -> Floats:
    where = f" in sequence {number}" if listed else ""
    if hasattr(part, "toarray"):  # sparse
        part = part.toarray()
    try:
        array = np.ascontiguousarray(part, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"X: expected numbers{where}, got {part!r:.80}; use emission='categorical' for symbols"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(
            f"X: expected arrays of shape (n_steps,) or (n_steps, n_features){where}, got shape "
            f"{array.shape!r}"
        )
    return array


def stack_symbols(X: Any, lengths: ArrayLike | None = None) -> tuple[list[Any] | Integers, Layout]:
    """Return symbols (words, tags, codes) stacked, and their layout."""
    layout = layout_of(X, lengths)
    parts = X if layout.listed else [X]
    if len(parts) and all(_are_codes(part) for part in parts):
        return np.concatenate([part.ravel() for part in parts]).astype(np.int64), layout
    symbols: list[Any] = []
    for part in parts:
        symbols.extend(_symbols(part))
    for step, symbol in enumerate(symbols):
        if type(symbol).__hash__ is None:
            number = int(np.searchsorted(layout.offsets, step, side="right")) - 1
            raise DataError(
                f"X: expected one symbol per step, got {symbol!r} at step "
                f"{step - int(layout.offsets[number])} of sequence {number}; use a density over "
                "several columns, or a random field for features"
            )
    return symbols, layout


def _are_codes(part: Any) -> bool:
    if not (isinstance(part, np.ndarray) and part.dtype.kind in "iu"):
        return False
    return part.ndim == 1 or (part.ndim == 2 and part.shape[1] == 1)


def _symbols(part: Any) -> Iterable[Any]:
    if not isinstance(part, np.ndarray):
        return part if isinstance(part, Sequence) else list(part)
    if part.ndim == 2 and part.shape[1] == 1:
        part = part[:, 0]
    values: list[Any] = part.tolist()
    if part.dtype.kind == "f" and part.ndim == 1:
        # 3.0 and 3 are one symbol; NaN is a missing one.
        return [None if v != v else int(v) if v.is_integer() else v for v in values]
    return values


def encode(symbols: Sequence[Any] | Integers, known: dict[Any, int]) -> Integers:
    """Return the number of each symbol; ``len(known)`` for others, -1 for a missing one.

    Shapes: → (n_steps,).
    """
    if isinstance(symbols, np.ndarray):
        return _encode_integers(symbols, known)
    codes = np.empty(len(symbols), dtype=np.int64)
    for step, symbol in enumerate(symbols):
        code = known.get(symbol, -1)
        codes[step] = len(known) if code < 0 and not is_missing(symbol) else code
    return codes


def _encode_integers(symbols: Integers, known: dict[Any, int]) -> Integers:
    """Look each different integer up once: in a table of their range, or a sorted list."""
    if not len(symbols):
        return np.empty(0, dtype=np.int64)
    least, most = int(symbols.min()), int(symbols.max())
    if most - least <= len(symbols) + 1000:
        values, where = np.arange(least, most + 1), symbols - least
    else:
        values, where = np.unique(symbols, return_inverse=True)
    found = np.array([known.get(v, len(known)) for v in values.tolist()], dtype=np.int64)
    return found[where.ravel()]


@dataclass(frozen=True)
class Labels:
    """Labels of the steps as numbers.

    `classes` (n_classes,): The labels that occur, sorted.
    `codes` (n_steps,), int64: Position of each step's label in `classes`; -1 where it is missing.
    """

    classes: NDArray[Any]
    codes: Integers

    @property
    def complete(self) -> bool:
        """Whether no label is missing."""
        return bool((self.codes >= 0).all())


def read_labels(
    y: Any, layout: Layout, classes: NDArray[Any] | None = None, *, hidden: bool = False
) -> Labels:
    """Return labels as numbers, checked against the layout of X. Shapes: classes (n_classes,)."""
    if y is None:
        raise DataError("y: expected labels, got None; pass a label for every step of X")
    flat = _flat_labels(y, layout)
    numeric = all(isinstance(v, Integral) or is_missing(v) for v in flat)
    missing = np.array([is_missing(v) or (numeric and v == -1) for v in flat], dtype=bool)
    if missing.any() and not hidden:
        step = int(np.flatnonzero(missing)[0])
        raise DataError(
            f"y: expected a label at every step, got {flat[step]!r} at step {step}; hidden labels "
            "need a hidden Markov model with tradeoff=1"
        )
    if classes is None:
        seen = {v for v, gone in zip(flat, missing, strict=True) if not gone}
        try:
            ordered = sorted(seen)
        except TypeError as error:
            raise DataError(
                "y: expected labels of one kind, got "
                f"{sorted({type(v).__name__ for v in seen})!r}; make them all strings or integers"
            ) from error
        classes = names_array(ordered)
    known = {label: code for code, label in enumerate(classes.tolist())}
    codes = np.array([known.get(v, len(known)) for v in flat], dtype=np.int64)
    codes[missing] = -1
    return Labels(classes, codes)


def _is_sequence(part: Any) -> bool:
    return hasattr(part, "__len__") and not isinstance(part, str | bytes)


def _flat_labels(y: Any, layout: Layout) -> list[Any]:
    """Return all labels in one list, refusing any whose lengths differ from X's."""
    if isinstance(y, np.ndarray) and y.dtype != object:
        listed = y.ndim == 2 and y.shape[1] != 1
    else:
        first = next((part for part in y if part is not None), None)
        listed = layout.listed if not len(y) else _is_sequence(first)
    if not listed:
        labels = np.asarray(y).ravel().tolist() if isinstance(y, np.ndarray) else list(y)
        if len(labels) != layout.n_steps:
            raise DataError(
                f"y: expected {counted(layout.n_steps, 'label')}, one for each step of X, got "
                f"{len(labels)}"
            )
        return labels
    if len(y) != layout.n_sequences:
        raise DataError(
            f"y: expected {counted(layout.n_sequences, 'sequence')} of labels to go with X, got "
            f"{len(y)}"
        )
    labels = []
    for number, (part, length) in enumerate(zip(y, np.diff(layout.offsets), strict=True)):
        if part is None:  # a sequence without labels
            labels.extend([None] * length)
            continue
        if not _is_sequence(part) or len(part) != length:
            raise DataError(
                f"y: expected {counted(length, 'label')} in sequence {number}, as many as X has "
                f"steps there, got {len(part) if hasattr(part, '__len__') else part!r}"
            )
        labels.extend(part.tolist() if hasattr(part, "tolist") else part)
    return labels
