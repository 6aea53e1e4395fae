"""What a random field's weights are, and what they did to a sequence, as data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._optional import import_optional
from crossfade._typing import Integers
from crossfade.chains import recursions
from crossfade.chains.attributes import Attribute, EncodedSequences
from crossfade.chains.decoding import Potentials


def weights_frame(table: Any, names: list[Attribute], classes: NDArray[Any]) -> Any:
    """Return the state weights, a sparse array (n_attributes, n_labels), as a frame."""
    table = table.tocoo()
    order = np.argsort(-np.abs(table.data), kind="stable")
    attributes: list[Attribute | None] = [names[number] for number in table.row[order]]
    return _frame(
        {
            **_attribute_columns(attributes),
            "label": classes[table.col[order]].tolist(),
            "weight": table.data[order],
        }
    )


def contributions_frame(
    encoded: EncodedSequences,
    chain: Potentials,
    path: Integers,
    weights: Any,
    classes: NDArray[Any],
) -> Any:
    """Return what each weight does for the best path against each token's runner-up.

    Shapes: path (n_tokens,); weights (n_attributes, n_labels); classes (n_labels,).
    """
    marginals = recursions.forward_backward(*chain).marginals
    _, _, start, edges, stop = chain
    names = encoded.encoder.names
    values = encoded.values
    rows: list[tuple[int, int, str, Any, float]] = []
    others = np.empty_like(path)
    for t, label in enumerate(path):
        ranked = marginals[t].copy()
        ranked[label] = -1.0
        others[t] = other = int(ranked.argmax()) if len(ranked) > 1 else label
        here: list[tuple[str, Any, float]] = []
        for e in range(encoded.token_starts[t], encoded.token_starts[t + 1]):
            number = int(encoded.attributes[e])
            value = 1.0 if values is None else values[e]
            gain = value * (weights[number, label] - weights[number, other])
            here.append(("state", names[number], float(gain)))
        if t == 0:
            here.append(("start", None, float(start[label] - start[other])))
        else:
            before = path[t - 1]
            gain = float(edges[before, label] - edges[before, other])
            here.append(("transition from", str(classes[before]), gain))
        if t == len(path) - 1:
            here.append(("stop", None, float(stop[label] - stop[other])))
        else:
            after = path[t + 1]
            gain = float(edges[label, after] - edges[other, after])
            here.append(("transition to", str(classes[after]), gain))
        here.sort(key=lambda row: -abs(row[2]))
        rows.extend((t, other, *row) for row in here)
    tokens = [row[0] for row in rows]
    return _frame(
        {
            "token": tokens,
            "label": classes[path[tokens]].tolist(),
            "probability": marginals[tokens, path[tokens]],
            "instead": classes[others[tokens]].tolist(),
            "kind": [row[2] for row in rows],
            **_attribute_columns([row[3] for row in rows]),
            "contribution": [row[4] for row in rows],
        }
    )


def _frame(columns: dict[str, Any]) -> Any:
    polars = import_optional("polars", "data frames")
    # A column of nulls alone would have no type.
    return polars.DataFrame(
        columns, schema_overrides={"attribute": polars.String, "value": polars.String}
    )


def _attribute_columns(attributes: list[Attribute | None]) -> dict[str, list[str | None]]:
    pairs = [name if isinstance(name, tuple) else (name, None) for name in attributes]
    return {
        "attribute": [None if name is None else str(name) for name, _ in pairs],
        "value": [value for _, value in pairs],
    }
