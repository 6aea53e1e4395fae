"""Do intervals of coefficients and of probabilities hold what they are to hold?

    python -m benchmarks.coverage --draws 400 --store coverage.jsonl
    python -m benchmarks.coverage --only "true 0.5 100" --covariance HC0

Rows are drawn from three classes; three columns are independent Gaussians with one variance in all
classes, which is the model, or skewed, correlated and of variances that differ, which it is not.
"A third labelled" takes the labels of two thirds of the rows away. Rows of a group share .3 of
their variance within a class; there are a fifth as many groups as rows.
Errors are those by leverage ("HC3"), or with `--covariance HC0` those without.
Each fit's 95 % intervals are held against the truth; of a wrong model against what it tends to,
which a fit to very many rows shows. A pool's weights change with the number of rows: where the
model is wrong, its intervals are held against the mean of its own estimates.

Where they hold too rarely, "bias, spread" says why: the estimates' mean distance from the truth and
their standard deviation, in standard errors (0 and 1 would be right).

Each draw is kept in the store, one line, so that a run can be stopped and continued; `--report`
shows what there is. The figure after ± is a standard error: draws are what is independent.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import logit, softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks.store import Store, add_store, run_and_report, say
from crossfade import GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.densities import Multinomial

TITLE = "coverage: standard errors"

_SHARES = np.array([0.5, 0.3, 0.2])
_MEANS = np.array([[0.0, 0.0, 0.0], [0.8, -0.5, 0.3], [-0.4, 0.9, 0.0]])
_WORDS = np.random.default_rng(7).dirichlet(np.full(20, 2.0), size=3)
_WORDS = 0.6 * _WORDS.mean(axis=0) + 0.4 * _WORDS
_HUMPS = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
_POOL = "PooledClassifier"
_N_ROWS = (100, 300, 1_000)
_N_NEW = 40
_MANY_ROWS = 400_000


def table(n_draws: int = 400, say: Callable[[str], None] = print) -> str:
    """Return the share of 95 % intervals that hold, a line per model, tradeoff and row number."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "coverage.jsonl"
        run(store, n_draws, say)
        return report(store)


def run(
    path: Path, n_draws: int, say: Callable[[str], None], only: str = "", errors: str = "HC3"
) -> None:
    """Do the draws that the store lacks."""
    store = Store(path)
    for kind, case in _CASES.items():
        for model in case.models:
            for n_rows in _N_ROWS:
                name = f"{kind} {model} {n_rows}"
                if only not in name:
                    continue
                say(f"coverage {name}")
                for draw in range(n_draws):
                    key = (kind, model, n_rows, errors, draw)
                    if key not in store:
                        store.add(key, [round(float(one), 6) for one in _draw(*key)])


def report(path: Path) -> str:
    """Return the shares by what the store holds, as a Markdown table."""
    cells: dict[tuple[Any, ...], list[list[float]]] = {}
    for (*cell, _), values in Store(path).items():
        cells.setdefault(tuple(cell), []).append(values)
    lines = [
        "| the model is | λ | rows | errors | draws | coefficients | least of them "
        "| bias, spread | probabilities | bias, spread |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (kind, model, n_rows, errors), each in cells.items():
        (held, missed), (sure, unsure) = _held(kind, model, np.array(each))
        coefficients = ["–", "–", "–"]
        if held.size:
            least = f"{100 * held.mean(axis=0).min():.1f} %"
            coefficients = [_share(held.mean(axis=1)), least, missed]
        line = [kind, str(model), f"{n_rows:,}", errors, str(len(each)), *coefficients]
        lines.append(f"| {' | '.join([*line, _share(sure.mean(axis=1)), unsure])} |")
    return "\n".join(lines)


def _share(by_draw: Any) -> str:
    error = by_draw.std(ddof=1) / np.sqrt(by_draw.size) if by_draw.size > 1 else np.nan
    return f"{100 * by_draw.mean():.1f} ± {100 * error:.1f} %"


def _true(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    return _MEANS[y] + rng.normal(size=(n, 3)), y


def _wrong(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    first = rng.gamma(2.0, size=n) * (1.0 + 0.3 * y) + _MEANS[y, 0]
    second = 0.6 * first + rng.normal(size=n) * (1.0 + 0.5 * (y == 1)) + _MEANS[y, 1]
    third = rng.standard_t(5, size=n) + _MEANS[y, 2]
    return np.column_stack([first, second, third]), y


def _model(model: Any, **given: Any) -> Any:
    return NaiveBayes("gaussian", shared_variance=True, tradeoff=model, **given)


def _any_model(model: Any) -> Any:
    if model != _POOL:
        return _model(model)
    members = [("nb", _model(1)), ("lr", LogisticRegression(C=1e6, max_iter=1_000))]
    return PooledClassifier(members)


def _with_unlabelled(model: Any) -> Any:
    weight = "auto" if model == "auto" else 0.5
    return _model(model, unlabelled=-1, unlabelled_weight=weight)


@dataclass(frozen=True)
class Case:
    """What rows are drawn, what is fitted to them, and what it is to find.

    `truth`: From rows to coefficients and probabilities; None where a fit to many rows tells.
    `by_mean`: Whether instead the mean of the estimates does: cells are filled by what 2,000 rows
        tell, however many there are.
    `gaps`: Whether rows that it is used on lack a cell each, which those of fit do not.
    `groups`: From the number of rows to what groups they are of.
    """

    rows: Callable[[int, np.random.Generator], tuple[Any, Any]]
    make: Callable[[Any], Any]
    models: tuple[Any, ...]
    truth: Callable[[Any], tuple[Any, Any]] | None = None
    by_mean: bool = False
    gaps: bool = False
    groups: Callable[[int], Any] | None = None


def _of_five(n: int) -> Any:
    return np.arange(n) // 5


def _of_any_size(n: int) -> Any:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(n // 5))
    return np.unique(rng.choice(n // 5, size=n, p=shares), return_inverse=True)[1]


def _in_groups(groups: Callable[[int], Any]) -> Any:
    def drawn(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        y, own = rng.choice(3, size=n, p=_SHARES), groups(n)
        alike = rng.normal(size=(own.max() + 1, 3))[own]
        return _MEANS[y] + np.sqrt(0.3) * alike + np.sqrt(0.7) * rng.normal(size=(n, 3)), y

    return drawn


def _humps(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    signs = rng.choice([-1.0, 1.0], size=(n, 1))
    return _MEANS[y] + signs * _HUMPS[y] + rng.normal(size=(n, 3)), y


def _posterior_of_humps(new: Any) -> tuple[Any, Any]:
    both = (_MEANS + _HUMPS, _MEANS - _HUMPS)
    halves = [-0.5 * np.nansum((new[:, None] - one) ** 2, axis=2) for one in both]
    return np.zeros(0), softmax(np.logaddexp(*halves) + np.log(_SHARES), axis=1)


def _mixture(model: Any) -> Any:
    return GaussianDiscriminant("shared_diagonal", components=2, tradeoff=model, l2=0.01)


def _documents(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    y = rng.choice(3, size=n, p=_SHARES)
    counts = [rng.multinomial(rng.integers(10, 30), _WORDS[k]) for k in y]
    return csr_array(np.array(counts, dtype=float)), y


def _truth_of_words(new: Any) -> tuple[Any, Any]:
    each = np.column_stack([np.log(_SHARES), np.log(_WORDS)])
    scores = new @ each[:, 1:].T + each[:, 0]
    return (each[1:] - each[0]).ravel(), softmax(scores, axis=1)


def _of_words(model: Any) -> Any:
    return NaiveBayes(Multinomial(alpha=0.01), tradeoff=model, l2=0.01)


def _humps_with_gaps(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X, y = _humps(n, rng)
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), y


def _some_missing(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X, y = _wrong(n, rng)
    return np.where(rng.random(X.shape) < 0.2, np.nan, X), y


def _joint(model: Any) -> Any:
    return GaussianDiscriminant(tradeoff=model)


def _third_labelled(rows: Any) -> Any:
    def drawn(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        X, y = rows(n, rng)
        return X, np.where(np.arange(n) % 3 > 0, -1, y)

    return drawn


def _new(kind: str) -> Any:
    new = _CASES[kind].rows(_N_NEW, np.random.default_rng(1))[0]
    if _CASES[kind].gaps:
        new[np.arange(_N_NEW), np.arange(_N_NEW) % new.shape[1]] = np.nan
    return new


def _draw(kind: str, model: Any, n_rows: int, errors: str, draw: int) -> Any:
    """Return estimates, lower and upper limits of coefficients, and the same of probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = _CASES[kind].rows(n_rows, np.random.default_rng([2, draw]))
        groups = _CASES[kind].groups
        fitted = (
            _CASES[kind].make(model).fit(X, y, groups=None if groups is None else groups(n_rows))
        )
        if errors != "HC3":
            own = fitted._fitted
            fitted._fitted = own.with_errors(own.computed_errors(errors))
        found = list(fitted.predict_proba(_new(kind), interval=0.95))
    if _has_coefficients(fitted):
        said = fitted.summary(covariance=errors)
        found = [said.estimates, said.lower, said.upper, *found]
    return np.concatenate([np.ravel(one) for one in found])


def _held(kind: str, model: Any, draws: Any) -> tuple[Any, Any]:
    """Return which intervals hold, by draw, and why not: of coefficients and of probabilities."""
    n_sure = 3 * _N_NEW * _SHARES.size
    parts = []
    goals = _goals(kind, model)
    for part, goal in zip((draws[:, :-n_sure], draws[:, -n_sure:]), goals, strict=True):
        estimates, low, high = np.moveaxis(part.reshape(len(draws), 3, -1), 1, 0)
        wanted = estimates.mean(axis=0) if goal is None else np.ravel(goal)[: estimates.shape[1]]
        holds = (low <= wanted) & (wanted <= high)
        if len(parts) == 1:  # intervals of probabilities are made on the logit scale
            estimates, low, high, wanted = map(_log_odds, (estimates, low, high, wanted))
        parts.append((holds, _why(estimates, low, high, wanted)))
    return parts[0], parts[1]


def _log_odds(probabilities: Any) -> Any:
    return logit(np.clip(probabilities, 1e-12, 1.0 - 1e-12))


def _why(estimates: Any, low: Any, high: Any, wanted: Any) -> str:
    """Return bias and standard deviation of the estimates, in standard errors."""
    if len(estimates) < 2 or not estimates.size:
        return "–"
    errors = np.sqrt((((high - low) / (2 * norm.ppf(0.975))) ** 2).mean(axis=0))
    bias = np.sqrt((((estimates.mean(axis=0) - wanted) / errors) ** 2).mean())
    return f"{bias:.2f}, {(estimates.std(axis=0, ddof=1) / errors).mean():.2f}"


@cache
def _goals(kind: str, model: Any) -> tuple[Any, Any]:
    """Return what coefficients and probabilities are to be, None for the mean of estimates."""
    case = _CASES[kind]
    if case.truth is not None:
        return case.truth(_new(kind))
    if case.by_mean or model in ("auto", _POOL):
        return None, None
    fitted = case.make(model).fit(*case.rows(_MANY_ROWS, np.random.default_rng(0)))
    coefficients = _estimates(fitted) if _has_coefficients(fitted) else np.zeros(0)
    return coefficients, fitted.predict_proba(_new(kind))


def _has_coefficients(fitted: Any) -> bool:
    return hasattr(fitted, "coef_")


def _truth(new: Any) -> tuple[Any, Any]:
    offsets = np.log(_SHARES) - 0.5 * (_MEANS**2).sum(axis=1)
    scores = np.log(_SHARES) - 0.5 * np.nansum((new[:, None] - _MEANS) ** 2, axis=2)
    posterior = softmax(scores, axis=1)
    coefficients = np.column_stack([offsets, _MEANS])
    return (coefficients[1:] - coefficients[0]).ravel(), posterior


def _estimates(model: Any) -> Any:
    coefficients = np.column_stack([model.intercept_, model.coef_])
    return (coefficients[1:] - coefficients[0]).ravel()


_CASES = {
    "true": Case(_true, _any_model, (0, 0.5, 1, "auto", _POOL), _truth),
    "wrong": Case(_wrong, _any_model, (0, 0.5, 1, "auto", _POOL)),
    "true, new rows with gaps": Case(_true, _any_model, ("auto",), _truth, gaps=True),
    "true, groups of five rows": Case(
        _in_groups(_of_five), _any_model, (0, 0.5, 1, "auto"), _truth, groups=_of_five
    ),
    "true, groups of any size": Case(
        _in_groups(_of_any_size), _any_model, (0, 0.5, 1, "auto"), _truth, groups=_of_any_size
    ),
    "true, a third labelled": Case(
        _third_labelled(_true), _with_unlabelled, (0, 0.5, 1, "auto"), _truth
    ),
    "wrong, a third labelled": Case(_third_labelled(_wrong), _with_unlabelled, (0, 0.5, 1)),
    "wrong, a fifth of cells missing": Case(_some_missing, _joint, (0.5, 1), by_mean=True),
    "true, words": Case(_documents, _of_words, (0.5, 1), _truth_of_words),
    "two humps a class": Case(_humps, _mixture, (0.5, 1, "auto"), _posterior_of_humps),
    "two humps, gaps": Case(_humps_with_gaps, _mixture, (1,), _posterior_of_humps),
}


def main(arguments: list[str] | None = None) -> int:
    """Do the draws and print the table, also of a run that is stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--only", default="", help="lines that hold this: 'true auto 300'")
    parser.add_argument("--covariance", choices=("HC3", "HC0"), default="HC3")
    add_store(parser, "coverage.jsonl")
    options = parser.parse_args(arguments)
    chosen = options.draws, say, options.only, options.covariance
    return run_and_report(options, lambda: run(options.store, *chosen), report)


if __name__ == "__main__":
    sys.exit(main())
