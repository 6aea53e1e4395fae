"""Formulas: what they mean, and that they cannot do anything else."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from crossfade.errors import DataError, IgnoredRowsWarning
from crossfade.glm import BinomialRegression, PoissonRegression
from crossfade.glm.formulas import read_formula

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

TABLE = pd.DataFrame(
    {
        "dead": [1, 2, 3, 4],
        "n": [5, 5, 5, 5],
        "dose": [1.0, 2.0, 4.0, 8.0],
        "kind": ["a", "b", "a", "c"],
        "odd name": [1.0, 0.0, 2.0, 5.0],
        "hole": [1.0, np.nan, 2.0, 5.0],
        "log": [1.0, 2.0, 3.0, 4.0],
        "words": ["__import__('os').system('touch /tmp/owned')"] * 4,
    }
)


def test_both_sides():
    model = read_formula("cbind(dead, n - dead) ~ log2(dose) + kind", TABLE)
    np.testing.assert_array_equal(model.response, [1, 2, 3, 4])
    np.testing.assert_array_equal(model.trials, [5, 5, 5, 5])
    assert list(model.matrix.columns) == ["log2(dose)", "kind[T.b]", "kind[T.c]"]
    np.testing.assert_array_equal(model.matrix["log2(dose)"], [0.0, 1.0, 2.0, 3.0])
    assert model.intercept
    assert model.offset is None


def test_offsets_intercept_and_names():
    model = read_formula("dead ~ `odd name` * dose - 1 + offset(log(n)) + offset(2 * dose)", TABLE)
    assert list(model.matrix.columns) == ["odd name", "dose", "odd name:dose"]
    assert not model.intercept
    np.testing.assert_allclose(model.offset, np.log(5.0) + 2.0 * TABLE["dose"])
    assert model.trials is None
    powers = read_formula("`odd name` + 1 ~ I(dose ** 2) + I(dose > 2) + sqrt(n)", TABLE)
    np.testing.assert_array_equal(powers.response, [2.0, 1.0, 3.0, 6.0])
    np.testing.assert_array_equal(powers.matrix.iloc[:, 0], [1.0, 4.0, 16.0, 64.0])


def test_contrasts():
    one = read_formula("dead ~ C(kind, Treatment('b'))", TABLE).matrix
    two = read_formula("dead ~ C(kind, contr.treatment('b'))", TABLE).matrix
    np.testing.assert_array_equal(one, two)
    assert read_formula("dead ~ poly(dose, degree=2)", TABLE).matrix.shape == (4, 2)


def test_a_constant_only():
    model = read_formula("dead ~ 1", TABLE)
    assert model.matrix.shape == (4, 0)
    assert model.intercept


#: Formulas come in text that may have been copied from anywhere.
ATTACKS = [
    "__import__('os').system('true')",
    "dead.__class__",
    "dead[0]",
    "eval('1')",
    "(lambda: 1)()",
    "[d for d in dead]",
    "open('x')",
    "np.load('x')",
    "Q('dead')",
    "contr.__class__('x')",
    "C.__globals__",
    "log.__self__(dead)",
    "hashed(kind, levels=3)",
    "f'{dead}'",
    "dead if n else dose",
    "(dead := 3)",
    "C(kind, __import__('os'))",
    "I(I.__class__)",
    "{dead.__class__}",
]


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("side", ["{} ~ dose", "dead ~ {}", "dead ~ I({})", "dead ~ offset({})"])
def test_nothing_else_is_evaluated(text, side, monkeypatch):
    import os

    monkeypatch.setattr(os, "system", lambda command: pytest.fail("executed"))
    with pytest.raises(DataError, match="formula: "):
        read_formula(side.format(text), TABLE)


def test_cells_are_values():
    matrix = read_formula("dead ~ C(words)", TABLE).matrix
    assert matrix.shape == (4, 0)  # one level only: it is the constant
    matrix = read_formula("dead ~ words + kind", TABLE).matrix
    assert matrix.shape == (4, 2)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("dead", "formula: expected 'response ~ terms', got 'dead'"),
        ("dead ~ ", "formula: expected 'response ~ terms', got 'dead ~ '"),
        ("a ~ b ~ c", "formula: expected 'response ~ terms', got 'a ~ b ~ c'"),
        ("dead ~ dosis", "formula: expected names of columns, got 'dosis'; did you mean 'dose'?"),
        (
            "dead ~ . - n",
            "formula: expected names of columns, got '.' in '. - n'; name each column",
        ),
        ("died ~ dose", "formula: expected names of columns, got 'died'"),
        ("cbind(dead) ~ dose", "formula: expected cbind(successes, failures), got 'cbind(dead)'"),
        ("cbind(n, dead - n) ~ dose", "more successes than trials; check which column is which"),
        ("kind + 1 ~ dose", "formula: expected numbers in 'kind + 1', got text"),
        ("dead ~ dose:offset(n)", "formula: expected offset(expression) as a separate term"),
        ("dead ~ (dose", "formula: cannot read '(dose'"),
        ("dead ~ dose | n", "formula: expected one list of terms, got several in 'dose | n'"),
        ("dead ~ log(-dose)", "formula: cannot evaluate 'log(-dose)'"),
        ("`dead ~ dose", "formula: expected closed backticks"),
        ("log( ~ dose", "formula: cannot read 'log('"),
    ],
)
def test_what_cannot_be_read(formula, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_formula(formula, TABLE)


KINDS = ["int8", "uint8", "int16", "int32", "uint64", "int64", "float32", "Int64", "decimal"]


def cells(kind, values):
    from decimal import Decimal

    return pd.Series([Decimal(v) for v in values] if kind == "decimal" else values).astype(
        object if kind == "decimal" else kind
    )


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_is_as_wide_as_its_results(kind):
    """Sums, differences, products and powers that leave the columns' own type."""
    table = pd.DataFrame({"s": cells(kind, [100, 1, 90]), "f": cells(kind, [120, 2, 3])})
    model = read_formula("cbind(s, f) ~ I(s - f) + I(s * f) + s:f + I(s ** 10)", table)
    np.testing.assert_array_equal(model.response, [100, 1, 90])
    np.testing.assert_array_equal(model.trials, [220, 3, 93])
    right = {"I(s - f)": [-20, -1, 87], "I(s * f)": [12000, 2, 270], "s:f": [12000, 2, 270]}
    for name, values in right.items():
        np.testing.assert_array_equal(model.matrix[name], values)
    np.testing.assert_allclose(model.matrix["I(s ** 10)"], [1e20, 1.0, 90.0**10])
    np.testing.assert_array_equal(read_formula("s - f ~ s", table).response, [-20, -1, 87])
    assert read_formula("s ~ C(f)", table).matrix.columns[0] in ("C(f)[T.3]", "C(f)[T.3.0]")


def test_booleans_add_up():
    table = pd.DataFrame({"a": [True, True, False], "b": [True, False, False], "y": [1, 2, 3]})
    np.testing.assert_array_equal(read_formula("y ~ I(a + b)", table).matrix["I(a + b)"], [2, 1, 0])


def test_a_file_is_the_same_table_in_every_format(tmp_path, capsys):
    pl = pytest.importorskip("polars")
    from crossfade import cli

    rows = pl.DataFrame(
        {
            "s": pl.Series([100, 90, 110, 20], dtype=pl.Int8),
            "f": pl.Series([120, 30, 10, 100], dtype=pl.Int8),
            "x": pl.Series(["1.5", "0.5", "2.5", "1.0"]).cast(pl.Decimal(10, 2)),
        }
    )
    rows.write_parquet(tmp_path / "t.parquet")
    rows.write_csv(tmp_path / "t.csv")
    printed = []
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(SystemExit):
            cli.main(
                ["glm", str(tmp_path / name), "--family=binomial", "--formula=cbind(s, f) ~ x"]
            )
        printed.append(capsys.readouterr().out)
    assert "observations" in printed[0]
    assert printed[0] == printed[1]


def test_a_column_called_intercept_is_a_column():
    table = pd.DataFrame({"k": [1, 4, 2, 9, 3], "Intercept": [0.0, 1.0, 0.5, 2.0, 1.0]})
    fit = PoissonRegression.from_formula("k ~ Intercept", table)
    plain = PoissonRegression().fit(table[["Intercept"]].to_numpy(), table["k"])
    assert fit.names_ == ("(Intercept)", "Intercept")
    np.testing.assert_allclose(fit.coef_, plain.coef_)
    assert read_formula("k ~ Intercept - 1", table).matrix.shape == (5, 1)


@pytest.mark.parametrize("years", [None, [1.0, 2.0, 1.0, 4.0, 2.0]])
def test_the_constant_alone_is_the_mean(years):
    table = pd.DataFrame({"k": [1, 4, 2, 9, 3], "years": [1.0] * 5 if years is None else years})
    fit = PoissonRegression.from_formula("k ~ offset(log(years))", table)
    assert fit.names_ == ("Intercept",)
    np.testing.assert_allclose(np.exp(fit.intercept_), 19 / table["years"].sum())
    np.testing.assert_allclose(fit.standard_errors_, [19**-0.5])
    np.testing.assert_allclose(fit.predict(table), 19 * table["years"] / table["years"].sum())
    one = BinomialRegression.from_formula("k ~ 1", TWO)
    np.testing.assert_allclose(one.predict_proba(TWO)[:, 1], 0.6)
    with pytest.raises(DataError, match="expected a term after '~'"):
        read_formula("k ~ 0", table)


TWO = pd.DataFrame({"k": [1, 0, 1, 1, 0]})


def test_contrasts_without_brackets():
    one = read_formula("dead ~ C(kind, contr.sum)", TABLE).matrix
    np.testing.assert_array_equal(one, read_formula("dead ~ C(kind, contr.sum())", TABLE).matrix)
    np.testing.assert_array_equal(one, [[1, 0], [0, 1], [1, 0], [-1, -1]])


def test_a_formula_model_predicts_from_tables_as_given():
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "y": rng.integers(0, 2, 60),
            "x": rng.integers(1, 100, 60).astype("uint8"),
            "kind": rng.choice(list("abc"), 60),
            "n": rng.integers(1, 4, 60),
        }
    )
    formula = "y ~ log(x) + center(x) + C(kind, contr.sum)"
    fit = BinomialRegression.from_formula(formula, table, sample_weight="n", l2=0.5)
    columns = np.column_stack(
        [
            np.log(table["x"].astype(float)),
            table["x"] - table["x"].astype(float).mean(),
            (table["kind"] == "a").astype(float) - (table["kind"] == "c"),
            (table["kind"] == "b").astype(float) - (table["kind"] == "c"),
        ]
    )
    plain = BinomialRegression(l2=0.5).fit(columns, table["y"], table["n"])
    np.testing.assert_allclose(fit.coef_, plain.coef_)
    for frame in (table, pl.DataFrame(table.to_dict("list"))):
        again = pickle.loads(pickle.dumps(fit))
        np.testing.assert_allclose(again.predict_proba(frame[:7]), plain.predict_proba(columns[:7]))
    with pytest.raises(DataError, match="cannot evaluate"):
        fit.predict(table.assign(kind="d"))
    with pytest.raises(DataError, match="exposure: expected none for BinomialRegression"):
        BinomialRegression.from_formula(formula, table, exposure="n")
    fit.fit(columns, table["y"])
    assert fit.predict(columns).shape == (60,)


def test_a_column_beside_the_formula_is_named_by_what_asks_for_it():
    for given, said in {
        "dosis": "expected names of columns, got 'dosis'; did you mean 'dose'?",
    }.items():
        with pytest.raises(DataError, match=re.escape(f"sample_weight: {said}")):
            BinomialRegression.from_formula("cbind(dead, n) ~ dose", TABLE, sample_weight=given)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_with_a_missing_cell_are_left_out_as_r_does(library):
    """na.omit: of the columns that are used alone, and arrays beside the formula go with them."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=40) for name in ("x", "other", "unused")}
    counts = rng.poisson(3.0, 40).astype(float)
    years = rng.uniform(1.0, 2.0, 40)
    columns["x"][[3, 8]] = counts[[8, 20]] = columns["unused"][5] = np.nan
    table = pytest.importorskip(library).DataFrame(columns | {"n": counts})
    holes = np.isin(np.arange(40), [3, 8, 20])
    with pytest.warns(IgnoredRowsWarning, match=r"^3 rows have a .* 'x' \(2\), 'n' \(2\) and were"):
        found = PoissonRegression.from_formula("n ~ x + log(1 + exp(other))", table, exposure=years)
    X = np.column_stack([columns["x"], np.log1p(np.exp(columns["other"]))])[~holes]
    expected = PoissonRegression().fit(X, counts[~holes], exposure=years[~holes])
    np.testing.assert_allclose(found.coef_, expected.coef_)
    np.testing.assert_allclose(found.intercept_, expected.intercept_)
    with pytest.raises(DataError, match=r"missing in column 'x' \(first in row 4\)"):
        found.predict(table)


@pytest.mark.parametrize("name", ["y", "Intercept", "odd name"])
def test_messages_count_rows_from_1_also_behind_those_that_were_left_out(name):
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0, -4.0, 0.0], name: [1.0, 2.0, np.nan, -4.0, 0.0]})
    with (
        pytest.warns(IgnoredRowsWarning, match=rf"^1 row has a missing cell in '{name}' \(1\) and"),
        pytest.raises(DataError, match="got -4 in row 4; correct the rows"),
    ):
        PoissonRegression.from_formula(f"y ~ `{name}`", table)
    with pytest.raises(DataError, match=r"got 5 with a missing cell in .* \(5\); leave out such a"):
        PoissonRegression.from_formula(f"y ~ `{name}`", table.assign(**{name: None}))
