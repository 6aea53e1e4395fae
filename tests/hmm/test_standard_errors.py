"""Errors at the discriminative end: against regressions, brute force, and simulation."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crossfade import ConvergenceWarning, DataError, HiddenMarkovModel
from crossfade.densities import Gaussian
from crossfade.glm import BinomialRegression, MultinomialRegression
from crossfade.hmm.objective import ChainObjective, labelled_chain
from tests.hmm.cases import labelled

#: Two states that stay, and a column that tells them apart a little.
TRUTH = HiddenMarkovModel.from_parameters(
    [0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], means=[[0.0], [1.0]], covars=[[1.0], [1.0]]
)


def linear(**parameters):
    settings = {"l2": 0.0, "tol": 1e-12, "max_iter": 3000} | parameters
    return HiddenMarkovModel(emission=Gaussian(shared_variance=True), tradeoff=0, **settings)


@pytest.mark.parametrize("k", [2, 3])
def test_sequences_of_one_step_have_the_robust_errors_of_a_regression(k):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(k), rng.integers(k, size=150)])
    x = rng.normal(size=(len(y), 2)) + 0.7 * y[:, None]
    X, labels = list(x[:, None]), list(y[:, None])
    found = linear().fit(X, labels).summary(X, labels)
    regression = (BinomialRegression if k == 2 else MultinomialRegression)().fit(x, y)
    wanted = regression.robust_covariance("HC0")
    n_terms = 2 + k + 2
    # Where there are no neighbours, the intercept and both ends add up to a regression's.
    merge = np.zeros((3, n_terms))
    merge[0, :3] = merge[1, -2] = merge[2, -1] = 1.0
    merge = np.kron(np.eye(k - 1), merge)
    assert_allclose(merge @ found.covariance @ merge.T, wanted, rtol=1e-6, atol=1e-9)
    of_ends = np.arange(len(found.names)) % n_terms < n_terms - 2
    assert np.isnan(found.standard_errors[of_ends]).all()
    slopes = (merge @ found.covariance @ merge.T).diagonal().reshape(-1, 3)[:, 1:].ravel()
    assert_allclose(found.standard_errors[~of_ends], np.sqrt(slopes), rtol=1e-9)
    assert "leave open" in found.notes[-1]
    assert [one.df for one in found.tests] == [0, k - 1, k - 1]


def features(path, x, k):
    """Return what a path's score is linear in: coefficients as they are shown, state 0 against."""
    found = np.zeros((k, k + 3))  # intercept, first, last, after each other state, slope
    for state, value in zip(path, x[:, 0], strict=True):
        found[state, [0, -1]] += 1.0, value
    found[path[0], 1] += 1.0
    found[path[-1], 2] += 1.0
    for before, state in pairwise(path):
        if before:
            found[state, 2 + before] += 1.0
    return found[1:].ravel()


def test_the_sandwich_of_brute_force_over_all_paths():
    k = 3
    chain = HiddenMarkovModel.from_parameters(
        np.ones(k) / k, np.eye(k) * 0.4 + 0.2, means=[[0.0], [1.0], [2.0]], covars=np.ones((k, 1))
    )
    lengths = np.random.default_rng(1).integers(1, 5, size=40)
    X, y = chain.sample(lengths, random_state=2)
    found = linear().fit(X, y).summary(X, y)
    H, gradients = np.zeros(found.covariance.shape), []
    for x, own in zip(X, y, strict=True):
        every = np.array([features(path, x, k) for path in product(range(k), repeat=len(x))])
        score = every @ found.estimates
        share = np.exp(score - np.logaddexp.reduce(score))
        mean = share @ every
        H += (share[:, None] * every).T @ every - np.outer(mean, mean)
        gradients.append(features(own.tolist(), x, k) - mean)
    psi, inverse = np.array(gradients), np.linalg.inv(H)
    assert_allclose(psi.sum(axis=0), 0.0, atol=1e-8)
    assert_allclose(found.covariance, inverse @ psi.T @ psi @ inverse, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_each_sequence_twice_halves_the_covariance(kind):
    X, y = labelled(kind)
    once = HiddenMarkovModel(emission=kind, tradeoff=0, l2=0.5, tol=1e-10, max_iter=2000)
    found = once.fit(X, y).summary(X, y)
    twice = HiddenMarkovModel(emission=kind, tradeoff=0, l2=1.0, tol=1e-10, max_iter=2000)
    doubled = twice.fit(X + X, y + y).summary(X + X, y + y)
    assert_allclose(doubled.estimates, found.estimates, rtol=1e-5, atol=1e-6)
    wanted = found.standard_errors / np.sqrt(2.0)
    assert_allclose(doubled.standard_errors, wanted, rtol=1e-5)
    array = np.concatenate(X), np.concatenate(y), [len(x) for x in X]
    assert_allclose(once.summary(*array).covariance, found.covariance, rtol=1e-9)
    against = once.summary(X, y, reference=once.classes_[1], level=0.5)
    n_terms, last = len(found.terms) // 2, -1
    own, other = (one.estimates.reshape(2, n_terms)[:, last] for one in (found, against))
    assert_allclose(other, [-own[0], own[1] - own[0]], rtol=1e-9)
    assert [one.df for one in against.tests] == [one.df for one in found.tests]
    assert_allclose(
        [one.statistic for one in against.tests], [one.statistic for one in found.tests], rtol=1e-6
    )


@pytest.mark.parametrize("kind", ["categorical", "gaussian", "missing"])
def test_gradients_of_sequences_sum_to_that_of_all(kind):
    X, y = labelled(kind)
    emission = HiddenMarkovModel(
        emission="gaussian" if kind == "missing" else kind, tradeoff=0.5
    ).fit(X, y)
    raw, layout = emission.emission_.read(X, None)
    codes = np.concatenate(y)
    data = labelled_chain(emission.emission_, raw, layout, codes, 3, alpha=0.01)
    objective = ChainObjective(data, 0.0, 0.0)
    vector = objective.vector(emission.weights_)
    each = [
        objective.over(data.sequence(s)).value_and_gradient(vector)
        for s in range(layout.n_sequences)
    ]
    value, gradient = objective.value_and_gradient(vector)
    assert_allclose(sum(one for one, _ in each), value, rtol=1e-9)
    assert_allclose(sum(one for _, one in each), gradient, rtol=1e-7, atol=1e-9)


def test_what_has_no_errors_is_refused():
    X, y = labelled("gaussian")
    for tradeoff in (1.0, 0.5):
        model = HiddenMarkovModel(emission="gaussian", tradeoff=tradeoff).fit(X, y)
        with pytest.raises(
            DataError, match=rf"^tradeoff: expected 0 .* got a fit at {tradeoff:g};"
        ):
            model.summary(X, y)
    model = HiddenMarkovModel(emission="gaussian", tradeoff=0).fit(X, y)
    with pytest.raises(DataError, match=r"^X: expected the sequences of fit"):
        model.summary(X[:20], y[:20])
    with pytest.warns(ConvergenceWarning, match=r"^the chain is not at its optimum: stopped after"):
        stopped = HiddenMarkovModel(emission="gaussian", tradeoff=0, max_iter=1).fit(X, y)
    with pytest.raises(DataError, match=r"^summary: expected a fit that converged, .* max_iter"):
        stopped.summary(X, y)
    with pytest.raises(DataError, match=r"^reference: expected one of the classes 0, 1, 2, got 7"):
        model.summary(X, y, reference=7)
    with pytest.raises(DataError, match=r"^level: "):
        model.summary(X, y, level=1.0)
    words = [[str(i), str(i + 1)] for i in range(300)]
    tags = [["a", "b"]] * 300
    with pytest.raises(DataError, match=r"^summary: expected at most 500 weights, got 612,"):
        HiddenMarkovModel(tradeoff=0).fit(words, tags).summary(words, tags)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_intervals_hold_where_the_model_is_true_and_where_steps_depend(shared):
    held = []
    for draw in range(200):
        X, y = TRUTH.sample([6] * 150, random_state=draw)
        common = shared * np.random.default_rng([1, draw]).normal(size=len(X))
        X = [x + one for x, one in zip(X, common, strict=True)]
        model = HiddenMarkovModel(emission=Gaussian(shared_variance=True), tradeoff=0, l2=1e-4)
        found = model.fit(X, y).summary(X, y)
        held.append((found.estimates, found.lower, found.upper))
    estimates, lower, upper = np.moveaxis(held, 1, 0)
    goal = estimates.mean(axis=0)
    if not shared:
        # log .8 · .7 / (.2 · .3), and the difference of the means.
        goal[3:] = np.log(0.8 * 0.7 / (0.2 * 0.3)), 1.0
    share = ((lower <= goal) & (goal <= upper)).mean(axis=0)
    assert (share > 0.91).all()
    assert (share < 0.985).all()
