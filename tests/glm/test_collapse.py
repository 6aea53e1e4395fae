"""Rows by subject and by covariate class: the same estimate, the views told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from crossfade.errors import DataError
from crossfade.glm import BinomialRegression, collapse
from crossfade.glm.kernels import count_rows, count_rows_numpy


def forty_trials():
    """Twenty subjects' covariates (of five kinds), two trials each."""
    rng = np.random.default_rng(0)
    kinds = np.array([[1, 1], [1, 2], [2, 1], [2, 2], [3, 1]], dtype=float)
    X = np.repeat(kinds[rng.integers(0, 5, 20)], 2, axis=0)
    y = rng.integers(0, 2, 40)
    return X, y


def test_the_lectures_table():
    """Table 14.1: subjects 1, 3 and 5 are in one covariate class."""
    rows = collapse([[1, 1], [1, 2], [1, 1], [2, 1], [1, 1]], [1, 0, 1, 1, 0])
    assert rows.X.tolist() == [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]]
    assert rows.trials.tolist() == [3, 1, 1]
    assert rows.successes.tolist() == [2, 0, 1]


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_both_views_of_forty_trials(link):
    X, y = forty_trials()
    subjects = BinomialRegression(link, tol_digits=11).fit(X, y)
    rows = collapse(X, y)
    classes = BinomialRegression(link, tol_digits=11).fit(
        rows.X, rows.successes, trials=rows.trials
    )
    np.testing.assert_allclose(classes.coef_, subjects.coef_, rtol=1e-10)
    np.testing.assert_allclose(classes.intercept_, subjects.intercept_, rtol=1e-9)
    np.testing.assert_allclose(classes.covariance_, subjects.covariance_, rtol=1e-9)
    # The likelihoods differ by the combinations, which have no coefficient in them.
    np.testing.assert_allclose(
        classes.log_likelihood_ - subjects.log_likelihood_, rows.log_combinations, rtol=1e-10
    )
    # Residual degrees of freedom and deviance belong to the view: 40 trials or 5 classes.
    assert subjects.df_residual_ == 40 - 3
    assert classes.df_residual_ == len(rows.X) - 3 == 2
    assert subjects.deviance_ > classes.deviance_
    np.testing.assert_allclose(subjects.deviance_, -2.0 * subjects.log_likelihood_, rtol=1e-12)
    # Differences of deviance, and so all tests, agree.
    np.testing.assert_allclose(
        subjects.null_deviance_ - subjects.deviance_,
        classes.null_deviance_ - classes.deviance_,
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        subjects.likelihood_ratio_test("x1").statistic,
        classes.likelihood_ratio_test("x1").statistic,
        rtol=1e-8,
    )


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, 1e300]),
    ),
    st.randoms(use_true_random=False),
)
def test_kernel_and_twin(X, random):
    y = np.array([float(random.randint(0, 3)) for _ in X])
    trials = y + np.array([float(random.randint(0, 3)) for _ in X])
    for occasions in (trials, np.zeros(0)):
        results = []
        for function in (count_rows, count_rows_numpy):
            table, first = np.empty(128, dtype=np.int32), np.empty(len(X), dtype=np.int64)
            sums = np.zeros((len(X), 2))
            number = function(np.ascontiguousarray(X), y, occasions, table, first, sums)
            results.append((number, first[:number].tolist(), sums[:number].tolist()))
        assert results[0] == results[1]
        assert function(X, y, occasions, table, first[:0], sums[:0]) == -1
    broken = X.copy()
    broken[-1, 0] = np.nan
    for function in (count_rows, count_rows_numpy):
        assert function(broken, y, trials, table, first, sums) == -2


@pytest.mark.parametrize(
    ("dtype", "order"),
    [(np.float64, "C"), (np.float64, "F"), (np.float32, "F"), (np.int64, "C"), (bool, "F")],
)
def test_many_rows_of_any_type(dtype, order):
    rng = np.random.default_rng(1)
    X = np.asarray(rng.integers(0, 6, size=(70_000, 3)).astype(dtype), order=order)
    X.flags.writeable = False
    y = rng.integers(0, 2, len(X)).astype(bool)
    rows = collapse(X, y)
    distinct, index = np.unique(X.astype(float), axis=0, return_inverse=True)
    place = {tuple(row): i for i, row in enumerate(distinct.tolist())}
    order_of = [place[tuple(row)] for row in rows.X.astype(float).tolist()]
    np.testing.assert_array_equal(rows.trials, np.bincount(index.ravel())[order_of])
    np.testing.assert_array_equal(rows.successes, np.bincount(index.ravel(), weights=y)[order_of])
    # The order is that of first appearance.
    seen = list(dict.fromkeys(map(tuple, X[:500].tolist())))
    assert list(map(tuple, rows.X.tolist()))[: len(seen)] == seen


def test_more_distinct_rows_than_expected_at_first():
    rng = np.random.default_rng(2)
    X = rng.permutation(np.repeat(np.arange(30_000.0), 2))[:, None]
    rows = collapse(X, rng.integers(0, 2, len(X)))
    assert len(rows.X) == 30_000
    assert (rows.trials == 2).all()


def test_frames_keep_their_kind_and_names():
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    columns = {"town": ["a", "b", "a", "a"], "dose": [1.0, 2.0, 1.0, 2.0]}
    for module in (pl, pd):
        rows = collapse(module.DataFrame(columns), ["no", "yes", "yes", "no"])
        assert isinstance(rows.X, module.DataFrame)
        assert list(rows.X.columns) == ["town", "dose"]
        assert rows.X["town"].to_list() == ["a", "b", "a"]
        assert rows.labels.tolist() == ["no", "yes"]
        assert rows.successes.tolist() == [1, 1, 0]
    numbers = collapse(pl.DataFrame({"dose": [1, 2, 1]}), [1, 3, 2], trials=[4, 4, 4])
    assert numbers.X["dose"].to_list() == [1, 2]
    assert numbers.successes.tolist() == [3, 3]
    assert numbers.trials.tolist() == [8, 4]


def test_missing_cells_are_refused():
    with pytest.raises(DataError, match="X: column 1: expected a number in every cell, got NaN"):
        collapse(np.array([[1.0, np.nan], [1.0, 2.0]]), [0, 1])
    pl = pytest.importorskip("polars")
    with pytest.raises(
        DataError, match="X: column 'town': expected a value in every cell, got 1 missing"
    ):
        collapse(pl.DataFrame({"town": ["a", None, "b"]}), [0, 1, 1])
