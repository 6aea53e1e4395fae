"""``crossfade export MODEL``: the model for another runtime, or as plain numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossfade.commands.options import ModelFile


def export(
    model: ModelFile,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model as ONNX, for onnxruntime.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write coefficients as JSON: naive Bayes, shared and diagonal Gaussians.",
        ),
    ] = None,
) -> None:
    """Write a model as ONNX, or as plain coefficients, for programs that are not Python."""
    from crossfade._checks import counted
    from crossfade.commands.output import check_outputs, say, write_json
    from crossfade.errors import DataError
    from crossfade.files import write_whole
    from crossfade.io import coefficients, load_model, to_onnx

    if onnx is None and json is None:
        raise DataError("--onnx, --json: expected at least one file to write, got none; name one")
    check_outputs({"--onnx": onnx, "--json": json}, model)
    saved = load_model(model)
    # Both are made before either is written.
    graph = None if onnx is None else to_onnx(saved.estimator)
    numbers = None if json is None else coefficients(saved.estimator)
    if onnx is not None and graph is not None:
        write_whole(onnx, graph.SerializeToString())
        n = len(graph.graph.input)
        say(f"{onnx}: ONNX, {counted(n, 'input')}, outputs label and probabilities", stderr=True)
    if json is not None and numbers is not None:
        about = {key: saved.about[key] for key in ("model", "target", "crossfade")}
        write_json(json, about | numbers)
        n = len(numbers["columns"])
        say(f"{json}: coefficients of {counted(n, 'column')}", stderr=True)
