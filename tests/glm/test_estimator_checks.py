"""scikit-learn's own checks of the three estimators, with a reason for each expected failure."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression


class RoundedPoisson(PoissonRegression):
    """Poisson regression of rounded responses: the checks' targets are not whole."""

    def fit(self, X, y, sample_weight=None, *, exposure=None, offset=None):
        if y is not None and np.asarray(y).dtype.kind == "f":
            y = np.round(np.asarray(y))
        return super().fit(X, y, sample_weight, exposure=exposure, offset=offset)


def reasons(estimator):
    return {}


@pytest.mark.filterwarnings("ignore::crossfade.errors.SeparationWarning")
@pytest.mark.filterwarnings("ignore::crossfade.errors.AliasedColumnsWarning")
@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@parametrize_with_checks(
    [
        BinomialRegression(),
        MultinomialRegression(),
        RoundedPoisson(),
    ],
    expected_failed_checks=reasons,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crossfade.errors.SeparationWarning")
@pytest.mark.filterwarnings("ignore::crossfade.errors.AliasedColumnsWarning")
@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@parametrize_with_checks(
    [
        BinomialRegression(method="firth"),
    ],
    expected_failed_checks=reasons,
)
def test_scikit_learn_of_more_settings(estimator, check):
    check(estimator)
