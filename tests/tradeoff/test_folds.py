"""Which rows share a fold is decided by what is in a table, not by how it is laid out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows


def binary():
    rng = np.random.default_rng(0)
    return (rng.random((120, 9)) < 0.4).astype(float), rng.integers(3, size=120)


def gaps():
    X, y = load_wine(return_X_y=True)
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X), y


def whole_numbers():
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(200, 4))), rng.integers(3, size=200)


TABLES = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "binary": binary,
    "gaps": gaps,
    "whole numbers": whole_numbers,
}


def laid_out_anew(X, y, change, rng):
    """Return the table laid out otherwise, and the new place of each row and the new labels."""
    n, d = X.shape
    rows, labels = np.arange(n), np.arange(3)
    if change in ("columns", "all"):
        X = X[:, rng.permutation(d)]
    if change in ("signs", "all"):
        X = X * rng.choice([-1.0, 1.0], d)
    if change in ("units", "all"):
        X = (X + rng.normal(size=d)) * 10.0 ** rng.integers(-3, 4, d)
    if change in ("labels", "all"):
        labels = rng.permutation(3)
    if change in ("rows", "all"):
        rows = rng.permutation(n)
    return X[rows], labels[y[rows]], rows, labels


CHANGES = ["columns", "signs", "units", "labels", "rows", "all"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("grouped", [False, True])
def test_no_change_of_layout_deals_rows_anew(name, change, grouped):
    X, y = TABLES[name]()
    missing = bool(np.isnan(X).any())
    for seed in range(4):
        rng = np.random.default_rng(seed)
        groups = rng.integers(30, size=len(y)) if grouped else None
        other_X, other_y, rows, _ = laid_out_anew(X, y, change, rng)
        names = None if groups is None else rng.permutation(30)[groups][rows]
        one = folds(LabelledRows(X, y, None, 3, missing), 5, groups)[rows]
        other = folds(LabelledRows(other_X, other_y, None, 3, missing), 5, names)
        # The number of a fold means nothing, and equal rows are one as good as the other.
        sorts = np.unique(np.column_stack([X, y])[rows], axis=0, return_inverse=True)[1].ravel()
        held = [np.zeros((5, sorts.max() + 1)) for _ in range(2)]
        for table, fold in zip(held, (one, other), strict=True):
            np.add.at(table, (fold, sorts), 1.0)
        np.testing.assert_array_equal(*(table[np.lexsort(table.T)] for table in held))


@pytest.mark.parametrize(
    ("name", "make"), [("wine", NaiveBayes), ("iris", lambda: GaussianDiscriminant("full"))]
)
def test_no_change_of_layout_changes_a_posterior(name, make):
    X, y = TABLES[name]()
    one = make().fit(X, y).predict_proba(X)
    other_X, other_y, rows, labels = laid_out_anew(X, y, "all", np.random.default_rng(0))
    other = make().fit(other_X, other_y).predict_proba(other_X)
    np.testing.assert_allclose(other[:, labels], one[rows], atol=1e-9)


def test_the_whole_content_of_a_row_counts():
    """Rows that differ in one cell, in the order of columns or in one sign alone lie apart."""
    rng = np.random.default_rng(0)
    X = np.vstack([np.eye(8), -np.eye(8)]) + np.where(np.arange(8) == 3, 0.5, 0.0)
    X = np.vstack([X, rng.normal(size=(8, 8))])
    fold = folds(LabelledRows(X, np.zeros(24, np.int64), None, 1), 24)
    assert np.unique(fold).size == 24


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_numbers_of_any_size_are_dealt(scale):
    X, y = load_iris(return_X_y=True)
    fold = folds(LabelledRows(scale * X, y, None, 3), 5)
    np.testing.assert_array_equal(fold, folds(LabelledRows(X, y, None, 3), 5))


@pytest.mark.parametrize("same", [np.nan, 0.0, 3.5])
def test_a_column_that_is_the_same_in_all_rows_has_no_part(same):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    X[rng.random(X.shape) < 0.2] = np.nan
    wide = np.insert(X, [0, 2, 3], same, axis=1)
    for groups in (None, rng.integers(12, size=40)):
        expected = folds(LabelledRows(X, codes, None, 2), 5, groups)
        found = folds(LabelledRows(wide, codes, None, 2), 5, groups)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(4))
def test_rounding_and_single_rows_deal_hardly_any_row_anew(seed):
    """Of 120 rows, those that change theirs: the row itself, and at most one at each fold's end."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(120, 8)), rng.integers(2, size=120)
    X[:, 5:] = X[:, 5:] > 0
    dealt = folds(LabelledRows(X, y, None, 2), 5)

    def changed(other, rows=slice(None)):
        return int((folds(LabelledRows(other, y[rows], None, 2), 5) != dealt[rows]).sum())

    for rounded in (
        X * (1.0 + 1e-9 * rng.normal(size=X.shape)),
        3.7 * X,
        X - 41.1,
        np.float32(X).astype(np.float64),
    ):
        assert changed(rounded) == 0
    inner = np.flatnonzero((np.abs(X[:, :5]) < np.abs(X[:, :5]).max(axis=0) - 1.0).all(axis=1))[:8]
    assert inner.size > 4
    for row in inner.tolist():
        other = X.copy()
        other[row, 0] += 0.3
        assert changed(other) <= 1 + 4
        assert changed(np.delete(X, row, axis=0), np.delete(np.arange(120), row)) <= 4 * 2
