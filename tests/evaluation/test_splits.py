from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfade.errors import DataError
from crossfade.evaluation.splits import curve_sizes, repeated_splits, training_rows

counts = st.lists(st.integers(2, 40), min_size=2, max_size=6)


def _codes(class_counts: list[int], seed: int) -> np.ndarray:
    codes = np.repeat(np.arange(len(class_counts)), class_counts)
    return np.random.default_rng(seed).permutation(codes)


@settings(deadline=None, max_examples=60)
@given(counts, st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_splits_are_stratified_partitions(class_counts, fraction, seed):
    codes = _codes(class_counts, seed)
    n_train = training_rows(fraction, len(codes), len(class_counts))
    for split in repeated_splits(codes, n_splits=3, n_train=n_train, random_state=seed):
        assert len(split.train) == n_train
        both = np.concatenate([split.train, split.test])
        np.testing.assert_array_equal(np.sort(both), np.arange(len(codes)))
        for part in (split.train, split.test):
            assert (np.bincount(codes[part], minlength=len(class_counts)) > 0).all()


@settings(deadline=None, max_examples=60)
@given(counts, st.integers(0, 2**32))
def test_every_prefix_holds_every_class_in_proportion(class_counts, seed):
    codes = _codes(class_counts, seed)
    n_train = training_rows(0.8, len(codes), len(class_counts))
    split = next(repeated_splits(codes, n_splits=1, n_train=n_train, random_state=seed))
    whole = np.bincount(codes[split.train])
    for m in range(len(class_counts), n_train + 1):
        inside = np.bincount(codes[split.train[:m]], minlength=len(class_counts))
        assert (inside > 0).all()
        # One row in front of each class, and systematic sampling behind it.
        assert (np.abs(inside - m * whole / n_train) <= len(class_counts) + 1).all()


def test_a_large_prefix_has_the_shares_of_all_rows():
    codes = np.repeat([0, 1, 2], [700, 200, 100])
    split = next(repeated_splits(codes, n_splits=1, n_train=800, random_state=1))
    np.testing.assert_allclose(np.bincount(codes[split.train[:100]]), [70, 20, 10], atol=2)
    np.testing.assert_array_equal(np.bincount(codes[split.test]), [140, 40, 20])


def test_a_split_depends_on_its_seed_and_number_only():
    codes = np.repeat([0, 1], 30)
    few = list(repeated_splits(codes, n_splits=2, n_train=40, random_state=7))
    many = list(repeated_splits(codes, n_splits=5, n_train=40, random_state=7))
    other = list(repeated_splits(codes, n_splits=2, n_train=40, random_state=8))
    for a, b, c in zip(few, many, other, strict=False):
        np.testing.assert_array_equal(a.train, b.train)
        assert (a.train != c.train).any()
    assert len({tuple(split.test) for split in many}) == 5


def test_every_row_is_tested_about_equally_often():
    codes = np.repeat([0, 1], [60, 40])
    tested = np.zeros(100)
    for split in repeated_splits(codes, n_splits=1000, n_train=80, random_state=0):
        tested[split.test] += 1
    # Binomial(1000, .2): standard deviation 12.6; five of them for the largest of 100.
    assert np.abs(tested - 200).max() < 64


@pytest.mark.parametrize("bad", [0, -1, 1.5, "half", True, 0.0, 1.0, float("nan")])
def test_bad_training_sizes_are_refused(bad):
    with pytest.raises(DataError, match=r"train_size: expected .* got "):
        training_rows(bad, 100, 2)


def test_training_size_too_large_says_what_is_possible():
    message = (
        r"train_size: expected between 3 and 97 training rows \(every class once on either side "
        r"of a split of 100 rows\), got 98; choose another size or give more rows"
    )
    with pytest.raises(DataError, match=message):
        training_rows(98, 100, 3)
    assert training_rows(97, 100, 3) == 97
    assert training_rows(0.999, 100, 3) == 97


@given(st.integers(2, 10), st.integers(2, 10**6))
def test_curve_sizes_rise_to_all_training_rows(n_classes, n_train):
    n_train = max(n_train, n_classes)
    sizes = curve_sizes(n_train, n_classes)
    assert sizes[-1] == n_train
    assert sizes[0] >= n_classes
    assert all(a < b for a, b in pairwise(sizes))
