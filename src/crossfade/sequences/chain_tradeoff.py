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
infinite, of sums of convex functions. (Missing factors add A to s, and smoothing's pseudo-counts
may; then it need not be.) What makes the ends meet:

- Any weights with finite Z are a hidden Markov model that knows its end: exp(s)/Z is the product
  of start_k = exp(u_k + b_k) h_k / Z, transition M_ij h_j / h_i and end exp(v_i) / h_i. Nothing is
  lost by leaving the rows free, so λ=1 is the count estimate exactly, in closed form.
- λ=0 is the random field with features T(x), start, end and transition weights. Its weights may
  be shifted by a constant a step without changing it, so that Z is finite, and it too is read as
  a hidden Markov model (compare Heigold, Lehnen, Schlüter & Ney 2008, "On the equivalence of
  Gaussian and log-linear HMMs"), except where a θ has left the density's domain.

Without the end the families would differ: weights that are normalised for each length apart are
no homogeneous chain, and the counts are not their estimate.

Smoothing (pseudo-count α a cell of start, transitions, end; the emission's own prior) is weighed
by λ, the penalty by 1-λ, so that both ends are the usual estimates. The penalty is l2·Σ weight²
after the weights have been shifted, in ways that no posterior notices, to where that sum is least:
at λ=0 this changes nothing, since the optimum is there anyway; but normalised weights are far from
zero (log 1/20,000 for a word), and a penalty on that would pull against the joint likelihood for
no gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade.densities.base import Floats, Integers
from crossfade.errors import DataError, NotADensityError
from crossfade.sequences.emissions import Emission, by_step
from crossfade.sequences.input import Layout
from crossfade.sequences.lbfgs import minimise
from crossfade.sequences.markov import ChainCounts, ChainParameters, estimate_chain, label_counts
from crossfade.sequences.recursions import expectations, log_partition

__all__ = [
    "ChainObjective",
    "ChainWeights",
    "Crossing",
    "LabelledChain",
    "Settings",
    "follow",
    "held_out_scores",
    "labelled_chain",
    "path",
    "path_scores",
    "refuse_without_density",
]

#: Values of λ tried by ``tradeoff="auto"``, from the generative end down.
GRID = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01, 0.0)

#: Log-probability that stands for log 0 where weights must start finite.
_LOG_NOTHING = -30.0


@dataclass(frozen=True)
class ChainWeights:
    """Weights of a chain, not normalised.

    Attributes
    ----------
    start : ndarray of shape (n_states,)
    transitions : ndarray of shape (n_states, n_states)
    stop : ndarray of shape (n_states,)
    theta : ndarray
        The emission's parameters, a row a state.
    """

    start: Floats
    transitions: Floats
    stop: Floats
    theta: Floats


@dataclass(frozen=True)
class Settings:
    """How a point of the tradeoff is found: penalty, most steps, tolerance (a share of L_λ)."""

    l2: float = 1.0
    max_iter: int = 500
    tol: float = 1e-6


@dataclass(frozen=True)
class Crossing:
    """A fitted point between the ends.

    Attributes
    ----------
    tradeoff : float
    weights : ChainWeights
    parameters : ChainParameters
        The same chain read as a hidden Markov model; NaN where it is none.
    converged : bool
    n_iter : int
    message : str
    """

    tradeoff: float
    weights: ChainWeights
    parameters: ChainParameters
    converged: bool
    n_iter: int
    message: str


@dataclass(frozen=True)
class LabelledChain:
    """Labelled sequences, summed up.

    Attributes
    ----------
    emission : Emission
        Bound.
    observations : array of n_steps observations
    layout : Layout
    codes : ndarray of shape (n_steps,)
    counts : ChainCounts
    emission_counts, emission_sums : ndarray
        What the emission's estimate needs, prior left out.
    missing : ndarray or None
        Weight of missing factors by state.
    alpha : float
    """

    emission: Emission
    observations: Any
    layout: Layout
    codes: Integers
    counts: ChainCounts
    emission_counts: Floats
    emission_sums: Floats
    missing: Floats | None
    alpha: float

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.counts.initial)

    def from_counts(self, *, stop: bool) -> ChainParameters:
        """Return the (smoothed) count estimate: λ = 1."""
        theta = self.emission.estimate(self.emission_counts, self.emission_sums, None)
        return estimate_chain(self.counts, self.alpha, theta, stop=stop)

    def weights_from(self, parameters: ChainParameters) -> ChainWeights:
        """Return finite weights of a hidden Markov model that knows its end."""
        b = self.emission.partition(parameters.theta).sum(axis=1)
        start, transitions, stop = (np.maximum(p, _LOG_NOTHING) for p in parameters.logs())
        theta = parameters.theta
        if np.isinf(theta).any():
            theta = np.maximum(theta, _LOG_NOTHING)
        return ChainWeights(start - b, transitions - b, stop, theta)


def labelled_chain(
    named: Emission, raw: Any, layout: Layout, codes: Integers, n_states: int, *, alpha: float
) -> LabelledChain:
    """Bind the emission to labelled data and sum them up."""
    emission = named.bind(raw, codes, n_states)
    observations = emission.observe(raw)
    onehot = np.zeros((layout.n_steps, n_states))
    onehot[np.arange(layout.n_steps), codes] = 1.0
    emitted, sums = emission.sums(observations, onehot)
    missing = emission.missing_counts(observations, onehot)
    counts = label_counts(codes, layout, n_states)
    return LabelledChain(
        emission, observations, layout, codes, counts, emitted, sums, missing, alpha
    )


# -- the normaliser over everything --------------------------------------------------------------


@dataclass(frozen=True)
class _Everything:
    """log Z and the expected counts of one sequence drawn from the chain."""

    log_total: float
    onward: Floats
    initial: Floats
    transitions: Floats
    final: Floats
    visits: Floats


def everything(start: Floats, transitions: Floats, stop: Floats) -> _Everything | None:
    """Return log Z and its derivatives; None where Z is infinite.

    Parameters
    ----------
    start : ndarray of shape (n_states,)
        u + b.
    transitions : ndarray of shape (n_states, n_states)
        w + b of the state entered.
    stop : ndarray of shape (n_states,)
        v.
    """
    if not (np.isfinite(start).all() and np.isfinite(transitions).all()):
        return None
    if transitions.max() > 700.0:
        return None
    shift_start, shift_stop = float(start.max()), float(stop.max())
    entering, ending = np.exp(start - shift_start), np.exp(stop - shift_stop)
    steps = np.exp(transitions)
    system = np.eye(len(start)) - steps
    try:
        onward, sure = np.linalg.solve(system, np.column_stack([ending, np.ones(len(start))])).T
        arriving = np.linalg.solve(system.T, entering)
    except np.linalg.LinAlgError:
        return None
    # (I - M) r = 1 has a positive solution r exactly if M's spectral radius is below 1.
    if not (np.isfinite(sure).all() and (sure > 0.0).all()):
        return None
    onward, arriving = np.maximum(onward, 1e-300), np.maximum(arriving, 0.0)
    total = float(entering @ onward)
    return _Everything(
        np.log(total) + shift_start + shift_stop,
        onward,
        entering * onward / total,
        arriving[:, None] * steps * onward / total,
        arriving * ending / total,
        arriving * onward / total,
    )


def read_as_model(
    weights: ChainWeights, emission: Emission, mean_length: float, *, shift: bool
) -> ChainParameters:
    """Return the hidden Markov model that has the same posteriors.

    Parameters
    ----------
    weights : ChainWeights
    emission : Emission
    mean_length : float
        Where weights may be shifted: so that sequences have this length on average.
    shift : bool
        Whether Z may be infinite, and weights are to be shifted by a constant a step.
    """
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
    moving = np.exp(transitions + constant) * found.onward / found.onward[:, None]
    return ChainParameters(
        found.initial / found.initial.sum(),
        moving / moving.sum(axis=1, keepdims=True),
        np.minimum(ending, 1.0),
        emission.normalised(weights.theta),
    )


def _shift_to(start: Floats, transitions: Floats, stop: Floats, mean_length: float) -> float:
    """Return the constant a step with which sequences have this mean length, by bisection."""
    low, high = -float(transitions.max()) - np.log(len(start)) - 50.0, -float(transitions.max())
    for _ in range(200):
        middle = 0.5 * (low + high)
        found = everything(start, transitions + middle, stop)
        if found is None or found.visits.sum() > mean_length:
            high = middle
        else:
            low = middle
    return low


# -- the objective -------------------------------------------------------------------------------


class _Shifts:
    """The directions in the space of weights that no posterior notices, and the way off them.

    A constant on all starts, on all transitions, on all ends; for each state, a constant on what
    enters it taken off what leaves it; and where an emission's row may be shifted, the same
    constant on the row taken off what enters.
    """

    def __init__(self, n_states: int, row_length: int):
        k, n_chain = n_states, n_states**2 + 2 * n_states
        number = 3 + (2 * k if row_length else k)
        chain = np.zeros((n_chain, number))
        start, moves, stop = chain[:k], chain[k : k + k * k].reshape(k, k, number), chain[-k:]
        start[:, 0], moves[:, :, 1], stop[:, 2] = 1.0, 1.0, 1.0
        for state in range(k):
            start[state, 3 + state] += 1.0
            moves[:, state, 3 + state] += 1.0
            moves[state, :, 3 + state] -= 1.0
            stop[state, 3 + state] -= 1.0
            if row_length:
                start[state, 3 + k + state] -= 1.0
                moves[:, state, 3 + k + state] -= 1.0
        self._chain, self._k, self._row_length = chain, k, row_length
        gram = chain.T @ chain
        if row_length:
            gram[3 + k :, 3 + k :] += row_length * np.eye(k)
        self._inverse = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)

    def removed(self, vector: Floats) -> Floats:
        """Return the shortest vector of weights with the same posteriors."""
        n_chain, k = len(self._chain), self._k
        along = self._chain.T @ vector[:n_chain]
        new = vector.copy()
        rows = new[n_chain : n_chain + k * self._row_length].reshape(k, self._row_length)
        if self._row_length:
            along[3 + k :] += rows.sum(axis=1)
        amounts = self._inverse @ along
        new[:n_chain] -= self._chain @ amounts
        if self._row_length:
            rows -= amounts[3 + k :, None]
        return new


class ChainObjective:
    """Minus L_λ, with smoothing and penalty, as a function of one vector of weights.

    Parameters
    ----------
    data : LabelledChain
    tradeoff : float
    l2 : float
    """

    def __init__(self, data: LabelledChain, tradeoff: float, l2: float):
        self.data, self.tradeoff, self.l2 = data, tradeoff, l2
        self._width = data.emission_sums.shape[1]
        self._tied = np.asarray(data.emission.tied(self._width))
        self._shifts = _Shifts(data.n_states, self._width if data.emission.shiftable else 0)

    def vector(self, weights: ChainWeights) -> Floats:
        """Return weights as one vector."""
        free = weights.theta[:, ~self._tied].ravel()
        shared = weights.theta[0, self._tied]
        parts = (weights.start, weights.transitions.ravel(), weights.stop, free, shared)
        return np.concatenate(parts)

    def weights(self, vector: Floats) -> ChainWeights:
        """Return a vector as weights."""
        k = self.data.n_states
        n_shared = int(self._tied.sum())
        theta = np.empty((k, self._width))
        free = vector[2 * k + k * k : len(vector) - n_shared]
        theta[:, ~self._tied] = free.reshape(k, -1)
        theta[:, self._tied] = vector[len(vector) - n_shared :]
        transitions = vector[k : k + k * k].reshape(k, k)
        return ChainWeights(vector[:k], transitions, vector[k + k * k : 2 * k + k * k], theta)

    def shortest(self, vector: Floats) -> Floats:
        """Return the shortest vector with the same posteriors: a random field's own weights."""
        return self._shifts.removed(vector)

    def _gradient(self, weights: ChainWeights) -> Floats:
        """Return a gradient in the form of weights as one vector: tied entries are summed."""
        free = weights.theta[:, ~self._tied].ravel()
        shared = weights.theta[:, self._tied].sum(axis=0)
        parts = (weights.start, weights.transitions.ravel(), weights.stop, free, shared)
        return np.concatenate(parts)

    def scale(self) -> Floats:
        """Return a rough inverse curvature of each weight: one over how often it is used."""
        data = self.data
        sizes = np.abs(data.emission_sums)
        counts = data.counts
        used = self._gradient(ChainWeights(counts.initial, counts.transitions, counts.final, sizes))
        return 1.0 / (used + 1.0 + 2.0 * (1.0 - self.tradeoff) * self.l2)

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Return value and gradient; (inf, zeros) outside the domain."""
        data, lam = self.data, self.tradeoff
        weights = self.weights(vector)
        counts, emission = data.counts, data.emission
        partition = emission.partition(weights.theta)
        needs_partition = lam > 0.0 or data.missing is not None
        if needs_partition and not np.isfinite(partition).all():
            return np.inf, np.zeros_like(vector)
        value = -float(
            weights.start @ counts.initial
            + (weights.transitions * counts.transitions).sum()
            + weights.stop @ counts.final
            + (weights.theta * data.emission_sums).sum()
        )
        initial, moves, final = -counts.initial, -counts.transitions, -counts.final
        theta = -data.emission_sums
        lifted = np.zeros_like(partition)  # coefficients of A
        if data.missing is not None:
            lifted -= data.missing
            value -= float((data.missing * partition).sum())
        if lam > 0.0:
            joint = self._joint(weights, partition)
            if joint is None:
                return np.inf, np.zeros_like(vector)
            value += lam * joint[0]
            initial, moves = initial + lam * joint[1], moves + lam * joint[2]
            final, theta = final + lam * joint[3], theta + lam * joint[4]
            lifted += lam * joint[5]
        if lam < 1.0:
            share = 1.0 - lam
            total, expected, absent = self._conditional(weights)
            value += share * total
            initial, moves = initial + share * expected.start, moves + share * expected.transitions
            final, theta = final + share * expected.stop, theta + share * expected.theta
            if absent is not None:
                lifted += share * absent
        if needs_partition:
            theta = theta + emission.partition_gradient(weights.theta, lifted)
        gradient = self._gradient(ChainWeights(initial, moves, final, theta))
        if lam < 1.0:
            short = self.shortest(vector)
            value += (1.0 - lam) * self.l2 * float(short @ short)
            gradient += 2.0 * (1.0 - lam) * self.l2 * short
        if not np.isfinite(value):
            return np.inf, np.zeros_like(vector)
        return value, gradient

    def _joint(self, weights: ChainWeights, partition: Floats) -> tuple[Any, ...] | None:
        """Return (n + Kα) log Z - log prior, and its derivatives; None if infinite."""
        data, alpha, k = self.data, self.data.alpha, self.data.n_states
        b = partition.sum(axis=1)
        found = everything(weights.start + b, weights.transitions + b, weights.stop)
        if found is None:
            return None
        number = float(data.counts.initial.sum()) + k * alpha
        prior_counts, prior_sums = data.emission.prior()
        chain = weights.start.sum() + weights.transitions.sum() + weights.stop.sum()
        value = number * found.log_total - alpha * (float(chain) + (k + 1) * float(b.sum()))
        value -= float((weights.theta * prior_sums).sum())
        value += float((partition * prior_counts).sum())
        visits = number * found.visits - (k + 1) * alpha
        return (
            value,
            number * found.initial - alpha,
            number * found.transitions - alpha,
            number * found.final - alpha,
            np.broadcast_to(-prior_sums, weights.theta.shape),
            visits[:, None] + prior_counts,
        )

    def _conditional(self, weights: ChainWeights) -> tuple[float, ChainWeights, Floats | None]:
        """Return Σ log Z(x), its derivatives, and the expected weight of missing factors."""
        data = self.data
        emission, observations = data.emission, data.observations
        scorer = by_step(emission.potentials(weights.theta), observations)
        stored = None
        if not emission.small_sums:
            stored = np.empty((data.layout.n_steps, data.n_states))
        gone = data.missing is not None

        def sums(rows: Any, marginals: Floats) -> tuple[Floats, Floats]:
            found = emission.sums(rows, marginals)[1]
            absent = emission.missing_counts(rows, marginals) if gone else None
            return found, np.zeros(data.emission_counts.shape) if absent is None else absent

        def consume(steps: slice, marginals: Floats) -> Any:
            return sums(observations[steps], marginals) if stored is None else None

        chain = (weights.start, weights.transitions, weights.stop)
        chain = tuple(np.ascontiguousarray(part) for part in chain)  # type: ignore[assignment]
        found = expectations(scorer, data.layout.offsets, *chain, consume=consume, marginals=stored)
        theta, absent = found.consumed if stored is None else sums(observations, stored)
        expected = ChainWeights(found.initial_sums, found.transition_sums, found.final_sums, theta)
        return float(found.log_partition.sum()), expected, absent if gone else None


# -- points and paths ----------------------------------------------------------------------------


def path(data: LabelledChain, tradeoffs: Sequence[float], settings: Settings) -> Iterator[Crossing]:
    """Yield the fitted point of each λ, each started from the one before; the first from counts."""
    counted = data.from_counts(stop=True)
    weights = data.weights_from(counted)
    n_sequences = max(float(data.counts.initial.sum()), 1.0)
    mean_length = data.layout.n_steps / n_sequences
    for tradeoff in tradeoffs:
        if tradeoff == 1.0:
            message = "counts are the estimate in closed form"
            yield Crossing(1.0, weights, counted, True, 0, message)
            continue
        objective = ChainObjective(data, tradeoff, settings.l2)
        found = minimise(
            objective,
            objective.vector(weights),
            scale=objective.scale(),
            max_iter=settings.max_iter,
            tol=1e-4 * settings.tol,
        )
        at = objective.shortest(found.theta) if tradeoff == 0.0 else found.theta
        weights = objective.weights(at)
        model = read_as_model(weights, data.emission, mean_length, shift=tradeoff == 0.0)
        yield Crossing(tradeoff, weights, model, found.converged, found.n_iter, found.message)


def follow(data: LabelledChain, tradeoff: float, settings: Settings) -> Crossing:
    """Return the fitted point of one λ."""
    return list(path(data, [tradeoff], settings))[-1]


def path_scores(
    values: Floats, layout: Layout, codes: Integers, chain: tuple[Floats, Floats, Floats]
) -> Floats:
    """Return each sequence's potential along given states; -inf where a state is none.

    Parameters
    ----------
    values : ndarray of shape (n_steps, n_states)
        Emission log-potentials.
    layout : Layout
    codes : ndarray of shape (n_steps,)
    chain : tuple of start, transition and end log-potentials
    """
    start, transitions, stop = chain
    known = (codes >= 0) & (codes < values.shape[1])
    safe = np.where(known, codes, 0)
    steps = np.where(known, values[np.arange(len(codes)), safe], -np.inf)
    steps[layout.firsts()] += start[safe[layout.firsts()]]
    steps[layout.lasts()] += stop[safe[layout.lasts()]]
    before = layout.followed()
    steps[before] += transitions[safe[before], safe[before + 1]]
    sequence = np.repeat(np.arange(layout.n_sequences), np.diff(layout.offsets))
    totals: Any = np.bincount(sequence, weights=steps, minlength=layout.n_sequences)
    return totals


def conditional_log_likelihood(
    weights: ChainWeights, emission: Emission, observations: Any, layout: Layout, codes: Integers
) -> Floats:
    """Return log p(y | x) of each sequence."""
    values = emission.potentials(weights.theta)(observations)
    chain = (weights.start, weights.transitions, weights.stop)
    scores = path_scores(values, layout, codes, chain)
    return scores - log_partition(values, layout.offsets, *chain)


def held_out_scores(
    named: Emission,
    raw: Any,
    layout: Layout,
    codes: Integers,
    n_states: int,
    *,
    alpha: float,
    settings: Settings,
    rng: np.random.Generator,
    n_folds: int = 5,
) -> dict[float, float]:
    """Return the held-out conditional log-likelihood per step of each λ of the grid.

    Parameters
    ----------
    named : Emission
        Not bound: each fold's training part binds it, so that its symbols alone are known.
    raw, layout, codes
        Stacked observations, and labels.
    n_states : int
    alpha : float
    settings : Settings
    rng : numpy.random.Generator
        Deals sequences to folds.
    n_folds : int, default=5

    Returns
    -------
    dict

    Raises
    ------
    DataError
        If there are fewer than two sequences.
    """
    filled = np.flatnonzero(np.diff(layout.offsets) > 0)
    if len(filled) < 2:
        raise DataError(
            f"tradeoff: expected a number for {len(filled)} sequence, got 'auto'; held-out folds "
            "need at least two sequences"
        )
    folds = np.array_split(rng.permutation(filled), min(n_folds, len(filled)))
    totals = dict.fromkeys(GRID, 0.0)
    for held in folds:
        train_steps, train = layout.take(np.setdiff1d(filled, held))
        test_steps, test = layout.take(np.sort(held))
        data = labelled_chain(
            named, _take(raw, train_steps), train, codes[train_steps], n_states, alpha=alpha
        )
        observations = data.emission.observe(_take(raw, test_steps))
        for point in path(data, GRID, settings):
            scores = conditional_log_likelihood(
                point.weights, data.emission, observations, test, codes[test_steps]
            )
            totals[point.tradeoff] += float(scores.sum())
    return {tradeoff: total / layout.n_steps for tradeoff, total in totals.items()}


def _take(raw: Any, steps: Integers) -> Any:
    return [raw[i] for i in steps] if isinstance(raw, list) else raw[steps]


def refuse_without_density(emission: Emission, parameters: ChainParameters) -> None:
    """Raise if the parameters define posteriors, but no density of observations."""
    if not np.isfinite(parameters.transitions).all():
        raise NotADensityError(
            "tradeoff: expected a model with a density of its observations, got one whose "
            "parameters left the domain (a variance that is not positive); fit with tradeoff > 0"
        )
