"""Labelled rows that are not at hand: sums over the parts of a source, and a sample of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import Together, add_sums
from crossfade.table.source import Part, RowSource, rows_of
from crossfade.table.survey import SAMPLE_ROWS, Drawing, Encoder, Foresight, Survey, drawn_rows
from crossfade.tradeoff.folds import one_by_one
from crossfade.tradeoff.labelled_rows import LabelledRows

Sums = TypeVar("Sums")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Passes:
    """Passes over the parts of a source: the first one also surveys, and draws a sample.

    `known`: What a survey found, or what is expected that one will find.
    """

    def __init__(
        self, source: RowSource, encoder: Encoder, view: _View, known: Survey | Foresight
    ) -> None:
        self.source, self.view = source, view
        self._encoder, self._known = encoder, known
        self._parts: RowSource | None = None
        self._sample: LabelledRows | None = None
        self._some: LabelledRows | None = None
        self.beside: dict[str, Any] = {}  # of the sample's rows
        self.together = Together(self._take)

    @property
    def is_surveyed(self) -> bool:
        """Whether columns and labels of all rows are known."""
        return isinstance(self._known, Survey)

    @property
    def survey(self) -> Survey:
        """What columns hold and which labels there are."""
        if not isinstance(self._known, Survey):
            self._take([])
        assert isinstance(self._known, Survey)
        return self._known

    @property
    def classes(self) -> Any:
        """The labels, shape (n_classes,)."""
        return self._encoder.classes

    @property
    def parts(self) -> RowSource:
        """Matrices and codes."""
        if self._parts is None:
            self._parts = self.source.mapped(self._encoder)
        return self._parts

    @property
    def sample(self) -> LabelledRows:
        """An even sample of the rows."""
        if self._sample is None:
            self._take([])
        if self._sample is None:  # some rows were left out, and too few of the others drawn
            self._take([])
        assert self._sample is not None
        return self._sample

    @property
    def some(self) -> LabelledRows:
        """What was drawn, fewer rows where some of those drawn were left out."""
        return self.sample if self._some is None else self._some

    def _take(self, functions: list[Callable[[LabelledRows], Any]]) -> tuple[Any, ...]:
        view = self.view
        drawing = None
        if self._sample is None:
            known = self._known
            n_rows = known.n_rows if isinstance(known, Survey) else self.source.n_rows
            drawing = Drawing(n_rows, SAMPLE_ROWS)

        def of_part(part: Part) -> Any:
            rows = view(part)
            sums = tuple(function(rows) for function in functions)
            return sums, None if drawing is None else drawing(part)

        def join(one: Any, other: Any) -> Any:
            return add_sums(one[0], other[0]), None if one[1] is None else one[1].joined(other[1])

        if isinstance(self._known, Survey):
            sums, drawn = self.parts.reduce_parts(of_part, join)  # type: ignore[misc]
        else:
            self._known, (sums, drawn) = self._known.reduce(self.source, of_part, join)
        if drawn is not None:
            part = drawn_rows(drawn, SAMPLE_ROWS)
            sample, self.beside = replace(view(part), is_part=False), part.beside
            self._some = sample if "groups" in part.beside else one_by_one(sample)
            if rows_of(part.table) >= min(SAMPLE_ROWS, self._known.n_rows):
                self._sample = self._some
        return tuple(sums)

    def close(self) -> None:
        """Let go of what was kept for further passes."""
        (self.source if self._parts is None else self._parts).close()


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
        return LabelledRows(
            part.table,
            part.labels,
            weights,
            self.n_classes,
            is_part=True,
            class_factors=self.by_class,
        )


class _Counted(NamedTuple):
    """How many rows each class has, and what they weigh, a factor by class apart; (n_classes,)."""

    counts: Integers
    weights: Floats


@dataclass(frozen=True)
class SourceRows(LabelledRows):
    """The rows of a source. `X`, `codes` and `weights` are those of a few of them.

    `by_class` (n_classes,) or None: Factor of each class's rows' weights.
    """

    by_class: Floats | None = None
    passes: _Passes | None = None

    @classmethod
    def of(
        cls,
        source: RowSource,
        encoder: Encoder,
        known: Survey | Foresight,
        by_class: Floats | None = None,
    ) -> SourceRows:
        """Return the rows of a source."""
        view = _View(encoder.classes.size, by_class)
        head = view(encoder(source.head()))
        passes = _Passes(source, encoder, view, known)
        return cls(
            head.X,
            head.codes,
            head.weights,
            view.n_classes,
            is_part=True,
            by_class=by_class,
            passes=passes,
        )

    @cached_property
    def _counted(self) -> _Counted:
        assert self.passes is not None
        found, classes = self.passes.survey, self.passes.classes
        return _Counted(found.counts(classes), found.class_weights(classes))

    def __getstate__(self) -> dict[str, Any]:
        # What goes to other machines says how to sum over parts, not where they are.
        if self.passes is not None and self.passes.is_surveyed:
            _ = self._counted
        nothing = {"X": self.X[:0], "codes": self.codes[:0], "weights": None, "passes": None}
        return self.__dict__ | nothing

    @property
    def n_passes(self) -> int:
        """How often the rows have been read."""
        return 0 if self.passes is None else self.passes.source.n_passes

    def close(self) -> None:
        """Let go of what was kept for further passes."""
        if self.passes is not None:
            self.passes.close()

    @property
    def n_samples(self) -> int:
        """Return the number of rows, whatever their weights."""
        return int(self._counted.counts.sum())

    @cached_property
    def class_weights(self) -> Floats:
        """Return the summed weight of each class, shape (n_classes,)."""
        weighed = self._counted.weights
        return weighed if self.by_class is None else weighed * self.by_class

    @property
    def spare(self) -> int:
        assert self.passes is not None
        return self.passes.source.spare

    @property
    def at_hand(self) -> LabelledRows:
        """Return an even sample of the rows."""
        assert self.passes is not None
        return replace(self.passes.sample, has_missing=self.has_missing)

    @property
    def drawn(self) -> tuple[LabelledRows, Any]:
        """An even sample of the rows without a pass for it, and what their groups are."""
        assert self.passes is not None
        some = replace(self.passes.some, has_missing=self.has_missing)
        return some, self.passes.beside.get("groups")

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
