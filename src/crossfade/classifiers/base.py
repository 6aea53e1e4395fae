"""What naive Bayes and the Gaussian discriminant share: everything but their density.

A subclass says which density its columns have (:meth:`TradeoffClassifier._density`); fitting,
choosing the tradeoff, predicting, sampling and the linear view follow from it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from crossfade._checks import check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Integers
from crossfade.blocks import single_threaded_blas
from crossfade.classifiers.checks import (
    check_tradeoff,
    has_missing,
    has_missing_cells,
    prior_shift,
)
from crossfade.classifiers.views import FittedViews
from crossfade.densities.base import Bound, Density
from crossfade.errors import (
    ConvergenceWarning,
    DataError,
    DomainError,
    SeparationWarning,
    TradeoffWarning,
)
from crossfade.optim.newton import Solution
from crossfade.table import Schema, check_weights, encode_labels, read_features
from crossfade.table.decoding import table_library
from crossfade.table.groups import encode_groups
from crossfade.tradeoff.binding import bind, summarise
from crossfade.tradeoff.criteria import check_criterion
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.limit import densities_wanted, density_limit, posteriors_only
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.path import cold_start, is_dense, is_separated, minimise
from crossfade.tradeoff.scoring import Scorer
from crossfade.tradeoff.selection import polish, select

__all__ = ["TradeoffClassifier"]


def _same_posterior(objective: TradeoffObjective, one: Floats, other: Floats) -> bool:
    """Return whether the differences of the scores survive what densities add to all of them."""
    scores, others = objective.scores(one), objective.scores(other)
    gap = (scores - scores[:, :1]) - (others - others[:, :1])
    return bool(np.abs(gap).max(initial=0.0) < 1e-6)


class TradeoffClassifier(FittedViews, ABC):
    """Parent of the classifiers with a tradeoff between the joint and conditional likelihood."""

    tradeoff: float | str
    l2: float
    class_prior: str | ArrayLike | Mapping[Any, float]
    class_weight: Mapping[Any, float] | str | None

    # -- what a subclass says --------------------------------------------------------------------

    @abstractmethod
    def _density(self, schema: Schema) -> Density:
        """Return the unbound density of a table with these columns."""

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        """Return the kinds of columns that the user's choice of density implies."""
        return None

    def _better_kinds(
        self, rows: LabelledRows, schema: Schema, groups: Integers | None
    ) -> Mapping[int, str] | None:
        """Return the kinds of all columns where the rows tell better than the columns' types."""
        return None

    def _densities(self, schema: Schema) -> list[Density]:
        """Return what a choice is made among: variants with the same statistics, widest first."""
        return [self._density(schema)]

    def _objective(self, rows: LabelledRows, bound: Bound) -> TradeoffObjective:
        """Return the objective of rows and of the density bound to them."""
        return TradeoffObjective(rows, bound, 1.0, self.l2)

    def _check_parameters(self) -> None:
        """Refuse constructor arguments that no data could make sense of."""
        check_tradeoff(self.tradeoff)
        check_number("l2", self.l2, 0.0, "0 for no penalty, 1 as scikit-learn's C=1")
        if isinstance(self.selection, str):
            check_criterion(self.selection, 0)
        if self.handle_unknown not in ("ignore", "error"):
            raise DataError(
                f"handle_unknown: expected 'ignore' or 'error', got {self.handle_unknown!r}; "
                "'ignore' treats a category not seen in fit as missing"
            )

    # -- fitting ---------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A pandas or polars data frame, a pyarrow table, a NumPy array or nested lists. NaN,
            None and NA are missing. Not changed, and not copied if it is a C-ordered array.
        y : array-like of shape (n_samples,)
            Labels of any one type, at least two different ones.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 3 means the same as three equal rows, 0 the same as no row.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together (one patient's visits): the choice of "auto" and "best" then
            leaves out whole groups. Without a part in the fit itself.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a parameter, the columns or the labels cannot be used as given.

        Warns
        -----
        TradeoffWarning
            If a cell is missing and a tradeoff below 1e-4 was given, for which 1e-4 then stands.
        SeparationWarning
            If there is no penalty and the columns separate the classes: no finite discriminative
            optimum exists.
        ConvergenceWarning
            If the solver stopped before its tolerance.
        """
        self._check_parameters()
        rows, schema, numbers = self._read(X, y, sample_weight, groups)
        if isinstance(self.tradeoff, str):
            self._fit_choice(rows, schema, numbers, pooled=self.tradeoff == "auto")
        else:
            self._fit_given(rows, self._density(schema), float(self.tradeoff))
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, groups: ArrayLike | None = None
    ) -> tuple[LabelledRows, Schema, Integers | None]:
        n = _num_samples(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        numbers = None if groups is None else encode_groups(groups, n)
        if given is not None and not given.all():
            # Zero weight means absent, also for the categories and kinds that are learnt.
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(X, kept), _safe_indexing(y, kept), given[kept]
            numbers = None if numbers is None else np.unique(numbers[kept], return_inverse=True)[1]
        declared = self._declared_kinds(X)
        matrix, schema = read_features(self, X, reset=True, declared=declared, sample_weight=given)
        self._table_library = table_library(X)
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        weights = check_weights(given, matrix.shape[0], self.class_weight, codes, self.classes_)
        rows = LabelledRows(matrix, codes, weights, self.classes_.size)
        better = self._better_kinds(rows, schema, numbers)
        if better:
            matrix, schema = read_features(
                self, X, reset=True, declared=better, sample_weight=given
            )
            rows = replace(rows, X=matrix)
        return rows, schema, numbers

    def _bound(
        self, rows: LabelledRows, density: Density, *, batches: bool = False
    ) -> tuple[LabelledRows, Bound]:
        """Bind the density to the rows; the rows returned know whether a cell is missing."""
        try:
            started, summary = summarise(density, rows, scales=not batches)
        except DomainError as error:
            raise self._refused(error, rows, density) from None
        bound = started.bind(summary)
        if batches:
            # What partial_fit adds to.
            self._started, self._summary = started, summary
        else:
            for stale in ("_started", "_summary"):
                if hasattr(self, stale):
                    delattr(self, stale)
        missing = has_missing(rows, bound.counts)
        rows = replace(rows, has_missing=missing)
        if missing and not density.allows_missing:
            raise self._missing_cells(rows)
        return rows, bound

    def _fit_given(
        self, rows: LabelledRows, density: Density, tradeoff: float, start: Floats | None = None
    ) -> None:
        """Fit encoded rows; `start` is the optimum of a neighbour, such as a few rows less."""
        rows, bound = self._bound(rows, density, batches=tradeoff == 1.0)
        objective = self._objective(rows, bound).with_tradeoff(tradeoff)
        self.class_count_ = rows.class_weights
        shift = prior_shift(self.class_prior, self.class_count_, self.classes_)
        begin = cold_start(objective)
        # A neighbour's optimum serves where it fits and is better than knowing nothing.
        cold = (
            start is None
            or start.shape != begin.shape
            or objective.value(start) >= objective.value(begin)
        )
        solution = minimise(objective, begin if cold or start is None else start, cold=cold)
        self.tradeoff_ = objective.tradeoff
        self.tradeoff_path_ = {
            "tradeoff": np.array([objective.tradeoff]),
            "l2": np.array([objective.l2]),
            "variant": np.zeros(1),
            "weight": np.ones(1),
            "log_loss": np.array([np.nan]),
            "brier": np.array([np.nan]),
            "error": np.array([np.nan]),
            "objective": np.array([solution.value]),
        }
        self.selection_ = f"tradeoff={tradeoff:g} was given"
        if objective.tradeoff != tradeoff:
            self.selection_ += f"; with missing cells, {objective.tradeoff:g} stands for it"
            warnings.warn(
                f"tradeoff: expected at least {objective.tradeoff:g} where cells are missing, got "
                f"{tradeoff:g}; the fit is that of {objective.tradeoff:g} (see tradeoff_); fill in "
                "the missing cells first for a smaller tradeoff",
                TradeoffWarning,
                stacklevel=4,
            )
        self._set_solution(solution)
        self._warn([(objective, solution)])
        self._set_fit(objective, solution.theta, shift, undetermined=objective.tradeoff == 0.0)

    def _fit_choice(
        self, rows: LabelledRows, schema: Schema, groups: Integers | None, *, pooled: bool
    ) -> None:
        densities = self._densities(schema)
        objectives = []
        for density in densities:
            rows, bound = self._bound(rows, density)
            objectives.append(self._objective(rows, bound))
        self.class_count_ = rows.class_weights
        shift = prior_shift(self.class_prior, self.class_count_, self.classes_)
        chosen = select(
            objectives,
            lambda variant, part: self._objective(part, bind(densities[variant], part)),
            pooled=pooled,
            selection=self.selection,
            score_shift=shift,
            groups=groups,
        )
        self.tradeoff_ = chosen.tradeoff
        self.tradeoff_path_ = chosen.path()
        self.selection_ = chosen.method
        pool = polish(chosen)
        self._set_solution(pool.solution)
        self._warn([(member.objective, member.point.solution) for member in pool.members])
        # What all classes have in common, the points at λ = 0 leave open.
        undetermined = any(member.objective.tradeoff == 0.0 for member in pool.members)
        theta = pool.objective.theta(pool.parameters)
        self._set_fit(pool.objective, theta, shift, pool.scale, undetermined=undetermined)

    def _set_solution(self, solution: Solution) -> None:
        self.solution_ = solution
        self.n_iter_ = max(1, solution.n_iter)

    def _warn(self, fits: list[tuple[TradeoffObjective, Solution]]) -> None:
        if any(is_separated(objective, solution.theta) for objective, solution in fits):
            warnings.warn(
                "the columns separate the classes and l2=0: no finite maximum of the conditional "
                "likelihood exists, the parameters are those where the solver stopped; set l2 > 0",
                SeparationWarning,
                stacklevel=5,
            )
            return
        worst = max((solution for _, solution in fits), key=lambda s: s.gradient_norm)
        if not worst.converged and worst.gradient_norm > 1e-8:
            warnings.warn(
                f"the fit is not exact: {worst.message}; expected a gradient norm of 1e-8 a row, "
                f"got {worst.gradient_norm:.1e}; raise l2, or the smoothing of the densities",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _set_fit(
        self,
        objective: TradeoffObjective,
        theta: Floats,
        shift: Floats | None,
        scale: float = 1.0,
        *,
        undetermined: bool,
    ) -> None:
        """Set the parameters, those of the path's limit where λ = 0 leaves the density open."""
        undetermined = undetermined and is_dense(objective)
        if undetermined and densities_wanted():
            with single_threaded_blas():
                limit = density_limit(objective, theta)
            if limit is not None and _same_posterior(objective, theta, limit):
                theta = limit
        self._set_parameters(objective.density, objective.parameters(theta), shift, scale)
        if undetermined and not densities_wanted():
            self._scorer.postponed = partial(self._determined, objective, theta, shift, scale)

    def _determined(
        self, objective: TradeoffObjective, theta: Floats, shift: Floats | None, scale: float
    ) -> Scorer:
        with posteriors_only(False):
            self._set_fit(objective, theta, shift, scale, undetermined=True)
        return self._scorer

    def _set_parameters(
        self,
        density: Density,
        parameters: Parameters,
        shift: Floats | None,
        scale: float = 1.0,
    ) -> None:
        partition = density.log_partition(parameters.natural)
        is_density = bool(np.isfinite(partition).all())
        offset = parameters.offset
        shares = self.class_count_ / self.class_count_.sum()
        with np.errstate(divide="ignore"):
            log_prior = np.log(shares)
        if shift is not None:
            log_prior = log_prior + shift
            offset = offset + np.repeat(shift, self._n_components)
        if is_density:
            own = offset + partition.sum(axis=1)
            if scale != 1.0:
                # The pool's posterior is π (p f / π)^scale with the data's π. With these class
                # shares in the density it is that relative to the density's own, too, which is
                # what a row without any cell gets.
                own = np.logaddexp.reduce(own.reshape(log_prior.size, -1), axis=1)
                gap = np.subtract(log_prior, own, out=np.zeros_like(own), where=shares > 0.0)
                offset = offset + np.repeat((1.0 - scale) * gap, self._n_components)
                own = offset + partition.sum(axis=1)
            # A shift, or points pooled, leave class shares that do not sum to 1.
            offset = offset - np.logaddexp.reduce(own)
        self.density_ = density
        self.parameters_ = Parameters(parameters.natural, offset)
        self.posterior_scale_ = scale
        self._scorer = Scorer(
            density,
            self.parameters_,
            is_density,
            self._n_components,
            scale=scale,
            log_prior=log_prior,
        )
        self.class_prior_ = self._scorer.class_prior if is_density else shares

    def _refused(self, error: DomainError, rows: LabelledRows, density: Density) -> DataError:
        """Return the error of cells that the density does not take, in the columns' own names."""
        if not density.allows_missing and has_missing_cells(rows.X):
            return self._missing_cells(rows)
        return error.renamed(self.schema_.names)
