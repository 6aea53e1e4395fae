"""How far a linear classifier of least training error is from the best: Proposition 2, constants.

Setting. m independent rows in n real columns, two classes, any distribution; ĥ has the least 0-1
training error among all linear classifiers, h* the least error in the population (ε(h_Dis,∞) of
Ng and Jordan for the criterion they analyse).

Statement. With probability at least 1 - δ

    ε(ĥ) - ε(h*) ≤ sqrt(8 (log S(2m) + log(4/δ)) / m) + sqrt(log(2/δ) / (2m))

with S(N) = 2 Σ_{k=0}^{n} C(N - 1, k), the number of ways in which N points can be cut by a
hyperplane (Cover 1965, IEEE Trans. EC-14; the VC dimension is n + 1, and S(N) ≤ (eN/(n+1))^(n+1)).

Derivation. ε(ĥ) - ε(h*) = [ε(ĥ) - ε̂(ĥ)] + [ε̂(ĥ) - ε̂(h*)] + [ε̂(h*) - ε(h*)]; the middle is not
positive. The first is at most the largest over all h, bounded with probability 1 - δ/2 by Vapnik
and Chervonenkis's inequality as in Bousquet, Boucheron and Lugosi (2004, "Introduction to
statistical learning theory", section 4): 2 sqrt(2 (log S(2m) + log(2/δ'))/m) with δ' = δ/2; the
third, for one fixed h*, with probability 1 - δ/2 by Hoeffding.

How loose: very. It holds for every distribution, the worst included, and in simulations the excess
is more than ten times smaller. Its order sqrt((n/m) log(m/n)) is what Proposition 2 is about: rows
needed grow like n, not log n.

It is a statement about the classifier of least training error (:class:`ZeroOneLinearClassifier`
tries to be it), not about logistic regression, which minimises the log-loss.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from crossfade._checks import check_number
from crossfade.theory.parameters import check_probability, smallest_rows


def log_dichotomies(n_points: int, n_features: int) -> float:
    """Return log S(N): in how many ways N points in general position are cut by hyperplanes.

    Parameters
    ----------
    n_points : int
        N.
    n_features : int
        n: hyperplanes in n dimensions, not through the origin.

    Returns
    -------
    float
        log of 2 Σ_{k=0}^{min(n, N-1)} C(N - 1, k) (Cover 1965).

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.theory import log_dichotomies
    >>> round(float(np.exp(log_dichotomies(4, 2))))  # all of 16 but the two of exclusive-or
    14
    """
    check_number("n_points", n_points, 1, whole=True)
    check_number("n_features", n_features, 1, whole=True)
    k = np.arange(min(n_features, n_points - 1) + 1)
    n = float(n_points - 1)
    terms = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return float(np.log(2.0) + logsumexp(terms))


def discriminative_excess_error(n_features: int, m: int, delta: float) -> float:
    """Return how much worse than the best linear classifier one of least training error can be.

    Parameters
    ----------
    n_features : int
        n; the VC dimension is n + 1.
    m : int
        Training rows.
    delta : float
        δ in (0, 1): the bound holds with probability 1 - δ.

    Returns
    -------
    float
        At most 1, which says nothing.

    Raises
    ------
    DataError
        If an argument is out of its range.

    Notes
    -----
    Statement, assumptions, derivation and how loose it is stand at the head of this module (Ng and
    Jordan 2001, Proposition 2).

    Examples
    --------
    >>> from crossfade.theory import discriminative_excess_error
    >>> [round(discriminative_excess_error(10, m, 0.05), 3) for m in (1_000, 10_000, 100_000)]
    [0.769, 0.28, 0.099]
    """
    check_number("n_features", n_features, 1, whole=True)
    check_number("m", m, 1, whole=True)
    check_probability("delta", delta)
    uniform = np.sqrt(8.0 * (log_dichotomies(2 * m, n_features) + np.log(4.0 / delta)) / m)
    single = np.sqrt(np.log(2.0 / delta) / (2.0 * m))
    return float(min(uniform + single, 1.0))


def discriminative_sample_size(n_features: int, epsilon: float, delta: float) -> int:
    """Return how many rows suffice for an excess error of at most ε with probability 1 - δ.

    Parameters
    ----------
    n_features, delta
        As for :func:`discriminative_excess_error`.
    epsilon : float
        ε in (0, 1).

    Returns
    -------
    int
        Smallest m at which the bound is at most ε. It grows like n.

    Examples
    --------
    >>> from crossfade.theory import discriminative_sample_size
    >>> [discriminative_sample_size(n, 0.1, 0.05) for n in (10, 100)]
    [97751, 889863]
    """
    check_number("n_features", n_features, 1, whole=True)
    check_number("epsilon", epsilon, above=0.0, remedy="give the excess error allowed")
    check_probability("delta", delta)
    return smallest_rows(lambda m: discriminative_excess_error(n_features, m, delta) <= epsilon)
