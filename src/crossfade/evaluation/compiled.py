"""Which models have a compiled learning curve, and their columns as its loops want them.

On the fifteen tables of ``reproduction`` (Ng & Jordan's), both ends at 12 sizes, a compiled curve
takes a third to a fortieth of the CPU time of :class:`~crossfade.evaluation.tracing.NestedCurve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.classifiers.base import Specification, TradeoffClassifier
from crossfade.densities.base import Density
from crossfade.densities.bernoulli import Bernoulli
from crossfade.densities.categorical import Categorical
from crossfade.densities.gaussian import Gaussian
from crossfade.densities.multivariate import MultivariateGaussian
from crossfade.densities.poisson import Poisson
from crossfade.densities.product import Product
from crossfade.densities.univariate import statistic_scales
from crossfade.evaluation.kinds import BERNOULLI, CATEGORICAL, GAUSSIAN, POISSON, SHARED_GAUSSIAN
from crossfade.evaluation.splits import Split

#: Most cells of the statistics' matrix, and most statistics, of a discriminative curve.
_CELLS = 50_000_000
_STATISTICS = 400


@dataclass(frozen=True)
class _Column:
    """A column's number and kind, its smoothing, and its number of levels (categorical)."""

    number: int
    kind: int
    smoothing: float
    levels: int = 0


class CompiledCurve:
    """All nested fits of a model on one split, in one compiled loop, at tradeoff 0 or 1.

    Shapes: matrix (n_rows, n_features), NaN where missing; codes (n_rows,); shares (n_classes,) or
    (0,), the class prior where it is not the training rows' own.
    """

    compiled = True

    def __init__(
        self,
        matrix: NDArray[Any],
        codes: Integers,
        n_classes: int,
        columns: list[_Column],
        tradeoff: float,
        l2: float,
        shares: Floats,
    ) -> None:
        # Arrays that may not be written to would have the loops compiled once more.
        self._codes, self._n_classes = np.require(codes, np.int64, ["C", "W"]), n_classes
        self._l2, self._shares = float(l2), shares
        self._generative = tradeoff == 1.0
        self._plan: tuple[NDArray[Any], ...]
        if self._generative:
            self._lay_out_columns(matrix, columns)
        else:
            self._lay_out_statistics(matrix, columns)

    def trace(self, split: Split, sizes: Integers) -> Floats:
        """Return log-loss, Brier score and error at each size, shape (n_sizes, 3)."""
        scores = np.empty((sizes.size, 3))
        common = (self._codes, split.train, split.test, sizes, self._n_classes)
        if self._generative:
            from crossfade.evaluation.generative_kernels import generative_curve

            generative_curve(
                self._numbers, self._levels, *common, *self._plan, self._shares, scores
            )
        else:
            from crossfade.evaluation.discriminative_kernels import discriminative_curve

            squared, levels = self._plan
            discriminative_curve(
                self._statistics, *common, squared, levels, self._l2, self._shares, scores
            )
        return scores

    def _lay_out_columns(self, matrix: NDArray[Any], columns: list[_Column]) -> None:
        numbers = [column for column in columns if column.kind != CATEGORICAL]
        self._numbers = np.empty((matrix.shape[0], len(numbers)))
        for j, column in enumerate(numbers):
            cells = matrix[:, column.number].astype(np.float64)
            gaussian = column.kind in (GAUSSIAN, SHARED_GAUSSIAN)
            self._numbers[:, j] = _standardised(cells) if gaussian else cells
        named = [column for column in columns if column.kind == CATEGORICAL]
        sizes = np.array([column.levels for column in named], dtype=np.int64)
        offsets = np.cumsum(sizes) - sizes
        self._levels = np.empty((matrix.shape[0], len(named)), dtype=np.int64)
        for j, column in enumerate(named):
            cells = matrix[:, column.number]
            missing = np.isnan(cells)
            self._levels[:, j] = np.where(missing, 0, cells).astype(np.int64) + offsets[j]
            self._levels[missing, j] = -1
        self._plan = (
            np.array([column.kind for column in numbers], dtype=np.int64),
            np.array([column.smoothing for column in numbers], dtype=np.float64),
            offsets,
            sizes,
            np.array([column.smoothing for column in named], dtype=np.float64),
        )

    def _lay_out_statistics(self, matrix: NDArray[Any], columns: list[_Column]) -> None:
        parts: list[Floats] = []
        squared, levels = [], []
        start = 0
        for column in columns:
            cells = matrix[:, column.number].astype(np.float64)
            if column.kind == CATEGORICAL:
                part = (cells[:, None] == np.arange(column.levels)).astype(np.float64)
                levels.append((start, start + column.levels))
            else:
                part = _standardised(cells)[:, None]
                if column.kind == GAUSSIAN:
                    squared.append(start)
            parts.append(part)
            start += part.shape[1]
        self._statistics = np.ascontiguousarray(np.hstack(parts))
        self._plan = (
            np.array(squared, dtype=np.int64),
            np.array(levels, dtype=np.int64).reshape(-1, 2),
        )


def compiled_curve(
    model: TradeoffClassifier,
    what: Specification,
    matrix: NDArray[Any],
    codes: Integers,
    n_classes: int,
) -> CompiledCurve | None:
    """Return the compiled curve, None for a model without one (another λ, costs, dependence)."""
    plain = (
        what.options.n_components == 1
        and what.tradeoff in (0.0, 1.0)
        and isinstance(model.selection, str)
        and model.class_weight is None
        and not isinstance(model.class_prior, Mapping)
    )
    columns = _columns(what.density, matrix.shape[1], what.tradeoff) if plain else None
    if columns is None:
        return None
    if what.tradeoff == 0.0:
        n_statistics = sum(max(c.levels, 2 if c.kind == GAUSSIAN else 1) for c in columns)
        large = n_statistics > _STATISTICS or n_statistics * matrix.shape[0] > _CELLS
        if large or np.isnan(matrix).any():
            return None
    shares = np.empty(0)
    if not isinstance(model.class_prior, str):
        shares = np.asarray(model.class_prior, dtype=np.float64)
    elif model.class_prior == "uniform":
        shares = np.full(n_classes, 1.0 / n_classes)
    return CompiledCurve(matrix, codes, n_classes, columns, what.tradeoff, model.l2, shares)


def _columns(density: Density, n_features: int, tradeoff: float) -> list[_Column] | None:
    """Return what each column is, None where a density has no compiled form."""
    parts = density.parts if isinstance(density, Product) else ((density, np.arange(n_features)),)
    columns: list[_Column] = []
    for part, numbers in parts:
        if type(part) is Gaussian:
            kind = SHARED_GAUSSIAN if part.shared_variance else GAUSSIAN
            smoothing = part.var_smoothing
        elif type(part) is Bernoulli:
            kind, smoothing = BERNOULLI, part.alpha
        elif type(part) is Poisson:
            kind, smoothing = POISSON, part.alpha
        elif type(part) is Categorical:
            columns += [
                _Column(int(j), CATEGORICAL, part.alpha, levels)
                for j, levels in zip(numbers, part.levels, strict=True)
            ]
            continue
        elif type(part) is MultivariateGaussian and part.shared and tradeoff == 0.0:
            # At λ = 0 a shared covariance has no say: the statistics are the columns.
            kind, smoothing = SHARED_GAUSSIAN, 0.0
        else:
            return None
        columns += [_Column(int(j), kind, smoothing) for j in numbers]
    return columns


def _standardised(cells: Floats) -> Floats:
    """Return cells with median 0 and standard deviation 1, missing ones left missing."""
    if np.isnan(cells).all():
        return cells
    # Of a far-off cell a mean would tell, and sums of the others' powers about it be inexact.
    cells = cells - np.nanmedian(cells)
    square, mean = np.array([np.nanmean(cells * cells)]), np.array([np.nanmean(cells)])
    return cells / statistic_scales(square, mean)[0]
