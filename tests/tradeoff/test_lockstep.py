"""Fits minimised side by side are those that each would be alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.densities import Gaussian
from crossfade.tradeoff import lockstep, out_of_fold
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.lockstep import in_lockstep
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise
from tests.tradeoff.cases import DENSITIES, make, start

CASES = [(False, False), (True, False), (True, True)]


def _stacked(name, k, missing, weighted, tradeoffs):
    """Return functions of other rows each, of unlike numbers."""
    settings = zip(tradeoffs, (0.3, 2.0, 9.0), (60, 75, 90), strict=True)
    return [
        make(name, k, tradeoff=at, l2=l2, missing=missing, weighted=weighted, n=n, seed=seed)
        for seed, (at, l2, n) in enumerate(settings)
    ]


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("missing", "weighted"), CASES)
@pytest.mark.parametrize("tradeoffs", [(0.9, 0.5, 0.1), (0.0, 0.0, 0.0)])
def test_values_slopes_and_curvatures_are_each_functions_own(name, k, missing, weighted, tradeoffs):
    if missing and not DENSITIES[name][0]().allows_missing:
        pytest.skip("the density takes no missing cells")
    given = _stacked(name, k, missing, weighted, tradeoffs)
    alone = given if tradeoffs[0] else [one.without_tied() for one in given]
    stack = lockstep._Stack(given)
    theta = np.stack([start(one)[: stack.size] for one in given])
    seen = stack.at(theta, np.arange(3))
    for some in (np.ones(3, dtype=bool), np.array([False, True, True])):
        part = seen.some(some)
        for g, H in zip(part.number, stack.curvature(part), strict=True):
            value, gradient = alone[g].value_and_gradient(theta[g])
            assert_allclose(seen.value[g], value, rtol=1e-12)
            assert_allclose(seen.gradient[g], gradient, atol=1e-11 * np.abs(gradient).max())
            expected = alone[g].curvature(theta[g])
            assert_allclose(H, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["gaussian", "shared gaussian", "product", "multivariate full"])
@pytest.mark.parametrize(("missing", "weighted"), CASES)
def test_minima_are_those_that_each_is_led_to_alone(name, missing, weighted):
    if missing and not DENSITIES[name][0]().allows_missing:
        pytest.skip("the density takes no missing cells")
    given = _stacked(name, 3, missing, weighted, (0.9, 0.5, 0.1))
    given += _stacked(name, 3, missing, weighted, (0.0, 0.0, 0.0))
    starts = [cold_start(one) for one in given]
    found = in_lockstep(given, starts, tol=1e-9, enough=0.0)
    assert sum(one is not None for one in found) >= 5  # one that strays is searched for alone
    for one, mine in zip(given, found, strict=True):
        if mine is not None:
            assert mine.theta.size == one.n_parameters
            _, gradient = one.value_and_gradient(mine.theta)
            assert np.abs(gradient).max() <= 1e-9 * one.n_rows
            if not missing:  # convex
                assert_allclose(mine.value, minimise(one, cold_start(one)).value, rtol=1e-9)


def test_what_cannot_go_in_lockstep_is_left_alone():
    one, other = _stacked("gaussian", 2, False, False, (0.5, 0.5, 0.5))[:2]
    good = cold_start(one)
    outside = np.full(good.size, 1e3)  # no such variance
    gone = np.full(good.size, np.nan)
    starts = [good, outside, gone, good[:-1]]
    found = in_lockstep([one, other, one, one], starts, tol=1e-6, enough=0.0)
    assert found[0] is not None
    assert found[1:] == [None, None, None]


def test_a_column_that_never_varies_in_one_fold_alone_does_not_mislead():
    given = _stacked("gaussian", 2, False, False, (0.5, 0.5, 0.5))[:2]
    rows = given[1].rows
    X = rows.X.copy()
    X[:, 1] = 4.0
    still = replace(rows, X=X)
    given[1] = TradeoffObjective.of(still, bind(Gaussian(), still), 0.5, 1.0)
    found = in_lockstep(given, [cold_start(one) for one in given], tol=1e-8, enough=0.0)
    for one, mine in zip(given, found, strict=True):
        if mine is not None:
            assert_allclose(mine.value, minimise(one, cold_start(one)).value, rtol=1e-9)
    assert found[0] is not None


@pytest.mark.parametrize("model", [NaiveBayes(), GaussianDiscriminant("shared")])
def test_choices_are_those_of_fits_one_after_the_other(model, monkeypatch):
    X, y = load_wine(return_X_y=True)
    X = X[::2, :5].copy()
    X[::7, 1] = np.nan
    together = model.fit(X, y[::2]).predict_proba(X)
    for module in (lockstep, out_of_fold):
        monkeypatch.setattr(module, "goes_in_lockstep", lambda objective: False)
    alone = model.fit(X, y[::2]).predict_proba(X)
    assert_allclose(together, alone, atol=2e-3)
    assert (together != alone).any()
