"""Fits of a pool's members: to all rows, to folds, and in words why there is none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV

from crossfade._checks import show
from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.pools.members import (
    fit_argument,
    is_fitted_already,
    is_own,
    probabilities,
    takes_unlabelled,
)
from crossfade.table.rows import rows_at
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows

#: Folds of a training part whose decision values a sigmoid is fitted to.
_SIGMOID_FOLDS: Final = 3


@dataclass(frozen=True)
class PoolRows:
    """A table with labels, as it came and as rows; rows without a label are its last ones.

    `labels`, `groups`, `splits`: Of rows with a label.
    """

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

    def with_others(self, places: Integers) -> PoolRows:
        """Return the same with these of the rows without a label."""
        others, n = self.rows.unlabelled, len(self.labels)
        if others is None:
            return self
        X = rows_at(self.X, np.concatenate([np.arange(n), n + places]))
        return replace(self, X=X, rows=replace(self.rows, unlabelled=others.take(places)))

    def training(self, estimator: Any, index: Integers | None) -> MemberRows:
        """Return what a member is fitted to: rows at these places (all if None).

        Beside them all rows without a label, where the member takes such.
        """
        X, labels, groups, rows = self.X, self.labels, self.groups, self.rows
        others = rows.unlabelled if takes_unlabelled(estimator) else None
        together = None if others is None else others.groups
        n = len(labels)
        if index is None and (rows.unlabelled is not others or not is_own(estimator)):
            # A copy: who knows what a member of others does to its rows.
            index = np.arange(n)
        if index is not None:
            rest = np.arange(0 if others is None else others.X.shape[0])
            X, labels, rows = (
                rows_at(X, np.append(index, n + rest)),
                labels[index],
                rows.take(index),
            )
            groups = None if groups is None else groups[index]
        weights = None if rows.weights is None else rows.weights.copy()
        if others is not None:
            labels = np.append(labels.astype(object), np.full(others.X.shape[0], None))
            if weights is not None or others.weights is not None:
                weights = np.append(rows.often, others.often)
            if groups is not None and together is not None:
                groups = np.append(groups, together)
        if groups is not None:
            groups = np.unique(groups, return_inverse=True)[1]
        model = clone(estimator)
        if others is not None:
            model.set_params(unlabelled="missing")
        return MemberRows(model, X, labels, weights, groups, rows)


class MemberRows(NamedTuple):
    """A member that is not fitted yet, and what it is fitted to; `rows`: Those with a label."""

    model: Any
    X: Any
    labels: NDArray[Any]
    weights: Floats | None
    groups: Integers | None
    rows: LabelledRows


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
    if not found:
        raise DataError(
            "cv: expected splits, got none; a generator gives its splits to one fit only: make a "
            "list of it"
        )
    found = [(train[train >= 0], test[test >= 0]) for train, test in found]
    both = [row for train, test in found for row in np.intersect1d(train, test)[:1]]
    if both:
        raise DataError(
            "cv: expected splits that test other rows than they train on, got one with row "
            f"{kept[both[0]]} in both parts; 5 is the default"
        )
    return found


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
    model, X, labels, weights, groups, _ = data.training(estimator, None)
    try:
        scores = model.fit_out_of_fold(X, labels, weights, groups, fold)
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
                model = fit_member(name, estimator, data, train)
            return probabilities(model, data.X, classes, held)
        except Exception as error:  # whatever a member makes of some rows
            return _in_words(error)


def fit_member(name: str, estimator: Any, data: PoolRows, index: Integers | None) -> Any:
    """Return a copy of the member, fitted to the rows at these positions (all of them if None)."""
    if is_fitted_already(estimator):
        return estimator
    model, X, labels, weights, groups, rows = data.training(estimator, index)
    given: dict[str, Any] = {}
    if weights is not None:
        given |= fit_argument(estimator, "sample_weight", weights, name)
    if groups is not None and groups.max(initial=0) > 0:
        given |= fit_argument(estimator, "groups", groups, None)
    if hasattr(model, "predict_proba"):
        return model.fit(X, labels, **given)
    return _with_sigmoid(model, rows, groups, X, labels, given)


def _with_sigmoid(
    model: Any, rows: LabelledRows, groups: Integers | None, X: Any, labels: Any, given: Any
) -> Any:
    """Return a member with Platt's sigmoid over its decision values on folds.

    Equal rows, and rows of a group, share a fold, or the member would know what it is asked.
    """
    fold = folds(rows, _SIGMOID_FOLDS, groups)
    if fold.min() < 0:
        raise DataError("a sigmoid asks for two rows (or groups) of every class, not equal")
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]
    found = CalibratedClassifierCV(model, cv=splits, ensemble=False)
    if rows.weights is not None:
        given = given | {"sample_weight": rows.weights}  # a pipeline's step has them by its name
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not appear to accept sample_weight")
        found.fit(X, labels, **given)
    return found.set_params(cv=_SIGMOID_FOLDS)  # files need not hold the rows' places


def whole_fit(name: str, estimator: Any, data: PoolRows, index: Integers | None) -> Any:
    """Return a member fitted to these rows (all if None), or in words why there is none."""
    try:
        return fit_member(name, estimator, data, index)
    except Warning:  # an error by the user's own wish
        raise
    except Exception as error:  # whatever a member makes of all rows
        return _in_words(error)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {show(str(error), 200)}"
