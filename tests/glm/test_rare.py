"""Many rows, of which few tell something: what starts from a sample equals the fit of all rows.

The covariates take few values, so that the exact answer comes from the same rows grouped and
weighted, which are too few to be sampled.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from crossfade.errors import DataError, SeparationWarning
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression

N_ROWS = (40_000, 100_000)


def columns(kind, x, rare, rng):
    """Covariates of which `rare` rows alone tell something."""
    mark = np.zeros(len(x))
    mark[rare] = 1.0
    if kind == "column":
        return np.column_stack([x, mark])
    if kind == "heavy tail":
        return np.column_stack([x, rng.integers(0, 2, len(x)) + 1e6 * mark])
    if kind == "level":  # the reference level is the rare one
        level = np.where(mark == 1.0, 0, rng.integers(1, 4, len(x)))
        return np.column_stack([x, level[:, None] == np.arange(1, 4)]).astype(float)
    common = np.where(mark == 1.0, 0, rng.integers(0, 2, len(x)))
    return np.column_stack([x, common, np.where(mark == 1.0, 1 - common, common)])


def responses(family, x, rare, mixed, rng):
    if family is PoissonRegression:
        y = rng.poisson(np.exp(0.3 * x))
        y[rare] = np.arange(len(rare)) if mixed else 0
    else:
        shares = np.exp(np.outer(x, [0.0, 1.0] if family is BinomialRegression else [0, 0.5, -1]))
        y = (rng.random((len(x), 1)) > shares.cumsum(1) / shares.sum(1, keepdims=True)).sum(1)
        y[rare] = np.arange(len(rare)) % shares.shape[1] if mixed else 1
    return y


KINDS = ("column", "level", "combination", "heavy tail")

FAMILIES = BinomialRegression, PoissonRegression, MultinomialRegression

#: The larger table, by turns.
LARGER = [
    pytest.param(FAMILIES[place % 3], kind, place % 2 == 1, marks=[pytest.mark.slow] * (place > 0))
    for place, kind in enumerate(KINDS)
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mixed", [False, True])
def test_rare_rows_count_as_they_do_in_the_grouped_fit(family, kind, mixed):
    rare_rows_count(family, kind, mixed, N_ROWS[0])


@pytest.mark.parametrize(("family", "kind", "mixed"), LARGER)
def test_so_they_do_among_more(family, kind, mixed):
    rare_rows_count(family, kind, mixed, N_ROWS[1])


def rare_rows_count(family, kind, mixed, n):
    rng = np.random.default_rng([0, n])
    x = np.round(2.0 * rng.normal(size=n)) / 2.0
    rare = rng.choice(n, 3, replace=False)
    X, y = columns(kind, x, rare, rng), responses(family, x, rare, mixed, rng)
    distinct, often = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        fit = family().fit(X, y)
        exact = family(tol_digits=10).fit(
            distinct[:, :-1], distinct[:, -1].astype(int), sample_weight=often
        )
    assert fit.separated_ == exact.separated_
    # (along a heavy tail, a row's outcome may separate or not, as it falls)
    assert kind == "heavy tail" or mixed is not bool(fit.separated_)
    # Which of two classes that never occur would be the rarer is open: ±inf, or NaN where a ray
    # leaves both as they are. Which ray is found depends on the last digits of sums.
    ours, theirs = (np.where(np.isfinite(m.coef_), m.coef_, np.inf) for m in (fit, exact))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fit.standard_errors_, exact.standard_errors_, rtol=1e-5)


@pytest.mark.parametrize("family", [BinomialRegression, MultinomialRegression])
def test_a_class_of_few_rows(family):
    rng = np.random.default_rng(0)
    x = np.round(2.0 * rng.normal(size=60_000)) / 2.0
    y = np.zeros(60_000, dtype=int) if family is BinomialRegression else rng.integers(0, 2, 60_000)
    y[rng.choice(60_000, 4, replace=False)] = 1 if family is BinomialRegression else 2
    distinct, often = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    fit = family().fit(x[:, None], y)
    exact = family().fit(distinct[:, :1], distinct[:, 1].astype(int), sample_weight=often)
    np.testing.assert_allclose(fit.coef_, exact.coef_, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors_, exact.standard_errors_, rtol=1e-6)


@pytest.mark.parametrize("value", [1e160, -1e152, np.nan, np.inf])
def test_one_bad_cell_of_many_is_named(value):
    X = np.random.default_rng(0).normal(size=(60_000, 2))
    X[31_007, 1] = value
    with pytest.raises(DataError, match=r"column 'x1'.* got|got .* column 'x1'"):
        BinomialRegression().fit(X, np.arange(60_000) % 2)


def test_columns_too_small_to_square_are_named():
    X = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 1e-160]
    with pytest.raises(DataError, match=r"column 'x1': expected .* in size, got"):
        BinomialRegression().fit(X, np.arange(50) % 2)
