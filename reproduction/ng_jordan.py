"""Ng & Jordan (2001), Figure 1: naive Bayes and logistic regression on fifteen problems.

Test error against the number of training rows m, averaged over random splits; continuous inputs
scaled to [0, 1] with variances shared by the classes, discrete ones with l = 1. Where the paper's
text leaves something open:

- Logistic regression has a slight penalty: small training sets are separable, and its maximum
  would be at infinity.
- A missing cell of a discrete column is a category of its own ("neither yea nor nay" in voting).
- adult is a random part of its rows. lymphography is its two large classes, lenses is hard against
  soft: with at most two rows of either class to test on, it shows little.
- Training sets hold every class, and in the proportions of all rows.

The paper's theory is about the linear classifier of least training error, which it does not fit.
With ``--zero-one`` it takes part: as near as a local search comes, and a hundred times as slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from crossfade._typing import Floats
from crossfade.classifiers import NaiveBayes
from crossfade.errors import DataError
from crossfade.evaluation import LearningCurve, learning_curve
from crossfade.theory import ZeroOneLinearClassifier
from reproduction.base import Experiment, Outcome, Section, Settings, mean_and_error, records, short
from reproduction.data import Source, Table, read_source
from reproduction.trials import generator

COLUMNS: Final = ("problem", "m", "model", "error", "standard_error")

NAIVE_BAYES, LOGISTIC, ZERO_ONE = "naive Bayes", "logistic regression", "least training error"

#: Largest share of the rows to train on, number of sizes, and rows at most.
_TRAIN_SHARE, _N_SIZES, _MOST_ROWS = 0.8, 12, 4_000

#: Floor of the shared variances as a share of each column's own, and the penalty.
_VARIANCE_FLOOR, _L2 = 1e-3, 1e-2


@dataclass(frozen=True)
class Problem:
    """Two classes and their inputs.

    Attributes
    ----------
    name : str
    source : Source
    columns : {"numeric", "nominal", "all"}
        Which columns are inputs.
    continuous : bool
        Whether they are numbers; else categories.
    classes : tuple of tuple of str, optional
        The two classes, each by the names it goes by; by default the two that there are.
    answer : str, optional
        A numeric column that the classes are made of: above its median or not.
    """

    name: str
    source: Source
    columns: Literal["numeric", "nominal", "all"]
    continuous: bool
    classes: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    answer: str | None = None


def _digits(first: str, second: str) -> Problem:
    return Problem(
        f"optdigits {first}/{second}",
        Source("optdigits", "optdigits"),
        "numeric",
        True,
        ((first,), (second,)),
    )


PROBLEMS: Final = (
    Problem("pima", Source("pima", "diabetes"), "numeric", True),
    Problem("adult, continuous", Source("adult", "adult", 2), "numeric", True),
    Problem("boston", Source("boston", "boston"), "numeric", True, answer="medv"),
    _digits("0", "1"),
    _digits("2", "3"),
    Problem("ionosphere", Source("ionosphere", "ionosphere"), "numeric", True),
    Problem("liver", Source("liver", "liver-disorders", target="selector"), "numeric", True),
    Problem("sonar", Source("sonar", "sonar"), "numeric", True),
    Problem("adult, discrete", Source("adult", "adult", 2), "nominal", False),
    Problem("promoters", Source("promoters", "molecular-biology_promoters"), "all", False),
    Problem(
        "lymphography",
        Source("lymphography", "lymph"),
        "all",
        False,
        (("metastases",), ("malign_lymph",)),
    ),
    Problem("breast cancer", Source("breast_cancer", "breast-cancer"), "all", False),
    Problem("lenses", Source("lenses", "lenses"), "all", False, (("hard", "1"), ("soft", "2"))),
    Problem("sick", Source("sick", "sick"), "nominal", False),
    Problem("voting", Source("house_votes_84", "vote"), "all", False),
)


def run(settings: Settings) -> Outcome:
    """Trace both curves on every problem."""
    curves: dict[str, LearningCurve] = {}
    total = settings.repeats * len(PROBLEMS)
    for number, problem in enumerate(PROBLEMS):
        table = read_source(problem.source, settings.data)
        X, y = inputs(problem, table, generator(settings.seed, number))
        curves[problem.name] = learning_curve(
            X,
            y,
            models=models(problem) | (zero_one(problem) if settings.zero_one else {}),
            train_sizes=sizes(y),
            n_splits=settings.repeats,
            train_size=_n_train(y),
            random_state=settings.seed,
            progress=_shifted(settings, number * settings.repeats, total, problem.name),
        )
        if not curves[problem.name].complete:
            raise KeyboardInterrupt
    return _outcome(curves, settings)


def _shifted(settings: Settings, before: int, total: int, text: str) -> Any:
    if settings.progress is None:
        return None
    report = settings.progress
    return lambda done, _total, _text: report(before + done, total, text)


def models(problem: Problem) -> dict[str, NaiveBayes]:
    """Return both ends of naive Bayes for a problem."""
    density = "gaussian" if problem.continuous else "categorical"
    return {
        name: NaiveBayes(
            density,
            tradeoff=end,
            shared_variance=True,
            var_smoothing=_VARIANCE_FLOOR,
            alpha=1.0,
            l2=_L2,
        )
        for name, end in ((NAIVE_BAYES, 1.0), (LOGISTIC, 0.0))
    }


def zero_one(problem: Problem) -> dict[str, Any]:
    """Return the linear classifier of least training error, on an indicator for each category."""
    search = ZeroOneLinearClassifier(n_restarts=0)
    if problem.continuous:
        return {ZERO_ONE: search}
    indicators = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return {ZERO_ONE: make_pipeline(indicators, search)}


def inputs(
    problem: Problem, table: Table, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """Return a problem's rows, scaled to [0, 1] or as codes of categories, and its classes."""
    X = table.columns(problem.columns)
    if problem.answer is not None:
        answer = table.column(problem.answer)
        own = [j for j, name in enumerate(table.names) if name.lower() == problem.answer]
        if answer is None:
            answer = np.asarray(table.target, dtype=np.float64)
        elif own:
            numeric = np.cumsum(~table.nominal) - 1
            X = np.delete(X, numeric[own], axis=1)
        y = (answer > np.median(answer)).astype(np.int64)
    else:
        y = _classes(problem, table.target)
    kept = y >= 0
    X, y = X[kept], y[kept]
    if y.size > _MOST_ROWS:
        part = np.sort(rng.choice(y.size, _MOST_ROWS, replace=False))
        X, y = X[part], y[part]
    return (_scaled(X) if problem.continuous else _coded(X)), y


def _classes(problem: Problem, target: NDArray[Any]) -> NDArray[np.int64]:
    """Return 0 and 1 for the two classes, -1 for rows of neither."""
    words = target.astype(str)
    named = problem.classes
    if named is None:
        present = np.unique(words)
        if present.size != 2:
            raise DataError(
                f"data: expected two classes in {problem.source.file!r}, got {present.size}; "
                "check its column 'target'"
            )
        named = ((str(present[0]),), (str(present[1]),))
    codes = np.where(np.isin(words, named[0]), 0, np.where(np.isin(words, named[1]), 1, -1))
    if not ((codes == 0).any() and (codes == 1).any()):
        raise DataError(
            f"data: expected the classes {named[0][0]!r} and {named[1][0]!r} in "
            f"{problem.source.file!r}, got {', '.join(np.unique(words)[:6].tolist())}; check its "
            "column 'target'"
        )
    return codes.astype(np.int64)


def _scaled(X: Floats) -> Floats:
    """Return columns scaled to [0, 1]; those that do not vary are left out."""
    low, high = X.min(axis=0), X.max(axis=0)
    varies = high > low
    return np.ascontiguousarray(((X - low) / np.where(varies, high - low, 1.0))[:, varies])


def _coded(X: Floats) -> Floats:
    """Return categories as codes 0 … L-1, missing cells as one more; constant columns left out."""
    coded = np.empty_like(X)
    for j in range(X.shape[1]):
        coded[:, j] = np.unique(np.nan_to_num(X[:, j], nan=np.inf), return_inverse=True)[1]
    return np.ascontiguousarray(coded[:, coded.max(axis=0) > 0])


def _n_train(y: NDArray[np.int64]) -> int:
    return min(int(_TRAIN_SHARE * y.size), y.size - 2)


def sizes(y: NDArray[np.int64]) -> tuple[int, ...]:
    """Return training sizes evenly spaced in their logarithm, from two rows per class on."""
    each = np.rint(np.geomspace(4, _n_train(y), _N_SIZES)).astype(int)
    return tuple(int(m) for m in np.unique(each))


# -- what it came to -----------------------------------------------------------------------------


def _outcome(curves: Mapping[str, LearningCurve], settings: Settings) -> Outcome:
    rows: list[dict[str, Any]] = []
    lines = []
    regimes: dict[str, list[str]] = {"both": [], "generative": [], "discriminative": []}
    crossings = {}
    for problem, curve in curves.items():
        for model in curve.models:
            errors = curve.scores[model]["error"]
            for m, column in zip(curve.sizes, errors.T, strict=True):
                cells = (problem, m, model, *mean_and_error(column))
                rows.append(dict(zip(COLUMNS, cells, strict=True)))
        regime, crossing = _regime(curve)
        regimes[regime].append(problem)
        crossings[problem] = crossing
        lines.append((problem, *_summary(curve, NAIVE_BAYES, LOGISTIC), crossing["text"]))
    columns = ("problem", "m", "smallest", "middle", "largest")
    tables = [
        Section(
            "Test error of naive Bayes and of logistic regression at three training sizes m",
            (*columns, "they cross (95 %)"),
            tuple(lines),
        )
    ]
    if settings.zero_one:
        third = ((problem, *_summary(curve, ZERO_ONE)) for problem, curve in curves.items())
        title = "Test error of the linear classifier of least training error"
        tables.append(Section(title, columns, tuple(third)))
    findings = (
        f"Both regimes, naive Bayes first: {_listed(regimes['both'])}.",
        f"Naive Bayes ahead at every size or at the end: {_listed(regimes['generative'])}.",
        f"Logistic regression ahead at every size: {_listed(regimes['discriminative'])}.",
    )
    facts = {
        "regimes": regimes,
        "crossings": {p: {k: v for k, v in c.items() if k != "text"} for p, c in crossings.items()},
        "penalty": _L2,
        "variance_floor": _VARIANCE_FLOOR,
        "most_rows": _MOST_ROWS,
    }
    return Outcome(
        COLUMNS, records(rows, COLUMNS), tuple(tables), findings, partial(_chart, rows), facts
    )


def _listed(names: list[str]) -> str:
    return f"{len(names)} of {len(PROBLEMS)}" + (f" ({'; '.join(names)})" if names else "")


def _regime(curve: LearningCurve) -> tuple[str, dict[str, Any]]:
    """Return which regimes are seen, and the crossing."""
    from crossfade.evaluation.crossing import find_crossing

    generative, discriminative = (curve.scores[m]["error"] for m in (NAIVE_BAYES, LOGISTIC))
    found = find_crossing(generative, discriminative, curve.sizes, curve.ratio, curve.random_state)
    facts = found.to_dict()
    if found.size is not None:
        low = "" if found.low is None else f"{found.low:.0f}"
        high = "" if found.high is None else f"{found.high:.0f}"
        return "both", {**facts, "text": f"{found.size:.0f} ({low}…{high})"}
    kind = "generative" if found.status == "not seen" else "discriminative"
    return kind, {**facts, "text": "not seen" if kind == "generative" else "before"}


def _summary(curve: LearningCurve, *models: str) -> tuple[str, ...]:
    """Return three sizes, and the models' errors at each."""
    at = (0, len(curve.sizes) // 2, len(curve.sizes) - 1)
    means = [curve.scores[m]["error"].mean(axis=0) for m in models]
    chosen = " ".join(str(curve.sizes[s]) for s in at)
    return chosen, *(" ".join(short(mean[s]) for mean in means) for s in at)


def _chart(rows: list[dict[str, Any]]) -> Any:
    from reproduction.charts import learning_curves_chart

    return learning_curves_chart(rows)


EXPERIMENT: Final = Experiment(
    name="ng-jordan",
    source="Ng & Jordan (2001), Figure 1",
    question="Where naive Bayes leads with few rows and logistic regression with many.",
    repeats=1000,
    unit="splits",
    minutes=1.0,
    run=run,
    has_zero_one=True,
)
