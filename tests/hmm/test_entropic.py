"""Entropic forward-backward: the paper's equations, the hidden Markov model, length one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from crossfade import EntropicMarkovChain, HiddenMarkovModel
from crossfade.chains.input import layout_of
from crossfade.errors import DataError, NotADensityError
from crossfade.hmm.entropic_objective import JointObjective


def entropic_posteriors(local, reference, initial, transitions):
    """Equations (4)-(6) as printed, for an initial distribution that may differ from π."""
    n_steps, n_states = local.shape
    alpha, beta = np.zeros((n_steps, n_states)), np.ones((n_steps, n_states))
    alpha[0] = local[0] * initial / reference
    for t in range(n_steps - 1):
        for i in range(n_states):
            alpha[t + 1, i] = local[t + 1, i] / reference[i] * (alpha[t] @ transitions[:, i])
    for t in range(n_steps - 2, -1, -1):
        for i in range(n_states):
            beta[t, i] = (local[t + 1] / reference * beta[t + 1]) @ transitions[i]
    product = alpha * beta
    return product / product.sum(axis=1, keepdims=True)


def sequences(seed=0, n=20, noise=1.0):
    rng = np.random.default_rng(seed)
    y = [np.repeat(rng.permutation(3), rng.integers(1, 6, size=3)) for _ in range(n)]
    X = [np.eye(3)[s] + noise * rng.normal(size=(len(s), 3)) for s in y]
    return X, y


@pytest.mark.parametrize("emission", ["gaussian", "categorical"])
def test_posteriors_of_a_hidden_markov_model(emission):
    rng = np.random.default_rng(1)
    moves = rng.dirichlet(np.ones(3), size=3)
    kinds = {
        "gaussian": {"means": rng.normal(size=(3, 2)), "covars": np.ones((3, 2))},
        "categorical": {"emissionprob": rng.dirichlet(np.ones(4), size=3)},
    }
    model = HiddenMarkovModel.from_parameters([0.7, 0.2, 0.1], moves, **kinds[emission])
    X, _ = model.sample([30, 1, 7], random_state=0)
    for reference in (None, [0.1, 0.6, 0.3], model.stationary_distribution()):
        chain = EntropicMarkovChain.from_hmm(model, reference)
        for one, other in zip(chain.predict_proba(X), model.predict_proba(X), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
        for path, other in zip(chain.predict(X), model.predict(X), strict=True):
            np.testing.assert_array_equal(path, other)
        for local, posterior in zip(chain.log_local(X), chain.predict_proba(X), strict=True):
            printed = entropic_posteriors(
                np.exp(local), chain.reference_, chain.initial_, chain.transmat_
            )
            np.testing.assert_allclose(posterior, printed, atol=1e-12)
    # A labelled model that knows its end has that in its posteriors too.
    y = model.predict(X)
    ending = HiddenMarkovModel(emission=emission, model_end=True, alpha=0.5).fit(X, y)
    chain = EntropicMarkovChain.from_hmm(ending)
    np.testing.assert_allclose(chain.predict_proba(X)[0], ending.predict_proba(X)[0], atol=1e-12)


@pytest.mark.parametrize("initial", ["counts", "reference"])
def test_plug_in_is_the_equations_with_any_classifier(initial):
    X, y = sequences()
    chain = EntropicMarkovChain(GaussianNB(), initial=initial, alpha=0.0).fit(X, y)
    local = GaussianNB().fit(np.concatenate(X), np.concatenate(y))
    labels = np.concatenate(y)
    reference = np.bincount(labels) / len(labels)
    np.testing.assert_allclose(chain.reference_, reference)
    first = np.bincount([s[0] for s in y], minlength=3) / len(y)
    np.testing.assert_allclose(chain.initial_, first if initial == "counts" else reference)
    for x, posterior in zip(X, chain.predict_proba(X), strict=True):
        printed = entropic_posteriors(
            local.predict_proba(x), reference, chain.initial_, chain.transmat_
        )
        np.testing.assert_allclose(posterior, printed, atol=1e-12)
    assert chain.score(X, y) > local.score(np.concatenate(X), labels)


@pytest.mark.parametrize("classifier", [GaussianNB(), LogisticRegression()])
def test_length_one_is_the_classifier(classifier):
    X, y = sequences()
    flat, labels = np.concatenate(X), np.concatenate(y)
    chain = EntropicMarkovChain(classifier, initial="reference").fit(flat, labels, [1] * len(flat))
    local = clone(classifier).fit(flat, labels)
    np.testing.assert_allclose(
        chain.predict_proba(flat, [1] * len(flat)), local.predict_proba(flat), atol=1e-14
    )


def test_naive_bayes_is_a_chain_of_columns_whose_state_never_changes():
    # Equation (12): π(i)^(1-T) Π_t L_t(i) is the chain with the identity for transitions.
    X, y = sequences()
    flat, labels = np.concatenate(X), np.concatenate(y)
    bayes = GaussianNB(var_smoothing=0.0).fit(flat, labels)
    columns = [GaussianNB(var_smoothing=0.0).fit(flat[:, [j]], labels) for j in range(3)]
    prior = bayes.class_prior_
    for row in flat[:10]:
        local = np.vstack([c.predict_proba(row[[j]][None])[0] for j, c in enumerate(columns)])
        posterior = entropic_posteriors(local, prior, prior, np.eye(3))
        np.testing.assert_allclose(posterior[0], bayes.predict_proba(row[None])[0], atol=1e-12)
        delta = prior ** (1 - 3) * local.prod(axis=0)
        np.testing.assert_allclose(posterior[2], delta / delta.sum(), atol=1e-12)


def test_joint_training_of_length_one_is_logistic_regression():
    X, y = sequences(noise=1.5)
    flat, labels = np.concatenate(X), np.concatenate(y)
    ones = [1] * len(flat)
    chain = EntropicMarkovChain(training="joint", initial="reference", l2=1.0, tol=1e-13).fit(
        flat, labels, ones
    )
    # scikit-learn's objective is C Σ loss + ‖w‖² / 2.
    rival = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(flat, labels)
    np.testing.assert_allclose(
        chain.predict_proba(flat, ones), rival.predict_proba(flat), atol=1e-5
    )


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_gradient_of_joint_training(tied, sparse):
    X, y = sequences(n=5)
    layout = layout_of(X)
    features = np.concatenate(X)
    features = scipy.sparse.csr_matrix(features) if sparse else features
    objective = JointObjective(features, layout, np.concatenate(y), 3, 0.3, tied=tied)
    point = 0.5 * np.random.default_rng(0).normal(size=3 + 9 + 3 + 3 + 9)
    _, gradient = objective.value_and_gradient(point)
    for place in range(point.size):
        step = np.zeros(point.size)
        step[place] = 1e-6
        slope = (
            objective.value_and_gradient(point + step)[0]
            - objective.value_and_gradient(point - step)[0]
        ) / 2e-6
        assert slope == pytest.approx(gradient[place], abs=1e-6)


def test_joint_training_beats_plug_in_in_what_it_maximises():
    X, y = sequences(n=60)
    plug_in = EntropicMarkovChain().fit(X, y)
    joint = EntropicMarkovChain(training="joint", l2=0.02).fit(X, y)
    assert joint.converged_
    assert joint.log_likelihood(X, y).sum() > plug_in.log_likelihood(X, y).sum()
    np.testing.assert_allclose(joint.transmat_.sum(axis=1), 1.0)
    sparse = EntropicMarkovChain(training="joint", l2=0.02).fit(
        [scipy.sparse.csr_matrix(x) for x in X], y
    )
    np.testing.assert_allclose(sparse.coef_, joint.coef_, atol=1e-6)
    flat = EntropicMarkovChain(training="joint", l2=0.02).fit(
        np.concatenate(X), np.concatenate(y), [len(x) for x in X]
    )
    np.testing.assert_array_equal(flat.coef_, joint.coef_)
    again = pickle.loads(pickle.dumps(joint))
    np.testing.assert_array_equal(again.predict_proba(X)[0], joint.predict_proba(X)[0])


def test_tokens_are_features_too():
    words = [["the", "dog", "runs"], ["a", "cat", "sleeps"], ["the", "cat", "runs"]] * 3
    tags = [["D", "N", "V"]] * 9
    X = [[{"word": w, "last": w[-1]} for w in s] for s in words]
    for training in ("plug-in", "joint"):
        chain = EntropicMarkovChain(training=training, l2=0.02).fit(X, tags)
        assert chain.score(X, tags) == 1.0
        new = [{"word": "a"}, {"word": "dog", "last": "g"}, {"word": "sees", "last": "s"}]
        assert chain.predict([new])[0].tolist() == ["D", "N", "V"]


def test_wrong_use_is_refused():
    X, y = sequences(n=3)
    with pytest.raises(DataError, match="training: expected 'plug-in' or 'joint', got 'both'"):
        EntropicMarkovChain(training="both").fit(X, y)
    with pytest.raises(DataError, match="local_classifier: expected None for training='joint'"):
        EntropicMarkovChain(GaussianNB(), training="joint").fit(X, y)
    with pytest.raises(DataError, match="local_classifier: expected a classifier with predict_pr"):
        EntropicMarkovChain(LinearSVC()).fit(X, y)
    with pytest.raises(DataError, match="labels in sequence 1, as many as X has steps there"):
        EntropicMarkovChain().fit(X, [y[0], y[1][:-1], y[2]])
    with pytest.raises(DataError, match="expected finite features, got NaN or infinity"):
        EntropicMarkovChain().fit([np.full((2, 2), np.nan)], [[0, 1]])
    with pytest.raises(DataError, match="reference: expected 2 positive probabilities"):
        EntropicMarkovChain.from_hmm(
            HiddenMarkovModel.from_parameters(
                [1.0, 0.0], np.eye(2), emissionprob=[[1.0, 0.0], [0.0, 1.0]]
            ),
            [1.0, 0.0],
        )


def test_conventions_of_scikit_learn():
    X, y = sequences(n=4)
    chain = EntropicMarkovChain(GaussianNB(), alpha=0.1)
    fitted = chain.fit(X, y)
    assert fitted is chain
    assert clone(chain).get_params()["alpha"] == 0.1
    assert not hasattr(chain.local_classifier, "classes_")


@pytest.mark.parametrize("training", ["plug-in", "joint"])
def test_columns_are_those_of_fit(training):
    X, y = sequences(n=4)
    chain = EntropicMarkovChain(training=training).fit(X, y)
    wide = np.zeros((2, X[0].shape[1] + 1))
    with pytest.raises(DataError, match=r"X: expected \d columns as in fit, got \d; give the same"):
        chain.predict([wide])
    with pytest.raises(DataError, match=r"X: expected \d columns in every sequence, .* sequence 2"):
        chain.predict([np.zeros((0, 9)), X[0], wide])
    assert [len(path) for path in chain.predict([np.zeros((0, 9)), X[0]])] == [0, len(X[0])]
    with pytest.raises(DataError, match="X: expected matrices as in fit, got tokens"):
        chain.predict([["a"]])
    tokens = EntropicMarkovChain(training=training).fit([["a", "b"]] * 2, [["x", "y"]] * 2)
    with pytest.raises(DataError, match="X: expected tokens as in fit, got matrices"):
        tokens.predict([np.zeros((3, 2))])


def test_one_label_and_transitions_never_seen():
    X = [np.arange(6.0)[:, None]]
    with pytest.raises(DataError, match="y: expected at least two labels, got only 'u'"):
        EntropicMarkovChain().fit(X, [["u"] * 6])
    assert (
        EntropicMarkovChain(training="joint").fit(X, [["u"] * 6]).predict(X)[0].tolist()
        == ["u"] * 6
    )
    # Without smoothing a transition of probability zero is where joint training starts.
    y = [np.arange(6) % 2]
    joint = EntropicMarkovChain(training="joint", alpha=0.0).fit(X, y)
    assert np.isfinite(joint.transmat_).all()
    smooth = EntropicMarkovChain(training="joint").fit(X, y)
    np.testing.assert_allclose(joint.transmat_, smooth.transmat_, atol=1e-4)
    plug_in = EntropicMarkovChain(GaussianNB(), alpha=0.0).fit(X, y)
    assert plug_in.score(X, y) == 1.0


def test_a_model_without_density_has_no_entropic_chain():
    rng = np.random.default_rng(0)
    y = [np.repeat([0, 1, 0], 5) for _ in range(20)]
    X = [
        np.where(s[:, None] == 1, rng.normal(size=(15, 1)), rng.choice([-4.0, 4.0], (15, 1)))
        for s in y
    ]
    model = HiddenMarkovModel(emission="gaussian", tradeoff=0.0, l2=0.0002).fit(X, y)
    assert model.score(X, y) > 0.8
    for use in (model.score, lambda _: model.stationary_distribution()):
        with pytest.raises(NotADensityError):
            use(X)
    with pytest.raises(NotADensityError):
        EntropicMarkovChain.from_hmm(model)
