"""Units, memory layouts, libraries and threads change nothing; inputs are left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import logit
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.blocks import threads
from tests.classifiers.models import (
    CHOOSING,
    CONTINUOUS,
    CONTINUOUS_AND_TRADEOFFS,
    DENSITIES,
    TRADEOFFS,
    continuous,
    mixed,
)

UNITS = np.array([1e-9, 1e9, 1.0])
ORIGIN = np.array([3e-9, -2e9, 40.0])


@pytest.mark.parametrize(("name", "tradeoff"), CONTINUOUS_AND_TRADEOFFS)
def test_units_do_not_matter(name, tradeoff):
    """Columns of standard deviation 1e-9 next to 1e9, with origins elsewhere."""
    X, y = continuous()
    parameters = {"var_smoothing": 1e-3} if name in ("naive bayes", "shared variance") else {}
    if name in ("shared", "full"):
        parameters = {"shrinkage": 0.1}
    one = CONTINUOUS[name](tradeoff=tradeoff, **parameters).fit(X, y)
    other = CONTINUOUS[name](tradeoff=tradeoff, **parameters).fit(X * UNITS + ORIGIN, y)
    assert one.tradeoff_ == pytest.approx(other.tradeoff_, abs=1e-8)
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X * UNITS + ORIGIN), rtol=0, atol=1e-8
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X * UNITS + ORIGIN))
    np.testing.assert_allclose(
        one.score_samples(X),
        other.score_samples(X * UNITS + ORIGIN) + np.log(UNITS).sum(),
        atol=1e-6,
    )


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
def test_units_do_not_matter_next_to_discrete_columns_and_missing_cells():
    X, y = mixed(missing=0.1)
    far = X.copy()
    far[:, 0] = far[:, 0] * 1e-9 + 5e-9
    for tradeoff in TRADEOFFS:
        one = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(X, y)
        other = NaiveBayes(DENSITIES, tradeoff=tradeoff).fit(far, y)
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(far), atol=1e-7)


def layouts(X):
    yield "Fortran order", np.asfortranarray(X)
    wide = np.full((2 * len(X), 2 * X.shape[1]), 7.0)
    wide[::2, ::2] = X
    yield "not contiguous", wide[::2, ::2]
    yield "reversed", X[::-1].copy()[::-1]
    frozen = X.copy()
    frozen.setflags(write=False)
    yield "read-only", frozen
    yield "lists", X.tolist()
    yield "objects", X.astype(object)
    yield "big-endian", X.astype(">f8")
    yield "long double", X.astype(np.longdouble)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("make", [NaiveBayes, lambda **p: GaussianDiscriminant("full", **p)])
def test_memory_layouts_give_the_same_model(make, tradeoff):
    X, y = continuous()
    expected = make(tradeoff=tradeoff).fit(X, y).predict_proba(X)
    for name, other in layouts(X):
        model = make(tradeoff=tradeoff).fit(other, y)
        found = model.predict_proba(other)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("make", [NaiveBayes, lambda **p: GaussianDiscriminant("shared", **p)])
def test_single_precision_is_computed_in_double(make, tradeoff):
    X, y = continuous()
    X = X.astype(np.float32)
    one = make(tradeoff=tradeoff).fit(X, y)
    other = make(tradeoff=tradeoff).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X.astype(np.float64)), atol=1e-12
    )
    assert one.predict_proba(X).dtype == np.float64


def frames(n=160):
    """Return the same table in four libraries, with every kind of column and missing cells."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    columns = {
        "size": (rng.normal(size=n) + y).tolist(),
        "city": np.array(["Bern", "Oslo", "Rome"])[(rng.integers(3, size=n) + y) % 3].tolist(),
        "member": (rng.random(n) < 0.3 + 0.4 * y).tolist(),
        "visits": rng.poisson(1.5 + y).tolist(),
    }
    columns["size"][3] = columns["city"][5] = None
    tables = {
        "polars": pl.DataFrame(columns),
        "pandas": pd.DataFrame(columns),
        "pyarrow": pa.table(columns),
        "pandas, arrow types": pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
        "pandas, categories": pd.DataFrame(columns).astype({"city": "category"}),
    }
    return tables, np.array(["no", "yes"])[y]


def read_when(tradeoff, tables):
    """Return all tables; where the tradeoff is chosen, one read by narwhals and one of pandas."""
    names = ("polars", "pandas, categories") if tradeoff == "auto" else tables
    return [(name, tables[name]) for name in names]


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_frames_give_the_same_model(tradeoff):
    tables, y = frames(60 if tradeoff == "auto" else 160)
    expected = None
    for name, table in read_when(tradeoff, tables):
        model = NaiveBayes(tradeoff=tradeoff).fit(table, y)
        assert model.schema_.kinds == ("continuous", "categorical", "boolean", "count"), name
        assert model.feature_names_in_.tolist() == ["size", "city", "member", "visits"]
        found = model.predict_proba(table)
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)
        # Fitted on one library, used on another.
        np.testing.assert_allclose(
            model.predict_proba(tables["polars"]), expected, rtol=1e-12, err_msg=name
        )


def test_labels_may_come_from_any_library():
    tables, y = frames()
    expected = NaiveBayes(tradeoff=1).fit(tables["pandas"], y).predict_proba(tables["pandas"])
    for labels in (y.tolist(), pd.Series(y), pl.Series(y.tolist()), pa.array(y.tolist())):
        model = NaiveBayes(tradeoff=1).fit(tables["pandas"], labels)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.predict_proba(tables["pandas"]), expected)


@pytest.mark.parametrize(
    "labels",
    [["a", "b", "c"], [10, -3, 7], [True, False, True], [0.0, 1.0, 2.0], [2**62, 5, 2**61]],
    ids=["text", "integers", "booleans", "whole floats", "large integers"],
)
def test_labels_of_any_type(labels):
    X, y = continuous()
    named = np.array(labels)[y]
    model = NaiveBayes(tradeoff=1).fit(X, named)
    assert model.classes_.tolist() == sorted(set(labels))
    predicted = model.predict(X)
    assert predicted.dtype == named.dtype
    assert (predicted == named).mean() > 0.5
    assert set(model.class_densities_) == set(labels)


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_nothing_of_the_users_is_changed(tradeoff, unchanged):
    n = 60 if tradeoff == "auto" else 150
    X, y = unchanged(*continuous(n=n))
    weights, prior = unchanged(np.linspace(0.0, 2.0, len(y)), np.array([0.2, 0.3, 0.5]))
    costs = unchanged(1.0 - np.eye(3))
    for make in (NaiveBayes, GaussianDiscriminant):
        model = make(tradeoff=tradeoff, class_prior=prior, selection=costs)
        before = model.get_params()
        model.fit(X, y, sample_weight=weights)
        for use in ("predict", "predict_proba", "score_samples", "decision_function"):
            getattr(model, use)(X)
        model.sufficient_statistics(X)[:] = 5.0
        assert model.get_params().keys() == before.keys()
        assert all(model.get_params()[key] is before[key] for key in before)
    tables, labels = frames(n)
    for _, table in read_when(tradeoff, tables):
        unchanged(table)
        NaiveBayes(tradeoff=tradeoff).fit(table, labels).predict_proba(table)


def test_densities_given_as_objects_stay_as_they_are():
    from crossfade.densities import Gaussian

    X, y = continuous()
    density = Gaussian(shared_variance=True)
    before = dict(vars(density))
    model = NaiveBayes(density, tradeoff=0.5).fit(X, y)
    assert vars(density) == before
    assert model.density is density
    again = NaiveBayes(density, tradeoff=0.5).fit(X * 3.0, y)
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(X * 3.0), atol=1e-9)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("make", [NaiveBayes, lambda **p: GaussianDiscriminant("full", **p)])
def test_the_number_of_threads_changes_no_bit(make, tradeoff):
    X, y = continuous(n=9000)
    results = []
    for number in (1, 2, 5):
        with threads(number):
            model = make(tradeoff=tradeoff).fit(X, y)
            results.append((model.parameters_.natural, model.predict_proba(X)))
    for natural, posterior in results[1:]:
        np.testing.assert_array_equal(natural, results[0][0])
        np.testing.assert_array_equal(posterior, results[0][1])


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_the_order_of_rows_and_of_columns_does_not_matter(tradeoff):
    X, y = load_breast_cancer(return_X_y=True)
    n = 100 if tradeoff == "auto" else 300
    X, y = X[:n, [1, 4, 8, 9]], y[:n]
    order = np.random.default_rng(0).permutation(len(y))
    turn = [2, 0, 3, 1]
    for make in (NaiveBayes, GaussianDiscriminant, CONTINUOUS["full"]):
        if tradeoff == "auto" and make is GaussianDiscriminant:
            continue
        expected = make(tradeoff=tradeoff).fit(X, y).predict_proba(X)
        shuffled = make(tradeoff=tradeoff).fit(X[order], y[order]).predict_proba(X)
        np.testing.assert_allclose(shuffled, expected, atol=1e-8)
        if tradeoff == "auto":
            continue  # equal rows share a fold, and folds are dealt in the order of the values
        turned = make(tradeoff=tradeoff).fit(X[:, turn], y).predict_proba(X[:, turn])
        np.testing.assert_allclose(turned, expected, atol=1e-8)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_constant_columns_are_kept_and_harmless(tradeoff):
    X, y = continuous(n=60 if tradeoff == "auto" else 150)
    padded = np.insert(X, 1, 1e7, axis=1)
    for name in CHOOSING if tradeoff == "auto" else CONTINUOUS:
        make = CONTINUOUS[name]
        one = make(tradeoff=tradeoff).fit(X, y)
        other = make(tradeoff=tradeoff).fit(padded, y)
        assert other.n_features_in_ == X.shape[1] + 1
        np.testing.assert_allclose(
            one.predict_proba(X), other.predict_proba(padded), atol=1e-8, err_msg=name
        )


NOTHING = {
    "one category": pd.DataFrame({"g": ["u"] * 60}),
    "one number": np.full((60, 2), 3.0),
    "one number or none": np.where(np.arange(60)[:, None] % 2, 3.0, np.nan),
    "one category, one number": pd.DataFrame({"g": ["u"] * 60, "x": 3.0}),
}


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize("tradeoff", [1, 0.4, 0, "auto"])
def test_tables_whose_rows_do_not_differ_give_the_class_shares(make, tradeoff):
    for name, X in NOTHING.items():
        model = make(tradeoff=tradeoff).fit(X, np.repeat([0, 1, 2], [10, 20, 30]))
        posterior, lower, upper = model.predict_proba(X, interval=0.95)
        shares = np.tile([1 / 6, 1 / 3, 1 / 2], (60, 1))
        np.testing.assert_allclose(posterior, shares, atol=1e-9, err_msg=name)
        half = (logit(upper) - logit(lower)) / 2 / norm.ppf(0.975)
        np.testing.assert_allclose((logit(upper) + logit(lower)) / 2, logit(shares), atol=1e-8)
        if tradeoff == "auto":
            assert (half > half_of_a_share(0.0) - 1e-9).all(), name
            assert (half < half_of_a_share(1.0) + 1e-9).all(), name
        else:
            expected = np.tile(half_of_a_share(tradeoff), (60, 1))
            np.testing.assert_allclose(half, expected, rtol=1e-7, err_msg=name)


def half_of_a_share(tradeoff):
    """Return the error of each share's logit, 60 rows in classes of 10, 20 and 30.

    A row's leverage is (1 - λ)/n of the conditional likelihood, λ/n_k of its class; without it the
    variance is 1 / (n p (1 - p)).
    """
    counts = np.array([10.0, 20.0, 30.0])
    more = 1.0 / ((1.0 - (1.0 - tradeoff) / 60.0) * (1.0 - tradeoff / counts))
    # A row of class k moves its own logit by 1 / n_k, the others' down by 1 / (n - n_j).
    moves = np.where(np.eye(3, dtype=bool), 1.0 / counts, -1.0 / (60.0 - counts))
    return np.sqrt((counts * more**2) @ moves**2)


@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_duplicated_columns_are_no_obstacle(tradeoff):
    """A singular covariance of full precision is known to nine digits only; all else converges."""
    X, y = continuous(n=60 if tradeoff == "auto" else 150)
    X = np.hstack([X, X[:, :1]])
    for name in CHOOSING if tradeoff == "auto" else CONTINUOUS:
        posterior = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y).predict_proba(X)
        assert np.isfinite(posterior).all(), name
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e15])
def test_counts_of_any_size_have_their_posterior(scale):
    """At tradeoff 0 units change nothing; the rates themselves lie beyond what scores can carry."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    counts = rng.poisson(5 + 3 * y)[:, None].astype(float)
    one = NaiveBayes("poisson", tradeoff=0).fit(counts, y).predict_proba(counts)
    large = NaiveBayes("poisson", tradeoff=0).fit(scale * counts, y)
    np.testing.assert_allclose(large.predict_proba(scale * counts), one, atol=1e-6)


@pytest.mark.parametrize("tradeoff", [0.9, 0.5, 0.1, 0])
@pytest.mark.parametrize("kind", ["diagonal", "full", "spherical", "shared_diagonal"])
def test_classes_of_one_row_far_apart_are_fitted(kind, tradeoff):
    """Their own variances are nothing: a start there is out of reach of the optimum."""
    X = np.array([[126_000], [-0.132], [0.64], [0.105]])
    model = GaussianDiscriminant(kind, tradeoff=tradeoff).fit(X, [0, 1, 2, 1])
    assert model.solution_.gradient_norm < 1e-9
    assert np.abs(model.parameters_.natural).max() < 10.0
    assert model.predict_proba(X)[0, 0] > 0.5
