"""fit and predict (and the rest of what is done with a model file) as a person types them."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import signal
import sys
import time
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import onnxruntime
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from crossfade import NaiveBayes, cli, compare
from crossfade.commands.new_rows import NewRows
from crossfade.commands.predict import _six_digits
from crossfade.comparison.models import own_models
from crossfade.errors import DataError
from crossfade.io import load_model, save_model
from crossfade.io.matching import Matcher
from crossfade.io.reading import read_table
from crossfade.pools.members import MEMBERS
from tests.forked import Forked
from tests.io.tables import mixed_table
from tests.io.test_coefficients import predicted
from tests.io.test_onnx import fed


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    return caught.value.code


def write_table(folder):
    frame, y = mixed_table()
    path = folder / "loans.csv"
    frame.with_columns(pl.Series("default", y.tolist())).write_csv(path)
    return path


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    path = folder / "model.skops"
    options = ("-t", "default", "-m", "naive-bayes", "--tradeoff", 1, "-o", path)
    assert run("fit", write_table(folder), *options) == 0
    return path


@pytest.fixture
def model(fitted, table, tmp_path):
    return Path(shutil.copy(fitted, tmp_path))


def test_a_class_of_one_row_is_kept_and_told(tmp_path, capsys):
    rows = [f"{i % 7},{'ab'[i % 2]}" for i in range(40)]
    for labels, told in ((["c"], "class 'c'."), (["d", "c"], "classes 'c', 'd'.")):
        path = tmp_path / "table.csv"
        path.write_text("\n".join(["x,y", *rows, *(f"3,{label}" for label in labels)]))
        out = tmp_path / "model.skops"
        assert run("fit", path, "-t", "y", "-m", "nb:1", "-o", out) == 0
        said = "Learnt from a single row, so that no row left out can check it: "
        assert capsys.readouterr().out.splitlines()[-2] == said + told
        assert load_model(out).estimator.classes_.tolist() == ["a", "b", *sorted(labels)]


def test_rows_without_a_cell_are_told(tmp_path, capsys):
    path, out = tmp_path / "table.csv", tmp_path / "model.skops"
    rows = [f"{i % 7},{i % 3},{'ab'[i % 4 == 0]}" for i in range(40)]
    path.write_text("\n".join(["x,z,y", *rows, ",,", "1,,", ",,"]))
    assert run("fit", path, "-t", "y", "-m", "nb:1", "-o", out) == 0
    capsys.readouterr()
    assert run("predict", out, path) == 0
    found, err = capsys.readouterr()
    told = (
        "note: 2 rows without any cell that the model uses: the prediction says nothing of such a"
    )
    assert told in err
    lines = found.splitlines()
    assert lines[-1] == lines[-3] == "a,0.75,0.25"


def test_fit_says_which_file_keeps_no_intervals(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path, out = tmp_path / "table.csv", tmp_path / "model.skops"
    fit = ("fit", path, "-t", "y", "-m", "nb:1", "-o", out)

    def write(n_words):
        words = np.array([f"w{i}" for i in range(n_words)])
        texts = [" ".join(rng.choice(words, n_words // 20)) for _ in range(80)]
        y = np.where(rng.normal(size=80) > 0, "a", "b")
        pl.DataFrame({"text": texts, "x": rng.normal(size=80), "y": y}).write_csv(path)

    for n_words, options in ((400, "--model pool:nb --intervals"), (100, "--intervals")):
        write(n_words)
        assert run(*fit) == 0
        assert capsys.readouterr().out.splitlines()[-2] == (
            "The file keeps no intervals (crossfade predict --interval), which take long for so "
            f"many parameters or rows; to have them: crossfade fit {options}."
        )
        assert run("predict", out, path, "--interval", 0.9) == 2
        assert "--model pool:nb --intervals" in capsys.readouterr().err
    assert run(*fit, "--intervals") == 0
    assert "intervals" not in capsys.readouterr().out
    assert run("predict", out, path, "--interval", 0.9) == 0
    assert run(*fit, "--drop", "text") == 0
    assert "intervals" not in capsys.readouterr().out
    assert run("predict", out, path, "--interval", 0.9) == 0


def expected(model, frame) -> pl.DataFrame:
    """Return the predictions that the estimator itself makes, as the file should have them."""
    estimator = load_model(model).estimator
    posterior = estimator.predict_proba(frame.select(load_model(model).schema.names))
    columns = [
        pl.Series(f"P({label})", values)
        for label, values in zip(estimator.classes_, posterior.T, strict=True)
    ]
    decided = estimator.classes_[posterior.argmax(axis=1)]
    return pl.DataFrame([pl.Series("prediction", decided.tolist()), *columns])


# -- fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tradeoff", "label", "fitted"),
    [
        ("naive-bayes", None, "naive Bayes auto", None),
        ("nb:generative", None, "naive Bayes generative", 1.0),
        ("gaussian-shared", "0.5", "shared Gaussian", 0.5),
        ("gaussian-full", "1", "full Gaussian", 1.0),
        ("shared Gaussian discriminative", None, "shared Gaussian discriminative", 0.0),
    ],
)
def test_a_named_model_is_fitted_to_all_rows(
    table, tmp_path, capsys, name, tradeoff, label, fitted
):
    out = tmp_path / "m.skops"
    options = [] if tradeoff is None else ["--tradeoff", tradeoff]
    assert run("fit", table, "-t", "default", "--model", name, *options, "--out", out) == 0
    said, err = capsys.readouterr()
    assert err == ""
    saved = load_model(out)
    assert saved.about["model"] == label
    assert said.startswith(f"{label}, λ={saved.about['training']['tradeoff']:.3g}, fitted to 200 r")
    assert fitted is None or saved.about["training"]["tradeoff"] == fitted
    assert saved.about["target"] == "default"
    assert saved.about["training"]["rows"] == 200
    assert [c["kind"] for c in saved.about["columns"]] == [
        "continuous", "count", "boolean", "categorical",
    ]  # fmt: skip


def test_best_is_what_the_comparison_finds_best_of_our_own(table, tmp_path, capsys, monkeypatch):
    out = tmp_path / "m.skops"
    own = own_models()
    quick = {name: own[name] for name in ("naive Bayes generative", "shared Gaussian generative")}
    monkeypatch.setattr("crossfade.comparison.models.own_models", lambda schema=None: quick)
    traced = []
    monkeypatch.setattr("crossfade.comparison.run.CurveRun", lambda **given: traced.append(given))
    assert run("fit", table, "-t", "default", "--splits", 2, "--seed", 3, "--out", out) == 0
    assert not traced  # the learning curve tells nothing of which model to take home
    said = " ".join(capsys.readouterr().out.split())
    frame = pl.read_csv(table)
    result = compare(
        frame.drop("default"),
        frame["default"],
        models=quick,
        n_splits=2,
        random_state=3,
        evidence=False,
        curve=False,
    )
    saved = load_model(out)
    assert saved.about["model"] == result.best
    kept = saved.about["training"]["comparison"]
    assert kept["best"] == result.best
    assert kept["log_loss"][result.best]["mean"] == pytest.approx(
        result[result.best].estimates["log_loss"].mean, rel=1e-9
    )
    assert set(kept["log_loss"]) == set(quick)
    assert kept["verdict"][0].replace("\n", " ") in said


def test_best_of_a_bundled_data_set(tmp_path, capsys, monkeypatch):
    quick = {name: model for name, model in own_models().items() if "generative" in name}
    monkeypatch.setattr("crossfade.comparison.models.own_models", lambda schema=None: quick)
    out = tmp_path / "m.skops"
    assert run("fit", "iris", "--splits", 2, "--out", out) == 0
    assert capsys.readouterr().err == ""
    assert load_model(out).about["model"] in quick


def test_rows_with_an_empty_target_are_learnt_from_when_asked(table, tmp_path, capsys, monkeypatch):
    frame = pl.read_csv(table)
    few = frame.with_columns(
        pl.when(pl.int_range(frame.height) % 4 == 0)
        .then("default")
        .otherwise(None)
        .alias("default")
    )
    path, out = tmp_path / "few.csv", tmp_path / "few.skops"
    few.write_csv(path)
    options = ("-t", "default", "-m", "naive-bayes", "--tradeoff", 1, "-o", out)
    assert run("fit", path, *options) == 0
    told = "150 rows have no default and were left out; crossfade fit --unlabelled learns from such"
    assert told in capsys.readouterr().out
    assert run("fit", path, *options, "--unlabelled") == 0
    told = capsys.readouterr().out
    assert "1 row has neither label nor cells and no part in the fit." in told
    n_others = int(few["default"].null_count()) - 1
    assert f"fitted to {frame.height - 1:,} rows, {n_others:,} of them without a label" in told
    assert "left out" not in told
    saved = load_model(out)
    expected = NaiveBayes(tradeoff=1, unlabelled="missing").fit(few.drop("default"), few["default"])
    assert_frame_equal(
        pl.DataFrame(saved.estimator.predict_proba(few.drop("default"))),
        pl.DataFrame(expected.predict_proba(few.drop("default"))),
    )
    assert saved.about["training"]["unlabelled_rows"] == n_others
    monkeypatch.setitem(MEMBERS, "nb", lambda seed: NaiveBayes(tradeoff=1))
    assert run("fit", path, "-t", "default", "-m", "pool:nb", "-o", out, "--unlabelled") == 0
    told = capsys.readouterr().out
    assert "1 row has neither label nor cells and no part in the fit." in told
    assert f"rows, {n_others:,} of them without a label of " in told
    pool = load_model(out)
    assert pool.estimator.n_unlabelled_ == pool.estimator.estimators_[0].n_unlabelled_ == n_others
    assert pool.about["training"]["unlabelled_weight"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-m", "svm"], "model: expected one of Crossfade's own models, got 'svm', which is sci"),
        (["-m", "naive-bayse"], "got 'naive-bayse'; did you mean 'naive-bayes'?"),
        (["--tradeoff", "0.5"], "--tradeoff: expected none with --model best"),
        (["-m", "nb:0.5", "--tradeoff", 0.75], "--tradeoff: expected none with --model nb:0.5, w"),
        (["-m", "nb", "--tradeoff", "half"], "tradeoff: expected a number from 0"),
        (["-m", "nb", "-o", "no/such/folder/m.skops"], "--out: expected a file in a folder"),
    ],
)
def test_what_cannot_be_fitted_is_told_in_one_line(table, tmp_path, capsys, options, message):
    out = [] if "-o" in options else ["-o", tmp_path / "m.skops"]
    assert run("fit", table, "-t", "default", *options, *out) == 2
    said, err = capsys.readouterr()
    assert said == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert os.listdir(tmp_path) == ["loans.csv"]


def test_warnings_of_the_fit_are_told_and_kept(tmp_path, capsys):
    path = tmp_path / "apart.csv"
    path.write_text("x,target\n" + "".join(f"{i},{'ab'[i > 9]}\n" for i in range(20)))
    out = tmp_path / "m.skops"
    assert run("fit", path, "-m", "nb:discriminative", "--out", out) == 0
    # l2=1 is the default: nothing to warn of. The tradeoff is in the file.
    assert load_model(out).about["training"]["warnings"] == []
    assert capsys.readouterr().err == ""


# -- predict ---------------------------------------------------------------------------------------


def test_predictions_are_the_estimators_own(model, table, tmp_path, capsys):
    out = tmp_path / "predictions.csv"
    assert run("predict", "--exact", model, table, "--out", out) == 0
    said, err = capsys.readouterr()
    assert said == ""
    assert err == (
        "note: ignored 1 column that the model does not use: default (the target)\n"
        "note: 1 row without any cell that the model uses: the prediction says nothing of such a "
        "row\n"
        f"200 rows written to {out}\n"
    )
    frame = pl.read_csv(out)
    assert frame.columns == ["prediction", "P(no)", "P(yes)"]
    assert frame.equals(expected(model, pl.read_csv(table)))


@pytest.mark.parametrize(
    "options",
    [("--coverage", 2), ("--interval", 2), ("--reject", 2), ("--class-prior", "uniform")],
)
def test_what_cannot_be_asked_is_refused_before_all_rows_are_read(
    model, table, monkeypatch, options
):
    monkeypatch.setattr("crossfade.commands.predict._adapted", None)
    assert run("predict", model, table, "--adapt", *options) == 2


def test_numbers_are_written_with_six_significant_digits(model, table, tmp_path):
    """Above a half, those of what is left to 1: no probability looks like a certainty."""
    found = {}
    for option in ("--exact", "--outliers"):
        out = tmp_path / f"p{option}.csv"
        assert run("predict", model, table, "--outliers", option, "-o", out) == 0
        found[option] = pl.read_csv(out)
    exact, written = found.values()
    assert exact["prediction"].equals(written["prediction"])
    for name in exact.columns[1:]:
        for value, shown in zip(exact[name], written[name], strict=True):
            left = 1.0 - value if 0.5 < value < 1.0 else abs(value)
            places = 0 if left == 0.0 else 5 - math.floor(math.log10(left))
            assert shown == round(value, places)


@pytest.mark.parametrize(
    "value",
    [0.0, 1.0, 2 / 3, 1 - 2**-53, 1 - 1e-9, 1 / 3e-9, 1.5e-26 / 7, 1e-310, 123456.789, -np.inf],
)
def test_digits_of_numbers_of_any_size(value):
    (shown,) = _six_digits("", np.array([value]))
    assert shown == pytest.approx(value, rel=5.1e-6, abs=0.0)
    assert (shown in (0.0, 1.0)) == (value in (0.0, 1.0))
    if 0.5 < value < 1.0:
        assert 1.0 - shown == pytest.approx(1.0 - value, rel=5.1e-6, abs=1.2e-16)


def test_predict_adapts_to_the_shares_of_the_rows_and_adds_sets(table, tmp_path, capsys):
    path, out = tmp_path / "auto.skops", tmp_path / "p.csv"
    assert run("fit", table, "-t", "default", "-m", "naive-bayes", "-o", path) == 0
    frame = pl.read_csv(table).filter(
        (pl.col("default") == "yes") | (pl.int_range(pl.len()) % 5 == 0)
    )
    new = tmp_path / "new.csv"
    frame.drop("default").write_csv(new)
    capsys.readouterr()
    assert run("predict", "--exact", path, new, "--adapt", "--coverage", 0.8, "-o", out) == 0
    told = capsys.readouterr().err
    saved = load_model(path)
    adapted = saved.estimator.adapt(frame.select(saved.schema.names))
    assert str(adapted.class_shares_) in told
    written = pl.read_csv(out)
    assert written.columns == ["prediction", "P(no)", "P(yes)", "in_set(no)", "in_set(yes)"]
    rows = frame.select(saved.schema.names)
    np.testing.assert_allclose(written[:, 1:3].to_numpy(), adapted.predict_proba(rows), rtol=1e-12)
    assert written[:, 3:].to_numpy().tolist() == adapted.predict_set(rows, 0.8).tolist()
    capsys.readouterr()
    assert run("predict", "--exact", path, new, "--by-class", "--coverage", 0.8) == 0
    by_class = pl.read_csv(capsys.readouterr().out.encode())[:, 3:].to_numpy()
    assert by_class.tolist() == saved.estimator.predict_set(rows, 0.8, by_class=True).tolist()
    assert by_class.tolist() != saved.estimator.predict_set(rows, 0.8).tolist()
    assert run("predict", "--exact", path, new, "--by-class") == 2
    assert "--by-class: expected --coverage beside it" in capsys.readouterr().err


def test_predict_takes_the_shares_of_the_rows(model, table, tmp_path, capsys):
    out = tmp_path / "p.csv"
    estimator, rows = load_model(model).estimator, pl.read_csv(table).drop("default")
    known = {"yes": 0.3, "no": 0.7}
    for given, prior in (
        ("yes=.3,no=.7", known),
        (" no = 0.7 ,  yes= .3 ", known),
        ("uniform", "uniform"),
    ):
        more = ("--class-prior", given, "--interval", 0.9)
        assert run("predict", "--exact", model, table, *more, "-o", out) == 0
        written = pl.read_csv(out)
        wanted = estimator.predict_proba(rows, interval=0.9, class_prior=prior)
        np.testing.assert_allclose(written[:, 1:].to_numpy(), np.hstack(wanted), rtol=1e-9)
        decided = estimator.predict(rows, class_prior=prior)
        assert written["prediction"].to_list() == decided.tolist()
    capsys.readouterr()
    for given in ("yes=.3", "yes=.3,no=.6", "yes=1,no=0", "y"):
        assert run("predict", "--exact", model, table, "--class-prior", given) == 2
        assert "class_prior: expected" in capsys.readouterr().err
    for given, why in (
        ("yes=.3,no=x", "'x' is no number"),
        ("yes=.3, maybe =.7", "no class is called 'maybe'"),
        ("yes=.3,yes=.3,no=.7", "'yes' is there twice"),
    ):
        assert run("predict", "--exact", model, table, "--class-prior", given) == 2
        said = capsys.readouterr().err
        assert f"--class-prior: expected 'uniform' or a share for each class, got '{given}'" in said
        assert f"{why}; write no=…,yes=…" in said
    assert run("predict", "--exact", model, table, "--class-prior", "uniform", "--adapt") == 2
    assert "expected no shares beside --adapt" in capsys.readouterr().err


def test_predict_decides_by_what_decisions_cost(model, table, tmp_path, capsys):
    out = tmp_path / "p.csv"
    for given, least in (("1,5", 1 / 6), ("5,1", 5 / 6), ("1,3;4,1", 2 / 5), ("0,2;1,0", 2 / 3)):
        assert run("predict", model, table, "--cost", given, "-o", out) == 0
        written = pl.read_csv(out)
        # Of two classes the second is decided for from a probability of FP/(FP + FN) on.
        wanted = np.where(written["P(yes)"] > least, "yes", "no")
        assert written["prediction"].to_list() == wanted.tolist()
        assert set(wanted) == {"no", "yes"}
    capsys.readouterr()
    for given, message in (
        ("1,5,3", "cost: expected the costs of a false positive and a false negative, or a matrix"),
        ("1,-5", "cost: expected that a wrong decision costs more than the right one"),
        ("x", "--cost: expected numbers such as 1,5"),
    ):
        assert run("predict", model, table, "--cost", given) == 2
        assert message in capsys.readouterr().err


def test_predict_tells_strangers_and_rejects_them(model, table, tmp_path, capsys):
    out, new = tmp_path / "p.csv", tmp_path / "new.csv"
    rows = pl.read_csv(table)[:40]
    number = next(name for name in rows.columns if rows[name].dtype.is_float())
    far = pl.when(pl.int_range(pl.len()) < 3).then(1e5).otherwise(pl.col(number))
    rows.with_columns(far.alias(number)).write_csv(new)
    assert run("predict", "--exact", model, new, "--outliers", "--reject", 0.02, "-o", out) == 0
    err = capsys.readouterr().err
    saved = load_model(model)
    known = pl.read_csv(new).select(saved.schema.names)
    written = pl.read_csv(out)
    assert written.columns[-2:] == ["outlier_score", "outlier_p"]
    np.testing.assert_allclose(written["outlier_score"], saved.estimator.outlier_score(known))
    np.testing.assert_allclose(written["outlier_p"], saved.estimator.outlier_p_value(known))
    assert written["prediction"].to_list() == saved.estimator.predict(known, reject=0.02).tolist()
    assert written["prediction"][:3].to_list() == [None] * 3
    n_rejected = written["prediction"].null_count()
    assert f"{n_rejected} of 40 rows rejected, outlier_p at most 0.02\n" in err
    assert run("predict", "--exact", model, new, "--reject", 0, "-o", out) == 2
    assert "--reject" in capsys.readouterr().err


def test_predict_adds_limits_of_probabilities_where_they_are_known(table, tmp_path, capsys):
    path, new, out = tmp_path / "m.skops", tmp_path / "new.csv", tmp_path / "p.csv"
    complete = pl.read_csv(table).drop_nulls()
    complete.write_csv(tmp_path / "complete.csv")
    frame = complete.drop("default")[:20]
    frame = frame.with_columns(age=pl.when(pl.int_range(20) != 3).then(pl.col("age")))
    frame.write_csv(new)
    # A joint Gaussian below tradeoff 1 has not told, from complete rows, what fills a gap.
    for name, tradeoff, without in (("nb", (), []), ("full", ("--tradeoff", 0.5), [3])):
        options = ("-t", "default", "-m", name, *tradeoff, "-o", path)
        assert run("fit", tmp_path / "complete.csv", *options) == 0
        capsys.readouterr()
        assert run("predict", "--exact", path, new, "--interval", 0.9, "-o", out) == 0
        written = pl.read_csv(out)
        assert written.columns[3:] == ["low(no)", "low(yes)", "high(no)", "high(yes)"]
        expected = load_model(path).estimator.predict_proba(frame, interval=0.9)
        found = written[:, 1:].cast(float).to_numpy()
        np.testing.assert_allclose(found, np.hstack(expected), rtol=1e-12)
        assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == without
        said = "note: 1 row has no limits: cells are missing, as of no row of fit"
        assert (said in capsys.readouterr().err) == bool(without)


def test_what_a_model_cannot_be_asked_is_refused_and_nothing_written(
    model, table, tmp_path, capsys
):
    out, parts = tmp_path / "p.csv", tmp_path / "parts.skops"
    frame = pl.read_csv(table)
    labels = frame["default"].to_numpy()
    save_model(NaiveBayes(tradeoff=1).partial_fit(frame.drop("default"), labels), parts)
    for more in ((), ("--adapt",)):
        capsys.readouterr()
        assert run("predict", parts, table, "--coverage", 0.8, *more, "-o", out) == 2
        err = capsys.readouterr().err
        assert "expected a model with rows of fit that it can be fitted without" in err
        assert "test that nothing shifted" not in err  # before all rows are read
    for option in ("--coverage", "--interval"):
        assert run("predict", model, table, option, 1.5, "-o", out) == 2
        assert f"{option}: expected" in capsys.readouterr().err
    assert not out.exists()


def test_a_given_tradeoff_has_sets(model, table, capsys):
    assert run("predict", model, table, "--coverage", 0.8) == 0
    sets = pl.read_csv(capsys.readouterr().out.encode())[:, 3:].to_numpy()
    saved = load_model(model)
    rows = pl.read_csv(table).select(saved.schema.names)
    assert saved.estimator.tradeoff in (0, 0.5, 1)
    assert sets.tolist() == saved.estimator.predict_set(rows, 0.8).tolist()


def test_without_out_they_go_to_stdout(model, table, capsys):
    assert run("predict", model, table) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "prediction,P(no),P(yes)"
    assert len(out.splitlines()) == 201


def test_stdout_too_is_written_whole_or_not_at_all(model, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text("age,visits,town,member\n" + "50,2,Oslo,true\n" * 100 + "old,2,Oslo,true\n")
    assert run("predict", model, path, "--batch", 1e-4) == 2
    told = capsys.readouterr()
    assert not told.out
    assert "got 'old' in row 101" in told.err


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        *((name, 16) for name in ("new.csv", "new.csv.gz", "new.parquet")),
        *(pytest.param(name, 16, marks=pytest.mark.slow) for name in ("new.tsv", "semi.csv")),
        # Read as text, unpacked, and read by columns.
        *((name, 1e-4) for name in ("new.csv", "new.csv.gz", "new.parquet")),
    ],
)
def test_any_format_order_and_batch_gives_the_same(model, table, tmp_path, name, batch):
    frame = pl.read_csv(table)
    shuffled = frame.select("town", pl.lit("x").alias("extra"), "member", "age", "visits")
    path = tmp_path / name
    if name.endswith(".parquet"):
        shuffled.write_parquet(path)
    else:
        separator = {"new.tsv": "\t", "semi.csv": ";"}.get(name, ",")
        text = shuffled.write_csv(separator=separator).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    out = tmp_path / "p.csv"
    assert run("predict", "--exact", model, path, "--batch", batch, "-o", out) == 0
    assert pl.read_csv(out).equals(expected(model, frame))


@pytest.mark.parametrize("batch", [16, 1e-5])
def test_blank_lines_are_no_rows_to_predict(model, table, tmp_path, capsys, batch):
    lines = table.read_text().split("\n")
    gaps, found = tmp_path / "gaps.csv", tmp_path / "p.csv"
    gaps.write_text("\n".join([lines[0], "", *lines[1:5], " ", "", *lines[5:]]))
    assert run("predict", model, gaps, "--batch", batch, "--exact", "-o", found) == 0
    assert "note: 3 blank lines were skipped.\n" in capsys.readouterr().err
    assert pl.read_csv(found).equals(expected(model, pl.read_csv(table)))
    whole, parts = tmp_path / "whole.skops", tmp_path / "parts.skops"
    options = ("-t", "default", "-m", "naive-bayes", "--tradeoff", 1)
    for out, more in ((whole, ()), (parts, ("--batches",))):
        assert run("fit", gaps, *options, *more, "-o", out) == 0
        assert capsys.readouterr().out.count("3 blank lines were skipped.\n") == 1
    frame = pl.read_csv(table)
    assert_frame_equal(expected(parts, frame), expected(model, frame))
    assert_frame_equal(expected(whole, frame), expected(model, frame))


@pytest.mark.parametrize("batch", [16, 1e-3])
def test_parquet_has_the_predictions_exactly_and_whole(model, table, tmp_path, capsys, batch):
    """What the estimator says of the rows, bit for bit, however many batches there were."""
    out = tmp_path / "p.parquet"
    options = ("--batch", batch, "--coverage", 0.9)
    assert run("predict", model, table, "-o", out, *options) == 0
    found, wanted = pl.read_parquet(out), expected(model, pl.read_csv(table))
    assert found.select(wanted.columns).equals(wanted)
    assert found.select("^in_set.*$").dtypes == [pl.Boolean, pl.Boolean]
    before = out.read_bytes()
    bad = tmp_path / "bad.csv"
    bad.write_text(table.read_text() + "old,1,Bern,,no\n")
    assert run("predict", model, bad, "-o", out, *options) == 2
    assert "got 'old'" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_parquet_keeps_the_type_of_the_classes_and_rejected_rows_empty(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7], 100)
    frame = pl.DataFrame({"x": rng.normal(size=200) + 3 * (y == 7), "y": y})
    path, saved, out = tmp_path / "t.csv", tmp_path / "m.skops", tmp_path / "p.pq"
    frame.write_csv(path)
    options = ("-t", "y", "-m", "naive-bayes", "--tradeoff", 1, "-o", saved)
    assert run("fit", path, *options) == 0
    far = pl.DataFrame({"x": [0.0, 3.0, 1e3]})
    far.write_parquet(tmp_path / "far.parquet")
    assert run("predict", saved, tmp_path / "far.parquet", "--reject", 0.01, "-o", out) == 0
    found = pl.read_parquet(out)["prediction"]
    assert found.to_list() == [3, 7, None]
    assert found.dtype == pl.Int64


@pytest.mark.parametrize("spelling", ["TRUE FALSE", "true false", "True False"])
def test_predictions_spell_true_and_false_as_the_file_of_fit_does(tmp_path, capsys, spelling):
    true, false = spelling.split()
    rows = [f"{i / 10},{true if i % 40 > 20 else false}" for i in range(120)]
    path, saved = tmp_path / "t.csv", tmp_path / "m.skops"
    path.write_text("\n".join(["x,sold", *rows]))
    for batches in ([], ["--batches"]):
        options = ("-t", "sold", "-m", "nb", "--tradeoff", 1, "-o", saved, *batches)
        assert run("fit", path, *options) == 0
        for prior in (true, "True"):
            capsys.readouterr()
            assert run("predict", saved, path, "--class-prior", f"{prior}=0.5,{false}=0.5") == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[0] == f"prediction,P({false}),P({true})"
            assert {line.split(",")[0] for line in lines[1:]} == {true, false}
    typed = tmp_path / "p.parquet"
    assert run("predict", saved, path, "-o", typed) == 0
    assert pl.read_parquet(typed)["prediction"].dtype == pl.Boolean


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,visits,Town,member\n1,2,Oslo,true\n",
         "new.csv: expected the 4 columns of fit, got none named 'town' (did you mean 'Town'?)"),
        ("age,visits,town,member\n1,2,Oslo,true\nold,1,Bern,\n",
         "column 'age': expected numbers as in fit, got 'old' in row 2"),
        ("age,visits,town,member\n1,-2,Oslo,true\n", "column 'visits': expected counts"),
        ("age,visits,town,member\ninf,2,Oslo,true\n", "got infinity (inf) in 1 cell of column"),
        ("age,visits,town,member\n1,2\n", "got 2 in line 2"),
        ("age,visits,town,member\n", "expected rows below the header"),
        ("", "empty file"),
    ],
)  # fmt: skip
def test_new_rows_that_do_not_fit_are_refused_in_one_line(model, tmp_path, capsys, text, message):
    path = tmp_path / "new.csv"
    path.write_text(text)
    out = tmp_path / "p.csv"
    assert run("predict", model, path, "--out", out) == 2
    said, err = capsys.readouterr()
    assert (said, err.count("\n")) == ("", 1)
    assert message in err
    assert not out.exists()
    assert set(os.listdir(tmp_path)) == {"loans.csv", "model.skops", "new.csv"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "{loans}", "{loans}"], "expected a model file that crossfade fit wrote"),
        (["predict", "none.skops", "{loans}"], "none.skops: no such file"),
        (["predict", "{model}", "none.csv"], "none.csv: no such file"),
        (
            ["predict", "{model}", "{loans}", "-o", "p.xlsx"],
            "expected a name that ends in .csv or .parquet or .pq",
        ),
        (["predict", "{model}", "{loans}", "--batch", "0"], "--batch: expected megabytes above 0"),
    ],
)
def test_wrong_files_are_told_in_one_line(model, table, capsys, arguments, message):
    places = {"loans": table, "model": model}
    assert run(*(argument.format(**places) for argument in arguments)) == 2
    said, err = capsys.readouterr()
    assert (said, err.count("\n")) == ("", 1)
    assert message in err


def test_new_categories_are_taken_as_missing_and_told(model, tmp_path, capsys):
    for name, town in (("new.csv", "Paris"), ("gap.csv", "")):
        (tmp_path / name).write_text(f"age,visits,town,member\n50,2,{town},true\n40,1,Oslo,\n")
    assert run("predict", model, tmp_path / "new.csv") == 0
    new, err = capsys.readouterr()
    said = "note: town: 1 cell with a category that fit did not see ('Paris'), taken as missing"
    assert err == f"{said}\n"
    # The rows are read twice, but a cell is one cell.
    assert run("predict", model, tmp_path / "new.csv", "--adapt") == 0
    assert said in capsys.readouterr().err
    assert run("predict", model, tmp_path / "gap.csv") == 0
    assert capsys.readouterr().out == new


def test_a_model_that_refuses_new_categories_says_so(table, tmp_path, capsys):
    from crossfade.io import save_model

    frame = pl.read_csv(table)
    estimator = NaiveBayes(tradeoff=1, handle_unknown="error")
    estimator.fit(frame.drop("default"), frame["default"])
    save_model(estimator, tmp_path / "strict.skops")
    new = tmp_path / "new.csv"
    new.write_text("age,visits,town,member\n50,2,Paris,true\n")
    assert run("predict", tmp_path / "strict.skops", new) == 2
    assert "expected only categories seen in fit, got 'Paris'" in capsys.readouterr().err


@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_what_fit_says_of_new_categories_is_done(table, tmp_path, capsys, unknown):
    path, new = tmp_path / "model.skops", tmp_path / "new.csv"
    options = ["-t", "default", "-m", "nb:generative", "--handle-unknown", unknown, "-o", path]
    assert run("fit", table, *options) == 0
    assert load_model(path).estimator.handle_unknown == unknown
    frame = mixed_table()[0]
    text = next(name for name in frame.columns if frame[name].dtype == pl.String)
    frame.with_columns(pl.lit("never seen").alias(text)).write_csv(new)
    capsys.readouterr()
    assert run("predict", path, new) == (2 if unknown == "error" else 0)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ("expected only categories seen in fit" if unknown == "error" else "taken as") in said


@pytest.mark.parametrize(
    ("model", "unknown", "message"),
    [
        ("best", "error", "--handle-unknown: expected none with --model best, got error"),
        (
            "gaussian-shared",
            "error",
            "--handle-unknown: expected none with --model gaus",
        ),
        ("naive-bayes", "skip", "handle_unknown: expected 'ignore' or 'error', got 'skip'"),
    ],
)
def test_models_that_take_no_such_word_refuse_it(table, tmp_path, capsys, model, unknown, message):
    out = tmp_path / "m.skops"
    assert (
        run("fit", table, "-t", "default", "-m", model, "--handle-unknown", unknown, "-o", out) == 2
    )
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(("command", "options"), [("predict", []), ("explain", ["--row", 2])])
def test_numbers_too_far_away_are_refused_in_one_line(model, tmp_path, capsys, command, options):
    frame = mixed_table(5)[0].with_columns(pl.lit(1e300).alias("age"))
    frame.write_csv(tmp_path / "far.csv")
    assert run(command, model, tmp_path / "far.csv", *options) == 2
    said = capsys.readouterr()
    assert "column 'age': expected numbers near enough to those of fit" in said.err
    assert said.err.count("\n") == 1
    assert not said.out


def test_what_meant_missing_in_the_training_table_means_it_in_new_ones(tmp_path, capsys):
    path = tmp_path / "t.csv"
    rows = [f"{i % 7 if i % 5 else 999},{'ab'[i % 2]},{'xy'[i % 3 == 0]}" for i in range(60)]
    path.write_text("n,c,target\n" + "\n".join(rows) + "\n")
    out = tmp_path / "m.skops"
    assert run("fit", path, "-m", "nb", "--missing", "999", "-o", out) == 0
    for name, cell in (("a.csv", "999"), ("b.csv", "")):
        (tmp_path / name).write_text(f"n,c\n{cell},a\n")
    capsys.readouterr()
    assert run("predict", out, tmp_path / "a.csv") == run("predict", out, tmp_path / "b.csv") == 0
    first, second = capsys.readouterr().out.split("prediction,")[1:]
    assert first == second


@pytest.mark.parametrize("batches", [[], ["--batches"]])
def test_fit_names_the_columns_that_have_no_part_in_it(tmp_path, capsys, batches):
    path = tmp_path / "t.csv"
    rows = [f"C-{i},March {1 + i % 28} 2021,{i * 7 % 11}.5,{'yn'[i % 2]}" for i in range(60)]
    path.write_text("\n".join(["id,day,x,target", *rows]))
    assert run("fit", path, "-m", "nb", "--tradeoff", 1, "-o", tmp_path / "m.skops", *batches) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "of 3 columns (left out as identifier or date: 'id', 'day'), 2 classes" in out


@pytest.mark.parametrize("batches", [[], ["--batches"]])
def test_fit_says_how_columns_without_a_name_are_called(tmp_path, capsys, batches):
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join([",x,target", *(f"{i},{i * 7 % 11},{'yn'[i % 2]}" for i in range(60))])
    )
    assert run("fit", path, "-m", "nb", "--tradeoff", 1, "-o", tmp_path / "m.skops", *batches) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("A column without a name is called 'Unnamed: 0'.") == 1


LABELS = ["<script>alert(1)</script>", 'say "a, b"', "two\nlines", "😀", "=1+1", "x" * 300]


def test_any_label_survives(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = np.array(LABELS, dtype=object)[rng.integers(len(LABELS), size=120)]
    path = tmp_path / "t.csv"
    pl.DataFrame({"x\n<b>": rng.normal(size=120), "target": y}).write_csv(path)
    assert run("fit", path, "-m", "nb", "--tradeoff", "1", "-o", tmp_path / "m.skops") == 0
    out = tmp_path / "p.csv"
    assert run("predict", tmp_path / "m.skops", path, "-o", out) == 0
    assert "Traceback" not in capsys.readouterr().err
    frame = pl.read_csv(out)
    # The reader of CSV leaves doubled quotes in a header as they are.
    names = [name.replace('""', '"') for name in frame.columns]
    assert names == ["prediction", *(f"P({label})" for label in sorted(LABELS))]
    assert set(frame["prediction"]) <= set(LABELS)


def test_classes_that_a_spreadsheet_would_run_are_told_and_made_safe(tmp_path, capsys):
    labels = np.array(["=cmd|' /C calc'!A0", "@SUM(1)", "-1", "+a", "plain"], dtype=object)
    path, saved = tmp_path / "t.csv", tmp_path / "m.skops"
    y = np.tile(labels, 20)
    pl.DataFrame({"x": np.arange(100.0) % 5, "target": y}).write_csv(path)
    assert run("fit", path, "-m", "nb:generative", "-o", saved) == 0
    out = tmp_path / "p.csv"
    found = {}
    for safe in (False, True):
        capsys.readouterr()
        assert run("predict", saved, path, "-o", out, *["--spreadsheet-safe"] * safe) == 0
        assert ("as a formula; use --spreadsheet-safe" in capsys.readouterr().err) == (not safe)
        found[safe] = pl.read_csv(out, infer_schema=False)
    assert found[False]["prediction"].to_list() == y.tolist()
    marked = [label if label in ("-1", "plain") else f"'{label}" for label in y]
    assert found[True]["prediction"].to_list() == marked
    assert found[True].drop("prediction").equals(found[False].drop("prediction"))


def test_bundled_data_go_by_name_from_fit_to_predict(tmp_path, capsys):
    out = tmp_path / "m.skops"
    assert run("fit", "iris", "-m", "gaussian-full", "--tradeoff", "1", "-o", out) == 0
    assert run("predict", out, "iris") == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == "prediction,P(setosa),P(versicolor),P(virginica)"
    truth = np.repeat(["setosa", "versicolor", "virginica"], 50)
    right = [line.split(",")[0] for line in lines[1:]] == truth
    assert right.mean() == 0.98


def test_memory_does_not_grow_with_the_rows(model, tmp_path, capsys):
    path = tmp_path / "large.csv"
    frame = mixed_table(1000)[0].write_csv().encode()
    header, body = frame.split(b"\n", 1)
    path.write_bytes(header + b"\n" + body)
    assert run("predict", model, path, "-o", tmp_path / "p.csv") == 0  # loads what is compiled
    peaks = []
    for n in (4, 20):
        path.write_bytes(header + b"\n" + body * n)
        tracemalloc.start()
        assert run("predict", model, path, "--batch", "0.05", "-o", tmp_path / "p.csv") == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert f"{20_000:,} rows written" in capsys.readouterr().err
    assert peaks[1] < 1.2 * peaks[0]


def test_rows_are_handed_out_by_their_number_of_posteriors(
    model, table, tmp_path, capsys, monkeypatch
):
    assert run("predict", model, table, "-o", tmp_path / "whole.csv") == 0
    monkeypatch.setattr("crossfade.commands.new_rows._MOST_POSTERIORS", 7)
    assert run("predict", model, table, "-o", tmp_path / "parts.csv") == 0
    whole, parts = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("whole", "parts"))
    assert_frame_equal(parts, whole)
    sizes = {len(part) for part, _ in NewRows(load_model(model), str(table)).batches()}
    assert max(sizes) == 7 // 2


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_batches_are_let_go(model, tmp_path, monkeypatch, ending):
    # What Rust and NumPy hold is not in the trace above: count the tables themselves.
    path = tmp_path / f"large.{ending}"
    frame = mixed_table(4000)[0]
    frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    batches, alive = NewRows.batches, []

    def watched(self):
        seen = []
        for table, first in batches(self):
            seen.append(weakref.ref(table))
            alive.append(sum(ref() is not None for ref in seen))
            yield table, first

    monkeypatch.setattr(NewRows, "batches", watched)
    assert run("predict", model, path, "--batch", "0.005", "-o", tmp_path / "p.csv") == 0
    assert len(alive) > 10
    assert max(alive) <= 2


def _predict_without_end(words):
    """Predict the rows of a file again and again."""
    once = NewRows.batches

    def endless(self):
        while True:
            yield from once(self)

    NewRows.batches = endless
    return cli.main(words)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
@pytest.mark.parametrize("stage", ["reading", "writing"])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "stopped by the keyboard\n"), (signal.SIGTERM, 143, "")],
)
def test_a_stopped_run_leaves_what_was_there(model, tmp_path, stage, number, code, said):
    data, out = tmp_path / "rows.csv", tmp_path / "p.csv"
    content = b"age,visits,town,member\n" + b"50,2,Oslo,true\n" * 500
    # A pipe that never ends is stopped while its rows are being kept.
    os.mkfifo(data) if stage == "reading" else data.write_bytes(content)
    begun = "stdin-" if stage == "reading" else ".p.csv"
    out.write_text("before")
    words = ["predict", str(model), str(data), "-o", str(out)]
    with Forked(_predict_without_end, words, TMPDIR=str(tmp_path)) as process:
        # (opened for both, a pipe waits for no reader, who may have died)
        with open(os.open(data, os.O_RDWR), "r+b", buffering=0) as rows:
            if stage == "reading":
                rows.write(content)
            while not any(name.startswith(begun) for name in os.listdir(tmp_path)):
                assert process.returncode is None
                time.sleep(0.02)
            process.send_signal(number)
            _, err = process.communicate()
        assert process.returncode == code
        # (Python itself tells of exceptions that a library ignores)
        assert err.endswith(said)
        assert "fault" not in err
    assert out.read_text() == "before"
    assert set(os.listdir(tmp_path)) == {"loans.csv", "model.skops", "rows.csv", "p.csv"}


def test_json_in_the_file_is_what_the_command_said(model):
    about = load_model(model).about
    assert json.loads(json.dumps(about)) == about
    assert about["training"]["source"].endswith("loans.csv")


# -- explain ---------------------------------------------------------------------------------------


def test_an_explanation_sums_to_the_log_odds_of_the_prediction(model, table, tmp_path, capsys):
    path = tmp_path / "why.json"
    assert run("explain", model, table, "--row", 17, "--json", path) == 0
    out, err = capsys.readouterr()
    assert err == "note: ignored 1 column that the model does not use: default (the target)\n"
    content = json.loads(path.read_text())
    row = pl.read_csv(table)[16:17]
    posterior = expected(model, row).row(0)
    assert content["prediction"] == posterior[0]
    odds = content["probabilities"][content["prediction"]]
    odds /= content["probabilities"][content["against"]]
    assert content["probabilities"] == {"no": posterior[1], "yes": posterior[2]}
    total = content["baseline"] + sum(one["contribution"] for one in content["columns"])
    assert total == pytest.approx(np.log(odds), rel=1e-9)
    assert content["log_odds"] == pytest.approx(total, rel=1e-12)
    assert [one["name"] for one in content["columns"]] == ["age", "visits", "member", "town"]
    assert [one["cell"] for one in content["columns"]] == list(row.row(0)[:4])
    # All of it is on the terminal, the largest first.
    lines = out.splitlines()
    assert f"loans.csv, row 17: default is {posterior[0]} with probability" in out
    shown = sorted(content["columns"], key=lambda one: -abs(one["contribution"]))
    starts = [line.split()[0] for line in lines if re.search(r" [+-]\d", line)]
    assert starts == ["baseline", *(one["name"] for one in shown), "log-odds"]
    for one in shown:
        (line,) = (line for line in lines if line.startswith(one["name"]))
        assert f"{one['contribution']:+.3f}" in line


def test_a_row_from_a_later_batch_and_another_class_to_compare_with(tmp_path, capsys):
    out = tmp_path / "m.skops"
    assert run("fit", "iris", "-m", "gaussian-full", "--tradeoff", "1", "-o", out) == 0
    path = tmp_path / "why.json"
    options = ("--row", 150, "--against", "setosa", "--json", path)
    assert run("explain", out, "iris", *options) == 0
    said = capsys.readouterr().out
    assert "target is virginica" in said
    content = json.loads(path.read_text())
    assert content["against"] == "setosa"
    odds = content["probabilities"]["virginica"] / content["probabilities"]["setosa"]
    assert content["log_odds"] == pytest.approx(np.log(odds), rel=1e-6)


def test_without_rows_the_coefficients_are_shown(model, table, tmp_path, capsys):
    path = tmp_path / "summary.json"
    assert run("explain", model, "--json", path) == 0
    out, err = capsys.readouterr()
    found = load_model(model).estimator.summary()
    assert (out, err) == (f"{found}\n", "")
    content = json.loads(path.read_text())
    assert content["coefficients"] == found.frame().to_dicts()
    assert content["tests"] == found.tests_frame().to_dicts()
    # A row's probability has the interval of its model.
    assert run("explain", model, table, "--row", 3, "--json", path) == 0
    row = pl.read_csv(table)[2:3].drop("default")
    _, low, high = load_model(model).estimator.predict_proba(row, interval=0.95)
    content = json.loads(path.read_text())
    assert content["intervals"]["yes"] == pytest.approx([low[0, 1], high[0, 1]], rel=1e-12)
    assert " to 0." in capsys.readouterr().out


def test_coefficients_without_errors_are_shown_and_why(tmp_path, capsys):
    words = ["good fine very", "bad poor very"]
    path, out, json_path = tmp_path / "t.csv", tmp_path / "m.skops", tmp_path / "c.json"

    def explained(frame, *options):
        frame.write_csv(path)
        assert run("fit", path, "-t", "y", "-m", *options, "-o", out) == 0
        capsys.readouterr()
        assert run("explain", out, "--json", json_path) == 0
        said, why = capsys.readouterr().out.rsplit("\n\n", 1)
        estimator = load_model(out).estimator
        with pytest.raises(DataError):
            estimator.summary()
        found = estimator.summary(errors=False)
        assert said == str(found)
        assert "std. error" not in said
        linear, intercepts = estimator.coef_, estimator.intercept_
        np.testing.assert_allclose(found.estimates, [*intercepts, *linear[0]], rtol=1e-12)
        content = json.loads(json_path.read_text())["coefficients"]
        assert [one["estimate"] for one in content] == found.estimates.tolist()
        assert {one["standard_error"] for one in content} == {None}
        assert (why.startswith("No standard errors: "), why.count("\n")) == (True, 1)
        return found.terms, why

    texts = [f"{words[i % 2]} w{i} v{i} w{i // 3}" for i in range(90)]
    frame = pl.DataFrame({"text": texts, "y": ["n", "p"] * 45})
    terms, why = explained(frame, "nb:generative")
    assert "got one that does not: it was fitted to batches, or saved with more than 300" in why
    assert {"text: good", "text: bad", "text: very"} <= set(terms)
    # Asked for beside the fit, it has them.
    assert run("fit", path, "-t", "y", "-m", "nb:generative", "--intervals", "-o", out) == 0
    assert (load_model(out).estimator.summary().standard_errors > 0.0).all()


def test_the_largest_coefficients_of_words_are_shown(tmp_path, capsys):
    path, out = tmp_path / "t.csv", tmp_path / "m.skops"
    said = [f"{'good' if i % 2 else 'bad'} w{i} v{i} u{i} t{i} s{i}" for i in range(120)]
    pl.DataFrame({"text": said, "y": ["n", "p"] * 60}).write_csv(path)
    assert run("fit", path, "-t", "y", "-m", "nb:generative", "-o", out) == 0
    capsys.readouterr()
    assert run("explain", out) == 0
    shown = capsys.readouterr().out
    assert re.search(r"largest of [\d,]{3,}\ntext: (good|bad) ", shown)
    assert shown.count("text: ") == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--row", "0"], "--row: expected 1 (the first row below the header) or more, got 0"),
        (["--row", "201"], "--row: expected a row from 1 to 200 of"),
        (["--row", "1", "--against", "maybe"], "--against: expected a class other than the predi"),
        (["--row", "x"], "Invalid value for '--row'"),
        ([], "--row: expected which row of"),
        (None, "--row: expected a table of rows to choose from, got only a model; give DATA"),
    ],
)
def test_what_cannot_be_explained_is_told_in_one_line(model, table, capsys, options, message):
    of_rows = ["--row", "1"] if options is None else [table, *options]
    assert run("explain", model, *of_rows) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


# -- export ----------------------------------------------------------------------------------------


def test_an_export_of_one_column_says_column(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["x,target", *(f"{i * 7 % 11}.5,{'yn'[i % 2]}" for i in range(40))]))
    saved, numbers = tmp_path / "m.skops", tmp_path / "m.json"
    assert run("fit", path, "--model", "naive-bayes", "--tradeoff", 1, "--out", saved) == 0
    assert run("export", saved, "--onnx", tmp_path / "m.onnx", "--json", numbers) == 0
    told = capsys.readouterr().err
    assert "ONNX, 1 input, outputs" in told
    assert "coefficients of 1 column\n" in told


def test_exports_predict_as_the_model(model, table, tmp_path, capsys):
    graph, numbers = tmp_path / "model.onnx", tmp_path / "model.json"
    assert run("export", model, "--onnx", graph, "--json", numbers) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"{graph}: ONNX, 4 inputs, outputs label and probabilities\n"
        f"{numbers}: coefficients of 4 columns\n"
    )
    frame = pl.read_csv(table).drop("default")
    run_ = onnxruntime.InferenceSession(graph)
    posterior = run_.run(["probabilities"], fed(run_.get_inputs(), frame))[0]
    wanted = expected(model, frame).select("P(no)", "P(yes)").to_numpy()
    np.testing.assert_allclose(posterior, wanted, rtol=0, atol=1e-6)
    content = json.loads(numbers.read_text())
    assert (content["model"], content["target"]) == ("naive Bayes", "default")
    found = [predicted(content, row) for row in frame.rows()]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_what_cannot_be_exported_leaves_no_file(table, tmp_path, capsys):
    path = tmp_path / "m.skops"
    options = ("-m", "gaussian-full", "--tradeoff", "1", "-o", path)
    assert run("fit", table, "-t", "default", *options) == 0
    capsys.readouterr()
    both = ("--onnx", tmp_path / "m.onnx", "--json", tmp_path / "m.json")
    assert run("export", path, *both) == 2
    err = capsys.readouterr().err
    assert "expected a model whose log-odds are a sum over columns" in err
    assert err.count("\n") == 1
    assert run("export", path) == 2
    assert "--onnx, --json: expected at least one file" in capsys.readouterr().err
    assert set(os.listdir(tmp_path)) == {"loans.csv", "m.skops"}


# -- all of it, on real and on hostile tables ------------------------------------------------------


def take_home(path, folder, *fit: object, row: int = 1) -> pl.DataFrame:
    """Run fit, predict, explain and export on one table; check them against each other."""
    saved, out = folder / "m.skops", folder / "p.csv"
    assert run("fit", path, "-t", "target", "-o", saved, *fit) == 0
    assert run("predict", "--exact", saved, path, "-o", out) == 0
    assert run("explain", saved, path, "--row", row, "--json", folder / "why.json") == 0
    assert run("export", saved, "--onnx", folder / "m.onnx") == 0
    predictions = pl.read_csv(out)
    posterior = predictions.select(pl.exclude("prediction")).to_numpy()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
    model = load_model(saved)
    content = json.loads((folder / "why.json").read_text())
    first, second = (
        [str(label) for label in model.estimator.classes_].index(str(content[key]))
        for key in ("prediction", "against")
    )
    if posterior[row - 1, second] > 1e-12:
        odds = np.log(posterior[row - 1, first] / posterior[row - 1, second])
        assert content["log_odds"] == pytest.approx(odds, rel=1e-6, abs=1e-9)
    graph = onnxruntime.InferenceSession(folder / "m.onnx")
    table = Matcher(model.schema, str(path)).match(read_table(path))
    found = graph.run(["probabilities"], fed(graph.get_inputs(), table))[0]
    np.testing.assert_allclose(found, posterior, rtol=0, atol=1e-6)
    return predictions


FILES = {
    "ng_jordan/lenses.csv": "naive-bayes",
    "mixed/hepatitis.csv": "gaussian-shared",
    "mixed/titanic.csv": "naive-bayes",
}
MORE_FILES = {
    "statlog/australian.csv": "gaussian-shared",
    "ng_jordan/pima.csv": "gaussian-full",
    "ng_jordan/promoters.csv": "naive-bayes",
    "ng_jordan/house_votes_84.csv": "naive-bayes",
    "mixed/horse_colic.csv": "naive-bayes",
}


@pytest.mark.parametrize(
    "name", [*FILES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_FILES)]
)
def test_real_tables_from_fit_to_export(shared_data, tmp_path, name, capsys):
    path = shared_data / name
    kind = (FILES | MORE_FILES)[name]
    predictions = take_home(path, tmp_path, "-m", kind, "--tradeoff", "0.5", row=3)
    truth = read_table(path)["target"].cast(pl.String)
    right = predictions["prediction"].cast(pl.String) == truth
    majority = truth.value_counts()["count"].max() / len(truth)
    assert right.mean() > majority


HOSTILE = {
    "names": 'id,"<script>alert(1)</script>","=cmd|\' /C calc\'!A0","a ""quote""",{name},target\n',
    "cells": "id,a,b,c,d,target\n",
    "labels": "id,a,b,c,d,target\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tables_from_fit_to_export(tmp_path, kind, capsys):
    rng = np.random.default_rng(0)
    evil = ["<img src=x onerror=alert(1)>", "\x1b[31mred", "'; DROP TABLE x; --", "😀\u202egnp"]
    lines = []
    for number in range(80):
        label = number % 2
        words = evil if kind == "cells" else ["a", "b"]
        cells = [f"{rng.normal() + label:.3f}", f"{rng.normal():.3f}", str(rng.choice(words))]
        target = f'"{evil[label]}, ""{label}"""' if kind == "labels" else ["no", "yes"][label]
        lines.append(f'{number},{",".join(cells[:2])},"{cells[2]}",{rng.integers(5)},{target}\n')
    path = tmp_path / "t.csv"
    header = HOSTILE[kind].format(name="x" * 300 + "\u202e")
    path.write_text(header + "".join(lines), encoding="utf-8")
    predictions = take_home(path, tmp_path, "-m", "nb", "--tradeoff", "1", "--drop", "id")
    assert len(predictions) == 80
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    # Nothing that a terminal would obey, and no line that is not ours.
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", out.replace("\n", "") + err.replace("\n", ""))


def test_a_pool_is_taken_home_predicts_and_explains(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(MEMBERS, "nb", lambda seed: NaiveBayes(tradeoff=1))
    path = tmp_path / "pool.skops"
    assert run("fit", table, "-t", "default", "-m", "pool:nb,forest", "-o", path) == 0
    assert "pool, logarithmic, of " in capsys.readouterr().out
    about = load_model(path).about
    assert set(about["training"]["pool"]["weights"]) == {"nb", "forest"}
    assert run("predict", "--exact", path, table, "-o", tmp_path / "p.csv") == 0
    found = pl.read_csv(tmp_path / "p.csv")
    assert_frame_equal(found, expected(path, pl.read_csv(table)))
    out = tmp_path / "sets.csv"
    assert run("predict", "--exact", path, table, "--adapt", "--coverage", 0.8, "-o", out) == 0
    saved = load_model(path)
    cells = pl.read_csv(table).select(saved.schema.names)
    adapted = saved.estimator.adapt(cells)
    assert str(adapted.class_shares_) in capsys.readouterr().err
    sets = pl.read_csv(out)[:, -2:]
    assert all(name.startswith("in_set(") for name in sets.columns)
    assert sets.to_numpy().tolist() == adapted.predict_set(cells, 0.8).tolist()
    assert run("explain", path, table, "-r", 1, "--json", tmp_path / "why.json") == 0
    why = json.loads((tmp_path / "why.json").read_text())
    odds = np.log(why["probabilities"][why["prediction"]] / why["probabilities"][why["against"]])
    assert why["log_odds"] == pytest.approx(odds, abs=1e-9)
    assert set(why["members"]) <= {"nb", "forest"}
    capsys.readouterr()
    assert run("explain", path, "--json", tmp_path / "weights.json") == 0
    summary = saved.estimator.summary()
    assert capsys.readouterr().out == f"{summary}\n"
    content = json.loads((tmp_path / "weights.json").read_text())
    assert content == {"coefficients": summary.frame().fill_nan(None).to_dicts()}
    assert run("predict", "--exact", path, table, "--interval", 0.9, "-o", out) == 2
    assert "interval: expected a pool with its rows of fit" in capsys.readouterr().err
    assert run("fit", table, "-t", "default", "-m", "pool:nb", "--intervals", "-o", path) == 0
    assert run("predict", "--exact", path, table, "--interval", 0.9, "-o", out) == 0
    _, low, high = load_model(path).estimator.predict_proba(cells, interval=0.9)
    found = pl.read_csv(out)
    for name, limits in (("low", low), ("high", high)):
        columns = [one for one in found.columns if one.startswith(f"{name}(")]
        np.testing.assert_allclose(found[columns].to_numpy(), limits, rtol=1e-12)
    assert run("fit", table, "-t", "default", "-m", "pool", "--tradeoff", 1, "-o", path) == 2
    assert "--tradeoff: expected none with --model pool" in capsys.readouterr().err


@pytest.mark.parametrize("batches", [False, True])
def test_rows_that_belong_together_are_taken_so_and_their_column_is_no_feature(
    table, tmp_path, capsys, batches
):
    frame = pl.read_csv(table)
    who = [f"p{i % 40}" for i in range(frame.height)]
    path, out = tmp_path / "visits.csv", tmp_path / "m.skops"
    frame.with_columns(pl.Series("patient", who)).write_csv(path)
    fit = ("fit", path, "-t", "default", "--groups", "patient", "-o", out)
    read = ["--batches"] if batches else []
    assert run(*fit, "-m", "naive-bayes", *read) == 0
    saved = load_model(out)
    assert "patient" not in saved.schema.names
    assert saved.about["training"]["groups"] == "patient"
    X = frame.select(saved.schema.names)
    given = frame["default"].to_list()
    model = NaiveBayes().fit(X, given, groups=who)
    np.testing.assert_allclose(saved.estimator.predict_proba(X), model.predict_proba(X), atol=1e-4)
    alone = NaiveBayes().fit(X, given)
    assert not np.allclose(alone.predict_proba(X), model.predict_proba(X), atol=1e-3)
    if not batches:
        capsys.readouterr()
        assert run("explain", out) == 0
        assert capsys.readouterr().out == f"{model.summary()}\n"
        assert "40\n" in str(model.summary())
    capsys.readouterr()
    for more, message in (
        (("--groups", "patien", "-m", "nb:auto"), "did you mean 'patient'?"),
        (("--groups", "default", "-m", "nb:auto"), "--groups: expected columns besides the target"),
        ((), "--groups: expected a named model, got --model best"),
    ):
        assert run(*fit, *more) == 2
        assert message in capsys.readouterr().err


def test_intervals_that_a_file_does_not_keep_are_told(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(MEMBERS, "nb", lambda seed: NaiveBayes(tradeoff=1))
    monkeypatch.setattr("crossfade.pools.jackknife._MOST_BYTES", 10)
    fit = ("fit", table, "-t", "default", "-m", "pool:nb", "-o", tmp_path / "p.skops")
    assert run(*fit, "--intervals") == 0
    assert "The file keeps no intervals: they would take more than" in capsys.readouterr().out


def test_files_of_many_parameters_keep_intervals_where_they_are_asked_for(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [f"c{i % 160},{rng.normal()},{'ab'[i % 2]}\n" for i in range(640)]
    path, out = tmp_path / "t.csv", tmp_path / "m.skops"
    path.write_text("town,size,y\n" + "".join(rows))
    fit = ("fit", path, "-t", "y", "-m", "naive-bayes", "--tradeoff", 1, "-o", out)
    assert run(*fit) == 0
    capsys.readouterr()
    assert run("explain", out) == 0
    assert "crossfade fit --intervals" in capsys.readouterr().out
    assert run(*fit, "--intervals") == 0
    assert run("explain", out) == 0
    assert "town = c1" in capsys.readouterr().out
    assert run("predict", out, path, "--interval", 0.9, "-o", tmp_path / "p.csv") == 0
    assert {"low(a)", "high(b)"} <= set(pl.read_csv(tmp_path / "p.csv").columns)
    for tradeoff in (1, 0.5):
        beside = ("--tradeoff", tradeoff, "--intervals", "--batches", "-o", out)
        assert run("fit", path, "-t", "y", "-m", "naive-bayes", *beside) == 0
        assert "keeps no" not in capsys.readouterr().out
        asked = ("--interval", 0.9, "--coverage", 0.8, "--outliers")
        assert run("predict", out, path, *asked, "-o", tmp_path / "p.csv") == 0
        assert {"low(a)", "in_set(b)"} <= set(pl.read_csv(tmp_path / "p.csv").columns)


def test_cells_are_shown_as_the_file_has_them(tmp_path, capsys):
    path, out = tmp_path / "t.csv", tmp_path / "m.skops"
    rows = [f"{i % 3 == 0},{i % 2},{i % 4 / 4},{'ab'[i % 5 > 2]}\n" for i in range(40)]
    path.write_text("adult,flag,size,y\n" + "".join(rows))
    assert run("fit", path, "--target", "y", "-m", "nb:generative", "-o", out) == 0
    capsys.readouterr()
    assert run("explain", out, path, "--row", 2) == 0
    cells = dict(
        line.split()[:2]
        for line in capsys.readouterr().out.splitlines()
        if "adds" in line or (re.search(r" [+-]\d", line) and len(line.split()) > 2)
    )
    assert (cells["adult"], cells["flag"], cells["size"]) == ("False", "1", "0.25")
