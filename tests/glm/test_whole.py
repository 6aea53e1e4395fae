"""A model is whole after a refused refit and in a copy; its scores know all that it was given."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from crossfade import BinomialRegression, DataError, MultinomialRegression, PoissonRegression

X = np.random.default_rng(0).normal(size=(40, 3))
COUNTS = np.random.default_rng(1).poisson(np.exp(0.4 * X[:, 0] + 1.0))
YEARS = np.random.default_rng(2).uniform(0.5, 3.0, 40)
MODELS = [
    (BinomialRegression(), COUNTS % 2),
    (PoissonRegression(), COUNTS),
    (MultinomialRegression(), COUNTS % 3),
]


@pytest.mark.parametrize(("model", "y"), MODELS)
@pytest.mark.parametrize("bad", ["cells", "weights", "labels", "warning"])
@pytest.mark.filterwarnings("error")
def test_a_refused_refit_leaves_the_model_as_it_was(model, y, bad):
    model = model.fit(X, y)
    before = {name: copy.deepcopy(value) for name, value in vars(model).items() if name[0] != "_"}
    wide = np.column_stack([X, X[:, :1]])
    weights = np.ones(40)
    if bad == "cells":
        wide[3, 1] = np.nan
    elif bad == "weights":
        weights[2] = -1.0
    labels = y[:7] if bad == "labels" else y
    with pytest.raises(UserWarning if bad == "warning" else DataError):
        model.fit(wide, labels, weights)
    np.testing.assert_array_equal(model.predict(X), type(model)().fit(X, y).predict(X))
    after = {name: value for name, value in vars(model).items() if name[0] != "_"}
    assert after.keys() == before.keys()
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(("model", "y"), MODELS)
def test_what_needs_no_rows_is_answered_by_copies(model, y):
    model = model.fit(X, y)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.wald_test("x1") == model.wald_test("x1")
        np.testing.assert_array_equal(again.confidence_intervals(), model.confidence_intervals())
        assert again.pseudo_r2_ == model.pseudo_r2_
        assert str(again.summary()) == str(model.summary())
    # A deep copy in this process knows the rows as well.
    assert again.likelihood_ratio_test("x1") == model.likelihood_ratio_test("x1")


@pytest.mark.parametrize(("model", "y"), MODELS)
def test_the_third_argument_is_the_weights(model, y):
    weights = np.random.default_rng(3).integers(1, 4, 40)
    by_place, by_name = model.fit(X, y, weights).coef_, model.fit(X, y, sample_weight=weights).coef_
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).coef_
    np.testing.assert_array_equal(by_place, by_name)
    np.testing.assert_allclose(by_place, repeated, rtol=1e-6)


def test_scores_know_exposure_and_trials():
    """D² from the deviances of the fit; accuracy of the single trials that the groups stand for."""
    fit = PoissonRegression().fit(X, COUNTS, exposure=YEARS)
    right = 1.0 - fit.deviance_ / fit.null_deviance_
    np.testing.assert_allclose(fit.score(X, COUNTS, exposure=YEARS), right)
    with pytest.raises(DataError, match="exposure: expected one for each row, as in fit, got none"):
        fit.score(X, COUNTS)
    moved = PoissonRegression().fit(X, COUNTS, offset=np.log(YEARS))
    np.testing.assert_allclose(moved.score(X, COUNTS, offset=np.log(YEARS)), right)
    trials = COUNTS + 2
    grouped = BinomialRegression().fit(X, COUNTS, trials=trials)
    rows = np.repeat(np.arange(40), trials)
    single = (np.concatenate([np.arange(n) for n in trials]) < COUNTS[rows]).astype(int)
    plain = BinomialRegression().fit(X[rows], single)
    np.testing.assert_allclose(
        grouped.score(X, COUNTS, trials=trials), plain.score(X[rows], single)
    )
    with pytest.raises(DataError, match="trials: expected the trials of each row"):
        grouped.score(X, COUNTS)


def test_a_constant_response_has_a_score():
    fit = PoissonRegression().fit(X, COUNTS)
    assert fit.score(X, np.full(40, 2)) == 0.0
    flat = PoissonRegression().fit(X, np.full(40, 2))
    assert flat.score(X, np.full(40, 2)) == 1.0


def test_a_saturated_model_shows_no_dispersion():
    fit = PoissonRegression().fit(np.eye(3)[:, 1:], [3, 5, 9])
    with pytest.raises(DataError, match="got 0 degrees of freedom, too few for a dispersion"):
        fit.dispersion_test()


@pytest.mark.parametrize("value", [np.inf, 1e300, -1e300, 10**200, -(10**200)])
@pytest.mark.parametrize("where", ["y", "trials", "exposure", "offset"])
def test_numbers_out_of_range_are_named(value, where):
    fit = BinomialRegression().fit if where == "trials" else PoissonRegression().fit
    rows = {"y": [1, 2, 3, 4], where: [1, value, 3, 4]}
    with pytest.raises(DataError, match=f"^{where}: expected .*(row 1|infinity)"):
        fit(X[:4], **rows)


@pytest.mark.parametrize("where", ["y", "trials"])
def test_counts_beyond_exact_doubles_are_named(where):
    fit = BinomialRegression().fit if where == "trials" else PoissonRegression().fit
    rows = {"y": [1, 2, 3, 4], where: [1, 12345678901234567890, 3, 4]}
    with pytest.raises(DataError, match=rf"^{where}: expected whole numbers up to 2\^53"):
        fit(X[:4], **rows)
