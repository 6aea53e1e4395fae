"""Row and class weights."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.class_weight import compute_sample_weight

from crossfade.errors import DataError
from crossfade.table import check_weights

CODES = np.array([0, 0, 0, 1])
CLASSES = np.array(["no", "yes"])


@pytest.mark.parametrize(
    "given_weights",
    [[1, 2, 0, 1], (1.0, 2.0, 0.0, 1.0), np.array([1, 2, 0, 1], dtype=np.float32),
     pd.Series([1, 2, 0, 1]), pl.Series([1, 2, 0, 1]), np.array([1, 2, 0, 1], dtype=object)],
)  # fmt: skip
def test_weights_of_any_container(given_weights: Any) -> None:
    weights = check_weights(given_weights, 4)
    assert weights is not None
    assert weights.dtype == np.float64
    assert_array_equal(weights, [1, 2, 0, 1])


def test_no_weights_and_weights_of_one_are_none() -> None:
    assert check_weights(None, 4) is None
    assert check_weights(1, 4) is None
    assert check_weights(np.ones(4), 4) is None
    assert check_weights([True] * 4, 4) is None
    assert check_weights(None, 4, {"no": 1.0}, CODES, CLASSES) is None
    assert_array_equal(check_weights(2.5, 4), [2.5] * 4)


@pytest.mark.parametrize(
    ("sample_weight", "sentence"),
    [
        ([1, 2], "sample_weight: expected shape (4,), one weight per row, got shape (2,); select"),
        ([[1.0]] * 4, "sample_weight: expected shape (4,), one weight per row, got shape (4, 1)"),
        ([1, 1, -0.5, 1], "sample_weight: expected weights of at least 0, got -0.5; use 0 for a"),
        ([1, np.nan, 1, 1], "sample_weight: expected finite weights, got nan in 1 row; use 0"),
        ([1, np.inf, np.inf, 1], "sample_weight: expected finite weights, got inf in 2 rows"),
        ([0, 0, 0, 0], "sample_weight: expected some weight above 0, got 4 zeros; drop the para"),
        (0, "sample_weight: expected some weight above 0, got 4 zeros"),
        ("heavy", "sample_weight: expected numbers, got 'heavy'; give one number per row"),
        (["1", "2", "3", "4"], "sample_weight: expected numbers, got ['1', '2', '3', '4']; give"),
        ([1, None, 1, 1], "sample_weight: expected finite weights, got nan in 1 row"),
        ([1j] * 4, "sample_weight: expected numbers, got "),
        ([[1], [1, 2]], "sample_weight: expected numbers, got [[1], [1, 2]]"),
    ],
)
def test_weights_that_are_refused(sample_weight: Any, sentence: str) -> None:
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        check_weights(sample_weight, 4)


@pytest.mark.parametrize(
    ("class_weight", "sentence"),
    [
        ("even", "class_weight: expected a mapping of label to weight, 'balanced' or None, got 'e"),
        ([1, 2], "class_weight: expected a mapping of label to weight, 'balanced' or None, got [1"),
        ({"maybe": 2}, "class_weight: expected labels of y as keys, got 'maybe'; the labels are "
                       "'no', 'yes'"),
        ({0: 2}, "class_weight: expected labels of y as keys, got 0; the labels are 'no', 'yes'"),
        ({"no": 0}, "class_weight: expected a finite weight above 0 for class 'no', got 0; use 1"),
        ({"no": -1}, "class_weight: expected a finite weight above 0 for class 'no', got -1"),
        ({"no": np.nan}, "class_weight: expected a finite weight above 0 for class 'no', got nan"),
        ({"no": "x"}, "class_weight: expected a finite weight above 0 for class 'no', got 'x'"),
    ],
)  # fmt: skip
def test_class_weights_that_are_refused(class_weight: Any, sentence: str) -> None:
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        check_weights(None, 4, class_weight, CODES, CLASSES)


def test_class_weights_need_the_labels() -> None:
    with pytest.raises(DataError, match=r"^class_weight: expected codes and classes with it, got "):
        check_weights(None, 4, "balanced")


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_class_weights_by_label_and_balanced_as_scikit_learn_has_them(labels: list[int]) -> None:
    classes, codes = np.unique(labels, return_inverse=True)
    for class_weight in ("balanced", {0: 2.0, 2: 0.5}, {2: 3}):
        expected = (
            compute_sample_weight("balanced", labels)
            if isinstance(class_weight, str)
            else np.array([class_weight.get(label, 1.0) for label in labels])
        )
        known = class_weight
        if isinstance(class_weight, dict):
            known = {label: w for label, w in class_weight.items() if label in classes}
        weights = check_weights(None, len(labels), known, codes, classes)
        assert_allclose(np.ones(len(labels)) if weights is None else weights, expected, rtol=1e-14)


def test_balanced_weights_count_repeated_rows() -> None:
    times = np.array([1, 2, 0, 3])
    weighted = check_weights(times, 4, "balanced", CODES, CLASSES)
    repeated = check_weights(None, 6, "balanced", np.repeat(CODES, times), CLASSES)
    per_row = np.ones(6) if repeated is None else repeated
    assert weighted is not None
    assert_allclose(np.repeat(weighted / np.maximum(times, 1), times), per_row, rtol=1e-15)
    one_class_gone = check_weights([1, 1, 1, 0], 4, "balanced", CODES, CLASSES)
    assert_array_equal(one_class_gone, [1, 1, 1, 0])


def test_both_weights_multiply_and_nothing_is_changed() -> None:
    given_weights = np.array([1.0, 2.0, 3.0, 4.0])
    given_weights.flags.writeable = False
    class_weight = {"yes": 10.0}
    weights = check_weights(given_weights, 4, class_weight, CODES, CLASSES)
    assert_array_equal(weights, [1, 2, 3, 40])
    assert_array_equal(given_weights, [1, 2, 3, 4])
    assert class_weight == {"yes": 10.0}
