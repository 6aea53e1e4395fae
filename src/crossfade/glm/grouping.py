"""From rows by subject to covariate classes.

Observations that share their covariates are one row (m_i trials, y_i successes) as far as the
coefficients are concerned: the two log-likelihoods differ by Σ log C(m_i, y_i), which has no β in
it, so estimate and covariance are the same (Sarkar, Lecture 14, table 14.1). The deviance is not:
it compares with a model that has one parameter per row, and there are fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block
from crossfade.errors import DataError
from crossfade.glm.checks import check_labels, check_successes, check_trials
from crossfade.glm.kernels import count_rows
from crossfade.table.columns import Columns, read_columns

#: Distinct rows that counting is ready for at first: its table then stays in cache.
_CAPACITY = 1 << 10


@dataclass(frozen=True)
class Collapsed:
    """Covariate classes.

    Attributes
    ----------
    X : data frame or ndarray of shape (n_classes, n_features)
        The distinct rows in order of appearance, of the kind that was given.
    successes, trials : ndarray of shape (n_classes,), int64
    labels : ndarray of shape (2,) or None
        Failure and success, where labels were given.
    log_combinations : float
        Σ log C(m_i, y_i): the grouped log-likelihood minus that of single trials, for every
        model of these columns.

    Examples
    --------
    >>> from crossfade.glm import BinomialRegression, collapse
    >>> rows = collapse([[1, 1], [1, 2], [1, 1], [2, 1], [1, 1]], [1, 0, 1, 1, 0])
    >>> rows.X.tolist(), rows.trials.tolist(), rows.successes.tolist()
    ([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]], [3, 1, 1], [2, 0, 1])
    """

    X: Any
    successes: Integers
    trials: Integers
    labels: NDArray[Any] | None
    log_combinations: float


def collapse(X: Any, y: Any, *, trials: ArrayLike | None = None) -> Collapsed:
    """Group rows with equal covariates: numbers of trials and successes for each.

    Parameters
    ----------
    X : data frame or array-like of shape (n_rows, n_features)
        Covariates, numbers or (in frames) text. None missing.
    y : array-like of shape (n_rows,)
        Labels of two kinds; with `trials`, successes.
    trials : array-like of shape (n_rows,), optional
        For rows that are grouped in part already.

    Returns
    -------
    Collapsed
        ``fit(rows.X, rows.successes, trials=rows.trials)`` has the coefficients and covariance
        of the fit to the single rows. Its log-likelihood is larger by ``log_combinations``, the
        same for every model, so that likelihood ratios agree; deviance and residual degrees of
        freedom are those of the grouped view, in which goodness of fit can be judged.

    Raises
    ------
    DataError
        If a cell is missing, or the labels are not of two kinds.

    Examples
    --------
    >>> from crossfade.glm import collapse
    >>> rows = collapse([[1, 1], [1, 2], [1, 1]], [1, 0, 0])
    >>> rows.X.tolist(), rows.trials.tolist(), rows.successes.tolist()
    ([[1.0, 1.0], [1.0, 2.0]], [2, 1], [1, 0])
    """
    columns = read_columns(X)
    n_rows = columns.n_rows
    labels: NDArray[Any] | None = None
    if trials is None:
        labels, successes = _successes(y, n_rows)
        occasions = np.zeros(0)
    else:
        occasions = check_trials(trials, n_rows)
        successes = check_successes(y, occasions)
    matrix = _matrix(columns)
    if matrix is None:
        first, done, of = _by_codes(columns, successes, occasions)
    else:
        first, done, of = _by_value(matrix, columns, successes, occasions)
    gammaln = scipy.special.gammaln
    combinations = gammaln(of + 1.0) - gammaln(done + 1.0) - gammaln(of - done + 1.0)
    return Collapsed(
        _rows(X, matrix, first),
        np.rint(done).astype(np.int64),
        np.rint(of).astype(np.int64),
        labels,
        float(combinations.sum()),
    )


def _successes(y: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels and 1 for the second of them; numbers 0 and 1 are taken as they are."""
    array = y if isinstance(y, np.ndarray) else None
    if array is not None and array.shape == (n_rows,) and array.dtype.kind in "biuf":
        ones = np.count_nonzero(array)
        # As many non-zeros as their sum, and none elsewhere: all of them are 1.
        if 0 < ones < n_rows and array.max() == 1 and array.min() == 0 and array.sum() == ones:
            labels = np.array([0, 1]).astype(array.dtype)
            return labels, array
    return check_labels(y, n_rows)


def _matrix(columns: Columns) -> NDArray[Any] | None:
    """Return tables of numbers as one array in C order, others as None."""
    if columns.matrix is not None:
        matrix = columns.matrix
        kind = None if matrix.dtype.kind == "f" else np.float64
        return np.ascontiguousarray(matrix, dtype=kind)
    if any(column.numbers is None for column in columns.columns):
        return None
    numbers = [np.asarray(column.numbers, dtype=np.float64) for column in columns.columns]
    return np.column_stack(numbers)


def _by_value(
    X: NDArray[Any], columns: Columns, successes: NDArray[Any], trials: Floats
) -> tuple[Integers, Floats, Floats]:
    """Count rows chunk by chunk, then count the chunks' distinct rows."""
    n_rows = len(X)
    size = max(-(-n_rows // 16), 4096)
    found: dict[int, tuple[Integers, Floats]] = {}

    def work(rows: slice) -> None:
        found[rows.start] = _count(
            X[rows],
            columns,
            successes[rows].astype(np.float64),
            trials[rows] if len(trials) else trials,
        )

    for_each_block(work, n_rows, block_rows=size)
    starts = sorted(found)
    first = np.concatenate([found[start][0] + start for start in starts])
    sums = np.concatenate([found[start][1] for start in starts])
    if len(starts) > 1:
        again, totals = _count(
            np.ascontiguousarray(X[first]),
            columns,
            np.ascontiguousarray(sums[:, 0]),
            np.ascontiguousarray(sums[:, 1]),
        )
        first, sums = first[again], totals
    return first, sums[:, 0], sums[:, 1]


def _count(
    X: NDArray[Any], columns: Columns, successes: Floats, trials: Floats
) -> tuple[Integers, Floats]:
    capacity = min(_CAPACITY, len(X))
    while True:
        table = np.empty(1 << int(2 * capacity).bit_length(), dtype=np.int32)
        first = np.empty(capacity, dtype=np.int64)
        sums = np.empty((capacity, 2))
        distinct = count_rows(X, successes, trials, table, first, sums)
        if distinct == -2:
            column = int(np.flatnonzero(np.isnan(X).any(axis=0))[0])
            raise DataError(
                f"{columns.where(column)}: expected a number in every cell, got NaN; drop those "
                "rows"
            )
        if distinct >= 0:
            return first[:distinct], sums[:distinct]
        capacity = min(16 * capacity, len(X))


def _by_codes(
    columns: Columns, successes: NDArray[Any], trials: Floats
) -> tuple[Integers, Floats, Floats]:
    """Count rows of tables that hold text, by the codes of their cells."""
    codes = []
    for column in columns.columns:
        _, coded = column.factorised
        if (coded < 0).any():
            raise DataError(
                f"{column.where}: expected a value in every cell, got {int((coded < 0).sum())} "
                "missing; drop those rows"
            )
        codes.append(coded)
    matrix = np.ascontiguousarray(np.column_stack(codes), dtype=np.float64)
    return _by_value(matrix, columns, successes, trials)


def _rows(X: Any, matrix: NDArray[Any] | None, first: Integers) -> Any:
    if nw.dependencies.is_into_dataframe(X):
        return nw.from_native(X, eager_only=True)[first.tolist(), :].to_native()
    if matrix is None:
        return np.asarray(X, dtype=object)[first]
    return matrix[first]
