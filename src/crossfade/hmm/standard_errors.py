"""Standard errors at the discriminative end (:mod:`crossfade.inference.chain_errors`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats
from crossfade.chains.input import read_labels
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission
from crossfade.hmm.objective import ChainObjective, ChainWeights, summed
from crossfade.inference.chain_errors import (
    ChainErrors,
    ChainParts,
    ChainSummary,
    ChainTables,
    ChainTerms,
    check_few,
)

#: Largest entry of the gradient of a fit, a step, of which its tolerance says nothing.
_AT_REST = 1e-4


class ChainStandardErrors(ChainSummary):
    """The summary of :class:`~crossfade.HiddenMarkovModel` at tradeoff 0."""

    emission_: Emission
    weights_: ChainWeights | None
    tradeoff_: float
    alpha: float
    converged_: bool
    l2: float
    tol: float

    def _parts(self, X: Any, y: Any, lengths: ArrayLike | None) -> ChainParts:
        if self.tradeoff_ != 0.0 or self.weights_ is None:
            raise DataError(
                f"tradeoff: expected 0 for standard errors, got a fit at {self.tradeoff_:g}; its "
                "probabilities rest on the density of the observations, too, whose errors are not "
                "computed: bootstrap the sequences"
            )
        objective, vector = self._at_rest(X, y, lengths)
        data = objective.data
        filled = np.flatnonzero(np.diff(data.layout.offsets) > 0)
        alone = [
            objective.over(data.sequence(int(s))).value_and_gradient(vector)[1] for s in filled
        ]
        shifts = np.array([one - objective.shortest(one) for one in np.eye(vector.size)])
        errors = ChainErrors.of(
            lambda at: objective.value_and_gradient(at)[1], vector, np.array(alone), shifts
        )
        slopes, constants, terms, used = data.emission.coefficients(data.emission_sums)
        columns: dict[str, list[int]] = {}
        for term, names in enumerate(used):
            for name in names:
                columns.setdefault(name, []).append(term)

        def tables(at: Floats) -> ChainTables:
            found = objective.weights(at)
            # What a state adds at each of its steps comes with entering it.
            start, moves = (
                part + found.theta @ constants for part in (found.start, found.transitions)
            )
            return ChainTables(start, moves, found.stop, found.theta @ slopes)

        facts = (("steps", f"{objective.n_rows:g}"), ("tradeoff λ", "0"))
        return ChainParts(errors, tables, ChainTerms(terms, columns), facts)

    def _at_rest(self, X: Any, y: Any, lengths: ArrayLike | None) -> tuple[ChainObjective, Floats]:
        """Return the objective of the sequences of fit, and its minimum."""
        assert self.weights_ is not None
        emission = self.emission_
        raw, layout = emission.read(X, lengths)
        labels = read_labels(y, layout, self.classes_)
        observed = emission.observe(raw)
        data = summed(emission, observed, layout, labels.codes, len(self.classes_), self.alpha)
        objective = ChainObjective(data, 0.0, self.l2)
        vector = objective.vector(self.weights_)
        check_few(vector.size)
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
        return objective, vector
