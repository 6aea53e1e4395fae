"""Scores in a file, one line each, so that a long run can be stopped and continued."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Store(dict[tuple[Any, ...], list[float]]):
    """Lists of scores by what they are of (a set, a size, a split, a model), kept in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                *key, values = json.loads(line)
                self[tuple(key)] = values

    def add(self, key: Sequence[Any], values: Sequence[float]) -> None:
        """Keep scores, in the file as well."""
        self[tuple(key)] = list(values)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*key, list(values)]) + "\n")


def say(text: str) -> None:
    """Report progress apart from the table."""
    print(text, file=sys.stderr, flush=True)


def add_store(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a command that keeps its scores in a file."""
    parser.add_argument("--store", type=Path, default=Path(name))
    parser.add_argument("--report", action="store_true", help="only print what the store holds")


def run_and_report(
    options: argparse.Namespace, run: Callable[[], object], report: Callable[[Path], str]
) -> int:
    """Fill the store unless only the report is asked for; print it, also after a stop."""
    try:
        if not options.report:
            run()
    except KeyboardInterrupt:
        say("stopped; the same command goes on")
    print(report(options.store))
    return 0
