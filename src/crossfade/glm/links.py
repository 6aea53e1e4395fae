"""Links: how a linear predictor η = xᵀβ + offset becomes a mean.

A link states its domain as attributes and gives what a likelihood needs in forms that neither
overflow nor cancel: for a probability π(η) the two logarithms log π, log(1-π) and the two hazards
π'/π, π'/(1-π); for a rate λ(η) the rate, its logarithm and derivatives. The functions know nothing
of data, of weights or of solvers, and hold no state, so one link object may serve any number of
fits.

Source: McCullagh & Nelder (1989), Generalized Linear Models, sections 2.2 and 4.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.special

from crossfade._checks import check_choice
from crossfade._typing import Floats
from crossfade.rowwise import logistic_information, logistic_loss

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Odds:
    """A probability π(η) in four forms: log π, log(1-π), and the hazards π'/π and π'/(1-π)."""

    log_success: Floats
    log_failure: Floats
    success_hazard: Floats
    failure_hazard: Floats


class Link(ABC):
    """A smooth increasing function from predictors above `lowest_eta` to means in `mean_range`."""

    name: ClassVar[str]
    lowest_eta: ClassVar[float] = -np.inf
    mean_range: ClassVar[tuple[float, float]]

    @abstractmethod
    def link(self, mean: Floats) -> Floats:
        """Return η of a mean."""

    @abstractmethod
    def inverse(self, eta: Floats) -> Floats:
        """Return the mean of η."""

    @abstractmethod
    def derivative(self, eta: Floats) -> Floats:
        """Return dμ/dη."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ProbabilityLink(Link):
    """A link whose mean is a probability."""

    mean_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @abstractmethod
    def odds(self, eta: Floats) -> Odds:
        """Return the four forms of π(η)."""

    @abstractmethod
    def hazard_slopes(self, eta: Floats, odds: Odds) -> tuple[Floats, Floats]:
        """Return the relative slopes (d/dη log π'/π, d/dη log π'/(1-π)) of the hazards."""

    def loss(self, eta: Floats, successes: Floats, trials: Floats) -> tuple[Floats, Floats]:
        """Return the binomial loss -y log π - (m-y) log(1-π) by row, and its slope in η."""
        odds = self.odds(eta)
        failures = trials - successes
        with np.errstate(invalid="ignore", over="ignore"):
            value = -successes * odds.log_success - failures * odds.log_failure
            slope = failures * odds.failure_hazard - successes * odds.success_hazard
            finite = np.isfinite(value.sum() + slope.sum())
        if not finite:
            value = -times(successes, odds.log_success) - times(failures, odds.log_failure)
            slope = times(failures, odds.failure_hazard) - times(successes, odds.success_hazard)
        return value, slope

    def information(self, eta: Floats, trials: Floats) -> Floats:
        """Return m π'²/(π(1-π)), the expected second derivative of the loss."""
        odds = self.odds(eta)
        with np.errstate(invalid="ignore", over="ignore"):
            product = trials * odds.success_hazard * odds.failure_hazard
        # The product of a vanishing and an overflowing hazard vanishes.
        return np.where(np.isnan(product), 0.0, product)

    def derivative(self, eta: Floats) -> Floats:
        odds = self.odds(np.asarray(eta, dtype=np.float64))
        return odds.success_hazard * np.exp(odds.log_success)


class Logit(ProbabilityLink):
    """log π/(1-π): the canonical link, with coefficients that are log odds ratios."""

    name: ClassVar[str] = "logit"

    def link(self, mean: Floats) -> Floats:
        return scipy.special.logit(mean)

    def inverse(self, eta: Floats) -> Floats:
        return scipy.special.expit(eta)

    def odds(self, eta: Floats) -> Odds:
        small = np.exp(-np.abs(eta))
        tail = np.log1p(small)
        likely = 1.0 / (1.0 + small)
        small *= likely
        positive = eta >= 0.0
        return Odds(
            np.minimum(eta, 0.0) - tail,
            -np.maximum(eta, 0.0) - tail,
            np.where(positive, small, likely),
            np.where(positive, likely, small),
        )

    def loss(self, eta: Floats, successes: Floats, trials: Floats) -> tuple[Floats, Floats]:
        value, slope = np.empty_like(eta), np.empty_like(eta)
        logistic_loss(eta, successes, trials, value, slope)
        return value, slope

    def information(self, eta: Floats, trials: Floats) -> Floats:
        return logistic_information(eta, trials)

    def hazard_slopes(self, eta: Floats, odds: Odds) -> tuple[Floats, Floats]:
        return -odds.failure_hazard, odds.success_hazard


class Probit(ProbabilityLink):
    """Φ⁻¹(π): a normal tolerance distribution."""

    name: ClassVar[str] = "probit"

    def link(self, mean: Floats) -> Floats:
        return scipy.special.ndtri(mean)

    def inverse(self, eta: Floats) -> Floats:
        return scipy.special.ndtr(eta)

    def odds(self, eta: Floats) -> Odds:
        log_success = scipy.special.log_ndtr(eta)
        log_failure = scipy.special.log_ndtr(-eta)
        with np.errstate(over="ignore"):
            log_density = -0.5 * eta * eta - _LOG_SQRT_2PI
        # Where the square overflows both terms are infinite; the hazard's limit is |η| or 0.
        with np.errstate(invalid="ignore"):
            success = np.exp(log_density - log_success)
            failure = np.exp(log_density - log_failure)
        success = np.where(np.isnan(success), np.maximum(-eta, 0.0), success)
        failure = np.where(np.isnan(failure), np.maximum(eta, 0.0), failure)
        return Odds(log_success, log_failure, success, failure)

    def hazard_slopes(self, eta: Floats, odds: Odds) -> tuple[Floats, Floats]:
        return -(eta + odds.success_hazard), odds.failure_hazard - eta


class Cloglog(ProbabilityLink):
    """log(-log(1-π)): an extreme-value tolerance distribution, proportional hazards."""

    name: ClassVar[str] = "cloglog"

    def link(self, mean: Floats) -> Floats:
        return np.log(-np.log1p(-np.asarray(mean, dtype=np.float64)))

    def inverse(self, eta: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return -np.expm1(-np.exp(eta))

    def odds(self, eta: Floats) -> Odds:
        with np.errstate(over="ignore"):
            hazard = np.exp(eta)
            growth = np.expm1(hazard)
        with np.errstate(invalid="ignore", divide="ignore"):
            # log(1-exp(-h)) = log h for small h, where expm1 underflows.
            log_success = np.where(hazard > 1e-300, np.log(-np.expm1(-hazard)), eta)
            success = np.where(hazard > 1e-300, hazard / growth, 1.0)
        success = np.where(np.isnan(success), 0.0, success)
        return Odds(log_success, -hazard, success, hazard)

    def hazard_slopes(self, eta: Floats, odds: Odds) -> tuple[Floats, Floats]:
        return 1.0 - odds.failure_hazard - odds.success_hazard, np.ones_like(eta)


class RateLink(Link):
    """A link whose mean is a rate; rows without counts may have predictors from `zeros_from` on."""

    mean_range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    zeros_from: ClassVar[float] = -np.inf

    @abstractmethod
    def log_inverse(self, eta: Floats) -> Floats:
        """Return log of the rate."""

    @abstractmethod
    def log_derivative(self, eta: Floats) -> Floats:
        """Return d log λ/dη."""

    @abstractmethod
    def second_derivative(self, eta: Floats) -> Floats:
        """Return d²λ/dη²."""

    def information(self, eta: Floats) -> Floats:
        """Return λ'²/λ."""
        return self.derivative(eta) * self.log_derivative(eta)

    def information_slope(self, eta: Floats) -> Floats:
        """Return d/dη log λ'²/λ."""
        return 2.0 * self.second_derivative(eta) / self.derivative(eta) - self.log_derivative(eta)


class Log(RateLink):
    """log λ: the canonical link, with coefficients that are log rate ratios."""

    name: ClassVar[str] = "log"

    def link(self, mean: Floats) -> Floats:
        return np.log(mean)

    def inverse(self, eta: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def log_inverse(self, eta: Floats) -> Floats:
        return eta

    def log_derivative(self, eta: Floats) -> Floats:
        return np.ones_like(eta)

    def derivative(self, eta: Floats) -> Floats:
        return self.inverse(eta)

    def second_derivative(self, eta: Floats) -> Floats:
        return self.inverse(eta)


class Identity(RateLink):
    """λ itself: rates that add."""

    name: ClassVar[str] = "identity"
    lowest_eta: ClassVar[float] = 0.0
    zeros_from: ClassVar[float] = 0.0

    def link(self, mean: Floats) -> Floats:
        return np.asarray(mean, dtype=np.float64)

    def inverse(self, eta: Floats) -> Floats:
        return np.asarray(eta, dtype=np.float64)

    def log_inverse(self, eta: Floats) -> Floats:
        return np.log(eta)

    def log_derivative(self, eta: Floats) -> Floats:
        return 1.0 / eta

    def derivative(self, eta: Floats) -> Floats:
        return np.ones_like(eta)

    def second_derivative(self, eta: Floats) -> Floats:
        return np.zeros_like(eta)


class Sqrt(RateLink):
    """√λ: the link that stabilises a Poisson variance."""

    name: ClassVar[str] = "sqrt"
    lowest_eta: ClassVar[float] = 0.0

    def link(self, mean: Floats) -> Floats:
        return np.sqrt(mean)

    def inverse(self, eta: Floats) -> Floats:
        return np.square(eta)

    def log_inverse(self, eta: Floats) -> Floats:
        return 2.0 * np.log(eta)

    def log_derivative(self, eta: Floats) -> Floats:
        return 2.0 / eta

    def derivative(self, eta: Floats) -> Floats:
        return 2.0 * np.asarray(eta, dtype=np.float64)

    def second_derivative(self, eta: Floats) -> Floats:
        return np.full_like(eta, 2.0)

    # Also where η is 0 or, in rows without counts, below it.
    def information(self, eta: Floats) -> Floats:
        return np.full_like(eta, 4.0)

    def information_slope(self, eta: Floats) -> Floats:
        return np.zeros_like(eta)


def times(count: Floats, factor: Floats) -> Floats:
    """Return count * factor, zero where nothing was counted, also at an infinite factor."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = count * factor
    return np.where(count == 0.0, 0.0, product) if not np.isfinite(product).all() else product


#: Links by name.
LINKS: dict[str, type[Link]] = {
    kind.name: kind for kind in (Logit, Probit, Cloglog, Log, Identity, Sqrt)
}


def get_link(link: str | Link, allowed: tuple[str, ...]) -> Link:
    """Return the link of a name, or the link object itself."""
    name = link.name if isinstance(link, Link) else link
    check_choice("link", name, allowed)
    return link if isinstance(link, Link) else LINKS[name]()
