"""Distinct values and integer codes of one column, whatever holds it.

Every function returns the distinct values in ascending order and, for each row, the position of
its value, -1 where the cell is missing. Text is handled by the library that holds it (polars,
pandas, pyarrow), else by Python's own hash tables; no row is visited by interpreted code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from crossfade._checks import is_missing

#: Rows of text up to which Python's hash tables are faster than to start an engine for them.
_FEW_ROWS = 2_000

#: Distinct values in ascending order (Python objects), and the code of each row (-1: missing).
Factorised = tuple[list[Any], NDArray[np.int64]]


def factorise_integers(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct integers, ascending, and each row's code; a narrow range is counted."""
    if values.size == 0:
        return values[:0].copy(), np.zeros(0, dtype=np.int64)
    if values.dtype == bool:
        distinct, codes = factorise_integers(values.view(np.uint8))
        return distinct.astype(bool), codes
    low, high = int(values.min()), int(values.max())
    if high - low > max(1 << 16, 2 * values.size) or high > np.iinfo(np.int64).max:
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse.astype(np.int64, copy=False)
    offsets = values.astype(np.int64)
    if low:
        offsets -= low
    occurs = np.bincount(offsets, minlength=high - low + 1) > 0
    distinct = np.flatnonzero(occurs) + low
    if distinct.size == occurs.size:
        return distinct.astype(values.dtype), offsets
    positions = np.cumsum(occurs, dtype=np.int64) - 1
    return distinct.astype(values.dtype), positions[offsets]


def factorise_numbers(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct numbers, ascending, and the code of each row (NaN: -1)."""
    # A column of a matrix is read several times below: once from afar is enough.
    values = np.ascontiguousarray(values)
    if values.dtype.kind != "f":
        return factorise_integers(values)
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = bool(np.isnan(values.sum()))
    present = ~np.isnan(values) if gaps else None
    kept = values if present is None else values[present]
    whole = _as_integers(kept)
    if whole is not None:
        integers, kept_codes = factorise_integers(whole)
        distinct = integers.astype(values.dtype)
    else:
        distinct, inverse = np.unique(kept, return_inverse=True)
        kept_codes = inverse.astype(np.int64, copy=False)
    if present is None:
        return distinct, kept_codes
    codes = np.full(values.shape, -1, dtype=np.int64)
    codes[present] = kept_codes
    return distinct, codes


def _as_integers(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return floats as the same integers, None if they are not all whole (or too large for it)."""
    if not values.size or not -(2.0**53) < float(values.min()) <= float(values.max()) < 2.0**53:
        return None
    integers = values.astype(np.int64)
    return integers if bool((integers == values).all()) else None


def factorise_objects(items: Sequence[Any]) -> Factorised:
    """Return distinct values and codes of hashable objects of one sortable type."""
    ordered = sorted(item for item in set(items) if not is_missing(item))
    codes = recode(items, dict(zip(ordered, range(len(ordered)), strict=True)))
    return ordered, codes


def recode(values: Sequence[Any], lookup: dict[Any, int]) -> NDArray[np.int64]:
    """Return the code of each value, -1 for those that have none."""
    return np.fromiter(map(lookup.get, values, repeat(-1)), dtype=np.int64, count=len(values))


def factorise_series(series: nw.Series[Any]) -> Factorised:
    """Return distinct values and codes of a text or categorical column of a data frame.

    Categories that a categorical type lists but no row holds are left out.
    """
    native = series.to_native()
    if nw.dependencies.is_polars_series(native):
        return _of_polars(native)
    if nw.dependencies.is_pandas_like_series(native):
        return _of_pandas(native)
    if nw.dependencies.is_pyarrow_chunked_array(native):
        return _of_pyarrow(native)
    return factorise_objects(series.to_list())


def _of_polars(series: Any) -> Factorised:
    import polars as pl

    text = series if series.dtype == pl.String else series.cast(pl.String)
    if len(text) <= _FEW_ROWS:
        return factorise_objects(text.to_list())
    distinct = text.drop_nulls().unique().sort()
    codes = text.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).fill_null(-1)
    return distinct.to_list(), codes.to_numpy()


def _of_pandas(series: Any) -> Factorised:
    if series.dtype.name == "category":
        categories, codes = series.cat.categories.tolist(), series.cat.codes.to_numpy()
        return _in_order(categories, codes.astype(np.int64))
    codes, distinct = series.factorize(use_na_sentinel=True)
    return _in_order(distinct.tolist(), np.asarray(codes, dtype=np.int64))


def _of_pyarrow(column: Any) -> Factorised:
    import pyarrow as pa

    encoded = column
    if pa.types.is_dictionary(column.type):
        # A dictionary may itself hold nulls or repeats: decoding it first settles both.
        encoded = column.cast(column.type.value_type)
    encoded = encoded.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    codes = encoded.indices.fill_null(-1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return _in_order(encoded.dictionary.to_pylist(), codes)


def _in_order(values: list[Any], codes: NDArray[np.int64]) -> Factorised:
    """Sort the distinct values, drop those that no row holds, and renumber the codes."""
    used = np.bincount(codes + 1, minlength=len(values) + 1)[1:] > 0
    kept = [index for index in np.flatnonzero(used).tolist() if not is_missing(values[index])]
    kept.sort(key=values.__getitem__)
    positions = np.full(len(values) + 1, -1, dtype=np.int64)
    positions[kept] = np.arange(len(kept))
    # Code -1 (missing) picks the last entry, which stays -1.
    return [values[index] for index in kept], positions[codes]
