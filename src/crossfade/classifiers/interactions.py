"""Columns that naive Bayes does not see: products, pairs of categories, steps and hinges.

A derived column has a density of its own, like any other, and multiplies the product of the others.
Score tests of the fitted model's held-out residuals decide which are worth it: with p the
posteriors and r = 1[y] - p, a column s that adds nothing has sums Σ r (s - s̄) of mean zero and
covariance Σ (diag p - p p') (s - s̄)² (Rao 1948), in all a χ². Of steps and hinges of a column only
what the model has of the column, a line and a parabola, leaves of them is tested, and what those
taken before leave; half of the covariance is of r r' (White 1980), so that a few rows of a
tail that the model takes for certain do not decide where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from crossfade._typing import Floats, Integers
from crossfade.table.schema import Schema

#: Most derived columns that are taken unasked, and the chance of any where there is nothing.
_MOST_UNASKED: Final = 10
_LEVEL: Final = 0.01

#: Most pairs of categories of a column pair, and fewest rows per class and pair of categories.
_MOST_CELLS: Final = 64

#: Where steps and hinges are looked for, as shares of the rows; most of one column, and fewest rows
#: on either side.
_PLACES: Final = np.arange(1, 10) / 10
_MOST_OF_A_COLUMN: Final = 3
_FEWEST_BESIDE: Final = 10

#: Share of a statistic's variance below which what others leave of it is rounding.
_NOTHING_LEFT: Final = 1e-9

#: Columns whose products with one another are looked at.
_MOST_COLUMNS: Final = 300


class Derived(NamedTuple):
    """One derived column.

    `what`: "product" (of two standardised columns), "pair" (two categories as one), "step"
        (whether a column is above `at`), "above" or "below" (by how much it is, else 0: a hinge).
    `first`, `second`: Positions in the table; equal for a step and a hinge.
    """

    what: str
    first: int
    second: int
    at: float = 0.0

    @property
    def alone(self) -> bool:
        """Whether it comes from one column."""
        return self.what in ("step", "above", "below")


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
        with np.errstate(over="ignore"):
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
            return self._pair(one, first, second)
        if one.alone:
            return _of_threshold(one, first)
        j, k = one.first, one.second
        with np.errstate(invalid="ignore", over="ignore"):
            z = (first - self.centre[j]) / self.scale[j]
            product: Floats = z * ((second - self.centre[k]) / self.scale[k])
        return product

    def _pair(self, one: Derived, first: Floats, second: Floats) -> Floats:
        """Return codes of two columns' categories as one, whichever of them is named first."""
        j, k = one.first, one.second
        if (self.levels[j], self.centre[j]) > (self.levels[k], self.centre[k]):
            j, k, first, second = k, j, second, first
        return first * self.levels[k] + second

    def _numbers(self, j: int, matrix: Floats) -> Floats:
        column, known = matrix[:, j], self.numbers[j]
        if known is None:
            return column
        absent = np.isnan(column)
        values: Floats = known[np.where(absent, 0, column).astype(np.int64)]
        return np.where(absent, np.nan, values)

    def schema(self, schema: Schema) -> Schema:
        """Return the schema of the longer matrix."""
        kinds = {"pair": "categorical", "step": "boolean"}
        more = [
            tuple(range(self.levels[one.first] * self.levels[one.second]))
            if one.what == "pair"
            else None
            for one in self.columns
        ]
        extended: Any = (
            *schema.kinds,
            *(kinds.get(one.what, "continuous") for one in self.columns),
        )
        return replace(
            schema,
            names=(*schema.names, *names_of(self.columns, schema)),
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


def names_of(columns: Sequence[Derived], schema: Schema) -> list[str]:
    """Return what to call derived columns of one model, no two of them the same."""
    names = [named(one, schema) for one in columns]
    return [
        name if names.count(name) == 1 else named(one, schema, exact=True)
        for one, name in zip(columns, names, strict=True)
    ]


def named(one: Derived, schema: Schema, *, exact: bool = False) -> str:
    """Return what to call a derived column: as no column of the table is called."""
    first, second = (_quoted(schema.names[j]) for j in (one.first, one.second))
    # Far from zero six digits would not tell two places apart.
    plain = abs(one.at) < 1e5 and not exact
    digits = 6 if plain else 15 if float(f"{one.at:.15g}") == one.at else 17
    if one.what == "step":
        name = f"{first} > {one.at:.{digits}g}"
    elif one.what == "below":
        name = f"max({one.at:.{digits}g} - {first}, 0)"
    elif one.what == "above":
        name = f"max({first} {'-' if one.at >= 0.0 else '+'} {abs(one.at):.{digits}g}, 0)"
    else:
        name = f"{first} × {second}"
    while name in schema.names:
        name += " (derived)"
    return name


def _quoted(name: Any) -> str:
    """Return a column's name, in quotes where it reads like that of a derived one."""
    said = str(name)
    derived = any(sign in said for sign in ("×", ">", "max(")) or said[:1] in ("'", '"')
    return repr(said) if derived else said


def _of_threshold(one: Derived, x: Floats) -> Floats:
    """Return a step or hinge of a column, NaN where it is."""
    if one.what == "step":
        return np.where(np.isnan(x), np.nan, x > one.at)
    return np.maximum(x - one.at if one.what == "above" else one.at - x, 0.0)


def screened(
    matrix: Any,
    schema: Schema,
    codes: Integers,
    posterior: Floats,
    weights: Floats | None,
    *,
    together: bool = True,
    alone: bool = True,
    squares: bool = True,
) -> list[Screened]:
    """Return derived columns by what they would add to a posterior, the most telling first.

    `together` are those of two columns, `alone` those of one. `squares`: Whether the model of the
    posterior has squares of numbers.

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
    found: list[Screened] = []
    if not codes.size:
        return found
    if together:
        discrete = [j for j, kind in kinds if kind in ("categorical", "boolean")]
        numbers = numeric[:_MOST_COLUMNS]
        found += _products(matrix, prepared, numbers, evidence)
        found += _pairs(matrix, prepared, discrete, numbers, evidence)
    for j in numeric if alone else ():
        if schema.kinds[j] != "boolean":
            of_column = 2 if squares and schema.kinds[j] == "continuous" else 1
            found += _thresholds(j, matrix[:, j], evidence, of_column)
    return sorted(found, key=lambda one: (one.p_value, -one.statistic))


def told_from_chance(found: Sequence[Screened]) -> list[Screened]:
    """Return those that cannot be chance among so many (Bonferroni)."""
    return [one for one in found if one.p_value * len(found) < _LEVEL]


def taken(
    found: Sequence[Screened], together: int | None = None, alone: int | None = None
) -> list[Derived]:
    """Return the first few of either sort, or (without numbers) those told from chance."""
    if together is None and alone is None:
        return [one.derived for one in told_from_chance(found)[:_MOST_UNASKED]]
    each = [one.derived for one in found]
    of_two, of_one = (
        [one for one in each if one.alone == sort][: number or 0]
        for sort, number in ((False, together), (True, alone))
    )
    return of_two + of_one


class _Evidence(NamedTuple):
    """Held-out residuals times weights, posteriors (both (n_rows, n_classes)) and weights."""

    residual: Floats
    posterior: Floats
    weights: Floats

    def covariances(self, sums: Callable[[Floats], Floats], observed: float = 0.0) -> Floats:
        """Return what `sums` makes of each two classes' p_k (1[k=l] - p_l), (K, K, …).

        `observed`: Share of r_k r_l instead, whose mean is the same where the posteriors are right.
        """
        p, k = self.posterior, self.posterior.shape[1]
        found: list[list[Any]] = [[None] * k for _ in range(k)]
        for a in range(k):
            for b in range(a, k):
                own = (1.0 - observed) * self.weights * p[:, a] * ((a == b) - p[:, b])
                own += observed * self.residual[:, a] * self.residual[:, b] / self.weights
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


def _places(x: Floats, weights: Floats) -> Floats:
    """Return values at shares of the rows by weight, with enough rows on either side.

    Where a tenth of the rows have one value, also at these shares of the others.
    """
    values, inverse = np.unique(x, return_inverse=True)
    rows = np.bincount(inverse.ravel(), weights, values.size)
    total = rows.sum()
    found = []
    while rows.sum() > 0.0:
        above = np.cumsum(rows)
        found.append(values[np.searchsorted(above, _PLACES * above[-1] * (1.0 - 1e-12))])
        if len(found) == 2 or rows.max() < _PLACES[0] * total:
            break
        rows[rows.argmax()] = 0.0
    at = np.unique(np.concatenate([np.empty(0), *found]))
    beneath = np.bincount(np.searchsorted(at, x), weights, at.size + 1).cumsum()[:-1]
    enough: Floats = at[np.minimum(beneath, total - beneath) >= _FEWEST_BESIDE]
    return enough


def _thresholds(j: int, x: Floats, evidence: _Evidence, powers: int) -> list[Screened]:
    """Return the most telling step or hinge of a column, then what that leaves most telling.

    `powers`: Which of the column the model has, 1 or 2. A p-value is that of the best of all
    places, and at least that of the one before.
    """
    own = np.flatnonzero(~np.isnan(x))
    x, weights = x[own], evidence.weights[own]
    places = _places(x, weights)
    if not places.size:
        return []
    # A hinge has its slope in the tail, so that changing the sign of a column changes nothing.
    sides = ["above" if at >= np.median(places) else "below" for at in places]
    candidates = [Derived("step", j, j, float(at)) for at in places]
    candidates += [Derived(side, j, j, float(at)) for side, at in zip(sides, places, strict=True)]
    unit = np.abs(x).max()  # of huge numbers squares would be too large
    spread = x / unit - np.average(x / unit, weights=weights)
    z = np.clip(spread / np.sqrt(np.average(spread**2, weights=weights)), -4.0, 4.0)
    made = np.column_stack(
        [_of_threshold(one._replace(at=one.at / unit), x / unit) for one in candidates]
    )
    size = np.sqrt(weights @ made**2 / weights.sum())
    made /= np.where(size > 0.0, size, 1.0)  # below the least value a hinge is nothing
    columns = np.column_stack([z[:, None] ** np.arange(powers + 1), made])
    some = _Evidence(evidence.residual[own], evidence.posterior[own], weights)
    # Of the classes the last follows from the others.
    U = (some.residual.T @ columns)[:-1]

    def with_columns(of: list[int]) -> Floats:
        """Return covariances of all columns with some, (n_classes - 1, n_classes - 1, m, n)."""
        found = some.covariances(lambda own: columns.T @ (own[:, None] * columns[:, of]), 0.5)
        return found[:-1, :-1]

    V = some.covariances(lambda own: own @ columns**2, 0.5)[:-1, :-1]
    known, found, p_value = list(range(powers + 1)), list[Screened](), 0.0
    beside = with_columns(known)
    for _ in range(_MOST_OF_A_COLUMN):
        each = _given_others(U, V, beside, known)
        # Several may say the same beside those known: the first, however sums are rounded.
        each = each[powers + 1 :]
        best = int(np.argmax(each >= (1.0 - 1e-9) * each.max()))
        statistic = float(each[best])
        chance = min(float(stats.chi2.sf(statistic, len(U))), 1.0 - 1e-16)
        # Of the best of several (Šidák 1967), and never before what was taken first.
        chance = float(-np.expm1(len(candidates) * np.log1p(-chance)))
        p_value = max(float(np.nextafter(p_value, 1.0)), chance)
        found.append(Screened(candidates[best], statistic, p_value))
        known.append(powers + 1 + best)
        beside = np.concatenate([beside, with_columns(known[-1:])], axis=3)
    return found


def _given_others(U: Floats, V: Floats, beside: Floats, known: Sequence[int]) -> Floats:
    """Return the χ² of each statistic beside known ones, 0 where they leave nothing of it.

    Shapes: U (n_classes - 1, m); V (n_classes - 1, n_classes - 1, m), each one's own covariance;
    beside (n_classes - 1, n_classes - 1, m, n_known); → (m,).
    """
    k, m = U.shape
    among = beside[:, :, known].transpose(0, 2, 1, 3).reshape(k * len(known), -1)
    beside = beside.transpose(2, 0, 1, 3).reshape(m, k, -1)
    apart = beside @ np.linalg.pinv(among, rcond=1e-12, hermitian=True)
    own = np.moveaxis(V, -1, 0)
    values, vectors = np.linalg.eigh(own - apart @ beside.transpose(0, 2, 1))
    score = U.T - apart @ U[:, known].reshape(-1)
    turned = (score[:, None, :] @ vectors)[:, 0]
    least = _NOTHING_LEFT * np.trace(own, axis1=1, axis2=2)[:, None]
    usable = values > least
    found: Floats = np.where(usable, turned**2 / np.where(usable, values, 1.0), 0.0).sum(axis=1)
    return found


def _pairs(
    matrix: Floats,
    prepared: DerivedColumns,
    discrete: list[int],
    numbers: list[int],
    evidence: _Evidence,
) -> list[Screened]:
    found = []
    for a, first in enumerate(discrete):
        for second in discrete[a + 1 :]:
            n_cells = prepared.levels[first] * prepared.levels[second]
            is_product = first in numbers and second in numbers
            if not 0 < n_cells <= _MOST_CELLS or is_product:
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
