"""Binomial and Poisson regression with standard errors, and the grouping of rows.

All contenders have two threads where they use any. Every fit is judged by its largest gradient
entry divided by the number of rows; each has the loosest tolerance that brings it below 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from benchmarks.harness import Case
from crossfade.blocks import block_sum
from crossfade.glm import BinomialRegression, PoissonRegression, collapse
from crossfade.glm.data import Data
from crossfade.glm.design import measure
from crossfade.glm.families import BinomialFamily, PoissonFamily
from crossfade.glm.irls import GlmProblem, solve
from crossfade.glm.links import Log, Logit

#: Digits of ‖Δβ‖/‖β‖ after which Crossfade's gradient is below 1e-6: with standard errors, whose
#: information gives the last step, which are then right to five digits; and without.
_DIGITS, _DIGITS_ALONE = 3.0, {"binomial": 4.0, "poisson": 4.5}


@dataclass(frozen=True)
class Rows:
    """A made-up data set."""

    family: str
    X: NDArray[np.float64]
    y: NDArray[Any]


def _regression(family: str, scale: float) -> Rows:
    """Return correlated columns with responses of a model with moderate coefficients."""
    rng = np.random.default_rng(0)
    n, d = max(20_000, int(500_000 * scale)), 50
    X = np.empty((n, d))
    rng.standard_normal(out=X)
    mixing = np.eye(d) + 0.05 * rng.standard_normal((d, d))
    for start in range(0, n, 4096):
        X[start : start + 4096] = X[start : start + 4096] @ mixing
    eta = X @ (0.12 * rng.standard_normal(d)) - 0.5
    if family == "binomial":
        return Rows(family, X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int64))
    return Rows(family, X, rng.poisson(np.exp(np.minimum(eta, 4.0))))


# Two sizes are kept, the full one and the warm-up's, for the cases that share them.
@lru_cache(maxsize=2)
def _binomial(scale: float) -> Rows:
    return _regression("binomial", scale)


@lru_cache(maxsize=2)
def _poisson(scale: float) -> Rows:
    return _regression("poisson", scale)


@lru_cache(maxsize=2)
def _grouped(scale: float) -> Rows:
    """Return 500 distinct rows of five columns, each occurring many times."""
    rng = np.random.default_rng(1)
    n = max(20_000, int(10_000_000 * scale))
    kinds = rng.standard_normal((500, 5)).round(2)
    return Rows(
        "binomial", kinds[rng.integers(500, size=n)], rng.integers(2, size=n, dtype=np.int8)
    )


# -- contenders: each returns intercept and coefficients ------------------------------------------


def _ours(rows: Rows) -> Callable[[], NDArray[np.float64]]:
    model = BinomialRegression if rows.family == "binomial" else PoissonRegression

    def call() -> NDArray[np.float64]:
        fit = model(tol_digits=_DIGITS).fit(rows.X, rows.y)
        return np.concatenate([[fit.intercept_], fit.coef_])

    return call


def _without_errors(rows: Rows) -> Callable[[], NDArray[np.float64]]:
    """Fit without standard errors: solver only."""
    family = BinomialFamily(Logit()) if rows.family == "binomial" else PoissonFamily(Log())

    def call() -> NDArray[np.float64]:
        n, d = rows.X.shape
        y = rows.y.astype(np.float64)
        data = Data(rows.X, y, np.broadcast_to(np.float64(1.0), n))
        problem = GlmProblem(measure(rows.X, True, [str(j) for j in range(d)]), data, family)
        digits = _DIGITS_ALONE[rows.family]
        solved = solve(problem, problem.start(), tol_digits=digits, max_iter=100)
        return problem.coefficients(solved.solution.theta)

    return call


def _scikit_learn(rows: Rows) -> Callable[[], NDArray[np.float64]]:
    def call() -> NDArray[np.float64]:
        if rows.family == "binomial":
            fit = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-6)
        else:
            fit = PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-6)
        fit.fit(rows.X, rows.y)
        return np.concatenate([np.ravel(fit.intercept_), np.ravel(fit.coef_)])

    return call


def _glum(rows: Rows) -> Callable[[], NDArray[np.float64]]:
    from glum import GeneralizedLinearRegressor

    def call() -> NDArray[np.float64]:
        fit = GeneralizedLinearRegressor(
            family=rows.family, alpha=0.0, solver="irls-ls", gradient_tol=1e-5
        ).fit(rows.X, rows.y)
        return np.concatenate([[fit.intercept_], fit.coef_])

    return call


def _statsmodels(rows: Rows) -> Callable[[], NDArray[np.float64]]:
    import statsmodels.api as sm

    kind = sm.families.Binomial() if rows.family == "binomial" else sm.families.Poisson()

    def call() -> NDArray[np.float64]:
        exog = np.column_stack([np.ones(len(rows.y)), rows.X])
        return np.asarray(sm.GLM(rows.y, exog, family=kind).fit().params)

    return call


def _gradient(rows: Rows, beta: NDArray[np.float64]) -> float:
    """Return the largest entry of the mean gradient."""
    eta = beta[0] + rows.X @ beta[1:]
    mean = 1.0 / (1.0 + np.exp(-eta)) if rows.family == "binomial" else np.exp(eta)
    residual = rows.y - mean
    largest = max(abs(float(residual.sum())), float(np.abs(residual @ rows.X).max()))
    return largest / len(rows.y)


def _collapse(rows: Rows) -> Callable[[], Any]:
    return lambda: collapse(rows.X, rows.y)


def _one_read(rows: Rows) -> Callable[[], float]:
    """Read all of the data once: sum it, block by block, on as many threads."""
    return lambda: block_sum(
        lambda block: float(rows.X[block].sum()) + float(rows.y[block].sum()), len(rows.y)
    )


_RIVALS = {
    "glum irls-ls": _glum,
    "scikit-learn newton-cholesky": _scikit_learn,
    "statsmodels": _statsmodels,
}

CASES = [
    Case(
        "binomial regression with standard errors, n=5e5, d=50",
        _binomial,
        _ours,
        _RIVALS,
        goal=5.0,
        accuracy=_gradient,
        accuracy_name="gradient / n",
        memory_goal=200.0,
    ),
    Case(
        "binomial regression: with standard errors / without, n=5e5, d=50",
        _binomial,
        _ours,
        {"the fit alone": _without_errors},
        goal=0.5,
        accuracy=_gradient,
        accuracy_name="gradient / n",
    ),
    Case(
        "Poisson regression with standard errors, n=5e5, d=50",
        _poisson,
        _ours,
        _RIVALS,
        goal=5.0,
        accuracy=_gradient,
        accuracy_name="gradient / n",
        memory_goal=200.0,
    ),
    Case(
        "Poisson regression: with standard errors / without, n=5e5, d=50",
        _poisson,
        _ours,
        {"the fit alone": _without_errors},
        goal=0.5,
        accuracy=_gradient,
        accuracy_name="gradient / n",
    ),
    Case(
        "collapse of 1e7 rows, 500 distinct, d=5",
        _grouped,
        _collapse,
        {"one read of the data": _one_read},
        goal=1.0 / 3.0,
        memory_goal=200.0,
    ),
]
