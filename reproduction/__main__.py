"""``python -m reproduction NAME``: a published experiment, repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from crossfade._optional import versions

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from reproduction import Experiment, Outcome, Section, Settings


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit, in the manners of Crossfade's command line."""
    from crossfade import cli

    cli.main(arguments, _app, "python -m reproduction")


def _app() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command()(reproduce)
    return app


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The experiment; --list shows all.", show_default=False
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of data sets, NAME.csv[.gz] with a column 'target', searched with its "
            "subfolders. Default: the environment variable CROSSFADE_DATA. What is not there is "
            "fetched from OpenML.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write NAME.csv, NAME.png and NAME.json there.", show_default=False
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Show what an earlier run with --out DIR found, instead of running.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Trials, runs or splits.  [default: as published]", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all that is random.")] = 0,
    zero_one: Annotated[
        bool,
        typer.Option(
            "--zero-one",
            help="ng-jordan: the linear classifier of least training error takes part. It is slow: "
            "lower --repeats.",
        ),
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the experiments, their papers and times.")
    ] = False,
) -> None:
    """Repeat a published experiment and set the result beside what was printed."""
    from crossfade.errors import DataError
    from reproduction import Settings, experiment, names

    if list_:
        _print_list([experiment(one) for one in names()])
        return
    if name is None:
        raise DataError(f"NAME: expected one of {', '.join(names())}, got none; --list tells more")
    chosen = experiment(name)
    if from_ is not None:
        _print(_read(from_, name))
        return
    if repeats is not None and repeats < 1:
        raise DataError(f"--repeats: expected a positive number, got {repeats}; 1 is the least")
    if seed < 0:
        raise DataError(f"--seed: expected 0 or more, got {seed}; 0 is the default")
    if zero_one and not chosen.has_zero_one:
        having = ", ".join(one for one in names() if experiment(one).has_zero_one)
        raise DataError(
            f"--zero-one: expected with an experiment that has this classifier ({having}), got "
            f"{name!r}; leave it out"
        )
    if out is not None:
        _prepare(out, chosen.name)
    number = chosen.repeats if repeats is None else repeats
    _run(chosen, Settings(number, seed, data, zero_one=zero_one), out)


def _run(chosen: Experiment, settings: Settings, out: Path | None) -> None:
    from time import perf_counter

    from crossfade.commands.output import live_progress

    started = perf_counter()
    with live_progress(chosen.name) as progress:
        outcome = chosen.run(replace(settings, progress=progress))
    report = _report(chosen, outcome, settings, perf_counter() - started)
    if out is not None:
        _write(out, chosen, outcome, report)
    _print(report)


def _report(
    chosen: Experiment, outcome: Outcome, settings: Settings, seconds: float
) -> dict[str, Any]:
    """Return what NAME.json holds."""
    return {
        "experiment": chosen.name,
        "source": chosen.source,
        "question": chosen.question,
        "seed": settings.seed,
        "repeats": settings.repeats,
        "published_repeats": chosen.repeats,
        "unit": chosen.unit,
        "seconds": round(seconds, 1),
        "versions": versions(),
        "findings": list(outcome.findings),
        "tables": [
            {"title": one.title, "columns": list(one.columns), "rows": [*map(list, one.rows)]}
            for one in outcome.sections
        ],
        **outcome.facts,
    }


# -- files ---------------------------------------------------------------------------------------


def _prepare(out: Path, name: str) -> None:
    """Make the folder and refuse what could not be written, before the work and not after."""
    from crossfade.charts.files import check_available
    from crossfade.commands.output import check_writable
    from crossfade.errors import DataError

    check_available()
    if out.exists() and not out.is_dir():
        raise DataError(f"--out: expected a folder, got the file {str(out)!r}; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    for suffix in ("csv", "png", "json"):
        check_writable(out / f"{name}.{suffix}", "--out")


def _write(out: Path, chosen: Experiment, outcome: Outcome, report: dict[str, Any]) -> None:
    from crossfade.charts.files import drawn
    from crossfade.commands.output import write_json
    from crossfade.files import write_whole

    picture = drawn(outcome.chart())
    write_whole(out / f"{chosen.name}.csv", outcome.csv().encode())
    write_whole(out / f"{chosen.name}.png", picture)
    write_json(out / f"{chosen.name}.json", report)


def _read(folder: Path, name: str) -> dict[str, Any]:
    """Return the report of an earlier run."""
    import json

    from crossfade.errors import DataError

    path = folder / f"{name}.json"
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if report["experiment"] != name:
            raise KeyError(name)
        return report
    except FileNotFoundError:
        raise DataError(
            f"--from: expected {name}.json in {str(folder)!r}, got none; --out {folder} writes it"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"--from: expected a report of {name} in {str(path)!r}, got something else; write it "
            f"anew with --out {folder}"
        ) from None


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from crossfade.commands.output import console, list_item
    from reproduction import Section

    out = console()
    out.print()
    title = Text(report["source"], style="bold")
    title.append(f"  {report['repeats']:,} {report['unit']}, seed {report['seed']}", style="dim")
    out.print(title)
    out.print(Text(report["question"], style="dim"))
    for one in report["tables"]:
        section = Section(one["title"], tuple(one["columns"]), tuple(map(tuple, one["rows"])))
        out.print()
        out.print(Text(section.title, style="bold"))
        out.print(_fitting_table(section, out))
    out.print()
    for sentence in report["findings"]:
        out.print(list_item("·", sentence))
    out.print(
        list_item("·", f"{report['seconds']:.0f} s, crossfade {report['versions']['crossfade']}")
    )
    out.print()


def _fitting_table(section: Section, out: Console) -> Table:
    """Return the table with the widest gaps that the terminal has room for."""
    from rich.measure import Measurement

    roomy = out.options.update(width=1000)  # a measurement is never wider than its options
    for gap in (2, 1, 0):
        table = _table(section, gap)
        if Measurement.get(out, roomy, table).maximum <= out.width:
            break
    return table


def _table(section: Section, gap: int) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False, pad_edge=False)
    for number, heading in enumerate(section.columns):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
    before = None
    for row in section.rows:
        # What repeats from line to line is said once.
        table.add_row("" if row[0] == before else row[0], *row[1:])
        before = row[0]
    return table


def _print_list(experiments: list[Experiment]) -> None:
    from crossfade.commands.output import console
    from reproduction import Section

    out = console()
    section = Section(
        "",
        ("name", "source", "repeats", "minutes"),
        tuple(
            (one.name, one.source, f"{one.repeats:,} {one.unit}", f"{one.minutes:g}")
            for one in experiments
        ),
    )
    out.print(_fitting_table(section, out))
    out.print("Minutes are of two cores, for the published number of repeats.")


if __name__ == "__main__":
    main()
