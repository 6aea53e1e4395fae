"""Files are replaced whole; what is no ordinary file is written to and stays what it is."""

from __future__ import annotations

import os
import stat
import sys
from threading import Thread

import pytest

from crossfade import cli
from crossfade.commands.output import check_writable
from crossfade.files import whole_file, write_whole

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and named pipes")


def test_a_pipe_stays_a_pipe(tmp_path):
    # Stands for devices too: a root user's --out /dev/null must not make a file of it.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe, "--out")
    read = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_keeps_pointing_where_it_does(tmp_path, there):
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "file", tmp_path / "link"
    if there:
        file.write_bytes(b"before")
    link.symlink_to(file)
    write_whole(link, b"after")
    assert link.is_symlink()
    assert file.read_bytes() == b"after"
    assert os.listdir(tmp_path / "folder") == ["file"]


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "{data}", "--out", "{data}"],
        ["compare", "{data}", "--json", "{link}"],
        ["curve", "{data}", "--csv", "{data}"],
        ["fit", "{link}", "-o", "{data}"],
        ["predict", "{other}", "{data}", "-o", "{data}"],
        ["explain", "{other}", "{data}", "--row", "1", "--json", "{other}"],
        ["export", "{other}", "--json", "{other}"],
        ["glm", "{data}", "--formula", "a ~ b", "--family", "poisson", "--json", "{data}"],
        ["tag", "--train", "{other}", "--test", "{data}", "--json", "{other}"],
    ],
)
def test_what_is_read_is_never_overwritten(tmp_path, capsys, command):
    data, other, link = tmp_path / "data.csv", tmp_path / "other", tmp_path / "link"
    data.write_text("a,b,target\n1,2,x\n")
    other.write_text("precious")
    link.symlink_to(data)
    with pytest.raises(SystemExit) as ended:
        cli.main([word.format(data=data, other=other, link=link) for word in command])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "expected a file other than those that are read" in said
    assert said.count("\n") == 1
    assert data.read_text() == "a,b,target\n1,2,x\n"
    assert other.read_text() == "precious"


def fail_after(written: int) -> None:
    raise BufferError(written)


def test_an_error_leaves_what_was_there(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    with pytest.raises(BufferError), whole_file(file) as new:
        fail_after(new.write(b"half"))
    assert file.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]
