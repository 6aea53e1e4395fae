"""Choosing λ: deterministic, blind to row order and labels' names, weights are repetition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.errors import DataError
from crossfade.fitting.labelled_rows import LabelledRows
from crossfade.fitting.path import TRADEOFFS
from crossfade.fitting.selection import folds, losses

KEYS = {"tradeoff", "log_loss", "brier", "error", "objective"}


def small(n=120, k=3, seed=0):
    """Rows for which folds are refitted."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, 3)) + y[:, None] * [1.0, 0.5, 0.0]
    X[:, 2] += X[:, 0]
    return X, y


def large(seed=0):
    """Rows for which leave-one-out is approximated."""
    return small(n=500, k=2, seed=seed)


ROUTES = {
    "folds": (small, "refits on 10 folds of 120 rows"),
    "leave-one-out": (large, "approximate leave-one-out over 500 rows"),
}


def same_path(one, other, atol=1e-9):
    assert one.keys() == other.keys() == KEYS
    for key in KEYS:
        np.testing.assert_allclose(one[key], other[key], rtol=1e-6, atol=atol)


@pytest.mark.parametrize("route", ROUTES)
def test_the_path_and_its_choice(route):
    data, method = ROUTES[route]
    X, y = data()
    model = NaiveBayes().fit(X, y)
    path = model.tradeoff_path_
    assert model.selection_ == method
    assert set(path) == KEYS
    np.testing.assert_array_equal(path["tradeoff"], TRADEOFFS)
    assert all(len(path[key]) == len(TRADEOFFS) for key in KEYS)
    best = path["log_loss"].argmin()
    assert model.tradeoff_ == path["tradeoff"][best]
    # The final fit is the one a user gets who gives this tradeoff.
    given = NaiveBayes(tradeoff=model.tradeoff_).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), given.predict_proba(X), atol=1e-7)
    assert model.solution_.value == pytest.approx(path["objective"][best], rel=1e-6)
    again = NaiveBayes().fit(X, y)
    for key in KEYS:
        np.testing.assert_array_equal(path[key], again.tradeoff_path_[key])


def test_out_of_fold_losses_are_what_folds_give():
    """Recompute one point of the path by hand, from the folds and fits of the estimator."""
    X, y = small()
    model = NaiveBayes().fit(X, y)
    fold = folds(LabelledRows(X, y, None, 3), 10)
    for position in (0, 5, 10):
        posterior = np.empty((len(X), 3))
        for number in range(10):
            held = fold == number
            part = NaiveBayes(tradeoff=TRADEOFFS[position]).fit(X[~held], y[~held])
            posterior[held] = part.predict_proba(X[held])
        own = posterior[np.arange(len(X)), y]
        log_loss = -np.log(own).mean()
        assert model.tradeoff_path_["log_loss"][position] == pytest.approx(log_loss, rel=1e-3)
        brier = ((posterior - np.eye(3)[y]) ** 2).sum(axis=1).mean()
        assert model.tradeoff_path_["brier"][position] == pytest.approx(brier, rel=1e-3)
        error = (posterior.argmax(axis=1) != y).mean()
        assert model.tradeoff_path_["error"][position] == pytest.approx(error, abs=0.009)


@pytest.mark.parametrize("route", ROUTES)
def test_weights_are_repetition(route):
    X, y = ROUTES[route][0]()
    weights = np.random.default_rng(1).integers(0, 4, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = NaiveBayes().fit(X, y, sample_weight=weights)
    other = NaiveBayes().fit(X[index], y[index])
    assert one.selection_.split(" over ")[0].split(" of ")[0] == (
        "refits on 10 folds" if route == "folds" else "approximate leave-one-out"
    )
    assert other.selection_.split(" ")[0] == one.selection_.split(" ")[0]
    same_path(one.tradeoff_path_, other.tradeoff_path_, atol=1e-6)
    assert one.tradeoff_ == other.tradeoff_
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
def test_the_order_of_rows_does_not_matter(route):
    X, y = ROUTES[route][0]()
    order = np.random.default_rng(2).permutation(len(y))
    one, other = NaiveBayes().fit(X, y), NaiveBayes().fit(X[order], y[order])
    same_path(one.tradeoff_path_, other.tradeoff_path_, atol=1e-6)
    assert one.tradeoff_ == other.tradeoff_


@pytest.mark.parametrize("route", ROUTES)
def test_names_of_labels_do_not_matter(route):
    """New names in the same order; where leave-one-out is used, in any order."""
    X, y = ROUTES[route][0]()
    k = y.max() + 1
    names = np.array(["ant", "bee", "cat"])[:k]
    one, other = NaiveBayes().fit(X, y), NaiveBayes().fit(X, names[y])
    same_path(one.tradeoff_path_, other.tradeoff_path_)
    if route == "leave-one-out":
        turned = NaiveBayes().fit(X, k - 1 - y)
        same_path(one.tradeoff_path_, turned.tradeoff_path_, atol=1e-6)
        np.testing.assert_allclose(
            one.predict_proba(X), turned.predict_proba(X)[:, ::-1], atol=1e-7
        )


def test_relabelled_classes_give_the_same_model_at_every_tradeoff():
    X, y = small()
    turn = np.array([2, 0, 1])
    for tradeoff in (1, 0.5, 0):
        for make in (NaiveBayes, GaussianDiscriminant):
            one = make(tradeoff=tradeoff).fit(X, y)
            other = make(tradeoff=tradeoff).fit(X, turn[y])
            np.testing.assert_allclose(
                one.predict_proba(X), other.predict_proba(X)[:, turn], atol=1e-9
            )


def test_units_do_not_matter_for_the_choice():
    X, y = small()
    one = NaiveBayes().fit(X, y)
    other = NaiveBayes().fit(X * [1e-6, 1e5, 1.0] + [0.0, 3e5, -20.0], y)
    for key in KEYS - {"objective"}:
        np.testing.assert_allclose(one.tradeoff_path_[key], other.tradeoff_path_[key], atol=1e-6)


def test_equal_rows_share_a_fold():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(200, 2)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    codes = rng.integers(2, size=200)
    fold = folds(LabelledRows(X, codes, None, 2, has_missing=True), 10)
    seen = {}
    for row, code, number in zip(X, codes, fold, strict=True):
        key = (code, *np.nan_to_num(row, nan=-1.0))
        assert seen.setdefault(key, number) == number
    assert set(fold) <= set(range(10))


def test_a_class_with_one_distinct_row_is_never_held_out():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [9.0], [9.0]])
    codes = np.array([0, 0, 0, 0, 1, 1])
    fold = folds(LabelledRows(X, codes, None, 2), 3)
    assert (fold[4:] == -1).all()
    assert (fold[:4] >= 0).all()


def test_every_class_is_dealt_evenly():
    X, y = small(n=300)
    fold = folds(LabelledRows(X, y, None, 3), 10)
    for k in range(3):
        held = np.bincount(fold[y == k], minlength=10)
        assert held.max() - held.min() <= 1
    sizes = np.bincount(fold, minlength=10)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("criterion", ["log_loss", "brier", "error"])
def test_the_named_loss_decides(criterion):
    X, y = large(seed=5)
    model = NaiveBayes(selection=criterion).fit(X, y)
    path = model.tradeoff_path_
    chosen = np.flatnonzero(path["tradeoff"] == model.tradeoff_)[0]
    assert path[criterion][chosen] == path[criterion].min()
    ties = path[criterion] == path[criterion].min()
    assert path["log_loss"][chosen] == path["log_loss"][ties].min()


def test_losses_by_hand():
    scores = np.log(np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])) + 5.0
    codes, weights = np.array([0, 0, 2]), np.array([1.0, 2.0, 1.0])
    costs = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    found = losses(scores.copy(), codes, weights, costs)
    assert found.log_loss == pytest.approx(-(np.log(0.7) + 2 * np.log(0.3) + np.log(0.5)) / 4)
    brier = [0.09 + 0.04 + 0.01, 0.49 + 0.16 + 0.09, 0.04 + 0.09 + 0.25]
    assert found.brier == pytest.approx((brier[0] + 2 * brier[1] + brier[2]) / 4)
    assert found.error == pytest.approx(2 / 4)
    # Expected costs of deciding 0, 1, 2: (1.1, 1.6, 3.0), (3.1, 3.0, 1.6), (4.8, 4.7, 1.1).
    assert found.cost == pytest.approx((0.0 + 2 * 4.0 + 0.0) / 4)


def test_a_cost_matrix_decides_and_predicts():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 1, 4, 8]]
    costs = np.array([[0.0, 20.0], [1.0, 0.0]])
    model = NaiveBayes(selection=costs).fit(X, y)
    posterior = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), (posterior @ costs).argmin(axis=1))
    plain = NaiveBayes(tradeoff=model.tradeoff_).fit(X, y)
    assert (model.predict(X) == 0).sum() > (plain.predict(X) == 0).sum()
    np.testing.assert_allclose(posterior, plain.predict_proba(X), atol=1e-8)
    # With the costs of errors it is the choice by error.
    unit = NaiveBayes(selection=1.0 - np.eye(2)).fit(X, y)
    error = NaiveBayes(selection="error").fit(X, y)
    assert unit.tradeoff_ == error.tradeoff_
    np.testing.assert_array_equal(unit.predict(X), error.predict(X))


def test_a_cost_matrix_of_the_wrong_shape_is_refused():
    X, y = small()
    with pytest.raises(
        DataError, match=r"selection: expected a matrix of finite costs of shape \(3, 3\)"
    ):
        NaiveBayes(selection=np.eye(2)).fit(X, y)
    with pytest.raises(DataError, match="selection: expected one of 'log_loss', 'brier', 'error'"):
        NaiveBayes(selection="accuracy").fit(X, y)


@pytest.mark.parametrize("components", [1, 2])
def test_discriminants_choose_too(components):
    X, y = load_iris(return_X_y=True)
    model = GaussianDiscriminant("spherical", components=components, n_init=1).fit(X, y)
    assert set(model.tradeoff_path_) == KEYS
    assert model.tradeoff_ in TRADEOFFS
    best = model.tradeoff_path_["log_loss"].argmin()
    assert model.tradeoff_ == model.tradeoff_path_["tradeoff"][best]


def test_a_class_prior_shifts_the_losses_to_its_population():
    """With an exact shift, the held-out loss is that of rows reweighted to the new shares."""
    X, y = small()
    shares = np.array([0.6, 0.3, 0.1])
    model = NaiveBayes(class_prior=shares).fit(X, y)
    fold = folds(LabelledRows(X, y, None, 3), 10)
    ratio = (shares / (np.bincount(y) / len(y)))[y]
    posterior = np.empty((len(X), 3))
    for number in range(10):
        held = fold == number
        part = NaiveBayes(tradeoff=0.5).fit(X[~held], y[~held])
        scores = part.predict_log_proba(X[held]) + np.log(shares / (np.bincount(y) / len(y)))
        posterior[held] = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = np.average(-np.log(posterior[np.arange(len(X)), y]), weights=ratio)
    at = TRADEOFFS.index(0.5)
    assert model.tradeoff_path_["log_loss"][at] == pytest.approx(expected, rel=1e-3)


def test_a_column_of_many_levels_is_selected_without_forming_its_statistics():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1100)
    X = np.where(rng.random(1100) < 0.03, y, rng.permutation(1100))[:, None]
    model = NaiveBayes("categorical").fit(X, y)
    assert not model.density_.forms_statistics
    assert model.selection_ == "refits on 3 folds of 1100 rows"
    assert model.tradeoff_ in TRADEOFFS
