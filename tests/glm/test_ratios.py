"""Odds ratios and ratios of means in summaries, with the errors that textbooks give them."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade.errors import DataError, SeparationWarning
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression

#: A table of two by two: x = 0 with 30 no and 10 yes, x = 1 with 15 no and 25 yes.
TABLE = {(0, "no"): 30, (0, "yes"): 10, (1, "no"): 15, (1, "yes"): 25}
X = np.repeat([[x] for x, _ in TABLE], list(TABLE.values()), axis=0)
Y = np.repeat([y for _, y in TABLE], list(TABLE.values()))
#: ad/bc with Woolf's (1955) error of its logarithm.
RATIO, LOG_ERROR = 30 * 25 / (10 * 15), np.sqrt(1 / 30 + 1 / 10 + 1 / 15 + 1 / 25)


@pytest.mark.parametrize("model", [BinomialRegression(), MultinomialRegression()])
def test_the_odds_ratio_of_two_by_two_is_ad_over_bc(model):
    fit = model.fit(X, Y)
    plain, summary = fit.summary(0.9), fit.summary(0.9, ratios=True)
    np.testing.assert_allclose(summary.estimates[1], RATIO, rtol=1e-9)
    np.testing.assert_allclose(summary.standard_errors[1], RATIO * LOG_ERROR, rtol=1e-8)
    width = 1.6448536269514722 * LOG_ERROR
    np.testing.assert_allclose(summary.lower[1], RATIO * np.exp(-width), rtol=1e-8)
    np.testing.assert_allclose(summary.upper[1], RATIO * np.exp(width), rtol=1e-8)
    np.testing.assert_array_equal(summary.p_values, plain.p_values)
    assert summary.title.endswith("against no, odds ratios")
    assert plain.title.endswith("against no")


def test_counts_have_the_ratio_of_their_means():
    summary = PoissonRegression().fit(X, np.where(X[:, 0] == 1, 6, 4)).summary(ratios=True)
    np.testing.assert_allclose(summary.estimates, [4.0, 1.5], rtol=1e-9)
    # Of the log of a ratio of two Poisson totals: 1 over each total.
    np.testing.assert_allclose(
        summary.standard_errors[1], 1.5 * np.sqrt(1 / 160 + 1 / 240), rtol=1e-8
    )
    assert "ratios of means" in str(summary)


@pytest.mark.parametrize("turned", [False, True])
def test_a_separated_column_has_a_ratio_of_infinity_or_zero(turned):
    y = np.array([0, 0, 1, 1]) if not turned else np.array([1, 1, 0, 0])
    with pytest.warns(SeparationWarning):
        fit = BinomialRegression().fit([[0], [0], [1], [1]], y)
    summary = fit.summary(ratios=True)
    assert summary.estimates[1] == (0.0 if turned else np.inf)
    assert (summary.lower[1], summary.upper[1]) == (0.0, np.inf)
    assert summary.standard_errors[1] == np.inf


def test_other_links_have_no_ratio():
    fit = BinomialRegression("probit").fit(X, Y)
    with pytest.raises(DataError, match=r"^ratios: expected the link logit or log, got probit, of"):
        fit.summary(ratios=True)


def test_trials_in_groups_have_no_labels_to_name():
    fit = BinomialRegression().fit([[0], [1]], [10, 25], trials=[40, 40])
    assert fit.summary().title == "Binomial regression, logit link"
    np.testing.assert_allclose(fit.summary(ratios=True).estimates[1], RATIO, rtol=1e-9)
