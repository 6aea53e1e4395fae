"""Generated tables of columns of every kind."""

from __future__ import annotations

import numpy as np
import polars as pl


def mixed_table(n_rows: int, seed: int = 0) -> pl.DataFrame:
    """Return a table with gaps, a tail, categories, grades, counts, booleans and labels."""
    rng = np.random.default_rng(seed)
    code = rng.integers(3, size=n_rows)
    level = rng.normal(size=n_rows) + code
    level[rng.random(n_rows) < 0.1] = np.nan
    region = rng.choice(list("uvwxyz"), size=n_rows).astype(object)
    region[rng.random(n_rows) < 0.1] = None
    return pl.DataFrame(
        {
            "level": pl.Series(level).fill_nan(None),
            "tail": rng.exponential(size=n_rows) * (1 + code),
            "region": pl.Series(region.tolist(), dtype=pl.String),
            "grade": rng.integers(0, 4, size=n_rows) + (code == 1),
            "count": rng.poisson(1.0 + code),
            "flag": rng.random(n_rows) < 0.3 + 0.1 * code,
            "y": pl.Series(np.array(["a", "b", "c"])[code].tolist()),
        }
    )
