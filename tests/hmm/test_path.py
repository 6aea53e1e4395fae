"""Between hidden Markov model and random field: both ends exact, the way between smooth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

from crossfade import ConditionalRandomField, HiddenMarkovModel
from crossfade.chains.input import read_labels
from crossfade.densities import Gaussian
from crossfade.errors import DataError, NotADensityError
from crossfade.hmm import path
from crossfade.hmm.density_emission import DensityEmission
from crossfade.hmm.emissions import emission_for
from crossfade.hmm.objective import ChainObjective, everything, labelled_chain
from crossfade.hmm.path import StopRule
from tests.chains import reference
from tests.hmm.cases import labelled


def chain_of(kind, alpha, **settings):
    X, y = labelled(kind, **settings)
    named = emission_for("categorical" if kind == "categorical" else "gaussian", alpha)
    if kind == "tied":
        named = DensityEmission(Gaussian(shared_variance=True))
    raw, layout = named.read(X, None)
    codes = read_labels(y, layout).codes
    return labelled_chain(named, raw, layout, codes, 3, alpha=alpha)


def counted(data, objective):
    return objective.vector(data.weights_from(data.from_counts(stop=True)))


KINDS = ["categorical", "gaussian", "tied", "missing"]


@pytest.mark.parametrize("kind", ["categorical", "gaussian", "tied"])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_counts_are_the_optimum_at_the_generative_end(kind, alpha):
    data = chain_of(kind, alpha)
    objective = ChainObjective(data, 1.0, 1.0)
    start = counted(data, objective)
    value, gradient = objective.value_and_gradient(start)
    assert np.abs(gradient).max() < 1e-10 * data.layout.n_steps
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective.value_and_gradient(start + 0.05 * rng.normal(size=start.size))[0] > value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tradeoff", [1.0, 0.3, 0.0])
def test_gradient_is_that_of_finite_differences(kind, tradeoff):
    data = chain_of(kind, 0.5, n_sequences=12)
    objective = ChainObjective(data, tradeoff, 0.7)
    rng = np.random.default_rng(1)
    point = counted(data, objective)
    point = point + 0.02 * rng.normal(size=point.size)
    _, gradient = objective.value_and_gradient(point)
    for place in range(point.size):
        step = np.zeros(point.size)
        step[place] = 1e-5
        slope = (
            objective.value_and_gradient(point + step)[0]
            - objective.value_and_gradient(point - step)[0]
        ) / 2e-5
        assert slope == pytest.approx(gradient[place], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", ["categorical", "gaussian", "tied"])
@pytest.mark.parametrize("tradeoff", [1.0, 0.4, 0.05])
def test_the_objective_is_concave(kind, tradeoff):
    # Smoothing is left out: its pseudo-counts are not covered by the argument.
    data = chain_of(kind, 0.0)
    objective = ChainObjective(data, tradeoff, 0.1)
    start = objective.vector(data.weights_from(chain_of(kind, 0.5).from_counts(stop=True)))
    rng = np.random.default_rng(2)
    inside = [start]
    while len(inside) < 12:
        point = start + 0.3 * rng.normal(size=start.size)
        if np.isfinite(objective.value_and_gradient(point)[0]):
            inside.append(point)
    for a, b in itertools.pairwise(inside):
        middle = objective.value_and_gradient(0.5 * (a + b))[0]
        assert (
            middle
            <= 0.5 * (objective.value_and_gradient(a)[0] + objective.value_and_gradient(b)[0])
            + 1e-9
        )


def test_the_normaliser_is_the_sum_over_all_lengths_and_paths():
    rng = np.random.default_rng(3)
    start, moves, stop = rng.normal(size=2), rng.normal(size=(2, 2)) - 2.0, rng.normal(size=2)
    found = everything(start, moves, stop)
    total, visits = 0.0, np.zeros(2)
    for length in range(1, 15):
        for route in itertools.product(range(2), repeat=length):
            score = start[route[0]] + stop[route[-1]]
            score += sum(moves[i, j] for i, j in itertools.pairwise(route))
            total += np.exp(score)
            visits += np.exp(score) * np.bincount(route, minlength=2)
    assert found.log_total == pytest.approx(np.log(total), rel=1e-6)
    np.testing.assert_allclose(found.visits, visits / total, rtol=1e-5)
    # Flow: what enters a state leaves it.
    np.testing.assert_allclose(found.initial + found.transitions.sum(axis=0), found.visits)
    np.testing.assert_allclose(found.transitions.sum(axis=1) + found.final, found.visits)
    assert everything(start, moves + 5.0, stop) is None
    # A spectral radius above 1 whose solution has the right signs in places is still refused.
    assert everything(start, np.log([[2.0, 0.1], [0.1, 3.0]]), stop) is None


def random_field(X, y, l2, statistics):
    """The conditional optimum by another road: SciPy, plain weights, reference recursions."""
    classes = sorted(set(np.concatenate(y).tolist()))
    k = len(classes)
    T = [statistics(x) for x in X]
    codes = [np.searchsorted(classes, s) for s in y]
    p = T[0].shape[1]
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in codes])])
    stacked, labels = np.concatenate(T), np.concatenate(codes)

    def cut(v):
        return (
            v[:k],
            v[k : k + k * k].reshape(k, k),
            v[k + k * k : 2 * k + k * k],
            v[2 * k + k * k :].reshape(k, p),
        )

    def function(v):
        u, w, e, theta = cut(v)
        values = stacked @ theta.T
        found = reference.forward_backward(values, offsets, u, w, e)
        excess = found.marginals - np.eye(k)[labels]
        moves, first, last = (
            found.transition_sums.copy(),
            found.initial_sums.copy(),
            found.final_sums.copy(),
        )
        along = values[np.arange(len(labels)), labels].sum()
        for s in codes:
            first[s[0]] -= 1
            last[s[-1]] -= 1
            along += u[s[0]] + e[s[-1]]
            for i, j in itertools.pairwise(s):
                moves[i, j] -= 1
                along += w[i, j]
        loss = found.log_partition.sum() - along
        gradient = np.concatenate([first, moves.ravel(), last, (excess.T @ stacked).ravel()])
        return loss + 0.5 * l2 * v @ v, gradient + l2 * v

    found = scipy.optimize.minimize(
        function,
        np.zeros(2 * k + k * k + k * p),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 3000, "maxfun": 9000, "ftol": 1e-15, "gtol": 1e-7, "maxcor": 30},
    )
    return cut(found.x), found.fun - 0.5 * l2 * found.x @ found.x


@pytest.mark.parametrize("kind", ["gaussian", pytest.param("categorical", marks=pytest.mark.slow)])
def test_the_discriminative_end_is_the_random_field(kind):
    X, y = labelled(kind)
    model = HiddenMarkovModel(emission=kind, tradeoff=0.0, l2=1.0, tol=1e-9, max_iter=3000).fit(
        X, y
    )
    assert model.converged_

    def statistics(x):
        if kind == "categorical":
            return np.eye(5)[x]
        return model.emission_.bound.density.sufficient_statistics(x)

    (u, w, e, theta), loss = random_field(X, y, 1.0, statistics)
    assert -model.log_likelihood_history_[-1] == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(model.weights_.start, u, atol=2e-3)
    np.testing.assert_allclose(model.weights_.transitions, w, atol=2e-3)
    np.testing.assert_allclose(model.weights_.stop, e, atol=2e-3)
    np.testing.assert_allclose(model.weights_.theta[:, : theta.shape[1]], theta, atol=2e-3)


@pytest.mark.parametrize("l2", [0.2, 2.0])
def test_the_discriminative_end_is_this_packages_random_field(l2):
    X, y = labelled("categorical", n_sequences=80)
    words = [[f"w{symbol}" for symbol in x] for x in X]
    model = HiddenMarkovModel(tradeoff=0.0, l2=l2, tol=1e-9, max_iter=3000).fit(words, y)
    field = ConditionalRandomField(
        l2=l2, unseen_states=True, unseen_transitions=True, passes=0, delta=1e-13, max_iter=3000
    ).fit(words, y)
    ours = model.log_likelihood(words, y) - model.log_likelihood(words)
    assert ours.sum() == pytest.approx(field.log_likelihood(words, y).sum(), rel=1e-6)
    for one, other in zip(model.predict_proba(words), field.predict_proba(words), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(model.weights_.transitions, field.transition_weights_, atol=1e-3)


def test_a_crossing_read_as_a_model_has_the_same_posteriors():
    X, y = labelled("categorical", n_sequences=20)
    for tradeoff in (0.7, 0.1, 0.0):
        model = HiddenMarkovModel(tradeoff=tradeoff).fit(X, y)
        np.testing.assert_allclose(model.transmat_.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(
            model.emissionprob_.sum(axis=1) + model.unseenprob_, 1.0, atol=1e-12
        )
        read = HiddenMarkovModel().fit(X, y)
        read.parameters_, read.weights_ = model.parameters_, None
        for one, other in zip(model.predict_proba(X), read.predict_proba(X), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
        conditional = model.log_likelihood(X, y) - model.log_likelihood(X)
        joint = model.log_likelihood(X, y).sum()
        reached = tradeoff * joint + (1 - tradeoff) * conditional.sum()
        assert model.log_likelihood_history_[-1] == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_along_the_path_one_likelihood_rises_as_the_other_falls(kind):
    X, y = labelled(kind, n_sequences=60)
    joint, conditional = [], []
    for tradeoff in (1.0, 0.8, 0.5, 0.2, 0.05):
        model = HiddenMarkovModel(
            emission=kind,
            tradeoff=tradeoff,
            alpha=1e-6,
            l2=0.0,
            model_end=True,
            tol=1e-8,
            max_iter=2000,
        ).fit(X, y)
        both, data = model.log_likelihood(X, y), model.log_likelihood(X)
        joint.append(both.sum())
        conditional.append((both - data).sum())
    assert (np.diff(joint) < 0).all()
    assert (np.diff(conditional) > 0).all()


def test_a_path_started_from_its_neighbour_ends_where_a_fresh_start_does():
    data = chain_of("gaussian", 0.01)
    settings = StopRule(max_iter=2000, tol=1e-8)
    points = [(0.9, 1.0), (0.5, 1.0), (0.1, 1.0)]
    along = list(path.path(data, points, settings))[-1]
    fresh = path.follow(data, 0.1, 1.0, settings)
    objective = ChainObjective(data, 0.1, 1.0)
    values = [
        objective.value_and_gradient(objective.vector(point.weights))[0] for point in (along, fresh)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_posteriors_do_not_notice_what_the_penalty_ignores():
    data = chain_of("categorical", 0.1)
    objective = ChainObjective(data, 0.0, 0.0)
    rng = np.random.default_rng(0)
    vector = rng.normal(size=counted(data, objective).size)
    short = objective.shortest(vector)
    assert short @ short < vector @ vector
    np.testing.assert_allclose(objective.shortest(short), short, atol=1e-12)
    assert objective.value_and_gradient(short)[0] == pytest.approx(
        objective.value_and_gradient(vector)[0], rel=1e-12
    )
    # The gradient is orthogonal to everything that may be shifted.
    gradient = objective.value_and_gradient(vector)[1]
    np.testing.assert_allclose(objective.shortest(gradient), gradient, atol=1e-9)


def test_no_density_is_said_where_there_is_none():
    rng = np.random.default_rng(0)
    y = [np.tile([0, 1], 15) for _ in range(10)]
    # State 1 lies within state 0's far tails on both sides: its weight of z² turns positive.
    X = [
        (np.where(s == 1, 3.0 * rng.choice([-1, 1], 30), 0.0) + 0.3 * rng.normal(size=30))[:, None]
        for s in y
    ]
    model = HiddenMarkovModel(emission="gaussian", tradeoff=0.0, l2=0.002).fit(X, y)
    assert model.score(X, y) > 0.99
    assert np.isfinite(model.log_likelihood_history_).all()
    for use in (lambda: model.log_likelihood(X), lambda: model.sample([3])):
        with pytest.raises(NotADensityError, match="fit with tradeoff > 0"):
            use()
    holes = [np.where(np.arange(len(x))[:, None] == 4, np.nan, x) for x in X]
    assert np.isfinite(np.concatenate(model.predict_proba(holes))).all()
    between = HiddenMarkovModel(emission="gaussian", tradeoff=0.1, l2=0.002).fit(X, y)
    assert np.isfinite(between.log_likelihood(X)).all()


def test_at_the_discriminative_end_missing_cells_have_the_mean_of_the_others():
    # With one variance for all states the posterior is linear in the cells: filling them in is it.
    X, y = labelled("missing", n_sequences=150)
    rows = np.concatenate(X)
    filled = [np.where(np.isnan(x), np.nanmean(rows, axis=0), x) for x in X]
    model, plain = (
        HiddenMarkovModel(emission=Gaussian(True), tradeoff=0, l2=0, tol=1e-9).fit(some, y)
        for some in (X, filled)
    )
    own, other = (np.concatenate(model.predict_proba(some)) for some in (X, filled))
    assert_allclose(own, other, atol=1e-9)
    assert_allclose(own, np.concatenate(plain.predict_proba(filled)), atol=1e-6)
    symbols = [[None if i % 7 == 3 else str(v) for i, v in enumerate(s)] for s in y]
    letters = HiddenMarkovModel(tradeoff=0).fit(symbols, y)
    assert letters.converged_


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("far", [1.0, 2.5])
def test_missing_cells_leave_the_discriminative_end_convex(seed, far):
    # With A for what is missing, variances ran off for 2,000 steps.
    means = far * np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0]])
    truth = HiddenMarkovModel.from_parameters(
        [0.4, 0.3, 0.3], [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]],
        means=means, covars=np.ones((3, 2)),
    )  # fmt: skip
    X, y = truth.sample([8] * 40, random_state=seed)
    rng = np.random.default_rng(seed)
    X = [np.where(rng.random(x.shape) < 0.15, np.nan, x) for x in X]
    model = HiddenMarkovModel(emission="gaussian", tradeoff=0, max_iter=100).fit(X, y)
    assert model.converged_
    found = model.summary(X, y)
    assert np.isfinite(found.standard_errors).all()


def test_counts_of_zero_can_be_the_start():
    X, y = [["a", "b"], ["a"], ["b", "b"]], [["u", "v"], ["u"], ["v", "v"]]
    model = HiddenMarkovModel(tradeoff=0.5, alpha=0.0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.log_likelihood(X)).all()


@pytest.mark.parametrize("length", [2, 3, 6])
def test_the_random_field_of_a_path_without_cycles_has_the_mean_length_of_the_data(length):
    states = [f"s{t}" for t in range(length)]
    X, y = [states] * 20, [states] * 20
    model = HiddenMarkovModel(tradeoff=0.0, l2=0.002).fit(X, y)
    at = model.parameters_
    onward = at.transitions * (1.0 - at.stop)[:, None]
    steps = np.linalg.solve(np.eye(length) - onward, np.ones(length))
    assert at.start @ steps == pytest.approx(length, rel=1e-6)


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_cells_too_far_for_any_state_are_named(tradeoff):
    X, y = labelled("gaussian")
    model = HiddenMarkovModel(emission="gaussian", tradeoff=tradeoff).fit(X, y)
    new = [X[0], np.where(np.arange(2) == 1, 1e200, X[1])]
    for use in (model.predict, model.predict_proba):
        got = "numbers near enough .* got 1e[+]200" if tradeoff < 1.0 else "sequences .* sequence 1"
        with pytest.raises(DataError, match=f"^X: expected {got}; correct .* missing"):
            use(new)
