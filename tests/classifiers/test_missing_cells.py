"""A missing cell's factor is left out of the product; at tradeoff 0 it is that of the mean."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.blocks import MANY_ROWS
from crossfade.densities import JohnsonSU, MultivariateGaussian, Poisson
from crossfade.densities.base import reference_rows
from crossfade.errors import DataError, TradeoffWarning
from tests.classifiers.models import DENSITIES, TRADEOFFS, continuous, mixed, posterior_scores

pytestmark = pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")


def by_hand(model, row):
    """Return log p_k ∏_{j present} f_kj(x_j), each factor by its own formula."""
    log_joint = np.log(model.class_prior_)
    density = model.density_
    mean = np.array([d.mean_parameters[0] for d in model.class_densities_.values()])
    for (part, columns), statistics in zip(density.parts, density._statistics, strict=True):
        own = mean[:, statistics]
        for position, column in enumerate(columns):
            x = row[column]
            if np.isnan(x):
                continue
            kind = type(part).__name__
            if kind == "Gaussian":
                z = (x - part._location[position]) * part._inverse_scale[position]
                m = own[:, position]
                v = own[:, len(columns) + position] - m**2
                log_f = -0.5 * (z - m) ** 2 / v - 0.5 * np.log(2 * np.pi * v)
                log_f = log_f + np.log(part._inverse_scale[position])
            elif kind == "Bernoulli":
                log_f = np.log(own[:, position] if x else 1 - own[:, position])
            elif kind == "Poisson":
                rate = own[:, position]
                log_f = x * np.log(rate) - rate - sum(np.log(np.arange(1, x + 1)))
            else:
                eta = model.parameters_.natural[:, statistics]
                log_f = np.log(part.level_probabilities(eta)[:, int(x)])
            log_joint = log_joint + log_f
    return log_joint


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
@pytest.mark.parametrize("in_fit", [0.0, 0.2])
def test_the_factor_is_left_out_by_hand(in_fit, tradeoff):
    X, y = mixed(missing=in_fit)
    model = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
    rows = mixed(seed=1, missing=0.4)[0][:40]
    expected = np.array([by_hand(model, row) for row in rows])
    np.testing.assert_allclose(model.joint_log_likelihood(rows), expected, rtol=1e-8)
    if tradeoff != 0 and (tradeoff != "auto" or not in_fit):  # a pool's members at 0 count means
        np.testing.assert_allclose(
            model.predict_log_proba(rows),
            log_softmax(posterior_scores(model, expected), axis=1),
            atol=1e-8,
        )
    np.testing.assert_allclose(model.score_samples(rows), logsumexp(expected, axis=1), rtol=1e-8)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("in_fit", [0.0, 0.2])
@pytest.mark.parametrize("shared_variance", [False, True])
def test_at_tradeoff_0_a_missing_statistic_has_its_mean(shared_variance, in_fit, k):
    """scikit-learn's logistic regression on the statistics, filled in with their means."""
    X, y = mixed(k=k, missing=in_fit)
    rows = mixed(k=k, seed=1, missing=0.4)[0]
    rows[0] = np.nan
    options = {"shared_variance": shared_variance, "l2": 0.7}
    model = NaiveBayes(DENSITIES, tradeoff=0, **options).fit(X, y)
    assert model.tradeoff_ == 0
    density = model.density_

    def statistics(X):
        gone = np.column_stack([np.isnan(X[:, columns]) for _, columns in density.parts])
        gone = gone[:, density.factors]
        return np.where(gone, np.nan, density.sufficient_statistics(X))[:, ~density.tied]

    T = statistics(X)
    mean, scale = np.nanmean(T, axis=0), np.nanstd(T, axis=0)
    T, new = (np.where(np.isnan(one), 0.0, (one - mean) / scale) for one in (T, statistics(rows)))
    other = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=10_000).fit(T, y)
    np.testing.assert_allclose(model.predict_proba(rows), other.predict_proba(new), atol=1e-6)
    shifted = model.with_class_prior("uniform").predict_log_proba(rows)
    expected = log_softmax(other.predict_log_proba(new) - np.log(np.bincount(y)), axis=1)
    np.testing.assert_allclose(shifted, expected, atol=1e-5)


@pytest.mark.parametrize(("n", "d", "k"), [(300, 10, 40), (100, 800, 3), (30_000, 4, 3)])
def test_at_tradeoff_0_every_solver_finds_that_regression(n, d, k):
    """Blocks of classes, products with the Hessian, a sample of the rows."""
    X, y = continuous(n=n, k=k, d=d)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = NaiveBayes("gaussian", tradeoff=0, shared_variance=True).fit(X, y)
    z = np.nan_to_num((X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0))
    other = LogisticRegression(tol=1e-9, max_iter=10_000).fit(z, y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(z), atol=2e-6)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
@pytest.mark.parametrize("in_fit", [0.0, 0.2])
def test_a_row_without_any_cell_gets_the_prior(in_fit, tradeoff):
    X, y = mixed(missing=in_fit)
    model = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
    empty = np.full((2, 4), np.nan)
    if tradeoff != 0 and (tradeoff != "auto" or not in_fit):  # a pool's members at 0 count means
        np.testing.assert_allclose(model.predict_proba(empty), [model.class_prior_] * 2, rtol=1e-9)
    np.testing.assert_allclose(model.score_samples(empty), 0.0, atol=1e-12)
    if tradeoff == 1:
        np.testing.assert_allclose(model.class_prior_, np.bincount(y) / len(y), rtol=1e-12)


def test_in_fit_each_factor_uses_the_cells_that_are_there():
    """At tradeoff 1 every column is estimated from its own present cells."""
    X, y = continuous()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    model = NaiveBayes(tradeoff=1, var_smoothing=0).fit(X, y)
    for code in range(3):
        own = X[y == code]
        mean, variance = np.nanmean(own, axis=0), np.nanvar(own, axis=0)
        point = np.array([[0.3, -1.0, 2.0]])
        log_f = -0.5 * (point - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
        found = model.joint_log_likelihood(point)[0, code] - np.log((y == code).mean())
        assert found == pytest.approx(log_f.sum(), rel=1e-10)


def test_no_missing_cell_in_the_limit_of_few():
    """One missing cell among many changes the fit at tradeoff 0 by little only."""
    X, y = continuous(n=600)
    full = NaiveBayes(tradeoff=0).fit(X, y)
    X[0, 0] = np.nan
    one = NaiveBayes(tradeoff=0).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X[1:]), full.predict_proba(X[1:]), atol=0.02)


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize(("given", "used"), [(0, 0), (1e-6, 1e-4), (1e-4, 1e-4), (0.3, 0.3)])
def test_a_tradeoff_that_has_no_fit_with_missing_cells_is_named(make, given, used):
    X, y = continuous(n=60)
    X[0, 0] = np.nan
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=["x", "y", None] * 20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(tradeoff=given).fit(table, y)
    assert model.tradeoff_ == model.tradeoff_path_["tradeoff"][0] == used
    assert [one.category for one in caught] == [TradeoffWarning] * (given != used)
    if caught:
        assert "expected at least 0.0001 where cells are missing, got " in str(caught[0].message)
        assert str(caught[0].message).endswith("for a smaller tradeoff, or give 0")
        np.testing.assert_array_equal(
            model.predict_proba(table), make(tradeoff=used).fit(table, y).predict_proba(table)
        )


def nothing(kind, n):
    """Return a column without a cell, of one type of one library."""
    library, dtype = kind.split()
    if library == "pandas":
        return pd.Series([None] * n, dtype=dtype)
    if library == "polars":
        return pl.Series([None] * n, dtype=getattr(pl, dtype))
    return pa.array([None] * n, type=getattr(pa, dtype)())


EMPTY = [
    *(f"pandas {t}" for t in ("string", "category", "object", "float64", "Int64", "boolean")),
    *(f"polars {t}" for t in ("String", "Categorical", "Float64", "Int64", "Boolean", "Null")),
    *(f"pyarrow {t}" for t in ("string", "float64", "int64", "bool_", "null")),
]


#: Those with which a tradeoff is chosen too: text, category and number.
CHOSEN = {"pandas string": "best", "polars Categorical": "auto", "pyarrow float64": "best"}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_column_without_cells_changes_nothing(kind):
    """Its density says nothing, so that the rest is fitted as if every cell were there."""
    x, y = continuous(n=40, k=2, d=2)
    parts = {"a": x[:, 0], "b": x[:, 1]}
    with_it = {"a": x[:, 0], "none": nothing(kind, 40), "b": x[:, 1]}
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind.split()[0]]
    # Which fits there are to choose from is the same for every type.
    for tradeoff in (0, CHOSEN.get(kind, 0.5)):
        whole, model = (
            NaiveBayes(tradeoff=tradeoff).fit(frame(table), y) for table in (parts, with_it)
        )
        np.testing.assert_allclose(
            model.predict_proba(frame(with_it)), whole.predict_proba(frame(parts)), atol=1e-12
        )
        np.testing.assert_allclose(model.tradeoff_, whole.tradeoff_, atol=1e-12)


@cache
def fitted_once(tradeoff, **options):
    X, y = continuous(n=60, k=3, d=2)
    weights = np.linspace(0.5, 2.0, 60)
    return NaiveBayes(tradeoff=tradeoff, **options).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("density", ["gaussian", "poisson", "bernoulli", "categorical"])
@pytest.mark.parametrize("options", [{"shared_variance": True}, {"l2": 0.0, "alpha": 0.0}])
def test_a_column_without_cells_changes_nothing_in_any_density(density, options):
    X, y = continuous(n=60, k=3, d=2)
    wide = np.column_stack([X[:, 0], np.full(60, np.nan), X[:, 1]])
    weights = np.linspace(0.5, 2.0, 60)
    # Which fits there are to choose from is the same for every density.
    for tradeoff in TRADEOFFS if density == "categorical" else (1, 0.5, 0):
        whole = fitted_once(tradeoff, **options)
        model = NaiveBayes({1: density}, tradeoff=tradeoff, **options)
        model.fit(wide, y, sample_weight=weights)
        np.testing.assert_allclose(
            model.predict_proba(wide), whole.predict_proba(X), atol=1e-9, err_msg=f"{tradeoff}"
        )
        assert np.isfinite(model.score_samples(wide)).all()


def test_text_that_a_fold_or_the_first_batch_lacks():
    x, y = continuous(n=120, k=2, d=1)
    table = pl.DataFrame({"x": x[:, 0], "t": [None] * 60 + ["a", "b", "c", "a"] * 15})
    whole = NaiveBayes(tradeoff=1).fit(table, y)
    batches = NaiveBayes(tradeoff=1).partial_fit(table[:60], y[:60], classes=[0, 1])
    batches.partial_fit(table[60:], y[60:])
    np.testing.assert_allclose(batches.predict_proba(table), whole.predict_proba(table), atol=1e-12)
    rare = table.with_columns(t=pl.Series([None] * 118 + ["a", "b"]))
    for text in (rare, rare.select("t")):
        model = NaiveBayes().fit(text, y, groups=np.repeat(np.arange(12), 10))
        assert np.isfinite(model.tradeoff_path_["log_loss"]).all()
        assert np.isfinite(model.predict_proba(text)).all()


def test_missing_marks_of_all_libraries():
    X, y = continuous(n=60)
    expected = X.copy()
    expected[3, 0] = expected[10, 2] = np.nan
    reference = NaiveBayes(tradeoff=0.5).fit(expected, y).predict_proba(expected)
    lists = [[None if np.isnan(v) else v for v in row] for row in expected]
    names = ["a", "b", "c"]
    pandas = pd.DataFrame(expected, columns=names)
    tables = {
        "None in lists": lists,
        "pandas NaN": pandas,
        "pandas NA": pandas.convert_dtypes(),
        "polars null": pl.DataFrame(lists, schema=names, orient="row"),
        "polars NaN": pl.DataFrame(expected, schema=names),
        "pyarrow": pl.DataFrame(lists, schema=names, orient="row").to_arrow(),
    }
    for name, table in tables.items():
        model = NaiveBayes(tradeoff=0.5).fit(table, y)
        np.testing.assert_allclose(model.predict_proba(table), reference, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_a_category_not_seen_in_fit_is_left_out(tradeoff):
    city = np.array(["Bern", "Oslo", "Rome"])
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    table = pl.DataFrame(
        {"city": city[(rng.integers(3, size=120) + y) % 3], "x": rng.normal(size=120) + y}
    )
    model = NaiveBayes(tradeoff=tradeoff).fit(table, y)
    new = pl.DataFrame({"city": ["Paris", "Oslo"], "x": [0.5, 0.5]})
    absent = pl.DataFrame({"city": [None, "Oslo"], "x": [0.5, 0.5]})
    np.testing.assert_array_equal(model.predict_proba(new), model.predict_proba(absent))
    strict = NaiveBayes(tradeoff=tradeoff, handle_unknown="error").fit(table, y)
    np.testing.assert_array_equal(strict.predict_proba(absent), model.predict_proba(absent))
    with pytest.raises(
        DataError,
        match=r"'city': expected only categories seen in fit, got 'Paris' \(1 new, in 1 row\)",
    ):
        strict.predict_proba(new)


@pytest.mark.parametrize("missing_in", ["fit", "predict"])
def test_a_density_without_them_names_the_columns_and_the_remedy(missing_in):
    X, y = continuous()
    table = pd.DataFrame(X, columns=["height", "weight", "age"])
    model = NaiveBayes(MultivariateGaussian(), tradeoff=1).fit(table, y)
    table = table.copy()
    table.loc[4, "weight"] = table.loc[7, "age"] = np.nan
    use = model.predict if missing_in == "predict" else lambda X: model.fit(X, y)
    with pytest.raises(DataError, match=r"columns 'weight', 'age'.*use GaussianDiscriminant"):
        use(table)


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_a_missing_cell_is_found_wherever_it_lies(covariance):
    """Of many rows a few are looked at first: they may have all their cells."""
    rng = np.random.default_rng(0)
    n = MANY_ROWS + 5_000
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    y = rng.integers(2, size=n)
    hidden = np.setdiff1d(np.arange(n), np.flatnonzero(np.isin(X, reference_rows(X)).any(axis=1)))
    for tradeoff in (1, 0.5):
        for late in (hidden[:1], hidden[-40:]):
            bad = X.copy()
            bad[late, 1] = np.nan
            order = np.append(late, np.setdiff1d(np.arange(n), late))
            assert not np.isnan(reference_rows(bad)).any()
            assert np.isnan(reference_rows(bad[order])).any()
            one, two = (
                GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(bad[rows], y[rows])
                for rows in (np.arange(n), order)
            )
            probabilities = [model.predict_proba(bad[hidden[-50:]]) for model in (one, two)]
            np.testing.assert_allclose(*probabilities, rtol=1e-12 if tradeoff == 1 else 1e-6)
    bad[hidden[3], 2] = np.inf
    with pytest.raises(DataError, match="'x2'"):
        GaussianDiscriminant(covariance, tradeoff=1).fit(bad, y)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize(
    "where", ["fit", "predict", "predict_proba", "score_samples", "partial_fit"]
)
@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
def test_infinite_values_are_refused(make, where, value):
    X, y = continuous()
    model = make(tradeoff=1).fit(X, y)
    X = X.copy()
    X[5, 1] = value
    use = getattr(make(tradeoff=1) if "fit" in where else model, where)
    labels = (y,) if "fit" in where else ()
    with pytest.raises(DataError, match="'x1'"):
        use(X, *labels)


def test_infinite_values_are_refused_next_to_missing_ones_and_in_every_density():
    X, y = mixed(missing=0.1)
    for column in range(4):
        bad = X.copy()
        bad[9, column] = np.inf
        for tradeoff in (1, 0):
            with pytest.raises(DataError):
                NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(bad, y)
    model = NaiveBayes(tradeoff=0).fit(X[:, :1], y)
    with pytest.raises(DataError, match="finite"):
        model.predict(np.array([[np.inf], [np.nan]]))


@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@pytest.mark.parametrize("value", [1e151, -3e150, 1e153])
@pytest.mark.parametrize("n", [40, 25_000])
@pytest.mark.parametrize(
    "make",
    [
        lambda t: NaiveBayes("gaussian", tradeoff=t),
        lambda t: NaiveBayes(Poisson(), tradeoff=t),
        lambda t: NaiveBayes(JohnsonSU(0.0, 1.0), tradeoff=t),
        lambda t: GaussianDiscriminant("full", tradeoff=t),
        lambda t: GaussianDiscriminant("shared_spherical", tradeoff=t),
    ],
)
def test_every_fit_has_the_limit_of_a_comparison(make, n, value):
    X = np.random.default_rng(0).poisson(3.0, size=(n, 3)).astype(float)
    X[n // 2, 1] = value
    named = r"X: column '?x?1'?: expected (numbers below 1e.150 in size|counts .*), got"
    weights = np.full(n, 1e-3)
    for tradeoff in (1, 0.5, 0) if n == 40 else (1,):
        for given in (None, weights):
            with pytest.raises(DataError, match=named):
                make(tradeoff).fit(X, np.arange(n) % 2, sample_weight=given)


@pytest.mark.parametrize("density", ["gaussian", JohnsonSU(0.0, 1.0, True, 0.0)])
def test_a_class_without_cells_leaves_a_shared_variance_to_the_others(density):
    """At tradeoff 1 it is the mean square about the means of the classes that have cells."""
    X, y = continuous(k=3)
    X += 3.0 * y[:, None]
    X[y == 1, 2] = np.nan
    model = NaiveBayes(density, tradeoff=1, shared_variance=True, var_smoothing=0).fit(X, y)
    x, known = X[:, 2], y != 1
    z = x if density == "gaussian" else np.arcsinh(x)
    mean = np.array([z[y == 0].mean(), z[known].mean(), z[y == 2].mean()])
    variance = np.mean((z - mean[y])[known] ** 2)
    point = np.array([np.nan, np.nan, 1.7])
    at = point[2] if density == "gaussian" else np.arcsinh(point[2])
    expected = np.log(np.bincount(y) / len(y)) - 0.5 * (at - mean) ** 2 / variance
    found = model.predict_log_proba(point[None])[0]
    np.testing.assert_allclose(found, log_softmax(expected), rtol=1e-9)


def test_a_column_missing_in_a_whole_class():
    """At tradeoff 1 its density there is that of all classes, so it excludes none.

    Below, the conditional likelihood alone would have it, and has no optimum: the fit says that it
    did not converge, and its posteriors are those of where it stopped.
    """
    X, y = continuous(k=2)
    X[y == 1, 2] = np.nan
    model = NaiveBayes(tradeoff=1).fit(X, y)
    one, other = model.class_densities_.values()
    np.testing.assert_allclose(one.mean_parameters[0, [2, 5]], other.mean_parameters[0, [2, 5]])
    for tradeoff in (0.5, 0):
        posterior = NaiveBayes(tradeoff=tradeoff).fit(X, y).predict_proba(X)
        assert np.isfinite(posterior).all()


@pytest.mark.parametrize("covariance", ["shared", "full", "diagonal", "spherical"])
@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0, "auto"])
def test_where_no_number_varies_missing_ones_leave_the_class_shares(covariance, tradeoff):
    X, y = np.full((40, 2), [3.7, 0.0]), np.repeat([0, 1], [30, 10])
    X[::5, 0], X[::3, 1] = np.nan, np.nan
    model = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(X, y)
    found = model.predict_proba(np.array([[3.7, 0.0], [np.nan, 0.0], [np.nan, np.nan], [9.0, 1.0]]))
    np.testing.assert_allclose(found, np.tile([0.75, 0.25], (4, 1)), atol=1e-7)
