"""What an experiment is: a paper's claim, the program that tests it, and what came out."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossfade._typing import Floats, Progress


@dataclass(frozen=True)
class Settings:
    """How to run an experiment.

    Attributes
    ----------
    repeats : int
        Trials, splits or runs, whatever the experiment repeats.
    seed : int
        The same seed and repeats give the same numbers on any number of cores; fewer repeats are
        the first of more.
    data : Path or None
        Folder of data sets; None for the environment's.
    progress : callable or None
    zero_one : bool
        Whether the classifier of least training error takes part, where the experiment has it.
    """

    repeats: int
    seed: int = 0
    data: Path | None = None
    progress: Progress | None = None
    zero_one: bool = False


@dataclass(frozen=True)
class Section:
    """A table for readers.

    Attributes
    ----------
    title : str
    columns : tuple of str
    rows : tuple of tuple of str
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    columns : tuple of str
        Of the table of results.
    records : tuple of tuple
        Its rows: text and numbers; None where there is no value.
    sections : tuple of Section
        The same for readers.
    findings : tuple of str
        What it shows, in sentences.
    facts : mapping
        Further numbers, JSON's types only.
    chart : callable
        Makes the picture, an Altair chart.
    """

    columns: tuple[str, ...]
    records: tuple[tuple[Any, ...], ...]
    sections: tuple[Section, ...]
    findings: tuple[str, ...]
    chart: Callable[[], Any] = field(repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def csv(self) -> str:
        """Return the table of results; numbers are written so that they read back the same."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.records)
        return text.getvalue()


@dataclass(frozen=True)
class Experiment:
    """A published experiment and the program that repeats it.

    Attributes
    ----------
    name : str
        As ``python -m reproduction`` knows it.
    source : str
        Paper, and the table or figure in it.
    question : str
        What is to be seen, in a line.
    repeats : int
        As published.
    unit : str
        What is repeated: trials, runs, splits.
    minutes : float
        Expected on two cores.
    run : callable
    has_zero_one : bool
        Whether it can take the classifier of least training error in.
    """

    name: str
    source: str
    question: str
    repeats: int
    unit: str
    minutes: float
    run: Callable[[Settings], Outcome] = field(repr=False)
    has_zero_one: bool = False


def records(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> tuple[Any, ...]:
    """Return mappings as tuples in the order of the columns."""
    return tuple(tuple(row[column] for column in columns) for row in rows)


def short(number: float, how: str = ".3f") -> str:
    """Return a number as text, without the zero before the point where it is below 1."""
    return f"{number:{how}}".removeprefix("0") if 0.0 < number < 1.0 else f"{number:{how}}"


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean of independent repetitions and its standard error, 0 for a single one."""
    n = values.size
    return float(values.mean()), float(values.std(ddof=1) / n**0.5) if n > 1 else 0.0
