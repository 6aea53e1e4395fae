"""The chain recursions block by block: for models that score a block of steps while it is in cache.

Notation and conventions are those of :mod:`crossfade.chains.recursions`, whose functions are
built on these. Arguments are not checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum, for_each_block, workspace

#: Numbers in one block's potentials: 65,536 doubles and their posteriors stay in cache.
_BLOCK_NUMBERS = 65_536


@dataclass(frozen=True)
class Expectations:
    """What :func:`expectations` gives: ``ForwardBackward``'s, and what ``consume`` gave, summed."""

    log_partition: Floats
    transition_sums: Floats
    initial_sums: Floats
    final_sums: Floats
    consumed: Any


@dataclass(frozen=True)
class Lookup:
    """Potentials of steps that share rows, as those with one symbol do: each row is worked on once.

    `table` (n_rows, n_states): C order.
    `rows` (n_steps,), int64: The row of each step; -1 is the last one.
    """

    table: Floats
    rows: Integers

    def __call__(self, steps: slice) -> Floats:
        """Return the log-potentials of these steps, (n_rows, n_states)."""
        return np.take(self.table, self.rows[steps], axis=0, mode="wrap")


#: From a slice of steps to their log-potentials (n_rows, n_states), C order.
StepScorer = Callable[[slice], Floats] | Lookup


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
    backward: bool = True,
) -> Expectations:
    """Run ``forward_backward`` by blocks, on unchecked arguments; a NaN gives a NaN log-partition.

    Without `backward` there are log-partitions alone. Shapes: marginals (n_steps, n_states).
    """
    from crossfade.chains import kernels

    chain = kernels.make_chain(log_initial, log_transitions, log_final)
    n_states = log_initial.shape[0]
    partition = np.zeros(len(offsets) - 1)
    blocks = sequence_blocks(offsets, n_states)
    prepared = prepare(potentials, int(offsets[-1]))

    def work(which: slice) -> tuple[Any, ...]:
        outer, direct, spare = np.zeros((3, n_states, n_states))
        ends = np.zeros((2, n_states))
        # Without sequences there is one call all the same, so that the sums have their shapes.
        sequences = slice(blocks[which.start], blocks[min(which.stop, len(blocks) - 1)])
        steps, local = rows_of(offsets, sequences)
        if marginals is None:
            block = workspace("marginals", steps.stop - steps.start, n_states)
        else:
            block = marginals[steps]
        log_b, b, shift, at = prepared(steps)
        found = partition[sequences]
        kernels.forward_backward_block(
            log_b,
            b,
            shift,
            at,
            local,
            chain,
            backward,
            block,
            found,
            outer if transitions else outer[:0],
            spare,
            ends,
            np.empty(np.diff(local).max(initial=0)),
            np.empty((kernels.WORK_ROWS, n_states)),
        )
        for s in np.flatnonzero(np.isnan(found)):
            lo, hi = local[s], local[s + 1]
            none = np.empty((0, n_states, n_states))
            rows = log_b[at[lo:hi]]
            found[s] = kernels.log_forward_backward(rows, chain, block[lo:hi], direct, none)
            ends += block[lo], block[hi - 1]
        consumed = None if consume is None else consume(steps, block)
        return outer, direct, ends, 0.0 if consumed is None else consumed

    outer, direct, ends, consumed = block_sum(work, len(blocks) - 1, block_rows=1)
    return Expectations(partition, outer * chain.transitions + direct, ends[0], ends[1], consumed)


def best_paths(
    potentials: StepScorer,
    offsets: Integers,
    log_initial: Floats,
    log_transitions: Floats,
    log_final: Floats,
) -> tuple[Integers, Floats]:
    """Run ``viterbi`` by blocks, on unchecked arguments; a NaN potential gives a NaN score."""
    from crossfade.chains import kernels

    chain = kernels.make_chain(log_initial, log_transitions, log_final)
    scores = np.zeros(len(offsets) - 1)
    paths = np.zeros(int(offsets[-1]), dtype=np.int64)
    blocks = sequence_blocks(offsets, log_initial.shape[0])
    shared = potentials.table if isinstance(potentials, Lookup) else None

    def work(which: slice) -> None:
        for number in range(which.start, which.stop):
            sequences = slice(blocks[number], blocks[number + 1])
            steps, local = rows_of(offsets, sequences)
            if isinstance(potentials, Lookup):
                log_b, at = potentials.table, potentials.rows[steps]
            else:
                log_b, at = potentials(steps), np.arange(steps.stop - steps.start)
            kernels.viterbi_block(
                log_b,
                at,
                local,
                chain,
                paths[steps],
                scores[sequences],
                np.empty((np.diff(local).max(), log_b.shape[1])),
                np.empty((2, log_b.shape[1])),
            )
            # A NaN loses every comparison, so it would go unseen in the scores.
            if shared is None and not log_b.sum() < np.inf:
                scores[sequences.start] = np.nan

    for_each_block(work, len(blocks) - 1, block_rows=1)
    if shared is not None and not shared.sum() < np.inf:
        scores[:] = np.nan
    return paths, scores


def sequence_blocks(offsets: Integers, n_states: int) -> Integers:
    """Cut sequences into blocks of about equal numbers of steps.

    Shapes: offsets (n_sequences + 1,); → (n_blocks + 1,).
    """
    n_sequences = len(offsets) - 1
    if n_sequences == 0:
        return np.zeros(1, dtype=np.int64)
    target = max(64, _BLOCK_NUMBERS // max(n_states, 1))
    changes = np.flatnonzero(np.diff(offsets[:-1] // target)) + 1
    return np.concatenate([[0], changes, [n_sequences]]).astype(np.int64)


def rows_of(offsets: Integers, sequences: slice) -> tuple[slice, Integers]:
    """Return the steps of a block of sequences, and its sequences' offsets among these."""
    local = offsets[sequences.start : sequences.stop + 1]
    return slice(int(local[0]), int(local[-1])), local - local[0]


#: Log-potentials, their exponentials, shifts, and each step's row, as the block kernels have them.
_Prepared = tuple[Floats, Floats, Floats, Integers]


def prepare(potentials: StepScorer, n_steps: int) -> Callable[[slice], _Prepared]:
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
    from crossfade.chains import kernels

    kernels.shift_rows(log_b, b, shift)
    np.exp(b, out=b)
    return b, shift
