"""Labels of any type as codes."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays, integer_dtypes, unsigned_integer_dtypes
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning

from crossfade.errors import CellTypeError, DataError
from crossfade.table import encode_labels
from crossfade.table.factorise import factorise_integers, factorise_numbers, factorise_series
from tests.table.tables import HOSTILE


def matches_unique(y: np.ndarray) -> None:
    classes, codes = encode_labels(y, minimum=0)
    expected, inverse = np.unique(y, return_inverse=True)
    assert_array_equal(classes, expected)
    assert classes.dtype == y.dtype
    assert_array_equal(codes, inverse)
    assert codes.dtype == np.int64


@settings(max_examples=80, deadline=None)
@given(arrays(integer_dtypes() | unsigned_integer_dtypes(), st.integers(0, 30)))
def test_integers_are_coded_as_by_sorting(y: np.ndarray) -> None:
    matches_unique(y)


@settings(max_examples=80, deadline=None)
@given(arrays(np.int64, st.integers(1, 30), elements=st.integers(-20, 20)))
def test_few_integers_are_coded_as_by_sorting(y: np.ndarray) -> None:
    matches_unique(y)
    matches_unique(y > 0)
    matches_unique(y.astype(np.float64))
    matches_unique(y.astype(str))
    matches_unique(y.astype(str).astype(object))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=5), min_size=1
    )
)
def test_words_are_coded_alike_by_every_library(words: list[str]) -> None:
    expected = sorted(set(words))
    holders = [
        words,
        np.array(words, dtype=object),
        pd.Series(words),
        pd.Series(words, dtype="category"),
        pd.Series(words, dtype=object),
        pd.Index(words),
        pl.Series(words),
        pl.Series(words, dtype=pl.Categorical),
        pa.array(words),
        pa.chunked_array([words[:1], words[1:]], type=pa.string()),
        pa.array(words).dictionary_encode(),
    ]
    for y in holders:
        classes, codes = encode_labels(y, minimum=1)
        if not isinstance(y, list):  # a fixed-width array drops trailing zero characters
            assert classes.tolist() == expected
            assert [classes[code] for code in codes] == words
        assert codes.dtype == np.int64


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([True, False], [False, True], [1, 0]),
        ([3, 1, 3], [1, 3], [1, 0, 1]),
        ([2.0, 1.0], [1.0, 2.0], [1, 0]),
        ([Decimal(2), Decimal(1)], [1.0, 2.0], [1, 0]),
        (range(3), [0, 1, 2], [0, 1, 2]),
        (np.array([3, 1], dtype=">i4"), [1, 3], [1, 0]),
        (np.array([-128, 127], dtype=np.int8), [-128, 127], [0, 1]),
        (np.array([2**64 - 1, 0], dtype=np.uint64), [0, 2**64 - 1], [1, 0]),
        ([2**70 + 1, 2**70, 5], [5, 2**70, 2**70 + 1], [2, 1, 0]),
        (pd.Series([3, 1], dtype="Int64"), [1, 3], [1, 0]),
        (pd.Series([3, 1], dtype="category"), [1, 3], [1, 0]),
        (pd.Categorical(["a", "b"], categories=["c", "b", "a"]), ["a", "b"], [0, 1]),
        (pl.Series([True, False, True]), [False, True], [1, 0, 1]),
        (pl.Series([2, 1], dtype=pl.UInt8), [1, 2], [1, 0]),
        (pl.Series([1.0, 0.0]), [0.0, 1.0], [1, 0]),
        (pa.array([7, 5]), [5, 7], [1, 0]),
        (pl.Series(["b", "a"], dtype=pl.Enum(["b", "a", "z"])), ["a", "b"], [1, 0]),
    ],
)
def test_labels_keep_their_type(y: Any, classes: list[Any], codes: list[int]) -> None:
    found, coded = encode_labels(y)
    assert found.tolist() == classes
    assert [type(label) for label in found.tolist()] == [type(label) for label in classes]
    assert coded.tolist() == codes


def test_a_column_vector_is_flattened_with_a_warning() -> None:
    for y in (np.array([[1], [2]]), pl.DataFrame({"y": [1, 2]}), pd.DataFrame({"y": [1, 2]})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d"):
            classes, codes = encode_labels(y)
        assert classes.tolist() == [1, 2]
        assert codes.tolist() == [0, 1]


MISSING = "y: expected a label in every row, got {} missing label{} in {} rows (Input y contains"


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (None, "y: this estimator requires y to be passed, but the target y is None; give one"),
        ("ab", "y: expected one label per row, got 'ab'; give that column of the table (and X"),
        ([[1, 2], [2, 1]], "y: y should be a 1d array, got an array of shape (2, 2) instead"),
        (pl.DataFrame({"a": [1], "b": [2]}), "y: y should be a 1d array, got an array of shape "),
        (
            [[1], [1, 2]],
            "y: expected one label per row, got rows of different lengths in [[1], [1,",
        ),
        (scipy.sparse.csr_array([[1, 0]]), "y: expected dense labels, got sparse csr_array"),
        (["a", None, "b"], MISSING.format(1, "", 3)),
        (["a", np.nan], MISSING.format(1, "", 2)),
        ([1, None], MISSING.format(1, "", 2)),
        ([1.0, np.nan, np.nan], MISSING.format(2, "s", 3)),
        ([None, None], MISSING.format(2, "s", 2)),
        (pd.Series(["a", None, None]), MISSING.format(2, "s", 3)),
        (pd.Series([1, None], dtype="Int64"), MISSING.format(1, "", 2)),
        (pd.Series(["a", None], dtype="category"), MISSING.format(1, "", 2)),
        (pd.Series(["a", pd.NA], dtype="string"), MISSING.format(1, "", 2)),
        (pl.Series(["a", None]), MISSING.format(1, "", 2)),
        (pl.Series([1, None]), MISSING.format(1, "", 2)),
        (pl.Series([None, None]), MISSING.format(2, "s", 2)),
        (pa.array(["a", None]), MISSING.format(1, "", 2)),
        (pa.array([True, None]), MISSING.format(1, "", 2)),
        (np.ma.MaskedArray([1, 2], mask=[True, False]), MISSING.format(1, "", 2)),
        ([1.5, 2.0], "y: Unknown label type: continuous. Expected class labels, got 1.5 and other"),
        ([np.inf, 1.0], "y: Input y contains infinity or a value too large for dtype('float64')."),
        (np.array([1j]), "y: Complex data not supported, got dtype complex128"),
        (np.array([b"a"]), "y: Unknown label type: expected text, integers or booleans, got dtype"),
        (
            np.array(["2020-01-01"], dtype="M8[D]"),
            "y: Unknown label type: expected text, integers or booleans, got dtype datetime64[D]",
        ),
        (["a", 1], "y: expected cells of one type, got 1 (int) and 'a' (str); make them all"),
        (["a", "a"], "y: expected at least 2 classes, got 1 class ('a' in all 2 rows); add rows"),
        ([], "y: expected at least 2 classes, got 0 classes; add rows of another class"),
    ],
)
def test_labels_that_are_refused(y: Any, sentence: str) -> None:
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        encode_labels(y)


def test_labels_that_are_things() -> None:
    with pytest.raises(CellTypeError, match=r"^y: a cell given as argument must be a string or"):
        encode_labels([{"a": 1}, {"b": 2}])


def test_given_classes() -> None:
    classes, codes = encode_labels(["a", "c"], classes=["c", "b", "a"])
    assert classes.tolist() == ["a", "b", "c"]
    assert codes.tolist() == [0, 2]
    again, _ = encode_labels(["b"], classes=classes)
    assert_array_equal(again, classes)
    with pytest.raises(
        DataError,
        match=r"^y: expected only labels among the 2 given classes \('a', 'c'\), got 'b'; list all",
    ):
        encode_labels(["a", "b"], classes=["a", "c"])
    with pytest.raises(DataError, match=r"^classes: expected a label in every row, got 1 missing"):
        encode_labels(["a"], classes=["a", None])


def test_minimum_and_length() -> None:
    assert encode_labels(["a"], minimum=1)[1].tolist() == [0]
    with pytest.raises(DataError, match=r"^y: expected at least 3 classes, got 2 classes; add row"):
        encode_labels(["a", "b"], minimum=3)
    with pytest.raises(
        DataError, match=r"^y: expected one label for each of the 3 rows of X, got 2; "
    ):
        encode_labels(["a", "b"], n_samples=3)


def test_labels_are_not_changed() -> None:
    y = np.array([3, 1, 3])
    y.flags.writeable = False
    classes, codes = encode_labels(y)
    assert not np.shares_memory(codes, y)
    assert not np.shares_memory(classes, y)
    zero_based = np.array([0, 1, 1])
    codes = encode_labels(zero_based)[1]
    assert not np.shares_memory(codes, zero_based)


@settings(max_examples=80, deadline=None)
@given(arrays(np.float64, st.integers(0, 20), elements=st.floats(width=16) | st.just(np.nan)))
def test_numbers_are_coded_as_by_sorting(values: np.ndarray) -> None:
    distinct, codes = factorise_numbers(values)
    present = ~np.isnan(values)
    assert_array_equal(distinct, np.unique(values[present]))
    assert_array_equal(codes < 0, ~present)
    assert_array_equal(distinct[codes[present]], values[present])


def test_wide_ranges_are_sorted_not_counted() -> None:
    wide = np.array([2**62, -(2**62), 5, 2**62])
    distinct, codes = factorise_integers(wide)
    assert distinct.tolist() == [-(2**62), 5, 2**62]
    assert codes.tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_few_and_many_cells_of_polars_are_coded_alike(dtype):
    cells = ["z", "", None, "é", "e\u0301", "😀", "\uffff", "a\x00", "Z", " z"]
    few, many = (
        factorise_series(nw.from_native(pl.Series(cells * n, dtype=dtype), series_only=True))
        for n in (1, 300)
    )
    assert few[0] == many[0] == sorted(set(cells) - {None})
    assert [-1 if cell is None else few[0].index(cell) for cell in cells] == few[1].tolist()
    assert_array_equal(many[1], np.tile(few[1], 300))
