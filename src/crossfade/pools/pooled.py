"""PooledClassifier: the posteriors of any classifiers as one."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

from crossfade._checks import check_choice, check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Integers
from crossfade.classifiers.explanation import Explanation
from crossfade.classifiers.in_use import InUse
from crossfade.classifiers.views import FittedViews
from crossfade.errors import DataError, LeftOutWarning
from crossfade.inference import HeldOut
from crossfade.pools.explanation import explain_pool, shuffled_cells
from crossfade.pools.fitting import (
    PoolRows,
    fold_of,
    on_own_folds,
    out_of_fold,
    splits_of,
    whole_fit,
)
from crossfade.pools.members import (
    checked_pairs,
    chooses_on_folds,
    default_names,
    fit_argument,
    is_fitted_already,
    probabilities,
    with_probabilities,
)
from crossfade.pools.weights import (
    POOLINGS,
    Evidence,
    Weighing,
    cross_fitted,
    drawn_in,
    pooled,
    weigh,
)
from crossfade.table import check_finite, check_weights, encode_labels, read_features
from crossfade.table.columns import refuse_parts
from crossfade.table.decoding import table_library
from crossfade.table.documents import indexable
from crossfade.table.groups import encode_groups
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise

__all__ = ["PooledClassifier"]

#: Folds over which weights are cross-fitted where the members need none.
_FOLDS: Final = 5

_SELECTIONS: Final = ("log_loss", "brier")


class PooledClassifier(InUse, ClassifierMixin, BaseEstimator):
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
        forest and histogram gradient boosting. A classifier without ``predict_proba`` gets a
        sigmoid over its ``decision_function``. One in scikit-learn's ``FrozenEstimator`` is used
        as it is. ("name", "drop") is left out.
    pooling : {"logarithmic", "linear", "best"}, default="logarithmic"
        "best" takes the one of less cross-fitted loss.
    selection : {"log_loss", "brier"}, default="log_loss"
        The loss that the weights minimise.
    cv : int, "prefit", splitter or iterable of (train, test), default=5
        Where the out-of-fold probabilities come from. A number of folds deals rows by their
        contents, so that equal rows share a fold and the order of rows does not matter. "prefit":
        all members are fitted already, to other rows than those given here.
    pseudo_count : float, default=1.0
        A member's probabilities, fitted to n rows, are drawn in as by this many rows more with the
        class shares: (n p + pseudo_count π) / (n + pseudo_count). None then is exactly 0, as a
        forest's can be.
    n_jobs : int or None, default=None
        Processes that fit members side by side; None is one, -1 all cores.
    random_state : int, default=0
        Of the members that are given by name.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    class_prior_ : ndarray of shape (n_classes,)
        π, the class shares of the rows; other shares after ``adapt`` and ``with_class_prior``.
    class_shares_ : ClassShares
        Estimated shares and their intervals, after ``adapt``.
    weights_ : dict of str to float
        By member's name. Of a logarithmic pool they need not sum to one: more than one is surer
        than the members, less is less sure.
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
        selection: str = "log_loss",
        cv: Any = 5,
        pseudo_count: float = 1.0,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimators = estimators
        self.pooling = pooling
        self.selection = selection
        self.cv = cv
        self.pseudo_count = pseudo_count
        self.n_jobs = n_jobs
        self.random_state = random_state

    _takes_sparse = True

    # -- parameters ------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with `deep` those of members given in pairs as name__parameter."""
        found: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, one in self._given_pairs():
                found[name] = one
                if hasattr(one, "get_params"):
                    own = one.get_params(deep=True)
                    found |= {f"{name}__{key}": value for key, value in own.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, members by their names, and members' own by name__parameter."""
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        new = {name: params.pop(name) for name, _ in self._given_pairs() if name in params}
        if new:
            # The list that was given stays the user's.
            self.estimators = [
                (one[0], new[one[0]]) if _is_pair(one) and one[0] in new else one
                for one in self.estimators
            ]
        super().set_params(**params)
        return self

    def _given_pairs(self) -> list[tuple[str, Any]]:
        if isinstance(self.estimators, str) or not isinstance(self.estimators, Iterable):
            return []
        return [(one[0], one[1]) for one in self.estimators if _is_pair(one)]

    def _check_parameters(self) -> tuple[str, ...]:
        """Refuse arguments that no data could make sense of; return the poolings to try."""
        if self.pooling != "best" and self.pooling not in POOLINGS:
            raise DataError(
                f"pooling: expected 'best', {', '.join(map(repr, POOLINGS))}, got "
                f"{self.pooling!r}; 'best' takes the better by cross-fitted loss"
            )
        remedy = "name a loss that weights can minimise"
        check_choice("selection", self.selection, _SELECTIONS, remedy)
        check_number("pseudo_count", self.pseudo_count, above=0.0, remedy="1 is the default")
        if isinstance(self.cv, (int, float)):
            check_number("cv", self.cv, 2, "5 folds are the default", whole=True)
        elif isinstance(self.cv, str) and self.cv != "prefit":
            raise DataError(
                f"cv: expected a number of folds, 'prefit' or a splitter, got {self.cv!r}; 5 is "
                "the default"
            )
        return tuple(POOLINGS) if self.pooling == "best" else (self.pooling,)

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
        poolings = self._check_parameters()
        data = self._read(X, y, sample_weight, groups)
        pairs = self._members(data)
        self.left_out_: dict[str, str] = {}
        evidence = self._evidence(data, pairs)
        while True:
            pairs = [pair for pair in pairs if pair[0] not in self.left_out_]
            if not pairs:
                raise DataError(
                    "estimators: expected at least one member that can be fitted, got none: "
                    + "; ".join(f"{name}: {why}" for name, why in self.left_out_.items())
                )
            some = evidence([name for name, _ in pairs])
            found = weigh(some.sample(), poolings)
            kept = [pair for pair, w in zip(pairs, found.weights, strict=True) if w > 0.0]
            fitted = self._refitted(data, kept)
            if all(model is not None for model in fitted):
                break
        self.estimators_, self.member_names_ = fitted, [name for name, _ in kept]
        del self._whole
        self._weighing = Weighing(found.pooling, found.weights[found.weights > 0.0])
        self.pooling_ = found.pooling
        names = [name for name, _ in pairs]
        self._describe(some.sample(), names, found, poolings)
        for name, why in self.left_out_.items():
            message = f"estimators: {name!r} was left out of the pool: {why}"
            warnings.warn(LeftOutWarning(message), stacklevel=3)
        return self

    def _read(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> PoolRows:
        refuse_parts(X)
        n = _num_samples(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        numbers = None if groups is None else encode_groups(groups, n)
        if hasattr(X, "__array__") and not hasattr(X, "__getitem__"):
            X = np.asarray(X)
        parts = None
        if not isinstance(self.cv, (int, float, str)):
            parts = list(self.cv.split(X, y, groups) if hasattr(self.cv, "split") else self.cv)
        kept = np.arange(n)
        if given is not None and not given.all():
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(indexable(X), kept), _safe_indexing(y, kept), given[kept]
            numbers = None if numbers is None else np.unique(numbers[kept], return_inverse=True)[1]
        matrix, schema = read_features(self, X, reset=True, sample_weight=given)
        check_finite(matrix, schema.names)
        self._table_library = table_library(X)
        self.background_ = shuffled_cells(matrix, schema, self.random_state)
        self.classes_, codes = encode_labels(y, n_samples=matrix.shape[0])
        rows = LabelledRows(matrix, codes, given, self.classes_.size)
        self._row_shares = self.class_prior_ = rows.class_weights / rows.class_weights.sum()
        splits = None if parts is None else splits_of(parts, n, kept)
        return PoolRows(X, self.classes_[codes], rows, numbers, splits)

    def _members(self, data: PoolRows) -> list[tuple[str, Any]]:
        given = self.estimators
        if isinstance(given, str) and given == "default":
            given = default_names(self.schema_)
        prefit = isinstance(self.cv, str)
        pairs = checked_pairs(given, self.random_state)
        found = []
        for name, one in pairs:
            frozen = prefit or is_fitted_already(one)
            if frozen:
                check_is_fitted(one)
            elif data.rows.weights is not None:
                fit_argument(one, "sample_weight", None, name)
            found.append((name, with_probabilities(name, one, frozen)))
        return found

    def _splits(self, data: PoolRows) -> list[tuple[Integers | None, Integers, Integers]]:
        """Return training rows (None where nothing is fitted), held-out rows and their folds."""
        if isinstance(self.cv, str):
            # Fitted members have seen none of these rows, so that all can be scored.
            every = np.arange(data.rows.n_samples)
            return [(None, every, np.maximum(folds(data.rows, _FOLDS, data.groups), 0))]
        parts = data.splits
        if parts is None:
            fold = folds(data.rows, int(self.cv), data.groups)
            numbers = np.unique(fold[fold >= 0])
            parts = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in numbers]
        return [(train, held, np.full(held.size, k)) for k, (train, held) in enumerate(parts)]

    def _evidence(self, data: PoolRows, pairs: Sequence[tuple[str, Any]]) -> Any:
        """Fit every member to every fold; return what makes the evidence of some of them."""
        splits = self._splits(data)
        fold = fold_of(splits, data.rows.n_samples)
        own = [pair for pair in pairs if fold is not None and chooses_on_folds(pair[1])]
        once = self._parallel(on_own_folds, [(*pair, data, fold) for pair in own])
        # Own members that choose a tradeoff: one fit to all rows, which scores these very folds.
        self._whole = {name: found for (name, _), found in zip(own, once, strict=True) if found}
        rest = [pair for pair in pairs if pair[0] not in self._whole]
        tasks = [
            (*pair, data, self.classes_, train, held) for pair in rest for train, held, _ in splits
        ]
        each = iter(self._parallel(out_of_fold, tasks))
        parts: dict[str, list[Floats]] = {name: [] for name, _ in pairs}
        for name, _ in pairs:
            for train, held, _ in splits:
                if name in self._whole:
                    _, posterior = self._whole[name]
                    posterior = posterior if isinstance(posterior, str) else posterior[held]
                else:
                    posterior = next(each)
                if isinstance(posterior, str):
                    self.left_out_.setdefault(name, posterior)
                    continue
                n_rows, shares = data.n_rows(train), self._row_shares
                parts[name].append(drawn_in(posterior, n_rows, shares, self.pseudo_count))
        empty = np.zeros(0, dtype=np.int64)
        held = np.concatenate([empty, *(held for _, held, _ in splits)])
        weights = data.rows.weights
        none = np.zeros((0, self.classes_.size))

        def of(names: Sequence[str]) -> Evidence:
            return Evidence(
                np.stack([np.concatenate([none, *parts[name]]) for name in names]),
                data.rows.codes[held],
                np.concatenate([empty, *(fold for _, _, fold in splits)]),
                np.ones(held.size) if weights is None else weights[held],
                np.log(self._row_shares),
                self.selection,
                held,
            )

        return of

    def _parallel(self, function: Any, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        found: list[Any] = Parallel(n_jobs=self.n_jobs)(delayed(function)(*task) for task in tasks)
        return found

    def _refitted(self, data: PoolRows, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
        """Return members fitted to all rows, None (and a reason) where one cannot be."""
        known = {name: model for name, (model, _) in self._whole.items()}
        if isinstance(self.cv, str):
            known = dict(pairs)
        new = [(*pair, data) for pair in pairs if pair[0] not in known]
        fits = self._parallel(whole_fit, new)
        known |= {name: model for (name, *_), model in zip(new, fits, strict=True)}
        found = [known[name] for name, _ in pairs]
        self._n_rows = data.n_rows(None)
        for (name, _), model in zip(pairs, found, strict=True):
            if isinstance(model, str):
                self.left_out_[name] = model
        return [None if isinstance(model, str) else model for model in found]

    def _describe(
        self, evidence: Evidence, names: list[str], found: Weighing, poolings: Sequence[str]
    ) -> None:
        self.weights_ = dict(zip(names, found.weights.tolist(), strict=True))
        self.weights_ |= dict.fromkeys(self.left_out_, 0.0)
        self.member_losses_: dict[str, dict[str, float]] = {}
        self.pool_losses_: dict[str, float] = {}
        self.gains_: dict[str, float] = {}
        self._held_out: HeldOut | None = None
        self.__dict__.pop("class_shares_", None)  # of rows that an earlier fit was adapted to
        if not evidence.codes.size:
            return
        self.member_losses_ = {
            name: evidence.losses(scores)
            for name, scores in zip(names, evidence.scores, strict=True)
        }
        joint = cross_fitted(evidence, poolings)
        self.pool_losses_ = evidence.losses(joint)
        once = evidence.first_of_rows()
        self._held_out = HeldOut.of(joint[once], evidence.codes[once], evidence.weights[once])
        if len(names) == 1:
            return
        used, criterion = [found.pooling], self.selection
        with_all = evidence.losses(cross_fitted(evidence, used))[criterion]
        for g, name in enumerate(names):
            others = evidence.members([k for k in range(len(names)) if k != g])
            loss = others.losses(cross_fitted(others, used))[criterion]
            self.gains_[name] = loss - with_all

    # -- predicting ------------------------------------------------------------------------------

    def _member_scores(self, X: Any) -> Floats:
        """Return the members' log-probabilities, drawn in, (n_members, n_rows, n_classes)."""
        check_is_fitted(self)
        matrix, _ = read_features(self, X, reset=False)
        check_finite(matrix, self.schema_.names)
        scores = np.zeros((len(self.estimators_), matrix.shape[0], self.classes_.size))
        for g, model in enumerate(self.estimators_):
            posterior = probabilities(model, X, self.classes_)
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

    def predict_proba(self, X: Any) -> Floats:
        """Return the pool's posterior, shape (n_samples, n_classes)."""
        return log_normalise(self._scores(X))[1]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of :meth:`predict_proba`, shape (n_samples, n_classes)."""
        scores = self._scores(X)
        return scores - np.logaddexp.reduce(scores, axis=1)[:, None]

    def predict(self, X: Any, *, reject: float | None = None) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_samples,).

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        reject : float, optional
            Rows whose :meth:`outlier_p_value` is not above it get None for a class, in an array of
            objects.
        """
        if reject is not None:
            return self._rejecting(X, reject)
        check_is_fitted(self)
        return self.classes_[self._scores(X).argmax(axis=1)]

    # -- for people ------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Return the members' weights, losses and gains as a table, once fitted."""
        diagram = super()._repr_mimebundle_().get("text/html", "")
        if not hasattr(self, "weights_"):
            return str(diagram)
        head = ("", "weight", *_SELECTIONS, "error", "loss without it")
        rows = [[name, f"{w:.3f}", *self._cells(name)] for name, w in self.weights_.items()]
        pool = [f"{self.pool_losses_.get(key, np.nan):.4f}" for key in (*_SELECTIONS, "error")]
        rows.append([f"{self.pooling_} pool", "", *pool, ""])
        shown = "".join(
            f"<tr><th style='text-align:left'>{escape(row[0])}</th>"
            + "".join(f"<td style='text-align:right'>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        )
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        return (
            f"<div><table><thead><tr>{titles}</tr></thead><tbody>{shown}</tbody></table>"
            f"{diagram}</div>"
        )

    def _cells(self, name: str) -> list[str]:
        if name in self.left_out_:
            return [f"left out: {self.left_out_[name]}", "", "", ""]
        losses = self.member_losses_.get(name, {})
        found = [f"{losses.get(key, np.nan):.4f}" for key in (*_SELECTIONS, "error")]
        return [*found, f"{self.gains_[name]:+.4f}" if name in self.gains_ else ""]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = self._takes_sparse
        return tags


def _is_pair(one: Any) -> bool:
    return isinstance(one, (tuple, list)) and len(one) == 2 and isinstance(one[0], str)
