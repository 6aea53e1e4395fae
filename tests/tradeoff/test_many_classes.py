"""Many classes, many categories, missing cells: each class's own block of the Hessian."""

from __future__ import annotations

import numpy as np
import polars
import polars.selectors
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from crossfade import NaiveBayes
from crossfade.densities import Categorical, Gaussian, Product
from crossfade.optim import lbfgs
from crossfade.optim.newton import Dense
from crossfade.optim.solver import descend
from crossfade.tradeoff import class_blocks, formed_curvature, path
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.preconditioner import preconditioner
from tests.tradeoff.cases import DENSITIES, make, start


def table(n_classes, n_columns, n_rows=200, missing=0.1, seed=0):
    """Return codes of categorical columns, their numbers of levels, and classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    levels = rng.integers(2, 8, n_columns)
    X = np.empty((n_rows, n_columns))
    for j, size in enumerate(levels):
        chance = rng.dirichlet(np.full(size, 0.4), size=n_classes)
        X[:, j] = [rng.choice(size, p=chance[k]) for k in y]
    X[rng.random(X.shape) < missing] = np.nan
    return X, levels, y


def objective_of(X, levels, y, tradeoff):
    rows = LabelledRows(X, y, None, int(y.max()) + 1, has_missing=bool(np.isnan(X).any()))
    return TradeoffObjective.of(rows, bind(Categorical(levels), rows), tradeoff, 1.0)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_blocks_of_classes_and_whole_hessians_find_one_optimum(missing, monkeypatch):
    X, levels, y = table(7, 10, missing=missing)
    objective = objective_of(X, levels, y, 0.3)
    begin = path.cold_start(objective)
    monkeypatch.setattr(class_blocks, "LARGEST_CLASS", 100)
    assert class_blocks.has_many_classes(objective)
    by_classes = path.minimise(objective, begin)
    whole = descend(objective, begin, Dense(), tol=1e-9)
    assert by_classes.converged
    assert whole.converged
    assert_allclose(by_classes.value, whole.value, rtol=1e-12)
    assert_allclose(by_classes.theta, whole.theta, atol=1e-5)
    # Where quasi-Newton steps take many evaluations, Newton's take over from where they are.
    monkeypatch.setattr(lbfgs, "_PROVED", 5)
    steps = path._by_classes(objective, begin, 1e-12, 0.0)
    assert (steps.converged, steps.n_iter) == (False, 5)
    monkeypatch.setattr(path, "_MOST_TRIALS", 0.0)
    taken_over = path.minimise(objective, begin, tol=1e-12)
    assert_allclose(taken_over.theta, whole.theta, atol=1e-5)


@pytest.mark.parametrize("tradeoff", [0.5, 0.01])
def test_blocks_of_classes_are_near_the_hessian(tradeoff):
    X, levels, y = table(4, 5, missing=0.1)
    objective = objective_of(X, levels, y, tradeoff)
    theta = path.minimise(objective, path.cold_start(objective)).theta
    solve, H = preconditioner(objective, theta), objective.curvature(theta)
    M = np.column_stack([solve(unit) for unit in np.eye(objective.n_parameters)])
    assert_allclose(M, M.T, atol=1e-10 * np.abs(M).max())
    # One constant for all offsets changes nothing, and is left out; H is pinned there.
    values = scipy.linalg.eigvals(M @ H).real
    values = np.sort(values)[1:]
    assert values[0] > 0.0
    assert values[-1] < 3.0
    assert 0.5 < np.median(values) < 1.5


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", DENSITIES)
def test_blocks_that_densities_give_are_inverted_in_closed_form(name, missing):
    if missing and not DENSITIES[name][0]().allows_missing:
        pytest.skip("takes no missing cells")
    objective = make(name, 3, tradeoff=0.3, missing=missing)
    passes, bound = objective.passes, objective.bound
    theta, p = start(objective), passes.n_free
    slope, inner = passes.at(theta).slope[:, passes.free], passes.density.free_hessian
    scale, factors = passes.scale[passes.free], passes.free_factors
    counts = 0.3 * (bound.counts + bound.prior_counts)[:, factors]
    blocks = np.zeros((3, p + 1, p + 1))
    blocks[:, :p, :p] = inner(passes.natural(theta)) / scale / scale[:, None]
    blocks[:, :p, :p] *= np.sqrt(counts[:, :, None] * counts[:, None])
    gradient = np.column_stack([slope, np.ones(3)])
    mass = 0.3 * passes.class_weights
    blocks += mass[:, None, None] * gradient[:, :, None] * gradient[:, None]
    right = np.random.default_rng(0).normal(size=(3, p + 1))
    expected = np.linalg.solve(blocks, right[:, :, None])[:, :, 0]
    found = class_blocks.OfDensities(objective, theta).solve(right)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


def test_levels_too_many_to_be_formed_take_few_steps_beside_columns_that_classes_share():
    """One shared variance beside them had a plain diagonal stand for all curvature."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    names = np.array([rng.permutation(120) // 1.2 for _ in range(26)]).T.astype(int)  # 100 levels
    numbers = y[:, None] + 3.0 * rng.normal(size=(120, 2))
    numbers[rng.random(numbers.shape) < 0.2] = np.nan
    parts = [(Gaussian(), [0]), (Gaussian(shared_variance=True), [1])]
    parts.append((Categorical([100] * 26), list(range(2, 28))))
    rows = LabelledRows(np.hstack([numbers, names]), y, None, 3, has_missing=True)
    objective = TradeoffObjective.of(rows, bind(Product(parts), rows), 0.5, 1.0)
    assert not objective.density.forms_statistics
    solution = path.minimise(objective, path.cold_start(objective), tol=1e-6)
    assert solution.converged
    assert solution.n_iter < 40


def test_many_classes_many_levels_and_missing_cells_are_solved():
    X, levels, y = table(15, 35)
    for tradeoff in (0.1, 0.0):
        objective = objective_of(X, levels, y, tradeoff)
        assert objective.n_parameters > 1_500
        solution = path.minimise(objective, path.cold_start(objective), cold=True)
        assert solution.converged
        assert solution.gradient_norm < 1e-7


def test_choice_among_many_classes_takes_hundreds_of_steps_not_thousands(monkeypatch):
    X, _, y = table(15, 35)
    steps = []
    minimise = path.minimise

    def counted(*args, **options):
        found = minimise(*args, **options)
        steps.append(found.n_iter)
        return found

    monkeypatch.setattr(path, "minimise", counted)
    model = NaiveBayes("categorical").fit(X, y)
    assert sum(steps) < 500
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_curvature_takes_one_product_for_all_pairs_of_classes(missing, monkeypatch):
    # A block of rows is multiplied once a class, not once a pair of classes.
    X, levels, y = table(30, 4, missing=missing)
    objective = objective_of(X, levels, y, 0.3)
    theta = path.cold_start(objective)
    products = []
    matmul = np.matmul

    def counted(*args, **options):
        products.append(args)
        return matmul(*args, **options)

    monkeypatch.setattr(formed_curvature.np, "matmul", counted)
    H = objective.curvature(theta)
    assert len(products) <= 32
    monkeypatch.undo()
    v = np.random.default_rng(1).normal(size=theta.size)
    v[-30:] -= v[-30:].mean()
    step = 1e-5
    ahead, behind = (objective.value_and_gradient(theta + s * v)[1] for s in (step, -step))
    if not missing:  # where cells are missing, H is made definite
        assert_allclose(H @ v, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-4)


def test_few_rows_of_many_classes_with_missing_cells_need_no_whole_hessian(monkeypatch):
    # Three rows a class, and missing cells: whole Hessians took nine tenths of a choice's time.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 3)
    X, _, _ = table(30, 6, n_rows=90)
    numbers = rng.normal(size=(30, 6))[y] + rng.normal(size=(90, 6))
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    whole = []
    curvature = TradeoffObjective.curvature
    monkeypatch.setattr(
        TradeoffObjective, "curvature", lambda *a, **o: whole.append(1) or curvature(*a, **o)
    )
    names = [f"level {code}" for code in range(8)]
    cells = [[None if np.isnan(c) else names[int(c)] for c in row] for row in X]
    frame = polars.DataFrame(
        {f"n{j}": numbers[:, j] for j in range(6)}
        | {f"c{j}": [row[j] for row in cells] for j in range(6)}
    ).with_columns(polars.selectors.float().fill_nan(None))
    NaiveBayes().fit(frame, y)
    assert len(whole) <= 10


def test_rare_levels_and_missing_cells_cost_a_few_steps_more_than_none():
    rng = np.random.default_rng(0)
    n = 1_000
    y = np.arange(n) % 2
    X = np.column_stack(
        [rng.integers(0, 3, n) + 0.0, rng.integers(0, 150, n), rng.integers(0, 4, n)]
    )
    X[:, 0] = np.where(rng.random(n) < 0.4, 2 * y, X[:, 0])
    holes = X.copy()
    holes[rng.random(n) < 0.5 + 0.3 * y, 1] = np.nan
    steps = []
    for filled in (X, holes):
        objective = objective_of(filled, [3, 150, 4], y, 0.0)
        solution = path.minimise(objective, path.cold_start(objective), cold=True)
        assert solution.converged
        steps.append(solution.n_iter)
    assert steps[1] <= 3 * steps[0]


def test_more_levels_than_are_ever_formed_with_missing_cells():
    rng = np.random.default_rng(0)
    n, levels = 3_000, 1_500
    y = np.arange(n) % 2
    X = np.column_stack([rng.integers(0, levels, n), (rng.random(n) < 0.3 + 0.4 * y)]).astype(float)
    X[rng.random(n) < 0.2, 0] = np.nan
    X[rng.random(n) < 0.1, 1] = np.nan
    for tradeoff in (0.5, 0.0):
        objective = objective_of(X, [levels, 2], y, tradeoff)
        assert not path.is_dense(objective)
        solution = path.minimise(objective, path.cold_start(objective), tol=1e-6, cold=True)
        assert solution.converged
