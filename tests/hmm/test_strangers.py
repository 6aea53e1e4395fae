"""Sequences unlike those of fit: their score by its formula, and p-values of fresh ones."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade import DataError, HiddenMarkovModel

CHAIN = HiddenMarkovModel.from_parameters(
    [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[0.0], [2.0]], covars=[[1.0], [1.0]]
)
OTHER = HiddenMarkovModel.from_parameters(
    [0.5, 0.5], [[0.1, 0.9], [0.9, 0.1]], means=[[0.0], [2.0]], covars=[[1.0], [1.0]]
)


def drawn(n, seed, chain=CHAIN, heavy=False):
    rng = np.random.default_rng(seed)
    X, y = chain.sample(rng.integers(1, 31, size=n), random_state=rng)
    if heavy:
        X = [x + rng.standard_t(3, size=x.shape) for x in X]
    return X, y


@pytest.mark.parametrize("labels", [True, False])
def test_the_score_is_the_surprise_beyond_the_usual_one_by_the_root_of_the_steps(labels):
    X, y = drawn(60, 0)
    model = HiddenMarkovModel(2, emission="gaussian", random_state=0)
    model = model.fit(X, y if labels else None)
    score = model.outlier_score(X)
    steps = np.array([len(x) for x in X])
    # What is usual is linear in the number of steps.
    usual = -(score * np.sqrt(steps) + model.log_likelihood(X))
    design = np.column_stack([np.ones_like(steps), steps - 1])
    (first, later), (rest,) = np.linalg.lstsq(design, usual, rcond=None)[:2]
    assert rest < 1e-15
    # Each step's predictive surprise, by the model itself.
    each = [np.diff([0.0, *model.log_likelihood([x[:t] for t in range(1, len(x) + 1)])]) for x in X]
    x = X[int(np.argmax(steps))]
    own = -each[int(np.argmax(steps))]
    wanted = (own[0] - first + (own[1:] - later).sum()) / np.sqrt(len(x))
    assert_allclose(model.outlier_score([x]), wanted, rtol=1e-9)
    assert_allclose(first, -np.mean([one[0] for one in each]), rtol=0.05)
    assert_allclose(later, -np.concatenate([one[1:] for one in each]).mean(), rtol=0.05)
    assert model.outlier_score([x[:0]]) == 0.0
    assert_allclose(model.outlier_score([x, np.full((4, 1), np.nan)])[1], 0.0, atol=1e-12)


def test_what_is_usual_comes_from_fits_without_the_fold():
    X, y = drawn(40, 1)
    model = HiddenMarkovModel(emission="gaussian").fit(X, y)
    surprise, steps = np.zeros(2), np.array([0, 0])
    for fold in np.array_split(np.random.default_rng(0).permutation(40), 10):
        rest = np.setdiff1d(np.arange(40), fold)
        without = HiddenMarkovModel(emission="gaussian")
        without.fit([X[i] for i in rest], [y[i] for i in rest])
        first = without.log_likelihood([X[i][:1] for i in fold]).sum()
        surprise -= [first, without.log_likelihood([X[i] for i in fold]).sum() - first]
        steps += [len(fold), sum(len(X[i]) - 1 for i in fold)]
    x = X[0]
    usual = surprise[0] / steps[0] + (len(x) - 1) * surprise[1] / steps[1]
    wanted = (-model.log_likelihood([x])[0] - usual) / np.sqrt(len(x))
    assert_allclose(model.outlier_score([x]), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "heavy"),
    [
        (True, False),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in product([True, False], repeat=2)
            if one != (True, False)
        ),
    ],
)
def test_five_in_a_hundred_fresh_sequences_are_at_or_under_five_percent(labels, heavy):
    shares, lengths = [], []
    for seed in range(8):
        X, y = drawn(150, seed, heavy=heavy)
        model = HiddenMarkovModel(2, emission="gaussian", random_state=0)
        model = model.fit(X, y if labels else None)
        new = drawn(600, 100 + seed, heavy=heavy)[0]
        strange = model.outlier_p_value(new) <= 0.05
        long = np.array([len(x) > 15 for x in new])
        shares.append(strange.mean())
        lengths.append([strange[~long].mean(), strange[long].mean()])
    # 150 held-out sequences put a deviation of .018 on each of eight.
    assert 0.03 < np.mean(shares) < 0.07
    short, long = np.mean(lengths, axis=0)
    assert min(short, long) > 0.015
    assert max(short, long) < 0.1


def test_sequences_whose_steps_stray_together_are_no_stranger_for_their_length():
    """Each has a level of its own, as a speaker has: deviations grow as T, not as its root."""
    shares = []
    for seed in range(4):
        sets = []
        for n, own in ((300, seed), (500, 100 + seed)):
            rng = np.random.default_rng(own)
            lengths = rng.choice([3, 60], size=n)
            X, y = CHAIN.sample(lengths.tolist(), random_state=rng)
            sets.append(([x + 3.0 * rng.normal() for x in X], y, lengths))
        (X, y, _), (new, _, lengths) = sets
        model = HiddenMarkovModel(emission="gaussian").fit(X, y)
        strange = model.outlier_p_value(new) <= 0.05
        shares.append([strange[lengths == 3].mean(), strange[lengths == 60].mean()])
        assert model._seen.described.alike[0] > 0.0
    short, long = np.mean(shares, axis=0)
    # By the root of the steps alone it is 0.3 and 8 %.
    assert 0.02 < short < 0.08
    assert 0.02 < long < 0.07


def test_sequences_of_another_chain_are_strange_and_lengths_are_not():
    X, y = drawn(200, 0)
    model = HiddenMarkovModel(emission="gaussian", model_end=True).fit(X, y)
    # The same steps one by one, in a chain that changes its state at nearly every step.
    assert np.mean(model.outlier_p_value(OTHER.sample([30] * 100, random_state=1)[0]) <= 0.05) > 0.5
    for length in (1, 300):
        new = CHAIN.sample([length] * 300, random_state=2)[0]
        assert 0.01 < np.mean(model.outlier_p_value(new) <= 0.05) < 0.12


def test_the_density_is_that_of_the_generative_end_at_every_tradeoff():
    X, y = drawn(40, 0)
    wanted = HiddenMarkovModel(emission="gaussian").fit(X, y)
    for tradeoff in (0.0, 0.5):
        model = HiddenMarkovModel(emission="gaussian", tradeoff=tradeoff).fit(X, y)
        assert_allclose(model.outlier_score(X), wanted.outlier_score(X), rtol=1e-9)
        assert_array_equal(model.outlier_p_value(X), wanted.outlier_p_value(X))


def test_copies_arrays_and_later_writing_change_nothing():
    X, y = drawn(60, 0)
    flat, codes, lengths = np.concatenate(X), np.concatenate(y), [len(x) for x in X]
    new = flat.copy()
    given = flat.copy()
    model = HiddenMarkovModel(emission="gaussian").fit(given, codes, lengths)
    untouched = copy.deepcopy(model).outlier_p_value(new, lengths)
    given[:] = 7.0
    found = model.outlier_p_value(new, lengths)
    assert_array_equal(found, untouched)
    assert_array_equal(found, model.outlier_p_value(X))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.outlier_score(X), model.outlier_score(X))
    assert_array_equal(again.outlier_p_value(X), found)
    assert len(pickle.dumps(again)) < 60_000


def test_what_cannot_be_is_strangest():
    X = [["a", "b"] * 5, ["b", "a"] * 5] * 20
    y = [["A", "B"] * 5, ["B", "A"] * 5] * 20
    model = HiddenMarkovModel(alpha=0).fit(X, y)
    assert_allclose(model.outlier_score([["a", "b"], ["a", "a"]]), [0.0, np.inf], atol=0.05)
    assert_allclose(model.outlier_p_value([["a", "a"]]), 1 / 41, rtol=1e-12)


def test_too_few_sequences_and_given_parameters_are_refused():
    X, y = drawn(19, 0)
    few = HiddenMarkovModel(emission="gaussian").fit(X, y)
    for model, message in (
        (few, "^outlier_score: expected a fit to at least 20 sequences, .* got 19;"),
        (pickle.loads(pickle.dumps(few)), "^outlier_score: expected a fit to at least 20 seq"),
        (CHAIN, "^outlier_score: expected a model that was fitted to sequences"),
    ):
        for method in (model.outlier_score, model.outlier_p_value):
            with pytest.raises(DataError, match=message):
                method(X)


@pytest.mark.parametrize("far", [1e160, -1e200, 1e300])
def test_what_is_farther_than_numbers_can_tell_is_the_strangest(far):
    X, y = drawn(60, 0)
    model = HiddenMarkovModel(emission="gaussian").fit(X, y)
    odd = [X[0], np.where(np.arange(len(X[1]))[:, None] == 0, far, X[1])]
    assert_array_equal(model.outlier_score(odd)[1], np.inf)
    assert_allclose(model.outlier_p_value(odd)[1], 1 / 61)
    assert_allclose(model.outlier_score(odd)[0], model.outlier_score(X)[0])
    conditional = HiddenMarkovModel(emission="gaussian", tradeoff=0).fit(X, y)
    for fit in (model, conditional):
        for asked in (fit.predict, fit.predict_proba):
            with pytest.raises(DataError, match=r"^X: expected "):
                asked(odd)
