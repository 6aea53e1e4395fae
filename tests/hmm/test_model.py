"""The hidden Markov model against hmmlearn, closed forms, and itself told differently."""

from __future__ import annotations

import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from crossfade import ConditionalRandomField, HiddenMarkovModel
from crossfade.blocks import threads
from crossfade.densities import (
    Bernoulli,
    Categorical,
    Gaussian,
    JohnsonSU,
    MultivariateGaussian,
    Poisson,
)
from crossfade.errors import DataError
from tests.densities.cases import Exponential

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from hmmlearn import hmm as hmmlearn

START, MOVES = (
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]),
)
MEANS = np.array([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.5]])
COVARS = np.array([[1.0, 0.5], [0.7, 1.2], [1.5, 0.4]])
TABLE = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5], [0.25, 0.25, 0.25, 0.25]])


def gaussian(**settings):
    return HiddenMarkovModel.from_parameters(START, MOVES, means=MEANS, covars=COVARS, **settings)


def symbolic(**settings):
    return HiddenMarkovModel.from_parameters(START, MOVES, emissionprob=TABLE, **settings)


def theirs(kind):
    """Return hmmlearn's model with the same parameters."""
    if kind == "categorical":
        model = hmmlearn.CategoricalHMM(3, n_features=4, init_params="", n_iter=1)
        model.emissionprob_ = TABLE.copy()
    else:
        model = hmmlearn.GaussianHMM(
            3,
            "diag" if kind == "gaussian" else "full",
            covars_prior=0.0,
            covars_weight=1.0 if kind == "gaussian" else 0.0,
            init_params="",
            n_iter=1,
        )
        model.means_ = MEANS.copy()
        full = np.array([np.diag(c) + 0.1 for c in COVARS])
        model.covars_ = COVARS.copy() if kind == "gaussian" else full
    model.startprob_, model.transmat_ = START.copy(), MOVES.copy()
    return model


def ours(kind, **settings):
    if kind == "categorical":
        return symbolic(**settings)
    if kind == "gaussian":
        return gaussian(**settings)
    full = np.array([np.diag(c) + 0.1 for c in COVARS])
    return HiddenMarkovModel.from_parameters(START, MOVES, means=MEANS, covars=full, **settings)


@pytest.mark.parametrize("kind", ["categorical", "gaussian", "full"])
def test_scores_paths_and_one_em_step_are_hmmlearns(kind):
    model, rival = ours(kind, alpha=0.0), theirs(kind)
    X, _ = model.sample([40, 1, 77, 12], random_state=3)
    lengths = [len(x) for x in X]
    flat = np.concatenate([np.reshape(x, (len(x), -1)) for x in X])
    assert model.score(X) == pytest.approx(rival.score(flat, lengths), rel=1e-12)
    np.testing.assert_allclose(
        np.concatenate(model.predict_proba(X)), rival.predict_proba(flat, lengths), atol=1e-10
    )
    np.testing.assert_array_equal(np.concatenate(model.predict(X)), rival.predict(flat, lengths))
    rival.algorithm = "map"
    np.testing.assert_array_equal(
        np.concatenate(model.predict(X, decode="posterior")), rival.predict(flat, lengths)
    )
    step = clone(model).set_params(max_iter=1).fit(X, start=model)
    rival.fit(flat, lengths)
    np.testing.assert_allclose(step.startprob_, rival.startprob_, atol=1e-10)
    np.testing.assert_allclose(step.transmat_, rival.transmat_, atol=1e-10)
    if kind == "categorical":
        np.testing.assert_allclose(step.emissionprob_, rival.emissionprob_, atol=1e-10)
    else:
        np.testing.assert_allclose(step.means_, rival.means_, atol=1e-10)
        covars = rival.covars_
        if kind == "gaussian":
            covars = np.array([np.diag(c) for c in covars])
        np.testing.assert_allclose(step.covars_, covars, atol=1e-8)


def test_likelihood_is_the_sum_over_all_paths():
    model = symbolic()
    x = [0, 3, 2, 1]
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        joint = START[path[0]] * TABLE[path[0], x[0]]
        for t in range(1, 4):
            joint *= MOVES[path[t - 1], path[t]] * TABLE[path[t], x[t]]
        assert model.log_likelihood([x], [list(path)])[0] == pytest.approx(np.log(joint))
        total += joint
    assert model.log_likelihood([x])[0] == pytest.approx(np.log(total), rel=1e-13)
    assert model.log_likelihood([[]]).tolist() == [0.0]


def test_supervised_counts():
    X = [["a", "b", "a"], ["b"], [], ["a", "a"]]
    y = [["u", "v", "u"], ["v"], [], ["u", "u"]]
    model = HiddenMarkovModel(alpha=0.0).fit(X, y)
    assert model.classes_.tolist() == ["u", "v"]
    assert model.symbols_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.startprob_, [2 / 3, 1 / 3])
    np.testing.assert_allclose(model.transmat_, [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(model.emissionprob_, [[1.0, 0.0], [0.0, 1.0]])
    smooth = HiddenMarkovModel(alpha=1.0, model_end=True).fit(X, y)
    np.testing.assert_allclose(smooth.startprob_, [3 / 5, 2 / 5])
    np.testing.assert_allclose(smooth.transmat_, [[1 / 2, 1 / 2], [2 / 3, 1 / 3]])
    np.testing.assert_allclose(smooth.stopprob_, [3 / 7, 2 / 5])
    np.testing.assert_allclose(smooth.emissionprob_, [[5 / 7, 1 / 7], [1 / 5, 3 / 5]])
    np.testing.assert_allclose(smooth.unseenprob_, [1 / 7, 1 / 5])
    # The transitions among themselves are the same with and without an end.
    plain = HiddenMarkovModel(alpha=1.0).fit(X, y)
    np.testing.assert_allclose(plain.transmat_, smooth.transmat_)
    assert plain.stopprob_ is None


def test_supervised_gaussian_is_each_states_moments():
    X, y = gaussian().sample([200, 100], random_state=0)
    model = HiddenMarkovModel(emission=Gaussian(var_smoothing=0)).fit(X, y)
    flat, labels = np.concatenate(X), np.concatenate(y)
    for k in range(3):
        np.testing.assert_allclose(model.means_[k], flat[labels == k].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(model.covars_[k], flat[labels == k].var(axis=0), rtol=1e-11)
    full = HiddenMarkovModel(emission=MultivariateGaussian("full")).fit(X, y)
    np.testing.assert_allclose(full.covars_[1], np.cov(flat[labels == 1].T, bias=True), rtol=1e-10)


def test_moments_are_shown_of_gaussians_alone():
    X, y = gaussian().sample([200, 100], random_state=0)
    # Gaussian in asinh of the column: those moments are not the column's.
    model = HiddenMarkovModel(emission=JohnsonSU(1.0, 2.0)).fit(X, y)
    assert not hasattr(model, "means_")
    assert not hasattr(model, "covars_")


@pytest.mark.parametrize("algorithm", ["baum-welch", "viterbi"])
@pytest.mark.parametrize(
    ("emission", "alpha"),
    [
        ("gaussian", 0.0),
        ("gaussian", 0.5),
        ("categorical", 0.0),
        ("categorical", 0.3),
        ("poisson", 0.2),
    ],
)
def test_the_objective_never_falls(algorithm, emission, alpha):
    X, _ = (symbolic() if emission != "gaussian" else gaussian()).sample([60] * 5, random_state=1)
    model = HiddenMarkovModel(
        3, emission, alpha=alpha, algorithm=algorithm, tol=0.0, max_iter=60, random_state=0
    ).fit(X)
    history = model.log_likelihood_history_
    assert len(history) > (3 if algorithm == "baum-welch" else 1)
    assert np.diff(history).min() >= -1e-9 * abs(history[-1])
    assert np.isfinite(history).all()


def test_training_recovers_the_model_in_canonical_order():
    X, states = gaussian().sample([400] * 10, random_state=5)
    model = HiddenMarkovModel(3, "gaussian", n_init=3, random_state=0).fit(X)
    assert model.converged_
    order = np.argsort(MEANS[:, 0])
    np.testing.assert_allclose(model.means_, MEANS[order], atol=0.15)
    np.testing.assert_allclose(model.transmat_, MOVES[np.ix_(order, order)], atol=0.05)
    names = model.relabelled([2, 0, 1])
    assert names.score(X, states) > 0.9
    assert names.score(X) == model.score(X)
    again = HiddenMarkovModel(3, "gaussian", n_init=3, random_state=0).fit(X[::-1])
    np.testing.assert_allclose(again.means_, model.means_, atol=0.01)


def test_likelihood_of_the_fit_exceeds_the_truths():
    for truth, emission in ((symbolic(), "categorical"), (gaussian(), "gaussian")):
        X, _ = truth.sample([300] * 4, random_state=2)
        model = HiddenMarkovModel(3, emission, alpha=0.0, random_state=1, n_init=4).fit(X)
        assert model.score(X) > truth.score(X)
        started = HiddenMarkovModel(3, emission, alpha=0.0).fit(X, start=truth)
        assert started.score(X) > truth.score(X)


def test_units_and_order_of_sequences_do_not_matter():
    X, _ = gaussian().sample([50, 80, 30], random_state=7)
    base = HiddenMarkovModel(2, "gaussian", random_state=0, max_iter=20).fit(X)
    metres = HiddenMarkovModel(2, "gaussian", random_state=0, max_iter=20).fit(
        [1000.0 * x + 5e4 for x in X]
    )
    np.testing.assert_allclose(metres.means_, 1000.0 * base.means_ + 5e4, rtol=1e-8)
    np.testing.assert_allclose(metres.transmat_, base.transmat_, rtol=1e-6)
    flat = HiddenMarkovModel(2, "gaussian", random_state=0, max_iter=20)
    flat.fit(np.concatenate(X), lengths=[50, 80, 30])
    np.testing.assert_array_equal(flat.means_, base.means_)
    posterior = flat.predict_proba(np.concatenate(X), [50, 80, 30])
    np.testing.assert_array_equal(posterior, np.concatenate(base.predict_proba(X)))


def test_numbers_do_not_depend_on_threads():
    X, _ = gaussian().sample([300] * 60, random_state=7)
    fits = []
    for number in (1, 3):
        with threads(number):
            fits.append(HiddenMarkovModel(3, "gaussian", random_state=0, max_iter=5).fit(X))
    np.testing.assert_array_equal(fits[0].means_, fits[1].means_)
    np.testing.assert_array_equal(fits[0].transmat_, fits[1].transmat_)
    np.testing.assert_array_equal(*(fit.log_likelihood_history_ for fit in fits))


@pytest.mark.parametrize(
    ("emission", "truth"), [("gaussian", gaussian), (MultivariateGaussian("full"), gaussian)]
)
def test_missing_steps_are_skipped(emission, truth):
    X, y = truth().sample([30, 20], random_state=1)
    holes = [x.copy() for x in X]
    holes[0][[3, 4, 17]] = np.nan
    model = HiddenMarkovModel(emission=emission).fit(holes, y)
    # As if the steps emitted nothing: the same emissions as without them …
    kept = [np.delete(X[0], [3, 4, 17], axis=0), X[1]]
    labels = [np.delete(y[0], [3, 4, 17]), y[1]]
    np.testing.assert_allclose(
        model.means_, HiddenMarkovModel(emission=emission).fit(kept, labels).means_, rtol=1e-10
    )
    # … and a lone missing step has the start distribution for posterior.
    nothing = np.full((1, 2), np.nan)
    np.testing.assert_allclose(model.predict_proba([nothing])[0][0], model.startprob_, rtol=1e-12)
    assert model.log_likelihood([nothing])[0] == pytest.approx(0.0, abs=1e-14)
    trained = HiddenMarkovModel(2, emission, random_state=0).fit(holes)
    assert np.isfinite(trained.means_).all()
    assert np.diff(trained.log_likelihood_history_).min() > -1e-8


def test_one_missing_column_leaves_the_other():
    X, y = gaussian().sample([50], random_state=1)
    model = HiddenMarkovModel(emission="gaussian").fit(X, y)
    x = np.array([[0.7, np.nan]])
    density = np.exp(-0.5 * (0.7 - model.means_[:, 0]) ** 2 / model.covars_[:, 0])
    share = model.startprob_ * density / np.sqrt(model.covars_[:, 0])
    np.testing.assert_allclose(model.predict_proba([x])[0][0], share / share.sum(), rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.01, 1.0])
def test_unseen_symbols_keep_scores_finite(alpha):
    model = HiddenMarkovModel(alpha=alpha).fit([["a", "b", "a"]], [["u", "v", "u"]])
    X = [["a", "zebra", "a"], ["zebra"], [None, "b"]]
    assert np.isfinite(model.log_likelihood(X)).all()
    for posterior in model.predict_proba(X):
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-14)


def test_states_never_visited_keep_their_values():
    # The third state starts where no observation is and can never be entered.
    start, moves = [0.5, 0.5, 0.0], [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    first = HiddenMarkovModel.from_parameters(
        start, moves, means=[[0.0], [1.0], [99.0]], covars=[[1.0], [1.0], [2.0]], alpha=0.0
    )
    X, _ = first.sample([50] * 4, random_state=0)
    model = HiddenMarkovModel(3, "gaussian", alpha=0.0).fit(X, start=first)
    np.testing.assert_array_equal(model.transmat_[2], first.transmat_[2])
    np.testing.assert_allclose([model.means_[2, 0], model.covars_[2, 0]], [99.0, 2.0], rtol=1e-12)
    assert np.isfinite(model.predict_proba(X)[0]).all()
    label = HiddenMarkovModel.from_parameters(START, MOVES, emissionprob=TABLE, alpha=0.0)
    same = HiddenMarkovModel(3, alpha=0.0, max_iter=1).fit([[0]], start=label)
    np.testing.assert_array_equal(same.transmat_, label.transmat_)


def test_partly_labelled_sequences():
    truth = gaussian()
    X, y = truth.sample([120] * 8, random_state=4)
    rng = np.random.default_rng(0)
    hidden = [np.where(rng.random(len(s)) < 0.7, -1, s) for s in y]
    model = HiddenMarkovModel(emission="gaussian").fit(X, hidden)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.diff(model.log_likelihood_history_).min() > -1e-8
    np.testing.assert_allclose(model.means_, MEANS, atol=0.3)
    few = [np.where(rng.random(len(s)) < 0.97, -1, s) for s in y]
    alone = [[x[[t]] for x, s in zip(X, few, strict=True) for t in np.flatnonzero(s >= 0)]]
    labels = [[s[[t]] for s in few for t in np.flatnonzero(s >= 0)]]
    supervised = HiddenMarkovModel(emission="gaussian").fit(alone[0], labels[0])
    helped = HiddenMarkovModel(emission="gaussian").fit(X, few)
    assert helped.score(X, y) > supervised.score(X, y)
    whole = [y[0], None, y[2], *[None] * 5]
    marked = [np.full(len(x), -1) if s is None else s for x, s in zip(X, whole, strict=True)]
    both = [HiddenMarkovModel(emission="gaussian").fit(X, labels) for labels in (whole, marked)]
    np.testing.assert_array_equal(both[0].means_, both[1].means_)
    np.testing.assert_allclose(both[0].means_, MEANS, atol=0.3)
    with pytest.raises(DataError, match=r"y: expected a label at every step, got None at step 120"):
        both[0].score(X, whole)


def test_hiding_no_label_or_all_of_a_sequence():
    X, y = symbolic().sample([40, 30, 20], random_state=4)
    text = [[str(k) for k in s] for s in y]
    counted = HiddenMarkovModel(alpha=0.1).fit(X, text)
    # One iteration of EM on complete labels is the counts: leave one label of a lone step out.
    more = HiddenMarkovModel(alpha=0.1, max_iter=1).fit([*X, [0]], [*text, [None]])
    assert more.classes_.tolist() == counted.classes_.tolist()
    np.testing.assert_allclose(more.transmat_, counted.transmat_, rtol=1e-12)


def test_labels_that_contradict_the_model_are_refused():
    model = HiddenMarkovModel.from_parameters(
        [0.5, 0.5], np.eye(2), emissionprob=[[0.5, 0.5], [1.0, 0.0]], alpha=0.0
    )
    with pytest.raises(DataError, match="X: expected sequences that the model can produce"):
        clone(model).fit([[0, 0, 1]], [[0, 1, None]], start=model)
    certain = HiddenMarkovModel.from_parameters(
        [0.0, 1.0], np.eye(2), emissionprob=[[0.5, 0.5], [1.0, 0.0]]
    )
    for use in (certain.predict, certain.predict_proba):
        with pytest.raises(DataError, match=r"got none for sequence 1; .* fit with alpha > 0"):
            use([[0], [1]])


@pytest.mark.parametrize(
    "emission", ["poisson", Poisson(0.0), "bernoulli", Bernoulli(0.0), "gaussian"]
)
def test_means_are_those_of_each_states_rows(emission):
    rng = np.random.default_rng(8)
    y = [np.repeat([0, 1, 0], [8, 12, 5]) for _ in range(4)]
    X = [rng.integers(0, 2, size=(len(states), 2)).astype(float) for states in y]
    model = HiddenMarkovModel(emission=emission, alpha=0.0).fit(X, y)
    rows, states = np.concatenate(X), np.concatenate(y)
    means = [rows[states == k].mean(axis=0) for k in (0, 1)]
    np.testing.assert_allclose(model.means_, means, rtol=1e-12)


@pytest.mark.parametrize(
    ("density", "draw"),
    [
        (Poisson(), lambda rng, k: rng.poisson([2.0 + 6 * k, 5.0 - 2 * k])),
        (Bernoulli(), lambda rng, k: (rng.random(2) < [0.2 + 0.3 * k, 0.9 - 0.4 * k]) * 1.0),
        (
            Categorical([3, 2]),
            lambda rng, k: [rng.choice(3, p=[0.6 - 0.2 * k, 0.2, 0.2 + 0.2 * k]), k],
        ),
        (MultivariateGaussian("shared_full"), lambda rng, k: rng.normal(2.0 * k, 1.0, 2)),
    ],
)
def test_any_density_works_at_once(density, draw):
    rng = np.random.default_rng(3)
    y = [np.repeat([0, 1, 0], [8, 12, 5]) for _ in range(6)]
    X = [np.array([draw(rng, k) for k in s], dtype=float) for s in y]
    model = HiddenMarkovModel(emission=density).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.log_likelihood(X)).all()
    drawn, states = model.sample([2000], random_state=0)
    state_means = [np.concatenate(X)[np.concatenate(y) == k].mean(axis=0) for k in (0, 1)]
    for k in (0, 1):
        np.testing.assert_allclose(drawn[0][states[0] == k].mean(axis=0), state_means[k], atol=0.8)
    assert (
        np.diff(HiddenMarkovModel(2, density, random_state=0).fit(X).log_likelihood_history_).min()
        > -1e-7
    )


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
def test_a_new_density_works_for_every_tradeoff(tradeoff):
    rng = np.random.default_rng(0)
    y = [np.repeat([0, 1], [10, 10]) for _ in range(10)]
    X = [rng.exponential(1.0 + 9.0 * s)[:, None] for s in y]
    model = HiddenMarkovModel(emission=Exponential(), tradeoff=tradeoff).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.converged_


def test_sampling_has_the_models_frequencies():
    model = symbolic()
    X, y = model.sample([20_000], random_state=0)
    assert np.isclose(np.bincount(y[0]) / 20_000, model.stationary_distribution(), atol=0.02).all()
    for k in range(3):
        np.testing.assert_allclose(
            np.bincount(X[0][y[0] == k]) / (y[0] == k).sum(), TABLE[k], atol=0.03
        )
    assert [len(x) for x in model.sample([0, 3, 1], random_state=1)[0]] == [0, 3, 1]
    first = np.array([s[0] for s in model.sample([1] * 5000, random_state=2)[1]])
    np.testing.assert_allclose(np.bincount(first) / 5000, START, atol=0.03)


def test_stationary_distribution_and_criteria():
    model = gaussian()
    pi = model.stationary_distribution()
    np.testing.assert_allclose(pi @ model.transmat_, pi, rtol=1e-12)
    X, _ = model.sample([50, 20], random_state=0)
    parameters = 2 + 6 + 12
    assert model.n_free_parameters() == parameters
    assert model.aic(X) == pytest.approx(-2 * model.score(X) + 2 * parameters)
    assert model.bic(X) == pytest.approx(-2 * model.score(X) + parameters * np.log(70))
    split = HiddenMarkovModel.from_parameters(
        [0.5, 0.5], np.eye(2), emissionprob=[[0.5, 0.5], [0.5, 0.5]]
    )
    with pytest.raises(DataError, match="one stationary distribution"):
        split.stationary_distribution()


def test_edge_marginals_by_sequence():
    model = symbolic()
    X, _ = model.sample([5, 1, 0, 3], random_state=0)
    edges = model.edge_marginals(X)
    assert [e.shape[0] for e in edges] == [4, 0, 0, 2]
    np.testing.assert_allclose(edges[0].sum(axis=2), model.predict_proba(X)[0][:-1], atol=1e-13)


def test_conventions_of_scikit_learn():
    X, y = gaussian().sample([30, 20], random_state=0)
    copies = [x.copy() for x in X]
    model = HiddenMarkovModel(emission="gaussian", alpha=0.2)
    parameters = model.get_params()
    fitted = model.fit(X, y)
    assert fitted is model
    assert model.get_params() == parameters
    for before, after in zip(copies, X, strict=True):
        np.testing.assert_array_equal(before, after)
    assert clone(model).get_params() == parameters
    assert not hasattr(clone(model), "parameters_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X)[0], model.predict_proba(X)[0])
    assert model.score(X, y) == np.mean(np.concatenate(model.predict(X)) == np.concatenate(y))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_states": 0}, "n_states: expected a whole number of at least 1, got 0"),
        ({"n_states": None}, "n_states: expected the number of hidden states"),
        ({"tradeoff": 1.5}, r"tradeoff: expected a number in \[0, 1\], 'auto' or 'best', got 1.5"),
        ({"tradeoff": 0.5}, "tradeoff: expected 1.0 where labels are missing, got 0.5"),
        ({"algorithm": "em"}, "algorithm: expected 'baum-welch' or 'viterbi', got 'em'"),
        ({"alpha": -1.0}, "alpha: expected a finite number of at least 0, got -1.0"),
        ({"max_iter": 0}, "max_iter: expected a whole number of at least 1, got 0"),
        (
            {"emission": "gauss"},
            "emission: expected one of 'bernoulli', 'categorical', 'gaussian', 'poisson' or a "
            "density, got 'gauss'",
        ),
        *(
            ({name: bad}, f"{name}: expected a .* number of at least .*, got {bad!r}")
            for name in ("n_states", "n_init", "max_iter", "alpha", "tol", "l2")
            for bad in ("2", -1, True, np.nan)
        ),
        ({"model_end": "no"}, "model_end: expected True, False or 'auto', got 'no'"),
    ],
)
def test_wrong_parameters_are_refused(settings, message):
    model = HiddenMarkovModel(**{"n_states": 2, "emission": "gaussian", **settings})
    with pytest.raises(DataError, match=message):
        model.fit([np.zeros((3, 1)), np.ones((2, 1))])


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(lambda n: sum(n) > 0),
    n_states=st.integers(1, 4),
)
@example(seed=71, lengths=[4], n_states=3)  # a variance goes to its floor
def test_training_on_anything_leaves_a_usable_model(seed, lengths, n_states):
    rng = np.random.default_rng(seed)
    X = [np.round(rng.normal(size=(n, 1)), 1) for n in lengths]
    X = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in X]
    model = HiddenMarkovModel(n_states, "gaussian", random_state=seed, max_iter=15).fit(X)
    history = model.log_likelihood_history_
    assert np.isfinite(history).all()
    assert len(history) < 2 or np.diff(history).min() > -1e-7 * max(1.0, abs(history[-1]))
    for posterior in model.predict_proba(X):
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.transmat_.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    "names", [["1", 1], ["a", "a\0"], [("a", 1), ("b", 2)], [("a",), ("b", 2)], [b"a", "a"]]
)
def test_symbols_keep_their_names(names):
    # NumPy's array of them would make one name of two, or rows of tuples.
    model = HiddenMarkovModel(alpha=0.0).fit([names, names[::-1]], [["x", "y"], ["y", "x"]])
    assert sorted(model.symbols_.tolist(), key=repr) == sorted(names, key=repr)
    drawn, states = model.sample(50, random_state=0)
    table = dict(zip("xy", names, strict=True))
    assert drawn[0].tolist() == [table[state] for state in states[0].tolist()]


@pytest.mark.parametrize("names", [["a", "a\0"], [("a", 1), ("b", 2)]])
@pytest.mark.parametrize("model", [HiddenMarkovModel(), ConditionalRandomField(l2=0.02)])
def test_labels_keep_their_names(names, model):
    X, y = [["p", "q", "q"]] * 3, [[names[0], names[1], names[1]]] * 3
    model = clone(model).fit(X, y)
    assert model.classes_.tolist() == names
    assert model.predict(X)[0].tolist() == y[0]
    assert model.score(X, y) == 1.0
    if isinstance(model, HiddenMarkovModel):
        assert model.relabelled(names[::-1]).classes_.tolist() == names[::-1]


@pytest.mark.parametrize("seed", [1, 4])
def test_a_step_that_would_lower_the_objective_is_no_convergence(seed):
    # Six full covariances on twelve points: the floor of the variances, which is no part of the
    # objective, acts.
    X = [np.random.default_rng(seed).normal(size=(12, 3))]
    model = HiddenMarkovModel(6, MultivariateGaussian("full"), random_state=seed).fit(X)
    assert np.diff(model.log_likelihood_history_).min() > 0
    assert not model.converged_
    assert np.isfinite(model.predict_proba(X)[0]).all()


def test_another_emission_leaves_nothing_behind():
    model = HiddenMarkovModel(emission="gaussian").fit([[0.0, 1.0, 2.0]], [[0, 1, 1]])
    assert hasattr(model, "covars_")
    model.set_params(emission="categorical").fit([["a", "b"]], [[0, 1]])
    assert not hasattr(model, "means_")
    assert not hasattr(model, "covars_")
    model.set_params(emission="gaussian").fit([[0.0, 1.0, 2.0]], [[0, 1, 1]])
    assert not hasattr(model, "symbols_")


def test_sequences_without_steps_in_both_forms():
    model = symbolic()
    assert model.predict([]) == []
    assert model.predict([], []).tolist() == model.predict([], [0, 0]).tolist() == []
    joint = model.log_likelihood([[]], [[]])
    assert (joint.tolist(), joint.dtype) == ([0.0], np.float64)


@pytest.mark.parametrize(
    "X", [[scipy.sparse.csr_array(np.eye(2))], [[{"w": "a"}, {"w": "b"}]], [[["a"], ["b"]]]]
)
def test_a_step_of_several_values_is_no_symbol(X):
    with pytest.raises(
        DataError, match=r"X: expected one symbol per step, got [\s\S]* of sequence 0"
    ):
        HiddenMarkovModel().fit(X, [["u", "v"]])
