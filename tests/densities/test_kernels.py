"""Compiled loops equal their NumPy twins, whatever the memory looks like."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from crossfade import NaiveBayes
from crossfade._compiled import Kernel
from crossfade.blocks import block_sum, threads
from crossfade.densities import Gaussian, MultivariateGaussian, kernels
from crossfade.errors import DomainError
from crossfade.table.columnwise import ColumnArrays
from tests.densities.cases import estimate

N_CLASSES = 3


def rows(n: int, d: int = 5, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, (n, d))
    X[rng.random((n, d)) < missing] = np.nan
    return X


def both(kernel: Kernel, *arguments):
    """Return what a kernel's machine code and its twin make of these arguments."""
    compiled = Kernel(
        kernel.py_func, kernel.signatures, kernel.twin, lambda *_: True, kernel.targetoptions
    )
    given = [np.empty(0) if a is None else a for a in arguments]
    return compiled(*arguments), kernel.twin(*given)


MEMORY = {
    "c": lambda X: X,
    "fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: np.nan_to_num(X).round().astype(np.int32),
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X: X[::-1, ::-1],
    "read-only": lambda X: frozen(X.copy()),
    "unaligned": lambda X: unaligned(X),
}


def frozen(X: np.ndarray) -> np.ndarray:
    X.setflags(write=False)
    return X


def unaligned(X: np.ndarray) -> np.ndarray:
    buffer = np.empty(X.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(X.shape)
    buffer[:] = X
    return buffer


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fourth", [False, True])
def test_grouped_moments(memory: str, missing: float, n: int, weighted: bool, fourth: bool):
    X = MEMORY[memory](rows(n, missing=missing))
    codes = np.random.default_rng(1).integers(0, N_CLASSES, n).astype(np.int32)
    weights = np.random.default_rng(2).random(n) if weighted else None
    arguments = (X, codes, weights, np.full(5, 2.5), N_CLASSES, fourth)
    fast, slow = both(kernels.grouped_moments, *arguments)
    for got, expected in zip(fast, slow, strict=True):
        assert got.dtype == np.float64
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", ["c", "read-only", "every other", "unaligned"])
@pytest.mark.parametrize("n", [0, 1, 2500])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fourth", [False, True])
def test_column_moments(memory: str, n: int, weighted: bool, fourth: bool):
    column = {"every other": lambda x: np.repeat(x, 2)[::2]}.get(memory) or MEMORY[memory]
    rng = np.random.default_rng(1)
    weights = rng.random(n) if weighted else None
    members = np.eye(N_CLASSES)[:, rng.integers(0, N_CLASSES, n)]
    members *= 1.0 if weights is None else weights
    arguments = (column(rows(n, 1)[:, 0]), members, weights, 2.5, fourth)
    for got, expected in zip(*both(kernels.column_moments, *arguments), strict=True):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 300, 9000])
@pytest.mark.parametrize("missing", [0.0, 0.01])
@pytest.mark.parametrize("n_classes", [2, 9])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fourth", [False, True])
def test_columns_that_lie_apart_have_the_moments_of_their_matrix(
    n: int, missing: float, n_classes: int, weighted: bool, fourth: bool
):
    X, rng = rows(n, missing=missing), np.random.default_rng(2)
    apart = ColumnArrays(tuple(frozen(x.copy()) for x in X.T))
    codes = rng.integers(0, n_classes, n)
    weights = rng.random(n) if weighted else None
    arguments = codes, weights, np.full(5, 2.5), n_classes, fourth
    for got, expected in zip(
        kernels.moments(apart, *arguments),
        kernels.grouped_moments_numpy(
            X, codes, weights if weighted else np.empty(0), *arguments[2:]
        ),
        strict=True,
    ):
        assert got.flags.c_contiguous
        assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    places = np.array([3, 0])
    assert_array_equal(np.asarray(apart.at(places)), X[:, places])
    assert_array_equal(apart[rng.permutation(n)[:7]].shape, (min(n, 7), 5))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_quadratic_scores(memory: str, missing: float, n: int):
    X = MEMORY[memory](rows(n, missing=missing))
    rng = np.random.default_rng(1)
    location, inverse = rng.normal(size=5), rng.random(5)
    parameters = [frozen(rng.normal(size=(N_CLASSES, 5))) for _ in range(3)]
    fast, slow = both(kernels.quadratic_scores, X, location, inverse, *parameters)
    assert_allclose(fast, slow, rtol=1e-11, atol=1e-11)


def test_moments_of_missing_cells_are_those_of_the_present():
    X, codes, shift = rows(50, missing=0.4), np.arange(50) % N_CLASSES, np.full(5, 1.5)
    for sums in both(kernels.grouped_moments, X, codes, None, shift, N_CLASSES, True):
        counts, first, second, third, fourth = sums
        for k in range(N_CLASSES):
            group = X[codes == k] - shift
            assert_array_equal(counts[k], (~np.isnan(group)).sum(axis=0))
            assert_allclose(first[k], np.nansum(group, axis=0), rtol=1e-12)
            assert_allclose(second[k], np.nansum(group**2, axis=0), rtol=1e-12)
        assert_allclose(third, np.nansum((X - shift) ** 3, axis=0), rtol=1e-12)
        assert_allclose(fourth, np.nansum((X - shift) ** 4, axis=0), rtol=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_gaussian_gives_the_same_from_both(missing: float, monkeypatch: pytest.MonkeyPatch):
    X, y = rows(3000, 40, missing), np.arange(3000) % N_CLASSES
    results = []
    for worth in (0, 10**12):
        monkeypatch.setattr(kernels, "MOMENT_CELLS", worth)
        monkeypatch.setattr(kernels, "SCORE_CELLS", worth)
        begun = Gaussian().begin(X[:3])
        summary = block_sum(lambda s, b=begun: b.summary(X[s], y[s], None, N_CLASSES), 3000)
        bound = begun.bind(summary)
        eta = estimate(bound)
        values = bound.density.relative_log_density(X, eta)
        results.append((bound.sums, bound.statistic_scale, eta, values))
    for one, other in zip(*results, strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_large_blocks_are_compiled_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch):
    used = []
    real = Kernel._machine_code

    def spy(kernel, index):
        used.append(kernel.__name__)
        return real(kernel, index)

    monkeypatch.setattr(Kernel, "_machine_code", spy)
    X, y = rows(2048, 40), np.arange(2048) % N_CLASSES
    begun = Gaussian().begin(X)
    begun.summary(X[:100], y[:100], None, N_CLASSES)
    assert used == []
    bound = begun.bind(begun.summary(X, y, None, N_CLASSES))
    bound.density.scores(X, estimate(bound))
    assert used == ["grouped_moments", "quadratic_scores"]


def test_sums_do_not_depend_on_the_number_of_threads():
    X, y = rows(9000, 40), np.arange(9000) % N_CLASSES
    begun = Gaussian().begin(X[:3])

    def summed():
        return block_sum(lambda s: begun.summary(X[s], y[s], None, N_CLASSES), 9000)

    with threads(1):
        one = summed()
    with threads(3):
        three = summed()
    for a, b in zip(one, three, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("n", [20, 2048])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_infinite_cells_are_found_in_small_and_large_blocks(n: int, missing: float):
    X = rows(n, 40, missing)
    X[n // 2, 7] = np.inf
    X[n // 3, 7] = -np.inf
    X[3, 11] = -np.inf
    begun = Gaussian().begin(X)
    with pytest.raises(DomainError, match=r"columns 7, 11: expected finite numbers, got -?inf"):
        begun.summary(X, np.arange(n) % N_CLASSES, None, N_CLASSES)


def test_cells_too_large_for_their_powers_are_named():
    X = rows(20, 3)
    X[4, 1] = 1e100
    with pytest.raises(DomainError, match=r"column 1: expected numbers with finite fourth powers"):
        Gaussian().begin(X).summary(X, np.arange(20) % N_CLASSES, None, N_CLASSES)


@pytest.mark.parametrize(
    "density", [Gaussian(), *map(MultivariateGaussian, ("full", "diagonal", "spherical"))]
)
def test_cells_too_small_for_their_powers_are_named(density):
    codes = np.arange(20) % N_CLASSES
    X = rows(20, 3)
    for size in (1e-60, 1e-80, 1e-140):
        begun = density.begin(X * [1.0, size, 1.0])
        sums = begun.summary(X * [1.0, size, 1.0], codes, None, N_CLASSES)
        if size == 1e-60:
            expected = density.begin(X).bind(density.begin(X).summary(X, codes, None, N_CLASSES))
            found = begun.bind(sums)
            np.testing.assert_allclose(found.statistic_scale, expected.statistic_scale, rtol=1e-9)
            continue
        with pytest.raises(DomainError, match=r"column 1: expected numbers that spread by 1e-75"):
            begun.bind(sums)


@pytest.mark.parametrize("central", [False, True])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_covariances_of_products(d: int, central: bool):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, d))
    m = np.zeros(d) if central else rng.normal(size=d)
    fast, slow = both(kernels.product_covariances, frozen(A @ A.T), frozen(m), *np.tril_indices(d))
    assert_allclose(fast, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_moments_of_many_classes_are_summed_without_a_zero_for_each(weighted, missing, monkeypatch):
    X = rows(500, missing=missing)
    codes = np.arange(500) % N_CLASSES
    weights = np.linspace(0.5, 2.0, 500) if weighted else np.empty(0)
    given = (X, codes, weights, np.full(5, 3.0), N_CLASSES, True)
    dense = kernels.grouped_moments_numpy(*given)
    monkeypatch.setattr(kernels, "_SPARSE_CELLS", 0)
    for one, other in zip(kernels.grouped_moments_numpy(*given), dense, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-10)


def test_memory_grows_with_rows_plus_classes_and_not_with_their_product():
    n_classes = 10_000
    X = rows(2 * n_classes, d=2)
    y = np.arange(len(X)) % n_classes
    tracemalloc.start()
    model = NaiveBayes(tradeoff=1).fit(X, y)
    model.predict_proba(X[:50])  # 4 MB of posteriors
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e7  # a one-hot block of 2,048 rows alone has 1.6e8 bytes
