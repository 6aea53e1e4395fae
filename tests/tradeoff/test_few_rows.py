"""Few rows and many columns: curvature is inverted by factor, not among all columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crossfade import NaiveBayes
from crossfade.densities import Bernoulli, Categorical, Gaussian, Poisson, Product
from crossfade.tradeoff import class_blocks, grid, path
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective


def table(n_rows, n_classes, missing, each=12, seed=0):
    """Return `each` columns of five kinds, in turns, and classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    columns = []
    for _ in range(each):
        columns += [y + rng.normal(size=n_rows), 0.3 * y + rng.normal(size=n_rows)]
        columns += [rng.integers(2, size=n_rows), (rng.integers(3, size=n_rows) + y) % 3]
        columns += [rng.poisson(1.0 + y)]
    X = np.column_stack(columns).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def objective_of(X, y, tradeoff, levels=3):
    columns = [np.arange(kind, X.shape[1], 5) for kind in range(5)]
    parts = [
        Gaussian(),
        Gaussian(shared_variance=True),
        Bernoulli(),
        Categorical([levels, *[3] * (len(columns[3]) - 1)]),
        Poisson(),
    ]
    density = Product([(part, own.tolist()) for part, own in zip(parts, columns, strict=True)])
    rows = LabelledRows(X, y, None, int(y.max()) + 1, has_missing=bool(np.isnan(X).any()))
    return TradeoffObjective.of(rows, bind(density, rows), tradeoff, 1.0)


def near_one_density(objective):
    """Return parameters of which no posterior is next to certain."""
    ends = objective.theta(objective.generative()), objective.theta(objective.one_density())
    return 0.1 * ends[0] + 0.9 * ends[1]


@pytest.mark.parametrize("levels", [3, 40])
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [0.9, 0.1, 0.0])
def test_blocks_of_factors_solve_what_they_say(missing, tradeoff, levels):
    X, y = table(36, 3, missing)
    if levels > 3:
        X[:, 3] = np.arange(36)
    objective = objective_of(X, y, tradeoff, levels)
    passes, lam = objective.passes, tradeoff
    theta, p = near_one_density(objective), passes.n_free
    squares, mass = passes.row_curvature(theta).own_squares(theta)
    scale, factors = passes.free_scale, passes.free_factors
    inner = objective.density.hessian(passes.natural(theta))[:, passes.free][:, :, passes.free]
    inner = inner * objective.partition_weight(theta)[:, factors, None] / scale / scale[:, None]
    slope, total = passes.at(theta).slope[:, passes.free], lam * passes.class_weights
    right = np.random.default_rng(1).normal(size=(3, p + 1))
    expected = np.empty_like(right)
    for c in range(3):
        M = np.diag(np.append((1 - lam) * (squares[c] + 2 / 3), (1 - lam) * mass[c]))
        border = np.append(slope[c], 1.0)
        M += total[c] * np.outer(border, border)
        M[:p, :p] += lam and inner[c]
        expected[c] = np.linalg.solve(M, right[c])
    found = class_blocks.OfFactors(objective, theta).solve(right)
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_squares_of_rows_are_the_diagonal_of_the_hessian(missing, weighted):
    X, y = table(36, 3, missing)
    objective = objective_of(X, y, 0.0)
    if weighted:
        rows = replace(objective.rows, weights=np.random.default_rng(2).random(36) + 0.5)
        objective = TradeoffObjective.of(rows, bind(objective.density, rows), 0.0, 1.0)
    theta = near_one_density(objective)
    k, p = 3, objective.passes.n_free
    squares, mass = objective.passes.row_curvature(theta).own_squares(theta)
    H = np.diagonal(objective.curvature(theta))
    # What pins the direction common to all classes is the same number in every place.
    assert_allclose(np.diff(squares.ravel()), np.diff(H[: k * p]), atol=1e-9)
    assert_allclose(np.diff(mass), np.diff(H[k * p : k * p + k]), atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [0.9, 0.1, 0.0])
def test_few_rows_have_the_optimum_that_the_whole_hessian_finds(missing, tradeoff, monkeypatch):
    objective = objective_of(*table(15, 3, missing, each=15), tradeoff)
    assert class_blocks.is_short(objective)
    begin = path.cold_start(objective)
    ours = path.minimise(objective, begin, cold=True)
    monkeypatch.setattr(class_blocks, "is_short", lambda objective: False)
    monkeypatch.setattr(path, "is_short", lambda objective: False)
    whole = path.minimise(objective, begin, cold=True)
    assert ours.converged
    assert_allclose(ours.value, whole.value, rtol=1e-9)
    scores = [objective.passes.at(found.theta).natural for found in (ours, whole)]
    differences = [one - one.mean(axis=0) for one in scores]
    assert_allclose(*differences, atol=1e-4)


@pytest.mark.parametrize("missing", [0.0, 0.02])
def test_nothing_as_large_as_the_columns_squared_is_inverted(missing, monkeypatch):
    X, y = table(40, 2, missing, each=160)
    X = X[:, np.arange(X.shape[1]) % 5 < 2]  # 320 numbers
    sizes = [0]
    for name in ("inv", "solve", "cholesky"):
        inner = getattr(np.linalg, name)

        def noted(matrix, *rest, inner=inner, **options):
            sizes.append(matrix.shape[-1])
            return inner(matrix, *rest, **options)

        monkeypatch.setattr(np.linalg, name, noted)
    monkeypatch.delattr(TradeoffObjective, "curvature")
    NaiveBayes().fit(X, y)
    assert 0 < max(sizes) <= 41


@pytest.mark.parametrize(
    ("n_rows", "expected"), [(24, {1.0, 0.5, 0.0}), (26, {1.0, 0.9, 0.5, 0.1, 0.0})]
)
def test_neighbouring_tradeoffs_are_not_tried_of_few_rows(n_rows, expected, monkeypatch):
    monkeypatch.setattr(grid, "TRADEOFFS", (1.0, 0.9, 0.5, 0.1, 0.0))
    X = np.random.default_rng(0).normal(size=(n_rows, 62))
    y = np.arange(n_rows) % 2
    model = NaiveBayes(density="gaussian").fit(X, y)  # 250 parameters
    tried = model.tradeoff_path_
    assert set(tried["tradeoff"][tried["variant"] == 0].tolist()) == expected
    words = f"tradeoffs 0.1, 0.9 are left out, with 250 parameters of {n_rows} rows"
    assert (words in model.selection_) == (n_rows == 24)


def test_what_few_rows_leave_out_is_said_once_for_all_variants(monkeypatch):
    monkeypatch.setattr(grid, "TRADEOFFS", (1.0, 0.9, 0.0))
    X = np.random.default_rng(0).normal(size=(12, 62))
    y = np.arange(12) % 2
    model = NaiveBayes(density="gaussian").fit(X, y)
    # Two classes of 62 means, variances (their own, or shared) and shares.
    expected = "the tradeoff 0.9 is left out, with 250 or 188 parameters of 12 rows"
    assert model.selection_.endswith(expected)
