"""Do class shares and prediction sets keep their word on real tables?

Shares: a model of up to 1,000 rows meets 400 other rows drawn to shares that are known (Dirichlet).
How often do the 95 % intervals hold them, and how far is the Brier score of the adapted model from
that of one that was fitted to rows of these shares?

Sets: a random half of each table is fitted, the other half gets sets of 90 % coverage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_iris, load_wine

from benchmarks.comparison import read_set
from crossfade import NaiveBayes

SHARES_TITLE = "shares: class shares of rows without labels"
SETS_TITLE = "sets: prediction sets that hold 90 % of the rows"

#: Tables with rows enough to be drawn from.
SHARE_SETS = ("vehicle", "satimage", "optdigits", "sick", "adult", "credit_g")
SETS = (
    "titanic", "credit_g", "horse_colic", "hepatitis", "house_votes_84",
    "lymphography", "sonar", "vehicle", "optdigits", "satimage",
)  # fmt: skip

_BUNDLED = {"iris": load_iris, "wine": load_wine}

_MOST_ROWS, _NEW_ROWS, _DRAWS = 1_000, 400, 5


def shares_table(
    n_splits: int = 10, sets: Sequence[str] = SHARE_SETS, say: Callable[[str], None] = print
) -> str:
    """Return coverage and width of the intervals, and Brier scores, a line per data set."""
    heads = ["intervals hold", "width", "Brier score as fitted", "adapted"]
    return mean_rows([*heads, "fitted to such shares"], {0}, _shifted, n_splits, sets, say)


def mean_rows(
    heads: Sequence[str],
    percent: set[int],
    rows_of: Callable[[Any, Any, int], list[list[float]]],
    n_splits: int,
    sets: Sequence[str],
    say: Callable[[str], None],
) -> str:
    """Return the mean rows of every data set's splits, and the mean over data sets.

    `percent`: Which cells are shares.
    """

    def line(name: str, row: Any) -> str:
        cells = [
            f"{100 * cell:.1f} %" if j in percent else f"{cell:.3f}" for j, cell in enumerate(row)
        ]
        return f"| {name} | {' | '.join(cells)} |"

    lines = [f"| data set | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    every = []
    for name in sets:
        found = _read(name)
        if found is None:
            continue
        say(name)
        rows = [row for split in range(n_splits) for row in rows_of(*found, split)]
        every.append(np.mean(rows, axis=0))
        lines.append(line(name, every[-1]))
    if every:
        lines.append(line("**mean**", np.mean(every, axis=0)))
    return "\n".join(lines)


def _read(name: str) -> tuple[Any, Any] | None:
    if name not in _BUNDLED:
        return read_set(name)
    X, y = _BUNDLED[name](return_X_y=True)
    return pl.DataFrame(X), y


def _shifted(X: Any, y: Any, split: int) -> list[list[float]]:
    rng = np.random.default_rng(split)
    order = rng.permutation(len(y))
    n_train = min(_MOST_ROWS, len(y) // 2)
    train, rest = order[:n_train], order[n_train:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NaiveBayes().fit(X[train], y[train])
        k = len(model.classes_)
        places = [rest[y[rest] == label] for label in model.classes_]
        own = [train[y[train] == label] for label in model.classes_]
        if min(map(len, places)) == 0:
            return []
        rows = []
        for _ in range(_DRAWS):
            shares = rng.dirichlet(np.full(k, 2.0))
            codes = rng.choice(k, size=_NEW_ROWS, p=shares)
            index = np.array([rng.choice(places[code]) for code in codes])
            adapted = model.adapt(X[index])
            found = adapted.class_shares_
            low, high = found.interval
            again = np.array([rng.choice(own[code]) for code in rng.choice(k, n_train, p=shares)])
            weights = np.bincount(again, minlength=len(y))
            seen = np.flatnonzero(weights)
            refitted = NaiveBayes().fit(X[seen], y[seen], weights[seen].astype(float))
            briers = [
                _brier(one, X[index], y[index]) if len(one.classes_) == k else np.nan
                for one in (model, adapted, refitted)
            ]
            if np.isfinite(briers).all():
                held = np.mean((low <= shares) & (shares <= high))
                rows.append([held, float(np.mean(high - low)), *briers])
    return rows


def _brier(model: Any, X: Any, y: Any) -> float:
    truth = y[:, None] == model.classes_
    return float(((model.predict_proba(X) - truth) ** 2).sum(axis=1).mean())


def sets_table(
    n_splits: int = 20, sets: Sequence[str] = SETS, say: Callable[[str], None] = print
) -> str:
    """Return how many sets hold the true class, and their mean size, a line per data set."""
    heads = ["coverage", "classes in a set", "by class: least covered class", "classes"]
    return mean_rows(heads, {0, 2}, _covered, n_splits, sets, say)


def _covered(X: Any, y: Any, split: int) -> list[list[float]]:
    order = np.random.default_rng(split).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :][:4_000]
    train = train[:4_000]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NaiveBayes().fit(X[train], y[train])
        truth = y[test][:, None] == model.classes_
        held, by_class = (model.predict_set(X[test], by_class=each) for each in (False, True))
    own = [
        np.mean((by_class & truth).any(axis=1)[member])
        for member in truth.T
        if np.count_nonzero(member) >= 10
    ]
    coverage = np.mean((held & truth).any(axis=1))
    return [[coverage, held.sum(axis=1).mean(), min(own), by_class.sum(axis=1).mean()]]
