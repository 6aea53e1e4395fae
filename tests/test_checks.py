"""What single values are: numbers of a range, missing cells, packages that are not there."""

from __future__ import annotations

import ast
import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from crossfade._checks import check_choice, check_number, counted, did_you_mean, is_missing, listed
from crossfade._optional import EXTRAS, import_optional, versions
from crossfade.errors import DataError, MissingExtraError
from tests.conftest import ROOT
from tests.test_dependencies import declared


def test_one_is_no_plural():
    assert [counted(n, "row") for n in (0, 1, 2, 1000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "1,000 rows",
    ]


def test_no_message_says_1_columns():
    """Numbers stand before these nouns by way of counted, but where they are never 1."""
    nouns = re.compile(r" ([a-z]+-[a-z]+ )?(columns|cells|tokens|sentences|tags|labels|words)\b")
    never_one = {"before", "n_numbers + n_others", "len(empty)"}
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for number, text in pairwise(parts):
                if isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant):
                    value = ast.unparse(number.value)
                    if nouns.match(text.value) and value not in never_one:
                        found.append(f"{path.name}: {value}{text.value}")
    assert not found


@pytest.mark.parametrize(
    ("value", "options", "bounds"),
    [
        (-1, {"least": 0}, "finite number of at least 0"),
        (0.0, {"above": 0.0}, "finite number above 0"),
        (1.0, {"least": 0, "below": 1}, r"finite number in \[0, 1\)"),
        (0, {"above": 0, "below": 1}, r"finite number in \(0, 1\)"),
        (2.5, {"least": 1, "whole": True}, "whole number of at least 1"),
        (np.nan, {}, "finite number"),
        (np.inf, {"least": 0}, "finite number of at least 0"),
        (10**400, {"whole": True}, "whole number"),
        (True, {}, "finite number"),
        ("1", {}, "finite number"),
        (None, {}, "finite number"),
        (1j, {}, "finite number"),
    ],
)
def test_what_is_no_number_of_the_range_is_refused(value, options, bounds):
    with pytest.raises(DataError, match=rf"^m: expected a {bounds}, got .*; use 3$"):
        check_number("m", value, remedy="use 3", **options)


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2), np.uint64(2), Fraction(2)])
def test_numbers_of_any_type_pass_as_floats(value):
    assert check_number("m", value, 2, whole=True, below=3) == 2.0


@pytest.mark.parametrize("item", [None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.float16("nan")])
def test_what_stands_for_a_missing_cell(item):
    assert is_missing(item)


@pytest.mark.parametrize("item", ["", 0, "NaN", Decimal("sNaN"), [np.nan], np.zeros(2)])
def test_what_does_not(item):
    assert not is_missing(item)


def test_every_optional_package_is_brought_by_its_extra():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    brought = pyproject["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert package in declared(*brought[extra])


def test_a_package_that_is_missing_is_named_with_its_purpose_and_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    with pytest.raises(MissingExtraError) as error:
        import_optional("skops.io", "model files")
    assert str(error.value) == (
        "the package skops is needed for model files and is not installed; install it with: "
        "pip install 'crossfade[models]'"
    )


def test_versions_are_those_of_the_packages():
    assert versions()["numpy"] == np.__version__


def test_names_are_listed_up_to_eight():
    assert listed("abc") == "'a', 'b', 'c'"
    assert listed(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7 and 3 more"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("Age", "did you mean 'age '?"),
        ("heigth", "did you mean 'height'?"),
        ("zzz", "name another"),
        ("mass", "did you mean 'mass_in_kg'?"),
        # Letters in common make no name of another.
        *((name, "name another") for name in ("target", "name", "eight ball", "x", "mg")),
    ],
)
def test_near_names_are_asked_for(name, answer):
    known = ["age ", "height", "mass_in_kg", "sex"]
    assert did_you_mean(name, known, "name another") == answer


@pytest.mark.parametrize(
    ("choices", "value", "message"),
    [
        (("a", "b"), "c", r"^x: expected 'a' or 'b', got 'c'; use one of these$"),
        ((True, False, "auto"), 1, r"^x: expected True, False or 'auto', got 1; use one"),
        ("abcd", None, r"^x: expected one of 'a', 'b', 'c', 'd', got None; use one"),
    ],
)
def test_what_is_none_of_the_choices_is_refused(choices, value, message):
    for one in choices:
        check_choice("x", one, choices)
    with pytest.raises(DataError, match=message):
        check_choice("x", value, choices)
