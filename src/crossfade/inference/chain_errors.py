"""Standard errors of a chain's weights given its observations, a sequence being the unit of chance.

The weights solve Σ_s ψ_s = l2 · weights, ψ_s the gradient of one sequence's conditional
log-likelihood, so that their covariance is H⁻¹ J H⁻¹ with H the Hessian of the objective, penalty
and all, and J the covariance of the ψ_s (Huber 1967, White 1982): steps of a sequence may depend
on each other in any way.

Some weights can be shifted without any posterior changing. What does not change with them are the
log-odds of a state against another at one step, given the step's neighbours and its observation:
what is shown are the coefficients of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.inference.sandwich import covariance_of_total
from crossfade.inference.summary import CoefficientSummary, of_coefficients

#: Most weights: the Hessian comes from so many pairs of gradients.
_MOST_WEIGHTS = 500

#: Step of the differences, for a weight of which one sequence says one unit.
_DIFFERENCE = 1e-4

#: Curvature, relative to a weight's own, that differences cannot tell from none.
_FLAT = 1e-7


def check_few(n_weights: int) -> None:
    """Refuse weights that are too many for a Hessian."""
    if n_weights > _MOST_WEIGHTS:
        raise DataError(
            f"summary: expected at most {_MOST_WEIGHTS} weights, got {n_weights}, whose "
            "Hessian would take too long; bootstrap the sequences"
        )


@dataclass(frozen=True)
class ChainErrors:
    """Weights as one vector, (n_weights,), their covariance, and what has no curvature.

    `open` (n_weights, n_open): Directions of the scaled weights that are open.
    `sizes` (n_weights,): One by the root of each weight's curvature.
    `away`: How far the weights are from the optimum, in standard errors of where it is.
    """

    vector: Floats
    covariance: Floats
    n_sequences: float
    open: Floats
    sizes: Floats
    away: float

    @classmethod
    def of(
        cls,
        gradient: Callable[[Floats], Floats],
        vector: Floats,
        gradients: Floats,
        shifts: Floats | None = None,
    ) -> ChainErrors:
        """Return the errors of weights at which an objective has its minimum.

        `gradients` (n_sequences, n_weights): Of single sequences, without the penalty.
        `shifts` (n_weights, n_weights): The projection on what no posterior notices.
        """
        if len(gradients) < 2:
            raise DataError(
                "summary: expected at least two sequences, whose differences give the errors, got "
                f"{len(gradients)}; cut a long sequence into some"
            )
        H = _hessian(gradient, vector, (gradients**2).mean(axis=0))
        if shifts is not None:
            H += np.diagonal(H).mean() * shifts
        curvature = np.diagonal(H)
        sizes = 1.0 / np.sqrt(np.maximum(curvature, _FLAT * curvature.max()))
        values, vectors = np.linalg.eigh(H * sizes * sizes[:, None])
        kept = values > _FLAT * values[-1]
        root = vectors[:, kept] * sizes[:, None] / np.sqrt(values[kept])
        moved = (gradients @ root) @ root.T

        def influences(rows: slice) -> tuple[Floats, Floats]:
            return moved[rows], np.ones(len(moved[rows]))

        covariance, n = covariance_of_total(influences, len(moved), None, block_rows=len(moved))
        away = float(np.linalg.norm(gradient(vector) @ root))
        return cls(vector, covariance, n, vectors[:, ~kept], sizes, away)

    def unknown(self, contrasts: Floats) -> NDArray[np.bool_]:
        """Return which contrasts, (n, n_weights), the sequences leave open, or no weight is in."""
        scaled = contrasts * self.sizes
        along = np.linalg.norm(scaled @ self.open, axis=1)
        found: NDArray[np.bool_] = along > 1e-4 * np.linalg.norm(scaled, axis=1)
        found |= ~contrasts.any(axis=1)
        return found


def _hessian(gradient: Callable[[Floats], Floats], vector: Floats, squares: Floats) -> Floats:
    """Return the Hessian by central differences.

    `squares` (n_weights,): Mean squares of a sequence's gradient.
    """
    H = np.empty((vector.size, vector.size))
    for j, square in enumerate(squares.tolist()):
        step = _DIFFERENCE / np.sqrt(max(square, 1e-4))
        sides = []
        for side in (step, -step):
            moved = vector.copy()
            moved[j] += side
            sides.append(gradient(moved))
        H[j] = (sides[0] - sides[1]) / (2.0 * step)
    return 0.5 * (H + H.T)


class ChainTables(NamedTuple):
    """What a path adds up: at its start, from state to state, at its stop, and by its features.

    Shapes: start, stop (n_states,); moves (n_states, n_states); features (n_states, n_features).
    """

    start: Floats
    moves: Floats
    stop: Floats
    features: Floats


@dataclass(frozen=True)
class ChainTerms:
    """What the features are called, and which belong to a column of X."""

    features: Sequence[str]
    columns: Mapping[str, Sequence[int]]


def summarise_chain(
    name: str,
    errors: ChainErrors,
    tables: Callable[[Floats], ChainTables],
    terms: ChainTerms,
    *,
    facts: tuple[tuple[str, str], ...],
    labels: list[Any],
    against: int,
    level: float,
) -> CoefficientSummary:
    """Return the coefficients of the log-odds; `tables` is linear in the weights."""
    contrasts = _contrasts(tables, len(labels), against, errors.vector.size)
    flat = contrasts.reshape(-1, contrasts.shape[-1])
    unknown = errors.unknown(flat)
    notes = ["Standard errors: sandwich, sequences being the units."]
    if unknown.any():
        notes.append("What the sequences of fit leave open has no error.")
    after = [f"after {label}" for code, label in enumerate(labels) if code != against]
    own = [_apart(one, terms.features) for one in ("intercept", "first step", "last step", *after)]
    columns = {_apart("neighbours", terms.columns): list(range(3, len(own)))}
    columns |= {name: [len(own) + term for term in used] for name, used in terms.columns.items()}
    return of_coefficients(
        name=name,
        facts=(("sequences", f"{errors.n_sequences:g}"), *facts),
        notes=tuple(notes),
        labels=labels,
        against=against,
        terms=[*own, *terms.features],
        columns=columns,
        values=contrasts @ errors.vector,
        covariance=flat @ errors.covariance @ flat.T,
        level=level,
        unknown=unknown,
    )


def _apart(name: str, taken: Collection[str]) -> str:
    """Return a name of the chain's own that none of the features has."""
    while name in taken:
        name += " (chain)"
    return name


def _contrasts(
    tables: Callable[[Floats], ChainTables], n_states: int, against: int, n_weights: int
) -> Floats:
    """Return coefficients as linear functions, (n_states - 1, n_terms, n_weights)."""
    others = np.delete(np.arange(n_states), against)

    def coefficients(vector: Floats) -> Floats:
        start, moves, stop, features = tables(vector)
        entered, left = moves[against] - moves[against, against], moves[:, against]
        left = left - left[against]
        first = start - start[against] - entered
        last = stop - stop[against] - left
        after = moves - moves[against] - (moves[:, [against]] - moves[against, against])
        parts = [entered + left, first, last, after[others].T, features - features[against]]
        return np.column_stack(parts)[others]

    return np.stack([coefficients(e) for e in np.eye(n_weights)], axis=-1)
