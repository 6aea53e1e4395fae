"""Fits of a pool's members: to all rows, to folds, and in words why there is none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crossfade._checks import show
from crossfade._typing import Integers
from crossfade.errors import DataError
from crossfade.pools.members import fit_member, probabilities
from crossfade.tradeoff.labelled_rows import LabelledRows


@dataclass(frozen=True)
class PoolRows:
    """A table with labels, as it came and as rows."""

    X: Any
    labels: NDArray[Any]
    rows: LabelledRows
    groups: Integers | None
    splits: list[tuple[Integers, Integers]] | None

    def n_rows(self, index: Integers | None) -> float:
        """Return the rows at these positions (all if None), by weight."""
        weights = self.rows.weights
        if weights is None:
            return float(self.rows.n_samples if index is None else index.size)
        return float((weights if index is None else weights[index]).sum())


def splits_of(parts: Sequence[Any], n: int, kept: Integers) -> list[tuple[Integers, Integers]]:
    """Return a user's splits of n rows as positions among those that are kept."""
    place = np.full(n, -1)
    place[kept] = np.arange(kept.size)
    try:
        found = [(place[train], place[test]) for train, test in parts]
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(
            f"cv: expected pairs of positions of rows, train and test, got others ({error}); 5 is "
            "the default"
        ) from None
    return [(train[train >= 0], test[test >= 0]) for train, test in found]


def fold_of(splits: Sequence[tuple[Any, Integers, Integers]], n: int) -> Integers | None:
    """Return each row's fold (-1: never held out), None where splits are no folds."""
    fold = np.full(n, -1)
    for train, held, numbers in splits:
        if train is None or (fold[held] >= 0).any() or len(np.union1d(train, held)) < n:
            return None
        if len(train) + len(held) != n:
            return None
        fold[held] = numbers
    return fold


def on_own_folds(name: str, estimator: Any, data: PoolRows, fold: Integers) -> Any:
    """Return a member fitted to all rows and its probabilities on folds, or why there are none.

    None where it has to be fitted to each fold.
    """
    model, weights = clone(estimator), data.rows.weights
    try:
        scores = model.fit_out_of_fold(data.X, data.labels, weights, data.groups, fold)
    except Warning:  # an error by the user's own wish
        raise
    except Exception as error:  # whatever a member makes of all rows
        return None, _in_words(error)
    return None if scores is None else (model, np.exp(scores))


def out_of_fold(
    name: str, estimator: Any, data: PoolRows, classes: Any, train: Any, held: Integers
) -> Any:
    """Return held-out probabilities, or in words why there are none."""
    with warnings.catch_warnings():
        # The fit to all rows gives these warnings.
        warnings.simplefilter("ignore")
        try:
            model = estimator
            if train is not None:
                weights, groups = data.rows.weights, data.groups
                model = fit_member(name, estimator, data.X, data.labels, weights, groups, train)
            return probabilities(model, data.X, classes, held)
        except Exception as error:  # whatever a member makes of some rows
            return _in_words(error)


def whole_fit(name: str, estimator: Any, data: PoolRows, index: Integers | None) -> Any:
    """Return a member fitted to these rows (all if None), or in words why there is none."""
    weights, groups = data.rows.weights, data.groups
    try:
        return fit_member(name, estimator, data.X, data.labels, weights, groups, index)
    except Warning:  # an error by the user's own wish
        raise
    except Exception as error:  # whatever a member makes of all rows
        return _in_words(error)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {show(str(error), 200)}"
