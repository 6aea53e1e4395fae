"""What a fitted pool shows of itself: the table of its members, and their weights with errors."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from crossfade._typing import Progress
from crossfade.inference.summary import Summary, html_table, wald_columns

if TYPE_CHECKING:
    from crossfade.pools.pooled import PooledClassifier

_LOSSES: Final = ("log_loss", "brier", "error")


def said_on_stderr() -> Progress:
    """Return what says in a line on stderr which fit begins, and how long all may take still."""
    begun = perf_counter()

    def say(done: int, total: int, text: str) -> None:
        seconds = perf_counter() - begun
        left = f", about {seconds * (total - done) / done:.0f} s left" if done else ""
        line = f"pool: {seconds:.0f} s{left} · fit {min(done + 1, total)} of {total}, {text}"
        print(line, file=sys.stderr, flush=True)

    return say


def pool_table(pool: PooledClassifier) -> str:
    """Return the members' weights, losses and gains as a table of HTML."""
    head = ["", "weight", *_LOSSES, "loss without it"]
    rows = [[name, f"{w:.3f}", *_cells(pool, name)] for name, w in pool.weights_.items()]
    own = [f"{pool.pool_losses_.get(key, np.nan):.4f}" for key in _LOSSES]
    rows.append([f"{pool.pooling_} pool", "", *own, ""])
    return html_table([head, *rows])


def _cells(pool: PooledClassifier, name: str) -> list[str]:
    if name in pool.left_out_:
        return [f"left out: {pool.left_out_[name]}", "", "", ""]
    losses = pool.member_losses_.get(name, {})
    found = [f"{losses.get(key, np.nan):.4f}" for key in _LOSSES]
    return [*found, f"{pool.gains_[name]:+z.4f}" if name in pool.gains_ else ""]


def weights_summary(pool: PooledClassifier, level: float) -> Summary:
    """Return the weights with the standard errors of their equations."""
    names = [name for name in pool.weights_ if name not in pool.left_out_]
    estimates = np.array([pool.weights_[name] for name in names])
    covariance, n_rows = pool._weights_errors
    if pool.weights_by_class_ is not None:
        labels = pool.classes_.tolist()
        estimates = np.concatenate([pool.weights_by_class_[name] for name in names])
        names = [f"{name}: {label}" for name in names for label in labels]
    spread = np.full(estimates.size, np.nan)
    if covariance is not None:
        # What is negligible in a pool is left out of it: no weight, no error.
        spread = np.where(estimates > 0.0, np.sqrt(np.diagonal(covariance)), np.nan)
    columns = wald_columns(estimates, spread, level)
    # No weight is below zero, and none of a linear pool above one.
    columns["lower"] = np.maximum(columns["lower"], 0.0)
    if pool.pooling_ == "linear":
        columns["upper"] = np.minimum(columns["upper"], 1.0)
    notes = [
        "Standard errors: sandwich of the equations of the weights, for held-out probabilities "
        "of members taken as they are."
    ]
    if covariance is None:
        notes = [
            "No standard errors: expected more held-out rows, or groups of rows, than weights; add "
            "rows, or take fewer members."
        ]
    if (estimates == 0.0).any():
        notes.append("A weight of zero is on the edge of what weights can be: it has no error.")
    return Summary(
        title=f"{type(pool).__name__}: weights of a {pool.pooling_} pool",
        facts=(
            ("held-out rows", f"{n_rows:g}"),
            ("log-loss of the pool", f"{pool.pool_losses_.get('log_loss', np.nan):.4f}"),
        ),
        names=tuple(names),
        **columns,
        level=level,
        statistic_name="z",
        notes=tuple(notes),
    )
