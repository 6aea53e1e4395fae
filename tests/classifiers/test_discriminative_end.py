"""At tradeoff 0 the fit is scikit-learn's logistic regression on the standardised statistics."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from crossfade import GaussianDiscriminant, NaiveBayes, SeparationWarning
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import minimise

SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def standardise(X):
    return StandardScaler().fit_transform(X)


def squares(Z):
    return np.hstack([Z, Z**2])


def products(Z):
    pairs = [Z[:, i] * Z[:, j] for i in range(Z.shape[1]) for j in range(i + 1)]
    return np.hstack([Z, np.column_stack(pairs)])


#: Model, and how the statistics are formed from the standardised columns.
MODELS = {
    "class variances": (lambda **p: NaiveBayes(**p), squares),
    "shared variance": (lambda **p: NaiveBayes(shared_variance=True, **p), lambda Z: Z),
    "shared covariance": (lambda **p: GaussianDiscriminant("shared", **p), lambda Z: Z),
    "full covariance": (lambda **p: GaussianDiscriminant("full", **p), products),
    "diagonal covariance": (lambda **p: GaussianDiscriminant("diagonal", **p), squares),
    "spherical covariance": (
        lambda **p: GaussianDiscriminant("spherical", **p),
        lambda Z: np.column_stack([Z, (Z**2).sum(axis=1)]),
    ),
}


def logistic(T, y, C, sample_weight=None):
    """Fit scikit-learn's model until rounding stops it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops where its line search can do no more
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=500)
        return model.fit(T, y, sample_weight=sample_weight)


def standardised_coefficients(model):
    """Return the fit's coefficients of standardised statistics, in scikit-learn's convention."""
    density, eta = model.density_, model.parameters_.natural
    return eta[:, ~density.tied]


@pytest.mark.parametrize("l2", [1.0, 0.05])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", MODELS)
def test_equals_logistic_regression(kind, name, l2):
    X, y = SETS[name](return_X_y=True)
    X = X[:, :4]
    make, form = MODELS[kind]
    model = make(tradeoff=0, l2=l2).fit(X, y)
    T = form(standardise(X))
    scaler = StandardScaler().fit(T)
    reference = logistic(scaler.transform(T), y, 1.0 / l2)
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(scaler.transform(T)), rtol=0, atol=1e-7
    )
    eta = standardised_coefficients(model) * scaler.scale_
    if len(np.unique(y)) == 2:
        np.testing.assert_allclose(eta[1:] - eta[:1], reference.coef_, atol=1e-6)
    else:
        centred = reference.coef_ - reference.coef_.mean(axis=0)
        np.testing.assert_allclose(eta - eta.mean(axis=0), centred, atol=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_without_a_penalty_it_is_maximum_conditional_likelihood(kind):
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [1, 4, 8]]
    make, form = MODELS[kind]
    model = make(tradeoff=0, l2=0).fit(X, y)
    T = form(standardise(X))
    scaler = StandardScaler().fit(T)
    reference = logistic(scaler.transform(T), y, np.inf)
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(scaler.transform(T)), atol=1e-7
    )
    eta = standardised_coefficients(model) * scaler.scale_
    np.testing.assert_allclose(eta[1:] - eta[:1], reference.coef_, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_discrete_columns_are_logistic_regression_on_standardised_indicators(k):
    rng = np.random.default_rng(k)
    y = rng.integers(k, size=300)
    X = np.column_stack(
        [
            rng.random(300) < 0.2 + 0.2 * y,
            np.minimum(3, rng.integers(4, size=300) + (rng.random(300) < 0.3 * y)),
            rng.poisson(1.0 + y),
        ]
    ).astype(float)
    density = {0: "bernoulli", 1: "categorical", 2: "poisson"}
    model = NaiveBayes(density, tradeoff=0).fit(X, y)
    base = np.bincount(X[:, 1].astype(int)).argmax()
    levels = [level for level in range(4) if level != base]
    T = np.column_stack([X[:, 0], *(X[:, 1] == level for level in levels), X[:, 2]])
    scaler = StandardScaler().fit(T)
    reference = logistic(scaler.transform(T), y, 1.0)
    np.testing.assert_allclose(
        model.predict_proba(X), reference.predict_proba(scaler.transform(T)), atol=1e-7
    )
    coefficients = model.coef_ * scaler.scale_
    np.testing.assert_allclose(
        coefficients, reference.coef_ - (reference.coef_.mean(axis=0) if k > 2 else 0), atol=1e-6
    )


def test_weighted_rows_are_weighted_in_the_standardisation_too():
    X, y = load_iris(return_X_y=True)
    weights = np.random.default_rng(0).uniform(0.3, 2.0, size=len(y))
    model = NaiveBayes(shared_variance=True, tradeoff=0).fit(X, y, sample_weight=weights)
    Z = StandardScaler().fit(X, sample_weight=weights).transform(X)
    reference = logistic(Z, y, 1.0, sample_weight=weights)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(Z), atol=1e-7)


# -- separation ------------------------------------------------------------------------------------

SEPARATED = {
    "complete": (np.array([-3.0, -2, -1, 1, 2, 3]), np.array([0, 0, 0, 1, 1, 1])),
    "quasi": (np.array([-3.0, -2, 0, 0, 2, 3]), np.array([0, 0, 0, 1, 1, 1])),
    "three classes": (np.array([-5.0, -4, -3, 0, 0.5, 1, 6, 7, 8]), np.repeat([0, 1, 2], 3)),
    "one class apart": (
        np.array([-1.0, 0, 1, 2, -1.5, 0.5, 1.5, 3, 20, 21, 22]),
        np.repeat([0, 1, 2], [4, 4, 3]),
    ),
}

LINEAR = {
    "naive bayes": lambda: NaiveBayes(shared_variance=True, tradeoff=0, l2=0),
    "discriminant": lambda: GaussianDiscriminant("shared", tradeoff=0, l2=0),
}


@pytest.mark.parametrize("model", LINEAR)
@pytest.mark.parametrize("kind", SEPARATED)
def test_separated_classes_are_told_and_parameters_finite(kind, model):
    x, y = SEPARATED[kind]
    with pytest.warns(SeparationWarning, match="the columns separate the classes and l2=0"):
        fitted = LINEAR[model]().fit(x[:, None], y)
    assert np.isfinite(fitted.coef_).all()
    assert np.isfinite(fitted.intercept_).all()
    posterior = fitted.predict_proba(x[:, None])
    assert np.isfinite(posterior).all()
    if kind in ("complete", "three classes"):
        assert (fitted.predict(x[:, None]) == y).all()


def test_separation_by_one_of_many_columns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), rng.integers(2, size=400)
    X[:, 3] = np.where(y == 1, 1.0 + rng.random(400), -rng.random(400))
    with pytest.warns(SeparationWarning):
        NaiveBayes(tradeoff=0, l2=0).fit(X, y)


def test_a_discrete_column_that_only_one_class_takes_is_quasi_separation():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    X = np.column_stack([(y == 1) & (rng.random(300) < 0.3), rng.random(300) < 0.5])
    with pytest.warns(SeparationWarning):
        model = NaiveBayes("bernoulli", tradeoff=0, l2=0).fit(X, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("seed", range(5))
def test_no_warning_without_separation(seed):
    """Warnings are errors here: strong but overlapping classes pass in silence."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=200)
    X = rng.normal(size=(200, 3)) + 1.5 * y[:, None]
    X[0], y[0] = 6.0, 0
    X[1], y[1] = -6.0, 1
    NaiveBayes(tradeoff=0, l2=0).fit(X, y)
    GaussianDiscriminant("full", tradeoff=0, l2=0).fit(X, y)


@pytest.mark.parametrize("tradeoff", [0, 0.01, 1])
def test_no_warning_with_a_penalty_or_a_generative_share(tradeoff):
    x, y = SEPARATED["complete"]
    model = NaiveBayes(shared_variance=True, tradeoff=tradeoff, l2=0 if tradeoff else 1.0)
    assert np.isfinite(model.fit(x[:, None], y).coef_).all()


# -- the limit of λ falling to 0 -------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda tradeoff: NaiveBayes(tradeoff=tradeoff),
        lambda tradeoff: NaiveBayes(shared_variance=True, tradeoff=tradeoff),
        lambda tradeoff: GaussianDiscriminant("shared", tradeoff=tradeoff),
        lambda tradeoff: GaussianDiscriminant("full", tradeoff=tradeoff),
        lambda tradeoff: GaussianDiscriminant("shared_spherical", tradeoff=tradeoff),
    ],
    ids=["class variances", "shared variance", "shared", "full", "shared spherical"],
)
def test_parameters_at_zero_are_the_limit_of_the_path(make):
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]  # two classes that overlap
    at, near = make(0).fit(X, y), make(1e-7).fit(X, y)
    np.testing.assert_allclose(at.parameters_.natural, near.parameters_.natural, atol=1e-3)
    np.testing.assert_allclose(at.parameters_.offset, near.parameters_.offset, atol=1e-3)
    np.testing.assert_allclose(at.score_samples(X), near.score_samples(X), atol=1e-3)
    # It is a limit: a tenth of λ, a tenth of the distance.
    far, further = make(1e-4).fit(X, y), make(1e-3).fit(X, y)
    distances = [np.abs(at.score_samples(X) - m.score_samples(X)).max() for m in (far, further)]
    assert 0.08 < distances[0] / distances[1] < 0.13


def test_the_limit_has_the_largest_joint_likelihood_of_that_posterior():
    """No move common to all classes gains joint likelihood: its gradient is zero along them."""
    X, y = load_iris(return_X_y=True)
    model = GaussianDiscriminant("full", tradeoff=0).fit(X, y)
    rows = LabelledRows(X, y.astype(np.int64), None, 3)
    joint = TradeoffObjective.of(rows, bind(model._density(model.schema_), rows), 1.0, 1.0)
    gradient = joint.value_and_gradient(joint.theta(model.parameters_))[1]
    weights, offsets, _ = joint.split(gradient)
    assert np.abs(weights.sum(axis=0)).max() < 1e-6 * len(X)
    assert abs(offsets.sum()) < 1e-6 * len(X)
    assert np.abs(weights).max() > 1e-3 * len(X)  # and is not zero elsewhere
    assert minimise(joint, joint.theta(model.parameters_)).value < joint.value(
        joint.theta(model.parameters_)
    )


@pytest.mark.parametrize("covariance", ["shared", "full"])
@pytest.mark.parametrize("tradeoff", [0.75, 0.1, 0.01])
def test_fewer_rows_than_columns_or_one_row_in_a_class(covariance: str, tradeoff: float):
    """Singular covariances: the fit between the ends still converges, in a few steps."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 26)), np.repeat([0, 1], 10)
    X[y == 1] += 0.5
    model = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(X, y)
    assert model.solution_.converged
    assert model.solution_.n_iter < 30
    X, y = rng.normal(size=(50, 7)), np.r_[np.zeros(25), np.ones(24), 2.0]
    model = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(X, y)
    assert model.solution_.converged
