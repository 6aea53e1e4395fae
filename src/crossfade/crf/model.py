"""The linear-chain conditional random field."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Integers
from crossfade.blocks import for_each_block
from crossfade.chains import recursions
from crossfade.chains.attributes import AttributeEncoder, EncodedSequences
from crossfade.chains.decoding import ConditionalChain, Potentials
from crossfade.chains.input import Layout, read_labels
from crossfade.crf.explanation import contributions_frame, weights_frame
from crossfade.crf.standard_errors import FieldStandardErrors
from crossfade.crf.training import Objective, TrainingOptions, train
from crossfade.crf.weights import WeightLayout, choose_weights, without_zeros
from crossfade.errors import ConvergenceWarning, DataError


class ConditionalRandomField(FieldStandardErrors, ConditionalChain, BaseEstimator):
    """A linear-chain conditional random field: labels of sequences from any features.

    The probability of labels y given features x is proportional to the exponential of

        start[y_1] + stop[y_T] + Σ_t Σ_a value_a(x_t) · state[a, y_t] + Σ_t transition[y_t, y_{t+1}]

    and training minimises

        -Σ log p(y | x) + ½ l2 · Σ weight² + l1 · Σ |weight|,

    CRFsuite's objective with c2 = ½ l2 and c1 = l1. As there, a pair of attribute and label
    has a weight if it occurs in training, and a transition likewise. CRFsuite has no start and
    stop weights; ``start_stop=False`` leaves them out (with them, the model is CRFsuite's with two
    more attributes, one at the first token and one at the last).

    Parameters
    ----------
    l1 : float, default=0.0
        Penalty on absolute weights: makes many of them zero.
    l2 : float, default=2.0
        Penalty ½ l2 · Σ weight² on the log-likelihood summed over sequences.
    allowed_transitions : None, "seen" or list of (from, to) pairs, default=None
        The transitions that may occur, in training and in decoding: all of them; those of the
        training labels; those listed. With ``decode="posterior"`` too: of the paths without
        others, the one with the most labels expected right.
    start_stop : bool, default=True
        Whether there are weights for the first and for the last label.
    unseen_states, unseen_transitions : bool, default=False
        Whether pairs of attribute and label (transitions, starts, stops) that never occur in
        training have weights too; they can only become negative.
    passes : int, default=10
        Stochastic passes before L-BFGS (fewer evaluations, the same optimum); 0 for none. Skipped
        with an `l1` penalty and for 50 sequences or fewer.
    delta : float, default=1e-5
        Training stops when the objective fell by no more than this share in ten steps.
    max_iter : int, default=1000
        Most L-BFGS steps.
    random_state : int, default=0
        Seed of the order of sequences in the stochastic passes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The labels, sorted.
    encoder_ : AttributeEncoder
        The attributes; ``encoder_.names`` lists them.
    state_weights_ : sparse array of shape (n_attributes, n_labels)
    transition_weights_ : ndarray of shape (n_labels, n_labels)
        [from, to]; zero where a transition has no weight, -inf where it is forbidden.
    start_weights_, stop_weights_ : ndarray of shape (n_labels,)
    objective_ : float
        The minimised function at the solution.
    n_iter_ : int
        L-BFGS steps.
    n_evaluations_ : int
        Evaluations of objective and gradient over all sequences.
    converged_ : bool
    message_ : str
        Why training stopped.

    Raises
    ------
    DataError
        If data or a parameter cannot be used as given.

    See Also
    --------
    crossfade.HiddenMarkovModel : the generative end.
    crossfade.tagging.features : templates of features for words.

    Notes
    -----
    Lafferty, McCallum & Pereira (2001), "Conditional random fields: probabilistic models for
    segmenting and labeling sequence data"; the weights that exist are those of Okazaki's CRFsuite.

    Examples
    --------
    >>> from crossfade import ConditionalRandomField
    >>> X = [[{"w": "the"}, {"w": "dog"}, {"w": "runs"}], [{"w": "a"}, {"w": "cat"}]]
    >>> y = [["D", "N", "V"], ["D", "N"]]
    >>> model = ConditionalRandomField(l2=0.2).fit(X, y)
    >>> model.predict([[{"w": "the"}, {"w": "cat"}, {"w": "runs"}]])
    [array(['D', 'N', 'V'], dtype='<U1')]
    """

    _impossible = (
        "X: expected sequences that the allowed transitions can label, got none such for sequence "
        "{}; widen allowed_transitions"
    )

    def __init__(
        self,
        *,
        l1: float = 0.0,
        l2: float = 2.0,
        allowed_transitions: str | Collection[tuple[Any, Any]] | None = None,
        start_stop: bool = True,
        unseen_states: bool = False,
        unseen_transitions: bool = False,
        passes: int = 10,
        delta: float = 1e-5,
        max_iter: int = 1000,
        random_state: int = 0,
    ):
        self.l1 = l1
        self.l2 = l2
        self.allowed_transitions = allowed_transitions
        self.start_stop = start_stop
        self.unseen_states = unseen_states
        self.unseen_transitions = unseen_transitions
        self.passes = passes
        self.delta = delta
        self.max_iter = max_iter
        self.random_state = random_state

    # -- training --------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, lengths: ArrayLike | None = None) -> Self:
        """Train on labelled sequences.

        Parameters
        ----------
        X : list of sequences, EncodedSequences, or one array or list with `lengths`
            Sequences of dicts, strings, lists of strings, or matrices:
            :mod:`crossfade.chains.attributes` says what counts as one attribute.
        y : list of sequences of labels, or one array
            A label for every token.
        lengths : array-like of shape (n_sequences,), int, optional
            Tokens of each sequence where X is one array.

        Returns
        -------
        ConditionalRandomField
            Itself.
        """
        self._check_parameters()
        given = isinstance(X, EncodedSequences)
        encoded = X if given else AttributeEncoder().fit_transform(X, lengths)
        labels = read_labels(y, encoded.layout)
        if encoded.n_tokens == 0:
            raise DataError("X: expected at least one token to train on, got none; pass sequences")
        allowed = self._allowed(labels.classes, labels.codes, encoded.layout)
        layout = choose_weights(
            encoded,
            labels.codes,
            len(labels.classes),
            start_stop=self.start_stop,
            unseen_states=self.unseen_states,
            unseen_transitions=self.unseen_transitions,
            allowed=allowed,
        )
        objective = Objective(encoded, labels.codes, layout, self.l2)
        whole = int(self.passes), self.delta, int(self.max_iter), int(self.random_state)
        options = TrainingOptions(self.l1, *whole)
        solution = train(objective, options)
        if not solution.converged:
            warnings.warn(
                f"the random field is not at its optimum: {solution.message}; raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.classes_ = labels.classes
        self.encoder_ = encoded.encoder
        self.objective_ = float(solution.value)
        self.n_iter_, self.n_evaluations_ = solution.n_iter, objective.n_evaluations
        self.converged_, self.message_ = solution.converged, solution.message
        self._keep(layout, solution.theta)
        return self

    def _keep(self, layout: WeightLayout, theta: Floats) -> None:
        if self.l1 > 0.0:
            layout, theta = without_zeros(layout, theta)
        self._layout, self._theta = layout, theta
        self.start_weights_, self.transition_weights_, self.stop_weights_ = layout.potentials(theta)

    def _check_parameters(self) -> None:
        for name in ("l1", "l2", "delta"):
            check_number(name, getattr(self, name), 0.0)
        for name, least in (("passes", 0), ("max_iter", 1), ("random_state", 0)):
            check_number(name, getattr(self, name), least, whole=True)
        given = self.allowed_transitions
        # An iterator would be empty at the next fit, and could be neither cloned nor pickled.
        if not (given is None or given == "seen") and (
            isinstance(given, str) or not isinstance(given, Collection)
        ):
            raise DataError(
                f"allowed_transitions: expected None, 'seen' or a list of pairs of labels, got "
                f"{given!r}"
            )

    def _allowed(self, classes: NDArray[Any], codes: Integers, layout: Layout) -> NDArray[np.bool_]:
        """Return which transitions may occur, and refuse labels that contradict it."""
        n_labels = len(classes)
        given = self.allowed_transitions
        if given is None:
            return np.ones((n_labels, n_labels), dtype=bool)
        origins = layout.followed()
        allowed = np.zeros((n_labels, n_labels), dtype=bool)
        if isinstance(given, str):
            allowed[codes[origins], codes[origins + 1]] = True
            return allowed
        names = classes.tolist()
        place = {label: number for number, label in enumerate(names)}
        for pair in given:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise DataError(
                    f"allowed_transitions: expected (from, to) pairs of labels, got {pair!r}"
                )
            # A pair of labels that training lacks can have no weight and no part in a path.
            if pair[0] in place and pair[1] in place:
                allowed[place[pair[0]], place[pair[1]]] = True
        bad = np.flatnonzero(~allowed[codes[origins], codes[origins + 1]])
        if len(bad):
            step = int(origins[bad[0]])
            number = int(np.searchsorted(layout.offsets, step, side="right")) - 1
            raise DataError(
                f"y: expected transitions within allowed_transitions, got {names[codes[step]]!r} "
                f"to {names[codes[step + 1]]!r} in sequence {number}; allow the pair or correct "
                "the labels"
            )
        return allowed

    # -- use -------------------------------------------------------------------------------------

    def prepare(self, X: Any, lengths: ArrayLike | None = None) -> EncodedSequences:
        """Encode sequences once, to be tagged or scored several times.

        Parameters
        ----------
        X : list of sequences, or one array or list with `lengths`
        lengths : array-like of int, optional

        Returns
        -------
        EncodedSequences
            Takes the place of X in every method.
        """
        check_is_fitted(self, "encoder_")
        if not isinstance(X, EncodedSequences):
            return self.encoder_.transform(X, lengths)
        if not self.encoder_.same_as(X.encoder):
            raise DataError(
                "X: expected sequences encoded by this model's encoder_, got another encoder's; "
                "use model.prepare(X)"
            )
        return X

    def _scored(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, Potentials]:
        encoded = self.prepare(X, lengths)
        layout = encoded.layout
        return layout, (
            self._scores(encoded),
            layout.offsets,
            *self._layout.potentials(self._theta),
        )

    def _scores(self, encoded: EncodedSequences) -> Floats:
        """Return the state scores of every token, (n_tokens, n_labels)."""
        from crossfade.crf.kernels import Tokens, score_block

        layout = self._layout
        scores = np.empty((encoded.n_tokens, layout.n_labels))
        attributes = layout.rank[encoded.attributes]
        values = np.empty(0) if encoded.values is None else encoded.values
        rows = layout.dense_rows(self._theta)
        weights = np.ascontiguousarray(self._theta[: layout.n_pairs])

        tokens = Tokens(
            encoded.token_starts, attributes, values, layout.pair_starts, layout.pair_labels
        )

        def work(block: slice) -> None:
            score_block(block.start, block.stop, tokens, rows, weights, scores)

        for_each_block(work, encoded.n_tokens)
        return scores

    def _best_steps(self, layout: Layout, marginals: Floats) -> Integers:
        """Return the most probable label of each step, or the best such path that is allowed.

        Where transitions are forbidden, the labels that are best one by one may follow each other
        by one of these. The path that maximises the sum of its marginals is then the allowed one
        with the most labels expected right.
        """
        allowed = self._layout.allowed
        if allowed.all():
            return super()._best_steps(layout, marginals)
        nothing = np.zeros(len(allowed))
        edges = np.where(allowed, 0.0, -np.inf)
        found, _ = recursions.viterbi(marginals, layout.offsets, nothing, edges, nothing)
        return found

    # -- looking inside --------------------------------------------------------------------------

    @property
    def state_weights_(self) -> Any:
        """State weights as a sparse array of shape (n_attributes, n_labels)."""
        check_is_fitted(self, "encoder_")
        layout = self._layout
        by_rank = scipy.sparse.csr_array(
            (self._theta[: layout.n_pairs], layout.pair_labels, layout.pair_starts),
            shape=(len(layout.rank), layout.n_labels),
        )
        return by_rank[layout.rank]

    def state_weights_frame(self) -> Any:
        """Return the state weights as a polars data frame, largest absolute weight first.

        Returns
        -------
        polars.DataFrame
            Columns ``attribute``, ``value`` (null unless the attribute is a (name, value) pair),
            ``label`` and ``weight``; one row a weight.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        return weights_frame(self.state_weights_, self.encoder_.names, self.classes_)

    def explain(self, sequence: Any) -> Any:
        """Return why each token of one sequence got its label and not the runner-up.

        For each token the best path is compared with the path that has the token's next most
        probable label instead, all else equal. The contributions of a token add up to the log of
        how much more probable the best path is than the other: infinitely more where that one
        takes a forbidden transition.

        Parameters
        ----------
        sequence : list of tokens, or matrix
            One sequence.

        Returns
        -------
        polars.DataFrame
            Columns ``token``, ``label``, ``probability``, ``instead`` (the runner-up), ``kind``
            ("state", "transition from", "transition to", "start" or "stop"), ``attribute`` and
            ``value`` (of a state weight; of a transition, the neighbour's label), and
            ``contribution``; the largest first within a token.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        encoded = self.prepare([sequence])
        _, chain = self._scored(encoded, None)
        path, scores = recursions.viterbi(*chain)
        self._refuse_impossible(scores)
        return contributions_frame(encoded, chain, path, self.state_weights_, self.classes_)
