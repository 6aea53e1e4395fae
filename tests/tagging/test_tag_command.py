from __future__ import annotations

import json
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from crossfade.commands import tag
from crossfade.errors import DataError
from crossfade.tagging.metrics import evaluate_tags
from crossfade.tagging.tokens import read_columns, write_columns


def run(*arguments):
    app = typer.Typer()
    app.command("tag")(tag.tag)
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def sentences(n, seed):
    rng = np.random.default_rng(seed)
    words = {"DT": ["the", "a"], "NN": ["dog", "cat", "runs"], "VB": ["runs", "sleeps", "sees"]}
    result = []
    for _ in range(n):
        tags = ["DT", "NN", "VB", *(["DT", "NN"] if rng.random() < 0.5 else [])]
        chunk = {"DT": "B-NP", "NN": "I-NP", "VB": "B-VP"}
        result.append([(str(rng.choice(words[t])), t, chunk[t]) for t in tags])
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tag")
    for name, n in (("train", 60), ("test", 20)):
        rows = sentences(n, n)
        (folder / f"{name}.txt").write_text(write_columns(rows, " "))
        (folder / f"{name}.pos").write_text(write_columns([[t[:2] for t in s] for s in rows]))
    return folder


@pytest.mark.parametrize("model", ["crf", "hmm", "efb"])
def test_predictions_and_counts(files, tmp_path, model):
    out, numbers = tmp_path / "out.txt", tmp_path / "out.json"
    done = run(
        *("--train", files / "train.pos", "--test", files / "test.pos", "--model", model),
        *("--out", out, "--json", numbers),
    )
    assert done.exit_code == 0, done.output
    rows = read_columns(out)
    assert [[t[:2] for t in s] for s in rows] == read_columns(files / "test.pos")
    report = evaluate_tags([[t[1] for t in s] for s in rows], [[t[2] for t in s] for s in rows])
    assert report.accuracy > 0.98
    assert str(report) in done.stdout
    written = json.loads(numbers.read_text())
    assert written["accuracy"] == report.accuracy
    assert written["model"] == model
    assert written["features"] == (None if model == "hmm" else "shape")


def test_chunks_use_the_part_of_speech(files):
    done = run("--train", files / "train.txt", "--test", files / "test.txt", "--seen-transitions")
    assert done.exit_code == 0, done.output
    assert "overall   100.00%  100.00% 100.00%" in done.stdout


def test_a_file_without_tags_is_tagged_on_stdout(files, tmp_path):
    bare = tmp_path / "bare.txt"
    bare.write_text("the DT\ncat NN\nsleeps VB\n")
    done = run("--train", files / "train.txt", "--test", bare, "--decode", "posterior")
    assert done.stdout == "the\tDT\tB-NP\ncat\tNN\tI-NP\nsleeps\tVB\tB-VP\n"
    assert re.fullmatch(
        r"crf: compiled code loaded in \d+\.\d s, trained on 60 sentences in \d+\.\d s, "
        r"tagged 1 in \d+\.\d s\n",
        done.stderr,
    )


def test_wrong_use_is_refused(files, tmp_path):
    train = ("--train", files / "train.txt")
    with pytest.raises(DataError, match="--test: expected the 3 columns of the training file, or"):
        run(*train, "--test", _file(tmp_path, "a\n"))
    with pytest.raises(DataError, match="--train: expected at least two columns"):
        run("--train", _file(tmp_path, "a\n"), "--test", files / "test.txt")
    for model, option, expected in (
        ("hmm", ("--l1", "1"), "crf with --l1"),
        ("efb", ("--l1", "0"), "crf with --l1"),
        ("efb", ("--seen-transitions",), "crf with --seen-transitions"),
        ("hmm", ("--l2", "1"), "crf or efb with --l2"),
        ("hmm", ("--features", "shape"), "crf or efb with --features"),
    ):
        with pytest.raises(DataError, match=f"--model: expected {expected}, got '{model}'; leave"):
            run(*train, "--test", files / "test.txt", "--model", model, *option)
    with pytest.raises(DataError, match="--decode: expected viterbi or posterior, got 'best'"):
        run(*train, "--test", files / "test.txt", "--decode", "best")
    with pytest.raises(DataError, match="--out: expected a file in a folder that exists"):
        run(*train, "--test", files / "test.txt", "--out", tmp_path / "no" / "file")
    with pytest.raises(FileNotFoundError, match=r"no such file; no file in .* has a name like it"):
        run(*train, "--test", tmp_path / "missing")
    done = run(*train, "--test", files / "test.txt", "--model", "svm")
    assert done.exit_code == 2


@pytest.mark.parametrize("option", ["--out", "--json"])
@pytest.mark.parametrize("victim", ["--train", "--test"])
def test_no_file_that_is_read_is_overwritten(files, option, victim):
    given = {"--train": files / "train.txt", "--test": files / "test.txt"}
    before = given[victim].read_bytes()
    path = files / ".." / files.name / given[victim].name
    refused = f"{option}: expected a file other than those that are read"
    with pytest.raises(DataError, match=refused):
        run(*(word for pair in given.items() for word in pair), option, path)
    assert given[victim].read_bytes() == before
    with pytest.raises(DataError, match="--json: expected another file than that of --out"):
        run(
            *(word for pair in given.items() for word in pair),
            *("--out", files / "both", "--json", files / "both"),
        )


def test_control_characters_stay_in_the_data_and_out_of_the_table(tmp_path):
    text = "a\x00b\t\x1b[31mN\nc\u00a0d\tV\n"
    train, bare = _file(tmp_path, text), _file(tmp_path, "a\x00b\nc\u00a0d\n\x1b[1m\n", "bare.txt")
    done = run("--train", train, "--test", train)
    assert "\\x1b[31mN  " in done.stdout
    assert "\x1b" not in done.stdout
    lines = run("--train", train, "--test", bare).stdout_bytes.decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["a\x00b", "c\u00a0d", "\x1b[1m"]
    assert lines[0].split("\t")[1] == "\x1b[31mN"


def test_columns_that_are_not_used_are_told(files, tmp_path):
    wide = _file(tmp_path, "a b c D\ne f g H\n")
    assert "column 3 is not used\n" in run("--train", wide, "--test", wide).stderr
    wider = _file(tmp_path, "a b c d E\n")
    assert "columns 3 to 4 are not used\n" in run("--train", wider, "--test", wider).stderr


def _file(folder, text, name="file.txt"):
    path = folder / name
    path.write_text(text)
    return path
