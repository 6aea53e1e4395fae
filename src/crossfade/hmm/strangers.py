"""Is a sequence like those of fit? The surprise of its observations, against sequences out of fold.

A sequence's surprise is -log p(x_1, …, x_T), the sum of its steps' predictive surprises
-log p(x_t | x_1, …, x_{t-1}). It grows with T, and strays from the usual sum as the root of T: the
score is (surprise - usual surprise of so many steps) / √T, which is of one size for short and for
long sequences. Where a sequence's steps stray together (speakers differ) the sum strays further, by
the design effect of a cluster (Kish 1965): √(T (1 + (T - 1) ρ)). First steps, of which nothing is
known, are usually more surprising than later ones and have a mean of their own. How long a sequence
is says nothing.

As for tables (:mod:`crossfade.inference.strangers`) the densities are those of the generative end,
and p-values come from sequences that the fit did not see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import rankdata
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats, Integers
from crossfade.chains import recursions
from crossfade.chains.input import Layout
from crossfade.chains.markov import ChainParameters
from crossfade.errors import DataError
from crossfade.hmm.emission import Emission, by_step, score_steps, taken
from crossfade.inference.strangers import Usual
from crossfade.optim.newton import sample_rows

#: Fewest sequences of which p-values can be given, and most that are held out.
_FEWEST, _MOST_HELD = 20, 1_000

#: Cells that are kept for it: 16 MB.
_MOST_CELLS = 2_000_000

_N_FOLDS = 10

#: Standard deviations of a rank correlation that are no chance.
_SURE = 3.0

#: From raw observations, their layout and codes to a bound emission and a chain.
Fit = Callable[[Any, Layout, Integers | None], tuple[Emission, ChainParameters]]


@dataclass(frozen=True)
class SequenceDensity:
    """What the observations of sequences look like, whatever their length.

    `rates`: Usual surprise of a first and of a later step, in nats.
    `usual`: Scores of sequences by fits without them; None where there are too few.
    `n_sequences`: Of fit.
    `alike`: ρ, how far the steps of a sequence stray together, and the most steps that told it.
    """

    emission: Emission
    parameters: ChainParameters
    rates: tuple[float, float]
    usual: Usual | None
    n_sequences: int
    alike: tuple[float, float] = (0.0, 1.0)

    def scores(self, raw: Any, layout: Layout) -> Floats:
        """Return the scores of sequences, 0 where nothing was observed, (n_sequences,)."""
        return _Surprise.of(self.emission, self.parameters, raw, layout).evened(
            self.rates, self.alike
        )


@dataclass(frozen=True)
class SeenSequences:
    """Sequences of fit, whose density is found when it is first asked for.

    `codes` (n_steps,) or None: Their labels; -1 where hidden.
    `whole`: The fit to all, at the generative end.
    """

    raw: Any
    layout: Layout
    codes: Integers | None
    fit: Fit
    whole: tuple[Emission, ChainParameters]
    n_sequences: int

    @classmethod
    def of(
        cls,
        raw: Any,
        layout: Layout,
        codes: Integers | None,
        fit: Fit,
        whole: tuple[Emission, ChainParameters],
    ) -> SeenSequences:
        """Return a copy of the sequences, of many an evenly spread part; empty ones left out."""
        filled = np.flatnonzero(np.diff(layout.offsets) > 0)
        cells = raw.size if hasattr(raw, "size") else len(raw)
        share = min(1.0, max(_MOST_CELLS / max(cells, 1), 2.0 * _FEWEST / max(filled.size, 1)))
        steps, part = layout.take(filled[sample_rows(filled.size, share)])
        own = None if codes is None else codes[steps]
        return cls(taken(raw, steps), part, own, fit, whole, filled.size)

    @cached_property
    def described(self) -> SequenceDensity:
        """The density of these sequences, and how surprising others usually are to it."""
        n = self.layout.n_sequences
        emission, parameters = self.whole
        if n < _FEWEST:
            return SequenceDensity(emission, parameters, (0.0, 0.0), None, self.n_sequences)
        order = np.random.default_rng(0).permutation(n)
        parts = []
        for fold in np.array_split(order, _N_FOLDS):
            held = np.sort(fold)[: max(1, _MOST_HELD // _N_FOLDS)]
            own, part = self.layout.take(held)
            emitting, chain = self._without(fold)
            parts.append(_Surprise.of(emitting, chain, taken(self.raw, own), part))
        held_out = _Surprise(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        rates = held_out.rates()
        alike = held_out.alike(rates)
        scores = held_out.evened(rates, alike)[:, None]
        usual = Usual.of(
            scores,
            np.nan_to_num(scores),
            np.ones_like(scores),
            np.zeros(1, dtype=bool),
            np.zeros(len(scores), dtype=np.int64),
            np.ones(len(scores)),
        )
        return SequenceDensity(emission, parameters, rates, usual, self.n_sequences, alike)

    def _without(self, fold: Integers) -> tuple[Emission, ChainParameters]:
        steps, part = self.layout.take(np.setdiff1d(np.arange(self.layout.n_sequences), fold))
        codes = None if self.codes is None else self.codes[steps]
        return self.fit(taken(self.raw, steps), part, codes)


class _Surprise(NamedTuple):
    """-log p of sequences' observations, and of their first steps; how many steps were observed.

    Shapes: (n_sequences,) each.
    """

    total: Floats
    of_first: Floats
    steps: Floats
    first: Floats

    @classmethod
    def of(
        cls, emission: Emission, parameters: ChainParameters, raw: Any, layout: Layout
    ) -> _Surprise:
        observed = emission.observe(raw)
        scorer = by_step(emission.log_likelihoods(parameters.theta), observed)
        values = score_steps(scorer, layout.n_steps, parameters.n_states)
        chain = parameters.logs()
        filled = np.diff(layout.offsets) > 0
        firsts = layout.firsts()
        alone = np.arange(firsts.size + 1)
        of_first, first = np.zeros(filled.size), np.zeros(filled.size)
        of_first[filled] = -recursions.log_partition(values[firsts], alone, *chain)
        seen = 1.0 * (observed >= 0) if observed.ndim == 1 else (~np.isnan(observed)).mean(axis=1)
        first[filled] = seen[firsts]
        sequence = np.repeat(np.arange(filled.size), np.diff(layout.offsets))
        total = -recursions.log_partition(values, layout.offsets, *chain) + 0.0
        steps = np.bincount(sequence, seen, minlength=filled.size).astype(np.float64, copy=False)
        return cls(total, of_first, steps, first)

    def rates(self) -> tuple[float, float]:
        """Return the mean surprise of first and of later steps of sequences that can be."""
        able = np.isfinite(self.total)
        total, of_first, steps, first = (each[able].sum() for each in self)
        later = max(steps - first, 1e-300)
        return float(of_first / max(first, 1e-300)), float((total - of_first) / later)

    def evened(self, rates: tuple[float, float], alike: tuple[float, float] = (0.0, 1.0)) -> Floats:
        """Return how far surprises are from what is usual, by how far so many steps stray."""
        usual = rates[0] * self.first + rates[1] * (self.steps - self.first)
        none = self.steps <= 0.0
        found: Floats = np.where(none, 0.0, self.total - usual)
        steps = np.where(none, 1.0, self.steps)
        others = np.clip(steps, 1.0, alike[1]) - 1.0
        return found / np.sqrt(steps * (1.0 + others * alike[0]))

    def alike(self, rates: tuple[float, float]) -> tuple[float, float]:
        """Return ρ by which the sizes of scores do not grow with the steps, and the most steps.

        By their rank correlation; 0 where that may be chance.
        """
        some = _Surprise(*(each[np.isfinite(self.total) & (self.steps > 0.0)] for each in self))
        n, most = some.steps.size, float(some.steps.max(initial=1.0))
        ranks = rankdata(some.steps) - 0.5 * (n + 1.0)

        def grown(alike: float) -> float:
            return float(ranks @ rankdata(np.abs(some.evened(rates, (alike, most)))))

        if grown(0.0) <= _SURE * np.sqrt((ranks @ ranks) * n * (n + 1.0) / 12.0):
            return 0.0, most
        if grown(1.0) >= 0.0:
            return 1.0, most
        return float(brentq(grown, 0.0, 1.0, xtol=1e-9)), most


class ChainStrangers:
    """Outlier scores and p-values of :class:`~crossfade.HiddenMarkovModel`."""

    emission_: Emission
    _seen: SeenSequences | SequenceDensity | None = None

    def __getstate__(self) -> Any:
        # Files and copies for other processes hold the density, not the sequences.
        state: Any = super().__getstate__()
        if isinstance(self._seen, SeenSequences):
            state = state | {"_seen": self._seen.described}
        return state

    def outlier_score(self, X: Any, lengths: ArrayLike | None = None) -> Floats:
        """Return how unlike the sequences of fit each sequence is.

        It is (-log p(x_1, …, x_T) - usual) / √T in nats, T steps being observed and "usual" the
        mean of that for so many: a first step's, and T - 1 times a later step's. The sum of -log
        p(x_t | x_1, …, x_{t-1}) grows as T, and its chance deviations as √T, so that short and long
        sequences can be compared. Where long sequences of fit stray further than that, as those of
        different speakers do, it is divided by √(1 + (T - 1) ρ), too, with ρ from 0 to 1 such that
        they do not, T here no more than the longest's. The length itself says nothing. As for
        tables the density is that of the generative end (tradeoff 1), whatever λ the posterior has,
        without labels that of the fit.

        Parameters
        ----------
        X : list of sequences, or one array
        lengths : array-like of int, optional

        Returns
        -------
        ndarray of shape (n_sequences,)
            The larger, the stranger; about 0 for usual sequences. inf where the density says that
            there can be none such, 0 where nothing was observed. As for tables, a column that was
            the same in all steps of fit tells nothing: another value there is not strange.

        Raises
        ------
        DataError
            If the model was fitted to fewer than 20 sequences, or made from given parameters.

        Examples
        --------
        >>> from crossfade import HiddenMarkovModel
        >>> truth = HiddenMarkovModel.from_parameters(
        ...     [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], means=[[0.0], [3.0]], covars=[[1.0], [1.0]]
        ... )
        >>> X, y = truth.sample([5, 10, 20] * 50, random_state=0)
        >>> model = HiddenMarkovModel(emission="gaussian").fit(X, y)
        >>> model.outlier_p_value([X[1], X[1] + 3]).round(3)
        array([0.51 , 0.007])
        """
        density, raw, layout = self._read_strangers(X, lengths)
        return density.scores(raw, layout)

    def outlier_p_value(self, X: Any, lengths: ArrayLike | None = None) -> Floats:
        """Return the share of sequences of fit that are no less strange, by fits without them.

        Of fresh sequences from where those of fit came from, 5 % have a p-value of .05 or less,
        however wrong the model is (conformal: Vovk, Gammerman & Shafer 2005): up to 1,000
        sequences of fit are scored by fits of ten folds, when first asked for. That is the mean
        over fits; which n sequences a fit had moves it by √(.05 · .95/n), 1.5 % of 200.

        Parameters
        ----------
        X : list of sequences, or one array
        lengths : array-like of int, optional

        Returns
        -------
        ndarray of shape (n_sequences,)
            From 1/(n + 1) for n sequences to 1.

        Raises
        ------
        DataError
            If the model was fitted to fewer than 20 sequences, or made from given parameters.
        """
        density, raw, layout = self._read_strangers(X, lengths)
        assert density.usual is not None
        one = np.ones(1)
        return density.usual.p_values(density.scores(raw, layout), None, one, one)

    def _read_strangers(
        self, X: Any, lengths: ArrayLike | None
    ) -> tuple[SequenceDensity, Any, Layout]:
        check_is_fitted(self, "parameters_")
        seen = self._seen
        if seen is None:
            raise DataError(
                "outlier_score: expected a model that was fitted to sequences, got one made from "
                "given parameters; fit it, with start=model to keep near these"
            )
        density = seen.described if isinstance(seen, SeenSequences) else seen
        if density.usual is None:
            raise DataError(
                f"outlier_score: expected a fit to at least {_FEWEST} sequences, of which some "
                f"can be held out, got {density.n_sequences}; fit to more, or cut long ones"
            )
        raw, layout = self.emission_.read(X, lengths)
        return density, raw, layout
