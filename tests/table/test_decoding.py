"""Tables come back in the library, and with the values, they came in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crossfade.table import Schema
from crossfade.table.decoding import decoded_table, table_library
from tests.table.tables import CELLS, objects


@pytest.mark.parametrize(
    ("X", "library"),
    [
        (pl.DataFrame(CELLS), "polars"),
        (pd.DataFrame(CELLS), "pandas"),
        (pa.table(CELLS), "pyarrow"),
        (objects(CELLS), None),
        (np.eye(2), None),
        ([[1.0]], None),
    ],
)
def test_tables_survive_the_round_trip(X: object, library: str | None) -> None:
    assert table_library(X) == library
    schema = Schema.learn(X)
    matrix = schema.encode(X)
    again = decoded_table(schema, matrix, library)
    if library is not None:
        assert type(again) is type(X)
    if schema.has_names or library is None:
        assert Schema.learn(again).categories == schema.categories
    np.testing.assert_array_equal(schema.encode(again), matrix)


def test_arrays_of_numbers_are_the_matrix_itself() -> None:
    X = np.array([[1.5, np.nan]])
    assert decoded_table(Schema.learn(X), X, None) is X
