from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from crossfade import __version__, cli
from crossfade.files import discard_unfinished
from tests.forked import Forked

ENVIRONMENT = {**os.environ, "COLUMNS": "80", "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    frame = pl.DataFrame(
        {
            "age": (rng.normal(size=60) + y).round(3),
            "income": rng.normal(size=60).round(3),
            "town": rng.choice(["Oslo", "Bern"], 60),
            "default": np.array(["no", "yes"])[y],
        }
    )
    path = tmp_path / "loans.csv"
    frame.write_csv(path)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    return caught.value.code


#: What every comparison sets beside this library's models.
REFERENCES = "logistic regression", "random forest", "gradient boosting", "majority class"

QUICK = ("--splits", "3", "--models", "majority,knn")


def test_the_table_the_notes_and_the_verdict_are_printed(table, capsys):
    assert run("compare", table, "--target", "default", *QUICK) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in out
    assert "60 rows, 3 columns, 2 classes" in out
    assert re.search(r"^default: (no|yes) \(\d+\), (no|yes) \(\d+\)$", out, re.MULTILINE)
    assert "columns: 2 continuous (age, income), 1 categorical (town)" in out
    assert "3 splits of 48 training and 12 test rows, seed 0" in out
    for heading in ("error %", "log-loss", "Brier", "Δ log-loss", "fit ms"):
        assert heading in out
    assert out.index("majority class") < out.index("Notes") < out.index("Verdict")


def test_json_holds_the_numbers_of_the_table(table, tmp_path, capsys):
    path = tmp_path / "out.json"
    assert run("compare", table, "-t", "default", *QUICK, "--splits", 5, "--json", path) == 0
    out = capsys.readouterr().out

    def refuse(constant):
        raise AssertionError(constant)

    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert content["source"] == str(table)
    assert content["target"] == "default"
    for model in content["models"]:
        (line,) = (line for line in out.splitlines() if line.startswith(model["name"]))
        found = [(model[metric], "") for metric in ("error", "log_loss", "brier")]
        if difference := model["difference_to_best"]["log_loss"]:  # ± means the same everywhere
            found.append((difference, "+"))
        for one, sign in found:
            scale, decimals = (100, 1) if one is model["error"] else (1, 3)
            value, error = (scale * one[key] for key in ("mean", "standard_error"))
            if scale == 1 and max(value, error) >= 1:
                decimals = 2
            shown = f"{sign}{value:.{decimals}f} ±{error:.{decimals}f}"
            assert re.sub(r"\b0\.", ".", shown).replace("±0.", "±.") in line
    assert "Δ log-loss above the best, paired over splits" in map(str.rstrip, out.splitlines())
    for sentence in content["verdict"]:
        assert sentence in " ".join(out.split())
    assert set(os.listdir(tmp_path)) == {"loans.csv", "out.json"}


def test_a_bundled_data_set_is_opened_by_name(capsys):
    assert run("compare", "iris", "--splits", "2", "--models", "majority") == 0
    out = capsys.readouterr().out
    assert "150 rows, 4 columns, 3 classes" in out
    assert "Only majority class was asked for: log-loss" in out


@pytest.mark.slow
def test_columns_that_are_left_out_are_said_to_be(tmp_path, capsys):
    rows = [f"C-{i},{1 + i % 28}.3.2021,{i * 7 % 11}.5,{'yn'[i % 2]}" for i in range(60)]
    path = _write(tmp_path, "t.csv", "\n".join(["id,day,x,target", *rows]))
    assert run("compare", path, "--models", "majority", "--splits", 2) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "columns: 2 left out as identifier or date (id, day), 1 continuous (x)" in out


@pytest.mark.parametrize("batches", [[], ["--batches"]])
def test_a_dropped_column_may_hold_anything(tmp_path, capsys, batches):
    rows = [f"{'?!' if i % 9 else i},{i * 7 % 11}.5,{'yn'[i % 2]}" for i in range(60)]
    rows += [f"{i}.25,1.5,y" for i in range(200)]
    path = _write(tmp_path, "t.csv", "\n".join(["odd,x,target", *rows]))
    options = ["--models", "majority", "--splits", 2, *batches]
    assert run("compare", path, *options) == 2
    assert "got both" in capsys.readouterr().err
    assert run("compare", path, *options, "--drop", "odd") == 0
    assert run("compare", path, *options, "--drop", "od") == 2
    assert "'odd'" in capsys.readouterr().err


def test_the_default_line_up_runs(table, capsys):
    assert run("compare", table, "-t", "default", "--splits", "2") == 0
    out = capsys.readouterr().out
    for words in ("naive Bayes", "shared Gaussian", "full Gaussian", *REFERENCES):
        assert words in out
    assert out.count("generative λ=1") == out.count("discriminative λ=0") == 3


def test_names_of_models_alone_in_their_family_are_whole(capsys):
    models = "full:generative,nb:discriminative,shared:discriminative,shared:auto"
    assert run("compare", "iris", "--splits", "2", "--models", models) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    shown = [line.strip() for line in lines if re.match(r"(naive|full|shared|  \w+ λ)", line)]
    wanted = [
        ("naive Bayes", "discriminative λ=0 "),
        ("shared Gaussian", "discriminative λ=0 ", "auto λ=0."),
        ("full Gaussian", "generative λ=1 "),
    ]
    order = [word for group in wanted for word in group]
    assert [line[: len(word)] for line, word in zip(shown, order, strict=True)] == order


def test_columns_are_left_out_and_rows_without_target_counted(table, capsys):
    text = table.read_text().splitlines()
    text[1] = text[1].rsplit(",", 1)[0] + ","
    table.write_text("\n".join(text) + "\n")
    assert run("compare", table, "-t", "default", *QUICK, "--drop", "town") == 0
    out = capsys.readouterr().out
    assert "59 rows, 2 columns" in out
    assert "1 row has no default and was left out; crossfade fit --unlabelled" in " ".join(
        out.split()
    )
    assert "Left out as asked: town." in out


def test_models_that_fail_are_listed_with_the_reason(tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text("x,target\n1,a\n2,a\n3,b\n4,b\n")
    # Two training rows: too few for five neighbours.
    assert run("compare", path, "--splits", "2", "--models", "knn,majority") == 0
    out = capsys.readouterr().out
    assert re.search(r"k-nearest neighbours +failed", out)
    said = " ".join(out.split())
    assert "k-nearest neighbours could not be fitted: Expected n_neighbors" in said
    assert "Only majority class could be scored: log-loss" in said


HOSTILE = ["<script>alert(1)</script>", "[red]x[/red] :boom:", "x" * 300, "😀 \x1b[31mred", "日本"]


def test_hostile_names_are_data(tmp_path, capsys):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=50) for name in HOSTILE}
    labels = np.repeat(HOSTILE, 10)
    path = tmp_path / "[bold]evil[red] :boom:.csv"
    # polars takes the brackets of a file name for a pattern.
    path.write_text(pl.DataFrame(columns | {"[blink]": labels}).write_csv(), encoding="utf-8")
    out_file = tmp_path / "😀.json"
    code = run("compare", path, "-t", "[blink]", *QUICK, "--json", out_file, "--drop", "x" * 300)
    assert code == 0
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "[red]x[/red] :boom:" in out
    assert "[blink]: " in out
    content = json.loads(out_file.read_text(encoding="utf-8"))
    assert sorted(content["data"]["classes"]) == sorted(HOSTILE)


def _write(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


ROWS = "".join(f"{i}.5,{'ab'[i % 2]}\n" for i in range(20))

BAD_FILES = {
    "empty": ("", ""),
    "header only": ("x,target\n", ""),
    "one class": ("x,target\n1,a\n2,a\n3,a\n", "expected at least 2 classes, got 1 class"),
    "a class with one row": ("x,target\n1,a\n2,a\n3,a\n4,c\n", "1 class has 1 row ('c')"),
    "no feature columns": ("target\na\nb\na\nb\n", "no feature columns"),
    "all cells missing": ("x,target\n,a\n,b\n,a\n,b\n", ""),
    "repeated column names": ("x,x,target\n1,2,a\n3,4,b\n5,6,a\n7,8,b\n", "x"),
    "mixed column": ("x,target\n" + ROWS + "oops,a\n", "'x'"),
    "broken quotes": ('x,target\n1,"a\n2,b\n3,a\n', ""),
    "wrong encoding": ("x,target\n1,caf\xe9\n2,b\n".encode("latin-1"), ""),
    "ragged": ("x,target\n1,a,2\n2,b\n", ""),
    "infinity": ("x,target\ninf,a\n2.5,b\n3.5,a\n4.5,b\n", "inf"),
    "fewer rows than classes": ("x,target\n1,a\n2,b\n", "every class"),
    "empty target": ("x,target\n1,\n2,\n", "empty cells"),
    "a measured target": ("x,target\n" + "".join(f"1,{i}.25\n" for i in range(30)), "continuous"),
    "binary": (bytes(range(256)) * 4, ""),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_get_one_line_and_exit_code_two(case, tmp_path, capsys):
    content, words = BAD_FILES[case]
    path = _write(tmp_path, "bad.csv", content)
    out_file = tmp_path / "out.json"
    assert run("compare", path, "--splits", "2", "--json", out_file) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err
    assert not out_file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "no.csv"], "error: no.csv: no such file"),
        (["compare", "irs"], "did you mean 'iris'"),
        (["compare", "benchmarks"], "got none in 'benchmarks'"),
        (["compare"], "error: Missing argument 'DATA'. (see crossfade compare --help)"),
        (["compare", "iris", "--splits", "many"], "error: Invalid value for '--splits'"),
        (["compare", "iris", "--splits", "1"], "error: n_splits: expected a whole number of at"),
        (["compare", "iris", "--train-size", "0"], "error: train_size: expected a fraction"),
        (["compare", "iris", "--train-size", "149"], "error: train_size: expected between 3 and"),
        (["compare", "iris", "--seed", "-3"], "error: random_state: expected a whole number"),
        (
            ["compare", "iris", "--criterion", "auc"],
            "error: criterion: expected 'log_loss', 'brier' or",
        ),
        (["compare", "iris", "--models", "swm"], "did you mean 'svm'?"),
        (["compare", "iris", "--json", "/no/such/x.json"], "error: --json: expected a file in a"),
        (
            ["compare", "iris", "--out", "report.pdf"],
            "error: --out: expected a name that ends in .html or .htm, got 'report.pdf'; for "
            "example report.html",
        ),
        (["compare", "iris", "--json", "x"], "--json: expected a name that ends in .json, got 'x'"),
        (["fit", "iris", "--out", "m.pkl"], "expected a name that ends in .skops, got 'm.pkl'"),
        (["curve", "iris", "--csv", "c.xlsx"], "--csv: expected a name that ends in .csv"),
        (["export", __file__, "--onnx", "m.pb"], "--onnx: expected a name that ends in .onnx"),
        (["curve", "iris", "--extrapolate", "90"], "largest training size, about 120, got 90"),
        (
            ["curve", "iris", "--sizes", "10,40", "--extrapolate", "30"],
            "--extrapolate: expected more rows than the largest training size, about 40, got 30",
        ),
        (["compare", "iris", "--json", "/"], "error: --json: expected a file, got the folder '/'"),
        (["compare", "iris", "--drop", "petal"], "error: --drop: expected a column of the table"),
        (["compare", "iris", "--frobnicate"], "error: No such option"),
        (["frobnicate"], "error: No such command 'frobnicate'"),
        (
            ["glm", "x.csv", "--formula", "y ~ x", "--family", "gaussian"],
            "error: Invalid value for '--family': 'gaussian' is not one of 'binomial', ",
        ),
    ],
)
def test_bad_arguments_get_one_line_and_exit_code_two(arguments, message, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--models", "typo"],
        ["compare", "--cost", "a"],
        ["curve", "--models", "typo"],
        *(
            ["fit", "--out", "m.skops", *more]
            for more in (
                ["-m", "typo"],
                ["-m", "pool", "--tradeoff", "0"],
                ["-m", "pool:nb,typo"],
                ["-m", "shared", "--handle-unknown", "error"],
                ["--tradeoff", "0"],
                ["--groups", "g"],
            )
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_table_is_read(arguments, monkeypatch, capsys):
    monkeypatch.setattr("crossfade.commands.tables.open_table", None)
    assert run(arguments[0], "iris", *arguments[1:]) == 2
    assert capsys.readouterr().err.count("; ") >= 1


def test_a_wrong_target_gets_the_nearest_columns(table, capsys):
    assert run("compare", table, "--target", "defualt") == 2
    assert "got 'defualt'; did you mean 'default'?" in capsys.readouterr().err


def test_a_faulty_program_says_so_in_one_line(monkeypatch, capsys):
    def fault(*args, **kwargs):
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("crossfade.commands.tables.open_table", fault)
    assert run("compare", "iris") == 1
    err = capsys.readouterr().err
    assert err == (
        "error: ZeroDivisionError: a b (this is a fault of crossfade; CROSSFADE_DEBUG=1 shows "
        "where)\n"
    )
    monkeypatch.setenv("CROSSFADE_DEBUG", "1")
    assert run("compare", "iris") == 1
    assert "Traceback" in capsys.readouterr().err


def without(package: str, *words: str) -> None:
    """Run a command where a package is not installed."""
    for name in list(sys.modules):
        if name.startswith((f"{package}.", "crossfade.commands.")):
            del sys.modules[name]
    sys.modules[package] = None
    cli.main(words)


@pytest.mark.parametrize("package", ["typer", "rich", "polars"])
def test_without_the_extra_it_says_what_to_install(package, tmp_path):
    path = _write(tmp_path, "x.csv", "x,target\n" + ROWS)
    with Forked(without, package, "compare", str(path)) as process:
        out, err = process.communicate()
        assert (process.returncode, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "pip install 'crossfade[cli]'" in err


def test_an_existing_file_is_kept_when_writing_fails(tmp_path, monkeypatch):
    from crossfade.commands.output import write_json

    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": float("nan")})
    monkeypatch.setattr("os.replace", lambda *names: (_ for _ in ()).throw(OSError("disc full")))
    with pytest.raises(OSError, match="disc full"):
        write_json(path, {"x": 1})
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_help_and_version(capsys):
    done = CliRunner().invoke(cli.build_app(), ["--version"])
    assert (done.exit_code, done.output) == (0, f"crossfade {__version__}\n")
    done = CliRunner().invoke(cli.build_app(), ["compare", "--help"])
    assert done.exit_code == 0
    assert "--train-size" in done.output
    assert run() == 2
    out = capsys.readouterr().out
    assert "compare" in out
    assert not re.search(r"^  .*\.\.\.$", out, re.MULTILINE)  # each command's line is whole


def _process(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
        **options,
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom crossfade.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('sklearn', 'scipy', 'numba', 'polars') if m in sys.modules])"
    )
    done = _process([sys.executable, "-c", code])
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


def test_a_warning_is_one_line_without_its_place_in_the_program(capfd):
    # pytest keeps warnings, so what would be shown is asked for.

    def build():
        app = typer.Typer()

        @app.command()
        def command():
            print(
                warnings.formatwarning(UserWarning("two\nlines"), UserWarning, "file.py", 7, "code")
            )

        return app

    before = warnings.formatwarning
    with pytest.raises(SystemExit):
        cli.main([], build)
    assert capfd.readouterr().out == "warning: two lines\n\n"
    assert warnings.formatwarning is before


def test_python_m_crossfade_is_the_command():
    done = _process([sys.executable, "-m", "crossfade", "--version"])
    assert (done.returncode, done.stdout, done.stderr) == (0, f"crossfade {__version__}\n", "")


def test_a_closed_pipe_is_no_error(table):
    with Forked(cli.main, ["compare", str(table), "-t", "default", *QUICK]) as process:
        process.stdout.close()
        assert process.communicate()[1] == ""
        assert process.returncode == 141


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_control_c_prints_what_is_done_and_exits_with_130(table, tmp_path):
    import pty

    # However long the path, the live bar says what is being done.
    table = table.rename(tmp_path / f"{'loans ' * 20}.csv")
    command = ["compare", str(table), "-t", "default"]
    command += ["--splits", "2000", "--models", "knn,majority", "--all-splits"]
    ours, theirs = pty.openpty()
    with Forked(cli.main, command, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while not re.search(rb"split [3-9]|split \d\d", shown):  # the live bar, on a terminal only
            try:
                shown += os.read(ours, 1000)
            except OSError:  # it has ended by itself
                pytest.fail(f"{process.communicate()[0]}\n{shown.decode(errors='replace')}")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
        while True:
            try:
                shown += os.read(ours, 1000)
            except OSError:  # the end of a pseudo-terminal
                break
        os.close(ours)
        assert process.returncode == 130
    assert shown.endswith(b"stopped by the keyboard\r\n")
    assert b"Traceback" not in shown
    assert "Ctrl-C ended the run after" in " ".join(out.split())


def test_a_poor_terminal_gets_question_marks(table):
    command = ["compare", str(table), "-t", "default", *QUICK]
    with Forked(cli.main, command, PYTHONIOENCODING="ascii") as process:
        out, said = process.communicate()
        assert (process.returncode, said) == (0, "")
    assert "? log-loss" in out


def test_a_file_that_is_not_there_is_refused_before_anything_heavy_is_loaded(tmp_path):
    for name in ("table.csv", "model.skops", "words.conll"):
        (tmp_path / name).touch()
    commands = {
        "compare tabel.csv": "tabel.csv",
        "curve tabel.csv": "tabel.csv",
        "fit tabel.csv --out m.skops": "tabel.csv",
        "explore tabel.csv": "tabel.csv",
        "predict modl.skops table.csv": "modl.skops",
        "predict model.skops tabel.csv": "tabel.csv",
        "explain modl.skops": "modl.skops",
        "explain model.skops tabel.csv": "tabel.csv",
        "export modl.skops": "modl.skops",
        "glm tabel.csv --formula y~x --family poisson": "tabel.csv",
        "tag --train word.conll --test words.conll": "word.conll",
        "tag --train words.conll --test word.conll": "word.conll",
    }
    meant = {"tabel.csv": "table.csv", "modl.skops": "model.skops", "word.conll": "words.conll"}
    program = (
        "import sys\nfrom crossfade.cli import main\n"
        f"for command in {list(commands)!r}:\n"
        "    try:\n        main(command.split())\n"
        "    except SystemExit as end:\n"
        "        print(end.code, {'sklearn', 'polars', 'numpy'} & sys.modules.keys())\n"
    )
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "CROSSFADE_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2 set()\n" * len(commands)
    assert done.stderr.splitlines() == [
        f"error: {name}: no such file; did you mean {meant[name]}?" for name in commands.values()
    ]


def test_whatever_reads_text_takes_its_encoding(tmp_path, capsys):
    path, out = tmp_path / "table.csv", tmp_path / "model.skops"
    rows = [f"{i % 7},{('ä', 'ß')[i % 2]}" for i in range(40)]
    path.write_bytes("\n".join(["größe,art", *rows]).encode("cp1252"))
    code = ("--encoding", "cp1252")
    assert run("fit", path, "-t", "art", "-m", "nb:1", "-o", out) == 2
    assert "name the encoding (--encoding cp1252)" in capsys.readouterr().err
    assert run("fit", path, "-t", "art", "-m", "nb:1", "-o", out, *code) == 0
    assert run("fit", path, "-t", "art", "-m", "nb:1", "-o", out, "--batches", *code) == 0
    capsys.readouterr()
    assert run("predict", out, path, *code) == 0
    assert capsys.readouterr().out.startswith("prediction,P(ß),P(ä)\n")
    assert run("explain", out, path, "--row", 1, *code) == 0
    for name in ("compare", "curve", "fit", "predict", "explain", "explore", "glm"):
        run(name, "--help")
        told = capsys.readouterr().out
        assert ("--separator" in told, "--encoding" in told) == (True, True)
    run("tag", "--help")
    assert "--encoding" in capsys.readouterr().out


def test_a_mistyped_data_set_is_named_before_anything_heavy_is_loaded(tmp_path):
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "CROSSFADE_DATA"}
    code = (
        "import sys; from crossfade.cli import main\n"
        "try: main(['fit', 'irs', '--out', 'm.skops'])\n"
        "finally: print(sorted({'numpy', 'sklearn', 'polars'} & sys.modules.keys()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert found.returncode == 2
    told = "data: expected the name of a data set or a file, got 'irs'; did you mean 'iris'?"
    assert told in found.stderr
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("width", [None, "60"])
def test_no_column_is_left_out_of_a_table_that_no_terminal_shows(monkeypatch, capsys, width):
    monkeypatch.delenv("COLUMNS")
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    options = ["--splits", "2", "--models", "majority,nb:1", "--cost", "1,5"]
    assert run("compare", "breast-cancer", *options) == 0
    out = capsys.readouterr().out
    names = out.split("\nmodel ")[1].split("\n")[0]
    assert ("fit" in names, "Brier" in names) == (width is None, width is None)
    assert ("no room for: fit, brier" in out) == (width is not None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("way", ["stdin", "pipe"])
def test_rows_that_can_be_read_but_once_are_read_as_a_file(
    tmp_path, monkeypatch, capsys, suffix, way
):
    rows = pl.DataFrame({"x": [0.0, 0.5, 1.0, 1.5] * 9, "y": [False, False, True, True] * 9})
    data, model = tmp_path / f"rows.{suffix}", str(tmp_path / "m.skops")
    rows.write_csv(data) if suffix == "csv" else rows.write_parquet(data)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def given():
        if way == "stdin":
            stdin = SimpleNamespace(buffer=io.BytesIO(data.read_bytes()), isatty=lambda: False)
            monkeypatch.setattr(sys, "stdin", stdin)
            return "-"
        pipe = tmp_path / f"pipe-{len(list(tmp_path.iterdir()))}"
        os.mkfifo(pipe)
        Thread(target=lambda: pipe.write_bytes(data.read_bytes())).start()
        return str(pipe)

    # The spelling of true and false is looked up in the file; --adapt reads the rows twice.
    assert run("fit", given(), "-t", "y", "-m", "nb:1", "-o", model) == 0
    assert run("fit", given(), "-t", "y", "-m", "nb:1", "-o", model, "--batches") == 0
    capsys.readouterr()
    assert run("predict", model, str(data), "--adapt") == 0
    expected = capsys.readouterr().out
    assert run("predict", model, given(), "--adapt") == 0
    assert capsys.readouterr().out == expected
    discard_unfinished()
    assert not list(tmp_path.glob("stdin-*"))


def test_a_terminal_is_no_table(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert run("compare", "-") == 2
    assert "data: expected rows on stdin, got a terminal" in capsys.readouterr().err
