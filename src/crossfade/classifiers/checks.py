"""Refusals and looks at the data that several classifier modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.errors import DataError
from crossfade.table import encode_labels
from crossfade.tradeoff.labelled_rows import LabelledRows

__all__ = [
    "check_groups",
    "check_tradeoff",
    "has_missing",
    "has_missing_cells",
    "prior_shift",
]


def check_tradeoff(tradeoff: Any) -> None:
    """Refuse what is no tradeoff."""
    known = isinstance(tradeoff, str) and tradeoff in ("auto", "best")
    number = isinstance(tradeoff, (int, float, np.number)) and not isinstance(tradeoff, bool)
    if not known and not (number and 0.0 <= float(tradeoff) <= 1.0):
        raise DataError(
            f"tradeoff: expected a number from 0 (discriminative) to 1 (generative), 'auto' or "
            f"'best', got {tradeoff!r}; 'auto' pools what lies between, 'best' picks one point"
        )


def check_groups(groups: Any, n_samples: int) -> Integers:
    """Return the number of each row's group."""
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise DataError(
            f"groups: expected shape ({n_samples},), got {labels.shape}; give one label a row"
        )
    distinct, codes = encode_labels(labels, minimum=1)
    if distinct.size < 2:
        raise DataError(
            "groups: expected at least two groups, got one; leave groups out if rows are "
            "independent of each other"
        )
    return codes


def prior_shift(prior: str | ArrayLike, class_weights: Floats) -> Floats | None:
    """Return what a given class prior adds to the log of the data's, None for the data's."""
    k = class_weights.size
    if isinstance(prior, str):
        if prior == "empirical":
            return None
        if prior != "uniform":
            raise _bad_prior(k, prior)
        shares = np.full(k, 1.0 / k)
    else:
        shares = np.asarray(prior, dtype=np.float64)
        usable = shares.shape == (k,) and np.isfinite(shares).all() and (shares > 0).all()
        if not usable or abs(shares.sum() - 1.0) > 1e-6:
            raise _bad_prior(k, prior)
    return np.log(shares) - np.log(class_weights / class_weights.sum())


def _bad_prior(k: int, got: Any) -> DataError:
    return DataError(
        f"class_prior: expected 'empirical', 'uniform' or {k} positive shares that sum to 1, got "
        f"{got!r}; give one share a class, in the order of classes_"
    )


def has_missing(rows: LabelledRows, counts: Floats | None) -> bool:
    """Return whether a cell is missing: by the counts where they are exact, else by a look."""
    if counts is not None and rows.weights is None:
        return bool((counts < rows.class_weights[:, None]).any())
    return has_missing_cells(rows.X)


def has_missing_cells(X: NDArray[Any]) -> bool:
    def block(rows: slice) -> float:
        flat = np.ascontiguousarray(X[rows], dtype=np.float64).ravel()
        return float(np.isnan(flat @ flat))

    with np.errstate(over="ignore"):
        return block_sum(block, X.shape[0]) > 0.0
