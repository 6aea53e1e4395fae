"""A table in parts is read as the whole one: the same cells, types, notes and notation."""

from __future__ import annotations

from functools import partial

import polars as pl
import pytest

from crossfade.cli import main
from crossfade.errors import DataError
from crossfade.io import file_readers, scan
from crossfade.io.reading import read_file

N = 120


def number(i):
    return f"{i * 37 % 101 / 7:.3f}"


#: Header, the cells of a row, and whether something is to be told of them.
TABLES = {
    "units": ("x,w,y", lambda i: f"{number(i)} kg,{i % 4}", True),
    "a word among numbers": ("x,w,y", lambda i: f"{'low' if i % 20 == 7 else i % 10},1", True),
    "a word among codes": ("x,w,y", lambda i: f"{'low' if i % 20 == 7 else i % 2},1", False),
    "NA among words": ("x,w,y", lambda i: f"1,{'NA' if i % 9 == 8 else 'uvw'[i % 3]}", True),
    "words that look alike": ("x,w,y", lambda i: f"1,{['u', ' u', 'v'][i % 3]}", True),
    "digits beyond 2^53": ("x,w,y", lambda i: f"{2**53 + i},1", True),
    "digits beyond 2^64": ("x,w,y", lambda i: f"{2**64 + i if i > 90 else i},1", True),
    "large, not long": ("x,w,y", lambda i: f"{1 + i}e30,1", False),
    "thousands": ("x;w;y", lambda i: f"{1 + i % 9},{i % 10}00,500;{i % 5}", True),
    "decimal commas": ("x;w;y", lambda i: f"{1 + i % 9}.500;{i},{i % 10}", True),
    "points beside hundreds": ("x;w;y", lambda i: f"{'7.501' if i % 2 else 991};1", True),
    "points late": ("x;w;y", lambda i: f"{'7.501' if i > 99 else 991};1", True),
    "percent": ("x;w;y", lambda i: f"{number(i)}%;${i}", True),
    "no name, no cells": ("x,,w,y", lambda i: f"{number(i)},,{i % 4}", True),
    "no name, a late cell": ("x,,w,y", lambda i: f"{number(i)},{'q' * (i == 110)},1", True),
    "a mark that no cell has": ("x,w,y", lambda i: f"{number(i)},1", None),
    "a mark that cells have": ("x,w,y", lambda i: f"{'-999.0' if i == 99 else i},1", False),
    "words": ("x,w,y", lambda i: f"{i % 7},{'uvw'[i % 3]}", False),
}


@pytest.fixture
def small_batches(monkeypatch):
    """Batches of some ten rows."""
    small = partial(file_readers.read_batches, size=200)
    monkeypatch.setattr(file_readers, "read_batches", small)


def lines_of(name):
    header, row, _ = TABLES[name]
    separator = ";" if ";" in header else ","
    return [header] + [f"{row(i)}{separator}{'ab'[i % 3 == 0]}" for i in range(N)]


def write(folder, lines, n_files):
    folder.mkdir()
    step = -(-(len(lines) - 1) // n_files)
    for k in range(n_files):
        part = [lines[0], *lines[1 + k * step : 1 + (k + 1) * step]]
        (folder / f"part-{k}.csv").write_text("\n".join(part) + "\n")
    return folder


def read_parts(path, missing):
    source, frames = scan(path, missing_values=missing), []
    source.reduce_parts(lambda part: frames.append(part.table), lambda one, other: None)
    return pl.concat(frames), source


@pytest.mark.parametrize("n_files", [1, 3])
@pytest.mark.parametrize("name", TABLES)
def test_parts_are_read_and_told_of_as_the_whole(tmp_path, small_batches, name, n_files):
    lines, told = lines_of(name), TABLES[name][2]
    missing = ["-999"] if "mark" in name else []
    whole = read_file(write(tmp_path / "one", lines, 1) / "part-0.csv", missing_values=missing)
    found, source = read_parts(write(tmp_path / "parts", lines, n_files), missing)
    assert found.equals(whole.frame)
    assert found.schema == whole.frame.schema
    assert sorted(source.notes) == sorted(whole.notes)
    assert source.written == whole.written
    assert bool(whole.notes) == (told is not False)


def test_parquet_in_parts_is_told_of_as_the_whole(tmp_path):
    words = ["NA" if i % 9 == 8 else ["u", " u", "v"][i % 3] for i in range(N)]
    table = pl.DataFrame({"x": range(N), "w": words, "y": ["ab"[i % 3 == 0] for i in range(N)]})
    (tmp_path / "parts").mkdir()
    for k in range(3):
        table[40 * k : 40 * (k + 1)].write_parquet(tmp_path / "parts" / f"{k}.parquet")
    table.write_parquet(tmp_path / "one.parquet")
    whole = read_file(tmp_path / "one.parquet", missing_values=["?"])
    _, source = read_parts(tmp_path / "parts", ["?"])
    assert len(whole.notes) == 3
    assert sorted(source.notes) == sorted(whole.notes)


@pytest.mark.parametrize("n_files", [1, 3])
def test_a_number_larger_than_any_is_named_with_its_row(tmp_path, small_batches, n_files):
    lines = lines_of("words")
    lines[110:112] = ["1e400,u,a", "2e400,u,a"]
    folder = write(tmp_path / "parts", lines, n_files)
    row, file = (110, 0) if n_files == 1 else (30, 2)
    message = rf"column 'x': .*got '1e400' in row {row} of .*part-{file}.csv \(2 such cells\)"
    with pytest.raises(DataError, match=message):
        read_parts(folder, [])


def test_texts_that_no_column_has_are_refused(tmp_path):
    folder = write(tmp_path / "parts", lines_of("words"), 2)
    with pytest.raises(DataError, match="text: expected a column of the table, got 'v'"):
        scan(folder, text=["v"])


@pytest.mark.parametrize("way", ["whole", "parts", "parquet"])
def test_how_numbers_were_written_is_kept_whatever_way_they_were_read(tmp_path, capsys, way):
    lines = ["x;y"] + [f"{1 + i % 9},{i % 10}00,500;{'ab'[i % 3 == 0]}" for i in range(N)]
    data, model = tmp_path / "fit.csv", str(tmp_path / "model.skops")
    data.write_text("\n".join(lines) + "\n")
    if way == "parquet":
        data = data.with_suffix(".parquet")
        read_file(tmp_path / "fit.csv").frame.write_parquet(data)
    arguments = ["fit", str(data), "--target", "y", "--model", "nb:1", "--out", model]
    new = {"percent": "49.7%", "points": "1.500"}
    for name, cell in new.items():
        (tmp_path / f"{name}.csv").write_text("x;z\n" + f"{cell};1\n" * 3)
    run(arguments + ["--batches"] * (way == "parts"))
    for name, cell in new.items():
        capsys.readouterr()
        run(["predict", model, str(tmp_path / f"{name}.csv"), "--out", str(tmp_path / "out.csv")])
        told = f"x: '{cell}' is read as {float(cell.strip('%')):g}" in capsys.readouterr().err
        assert told == (way != "parquet" or name == "percent")


def run(arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
