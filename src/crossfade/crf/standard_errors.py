"""Standard errors of a random field's weights (:mod:`crossfade.inference.chain_errors`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats, Integers
from crossfade.chains.attributes import EncodedSequences
from crossfade.chains.input import read_labels
from crossfade.crf.training import Objective
from crossfade.crf.weights import WeightLayout
from crossfade.errors import DataError
from crossfade.inference.chain_errors import (
    ChainErrors,
    ChainParts,
    ChainSummary,
    ChainTables,
    ChainTerms,
    check_few,
)

#: Largest distance from the optimum of a fit, in standard errors.
_AT_REST = 0.1


class FieldStandardErrors(ChainSummary):
    """The summary of :class:`~crossfade.ConditionalRandomField`."""

    objective_: float
    l1: float
    l2: float
    delta: float
    _layout: WeightLayout
    _theta: Floats

    def _parts(self, X: Any, y: Any, lengths: ArrayLike | None) -> ChainParts:
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

        facts = (("tokens", f"{encoded.n_tokens:g}"),)
        return ChainParts(errors, tables, ChainTerms(terms, columns), facts)

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
