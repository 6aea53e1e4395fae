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

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.inference.sandwich import covariance_of_total
from crossfade.inference.summary import CoefficientSummary, code_of_reference, of_coefficients

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


class ChainParts(NamedTuple):
    """What a model's summary is made of; `tables` is linear in the weights."""

    errors: ChainErrors
    tables: Callable[[Floats], ChainTables]
    terms: ChainTerms
    facts: tuple[tuple[str, str], ...]


class ChainSummary(ABC):
    """The summary of a model of labels given observations: a field, or a chain at tradeoff 0."""

    classes_: NDArray[Any]

    @abstractmethod
    def _parts(self, X: Any, y: Any, lengths: ArrayLike | None) -> ChainParts:
        """Return the parts from the sequences of fit."""

    def summary(
        self,
        X: Any,
        y: Any,
        lengths: ArrayLike | None = None,
        *,
        level: float = 0.95,
        reference: Any = None,
    ) -> CoefficientSummary:
        """Return the coefficients of the log-odds, with errors, intervals and tests.

        The log-odds are those of a label against the `reference` at one step, given its observation
        and its neighbours' labels. The intercept is that between two neighbours with the reference.
        "first step" and "last step" are added where there is no neighbour before, or after. "after
        A" is added where the label before is A; of label B it is what A adds where the label after
        is B, too. The others are those of attributes, or of columns of X.

        The errors are those of the sandwich H⁻¹ J H⁻¹ (Huber 1967, White 1982) with sequences as
        units: they hold where steps of a sequence depend on each other in other ways than the
        model has it.

        Parameters
        ----------
        X, y, lengths
            The sequences of fit with their labels; the model does not keep them.
        level : float, default=0.95
            Coverage of the intervals.
        reference : label, optional
            The label that the others are compared with; the first by default.

        Returns
        -------
        CoefficientSummary
            Prints as text. ``.tests`` has the Wald tests that neighbours, and that attributes of
            one name or columns of X, say nothing of the label.

        Raises
        ------
        DataError
            Of a hidden Markov model at other tradeoffs than 0, of a random field with an `l1`
            penalty or transitions that are forbidden, of more than 500 weights, of a fit that was
            stopped far from its optimum, or if these are not the sequences of fit.

        Notes
        -----
        The Hessian comes from central differences of the exact gradient. The penalty is taken as
        given: an interval is for what the penalised fit tends to. So is which weights a random
        field has; a pair of attribute and label without one counts as 0. What the sequences leave
        open (transitions where all have one step, with l2=0) has no error.

        Examples
        --------
        >>> from crossfade import ConditionalRandomField, HiddenMarkovModel
        >>> truth = HiddenMarkovModel.from_parameters(
        ...     [0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], means=[[0.0], [1.0]], covars=[[1.0], [1.0]]
        ... )
        >>> X, y = truth.sample([10] * 100, random_state=0)
        >>> chain = HiddenMarkovModel(emission="gaussian", tradeoff=0).fit(X, y)
        >>> chain.summary(X, y).terms
        ('intercept', 'first step', 'last step', 'after 1', 'x0', 'x0²')
        >>> found = ConditionalRandomField(delta=1e-9).fit(X, y).summary(X, y)
        >>> bool(found.lower[3] < 2.23 < found.upper[3])  # log .8 · .7 / (.2 · .3)
        True
        """
        check_is_fitted(self, "classes_")
        level = check_number("level", level, above=0.0, below=1.0, remedy="use 0.95")
        labels = self.classes_.tolist()
        against = code_of_reference(reference, labels)
        errors, tables, terms, facts = self._parts(X, y, lengths)
        contrasts = _contrasts(tables, len(labels), against, errors.vector.size)
        flat = contrasts.reshape(-1, contrasts.shape[-1])
        unknown = errors.unknown(flat)
        notes = ["Standard errors: sandwich, sequences being the units."]
        if unknown.any():
            notes.append("What the sequences of fit leave open has no error.")
        after = [f"after {label}" for code, label in enumerate(labels) if code != against]
        own = [_apart(n, terms.features) for n in ("intercept", "first step", "last step", *after)]
        columns = {_apart("neighbours", terms.columns): list(range(3, len(own)))}
        columns |= {name: [len(own) + t for t in used] for name, used in terms.columns.items()}
        return of_coefficients(
            name=type(self).__name__,
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
