"""The hidden Markov model: a generative chain, from labels, from none, or from some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_choice, check_number, counted
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.chains import recursions
from crossfade.chains.block_recursions import StepScorer
from crossfade.chains.decoding import ChainDecoding, ChainLogs, Potentials
from crossfade.chains.input import Layout, layout_of, names_array, read_labels
from crossfade.chains.markov import ChainParameters, probabilities, sampled_path, stationary
from crossfade.densities import Density
from crossfade.errors import DataError
from crossfade.hmm.emission import by_step, score_steps
from crossfade.hmm.emissions import emission_for, emission_from
from crossfade.hmm.path import refuse_without_density
from crossfade.hmm.standard_errors import ChainStandardErrors
from crossfade.hmm.strangers import ChainStrangers
from crossfade.hmm.training import HiddenMarkovTraining
from crossfade.tradeoff.grid import SHRINKAGE_ROWS


class HiddenMarkovModel(
    HiddenMarkovTraining, ChainStandardErrors, ChainStrangers, ChainDecoding, BaseEstimator
):
    """A chain of hidden states, each of which emits an observation.

    Without labels it is trained by Baum-Welch (or Viterbi training); with labels by counts; with
    some labels hidden by EM that keeps the known ones. With labels and a `tradeoff` below 1 the
    same model is fitted to λ · joint + (1 - λ) · conditional log-likelihood: λ = 1 are the counts,
    λ = 0 is the conditional random field with the same features
    (:mod:`crossfade.hmm.path`).

    Parameters
    ----------
    n_states : int, optional
        Number of hidden states K; needed without labels, and else their number.
    emission : {"categorical", "gaussian", "poisson", "bernoulli"} or Density, \
default="categorical"
        What a state emits: one symbol per step (words, tags, codes), independent columns of one
        of these distributions, or any density of :mod:`crossfade.densities`. Where the tradeoff is
        chosen the variances of "gaussian" get two pseudo-rows with that of all states.
    tradeoff : float in [0, 1], "auto" or "best", default=1.0
        λ, the weight of the joint likelihood. "auto" pools a grid of λ and penalties by their
        conditional likelihood on held-out sequences, "best" picks one point of it (as "auto" does
        where cells are missing). Other than 1.0 it needs a label at every step.
    alpha : float, default=0.01
        Pseudo-count of each start, transition, end and symbol. A density keeps its own smoothing.
    algorithm : {"baum-welch", "viterbi"}, default="baum-welch"
        How unlabelled sequences are used: expectations over all paths, or the best path alone.
    n_init : int, default=1
        Number of random starts without labels; the best is kept.
    max_iter : int, default=200
    tol : float, default=1e-6
        Training stops when the objective gains no more than this per step of the sequences; for a
        `tradeoff` below 1, when no gradient entry exceeds this per step.
    l2 : float, default=2.0
        Penalty (1 - λ) · ½ l2 · Σ weight² of a `tradeoff` below 1, on start, transition, end and
        emission weights, as the random field has it. "auto" and "best" try a tenth and ten times
        of it, too.
    model_end : bool or "auto", default="auto"
        Whether the model knows where sequences end. "auto": only for a `tradeoff` other than 1.0,
        whose random field has end weights.
    random_state : int, Generator or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_states,)
        Names of the states: the labels, or 0 … K-1 in the order of their means (of their
        symbols' probabilities).
    startprob_ : ndarray of shape (n_states,)
    transmat_ : ndarray of shape (n_states, n_states)
        [from, to]; rows sum to 1.
    stopprob_ : ndarray of shape (n_states,) or None
        Probability that a sequence ends after a step in this state, if the end is modelled.
    emissionprob_ : ndarray of shape (n_states, n_symbols)
        Categorical emission only. Rows sum to 1 with ``unseenprob_``, the cell reserved for
        symbols that training never saw.
    unseenprob_ : ndarray of shape (n_states,)
    symbols_ : ndarray of shape (n_symbols,)
    means_, covars_ : ndarray
        Gaussian emissions: (n_states, n_features), and variances of the same shape or
        covariances (n_states, n_features, n_features). Poisson and Bernoulli: ``means_``. There
        are none where a discriminative fit left no density.
    log_likelihood_history_ : ndarray of shape (n_iter_,)
        Log-likelihood at each iteration, plus the log prior density of the smoothing, which
        together never fall. With all labels known: one entry, λ joint + (1 - λ) conditional
        log-likelihood.
    converged_ : bool
    n_iter_ : int
    tradeoff_ : float
        λ in use, of a pool the weighted mean.
    tradeoff_path_ : dict of ndarray
        Of a choice ("auto", "best"): tradeoff, l2, weight and log_loss (minus the held-out
        conditional log-likelihood, a step), a point of the grid each.
    posterior_scale_ : float
        Sum of the pool's weights: the power of the posterior, relative to the states' shares.
        ``log_likelihood`` and ``sample`` use weights that sum to one, a density.
    selection_ : str
        What was chosen, from what, and how flat the choice was.
    parameters_ : ChainParameters
    emission_ : Emission

    Raises
    ------
    DataError
        If data or a parameter cannot be used as given.

    Notes
    -----
    Rabiner (1989), "A tutorial on hidden Markov models and selected applications in speech
    recognition". A missing step (NaN in all columns, symbol None) emits nothing and is skipped; at
    tradeoff 0 its statistics have their mean over the steps of fit, as in tables.

    Examples
    --------
    >>> from crossfade import HiddenMarkovModel
    >>> words = [["the", "dog", "runs"], ["a", "dog", "sleeps"], ["the", "cat", "runs"]]
    >>> tags = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"]]
    >>> model = HiddenMarkovModel(emission="categorical").fit(words, tags)
    >>> model.predict([["a", "cat", "purrs"]])
    [array(['D', 'N', 'V'], dtype='<U1')]
    """

    def __init__(
        self,
        n_states: int | None = None,
        emission: str | Density = "categorical",
        *,
        tradeoff: float | str = 1.0,
        alpha: float = 0.01,
        algorithm: str = "baum-welch",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        l2: float = 2.0,
        model_end: bool | str = "auto",
        random_state: Any = None,
    ):
        self.n_states = n_states
        self.emission = emission
        self.tradeoff = tradeoff
        self.alpha = alpha
        self.algorithm = algorithm
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.l2 = l2
        self.model_end = model_end
        self.random_state = random_state

    # -- training --------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any = None,
        lengths: ArrayLike | None = None,
        *,
        start: HiddenMarkovModel | None = None,
    ) -> Self:
        """Train on sequences, labelled or not.

        Parameters
        ----------
        X : list of sequences, or one array of all steps
            Arrays of shape (n_steps,) or (n_steps, n_features), or lists of symbols.
        y : list of sequences of labels, or one array, optional
            A hidden label is None, NaN, or -1 among integers; None for a sequence hides all of its.
        lengths : array-like of shape (n_sequences,), int, optional
            Where X is one array: the number of steps of each sequence.
        start : HiddenMarkovModel, optional
            A fitted model to start from, instead of random starts. Its zeros (of starts,
            transitions and symbols, as in a left-right chain) stay zeros.

        Returns
        -------
        HiddenMarkovModel
            Itself.
        """
        self._check_parameters()
        rows = SHRINKAGE_ROWS if isinstance(self.tradeoff, str) else 0.0
        named = emission_for(self.emission, self.alpha, rows) if start is None else start.emission_
        raw, layout = named.read(X, lengths)
        if layout.n_steps and not named.any_observed(raw):
            raise DataError(
                f"X: expected some observed values, got {counted(layout.n_steps, 'step')} without "
                "any; drop them"
            )
        labels = None if y is None else read_labels(y, layout, hidden=True)
        if labels is not None and labels.complete and layout.n_steps:
            self._fit_counts(named, raw, layout, labels)
        elif self.tradeoff != 1.0:
            raise DataError(
                f"tradeoff: expected 1.0 where labels are missing, got {self.tradeoff!r}; "
                "the conditional likelihood needs a label at every step"
            )
        else:
            self._fit_em(named, raw, layout, labels, start)
        self._publish()
        return self

    def _check_parameters(self) -> None:
        if self.tradeoff not in ("auto", "best") and not (
            isinstance(self.tradeoff, int | float) and 0.0 <= self.tradeoff <= 1.0
        ):
            raise DataError(
                f"tradeoff: expected a number in [0, 1], 'auto' or 'best', got {self.tradeoff!r}; "
                "1.0 is generative, 0.0 discriminative"
            )
        check_choice("algorithm", self.algorithm, ("baum-welch", "viterbi"))
        for name in ("alpha", "tol", "l2"):
            check_number(name, getattr(self, name), 0.0)
        for name in ("n_init", "max_iter"):
            check_number(name, getattr(self, name), 1, whole=True)
        if self.n_states is not None:
            check_number("n_states", self.n_states, 1, whole=True)
        check_choice("model_end", self.model_end, (True, False, "auto"))

    def _publish(self) -> None:
        """Set the attributes that show the parameters in the usual terms."""
        parameters = self.parameters_
        for name in ("emissionprob_", "unseenprob_", "symbols_", "means_", "covars_"):
            self.__dict__.pop(name, None)  # an earlier fit's, of another emission
        self.startprob_, self.transmat_ = parameters.start, parameters.transitions
        self.stopprob_ = parameters.stop
        self.__dict__.update(self.emission_.in_usual_terms(parameters.theta))

    @classmethod
    def from_parameters(
        cls,
        startprob: ArrayLike,
        transmat: ArrayLike,
        *,
        emissionprob: ArrayLike | None = None,
        symbols: Sequence[Any] | None = None,
        means: ArrayLike | None = None,
        covars: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        **settings: Any,
    ) -> Self:
        """Return a fitted model with given parameters, to evaluate, decode, sample or train on.

        Parameters
        ----------
        startprob : array-like of shape (n_states,)
        transmat : array-like of shape (n_states, n_states)
        emissionprob : array-like of shape (n_states, n_symbols), optional
            Categorical emission, with `symbols` (default 0, 1, …).
        symbols : sequence of hashable, optional
        means : array-like of shape (n_states, n_features), optional
            Gaussian emission, with `covars`.
        covars : array-like of shape (n_states, n_features) or (n_states, n_features, n_features)
            Variances, or covariances.
        rates : array-like of shape (n_states, n_features), optional
            Poisson emission.
        classes : sequence, optional
            Names of the states, 0 … K-1 by default.
        **settings
            Parameters of the model.

        Returns
        -------
        HiddenMarkovModel

        Examples
        --------
        >>> from crossfade import HiddenMarkovModel
        >>> model = HiddenMarkovModel.from_parameters(
        ...     [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[0.0], [3.0]], covars=[[1.0], [1.0]]
        ... )
        >>> model.predict([[[0.1], [0.2], [2.9]]])
        [array([0, 0, 1])]
        """
        start, transitions = probabilities(startprob, transmat)
        n_states = len(start)
        density, emission, theta = emission_from(
            emissionprob, symbols, means, covars, rates, settings.get("alpha", 0.01)
        )
        if len(theta) != n_states:
            raise DataError(
                f"startprob: expected {len(theta)} states as the emission has, got {n_states}"
            )
        model = cls(n_states=n_states, emission=density, **settings)
        model.classes_ = np.arange(n_states) if classes is None else names_array(classes)
        model.emission_ = emission
        model.parameters_ = ChainParameters(start, transitions, None, theta)
        model.weights_, model.tradeoff_ = None, 1.0
        model.log_likelihood_history_ = np.empty(0)
        model.converged_, model.n_iter_ = False, 0
        model._publish()
        return model

    # -- use -------------------------------------------------------------------------------------

    def _steps(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, StepScorer, ChainLogs]:
        check_is_fitted(self, "parameters_")
        raw, layout = self.emission_.read(X, lengths)
        observations = self.emission_.observe(raw)
        if self.weights_ is None:
            scorer = self.emission_.log_likelihoods(self.parameters_.theta)
            chain = self.parameters_.logs()
        else:
            scorer = self.emission_.potentials(self.weights_.theta, self.weights_.absent)
            chain = (self.weights_.start, self.weights_.transitions, self.weights_.stop)
        start, transitions, stop = (np.ascontiguousarray(part) for part in chain)
        return layout, by_step(scorer, observations), (start, transitions, stop)

    def _scored(self, X: Any, lengths: ArrayLike | None) -> tuple[Layout, Potentials]:
        layout, scorer, chain = self._steps(X, lengths)
        values = score_steps(scorer, layout.n_steps, len(self.classes_))
        return layout, (values, layout.offsets, *chain)

    def log_likelihood(self, X: Any, y: Any = None, lengths: ArrayLike | None = None) -> Floats:
        """Return log p(x), or log p(x, y), of each sequence.

        Parameters
        ----------
        X : list of sequences, or one array
        y : list of sequences of labels, or one array, optional
        lengths : array-like of int, optional

        Returns
        -------
        ndarray of shape (n_sequences,)

        Raises
        ------
        NotADensityError
            If the discriminative end of the tradeoff left no density of the observations.
        """
        check_is_fitted(self, "parameters_")
        raw, layout = self.emission_.read(X, lengths)
        observations = self.emission_.observe(raw)
        refuse_without_density(self.emission_, self.parameters_)
        if y is not None:
            labels = read_labels(y, layout, self.classes_)
            return self._joint(observations, layout, labels.codes)
        scorer = self.emission_.log_likelihoods(self.parameters_.theta)
        values = score_steps(by_step(scorer, observations), layout.n_steps, len(self.classes_))
        return recursions.log_partition(values, layout.offsets, *self.parameters_.logs())

    def score(self, X: Any, y: Any = None, lengths: ArrayLike | None = None) -> float:
        """Return the total log-likelihood, or with labels the share of steps predicted right.

        Parameters
        ----------
        X : list of sequences, or one array
        y : list of sequences of labels, or one array, optional
        lengths : array-like of int, optional

        Returns
        -------
        float
        """
        if y is None:
            return float(self.log_likelihood(X, lengths=lengths).sum())
        return self._accuracy(X, y, lengths)

    def sample(
        self, lengths: int | ArrayLike, random_state: Any = None
    ) -> tuple[list[Any], list[NDArray[Any]]]:
        """Draw sequences of given lengths from the joint distribution.

        Parameters
        ----------
        lengths : int or array-like of int
            Number of steps of each sequence; one number for one sequence.
        random_state : int, Generator or None, default=None

        Returns
        -------
        X : list of ndarray
        states : list of ndarray
        """
        check_is_fitted(self, "parameters_")
        refuse_without_density(self.emission_, self.parameters_)
        rng = np.random.default_rng(random_state)
        counts = np.atleast_1d(np.asarray(lengths))
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise DataError(f"lengths: expected whole numbers >= 0, got {lengths!r}")
        layout = Layout(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), listed=True)
        codes = sampled_path(self.parameters_, layout, rng)
        observations = self.emission_.sample(self.parameters_.theta, codes, rng)
        return layout.restore(observations), layout.restore(self.classes_[codes])

    def stationary_distribution(self) -> Floats:
        """Return the long-run share of each state, shape (n_states,): π with π a = π.

        Raises
        ------
        DataError
            If there are several, the chain falling into parts.
        NotADensityError
            If the discriminative end of the tradeoff left no transition probabilities.
        """
        check_is_fitted(self, "parameters_")
        refuse_without_density(self.emission_, self.parameters_)
        return stationary(self.transmat_)

    def n_free_parameters(self) -> int:
        """Return the number of free parameters: starts, transitions, ends and emissions."""
        check_is_fitted(self, "parameters_")
        n_states = len(self.classes_)
        ends = 0 if self.stopprob_ is None else n_states
        return n_states**2 - 1 + ends + self.emission_.n_free(n_states)

    def aic(self, X: Any, lengths: ArrayLike | None = None) -> float:
        """Return Akaike's information criterion, -2 log-likelihood + 2 parameters (less: better).

        Parameters
        ----------
        X : list of sequences, or one array
        lengths : array-like of int, optional
        """
        return -2.0 * self.score(X, lengths=lengths) + 2.0 * self.n_free_parameters()

    def bic(self, X: Any, lengths: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion, -2 log-likelihood + parameters · log steps.

        Parameters
        ----------
        X : list of sequences, or one array
        lengths : array-like of int, optional
        """
        n_steps = max(layout_of(X, lengths).n_steps, 1)
        penalty = self.n_free_parameters() * float(np.log(n_steps))
        return -2.0 * self.score(X, lengths=lengths) + penalty

    def relabelled(self, names: Sequence[Any]) -> HiddenMarkovModel:
        """Return the same fitted model with its states named anew, in their order.

        Parameters
        ----------
        names : sequence of n_states distinct names

        Returns
        -------
        HiddenMarkovModel
        """
        check_is_fitted(self, "parameters_")
        if len(names) != len(self.classes_) or len(set(names)) != len(names):
            raise DataError(
                f"names: expected {len(self.classes_)} distinct names, got {list(names)!r}"
            )
        new: HiddenMarkovModel = type(self)(**self.get_params(deep=False))
        new.__dict__.update(self.__dict__)
        new.classes_ = names_array(names)
        return new
