"""Rows that a saved model is asked about: from files or a bundled data set, matched by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from crossfade import datasets
from crossfade._checks import counted, show
from crossfade.commands.output import plain
from crossfade.commands.tables import open_table
from crossfade.errors import DataError
from crossfade.io import SavedModel
from crossfade.io.batches import Batch, read_batches, table_files
from crossfade.io.matching import Matcher
from crossfade.io.text import blank_lines

#: Posteriors of the rows that are handed out at a time: 8 MB of numbers, 20 MB as text.
_MOST_POSTERIORS = 1 << 20


class NewRows:
    """The rows of a table, as a saved model takes them.

    `saved`: The model.
    `name`: A file, a folder or pattern of such files, or the name of a data set.
    `separator`: Character between cells, if it is neither comma nor tab.
    `encoding`: Of text, if it is not UTF-8.
    `size`: About how many bytes of the file to read at a time.
    """

    def __init__(
        self,
        saved: SavedModel,
        name: str,
        *,
        separator: str | None = None,
        encoding: str | None = None,
        size: int = 1 << 24,
    ) -> None:
        self.saved = saved
        self.name = name
        self.matcher = Matcher(
            saved.schema,
            name,
            saved.about["missing_values"],
            self._read,
            saved.about["training"].get("written"),
        )
        self.extra: list[str] = []
        self.skipped = self.empty = 0
        self._how: dict[str, Any] = {"separator": separator, "encoding": encoding}
        self._size = size

    def batches(self) -> Iterator[tuple[Any, int]]:
        """Yield tables that the model takes, each with the number of its first row."""
        n_rows, self.extra, self.skipped, self.empty = 0, [], 0, 0
        for frame, first, file, skipped, _ in self._read():
            self.skipped += skipped
            self.matcher.path = self.name if len(self.files) < 2 else str(file)
            if first == 1:
                extra = self.matcher.extra(frame.columns)
                self.extra += [name for name in extra if name not in self.extra]
            matched = self.matcher.match(frame, first)
            fewest = min(matched.null_count().row(0), default=0)
            if fewest:  # else no row is without a cell
                self.empty += sum(all(cell is None for cell in row) for row in matched.rows())
            table = matched if self.saved.schema.has_names else matched.to_numpy()
            step = max(1, _MOST_POSTERIORS // len(self.saved.estimator.classes_))
            for start in range(0, len(table), step):
                yield table[start : start + step], n_rows + start + 1
            n_rows += len(table)

    @cached_property
    def files(self) -> list[Path]:
        """The files that are read."""
        bundled = self.name in datasets.bundled()
        return [] if bundled else table_files(datasets.find(self.name))

    def row(self, number: int) -> Any:
        """Return one row as a table, the first row being number 1."""
        if number < 1:
            raise DataError(
                f"--row: expected 1 (the first row below the header) or more, got {number}"
            )
        n_rows = 0
        for frame, first in self.batches():
            n_rows = first - 1 + len(frame)
            if number <= n_rows:
                return frame[number - first : number - first + 1]
        raise DataError(
            f"--row: expected a row from 1 to {n_rows:,} of {self.name}, got {number:,}"
        )

    def _read(self) -> Iterator[Batch]:
        if self.name in datasets.bundled():
            yield Batch(open_table(self.name).named().X, 1, Path(self.name))
            return
        yield from read_batches(self.files, **self._how, size=self._size)

    def notes(self) -> list[str]:
        """Return what was done to the rows, for the reader."""
        notes = blank_lines(self.skipped)
        target = self.saved.about.get("target")
        extra = [plain(name) + (" (the target)" if name == target else "") for name in self.extra]
        if extra:
            shown = ", ".join(extra[:8]) + (", …" if len(extra) > 8 else "")
            notes.append(
                f"ignored {counted(len(extra), 'column')} that the model does not use: {shown}"
            )
        notes += [f"{plain(name)}: {told}" for name, told in self.matcher.told().items()]
        for name, new in self.matcher.new_categories.items():
            notes.append(
                f"{plain(name)}: {counted(new.cells, 'cell')} with a category that fit did not see "
                f"({', '.join(show(one) for one in new.examples)}), taken as missing"
            )
        return notes
