"""Columns of exactly two different numbers: one bit, whatever the numbers and their container."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from onnxruntime import InferenceSession

from crossfade import GaussianDiscriminant, NaiveBayes, UnseenNumbersWarning, explain
from crossfade.errors import DataError
from crossfade.io import load_model, save_model, scan, to_onnx
from crossfade.table import Schema
from crossfade.table.kinds import FEWEST_OF_TWO
from crossfade.table.source import MemorySource

CODINGS = [(1, 2), (-1, 1), (0.0, 1.0), (0.1, 0.7), (7.0, -3.0), (1e-200, 0.0)]
WANTED = "expected only 0.1 and 0.7 as in fit, got 0.5 in 1 row"


def bits(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a number and two bits, the second rare, and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    one = rng.random(n) < 0.2 + 0.5 * y
    rare = np.arange(n) % 30 == 29
    return np.column_stack([rng.normal(size=n) + y, one, rare]), y


def coded(X: np.ndarray, coding: tuple[float, float]) -> np.ndarray:
    """Return rows whose bits are written as these two numbers."""
    table = X.copy()
    table[:, 1:] = np.where(X[:, 1:] > 0, coding[1], coding[0])
    return table


def containers(X: np.ndarray) -> dict[str, Any]:
    """Return a table as every kind of container that is dense, or has sparse columns."""
    frame = pd.DataFrame(X, columns=["x", "a", "b"])
    mixed = frame.assign(word="w")
    return {
        "NumPy": X,
        "Fortran": np.asfortranarray(X),
        "pandas": frame,
        "pandas beside text": mixed,
        "a sparse column": frame.assign(b=pd.arrays.SparseArray(frame["b"], fill_value=X[0, 2])),
        "polars": pl.DataFrame(frame),
        "polars beside text": pl.DataFrame(mixed),
        "pyarrow": pa.table(frame),
        "objects": X.astype(object),
    }


@pytest.mark.parametrize("tradeoff", [1, 0, "auto"])
@pytest.mark.parametrize("coding", CODINGS)
def test_the_coding_changes_no_probability(coding: tuple[float, float], tradeoff: Any) -> None:
    X, y = bits()
    booleans = pd.DataFrame({"x": X[:, 0], "a": X[:, 1] > 0, "b": X[:, 2] > 0})
    expected = NaiveBayes(tradeoff=tradeoff).fit(booleans, y).predict_proba(booleans)
    table = coded(X, coding)
    model = NaiveBayes(tradeoff=tradeoff).fit(table, y)
    assert model.schema_.kinds == ("continuous", "boolean", "boolean")
    # Which of the two is called 1 swaps two logarithms.
    np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-7)


@pytest.mark.parametrize("name", containers(bits()[0]))
@pytest.mark.parametrize("coding", [(0.0, 1.0), (0.1, 0.7)])
def test_every_container_holds_the_same_two(coding: tuple[float, float], name: str) -> None:
    X, _ = bits()
    table = containers(coded(X, coding))[name]
    schema = Schema.learn(table)
    assert schema.kinds[:3] == ("continuous", "boolean", "boolean")
    assert schema.categories[1:3] == ((None,) * 2 if coding == (0, 1) else (coding,) * 2)
    matrix = schema.encode(table, handle_unknown="error")
    np.testing.assert_array_equal(matrix[:, 1:3], X[:, 1:])


@pytest.mark.parametrize("coding", [(0.0, 1.0), (0.1, 0.7)])
def test_rows_in_parts_have_the_kinds_of_the_table(coding: tuple[float, float], tmp_path) -> None:
    X, y = bits(3_000)
    X[:900, 2] = 0.0  # the first part holds one number
    frame = pd.DataFrame(coded(X, coding), columns=["x", "a", "b"])
    frame["late"] = np.where(np.arange(3_000) < 2_900, X[:, 1], X[:, 0])  # no bit in the end
    expected = NaiveBayes(tradeoff=1).fit(frame, y)
    assert expected.schema_.kinds == ("continuous", "boolean", "boolean", "continuous")
    whole = pl.DataFrame(frame.assign(y=y))
    whole[:1_500].write_parquet(tmp_path / "1.parquet")
    whole[1_500:].write_parquet(tmp_path / "2.parquet")
    whole.write_csv(tmp_path / "rows.csv")
    sources = {
        "memory": MemorySource(whole, "y", size=500),
        "parquet": scan(tmp_path / "*.parquet", "y"),
        "csv": scan(tmp_path / "rows.csv", "y"),
    }
    for source in sources.values():
        model = NaiveBayes(tradeoff=1).fit(source)
        assert model.schema_ == expected.schema_
        np.testing.assert_allclose(
            model.predict_proba(frame), expected.predict_proba(frame), atol=1e-10
        )


def test_partitions_of_a_cluster_have_the_kinds_of_the_table() -> None:
    dd = pytest.importorskip("dask.dataframe")
    X, y = bits(600)
    X[:300, 2] = 0.0
    frame = pd.DataFrame(coded(X, (0.1, 0.7)), columns=["x", "a", "b"])
    expected = NaiveBayes(tradeoff=1).fit(frame, y)
    lazy = dd.from_pandas(frame.assign(y=y), npartitions=3)
    assert NaiveBayes(tradeoff=1).fit(lazy, "y").schema_ == expected.schema_
    assert expected.schema_.kinds == ("continuous", "boolean", "boolean")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([0.0, 1.0] * 10, "boolean"),
        ([0.0, 1.0] * 9 + [0.0], "continuous"),  # perhaps two by chance
        ([0.0, 0.5] * 9 + [0.0, np.nan, np.nan], "continuous"),
        ([0.0, 1.0] * 9 + [0.0, 2.0, 1.0], "continuous"),
        ([3] * 19 + [8], "boolean"),
        ([3, 4] * 9, "continuous"),
        ([0, 1], "boolean"),  # whole numbers, of any number of rows
        ([0.5] * 30, "continuous"),
        ([0.0] * 299 + [0.5] + [1.0], "continuous"),
        ([0.5, np.inf] * 20, "continuous"),
        ([-1.7e308, 1.7e308] * 20, "continuous"),
    ],
)
def test_two_numbers_in_cells_enough(cells: list[float], kind: str) -> None:
    assert FEWEST_OF_TWO == 20
    values = np.array(cells)
    assert Schema.learn(values[:, None]).kinds == (kind,)
    assert Schema.learn(pd.DataFrame({"a": values, "b": "w"})).kinds[0] == kind
    source = MemorySource(pd.DataFrame({"a": values, "y": np.arange(len(cells)) % 2}), "y", size=7)
    if np.isfinite(values[:2]).all() and kind != "continuous":
        assert NaiveBayes(tradeoff=1).fit(source).schema_.kinds == (kind,)


def test_a_weight_is_a_number_of_cells() -> None:
    cells, weights = np.array([[0.0], [1.0], [3.0]]), np.array([19.0, 1.0, 0.0])
    assert Schema.learn(cells, sample_weight=weights).kinds == ("boolean",)
    assert Schema.learn(cells, sample_weight=0.9 * weights).kinds == ("continuous",)


def test_a_third_number_is_missing_and_told_or_refused() -> None:
    X, y = bits()
    table = coded(X, (0.1, 0.7))
    model = NaiveBayes(tradeoff=1).fit(table, y)
    odd, gap = table[:4].copy(), table[:4].copy()
    odd[2, 1], gap[2, 1] = 0.5, np.nan
    with pytest.warns(UnseenNumbersWarning, match=f"^X: column 1: {WANTED}, which counts as miss"):
        found = model.predict_proba(odd)
    np.testing.assert_array_equal(found, model.predict_proba(gap))
    with pytest.raises(DataError, match=f"^X: column 1: {WANTED}; correct the cells, or set"):
        NaiveBayes(tradeoff=1, handle_unknown="error").fit(table, y).predict_proba(odd)
    with pytest.raises(DataError, match=r"^X: column 1: expected 0.1, 0.7 or NaN, got infinity; "):
        model.predict_proba(np.where(odd == 0.5, np.inf, odd))


def test_cells_of_single_precision_are_those_of_fit() -> None:
    X, y = bits()
    table = coded(X, (0.1, 0.7))
    model = NaiveBayes(tradeoff=1).fit(table, y)
    single = model.predict_proba(table.astype(np.float32))
    np.testing.assert_allclose(single, model.predict_proba(table), atol=1e-5)


def test_a_density_that_is_given_stays() -> None:
    X, y = bits()
    for model in (NaiveBayes("gaussian", tradeoff=1), NaiveBayes({1: "gaussian", 2: "gaussian"})):
        assert model.fit(X, y).schema_.kinds == ("continuous",) * 3
    # An array of numbers is one Gaussian; a table has factors for its bits.
    assert GaussianDiscriminant(tradeoff=1).fit(X, y).means_.shape == (2, 3)
    frame = pd.DataFrame(X, columns=["x", "a", "b"])
    assert GaussianDiscriminant(tradeoff=1).fit(frame, y).means_.shape == (2, 1)


def test_batches_believe_in_0_and_1_alone() -> None:
    X, y = bits()
    first = X.copy()
    first[:, 2] = np.where(X[:, 2] > 0, 5.0, 2.0)
    model = NaiveBayes(tradeoff=1).partial_fit(first[:60], y[:60])
    assert model.schema_.kinds == ("continuous", "boolean", "continuous")
    model.partial_fit(first[60:], y[60:])  # by now column 2 has two numbers in 120 cells
    whole = NaiveBayes({2: "gaussian"}, tradeoff=1).fit(first, y)
    np.testing.assert_allclose(model.predict_proba(first), whole.predict_proba(first), atol=1e-10)
    odd = first[:5].copy()
    odd[3, 1] = 0.5
    before = model.predict_proba(first)
    with pytest.raises(DataError, match=r"X: column 1: expected boolean cells as in the first"):
        model.partial_fit(odd, y[:5])
    np.testing.assert_array_equal(model.predict_proba(first), before)


def test_batches_after_a_fit_keep_its_two_numbers() -> None:
    X, y = bits()
    table = pd.DataFrame({"a": np.where(X[:, 1] > 0, 5, 0)})
    model = NaiveBayes(tradeoff=1).fit(table, y).partial_fit(table, y)
    whole = NaiveBayes(tradeoff=1).fit(pd.concat([table, table]), np.append(y, y))
    np.testing.assert_allclose(model.predict_proba(table), whole.predict_proba(table), atol=1e-12)
    with pytest.raises(DataError, match="expected boolean cells as in the first batch"):
        model.partial_fit(table + 1, y)
    zeros = NaiveBayes(tradeoff=1).partial_fit(0 * table, y)
    with pytest.raises(DataError, match=r"are boolean .from 0 to 5."):
        zeros.partial_fit(table, y)


def test_files_of_models_keep_the_two_numbers(tmp_path) -> None:
    X, y = bits()
    table = pd.DataFrame(coded(X, (0.1, 0.7)), columns=["x", "a", "b"])
    model = NaiveBayes(tradeoff=1).fit(table, y)
    save_model(model, tmp_path / "model.crossfade")
    loaded = load_model(tmp_path / "model.crossfade").estimator
    assert loaded.schema_ == model.schema_
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    parts = explain(loaded, table)
    baseline, added = parts.log_odds(1)
    log_posterior = model.predict_log_proba(table)
    np.testing.assert_allclose(
        baseline + added.sum(axis=1), log_posterior[:, 1] - log_posterior[:, 0], atol=1e-9
    )
    session = InferenceSession(to_onnx(model).SerializeToString())
    for precision in (np.float64, np.float32):  # as a caller may have rounded them
        cells = table.to_numpy().astype(precision).astype(np.float64)
        cells[5, 1] = 0.5
        inputs = {name: cells[:, [j]] for j, name in enumerate(table)}
        with pytest.warns(UnseenNumbersWarning):
            expected = model.predict_proba(pd.DataFrame(cells, columns=table.columns))
        [posterior] = session.run(["probabilities"], inputs)
        np.testing.assert_allclose(posterior, expected, atol=1e-9)


def test_one_hot_counts_of_words_stay_words() -> None:
    X, y = bits()
    model = NaiveBayes(tradeoff=1).fit(scipy.sparse.csr_array(X[:, 1:]), y)
    assert model.schema_.sparse
