"""Categories: many levels, more levels later, levels numbered otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade.blocks import block_sum
from crossfade.densities import Categorical, Product
from crossfade.densities.categorical import Tally
from crossfade.errors import DataError, DomainError
from tests.densities.cases import N_CLASSES, bound_to, coded_columns, estimate, labels

LEVELS = [4, 1, 2]


def test_probabilities_are_smoothed_shares():
    X, y = coded_columns(100), labels(100)
    bound = bound_to(Categorical(LEVELS, alpha=0.5), X, y)
    got = bound.density.level_probabilities(estimate(bound))
    for k in range(N_CLASSES):
        expected = [
            (np.bincount(X[y == k, j].astype(int), minlength=n) + 0.5) / ((y == k).sum() + 0.5 * n)
            for j, n in enumerate(LEVELS)
        ]
        assert_allclose(got[k], np.concatenate(expected), rtol=1e-12)


def test_nothing_depends_on_how_levels_are_numbered():
    X, y = coded_columns(100), labels(100)
    new_code = np.array([2, 0, 3, 1])
    renumbered = X.copy()
    renumbered[:, 0] = new_code[X[:, 0].astype(int)]
    one, other = (bound_to(Categorical(LEVELS), Z, y) for Z in (X, renumbered))
    assert_allclose(
        other.density.log_density(renumbered, estimate(other)),
        one.density.log_density(X, estimate(one)),
        rtol=1e-12,
    )

    # The statistics are the same columns in another order, so a penalty on them is the same too.
    def statistics(bound, Z):
        T = (bound.density.sufficient_statistics(Z) - bound.statistic_mean) / bound.statistic_scale
        return T[:, np.lexsort(T)]

    assert_allclose(statistics(one, X), statistics(other, renumbered), rtol=1e-12)


def test_the_base_is_the_most_frequent_level():
    X = np.array([0, 1, 1, 2, 2, 2, 1, 1])[:, None] * 1.0
    bound = bound_to(Categorical([4]), X, np.arange(8) % 2, n_classes=2)
    assert_array_equal(
        bound.density.sufficient_statistics(np.arange(4.0)[:, None]),
        [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]],
    )


def test_a_level_never_seen_in_a_class_without_smoothing_is_next_to_impossible():
    X, y = np.array([0, 0, 1, 2.0])[:, None], np.array([0, 0, 1, 1])
    bound = bound_to(Categorical([4], alpha=0.0), X, y, n_classes=2)
    eta = estimate(bound)
    assert np.isfinite(eta).all()
    values = bound.density.log_density(np.arange(4.0)[:, None], eta)
    assert_allclose(values[0], [0.0, np.log(1e-15)], atol=1e-14)
    assert_allclose(values[1], [np.log(1e-15), np.log(0.5)], atol=1e-14)
    assert_allclose(values[3], np.log(1e-15), atol=1e-14)  # no class has seen it: no preference


@pytest.mark.parametrize("n_levels", [3, 130])
def test_the_curvature_of_few_and_of_many_levels_is_that_of_its_products(n_levels: int):
    rng = np.random.default_rng(0)
    density = Categorical([n_levels, 4]).begin(np.zeros((1, 2)))
    eta = rng.normal(size=(2, density.n_statistics))
    dense = density.hessian(eta)
    for v in np.eye(density.n_statistics)[::7]:
        product = density.hessian_product(eta, np.stack([v, v]))
        assert_allclose(dense @ v, product, atol=1e-15)


def test_a_million_levels_need_no_table_of_rows_by_levels():
    n, n_levels = 6_000, 1_000_000
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(0, n_levels, n), rng.integers(0, 3, n)] * 1.0
    y = rng.integers(0, 2, n)
    density = Categorical([n_levels, 3]).begin(X[:2])
    bound = density.bind(block_sum(lambda s: density.summary(X[s], y[s], None, 2), n))
    eta = estimate(bound)
    values = bound.density.relative_log_density(X[:50], eta)
    first = X[:, 0].astype(int)
    expected = np.empty((50, 2))
    for k in range(2):
        table = [
            np.bincount(first[y == k], minlength=n_levels),
            np.bincount(X[y == k, 1].astype(int)),
        ]
        expected[:, k] = sum(
            np.log((t[X[:50, j].astype(int)] + 1) / (t.sum() + t.size)) for j, t in enumerate(table)
        )
    assert_allclose(values, expected, rtol=1e-10)
    v = rng.normal(size=eta.shape)
    back = bound.density.inverse_hessian_product(eta, bound.density.hessian_product(eta, v))
    assert_allclose(back, v, rtol=1e-6, atol=1e-6)
    drawn = bound.density.sample(eta[0], 10, rng)
    bound.density.check(drawn)
    assert not bound.density.forms_statistics


def test_tallies_add_up_to_the_table():
    rng = np.random.default_rng(1)
    shape = (2, 50_000)
    total, table = None, np.zeros(shape)
    for _ in range(60):
        positions, amounts = rng.integers(0, 100_000, 2_500), rng.random(2_500)
        np.add.at(table.reshape(-1), positions, amounts)
        piece = Tally(shape, (positions,), (amounts,)).compact()
        total = piece if total is None else total + piece
    assert sum(p.size for p in total.positions) < 250_000  # merged on the way
    assert_allclose(total.table(), table, rtol=1e-12)


@pytest.mark.parametrize("levels", [[5, 1, 2], [4, 3, 60_000], [30_000, 2, 30_000]])
def test_widening_is_summing_with_more_levels_from_the_start(levels: list[int]):
    X, y = coded_columns(80), labels(80)
    later = X.copy()
    later[:20, 0] = levels[0] - 1
    later[:, 2] = levels[2] - 1
    narrow = Categorical(LEVELS).begin(X)
    wide, summary = narrow.widen(narrow.summary(X, y, None, 3), levels)
    (table,), (new,) = summary, wide.summary(later, y, None, 3)
    got = wide.bind((table + new,))
    both = bound_to(Categorical(levels), np.vstack([X, later]), np.concatenate([y, y]))
    assert_array_equal(got.sums, both.sums)
    assert_array_equal(got.counts, both.counts)
    assert_array_equal(got.prior_counts, both.prior_counts)
    again, same = wide.widen(summary, levels)
    assert_array_equal(again.bind(same).sums, wide.bind(summary).sums)


def test_a_product_widens_its_categorical_columns():
    X, y = coded_columns(80)[:, [2, 0]], labels(80)
    product = Product([(Categorical([4]), [1]), (Categorical([2]), [0])]).begin(X)
    wide, summary = product.widen(product.summary(X, y, None, 3), {1: 6})
    assert [part.levels for part, _ in wide.parts] == [(6,), (2,)]
    direct = bound_to(Product([(Categorical([6]), [1]), (Categorical([2]), [0])]), X, y)
    assert_array_equal(wide.bind(summary).sums, direct.sums)
    X[0, 1] = 5.0
    wide.summary(X, y, None, 3)


def test_refusals():
    with pytest.raises(
        DataError, match=r"levels: expected whole numbers of at least 1, got \[3, 0\]"
    ):
        Categorical([3, 0])
    with pytest.raises(
        DataError, match=r"levels: expected one number for each of 3 columns, got 2"
    ):
        Categorical([3, 2]).begin(np.zeros((1, 3)))
    with pytest.raises(DataError, match=r"alpha: expected a finite number of at least 0, got -1"):
        Categorical([3], alpha=-1)
    begun = Categorical(LEVELS).begin(np.zeros((1, 3)))
    summary = begun.summary(np.zeros((1, 3)), np.array([0]), None, 1)
    with pytest.raises(DataError, match=r"levels: expected 3 numbers no less than \(4, 1, 2\)"):
        begun.widen(summary, [4, 1, 1])
    for bad in (4.0, -1.0, 0.5, np.inf):
        X = np.zeros((2, 3))
        X[1, 0] = bad
        message = rf"column 0: expected codes 0 … levels - 1, got {bad!r}; make cells of unknown"
        with pytest.raises(DomainError, match=message):
            begun.summary(X, np.array([0, 0]), None, 1)
