"""Labelled rows that are not at hand: sums over the parts of a source, and a sample of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import Together, add_sums
from crossfade.table.source import Part, RowSource
from crossfade.table.survey import SAMPLE_ROWS, Drawing, drawn_rows
from crossfade.tradeoff.labelled_rows import LabelledRows

__all__ = ["SourceRows"]

Sums = TypeVar("Sums")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Passes:
    """Passes over the parts of a source; the first one also draws the sample."""

    def __init__(self, parts: RowSource, counts: Integers, view: _View) -> None:
        self.parts, self.view = parts, view
        self._drawing = Drawing.of(counts, SAMPLE_ROWS)
        self._sample: LabelledRows | None = None
        self.beside: dict[str, Any] = {}  # of the sample's rows
        self.together = Together(self._take)

    @property
    def sample(self) -> LabelledRows:
        """An even sample of the rows."""
        if self._sample is None:
            self._keep(self.parts.reduce_parts(self._drawing, _joined))
        assert self._sample is not None
        return self._sample

    def _keep(self, drawn: Any) -> None:
        part = drawn_rows(drawn, SAMPLE_ROWS)
        self._sample, self.beside = replace(self.view(part), is_part=False), part.beside

    def _take(self, functions: list[Callable[[LabelledRows], Any]]) -> tuple[Any, ...]:
        view = self.view
        drawing = self._drawing if self._sample is None else None

        def of_part(part: Part) -> Any:
            rows = view(part)
            sums = tuple(function(rows) for function in functions)
            return sums, None if drawing is None else drawing(part)

        def join(one: Any, other: Any) -> Any:
            return add_sums(one[0], other[0]), None if one[1] is None else one[1].joined(other[1])

        sums, drawn = self.parts.reduce_parts(of_part, join)  # type: ignore[misc]
        if drawn is not None:
            self._keep(drawn)
        return tuple(sums)


def _joined(one: Any, other: Any) -> Any:
    return one.joined(other)


@dataclass(frozen=True)
class _View:
    """Makes labelled rows of a part whose table is a matrix and whose labels are codes."""

    n_classes: int
    by_class: Floats | None

    def __call__(self, part: Part) -> LabelledRows:
        weights = part.beside.get("sample_weight")
        if self.by_class is not None:
            own = self.by_class[part.labels]
            weights = own if weights is None else weights * own
        return LabelledRows(part.table, part.labels, weights, self.n_classes, is_part=True)


@dataclass(frozen=True)
class SourceRows(LabelledRows):
    """The rows of a source. `X`, `codes` and `weights` are those of a few of them.

    `counts` (n_classes,): Rows of each class.
    `by_class` (n_classes,) or None: Factor of each class's rows' weights.
    `weighed` (n_classes,) or None: What each class's rows weigh, the factor apart; None for counts.
    """

    counts: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    by_class: Floats | None = None
    weighed: Floats | None = None
    passes: _Passes | None = None

    @classmethod
    def of(
        cls,
        parts: RowSource,
        counts: Integers,
        by_class: Floats | None = None,
        weighed: Floats | None = None,
    ) -> SourceRows:
        """Return the rows of a source of matrices and codes."""
        view = _View(counts.size, by_class)
        head = view(parts.head())
        passes = _Passes(parts, counts, view)
        return cls(
            head.X,
            head.codes,
            head.weights,
            counts.size,
            is_part=True,
            counts=counts,
            by_class=by_class,
            weighed=weighed,
            passes=passes,
        )

    def __getstate__(self) -> dict[str, Any]:
        # What goes to other machines says how to sum over parts, not where they are.
        nothing = {"X": self.X[:0], "codes": self.codes[:0], "weights": None, "passes": None}
        return self.__dict__ | nothing

    @property
    def n_passes(self) -> int:
        """How often the rows have been read."""
        return 0 if self.passes is None else self.passes.parts.n_passes

    def close(self) -> None:
        """Let go of what was kept for further passes."""
        if self.passes is not None:
            self.passes.parts.close()

    @property
    def n_samples(self) -> int:
        """Return the number of rows, whatever their weights."""
        return int(self.counts.sum())

    @cached_property
    def class_weights(self) -> Floats:
        """Return the summed weight of each class, shape (n_classes,)."""
        weighed = self.counts.astype(np.float64) if self.weighed is None else self.weighed
        return weighed if self.by_class is None else weighed * self.by_class

    @property
    def at_hand(self) -> LabelledRows:
        """Return an even sample of the rows."""
        assert self.passes is not None
        return replace(self.passes.sample, has_missing=self.has_missing)

    def beside(self, role: str) -> Any:
        """Return what stands beside the rows of the sample, shape (n_sample,)."""
        assert self.passes is not None
        _ = self.passes.sample
        return self.passes.beside[role]

    def head(self) -> Floats:
        """Return some rows with a cell in every column that has any in the sample."""
        head = super().head()
        return self.at_hand.head() if np.isnan(head).all(axis=0).any() else head

    def total(self, function: Callable[[LabelledRows], Sums]) -> Sums:
        """Return the sum of a function over all parts of the rows."""
        assert self.passes is not None
        has_missing = self.has_missing

        def of_part(rows: LabelledRows) -> Sums:
            return function(replace(rows, has_missing=True) if has_missing else rows)

        return self.passes.together.total(of_part)

    def fits(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``function(item)`` for every item, the sums of all taken in common passes."""
        assert self.passes is not None
        return self.passes.together.map(function, items)

    def sampled(self, share: float) -> LabelledRows:
        """Return the sample, whatever the share: it is at hand, where all rows are not."""
        return self.at_hand

    def block(self, rows: slice | Integers) -> Any:
        raise TypeError("rows of a source come in parts: expected a sum over them, got a block")

    def block_weights(self, rows: slice | Integers) -> Floats | None:
        raise TypeError("rows of a source come in parts: expected a sum over them, got a block")

    def take(self, index: Integers) -> LabelledRows:
        raise TypeError("rows of a source come in parts: expected a sample, got positions")
