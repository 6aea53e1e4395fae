"""Data sets are found in a folder, or fetched, or asked for in one line."""

from __future__ import annotations

import gzip
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from numpy.testing import assert_array_equal

from crossfade.errors import DataError
from reproduction.data import Source, read_source

TEXT = "height,colour,target\n1.5,red,yes\n,blue,no\n2.5,red,yes\n3,,no\n"
SOURCE = Source("things", "Things", 2)


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **named):
        raise OSError("no network here")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)


@pytest.mark.parametrize("place", ["things.csv", "deep/er/things.csv", "deep/things.csv.gz"])
def test_a_file_is_found_in_any_subfolder(place, tmp_path, no_network):
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    data = TEXT.encode()
    path.write_bytes(gzip.compress(data) if place.endswith(".gz") else data)
    table = read_source(SOURCE, tmp_path)
    assert table.names == ("height", "colour")
    assert_array_equal(table.nominal, [False, True])
    assert_array_equal(table.target, ["yes", "no", "yes", "no"])
    assert_array_equal(table.X, [[1.5, 1], [np.nan, 0], [2.5, 1], [3, np.nan]])
    assert_array_equal(table.columns("numeric"), table.X[:, :1])
    assert_array_equal(table.columns("nominal"), table.X[:, 1:])
    assert_array_equal(table.columns("all"), table.X)
    assert_array_equal(table.column("Colour"), table.X[:, 1])
    assert table.column("weight") is None


def test_the_environment_names_the_folder(tmp_path, monkeypatch, no_network):
    (tmp_path / "things.csv").write_text(TEXT)
    monkeypatch.setenv("CROSSFADE_DATA", str(tmp_path))
    assert read_source(SOURCE, None).X.shape == (4, 2)


def test_absent_and_offline_says_how_to_supply_it(tmp_path, no_network):
    with pytest.raises(DataError) as caught:
        read_source(SOURCE, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    for word in ("'things'", "'Things' version 2", "things.csv", "'target'", "--data"):
        assert word in message


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="expected a folder"):
        read_source(SOURCE, tmp_path / "nowhere")


def test_absent_is_fetched_by_name_and_version(tmp_path, monkeypatch):
    asked = {}

    def fetch(name, **named):
        asked.update(name=name, **named)
        return SimpleNamespace(
            data=np.array([[1.5, 1.0], [2.5, np.nan]]),
            target=np.array(["yes", "no"], dtype=object),
            feature_names=["height", "colour"],
            categories={"colour": ["blue", "red"]},
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    table = read_source(Source("things", "Things", 2, target="kind"), tmp_path)
    assert (asked["name"], asked["version"], asked["target_column"]) == ("Things", 2, "kind")
    assert_array_equal(table.nominal, [False, True])
    assert_array_equal(table.target, ["yes", "no"])
