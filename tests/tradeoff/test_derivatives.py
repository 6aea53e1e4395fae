"""Φ_λ equals its definition; gradient, Hessian and Hessian product equal finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.tradeoff.path import cold_start, minimise
from tests.tradeoff.cases import DENSITIES, make, specification, start

TRADEOFFS = (1.0, 0.4, 0.0)

#: Every density with complete rows, and with missing cells where it takes them.
CASES = [
    (name, missing)
    for name in DENSITIES
    for missing in ((False,) if name.startswith("multivariate") else (False, True))
]


def slope(function, theta, direction, step=1e-5):
    """Return the derivative along a direction: a difference of fourth order."""
    near = function(theta + step * direction) - function(theta - step * direction)
    far = function(theta + 2 * step * direction) - function(theta - 2 * step * direction)
    return (8.0 * near - far) / (12.0 * step)


def directions(objective, theta, number=6):
    """Return random directions of a size that stays inside the domain."""
    rng = np.random.default_rng(3)
    for _ in range(number):
        yield rng.normal(size=theta.size) * 0.3 / np.sqrt(theta.size)


def unpinned(objective, v):
    """Return what of a direction changes the objective at its λ."""
    weights, offsets, tied = objective.split(v)
    offsets = offsets - offsets.mean()
    if objective.tradeoff == 0.0:
        weights, tied = weights - weights.mean(axis=0), 0.0 * tied
    return objective.join(weights, offsets, tied)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("name", "missing"), CASES)
def test_value_and_gradient(name, k, weighted, missing):
    for tradeoff in TRADEOFFS:
        objective = make(name, k, tradeoff=tradeoff, weighted=weighted, missing=missing)
        theta = start(objective)
        value, gradient = objective.value_and_gradient(theta)
        assert value == pytest.approx(specification(objective, theta), rel=1e-11)
        assert objective.value(theta) == pytest.approx(value, rel=1e-13)
        for v in directions(objective, theta):
            expected = slope(objective.value, theta, v)
            assert gradient @ v == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("name", "missing"), CASES)
def test_hessian_and_its_product(name, k, missing):
    for tradeoff in (0.0,) if missing else TRADEOFFS:
        objective = make(name, k, tradeoff=tradeoff, weighted=True, missing=missing)
        theta = start(objective)
        H, product = objective.curvature(theta), objective.curvature_product(theta)
        assert np.abs(H - H.T).max() < 1e-9 * np.abs(H).max()
        for v in directions(objective, theta):
            v = unpinned(objective, v)
            expected = slope(lambda at, o=objective: o.value_and_gradient(at)[1], theta, v)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(H @ v, expected, rtol=0, atol=2e-7 * scale)
            np.testing.assert_allclose(product(v), expected, rtol=0, atol=2e-7 * scale)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", [name for name, missing in CASES if missing])
def test_hessian_at_the_optimum_of_rows_with_missing_cells(name, k):
    for tradeoff in (0.1, 0.01, 0.001):
        objective = make(name, k, tradeoff=tradeoff, weighted=True, missing=True)
        theta = minimise(objective, cold_start(objective)).theta
        H = objective.curvature(theta)
        for v in directions(objective, theta):
            v = unpinned(objective, v)
            expected = slope(lambda at, o=objective: o.value_and_gradient(at)[1], theta, v)
            np.testing.assert_allclose(H @ v, expected, rtol=0, atol=2e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("name", "missing"), CASES)
def test_curvature_is_positive_definite_everywhere(name, missing):
    """L_λ is concave; with missing cells the stand-in for its Hessian must be semidefinite."""
    for tradeoff in TRADEOFFS:
        objective = make(name, 3, tradeoff=tradeoff, missing=missing)
        for seed in range(5):
            values = np.linalg.eigvalsh(objective.curvature(start(objective, seed)))
            assert values.min() > -1e-10 * values.max()


@pytest.mark.parametrize(("name", "missing"), CASES)
def test_convex_along_chords(name, missing):
    """Convexity without derivatives: the value midway lies below the mean of the ends."""
    for tradeoff in (0.0,) if missing else TRADEOFFS:
        objective = make(name, 3, tradeoff=tradeoff, missing=missing)
        for seed in range(5):
            a, b = start(objective, seed), start(objective, seed + 5)
            ends = 0.5 * (objective.value(a) + objective.value(b))
            assert objective.value(0.5 * (a + b)) <= ends + 1e-9 * abs(ends)


@pytest.mark.parametrize("name", DENSITIES)
def test_outside_the_domain_is_infinite_and_quiet(name):
    objective = make(name, 2, tradeoff=0.5)
    theta = start(objective)
    weights, offsets, tied = objective.split(theta)
    finite = objective.join(weights + 1e3, offsets, tied + 1e3)
    value, _ = objective.value_and_gradient(finite)
    if "gaussian" in name or name == "product" or "multivariate" in name:
        assert value == np.inf
    else:
        assert value > objective.value(theta)


def test_the_sampled_objective_is_the_same_function_of_a_share_of_the_rows():
    objective = make("product", 3, tradeoff=0.3, weighted=True, missing=True, n=600)
    part = objective.sampled(0.5)
    assert part.rows.n_samples == 300
    assert part.n_rows == pytest.approx(objective.n_rows)
    theta = start(objective)
    assert part.value(theta) == pytest.approx(specification(part, theta), rel=1e-11)
    assert part.value(theta) == pytest.approx(objective.value(theta), rel=0.2)
