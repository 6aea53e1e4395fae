"""Sequences in the forms people have them."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse

from crossfade.chains.input import encode, layout_of, read_labels, stack_numbers, stack_symbols
from crossfade.errors import DataError


def test_lists_and_lengths_say_the_same():
    X = [np.arange(6.0).reshape(3, 2), np.zeros((0, 2)), np.ones((2, 2))]
    listed, layout = stack_numbers(X)
    flat, same = stack_numbers(np.concatenate(X), lengths=[3, 0, 2])
    np.testing.assert_array_equal(listed, flat)
    assert layout.offsets.tolist() == same.offsets.tolist() == [0, 3, 3, 5]
    assert [len(part) for part in layout.restore(np.arange(5))] == [3, 0, 2]
    assert same.restore(listed) is listed
    assert layout.firsts().tolist() == [0, 3]
    assert layout.lasts().tolist() == [2, 4]
    assert layout.followed().tolist() == [0, 1, 3]
    steps, part = layout.take([2, 0])
    assert steps.tolist() == [3, 4, 0, 1, 2]
    assert part.offsets.tolist() == [0, 2, 5]


def test_one_array_is_one_sequence():
    assert layout_of(np.zeros((7, 2))).offsets.tolist() == [0, 7]
    assert layout_of(scipy.sparse.eye(4, format="csr")).offsets.tolist() == [0, 4]
    assert layout_of(np.zeros((3, 5, 2))).offsets.tolist() == [0, 5, 10, 15]


def test_one_column_sequences_become_columns():
    values, _ = stack_numbers([[1, 2, 3], [4]])
    assert values.shape == (4, 1)


def test_symbols_of_several_kinds_of_array():
    words, layout = stack_symbols([["a", "b"], np.array(["c"]), []])
    assert words == ["a", "b", "c"]
    assert layout.n_sequences == 3
    codes, _ = stack_symbols([np.array([[1.0], [np.nan]]), np.array([2])])
    assert codes == [1, None, 2]
    known = {"a": 0}
    assert encode(["a", "z", None, float("nan")], known).tolist() == [0, 1, -1, -1]
    assert known == {"a": 0}
    whole, _ = stack_symbols([np.array([7, 3]), np.array([[7]])])
    assert encode(whole, {3: 0, 7: 1}).tolist() == encode([7, 3, 7], {3: 0, 7: 1}).tolist()
    assert encode(whole, {3: 0, "7": 1}).tolist() == [2, 0, 2]
    assert encode(np.array([10**12, -5, 10**12]), {-5: 0}).tolist() == [1, 0, 1]
    assert encode(np.array([], dtype=np.int64), {3: 0}).tolist() == []


def test_hidden_labels():
    layout = layout_of([[1, 2], [3]])
    labels = read_labels([["x", None], ["y"]], layout, hidden=True)
    assert labels.classes.tolist() == ["x", "y"]
    assert labels.codes.tolist() == [0, -1, 1]
    assert not labels.complete
    for whole in ([None, ["y"]], [[None, None], ["y"]]):
        assert read_labels(whole, layout, hidden=True).codes.tolist() == [-1, -1, 0]
    assert read_labels([np.array([4, 5]), None], layout, hidden=True).codes.tolist() == [0, 1, -1]
    assert read_labels(np.array([5, -1, 7]), layout, hidden=True).codes.tolist() == [0, -1, 1]
    assert read_labels([5, 6, 7], layout, np.array([5, 7])).codes.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layout_of("abc"), "X: expected a list of sequences, or one array with lengths"),
        (lambda: layout_of(["abc"]), "got 'abc' as sequence 0"),
        (lambda: layout_of("a dog"), "got the text 'a dog'; split texts into words, "),
        (lambda: layout_of(["a dog", "a cat"]), "got the text 'a dog'; split texts into words"),
        (lambda: layout_of([1.0, 2.0]), r"write \[X\] for a single sequence"),
        (lambda: layout_of(np.zeros(5), [2, 2]), "lengths: expected whole numbers that add up to"),
        (lambda: layout_of(np.zeros(4), [2.0, 2.0]), "lengths: expected whole numbers"),
        (lambda: stack_numbers([["a", "b"]]), "expected numbers in sequence 0"),
        (lambda: stack_numbers([[[1.0, 2.0]], [[1.0]]]), "X: expected 2 columns in every sequence"),
        (lambda: stack_numbers([[1.0, np.inf]]), "expected finite numbers or NaN"),
        (lambda: stack_symbols([["a"], ["b", ["c"]]]), r"got \['c'\] at step 1 of sequence 1"),
    ],
)
def test_what_cannot_be_read_is_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["a", "b"], []], "expected 1 label in sequence 1, as many as X has steps there, got 0"),
        ([["a", "b"]], "expected 2 sequences of labels to go with X, got 1"),
        (np.array(["a"]), "expected 3 labels, one for each step of X, got 1"),
        ([["a", None], ["b"]], "expected a label at every step, got None at step 1"),
        ([["a", 1], ["b"]], "expected labels of one kind"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y, message):
    with pytest.raises(DataError, match=message):
        read_labels(y, layout_of([[1, 2], [3]]))


@pytest.mark.parametrize("form", [tuple, np.array, pandas.Series, polars.Series])
def test_labels_in_containers_of_any_kind(form):
    layout = layout_of([[1, 2], [3]])
    labels = read_labels([form(["b", "a"]), form(["a"])], layout)
    assert (labels.classes.tolist(), labels.codes.tolist()) == (["a", "b"], [1, 0, 0])
    with pytest.raises(DataError, match="y: expected 1 label in sequence 1, as many as X"):
        read_labels([form(["b", "a"]), form(["a", "a"])], layout)


def test_labels_of_all_steps_whatever_their_index():
    labels = read_labels(pandas.Series(["b", "a", "a"], index=[7, 8, 9]), layout_of([[1, 2], [3]]))
    assert labels.codes.tolist() == [1, 0, 0]
