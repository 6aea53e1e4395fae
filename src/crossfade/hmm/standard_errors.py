"""Standard errors at the discriminative end (:mod:`crossfade.inference.chain_errors`)."""

from __future__ import annotations

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
from crossfade.inference.chain_errors import (
    ChainErrors,
    ChainTables,
    ChainTerms,
    check_few,
    summarise_chain,
)
from crossfade.inference.summary import CoefficientSummary, code_of_reference

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

        return summarise_chain(
            type(self).__name__,
            errors,
            tables,
            ChainTerms(terms, columns),
            facts=(("steps", f"{objective.n_rows:g}"), ("tradeoff λ", "0")),
            labels=labels,
            against=against,
            level=level,
        )

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
