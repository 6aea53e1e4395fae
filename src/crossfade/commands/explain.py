"""``crossfade explain MODEL [DATA --row N]``: what does the model say, and why this class?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossfade.commands.options import Encoding, Json, ModelFile, NewDataIfAny, Separator

if TYPE_CHECKING:
    from rich.console import Console

#: Terminal cells of the longest bar.
_BAR = 20

#: Words of a cell of text that are shown, those that add most.
_MOST_WORDS = 8


def explain(
    model: ModelFile,
    data: NewDataIfAny = None,
    row: Annotated[
        int | None,
        typer.Option("--row", "-r", metavar="N", help="Which row; 1 is below the header."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS", help="Compare the prediction with this class, not the second best."
        ),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = None,
) -> None:
    """Show what each column adds to the log-odds of a row's predicted class.

    The baseline and the columns sum to the log of the ratio of the two classes' probabilities.
    Probabilities come with 95 % intervals where the model has standard errors.

    Without DATA: the model's coefficients, with standard errors, intervals and a test of each
    column where the model has them.
    """
    import numpy as np

    from crossfade.classifiers.explanation import explain as explained
    from crossfade.commands.new_rows import NewRows
    from crossfade.commands.output import check_outputs, console, say, write_json
    from crossfade.errors import DataError
    from crossfade.io import load_model

    check_outputs({"--json": json}, *(one for one in (model, data) if one is not None))
    saved = load_model(model)
    if data is None:
        for option, value in (
            ("--row", row),
            ("--against", against),
            ("--separator", separator),
            ("--encoding", encoding),
        ):
            if value is not None:
                raise DataError(
                    f"{option}: expected a table of rows to choose from, got only a model; give "
                    "DATA after it"
                )
        _print_summary(saved.estimator, json)
        return
    if row is None:
        raise DataError(f"--row: expected which row of {data} to explain, got none; give --row 1")
    rows = NewRows(saved, data, separator=separator, encoding=encoding)
    table = rows.row(row)
    posterior = saved.estimator.predict_proba(table)[0]  # refuses what cannot be explained
    explanation = explained(saved.estimator, table)
    labels = explanation.classes.tolist()
    decided = saved.estimator.predict(table)[0]
    first = int(np.flatnonzero(explanation.classes == decided)[0])
    second = _other(labels, posterior, first, against)
    baseline, contributions = explanation.log_odds(labels[first], labels[second])
    cells = table.row(0) if saved.schema.has_names else table[0].tolist()
    content: dict[str, Any] = {
        "row": row,
        "target": saved.about["target"],
        "prediction": labels[first],
        "against": labels[second],
        "probabilities": {str(label): float(p) for label, p in zip(labels, posterior, strict=True)},
        "baseline": float(baseline[0]),
        "columns": [
            {"name": name, "cell": cell, "contribution": float(value)}
            | _words(explanation, name, labels[first], labels[second])
            for name, cell, value in zip(explanation.columns, cells, contributions[0], strict=True)
        ],
        "log_odds": float(baseline[0] + contributions[0].sum()),
    }
    added = {name: each[0, first] - each[0, second] for name, each in explanation.members.items()}
    if added:
        content["members"] = {name: float(value) for name, value in added.items()}
    limits = _limits(saved.estimator, table)
    if limits is not None:
        content["intervals"] = {
            str(label): [float(one[k]) for one in limits] for k, label in enumerate(labels)
        }
    said = [_said(posterior[k], limits, k) for k in (first, second)]
    _print(content, said[0], said[1], data, console())
    for note in rows.notes():
        say(f"note: {note}", stderr=True)
    if json is not None:
        write_json(json, content)


def _print_summary(estimator: Any, json: Path | None) -> None:
    """Print the coefficients, with their standard errors where there are any."""
    from crossfade.commands.output import say, write_json
    from crossfade.errors import DataError

    if not hasattr(estimator, "summary"):
        raise DataError(
            "DATA: expected rows for a model without coefficients of its own, got none; name a "
            "table and --row"
        )
    try:
        found, why = estimator.summary(), None
    except DataError as error:
        found = estimator.summary(errors=False)  # refuses what has no coefficients
        why = f"No standard errors: {str(error).removeprefix('standard errors: ')}."
    say(str(found))
    if why is not None:
        say(f"\n{why}")
    if json is not None:
        frames = {"coefficients": found.frame()}
        if hasattr(found, "tests_frame"):  # weights of a pool are of no columns
            frames["tests"] = found.tests_frame()
        # JSON knows no NaN, which an error that does not exist is.
        write_json(json, {name: frame.fill_nan(None).to_dicts() for name, frame in frames.items()})


def _limits(estimator: Any, table: Any) -> Any:
    """Return limits of a row's probabilities, None where the model has no standard errors."""
    import numpy as np

    from crossfade.errors import DataError

    if not hasattr(estimator, "summary"):
        return None
    try:
        _, low, high = estimator.predict_proba(table, interval=0.95)
    except DataError:  # without the rows, many words: what is explained needs no errors
        return None
    return None if np.isnan(low).any() else (low[0], high[0])


def _said(p: float, limits: Any, k: int) -> str:
    """Return a probability, with its limits where there are any."""
    if limits is None:
        return _share(p)
    return f"{_share(p)} ({_share(limits[0][k])} to {_share(limits[1][k])})"


def _words(explanation: Any, name: str, first: Any, second: Any) -> dict[str, Any]:
    """Return what each word of a cell of text adds, nothing for other columns."""
    if name not in explanation.words:
        return {}
    found = explanation.word_log_odds(name, 0, first, second)
    return {"words": [{"word": word, "contribution": value} for word, value in found]}


def _other(labels: list[Any], posterior: Any, first: int, against: str | None) -> int:
    """Return the position of the class to compare with."""
    from crossfade._checks import listed
    from crossfade.errors import DataError

    if against is None:
        order = (-posterior).argsort(kind="stable").tolist()
        return int(next(k for k in order if k != first))
    texts = [str(label) for label in labels]
    others = [text for k, text in enumerate(texts) if k != first]
    if against not in others:
        raise DataError(
            f"--against: expected a class other than the prediction, {texts[first]!r}, got "
            f"{against!r}; the others are {listed(others)}"
        )
    return texts.index(against)


def _print(content: dict[str, Any], p: str, q: str, data: str, out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from crossfade.commands.output import plain, shortened

    first, second = (
        shortened(str(content[key]), 30) or repr("") for key in ("prediction", "against")
    )
    target = shortened(str(content["target"] or "class"), 30)
    title = Text(f"{shortened(Path(data).name or data, 40)}, row {content['row']:,}: ")
    title.append(f"{target} is {first}", style="bold")
    title.append(f" with probability {p}; {second} has {q}")
    out.print()
    out.print(title, soft_wrap=True)
    out.print(
        Text(f"Log-odds of {first} against {second}, in nats, and what each column adds:"),
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    table.add_column("column", no_wrap=True)
    table.add_column("cell", no_wrap=True, justify="right")
    table.add_column("adds", no_wrap=True, justify="right")
    table.add_column("", no_wrap=True)
    ordered = sorted(content["columns"], key=lambda one: -abs(one["contribution"]))
    largest = max((abs(one["contribution"]) for one in ordered), default=0.0)
    table.add_row(Text("baseline", style="dim"), "", f"{content['baseline']:+z.3f}", "")
    for one in ordered:
        value = one["contribution"]
        cell = one["cell"]
        shown = Text("missing", style="dim") if cell is None or cell != cell else _cell(cell)
        table.add_row(
            Text(shortened(plain(one["name"]), 24) or repr("")), shown, f"{value:+z.3f}",
            _bar(value, largest),
        )  # fmt: skip
        for name, added in _shown_words(one.get("words", ())):
            word = Text(f"  {shortened(plain(name), 22)}", style="dim")
            table.add_row(word, "", f"{added:+z.3f}", _bar(added, largest))
    table.add_section()
    for name, value in content.get("members", {}).items():
        table.add_row(Text(f"in all, by {name}", style="dim"), "", f"{value:+z.3f}", "")
    table.add_row(Text("log-odds", style="bold"), "", f"{content['log_odds']:+z.3f}", "")
    out.print(table)
    out.print()


def _shown_words(words: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return the words that add most, and what all others add together."""
    shown = [(each["word"], each["contribution"]) for each in words[:_MOST_WORDS]]
    rest = [each["contribution"] for each in words[_MOST_WORDS:]]
    return [*shown, (f"({len(rest)} more)", sum(rest))] if rest else shown


def _cell(value: Any) -> Any:
    from rich.text import Text

    from crossfade.commands.output import shortened

    if isinstance(value, float):
        return Text(f"{value:.6g}")
    return Text(shortened(str(value), 24))


def _share(p: float) -> str:
    """Return a probability so that neither 0 nor 1 is said where it is not so."""
    if p < 0.0005:
        return f"{p:.1e}"
    return f"{p:.3f}" if p <= 0.9995 else f"1 - {1 - p:.1e}"


def _bar(value: float, largest: float) -> Any:
    from rich.text import Text

    length = round(_BAR * abs(value) / largest) if largest else 0
    return Text("█" * length if value > 0 else "░" * length, style="green" if value > 0 else "red")
