"""The entropic Markov chain: a generative chain used discriminatively.

Azeraf, Monfrini & Pieczynski (2020), "Using the naive Bayes as a discriminative classifier",
equations (4)-(6), write the posteriors of a hidden Markov model in terms of the states' reference
distribution π, its transitions a and the local posteriors L_y(i) = p(x_t = i | y_t) alone:

    α_1(i) = L_{y_1}(i) initial(i) / π(i),   α_{t+1}(i) = L_{y_{t+1}}(i) / π(i) Σ_j α_t(j) a_j(i)
    β_T(i) = 1,                              β_t(i) = Σ_j L_{y_{t+1}}(j) / π(j) β_{t+1}(j) a_i(j)

(the paper has initial = π). No density of the observations is needed: L may come from any
classifier and look at any features.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_choice, check_number, counted
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Integers
from crossfade.chains.decoding import ConditionalChain, Potentials
from crossfade.chains.input import Layout, layout_of, read_labels
from crossfade.chains.markov import estimate_chain, label_counts
from crossfade.errors import DataError
from crossfade.hmm.entropic_objective import JointObjective
from crossfade.hmm.model import HiddenMarkovModel
from crossfade.hmm.path import refuse_without_density
from crossfade.optim.lbfgs import QuasiNewton
from crossfade.optim.solver import descend

#: Log-probability of what never occurred, where joint training starts: finite.
_LOG_NOTHING = -30.0


class EntropicMarkovChain(ConditionalChain, BaseEstimator):
    """A hidden Markov chain whose states are known by local posteriors instead of emissions.

    Parameters
    ----------
    local_classifier : scikit-learn classifier, optional
        Gives L by ``predict_proba`` on a step's features; by default multinomial logistic
        regression. It is cloned, not changed. With ``training="joint"`` leave it out.
    training : {"plug-in", "joint"}, default="plug-in"
        "plug-in": π, initial and a are counts, L the classifier trained on single steps.
        "joint": π, initial, a and L, a multinomial logistic regression on the features, are
        trained together by gradient on the conditional likelihood of the labels.
    initial : {"counts", "reference"}, default="counts"
        Whether the first state has a distribution of its own, or π as in the paper.
    alpha : float, default=0.01
        Pseudo-count of each start, transition and state in the counts.
    l2 : float, default=2.0
        Joint training: penalty ½ l2 · Σ weight² on L's coefficients and on the log-odds of π,
        initial and a; L's intercepts are free.
    max_iter : int, default=500
    tol : float, default=1e-6
        Joint training stops when no gradient entry exceeds this per step of the sequences.

    Attributes
    ----------
    classes_ : ndarray of shape (n_states,)
    initial_ : ndarray of shape (n_states,)
    reference_ : ndarray of shape (n_states,)
        π.
    transmat_ : ndarray of shape (n_states, n_states)
        [from, to].
    local_ : classifier
        Fitted (plug-in training).
    n_features_in_ : int
        Columns of the matrices given.
    coef_, intercept_ : ndarray
        Of L, (n_states, n_features) and (n_states,) (joint training).
    converged_ : bool
    n_iter_ : int

    Raises
    ------
    DataError
        If data or a parameter cannot be used as given.

    Notes
    -----
    Only L/π enters the posteriors, so joint training determines this ratio alone; the penalty
    decides which part of it is called π.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import EntropicMarkovChain
    >>> rng = np.random.default_rng(0)
    >>> states = [np.repeat([0, 1, 0], 20) for _ in range(10)]
    >>> features = [s[:, None] + rng.normal(size=(60, 1)) for s in states]
    >>> model = EntropicMarkovChain().fit(features, states)
    >>> alone = model.local_.score(np.vstack(features), np.concatenate(states))
    >>> bool(model.score(features, states) > alone)
    True
    """

    _model: HiddenMarkovModel | None
    _encoder: Any

    def __init__(
        self,
        local_classifier: Any = None,
        *,
        training: str = "plug-in",
        initial: str = "counts",
        alpha: float = 0.01,
        l2: float = 2.0,
        max_iter: int = 500,
        tol: float = 1e-6,
    ):
        self.local_classifier = local_classifier
        self.training = training
        self.initial = initial
        self.alpha = alpha
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol

    @classmethod
    def from_hmm(cls, model: HiddenMarkovModel, reference: ArrayLike | None = None) -> Self:
        """Return the entropic chain with the posteriors of a fitted hidden Markov model.

        Parameters
        ----------
        model : HiddenMarkovModel
            Fitted. Of a pool (``tradeoff="auto"``) its density, raised to no power, is taken.
        reference : array-like of shape (n_states,), optional
            π, positive; the model's start distribution mixed with an even one by default. The
            posteriors do not depend on it.

        Returns
        -------
        EntropicMarkovChain
            L follows from the emissions: L_y(i) ∝ π(i) p(y | i).

        Raises
        ------
        NotADensityError
            If the discriminative end of the tradeoff left the model no p(y | i).
        """
        check_is_fitted(model, "parameters_")
        refuse_without_density(model.emission_, model.parameters_)
        n_states = len(model.classes_)
        if reference is None:
            reference = 0.5 * model.startprob_ + 0.5 / n_states
        pi = np.array(reference, dtype=np.float64)
        if pi.shape != (n_states,) or not (pi > 0).all() or not np.isclose(pi.sum(), 1.0):
            raise DataError(
                f"reference: expected {n_states} positive probabilities that sum to 1, got "
                f"{reference!r}"
            )
        new = cls()
        new.classes_, new.reference_ = model.classes_, pi
        new.initial_, new.transmat_ = model.startprob_, model.transmat_
        new._model = model
        new._encoder = None
        new.converged_, new.n_iter_ = True, 0
        return new

    # -- training --------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, lengths: ArrayLike | None = None) -> Self:
        """Train on labelled sequences.

        Parameters
        ----------
        X : list of sequences, or one array or sparse matrix of all steps
            Feature matrices, or sequences of dicts, strings or lists of strings.
        y : list of sequences of labels, or one array
        lengths : array-like of shape (n_sequences,), int, optional

        Returns
        -------
        EntropicMarkovChain
            Itself.
        """
        new = type(self)(**self.get_params(deep=False))
        new._train(X, y, lengths)
        # Only now: a fit that is refused leaves the one before whole.
        for stale in ("local_", "coef_", "intercept_", "n_features_in_"):
            self.__dict__.pop(stale, None)
        self.__dict__.update(new.__dict__)
        return self

    def _train(self, X: Any, y: Any, lengths: ArrayLike | None) -> None:
        self._check_parameters()
        self._model, self._encoder = None, None
        features, layout = self._features(X, lengths, learn=True)
        labels = read_labels(y, layout)
        if layout.n_steps == 0:
            raise DataError("X: expected at least one step, got none; pass non-empty sequences")
        self.classes_ = labels.classes
        n_states = len(self.classes_)
        counts = label_counts(labels.codes, layout, n_states)
        chain = estimate_chain(counts, self.alpha, np.empty(0), stop=False)
        total = np.bincount(labels.codes, minlength=n_states) + self.alpha
        self.reference_ = total / total.sum()
        self.initial_ = self.reference_ if self.initial == "reference" else chain.start
        self.transmat_ = chain.transitions
        self.converged_, self.n_iter_ = True, 1
        if self.training == "plug-in":
            local = LogisticRegression(max_iter=1000)
            if self.local_classifier is not None:
                local = clone(self.local_classifier)
                if not hasattr(local, "predict_proba"):
                    raise DataError(
                        "local_classifier: expected a classifier with predict_proba, got "
                        f"{local!r}; calibrate it with sklearn.calibration.CalibratedClassifierCV"
                    )
            elif n_states == 1:
                raise DataError(
                    f"y: expected at least two labels, got only {self.classes_.tolist()[0]!r}; "
                    "logistic regression needs two"
                )
            self.local_ = local.fit(features, self.classes_[labels.codes])
        else:
            self._fit_jointly(features, layout, labels.codes)

    def _check_parameters(self) -> None:
        check_choice("training", self.training, ("plug-in", "joint"))
        check_choice("initial", self.initial, ("counts", "reference"))
        if self.training == "joint" and self.local_classifier is not None:
            raise DataError(
                f"local_classifier: expected None for training='joint', got "
                f"{self.local_classifier!r}; the local part is trained with the rest"
            )
        for name in ("alpha", "l2", "tol"):
            check_number(name, getattr(self, name), 0.0)
        check_number("max_iter", self.max_iter, 1, whole=True)

    def _features(self, X: Any, lengths: ArrayLike | None, *, learn: bool) -> tuple[Any, Layout]:
        """Return a matrix with one row per step, dense or sparse, and the layout."""
        if _are_matrices(X):
            layout = layout_of(X, lengths)
            matrix = _stacked(list(X) if layout.listed else [X])
            if learn:
                self.n_features_in_ = int(matrix.shape[1])
            elif layout.n_steps:
                self._check_columns(matrix.shape[1])
            return matrix, layout
        from crossfade.chains.attributes import AttributeEncoder

        if learn:
            self._encoder = AttributeEncoder()
        if self._encoder is None:
            raise DataError("X: expected matrices as in fit, got tokens of another kind")
        encode = self._encoder.fit_transform if learn else self._encoder.transform
        encoded = encode(X, lengths)
        entries = encoded.values
        if entries is None:
            entries = np.ones(len(encoded.attributes))
        matrix = scipy.sparse.csr_matrix(
            (entries, encoded.attributes, encoded.token_starts),
            shape=(encoded.n_tokens, len(self._encoder)),
        )
        return matrix, Layout(encoded.offsets, listed=lengths is None)

    def _check_columns(self, n_columns: int) -> None:
        if self._encoder is not None:
            raise DataError("X: expected tokens as in fit, got matrices; pass dicts or strings")
        if n_columns != self.n_features_in_:
            raise DataError(
                f"X: expected {counted(self.n_features_in_, 'column')} as in fit, got "
                f"{n_columns}; give the same columns"
            )

    def _fit_jointly(self, features: Any, layout: Layout, codes: Integers) -> None:
        objective = JointObjective(
            features, layout, codes, len(self.classes_), self.l2, tied=self.initial == "reference"
        )
        with np.errstate(divide="ignore"):
            counted = (np.log(self.initial_), np.log(self.transmat_), np.log(self.reference_))
        start = objective.vector(*(np.maximum(part, _LOG_NOTHING) for part in counted))
        found = descend(
            objective,
            start,
            QuasiNewton(diagonal=objective.curvature, memory=20),
            tol=self.tol,
            max_iter=int(self.max_iter),
        )
        initial, transitions, reference, intercept, coef = objective.parts(found.theta)
        self.initial_ = np.exp(log_softmax(initial))
        self.transmat_ = np.exp(log_softmax(transitions, axis=1))
        self.reference_ = np.exp(log_softmax(reference))
        self.intercept_, self.coef_ = intercept, coef
        self.converged_, self.n_iter_ = found.converged, found.n_iter

    # -- use -------------------------------------------------------------------------------------

    def log_local(self, X: Any, lengths: ArrayLike | None = None) -> Any:
        """Return log L, the log-posterior of each state by its own step alone.

        Parameters
        ----------
        X : list of sequences, or one array
        lengths : array-like of int, optional

        Returns
        -------
        list of ndarray of shape (n_steps, n_states), or ndarray
        """
        check_is_fitted(self, "classes_")
        values, layout = self._log_local(X, lengths)
        return layout.restore(values)

    def _log_local(self, X: Any, lengths: ArrayLike | None) -> tuple[Floats, Layout]:
        if self._model is not None:
            emission = self._model.emission_
            raw, layout = emission.read(X, lengths)
            scorer = emission.log_likelihoods(self._model.parameters_.theta)
            values = scorer(emission.observe(raw)) + np.log(self.reference_)
            return log_softmax(values, axis=1), layout
        features, layout = self._features(X, lengths, learn=False)
        if layout.n_steps == 0:
            return np.zeros((0, len(self.classes_))), layout
        if self.training == "joint":
            values = np.asarray(features @ self.coef_.T) + self.intercept_
            return log_softmax(values, axis=1), layout
        share = np.asarray(self.local_.predict_proba(features), dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.log(share), layout

    def _scored(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, Potentials]:
        check_is_fitted(self, "classes_")
        values, layout = self._log_local(X, lengths)
        with np.errstate(divide="ignore"):
            initial, transitions = np.log(self.initial_), np.log(self.transmat_)
        final = np.zeros(len(self.classes_))
        if self._model is not None:
            _, transitions, final = self._model.parameters_.logs()
        values = np.ascontiguousarray(values - np.log(self.reference_))
        return layout, (values, layout.offsets, initial, transitions, final)


def _are_matrices(X: Any) -> bool:
    if scipy.sparse.issparse(X):
        return True
    if isinstance(X, np.ndarray) and X.dtype != object:
        return bool(X.ndim >= 2)
    entries = list(X) if hasattr(X, "__iter__") else []
    return bool(entries) and all(_is_matrix(part) for part in entries)


def _is_matrix(part: Any) -> bool:
    if scipy.sparse.issparse(part):
        return True
    return isinstance(part, np.ndarray) and part.ndim == 2 and part.dtype.kind in "fiub"


def _stacked(parts: list[Any]) -> Any:
    widths = [part.shape[1] if part.shape[0] else None for part in parts]
    width = next((width for width in widths if width is not None), None)
    if width is None:
        return np.zeros((0, 0))
    odd = next((n for n, found in enumerate(widths) if found not in (None, width)), None)
    if odd is not None:
        raise DataError(
            f"X: expected {counted(width, 'column')} in every sequence, got {widths[odd]} in "
            f"sequence {odd}; give all sequences the same columns"
        )
    parts = [part for part in parts if part.shape[0]]
    if any(scipy.sparse.issparse(part) for part in parts):
        matrix: Any = scipy.sparse.vstack(parts, format="csr")
        finite = np.isfinite(matrix.data).all()
    else:
        matrix = parts[0] if len(parts) == 1 else np.concatenate(parts)
        matrix = np.asarray(matrix, dtype=np.float64)
        finite = np.isfinite(matrix).all()
    if not finite:
        raise DataError("X: expected finite features, got NaN or infinity; fill them in first")
    return matrix
