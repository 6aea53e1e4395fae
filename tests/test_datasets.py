"""Data sets by name and from files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.datasets

from crossfade.datasets import bundled, data_directory, load
from crossfade.errors import DataError
from crossfade.table import Schema

SHARED = data_directory()
needs_shared_data = pytest.mark.skipif(
    SHARED is None, reason="no shared data: set CROSSFADE_DATA to their folder"
)


@pytest.mark.parametrize("name", bundled())
def test_bundled_data_are_scikit_learns(name: str) -> None:
    data = load(name)
    original = getattr(sklearn.datasets, f"load_{name.replace('-', '_')}")()
    np.testing.assert_array_equal(data.X, original.data)
    np.testing.assert_array_equal(data.y, original.target_names[original.target])
    assert data.target_names == tuple(sorted(original.target_names.tolist()))
    assert data.feature_names == tuple(original.feature_names)
    assert data.n_dropped == 0
    assert load(name.upper().replace("-", "_")).name == name
    with pytest.raises(AttributeError):
        data.name = "other"  # type: ignore[misc]


def test_the_description_counts() -> None:
    assert load("iris").description == "iris (scikit-learn): 150 rows, 4 columns, 3 classes"


def test_a_file_by_path(tmp_path: Path) -> None:
    path = tmp_path / "loans.csv"
    path.write_text("age,default,city\n31,no,Oslo\n20,yes,Bern\n,no,\n40,,Rom\n")
    data = load(path, "default")
    assert data.name == "loans"
    assert data.X.equals(pl.DataFrame({"age": [31, 20, None], "city": ["Oslo", "Bern", None]}))
    assert data.y.to_list() == ["no", "yes", "no"]
    assert data.target_names == ("no", "yes")
    assert data.feature_names == ("age", "city")
    assert data.n_dropped == 1
    assert data.description == (
        "loans.csv: 3 rows, 2 columns, 2 classes, 1 row without a target left out"
    )
    coded = load(str(path), "default", text=["age"], missing_values=["Bern"])
    assert coded.X["age"].to_list() == ["31", "20", None]
    assert coded.X["city"].to_list() == ["Oslo", None, None]
    with pytest.raises(
        DataError,
        match=r"^target: expected the name of the column of classes, got none; the columns are 'ag",
    ):
        load(path)
    path.write_text("age,target\n31,no\n20,yes\n")
    assert load(path).target_names == ("no", "yes")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("irsi", "data: expected the name of a data set or a file, got 'irsi'; did you mean 'iris"),
        ("qqqq", "data: expected the name of a data set or a file, got 'qqqq'; bundled are breast"),
        (
            "loan",
            "data: expected the name of a data set or a file, got 'loan'; did you mean 'loans.",
        ),
        ("nothing.csv", "nothing.csv: no such file; "),
        ("no/iris", "no/iris: no such file; there is no folder 'no' either"),
    ],
)
def test_names_that_are_not_there(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSFADE_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("loans.csv").touch()
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        load(name)


def test_bundled_data_have_their_target() -> None:
    with pytest.raises(
        DataError, match=r"^target: expected none for the bundled data set 'iris', "
    ):
        load("iris", "species")


def test_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "toy.csv").write_text("a,target\n1,x\n2,y\n")
    monkeypatch.setenv("CROSSFADE_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    for name in ("toy", "set/toy", "set/toy.csv"):
        assert load(name).X["a"].to_list() == [1, 2]
    monkeypatch.setenv("CROSSFADE_DATA", str(tmp_path / "gone"))
    assert data_directory() is None


@needs_shared_data
@pytest.mark.parametrize(
    ("name", "rows", "columns", "missing", "counts"),
    [
        ("pima", 768, 8, 0, {0: 500, 1: 268}),
        ("house_votes_84", 435, 16, 392, {"democrat": 267, "republican": 168}),
        ("statlog/vehicle", 846, 18, 0, {"opel": 212, "saab": 217, "bus": 218, "van": 199}),
        ("horse_colic", 368, 22, 1927, {"yes": 232, "no": 136}),
        ("titanic", 1309, 8, 1280, {0: 809, 1: 500}),
        ("sick", 3772, 29, 6064, {"negative": 3541, "sick": 231}),
    ],
)
def test_shared_data_have_the_documented_counts(
    name: str, rows: int, columns: int, missing: int, counts: dict[object, int]
) -> None:
    data = load(name)
    assert data.X.shape == (rows, columns)
    assert sum(data.X.null_count().row(0)) == missing
    assert dict(data.y.value_counts().iter_rows()) == counts
    matrix = Schema.learn(data.X).encode(data.X, handle_unknown="error")
    assert int(np.isnan(matrix).sum()) == missing
