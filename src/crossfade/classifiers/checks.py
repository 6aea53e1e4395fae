"""Refusals and looks at the data that several classifier modules share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._checks import check_number, is_missing, show
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.table import check_finite


def check_tradeoff(tradeoff: Any) -> None:
    """Refuse what is no tradeoff."""
    known = isinstance(tradeoff, str) and tradeoff in ("auto", "best")
    number = isinstance(tradeoff, (int, float, np.number)) and not isinstance(tradeoff, bool)
    if not known and not (number and 0.0 <= float(tradeoff) <= 1.0):
        raise DataError(
            f"tradeoff: expected a number from 0 (discriminative) to 1 (generative), 'auto' or "
            f"'best', got {tradeoff!r}; 'auto' pools what lies between, 'best' picks one point"
        )


def check_unlabelled(model: Any) -> None:
    """Refuse a weight of unlabelled rows that is none, and models that do not take such rows."""
    weight = model.unlabelled_weight
    if not (isinstance(weight, str) and weight == "auto"):
        remedy = "'auto' lets held-out labels choose, 1 counts such a row as a labelled one"
        if isinstance(weight, str):
            raise DataError(
                f"unlabelled_weight: expected 'auto' or a number of at least 0, got {weight!r}; "
                f"{remedy}"
            )
        check_number("unlabelled_weight", weight, 0.0, remedy)
    check_marker(model.unlabelled)
    if model.unlabelled is None:
        return
    for name in ("interactions", "thresholds"):
        got = getattr(model, name, None)
        if got is not None:
            raise DataError(
                f"{name}: expected None with unlabelled={model.unlabelled!r}, got {got!r}; give "
                "one of the two"
            )


def check_marker(unlabelled: Any) -> None:
    """Refuse what can mark no row as one without a label."""
    if unlabelled is None:
        return
    if is_missing(unlabelled) or not np.isscalar(unlabelled):
        raise DataError(
            f"unlabelled: expected None, 'missing' or a label, got {show(unlabelled)}; "
            "'missing' treats None, NaN and NA as no label"
        )


def derives_columns(model: Any) -> str | None:
    """Return the name of the parameter by which a model derives columns, None if it does not."""
    names = ("interactions", "thresholds")
    return next((name for name in names if getattr(model, name, None) is not None), None)


def refuse_derived(model: Any) -> None:
    """Refuse to write a fitted model with derived columns as anything but itself."""
    if model._derived is not None:
        raise DataError(
            "estimator: expected a naive Bayes without interactions and thresholds, got one with "
            "derived columns, which have no conversion; write it with save_model"
        )


def refuse_unlabelled(
    parameter: str, name: str, model: Any, remedy: str = "fit such a model by itself"
) -> None:
    """Refuse a model that would learn from rows without a label, where every row has one."""
    given = model.get_params(deep=True) if hasattr(model, "get_params") else {}
    for key, value in given.items():
        if key.split("__")[-1] == "unlabelled" and value is not None:
            raise DataError(
                f"{parameter}: expected models that learn from labelled rows alone, got "
                f"{key}={show(value)} of {name!r}; leave it None, and {remedy}"
            )


def prior_shift(prior: Any, class_weights: Floats, classes: NDArray[Any]) -> Floats | None:
    """Return what a given class prior adds to the log of the data's, None for the data's."""
    shares = class_shares(prior, classes)
    return None if shares is None else np.log(shares) - np.log(class_weights / class_weights.sum())


def class_shares(prior: Any, classes: NDArray[Any]) -> Floats | None:
    """Return the class prior that was given, shape (n_classes,), None for the data's own."""
    labels = classes.tolist()
    k = len(labels)
    if isinstance(prior, str) and prior in ("empirical", "uniform"):
        return None if prior == "empirical" else np.full(k, 1.0 / k)
    given = prior
    if hasattr(prior, "to_dict") and list(prior.index) != list(range(k)):
        prior = prior.to_dict()  # a Series with labels, such as the shares among other rows
    if isinstance(prior, Mapping):
        # Keys that are no labels, or too few of them, are no shares.
        given = [prior.get(label) for label in labels] if len(prior) == k else None
    try:
        shares = np.array(given, dtype=np.float64)  # a copy: the user may write into theirs
        usable = shares.shape == (k,) and np.isfinite(shares).all() and (shares > 0).all()
    except (TypeError, ValueError):
        usable = False
    if not usable or abs(shares.sum() - 1.0) > 1e-6:
        raise DataError(
            f"class_prior: expected 'empirical', 'uniform' or {k} positive shares that sum to 1, "
            f"got {prior!r}; give one share per class, in the order of classes_, or a mapping of "
            f"each label ({', '.join(show(label) for label in labels[:5])}"
            f"{', …' if k > 5 else ''}) to its share"
        )
    return shares


def refuse_cells(values: Floats, matrix: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse the cells of rows for which what was computed from them is NaN."""
    check_finite(matrix, names)
    matrix = matrix[np.isnan(values).reshape(len(matrix), -1).any(axis=1)]
    if not np.nan_to_num(matrix).any():
        return  # the model's own doing, whatever it is
    row, column = np.unravel_index(np.nanargmax(np.abs(matrix)), matrix.shape)
    raise DataError(
        f"X: column {show(names[int(column)])}: expected numbers near enough to those of fit for "
        f"their densities to be computed, got {float(matrix[row, column]):g}; correct the cell, or "
        "make it missing where it is unknown"
    )
