"""What responses, trials, exposures and offsets must be; every refusal says what to do."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from crossfade._checks import counted, show
from crossfade._typing import Floats
from crossfade.errors import DataError, IgnoredRowsWarning
from crossfade.table import encode_labels

#: The largest count: every whole number up to it is a double.
_MOST = 2.0**53


def numbers(name: str, values: Any, n_rows: int) -> Floats:
    """Return one finite number per row, never writing to the argument."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise DataError(
            f"{name}: expected numbers, got {show(values)}; give one number per row"
        ) from None
    if array.ndim == 2 and array.shape[1] == 1:
        if name == "y":
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples,), for example using ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
        array = array[:, 0]
    if array.ndim == 0 and name != "y":
        array = np.full(n_rows, float(array))
    if array.ndim != 1:
        raise DataError(
            f"{name}: y should be a 1d array, got an array of shape {array.shape} instead; give "
            "one number per row"
        )
    if len(array) != n_rows:
        raise DataError(
            f"{name}: expected one number for each of the {counted(n_rows, 'row')} of X, got "
            f"{len(array)}; Found input variables with inconsistent numbers of samples: "
            f"{[n_rows, len(array)]}"
        )
    bad = ~np.isfinite(array)
    if bad.any():
        what = "NaN" if np.isnan(array[bad][0]) else "infinity"
        raise DataError(
            f"{name}: expected finite numbers, got {what} in "
            f"{counted(int(bad.sum()), 'row')} (first in row "
            f"{int(np.flatnonzero(bad)[0])}; Input contains NaN or inf); drop those rows"
        )
    large = np.abs(array) > 1e150
    _refuse(array, large, f"{name}: expected numbers of a size up to 1e150", "correct the rows")
    return array


def _whole(name: str, values: Floats) -> None:
    """Refuse whole numbers so large that doubles skip some."""
    expected = (
        f"{name}: expected whole numbers up to 2^53 = {_MOST:.0f}, which doubles hold exactly"
    )
    _refuse(values, values > _MOST, expected, "count in a larger unit")


def _first(values: Floats, bad: NDArray[np.bool_]) -> str:
    row = int(np.flatnonzero(bad)[0])
    return f"{values[row]:g} in row {row}" + (
        f" and {int(bad.sum()) - 1} more" if bad.sum() > 1 else ""
    )


def _refuse(values: Floats, bad: NDArray[np.bool_], expected: str, remedy: str) -> None:
    """Refuse values where some are bad."""
    if bad.any():
        raise DataError(f"{expected}, got {_first(values, bad)}; {remedy}")


def check_counts(y: Any, n_rows: int) -> Floats:
    """Return counts: whole numbers of at least 0."""
    counts = numbers("y", y, n_rows)
    _refuse(counts, counts < 0.0, "y: expected counts of at least 0", "correct the rows")
    broken = counts != np.floor(counts)
    remedy = "give counts with exposure= instead of rates"
    _refuse(counts, broken, "y: expected whole counts", remedy)
    _whole("y", counts)
    return counts


def check_trials(trials: Any, n_rows: int) -> Floats:
    """Return numbers of trials: whole, at least 0, not all 0."""
    counts = whole_trials(trials, n_rows)
    if not counts.any():
        raise no_trials(n_rows)
    return counts


def no_trials(n_rows: int) -> DataError:
    """Return the error of rows without any trial."""
    return DataError(
        f"trials: expected some row with trials, got {counted(n_rows, 'row')} with 0; drop "
        "trials= for rows of single observations"
    )


def whole_trials(trials: Any, n_rows: int) -> Floats:
    """Return numbers of trials: whole, at least 0."""
    counts = numbers("trials", trials, n_rows)
    bad = (counts < 0.0) | (counts != np.floor(counts))
    remedy = "give the number of trials of each row"
    _refuse(counts, bad, "trials: expected whole numbers of at least 0", remedy)
    _whole("trials", counts)
    return counts


class Successes(NamedTuple):
    """What tells counts of successes from proportions.

    `whole`: Whether all are whole numbers.
    `largest`: The largest.
    `unclear`: Whether some are floats of 1 with several trials.
    """

    whole: bool
    largest: float
    unclear: bool

    def joined(self, other: Successes) -> Successes:
        """Return the same for the rows of both."""
        return Successes(
            self.whole and other.whole,
            max(self.largest, other.largest),
            self.unclear or other.unclear,
        )

    @property
    def are_proportions(self) -> bool:
        """Whether they are proportions; refuse what could be either."""
        if self.whole and self.largest == 1.0 and self.unclear:
            raise DataError(
                "y: expected successes as integers or proportions with some between 0 and 1, got "
                "floats that are all 0 or 1 with several trials, which could be either; give "
                "integer counts (for proportions, (y * trials).astype(int))"
            )
        return not self.whole


def successes_meant(y: Any, trials: Floats) -> Successes:
    """Return what tells whether these are counts or proportions of the trials."""
    given = numbers("y", y, len(trials))
    unclear = np.asarray(y).dtype.kind == "f" and bool((trials[given == 1.0] > 1.0).any())
    return Successes(bool((given == np.floor(given)).all()), float(given.max(initial=0.0)), unclear)


def check_successes(y: Any, trials: Floats, meant: Successes | None = None) -> Floats:
    """Return successes of each row, given as counts or as proportions of the trials.

    Whole numbers are counts. Numbers from 0 to 1, some of them not whole, are proportions. Floats
    that are all 0 or 1 while there are several trials per row could be either, and are refused.
    `meant`: What all rows say, where these are some of them.
    """
    given = numbers("y", y, len(trials))
    _refuse(given, given < 0.0, "y: expected successes of at least 0", "correct the rows")
    meant = successes_meant(y, trials) if meant is None else meant
    if not meant.are_proportions:
        return _at_most(given, trials)
    if given.max(initial=0.0) > 1.0:
        whole = given == np.floor(given)
        broken = ~whole if not whole.all() else given > 1.0
        raise DataError(
            f"y: expected whole successes, or proportions from 0 to 1, got "
            f"{_first(given, broken)} beside values above 1; give counts of successes"
        )
    successes = np.rint(given * trials)
    off = np.abs(given * trials - successes) > 1e-6 * np.maximum(trials, 1.0)
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise DataError(
            f"y: expected proportions of whole successes, got {given[row]:g} of {trials[row]:g} "
            f"trials in row {row} ({given[row] * trials[row]:g} successes); give counts instead"
        )
    return _at_most(successes, trials)


def _at_most(successes: Floats, trials: Floats) -> Floats:
    above = successes > trials
    if above.any():
        row = int(np.flatnonzero(above)[0])
        raise DataError(
            f"y: expected at most as many successes as trials, got {successes[row]:g} of "
            f"{trials[row]:g} in row {row}; check which column is which"
        )
    return successes


def check_labels(y: Any, n_rows: int) -> tuple[NDArray[Any], Floats]:
    """Return two labels and, for each row, whether it has the second."""
    classes, codes = encode_labels(y, n_samples=n_rows)
    check_two(classes)
    return classes, codes.astype(np.float64)


def check_two(classes: NDArray[Any]) -> None:
    """Refuse more than two labels."""
    if len(classes) > 2:
        shown = ", ".join(repr(label) for label in classes[:4].tolist())
        raise DataError(
            f"y: Only binary classification is supported here: expected two labels, got "
            f"{len(classes)} ({shown}{', …' if len(classes) > 4 else ''}); for numbers of "
            "successes give trials=, for several classes use MultinomialRegression "
            "(--family multinomial)"
        )


def check_exposure(exposure: Any, n_rows: int) -> Floats:
    """Return exposures: positive numbers."""
    values = numbers("exposure", exposure, n_rows)
    remedy = "drop rows that were not exposed"
    _refuse(values, values <= 0.0, "exposure: expected numbers above 0", remedy)
    return values


def check_offset(offset: Any, n_rows: int) -> Floats | None:
    """Return offsets, None where there are none."""
    return None if offset is None else numbers("offset", offset, n_rows)


def ignore_rows(number: int) -> None:
    """Say aloud how many rows have no trials and are left out."""
    warnings.warn(
        f"{number} row{'s' if number > 1 else ''} with zero trials ignored: they say nothing "
        "about the coefficients",
        IgnoredRowsWarning,
        stacklevel=4,
    )
