"""``python -m reproduction``: what is printed, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from crossfade.errors import DataError
from reproduction import bouchard_triggs_figure, experiment, names
from reproduction.__main__ import main

#: Runs at the published repeats, which the documentation shows.
RESULTS = Path(__file__).parents[2] / "docs" / "experiments" / "results"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("CROSSFADE_NUM_THREADS", "1")
    monkeypatch.setattr(bouchard_triggs_figure, "_N_TEST", 500)


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def test_every_experiment_says_where_it_is_from():
    for name in names():
        one = experiment(name)
        assert one.name == name
        assert one.source
        assert one.question.endswith(".")
        assert one.repeats > 1
        assert one.minutes > 0


@pytest.mark.parametrize("name", names())
def test_the_expected_time_is_about_that_of_the_run_shown(name):
    shown = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    one = experiment(name)
    assert shown["repeats"] == one.repeats
    assert 0.5 <= 60 * one.minutes / shown["seconds"] <= 2.5


def test_the_list(capsys):
    assert run("--list") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(cell_len, out.splitlines())) <= 80
    for name in names():
        line = next(line for line in out.splitlines() if line.startswith(f"{name} "))
        assert str(experiment(name).repeats)[:1] in line


def test_an_experiment_is_printed_and_written_the_same_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bouchard_triggs_figure, "_N_TEST", 1000)
    monkeypatch.setattr(bouchard_triggs_figure, "SIZES", (50, 100))
    out = tmp_path / "new" / "folder"
    name = "bouchard-triggs-figure"
    assert run(name, "--repeats", 2, "--seed", 3, "--out", out) == 0
    shown, err = capsys.readouterr()
    assert err == ""
    assert max(map(cell_len, shown.splitlines())) <= 80
    assert "2 runs, seed 3" in shown
    assert sorted(p.name for p in out.iterdir()) == [f"{name}.{s}" for s in ("csv", "json", "png")]
    first = (out / f"{name}.csv").read_bytes()
    assert first.startswith(b"simulation,n,tradeoff,loss,lower,upper,mean\n")
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads((out / f"{name}.json").read_text())
    assert (facts["seed"], facts["repeats"], facts["published_repeats"]) == (3, 2, 200)
    assert {"crossfade", "numpy", "python"} <= facts["versions"].keys()
    assert facts["seconds"] >= 0
    capsys.readouterr()
    assert run(name, "--from", out) == 0
    assert capsys.readouterr().out == shown
    assert run(name, "--repeats", 2, "--seed", 3, "--out", out) == 0
    assert (out / f"{name}.csv").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one of bouchard-triggs-table"),
        (("bouchard-table",), "did you mean 'bouchard-triggs-table'"),
        (("bouchard-triggs-figure", "--repeats", "0"), "--repeats: expected a positive number"),
        (("bouchard-triggs-figure", "--seed", "-1"), "--seed: expected 0 or more"),
        (("regimes", "--zero-one"), "this classifier (ng-jordan), got 'regimes'"),
        (("bouchard-triggs-table", "--data", "/nowhere/at/all"), "data: expected a folder"),
    ],
)
def test_refusals_are_one_line(arguments, words, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


def test_a_file_is_not_a_folder(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert run("bouchard-triggs-figure", "--repeats", 1, "--out", tmp_path / "taken") == 2
    assert "expected a folder, got the file" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_earlier_run_that_is_not_there_or_is_none(tmp_path, capsys):
    assert run("regimes", "--from", tmp_path) == 2
    assert "expected regimes.json" in capsys.readouterr().err
    for text in ("{", "[]", '{"experiment": "other"}'):
        (tmp_path / "regimes.json").write_text(text)
        assert run("regimes", "--from", tmp_path) == 2
        assert "expected a report of regimes" in capsys.readouterr().err


def test_no_such_experiment():
    with pytest.raises(DataError, match="see --list"):
        experiment("zzz")
