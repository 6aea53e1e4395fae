"""Compiled loops over rows equal their NumPy twins, and both equal SciPy's functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from numpy.testing import assert_allclose, assert_array_equal

from crossfade import NaiveBayes, rowwise
from crossfade._compiled import Kernel
from crossfade.blocks import workspace
from crossfade.rowwise import entries, posteriors

N = posteriors.FEW_ROWS + 13  # enough for the compiled loops, and no multiple of their tiles

#: Linear predictors and scores: ordinary, tiny, huge, and the ends of the doubles.
EXTREMES = [0.0, -0.0, 1e-320, -1e-320, 1e-17, 36.0, -36.0, 708.0, -708.0, 709.5, -709.5, -745.0]
EXTREMES += [800.0, -800.0, 1e300, -1e300]


def values(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    array = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, size=shape)
    array.reshape(-1)[: len(EXTREMES)] = EXTREMES
    return array


@pytest.fixture(params=["compiled", "numpy"])
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the compiled loops, and with their specification."""
    if request.param == "numpy":
        monkeypatch.setattr(posteriors, "FEW_ROWS", 10**9)
    return request.param


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_two_classes(twin: str):
    d = values(N)
    posterior, log_sum = d.copy(), np.empty(N)
    rowwise.two_classes(posterior, log_sum)
    assert_allclose(posterior, scipy.special.expit(d), rtol=2e-15, atol=1e-307)
    assert_allclose(log_sum, np.logaddexp(0.0, d), rtol=2e-15, atol=1e-307)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 10])
@pytest.mark.parametrize("reference", [False, True])
def test_softmax(twin: str, n_classes: int, reference: bool):
    scores = values(N, n_classes)
    full = np.column_stack([scores, np.zeros(N)]) if reference else scores
    expected_sum = scipy.special.logsumexp(full, axis=1)
    expected = scipy.special.softmax(full, axis=1)[:, :n_classes]
    posterior, log_sum = scores.copy(), np.empty(N)
    rowwise.softmax(posterior, log_sum, reference)
    assert_allclose(posterior, expected, rtol=4e-15, atol=1e-306)
    # Scores of 36 and 0, say: what the smaller adds is a rounding of the larger.
    assert_allclose(log_sum, expected_sum, rtol=4e-15, atol=1e-15)
    if not reference:
        assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-14)


def test_an_impossible_class_and_an_unknown_score(twin: str):
    scores = np.zeros((N, 3))
    scores[0] = [-np.inf, 0.0, 0.0]
    scores[1] = [np.nan, 0.0, 0.0]
    log_sum = np.empty(N)
    rowwise.softmax(scores, log_sum, False)
    assert_allclose(scores[0], [0.0, 0.5, 0.5])
    assert np.isnan(scores[1]).any()
    assert np.isnan(log_sum[1])
    d = np.zeros(N)
    d[:3] = [np.inf, -np.inf, np.nan]
    rowwise.two_classes(d, log_sum)
    assert_array_equal(d[:3], [1.0, 0.0, np.nan])
    assert_array_equal(log_sum[:3], [np.inf, 0.0, np.nan])


def test_logistic_loss(twin: str):
    rng = np.random.default_rng(3)
    eta = values(N)
    trials = rng.integers(1, 9, N).astype(float)
    successes = rng.binomial(trials.astype(int), 0.5).astype(float)
    loss, slope = np.empty(N), np.empty(N)
    rowwise.logistic_loss(eta, successes, trials, loss, slope)
    failures = trials - successes
    assert_allclose(
        loss,
        successes * np.logaddexp(0.0, -eta) + failures * np.logaddexp(0.0, eta),
        rtol=4e-15,
        atol=1e-306,
    )
    expected = failures * scipy.special.expit(eta) - successes * scipy.special.expit(-eta)
    # Successes and failures of one row pull against each other, and rounding is what remains.
    both = (successes > 0) & (failures > 0)
    assert_allclose(slope[~both], expected[~both], rtol=4e-15, atol=1e-306)
    assert_allclose(slope[both], expected[both], rtol=4e-15, atol=4e-15)
    assert_allclose(
        rowwise.logistic_information(eta, trials),
        trials * scipy.special.expit(eta) * scipy.special.expit(-eta),
        rtol=4e-15,
        atol=1e-306,
    )


def test_what_was_not_counted_costs_nothing_at_infinity(twin: str):
    eta = np.tile([np.inf, -np.inf], N)
    successes = np.tile([2.0, 0.0], N)
    loss, slope = np.empty(2 * N), np.empty(2 * N)
    rowwise.logistic_loss(eta, successes, np.full(2 * N, 2.0), loss, slope)
    assert_array_equal(loss, 0.0)
    assert_array_equal(slope, 0.0)


@pytest.mark.parametrize("lies", ["by rows", "by columns"])
@pytest.mark.parametrize("with_offset", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_pass_is_what_its_parts_are(twin: str, kind: str, with_offset: bool, lies: str):
    rng = np.random.default_rng(4)
    X, slopes = rng.normal(size=(N, 7)), rng.normal(size=7)
    if lies == "by columns":  # of more rows
        X = np.asfortranarray(np.repeat(X, 2, axis=0))[:N]
    size = rng.uniform(1.0, 5.0, N)
    y = size * rng.random(N)
    offset = rng.normal(size=N) if with_offset else None
    eta = X @ slopes + 0.3 + (0.0 if offset is None else offset)
    if kind == "logistic":
        run, mean = rowwise.logistic_pass, size * scipy.special.expit(eta)
        loss = size * np.logaddexp(0.0, eta) - y * eta
    else:
        run, mean = rowwise.poisson_pass, size * np.exp(eta)
        loss = mean - y * eta
    curvature = mean * (1.0 - mean / size) if kind == "logistic" else mean
    information = np.empty(N)
    value, total, sums = run(X, slopes, 0.3, offset, y, size, information)
    assert_allclose(information, curvature, rtol=1e-10, atol=1e-14)
    assert (value, total) == run(X, slopes, 0.3, offset, y, size, None)[:2]
    assert_allclose(value, loss.sum(), rtol=1e-13)
    assert_allclose(total, (mean - y).sum(), rtol=1e-10)
    assert_allclose(sums, (mean - y) @ X, rtol=1e-10, atol=1e-9)


def test_one_size_for_all_rows_takes_no_memory(twin: str):
    X, y = np.ones((N, 2)), np.ones(N)
    one = np.broadcast_to(np.float64(1.0), N)
    assert_allclose(
        rowwise.logistic_pass(X, np.zeros(2), 0.0, None, y, one, None)[1], -0.5 * N, rtol=1e-15
    )


@pytest.mark.parametrize("border", [0, 1])
def test_scaled_rows(twin: str, border: int):
    X, factors = values(N, 3), values(N, seed=1)
    out = np.empty((N, 3 + border))
    with np.errstate(over="ignore"):
        rowwise.scale_rows(X, factors, out)
        expected = np.column_stack([X, np.ones(N)])[:, : 3 + border] * factors[:, None]
    assert_array_equal(out, expected)


@pytest.mark.parametrize("border", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_standardised_rows(twin: str, border: int, dtype: type):
    rng = np.random.default_rng(0)
    X, factors = rng.normal(size=(N, 3)), rng.random(N)
    origin, inverse = np.array([1e3, 0.0, -2.0]), np.array([1e-3, 1.0, 7.0])
    out = np.empty((N, 3 + border), dtype=dtype)
    rowwise.standardise_rows(X, origin, inverse, factors, out)
    rows = np.column_stack([(X - origin) * inverse, np.ones(N)])[:, : 3 + border]
    assert_allclose(out, rows * factors[:, None], rtol=4 * np.finfo(dtype).eps)


def test_squared_images(twin: str):
    X, directions = values(N, 3), np.random.default_rng(1).normal(size=(2, 3))
    constants = np.array([0.5, -1.0])
    out = np.empty(N)
    with np.errstate(over="ignore", invalid="ignore"):
        rowwise.squared_images(X, directions, constants, out)
        expected = np.square(X @ directions.T + constants).sum(axis=1)
    assert_allclose(out, expected, rtol=1e-13)


def test_memory_of_any_layout():
    X = np.asfortranarray(values(N, 3))
    out = np.empty((N, 3))
    rowwise.scale_rows(X, np.ones(N), out)
    assert_array_equal(out, X)
    scores = np.asfortranarray(values(N, 3))
    expected, log_sum, other = scores.copy(order="C"), np.empty(N), np.empty(N)
    rowwise.softmax(scores, log_sum, False)
    rowwise.softmax(expected, other, False)
    assert_allclose(scores, expected, rtol=1e-14, atol=1e-307)
    assert_allclose(log_sum, other, rtol=1e-14)


def test_a_workspace_is_reused_and_grows():
    small = workspace("test", 2, 3)
    assert small.shape == (2, 3)
    assert np.shares_memory(workspace("test", 3), small)
    assert workspace("test", 10, 10).shape == (10, 10)
    assert not np.shares_memory(workspace("other", 4), workspace("test", 4))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_by_class(twin: str, weighted: bool):
    rng = np.random.default_rng(5)
    X, codes = rng.normal(size=(N, 3)), rng.integers(0, 4, N)
    codes[codes == 2] = 3  # a class without rows
    weights = rng.random(N) if weighted else None
    ends, out = np.empty(4, dtype=np.int64), np.empty((N, 4))
    rowwise.group_rows(X, codes, weights, np.array([1.0, 2.0, 3.0]), ends, out)
    assert_array_equal(ends, np.cumsum(np.bincount(codes)))
    for k, start in enumerate([0, *ends[:-1]]):
        rows = out[start : ends[k]]
        assert_array_equal(rows[:, :3], X[codes == k] - [1.0, 2.0, 3.0])
        assert_array_equal(rows[:, 3], 1.0 if weights is None else weights[codes == k])


def test_products_of_images(twin: str):
    rng = np.random.default_rng(6)
    images, Z = rng.normal(size=(N, 2 * 5)), rng.normal(size=(N, 8))
    out = np.ones((N, 2))
    rowwise.add_products(images, Z[:, :5], out)
    expected = 1.0 + (images.reshape(N, 2, 5) * Z[:, None, :5]).sum(axis=2)
    assert_allclose(out, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("run", [rowwise.logistic_pass, rowwise.poisson_pass])
def test_sums_do_not_depend_on_where_memory_lies(run: rowwise.Pass):
    """Loops compiled twice, for arrays that overlap and others, must add up in one order."""
    rng = np.random.default_rng(7)
    n = 64 * 63 + 8  # the last tile is a short one
    X, y = rng.normal(size=(n, 4)), rng.random(n)
    one = np.broadcast_to(np.float64(1.0), n)
    found, kept = set(), []
    for size in rng.integers(1, 200, 2000):
        kept.append(np.empty(size))
        value, total, sums = run(X, np.ones(4), 0.1, None, y, one, np.empty(n))
        found.add((value, total, sums.tobytes()))
    assert len(found) == 1


def test_rows_added_by_code(twin: str):
    rng = np.random.default_rng(8)
    codes, X = rng.integers(-1, 4, N), rng.normal(size=(N, 3))
    out = np.ones((5, 3))
    rowwise.add_rows(codes, X, out)
    expected = [1.0 + X[codes == k].sum(axis=0) for k in range(5)]
    assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.fixture(params=[np.int32, np.int64])
def sparse_rows(request: pytest.FixtureRequest) -> tuple:
    """Rows of every length, none included, and their parts with indices of one width."""
    S = scipy.sparse.random_array((60, 37), density=0.3, format="csr", random_state=1)
    S = scipy.sparse.csr_array(S.multiply((np.arange(60) % 7 > 0)[:, None]))
    return S.toarray(), (S.data, S.indices.astype(request.param), S.indptr.astype(request.param))


def of_both(loop: Kernel, *arguments: object) -> list:
    """Return what the compiled loop and its twin write over their last argument."""
    found = []
    for run in (loop._machine_code(loop._fitting(arguments)), loop.twin):
        out = arguments[-1].copy()
        run(*arguments[:-1], out)
        found.append(out)
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_add_up_by_class(sparse_rows: tuple, weighted: bool):
    dense, parts = sparse_rows
    codes = np.arange(60) % 5
    weights = np.linspace(1.0, 2.0, 60) if weighted else np.zeros(0)
    weighed = dense * (weights[:, None] if weighted else 1.0)
    expected = np.stack([1.0 + weighed[codes == k].sum(axis=0) for k in (1, 2, 3)])
    expected = np.stack([np.ones(37), *expected, np.ones(37)])
    order = np.flatnonzero((codes > 0) & (codes < 4))
    for found in of_both(entries.add_by_class, *parts, order, codes, weights, np.ones((5, 37))):
        assert_allclose(found, expected, rtol=1e-13)


def test_faults_of_sparse_entries_are_counted(sparse_rows: tuple):
    _, (data, indices, indptr) = sparse_rows
    data = data + 1.0
    rows = np.flatnonzero(np.diff(indptr) > 3)
    cases = [((), (0, 0, 0)), ((0.0, -1.0, np.nan, np.inf, -np.inf), (5, 0, 0))]
    for values, expected in cases:
        given = data.copy()
        given[7 : 7 + len(values)] = values
        for found in of_both(entries.entry_faults, given, indices, indptr, 37, np.ones(3, int)):
            assert found.tolist() == list(expected)
    wrong = indices.copy()
    wrong[indptr[rows[0]] + 1] = wrong[indptr[rows[0]]]  # a pair that is one column
    wrong[indptr[rows[1]] + 2] = -1
    wrong[indptr[rows[2] + 1] - 1] = 37
    wrong[-1] = 40
    for found in of_both(entries.entry_faults, data, wrong, indptr, 37, np.ones(3, int)):
        assert found.tolist() == [0, 2, 3]
    nothing = data[:0], indices[:0], np.zeros(4, indptr.dtype)
    for found in of_both(entries.entry_faults, *nothing, 37, np.ones(3, int)):
        assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_classes", [1, 2, 5, 20])
@pytest.mark.parametrize("sized", [False, True])
def test_logarithms_of_sums_by_class(n_classes: int, sized: bool):
    v = np.random.default_rng(3).normal(scale=300.0, size=(50, n_classes))
    v[3], v[:, -1] = -np.inf, np.where(np.arange(50) == 7, 800.0, -np.inf)
    sizes = np.linspace(1.0, 3.0, 50) if sized else np.zeros(0)
    expected = scipy.special.logsumexp(v, axis=0, b=sizes[:, None] if sized else 1.0)
    v = np.ascontiguousarray(v.T)
    for found in of_both(rowwise.log_sums, v, sizes, np.empty(n_classes)):
        assert_allclose(found, expected, rtol=1e-14)
    v[0, 0] = np.nan
    for found in of_both(rowwise.log_sums, v, sizes, np.empty(n_classes)):
        assert_array_equal(np.isnan(found), np.arange(n_classes) == 0)


@pytest.mark.parametrize("n_columns", [1, 6, 8, 20])
def test_products_with_sparse_rows(sparse_rows: tuple, n_columns: int):
    dense, parts = sparse_rows
    rng = np.random.default_rng(2)
    slopes, weights = rng.normal(size=(37, n_columns)), rng.normal(size=(60, n_columns))
    for found in of_both(entries.entry_scores, *parts, slopes, np.ones((60, n_columns))):
        assert_allclose(found, dense @ slopes, rtol=1e-12, atol=1e-13)
    for first, end in ((0, 37), (5, 20), (20, 20)):
        given = *parts, weights, first, end
        expected = np.ones((37, n_columns))
        expected[first:end] += (dense.T @ weights)[first:end]
        for found in of_both(entries.add_entry_sums, *given, np.ones((37, n_columns))):
            assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n_classes", [2, 5, 8, 20, 40, 70])
def test_decisions_in_single_precision_are_made_where_they_are_sure(
    sparse_rows: tuple, n_classes: int
):
    dense, parts = sparse_rows
    dense, parts = np.abs(dense), (np.abs(parts[0]), *parts[1:])
    slopes = entries.aligned_table(38, n_classes + 1)
    own = slopes[:, :n_classes]
    own[:] = np.random.default_rng(2).normal(size=(38, n_classes))
    own[:, 1] = own[:, 0] + 0.001 * np.sign(own[:, 1])
    slopes[:, n_classes] = np.abs(own).max(axis=1)
    exact = np.column_stack([dense, np.ones(60)]).astype(np.longdouble) @ slopes
    best = np.sort(exact[:, :n_classes], axis=1)
    # What rounding cannot change is decided; what it could by far, is not.
    size = np.diff(parts[2])
    clear = best[:, -1] - best[:, -2] > 3 * (size + 8) * 2.0**-24 * exact[:, n_classes]
    assert clear.mean() > 0.5

    def found(data: np.ndarray) -> list:
        given = data, *parts[1:], slopes, n_classes
        return of_both(entries.decide, *given, np.zeros(60, int))

    for one in found(parts[0]):
        assert_array_equal(one[clear], exact[clear, :n_classes].argmax(axis=1))
    own[:, 1] = own[:, 0]
    for one in found(parts[0]):
        assert not np.isin(one, (0, 1)).any()
    for one in found(1e38 * (parts[0] + 1.0)):
        assert (one[size > 1] == -1).all()  # beyond single precision


def test_rows_of_entries_that_are_no_counts_are_not_decided(sparse_rows: tuple):
    _, (data, indices, indptr) = sparse_rows
    slopes = entries.aligned_table(38, 3)
    slopes[:, 0], slopes[:, 2] = 1.0, 1.0
    rows = np.flatnonzero(np.diff(indptr) > 3)
    data, indices, odd = np.abs(data), indices.copy(), np.zeros(60, bool)
    for i, value in zip(rows, (-0.0, -1.0, -1e-300, np.nan, np.inf, -np.inf), strict=False):
        data[indptr[i] + i % 3], odd[i] = value, True
    places = [(1, indices[indptr[rows[6]]]), (0, 36), (0, -1), (-1, 37), (-1, 2**31 - 1)]
    for i, (place, column) in zip(rows[6:], places, strict=False):
        own = indptr[i] if place >= 0 else indptr[i + 1]
        indices[own + place], odd[i] = column, True
    for one in of_both(entries.decide, data, indices, indptr, slopes, 2, np.zeros(60, int)):
        assert_array_equal(one, np.where(odd, -2, 0))


@pytest.mark.parametrize("n_classes", [2, 20])
def test_centred_values_are_bounded_by_the_column_behind_them(n_classes: int):
    values = np.random.default_rng(2).normal(size=(n_classes, 60)) * np.logspace(-30, 30, 60)
    values[:, 7] = 0.0
    values[1, 9], values[0, 10], values[:, 11] = np.nan, -np.inf, 1e308
    odd = np.isin(np.arange(60), (9, 10, 11))
    with np.errstate(over="ignore", invalid="ignore"):
        centred = values - values.mean(axis=0)
        table = entries.aligned_table(60, n_classes + 1)
        both = of_both(entries.centre_rounded, values, table)
    for one in both:
        assert not np.isfinite(one[odd, n_classes]).any()
        assert_allclose(one[~odd, :n_classes], centred.T[~odd], rtol=1e-6, atol=1e-37)
        top = np.abs(one[~odd, :n_classes]).max(axis=1)
        assert (one[~odd, n_classes] >= top).all()
        assert (one[~odd, n_classes] <= 1.0001 * top + 1e-36).all()


@pytest.mark.parametrize("n_columns", [1, 8, 9, 16, 17, 40])
def test_rows_of_tables_for_single_precision_begin_where_lines_of_the_cache_do(n_columns: int):
    table = entries.aligned_table(7, n_columns)
    assert table.shape[1] >= n_columns
    assert not table.any()
    lines = (table.ctypes.data + table.strides[0] * np.arange(7)) / 64
    assert (lines % 1.0 <= 1.0 - min(table.strides[0], 64) / 64).all()  # no row on one more


@pytest.mark.parametrize("n_classes", [2, 5, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_posteriors_of_sparse_rows_in_either_precision(
    sparse_rows: tuple, n_classes: int, weighted: bool
):
    dense, parts = sparse_rows
    slopes = np.random.default_rng(2).normal(scale=30.0, size=(38, n_classes))
    w = np.linspace(1.0, 2.0, 60) if weighted else np.ones(60)
    J = np.column_stack([dense, np.ones(60)])
    tau, log_sum = scipy.special.softmax(J @ slopes, 1), scipy.special.logsumexp(J @ slopes, 1)
    loop, given = entries.entry_posteriors, (*parts, w if weighted else np.zeros(0), slopes)
    for n_kept in (0, 60):
        for dtype, digits in ((np.float32, 1e-6), (np.float64, 1e-11)):
            out = np.ones((n_kept, n_classes), dtype)
            for run in (loop._machine_code(loop._fitting((*given, out))), loop.twin):
                found = out.copy()
                assert_allclose(run(*given, found), w @ log_sum, rtol=1e-13)
                assert_allclose(found, (w[:, None] * tau)[:n_kept], rtol=digits, atol=1e-30)


@pytest.mark.parametrize("n_classes", [2, 5, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_curvature_of_sparse_rows_is_that_of_the_formula(
    sparse_rows: tuple, n_classes: int, weighted: bool
):
    dense, parts = sparse_rows
    rng = np.random.default_rng(2)
    tau = rng.dirichlet(np.ones(n_classes), 60)
    w = np.linspace(1.0, 2.0, 60) if weighted else np.ones(60)
    J = np.column_stack([dense, np.ones(60)])
    each = tau[:, :, None] * (np.eye(n_classes) - tau[:, None])
    hessian = np.einsum("i,ij,ikl,im->jkml", w, J, each, J)
    step = rng.normal(size=(38, n_classes))
    products = np.einsum("jkml,ml->jk", hessian, step)
    given = *parts, tau.astype(np.float32), w if weighted else np.zeros(0)
    out = np.ones((38, n_classes), np.float32)
    for found in of_both(entries.add_curvature, *given, step.astype(np.float32), out):
        assert_allclose(found, 1.0 + products, rtol=1e-5, atol=1e-5 * np.abs(products).max())
    for found in of_both(entries.add_curvature, *given, np.zeros((0, n_classes), np.float32), out):
        assert_allclose(found, 1.0 + np.einsum("jkjk->jk", hessian), rtol=1e-5)


def test_indices_of_either_width_have_code_of_their_own(sparse_rows: tuple):
    _, parts = sparse_rows
    arguments = *parts, np.ones((37, 6)), np.ones((60, 6))
    assert entries.entry_scores._fitting(arguments) == int(parts[1].dtype == np.int64)


def test_documents_are_scored_and_summed_the_same_by_either_way(
    sparse_rows: tuple, monkeypatch: pytest.MonkeyPatch
):
    dense, (data, indices, indptr) = sparse_rows
    S = scipy.sparse.csr_array((np.ceil(9 * data), indices, indptr), shape=dense.shape)
    y = np.arange(60) % 8
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr(entries, "FEW_ENTRIES", few)
        for tradeoff in (1, 0.5, 0):
            found.append(NaiveBayes(tradeoff=tradeoff).fit(S, y).predict_proba(S))
    for by_scipy, by_loop in zip(found[:3], found[3:], strict=True):
        assert_allclose(by_loop, by_scipy, atol=1e-8)
