"""Efron's efficiency by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.blocks import threads
from reproduction import Settings, efficiency


def test_excess_error_is_that_of_many_rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=400_000)
    X = rng.normal(size=(codes.size, 2))
    X[:, 0] += np.where(codes == 1, 0.75, -0.75)
    slopes, intercept = np.array([1.0, 0.5]), -0.3
    wrong = ((X @ slopes + intercept > 0) != (codes == 1)).mean()
    best = ((X[:, 0] > 0) != (codes == 1)).mean()
    assert efficiency.excess_error(slopes, intercept, 1.5) == pytest.approx(wrong - best, abs=2e-3)


def test_the_ratio_and_its_error():
    rng = np.random.default_rng(0)
    pairs = rng.exponential(size=(400, 500, 2)) * [1.0, 2.0]
    found = [efficiency._ratio(one[:, 0], one[:, 1]) for one in pairs]
    ratios, errors = np.array(found).T
    assert ratios.mean() == pytest.approx(0.5, abs=0.005)
    assert errors.mean() == pytest.approx(ratios.std(), rel=0.1)


@pytest.mark.slow
def test_simulation_agrees_with_theory(monkeypatch):
    monkeypatch.setattr(efficiency, "DISTANCES", (1.0, 2.5))
    with threads(1):
        outcome = efficiency.run(Settings(30))
    for distance, n, theory, ours, error in outcome.records:
        assert n > 4 * efficiency._INFORMATION
        assert theory == pytest.approx({1.0: 0.995, 2.5: 0.786}[distance], abs=5e-4)
        assert abs(ours - theory) < 4.0 * error
        assert 0.0 < error < 0.2
