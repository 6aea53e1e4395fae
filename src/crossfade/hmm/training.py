"""How a hidden Markov model is trained: by counts, between the likelihoods, or by EM.

What :class:`~crossfade.HiddenMarkovModel` does in ``fit`` once its input is read.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats, Integers
from crossfade.chains.input import Labels, Layout
from crossfade.chains.markov import ChainParameters, path_scores
from crossfade.errors import ConvergenceWarning, DataError
from crossfade.hmm import baum_welch, path
from crossfade.hmm.emission import Emission, by_step, score_steps
from crossfade.hmm.objective import ChainWeights, LabelledChain, labelled_chain
from crossfade.hmm.selection import ChainSelection, fit_selected, select_chain
from crossfade.hmm.strangers import SeenSequences, SequenceDensity


class HiddenMarkovTraining:
    """The training of :class:`~crossfade.HiddenMarkovModel`, whose parameters it reads."""

    n_states: int | None
    tradeoff: float | str
    alpha: float
    algorithm: str
    n_init: int
    max_iter: int
    tol: float
    l2: float
    model_end: bool | str
    random_state: Any

    classes_: NDArray[Any]
    emission_: Emission
    parameters_: ChainParameters
    weights_: ChainWeights | None
    tradeoff_: float
    tradeoff_path_: dict[str, Floats]
    posterior_scale_: float
    selection_: str
    log_likelihood_history_: Floats
    converged_: bool
    n_iter_: int
    _seen: SeenSequences | SequenceDensity | None

    def _states_of(self, labels: Labels | None) -> NDArray[Any]:
        if labels is None:
            if self.n_states is None:
                raise DataError(
                    "n_states: expected the number of hidden states where there are no labels, "
                    "got None; try 2"
                )
            return np.arange(int(self.n_states))
        found = len(labels.classes)
        if found == 0:
            raise DataError("y: expected some labels, got hidden ones only; leave y out")
        if self.n_states not in (None, found):
            raise DataError(
                f"n_states: expected the number of labels, {found}, or None, got "
                f"{self.n_states!r}; for more states than labels fit without y"
            )
        return labels.classes

    def _fit_counts(self, named: Emission, raw: Any, layout: Layout, labels: Labels) -> None:
        classes = self._states_of(labels)
        n_states = len(classes)
        with_end = self.tradeoff != 1.0 if self.model_end == "auto" else bool(self.model_end)
        if self.tradeoff != 1.0 and not with_end:
            raise DataError(
                f"model_end: expected True or 'auto' for tradeoff={self.tradeoff!r}, got False; "
                "between joint and conditional likelihood the end of a sequence is modelled"
            )
        data = labelled_chain(named, raw, layout, labels.codes, n_states, alpha=self.alpha)
        chosen = fitted = None
        if self.tradeoff != 1.0:
            chosen, fitted = self._cross(named, raw, layout, labels, data)
            if not fitted.converged:
                warnings.warn(
                    f"the chain is not at its optimum: {fitted.message}; raise max_iter, or l2",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        # Only now: a fit that is stopped leaves the one before as it was.
        self.classes_, self.emission_ = classes, data.emission
        self._set_choice(chosen)
        if fitted is None:
            self.parameters_, self.weights_ = data.from_counts(stop=with_end), None
            self.tradeoff_, self.converged_, self.n_iter_ = 1.0, True, 1
        else:
            self.parameters_, self.weights_ = fitted.parameters, fitted.weights
            self.tradeoff_ = fitted.tradeoff
            self.converged_, self.n_iter_ = fitted.converged, fitted.n_iter
        self.log_likelihood_history_ = np.array([self._reached(data)])

        def again(some: Any, part: Layout, own: Integers | None) -> Any:
            assert own is not None
            found = labelled_chain(named, some, part, own, n_states, alpha=data.alpha)
            return found.emission, found.from_counts(stop=False)

        whole = (data.emission, data.from_counts(stop=False))
        self._seen = SeenSequences.of(raw, layout, labels.codes, again, whole)

    def _cross(
        self, named: Emission, raw: Any, layout: Layout, labels: Labels, data: LabelledChain
    ) -> tuple[ChainSelection | None, path.ChainFit]:
        settings = path.StopRule(int(self.max_iter), self.tol)
        if not isinstance(self.tradeoff, str):
            return None, path.follow(data, float(self.tradeoff), self.l2, settings)
        chosen = select_chain(
            named,
            raw,
            layout,
            labels.codes,
            data.n_states,
            pooled=self.tradeoff == "auto" and data.missing is None,
            alpha=self.alpha,
            l2=self.l2,
            settings=settings,
            rng=self._generator(),
        )
        return chosen, fit_selected(data, chosen, settings)

    def _set_choice(self, chosen: ChainSelection | None) -> None:
        """Set what is known of a choice, or forget an earlier one's."""
        if chosen is not None:
            self.tradeoff_path_, self.selection_ = chosen.path(), chosen.method
            self.posterior_scale_ = chosen.scale
            return
        for stale in ("tradeoff_path_", "posterior_scale_", "selection_"):
            self.__dict__.pop(stale, None)

    def _reached(self, data: LabelledChain) -> float:
        """Return λ joint + (1 - λ) conditional log-likelihood of the training data."""
        observations, layout, codes = data.observations, data.layout, data.codes
        value, lam = 0.0, self.tradeoff_
        if lam > 0.0:
            value += lam * float(self._joint(observations, layout, codes).sum())
        if self.weights_ is not None:
            conditional = path.conditional_log_likelihood(
                self.weights_, data.emission, observations, layout, codes
            )
            value += (1.0 - lam) * float(conditional.sum())
        return value

    def _fit_em(
        self,
        named: Emission,
        raw: Any,
        layout: Layout,
        labels: Labels | None,
        start: HiddenMarkovTraining | None,
    ) -> None:
        if layout.n_steps == 0:
            raise DataError("X: expected at least one step, got none; pass non-empty sequences")
        classes = self._states_of(labels)
        n_states = len(classes)
        codes = None if labels is None else labels.codes
        if start is not None:
            check_is_fitted(start)
            emission, starts = start.emission_, [start.parameters_]
            if len(start.classes_) != n_states:
                raise DataError(
                    f"start: expected a model of {n_states} states, got {len(start.classes_)}"
                )
            observations = emission.observe(raw)
        else:
            emission = named.bind(raw, codes, n_states)
            observations = emission.observe(raw)
            rng = self._generator()
            n_starts = int(self.n_init) if codes is None else 1
            starts = [
                baum_welch.first_parameters(
                    emission, observations, layout, codes, n_states, self.alpha, rng
                )
                for _ in range(n_starts)
            ]
        train = partial(
            baum_welch.expectation_maximisation,
            alpha=self.alpha,
            viterbi_training=self.algorithm == "viterbi",
            max_iter=int(self.max_iter),
            tol=self.tol,
        )
        trained = [train(emission, observations, layout, first, codes=codes) for first in starts]
        best = max(trained, key=lambda training: training.history[-1])
        parameters = best.parameters
        if labels is None and start is None:
            parameters = parameters.permuted(emission.order(parameters.theta))
        self.classes_ = classes
        self.emission_, self.parameters_, self.weights_ = emission, parameters, None
        self._set_choice(None)
        self.tradeoff_ = 1.0
        self.log_likelihood_history_ = np.array(best.history)
        self.converged_, self.n_iter_ = best.converged, len(best.history)

        def again(some: Any, part: Layout, own: Integers | None) -> Any:
            observed = emission.observe(some)
            return emission, train(emission, observed, part, parameters, codes=own).parameters

        self._seen = SeenSequences.of(raw, layout, codes, again, (emission, parameters))

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(self.random_state.randint(2**31))
        return np.random.default_rng(self.random_state)

    def _joint(self, observations: Any, layout: Layout, codes: Integers) -> Floats:
        scorer = self.emission_.log_likelihoods(self.parameters_.theta)
        values = score_steps(by_step(scorer, observations), layout.n_steps, len(self.classes_))
        return path_scores(values, layout, codes, self.parameters_.logs())
