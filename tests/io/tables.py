"""Tables that the tests of model files share."""

from __future__ import annotations

import numpy as np
import polars as pl


def mixed_table(n_rows: int = 200, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray]:
    """Return a table with a column of every kind, some cells missing, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    towns = np.array(["Oslo", "Bern", "Rome", None], dtype=object)
    picked = (rng.integers(4, size=n_rows) + y * rng.integers(2, size=n_rows)) % 4
    table = pl.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows) + 10 * y,
            "visits": rng.poisson(1 + 2 * y),
            "member": rng.random(n_rows) < 0.3 + 0.4 * y,
            "town": towns[picked].tolist(),
        }
    )
    gone = pl.Series(rng.random(n_rows) < 0.1)
    blanked = [
        pl.when(gone.shuffle(seed=k)).then(None).otherwise(pl.col(name)).alias(name)
        for k, name in enumerate(("age", "visits", "member"))
    ]
    return table.with_columns(blanked), np.array(["no", "yes"], dtype=object)[y]


def numbers(n_rows: int = 120, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return an array of numbers in odd units, and labels."""
    rng = np.random.default_rng(1)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, 3)) + y[:, None]
    return X * [1.0, 1e-3, 50.0] + [0.0, 10.0, -1e4], y
