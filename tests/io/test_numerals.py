"""Numbers as people write them, against what Python makes of the same number."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crossfade.errors import DataError
from crossfade.io.batches import Batch
from crossfade.io.file_source import scan
from crossfade.io.matching import Matcher
from crossfade.io.reading import read_file, read_table
from crossfade.table.schema import Schema

#: Cells of one column, and the numbers that they can only mean.
SURE = {
    "currency in front": (["$1", "-$2.5", "$ 30"], [1.0, -2.5, 30.0]),
    "currency behind": (["1 €", "2.5€", "-30 €"], [1.0, 2.5, -30.0]),
    "percent": (["5%", "7.5 %", "100%"], [5.0, 7.5, 100.0]),
    "spaces": (["1 234", "12", "1 234 567"], [1234, 12, 1234567]),
    "narrow spaces": (["1\u202f234", "12"], [1234, 12]),
    "apostrophes": (["1'234", "999"], [1234, 999]),
    "underscores": (["1_000", "20_000"], [1000, 20000]),
    "true minus": (["−1.5", "2.5", "+3"], [-1.5, 2.5, 3.0]),
    "Arabic digits": (["١٢", "٣٫٥"], [12.0, 3.5]),
    "Devanagari digits": (["१२", "३"], [12, 3]),
    "decimal commas": (["1,5", "2", "-0,25"], [1.5, 2.0, -0.25]),
    "a decimal comma beside three digits": (["1,500", "2,5"], [1.5, 2.5]),
    "decimal commas of powers": (["1,5e-05", "2", "-0,25E+3", "1e4"], [1.5e-5, 2.0, -250.0, 1e4]),
    "a decimal comma, three digits and a power": (["1,500e3", "2,125"], [1500.0, 2.125]),
    "decimal commas, dots between groups": (["1.234,5", "7,25"], [1234.5, 7.25]),
    "decimal commas, spaces between groups": (["1 234,5", "7,125"], [1234.5, 7.125]),
    "commas between groups": (["1,234,567", "1,234"], [1234567, 1234]),
    "commas between groups, decimal points": (["1,234.5", "7"], [1234.5, 7.0]),
    "all at once": (["−$1,234.50", "$7.00"], [-1234.5, 7.0]),
}
#: Cells that may be numbers but also something else: kept, and named.
NOT_SURE = {
    "two currencies": ["$1", "€2"],
    "percent and none": ["5%", "x5", "7%"],
    "odd groups": ["12 34", "5 6789"],
    "two separators": ["1 234", "1'234"],
    "phone numbers": ["044 123 456", "079 123 456"],
    "a comma and a point for the decimals": ["1,5", "2.5€"],
}


def written(folder: Path, cells: list[str], separator: str = ";") -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join([f"x{separator}y", *(f"{cell}{separator}1" for cell in cells)]))
    return path


@pytest.mark.parametrize("case", SURE)
def test_what_can_mean_only_one_number_is_read_as_it_and_told(tmp_path: Path, case: str):
    cells, numbers = SURE[case]
    frame, notes, _ = read_file(written(tmp_path, [*cells, "", "NA"]))
    assert frame["x"].to_list() == [*numbers, None, None]
    assert frame["x"].dtype == (pl.Int64 if isinstance(numbers[0], int) else pl.Float64)
    (note,) = notes
    assert note.startswith("'x': ")
    assert note.endswith(f" is read as {numbers[0]:.15g}")


@pytest.mark.parametrize("case", SURE)
@pytest.mark.parametrize("first", [False, True])
def test_text_among_such_numbers_is_refused_as_among_others(tmp_path: Path, case: str, first: bool):
    cells, _ = SURE[case]
    path = written(tmp_path, ["unknown", *cells] if first else [*cells, "unknown"])
    message = rf"got both: .* and 'unknown' \(1 of {len(cells) + 1} cells are text"
    with pytest.raises(DataError, match=message):
        read_file(path)
    with pytest.raises(DataError, match=message):
        next(scan(path, "y").parts(None))
    assert read_file(path, missing_values=["unknown"]).frame["x"].dtype.is_numeric()
    assert (
        read_file(written(tmp_path, [*cells, *["none of these"] * 9])).frame["x"].dtype == pl.String
    )


@pytest.mark.parametrize("case", SURE)
def test_new_rows_are_read_alike(tmp_path: Path, case: str):
    cells, numbers = SURE[case]
    schema = Schema.learn(pl.DataFrame({"x": [0.5, 2.0]}))
    matched = Matcher(schema, "new.csv").match(pl.DataFrame({"x": [*cells, "NA"]}))
    assert matched["x"].to_list() == [*numbers, None]


@pytest.mark.parametrize("case", [name for name in NOT_SURE if name != "percent and none"])
def test_what_may_be_something_else_is_kept_and_named(tmp_path: Path, case: str):
    frame, notes, _ = read_file(written(tmp_path, NOT_SURE[case]))
    assert frame["x"].to_list() == NOT_SURE[case]
    (note,) = notes
    assert note.startswith("'x': cells such as ")
    assert note.endswith("is kept as text")


def test_ordinary_text_and_numbers_are_read_without_a_word(tmp_path: Path):
    for cells in (["red", "blue"], ["1", "2.5"], ["007", "011"], ["true", "False"], ["a1", "b2"]):
        assert not read_file(written(tmp_path, cells)).notes


def test_a_comma_that_could_be_either_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="expected numbers with a decimal point, got '1,500'"):
        read_table(written(tmp_path, ["1,500", "2,750"]))


@pytest.mark.parametrize(
    ("one", "other"), [("a", " a"), ("a b", "a  b"), ("a b", "a\u00a0b"), ("é", "e\u0301")]
)
def test_texts_that_look_alike_are_named(tmp_path: Path, one: str, other: str):
    (note,) = read_file(written(tmp_path, [one, "b", other])).notes
    assert note == (
        f"'x': {one!a} and {other!a} look alike but are two values; correct the cells if they "
        "are one"
    )


def test_the_same_cells_from_parquet_and_from_text(tmp_path: Path):
    narrow = pl.DataFrame(
        {
            "i8": pl.Series([100, -120, None], dtype=pl.Int8),
            "u8": pl.Series([200, 3, 255], dtype=pl.UInt8),
            "i32": pl.Series([50_000, 1, 2], dtype=pl.Int32),
            "i128": pl.Series([5, -7, None], dtype=pl.Int128),
            "f32": pl.Series([0.5, -0.25, None], dtype=pl.Float32),
            "decimal": pl.Series(["1.25", "2.5", "-3.75"]).cast(pl.Decimal(10, 2)),
            "word": ["a", "b", None],
            "truth": [True, False, None],
        }
    )
    narrow.write_parquet(tmp_path / "table.parquet")
    narrow.write_csv(tmp_path / "table.csv")
    parquet, text = (read_table(tmp_path / f"table.{kind}") for kind in ("parquet", "csv"))
    assert parquet.equals(text)
    assert parquet.schema == text.schema
    schemas = [Schema.learn(parquet), Schema.learn(text), Schema.learn(narrow)]
    assert schemas[0] == schemas[1]
    # The kind of a column is that of its cells, whatever their width.
    assert schemas[2].kinds[:4] == schemas[0].kinds[:4]


#: Cells of a column that do not tell what their marks mean, of another of the file that does, and
#: the numbers that the first can only mean then.
OTHERS = {
    "points beside decimal commas": (
        ["987", "12.345", ""],
        ["0,5", "1,25", "2"],
        [987, 12345, None],
    ),
    "points beside both": (["987", "12.345"], ["1.234,5", "7,25"], [987, 12345]),
    "points of euros": (["1.234 €", "-56 €"], ["0,5", "NA"], [1234, -56]),
    "points of millions": (["1.234.567", "2.345"], ["0,5", "1"], [1234567, 2345]),
    "commas beside decimal commas": (["1,234", "2,345"], ["0,5", "1"], [1.234, 2.345]),
    "commas beside decimal points": (
        ["987", "12,345", "NA"],
        ["0.5", "1", "2"],
        [987, 12345, None],
    ),
    "commas beside groups": (["987", "12,345"], ["1,234,567", "1"], [987, 12345]),
    "points beside powers": (["987", "12.345"], ["1,5e-05", "2"], [987, 12345]),
    "commas of dollars": (["$1,234", "$56"], ["0.5 %", "1.25 %"], [1234, 56]),
    "points beside decimal points": (["1.234", "9.875"], ["0.5", "1"], [1.234, 9.875]),
    "points alone": (["1.234", "9.875"], ["a", "b"], [1.234, 9.875]),
    "points that tell themselves": (["1.234", "1.5"], ["0,5", "1,25"], [1.234, 1.5]),
    "commas that tell themselves": (["1,234,567", "1,234"], ["0,5", "1"], [1234567, 1234]),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("order", [["x", "o"], ["o", "x"]])
def test_other_columns_tell_what_a_column_does_not(tmp_path: Path, case: str, order: list[str]):
    x, others, numbers = OTHERS[case]
    path = tmp_path / "table.csv"
    cells = {"x": x, "o": others}
    rows = [";".join([*(cells[name][i] for name in order), "1"]) for i in range(len(x))]
    path.write_text("\n".join([";".join([*order, "y"]), *rows]))
    read = read_file(path)
    assert read.frame["x"].to_list() == numbers
    told = [note for note in read.notes if note.startswith("'x'")]
    assert bool(told) != case.startswith(("points beside decimal p", "points a", "points that"))
    assert scan(path, "y").sample()[0]["x"].to_list() == numbers
    schema = Schema.learn(pl.DataFrame({"x": [0.5, 2.0]}))
    frame = pl.DataFrame(cells)
    matcher = Matcher(schema, "new.csv", every=lambda: [Batch(frame, 1, Path())])
    assert matcher.match(frame)["x"].to_list() == numbers
    assert bool(matcher.read_as) == bool(told)


def test_columns_that_do_not_agree_tell_nothing_of_others(tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_text("x;o;p;y\n1.234;0,5;0.5;1\n987;1,5;1.5;2\n")
    read = read_file(path)
    assert read.frame["x"].to_list() == [1.234, 987]
    (told,) = (note for note in read.notes if note.startswith("'x'"))
    assert told.startswith("'x': '1.234' stands beside '987' and is read with a decimal point; de")
    path.write_text("x;o;p;y\n1,234;0,5;0.5;1\n987;1,5;1.5;2\n")
    with pytest.raises(DataError, match=r"column 'x': expected numbers with a decimal point, got"):
        read_table(path)


# -- columns that come in parts --------------------------------------------------------------------

#: Cells of two parts of a column, and the numbers that both can only mean, None where none.
PARTS = {
    "percent and none": (["5%", "7%"], ["5", "7"], None),
    "percent and shares": (["5%", "7%"], [".05", ".07"], None),
    "none and currency": (["1", "2"], ["$3", "$4"], None),
    "two currencies": (["$5", "$7"], ["€5", "€7"], None),
    "two decimal marks": (["1.25", "NA"], ["2,5", "3"], None),
    "two decimal marks after a sign": (["$1.25"], ["$2,5", "$3"], None),
    "two decimal marks of two scripts": (["٣٫٥"], ["1,5"], None),
    "two separators": (["1 234", "2"], ["1'234", "2"], None),
    "points, then decimal commas": (["1.234", "2.345"], ["1234,5"], [1234, 2345, 1234.5]),
    "decimal commas, then points": (["1234,5"], ["1.234", "2.345"], [1234.5, 1234, 2345]),
    "a comma that other cells explain": (["1,5", "2"], ["1,234", "2,345"], [1.5, 2, 1.234, 2.345]),
    "commas between groups": (["1,234,567", "2"], ["1.234", "1,234"], [1234567, 2, 1.234, 1234]),
    "only marks, then numbers": (["NA", "?"], ["1.5", "2"], [None, None, 1.5, 2]),
    "one way": (["$1", ""], ["$2.5", "NA"], [1, None, 2.5, None]),
}


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("swapped", [False, True])
def test_all_files_of_a_folder_have_one_reading(tmp_path: Path, case: str, swapped: bool):
    *parts, numbers = PARTS[case]
    order = [1, 0] if swapped else [0, 1]
    for place, number in enumerate(order):
        written(tmp_path, parts[number]).rename(tmp_path / f"{place}.csv")
    source = scan(tmp_path, "y")
    if numbers is not None:
        cut = len(parts[0])
        halves = numbers[:cut], numbers[cut:]
        expected = [cell for number in order for cell in halves[number]]
        assert source.sample()[0]["x"].to_list() == expected
        return
    with pytest.raises(DataError, match=r"column 'x': expected numbers written in one way") as told:
        source.sample()
    for number in range(2):
        assert f"in row 1 of {tmp_path / str(number)}.csv" in str(told.value)


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("swapped", [False, True])
def test_batches_of_new_rows_have_one_reading(case: str, swapped: bool):
    one, other, numbers = PARTS[case]
    frames = [pl.DataFrame({"x": cells}) for cells in (one, other)]
    batches = [Batch(frame, first, Path()) for frame, first in zip(frames, (1, 3), strict=True)]
    batches = batches[::-1] if swapped else batches
    schema = Schema.learn(pl.DataFrame({"x": [0.5, 2.0]}))
    matcher = Matcher(schema, "new.csv", every=lambda: batches)
    if numbers is None:
        matcher.match(batches[0].frame, batches[0].first)
        with pytest.raises(DataError, match=r"^new.csv: column 'x': .*in row [13].*in row [134]"):
            matcher.match(batches[1].frame, batches[1].first)
        return
    found = [matcher.match(batch.frame, batch.first)["x"].to_list() for batch in batches]
    assert [*itertools.chain(*(found[::-1] if swapped else found))] == numbers


#: Cells of columns of every kind, and of those that rules of reading must tell apart.
CELLS = [
    *("1", "2", "30", "0", "007", "1.5", "1.234", "0.25", "1,5", "1,500", "1.234,5", "1,234,567"),
    *("true", "FALSE", "", "NA", "x", "3+", "5%", "$3", "1 234", "1e5", "−2", "٣٫٥", "1.234.567"),
    "1,5e-3",
]


@given(
    cells=st.lists(st.sampled_from(CELLS), min_size=1, max_size=7).flatmap(
        lambda few: st.lists(st.sampled_from(few), min_size=2, max_size=12)
    ),
    cuts=st.sets(st.integers(1, 11), max_size=3),
)
@example(cells=["0.25", "1 234", "7", "1e5"], cuts={1, 3})
@example(cells=["1e5", "2.5", "1,5", "2"], cuts={2})
@example(cells=["true", "0", "1", "FALSE"], cuts={1})
@example(cells=["true", "0", "1", "2"], cuts={1, 3})
@example(cells=["007", "1.5", "2"], cuts={1})
@settings(max_examples=40, deadline=None)
def test_a_column_in_parts_is_read_as_in_one_file(cells: list[str], cuts: set[int]):
    with TemporaryDirectory() as name:
        folder = Path(name)
        edges = [0, *sorted(cut for cut in cuts if cut < len(cells)), len(cells)]
        for number, (start, stop) in enumerate(itertools.pairwise(edges)):
            written(folder, cells[start:stop]).rename(folder / f"part-{number}.csv")
        source, whole = scan(folder, "y"), written(folder, cells)
        try:
            expected, notes, _ = read_file(whole)
        except DataError as error:
            with pytest.raises(DataError) as told:
                source.sample()
            if "got both" in str(error):
                assert re.search(r"row \d+ of .*part-\d.csv", str(told.value))
            return
        try:
            found = source.sample()[0]["x"]
        except DataError as error:
            # Text that may be numbers is refused where it comes in parts.
            refused = "written in one way" in str(error) and expected["x"].dtype == pl.String
            if not refused:
                raise
            return
        if found.null_count() < len(found):
            assert found.dtype == expected["x"].dtype
            # What is said of text that may be numbers depends on the parts.
            told, parts_told = (
                [one for one in said if "look alike" not in one and "kept as" not in one]
                for said in (notes, source.notes)
            )
            assert len(parts_told) == len(told)
        assert found.to_list() == expected["x"].to_list()
