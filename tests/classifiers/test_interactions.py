"""Columns derived from others: as columns of the table would be, found where they are, not else."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from crossfade import DataError, NaiveBayes, NotADensityError, explain
from crossfade.classifiers.interactions import screened
from crossfade.io import load_model, save_model, to_onnx
from crossfade.table.schema import Schema


def drawn(kind, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 50.0, 0.0, 3.0]
    z = (X - [0.0, 50.0, 0.0, 3.0]) / [1.0, 10.0, 0.1, 1.0]
    odds = {
        "xor": 4 * np.sign(z[:, 1] * z[:, 2]),
        "product": z[:, 0] + 2 * z[:, 1] * z[:, 2],
        "sum": z[:, 0] + z[:, 1],
    }[kind]
    return X, (odds + rng.logistic(size=n) > 0).astype(int)


def products(X, j, k):
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.column_stack([X, z[:, j] * z[:, k]])


# -- equalities ------------------------------------------------------------------------------------


def test_at_1_a_product_is_one_more_column_of_gaussian_naive_bayes():
    X, y = drawn("product")
    found = NaiveBayes("gaussian", tradeoff=1, interactions=[(1, 2)], var_smoothing=0).fit(X, y)
    wide = products(X, 1, 2)
    expected = GaussianNB(var_smoothing=0).fit(wide, y).predict_proba(wide)
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-8)
    assert found.interactions_ == ["x1 × x2"]
    assert len(found.density_report_) == 4


@pytest.mark.parametrize("again", [("b", "a"), ("a", "b"), (0, 1), (1, "a")])
def test_the_same_pair_twice_is_evidence_once(again):
    X, y = drawn("product")
    X = pd.DataFrame(X, columns=list("abcd"))
    found = [
        NaiveBayes(tradeoff=1, interactions=[("a", "b"), *more]).fit(X, y) for more in ([], [again])
    ]
    assert found[0].interactions_ == found[1].interactions_ == ["a × b"]
    np.testing.assert_array_equal(*(one.predict_proba(X) for one in found))


def test_at_0_it_is_one_of_logistic_regression():
    X, y = drawn("product")
    found = NaiveBayes("gaussian", tradeoff=0, shared_variance=True, interactions=[(1, 2)])
    wide = products(X, 1, 2)
    wide = (wide - wide.mean(axis=0)) / wide.std(axis=0)
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(wide, y).predict_proba(wide)
    np.testing.assert_allclose(found.fit(X, y).predict_proba(X), expected, atol=1e-5)


def test_two_categories_are_one_more_of_categorical_naive_bayes():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(400, 2))
    y = (codes[:, 0] == codes[:, 1]).astype(int) ^ (rng.random(400) < 0.1)
    table = pd.DataFrame(np.array(["a", "b", "c"])[codes], columns=["left", "right"])
    found = NaiveBayes(tradeoff=1, interactions=[("left", "right")]).fit(table, y)
    wide = np.column_stack([codes, 3 * codes[:, 0] + codes[:, 1]])
    expected = CategoricalNB().fit(wide, y).predict_proba(wide)
    np.testing.assert_allclose(found.predict_proba(table), expected, rtol=1e-8)
    # Equal rows share a fold, which then says nothing of its own pairs: no two are equal here.
    wider = table.assign(noise=rng.normal(size=400))
    assert NaiveBayes(interactions="auto").fit(wider, y).interactions_ == ["left × right"]


def test_weights_are_repetitions_units_do_not_matter_and_missing_cells_are_left_out():
    X, y = drawn("xor", 200)
    X[::9, 1] = np.nan
    weights = np.random.default_rng(1).integers(0, 3, len(y))
    model = NaiveBayes(interactions="auto")
    one = clone(model).fit(X, y, sample_weight=weights)
    other = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    moved = clone(model).fit(1000 * X - 3, y, sample_weight=weights)
    assert one.interactions_ == other.interactions_ == moved.interactions_ == ["x1 × x2"]
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(one.predict_proba(X), moved.predict_proba(1000 * X - 3), atol=1e-4)
    assert np.isfinite(one.predict_log_proba(X)).all()


# -- what is found ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["xor", "product"])
def test_what_is_there_is_found_and_foretells_fresh_rows(kind):
    column = "x1 × x2"
    X, y = drawn(kind, 600)
    fresh, labels = drawn(kind, 10_000, seed=1)
    plain, found = NaiveBayes().fit(X, y), NaiveBayes(interactions="auto").fit(X, y)
    assert found.interactions_[0].startswith(column)
    assert found.interaction_tests_[0]["column"].startswith(column)
    losses = [-m.predict_log_proba(fresh)[np.arange(10_000), labels].mean() for m in (plain, found)]
    assert losses[1] < losses[0] - 0.02
    said = re.search(
        r"; (\d+) derived columns taken of (\d+) tested: ([-+.\d]+) in out-of-fold log-loss "
        r"\(standard error ([.\d]+)\)$",
        found.selection_,
    )
    assert int(said[1]) == len(found.interactions_)
    assert float(said[3]) == pytest.approx(losses[1] - losses[0], abs=4 * float(said[4]))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_is_not_there_is_not_and_the_model_is_the_one_without(whole_choice, seed):
    X, y = drawn("sum", seed=seed)
    found = NaiveBayes(interactions="auto").fit(X, y)
    assert found.interactions_ == []
    assert len(found.interaction_tests_) == 6
    assert re.search(
        r"; no derived columns: (none of \d+ tested can be told from chance"
        r"|the \d+ that tests ask for would be worth [-+.\d]+ in out-of-fold log-loss)",
        found.selection_,
    )
    plain = NaiveBayes().fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(X))


@pytest.mark.slow
def test_p_values_of_nothing_are_uniform():
    p_values = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(rng.normal(size=(250, 3)), columns=list("abc"))
        table["d"], table["e"] = rng.choice(list("xyz"), 250), rng.choice(list("uv"), 250)
        posterior = rng.dirichlet([2.0, 2.0, 2.0], size=250)
        codes = np.array([rng.choice(3, p=p) for p in posterior])
        schema = Schema.learn(table)
        matrix = schema.encode(table)
        tests = screened(matrix, schema, codes, posterior, None, alone=False)
        p_values.append([tests[0].p_value, np.median([one.p_value for one in tests])])
        found = {one.derived: one.p_value for one in tests}
        p_values[-1] = [found[one] for one in sorted(found)]
    for each in np.array(p_values).T:
        assert stats.kstest(each, "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_the_reported_loss_is_honest_where_columns_are_looked_for():
    told, fresh = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1200, 12)), rng.integers(2, size=1200)
        fold = np.arange(200) % 5
        model = NaiveBayes(interactions=3)
        held = model.fit_out_of_fold(X[:200], y[:200], None, None, fold)
        told.append(-held[np.arange(200), y[:200]].mean())
        fresh.append(-model.predict_log_proba(X[200:])[np.arange(1000), y[200:]].mean())
        assert len(model.interactions_) == 3
    assert np.mean(told) / np.mean(fresh) == pytest.approx(1.0, abs=0.03)


# -- the rest of a classifier's life ---------------------------------------------------------------


def test_explanations_add_up_and_files_keep_the_columns(tmp_path):
    X, y = drawn("product")
    model = NaiveBayes(interactions=[(1, 2)]).fit(X, y)
    found = explain(model, X[:20])
    assert found.contributions.shape == (20, 4, 2)
    np.testing.assert_allclose(
        found.log_odds(1)[0] + found.log_odds(1)[1].sum(axis=1),
        model.decision_function(X[:20]),
        rtol=1e-8,
    )
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops").estimator
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for refused in (
        lambda: to_onnx(model),
        lambda: clone(model).set_params(tradeoff=1).partial_fit(X, y),
    ):
        with pytest.raises(DataError, match=r"interactions: |without interactions and thresholds"):
            refused()
    with pytest.raises(NotADensityError, match="interactions, thresholds: with derived columns"):
        model.joint_log_likelihood(X)


def test_derived_columns_are_told_apart_from_columns_that_are_called_so(tmp_path):
    """Whatever columns are called, the model is the one of plain names."""
    X, y = drawn("product")
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    derived = {"interactions": [(0, 1), (2, 3)], "thresholds": {0: [0.0, 1e-9], 1: [0.5]}}
    names = ["a", "b", "a × b", "a > 0", "b > 0.5"]
    model = NaiveBayes(tradeoff=0.5, **derived)
    renamed = pd.DataFrame(X, columns=list("abcde"))
    plain = clone(model).fit(renamed, y)
    table = pd.DataFrame(X, columns=names)
    model.fit(table, y)
    told = [*model.interactions_, *model.thresholds_]
    assert told == [
        "a × b (derived)",
        "'a × b' × 'a > 0'",
        "a > 0 (derived)",
        "a > 1e-09",
        "b > 0.5 (derived)",
    ]
    assert len({*names, *told}) == 10
    np.testing.assert_array_equal(model.predict_proba(table), plain.predict_proba(renamed))
    summary, expected = model.summary(), plain.summary()
    assert [test.column for test in summary.tests] == [*names, *told]
    assert [test.p_value for test in summary.tests] == [test.p_value for test in expected.tests]
    assert len(set(summary.terms)) == len(summary.terms)
    assert explain(model, table).columns == tuple(names)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops").estimator
    assert again.interactions_ + again.thresholds_ == told
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))


@pytest.mark.parametrize("make", [np.array, tuple, pd.Series, pl.Series])
def test_pairs_and_places_are_given_in_any_sequence(make):
    X, y = drawn("product")
    lists, others = (
        NaiveBayes(tradeoff=0.5, interactions=[of([0, 1])], thresholds={0: of([0.5, 1.0])})
        for of in (list, make)
    )
    lists.fit(X, y)
    others.fit(X, y)
    np.testing.assert_array_equal(others.predict_proba(X), lists.predict_proba(X))
    assert others.thresholds_ == lists.thresholds_


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("all", "expected None, 'auto', a number of at least 1 or pairs"),
        (0, "expected None, 'auto', a number"),
        (True, "expected None, 'auto', a number"),
        ([1, 2], "expected None, 'auto', a number"),
        ([("a", "a")], "pairs of two columns, got .*one column twice"),
        ([("a", 0)], "one column twice"),
        (np.array([0, 1]), "^interactions: expected None, 'auto', a number"),
        ({(0, 1)}, "^interactions: expected None, 'auto', a number"),
        ([("a", "b")], "^interactions: expected a column of X, got 'b'"),
        ([(0, 9)], "^interactions: expected a column name or an index from 0 to 1, got 9"),
        ([("a", "kind")], "a number and a category; cut the number"),
    ],
)
def test_what_cannot_be_used_is_refused(given, message):
    table = pd.DataFrame({"a": np.arange(30.0) ** 1.5, "kind": ["x", "y", "z"] * 10})
    with pytest.raises(DataError, match=message):
        NaiveBayes(interactions=given).fit(table, np.arange(30) % 2)
    with pytest.raises(DataError, match="which needs tradeoff 'auto' or 'best'"):
        NaiveBayes(tradeoff=1, interactions="auto").fit(table, np.arange(30) % 2)
