"""What chain models share once fitted: paths, posteriors, accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfade._checks import check_choice
from crossfade._typing import Floats, Integers
from crossfade.chains import recursions
from crossfade.chains.attributes import EncodedSequences
from crossfade.chains.block_recursions import StepScorer, best_paths, expectations
from crossfade.chains.input import Layout, layout_of, read_labels
from crossfade.chains.markov import path_scores
from crossfade.errors import DataError

#: Arguments of the recursions: emissions, offsets, initial, transitions, final.
Potentials = tuple[Floats, Integers, Floats, Floats, Floats]

#: Initial, transition and final log-potentials.
ChainLogs = tuple[Floats, Floats, Floats]


class ChainDecoding:
    """Paths and posteriors of a model that turns sequences into a chain's potentials."""

    #: What is said where no path of a sequence is possible.
    _impossible = (
        "X: expected sequences that the model can produce, got none for sequence {}; correct "
        "numbers too far from those of fit, or make them missing; where a transition or symbol is "
        "new to a state, fit with alpha > 0"
    )

    classes_: NDArray[Any]

    def _scored(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, Potentials]:
        """Return the layout and the potentials that posteriors come from."""
        raise NotImplementedError

    def _steps(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, StepScorer, ChainLogs]:
        """Return the same with emissions as a function of a slice of steps.

        A model that can score steps block by block overrides this: blocks stay in cache.
        """
        layout, (values, _, initial, transitions, final) = self._scored(X, lengths)
        return layout, values.__getitem__, (initial, transitions, final)

    def predict(self, X: Any, lengths: ArrayLike | None = None, *, decode: str = "viterbi") -> Any:
        """Return the states of each sequence."""
        check_choice("decode", decode, ("viterbi", "posterior"))
        layout, scorer, chain = self._steps(X, lengths)
        if decode == "viterbi":
            codes, scores = best_paths(scorer, layout.offsets, *chain)
            self._refuse_impossible(scores)
        else:
            codes = self._best_steps(layout, self._posteriors(layout, scorer, chain))
        return layout.restore(self.classes_[codes])

    def _best_steps(self, layout: Layout, marginals: Floats) -> Integers:
        """Return the most probable state of each step."""
        return marginals.argmax(axis=1)

    def _posteriors(self, layout: Layout, scorer: StepScorer, chain: ChainLogs) -> Floats:
        marginals = np.empty((layout.n_steps, len(self.classes_)))
        result = expectations(
            scorer, layout.offsets, *chain, marginals=marginals, transitions=False
        )
        self._refuse_impossible(result.log_partition)
        return marginals

    def _refuse_impossible(self, values: Floats) -> None:
        impossible = np.flatnonzero(values == -np.inf)
        if len(impossible):
            raise DataError(self._impossible.format(int(impossible[0])))

    def predict_proba(self, X: Any, lengths: ArrayLike | None = None) -> Any:
        """Return the posterior of each state at each step, (n_steps, n_states) per sequence."""
        layout, scorer, chain = self._steps(X, lengths)
        return layout.restore(self._posteriors(layout, scorer, chain))

    def edge_marginals(self, X: Any, lengths: ArrayLike | None = None) -> list[Floats]:
        """Return the posterior of each pair of neighbouring states, a list by sequence.

        Shapes: → (n_steps - 1, n_states, n_states).
        """
        layout, chain = self._scored(X, lengths)
        self._refuse_impossible(recursions.log_partition(*chain))
        edges = recursions.edge_marginals(*chain)
        counts = np.maximum(np.diff(layout.offsets) - 1, 0)
        return np.split(edges, np.cumsum(counts)[:-1]) if layout.n_sequences else []

    def _accuracy(self, X: Any, y: Any, lengths: ArrayLike | None) -> float:
        layout = X.layout if isinstance(X, EncodedSequences) else layout_of(X, lengths)
        truth = read_labels(y, layout, self.classes_)
        found = read_labels(self.predict(X, lengths), layout, self.classes_)
        return float((found.codes == truth.codes).mean()) if layout.n_steps else float("nan")

    def _conditional(self, layout: Layout, potentials: Potentials, y: Any) -> Floats:
        """Return log p(y | x) of each sequence."""
        if y is None:
            raise DataError(
                "y: expected labels, got None; the model has a probability of labels given "
                "observations, none of the observations themselves"
            )
        codes = read_labels(y, layout, self.classes_).codes
        total = recursions.log_partition(*potentials)
        self._refuse_impossible(total)
        return path_scores(potentials[0], layout, codes, potentials[2:]) - total


class ConditionalChain(ChainDecoding):
    """The same of a model of labels given observations, without a density of the observations."""

    def log_likelihood(self, X: Any, y: Any = None, lengths: ArrayLike | None = None) -> Floats:
        """Return log p(y | x) of each sequence.

        Parameters
        ----------
        X : list of sequences, EncodedSequences, or one array
        y : list of sequences of labels, or one array
            Without it there is nothing to return: the model has no density of X.
        lengths : array-like of int, optional

        Returns
        -------
        ndarray of shape (n_sequences,)
            -inf for labels that training never saw and for forbidden transitions.
        """
        layout, potentials = self._scored(X, lengths)
        return self._conditional(layout, potentials, y)

    def score(self, X: Any, y: Any, lengths: ArrayLike | None = None) -> float:
        """Return the share of steps labelled right on the best paths.

        Parameters
        ----------
        X : list of sequences, EncodedSequences, or one array
        y : list of sequences of labels, or one array
        lengths : array-like of int, optional

        Returns
        -------
        float
        """
        return self._accuracy(X, y, lengths)
