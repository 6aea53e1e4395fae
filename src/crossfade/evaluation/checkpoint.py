"""A file that a long run continues from: a line a finished split, whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import Counts
from crossfade.files import lock, named_errors

_FORMAT = "crossfade learning curve 2"


@dataclass(frozen=True)
class SplitRecord:
    """What one split came to.

    `scores` (n_sizes, 3): Log-loss, Brier score and error by model.
    `counts`: Warnings and failures of models.
    """

    scores: Mapping[str, Floats]
    counts: Counts

    def to_line(self, number: int) -> str:
        """Return the record as a line of JSON; numbers keep every digit, NaN is null."""
        return json.dumps(
            {
                "split": number,
                "scores": {
                    name: [[v if np.isfinite(v) else None for v in row] for row in rows.tolist()]
                    for name, rows in self.scores.items()
                },
                "warnings": [[*key, *value] for key, value in self.counts.warnings.items()],
                "failures": [[key, *value] for key, value in self.counts.failures.items()],
            }
        )

    @classmethod
    def from_line(cls, line: str, number: int) -> Self:
        """Return the record that a line holds; a ValueError if it is of another split."""
        content = json.loads(line)
        if content["split"] != number:
            raise ValueError(number)
        return cls(
            {
                name: np.array(
                    [[np.nan if v is None else v for v in row] for row in rows], dtype=np.float64
                )
                for name, rows in content["scores"].items()
            },
            Counts(
                {(name, kind): (times, text) for name, kind, times, text in content["warnings"]},
                {name: (times, text) for name, times, text in content["failures"]},
            ),
        )


class Checkpoint:
    """The finished splits of one run, in order, in a file that is this run's until it is closed.

    Its first line is the fingerprint of data, models, sizes and seed; each other is one split,
    numbered. A line that is not whole is cut off when the file is opened again.
    """

    def __init__(self, path: Path, fingerprint: Mapping[str, str]) -> None:
        self._path = path
        self._head = json.dumps({"format": _FORMAT, **fingerprint}) + "\n"
        self.records: list[SplitRecord] = []
        self._file = path.open("a+b", buffering=0)
        try:
            if not lock(self._file.fileno()):
                raise DataError(
                    f"checkpoint: expected a file that no other run is writing, got {str(path)!r}; "
                    "wait until the other run ends, or choose another file"
                )
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        existing = self._file.read()
        if not existing.strip() or self._head.encode().startswith(existing):
            self._file.truncate(0)
            self._append(self._head)
            return
        kept = existing[: existing.rfind(b"\n") + 1]
        lines = kept.decode("utf-8", errors="replace").splitlines()
        self._check(lines[0] if lines else existing[:200].decode("utf-8", errors="replace"))
        for line in lines[1:]:
            self.records.append(self._record(line))
        self._file.truncate(len(kept))

    def close(self) -> None:
        """Leave the file to others."""
        self._file.close()

    def _check(self, line: str) -> None:
        try:
            found = json.loads(line)
            known = found["format"] == _FORMAT
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise DataError(
                f"checkpoint: expected a new file or one that learning_curve wrote, got "
                f"{str(self._path)!r} with other content; choose another file"
            )
        wanted = json.loads(self._head)
        differs = [name for name in wanted if found.get(name) != wanted[name]]
        if differs:
            raise DataError(
                f"checkpoint: expected a run with the same data, models and settings, but "
                f"{str(self._path)!r} has other {' and '.join(differs)}; "
                "repeat the run as it was, or choose another file"
            )

    def _record(self, line: str) -> SplitRecord:
        try:
            return SplitRecord.from_line(line, len(self.records) + 1)
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"checkpoint: expected split {len(self.records) + 1} in line "
                f"{len(self.records) + 2} of {str(self._path)!r}, got {line[:60]!r}; another "
                "program changed the file; delete it, or choose another"
            ) from None

    def add(self, records: list[SplitRecord]) -> None:
        """Append finished splits; they are on the disk when this returns."""
        first = len(self.records) + 1
        lines = [record.to_line(number) + "\n" for number, record in enumerate(records, first)]
        self._append("".join(lines))
        self.records += records

    def _append(self, text: str) -> None:
        left = memoryview(text.encode())
        with named_errors(self._path):
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
