"""The chain recursions against every path, against each other and at their limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfade import HiddenMarkovModel
from crossfade._compiled import Kernel
from crossfade.blocks import threads
from crossfade.chains import kernels, recursions
from crossfade.chains.block_recursions import Lookup, best_paths
from crossfade.errors import DataError
from tests.chains import reference


def random_chain(rng, lengths, n_states, *, forbid=0.0, spread=2.0, final=True):
    """Unnormalised potentials of a random chain, a share of them -inf."""
    total = int(np.sum(lengths))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    emissions = spread * rng.normal(size=(total, n_states))
    initial = rng.normal(size=n_states)
    transitions = spread * rng.normal(size=(n_states, n_states))
    last = rng.normal(size=n_states) if final else None
    if forbid:
        transitions[rng.random(transitions.shape) < forbid] = -np.inf
        emissions[rng.random(emissions.shape) < forbid / 2] = -np.inf
    return emissions, offsets, initial, transitions, last


def all_paths(emissions, initial, transitions, final):
    """Every path of one sequence with its log-potential."""
    n_steps, n_states = emissions.shape
    for path in itertools.product(range(n_states), repeat=n_steps):
        score = initial[path[0]] + sum(emissions[t, k] for t, k in enumerate(path))
        score += sum(transitions[i, j] for i, j in itertools.pairwise(path))
        yield path, score + (0.0 if final is None else final[path[-1]])


def brute_force(emissions, offsets, initial, transitions, final):
    n_states = len(initial)
    partition = np.zeros(len(offsets) - 1)
    marginals = np.zeros_like(emissions)
    edges, best = [], []
    for s in range(len(offsets) - 1):
        rows = emissions[offsets[s] : offsets[s + 1]]
        if len(rows) == 0:
            continue
        paths, scores = zip(*all_paths(rows, initial, transitions, final), strict=True)
        weights = np.exp(scores)
        total = weights.sum()
        with np.errstate(divide="ignore"):
            partition[s] = np.log(total)
        here = np.zeros((len(rows) - 1, n_states, n_states))
        for path, weight in zip(paths, weights, strict=True):
            if weight == 0.0:
                continue
            for t, k in enumerate(path):
                marginals[offsets[s] + t, k] += weight / total
            for t, (i, j) in enumerate(itertools.pairwise(path)):
                here[t, i, j] += weight / total
        edges.append(here)
        best.append((paths[int(np.argmax(scores))], max(scores)))
    return partition, marginals, np.concatenate(edges), best


@pytest.mark.parametrize("module", [recursions, reference])
@pytest.mark.parametrize("forbid", [0.0, 0.3])
@pytest.mark.parametrize("final", [True, False])
def test_every_recursion_equals_the_sum_over_all_paths(module, forbid, final):
    rng = np.random.default_rng(7)
    for n_states in (1, 2, 3):
        chain = random_chain(rng, [4, 0, 1, 6, 2], n_states, forbid=forbid, final=final)
        partition, marginals, edges, best = brute_force(*chain)
        result = module.forward_backward(*chain)
        np.testing.assert_allclose(result.log_partition, partition, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(module.log_partition(*chain), partition, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.marginals, marginals, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(module.edge_marginals(*chain), edges, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(
            result.transition_sums, edges.sum(axis=0), rtol=1e-11, atol=1e-13
        )
        offsets = chain[1]
        first, last = offsets[:-1][np.diff(offsets) > 0], offsets[1:][np.diff(offsets) > 0] - 1
        np.testing.assert_allclose(result.initial_sums, marginals[first].sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(result.final_sums, marginals[last].sum(axis=0), atol=1e-12)
        paths, scores = module.viterbi(*chain)
        for (path, score), lo, n, got in zip(
            best,
            offsets[:-1][np.diff(offsets) > 0],
            np.diff(offsets)[np.diff(offsets) > 0],
            scores[np.diff(offsets) > 0],
            strict=True,
        ):
            if np.isfinite(score):
                assert tuple(paths[lo : lo + n]) == path
                np.testing.assert_allclose(got, score, rtol=1e-13)
            else:
                assert got == -np.inf


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    lengths=st.lists(st.integers(0, 30), min_size=0, max_size=6),
    n_states=st.integers(1, 6),
    forbid=st.sampled_from([0.0, 0.2, 0.6]),
    spread=st.sampled_from([1.0, 30.0, 1000.0]),
)
def test_compiled_equals_reference(seed, lengths, n_states, forbid, spread):
    rng = np.random.default_rng(seed)
    chain = random_chain(rng, lengths, n_states, forbid=forbid, spread=spread)
    fast, plain = recursions.forward_backward(*chain), reference.forward_backward(*chain)
    np.testing.assert_allclose(fast.log_partition, plain.log_partition, rtol=1e-12, atol=1e-10)
    # Logarithms of size 1e4 leave 1e-12 of a probability's digits behind.
    tolerance = 1e-12 * max(1.0, spread)
    np.testing.assert_allclose(fast.marginals, plain.marginals, atol=tolerance)
    np.testing.assert_allclose(fast.transition_sums, plain.transition_sums, atol=30 * tolerance)
    np.testing.assert_array_equal(recursions.log_partition(*chain), fast.log_partition)
    edges = recursions.edge_marginals(*chain)
    np.testing.assert_allclose(edges, reference.edge_marginals(*chain), atol=tolerance)
    paths, scores = recursions.viterbi(*chain)
    same_paths, same_scores = reference.viterbi(*chain)
    np.testing.assert_array_equal(paths, same_paths)
    np.testing.assert_array_equal(scores, same_scores)
    rows = fast.marginals.sum(axis=1)
    possible = np.repeat(np.isfinite(fast.log_partition), np.diff(chain[1]))
    np.testing.assert_allclose(rows, possible.astype(float), atol=1e-12)


def test_edges_of_a_step_sum_to_its_marginals():
    chain = random_chain(np.random.default_rng(3), [7, 5], 4)
    marginals = recursions.forward_backward(*chain).marginals
    edges = recursions.edge_marginals(*chain)
    np.testing.assert_allclose(edges[:6].sum(axis=2), marginals[:6], atol=1e-13)
    np.testing.assert_allclose(edges[6:].sum(axis=1), marginals[8:], atol=1e-13)


def test_derivatives_of_the_log_partition_are_the_expectations():
    emissions, offsets, initial, transitions, final = random_chain(
        np.random.default_rng(5), [6, 3], 3
    )
    result = recursions.forward_backward(emissions, offsets, initial, transitions, final)

    def slope(array, place):
        values = []
        for sign in (1.0, -1.0):
            array[place] += sign * 1e-5
            values.append(
                recursions.log_partition(emissions, offsets, initial, transitions, final).sum()
            )
            array[place] -= sign * 1e-5
        return (values[0] - values[1]) / 2e-5

    for array, expected in (
        (emissions, result.marginals),
        (initial, result.initial_sums),
        (transitions, result.transition_sums),
        (final, result.final_sums),
    ):
        for place in np.ndindex(array.shape):
            assert slope(array, place) == pytest.approx(expected[place], abs=1e-8)


def test_a_million_steps():
    rng = np.random.default_rng(0)
    n_steps = 1_000_000
    emissions = rng.normal(size=(n_steps, 2)) * 3 - 500.0
    stay = np.log([[0.9, 0.1], [0.2, 0.8]])
    result = recursions.forward_backward(emissions, [0, n_steps], np.log([0.5, 0.5]), stay)
    assert np.isfinite(result.log_partition).all()
    np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-12)
    assert result.transition_sums.sum() == pytest.approx(n_steps - 1, rel=1e-12)
    path, score = recursions.viterbi(emissions, [0, n_steps], np.log([0.5, 0.5]), stay)
    along = (
        np.log(0.5) + emissions[np.arange(n_steps), path].sum() + stay[path[:-1], path[1:]].sum()
    )
    # A running sum of a million terms keeps 11 digits; the pairwise sum keeps them all.
    assert score[0] == pytest.approx(along, rel=1e-11)
    assert score[0] < result.log_partition[0] < score[0] + n_steps * np.log(2)
    # Far from the ends a window of the data gives the same posteriors.
    window = recursions.forward_backward(emissions[:600], [0, 600], np.log([0.5, 0.5]), stay)
    np.testing.assert_allclose(window.marginals[:300], result.marginals[:300], atol=1e-12)


def test_underflow_that_matters_later_is_noticed():
    # The path that stays in state 0 loses e^-800 at first, wins at the end; states never change.
    n_steps = 40
    emissions = np.zeros((n_steps, 2))
    emissions[0, 0] = -800.0
    emissions[10:, 1] = -100.0
    frozen = np.log(np.eye(2), where=np.eye(2) > 0, out=np.full((2, 2), -np.inf))
    chain = (emissions, np.array([0, n_steps]), np.zeros(2), frozen, np.zeros(2))
    fast, plain = recursions.forward_backward(*chain), reference.forward_backward(*chain)
    np.testing.assert_allclose(fast.log_partition, plain.log_partition, rtol=1e-13)
    np.testing.assert_allclose(fast.marginals, plain.marginals, atol=1e-12)
    assert fast.marginals[0, 0] == pytest.approx(1.0)
    # … and where it loses at both ends but wins in the middle.
    emissions[:] = 0.0
    emissions[0, 0] = emissions[-1, 0] = -800.0
    emissions[5:35, 1] = -100.0
    fast, plain = recursions.forward_backward(*chain), reference.forward_backward(*chain)
    np.testing.assert_allclose(fast.marginals, plain.marginals, atol=1e-12)
    assert fast.marginals[20, 0] == pytest.approx(1.0)


def test_left_to_right_chain_with_far_away_states():
    # Step t belongs to state t // 20; other states' emissions underflow by far.
    n_states, stay = 5, np.log(0.9)
    transitions = np.full((n_states, n_states), -np.inf)
    for k in range(n_states):
        transitions[k, k] = stay
        if k + 1 < n_states:
            transitions[k, k + 1] = np.log(0.1)
    steps = np.arange(100)[:, None] // 20
    emissions = -2000.0 * (steps - np.arange(n_states)) ** 2.0
    initial = np.where(np.arange(n_states) == 0, 0.0, -np.inf)
    chain = (emissions, np.array([0, 100]), initial, transitions)
    fast, plain = recursions.forward_backward(*chain), reference.forward_backward(*chain)
    np.testing.assert_allclose(fast.log_partition, plain.log_partition, rtol=1e-12)
    np.testing.assert_allclose(fast.marginals, plain.marginals, atol=1e-12)
    np.testing.assert_allclose(fast.transition_sums, plain.transition_sums, atol=1e-10)


def test_no_transition_crosses_a_boundary():
    rng = np.random.default_rng(11)
    chain = random_chain(rng, [5, 1, 8], 3)
    together = recursions.forward_backward(*chain)
    sums = np.zeros((3, 3))
    for s in range(3):
        rows = slice(chain[1][s], chain[1][s + 1])
        alone = recursions.forward_backward(chain[0][rows], [0, rows.stop - rows.start], *chain[2:])
        np.testing.assert_array_equal(alone.marginals, together.marginals[rows])
        sums += alone.transition_sums
    np.testing.assert_allclose(sums, together.transition_sums, atol=1e-13)


def test_results_do_not_depend_on_the_number_of_threads():
    chain = random_chain(np.random.default_rng(2), [300] * 900, 3)
    with threads(1):
        one = recursions.forward_backward(*chain)
        paths, _ = recursions.viterbi(*chain)
    with threads(4):
        four = recursions.forward_backward(*chain)
        same_paths, _ = recursions.viterbi(*chain)
    for name in ("log_partition", "marginals", "transition_sums", "initial_sums", "final_sums"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))
    np.testing.assert_array_equal(paths, same_paths)


def test_inputs_of_any_order_and_kind_are_left_alone():
    emissions, offsets, initial, transitions, final = random_chain(
        np.random.default_rng(4), [4, 3], 3
    )
    expected = recursions.forward_backward(emissions, offsets, initial, transitions, final)
    readonly = np.asfortranarray(emissions)
    readonly.flags.writeable = False
    result = recursions.forward_backward(
        readonly, list(offsets), list(initial), np.asfortranarray(transitions), final
    )
    np.testing.assert_array_equal(result.marginals, expected.marginals)
    nothing = recursions.forward_backward(np.zeros((0, 3)), [0, 0], initial, transitions, final)
    assert nothing.log_partition.tolist() == [0.0]
    assert recursions.forward_backward(
        np.zeros((0, 3)), [0], initial, transitions
    ).marginals.shape == (0, 3)


@pytest.mark.parametrize(
    "function",
    [
        recursions.forward_backward,
        recursions.log_partition,
        recursions.viterbi,
        recursions.edge_marginals,
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_potentials_that_are_no_numbers_are_refused_with_their_place(function, value):
    emissions, offsets, initial, transitions, _ = random_chain(np.random.default_rng(4), [4, 3], 3)
    emissions[5, 2] = value
    with pytest.raises(DataError, match="for state 2 at step 1 of sequence 1"):
        function(emissions, offsets, initial, transitions)
    emissions[5, 2] = 0.0
    with pytest.raises(DataError, match="log_initial: expected numbers or -inf"):
        function(emissions, offsets, np.full(3, value), transitions)


def test_shapes_that_disagree_are_refused():
    emissions, offsets, initial, transitions, _ = random_chain(np.random.default_rng(4), [4, 3], 3)
    with pytest.raises(DataError, match="offsets: expected non-decreasing integers from 0 to 7"):
        recursions.viterbi(emissions, [0, 5, 4, 7], initial, transitions)
    with pytest.raises(DataError, match=r"log_transitions: expected shape \(3, 3\)"):
        recursions.viterbi(emissions, offsets, initial, transitions[:2])
    with pytest.raises(DataError, match="log_emissions: expected an array of shape"):
        recursions.viterbi(emissions[:, 0], offsets, initial, transitions)


@pytest.mark.parametrize("n_states", [1, 2, 3, 7, 10, 15, 16, 31, 47, 65])
def test_shared_rows_and_ties_give_the_reference_path(n_states):
    """Whole numbers make many ties; each step's row is looked up, -1 being the last one."""
    rng = np.random.default_rng(n_states)
    offsets = np.cumsum([0, 40, 1, 0, 23])
    table = rng.integers(-2, 3, size=(6, n_states)).astype(np.float64)
    table[-1] = 0.0
    rows = rng.integers(-1, 5, size=offsets[-1])
    initial = rng.integers(-2, 3, size=n_states).astype(np.float64)
    transitions = rng.integers(-2, 3, size=(n_states, n_states)).astype(np.float64)
    transitions[rng.random(transitions.shape) < 0.2] = -np.inf
    np.fill_diagonal(transitions, 0.0)
    last = rng.integers(-2, 3, size=n_states).astype(np.float64)
    shared = Lookup(table, rows)
    paths, scores = best_paths(shared, offsets, initial, transitions, last)
    expected = reference.viterbi(table[rows], offsets, initial, transitions, last)
    np.testing.assert_array_equal(paths, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_rows_in_another_order_are_refused():
    """Kernels read along the rows; columns side by side would be read as something else."""
    table = np.asfortranarray(np.zeros((3, 2)))
    shared = Lookup(table, np.array([0, 1, 2]))
    with pytest.raises(Exception, match="expected C-ordered matrices"):
        best_paths(shared, np.array([0, 3]), np.zeros(2), np.zeros((2, 2)), np.zeros(2))


def test_first_fits_compile_only_what_they_call(monkeypatch):
    known = {name: one for name, one in vars(kernels).items() if isinstance(one, Kernel)}
    for one in known.values():
        monkeypatch.setattr(one, "_code", {})
    X = [np.arange(3.0)[:, None] ** 2] * 9
    found = []
    for labels in ([[0, 1, 0]] * 9, None):
        HiddenMarkovModel(n_states=2, emission="gaussian").fit(X, labels)
        codes = {name: list(one._code.values()) for name, one in known.items() if one._code}
        found.append({name: [len(code.signatures) for code in own] for name, own in codes.items()})
    assert found[0] == {}
    # What they call in turn comes with them where they come from the cache.
    found[1].pop("_possible_loss", None)
    assert found[1] == {name: [1] for name in ("shift_rows", "forward_backward_block")}
