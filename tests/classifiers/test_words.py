"""Sparse counts of words, at every tradeoff: equalities with scikit-learn, storage, refusals."""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

from crossfade import CountsWarning, GaussianDiscriminant, NaiveBayes, PooledClassifier, compare
from crossfade.comparison.references import references
from crossfade.densities import BinaryWords, Gaussian, Multinomial, Product
from crossfade.errors import DataError, NotADensityError
from crossfade.io import load_model, save_model
from crossfade.rowwise import decide
from crossfade.table import documents
from crossfade.table.documents import MixedRows
from crossfade.tradeoff import scoring
from crossfade.tradeoff.binding import bind, compact
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import cold_start, minimise

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr")


def counts(n: int = 120, n_words: int = 40, n_classes: int = 3) -> tuple:
    """Documents of 0 to 11 words, drawn from each class's own distribution."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    shares = rng.dirichlet(np.full(n_words, 0.3), n_classes)
    X = np.stack([rng.multinomial(rng.integers(0, 12), shares[k]) for k in y])
    return X, y


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize(
    ("density", "rival"),
    [("multinomial", MultinomialNB), ("bernoulli", BernoulliNB), (Multinomial, MultinomialNB)],
)
def test_the_generative_end_is_textbook_naive_bayes(density, rival, alpha):
    X, y = counts()
    density = density if isinstance(density, str) else density(alpha)
    model = NaiveBayes(density, tradeoff=1, alpha=alpha).fit(scipy.sparse.csr_array(X), y)
    expected = rival(alpha=alpha).fit(X, y)
    assert_allclose(
        model.predict_log_proba(X), expected.predict_log_proba(X), rtol=1e-12, atol=1e-12
    )
    if density == "multinomial":
        assert_allclose(model.parameters_.natural, expected.feature_log_prob_, rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize(("n_classes", "alpha"), [(2, 1.0), (3, 0.3), (5, 2.0)])
def test_complements_are_those_of_scikit_learn(n_classes, alpha, normalise, weighted):
    X, y = counts(n_classes=n_classes)
    S = scipy.sparse.csr_array(X)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    density = Multinomial(alpha, complement=True, normalise=normalise)
    model = NaiveBayes(density, tradeoff=1, class_prior="uniform").fit(S, y, sample_weight=weights)
    rival = ComplementNB(alpha=alpha, norm=normalise).fit(X, y, sample_weight=weights)
    assert_allclose(model.predict_log_proba(S), rival.predict_log_proba(X), rtol=1e-12, atol=1e-12)
    assert_allclose(model.parameters_.natural, rival.feature_log_prob_, rtol=1e-12)
    # With class shares it is the rule of Rennie et al. (2003).
    own = NaiveBayes(density, tradeoff=1).fit(S, y, sample_weight=weights)
    scores = X @ rival.feature_log_prob_.T + np.log(
        np.bincount(y, weights) / np.sum(np.ones(len(y)) if weights is None else weights)
    )
    scores -= np.logaddexp.reduce(scores, axis=1, keepdims=True)
    assert_allclose(own.predict_log_proba(S), scores, rtol=1e-12, atol=1e-12)


def test_complements_are_no_density_and_have_one_tradeoff():
    X, y = counts()
    S = scipy.sparse.csr_array(X)
    for tradeoff in (0.5, 0, "auto"):
        with pytest.raises(DataError, match=r"expected 1 with Multinomial\(complement=True\), got"):
            NaiveBayes(Multinomial(complement=True), tradeoff=tradeoff).fit(S, y)
    model = NaiveBayes(Multinomial(complement=True), tradeoff=1)
    whole = model.fit(S, y).predict_proba(S)
    for asked in (model.score_samples, model.outlier_score, model.outlier_p_value):
        with pytest.raises(NotADensityError, match="without complement"):
            asked(S)
    assert (pickle.loads(pickle.dumps(model)).predict_proba(S) == whole).all()
    parts = NaiveBayes(Multinomial(complement=True), tradeoff=1)
    for rows in (slice(0, 50), slice(50, None)):
        parts.partial_fit(S[rows], y[rows], classes=[0, 1, 2])
    assert_allclose(parts.predict_proba(S), whole, rtol=1e-10)


def test_binarised_words_are_those_of_textbook_naive_bayes_on_zeros_and_ones():
    X, y = counts()
    model = NaiveBayes(Multinomial(binarise=True), tradeoff=1).fit(scipy.sparse.csr_array(X), y)
    expected = MultinomialNB().fit(X > 0, y).predict_log_proba(X > 0)
    assert_allclose(model.predict_log_proba(X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("l2", [0.5, 4.0])
def test_the_discriminative_end_is_logistic_regression_on_the_counts(n_classes, l2):
    X, y = counts(n_classes=n_classes)
    model = NaiveBayes(tradeoff=0, l2=l2).fit(scipy.sparse.csr_array(X), y)
    rival = LogisticRegression(C=1 / l2, tol=1e-12, max_iter=10_000).fit(X, y)
    assert_allclose(model.predict_proba(X), rival.predict_proba(X), atol=1e-6)


def test_the_path_ends_where_the_discriminative_fit_is():
    X, y = counts()
    S = scipy.sparse.csr_array(X)
    end = NaiveBayes(tradeoff=0).fit(S, y).predict_proba(S)
    gaps = [
        np.abs(NaiveBayes(tradeoff=each).fit(S, y).predict_proba(S) - end).max()
        for each in (1e-2, 1e-3, 1e-4)
    ]
    assert gaps[2] < 1e-3
    assert_allclose(gaps[1] / gaps[2], 10, rtol=0.1)  # linear in the tradeoff


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("tradeoff", [1.0, 0.6, 0.01, 0.0])
@pytest.mark.parametrize(
    "words",
    [
        Multinomial(),
        Multinomial(binarise=True, by_ratio=True, used=np.arange(7) < 5),
        BinaryWords(by_ratio=True),
    ],
)
def test_the_gradient_beside_numbers_is_that_of_differences(words, tradeoff, missing, weighted):
    rng = np.random.default_rng(1)
    S = scipy.sparse.csr_array(rng.poisson(0.6, (40, 7)).astype(float))
    numbers = np.column_stack([rng.normal(size=(40, 2)), np.zeros(40)])
    if missing:
        numbers[::5, 0] = np.nan
    weights = rng.integers(1, 4, 40).astype(float) if weighted else None
    y = rng.integers(0, 3, 40)
    rows = LabelledRows(MixedRows.of(numbers, {2: S}), y, weights, 3, missing)
    bound = bind(Product([(Gaussian(), [0, 1]), (words, [2])]), rows)
    objective = TradeoffObjective.of(rows, bound, tradeoff, 1.0)
    theta = objective.theta(objective.generative())
    theta += 0.05 * rng.normal(size=theta.size)
    gradient = objective.value_and_gradient(theta)[1]
    steps = 1e-6 * np.eye(theta.size)
    slopes = [(objective.value(theta + s) - objective.value(theta - s)) / 2e-6 for s in steps]
    assert_allclose(gradient, slopes, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("tradeoff", [0.8, 0.2, 0.0])
@pytest.mark.parametrize(
    "words",
    [
        Multinomial(0.5, by_ratio=True),
        Multinomial(binarise=True, tf_idf=True, used=np.arange(20) != 5),
        BinaryWords(0.7),
    ],
)
def test_words_of_the_same_rows_are_one_statistic_in_an_equal_smaller_problem(
    words, tradeoff, n_classes
):
    rng = np.random.default_rng(1)
    y = rng.integers(0, n_classes, 60)
    X = rng.poisson(0.4 * (1 + y[:, None] * (np.arange(20) % n_classes == 1))).astype(float)
    X[:, [3, 9]], X[:, 12] = X[:, [7]], 0.0
    table = MixedRows.of(
        np.column_stack([rng.normal(size=(60, 3)), np.zeros(60)]), {3: scipy.sparse.csr_array(X)}
    )
    rows = LabelledRows(table, y, rng.uniform(0.5, 2.0, 60), n_classes)
    density = Product([(Gaussian(), [0]), (Gaussian(True), [1, 2]), (words, [3])])
    own, few = compact(density, rows)
    small = TradeoffObjective.of(few, bind(own, few), tradeoff, 1.0)
    large = TradeoffObjective.of(rows, bind(density, rows), tradeoff, 1.0)
    assert small.n_parameters < large.n_parameters
    theta = minimise(small, cold_start(small)).theta
    expected = large.parameters(minimise(large, cold_start(large)).theta)
    assert small.value(theta) == pytest.approx(large.value(large.theta(expected)), rel=1e-10)
    found = small.spread(theta)[1]
    gap = found.natural - expected.natural
    assert_allclose(gap - gap.mean(axis=0) * (tradeoff == 0.0), 0.0, atol=1e-6)
    assert small.value(small.gather(found)) == pytest.approx(small.value(theta), rel=1e-12)
    # The products with the curvature are differences of gradients.
    theta += 0.01 * rng.normal(size=theta.size)
    product = small.curvature_product(theta)
    for v in rng.normal(size=(3, theta.size)):
        weights, offsets, tied = small.split(v)
        offsets -= offsets.mean()
        if tradeoff == 0.0:
            weights -= weights.mean(axis=0)
            tied *= 0.0
        ahead, behind = (small.value_and_gradient(theta + s * v)[1] for s in (1e-5, -1e-5))
        assert_allclose(product(v), (ahead - behind) / 2e-5, atol=1e-7 * np.abs(ahead).max())


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("storage", FORMATS)
def test_every_sparse_format_gives_the_same_model(storage, kind, unchanged):
    X, y = counts()
    S = getattr(scipy.sparse, f"{storage}_{kind}")(X)
    unchanged(y)
    expected = NaiveBayes(tradeoff=0.5).fit(scipy.sparse.csr_array(X), y)
    weights = np.r_[np.zeros(5), np.ones(len(y) - 5)]
    for model, like in (
        (NaiveBayes(tradeoff=0.5).fit(S, y), expected),
        (
            NaiveBayes(tradeoff=1).fit(S, y, sample_weight=weights),
            NaiveBayes(tradeoff=1).fit(scipy.sparse.csr_array(X[5:]), y[5:]),
        ),
    ):
        assert_allclose(model.predict_proba(S), like.predict_proba(X), rtol=1e-12)
    assert S.format == storage
    assert (S.toarray() == X).all()


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.int64, bool])
def test_indices_and_numbers_of_any_width(index, dtype):
    X, y = counts()
    S = scipy.sparse.csr_array(X.astype(dtype))
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    expected = MultinomialNB().fit(X.astype(dtype), y).predict_proba(X.astype(dtype))
    assert_allclose(NaiveBayes(tradeoff=1).fit(S, y).predict_proba(S), expected, rtol=1e-10)


def test_unsorted_repeated_and_explicit_zero_entries_are_what_they_add_up_to():
    S = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 1.0, 1.0, 3.0]), [2, 0, 1, 2, 2, 1], [0, 3, 5, 6]), shape=(3, 3)
    )
    before = S.data.copy(), S.indices.copy()
    y = [0, 1, 1]
    model = NaiveBayes(tradeoff=1).fit(S, y)
    assert (S.data == before[0]).all()
    assert (S.indices == before[1]).all()
    dense = np.array([[2, 0, 1], [0, 0, 2], [0, 3, 0]])
    expected = MultinomialNB().fit(dense, y).predict_proba(dense)
    assert_allclose(model.predict_proba(S), expected, rtol=1e-12)


def test_sparse_columns_of_pandas_keep_their_names():
    X, y = counts(n_words=4)
    frame = pd.DataFrame({f"w{j}": pd.arrays.SparseArray(X[:, j], fill_value=0) for j in range(4)})
    model = NaiveBayes(tradeoff=1).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["w0", "w1", "w2", "w3"]
    assert_allclose(model.predict_proba(frame), MultinomialNB().fit(X, y).predict_proba(X))
    one_dense = frame.assign(w3=X[:, 3])
    dense = NaiveBayes("poisson", tradeoff=1).fit(one_dense, y)
    assert_allclose(
        dense.predict_proba(one_dense),
        NaiveBayes("poisson", tradeoff=1).fit(X, y).predict_proba(X),
    )


@pytest.mark.parametrize("fills", [[np.nan], [1.0], [0.0, np.nan], [0.0, 2.0, np.nan]])
def test_sparse_columns_of_pandas_may_leave_out_any_value(fills):
    X, y = counts(n_words=6)
    X = X.astype(float)

    def frame_of(table):
        each = enumerate(table.T)
        return pd.DataFrame(
            {f"w{j}": pd.arrays.SparseArray(x, fill_value=fills[j % len(fills)]) for j, x in each}
        )

    frame = frame_of(X)
    expected = MultinomialNB().fit(X, y).predict_proba(X)
    assert_allclose(NaiveBayes(tradeoff=1).fit(frame, y).predict_proba(frame), expected, rtol=1e-12)
    assert [dtype.fill_value for dtype in frame.dtypes[: len(fills)]] == pytest.approx(
        fills, nan_ok=True
    )
    X[3, 1] = np.nan
    with pytest.raises(DataError, match=r"expected no missing cells in a sparse table .*, got 1;"):
        NaiveBayes(tradeoff=1).fit(frame_of(X), y)


@pytest.mark.parametrize(
    "model",
    [
        *(NaiveBayes(of, tradeoff=t) for of in ("auto", "bernoulli") for t in (1, 0.5, 0, "auto")),
        NaiveBayes(Multinomial(complement=True), tradeoff=1),
        pytest.param(PooledClassifier([("nb", NaiveBayes()), "forest"]), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("made", [scipy.sparse.coo_array, pd.DataFrame.sparse.from_spmatrix])
def test_model_files_keep_models_of_sparse_tables(made, model, tmp_path):
    X, y = counts(n_words=12)
    table = made(scipy.sparse.csr_matrix(X))
    if isinstance(table, pd.DataFrame):
        table = table.add_prefix("w")
    model.fit(table, y)
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops").estimator
    assert_allclose(again.predict_proba(table), model.predict_proba(table), rtol=1e-14)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_weights_are_repeated_rows(tradeoff):
    X, y = counts()
    weights = np.random.default_rng(2).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    S = scipy.sparse.csr_array(X)
    one = NaiveBayes(tradeoff=tradeoff).fit(S, y, sample_weight=weights)
    other = NaiveBayes(tradeoff=tradeoff).fit(S[rows], y[rows])
    assert_allclose(one.predict_proba(S), other.predict_proba(S), atol=1e-7)


def test_neither_the_order_of_rows_nor_that_of_words_matters():
    X, y = counts()
    rng = np.random.default_rng(0)
    rows, words = rng.permutation(len(y)), rng.permutation(X.shape[1])
    rows = np.append(rows, rows[:9])  # some twice
    one = NaiveBayes().fit(scipy.sparse.csr_array(X[rows]), y[rows])
    for some in (rows, np.sort(rows)):
        other = NaiveBayes().fit(scipy.sparse.csr_array(X[some][:, words]), y[some])
        assert_allclose(other.predict_proba(X[:, words]), one.predict_proba(X), atol=1e-6)


def test_batches_give_what_one_fit_gives():
    X, y = counts()
    S = scipy.sparse.csr_array(X)
    model = NaiveBayes(tradeoff=1)
    for start in range(0, len(y), 30):
        rows = slice(start, start + 30)
        model.partial_fit(S[rows], y[rows], classes=[0, 1, 2] if start == 0 else None)
    assert_allclose(model.predict_proba(S), MultinomialNB().fit(X, y).predict_proba(X), rtol=1e-11)


def nearly_tied(scale: float, longest: float) -> tuple:
    """Classes of the same documents, but for a millionth of a word; long and empty rows."""
    rng = np.random.default_rng(3)
    X = rng.poisson(0.3, (600, 50)).astype(float)
    X[:5] = 0.0
    y = np.repeat(np.arange(6), 100)
    X[100:200] = X[:100]  # equal classes
    X[200:300] = X[:100]
    X[250, 7] += 1e-6  # all but equal
    X[300:400] *= longest
    return scipy.sparse.csr_array(scale * X), y


@pytest.mark.parametrize(
    ("density", "tradeoff", "scale"),
    [(Multinomial(), 1, scale) for scale in (1.0, 1e-30, 1e30, 1e150)]
    + [(Multinomial(), 0, 1.0), (Multinomial(complement=True), 1, 1.0), (BinaryWords(), 1, 1.0)],
)
def test_labels_are_those_of_double_precision(density, tradeoff, scale, monkeypatch):
    S, y = nearly_tied(scale, 1e6 if tradeoff else 1.0)
    model = NaiveBayes(density, tradeoff=tradeoff).fit(S, y)
    expected = model.predict(S)
    monkeypatch.setattr(scoring, "FEW_ENTRIES", 0)
    with warnings.catch_warnings(action="error"):
        assert (model.predict(S) == expected).all()
    sure = np.zeros(len(y), dtype=np.int64)
    if model._fitted.scorer._is_linear and scale == 1.0:
        scorer = model._fitted.scorer
        decide(S.data, S.indices, S.indptr, scorer._rounded, scorer.n_classes, sure)
        assert 0.1 < (sure >= 0).mean() < 0.9


def as_it_is(S: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    return S


def reversed_in_rows(S: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    data, indices = (
        np.concatenate([part[a:b][::-1] for a, b in itertools.pairwise(S.indptr)])
        for part in (S.data, S.indices)
    )
    return scipy.sparse.csr_array((data, indices, S.indptr), shape=S.shape)


def with_entries(*values: float, column: int | None = None) -> Callable:
    """Return what puts entries at the end of a row, in its last column if `column` is None."""

    def change(S: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        place = S.indptr[8]
        columns = [S.indices[place - 1] if column is None else column] * len(values)
        made = S.copy()
        made.data = np.insert(S.data, place, values)
        made.indices = np.insert(S.indices, place, columns).astype(S.indices.dtype)
        made.indptr = S.indptr + len(values) * (np.arange(S.indptr.size) > 7).astype(np.int32)
        return made

    return change


@pytest.mark.parametrize(
    ("change", "n_reads"),
    [
        (as_it_is, 0),
        (with_entries(0.0, column=39), 0),
        (reversed_in_rows, 2),
        (with_entries(2.0), 2),
        (with_entries(2.0, -2.0), 2),
        (with_entries(-0.0, column=39), 1),
        (with_entries(-1.0, column=39), 1),
        (with_entries(np.nan, column=39), 1),
        (with_entries(np.inf, column=39), 1),
        (with_entries(1.0, column=40), 1),
        (with_entries(1.0, column=-1), 1),
        (with_entries(1.0, column=2**31 - 1), 1),
    ],
)
@pytest.mark.parametrize(
    "density",
    [
        Multinomial(),
        Multinomial(binarise=True),
        Multinomial(tf_idf=True),
        Multinomial(complement=True),
        BinaryWords(),
    ],
)
def test_labels_of_one_read_are_those_of_tables_that_were_looked_at(
    density, change, n_reads, monkeypatch
):
    X, y = counts()
    X[:, 39] = 0
    X[0, 39] = 1
    S = scipy.sparse.csr_array(X.astype(float))
    model = NaiveBayes(density, tradeoff=1).fit(S, y)
    given = change(S)

    def answer() -> object:
        try:
            return model.predict(given).tolist()
        except DataError as error:
            return str(error)

    expected, looked = answer(), []
    monkeypatch.setattr(scoring, "FEW_ENTRIES", 0)
    before = documents._faults
    monkeypatch.setattr(documents, "_faults", lambda S: looked.append(0) or before(S))
    assert answer() == expected
    if type(density) is Multinomial and not (density.binarise or density.tf_idf):
        assert len(looked) == n_reads


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("density", [Multinomial(), Multinomial(0.0), BinaryWords()])
def test_smoothed_estimates_are_those_of_sums_and_pseudo_sums(density, compacted):
    X, y = counts()
    X[:, 5] = X[:, 6]
    words = {0: scipy.sparse.csr_array(X.astype(float))}
    rows = LabelledRows(MixedRows.of(np.zeros((len(y), 1)), words), y, None, 3)
    density = Product([(density, [0])])
    if compacted:
        density, rows = compact(density, rows)
    bound = bind(density, rows)
    eta, partition = bound.density.smoothed(bound)
    both = bound.counts + bound.prior_counts, bound.sums + bound.prior_sums
    assert (eta == bound.density.estimate(*both)).all()
    assert_allclose(partition, bound.density.log_partition(eta), rtol=1e-13, atol=1e-13)


def test_empty_documents_get_the_class_shares():
    X, y = counts()
    shares = np.bincount(y) / len(y)
    for tradeoff in (1, 0.5):
        model = NaiveBayes(tradeoff=tradeoff).fit(scipy.sparse.csr_array(X), y)
        found = model.predict_proba(scipy.sparse.csr_array((1, X.shape[1])))[0]
        assert_allclose(found, shares if tradeoff == 1 else model.class_prior_, rtol=1e-6)


REFUSED = [
    (lambda S, y: NaiveBayes().fit(S * np.nan, y), "expected no missing cells in a sparse table"),
    (lambda S, y: NaiveBayes().fit(S * np.inf, y), "expected finite numbers, got infinity"),
    (lambda S, y: NaiveBayes().fit(0 * S, y), "expected some words, got none in 120 rows"),
    (lambda S, y: NaiveBayes("gaussian").fit(S, y), "for a sparse table, got 'gaussian'"),
    (lambda S, y: GaussianDiscriminant().fit(S, y), r"NaiveBayes, or X.toarray\(\) where"),
    (lambda S, y: NaiveBayes().fit(S.toarray(), y).predict(S), "a dense table as in fit"),
    (lambda S, y: NaiveBayes().fit(S, y).predict(S[:, :7]), "7 features, but NaiveBayes is exp"),
    (
        lambda S, y: NaiveBayes({0: "multinomial"}, tradeoff=1).fit(S.toarray(), y),
        "expected 'multinomial' for all columns or for none",
    ),
]


@pytest.mark.parametrize(("do", "message"), REFUSED)
def test_what_cannot_be_is_refused_with_a_remedy(do, message):
    X, y = counts()
    with pytest.raises(DataError, match=message):
        do(scipy.sparse.csr_array(X.astype(float)), y)


@pytest.mark.parametrize("key", [slice(3, 9), slice(9, 3), slice(0, 40, 3), np.array([5, 1, 1])])
def test_some_rows_of_mixed_rows_are_those_of_both_tables(key):
    X, _ = counts(n=40)
    numbers = np.random.default_rng(0).normal(size=(40, 2))
    some = MixedRows.of(numbers, {1: scipy.sparse.csr_array(X)})[key]
    assert (some.words[1].toarray() == X[key]).all()
    assert (some.numbers[:, 0] == numbers[key, 0]).all()
    # A cell of words is the number of its contents, whichever rows are asked first.
    whole = np.asarray(MixedRows.of(numbers, {1: scipy.sparse.csr_array(X)}))
    assert (np.asarray(some) == whole[key]).all()


def test_a_reference_says_nothing_of_classes_smaller_than_its_folds():
    X, y = counts(n_classes=2)
    y[:] = 0
    y[:3] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = references()["logistic regression"].fit(scipy.sparse.csr_array(X), y)
    assert model.predict_proba(scipy.sparse.csr_array(X)).shape == (120, 2)


def test_entries_that_cancel_are_no_entries():
    X, y = counts()
    S = scipy.sparse.coo_array(X.astype(float))
    twice = scipy.sparse.coo_array(
        (
            np.concatenate([S.data, [5.0, -5.0]]),
            (np.append(S.row, [0, 0]), np.append(S.col, [1, 1])),
        ),
        shape=S.shape,
    )
    expected = MultinomialNB().fit(X, y).predict_proba(X)
    model = NaiveBayes(tradeoff=1).fit(twice, y)
    assert_allclose(model.predict_proba(twice), expected, rtol=1e-10)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize(
    ("case", "make"),
    [
        ("one column", lambda X: X[:, :1]),
        ("a column that nobody uses", lambda X: np.column_stack([X, np.zeros(len(X))])),
        ("fractions", lambda X: X / 7),
        ("large counts", lambda X: np.column_stack([X, 1e9 * (np.arange(len(X)) == 3)])),
        ("half of the documents empty", lambda X: X * (np.arange(len(X)) % 2)[:, None]),
        ("equal columns", lambda X: np.column_stack([X, X])),
    ],
)
def test_tables_that_nobody_expects(case, make, tradeoff):
    X, y = counts()
    S = scipy.sparse.csr_array(make(X.astype(float)))
    for part in (S.data, S.indices, S.indptr):
        part.setflags(write=False)
    posterior = NaiveBayes(tradeoff=tradeoff).fit(S, y).predict_proba(S)
    assert np.isfinite(posterior).all()
    if tradeoff == 1:
        assert_allclose(posterior, MultinomialNB().fit(S, y).predict_proba(S), atol=1e-9)


@pytest.mark.parametrize("column", [-1, 40])
def test_entries_outside_the_columns_are_refused(column):
    X, y = counts()
    S = scipy.sparse.csr_array(X)
    S.indices[5] = column
    with pytest.raises(DataError, match=r"expected columns 0 to 39 .*, got 1 entries"):
        NaiveBayes(tradeoff=1).fit(S, y)


def test_entries_behind_the_last_row_are_no_cells():
    X, y = counts()
    S = scipy.sparse.csr_array(X.astype(float))
    longer = S.copy()
    longer.data, longer.indices = np.append(S.data, np.nan), np.append(S.indices, 99)
    one, other = (NaiveBayes(tradeoff=1).fit(each, y).predict_proba(each) for each in (S, longer))
    assert (one == other).all()


def test_contents_of_rows_are_those_of_the_words_as_given():
    """Of rows whose words are counted otherwise, and of parts; what was given may change."""
    X, _ = counts()
    S = scipy.sparse.csr_array(X.astype(float))
    rows = MixedRows.of(np.zeros((len(X), 1)), {0: S.copy()}, in_order=False)
    expected = MixedRows.of(np.zeros((len(X), 1)), {0: S}, in_order=False).contents
    other = rows.with_words({0: S[:, :5]})
    parts = other[10:50], other[10:50][np.arange(7)], other.copy()
    for part, own in zip(parts, (expected[10:50], expected[10:17], expected), strict=True):
        np.testing.assert_array_equal(part.contents, own)
        np.testing.assert_array_equal(np.asarray(part), own)
    rows.words[0].data[:] = 7.0
    np.testing.assert_array_equal(parts[2].contents, expected)


def documents_beside(numbers: np.ndarray, n: int = 200) -> tuple:
    """Documents of 0 to 60 words of 80, and columns of numbers behind them."""
    rng = np.random.default_rng(3)
    X = np.stack([rng.multinomial(rng.integers(0, 60), rng.dirichlet(np.full(80, 0.2)))
                  for _ in range(n)])  # fmt: skip
    return scipy.sparse.csr_array(np.column_stack([X, numbers])), rng.integers(0, 2, n)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (np.linspace(18.5, 90.3, 200)[:, None] / [[1.0, 90.0]], "'x80', 'x81': fractions beside"),
        (2000.0 + np.arange(200)[:, None] % 20, "'x80': 98% of all that a row counts"),
        (30.0 + np.arange(200)[:, None] % 20, "'x80': 5"),
    ],
)
def test_numbers_beside_counts_are_not_read_as_counts_silently(numbers, said):
    S, y = documents_beside(numbers)
    with pytest.warns(CountsWarning, match=f"read, got {said}.*data frame, each with a density"):
        NaiveBayes(tradeoff=1).fit(S, y)
    with pytest.warns(CountsWarning, match=said):
        NaiveBayes(tradeoff=1).partial_fit(S, y, classes=[0, 1])
    NaiveBayes("multinomial", tradeoff=1).fit(S, y)  # the user says that they are counts


def test_whole_numbers_among_weighed_words_are_told():
    S, y = documents_beside(np.ones((200, 0)))
    weighed = TfidfTransformer().fit_transform(S)
    NaiveBayes(tradeoff=1).fit(weighed, y)
    indicators = np.eye(3)[np.arange(200) % 3]
    with pytest.warns(CountsWarning, match="'x80', 'x81', 'x82': whole numbers beside columns of"):
        NaiveBayes(tradeoff=1).fit(scipy.sparse.hstack([weighed, indicators]), y)


@pytest.mark.parametrize("way", [np.sqrt, np.log1p, np.sign, lambda X: X])
def test_counts_and_their_transforms_are_counts(way):
    S, y = documents_beside(np.ones((200, 0)))
    S.data = way(S.data.astype(float))
    NaiveBayes(tradeoff=1).fit(S, y)


def signed(n_classes: int, standardised: bool) -> tuple:
    """Return hashed words with signs, or counts beside standardised numbers."""
    X, y = counts(n_classes=n_classes)
    rng = np.random.default_rng(3)
    if standardised:
        numbers = rng.normal(size=(len(y), 2)) + 0.3 * y[:, None]
        return scipy.sparse.csr_array(np.hstack([X, numbers])), y
    return scipy.sparse.csr_array(X * rng.choice([-1.0, 1.0], X.shape[1])), y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("l2", [0.1, 3.0])
def test_numbers_of_any_sign_are_those_of_logistic_regression(n_classes, standardised, l2):
    X, y = signed(n_classes, standardised)
    model = NaiveBayes(tradeoff=0, l2=l2).fit(X, y)
    expected = LogisticRegression(C=1 / l2, tol=1e-12, max_iter=10_000).fit(X, y)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    assert_allclose(model.predict_proba(X.toarray()), model.predict_proba(X), atol=1e-14)
    assert model.density_report_[0]["density"] == "linear"


@pytest.mark.parametrize("standardised", [True, False])
def test_numbers_of_any_sign_are_pooled_over_penalties(standardised, tmp_path):
    X, y = signed(2, standardised)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NaiveBayes().fit(X, y)
    assert set(model.tradeoff_path_["tradeoff"]) == {0.0}
    order = np.random.default_rng(0).permutation(len(y))
    again = NaiveBayes().fit(X[order], y[order])
    assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-8)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops").estimator
    assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-14)


@pytest.mark.parametrize(
    "read",
    [
        lambda X, y: NaiveBayes(tradeoff=1).fit(X, y),
        lambda X, y: NaiveBayes(tradeoff=0.5).fit(X, y),
        lambda X, y: NaiveBayes("multinomial", tradeoff=0).fit(X, y),
        lambda X, y: NaiveBayes(tradeoff=1).partial_fit(X, y, classes=[0, 1]),
        lambda X, y: NaiveBayes(tradeoff=1).fit(abs(X), y).predict(X),
        lambda X, y: PooledClassifier(["nb", "forest"]).fit(X, y),
        lambda X, y: compare(X, y),
    ],
)
def test_negative_numbers_are_refused_where_words_are_counted(read):
    with pytest.raises(DataError, match=r"Negative values.*density='auto' with tradeoff=0 or"):
        read(*signed(2, False))
