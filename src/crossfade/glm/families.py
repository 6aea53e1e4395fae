"""Families: what the response is, given its mean.

A family is a small stateless class. It states its domain (which responses, which links), and
gives, row by row, the negative log-likelihood as a function of the linear predictor with its two
derivatives, the expected information, the mean, the variance and the deviance. `size` is the
number of trials (binomial) or the exposure (Poisson) of each row.

The lecture's equations: ℓ = Σ (y η - m log(1 + e^η)) with W = m π(1-π) for counts out of m, and
ℓ = Σ (y η - e^η) with W = λ for counts (Sarkar, Lecture 14, section 14.3; McCullagh & Nelder 1989).
For the other links W is the expected information, m π'²/(π(1-π)) and λ'²/λ (Fisher scoring). Where
counts are far from a rate's model, the loss's own curvature can be many times W: with the links
that have no rates below some predictor, steps are Newton's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import scipy.special

from crossfade._typing import Floats
from crossfade.glm.links import Link, Log, Logit, ProbabilityLink, RateLink, times
from crossfade.rowwise import Pass, logistic_pass, poisson_pass


class Family(ABC):
    """A one-parameter response distribution, seen through a link.

    `links`: Names of the links it has; the first is the canonical one.
    `size_is_trials`: Whether a row is as many observations as its size.
    `whole_numbers`: Whether all responses are.
    """

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]]
    size_is_trials: ClassVar[bool] = False
    whole_numbers: ClassVar[bool] = False

    def __init__(self, link: Link) -> None:
        self.link = link

    # Everything below takes and returns arrays of shape (n_rows,).

    @abstractmethod
    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        """Return the negative log-likelihood without :meth:`constant`, and its slope in η."""

    @abstractmethod
    def information(self, eta: Floats, size: Floats) -> Floats:
        """Return the expected second derivative of the loss in η: the weights W of IRLS."""

    def curvature(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        """Return the loss's own second derivative in η: W, if the link is canonical."""
        return self.information(eta, size)

    @abstractmethod
    def information_slope(self, eta: Floats) -> Floats:
        """Return d/dη log W: what Firth's penalty needs (1 - 2π for the logit)."""

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
        """Return where the loss falls without end: +1 for η → ∞, -1 for η → -∞, 0 for neither.

        A row with sign 0 has a finite best η, so that a direction along which no finite estimate
        exists must leave its η unchanged.
        """

    @abstractmethod
    def excess_variance(
        self, y: Floats, mean: Floats, size: Floats, weights: Floats
    ) -> tuple[float, str]:
        """Return a statistic, N(0, 1) if the variance is the family's, and what to do if not."""

    @property
    def canonical(self) -> bool:
        """Return whether the information is the loss's own second derivative."""
        return self.link.name == self.links[0]

    @property
    def newton(self) -> bool:
        """Return whether steps are Newton's, from the loss's own curvature: W would lead astray."""
        return False

    @property
    def whole_pass(self) -> Pass | None:
        """Return a solver's pass over a block of rows in one compiled loop, if there is one."""
        return None

    def deviance(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        """Return twice the loss beyond the saturated one, never below zero."""
        loss, _ = self.loss(eta, y, size)
        return np.maximum(2.0 * (loss - self.saturated(y, size)), 0.0)


class BinomialFamily(Family):
    """Successes out of `size` trials, each with probability π(η)."""

    name: ClassVar[str] = "binomial"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog")
    size_is_trials: ClassVar[bool] = True
    whole_numbers: ClassVar[bool] = True

    link: ProbabilityLink

    @property
    def whole_pass(self) -> Pass | None:
        return logistic_pass if isinstance(self.link, Logit) else None

    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        return self.link.loss(eta, y, size)

    def information(self, eta: Floats, size: Floats) -> Floats:
        return self.link.information(eta, size)

    def curvature(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        odds = self.link.odds(eta)
        success, failure = self.link.hazard_slopes(eta, odds)
        with np.errstate(invalid="ignore", over="ignore"):
            bends = odds.failure_hazard * failure, -odds.success_hazard * success
        # As in ProbabilityLink.information: what vanishes outweighs what overflows.
        of_failure, of_success = (np.where(np.isnan(bend), 0.0, bend) for bend in bends)
        return times(size - y, of_failure) + times(y, of_success)

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

    def excess_variance(
        self, y: Floats, mean: Floats, size: Floats, weights: Floats
    ) -> tuple[float, str]:
        share = mean / size
        variance = share * (1.0 - share)
        excess = np.square(y - mean) / variance - size
        excess = excess + (y - mean) * (2.0 * share - 1.0) / variance
        pairs = size * (size - 1.0)
        statistic = float(weights @ excess) / np.sqrt(2.0 * float(weights @ pairs))
        return statistic, "use summary(dispersion='pearson') (quasi-binomial errors)"


class PoissonFamily(Family):
    """Counts with mean `size` times the rate λ(η).

    `least`: What lower counts are taken for: above 0, every optimum is inside the link's domain.
    """

    name: ClassVar[str] = "poisson"
    links: ClassVar[tuple[str, ...]] = ("log", "identity", "sqrt")
    whole_numbers: ClassVar[bool] = True

    link: RateLink

    def __init__(self, link: Link, least: float = 0.0) -> None:
        super().__init__(link)
        self.least = least

    @property
    def whole_pass(self) -> Pass | None:
        return poisson_pass if isinstance(self.link, Log) else None

    def loss(self, eta: Floats, y: Floats, size: Floats) -> tuple[Floats, Floats]:
        link = self.link
        if link.lowest_eta > -np.inf:
            y = np.maximum(y, self.least)
            if np.where(y > 0.0, eta <= link.lowest_eta, eta < link.zeros_from).any():
                # Outside the domain; NaN slopes stop a line search from going there.
                return np.full_like(eta, np.inf), np.full_like(eta, np.nan)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            value = size * link.inverse(eta) - times(y, link.log_inverse(eta))
            slope = size * link.derivative(eta) - times(y, link.log_derivative(eta))
        return value, slope

    def information(self, eta: Floats, size: Floats) -> Floats:
        with np.errstate(over="ignore", divide="ignore"):
            return size * self.link.information(eta)

    @property
    def newton(self) -> bool:
        return self.link.lowest_eta > -np.inf

    def curvature(self, eta: Floats, y: Floats, size: Floats) -> Floats:
        link = self.link
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            # -(log λ)'' = (λ'/λ)² - λ''/λ.
            bend = link.second_derivative(eta)
            own = np.square(link.log_derivative(eta)) - bend / link.inverse(eta)
            return size * bend + times(np.maximum(y, self.least), own)

    def information_slope(self, eta: Floats) -> Floats:
        return self.link.information_slope(eta)

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

    def excess_variance(
        self, y: Floats, mean: Floats, size: Floats, weights: Floats
    ) -> tuple[float, str]:
        excess = np.square(y - mean) - y
        statistic = float(weights @ excess) / np.sqrt(2.0 * float(weights @ np.square(mean)))
        return statistic, _count_remedy(excess, mean, weights)


def _count_remedy(excess: Floats, mean: Floats, weights: Floats) -> str:
    """Return whether the variance grows like φμ (quasi-Poisson) or μ + αμ² (negative binomial).

    Cameron & Trivedi's regressions of the excess variance, each judged by how much of it explains.
    """
    scaled = np.divide(excess, mean, out=np.zeros_like(mean), where=excess != 0.0)

    def left_over(shape: Floats) -> float:
        slope = float(weights @ (scaled * shape)) / float(weights @ np.square(shape))
        return float(weights @ np.square(scaled - slope * shape))

    if left_over(mean) < left_over(np.ones_like(mean)):
        return (
            "the variance grows faster than the mean: a negative binomial model describes it; "
            "summary(dispersion='pearson') at least widens the errors (quasi-Poisson)"
        )
    return "use summary(dispersion='pearson') (quasi-Poisson errors)"
