"""Standard errors of a random field's weights (:mod:`crossfade.inference.chain_errors`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats, Integers
from crossfade.chains.attributes import EncodedSequences
from crossfade.chains.input import read_labels
from crossfade.crf.training import Objective
from crossfade.crf.weights import WeightLayout
from crossfade.errors import DataError
from crossfade.inference.chain_errors import (
    ChainErrors,
    ChainTables,
    ChainTerms,
    check_few,
    summarise_chain,
)
from crossfade.inference.summary import CoefficientSummary, code_of_reference

#: Largest distance from the optimum of a fit, in standard errors.
_AT_REST = 0.1


class FieldStandardErrors:
    """The summary of :class:`~crossfade.ConditionalRandomField`."""

    classes_: NDArray[Any]
    objective_: float
    l1: float
    l2: float
    delta: float
    _layout: WeightLayout
    _theta: Floats

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

        The log-odds are those of a label against the `reference` at one token, given its
        attributes and its neighbours' labels. The intercept is that between two neighbours with the
        reference. "first step" and "last step" are added where there is no neighbour before, or
        after. "after A" is added where the label before is A; of label B it is what A adds where
        the label after is B, too. The others are those of attributes.

        The errors are those of the sandwich H⁻¹ J H⁻¹ (Huber 1967, White 1982) with sequences as
        units: they hold where tokens of a sequence depend on each other in other ways than the
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
            one name, say nothing of the label.

        Raises
        ------
        DataError
            With an `l1` penalty or transitions that are forbidden, of more than 500 weights, of a
            fit that was stopped far from its optimum, or if these are not the sequences of fit.

        Notes
        -----
        The Hessian comes from central differences of the exact gradient. The penalty is taken as
        given: an interval is for what the penalised fit tends to. Which weights there are is taken
        as given, too; a pair of attribute and label without one counts as 0.

        Examples
        --------
        >>> from crossfade import ConditionalRandomField, HiddenMarkovModel
        >>> truth = HiddenMarkovModel.from_parameters(
        ...     [0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], means=[[0.0], [1.0]], covars=[[1.0], [1.0]]
        ... )
        >>> X, y = truth.sample([10] * 100, random_state=0)
        >>> found = ConditionalRandomField(delta=1e-9).fit(X, y).summary(X, y)
        >>> found.terms
        ('intercept', 'first step', 'last step', 'after 1', 'x0')
        >>> bool(found.lower[3] < 2.23 < found.upper[3])  # log .8 · .7 / (.2 · .3)
        True
        """
        check_is_fitted(self, "encoder_")
        level = check_number("level", level, above=0.0, below=1.0, remedy="use 0.95")
        labels = self.classes_.tolist()
        against = code_of_reference(reference, labels)
        if self.l1 > 0.0:
            raise DataError(
                f"l1: expected 0 for standard errors, got {self.l1:g}, which takes weights out by "
                "chance; bootstrap the sequences"
            )
        layout = self._layout
        if not layout.allowed.all():
            raise DataError(
                "allowed_transitions: expected none to be forbidden for coefficients of log-odds, "
                f"got {int((~layout.allowed).sum())} that are, whose log-odds are infinite; fit "
                "with allowed_transitions=None"
            )
        check_few(layout.n_weights)
        encoded: EncodedSequences = self.prepare(X, lengths)  # type: ignore[attr-defined]
        codes = read_labels(y, encoded.layout, self.classes_).codes
        errors = self._errors(encoded, codes)
        names = encoded.encoder.names
        terms = ["=".join(name) if isinstance(name, tuple) else _name(name) for name in names]
        columns: dict[str, list[int]] = {}
        for term, name in enumerate(names):
            column = name[0] if isinstance(name, tuple) else _name(name)
            columns.setdefault(column, []).append(term)

        def tables(theta: Floats) -> ChainTables:
            weights = np.zeros(len(names) * layout.n_labels)
            weights[layout.codes] = theta[: layout.n_pairs]
            by_rank = weights.reshape(len(names), layout.n_labels)
            return ChainTables(*layout.tables(theta), by_rank[layout.rank].T)

        return summarise_chain(
            type(self).__name__,
            errors,
            tables,
            ChainTerms(terms, columns),
            facts=(("tokens", f"{encoded.n_tokens:g}"),),
            labels=labels,
            against=against,
            level=level,
        )

    def _errors(self, encoded: EncodedSequences, codes: Integers) -> ChainErrors:
        layout, theta = self._layout, self._theta
        labels = np.repeat(codes, np.diff(encoded.token_starts))
        pairs = layout.rank[encoded.attributes].astype(np.int64) * layout.n_labels + labels
        value = np.inf
        if np.isin(pairs, layout.codes).all():
            objective = Objective(encoded, codes, layout, self.l2)
            value = objective.value_and_gradient(theta)[0]
        if not abs(value - self.objective_) <= 1e-6 * (1.0 + abs(self.objective_)):
            raise DataError(
                f"X: expected the sequences of fit, whose objective was {self.objective_:.6g}, got "
                f"sequences with one of {value:.6g}; give those of fit"
            )
        alone = []
        for s in np.flatnonzero(np.diff(encoded.offsets) > 0):
            own, steps = _sequence(encoded, int(s))
            one = Objective(own, codes[steps], layout, 0.0)
            alone.append(one.value_and_gradient(theta)[1])
        errors = ChainErrors.of(
            lambda at: objective.value_and_gradient(at)[1], theta, np.array(alone)
        )
        if errors.away > _AT_REST:
            raise DataError(
                f"summary: expected a fit within {_AT_REST:g} standard errors of its optimum, got "
                f"one {errors.away:.2g} away; fit with a smaller delta than {self.delta:g}"
            )
        return errors


def _name(attribute: Any) -> str:
    """Return a string as it is, and a column of a matrix as elsewhere."""
    return f"x{attribute}" if isinstance(attribute, int) else str(attribute)


def _sequence(encoded: EncodedSequences, number: int) -> tuple[EncodedSequences, Integers]:
    """Return one of the sequences alone, and where its tokens are."""
    steps, layout = encoded.layout.take([number])
    starts = encoded.token_starts[encoded.offsets[number] : encoded.offsets[number + 1] + 1]
    entries = slice(starts[0], starts[-1])
    values = None if encoded.values is None else encoded.values[entries]
    own = replace(
        encoded,
        attributes=encoded.attributes[entries],
        values=values,
        token_starts=starts - starts[0],
        layout=layout,
    )
    return own, steps
