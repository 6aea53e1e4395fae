"""What the three regressions share: fitting, by arrays or by a formula."""

from __future__ import annotations

import warnings
from copy import deepcopy
from inspect import signature
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from crossfade._checks import check_choice, check_number
from crossfade._typing import Floats
from crossfade.errors import AliasedColumnsWarning, ConvergenceWarning, DataError, SeparationWarning
from crossfade.glm import formulas
from crossfade.glm.data import Data
from crossfade.glm.fit import Fit, FitSettings
from crossfade.glm.results import Results, TrainingRows, shown
from crossfade.table import read_features


class Regression(Results):
    """Parent of the regressions: fitting."""

    # -- fitting ---------------------------------------------------------------------------------

    def _settings(self, method: str = "irls") -> FitSettings:
        check_choice("method", method, ("irls", "firth"))
        l2 = check_number("l2", self.l2, 0.0, "use 0 for no penalty")
        if method == "firth" and l2 > 0.0:
            raise DataError(
                f"l2: expected 0 with method='firth', which has its own penalty, got {self.l2!r}; "
                "use one of the two"
            )
        digits = check_number("tol_digits", self.tol_digits, remedy="use 8", above=0.0)
        steps = check_number("max_iter", self.max_iter, 1, "use 100", whole=True)
        return FitSettings(bool(self.fit_intercept), l2, method, digits, int(steps))

    @classmethod
    def from_formula(cls, formula: str, data: Any, **options: Any) -> Self:
        """Fit the model that a formula describes to the columns of a table.

        Parameters
        ----------
        formula : str
            ``response ~ terms``, as in R: ``"cbind(dead, n - dead) ~ log(dose) + C(kind)"``, with
            ``offset(...)`` terms and ``- 1`` for no constant. Needs the extra ``formula``.
        data : data frame
            Of any library.
        **options
            Parameters of the model; ``sample_weight``, ``trials`` (binomial) or ``exposure``
            (Poisson) as names of columns or as arrays. Rows with a missing cell in a column that
            is used are left out, as R does, with an IgnoredRowsWarning.

        Returns
        -------
        self
            Fitted; it predicts from tables with the same columns as `data`.

        Raises
        ------
        DataError
            If the formula or the table cannot be used as given. Rows are counted from 1.

        Examples
        --------
        >>> import pandas as pd
        >>> from crossfade.glm import PoissonRegression
        >>> claims = pd.DataFrame({"n": [2, 4, 7, 8], "kind": list("aabb"), "years": [1, 2, 1, 1]})
        >>> fit = PoissonRegression.from_formula("n ~ kind", claims, exposure="years")
        >>> fit.names_, fit.coef_.round(4)
        (('Intercept', 'kind[T.b]'), array([1.3218]))
        """
        table = formulas.as_pandas(data)
        beside = {name: options.pop(name, None) for name in ("sample_weight", "trials", "exposure")}
        named = {given for given in beside.values() if isinstance(given, str)}
        kept = formulas.complete_rows(table, formulas.columns_of(formula) | named)
        for name, given in beside.items():
            if not isinstance(given, str) and np.shape(given)[:1] == (len(table),):
                beside[name] = np.asarray(given)[kept]
        with formulas.rows_counted_from_one(kept):
            complete = table.iloc[kept].reset_index(drop=True)
            return cls._of_complete(formula, complete, beside, options)

    @classmethod
    def _of_complete(
        cls, formula: str, table: Any, beside: dict[str, Any], options: dict[str, Any]
    ) -> Self:
        """Fit the model to rows without missing cells."""
        read = formulas.read_formula(formula, table)
        rows: dict[str, Any] = {"trials": read.trials, "offset": read.offset}
        for name, given in beside.items():
            if given is None:
                continue
            if rows.get(name) is not None:
                raise DataError(
                    f"{name}: expected none beside cbind(), got {given!r}; give one of the two"
                )
            named = isinstance(given, str)
            rows[name] = formulas.column(table, given, name) if named else given
        rows = {name: values for name, values in rows.items() if values is not None}
        for name in rows:
            if name not in signature(cls.fit).parameters:
                raise DataError(
                    f"{name}: expected none for {cls.__name__}, got {formula!r} with {name}; "
                    "leave it out"
                )
        model = cls(**options, fit_intercept=read.intercept)
        model.fit(read.matrix, read.response, **rows)
        model._terms = read.terms
        return model

    def _matrix(self, X: Any, *, reset: bool) -> NDArray[Any]:
        terms = self.__dict__.get("_terms")
        if reset:
            self.__dict__.pop("_terms", None)
        elif terms is not None and nw.dependencies.is_into_dataframe(X):
            X = terms.matrix(formulas.as_pandas(X))
        constant_only = hasattr(X, "iloc") and X.shape[1] == 0 and len(X) > 0
        if constant_only and (reset or self.n_features_in_ == 0):
            self.n_features_in_, self._columns = 0, []
            return np.empty((len(X), 0))
        matrix, schema = read_features(
            self, X, reset=reset, declared="continuous" if reset else None
        )
        if reset:
            self._columns = [str(name) for name in schema.names]
        return matrix

    def _set_fit(
        self,
        fit: Fit,
        data: Data,
        used: NDArray[np.int64] | None,
        n_given: int,
        names: tuple[str, ...],
        log_likelihood: float,
        deviance: float,
    ) -> None:
        self.names_ = names
        self.covariance_ = fit.covariance
        with np.errstate(invalid="ignore"):
            self.standard_errors_ = np.sqrt(np.diagonal(fit.covariance))
        self.log_likelihood_, self.deviance_ = log_likelihood, deviance
        self.n_observations_ = data.total_weight
        self.rank_ = fit.rank
        self.df_residual_ = _tidy(self.n_observations_ - fit.rank)
        self.aic_ = -2.0 * log_likelihood + 2.0 * fit.rank
        self.bic_ = -2.0 * log_likelihood + np.log(self.n_observations_) * fit.rank
        self.converged_, self.message_ = fit.converged, fit.message
        self.history_, self.n_iter_ = fit.history, max(1, len(fit.history))
        self.separated_ = [names[i] for i in np.flatnonzero(fit.separated)]
        self.aliased_ = [names[i] for i in np.flatnonzero(fit.aliased)]
        self._estimates, self._beta, self._direction = fit.estimates, fit.beta, fit.direction
        self._training = TrainingRows(fit, data, used, n_given)
        self.__dict__.pop("null_deviance_", None)
        self._warn(fit)

    def _warn(self, fit: Fit) -> None:
        if self.aliased_:
            warnings.warn(
                f"X: columns {shown(self.aliased_)} are determined by the columns before them "
                "(or by the intercept); they have no coefficient of their own (0 in coef_, NaN "
                "standard error); drop them, or set l2 > 0",
                AliasedColumnsWarning,
                stacklevel=5,
            )
        if self.separated_:
            warnings.warn(
                f"X: columns {shown(self.separated_)} separate the responses: along them the "
                "likelihood rises without limit, so no finite estimate exists and their standard "
                "errors are infinite (the others are right); use method='firth' or l2 > 0",
                SeparationWarning,
                stacklevel=5,
            )
        if not fit.converged:
            warnings.warn(
                f"the fit {fit.message}; expected a relative change below 1e-{self.tol_digits:g}; "
                "raise max_iter",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _names(self) -> tuple[str, ...]:
        """Return the names of a predictor's coefficients, the constant's first if there is one."""
        constant = "(Intercept)" if "Intercept" in self._columns else "Intercept"
        return (constant, *self._columns) if self.fit_intercept else tuple(self._columns)

    @staticmethod
    def _kept_rows(weights: Floats | None) -> NDArray[np.int64] | None:
        """Return the rows whose weight is not zero, None for all."""
        if weights is None or weights.all():
            return None
        return np.flatnonzero(weights)

    def __getstate__(self) -> dict[str, Any]:
        # The training rows are the caller's; a pickle should not carry a copy of them.
        if hasattr(self, "_training"):
            _ = self.null_deviance_
        state = dict(super().__getstate__())
        state.pop("_training", None)
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        again = type(self).__new__(type(self))
        rows = self.__dict__.get("_training")
        memo[id(again)] = again
        again.__dict__ = {
            name: value if value is rows else deepcopy(value, memo)
            for name, value in self.__dict__.items()
        }
        return again


def _tidy(value: float) -> float:
    """Return whole numbers as integers: degrees of freedom are one unless weights are not."""
    return int(value) if value == int(value) else value
