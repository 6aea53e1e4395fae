"""Separated data: detected, named, and everything that can be estimated is right."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.errors import AliasedColumnsWarning, SeparationWarning
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from crossfade.glm.separation import find_recession

LINKS = ("logit", "probit", "cloglog")


@pytest.mark.parametrize("link", LINKS)
def test_complete_separation(link):
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    with pytest.warns(SeparationWarning, match="columns 'Intercept', 'x0' separate the responses"):
        fit = BinomialRegression(link).fit(x[:, None], [0, 0, 0, 1, 1, 1])
    assert fit.separated_ == ["Intercept", "x0"]
    np.testing.assert_array_equal(fit.coef_, [np.inf])
    assert fit.intercept_ == -np.inf
    np.testing.assert_array_equal(fit.standard_errors_, [np.inf, np.inf])
    assert fit.log_likelihood_ == 0.0
    assert fit.deviance_ == 0.0
    np.testing.assert_array_equal(fit.predict(x[:, None]), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(fit.predict_proba([[0.0], [9.0]])[:, 1], [0.0, 1.0])


@pytest.mark.parametrize("link", LINKS)
def test_one_separated_column_leaves_the_others_right(link):
    """Quasi-complete: a dummy with successes only; the rest is the fit without its rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (rng.random(80) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    dummy = np.zeros(80)
    dummy[:12] = 1.0
    y[:12] = 1
    with pytest.warns(SeparationWarning, match="columns 'x1' separate"):
        fit = BinomialRegression(link, tol_digits=10).fit(
            np.column_stack([X[:, 0], dummy, X[:, 1]]), y
        )
    rest = BinomialRegression(link, tol_digits=10).fit(X[12:], y[12:])
    assert fit.separated_ == ["x1"]
    assert fit.coef_[1] == np.inf
    np.testing.assert_allclose(fit.coef_[[0, 2]], rest.coef_, rtol=1e-8)
    np.testing.assert_allclose(fit.intercept_, rest.intercept_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(fit.standard_errors_[[0, 1, 3]], rest.standard_errors_, rtol=1e-7)
    assert fit.standard_errors_[2] == np.inf
    np.testing.assert_allclose(fit.log_likelihood_, rest.log_likelihood_, rtol=1e-10)
    np.testing.assert_allclose(
        fit.predict_proba([[0.3, 0.0, -1.0]]), rest.predict_proba([[0.3, -1.0]])
    )
    np.testing.assert_array_equal(fit.predict_proba([[0.3, 1.0, -1.0]]), [[0.0, 1.0]])
    assert np.isfinite(fit.summary().p_values[[0, 1, 3]]).all()
    assert "Separated: no finite estimate exists along x1." in str(fit.summary())


def test_overlap_is_not_separation():
    fit = BinomialRegression().fit([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1])
    assert fit.separated_ == []
    assert np.isfinite(fit.standard_errors_).all()


def test_large_coefficients_are_not_separation():
    """Nearly separated: one row overlaps, estimates are large and finite."""
    x = np.concatenate([np.linspace(-5, 5, 400), [-0.3, 0.31]])
    y = (x > 0).astype(int)
    y[-2:] = 1, 0
    fit = BinomialRegression().fit(x[:, None], y)
    assert fit.separated_ == []
    assert fit.converged_
    assert 5.0 < fit.coef_[0] < 100.0


def test_grouped_rows():
    """A group without failures separates; a mixed group does not."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.warns(SeparationWarning, match="'x1'"):
        fit = BinomialRegression().fit(X, [3, 5, 7], trials=[9, 9, 7])
    np.testing.assert_allclose(fit.intercept_, np.log(3 / 6), rtol=1e-9)
    np.testing.assert_allclose(fit.coef_[0], np.log(5 / 4) - np.log(3 / 6), rtol=1e-9)
    assert fit.coef_[1] == np.inf
    residuals = fit.residuals("pearson")
    np.testing.assert_allclose(residuals, 0.0, atol=1e-8)


def test_all_successes_separate_along_the_intercept():
    with pytest.warns(SeparationWarning, match="'Intercept'"):
        fit = BinomialRegression().fit([[1.0], [2.0]], [3, 4], trials=[3, 4])
    assert fit.intercept_ == np.inf
    with pytest.warns(SeparationWarning, match="'Intercept'"):
        ridge = BinomialRegression(l2=1.0).fit([[1.0], [2.0]], [3, 4], trials=[3, 4])
    assert ridge.separated_ == ["Intercept"]
    np.testing.assert_allclose(ridge.coef_, 0.0, atol=1e-12)


def test_ridge_and_firth_are_finite():
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    for options in ({"l2": 0.1}, {"method": "firth"}):
        fit = BinomialRegression(**options).fit(x, [0, 0, 1, 1])
        assert fit.separated_ == []
        assert np.isfinite(fit.coef_).all()
        assert np.isfinite(fit.standard_errors_).all()


def test_counts_of_zero_in_a_group():
    """Poisson, log link: a group without any count has the rate zero, exactly."""
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    with pytest.warns(SeparationWarning, match="'x0'"):
        fit = PoissonRegression().fit(X, [2, 3, 0, 0])
    assert fit.coef_[0] == -np.inf
    np.testing.assert_allclose(fit.intercept_, np.log(2.5), rtol=1e-9)
    np.testing.assert_allclose(fit.predict(X), [2.5, 2.5, 0.0, 0.0], rtol=1e-9)


def test_multinomial_with_one_separated_class():
    rng = np.random.default_rng(1)
    x = rng.normal(size=60)
    y = np.where(rng.random(60) < 1 / (1 + np.exp(-x)), "b", "a")
    X = np.concatenate([x, np.linspace(20.0, 25.0, 10)])[:, None]
    labels = np.concatenate([y, np.repeat("c", 10)])
    with pytest.warns(SeparationWarning, match="'c: x0'"):
        fit = MultinomialRegression(tol_digits=10).fit(X, labels)
    rest = BinomialRegression(tol_digits=10).fit(x[:, None], y)
    assert fit.separated_ == ["c: Intercept", "c: x0"]
    np.testing.assert_allclose(fit.coef_[0], rest.coef_, rtol=1e-8)
    np.testing.assert_allclose(fit.standard_errors_[:2], rest.standard_errors_, rtol=1e-7)
    np.testing.assert_array_equal(fit.predict([[23.0], [-2.0]]), ["c", "a"])
    np.testing.assert_allclose(fit.log_likelihood_, rest.log_likelihood_, rtol=1e-10)


def test_many_rows_with_a_separated_dummy():
    """Beyond the size of one programme rows enter it as they are needed."""
    rng = np.random.default_rng(2)
    n = 60_000
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(int)
    rare = rng.random(n) < 5e-4
    y[rare] = 0
    with pytest.warns(SeparationWarning, match="columns 'x3' separate"):
        fit = BinomialRegression().fit(np.column_stack([X, rare]), y)
    rest = BinomialRegression().fit(X[~rare], y[~rare])
    np.testing.assert_allclose(fit.coef_[:3], rest.coef_, rtol=1e-7)
    np.testing.assert_allclose(fit.standard_errors_[:4], rest.standard_errors_, rtol=1e-6)


def test_direction_is_one_of_recession():
    """Whatever is found satisfies its definition; whatever overlaps is not found."""
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(60):
        Z = np.column_stack([np.ones(7), rng.integers(-2, 3, size=(7, 2))])
        signs = rng.choice([-1.0, 0.0, 1.0], 7, p=[0.45, 0.1, 0.45])
        recession = find_recession(Z, signs)
        if recession is None:
            continue
        found += 1
        margins = Z @ recession.direction
        assert (signs * margins >= -1e-9).all()
        np.testing.assert_allclose(margins[signs == 0.0], 0.0, atol=1e-9)
        np.testing.assert_array_equal(recession.separated_rows, np.abs(margins) > 1e-7)
        assert recession.separated_rows.any()
    assert found > 3


def test_profile_interval_of_a_separated_coefficient_is_one_sided():
    x = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    with pytest.warns(SeparationWarning):
        fit = BinomialRegression().fit(x, [0, 0, 0, 1, 1, 1])
    ((low, high),) = fit.confidence_intervals(kind="profile", columns="x0")
    assert high == np.inf
    # At the limit twice the loss of the profiled likelihood is the quantile.
    best = max(
        -np.logaddexp(0, np.where([0, 0, 0, 1, 1, 1], -1, 1) * (a + low * x[:, 0])).sum()
        for a in np.linspace(-6 * low - 1, 1, 20001)
    )
    np.testing.assert_allclose(-2 * best, 3.841458820694124, rtol=1e-5)


def test_of_many_separated_or_aliased_columns_ten_are_named():
    rows = np.repeat(np.eye(15), 2, axis=0)
    with pytest.warns(SeparationWarning), pytest.warns(AliasedColumnsWarning):
        fit = BinomialRegression(fit_intercept=False).fit(np.hstack([rows, rows]), [0] + 29 * [1])
    notes = str(fit.summary())
    assert (len(fit.separated_), len(fit.aliased_)) == (14, 15)
    assert "along x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, … (14 in all)." in notes
    named = ", ".join(f"x{i}" for i in range(15, 25))
    assert f"Determined by other columns: {named}, … (15 in all)." in notes


@pytest.mark.parametrize("size", [1e7, 1e8])
@pytest.mark.parametrize("model", [BinomialRegression, PoissonRegression])
def test_one_cell_far_from_all_others_is_no_separation(model, size):
    """Its row is fitted by the others' slope, where that has its sign, else by next to none."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.round(rng.normal(size=30)), rng.normal(size=30)])
        y = np.minimum(rng.poisson(np.exp(X[:, 0] / 2)), 1 if model is BinomialRegression else 9)
        X[4, 1], y[4] = size * (-1) ** seed, 0
        fit = model().fit(X, y)
        others = np.arange(30) != 4
        whole, without = model().fit(X[others], y[others]), model().fit(X[others, :1], y[others])
        right = whole.coef_[1] * X[4, 1] < 0
        expected = (whole if right else without).log_likelihood_
        assert fit.separated_ == []
        np.testing.assert_allclose(fit.log_likelihood_, expected, atol=1000 / size)


def test_one_far_cell_never_makes_three_classes_worse():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.round(rng.normal(size=60)), rng.normal(size=60)])
        y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int) + (rng.random(60) < 0.4)
        X[4, 1] = 10.0 ** (6 + seed % 3)
        fit, without = MultinomialRegression().fit(X, y), MultinomialRegression().fit(X[:, :1], y)
        assert fit.log_likelihood_ >= without.log_likelihood_


def test_a_separated_column_is_found_beside_a_far_cell():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.round(rng.normal(size=40)), rng.normal(size=40), np.arange(40) < 5])
    y = (X[:, 0] + rng.logistic(size=40) > 0).astype(int)
    X[20, 1], y[:5] = 1e8, 1
    with pytest.warns(SeparationWarning, match="columns 'x2' separate"):
        fit = BinomialRegression().fit(X, y)
    rest = BinomialRegression().fit(X[5:, :2], y[5:])
    np.testing.assert_allclose(fit.log_likelihood_, rest.log_likelihood_, rtol=1e-9)
    assert fit.coef_[2] == np.inf
