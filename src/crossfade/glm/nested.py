"""Comparing two fits of the same rows, one a special case of the other."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.glm import inference
from crossfade.glm.base import Regression
from crossfade.glm.inference import TestResult


def compare_nested(small: Regression, large: Regression) -> TestResult:
    """Compare two nested fits of the same rows by their likelihoods.

    Parameters
    ----------
    small, large : fitted regressions
        Of the same kind and link, without penalty; the columns of `small` must lie in the span
        of those of `large`.

    Returns
    -------
    TestResult
        χ² on the difference of the numbers of coefficients.

    Raises
    ------
    DataError
        If the two are not comparable.

    Examples
    --------
    >>> from crossfade.glm import PoissonRegression, compare_nested
    >>> y = [2, 4, 7, 8, 9, 20]
    >>> one = PoissonRegression().fit([[1], [2], [3], [4], [5], [6]], y)
    >>> two = PoissonRegression().fit([[1, 1], [2, 4], [3, 9], [4, 16], [5, 25], [6, 36]], y)
    >>> round(compare_nested(one, two).p_value, 3)
    0.842
    """
    for model in (small, large):
        check_is_fitted(model)
        model._refuse_penalty("compare_nested")
    if type(small) is not type(large) or getattr(small, "link_", None) != getattr(
        large, "link_", None
    ):
        raise DataError(
            f"large: expected a model like {small!r}, got {large!r}; compare fits of one family "
            "and link"
        )
    first, second = small._trained().data, large._trained().data
    same = first.n_rows == second.n_rows and all(
        np.array_equal(_filled(a), _filled(b))
        for a, b in (
            (first.y, second.y),
            (first.size, second.size),
            (first.weights, second.weights),
            (first.offset, second.offset),
        )
    )
    if not same:
        raise DataError(
            "large: expected the same responses, trials or exposure, offset and weights in both "
            f"fits, got others ({first.n_rows} and {second.n_rows} rows); fit both to the same rows"
        )
    df = large.rank_ - small.rank_
    if df < 1 or not inference.spans(second.X, first.X, large.fit_intercept, small.fit_intercept):
        raise DataError(
            f"large: expected a model that contains the other, got {large.rank_} coefficients "
            f"beside {small.rank_} of another span; give the larger model second"
        )
    statistic = 2.0 * (large.log_likelihood_ - small.log_likelihood_)
    hypothesis = f"{large.rank_} against {small.rank_} coefficients"
    return inference.chi_squared("Likelihood-ratio", hypothesis, statistic, df)


def _filled(values: Floats | None) -> Floats:
    return np.zeros(0) if values is None else values
