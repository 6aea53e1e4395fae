"""Gaussian discriminants of tables with text, booleans, categories and missing cells."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression

from crossfade import GaussianDiscriminant, NaiveBayes, explain
from crossfade.densities import MultivariateGaussian, Product
from crossfade.densities.filling import class_free_moments, conditional_means
from crossfade.io import load_model, save_model


def mixed(n=300, missing=0.0, seed=0):
    """Return a polars frame of two correlated numbers, a town and a boolean, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 2)) @ [[1.0, 0.7], [0.0, 0.6]] + y[:, None] * [1.0, -0.5]
    town = np.where(rng.random(n) < 0.3 + 0.3 * y, "Oslo", rng.choice(["Bern", "Rome"], n))
    dog = rng.random(n) < 0.3 + 0.4 * y
    x[rng.random(x.shape) < missing] = np.nan
    columns = {"a": x[:, 0], "town": town, "b": x[:, 1], "dog": dog}
    frame = pl.DataFrame(columns).with_columns(pl.col("a", "b").fill_nan(None))
    return frame, np.where(y, "yes", "no")


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_generative_fit_is_the_location_model_in_closed_form(covariance):
    X, y = mixed()
    model = GaussianDiscriminant(covariance, tradeoff=1).fit(X, y)
    assert [type(part).__name__ for part, _ in model.density_.parts] == [
        "MultivariateGaussian", "Bernoulli", "Categorical"
    ]  # fmt: skip
    numbers = X.select("a", "b").to_numpy()
    towns, dogs = X["town"].to_numpy(), X["dog"].to_numpy()
    scatter = {c: np.cov(numbers[y == c].T, bias=True) for c in ("no", "yes")}
    pooled = sum((y == c).mean() * scatter[c] for c in scatter)
    expected = np.empty((len(y), 2))
    for k, c in enumerate(("no", "yes")):
        own = y == c
        C = scatter[c] if covariance == "full" else pooled
        expected[:, k] = np.log(own.mean()) + multivariate_normal(
            numbers[own].mean(axis=0), C
        ).logpdf(numbers)
        # Laplace's smoothing: one more of each level.
        share = {t: ((towns[own] == t).sum() + 1) / (own.sum() + 3) for t in set(towns)}
        expected[:, k] += np.log([share[t] for t in towns])
        p = (dogs[own].sum() + 1) / (own.sum() + 2)
        expected[:, k] += np.log(np.where(dogs, p, 1 - p))
    assert_allclose(model.joint_log_likelihood(X), expected, rtol=1e-9)


def test_discriminative_fit_is_logistic_regression_on_the_statistics():
    X, y = mixed()
    model = GaussianDiscriminant("full", tradeoff=0, l2=1e-6).fit(X, y)
    statistics = model.sufficient_statistics(X)
    statistics = (statistics - statistics.mean(axis=0)) / statistics.std(axis=0)
    other = LogisticRegression(C=1e6, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    expected = other.fit(statistics, y).predict_proba(statistics)
    assert_allclose(model.predict_proba(X), expected, atol=1e-6)


@pytest.mark.parametrize("covariance", ["full", "shared", "diagonal"])
def test_missing_numbers_are_marginalised_at_the_generative_end(covariance):
    X, y = mixed()
    model = GaussianDiscriminant(covariance, tradeoff=1).fit(X.select("a", "b"), y)
    rows = X.select("a", "b")[:4].to_numpy().copy()
    rows[0, 0] = rows[1, 1] = rows[2, 0] = rows[2, 1] = np.nan
    got = model.joint_log_likelihood(pl.DataFrame(rows, schema=["a", "b"]).fill_nan(None))
    for k in range(2):
        mean, C = model.means_[k], model.covariances_[k]
        log_share = np.log(model.class_prior_[k])
        alone = [
            multivariate_normal(mean[1], C[1, 1]).logpdf(rows[0, 1]),
            multivariate_normal(mean[0], C[0, 0]).logpdf(rows[1, 0]),
            0.0,
            multivariate_normal(mean, C).logpdf(rows[3]),
        ]
        assert_allclose(got[:, k], log_share + np.array(alone), rtol=1e-9)


def test_below_it_a_missing_number_is_its_mean_given_the_others():
    X, y = mixed(missing=0.2)
    model = GaussianDiscriminant("full", tradeoff=0.5).fit(X, y)
    numbers = X.select("a", "b").to_numpy()
    mean, C = class_free_moments(numbers, None)
    filled = X.with_columns(
        pl.Series(name, column)
        for name, column in zip("ab", conditional_means(numbers, mean, C).T, strict=True)
    )
    assert_allclose(model.predict_proba(X), model.predict_proba(filled), rtol=1e-8)
    complete = GaussianDiscriminant("full", tradeoff=0.5).fit(filled, y)
    assert_allclose(model.predict_proba(filled), complete.predict_proba(filled), atol=1e-6)


def test_conditional_means_and_moments_are_the_textbooks():
    rng = np.random.default_rng(0)
    C = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    mean = np.array([1.0, -2.0, 0.5])
    X = rng.multivariate_normal(mean, C, size=20_000)
    row = np.array([[np.nan, 1.0, 2.0]])
    slope = np.linalg.solve(C[1:, 1:], C[1:, 0])
    expected = mean[0] + slope @ (row[0, 1:] - mean[1:])
    assert_allclose(conditional_means(row, mean, C)[0, 0], expected, rtol=1e-6)
    whole = class_free_moments(X[:1_500], None)
    assert_allclose(whole[0], X[:1_500].mean(axis=0), rtol=1e-10)
    assert_allclose(whole[1], np.cov(X[:1_500].T, bias=True), rtol=1e-10)
    # Cells that are missing more often where another column is large: means of cells are wrong.
    holes = X[:2_000].copy()
    holes[holes[:, 1] > mean[1], 0] = np.nan
    found, _ = class_free_moments(holes, None)
    assert abs(np.nanmean(holes[:, 0]) - mean[0]) > 3 * abs(found[0] - mean[0])


def test_one_part_alone_and_arrays_are_what_they_were():
    X, y = mixed()
    assert isinstance(GaussianDiscriminant(tradeoff=1).fit(X.select("a", "b"), y).density_,
                      MultivariateGaussian)  # fmt: skip
    discrete = GaussianDiscriminant(tradeoff=1).fit(X.select("town", "dog"), y)
    assert isinstance(discrete.density_, Product)
    assert discrete.means_.shape == (2, 0)
    same = NaiveBayes(tradeoff=1).fit(X.select("town", "dog"), y)
    assert_allclose(discrete.predict_proba(X.select("town", "dog")),
                    same.predict_proba(X.select("town", "dog")), rtol=1e-12)  # fmt: skip


def test_categories_never_seen_and_missing_ones_are_left_out():
    X, y = mixed()
    model = GaussianDiscriminant(tradeoff=1).fit(X, y)
    row = {"a": [0.3], "town": ["Lima"], "b": [0.1], "dog": [True]}
    without = GaussianDiscriminant(tradeoff=1).fit(X.drop("town"), y)
    frame = pl.DataFrame(row)
    expected = without.predict_proba(frame.drop("town"))
    assert_allclose(model.predict_proba(frame), expected, rtol=1e-9)


@pytest.mark.parametrize("tradeoff", [1, 0.5, "auto"])
def test_saved_explained_and_sampled(tradeoff, tmp_path):
    X, y = mixed(missing=0.1)
    model = GaussianDiscriminant("full", tradeoff=tradeoff).fit(X, y)
    posterior = model.predict_proba(X)
    save_model(model, tmp_path / "model.crossfade")
    assert_allclose(load_model(tmp_path / "model.crossfade").estimator.predict_proba(X), posterior)
    assert_allclose(pickle.loads(pickle.dumps(model)).predict_proba(X), posterior)
    baseline, columns = explain(model, X).log_odds("yes")
    log_odds = np.log(posterior[:, 1]) - np.log(posterior[:, 0])
    assert_allclose(baseline + columns.sum(axis=1), log_odds, atol=1e-8)
    drawn, labels = model.sample(50, random_state=0)
    assert drawn.columns == X.columns
    assert set(labels) == {"no", "yes"}


def test_batches_give_one_fit_and_learn_new_categories():
    X, y = mixed()
    whole = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    model = GaussianDiscriminant("full", tradeoff=1)
    only = (X["town"] == "Oslo").to_numpy()
    for part in (only, ~only):
        model.partial_fit(X.filter(part), y[part], classes=["no", "yes"])
    assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-9)


def test_pandas_counts_and_text_without_numbers():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = pd.DataFrame({"n": rng.poisson(1.0 + y), "t": np.where(rng.random(100) < 0.5, "u", "v")})
    model = GaussianDiscriminant(tradeoff=1).fit(X, y)
    assert model.schema_.kinds == ("count", "categorical")
    assert model.means_.shape == (2, 1)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_mixtures_take_categories_and_missing_cells(missing):
    X, y = mixed(missing=missing)
    model = GaussianDiscriminant("full", components=2, tradeoff=1).fit(X, y)
    assert model.score(X, y) > 0.6
