"""The chain recursions as pure functions on arrays: log-partition, marginals, best paths.

One set for every chain model here. A chain of K states over one sequence x_1 … x_T gives each
path y the log-potential

    log_initial[y_1] + log_final[y_T]
      + Σ_t log_emissions[t, y_t] + Σ_t log_transitions[y_t, y_{t+1}]

which need not be normalised: a hidden Markov model's potentials are log-probabilities, a random
field's are weights. Sequences are concatenated: ``log_emissions`` has a row a step, and sequence s
is rows ``offsets[s]`` to ``offsets[s + 1]``. No transition crosses a boundary; -inf forbids a
state, a transition, a start or an end. A sequence whose every path is forbidden has log-partition
-inf and marginals of zero. An empty sequence has log-partition 0.

The work is done by compiled scaled recursions, falling back to logarithms where scaling could lose
anything (:mod:`crossfade.sequences.kernels`); :mod:`crossfade.sequences.reference` has the same
functions written plainly in logarithms. Whole sequences are spread over threads; results do not
depend on how many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade.blocks import block_sum, for_each_block, workspace
from crossfade.densities.base import Floats, Integers
from crossfade.errors import DataError

__all__ = [
    "Expectations",
    "ForwardBackward",
    "Lookup",
    "StepScorer",
    "best_paths",
    "edge_marginals",
    "expectations",
    "forward_backward",
    "log_partition",
    "viterbi",
]

#: Numbers in one block's potentials: 65,536 doubles and their posteriors stay in cache.
_BLOCK_NUMBERS = 65_536


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
    """

    log_partition: Floats
    marginals: Floats
    transition_sums: Floats
    initial_sums: Floats
    final_sums: Floats


@dataclass(frozen=True)
class Expectations:
    """What :func:`expectations` gives: as :class:`ForwardBackward`, the marginals consumed.

    Attributes
    ----------
    log_partition, transition_sums, initial_sums, final_sums : ndarray
        As in :class:`ForwardBackward`.
    consumed : Any
        The sum over blocks of what ``consume`` returned.
    """

    log_partition: Floats
    transition_sums: Floats
    initial_sums: Floats
    final_sums: Floats
    consumed: Any


@dataclass(frozen=True)
class Lookup:
    """Potentials of steps that share rows, as those with one symbol do: each row is worked on once.

    Attributes
    ----------
    table : ndarray of shape (n_rows, n_states)
        C order.
    rows : ndarray of shape (n_steps,), int64
        The row of each step; -1 is the last one.
    """

    table: Floats
    rows: Integers

    def __call__(self, steps: slice) -> Floats:
        """Return the log-potentials of these steps, (n_rows, n_states)."""
        return np.take(self.table, self.rows[steps], axis=0, mode="wrap")


#: From a slice of steps to their log-potentials (n_rows, n_states), C order.
StepScorer = Callable[[slice], Floats] | Lookup


@dataclass(frozen=True)
class _Inputs:
    log_emissions: Floats
    offsets: Integers
    log_initial: Floats
    log_transitions: Floats
    log_final: Floats


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
    >>> from crossfade.sequences.recursions import forward_backward
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
    inputs = _checked(log_emissions, offsets, log_initial, log_transitions, log_final)
    marginals = np.empty_like(inputs.log_emissions)
    result = expectations(
        inputs.log_emissions.__getitem__,
        inputs.offsets,
        inputs.log_initial,
        inputs.log_transitions,
        inputs.log_final,
        marginals=marginals,
    )
    _refuse_not_a_number(result.log_partition, inputs)
    return ForwardBackward(
        result.log_partition,
        marginals,
        result.transition_sums,
        result.initial_sums,
        result.final_sums,
    )


def expectations(
    potentials: StepScorer,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats,
    *,
    consume: Callable[[slice, Floats], Any] | None = None,
    marginals: Floats | None = None,
    transitions: bool = True,
) -> Expectations:
    """Run :func:`forward_backward` block by block, never holding all steps' potentials.

    For fitting: a model computes a block's potentials, and sums what it needs from the block's
    marginals, while both are in cache. Arguments are not checked, and a NaN among the potentials
    shows as a NaN log-partition.

    Parameters
    ----------
    potentials : callable or Lookup
        Takes a slice of steps, returns their log-potentials (n_rows, n_states), C order. Called
        on several threads.
    offsets, log_initial, log_transitions, log_final : ndarray
        As in :func:`forward_backward`, contiguous.
    consume : callable, optional
        Takes the slice of steps and their marginals (which it must not keep); returns None, or
        sums (an array, a number or a tuple of these) to be added over blocks. Called on threads.
    marginals : ndarray of shape (n_steps, n_states), optional
        All marginals are written there.
    transitions : bool, default=True
        Whether expected transitions are wanted; they are zero otherwise.

    Returns
    -------
    Expectations
    """
    from crossfade.sequences import kernels

    chain = kernels.make_chain(log_initial, log_transitions, log_final)
    n_states = log_initial.shape[0]
    partition = np.zeros(len(offsets) - 1)
    blocks = sequence_blocks(offsets, n_states)
    prepared = _prepared(potentials, int(offsets[-1]))

    def work(which: slice) -> tuple[Any, ...]:
        outer, direct = np.zeros((2, n_states, n_states))
        initial, final = np.zeros((2, n_states))
        # Without sequences there is one call all the same, so that the sums have their shapes.
        sequences = slice(blocks[which.start], blocks[min(which.stop, len(blocks) - 1)])
        steps, local = _rows(offsets, sequences)
        if marginals is None:
            block = workspace("marginals", steps.stop - steps.start, n_states)
        else:
            block = marginals[steps]
        kernels.forward_backward_block(
            *prepared(steps),
            local,
            chain,
            block,
            partition[sequences],
            outer if transitions else outer[:0],
            direct,
            initial,
            final,
        )
        consumed = None if consume is None else consume(steps, block)
        return outer, direct, initial, final, 0.0 if consumed is None else consumed

    outer, direct, initial, final, consumed = block_sum(work, len(blocks) - 1, block_rows=1)
    return Expectations(partition, outer * chain.transitions + direct, initial, final, consumed)


def log_partition(
    log_emissions: ArrayLike,
    offsets: ArrayLike,
    log_initial: ArrayLike,
    log_transitions: ArrayLike,
    log_final: ArrayLike | None = None,
) -> Floats:
    """Return the log of the sum over all paths for each sequence, shape (n_sequences,).

    Parameters and errors are those of :func:`forward_backward`; only the forward recursion runs.
    """
    from crossfade.sequences import kernels

    inputs = _checked(log_emissions, offsets, log_initial, log_transitions, log_final)
    chain = kernels.make_chain(inputs.log_initial, inputs.log_transitions, inputs.log_final)
    partition = np.zeros(len(inputs.offsets) - 1)
    blocks = sequence_blocks(inputs.offsets, inputs.log_initial.shape[0])
    prepared = _prepared(inputs.log_emissions.__getitem__, len(inputs.log_emissions))

    def work(which: slice) -> None:
        for number in range(which.start, which.stop):
            sequences = slice(blocks[number], blocks[number + 1])
            steps, local = _rows(inputs.offsets, sequences)
            kernels.forward_block(*prepared(steps), local, chain, partition[sequences])

    for_each_block(work, len(blocks) - 1, block_rows=1)
    _refuse_not_a_number(partition, inputs)
    return partition


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
    >>> from crossfade.sequences.recursions import viterbi
    >>> stay = np.log([[0.9, 0.1], [0.1, 0.9]])
    >>> seen = np.log([[0.9, 0.1], [0.4, 0.6], [0.9, 0.1]])
    >>> viterbi(seen, [0, 3], np.log([0.5, 0.5]), stay)[0]
    array([0, 0, 0])
    """
    inputs = _checked(log_emissions, offsets, log_initial, log_transitions, log_final)
    paths, scores = best_paths(
        inputs.log_emissions.__getitem__,
        inputs.offsets,
        inputs.log_initial,
        inputs.log_transitions,
        inputs.log_final,
    )
    _refuse_not_a_number(scores, inputs)
    return paths, scores


def best_paths(
    potentials: StepScorer,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats,
) -> tuple[Integers, Floats]:
    """Run :func:`viterbi` block by block, never holding all steps' potentials.

    Arguments are those of :func:`expectations`, and are not checked; a NaN among the potentials
    shows as a NaN score.
    """
    from crossfade.sequences import kernels

    chain = kernels.make_chain(log_initial, log_transitions, log_final)
    scores = np.zeros(len(offsets) - 1)
    paths = np.zeros(int(offsets[-1]), dtype=np.int64)
    blocks = sequence_blocks(offsets, log_initial.shape[0])
    shared = potentials.table if isinstance(potentials, Lookup) else None

    def work(which: slice) -> None:
        for number in range(which.start, which.stop):
            sequences = slice(blocks[number], blocks[number + 1])
            steps, local = _rows(offsets, sequences)
            if isinstance(potentials, Lookup):
                log_b, at = potentials.table, potentials.rows[steps]
            else:
                log_b, at = potentials(steps), np.arange(steps.stop - steps.start)
            kernels.viterbi_block(log_b, at, local, chain, paths[steps], scores[sequences])
            # A NaN loses every comparison, so it would go unseen in the scores.
            if shared is None and not log_b.sum() < np.inf:
                scores[sequences.start] = np.nan

    for_each_block(work, len(blocks) - 1, block_rows=1)
    if shared is not None and not shared.sum() < np.inf:
        scores[:] = np.nan
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

    Returns
    -------
    ndarray of shape (n_edges, n_states, n_states)
        [edge, from, to]; a sequence of T ≥ 1 steps has T - 1 edges, in order.
    """
    from crossfade.sequences import kernels

    inputs = _checked(log_emissions, offsets, log_initial, log_transitions, log_final)
    chain = kernels.make_chain(inputs.log_initial, inputs.log_transitions, inputs.log_final)
    n_states = inputs.log_initial.shape[0]
    _refuse_not_a_number(inputs.log_emissions.sum(axis=1), inputs, by_step=True)
    n_edges = np.maximum(np.diff(inputs.offsets) - 1, 0)
    edge_offsets = np.concatenate([[0], np.cumsum(n_edges)])
    edges = np.empty((int(edge_offsets[-1]), n_states, n_states))
    blocks = sequence_blocks(inputs.offsets, n_states)

    def work(which: slice) -> None:
        for number in range(which.start, which.stop):
            sequences = slice(blocks[number], blocks[number + 1])
            steps, local = _rows(inputs.offsets, sequences)
            starts = edge_offsets[sequences.start : sequences.stop + 1]
            kernels.log_edges_block(inputs.log_emissions[steps], local, starts, chain, edges)

    for_each_block(work, len(blocks) - 1, block_rows=1)
    return edges


def sequence_blocks(offsets: Integers, n_states: int) -> Integers:
    """Cut sequences into blocks of about equal numbers of steps.

    Parameters
    ----------
    offsets : ndarray of shape (n_sequences + 1,)
    n_states : int

    Returns
    -------
    ndarray of shape (n_blocks + 1,), int64
        First sequence of each block, and the number of sequences. It depends on the sequences and
        the number of states alone, so sums over blocks do not depend on the number of threads.
    """
    n_sequences = len(offsets) - 1
    if n_sequences == 0:
        return np.zeros(1, dtype=np.int64)
    target = max(64, _BLOCK_NUMBERS // max(n_states, 1))
    changes = np.flatnonzero(np.diff(offsets[:-1] // target)) + 1
    return np.concatenate([[0], changes, [n_sequences]]).astype(np.int64)


def _rows(offsets: Integers, sequences: slice) -> tuple[slice, Integers]:
    local = offsets[sequences.start : sequences.stop + 1]
    return slice(int(local[0]), int(local[-1])), local - local[0]


#: Log-potentials, their exponentials, shifts, and each step's row, as the block kernels have them.
_Prepared = tuple[Floats, Floats, Floats, Integers]


def _prepared(potentials: StepScorer, n_steps: int) -> Callable[[slice], _Prepared]:
    """Return the function from steps to what the block kernels take of them."""
    if isinstance(potentials, Lookup) and len(potentials.table) <= n_steps:
        table, rows = potentials.table, potentials.rows
        exponentials = _exponentials(table, np.empty_like(table), np.empty(len(table)))
        return lambda steps: (table, *exponentials, rows[steps])

    def dense(steps: slice) -> _Prepared:
        log_b = potentials(steps)
        n_rows, n_states = log_b.shape
        b = workspace("exponentials", n_rows, n_states)
        return log_b, *_exponentials(log_b, b, workspace("shifts", n_rows)), np.arange(n_rows)

    return dense


def _exponentials(log_b: Floats, b: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Return exp(log_b - row maximum) and the row maxima; NumPy's exp is a vector one."""
    from crossfade.sequences import kernels

    kernels.shift_rows(log_b, b, shift)
    np.exp(b, out=b)
    return b, shift


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
    return _Inputs(
        emissions, starts, initial, transitions, _potentials(final, "log_final", (n_states,))
    )


def _potentials(values: ArrayLike, name: str, shape: tuple[int, ...]) -> Floats:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != shape:
        raise DataError(
            f"{name}: expected shape {shape!r} to go with log_emissions, got {array.shape!r}"
        )
    if np.isnan(array).any() or (array == np.inf).any():
        raise DataError(f"{name}: expected numbers or -inf (forbidden), got {array!r}")
    return array


def _refuse_not_a_number(values: Floats, inputs: _Inputs, *, by_step: bool = False) -> None:
    """Raise with the step's number if results show a NaN or +inf among the potentials."""
    if not (np.isnan(values).any() or (values == np.inf).any()):
        return
    bad = np.isnan(inputs.log_emissions) | (inputs.log_emissions == np.inf)
    if not bad.any():
        if by_step:
            return
        raise DataError(
            "log_emissions: expected potentials whose sums stay within the range of doubles, "
            "got sums beyond it; subtract a constant from the potentials"
        )
    step, state = (int(i) for i in np.argwhere(bad)[0])
    sequence = int(np.searchsorted(inputs.offsets, step, side="right")) - 1
    raise DataError(
        f"log_emissions: expected numbers or -inf (forbidden), got "
        f"{inputs.log_emissions[step, state]!r} for state {state} at step "
        f"{step - int(inputs.offsets[sequence])} of sequence {sequence}; mark a missing step with "
        "zeros in all states"
    )
