"""One table in every library, and columns that hostile users have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

HOSTILE = (
    "",
    " ",
    "'single' and \"double\"",
    "<script>alert(1)</script>",
    "🦜 émoji",
    "x" * 300,
    "a,b\nc",
    "NaN",
    "None",
    "-1",
    "\\N{BULLET}",
    "ß",
    "SS",
)

CELLS: dict[str, list[Any]] = {
    "city": ["Oslo", "Bern", None, "Oslo", "<script>"],
    "age": [31.5, None, 20.25, 1.25, 3.5],
    "visits": [0, 1, 2, 1, 3],
    "member": [True, False, True, None, False],
    "flag": [1, 0, 1, 1, 0],
    "gaps": [1, None, 0, 1, 0],
    "balance": [-5, 100, 7, 7, 1000],
}


def every_library(cells: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the same table as every library and column type would hold it."""
    polars = pl.DataFrame(cells)
    pandas = pd.DataFrame(cells)
    texts = [name for name, column in cells.items() if any(isinstance(c, str) for c in column)]
    coded = polars.with_columns(pl.col(name).cast(pl.Categorical) for name in texts)
    return {
        "polars": polars,
        "polars categorical": coded,
        "polars chunked": pl.concat([polars[:2], polars[2:]], rechunk=False),
        "pandas": pandas,
        "pandas objects": pandas.astype(object),
        "pandas nullable": pandas.convert_dtypes(),
        "pandas categorical": pandas.astype(dict.fromkeys(texts, "category")),
        "pandas arrow": polars.to_pandas(use_pyarrow_extension_array=True),
        "arrow": polars.to_arrow(),
        "arrow dictionary": coded.to_arrow(),
        "arrow chunked": pa.concat_tables([polars[:2].to_arrow(), polars[2:].to_arrow()]),
    }


def objects(cells: dict[str, list[Any]]) -> np.ndarray:
    """Return the table as a NumPy array of Python objects."""
    table = np.empty((len(next(iter(cells.values()))), len(cells)), dtype=object)
    for index, column in enumerate(cells.values()):
        table[:, index] = column
    return table
