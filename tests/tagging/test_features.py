from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from crossfade.chains.attributes import AttributeEncoder
from crossfade.errors import DataError
from crossfade.tagging import shape_features, window_features, word_shape

NAMES = st.text(alphabet="ab:=|\\ \t", max_size=3)


def sets(encoded):
    names = encoded.encoder.names
    values = np.ones(len(encoded.attributes)) if encoded.values is None else encoded.values
    cuts = encoded.token_starts
    return [
        [(names[a], v) for a, v in zip(encoded.attributes[lo:hi], values[lo:hi], strict=True)]
        for lo, hi in pairwise(cuts)
    ]


def test_every_form_of_token_gives_the_attributes_of_the_table():
    tokens = [
        "ing",
        ["ing", ("w", "a")],
        {"w": "a:b"},
        {"w:a": "b"},
        {"w": ["a", "b"]},
        {"length": 2.5, "w": "a"},
        {"is_title": True},
        {"is_title": False, "x": 0, "y": np.float32(0.5)},
        7,
        np.int64(7),
        "7",
        {"a", "b"},
        ["twice", "twice"],
        [],
        {},
    ]
    assert sets(AttributeEncoder().fit_transform([tokens])) == [
        [("ing", 1)],
        [("ing", 1), (("w", "a"), 1)],
        [(("w", "a:b"), 1)],
        [(("w:a", "b"), 1)],
        [(("w", "a"), 1), (("w", "b"), 1)],
        [("length", 2.5), (("w", "a"), 1)],
        [("is_title", 1)],
        [("y", 0.5)],
        [(7, 1)],
        [(7, 1)],
        [("7", 1)],
        [("a", 1), ("b", 1)],
        [("twice", 1), ("twice", 1)],
        [],
        [],
    ]


@given(st.lists(st.dictionaries(NAMES, st.one_of(NAMES, st.just(True)), max_size=3), max_size=6))
def test_distinct_names_stay_distinct_and_equal_ones_equal(tokens):
    encoded = AttributeEncoder().fit_transform([tokens])
    found = sets(encoded)
    assert len(set(encoded.encoder.names)) == len(encoded.encoder)
    for token, attributes in zip(tokens, found, strict=True):
        expected = {(k if v is True else (k, v)) for k, v in token.items()}
        assert {name for name, _ in attributes} == expected
        assert len(attributes) == len(token)


@given(st.lists(st.lists(NAMES, max_size=4), max_size=5))
def test_transform_keeps_the_numbers_and_leaves_the_unknown_out(tokens):
    encoder = AttributeEncoder()
    first = encoder.fit_transform([tokens])
    again = encoder.transform([tokens, [["never seen before"]]])
    np.testing.assert_array_equal(again.attributes, first.attributes)
    np.testing.assert_array_equal(again.token_starts[:-1], first.token_starts)
    assert again.token_starts[-1] == again.token_starts[-2]
    assert first.values is None


def test_values_start_late_and_empty_sequences_count():
    X = [[], [["a"], ["b"]], [{"c": 3.0}], [], [["a"]]]
    encoded = AttributeEncoder().fit_transform(X)
    assert sets(encoded) == [[("a", 1)], [("b", 1)], [("c", 3)], [("a", 1)]]
    assert encoded.layout.offsets.tolist() == [0, 0, 2, 3, 3, 4]
    assert len(encoded) == 5
    flat = AttributeEncoder().fit_transform([t for s in X for t in s], lengths=[0, 2, 1, 0, 1])
    assert sets(flat) == sets(encoded)
    assert flat.layout.offsets.tolist() == encoded.layout.offsets.tolist()


def test_matrices():
    dense = [np.array([[0.0, 2.0], [1.0, 0.0]]), np.zeros((0, 2)), np.array([[3.0, 4.0]])]
    expected = [[(1, 2.0)], [(0, 1.0)], [(0, 3.0), (1, 4.0)]]
    for kind in (np.asarray, scipy.sparse.csr_matrix, scipy.sparse.coo_array, np.asfortranarray):
        encoder = AttributeEncoder()
        assert sets(encoder.fit_transform([kind(m) for m in dense])) == expected
        assert len(encoder) == 2
        with pytest.raises(DataError, match="expected 2 columns in every matrix, got 3 in sequen"):
            encoder.transform([np.zeros((1, 3))])
        with pytest.raises(DataError, match="X: expected matrices of 2 columns as in fit, got lis"):
            encoder.transform([["a"]])
    words = AttributeEncoder()
    words.fit_transform([["a"]])
    with pytest.raises(DataError, match="expected tokens like those the model was fitted on, got"):
        words.transform([np.zeros((1, 3))])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([["a"], [["a", 3.5]]], r"pairs of strings, got 3\.5 in sequence 1, token 0; write"),
        ([[["a", ["b"]]]], r"got \['b'\] in sequence 0, token 0"),
        ([[{"a": None}]], r"got \('a', None\) in sequence 0, token 0"),
        ([[{"a": {"b": "c"}}]], r"in sequence 0, token 0"),
        ([[{3: 1.0}]], r"got \(3, 1\.0\) in sequence 0"),
        ([["a", 1.5]], r"an integer symbol, got 1\.5 in sequence 0, token 1; write a number as"),
        ([["a", True]], r"an integer symbol, got True in sequence 0, token 1"),
        ([["a", None]], r"an integer symbol, got None in sequence 0, token 1"),
        ([["a"], [{"b": float("nan")}]], r"finite values, got nan for attribute 'b' in sequence 1"),
        ([[{"b": float("-inf")}]], r"finite values, got -inf for attribute 'b' in sequence 0"),
        ([np.zeros((1, 2)), ["a"]], r"all of one kind, got a matrix as sequence 0 among others"),
        ("words", r"X: expected a list of sequences, .* got str"),
        (["words"], r"X: expected a list of sequences, got 'words' as sequence 0"),
    ],
)
def test_other_tokens_are_refused_and_named(X, message):
    with pytest.raises(DataError, match=message):
        AttributeEncoder().fit_transform(X)


def test_a_bad_attribute_is_refused_after_fit_too():
    encoder = AttributeEncoder()
    encoder.fit_transform([["a"]])
    with pytest.raises(DataError, match=r"got 3\.5 in sequence 0, token 1"):
        encoder.transform([["a", [3.5]]])


def test_window_features_are_the_nineteen():
    words = ["He", "reckons", "the", "current", "deficit"]
    tags = ["PRP", "VBZ", "DT", "JJ", "NN"]
    middle = window_features(words, tags)[2]
    assert sorted(middle) == sorted(
        [
            *["w[-2]=He", "w[-1]=reckons", "w[0]=the", "w[1]=current", "w[2]=deficit"],
            *["w[-1]|w[0]=reckons|the", "w[0]|w[1]=the|current"],
            *["pos[-2]=PRP", "pos[-1]=VBZ", "pos[0]=DT", "pos[1]=JJ", "pos[2]=NN"],
            *["pos[-2]|pos[-1]=PRP|VBZ", "pos[-1]|pos[0]=VBZ|DT"],
            *["pos[0]|pos[1]=DT|JJ", "pos[1]|pos[2]=JJ|NN"],
            *["pos[-2]|pos[-1]|pos[0]=PRP|VBZ|DT", "pos[-1]|pos[0]|pos[1]=VBZ|DT|JJ"],
            "pos[0]|pos[1]|pos[2]=DT|JJ|NN",
        ]
    )
    assert window_features(words, ends=True)[0][-1] == "BOS"
    assert window_features(words, ends=True)[-1][-1] == "EOS"
    assert window_features([]) == []
    with pytest.raises(DataError, match="tags: expected as many as the 5 words, got 4"):
        window_features(words, tags[:4])


@given(st.lists(NAMES, min_size=2, max_size=3), st.lists(NAMES, min_size=2, max_size=3))
def test_joined_words_stay_distinct(one, other):
    def pairs(words):
        return {f for token in window_features(words) for f in token if f.startswith("w[0]|w[1]")}

    same = set(pairwise(one)) == set(pairwise(other))
    assert (pairs(one) == pairs(other)) == same


def test_shapes_and_spelling():
    assert [word_shape(w) for w in ["", "U.S.", "iPhone11", "ÉCOLE", "a-1"]] == [
        *["", "X.X.", "xXxxdd", "XX", "x-d"]
    ]
    first, second = shape_features(["Rolls-Royce", "1997"])
    assert {"suf4=oyce", "pre4=roll", "hyphen", "capital-first", "first"} <= set(first)
    assert {"lower[-1]|lower[0]=rolls-royce|1997", "digit", "last", "suf[-1]=yce"} <= set(second)
    assert not {"digit", "last"} & set(first)
    assert "pre5=rolls" in shape_features(["Rolls"], affix=5)[0]
