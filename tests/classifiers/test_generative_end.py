"""At tradeoff 1 the fit is the textbook's: scikit-learn's posteriors to 1e-8, and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.table import matrix as matrix_module

SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}

PRIORS = {
    2: {"empirical": None, "uniform": np.full(2, 0.5), "given": np.array([0.9, 0.1])},
    3: {"empirical": None, "uniform": np.full(3, 1 / 3), "given": np.array([0.2, 0.5, 0.3])},
}


def agree(model, reference, X, atol=1e-8):
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(X), rtol=0, atol=atol
    )
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))


def discrete(levels, k=3, n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    X = np.column_stack(
        [np.minimum(m - 1, rng.integers(m, size=n) + (y > 0) * (m > 2)) for m in levels]
    )
    X[:, 0] = np.where(y == 1, 0, X[:, 0])  # a value that one class never takes
    return X, y


@pytest.mark.parametrize("prior", ["empirical", "uniform", "given"])
@pytest.mark.parametrize("name", SETS)
def test_gaussian_naive_bayes(name, prior):
    X, y = SETS[name](return_X_y=True)
    shares = PRIORS[len(np.unique(y))][prior]
    given = shares if prior == "given" else prior
    model = NaiveBayes(tradeoff=1, var_smoothing=0, class_prior=given).fit(X, y)
    reference = GaussianNB(var_smoothing=0, priors=shares).fit(X, y)
    agree(model, reference, X)
    np.testing.assert_allclose(
        model.joint_log_likelihood(X), reference.predict_joint_log_proba(X), rtol=1e-8
    )
    np.testing.assert_allclose(model.class_prior_, reference.class_prior_, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 0.3, 4.0])
def test_bernoulli_naive_bayes(alpha):
    X, y = discrete([2, 2, 2, 2])
    model = NaiveBayes("bernoulli", tradeoff=1, alpha=alpha).fit(X, y)
    reference = BernoulliNB(alpha=alpha).fit(X, y)
    agree(model, reference, X, atol=1e-12)
    np.testing.assert_allclose(
        model.joint_log_likelihood(X), reference.predict_joint_log_proba(X), rtol=1e-12
    )


@pytest.mark.parametrize("alpha", [1.0, 0.3, 4.0])
def test_categorical_naive_bayes(alpha):
    X, y = discrete([2, 3, 5])
    model = NaiveBayes("categorical", tradeoff=1, alpha=alpha).fit(X, y)
    reference = CategoricalNB(alpha=alpha).fit(X, y)
    agree(model, reference, X, atol=1e-12)
    np.testing.assert_allclose(
        model.joint_log_likelihood(X), reference.predict_joint_log_proba(X), rtol=1e-12
    )


@pytest.mark.parametrize("prior", ["empirical", "uniform", "given"])
@pytest.mark.parametrize("name", SETS)
def test_linear_discriminant_analysis(name, prior):
    X, y = SETS[name](return_X_y=True)
    shares = PRIORS[len(np.unique(y))][prior]
    model = GaussianDiscriminant(
        "shared", tradeoff=1, class_prior=shares if prior == "given" else prior
    ).fit(X, y)
    # scikit-learn weighs the class covariances by the priors, whatever the rows are: its
    # covariance is the maximum-likelihood one with the empirical priors only. The rest of a
    # prior is a shift of the intercepts.
    reference = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, y)
    if shares is not None:
        reference.intercept_ = reference.intercept_ + (
            np.diff(np.log(shares) - np.log(reference.priors_))
            if len(shares) == 2
            else np.log(shares) - np.log(reference.priors_)
        )
    agree(model, reference, X)
    np.testing.assert_allclose(model.means_, reference.means_, rtol=1e-10)
    scale = np.sqrt(np.diag(reference.covariance_))
    np.testing.assert_allclose(
        model.covariances_[0] / np.outer(scale, scale),
        reference.covariance_ / np.outer(scale, scale),
        atol=1e-10,
    )


@pytest.mark.parametrize("prior", ["empirical", "uniform", "given"])
@pytest.mark.parametrize("name", SETS)
def test_quadratic_discriminant_analysis(name, prior):
    X, y = SETS[name](return_X_y=True)
    shares = PRIORS[len(np.unique(y))][prior]
    model = GaussianDiscriminant(
        "full", tradeoff=1, class_prior=shares if prior == "given" else prior
    ).fit(X, y)
    reference = QuadraticDiscriminantAnalysis(priors=shares, tol=0).fit(X, y)
    # scikit-learn divided by the class's rows minus one before its version 1.8.
    for k, scaling in enumerate(reference.scalings_):
        reference.scalings_[k] = scaling * X[y == k].var(axis=0).sum() / scaling.sum()
    agree(model, reference, X)


def test_shared_variance_is_linear_discriminant_analysis_with_a_diagonal_covariance():
    X, y = load_iris(return_X_y=True)
    one = NaiveBayes(shared_variance=True, var_smoothing=0, tradeoff=1).fit(X, y)
    other = GaussianDiscriminant("shared_diagonal", tradeoff=1).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)
    within = sum(((X[y == k] - X[y == k].mean(axis=0)) ** 2).sum(axis=0) for k in range(3))
    np.testing.assert_allclose(np.diag(other.covariances_[1]), within / len(X), rtol=1e-12)


def test_gaussian_naive_bayes_is_the_diagonal_discriminant():
    X, y = load_iris(return_X_y=True)
    for tradeoff in (1, 0.3, 0):
        one = NaiveBayes(var_smoothing=0, tradeoff=tradeoff).fit(X, y)
        other = GaussianDiscriminant("diagonal", tradeoff=tradeoff).fit(X, y)
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


# -- a small discrete joint distribution, cell by cell --------------------------------------------


def brute_force(X, y, levels, alpha):
    """Return log p(x, y) of every cell from relative frequencies, as a table by class."""
    cells = list(itertools.product(*map(range, levels)))
    table = np.zeros((len(cells), y.max() + 1))
    for number, cell in enumerate(cells):
        for k in range(y.max() + 1):
            own = X[y == k]
            value = len(own) / len(X)
            for j, m in enumerate(levels):
                value *= ((own[:, j] == cell[j]).sum() + alpha) / (len(own) + alpha * m)
            table[number, k] = value
    return np.array(cells), np.log(table)


@pytest.mark.parametrize("kind", ["categorical", "mixed"])
def test_every_cell_of_a_joint_distribution(kind):
    levels = (2, 3, 4)
    X, y = discrete(levels, n=60)
    density = "categorical" if kind == "categorical" else {0: "bernoulli", 1: "categorical"}
    if kind == "mixed":
        density[2] = "categorical"
    model = NaiveBayes(density, tradeoff=1).fit(X, y)
    cells, joint = brute_force(X, y, levels, alpha=1.0)
    np.testing.assert_allclose(model.joint_log_likelihood(cells), joint, rtol=1e-12)
    posterior = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(cells), posterior, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.score_samples(cells)).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_a_joint_distribution_sums_to_one_at_every_tradeoff(tradeoff):
    levels = (2, 3, 4)
    X, y = discrete(levels, n=60)
    model = NaiveBayes("categorical", tradeoff=tradeoff).fit(X, y)
    cells = np.array(list(itertools.product(*map(range, levels))))
    np.testing.assert_allclose(np.exp(model.joint_log_likelihood(cells)).sum(), 1.0, rtol=1e-10)
    np.testing.assert_allclose(
        np.exp(model.joint_log_likelihood(cells)).sum(axis=0), model.class_prior_, rtol=1e-10
    )


def test_samples_have_the_frequencies_of_the_joint_distribution():
    levels = (2, 3)
    X, y = discrete(levels, n=60)
    model = NaiveBayes("categorical", tradeoff=0.5).fit(X, y)
    n = 40_000
    drawn, labels = model.sample(n, random_state=1)
    cells = np.array(list(itertools.product(*map(range, levels))))
    expected = np.exp(model.joint_log_likelihood(cells))
    drawn = drawn.astype(int)
    for number, cell in enumerate(cells):
        for k in range(3):
            share = ((drawn == cell).all(axis=1) & (labels == k)).mean()
            deviation = np.sqrt(expected[number, k] / n)
            assert abs(share - expected[number, k]) < 4.5 * deviation


@pytest.mark.parametrize("lies", ["by columns", "frame"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("model", [NaiveBayes(tradeoff=1), GaussianDiscriminant(tradeoff=1)])
def test_columns_are_summed_where_they_lie(model, missing, lies):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40_000, 30)), rng.integers(2, size=40_000)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    given = np.asfortranarray(X)
    given = pd.DataFrame(given, copy=False).add_prefix("x") if lies == "frame" else given
    whole = clone(model).fit(X, y).predict_proba(X[:100])
    copied, found = [], clone(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix_module, "_filled", lambda *_: copied.append(1))
        found.fit(given, y)
    assert not copied
    np.testing.assert_array_equal(found.predict_proba(given[:100]), whole)


@pytest.mark.parametrize("tradeoff", [1, 0, "auto"])
def test_posteriors_of_columns_are_those_of_rows_to_the_bit_and_copy_nothing(tradeoff):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(9_001, 5)), rng.integers(3, size=9_001)
    X[::7, 1] = np.nan
    model = NaiveBayes(tradeoff=tradeoff).fit(X[:300], y[:300])
    whole = model.predict_proba(X), model.predict(X), model.predict_log_proba(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix_module, "_filled", None)
        given = np.asfortranarray(X)
        found = model.predict_proba(given), model.predict(given), model.predict_log_proba(given)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_array_equal(one, other)
