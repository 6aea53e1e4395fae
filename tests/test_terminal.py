"""Names from data are data: a terminal never obeys them, a pipe gets them as they are."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crossfade import NaiveBayes, cli
from crossfade.commands.output import hand_over, live_progress, say

#: Two names that differ in what a terminal would obey.
EVIL = "A\x1b[31m"
LABELS = ["A", EVIL]

COMMANDS = {
    "compare": ["compare", "{data}", "--splits", "2", "--models", "nb:generative"],
    "curve": ["curve", "{named}", "--splits", "2", "--models", "nb:generative"],
    "fit": ["fit", "{data}", "-m", "nb:generative", "-o", "{evil}.skops"],
    "predict": ["predict", "{model}", "{data}"],
    "explain": ["explain", "{model}", "{data}", "--row", "1"],
    "export": ["export", "{model}", "--json", "{evil}.json"],
    "binomial": ["glm", "{data}", "--formula", "z ~ g", "--family", "binomial"],
    "multinomial": ["glm", "{data}", "--formula", "target ~ x", "--family", "multinomial"],
    "tag": ["tag", "--train", "{tagged}", "--test", "{words}", "--model", "hmm"],
    "tag and count": ["tag", "--train", "{tagged}", "--test", "{tagged}", "--model", "hmm"],
}


class Terminal(io.TextIOWrapper):
    """A stream that passes for a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    rng = np.random.default_rng(0)
    labels = np.array(LABELS, dtype=object)[rng.permutation(60) % 2]
    x = rng.normal(size=60) + (labels == EVIL)
    factor = np.array(LABELS, dtype=object)[rng.integers(2, size=60)]
    frame = {"x": x, EVIL: rng.normal(size=60), "g": factor, "z": rng.integers(2, size=60)}
    for name in ("t.csv", f"{EVIL}.csv"):
        pl.DataFrame(frame | {"target": labels}).write_csv(folder / name)
    lines = [f"word{i % 3}{EVIL if i % 2 else ''}\t{LABELS[i % 2]}" for i in range(20)]
    (folder / "tagged").write_text("\n".join(lines) + "\n")
    (folder / "words").write_text("\n".join(line.split("\t")[0] for line in lines) + "\n")
    names = {"data": "t.csv", "named": f"{EVIL}.csv", "model": "m.skops", "evil": EVIL}
    names |= {"tagged": "tagged", "words": "words"}
    found = {key: str(folder / name) for key, name in names.items()}
    with pytest.raises(SystemExit):
        cli.main(["fit", found["data"], "-m", "nb:generative", "-o", found["model"]])
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_is_never_told_what_to_do(name, places, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit) as ended:
        cli.main([word.format(**places) for word in COMMANDS[name]])
    assert ended.value.code == 0, err.text
    assert "A\\x1b[31m" in out.text + err.text
    # A live bar moves the cursor, and is gone when the command ends: what it holds is plain.
    shown = out.text + err.text.replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    assert "\x1b" not in shown.replace("\x1b[2K", "").replace("\x1b[1A", "")


@pytest.mark.parametrize("name", ["predict", "tag"])
def test_a_pipe_gets_data_as_they_are(name, places, capfdbinary):
    with pytest.raises(SystemExit) as ended:
        cli.main([word.format(**places) for word in COMMANDS[name]])
    assert ended.value.code == 0
    out = capfdbinary.readouterr().out
    if name == "predict":
        assert out.splitlines()[0] == f"prediction,P(A),P({EVIL})".encode()
    else:
        words = Path(places["words"]).read_bytes().splitlines()
        assert [line.split(b"\t")[0] for line in out.splitlines()] == words


def test_every_control_character_is_made_visible(monkeypatch):
    characters = [chr(i) for i in range(0x250)] + ["\u202e", "\u2028", "\ufeff"]
    for write in (say, lambda text: hand_over(text.encode())):
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        write("".join(characters))
        assert all(c.isprintable() for c in out.text if c not in "\n\t")
        assert "\\x1b" in out.text
        assert "ä" in out.text


# -- long work, where stderr is no terminal --------------------------------------------------------


def lines_until(capsys, wanted):
    """Return the lines on stderr up to one that is wanted."""
    found, end = "", time.monotonic() + 20.0
    while wanted not in found:
        assert time.monotonic() < end, found
        time.sleep(0.001)
        found += capsys.readouterr().err
    return found.splitlines()


def test_work_that_reports_nothing_is_told_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("crossfade.commands.output.LINE_SECONDS", 0.01)
    with live_progress("folder/table.csv", "fitting pool") as report:
        assert lines_until(capsys, "\n")[0] == "table.csv: 0 s · now fitting pool"
        report(1, 4, "split\x1b 1")
        told = lines_until(capsys, "split")[-1]
        assert told == r"table.csv: 0 s · 25%, about 0 s left · now split\x1b 1"
    capsys.readouterr()
    time.sleep(0.03)
    assert capsys.readouterr().err == ""


def test_fit_and_compare_say_what_they_do(capsys, monkeypatch, tmp_path):
    fitted = NaiveBayes.fit

    def slowly(self, *arguments, **options):
        time.sleep(0.1)
        return fitted(self, *arguments, **options)

    monkeypatch.setattr(NaiveBayes, "fit", slowly)
    models = ["--models", "nb:generative,majority", "--splits", "2"]
    for command, wanted in (
        (["fit", "iris", "-m", "nb:generative", "-o", str(tmp_path / "m.skops")], "iris: 0 s · "),
        (["compare", "iris", *models], r"\d s.* · now naive Bayes generative, split 1"),
    ):
        monkeypatch.setattr("crossfade.commands.output.LINE_SECONDS", 1e6)
        with pytest.raises(SystemExit):
            cli.main(command)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr("crossfade.commands.output.LINE_SECONDS", 0.02)
        with pytest.raises(SystemExit):
            cli.main(command)
        assert re.search(wanted, capsys.readouterr().err)
