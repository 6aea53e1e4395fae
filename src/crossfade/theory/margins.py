"""When naive Bayes is as good as its limit: Ng and Jordan's Theorem 4, Corollary 6, Proposition 5.

Notation: T the second class, F the first, l(x) the log-odds of T under the population's naive
Bayes (the model with the true class shares, means and variances or probabilities), n the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_number
from crossfade._typing import Floats
from crossfade.classifiers.naive_bayes import NaiveBayes
from crossfade.errors import DataError
from crossfade.table import encode_labels, read_features
from crossfade.theory.parameters import (
    check_kind,
    check_probability,
    parameter_accuracy,
    smallest_rows,
)


@dataclass(frozen=True)
class MarginMass:
    """An estimate of G(τ), with a band; call it to get the band's upper end at any τ.

    Attributes
    ----------
    tau : ndarray of shape (n_tau,)
    mass, low, high : ndarray of shape (n_tau,)
        Estimate of G(τ) and the ends of a band that holds all of G at once with the given
        confidence.
    confidence : float
    margins : ndarray of shape (n_correct,)
        y l(x) / n of the rows that are decided rightly, ascending.
    n_rows : int
        Rows it was estimated from.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import margin_mass
    >>> y = np.repeat([0, 1], 2_000)
    >>> X = np.random.default_rng(0).normal(size=(4_000, 3)) + y[:, None]
    >>> model = NaiveBayes(tradeoff=1).fit(X[::2], y[::2])
    >>> found = margin_mass(model, X[1::2], y[1::2], [0.1, 0.5])
    >>> bool(np.all((found.low <= found.mass) & (found.mass <= found.high)))
    True
    """

    tau: Floats
    mass: Floats
    low: Floats
    high: Floats
    confidence: float
    margins: Floats
    n_rows: int

    def __call__(self, tau: float) -> float:
        """Return the upper end of the band at τ, for :func:`generative_excess_error`."""
        below = np.searchsorted(self.margins, tau, side="right") / self.n_rows
        return min(1.0, float(below) + _band(self.n_rows, self.confidence))


def margin_mass(
    model: Any, X: Any, y: Any, tau: ArrayLike, *, confidence: float = 0.95
) -> MarginMass:
    """Estimate G(τ): how probable it is to be decided rightly by a margin of at most τ n.

    Statement. G(τ) = P(0 ≤ l(x) ≤ τn and y = T, or -τn ≤ l(x) ≤ 0 and y = F). The share of such
    rows estimates it; with probability `confidence` the whole function lies within
    sqrt(log(2/(1 - confidence)) / (2N)) of the shares, for all τ at once (Dvoretzky, Kiefer and
    Wolfowitz 1956, with Massart's constant, 1990, Annals of Probability 18).

    Assumptions. The N rows are independent draws of the population and were not used to fit the
    model; the model stands for the population's, so that it should be fitted on many rows.

    Parameters
    ----------
    model : fitted classifier
        With two classes and ``decision_function`` giving log-odds of the second.
    X : data frame or array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    tau : float or array-like
        Margins per column, at least 0.
    confidence : float, default=0.95

    Returns
    -------
    MarginMass

    Raises
    ------
    DataError
        If the model has not two classes, or an argument is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import margin_mass
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 20_000)
    >>> X = (rng.random((20_000, 5)) < 0.3 + 0.4 * y[:, None]).astype(float)
    >>> model = NaiveBayes("bernoulli", tradeoff=1).fit(X[:10_000], y[:10_000])
    >>> margin_mass(model, X[10_000:], y[10_000:], [0.0, 0.5]).mass.round(2)
    array([0.  , 0.31])
    """
    check_probability("confidence", confidence)
    at = np.atleast_1d(np.asarray(tau, dtype=np.float64))
    if not (np.isfinite(at) & (at >= 0.0)).all():
        raise DataError(f"tau: expected margins of at least 0, got {tau!r}; 0.1 is a small one")
    signed, n_features = _signed_margins(model, X, y)
    margins = np.sort(signed[signed >= 0.0] / n_features)
    n_rows = signed.size
    mass = np.searchsorted(margins, at, side="right") / n_rows
    half = _band(n_rows, confidence)
    low, high = np.maximum(mass - half, 0.0), np.minimum(mass + half, 1.0)
    return MarginMass(at, mass, low, high, confidence, margins, n_rows)


def _band(n_rows: int, confidence: float) -> float:
    return math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * n_rows))


def _signed_margins(model: Any, X: Any, y: Any) -> tuple[Floats, int]:
    """Return ±l(x), positive where it is on its own class's side, and the number of columns."""
    check_is_fitted(model)
    classes = np.asarray(model.classes_)
    if classes.size != 2:
        raise DataError(
            f"model: expected two classes, got {classes.size}; the theorem is about two"
        )
    log_odds = np.asarray(model.decision_function(X), dtype=np.float64)
    _, codes = encode_labels(y, classes, minimum=1, n_samples=log_odds.size)
    return np.where(codes == 1, log_odds, -log_odds), int(model.n_features_in_)


def log_odds_perturbation(
    n_features: int,
    epsilon: float,
    prior_floor: float,
    parameter_floor: float,
    kind: str = "discrete",
) -> float:
    """Return τ: by how much a column the log-odds can be off if every parameter is within ε.

    Statement. If all parameters are within ε of the population's, |l̂(x) - l(x)| ≤ τ n for all x,
    where with b(u) = -log(1 - u)

        discrete:    τ = 2 b(ε/ρ) + 2 b(ε/π) / n,        ρ ≤ p(x_i = 1 | b) ≤ 1 - ρ
        continuous:  τ = (2ε + 2ε²)/(ρ - ε) + ε/(2ρ(ρ - ε)) + 2 b(ε/π) / n,    σ_i² ≥ ρ

    and π ≤ p(b) the `prior_floor`, ρ the `parameter_floor`.

    Derivation. Discrete: a probability of at least ρ that moves by at most ε has a logarithm that
    moves by at most b(ε/ρ), and each column's term is a difference of two. Continuous: the term is
    a c / σ² with a = μ_T - μ_F and c = x - (μ_T + μ_F)/2, where a moves by at most 2ε, c by ε,
    |c| ≤ 1 - |a|/2 and |a c| ≤ 1/2 as all lie in [0, 1], and σ̂² ≥ ρ - ε.

    Returns
    -------
    float
        inf where ε reaches a floor.

    Examples
    --------
    >>> from crossfade.theory import log_odds_perturbation
    >>> round(log_odds_perturbation(10, 0.01, 0.5, 0.2), 4)
    0.1066
    """
    check_number("n_features", n_features, 1, whole=True)
    check_kind(kind)
    check_number("epsilon", epsilon, above=0.0, remedy="for example 0.01")
    for name, floor in (("prior_floor", prior_floor), ("parameter_floor", parameter_floor)):
        if not 0.0 < floor <= 0.5:
            raise DataError(f"{name}: expected a number in (0, 0.5], got {floor!r}; see the notes")
    if epsilon >= min(prior_floor, parameter_floor):
        return math.inf
    prior_term = -2.0 * math.log1p(-epsilon / prior_floor) / n_features
    if kind == "discrete":
        return prior_term - 2.0 * math.log1p(-epsilon / parameter_floor)
    rest = parameter_floor - epsilon
    shift = (2.0 * epsilon + 2.0 * epsilon**2) / rest
    return prior_term + shift + epsilon / (2.0 * parameter_floor * rest)


def generative_excess_error(
    n_features: int,
    m: int,
    delta: float,
    prior_floor: float,
    parameter_floor: float,
    mass: Callable[[float], float],
    *,
    smoothing: float = 0.0,
    kind: str = "discrete",
) -> float:
    """Bound how much worse naive Bayes from m rows is than its own limit (Theorem 4).

    Statement. With probability at least 1 - δ, ε(h_Gen) - ε(h_Gen,∞) ≤ G(τ), where all parameters
    are within ε₁ with that probability (:func:`parameter_accuracy`) and τ is what this does to the
    log-odds (:func:`log_odds_perturbation`): a row that the limit decides rightly by more than τn
    is still decided rightly.

    Assumptions. Each class has at least the share `prior_floor`; for columns of 0 and 1 every
    p(x_i = 1 | b) lies in [ρ, 1 - ρ], for columns in [0, 1] every σ_i² ≥ ρ, ρ the
    `parameter_floor`. Columns need not be independent given the class. With G from
    :func:`margin_mass` the upper end of its band is used, whose confidence is to be added.

    How loose: very. τ takes every column to be off by the most, all in the same direction.

    Parameters
    ----------
    n_features, m : int
    delta : float
        δ in (0, 1).
    prior_floor, parameter_floor : float
        In (0, 0.5].
    mass : callable or MarginMass
        G, or an upper bound of it, as a function of τ.
    smoothing : float, default=0.0
    kind : {"discrete", "continuous"}, default="discrete"

    Returns
    -------
    float
        At most 1, which says nothing.

    Examples
    --------
    >>> from crossfade.theory import generative_excess_error
    >>> bound = generative_excess_error(50, 100_000, 0.05, 0.5, 0.2, lambda tau: min(1, tau / 5))
    >>> round(bound, 3)
    0.02
    """
    epsilon = parameter_accuracy(n_features, m, delta, prior_floor, smoothing, kind)
    tau = log_odds_perturbation(n_features, epsilon, prior_floor, parameter_floor, kind)
    return 1.0 if math.isinf(tau) else min(1.0, float(mass(tau)))


def generative_sample_size(
    n_features: int,
    epsilon: float,
    delta: float,
    prior_floor: float,
    parameter_floor: float,
    mass: Callable[[float], float],
    *,
    smoothing: float = 0.0,
    kind: str = "discrete",
) -> int:
    """Return how many rows bring naive Bayes within ε₀ of its limit (Corollary 6).

    Statement. If G(τ) ≤ ε₀/2 + F(τ) with F independent of n and falling to 0, m = O(log n) rows
    suffice: the smallest m at which :func:`generative_excess_error` is at most ε₀.

    Parameters
    ----------
    n_features, delta, prior_floor, parameter_floor, mass, smoothing, kind
        As for :func:`generative_excess_error`.
    epsilon : float
        ε₀: the excess error allowed.

    Returns
    -------
    int

    Raises
    ------
    DataError
        If no number of rows suffices because G is above ε₀ however small τ (half of the margins'
        mass at 0, or a band too wide).

    Examples
    --------
    >>> from itertools import pairwise
    >>> from crossfade.theory import generative_sample_size
    >>> sizes = [
    ...     generative_sample_size(n, 0.1, 0.05, 0.5, 0.2, lambda tau: min(1, tau / 5))
    ...     for n in (10, 100, 1000)
    ... ]
    >>> [round(b / a, 2) for a, b in pairwise(sizes)]
    [1.13, 1.21]
    """
    check_number("epsilon", epsilon, above=0.0, remedy="give the excess error allowed")
    if mass(0.0) > epsilon:
        raise DataError(
            f"epsilon: expected more than the margin mass at 0, {mass(0.0):.3g}, got {epsilon!r}; "
            "estimate the mass from more rows, or allow a larger excess error"
        )

    def enough(m: int) -> bool:
        bound = generative_excess_error(
            n_features, m, delta, prior_floor, parameter_floor, mass, smoothing=smoothing, kind=kind
        )
        return bound <= epsilon

    return smallest_rows(enough)


@dataclass(frozen=True)
class MarginGrowth:
    """How the margin grows with the number of columns, averaged over all choices of columns.

    Attributes
    ----------
    informative_share : float
        Share of columns whose class means differ by at least γ.
    sizes : ndarray of shape (n_sizes,), int64
        Numbers of columns, the last all of them.
    mean, variance : ndarray of shape (n_sizes,)
        Mean of y l(x) and its variance within classes (averaged over classes), the term of the
        class shares left out, averaged over all sets of so many columns.
    mean_order : float
        d log(mean) / d log(n): 1, Proposition 5's Ω(n), where the mean is positive.
    variance_order : float
        log2 of the variance of all columns over that of half of them: 1 where columns are
        independent given the class, 2 where all move together.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import margin_growth
    >>> y = np.repeat([0, 1], 2_000)
    >>> X = (np.random.default_rng(0).random((4_000, 20)) < 0.4 + 0.2 * y[:, None]).astype(float)
    >>> growth = margin_growth(NaiveBayes("bernoulli", tradeoff=1).fit(X, y), X, y)
    >>> int(growth.sizes[-1]), round(growth.mean_order, 1)
    (20, 1.0)
    """

    informative_share: float
    sizes: np.ndarray[Any, np.dtype[np.int64]]
    mean: Floats
    variance: Floats
    mean_order: float
    variance_order: float


def margin_growth(model: NaiveBayes, X: Any, y: Any, gamma: float = 0.1) -> MarginGrowth:
    """Tell whether margins grow so that naive Bayes converges fast (Proposition 5's diagnostic).

    Statement. If at least a fixed share of the columns have class means that differ by γ or more,
    the mean margin is Ω(n) (each column adds a Kullback-Leibler divergence to it). By Chebyshev's
    inequality G(τ) ≤ Var / (mean - τn)², which falls like 1/n where the variance is O(n), as for
    columns independent given the class, and not at all where it is of order n².

    The margin of k columns drawn at random has, averaged over all draws, mean k μ̄ and variance
    k v̄ + k(k - 1) c̄, with μ̄ and v̄ the mean and variance of a column's share of the log-odds and c̄
    the mean covariance of two; this is what is reported, exactly.

    Parameters
    ----------
    model : NaiveBayes
        Fitted, two classes.
    X : data frame or array-like of shape (n_samples, n_features)
        Complete rows, not those of the fit.
    y : array-like of shape (n_samples,)
    gamma : float, default=0.1
        γ: a difference of class means that counts, in the columns' own units (categories as
        codes are not looked at).

    Returns
    -------
    MarginGrowth

    Raises
    ------
    DataError
        If the model is no fitted naive Bayes of two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.theory import margin_growth
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 20_000)
    >>> X = (rng.random((20_000, 40)) < 0.4 + 0.2 * y[:, None]).astype(float)
    >>> growth = margin_growth(NaiveBayes("bernoulli", tradeoff=1).fit(X, y), X, y)
    >>> growth.informative_share, round(growth.mean_order, 2), round(growth.variance_order, 1)
    (1.0, 1.0, 1.0)
    """
    if not isinstance(model, NaiveBayes):
        raise DataError(
            f"model: expected a fitted NaiveBayes, got {type(model).__name__}; the margin is a sum "
            "over columns only there"
        )
    check_number("gamma", gamma, above=0.0, remedy="a difference of class means that counts")
    signed, n = _signed_margins(model, X, y)
    matrix = np.asarray(read_features(model, X, reset=False)[0], dtype=np.float64)
    if np.isnan(matrix).any():
        raise DataError("X: expected complete rows, got missing cells; drop those rows")
    _, codes = encode_labels(y, model.classes_, minimum=1, n_samples=signed.size)
    shares = _column_shares(model, matrix) * np.where(codes == 1, 1.0, -1.0)[:, None]
    means = np.array([shares[codes == k].mean(axis=0) for k in (0, 1)]).mean(axis=0)
    within = [np.cov(shares[codes == k], rowvar=False).reshape(n, n) for k in (0, 1)]
    covariance = np.mean(within, axis=0)
    own = float(np.trace(covariance)) / n
    shared = (float(covariance.sum()) - own * n) / (n * (n - 1)) if n > 1 else 0.0
    sizes = np.unique(np.rint(np.geomspace(1, n, 12)).astype(np.int64))
    counted = sizes.astype(np.float64)
    mean = counted * float(means.mean())
    variance = counted * own + counted * (counted - 1.0) * shared
    half = n / 2.0
    order = math.log2((n * own + n * (n - 1) * shared) / (half * own + half * (half - 1) * shared))
    differs = [
        abs(float(matrix[codes == 1, j].mean() - matrix[codes == 0, j].mean())) >= gamma
        for j, kind in enumerate(model.schema_.kinds)
        if kind != "categorical"
    ]
    return MarginGrowth(
        informative_share=float(np.mean(differs)) if differs else math.nan,
        sizes=sizes,
        mean=mean,
        variance=variance,
        mean_order=1.0 if means.mean() > 0 else math.nan,
        variance_order=order,
    )


def _column_shares(model: NaiveBayes, matrix: Floats) -> Floats:
    """Return what each column adds to the log-odds of the second class, (n_rows, n_features)."""
    first, second = model.class_densities_.values()
    density, natural = first.density, np.concatenate([first.natural, second.natural])
    partition = density.log_partition(natural)
    terms = density.sufficient_statistics(matrix) * (natural[1] - natural[0])
    by_factor = np.zeros((matrix.shape[0], density.n_factors))
    for statistic, factor in enumerate(density.factors):
        by_factor[:, factor] += terms[:, statistic]
    by_factor -= partition[1] - partition[0]
    return by_factor[:, density.feature_factors]
