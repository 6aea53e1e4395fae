"""What models with one linear predictor share: binomial and Poisson regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import counted
from crossfade._typing import Floats
from crossfade.blocks import block_sum, for_each_block
from crossfade.errors import DataError
from crossfade.glm import inference
from crossfade.glm import residuals as diagnostics
from crossfade.glm.base import Regression
from crossfade.glm.checks import check_exposure, check_offset, ignore_rows, no_trials, numbers
from crossfade.glm.data import Data
from crossfade.glm.design import refuse_missing
from crossfade.glm.families import Family
from crossfade.glm.fit import Fit, fit_glm, null_value
from crossfade.glm.formulas import as_pandas
from crossfade.glm.inference import TestResult
from crossfade.glm.links import Link
from crossfade.glm.residuals import DispersionTest, Influence
from crossfade.glm.results import check_level
from crossfade.glm.source_data import Reading, SourceData
from crossfade.inference.summary import Predictions
from crossfade.table import check_weights
from crossfade.table.kinds import Kind
from crossfade.table.read import check_same_columns
from crossfade.table.schema import Schema
from crossfade.table.source import RowSource

#: |xᵀδ| above this, in standardised columns, means an infinite linear predictor.
_RECEDES = 1e-7


class SingleResponse(Regression):
    """Parent of the models with one linear predictor: binomial and Poisson."""

    link: str | Link
    method: str
    coef_: Floats
    intercept_: float
    link_: Link

    def _fit_data(
        self, data: Data, family: Family, used: NDArray[np.int64] | None, n_given: int
    ) -> Self:
        settings = self._settings(self.method)
        intercept = settings.intercept
        works: list[Callable[[], Any]] = [
            lambda: fit_glm(data, family, self._columns, settings),
            lambda: normalisers(data, family),
        ]
        if not data.at_hand:
            works.append(lambda: null_value(data, family, intercept))  # in the same passes
        fit, (constant, saturated), *null = data.at_once(works)
        loss = self._loss(fit, family)
        first = int(settings.intercept)
        self.link_, self._family = family.link, family
        self._set_fit(
            fit,
            data,
            used,
            n_given,
            self._names(),
            constant - loss,
            max(2.0 * (loss - saturated), 0.0),
        )
        if null:
            self.null_deviance_ = max(2.0 * (null[0] - saturated), 0.0)
        self.penalised_log_likelihood_ = constant - fit.value
        if settings.method == "firth":
            # The determinant of the information is that of β's own units.
            _, scale = fit.problem.design.units()
            self.penalised_log_likelihood_ += float(np.log(scale).sum())
        self.coef_ = fit.estimates[first:]
        self.intercept_ = float(fit.estimates[0]) if first else 0.0
        return self

    def _fit_source(
        self,
        source: RowSource,
        family: Family,
        responses: Callable[[Any, Floats], Floats],
        *,
        grouped: bool = False,
    ) -> Self:
        """Fit to the rows of a source; `responses` makes numbers of labels, given their sizes."""
        if self._settings(self.method).method == "firth":
            raise DataError(
                "method: expected 'irls' for rows that are read in parts, got 'firth', which needs "
                "the leverage of every row; use l2 > 0, or fit to a table in memory"
            )
        self.__dict__.pop("_terms", None)
        head = source.head()
        numbers: Kind = "continuous"
        columns = len(source.names)
        self.schema_ = Schema(
            source.names, (numbers,) * columns, (None,) * columns, source.has_names
        )
        check_same_columns(self, head.table, reset=True)
        self._columns = [str(name) for name in source.names]
        parts = source.mapped(Reading(self.schema_, responses, grouped))
        data = SourceData.of(parts, family, self._columns)
        n_given, n_rows, without_trials = data.census.counts  # type: ignore[union-attr]
        if without_trials:
            ignore_rows(without_trials)
        if not n_rows:
            raise no_trials(n_given)
        self._fit_data(data, family, None, n_given)
        data.close()
        self.n_passes_ = data.n_passes
        return self

    @staticmethod
    def _loss(fit: Fit, family: Family) -> float:
        """Return the negative log-likelihood at the estimate, without penalty and constants."""
        problem = fit.problem
        if type(problem).__name__ == "FirthProblem":
            data = problem.data

            def sums(rows: slice) -> float:
                eta = problem.predictor(rows, fit.theta)  # type: ignore[attr-defined]
                loss, _ = family.loss(eta, data.y[rows], data.size[rows])
                return float(loss.sum() if data.weights is None else data.weights[rows] @ loss)

            return block_sum(sums, data.n_rows)
        pull = problem.penalty * fit.theta  # type: ignore[attr-defined]
        return fit.value - 0.5 * float(pull @ fit.theta)

    def _null_deviance(self) -> float:
        data = self._trained().data
        _, saturated = normalisers(data, self._family)
        loss = null_value(data, self._family, bool(self.fit_intercept))
        return max(2.0 * (loss - saturated), 0.0)

    def _pearson_dispersion(self) -> float:
        return self.pearson_dispersion_

    @property
    def pearson_dispersion_(self) -> float:
        """Pearson's X² / (n - p): about 1 where the family's variance is right."""
        if self.df_residual_ <= 0.0:
            return np.nan
        return diagnostics.pearson_statistic(self._trained().fit) / self.df_residual_

    # -- prediction ------------------------------------------------------------------------------

    def _predictor(self, X: Any, offset: ArrayLike | None) -> tuple[NDArray[Any], Floats]:
        check_is_fitted(self)
        terms = self.__dict__.get("_terms")
        if offset is None and terms is not None and terms.offsets:
            offset = terms.offset(as_pandas(X))
        matrix = self._matrix(X, reset=False)
        first = int(bool(self.fit_intercept))
        eta = np.empty(matrix.shape[0])
        beta, push = self._beta, self._direction

        def work(rows: slice) -> None:
            block = matrix[rows].astype(np.float64, copy=False)
            values = block @ beta[first:] + (beta[0] if first else 0.0)
            if push is not None:
                along = block @ push[first:] + (push[0] if first else 0.0)
                far = np.abs(along) > _RECEDES
                values[far] = np.sign(along[far]) * np.inf
            eta[rows] = values

        for_each_block(work, len(eta))
        if not np.isfinite(eta if push is None else matrix.sum()).all():
            refuse_missing(matrix, self._columns)
        if offset is not None:
            eta += numbers("offset", offset, len(eta))
        return matrix, eta

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        *,
        offset: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        covariance: Any = "model",
    ) -> Predictions:
        """Return predicted means with confidence intervals (of the mean, not of a response).

        Intervals are those of the linear predictor, taken through the link.

        Shapes: X (n_rows, n_features); offset (n_rows,); exposure (n_rows,).
        """
        level = check_level(level)
        matrix, eta = self._predictor(X, offset)
        finite = np.where(
            np.isfinite(self._covariance(covariance)), self._covariance(covariance), 0
        )
        unknown = np.isinf(self.standard_errors_)
        ones = [np.ones(len(matrix))] if self.fit_intercept else []
        rows = np.column_stack([*ones, matrix.astype(np.float64)])
        variance = np.einsum("ij,jk,ik->i", rows, finite, rows)
        error = np.sqrt(np.maximum(variance, 0.0))
        # Rows that lean on a coefficient that cannot be estimated are not bounded.
        error = np.where((rows[:, unknown] != 0.0).any(axis=1), np.inf, error)
        quantile = float(scipy.stats.norm.ppf(0.5 + 0.5 * level))
        lowest = self.link_.lowest_eta
        low = np.where(np.isinf(error), -np.inf, eta - quantile * error)
        high = np.where(np.isinf(error), np.inf, eta + quantile * error)
        inverse, size = self.link_.inverse, 1.0
        ends = inverse(low), inverse(high)
        around = (low < lowest) & (high > lowest)
        if exposure is not None:
            if self._family.size_is_trials:
                raise DataError(
                    "exposure: expected none for a binomial model, got some; multiply the mean "
                    "by the trials"
                )
            size = check_exposure(exposure, len(eta))  # type: ignore[assignment]
        return Predictions(
            mean=size * inverse(eta),
            linear_predictor=eta,
            standard_error=error,
            lower=size * np.where(around, self.link_.mean_range[0], np.minimum(*ends)),
            upper=size * np.maximum(*ends),
            level=level,
        )

    # -- diagnostics -----------------------------------------------------------------------------

    def residuals(self, kind: str = "deviance", *, dispersion: float = 1.0) -> Floats:
        """Return one residual for each row that was fitted.

        Shapes: → (n_rows,).
        """
        training = self._trained("residuals")
        return training.spread(diagnostics.residuals(training.fit, kind, dispersion))

    def influence(self, *, dispersion: float = 1.0) -> Influence:
        """Return leverage, Cook's distance and standardised residuals of each row."""
        training = self._trained("influence")
        found = diagnostics.influence(training.fit, dispersion)
        return Influence(
            training.spread(found.leverage),
            training.spread(found.cooks_distance),
            training.spread(found.standardized_pearson),
            training.spread(found.standardized_deviance),
        )

    def dispersion_test(self) -> DispersionTest:
        """Test whether the responses vary more than the family allows, and say what to do."""
        return diagnostics.dispersion_test(self._trained("dispersion_test").fit, self.df_residual_)

    def score_test(self, columns: Any = None, *, added: ArrayLike | None = None) -> TestResult:
        """Test by the likelihood's slope (Rao): are coefficients zero, or would columns matter?

        Takes added (n_rows, n_added); added: columns that the model does not have; it is not
        refitted.
        """
        if (columns is None) == (added is None):
            got = "neither" if columns is None else "both"
            raise DataError(f"columns: expected either columns or added, got {got}; give one")
        if added is None:
            return super().score_test(columns)
        training = self._trained("added")
        self._refuse_penalty("score_test")
        extra = np.asarray(added, dtype=np.float64)
        extra = extra[:, None] if extra.ndim == 1 else extra
        if extra.ndim != 2 or len(extra) != training.n_given:
            raise DataError(
                f"added: expected one row for each of the {counted(training.n_given, 'row')} "
                f"fitted, got shape {extra.shape}; give shape ({training.n_given}, n_added)"
            )
        names = [f"added {i}" for i in range(extra.shape[1])]
        return inference.score_of_added(training.fit, training.select(extra), names)

    def _title_text(self) -> str:
        return f"{self._title}, {self.link_.name} link"

    def _kind_of_ratio(self) -> str:
        kind = {"logit": "odds ratios", "log": "ratios of means"}.get(self.link_.name)
        if kind is None:
            raise DataError(
                f"ratios: expected the link logit or log, got {self.link_.name}, of which "
                "exp(coefficient) is no ratio; leave ratios out, or choose the link"
            )
        return kind

    def _rows(
        self, X: Any, sample_weight: Any, offset: Any
    ) -> tuple[NDArray[Any], Floats | None, Floats | None]:
        matrix = self._matrix(X, reset=True)
        weights = check_weights(sample_weight, len(matrix))
        return matrix, weights, check_offset(offset, len(matrix))


def normalisers(data: Data, family: Family) -> tuple[float, float]:
    """Return the log-likelihood's constant and the saturated loss, summed."""
    return data.total(lambda part: _normalisers(part, family))


def _normalisers(data: Data, family: Family) -> tuple[float, float]:
    if not data.n_rows or (family.size_is_trials and data.largest_size == 1.0):
        return 0.0, 0.0

    if (
        family.whole_numbers
        and data.size.strides == (0,)
        and data.weights is None
        and data.y.max(initial=0.0) < 1e5
    ):
        # Counts repeat: the functions are taken once for each value that occurs.
        often = np.bincount(data.y.astype(np.int64)).astype(np.float64)
        values, one = np.arange(len(often), dtype=np.float64), np.ones(len(often))
        constant, saturated = family.constant(values, one), family.saturated(values, one)
        return float(often @ constant), float(often @ saturated)

    def sums(rows: slice) -> tuple[float, float]:
        y, size = data.y[rows], data.size[rows]
        constant, saturated = family.constant(y, size), family.saturated(y, size)
        if data.weights is None:
            return float(constant.sum()), float(saturated.sum())
        weights = data.weights[rows]
        return float(weights @ constant), float(weights @ saturated)

    return block_sum(sums, data.n_rows)


def subset(used: NDArray[np.int64] | None, *arrays: Any) -> tuple[Any, ...]:
    """Return the used rows of each array (None stays None)."""
    if used is None:
        return arrays
    return tuple(None if array is None else array[used] for array in arrays)
