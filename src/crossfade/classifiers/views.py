"""What a fitted classifier can be asked: posteriors, densities, samples, the linear view.

Everything follows from the two numeric seams of :class:`~crossfade.tradeoff.scoring.Scorer`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats, Integers
from crossfade.classifiers.checks import refuse_cells
from crossfade.classifiers.class_density import ClassDensity
from crossfade.classifiers.in_use import InUse
from crossfade.classifiers.interactions import DerivedColumns
from crossfade.classifiers.standard_errors import StandardErrors
from crossfade.densities.base import Density
from crossfade.errors import DataError, NotADensityError
from crossfade.inference import ColumnFit, HeldOut
from crossfade.table import Schema, check_finite, read_features
from crossfade.table.decoding import decoded_table
from crossfade.table.documents import block_of, unread_rows
from crossfade.table.part_by_part import part_by_part
from crossfade.table.read import check_same_columns, has_missing_cells
from crossfade.table.scored import TableClassifier
from crossfade.tradeoff.criteria import check_criterion, decisions
from crossfade.tradeoff.density_fit import density_fits
from crossfade.tradeoff.fitting import Fitted
from crossfade.tradeoff.joint import JointDensity, JointRows
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import Parameters
from crossfade.tradeoff.unseen import UnseenRows

#: Columns times classes whose densities are looked at.
_MOST_FITS = 200

#: Posteriors that are held at a time where only decisions are asked for: 16 MB.
_MOST_POSTERIORS = 2_000_000


class FittedViews(StandardErrors, InUse, TableClassifier, BaseEstimator):
    """Predictions, densities, samples and the linear view of a fitted classifier."""

    handle_unknown: Literal["ignore", "error"]
    selection: str | ArrayLike

    classes_: NDArray[Any]
    class_count_: Floats
    density_: Density
    n_features_in_: int
    n_iter_: int
    posterior_scale_: float
    schema_: Schema
    tradeoff_: float
    _fitted: Fitted
    _table_library: Any
    #: Columns behind the table's own, if any.
    _derived: DerivedColumns | None = None
    _joint: JointRows | JointDensity | None = None
    _unseen: UnseenRows | HeldOut | None = None

    @property
    def parameters_(self) -> Parameters:
        """Natural parameters and offsets by class."""
        check_is_fitted(self)
        return self._fitted.whole.parameters

    @property
    def class_prior_(self) -> Floats:
        """Class shares of the fitted model, shape (n_classes,)."""
        check_is_fitted(self)
        return self._fitted.whole.class_prior

    def __getstate__(self) -> Any:
        # A file holds the densities themselves, not what is needed to find them.
        state = super().__getstate__()
        unseen = self._unseen
        if isinstance(unseen, UnseenRows):
            known = unseen.is_known or unseen.is_closed_form or self._fitted.is_quick
            state = state | {"_unseen": unseen.held_out if known else None}
        if "_fitted" in state:
            state = state | {"_fitted": self._fitted.without_search()}
        if isinstance(self._joint, JointRows):
            state = state | {"_joint": self._joint.described}
        return state

    # -- where the model is used -----------------------------------------------------------------

    @property
    def _shares(self) -> tuple[Floats, Floats]:
        counts = self._fitted.class_weights
        return counts / counts.sum(), self._fitted.shares

    def _for_shares(self, shares: Floats) -> Self:
        adapted = copy.copy(self)
        adapted._fitted = self._fitted.for_shares(shares)
        return adapted

    def _left_out(self) -> HeldOut | DataError:
        found = self._fitted.left_out
        if found is None:
            unseen, shift = self._unseen, self._fitted.shift
            found = unseen.held_out if isinstance(unseen, UnseenRows) else unseen
            if found is not None and shift is not None:
                found = replace(found, ratio=np.exp(shift))
        return found or DataError(
            "coverage: expected a model with rows of fit that it can be fitted without, got one "
            "of partial_fit, without two different rows of any class, or from a file that was "
            "written without them; fit it to all rows at once, and keep them in a file by "
            "asking for predict_set before, or by crossfade fit --intervals"
        )

    def _strangeness(self, X: Any, *, p_values: bool, reject: float = 1.0) -> Floats:
        check_is_fitted(self)
        matrix, _ = read_features(self, X, reset=False, handle_unknown=self.handle_unknown)
        joint = self._joint
        if isinstance(joint, JointRows):
            joint = joint.described
        if joint is None:
            self._check_density()
            if self.tradeoff_ != 1.0:
                raise DataError(
                    "outlier_score: expected a model that kept what rows look like, got one of an "
                    "earlier version; fit it again"
                )
            joint = JointDensity(self._fitted, None)
        data, shares = self._shares
        if not p_values:
            values = joint.scores(matrix, shares)
        elif joint.usual is None:
            raise DataError(
                "outlier_p_value: expected rows that were held out, got a model of partial_fit, or "
                "without two different rows of any class; fit it to all rows at once"
            )
        else:
            ratio = np.divide(shares, data, out=np.ones_like(data), where=data > 0.0)
            least = joint.usual.least(ratio)
            if reject < least:
                raise DataError(
                    f"reject: expected at least {least:.2g}, the least p-value that a row can have "
                    f"with {joint.usual.codes.size} rows held out, got {reject:g}; reject more, or "
                    "fit to more rows"
                )
            values = joint.p_values(matrix, shares, ratio)
        wrong = np.isnan(values)
        if wrong.any():
            if not joint.fitted.density.allows_missing and has_missing_cells(matrix):
                raise self._missing_cells(LabelledRows(matrix, np.zeros(0, np.int64), None, 0))
            check_finite(matrix, self.schema_.names)
            values[wrong] = np.inf  # farther than numbers can tell
        return values

    # -- posteriors ------------------------------------------------------------------------------

    def _encoded(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        # Posteriors read every cell once.
        unknown = self.handle_unknown
        matrix, _ = read_features(self, X, reset=False, handle_unknown=unknown, in_place=True)
        return matrix if self._derived is None else self._derived.appended(matrix)

    def _finite(self, values: Floats, matrix: NDArray[Any]) -> Floats:
        """Refuse cells that cannot be used; they show as NaN in what was computed from them."""
        if np.isnan(values.sum()) and np.isnan(values).any():
            if not self.density_.allows_missing and has_missing_cells(matrix):
                raise self._missing_cells(LabelledRows(matrix, np.zeros(0, np.int64), None, 0))
            refuse_cells(values, matrix[:, : self.n_features_in_], self.schema_.names)
        return values

    @part_by_part
    def _probabilities(self, X: Any) -> Floats:
        return self._posterior(self._encoded(X))

    def _posterior(self, matrix: NDArray[Any]) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._fitted.posterior(matrix), matrix)

    @part_by_part
    def _log_probabilities(self, X: Any) -> Floats:
        return self._log_posterior(self._encoded(X))

    def _log_posterior(self, matrix: NDArray[Any]) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._fitted.posterior(matrix, log=True), matrix)

    @part_by_part
    def _decided(self, X: Any, *, reject: float | None = None) -> NDArray[Any]:
        if reject is not None:
            return self._rejecting(X, reject)
        check_is_fitted(self)
        of_largest = check_criterion(self.selection, self.classes_.size)[1] is None
        likeliest = self._decided_unread(X) if of_largest else None
        if likeliest is None:
            matrix = self._encoded(X)
            if of_largest:
                with np.errstate(invalid="ignore", over="ignore"):
                    likeliest = self._fitted.decided(matrix)
        if likeliest is not None:
            return self.classes_[likeliest]
        n, size = matrix.shape[0], max(1, _MOST_POSTERIORS // self.classes_.size)
        codes = [
            decisions(self._posterior(block_of(matrix, slice(first, first + size))), self.selection)
            for first in range(0, max(n, 1), size)
        ]
        return self.classes_[np.concatenate(codes)]

    def _decided_unread(self, X: Any) -> Integers | None:
        """Return decisions of a sparse table of which all is in order, in one read, else None."""
        unread: Any = unread_rows(X, self.n_features_in_) if self.schema_.sparse else None
        if unread is None or self._derived is not None:
            return None
        check_same_columns(self, X)
        with np.errstate(invalid="ignore", over="ignore"):
            return self._fitted.decided(unread, unread=True)

    @part_by_part
    def decision_function(self, X: Any) -> Floats:
        """Return log-odds of the second class (two classes), else log-posteriors per class.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        log_posterior = self.predict_log_proba(X)
        if self.classes_.size == 2:
            return log_posterior[:, 1] - log_posterior[:, 0]
        return log_posterior

    @part_by_part
    def joint_log_likelihood(self, X: Any) -> Floats:
        """Return log p(x, y = k) = log p_k f_k(x), shape (n_samples, n_classes), in nats.

        Of the weighted mean of the pooled parameters where `tradeoff="auto"` pooled several fits;
        :meth:`predict_proba` then follows from it by ``posterior_scale_``.

        Raises
        ------
        NotADensityError
            If the fitted parameters define a posterior but no density.
        """
        matrix = self._encoded(X)
        self._check_density()
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(self._fitted.whole.scorer.all_rows(matrix, joint=True), matrix)

    @part_by_part
    def score_samples(self, X: Any) -> Floats:
        """Return log p(x) = log Σ_k p_k f_k(x), shape (n_samples,), in nats.

        Raises
        ------
        NotADensityError
            If the fitted parameters define a posterior but no density.
        """
        return np.logaddexp.reduce(self.joint_log_likelihood(X), axis=1)

    def _check_density(self) -> None:
        if self._derived is not None:
            raise NotADensityError(
                "interactions, thresholds: with derived columns the model defines a posterior but "
                "no density of the table's columns; fit without them"
            )
        if not self._fitted.has_words_density:
            raise NotADensityError(
                f"tradeoff: the fit at tradeoff={self.tradeoff_:g} defines a posterior but no "
                "density of documents (a pool, tradeoff 0 and complement=True leave probabilities "
                "of words open); give a tradeoff above 0, without complement"
            )
        if not self._fitted.whole.scorer.is_density:
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
        check_number("n_samples", n_samples, 1, "give 1 or more", whole=True)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        rng = np.random.default_rng(seed)
        codes = rng.choice(self.classes_.size, size=int(n_samples), p=self.class_prior_)
        matrix = np.empty((int(n_samples), self.n_features_in_))
        for code, density in enumerate(self.class_densities_.values()):
            own = np.flatnonzero(codes == code)
            if own.size:
                matrix[own] = density.sample(own.size, rng)
        return decoded_table(self.schema_, matrix, self._table_library), self.classes_[codes]

    def density_fits(self) -> list[ColumnFit]:
        """Return how each column of numbers lies in its density, class by class.

        The densities are those of the generative end (tradeoff 1). Rows of fit, 1,000 at most, get
        their probability integral transforms from fits of five folds without them. The test draws
        59 tables from the densities and treats them alike, so that its level holds however the
        densities were estimated; numbers that were rounded are spread over their steps.

        Returns
        -------
        list of ColumnFit
            For columns with 20 cells or more in a class; of more than 200 columns and classes the
            first. Empty for mixtures and where there is text.

        Raises
        ------
        DataError
            If the model no longer has rows: it came from a file, or was fitted by `partial_fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from crossfade import NaiveBayes
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
        >>> X[y == "b", 1] = np.exp(2 * X[y == "b", 1])
        >>> for one in NaiveBayes(tradeoff=1).fit(X, y).density_fits():
        ...     print(one.column, one.code, one.p_value < 0.05 and one.complaint)
        0 0 False
        0 1 False
        1 0 False
        1 1 heavy right tail
        """
        check_is_fitted(self)
        joint = self._joint
        if not isinstance(joint, JointRows):
            raise DataError(
                "density_fits: expected a model that was fitted to a table by this process, got "
                "one from a file or fitted in parts; fit it again"
            )
        kinds = self.schema_.kinds
        columns = [j for j, kind in enumerate(kinds) if kind in ("continuous", "count")]
        columns = columns[: max(1, _MOST_FITS // self.classes_.size)]
        if joint.density.reads_words or joint.options.n_components > 1:
            return []
        return density_fits(joint.rows, joint.density, joint.options, columns)

    @property
    def class_densities_(self) -> dict[Any, ClassDensity]:
        """The fitted density of each class, by label."""
        check_is_fitted(self)
        self._check_density()
        c = self._fitted.n_components
        log_prior = self._fitted.whole.scorer.log_prior.reshape(-1, c)
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
        statistics = self.density_.column_units_statistics(block_of(matrix, slice(None)))
        self._finite(statistics, matrix)
        # T(x) may be x itself, which is the user's.
        return (
            statistics.copy() if np.may_share_memory(statistics, np.asarray(matrix)) else statistics
        )

    @property
    def coef_(self) -> Floats:
        """Coefficients of :meth:`sufficient_statistics`, (1, p) for two classes, else (K, p).

        For two classes the log-odds of the second are ``T(x) @ coef_[0] + intercept_[0]``, up to
        missing cells; else one row per class, centred over classes as scikit-learn's are.
        """
        return self._linear()[0]

    @property
    def intercept_(self) -> Floats:
        """Intercepts that belong to :attr:`coef_`, shape (1,) or (n_classes,)."""
        return self._linear()[1]

    def _linear(self) -> tuple[Floats, Floats]:
        check_is_fitted(self)
        components = self._fitted.n_components
        if components > 1:
            raise AttributeError(
                f"coef_: expected components=1, got {components}; the log-odds of mixtures are "
                "not linear in any statistics; summary() shows those of the components"
            )
        if self.classes_.size == 2:
            return self._log_odds_linear(0)
        return self._log_odds_linear(None)

    def _log_odds_linear(self, reference: int | None) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts of the other classes, or of all, centred.

        Of mixtures those of components.
        """
        free = ~self.density_.tied
        scorer = self._fitted.scorer
        eta = scorer.scale * scorer.parameters.natural[:, free]
        base = scorer.base.repeat(scorer.n_components)
        offset = scorer.scale * scorer.parameters.offset + base
        if reference is None:
            eta, offset = eta - eta.mean(axis=0), offset - offset.mean()
        else:
            eta = np.delete(eta - eta[reference], reference, axis=0)
            offset = np.delete(offset - offset[reference], reference)
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

    def _missing_cells(self, rows: LabelledRows) -> DataError:
        columns = np.flatnonzero(np.isnan(rows.X).any(axis=0))
        names = ", ".join(repr(self.schema_.names[j]) for j in columns[:10])
        return DataError(
            f"X: expected no missing cells (Input X contains NaN), got some in column"
            f"{'s' if columns.size > 1 else ''} {names}; {type(self).__name__} cannot leave a "
            "column out of such a density: use GaussianDiscriminant, or NaiveBayes with densities "
            "of single columns, or impute the cells"
        )
