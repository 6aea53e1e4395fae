"""Prediction sets: against the definition, and against how often they hold the truth."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_iris

from crossfade import DataError, GaussianDiscriminant, NaiveBayes
from crossfade.densities import Multinomial
from crossfade.inference import HeldOut
from crossfade.inference.sets import least_probabilities
from crossfade.io import load_model, save_model
from crossfade.tradeoff import influence, unseen
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows


def held_out(own, weights=None, codes=None):
    """Return a record of rows whose own classes have these probabilities."""
    own = np.asarray(own, dtype=float)
    codes = np.zeros(own.size, dtype=int) if codes is None else np.asarray(codes)
    posterior = np.where(np.arange(2) == codes[:, None], own[:, None], 1 - own[:, None])
    return HeldOut.of(np.log(posterior), codes, weights)


def brute_force(own, coverage, n_rows=None):
    """Return the largest value that leaves n + 1 rows, the worst new one among them, covered."""
    n = len(own)
    allowed = [v for v in own if np.sum(own < v) + 1 <= (1 - coverage) * (n + 1) + 1e-9]
    value = max(allowed, default=0.0)
    chance = np.sqrt(value * (1 - value) / (n_rows or n))
    return max(value - chance, 0.0) if np.mean(np.abs(own - value) <= chance) > 0.5 else value


@pytest.mark.parametrize("n", [1, 5, 19, 20, 57, 200])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
def test_the_least_probability_is_the_quantile_with_the_row_to_come(n, coverage):
    own = np.random.default_rng(n).uniform(0.05, 0.95, n)
    least = least_probabilities(held_out(own), coverage, by_class=False)
    np.testing.assert_allclose(least, brute_force(own, coverage), rtol=1e-12)


def test_weights_are_repetitions_but_for_the_one_row_to_come():
    own = np.random.default_rng(0).uniform(0.05, 0.95, 400)
    weights = np.tile([1.0, 3.0], 200)
    weighted = least_probabilities(held_out(own, weights), 0.9, by_class=False)
    repeated = least_probabilities(
        held_out(np.repeat(own, weights.astype(int))), 0.9, by_class=False
    )
    assert np.abs(weighted - repeated).max() < 0.01


def test_each_class_has_its_own_quantile():
    rng = np.random.default_rng(1)
    own, codes = rng.uniform(0.05, 0.95, 300), rng.integers(2, size=300)
    least = least_probabilities(held_out(own, codes=codes), 0.8, by_class=True)
    for code in range(2):
        np.testing.assert_allclose(
            least[code], brute_force(own[codes == code], 0.8, 300), rtol=1e-12
        )
    nobody = least_probabilities(held_out(own[:3], codes=[0, 0, 0]), 0.8, by_class=True)
    assert_array_equal(nobody, 0.0)  # too few rows: every class is in


@pytest.mark.parametrize(
    ("make", "by_class"),
    [
        (NaiveBayes, True),
        pytest.param(partial(GaussianDiscriminant, "full"), False, marks=pytest.mark.slow),
    ],
)
def test_sets_hold_the_truth_as_often_as_they_say_though_the_model_is_wrong(make, by_class):
    rng = np.random.default_rng(2)

    def drawn(n):
        y = (rng.random(n) < 0.3).astype(int)
        angle = rng.uniform(0, 2 * np.pi, n)
        radius = 1.0 + y + rng.normal(scale=0.4, size=n)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y

    covered = []
    for _ in range(8):
        model = make().fit(*drawn(400))
        X, y = drawn(1_500)
        sets = model.predict_set(X, 0.9, by_class=by_class)
        held = sets[np.arange(len(y)), y]
        covered.append([held[y == c].mean() for c in (0, 1)] if by_class else [held.mean()])
    # 400 rows put a deviation of .015 on each, by class .03 on the rarer one.
    assert np.abs(np.mean(covered, axis=0) - 0.9).max() < 0.025


def test_a_model_that_knows_nothing_covers_all_the_same():
    # All rows have nearly the class shares as probabilities: what folds differ by decides nothing.
    rng = np.random.default_rng(3)
    for seed in range(3):
        X, y = rng.normal(size=(300, 1)), (rng.random(300) < 0.3).astype(int)
        sets = NaiveBayes(selection="brier").fit(X, y).predict_set(X, 0.9, by_class=True)
        assert min(sets[y == c, c].mean() for c in (0, 1)) > 0.85, seed


def test_sets_of_an_adapted_model_hold_for_the_shares_it_was_adapted_to():
    # Podkopaev & Ramdas (2021): rows count by how much more of their class there is.
    rng = np.random.default_rng(4)

    def drawn(n, share):
        y = (rng.random(n) < share).astype(int)
        return rng.normal(size=(n, 2)) * [1.0, 1.0] + 1.5 * y[:, None] * [1.0, 0.2], y

    covered = []
    for _ in range(6):
        model = NaiveBayes().fit(*drawn(500, 0.5))
        X, y = drawn(3_000, 0.9)
        for one in (model, model.with_class_prior([0.1, 0.9])):
            covered.append(one.predict_set(X, 0.9)[np.arange(len(y)), y].mean())
    before, after = np.mean(np.reshape(covered, (6, 2)), axis=0)
    assert abs(after - 0.9) < 0.02
    assert abs(after - 0.9) < abs(before - 0.9) + 0.01


GIVEN = {
    "naive Bayes": (NaiveBayes, (1.0, 0.5, 0.0)),
    "other shares": (partial(NaiveBayes, class_prior=[0.7, 0.2, 0.1]), (1.0, 0.0)),
    "derived": (partial(NaiveBayes, thresholds={2: [3.0]}), (0.5,)),
    "full": (partial(GaussianDiscriminant, "full"), (0.5,)),
    "mixture": (partial(GaussianDiscriminant, components=2, n_init=1), (1.0,)),
    "unlabelled": (partial(NaiveBayes, unlabelled=-1, unlabelled_weight=0.5), (1.0, 0.5)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_at_a_given_tradeoff_rows_left_out_have_the_posteriors_of_refits(name):
    make, tradeoffs = GIVEN[name]
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    if name != "mixture":
        X[5, 1] = np.nan
    labelled = np.ones(len(y), bool)
    if name == "unlabelled":
        labelled[::4] = False
    given = np.where(labelled, y, -1)
    some, rest = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    for tradeoff in tradeoffs:
        model = make(tradeoff=tradeoff).fit(X, given)
        left_out = model._left_out()
        fold = folds(LabelledRows(X[some], y[some], None, 3), 5)
        assert_array_equal(left_out.codes, y[some])
        for number in range(5):
            held = np.flatnonzero(fold == number)
            train = np.concatenate([some[fold != number], rest])
            refitted = make(tradeoff=tradeoff).fit(X[train], given[train])
            wanted = refitted.predict_log_proba(X[some[held]])
            np.testing.assert_allclose(left_out.in_use()[0][held], wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize("density", [Multinomial(), Multinomial(complement=True)])
def test_rows_of_words_are_left_out_too(density):
    rng = np.random.default_rng(5)
    y = np.tile([0, 1], 40)
    X = rng.poisson(np.where(y[:, None] == 1, [3, 1, 1, 2], [1, 3, 1, 2]))
    model = NaiveBayes(density, tradeoff=1).fit(csr_array(X), y)
    left_out, own = model._left_out(), model._unseen
    fold = folds(own.rows, 5)
    held = np.flatnonzero(fold == 0)
    wanted = NaiveBayes(density, tradeoff=1).fit(csr_array(X)[fold != 0], y[fold != 0])
    found = left_out.log_posterior[np.flatnonzero(fold[fold >= 0] == 0)]
    np.testing.assert_allclose(found, wanted.predict_log_proba(csr_array(X)[held]), atol=1e-9)


def test_groups_are_left_out_whole_at_a_given_tradeoff():
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(15), 6)
    y = np.tile([0, 1], 45)
    X = rng.normal(size=(90, 2)) + y[:, None] + rng.normal(size=(15, 1))[groups]
    left_out = NaiveBayes(tradeoff=0.5).fit(X, y, groups=groups)._left_out()
    fold = folds(LabelledRows(X, y, None, 2), 5, groups)
    held = fold == 2
    refitted = NaiveBayes(tradeoff=0.5).fit(X[~held], y[~held])
    wanted = refitted.predict_log_proba(X[held])
    np.testing.assert_allclose(left_out.log_posterior[held], wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("tradeoff", [1.0, 0.3, 0.0])
def test_sets_at_a_given_tradeoff_hold_the_truth_as_often_as_they_say(tradeoff, monkeypatch):
    rng = np.random.default_rng(7)
    monkeypatch.setattr(influence, "_MOST_CELLS", 1_000)  # of larger tables a part is kept
    monkeypatch.setattr(unseen, "MOST_ROWS", 300)
    monkeypatch.setattr(unseen, "_ROWS_OF_A_PARAMETER", 1)

    def drawn(n):
        y = (rng.random(n) < 0.3).astype(int)
        x = rng.normal(size=n) + y
        return np.column_stack([x, x + 0.1 * rng.normal(size=n)]), y  # twice the same

    covered = []
    for n in (400, 400, 400, 400, 600, 600):
        model = NaiveBayes(tradeoff=tradeoff).fit(*drawn(n))
        kept = model._unseen.rows.n_samples
        assert kept == 400 if n == 400 else 200 < kept <= 300
        assert bool(model._fitted.evidence.rows.n_samples) == (n == 400)
        X, y = drawn(2_000)
        covered.append(model.predict_set(X, 0.9)[np.arange(len(y)), y].mean())
    assert abs(np.mean(covered) - 0.9) < 0.02


def test_many_parameters_have_rows_enough_for_sets_that_cover_what_they_are_to(monkeypatch):
    monkeypatch.setattr(influence, "_MOST_CELLS", 100)
    monkeypatch.setattr(unseen, "MOST_ROWS", 500)
    rng = np.random.default_rng(11)
    y = rng.integers(2, size=26_000)
    X = rng.normal(size=(26_000, 16)) + 0.15 * y[:, None]
    model = GaussianDiscriminant("full", tradeoff=1).fit(X[:6_000], y[:6_000])
    assert model._unseen.rows.n_samples == 6_000
    covered = model.predict_set(X[6_000:], 0.9)[np.arange(20_000), y[6_000:]]
    assert abs(covered.mean() - 0.9) < 0.015  # by fits to 500 rows it is .99
    monkeypatch.setattr(unseen, "_MOST_CELLS", 2_000 * 16)
    assert model.fit(X[:6_000], y[:6_000])._unseen.rows.n_samples <= 2_001


@pytest.mark.parametrize("tradeoff", ["auto", 1.0])
def test_sets_are_for_rows_as_they_come_whatever_a_class_counts(tradeoff):
    rng = np.random.default_rng(10)
    y = (rng.random(6_000) < 0.2).astype(int)
    X = rng.normal(size=(6_000, 2)) + y[:, None]
    of_fit = slice(0, 1_000)
    model = NaiveBayes(tradeoff=tradeoff, class_weight="balanced").fit(X[of_fit], y[of_fit])
    covered = model.predict_set(X[1_000:], 0.9)[np.arange(5_000), y[1_000:]]
    assert abs(covered.mean() - 0.9) < 0.02
    # For shares that are given, rows count by how much more of their class there is.
    covered = model.with_class_prior([0.5, 0.5]).predict_set(X[1_000:], 0.9)
    covered = covered[np.arange(5_000), y[1_000:]]
    assert abs(np.mean([covered[y[1_000:] == c].mean() for c in (0, 1)]) - 0.9) < 0.025


def test_what_a_fit_is_given_may_be_written_over():
    X, y = np.random.default_rng(8).normal(size=(60, 2)), np.tile([0, 1], 30)
    X += y[:, None]
    first, second = (NaiveBayes(tradeoff=t).fit(X, y) for t in (1, 1))
    wanted, rows = first.predict_set(X), X.copy()
    X[:] = 7.0
    second.set_params(density="poisson")
    assert_array_equal(second.predict_set(rows), wanted)


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_files_hold_rows_left_out_where_they_take_little_or_were_asked_for(
    tradeoff, tmp_path, monkeypatch
):
    X, y = np.random.default_rng(9).normal(size=(60, 2)), np.tile([0, 1], 30)
    model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    wanted = model.predict_set(X)
    monkeypatch.setattr("crossfade.tradeoff.influence._MOST_PARAMETERS", 2)
    fresh = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_set(X), wanted)
    save_model(model, tmp_path / "asked.skops")
    assert_array_equal(load_model(tmp_path / "asked.skops").estimator.predict_set(X), wanted)
    if tradeoff == 1:  # closed forms always take little
        assert_array_equal(pickle.loads(pickle.dumps(fresh)).predict_set(X), wanted)
        return
    with pytest.raises(DataError, match=r"asking for predict_set before, or by crossfade fit"):
        pickle.loads(pickle.dumps(fresh)).predict_set(X)
    monkeypatch.undo()
    assert_array_equal(pickle.loads(pickle.dumps(fresh)).predict_set(X), wanted)


def test_what_has_no_rows_left_out_says_so():
    X, y = np.arange(20.0)[:, None], np.repeat([0, 1], 10)
    batches = NaiveBayes(tradeoff=1.0).partial_fit(X, y)
    two = NaiveBayes(tradeoff=1.0).fit([[0.0], [1.0]], [0, 1])
    for model in (batches, two):
        with pytest.raises(DataError, match="expected a model with rows of fit that it can be"):
            model.predict_set(X)
    with pytest.raises(DataError, match="coverage"):
        NaiveBayes().fit(X, y).predict_set(X, 1.5)
