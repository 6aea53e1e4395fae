"""New tables brought to the columns of an old one: by name, with the old one's types.

What a column is was settled in fit. Here nothing is guessed again: a column of text stays text
also where a batch of it happens to hold digits only, and a cell of text in a column of numbers is
an error with its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from crossfade._checks import counted, did_you_mean, show
from crossfade._optional import import_optional
from crossfade.errors import DataError
from crossfade.io.batches import Batch
from crossfade.io.cell_notes import NOT_AVAILABLE
from crossfade.io.cells import TRUTH, is_date, refuse_beyond, unmarked
from crossfade.io.gathered import Gathered, gather, readings_of
from crossfade.io.numerals import TYPED, Written, may_mean_either, told_as, written_otherwise
from crossfade.table.schema import Schema

if TYPE_CHECKING:
    import polars as pl


@dataclass
class NewCategories:
    """Cells of one column whose category fit did not see.

    `examples`: The first few of the categories.
    """

    cells: int = 0
    examples: list[str] = field(default_factory=list)


class Matcher:
    """Picks a schema's columns out of tables; keeps new categories and how cells were read.

    `as_in_fit`: How numbers were written in the table of fit, None where that had types.
    `every`: Yields all tables that will come, for columns whose first ones do not tell how their
    numbers are written.
    """

    def __init__(
        self,
        schema: Schema,
        path: str,
        missing_values: Collection[str] = (),
        every: Callable[[], Iterable[Batch]] | None = None,
        as_in_fit: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.schema = schema
        self.path = path
        self.missing_values = [*missing_values, ""]
        self.new_categories: dict[str, NewCategories] = {}
        self.read_as: dict[str, str] = {}
        self._otherwise: dict[str, str] = {}
        self._whole, self._every, self._as_in_fit = path, every, as_in_fit
        self._written = Written(path, remedy="write them in one way")
        self._asked: set[str] = set()
        self._known = [None if known is None else set(known) for known in schema.categories]

    def told(self) -> dict[str, str]:
        """Return how numbers were read that are not written plainly, or not as in fit."""
        return self.read_as | self._otherwise

    def extra(self, names: Sequence[str]) -> list[str]:
        """Return a table's columns beyond the schema's; refuse it if some of those lack."""
        missing = [name for name in self.schema.names if name not in set(names)]
        extra = [name for name in names if name not in set(self.schema.names)]
        if not missing:
            return extra
        told = [_with_nearest(name, extra) for name in missing[:5]]
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        unnamed = "" if self.schema.has_names else " (the model was fitted without column names)"
        raise DataError(
            f"{self.path}: expected the {counted(self.schema.n_features, 'column')} of fit, got "
            f"none named {', '.join(told)}{more}{unnamed}; rename or add the column"
            + ("s" if len(missing) > 1 else "")
        )

    def match(self, frame: pl.DataFrame, first: int = 1) -> pl.DataFrame:
        """Return the schema's columns in its order and types."""
        pl = import_optional("polars", "tables from files")
        self._ask(frame)
        return pl.DataFrame(
            [
                self._column(frame[name], index, first)
                for index, name in enumerate(self.schema.names)
            ]
        )

    def _ask(self, frame: pl.DataFrame) -> None:
        """Look at all tables where this one does not tell what commas and points mean."""
        pl = import_optional("polars", "tables from files")
        if self._every is None:
            return
        unsure = [
            name
            for index, name in enumerate(self.schema.names)
            if name not in self._asked
            and frame[name].dtype == pl.String
            and not self._has_words(index)
            and not self._written.known(name).settled
            and may_mean_either(frame[name].str.strip_chars())
        ]
        if not unsure:
            return
        self._asked |= set(unsure)
        words = {name for index, name in enumerate(self.schema.names) if self._has_words(index)}
        asked = [one.name for one in frame if one.dtype == pl.String and one.name not in words]
        gathered: dict[str, Gathered] = {}
        for batch in self._every():
            gather(gathered, batch.frame, self.missing_values, asked, batch.first, "")
        # Of what is refused, the error that names the row is raised below.
        lenient = partial(suppress, DataError)
        for name, reading, _ in readings_of(gathered, self._whole, refused=lenient):
            if name in unsure and reading is not None and reading.notation.settled:
                self._written.settle(name, reading.notation)

    def _has_words(self, index: int) -> bool:
        known = self.schema.categories[index]
        words = known is not None and not any(isinstance(value, (int, float)) for value in known)
        return words or self.schema.kinds[index] == "identifier"

    def _column(self, series: pl.Series, index: int, first: int) -> pl.Series:
        pl = import_optional("polars", "tables from files")
        words = self._has_words(index)
        if series.dtype in (pl.Categorical, pl.Enum) or is_date(series):
            series = series.cast(pl.String)
        if series.dtype == pl.String:
            stripped = series.str.strip_chars()
            empty = stripped.is_in(self.missing_values)
            series = series.set(empty, None)
            if not words:
                series = self._numbers(series, stripped.set(empty, None), index, first)
        series = unmarked(series, self.missing_values)
        if words and series.dtype == pl.String and self.schema.kinds[index] == "categorical":
            self._count_new(series, index)
        return series

    def _numbers(self, series: pl.Series, stripped: pl.Series, index: int, first: int) -> pl.Series:
        read, name = self._as_numbers(series, stripped, index, first), series.name
        if self.schema.kinds[index] == "boolean":
            return read
        refuse_beyond(stripped, read, f"{self.path}: column {show(name)}", first)
        if name in self._otherwise:
            return read
        fit = TYPED if self._as_in_fit is None else self._as_in_fit.get(name)
        cells = stripped.set(read.is_null(), None)
        other = written_otherwise(cells, self._written.known(name).point, fit).arg_true()
        if len(other):
            row, shown = int(other[0]), show(fit["cell"]) if fit else "plain numbers"
            self._otherwise[name] = (
                f"{show(cells[row])} is read as {read[row]:.15g}, but fit read numbers written "
                f"otherwise ({shown}); write both in one way"
            )
        return read

    def _as_numbers(
        self, series: pl.Series, stripped: pl.Series, index: int, first: int
    ) -> pl.Series:
        pl = import_optional("polars", "tables from files")
        numbers = stripped.cast(pl.Float64, strict=False).fill_nan(None)
        other = numbers.is_null() & stripped.is_not_null()
        boolean = self.schema.kinds[index] == "boolean"
        if not other.any():
            return self._in_one_way(series.name, stripped, numbers, first, boolean)
        marks = stripped.filter(other)
        accepted = NOT_AVAILABLE | (TRUTH.keys() if boolean else set())
        if not set(marks.unique().to_list()) <= accepted:
            read = None if boolean else self._as_written(series.name, stripped, first)
            if read is not None:
                return read
            wrong = ~stripped.is_in(list(accepted)) & other
            row, number = int(wrong.arg_true()[0]), int(wrong.sum())
            raise DataError(
                f"{self.path}: column {show(series.name)}: expected "
                f"{'true, false, 0 or 1' if boolean else 'numbers'} as in fit, got "
                f"{show(series[row])} in row {first + row} "
                f"({counted(number, 'such cell')} in {counted(len(series), 'row')}); correct "
                "the cells, or leave them empty where unknown"
            )
        if boolean:
            truth = stripped.replace_strict(TRUTH, default=None, return_dtype=pl.Boolean)
            if numbers.null_count() == len(numbers):  # words only: they stay what they say
                return truth
            return numbers.set(truth.is_not_null(), None).fill_null(truth.cast(pl.Float64))
        return self._in_one_way(series.name, stripped, numbers, first, boolean)

    @property
    def _of(self) -> str:
        return "" if self.path == self._whole else f" of {self.path}"

    def _in_one_way(
        self, name: str, stripped: pl.Series, numbers: pl.Series, first: int, boolean: bool
    ) -> pl.Series:
        """Return numbers as Python reads them, or as earlier batches of the column tell."""
        if boolean:
            return numbers
        read = self._written.numbers(name, stripped, numbers, first, self._of)
        if name not in self.read_as and (told := told_as(stripped, numbers, read)):
            self.read_as[name] = told
        return read

    def _as_written(self, name: str, stripped: pl.Series, first: int) -> pl.Series | None:
        """Return numbers in another notation than 1234.5, None where they are not sure."""
        cells = stripped.set(stripped.is_in(list(NOT_AVAILABLE)), None)
        found = self._written.plain(name, cells, first, self._of)
        if found is None:
            return None
        plain, read = found
        self.read_as.setdefault(name, told_as(cells, plain, read))
        return read

    def _count_new(self, series: pl.Series, index: int) -> None:
        known: Any = self._known[index]
        values = series.drop_nulls().value_counts()
        new = Counter({value: count for value, count in values.iter_rows() if value not in known})
        if not new:
            return
        seen = self.new_categories.setdefault(series.name, NewCategories())
        seen.cells += new.total()
        for value in sorted(new):
            if len(seen.examples) < 3 and value not in seen.examples:
                seen.examples.append(value)


def _with_nearest(name: str, names: Sequence[str]) -> str:
    near = did_you_mean(name, names, "")
    return f"{show(name)} ({near})" if near else show(name)
