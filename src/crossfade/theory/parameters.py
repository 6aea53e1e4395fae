"""How many rows naive Bayes needs for its parameters: Lemma 3 of Ng and Jordan, with constants.

Setting. Two classes, m independent rows, at least the share ρ (`prior_floor`) of each class in the
population. Columns are 0 or 1 (discrete), or lie in [0, 1] (continuous). Estimates are, with b a
class, m_b its rows and l the smoothing,

    discrete:    p̂(x_i = 1 | b) = (count + l) / (m_b + 2l),     p̂(b) = (m_b + l) / (m + 2l)
    continuous:  μ̂_ib the class means, σ̂_i² the pooled variances (divided by m), p̂(b) = m_b / m.

Statement. With probability at least 1 - δ(m) every one of these is within ε of its population value
(σ_i² being the mean over classes of the variance within them), where with s = min(ε, ρ)/2,
γ = ρ - s and t = ε - l / (γ m + 2l)

    discrete:    δ(m) = 2 exp(-2 s² m) + 4 n exp(-2 t² γ m)
    continuous:  δ(m) = 2 exp(-2 s² m) + 4 n exp(-2 ε² γ m) + 2 n exp(-2 (ε - ε²)² m).

Derivation. (1) By Hoeffding's inequality the observed share of a class is within s of its own with
probability 1 - 2 exp(-2 s² m); both classes then have γ m rows or more, and p̂(b) is within
s + l/(m + 2l) ≤ ε. (2) Given the labels, the rows of a class are independent draws from it, so
each of the 2n class means is within t with probability 1 - 2 exp(-2 t² γ m); smoothing moves a
mean by l |m_b - 2 count| / (m_b (m_b + 2l)) ≤ l / (γ m + 2l). (3) σ̂_i² is the mean of m
independent values (x - μ_ib)² in [0, 1], whose expectation is σ_i², less Σ_b (m_b/m)(μ̂_ib - μ_ib)²,
which (2) keeps within [0, ε²]; Hoeffding again. Variances lie in [0, 1/4], so that for ε ≥ 1/4 the
last term is not needed. The union bound adds the three up; it is what makes the number of rows grow
like log n, and no independence of columns is used.

How loose: Hoeffding's inequality takes every variance for 1/4, and the union bound every failure
for disjoint. Where probabilities are near 1/2 about half of the rows suffice, elsewhere fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from crossfade._checks import check_choice, check_number
from crossfade.errors import DataError

_KINDS = ("discrete", "continuous")

#: No search goes beyond this many rows.
_MOST_ROWS = 1 << 60


def parameter_failure_probability(
    n_features: int,
    m: int,
    epsilon: float,
    prior_floor: float,
    smoothing: float = 0.0,
    kind: str = "discrete",
) -> float:
    """Return δ(m): a bound on the probability that some parameter is off by more than ε.

    Parameters
    ----------
    n_features : int
        n.
    m : int
        Training rows.
    epsilon : float
        ε > 0.
    prior_floor : float
        ρ in (0, 1/2]: each class has at least this share.
    smoothing : float, default=0.0
        l ≥ 0 (discrete only).
    kind : {"discrete", "continuous"}, default="discrete"

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    DataError
        If an argument is out of its range.

    Notes
    -----
    Statement, assumptions and derivation stand at the head of this module (Ng and Jordan 2001,
    Lemma 3, whose constants are made explicit there).

    Examples
    --------
    >>> from crossfade.theory import parameter_failure_probability
    >>> round(parameter_failure_probability(10, 5000, 0.05, 0.5), 4)
    0.0041
    """
    _check(n_features, prior_floor, smoothing, kind)
    check_number("epsilon", epsilon, above=0.0, remedy="the accuracy wanted, for example 0.1")
    check_number("m", m, 1, whole=True)
    return _failure(n_features, m, epsilon, prior_floor, smoothing, kind)


def _failure(n: int, m: int, epsilon: float, floor: float, smoothing: float, kind: str) -> float:
    s = min(epsilon, floor) / 2.0
    gamma = floor - s
    moved = smoothing / (gamma * m + 2.0 * smoothing) if smoothing else 0.0
    t = epsilon - moved
    # `moved` bounds what smoothing does to class shares as well: γ m ≤ m.
    if t <= 0.0 or s + moved > epsilon:
        return 1.0
    total = 2.0 * math.exp(-2.0 * s * s * m) + 4.0 * n * math.exp(-2.0 * t * t * gamma * m)
    if kind == "continuous" and epsilon < 0.25:
        total += 2.0 * n * math.exp(-2.0 * (epsilon - epsilon**2) ** 2 * m)
    return min(total, 1.0)


def parameter_sample_size(
    n_features: int,
    epsilon: float,
    delta: float,
    prior_floor: float,
    smoothing: float = 0.0,
    kind: str = "discrete",
) -> int:
    """Return how many rows suffice for all parameters to be within ε with probability 1 - δ.

    Parameters
    ----------
    n_features, epsilon, prior_floor, smoothing, kind
        As for :func:`parameter_failure_probability`.
    delta : float
        δ in (0, 1).

    Returns
    -------
    int
        Smallest m with δ(m) ≤ δ. It grows like log n.

    Examples
    --------
    >>> from crossfade.theory import parameter_sample_size
    >>> [parameter_sample_size(n, 0.1, 0.05, 0.5) for n in (10, 100, 1000)]
    [843, 1029, 1263]
    """
    _check(n_features, prior_floor, smoothing, kind)
    check_number("epsilon", epsilon, above=0.0, remedy="the accuracy wanted, for example 0.1")
    check_probability("delta", delta)
    return smallest_rows(
        lambda m: _failure(n_features, m, epsilon, prior_floor, smoothing, kind) <= delta
    )


def parameter_accuracy(
    n_features: int,
    m: int,
    delta: float,
    prior_floor: float,
    smoothing: float = 0.0,
    kind: str = "discrete",
) -> float:
    """Return within what ε all parameters are with probability 1 - δ: the inverse in ε.

    Parameters
    ----------
    n_features, m, prior_floor, smoothing, kind
        As for :func:`parameter_failure_probability`.
    delta : float
        δ in (0, 1).

    Returns
    -------
    float
        ε of order sqrt(log(n/δ)/m), to 12 digits; 1 where m is too small to say anything.

    Examples
    --------
    >>> from crossfade.theory import parameter_accuracy
    >>> round(parameter_accuracy(100, 1029, 0.05, 0.5), 3)
    0.1
    """
    _check(n_features, prior_floor, smoothing, kind)
    check_number("m", m, 1, whole=True)
    check_probability("delta", delta)
    low, high = 0.0, 1.0
    if _failure(n_features, m, high, prior_floor, smoothing, kind) > delta:
        return 1.0
    # The upper end always satisfies the bound, so what is returned is guaranteed.
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        if middle > 0.0 and _failure(n_features, m, middle, prior_floor, smoothing, kind) <= delta:
            high = middle
        else:
            low = middle
    return high


def smallest_rows(enough: Callable[[int], bool]) -> int:
    """Return the smallest number of rows that is enough, given that more always are too."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            raise DataError(
                "m: expected a number of rows that suffices, got none up to 2^60; "
                "ask for less accuracy"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# -- arguments -----------------------------------------------------------------------------------


def _check(n_features: int, prior_floor: float, smoothing: float, kind: str) -> None:
    check_number("n_features", n_features, 1, whole=True)
    if not 0.0 < prior_floor <= 0.5:
        raise DataError(
            f"prior_floor: expected the least share of a class, in (0, 0.5], got {prior_floor!r}; "
            "0.5 means balanced classes"
        )
    check_kind(kind)
    if not (math.isfinite(smoothing) and smoothing >= 0.0):
        raise DataError(
            f"smoothing: expected a pseudo-count of at least 0, got {smoothing!r}; 1 is Laplace's"
        )
    if smoothing and kind == "continuous":
        raise DataError(
            f"smoothing: expected 0 for continuous columns, got {smoothing!r}; means and variances "
            "have no pseudo-count here"
        )


def check_kind(kind: str) -> None:
    """Refuse what is no kind of columns."""
    remedy = "columns of 0 and 1 are discrete, others must lie in [0, 1]"
    check_choice("kind", kind, _KINDS, remedy)


def check_probability(name: str, value: float) -> None:
    """Refuse what lies outside (0, 1)."""
    check_number(name, value, above=0.0, below=1.0, remedy="use for example 0.05")
