"""Naive Bayes and Gaussian discriminants against scikit-learn's estimators of the same model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from benchmarks.harness import Case
from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.blocks import block_sum


@dataclass(frozen=True)
class Table:
    """A made-up data set."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]


# -- data --------------------------------------------------------------------------------------


def gaussian_classes(n_samples: int, n_features: int, n_classes: int) -> Table:
    """Return rows drawn from one spherical Gaussian a class, made in place (no second copy)."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_samples)
    centres = 0.5 * rng.standard_normal((n_classes, n_features))
    X = np.empty((n_samples, n_features))
    rng.standard_normal(out=X)
    for start in range(0, n_samples, 4096):
        X[start : start + 4096] += centres[y[start : start + 4096]]
    return Table(X, y)


def logistic(n_samples: int, n_features: int, n_classes: int) -> Table:
    """Return correlated columns, standardised, with labels from a multinomial logistic model."""
    rng = np.random.default_rng(1)
    mixing = np.eye(n_features) + 0.1 * rng.standard_normal((n_features, n_features))
    X = rng.standard_normal((n_samples, n_features)) @ mixing
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    scores = X @ (rng.standard_normal((n_features, n_classes)) / np.sqrt(n_features) * 1.5)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return Table(X, y)


def hard(n_samples: int, n_features: int) -> Table:
    """Return rows sorted by class, the last class of 20 rows, columns of condition number 1e6."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    X = rng.standard_normal((n_samples, n_features)) * np.geomspace(1.0, 1e-6, n_features) @ turn
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    score = X @ rng.standard_normal(n_features)
    y = (score > rng.logistic(size=n_samples)).astype(np.int64)
    y[rng.choice(n_samples, 20, replace=False)] = 2
    order = np.argsort(y, kind="stable")
    return Table(X[order], y[order])


def _rows(full: int, scale: float) -> int:
    # Never so few that a class has fewer rows than there are columns.
    return max(2_000, int(full * scale))


# Two sizes are kept, the full one and the warm-up's, for the cases that share them.
@lru_cache(maxsize=2)
def _million(scale: float) -> Table:
    return gaussian_classes(_rows(1_000_000, scale), 50, 10)


@lru_cache(maxsize=2)
def _two_classes(scale: float) -> Table:
    return logistic(_rows(500_000, scale), 50, 2)


@lru_cache(maxsize=2)
def _ten_classes(scale: float) -> Table:
    return logistic(_rows(100_000, scale), 50, 10)


@lru_cache(maxsize=2)
def _hard(scale: float) -> Table:
    return hard(_rows(500_000, scale), 50)


@lru_cache(maxsize=2)
def _path_table(scale: float) -> Table:
    return logistic(_rows(10_000, scale), 30, 2)


# -- contenders --------------------------------------------------------------------------------


def fit(make: Callable[[], Any]) -> Callable[[Table], Callable[[], Any]]:
    """Time ``make().fit(X, y)``."""
    return lambda table: lambda: make().fit(table.X, table.y)


def posteriors(make: Callable[[], Any]) -> Callable[[Table], Callable[[], Any]]:
    """Fit outside the clock, then time ``predict_proba(X)``."""

    def prepare(table: Table) -> Callable[[], Any]:
        model = make().fit(table.X, table.y)
        return lambda: model.predict_proba(table.X)

    return prepare


def read(table: Table) -> Callable[[], float]:
    """Time one read of X: a sum, block by block, on as many threads as Crossfade uses."""
    return lambda: block_sum(lambda rows: table.X[rows].sum(), table.X.shape[0])


def path(table: Table) -> Callable[[], Any]:
    """Time the λ path, its leave-one-out scores and the choice."""
    return lambda: NaiveBayes("gaussian", tradeoff="auto").fit(table.X, table.y)


def cross_validated_path(table: Table) -> Callable[[], Any]:
    """Time a choice by 5-fold cross-validation over the same grid, with cold fits."""
    path_ = path(table)().tradeoff_path_
    grid = list(zip(path_["tradeoff"], path_["l2"], path_["variant"], strict=True))
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(table.X, table.y))

    def fit(point: tuple[float, float, float], rows: NDArray[np.int64]) -> NaiveBayes:
        tradeoff, l2, variant = point
        model = NaiveBayes("gaussian", tradeoff=tradeoff, l2=l2, shared_variance=variant == 1.0)
        return model.fit(table.X[rows], table.y[rows])

    def loss(point: tuple[float, float, float]) -> float:
        return float(np.mean([_held_out_log_loss(table, fit(point, a), b) for a, b in folds]))

    return lambda: fit(min(grid, key=loss), np.arange(len(table.y)))


def _held_out_log_loss(table: Table, model: NaiveBayes, rows: NDArray[np.int64]) -> float:
    posterior = model.predict_proba(table.X[rows])
    return float(log_loss(table.y[rows], posterior, labels=model.classes_))


# -- what was achieved -------------------------------------------------------------------------


def fitted_log_loss(table: Table, model: Any) -> float:
    """Return a fitted model's log-loss on some of the rows."""
    some = slice(0, 20_000)
    return float(log_loss(table.y[some], model.predict_proba(table.X[some]), labels=model.classes_))


def posterior_log_loss(table: Table, proba: NDArray[np.float64]) -> float:
    """Return the log-loss of posteriors."""
    return float(-np.log(proba[np.arange(table.y.size), table.y]).mean())


def relative_gradient(table: Table, model: Any) -> float:
    """Return the largest entry of the penalised log-loss's gradient, divided by n.

    Computed here, alike for all, from ``coef_`` and ``intercept_``; X is standardised, so that all
    have the same objective: summed log-loss + ½‖w‖².
    """
    n_classes = model.classes_.size
    scores = table.X @ model.coef_.T + model.intercept_
    if n_classes == 2:
        residual = (1.0 / (1.0 + np.exp(-scores[:, 0])) - table.y)[:, None]
    else:
        scores -= scores.max(axis=1, keepdims=True)
        residual = np.exp(scores)
        residual /= residual.sum(axis=1, keepdims=True)
        residual[np.arange(table.y.size), table.y] -= 1.0
    slopes = residual.T @ table.X + model.coef_
    return float(max(np.abs(slopes).max(), np.abs(residual.sum(axis=0)).max()) / table.y.size)


# -- the table ---------------------------------------------------------------------------------


def _naive_bayes() -> Any:
    return NaiveBayes("gaussian", tradeoff=1.0)


def _discriminative() -> Any:
    # One variance per column makes T(x) = x: the model of plain logistic regression.
    return NaiveBayes("gaussian", shared_variance=True, tradeoff=0.0, l2=1.0)


def _logistic_regression(solver: str) -> Callable[[], Any]:
    return lambda: LogisticRegression(C=1.0, solver=solver, tol=1e-6, max_iter=1000)


def _rivals(how: Callable[..., Any], **makers: Callable[[], Any]) -> dict[str, Any]:
    return {label.replace("_", " "): how(make) for label, make in makers.items()}


_GAUSSIAN = "n=1e6, d=50, K=10"

CASES = [
    Case(
        f"Gaussian naive Bayes fit, {_GAUSSIAN}",
        _million,
        fit(_naive_bayes),
        _rivals(fit, GaussianNB=GaussianNB),
        goal=15.0,
        accuracy=fitted_log_loss,
        accuracy_name="log-loss",
        memory_goal=200.0,
    ),
    Case(
        f"Gaussian naive Bayes fit against one read of X, {_GAUSSIAN}",
        _million,
        fit(_naive_bayes),
        {"one read of X": read},
        goal=1.0 / 3.0,
    ),
    Case(
        f"Gaussian naive Bayes predict_proba, {_GAUSSIAN}",
        _million,
        posteriors(_naive_bayes),
        _rivals(posteriors, GaussianNB=GaussianNB),
        goal=15.0,
        accuracy=posterior_log_loss,
        accuracy_name="log-loss",
        memory_goal=200.0,
    ),
    Case(
        f"Gaussian discriminant fit, shared covariance, {_GAUSSIAN}",
        _million,
        fit(lambda: GaussianDiscriminant("shared", tradeoff=1.0)),
        _rivals(
            fit,
            LDA_svd=lambda: LinearDiscriminantAnalysis(solver="svd"),
            LDA_lsqr=lambda: LinearDiscriminantAnalysis(solver="lsqr"),
            LDA_eigen=lambda: LinearDiscriminantAnalysis(solver="eigen"),
        ),
        goal=3.0,
        accuracy=fitted_log_loss,
        accuracy_name="log-loss",
    ),
    Case(
        f"Gaussian discriminant fit, full covariance, {_GAUSSIAN}",
        _million,
        fit(lambda: GaussianDiscriminant("full", tradeoff=1.0)),
        _rivals(
            fit,
            QDA_svd=lambda: QuadraticDiscriminantAnalysis(solver="svd"),
            QDA_eigen=lambda: QuadraticDiscriminantAnalysis(solver="eigen"),
        ),
        goal=3.0,
        accuracy=fitted_log_loss,
        accuracy_name="log-loss",
    ),
    Case(
        f"Gaussian discriminant predict_proba, full covariance, {_GAUSSIAN}",
        _million,
        posteriors(lambda: GaussianDiscriminant("full", tradeoff=1.0)),
        _rivals(
            posteriors,
            QDA_svd=lambda: QuadraticDiscriminantAnalysis(solver="svd"),
            QDA_eigen=lambda: QuadraticDiscriminantAnalysis(solver="eigen"),
        ),
        goal=5.0,
        accuracy=posterior_log_loss,
        accuracy_name="log-loss",
    ),
    Case(
        "tradeoff=0, n=5e5, d=50, K=2",
        _two_classes,
        fit(_discriminative),
        _rivals(
            fit,
            lbfgs=_logistic_regression("lbfgs"),
            newton_cholesky=_logistic_regression("newton-cholesky"),
        ),
        goal=5.0,
        accuracy=relative_gradient,
        accuracy_name="gradient / n",
    ),
    Case(
        "tradeoff=0, n=1e5, d=50, K=10",
        _ten_classes,
        fit(_discriminative),
        _rivals(
            fit,
            lbfgs=_logistic_regression("lbfgs"),
            newton_cg=_logistic_regression("newton-cg"),
            newton_cholesky=_logistic_regression("newton-cholesky"),
        ),
        goal=4.0,
        accuracy=relative_gradient,
        accuracy_name="gradient / n",
    ),
    Case(
        "tradeoff=0, n=5e5, d=50, rows sorted, a class of 20 rows, condition number 1e6",
        _hard,
        fit(_discriminative),
        _rivals(
            fit,
            lbfgs=_logistic_regression("lbfgs"),
            newton_cholesky=_logistic_regression("newton-cholesky"),
        ),
        goal=1.0,
        accuracy=relative_gradient,
        accuracy_name="gradient / n",
    ),
    Case(
        'tradeoff="auto", n=1e4, d=30, K=2',
        _path_table,
        path,
        {"5-fold cross-validation, cold fits": cross_validated_path},
        goal=10.0,
        accuracy=fitted_log_loss,
        accuracy_name="log-loss",
    ),
]
