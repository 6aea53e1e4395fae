from __future__ import annotations

import gzip
import io
import tracemalloc

import polars as pl
import pytest

from crossfade.errors import DataError
from crossfade.io.batches import read_batches, table_files
from crossfade.io.reading import read_table

TEXT = 'name,"a ""quoted"" one",n\n"Ann, B.","two\nlines",1\nCaf\u00e9,,2\n"","x",3\nlast,y,4\n'


def rows(path, size, **options):
    """Return the frames put together, after checking that their numbers follow on."""
    frames, expected = [], 1
    for batch in read_batches(path, size=size, **options):
        assert batch.first == expected
        expected += batch.frame.height
        frames.append(batch.frame)
    return pl.concat(frames), len(frames)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_batches_are_the_whole_table(tmp_path, size, ending, compressed):
    path = tmp_path / ("table.csv.gz" if compressed else "table.csv")
    raw = TEXT.replace("\n", ending).encode()
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    frame, n = rows(path, size)
    expected = pl.read_csv(io.BytesIO(raw), infer_schema=False)
    expected.columns = ["name", 'a "quoted" one', "n"]
    assert frame.equals(expected)
    assert n == (1 if size == 1000 else n)
    assert n > 1 or size > 20


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_blank_line_is_a_missing_cell_of_a_single_column_but_for_the_last_ones(tmp_path, size):
    path = tmp_path / "one.csv"
    path.write_text("x\n\n1\n\n\n2\n\n\n")
    frame, _ = rows(path, size)
    assert frame["x"].to_list() == read_table(path, text=["x"])["x"].to_list()
    assert frame["x"].to_list() == [None, "1", None, None, "2"]


def test_lines_of_old_macs_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "mac.csv"
    path.write_bytes(b"\xef\xbb\xbfx;y\r1;2\r3;4\r")
    frame, _ = rows(path, 4)
    assert frame.columns == ["x", "y"]
    assert frame.rows() == [("1", "2"), ("3", "4")]


def test_parquet_comes_in_batches_with_its_types(tmp_path):
    path = tmp_path / "table.parquet"
    expected = pl.DataFrame({"x": range(100), "s": [f"v{i}" for i in range(100)]})
    expected.write_parquet(path)
    frame, n = rows(path, 8 * 2 * 30)
    assert frame.equals(expected)
    assert n == 4


@pytest.mark.parametrize("size", [1, 12, 1000])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "empty file"),
        (b"x,y\n", "expected rows below the header, got none; the header names 2 columns"),
        (b"x,y\n1,2\n3,4\n5\n", "got 1 in line 4"),
        (b"x,y\n1,2\n3,4,5\n6,7\n", "got 3 in line 3"),
        (b"x,y\n1,2\n3,\xe94\n", "got byte 0xe9 in line 3"),
        (b"x,y\n1,2\n3,\x004\n", "line 3 holds a zero byte"),
        (b'x,y\n1,2\n3,"4\n5,6\n', "one left open, probably in line 3"),
        (b'x,y\n1,2\n1,5" x\n3,4" y\n', "quote inside a field in line 3"),
        (b"x,x\n1,2\n", "column names that differ"),
        (b"x,\n1,2\n", "a name for every column"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_whatever_the_batch(tmp_path, size, text, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(text)
    with pytest.raises(DataError, match=message):
        rows(path, size)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"x\n1\n" * 1000)[:-20])
    with pytest.raises(DataError, match="expected a whole gzip file"):
        rows(path, 100)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        rows(tmp_path / "none.csv", 10)
    with pytest.raises(DataError, match="no such file"):
        rows(tmp_path / "none.parquet", 10)
    with pytest.raises(DataError, match=r"expected a \.csv, \.tsv or \.parquet file"):
        rows(tmp_path / "table.xlsx", 10)
    (tmp_path / "no.parquet").write_bytes(b"PAR1 or not")
    with pytest.raises(DataError, match="expected a Parquet file"):
        rows(tmp_path / "no.parquet", 10)


@pytest.mark.parametrize("compressed", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path, compressed):
    path = tmp_path / ("large.csv.gz" if compressed else "large.csv")
    line = b"0.123456789,some text here,42\n"
    with gzip.open(path, "wb", compresslevel=1) if compressed else path.open("wb") as file:
        file.write(b"x,t,n\n")
        for _ in range(200):
            file.write(line * 1000)  # 6 MB in all
    tracemalloc.start()
    n_rows = sum(batch.frame.height for batch in read_batches(path, size=100_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_rows == 200_000
    assert peak < 3_000_000


def test_a_quote_left_open_in_a_large_file_does_not_fill_memory(tmp_path):
    path = tmp_path / "open.csv"
    path.write_bytes(b'x,y\n1,"2\n' + b"3,4\n" * 500_000)
    batches = read_batches(path, size=10_000)
    tracemalloc.start()
    with pytest.raises(DataError, match="one left open, probably in line 2"):
        list(batches)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


def test_links_are_followed_and_each_file_is_read_once(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "own", outside / "deep", inside / ".hidden"):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("x\n1\n")
    (inside / "more").symlink_to(outside)
    (inside / "again").symlink_to(inside / "own")
    (inside / "own" / "back").symlink_to(inside)  # a circle
    (outside / "deep" / "up").symlink_to(outside)
    (inside / "b.csv").symlink_to(outside / "deep" / "a.csv")
    (inside / "c.csv").symlink_to(inside / "own" / "a.csv")
    assert table_files(inside) == [inside / "b.csv", inside / "own" / "a.csv"]
    (inside / "b.csv").unlink()
    assert table_files(inside) == [inside / "more" / "deep" / "a.csv", inside / "own" / "a.csv"]
    (inside / "more" / "lost.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match="a link to nothing; remove it"):
        table_files(inside)
