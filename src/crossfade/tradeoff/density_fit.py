"""Are the densities of the generative end true? A test of every column in every class.

The statistic of a column in a class is Anderson and Darling's A² of its transforms out of fold
(:mod:`crossfade.inference.density_fit`). What it would be if the densities were true is seen on
tables drawn from them, each fitted and scored like the rows: the p-value of a column is the share
of these in which the largest statistic of all columns and classes is no smaller (single-step maxT:
Westfall & Young 1993), so that of tables whose densities are true 5 % show one of .05 or less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Density
from crossfade.inference.density_fit import ColumnFit, anderson_darling, column_fit, transforms
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.fitting import FitOptions, Fitted, add_rows
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows

#: Rows that are looked at at most, and cells that a column has in a class at least.
_MOST_ROWS, _FEWEST_CELLS = 1_000, 20

_N_FOLDS, _N_DRAWS = 5, 500

#: Share from which equal numbers are what a column is told to be wrong by.
_SPIKE = 0.15

#: Tables drawn from the densities.
_N_TABLES = 59

#: A column in a class: their numbers.
Pair = tuple[int, int]


def density_fits(
    rows: LabelledRows, density: Density, options: FitOptions, columns: Sequence[int]
) -> list[ColumnFit]:
    """Return how these columns of numbers fit in each class."""
    if rows.n_samples > _MOST_ROWS:
        rows = rows.take(sample_rows(rows.n_samples, _MOST_ROWS / rows.n_samples))
    rng = np.random.default_rng(0)
    fold = folds(rows, _N_FOLDS)
    seen = replace(rows, X=np.array(rows.X, dtype=np.float64))
    whole = add_rows(seen, density, options)
    like = _drawn_like(seen, whole, rng).X
    blurred = {j: _half_step(seen.X[:, j], like[:, j]) for j in columns}
    own = dict(_transforms(seen, fold, density, options, columns, rng, blurred))
    largest = []
    for _ in range(_N_TABLES if own else 0):
        drawn = _drawn_like(seen, whole, rng)
        found = dict(_transforms(drawn, fold, density, options, columns, rng, {}))
        largest.append(max(anderson_darling(found[pair]) for pair in own))
    fits = []
    for (column, code), u in own.items():
        fit = column_fit(column, code, u)
        above = np.count_nonzero(np.array(largest) >= fit.statistic)
        fit = replace(fit, p_value=(1.0 + above) / (1.0 + _N_TABLES))
        own_rows = seen.codes == code
        spike = _spike(seen.X[own_rows, column], like[own_rows, column])
        fits.append(fit if spike is None else replace(fit, complaint=spike))
    return fits


def _transforms(
    rows: LabelledRows,
    fold: Integers,
    density: Density,
    options: FitOptions,
    columns: Sequence[int],
    rng: np.random.Generator,
    blurred: dict[int, float],
) -> Iterator[tuple[Pair, Floats]]:
    """Yield the transforms of every column with cells enough in a class."""
    parts: dict[Pair, list[Floats]] = {}
    for number in range(_N_FOLDS):
        fitted = add_rows(rows.take(np.flatnonzero(fold != number)), density, options)
        for code in range(rows.n_classes):
            held = rows.X[(fold == number) & (rows.codes == code)]
            if not len(held):
                continue
            natural = fitted.parameters.natural[code]
            drawn = fitted.density.sample(natural, _N_DRAWS, rng)
            for j in columns:
                x = held[:, j][~np.isnan(held[:, j])]
                x = x + rng.uniform(-1.0, 1.0, x.size) * blurred.get(j, 0.0)
                parts.setdefault((j, code), []).append(transforms(x, drawn[:, j], rng))
    for pair in sorted(parts):
        u = np.concatenate(parts[pair])
        if u.size >= _FEWEST_CELLS:
            yield pair, u


def _drawn_like(rows: LabelledRows, fitted: Fitted, rng: np.random.Generator) -> LabelledRows:
    """Return rows drawn from the densities, of the same classes, with the same cells missing."""
    X = np.empty_like(rows.X)
    for code in range(rows.n_classes):
        own = np.flatnonzero(rows.codes == code)
        if own.size:
            X[own] = fitted.density.sample(fitted.parameters.natural[code], own.size, rng)
    X[np.isnan(rows.X)] = np.nan
    return replace(rows, X=X)


def _spike(x: Floats, drawn: Floats) -> str | None:
    """Return that one number is the commonest by far, as among no draws: 0 for "not measured"."""
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    if counts.size < 3:
        return None
    next_most, most = np.sort(counts)[-2:]
    share = most / counts.sum()
    value = values[counts.argmax()]
    if share < _SPIKE or most < 3 * next_most or share < 2.0 * np.mean(drawn == value):
        return None
    return f"{100 * share:.0f} % of the numbers are {value:g}"


def _half_step(x: Floats, drawn: Floats) -> float:
    """Return half the step that numbers were rounded to, 0 if they were not, or are counts."""

    def repeats(values: Floats) -> bool:
        present = values[~np.isnan(values)]
        return 1 < np.unique(present).size < 0.9 * present.size

    if not repeats(x) or repeats(drawn):
        return 0.0
    return 0.5 * float(np.diff(np.unique(x[~np.isnan(x)])).min())
