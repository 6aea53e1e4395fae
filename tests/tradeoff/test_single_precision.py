"""Words alone at λ = 0: Newton's systems in single precision, the optimum in double."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from crossfade import NaiveBayes
from crossfade.blocks import threads
from crossfade.densities import BinaryWords, Multinomial, Product
from crossfade.table.documents import MixedRows
from crossfade.tradeoff import passes
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise
from crossfade.tradeoff.preconditioner import preconditioner
from crossfade.tradeoff.single_precision import WordProblem


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few words be treated as many are."""
    monkeypatch.setattr(passes, "FEW_ENTRIES", 0)


def documents(n: int = 400, n_words: int = 30, n_classes: int = 3) -> tuple:
    """Words as frequent as 1/rank, which classes differ in a little."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    rates = 6.0 / np.arange(1, n_words + 1) * np.exp(0.4 * rng.normal(size=(n_classes, n_words)))
    return scipy.sparse.csr_array(rng.poisson(rates[y]).astype(float)), y


def objective_of(S, y, words=None, tradeoff: float = 0.0, l2: float = 1.0, weights=None):
    n_classes = int(y.max()) + 1
    rows = LabelledRows(MixedRows.of(np.zeros((len(y), 1)), {0: S}), y, weights, n_classes)
    density = Product([(words or Multinomial(), [0])])
    return TradeoffObjective.of(rows, bind(density, rows), tradeoff, l2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("words", "tradeoff"),
    [(Multinomial(), 0.0), (Multinomial(binarise=True), 0.0), (BinaryWords(), 0.4)],
)
def test_value_and_gradient_are_those_of_blocks_of_rows(words, tradeoff, weighted, monkeypatch):
    S, y = documents()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size) if weighted else None
    found = []
    for few in (1 << 18, 0):
        monkeypatch.setattr(passes, "FEW_ENTRIES", few)
        objective = objective_of(S, y, words, tradeoff, weights=weights)
        assert (objective.passes.word_rows is None) == (few > 0)
        theta = objective.theta(objective.generative())
        found.append((*objective.value_and_gradient(theta), objective.value(theta)))
    (value, gradient, _), (other, same, alone) = found
    assert_allclose([other, alone], value, rtol=1e-13)
    assert_allclose(same, gradient, atol=1e-11 * np.abs(gradient).max())


@pytest.mark.parametrize("n", [400, 5_000])  # of few rows the penalty stands for words
@pytest.mark.parametrize("weighted", [False, True])
def test_products_and_preconditioner_are_those_of_double_precision(weighted, n, any_size):
    S, y = documents(n)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size) if weighted else None
    words = Multinomial(by_ratio=True)
    objective = objective_of(S, y, words, weights=weights)
    words = WordProblem.of(objective)
    assert words is not None
    theta = cold_start(objective)
    v = np.random.default_rng(2).normal(size=theta.size)
    for part in objective.split(v)[:2]:
        part -= part.mean(axis=0)
    assert (words.by_class(words.by_word(v)) == v).all()
    value, gradient = objective.value_and_gradient(theta)
    found, same = words.value_and_gradient(words.by_word(theta))
    assert_allclose(found, value, rtol=1e-13)
    assert_allclose(words.by_class(same), gradient, atol=1e-11 * np.abs(gradient).max())
    system = words.at(words.by_word(theta))
    pairs = [
        (system.product, objective.curvature_product(theta)),
        (system.preconditioner(), preconditioner(objective, theta)),
    ]
    for single, double in pairs:
        expected = double(v)
        found = words.by_class(single(words.by_word(v).astype(np.float32)))
        assert_allclose(found, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("l2", [1.0, 1e-3])
def test_the_optimum_has_all_digits_and_no_product_in_double_precision(l2, any_size, monkeypatch):
    S, y = documents(2_000)
    with monkeypatch.context() as patched:
        patched.setattr(WordProblem, "of", lambda objective: None)
        expected = minimise(objective_of(S, y, l2=l2), tol=1e-11, cold=True)

    def refused(self, theta):
        raise AssertionError("single precision did not do")

    monkeypatch.setattr(TradeoffObjective, "curvature_product", refused)
    found = minimise(objective_of(S, y, l2=l2), tol=1e-9, cold=True)
    assert found.gradient_norm <= 1e-9
    assert_allclose(found.theta, expected.theta, atol=1e-5)
    assert_allclose(found.value, expected.value, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e5, 1e25])
def test_double_precision_takes_over_where_single_does_not_do(scale, any_size, monkeypatch):
    # Two words that differ by what single precision has no digits for; squares beyond its range.
    S, y = documents(2_000)
    first = S[:, [0]] + 1.0 * (S[:, [1]] > 0)
    twins = [scale * first, scale * first + S[:, [2]]]
    S = scipy.sparse.csr_array(scipy.sparse.hstack([*twins, S[:, 3:]]))
    used = []
    plain = TradeoffObjective.curvature_product
    monkeypatch.setattr(
        TradeoffObjective, "curvature_product", lambda *a: used.append(1) or plain(*a)
    )
    found = minimise(objective_of(S, y), tol=1e-9, cold=True)
    assert used
    monkeypatch.setattr(WordProblem, "of", lambda objective: None)
    expected = minimise(objective_of(S, y), tol=1e-9, cold=True)
    assert found.value <= expected.value + 1e-9 * abs(expected.value)


def test_fits_are_the_same_whatever_the_number_of_threads(any_size):
    S, y = documents(3_000)
    found = []
    for number in (1, 2, 3):
        with threads(number):
            found.append(NaiveBayes(tradeoff=0).fit(S, y).predict_proba(S))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_fit_of_many_words_keeps_five_and_a_half_parameter_vectors_at_most(any_size):
    # Two points, one gradient and halves: a step, its scale; or a point, its gradient and the
    # halves that conjugate gradients and two threads' sums are.
    rng = np.random.default_rng(0)
    y, rows = rng.integers(0, 8, 400), np.repeat(np.arange(400), 40)
    columns = np.minimum(np.exp(rng.uniform(0.0, np.log(20_000.0), rows.size)), 19_999).astype(int)
    S = scipy.sparse.csr_array((1.0 + y[rows] % 3, (rows, columns)), shape=(400, 20_000))
    minimise(objective_of(S, y), tol=1e-6, cold=True)  # what is compiled is compiled
    objective = objective_of(S, y)
    assert WordProblem.of(objective) is not None
    tracemalloc.start()
    try:
        found = minimise(objective, tol=1e-9, cold=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.gradient_norm <= 1e-9
    assert peak < 5.6 * 8 * objective.n_parameters
