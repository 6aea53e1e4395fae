"""Moments of all rows, whatever their class: the same for every layout of the same table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from crossfade.densities.filling import (
    Conditional,
    class_free_moments,
    conditional_means,
    left_over,
)
from crossfade.table.contents import drawn_by_contents


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 4)) @ rng.normal(size=(4, 4)) + [0.0, 10.0, -3.0, 1e3]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def test_neither_order_nor_units_nor_repetition_matters(rows):
    rng = np.random.default_rng(1)
    n, d = rows.shape
    mean, C = class_free_moments(rows, None)
    order, columns = rng.permutation(n), rng.permutation(d)
    factor, shift = np.array([2.0, -0.5, 8.0, 4.0]), np.array([1.0, -7.0, 0.0, 256.0])
    often = rng.integers(1, 4, size=n)
    for X, weights, expected in (
        (rows[order], None, (mean, C)),
        (rows[:, columns], None, (mean[columns], C[np.ix_(columns, columns)])),
        (rows * factor + shift, None, (mean * factor + shift, C * np.outer(factor, factor))),
        (np.tile(rows, (3, 1)), None, (mean, C)),
        (np.repeat(rows, often, axis=0), None, class_free_moments(rows, often.astype(float))),
    ):
        found = class_free_moments(X, weights)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7 * np.abs(other).max())


def test_some_rows_stand_for_all(rows):
    drawn = drawn_by_contents(rows, 2_000)
    assert 1_990 <= drawn.size <= 2_010
    # Few different rows are all there.
    few = np.round(np.random.default_rng(0).random((9_000, 2)) * 3)
    assert drawn_by_contents(few, 2_000).size == 9_000
    mean, C = class_free_moments(rows, None)
    complete = rows[~np.isnan(rows).any(axis=1)]
    spread = np.sqrt(np.diagonal(C))
    np.testing.assert_allclose(mean / spread, complete.mean(axis=0) / spread, atol=0.1)
    np.testing.assert_allclose(
        C / np.outer(spread, spread), np.cov(complete.T) / np.outer(spread, spread), atol=0.12
    )


@pytest.mark.parametrize("missing", range(1, 8))
def test_regressions_are_those_of_the_present_columns_however_many_are_missing(missing):
    rng = np.random.default_rng(missing)
    d, mean = 7, rng.normal(size=7)
    root = rng.normal(size=(d, d))
    C = root @ root.T + np.eye(d)
    X = rng.normal(size=(30, d))
    weights = rng.integers(0, 3, size=(30, 2)).astype(float)
    expected, left = X.copy(), np.zeros((2, d, d))
    for i in range(30):
        gone = rng.permutation(d)[:missing]
        here = np.setdiff1d(np.arange(d), gone)
        X[i, gone] = np.nan
        slopes = np.linalg.solve(C[np.ix_(here, here)], C[np.ix_(here, gone)])
        expected[i, gone] = mean[gone] + (X[i, here] - mean[here]) @ slopes
        rest = C[np.ix_(gone, gone)] - C[np.ix_(gone, here)] @ slopes
        for k in range(2):
            left[k][np.ix_(gone, gone)] += weights[i, k] * rest
    np.testing.assert_allclose(conditional_means(X, mean, C), expected, atol=1e-6)
    np.testing.assert_allclose(left_over(X, C, weights), left, atol=1e-6 * np.abs(left).max())


def test_variants_share_one_em_and_other_rows_or_weights_do_not():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    first = class_free_moments(X, None)
    assert class_free_moments(X.copy(), None)[1] is first[1]
    doubled = class_free_moments(X, 1.0 + np.arange(40.0))
    assert not np.allclose(doubled[1], first[1])
    moved = X.copy()
    moved[~np.isnan(moved)] += 1.0
    assert not np.allclose(class_free_moments(moved, None)[0], first[0])


@pytest.mark.parametrize(("n", "d"), [(400, 3), (40, 9), (20, 1)])
def test_densities_of_the_present_cells_are_scipys_whether_rows_share_a_pattern_or_not(n, d):
    rng = np.random.default_rng(d)
    roots, means = rng.normal(size=(2, d, d + 1)), rng.normal(size=(2, d))
    C, X = roots @ roots.swapaxes(1, 2), rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.4] = np.nan
    X[:2] = np.nan
    found = [Conditional.of(X, m, c).log_densities() for m, c in zip(means, C, strict=True)]
    for i, values in enumerate(np.transpose(found)):
        own = np.flatnonzero(~np.isnan(X[i]))
        expected = [
            multivariate_normal(m[own], c[np.ix_(own, own)]).logpdf(X[i, own]) if own.size else 0.0
            for m, c in zip(means, C, strict=True)
        ]
        units = 0.5 * own.size * np.log(2.0 * np.pi)
        np.testing.assert_allclose(values - units, expected, rtol=1e-9, atol=1e-9)


def test_columns_that_never_vary_leave_missing_cells_no_variance():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 1], X[::7, 1] = 3.0, np.nan
    mean, C = class_free_moments(X, None)
    assert mean[1] == 3.0
    assert not C[1].any()


@pytest.mark.parametrize("value", [3.7, 0.1, -1e5 / 3, 1e-20, 1.7e9 + 0.1])
def test_what_never_varies_changes_no_moment_of_others_whatever_sums_round_to(value):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    still = np.where(rng.random(80) < 0.1, np.nan, value)
    weights = rng.random(80)
    mean, C = class_free_moments(np.column_stack([X, still]), weights)
    alone = class_free_moments(X, weights)
    assert mean[3] == value
    assert not C[3].any()
    np.testing.assert_allclose(mean[:3], alone[0], rtol=1e-12)
    np.testing.assert_allclose(C[:3, :3], alone[1], rtol=1e-12)
