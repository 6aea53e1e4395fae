"""A new family is one class: no part of the fit takes it for one of those that are there."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from crossfade.glm.data import Data
from crossfade.glm.families import Family
from crossfade.glm.links import get_link
from crossfade.glm.single import SingleResponse
from crossfade.rowwise.posteriors import FEW_ROWS


class Exponential(Family):
    """Waiting times with mean e^η: no whole numbers, but with a link that Poisson has, too."""

    name, links = "exponential", ("log",)

    def loss(self, eta, y, size):
        return eta + y * np.exp(-eta), 1.0 - y * np.exp(-eta)

    def information(self, eta, size):
        return np.ones_like(eta)

    def information_slope(self, eta):
        return np.zeros_like(eta)

    def constant(self, y, size):
        return np.zeros_like(y)

    def saturated(self, y, size):
        return np.log(y) + 1.0

    def mean(self, eta, size):
        return np.exp(eta)

    def variance(self, mean, size):
        return mean**2

    def recession_signs(self, y, size):
        return np.zeros_like(y)

    def excess_variance(self, y, mean, size, weights):
        excess = (y / mean - 1.0) ** 2 - 1.0
        return float(weights @ excess) / np.sqrt(8.0 * weights.sum()), "nothing"


class ExponentialRegression(SingleResponse):
    _title = "Exponential regression"

    def __init__(self):
        self.link, self.fit_intercept, self.l2, self.method = "log", True, 0.0, "irls"
        self.tol_digits, self.max_iter = 10, 100

    def fit(self, X, y):
        matrix, weights, shift = self._rows(X, None, None)
        data = Data(matrix, y, np.broadcast_to(1.0, len(y)), weights, shift)
        return self._fit_data(data, Exponential(get_link("log", ("log",))), None, len(y))


@pytest.mark.parametrize("n", [40, 2 * FEW_ROWS])
def test_a_family_of_ones_own_is_fitted_as_it_says(n):
    rng = np.random.default_rng(4)
    group = np.arange(n) % 2
    y = rng.exponential(np.where(group, 3.0, 0.4))
    means = np.array([y[group == k].mean() for k in (0, 1)])
    model = ExponentialRegression().fit(group[:, None], y)
    np.testing.assert_allclose(
        [model.intercept_, model.coef_[0]], [np.log(means[0]), np.log(means[1] / means[0])]
    )
    logpdf = scipy.stats.expon.logpdf(y, scale=means[group])
    assert model.log_likelihood_ == pytest.approx(logpdf.sum(), rel=1e-10)
    saturated = scipy.stats.expon.logpdf(y, scale=y).sum()
    assert model.deviance_ == pytest.approx(2.0 * (saturated - logpdf.sum()), rel=1e-8)
    squares = (y / means[group] - 1.0) ** 2
    assert model.pearson_dispersion_ == pytest.approx(squares.sum() / (n - 2), rel=1e-8)
    statistic = (squares - 1.0).sum() / np.sqrt(8.0 * n)
    assert model.dispersion_test().statistic == pytest.approx(statistic, rel=1e-6)
