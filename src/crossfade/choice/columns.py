"""From rows to each column's density, with the reason as data; one function puts it into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.choice.evidence import (
    ColumnEvidence,
    column_evidence,
    differs,
    is_candidate,
    near_zero_variance,
    tail_evidence,
)
from crossfade.densities import DENSITIES
from crossfade.densities.base import Density
from crossfade.table.documents import MixedRows
from crossfade.table.schema import Schema
from crossfade.tradeoff.folds import drawn_evenly, folds
from crossfade.tradeoff.labelled_rows import LabelledRows

#: The density that a column of each kind gets, and the kind of column each named density takes.
DENSITY_OF_KIND = {
    "continuous": "gaussian",
    "count": "poisson",
    "boolean": "bernoulli",
    "categorical": "categorical",
    "text": "text",
    "identifier": "none",
}
KIND_OF_DENSITY = {name: density.kind for name, density in DENSITIES.items()} | {"text": "text"}

#: What columns of a type have in common, by the density that all of them get.
_TYPES = {
    "gaussian": "numbers unlike counts",
    "poisson": "whole numbers from 0, like counts",
    "bernoulli": "yes or no, or two different numbers alone",
    "categorical": "text or categories",
    "text": "text of many words",
    "linear": "numbers of any sign; no density, but a logistic regression",
}

#: Folds for the evidence on columns, and most rows that it is taken from.
_FOLDS = 5
_ROWS = 20_000

#: Rows up to which tails are drawn in. With more, hardly a value lies beyond those seen in the fit,
#: and every pass over the rows would take logarithms of all of them anew.
_TAIL_ROWS = 20_000

#: Cells whose mean and spread are taken at once: 16 MB.
_CELLS_AT_ONCE = 2_000_000


class Reason(Enum):
    """Why a column has its density."""

    TYPE = "type"
    GIVEN = "given"
    EVIDENCE = "evidence"
    NEAR_ZERO_VARIANCE = "near-zero variance"
    ONE_VALUE = "one value"


@dataclass(frozen=True)
class ColumnChoice:
    """A column's density and why it has it.

    `location`, `spread`: Where Johnson's S_U has its middle, and its unit.
    `log_loss`, `standard_error`: As in :class:`~crossfade.choice.evidence.ColumnEvidence`.
    """

    column: str
    density: str | Density
    reason: Reason
    one_variance: bool = False
    location: float = 0.0
    spread: float = 1.0
    log_loss: Mapping[str, float] = field(default_factory=dict)
    standard_error: float = 0.0

    @property
    def name(self) -> str:
        """The density's name."""
        return self.density if isinstance(self.density, str) else type(self.density).__name__

    def by(self, found: ColumnEvidence) -> ColumnChoice:
        """Return the choice that this evidence makes."""
        reason, error = Reason.EVIDENCE, found.standard_error
        losses = found.log_loss
        return replace(
            self, density=found.chosen, reason=reason, log_loss=losses, standard_error=error
        )


def in_words(choice: ColumnChoice) -> str:
    """Return why a column has its density."""
    if choice.density == "none":
        return "nearly every row has a value of its own, or a date or time: left out"
    if choice.reason is Reason.TYPE:
        return f"by the column's type: {_TYPES.get(choice.name, choice.name)}"
    if choice.reason is Reason.GIVEN:
        return "given"
    if choice.reason is Reason.ONE_VALUE:
        return "no two rows with different values: it says nothing, whatever comes later"
    if choice.reason is Reason.NEAR_ZERO_VARIANCE:
        return "almost all rows have the most common value: one variance for all classes"
    shown = ", ".join(f"{name} {loss:.4f}" for name, loss in choice.log_loss.items())
    gain = f"standard error of the difference {choice.standard_error:.4f}"
    return f"out-of-fold log-loss of the column alone: {shown}; {gain}"


def report_of(choices: Sequence[ColumnChoice]) -> list[dict[str, str]]:
    """Return column, density, reason in words and by what, as plain text."""
    return [
        {"column": one.column, "density": one.name, "reason": in_words(one), "by": one.reason.value}
        for one in choices
    ]


def kinds_of(choices: Sequence[ColumnChoice], kinds: Sequence[str]) -> dict[int, str] | None:
    """Return the kinds of all columns, None where the choices left them as they were."""
    if all(one.reason is not Reason.EVIDENCE for one in choices):
        return None
    found = dict(enumerate(kinds))
    for j, one in enumerate(choices):
        if one.reason is Reason.EVIDENCE:
            found[j] = KIND_OF_DENSITY.get(one.name, kinds[j])
    return None if list(found.values()) == list(kinds) else found


def as_chosen(
    rows: LabelledRows, schema: Schema, choices: Sequence[ColumnChoice]
) -> tuple[LabelledRows, Schema]:
    """Return rows and schema with codes for numbers where a column of them became categorical."""
    kinds = kinds_of(choices, schema.kinds)
    if kinds is None:
        return rows, schema
    categories = list(schema.categories)
    cells = rows.everything[0]
    numbers = np.array(cells, dtype=np.float64)
    for j, kind in kinds.items():
        if kind == "categorical" != schema.kinds[j]:
            present = ~np.isnan(numbers[:, j])
            values, codes = np.unique(numbers[present, j], return_inverse=True)
            numbers[present, j] = codes
            categories[j] = tuple(values.tolist())
    X = MixedRows(numbers, cells.words) if isinstance(cells, MixedRows) else numbers
    found: Any = tuple(kinds.values())
    return rows.recoded(X), replace(schema, kinds=found, categories=tuple(categories))


def by_type(
    names: Sequence[str], kinds: Sequence[str], given: Mapping[int, str | Density]
) -> list[ColumnChoice]:
    """Return each column's density as given, else by its type."""
    return [
        ColumnChoice(name, given[j], Reason.GIVEN)
        if j in given
        else ColumnChoice(name, DENSITY_OF_KIND[kind], Reason.TYPE)
        for j, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]


def by_evidence(
    choices: Sequence[ColumnChoice],
    rows: LabelledRows,
    groups: Integers | None = None,
    *,
    shared_variance: bool = False,
    like: Sequence[ColumnChoice] | None = None,
    standing_for: int = 0,
) -> list[ColumnChoice]:
    """Return better choices for the columns whose type alone decided, where the rows tell.

    `like` are choices by more rows than these: the same columns are then put to the same test.
    `standing_for` is the number of rows whose sample these are.
    """
    # Derived numbers stay numbers.
    own = len(choices) if rows.n_own is None else rows.n_own
    found = _without_constant(choices, rows, own, like, standing_for)
    numerical = ("gaussian", "poisson")
    of_type = [
        j for j, one in enumerate(found) if one.reason is Reason.TYPE and one.density in numerical
    ]
    few = [
        j
        for j in of_type
        if j < own
        and (is_candidate(rows.X[:, j], rows.weights) if like is None else _is_of_few(like[j]))
    ]
    tailed = [j for j in of_type if found[j].density == "gaussian" and j not in few]
    for j in () if shared_variance else tailed:
        if near_zero_variance(rows.X[:, j], rows.weights):
            found[j] = replace(found[j], reason=Reason.NEAR_ZERO_VARIANCE, one_variance=True)
    if max(rows.n_samples, standing_for) > _TAIL_ROWS:
        tailed = []
    if not few and not tailed:
        return found
    index = drawn_evenly(rows, _ROWS)
    sample = rows.take(index)
    sample = replace(sample, has_missing=bool(np.isnan(sample.X).any()))
    fold = folds(sample, _FOLDS, None if groups is None else groups[index])
    _draw_tails_in(found, rows, tailed, fold)
    evidence = column_evidence(sample, [(j, found[j].name) for j in few], fold)
    for j, one in evidence.items():
        found[j] = found[j].by(one)
    return found


def _without_constant(
    choices: Sequence[ColumnChoice],
    rows: LabelledRows,
    n_own: int,
    like: Sequence[ColumnChoice] | None,
    standing_for: int,
) -> list[ColumnChoice]:
    """Return the choices, columns of numbers that never differ being constant.

    A fold's rows are not asked, nor is a sample: what is rare may be missing there.
    """
    found = list(choices)
    kinds = ("gaussian", "poisson", "bernoulli")
    asked = [
        j
        for j, one in enumerate(found[:n_own])
        if one.reason is Reason.TYPE and one.density in kinds
    ]
    if like is not None:
        asked = [j for j in asked if like[j].reason is Reason.ONE_VALUE]
    elif rows.n_samples < standing_for:
        return found
    else:
        asked = [j for j in asked if not differs(rows.X[:, j], rows.weights)]
    for j in asked:
        found[j] = replace(found[j], density="constant", reason=Reason.ONE_VALUE)
    return found


def _is_of_few(choice: ColumnChoice) -> bool:
    return "categorical" in choice.log_loss


def _draw_tails_in(
    found: list[ColumnChoice], rows: LabelledRows, columns: list[int], fold: Integers
) -> None:
    centre, width = _location_and_spread(rows, columns)
    varying = [i for i in range(len(columns)) if width[i] > 0.0]
    columns, centre, width = [columns[i] for i in varying], centre[varying], width[varying]
    tested = [i for i, j in enumerate(columns) if not found[j].one_variance]
    evidence = tail_evidence(
        rows, centre[tested], width[tested], [columns[i] for i in tested], fold
    )
    for j, at, scale in zip(columns, centre.tolist(), width.tolist(), strict=True):
        one = found[j].by(evidence[j]) if j in evidence else found[j]
        if j not in evidence or one.density == "johnson_su":
            one = replace(one, density="johnson_su", location=at, spread=scale)
        found[j] = one


def _location_and_spread(rows: LabelledRows, columns: list[int]) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of columns, zero where nothing varies."""
    at_once = max(1, _CELLS_AT_ONCE // max(rows.n_samples, 1))
    parts = [columns[start : start + at_once] for start in range(0, len(columns), at_once)]
    found = [_of_columns(rows, part) for part in parts]
    if not found:
        return np.zeros(0), np.zeros(0)
    centre, spread = (np.concatenate(part) for part in zip(*found, strict=True))
    return centre, spread


def _of_columns(rows: LabelledRows, columns: list[int]) -> tuple[Floats, Floats]:
    X = np.asarray(rows.X[:, columns], dtype=np.float64)
    present = ~np.isnan(X)
    weights = np.ones(len(X)) if rows.weights is None else rows.weights
    total = np.maximum(weights @ present, 1e-300)
    shift = X[0] if len(X) else np.zeros(len(columns))
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.where(present, X - shift, 0.0)
        mean = weights @ moved / total
        spread = np.sqrt(weights @ np.where(present, moved - mean, 0.0) ** 2 / total)
    usable = np.isfinite(spread) & (spread > 1e-13 * np.abs(shift + mean))
    return shift + mean, np.where(usable, spread, 0.0)
