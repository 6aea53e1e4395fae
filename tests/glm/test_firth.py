"""Firth's fit against logistf's published output and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from crossfade.glm import BinomialRegression, PoissonRegression

#: Heinze & Schemper (2002): case-control study of urinary tract infection and contraceptive use
#: (R package logistf, data sex2; Cytel). Rows: case, age, oc, vic, vicl, vis, dia, number of women.
SEX2 = np.array(
    [
        [0, 0, 0, 0, 0, 1, 0, 1],
        [0, 0, 0, 1, 0, 0, 0, 2],
        [0, 0, 0, 1, 0, 1, 0, 1],
        [0, 0, 0, 1, 1, 0, 0, 8],
        [0, 0, 0, 1, 1, 1, 0, 18],
        [0, 0, 1, 0, 0, 0, 0, 42],
        [0, 0, 1, 0, 0, 1, 0, 1],
        [0, 0, 1, 1, 0, 0, 0, 1],
        [0, 0, 1, 1, 1, 0, 0, 5],
        [0, 0, 1, 1, 1, 1, 0, 6],
        [0, 1, 0, 1, 1, 0, 0, 2],
        [0, 1, 0, 1, 1, 1, 0, 4],
        [0, 1, 1, 0, 0, 0, 0, 14],
        [0, 1, 1, 0, 0, 1, 0, 1],
        [0, 1, 1, 1, 0, 0, 0, 1],
        [0, 1, 1, 1, 1, 1, 0, 2],
        [1, 0, 0, 0, 0, 1, 0, 1],
        [1, 0, 0, 1, 0, 0, 0, 14],
        [1, 0, 0, 1, 0, 1, 0, 3],
        [1, 0, 0, 1, 1, 0, 0, 10],
        [1, 0, 0, 1, 1, 1, 0, 12],
        [1, 0, 0, 1, 1, 1, 1, 1],
        [1, 0, 1, 0, 0, 0, 0, 44],
        [1, 0, 1, 0, 0, 0, 1, 3],
        [1, 0, 1, 1, 0, 0, 0, 15],
        [1, 0, 1, 1, 0, 0, 1, 1],
        [1, 0, 1, 1, 0, 1, 0, 2],
        [1, 0, 1, 1, 1, 0, 0, 7],
        [1, 0, 1, 1, 1, 1, 0, 3],
        [1, 1, 0, 1, 0, 0, 0, 2],
        [1, 1, 0, 1, 0, 1, 0, 1],
        [1, 1, 0, 1, 0, 1, 1, 1],
        [1, 1, 0, 1, 1, 0, 0, 1],
        [1, 1, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0, 5],
        [1, 1, 1, 1, 0, 0, 0, 3],
    ]
)

#: logistf(case ~ age + oc + vic + vicl + vis + dia): coefficients, profile limits, standard errors
#: and penalised likelihood-ratio tests.
COEFFICIENTS = [
    0.12025405,
    -1.10598131,
    -0.06881673,
    2.26887464,
    -2.11140817,
    -0.78831694,
    3.09601166,
]
LOWER = [-0.8185591, -1.9737884, -0.9414363, 1.2730216, -3.2608611, -1.6080879, 0.7745682]
UPPER = [1.07315122, -0.30742514, 0.78920202, 3.43543273, -1.11773495, 0.01518468, 8.03029352]
ERRORS = [0.485542, 0.42366, 0.443793, 0.548416, 0.543082, 0.417368, 1.67501]
CHI_SQUARED = [7.50773092, 0.02467044, 22.93139022, 19.10407252, 3.69740975, 7.89693139]
P_VALUES = [6.143472e-03, 8.751911e-01, 1.678877e-06, 1.237805e-05, 5.449701e-02, 4.951873e-03]
NAMES = ("Intercept", "age", "oc", "vic", "vicl", "vis", "dia")


@pytest.fixture(scope="module")
def sex2():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(SEX2[:, 1:7], columns=list(NAMES[1:]))
    return BinomialRegression(method="firth", tol_digits=10).fit(
        frame, SEX2[:, 0], sample_weight=SEX2[:, 7]
    )


def test_published_coefficients(sex2):
    beta = np.concatenate([[sex2.intercept_], sex2.coef_])
    np.testing.assert_allclose(beta, COEFFICIENTS, rtol=2e-6)
    np.testing.assert_allclose(sex2.standard_errors_, ERRORS, rtol=3e-5)
    assert sex2.names_ == NAMES
    np.testing.assert_allclose(sex2.penalised_log_likelihood_, -132.5394, atol=5e-5)


def test_published_profile_intervals(sex2):
    limits = sex2.confidence_intervals(kind="profile")
    np.testing.assert_allclose(limits[:, 0], LOWER, rtol=1e-5)
    np.testing.assert_allclose(limits[:, 1], UPPER, rtol=1e-5)


@pytest.mark.parametrize("index", range(6))
def test_published_penalised_likelihood_ratio_tests(sex2, index):
    found = sex2.likelihood_ratio_test(NAMES[1 + index])
    np.testing.assert_allclose(found.statistic, CHI_SQUARED[index], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.p_value, P_VALUES[index], rtol=1e-6)


def test_repeated_rows_are_the_weights(sex2):
    rows = np.repeat(SEX2, SEX2[:, 7].astype(int), axis=0)
    again = BinomialRegression(method="firth", tol_digits=10).fit(rows[:, 1:7], rows[:, 0])
    np.testing.assert_allclose(again.coef_, sex2.coef_, rtol=1e-8)
    np.testing.assert_allclose(again.covariance_, sex2.covariance_, rtol=1e-7)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_brute_force(link):
    """The maximum of ℓ + ½ log|XᵀWX| by a general optimiser."""
    x = np.array([-2.0, -1.0, 0.0, 0.5, 1.5, 2.0])
    y, m = np.array([0, 1, 2, 1, 3, 4]), np.array([3, 3, 4, 2, 4, 4])
    X = np.column_stack([np.ones(6), x])
    fit = BinomialRegression(link, method="firth", tol_digits=10).fit(x[:, None], y, trials=m)

    def penalised(beta):
        eta = X @ beta
        p = fit.link_.inverse(eta)
        W = m * fit.link_.derivative(eta) ** 2 / (p * (1 - p))
        value = y @ np.log(p) + (m - y) @ np.log1p(-p)
        return -value - 0.5 * np.linalg.slogdet(X.T @ (X * W[:, None]))[1]

    best = scipy.optimize.minimize(
        penalised, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14}
    )
    np.testing.assert_allclose([fit.intercept_, *fit.coef_], best.x, atol=1e-6)


def test_half_a_success_and_a_failure():
    """With a constant only, Firth's logit adds ½ to successes and failures."""
    fit = BinomialRegression(method="firth", fit_intercept=False, tol_digits=12).fit(
        [[1.0]], [0], trials=[9]
    )
    np.testing.assert_allclose(fit.coef_, [np.log(0.5 / 9.5)], rtol=1e-9)
    counts = PoissonRegression(method="firth", fit_intercept=False, tol_digits=12).fit(
        [[1.0], [1.0]], [0, 0]
    )
    np.testing.assert_allclose(counts.coef_, [np.log(0.5 / 2)], rtol=1e-9)
