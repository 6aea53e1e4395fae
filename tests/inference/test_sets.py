"""Prediction sets: against the definition, and against how often they hold the truth."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from crossfade import DataError, GaussianDiscriminant, NaiveBayes
from crossfade.inference import HeldOut
from crossfade.inference.sets import least_probabilities


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


def test_a_given_tradeoff_has_no_rows_left_out_and_says_so():
    X, y = np.arange(20.0)[:, None], np.repeat([0, 1], 10)
    with pytest.raises(DataError, match="'auto' or 'best'"):
        NaiveBayes(tradeoff=1.0).fit(X, y).predict_set(X)
    with pytest.raises(DataError, match="coverage"):
        NaiveBayes().fit(X, y).predict_set(X, 1.5)
