"""Pools with rows that have no label: against fits of the members made here, and equalities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from crossfade import DataError, GaussianDiscriminant, NaiveBayes, PooledClassifier
from tests.classifiers.test_unlabelled import half_labelled

LDA = GaussianDiscriminant(tradeoff=1, unlabelled_weight=0.5)
MEMBERS = [
    ("lda", LDA),
    ("lr", LogisticRegression()),
    ("tree", DecisionTreeClassifier(max_depth=2, random_state=0)),
]
OTHERS = MEMBERS[1:]


def mixed_up(n=120, n_labelled=50, seed=0):
    """Return rows in no order, and labels, of which some are missing."""
    X, labels = half_labelled(n, n_labelled, k=3, seed=seed)
    order = np.random.default_rng(seed).permutation(n)
    return X[order], labels[order]


def pool(members=MEMBERS, **parameters):
    return PooledClassifier(members, unlabelled="missing", **parameters)


@pytest.mark.parametrize("splitter", [False, True])
def test_members_that_can_learn_from_them_and_labelled_rows_weigh_all(splitter):
    X, labels = mixed_up()
    own, rest = np.flatnonzero(labels != None), np.flatnonzero(labels == None)  # noqa: E711
    y = labels[own].astype(int)
    parts = list(StratifiedKFold(4).split(X[own], y))
    given = [(np.append(own[a], rest[:9]), np.append(own[b], rest[9:])) for a, b in parts]
    fitted = pool(cv=StratifiedKFold(4) if splitter else given).fit(X, labels)
    for name, member in MEMBERS:
        losses, shares = [], np.bincount(y) / y.size
        for train, test in parts:
            rows, own_labels = X[own[train]], labels[own[train]]
            model = clone(member)
            if name == "lda":
                model.set_params(unlabelled="missing")
                rows, own_labels = np.vstack([rows, X[rest]]), np.append(own_labels, labels[rest])
            else:
                own_labels = own_labels.astype(int)
            posterior = model.fit(rows, own_labels).predict_proba(X[own[test]])
            drawn = (train.size * posterior + shares) / (train.size + 1)
            losses.append(log_loss(y[test], drawn) * test.size)
        assert fitted.member_losses_[name]["log_loss"] == pytest.approx(sum(losses) / y.size)
    kept = dict(zip(fitted.member_names_, fitted.estimators_, strict=True))
    whole = clone(LDA).set_params(unlabelled="missing").fit(X, labels)
    assert_allclose(kept["lda"].predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert fitted.n_unlabelled_ == rest.size == kept["lda"].n_unlabelled_
    assert_allclose(fitted.class_prior_, shares)


def test_what_cannot_learn_from_them_is_as_without_them():
    X, labels = mixed_up()
    own = labels != None  # noqa: E711
    plain = PooledClassifier(OTHERS).fit(X[own], labels[own].astype(int))
    beside = pool(OTHERS).fit(X, labels)
    assert_array_equal(beside.predict_proba(X), plain.predict_proba(X))
    assert beside.weights_ == plain.weights_
    frozen = FrozenEstimator(LDA.fit(X[own], labels[own].astype(int)))
    members = [("lda", frozen), *OTHERS]
    plain = PooledClassifier(members).fit(X[own], labels[own].astype(int))
    assert_array_equal(pool(members).fit(X, labels).predict_proba(X), plain.predict_proba(X))
    none = GaussianDiscriminant(tradeoff=1, unlabelled_weight=0)
    plain = PooledClassifier([("a", none)]).fit(X[own], labels[own].astype(int))
    beside = pool([("a", none)]).fit(X, labels)
    assert_allclose(beside.predict_proba(X), plain.predict_proba(X), rtol=1e-12)
    mixture = GaussianDiscriminant(components=2, tradeoff=1, n_init=1)
    derived = NaiveBayes(tradeoff=1, interactions=[(0, 1)])
    assert set(pool([("mixture", mixture), ("derived", derived)]).fit(X, labels).left_out_) == set()


def test_how_rows_lie_what_they_weigh_and_what_marks_them_do_not_matter():
    X, labels = mixed_up()
    expected = pool().fit(X, labels).predict_proba(X)
    order = np.random.default_rng(1).permutation(len(X))
    assert_allclose(pool().fit(X[order], labels[order]).predict_proba(X), expected, rtol=1e-6)
    marked = np.where(labels == None, -1, labels).astype(int)  # noqa: E711
    by_value = PooledClassifier(MEMBERS, unlabelled=-1).fit(X, marked)
    assert_array_equal(by_value.predict_proba(X), expected)
    assert by_value.classes_.tolist() == [0, 1, 2]
    weights = np.random.default_rng(2).integers(0, 4, len(X)).astype(float)
    members = [("lda", LDA), ("lr", LogisticRegression(tol=1e-10, max_iter=1_000))]
    weighed = pool(members).fit(X, labels, sample_weight=weights)
    often = np.repeat(np.arange(len(X)), weights.astype(int))
    repeated = pool(members).fit(X[often], labels[often])
    assert_allclose(weighed.predict_proba(X), repeated.predict_proba(X), rtol=1e-4)
    assert weighed.n_unlabelled_ == np.count_nonzero(weights[labels == None])  # noqa: E711


def test_frames_and_own_members_that_choose_on_the_pool_s_folds():
    X, y = load_wine(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X.iloc[order, :2], y.iloc[order].map({0: "a", 1: "b", 2: "c"})
    few = y.where(np.arange(len(y)) < 60, None)
    members = [("nb", NaiveBayes()), ("lr", LogisticRegression(max_iter=5_000))]
    fitted = pool(members).fit(X, few)
    alone = NaiveBayes(unlabelled="missing").fit(X, few)
    nb = dict(zip(fitted.member_names_, fitted.estimators_, strict=True))["nb"]
    assert nb.n_unlabelled_ == alone.n_unlabelled_ == len(y) - 60
    assert_allclose(nb.unlabelled_weight_, alone.unlabelled_weight_, atol=0.05)
    plain = pool().fit(X, few)
    of_polars = pool().fit(
        pl.from_pandas(X), pl.Series([None if v is np.nan or v != v else v for v in few])
    )
    assert_allclose(of_polars.predict_proba(pl.from_pandas(X)), plain.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_leave_out_rows_without_a_label_too(grouped):
    X, labels = mixed_up(160, 80)
    groups = np.random.default_rng(3).integers(0, 30, len(X)) if grouped else None
    fitted = pool([("lda", LDA)]).fit(X, labels, groups=groups)
    data = fitted._jackknife._fits.data
    replicas = fitted._jackknife.replicas()
    sizes = [one.weighed.models[0].n_unlabelled_ for one in replicas]
    assert sum(80 - size for size in sizes) == 80  # each is left out once
    assert min(sizes) < 80
    if grouped:
        others = data.rows.unlabelled
        for one in replicas:
            model = one.weighed.models[0]
            assert model.class_count_.sum() + model.n_unlabelled_ < 160
        assert set(others.groups.tolist()) <= set(range(30))
    _, low, high = fitted.predict_proba(X[:9], interval=0.9)
    assert (low < high).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"unlabelled": np.nan}, "unlabelled: expected None, 'missing' or a label, got nan"),
        ({}, "unlabelled='missing' of NaiveBayes, GaussianDiscriminant and PooledClassifier"),
        (
            {"estimators": [("nb", NaiveBayes(unlabelled=-1))], "unlabelled": "missing"},
            "got unlabelled=-1 of 'nb'; leave it None, and give it to the pool",
        ),
    ],
)
def test_refusals(parameters, message):
    X, labels = mixed_up()
    with pytest.raises(DataError) as error:
        PooledClassifier(**({"estimators": MEMBERS} | parameters)).fit(X, labels)
    assert message in str(error.value)


def test_labels_of_all_rows_leave_everything_as_it_is():
    X, labels = mixed_up()
    own = labels != None  # noqa: E711
    X, y = pd.DataFrame(X[own]), labels[own].astype(int)
    fitted = pool().fit(X, y)
    assert fitted.n_unlabelled_ == 0
    expected = PooledClassifier(MEMBERS).fit(X, y).predict_proba(X)
    assert_array_equal(fitted.predict_proba(X), expected)
