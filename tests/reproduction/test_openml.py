"""Data sets that OpenML gives: scikit-learn's own client, with a stand-in for the network."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import polars as pl
import pytest
import sklearn.datasets._openml as client
from numpy.testing import assert_array_equal

from crossfade.errors import DataError
from reproduction import bouchard_triggs_table, ng_jordan
from reproduction.__main__ import main
from reproduction.data import Source, read_source

#: What the experiments ask OpenML for, by the name of the file that would do instead.
ASKED = {
    "australian": ("Australian", 4),
    "diabetes": ("diabetes", 1),
    "heart": ("heart-statlog", 1),
    "satimage": ("satimage", 1),
    "vehicle": ("vehicle", 1),
    "pima": ("diabetes", 1),
    "adult": ("adult", 2),
    "boston": ("boston", 1),
    "optdigits": ("optdigits", 1),
    "ionosphere": ("ionosphere", 1),
    "liver": ("liver-disorders", 1),
    "sonar": ("sonar", 1),
    "promoters": ("molecular-biology_promoters", 1),
    "lymphography": ("lymph", 1),
    "breast_cancer": ("breast-cancer", 1),
    "lenses": ("lenses", 1),
    "sick": ("sick", 1),
    "house_votes_84": ("vote", 1),
}

SOURCES = {
    source.file: source
    for source in (
        *bouchard_triggs_table._SOURCES.values(),
        *(problem.source for problem in ng_jordan.PROBLEMS),
    )
}

Columns = dict[str, list[Any]]


@dataclass
class OpenML:
    """A stand-in for its server: one data set, columns of words being nominal there."""

    name: str
    version: int
    columns: Columns
    target: str

    def __post_init__(self) -> None:
        self.asked: list[str] = []
        self.online = True

    def urlopen(self, request: Any, **_: Any) -> io.BytesIO:
        url = request if isinstance(request, str) else request.full_url
        self.asked.append(url)
        if not self.online:
            raise URLError("no network here")
        listed = f"/data/list/data_name/{self.name.lower()}/limit/2/data_version/{self.version}"
        if "/download/" in url:
            content = self.arff()
        elif "/data/list/" in url:
            assert url.endswith(listed)
            one = {"did": 7, "name": self.name, "version": self.version, "status": "active"}
            content = self.json({"data": {"dataset": [one]}})
        elif "/data/features/" in url:
            content = self.json({"data_features": {"feature": self.features()}})
        elif "/data/qualities/" in url:
            rows = str(len(self.columns[self.target]))
            quality = [{"name": "NumberOfInstances", "value": rows}]
            content = self.json({"data_qualities": {"quality": quality}})
        else:
            content = self.json({"data_set_description": self.description()})
        response = io.BytesIO(content)
        response.info = dict  # type: ignore[attr-defined]  # no Content-Encoding
        return response

    @staticmethod
    def json(content: Any) -> bytes:
        return json.dumps(content).encode()

    def description(self) -> dict[str, str]:
        return {
            "id": "7",
            "name": self.name,
            "version": str(self.version),
            "description": "a stand-in",
            "format": "ARFF",
            "status": "active",
            "file_id": "77",
            "url": "https://www.openml.org/data/v1/download/77/it.arff",
            "default_target_attribute": self.target,
            "md5_checksum": hashlib.md5(self.arff(), usedforsecurity=False).hexdigest(),
        }

    def levels(self, name: str) -> list[str] | None:
        cells = [cell for cell in self.columns[name] if cell is not None]
        return sorted(set(cells)) if any(isinstance(cell, str) for cell in cells) else None

    def features(self) -> list[dict[str, str]]:
        return [
            {
                "index": str(j),
                "name": name,
                "data_type": "numeric" if self.levels(name) is None else "nominal",
                "is_target": str(name == self.target).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": str(cells.count(None)),
            }
            for j, (name, cells) in enumerate(self.columns.items())
        ]

    def arff(self) -> bytes:
        lines = [f"@relation {self.name}"]
        for name in self.columns:
            levels = self.levels(name)
            kind = "numeric" if levels is None else "{" + ",".join(map(repr, levels)) + "}"
            lines.append(f"@attribute '{name}' {kind}")
        lines.append("@data")
        for row in zip(*self.columns.values(), strict=True):
            lines.append(",".join("?" if cell is None else repr(cell) for cell in row))
        return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def serve(monkeypatch, tmp_path) -> Callable[..., OpenML]:
    """Put a stand-in in the network's place; copies are kept in a folder of their own."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "kept"))
    monkeypatch.setattr(client.time, "sleep", lambda seconds: None)

    def put(name: str, version: int, columns: Columns, target: str = "class") -> OpenML:
        server = OpenML(name, version, columns, target)
        monkeypatch.setattr(client, "urlopen", server.urlopen)
        return server

    return put


@pytest.fixture
def empty(tmp_path) -> Path:
    """A folder without data sets."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_every_data_set_is_asked_for_by_name_and_version():
    assert {file: (one.openml, one.version) for file, one in SOURCES.items()} == ASKED


THINGS: Columns = {
    "height": [1.5, None, 2.5, 3.0],
    "colour": ["red", "blue", "red", None],
    "code": ["10", "9", None, "10"],  # nominal there, and numbers all the same
    "class": ["yes", "no", "yes", "no"],
}


def test_what_is_fetched_is_what_a_file_would_give(serve, empty, tmp_path):
    serve("Things", 2, THINGS)
    fetched = read_source(Source("things", "Things", 2), empty)
    frame = pl.DataFrame(THINGS).rename({"class": "target"})
    frame.write_csv(tmp_path / "things.csv")
    read = read_source(Source("things", "Things", 2), tmp_path)
    assert fetched.names == read.names
    assert_array_equal(fetched.X, read.X)
    assert_array_equal(fetched.nominal, read.nominal)
    assert_array_equal(fetched.target, read.target)


def test_another_column_may_be_the_target(serve, empty):
    server = serve("Things", 1, THINGS, target="height")
    table = read_source(Source("things", "Things", target="class"), empty)
    assert table.target.tolist() == ["yes", "no", "yes", "no"]
    assert table.names == ("height", "colour", "code")
    assert any("/download/" in url for url in server.asked)


def test_what_was_fetched_is_kept(serve, empty):
    server = serve("Things", 2, THINGS)
    source = Source("things", "Things", 2)
    first = read_source(source, empty)
    assert len(server.asked) > 3
    server.asked.clear()
    server.online = False
    again = read_source(source, empty)
    assert server.asked == []
    assert_array_equal(again.X, first.X)


@pytest.mark.filterwarnings("error")
def test_without_network_one_line_says_how_to_supply_it(serve, empty, capsys):
    server = serve("diabetes", 1, THINGS)
    server.online = False
    with pytest.raises(SystemExit) as caught:
        main(["ng-jordan", "--data", str(empty), "--repeats", "1"])
    out, err = capsys.readouterr()
    assert (caught.value.code, out, err.count("\n")) == (2, "", 1)
    for words in ("'pima'", "'diabetes' version 1", "pima.csv", "'target'", "--data"):
        assert words in err
    assert server.asked


def test_a_data_set_that_openml_does_not_have_is_one_line_too(serve, empty, monkeypatch):
    serve("Things", 2, THINGS)

    def refuse(request: Any, **_: Any) -> Any:
        raise client.HTTPError(request.full_url, 412, "no results", {}, io.BytesIO(b"{}"))

    monkeypatch.setattr(client, "urlopen", refuse)
    with pytest.raises(DataError, match=r"could not be fetched .OpenMLError.; put things.csv"):
        read_source(Source("things", "Things", 2), empty)


def test_a_folder_in_the_environment_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSFADE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"CROSSFADE_DATA: expected a folder, got '.*nowhere'"):
        read_source(Source("things", "Things", 2), None)


#: Names that OpenML has for classes, where they are others than those of the files.
CLASSES = {
    "pima": {"0": "tested_negative", "1": "tested_positive"},
    "ionosphere": {"bad": "b", "good": "g"},
    "lenses": {"hard": "1", "soft": "2", "none": "3"},
}


@pytest.mark.parametrize("name", ["pima", "boston", "ionosphere", "liver", "lenses", "voting"])
def test_problems_are_the_same_from_either_place(name, serve, empty, shared_data):
    problem = next(one for one in ng_jordan.PROBLEMS if one.name == name)
    source = problem.source
    path = next(shared_data.rglob(f"{source.file}.csv"))
    frame = pl.read_csv(path)
    columns = frame.to_dict(as_series=False)
    words = [str(cell) for cell in columns.pop("target")]
    answer = "class"
    if name == "boston":  # the class is made of the value of a home; two columns are nominal
        answer = "MEDV"
        columns[answer] = columns.pop("medv")
        columns |= {
            nominal: [str(cell) for cell in columns[nominal]] for nominal in ("chas", "rad")
        }
    else:
        answer = source.target or answer
        columns[answer] = [CLASSES.get(name, {}).get(word, word) for word in words]
    default = "drinks" if name == "liver" else answer
    serve(source.openml, source.version, columns, target=default)
    tables = read_source(source, empty), read_source(source, shared_data)
    fetched, read = (ng_jordan.inputs(problem, one, np.random.default_rng(0)) for one in tables)
    assert_array_equal(fetched[0], read[0])
    assert_array_equal(fetched[1], read[1])


def test_the_stand_in_is_asked_by_the_client_that_the_library_uses():
    # If scikit-learn moved it, the tests above would go to the network.
    assert client.urlopen.__module__ == "urllib.request"
    assert sys.modules["sklearn.datasets"].fetch_openml.__module__ == client.__name__
    assert re.search(r"data_version/\{", Path(client.__file__).read_text(encoding="utf-8"))
