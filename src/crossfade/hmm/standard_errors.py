"""Standard errors of the weights at the discriminative end, a sequence being the unit of chance.

The weights solve Σ_s ψ_s = l2 · weights, ψ_s the gradient of one sequence's conditional
log-likelihood, so that their covariance is H⁻¹ J H⁻¹ with H the Hessian of the objective, penalty
and all, and J the covariance of the ψ_s (Huber 1967, White 1982): steps of a sequence may depend
on each other in any way.

Some weights can be shifted without any posterior changing. What does not change with them are the
log-odds of a state against another at one step, given the step's neighbours and its observation:
what is shown are the coefficients of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats
from crossfade.chains.input import read_labels
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission
from crossfade.hmm.objective import ChainObjective, ChainWeights, summed
from crossfade.inference.sandwich import covariance_of_total
from crossfade.inference.summary import CoefficientSummary, code_of_reference, of_coefficients

#: Most weights: the Hessian comes from so many pairs of gradients.
_MOST_WEIGHTS = 500

#: Step of the differences, for a weight of which one sequence says one unit.
_DIFFERENCE = 1e-4

#: Curvature, relative to a weight's own, that differences cannot tell from none.
_FLAT = 1e-7

#: Largest entry of the gradient of a fit, a step, of which its tolerance says nothing.
_AT_REST = 1e-4


class ChainStandardErrors:
    """The summary of :class:`~crossfade.HiddenMarkovModel` at tradeoff 0."""

    classes_: NDArray[Any]
    emission_: Emission
    weights_: ChainWeights | None
    tradeoff_: float
    alpha: float
    converged_: bool
    l2: float
    tol: float

    def summary(
        self,
        X: Any,
        y: Any,
        lengths: ArrayLike | None = None,
        *,
        level: float = 0.95,
        reference: Any = None,
    ) -> CoefficientSummary:
        """Return the coefficients of the log-odds at tradeoff 0, with errors, intervals and tests.

        The log-odds are those of a state against the `reference` at one step, given its
        observation and its neighbours' states. The intercept is that between two neighbours in the
        reference. "first step" and "last step" are added where there is no neighbour before, or
        after. "after A" is added where the state before is A; of state B it is what A adds where
        the state after is B, too.

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
            The state that the others are compared with; the first by default.

        Returns
        -------
        CoefficientSummary
            Prints as text. ``.tests`` has the Wald tests that neighbours, and that columns of X,
            say nothing of the state.

        Raises
        ------
        DataError
            At other tradeoffs, of more than 500 weights, or if these are not the sequences of fit.

        Notes
        -----
        The Hessian comes from central differences of the exact gradient. The penalty is taken as
        given: an interval is for what the penalised fit tends to. What the sequences leave open
        (transitions where all have one step, with l2=0) has no error.

        Examples
        --------
        >>> from crossfade import HiddenMarkovModel
        >>> truth = HiddenMarkovModel.from_parameters(
        ...     [0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], means=[[0.0], [1.0]], covars=[[1.0], [1.0]]
        ... )
        >>> X, y = truth.sample([10] * 100, random_state=0)
        >>> model = HiddenMarkovModel(emission="gaussian", tradeoff=0).fit(X, y)
        >>> found = model.summary(X, y)
        >>> found.terms
        ('intercept', 'first step', 'last step', 'after 1', 'x0', 'x0²')
        >>> bool(found.lower[3] < 2.23 < found.upper[3])  # log .8 · .7 / (.2 · .3)
        True
        """
        check_is_fitted(self, "parameters_")
        level = check_number("level", level, above=0.0, below=1.0, remedy="use 0.95")
        labels = self.classes_.tolist()
        against = code_of_reference(reference, labels)
        if self.tradeoff_ != 0.0 or self.weights_ is None:
            raise DataError(
                f"tradeoff: expected 0 for standard errors, got a fit at {self.tradeoff_:g}; its "
                "probabilities rest on the density of the observations, too, whose errors are not "
                "computed: bootstrap the sequences"
            )
        errors = self._chain_errors(X, y, lengths)
        contrasts, terms, columns = _contrasts(
            errors.objective, labels, against, errors.vector.size
        )
        flat = contrasts.reshape(-1, contrasts.shape[-1])
        unknown = errors.unknown(flat)
        notes = ["Standard errors: sandwich, sequences being the units."]
        if unknown.any():
            notes.append("What the sequences of fit leave open has no error.")
        return of_coefficients(
            name=type(self).__name__,
            facts=(
                ("sequences", f"{errors.n_sequences:g}"),
                ("steps", f"{errors.objective.n_rows:g}"),
                ("tradeoff λ", "0"),
            ),
            notes=tuple(notes),
            labels=labels,
            against=against,
            terms=terms,
            columns=columns,
            values=contrasts @ errors.vector,
            covariance=flat @ errors.covariance @ flat.T,
            level=level,
            unknown=unknown,
        )

    def _chain_errors(self, X: Any, y: Any, lengths: ArrayLike | None) -> _Errors:
        assert self.weights_ is not None
        emission = self.emission_
        raw, layout = emission.read(X, lengths)
        labels = read_labels(y, layout, self.classes_)
        observed = emission.observe(raw)
        data = summed(emission, observed, layout, labels.codes, len(self.classes_), self.alpha)
        objective = ChainObjective(data, 0.0, self.l2)
        vector = objective.vector(self.weights_)
        if vector.size > _MOST_WEIGHTS:
            raise DataError(
                f"summary: expected at most {_MOST_WEIGHTS} weights, got {vector.size}, whose "
                "Hessian would take too long; bootstrap the sequences"
            )
        slope = np.abs(objective.value_and_gradient(vector)[1]).max(initial=0.0) / layout.n_steps
        if slope > max(_AT_REST, 10.0 * self.tol) and not self.converged_:
            raise DataError(
                "summary: expected a fit that converged, got one that did not (see converged_); "
                "raise max_iter"
            )
        if slope > max(_AT_REST, 10.0 * self.tol):
            raise DataError(
                "X: expected the sequences of fit, at which a converged fit has a gradient of "
                f"zero, got sequences with one of {slope:.2g} per step; give those of fit"
            )
        return _Errors.of(objective, vector)


@dataclass(frozen=True)
class _Errors:
    """Weights as one vector, (n_weights,), their covariance, and what has no curvature.

    `open` (n_weights, n_open): Directions of the scaled weights that are open.
    `sizes` (n_weights,): One by the root of each weight's curvature.
    """

    objective: ChainObjective
    vector: Floats
    covariance: Floats
    n_sequences: float
    open: Floats
    sizes: Floats

    @classmethod
    def of(cls, objective: ChainObjective, vector: Floats) -> _Errors:
        data = objective.data
        filled = np.flatnonzero(np.diff(data.layout.offsets) > 0)
        alone = [
            objective.over(data.sequence(int(s))).value_and_gradient(vector)[1] for s in filled
        ]
        gradients = np.array(alone)
        H = _hessian(objective, vector, (gradients**2).mean(axis=0))
        curvature = np.diagonal(H)
        sizes = 1.0 / np.sqrt(np.maximum(curvature, _FLAT * curvature.max()))
        values, vectors = np.linalg.eigh(H * sizes * sizes[:, None])
        kept = values > _FLAT * values[-1]
        root = vectors[:, kept] * sizes[:, None] / np.sqrt(values[kept])
        moved = (gradients @ root) @ root.T

        def influences(rows: slice) -> tuple[Floats, Floats]:
            return moved[rows], np.ones(len(moved[rows]))

        covariance, n = covariance_of_total(influences, len(moved), None, block_rows=len(moved))
        return cls(objective, vector, covariance, n, vectors[:, ~kept], sizes)

    def unknown(self, contrasts: Floats) -> NDArray[np.bool_]:
        """Return which contrasts, (n, n_weights), the sequences leave open."""
        scaled = contrasts * self.sizes
        along = np.linalg.norm(scaled @ self.open, axis=1)
        found: NDArray[np.bool_] = along > 1e-4 * np.linalg.norm(scaled, axis=1)
        return found


def _hessian(objective: ChainObjective, vector: Floats, squares: Floats) -> Floats:
    """Return the Hessian by central differences; on shifts, which do nothing, a constant.

    `squares` (n_weights,): Mean squares of a sequence's gradient.
    """
    H = np.empty((vector.size, vector.size))
    for j, square in enumerate(squares.tolist()):
        step = _DIFFERENCE / np.sqrt(max(square, 1e-4))
        sides = []
        for side in (step, -step):
            moved = vector.copy()
            moved[j] += side
            sides.append(objective.value_and_gradient(moved)[1])
        H[j] = (sides[0] - sides[1]) / (2.0 * step)
    H = 0.5 * (H + H.T)
    return H + np.diagonal(H).mean() * _shifts(objective, vector.size)


def _shifts(objective: ChainObjective, n_weights: int) -> Floats:
    """Return the projection on what no posterior notices, (n_weights, n_weights)."""
    return np.array([one - objective.shortest(one) for one in np.eye(n_weights)])


def _contrasts(
    objective: ChainObjective, labels: list[Any], against: int, n_weights: int
) -> tuple[Floats, list[str], dict[str, list[int]]]:
    """Return coefficients as linear functions of the weights, terms, and terms by column.

    Shapes: → (n_states - 1, n_terms, n_weights).
    """
    data = objective.data
    slopes, constants, of_emission, columns = data.emission.coefficients(data.emission_sums)
    others = np.delete(np.arange(len(labels)), against)

    def coefficients(vector: Floats) -> Floats:
        weights = objective.weights(vector)
        # What a state adds at each of its steps comes with entering it.
        constant = weights.theta @ constants
        start, moves = weights.start + constant, weights.transitions + constant
        entered, left = moves[against] - moves[against, against], moves[:, against]
        left = left - left[against]
        first = start - start[against] - entered
        last = weights.stop - weights.stop[against] - left
        after = moves - moves[against] - (moves[:, [against]] - moves[against, against])
        emitted = weights.theta @ slopes
        return np.column_stack(
            [entered + left, first, last, after[others].T, emitted - emitted[against]]
        )[others]

    found = np.stack([coefficients(e) for e in np.eye(n_weights)], axis=-1)
    neighbours = [f"after {labels[i]}" for i in others]
    terms = ["intercept", "first step", "last step", *neighbours, *of_emission]
    place = {"neighbours": list(range(3, 3 + len(neighbours)))}
    for term, used in enumerate(columns, start=3 + len(neighbours)):
        for column in used:
            place.setdefault(column, []).append(term)
    return found, terms, place
