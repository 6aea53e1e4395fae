"""The minimiser on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.sequences.lbfgs import minimise


def test_a_quadratic_with_spread_out_curvatures():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30)) * np.logspace(-2, 2, 30)
    matrix = root.T @ root + 1e-3 * np.eye(30)
    solution = rng.normal(size=30)

    def function(x):
        gap = x - solution
        return float(gap @ matrix @ gap) - 7.0, 2 * matrix @ gap

    found = minimise(function, np.zeros(30), scale=0.5 / np.diag(matrix), tol=1e-16, max_iter=2000)
    assert found.converged
    assert found.value == pytest.approx(-7.0, abs=1e-10)


def test_a_wall_is_not_walked_into():
    # -log x + x, infinite left of 0, from next to the wall and from far away.
    def function(x):
        if x[0] <= 0:
            return np.inf, np.zeros(1)
        return float(x[0] - np.log(x[0])), np.array([1.0 - 1.0 / x[0]])

    for start in (1e-6, 1e4):
        found = minimise(function, np.array([start]), scale=np.ones(1), tol=1e-14)
        assert found.converged
        assert found.theta[0] == pytest.approx(1.0, abs=1e-6)


def test_it_says_when_it_ran_out_of_steps():
    start = np.full(3, 50.0)
    found = minimise(
        lambda x: (float((x**4).sum()), 4 * x**3), start, scale=np.full(3, 1e-6), max_iter=2
    )
    assert not found.converged
    assert found.message == "stopped after max_iter=2 steps"
    assert found.n_iter == 2
    assert (start == 50.0).all()
