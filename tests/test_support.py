"""What other tests lean on must itself be able to fail."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support import covering, same

CASES = {
    "floats": (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
    "objects": (np.array(["a", None], dtype=object), np.array(["a", "b"], dtype=object)),
    "dtype": (np.array([1, 2]), np.array([1.0, 2.0])),
    "shape": (np.zeros((2, 1)), np.zeros(2)),
    "pandas": (pd.DataFrame({"a": [1.0, np.nan]}), pd.DataFrame({"a": [1.0, 0.0]})),
    "polars": (pl.DataFrame({"a": [1, None]}), pl.DataFrame({"a": [1, 2]})),
    "dict": ({"a": [1, 2]}, {"a": [1, 3]}),
    "list": ([1, 2], [1, 2, 3]),
    "text": ("a", "b"),
}


@pytest.mark.parametrize("case", CASES)
def test_same_tells_apart_what_differs_and_only_that(case: str):
    thing, other = CASES[case]
    assert same(thing, copy.deepcopy(thing))
    assert not same(thing, other)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("sizes", [(8, 3), (2, 2), (3, 4, 2), (2, 2, 3, 5)])
def test_every_value_of_two_factors_and_every_pair_of_more_is_kept(sizes, start):
    cases = list(itertools.product(*map(range, sizes)))
    kept = [cases[place] for place in covering(cases, start % len(cases))]
    strength = 1 if len(sizes) == 2 else 2
    for places in itertools.combinations(range(len(sizes)), strength):
        wanted = itertools.product(*(range(sizes[place]) for place in places))
        assert {tuple(case[place] for place in places) for case in kept} == set(wanted)
    assert len(kept) < (len(cases) if max(sizes) > 2 else 3)
    # Of a table with holes, too.
    few = cases[::2]
    assert {value for case in few for value in enumerate(case)} == {
        value for place in covering(few) for value in enumerate(few[place])
    }


def test_another_start_meets_other_combinations():
    cases = list(itertools.product(range(8), range(4)))
    chosen = {place for start in range(32) for place in covering(cases, start)}
    assert len(chosen) > 24
