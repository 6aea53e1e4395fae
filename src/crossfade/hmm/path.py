"""Between the hidden Markov model and the conditional random field: λ joint + (1-λ) conditional.

A chain with weights u (start), w (transitions), v (end) and emission parameters θ gives states y
and observations x of *any length* the weight exp s(x, y),

    s = u[y_1] + Σ_t w[y_t, y_{t+1}] + v[y_T] + Σ_t θ[y_t]·T(x_t).

Two normalisers. Over the states of given observations it is Z(x), the random field's. Over all
states, observations and lengths it is

    Z = Σ_k exp(u_k + b_k) h_k,    h = (I - M)⁻¹ exp(v),    M_ij = exp(w_ij + b_j),

b_k = A(θ_k) being the log of all that state k emits; it is finite exactly where M's spectral
radius is below 1. Then

    L_λ = Σ_s s(x, y) - λ n log Z - (1-λ) Σ_s log Z(x_s)

is CONCAVE in (u, w, v, θ) for every λ in [0, 1]: each normaliser is a log-sum-exp, finite or
infinite, of sums of convex functions. (Above λ = 0 missing factors add A to s, and smoothing's
pseudo-counts may; then it need not be. At λ = 0, where labels do not tell what all states have in
common, a missing factor adds θ·mean(T): its statistics have their mean.) What makes the ends meet:

- Any weights with finite Z are a hidden Markov model that knows its end: exp(s)/Z is the product
  of start_k = exp(u_k + b_k) h_k / Z, transition M_ij h_j / h_i and end exp(v_i) / h_i. Nothing is
  lost by leaving the rows free, so λ=1 is the count estimate exactly, in closed form.
- λ=0 is the random field with features T(x), start, end and transition weights. Its weights may
  be shifted by a constant per step without changing it, so that Z is finite, and it too is read as
  a hidden Markov model (compare Heigold, Lehnen, Schlüter & Ney 2008, "On the equivalence of
  Gaussian and log-linear HMMs"), except where a θ has left the density's domain.

Without the end the families would differ: weights that are normalised for each length apart are
no homogeneous chain, and the counts are not their estimate.

Smoothing (pseudo-count α a cell of start, transitions, end; the emission's own prior) is weighed
by λ, the penalty by 1-λ, so that both ends are the usual estimates. The penalty is ½ l2·Σ weight²
after the weights have been shifted, in ways that no posterior notices, to where that sum is least:
at λ=0 this changes nothing, since the optimum is there anyway; but normalised weights are far from
zero (log 1/20,000 for a word), and a penalty on that would pull against the joint likelihood for
no gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from crossfade._typing import Floats, Integers
from crossfade.chains.input import Layout
from crossfade.chains.markov import ChainParameters, path_scores
from crossfade.chains.recursions import log_partition
from crossfade.errors import NotADensityError
from crossfade.hmm.emission import Emission
from crossfade.hmm.objective import ChainObjective, ChainWeights, LabelledChain, everything
from crossfade.optim.lbfgs import QuasiNewton
from crossfade.optim.solver import descend

#: Nats per step within which the constant that gives sequences their mean length is sought.
_WIDEST = 1e7


@dataclass(frozen=True)
class StopRule:
    """How a point of the tradeoff is found: most steps, tolerance (a share of L_λ)."""

    max_iter: int = 500
    tol: float = 1e-6


@dataclass(frozen=True)
class ChainFit:
    """A fitted point between the ends.

    `parameters`: The same chain read as a hidden Markov model; NaN where it is none.
    """

    tradeoff: float
    l2: float
    weights: ChainWeights
    parameters: ChainParameters
    converged: bool
    n_iter: int
    message: str


def read_as_model(
    weights: ChainWeights, emission: Emission, mean_length: float, *, shift: bool
) -> ChainParameters:
    """Return the hidden Markov model that has the same posteriors."""
    b = emission.partition(weights.theta).sum(axis=1)
    n_states = len(b)
    nowhere = np.full((n_states, n_states), np.nan)
    if not np.isfinite(b).all():
        return ChainParameters(nowhere[0], nowhere, nowhere[0], weights.theta)
    start, transitions = weights.start + b, weights.transitions + b
    constant = _shift_to(start, transitions, weights.stop, mean_length) if shift else 0.0
    found = everything(start, transitions + constant, weights.stop)
    if found is None:
        return ChainParameters(nowhere[0], nowhere, nowhere[0], weights.theta)
    ending = np.exp(weights.stop - weights.stop.max()) / found.onward
    # Of a state that hardly occurs, what it moves to may be less than any number.
    moving = softmax(transitions + np.log(found.onward), axis=1)
    return ChainParameters(
        found.initial / found.initial.sum(),
        moving,
        np.minimum(ending, 1.0),
        emission.normalised(weights.theta),
    )


def _shift_to(start: Floats, transitions: Floats, stop: Floats, mean_length: float) -> float:
    """Return the constant per step with which sequences have this mean length, by bisection."""

    def too_long(constant: float) -> bool:
        found = everything(start, transitions + constant, stop)
        return found is None or bool(found.visits.sum() > mean_length)

    # The largest weight need not be one of a cycle: it tells the place alone.
    low = high = -float(transitions.max())
    width = 1.0
    while too_long(low) and width < _WIDEST:
        low, width = low - width, 2.0 * width
    width = 1.0
    while not too_long(high) and width < _WIDEST:
        high, width = high + width, 2.0 * width
    for _ in range(200):
        middle = 0.5 * (low + high)
        if too_long(middle):
            high = middle
        else:
            low = middle
    return low


def path(
    data: LabelledChain, points: Sequence[tuple[float, float]], settings: StopRule
) -> Iterator[ChainFit]:
    """Yield the fit at each (λ, l2), each started from the one before; the first from counts."""
    counted = data.from_counts(stop=True)
    weights = data.weights_from(counted)
    for tradeoff, l2 in points:
        if tradeoff == 1.0:
            message = "counts are the estimate in closed form"
            yield ChainFit(1.0, l2, weights, counted, True, 0, message)
            continue
        objective = ChainObjective(data, tradeoff, l2)
        found = descend(
            objective,
            objective.vector(weights),
            QuasiNewton(diagonal=objective.curvature, memory=20),
            tol=settings.tol,
            max_iter=settings.max_iter,
        )
        at = objective.shortest(found.theta) if tradeoff == 0.0 else found.theta
        weights = objective.weights(at)
        if tradeoff == 0.0:
            weights = replace(weights, absent=objective.absent(weights.theta))
        model = read_as_model(weights, data.emission, data.mean_length, shift=tradeoff == 0.0)
        yield ChainFit(tradeoff, l2, weights, model, found.converged, found.n_iter, found.message)


def follow(data: LabelledChain, tradeoff: float, l2: float, settings: StopRule) -> ChainFit:
    """Return the fit at one λ."""
    return list(path(data, [(tradeoff, l2)], settings))[-1]


def conditional_log_likelihood(
    weights: ChainWeights, emission: Emission, observations: Any, layout: Layout, codes: Integers
) -> Floats:
    """Return log p(y | x) of each sequence."""
    values = emission.potentials(weights.theta, weights.absent)(observations)
    chain = (weights.start, weights.transitions, weights.stop)
    scores = path_scores(values, layout, codes, chain)
    return scores - log_partition(values, layout.offsets, *chain)


def refuse_without_density(emission: Emission, parameters: ChainParameters) -> None:
    """Raise if the parameters define posteriors, but no density of observations."""
    if not np.isfinite(parameters.transitions).all():
        raise NotADensityError(
            "tradeoff: expected a model with a density of its observations, got one whose "
            "parameters left the domain (a variance that is not positive); fit with tradeoff > 0"
        )
