"""Files are replaced whole; what is no ordinary file is written to and stays what it is."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from threading import Thread

import pytest

from crossfade import cli, files
from crossfade.commands.output import check_writable
from crossfade.files import whole_file, write_whole
from tests.forked import Forked

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


def ended(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return left.value.code


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_rights(tmp_path, mode):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    file.chmod(mode)
    write_whole(file, b"after")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"after", mode)


@pytest.fixture
def hindered(tmp_path):
    """Names that cannot be written to, and what is said of them."""
    read_only, loop, other = (tmp_path / name for name in ("read_only", "loop", "other"))
    read_only.write_bytes(b"precious")
    read_only.chmod(0o444)
    loop.symlink_to(other)
    other.symlink_to(loop)
    (tmp_path / "dangling").symlink_to(tmp_path / "no" / "file")
    return {
        "read_only": "which is read-only; choose another name",
        "loop": "Too many levels of symbolic links",
        "dangling": "expected a file in a folder that exists",
    }


@pytest.mark.parametrize("name", ["read_only", "loop", "dangling"])
def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, hindered, name):
    path = tmp_path / name
    before = {one: os.lstat(tmp_path / one) for one in os.listdir(tmp_path)}
    with pytest.raises(OSError, match=r"read-only|Too many|No such file"):
        write_whole(path, b"after")
    for command in (
        ["compare", "iris", "--out", path],
        ["curve", "iris", "--checkpoint", path],
        ["fit", "iris", "-o", path],
        ["tag", "--train", __file__, "--test", __file__, "--json", path],
    ):
        assert ended(*command) == 2
        assert hindered[name] in capsys.readouterr().err
    after = {one: os.lstat(tmp_path / one) for one in os.listdir(tmp_path)}
    assert after == before


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "iris", "--json", "{file}", "--out", "{link}"],
        ["curve", "iris", "--csv", "{file}", "--json", "{file}"],
        ["curve", "iris", "--csv", "{hard}", "--checkpoint", "{there}"],
        ["export", __file__, "--onnx", "{file}", "--json", "{folder}/../new"],
        ["tag", "--train", __file__, "--test", __file__, "--out", "{file}", "--json", "{link}"],
    ],
)
def test_two_outputs_are_never_one_file(tmp_path, capsys, command):
    places = {name: tmp_path / name for name in ("folder", "there", "hard", "link")}
    places["file"] = tmp_path / "new"
    places["folder"].mkdir()
    places["there"].write_bytes(b"")
    places["hard"].hardlink_to(places["there"])
    places["link"].symlink_to(places["file"])
    assert ended(*(word.format(**places) for word in command)) == 2
    assert "expected another file than that of --" in capsys.readouterr().err
    assert not places["file"].exists()


def limited(*words: str) -> None:
    """Run a command that may not write files longer than 100 bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    cli.main(words)


def test_on_a_full_disk_results_are_shown_and_files_named(tmp_path, capsys):
    out, json = tmp_path / "page.html", tmp_path / "numbers.json"
    json.write_text("before")
    words = ["compare", "iris", "--splits", "2", "--models", "majority"]
    files = "--out", str(out), "--json", str(json)
    with Forked(limited, *words, *files, COLUMNS="200") as process:
        shown, said = process.communicate()
        assert (process.returncode, said) == (2, f"error: {out}: File too large\n")
    assert "Only majority class was asked for: log-loss" in shown
    assert os.listdir(tmp_path) == ["numbers.json"]
    assert json.read_text() == "before"
    # Where only one does not fit, the other is written.
    assert ended(*words, "--out", "/dev/full", "--json", json) == 2
    assert capsys.readouterr().err == "error: /dev/full: No space left on device\n"
    assert json.read_text().startswith("{")


def test_a_stdout_without_room_is_told_in_one_line():
    words = ["compare", "iris", "--splits", "2", "--models", "majority"]
    with open("/dev/full", "w") as full, Forked(cli.main, words, stdout=full.fileno()) as process:
        said = process.communicate()[1]
        assert process.returncode == 2
    assert said.startswith("error: ")
    assert said.endswith("No space left on device\n")
    assert said.count("\n") == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from crossfade.files import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_goes_at_the_next_write(tmp_path):
    file = tmp_path / "file.csv"
    # Neither the file of a writer that lives, nor one that only looks alike.
    alike = {".file.csv.backup.crossfade", ".file.csv.12345678", "file.csv.12345678.crossfade"}
    for name in alike:
        (tmp_path / name).write_bytes(b"precious")
    code = subprocess.run([sys.executable, "-c", KILLED, file], check=False).returncode
    assert code == -signal.SIGKILL
    (left,) = set(os.listdir(tmp_path)) - alike
    with whole_file(file) as first:
        first.write(b"first")
        assert left not in os.listdir(tmp_path)
        write_whole(file, b"second")
        assert file.read_bytes() == b"second"
    assert file.read_bytes() == b"first"
    assert set(os.listdir(tmp_path)) == alike | {"file.csv"}


def fail_after(written: int) -> None:
    raise BufferError(written)


def test_an_error_leaves_what_was_there(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"before")
    with pytest.raises(BufferError), whole_file(file) as new:
        fail_after(new.write(b"half"))
    assert file.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("moment", ["open", "lock"])
def test_a_signal_while_a_file_is_made_leaves_none(tmp_path, monkeypatch, moment):
    where = files if moment == "lock" else files.os
    made = getattr(where, moment)

    def stopped(*arguments, **options):
        made(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(where, moment, stopped)
    with pytest.raises(KeyboardInterrupt), files.whole_file(tmp_path / "out.csv"):
        pass
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []
    assert not files._in_the_making
