"""The multinomial logit as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_choice, listed
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm.base import Regression
from crossfade.glm.data import Data
from crossfade.glm.design import refuse_missing
from crossfade.glm.fit import fit_multinomial
from crossfade.glm.multinomial import class_probabilities, top_classes
from crossfade.glm.single import subset
from crossfade.table import check_weights, encode_labels
from crossfade.table.scored import ScoredClassifier


class MultinomialRegression(ScoredClassifier, Regression):
    """Multinomial logit: one coefficient vector for each class but the reference.

    log(P(y=k | x) / P(y=reference | x)) = intercept_k + xᵀcoef_k.

    Parameters
    ----------
    reference : label, optional
        The class that the others are compared with; the first in order by default.
    fit_intercept, l2, tol_digits, max_iter
        As in :class:`BinomialRegression`. Unlike the fit without penalty, that with `l2` depends
        on which class is the reference.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    reference_ : label
    coef_ : ndarray of shape (n_classes - 1, n_features)
        Rows in the order of ``contrasts_``.
    intercept_ : ndarray of shape (n_classes - 1,)
    contrasts_ : ndarray of shape (n_classes - 1,)
        The classes but the reference.
    names_ : tuple of str
        "class: column", class after class, intercept first.
    standard_errors_ : ndarray of shape (n_names,)
    covariance_ : ndarray of shape (n_names, n_names)
    log_likelihood_, deviance_, aic_, bic_, null_deviance_, pseudo_r2_, df_residual_, separated_, \
aliased_, converged_, n_iter_, history_
        As in :class:`BinomialRegression`; the deviance is -2 log-likelihood.

    Examples
    --------
    >>> from crossfade.glm import MultinomialRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["a", "b", "a", "c", "b", "c"]
    >>> fit = MultinomialRegression().fit(X, y)
    >>> fit.names_
    ('b: Intercept', 'b: x0', 'c: Intercept', 'c: x0')
    >>> fit.coef_.round(3)
    array([[0.911],
           [1.821]])
    """

    _title = "Multinomial logit"

    def _title_text(self) -> str:
        return f"{self._title}, each class against {self.reference_}"

    def __init__(
        self,
        reference: Any = None,
        *,
        fit_intercept: bool = True,
        l2: float = 0.0,
        tol_digits: float = 8,
        max_iter: int = 100,
    ) -> None:
        self.reference = reference
        self.fit_intercept = fit_intercept
        self.l2 = l2
        self.tol_digits = tol_digits
        self.max_iter = max_iter

    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
            Numbers, none missing. Not changed.
        y : array-like of shape (n_rows,)
            Labels of any type, at least two different ones.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts.

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
        """
        settings = self._settings()
        matrix = self._matrix(X, reset=True)
        n_given = len(matrix)
        weights = check_weights(sample_weight, n_given)
        used = self._kept_rows(weights)
        matrix, weights = subset(used, matrix, weights)
        if used is None or np.shape(y)[:1] != (n_given,):
            self.classes_, codes = encode_labels(y, n_samples=n_given)
        else:
            self.classes_, codes = encode_labels(np.asarray(y)[used])
        first = self._reference_code()
        self.reference_ = self.classes_[first]
        # The reference gets code 0, the others keep their order.
        others = np.delete(np.arange(len(self.classes_)), first)
        order = np.concatenate([[first], others])
        self._order, self.contrasts_ = order, self.classes_[others]
        recoded = np.argsort(order)[codes].astype(np.float64)
        data = Data(matrix, recoded, np.broadcast_to(np.float64(1.0), len(codes)), weights)
        fit = fit_multinomial(data, len(order), self._columns, settings)
        names = tuple(f"{label}: {name}" for label in self.contrasts_ for name in self._names())
        pull = fit.problem.penalty * fit.theta  # type: ignore[attr-defined]
        log_likelihood = -(fit.value - 0.5 * float(pull @ fit.theta))
        self._set_fit(fit, data, used, n_given, names, log_likelihood, -2.0 * log_likelihood)
        estimates = fit.estimates.reshape(len(others), -1)
        self.coef_ = estimates[:, int(settings.intercept) :]
        self.intercept_ = estimates[:, 0] if settings.intercept else np.zeros(len(others))
        return self

    def _reference_code(self) -> int:
        if self.reference is None:
            return 0
        found = np.flatnonzero(self.classes_ == self.reference)
        if not len(found):
            raise DataError(
                f"reference: expected one of the labels {listed(self.classes_)}, got "
                f"{self.reference!r}; use one of these"
            )
        return int(found[0])

    def _null_deviance(self) -> float:
        data = self._trained().data
        counts = np.bincount(
            data.y.astype(np.int64), weights=data.weights, minlength=len(self.classes_)
        ).astype(np.float64)
        if not self.fit_intercept:
            return 2.0 * float(counts.sum()) * float(np.log(len(counts)))
        return -2.0 * float(counts @ np.log(counts / counts.sum()))

    def residuals(self, kind: Literal["response", "deviance"] = "response") -> Floats:
        """Return residuals of the rows that were fitted.

        Parameters
        ----------
        kind : {"response", "deviance"}, default="response"
            1[y = k] - π_k for every class, or √(-2 log P(y | x)).

        Returns
        -------
        ndarray of shape (n_rows, n_classes) or (n_rows,)
        """
        training = self._trained()
        fit, everything = training.fit, slice(0, training.data.n_rows)
        problem: Any = fit.problem
        if kind == "deviance":
            logs = problem.log_probabilities(everything, fit.theta)
            return training.spread(np.sqrt(np.maximum(-2.0 * logs, 0.0)))
        check_choice("kind", kind, ("response", "deviance"))
        found = -problem.probabilities(everything, fit.theta)
        found[np.arange(len(found)), training.data.y.astype(np.int64)] += 1.0
        return training.spread(found[:, np.argsort(self._order)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Order of ``classes_``.
        """
        check_is_fitted(self)
        matrix = self._matrix(X, reset=False).astype(np.float64, copy=False)
        if not np.isfinite(matrix.sum()):
            refuse_missing(matrix, self._columns)
        eta = self._linear(matrix, self._beta)
        allowed = None
        if self._direction is not None:
            allowed = top_classes(self._linear(matrix, self._direction))
        return class_probabilities(eta, allowed)[:, np.argsort(self._order)]

    def _linear(self, matrix: Floats, beta: Floats) -> Floats:
        first = int(bool(self.fit_intercept))
        blocks = beta.reshape(len(self.contrasts_), -1)
        return matrix @ blocks[:, first:].T + (blocks[:, 0] if first else 0.0)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> Floats:
        """Return the log-probabilities of the classes, or the log-odds of the second of two.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes) or (n_rows,)
        """
        logs = self.predict_log_proba(X)
        if logs.shape[1] == 2:
            return logs[:, 1] - logs[:, 0]
        return logs

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]
