"""A comparison on the terminal: the table, what to know about it, the verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from crossfade._checks import counted
from crossfade.commands.output import (
    LINE_SECONDS,
    console,
    lines_now_and_then,
    list_item,
    plain,
    shortened,
)
from crossfade.commands.stopping import working
from crossfade.comparison.results import ComparisonResult, Status
from crossfade.evaluation.scores import METRIC_LABELS, Estimate
from crossfade.evidence.comparison import ModelResult
from crossfade.evidence.numbers import around

if TYPE_CHECKING:
    from crossfade.commands.tables import OpenTable

_NAME_WIDTH: Final = 20

#: Seconds between two pictures of a table that lives.
_PICTURE_SECONDS: Final = 0.3

#: Headings of the score columns, in the order shown.
_SCORES: Final = {"error": "error %", "log_loss": "log-loss", "brier": "Brier", "cost": "cost"}


def print_result(result: ComparisonResult, table: OpenTable) -> None:
    """Print the table, its notes and the verdict."""
    out = console()
    out.print()
    for line in _heading(result, table):
        out.print(line)
    shown, left_out = _fitting_table(result, out)
    with _wide_enough(out, shown):
        out.print(shown)
    out.print(_legend(result, left_out))
    notes = [*table.notes, *result.notes]
    if notes:
        out.print()
        out.print(Text("Notes", style="bold"))
        for note in notes:
            out.print(list_item("·", plain(note)))
    out.print()
    out.print(Text("Verdict", style="bold"))
    for number, sentence in enumerate(result.verdict_sentences, start=1):
        out.print(list_item(str(number), plain(sentence)))
    if found := [*_thresholds(result), *_wrong_densities(result)]:
        out.print()
        out.print(Text("Evidence", style="bold"))
        for sentence in found:
            out.print(list_item("·", plain(sentence)))
    out.print()


def _thresholds(result: ComparisonResult) -> Iterator[str]:
    """Yield from which probability on the best model decides for the second class, and the cost."""
    found = result.details.thresholds.get(result.best) if result.details else None
    if found is None or result.costs is None:
        return
    yield (
        f"Threshold: {result.best} decides for {shortened(result.data.classes[1], 30)} from a "
        f"probability of {100 * found.right:.3g} % on, which costs {around(found.cost)}; on these "
        f"rows {100 * found.least:.0f} % would have cost least."
    )


def _wrong_densities(result: ComparisonResult) -> Iterator[str]:
    """Yield which columns differ most from the densities of the generative end."""
    found = result.details.densities if result.details else ()
    wrong = sorted((one for one in found if one.is_wrong), key=lambda one: -one.statistic)
    if wrong:
        worst = "; ".join(
            f"{shortened(one.column, 30)} in class {shortened(one.label, 20)} ({one.complaint})"
            for one in wrong[:3]
        )
        most = ", most of all" if len(wrong) > 1 else ":"
        yield (
            f"Densities: rows contradict {len(wrong)} of the generative end's {len(found)} (one "
            f"for each column of numbers and class){most} {worst}."
        )
    elif found:
        yield f"Densities: rows contradict none of the generative end's {len(found)}."


def _heading(result: ComparisonResult, table: OpenTable) -> list[Text]:
    data = result.data
    title = Text()
    title.append(shortened(Path(table.name).name or table.name, 36), style="bold")
    title.append(f"  {data.n_rows:,} rows, {counted(data.n_columns, 'column')}, ")
    title.append(f"{len(data.classes):,} classes")
    target = Text(f"{shortened(table.target, 30)}: ", style="dim")
    target.append(_classes(data.classes, data.class_counts))
    kinds = Text("columns: ", style="dim")
    kinds.append(_kinds(data.column_names, data.column_kinds))
    splits = Text(
        f"{_splits(result)} of {result.n_train:,} training and "
        f"{counted(result.n_test, 'test row')}, seed {result.random_state}",
        style="dim",
    )
    return [title, target, kinds, splits]


def _splits(result: ComparisonResult) -> str:
    numbers = [model.n_splits for model in result.models if model.n_splits]
    if min(numbers) == max(numbers):
        return counted(result.n_splits, "split")
    return f"{min(numbers)} to {max(numbers)} splits per model,"


def _classes(labels: Sequence[str], counts: Sequence[int], at_most: int = 6) -> str:
    order = sorted(range(len(labels)), key=lambda k: (-counts[k], k))
    shown = [f"{shortened(labels[k], 20) or repr('')} ({counts[k]:,})" for k in order[:at_most]]
    rest = len(labels) - at_most
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def _kinds(names: Sequence[str], kinds: Sequence[str], at_most: int = 4) -> str:
    """Return how many columns of each kind there are, and which, where that is short to say."""
    parts = []
    kinds = ["left out as identifier or date" if kind == "identifier" else kind for kind in kinds]
    for kind in dict.fromkeys(kinds):
        members = [n for n, k in zip(names, kinds, strict=True) if k == kind]
        part = f"{len(members):,} {kind}"
        if len(members) <= at_most and len(set(kinds)) > 1:
            part += f" ({', '.join(shortened(name, 20) or repr('') for name in members)})"
        parts.append(part)
    return ", ".join(parts)


# -- while it runs -------------------------------------------------------------------------------


@contextmanager
def live_table() -> Iterator[Callable[[Status], None]]:
    """Yield what shows how far a comparison is: a table that lives, else a line now and then.

    Both go to stderr: what is printed at the end is the result alone.
    """
    if not sys.stderr.isatty():
        lines = _Lines()
        with lines_now_and_then(lines.at):
            yield lines
        return
    out = console(stderr=True)
    live = Live(console=out, auto_refresh=False, transient=True, vertical_overflow="crop")
    with live, working(live.stop):
        yield _Pictures(out, live)


class _Lines:
    """Says how far a comparison is, in a line."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._drawn = -inf

    def __call__(self, status: Status) -> None:
        # Another thread asks for the line: it finds the standings made.
        if self._status is None or status.seconds - self._drawn > LINE_SECONDS / 4:
            self._drawn, found = status.seconds, status.partial()
        else:
            found = self._status.partial()
        self._status = replace(status, partial=lambda: found)

    def at(self, seconds: float) -> str:
        """Return the line after so many seconds."""
        status = self._status
        if status is None:
            return f"{seconds:.0f} s · now starting"
        since = seconds - status.seconds
        left, after = status.seconds_left, status.seconds_after
        if left is not None:
            left = max(left - since, 0.0)
        elif after is not None:
            after = max(after - since, 0.0)
        now = replace(status, seconds=seconds, seconds_left=left, seconds_after=after)
        return progress_line(now)


class _Pictures:
    """Draws the table anew when it has changed."""

    def __init__(self, out: Console, live: Live) -> None:
        self._out, self._live = out, live
        self._drawn, self._done, self._table = 0.0, -1, Table()

    def __call__(self, status: Status) -> None:
        now = perf_counter()
        if now - self._drawn < _PICTURE_SECONDS and self._done >= 0:
            return
        self._drawn = now
        if status.done != self._done:
            result = status.partial()
            if result is not None:
                self._table = _fitting_table(result, self._out)[0]
            self._done = status.done
        line = Text(shortened(progress_line(status), self._out.width), style="dim")
        self._live.update(Group(self._table, Text(), line), refresh=True)


def progress_line(status: Status) -> str:
    """Return what is being done, and how long it and what follows will take."""
    result = status.partial()
    left, after = status.seconds_left, status.seconds_after
    more = "" if left is None else f", at most {_duration(left)} more"
    if after is not None and after >= 0.5:
        more += f", about {_duration(after)} more" if left is None else ""
        more += f", then about {_duration(after)} after the table" if left is not None else ""
    parts = [f"{status.seconds:.0f} s{more}"]
    if result is not None:
        numbers = [model.n_splits for model in result.models if not model.failure]
        done = " to ".join(dict.fromkeys([f"{min(numbers)}", f"{max(numbers)}"]))
        parts.append(f"{done} of {status.n_splits} splits done, best so far {result.best}")
    return " · ".join([*parts, f"now {status.doing}"])


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if seconds < 100 else f"{minutes:.0f} min"


# -- the table -----------------------------------------------------------------------------------


def _fitting_table(result: ComparisonResult, out: Console) -> tuple[Table, list[str]]:
    """Return the table without the columns that there is no room for, and those.

    There is room for all where the output is no terminal and nobody says how wide it is.
    """
    left_out: list[str] = []
    table = _table(result, left_out)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        return table, left_out
    columns = _columns(result)
    for extra in ("fit", "splits", "brier", "error"):
        if _least_width(out, table) <= out.width:
            break
        if extra in columns:
            left_out.append(extra)
            table = _table(result, left_out)
    return table, left_out


def _least_width(out: Console, table: Table) -> int:
    roomy = out.options.update(width=1000)  # a measurement is never wider than its options
    return Measurement.get(out, roomy, table).minimum


@contextmanager
def _wide_enough(out: Console, table: Table) -> Iterator[None]:
    """Let the console be as wide as a table that is not to be cut."""
    width = out.width
    if not out.is_terminal:
        out.width = max(width, _least_width(out, table))
    yield
    out.width = width


def _table(result: ComparisonResult, left_out: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    columns = _columns(result)
    kept = [column for column in columns if column not in left_out]
    table.add_column("model", no_wrap=True, min_width=_NAME_WIDTH)
    for column in kept:
        heading = columns[column]
        cells = [cell for model in result.rows if (cell := _cell(column, model, result))]
        # Rich would rather cut a number short than leave out a column.
        width = max(cell_len(text.plain) for text in [heading, *cells])
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    family = None
    for model in result.rows:
        if _family(model) not in (family, None):
            table.add_row(Text(shortened(_family(model) or "", _NAME_WIDTH), style="bold"))
        family = _family(model)
        table.add_row(_name(model, result), *(_cell(column, model, result) for column in kept))
    return table


def _columns(result: ComparisonResult) -> dict[str, Text]:
    """Return the headings of the columns behind the model's name."""
    difference = METRIC_LABELS[result.criterion].removeprefix("test ").removesuffix(" score")
    return {
        # The space stands where the mark of the lowest value stands.
        **{m: Text(f"{heading} ") for m, heading in _SCORES.items() if m in result.metrics},
        "difference": Text(f"Δ {difference}"),
        **({"splits": Text(" n")} if _differ(result) else {}),
        "fit": Text(f" fit {_unit(result)[0]}"),
    }


def _differ(result: ComparisonResult) -> bool:
    """Return whether models were fitted on different numbers of splits."""
    return len({model.n_splits for model in result.rows if not model.failure}) > 1


def _cell(column: str, model: ModelResult, result: ComparisonResult) -> Text:
    if model.failure is not None:
        return Text("failed", style="red") if column == "difference" else Text("")
    if column == "difference":
        return _difference(model, result)
    if not model.n_splits:
        return Text("")
    if column == "splits":
        return Text(f" {model.n_splits}", style="dim")
    if column == "fit":
        return _seconds(model.fit_seconds, *_unit(result))
    return _score(model.estimates.get(column), column, _lowest(result, column))


def _unit(result: ComparisonResult) -> tuple[str, float]:
    """Return the unit of all fit times, and how many of it make a second."""
    times = [model.fit_seconds for model in result.rows if model.fit_seconds is not None]
    return ("s", 1.0) if max(times, default=0.0) >= 1 else ("ms", 1e3)


def _lowest(result: ComparisonResult, metric: str) -> float:
    values = (m.estimates[metric].mean for m in result.rows if metric in m.estimates)
    return min(values, default=0.0)


def _name(model: ModelResult, result: ComparisonResult) -> Text:
    if model.failure is not None:
        style = "dim"
    else:
        style = "bold green" if model.name == result.best else ""
    return Text(shortened(_short_name(model), _NAME_WIDTH), style=style)


def _family(model: ModelResult) -> str | None:
    """Return the heading that the model stands under; one that is alone in its family has one too.

    A name such as "shared Gaussian discriminative" does not fit into one line of its column.
    """
    if model.family is not None or model.tradeoff is None:
        return model.family
    return model.name.rpartition(" ")[0] or None


def _short_name(model: ModelResult) -> str:
    """Return the name without its family's, and with the tradeoff in symbols."""
    name, family = plain(model.name), _family(model)
    if family is None:
        return name
    name = "  " + (plain(model.name.removeprefix(family).strip()) or name)
    value = model.chosen.median if model.chosen is not None else model.tradeoff
    return f"{name} λ={value:.2g}" if isinstance(value, float) and "λ=" not in name else name


def _score(value: Estimate | None, metric: str, lowest: float) -> Text:
    if value is None:
        return Text("– ", style="dim")
    known = isfinite(value.standard_error)  # too few splits have no spread
    mean, error = _pair(value.mean, value.standard_error if known else 0.0, metric)
    best = value.mean == lowest
    cell = Text(mean, style="bold green" if best else "")
    cell.append(f" ±{error}" if known else "", style="dim")
    cell.append("*" if best else " ", style="bold green")
    return cell


def _difference(model: ModelResult, result: ComparisonResult) -> Text:
    if model.name == result.best:
        return Text("best", style="bold green")
    gap = model.differences.get(result.criterion)
    if gap is None:
        return Text("–", style="dim")
    known = isfinite(gap.standard_error)
    mean, error = _pair(gap.mean, gap.standard_error if known else 0.0, result.criterion)
    cell = Text("" if gap.excludes_zero else "≈ ", style="yellow")
    cell.append(f"{'' if mean.startswith('-') else '+'}{mean}", style="default")
    cell.append(f" ±{error}" if known else "", style="dim")
    return cell


def _pair(value: float, uncertainty: float, metric: str) -> tuple[str, str]:
    """Return a score and its uncertainty with as many decimals as the table has room for."""
    if metric == "error":
        return _number(100 * value, 1), _number(100 * uncertainty, 1)
    decimals = 3 if max(abs(value), uncertainty) < 1 else 2
    return _number(value, decimals), _number(uncertainty, decimals)


def _number(value: float, decimals: int) -> str:
    """Return a number without the zero before its point, which costs a column of the terminal."""
    text = f"{value:.{decimals}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _seconds(value: float | None, unit: str, scale: float) -> Text:
    if value is None:
        return Text("–", style="dim")
    mean = value * scale
    if unit == "s" and mean < 0.005:
        return Text("<.01")
    decimals = 0 if unit == "ms" and mean >= 9.95 else 1 if unit == "ms" or mean >= 9.95 else 2
    return Text(_number(mean, decimals))


def _legend(result: ComparisonResult, left_out: Sequence[str]) -> Padding:
    label = METRIC_LABELS[result.criterion]
    lines = [
        "* lowest in its column; ± one standard error, corrected for splits sharing rows",
        f"Δ {label} above the best, paired over splits",
        "≈ cannot be told apart from the best: the 95 % interval of Δ contains 0",
    ]
    if _differ(result) and result.complete:
        lines.append("n: splits; a model gets fewer where more would hardly change its place")
    elif _differ(result):
        lines.append("n: splits; the run ended before all models had as many")
    if left_out:
        lines.append(f"no room for: {', '.join(left_out)} (in --json, and in a wider terminal)")
    return Padding(Text("\n".join(lines), style="dim"), (1, 0, 0, 0))
