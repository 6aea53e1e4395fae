from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from crossfade.errors import DataError
from crossfade.tagging.metrics import chunks, evaluate_tags

TAGS = ["O", *(f"{p}-{k}" for p in "BIES" for k in ("NP", "A-B"))]


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_chunks_are_seqevals(tags):
    assert chunks(tags) == get_entities(tags)


@given(st.lists(st.lists(st.tuples(*[st.sampled_from(TAGS)] * 2), max_size=8), max_size=4))
@pytest.mark.filterwarnings("ignore")
def test_scores_are_seqevals(sentences):
    true = [[a for a, _ in s] for s in sentences]
    found = [[b for _, b in s] for s in sentences]
    report = evaluate_tags(true, found)
    if not any(true):
        assert report.accuracy != report.accuracy
        return
    assert report.accuracy == accuracy_score(true, found)
    if report.chunks_overall is None:
        assert {tag for s in true + found for tag in s} == {"O"}
        return
    if report.chunks_overall.true and report.chunks_overall.found:
        for name, score in (
            ("precision", precision_score),
            ("recall", recall_score),
            ("f1", f1_score),
        ):
            assert getattr(report.chunks_overall, name) == pytest.approx(
                float(score(true, found)), abs=1e-12
            )


def test_a_report_by_hand():
    true = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP"]]
    found = [["B-NP", "I-NP", "B-NP", "B-VP"], ["I-VP"]]
    report = evaluate_tags(true, found)
    assert report.accuracy == 0.6
    assert [(c.name, c.true, c.found, c.right) for c in report.chunks] == [
        ("NP", 2, 2, 1),
        ("VP", 1, 2, 1),
    ]
    assert report.chunks_overall.f1 == pytest.approx(4 / 7)
    assert [(c.name, c.true, c.found, c.right) for c in report.tags][:2] == [
        ("B-NP", 2, 2, 1),
        ("B-VP", 1, 1, 1),
    ]
    assert report.to_dict()["chunks"][1]["precision"] == 0.5
    lines = str(report).splitlines()
    assert lines[0] == "accuracy 60.00% (3 of 5 tokens)"
    assert lines[2:6] == [
        "chunk    precision  recall     F1    true   found",
        "NP         50.00%   50.00%  50.00%      2       2",
        "VP         50.00%  100.00%  66.67%      1       2",
        "overall    50.00%   66.67%  57.14%      3       4",
    ]


def test_parts_of_speech_have_no_chunks():
    report = evaluate_tags([["DT", "NN"]], [["DT", "VB"]])
    assert report.chunks is None
    assert report.to_dict()["chunks"] is None
    assert "chunk" not in str(report)


def test_misaligned_tags_are_refused():
    with pytest.raises(DataError, match="found: expected tags for 1 sentence, got 2; align them"):
        evaluate_tags([["O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match="found: expected 2 tags in sentence 1, got 1; give every"):
        evaluate_tags([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(DataError, match=r"expected 'O' or a tag like 'B-NP'.* got 'NN'"):
        chunks(["NN"])
