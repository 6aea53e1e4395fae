"""The estimators keep scikit-learn's contract, and work inside its tools."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes
from tests.classifiers.models import TRADEOFFS, continuous

ESTIMATORS = [
    NaiveBayes(tradeoff=0),
    GaussianDiscriminant("full", tradeoff=0.5),
    EntropicNaiveBayes(GaussianNB()),
]
#: Settings whose fits differ, not what surrounds them.
MORE_ESTIMATORS = [
    NaiveBayes(tradeoff=1),
    GaussianDiscriminant(tradeoff=1),
    GaussianDiscriminant("full", tradeoff=0.5, shrinkage=0.2),
    GaussianDiscriminant("spherical", components=2, n_init=1, tradeoff=1),
]


@parametrize_with_checks(ESTIMATORS)
def test_the_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(MORE_ESTIMATORS)
def test_the_contract_of_more_settings(estimator, check):
    check(estimator)


#: What is decided before the tradeoff is: a choice of it takes as long as a hundred other fits.
BEFORE_A_CHOICE = {
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_fit2d_predict1d",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
}
#: What a choice may spoil most easily: the others are slow tests.
OF_A_CHOICE_FIRST = {"check_dict_unchanged", "check_fit_idempotent", "check_n_features_in"}
CHOOSING = NaiveBayes("gaussian", shared_variance=True)
CHECKS = [check for _, check in estimator_checks_generator(CHOOSING)]
OF_A_CHOICE = [
    pytest.param(check, marks=[pytest.mark.slow] * (check.func.__name__ not in OF_A_CHOICE_FIRST))
    for check in CHECKS
    if check.func.__name__ not in BEFORE_A_CHOICE
]


@pytest.mark.parametrize("check", OF_A_CHOICE, ids=lambda check: check.func.__name__)
def test_the_contract_of_a_choice(check):
    check(CHOOSING)


def test_no_check_is_left_out_by_a_name_that_it_lost():
    assert {check.func.__name__ for check in CHECKS} >= BEFORE_A_CHOICE | OF_A_CHOICE_FIRST


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
def test_pipelines_and_searches(make, iris):
    X, y = iris
    piped = make_pipeline(StandardScaler(), make(tradeoff=0.5)).fit(X, y)
    np.testing.assert_allclose(
        piped.predict_proba(X), make(tradeoff=0.5).fit(X, y).predict_proba(X), atol=1e-8
    )
    name = make.__name__.lower()
    grid = GridSearchCV(piped, {f"{name}__tradeoff": [1, 0.5, 0]}, cv=3, scoring="neg_log_loss")
    grid.fit(X, y)
    assert grid.best_params_[f"{name}__tradeoff"] in (1, 0.5, 0)
    assert cross_val_score(make(tradeoff=1), X, y).mean() > 0.9
    scores = cross_validate(make(tradeoff=0), X, y, scoring=["accuracy", "neg_log_loss"])
    assert scores["test_accuracy"].mean() > 0.9


def test_calibration_voting_bagging_and_one_against_the_rest(iris):
    X, y = iris
    calibrated = CalibratedClassifierCV(NaiveBayes(tradeoff=1), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.9
    votes = VotingClassifier(
        [("a", NaiveBayes(tradeoff=1)), ("b", GaussianDiscriminant(tradeoff=1))], voting="soft"
    )
    assert votes.fit(X, y).score(X, y) > 0.9
    assert BaggingClassifier(NaiveBayes(tradeoff=1), 3, random_state=0).fit(X, y).score(X, y) > 0.9
    assert OneVsRestClassifier(GaussianDiscriminant(tradeoff=0)).fit(X, y).score(X, y) > 0.9


def test_frozen_models_stacks_and_chains(iris):
    X, y = iris
    frozen = FrozenEstimator(NaiveBayes(tradeoff=1).fit(X, y))
    for method in ("sigmoid", "isotonic", "temperature"):
        assert CalibratedClassifierCV(frozen, method=method).fit(X, y).score(X, y) > 0.9
    stack = StackingClassifier([("a", frozen), ("b", GaussianDiscriminant(tradeoff=1))], cv=3)
    assert stack.fit(X, y).score(X, y) > 0.9
    labels = np.c_[y == 0, y == 2]
    chain = ClassifierChain(GaussianDiscriminant(tradeoff=0)).fit(X, labels)
    assert chain.score(X, labels) > 0.9


def test_inspection_and_selection_of_columns():
    # Of three columns the last alone tells the classes apart, of a table with text in it.
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    table = pd.DataFrame(
        {
            "c": rng.choice(["a", "b"], 120),
            "n": rng.normal(size=120),
            "told": y + rng.normal(size=120) / 9,
        }
    )
    model = NaiveBayes(tradeoff=0.5).fit(table, y)
    importance = permutation_importance(model, table, y, n_repeats=2, random_state=0)
    assert importance.importances_mean.argmax() == 2
    at = partial_dependence(model, table, ["told"], grid_resolution=5)["average"][0]
    assert (np.diff(at) > 0).all()
    numbers = table[["n", "told"]]
    for selector in (
        SequentialFeatureSelector(NaiveBayes(tradeoff=1), n_features_to_select=1, cv=3),
        RFE(NaiveBayes(tradeoff=0, shared_variance=True), n_features_to_select=1),
    ):
        assert selector.fit(numbers, y).get_feature_names_out().tolist() == ["told"]


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
def test_clone_and_pickle(make, tradeoff, iris):
    X, y = iris
    model = make(tradeoff=tradeoff).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert copy.tradeoff_path_.keys() == model.tradeoff_path_.keys()
    fresh = clone(model)
    assert not hasattr(fresh, "classes_")
    np.testing.assert_array_equal(fresh.fit(X, y).predict_proba(X), model.predict_proba(X))
    assert is_classifier(model)
    assert repr(make()) == f"{make.__name__}()"


def test_set_output_of_steps_before_it(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    for library in ("pandas", "polars"):
        scaler = make_column_transformer(
            (StandardScaler(), ["a", "b"]), remainder="passthrough", verbose_feature_names_out=False
        )
        piped = make_pipeline(scaler, NaiveBayes(tradeoff=1)).set_output(transform=library)
        piped.fit(table, y)
        assert piped[-1].feature_names_in_.tolist() == ["a", "b", "c", "d"]
        assert piped.score(table, y) > 0.9


def test_weights_are_routed(iris):
    X, y = iris
    weights = np.where(y == 0, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = NaiveBayes(tradeoff=1).set_fit_request(sample_weight=True)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), model)
        piped.fit(X, y, sample_weight=weights)
        assert piped[-1].classes_.tolist() == [1, 2]
        result = cross_validate(
            model.set_score_request(sample_weight=True),
            X,
            y,
            params={"sample_weight": weights},
            return_estimator=True,
        )
        assert all(fitted.classes_.tolist() == [1, 2] for fitted in result["estimator"])


def test_tags():
    tags = NaiveBayes().__sklearn_tags__()
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.allow_nan
    assert GaussianDiscriminant().__sklearn_tags__().input_tags.allow_nan
    assert GaussianDiscriminant(components=2).__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
def test_parameters_are_stored_as_given(make):
    given = {"class_prior": [0.2, 0.8], "class_weight": {0: 2.0}, "selection": [[0, 1], [1, 0]]}
    model = make(**given)
    for name, value in given.items():
        assert getattr(model, name) is value
    X, y = continuous(k=2)
    model.set_params(tradeoff=0).fit(X, y)
    for name, value in given.items():
        assert getattr(model, name) is value
