"""The solver loop, and the sampled solve for every row order, class balance and conditioning."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.optim.lbfgs import QuasiNewton
from crossfade.optim.newton import ConjugateGradient, Dense, Sampled, sample_rows
from crossfade.optim.solver import Iterate, descend


class Logistic:
    """Binary logistic regression that counts what it reads."""

    def __init__(self, X, y, scale=1.0):
        self.X, self.y, self.scale = X, y, scale
        self.n_rows = scale * len(y)
        self.passes = self.whole = 0

    def value(self, theta):
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta):
        self.passes += 1
        with np.errstate(over="ignore"):
            eta = self.X @ theta
        if not np.isfinite(eta).all():
            return np.inf, np.full(len(theta), np.nan)
        value = np.logaddexp(0.0, eta).sum() - self.y @ eta
        residual = 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700))) - self.y
        return self.scale * float(value), self.scale * (self.X.T @ residual)

    def curvature(self, theta, share=1.0):
        self.whole += share == 1.0
        rows = sample_rows(len(self.y), share)
        X = self.X[rows]
        p = 1.0 / (1.0 + np.exp(-np.clip(X @ theta, -700, 700)))
        return self.scale * (X * (p * (1 - p))[:, None]).T @ X * (len(self.y) / len(rows))

    def curvature_product(self, theta):
        return self.curvature(theta).__matmul__

    def sample(self, share):
        rows = sample_rows(len(self.y), share)
        return Logistic(self.X[rows], self.y[rows], self.scale * len(self.y) / len(rows))


def data(n=20_000, d=8, rare=0.0, condition=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if condition > 1.0:
        u, _ = np.linalg.qr(rng.normal(size=(d, d)))
        X = X @ (u * np.geomspace(1.0, 1.0 / condition, d)) @ u.T
    X = np.column_stack([np.ones(n), X])
    theta = rng.normal(size=d + 1) * 0.7
    theta[0] = -rare
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ theta))).astype(float)
    return X, y


CASES = {
    "plain": {},
    "rare class": {"rare": 8.0},
    "condition number 1e6": {"condition": 1e6},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", ["shuffled", "by class", "by a column"])
@pytest.mark.parametrize("shares", [(), (0.1,), (0.03, 0.1)])
def test_reaches_the_optimum_of_newton(case, order, shares):
    X, y = data(**CASES[case])
    if order != "shuffled":
        rows = np.argsort(y if order == "by class" else X[:, 1], kind="stable")
        X, y = X[rows], y[rows]
    problem = Logistic(X, y)
    start = np.zeros(X.shape[1])
    exact = descend(problem, start, Dense(), tol=1e-12)
    samples = dict(zip(("sample", "larger"), map(problem.sample, shares), strict=False))
    fit = descend(problem, start, Sampled(**samples), tol=1e-10)
    assert fit.converged, fit.message
    assert fit.gradient_norm <= 1e-10
    np.testing.assert_allclose(fit.value, exact.value, rtol=1e-13)
    if case != "condition number 1e6":
        np.testing.assert_allclose(fit.theta, exact.theta, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(start, 0.0)


def test_few_passes_over_all_rows():
    X, y = data(n=40_000)
    problem = Logistic(X, y)
    fit = descend(problem, np.zeros(X.shape[1]), Sampled(sample=problem.sample(0.1)), tol=1e-8)
    assert fit.converged
    assert problem.passes <= 6
    assert problem.whole == 0


def test_a_step_on_more_rows_begins_nearer_and_costs_no_pass_over_all():
    """The way left is as the sampling error: of rows three times as many, less by 3 ** 0.5."""
    ways, passes = [], []
    for shares in ((0.03,), (0.03, 0.1)):
        own = []
        for seed in range(5):
            X, y = data(n=40_000, seed=seed)
            end = descend(Logistic(X, y), np.zeros(X.shape[1]), Dense(), tol=1e-12).theta
            problem = Logistic(X, y)
            samples = dict(zip(("sample", "larger"), map(problem.sample, shares), strict=False))
            points = Sampled(**samples).points(problem, np.zeros(X.shape[1]))
            own.append(np.linalg.norm(next(points).theta - end))
            passes.append(problem.passes)
        ways.append(np.mean(own))
    assert ways[1] < 0.7 * ways[0]
    assert set(passes) == {1}


def test_a_column_absent_from_the_sample_calls_for_all_rows():
    X, y = data(n=20_000, d=3)
    drawn = sample_rows(len(y), 0.1)
    dummy = np.zeros(len(y))
    dummy[np.setdiff1d(np.arange(len(y)), drawn)[:40]] = 1.0
    X = np.column_stack([X, dummy])
    problem = Logistic(X, y)
    fit = descend(problem, np.zeros(X.shape[1]), Sampled(sample=problem.sample(0.1)), tol=1e-11)
    exact = descend(Logistic(X, y), np.zeros(X.shape[1]), Dense(), tol=1e-12)
    assert fit.converged
    assert problem.whole >= 1
    np.testing.assert_allclose(fit.theta, exact.theta, rtol=1e-6)


def test_monitor_sees_every_step_and_may_end_the_run():
    X, y = data(n=2_000, d=2)
    seen: list[tuple[Iterate, Iterate]] = []

    def stop_at_third(before, after):
        seen.append((before, after))
        return "three steps are enough" if len(seen) == 3 else None

    plain = ConjugateGradient(lambda theta: np.array)
    for inner in (Dense(), Sampled(), plain, QuasiNewton()):
        seen.clear()
        fit = descend(Logistic(X, y), np.zeros(3), inner, tol=0.0, monitor=stop_at_third)
        assert fit.converged
        assert (fit.n_iter, fit.message) == (3, "three steps are enough")
        assert seen[2][1].theta is fit.theta
        assert [after.value for _, after in seen] == [value for value, _ in fit.history[1:]]
        whole = descend(Logistic(X, y), np.zeros(3), inner, tol=1e-9, max_iter=2)
        assert whole.message == "stopped after max_iter=2 steps"
        assert whole.history == fit.history[:3]


def test_zero_tolerance_ends_at_the_rounding_floor():
    X, y = data(n=3_000, d=3)
    for inner in (Dense(), Sampled()):
        fit = descend(Logistic(X, y), np.zeros(4), inner, tol=0.0)
        assert fit.converged
        assert fit.gradient_norm < 1e-13


@pytest.mark.parametrize("inner", [Dense(), Sampled()])
def test_a_start_outside_the_domain_is_said(inner):
    X, y = data(n=100, d=2)
    X[3, 1] = np.nan
    fit = descend(Logistic(X, y), np.zeros(3), inner)
    assert not fit.converged
    assert fit.message == "the function or its gradient is not finite at the start"
    assert fit.n_iter == 0


def test_sample_rows_are_spread_and_repeatable():
    rows = sample_rows(10_000, 0.1)
    assert len(rows) == 1000
    np.testing.assert_array_equal(np.unique(rows // 10), np.arange(1000))
    np.testing.assert_array_equal(rows, sample_rows(10_000, 0.1))
    # A period of ten would defeat a plain stride.
    assert np.bincount(rows % 10, minlength=10).min() > 50
    np.testing.assert_array_equal(sample_rows(7, 1.0), np.arange(7))
    assert sample_rows(0, 0.1).size == 0
    assert sample_rows(3, 0.1).size == 1


@pytest.mark.parametrize("inner", [Dense(enough=1e-4), Sampled(share=1.0, enough=1e-4)])
def test_a_last_step_that_promises_little_is_taken_without_a_pass(inner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(float)
    exact = descend(Logistic(X, y), np.zeros(3), Dense(), tol=1e-12)
    counted = Logistic(X, y)
    found = descend(counted, np.zeros(3), inner, tol=1e-12)
    assert found.converged
    assert counted.passes == found.n_iter  # the start and every step but the last
    # Less is left than was promised, and the value is the quadratic model's.
    left = (counted.value(found.theta) - exact.value) / 400
    assert 0.0 <= left < 1e-6
    assert found.value == pytest.approx(exact.value, abs=1e-4 * 400)
