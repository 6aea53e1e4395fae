from __future__ import annotations

import gzip
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfade.errors import DataError
from crossfade.tagging.tokens import read_columns, write_columns

EXPECTED = [[("He", "PRP", "B-NP"), ("runs", "VBZ", "B-VP")], [("Stop", "VB", "B-VP")]]


@pytest.mark.parametrize(
    "text",
    [
        "He PRP B-NP\nruns VBZ B-VP\n\nStop VB B-VP\n",
        "He\tPRP\tB-NP\nruns\tVBZ\tB-VP\n\nStop\tVB\tB-VP\n",
        "\n\nHe  PRP B-NP\r\nruns VBZ B-VP \r\n  \r\n\r\nStop VB B-VP",
        "He PRP B-NP\rruns VBZ B-VP\r\rStop VB B-VP\r",
        "He\tPRP\tB-NP\rruns\tVBZ\tB-VP\r\rStop\tVB\tB-VP",
        " He PRP B-NP\nruns\tVBZ \t B-VP\n \t \nStop VB B-VP",
        "\ufeffHe PRP B-NP\nruns VBZ B-VP\n\t\nStop VB B-VP\n\n\n",
    ],
)
def test_forms_of_a_file(tmp_path, text):
    plain = tmp_path / "a.txt"
    plain.write_bytes(text.encode())
    assert read_columns(plain) == EXPECTED
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_columns(str(packed)) == EXPECTED


def test_tabs_allow_spaces_in_cells_and_odd_line_breaks_are_no_breaks(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("New York\tNP\na\x0cb\u2028c\tX\n".encode())
    assert read_columns(path) == [[("New York", "NP"), ("a\x0cb\u2028c", "X")]]


def test_only_spaces_and_tabs_are_between_columns(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("New\u00a0York NP\n\u3000 X\na\x0cb Y\n".encode())
    assert read_columns(path) == [[("New\u00a0York", "NP"), ("\u3000", "X"), ("a\x0cb", "Y")]]
    # A line of other white space is a word, not the end of a sentence.
    path.write_bytes("a\n\u00a0\nb\n".encode())
    assert read_columns(path) == [[("a",), ("\u00a0",), ("b",)]]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), min_size=1).filter(
    lambda cell: cell.strip()
)


@given(st.lists(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), min_size=1, max_size=4))
def test_written_and_read_again(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("columns") / "a"
    path.write_bytes(write_columns(sentences).encode())
    assert read_columns(path) == sentences


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b\nc\n", r"line 2: expected 2 non-empty columns as in the first line, got 'c'"),
        (b"a\n" + b"x y " * 50, r"got 'x y .*….* y '; separate"),
        (b"a\tb\n\nc\t\n", r"line 3: expected 2 non-empty columns"),
        (b"a b\n\xff b\n", r"line 2: expected UTF-8 text, got the byte b'\\xff'"),
        (b"\n \n", r"expected at least one token, got an empty file"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_columns(path)


def test_a_damaged_gz_is_refused_wherever_the_damage_is(tmp_path):
    path, sentences = tmp_path / "a.gz", [[("some", "X"), ("words", "Y")], [("again", "X")]]
    whole = gzip.compress(write_columns(sentences).encode(), mtime=0)
    refusals = set()
    for place, bit in itertools.product(range(len(whole)), range(8)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            read = read_columns(path)
        except DataError as error:
            refusals.add(str(error).split(" (")[0])
        else:
            assert read == sentences  # a bit of the header that says nothing
    assert refusals == {f"{path}: expected a column file that can be read"}


def test_a_device_is_no_column_file():
    with pytest.raises(DataError, match="/dev/zero: expected a file, got a device"):
        read_columns("/dev/zero")


def test_unreadable_files(tmp_path):
    (tmp_path / "words.conll").touch()
    with pytest.raises(DataError, match=r"word\.conll: no such file; did you mean .*words\.c"):
        read_columns(tmp_path / "word.conll")
    path = tmp_path / "a.gz"
    path.write_bytes(b"not compressed")
    with pytest.raises(DataError, match="Not a gzipped file"):
        read_columns(path)
    path.write_bytes(gzip.compress(b"a b\n")[:-4])
    with pytest.raises(DataError, match="expected a column file that can be read"):
        read_columns(path)


@pytest.mark.parametrize(
    ("encoding", "given"), [("cp1252", "cp1252"), ("utf-16", None), ("utf-8-sig", None)]
)
def test_column_files_in_other_encodings(tmp_path, encoding, given):
    path = tmp_path / "tokens.txt"
    path.write_bytes("Straße N\n\nschön A\n".encode(encoding))
    assert read_columns(path, encoding=given) == [[("Straße", "N")], [("schön", "A")]]
    if given is not None:
        with pytest.raises(DataError, match=r"line 1: expected UTF-8 text.*name the file's enc"):
            read_columns(path)


def test_an_encoding_that_is_none_is_refused(tmp_path):
    (tmp_path / "tokens.txt").write_text("a b\n")
    with pytest.raises(DataError, match=r"encoding: expected the name of an encoding.*'nope'"):
        read_columns(tmp_path / "tokens.txt", encoding="nope")
