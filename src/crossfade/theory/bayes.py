"""The optimal rule where the distribution is known, its error, and what pairs of models come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, stats
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, clone

from crossfade._checks import check_choice, check_number
from crossfade._typing import Floats
from crossfade.errors import DataError
from crossfade.table.scored import ScoredClassifier
from crossfade.theory.parameters import check_probability

#: Rows drawn at a time in simulations.
_BATCH = 100_000


@dataclass(frozen=True)
class ErrorEstimate:
    """A probability of error, and how well it is known.

    Attributes
    ----------
    error : float
    low, high : float
        Ends of the interval: of the quadrature's own bound, or of the simulation's 95 % (or what
        was asked for).
    method : {"quadrature", "simulation"}

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from crossfade.theory import BayesClassifier
    >>> estimate = BayesClassifier([0.5, 0.5], [norm(0, 1), norm(2, 1)]).error()
    >>> round(estimate.error, 3), estimate.method
    (0.159, 'quadrature')
    """

    error: float
    low: float
    high: float
    method: str


class BayesClassifier(ScoredClassifier, BaseEstimator):
    """The rule of least error for a known distribution: the largest p_k f_k(x).

    Parameters
    ----------
    class_prior : array-like of shape (n_classes,)
        p_k, positive, summing to 1.
    densities : sequence of n_classes densities
        f_k: frozen distributions of scipy.stats (``logpdf`` or ``logpmf``, and ``rvs``), or objects
        with ``log_density(X)`` for X of shape (n, d) and ``sample(size, rng)``, such as a fitted
        model's ``class_densities_``.
    classes : array-like of shape (n_classes,), optional
        Labels; 0, 1, … by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)

    Notes
    -----
    No other rule, whatever it is fitted to, has a smaller error on this distribution (Devroye,
    Györfi and Lugosi 1996, "A probabilistic theory of pattern recognition", theorem 2.1).

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from crossfade.theory import BayesClassifier
    >>> rule = BayesClassifier([0.5, 0.5], [norm(0, 1), norm(2, 1)])
    >>> rule.predict([[0.9], [1.1]])
    array([0, 1])
    >>> round(rule.error().error, 6)  # Φ(-1)
    0.158655
    """

    def __init__(
        self, class_prior: ArrayLike, densities: Sequence[Any], classes: ArrayLike | None = None
    ) -> None:
        self.class_prior = class_prior
        self.densities = densities
        self.classes = classes
        self._check()

    def _check(self) -> None:
        shares = np.asarray(self.class_prior, dtype=np.float64)
        k = len(self.densities)
        usable = shares.shape == (k,) and k >= 2 and np.isfinite(shares).all()
        if not usable or (shares <= 0.0).any() or abs(shares.sum() - 1.0) > 1e-9:
            raise DataError(
                f"class_prior: expected a positive share for each of {k} densities (2 or more), "
                f"summing to 1, got {self.class_prior!r}; give one share per class"
            )
        for density in self.densities:
            if not any(hasattr(density, name) for name in ("log_density", "logpdf", "logpmf")):
                raise DataError(
                    "densities: expected frozen scipy.stats distributions or objects with "
                    f"log_density and sample, got {density!r}; for example scipy.stats.norm(0, 1)"
                )
        labels = np.arange(k) if self.classes is None else np.asarray(self.classes)
        if labels.shape != (k,) or np.unique(labels).size != k:
            raise DataError(
                f"classes: expected {k} different labels, got {self.classes!r}; one per density"
            )
        self._log_prior = np.log(shares)
        self.classes_ = labels

    def fit(self, X: Any = None, y: Any = None) -> BayesClassifier:
        """Return the classifier: there is nothing to fit. Ignored; scikit-learn passes it."""
        return self

    # -- predictions -----------------------------------------------------------------------------

    def joint_log_likelihood(self, X: ArrayLike) -> Floats:
        """Return log p_k f_k(x), shape (n_samples, n_classes)."""
        matrix = np.asarray(X, dtype=np.float64)
        if matrix.ndim != 2:
            raise DataError(
                f"X: expected shape (n_samples, n_features), got {matrix.shape}; reshape it"
            )
        columns = [_log_density(density, matrix) for density in self.densities]
        return np.column_stack(columns) + self._log_prior

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of the true posterior, shape (n_samples, n_classes)."""
        joint = self.joint_log_likelihood(X)
        return joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the true posterior, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        return self.classes_[self.joint_log_likelihood(X).argmax(axis=1)]

    def sample(
        self, n_samples: int, random_state: int | np.random.Generator = 0
    ) -> tuple[Floats, NDArray[Any]]:
        """Draw rows and labels from the distribution.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
        """
        check_number("n_samples", n_samples, 1, whole=True)
        rng = np.random.default_rng(random_state)
        codes = rng.choice(len(self.densities), size=n_samples, p=np.exp(self._log_prior))
        X: Floats | None = None
        for k, density in enumerate(self.densities):
            own = np.flatnonzero(codes == k)
            drawn = _sample(density, max(own.size, 1), rng)
            if X is None:
                X = np.empty((n_samples, drawn.shape[1]))
            X[own] = drawn[: own.size]
        assert X is not None  # there are two densities or more
        return X, self.classes_[codes]

    # -- errors ----------------------------------------------------------------------------------

    def error(
        self,
        method: str = "auto",
        *,
        n_samples: int = 1_000_000,
        random_state: int = 0,
        confidence: float = 0.95,
    ) -> ErrorEstimate:
        """Return the rule's own error, the least there is: 1 - E[max_k P(k | x)].

        Parameters
        ----------
        method : {"auto", "quadrature", "simulation"}, default="auto"
            "quadrature" integrates over one continuous column, or adds up a discrete
            distribution's support of one column; "auto" takes it where it is possible.
        n_samples, random_state, confidence
            Of the simulation, which averages the posterior's own error over draws of x.

        Returns
        -------
        ErrorEstimate

        Raises
        ------
        DataError
            If quadrature is asked for and the rows have more than one column.
        """
        check_choice("method", method, ("auto", "quadrature", "simulation"))
        one_column = self.sample(2)[0].shape[1] == 1
        if method == "quadrature" and not one_column:
            raise DataError(
                "method: expected 'simulation' for rows of more than one column, got 'quadrature'"
            )
        if one_column and method != "simulation":
            return self._quadrature()
        check_probability("confidence", confidence)
        losses = self.conditional_errors(None, n_samples, random_state)
        mean = float(losses.mean())
        half = float(stats.norm.ppf(0.5 + confidence / 2.0) * losses.std() / np.sqrt(n_samples))
        return ErrorEstimate(mean, max(mean - half, 0.0), min(mean + half, 1.0), "simulation")

    def conditional_errors(
        self, classifier: Any = None, n_samples: int = 1_000_000, random_state: int = 0
    ) -> Floats:
        """Return 1 - P(ĥ(x) | x) at draws of x, shape (n_samples,); the rule's own by default."""
        check_number("n_samples", n_samples, 1, whole=True)
        rng = np.random.default_rng(random_state)
        parts = []
        for start in range(0, n_samples, _BATCH):
            X, _ = self.sample(min(_BATCH, n_samples - start), rng)
            posterior = self.predict_proba(X)
            if classifier is None:
                parts.append(1.0 - posterior.max(axis=1))
                continue
            decided = np.asarray(classifier.predict(X))
            match = decided[:, None] == self.classes_
            parts.append(1.0 - np.where(match, posterior, 0.0).sum(axis=1))
        return np.concatenate(parts)

    def _quadrature(self) -> ErrorEstimate:
        if all(_is_discrete(density) for density in self.densities):
            return self._summed()
        low, high = self._range()

        def largest(x: float) -> float:
            return float(np.exp(self.joint_log_likelihood(np.array([[x]])).max()))

        cuts = self._corners(np.linspace(low, high, 4001))
        right, inexact = 0.0, 0.0
        edges = np.unique(np.concatenate([[low], cuts, np.linspace(low, high, 9), [high]]))
        for a, b in pairwise(edges):
            part, doubt = integrate.quad(largest, a, b, limit=200, epsabs=1e-12)
            right, inexact = right + part, inexact + doubt
        error = 1.0 - right
        return ErrorEstimate(error, max(error - inexact, 0.0), error + inexact, "quadrature")

    def _corners(self, grid: Floats) -> list[float]:
        """Return where the largest class changes: the integrand has a corner there."""
        owner = self.joint_log_likelihood(grid[:, None]).argmax(axis=1)
        corners = []
        for at in np.flatnonzero(owner[1:] != owner[:-1]):
            left, right = owner[at], owner[at + 1]

            def gap(x: float, left: int = left, right: int = right) -> float:
                joint = self.joint_log_likelihood(np.array([[x]]))[0]
                return float(joint[left] - joint[right])

            a, b = float(grid[at]), float(grid[at + 1])
            corners.append(float(brentq(gap, a, b)) if gap(a) * gap(b) < 0.0 else b)
        return corners

    def _range(self) -> tuple[float, float]:
        """Return an interval outside which there is next to nothing (1e-13 of each class)."""
        ends = []
        for density in self.densities:
            if hasattr(density, "ppf"):
                ends.append((float(density.ppf(1e-13)), float(density.isf(1e-13))))
            else:
                drawn = _sample(density, 4096, np.random.default_rng(0))
                middle, spread = float(np.median(drawn)), float(np.ptp(drawn))
                ends.append((middle - 3.0 * spread, middle + 3.0 * spread))
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _summed(self) -> ErrorEstimate:
        low, high = (float(np.floor(end)) for end in self._range())
        values = np.arange(low, high + 2.0)[:, None]
        right = float(np.exp(self.joint_log_likelihood(values).max(axis=1)).sum())
        return ErrorEstimate(1.0 - right, max(1.0 - right - 1e-12, 0.0), 1.0 - right, "quadrature")


def _is_discrete(density: Any) -> bool:
    return hasattr(density, "pmf") or isinstance(getattr(density, "dist", None), stats.rv_discrete)


def _log_density(density: Any, X: Floats) -> Floats:
    """Return log f(x) by row, whatever the object calls it."""
    if hasattr(density, "log_density"):
        return np.asarray(density.log_density(X), dtype=np.float64)
    one_column = isinstance(
        getattr(density, "dist", None), (stats.rv_continuous, stats.rv_discrete)
    )
    cells = X[:, 0] if one_column else X
    values = density.logpmf(cells) if _is_discrete(density) else density.logpdf(cells)
    return np.asarray(values, dtype=np.float64).reshape(X.shape[0])


def _sample(density: Any, size: int, rng: np.random.Generator) -> Floats:
    drawn = (
        density.sample(size, rng)
        if hasattr(density, "sample")
        else density.rvs(size=size, random_state=rng)
    )
    return np.asarray(drawn, dtype=np.float64).reshape(size, -1)


@dataclass(frozen=True)
class PopulationGap:
    """What both members of a pair come to with unlimited rows (h_Gen,∞ and h_Dis,∞).

    Attributes
    ----------
    generative, discriminative : ErrorEstimate
        Errors of the two limits.
    best : ErrorEstimate
        Error of the optimal rule.
    gap, gap_low, gap_high : float
        Generative minus discriminative error with its interval, paired over the same draws.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import BayesClassifier, population_gap
    >>> population = BayesClassifier([0.5, 0.5], [norm(0, 1), norm(2, 1)])
    >>> pair = [NaiveBayes(tradeoff=1), NaiveBayes(tradeoff=0)]
    >>> found = population_gap(population, *pair, n_fit=5_000, n_samples=5_000)
    >>> abs(found.gap) < 0.01  # the densities are true
    True
    """

    generative: ErrorEstimate
    discriminative: ErrorEstimate
    best: ErrorEstimate
    gap: float
    gap_low: float
    gap_high: float


def population_gap(
    distribution: BayesClassifier,
    generative: Any,
    discriminative: Any,
    *,
    n_fit: int = 200_000,
    n_samples: int = 500_000,
    random_state: int = 0,
    confidence: float = 0.95,
) -> PopulationGap:
    """Show Proposition 1 on a chosen distribution: ε(h_Dis,∞) ≤ ε(h_Gen,∞).

    Statement. In the population the classifier of least error of a family is at least as good as
    the one that the generative fit picks from the same family, since it is in the family too. With
    logistic regression in its place the inequality may fail: the least log-loss is not the least
    error. It holds with equality where the generative model is right.

    The limits are stood for by fits to `n_fit` draws.

    Parameters
    ----------
    distribution : BayesClassifier
        The population.
    generative, discriminative : estimator
        The pair, for example ``NaiveBayes(tradeoff=1)`` and ``NaiveBayes(tradeoff=0)``; cloned.
    n_fit, n_samples : int
        Draws for the fits, and for the errors.
    random_state : int, default=0
    confidence : float, default=0.95

    Returns
    -------
    PopulationGap

    Examples
    --------
    >>> from scipy.stats import multivariate_normal
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import BayesClassifier, population_gap
    >>> together = [[1, 0.9], [0.9, 1]]  # naive Bayes counts the same evidence twice
    >>> population = BayesClassifier(
    ...     [0.5, 0.5],
    ...     [multivariate_normal([0, 0], together), multivariate_normal([1, 0.2], together)],
    ... )
    >>> pair = [NaiveBayes(tradeoff=1, shared_variance=True), NaiveBayes(tradeoff=0, l2=0)]
    >>> gap = population_gap(population, *pair, n_fit=20_000, n_samples=20_000)
    >>> gap.gap_low > 0
    True
    """
    check_probability("confidence", confidence)
    X, y = distribution.sample(n_fit, random_state)
    seed = random_state + 1
    losses = [
        distribution.conditional_errors(clone(model).fit(X, y), n_samples, seed)
        for model in (generative, discriminative)
    ]
    own = distribution.conditional_errors(None, n_samples, seed)
    factor = float(stats.norm.ppf(0.5 + confidence / 2.0) / np.sqrt(n_samples))

    def estimate(values: Floats) -> ErrorEstimate:
        mean, half = float(values.mean()), factor * float(values.std())
        return ErrorEstimate(mean, max(mean - half, 0.0), min(mean + half, 1.0), "simulation")

    difference = losses[0] - losses[1]
    gap, half = float(difference.mean()), factor * float(difference.std())
    return PopulationGap(
        estimate(losses[0]), estimate(losses[1]), estimate(own), gap, gap - half, gap + half
    )
