"""What the commands share: consoles, safe text, progress, and files written whole or not at all."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crossfade._typing import Progress
from crossfade.commands.stopping import ticking, working
from crossfade.errors import DataError
from crossfade.files import destination, is_read_only, is_stream, write_whole

#: Seconds between two lines that say what is being done, where nothing can be drawn.
LINE_SECONDS = 10.0


class ClosedPipeError(Exception):
    """Whoever read the output (head, less) has seen enough.

    Not an OSError, which would look like an input that cannot be read.
    """


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise ClosedPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console that never interprets text: names from data files are data."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def plain(text: str) -> str:
    """Return text with line breaks and control characters made visible, fit for one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str, *, stderr: bool = False) -> None:
    """Print text for people; control characters are made visible, line breaks stay."""
    print("\n".join(map(plain, text.split("\n"))), file=sys.stderr if stderr else sys.stdout)


def hand_over(data: bytes) -> None:
    """Write data to stdout: as they are, but with control characters visible on a terminal."""
    if sys.stdout.isatty():
        lines = data.decode(errors="backslashreplace").split("\n")
        # A tab is what separates cells.
        data = "\n".join("\t".join(map(plain, line.split("\t"))) for line in lines).encode()
    typer.echo(data, nl=False)


def shortened(text: str, width: int) -> str:
    """Return text of at most `width` terminal cells, with … for what was cut."""
    shown = Text(plain(text))
    shown.truncate(width, overflow="ellipsis")
    return shown.plain


def list_item(mark: str, text: str) -> Table:
    """Return text behind its mark, with a hanging indent."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=3, justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style="dim"), Text(text))
    return grid


@contextmanager
def lines_now_and_then(line: Callable[[float], str]) -> Iterator[None]:
    """Print `line` of the seconds so far on stderr every ten seconds, whatever the work reports."""
    begun = perf_counter()

    def tell() -> None:
        with suppress(OSError, ValueError):  # nobody reads it any more
            print(plain(line(perf_counter() - begun)), file=sys.stderr, flush=True)

    with ticking(LINE_SECONDS, tell):
        yield


@contextmanager
def live_progress(label: str, doing: str = "starting") -> Iterator[Progress]:
    """Show progress on stderr, by a bar if it is a terminal; yield what reports to it."""
    if not sys.stderr.isatty():
        at, share, name = doing, 0.0, Path(label).name

        def note(done: int, total: int, text: str) -> None:
            nonlocal at, share
            at, share = text, done / total if total else 0.0

        def line(seconds: float) -> str:
            left = f", about {seconds * (1.0 / share - 1.0):.0f} s left" if share > 0.05 else ""
            done = f"{share:.0%}{left} · " if share else ""
            return f"{name}: {seconds:.0f} s · {done}now {at}"

        with lines_now_and_then(line):
            yield note
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[title]}", markup=False),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", style="dim", markup=False),
    )
    with Bar(*columns, console=console(stderr=True), transient=True) as bar, working(bar.stop):
        # In 80 columns, what is being done has to be readable; a path is known to who gave it.
        title = shortened(Path(label).name, 16)
        task = bar.add_task(shortened(doing, 36), total=None, title=title)

        def report(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total or None, description=shortened(text, 36))

        yield report


def command_line() -> str:
    """Return the command that is running, as a shell would take it."""
    return shlex.join(["crossfade", *sys.argv[1:]])


#: How the names of files end, by the option that names them.
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "--json": (".json",),
    "--csv": (".csv",),
    "--onnx": (".onnx",),
}


def check_outputs(
    outputs: Mapping[str, Path | None],
    *inputs: str | Path,
    endings: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Raise a DataError where files to write, by option, cannot be: before the work, not after."""
    earlier: dict[str, Path] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        check_writable(path, option, *inputs)
        for other, taken in earlier.items():
            if not is_stream(path) and _are_one(path, taken):
                raise DataError(
                    f"{option}: expected another file than that of {other}, got {str(path)!r}; it "
                    "would be overwritten"
                )
        earlier[option] = path
    for option, path in earlier.items():
        _check_ending(path, option, *{**_ENDINGS, **(endings or {})}.get(option, ()))


def _check_ending(path: Path, option: str, *endings: str) -> None:
    """Refuse a name that does not tell what the file will hold."""
    if endings and path.suffix.lower() not in endings and not is_stream(destination(path)):
        raise DataError(
            f"{option}: expected a name that ends in {' or '.join(endings)}, got {str(path)!r}; "
            f"for example {path.with_suffix(endings[0]).name}"
        )


def check_writable(path: Path, option: str, *inputs: str | Path) -> None:
    """Raise a DataError where a file cannot be written, before hours of work and not after."""
    try:
        file = destination(path)
    except OSError as error:
        raise DataError(
            f"{option}: expected a file that can be written, got {str(path)!r} ({error.strerror}); "
            "choose another name"
        ) from None
    folder = file.parent
    if not folder.is_dir():
        raise DataError(
            f"{option}: expected a file in a folder that exists, got {str(path)!r}; "
            f"make the folder {str(folder)!r} first"
        )
    if path.is_dir():
        raise DataError(f"{option}: expected a file, got the folder {str(path)!r}; add a name")
    if not os.access(file if is_stream(file) else folder, os.W_OK):
        raise DataError(
            f"{option}: expected a file in a folder that can be written to, got {str(path)!r}; "
            "choose another folder"
        )
    if file.is_file() and is_read_only(file):
        raise DataError(
            f"{option}: expected a file that may be replaced, got {str(path)!r}, which is "
            "read-only; choose another name, or allow writing to it"
        )
    if any(_are_one(path, Path(given)) for given in inputs) and not is_stream(path):
        raise DataError(
            f"{option}: expected a file other than those that are read, got {str(path)!r}, "
            "which would be overwritten; choose another name"
        )


def _are_one(path: Path, other: Path) -> bool:
    """Return whether two names lead to one file, there or not yet."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return destination(path) == destination(other)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write strict JSON; the file is replaced as a whole or left as it was."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    write_whole(path, text.encode("utf-8", errors="backslashreplace"))
