"""``crossfade glm``: the table printed, the JSON, one line for what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crossfade.glm import BinomialRegression, PoissonRegression

typer = pytest.importorskip("typer")
pytest.importorskip("formulaic")

DOSE = [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839]
DEAD = [6, 13, 18, 28, 52, 53, 61, 60]
TRIALS = [59, 60, 62, 56, 63, 59, 62, 60]


@pytest.fixture
def beetles(tmp_path):
    path = tmp_path / "beetles.csv"
    lines = [f"{d},{k},{n}" for d, k, n in zip(DOSE, DEAD, TRIALS, strict=True)]
    path.write_text("\n".join(["dose,dead,n", *lines]) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments):
    from crossfade import cli

    with pytest.raises(SystemExit) as caught:
        cli.main(["glm", *map(str, arguments)])
    out, err = capsys.readouterr()
    return caught.value.code, out, err


FORMULA = "cbind(dead, n - dead) ~ dose"


def test_the_issues_example(beetles, capsys, tmp_path):
    written = tmp_path / "fit.json"
    code, out, err = run(
        capsys, beetles, "--family", "binomial", "--formula", FORMULA, "--json", written
    )
    assert (code, err) == (0, "")
    fit = BinomialRegression().fit(np.array(DOSE)[:, None], DEAD, trials=TRIALS)
    assert out.splitlines()[0] == "Binomial regression, logit link"
    assert f"{fit.coef_[0]:.4f}" in out
    result = json.loads(written.read_text(encoding="utf-8"))
    assert [row["term"] for row in result["coefficients"]] == ["Intercept", "dose"]
    np.testing.assert_allclose(result["coefficients"][1]["estimate"], fit.coef_[0], rtol=1e-12)
    np.testing.assert_allclose(
        [row["standard_error"] for row in result["coefficients"]], fit.standard_errors_, rtol=1e-9
    )
    for name in ("deviance", "log_likelihood", "aic", "bic", "pseudo_r2", "null_deviance"):
        np.testing.assert_allclose(result[name], getattr(fit, f"{name}_"), rtol=1e-9)


def test_ratios_are_printed_and_written(beetles, capsys, tmp_path):
    written = tmp_path / "fit.json"
    options = ("--family", "binomial", "--formula", FORMULA, "--ratios", "--json", written)
    code, out, _ = run(capsys, beetles, *options)
    assert code == 0
    assert out.splitlines()[0] == "Binomial regression, logit link, odds ratios"
    fit = BinomialRegression().fit(np.array(DOSE)[:, None], DEAD, trials=TRIALS)
    result = json.loads(written.read_text(encoding="utf-8"))
    found = result["coefficients"][1]["estimate"]
    np.testing.assert_allclose(found, np.exp(fit.coef_[0]), rtol=1e-9)


def test_links_trials_and_profile(beetles, capsys):
    options = ("--family", "binomial", "--link", "cloglog", "--profile")
    code, one, _ = run(capsys, beetles, "--formula", FORMULA, *options)
    assert code == 0
    assert "cloglog link" in one
    assert "Intervals by profile likelihood." in one
    code, two, _ = run(capsys, beetles, "--formula", "dead ~ dose", "--trials", "n", *options)
    assert code == 0
    assert one == two


def test_counts_with_exposure(beetles, capsys):
    options = ("--family", "poisson", "--formula", "dead ~ dose")
    code, one, _ = run(capsys, beetles, *options, "--exposure", "n", "--errors", "quasi")
    assert code == 0
    fit = PoissonRegression().fit(np.array(DOSE)[:, None], DEAD, exposure=TRIALS)
    assert f"{fit.coef_[0]:.4f}" in one
    assert "quasi fit" in one
    code, two, _ = run(
        capsys, beetles, *options[:3], "dead ~ dose + offset(log(n))", "--errors", "HC1"
    )
    assert code == 0
    assert f"{fit.coef_[0]:.4f}" in two
    assert "robust (HC1)" in two


def test_separation_multinomial_and_firth(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    path.write_text("x,y,w\n1,a,1\n2,a,2\n3,b,1\n4,b,1\n", encoding="utf-8")
    written = tmp_path / "fit.json"
    with pytest.warns(UserWarning, match="separate the responses"):
        code, out, _ = run(
            capsys, path, "--family", "binomial", "--formula", "y ~ x", "--json", written
        )
    assert code == 0
    assert "Separated: no finite estimate exists along Intercept, x." in out
    result = json.loads(written.read_text(encoding="utf-8"))
    assert result["separated"] == ["Intercept", "x"]
    assert result["coefficients"][1]["estimate"] == "inf"
    assert result["coefficients"][1]["p_value"] is None
    code, out, _ = run(
        capsys, path, "--family", "binomial", "--formula", "y ~ x", "--method", "firth"
    )
    assert code == 0
    assert "Firth's penalised likelihood" in out
    options = ("--family", "multinomial", "--formula", "y ~ x", "--l2", "1", "--weights", "w")
    code, out, _ = run(capsys, path, *options)
    assert code == 0
    assert "b: x" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--formula", "cbind(dead, n - dead) ~ dosis"), "did you mean 'dose'?"),
        (("--formula", FORMULA, "--link", "log"), "link: expected 'logit'"),
        (
            ("--formula", FORMULA, "--exposure", "n"),
            "exposure: expected none for BinomialRegression",
        ),
        (("--formula", FORMULA, "--trials", "n"), "trials: expected none beside cbind()"),
        (("--formula", "dead ~ dose"), "y: Only binary classification is supported here"),
        (
            ("--formula", "dead ~ dose", "--trials", "m"),
            "got 'm'; the columns are 'dose', 'dead', 'n'",
        ),
        (
            ("--formula", FORMULA, "--json", "/nowhere/x.json"),
            "--json: expected a file in a folder",
        ),
        (("--formula", "open('x') ~ dose"), "got \"open('x')\""),
    ],
)
def test_one_line_for_what_is_wrong(beetles, capsys, arguments, message):
    code, out, err = run(capsys, beetles, "--family", "binomial", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_file_that_is_not_there(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path / "no.csv", "--family", "poisson", "--formula", "a ~ b")
    assert code == 2
    assert err.count("\n") == 1


def test_how_cells_were_read_is_told(capsys, tmp_path):
    path, written = tmp_path / "prices.csv", tmp_path / "fit.json"
    cells = ["$1", "$2", "$4", "$3", "$5"]
    path.write_text("k;x\n" + "".join(f"{i};{c}\n" for i, c in enumerate(cells)), "utf-8")
    options = ("--family", "poisson", "--formula", "k ~ x", "--json", written)
    code, out, err = run(capsys, path, *options, "--separator", ";")
    assert (code, err) == (0, "")
    (note,) = json.loads(written.read_text(encoding="utf-8"))["opening_notes"]
    assert "'x'" in note
    assert out.splitlines()[-1] == f"note: {note}"
    fit = PoissonRegression().fit(np.array([[1], [2], [4], [3], [5]]), range(5))
    assert f"{fit.coef_[0]:.4f}" in out
    assert "in 'x' (1) and was left out" in run(capsys, path, *options[:4], "--missing", "$1")[1]


TABLE = "y,x,junk\n1,1,1\n,2,2\n4,2,3\n2,,4\n3,5,5\n6,4,6\n,,7\n7,7,hello\n"


def test_rows_with_a_missing_cell_in_a_used_column_are_left_out(capsys, tmp_path):
    path, written = tmp_path / "rows.csv", tmp_path / "fit.json"
    path.write_text(TABLE, "utf-8")
    options = ("--family", "poisson", "--formula", "y ~ x", "--json", written)
    code, out, err = run(capsys, path, *options)
    assert (code, err) == (0, "")
    note = "3 rows have a missing cell in 'y' (2), 'x' (2) and were left out."
    assert out.splitlines()[-1] == f"note: {note}"
    found = json.loads(written.read_text(encoding="utf-8"))
    assert found["opening_notes"] == [note]
    fit = PoissonRegression().fit(np.array([[1], [2], [5], [4], [7]]), [1, 4, 3, 6, 7])
    estimates = [row["estimate"] for row in found["coefficients"]]
    np.testing.assert_allclose(estimates, [fit.intercept_, *fit.coef_], rtol=1e-12)


@pytest.mark.parametrize(
    ("formula", "options", "refused"),
    [
        ("y ~ x", (), False),
        ("log(y + 1) ~ C(x)", (), False),
        ("y ~ junk", (), True),
        ("y ~ x:`junk`", (), True),
        ("y ~ x + offset(log(junk))", (), True),
        ("y ~ x", ("--weights", "junk"), True),
        ("y ~ x", ("--exposure", "junk"), True),
    ],
)
def test_only_columns_that_are_used_are_judged(capsys, tmp_path, formula, options, refused):
    path = tmp_path / "rows.csv"
    path.write_text(TABLE, "utf-8")
    _, _, err = run(capsys, path, "--family", "poisson", "--formula", formula, *options)
    assert ("column 'junk': expected numbers or text" in err) == refused


def test_rows_are_counted_from_1_below_the_header(capsys, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(TABLE.replace("3,5,5", "-3,5,5"), "utf-8")
    _, _, err = run(capsys, path, "--family", "poisson", "--formula", "y ~ x")
    assert err == "error: y: expected counts of at least 0, got -3 in row 5; correct the rows\n"
    path.write_text("y,x\n1,\n,2\n", "utf-8")
    _, _, err = run(capsys, path, "--family", "poisson", "--formula", "y ~ x")
    assert "got 2 with a missing cell in 'y' (1), 'x' (1)" in err


def test_overdispersion_is_told(capsys, shared_data, beetles):
    """Agresti (2013), section 4.3: the horseshoe crabs' dispersion is 3.18."""
    crabs = shared_data / "glm" / "horseshoe_crabs.csv"
    options = ("--family", "poisson", "--formula", "target ~ width")
    code, out, _ = run(capsys, crabs, *options)
    assert code == 0
    assert "Overdispersed: Pearson's X² is 3.18 for each degree of freedom" in out
    assert "give --errors quasi, or --errors HC1" in out
    for errors in ("quasi", "HC1"):
        assert "Overdispersed" not in run(capsys, crabs, *options, "--errors", errors)[1]
    of_beetles = run(capsys, beetles, "--family", "binomial", "--formula", FORMULA)
    assert "Overdispersed" not in of_beetles[1]
