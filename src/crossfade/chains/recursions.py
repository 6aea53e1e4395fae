"""The chain recursions as pure functions on arrays: log-partition, marginals, best paths.

One set for every chain model here. A chain of K states over one sequence x_1 … x_T gives each
path y the log-potential

    log_initial[y_1] + log_final[y_T]
      + Σ_t log_emissions[t, y_t] + Σ_t log_transitions[y_t, y_{t+1}]

which need not be normalised: a hidden Markov model's potentials are log-probabilities, a random
field's are weights. Sequences are concatenated: ``log_emissions`` has one row per step, and
sequence s is rows ``offsets[s]`` to ``offsets[s + 1]``. No transition crosses a boundary; -inf
forbids a state, a transition, a start or an end. A sequence whose every path is forbidden
has log-partition -inf and marginals of zero. An empty sequence has log-partition 0.

The work is done by compiled scaled recursions, falling back to logarithms where scaling could lose
anything (:mod:`crossfade.chains.kernels`); ``tests/chains/reference.py`` has the same
functions written plainly in logarithms. Whole sequences are spread over threads; results do not
depend on how many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block
from crossfade.chains.block_recursions import best_paths, expectations
from crossfade.errors import DataError


@dataclass(frozen=True)
class ForwardBackward:
    """What the forward and backward recursions give.

    Attributes
    ----------
    log_partition : ndarray of shape (n_sequences,)
        Log of the sum over all paths; a hidden Markov model's log-likelihood.
    marginals : ndarray of shape (n_steps, n_states)
        Probability of each state at each step; rows sum to 1.
    transition_sums : ndarray of shape (n_states, n_states)
        Expected number of transitions [from, to] in all sequences together.
    initial_sums, final_sums : ndarray of shape (n_states,)
        Expected number of sequences that start, and end, in each state.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.chains import forward_backward
    >>> even = np.log(np.full((2, 2), 0.5))
    >>> result = forward_backward(np.log([[0.9, 0.2], [0.1, 0.8]]), [0, 2], even[0], even)
    >>> result.marginals.round(2)
    array([[0.82, 0.18],
           [0.11, 0.89]])
    """

    log_partition: Floats
    marginals: Floats
    transition_sums: Floats
    initial_sums: Floats
    final_sums: Floats


#: Emissions, offsets, and initial, transition and final log-potentials, checked.
_Inputs = tuple[Floats, Integers, tuple[Floats, Floats, Floats]]


def forward_backward(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None = None,
) -> ForwardBackward:
    """Return log-partitions, marginals and expected transitions of every sequence.

    Parameters
    ----------
    log_emissions : array-like of shape (n_steps, n_states)
        Log-potential of each state at each step, sequences concatenated.
    offsets : array-like of shape (n_sequences + 1,), int
        First row of each sequence, and the number of rows.
    log_initial : array-like of shape (n_states,)
    log_transitions : array-like of shape (n_states, n_states)
        [from, to].
    log_final : array-like of shape (n_states,), optional
        Zero by default.

    Returns
    -------
    ForwardBackward

    Raises
    ------
    DataError
        If shapes disagree, or a potential is NaN or +inf.

    Notes
    -----
    Rabiner (1989), "A tutorial on hidden Markov models", sections III and V.A (scaling).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.chains import forward_backward
    >>> even = np.log(np.full((2, 2), 0.5))
    >>> seen = np.log([[0.9, 0.2], [0.9, 0.2], [0.1, 0.8]])
    >>> result = forward_backward(seen, [0, 2, 3], even[0], even)
    >>> result.marginals.round(3)
    array([[0.818, 0.182],
           [0.818, 0.182],
           [0.111, 0.889]])
    >>> round(float(result.transition_sums.sum()), 12)
    1.0
    """
    emissions, starts, chain = _checked(
        log_emissions, offsets, log_initial, log_transitions, log_final
    )
    marginals = np.empty_like(emissions)
    result = expectations(emissions.__getitem__, starts, *chain, marginals=marginals)
    _refuse_not_a_number(result.log_partition, emissions, starts)
    return ForwardBackward(
        result.log_partition,
        marginals,
        result.transition_sums,
        result.initial_sums,
        result.final_sums,
    )


def log_partition(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None = None,
) -> Floats:
    """Return the log of the sum over all paths for each sequence, shape (n_sequences,).

    Parameters and errors are those of :func:`forward_backward`; only the forward recursion runs.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.chains import log_partition
    >>> even = np.log(np.full((2, 2), 0.5))
    >>> seen = np.log([[0.9, 0.2], [0.1, 0.8]])  # 1.1 and 0.9 in sum, each state as probable
    >>> np.exp(log_partition(seen, [0, 2], even[0], even)).round(4)
    array([0.2475])
    """
    emissions, starts, chain = _checked(
        log_emissions, offsets, log_initial, log_transitions, log_final
    )
    result = expectations(emissions.__getitem__, starts, *chain, backward=False)
    _refuse_not_a_number(result.log_partition, emissions, starts)
    return result.log_partition


def viterbi(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None = None,
) -> tuple[Integers, Floats]:
    """Return the best path of every sequence and its log-potential.

    Parameters and errors are those of :func:`forward_backward`.

    Returns
    -------
    paths : ndarray of shape (n_steps,), int64
        States, sequences concatenated; of equally good predecessors the lower state.
    scores : ndarray of shape (n_sequences,)
        -inf where every path is forbidden (the path returned is then of no meaning).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.chains import viterbi
    >>> stay = np.log([[0.9, 0.1], [0.1, 0.9]])
    >>> seen = np.log([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]])
    >>> viterbi(seen, [0, 3], np.log([0.5, 0.5]), stay)[0]
    array([0, 0, 0])
    """
    emissions, starts, chain = _checked(
        log_emissions, offsets, log_initial, log_transitions, log_final
    )
    paths, scores = best_paths(emissions.__getitem__, starts, *chain)
    _refuse_not_a_number(scores, emissions, starts)
    return paths, scores


def edge_marginals(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None = None,
) -> Floats:
    """Return the probability of each pair of neighbouring states, for every pair of steps.

    Parameters and errors are those of :func:`forward_backward`.

    Shapes: → (n_edges, n_states, n_states).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.chains import edge_marginals
    >>> even = np.log(np.full((2, 2), 0.5))
    >>> edge_marginals(np.log([[0.9, 0.1], [0.2, 0.8]]), [0, 2], even[0], even)[0].round(2)
    array([[0.18, 0.72],
           [0.02, 0.08]])
    """
    from crossfade.chains import kernels

    emissions, starts, logs = _checked(
        log_emissions, offsets, log_initial, log_transitions, log_final
    )
    chain, n_states = kernels.make_chain(*logs), emissions.shape[1]
    _refuse_not_a_number(emissions.sum(axis=1), emissions, starts, by_step=True)
    n_edges = np.maximum(np.diff(starts) - 1, 0)
    firsts = np.concatenate([[0], np.cumsum(n_edges)])
    edges = np.empty((int(firsts[-1]), n_states, n_states))

    def work(which: slice) -> None:
        total = np.empty((n_states, n_states))
        for s in range(which.start, which.stop):
            rows = emissions[starts[s] : starts[s + 1]]
            if len(rows) > 1:
                here = edges[firsts[s] : firsts[s + 1]]
                kernels.log_forward_backward(rows, chain, np.empty_like(rows), total, here)

    for_each_block(work, len(n_edges), block_rows=64)
    return edges


def _checked(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None,
) -> _Inputs:
    """Return contiguous arrays of fitting shapes, or say which does not fit."""
    emissions = np.ascontiguousarray(log_emissions, dtype=np.float64)
    if emissions.ndim != 2 or emissions.shape[1] == 0:
        raise DataError(
            "log_emissions: expected an array of shape (n_steps, n_states) with at least one "
            f"state, got shape {emissions.shape!r}; concatenate the sequences' rows"
        )
    n_steps, n_states = emissions.shape
    starts = np.ascontiguousarray(offsets, dtype=np.int64)
    ordered = starts.ndim == 1 and len(starts) > 0 and bool((np.diff(starts) >= 0).all())
    if not ordered or starts[0] != 0 or starts[-1] != n_steps:
        raise DataError(
            f"offsets: expected non-decreasing integers from 0 to {n_steps} (the rows of "
            f"log_emissions), got {offsets!r}; use the cumulated lengths with a 0 in front"
        )
    initial = _potentials(log_initial, "log_initial", (n_states,))
    transitions = _potentials(log_transitions, "log_transitions", (n_states, n_states))
    final = np.zeros(n_states) if log_final is None else log_final
    final = _potentials(final, "log_final", (n_states,))
    return emissions, starts, (initial, transitions, final)


def _potentials(values: ArrayLike, name: str, shape: tuple[int, ...]) -> Floats:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != shape:
        raise DataError(
            f"{name}: expected shape {shape!r} to go with log_emissions, got {array.shape!r}"
        )
    if np.isnan(array).any() or (array == np.inf).any():
        raise DataError(f"{name}: expected numbers or -inf (forbidden), got {array!r}")
    return array


def _refuse_not_a_number(
    values: Floats, emissions: Floats, offsets: Integers, *, by_step: bool = False
) -> None:
    """Raise with the step's number if results show a NaN or +inf among the potentials."""
    if not (np.isnan(values).any() or (values == np.inf).any()):
        return
    bad = np.isnan(emissions) | (emissions == np.inf)
    if not bad.any():
        if by_step:
            return
        raise DataError(
            "log_emissions: expected potentials whose sums stay within the range of doubles, "
            "got sums beyond it; subtract a constant from the potentials"
        )
    step, state = (int(i) for i in np.argwhere(bad)[0])
    sequence = int(np.searchsorted(offsets, step, side="right")) - 1
    raise DataError(
        f"log_emissions: expected numbers or -inf (forbidden), got "
        f"{emissions[step, state]!r} for state {state} at step "
        f"{step - int(offsets[sequence])} of sequence {sequence}; mark a missing step with "
        "zeros in all states"
    )
