"""What more rows promise: laws that are known, and curves that promise nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crossfade import DataError, LearningCurve
from crossfade.evaluation.extrapolation import PowerLaw, extrapolate, fit_power_law

SIZES = np.array([10, 20, 40, 80, 160, 320, 640])


def curve(law: PowerLaw, noise: float, n_splits: int = 40, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shared = rng.normal(scale=noise, size=(n_splits, 1))
    return law.at(SIZES) + shared + rng.normal(scale=noise / 3, size=(n_splits, SIZES.size))


@pytest.mark.parametrize(
    "law", [PowerLaw(0.2, 0.8, 0.5), PowerLaw(0.0, 1.0, 0.3), PowerLaw(0.1, 3.0, 1.0)]
)
def test_an_exact_law_is_found_and_continued(law):
    found = fit_power_law(SIZES.astype(float), law.at(SIZES), np.ones(SIZES.size))
    np.testing.assert_allclose(found.at(2000), law.at(2000), atol=2e-3)
    assert found.size_for(float(found.at(500.0))) == pytest.approx(500.0)
    assert law.size_for(law.asymptote) == np.inf


def test_the_fit_is_the_least_squares_one_with_nothing_below_zero():
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    for _ in range(30):
        means, weights = rng.normal(0.3, 0.2, size=SIZES.size), rng.uniform(0.5, 2, SIZES.size)
        found = fit_power_law(SIZES.astype(float), means, weights)
        root = np.sqrt(weights)

        def misfit(exponent: float, means: np.ndarray = means, root: np.ndarray = root) -> float:
            falling = SIZES.astype(float) ** -exponent
            return nnls(np.column_stack([root, falling * root]), means * root)[1]

        own = float(np.linalg.norm((found.at(SIZES) - means) * root))
        assert own == pytest.approx(misfit(found.exponent), abs=1e-9)
        assert own <= min(misfit(c) for c in np.geomspace(0.05, 2.0, 60)) + 1e-9
        assert min(found.asymptote, found.scale) >= 0.0


def test_the_promise_of_a_noisy_law():
    law = PowerLaw(0.15, 1.0, 0.5)
    found = extrapolate("m", "error", curve(law, 0.01), SIZES, 1280)
    assert found.supported
    assert found.low < found.expected < found.high
    assert found.low < law.at(1280) < found.high
    assert found.gain == pytest.approx(law.at(640) - law.at(1280), abs=4e-3)
    # (1 / (s - .15))² rows reach s.
    exact = (1.0 / (law.at(640) - 0.01 - 0.15)) ** 2
    assert found.m_for_point_low < exact < found.m_for_point_high
    assert "at 1,280 rows the test error is expected to be 0.1" in found.statement
    assert f"{found.gain:.3f} lower than the smoothed curve at 640; one" in found.statement
    assert "one hundredth lower takes about" in found.statement


@pytest.mark.slow
def test_intervals_cover_about_as_often_as_they_claim():
    law = PowerLaw(0.15, 1.0, 0.5)
    covered = [
        found.low <= law.at(1280) <= found.high
        for seed in range(60)
        if (found := extrapolate("m", "error", curve(law, 0.01, seed=seed), SIZES, 1280)).supported
    ]
    assert len(covered) > 50
    assert np.mean(covered) > 0.8


def test_a_flat_curve_promises_nothing():
    flat = extrapolate("m", "error", curve(PowerLaw(0.3, 0.0, 1.0), 0.02), SIZES, 1280)
    assert not flat.supported
    assert (flat.expected, flat.gain, flat.m_for_point) == (None, None, None)
    assert "the data do not support an extrapolation of the test error" in flat.statement
    assert "does not fall by more than chance" in flat.statement


def test_a_curve_that_no_power_law_fits_promises_nothing():
    scores = np.tile([0.5, 0.5, 0.5, 0.5, 0.45, 0.1, 0.02], (20, 1))
    scores += np.random.default_rng(0).normal(scale=1e-3, size=scores.shape)
    found = extrapolate("m", "error", scores, SIZES, 1280)
    assert not found.supported
    assert "no power law fits the curve's end" in found.statement


@pytest.mark.parametrize(
    ("scores", "sizes", "m", "words"),
    [
        (np.zeros((9, 3)), [1, 2, 3], 5, "a curve of 3 sizes"),
        (np.zeros((2, 5)), [1, 2, 3, 4, 5], 9, "2 splits can give no uncertainty"),
        (np.zeros((1, 5)), [1, 2, 3, 4, 5], 9, "1 split can give no uncertainty"),
        (np.zeros((9, 5)), [1, 2, 3, 4, 5], 51, "51 rows is more than ten times the largest"),
    ],
)
def test_too_little_is_said_to_be_too_little(scores, sizes, m, words):
    assert words in extrapolate("m", "error", scores, sizes, m).statement


def learning(n_splits: int = 40) -> LearningCurve:
    names = ("slow", "fast")
    laws = (PowerLaw(0.1, 2.0, 0.5), PowerLaw(0.25, 0.8, 0.7))
    scores = {
        name: {
            metric: curve(law, 0.01, n_splits, seed) for metric in ("error", "log_loss", "brier")
        }
        for seed, (name, law) in enumerate(zip(names, laws, strict=True))
    }
    scores["slow"]["brier"][:] = np.nan
    return LearningCurve(names, tuple(SIZES.tolist()), scores, 640, 160, 0)


def test_a_learning_curve_tells_crossings_and_promises():
    found = learning()
    ((early, late),) = found.crossings()
    assert (early, late) == ("fast", "slow")
    crossing = found.crossings()[early, late]
    at = np.linspace(10, 640, 100_000)
    gap = (0.1 + 2.0 * at**-0.5) - (0.25 + 0.8 * at**-0.7)
    exact = at[np.argmax(gap < 0)]
    assert crossing.low < exact < crossing.high
    promises = found.extrapolate(1280)
    assert promises["slow"].supported
    json.dumps(promises["slow"].to_dict(), allow_nan=False)
    assert found.crossings("brier") == {}
    assert "a curve of 0 sizes" in found.extrapolate(1280, "brier")["slow"].statement


def test_differences_are_paired():
    found = learning()
    estimates = found.difference("slow", "fast")
    gap = found.scores["slow"]["error"] - found.scores["fast"]["error"]
    np.testing.assert_allclose([one.mean for one in estimates], gap.mean(axis=0))
    expected = gap.std(axis=0, ddof=1) * np.sqrt(1 / 40 + 160 / 640)
    np.testing.assert_allclose([one.standard_error for one in estimates], expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.crossings("auc"), "metric: expected 'error', 'log_loss' or 'brier'"),
        (lambda c: c.extrapolate(640), "m: expected a whole number above"),
        (lambda c: c.extrapolate(1000.5), "m: expected a whole number above"),
        (lambda c: c.difference("slow", "other"), "model: expected one of 'slow', 'fast'"),
    ],
)
def test_questions_that_make_no_sense_are_refused(call, words):
    with pytest.raises(DataError, match=words):
        call(learning())


def test_the_chart_holds_the_numbers_and_hostile_names():
    pytest.importorskip("altair")
    found = learning()
    hostile = "a.b['x'] <b>\"+alert(1)+\""
    renamed = LearningCurve(
        ("slow", hostile),
        found.sizes,
        {"slow": found.scores["slow"], hostile: found.scores["fast"]},
        640,
        160,
        0,
    )
    drawn = renamed.plot().to_dict()

    def values(layer: dict) -> list:
        data = layer.get("data", {})
        found = data.get("values", drawn.get("datasets", {}).get(data.get("name"), []))
        return json.loads(found) if isinstance(found, str) else found

    rows = values(drawn["layer"][-1])
    assert len(rows) == 14
    means = [row["mean"] for row in rows if row["model"] == hostile]
    np.testing.assert_allclose(means, found.scores["fast"]["error"].mean(axis=0))
    assert drawn["layer"][-1]["encoding"]["x"]["scale"]["type"] == "log"
    crossing = renamed.crossings()[hostile, "slow"]
    assert crossing.size in [
        value["size"] for layer in drawn["layer"] for value in values(layer) if "size" in value
    ]
    with pytest.raises(DataError, match="no model gives probabilities"):
        LearningCurve(("slow",), found.sizes, {"slow": found.scores["slow"]}, 640, 160, 0).plot(
            "brier"
        )
