"""Every concave case has one optimum: random starts end in the same place."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from crossfade.optim.newton import ConjugateGradient
from crossfade.optim.solver import descend
from crossfade.tradeoff.path import cold_start, follow, minimise
from crossfade.tradeoff.preconditioner import preconditioner
from tests.tradeoff.cases import DENSITIES, make, start


def posterior(objective, theta):
    scores = objective.passes.scores(theta)
    return scores - np.logaddexp.reduce(scores, axis=1)[:, None]


@pytest.mark.parametrize("tradeoff", [0.9, 0.2, 0.0])
@pytest.mark.parametrize("name", DENSITIES)
def test_random_starts(name, tradeoff):
    objective = make(name, 3, tradeoff=tradeoff)
    best = minimise(objective, cold_start(objective))
    assert best.converged
    assert best.gradient_norm < 1e-9
    for seed in range(4):
        begin = start(objective, seed)
        assert objective.value(begin) > best.value + 1.0
        other = minimise(objective, begin)
        assert other.converged, other.message
        assert other.value == pytest.approx(best.value, rel=1e-12)
        log_posterior = posterior(objective, other.theta)
        np.testing.assert_allclose(log_posterior, posterior(objective, best.theta), atol=1e-6)
        if tradeoff > 0.0:
            np.testing.assert_allclose(
                objective.parameters(other.theta).natural,
                objective.parameters(best.theta).natural,
                rtol=1e-6,
                atol=1e-6,
            )


@pytest.mark.parametrize("tradeoff", [0.9, 0.2, 0.0])
@pytest.mark.parametrize("name", DENSITIES)
def test_the_matrix_free_solver_reaches_the_same_optimum(name, tradeoff):
    objective = make(name, 3, tradeoff=tradeoff, weighted=True)
    begin = cold_start(objective)
    dense = minimise(objective, begin)
    inner = ConjugateGradient(partial(preconditioner, objective))
    free = descend(objective, begin, inner, tol=1e-9)
    assert free.converged, free.message
    assert free.value == pytest.approx(dense.value, rel=1e-12)
    np.testing.assert_allclose(
        posterior(objective, free.theta), posterior(objective, dense.theta), atol=1e-6
    )


@pytest.mark.parametrize("name", DENSITIES)
def test_the_generative_end_is_its_closed_form(name):
    """At λ = 1 the closed form leaves no gradient, and random starts end there too."""
    objective = make(name, 3, tradeoff=1.0, weighted=True)
    closed = minimise(objective, start(objective))
    assert closed.message == "closed form of the generative fit"
    assert closed.gradient_norm < 1e-12
    almost = objective.with_tradeoff(1.0 - 1e-9)
    iterated = minimise(almost, start(objective, 4))
    np.testing.assert_allclose(
        objective.parameters(iterated.theta).natural,
        objective.parameters(closed.theta).natural,
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_solution_says_why_it_stopped():
    objective = make("product", 2, tradeoff=0.2)
    done = minimise(objective, start(objective))
    assert done.message.startswith("gradient norm ")
    assert "is within the tolerance 1.0e-10" in done.message
    cut = minimise(objective, start(objective), max_iter=1)
    assert not cut.converged
    assert cut.message == "stopped after max_iter=1 steps"
    assert cut.gradient_norm > 1e-10


@pytest.mark.parametrize("name", ["gaussian", "product", "multivariate full"])
def test_a_path_beside_another_far_off_ends_where_it_ends_alone(name):
    """Densities next to singular are fitted far apart on much the same rows: no start may count."""
    objective = make(name, 3, tradeoff=0.0)
    points = [(1.0, 1.0), (0.5, 1.0), (0.01, 1.0)]
    alone = follow(objective, points, tol=1e-6)
    for scale in (1e-9, 1e-3, 1e3):
        # Beside this path the second point starts at very wide, or very narrow, densities.
        last = alone[0].solution.theta
        near = [last, scale * last, scale * alone[2].solution.theta]
        for point, same in zip(alone, follow(objective, points, tol=1e-6, near=near), strict=True):
            assert same.solution.converged, same.solution.message
            np.testing.assert_allclose(
                posterior(objective, same.solution.theta),
                posterior(objective, point.solution.theta),
                atol=1e-3,
            )
