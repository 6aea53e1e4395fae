"""Equalities that hold whatever the data: weights, order, units, threads, memory, sharing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfade.blocks import threads
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from crossfade.glm.links import Probit, Sqrt
from tests.glm.designs import MODELS, design, fit, respond, truth


def drawn(family, link, seed, n=60):
    X = design(seed, n=n)
    y, size = respond(family, link, X, truth(family, link, X, seed), seed)
    return X, y, size


def numbers_of(model):
    return np.concatenate(
        [
            np.ravel(model.coef_),
            np.ravel(model.intercept_),
            model.covariance_.ravel(),
            [model.log_likelihood_, model.deviance_, model.df_residual_],
        ]
    )


@pytest.mark.parametrize(("family", "link"), MODELS)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000))
def test_weights_are_repetition(family, link, seed):
    X, y, size = drawn(family, link, 50)
    weights = np.random.default_rng(seed).integers(0, 4, len(X))
    weights[:5] = 1
    rows = np.repeat(np.arange(len(X)), weights)
    weighted = fit(family, link, X, y, size, sample_weight=weights, tol_digits=10)
    repeated = fit(family, link, X[rows], y[rows], size[rows], tol_digits=10)
    np.testing.assert_allclose(numbers_of(weighted), numbers_of(repeated), rtol=2e-7, atol=1e-9)
    np.testing.assert_allclose(weighted.aic_, repeated.aic_, rtol=1e-9)
    np.testing.assert_allclose(weighted.bic_, repeated.bic_, rtol=1e-9)
    np.testing.assert_allclose(
        weighted.robust_covariance("HC3"), repeated.robust_covariance("HC3"), rtol=1e-6
    )


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_row_order_does_not_matter(family, link):
    X, y, size = drawn(family, link, 51)
    order = np.random.default_rng(0).permutation(len(X))
    one = fit(family, link, X, y, size, tol_digits=10)
    two = fit(family, link, X[order], y[order], size[order], tol_digits=10)
    np.testing.assert_allclose(numbers_of(one), numbers_of(two), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one.residuals()[order], two.residuals(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("family", "link"), MODELS)
def test_units_of_the_columns(family, link):
    """An affine change of units changes slopes by the factor, and nothing of the fit."""
    X, y, size = drawn(family, link, 52)
    factor, shift = np.array([1e-6, 300.0, -2.0]), np.array([5.0, 1e4, 0.0])
    one = fit(family, link, X, y, size, tol_digits=10)
    two = fit(family, link, X * factor + shift, y, size, tol_digits=10)
    np.testing.assert_allclose(two.coef_ * factor, one.coef_, rtol=1e-7)
    np.testing.assert_allclose(
        two.standard_errors_[1:] * np.abs(factor), one.standard_errors_[1:], rtol=1e-7
    )
    np.testing.assert_allclose(two.log_likelihood_, one.log_likelihood_, rtol=1e-10)
    steps = [
        fit(family, link, columns, y, size, tol_digits=4).n_iter_
        for columns in (X, X * factor + shift)
    ]
    assert steps[0] == steps[1]


def test_large_means_keep_their_digits():
    """Years, or times in seconds: as good as after subtracting a round number."""
    rng = np.random.default_rng(1)
    year = rng.integers(1990, 2020, 300).astype(float)
    time = 1.6e9 + rng.normal(size=300) * 1e3
    y = rng.poisson(3.0, 300)
    far = PoissonRegression(tol_digits=10).fit(np.column_stack([year, time]), y)
    near = PoissonRegression(tol_digits=10).fit(np.column_stack([year - 2000, time - 1.6e9]), y)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-8)
    np.testing.assert_allclose(far.standard_errors_[1:], near.standard_errors_[1:], rtol=1e-8)


def test_nearly_collinear_columns_keep_their_digits():
    """Condition number 1e6: standard errors as from an orthogonal factorisation."""
    rng = np.random.default_rng(2)
    a = rng.normal(size=400)
    X = np.column_stack([a, a + 1e-6 * rng.normal(size=400)])
    y = rng.integers(0, 2, 400)
    model = BinomialRegression(tol_digits=8).fit(X, y)
    assert model.aliased_ == []
    p = model.predict_proba(X)[:, 1]
    half = np.sqrt(p * (1 - p))[:, None] * np.column_stack([np.ones(400), X])
    inverse = np.linalg.inv(np.linalg.qr(half, mode="r"))
    np.testing.assert_allclose(model.standard_errors_, np.sqrt((inverse**2).sum(axis=1)), rtol=1e-9)
    rows = np.column_stack([np.ones(400), X])
    np.testing.assert_allclose(rows.T @ (y - p), 0.0, atol=1e-6)
    orthogonal = half @ inverse
    leverage = model.influence().leverage
    np.testing.assert_allclose(leverage, np.square(orthogonal).sum(axis=1), rtol=1e-7)
    scores = (rows @ inverse) * (y - p)[:, None]
    pairs = np.arange(400) // 2
    for kind, groups, one in (
        ("HC0", None, scores),
        ("HC3", None, scores / (1.0 - np.square(orthogonal).sum(axis=1))[:, None]),
        ("cluster", pairs, np.sqrt(200 / 199 * 399 / 397) * (scores[::2] + scores[1::2])),
    ):
        wanted = np.sqrt(np.square(one @ inverse.T).sum(axis=0))
        found = np.sqrt(np.diagonal(model.robust_covariance(kind, groups)))
        np.testing.assert_allclose(found, wanted, rtol=1e-7)


def test_swapping_the_labels():
    X, y, size = drawn("binomial", "logit", 53)
    one = fit("binomial", "logit", X, y, size)
    two = fit("binomial", "logit", X, size.astype(int) - y, size)
    np.testing.assert_allclose(two.coef_, -one.coef_, rtol=1e-8)
    np.testing.assert_allclose(two.covariance_, one.covariance_, rtol=1e-7)
    np.testing.assert_allclose(two.deviance_, one.deviance_, rtol=1e-10)


def test_relabelled_classes():
    X, y, _ = drawn("binomial", "logit", 54)
    labels = np.random.default_rng(3).integers(0, 3, len(X))
    one = MultinomialRegression(tol_digits=10).fit(X, labels)
    two = MultinomialRegression("q", tol_digits=10).fit(X, np.array(["q", "z", "b"])[labels])
    np.testing.assert_allclose(two.coef_, one.coef_[[1, 0]], rtol=1e-7)
    np.testing.assert_allclose(two.log_likelihood_, one.log_likelihood_, rtol=1e-12)
    assert two.contrasts_.tolist() == ["b", "z"]
    assert len(y) == len(labels)


@pytest.mark.parametrize("kind", ["binomial", "poisson", "multinomial"])
def test_many_rows_give_what_few_steps_of_all_rows_give(kind):
    """The sampled curvature is a way to the same optimum, sorted rows and rare classes included."""
    rng = np.random.default_rng(4)
    n = 45_000
    X = rng.normal(size=(n, 4))
    eta = X @ [0.5, -0.3, 0.2, 0.0] - 3.0
    if kind == "poisson":
        y = rng.poisson(np.exp(eta + 1.0))
        model = PoissonRegression()
    elif kind == "binomial":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        model = BinomialRegression()
    else:
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), 2, rng.integers(0, 2, n))
        model = MultinomialRegression()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model.fit(X, y)
    assert model.converged_
    design_matrix = np.column_stack([np.ones(n), X])
    residual = model.residuals("response")
    residual = residual[:, 1:] if kind == "multinomial" else residual
    np.testing.assert_allclose(design_matrix.T @ residual / n, 0.0, atol=1e-9)
    with threads(1):
        again = type(model)().fit(X, y)
    np.testing.assert_array_equal(numbers_of(again), numbers_of(model))


@pytest.mark.parametrize("kind", [BinomialRegression, PoissonRegression, MultinomialRegression])
def test_memory_layouts_and_types(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3)).round(2)
    y = rng.integers(0, 2, 300)
    plain = kind().fit(X, y)
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(X), frozen, X[:, ::1], X.tolist()):
        np.testing.assert_allclose(numbers_of(kind().fit(other, y)), numbers_of(plain), rtol=1e-10)
    single = kind().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, plain.coef_, rtol=1e-4, atol=1e-6)


def test_frames_and_their_names():
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    X, y, size = drawn("poisson", "log", 55)
    plain = fit("poisson", "log", X, y, size)
    for module in (pl, pd):
        frame = module.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
        series = module.Series(y)
        model = PoissonRegression().fit(frame, series, exposure=module.Series(size))
        assert model.names_ == ("Intercept", "a", "b", "c")
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.predict(frame), plain.predict(X))


def test_nothing_given_is_changed(unchanged):
    X, y, size = unchanged(*drawn("binomial", "probit", 56))
    weights = unchanged(np.linspace(0.0, 2.0, len(X)))
    offset = unchanged(np.linspace(-0.1, 0.1, len(X)))
    model = fit("binomial", "probit", X, y, size, sample_weight=weights, offset=offset)
    model.summary(intervals="profile")
    model.influence()
    model.robust_covariance("HC1")
    model.likelihood_ratio_test("x0")
    model.dispersion_test()
    model.predict_interval(X)


@pytest.mark.parametrize(("family", "link"), [("binomial", Probit()), ("poisson", Sqrt())])
def test_one_link_object_in_two_fits(family, link):
    """No state is shared between fits, whichever objects are."""
    first, second = drawn(family, link.name, 57), drawn(family, link.name, 58)
    shared = [numbers_of(fit(family, link, *data)) for data in (first, second, first)]
    fresh = [numbers_of(fit(family, type(link)(), *data)) for data in (first, second, first)]
    for ours, theirs in zip(shared, fresh, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert vars(link) == {}


def test_refitting_forgets_the_earlier_fit():
    X, y, size = drawn("poisson", "log", 59)
    model = PoissonRegression().fit(X, y, exposure=size)
    assert model.null_deviance_ > 0.0
    model.fit(X[:40], y[:40])
    fresh = PoissonRegression().fit(X[:40], y[:40])
    assert model.null_deviance_ == fresh.null_deviance_
    np.testing.assert_array_equal(numbers_of(model), numbers_of(fresh))


def test_exposure_multiplies_the_rate_with_every_link():
    """Double exposure is two equal rows of half the count each (the mean doubles)."""
    X, _, _ = drawn("poisson", "identity", 60)
    y = np.random.default_rng(6).poisson(5.0, len(X)) * 2
    for link in ("log", "identity", "sqrt"):
        one = PoissonRegression(link, tol_digits=10).fit(X, y, exposure=np.full(len(X), 2.0))
        two = PoissonRegression(link, tol_digits=10).fit(
            np.vstack([X, X]), np.concatenate([y // 2, y // 2])
        )
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.covariance_, two.covariance_, rtol=1e-6)
