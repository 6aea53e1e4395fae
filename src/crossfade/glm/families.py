"""Families: what the response is, given its mean.

A family is a small stateless class. It states its domain (which responses, which links), and
gives, row by row, the negative log-likelihood as a function of the linear predictor with its two
derivatives, the expected information, the mean, the variance and the deviance. `size` is the
number of trials (binomial) or the exposure (Poisson) of each row.

The lecture's equations: ℓ = Σ (y η - m log(1 + e^η)) with W = m π(1-π) for counts out of m, and
ℓ = Σ (y η - e^η) with W = λ for counts (Sarkar, Lecture 14, section 14.3; McCullagh & Nelder 1989).
For the other links W is the expected information, m π'²/(π(1-π)) and λ'²/λ (Fisher scoring).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import scipy.special

from crossfade._typing import Floats
from crossfade.glm.links import Link, ProbabilityLink, RateLink, times

__all__ = ["Binomial", "Family", "Poisson"]


class Family(ABC):
    """A one-parameter response distribution, seen through a link.

    Attributes
    ----------
    name : str
    links : tuple of str
        Names of the links it has; the first is the canonical one.
    size_name : str
        What `size` is called.
    """

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]]
    size_name: ClassVar[str]

    def __init__(self, link: Link) -> None:
        self.link = link

    # Everything below takes and returns arrays of shape (n_rows,).

    @abstractmethod
    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        """Return the negative log-likelihood without :meth:`constant`, and its slope in η."""

    @abstractmethod
    def information(self, eta: Floats, size: Floats) -> Floats:
        """Return the expected second derivative of the loss in η: the weights W of IRLS."""

    @abstractmethod
    def information_slope(self, eta: Floats) -> Floats:
        """Return d/dη log W: what Firth's penalty needs (1 - 2π for the logit)."""

    @abstractmethod
    def observed_information(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        """Return the second derivative of the loss in η."""

    @abstractmethod
    def constant(self, y: Floats, size: Floats) -> Floats:
        """Return what the log-likelihood has beyond the loss, free of η."""

    @abstractmethod
    def saturated(self, y: Floats, size: Floats) -> Floats:
        """Return the loss of a model that fits every row exactly."""

    @abstractmethod
    def mean(self, eta: Floats, size: Floats) -> Floats:
        """Return the expected response."""

    @abstractmethod
    def variance(self, mean: Floats, size: Floats) -> Floats:
        """Return the variance of a response with this mean."""

    @abstractmethod
    def recession_signs(self, y: Floats, size: Floats) -> Floats:
        """Return where the loss falls for ever: +1 for η → ∞, -1 for η → -∞, 0 for neither.

        A row with sign 0 has a finite best η, so that a direction along which no finite estimate
        exists must leave its η unchanged.
        """

    def deviance(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        """Return twice the loss beyond the saturated one, never below zero."""
        loss, _ = self.loss(eta, y, size)
        return np.maximum(2.0 * (loss - self.saturated(y, size)), 0.0)


class Binomial(Family):
    """Successes out of `size` trials, each with probability π(η)."""

    name: ClassVar[str] = "binomial"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    size_name: ClassVar[str] = "trials"

    link: ProbabilityLink

    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        return self.link.loss(eta, y, size)

    def information(self, eta: Floats, size: Floats) -> Floats:
        return self.link.information(eta, size)

    def observed_information(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        odds = self.link.odds(eta)
        success, failure = self.link.hazard_slopes(eta, odds)
        return (size - y) * odds.failure_hazard * failure - y * odds.success_hazard * success

    def information_slope(self, eta: Floats) -> Floats:
        success, failure = self.link.hazard_slopes(eta, self.link.odds(eta))
        return success + failure

    def constant(self, y: Floats, size: Floats) -> Floats:
        gammaln = scipy.special.gammaln
        return gammaln(size + 1.0) - gammaln(y + 1.0) - gammaln(size - y + 1.0)

    def saturated(self, y: Floats, size: Floats) -> Floats:
        xlogy, failures = scipy.special.xlogy, size - y
        total = xlogy(size, size) - xlogy(y, y) - xlogy(failures, failures)
        return np.asarray(total, dtype=np.float64)

    def mean(self, eta: Floats, size: Floats) -> Floats:
        return size * self.link.inverse(eta)

    def variance(self, mean: Floats, size: Floats) -> Floats:
        return mean * (1.0 - mean / size)

    def recession_signs(self, y: Floats, size: Floats) -> Floats:
        return (y == size).astype(np.float64) - (y == 0.0)


class Poisson(Family):
    """Counts with mean `size` times the rate λ(η)."""

    name: ClassVar[str] = "poisson"
    links: ClassVar[tuple[str, ...]] = ("log", "identity", "sqrt")
    size_name: ClassVar[str] = "exposure"

    link: RateLink

    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        link = self.link
        if link.lowest_eta > -np.inf and (eta <= link.lowest_eta).any():
            # Outside the domain; NaN slopes stop a line search from going there.
            return np.full_like(eta, np.inf), np.full_like(eta, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            value = size * link.inverse(eta) - times(y, link.log_inverse(eta))
            slope = size * link.derivative(eta) - y * link.log_derivative(eta)
        return value, slope

    def information(self, eta: Floats, size: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return size * self.link.derivative(eta) * self.link.log_derivative(eta)

    def information_slope(self, eta: Floats) -> Floats:
        # W ∝ λ'²/λ.
        link = self.link
        return 2.0 * link.second_derivative(eta) / link.derivative(eta) - link.log_derivative(eta)

    def observed_information(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        link = self.link
        second = link.second_derivative(eta)
        return second * (size - y / link.inverse(eta)) + y * link.log_derivative(eta) ** 2

    def constant(self, y: Floats, size: Floats) -> Floats:
        return scipy.special.xlogy(y, size) - scipy.special.gammaln(y + 1.0)

    def saturated(self, y: Floats, size: Floats) -> Floats:
        return y - scipy.special.xlogy(y, y / size)

    def mean(self, eta: Floats, size: Floats) -> Floats:
        return size * self.link.inverse(eta)

    def variance(self, mean: Floats, size: Floats) -> Floats:
        return mean

    def recession_signs(self, y: Floats, size: Floats) -> Floats:
        if self.link.lowest_eta > -np.inf:
            return np.zeros_like(y)
        return -(y == 0.0).astype(np.float64)
