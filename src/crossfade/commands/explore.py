"""``crossfade explore DATA``: the page, served on this machine and live."""

from __future__ import annotations

from typing import Annotated

import typer

from crossfade.commands.options import (
    Cost,
    Data,
    Drop,
    Encoding,
    Missing,
    Seed,
    Separator,
    Target,
    Text,
    read_cost,
)


def explore(
    data: Data,
    target: Target = None,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 127.0.0.1 serves this machine only.")
    ] = "127.0.0.1",
    seed: Seed = 0,
    cost: Cost = None,
    drop: Drop = None,
    missing: Missing = None,
    text: Text = None,
    separator: Separator = None,
    encoding: Encoding = None,
) -> None:
    """Look at a comparison in the browser, and change columns, classes, models and λ.

    Prints an address with a secret in it, which only this machine can open, and serves the page of
    'compare --out' there until Ctrl-C. Nothing can be uploaded.
    """
    from crossfade.commands.explore_app import serve
    from crossfade.commands.tables import open_table

    table = open_table(
        data, target, drop=drop, missing=missing, text=text, separator=separator, encoding=encoding
    ).named()
    serve(table, host=host, port=port, random_state=seed, cost=read_cost(cost))
