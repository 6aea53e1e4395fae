"""The main job against the three references alone: how much longer is a whole comparison?

A default comparison (all models, up to 20 splits, learning curve) beside logistic regression,
random forest and gradient boosting alone on the same 20 splits, in the same run and by the same
machinery. Data sets are read from the folder that ``CROSSFADE_DATA`` names.

:func:`fits_table` says what one fit of each default model costs beside a logistic regression with
its penalty chosen, in processor time of the same run.

The third table says what it costs to stop early: how often would all twenty splits have said
otherwise? Its scores are drawn, so that the answer is known: models with gaps and spreads of their
own, every split's scores Gaussian around them.
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

from crossfade import compare
from crossfade.comparison.models import affordable, default_models, own_models
from crossfade.comparison.problem import read_problem
from crossfade.comparison.references import references
from crossfade.comparison.stopping import needed_splits
from crossfade.evaluation.scores import difference

TITLE = "compare: the default comparison against the references alone"
FITS_TITLE = "auto: one fit of each default model against logistic regression"

_FILES = {
    "titanic": "mixed/titanic.csv",
    "credit_g": "mixed/credit_g.csv",
    "horse_colic": "mixed/horse_colic.csv",
    "hepatitis": "mixed/hepatitis.csv",
    "house_votes_84": "ng_jordan/house_votes_84.csv",
    "lymphography": "ng_jordan/lymphography.csv",
    "promoters": "ng_jordan/promoters.csv",
    "sonar": "ng_jordan/sonar.csv",
    "optdigits": "ng_jordan/optdigits.csv",
    "vehicle": "statlog/vehicle.csv",
    "satimage": "statlog/satimage.csv",
    "sick": "ng_jordan/sick.csv",
    "adult": "ng_jordan/adult.csv.gz",
}

SETS = tuple(_FILES)

_TEST_TO_TRAIN = 0.25


def table(
    sets: Sequence[str] = SETS, n_splits: int = 20, say: Callable[[str], None] = print
) -> str:
    """Return the times, a line per data set, and the median of their ratios."""
    lines = [
        "| data set | rows × columns | references, s | comparison, s | ratio | "
        "splits per model | first row, s | best |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    ratios = []
    for name in sets:
        found = read_set(name)
        if found is None:
            lines.append(f"| {name} | not in CROSSFADE_DATA | | | | | | |")
            continue
        X, y = found
        say(name)
        three = references()
        three.pop("majority class")
        alone, _, _ = _timed(X, y, models=three, n_splits=n_splits, stop_early=False)
        whole, first, result = _timed(X, y, n_splits=n_splits)
        numbers = [model.n_splits for model in result.models if model.failure is None]
        ratios.append(whole / alone)
        ended = f"{min(numbers)}-{max(numbers)}"
        lines.append(
            f"| {name} | {len(y):,} × {X.shape[1]} | {alone:.1f} | {whole:.1f} | "
            f"**{ratios[-1]:.2f}** | {ended} | {first:.1f} | {result.best} |"
        )
        say(lines[-1])
    if ratios:
        lines.append(f"\nmedian ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
    return "\n".join(lines)


def _timed(X: Any, y: Any, **settings: Any) -> tuple[float, float, Any]:
    """Return the seconds of a comparison, those until its first row, and the result."""
    rows: list[float] = []

    def watch(status: Any) -> None:
        if status.done and not rows:
            rows.append(status.seconds)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = perf_counter()
        result = compare(X, y, evidence=False, watch=watch, **settings)
        return perf_counter() - start, rows[0], result


def read_set(name: str) -> tuple[Any, Any] | None:
    if name not in _FILES:
        raise SystemExit(f"--sets: expected some of {', '.join(SETS)}, got {name!r}")
    path = Path(os.environ.get("CROSSFADE_DATA", "")) / _FILES[name]
    if not path.exists():
        return None
    frame = pl.read_csv(path, infer_schema_length=None)
    kept = frame.filter(pl.col("target").is_not_null())
    return kept.drop("target"), kept["target"].to_numpy()


# -- single fits ---------------------------------------------------------------------------------


def fits_table(
    sets: Sequence[str] = SETS, rounds: int = 3, say: Callable[[str], None] = print
) -> str:
    """Return each default model's processor time as a multiple of logistic regression's."""
    names = [*own_models()]
    lines = [
        f"| data set | logistic regression, s | {' | '.join(names)} |",
        f"|---|---:|{'---:|' * len(names)}",
    ]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for name in sets:
        found = read_set(name)
        if found is None:
            continue
        say(name)
        X, y = found
        problem = read_problem(X, y)
        kinds, n_classes = problem.data.column_kinds, len(problem.data.classes)
        models, _ = affordable(default_models(), kinds, n_classes)
        train = np.random.default_rng(0).permutation(len(y))[: round(0.8 * len(y))]
        seconds = {
            label: _fit_seconds(model, X[train], y[train], rounds)
            for label, model in models.items()
            if label in names or label == "logistic regression"
        }
        base = seconds["logistic regression"]
        cells = []
        for label in names:
            if label in seconds:
                ratios[label].append(seconds[label] / base)
            cells.append(f"{seconds[label] / base:.2f}" if label in seconds else "left out")
        lines.append(f"| {name} | {base:.2f} | {' | '.join(cells)} |")
    for title, summary in (("median", statistics.median), ("largest", max)):
        cells = [f"{summary(ratios[label]):.2f}" if ratios[label] else "" for label in names]
        lines.append(f"| **{title}** | | {' | '.join(cells)} |")
    return "\n".join(lines)


def _fit_seconds(model: Any, X: Any, y: Any, rounds: int) -> float:
    """Return the median processor time of a fit; the first, which may compile, does not count."""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds + 1):
            start = process_time()
            clone(model).fit(X, y)
            seconds.append(process_time() - start)
    return statistics.median(seconds[1:])


# -- stopping early ------------------------------------------------------------------------------


def stopping_table(n_runs: int = 500, n_splits: int = 20, seed: int = 0) -> str:
    """Return how often all splits would have said otherwise, and what is saved."""
    lines = [
        "| models | gaps, in deviations | another best | best not among the first "
        "| a model's place differs | splits saved |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    rng = np.random.default_rng(seed)
    for n_models in (3, 6, 13):
        for gaps in (0.5, 1.0, 3.0):
            runs = np.mean([_one_run(rng, n_models, gaps, n_splits) for _ in range(n_runs)], axis=0)
            cells = " | ".join(f"{100 * value:.1f} %" for value in runs)
            lines.append(f"| {n_models} | {gaps:g} | {cells} |")
    return "\n".join(lines)


def _one_run(
    rng: np.random.Generator, n_models: int, gaps: float, n_splits: int
) -> tuple[float, float, float, float]:
    spreads = rng.gamma(2.0, 0.5, n_models)
    means = gaps * np.abs(rng.normal(size=n_models))
    drawn = rng.normal(size=(n_splits, n_models)) * spreads + means + rng.normal(size=(n_splits, 1))
    scores = {str(k): drawn[:, k] for k in range(n_models)}
    need = needed_splits(scores, n_splits, _TEST_TO_TRAIN)
    early, late = _verdict(scores, need), _verdict(scores, dict.fromkeys(scores, n_splits))
    places = len(early[1] ^ late[1]) / n_models
    saved = 1 - sum(need.values()) / (n_splits * n_models)
    return float(early[0] != late[0]), float(early[0] not in late[1]), places, saved


def _verdict(scores: dict[str, Any], number: dict[str, int]) -> tuple[str, frozenset[str]]:
    """Return the best model, and those that cannot be told apart from it."""
    most = max(number.values())
    front = [name for name in scores if number[name] == most]
    best = min(front, key=lambda name: float(np.mean(scores[name][:most])))
    tied = {best}
    for name in scores:
        if name != best:
            n = number[name]
            gap = difference(scores[name][:n], scores[best][:n], _TEST_TO_TRAIN)
            tied |= set() if gap.excludes_zero else {name}
    return best, frozenset(tied)
