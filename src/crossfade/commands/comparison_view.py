"""A comparison on the terminal: the table, what to know about it, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from crossfade.commands.output import console, list_item, plain, shortened
from crossfade.comparison.results import ComparisonResult, ModelResult
from crossfade.evaluation.scores import METRIC_LABELS, Estimate

if TYPE_CHECKING:
    from crossfade.commands.tables import OpenTable

__all__ = ["print_result"]

_NAME_WIDTH: Final = 20

#: Headings of the score columns, in the order shown.
_SCORES: Final = {"error": "error %", "log_loss": "log-loss", "brier": "Brier"}


def print_result(result: ComparisonResult, table: OpenTable, out: Console | None = None) -> None:
    """Print the table, its notes and the verdict."""
    out = out or console()
    out.print()
    for line in _heading(result, table):
        out.print(line)
    shown, left_out = _fitting_table(result, out)
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
    out.print()


def _heading(result: ComparisonResult, table: OpenTable) -> list[Text]:
    data = result.data
    title = Text()
    title.append(shortened(Path(table.name).name or table.name, 36), style="bold")
    title.append(f"  {data.n_rows:,} rows, {_count(data.n_columns, 'column')}, ")
    title.append(f"{len(data.classes):,} classes")
    target = Text(f"{shortened(table.target, 30)}: ", style="dim")
    target.append(_classes(data.classes, data.class_counts))
    kinds = Text("columns: ", style="dim")
    kinds.append(_kinds(data.column_names, data.column_kinds))
    splits = Text(
        f"{_count(result.n_splits, 'split')} of {result.n_train:,} training and "
        f"{result.n_test:,} test rows, seed {result.random_state}",
        style="dim",
    )
    return [title, target, kinds, splits]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _classes(labels: Sequence[str], counts: Sequence[int], at_most: int = 6) -> str:
    order = sorted(range(len(labels)), key=lambda k: (-counts[k], k))
    shown = [f"{shortened(labels[k], 20) or repr('')} ({counts[k]:,})" for k in order[:at_most]]
    rest = len(labels) - at_most
    return ", ".join(shown) + (f" and {rest} more classes" if rest > 0 else "")


def _kinds(names: Sequence[str], kinds: Sequence[str], at_most: int = 4) -> str:
    """Return how many columns of each kind there are, and which, where that is short to say."""
    parts = []
    for kind in dict.fromkeys(kinds):
        members = [n for n, k in zip(names, kinds, strict=True) if k == kind]
        part = f"{len(members):,} {kind}"
        if len(members) <= at_most and len(set(kinds)) > 1:
            part += f" ({', '.join(shortened(name, 20) or repr('') for name in members)})"
        parts.append(part)
    return ", ".join(parts)


# -- the table -----------------------------------------------------------------------------------


def _fitting_table(result: ComparisonResult, out: Console) -> tuple[Table, list[str]]:
    """Return the table without the columns that the terminal has no room for, and those."""
    left_out: list[str] = []
    roomy = out.options.update(width=1000)  # a measurement is never wider than its options
    for extra in ("fit", "brier", "error", ""):
        table = _table(result, left_out)
        if not extra or Measurement.get(out, roomy, table).minimum <= out.width:
            break
        left_out.append(extra)
    return table, left_out


def _table(result: ComparisonResult, left_out: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False)
    columns = _columns(result)
    kept = [column for column in columns if column not in left_out]
    table.add_column("model", no_wrap=True, min_width=_NAME_WIDTH)
    for column in kept:
        heading = columns[column]
        cells = [cell for model in result.models if (cell := _cell(column, model, result))]
        # Rich would rather cut a number short than leave out a column.
        width = max(cell_len(text.plain) for text in [heading, *cells])
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    family = None
    for model in result.models:
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
        **{metric: Text(f"{heading} ") for metric, heading in _SCORES.items()},
        "difference": Text(f"Δ {difference}"),
        "fit": Text(f"fit {_unit(result)[0]}"),
    }


def _cell(column: str, model: ModelResult, result: ComparisonResult) -> Text:
    if model.failure is not None:
        return Text("failed", style="red") if column == "difference" else Text("")
    if column == "difference":
        return _difference(model, result)
    if column == "fit":
        return _seconds(model.fit_seconds, *_unit(result))
    return _score(model.estimates.get(column), column, _lowest(result, column))


def _unit(result: ComparisonResult) -> tuple[str, float]:
    """Return the unit of all fit times, and how many of it make a second."""
    times = [model.fit_seconds.mean for model in result.models if model.fit_seconds is not None]
    return ("s", 1.0) if max(times, default=0.0) >= 1 else ("ms", 1e3)


def _lowest(result: ComparisonResult, metric: str) -> float:
    values = (m.estimates[metric].mean for m in result.models if metric in m.estimates)
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
    return f"{name} λ={value:.2g}" if isinstance(value, float) else name


def _score(value: Estimate | None, metric: str, lowest: float) -> Text:
    if value is None:
        return Text("– ", style="dim")
    mean, error = _pair(value.mean, value.standard_error, metric)
    best = value.mean == lowest
    cell = Text(mean, style="bold green" if best else "")
    cell.append(f" ±{error}", style="dim")
    cell.append("*" if best else " ", style="bold green")
    return cell


def _difference(model: ModelResult, result: ComparisonResult) -> Text:
    if model.name == result.best:
        return Text("best", style="bold green")
    gap = model.differences.get(result.criterion)
    if gap is None:
        return Text("–", style="dim")
    mean, half = _pair(gap.mean, (gap.high - gap.low) / 2, result.criterion)
    cell = Text("" if gap.excludes_zero else "≈ ", style="yellow")
    cell.append(f"+{mean}", style="default")
    cell.append(f" ±{half}", style="dim")
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


def _seconds(value: Estimate | None, unit: str, scale: float) -> Text:
    if value is None:
        return Text("–", style="dim")
    mean, error = value.mean * scale, value.standard_error * scale
    if unit == "s" and mean < 0.005:
        return Text("<.01")
    decimals = 0 if unit == "ms" and mean >= 9.95 else 1 if unit == "ms" or mean >= 9.95 else 2
    cell = Text(_number(mean, decimals))
    cell.append(f" ±{_number(error, decimals)}", style="dim")
    return cell


def _legend(result: ComparisonResult, left_out: Sequence[str]) -> Padding:
    label = METRIC_LABELS[result.criterion]
    lines = [
        "* lowest of its column; ± one standard error, corrected for splits sharing rows",
        f"Δ {label} above the best, paired over splits, ± half its 95 % interval",
        "≈ not to be told apart from the best: that interval holds 0",
    ]
    if left_out:
        lines.append(f"no room for: {', '.join(left_out)} (in --json, and at 80 columns)")
    return Padding(Text("\n".join(lines), style="dim"), (1, 0, 0, 0))
