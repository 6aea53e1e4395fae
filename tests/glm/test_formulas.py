"""Formulas: what they mean, and that they cannot do anything else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from crossfade.errors import DataError
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
        ("died ~ dose", "formula: expected names of columns, got 'died'"),
        (
            "dead ~ dose + hole",
            "formula: expected a value in every cell, got 1 missing in column 'hole' (first in "
            "row 1); drop those rows or fill them in",
        ),
        ("hole ~ dose", "got 1 missing in column 'hole'"),
        ("dead ~ log(hole)", "got 1 missing in column 'hole'"),
        ("cbind(dead) ~ dose", "formula: expected cbind(successes, failures), got 'cbind(dead)'"),
        ("cbind(n, dead - n) ~ dose", "more successes than trials; check which column is which"),
        ("kind + 1 ~ dose", "formula: expected numbers in 'kind + 1', got text"),
        ("dead ~ dose:offset(n)", "formula: expected offset(expression) as a term of its own"),
        ("dead ~ (dose", "formula: cannot read '(dose'"),
        ("`dead ~ dose", "formula: expected closed backticks"),
        ("log( ~ dose", "formula: cannot read 'log('"),
    ],
)
def test_what_cannot_be_read(formula, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_formula(formula, TABLE)
