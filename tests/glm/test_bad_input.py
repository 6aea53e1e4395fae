"""Every kind of bad input: what is said, which column or row is named, and nothing is changed."""

# ruff: noqa: E501  Messages are matched as whole sentences, on one line each.
from __future__ import annotations

import re

import numpy as np
import pytest

from crossfade.errors import AliasedColumnsWarning, DataError, IgnoredRowsWarning
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression

X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
Y = np.array([0, 1, 0, 1, 1])
BINOMIAL, POISSON = BinomialRegression, PoissonRegression

REFUSED = [
    (
        POISSON,
        [1, 2, -3, 0, 1],
        {},
        "y: expected counts of at least 0, got -3 in row 2; correct the rows",
    ),
    (
        POISSON,
        [1, 2, 0.5, 0.25, 1],
        {},
        "y: expected whole counts, got 0.5 in row 2 and 1 more; give counts with exposure= instead of rates",
    ),
    (
        POISSON,
        [1, 2, 0, 0, 1],
        {"exposure": [1, 1, 0, 1, 1]},
        "exposure: expected numbers above 0, got 0 in row 2; drop rows that were not exposed",
    ),
    (
        POISSON,
        [1, 2, 0, 0, 1],
        {"exposure": [1, 1, 2, -1, 1]},
        "exposure: expected numbers above 0, got -1 in row 3; drop rows that were not exposed",
    ),
    (
        POISSON,
        [1, np.nan, 0, 0, 1],
        {},
        "y: expected finite numbers, got NaN in 1 row (first in row 1; Input contains NaN or inf); drop those rows",
    ),
    (
        POISSON,
        ["a", "b", "a", "b", "c"],
        {},
        "y: expected numbers, got ['a', 'b', 'a', 'b', 'c']; give one number per row",
    ),
    (
        POISSON,
        [1, 2, 0, 0, 1],
        {"sample_weight": np.zeros(5)},
        "sample_weight: expected some weight above 0, got 5 zeros; drop the parameter to weigh all rows alike",
    ),
    (
        POISSON,
        [1, 2, 0, 0, 1],
        {"offset": [0, 0, 0, np.inf, 0]},
        "offset: expected finite numbers, got infinity in 1 row (first in row 3; Input contains NaN or inf); drop those rows",
    ),
    (
        BINOMIAL,
        [3, 1, 2, 0, 4],
        {"trials": [2, 4, 4, 4, 4]},
        "y: expected at most as many successes as trials, got 3 of 2 in row 0; check which column is which",
    ),
    (
        BINOMIAL,
        [3, 1, -2, 0, 4],
        {"trials": [4, 4, 4, 4, 4]},
        "y: expected successes of at least 0, got -2 in row 2; correct the rows",
    ),
    (
        BINOMIAL,
        [3, 1, 2, 0, 4],
        {"trials": [4, 4, 4.5, 4, 4]},
        "trials: expected whole numbers of at least 0, got 4.5 in row 2; give the number of trials of each row",
    ),
    (
        BINOMIAL,
        [0, 0, 0, 0, 0],
        {"trials": np.zeros(5)},
        "trials: expected some row with trials, got 5 rows with 0; drop trials= for rows of single observations",
    ),
    (
        BINOMIAL,
        [0.5, 0.3, 0.5, 0.5, 0.25],
        {"trials": [4, 4, 4, 4, 4]},
        "y: expected proportions of whole successes, got 0.3 of 4 trials in row 1 (1.2 successes); give counts instead",
    ),
    (
        BINOMIAL,
        [0.5, 3, 1, 1, 1],
        {"trials": [4, 4, 4, 4, 4]},
        "y: expected whole successes, or proportions from 0 to 1, got 0.5 in row 0 beside values above 1; give counts of successes",
    ),
    (
        BINOMIAL,
        [0.0, 1.0, 1.0, 0.0, 1.0],
        {"trials": [4, 4, 4, 4, 4]},
        "y: expected successes as integers or proportions with some between 0 and 1, got floats that are all 0 or 1 with several trials, which could be either; give integer counts (for proportions, (y * trials).astype(int))",
    ),
    (
        BINOMIAL,
        [0, 1, 2, 1, 1],
        {},
        "y: Only binary classification is supported here: expected two labels, got 3 (0, 1, 2); for numbers of successes give trials=, for several classes use MultinomialRegression (--family multinomial)",
    ),
    (
        BINOMIAL,
        Y,
        {"sample_weight": [1, 0, 1, 0, 0]},
        "y: expected two labels among rows with weight, got 1 class; the other label has zero weights",
    ),
]


@pytest.mark.parametrize(("kind", "y", "options", "message"), REFUSED)
def test_refused_with_a_whole_sentence(kind, y, options, message):
    with pytest.raises(DataError, match=re.escape(message)):
        kind().fit(X, y, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"link": "log"},
            "link: expected 'logit', 'probit' or 'cloglog', got 'log'; use one of these",
        ),
        (
            {"method": "newton"},
            "method: expected 'irls' or 'firth', got 'newton'; use one of these",
        ),
        (
            {"l2": -1.0},
            "l2: expected a finite number of at least 0, got -1.0; use 0 for no penalty",
        ),
        (
            {"l2": 1.0, "method": "firth"},
            "l2: expected 0 with method='firth', which has its own penalty, got 1.0; use one of the two",
        ),
        ({"tol_digits": 0}, "tol_digits: expected a finite number above 0, got 0; use 8"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(DataError, match=re.escape(message)):
        BinomialRegression(**arguments).fit(X, Y)


@pytest.mark.parametrize("n", [5, 60_000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_missing_cell_names_its_column(n, bad):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=n), "dose": rng.normal(size=n)})
    frame.loc[n - 2, "dose"] = bad
    y = np.tile([0, 1, 1], n)[:n]
    message = (
        f"X: expected finite numbers, got 1 NaN or inf in column 'dose' (first in row {n - 2}); "
        "drop those rows or fill them in"
    )
    for model in (BinomialRegression(), PoissonRegression(), MultinomialRegression()):
        with pytest.raises(DataError, match=re.escape(message)):
            model.fit(frame, y)


def test_text_columns_are_named():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"town": ["a", "b", "a", "b", "a"], "x": [1, 2, 3, 4, 5]})
    with pytest.raises(DataError, match="column 'town': expected numbers"):
        BinomialRegression().fit(frame, Y)


def test_zero_trials_are_counted_aloud():
    with pytest.warns(IgnoredRowsWarning, match="2 rows with zero trials ignored"):
        fit = BinomialRegression().fit(X, [1, 0, 2, 0, 3], trials=[4, 0, 4, 0, 5])
    rest = BinomialRegression().fit(X[[0, 2, 4]], [1, 2, 3], trials=[4, 4, 5])
    np.testing.assert_array_equal(fit.coef_, rest.coef_)
    assert fit.df_residual_ == rest.df_residual_ == 1
    residuals = fit.residuals()
    assert np.isnan(residuals[[1, 3]]).all()
    np.testing.assert_array_equal(residuals[[0, 2, 4]], rest.residuals())
    with pytest.warns(IgnoredRowsWarning, match="1 row with zero trials ignored"):
        share = BinomialRegression().fit(X, [0.25, np.nan, 0.5, 0.5, 0.6], trials=[4, 0, 4, 4, 5])
    assert share.df_residual_ == 2


@pytest.mark.filterwarnings("ignore::crossfade.errors.IgnoredRowsWarning")
@pytest.mark.parametrize("out", [{"trials": [4, 0, 4, 4, 4]}, {"sample_weight": [1, 0, 1, 1, 1]}])
@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1, 7, 9, 2, 3], "got 9 of 4 in row 2"),
        ([1, -7, -2, 2, 3], "got -2 in row 2"),
        ([0.5, np.nan, 0.3, 0.5, 1], "got 0.3 of 4 trials in row 2"),
        ([1, 0, 2, 3], "one number for each of the 5 rows of X, got 4"),
    ],
)
def test_rows_left_out_leave_the_others_their_numbers(out, y, said):
    with pytest.raises(DataError, match=said):
        BinomialRegression().fit(X, y, **({"trials": [4] * 5} | out))


def test_too_few_labels_are_refused_with_weights_too():
    with pytest.raises(DataError, match="y: expected one label for each of the 5 rows of X, got 4"):
        MultinomialRegression().fit(X, list("abca"), sample_weight=[1, 0, 1, 1, 1])


def test_collinear_columns_are_named_and_left_out():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(50, 3))
    y = rng.poisson(2.0, 50)
    doubled = np.column_stack([A[:, 0], A[:, 1], A[:, 0] - 2.0 * A[:, 1] + 3.0, A[:, 2]])
    with pytest.warns(
        AliasedColumnsWarning, match="columns 'x2' are determined by the columns before them"
    ):
        fit = PoissonRegression(tol_digits=10).fit(doubled, y)
    rest = PoissonRegression(tol_digits=10).fit(A, y)
    np.testing.assert_allclose(fit.coef_[[0, 1, 3]], rest.coef_, rtol=1e-8)
    assert fit.coef_[2] == 0.0
    np.testing.assert_array_equal(
        np.isnan(fit.standard_errors_), [False, False, False, True, False]
    )
    np.testing.assert_allclose(fit.standard_errors_[[0, 1, 2, 4]], rest.standard_errors_, rtol=1e-8)
    assert fit.aliased_ == ["x2"]
    assert fit.df_residual_ == rest.df_residual_
    np.testing.assert_allclose(fit.predict(doubled), rest.predict(A), rtol=1e-9)
    with pytest.raises(DataError, match="expected coefficients of their own, got 'x2'"):
        fit.likelihood_ratio_test("x2")
    assert "Determined by other columns: x2." in str(fit.summary())


@pytest.mark.parametrize("value", [1.0, 0.0, 1e8 / 3.0])
def test_a_constant_column_beside_an_intercept(value):
    rng = np.random.default_rng(2)
    A = np.column_stack([rng.normal(size=40), np.full(40, value)])
    y = rng.integers(0, 2, 40)
    with pytest.warns(AliasedColumnsWarning, match="columns 'x1' are determined"):
        fit = BinomialRegression().fit(A, y)
    assert fit.aliased_ == ["x1"]
    if value != 0.0:
        alone = BinomialRegression(fit_intercept=False).fit(A, y)
        np.testing.assert_allclose(alone.coef_[1] * value, fit.intercept_, rtol=1e-6)


def test_more_columns_than_rows():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 10))
    y = np.array([3, 1, 4, 1, 5, 9])
    with pytest.warns(AliasedColumnsWarning, match="'x5', 'x6', 'x7', 'x8', 'x9'"):
        fit = PoissonRegression().fit(A, y)
    assert fit.df_residual_ == 0
    np.testing.assert_allclose(fit.predict(A), y, rtol=1e-6)
    np.testing.assert_allclose(fit.deviance_, 0.0, atol=1e-9)
    ridge = PoissonRegression(l2=1.0).fit(A[:, :4], y)
    assert ridge.aliased_ == []
    with pytest.raises(DataError, match="expected more observations than coefficients"):
        fit.robust_covariance("HC1")


def test_labels_one_and_two_are_labels():
    one_two = BinomialRegression().fit(X, np.array([1, 2, 1, 2, 2]))
    words = BinomialRegression().fit(X, ["n", "y", "n", "y", "y"])
    np.testing.assert_array_equal(one_two.coef_, words.coef_)
    np.testing.assert_array_equal(one_two.classes_, [1, 2])
    assert words.predict([[9.0]]).tolist() == ["y"]


def test_proportions_are_the_counts():
    counts = BinomialRegression().fit(X, [1, 3, 2, 0, 4], trials=[4, 4, 5, 3, 8])
    shares = BinomialRegression().fit(X, [0.25, 0.75, 0.4, 0.0, 0.5], trials=[4, 4, 5, 3, 8])
    np.testing.assert_array_equal(shares.coef_, counts.coef_)
    np.testing.assert_array_equal(shares.deviance_, counts.deviance_)


def test_single_trials_may_be_floats():
    plain = BinomialRegression().fit(X, Y)
    ones = BinomialRegression().fit(X, Y.astype(float), trials=np.ones(5))
    np.testing.assert_array_equal(ones.coef_, plain.coef_)
    with pytest.raises(DataError, match="expected grouped trials"):
        plain.dispersion_test()


def test_a_rate_that_no_identity_link_fits():
    with pytest.raises(DataError, match="expected some count above 0, got 5 zeros"):
        PoissonRegression("identity").fit(X, np.zeros(5, dtype=int))
    with pytest.raises(DataError, match="allows positive means in every row"):
        PoissonRegression("identity", fit_intercept=False).fit(X - 3.0, [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: m.wald_test("dose"),
            "columns: expected names among 'Intercept', 'x0', got 'dose'",
        ),
        (lambda m: m.wald_test([]), "columns: expected at least one coefficient, got none"),
        (lambda m: m.residuals("raw"), "kind: expected one of 'response', 'pearson'"),
        (
            lambda m: m.confidence_intervals(1.5),
            "level: expected a finite number in (0, 1), got 1.5; use 0.95",
        ),
        (
            lambda m: m.confidence_intervals(kind="exact"),
            "kind: expected 'wald' or 'profile', got 'exact'",
        ),
        (
            lambda m: m.summary(covariance="robust"),
            "covariance: expected one of 'model', 'HC0', 'HC1', 'HC2', 'HC3', 'cluster', got 'robust'",
        ),
        (
            lambda m: m.robust_covariance("HC9"),
            "kind: expected one of 'HC0', 'HC1', 'HC2', 'HC3', 'cluster', got 'HC9'",
        ),
        (
            lambda m: m.robust_covariance("cluster"),
            "groups: expected group labels exactly with kind='cluster', got none",
        ),
        (lambda m: m.robust_covariance("HC0", [1] * 5), "got groups with kind='HC0'"),
        (lambda m: m.score_test(), "columns: expected either columns or added, got neither"),
        (
            lambda m: m.score_test(added=np.ones((3, 1))),
            "added: expected one row for each of the 5 rows fitted",
        ),
        (lambda m: m.score_test(added=X * 2.0), "which its columns determine; add others"),
        (
            lambda m: m.summary(covariance=np.eye(3)),
            "expected 'model', 'HC0', 'HC1', 'HC2', 'HC3', 'cluster' or an array of shape (2, 2)",
        ),
        (lambda m: m.predict([[np.nan]]), "got 1 NaN or inf in column 'x0'"),
    ],
)
def test_bad_questions(call, message):
    model = BinomialRegression().fit(X, Y)
    with pytest.raises(DataError, match=re.escape(message)):
        call(model)
