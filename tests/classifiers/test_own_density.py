"""A new exponential family is one small class: everything else follows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import geom
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from crossfade import NaiveBayes
from crossfade.densities import DENSITIES
from crossfade.errors import DataError
from crossfade.io import load_model, save_model
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.criteria import losses
from crossfade.tradeoff.leave_one_out import approximate_leave_one_out
from crossfade.tradeoff.objective import LabelledRows, TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise
from tests.classifiers.models import TRADEOFFS, posterior_scores
from tests.densities.cases import Exponential, Geometric


def geometric(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    chances = np.array([[0.5, 0.2, 0.4], [0.3, 0.25, 0.4]])
    return rng.geometric(chances[y]) - 1.0, y


def test_the_generative_end_is_its_closed_form():
    X, y = geometric()
    model = NaiveBayes(Geometric(), tradeoff=1).fit(X, y)
    expected = np.empty((len(X), 2))
    for k in range(2):
        own = X[y == k]
        chance = 1 / (1 + (own.sum(axis=0) + 1) / (len(own) + 1))
        expected[:, k] = geom.logpmf(X + 1, chance).sum(axis=1) + np.log((y == k).mean())
    np.testing.assert_allclose(model.joint_log_likelihood(X), expected, rtol=1e-10)


@pytest.mark.parametrize("make", [Geometric, Exponential])
def test_the_discriminative_end_is_logistic_regression(make):
    X, y = geometric()
    X = X if make is Geometric else X + 0.5
    model = NaiveBayes(make(), tradeoff=0).fit(X, y)
    Z = StandardScaler().fit_transform(X)
    reference = LogisticRegression(C=1.0, tol=1e-12, max_iter=1000).fit(Z, y)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(Z), atol=1e-6)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
@pytest.mark.parametrize("make", [Geometric, Exponential])
def test_every_tradeoff_and_view(make, tradeoff):
    X, y = geometric()
    X = X if make is Geometric else X + 0.5
    model = NaiveBayes(make(), tradeoff=tradeoff).fit(X, y)
    joint = model.joint_log_likelihood(X)
    scores = posterior_scores(model, joint)
    np.testing.assert_allclose(
        model.predict_log_proba(X), scores - logsumexp(scores, axis=1)[:, None], atol=1e-9
    )
    T = model.sufficient_statistics(X)
    np.testing.assert_allclose(
        T @ model.coef_[0] + model.intercept_[0], model.decision_function(X), atol=1e-8
    )
    np.testing.assert_allclose(
        model.to_logistic_regression().predict_proba(X), model.predict_proba(X), atol=1e-9
    )
    n = 20_000
    drawn, labels = model.sample(n, random_state=0)
    for code, density in enumerate(model.class_densities_.values()):
        own = drawn[labels == code]
        deviation = own.std(axis=0) / np.sqrt(len(own))
        assert (np.abs(own.mean(axis=0) - density.mean_parameters[0]) < 5 * deviation).all()


@pytest.mark.usefixtures("whole_choice")
def test_the_path_between_is_convex_and_chosen_by_leave_one_out():
    X, y = geometric()
    model = NaiveBayes(Geometric(), tradeoff="best").fit(X, y)
    assert model.selection_.startswith("approximate leave-one-out over 600 rows: best of 9 points")
    path = model.tradeoff_path_
    assert model.tradeoff_ == path["tradeoff"][path["log_loss"].argmin()]
    assert np.isfinite(np.array(list(path.values()))).all()


def test_leave_one_out_equals_refits():
    X, y = geometric(150)
    rows = LabelledRows(X, y.astype(np.int64), None, 2)
    objective = TradeoffObjective.of(rows, bind(Geometric(), rows), 0.5, 1.0)
    theta = minimise(objective, cold_start(objective)).theta
    approximate = losses(approximate_leave_one_out(objective, theta).scores, y, None)
    exact = np.empty((len(y), 2))
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        part = NaiveBayes(Geometric(), tradeoff=0.5).fit(X[kept], y[kept])
        exact[i] = part.predict_log_proba(X[i : i + 1])[0]
    assert approximate["log_loss"] == pytest.approx(losses(exact, y, None)["log_loss"], rel=0.002)


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
def test_missing_cells_weights_and_batches():
    X, y = geometric()
    X[::7, 0] = np.nan
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    for tradeoff in (1, 0.5, 0):
        one = NaiveBayes(Geometric(), tradeoff=tradeoff).fit(X, y, sample_weight=weights)
        other = NaiveBayes(Geometric(), tradeoff=tradeoff).fit(X[index], y[index])
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)
        empty = one.predict_proba(np.full((1, 3), np.nan))[0]
        if tradeoff:
            np.testing.assert_allclose(empty, one.class_prior_, rtol=1e-9)
        else:
            log_odds = one.coef_[0] @ np.nanmean(X[index], axis=0) + one.intercept_[0]
            assert np.log(empty[1] / empty[0]) == pytest.approx(log_odds, rel=1e-9)
    whole = NaiveBayes(Geometric(), tradeoff=1).fit(X, y)
    parts = NaiveBayes(Geometric(), tradeoff=1)
    for rows in (slice(0, 200), slice(200, 600)):
        parts.partial_fit(X[rows], y[rows])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-10)


def test_next_to_other_densities_by_column_name():
    X, y = geometric()
    rng = np.random.default_rng(1)
    table = pl.DataFrame(
        {
            "tries": X[:, 0],
            "wait": X[:, 1] + 0.5,
            "city": np.array(["a", "b"])[rng.integers(2, size=600)],
        }
    )
    density = {"tries": Geometric(), "wait": Exponential()}
    for tradeoff in TRADEOFFS:
        model = NaiveBayes(density, tradeoff=tradeoff).fit(table, y)
        assert model.predict_proba(table).shape == (600, 2)
        kinds = {type(part).__name__ for part, _ in model.density_.parts}
        assert kinds == {"Geometric", "Exponential", "Categorical"}
    drawn, _ = model.sample(10, random_state=0)
    assert drawn.columns == table.columns


def test_values_outside_the_domain_are_refused_by_name():
    X, y = geometric()
    with pytest.raises(
        DataError, match=r"columns 'x0', 'x1', 'x2': expected whole numbers, 0 or more, got \d+\.5"
    ):
        NaiveBayes(Geometric()).fit(X + 0.5, y)


def test_it_is_cloned_with_its_model():
    X, y = geometric()
    model = NaiveBayes(Geometric(), tradeoff=0.5)
    np.testing.assert_array_equal(
        clone(model).fit(X, y).predict_proba(X), model.fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize(("name", "kind"), DENSITIES.items())
def test_a_name_stands_for_one_density_everywhere(name, kind, tmp_path):
    X, y = np.array([[0], [1], [1], [0], [1], [1]]), np.array([0, 0, 0, 1, 1, 1])
    model = NaiveBayes(name).fit(X, y)
    ((density, _),) = model.density_.parts
    assert type(density) is kind
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops").estimator
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
