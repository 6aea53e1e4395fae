"""Scores in a file, one line each, so that a long run can be stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["Store"]


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
