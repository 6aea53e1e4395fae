"""Run the examples in Markdown files and write their real output back into them.

Three kinds of fenced blocks are run, in order, each file from a fresh start:

``python``
    Executed; what it defines is there for the blocks after it.
``pycon``
    A session (so is ``python`` that starts with a prompt): every ``>>>`` statement is executed
    and its output replaced.
``console``
    Every line that starts with ``$`` is run in a shell and its output replaced. A file's commands
    share a folder of their own, which is gone afterwards.

Other blocks are left alone. ``python tools/render_examples.py FILE …`` rewrites the files;
with ``--check``, it only says whether the ``python`` and ``pycon`` blocks still do what is written.
"""

from __future__ import annotations

import argparse
import doctest
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).parents[1]

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

_FENCE = re.compile(r"^```(python|pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class _Recorder(doctest.DocTestRunner):
    """Remembers what each statement printed, whatever was expected."""

    def __init__(self) -> None:
        super().__init__(optionflags=OPTIONS)
        self.printed: list[str] = []

    def report_success(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        self.printed.append(_shortened(got))

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        self.printed.append(_shortened(got))

    def report_unexpected_exception(
        self, out: Any, test: Any, example: doctest.Example, exc_info: Any
    ) -> None:
        raise RuntimeError(f"{test.name}: {example.source.strip()} raised {exc_info[1]!r}")


def _shortened(got: str) -> str:
    """Leave the stack out of an expected exception's traceback: it names files and lines."""
    head = "Traceback (most recent call last):\n"
    if not got.startswith(head):
        return got
    return head + "    ...\n" + re.sub(r"^(?: .*)?\n", "", got[len(head) :], flags=re.MULTILINE)


def _test(text: str, names: dict[str, Any], where: str) -> doctest.DocTest:
    test = doctest.DocTest(doctest.DocTestParser().get_examples(text), {}, where, None, 0, text)
    test.globs = names  # the constructor would copy them, and blocks share theirs
    return test


def _session(text: str, names: dict[str, Any], where: str) -> str:
    """Run one session and return it with what it printed."""
    parser = doctest.DocTestParser()
    recorder = _Recorder()
    recorder.run(_test(text, names, where), clear_globs=False)
    printed = iter(recorder.printed)
    lines: list[str] = []
    for part in parser.parse(text):
        if isinstance(part, str):
            lines.append(part)
            continue
        first, *rest = part.source.splitlines(keepends=True)
        lines += [f">>> {first}", *(f"... {line}" for line in rest)]
        lines.append(re.sub(r"^$\n(?=.)", "<BLANKLINE>\n", next(printed), flags=re.MULTILINE))
    return "".join(lines)


def _console(text: str, folder: str) -> str:
    """Run each command of a block in a folder and return the block with what they printed."""
    here = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    lines: list[str] = []
    for command in (line for line in text.splitlines() if line.startswith("$ ")):
        done = subprocess.run(
            command[2:],
            shell=True,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=None,
            text=True,
            check=True,
        )
        lines.append(command)
        lines += [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    return "\n".join(lines) + "\n"


def _execute(text: str, names: dict[str, Any], where: str) -> None:
    exec(compile(text, where, "exec"), names)


def _walk(path: Path, replace: Callable[[str, str, dict[str, Any], str], str]) -> str:
    """Return a file's text with every block replaced."""
    text = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}

    def block(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        kind = "pycon" if match[2].startswith(">>> ") else match[1]
        body = replace(kind, match[2], names, f"{path.name}, line {line}")
        return f"```{match[1]}\n{body}```"

    with pl.Config():  # how one page shows tables is not how the next does
        return _FENCE.sub(block, text)


def render(path: Path) -> str:
    """Return a Markdown file's text with the real output of its examples."""

    with tempfile.TemporaryDirectory() as folder:
        # Results of long runs are kept beside the pages that show them.
        for name in ("docs", "reproduction"):
            (Path(folder) / name).symlink_to(ROOT / name)

        def replace(kind: str, body: str, names: dict[str, Any], where: str) -> str:
            if kind == "console":
                return _console(body, folder)
            if kind == "pycon":
                return _session(body, names, where)
            _execute(body, names, where)
            return body

        return _walk(path, replace)


def failures(path: Path) -> str:
    """Return what the Python examples of a file do other than written, ``""`` for nothing."""
    found: list[str] = []

    def replace(kind: str, body: str, names: dict[str, Any], where: str) -> str:
        if kind == "python":
            _execute(body, names, where)
        if kind == "pycon":
            runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
            runner.run(_test(body, names, where), out=found.append, clear_globs=False)
        return body

    _walk(path, replace)
    return "".join(found)


def main() -> int:
    """Render the files named on the command line, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    wrong = False
    for path in options.files:
        if options.check:
            said = failures(path)
            wrong |= bool(said)
            print(said or f"{path}: as written")
        else:
            rendered = render(path)
            changed = rendered != path.read_text(encoding="utf-8")
            path.write_text(rendered, encoding="utf-8")
            print(f"{path}: {'rewritten' if changed else 'unchanged'}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
