"""The density that a discriminative fit leaves undetermined.

At λ = 0 the posterior depends only on differences between classes. Adding one vector to every
class's natural parameters, and any tied parameter, changes nothing in Φ_0, but is what makes the
classes' densities. The limit of the path as λ falls to 0 fixes them: among all parameters with
that posterior, those of the largest joint likelihood.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.optim.newton import Dense, factorise
from crossfade.optim.solver import descend
from crossfade.tradeoff.objective import Parameters, TradeoffObjective


class _Common:
    """The joint likelihood as a function of what is common to all classes."""

    def __init__(self, objective: TradeoffObjective, base: Floats) -> None:
        self.objective, self.base = objective, base

    @property
    def n_rows(self) -> float:
        return self.objective.n_rows

    def theta(self, common: Floats) -> Floats:
        weights, offsets, tied = self.objective.split(self.base)
        p = self.objective.passes.n_free
        return self.objective.join(weights + common[:p], offsets, tied + common[p:])

    def value(self, common: Floats) -> float:
        return self.objective.value(self.theta(common))

    def value_and_gradient(self, common: Floats) -> tuple[float, Floats]:
        value, gradient = self.objective.value_and_gradient(self.theta(common))
        weights, _, tied = self.objective.split(gradient)
        return value, np.concatenate([weights.sum(axis=0), tied])

    def curvature(self, common: Floats, share: float = 1.0) -> Floats:
        H = self.objective.curvature(self.theta(common))
        k, p = self.objective.passes.n_classes, self.objective.passes.n_free
        free, tied = slice(0, k * p), slice(k * p + k, None)
        size = p + self.objective.passes.n_tied
        summed = np.empty((size, size))
        summed[:p, :p] = H[free, free].reshape(k, p, k, p).sum(axis=(0, 2))
        summed[:p, p:] = H[free, tied].reshape(k, p, -1).sum(axis=0)
        summed[p:, :p] = summed[:p, p:].T
        summed[p:, p:] = H[tied, tied]
        return summed


def density_limit(objective: TradeoffObjective, theta: Floats) -> Floats | None:
    """Return the parameters of the λ → 0+ limit that have the posterior of `theta`.

    Shapes: theta (n_parameters,); → (n_parameters,).

    The differences are grown from zero, where the answer is the density of all rows together, in
    steps that stay inside the domain; the problem at each is convex.
    """
    joint = objective.with_tradeoff(1.0)
    weights, offsets, _ = joint.split(theta)
    centres, _, tied = joint.split(joint.theta(joint.one_density()))
    centre = centres[0]
    common = np.concatenate([np.zeros(joint.passes.n_free), tied])
    no_tied = np.zeros(joint.passes.n_tied)

    def problem(t: float) -> _Common:
        between = t * (weights - weights.mean(axis=0))
        base = joint.join(centre + between, t * (offsets - offsets.mean()), no_tied)
        return _Common(joint, base)

    reached, step = 0.0, 1.0
    while reached < 1.0:
        trial = min(1.0, reached + step)
        at = problem(trial)
        if not np.isfinite(at.value(common)):
            step *= 0.5
            if step < 1e-4:
                return None
            continue
        try:
            # On the way, near enough to go on from is all that is wanted.
            tol = 1e-9 if trial == 1.0 else 1e-3
            solution = descend(at, common, Dense(), tol=tol)
        except np.linalg.LinAlgError:
            return None  # on the domain's edge to rounding: as good as no density
        common, reached = solution.theta, trial
        step *= 2.0
    return problem(1.0).theta(common)


def settled(objective: TradeoffObjective, parameters: Parameters) -> Floats | None:
    """Return the limit that has the posterior of these parameters, None where there is none.

    None also where that posterior's differences do not survive what densities add to all classes.
    """
    theta = objective.theta(parameters)
    limit = density_limit(objective, theta)
    return limit if limit is not None and _same_posterior(objective, theta, limit) else None


def _same_posterior(objective: TradeoffObjective, one: Floats, other: Floats) -> bool:
    (weights, offsets, _), (others, other_offsets, _) = objective.split(one), objective.split(other)
    gap = np.abs((weights - weights[0]) - (others - others[0])).sum(axis=1)
    gap += np.abs((offsets - offsets[0]) - (other_offsets - other_offsets[0]))
    rounding = np.finfo(np.float64).eps * np.abs(others).sum(axis=1)
    return bool((gap + rounding).max() < 1e-6)


def moves_of_limit(
    objective: TradeoffObjective,
    parameters: Parameters,
    limit: Floats,
    H: Floats,
    to_natural: Floats,
) -> tuple[Floats, Floats]:
    """Return how the limit moves with a pool of this posterior, and with its own equation.

    With P the common directions it solves P'∇Φ_1(θ + P u) = 0: u moves by -(P'HP)⁻¹ P'(H dθ + ψ)
    where the posterior's θ moves by dθ, and a row's gradient ψ is added.

    Takes H: The Hessian of Φ_1 at the limit. to_natural: Of natural parameters, offsets and a
    scale, (n_parameters, q).

    Shapes: → (q, q), from a pool's parameters, each times its scale, and that to the limit's;
    (n_parameters, q), from gradients to parameters.
    """
    joint = objective
    k, p, n_tied = joint.passes.n_classes, joint.passes.n_free, joint.passes.n_tied
    common = np.zeros((limit.size, p + n_tied))
    common[: k * p, :p] = np.tile(np.eye(p), (k, 1))
    common[k * p + k :, p:] = np.eye(n_tied)
    # A column that never varies leaves directions that nothing depends on.
    factor = factorise(common.T @ H @ common)
    by_gradient = -common @ scipy.linalg.cho_solve(factor, common.T @ to_natural)
    natural, offset = parameters.natural, parameters.offset
    steps = np.eye(natural.size + k)
    thetas = [
        joint.gather(Parameters(one[: natural.size].reshape(natural.shape), one[natural.size :]))
        for one in steps
    ]
    by_pool = np.array(thetas) @ H @ by_gradient
    found = np.eye(len(steps) + 1)
    found[:-1] += by_pool
    # The pool's are times its scale, and so is the limit's distance from them.
    found[-1] -= np.concatenate([natural.ravel(), offset]) @ by_pool
    found[-1] += (limit - joint.gather(parameters)) @ to_natural
    return found, by_gradient
