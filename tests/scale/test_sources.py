"""A fit does not know where its rows are: in memory, in files or on a cluster."""

from __future__ import annotations

import bz2
import gzip
import itertools
import os
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB

from crossfade import (
    BinomialRegression,
    DataError,
    EntropicNaiveBayes,
    GaussianDiscriminant,
    NaiveBayes,
    PooledClassifier,
)
from crossfade.blocks import Together, read_ahead
from crossfade.classifiers import reading as reading_module
from crossfade.glm import source_data as source_data_module
from crossfade.io import scan
from crossfade.io.reading import read_table
from crossfade.table import Schema
from crossfade.table import survey as survey_module
from crossfade.table.source import MemorySource, Part
from crossfade.table.survey import Drawing, Encoder, drawn_rows, row_keys
from crossfade.tradeoff import path as path_module
from crossfade.tradeoff import source_rows as source_rows_module
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from tests.scale.tables import mixed_table
from tests.test_take_home_commands import run

SAMPLE_ROWS = 5_500


@pytest.fixture(scope="module", autouse=True)
def few_in_the_sample():
    """A sample of fewer rows than the table has."""
    with pytest.MonkeyPatch.context() as patch:
        take_samples_of(SAMPLE_ROWS, patch)
        yield


def take_samples_of(n_rows, patch):
    for module in (reading_module, source_rows_module, source_data_module):
        patch.setattr(module, "SAMPLE_ROWS", n_rows)


def write(frame, folder, n_files, *, suffix="parquet"):
    """Write consecutive rows of a table to so many files."""
    folder.mkdir()
    edges = np.linspace(0, frame.height, n_files + 1).astype(int)
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        part, name = frame[int(start) : int(stop)], folder / f"part-{number:02d}.{suffix}"
        {"parquet": part.write_parquet, "arrow": part.write_ipc, "csv": part.write_csv}[suffix](
            name
        )
    return folder


@pytest.fixture(scope="module")
def table():
    """More rows than a sample has, with missing cells, categories, counts and booleans."""
    return mixed_table(6_000)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    return write(table, tmp_path_factory.mktemp("table") / "parts", 7)


def posterior(model, frame):
    names = [name for name in frame.columns if name != "y"]
    return model.predict_proba(frame[names])


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_files_give_the_generative_fit_of_the_table(table, tmp_path, suffix):
    source = scan(write(table, tmp_path / "parts", 5, suffix=suffix))
    fitted = NaiveBayes(tradeoff=1).fit(source, "y")
    whole = NaiveBayes(tradeoff=1).fit(table.drop("y"), table["y"])
    assert fitted.schema_ == whole.schema_
    np.testing.assert_array_equal(fitted.class_count_, whole.class_count_)
    np.testing.assert_allclose(posterior(fitted, table), posterior(whole, table), atol=1e-10)
    np.testing.assert_allclose(
        fitted.parameters_.natural, whole.parameters_.natural, rtol=1e-10, atol=1e-10
    )
    assert fitted.n_passes_ == 1


@pytest.mark.parametrize("tradeoff", [0.5, 0.0])
@pytest.mark.parametrize("complete", [True, False])
def test_files_give_the_optimum_of_the_table(tmp_path, monkeypatch, tradeoff, complete):
    table = mixed_table(22_000)  # of fewer rows a sample is a worse start, and takes more passes
    folder = write(table, tmp_path / "parts", 7)
    take_samples_of(20_000, monkeypatch)
    columns = ["tail", "grade", "count", "flag"] if complete else None
    fitted = NaiveBayes(tradeoff=tradeoff)
    whole = NaiveBayes(tradeoff=tradeoff)
    frame = table.select([*columns, "y"]) if complete else table
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # λ = 1e-4 stands for 0 where cells are missing
        fitted.fit(scan(folder, columns=columns), "y")
        whole.fit(frame.drop("y"), frame["y"])
    assert fitted.solution_.converged
    np.testing.assert_allclose(posterior(fitted, frame), posterior(whole, frame), atol=1e-6)
    assert fitted.n_passes_ <= 5


def test_the_curvature_of_wide_rows_is_that_of_some_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(26_000, 50))
    y = np.argmax(X[:, :3] + rng.gumbel(size=(len(X), 3)), axis=1)
    monkeypatch.setattr(path_module, "_WORTHWHILE", 0)
    strides, own = [], path_module._stride
    monkeypatch.setattr(path_module, "_stride", lambda *a: strides.append(own(*a)) or strides[-1])
    fitted = NaiveBayes(tradeoff=0, shared_variance=True).fit(MemorySource(X, y, size=5_000))
    whole = NaiveBayes(tradeoff=0, shared_variance=True).fit(X, y)
    assert strides == [5]  # 3 pairs of classes, 51 columns, 32 products of a cell
    np.testing.assert_allclose(fitted.predict_proba(X), whole.predict_proba(X), atol=1e-6)

    # Every fifth row stands for the others.
    rows = LabelledRows(X, y, None, 3)
    objective = TradeoffObjective.of(rows, bind(whole.density_, rows), 0.0, 1.0).without_tied()
    some = replace(objective, passes=replace(objective.passes, every=5))
    theta = 0.1 * rng.normal(size=objective.n_parameters)
    chosen = np.arange(0, len(X), 5)
    few = replace(objective, passes=objective.passes.over(rows.take(chosen)), l2=0.0)
    expected = few.curvature(theta) * len(X) / chosen.size
    got = replace(some, l2=0.0).curvature(theta)
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tradeoff", ["auto", pytest.param("best", marks=pytest.mark.slow)])
def test_a_sample_chooses_and_all_rows_are_fitted(table, folder, tradeoff):
    of_files = NaiveBayes(tradeoff=tradeoff).fit(scan(folder), "y")
    in_memory = NaiveBayes(tradeoff=tradeoff).fit(MemorySource(table, "y", size=3_001))
    np.testing.assert_allclose(posterior(of_files, table), posterior(in_memory, table), atol=1e-6)
    assert f"chosen on {SAMPLE_ROWS:,} rows of all {table.height:,}" in of_files.selection_
    assert of_files.n_passes_ <= 7
    assert of_files.class_count_.sum() == table.height


def test_what_is_no_larger_than_a_sample_is_fitted_as_in_memory(shared_data, tmp_path):
    frame = read_table(shared_data / "mixed" / "titanic.csv").rename({"target": "y"})[::3]
    source = scan(write(frame, tmp_path / "parts", 4))
    for tradeoff in (1.0, "auto"):
        fitted = NaiveBayes(tradeoff=tradeoff).fit(source, "y")
        whole = NaiveBayes(tradeoff=tradeoff).fit(frame.drop("y"), frame["y"])
        tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
        np.testing.assert_allclose(
            posterior(fitted, frame), posterior(whole, frame), atol=tolerance
        )
        assert fitted.density_report_ == whole.density_report_


@pytest.mark.parametrize("density", ["gaussian", "auto"])
@pytest.mark.parametrize("tradeoff", [1.0, 0.3])
@pytest.mark.parametrize("fault", [None, "missing", "infinite", "large"])
def test_tables_of_floats_alone_are_summed_column_by_column(tmp_path, density, tradeoff, fault):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=30_000)
    X = rng.normal(size=(30_000, 4)) + y[:, None] * np.linspace(-1, 1, 4)
    X[:, 1] = np.exp(X[:, 1])
    weight = rng.integers(1, 3, size=y.size).astype(np.float64)
    X[20_011, 2] = {None: 0.0, "missing": np.nan, "infinite": np.inf, "large": 1e200}[fault]
    frame = pl.DataFrame({f"x{j}": x for j, x in enumerate(X.T)}).with_columns(w=weight, y=y)
    source = scan(write(frame, tmp_path / "parts", 3))
    model = NaiveBayes(density, tradeoff=tradeoff)
    if fault in ("infinite", "large"):
        with pytest.raises(DataError, match="column 'x2': expected "):
            model.fit(source, "y")
        return
    model.fit(source, "y", sample_weight="w")
    whole = clone(model).fit(frame.drop("y", "w"), frame["y"], sample_weight=weight)
    frame = frame.drop("w")
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(posterior(model, frame), posterior(whole, frame), atol=tolerance)


@pytest.mark.parametrize("density", ["multinomial", "text"])
def test_densities_of_words_are_refused_for_rows_in_parts_by_name(folder, density):
    with pytest.raises(DataError, match=rf"^density: expected .* in parts, got '{density}'"):
        NaiveBayes(density, tradeoff=1).fit(scan(folder), "y")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("density", ["poisson", "categorical", "bernoulli", "gaussian"])
def test_a_given_density_tells_the_kind_of_a_column_of_floats(tmp_path, density, suffix):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    k = (rng.random(300) < 0.5) * 1.0 if density == "bernoulli" else rng.poisson(2.0 + y) * 1.0
    frame = pl.DataFrame({"k": k, "y": y})
    folder = write(frame, tmp_path / "parts", 3, suffix=suffix)
    found = NaiveBayes(density, tradeoff=1).fit(scan(folder), "y")
    expected = NaiveBayes(density, tradeoff=1).fit(frame[["k"]], y)
    assert found.schema_.kinds == expected.schema_.kinds
    X = frame[["k"]]
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("covariance", ["shared", "full"])
@pytest.mark.parametrize("tradeoff", [1.0, 0.0])
def test_a_discriminant_from_files(table, folder, covariance, tradeoff):
    columns = ["tail", "count", "flag"]
    fitted = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(
        scan(folder, columns=columns), "y"
    )
    frame = table.select([*columns, "y"])
    whole = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(frame.drop("y"), frame["y"])
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(posterior(fitted, frame), posterior(whole, frame), atol=tolerance)


def test_batches_give_what_the_source_gives(table, folder):
    frame = table.drop("count", "flag")
    batches = NaiveBayes(tradeoff=1)
    for start in range(0, frame.height, 4_000):
        part = frame[start : start + 4_000]
        batches.partial_fit(part.drop("y"), part["y"])
    fitted = NaiveBayes(tradeoff=1).fit(scan(folder, drop=["count", "flag"]), "y")
    np.testing.assert_allclose(posterior(fitted, frame), posterior(batches, frame), atol=1e-10)


def test_class_weights_are_those_of_the_table(table, folder):
    for weights in ("balanced", {"a": 3.0}):
        fitted = NaiveBayes(tradeoff=0.5, class_weight=weights).fit(scan(folder), "y")
        whole = NaiveBayes(tradeoff=0.5, class_weight=weights).fit(table.drop("y"), table["y"])
        np.testing.assert_allclose(fitted.class_count_, whole.class_count_)
        np.testing.assert_allclose(posterior(fitted, table), posterior(whole, table), atol=1e-6)


@pytest.mark.parametrize("Model", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize(
    ("given", "tradeoff"),
    [
        *(({"class_weight": {"a": 2.0, "z": 5.0}}, tradeoff) for tradeoff in (1.0, 0.5, "auto")),
        ({"class_weight": {"z": 5.0}}, 1.0),
        ({"class_prior": {"a": 0.1, "b": 0.2, "c": 0.3, "z": 0.4}}, 1.0),
        ({"class_prior": {"a": 0.1, "b": 0.2, "c": 0.3, "z": 0.4}}, 0.5),
    ],
)
def test_classes_that_occur_late_can_be_named(table, tmp_path, Model, given, tradeoff):
    frame = spoiled(table[:3_000].select("tail", "count", "y"), "a class")
    model = Model(tradeoff=tradeoff, **given)
    whole = clone(model).fit(frame.drop("y"), frame["y"])
    for source in (
        MemorySource(frame, "y", size=500),
        scan(write(frame, tmp_path / "csv", 3, suffix="csv"), "y"),
    ):
        model.fit(source)
        np.testing.assert_allclose(model.class_count_, whole.class_count_)
        np.testing.assert_allclose(posterior(model, frame), posterior(whole, frame), atol=1e-6)


@pytest.mark.parametrize("weights", [{"q": 2.0}, {"a": 0.0}, [1.0, 2.0, 3.0]])
def test_class_weights_of_no_class_are_refused_as_in_memory(table, folder, weights):
    model = NaiveBayes(tradeoff=1, class_weight=weights)
    with pytest.raises(DataError) as whole:
        model.fit(table.drop("y"), table["y"])
    with pytest.raises(DataError, match=f"^{re.escape(str(whole.value))}$"):
        model.fit(scan(folder), "y")


def test_balanced_classes_whose_weights_sum_to_their_number():
    x = np.random.default_rng(0).normal(size=16)
    frame = pl.DataFrame({"x": x, "weight": [0.125] * 16, "y": ["a", "a", "a", "b"] * 4})
    given = NaiveBayes(tradeoff=1, class_weight="balanced")
    fitted = clone(given).fit(MemorySource(frame, "y", size=8), sample_weight="weight")
    whole = given.fit(frame.select("x"), frame["y"], sample_weight=frame["weight"])
    np.testing.assert_allclose(fitted.class_count_, [1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(whole.class_count_, [1.0, 1.0], rtol=1e-12)


@pytest.mark.parametrize("tradeoff", [1.0, 0.5, "auto"])
def test_weights_are_a_column(table, tmp_path, tradeoff):
    rng = np.random.default_rng(3)
    often = rng.integers(0, 4, size=6_000)
    often[:2_100] = 0  # a whole file, and all rows of a category and a label
    rows = table[:6_000].with_columns(
        region=pl.when(pl.int_range(pl.len()) < 9).then(pl.lit("none")).otherwise(pl.col("region")),
        y=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("d")).otherwise(pl.col("y")),
    )
    source = scan(write(rows.with_columns(often=pl.Series(often)), tmp_path / "parts", 3))
    model = NaiveBayes(tradeoff=tradeoff, class_weight="balanced")
    fitted = clone(model).fit(source, "y", sample_weight="often")
    whole = model.fit(rows.drop("y"), rows["y"], sample_weight=often)
    assert fitted.schema_ == whole.schema_
    np.testing.assert_allclose(fitted.class_count_, whole.class_count_)
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(posterior(fitted, rows), posterior(whole, rows), atol=tolerance)


def test_groups_are_a_column(table):
    rows = table.select("level", "count", "y")[:3_000]
    patient = np.random.default_rng(4).integers(0, 90, size=3_000)
    source = MemorySource(rows.with_columns(patient=pl.Series(patient)), "y", size=700)
    fitted = NaiveBayes().fit(source, groups="patient")
    whole = NaiveBayes().fit(rows.drop("y"), rows["y"], groups=patient)
    assert "3000 rows of 90 groups" in fitted.selection_
    np.testing.assert_allclose(posterior(fitted, rows), posterior(whole, rows), atol=1e-6)
    assert fitted.n_features_in_ == 2


def test_later_batches_add_to_a_fit_from_files(table, folder):
    fitted = NaiveBayes(tradeoff=1).fit(scan(folder), "y").partial_fit(table.drop("y"), table["y"])
    twice = NaiveBayes(tradeoff=1).fit(
        pl.concat([table, table]).drop("y"), pl.concat([table, table])["y"]
    )
    np.testing.assert_allclose(posterior(fitted, table), posterior(twice, table), atol=1e-10)


# -- the sample ------------------------------------------------------------------------------------


def sample_of(codes, size, parts, *, counted=True):
    drawing = Drawing(codes.size if counted else None, size)
    numbers = np.arange(codes.size, dtype=np.float64)[:, None]
    from crossfade.table.source import Part

    edges = np.linspace(0, codes.size, parts + 1).astype(int)
    pieces = [drawing(Part(numbers[a:b], codes[a:b], int(a))) for a, b in itertools.pairwise(edges)]
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = joined.joined(piece)
    X, own = drawn_rows(joined, size)[:2]
    assert (codes[X[:, 0].astype(int)] == own).all()
    return X[:, 0].astype(int)


def test_the_sample_is_even_and_does_not_depend_on_the_parts():
    codes = np.zeros(200_000, dtype=np.int64)
    sample = sample_of(codes, 5_000, 1)
    assert sample.size == 5_000
    assert (np.diff(sample) > 0).all()
    for counted in (True, False):
        np.testing.assert_array_equal(sample, sample_of(codes, 5_000, 37, counted=counted))
    smallest = np.argsort(row_keys(0, codes.size))[:5_000]
    np.testing.assert_array_equal(sample, np.sort(smallest))
    # Each of 50 stretches holds 100 on average, with the spread of a draw.
    held = np.histogram(sample, 50, (0, 200_000))[0]
    assert 0.5 < held.var() / 100 < 1.6
    keys = row_keys(0, 100_000).astype(np.float64) / 2.0**64
    assert abs(np.corrcoef(keys[:-1], keys[1:])[0, 1]) < 0.02


def test_a_rare_class_has_rows_in_the_sample():
    codes = np.zeros(300_000, dtype=np.int64)
    codes[[5, 299_000]] = 1
    codes[1_000:1_040] = 2
    for counted in (True, False):
        sample = sample_of(codes, 2_000, 11, counted=counted)
        assert sample.size == 2_000
        assert {5, 299_000} <= set(sample.tolist())
        assert (codes[sample] == 2).sum() >= 10


# -- what a part lacks, and what is refused --------------------------------------------------------


def parts_of(folder, *frames):
    folder.mkdir()
    for number, frame in enumerate(frames):
        frame.write_parquet(folder / f"{number}.parquet")
    return scan(folder)


def test_parts_may_lack_classes_categories_and_rows(tmp_path):
    frames = [
        pl.DataFrame({"c": ["u", "v"], "x": [1.0, 2.0], "y": [0, 0]}),
        pl.DataFrame(schema={"c": pl.String, "x": pl.Float64, "y": pl.Int64}),
        pl.DataFrame({"c": [None, "w"], "x": [0.5, None], "y": [1, 1]}),
    ]
    fitted = NaiveBayes(tradeoff=1).fit(parts_of(tmp_path / "parts", *frames), "y")
    whole = pl.concat(frames)
    same = NaiveBayes(tradeoff=1).fit(whole.drop("y"), whole["y"])
    assert fitted.schema_ == same.schema_
    np.testing.assert_allclose(posterior(fitted, whole), posterior(same, whole), atol=1e-12)


def test_parts_may_differ_in_dtype(tmp_path):
    frames = [
        pl.DataFrame({"x": [1, 2, 9], "y": ["a", "b", "a"]}, schema={"x": pl.Int8, "y": pl.String}),
        pl.DataFrame({"x": [0.5, 4.0, 2.0], "y": ["b", "b", "a"]}),
        pl.DataFrame({"x": [None, None], "y": ["b", "a"]}, schema={"x": pl.Null, "y": pl.String}),
    ]
    fitted = NaiveBayes(tradeoff=1).fit(parts_of(tmp_path / "parts", *frames), "y")
    whole = pl.concat(frames, how="vertical_relaxed")
    same = NaiveBayes(tradeoff=1).fit(whole.drop("y"), whole["y"])
    np.testing.assert_allclose(posterior(fitted, whole), posterior(same, whole), atol=1e-12)


def test_rows_without_a_label_are_left_out_and_counted(table, tmp_path):
    holes = table.with_columns(
        pl.when(pl.int_range(pl.len()) % 10 == 3).then(None).otherwise(pl.col("y")).alias("y")
    )
    source = scan(write(holes, tmp_path / "parts", 3), "y")
    fitted = NaiveBayes(tradeoff=1).fit(source)
    kept = holes.drop_nulls("y")
    assert source.n_dropped == holes.height - kept.height
    whole = NaiveBayes(tradeoff=1).fit(kept.drop("y"), kept["y"])
    np.testing.assert_allclose(posterior(fitted, kept), posterior(whole, kept), atol=1e-10)


def spoil(file, how):
    """Damage a file; return the file that it is then, and what is to be told of it."""
    data = bytearray(file.read_bytes())
    if how == "footer":
        file.write_bytes(b"PAR1" + bytes(400))
        return file, "expected a Parquet file, got something else ("
    if how == "pages":
        data[100:900] = bytes(800)
    elif how == "gzip":
        file.unlink()
        file = file.with_suffix(".csv.gz")
        data = gzip.compress(data)[:-30]
    elif how == "column":
        data = data.replace(b",y\n", b",z\n", 1)
    elif how == "encoding":
        last = data.rstrip().rindex(b"\n")
        data[last + 1 : last + 1] = b"\xe9"
    elif how == "line":
        data += b"1,2\n"
    file.write_bytes(data)
    told = {
        "pages": "expected a Parquet file, got something else (",
        "gzip": "expected a whole gzip file, got a damaged one (",
        "column": r"expected the columns of .*, but 'y' is missing, 'z' is new",
        "encoding": "expected text encoded as UTF-8, got byte 0xe9 in line ",
        "line": "expected 15 fields as in the header, ",
    }
    return file, told[how]


@pytest.fixture(scope="module")
def adult(shared_data):
    frame = read_table(shared_data / "ng_jordan" / "adult.csv.gz")[:3_000]
    return frame.select(pl.all().exclude("target"), y="target")


@pytest.mark.parametrize(
    ("suffix", "how", "numbers"),
    [
        ("parquet", "footer", [0, 19]),
        ("parquet", "pages", [3, 17, 18]),
        ("csv", "gzip", [7, 9]),
        ("csv", "column", [7]),
        ("csv", "encoding", [5, 7]),
        ("csv", "line", [7]),
    ],
)
def test_damaged_files_among_many_are_named(adult, tmp_path, suffix, how, numbers):
    frame, n_files = adult, 20 if suffix == "parquet" else 10
    folder = write(frame, tmp_path / "parts", n_files, suffix=suffix)
    edges = np.linspace(0, frame.height, n_files + 1).astype(int)
    spoilt = [spoil(folder / f"part-{number:02d}.{suffix}", how) for number in numbers]
    model = NaiveBayes(tradeoff=1).fit(frame[:2000].drop("y"), frame[:2000]["y"])
    before = posterior(model, frame[:50])
    with pytest.raises(DataError) as caught:
        model.fit(scan(folder), "y")
    told = str(caught.value)
    for file, what in spoilt:
        assert re.search(f"(^|; ){re.escape(str(file))}: {what.replace('(', '[(]')}", told)
    assert told.count(str(folder)) == len(spoilt) + (how == "column")
    if how != "column":
        done = "read" if how == "pages" else "opened"
        assert (
            f"; the other {n_files - len(spoilt)} of {n_files} files can be {done}: write again"
            in told
        )
    np.testing.assert_array_equal(posterior(model, frame[:50]), before)
    # Without them, all rows of the others are there.
    for file, _ in spoilt:
        file.unlink()
    fitted = NaiveBayes(tradeoff=1).fit(scan(folder), "y")
    kept = [frame[int(edges[i]) : int(edges[i + 1])] for i in range(n_files) if i not in numbers]
    rest = pl.concat(kept)
    whole = NaiveBayes(tradeoff=1).fit(rest.drop("y"), rest["y"])
    assert fitted.class_count_.sum() == rest.height
    np.testing.assert_allclose(posterior(fitted, rest), posterior(whole, rest), atol=1e-10)


def test_names_of_columns_that_no_table_has_are_refused(tmp_path):
    y = pa.array(["a", "b"])
    for names, told in (
        (["x", "x", "y"], "expected column names that differ, got 'x' 2 times"),
        (["x", "", "y"], "expected a name for every column, got none for column 2 of 3"),
    ):
        pq.write_table(pa.table([y, y, y], names=names), tmp_path / "a.parquet")
        with pytest.raises(DataError, match=f"a.parquet: {told}"):
            scan(tmp_path)


@pytest.mark.parametrize("what", ["a link to nothing", "something else"])
def test_what_looks_like_a_file_of_the_table_but_is_none_is_named(table, tmp_path, what):
    folder = write(table[:100], tmp_path / "parts", 2)
    odd = folder / "part-02.parquet"
    os.mkfifo(odd) if what == "something else" else odd.symlink_to(folder / "nowhere")
    with pytest.raises(DataError, match=f"^{odd}: expected a file of the table, got {what}"):
        scan(folder)


def test_folders_named_as_columns_are_told(table, tmp_path):
    for year in (2023, 2024):
        (tmp_path / "parts").mkdir(exist_ok=True)
        write(table[:100], tmp_path / "parts" / f"year={year}", 1)
    source = scan(tmp_path / "parts")
    assert source.notes == ("Folders named year=… make no column 'year'.",)
    assert "year" not in source.names


def test_what_no_source_can_give_is_refused_by_name(table, folder, tmp_path):
    with pytest.raises(DataError, match=r"^sample_weight: expected the name of a column"):
        NaiveBayes().fit(scan(folder), "y", sample_weight=np.ones(table.height))
    with pytest.raises(
        DataError, match=r"^y: expected a column of the table, got 'z'; the columns"
    ):
        NaiveBayes().fit(scan(folder), "z")
    for role, given in (("target", "talp"), ("columns", ["talp"]), ("drop", ["talp"])):
        with pytest.raises(DataError, match=f"^{role}: expected a column .* got 'talp'; did you"):
            scan(folder, **{role: given})
    with pytest.raises(DataError, match=r"^y: expected the name of the column of labels in the"):
        NaiveBayes().fit(scan(folder), table["y"])
    with pytest.raises(DataError, match=r"^components: expected 1 for rows that are read in parts"):
        GaussianDiscriminant(components=2).fit(scan(folder, columns=["tail"]), "y")
    with pytest.raises(DataError, match=r"^interactions: expected None for rows that are read"):
        NaiveBayes(interactions=1).fit(scan(folder), "y")
    for other in (PooledClassifier(), EntropicNaiveBayes(GaussianNB())):
        with pytest.raises(DataError, match=r"^X: expected a table in memory, got FileSource"):
            other.fit(scan(folder), table["count"])
    with pytest.raises(DataError, match=r"^path: expected table files .* got none in"):
        scan(tmp_path)
    texts = pl.DataFrame({"t": [f"some words of number {i}" for i in range(40)], "y": [0, 1] * 20})
    with pytest.raises(DataError, match=r"^X: column 't': expected no free text in rows"):
        NaiveBayes().fit(parts_of(tmp_path / "texts", texts), "y")
    mixed = [pl.DataFrame({"x": [1.5], "y": [0]}), pl.DataFrame({"x": ["u"], "y": [1]})]
    with pytest.raises(DataError, match=r"^X: column 'x': expected cells of one type in all"):
        NaiveBayes().fit(parts_of(tmp_path / "mixed", *mixed), "y")
    other = [pl.DataFrame({"x": [1.5], "y": [0]}), pl.DataFrame({"z": [1.5], "y": [1]})]
    with pytest.raises(DataError, match=r"1\.parquet: expected the columns of .*0\.parquet, but"):
        parts_of(tmp_path / "other", *other)
    one = pl.DataFrame({"x": [1.5, 2.0], "y": [0, 0]})
    with pytest.raises(DataError, match=r"^y: expected at least 2 classes, got 1 class \(0 in all"):
        NaiveBayes().fit(parts_of(tmp_path / "one", one), "y")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("change", ["more", "fewer", "cells", "labels", "gone"])
@pytest.mark.parametrize("passes", [0, 1, 2])
def test_a_file_that_changes_before_or_between_passes_is_named(tmp_path, suffix, change, passes):
    frame = mixed_table(400)
    folder = write(frame, tmp_path / "parts", 2, suffix=suffix)
    source, file = scan(folder, "y"), folder / f"part-01.{suffix}"
    for _ in range(passes):
        source.sample(20)
    part = frame[200:]
    other = {
        "more": pl.concat([part, part[:9]]),
        "fewer": part[:150],
        "cells": part.with_columns(pl.col("tail") + 1),
        "labels": part.with_columns(y=pl.col("y").reverse()),
        "gone": part,
    }[change]
    file.unlink()
    if change != "gone":
        {"parquet": other.write_parquet, "arrow": other.write_ipc, "csv": other.write_csv}[suffix](
            file
        )
    with pytest.raises(DataError, match=f"^{file}: expected the file as it was at first"):
        NaiveBayes(tradeoff=1).fit(source)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_a_file_without_rows_among_others_is_skipped(tmp_path, suffix):
    frame = mixed_table(60)
    folder = write(frame, tmp_path / "parts", 2, suffix=suffix)
    expected = scan(folder, "y").sample()[0]
    bare = frame[:0]
    {"parquet": bare.write_parquet, "arrow": bare.write_ipc, "csv": bare.write_csv}[suffix](
        folder / f"a.{suffix}"
    )
    assert scan(folder, "y").sample()[0].equals(expected)
    with pytest.raises(DataError, match=r"^target: expected the column of labels for a sample"):
        scan(folder).sample()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("n_files", [1, 2])
@pytest.mark.parametrize("rows", ["none", "blank"])
def test_files_without_cells_are_refused(tmp_path, suffix, n_files, rows):
    frame = mixed_table(8)
    n_rows = 0 if rows == "none" else frame.height
    blank = frame.with_columns(pl.lit(None, one.dtype).alias(one.name) for one in frame)[:n_rows]
    folder = write(blank, tmp_path / "parts", n_files, suffix=suffix)
    for act in (
        lambda: NaiveBayes(tradeoff=1).fit(scan(folder), "y"),
        lambda: GaussianDiscriminant(tradeoff="auto").fit(scan(folder), "y"),
        lambda: BinomialRegression().fit(scan(folder), "y"),
        lambda: scan(folder, "y").sample(),
    ):
        told = r"minimum of 1 is required|got none|labels in column 'y', got \d+ empty cells"
        with pytest.raises(DataError, match=told):
            act()


@pytest.mark.parametrize("wanted", [1, "auto", [("level", "tail")], [("no", "such")]])
def test_interactions_are_refused_for_rows_in_parts(folder, table, wanted):
    for source in (scan(folder), MemorySource(table)):
        with pytest.raises(DataError, match=r"^interactions: expected None for rows that are read"):
            NaiveBayes(interactions=wanted).fit(source, "y")


def test_too_many_texts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(survey_module, "_MOST_TEXTS", 50)
    frame = pl.DataFrame({"id": [f"n{i}" for i in range(120)], "y": [0, 1] * 60})
    with pytest.raises(DataError, match=r"expected at most 50 different texts, got more; drop"):
        NaiveBayes().fit(MemorySource(frame, "y", size=30))


# -- passes ----------------------------------------------------------------------------------------


def test_fits_that_go_on_together_share_their_passes():
    taken = []

    def take(functions):
        taken.append(len(functions))
        return [function() for function in functions]

    together = Together(take)

    def fit(steps):
        return [together.total(lambda k=k: (steps, k)) for k in range(steps)]

    assert together.map(fit, [3, 1, 2]) == [[(n, k) for k in range(n)] for n in (3, 1, 2)]
    assert taken == [3, 2, 1]


def test_parts_of_fits_that_go_on_together_share_their_passes_too():
    taken = []

    def take(functions):
        taken.append(len(functions))
        return [function() for function in functions]

    together = Together(take)

    def fit(name):
        halves = together.map(lambda half: together.total(lambda: (name, half)), [0, 1])
        return [*halves, together.total(lambda: name)]

    assert together.map(fit, "abc") == [[(name, 0), (name, 1), name] for name in "abc"]
    assert taken == [6, 3]


def test_an_error_in_a_common_pass_reaches_every_fit():
    together = Together(lambda functions: [1 / 0 for _ in functions])
    reached = []

    def fit(number):
        try:
            together.total(lambda: None)
        except ZeroDivisionError:
            reached.append(number)
            raise

    with pytest.raises(ZeroDivisionError):
        together.map(fit, [1, 2, 3])
    assert sorted(reached) == [1, 2, 3]


def test_of_a_file_of_many_row_groups_a_few_are_held(tmp_path):
    rng = np.random.default_rng(0)
    n = 1_500_000
    columns = {f"x{j}": rng.random(n) for j in range(4)} | {"y": np.arange(n) % 2}
    pl.DataFrame(columns).write_parquet(tmp_path / "rows.parquet", row_group_size=20_000)
    source, held, rows = scan(tmp_path / "rows.parquet", "y"), [], []

    def count(part):
        held.append(pa.total_allocated_bytes() - before)
        rows.append(len(part.labels))
        return 0

    before = pa.total_allocated_bytes()
    source.reduce_parts(count, max)
    assert sum(rows) == n
    # What is read ahead included.
    assert max(held) < 0.5 * (tmp_path / "rows.parquet").stat().st_size


def test_what_is_read_ahead_stops_when_it_is_not_wanted():
    made = []

    def items():
        for number in range(1_000):
            made.append(number)
            yield number

    for item in read_ahead(items()):
        if item == 3:
            break
    assert len(made) < 20

    def broken():
        yield 1
        raise DataError("no more")

    with pytest.raises(DataError, match="no more"):
        list(read_ahead(broken()))


def test_a_generative_fit_decodes_each_cell_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=300_000) for j in range(14)}
    frame = pl.DataFrame({**columns, "y": rng.integers(2, size=300_000)})
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=100_000)
    source = scan(tmp_path)
    reader = type(source._reader)
    decoded, own = [], reader._batches

    def counting(self, file, names, rows):
        for batch in own(self, file, names, rows):
            decoded.append(batch.num_rows * batch.num_columns)
            yield batch

    monkeypatch.setattr(reader, "_batches", counting)
    fitted = NaiveBayes(tradeoff=1).fit(source, "y")
    assert fitted.n_passes_ == 1
    # The first rows, which say what columns and labels there are, are not decoded again.
    assert sum(decoded) == 300_000 * 15


def spoiled(frame, what):
    """Return a table whose first rows do not tell what a column of the last ones holds."""
    last = pl.int_range(pl.len()) > frame.height - 9
    changes = {
        "nothing": [],
        "a class": [pl.when(last).then(pl.lit("z")).otherwise("y").alias("y")],
        "a category": [pl.when(last).then(pl.lit("t")).otherwise("region").alias("region")],
        "a negative": [pl.when(last).then(-pl.col("count")).otherwise("count").alias("count")],
        "large numbers": [pl.when(last).then(10**6).otherwise("grade").alias("grade")],
        "all classes but one": [pl.when(last).then("y").otherwise(pl.lit("a")).alias("y")],
        "cells": [pl.when(last).then("level").alias("level")],
        "categories": [pl.when(last).then("region").alias("region")],
    }
    return frame.with_columns(changes[what])


@pytest.mark.parametrize("tradeoff", [1.0, 0.5])
@pytest.mark.parametrize(
    ("what", "passes"),
    [
        ("nothing", 1),
        ("a class", 2),
        ("a category", 2),
        ("a negative", 2),
        ("large numbers", 2),
        ("all classes but one", 2),
        ("cells", 2),  # a sample tells where a column without cells in the first rows lies
        ("categories", 3),
    ],
)
def test_what_the_first_rows_do_not_tell_costs_one_pass(table, what, passes, tradeoff):
    frame = spoiled(table[:SAMPLE_ROWS], what)
    fitted, whole = NaiveBayes(tradeoff=tradeoff), NaiveBayes(tradeoff=tradeoff)
    fitted.fit(MemorySource(frame, "y", size=1_000))
    whole.fit(frame.drop("y"), frame["y"])
    assert fitted.schema_ == whole.schema_
    assert fitted.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_array_equal(fitted.class_count_, whole.class_count_)
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(posterior(fitted, frame), posterior(whole, frame), atol=tolerance)
    if tradeoff == 1.0:
        assert fitted.n_passes_ == passes


def test_faults_that_only_all_rows_show_are_named(table):
    frame = table[:3_000]
    worse = frame.with_columns(
        tail=pl.when(pl.int_range(pl.len()) > 2_990).then(np.inf).otherwise("tail")
    )
    with pytest.raises(DataError, match=r"column 'tail'.*inf"):
        NaiveBayes(tradeoff=1).fit(MemorySource(worse, "y", size=500))


@pytest.mark.parametrize("tradeoff", [1.0, 0.0])
def test_weights_take_no_pass_of_their_own(table, tradeoff):
    rng = np.random.default_rng(0)
    frame = table.drop("level", "region").with_columns(weight=rng.integers(0, 4, table.height))
    passes = []
    for weight in (None, "weight"):
        own = frame if weight else frame.drop("weight")
        source = MemorySource(own, "y", size=5_000)
        passes.append(NaiveBayes(tradeoff=tradeoff).fit(source, sample_weight=weight).n_passes_)
    # Rows without weight are known too late for a sample of as many rows in the first pass.
    assert passes[1] <= passes[0] + (tradeoff != 1.0)


@pytest.mark.parametrize("tradeoff", [0.5, 0.0])
def test_few_rows_in_parts_take_few_passes(table, tradeoff):
    frame = table[:SAMPLE_ROWS].drop("level", "region")
    fitted = NaiveBayes(tradeoff=tradeoff).fit(MemorySource(frame, "y", size=1_000))
    assert fitted.n_passes_ <= 3


LAYOUTS = {
    "by rows": lambda X: X,
    "by columns": np.asfortranarray,
    "some of the columns": lambda X: np.asfortranarray(np.column_stack([X, X]))[:, : X.shape[1]],
    "every second": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "single precision by columns": lambda X: np.asfortranarray(X, dtype=np.float32),
    "pandas": lambda X: pd.DataFrame(np.asfortranarray(X)).add_prefix("x"),
    "columns apart": lambda X: pl.DataFrame(dict(zip("abcdefgh", X.T, strict=False))),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("tradeoff", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_part_is_read_as_it_lies(layout, tradeoff, n_classes):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=6_001)
    X = rng.normal(size=(y.size, 4)) + y[:, None]
    X[:, 2] += 4096.0 if n_classes == 3 else 0.0  # far from zero, in units of its spread
    X = X.astype(np.float32).astype(np.float64)
    weights = rng.integers(1, 3, size=y.size).astype(np.float64) if n_classes == 3 else None
    given = LAYOUTS[layout](X)
    model = NaiveBayes(tradeoff=tradeoff, shared_variance=n_classes == 2)
    found = clone(model).fit(Weighed(given, y, weights, size=5_000))
    whole = clone(model).fit(X, y, sample_weight=weights)
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(found.predict_proba(given), whole.predict_proba(X), atol=tolerance)


class Weighed(MemorySource):
    """Rows with weights that are no column."""

    def __init__(self, table, labels, weights, size):
        super().__init__(table, labels, size)
        self.weights = weights

    def parts(self, columns):
        for part in super().parts(columns):
            some = slice(part.first, part.first + self.size)
            beside = {} if self.weights is None else {"sample_weight": self.weights[some]}
            yield part._replace(beside=beside)


class Frames(MemorySource):
    """Frames of the same columns, whatever their types."""

    def __init__(self, frames):
        super().__init__(pd.concat(frames, ignore_index=True), "y")
        self.frames = frames

    def parts(self, columns):
        first = 0
        for frame in self.frames:
            yield Part(frame.drop(columns="y"), frame["y"], first)
            first += len(frame)


UNLIKE = {
    "narrow integers": {"count": "int8"},
    "integers that may be missing": {"count": "Int64"},
    "Arrow numbers": {"count": "int64[pyarrow]", "level": "double[pyarrow]"},
    "numbers as objects": {"count": object, "level": object},
    "text as categories": {"group": "category"},
    "Arrow text": {"group": "string[pyarrow]"},
    "numbers for truth": {"flag": "int64"},
    "labels as floats": {"y": "float64"},
    "labels as truth": {"y": bool},
    "Arrow labels": {"y": "int64[pyarrow]"},
    "labels as categories": {"y": "category"},
    "nothing": {"level": None, "group": None},
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("tradeoff", [1.0, 0.0])
@pytest.mark.parametrize("unlike", UNLIKE)
def test_partitions_of_pandas_may_differ_in_their_types(unlike, tradeoff, first):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    frame = pd.DataFrame(
        {
            "level": rng.normal(size=y.size) + y,
            "count": rng.poisson(2.0 + y),
            "flag": rng.random(y.size) < 0.3 + 0.2 * y,
            "group": np.array(["u", "v", "w"])[rng.integers(3, size=y.size)].astype(object),
            "y": y,
        }
    )
    parts = [frame[:250], frame[250:250], frame[250:407], frame[407:]]
    for name, dtype in UNLIKE[unlike].items():
        own = parts[0 if first else 2]
        own = own.assign(**{name: None}) if dtype is None else own.astype({name: dtype})
        parts[0 if first else 2] = own
        if dtype is None:
            frame.loc[own.index, name] = None
    found = NaiveBayes(tradeoff=tradeoff).fit(Frames(parts))
    whole = NaiveBayes(tradeoff=tradeoff).fit(frame.drop(columns="y"), frame["y"])
    assert found.schema_ == whole.schema_
    np.testing.assert_array_equal(found.classes_, whole.classes_)
    tolerance = 1e-10 if tradeoff == 1.0 else 1e-6
    np.testing.assert_allclose(posterior(found, frame), posterior(whole, frame), atol=tolerance)


def test_rows_that_a_worker_holds_by_columns_are_not_copied():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(500, 3)))
    frame = pd.DataFrame(X, columns=list("abc"), copy=False)
    apart = pl.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    for table in (X, frame, apart):
        encoder = Encoder(Schema.learn(table), np.array([0, 1]))
        found = encoder(Part(table, np.arange(500) % 2, 0)).table
        own = found.columns[0] if table is apart else found
        held = apart["a"].to_numpy() if table is apart else X
        assert np.shares_memory(own, held)


def test_pandas_frames_are_sources_too():
    frame = pd.DataFrame({"x": [0.0, 1.0, np.nan, 4.0], "y": ["u", "v", "u", "v"]})
    fitted = NaiveBayes(tradeoff=1).fit(MemorySource(frame, "y", size=3))
    whole = NaiveBayes(tradeoff=1).fit(frame[["x"]], frame["y"])
    np.testing.assert_allclose(
        fitted.predict_proba(frame[["x"]]), whole.predict_proba(frame[["x"]]), atol=1e-12
    )
    assert list(fitted.feature_names_in_) == ["x"]


def test_posteriors_of_files_are_read_part_by_part(table, folder):
    model = NaiveBayes(tradeoff=1).fit(scan(folder), "y")
    rows = scan(folder, drop=["y"])
    np.testing.assert_allclose(model.predict_proba(rows), posterior(model, table), atol=1e-15)
    np.testing.assert_array_equal(model.predict(rows), model.predict(table.drop("y")))


def test_the_commands_read_a_folder(table, folder, tmp_path, capsys):
    file, out = tmp_path / "model.skops", tmp_path / "predictions.csv"
    code = run("fit", folder, "--target", "y", "-m", "naive-bayes", "--tradeoff", 1, "-o", file)
    told = capsys.readouterr().out
    assert code == 0, told
    assert f"fitted to {table.height:,} rows of 6 columns" in told
    assert "in 1 pass over the rows" in told
    model, rows = NaiveBayes(tradeoff=1).fit(table.drop("y"), table["y"]), table[:600]
    n_files = 3
    pl.DataFrame(schema=table.schema).write_parquet(tmp_path / "empty.parquet")
    for suffix in ("parquet", "arrow", "csv"):
        few = write(rows, tmp_path / suffix, n_files, suffix=suffix)
        if suffix == "parquet":
            (tmp_path / "empty.parquet").rename(few / "part-01-none.parquet")
        for data in (few, few / f"part-*.{suffix}"):
            assert run("predict", "--exact", file, data, "--out", out, "--batch", 0.002) == 0
            assert "600 rows written" in capsys.readouterr().err
            found = pl.read_csv(out).select("P(a)", "P(b)", "P(c)").to_numpy()
            np.testing.assert_allclose(found, posterior(model, rows), atol=1e-10)
    assert run("predict", "--exact", file, few / "part-01.csv", "--adapt", "--out", out) == 0


def test_columns_that_give_the_class_away_are_told_of_in_parts_too(table, tmp_path, capsys):
    """The first rows tell, without another pass over all."""
    leaky = table.with_columns(row=pl.int_range(table.height), again=pl.col("y"))
    data, file = write(leaky, tmp_path / "leaky", 3), tmp_path / "model.skops"
    assert run("fit", data, "-t", "y", "-m", "naive-bayes", "--tradeoff", 1, "-o", file) == 0
    told = capsys.readouterr().out
    assert "column 'row': rises with every row" in told
    assert "column 'again': tells the class of every row" in told
    assert "in 1 pass over the rows" in told


@pytest.mark.parametrize("model", ["pool", "pool:nb,forest"])
def test_the_command_refuses_a_pool_for_rows_in_parts(folder, tmp_path, capsys, model):
    file = tmp_path / "model.skops"
    assert run("fit", folder, "--target", "y", "--model", model, "--out", file) == 2
    assert capsys.readouterr().err == (
        "error: --model: expected best, naive-bayes, gaussian-shared or gaussian-full for rows "
        "that are read some at a time, got PooledClassifier; name one of these\n"
    )
    assert not file.exists()


def test_predictions_for_a_folder_are_whole_or_not_at_all(table, tmp_path, capsys):
    few = write(table[:90], tmp_path / "few", 3, suffix="csv")
    file, out = tmp_path / "model.skops", tmp_path / "predictions.csv"
    assert run("fit", few, "--target", "y", "-m", "naive-bayes", "--tradeoff", 1, "-o", file) == 0
    out.write_text("as before")
    last, told = few / "part-02.csv", []
    whole = last.read_text()
    for broken in (whole.replace("level", "height"), whole.replace("\n", "\nmany", 2)):
        last.write_text(broken)
        capsys.readouterr()
        assert run("predict", file, few, "--out", out) == 2
        told.append(capsys.readouterr().err)
        assert out.read_text() == "as before"
    assert f"{last}: expected the 6 columns of fit, got none named 'level'" in told[0]
    assert f"{last}: column 'level': expected numbers as in fit" in told[1]
    before = (few / "part-00.csv").read_text()
    assert run("predict", file, few, "--out", few / "part-00.csv") == 2
    assert "expected a file other than those that are read" in capsys.readouterr().err
    assert (few / "part-00.csv").read_text() == before


@pytest.mark.parametrize("values", [[0, 1], [0, 1, 2], [0.0, 1.0], [0.5, 2.5]])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("swapped", [False, True])
def test_booleans_beside_numbers(tmp_path, values, suffix, swapped):
    y = ["a", "b", "a", "b"]
    truth = pl.DataFrame({"x": [True, False, True, True], "y": y})
    digits = pl.DataFrame({"x": (values * 4)[:4], "y": y})
    frames = [digits, truth] if swapped else [truth, digits]
    for number, frame in enumerate(frames):
        {"parquet": frame.write_parquet, "csv": frame.write_csv}[suffix](
            tmp_path / f"{number}.{suffix}"
        )
    model = NaiveBayes(tradeoff=1)
    if str(values) != "[0, 1]":
        with pytest.raises(DataError, match="column 'x': expected true and false"):
            model.fit(scan(tmp_path), "y")
        return
    source = scan(tmp_path)
    model.fit(source, "y")
    bits = pl.concat([frame.with_columns(pl.col("x").cast(pl.Int64)) for frame in frames])
    whole = NaiveBayes(tradeoff=1).fit(bits.drop("y"), bits["y"])
    assert model.schema_ == whole.schema_
    np.testing.assert_allclose(posterior(model, bits), posterior(whole, bits), atol=1e-12)
    told = ("'x': 1 is read as true and 0 as false, as in other rows",)
    assert source.notes == (told if suffix == "csv" else ())


@pytest.mark.parametrize("separator", [";", pytest.param("\t", marks=pytest.mark.slow)])
def test_new_rows_whose_first_batch_does_not_tell_what_points_mean(tmp_path, capsys, separator):
    """All numbers of the first batches look like 1.234; only the last one has a comma."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    x = np.round(rng.integers(1_000, 900_000, size=600) * (1.0 + y), 0)
    cells = [f"{one:,.0f}".replace(",", ".") for one in x]
    cells[-1] = cells[-1] + ",5"
    x[-1] += 0.5
    lines = [f"x{separator}n{separator}y"]
    lines += [f"{c}{separator}{k}{separator}{k}" for c, k in zip(cells, y, strict=True)]
    data, file, out = tmp_path / "new.csv", tmp_path / "m.skops", tmp_path / "out.csv"
    data.write_text("\n".join(lines))
    assert run("fit", data, "-t", "y", "-m", "naive-bayes", "--batches", "--tradeoff", 1,
               "--drop", "n", "-o", file) == 0  # fmt: skip
    assert "'x': '" in capsys.readouterr().out
    frame = pl.DataFrame({"x": x})
    whole = NaiveBayes(tradeoff=1).fit(frame, y)
    for batch in (0.0003, 16):
        assert run("predict", "--exact", file, data, "--out", out, "--batch", batch) == 0, (
            capsys.readouterr()
        )
        found = pl.read_csv(out).select("P(0)", "P(1)").to_numpy()
        np.testing.assert_allclose(found, whole.predict_proba(frame), atol=1e-10)
    assert run("explain", file, data, "--row", 2) == 0


def arrow_table(n_rows=60, **columns):
    """Return an Arrow table of a column of numbers, labels, and what is given."""
    codes = np.arange(n_rows) % 3
    own = {"x": codes + np.linspace(0, 1, n_rows), "y": [["a", "b", "b"][code] for code in codes]}
    return pa.table(own | columns)


def test_decimals_of_any_width_are_numbers(tmp_path):
    cells = [f"{i % 7}.25" for i in range(60)]
    found = []
    for place, kind in enumerate([pa.decimal256(50, 2), pa.decimal128(9, 2)]):
        decimals = pa.array(cells).cast(pa.decimal128(9, 2)).cast(kind)
        table = arrow_table(d=decimals)
        pq.write_table(table, tmp_path / f"{place}.parquet")
        feather.write_feather(table, tmp_path / f"{place}.arrow")
        for suffix in ("parquet", "arrow"):
            model = NaiveBayes(tradeoff=1).fit(scan(tmp_path / f"{place}.{suffix}"), "y")
            found.append(model.parameters_.natural)
    np.testing.assert_array_equal(found[1:], found[:-1])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stream.arrow", "got an Arrow stream; make it a file"),
        ("old.feather", "got Feather of version 1; write it again"),
        ("packed.csv.bz2", "got '.bz2'; unpack it first"),
        ("interval.arrow", "column 'd': expected numbers or text, got type month_day_nano"),
    ],
)
def test_files_that_are_not_read_are_told_what_they_are(tmp_path, name, told):
    file, table = tmp_path / "parts" / name, arrow_table()
    file.parent.mkdir()
    if name == "stream.arrow":
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    elif name == "old.feather":
        file.write_bytes(b"FEA1" + bytes(40) + b"FEA1")
    elif name == "packed.csv.bz2":
        file.write_bytes(bz2.compress(b"x,y\n1,a\n2,b\n"))
        (file.parent / "plain.csv").write_text("x,y\n1,a\n2,b\n")
    else:
        interval = pa.array([(1, 2, 3)] * 60, pa.month_day_nano_interval())
        feather.write_feather(arrow_table(d=interval), file)
    for path in (file, file.parent):
        with pytest.raises(DataError, match=re.escape(told)):
            NaiveBayes(tradeoff=1).fit(scan(path), "y")


def test_patterns_and_lists_may_name_folders(table, tmp_path):
    halves = table[:3_000], table[3_000:]
    for number, half in enumerate(halves):
        folder = tmp_path / f"year={2020 + number}"
        folder.mkdir()
        half.write_parquet(folder / "part.parquet")
    folders = sorted(tmp_path.glob("year=*"))
    for named in (f"{tmp_path}/year=*", folders, [*folders, folders[0] / "part.parquet"]):
        assert scan(named).n_rows == table.height


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([b"a", b"b"], "target: expected classes in column 'y', got cells of type Binary"),
        ([[1], [2]], "target: expected classes in column 'y', got cells of type List"),
        ([None, None], "target: expected labels in column 'y', got 60 empty cells"),
        ([2**64 - 1, 2**64 - 2], "expected classes.*got the number 1.84467e[+]19"),
    ],
)
def test_what_are_no_labels_is_told_of_parts_as_of_the_whole(tmp_path, labels, told):
    from crossfade.commands.tables import open_table

    file, kind = tmp_path / "rows.parquet", pa.uint64() if labels[0] == 2**64 - 1 else None
    pq.write_table(arrow_table(y=pa.array([labels[i % 2] for i in range(60)], kind)), file)
    with pytest.raises(DataError, match=told):
        open_table(str(file), "y")
    with pytest.raises(DataError, match=told):
        NaiveBayes(tradeoff=1).fit(scan(file), "y")


def test_columns_of_numbers_cost_no_look_at_all_columns_each(tmp_path):
    class Counted(dict):
        looks = 0

        def __getitem__(self, name):
            Counted.looks += 1
            return super().__getitem__(name)

    wide = {f"c{j}": np.arange(20) * 1.5 + j for j in range(300)}
    pq.write_table(arrow_table(20, **wide), tmp_path / "wide.parquet")
    source = scan(tmp_path / "wide.parquet", "y")
    source._reader.types = Counted(source._reader.types)
    NaiveBayes(tradeoff=1).fit(source)
    assert 0 < Counted.looks < 20 * len(wide)  # once per column and time they are asked for


def test_predictions_in_parquet_are_written_as_they_come(table, tmp_path, monkeypatch):
    from crossfade.commands import predict

    data, model = tmp_path / "rows.csv", str(tmp_path / "model.skops")
    table.write_csv(data)
    assert run("fit", str(data), "-t", "y", "-m", "nb:1", "-o", model) == 0
    found = []
    for rows in (1 << 18, 2_000):
        monkeypatch.setattr(predict, "_GROUP_ROWS", rows)
        out = tmp_path / f"{rows}.parquet"
        assert run("predict", model, str(data), "-o", str(out), "--batch", "0.02") == 0
        found.append(pl.read_parquet(out))
        groups = pq.ParquetFile(out).metadata
        most = max(groups.row_group(i).num_rows for i in range(groups.num_row_groups))
        assert (groups.num_row_groups, most < 3_000) == ((1, False) if rows > 6_000 else (3, True))
    assert found[0].schema == found[1].schema
    assert found[0].equals(found[1])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_progress_knows_the_share_of_every_pass(table, tmp_path, suffix):
    source = scan(write(table, tmp_path / "parts", 3, suffix=suffix))
    told = []
    source.progress = lambda *at: told.append(at)
    model = NaiveBayes(tradeoff=0.5).fit(source, "y")
    last = {}
    for done, total, what in told:
        assert last.get(what, 0) <= done <= total > 0
        last[what] = done
        at_end = {"types of columns": total}.get(what, table.height)
        assert total == at_end
    passes = [f"pass {number}" for number in range(1, model.n_passes_ + 1)]
    assert [what for what in last if what.startswith("pass")] == passes
    assert {last[what] for what in passes} == {table.height}
    assert ("types of columns" in last) == (suffix == "csv")
