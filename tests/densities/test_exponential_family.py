"""What every density owes: derivatives, inverses, sums and estimates that fit together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from crossfade.densities import Bernoulli, Categorical, Poisson, reference_rows
from tests.densities.cases import (
    CASES,
    N_CLASSES,
    WITH_MISSING,
    bound_to,
    case,
    derivative,
    estimate,
    labels,
)

every_density = pytest.mark.parametrize("name", CASES)
with_missing = pytest.mark.parametrize("name", WITH_MISSING)


def direction(eta: np.ndarray, seed: int = 5) -> np.ndarray:
    """Return a direction along which η stays inside every domain for a step of 2e-3."""
    return np.random.default_rng(seed).uniform(-0.5, 0.5, eta.shape)


# -- the log-partition and its derivatives -----------------------------------------------------


@every_density
def test_mean_is_the_gradient_of_the_log_partition(name: str):
    bound, eta, _, _ = case(name)
    v = direction(eta)
    slope = derivative(lambda h: bound.density.log_partition(eta + h * v).sum(axis=1))
    assert_allclose((bound.density.mean(eta) * v).sum(axis=1), slope, rtol=1e-8, atol=1e-9)


@every_density
def test_each_factor_has_its_own_log_partition(name: str):
    bound, eta, _, _ = case(name)
    density = bound.density
    assert density.log_partition(eta).shape == (N_CLASSES, density.n_factors)
    for factor in range(density.n_factors):
        v = direction(eta) * (density.factors == factor)
        moved = density.log_partition(eta + 1e-3 * v) - density.log_partition(eta)
        others = np.delete(moved, factor, axis=1)
        assert_array_equal(others, np.zeros_like(others))


@with_missing
def test_pieces_of_the_surprise_sum_to_it_and_are_gone_with_their_cells(name: str):
    bound, eta, X, _ = case(name)
    density = bound.density
    pieces, amounts = density.surprise(X, eta), density.amounts(X)
    assert pieces.shape == (*amounts.shape, N_CLASSES)
    complete = ~np.isnan(X).any(axis=1)
    assert_allclose(
        pieces.sum(axis=1)[complete], -density.log_density(X, eta)[complete], rtol=1e-9, atol=1e-9
    )
    assert_array_equal(pieces[amounts == 0.0], 0.0)
    # Up to what rows with the same cells have in common, of incomplete rows as well.
    gap = pieces.sum(axis=1) + density.log_density(X, eta)
    for pattern in np.unique(np.isnan(X), axis=0):
        same = gap[(np.isnan(X) == pattern).all(axis=1)]
        assert_allclose(same, np.broadcast_to(same[0], same.shape), rtol=0, atol=1e-8)


@every_density
def test_hessian_is_the_derivative_of_the_mean(name: str):
    bound, eta, _, _ = case(name)
    v = direction(eta)
    bent = derivative(lambda h: bound.density.mean(eta + h * v))
    dense = bound.density.hessian(eta)
    assert dense.shape == (N_CLASSES, eta.shape[1], eta.shape[1])
    assert_allclose(np.einsum("kpq,kq->kp", dense, v), bent, rtol=1e-7, atol=1e-8)
    assert_allclose(bound.density.hessian_product(eta, v), bent, rtol=1e-7, atol=1e-8)


@every_density
def test_some_of_a_hessian_is_that_part_of_it(name: str):
    bound, eta, _, _ = case(name)
    index = np.random.default_rng(0).permutation(eta.shape[1])[: -(-eta.shape[1] // 2)]
    part = bound.density.hessian(eta)[:, index[:, None], index]
    assert_allclose(bound.density.some_hessian(eta, index), part, rtol=1e-14)


@every_density
def test_hessian_is_symmetric_and_positive_definite(name: str):
    bound, eta, _, _ = case(name)
    dense = bound.density.hessian(eta)
    assert_allclose(dense, dense.swapaxes(1, 2), rtol=1e-13)
    assert np.linalg.eigvalsh(dense).min() > 0.0


@every_density
def test_inverse_hessian_product_undoes_the_product(name: str):
    bound, eta, _, _ = case(name)
    v = direction(eta)
    back = bound.density.inverse_hessian_product(eta, bound.density.hessian_product(eta, v))
    assert_allclose(back, v, rtol=1e-9, atol=1e-10)


@every_density
def test_inverse_hessian_product_is_the_derivative_of_natural(name: str):
    bound, eta, _, _ = case(name)
    density, v = bound.density, 0.01 * direction(eta)
    mean = density.mean(eta)
    moved = derivative(lambda h: density.natural(mean + h * v))
    assert_allclose(density.inverse_hessian_product(eta, v), moved, rtol=1e-6, atol=1e-8)


@every_density
def test_natural_undoes_mean(name: str):
    bound, eta, _, _ = case(name)
    assert_allclose(bound.density.natural(bound.density.mean(eta)), eta, rtol=1e-10, atol=1e-12)


@every_density
def test_log_partition_is_infinite_outside_the_domain_and_never_nan(name: str):
    bound, eta, _, _ = case(name)
    for scale in (-1e300, -1e3, -1.0, 0.0, 1e3, 1e300):
        values = bound.density.log_partition(eta * scale)
        assert not np.isnan(values).any()
        assert not (values == -np.inf).any()
    if name not in {"bernoulli", "categorical", "poisson"}:  # whose domain is the whole space
        assert np.isinf(bound.density.log_partition(-eta)).any(axis=1).all()
    # Gradients there may be anything, quietly.
    bound.density.mean(-eta)
    bound.density.hessian_product(-eta, eta)


# -- rows --------------------------------------------------------------------------------------


@every_density
def test_scores_and_weighted_sums_are_products_with_the_statistics(name: str):
    bound, eta, X, _ = case(name)
    T = bound.density.sufficient_statistics(X)
    assert T.shape == (X.shape[0], bound.density.n_statistics)
    weights = np.random.default_rng(1).random((X.shape[0], N_CLASSES))
    assert_allclose(bound.density.scores(X, eta), T @ eta.T, rtol=1e-11, atol=1e-12)
    assert_allclose(bound.density.weighted_sums(X, weights), weights.T @ T, rtol=1e-11, atol=1e-11)


@every_density
def test_statistics_own_their_memory(name: str):
    bound, _, X, _ = case(name)
    assert not np.shares_memory(bound.density.sufficient_statistics(X), X)
    assert not np.shares_memory(bound.density.free_statistics(X), X)


@every_density
def test_no_rows_and_one_row(name: str):
    bound, eta, X, _ = case(name)
    for rows in (X[:0], X[:1]):
        n = rows.shape[0]
        assert bound.density.sufficient_statistics(rows).shape == (n, bound.density.n_statistics)
        assert bound.density.scores(rows, eta).shape == (n, N_CLASSES)
        assert bound.density.log_density(rows, eta).shape == (n, N_CLASSES)
        sums = bound.density.weighted_sums(rows, np.ones((n, N_CLASSES)))
        expected = bound.density.sufficient_statistics(rows).sum(axis=0)
        assert_allclose(sums, np.broadcast_to(expected, sums.shape), rtol=1e-12, atol=1e-13)


@every_density
def test_log_density_is_relative_log_density_and_base_measure(name: str):
    bound, eta, X, _ = case(name)
    density = bound.density
    T, partition = density.sufficient_statistics(X), density.log_partition(eta).sum(axis=1)
    expected = T @ eta.T - partition + density.log_base_measure(X).sum(axis=1, keepdims=True)
    assert density.log_base_measure(X).shape == (X.shape[0], density.n_factors)
    assert_allclose(density.log_density(X, eta), expected, rtol=1e-10, atol=1e-10)


@every_density
def test_free_statistics_are_the_untied_ones_and_linear_in_column_units(name: str):
    bound, eta, X, _ = case(name)
    density, free = bound.density, ~bound.density.tied
    T = density.free_statistics(X)
    assert_array_equal(T, density.sufficient_statistics(X)[:, free])
    coefficients, constant = density.column_units_coefficients(eta[:, free])
    in_units = density.column_units_statistics(X) @ coefficients.T + constant
    assert_allclose(in_units, T @ eta[:, free].T, rtol=1e-9, atol=1e-9)
    if density.linear_in_columns:
        assert_array_equal(density.column_units_statistics(X), X)


@every_density
def test_input_may_be_read_only_and_is_not_changed(name: str, unchanged):
    bound, eta, X, y = case(name)
    if bound.density.allows_missing:
        X[3, 0] = np.nan
    X, y, eta = unchanged(X, y, eta)
    weights = unchanged(np.ones((X.shape[0], N_CLASSES)))
    for array in (X, y, eta, weights):
        array.setflags(write=False)
    bound_to(CASES[name][0], X, y, weights[:, 0])
    bound.density.log_density(X, eta)
    bound.density.weighted_sums(X, weights)
    bound.density.natural(bound.density.mean(eta))
    for array in (X, y, eta, weights):
        array.setflags(write=True)


@every_density
def test_fortran_order_gives_the_same(name: str):
    bound, eta, X, _ = case(name)
    columns_first = np.asfortranarray(X)
    assert_allclose(
        bound.density.scores(columns_first, eta), bound.density.scores(X, eta), rtol=1e-13
    )


# -- sums --------------------------------------------------------------------------------------


def assert_same_bound(one, other, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """Two bound densities are the same but for rounding."""
    for field in ("counts", "sums", "prior_counts", "prior_sums", "statistic_mean"):
        assert_allclose(
            getattr(one, field), getattr(other, field), rtol=rtol, atol=atol, err_msg=field
        )
    assert_allclose(one.statistic_scale, other.statistic_scale, rtol=1e-7)


@every_density
def test_sums_are_those_of_the_statistics(name: str):
    bound, _, X, y = case(name)
    T, tied = bound.density.sufficient_statistics(X), bound.density.tied
    by_class = np.array([T[y == k].sum(axis=0) for k in range(N_CLASSES)])
    assert_allclose(bound.sums[:, ~tied], by_class[:, ~tied], rtol=1e-10, atol=1e-10)
    assert_allclose(bound.sums.sum(axis=0), T.sum(axis=0), rtol=1e-10, atol=1e-10)
    counts = np.bincount(y, minlength=N_CLASSES)
    assert_array_equal(bound.counts, np.repeat(counts[:, None], bound.density.n_factors, axis=1))


@every_density
def test_statistics_are_standardised_by_their_mean_and_deviation(name: str):
    bound, _, X, _ = case(name)
    T = bound.density.sufficient_statistics(X)
    assert_allclose(bound.statistic_mean, T.mean(axis=0), rtol=1e-10, atol=1e-12)
    assert_allclose(bound.statistic_scale, T.std(axis=0), rtol=1e-10)


@every_density
def test_scales_are_left_out_when_not_asked_for(name: str):
    bound, _, X, y = case(name)
    without = bound_to(CASES[name][0], X, y, scales=False)
    assert_array_equal(without.sums, bound.sums)
    if not isinstance(bound.density, Categorical):  # has them at no cost
        second = without.statistic_scale != bound.statistic_scale
        assert_array_equal(without.statistic_scale[second], np.ones(second.sum()))


@every_density
def test_summaries_of_blocks_add_up(name: str):
    density, columns = CASES[name]
    X, y = columns(90), labels(90)
    w = np.random.default_rng(2).uniform(0.2, 3.0, 90)
    begun = density.begin(X[:5])
    whole = begun.summary(X, y, w, N_CLASSES)
    parts = [begun.summary(X[s], y[s], w[s], N_CLASSES) for s in np.split(np.arange(90), [1, 40])]
    assert_same_bound(begun.bind(added(added(parts[0], parts[1]), parts[2])), begun.bind(whole))


def added(one, other):
    """Add two summaries as block sums do."""
    if isinstance(one, tuple):
        return tuple(added(a, b) for a, b in zip(one, other, strict=True))
    return one + other


@every_density
def test_weights_are_repetition_order_is_nothing_and_zero_weight_is_absence(name: str):
    density, columns = CASES[name]
    X, y = columns(60), labels(60)
    rng = np.random.default_rng(3)
    w = rng.integers(0, 4, 60)
    weighted = bound_to(density, X, y, w.astype(float))
    repeated = bound_to(density, np.repeat(X, w, axis=0), np.repeat(y, w))
    assert_same_bound(weighted, repeated)
    order = rng.permutation(60)
    assert_same_bound(bound_to(density, X[order], y[order], w[order] * 1.0), weighted)
    assert_same_bound(
        bound_to(density, X[w > 0], y[w > 0], w[w > 0] * 1.0, head=X[w == 0]), weighted
    )


@every_density
def test_unit_weights_are_no_weights(name: str):
    density, columns = CASES[name]
    X, y = columns(60), labels(60)
    assert_same_bound(bound_to(density, X, y, np.ones(60)), bound_to(density, X, y))


# -- estimates ---------------------------------------------------------------------------------


def log_likelihood(bound, eta: np.ndarray) -> float:
    """The smoothed log-likelihood, less the base measure."""
    counts, sums = bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    return float((eta * sums).sum() - (bound.density.log_partition(eta) * counts).sum())


def gradient(bound, eta: np.ndarray) -> np.ndarray:
    """Its gradient, tied parameters moving together."""
    counts = (bound.counts + bound.prior_counts)[:, bound.density.factors]
    slope = bound.sums + bound.prior_sums - counts * bound.density.mean(eta)
    tied = bound.density.tied
    slope[:, tied] = slope[:, tied].sum(axis=0) / slope.shape[0]
    return slope


@every_density
def test_estimate_maximises_the_smoothed_likelihood(name: str):
    bound, eta, _, y = case(name)
    assert np.abs(gradient(bound, eta)).max() <= 1e-9 * y.size
    tied = bound.density.tied
    assert_array_equal(eta[:, tied], np.repeat(eta[:1, tied], N_CLASSES, axis=0))
    best = log_likelihood(bound, eta)
    for seed in range(5):
        step = 0.05 * direction(eta, seed)
        step[:, tied] = step[0, tied]
        assert log_likelihood(bound, eta + step) < best


@every_density
def test_a_class_without_rows_gets_finite_parameters(name: str):
    density, columns = CASES[name]
    X, y = columns(60), labels(60)
    bound = bound_to(density, X, np.where(y == 2, 1, y), n_classes=3)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert np.isfinite(bound.density.log_density(X, eta)).all()


# -- draws -------------------------------------------------------------------------------------


@every_density
def test_draws_have_the_mean_statistics_and_are_repeatable(name: str):
    bound, eta, X, _ = case(name)
    density, size = bound.density, 20_000
    for k in range(N_CLASSES):
        drawn = density.sample(eta[k], size, np.random.default_rng(k))
        assert drawn.shape == (size, X.shape[1])
        density.check(drawn)
        T = density.sufficient_statistics(drawn)
        error = T.mean(axis=0) - density.mean(eta)[k]
        deviation = np.sqrt(np.diagonal(density.hessian(eta)[k]))
        assert_allclose(error / deviation, 0.0, atol=5.0 / np.sqrt(size))
        assert_allclose(T.std(axis=0) / deviation, 1.0, atol=0.1)
    again = density.sample(eta[0], 5, np.random.default_rng(0))
    assert_array_equal(again, density.sample(eta[0], 5, np.random.default_rng(0)))


# -- missing cells -----------------------------------------------------------------------------


def holed(X: np.ndarray, seed: int = 4, share: float = 0.3) -> np.ndarray:
    """Return X with missing cells, one row and never a whole column empty."""
    holes = np.random.default_rng(seed).random(X.shape) < share
    holes[0], holes[1] = True, False
    return np.where(holes, np.nan, X)


@with_missing
def test_missing_factors_are_left_out_of_the_product(name: str):
    bound, eta, X, _ = case(name)
    density, H = bound.density, holed(X)
    present = ~np.isnan(H)[:, np.argsort(density.feature_factors)]
    by_factor = present.astype(float)
    whole = np.array(
        [
            density.relative_log_density(np.where(keep, X, np.nan), eta)
            for keep in np.eye(X.shape[1], dtype=bool)
        ]
    )  # (features, rows, classes): one column at a time
    expected = np.einsum("jnk,nj->nk", whole[np.argsort(density.feature_factors)], by_factor)
    assert_allclose(density.relative_log_density(H, eta), expected, rtol=1e-9, atol=1e-10)
    assert_array_equal(density.relative_log_density(H, eta)[0], np.zeros(N_CLASSES))
    assert_array_equal(density.log_density(H, eta)[0], np.zeros(N_CLASSES))
    base = density.log_base_measure(H)
    assert_array_equal(base, np.where(by_factor > 0, density.log_base_measure(X), 0.0))


@with_missing
def test_missing_cells_leave_sums_and_counts_of_the_present(name: str):
    density, columns = CASES[name]
    X, y = columns(80), labels(80)
    H = holed(X)
    w = np.random.default_rng(5).uniform(0.5, 2.0, 80)
    bound = bound_to(density, H, y, w)
    T = bound.density.sufficient_statistics(H)
    assert not np.isnan(T).any()
    factors = bound.density.feature_factors
    for k in range(N_CLASSES):
        counts = (w[:, None] * ~np.isnan(H))[y == k].sum(axis=0)
        assert_allclose(bound.counts[k, factors], counts, rtol=1e-12)
    assert_allclose(bound.sums.sum(axis=0), w @ T, rtol=1e-9, atol=1e-10)
    eta = estimate(bound)
    assert np.abs(gradient(bound, eta)).max() <= 1e-9 * w.sum()


@with_missing
def test_a_column_missing_altogether_or_in_one_class_is_harmless(name: str):
    density, columns = CASES[name]
    X, y = columns(60), labels(60)
    H = X.copy()
    H[y == 1, 0] = np.nan
    H[:, 1] = np.nan
    bound = bound_to(density, H, y)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    assert np.isfinite(bound.statistic_scale).all()
    assert (bound.statistic_scale > 0).all()
    values = bound.density.relative_log_density(X, eta)
    assert np.isfinite(values).all()
    # The empty column says the same of every class.
    without = bound.density.relative_log_density(
        np.where(np.arange(X.shape[1]) == 1, np.nan, X), eta
    )
    said = values - without
    assert_allclose(said, np.repeat(said[:, :1], N_CLASSES, axis=1), rtol=1e-12, atol=1e-12)


# -- the head ----------------------------------------------------------------------------------


@every_density
def test_any_rows_serve_as_head(name: str):
    density, columns = CASES[name]
    X, y = columns(60), labels(60)
    whole = bound_to(density, X, y, head=X)
    assert_same_bound(bound_to(density, X, y, head=X[7:8]), whole)


@given(n=st.integers(0, 300), d=st.integers(0, 3), size=st.integers(1, 70))
def test_reference_rows_are_spread_over_the_table(n: int, d: int, size: int):
    X = np.arange(n)[:, None] + np.zeros((n, d))
    head = reference_rows(X, size)
    assert head.shape == (min(n, size), d)
    if n and d and size > 1:
        assert head[-1, 0] == n - 1 or size >= n


def test_reference_rows_find_the_first_cell_of_a_late_column():
    X = np.full((1000, 2), np.nan)
    X[:, 0] = 1.0
    X[778, 1] = 5.0
    assert_array_equal(reference_rows(X, 10)[0], [1.0, 5.0])
    assert np.isnan(X[0, 1])


@pytest.mark.parametrize(
    "density",
    [Bernoulli(), Poisson(), Categorical([3])],
    ids=["bernoulli", "poisson", "categorical"],
)
def test_curvature_lost_to_rounding_still_has_an_inverse(density):
    """A probability that is one to rounding has no variance; fits must go on from there."""
    bound = density.begin(np.array([[0.0], [1.0]]))
    n = bound.n_statistics
    for far in (-1e3, -60.0, 60.0):
        eta = np.vstack([np.full(n, far), np.zeros(n)])
        got = bound.inverse_hessian_product(eta, np.ones((2, n)))
        assert np.isfinite(got).all()
        alone = bound.inverse_hessian_product(eta[1:], np.ones((1, n)))
        assert_allclose(got[1:], alone, rtol=1e-6)
