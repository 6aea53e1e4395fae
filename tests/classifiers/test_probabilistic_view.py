"""Joint densities, class densities, samples, and class priors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import multivariate_normal, norm

from crossfade import GaussianDiscriminant, NaiveBayes, NotADensityError
from crossfade.errors import DataError
from tests.classifiers.models import (
    CONTINUOUS,
    CONTINUOUS_AND_TRADEOFFS,
    DENSITIES,
    continuous,
    mixed,
    posterior_scores,
)


@pytest.mark.parametrize(("name", "tradeoff"), CONTINUOUS_AND_TRADEOFFS)
def test_the_views_agree(name, tradeoff):
    X, y = continuous()
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    joint = model.joint_log_likelihood(X)
    assert (model.posterior_scale_ == 1.0) == (tradeoff != "auto")
    scores = posterior_scores(model, joint)
    np.testing.assert_allclose(model.predict_proba(X), softmax(scores, axis=1), atol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), log_softmax(scores, axis=1), atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.class_prior_.sum() == pytest.approx(1.0, rel=1e-12)
    for code, (label, density) in enumerate(model.class_densities_.items()):
        assert label == model.classes_[code]
        np.testing.assert_allclose(
            density.log_density(X) + np.log(model.class_prior_[code]), joint[:, code], rtol=1e-9
        )


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_a_discriminant_is_gaussian(tradeoff):
    X, y = continuous()
    for covariance in ("shared", "full", "diagonal", "spherical"):
        model = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(X, y)
        for code in range(3):
            reference = multivariate_normal(model.means_[code], model.covariances_[code])
            own = model.joint_log_likelihood(X)[:, code] - np.log(model.class_prior_[code])
            np.testing.assert_allclose(own, reference.logpdf(X), rtol=1e-8)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_a_density_integrates_to_one(tradeoff):
    X, y = continuous(k=2, d=1)
    model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    grid = np.linspace(-60.0, 60.0, 400_001)
    total = np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_have_the_models_moments(name, tradeoff):
    X, y = continuous(k=2)
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    n = 20_000
    drawn, labels = model.sample(n, random_state=3)
    assert drawn.shape == (n, 3)
    assert abs((labels == 1).mean() - model.class_prior_[1]) < 4.5 * np.sqrt(0.25 / n)
    for code, density in enumerate(model.class_densities_.values()):
        own = drawn[labels == code]
        T = model.density_.sufficient_statistics(own)
        deviation = np.sqrt(np.diag(model.density_.hessian(density.natural)[0]) / len(own))
        assert (np.abs(T.mean(axis=0) - density.mean_parameters[0]) < 5 * deviation + 1e-9).all()


def test_samples_refit_to_the_model_they_came_from():
    X, y = mixed(n=300)
    model = NaiveBayes(DENSITIES, tradeoff=0.5).fit(X, y)
    drawn, labels = model.sample(30_000, random_state=0)
    again = NaiveBayes(DENSITIES, tradeoff=1).fit(drawn, labels)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=0.03)


def test_samples_repeat_with_their_seed_and_only_with_it():
    X, y = continuous()
    model = NaiveBayes(tradeoff=1).fit(X, y)
    one, other = model.sample(5, random_state=4), model.sample(5, random_state=4)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    assert (model.sample(5, random_state=5)[0] != one[0]).any()
    state = np.random.RandomState(0)
    assert (model.sample(5, random_state=state)[0] != model.sample(5, random_state=state)[0]).any()
    assert model.sample()[0].shape == (1, 3)
    with pytest.raises(DataError, match="n_samples: expected a whole number of at least 1, got 0"):
        model.sample(0)
    with pytest.raises(
        DataError, match=r"n_samples: expected a whole number of at least 1, got 2\.5"
    ):
        model.sample(2.5)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_samples_are_tables_like_those_of_fit(library):
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"])[rng.integers(2, size=100)]
    columns = {
        "city": np.array(["Bern", "Oslo"])[rng.integers(2, size=100)].tolist(),
        "member": (rng.random(100) < 0.5).tolist(),
        "x": rng.normal(size=100).tolist(),
    }
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    table = make(columns)
    model = NaiveBayes(tradeoff=1).fit(table, y)
    drawn, labels = model.sample(50, random_state=0)
    assert type(drawn) is type(table)
    frame = pl.DataFrame(drawn) if library != "pyarrow" else pl.from_arrow(drawn)
    assert frame.columns == list(columns)
    assert set(frame["city"].to_list()) == {"Bern", "Oslo"}
    assert set(frame["member"].to_list()) == {True, False}
    assert set(labels) == {"no", "yes"}
    model.predict_proba(drawn)  # and can be used as such


# -- where there is no density ---------------------------------------------------------------------


def inside_out(d):
    """Return one class within the other: their precisions differ by far."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    return rng.normal(size=(200, d)) * np.where(y == 1, 3.0, 0.3)[:, None], y


def test_a_posterior_without_a_density_says_so():
    """So many columns that the minimum norm stands for the limit: half of it is no covariance."""
    X, y = inside_out(40)
    model = GaussianDiscriminant("full", tradeoff=0).fit(X, y)
    assert model.score(X, y) == 1.0
    for use in (
        model.score_samples,
        model.joint_log_likelihood,
        lambda X: model.sample(1),
        lambda X: model.class_densities_,
        lambda X: model.means_,
    ):
        with pytest.raises(NotADensityError, match=r"tradeoff: the fit at tradeoff=0 .* fit with"):
            use(X)
    T = model.sufficient_statistics(X)
    scores = T @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.class_prior_, 0.5)
    # A class prior shifts this posterior like any other.
    shifted = GaussianDiscriminant("full", tradeoff=0, class_prior=[0.9, 0.1]).fit(X, y)
    np.testing.assert_allclose(
        shifted.decision_function(X), model.decision_function(X) - np.log(9.0), atol=1e-6
    )


@pytest.mark.parametrize("name", CONTINUOUS)
def test_small_fits_have_a_density_the_limit_of_the_path(name):
    """A common precision makes classes of any differences proper: the limit exists."""
    X, y = inside_out(2)
    model = CONTINUOUS[name](tradeoff=0).fit(X, y)
    assert np.isfinite(model.score_samples(X)).all()
    near = CONTINUOUS[name](tradeoff=1e-6).fit(X, y)
    np.testing.assert_allclose(model.score_samples(X), near.score_samples(X), atol=1e-2)


# -- class priors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
@pytest.mark.parametrize("name", ["naive bayes", "shared", "full"])
def test_a_class_prior_shifts_the_posterior(name, tradeoff):
    """At every tradeoff the posterior is that of the data's prior, reweighted."""
    X, y = continuous()
    shares = np.array([0.7, 0.1, 0.2])
    plain = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    model = CONTINUOUS[name](tradeoff=tradeoff, class_prior=shares).fit(X, y)
    shifted = plain.predict_proba(X) * shares / (np.bincount(y) / len(y))
    shifted /= shifted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), shifted, atol=1e-7)
    if tradeoff == 1:
        np.testing.assert_allclose(model.class_prior_, shares, rtol=1e-12)
    assert model.class_prior_.sum() == pytest.approx(1.0)


def test_uniform_is_equal_shares():
    X, y = continuous()
    for tradeoff in (1, 0.5, 0):
        one = NaiveBayes(tradeoff=tradeoff, class_prior="uniform").fit(X, y)
        other = NaiveBayes(tradeoff=tradeoff, class_prior=[1 / 3] * 3).fit(X, y)
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)
        same = NaiveBayes(tradeoff=tradeoff, class_prior=np.bincount(y) / len(y)).fit(X, y)
        plain = NaiveBayes(tradeoff=tradeoff).fit(X, y)
        np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    "prior", ["flat", [0.5, 0.5], [0.5, 0.6, 0.1], [0.5, 0.5, 0.0], [np.nan, 0.5, 0.5]]
)
def test_a_wrong_prior_is_refused(prior):
    X, y = continuous()
    message = "class_prior: expected 'empirical', 'uniform' or 3 positive shares that sum to 1"
    for make in (NaiveBayes, GaussianDiscriminant):
        with pytest.raises(DataError, match=message):
            make(tradeoff=1, class_prior=prior).fit(X, y)


# -- mixtures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tradeoff", [1, 0.3, 0])
def test_mixtures_have_all_views(tradeoff):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    centres = np.array([[-3.0, 3.0], [0.0, 6.0]])
    X = np.column_stack(
        [centres[y, rng.integers(2, size=200)] + 0.7 * rng.normal(size=200), rng.normal(size=200)]
    )
    model = GaussianDiscriminant("diagonal", components=2, tradeoff=tradeoff, l2=0.1).fit(X, y)
    plain = GaussianDiscriminant("diagonal", tradeoff=tradeoff, l2=0.1).fit(X, y)
    assert model.score(X, y) > plain.score(X, y)
    assert model.means_.shape == (4, 2)
    joint = model.joint_log_likelihood(X)
    np.testing.assert_allclose(model.predict_proba(X), softmax(joint, axis=1), atol=1e-12)
    np.testing.assert_allclose(model.score_samples(X), logsumexp(joint, axis=1), rtol=1e-12)
    density = model.class_densities_[1]
    assert density.shares.sum() == pytest.approx(1.0)
    by_hand = sum(
        share * multivariate_normal(mean, covariance).pdf(X)
        for share, mean, covariance in zip(
            density.shares, model.means_[2:], model.covariances_[2:], strict=True
        )
    )
    np.testing.assert_allclose(np.exp(density.log_density(X)), by_hand, rtol=1e-8)
    if tradeoff == 1:
        assert sorted(np.sign(model.means_[:2, 0])) == [-1, 1]
        drawn, labels = model.sample(4000, random_state=0)
        assert (np.abs(drawn[labels == 0, 0]) > 1).mean() > 0.95
    with pytest.raises(AttributeError, match="coef_: expected components=1, got 2"):
        _ = model.coef_


def test_one_component_is_the_plain_discriminant():
    X, y = continuous()
    for tradeoff in (1, 0.5):
        one = GaussianDiscriminant("full", tradeoff=tradeoff).fit(X, y)
        other = GaussianDiscriminant("full", tradeoff=tradeoff, components=1, n_init=3).fit(X, y)
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_mixtures_repeat():
    X, y = continuous()
    one = GaussianDiscriminant("full", components=2, tradeoff=1).fit(X, y)
    other = GaussianDiscriminant("full", components=2, tradeoff=1).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_normal_densities_by_scipy():
    X, y = continuous(k=2)
    model = NaiveBayes(tradeoff=1, var_smoothing=0.2).fit(X, y)
    variance = np.array([X[y == k].var(axis=0) for k in range(2)]) + 0.2 * X.var(axis=0)
    mean = np.array([X[y == k].mean(axis=0) for k in range(2)])
    expected = norm(mean[:, None], np.sqrt(variance)[:, None]).logpdf(X).sum(axis=2).T
    expected += np.log(np.bincount(y) / len(y))
    np.testing.assert_allclose(model.joint_log_likelihood(X), expected, rtol=1e-9)
