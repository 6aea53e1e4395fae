from __future__ import annotations

import numpy as np
import pytest

from crossfade.evaluation.crossing import find_crossing, gain_per_doubling
from crossfade.evaluation.result import LearningCurve

SIZES = (10, 20, 40, 80, 160)


def _curves(crossing: float, noise: float, n_splits: int = 12, seed: int = 0):
    """Return a flat curve, and one that is linear in log size and meets it at `crossing`."""
    rng = np.random.default_rng(seed)
    flat = 0.3 + rng.normal(scale=noise, size=(n_splits, len(SIZES)))
    falling = 0.3 - 0.1 * np.log(np.array(SIZES) / crossing)
    return flat, falling + rng.normal(scale=noise, size=(n_splits, len(SIZES)))


@pytest.mark.parametrize("crossing", [10.5, 33.0, 79.0, 155.0])
def test_a_crossing_of_exact_curves_is_found(crossing):
    found = find_crossing(*_curves(crossing, 0.0), SIZES, 0.25, 0)
    assert found.status == "crossed"
    np.testing.assert_allclose([found.size, found.low, found.high], crossing)


def test_no_crossing_is_a_result():
    found = find_crossing(*_curves(500.0, 0.0), SIZES, 0.25, 0)
    assert (found.status, found.size, found.low, found.high) == ("not seen", None, None, None)
    assert (found.smallest, found.largest) == (10, 160)


def test_ahead_from_the_start_is_a_result():
    found = find_crossing(*_curves(5.0, 0.0), SIZES, 0.25, 0)
    assert (found.status, found.size, found.low, found.high) == ("before", None, None, None)


@pytest.mark.parametrize("seed", range(4))
def test_what_only_rounding_tells_apart_is_level(seed):
    """The same scores, summed in another order: none of the two is ahead at any size."""
    terms = np.random.default_rng(seed).random((6, len(SIZES), 30))
    same, again = terms.mean(axis=2), terms[:, :, ::-1].cumsum(axis=2)[:, :, -1] / 30
    assert (same != again).any()
    found = find_crossing(same, again, SIZES, 0.25, 0)
    assert (found.status, found.size, found.low, found.high) == ("level", None, None, None)
    again[:, 2] += 1e-3
    assert find_crossing(same, again, SIZES, 0.25, 0).status == "caught up"
    assert find_crossing(again, same, SIZES, 0.25, 0).status == "before"


@pytest.mark.parametrize("ends", [(0.0, 0.0), (0.0, -0.1), (-0.1, 0.0)])
def test_who_ends_level_has_overtaken_only_where_he_was_ahead(ends):
    """Both err at no row from 80 rows on, or one of the two sizes tells them apart."""
    generative = np.tile([0.2, 0.2, 0.1, 0.1, 0.1], (3, 1))
    gap = np.array([0.2, 0.1, 0.1, *ends])
    found = find_crossing(generative, generative + gap, SIZES, 0.25, 0)
    assert found.status == ("crossed" if min(ends) < 0 else "caught up")
    assert 40 < found.size <= 80


def test_the_last_crossing_counts():
    flat = np.zeros((2, 5))
    wavy = np.tile([0.1, -0.1, 0.1, -0.1, -0.1], (2, 1))
    found = find_crossing(flat, wavy, SIZES, 0.25, 0)
    np.testing.assert_allclose(found.size, np.sqrt(40 * 80))


def test_the_interval_holds_the_crossing_and_narrows_with_less_noise():
    rough = find_crossing(*_curves(33.0, 0.05), SIZES, 0.25, 0)
    fine = find_crossing(*_curves(33.0, 0.005), SIZES, 0.25, 0)
    for found in (rough, fine):
        assert found.low < found.size < found.high
        assert found.low < 33.0 < found.high
    assert fine.high - fine.low < 0.3 * (rough.high - rough.low)


def test_one_split_has_a_crossing_and_no_interval():
    found = find_crossing(*_curves(33.0, 0.0, n_splits=1), SIZES, 0.25, 0)
    assert (found.status, round(found.size), found.low, found.high) == ("crossed", 33, None, None)


@pytest.mark.parametrize(("n_splits", "noise"), [(20, 0.02), (4, 0.01), (2, 0.01), (2, 0.0005)])
def test_the_interval_covers_as_it_claims(n_splits, noise):
    # Fresh independent splits each time, which is what their spread can know.
    found = [
        find_crossing(*_curves(33.0, noise, n_splits, seed), SIZES, 0.0, seed)
        for seed in range(150)
    ]
    covered = [(one.low or 0.0) < 33.0 < (one.high or np.inf) for one in found]
    assert 0.9 < np.mean(covered) <= 1.0
    if n_splits > 2:
        assert np.mean([one.low is not None and one.high is not None for one in found]) > 0.9


def test_swapping_the_curves_turns_early_into_late():
    generative, discriminative = _curves(5.0, 0.0)
    assert find_crossing(discriminative, generative, SIZES, 0.25, 0).status == "not seen"


def test_slope_of_a_straight_curve():
    scores = np.array([[0.5 - 0.03 * np.log2(m) for m in SIZES]] * 5)
    gain = gain_per_doubling(scores, SIZES, 0.25)
    np.testing.assert_allclose([gain.mean, gain.low, gain.high], -0.03)
    assert gain_per_doubling(scores[:, :1], SIZES[:1], 0.25) is None


def test_no_slope_promises_less_than_nothing():
    steep = np.array([[2.0, 1.0, 0.6, 0.3, 0.1], [2.2, 1.3, 0.8, 0.2, 0.3]])
    gain = gain_per_doubling(steep, SIZES, 0.25)
    np.testing.assert_allclose([gain.mean, gain.low], [-0.175, -0.2])


def test_slope_is_that_of_least_squares_on_the_last_three_sizes():
    scores = np.random.default_rng(0).normal(9.0, size=(6, len(SIZES)))
    gain = gain_per_doubling(scores, SIZES, 0.25)
    slopes = [np.polyfit(np.log2(SIZES[-3:]), row[-3:], 1)[0] for row in scores]
    np.testing.assert_allclose(gain.mean, np.mean(slopes))


def test_sizes_at_which_a_model_failed_are_left_out():
    whole = np.zeros((2, 3))
    broken = np.array([[np.nan, 1.0, 2.0], [1.0, 1.0, 2.0]])
    scores = {"a": {"error": whole}, "b": {"error": broken}}
    curve = LearningCurve(("a", "b"), (5, 10, 20), scores, 20, 10, 0)
    sizes, (a, b) = curve.usable(["a", "b"], "error")
    assert sizes == (10, 20)
    np.testing.assert_array_equal(b, [[1.0, 2.0], [1.0, 2.0]])
    assert a.shape == (2, 2)


def test_the_interval_holds_the_crossing_whatever_the_gaps():
    """Gaps of two splits' errors, which are shares of a few rows."""
    rng = np.random.default_rng(0)
    outside = 0
    for _ in range(300):
        first, second = rng.integers(0, 8, size=(2, 2, len(SIZES))) / 20
        found = find_crossing(first, second, SIZES, 0.25, 0)
        if found.size is not None:
            low = -np.inf if found.low is None else found.low
            high = np.inf if found.high is None else found.high
            outside += not low <= found.size <= high
    assert outside == 0
