"""Hostile tables, labels and members: a pool fits, leaves the member out by name, or refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from crossfade import DataError, LeftOutWarning, NaiveBayes, PooledClassifier

PAIR = [("nb", NaiveBayes(tradeoff=1)), ("lr", LogisticRegression(max_iter=500))]


class Odd(ClassifierMixin, BaseEstimator):
    """A member whose probabilities are made odd."""

    def __init__(self, change="none"):
        self.change = change

    def fit(self, X, y):
        self.model_ = LogisticRegression(max_iter=500).fit(X, y)
        self.classes_ = self.model_.classes_
        if self.change == "order":
            self.classes_ = self.classes_[::-1]
        if self.change == "more":
            self.classes_ = np.append(self.classes_, "zz")
        if self.change == "twice":
            self.classes_ = self.classes_[[0, 0]]
        if self.change == "writes":
            X[:] = 0.0
        if self.change == "warns":
            warnings.warn("odd", UserWarning, stacklevel=1)
        return self

    def predict_proba(self, X):
        p = self.model_.predict_proba(X)
        if self.change == "writes later":
            X[:] = 0.0
        changes = {
            "order": lambda: p[:, ::-1],
            "more": lambda: np.hstack([p, np.zeros((len(p), 1))]),
            "half": lambda: 0.5 * p,
            "negative": lambda: p - 0.6,
            "zero": lambda: 0 * p,
            "rows": lambda: p[:-1],
            "flat": lambda: p[:, 0],
            "single": lambda: p.astype(np.float32),
            "sure": lambda: 1.0 * (p == p.max(axis=1, keepdims=True)),
            "list": lambda: p.tolist(),
        }
        return changes.get(self.change, lambda: p)()


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(["no", "yes"], n // 2)
    return rng.normal(size=(n, 2)) + (y == "yes")[:, None], y


@pytest.mark.parametrize("change", ["none", "order", "half", "single", "sure", "list", "warns"])
def test_what_can_be_read_as_probabilities_is(change):
    X, y = table()
    pool = PooledClassifier([*PAIR, ("odd", Odd(change))])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "odd")
        pool.fit(X, y)
    assert not pool.left_out_
    posterior = pool.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert (posterior > 0).all()
    plain = PooledClassifier([*PAIR, ("odd", Odd())]).fit(X, y)
    if change != "sure":
        np.testing.assert_allclose(posterior, plain.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("change", ["more", "twice", "negative", "zero", "rows", "flat"])
def test_what_cannot_is_left_out_by_name(change):
    X, y = table()
    with pytest.warns(LeftOutWarning, match="'odd' was left out"):
        pool = PooledClassifier([*PAIR, ("odd", Odd(change))]).fit(X, y)
    np.testing.assert_array_equal(
        pool.predict_proba(X), PooledClassifier(PAIR).fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize("change", ["writes", "writes later"])
def test_a_member_that_writes_into_its_rows_reaches_nobody_else(change):
    X, y = table()
    before = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = PooledClassifier([("odd", Odd(change)), *PAIR]).fit(X, y)
    found = pool.predict_proba(X)
    np.testing.assert_array_equal(X, before)
    if change == "writes later":
        plain = PooledClassifier([("odd", Odd()), *PAIR]).fit(X, y)
        np.testing.assert_array_equal(found, plain.predict_proba(X))


class Later(Odd):
    """A member whose probabilities are odd once all sixty rows are fitted."""

    def fit(self, X, y):
        self.all_ = len(X) == 60
        return super().fit(X, y)

    def predict_proba(self, X):
        return super().predict_proba(X) * (np.nan if self.all_ else 1.0)


def test_what_is_odd_only_at_predict_is_refused_by_name():
    X, y = table()
    pool = PooledClassifier([*PAIR, ("late", Later())]).fit(X, y)
    with pytest.raises(DataError, match="estimators: of 'late': its probabilities are not finite"):
        pool.predict_proba(X)


@pytest.mark.parametrize("pooling", ["logarithmic", "linear", "best"])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((20, 2)), np.arange(20) % 2),  # nothing to learn
        (np.c_[np.arange(20.0), np.full(20, np.pi)], np.arange(20) % 2),
        (np.arange(4.0)[:, None], np.arange(4) % 2),
        (np.arange(9.0)[:, None], np.array([0] * 8 + [1])),  # a class of one row
        (np.arange(12.0)[:, None], np.arange(12) < 6),  # separated, labels true and false
        (1e9 + np.arange(20.0)[:, None], np.arange(20) % 2),
        (np.tile(np.eye(3), (10, 1)), np.tile([2.0, 1.0, 7.0], 10)),  # a few distinct rows
        (np.arange(60.0)[:, None], np.arange(60) % 30),  # thirty classes of two rows
    ],
)
def test_odd_tables_have_probabilities(X, y, pooling):
    members = [("one", NaiveBayes(tradeoff=1)), ("two", NaiveBayes(tradeoff=0.5))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool = PooledClassifier(members, pooling=pooling, cv=2).fit(X, y)
        posterior = pool.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert np.isfinite(pool.predict_log_proba(X)).all()
    assert set(pool.predict(X)) <= set(y)
    assert pool.predict_proba(X[:1]).shape == (1, len(set(y.tolist())))


def test_equal_members_say_together_what_one_says():
    X, y = table(200)
    one = PooledClassifier([("a", NaiveBayes(tradeoff=1))]).fit(X, y)
    both = PooledClassifier([(name, NaiveBayes(tradeoff=1)) for name in "abcd"]).fit(X, y)
    np.testing.assert_allclose(both.predict_proba(X), one.predict_proba(X), atol=0.01)


def test_missing_cells_rows_of_an_index_and_labels_in_a_column():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(60)[::-1] * 7)
    frame.loc[frame.index[:5], "a"] = np.nan
    labels = pd.Series(y, index=frame.index)
    pool = PooledClassifier(["nb", "boosting"], cv=2).fit(frame, labels)
    assert pool.predict_proba(frame.iloc[:3]).shape == (3, 2)
    empty = frame.assign(b=np.nan)
    with pytest.raises(DataError, match="b"):
        PooledClassifier(["nb"]).fit(empty.assign(b=np.inf), labels)


def test_weights_as_large_and_small_as_numbers_are():
    X, y = table()
    plain = PooledClassifier(PAIR).fit(X, y, np.ones(60)).predict_proba(X)
    for size in (1e6, 1e-3):
        pool = PooledClassifier(PAIR).fit(X, y, np.full(60, size))
        assert np.isfinite(pool.predict_log_proba(X)).all()
    assert plain.shape == (60, 2)


def test_only_one_class_of_weight_is_refused():
    X, y = table()
    with pytest.raises(DataError, match="at least"):
        PooledClassifier(PAIR).fit(X, y, 1.0 * (y == "no"))


def test_splits_that_overlap_and_leave_rows_out():
    X, y = table()
    cv = ShuffleSplit(4, test_size=0.3, random_state=0)
    pool = PooledClassifier(["nb", ("lr", LogisticRegression())], cv=cv).fit(X, y)
    assert np.isfinite(pool.pool_losses_["log_loss"])


def test_sparse_tables_go_to_members_that_take_them():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    counts = scipy.sparse.csr_matrix(rng.poisson(0.5 + 2.0 * y[:, None] * rng.random(30)))
    pool = PooledClassifier(["nb", ("lr", LogisticRegression(max_iter=500))], cv=3).fit(counts, y)
    assert pool.score(counts, y) > 0.8


# -- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (None, "cv: expected a number of folds, 'prefit' or a splitter, got None"),
        ([], "cv: expected splits, got none; a generator gives its splits to one fit only"),
        ([([0, 1, 2, 40], [3, 40])], "test other rows than they train on, got one with row 40 in"),
        (ShuffleSplit, "cv: expected a number of folds"),
    ],
)
def test_splits_that_hold_nothing_out_are_refused(cv, message):
    X, y = table()
    with pytest.raises(DataError, match=message):
        PooledClassifier(PAIR, cv=cv).fit(X, y)


def test_a_generator_of_splits_is_used_up_by_one_fit():
    X, y = table()
    pool = PooledClassifier(PAIR, cv=StratifiedKFold(3).split(X, y)).fit(X, y)
    with pytest.raises(DataError, match="make a list of it"):
        pool.fit(X, y)


def test_numbers_of_folds_are_whole_numbers_of_any_type():
    X, y = table()
    expected = PooledClassifier(PAIR, cv=3).fit(X, y).predict_proba(X)
    for cv in (np.int64(3), np.uint8(3), 3.0):
        found = PooledClassifier(PAIR, cv=cv).fit(X, y).predict_proba(X)
        np.testing.assert_array_equal(found, expected)


# -- what members take -----------------------------------------------------------------------------


class Neighbour(ClassifierMixin, BaseEstimator):
    """A decision value that knows its rows by heart."""

    def fit(self, X, y):
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def decision_function(self, X):
        return 2.0 * self.model_.predict_proba(X)[:, 1] - 1.0

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.parametrize("member", [LinearSVC(tol=1e-10), make_pipeline(LinearSVC(tol=1e-10))])
def test_weights_of_decision_values_are_repetitions(member):
    X, y = table(90)
    weights = np.random.default_rng(0).integers(4, size=90)
    pool = PooledClassifier([("svm", member)], cv=3)
    weighted = pool.fit(X, y, weights).predict_proba(X)
    repeated = pool.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("equal", [True, False])
def test_a_sigmoid_is_fitted_to_rows_that_the_decision_values_do_not_know(equal):
    rng = np.random.default_rng(0)
    which = rng.permutation(np.repeat(np.arange(60), 5))
    X, y = rng.normal(size=(60, 2))[which], rng.integers(2, size=60)[which]
    groups = None if equal else which
    if not equal:
        X += 1e-9 * rng.normal(size=X.shape)
    pool = PooledClassifier([("knn", Neighbour())], cv=3, pseudo_count=1e-9)
    pool.fit(X, y, groups=groups)
    # Of rows that say nothing it is not sure; of those that it knows it would be, beyond 0.95.
    member = CalibratedClassifierCV(Neighbour(), cv=3, ensemble=False).fit(X, y)
    assert member.predict_proba(X).max() > 0.95
    assert pool.member_losses_["knn"]["log_loss"] < 0.75


def test_weights_that_a_decision_value_cannot_take_are_refused():
    X, y = table()
    with pytest.raises(DataError, match="sample_weight: 'knn', Neighbour, takes none"):
        PooledClassifier([("knn", Neighbour())]).fit(X, y, np.arange(1.0, 61.0))


def test_a_search_is_given_weights_and_groups():
    X, y = table()
    groups, weights = np.arange(60) // 2, 1.0 + np.arange(60) % 3
    grid = {"logisticregression__C": [0.01, 1.0]}
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(scaled, grid, cv=GroupKFold(2))
    pool = PooledClassifier([("search", search)], cv=3).fit(X, y, weights, groups)
    whole = pool.estimators_[0]
    best = scaled.set_params(**whole.best_params_)
    best.fit(X, y, logisticregression__sample_weight=weights)
    np.testing.assert_allclose(whole.predict_proba(X), best.predict_proba(X), atol=1e-4)


def test_routed_weights_reach_the_steps_that_ask_for_them():
    X, y = table()
    weights = 1.0 + np.arange(60) % 3
    plain = PooledClassifier([("lr", make_pipeline(LogisticRegression()))], cv=3)
    expected = plain.fit(X, y, weights).predict_proba(X)
    with config_context(enable_metadata_routing=True):
        asks = make_pipeline(LogisticRegression().set_fit_request(sample_weight=True))
        pool = PooledClassifier([("lr", asks)], cv=3).fit(X, y, weights)
        np.testing.assert_array_equal(pool.predict_proba(X), expected)


@pytest.mark.parametrize("name", ["forest", "boosting", "nb"])
@pytest.mark.parametrize(
    ("usual", "once"),
    [
        (np.nan, np.nan),  # no cell at all
        (np.nan, 1.5),
        (None, "x"),
        ([0, 1, 2, 3, 4, 5], -1),  # counts, but for one
        ([0, 1], 2),  # yes or no, but for one
        (1, 2),  # a constant
        (True, None),
        ("a", None),
        (0, 0.5),
    ],
)
def test_what_a_fold_does_not_show_of_a_column_leaves_no_member_out(name, usual, once):
    X, y = table(90)
    cells = [once, *(usual if isinstance(usual, list) else [usual]) * 89][:90]
    rare = pd.Series(cells, dtype=object if usual is None else None)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(rare=rare)
    pool = PooledClassifier([name], cv=3).fit(frame, y)
    assert not pool.left_out_
    assert np.isfinite(pool.predict_log_proba(frame)).all()


@pytest.mark.parametrize("given", [LogisticRegression, None, StandardScaler(), 3])
def test_what_is_no_classifier_is_refused_by_name(given):
    X, y = table()
    with pytest.raises(DataError, match=r"estimators: expected one of 'nb', .* name a classifier"):
        PooledClassifier([("x", given)]).fit(X, y)


@pytest.mark.parametrize("estimators", ["default", [*PAIR, ("svm", LinearSVC())]])
def test_pools_of_sparse_tables_read_dense_ones_of_the_same_columns(estimators):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    X = rng.poisson(0.3 + 0.7 * (np.arange(12) % 2 == y[:, None]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        pool = PooledClassifier(estimators).fit(scipy.sparse.csr_array(X), y)
    expected = pool.predict_proba(scipy.sparse.csr_array(X))
    for dense in (X, X.astype(float), X.tolist()):
        np.testing.assert_allclose(pool.predict_proba(dense), expected, rtol=1e-12)
    with pytest.raises(DataError, match="X has 11 features, but PooledClassifier"):
        pool.predict_proba(X[:, 1:])
    with pytest.raises(DataError, match="X has 11 features, but PooledClassifier"):
        pool.predict_proba(scipy.sparse.csr_array(X[:, 1:]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        of_dense = PooledClassifier(estimators).fit(X, y)
    with pytest.raises(DataError, match="expected a dense table as in fit, got a sparse one"):
        of_dense.predict_proba(scipy.sparse.csr_array(X))
