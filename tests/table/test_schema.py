"""What a column is, and how its cells become floats."""

from __future__ import annotations

import copy
import datetime
import pickle
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from crossfade import NaiveBayes
from crossfade.errors import CellTypeError, DataError, UnseenNumbersWarning
from crossfade.table import Schema
from crossfade.table.source import MemorySource
from tests.table.tables import CELLS, HOSTILE, every_library, objects

NAN = np.nan
EXPECTED = np.array(
    [
        [2.0, 31.5, 0.0, 1.0, 1.0, 1.0, -5.0],
        [1.0, NAN, 1.0, 0.0, 0.0, NAN, 100.0],
        [NAN, 20.25, 2.0, 1.0, 1.0, 0.0, 7.0],
        [2.0, 1.25, 1.0, NAN, 1.0, 1.0, 7.0],
        [0.0, 3.5, 3.0, 0.0, 0.0, 0.0, 1000.0],
    ]
)
#: Text without lone surrogates, which no frame library can hold.
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
KINDS = ("categorical", "continuous", "count", "boolean", "boolean", "boolean", "continuous")


def learn_one(*cells: Any, declared: str | None = None) -> Schema:
    return Schema.learn(pl.DataFrame({"a": list(cells)}), declared)


def refused(X: Any, sentence: str, error: type[Exception] = DataError, **options: Any) -> None:
    with pytest.raises(error, match="^" + re.escape(sentence)):
        Schema.learn(X, **options)


# -- the same table everywhere -------------------------------------------------------------------


@pytest.mark.parametrize("library", every_library(CELLS))
def test_every_library_gives_the_same_matrix_and_schema(library: str) -> None:
    frame = every_library(CELLS)[library]
    schema = Schema.learn(frame)
    assert schema == Schema.learn(pl.DataFrame(CELLS))
    assert schema.names == tuple(CELLS)
    assert schema.kinds == KINDS
    assert schema.categories == (("<script>", "Bern", "Oslo"), *[None] * 6)
    matrix = schema.encode(frame)
    assert_array_equal(matrix, EXPECTED)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous


def test_an_array_of_objects_gives_the_same_but_for_the_names() -> None:
    schema = Schema.learn(objects(CELLS))
    assert schema.kinds == KINDS
    assert schema.names == tuple(f"x{index}" for index in range(7))
    assert not schema.has_names
    assert_array_equal(schema.encode(objects(CELLS)), EXPECTED)
    assert_array_equal(schema.encode(objects(CELLS).tolist()), EXPECTED)


@pytest.mark.parametrize("library", every_library(CELLS))
def test_nothing_of_the_users_changes(library: str) -> None:
    frame, untouched = every_library(CELLS)[library], every_library(CELLS)[library]
    schema = Schema.learn(frame)
    schema.encode(frame)
    schema.extended(frame)
    same = frame.equals(untouched)
    assert same
    if isinstance(frame, pd.DataFrame):
        assert (frame.dtypes == untouched.dtypes).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.sampled_from(HOSTILE) | WORDS,
            st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
            st.none() | st.booleans(),
            st.none() | st.integers(-(2**53), 2**53),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_cells_survive_the_round_trip_in_every_library(rows: list[tuple[Any, ...]]) -> None:
    names = {"t": pl.String, "f": pl.Float64, "b": pl.Boolean, "i": pl.Int64}
    frame = pl.DataFrame(rows, schema=names, orient="row")
    if all(cell is None for row in rows for cell in row):
        refused(frame, "X: expected some cells that are not missing, got none")
        return
    schema = Schema.learn(frame)
    matrix = schema.encode(frame, handle_unknown="error")
    decoded = schema.decode(matrix)
    assert decoded == [frame[name].to_list() for name in names]
    arrow = frame.to_arrow()
    assert Schema.learn(arrow) == schema
    assert_array_equal(Schema.learn(arrow).encode(arrow), matrix)
    pandas = frame.to_pandas(use_pyarrow_extension_array=True)
    assert Schema.learn(pandas) == schema
    assert_array_equal(Schema.learn(pandas).encode(pandas), matrix)


def test_categories_may_be_any_text() -> None:
    cells = {"c": [*HOSTILE, None, *reversed(HOSTILE)]}
    for frame in (*every_library(cells).values(), objects(cells)):
        schema = Schema.learn(frame)
        assert schema.categories == (tuple(sorted(HOSTILE)),)
        assert schema.decode(schema.encode(frame)) == [cells["c"]]


# -- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([0, 1, 1], "boolean"),
        ([1, 1, 1], "boolean"),
        ([0, 0], "boolean"),
        ([0, 1, 2, 1, 3], "count"),
        ([0, None, 2, 1, 3, 1], "count"),
        ([-1, 0, 1], "continuous"),
        ([1, 2, 3, 2], "continuous"),  # never 0: grades, not counts
        ([0, 0, 0, 0, 9], "continuous"),  # overdispersed
        ([0, 100, 101], "continuous"),
        ([5, 5, 5], "continuous"),
        ([0.0, 1.0, 1.0], "continuous"),
        ([0.0, None, 1.0], "continuous"),
        ([True, None], "boolean"),
        (["a", None], "categorical"),
        ([Decimal("0.5"), None], "continuous"),
    ],
)
def test_kinds(cells: list[Any], kind: str) -> None:
    assert learn_one(*cells).kinds == (kind,)


def test_arrays_of_floats_are_continuous_and_of_integers_are_not() -> None:
    values = np.array([[0, 0, -3], [1, 1, 4], [1, 2, 100], [0, 1, 5], [1, 3, 0]])
    assert Schema.learn(values).kinds == ("boolean", "count", "continuous")
    assert Schema.learn(values.astype(np.uint8)).kinds == ("boolean", "count", "continuous")
    assert set(Schema.learn(values.astype(float)).kinds) == {"continuous"}
    assert set(Schema.learn(values > 0).kinds) == {"boolean"}
    for schema in (Schema.learn(values), Schema.learn(values.astype(float))):
        assert_array_equal(schema.encode(values), values.astype(float))


def test_pandas_integers_with_gaps_are_integers() -> None:
    gaps = pd.DataFrame({"a": [0, 1, None, 1], "b": [0.5, 1, None, 1], "c": [0.0, 1, 1, 0]})
    assert gaps["a"].dtype == np.float64
    assert Schema.learn(gaps).kinds == ("boolean", "continuous", "continuous")
    infinite = pd.DataFrame({"a": [0, np.inf, None, 1]})
    assert Schema.learn(infinite).kinds == ("continuous",)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=20))
def test_weights_are_repeated_rows(rows: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in rows])
    weights = np.array([weight for _, weight in rows])
    if not weights.any():
        return
    words = values.astype(str).astype(object)
    frame = pd.DataFrame({"n": values, "w": words})
    repeated = frame.loc[frame.index.repeat(weights)]
    assert Schema.learn(frame, sample_weight=weights) == Schema.learn(repeated)
    declared = {"n": "categorical"}
    weighted = Schema.learn(frame, declared, sample_weight=weights)
    assert weighted == Schema.learn(repeated, declared)
    matrix = weighted.encode(frame)
    assert np.isnan(matrix).any() == (len(set(values)) > len(set(values[weights > 0])))


def test_declared_kinds_win() -> None:
    frame = pl.DataFrame({"a": [3, 1, 3], "b": [0, 1, 2], "c": ["y", "n", "y"]})
    schema = Schema.learn(frame, {"a": "categorical", 1: "continuous", "c": "boolean"})
    assert schema.kinds == ("categorical", "continuous", "boolean")
    assert schema.categories == ((1, 3), None, ("n", "y"))
    assert_array_equal(schema.encode(frame), [[1, 0, 1], [0, 1, 0], [1, 2, 1]])
    assert schema.decode(schema.encode(frame))[0] == [3, 1, 3]
    everything = Schema.learn(np.array([[1.5, 2.0], [NAN, 2.0], [0.5, 7.0]]), "categorical")
    assert everything.categories == ((0.5, 1.5), (2.0, 7.0))
    assert_array_equal(everything.encode([[1.5, 7.0], [3.0, NAN]]), [[1, 1], [NAN, NAN]])
    two_codes = learn_one(1, 2, 2, declared="boolean")
    assert two_codes.categories == ((1, 2),)
    with pytest.warns(UnseenNumbersWarning, match="only 1 and 2 as in fit, got 5 in 1 row"):
        assert_array_equal(two_codes.encode(pl.DataFrame({"a": [2, 1, 5]})), [[1], [0], [NAN]])
    assert learn_one(True, False, declared="categorical").categories == ((False, True),)


def test_declared_kinds_that_cannot_be() -> None:
    frame = pl.DataFrame({"age": [1, 2, 3], "name": ["a", "b", "c"], "debt": [-1, 0, 4]})
    cases = {
        "density: expected a column of X, got 'agee'; did you mean 'age'?": {"agee": "count"},
        "density: expected a column of X, got 'zzz'; the columns are 'age', 'name', 'debt'": {
            "zzz": "count"
        },
        "density: expected a column name or an index from 0 to 2, got 3; count columns from 0": {
            3: "count"
        },
        "density: expected one of continuous, count, boolean, categorical, text for column 'age', "
        "got 'gauss'; leave the column out to have its kind detected": {"age": "gauss"},
        "X: column 'age': expected at most two values for the density 'bernoulli', got 3 (1, "
        "2, 3, …); give it the density 'categorical' or 'gaussian'": {"age": "boolean"},
        "X: column 'debt': expected counts (0, 1, 2, …), got -1 in 1 row; correct them, "
        "leave them empty where unknown, or fit with the density 'gaussian' for the column": {
            "debt": "count"
        },
        "X: column 'name': expected numbers, got text ('a', 'b', 'c'; the first in 1 row)": {
            "name": "count"
        },
    }
    for sentence, declared in cases.items():
        refused(frame, sentence, declared=declared)
    with pytest.raises(DataError, match="X has no names, use an index"):
        Schema.learn(np.ones((2, 2)), {"x0": "count"})


def test_enumerations_and_interval_categories() -> None:
    words = pl.Series(["b", "a", None], dtype=pl.Enum(["c", "b", "a"]))
    assert Schema.learn(pl.DataFrame({"a": words})).categories == (("a", "b"),)
    assert Schema.learn(
        pd.DataFrame({"a": pd.Categorical([3, None, 1], categories=[3, 2, 1])})
    ).categories == ((1, 3),)
    cut = pd.DataFrame({"a": pd.cut([1.0, 2.0, 9.0, NAN], [0, 5, 10])})
    schema = Schema.learn(cut)
    assert_array_equal(schema.encode(cut), [[0], [0], [1], [NAN]])
    with pytest.raises(DataError, match="expected numbers, got text"):
        learn_one(0.5, 1.5).encode(cut)


def test_columns_without_a_cell() -> None:
    frame = pl.DataFrame(
        {"n": [None, None], "t": [None, None], "x": [0.5, 1.5]},
        schema={"n": pl.Null, "t": pl.String, "x": pl.Float64},
    )
    schema = Schema.learn(frame)
    assert schema.kinds == ("continuous", "categorical", "continuous")
    assert schema.categories == (None, (), None)
    assert_array_equal(schema.encode(frame), [[NAN, NAN, 0.5], [NAN, NAN, 1.5]])
    later = frame.with_columns(pl.Series("t", ["new", None]), pl.Series("n", [3.0, None]))
    assert_array_equal(schema.encode(later), [[3.0, NAN, 0.5], [NAN, NAN, 1.5]])
    assert schema.extended(later).categories == (None, ("new",), None)


# -- tables that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (None, "X: expected a data frame or a 2-D array, got None; read the table first"),
        ("table.csv", "X: expected a data frame or a 2-D array, got 'table.csv'; read the table"),
        ({"a": [1]}, "X: expected a data frame or a 2-D array, got {'a': [1]}; use pandas.Data"),
        (3.0, "X: expected a data frame or a 2-D array, got 3.0; read the table first"),
        ({1.0}, "X: expected a data frame or a 2-D array, got {1.0}; use list(X) if it holds"),
        (np.array(3.0), "X: expected a 2-D array or a data frame, got an array of shape (). Resh"),
        ([1.0, 2.0], "X: expected a 2-D array or a data frame, got an array of shape (2,). Resh"),
        (pd.Series([1.0]), "X: expected a 2-D array or a data frame, got an array of shape (1,)"),
        (np.ones((2, 2, 2)), "X: expected a 2-D array or a data frame, got an array of shape (2"),
        ([[1.0], [1.0, 2.0]], "X: expected rows of equal length, got list with rows of differen"),
        (np.ones((3, 0)), "X: found 0 feature(s) (shape=(3, 0)) while a minimum of 1 is requir"),
        (np.ones((0, 3)), "X: found 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required"),
        (pd.DataFrame(), "X: found 0 feature(s) (shape=(0, 0))"),
        (pd.DataFrame(index=range(3)), "X: found 0 feature(s) (shape=(3, 0))"),
        (pl.DataFrame({"a": []}), "X: found 0 sample(s) (shape=(0, 1))"),
        (np.full((3, 2), NAN), "X: expected some cells that are not missing, got none in 3 rows"),
        (pd.DataFrame({"a": [None, None]}), "X: expected some cells that are not missing, got no"),
        (pa.table({"a": pa.nulls(2)}), "X: expected some cells that are not missing, got none"),
        (np.ones((2, 2)) * 1j, "X: Complex data not supported, got an array of dtype complex128"),
        (pd.DataFrame({"a": [1j]}), "X: column 'a': Complex data not supported, got dtype comp"),
        (np.array([[b"x"]]), "X: expected numbers or text, got an array of dtype |S1; decode it"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "X: expected numbers or text, got an array"),
        (np.ones(2, dtype=[("a", float)]), "X: expected a 2-D array or a data frame, got a struc"),
        (pl.DataFrame({"a": [1]}).lazy(), "X: expected a data frame or an array, got a lazy fra"),
        (scipy.sparse.eye_array(3), "X: expected a dense table, got a sparse dia_array; Sparse"),
        (scipy.sparse.csr_matrix(np.eye(3)), "X: expected a dense table, got a sparse csr_matri"),
        (
            pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}),
            "X: expected a dense table, got a sparse DataFrame; Sparse data are",
        ),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "X: expected column names that differ, got 'a' 2 times; rename or drop the repeated",
        ),
        (pa.table([[1], [2]], names=["a", "a"]), "X: expected column names that differ, got 'a'"),
        (
            pd.DataFrame({"age": ["old", 31, None]}),
            "X: column 'age': expected cells of one type, got 31 (int) and 'old' (str); make them",
        ),
        (
            [["old", 1], [31, 2]],
            "X: column 0: expected cells of one type, got 31 (int) and 'old' (str)",
        ),
        (
            pd.DataFrame({"a": pd.Categorical([1, "x"])}),
            "X: column 'a': expected cells of one type, got 1 (int) and 'x' (str)",
        ),
        (
            pd.DataFrame({"a": [True, 3]}, dtype=object),
            "X: column 'a': expected cells of one type, got 3 (int) and True (bool)",
        ),
        (
            pd.DataFrame({"when": [datetime.date(2020, 1, 1), None]}),
            "X: column 'when': expected numbers or text, got a date or time, datetime.date(2020,",
        ),
        (
            pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}),
            "X: column 'when': expected numbers or text, got dtype datetime64[",
        ),
        (pl.DataFrame({"t": [datetime.time(1)]}), "X: column 't': expected numbers or text, got"),
        (pl.DataFrame({"t": [datetime.timedelta(1)]}), "X: column 't': expected numbers or text"),
        (
            pd.DataFrame({"a": pd.period_range("2020", periods=2)}),
            "X: column 'a': expected numbers or text, got dtype period[D]; turn it into numbers",
        ),
        (pl.DataFrame({"a": [[1]]}), "X: column 'a': expected numbers or text, got dtype List(In"),
        (pa.table({"a": [{"x": 1}]}), "X: column 'a': expected numbers or text, got dtype Struct"),
        (pa.table({"a": [b"x"]}), "X: column 'a': expected numbers or text, got dtype"),
        (pd.DataFrame({"a": [10**400, None]}), "X: column 'a': expected numbers below 1.8e308"),
    ],
    ids=lambda value: value[:44] if isinstance(value, str) else "",
)
def test_tables_that_are_refused(X: Any, sentence: str) -> None:
    refused(X, sentence)


@pytest.mark.parametrize("cell", [{"x": 1}, [1], (1, 2), {1}, b"x", object(), np.ones(2)])
def test_cells_that_are_neither_numbers_nor_text(cell: Any) -> None:
    table = np.empty((2, 1), dtype=object)
    table[0, 0], table[1, 0] = 1.0, cell
    sentence = "X: column 0: a cell given as argument must be a string or a number, got "
    refused(table, sentence, CellTypeError)
    refused(table, sentence, TypeError)
    refused(pd.DataFrame({0: table[:, 0]}), sentence, DataError)


def test_masked_cells_are_missing() -> None:
    masked = np.ma.MaskedArray([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    assert_array_equal(Schema.learn(masked).encode(masked), [[1, NAN], [3, 4]])


def test_a_list_keeps_numbers_next_to_words() -> None:
    schema = Schema.learn([[1.5, "a"], [2.5, "b"], [None, None]])
    assert schema.kinds == ("continuous", "categorical")
    assert_array_equal(schema.encode([[0.5, "b"]]), [[0.5, 1.0]])


def test_pandas_columns_without_text_names_are_taken_by_position() -> None:
    for labels in ([10, 20], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])):
        frame = pd.DataFrame([[0.5, "x"]], columns=labels)
        schema = Schema.learn(frame)
        assert schema.names == ("x0", "x1")
        assert not schema.has_names
        assert_array_equal(schema.encode(frame), [[0.5, 0.0]])


# -- no copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_of_floats_in_c_order_are_not_copied(dtype: type) -> None:
    X = np.random.default_rng(0).standard_normal((5000, 3)).astype(dtype)
    X[3, 1] = NAN
    X.flags.writeable = False
    assert np.shares_memory(Schema.learn(X).encode(X), X)
    assert Schema.learn(X).encode(X).dtype == dtype
    shared = pd.DataFrame(X, columns=["a", "b", "c"], copy=False)
    assert np.shares_memory(Schema.learn(shared).encode(shared), X)


def test_other_arrays_become_c_order() -> None:
    X = np.random.default_rng(0).standard_normal((5000, 3))
    for other in (np.asfortranarray(X), X.astype(">f8"), np.repeat(X, 2, axis=1)[:, ::2]):
        other.flags.writeable = False
        matrix = Schema.learn(other).encode(other)
        assert matrix.flags.c_contiguous
        assert matrix.dtype == np.dtype("=f8")
        assert_array_equal(matrix, X)
    half = X.astype(np.float16)
    assert Schema.learn(half).encode(half).dtype == np.float64


def test_read_only_memory_is_fine_everywhere() -> None:
    integers = np.array([[0, 3], [1, 4], [2, 4], [1, 9]])
    integers.flags.writeable = False
    for declared in (None, "categorical", "count", "continuous"):
        schema = Schema.learn(integers, declared)
        matrix = schema.encode(integers)
        assert schema.decode(matrix)[1] == [3, 4, 4, 9]


# -- encoding with a schema from elsewhere -------------------------------------------------------


@pytest.fixture
def schema() -> Schema:
    return Schema.learn(pl.DataFrame(CELLS))


def test_columns_must_be_those_of_fit(schema: Schema) -> None:
    frame = pl.DataFrame(CELLS)
    with pytest.raises(
        DataError, match=r"^X: expected the 7 columns of fit, got 6; missing: 'balance'$"
    ):
        schema.encode(frame.drop("balance"))
    with pytest.raises(
        DataError,
        match=r"^X: expected the columns of fit in the same order; missing: 'age'; not in fit: ",
    ):
        schema.encode(frame.rename({"age": "b"}))
    with pytest.raises(DataError, match=r"in the same order; the order in fit was 'city', 'age', "):
        schema.encode(frame[list(reversed(frame.columns))])
    with pytest.raises(DataError, match=r"got 2; select the columns used in fit$"):
        schema.encode(np.ones((1, 2)))


def test_text_and_numbers_do_not_swap(schema: Schema) -> None:
    pandas = pd.DataFrame(CELLS)
    with pytest.raises(
        DataError,
        match=r"^X: column 'age': expected numbers, got text \('x', 'y'; the first in 2 rows\); ",
    ):
        schema.encode(pandas.assign(age=["x", "x", "y", None, None]))
    with pytest.raises(
        DataError,
        match=r"^X: column 'city': expected text as in fit \(such as '<script>'\), got numbers ",
    ):
        schema.encode(pandas.assign(city=3))
    numeric = learn_one(1, 2, declared="categorical")
    with pytest.raises(DataError, match=r"expected numbers as in fit \(such as 1\), got text "):
        numeric.encode(pl.DataFrame({"a": ["1"]}))
    assert_array_equal(schema.encode(pandas.assign(city=None))[:, 0], [NAN] * 5)
    codes = pandas.assign(age=pd.Categorical([1, 2, 1, None, 2]))
    assert_array_equal(schema.encode(codes)[:, 1], [1, 2, 1, NAN, 2])


def test_unseen_values(schema: Schema) -> None:
    pandas = pd.DataFrame(CELLS)
    new = pandas.assign(city=["Rom", "Bern", "Rom", "Köln", None])
    assert_array_equal(schema.encode(new)[:, 0], [NAN, 1, NAN, NAN, NAN])
    with pytest.raises(
        DataError,
        match=r"^X: column 'city': expected only categories seen in fit, got 'Köln', 'Rom' \(2 "
        r"new, in 3 rows\); fit on rows that have them, or set handle_unknown='ignore' ",
    ):
        schema.encode(new, handle_unknown="error")
    other = pandas.assign(flag=[1, 5, 0, 7, 1])
    with pytest.warns(UnseenNumbersWarning, match="0 and 1 as in fit, got 5 in 2 rows, which"):
        assert_array_equal(schema.encode(other)[:, 4], [1, NAN, 0, NAN, 1])
    with pytest.raises(DataError, match=r"expected only 0 and 1 as in fit, got 5 in 2 rows; "):
        schema.encode(other, handle_unknown="error")
    with pytest.raises(
        DataError, match=r"^handle_unknown: expected 'ignore' or 'error', got 'skip'; "
    ):
        schema.encode(pandas, handle_unknown="skip")  # type: ignore[arg-type]
    assert_array_equal(schema.encode(pandas, handle_unknown="error"), EXPECTED)


@pytest.mark.parametrize("value", [-1, 2.5, np.inf])
def test_counts_must_be_counts(schema: Schema, value: float) -> None:
    bad = pd.DataFrame(CELLS).assign(visits=[0, 1, value, 2, NAN])
    with pytest.raises(DataError, match=r"^X: column 'visits': expected counts \(0, 1, 2, …\), go"):
        schema.encode(bad)


def test_integers_out_of_the_kinds_learnt() -> None:
    integers = np.array([[0, 0], [1, 1], [1, 2], [0, 1], [0, 3]])
    learnt = Schema.learn(integers)
    assert learnt.kinds == ("boolean", "count")
    later = integers.copy()
    later[2, 0] = 5
    with pytest.warns(UnseenNumbersWarning, match="got 5 in 1 row, which counts as missing; "):
        assert_array_equal(learnt.encode(later)[:, 0], [0, 1, NAN, 0, 0])
    with pytest.raises(DataError, match=r"^X: column 1: expected counts \(0, 1, 2, …\), got -1 "):
        learnt.encode(integers - [0, 1])


def test_infinite_categories_are_refused() -> None:
    X = np.array([[1.0], [np.inf]])
    refused(X, "X: column 0: expected finite numbers, got infinity; ", declared="categorical")
    with pytest.raises(DataError, match="expected finite numbers, got infinity"):
        Schema.learn(np.array([[1.0], [2.0]]), "categorical").encode(-X)
    with pytest.raises(DataError, match="expected 0, 1 or NaN, got infinity"):
        learn_one(0, 1).encode(X)


def test_extended_keeps_the_codes(schema: Schema) -> None:
    pandas = pd.DataFrame(CELLS)
    assert schema.extended(pandas) is schema
    longer = schema.extended(pandas.assign(city=["Rom", "Bern", "Aarau", None, "Oslo"]))
    assert longer.categories[0] == ("<script>", "Bern", "Oslo", "Aarau", "Rom")
    assert_array_equal(longer.encode(pandas), EXPECTED)
    assert schema.categories[0] == ("<script>", "Bern", "Oslo")
    with pytest.raises(DataError, match="expected text as in fit"):
        schema.extended(pandas.assign(city=1))


def test_schemas_are_values(schema: Schema) -> None:
    schema.encode(pl.DataFrame(CELLS))
    for twin in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert twin == schema
        assert hash(twin) == hash(schema)
        assert_array_equal(twin.encode(pl.DataFrame(CELLS)), EXPECTED)
    with pytest.raises(AttributeError):
        schema.names = ()  # type: ignore[misc]
    assert schema.n_features == 7
    assert schema.where(0) == "X: column 'city'"


def test_very_many_categories() -> None:
    frame = pl.DataFrame({"id": pl.Series(range(300_000)).cast(pl.String).reverse()})
    assert Schema.learn(frame).kinds == ("identifier",)
    schema = Schema.learn(frame, {"id": "categorical"})
    assert schema.categories[0] is not None
    assert len(schema.categories[0]) == 300_000
    one = schema.encode(pl.DataFrame({"id": ["0", "10", "nobody"]}))
    assert_array_equal(one, [[0], [2], [NAN]])


@pytest.mark.parametrize(
    ("write", "n", "kind"),
    [
        (lambda i: f"2021-03-{i + 1:02d}", 20, "categorical"),
        (lambda i: f"2021-03-{i + 1:02d}", 21, "identifier"),
        (lambda i: f"{i + 1}.3.21 08:15", 21, "identifier"),
        (lambda i: f"{40 + i}-34-56", 21, "categorical"),  # no day has this number
        (lambda i: f"2024/01/{i + 1:02d} 3:{i:02d}:07 PM GMT+1", 21, "identifier"),
        (lambda i: f"2024-01-{i + 1:02d} 10:00:07.5 +0100", 21, "identifier"),
        (lambda i: f"{i + 1}/1/2024, 1:05 p.m.", 21, "identifier"),
        (lambda i: f"{i + 1:02d}-MAR-24", 21, "identifier"),
        (lambda i: f"{i + 1:02d}Mar2024", 21, "identifier"),
        (lambda i: f"{i + 1}. März 2024", 21, "identifier"),
        (lambda i: f"March {i + 1}th, 2024", 21, "identifier"),
        (lambda i: f"Mar {i + 1}, 2024", 20, "categorical"),
        (lambda i: f"Fri, {i + 1} Mar 2024 08:15:00 GMT", 21, "identifier"),
        (lambda i: f"{i + 1:02d}ABC2024", 21, "categorical"),  # no month
        (lambda i: f"{i:02d}:45", 21, "identifier"),
        (lambda i: f"08:{i:02d}:07.25", 21, "identifier"),
        (lambda i: f"8:{i:02d} PM", 20, "categorical"),
        (lambda i: f"8:{i:02d}pm", 21, "identifier"),
        (lambda i: f"{20 + i}:45", 21, "categorical"),  # no day has this hour
        (lambda i: f"1:{i}", 21, "categorical"),  # a ratio
        (lambda i: f"{i + 1} rooms", 21, "categorical"),
        (lambda i: f"192.168.1.{i + 1}", 21, "categorical"),
    ],
)
def test_columns_of_more_than_20_dates_are_left_out(write, n, kind) -> None:
    frame = pl.DataFrame({"day": [write(i % n) for i in range(8 * n)], "x": np.arange(8.0 * n)})
    assert Schema.learn(frame).kinds == (kind, "continuous")
    # Each once is a name, whatever it is, and never text of words.
    assert Schema.learn(frame[:n]).kinds[0] == "identifier"
    parts = NaiveBayes(tradeoff=1).fit(MemorySource(frame, np.arange(8 * n) % 2, size=50))
    assert parts.schema_.kinds == (kind, "continuous")


def test_wide_and_long_tables_are_encoded_alike() -> None:
    """Long tables go by columns on threads; they must not differ from their short parts."""
    rng = np.random.default_rng(1)
    words = np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, (5000, 4))]
    words[:3] = [["a"] * 4, ["b"] * 4, [None] * 4]
    schema = Schema.learn(words)
    parts = [schema.encode(words[start : start + 50]) for start in range(0, 5000, 50)]
    assert_array_equal(schema.encode(words), np.concatenate(parts))
