"""Do class shares and prediction sets keep their word on real tables?

Shares: a model of up to 1,000 rows meets 400 other rows drawn to shares that are known (Dirichlet).
How often do the 95 % intervals hold them, how far off is the estimate (half the sum of absolute
differences), and how far is the Brier score of the adapted model from that of one that was fitted
to rows of these shares? That fit takes long: it is made for the first draw of a split, whose Brier
scores are shown. A second table says how often the test rejects at 5 % where nothing shifted: naive
Bayes of simulated columns, which it takes for independent and normal, and which are not.

    python -m benchmarks --only shares: --sets vehicle sick --scale 0.5

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

_MOST_ROWS, _NEW_ROWS, _DRAWS = 1_000, 400, 10
_LEVEL_ROWS, _LEVEL_NEW = (80, 200, 500), (50, 500)


def shares_table(
    n_splits: int = 4, sets: Sequence[str] = SHARE_SETS, say: Callable[[str], None] = print
) -> str:
    """Return how good intervals, estimates, tests and Brier scores are, a line per data set."""
    heads = ["intervals hold", "width", "shares off as fitted", "adapted"]
    heads += ["Brier score as fitted", "adapted", "fitted to such shares"]
    return mean_rows(heads, {0}, _shifted, n_splits, sets, say)


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
        every.append(np.nanmean(rows, axis=0))
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
        for draw in range(_DRAWS):
            shares = rng.dirichlet(np.full(k, 2.0))
            index = _drawn_to(shares, places, rng)
            adapted = model.adapt(X[index])
            found = adapted.class_shares_
            low, high = found.interval
            off = [float(np.abs(one - shares).sum() / 2) for one in (found.fitted, found.shares)]
            held, width = np.mean((low <= shares) & (shares <= high)), np.mean(high - low)
            briers = [np.nan] * 3
            if draw == 0:
                again = np.concatenate(
                    [
                        rng.choice(own[code], n)
                        for code, n in enumerate(rng.multinomial(n_train, shares))
                    ]
                )
                weights = np.bincount(again, minlength=len(y))
                seen = np.flatnonzero(weights)
                refitted = NaiveBayes().fit(X[seen], y[seen], weights[seen].astype(float))
                if len(refitted.classes_) == k:
                    three = (model, adapted, refitted)
                    briers = [_brier(one, X[index], y[index]) for one in three]
            rows.append([held, width, *off, *briers])
    return rows


def _drawn_to(shares: Any, places: Any, rng: Any) -> Any:
    codes = rng.choice(len(shares), size=_NEW_ROWS, p=shares)
    return np.array([rng.choice(places[code]) for code in codes])


def level_table(n_draws: int = 200) -> str:
    """Return how often the test rejects where nothing shifted, a line per number of classes."""
    heads = [f"{m} rows of fit, {n} new" for m in _LEVEL_ROWS for n in _LEVEL_NEW]
    lines = [f"| classes | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for k in (2, 3, 5):
        cells = []
        for m in _LEVEL_ROWS:
            draws = [
                _p_values(k, m, np.random.default_rng([k, m, draw])) for draw in range(n_draws)
            ]
            cells += [f"{100 * one:.1f} %" for one in (np.array(draws) <= 0.05).mean(axis=0)]
        lines.append(f"| {k} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _p_values(k: int, m: int, rng: Any) -> list[float]:
    centres = np.random.default_rng(5).normal(size=(k, 4))

    def drawn(n: int) -> tuple[Any, Any]:
        y = rng.choice(k, size=n)
        X = np.sinh(centres[y] + rng.normal(size=(n, 4)))
        return X + 0.7 * np.roll(X, 1, axis=1), y

    X, y = drawn(m)
    model = NaiveBayes("gaussian", tradeoff=1).fit(X, y)
    return [model.adapt(drawn(n)[0]).class_shares_.p_value for n in _LEVEL_NEW]


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
