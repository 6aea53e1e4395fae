"""Poisson regression as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm.checks import (
    check_counts,
    check_exposure,
    check_offset,
    numbers,
)
from crossfade.glm.data import Data
from crossfade.glm.families import PoissonFamily
from crossfade.glm.fit import null_value
from crossfade.glm.links import Link, get_link, times
from crossfade.glm.single import SingleResponse, normalisers, subset
from crossfade.glm.source_data import counts_of
from crossfade.table import check_weights
from crossfade.table.cluster import as_source
from crossfade.table.part_by_part import part_by_part


class PoissonRegression(RegressorMixin, SingleResponse):
    """Regression of counts, with log, identity or square-root link.

    Parameters
    ----------
    link : {"log", "identity", "sqrt"} or Link, default="log"
    fit_intercept, l2, method, tol_digits, max_iter
        As in :class:`~crossfade.BinomialRegression`.

    Attributes
    ----------
    coef_, intercept_, names_, standard_errors_, covariance_, log_likelihood_, deviance_, aic_, \
bic_, null_deviance_, pseudo_r2_, df_residual_, separated_, aliased_, converged_, n_iter_, \
history_, link_
        As in :class:`~crossfade.BinomialRegression`.

    Notes
    -----
    The mean is exposure × g⁻¹(xᵀβ + offset). With the log link, exposure is the same as an offset
    of its logarithm; with the others it still multiplies the rate. Source: Sarkar, Lecture 14,
    section 14.3.2.

    With the square-root link rows with counts have predictors above 0; others may have any, and a
    mean of its square. There the optimum is the only one. With predictors of both signs among rows
    with counts (a parabola that touches 0 between them) a likelihood may be higher, and other
    programs may return it; √λ is then no longer the predictor. Steps of the links without rates
    below 0 are Newton's, and errors come from the expected information. Where the best identity-
    link rate of some rows would be below 0, the fit is refused: at the edge of what is possible no
    standard errors follow.

    Examples
    --------
    >>> from crossfade.glm import PoissonRegression
    >>> fit = PoissonRegression().fit([[0], [0], [1], [1]], [2, 4, 7, 8], exposure=[1, 2, 1, 1])
    >>> fit.coef_.round(4), round(fit.intercept_, 4)
    (array([1.3218]), 0.6931)
    """

    _title = "Poisson regression"

    def __init__(
        self,
        link: str | Link = "log",
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

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
            Numbers, none missing. Not changed. Rows in parts as for
            :class:`~crossfade.BinomialRegression`.
        y : array-like of shape (n_rows,)
            Counts: whole numbers of at least 0.
        sample_weight : array-like of shape (n_rows,), optional
            How often each row counts: 2 is the same as giving the row twice, 0 as leaving it out.
        exposure : array-like of shape (n_rows,), optional
            Above 0: hours, holders, area. Multiplies the rate.
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
            If no finite estimate exists along some columns (a group without any count).
        AliasedColumnsWarning
            If columns are determined by those before them.
        """
        family = PoissonFamily(get_link(self.link, PoissonFamily.links))
        source = as_source(X, y, sample_weight=sample_weight, size=exposure, offset=offset)
        if source is not None:
            self._sized = {"exposure": exposure is not None, "offset": offset is not None}
            return self._fit_source(source, family, counts_of)
        matrix, weights, shift = self._rows(X, sample_weight, offset)
        n_given = len(matrix)
        if y is None:
            raise DataError(
                "y: this estimator requires y to be passed, but the target y is None; give one "
                "count per row"
            )
        used = self._kept_rows(weights)
        counts = check_counts(y, n_given)
        if exposure is None:
            size = np.broadcast_to(np.float64(1.0), n_given)
        else:
            size = check_exposure(exposure, n_given)
        matrix, counts, size, weights, shift = subset(used, matrix, counts, size, weights, shift)
        if not counts.any() and family.link.lowest_eta > -np.inf:
            raise DataError(
                f"y: expected some count above 0, got {len(counts)} zeros; with link="
                f"{family.link.name!r} no rate fits them"
            )
        self._sized = {"exposure": exposure is not None, "offset": offset is not None}
        return self._fit_data(Data(matrix, counts, size, weights, shift), family, used, n_given)

    @part_by_part
    def predict(
        self, X: Any, *, exposure: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> Floats:
        """Return the expected count of each row.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        exposure : array-like of shape (n_rows,), optional
            1 by default: then these are rates.
        offset : array-like of shape (n_rows,), optional

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        _, eta = self._predictor(X, offset)
        rate = self.link_.inverse(eta)
        return rate if exposure is None else rate * check_exposure(exposure, len(rate))

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> float:
        """Return D², the share of the deviance of the constant that the model explains.

        Parameters
        ----------
        X : data frame or array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Counts.
        sample_weight : array-like of shape (n_rows,), optional
        exposure, offset : array-like of shape (n_rows,)
            Needed where the model was fitted with them.

        Returns
        -------
        float
            1 for a perfect model, 0 for one no better than a constant rate of these rows. Where a
            constant rate is perfect, 1 if the model is so too, else 0.

        Raises
        ------
        DataError
            If the model was fitted with exposure or offset, and none is given.
        """
        _, eta = self._predictor(X, offset)
        for name, given in (("exposure", exposure), ("offset", offset)):
            if given is None and self._sized[name]:
                raise DataError(
                    f"{name}: expected one for each row, as in fit, got none; give {name}="
                )
        counts, weights = numbers("y", y, len(eta)), check_weights(sample_weight, len(eta))
        size = np.ones(len(eta)) if exposure is None else check_exposure(exposure, len(eta))
        data = Data(np.empty((len(eta), 0)), counts, size, weights, check_offset(offset, len(eta)))
        often = np.ones(len(eta)) if weights is None else weights
        loss, _ = self._family.loss(eta, counts, size)
        _, saturated = normalisers(data, self._family)
        missed = float(times(often, loss).sum()) - saturated
        null = null_value(data, self._family, True) - saturated
        if null <= 1e-12 * float(often @ (counts + 1.0)):
            return float(missed <= 1e-12 * float(often @ (counts + 1.0)))
        return 1.0 - missed / null

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
