"""What other tests lean on must itself be able to fail."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.support import same

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
