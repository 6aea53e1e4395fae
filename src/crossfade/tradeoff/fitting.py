"""The model core: labelled rows, densities and λ in, a frozen fit out, no estimator in sight.

Of the rows it asks two things only: sums of functions over blocks, and samples of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import add_sums, single_threaded_blas
from crossfade.densities.base import Bound, Density
from crossfade.errors import (
    ConvergenceWarning,
    DomainError,
    SeparationWarning,
    TradeoffWarning,
)
from crossfade.inference.held_out import HeldOut
from crossfade.inference.sandwich import PosteriorCovariance
from crossfade.optim.solver import Solution
from crossfade.table.read import has_missing_cells
from crossfade.tradeoff.binding import RowSums, compact, has_missing, summarise
from crossfade.tradeoff.criteria import LOSSES
from crossfade.tradeoff.grid import is_dense
from crossfade.tradeoff.influence import FittedMember, StackedFits, stacked_fits
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.limit import settled
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import Parameters, TradeoffObjective, generative
from crossfade.tradeoff.path import cold_start, minimise
from crossfade.tradeoff.score_slopes import score_gradients
from crossfade.tradeoff.scoring import Scorer
from crossfade.tradeoff.separation import is_separated
from crossfade.tradeoff.unlabelled import Unlabelled


def _no_shift(class_weights: Floats) -> None:
    """Leave the class shares those of the rows."""


@dataclass(frozen=True)
class FitOptions:
    """What is fitted, the density apart.

    `prior_shift`: From the classes' weights to what is added to the log of their shares.
    `n_init`, `seed`: EM runs of a mixture, and the seed of their starts.
    """

    l2: float = 1.0
    prior_shift: Callable[[Floats], Floats | None] = _no_shift
    n_components: int = 1
    n_init: int = 5
    seed: int = 0

    def objective(
        self, rows: LabelledRows, bound: Bound, unlabelled_weight: float = 0.0
    ) -> TradeoffObjective:
        """Return the objective at λ = 1 of rows and of the density bound to them."""
        shift = self.prior_shift(rows.class_weights)
        others = Unlabelled.of(rows, unlabelled_weight, shift)
        if self.n_components == 1:
            return TradeoffObjective.of(rows, bound, 1.0, self.l2).with_unlabelled(others)
        return MixtureObjective.of(
            rows,
            bound,
            1.0,
            self.l2,
            n_components=self.n_components,
            n_init=self.n_init,
            seed=self.seed,
            unlabelled=others,
        )


@dataclass(frozen=True)
class Sums:
    """A density that has begun, and its sums over rows: what more rows are added to."""

    started: Density
    summary: Any


@dataclass(frozen=True)
class Fitted:
    """A fit: everything that a prediction follows from, and how it was found.

    `density`: Bound to the rows.
    `optimum`: Where the solver stopped; of a pool, the weighted mean.
    `class_weights` (n_classes,).
    `shift` (n_classes,) or None: Added to the log of the class shares.
    `tradeoff`: λ, of a pool the weighted mean.
    `path`: The grid that was tried, as arrays of equal length.
    `selection`: How λ was chosen, in words.
    `scale`: Power of the posterior relative to the class shares.
    `open`: Where λ = 0 leaves the classes' densities open: the joint likelihood, which settles
        them.
    `settled`: The same with these densities, where they are known already.
    `sums`: Where more rows can be added.
    `held_out` (n_samples, n_classes) or None: Log-posteriors of rows, by fits and a choice of other
        folds.
    `left_out`: Log-posteriors of rows that the fits behind the choice of λ did not see, if any.
    `evidence`: What standard errors are computed from, where there are any: with the rows by
        reference, or, where those are many, without rows.
    `found_errors`: Standard errors, where they are known already.
    `unlabelled_weight`: What a row without a label counts in the joint likelihood, of a pool the
        weighted mean.
    """

    density: Density
    optimum: Parameters
    class_weights: Floats
    shift: Floats | None
    tradeoff: float
    solution: Solution
    path: dict[str, Floats]
    selection: str
    scale: float = 1.0
    n_components: int = 1
    warnings: tuple[Warning, ...] = ()
    open: TradeoffObjective | None = None
    settled: Fitted | None = None
    sums: Sums | None = None
    held_out: Floats | None = None
    left_out: HeldOut | None = None
    evidence: StackedFits | None = None
    found_errors: PosteriorCovariance | None = None
    unlabelled_weight: float = 0.0

    def for_shares(self, shares: Floats) -> Fitted:
        """Return the same for rows among which the classes have these shares, (n_classes,)."""
        used = self.class_weights > 0.0
        data = self.class_weights / self.class_weights.sum()
        ratio = np.divide(shares, data, out=np.ones_like(data), where=used)
        settled = None if self.settled is None else self.settled.for_shares(shares)
        left_out = self.left_out
        if left_out is not None:
            left_out = replace(left_out, ratio=ratio)
        errors = self.__dict__.get("errors", self.found_errors)  # no shift enters them
        return replace(
            self, shift=np.log(ratio), settled=settled, left_out=left_out, found_errors=errors
        )

    @property
    def shares(self) -> Floats:
        """Class shares of the posterior, (n_classes,)."""
        log_prior = self._log_prior
        return np.exp(log_prior - np.logaddexp.reduce(log_prior))

    @property
    def whole(self) -> Fitted:
        """The same posterior, with the densities that the path's limit gives where λ = 0.

        Finding them can take longer than the fit, and only what needs densities asks for them.
        """
        # Not kept where it is this very object: one that holds itself cannot be saved.
        return (self.settled or self) if self.open is None else self._limit

    @cached_property
    def _limit(self) -> Fitted:
        assert self.open is not None
        with single_threaded_blas():
            limit = settled(self.open, self.optimum)
        if limit is None:
            return replace(self, open=None)
        optimum = replace(self.open.parameters(limit), absent=self.optimum.absent)
        return replace(self, optimum=optimum, open=None)

    @cached_property
    def parameters(self) -> Parameters:
        """Natural parameters and offsets for the class shares where the model will be used."""
        partition = self._partition
        offset = self.optimum.offset
        if self.shift is not None:
            offset = offset + np.repeat(self.shift, self.n_components)
        if np.isfinite(partition).all():
            own = offset + partition.sum(axis=1)
            if self.scale != 1.0:
                # The pool's posterior is π (p f / π)^scale with the data's π. With these class
                # shares in the density it is that relative to the density's own, too, which is
                # what a row without any cell gets.
                own = np.logaddexp.reduce(own.reshape(self.class_weights.size, -1), axis=1)
                used = self.class_weights > 0.0
                gap = np.subtract(self._log_prior, own, out=np.zeros_like(own), where=used)
                offset = offset + np.repeat((1.0 - self.scale) * gap, self.n_components)
                own = offset + partition.sum(axis=1)
            # A shift, or points pooled, leave class shares that do not sum to 1.
            offset = offset - np.logaddexp.reduce(own)
        return replace(self.optimum, offset=offset)

    @cached_property
    def _partition(self) -> Floats:
        return _without_rounding(self.density.log_partition(self.optimum.natural), self.density)

    @property
    def _log_prior(self) -> Floats:
        with np.errstate(divide="ignore"):
            log_prior: Floats = np.log(self.class_weights / self.class_weights.sum())
        return log_prior if self.shift is None else log_prior + self.shift

    @cached_property
    def scorer(self) -> Scorer:
        """Class scores; of rows with missing cells, those of :attr:`whole` are right."""
        return Scorer(
            self.density,
            self.parameters,
            self._partition,
            self.n_components,
            scale=self.scale,
            log_prior=self._log_prior,
        )

    @property
    def has_words_density(self) -> bool:
        """Whether words have probabilities: their A is zero, as at one λ above 0."""
        words = self.density.word_factors
        if not words.any():
            return True
        return bool(np.abs(self._partition[:, words]).max() < 1e-6)

    @property
    def class_prior(self) -> Floats:
        """p_k, shape (n_classes,)."""
        if self.scorer.is_density and self.has_words_density:
            return self.scorer.class_prior
        return self.class_weights / self.class_weights.sum()

    def posterior(self, X: Floats, log: bool = False) -> Floats:
        """Return P(y = k | x), or its logarithm, shape (n_samples, n_classes)."""
        return self._scorer_of(X).posterior(X, log)

    def _scorer_of(self, X: Floats) -> Scorer:
        if self._by_limit and has_missing_cells(X):
            return self.whole.scorer
        return self.scorer

    def decided(self, X: Floats, *, unread: bool = False) -> Integers | None:
        """Return the most probable class by row, None where :meth:`Scorer.decided` does."""
        return self._scorer_of(X).decided(X, unread=unread)

    @cached_property
    def errors(self) -> PosteriorCovariance | None:
        """The covariance of what the posterior follows from, None where rows are not at hand."""
        return self.found_errors or self.computed_errors("HC3")

    def computed_errors(self, kind: str) -> PosteriorCovariance | None:
        """Return the errors of a kind, from the rows, None where these are not at hand."""
        if self.evidence is None or not self.evidence.rows.n_samples:
            return None
        with single_threaded_blas(), suppress(np.linalg.LinAlgError):
            return self.evidence.covariance(kind)
        return None

    @property
    def is_quick(self) -> bool:
        """Whether errors, and fits to parts of the rows, take a second or so."""
        return self.evidence is not None and self.evidence.is_quick

    def with_errors(self, errors: PosteriorCovariance) -> Fitted:
        """Return the same fit with standard errors that are known."""
        return replace(self, found_errors=errors)

    def score_gradients(self) -> Callable[[Floats], Floats]:
        """Return what gives gradients of class scores in what :attr:`errors` are of, by row."""

        def at(optimum: Parameters) -> Callable[[Floats], Floats]:
            n_classes, to_offsets = self.class_weights.size, self.offset_gradients
            return score_gradients(self.density, optimum, to_offsets, n_classes, self.scale)

        own = at(self.optimum)
        if not self._by_limit:
            return own
        return lambda X: at(self.whole.optimum)(X) if has_missing_cells(X) else own(X)

    @property
    def _by_limit(self) -> bool:
        """Whether rows with missing cells have the densities of :attr:`whole`."""
        has_limit = self.open is not None or self.settled is not None
        return has_limit and self.optimum.absent is None

    @property
    def offset_gradients(self) -> Floats:
        """Gradients of states' offsets, (n_states, q): S c + (1 - S) log share + shift.

        A given class share is fixed; what it replaces, the rows' share, is not.
        """
        r, p = self.optimum.natural.shape
        k, c = self.class_weights.size, self.n_components
        n_absent = 0 if self.optimum.absent is None else self.optimum.absent.size
        of_shares = r * (p + 1) + 1 + n_absent
        found = np.zeros((r, of_shares + k + self.density.filling.size))
        own = np.arange(r)
        shares = self.class_weights / self.class_weights.sum()
        found[own, r * p + own] = 1.0
        found[:, r * (p + 1)] = -np.log(np.maximum(shares, 1e-300)).repeat(c)
        free = 1.0 - self.scale if self.shift is None else -self.scale
        found[own, of_shares + own // c] = free
        return found

    def without_search(self) -> Fitted:
        """Return the same with its densities found; the search and its warnings are left out.

        Standard errors are kept if they were asked for, or take little.
        """
        errors = self.errors if "errors" in self.__dict__ or self.is_quick else self.found_errors
        told = replace(self, warnings=(), evidence=None, found_errors=errors)
        if self.open is None:
            return told
        settled = replace(self.whole, warnings=(), evidence=None, found_errors=None)
        return replace(told, open=None, settled=settled)


def fit_tradeoff(
    rows: LabelledRows,
    density: Density,
    tradeoff: float,
    options: FitOptions,
    start: Floats | None = None,
    groups: Integers | None = None,
    unlabelled_weight: float = 0.0,
    learnt_words: bool = False,
) -> Fitted:
    """Fit a density at one λ; `start` is the optimum of a neighbour. DomainError on wrong cells.

    `groups` has a part in standard errors alone. `learnt_words`: Whether its words are those of
    all rows, with a label and without.
    """
    some_weight = unlabelled_weight > 0.0 and rows.unlabelled is not None and tradeoff > 0.0
    if learnt_words and rows.unlabelled is not None:
        density = density.for_words_of(rows.X, rows.unlabelled.X if some_weight else None)
    if tradeoff == 1.0 and density.reads_words and not some_weight:
        fitted, bound = _closed_form(rows, density, options)  # as wide as words are, one look
        evidence = _of_closed_form(rows, bound, fitted, options, groups)
        found = replace(fitted, evidence=evidence)
        found.__dict__["_partition"] = fitted._partition  # which a copy forgets
        return found
    if tradeoff != 1.0 or some_weight:
        density, rows = compact(density, rows, with_others=some_weight)
    rows, bound, sums = bound_rows(rows, density, scales=tradeoff != 1.0)
    objective = options.objective(rows, bound, unlabelled_weight).with_tradeoff(tradeoff)
    # A neighbour's optimum serves where it fits and is better than knowing nothing.
    if start is not None and not (
        start.size == objective.n_parameters
        and objective.value(start) < objective.value(cold_start(objective))
    ):
        start = None
    solution = minimise(objective, start, cold=start is None)
    selection, warned = f"tradeoff={tradeoff:g} was given", worries([(objective, solution)])
    if objective.tradeoff != tradeoff:
        selection += f"; with missing cells, {objective.tradeoff:g} stands for it"
        message = (
            f"tradeoff: expected at least {objective.tradeoff:g} where cells are missing, got "
            f"{tradeoff:g}; the fit is that of {objective.tradeoff:g} (see tradeoff_); fill in "
            "the missing cells first for a smaller tradeoff, or give 0"
        )
        warned = (TradeoffWarning(message), *warned)
    nothing = np.array([np.nan])
    density, optimum = objective.spread(solution.theta)
    return Fitted(
        density=density,
        optimum=optimum,
        class_weights=rows.class_weights,
        shift=options.prior_shift(rows.class_weights),
        tradeoff=objective.tradeoff,
        solution=solution,
        path={
            "tradeoff": np.array([objective.tradeoff]),
            "l2": np.array([objective.l2]),
            "variant": np.zeros(1),
            "weight": np.ones(1),
            **{name: nothing.copy() for name in LOSSES},
            "objective": np.array([solution.value]),
        },
        selection=selection,
        n_components=options.n_components,
        warnings=warned,
        open=left_open(objective) if objective.tradeoff == 0.0 else None,
        sums=sums if tradeoff == 1.0 and options.n_components == 1 and not some_weight else None,
        evidence=stacked_fits(
            [FittedMember(objective, solution.theta)],
            groups,
            has_absent=optimum.absent is not None,
        ),
        unlabelled_weight=unlabelled_weight if some_weight else 0.0,
    )


def _of_closed_form(
    rows: LabelledRows, bound: Bound, fitted: Fitted, options: FitOptions, groups: Integers | None
) -> StackedFits | None:
    """Return what standard errors of a closed form need, None where there are none."""
    if not np.isfinite(fitted._partition).all():
        return None
    objective = options.objective(replace(rows, unlabelled=None), bound)
    return stacked_fits([FittedMember(objective, fitted.optimum)], groups, copied=False)


def add_rows(
    rows: LabelledRows, density: Density, options: FitOptions, before: Fitted | None = None
) -> Fitted:
    """Fit at λ = 1 to one more batch of rows; batches give what one fit on all rows gives."""
    return _closed_form(rows, density, options, before)[0]


def _closed_form(
    rows: LabelledRows, density: Density, options: FitOptions, before: Fitted | None = None
) -> tuple[Fitted, Bound]:
    """Return the same, and the density bound to all rows so far."""
    class_weights = rows.class_weights
    if before is None or before.sums is None:
        started, summary = summarise(density, rows, scales=False)
    else:
        started = before.sums.started
        # What was summed before is not written to: a refused batch leaves it whole.
        summary = add_sums(summarise(started, rows, started=started)[1], before.sums.summary)
        class_weights = class_weights + before.class_weights
    _check_missing(has_missing(rows, None), started)
    bound = started.bind(summary)
    value = np.array([np.nan])
    path = {"tradeoff": np.ones(1), "l2": np.array([options.l2]), "variant": np.zeros(1)}
    path |= {"weight": np.ones(1)} | dict.fromkeys(LOSSES, value)
    optimum, partition = generative(bound, class_weights)
    fitted = Fitted(
        density=bound.density,
        optimum=optimum,
        class_weights=class_weights,
        shift=options.prior_shift(class_weights),
        tradeoff=1.0,
        solution=Solution(np.zeros(0), np.nan, 0.0, 0, True, "closed form of the generative fit"),
        path=path | {"objective": value},
        selection="tradeoff=1 was given",
        sums=Sums(started, summary),
    )
    fitted.__dict__["_partition"] = _without_rounding(partition, bound.density)
    return fitted, bound


def _without_rounding(partition: Floats, density: Density) -> Floats:
    """Return A, of words that have probabilities zero: it is but for rounding."""
    return np.where(density.word_factors & (np.abs(partition) < 1e-10), 0.0, partition)


def bound_rows(
    rows: LabelledRows, density: Density, *, scales: bool = True, known: RowSums | None = None
) -> tuple[LabelledRows, Bound, Sums]:
    """Bind the density to the rows; the rows returned know whether a cell is missing.

    Takes known: sums of the same rows for other densities, with `scales`.
    """
    if rows.is_part and rows.weights is not None:
        # Weighted counts do not tell whether a cell is missing: it is looked for in the same pass.
        works: list[Callable[[], Any]]
        works = [lambda: summarise(density, rows, scales=scales), lambda: has_missing(rows, None)]
        (started, summary), missing = rows.fits(lambda work: work(), works)
        bound = started.bind(summary)
    else:
        started, summary = (
            summarise(density, rows, scales=scales)
            if known is None
            else known.summarise(density, rows)
        )
        bound = started.bind(summary)
        missing = has_missing(rows, bound.counts)
    missing = started.filled or missing
    _check_missing(missing, density)
    others = rows.unlabelled
    if others is not None:  # cells that cannot be summed are refused as those of other rows are
        of_one = LabelledRows(others.X, np.zeros(others.X.shape[0], np.int64), others.weights, 1)
        summarise(started, of_one, started=started)
        _check_missing(started.filled or has_missing(of_one, None), density)
    return replace(rows, has_missing=missing), bound, Sums(started, summary)


def _check_missing(missing: bool, density: Density) -> None:
    if missing and not density.allows_missing:
        raise DomainError((), "no missing cells", float("nan"), "impute the cells")


def left_open(objective: TradeoffObjective) -> TradeoffObjective | None:
    """Return the joint likelihood that settles the densities at λ = 0, None where too large."""
    if not is_dense(objective):
        return None
    return objective.with_unlabelled(None).with_tradeoff(1.0).without_rows()


def worries(fits: Sequence[tuple[TradeoffObjective, Solution]]) -> tuple[Warning, ...]:
    """Return warnings about fits that have no optimum, or did not reach it."""
    if any(is_separated(objective, solution.theta) for objective, solution in fits):
        return (
            SeparationWarning(
                "the columns separate the classes and l2=0: no finite maximum of the conditional "
                "likelihood exists, the parameters are those where the solver stopped; set l2 > 0"
            ),
        )
    worst = max((solution for _, solution in fits), key=lambda s: s.gradient_norm)
    if worst.converged or worst.gradient_norm <= 1e-8:
        return ()
    return (
        ConvergenceWarning(
            f"the fit is not exact: {worst.message}; expected a gradient norm of 1e-8 per row, "
            f"got {worst.gradient_norm:.1e}; raise l2, or the smoothing of the densities"
        ),
    )
