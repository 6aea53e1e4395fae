from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss

from crossfade import LearningCurve
from crossfade.evaluation.scores import difference, estimate, score_predictions


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_scores_equal_scikit_learn(n_classes):
    rng = np.random.default_rng(n_classes)
    posterior = rng.dirichlet(np.full(n_classes, 0.5), size=200)
    truth = rng.integers(n_classes, size=200)
    predicted = posterior.argmax(axis=1)
    scores = score_predictions(predicted, posterior, truth)
    labels = list(range(n_classes))
    np.testing.assert_allclose(scores["log_loss"], log_loss(truth, posterior, labels=labels))
    one_hot = np.eye(n_classes)[truth]
    np.testing.assert_allclose(scores["brier"], np.mean(((posterior - one_hot) ** 2).sum(axis=1)))
    assert scores["error"] == np.mean(predicted != truth)
    if n_classes == 2:
        one_sided = brier_score_loss(truth, posterior[:, 1])
        np.testing.assert_allclose(scores["brier"], 2 * one_sided)


def test_a_probability_of_zero_costs_what_scikit_learn_says():
    posterior = np.array([[1.0, 0.0], [1.0, 0.0]])
    scores = score_predictions(np.array([0, 0]), posterior, np.array([0, 1]))
    np.testing.assert_allclose(scores["log_loss"], log_loss([0, 1], posterior))


def test_without_probabilities_only_the_error_is_known():
    scores = score_predictions(np.array([0, 1]), None, np.array([0, 0]))
    assert scores["error"] == 0.5
    assert np.isnan(scores["log_loss"])
    assert np.isnan(scores["brier"])


def test_estimate_is_the_t_interval_where_splits_share_nothing():
    values = np.random.default_rng(0).normal(size=12)
    found = estimate(values, 0.0)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], expected)
    np.testing.assert_allclose(found.standard_error, stats.sem(values))


def test_estimate_is_the_corrected_resampled_t():
    values = np.random.default_rng(1).normal(size=10)
    found = estimate(values, 0.25)
    corrected = np.sqrt((1 / 10 + 0.25) * values.var(ddof=1))
    np.testing.assert_allclose(found.standard_error, corrected)
    np.testing.assert_allclose(found.high - found.mean, stats.t.ppf(0.975, 9) * corrected)


def test_correction_gives_about_the_spread_over_fresh_data():
    # The error of "guess the majority" on repeated splits of one sample of n rows: its variance
    # over fresh samples is p(1-p)/n or so, far more than the naive s²/J.
    rng = np.random.default_rng(2)
    means, corrected, naive = [], [], []
    for _ in range(400):
        y = rng.random(100) < 0.3
        errors = np.array([y[rng.permutation(100)[:20]].mean() for _ in range(30)])
        means.append(errors.mean())
        corrected.append(estimate(errors, 0.25).standard_error)
        naive.append(estimate(errors, 0.0).standard_error)
    truth = np.std(means)
    assert 0.8 < np.mean(corrected) / truth < 1.25
    assert np.mean(naive) / truth < 0.5


def test_difference_is_paired():
    rng = np.random.default_rng(3)
    shared = rng.normal(size=20)
    gap = difference(shared + 0.1, shared, 0.25)
    np.testing.assert_allclose([gap.low, gap.high], [0.1, 0.1])
    assert gap.excludes_zero
    assert not difference(shared, shared, 0.25).excludes_zero


def test_small_training_sets_are_corrected_for_shared_test_rows_too():
    # Splits of 100 rows, 20 for testing, and a model trained on 10 of the other 80: the spread of
    # its mean error over fresh samples is known from drawing them. n_test/m would overstate it.
    rng = np.random.default_rng(4)
    n, n_test, m, n_splits = 100, 20, 10, 15
    means, corrected, by_size = [], [], []
    for _ in range(200):
        y = rng.integers(0, 2, size=n)
        x = rng.normal(size=n) + y
        errors = np.empty((n_splits, 1))
        for split in errors:
            rows = rng.permutation(n)
            test, train = rows[:n_test], rows[n_test : n_test + m]
            split[0] = np.mean((x[test] > x[train].mean()) != y[test])
        unknown = np.full_like(errors, np.nan)
        scores = {"mean": {"error": errors, "log_loss": unknown, "brier": unknown}}
        curve = LearningCurve(("mean",), (m,), scores, n - n_test, n_test, random_state=0)
        (at,) = curve.summary()["mean"]
        means.append(at.mean)
        corrected.append(at.standard_error)
        by_size.append(estimate(errors[:, 0], n_test / m).standard_error)
    truth = np.std(means)
    assert 0.8 < np.mean(corrected) / truth < 1.4
    assert np.mean(by_size) / truth > 2.5


@pytest.mark.parametrize("n_splits", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("at", [0.0, 0.1 + 0.2, -1e6])
def test_a_few_equal_values_are_no_certainty(n_splits, at):
    """The share of wrong rows among ten is easily the same on two splits."""
    values = np.full(n_splits, at)
    values[::2] *= 1.0 + 1e-15  # equal but for rounding
    found = estimate(values, 0.25)
    assert found.mean == pytest.approx(at)
    around = [found.standard_error, found.low - at, found.high - at]
    if n_splits < 5:
        assert np.isnan(around).all()
        assert not found.excludes_zero
    else:
        np.testing.assert_allclose(around, 0.0, atol=1e-8)
