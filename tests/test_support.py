"""What other tests lean on must itself be able to fail."""

from __future__ import annotations

import copy
import dis
import inspect
import itertools
from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support import REPEATED, covering, same

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


@pytest.mark.parametrize(("module", "name"), [case[:2] for case in REPEATED])
def test_what_is_repeated_less_often_in_tests_is_looked_up_when_it_is_needed(module, name):
    owner = import_module(f"crossfade.{module}")
    whole = owner.__loader__.get_code(owner.__name__)
    inner = [code for code in _within(whole) if code.co_flags & inspect.CO_NEWLOCALS]
    looked_up = {
        step.argval
        for code in inner
        for step in dis.get_instructions(code)
        if step.opname == "LOAD_GLOBAL"
    }
    assert name in looked_up


def _within(code):
    for one in code.co_consts:
        if inspect.iscode(one):
            yield one
            yield from _within(one)
