from __future__ import annotations

import polars as pl
import pytest

from crossfade.errors import DataError
from crossfade.io.matching import Matcher, NewCategories
from crossfade.table import Schema

FIT = pl.DataFrame(
    {
        "age": [31.5, 40.25, None],
        "visits": [0, 3, 1],
        "member": [True, False, None],
        "flag": [0, 1, 1],
        "town": ["Oslo", None, "Bern"],
        "code": ["007", "12", "3+"],
    }
)


@pytest.fixture
def matcher() -> Matcher:
    return Matcher(Schema.learn(FIT), "new.csv", ["999"])


def text(**cells: str) -> pl.DataFrame:
    row = {
        "code": "12", "age": "1", "visits": "2", "member": "true", "flag": "1", "town": "Oslo"
    }  # fmt: skip
    return pl.DataFrame({name: [value] for name, value in {**row, **cells}.items()})


def test_columns_are_picked_by_name_in_any_order(matcher):
    frame = matcher.match(text(other="x"))
    assert frame.columns == FIT.columns
    assert frame.rows() == [(1.0, 2.0, 1.0, 1.0, "Oslo", "12")]
    assert matcher.extra(["other", *FIT.columns]) == ["other"]
    # What the schema makes of it is what it makes of the types of fit.
    typed = pl.DataFrame(
        {"age": [1.0], "visits": [2], "member": [True], "flag": [1], "town": ["Oslo"],
         "code": ["12"]}
    )  # fmt: skip
    schema = matcher.schema
    assert (schema.encode(frame) == schema.encode(matcher.match(typed))).all()


def test_text_stays_text_whatever_it_looks_like(matcher):
    assert matcher.match(text(code="007"))["code"].to_list() == ["007"]
    assert matcher.match(text(town="12"))["town"].to_list() == ["12"]
    assert matcher.match(text(town="NA"))["town"].to_list() == ["NA"]


@pytest.mark.parametrize("cell", ["", " ", "NA", "?", "nan", "999"])
def test_missing_cells_are_those_of_fit(matcher, cell):
    frame = matcher.match(text(age=cell, visits=cell, member=cell, flag=cell))
    assert frame.select("age", "visits", "member", "flag").row(0) == (None,) * 4
    assert matcher.match(text(town="999"))["town"].to_list() == [None]


def test_numbers_that_mean_missing_do_so_however_they_are_written(matcher):
    for cells in (text(age="999.00", visits="999"), text(age="999").with_columns(visits=999)):
        assert matcher.match(cells).select("age", "visits").row(0) == (None, None)


@pytest.mark.parametrize(
    ("cell", "value"), [("true", 1), ("FALSE", 0), ("0", 0), ("1", 1), (" 1 ", 1)]
)
def test_booleans_are_words_or_digits(matcher, cell, value):
    assert matcher.match(text(member=cell, flag=cell)).select("member", "flag").row(0) == (
        value,
        value,
    )


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"age": "old"}, "new.csv: column 'age': expected numbers as in fit, got 'old' in row 7 "),
        ({"visits": "1,500"}, "column 'visits': expected numbers as in fit, got '1,500' in row 7"),
        ({"member": "maybe"}, "column 'member': expected true, false, 0 or 1 as in fit, got 'may"),
        ({"age": "true"}, "column 'age': expected numbers as in fit, got 'true' in row 7"),
    ],
)
def test_cells_that_do_not_fit_are_refused_with_their_row(matcher, cells, message):
    with pytest.raises(DataError) as caught:
        matcher.match(text(**cells), first=7)
    assert message in str(caught.value)


def test_missing_columns_are_named_with_the_nearest(matcher):
    with pytest.raises(DataError) as caught:
        matcher.extra(["Age ", "vists", "member", "flag", "code", "other"])
    assert str(caught.value) == (
        "new.csv: expected the 6 columns of fit, got none named 'age' (did you mean 'Age '?), "
        "'visits' (did you mean 'vists'?), 'town'; rename or add the columns"
    )


def test_new_categories_are_counted_over_batches(matcher):
    for town in ("Oslo", "Paris", "Paris", "Rome", "", "Kyiv", "Lima"):
        matcher.match(text(town=town))
    matcher.match(text(code="12"))
    assert matcher.new_categories == {"town": NewCategories(5, ["Paris", "Rome", "Kyiv"])}


def test_categories_of_other_types_of_frames(matcher):
    frame = text().with_columns(pl.col("town").cast(pl.Categorical), pl.col("age").cast(pl.Int64))
    assert matcher.match(frame).row(0) == (1, 2.0, 1.0, 1.0, "Oslo", "12")


def test_nothing_given_is_changed(matcher, unchanged):
    matcher.match(unchanged(text(age="NA", town="Paris")))
