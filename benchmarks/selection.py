"""Does ``tradeoff="auto"`` choose well? Its held-out log-loss against the best point of the grid.

The best point is known only afterwards, from the same held-out rows, so the excess is a little
pessimistic. Data sets that scikit-learn brings are always there; others are read from the folder
that ``CROSSFADE_DATA`` names, ``../shared/data`` by default.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from crossfade import NaiveBayes

__all__ = ["TITLE", "excess", "table"]

TITLE = 'the choice of tradeoff="auto"'

_BUNDLED = {"iris": load_iris, "wine": load_wine, "breast-cancer": load_breast_cancer}

_FILES = (
    "ng_jordan/pima.csv",
    "ng_jordan/ionosphere.csv",
    "ng_jordan/house_votes_84.csv",
    "statlog/vehicle.csv",
    "statlog/australian.csv",
)


def data_sets() -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, X, y)."""
    for name, load in _BUNDLED.items():
        X, y = load(return_X_y=True)
        yield name, X, y
    here = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROSSFADE_DATA", here))
    for file in _FILES:
        if (folder / file).exists():
            frame = pl.read_csv(folder / file, infer_schema_length=None)
            yield Path(file).stem, frame.drop("target"), frame["target"].to_numpy()


def excess(X: Any, y: Any, n_splits: int) -> tuple[float, float, float, str]:
    """Return the mean held-out log-loss of "auto", the grid's best, its λ, and what was chosen."""
    splits = StratifiedShuffleSplit(n_splits, train_size=0.5, random_state=0).split(
        np.zeros(len(y)), y
    )
    chosen: list[float] = []
    automatic: list[float] = []
    fixed: list[list[float]] = []
    for train, test in splits:
        model = NaiveBayes().fit(X[train], y[train])
        grid = model.tradeoff_path_["tradeoff"]
        chosen.append(model.tradeoff_)
        automatic.append(_loss(model, X[test], y[test]))
        fits = (NaiveBayes(tradeoff=float(at)).fit(X[train], y[train]) for at in grid)
        fixed.append([_loss(fit, X[test], y[test]) for fit in fits])
    means = np.mean(fixed, axis=0)
    best = int(means.argmin())
    values, counts = np.unique(chosen, return_counts=True)
    often = ", ".join(f"{value:g} ({count})" for value, count in zip(values, counts, strict=True))
    return float(np.mean(automatic)), float(means[best]), float(grid[best]), often


def _loss(model: Any, X: Any, y: Any) -> float:
    return float(log_loss(y, model.predict_proba(X), labels=model.classes_))


def table(n_splits: int = 20) -> str:
    """Return a line a data set."""
    lines = [
        f'held-out log-loss, means of {n_splits} splits in halves, NaiveBayes(tradeoff="auto")',
        "",
        "| data set | rows | auto | best of the grid | at tradeoff | excess | chosen (how often) |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name, X, y in data_sets():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # half of a small table may lack a category
            ours, best, at, often = excess(X, y, n_splits)
        lines.append(
            f"| {name} | {len(y)} | {ours:.4f} | {best:.4f} | {at:g} "
            f"| {100 * (ours / best - 1):+.1f} % | {often} |"
        )
    return "\n".join(lines)
