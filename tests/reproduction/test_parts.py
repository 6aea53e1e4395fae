"""What experiments are made of: trials, paths, discriminant inputs, numbers for readers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from crossfade import GaussianDiscriminant
from crossfade.blocks import threads
from crossfade.densities import MultivariateGaussian
from reproduction.base import Outcome, mean_and_error
from reproduction.discriminants import DiscriminantInputs
from reproduction.paths import fit_path
from reproduction.trials import generator, run_trials


def three_classes(n: int = 150, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = np.arange(n) % 3
    centres = 0.4 * rng.normal(size=(3, d))
    return centres[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)), y


# -- trials --------------------------------------------------------------------------------------


def draw(seed: int, repeat: int) -> float:
    return float(generator(seed, 7, repeat).normal())


TASKS = [(5, repeat) for repeat in range(6)]


def test_trials_depend_on_their_own_numbers_alone():
    tasks, seen = TASKS, []
    with threads(1):
        alone = run_trials(draw, tasks, progress=lambda *at: seen.append(at), text="x", total=9)
        assert seen == [(done, 9, "x") for done in range(1, 7)]
        assert run_trials(draw, tasks[:2]) == alone[:2]
        assert run_trials(draw, tasks[::-1]) == alone[::-1]
    assert len(set(alone)) == 6


@pytest.mark.slow
def test_trials_are_the_same_on_any_number_of_processes():
    found = []
    for number in (1, 2):
        with threads(number):
            found.append(run_trials(draw, TASKS))
    assert found[0] == found[1]


# -- paths ---------------------------------------------------------------------------------------

TRADEOFFS = (1.0, 0.6, 0.2, 0.0)


@pytest.mark.parametrize("covariance", ["shared", "full", "spherical"])
def test_the_path_has_the_estimators_posteriors(covariance: str):
    X, y = three_classes()
    path = fit_path(
        MultivariateGaussian(covariance, standardise=False),
        X,
        y,
        n_classes=3,
        tradeoffs=TRADEOFFS,
        tol=1e-10,
    )
    for tradeoff, scores in zip(TRADEOFFS, path.scores(X), strict=True):
        model = GaussianDiscriminant(covariance, tradeoff=tradeoff, l2=0.0, standardise=False)
        expected = model.fit(X, y).predict_proba(X)
        assert_allclose(softmax(scores, axis=1), expected, atol=1e-6)


def test_a_mixture_path_begins_with_the_estimators_fit():
    X, y = three_classes()
    density = MultivariateGaussian("spherical")
    path = fit_path(density, X, y, n_classes=3, tradeoffs=(1.0,), n_components=2, seed=4)
    model = GaussianDiscriminant("spherical", components=2, tradeoff=1, l2=0.0, random_state=4)
    (scores,) = path.scores(X)
    assert_allclose(softmax(scores, axis=1), model.fit(X, y).predict_proba(X), atol=1e-10)


def test_log_odds_are_differences_of_scores():
    X, y = three_classes()
    X, y = X[y < 2] * [1, 10, 0.1, 1, 1, 1] + 5, y[y < 2]
    density = MultivariateGaussian("shared_diagonal")
    path = fit_path(density, X, y, n_classes=2, tradeoffs=TRADEOFFS)
    slopes, intercepts = path.log_odds()
    for slope, intercept, scores in zip(slopes, intercepts, path.scores(X), strict=True):
        assert_allclose(X @ slope + intercept, scores[:, 1] - scores[:, 0], rtol=1e-9, atol=1e-9)


# -- discriminant inputs -------------------------------------------------------------------------


def within(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    deviations = Z - np.array([Z[y == k].mean(axis=0) for k in range(y.max() + 1)])[y]
    return deviations.T @ deviations / len(Z)


def test_discriminant_directions_are_white_within_classes_and_apart_between():
    X, y = three_classes()
    Z = DiscriminantInputs.of(X, y, 4)(X)
    assert_allclose(within(Z[:, :2], y), np.eye(2), atol=1e-6)
    centres = np.array([Z[y == k, :2].mean(axis=0) for k in range(3)])
    between = centres.T @ centres / 3
    assert_allclose(between[0, 1], 0.0, atol=1e-9)
    # The ratios of between to within variance are the eigenvalues of the pencil.
    S = within(X, y)
    M = np.array([X[y == k].mean(axis=0) for k in range(3)]) - X.mean(axis=0)
    expected = scipy.linalg.eigh(M.T @ M / 3, S, eigvals_only=True)[::-1][:2]
    assert_allclose(np.diag(between), expected, rtol=1e-5)


def test_two_classes_have_fishers_direction():
    X, y = three_classes()
    X, y = X[y < 2], y[y < 2]
    Z = DiscriminantInputs.of(X, y, 3)(X)
    fisher = np.linalg.solve(within(X, y), X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
    assert abs(np.corrcoef(Z[:, 0], X @ fisher)[0, 1]) == pytest.approx(1.0, abs=1e-9)


def test_components_are_those_of_what_the_directions_leave():
    X, y = three_classes()
    inputs = DiscriminantInputs.of(X, y, 4)
    fisher, components = inputs.directions[:, :2], inputs.directions[:, 2:]
    assert_allclose(fisher.T @ components, 0.0, atol=1e-9)
    assert_allclose(components.T @ components, np.eye(2), atol=1e-9)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    basis = scipy.linalg.null_space(fisher.T)
    variances = np.linalg.eigvalsh(np.cov((standard @ basis).T, bias=True))[::-1]
    assert_allclose(inputs(X)[:, 2:].var(axis=0), variances[:2], rtol=1e-9)


def test_units_do_not_matter_and_constant_columns_are_let_be():
    X, y = three_classes()
    before = DiscriminantInputs.of(X, y, 4)(X)
    other = np.column_stack([X * 10.0 ** np.arange(-3, 3) + 7.0, np.full(len(X), 3.0)])
    after = DiscriminantInputs.of(other, y, 4)(other)
    assert_allclose(np.abs(after), np.abs(before), rtol=1e-5, atol=1e-6)


# -- numbers -------------------------------------------------------------------------------------


def test_mean_and_error():
    assert mean_and_error(np.array([1.0, 2.0, 3.0])) == pytest.approx((2.0, 1.0 / np.sqrt(3.0)))
    assert mean_and_error(np.array([4.0])) == (4.0, 0.0)


def test_a_table_reads_back_the_same():
    rows = (("a, b", 1, 0.1 + 0.2), ("c", 2, None))
    outcome = Outcome(("name", "n", "value"), rows, (), (), lambda: None)
    assert outcome.csv() == 'name,n,value\n"a, b",1,0.30000000000000004\nc,2,\n'
    assert_array_equal(float("0.30000000000000004"), 0.1 + 0.2)
