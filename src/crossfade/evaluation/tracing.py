"""How one model's curve on one split is traced: compiled, from its predecessor, or by fit."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crossfade._typing import Floats, Integers
from crossfade.classifiers.base import Specification, TradeoffClassifier
from crossfade.classifiers.checks import derives_columns, refuse_cells
from crossfade.densities.base import Density
from crossfade.densities.categorical import Categorical
from crossfade.densities.product import Product
from crossfade.evaluation.compiled import compiled_curve
from crossfade.evaluation.evaluation import Evaluation, Evaluator, Failure
from crossfade.evaluation.inputs import LabelledTable
from crossfade.evaluation.scores import score_predictions
from crossfade.evaluation.splits import Split
from crossfade.table import check_weights
from crossfade.tradeoff.criteria import decisions
from crossfade.tradeoff.fitting import Fitted, add_rows, fit_tradeoff
from crossfade.tradeoff.labelled_rows import LabelledRows


class Tracer(Protocol):
    """Traces a model's curve on one split."""

    @property
    def compiled(self) -> bool:
        """Whether the work releases the interpreter, so that threads help."""

    def trace(self, split: Split, sizes: Integers) -> Floats:
        """Return log-loss, Brier score and error at each size, (n_sizes, 3); NaN if none."""


def row_tracers(models: Mapping[str, Any], table: LabelledTable, seed: int) -> dict[str, Tracer]:
    """Return the fastest tracer of each model; our own learn what columns are from all rows."""
    return {name: _row_tracer(name, model, table, seed) for name, model in models.items()}


def sequence_tracers(
    models: Mapping[str, Any], evaluator: Evaluator, seed: int
) -> dict[str, Tracer]:
    """Return tracers of models of sequences: each is fitted at every size."""
    return {name: FittedCurve(name, model, evaluator, seed) for name, model in models.items()}


def _row_tracer(name: str, model: Any, table: LabelledTable, seed: int) -> Tracer:
    evaluator = table.evaluator
    # Words are learnt from the rows of a fit.
    words = bool(table.schema.texts) or table.schema.sparse
    # So are derived columns.
    words |= derives_columns(model) is not None
    if not isinstance(model, TradeoffClassifier) or isinstance(model.tradeoff, str) or words:
        return FittedCurve(name, model, evaluator, seed)
    what = model.specify(table.columns, table.schema, evaluator.classes)
    matrix = what.schema.encode(table.columns)
    fast = None
    if evaluator.costs is None:  # compiled curves know no costs
        fast = compiled_curve(model, what, matrix, evaluator.codes, evaluator.classes.size)
    return fast or NestedCurve(name, model, what, matrix, evaluator)


class FittedCurve:
    """Any scikit-learn estimator: a clone is fitted at every size.

    `seed`: Where `random_state` is None, each fit gets a number made of this, split and size, so
        that a run can be repeated and continued.
    """

    compiled = False

    def __init__(self, name: str, model: Any, evaluator: Evaluator, seed: int) -> None:
        self._name, self._model, self._evaluator, self._seed = name, model, evaluator, seed
        parameters = model.get_params(deep=True)
        self._open = sorted(
            parameter
            for parameter, value in parameters.items()
            if value is None and parameter.split("__")[-1] == "random_state"
        )

    def trace(self, split: Split, sizes: Integers) -> Floats:
        scores = np.full((sizes.size, len(self._evaluator.metrics)), np.nan)
        for s, size in enumerate(sizes):
            model = self._model
            if self._open:
                key = [self._seed, split.number, int(size)]
                states = np.random.SeedSequence(key).generate_state(len(self._open)) >> 1
                model = clone(model).set_params(
                    **dict(zip(self._open, states.tolist(), strict=True))
                )
            result = self._evaluator.evaluate({self._name: model}, split.train[:size], split.test)
            found = result[self._name]
            if isinstance(found, Evaluation):
                scores[s] = [found.scores[metric] for metric in self._evaluator.metrics]
        return scores


class NestedCurve:
    """A classifier at a given tradeoff: rows are read once, and each size builds on the one before.

    A category that no row of a size has is none: what was summed before it came is summed anew.

    Shapes: matrix (n_rows, n_features).
    """

    compiled = False

    def __init__(
        self,
        name: str,
        model: TradeoffClassifier,
        what: Specification,
        matrix: NDArray[Any],
        evaluator: Evaluator,
    ) -> None:
        self._name, self._what = name, what
        self._selection, self._class_weight = model.selection, model.class_weight
        self._matrix, self._evaluator = matrix, evaluator
        self._levels = _levels(what.density)
        balanced = isinstance(model.class_weight, str)
        # What cells are filled in with is learnt from the rows of a fit, too.
        fills = what.density.fills_missing and bool(np.isnan(matrix).any())
        one = what.options.n_components == 1
        self._sums = what.tradeoff == 1.0 and one and not (balanced or fills)

    def trace(self, split: Split, sizes: Integers) -> Floats:
        scores = np.full((sizes.size, len(self._evaluator.metrics)), np.nan)
        before: Fitted | None = None
        done, known, given = 0, None, (self._what.density, self._matrix)
        for s, size in enumerate(sizes):
            cells = self._matrix[split.train[:size]]
            seen = [np.unique(cells[:, j][~np.isnan(cells[:, j])]) for j in self._levels]
            sizes_seen = [levels.size for levels in seen]
            if sizes_seen != known:  # levels are never lost again
                before, done, known, given = None, 0, sizes_seen, self._recoded(seen)
            new = split.train[done if self._sums else 0 : size]
            work = partial(self._step, given, new, before, split.test)
            found = self._evaluator.guarded(self._name, work)
            if isinstance(found, Failure):
                before, done = None, 0
                continue
            before, scores[s] = found
            done = int(size)
        return scores

    def _recoded(self, seen: list[Floats]) -> tuple[Density, NDArray[Any]]:
        """Return density and matrix as if there were these levels only; other cells are missing."""
        if [levels.size for levels in seen] == list(self._levels.values()):
            return self._what.density, self._matrix
        matrix = self._matrix.astype(np.float64)
        for (column, n_levels), levels in zip(self._levels.items(), seen, strict=True):
            codes = np.full(n_levels, np.nan)
            codes[levels.astype(np.int64)] = np.arange(levels.size)
            there = ~np.isnan(matrix[:, column])
            matrix[there, column] = codes[matrix[there, column].astype(np.int64)]
        sizes = dict(zip(self._levels, [max(levels.size, 1) for levels in seen], strict=True))
        return _with_levels(self._what.density, sizes), matrix

    def _step(
        self,
        given: tuple[Density, NDArray[Any]],
        new: Integers,
        before: Fitted | None,
        test: Integers,
    ) -> tuple[Fitted, list[float]]:
        """Return the fit to the next size, and its scores."""
        density, matrix = given
        fitted = self._fit(density, self._rows(matrix, new), before)
        for warning in fitted.warnings:
            warnings.warn(warning, stacklevel=2)
        X = matrix[test]
        with np.errstate(invalid="ignore", over="ignore"):
            posterior = fitted.posterior(X)
        if np.isnan(posterior).any():
            refuse_cells(posterior, X, self._what.schema.names)
        truth = self._evaluator.codes[test]
        decided = decisions(posterior, self._selection)
        found = score_predictions(decided, posterior, truth, self._evaluator.costs)
        return fitted, [found[metric] for metric in self._evaluator.metrics]

    def _fit(self, density: Density, rows: LabelledRows, before: Fitted | None) -> Fitted:
        options = self._what.options
        if self._sums:
            return add_rows(rows, density, options, before)
        start = None if before is None else before.solution.theta
        return fit_tradeoff(rows, density, self._what.tradeoff, options, start)

    def _rows(self, matrix: NDArray[Any], index: Integers) -> LabelledRows:
        codes = self._evaluator.codes[index]
        classes = self._evaluator.classes
        weights = check_weights(None, index.size, self._class_weight, codes, classes)
        return LabelledRows(matrix[index], codes, weights, classes.size)


def _levels(density: Density) -> dict[int, int]:
    """Return the number of levels of each categorical column."""
    return {
        int(column): n_levels
        for part, columns in getattr(density, "parts", ())
        if isinstance(part, Categorical)
        for column, n_levels in zip(columns, part.levels, strict=True)
    }


def _with_levels(density: Density, levels: Mapping[int, int]) -> Density:
    """Return a density, not begun, with other numbers of levels."""
    assert isinstance(density, Product)
    parts: list[tuple[Density, Any]] = []
    for part, columns in density.parts:
        if isinstance(part, Categorical):
            part = Categorical([levels[int(c)] for c in columns], part.alpha)
        parts.append((part, columns))
    return Product(parts)


class OneSize:
    """A curve at one size only: the `number`-th largest, else the smallest."""

    def __init__(self, tracer: Tracer, number: int) -> None:
        self._tracer, self._number = tracer, number

    @property
    def compiled(self) -> bool:
        return self._tracer.compiled

    def trace(self, split: Split, sizes: Integers) -> Floats:
        place = max(sizes.size - self._number, 0)
        known = self._tracer.trace(split, sizes[place : place + 1])
        found = np.full((sizes.size, known.shape[1]), np.nan)
        found[place] = known[0]
        return found


class KnownEnd:
    """A curve with known scores at its end: `at_end` (n_splits, n_metrics)."""

    def __init__(self, tracer: Tracer, at_end: Floats) -> None:
        self._tracer, self._at_end = tracer, at_end

    @property
    def compiled(self) -> bool:
        return self._tracer.compiled

    def trace(self, split: Split, sizes: Integers) -> Floats:
        end = self._at_end[split.number][None]
        if sizes.size == 1:
            return end
        return np.vstack([self._tracer.trace(split, sizes[:-1]), end])
