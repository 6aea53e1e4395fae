"""Columns that naive Bayes does not see: products, pairs of categories and steps, as columns.

A derived column has a density of its own, like any other, and multiplies the product of the others.
Which ones are worth it is told by score tests of the fitted model's held-out residuals: with p the
posteriors and r = 1[y] - p, a column s that adds nothing has sums Σ r (s - s̄) of mean zero and
covariance Σ (diag p - p p') (s - s̄)² (Rao 1948), in all a χ².
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from crossfade._typing import Floats, Integers
from crossfade.table.schema import Schema

__all__ = [
    "Derived",
    "DerivedColumns",
    "Screened",
    "named",
    "screened",
    "taken",
    "told_from_chance",
]

#: Most derived columns that are taken unasked, and the chance of any where there is nothing.
_MOST_UNASKED: Final = 10
_LEVEL: Final = 0.01

#: Most pairs of categories of a column pair, and fewest rows per class and pair of categories.
_MOST_CELLS: Final = 64

#: Where steps are looked for, as shares of the rows.
_STEPS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)

#: Columns whose products with one another are looked at.
_MOST_COLUMNS: Final = 300


class Derived(NamedTuple):
    """One derived column.

    `what`: "product" (of two standardised columns), "pair" (two categories as one) or "step"
        (whether a column is above `at`).
    `first`, `second`: Positions in the table; equal for a step.
    """

    what: str
    first: int
    second: int
    at: float = 0.0


class Screened(NamedTuple):
    """A derived column, its χ² and the probability of a larger one where it adds nothing."""

    derived: Derived
    statistic: float
    p_value: float


@dataclass(frozen=True)
class DerivedColumns:
    """What turns a matrix of a table's columns into one with derived columns behind them.

    `centre`, `scale` (n_columns,): Of the columns as numbers.
    `numbers`: Of a column of codes that stand for numbers these numbers, None for others.
    `levels`: Of each column, 0 where it has no categories.
    """

    columns: tuple[Derived, ...]
    centre: Floats
    scale: Floats
    numbers: tuple[Any, ...]
    levels: tuple[int, ...]

    @classmethod
    def of(
        cls, columns: Sequence[Derived], matrix: Any, schema: Schema, weights: Floats | None
    ) -> DerivedColumns:
        """Shapes: matrix (n_rows, n_columns), as this schema encodes it; weights (n_rows,)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        present = ~np.isnan(matrix)
        w = np.ones(len(matrix)) if weights is None else weights
        count = np.maximum(w @ present, 1e-300)
        centre = w @ np.where(present, matrix, 0.0) / count
        spread = np.where(present, matrix - centre, 0.0)
        scale = np.sqrt(w @ spread**2 / count)
        levels = tuple(
            2 if kind == "boolean" else len(known or ()) if kind == "categorical" else 0
            for kind, known in zip(schema.kinds, schema.categories, strict=True)
        )
        nothing = (None,) * schema.n_features
        return cls(tuple(columns), centre, np.where(scale > 0, scale, np.inf), nothing, levels)

    def recoded(self, schema: Schema) -> DerivedColumns:
        """Return the same for a schema that has codes for some columns that were numbers."""
        numbers = tuple(
            np.array(known, dtype=np.float64) if known is not None and levels == 0 else None
            for known, levels in zip(schema.categories, self.levels, strict=True)
        )
        return replace(self, numbers=numbers)

    def appended(self, matrix: Any) -> Floats:
        """Return a matrix with the derived columns behind its own, (n_rows, n_columns + n)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        return np.column_stack([matrix, *(self._column(one, matrix) for one in self.columns)])

    def _column(self, one: Derived, matrix: Floats) -> Floats:
        first, second = (self._numbers(j, matrix) for j in (one.first, one.second))
        if one.what == "pair":
            return first * self.levels[one.second] + second
        if one.what == "step":
            return np.where(np.isnan(first), np.nan, first > one.at)
        j, k = one.first, one.second
        with np.errstate(invalid="ignore", over="ignore"):
            z = (first - self.centre[j]) / self.scale[j]
            product: Floats = z * ((second - self.centre[k]) / self.scale[k])
        return product

    def _numbers(self, j: int, matrix: Floats) -> Floats:
        column, known = matrix[:, j], self.numbers[j]
        if known is None:
            return column
        absent = np.isnan(column)
        values: Floats = known[np.where(absent, 0, column).astype(np.int64)]
        return np.where(absent, np.nan, values)

    def schema(self, schema: Schema) -> Schema:
        """Return the schema of the longer matrix."""
        kinds = {"product": "continuous", "pair": "categorical", "step": "boolean"}
        more = [
            tuple(range(self.levels[one.first] * self.levels[one.second]))
            if one.what == "pair"
            else None
            for one in self.columns
        ]
        extended: Any = (*schema.kinds, *(kinds[one.what] for one in self.columns))
        return replace(
            schema,
            names=(*schema.names, *(named(one, schema) for one in self.columns)),
            kinds=extended,
            categories=(*schema.categories, *more),
        )

    def folded(self, contributions: Floats) -> Floats:
        """Give what derived columns add to the columns that they come from, in equal parts.

        Shapes: (n_rows, n_columns + n, n_classes) → (n_rows, n_columns, n_classes).
        """
        d = len(self.levels)
        own = contributions[:, :d].copy()
        for m, one in enumerate(self.columns):
            half = 0.5 * contributions[:, d + m]
            own[:, one.first] += half
            own[:, one.second] += half
        return own


def named(one: Derived, schema: Schema) -> str:
    """Return what to call a derived column."""
    first, second = schema.names[one.first], schema.names[one.second]
    return f"{first} > {one.at:.6g}" if one.what == "step" else f"{first} × {second}"


def screened(
    matrix: Any, schema: Schema, codes: Integers, posterior: Floats, weights: Floats | None
) -> list[Screened]:
    """Return derived columns by what they would add to a posterior, the most telling first.

    Shapes: matrix (n_rows, n_columns); codes, weights (n_rows,); posterior (n_rows, n_classes), of
    rows that its fits did not see.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    residual = np.eye(posterior.shape[1])[codes] - posterior
    if weights is not None:
        residual = residual * weights[:, None]
    evidence = _Evidence(residual, posterior, np.ones(len(codes)) if weights is None else weights)
    prepared = DerivedColumns.of((), matrix, schema, weights)
    kinds = list(enumerate(schema.kinds))
    numeric = [j for j, kind in kinds if kind in ("continuous", "count", "boolean")]
    numeric = numeric[:_MOST_COLUMNS]
    discrete = [j for j, kind in kinds if kind in ("categorical", "boolean")]
    found = [
        *_products(matrix, prepared, numeric, evidence),
        *_steps(matrix, [j for j in numeric if schema.kinds[j] != "boolean"], evidence),
        *_pairs(matrix, prepared, discrete, evidence),
    ]
    return sorted(found, key=lambda one: (one.p_value, -one.statistic))


def told_from_chance(found: Sequence[Screened]) -> list[Screened]:
    """Return those that cannot be chance among so many (Bonferroni), one step per column."""
    chosen: list[Screened] = []
    steps: set[int] = set()
    for one in found:
        derived = one.derived
        if one.p_value * len(found) < _LEVEL and not (
            derived.what == "step" and derived.first in steps
        ):
            chosen.append(one)
            steps |= {derived.first} if derived.what == "step" else set()
    return chosen


def taken(found: Sequence[Screened], number: int | None) -> list[Derived]:
    """Return the first few, or those that can be told from chance."""
    some = found[:number] if number is not None else told_from_chance(found)[:_MOST_UNASKED]
    return [one.derived for one in some]


class _Evidence(NamedTuple):
    """Held-out residuals times weights, posteriors (both (n_rows, n_classes)) and weights."""

    residual: Floats
    posterior: Floats
    weights: Floats

    def covariances(self, sums: Callable[[Floats], Floats]) -> Floats:
        """Return what `sums` makes of each two classes' p_k (1[k=l] - p_l), (K, K, …)."""
        p, k = self.posterior, self.posterior.shape[1]
        found: list[list[Any]] = [[None] * k for _ in range(k)]
        for a in range(k):
            for b in range(a, k):
                own = self.weights * p[:, a] * ((a == b) - p[:, b])
                found[a][b] = found[b][a] = sums(own)
        return np.array(found)


def _chi_square(U: Floats, V: Floats) -> Floats:
    """Return U·V⁻U of sums over classes, whose covariance is singular: a χ² of K - 1 degrees.

    Shapes: U (n_classes, m); V (n_classes, n_classes, m).
    """
    inverse = np.linalg.pinv(np.moveaxis(V, -1, 0), rcond=1e-9, hermitian=True)
    found: Floats = np.einsum("km,mkl,lm->m", U, inverse, U)
    return found


def _products(
    matrix: Floats, prepared: DerivedColumns, numeric: list[int], evidence: _Evidence
) -> list[Screened]:
    if len(numeric) < 2:
        return []
    z = (matrix[:, numeric] - prepared.centre[numeric]) / prepared.scale[numeric]
    # One far-off cell is no evidence.
    z = np.clip(np.nan_to_num(z), -4.0, 4.0)
    first, second = np.triu_indices(len(numeric), 1)
    w, r = evidence.weights, evidence.residual
    mean = ((z.T * w) @ z)[first, second] / w.sum()
    U = np.stack([((z.T * own) @ z)[first, second] - mean * own.sum() for own in r.T])

    def sums(own: Floats) -> Floats:
        # Σ v (s - m)² of s = z_j z_k
        square, cross = (z.T**2 * own) @ z**2, (z.T * own) @ z
        found: Floats = square[first, second] - 2 * mean * cross[first, second]
        return found + mean**2 * own.sum()

    statistic = _chi_square(U, evidence.covariances(sums))
    p_value = stats.chi2.sf(statistic, r.shape[1] - 1)
    return [
        Screened(Derived("product", numeric[a], numeric[b]), statistic[m], p_value[m])
        for m, (a, b) in enumerate(zip(first, second, strict=True))
    ]


def _steps(matrix: Floats, numeric: list[int], evidence: _Evidence) -> list[Screened]:
    found = []
    for j in numeric:
        x = matrix[:, j]
        if np.isnan(x).all():
            continue
        for at in np.unique(np.nanquantile(x, _STEPS)):
            statistic, _ = _of_cells((x > at).astype(np.int64), 2, evidence)
            p_value = float(stats.chi2.sf(statistic, evidence.residual.shape[1] - 1))
            found.append(Screened(Derived("step", j, j, float(at)), statistic, p_value))
    return found


def _pairs(
    matrix: Floats, prepared: DerivedColumns, discrete: list[int], evidence: _Evidence
) -> list[Screened]:
    found = []
    for a, first in enumerate(discrete):
        for second in discrete[a + 1 :]:
            n_cells = prepared.levels[first] * prepared.levels[second]
            both_boolean = prepared.levels[first] == prepared.levels[second] == 2
            if not 0 < n_cells <= _MOST_CELLS or both_boolean:
                continue
            code = matrix[:, first] * prepared.levels[second] + matrix[:, second]
            present = np.flatnonzero(~np.isnan(code))
            some = _Evidence(*(one[present] for one in evidence))
            statistic, used = _of_cells(code[present].astype(np.int64), n_cells, some)
            degrees = max(used - 1, 1) * (evidence.residual.shape[1] - 1)
            p_value = float(stats.chi2.sf(statistic, degrees))
            found.append(Screened(Derived("pair", first, second), statistic, p_value))
    return found


def _of_cells(cells: Integers, n_cells: int, evidence: _Evidence) -> tuple[float, int]:
    """Return the χ² of sums over cells about their common mean, and how many cells have rows."""

    def sums(own: Floats) -> Floats:
        return np.bincount(cells, own, minlength=n_cells).astype(np.float64)

    U, V = np.stack([sums(own) for own in evidence.residual.T]), evidence.covariances(sums)
    used = int((np.bincount(cells, minlength=n_cells) > 0).sum())
    each = _chi_square(U, V).sum()
    common = _chi_square(U.sum(axis=1, keepdims=True), V.sum(axis=2, keepdims=True))[0]
    return float(each - common), used
