"""``crossfade curve`` as people type it."""

from __future__ import annotations

import json
import sys

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from crossfade import cli


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    frame = pl.DataFrame({"a": rng.normal(size=100) + y, "b": rng.normal(size=100), "t": y})
    path = tmp_path / "table.csv"
    frame.write_csv(path)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    return caught.value.code


QUICK = ("--target", "t", "--splits", "6", "--models", "majority,knn")


def test_what_is_printed_and_what_is_written_agree(table, tmp_path, capsys):
    files = {name: tmp_path / f"out.{name}" for name in ("csv", "json", "png")}
    code = run(
        "curve", table, *QUICK, "--sizes", "10,20,40,80", "--json", files["json"],
        "--csv", files["csv"], "--chart", files["png"],
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert max(map(cell_len, out.splitlines())) <= 80
    found = json.loads(files["json"].read_text())
    assert found["sizes"] == [10, 20, 40, 80]
    scores = pl.read_csv(files["csv"])
    assert scores.shape == (48, 6)
    mean = scores.filter((pl.col("m") == 80) & (pl.col("model") == "k-nearest neighbours"))["error"]
    last = found["curves"]["k-nearest neighbours"][-1]
    assert last["mean"] == pytest.approx(mean.mean())
    assert f"{last['mean']:.4f} ± {last['standard_error']:.4f}" in out
    assert found["extrapolation"]["majority class"]["statement"] in " ".join(out.split())
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_fractions_and_other_scores(table, capsys):
    assert run("curve", table, *QUICK, "--sizes", "0.25,1.0", "--metric", "brier") == 0
    out = capsys.readouterr().out
    assert "Brier score by number of training rows" in out
    assert "    20 " in out
    assert "    80 " in out


def test_a_checkpoint_is_continued(table, tmp_path, capsys):
    file = tmp_path / "checkpoint"
    arguments = ("curve", table, *QUICK, "--sizes", "10,80", "--checkpoint", file)
    assert run(*arguments) == 0
    first = capsys.readouterr().out
    assert run(*arguments) == 0
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metric", "auc"), "metric: expected 'log_loss'"),
        (("--sizes", "many"), "train_sizes: expected 'log'"),
        (("--sizes", "10,90"), "train_sizes: expected"),
        (("--chart", "curve.gif"), "--chart: expected a file that ends in .png"),
        (("--models", "nothing"), "models: expected names"),
        (("--csv", "/no/such/folder/x.csv"), "--csv: expected a file in a folder that exists"),
    ],
)
def test_what_cannot_be_is_one_line_on_stderr(
    table, capsys, monkeypatch, tmp_path, arguments, words
):
    monkeypatch.chdir(tmp_path)
    assert run("curve", table, *QUICK, *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_table_is_read(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert run("curve", tmp_path / "none.csv", "--chart", tmp_path / "curve.png") == 2
    assert "pip install 'crossfade[report]'" in capsys.readouterr().err
    assert run("curve", tmp_path / "none.csv", "--chart", tmp_path / "curve.html") == 2
    assert "none.csv" in capsys.readouterr().err
