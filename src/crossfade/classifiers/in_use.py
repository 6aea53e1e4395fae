"""A fitted classifier where it is used: other class shares, prediction sets, strangers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats
from crossfade.classifiers.class_prior import ClassPrior, PriorInUse
from crossfade.errors import DataError
from crossfade.inference import ClassShares, HeldOut, estimate_shares
from crossfade.inference.sets import least_probabilities
from crossfade.table.part_by_part import part_by_part
from crossfade.table.rows import rows_at


class InUse(PriorInUse):
    """Class shares that differ where the model is used, prediction sets, and strangers."""

    class_shares_: ClassShares

    # -- what a model says of itself -------------------------------------------------------------

    @abstractmethod
    def _probabilities(self, X: Any) -> Floats:
        """Return the posterior, shape (n_samples, n_classes)."""

    @abstractmethod
    def _log_probabilities(self, X: Any) -> Floats:
        """Return the log-posterior, shape (n_samples, n_classes)."""

    @abstractmethod
    def _with_interval(self, X: Any, interval: float) -> tuple[Floats, Floats, Floats]:
        """Return the posterior, lower and upper limits."""

    @abstractmethod
    def _decided(self, X: Any, *, reject: float | None = None) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,)."""

    @abstractmethod
    def _left_out(self) -> HeldOut | DataError:
        """Return posteriors of rows by fits that did not see them, or why there are none."""

    @abstractmethod
    def _strangeness(self, X: Any, *, p_values: bool, reject: float = 1.0) -> Floats:
        """Return the outlier scores of rows, or their p-values, (n_samples,).

        Refuses a `reject` that is below every p-value there can be.
        """

    # -- what follows ----------------------------------------------------------------------------

    @overload
    def predict_proba(
        self, X: Any, *, interval: None = None, class_prior: ClassPrior | None = None
    ) -> Floats: ...

    @overload
    def predict_proba(
        self, X: Any, *, interval: float, class_prior: ClassPrior | None = None
    ) -> tuple[Floats, Floats, Floats]: ...

    def predict_proba(
        self, X: Any, *, interval: float | None = None, class_prior: ClassPrior | None = None
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """Return the posterior probability of each class.

        Where `tradeoff="auto"` pooled several fits, it is the pool's: proportional to the class
        shares times (joint density over class shares) to the power ``posterior_scale_``.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Of naive Bayes, missing cells are left out of the product; a row without any cell gets
            the model's own class shares, those of the rows at tradeoff 1 and fitted with all else
            below. At tradeoff 0 their statistics have the mean of the rows of fit instead.
            Classifiers other than pools read files opened by :func:`crossfade.io.scan` some rows
            at a time.
        interval : float, optional
            Coverage of an interval for each probability, such as .95: how much it could have
            differed by chance in the rows of fit, on the logit scale. Shares that are given are
            taken as known. Of naive Bayes and discriminants it is by the standard errors of
            :meth:`summary` and the delta method. Of a pool it is by the jackknife over ten groups
            of rows (those of fit's `groups` together; Shao and Wu 1989): without each group,
            members are fitted and weighed anew when the first interval is asked for, ten fits of
            each. That interval is for what the pool tends to, not for what members get wrong
            however many rows they have. Chance inside a member, as of a forest's trees, widens it.
        class_prior : "uniform", "empirical", array-like of shape (n_classes,) or mapping, optional
            Shares of the classes among these rows, as :meth:`with_class_prior` takes them; those
            of ``class_prior_`` if None.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. A lazy dask array for a Dask collection, as of
            every method that returns something for each row. With `interval` three of them:
            probabilities, lower and upper limits. Limits are NaN for rows with missing cells where
            fit had complete rows only: of "auto" with a weight on tradeoff 0, and of a joint
            Gaussian below tradeoff 1.

        Raises
        ------
        DataError
            If there are no standard errors for `interval`; see :meth:`summary`. Of a pool, if the
            rows of fit were too many to be kept (2 million cells), or it came from a file that has
            none: files and pickles keep what was fitted for intervals, if one was asked for
            before, up to 128 MB in memory.
        """
        model = self._used_with(class_prior)
        return model._probabilities(X) if interval is None else model._with_interval(X, interval)

    def predict_log_proba(self, X: Any, *, class_prior: ClassPrior | None = None) -> Floats:
        """Return the logarithm of :meth:`predict_proba`, exact where that underflows."""
        return self._used_with(class_prior)._log_probabilities(X)

    def predict(
        self, X: Any, *, reject: float | None = None, class_prior: ClassPrior | None = None
    ) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,).

        With a cost matrix as `selection`, the class of least expected cost.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        reject : float, optional
            Rows whose :meth:`outlier_p_value` is not above it get None for a class, in an array of
            objects: of rows like those of fit, about this share does.
        class_prior : "uniform", "empirical", array-like of shape (n_classes,) or mapping, optional
            Shares of the classes among these rows, as :meth:`with_class_prior` takes them; those
            of ``class_prior_`` if None.
        """
        return self._used_with(class_prior)._decided(X, reject=reject)

    def adapt(self, X: Any, *, coverage: float = 0.95) -> Self:
        """Return the same model for the class shares of new rows, estimated without their labels.

        Only the shares may differ from those of fit, not what the rows of a class look like.
        The shares of the new rows are found by EM (Saerens, Latinne & Decaestecker 2002), after
        the model's probabilities have been drawn to the truth of rows that it was not fitted to,
        as :meth:`predict_set` has them. What chance alone could have moved stays as it was.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Rows as they come where the model is used; more rows, narrower intervals.
        coverage : float, default=0.95
            Of the intervals.

        Returns
        -------
        A fitted copy; its ``class_shares_`` holds the shares, their intervals, and the p-value of
        the hypothesis that nothing shifted.

        Raises
        ------
        DataError
            If there is no row, or a parameter is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from crossfade import NaiveBayes
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat([0, 1], 500)
        >>> X = rng.normal(size=(1000, 2)) + 2 * y[:, None]
        >>> new = rng.normal(size=(600, 2)) + 2 * (np.arange(600) < 120)[:, None]
        >>> adapted = NaiveBayes().fit(X, y).adapt(new)
        >>> print(adapted.class_shares_)
        class  fitted  new rows
        0       0.500     0.796 (0.756 to 0.841)
        1       0.500     0.204 (0.159 to 0.244)
        600 rows, 95 % intervals; test that nothing shifted: p = 3.8e-26
        """
        return self.adapt_to_posteriors(np.asarray(self.predict_log_proba(X)), coverage=coverage)

    def adapt_to_posteriors(self, log_posterior: Floats, *, coverage: float = 0.95) -> Self:
        """Do what :meth:`adapt` does, from this model's log-posteriors of the new rows.

        Parameters
        ----------
        log_posterior : ndarray of shape (n_samples, n_classes)
            What :meth:`predict_log_proba` returned, of batches put together.
        coverage : float, default=0.95
            As for :meth:`adapt`.
        """
        check_is_fitted(self)
        check_number("coverage", coverage, above=0.0, below=1.0, remedy="0.9 is usual")
        left_out = self._left_out()
        found = estimate_shares(
            log_posterior,
            self.classes_,
            self._shares[1],
            None if isinstance(left_out, DataError) else left_out,
            coverage=coverage,
        )
        adapted = self._for_shares(np.maximum(found.shares, 1e-12))
        adapted.class_shares_ = found
        return adapted

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, by_class: bool = False
    ) -> NDArray[np.bool_]:
        """Return sets of classes that hold the true one for this share of the rows to come.

        A class is in a row's set if its probability is no less than the least one that the rows
        out of fold allow (cross-conformal prediction; Vovk 2015). This holds however wrong the
        model is, as long as new rows come from where the rows of fit came from. A set can be
        empty: no class is probable enough.

        Rows out of fold are those that chose the tradeoff or a pool's weights. At a given tradeoff
        they come from fits without each fifth of the rows, made when they are first asked for (of
        a table of more than 2 million cells or 3,000 parameters, or of documents, fits to 5,000
        rows drawn evenly if there are more).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
        by_class : bool, default=False
            Hold the coverage for the rows of every class, not for all rows together.

        Returns
        -------
        ndarray of bool, shape (n_samples, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        DataError
            If the model has no scores of rows that it was not fitted to: of `partial_fit`, from a
            file without them, or of a pool whose `cv` holds no rows out.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from crossfade import NaiveBayes
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NaiveBayes().fit(X, y)
        >>> model.predict_set(X[[0, 70, 133]], coverage=0.97)
        array([[ True, False, False],
               [False,  True,  True],
               [False,  True,  True]])
        """
        check_number("coverage", coverage, above=0.0, below=1.0, remedy="0.9 is usual")
        least = least_probabilities(self.rows_left_out(), coverage, by_class=by_class)
        return self.predict_proba(X) >= least

    def rows_left_out(self) -> HeldOut:
        """Return log-posteriors of rows of fit by fits without them, with the rows' classes.

        What :meth:`predict_set` and :meth:`adapt` start from. A file keeps them from then on.

        Returns
        -------
        HeldOut

        Raises
        ------
        DataError
            As for :meth:`predict_set`.
        """
        check_is_fitted(self)
        left_out = self._left_out()
        if isinstance(left_out, DataError):
            raise left_out
        return left_out

    @part_by_part
    def outlier_score(self, X: Any) -> Floats:
        """Return how unlike the rows of fit each row is: -log Σ_k p_k f_k(x), in nats.

        The densities f_k are those of the generative end (tradeoff 1), whatever λ the posterior
        has: they describe the rows and nothing else. They are fitted to the rows of fit, of more
        than 5,000 to so many drawn evenly, when they are first asked for. At tradeoff 1 and with no
        more rows the score is :meth:`score_samples` with its sign changed.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Missing cells are left out of the density: f_k is that of the row's other cells. A
            category that fit has not seen counts as missing.

        Returns
        -------
        ndarray of shape (n_samples,)
            The larger, the stranger. Rows with cells missing, or documents of different lengths,
            are compared by :meth:`outlier_p_value`.

        Raises
        ------
        DataError
            If the columns cannot be used as given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from crossfade import NaiveBayes
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NaiveBayes().fit(X, y)
        >>> model.outlier_score([X[0], X[0] + 2]).round(1)
        array([-0.7, 25.4])
        """
        return self._strangeness(X, p_values=False)

    @part_by_part
    def outlier_p_value(self, X: Any) -> Floats:
        """Return the share of rows of fit that are no less strange, by fits without them.

        Of fresh rows from where the rows of fit came from, 5 % have a p-value of .05 or less,
        however wrong the densities are (conformal: Vovk, Gammerman & Shafer 2005): up to 1,000 rows
        of fit are scored by fits of ten folds. With `groups` in fit these are folds of groups. A
        model for other class shares weighs the rows by class.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A row with missing cells is compared with the rows of fit without these cells (theirs
            are drawn from other rows where missing), a document by how far each is from what is
            usual for its number of words.

        Returns
        -------
        ndarray of shape (n_samples,)
            From 1/(n + 1) for n rows to 1.

        Raises
        ------
        DataError
            If no row was held out (`partial_fit`).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from crossfade import NaiveBayes
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NaiveBayes().fit(X, y)
        >>> model.outlier_p_value([X[0], X[0] + 2]).round(3)
        array([0.96 , 0.007])
        >>> model.predict([X[0], X[0] + 2], reject=0.01)
        array([0, None], dtype=object)
        """
        return self._strangeness(X, p_values=True)

    def _rejecting(self, X: Any, reject: float) -> NDArray[Any]:
        """Return the classes of rows, None where a row's p-value is not above `reject`."""
        check_number("reject", reject, above=0.0, below=1.0, remedy="0.01 rejects one in a hundred")
        kept = np.flatnonzero(self._strangeness(X, p_values=True, reject=reject) > reject)
        found = np.full(_num_samples(X), None, dtype=object)
        if kept.size:  # the others may be too strange to have probabilities
            found[kept] = self.predict(rows_at(X, kept))
        return found
