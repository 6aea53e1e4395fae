"""PooledClassifier: the posteriors of any classifiers as one."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Progress
from crossfade.classifiers.checks import refuse_unlabelled
from crossfade.classifiers.explanation import Explanation
from crossfade.classifiers.in_use import InUse
from crossfade.classifiers.views import FittedViews
from crossfade.errors import DataError, LeftOutWarning
from crossfade.inference import HeldOut
from crossfade.inference.summary import Summary
from crossfade.pools.explanation import explain_pool, shuffled_cells
from crossfade.pools.fitting import PoolRows, splits_of
from crossfade.pools.jackknife import Jackknife, kept_rows
from crossfade.pools.members import (
    check_says_probabilities,
    checked_pairs,
    default_names,
    fit_argument,
    is_fitted_already,
    probabilities,
)
from crossfade.pools.parameters import PoolParameters
from crossfade.pools.shown import pool_table, said_on_stderr, weights_summary
from crossfade.pools.training import MemberFits, Weighed
from crossfade.pools.weights import Weighing, drawn_in, pooled
from crossfade.pools.worth import worth
from crossfade.table import (
    check_finite,
    check_weights,
    encode_labels,
    labelled_first,
    read_features,
)
from crossfade.table.columns import count_rows, refuse_parts
from crossfade.table.decoding import table_library
from crossfade.table.groups import numbered_first
from crossfade.table.read import without_cells
from crossfade.table.rows import present_rows, rows_at
from crossfade.table.scored import TableClassifier
from crossfade.tradeoff.folds import drawn_one_by_one, order_by_contents
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows, log_normalise


class PooledClassifier(InUse, TableClassifier, PoolParameters):
    """One posterior from several classifiers, weighted by their out-of-fold probabilities.

    With π the class shares and P_g the members' posteriors, a logarithmic pool (Genest & Zidek
    1986) is P(y|x) ∝ π_y ∏_g (P_g(y|x) / π_y)^{w_g} with w ≥ 0, a linear one Σ_g w_g P_g(y|x) with
    weights that sum to one. The weights minimise the loss of rows that the members were not fitted
    to. A member that adds nothing gets weight 0, and is not fitted to all rows.

    Parameters
    ----------
    estimators : "default" or list of (str or (str, classifier)), default="default"
        Names ("nb", "shared", "full", "forest", "boosting") and pairs of a name of yours and any
        classifier. "default" is naive Bayes, a Gaussian discriminant with a covariance per class
        (where at least two columns are numbers and their products are not too many), a random
        forest and, from 100 rows on, histogram gradient boosting. A classifier without
        ``predict_proba`` gets a sigmoid over its ``decision_function``. One in scikit-learn's
        ``FrozenEstimator`` is used as it is. ("name", "drop") is left out.
    pooling : {"logarithmic", "linear", "best"}, default="logarithmic"
        "best" takes the one of less cross-fitted loss.
    weights : {"shared", "by_class"}, default="shared"
        Whether a member of a logarithmic pool has one weight, or one for each class, w_gy: it may
        be surer of some classes than of others. "by_class" needs many rows of each class.
    selection : {"log_loss", "brier"}, default="log_loss"
        The loss that the weights minimise.
    cv : int, "prefit", splitter or iterable of (train, test), default=5
        Where the out-of-fold probabilities come from. A number of folds deals rows by their
        contents, so that equal rows share a fold, and gives them to members in an order of their
        contents: how they lie does not matter. With other splits they stay as they lie. "prefit":
        all members are fitted already, to other rows than those given here.
    pseudo_count : float, default=1.0
        A member's probabilities, fitted to n rows, are drawn in as by this many rows more with the
        class shares: (n p + pseudo_count π) / (n + pseudo_count). None then is exactly 0, as a
        forest's can be.
    n_jobs : int or None, default=None
        Processes that fit members side by side; None is one, -1 all cores.
    random_state : int, default=0
        Of the members that are given by name.
    unlabelled : None, "missing" or a label, default=None
        Which rows of fit have no label, as in :class:`NaiveBayes`. Members that can learn from
        them do: `NaiveBayes` without derived columns and `GaussianDiscriminant` of one component,
        as much as their `unlabelled_weight` says. Other members are fitted to labelled rows, which
        alone weigh the members.
    verbose : bool or callable, default=False
        Whether to say on stderr which member is being fitted, and about how long all will take
        still; or what is called as ``verbose(done, total, text)`` as each of these fits begins.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        π, the class shares of the rows; other shares after ``adapt`` and ``with_class_prior``.
    class_shares_ : ClassShares
        Estimated shares and their intervals, after ``adapt``.
    weights_ : dict of str to float
        By member's name. Of a logarithmic pool they need not sum to one: more than one is surer
        than the members, less is less sure. By class: the mean over classes.
    weights_by_class_ : dict of str to ndarray of shape (n_classes,), or None
        Where weights are by class.
    pooling_ : str
        The pooling that was used.
    member_losses_ : dict of str to dict
        Out-of-fold log_loss, brier and error of each member by name.
    pool_losses_ : dict of str to float
        The same of the pool, cross-fitted: each row by weights (and a pooling) that were chosen on
        the other folds.
    gains_ : dict of str to float
        By how much the pool's cross-fitted loss would rise without the member; below 0 where the
        pool would be better without it.
    left_out_ : dict of str to str
        Members that could not be fitted, and why.
    estimators_ : list of classifier
        The members of positive weight, fitted to all rows; their names are ``member_names_``.
    background_ : ndarray of shape (n_background, n_features) or None
        Up to twenty rows of cells drawn from each column on its own, so that none is a row of the
        table; over these, explanations average columns. None where there are words.
    schema_ : Schema
        Names, kinds and categories of the columns.
    n_unlabelled_ : int
        How many rows had no label, where `unlabelled` is given.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Where X has names.

    Warns
    -----
    LeftOutWarning
        If a member cannot be fitted to a fold, or gives no probabilities there.

    Notes
    -----
    Weights of rows mean repetitions, as far as the members take them so. A member is fitted once
    per fold and once to all rows. `NaiveBayes` and `GaussianDiscriminant` with a chosen tradeoff
    are fitted once: they choose on the pool's folds, and a row's probabilities come from fits, and
    from weights of their grid, that other folds made.

    References
    ----------
    Genest, C. and Zidek, J. V. (1986). Combining probability distributions. Statistical Science 1.

    Kull, M., Silva Filho, T. M. and Flach, P. (2017). Beyond sigmoids: how to obtain
    well-calibrated probabilities from binary classifiers with beta calibration. Electronic Journal
    of Statistics 11: weights by class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from crossfade import PooledClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> pool = PooledClassifier(["nb", ("lr", LogisticRegression(max_iter=1000))]).fit(X, y)
    >>> pool.predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    >>> sorted(pool.weights_)
    ['lr', 'nb']
    """

    def __init__(
        self,
        estimators: str | Sequence[Any] = "default",
        *,
        pooling: str = "logarithmic",
        weights: str = "shared",
        selection: str = "log_loss",
        cv: Any = 5,
        pseudo_count: float = 1.0,
        n_jobs: int | None = None,
        random_state: int = 0,
        unlabelled: Any = None,
        verbose: bool | Progress = False,
    ) -> None:
        self.estimators = estimators
        self.pooling = pooling
        self.weights = weights
        self.selection = selection
        self.cv = cv
        self.pseudo_count = pseudo_count
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.unlabelled = unlabelled
        self.verbose = verbose

    _takes_sparse = True

    # -- fitting ---------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the members to folds, weigh them, and fit those that count to all rows.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Passed on to the members as it is.
        y : array-like of shape (n_samples,)
            Rows may lack a label where `unlabelled` says so.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 0 is no row. Passed on to the members, which must take it.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together are left out together. Passed on to members that take it.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a parameter, the columns or the labels cannot be used as given, or no member can be
            fitted.

        Warns
        -----
        LeftOutWarning
            If a member cannot be fitted.
        """
        settings = self._settings()
        data = self._read(X, y, sample_weight, groups)
        tell = self.verbose if callable(self.verbose) else None
        if self.verbose and tell is None:
            tell = said_on_stderr()
        fits = MemberFits(self._members(data), data, self.classes_, settings, tell)
        found = fits.weighed()
        fits.tell = None
        self.left_out_ = fits.failed
        self.estimators_, self.member_names_ = found.models, found.kept
        self._n_rows = data.n_rows(None)
        self._weighing, self.pooling_ = found.of_kept, found.weighing.pooling
        self._describe(fits, found)
        for name, why in self.left_out_.items():
            message = f"estimators: {name!r} was left out of the pool: {why}"
            warnings.warn(LeftOutWarning(message), stacklevel=3)
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> PoolRows:
        refuse_parts(X)
        n, parts = count_rows(X), None
        if not isinstance(self.cv, (Real, str)):
            parts = self._given_splits(X, y, groups)
        X, y, given, numbers, kept = present_rows(X, y, sample_weight, groups)
        order, m = labelled_first(y, self.unlabelled, kept.size)
        if order is not None:
            X, y, kept = rows_at(X, order), _safe_indexing(y, order[:m]), kept[order[:m]]
            given = None if given is None else given[order]
        matrix, schema = read_features(self, X, reset=True, sample_weight=given)
        check_finite(matrix, schema.names)
        self._table_library = table_library(X)
        self.classes_, codes = encode_labels(y, n_samples=m)
        others = None
        if order is not None:
            together = None
            if numbers is not None:
                numbers, together = numbered_first(numbers[order], m)
            others = OtherRows(matrix[m:], None if given is None else given[m:], together)
            # A row without a cell says nothing.
            telling = np.flatnonzero(~without_cells(others.X))
            others, X = others.take(telling), rows_at(X, np.append(np.arange(m), m + telling))
            given = None if given is None else check_weights(given[:m], m)
        rows = LabelledRows(matrix[:m], codes, given, self.classes_.size, unlabelled=others)
        rest = m + np.arange(0 if others is None else others.X.shape[0])
        if isinstance(self.cv, Real):
            # Nobody says that the order of rows means anything: what draws or deals rows by their
            # places, as a forest's bootstrap does, is to draw the same however they lie.
            places = order_by_contents(rows)
            X, rows = rows_at(X, np.append(places, rest)), rows.take(places)
            given, codes = rows.weights, rows.codes
            numbers = None if numbers is None else numbers[places]
        self.background_ = shuffled_cells(rows.X, schema, self.random_state)
        self._row_shares = self.class_prior_ = rows.class_weights / rows.class_weights.sum()
        splits = None if parts is None else splits_of(parts, n, kept)
        drawn = drawn_one_by_one(rows) if numbers is None and splits is None else None
        if drawn is not None and given is not None:
            index, share = drawn
            X, codes, rows = rows_at(X, np.append(index, rest)), codes[index], rows.take(index)
            rows = replace(rows, weights=given[index] * share)
        self.__dict__.pop("n_unlabelled_", None)
        if self.unlabelled is not None:
            self.n_unlabelled_ = rest.size
        return PoolRows(X, self.classes_[codes], rows, numbers, splits)

    def _given_splits(self, X: Any, y: Any, groups: Any) -> list[Any]:
        """Return the splits that `cv` makes, of rows with a label alone, or is."""
        if not hasattr(self.cv, "split"):
            return list(self.cv)
        order, m = labelled_first(y, self.unlabelled, count_rows(X))
        if order is None:
            return list(self.cv.split(X, y, groups))
        own = order[:m]
        classes, codes = encode_labels(_safe_indexing(y, own))
        together = None if groups is None else _safe_indexing(groups, own)
        found = self.cv.split(rows_at(X, own), classes[codes], together)
        return [(own[train], own[test]) for train, test in found]

    def _members(self, data: PoolRows) -> list[tuple[str, Any]]:
        given = self.estimators
        if isinstance(given, str) and given == "default":
            given = default_names(self.schema_, data.n_rows(None))
        prefit = isinstance(self.cv, str)
        pairs = checked_pairs(given, self.random_state, self.schema_)
        for name, one in pairs:
            frozen = prefit or is_fitted_already(one)
            if not frozen:
                refuse_unlabelled("estimators", name, one, "give it to the pool")
            if frozen:
                check_is_fitted(one)
            elif data.rows.weights is not None:
                fit_argument(one, "sample_weight", None, name)
            check_says_probabilities(name, one, frozen)
        return pairs

    def _describe(self, fits: MemberFits, found: Weighed) -> None:
        names, weighing = found.names, found.weighing
        self.weights_ = dict(zip(names, weighing.sizes.tolist(), strict=True))
        self.weights_ |= dict.fromkeys(self.left_out_, 0.0)
        self.weights_by_class_ = None
        if weighing.weights.ndim == 2:
            self.weights_by_class_ = dict(zip(names, weighing.weights, strict=True))
        told = worth(fits, found)
        self.member_losses_, self.pool_losses_ = told.members, told.pool
        self.gains_, self._held_out = told.gains, told.held_out
        self._weights_errors = told.covariance
        self._jackknife = kept_rows(fits, names)
        self.__dict__.pop("class_shares_", None)  # of rows that an earlier fit was adapted to

    def __getstate__(self) -> Any:
        # Files and copies for other processes are without the rows.
        state: Any = super().__getstate__()
        found: Jackknife | None = state.get("_jackknife")
        return state if found is None else state | {"_jackknife": found.without_rows()}

    # -- predicting ------------------------------------------------------------------------------

    def _member_scores(self, X: Any) -> Floats:
        """Return the members' log-probabilities, drawn in, (n_members, n_rows, n_classes)."""
        check_is_fitted(self)
        matrix, _ = read_features(self, X, reset=False)
        check_finite(matrix, self.schema_.names)
        scores = np.zeros((len(self.estimators_), matrix.shape[0], self.classes_.size))
        for g, (name, model) in enumerate(zip(self.member_names_, self.estimators_, strict=True)):
            try:
                posterior = probabilities(model, X, self.classes_)
            except DataError as error:
                raise DataError(f"estimators: of {name!r}: {error}") from error
            scores[g] = drawn_in(posterior, self._n_rows, self._row_shares, self.pseudo_count)
        return scores

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        scores = pooled(self._weighing, self._member_scores(X), np.log(self._row_shares))
        return scores + np.log(self.class_prior_ / self._row_shares)

    # -- where the pool is used ------------------------------------------------------------------

    @property
    def _shares(self) -> tuple[Floats, Floats]:
        return self._row_shares, self.class_prior_

    def _for_shares(self, shares: Floats) -> Self:
        adapted = copy.copy(self)
        adapted.class_prior_ = shares
        if self._held_out is not None:
            adapted._held_out = self._held_out.for_shares(shares / self.class_prior_)
        return adapted

    def _left_out(self) -> HeldOut | DataError:
        return self._held_out or DataError(
            f"cv: expected splits that hold rows out, got {self.cv!r}, which held out none of "
            "these rows; give more rows of each class, or other splits"
        )

    def _strangeness(self, X: Any, *, p_values: bool, reject: float = 1.0) -> Floats:
        """Return those of the member with densities that has most weight."""
        check_is_fitted(self)
        members = zip(self.member_names_, self.estimators_, strict=True)
        densities = {name: model for name, model in members if isinstance(model, FittedViews)}
        if not densities:
            raise DataError(
                "estimators: expected a NaiveBayes or a GaussianDiscriminant among the members, "
                "whose densities tell how unlike others a row is, got none; add one"
            )
        described = densities[max(densities, key=self.weights_.__getitem__)]
        shares = self.class_prior_ * np.isin(self.classes_, described.classes_)
        if not np.allclose(self.class_prior_, self._row_shares, rtol=1e-12, atol=0.0):
            described = described._for_shares(shares[shares > 0.0] / shares.sum())
        return described._strangeness(X, p_values=p_values, reject=reject)

    def explain(self, X: Any) -> Explanation:
        """Return what members and columns add to the log-odds, as :func:`crossfade.explain`.

        A member's log-odds against the class shares are multiplied with its weight and add up. A
        column adds its part of each: a member of Crossfade's says its own, exactly; those of
        others are Shapley values over ten orders of the columns (Štrumbelj and Kononenko 2014),
        columns that come later averaged over ``background_``. So are all of a linear pool.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)

        Returns
        -------
        Explanation
            Its scores are the pool's log-posterior up to a term common to the classes.

        Raises
        ------
        DataError
            If other members read free text or a sparse table.
        """
        return explain_pool(self, X)

    def _probabilities(self, X: Any) -> Floats:
        return log_normalise(self._scores(X))[1]

    def _log_probabilities(self, X: Any) -> Floats:
        scores = self._scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1)[:, None]

    def _decided(self, X: Any, *, reject: float | None = None) -> NDArray[Any]:
        if reject is not None:
            return self._rejecting(X, reject)
        most_probable = self._scores(X).argmax(axis=1)  # which asks whether there was a fit
        return self.classes_[most_probable]

    def _with_interval(self, X: Any, interval: float) -> tuple[Floats, Floats, Floats]:
        check_number("interval", interval, above=0.0, below=1.0, remedy="0.95 is usual")
        check_is_fitted(self)
        if self._jackknife is None:
            raise DataError(
                "interval: expected a pool with its rows of fit, at most 2 million cells, got one "
                "without them; fit it in this process, to a sample of the rows if they are many. "
                "Files keep intervals of up to 128 MB if one was asked for before (`crossfade fit "
                "--intervals`)"
            )
        return self._jackknife.limits(self, X, interval)

    def summary(self, *, level: float = 0.95) -> Summary:
        """Return the members' weights with standard errors, intervals and tests.

        The errors are those of the sandwich H⁻¹ J H⁻¹ (Huber 1967, White 1982) of the equations
        that the weights solve, with the `groups` of fit cluster-robust. They take the members'
        held-out probabilities as they are: what other rows would have made of the members is left
        out. (It is in the intervals of :meth:`predict_proba`.) So is what the ridge on the weights
        does: an interval is for the weights that the penalised equations tend to.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        Summary
            Prints as text; ``.frame()`` gives a data frame.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from crossfade import PooledClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> pool = PooledClassifier(["nb", "forest"]).fit(X, y)
        >>> pool.summary().frame()["term"].to_list()
        ['nb', 'forest']
        """
        check_is_fitted(self)
        level = check_number("level", level, above=0.0, below=1.0, remedy="use 0.95")
        return weights_summary(self, level)

    # -- for people ------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Return the members' weights, losses and gains as a table, once fitted."""
        diagram = str(super()._repr_mimebundle_().get("text/html", ""))
        table = pool_table(self) if hasattr(self, "weights_") else ""
        return f"<div>{table}{diagram}</div>" if table else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def combination(pool: PooledClassifier) -> tuple[Weighing, Floats, float]:
    """Return a pool's weighing, and the class shares and the number of the rows of fit."""
    return pool._weighing, pool._row_shares, pool._n_rows
