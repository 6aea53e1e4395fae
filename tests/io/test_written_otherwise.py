"""Numbers of new rows written otherwise than those of fit, and numbers that no float holds."""

from __future__ import annotations

import re

import pytest

from crossfade.cli import main
from crossfade.errors import DataError
from crossfade.io.reading import read_file

N = 40


def run(arguments):
    """Return the exit status of the command."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def written(path, cells, also=()):
    """Write a table of one column of cells, over and over, a column that tells, and labels."""
    cells = [cells[i % len(cells)] for i in range(N)]
    lines = ["amount;size;target"]
    lines += [f"{cell};{also or i % 7 + 0.5};{'ab'[i % 2]}" for i, cell in enumerate(cells)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("fit", "new", "told"),
    [
        (["49.7%", "12.5%", "7.1%"], ["0.497", "0.2"], "'0.497' is read as 0.497, .*'49.7%'"),
        (["0.497", "0.125", "0.9"], ["49.7%", "3.1%"], "'49.7%' is read as 49.7, .*plain numbers"),
        (["3,991", "1,234,567", "2,500"], ["1.500", "2.250"], "'1.500' is read as 1.5, .*'3,991'"),
        (["1,5", "2,25", "3,75"], ["1.5", "2.25"], "'1.5' is read as 1.5, .*'1,5'"),
        (["$5.10", "$7.20", "$8.00"], ["€5.10", "€1.00"], "'€5.10' is read as 5.1, .*'\\$5.10'"),
        (["49.7%", "12.5%", "7.1%"], ["3.1%", "9%"], None),
        (["$5.10", "$7.20", "$8.00"], ["5.10", "7.20"], None),
        (["3,991", "1,234,567", "2,500"], ["1500", "2250", "1.5"], None),
        (["3,991.5", "1,234,567", "2,500"], ["1.500", "2.250"], None),
        (["1,5", "2,25", "3,75"], ["4,5", "1", "2"], None),
        (["0.497", "0.125", "0.9"], ["1", "2.25"], None),
        (["1", "2", "3"], ["2,250", "1,500,000"], None),
    ],
)
def test_what_new_rows_write_otherwise_than_fit_is_told(tmp_path, capsys, fit, new, told):
    table, rows = written(tmp_path / "fit.csv", fit), written(tmp_path / "new.csv", new)
    model = str(tmp_path / "model.skops")
    chosen = ["--model", "naive-bayes", "--tradeoff", "1", "--separator", ";"]
    assert run(["fit", table, "--target", "target", "--out", model, *chosen]) == 0
    capsys.readouterr()
    out = str(tmp_path / "out.csv")
    assert run(["predict", model, rows, "--out", out, "--separator", ";"]) == 0
    said = capsys.readouterr()
    said = said.out + said.err
    assert ("write both in one way" in said) == (told is not None)
    if told is not None:
        assert re.search(f"amount: {told}", said)


def test_numbers_larger_than_any_are_named_with_their_row(tmp_path, capsys):
    table = written(tmp_path / "fit.csv", ["1", "-1e400", "2"])
    message = r"column 'amount': expected numbers below 1.8e308, got '-1e400' in row 2 \(13 such"
    with pytest.raises(DataError, match=message):
        read_file(table, separator=";")
    good, model = written(tmp_path / "good.csv", ["1", "2", "3.5"]), str(tmp_path / "model.skops")
    chosen = ["--model", "naive-bayes", "--tradeoff", "1", "--separator", ";"]
    assert run(["fit", good, "--target", "target", "--out", model, *chosen]) == 0
    out = str(tmp_path / "out.csv")
    assert run(["predict", model, table, "--out", out, "--separator", ";"]) == 2
    assert "got '-1e400' in row 2" in capsys.readouterr().err
