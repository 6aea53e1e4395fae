"""The bounds hold in simulation, and their constants are those of the statements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from crossfade import DataError, NaiveBayes
from crossfade.theory import (
    ZeroOneLinearClassifier,
    discriminative_excess_error,
    discriminative_sample_size,
    generative_excess_error,
    generative_sample_size,
    log_dichotomies,
    log_odds_perturbation,
    margin_growth,
    margin_mass,
    parameter_accuracy,
    parameter_failure_probability,
    parameter_sample_size,
)

# -- Lemma 3 -----------------------------------------------------------------------------------


def discrete_failures(m: int, epsilon: float, smoothing: float, prior: float, runs: int) -> float:
    """Return how often some of 10 columns' probabilities, or a class share, is off by more."""
    rng = np.random.default_rng(0)
    truth = np.vstack([np.full(10, 0.5), np.linspace(0.1, 0.9, 10)])
    failed = 0
    for _ in range(runs):
        positive = rng.binomial(m, prior)
        counts = np.array([m - positive, positive])
        ones = rng.binomial(counts[:, None], truth)
        estimates = (ones + smoothing) / (counts + 2 * smoothing)[:, None]
        share = (positive + smoothing) / (m + 2 * smoothing)
        off = max(abs(estimates - truth).max(), abs(share - prior))
        failed += off > epsilon
    return failed / runs


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_discrete_parameters_are_within_epsilon_as_often_as_promised(smoothing, prior):
    m = parameter_sample_size(10, 0.1, 0.1, prior, smoothing)
    assert discrete_failures(m, 0.1, smoothing, prior, 1000) <= 0.1


def test_the_number_of_rows_is_right_within_a_factor_of_a_few():
    m = parameter_sample_size(10, 0.1, 0.1, 0.5)
    assert discrete_failures(round(0.6 * m), 0.1, 0.0, 0.5, 1000) <= 0.1
    assert discrete_failures(round(0.25 * m), 0.1, 0.0, 0.5, 1000) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_continuous_parameters_are_within_epsilon_as_often_as_promised(epsilon):
    # Beta columns: skewed, and of a large variance for values in [0, 1].
    rng = np.random.default_rng(1)
    a, b = np.array([[0.3], [0.5]]), np.linspace(0.3, 3.0, 5)
    means = a / (a + b)
    variances = a * b / ((a + b) ** 2 * (a + b + 1))
    prior = 0.3
    truth = (1 - prior) * variances[0] + prior * variances[1]
    m = parameter_sample_size(5, epsilon, 0.1, prior, kind="continuous")
    failed = 0
    for _ in range(200):
        y = (rng.random(m) < prior).astype(int)
        X = rng.beta(a[y], b)
        model = NaiveBayes("gaussian", tradeoff=1, shared_variance=True, var_smoothing=0).fit(X, y)
        found = np.array([X[y == k].mean(axis=0) for k in (0, 1)])
        pooled = np.mean((X - found[y]) ** 2, axis=0)
        off = max(
            abs(found - means).max(), abs(pooled - truth).max(), abs(model.class_prior_[1] - prior)
        )
        failed += off > epsilon
    assert failed / 200 <= 0.1


def test_rows_needed_grow_like_the_logarithm_of_the_columns():
    sizes = [parameter_sample_size(10**k, 0.05, 0.05, 0.5) for k in range(3, 9)]
    steps = np.diff(sizes)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.03)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize("floor", [0.05, 0.5])
def test_the_three_functions_are_inverses(kind, n, floor):
    smoothing = 1.0 if kind == "discrete" else 0.0
    given = (floor, smoothing, kind)
    m = parameter_sample_size(n, 0.08, 0.05, *given)
    assert parameter_failure_probability(n, m, 0.08, *given) <= 0.05
    assert parameter_failure_probability(n, m - 1, 0.08, *given) > 0.05
    epsilon = parameter_accuracy(n, m, 0.05, *given)
    assert 0.079 < epsilon <= 0.08 + 1e-9
    assert parameter_failure_probability(n, m, epsilon, *given) <= 0.05


def test_too_few_rows_say_nothing():
    assert parameter_accuracy(10, 2, 0.05, 0.5) == 1.0
    assert parameter_failure_probability(10, 1, 0.1, 0.5, 3.0) == 1.0


# -- Proposition 2 -----------------------------------------------------------------------------


@pytest.mark.parametrize(("points", "columns"), [(3, 1), (4, 1), (5, 2), (6, 2), (5, 3)])
def test_dichotomies_are_as_many_as_can_be_counted(points, columns):
    from scipy.optimize import linprog

    X = np.random.default_rng(points).normal(size=(points, columns))
    design = np.column_stack([X, np.ones(points)])
    possible = 0
    for signs in itertools.product([-1.0, 1.0], repeat=points):
        constraint = -np.array(signs)[:, None] * design
        found = linprog(
            np.zeros(columns + 1), A_ub=constraint, b_ub=-np.ones(points), bounds=(None, None)
        )
        possible += found.status == 0
    assert round(math.exp(log_dichotomies(points, columns))) == possible


def test_the_best_on_training_rows_is_as_good_as_promised():
    # One column: the classifier of least training error is found by trying every threshold.
    rng = np.random.default_rng(0)
    m, excess = 400, []
    bound = discriminative_excess_error(1, m, 0.1)
    assert bound < 1.0
    noise, cut = 0.2, 0.3  # y = 1[x > cut], a fifth of the labels turned round

    def population_error(threshold: float, up: bool) -> float:
        wrong = abs(np.clip(threshold, 0.0, 1.0) - cut)
        error = noise + (1.0 - 2.0 * noise) * wrong
        return error if up else 1.0 - error

    for _ in range(200):
        x = rng.random(m)
        y = (x > cut) ^ (rng.random(m) < noise)
        order = np.argsort(x)
        ones = np.concatenate([[0], np.cumsum(y[order])])
        zeros = np.concatenate([[0], np.cumsum(~y[order])])
        up = ones + zeros[-1] - zeros  # errors of predicting 1 above each gap
        down = m - up
        points = np.concatenate([[0.0], x[order]])
        k = int(np.argmin(np.minimum(up, down)))
        excess.append(population_error(points[k], up[k] <= down[k]) - noise)
    assert np.quantile(excess, 0.9) <= bound
    assert np.quantile(excess, 0.9) < 0.1 * bound  # loose, as the docstring says


def test_rows_needed_grow_like_the_columns():
    sizes = [discriminative_sample_size(n, 0.1, 0.05) for n in (100, 200, 400, 800)]
    ratios = np.array(sizes[1:]) / sizes[:-1]
    np.testing.assert_allclose(ratios, 2.0, atol=0.03)
    assert discriminative_excess_error(100, sizes[0], 0.05) <= 0.1
    assert discriminative_excess_error(100, sizes[0] - 1, 0.05) > 0.1


# -- Theorem 4, Corollary 6 --------------------------------------------------------------------


def test_log_odds_move_by_no_more_than_said():
    rng = np.random.default_rng(0)
    n, epsilon, floor, prior = 6, 0.02, 0.15, 0.3
    tau = log_odds_perturbation(n, epsilon, prior, floor)
    for _ in range(300):
        p = rng.uniform(floor, 1 - floor, size=(2, n))
        q = p + rng.choice([-epsilon, epsilon], size=p.shape)
        share = prior + rng.choice([-epsilon, epsilon])
        x = rng.integers(0, 2, size=n)

        def odds(t: np.ndarray, s: float, x: np.ndarray = x) -> float:
            each = np.where(x == 1, t, 1 - t)
            return float(np.log(each[1] / each[0]).sum() + math.log(s / (1 - s)))

        assert abs(odds(q, share) - odds(p, prior)) <= tau * n


def test_what_is_said_is_what_the_worst_case_comes_to():
    # All columns at the floor, and all moves in one direction: more than half of what is allowed.
    n, epsilon, floor, prior = 6, 0.02, 0.15, 0.5
    p, q = np.array([floor, 1 - floor]), np.array([floor - epsilon, 1 - floor + epsilon])
    odds = [n * math.log(t[1] / t[0]) + math.log(s / (1 - s)) for t, s in ((p, 0.5), (q, 0.52))]
    tau = log_odds_perturbation(n, epsilon, prior, floor)
    assert 0.5 * tau * n < odds[1] - odds[0] <= tau * n


def test_continuous_log_odds_move_by_no_more_than_said():
    rng = np.random.default_rng(0)
    n, epsilon, floor, prior = 4, 0.01, 0.05, 0.3
    tau = log_odds_perturbation(n, epsilon, prior, floor, "continuous")
    for _ in range(300):
        means = rng.random((2, n))
        variance = rng.uniform(floor, 0.25, size=n)
        moved = np.clip(means + rng.choice([-epsilon, epsilon], size=means.shape), 0, 1)
        other = variance + rng.choice([-epsilon, epsilon], size=n)
        share = prior + rng.choice([-epsilon, epsilon])
        x = rng.integers(0, 2, size=n)

        def odds(mu: np.ndarray, v: np.ndarray, s: float, x: np.ndarray = x) -> float:
            terms = ((x - mu[0]) ** 2 - (x - mu[1]) ** 2) / (2 * v)
            return float(terms.sum() + math.log(s / (1 - s)))

        assert abs(odds(moved, other, share) - odds(means, variance, prior)) <= tau * n


def population(n: int, seed: int = 0) -> tuple[np.ndarray, NaiveBayes]:
    """Return Bernoulli probabilities by class, and the limit naive Bayes of them."""
    rng = np.random.default_rng(seed)
    p = np.clip(0.5 + np.array([[-0.15], [0.15]]) * rng.uniform(0.5, 1.5, size=n), 0.2, 0.8)
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    weights = [np.where(rows == 1, p[k], 1 - p[k]).prod(axis=1) for k in (0, 1)]
    X, y = np.vstack([rows, rows]), np.repeat([0, 1], len(rows))
    model = NaiveBayes("bernoulli", tradeoff=1, alpha=0.0)
    return p, model.fit(X, y, sample_weight=np.concatenate(weights))


def exact_error(model: NaiveBayes, p: np.ndarray) -> float:
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=p.shape[1])))
    decided = model.predict(rows)
    wrong = [np.where(rows == 1, p[k], 1 - p[k]).prod(axis=1) @ (decided != k) for k in (0, 1)]
    return 0.5 * sum(wrong)


def test_naive_bayes_is_as_near_its_limit_as_promised():
    n, delta = 6, 0.1
    p, limit = population(n)
    rng = np.random.default_rng(1)
    best = exact_error(limit, p)

    def drawn(m: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, size=m)
        return (rng.random((m, n)) < p[y]).astype(float), y

    mass = margin_mass(limit, *drawn(200_000), [0.0])
    m = 30_000
    bound = generative_excess_error(n, m, delta, 0.5, 0.2, mass)
    assert bound < 0.5
    excess = [
        exact_error(NaiveBayes("bernoulli", tradeoff=1, alpha=0.0).fit(*drawn(m)), p) - best
        for _ in range(40)
    ]
    assert np.mean(np.array(excess) > bound) <= delta
    assert min(excess) >= -1e-9  # the columns are independent: the limit is the best there is


def test_so_many_rows_bring_naive_bayes_so_near_to_its_limit():
    # Corollary 6: with the number of rows it gives, the excess error is at most what was asked.
    n, delta, epsilon = 5, 0.2, 0.02
    p = np.array([[0.3], [0.7]]) * np.ones(n)
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    share = [np.where(rows == 1, p[k], 1 - p[k]).prod(axis=1) / 2 for k in (0, 1)]
    odds = np.log(share[1] / share[0])

    def mass(tau: float) -> float:
        right = (share[1] * ((odds >= 0) & (odds <= tau * n))).sum()
        return float(right + (share[0] * ((odds <= 0) & (odds >= -tau * n))).sum())

    m = generative_sample_size(n, epsilon, delta, 0.5, 0.3, mass)
    assert mass(log_odds_perturbation(n, parameter_accuracy(n, m, delta, 0.5), 0.5, 0.3)) <= epsilon
    rng = np.random.default_rng(0)
    best = np.minimum(*share).sum()

    def excess(m: int) -> np.ndarray:
        found = []
        for _ in range(50):
            y = rng.integers(0, 2, size=m)
            X = (rng.random((m, n)) < p[y]).astype(float)
            decided = NaiveBayes("bernoulli", tradeoff=1, alpha=0.0).fit(X, y).predict(rows)
            found.append(np.where(decided == 1, share[0], share[1]).sum() - best)
        return np.array(found)

    assert np.mean(excess(m) > epsilon) <= delta
    assert np.mean(excess(m // 500) > epsilon) > delta  # of far fewer it is not: this could fail


@pytest.mark.slow
def test_naive_bayes_of_continuous_columns_is_as_near_its_limit_as_promised():
    rng = np.random.default_rng(0)
    n, delta, m = 2, 0.1, 1_000_000
    # Uniform on [0, .8] and on [.2, 1]: the classes share a variance of .8²/12.
    floor = 0.8**2 / 12

    def drawn(m: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, size=m)
        return 0.8 * rng.random((m, n)) + 0.2 * y[:, None], y

    def fitted(m: int) -> NaiveBayes:
        model = NaiveBayes("gaussian", tradeoff=1, shared_variance=True, var_smoothing=0)
        return model.fit(*drawn(m))

    limit = fitted(m)
    mass = margin_mass(limit, *drawn(200_000), [0.0])
    bound = generative_excess_error(n, m, delta, 0.5, floor, mass, kind="continuous")
    assert bound < 0.5
    X, y = drawn(200_000)
    best = 1.0 - limit.score(X, y)
    excess = np.array([1.0 - fitted(2_000).score(X, y) - best for _ in range(20)])
    assert np.mean(excess > bound) <= delta  # of far fewer rows even


def test_the_margin_mass_lies_in_its_band():
    n = 6
    p, limit = population(n)
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    odds = limit.decision_function(rows) / n
    taus = np.linspace(0.0, 0.5, 21)
    share = [np.where(rows == 1, p[k], 1 - p[k]).prod(axis=1) / 2 for k in (0, 1)]
    truth = np.array(
        [
            share[1] @ ((odds >= 0) & (odds <= t)) + share[0] @ ((odds <= 0) & (odds >= -t))
            for t in taus
        ]
    )
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(100):
        y = rng.integers(0, 2, size=1_000)
        X = (rng.random((1_000, n)) < p[y]).astype(float)
        found = margin_mass(limit, X, y, taus, confidence=0.9)
        inside += bool(((found.low <= truth + 1e-12) & (truth <= found.high + 1e-12)).all())
        np.testing.assert_allclose([found(t) for t in taus], found.high)
    assert inside >= 90


def test_rows_for_naive_bayes_grow_like_a_logarithm():
    sizes = [
        generative_sample_size(10**k, 0.1, 0.05, 0.5, 0.2, lambda tau: min(1.0, tau / 4))
        for k in range(2, 7)
    ]
    steps = np.diff(sizes)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.1)
    with pytest.raises(DataError, match="epsilon: expected more than the margin mass at 0"):
        generative_sample_size(10, 0.1, 0.05, 0.5, 0.2, lambda tau: 0.2)


# -- Proposition 5 -----------------------------------------------------------------------------


def test_margins_of_independent_and_of_repeated_columns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=20_000)
    independent = (rng.random((20_000, 16)) < 0.4 + 0.2 * y[:, None]).astype(float)
    independent[:, 12:] = rng.integers(0, 2, size=(20_000, 4))
    repeated = np.repeat(independent[:, :1], 16, axis=1)
    for X, order, share in ((independent, 1.0, 0.75), (repeated, 2.0, 1.0)):
        model = NaiveBayes("bernoulli", tradeoff=1).fit(X, y)
        growth = margin_growth(model, X, y, gamma=0.1)
        assert growth.informative_share == share
        assert growth.variance_order == pytest.approx(order, abs=0.05)
        # All columns: what the model's own log-odds have.
        odds = model.decision_function(X) - math.log(np.divide(*model.class_prior_[::-1]))
        signed = np.where(y == 1, odds, -odds)
        by_class = [signed[y == k] for k in (0, 1)]
        assert growth.mean[-1] == pytest.approx(np.mean([v.mean() for v in by_class]))
        assert growth.variance[-1] == pytest.approx(np.mean([v.var(ddof=1) for v in by_class]))


@pytest.mark.parametrize("n", [8, 64])
def test_chebyshevs_inequality_bounds_the_margin_mass(n):
    # Proposition 5: G(τ) ≤ Var / (mean - τn)² within each class, so it falls like 1/n.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=20_000)
    X = (rng.random((20_000, n)) < 0.3 + 0.4 * y[:, None]).astype(float)
    model = NaiveBayes("bernoulli", tradeoff=1).fit(X[:10_000], y[:10_000])
    growth = margin_growth(model, X[10_000:], y[10_000:])
    mean, variance = growth.mean[-1], growth.variance[-1]
    taus = np.array([0.0, 0.25, 0.5]) * mean / n
    bound = 1.05 * variance / (mean - taus * n) ** 2  # classes alike but for chance
    found = margin_mass(model, X[10_000:], y[10_000:], taus)
    assert (found.mass <= bound).all()
    assert (bound < 1.0).any()
    assert growth.mean[-1] / growth.mean[0] == pytest.approx(n)


def test_the_margin_of_some_columns_is_the_average_over_all_choices():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=500)
    X = rng.normal(size=(500, 4)) + 0.5 * y[:, None] + rng.normal(size=(500, 1))
    model = NaiveBayes("gaussian", tradeoff=1).fit(X, y)
    growth = margin_growth(model, X, y)
    from crossfade.theory.margins import _column_shares

    shares = _column_shares(model, X) * np.where(y == 1, 1.0, -1.0)[:, None]
    at = list(growth.sizes).index(2)
    pairs = [shares[:, list(pair)].sum(axis=1) for pair in itertools.combinations(range(4), 2)]
    means = [np.mean([v[y == k].mean() for k in (0, 1)]) for v in pairs]
    variances = [np.mean([v[y == k].var(ddof=1) for k in (0, 1)]) for v in pairs]
    assert growth.mean[at] == pytest.approx(np.mean(means))
    assert growth.variance[at] == pytest.approx(np.mean(variances))


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: parameter_sample_size(0, 0.1, 0.1, 0.5), "n_features: expected a whole"),
        (lambda: parameter_sample_size(3, 0.0, 0.1, 0.5), "epsilon: expected a finite"),
        (lambda: parameter_sample_size(3, 0.1, 1.0, 0.5), "delta: expected a finite number in"),
        (lambda: parameter_sample_size(3, 0.1, 0.1, 0.6), "prior_floor: expected the least share"),
        (lambda: parameter_sample_size(3, 0.1, 0.1, 0.5, -1), "smoothing: expected a pseudo"),
        (lambda: parameter_sample_size(3, 0.1, 0.1, 0.5, 1, "continuous"), "smoothing: expected 0"),
        (lambda: parameter_sample_size(3, 0.1, 0.1, 0.5, 0, "mixed"), "kind: expected 'discrete'"),
        (lambda: discriminative_excess_error(3, 0, 0.1), "m: expected a whole number"),
        (lambda: discriminative_excess_error(3, math.inf, 0.1), "m: expected a whole number"),
        (lambda: discriminative_excess_error("3", 9, 0.1), "n_features: expected a whole"),
        (lambda: log_odds_perturbation(3, 0.1, 0.5, 0.7), "parameter_floor: expected a number"),
        (lambda: log_odds_perturbation(3, 0.1, 0.5, 0.2, "mixed"), "kind: expected 'discrete'"),
    ],
)
def test_arguments_out_of_range_are_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_margins_are_of_two_classes():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    model = NaiveBayes("gaussian", tradeoff=1).fit(X, y)
    with pytest.raises(DataError, match="model: expected two classes, got 3"):
        margin_mass(model, X, y, 0.1)
    with pytest.raises(DataError, match="model: expected a fitted NaiveBayes"):
        margin_growth(ZeroOneLinearClassifier(), X, y)
