"""Table files: what comes out of good ones, and what is said about bad ones."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossfade import NaiveBayes
from crossfade.errors import DataError, MissingExtraError
from crossfade.io import cells as types
from crossfade.io import scan, text
from crossfade.io.batches import read_batches
from crossfade.io.encoding import as_utf8
from crossfade.io.matching import Matcher
from crossfade.io.reading import read_file, read_table
from crossfade.io.target import split_target
from tests.table.tables import HOSTILE


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def write(content: str | bytes, name: str = "t.csv") -> str:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(raw)
        return name

    return write


def columns(frame: pl.DataFrame) -> dict[str, list[Any]]:
    return frame.to_dict(as_series=False)


# -- what comes out ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected", "dtype"),
    [
        ("1,2,-3", [1, 2, -3], pl.Int64),
        ("1,,3", [1, None, 3], pl.Int64),
        (" 1,2 ,+3", [1, 2, 3], pl.Int64),
        ("1.5,2,1e3", [1.5, 2.0, 1000.0], pl.Float64),
        ("1,99999999999999999999", [1.0, 1e20], pl.Float64),
        ("31,NA,?,25,NaN,null", [31, None, None, 25, None, None], pl.Int64),
        ("0.5,NaN,nan,-", [0.5, None, None, None], pl.Float64),
        ("true,false,", [True, False, None], pl.Boolean),
        ("TRUE,False", [True, False], pl.Boolean),
        ("yes,no,", ["yes", "no", None], pl.String),
        ("NA,x,?", ["NA", "x", "?"], pl.String),
        ("NA,NA", ["NA", "NA"], pl.String),
        ("007,010", ["007", "010"], pl.String),
        ("0,10", [0, 10], pl.Int64),
        ("0.5,0", [0.5, 0.0], pl.Float64),
        ("0,1,2,3+,0,1,2,0", ["0", "1", "2", "3+", "0", "1", "2", "0"], pl.String),
        ("A12,34,B7", ["A12", "34", "B7"], pl.String),
        ("a, b", ["a", " b"], pl.String),
        (" ,a", [None, "a"], pl.String),
        (",", [None, None], pl.Int64),
        ("=1+1,__import__('os').remove('t.csv')", ["=1+1", "__import__('os').remove('t.csv')"],
         pl.String),
    ],
)  # fmt: skip
def test_types(write: Any, cells: str, expected: list[Any], dtype: Any) -> None:
    rows = "".join(f"{cell},x\n" for cell in cells.split(","))
    frame = read_table(write(f"a,b\n{rows}"))
    assert frame["a"].to_list() == expected
    assert frame["a"].dtype == dtype


def test_missing_values_and_text_columns(write: Any) -> None:
    name = write("age,sex,code\n31,?,1\n?,m,2\n-9,f,3\n")
    assert columns(read_table(name, missing_values=["?", "-9"], text=["code"])) == {
        "age": [31, None, None],
        "sex": [None, "m", "f"],
        "code": ["1", "2", "3"],
    }
    assert read_table(name)["sex"].to_list() == ["?", "m", "f"]
    assert read_table(name, missing_values="?")["sex"].to_list() == [None, "m", "f"]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("a,b\n1,x\n", "t.csv"),
        ("a,b\n1,x", "t.txt"),
        ("a,b\r\n1,x\r\n", "t.data"),
        ("a,b\r1,x\r", "t.CSV"),
        ("\ufeffa,b\n1,x\n\n\n", "t.csv"),
        (" a , b \n1,x\n", "t"),
        ("a;b\n1;x\n", "t.csv"),
        ("a|b\n1|x\n", "t.csv"),
        ("a\tb\n1\tx\n", "t.csv"),
        ("a\tb\n1\tx\n", "t.tsv"),
        ('"a","b"\n"1","x"\n', "t.tab"),
        (gzip.compress(b"a,b\n1,x\n", mtime=0), "t.csv.gz"),
        (gzip.compress(b"a\tb\n1\tx\n", mtime=0), "t.tsv.gz"),
        (gzip.compress(b"a,b\n1,x\n", mtime=0), "compressed.csv"),
    ],
)
def test_line_ends_separators_and_suffixes(write: Any, content: Any, name: str) -> None:
    assert columns(read_table(write(content, name))) == {"a": [1], "b": ["x"]}


def test_a_separator_may_be_given(write: Any) -> None:
    assert columns(read_table(write("a:b,c\n1:2\n"), separator=":")) == {"a": [1], "b,c": [2]}
    with pytest.raises(DataError, match=r"^separator: expected one character, got '::'; for inst"):
        read_table("t.csv", separator="::")


def test_one_column_may_have_empty_lines(write: Any) -> None:
    assert columns(read_table(write("a\n1\n\n3\n"))) == {"a": [1, None, 3]}


def test_dates_in_parquet_are_what_they_are_in_text(tmp_path: Path) -> None:
    days = [dt.date(2024, 2, 28 + i) for i in range(2)]
    frame = pl.DataFrame(
        {"day": days, "at": [dt.datetime(2024, 2, 3, 4, 5, i) for i in range(2)], "y": ["a", "b"]}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet")
    assert read["day"].to_list() == ["2024-02-28", "2024-02-29"]
    assert read["at"].dtype == pl.String
    assert read["at"].to_list()[1].startswith("2024-02-03 04:05:01")
    table, labels, _ = scan(tmp_path / "t.parquet", "day").sample()
    assert (labels.to_list(), columns(table)) == (read["day"].to_list(), columns(read.drop("day")))
    model = NaiveBayes(tradeoff=1).fit(read.drop("y"), frame["y"])
    matched = Matcher(model.schema_, "t.parquet").match(frame)
    assert columns(matched) == columns(read.drop("y"))


def test_parquet_keeps_its_types(write: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"code": ["007", "1", "-"], "x": [1.5, None, 2.0]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert read_table("t.parquet").equals(frame)
    assert read_table(Path("t.parquet"), missing_values=["-"])["code"].to_list() == [
        "007", "1", None,
    ]  # fmt: skip


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(HOSTILE) | st.text(st.characters(codec="utf-8"), max_size=6),
            st.integers(-99, 99),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(",;\t"),
)
def test_text_survives_the_file(
    tmp_path: Path, rows: list[tuple[str, int]], separator: str
) -> None:
    """What Python's csv module writes is what comes back; blank cells are missing."""
    rows = [(word.replace("\r", "").replace("\0", ""), number) for word, number in rows]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("name, or\nso", "n"), *rows])
    path = tmp_path / "t.csv"
    path.write_bytes(out.getvalue().encode())
    frame = read_table(path, separator=separator, text=["name, or\nso"])
    assert frame["n"].to_list() == [number for _, number in rows]
    stripped = pl.Series([word for word, _ in rows]).str.strip_chars().to_list()
    expected = [word if core else None for (word, _), core in zip(rows, stripped, strict=True)]
    assert frame["name, or\nso"].to_list() == expected


def test_long_files_are_checked_in_pieces(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_CHUNK", 7)
    good = 'a,b\n"x,\n""y""",1\nz,2\n'
    assert columns(read_table(write(good))) == {"a": ['x,\n"y"', "z"], "b": [1, 2]}
    with pytest.raises(DataError, match=r"got 3 in line 5; fill"):
        read_table(write(good + "1,2,3\n"))
    with pytest.raises(DataError, match=r"got one left open, probably in line 5"):
        read_table(write(good + '1,"2\n'))


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["x", 'a "b"', "two\n\nlines", ""]), st.integers(-9, 9)),
        min_size=1,
        max_size=6,
    ),
    blanks=st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from(["", " ", "\t", "  \t "])), max_size=6
    ),
    ending=st.sampled_from(["\n", "\r\n"]),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_blank_lines_are_skipped_and_counted(
    tmp_path: Path, rows: Any, blanks: Any, ending: str
) -> None:
    """The same file without them says what is read; lines inside quotes are no blank lines."""
    records = [f'"{word.replace(chr(34), chr(34) * 2)}",{number}' for word, number in rows]
    plain, blank = tmp_path / "plain.csv", tmp_path / "blank.csv"
    plain.write_bytes(ending.join(["s,n", *records, ""]).encode())
    within = [(min(at, len(rows) - 1), space) for at, space in blanks]
    for at, space in sorted(within, reverse=True):
        records.insert(at, space)
    blank.write_bytes(ending.join(["s,n", *records, ""]).encode())
    read = read_file(blank, text=["s"])
    assert read.frame.equals(read_table(plain, text=["s"]))
    lines = "1 blank line was" if len(blanks) == 1 else f"{len(blanks)} blank lines were"
    assert [one for one in read.notes if "blank" in one] == [f"{lines} skipped."] * bool(blanks)
    parts = list(read_batches(blank, size=7))
    (whole,) = read_batches(plain)
    assert pl.concat([part.frame for part in parts]).equals(whole.frame)
    assert sum(part.skipped for part in parts) == len(blanks)


# -- what is said about bad files ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "t.csv: expected a header line and rows, got an empty file"),
        ("\n \n", "t.csv: expected a header line and rows, got an empty file"),
        (b"\xef\xbb\xbf", "t.csv: expected a header line and rows, got an empty file"),
        ("a,b\n", "t.csv: expected rows below the header, got none; the header names 2 columns"),
        ("a", "t.csv: expected rows below the header, got none; the header names 1 column"),
        ("a,b\n1,2\n3\n", "t.csv: expected 2 fields as in the header, separated by commas, got 1 "
         "in line 3; fill the line, or quote a field that holds the separator"),
        ("a,b\n \n\n\t\n", "t.csv: expected rows below the header, got none; the header names 2 c"),
        ("a,b\n1,2\n\n3\n", "t.csv: expected 2 fields as in the header, separated by commas, got 1 "
         "in line 4; fill the line"),
        ("a,b\n1,5,2\n2,7,4\n", "t.csv: expected 2 fields as in the header, separated by commas, "
         "got 3 in line 2 (and 1 more such line); quote a field that holds the separator, or n"),
        ("a,b\n1,5,2\n2,7\n1,1,1\n2,7\n", "t.csv: expected 2 fields as in the header, separated "
         "by commas, got 3 in line 2 (and 1 more such line); fill the line, or quote a field that"),
        ('a,b\n\n1,5" x\n3,4" y\n', "t.csv: expected quotes around whole fields, got a quote "
         "inside a field in line 3"),
        ('a,b\n1,2\n\n""\n', "t.csv: expected 2 fields as in the header, separated by commas, got "
         "1 in line 4"),
        ("\n\na,b\n1,2\n", "t.csv: expected the names of the columns in line 1, got a blank line; "
         "delete what stands above the names"),
        ("sep=;\na;b\n1;2\n", "t.csv: expected the names of the columns in line 1, got 'sep=;', "
         "which Excel alone reads; delete what stands above the names"),
        ("Sales of 2020\na,b\n1,2\n", "t.csv: expected 1 field as in the header, separated by "
         "commas, got 2 in line 2 (and 1 more such line); delete what stands above the names of t"),
        (b"PAR1\0", "t.csv: expected a text table, got a Parquet file; give it a name that ends"),
        (b"ARROW1\0", "t.csv: expected a text table, got an Arrow file; give it a name that ends"),
        (b"\xd0\xcf\x11\xe0\xa1", "t.csv: expected a text table, got an old Excel file; save the"),
        (b"%PDF-1.4\n%\xe2", "t.csv: expected a text table, got a PDF file; save the table as CSV"),
        ("<!DOCTYPE html>\n<a>", "t.csv: expected a text table, got HTML or XML; save the table"),
        ('[{"a": 1}]\n', "t.csv: expected a text table, got JSON; save the table as CSV"),
        ('a,b\n"1\n\n",2\n3\n', "t.csv: expected 2 fields as in the header, separated by commas, "
         "got 1 in line 5"),
        ('a,b\n1,"x\n3,4\n', "t.csv: expected every quote to be closed, got one left open, "
         'probably in line 2; close it, or write a quote inside a quoted field twice ("")'),
        ('a,"b\n1,2\n', "t.csv: expected every quote to be closed, got one left open, probably in"),
        ('a,b\n1,2\n1,5" x\n3,4" y\n', "t.csv: expected quotes around whole fields, got a quote "
         "inside a field in line 3; quote the whole field and write inner quotes twice"),
        ('a,b\nx, "q, r"\n', "t.csv: expected quotes around whole fields, got a quote inside a fi"),
        ("a,b,a\n1,2,3\n", "t.csv: expected column names that differ, got 'a' 2 times in the head"),
        ("a, a\n1,2\n", "t.csv: expected column names that differ, got 'a' 2 times in the header"),
        (",a\n0,1\n", "t.csv: expected a name for every column, got none for column 1 of 2 in the "
         "header; name it, or leave it out if it numbers the rows"),
        ('"a"b,c\n1,2\n', "t.csv: expected a header of column names, got a line that cannot be re"),
        ('a"b,c"d\n1,2\n', "t.csv: expected 2 fields as in the header, separated by commas, got 1"),
        (f"{'x' * 200_000},b\n1,2\n", "t.csv: expected a header of column names, got a line that"),
        (b"a\nx\n\xe9\n", "t.csv: expected text encoded as UTF-8, got byte 0xe9 in line 3, which "
         "is probably Windows-1252 (Latin-1), as Excel writes CSV; name the encoding (--encoding"),
        (b"a,b\n1,\0\n", "t.csv: expected a text table, got binary data (line 2 holds a zero byte"),
        (b"PK\x03\x04...", "t.csv: expected a text table, got a zip or Excel file; save the sheet"),
        (
            gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9],
            "t.csv: expected a whole gzip file, got a damaged one",
        ),
        ("age\n31\n25\nabc\n41\nabc\n", "t.csv: column 'age': expected numbers or text, got both: "
         "31 and 'abc' (2 of 5 cells are text); correct the cells, or name 'abc' in "
         "missing_values (--missing CELL, once for each), or the column in text (--text), "
         "or leave it out"),
        ("a;b\n1,500;2\n2;3\n", "t.csv: column 'a': expected numbers with a decimal point, got '1"),
        ('a\n"1,5"\n"2,000.5"\n', "t.csv: column 'a': expected numbers with a decimal point, got"),
    ],
)  # fmt: skip
def test_bad_files(write: Any, content: Any, sentence: str) -> None:
    name = write(content)
    with pytest.raises(DataError, match="^" + re.escape(sentence)) as caught:
        read_table(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x^2", "x\x01", "x", "(", "PK", "BZ", "Rar!"])
def test_names_that_begin_as_compressed_files_do(write: Any, name: str) -> None:
    assert read_table(write(f"{name},y\n1.5,2\n")).to_dict(as_series=False) == {
        name: [1.5],
        "y": [2],
    }


@pytest.mark.parametrize(
    ("header", "names", "told"),
    [
        (",a,b", ["Unnamed: 0", "a", "b"], "A column without a name is called 'Unnamed: 0'."),
        ('"","a","b"', ["Unnamed: 0", "a", "b"], "A column without a name is called 'Unnamed: 0'."),
        ("a,b, ", ["a", "b", "Unnamed: 2"], "A column without a name is called 'Unnamed: 2'."),
        (
            ",a,b,c,",
            ["Unnamed: 0", "a", "b", "c", "Unnamed: 4"],
            "Columns without a name are called 'Unnamed: 0', 'Unnamed: 4'.",
        ),
        ("a,,b", ["a", "Unnamed: 1", "b"], "A column without a name is called 'Unnamed: 1'."),
    ],
)
def test_columns_may_lack_a_name(write: Any, header: str, names: Any, told: str) -> None:
    cells = [*map(str, range(len(names)))]
    path = write(f"{header}\n{','.join(cells)}\n{','.join(cells)}\n")
    read = read_file(path)
    assert (read.frame.columns, read.notes) == (names, (told,))
    assert read.frame.row(0) == tuple(range(len(names)))
    batches = list(read_batches(path))
    assert batches[0].frame.columns == names


@pytest.mark.parametrize(
    ("header", "number"),
    [
        ("0.187,-0.569,x", "0.187"),
        ("x,-3,y", "-3"),
        ("y,1e-4,1.5e-4", "1.5e-4"),
        ("7,0,1", None),  # frames without names are written so
        ("v1.5,2-3,x.1", None),
    ],
)
def test_a_row_in_place_of_the_names_is_told(write: Any, header: str, number: str | None) -> None:
    path = write(f"{header}\n1,2,3\n4,5,6\n")
    told = (
        f"The first line is read as the names of the columns, and {number!r} is one of them; if "
        "that line is a row, write a line of names above it.",
    )
    expected = told if number else ()
    assert read_file(path).notes == expected
    source = scan(path, "x" if "x" in header.split(",") else header.split(",")[0])
    list(source.parts(None))
    assert source.notes == expected


@pytest.mark.parametrize(
    ("header", "row", "told"),
    [
        ("a,,b", "1,,2", "A column without a name and without cells is left out."),
        ("a,b,", "1,2,", "A column without a name and without cells is left out."),
        ("a,b, ,,,", '1,2, ,"",,', "4 columns without a name and without cells are left out."),
        (",a,,b,,", ",1,,2,,", "4 columns without a name and without cells are left out."),
    ],
)
def test_columns_without_a_name_and_cells_are_left_out(
    write: Any, header: str, row: str, told: str
) -> None:
    path = write(f"{header}\n{row}\n\n{row}\n")
    read = read_file(path)
    assert columns(read.frame) == {"a": [1, 1], "b": [2, 2]}
    assert read.notes == (told, "1 blank line was skipped.")
    some = next(iter(read_batches(path))).frame
    assert columns(some.select("a", "b")) == {"a": ["1", "1"], "b": ["2", "2"]}


def test_a_column_without_a_name_and_with_one_cell_is_one(write: Any) -> None:
    read = read_file(write("a,,b\n1,,2\n1,x,2\n"))
    assert columns(read.frame) == {"a": [1, 1], "Unnamed: 1": [None, "x"], "b": [2, 2]}
    assert read.notes == ("A column without a name is called 'Unnamed: 1'.",)


@pytest.mark.parametrize("header", [",,a,b", "Title,,,", ",a", "a,"])
def test_most_columns_must_have_one(write: Any, header: str) -> None:
    n = header.count(",") + 1
    remedy = "delete what stands above" if "Title" in header else "name it, or leave it out"
    with pytest.raises(DataError, match=rf"a name for every column, got none.*of {n} .*; {remedy}"):
        read_table(write(f"{header}\n{','.join('1' * n)}\n"))


@pytest.mark.parametrize(("sign", "told"), [(" ", "spaces"), ("^", "'^' signs"), ("\t", "tabs")])
def test_every_separator_has_a_name(write: Any, sign: str, told: str) -> None:
    name = write(f"a{sign}b\n1{sign}2{sign}3\n")
    with pytest.raises(DataError, match=re.escape(f"in the header, separated by {told}, got 3")):
        read_table(name, separator=sign)


def test_a_column_of_many_numbers_and_some_text(write: Any) -> None:
    numbers = [str(number) for number in range(30)] * 5
    name = write("n\n" + "\n".join([*numbers, *["unknown"] * 40]))
    with pytest.raises(DataError, match=r"got both: 0 and 'unknown' \(40 of 190 cells are text\)"):
        read_table(name)
    assert read_table(name, text=["n"])["n"].dtype == pl.String
    assert read_table(name, missing_values=["unknown"])["n"].null_count() == 40


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("mark", ["-999", "-999.0", "-9.99e2"])
def test_a_missing_value_is_a_number_where_the_column_holds_numbers(
    tmp_path: Path, suffix: str, mark: str
) -> None:
    """Who writes -999 for -999.0 would fit to these cells; what no cell has is told."""
    frame = pl.DataFrame(
        {"s": ["u", "lost", "v"], "x": [1.5, -999.0, 2.5], "n": [-999, 1, 2]},
    )
    (tmp_path / "t").mkdir()
    path = tmp_path / "t" / f"t.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    read = read_file(path, missing_values=[mark, "lost", "0"])
    assert read.notes == ("No cell is '0', said to mean missing.",)
    expected = {"s": ["u", None, "v"], "x": [1.5, None, 2.5], "n": [None, 1, 2]}
    assert read.frame.to_dict(as_series=False) == expected
    (part,) = scan(path.parent, missing_values=[mark, "lost"]).parts(None)
    assert part.table.to_dict(as_series=False) == expected
    text = read_file(path, missing_values=[mark], text=["n"] if suffix == "csv" else []).frame
    assert text["n"].null_count() == (suffix == "parquet" or mark == "-999")


def test_all_text_among_numbers_is_named_with_the_commonest_first(write: Any) -> None:
    name = write("n\n" + "\n".join([*map(str, range(60)), *["<5"] * 2, "n/a", *["lost"] * 3]))
    with pytest.raises(
        DataError, match=r"and 'lost' \(6 of 66 cells.* or name 'lost', '<5' in mis"
    ):
        read_table(name)
    assert read_table(name, missing_values=["lost", "<5"])["n"].null_count() == 6


def test_dates_are_not_said_to_be_perhaps_numbers(write: Any) -> None:
    assert read_file(write("day\n04.03.2021\n05.03.2021\n")).notes == ()
    assert "may be numbers" in read_file(write("code\n044 123 456\n079 123 456\n")).notes[0]


def test_no_such_file(write: Any, tmp_path: Path) -> None:
    write("a\n1\n", "loans.csv")
    with pytest.raises(DataError, match=r"^loan\.csv: no such file; did you mean loans\.csv\?$"):
        read_table("loan.csv")
    with pytest.raises(DataError, match=r"^zzz\.tsv: no such file; no file in '.*' has a name lik"):
        read_table("zzz.tsv")
    with pytest.raises(DataError, match=r"^no/t\.csv: no such file; there is no folder 'no' eith"):
        read_table("no/t.csv")
    with pytest.raises(DataError, match=r"^\.: expected a file, got a folder; name a file in it$"):
        read_table(".")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(DataError, match=r"^dir\.csv: expected a file, got a folder"):
        read_table("dir.csv")


def test_other_kinds_of_file(write: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^t\.xlsx: expected a \.csv, \.tsv or \.parquet file "):
        read_table(write(b"PK", "t.xlsx"))
    with pytest.raises(DataError, match=r"^t\.parquet: expected a Parquet file, got something el"):
        read_table(write(b"junk", "t.parquet"))
    pl.DataFrame({"a": []}).write_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match=r"^empty\.parquet: expected rows, got a table of shape \("):
        read_table("empty.parquet")
    with pytest.raises(DataError, match=r"^text: expected a column of the table, got 'Age'; did "):
        read_table(write("age\n1\n"), text=["Age"])


def test_without_polars_the_extra_is_named(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="polars is needed for tables from files"):
        read_table(write("a\n1\n"))


def test_a_device_is_refused_before_it_is_read() -> None:
    with pytest.raises(DataError, match=r"^/dev/zero: expected a file, got a device"):
        read_table("/dev/zero")


WIDE = {"i": "12", "f": "1.5", "c": "007", "t": "true", "w": "red", "m": "NA", "p": "5%", "e": ""}
TYPES = {"i": pl.Int64, "e": pl.Int64, "f": pl.Float64, "t": pl.Boolean, "p": pl.Int64}


def _wide_file(write: Any, times: int) -> str:
    names = [f"{kind}{k}" for k in range(times) for kind in WIDE]
    rows = [names, *([WIDE[name[0]] for name in names] for _ in range(3))]
    return write("\n".join(",".join(row) for row in rows))


@pytest.mark.parametrize("cells", [1, 10, 1 << 22])
def test_columns_read_in_blocks_have_the_types_of_their_own_cells(
    write: Any, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(types, "_BLOCK_CELLS", cells)
    frame = read_table(_wide_file(write, 3))
    assert frame.schema == {name: TYPES.get(name[0], pl.String) for name in frame.columns}
    assert frame.shape == (3, 24)
    row = {"i": 12, "f": 1.5, "c": "007", "t": True, "w": "red", "m": "NA", "p": 5, "e": None}
    assert frame.rows() == [tuple(row[name[0]] for name in frame.columns)] * 3


def test_more_columns_of_numbers_take_no_more_queries(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    select, asked = pl.DataFrame.select_seq, []
    monkeypatch.setattr(pl.DataFrame, "select_seq", lambda *a: asked.append(1) or select(*a))
    counts = []
    for width in (50, 100):
        asked.clear()
        header, cells = (f"x{k}" for k in range(width)), ["1.5", "2"] * (width // 2)
        read_table(write(f"{','.join(header)}\n{','.join(cells)}"))
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0


# -- the target ----------------------------------------------------------------------------------

TABLE = {
    "age": [31.5, 20.0, None, 7.25],
    "default": ["yes", None, "no", "yes"],
    "grade": [2, 1, None, 2],
}


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, lambda c: pl.DataFrame(c).to_arrow()])
def test_the_target_is_split_off(make: Any) -> None:
    frame = make(TABLE)
    X, y, n_dropped = split_target(frame, "default")
    assert type(X) is type(frame)
    assert pl.DataFrame(X).columns == ["age", "grade"]
    assert len(X) == 3
    assert pl.Series(y).to_list() == ["yes", "no", "yes"]
    assert n_dropped == 1
    _, grades, n_dropped = split_target(frame, "grade")
    assert pl.Series(grades).to_list() == [2, 1, 2]
    assert pl.Series(grades).dtype == pl.Int64
    assert n_dropped == 1
    again = make(TABLE)
    assert frame.equals(again)


def test_nothing_is_dropped_where_nothing_is_missing() -> None:
    X, y, n_dropped = split_target(pl.DataFrame({"a": [1, 2], "y": [True, False]}), "y")
    assert n_dropped == 0
    assert X.equals(pl.DataFrame({"a": [1, 2]}))
    assert y.to_list() == [True, False]


@pytest.mark.parametrize(
    ("frame", "target", "sentence"),
    [
        (TABLE, "defualt", "target: expected a column of the table, got 'defualt'; did you mean '"),
        (TABLE, "DEFAULT", "target: expected a column of the table, got 'DEFAULT'; did you mean '"),
        (TABLE, "zzz", "target: expected a column of the table, got 'zzz'; the columns are 'age', "
         "'default', 'grade'"),
        (TABLE, "age", "target: expected classes in column 'age', got a continuous quantity such "
         "as 31.5; choose a column of classes, or cut the quantity into classes first"),
        ({"a": [1], "y": [None]}, "y", "target: expected labels in column 'y', got 1 empty cell;"),
        ({"y": [1, 2]}, "y", "target: expected columns besides 'y', got no feature columns; add "),
        ({"a": [1, 2], "y": [float("inf"), 1.0]}, "y", "target: expected classes in column 'y', "
         "got the number inf; "),
        ({"a": [1, 2], "y": [1e300, 1.0]}, "y", "target: expected classes in column 'y', got the "
         "number 1e+300; "),
        ({"a": [1, 2], "y": [12345678901234567890.0, 1.0]}, "y", "target: expected classes in "
         "column 'y', got the number 1.23457e+19; whole numbers are exact up to 2^53: correct the "
         "cells, or name 'y' in text (--text) to read labels of more digits"),
        ({"a": [0] * 30, "y": list(range(30))}, "y", "target: expected classes in column 'y', got "
         "30 different numbers in 30 rows; choose a column of classes, or cut the quantity into "
         "classes first, or fit counts with crossfade glm --family poisson (PoissonRegression)"),
        ({"a": [0] * 3, "y": [[1], [2, 3], []]}, "y", "target: expected classes in column 'y', got "
         "cells of type List(Int64) such as [1]; choose a column of classes"),
        ({"a": [0] * 2, "y": [{"b": 1}, {"b": 2}]}, "y", "target: expected classes in column 'y', "
         "got cells of type Struct("),
        ({"a": [0] * 2, "y": [dt.timedelta(1), dt.timedelta(2)]}, "y", "target: expected classes "
         "in column 'y', got cells of type Duration("),
        ({"a": [0] * 30, "y": [f"word {i}" for i in range(30)]}, "y", "target: expected classes in "
         "column 'y', got 30 different values in 30 rows; choose a column of classes"),
    ],
)  # fmt: skip
def test_targets_that_are_refused(frame: Any, target: str, sentence: str) -> None:
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        split_target(pl.DataFrame(frame), target)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["yes", "no", "YES"], "'c': 'yes' and 'YES' look alike but are two values"),
        (["yes", "no", "?"], "'c': '?' is kept as a value like others; --missing '?' reads such"),
        (["a", "NA", "n/a"], "'c': 'NA', 'n/a' are kept as values like others; --missing 'NA' r"),
        (["a", "-", "n/a"], "'c': '-', 'n/a' are kept as values like others; --missing '-' rea"),
        (["a", "."], "'c': '.' is kept as a value like others; --missing '.' reads such cells"),
        (["a", "none", "-"], None),
        (["1", "2", "NA"], None),
    ],
)
def test_values_that_hardly_are_some_are_told(write: Any, cells: list[str], told: str | None):
    notes = read_file(write("c\n" + "\n".join(cells * 5) + "\n")).notes
    assert len(notes) == (told is not None)
    assert not notes or notes[0].startswith(str(told))
    assert read_file(write("c\n" + "\n".join(cells * 5) + "\n"), drop=["c"]).notes == ()


# -- encodings -----------------------------------------------------------------------------------

SPELT = "größe,café\n1.5,Łódź\n2.5,naïve\n"
LATIN = SPELT.replace("Łódź", "Ørsted")


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    ("encoding", "named", "text"),
    [
        ("utf-8", None, SPELT),
        ("utf-8-sig", None, SPELT),
        ("utf-8-sig", "cp1252", SPELT),  # the mark is surer than what is said
        ("utf-16", None, SPELT),
        ("utf-16-be", "UTF-16BE", SPELT),
        ("utf-16-le", "utf_16_le", SPELT),
        ("cp1252", "cp1252", LATIN),
        ("latin-1", "latin-1", LATIN),
        ("cp1250", "windows-1250", SPELT.replace("ï", "i")),
        ("cp850", "cp850", LATIN),
        ("shift_jis", "sjis", "名,前\n1.5,東\n2.5,京\n"),
    ],
)
def test_an_encoding_is_told_by_the_mark_or_given(
    tmp_path: Path, encoding: str, named: str | None, text: str, parts: bool
) -> None:
    (number, word), *rows = [line.split(",") for line in text.split()]
    for compress in (bytes, gzip.compress):
        path = tmp_path / ("t.csv.gz" if compress is gzip.compress else "t.csv")
        path.write_bytes(compress(text.encode(encoding)))
        if parts:
            X, y, n_rows = scan(path, word, encoding=named).sample()
            found = {**columns(X), word: y.to_list()}
            assert n_rows == 2
        else:
            found = columns(read_table(path, encoding=named))
        assert found == {number: [1.5, 2.5], word: [rows[0][1], rows[1][1]]}


def test_excels_unicode_text_is_read_as_it_is(write: Any) -> None:
    path = write("name\tgrößte Zahl\r\nÄnne\t1,5\r\nBó\t2,25\r\n".encode("utf-16"), "t.txt")
    assert columns(read_table(path)) == {"name": ["Änne", "Bó"], "größte Zahl": [1.5, 2.25]}


@pytest.mark.parametrize("size", [2, 7, 1 << 20])
def test_what_is_read_in_parts_is_recoded_at_any_place(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{i},é€😀\n" for i in range(500))
    monkeypatch.setattr("crossfade.io.encoding._CHUNK", size)
    for encoding in ("utf-16-le", "utf-16-be", "gb18030"):
        file: Any = io.BufferedReader(io.BytesIO(text.encode(encoding)))  # type: ignore[arg-type]
        assert as_utf8(file, "t.csv", encoding).read().decode() == text


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    ("data", "named", "sentence"),
    [
        (
            LATIN.encode("cp1252"),
            None,
            "t.csv: expected text encoded as UTF-8, got byte 0xf6 in line 1, which is probably "
            "Windows-1252 (Latin-1), as Excel writes CSV; name the encoding (--encoding cp1252), "
            "or save the file again as UTF-8 (in a spreadsheet: CSV UTF-8)",
        ),
        (
            b"a,b\n1,x\n2,M\x81ller\n",
            None,
            "t.csv: expected text encoded as UTF-8, got byte 0x81 in line 3, which is probably in "
            "another encoding, perhaps that of DOS; name the encoding (--encoding cp850), or save "
            "the file again as UTF-8 (in a spreadsheet: CSV UTF-8)",
        ),
        (
            b"a,b\n1,x\n2,M\x81ller\n",
            "cp1252",
            "t.csv: expected text encoded as cp1252, got byte 0x81 in line 3; name another "
            "encoding (--encoding), or save the file again as UTF-8",
        ),
        (
            "a,b\n1,x\n".encode("utf-16-le"),
            None,
            "t.csv: expected text encoded as UTF-8, got what is probably UTF-16; name the "
            "encoding (--encoding utf-16-le), or save the file again as UTF-8",
        ),
        (
            SPELT.encode(),
            "latin-11",
            "encoding: expected the name of an encoding such as utf-8, cp1252 or utf-16, got "
            "'latin-11'; did you mean 'latin-1'?",
        ),
        (
            SPELT.encode(),
            "base64",
            "encoding: expected the name of an encoding such as utf-8, cp1252 or utf-16, got "
            "'base64'; Excel's CSV is often cp1252",
        ),
    ],
)
def test_what_is_in_no_such_encoding_is_refused(
    write: Any, data: bytes, named: str | None, sentence: str, parts: bool
) -> None:
    path = write(data)
    with pytest.raises(DataError) as error:
        scan(path, encoding=named) if parts else read_table(path, encoding=named)
    assert str(error.value).removeprefix(f"{Path(path).parent}/") == sentence


# -- what spreadsheets add -----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_may_end_with_a_separator_that_the_header_lacks(write: Any, end: str) -> None:
    path = write(end.join(["a;b", "1;2;", "3;4;", ""]))
    read = read_file(path)
    assert columns(read.frame) == {"a": [1, 3], "b": [2, 4]}
    assert read.notes == ("A column without a name and without cells is left out.",)
    for size in (1, 1 << 20):
        frames = [batch.frame for batch in read_batches(path, size=size)]
        assert columns(pl.concat(frames).select("a", "b")) == {"a": ["1", "3"], "b": ["2", "4"]}
    with pytest.raises(DataError, match="got 2 in line 3"):
        read_table(write("a;b\n1;2;\n3;4\n"))


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (
            ["60.5 kg", "61 kg", "61.25kg"],
            "'x': '60.5 kg' is read as text, each such cell as a value of its own; delete the "
            "unit 'kg' to have numbers",
        ),
        (
            [*"0123450123" * 3, "Total"],
            "'x': is read as text because 'Total' stands among numbers; --missing 'Total' reads "
            "them as numbers",
        ),
        (
            [f"12345678901234567{i}" for i in range(3)],
            "'x': whole numbers of more than 15 digits are not kept exactly, and tell no rows "
            "apart; leave them out (--drop) where they name rows, or read them as text (--text)",
        ),
        (["1st", "2nd", "3rd", "4th"], None),
        (["12A", "13B", "14C"], None),
        ([*"0123450123" * 3, "5+"], None),
        (["10:30", "11:30", "12:45"], None),
        ([f"{i}" for i in range(1 << 53, (1 << 53) - 3, -1)], None),
    ],
)
def test_numbers_that_are_read_as_text_are_told(
    write: Any, cells: list[str], told: str | None
) -> None:
    path = write("\n".join(["x;y", *(f"{cell};1" for cell in cells)]))
    assert read_file(path).notes == (() if told is None else (told,))
    if told is not None:
        assert read_file(path, text=["x"]).notes == ()


def test_what_is_not_available_is_written_in_many_ways(write: Any) -> None:
    path = write("x,y\n1.5,a\nn.a.,b\nN.A.,a\n2,b\n")
    assert read_table(path)["x"].to_list() == [1.5, None, None, 2.0]
