"""Sparse counts of words against scikit-learn's estimators of the same model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from benchmarks.harness import Case
from crossfade import NaiveBayes


@dataclass(frozen=True)
class Documents:
    """Made-up counts of words and classes."""

    X: Any
    y: NDArray[np.int64]


def documents(n_samples: int, n_words: int, n_classes: int, length: float) -> Documents:
    """Return documents whose words are as frequent as 1/rank, by classes that differ a little.

    Each class has its own multiple, log-normal with σ = 0.3, of each word's frequency: most of the
    documents can be told, not all.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n_samples)
    lengths = rng.poisson(length, n_samples)
    order = np.argsort(y, kind="stable")
    drawn = []
    for k in range(n_classes):
        shares = np.cumsum(np.exp(0.3 * rng.standard_normal(n_words)) / np.arange(1, n_words + 1))
        place = rng.random(lengths[y == k].sum()) * shares[-1]
        drawn.append(np.minimum(np.searchsorted(shares, place), n_words - 1))
    columns = np.concatenate(drawn)
    rows = np.repeat(order, lengths[order])
    X = scipy.sparse.csr_array((np.ones(columns.size), (rows, columns)), shape=(n_samples, n_words))
    X.sum_duplicates()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return Documents(X, y)


def _rows(full: int, scale: float) -> int:
    # Enough for what is compiled to be compiled before the clock starts.
    return max(8_000, int(full * scale))


@lru_cache(maxsize=2)
def _many(scale: float) -> Documents:
    return documents(_rows(200_000, scale), 100_000, 20, 58.0)


@lru_cache(maxsize=2)
def _some(scale: float) -> Documents:
    return documents(_rows(20_000, scale), 20_000, 5, 58.0)


# -- contenders, and what was achieved ---------------------------------------------------------


def fit(make: Callable[[], Any]) -> Callable[[Documents], Callable[[], Any]]:
    """Time ``make().fit(X, y)``."""
    return lambda given: lambda: make().fit(given.X, given.y)


def fit_and_predict(make: Callable[[], Any]) -> Callable[[Documents], Callable[[], Any]]:
    """Time ``make().fit(X, y).predict(X)``."""
    return lambda given: lambda: make().fit(given.X, given.y).predict(given.X)


def error(given: Documents, predicted: NDArray[Any]) -> float:
    """Return the share of wrong predictions."""
    return float((predicted != given.y).mean())


def gradient(given: Documents, model: Any) -> float:
    """Return the largest entry of the penalised log-loss's gradient, divided by n."""
    coefficients, intercept = model.coef_, model.intercept_
    scores = given.X @ coefficients.T + intercept
    residual = scipy.special.softmax(scores, axis=1)
    residual[np.arange(given.y.size), given.y] -= 1.0
    slopes = (given.X.T @ residual).T + coefficients
    return float(max(np.abs(slopes).max(), np.abs(residual.sum(axis=0)).max()) / given.y.size)


def _regression() -> Any:
    return LogisticRegression(solver="newton-cg", tol=1e-8, max_iter=1_000)


CASES = [
    Case(
        "words, tradeoff=1, fit and predict, 2e5 documents, 1e5 words, 1e7 non-zeros, K=20",
        _many,
        fit_and_predict(lambda: NaiveBayes(tradeoff=1.0)),
        {"MultinomialNB": fit_and_predict(MultinomialNB)},
        goal=3.0,
        accuracy=error,
        accuracy_name="error",
        memory_goal=100.0,
    ),
    Case(
        "words, tradeoff=0, 2e4 documents, 2e4 words, 9e5 non-zeros, K=5",
        _some,
        fit(lambda: NaiveBayes(tradeoff=0.0)),
        # After 1,000 iterations lbfgs takes longer still, and is not at this gradient.
        {"newton-cg": fit(_regression)},
        goal=3.0,
        accuracy=gradient,
        accuracy_name="gradient / n",
        memory_goal=100.0,
    ),
]
