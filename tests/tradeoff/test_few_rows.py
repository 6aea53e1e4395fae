"""Few rows and many columns: curvature is inverted among the rows, not among the columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crossfade import NaiveBayes
from crossfade.densities import Bernoulli, Categorical, Gaussian, Poisson, Product
from crossfade.tradeoff import class_blocks, path, preconditioner
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


@pytest.mark.parametrize("levels", [3, 40])
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [0.9, 0.1, 0.0])
def test_blocks_inverted_among_rows_are_those_inverted_whole(missing, tradeoff, levels):
    X, y = table(12 if levels == 3 else 36, 3, missing)
    if levels > 3:
        X[:, 3] = np.arange(36)
    objective = objective_of(X, y, tradeoff, levels)
    assert class_blocks.is_short(objective)
    theta = path.cold_start(objective)
    ours, whole = (
        kind(objective, theta) for kind in (class_blocks.InRowSpace, class_blocks.Inverted)
    )
    right = np.random.default_rng(1).normal(size=(3, objective.passes.n_free + 1))
    expected = whole.solve(right)
    assert_allclose(ours.solve(right), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [0.9, 0.1, 0.0])
def test_few_rows_have_the_optimum_that_the_whole_hessian_finds(missing, tradeoff, monkeypatch):
    objective = objective_of(*table(15, 3, missing), tradeoff)
    begin = path.cold_start(objective)
    ours = path.minimise(objective, begin, cold=True)
    monkeypatch.setattr(path, "is_short", lambda objective: False)
    monkeypatch.setattr(preconditioner, "is_short", lambda objective: False)
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
