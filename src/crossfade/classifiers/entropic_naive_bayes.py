"""Naive Bayes as a discriminative model: a product of posteriors instead of densities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from crossfade._checks import counted
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.classifiers.checks import class_shares, refuse_unlabelled
from crossfade.classifiers.class_prior import ClassPrior, PriorInUse
from crossfade.errors import DataError
from crossfade.table import check_finite, encode_labels, read_features
from crossfade.table.columns import refuse_parts
from crossfade.table.rows import present_rows
from crossfade.table.scored import TableClassifier
from crossfade.tradeoff.labelled_rows import log_normalise

#: Least posterior of a column's classifier: a certain one could never be outvoted.
LEAST_POSTERIOR = 1e-300


class EntropicNaiveBayes(PriorInUse, TableClassifier, BaseEstimator):
    """Naive Bayes from classifiers of single columns, each fitted in any way.

    With π the class prior and L_t(i) = p(y = i | column t) the posterior by column t alone, naive
    Bayes' posterior is proportional to π(i)^(1-T) ∏_t L_t(i): no density of the columns is needed,
    so that arbitrary features and classifiers may enter.

    Parameters
    ----------
    column_classifiers : classifier, sequence of classifiers, or sequence of (classifier, columns)
        One classifier is cloned for every column; a sequence of them gives one per column; pairs
        give each the columns it sees, by position or name (a group of columns is one factor).
        Each needs ``predict_proba``.
    prefit : bool, default=False
        Whether the given classifiers are fitted already and are to be used as they are; `fit`
        then only learns the class prior.
    class_prior : {"empirical", "uniform"}, array (n_classes,) or mapping, default="empirical"
        π. It must be the prior that the columns' classifiers were fitted under.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        π; other shares after ``with_class_prior``.
    log_prior_ : ndarray of shape (n_classes,)
        log π of fit.
    column_classifiers_ : list of (classifier, list of int)
        The fitted classifiers with the positions of their columns.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.

    References
    ----------
    Azeraf, E., Monfrini, E. and Pieczynski, W. (2020). Using the naive Bayes as a discriminative
    classifier. Equation (12) of the slides: δ(i) = π(i)^(1-T) ∏ L_t(i).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from crossfade import EntropicNaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)
    >>> round(EntropicNaiveBayes(tree).fit(X, y).score(X, y), 2)
    0.98
    """

    def __init__(
        self,
        column_classifiers: Any,
        *,
        prefit: bool = False,
        class_prior: ClassPrior = "empirical",
    ) -> None:
        self.column_classifiers = column_classifiers
        self.prefit = prefit
        self.class_prior = class_prior

    @whole_or_not_at_all
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one classifier per column, and the class prior.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Rows in which a classifier's columns are missing are left out of its fit.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Passed on to the columns' classifiers.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a classifier lacks ``predict_proba``, saw other classes than `y` has, or takes no
            weights where some are given.
        """
        refuse_parts(X)
        X, y, weights, *_ = present_rows(X, y, sample_weight)
        matrix, schema = read_features(self, X, reset=True, sample_weight=weights)
        check_finite(matrix, schema.names)
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        counts = np.bincount(codes, weights, minlength=self.classes_.size)
        shares = class_shares(self.class_prior, self.classes_)
        self._row_shares = counts / counts.sum()
        self.class_prior_ = self._row_shares if shares is None else shares
        self.log_prior_ = np.log(self.class_prior_)
        self.column_classifiers_ = [
            (self._fitted(given, matrix[:, columns], codes, weights), columns)
            for given, columns in self._pairs()
        ]
        self._position = [self._class_positions(one) for one, _ in self.column_classifiers_]
        return self

    def _pairs(self) -> list[tuple[Any, list[int]]]:
        given, d = self.column_classifiers, self.n_features_in_
        if hasattr(given, "predict_proba") or hasattr(given, "fit"):
            return [(given, [j]) for j in range(d)]
        if not isinstance(given, Sequence) or isinstance(given, str) or not given:
            raise DataError(
                f"column_classifiers: expected a classifier or a sequence of them, got {given!r}; "
                "one classifier is cloned for every column"
            )
        if not isinstance(given[0], tuple):
            if len(given) != d:
                raise DataError(
                    f"column_classifiers: expected one for each of {counted(d, 'column')}, got "
                    f"{len(given)}; or give pairs (classifier, columns)"
                )
            return [(one, [j]) for j, one in enumerate(given)]
        pairs = []
        for one, columns in given:
            many = columns if isinstance(columns, (list, tuple)) else [columns]
            pairs.append((one, [self.schema_.index(column) for column in many]))
        return pairs

    def _fitted(
        self, given: Any, columns: Floats, codes: NDArray[np.int64], weights: Floats | None
    ) -> Any:
        if not hasattr(given, "predict_proba"):
            raise DataError(
                f"column_classifiers: expected classifiers with predict_proba, got {given!r}; wrap "
                "it in CalibratedClassifierCV"
            )
        if self.prefit:
            check_is_fitted(given)
            return given
        refuse_unlabelled("column_classifiers", type(given).__name__, given)
        model = clone(given)
        present = np.flatnonzero(~np.isnan(columns).any(axis=1))
        labels = self.classes_[codes[present]]
        if np.unique(codes[present]).size < self.classes_.size:
            raise DataError(
                "X: expected every class among the rows in which a column is present, got "
                f"{np.unique(labels).size} of {self.classes_.size} classes for one column; drop it"
            )
        if weights is None:
            return model.fit(columns[present], labels)
        if not has_fit_parameter(model, "sample_weight"):
            raise DataError(
                f"sample_weight: {type(model).__name__} takes none; leave the weights out or "
                "choose another classifier"
            )
        return model.fit(columns[present], labels, sample_weight=weights[present])

    def _class_positions(self, model: Any) -> NDArray[np.int64]:
        known = list(model.classes_)
        missing = [label for label in self.classes_.tolist() if label not in known]
        if missing:
            raise DataError(
                f"column_classifiers: expected every class of y, but {type(model).__name__} does "
                f"not know {missing!r}; fit it on rows of every class"
            )
        return np.array([known.index(label) for label in self.classes_.tolist()])

    @property
    def _shares(self) -> tuple[Floats, Floats]:
        return self._row_shares, self.class_prior_

    def _for_shares(self, shares: Floats) -> Self:
        adapted = copy(self)
        adapted.class_prior_ = shares
        return adapted

    def predict_log_proba(self, X: Any, *, class_prior: ClassPrior | None = None) -> Floats:
        """Return the logarithm of :meth:`predict_proba`, shape (n_samples, n_classes)."""
        scores = self._used_with(class_prior)._scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1)[:, None]

    def predict_proba(self, X: Any, *, class_prior: ClassPrior | None = None) -> Floats:
        """Return π(i)^(1-T) ∏_t L_t(i), normalised, shape (n_samples, n_classes).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A classifier whose columns are missing in a row is left out there (and of T).
        class_prior : "uniform", "empirical", array-like of shape (n_classes,) or mapping, optional
            Shares of the classes among these rows, as :meth:`with_class_prior` takes them; those
            of ``class_prior_`` if None.
        """
        return log_normalise(self._used_with(class_prior)._scores(X))[1]

    def predict(self, X: Any, *, class_prior: ClassPrior | None = None) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,)."""
        best = self._used_with(class_prior)._scores(X).argmax(axis=1)
        return self.classes_[best]

    def _factors(self, X: Any) -> Iterator[Floats]:
        """Yield log L_t(i) - log π(i) of every classifier, zero where its columns are missing."""
        check_is_fitted(self)
        matrix, _ = read_features(self, X, reset=False)
        check_finite(matrix, self.schema_.names)
        for (model, columns), position in zip(
            self.column_classifiers_, self._position, strict=True
        ):
            part = matrix[:, columns]
            factor = np.zeros((matrix.shape[0], self.classes_.size))
            present = np.flatnonzero(~np.isnan(part).any(axis=1))
            if present.size:
                posterior = model.predict_proba(part[present])[:, position]
                factor[present] = np.log(np.maximum(posterior, LEAST_POSTERIOR)) - self.log_prior_
            yield factor

    def _scores(self, X: Any) -> Floats:
        factors = sum(self._factors(X))
        return np.add(factors, np.log(self.class_prior_))
