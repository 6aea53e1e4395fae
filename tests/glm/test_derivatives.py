"""Every family × link × derivative against finite differences, expectations and limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from crossfade.glm.data import Data
from crossfade.glm.design import measure
from crossfade.glm.families import BinomialFamily, PoissonFamily
from crossfade.glm.firth import FirthProblem
from crossfade.glm.irls import GlmProblem
from crossfade.glm.links import LINKS, get_link
from crossfade.glm.multinomial import MultinomialProblem
from crossfade.glm.restricted import Restricted
from tests.glm.designs import BINOMIAL, MODELS, POISSON, design, respond, truth

ETA = np.array([-4.0, -1.3, -0.2, 0.0, 0.4, 1.1, 2.3])
POSITIVE = np.array([0.05, 0.4, 1.0, 2.5, 9.0])


def family(name, link):
    return (BinomialFamily if name == "binomial" else PoissonFamily)(
        get_link(link, BINOMIAL + POISSON)
    )


def points(link):
    return POSITIVE if link in ("identity", "sqrt") else ETA


def difference(function, at, step=1e-6):
    return (function(at + step) - function(at - step)) / (2.0 * step)


@pytest.mark.parametrize("name", LINKS)
def test_link_and_inverse(name):
    link, eta = LINKS[name](), points(name)
    np.testing.assert_allclose(link.link(link.inverse(eta)), eta, rtol=1e-9, atol=1e-12)
    slope = difference(link.inverse, eta)
    np.testing.assert_allclose(link.derivative(eta), slope, rtol=1e-6)


@pytest.mark.parametrize("name", BINOMIAL)
def test_odds(name):
    link = LINKS[name]()
    odds = link.odds(ETA)
    np.testing.assert_allclose(np.exp(odds.log_success), link.inverse(ETA), rtol=1e-13)
    np.testing.assert_allclose(np.exp(odds.log_failure), 1 - link.inverse(ETA), rtol=1e-12)
    slope = difference(lambda eta: link.odds(eta).log_success, ETA)
    np.testing.assert_allclose(odds.success_hazard, slope, rtol=1e-7)
    slope = difference(lambda eta: -link.odds(eta).log_failure, ETA)
    np.testing.assert_allclose(odds.failure_hazard, slope, rtol=1e-7)
    success, failure = link.hazard_slopes(ETA, odds)
    slope = difference(lambda eta: np.log(link.odds(eta).success_hazard), ETA)
    np.testing.assert_allclose(success, slope, rtol=1e-6, atol=1e-8)
    slope = difference(lambda eta: np.log(link.odds(eta).failure_hazard), ETA)
    np.testing.assert_allclose(failure, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", POISSON)
def test_rates(name):
    link, eta = LINKS[name](), points(name)
    np.testing.assert_allclose(np.exp(link.log_inverse(eta)), link.inverse(eta), rtol=1e-13)
    np.testing.assert_allclose(
        link.log_derivative(eta), difference(link.log_inverse, eta), rtol=1e-7
    )
    second = difference(link.derivative, eta)
    np.testing.assert_allclose(link.second_derivative(eta), second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "link"), MODELS)
def test_loss_and_its_derivatives(name, link):
    model, eta = family(name, link), points(link)
    size = np.full_like(eta, 4.0)
    for count in (0.0, 1.0, 4.0):
        y = np.full_like(eta, count)
        _, slope = model.loss(eta, y, size)
        np.testing.assert_allclose(
            slope, difference(lambda e, y=y: model.loss(e, y, size)[0], eta), rtol=1e-6, atol=1e-8
        )
    np.testing.assert_allclose(
        model.information_slope(eta),
        difference(lambda e: np.log(model.information(e, size)), eta),
        rtol=1e-6,
        atol=1e-7,
    )


def outcomes(name, mean, size):
    """Responses with their probabilities."""
    if name == "binomial":
        y = np.arange(size + 1)
        return y, scipy.stats.binom.pmf(y, size, mean / size)
    y = np.arange(400)
    return y, scipy.stats.poisson.pmf(y, mean)


@pytest.mark.parametrize(("name", "link"), MODELS)
def test_expectations_over_the_distribution(name, link):
    """Mean, variance, score zero, information and log-likelihood, by summing over outcomes."""
    model = family(name, link)
    for eta in points(link)[1:-1]:
        one, size = np.array([eta]), np.array([5.0])
        mean = model.mean(one, size)
        y, p = outcomes(name, mean[0], 5)
        etas, sizes = np.full(len(y), eta), np.full(len(y), 5.0)
        loss, slope = model.loss(etas, y.astype(float), sizes)
        np.testing.assert_allclose(p @ y, mean[0], rtol=1e-10)
        np.testing.assert_allclose(p @ (y - mean) ** 2, model.variance(mean, size)[0], rtol=1e-9)
        np.testing.assert_allclose(p @ slope, 0.0, atol=1e-9)
        information = model.information(one, size)[0]
        np.testing.assert_allclose(p @ slope**2, information, rtol=1e-9)
        probable = p > 1e-250
        logs = (model.constant(y.astype(float), sizes) - loss)[probable]
        np.testing.assert_allclose(logs, np.log(p[probable]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("name", "link"), MODELS)
def test_deviance_is_twice_the_lost_likelihood(name, link):
    model = family(name, link)
    size = np.array([3.0, 4.0, 6.0])
    y = np.array([1.0, 2.0, 5.0])
    best = model.link.link(y / size)
    np.testing.assert_allclose(model.loss(best, y, size)[0], model.saturated(y, size), rtol=1e-12)
    np.testing.assert_allclose(model.deviance(best, y, size), 0.0, atol=1e-13)
    assert (model.deviance(best * 1.1 + 0.1, y, size) > 1e-5).all()


@pytest.mark.parametrize("link", BINOMIAL)
def test_binomial_far_out(link):
    """Nothing overflows, warns or is NaN for linear predictors of any size."""
    model = family("binomial", link)
    eta = np.array([-np.inf, -1e200, -700.0, -40.0, 40.0, 700.0, 1e200, np.inf])
    size, y = np.ones(8), (eta > 0).astype(float)
    loss, slope = model.loss(eta, y, size)
    assert np.isfinite(loss).all()
    np.testing.assert_allclose(loss, 0.0, atol=1e-15)
    assert np.isfinite(slope).all()
    assert np.isfinite(model.information(eta, size)).all()
    assert (model.curvature(eta[1:-1], y[1:-1], size[1:-1]) >= 0.0).all()
    wrong, _ = model.loss(eta, 1.0 - y, size)
    assert (wrong >= 39.0).all()


def problems():
    for name, link in MODELS:
        X = design(3, n=40)
        beta = truth(name, link, X, 3)
        y, size = respond(name, link, X, beta, 3)
        weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
        offset = np.random.default_rng(1).uniform(0.0, 0.2, len(X))
        data = Data(X, y.astype(float), size, weights, offset)
        found = measure(X, True, ["a", "b", "c"])
        theta = found.coordinates(beta)
        yield f"{name} {link}", GlmProblem(found, data, family(name, link), 0.7), theta
        yield f"firth {name} {link}", FirthProblem(found, data, family(name, link)), theta
        restricted = Restricted(
            GlmProblem(found, data, family(name, link)), theta, np.eye(4)[:, 1:3]
        )
        yield f"restricted {name} {link}", restricted, np.array([0.01, -0.02])
    X = design(4, n=40)
    codes = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    found = measure(X, True, ["a", "b", "c"])
    allowed = np.ones((40, 3), dtype=bool)
    allowed[np.arange(10), (codes[:10].astype(int) + 1) % 3] = False
    data = Data(X, codes, np.ones(40), np.linspace(0.5, 2.0, 40))
    theta = np.random.default_rng(3).normal(size=8) * 0.3
    yield "multinomial", MultinomialProblem(found, data, 3, 0.3), theta
    yield "multinomial limit", MultinomialProblem(found, data, 3, 0.0, allowed), theta


PROBLEMS = {name: (problem, theta) for name, problem, theta in problems()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradient_of_the_problem(name):
    problem, theta = PROBLEMS[name]
    _, gradient = problem.value_and_gradient(theta)
    numeric = np.array(
        [
            (problem.value(theta + 1e-6 * e) - problem.value(theta - 1e-6 * e)) / 2e-6
            for e in np.eye(len(theta))
        ]
    )
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize(
    "name", ["binomial logit", "poisson log", "multinomial", "multinomial limit"]
)
def test_curvature_of_canonical_problems_is_the_hessian(name):
    problem, theta = PROBLEMS[name]
    numeric = np.array(
        [
            (
                problem.value_and_gradient(theta + 1e-6 * e)[1]
                - problem.value_and_gradient(theta - 1e-6 * e)[1]
            )
            / 2e-6
            for e in np.eye(len(theta))
        ]
    )
    np.testing.assert_allclose(problem.curvature(theta), numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "firth" not in name])
def test_what_rows_say_adds_up_to_gradient_and_hessian(name):
    problem, theta = PROBLEMS[name]
    root = np.random.default_rng(5).normal(size=(len(theta), len(theta)))
    along, slopes, factor = problem.row_parts(slice(0, 40), theta, root)
    weights, penalty = problem.data.weights, getattr(problem, "penalty", np.zeros(len(theta)))
    total = np.einsum("n,nkr,nk->r", weights, along, slopes) + root.T @ (penalty * theta)
    gradient = problem.value_and_gradient(theta)[1]
    np.testing.assert_allclose(total, root.T @ gradient, rtol=1e-11, atol=1e-9)
    half = np.einsum("nkj,nkr->njr", factor, along)
    hessian = np.einsum("n,njr,njs->rs", weights, half, half) + (root.T * penalty) @ root
    up, down = (
        np.array([problem.value_and_gradient(theta + h * e)[1] for e in np.eye(len(theta))])
        for h in (1e-6, -1e-6)
    )
    numeric = root.T @ ((up - down) / 2e-6) @ root
    np.testing.assert_allclose(hessian, numeric, rtol=1e-6, atol=1e-8 * np.abs(numeric).max())
