"""Fits that must be refused, what they leave behind, and zeros that training keeps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crossfade import ConditionalRandomField, EntropicMarkovChain, HiddenMarkovModel
from crossfade.crf import MaximumEntropyClassifier
from crossfade.errors import DataError
from tests.hmm.cases import labelled

X, y = labelled("gaussian", n_sequences=12)
WIDER = [np.hstack([x, x]) for x in X]
NOTHING = [np.full_like(x, np.nan) for x in X]
MISPLACED = [[0] * len(x) for x in X[:-1]]


@pytest.mark.parametrize(
    "model",
    [
        HiddenMarkovModel(emission="gaussian"),
        HiddenMarkovModel(emission="gaussian", tradeoff=0.5),
        EntropicMarkovChain(),
        EntropicMarkovChain(training="joint"),
        ConditionalRandomField(),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("bad", "labels", "name"),
    [
        (WIDER, MISPLACED, "l2"),
        (NOTHING, y, "l2"),
        (WIDER, y, "tol"),
        ([*WIDER[:-1], X[-1]], y, "l2"),
        ([[["a"]]], [[0]], "max_iter"),
    ],
)
def test_a_refused_refit_leaves_the_model_before(model, bad, labels, name):
    name = "delta" if name == "tol" and "delta" in model.get_params() else name
    before = model.fit(X, y).predict_proba(X)
    attributes = dict(vars(model))
    model.set_params(**{name: -1.0} if name != "l2" else {})
    # A DataError; scikit-learn's own where the local classifier is.
    with pytest.raises(ValueError, match=r"expected|contains NaN"):
        model.fit(bad, labels)
    model.set_params(**{name: attributes[name]})
    assert vars(model).keys() == attributes.keys()
    for now, then in zip(model.predict_proba(X), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_refused_refit_of_single_tokens_leaves_the_model_before():
    rows, classes = np.vstack(X), np.concatenate(y)
    model = MaximumEntropyClassifier().fit(rows, classes)
    before = model.predict_proba(rows)
    with pytest.raises(DataError):
        model.fit(np.hstack([rows, rows]), classes[:-1])
    np.testing.assert_array_equal(model.predict_proba(rows), before)


def test_another_training_leaves_nothing_behind():
    model = EntropicMarkovChain().fit(X, y)
    assert not hasattr(model.set_params(training="joint").fit(X, y), "local_")
    assert not hasattr(model.set_params(training="plug-in").fit(X, y), "coef_")


@pytest.mark.parametrize("labels", [None, "all", "some"])
@pytest.mark.parametrize(
    ("emission", "values"),
    [("gaussian", NOTHING), ("poisson", NOTHING), ("categorical", [[None] * len(x) for x in X])],
)
def test_sequences_without_any_observed_value_are_refused(emission, values, labels):
    given = {None: None, "all": y, "some": [[None, *s[1:]] for s in (list(s) for s in y)]}[labels]
    model = HiddenMarkovModel(n_states=3, emission=emission)
    n_steps = sum(map(len, X))
    with pytest.raises(DataError, match=rf"X: expected some observed values, got {n_steps} steps"):
        model.fit(values, given)


def test_nothing_observed_is_refused_with_a_start_too():
    start = HiddenMarkovModel(n_states=2, emission="gaussian", random_state=0).fit(X)
    with pytest.raises(DataError, match="X: expected some observed values"):
        HiddenMarkovModel(n_states=2, emission="gaussian").fit(NOTHING, start=start)


@pytest.mark.parametrize("algorithm", ["baum-welch", "viterbi"])
def test_zeros_of_the_start_stay_and_are_no_part_of_the_prior(algorithm):
    rng = np.random.default_rng(3)
    first, moves = np.array([1.0, 0.0, 0.0]), np.array([[0.6, 0.4, 0], [0, 0.7, 0.3], [0, 0, 1.0]])
    table = np.array([[0.7, 0.3, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]])
    start = HiddenMarkovModel.from_parameters(first, moves, emissionprob=table)
    symbols = [rng.integers(0, 2, 1).tolist() + rng.integers(0, 3, 4).tolist() for _ in range(20)]
    # Every path of each sequence, by hand: the symbols that a state has not are impossible.
    likelihood = 0.0
    for x in symbols:
        paths = np.array(
            [
                first[p[0]]
                * np.prod([moves[i, j] for i, j in itertools.pairwise(p)])
                * np.prod([table[i, s] for i, s in zip(p, x, strict=True)])
                for p in itertools.product(range(3), repeat=len(x))
            ]
        )
        likelihood += np.log(paths.sum() if algorithm == "baum-welch" else paths.max())
    possible = np.concatenate([part[part > 0] for part in (first, moves.ravel(), table.ravel())])
    # from_parameters gives the cell of unseen symbols 1e-10 in each state.
    prior = 0.01 * (np.log(possible).sum() + 3 * np.log(1e-10))
    model = HiddenMarkovModel(n_states=3, algorithm=algorithm).fit(symbols, start=start)
    history = model.log_likelihood_history_
    np.testing.assert_allclose(history[0], likelihood + prior, rtol=1e-12)
    assert (np.diff(history) >= 0.0).all()
    for fitted, given in (
        (model.startprob_, first),
        (model.transmat_, moves),
        (model.emissionprob_, table),
    ):
        assert ((fitted == 0) == (given == 0)).all()


def test_a_matrix_of_numbers_is_no_symbol():
    with pytest.raises(DataError, match=r"X: expected one symbol per step, got \[0.5, 1.0\]"):
        HiddenMarkovModel().fit([np.array([[0.5, 1.0]])], [[0]])
