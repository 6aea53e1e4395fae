"""What is sampled where rows are many agrees with what all rows give."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade import NaiveBayes
from crossfade.densities import Gaussian
from crossfade.io.reading import read_table
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.criteria import losses
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.leave_one_out import approximate_leave_one_out
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, curvature_share, follow, minimise


def make(n: int, order: str) -> TradeoffObjective:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 6)) @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6)))
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.logistic(size=n) > 0.5).astype(np.int64)
    if order == "sorted":
        index = np.lexsort((X[:, 0], y))
        X, y = X[index], y[index]
    rows = LabelledRows(X, y, None, 2)
    return TradeoffObjective.of(rows, bind(Gaussian(), rows), 1.0, 1.0)


@pytest.mark.parametrize("order", ["drawn", "sorted"])
@pytest.mark.parametrize("tradeoff", [0.5, 0.0])
def test_leave_one_out_on_sampled_curvature(tradeoff, order):
    objective = make(8_000, order).with_tradeoff(tradeoff)
    share = curvature_share(objective)
    assert share < 0.5
    theta = minimise(objective, cold_start(objective)).theta
    exact, sampled = (
        losses(
            approximate_leave_one_out(objective, theta, share=s).scores, objective.rows.codes, None
        )
        for s in (1.0, share)
    )
    trained = losses(objective.passes.scores(theta), objective.rows.codes, None)
    # What leaving a row out costs is proportional to the inverse curvature, whose relative error
    # over m sampled rows is about the root of parameters/m: a fifth here.
    optimism = exact["log_loss"] - trained["log_loss"]
    assert optimism > 0.0
    error = np.sqrt(objective.n_parameters / (share * objective.n_rows))
    assert error < 0.25
    assert abs(sampled["log_loss"] - exact["log_loss"]) < error * optimism


@pytest.mark.parametrize("order", ["drawn", "sorted"])
def test_the_rough_path_ends_at_the_optima(order):
    objective = make(8_000, order)
    for point in follow(objective, [(at, objective.l2) for at in (1.0, 0.5, 0.1, 0.0)]):
        at = objective.with_tradeoff(point.tradeoff)
        optimum = minimise(at, point.solution.theta)
        assert optimum.converged
        # Far closer than points of the path are to each other: nats a row.
        assert 0.0 <= point.solution.value - optimum.value + 1e-9 < 1e-5 * objective.n_rows


def test_a_cold_start_over_a_sample_finds_the_same_optimum():
    objective = make(30_000, "sorted").with_tradeoff(0.0)
    start = cold_start(objective)
    cold, plain = minimise(objective, start, cold=True), minimise(objective, start)
    assert cold.converged
    np.testing.assert_allclose(cold.theta, plain.theta, atol=1e-5)


def test_missing_cells_and_rare_categories_take_few_steps(shared_data):
    """At a tradeoff of 1e-4, which once stood for 0, one such fit in five took 200 steps."""
    table = read_table(shared_data / "ng_jordan" / "adult.csv.gz")
    some = table.sample(26_048, seed=4)
    model = NaiveBayes(tradeoff=0).fit(some.drop("target"), some["target"])
    assert some.null_count().sum_horizontal().item() > 0
    assert model.solution_.converged
    assert model.n_iter_ < 30
