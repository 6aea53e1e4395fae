"""``crossfade explore DATA``: the page, served on this machine and live."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explore", short_help="Look at a comparison in the browser, and change it.")(
        explore
    )


def explore(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A CSV, TSV or Parquet file (also .gz), or the name of a bundled data set.",
            show_default=False,
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="COL", help="Column to predict; 'target' if there is one."
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines reach only this one.")
    ] = "127.0.0.1",
    seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 0,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", help="Column to leave out, such as a row number; may be repeated."
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(metavar="CELL", help="Cell that means missing, such as 999; may be repeated."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL", help="Column to read as text, such as a code; may be repeated."
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="What separates cells, if neither comma nor tab."),
    ] = None,
) -> None:
    """Look at a comparison in the browser, and change columns, classes, models and λ.

    Prints an address with a secret in it, which only this machine can open, and serves the page of
    'compare --out' there until Ctrl-C. Nothing can be uploaded.
    """
    from crossfade.commands.explore_app import serve
    from crossfade.commands.tables import open_table

    table = open_table(
        data,
        target=target,
        drop=drop or (),
        missing_values=missing or (),
        text=text or (),
        separator=separator,
    ).named()
    serve(table, host=host, port=port, random_state=seed)
