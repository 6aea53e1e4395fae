"""Choosing λ: deterministic, blind to row order and labels' names, weights are repetition."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedShuffleSplit

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.densities import Gaussian, JohnsonSU
from crossfade.errors import DataError
from crossfade.tradeoff import out_of_fold
from crossfade.tradeoff.choice import is_clearly_lower, n_apart, paired_gain
from crossfade.tradeoff.criteria import LOSSES, Loss, losses
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.grid import TRADEOFFS
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.leave_one_out import approximate_leave_one_out
from crossfade.tradeoff.objective import TradeoffObjective

pytestmark = pytest.mark.usefixtures("whole_choice")


KEYS = {"tradeoff", "l2", "variant", "weight", "log_loss", "brier", "error", "objective"}

#: Points of the grid a variant of the density: λ = 1, 0.9 and 0.1, and three penalties at 0.5, 0.
N_POINTS = 9


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
    "folds": (small, "refits on 5 folds of 120 rows"),
    "leave-one-out": (large, "approximate leave-one-out over 500 rows"),
}


@cache
def chosen(route):
    """Return the choice on a route's rows, which several tests start from."""
    return NaiveBayes("gaussian").fit(*ROUTES[route][0]())


def same_path(one, other, atol=1e-9):
    assert one.keys() == other.keys() == KEYS
    for key in KEYS:
        np.testing.assert_allclose(one[key], other[key], rtol=1e-6, atol=atol)


@pytest.mark.parametrize("route", ROUTES)
def test_the_pool_is_the_weighted_mean_of_its_points(route):
    """Refit every point by itself, and weigh the log-odds by hand."""
    data, method = ROUTES[route]
    X, y = data()
    model = chosen(route)
    path = model.tradeoff_path_
    assert set(path) == KEYS
    assert all(len(path[key]) == 2 * N_POINTS for key in KEYS)
    assert set(path["tradeoff"]) == set(TRADEOFFS)
    assert model.selection_.startswith(f"{method}: pool of 18 points, ")
    assert model.posterior_scale_ == pytest.approx(path["weight"].sum())
    share = path["weight"] / path["weight"].sum()
    assert model.tradeoff_ == pytest.approx(share @ path["tradeoff"])
    log_prior = np.log(np.bincount(y) / len(y))
    pooled = np.zeros((len(X), y.max() + 1))
    for variant, tradeoff, l2, weight in zip(
        path["variant"], path["tradeoff"], path["l2"], share, strict=True
    ):
        density = Gaussian(True) if variant else Gaussian(False, shrinkage_rows=2.0)
        part = NaiveBayes(density, tradeoff=tradeoff, l2=l2).fit(X, y)
        pooled += weight * part.predict_log_proba(X)
    scores = log_prior + model.posterior_scale_ * (pooled - log_prior)
    np.testing.assert_allclose(model.predict_log_proba(X), log_softmax(scores, axis=1), atol=1e-5)
    # Weights that sum to one keep a density; its class shares are what the pool says of no cell.
    joint = log_softmax(model.joint_log_likelihood(X), axis=1) - log_softmax(pooled, axis=1)
    assert np.ptp(np.diff(joint, axis=1), axis=0).max() < 1e-5
    nothing = model.predict_proba(np.full((1, X.shape[1]), np.nan))[0]
    np.testing.assert_allclose(nothing, model.class_prior_, rtol=1e-9)
    again = NaiveBayes("gaussian").fit(X, y)
    for key in KEYS:
        np.testing.assert_array_equal(path[key], again.tradeoff_path_[key])


def test_the_pool_says_of_missing_cells_what_its_points_say():
    """Refit every point by itself, to rows with missing cells, and weigh the log-odds by hand."""
    X, y = small()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = NaiveBayes("gaussian", shared_variance=True).fit(X, y)
    path = model.tradeoff_path_
    assert set(path["tradeoff"]) == set(TRADEOFFS)
    assert path["weight"][path["tradeoff"] == 0.0].any()
    weight, parts = path["weight"] / path["weight"].sum(), []
    for tradeoff, l2 in zip(path["tradeoff"], path["l2"], strict=True):
        part = NaiveBayes("gaussian", tradeoff=tradeoff, l2=l2, shared_variance=True).fit(X, y)
        parts.append(part.predict_log_proba(X))
    # Above λ = 0 a density's -A is left out of the pool; the mean of A is not A of the mean.
    log_prior = np.log(np.bincount(y) / len(y))
    pooled = np.tensordot(weight, parts, axes=1)
    scores = log_prior + model.posterior_scale_ * (pooled - log_prior)
    np.testing.assert_allclose(model.predict_log_proba(X), log_softmax(scores, axis=1), atol=1e-5)


def test_at_zero_missing_categories_count_as_their_mean_beside_a_gaussian():
    """As a logistic regression on columns whose missing cells were filled in by hand."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=150)
    X = rng.normal(size=(150, 2)) + y[:, None]
    smokes = np.where(rng.random(150) < 0.3 + 0.3 * y, 1.0, 0.0)
    smokes[rng.random(150) < 0.3] = np.nan
    frame = {"a": X[:, 0], "b": X[:, 1]}
    gaps = pl.DataFrame(frame | {"smokes": smokes == 1.0}).with_columns(
        pl.when(pl.Series(~np.isnan(smokes))).then(pl.col("smokes"))
    )
    filled = pl.DataFrame(
        frame | {"smokes": np.where(np.isnan(smokes), np.nanmean(smokes), smokes)}
    )
    found = GaussianDiscriminant("shared", tradeoff=0, l2=0).fit(gaps, y)
    by_hand = GaussianDiscriminant("shared", tradeoff=0, l2=0).fit(filled, y)
    assert found.tradeoff_ == 0.0
    np.testing.assert_allclose(found.predict_proba(gaps), by_hand.predict_proba(filled), atol=1e-6)
    pool = GaussianDiscriminant("shared").fit(gaps, y)
    assert set(pool.tradeoff_path_["tradeoff"]) == set(TRADEOFFS)


def test_the_pool_adds_the_same_columns_of_every_variant():
    """Columns of all densities in turn, one of them with a variance that classes always share."""
    rng = np.random.default_rng(0)
    n = 300
    y = rng.integers(2, size=n)
    lengths = rng.normal(size=n) + y
    mostly_zero = np.where(rng.random(n) < 0.02 + 0.04 * y, rng.normal(2.0, 1.0, n), 0.0)
    grades = rng.integers(1, 5, size=n) + (y & (rng.random(n) < 0.5))
    incomes = np.exp(1.5 * rng.normal(size=n) - y)
    town = rng.choice(["a", "b", "c"], size=n)
    table = pl.DataFrame(
        {"length": lengths, "rare": mostly_zero, "town": town, "grade": grades, "income": incomes}
    )
    model = NaiveBayes().fit(table, y)
    found = {one["column"]: one["density"] for one in model.density_report_}
    assert found["rare"] == "johnson_su"
    assert "one variance" in model.density_report_[1]["reason"]
    path = model.tradeoff_path_
    assert (path["weight"][path["variant"] == 0] > 0).any()
    assert (path["weight"][path["variant"] == 1] > 0).any()

    def density(name, shared):
        rows = 0.0 if shared else 2.0
        if found[name] == "gaussian":
            return Gaussian(shared, shrinkage_rows=rows)
        x = table[name].to_numpy()
        return JohnsonSU(x.mean(), x.std(), shared, shrinkage_rows=rows)

    log_prior = np.log(np.bincount(y) / n)
    pooled = np.tile(log_prior, (n, 1))
    for variant, tradeoff, l2, weight in zip(
        path["variant"], path["tradeoff"], path["l2"], path["weight"], strict=True
    ):
        named = {name: density(name, bool(variant)) for name in ("length", "income")}
        named |= {"rare": density("rare", True), "grade": found["grade"]}
        if found["grade"] == "gaussian":
            named["grade"] = density("grade", bool(variant))
        part = NaiveBayes(named, tradeoff=tradeoff, l2=l2).fit(table, y)
        pooled += weight * (part.predict_log_proba(table) - log_prior)
    np.testing.assert_allclose(
        model.predict_log_proba(table), log_softmax(pooled, axis=1), atol=1e-5
    )


@pytest.mark.parametrize("route", ROUTES)
def test_the_best_point_is_one_fit(route):
    data, method = ROUTES[route]
    X, y = data()
    model = NaiveBayes("gaussian", shared_variance=True, tradeoff="best").fit(X, y)
    path = model.tradeoff_path_
    best = path["log_loss"].argmin()
    assert model.selection_.startswith(f"{method}: best of 9 points is tradeoff ")
    np.testing.assert_array_equal(np.flatnonzero(path["weight"]), [best])
    assert model.tradeoff_ == path["tradeoff"][best]
    given = NaiveBayes(
        "gaussian", shared_variance=True, tradeoff=model.tradeoff_, l2=path["l2"][best]
    )
    given.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), given.predict_proba(X), atol=1e-7)
    assert model.solution_.value == pytest.approx(path["objective"][best], rel=1e-6)
    assert model.posterior_scale_ == 1.0


def test_out_of_fold_losses_are_what_folds_give():
    """Recompute points of the grid by hand, from the folds and fits of the estimator."""
    X, y = small()
    path = NaiveBayes("gaussian", shared_variance=True).fit(X, y).tradeoff_path_
    fold = folds(LabelledRows(X, y, None, 3), 5)
    for position in (0, 3, 8):
        posterior = np.empty((len(X), 3))
        for number in range(5):
            held = fold == number
            part = NaiveBayes(
                shared_variance=True, tradeoff=path["tradeoff"][position], l2=path["l2"][position]
            )
            posterior[held] = part.fit(X[~held], y[~held]).predict_proba(X[held])
        own = posterior[np.arange(len(X)), y]
        assert path["log_loss"][position] == pytest.approx(-np.log(own).mean(), rel=1e-3)
        brier = ((posterior - np.eye(3)[y]) ** 2).sum(axis=1).mean()
        assert path["brier"][position] == pytest.approx(brier, rel=1e-3)
        error = (posterior.argmax(axis=1) != y).mean()
        assert path["error"][position] == pytest.approx(error, abs=0.009)


@pytest.mark.parametrize("route", ROUTES)
def test_weights_are_repetition(route):
    X, y = ROUTES[route][0]()
    weights = np.random.default_rng(1).integers(0, 4, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = NaiveBayes("gaussian").fit(X, y, sample_weight=weights)
    other = NaiveBayes("gaussian").fit(X[index], y[index])
    source = "refits on 5 folds" if route == "folds" else "approximate leave-one-out"
    assert one.selection_.startswith(source)
    assert other.selection_.startswith(source)
    same_path(one.tradeoff_path_, other.tradeoff_path_, atol=1e-6)
    assert one.tradeoff_ == pytest.approx(other.tradeoff_, abs=1e-6)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
def test_the_order_of_rows_does_not_matter(route):
    X, y = ROUTES[route][0]()
    order = np.random.default_rng(2).permutation(len(y))
    one, other = chosen(route), NaiveBayes("gaussian").fit(X[order], y[order])
    same_path(one.tradeoff_path_, other.tradeoff_path_, atol=1e-6)
    assert one.tradeoff_ == pytest.approx(other.tradeoff_, abs=1e-6)


@pytest.mark.parametrize("route", ROUTES)
def test_names_of_labels_do_not_matter(route):
    """New names in the same order; where leave-one-out is used, in any order."""
    X, y = ROUTES[route][0]()
    k = y.max() + 1
    names = np.array(["ant", "bee", "cat"])[:k]
    one, other = chosen(route), NaiveBayes("gaussian").fit(X, names[y])
    same_path(one.tradeoff_path_, other.tradeoff_path_)
    if route == "leave-one-out":
        turned = NaiveBayes("gaussian").fit(X, k - 1 - y)
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
    one = chosen("folds")
    other = NaiveBayes("gaussian").fit(X * [1e-6, 1e5, 1.0] + [0.0, 3e5, -20.0], y)
    for key in KEYS - {"objective"}:
        np.testing.assert_allclose(one.tradeoff_path_[key], other.tradeoff_path_[key], atol=1e-6)


def test_equal_rows_share_a_fold():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(200, 2)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    codes = (np.nan_to_num(X) @ [1, 3]).astype(np.int64) % 2
    fold = folds(LabelledRows(X, codes, None, 2, has_missing=True), 10)
    seen = {}
    for row, number in zip(X, fold, strict=True):
        assert seen.setdefault(tuple(np.nan_to_num(row, nan=-1.0)), number) == number
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
    model = NaiveBayes("gaussian", selection=criterion, tradeoff="best").fit(X, y)
    path = model.tradeoff_path_
    chosen = path["weight"].argmax()
    assert path[criterion][chosen] == path[criterion].min()
    assert model.tradeoff_ == path["tradeoff"][chosen]
    ties = path[criterion] == path[criterion].min()
    assert path["log_loss"][chosen] == path["log_loss"][ties].min()


def test_losses_by_hand():
    scores = np.log(np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])) + 5.0
    codes, weights = np.array([0, 0, 2]), np.array([1.0, 2.0, 1.0])
    costs = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [9.0, 9.0, 0.0]])
    found = losses(scores.copy(), codes, weights, costs)
    assert found["log_loss"] == pytest.approx(-(np.log(0.7) + 2 * np.log(0.3) + np.log(0.5)) / 4)
    brier = [0.09 + 0.04 + 0.01, 0.49 + 0.16 + 0.09, 0.04 + 0.09 + 0.25]
    assert found["brier"] == pytest.approx((brier[0] + 2 * brier[1] + brier[2]) / 4)
    assert found["error"] == pytest.approx(2 / 4)
    # Expected costs of deciding 0, 1, 2: (1.1, 1.6, 3.0), (3.1, 3.0, 1.6), (4.8, 4.7, 1.1).
    assert found["cost"] == pytest.approx((0.0 + 2 * 4.0 + 0.0) / 4)


def test_a_loss_needs_one_entry_in_the_table_to_choose_by(monkeypatch):
    bits = Loss("bits", lambda log_truth, posterior, codes: -log_truth / np.log(2.0))
    monkeypatch.setitem(LOSSES, "bits", bits)
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 1, 4, 8]]
    nats = NaiveBayes("gaussian", tradeoff="best").fit(X, y)
    found = NaiveBayes("gaussian", tradeoff="best", selection="bits").fit(X, y)
    assert found.tradeoff_ == nats.tradeoff_
    path = found.tradeoff_path_
    np.testing.assert_allclose(path["bits"], path["log_loss"] / np.log(2.0), rtol=1e-14)
    chosen = found.tradeoff_path_["weight"].argmax()
    assert f"bits {path['bits'][chosen]:.4g}" in found.selection_


def test_a_cost_matrix_decides_and_predicts():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [0, 1, 4, 8]]
    costs = np.array([[0.0, 20.0], [1.0, 0.0]])
    model = NaiveBayes("gaussian", selection=costs).fit(X, y)
    posterior = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), (posterior @ costs).argmin(axis=1))
    plain = NaiveBayes("gaussian").fit(X, y)
    assert (model.predict(X) == 0).sum() > (plain.predict(X) == 0).sum()
    # A pool is made by log-loss whatever the costs, and the costs decide.
    np.testing.assert_allclose(posterior, plain.predict_proba(X), atol=1e-12)
    # With the costs of errors it is the choice by error.
    unit = NaiveBayes("gaussian", selection=1.0 - np.eye(2), tradeoff="best").fit(X, y)
    error = NaiveBayes("gaussian", selection="error", tradeoff="best").fit(X, y)
    assert unit.tradeoff_ == error.tradeoff_
    np.testing.assert_array_equal(unit.predict(X), error.predict(X))


def test_a_cost_matrix_of_the_wrong_shape_is_refused():
    X, y = small()
    with pytest.raises(
        DataError, match=r"selection: expected a matrix of finite costs of shape \(3, 3\)"
    ):
        NaiveBayes("gaussian", selection=np.eye(2)).fit(X, y)
    with pytest.raises(DataError, match="selection: expected one of 'log_loss', 'brier', 'error'"):
        NaiveBayes("gaussian", selection="accuracy").fit(X, y)


@pytest.mark.parametrize("components", [1, 2])
def test_discriminants_choose_too(components):
    X, y = load_iris(return_X_y=True)
    model = GaussianDiscriminant("spherical", components=components, n_init=1).fit(X, y)
    path = model.tradeoff_path_
    assert set(path) == KEYS
    if components == 1:
        assert len(path["weight"]) == 2 * N_POINTS + 1  # and one regularised, at tradeoff 1
        assert model.tradeoff_ == pytest.approx(
            np.average(path["tradeoff"], weights=path["weight"])
        )
    else:  # a pool of mixtures is no mixture
        assert model.tradeoff_ == path["tradeoff"][path["log_loss"].argmin()]


def regularised(X, y, pooling, shrinkage, rows):
    """Return means, covariances and shares by Friedman's formula, with pseudo-rows, by NumPy."""
    n = np.bincount(y)
    means = np.array([X[y == k].mean(axis=0) for k in range(len(n))])
    own = np.array([np.cov(X[y == k].T, bias=True) for k in range(len(n))])
    S = np.tensordot(n / len(y), own, axes=1)
    D = np.diag(np.diagonal(S))
    if rows is None:  # shared: as many pseudo-rows in all
        kept = (1 - shrinkage) * S + shrinkage * D
        strength = len(y) / (1 - shrinkage)
        return means, np.array([(strength * kept + 2.0 * D) / (strength + 2.0)] * len(n)), n
    strength = n / (1 - pooling) / (1 - shrinkage)
    mixed = (1 - shrinkage) * ((1 - pooling) * own + pooling * S) + shrinkage * D
    strength = strength[:, None, None]
    return means, (strength * mixed + rows * D) / (strength + rows), n


def test_regularised_covariances_are_scored_by_refits_without_the_fold():
    """Every closed-form point's out-of-fold loss, by formulas and refits of their own."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::2], y[::2]
    path = GaussianDiscriminant("full").fit(X, y).tradeoff_path_
    fold = folds(LabelledRows(X, y, None, 3), 5)
    wanted = [(w, s, 2.0) for s in (0.0, 0.5) for w in (0.0, 0.5)] + [
        (0.0, s, None) for s in (0.0, 0.5)
    ]
    assert np.flatnonzero(path["tradeoff"] == 1.0).size == len(wanted)
    for found, (pooling, shrinkage, rows) in zip(
        path["log_loss"][path["tradeoff"] == 1.0], wanted, strict=True
    ):
        losses_by_hand = np.empty(len(y))
        for number in range(5):
            held = fold == number
            m, C, n = regularised(X[~held], y[~held], pooling, shrinkage, rows)
            joint = np.log(n / n.sum()) + np.column_stack(
                [multivariate_normal(m[k], C[k]).logpdf(X[held]) for k in range(3)]
            )
            losses_by_hand[held] = -log_softmax(joint, axis=1)[np.arange(held.sum()), y[held]]
        assert found == pytest.approx(losses_by_hand.mean(), rel=1e-7)


@pytest.mark.parametrize(
    ("covariance", "d", "tried"),
    [
        ("full", 18, {1.0, 0.9, 0.5, 0.1, 0.0}),
        ("full", 19, {1.0}),
        ("shared", 37, {1.0, 0.0}),
        pytest.param("shared", 36, {1.0, 0.9, 0.5, 0.1, 0.0}, marks=pytest.mark.slow),
    ],
)
def test_a_smaller_tradeoff_joins_where_its_parameters_are_few(covariance, d, tried):
    """Two classes: at most 10 times the 2 (d + 1) parameters of a logistic regression."""
    rng = np.random.default_rng(0)
    # No more than ten parameters to a row: that rule has its own test.
    X, y = rng.normal(size=(80, d)), np.arange(80) % 2
    model = GaussianDiscriminant(covariance).fit(X, y)
    path = model.tradeoff_path_
    assert set(path["tradeoff"][path["variant"] == 0]) == tried
    left = ", ".join(f"{t:g}" for t in sorted({*TRADEOFFS} - tried))
    said = f"tradeoffs {left} are left out, with "
    assert (said in model.selection_) == bool(left)
    assert (f"logistic regression has {2 * (d + 1)}" in model.selection_) == bool(left)


def test_a_class_prior_shifts_the_losses_to_its_population():
    """With an exact shift, the held-out loss is that of rows reweighted to the new shares."""
    X, y = small()
    shares = np.array([0.6, 0.3, 0.1])
    model = NaiveBayes("gaussian", shared_variance=True, class_prior=shares).fit(X, y)
    fold = folds(LabelledRows(X, y, None, 3), 5)
    ratio = (shares / (np.bincount(y) / len(y)))[y]
    posterior = np.empty((len(X), 3))
    for number in range(5):
        held = fold == number
        part = NaiveBayes("gaussian", shared_variance=True, tradeoff=0.5).fit(X[~held], y[~held])
        scores = part.predict_log_proba(X[held]) + np.log(shares / (np.bincount(y) / len(y)))
        posterior[held] = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = np.average(-np.log(posterior[np.arange(len(X)), y]), weights=ratio)
    path = model.tradeoff_path_
    at = (path["tradeoff"] == 0.5) & (path["l2"] == 1.0)
    assert path["log_loss"][at][0] == pytest.approx(expected, rel=1e-3)


def test_a_column_of_many_levels_is_selected_without_forming_its_statistics():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1100)
    X = np.where(rng.random(1100) < 0.03, y, rng.permutation(1100))[:, None]
    model = NaiveBayes("categorical").fit(X, y)
    assert not model.density_.forms_statistics
    assert model.selection_.startswith("refits on 3 folds of ")
    assert ": best of 5 points is " in model.selection_
    assert model.selection_.endswith("chosen on these rows of all 1100, because each fit is slow")
    # The chosen point is then fitted on all rows.
    given = NaiveBayes("categorical", tradeoff=model.tradeoff_).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), given.predict_proba(X), atol=1e-6)
    assert 0.0 <= model.tradeoff_ <= 1.0


@pytest.mark.parametrize("n_splits", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_as_many_columns_as_rows_do_not_make_a_gaussian_certain(n_splits):
    X, y = load_breast_cancer(return_X_y=True)
    splits = StratifiedShuffleSplit(n_splits, train_size=30, random_state=1).split(X, y)
    found = []
    for train, test in splits:
        model = GaussianDiscriminant().fit(X[train], y[train])
        posterior = model.predict_proba(X[test])[np.arange(len(test)), y[test]]
        found.append(-np.log(np.maximum(posterior, 1e-15)).mean())
    assert max(found) < 0.4


@pytest.mark.parametrize("estimator", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize("k", [3, 12])
def test_a_column_that_tells_the_class_does_not_prolong_the_choice(estimator, k, monkeypatch):
    """Its density is next to singular at λ = 1, from where the path then starts far away."""
    calls = []
    evaluate = TradeoffObjective._evaluate

    def counted(self, *args, **kwargs):
        calls[-1] += 1
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(TradeoffObjective, "_evaluate", counted)
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(240) % k)
    noise = rng.normal(size=(240, 2))
    found = []
    for told in (rng.normal(size=240), y, y + 1e-6 * rng.normal(size=240)):
        calls.append(0)
        options = {"density": "gaussian"} if estimator is NaiveBayes else {}
        X = np.column_stack([told, noise])
        posterior = estimator(**options).fit(X, y).predict_proba(X)
        found.append(-np.log(posterior[np.arange(240), y]).mean())
    assert max(calls[1:]) <= 3 * calls[0]
    assert max(found[1:]) < 0.05 < found[0]  # and the fit that knows it is believed


def test_copies_of_a_row_in_one_group_are_one_piece_of_evidence():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(2, 40))
    once = paired_gain(after, before, None)
    groups = np.repeat(np.arange(40), 3)
    thrice = np.repeat(after, 3), np.repeat(before, 3)
    np.testing.assert_allclose(paired_gain(*thrice, None, groups), once)
    assert paired_gain(*thrice, None)[1] == pytest.approx(once[1] / np.sqrt(3))
    np.testing.assert_allclose(paired_gain(after, before, np.full(40, 3.0), groups[::3]), once)
    assert n_apart(np.ones(120), None) == 120
    assert n_apart(np.ones(120), groups) == n_apart(np.full(40, 3.0), np.arange(40)) == 40
    assert n_apart(np.ones(120), np.zeros(120, dtype=int)) == 1
    # One group of nearly everything, and others of next to nothing.
    assert n_apart(np.array([97.0, 1.0, 1.0, 1.0]), np.arange(4)) == pytest.approx(1.06, abs=0.01)


@pytest.mark.parametrize("n", [20, 50, 1000])
@pytest.mark.parametrize("gain", [1.0, 1e3])
def test_a_gain_that_rests_on_one_unit_is_none(n, gain):
    before = np.ones(n) + gain
    for n_better in (1, 2, 3, n // 4):
        after = before.copy()
        after[:n_better] -= gain
        assert is_clearly_lower(after, before, None) == (n_better > 2)
        assert not is_clearly_lower(before, after, None)
    # One that loses more than many gain is no gain in the mean.
    after = before - 0.1 * gain
    after[0] = before[0] + n * gain
    assert not is_clearly_lower(after, before, None)
    # Large gains do not have to be equal.
    after = before.copy()
    after[:5] -= gain * np.array([1.0, 2.0, 20.0, 40.0, 900.0])
    assert is_clearly_lower(after, before, None)
    # Of units without a gain one in twenty.
    noise = np.random.default_rng(0).normal(size=(4000, n))
    passed = np.mean([is_clearly_lower(one, np.zeros(n), None) for one in noise])
    assert 0.03 < passed < 0.08


def test_fits_that_folds_score_are_not_left_out_row_by_row(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=420)
    X = rng.normal(size=(420, 5)) + 1.7 * y[:, None]  # next to separable: few rows say it all
    asked = []

    def counted(*arguments, **settings):
        asked.append(arguments)
        return approximate_leave_one_out(*arguments, **settings)

    monkeypatch.setattr(out_of_fold, "approximate_leave_one_out", counted)
    model = NaiveBayes(density="gaussian").fit(X, y)
    assert "refits on 5 folds" in model.selection_
    assert len(asked) == 1  # of 18 fits
    assert asked[0][0].tradeoff == 0.0
    # Fits that stand the test are all asked, once.
    asked.clear()
    model = NaiveBayes(density="gaussian").fit(X, rng.integers(2, size=420))
    assert "approximate leave-one-out" in model.selection_
    assert len(asked) == 2 * N_POINTS
