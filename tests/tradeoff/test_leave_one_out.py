"""Approximate leave-one-out against refits without the row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from crossfade.densities import Gaussian, MultivariateGaussian
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.criteria import losses
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.leave_one_out import approximate_leave_one_out
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise
from tests.tradeoff.cases import DENSITIES, make

SETS = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def rows_of(name, columns, every=1):
    X, y = SETS[name](return_X_y=True)
    X = np.ascontiguousarray(X[::every, columns])
    return LabelledRows(X, y[::every].astype(np.int64), None, int(y.max()) + 1)


def without(rows, i):
    return rows.take(np.delete(np.arange(rows.n_samples), i))


def refitted_scores(density, rows, objective, which):
    """Return some rows' scores by the fit without each, standardisation and all made anew."""
    scores = np.zeros((len(which), rows.n_classes))
    for place, i in enumerate(which):
        part = without(rows, i)
        own = TradeoffObjective.of(part, bind(density, part), objective.tradeoff, objective.l2)
        fit = minimise(own, cold_start(own))
        own_rows = rows.take(np.array([i]))
        parameters = own.parameters(fit.theta)
        eta = parameters.natural
        scores[place] = own.density.scores(own_rows.X, eta)[0] + parameters.offset
    return scores


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, 0.0])
@pytest.mark.parametrize(
    ("name", "columns", "every", "step", "density"),
    [
        ("iris", [0, 1], 1, 5, MultivariateGaussian("shared_full")),
        ("wine", [0, 2, 3], 1, 3, Gaussian()),
        pytest.param(
            *("breast cancer", [1, 4, 8], 3, 1, MultivariateGaussian("full")),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["iris", "wine", "breast cancer"],
)
def test_mean_losses_equal_refits(name, columns, every, step, density, tradeoff):
    """Ten rows and more a parameter, where the selection relies on it: within 2 %."""
    rows = rows_of(name, columns, every)
    objective = TradeoffObjective.of(rows, bind(density, rows), tradeoff, 1.0)
    fit = minimise(objective, cold_start(objective))
    left_out = approximate_leave_one_out(objective, fit.theta)
    which = np.arange(0, rows.n_samples, step)  # refits of some rows tell as much
    exact = refitted_scores(density, rows, objective, which)
    inside, one, other = (
        losses(scores, rows.codes[which], None)
        for scores in (objective.passes.scores(fit.theta)[which], left_out.scores[which], exact)
    )
    assert one["log_loss"] == pytest.approx(other["log_loss"], rel=0.02)
    assert one["brier"] == pytest.approx(other["brier"], rel=0.02)
    assert abs(one["error"] - other["error"]) <= 1.01 / len(which)
    # The correction is what it is about: most of the optimism of the fit's own rows is gone.
    optimism = other["log_loss"] - inside["log_loss"]
    assert optimism > 0
    assert abs(one["log_loss"] - other["log_loss"]) < 0.3 * optimism


@pytest.mark.parametrize("tradeoff", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("name", DENSITIES)
def test_every_row_is_exact_to_first_order(name, tradeoff):
    """With a tiny weight the one Newton step is exact: compare with the derivative by refits.

    Standardisation and smoothing are held where all rows put them, as the approximation has it.
    """
    objective = make(name, 3, tradeoff=tradeoff, n=60)
    fit = minimise(objective, cold_start(objective))
    rows, bound = objective.rows, objective.bound
    small = 1e-3
    for i in (0, 7, 31):
        weights = np.ones(rows.n_samples)
        weights[i] = small
        light = LabelledRows(rows.X, rows.codes, weights, 3)
        sums, counts = totals(objective.density, light)
        own = type(bound)(**{**vars(bound), "sums": sums, "counts": counts})
        at = TradeoffObjective.of(light, own, tradeoff, objective.l2)
        optimum = minimise(at, fit.theta)
        left_out = approximate_leave_one_out(at, optimum.theta, np.array([i])).scores[0]
        gone = without(light, i)
        sums, counts = totals(objective.density, gone)
        none = TradeoffObjective.of(
            gone, type(bound)(**{**vars(bound), "sums": sums, "counts": counts}), tradeoff, 0.7
        )
        exact = minimise(none, optimum.theta)
        expected = row_scores(at, exact.theta, i)
        before = row_scores(at, optimum.theta, i)
        moved, wanted = left_out - left_out[-1] - before, expected - before
        assert np.abs(wanted).max() > 1e-7
        np.testing.assert_allclose(moved, wanted, rtol=0.02, atol=1e-3 * np.abs(wanted).max())


def totals(density, rows):
    member = np.zeros((rows.n_samples, rows.n_classes))
    member[np.arange(rows.n_samples), rows.codes] = 1.0 if rows.weights is None else rows.weights
    counts = np.repeat(member.sum(axis=0)[:, None], density.n_factors, axis=1)
    sums = density.weighted_sums(rows.X, member)
    if density.tied.any():
        # Of tied sums only the total over classes has a meaning.
        share = counts[:, :1] / counts[:, :1].sum()
        sums[:, density.tied] = share * sums[:, density.tied].sum(axis=0)
    return sums, counts


def row_scores(objective, theta, i):
    scores = objective.passes.scores(theta)[i]
    return scores - scores[-1]


def test_a_weight_of_three_is_three_rows():
    rows = rows_of("iris", [0, 1])
    weights = np.random.default_rng(0).integers(1, 4, size=rows.n_samples)
    weighted = LabelledRows(rows.X, rows.codes, weights.astype(float), 3)
    index = np.repeat(np.arange(rows.n_samples), weights)
    repeated = rows.take(index)
    density = MultivariateGaussian("shared_full")
    results = []
    for part in (weighted, repeated):
        objective = TradeoffObjective.of(part, bind(density, part), 0.4, 1.0)
        theta = minimise(objective, cold_start(objective)).theta
        results.append(approximate_leave_one_out(objective, theta).scores)
    np.testing.assert_allclose(results[0][index], results[1], atol=1e-7)


def test_a_missing_cell_does_not_spoil_it():
    objective = make("product", 2, tradeoff=0.5, missing=True, n=400)
    fit = minimise(objective, cold_start(objective))
    left_out = approximate_leave_one_out(objective, fit.theta)
    inside = losses(objective.passes.scores(fit.theta), objective.rows.codes, None)["log_loss"]
    outside = losses(left_out.scores, objective.rows.codes, None)["log_loss"]
    assert inside < outside < 1.1 * inside


def test_an_index_scores_only_those_rows():
    objective = make("product", 3, tradeoff=0.5)
    theta = minimise(objective, cold_start(objective)).theta
    index = np.array([3, 50, 7])
    np.testing.assert_allclose(
        approximate_leave_one_out(objective, theta, index).scores,
        approximate_leave_one_out(objective, theta).scores[index],
        atol=1e-12,
    )


def test_leverage_grows_where_a_row_decides_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    X[0] = [30.0, 0.0]
    codes = rng.integers(2, size=80)
    rows = LabelledRows(X, codes, None, 2)
    objective = TradeoffObjective.of(rows, bind(Gaussian(shared_variance=True), rows), 0.0, 0.01)
    fit = minimise(objective, cold_start(objective))
    leverage = approximate_leave_one_out(objective, fit.theta).leverage
    assert leverage.argmax() == 0
    assert leverage[0] > 5 * np.median(leverage)
    assert 0 < leverage.min() <= leverage.max() < 1
