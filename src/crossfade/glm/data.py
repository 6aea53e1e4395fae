"""The rows of a regression, and all that a fit asks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm.design import Design, measure, stacked_triangle
from crossfade.glm.families import Family

Sums = TypeVar("Sums")
Result = TypeVar("Result")


def no_rows_at_hand(what: str) -> DataError:
    """Return the error of what needs the rows one by one."""
    return DataError(
        f"{what}: expected a model that was fitted to a table in memory, got rows that are read in "
        "parts, of which only sums are known; fit to a table in memory, or to a sample of the rows"
    )


@dataclass(frozen=True)
class Data:
    """Rows of a regression: X (n_rows, n_features) and, of shape (n_rows,), y and the rest.

    `y`: Successes, counts or class codes.
    `size`: Trials or exposure.
    `weights`: How often each row counts, all positive, or None.
    `at_hand`: Whether they can be looked at one by one.
    """

    at_hand: ClassVar[bool] = True

    X: NDArray[Any]
    y: Floats
    size: Floats
    weights: Floats | None = None
    offset: Floats | None = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    @property
    def total_weight(self) -> float:
        """Return how many observations the rows stand for."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    @property
    def occasions(self) -> float:
        """Return the summed sizes, by weight."""
        return float(self.size.sum() if self.weights is None else self.size @ self.weights)

    @property
    def responses(self) -> float:
        """Return the summed responses, by weight."""
        weights = np.ones(self.n_rows) if self.weights is None else self.weights
        return float(weights @ self.y)

    @property
    def largest_size(self) -> float:
        """Return the largest size."""
        return float(self.size.max())

    @property
    def offsets(self) -> tuple[float, float]:
        """Return the mean and the least offset; 0 where there is none."""
        if self.offset is None:
            return 0.0, 0.0
        return float(self.offset.mean()), float(self.offset.min())

    def sign_range(self, family: Family) -> tuple[float, float]:
        """Return the least and the largest of what rows ask for (see ``recession_signs``)."""
        signs = family.recession_signs(self.y, self.size)
        return float(signs.min()), float(signs.max())

    def total(self, function: Callable[[Data], Sums]) -> Sums:
        """Return the sum of a function over all parts of the rows: these here are one part."""
        return function(self)

    def at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return the results of several works, which take their sums in common passes."""
        return [work() for work in works]

    def measured(self, intercept: bool, names: list[str]) -> Design:
        """Return the design of the rows."""
        return measure(self.X, intercept, names, self.weights)

    @property
    def sample(self) -> Data:
        """Some rows that a fit can start from: all of them."""
        return self

    def collected(self, function: Callable[[Data], Result], join: Callable[..., Result]) -> Result:
        """Return what a function makes of every part, joined."""
        return function(self)

    def filtered(self, keep: Callable[[Data], NDArray[np.bool_]]) -> Data:
        """Return the rows of which a function says so."""
        return self.take(np.flatnonzero(keep(self)))

    def triangle(self, design: Design, root: Callable[[Data], Floats | None]) -> Floats:
        """Return R of √w Z = Q R; `root` gives √w, None for all one."""
        return stacked_triangle(design, root(self))

    def bare(self) -> Data:
        """Return the rows without their columns."""
        return replace(self, X=np.empty((self.n_rows, 0)))

    def take(self, rows: NDArray[Any], factors: Floats | None = None) -> Data:
        """Return some rows, each counting `factors` times as often."""
        weights = factors
        if self.weights is not None:
            weights = self.weights[rows] * (1.0 if factors is None else factors)
        offset = None if self.offset is None else self.offset[rows]
        X = self.X.take(rows, axis=0)  # twice as fast as indexing
        return Data(X, self.y[rows], self.size[rows], weights, offset)
