"""Mixtures: EM climbs, one component is the plain density, derivatives along the path."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

from crossfade.densities import MultivariateGaussian
from crossfade.tradeoff import expectation
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.expectation import Start, expectation_maximisation
from crossfade.tradeoff.grid import TRADEOFFS
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, follow, minimise
from tests.tradeoff.cases import COVARIANCES
from tests.tradeoff.test_derivatives import directions, slope, unpinned


def two_moons(n=200, seed=0, weighted=False, gaps=0.0):
    rng = np.random.default_rng(seed)
    codes = np.repeat([0, 1], n // 2).astype(np.int64)
    angle = rng.uniform(0, np.pi, n)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[codes == 1] = [1.0, 0.4] - X[codes == 1]
    X += 0.15 * rng.normal(size=X.shape)
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
    gone = rng.random(n) < gaps
    X[gone, rng.integers(2, size=n)[gone]] = np.nan
    return LabelledRows(X * [5.0, 0.1], codes, weights, 2, has_missing=gaps > 0.0)


def make(covariance, tradeoff=0.5, c=2, missing="refuse", **kwargs):
    rows = two_moons(**kwargs)
    bound = bind(MultivariateGaussian(covariance, missing=missing), rows)
    return MixtureObjective.of(rows, bound, tradeoff, 0.5, n_components=c, n_init=2)


def definition(objective, theta):
    """Return -λ log joint - (1-λ) log posterior - prior + penalty, states summed by class."""
    rows, density, lam = objective.rows, objective.density, objective.tradeoff
    parameters = objective.parameters(theta)
    eta = parameters.natural
    partition = density.log_partition(eta)
    joint = density.relative_log_density(rows.X, eta) + parameters.offset + partition.sum(axis=1)
    by_class = logsumexp(joint.reshape(rows.n_samples, rows.n_classes, -1), axis=2)
    own = by_class[np.arange(rows.n_samples), rows.codes]
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    likelihood = weights @ (own - (1 - lam) * logsumexp(by_class, axis=1))
    bound = objective.bound
    prior = (eta * bound.prior_sums).sum() - (partition * bound.prior_counts).sum()
    free = (eta * bound.statistic_scale)[:, ~density.tied]
    penalty = ((free - free.mean(axis=0)) ** 2).sum() * (2 if rows.n_classes == 2 else 1)
    return -likelihood - lam * prior + (1 - lam) * 0.5 * objective.l2 * penalty


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_value_gradient_and_hessian(covariance, weighted):
    for tradeoff in (0.6, 0.0):
        objective = make(covariance, tradeoff, weighted=weighted)
        theta = objective.theta(objective.generative())
        theta = theta + 0.02 * np.random.default_rng(1).normal(size=theta.size)
        value, gradient = objective.value_and_gradient(theta)
        assert value == pytest.approx(definition(objective, theta), rel=1e-10)
        exact = objective.exact_curvature(theta)
        for v in directions(objective, theta, 2):
            assert gradient @ v == pytest.approx(
                slope(objective.value, theta, v), rel=1e-5, abs=1e-5
            )
            v = 0.3 * unpinned(objective, v)
            expected = slope(lambda at, o=objective: o.value_and_gradient(at)[1], theta, v)
            np.testing.assert_allclose(exact @ v, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("missing", ["mean", "marginal"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_derivatives_with_missing_cells(covariance, missing):
    for tradeoff in (0.6, 0.0) if missing == "mean" else (1.0,):
        objective = make(covariance, tradeoff, missing=missing, weighted=True, gaps=0.3)
        theta = objective.theta(objective.generative())
        theta = theta + 0.02 * np.random.default_rng(1).normal(size=theta.size)
        value, gradient = objective.value_and_gradient(theta)
        assert value == pytest.approx(definition(objective, theta), rel=1e-10)
        for v in directions(objective, theta, 2):
            assert gradient @ v == pytest.approx(
                slope(objective.value, theta, v), rel=1e-5, abs=1e-5
            )
            v = 0.3 * unpinned(objective, v)
            expected = slope(lambda at, o=objective: o.value_and_gradient(at)[1], theta, v)
            exact = objective.exact_curvature(theta) @ v
            np.testing.assert_allclose(exact, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("missing", ["refuse", "marginal"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_em_never_falls(covariance, missing):
    """Stopped after more and more rounds, the penalised likelihood of one start only rises."""
    gaps = 0.3 if missing == "marginal" else 0.0
    rows = two_moons(gaps=gaps)
    bound = bind(MultivariateGaussian(covariance, missing=missing), rows)
    values = []
    for rounds in (1, 2, 3, 4, 6, 11):
        found = expectation_maximisation(Start(rows, bound, 3), n_init=1, seed=5, max_iter=rounds)
        objective = MixtureObjective.of(rows, bound, 1.0, 0.0, n_components=3, n_init=1)
        values.append(-definition(objective, objective.theta(found.parameters)))
        assert found.mass.sum() == pytest.approx(rows.n_samples)
    assert (np.diff(values) > -1e-9 * np.abs(values[0])).all()
    assert values[-1] > values[0] + 1.0


def test_several_starts_are_at_least_as_good_as_one():
    rows = two_moons(seed=3)
    for covariance in ("full", "shared_spherical"):
        bound = bind(MultivariateGaussian(covariance), rows)
        values = []
        for n_init in (1, 4):
            objective = MixtureObjective.of(rows, bound, 1.0, 0.0, n_components=4, n_init=n_init)
            values.append(objective.value(objective.theta(objective.generative())))
        assert values[1] <= values[0] + 1e-6  # where EM stops


def test_the_likelihood_is_scikit_learns_mixture(monkeypatch):
    """From the same starting point EM reaches scikit-learn's optimum, class by class."""
    monkeypatch.setattr(expectation, "_PSEUDO_ROWS", 0.0)
    rows = two_moons(n=300)
    bound = bind(MultivariateGaussian("full"), rows)
    objective = MixtureObjective.of(rows, bound, 1.0, 0.0, n_components=2, n_init=4)
    density, best = objective.density, objective.generative()
    means, covariances = density.moments(best.natural)
    log_share = best.offset + density.log_partition(best.natural).sum(axis=1)
    for k in range(2):
        own = slice(2 * k, 2 * k + 2)
        X = rows.X[rows.codes == k]
        share = np.exp(log_share[own]) / np.exp(log_share[own]).sum()
        reference = GaussianMixture(
            2,
            weights_init=share,
            means_init=means[own],
            precisions_init=np.linalg.inv(covariances[own]),
            reg_covar=0.0,
            tol=1e-10,
            max_iter=1000,
        ).fit(X)
        ours = density.log_density(X, best.natural[own]) + np.log(share)
        assert logsumexp(ours, axis=1).mean() == pytest.approx(reference.score(X), abs=1e-6)


@pytest.mark.parametrize("tradeoff", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_one_component_is_the_plain_density(covariance, tradeoff, monkeypatch):
    monkeypatch.setattr(expectation, "_PSEUDO_ROWS", 0.0)
    rows = two_moons()
    bound = bind(MultivariateGaussian(covariance), rows)
    plain = TradeoffObjective.of(rows, bound, tradeoff, 0.5)
    mixed = MixtureObjective.of(rows, bound, tradeoff, 0.5, n_components=1)
    theta = minimise(plain, cold_start(plain)).theta
    assert mixed.value(theta) == pytest.approx(plain.value(theta), rel=1e-12)
    other = minimise(mixed, cold_start(mixed)).theta
    np.testing.assert_allclose(mixed.passes.scores(other), plain.passes.scores(theta), atol=1e-6)


@pytest.mark.parametrize("covariance", ["full", "spherical", "shared_spherical"])
def test_the_path_goes_down(covariance):
    """Each point of the path is a minimum at its λ: better than its neighbours' parameters."""
    objective = make(covariance, c=2)
    points = follow(objective, [(at, 0.5) for at in TRADEOFFS], tol=1e-8)
    for at in points[1:]:
        assert at.solution.converged, at.solution.message
        assert at.solution.gradient_norm < 1e-7
        own = objective.with_tradeoff(at.tradeoff)
        for other in points:
            assert at.solution.value <= own.value(other.solution.theta) + 1e-9 * len(points)
    conditional = [objective.with_tradeoff(0.0).value(at.solution.theta) for at in points]
    assert (np.diff(conditional) < 1e-6).all()
