from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit

from crossfade.errors import DataError
from crossfade.optim.lbfgs import QuasiNewton, _between
from crossfade.optim.solver import descend


def lbfgs(problem, start, *, tol=1e-6, max_iter=1000, monitor=None, **options):
    return descend(
        problem, start, QuasiNewton(**options), tol=tol, max_iter=max_iter, monitor=monitor
    )


class Function:
    """A function and its gradient, counted."""

    n_rows = 1.0

    def __init__(self, value, gradient):
        self.value, self.gradient, self.calls = value, gradient, 0

    def value_and_gradient(self, theta):
        self.calls += 1
        return float(self.value(theta)), np.array(self.gradient(theta), dtype=float)


def test_it_gives_up_where_a_step_takes_many_evaluations():
    # A quadratic that five of six evaluations do not see, as beside the edge of a domain.
    scales, calls = np.logspace(0, 3, 60), []

    def value(theta):
        calls.append(1)
        return 0.5 * scales @ theta**2 if len(calls) % 6 == 1 else np.inf

    def slope(theta):
        return scales * theta

    start = np.ones(60)
    found = lbfgs(Function(value, slope), start, most_trials=4.0, tol=1e-9)
    assert (found.converged, found.n_iter) == (False, 30)
    calls.clear()
    found = lbfgs(Function(value, slope), start, tol=1e-9, max_iter=40)
    assert found.n_iter == 40
    plain = Function(lambda theta: 0.5 * scales @ theta**2, slope)
    assert lbfgs(plain, start, most_trials=4.0, tol=1e-6).converged


def logistic(n=300, d=20, scales=1.0, seed=0, l2=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * scales
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ (rng.normal(size=d) / scales))), 1.0, -1.0)

    def value(w):
        return np.logaddexp(0, -y * (X @ w)).sum() + 0.5 * l2 * w @ w

    def gradient(w):
        return -X.T @ (y * expit(-y * (X @ w))) + l2 * w

    def diagonal(w):
        p = expit(X @ w)
        return (X**2).T @ (p * (1 - p)) + l2

    return Function(value, gradient), diagonal


@pytest.mark.parametrize("size", [2, 10, 50])
def test_rosenbrock(size):
    problem = Function(scipy.optimize.rosen, scipy.optimize.rosen_der)
    found = lbfgs(problem, np.full(size, -1.2), tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.theta, 1.0, atol=1e-8)
    theirs = scipy.optimize.minimize(
        scipy.optimize.rosen,
        np.full(size, -1.2),
        jac=scipy.optimize.rosen_der,
        method="L-BFGS-B",
        options={"gtol": 1e-9, "ftol": 0, "maxiter": 5000, "maxfun": 10_000},
    )
    assert problem.calls <= 1.5 * theirs.nfev


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_operator_is_applied_once_a_step_and_made_anew_every_fifteen(size):
    # Of many parameters NumPy would reuse the memory of what it takes for temporary.
    curvature = np.geomspace(1e-2, 1e2, size)
    goal = np.random.default_rng(0).normal(size=size)
    made, applied = [], []

    def inverse(w):
        made.append(w)
        across = np.cosh(w - goal) / curvature

        def apply(v):
            applied.append(len(made))
            return across * v

        return apply

    def run(**first):
        problem = Function(
            lambda w: curvature @ np.log(np.cosh(w - goal)), lambda w: curvature * np.tanh(w - goal)
        )
        return lbfgs(problem, np.zeros(size), tol=1e-9, **first)

    for first in ({"diagonal": lambda w: curvature / np.cosh(w - goal)}, {"inverse": inverse}):
        found = run(**first)
        assert found.converged
        np.testing.assert_allclose(found.theta, goal, atol=1e-5)
    assert found.n_iter > 3
    # At the end no step lowers the function: two more are tried.
    assert len(applied) <= found.n_iter + 2
    assert len(made) == 1 + (found.n_iter - 1) // 15


def test_logistic_regression_is_scipys_and_values_never_rise():
    problem, diagonal = logistic()
    theirs = scipy.optimize.minimize(
        problem.value, np.zeros(20), jac=problem.gradient, method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 0},
    )  # fmt: skip
    for options in ({}, {"diagonal": diagonal}, {"memory": 3}):
        found = lbfgs(problem, np.zeros(20), tol=1e-9, **options)
        assert found.converged
        np.testing.assert_allclose(found.theta, theirs.x, atol=1e-7)
        values = [value for value, _ in found.history]
        assert (np.diff(values) <= 1e-12 * abs(values[-1])).all()
        assert found.n_iter == len(found.history) - 1
        assert found.gradient_norm <= 1e-9


def test_a_diagonal_makes_badly_scaled_problems_easy():
    scales = np.geomspace(1e-2, 1e3, 20)
    problem, diagonal = logistic(scales=scales, l2=1e-6)
    plain = lbfgs(problem, np.zeros(20), tol=1e-6, max_iter=2000)
    without = problem.calls
    scaled = lbfgs(problem, np.zeros(20), tol=1e-6, max_iter=2000, diagonal=diagonal)
    assert problem.calls - without < 0.2 * without
    assert scaled.converged
    assert scaled.value <= plain.value


def test_a_quadratic_is_exact_and_the_start_is_not_changed(unchanged):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8))
    A = A @ A.T + np.eye(8)
    b = rng.normal(size=8)
    start = unchanged(rng.normal(size=8))
    found = lbfgs(Function(lambda t: 0.5 * t @ A @ t - b @ t, lambda t: A @ t - b), start, tol=1e-9)
    np.testing.assert_allclose(found.theta, np.linalg.solve(A, b), atol=1e-7)


@pytest.mark.parametrize("with_diagonal", [False, True])
def test_l1_meets_the_conditions_of_an_optimum(with_diagonal):
    problem, diagonal = logistic(l2=0.2)
    weights = np.full(20, 12.0)
    weights[:2] = 0.0
    options = {"diagonal": diagonal} if with_diagonal else {}
    found = lbfgs(problem, np.zeros(20), l1=weights, tol=1e-8, **options)
    assert found.converged
    gradient = problem.gradient(found.theta)
    zero = found.theta == 0.0
    assert 3 <= zero.sum() <= 17
    assert (np.abs(gradient[zero]) <= weights[zero] + 1e-8).all()
    np.testing.assert_allclose(
        gradient[~zero], -weights[~zero] * np.sign(found.theta[~zero]), atol=1e-7
    )
    assert found.value == problem.value(found.theta) + weights @ np.abs(found.theta)
    # From elsewhere, the same point.
    far = lbfgs(problem, np.full(20, 0.3), l1=weights, tol=1e-8)
    np.testing.assert_allclose(far.theta, found.theta, atol=1e-6)


def test_a_large_l1_gives_zero_at_once():
    problem, _ = logistic()
    found = lbfgs(problem, np.zeros(20), l1=1e6)
    assert (found.n_iter, found.converged) == (0, True)
    assert not found.theta.any()


def test_outside_the_domain_steps_are_shortened():
    with np.errstate(invalid="ignore"):
        problem = Function(
            lambda t: np.inf if (t <= 0).any() else (t - np.log(t)).sum(), lambda t: 1 - 1 / t
        )
        found = lbfgs(problem, np.array([1e-3, 5.0, 0.5]), tol=1e-9)
        np.testing.assert_allclose(found.theta, 1.0, atol=1e-8)
        with pytest.raises(DataError, match="start: expected a point of finite value, got inf"):
            lbfgs(problem, np.array([-1.0]))


def test_endings():
    problem, _ = logistic()
    stopped = lbfgs(problem, np.zeros(20), max_iter=3)
    assert (stopped.converged, stopped.n_iter) == (False, 3)
    assert stopped.message == "stopped after max_iter=3 steps"
    told = lbfgs(problem, np.zeros(20), monitor=lambda before, after: "enough")
    assert (told.converged, told.n_iter, told.message) == (True, 1, "enough")
    flat = Function(lambda t: 1.0, lambda t: np.full(2, 1.0))
    stuck = lbfgs(flat, np.zeros(2))
    assert not stuck.converged
    assert stuck.message.startswith("no step lowers the objective further")
    with pytest.raises(DataError, match=r"l1: expected non-negative numbers, got -1\.0; use 0"):
        lbfgs(problem, np.zeros(20), l1=-1.0)


def test_a_quadratic_with_spread_out_curvatures_and_its_diagonal():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30)) * np.logspace(-2, 2, 30)
    matrix = root.T @ root + 1e-3 * np.eye(30)
    solution = rng.normal(size=30)
    problem = Function(
        lambda x: (x - solution) @ matrix @ (x - solution) - 7.0,
        lambda x: 2.0 * matrix @ (x - solution),
    )
    curvature = 2.0 * np.diag(matrix)
    found = lbfgs(
        problem, np.zeros(30), diagonal=lambda x: curvature, memory=20, tol=1e-6, max_iter=2000
    )
    assert found.converged
    assert found.value == pytest.approx(-7.0, abs=1e-10)


@pytest.mark.parametrize("start", [1e-6, 1e4])
def test_a_wall_is_not_walked_into_from_near_or_far(start):
    wall = Function(lambda t: np.inf if t[0] <= 0 else t[0] - np.log(t[0]), lambda t: 1 - 1 / t)
    found = lbfgs(wall, np.array([start]), diagonal=np.ones_like, tol=1e-9)
    assert found.converged
    assert found.theta[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_the_minimum_of_a_cubic_at_any_size(size):
    # x³ - x between 0 and 1 has its minimum at √⅓.
    found = _between((0.0, 0.0, -size), (1.0, 0.0, 2.0 * size))
    assert found == pytest.approx(np.sqrt(1.0 / 3.0), rel=1e-12)
