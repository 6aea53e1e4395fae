"""From quadratic surfaces over a plane to the cells and lines that a chart draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from crossfade._typing import Floats

#: Cells per axis, and nodes per axis that boundaries are followed on.
_CELLS = 36
_NODES = 49


def posterior_cells(surfaces: Floats, low: Floats, high: Floats) -> list[dict[str, Any]]:
    """Return the most probable class and its posterior in each cell, for each place on a path.

    Shapes: surfaces (n_places, 6, n_classes); low, high (2,).
    """
    edges = [np.linspace(a, b, _CELLS + 1) for a, b in zip(low, high, strict=True)]
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    scores = _scores(surfaces, *middles)
    winner = scores.argmax(axis=-1)
    scores -= scores.max(axis=-1, keepdims=True)
    sure = 1.0 / np.exp(scores).sum(axis=-1)
    x, y = (np.round(e, 4).tolist() for e in edges)
    return [
        {
            "x": x[j],
            "x2": x[j + 1],
            "y": y[i],
            "y2": y[i + 1],
            "k": winner[:, i, j].tolist(),
            "p": np.round(sure[:, i, j], 3).tolist(),
        }
        for i in range(_CELLS)
        for j in range(_CELLS)
    ]


def boundary_lines(surfaces: Floats, low: Floats, high: Floats) -> list[dict[str, float]]:
    """Return where the most probable class changes, as short lines, square by square of a grid.

    An edge between two classes is cut where their scores are equal; two cuts make a line, three or
    four meet in their middle.
    """
    xs, ys = (np.linspace(a, b, _NODES) for a, b in zip(low, high, strict=True))
    lines = []
    for place, scores in enumerate(_scores(surfaces, xs, ys)):
        winner = scores.argmax(axis=-1)
        mixed = (
            (winner[1:, 1:] != winner[:-1, 1:])
            | (winner[1:, :-1] != winner[:-1, :-1])
            | (winner[1:, 1:] != winner[1:, :-1])
            | (winner[:-1, 1:] != winner[:-1, :-1])
        )
        for i, j in np.argwhere(mixed).tolist():
            corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
            cuts = []
            for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
                if winner[a] != winner[b]:
                    share = _share(scores[a], scores[b], winner[a], winner[b])
                    cuts.append(
                        (
                            xs[a[1]] + share * (xs[b[1]] - xs[a[1]]),
                            ys[a[0]] + share * (ys[b[0]] - ys[a[0]]),
                        )
                    )
            if len(cuts) == 2:
                pairs = [(cuts[0], cuts[1])]
            else:
                middle = tuple(np.mean(cuts, axis=0))
                pairs = [(cut, middle) for cut in cuts]
            for (x, y), (x2, y2) in pairs:
                where = {"x": x, "y": y, "x2": x2, "y2": y2}
                lines.append(
                    {"place": float(place)} | {k: round(float(v), 4) for k, v in where.items()}
                )
    return lines


def _share(a: Floats, b: Floats, first: int, second: int) -> float:
    """Return how far along an edge the scores of its ends' classes are equal."""
    before, after = a[first] - a[second], b[first] - b[second]
    return float(before / (before - after)) if before > after else 0.5


def _scores(surfaces: Floats, xs: Floats, ys: Floats) -> Floats:
    """Return class scores at the nodes of a grid, shape (n_places, n_ys, n_xs, n_classes)."""
    u, v = np.meshgrid(xs, ys)
    terms = quadratic(np.stack([u, v], axis=-1))
    return np.einsum("yxt,ptk->pyxk", terms, surfaces)


def quadratic(plane: Floats) -> Floats:
    """Return 1, u, v, u², uv and v² of points (u, v). Shapes: plane (..., 2); → (..., 6)."""
    u, v = plane[..., 0], plane[..., 1]
    return np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=-1)
