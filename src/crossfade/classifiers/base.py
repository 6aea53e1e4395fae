"""What naive Bayes and the Gaussian discriminant share: everything but their density.

A subclass says which density its columns have (:meth:`TradeoffClassifier._density`); fitting,
choosing the tradeoff, predicting, sampling and the linear view follow from it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from crossfade.classifiers.scoring import Scorer, held_out_scores
from crossfade.densities.base import Density, Floats, Integers
from crossfade.errors import (
    ConvergenceWarning,
    DataError,
    DomainError,
    NotADensityError,
    SeparationWarning,
)
from crossfade.fitting.binding import bind, summarise
from crossfade.fitting.limit import density_limit
from crossfade.fitting.newton import Solution
from crossfade.fitting.objective import LabelledRows, Parameters, TradeoffObjective
from crossfade.fitting.path import cold_start, is_separated, minimise
from crossfade.fitting.selection import Selection, check_criterion, select_tradeoff
from crossfade.rows import Schema, check_weights, encode_labels, read_features

__all__ = ["TradeoffClassifier"]


class TradeoffClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Parent of the classifiers with a tradeoff between the joint and conditional likelihood."""

    tradeoff: float | str
    l2: float
    class_prior: str | ArrayLike
    unknown: Literal["marginalise", "error"]
    selection: str | ArrayLike
    class_weight: Mapping[Any, float] | str | None

    # -- what a subclass says --------------------------------------------------------------------

    @abstractmethod
    def _density(self, schema: Schema) -> Density:
        """Return the unbound density of a table with these columns."""

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        """Return the kinds of columns that the user's choice of density implies."""
        return None

    def _check_parameters(self) -> None:
        """Refuse constructor arguments that no data could make sense of."""
        tradeoff = self.tradeoff
        known = isinstance(tradeoff, str) and tradeoff == "auto"
        number = isinstance(tradeoff, (int, float, np.number)) and not isinstance(tradeoff, bool)
        if not known and not (number and 0.0 <= float(tradeoff) <= 1.0):
            raise DataError(
                f"tradeoff: expected a number from 0 (discriminative) to 1 (generative) or 'auto', "
                f"got {tradeoff!r}; 'auto' chooses it"
            )
        _check_number("l2", self.l2, 0.0, "0 for no penalty, 1 as scikit-learn's C=1")
        if self.unknown not in ("marginalise", "error"):
            raise DataError(
                f"unknown: expected 'marginalise' or 'error', got {self.unknown!r}; 'marginalise' "
                "treats a category not seen in fit as missing"
            )

    # -- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
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

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a parameter, the columns or the labels cannot be used as given.

        Warns
        -----
        SeparationWarning
            If there is no penalty and the columns separate the classes: no finite discriminative
            optimum exists.
        ConvergenceWarning
            If the solver stopped before its tolerance.
        """
        self._check_parameters()
        rows, density = self._read(X, y, sample_weight)
        self._fit_rows(rows, density)
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[LabelledRows, Density]:
        n = _n_rows(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        if given is not None and not given.all():
            # Zero weight means absent, also for the categories and kinds that are learnt.
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(X, kept), _safe_indexing(y, kept), given[kept]
        matrix, schema = read_features(
            self, X, reset=True, declared=self._declared_kinds(X), sample_weight=given
        )
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        weights = check_weights(given, matrix.shape[0], self.class_weight, codes, self.classes_)
        density = self._density(schema)
        rows = LabelledRows(matrix, codes, weights, self.classes_.size)
        return rows, density

    def _fit_rows(self, rows: LabelledRows, density: Density) -> None:
        generative = self.tradeoff == 1
        try:
            started, summary = summarise(density, rows, scales=not generative)
        except DomainError as error:
            raise error.renamed(self.schema_.names) from None
        bound = started.bind(summary)
        self._started, self._summary = (started, summary) if generative else (None, None)
        missing = _has_missing(rows, bound.counts)
        rows = replace(rows, has_missing=missing)
        if missing and not density.allows_missing:
            raise self._missing_cells(rows)
        objective = TradeoffObjective(rows, bound, 1.0, self.l2)
        self.class_count_ = rows.class_weights
        shift = self._prior_shift(rows.class_weights)
        if self.tradeoff == "auto":
            chosen = self._choose(objective, density, shift)
            at = chosen.points[chosen.chosen]
            self.tradeoff_ = at.tradeoff
            self.tradeoff_path_ = chosen.path()
            self.selection_ = chosen.method
            objective = objective.with_tradeoff(at.tradeoff)
            solution = minimise(objective, at.solution.theta)
        else:
            self.tradeoff_ = float(self.tradeoff)
            objective = objective.with_tradeoff(self.tradeoff_)
            solution = minimise(objective, cold_start(objective))
            self.tradeoff_path_ = {
                "tradeoff": np.array([self.tradeoff_]),
                "log_loss": np.array([np.nan]),
                "brier": np.array([np.nan]),
                "error": np.array([np.nan]),
                "objective": np.array([solution.value]),
            }
            self.selection_ = f"tradeoff={self.tradeoff_:g} was given"
        self._finish(objective, solution, shift)

    def _choose(
        self, objective: TradeoffObjective, density: Density, shift: Floats | None
    ) -> Selection:
        return select_tradeoff(
            objective,
            lambda rows: bind(density, rows),
            held_out_scores,
            selection=self.selection,
            score_shift=shift,
        )

    def _finish(
        self, objective: TradeoffObjective, solution: Solution, shift: Floats | None
    ) -> None:
        self.solution_ = solution
        self.n_iter_ = max(1, solution.n_iter)
        if is_separated(objective, solution.theta):
            warnings.warn(
                "the columns separate the classes and l2=0: no finite maximum of the conditional "
                "likelihood exists, the parameters are those where the solver stopped; set l2 > 0",
                SeparationWarning,
                stacklevel=4,
            )
        elif not solution.converged:
            warnings.warn(
                f"the solver {solution.message}; expected a gradient norm of 1e-8 a row, got "
                f"{solution.gradient_norm:.1e}; raise l2 or standardise the columns",
                ConvergenceWarning,
                stacklevel=4,
            )
        theta: Floats = solution.theta
        if objective.tradeoff == 0.0 and objective.density.allows_missing:
            theta = _with_density(objective, theta)
        self._set_parameters(objective.density, objective.parameters(theta), shift)
        self._objective = objective if objective.tradeoff == 0.0 else None
        self._theta = theta if objective.tradeoff == 0.0 else None

    def _set_parameters(
        self, density: Density, parameters: Parameters, shift: Floats | None
    ) -> None:
        partition = density.log_partition(parameters.natural)
        is_density = bool(np.isfinite(partition).all())
        offset = parameters.offset
        if shift is not None:
            offset = offset + shift
            if is_density:
                offset = offset - np.logaddexp.reduce(offset + partition.sum(axis=1))
        self.density_ = density
        self.parameters_ = Parameters(parameters.natural, offset)
        self._scorer = Scorer(density, self.parameters_, is_density)
        self.class_prior_ = (
            np.exp(self._scorer.log_prior) if is_density else self.class_count_ / self.class_count_.sum()
        )
"""
"""
