"""Ng & Jordan (2001): the fifteen problems, and how the rows needed grow."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade.blocks import threads
from crossfade.errors import DataError
from reproduction import Settings, ng_jordan, regimes
from reproduction.base import short
from reproduction.data import Table, read_source

#: Rows of each class and columns, by problem, as the sources document them.
SHAPES = {
    "pima": (500, 268, 8),
    "boston": (256, 250, 13),
    "optdigits 0/1": (554, 571, None),
    "optdigits 2/3": (557, 572, None),
    "ionosphere": (126, 225, 33),
    "liver": (145, 200, 6),
    "sonar": (111, 97, 60),
    "promoters": (53, 53, 57),
    "lymphography": (81, 61, 18),
    "breast cancer": (201, 85, 9),
    "lenses": (4, 5, 3),
    "sick": (3541, 231, 21),
    "voting": (267, 168, 16),
}


def test_there_are_fifteen_problems():
    assert len(ng_jordan.PROBLEMS) == 15
    assert sum(problem.continuous for problem in ng_jordan.PROBLEMS) == 8


@pytest.mark.parametrize("problem", ng_jordan.PROBLEMS, ids=lambda problem: problem.name)
def test_the_problems_inputs(problem, shared_data):
    table = read_source(problem.source, shared_data)
    X, y = ng_jordan.inputs(problem, table, np.random.default_rng(0))
    assert not np.isnan(X).any()
    assert set(y.tolist()) == {0, 1}
    if problem.name in SHAPES:
        first, second, n_columns = SHAPES[problem.name]
        assert_array_equal(np.bincount(y), [first, second])
        assert n_columns in (None, X.shape[1])
    else:
        assert y.size == 4000
    if problem.continuous:
        assert X.min(axis=0).tolist() == [0.0] * X.shape[1]
        assert X.max(axis=0).tolist() == [1.0] * X.shape[1]
    else:
        for column in X.T:
            levels = np.unique(column)
            assert_array_equal(levels, np.arange(levels.size))
            assert levels.size > 1


def test_the_answer_is_not_among_the_inputs_and_may_be_the_target():
    problem = next(one for one in ng_jordan.PROBLEMS if one.name == "boston")
    rooms, medv = np.array([4.0, 5.0, 6.0, 7.0]), np.array([10.0, 20.0, 30.0, 40.0])
    words = np.array(["low", "low", "high", "high"])
    plain = Table(("rm",), rooms[:, None], np.array([False]), medv)
    beside = Table(("MEDV", "rm"), np.column_stack([medv, rooms]), np.array([False] * 2), words)
    for table in (plain, beside):
        X, y = ng_jordan.inputs(problem, table, np.random.default_rng(0))
        assert_array_equal(y, [0, 0, 1, 1])
        assert_allclose(X, (rooms[:, None] - 4.0) / 3.0)


def test_classes_that_are_not_there():
    problem = next(one for one in ng_jordan.PROBLEMS if one.name == "lenses")
    table = Table(("a",), np.zeros((2, 1)), np.array([True]), np.array(["soft", "none"]))
    with pytest.raises(DataError, match="expected the classes 'hard' and 'soft'"):
        ng_jordan.inputs(problem, table, np.random.default_rng(0))


def test_curves_become_a_table(monkeypatch, shared_data):
    chosen = tuple(one for one in ng_jordan.PROBLEMS if one.name in ("lenses", "voting"))
    monkeypatch.setattr(ng_jordan, "PROBLEMS", chosen)
    reported = []
    settings = Settings(4, data=shared_data, progress=lambda *at: reported.append(at))
    outcome = ng_jordan.run(settings)
    assert outcome.columns == ("problem", "m", "model", "error", "standard_error")
    assert reported[-1] == (8, 8, "voting")
    assert {row[2] for row in outcome.records} == {"naive Bayes", "logistic regression"}
    assert sum(map(len, outcome.facts["regimes"].values())) == 2
    assert ng_jordan.run(settings).records == outcome.records


@pytest.mark.slow
def test_the_classifier_of_least_training_error_takes_part_where_asked(monkeypatch, shared_data):
    chosen = tuple(one for one in ng_jordan.PROBLEMS if one.name in ("liver", "voting"))
    monkeypatch.setattr(ng_jordan, "PROBLEMS", chosen)
    plain = ng_jordan.run(Settings(2, data=shared_data))
    asked = ng_jordan.run(Settings(2, data=shared_data, zero_one=True))
    found = [row for row in asked.records if row[2] == ng_jordan.ZERO_ONE]
    assert len(found) == len(plain.records) // 2
    assert [row for row in asked.records if row not in found] == list(plain.records)
    assert asked.facts["regimes"] == plain.facts["regimes"]
    assert asked.sections[0] == plain.sections[0]
    assert asked.sections[1].rows[1][4] == short(found[-1][3])
    assert json.dumps(asked.chart().to_dict()).count("least training error") > 1
    # With many rows it is better than guessing.
    assert 0.0 < min(row[3] for row in found) < max(row[3] for row in found[-4:]) < 0.5


# -- growth --------------------------------------------------------------------------------------


def test_excess_error_is_that_of_many_rows():
    rng = np.random.default_rng(0)
    X, codes = regimes.draw(3, 400_000, rng)
    slopes, intercept = np.array([1.0, 0.2, -0.3]), 0.4

    def error(w, b):
        return ((X @ w + b > 0) != (codes == 1)).mean()

    expected = error(slopes, intercept) - error(np.ones(3), 0.0)
    assert abs(regimes.excess_error(slopes, intercept) - expected) < 0.003
    assert regimes.excess_error(np.full(3, 2.0), 0.0) == pytest.approx(0.0, abs=1e-15)
    assert regimes.excess_error(-np.ones(3), 0.0) > 0.4


@pytest.mark.slow
def test_rows_needed_grow_as_the_paper_says(monkeypatch):
    monkeypatch.setattr(regimes, "N_FEATURES", (4, 16, 64))
    with threads(1):
        outcome = regimes.run(Settings(20))
    found = {what: [r[2] for r in outcome.records if r[1] == what] for what in regimes.WHAT}
    estimates, generative, discriminative = (np.array(found[what]) for what in regimes.WHAT)
    # Four times the features: four times the rows for one, a constant more or none for the other.
    assert_allclose(discriminative[1:] / discriminative[:-1], 4.0, rtol=0.3)
    assert (np.diff(estimates) > 0).all()
    assert estimates[2] / estimates[1] < 2.0
    assert generative.max() < 20
