"""Do intervals of coefficients and of probabilities hold what they are to hold?

Rows are drawn from three classes; three columns are independent Gaussians with one variance in all
classes, which is the model, or skewed, correlated and of variances that differ, which it is not.
Each fit's 95 % intervals are held against the truth; of a wrong model against what it tends to,
which a fit to very many rows shows. A pool's weights change with the number of rows: where the
model is wrong, its intervals are held against the mean of its own estimates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from crossfade import NaiveBayes

__all__ = ["TITLE", "table"]

TITLE = "coverage: standard errors"

_SHARES = np.array([0.5, 0.3, 0.2])
_MEANS = np.array([[0.0, 0.0, 0.0], [0.8, -0.5, 0.3], [-0.4, 0.9, 0.0]])
_TRADEOFFS = (0, 0.5, 1, "auto")
_N_ROWS = (300, 1_000)
_MANY_ROWS = 400_000


def table(n_draws: int = 400, say: Callable[[str], None] = print) -> str:
    """Return the share of 95 % intervals that hold, a line per model, tradeoff and row number."""
    lines = [
        "| the model is | λ | rows | draws | coefficients | least of them | probabilities |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for drawn in (_true, _wrong):
        for tradeoff in _TRADEOFFS:
            # A pool is some hundred fits.
            number = max(2, n_draws // 4 if tradeoff == "auto" else n_draws)
            for n_rows in _N_ROWS:
                say(f"coverage {drawn.__name__.strip('_')} {tradeoff} {n_rows}")
                held, sure = _held(drawn, tradeoff, n_rows, number)
                lines.append(
                    f"| {drawn.__name__.strip('_')} | {tradeoff} | {n_rows:,} | {number} "
                    f"| {100 * held.mean():.1f} % | {100 * held.min():.1f} % "
                    f"| {100 * sure.mean():.1f} % |"
                )
    return "\n".join(lines)


def _true(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    return _MEANS[y] + rng.normal(size=(n, 3)), y


def _wrong(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    first = rng.gamma(2.0, size=n) * (1.0 + 0.3 * y) + _MEANS[y, 0]
    second = 0.6 * first + rng.normal(size=n) * (1.0 + 0.5 * (y == 1)) + _MEANS[y, 1]
    third = rng.standard_t(5, size=n) + _MEANS[y, 2]
    return np.column_stack([first, second, third]), y


def _held(drawn: Any, tradeoff: Any, n_rows: int, n_draws: int) -> tuple[Any, Any]:
    """Return how often each coefficient's and each new row's interval holds what it is to."""
    new = drawn(40, np.random.default_rng(1))[0]
    found = []
    for draw in range(n_draws):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = drawn(n_rows, np.random.default_rng([2, draw]))
            model = NaiveBayes("gaussian", shared_variance=True, tradeoff=tradeoff).fit(X, y)
        said = model.summary()
        found.append(
            (said.estimates, said.lower, said.upper, *model.predict_proba(new, interval=0.95))
        )
    estimates, low, high, posterior, below, above = map(np.array, zip(*found, strict=True))
    if drawn is _true:
        goal, sure = _truth(new)
    elif tradeoff == "auto":
        goal, sure = estimates.mean(axis=0), posterior.mean(axis=0)
    else:
        X, y = drawn(_MANY_ROWS, np.random.default_rng(0))
        model = NaiveBayes("gaussian", shared_variance=True, tradeoff=tradeoff).fit(X, y)
        goal, sure = _estimates(model), model.predict_proba(new)
    return (
        ((low <= goal) & (goal <= high)).mean(axis=0),
        ((below <= sure) & (sure <= above)).mean(axis=0),
    )


def _truth(new: Any) -> tuple[Any, Any]:
    offsets = np.log(_SHARES) - 0.5 * (_MEANS**2).sum(axis=1)
    scores = new @ _MEANS.T + offsets
    posterior = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    coefficients = np.column_stack([offsets, _MEANS])
    return (coefficients[1:] - coefficients[0]).ravel(), posterior


def _estimates(model: Any) -> Any:
    coefficients = np.column_stack([model.intercept_, model.coef_])
    return (coefficients[1:] - coefficients[0]).ravel()
