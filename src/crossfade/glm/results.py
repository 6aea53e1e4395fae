"""What the three regressions share: everything one can ask of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_choice, check_number, listed
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm import inference
from crossfade.glm.data import Data, no_rows_at_hand
from crossfade.glm.fit import Fit
from crossfade.glm.inference import TestResult
from crossfade.inference.summary import Summary, wald_columns
from crossfade.table.groups import encode_groups

_ROBUST = ("HC0", "HC1", "HC2", "HC3", "cluster")


@dataclass(frozen=True)
class TrainingRows:
    """The rows a model was fitted to, by reference.

    `data`: Without rows of weight zero or without trials.
    `used`: Which of the caller's rows these are; None for all.
    `n_given`: Number of rows the caller gave.
    """

    fit: Fit
    data: Data
    used: NDArray[np.int64] | None
    n_given: int

    def select(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of the rows used."""
        return values if self.used is None else values[self.used]

    def spread(self, values: Floats) -> Floats:
        """Return values of the caller's rows, NaN for those that were not used."""
        if self.used is None:
            return values
        everything = np.full((self.n_given, *values.shape[1:]), np.nan)
        everything[self.used] = values
        return everything


class Results(BaseEstimator):
    """Parent of the regressions: fitted attributes and inference."""

    fit_intercept: bool
    l2: float
    tol_digits: float
    max_iter: int

    #: Set by fit.
    n_features_in_: int
    names_: tuple[str, ...]
    covariance_: Floats
    standard_errors_: Floats
    log_likelihood_: float
    deviance_: float
    df_residual_: float
    n_observations_: float
    converged_: bool
    n_iter_: int
    separated_: list[str]
    aliased_: list[str]

    _title: str

    def _trained(self, by_row: str = "") -> TrainingRows:
        """Return the rows of the fit; `by_row` names what needs them one by one."""
        check_is_fitted(self)
        if not hasattr(self, "_training"):
            raise DataError(
                "this model was unpickled, and pickles leave the training rows out; fit it again "
                "to ask for more than predictions and summary()"
            )
        if by_row and not self._training.data.at_hand:
            raise no_rows_at_hand(by_row)
        return self._training

    # -- which coefficients ----------------------------------------------------------------------

    def _positions(self, columns: Any) -> list[int]:
        """Return the positions in ``names_`` of names or positions."""
        wanted = [columns] if isinstance(columns, (str, int, np.integer)) else list(columns)
        if not wanted:
            raise DataError("columns: expected at least one coefficient, got none; name one")
        found: list[int] = []
        for column in wanted:
            if isinstance(column, str):
                matches = [i for i, name in enumerate(self.names_) if _called(name, column)]
            else:
                matches = [int(column)] if 0 <= int(column) < len(self.names_) else []
            if not matches:
                raise DataError(
                    f"columns: expected names among {shown(self.names_)}, got {column!r}; use one "
                    "of these, or a position among them"
                )
            found += matches
        return found

    def _hypothesis(self, columns: Any) -> tuple[Floats, str]:
        positions = self._positions(columns)
        names = ", ".join(self.names_[i] for i in positions)
        return np.eye(len(self.names_))[positions], f"no effect of {names}"

    # -- covariances and intervals ---------------------------------------------------------------

    def robust_covariance(
        self,
        kind: Literal["HC0", "HC1", "HC2", "HC3", "cluster"] = "HC1",
        groups: ArrayLike | None = None,
    ) -> Floats:
        """Return a covariance of the coefficients that does not trust the model: a sandwich.

        Parameters
        ----------
        kind : {"HC0", "HC1", "HC2", "HC3", "cluster"}, default="HC1"
            White's sandwich; the same times n/(n-p); with each row's score divided by √(1-h) or by
            1-h, h the row's leverage (at most 0.99); or with scores summed within groups and
            multiplied by G/(G-1) · (n-1)/(n-p). "HC3" is nearest to the jackknife.
        groups : array-like of shape (n_rows,), optional
            Which group each row belongs to, labels of any kind (only with "cluster").

        Returns
        -------
        ndarray of shape (n_names, n_names)
            Order of ``names_``.

        Notes
        -----
        The bread is the inverse of the objective's own second derivative (White 1982, Maximum
        likelihood estimation of misspecified models, Econometrica 50:1), as in statsmodels: right
        also where the mean is not the model's. Of the links that are not canonical R's ``sandwich``
        takes the expected information, which is right where only the variance is not. "HC2" and
        "HC3" are MacKinnon & White's (1985, J. Econometrics 29:305).
        """
        training = self._trained("" if groups is None else "groups")
        check_choice("kind", kind, _ROBUST)
        if (groups is None) == (kind == "cluster"):
            got = "none" if groups is None else f"groups with kind={kind!r}"
            raise DataError(
                f"groups: expected group labels exactly with kind='cluster', got {got}; "
                "give groups= with kind='cluster'"
            )
        if self.df_residual_ <= 0.0:
            raise DataError(
                f"kind: expected more observations than coefficients, got {self.df_residual_:g} "
                "degrees of freedom; fit fewer columns"
            )
        codes = None
        if groups is not None:
            codes = encode_groups(groups, training.n_given)
            _, codes = np.unique(training.select(codes), return_inverse=True)
        return inference.sandwich(training.fit, self.n_observations_, kind, codes)

    def _covariance(self, covariance: Any, groups: ArrayLike | None = None) -> Floats:
        if isinstance(covariance, str):
            check_choice("covariance", covariance, ("model", *_ROBUST))
            if covariance == "model":
                return self.covariance_
            return self.robust_covariance(cast(Any, covariance), groups)
        matrix = np.asarray(covariance, dtype=np.float64)
        if matrix.shape != self.covariance_.shape:
            raise DataError(
                f"covariance: expected {listed(('model', *_ROBUST))} or an array of shape "
                f"{self.covariance_.shape}, got shape {matrix.shape}; see robust_covariance"
            )
        return matrix

    def confidence_intervals(
        self,
        level: float = 0.95,
        *,
        kind: Literal["wald", "profile"] = "wald",
        columns: Sequence[str | int] | str | int | None = None,
        covariance: Any = "model",
    ) -> Floats:
        """Return confidence intervals of the coefficients.

        Parameters
        ----------
        level : float, default=0.95
        kind : {"wald", "profile"}, default="wald"
            Estimate ± normal quantile × standard error, or all values that a likelihood-ratio
            test does not reject (for Firth's fit, by the penalised likelihood). Profiles refit
            the model some ten times per coefficient.
        columns : names or positions, optional
            Only these coefficients; all by default.
        covariance : {"model", "HC0", "HC1", "HC2", "HC3"} or ndarray, default="model"
            For Wald intervals.

        Returns
        -------
        ndarray of shape (n_columns, 2)
            Infinite on sides where the likelihood never falls far enough.

        Examples
        --------
        >>> from crossfade.glm import BinomialRegression
        >>> fit = BinomialRegression().fit([[1.0], [2.0], [3.0]], [1, 4, 7], trials=[8, 8, 8])
        >>> fit.confidence_intervals(kind="profile", columns="x0").round(3)
        array([[0.671, 3.797]])
        """
        check_is_fitted(self)
        level = check_level(level)
        positions = list(range(len(self.names_))) if columns is None else self._positions(columns)
        if kind == "profile":
            fit = self._trained().fit
            pairs = [inference.profile_interval(fit, i, level) for i in positions]
            return np.array(pairs, dtype=np.float64)
        if kind != "wald":
            raise DataError(f"kind: expected 'wald' or 'profile', got {kind!r}; use one of these")
        errors = _errors(self._covariance(covariance))
        found = wald_columns(self._estimates, errors, level)
        return np.column_stack([found["lower"], found["upper"]])[positions]

    # -- tests -----------------------------------------------------------------------------------

    def wald_test(
        self,
        columns: Sequence[str | int] | str | int,
        value: ArrayLike = 0.0,
        *,
        covariance: Any = "model",
    ) -> TestResult:
        """Test that coefficients have given values, from estimates and covariance alone.

        Parameters
        ----------
        columns : names or positions
        value : float or array-like, default=0.0
        covariance : {"model", "HC0", "HC1", "HC2", "HC3"} or ndarray, default="model"

        Returns
        -------
        TestResult
        """
        check_is_fitted(self)
        matrix, hypothesis = self._hypothesis(columns)
        values = np.broadcast_to(np.asarray(value, dtype=np.float64), len(matrix))
        if values.any():
            hypothesis = hypothesis.replace("no effect of", "given values of")
        matrix_of = self._covariance(covariance)
        return inference.wald(self._beta, matrix, values, matrix_of, hypothesis)

    def likelihood_ratio_test(self, columns: Sequence[str | int] | str | int) -> TestResult:
        """Test that coefficients are zero by refitting without them, penalties kept.

        With ``method="firth"`` this is Heinze & Schemper's penalised likelihood-ratio test, in
        which the penalty stays that of all columns.

        Parameters
        ----------
        columns : names or positions

        Returns
        -------
        TestResult
        """
        fit = self._trained().fit
        matrix, hypothesis = self._hypothesis(columns)
        self._refuse_aliased(columns)
        return inference.likelihood_ratio(fit, matrix, hypothesis)

    def _refuse_aliased(self, columns: Any) -> None:
        lost = [self.names_[i] for i in self._positions(columns) if self.names_[i] in self.aliased_]
        if lost:
            raise DataError(
                f"columns: expected coefficients of their own, got {shown(lost)}, which other "
                "columns determine; test those"
            )

    def _refuse_penalty(self, what: str) -> None:
        if self.l2 != 0.0 or getattr(self, "method", "irls") == "firth":
            raise DataError(
                f"{what}: expected a maximum-likelihood fit, got a penalised one, whose likelihood "
                "is no χ² statistic; use l2=0 and method='irls', or likelihood_ratio_test"
            )

    def score_test(self, columns: Sequence[str | int] | str | int) -> TestResult:
        """Test that coefficients are zero by the likelihood's slope where they are (Rao).

        Parameters
        ----------
        columns : names or positions

        Returns
        -------
        TestResult
        """
        fit = self._trained().fit
        self._refuse_penalty("score_test")
        matrix, hypothesis = self._hypothesis(columns)
        self._refuse_aliased(columns)
        return inference.score(fit, matrix, hypothesis)

    # -- what it says ----------------------------------------------------------------------------

    @cached_property
    def null_deviance_(self) -> float:
        """Deviance of the model with an intercept only (computed when first asked for)."""
        return self._null_deviance()

    def _null_deviance(self) -> float:
        raise NotImplementedError

    @property
    def pseudo_r2_(self) -> float:
        """McFadden's 1 - log L / log L of the intercept-only model."""
        null = self.log_likelihood_ - 0.5 * (self.null_deviance_ - self.deviance_)
        return 1.0 - self.log_likelihood_ / null if null != 0.0 else 0.0

    def summary(
        self,
        level: float = 0.95,
        *,
        covariance: Any = "model",
        groups: ArrayLike | None = None,
        dispersion: float | Literal["pearson"] = 1.0,
        intervals: Literal["wald", "profile"] = "wald",
        ratios: bool = False,
    ) -> Summary:
        """Return the table of coefficients with what belongs to it.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.
        covariance : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"} or ndarray, default="model"
        groups : array-like of shape (n_rows,), optional
            Groups for "cluster".
        dispersion : float or "pearson", default=1.0
            Multiplies the model's covariance: "pearson" estimates it by X²/(n-p), which makes
            this the quasi-binomial or quasi-Poisson fit, with t in place of z.
        intervals : {"wald", "profile"}, default="wald"
        ratios : bool, default=False
            Whether to give exp(coefficient), which is an odds ratio with the link logit and a
            ratio of means with the link log; standard errors are then by the delta method.

        Returns
        -------
        Summary
            Prints as text, renders in notebooks; ``.frame()`` gives the table as polars frame.
        """
        check_is_fitted(self)
        level = check_level(level)
        kind = self._kind_of_ratio() if ratios else ""
        matrix = self._covariance(covariance, groups)
        notes = []
        scale, estimated = 1.0, dispersion == "pearson"
        if estimated:
            scale = self._pearson_dispersion()
            notes.append(
                f"Standard errors are those of the quasi fit: dispersion {scale:.4f} (Pearson), "
                f"t on {self.df_residual_:g} degrees of freedom."
            )
        elif dispersion != 1.0:
            scale = check_number("dispersion", dispersion, remedy="use 1 or 'pearson'", above=0.0)
            notes.append(f"Covariance multiplied by the dispersion given, {scale:g}.")
        errors = _errors(matrix * scale)
        law = scipy.stats.t(self.df_residual_) if estimated else scipy.stats.norm()
        columns = wald_columns(self._estimates.copy(), errors, level, law)
        if intervals == "profile":
            columns["lower"], columns["upper"] = self.confidence_intervals(level, kind="profile").T
            notes.append("Intervals by profile likelihood.")
        if ratios:
            notes.append(
                f"Estimates and limits are exp(coefficient): {kind}; standard errors by the delta "
                f"method, {'t' if estimated else 'z'} and P of the coefficient."
            )
            with np.errstate(over="ignore", invalid="ignore"):
                for key in ("estimates", "lower", "upper"):
                    columns[key] = np.exp(columns[key])
                spread = columns["estimates"] * errors
            columns["standard_errors"] = np.where(np.isinf(errors), np.inf, spread)
        notes += self._notes(covariance)
        return Summary(
            title=self._title_text() + (f", {kind}" if ratios else ""),
            facts=self._facts(),
            names=self.names_,
            **columns,
            level=level,
            statistic_name="t" if estimated else "z",
            notes=tuple(notes),
        )

    def _pearson_dispersion(self) -> float:
        raise DataError(
            "dispersion: expected a number, got 'pearson', which single categories do not have; "
            "use covariance='HC1'"
        )

    def _title_text(self) -> str:
        return self._title

    def _kind_of_ratio(self) -> str:
        """Return what exp(coefficient) is; refuse links of which it is nothing."""
        return "odds ratios"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        facts = [
            ("observations", f"{self.n_observations_:g}"),
            ("log-likelihood", f"{self.log_likelihood_:.4f}"),
            ("deviance", f"{self.deviance_:.4f} on {self.df_residual_:g} degrees of freedom"),
        ]
        if hasattr(self, "_training") or "null_deviance_" in self.__dict__:
            facts += [
                ("null deviance", f"{self.null_deviance_:.4f}"),
                ("pseudo R² (McFadden)", f"{self.pseudo_r2_:.4f}"),
            ]
        facts += [
            ("AIC, BIC", f"{self.aic_:.4f}, {self.bic_:.4f}"),
            ("iterations", f"{self.n_iter_}{'' if self.converged_ else ' (not converged)'}"),
        ]
        return tuple(facts)

    def _notes(self, covariance: Any) -> list[str]:
        notes = []
        if isinstance(covariance, str) and covariance != "model":
            notes.append(f"Standard errors are robust ({covariance}).")
        if self.l2 > 0.0:
            notes.append(
                f"Ridge penalty l2={self.l2:g}: standard errors are the spread of the posterior "
                "under a normal prior of variance 1/l2 on each coefficient, not the sampling "
                "spread of an unbiased estimate; z and p only compare the two."
            )
        if getattr(self, "method", "irls") == "firth":
            notes.append(
                "Firth's penalised likelihood; prefer intervals='profile' and "
                "likelihood_ratio_test to Wald's."
            )
        if self.aliased_:
            notes.append(f"Determined by other columns: {_first(self.aliased_)}.")
        if self.separated_:
            notes.append(f"Separated: no finite estimate exists along {_first(self.separated_)}.")
        return notes


def _called(name: str, wanted: str) -> bool:
    """Return whether a coefficient has this name; a bare column stands for all its classes."""
    return name == wanted or name.endswith(f": {wanted}")


def shown(names: Sequence[str], most: int = 10) -> str:
    return _first([repr(name) for name in names], most)


def _first(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(names[:most])
    return shown + (f", … ({len(names)} in all)" if len(names) > most else "")


def check_level(level: float) -> float:
    return check_number("level", level, remedy="use 0.95", above=0.0, below=1.0)


def _errors(covariance: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.diagonal(covariance))
