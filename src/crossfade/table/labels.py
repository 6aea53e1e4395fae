"""Class labels of any type, as integer codes."""

from __future__ import annotations

import warnings
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from crossfade._checks import counted, is_missing, show
from crossfade.errors import DataError
from crossfade.table.columns import is_of_objects
from crossfade.table.factorise import (
    factorise_integers,
    factorise_numbers,
    factorise_objects,
    factorise_series,
)
from crossfade.table.objects import numbers_from_objects, object_storage

Coded = tuple[NDArray[Any], NDArray[np.int64]]


def encode_labels(
    y: Any, classes: Any = None, *, minimum: int = 2, n_samples: int | None = None
) -> Coded:
    """Return the distinct labels and the class code of each row.

    Shapes: y (n_rows,); classes (n_classes,); → (n_classes,) and (n_rows,).
    """
    found, codes = _factorised(y, "y")
    if n_samples is not None and len(codes) != n_samples:
        raise DataError(
            f"y: expected one label for each of the {counted(n_samples, 'row')} of X, got "
            f"{len(codes)}; Found input variables with inconsistent numbers of samples: "
            f"{[n_samples, len(codes)]}"
        )
    if classes is not None:
        known, _ = _factorised(classes, "classes")
        codes = _position(found, known)[codes]
        found = known
    if len(found) < minimum:
        noun = "1 class" if len(found) == 1 else f"{len(found)} classes"
        only = f" ({show(found[0])} in all {counted(len(codes), 'row')})" if len(found) == 1 else ""
        raise DataError(
            f"y: expected at least {minimum} classes, got {noun}{only}; add rows of another class "
            "or choose another target"
        )
    return found, codes


def recoded(coded: Coded, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class of each row from its own table's labels and codes, shape (n_rows,)."""
    found, codes = coded
    return _position(found, _factorised(classes, "classes")[0])[codes]


def labelled_first(y: Any, unlabelled: Any, n_samples: int) -> tuple[NDArray[np.int64] | None, int]:
    """Return the order in which rows with a label come first, and their number.

    `unlabelled` is "missing" (None, NaN, NA), or the value that stands for no label. None where
    every row has one, or where `unlabelled` is None. Shapes: y (n_samples,).
    """
    if unlabelled is None or y is None:
        return None, n_samples
    items = _items(y)
    absent = _without_label(items, unlabelled)
    _refuse_other_type(items, unlabelled)
    if absent.size != n_samples or not absent.any():
        return None, n_samples
    if absent.all():
        raise DataError(
            f"y: expected labels of at least 2 classes, got {counted(n_samples, 'row')} without a "
            f"label (unlabelled={show(unlabelled)}); give labels to rows of each class"
        )
    return np.argsort(absent, kind="stable"), int(n_samples - absent.sum())


def without_label(y: Any, unlabelled: Any) -> NDArray[np.bool_]:
    """Return which rows have no label, "missing" or this value, shape (n_samples,)."""
    return _without_label(_items(y), unlabelled)


def _items(y: Any) -> list[Any]:
    series = _as_series(y, "y")
    if series is not None:
        found: list[Any] = series.to_list()
        return found
    # A masked array's own list has None where a label is masked.
    array = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y, dtype=object)
    return list(array.ravel().tolist())


def _without_label(items: list[Any], unlabelled: Any) -> NDArray[np.bool_]:
    if isinstance(unlabelled, str) and unlabelled == "missing":
        return np.array([is_missing(item) for item in items], dtype=bool)
    return np.array([_is_same(item, unlabelled) for item in items], dtype=bool)


def _is_same(label: Any, other: Any) -> bool:
    """Return whether a label is this value: 1 and 1.0 are, True and 1 are not."""
    if is_missing(label) or isinstance(label, bool) != isinstance(other, bool):
        return False
    return bool(label == other)


def _refuse_other_type(items: list[Any], unlabelled: Any) -> None:
    """Refuse a number where labels are texts of it, as NumPy makes of mixed lists, or a text."""
    text = isinstance(unlabelled, str)
    number = _number(unlabelled)
    if number is None:
        return
    others = (item for item in items if isinstance(item, str) != text)
    for item in others if text else set(others):
        if _number(item) == number:
            raise DataError(
                f"unlabelled: expected a value of the type of y's labels, got {show(unlabelled)}, "
                f"and y has {show(item)}; give unlabelled={show(item)}"
            )


def _number(item: Any) -> float | None:
    if isinstance(item, bool) or not isinstance(item, (str, int, float, np.number)):
        return None
    try:
        return float(item)
    except ValueError:
        return None


def _position(found: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    lookup = {label: position for position, label in enumerate(known.tolist())}
    unseen = [label for label in found.tolist() if label not in lookup]
    if unseen:
        raise DataError(
            f"y: expected only labels among the {len(known)} given classes "
            f"({', '.join(show(label) for label in known[:5])}{', …' if len(known) > 5 else ''}), "
            f"got {', '.join(show(label) for label in unseen[:3])}; list all labels in classes"
        )
    return np.array([lookup[label] for label in found.tolist()], dtype=np.int64)


def _factorised(y: Any, place: str) -> Coded:
    if y is None:
        raise DataError(
            f"{place}: this estimator requires y to be passed, but the target y is None; give one "
            "label per row"
        )
    if scipy.sparse.issparse(y):
        raise DataError(
            f"{place}: expected dense labels, got sparse {type(y).__name__}; use toarray().ravel()"
        )
    series = _as_series(y, place)
    if series is not None:
        return _of_series(series, place)
    return _of_array(_as_array(y, place), place)


def _as_series(y: Any, place: str) -> nw.Series[Any] | None:
    """Return labels held by a data-frame library as a narwhals series, None for other labels."""
    if nw.dependencies.is_into_dataframe(y):
        frame = nw.from_native(y, eager_only=True)
        if frame.shape[1] != 1:
            raise _not_one_column(frame.shape, place)
        _warn_column_vector()
        return frame[:, 0]
    if type(y).__module__.startswith("pyarrow") and not hasattr(y, "chunks"):
        import pyarrow as pa

        y = pa.chunked_array([y])
    if nw.dependencies.is_into_series(y):
        return nw.from_native(y, series_only=True)
    return None


def _warn_column_vector() -> None:
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y "
        "to (n_samples,), for example using ravel().",
        DataConversionWarning,
        stacklevel=2,
    )


def _not_one_column(shape: tuple[int, ...], place: str) -> DataError:
    return DataError(
        f"{place}: y should be a 1d array, got an array of shape {shape} instead; give one label "
        "per row"
    )


def _as_array(y: Any, place: str) -> NDArray[Any]:
    if isinstance(y, str):
        raise DataError(
            f"{place}: expected one label per row, got {show(y)}; give that column of the table "
            "(and X without it): names are for files and clusters"
        )
    try:
        array = np.asarray(y)
        listed = array.dtype.kind in "US" and array.ndim == 1 and not hasattr(y, "dtype")
        if listed and not all(issubclass(kind, str) for kind in set(map(type, y))):
            array = np.asarray(y, dtype=object)  # NumPy would turn [1, "a"] into words
    except ValueError:
        raise DataError(
            f"{place}: expected one label per row, got rows of different lengths in "
            f"{show(y)}; y should be a 1d array"
        ) from None
    if array.ndim == 2 and array.shape[1] == 1:
        _warn_column_vector()
        array = array[:, 0]
    if array.ndim != 1:
        raise _not_one_column(array.shape, place)
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise _missing(int(np.ma.getmaskarray(y).sum()), len(array), place)
    return array


def _of_series(series: nw.Series[Any], place: str) -> Coded:
    dtype = series.dtype
    if is_of_objects(series):
        return _of_objects(series.to_list(), place)
    if dtype.is_nested():
        raise DataError(
            f"{place}: expected one label per row, got a column of dtype {dtype}; give a column "
            "of classes"
        )
    missing = series.null_count()
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        try:
            values, codes = factorise_series(series)
        except TypeError:
            raise _several_types(series.unique().to_list()[:2], place) from None
        absent = int(np.count_nonzero(codes < 0))
        if absent:
            raise _missing(absent, len(codes), place)
        text = all(isinstance(value, str) for value in values)
        return np.array(values, dtype=object if text else None), codes
    if missing:
        raise _missing(missing, len(series), place)
    if dtype.is_decimal():
        series = series.cast(nw.Float64)
    if dtype in (nw.Int128, nw.UInt128):
        return _of_objects(series.to_list(), place)
    return _of_array(np.asarray(series.to_numpy()), place)


def _of_array(labels: NDArray[Any], place: str) -> Coded:
    kind = labels.dtype.kind
    if kind in "biu":
        return factorise_integers(labels)
    if kind == "f":
        return _of_floats(labels, place)
    if kind in "UT":
        values, codes = factorise_objects(labels.tolist())
        _refuse_missing(codes, place)
        return np.array(values, dtype=labels.dtype), codes
    if kind == "O":
        return _of_objects(labels.tolist(), place)
    if kind == "c":
        raise DataError(
            f"{place}: Complex data not supported, got dtype {labels.dtype}; give one label per row"
        )
    remedy = "decode them with y.astype(str)" if kind == "S" else "turn them into text"
    raise DataError(
        f"{place}: Unknown label type: expected text, integers or booleans, got dtype "
        f"{labels.dtype}; {remedy}"
    )


def _of_floats(labels: NDArray[Any], place: str) -> Coded:
    finite = np.isfinite(labels)
    if not finite.all():
        absent = int(np.isnan(labels).sum())
        if absent:
            raise _missing(absent, len(labels), place)
        raise DataError(
            f"{place}: Input y contains infinity or a value too large for dtype('float64'). "
            f"({counted(int((~finite).sum()), 'row')}); correct the labels"
        )
    whole = labels == np.floor(labels)
    if not whole.all():
        raise DataError(
            f"{place}: Unknown label type: continuous. Expected class labels, got "
            f"{show(labels[~whole][0])} and other fractions; use a regression model, or cut the "
            "target into classes"
        )
    return factorise_numbers(labels)


def _of_objects(items: list[Any], place: str) -> Coded:
    storage = object_storage(items, place)
    if storage == "missing" and items:
        raise _missing(len(items), len(items), place)
    if storage in ("category", "integer"):
        values, codes = factorise_objects(items)
        _refuse_missing(codes, place)
        # As floating-point numbers, integers beyond 64 bits could become one label.
        small = storage == "integer" and max(map(abs, values)) < 1 << 63
        return np.array(values, dtype=np.int64 if small else object), codes
    numbers = numbers_from_objects(items, storage, place)
    return _of_floats(numbers, place) if numbers.dtype.kind == "f" else _of_array(numbers, place)


def _refuse_missing(codes: NDArray[np.int64], place: str) -> None:
    absent = int(np.count_nonzero(codes < 0))
    if absent:
        raise _missing(absent, len(codes), place)


def _missing(absent: int, n_rows: int, place: str) -> DataError:
    return DataError(
        f"{place}: expected a label in every row, got {counted(absent, 'missing label')} in "
        f"{counted(n_rows, 'row')} (Input y contains NaN.); drop those rows from X and y, or "
        "learn from them with unlabelled='missing' of NaiveBayes, GaussianDiscriminant and "
        "PooledClassifier"
    )


def _several_types(examples: list[Any], place: str) -> DataError:
    return DataError(
        f"{place}: expected labels of one type, got {' and '.join(show(e) for e in examples)}; "
        "make them all text or all numbers"
    )
