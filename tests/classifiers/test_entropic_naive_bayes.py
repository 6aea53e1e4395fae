"""π(i)^(1-T) ∏ L_t(i) is Bayes' rule where the classifiers of single columns are."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from crossfade import EntropicNaiveBayes, NaiveBayes, explain
from crossfade.errors import DataError
from tests.classifiers.models import DENSITIES, continuous, mixed


@pytest.mark.parametrize("k", [2, 3])
def test_equals_bayes_rule_of_the_same_densities(k):
    X, y = mixed(k=k)
    columns = [NaiveBayes({0: DENSITIES[j]}, tradeoff=1) for j in range(4)]
    entropic = EntropicNaiveBayes(columns).fit(X, y)
    whole = NaiveBayes(DENSITIES, tradeoff=1).fit(X, y)
    np.testing.assert_allclose(entropic.predict_proba(X), whole.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(
        entropic.predict_log_proba(X), whole.predict_log_proba(X), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_array_equal(entropic.predict(X), whole.predict(X))


@pytest.mark.parametrize("prior", ["empirical", "uniform"])
def test_other_shares_are_bayes_rule_with_them(prior):
    X, y = mixed(k=2)
    columns = [NaiveBayes({0: DENSITIES[j]}, tradeoff=1, class_prior=prior) for j in range(4)]
    entropic = EntropicNaiveBayes(columns, class_prior=prior).fit(X, y)
    whole = NaiveBayes(DENSITIES, tradeoff=1, class_prior=[0.9, 0.1]).fit(X, y)
    wanted = whole.predict_proba(X)
    for given in ([0.9, 0.1], dict(zip(whole.classes_.tolist(), [0.9, 0.1], strict=True))):
        found = entropic.predict_proba(X, class_prior=given)
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        found = np.exp(entropic.predict_log_proba(X, class_prior=given))
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_array_equal(entropic.predict(X, class_prior=given), whole.predict(X))
        explained = explain(entropic.with_class_prior(given), X).scores
        explained = explained - np.logaddexp.reduce(explained, axis=1)[:, None]
        np.testing.assert_allclose(np.exp(explained), wanted, atol=1e-12)
    back = entropic.with_class_prior([0.9, 0.1]).with_class_prior("empirical")
    shares = NaiveBayes(DENSITIES, tradeoff=1).fit(X, y)
    np.testing.assert_allclose(back.predict_proba(X), shares.predict_proba(X), atol=1e-12)
    with pytest.raises(DataError, match=r"^class_prior: expected"):
        entropic.predict(X, class_prior=[0.5, 0.6])


def test_equals_bayes_rule_of_scikit_learns_classifiers():
    X, y = continuous()
    entropic = EntropicNaiveBayes(GaussianNB(var_smoothing=0)).fit(X, y)
    reference = GaussianNB(var_smoothing=0).fit(X, y)
    np.testing.assert_allclose(entropic.predict_proba(X), reference.predict_proba(X), atol=1e-12)
    bits = (X > 0).astype(int)
    entropic = EntropicNaiveBayes(BernoulliNB()).fit(bits, y)
    np.testing.assert_allclose(
        entropic.predict_proba(bits), BernoulliNB().fit(bits, y).predict_proba(bits), atol=1e-12
    )
    codes = np.clip(np.floor(X) + 3, 0, 6).astype(int)
    counts = codes.max(axis=0) + 1
    entropic = EntropicNaiveBayes([CategoricalNB(min_categories=int(m)) for m in counts])
    np.testing.assert_allclose(
        entropic.fit(codes, y).predict_proba(codes),
        CategoricalNB(min_categories=counts).fit(codes, y).predict_proba(codes),
        atol=1e-12,
    )


def test_the_formula_with_any_classifiers():
    X, y = continuous()
    given = [LogisticRegression(), DecisionTreeClassifier(max_depth=2), GaussianNB()]
    model = EntropicNaiveBayes(given).fit(X, y)
    prior = np.bincount(y) / len(y)
    product = prior**-2.0 * np.ones((len(X), 1))
    for j, one in enumerate(given):
        product = product * np.maximum(one.fit(X[:, [j]], y).predict_proba(X[:, [j]]), 1e-300)
    product /= product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), product, rtol=1e-10, atol=1e-300)
    assert not hasattr(EntropicNaiveBayes(given).column_classifiers[0], "dummy_")


def test_groups_of_columns_are_one_factor_each():
    X, y = load_iris(return_X_y=True)
    pairs = [(GaussianNB(), [0, 2]), (LogisticRegression(), 1), (GaussianNB(), [3])]
    model = EntropicNaiveBayes(pairs).fit(X, y)
    product = (np.full(3, 1 / 3)) ** -2.0
    for one, columns in pairs:
        part = X[:, np.atleast_1d(columns)]
        product = product * one.fit(part, y).predict_proba(part)
    product /= product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), product, rtol=1e-9, atol=1e-14)


def test_a_missing_column_is_left_out():
    X, y = continuous()
    model = EntropicNaiveBayes(GaussianNB(var_smoothing=0)).fit(X, y)
    whole = NaiveBayes(tradeoff=1, var_smoothing=0).fit(X, y)
    holes = X.copy()
    holes[::2, 1] = holes[::3, 0] = np.nan
    holes[0] = np.nan
    np.testing.assert_allclose(model.predict_proba(holes), whole.predict_proba(holes), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(holes)[0], np.bincount(y) / len(y))
    refitted = EntropicNaiveBayes(GaussianNB(var_smoothing=0)).fit(holes, y)
    assert np.isfinite(refitted.predict_proba(holes)).all()


def test_fitted_classifiers_may_be_used_as_they_are():
    X, y = continuous()
    fitted = [GaussianNB().fit(X[:, [j]], y) for j in range(3)]
    model = EntropicNaiveBayes(fitted, prefit=True).fit(X, y)
    np.testing.assert_array_equal(
        model.predict_proba(X), EntropicNaiveBayes(GaussianNB()).fit(X, y).predict_proba(X)
    )
    assert all(
        one is given for (one, _), given in zip(model.column_classifiers_, fitted, strict=True)
    )


def test_weights_are_repeated_rows():
    X, y = continuous()
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = EntropicNaiveBayes(GaussianNB(var_smoothing=0)).fit(X, y, sample_weight=weights)
    other = EntropicNaiveBayes(GaussianNB(var_smoothing=0)).fit(X[index], y[index])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)


def test_what_it_cannot_use_is_refused():
    X, y = continuous()
    for given, message in [
        ("tree", "column_classifiers: expected a classifier or a sequence of them, got 'tree'"),
        ([GaussianNB()], "column_classifiers: expected one for each of 3 columns, got 1"),
        (LinearSVC(), "column_classifiers: expected classifiers with predict_proba"),
        ([(GaussianNB(), 9)], "expected a column name or an index from 0 to 2, got 9"),
    ]:
        with pytest.raises(DataError, match=message):
            EntropicNaiveBayes(given).fit(X, y)
    only_two = GaussianNB().fit(X[y < 2][:, [0]], y[y < 2])
    with pytest.raises(DataError, match="expected every class of y"):
        EntropicNaiveBayes([only_two] * 3, prefit=True).fit(X, y)
