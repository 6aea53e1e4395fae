"""Binomial regression as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm.checks import (
    check_labels,
    check_successes,
    check_trials,
    ignore_rows,
)
from crossfade.glm.data import Data
from crossfade.glm.families import BinomialFamily
from crossfade.glm.links import Link, ProbabilityLink, get_link
from crossfade.glm.single import SingleResponse, subset
from crossfade.glm.source_data import successes_of
from crossfade.table import check_weights
from crossfade.table.cluster import as_source
from crossfade.table.part_by_part import part_by_part
from crossfade.table.scored import ScoredClassifier, check_scored


class BinomialRegression(ScoredClassifier, SingleResponse):
    """Logistic, probit or complementary log-log regression, for single or grouped trials.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"} or Link, default="logit"
    fit_intercept : bool, default=True
    l2 : float, default=0.0
        Ridge: the fit maximises ℓ(β) - ½ l2 Σ β_j² (columns in their own units, intercept free).
    method : {"irls", "firth"}, default="irls"
        Maximum likelihood, or Firth's penalised likelihood, finite also for separated data.
    tol_digits : float, default=8
        c of the stopping rule ‖Δβ‖/‖β‖ < 10⁻ᶜ.
    max_iter : int, default=100

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    names_ : tuple of str
        Of the coefficients, intercept first; the order of the next two.
    standard_errors_ : ndarray of shape (n_names,)
    covariance_ : ndarray of shape (n_names, n_names)
        (XᵀWX)⁻¹. With `l2`, the posterior covariance under the prior the penalty stands for.
    log_likelihood_, deviance_, aic_, bic_, null_deviance_, pseudo_r2_ : float
    penalised_log_likelihood_ : float
    df_residual_ : int
        Rows (by weight) minus independent coefficients.
    separated_ : list of str
        Coefficients along which no finite estimate exists; theirs are ±inf, or NaN where either
        sign fits as well, with infinite standard errors.
    aliased_ : list of str
        Coefficients that others determine: 0, with NaN standard errors. None with `l2`.
    converged_ : bool
    n_iter_ : int
    history_ : tuple of Iteration
    classes_ : ndarray of shape (2,)
        The labels; [0, 1] for grouped trials.
    link_ : Link

    Notes
    -----
    Fitted by iteratively reweighted least squares (Sarkar, Lecture 14, section 14.3.1), by Fisher
    scoring with the links that are not canonical. With very many rows the weighted cross-products
    of the first steps come from a share of them; the estimate is the same.

    Examples
    --------
    >>> from crossfade.glm import BinomialRegression
    >>> dose = [[1.6907], [1.7242], [1.7552], [1.7842], [1.8113], [1.8369], [1.8610], [1.8839]]
    >>> dead = [6, 13, 18, 28, 52, 53, 61, 60]
    >>> fit = BinomialRegression().fit(dose, dead, trials=[59, 60, 62, 56, 63, 59, 62, 60])
    >>> fit.intercept_.__round__(3), fit.coef_.round(3)
    (-60.717, array([34.27]))
    >>> fit.standard_errors_.round(3)
    array([5.181, 2.912])
    """

    _title = "Binomial regression"

    def __init__(
        self,
        link: str | Link = "logit",
        *,
        fit_intercept: bool = True,
        l2: float = 0.0,
        method: Literal["irls", "firth"] = "irls",
        tol_digits: float = 8,
        max_iter: int = 100,
    ) -> None:
        self.link = link
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.method = method
        self.tol_digits = tol_digits
        self.max_iter = max_iter

    def _title_text(self) -> str:
        """Return the title; of single trials, also which label the coefficients speak for."""
        title = super()._title_text()
        if self._grouped:
            return title
        return f"{title}, {self.classes_[1]} against {self.classes_[0]}"

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
            Numbers, none missing. Not changed. Rows may also come in parts: files opened by
            :func:`crossfade.io.scan`, or a Dask data frame or array; what is given by row is then
            the name of a column, and ``n_passes_`` says how often the rows were read.
        y : array-like of shape (n_rows,)
            Without `trials`, labels of two kinds, of any type. With `trials`, the successes of
            each row: whole numbers, or proportions of the trials.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts: 2 is the same as giving the row twice, 0 as leaving it out.
        trials : array-like of shape (n_rows,), optional
            Trials of each row. Rows with none are left out, with a warning.
        offset : array-like of shape (n_rows,), optional
            Added to the linear predictor.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If anything cannot be used as given.

        Warns
        -----
        SeparationWarning
            If no finite estimate exists along some columns.
        AliasedColumnsWarning
            If columns are determined by those before them.
        IgnoredRowsWarning
            If rows have no trials.
        """
        family = BinomialFamily(get_link(self.link, BinomialFamily.links))
        source = as_source(X, y, sample_weight=sample_weight, size=trials, offset=offset)
        if source is not None:
            self._grouped = trials is not None
            self.classes_, responses = successes_of(source, grouped=self._grouped)
            return self._fit_source(source, family, responses, grouped=self._grouped)
        matrix, weights, shift = self._rows(X, sample_weight, offset)
        n_given = len(matrix)
        used = self._kept_rows(weights)
        if trials is None:
            classes, successes = check_labels(y, n_given)
            (successes,) = subset(used, successes)
            if used is not None and (successes == successes[0]).all():
                raise DataError(
                    "y: expected two labels among rows with weight, got 1 class; the other label "
                    "has zero weights"
                )
            size = np.broadcast_to(np.float64(1.0), len(successes))
        else:
            counts = check_trials(trials, n_given)
            empty = counts == 0.0
            if empty.any():
                ignore_rows(int(empty.sum()))
                known = ~empty if weights is None else ~empty & (weights > 0.0)
                used = np.flatnonzero(known)
            if used is not None:
                # What the other rows hold is not judged, and these keep their numbers.
                y, counts, unused = np.array(y), counts.copy(), np.delete(np.arange(n_given), used)
                counts[unused] = 0.0
                if y.shape[:1] == (n_given,):
                    y[unused] = 0
            size, successes = subset(used, counts, check_successes(y, counts))
            classes = np.array([0, 1])
        matrix, weights, shift = subset(used, matrix, weights, shift)
        data = Data(matrix, successes, size, weights, shift)
        self.classes_, self._grouped = classes, trials is not None
        return self._fit_data(data, family, used, n_given)

    @part_by_part
    def decision_function(self, X: Any, *, offset: ArrayLike | None = None) -> Floats:
        """Return the linear predictor of each row, ±inf where the data were separated.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        ndarray of shape (n_rows,)
            It is 0 where success is as likely as not for the logit and probit links only.
        """
        return self._predictor(X, offset)[1]

    @part_by_part
    def predict_proba(self, X: Any, *, offset: ArrayLike | None = None) -> Floats:
        """Return the probabilities of failure and success.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Order of ``classes_``.
        """
        eta = self.decision_function(X, offset=offset)
        success = self.link_.inverse(eta)
        return np.column_stack([1.0 - success, success])

    @part_by_part
    def predict_log_proba(self, X: Any, *, offset: ArrayLike | None = None) -> Floats:
        """Return the logarithms of :meth:`predict_proba`, accurate for small probabilities.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        ndarray of shape (n_rows, 2)
        """
        eta = self.decision_function(X, offset=offset)
        odds = cast(ProbabilityLink, self.link_).odds(eta)
        return np.column_stack([odds.log_failure, odds.log_success])

    @part_by_part
    def predict(self, X: Any, *, offset: ArrayLike | None = None) -> NDArray[Any]:
        """Return the likelier label of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        eta = self.decision_function(X, offset=offset)
        even = float(self.link_.link(np.array(0.5)))
        return self.classes_[(eta > even).astype(np.int64)]

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        trials: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return the share of trials whose outcome :meth:`predict` names.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels; with `trials`, successes.
        sample_weight : array-like of shape (n_rows,), optional
        trials : array-like of shape (n_rows,), optional
            Needed where the model was fitted with them.
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        float
        """
        named = self.predict(X, offset=offset)
        if trials is None:
            if self._grouped:
                raise DataError(
                    "trials: expected the trials of each row, as in fit, got none; give trials="
                )
            check_scored(y)
            return float(accuracy_score(y, named, sample_weight=sample_weight))
        size = check_trials(trials, len(named))
        successes = check_successes(y, size)
        weights = check_weights(sample_weight, len(named))
        often = np.ones(len(named)) if weights is None else weights
        right = np.where(named == self.classes_[1], successes, size - successes)
        return float(often @ right) / float(often @ size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
