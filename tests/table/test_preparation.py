from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from crossfade.errors import DataError
from crossfade.table.preparation import Preparation

DATA = {
    "size": [1.5, None, 3.25, 4.0, -1.0],
    "colour": ["red", "blue", None, "red", "green"],
    "flag": [True, False, None, True, True],
    "count": [1, 2, 30, 4, 200],
    "constant": [0.1, 0.1, 0.1, 0.1, 0.1],
}


def test_numbers_equal_scikit_learns_imputer_and_scaler():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * [1, 1e-9, 1e9, 3] + [0, 1, 5, -2]
    X[rng.random(X.shape) < 0.2] = np.nan
    new = rng.normal(size=(7, 4))
    new[0, 0] = np.nan
    theirs = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X)
    ours = Preparation().fit(X)
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.fit_transform(X), theirs.transform(X), rtol=1e-9, atol=1e-9)


def test_text_equals_scikit_learns_one_hot():
    rng = np.random.default_rng(1)
    train = pd.DataFrame({"a": rng.choice(list("pqrs"), 40), "b": rng.choice(list("xy"), 40)})
    new = pd.DataFrame({"a": ["p", "z", "s"], "b": ["x", "x", "?"]})
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    theirs = make_pipeline(encoder, StandardScaler()).fit(train).transform(new)
    ours = Preparation().fit(train).transform(new)
    assert ours.shape == theirs.shape
    # The columns stand in another order: by frequency.
    np.testing.assert_allclose(np.sort(ours, axis=1), np.sort(theirs, axis=1))


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        lambda data: pd.DataFrame(data).convert_dtypes(),
        lambda data: pd.DataFrame(data).astype({"colour": "category"}),
        lambda data: pl.DataFrame(data).with_columns(pl.col("colour").cast(pl.Categorical)),
        pa.table,
        lambda data: np.array(pd.DataFrame(data), dtype=object),
    ],
    ids=["pandas", "nullable", "category", "polars-categorical", "pyarrow", "objects"],
)
def test_the_container_does_not_matter(convert):
    expected = Preparation().fit_transform(pl.DataFrame(DATA))
    np.testing.assert_allclose(Preparation().fit_transform(convert(DATA)), expected, atol=1e-12)
    assert np.isfinite(expected).all()


def test_constant_columns_become_zero():
    assert (Preparation().fit_transform(pl.DataFrame(DATA))[:, -1] == 0).all()


def test_row_order_does_not_matter():
    frame = pl.DataFrame(DATA)
    order = [3, 1, 4, 0, 2]
    expected = Preparation().fit_transform(frame)[order]
    np.testing.assert_allclose(Preparation().fit_transform(frame[order]), expected, atol=1e-12)


def test_drop_first_leaves_full_rank():
    frame = pl.DataFrame({"a": list("ppqqrs") * 5, "b": [1.0, 2.0, 3.0, 5.0, 8.0] * 6})
    whole = Preparation().fit_transform(frame)
    dropped = Preparation(drop_first=True).fit_transform(frame)
    assert np.linalg.matrix_rank(whole) == whole.shape[1] - 1
    assert np.linalg.matrix_rank(dropped) == dropped.shape[1] == whole.shape[1] - 1


def test_the_most_frequent_levels_are_kept():
    frame = pl.DataFrame({"id": ["common"] * 5 + ["often"] * 3 + [f"row {i}" for i in range(90)]})
    preparation = Preparation(max_levels=2).fit(frame)
    shown = preparation.transform(pl.DataFrame({"id": ["common", "often", "row 1", "new"]}))
    assert shown.shape == (4, 2)
    assert len(np.unique(shown.round(9), axis=0)) == 3


def test_other_columns_than_in_fit_are_refused():
    preparation = Preparation().fit(np.eye(3))
    with pytest.raises(DataError, match="X: expected the 3 columns of fit, got 2"):
        preparation.transform(np.eye(2))
