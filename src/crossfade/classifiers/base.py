"""What naive Bayes and the Gaussian discriminant share: everything but their density.

A subclass says which density its columns have (:meth:`TradeoffClassifier._density`); fitting,
choosing the tradeoff, predicting, sampling and the linear view follow from it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from crossfade.blocks import add_sums, block_sum, single_threaded_blas
from crossfade.densities.base import Bound, Density, Floats
from crossfade.errors import (
    ConvergenceWarning,
    DataError,
    DomainError,
    NotADensityError,
    SeparationWarning,
)
from crossfade.fitting.binding import bind, summarise
from crossfade.fitting.labelled_rows import LabelledRows
from crossfade.fitting.limit import density_limit
from crossfade.fitting.newton import Solution
from crossfade.fitting.objective import Parameters, TradeoffObjective, generative
from crossfade.fitting.path import cold_start, is_dense, is_separated, minimise
from crossfade.fitting.scoring import Scorer
from crossfade.fitting.selection import Selection, check_criterion, select_tradeoff
from crossfade.rows import Schema, check_finite, check_weights, encode_labels, read_features
from crossfade.rows.decoding import decoded_table, table_library

__all__ = ["ClassDensity", "TradeoffClassifier", "check_number"]


def _only_generative(estimator: Any) -> bool:
    if estimator._n_components > 1:
        raise AttributeError(
            f"partial_fit: expected components=1, got {estimator._n_components}; a mixture's fit "
            "needs all rows again and again: call fit on all rows"
        )
    if estimator.tradeoff == 1:
        return True
    raise AttributeError(
        f"partial_fit: expected tradeoff=1, got {estimator.tradeoff!r}; only the generative fit "
        "can be made in batches: set tradeoff=1 or call fit on all rows"
    )


class TradeoffClassifier(ClassifierMixin, BaseEstimator, ABC):
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

    #: Mixture components of each class.
    _n_components = 1

    def _objective(self, rows: LabelledRows, bound: Bound) -> TradeoffObjective:
        """Return the objective of rows and of the density bound to them."""
        return TradeoffObjective(rows, bound, 1.0, self.l2)

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
        check_number("l2", self.l2, 0.0, "0 for no penalty, 1 as scikit-learn's C=1")
        if isinstance(self.selection, str):
            check_criterion(self.selection, 0)
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
        n = _num_samples(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        if given is not None and not given.all():
            # Zero weight means absent, also for the categories and kinds that are learnt.
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(X, kept), _safe_indexing(y, kept), given[kept]
        matrix, schema = read_features(
            self, X, reset=True, declared=self._declared_kinds(X), sample_weight=given
        )
        self._table_library = table_library(X)
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        weights = check_weights(given, matrix.shape[0], self.class_weight, codes, self.classes_)
        density = self._density(schema)
        rows = LabelledRows(matrix, codes, weights, self.classes_.size)
        return rows, density

    def _fit_rows(self, rows: LabelledRows, density: Density, start: Floats | None = None) -> None:
        """Fit encoded rows; `start` is the optimum of a neighbour, such as a few rows less."""
        generative = self.tradeoff == 1
        try:
            started, summary = summarise(density, rows, scales=not generative)
        except DomainError as error:
            raise self._refused(error, rows, density) from None
        bound = started.bind(summary)
        if generative:
            # What partial_fit adds to.
            self._started, self._summary = started, summary
        else:
            for stale in ("_started", "_summary"):
                if hasattr(self, stale):
                    delattr(self, stale)
        missing = _has_missing(rows, bound.counts)
        rows = replace(rows, has_missing=missing)
        if missing and not density.allows_missing:
            raise self._missing_cells(rows)
        objective = self._objective(rows, bound)
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
            begin = cold_start(objective)
            # A neighbour's optimum serves where it fits and is better than knowing nothing.
            cold = (
                start is None
                or start.shape != begin.shape
                or objective.value(start) >= objective.value(begin)
            )
            solution = minimise(objective, begin if cold or start is None else start, cold=cold)
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
            lambda part: self._objective(part, bind(density, part)),
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
        elif not solution.converged and solution.gradient_norm > 1e-8:
            warnings.warn(
                f"the solver {solution.message}; expected a gradient norm of 1e-8 a row, got "
                f"{solution.gradient_norm:.1e}; raise l2, or the smoothing of the densities",
                ConvergenceWarning,
                stacklevel=4,
            )
        theta: Floats = solution.theta
        if objective.tradeoff == 0.0:
            theta = _with_density(objective, theta)
        self._set_parameters(objective.density, objective.parameters(theta), shift)

    def _set_parameters(
        self, density: Density, parameters: Parameters, shift: Floats | None
    ) -> None:
        partition = density.log_partition(parameters.natural)
        is_density = bool(np.isfinite(partition).all())
        offset = parameters.offset
        if shift is not None:
            offset = offset + np.repeat(shift, self._n_components)
            if is_density:
                offset = offset - np.logaddexp.reduce(offset + partition.sum(axis=1))
        self.density_ = density
        self.parameters_ = Parameters(parameters.natural, offset)
        self._scorer = Scorer(density, self.parameters_, is_density, self._n_components)
        shares = self.class_count_ / self.class_count_.sum()
        self.class_prior_ = self._scorer.class_prior if is_density else shares

    def _prior_shift(self, class_weights: Floats) -> Floats | None:
        """Return what a given class prior adds to the log of the data's, None for the data's."""
        prior = self.class_prior
        k = class_weights.size
        if isinstance(prior, str):
            if prior == "empirical":
                return None
            if prior != "uniform":
                raise _bad_prior(k, prior)
            shares = np.full(k, 1.0 / k)
        else:
            shares = np.asarray(prior, dtype=np.float64)
            usable = shares.shape == (k,) and np.isfinite(shares).all() and (shares > 0).all()
            if not usable or abs(shares.sum() - 1.0) > 1e-6:
                raise _bad_prior(k, prior)
        return np.log(shares) - np.log(class_weights / class_weights.sum())

    def _refused(self, error: DomainError, rows: LabelledRows, density: Density) -> DataError:
        """Return the error of cells that the density does not take, in the columns' own names."""
        if not density.allows_missing and _has_missing_cells(rows.X):
            return self._missing_cells(rows)
        return error.renamed(self.schema_.names)

    def _missing_cells(self, rows: LabelledRows) -> DataError:
        columns = np.flatnonzero(np.isnan(rows.X).any(axis=0))
        names = ", ".join(repr(self.schema_.names[j]) for j in columns[:10])
        return DataError(
            f"X: expected no missing cells (Input X contains NaN), got some in column"
            f"{'s' if columns.size > 1 else ''} {names}; {type(self).__name__} cannot leave a "
            "column out of a joint density: use NaiveBayes, or impute the cells"
        )

    # -- fitting in batches ----------------------------------------------------------------------

    @available_if(_only_generative)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit on one more batch of rows; batches give what one fit on all rows gives.

        Kinds of columns are settled by the first batch; new categories are learnt as they come.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call if `y` does not hold them.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If `tradeoff` is not 1, or classes are mixtures: only the generative fit of one density
            a class is a sum over rows.
        DataError
            If a parameter, the columns or the labels cannot be used as given.
        """
        self._check_parameters()
        first = not hasattr(self, "_started")
        n = _num_samples(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        if given is not None and not given.all():
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(X, kept), _safe_indexing(y, kept), given[kept]
        if first:
            matrix, schema = read_features(
                self, X, reset=True, declared=self._declared_kinds(X), sample_weight=given
            )
            self._table_library = table_library(X)
            self.classes_, codes = encode_labels(y, classes, n_samples=matrix.shape[0])
            density, before = self._density(schema), None
        else:
            matrix, schema = read_features(self, X, reset=False, extend=True)
            known, _ = encode_labels(self.classes_)
            _, codes = encode_labels(y, known, minimum=1, n_samples=matrix.shape[0])
            if classes is not None and not np.array_equal(encode_labels(classes)[0], known):
                raise DataError(
                    f"classes: expected those of the first call, {known.tolist()!r}, got "
                    f"{np.asarray(classes).tolist()!r}; leave it out after the first call"
                )
            density, before = self._widened(self._started, self._summary, schema)
        weights = check_weights(given, matrix.shape[0], self.class_weight, codes, self.classes_)
        self._add_rows(LabelledRows(matrix, codes, weights, self.classes_.size), density, before)
        return self

    def _add_rows(self, rows: LabelledRows, density: Density, before: Any = None) -> None:
        """Add encoded rows to a generative fit, or begin one with them.

        Parameters
        ----------
        rows : LabelledRows
        density : Density
            Unbound in the first call, later what that call began with, with room for new
            categories.
        before : tuple, optional
            The sums so far.
        """
        first = before is None
        try:
            if first:
                started, summary = summarise(density, rows, scales=False)
            else:
                started = density
                _, summary = summarise(started, rows, started=started)
                summary = add_sums(before, summary)
        except DomainError as error:
            raise self._refused(error, rows, density) from None
        bound = started.bind(summary)
        if _has_missing(rows, None) and not started.allows_missing:
            raise self._missing_cells(rows)
        self._started, self._summary = started, summary
        earlier = 0.0 if first else self.class_count_
        self.class_count_ = rows.class_weights + earlier
        shift = self._prior_shift(self.class_count_)
        self.tradeoff_, self.n_iter_ = 1.0, 1
        self._set_parameters(bound.density, generative(bound, self.class_count_), shift)

    def _widened(self, started: Density, summary: Any, schema: Schema) -> tuple[Density, Any]:
        """Return the density and its sums with room for the schema's new categories."""
        return started, summary

    # -- predictions: everything follows from the scorer's two seams -----------------------------

    def _encoded(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        matrix, _ = read_features(self, X, reset=False, unknown=self.unknown)
        return matrix

    def _finite(self, values: Floats, matrix: NDArray[Any]) -> Floats:
        """Refuse cells that cannot be used; they show as NaN in what was computed from them."""
        if np.isnan(values).any():
            if not self.density_.allows_missing and _has_missing_cells(matrix):
                raise self._missing_cells(LabelledRows(matrix, np.zeros(0, np.int64), None, 0))
            check_finite(matrix, self.schema_.names)
        return values

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior probability of each class.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Missing cells are left out of the product; a row without any cell gets the prior.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        matrix = self._encoded(X)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._scorer.posterior(matrix), matrix)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of :meth:`predict_proba`, exact where that underflows."""
        matrix = self._encoded(X)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._scorer.posterior(matrix, log=True), matrix)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,).

        With a cost matrix as `selection`, the class of least expected cost.
        """
        posterior = self.predict_proba(X)
        return self.classes_[self._decide(posterior)]

    def _decide(self, posterior: Floats) -> NDArray[Any]:
        """Return the code of the class to decide for, by row."""
        if not isinstance(self.selection, str):
            _, costs = check_criterion(self.selection, self.classes_.size)
            assert costs is not None
            return (posterior @ costs).argmin(axis=1)
        return posterior.argmax(axis=1)

    def decision_function(self, X: Any) -> Floats:
        """Return log-odds of the second class (two classes), else log-posteriors a class.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        log_posterior = self.predict_log_proba(X)
        if self.classes_.size == 2:
            return log_posterior[:, 1] - log_posterior[:, 0]
        return log_posterior

    def joint_log_likelihood(self, X: Any) -> Floats:
        """Return log p(x, y = k) = log p_k f_k(x), shape (n_samples, n_classes), in nats.

        Raises
        ------
        NotADensityError
            If the fitted parameters define a posterior but no density.
        """
        matrix = self._encoded(X)
        self._check_density()
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._scorer.all_rows(matrix, joint=True), matrix)

    def score_samples(self, X: Any) -> Floats:
        """Return log p(x) = log Σ_k p_k f_k(x), shape (n_samples,), in nats.

        Raises
        ------
        NotADensityError
            If the fitted parameters define a posterior but no density.
        """
        return np.logaddexp.reduce(self.joint_log_likelihood(X), axis=1)

    def _check_density(self) -> None:
        if not self._scorer.is_density:
            raise NotADensityError(
                f"tradeoff: the fit at tradeoff={self.tradeoff_:g} defines a posterior but no "
                "density of the inputs (a variance would not be positive); fit with tradeoff > 0"
            )

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Any, NDArray[Any]]:
        """Draw rows from the fitted joint density.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None
            The same integer gives the same rows.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or a data frame
            A frame of the library that the model was fitted on, with its categories.
        y : ndarray of shape (n_samples,)

        Raises
        ------
        NotADensityError
            If the fitted parameters define a posterior but no density.
        """
        check_is_fitted(self)
        self._check_density()
        if int(n_samples) != n_samples or n_samples < 1:
            raise DataError(
                f"n_samples: expected a positive integer, got {n_samples!r}; give 1 or more"
            )
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        rng = np.random.default_rng(seed)
        codes = rng.choice(self.classes_.size, size=int(n_samples), p=self.class_prior_)
        matrix = np.empty((int(n_samples), self.n_features_in_))
        for code, density in enumerate(self.class_densities_.values()):
            own = np.flatnonzero(codes == code)
            if own.size:
                matrix[own] = density.sample(own.size, rng)
        return decoded_table(self.schema_, matrix, self._table_library), self.classes_[codes]

    @property
    def class_densities_(self) -> dict[Any, ClassDensity]:
        """The fitted density of each class, by label."""
        check_is_fitted(self)
        self._check_density()
        c = self._n_components
        log_prior = self._scorer.log_prior.reshape(-1, c)
        shares = np.exp(log_prior - np.logaddexp.reduce(log_prior, axis=1, keepdims=True))
        natural = self.parameters_.natural.reshape(*shares.shape, -1)
        return {
            label: ClassDensity(self.density_, natural[code], shares[code])
            for code, label in enumerate(self.classes_.tolist())
        }

    # -- the linear view -------------------------------------------------------------------------

    def sufficient_statistics(self, X: Any) -> Floats:
        """Return T(x), the statistics in which the posterior is linear, (n_samples, n_statistics).

        In the columns' own units: for a Gaussian x (and x² where variances differ), an indicator
        for each category but its column's most frequent one. Zero where missing. Statistics whose
        coefficients are the same in all classes (the square under a shared variance) are left out.
        """
        matrix = self._encoded(X)
        statistics = self.density_.column_units_statistics(np.asarray(matrix, dtype=np.float64))
        self._finite(statistics, matrix)
        # T(x) may be x itself, which is the user's.
        return statistics.copy() if np.may_share_memory(statistics, matrix) else statistics

    @property
    def coef_(self) -> Floats:
        """Coefficients of :meth:`sufficient_statistics`, (1, p) for two classes, else (K, p).

        For two classes the log-odds of the second are ``T(x) @ coef_[0] + intercept_[0]``, up to
        missing cells; else one row a class, centred over classes as scikit-learn's are.
        """
        return self._linear()[0]

    @property
    def intercept_(self) -> Floats:
        """Intercepts that belong to :attr:`coef_`, shape (1,) or (n_classes,)."""
        return self._linear()[1]

    def _linear(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        if self._n_components > 1:
            raise AttributeError(
                f"coef_: expected components=1, got {self._n_components}; the log-odds of mixtures "
                "are not linear in any statistics"
            )
        free = ~self.density_.tied
        eta, offset = self.parameters_.natural[:, free], self.parameters_.offset
        if self.classes_.size == 2:
            eta, offset = eta[1:] - eta[:1], offset[1:] - offset[:1]
        else:
            eta, offset = eta - eta.mean(axis=0), offset - offset.mean()
        coefficients, constant = self.density_.column_units_coefficients(eta)
        return coefficients, offset + constant

    def to_logistic_regression(self) -> LogisticRegression:
        """Return a fitted scikit-learn LogisticRegression with the same posteriors.

        Returns
        -------
        LogisticRegression
            Over the columns of X where the posterior is linear in them (Bernoulli, Poisson,
            Gaussian with a shared variance or covariance), else over
            ``self.sufficient_statistics(X)``. Complete rows only.
        """
        coefficients, intercept = self._linear()
        model = LogisticRegression()
        model.classes_ = self.classes_.copy()
        model.coef_, model.intercept_ = coefficients, intercept
        model.n_features_in_ = coefficients.shape[1]
        if self.density_.linear_in_columns and hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_.copy()
        model.n_iter_ = np.array([self.n_iter_])
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


@dataclass(frozen=True)
class ClassDensity:
    """The fitted density of one class, a mixture of one or more components.

    Attributes
    ----------
    density : Density
        The bound family, shared by all classes.
    natural : ndarray of shape (n_components, n_statistics)
        This class's natural parameters.
    shares : ndarray of shape (n_components,)
        Shares of the components, 1 in all.
    """

    density: Density
    natural: Floats
    shares: Floats

    @property
    def mean_parameters(self) -> Floats:
        """E[T(x)] in each component, shape (n_components, n_statistics)."""
        return self.density.mean(self.natural)

    def log_density(self, X: ArrayLike) -> Floats:
        """Return log f(x), shape (n_samples,), of rows of numbers (categories as codes)."""
        matrix = np.ascontiguousarray(X, dtype=np.float64)
        log_densities = self.density.log_density(matrix, self.natural) + np.log(self.shares)
        return np.logaddexp.reduce(log_densities, axis=1)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw rows of numbers (categories as codes), shape (n_samples, n_features)."""
        component = rng.choice(self.shares.size, size=n_samples, p=self.shares)
        drawn = np.empty((n_samples, self.density.n_features))
        for number in range(self.shares.size):
            own = np.flatnonzero(component == number)
            drawn[own] = self.density.sample(self.natural[number], own.size, rng)
        return drawn


def check_number(name: str, value: Any, least: float, remedy: str) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < least:
        raise DataError(
            f"{name}: expected a finite number of at least {least:g}, got {value!r}; {remedy}"
        )


def _bad_prior(k: int, got: Any) -> DataError:
    return DataError(
        f"class_prior: expected 'empirical', 'uniform' or {k} positive shares that sum to 1, got "
        f"{got!r}; give one share a class, in the order of classes_"
    )


def _has_missing(rows: LabelledRows, counts: Floats | None) -> bool:
    """Return whether a cell is missing: by the counts where they are exact, else by a look."""
    if counts is not None and rows.weights is None:
        return bool((counts < rows.class_weights[:, None]).any())
    return _has_missing_cells(rows.X)


def _has_missing_cells(X: NDArray[Any]) -> bool:
    def block(rows: slice) -> float:
        flat = np.ascontiguousarray(X[rows], dtype=np.float64).ravel()
        return float(np.isnan(flat @ flat))

    with np.errstate(over="ignore"):
        return block_sum(block, X.shape[0]) > 0.0


def _with_density(objective: TradeoffObjective, theta: Floats) -> Floats:
    """Return the limit of the path with this posterior, or `theta` where there is no density."""
    if not is_dense(objective):
        return theta
    with single_threaded_blas():
        limit = density_limit(objective, theta)
    return theta if limit is None else limit
