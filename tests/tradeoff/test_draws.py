"""Equal rows of a table of few values are draws, held out one by one; copies of a row are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier

from crossfade import GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.table.source import MemorySource
from crossfade.tradeoff.folds import drawn_one_by_one, folds
from crossfade.tradeoff.labelled_rows import LabelledRows


def few_values(n=150, n_columns=2, n_values=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(n_values, size=(n, n_columns)).astype(float)
    return X, (rng.random(n) < np.where(X[:, 0] > 0, 0.8, 0.2)).astype(int)


def held(X, y, weights, n_folds):
    """Return the weight of each sort of row in each fold, whatever folds are called."""
    fold = folds(LabelledRows(X, y, weights, 2), n_folds)
    sorts = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)[1].ravel()
    table = np.zeros((n_folds, sorts.max() + 1))
    np.add.at(table, (fold, sorts), 1.0 if weights is None else weights)
    return table[np.lexsort(table.T)]


@pytest.mark.parametrize("n_columns", [1, 2, 4])
@pytest.mark.parametrize("n_folds", [3, 5, 10])
def test_draws_are_dealt_evenly(n_columns, n_folds):
    X, y = few_values(n_columns=n_columns)
    table = held(X, y, None, n_folds)
    assert (np.ptp(table, axis=0) <= 1.0).all()
    assert np.ptp(table.sum(axis=1)) <= 2.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, columns = rng.permutation(len(y)), rng.permutation(n_columns)
        fold = folds(LabelledRows(3.0 * X[rows][:, columns] - 1.0, 1 - y[rows], None, 2), n_folds)
        sorts = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)[1].ravel()[rows]
        other = np.zeros_like(table)
        np.add.at(other, (fold, sorts), 1.0)
        np.testing.assert_array_equal(other[np.lexsort(other.T)], table)


@pytest.mark.parametrize("n_folds", [5, 10])
def test_a_weight_is_dealt_as_equal_rows_are(n_folds):
    X, y = few_values(60)
    weights = np.random.default_rng(1).integers(1, 40, size=60).astype(float)
    each = np.repeat(np.arange(60), weights.astype(int))
    index, share = drawn_one_by_one(LabelledRows(X, y, weights, 2))
    np.testing.assert_allclose(np.bincount(index, weights[index] * share), weights)
    found = held(X[index], y[index], weights[index] * share, n_folds)
    np.testing.assert_allclose(found, held(X[each], y[each], None, n_folds))


def test_copies_share_a_fold():
    """As of a table whose rarer class was drawn with replacement."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    each = np.repeat(np.arange(60), np.where(y == 1, 4, 1))
    fold = folds(LabelledRows(X[each], y[each], None, 2), 5)
    assert all(np.ptp(fold[each == i]) == 0 for i in range(60))
    assert drawn_one_by_one(LabelledRows(X, y, np.where(y == 1, 4.0, 1.0), 2)) is None


@pytest.mark.parametrize(
    "make",
    [
        NaiveBayes,
        lambda: NaiveBayes("categorical"),
        lambda: NaiveBayes(tradeoff="best"),
        lambda: GaussianDiscriminant("full", tradeoff="auto"),
        lambda: PooledClassifier(
            [("nb", NaiveBayes()), ("forest", RandomForestClassifier(20, random_state=0))]
        ),
    ],
    ids=["nb", "categories", "best", "discriminant", "pool"],
)
def test_what_a_column_says_is_not_lost(make):
    """Of a single column of two values the shares of the classes beside each are the answer."""
    X, y = few_values(n_columns=1)
    weights = np.random.default_rng(0).integers(1, 4, size=len(y))
    shares = [
        np.average(y[X[:, 0] == value], weights=weights[X[:, 0] == value]) for value in (0, 1)
    ]
    fitted = make().fit(X, y, sample_weight=weights).predict_proba([[0.0], [1.0]])[:, 1]
    np.testing.assert_allclose(fitted, shares, atol=0.04)
    each = np.repeat(np.arange(len(y)), weights)
    again = make().fit(X[each], y[each]).predict_proba([[0.0], [1.0]])[:, 1]
    np.testing.assert_allclose(fitted, again, atol=0.02 if "Pool" in str(make()) else 1e-6)


@pytest.mark.parametrize("density", ["auto", "text"])
@pytest.mark.parametrize("tradeoff", ["auto", "best"])
@pytest.mark.parametrize("n_levels", [2, 8, 14])
def test_levels_that_tell_the_class_do_so_where_it_is_chosen(density, tradeoff, n_levels):
    """Were all rows of a level held out together, nothing would be learnt about it."""
    levels = np.array([f"w{'abcdefghijklmn'[k]}" for k in range(n_levels)])
    of_level = np.arange(n_levels) % 2
    row = np.random.default_rng(0).permutation(np.arange(25 * n_levels) % n_levels)
    X, y = pd.DataFrame({"said": levels[row]}), of_level[row]
    found = NaiveBayes(density, tradeoff=tradeoff).fit(X, y).predict_proba(X)
    assert found[np.arange(len(y)), y].min() > 0.9
    sorts, often = np.unique(row, return_counts=True)
    rows = pd.DataFrame({"said": levels[sorts]}), of_level[sorts]
    again = NaiveBayes(density, tradeoff=tradeoff).fit(*rows, sample_weight=often.astype(float))
    np.testing.assert_allclose(again.predict_proba(X), found, atol=1e-6)


def test_weights_in_a_source_are_those_of_the_table():
    X, y = few_values(120)
    weights = np.random.default_rng(0).integers(1, 6, size=len(y))
    table = pl.DataFrame({"a": X[:, 0] > 0, "b": X[:, 1] > 0, "y": y, "often": weights})
    source = MemorySource(table, size=50)
    fitted = NaiveBayes(tradeoff="best").fit(source, "y", sample_weight="often")
    own = table.select("a", "b")
    whole = NaiveBayes(tradeoff="best").fit(own, y, sample_weight=weights)
    np.testing.assert_allclose(fitted.predict_proba(own), whole.predict_proba(own), atol=1e-6)


@pytest.mark.parametrize("kinds", ["text text", "text bool", "bool bool"])
def test_interactions_of_two_values_are_found(kinds):
    X, _ = few_values(400)
    y = ((X[:, 0] != X[:, 1]) ^ (np.random.default_rng(1).random(400) < 0.2)).astype(int)
    columns = [
        column > 0 if kind == "bool" else np.where(column > 0, "yes", "no")
        for column, kind in zip(X.T, kinds.split(), strict=True)
    ]
    table = pd.DataFrame(dict(zip("ab", columns, strict=True)))
    fitted = NaiveBayes(interactions="auto").fit(table, y)
    assert fitted.interactions_ == ["a × b"]
    shares = [y[(cell == X).all(axis=1)].mean() for cell in X]
    np.testing.assert_allclose(fitted.predict_proba(table)[:, 1], shares, atol=0.05)


@pytest.mark.parametrize(("n", "atol"), [(3_000, 1e-6), (6_000, 1e-3)])
@pytest.mark.parametrize("make", [NaiveBayes, lambda: NaiveBayes(tradeoff="best")])
def test_the_order_of_many_rows_does_not_choose(make, n, atol):
    """Of many rows some are left out one by one: those that their contents say."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n) > 1.0).astype(int)
    one = make().fit(X, y).predict_proba(X)
    for order in (rng.permutation(n), np.lexsort((X[:, 1], y))):
        columns = rng.permutation(3)
        other = make().fit(X[order][:, columns], 1 - y[order]).predict_proba(X[:, columns])
        np.testing.assert_allclose(other[:, ::-1], one, atol=atol)


def test_columns_of_hardly_more_than_two_values_have_one_density_however_rows_lie():
    X, y = few_values(150, 4, seed=3)
    X[7] = 2.0  # two alone would be booleans by type
    one = NaiveBayes().fit(X, y)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(150)
        other = NaiveBayes().fit(X[order], y[order])
        found = [[c["density"] for c in m.density_report_] for m in (one, other)]
        assert found[0] == found[1]
        assert {"categorical", "gaussian"} <= set(found[0])
