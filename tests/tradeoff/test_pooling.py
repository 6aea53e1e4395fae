"""Weights of a pool: the convex problem's optimum, and what a pool must do with bad members."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.errors import DataError
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.pooling import LogarithmicLoss, pool_or_one

pytestmark = pytest.mark.usefixtures("whole_choice")


def pool_weights(scores, codes, weights, log_prior, *, brier=False):
    return LogarithmicLoss(scores, codes, weights, log_prior).least(brier=brier)


def members(n=200, k=3, seed=0):
    """Return scores of a good model, of one far too sure, of one that knows nothing, and labels."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, k))
    codes = np.array([rng.choice(k, p=np.exp(row)) for row in log_softmax(true, axis=1)])
    return np.stack([true, 8.0 * true, rng.normal(size=(n, k))]), codes


def objective(w, scores, codes, log_prior, brier, ridge=1.0, pseudo=0.2):
    """The loss by the formulas of the module, written anew."""
    n, k = scores.shape[1:]
    labels = (1 - pseudo / (pseudo + n)) * np.eye(k)[codes]
    labels = labels + pseudo / (pseudo + n) * np.exp(log_prior)
    pooled = log_prior + np.tensordot(w, scores - log_prior, axes=1)
    log_posterior = log_softmax(pooled, axis=1)
    loss = -(labels * log_posterior).sum()
    if brier:
        loss = ((np.exp(log_posterior) - labels) ** 2).sum()
    centred = scores - log_prior
    centred = centred - centred.mean(axis=2, keepdims=True)
    size = (centred**2).sum(axis=2).mean(axis=1)
    telling = np.sort(size[size >= 0.1])
    excess = np.maximum(size / telling[len(telling) // 4], 1.0)
    middle = 1 / excess / (1 / excess).sum()
    return loss + 0.5 * ridge * len(w) * (excess * (w - middle) ** 2).sum()


@pytest.mark.parametrize("brier", [False, True])
def test_no_other_weights_are_better(brier):
    scores, codes = members()
    log_prior = np.log(np.bincount(codes) / len(codes))
    found = pool_weights(scores, codes, None, log_prior, brier=brier)
    assert (found >= 0).all()
    reference = minimize(
        objective,
        np.full(3, 1 / 3),
        args=(scores, codes, log_prior, brier),
        bounds=[(0, None)] * 3,
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    own = objective(found, scores, codes, log_prior, brier)
    assert own <= reference.fun + 1e-7
    np.testing.assert_allclose(found, reference.x, atol=1e-3)


@pytest.mark.parametrize("n_silent", [1, 3, 12])
def test_models_that_say_next_to_nothing_do_not_silence_the_others(n_silent):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    odds = 1.5 * (2 * y - 1) + rng.normal(size=400)  # Bayes' rule: 3 times as much
    telling = np.stack([-odds, odds], axis=1)
    silent = 0.03 * rng.normal(size=(n_silent, 400, 2))
    log_prior = np.log([0.5, 0.5])
    alone = pool_weights(telling[None], y, None, log_prior)
    beside = pool_weights(np.stack([telling, *silent]), y, None, log_prior)
    assert beside[0] > 0.75 * alone[0]


@pytest.mark.slow
def test_auto_is_near_its_best_point_where_half_of_the_grid_sees_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=1200) > 0  # means say nothing, products all
    model = GaussianDiscriminant(covariance="full").fit(X[:300], y[:300])
    best = GaussianDiscriminant(covariance="full", tradeoff="best").fit(X[:300], y[:300])
    losses = [log_loss(y[300:], one.predict_proba(X[300:])) for one in (model, best)]
    assert losses[0] < losses[1] + 0.05


def test_the_scale_repairs_what_is_too_sure():
    scores, codes = members(n=2000)
    log_prior = np.log(np.bincount(codes) / len(codes))
    (weight,) = pool_weights(scores[1:2], codes, None, log_prior)
    assert weight == pytest.approx(1 / 8, rel=0.1)


def test_weights_are_repetition_and_a_common_term_changes_nothing():
    scores, codes = members()
    log_prior = np.log(np.bincount(codes) / len(codes))
    weights = np.random.default_rng(1).integers(1, 4, size=len(codes))
    index = np.repeat(np.arange(len(codes)), weights)
    one = pool_weights(scores, codes, weights.astype(float), log_prior)
    other = pool_weights(scores[:, index], codes[index], None, log_prior)
    np.testing.assert_allclose(one, other, atol=1e-9)
    moved = scores + np.random.default_rng(2).normal(size=(3, len(codes), 1))
    same = pool_weights(moved, codes, weights.astype(float), log_prior)
    np.testing.assert_allclose(one, same, atol=1e-9)


def test_scores_of_any_size_are_weighed():
    scores, codes = members()
    log_prior = np.log(np.bincount(codes) / len(codes))
    scores = np.concatenate([scores, 1e9 * scores[2:]])
    found = pool_weights(scores, codes, None, log_prior)
    assert np.isfinite(found).all()
    assert found[3] * 1e9 < 1.0


# -- what is asked of "auto" -----------------------------------------------------------------------


def test_one_model_alone_only_where_it_is_better_beyond_doubt():
    rng = np.random.default_rng(0)
    n, k = 240, 12
    codes, log_prior = np.arange(n) % k, np.full(k, -np.log(k))
    base = np.eye(k)[codes] + rng.normal(size=(n, k))
    ordinary = np.linspace(0.8, 1.2, 17)[:, None, None] * base
    args = codes, None, log_prior
    np.testing.assert_array_equal(
        pool_or_one(ordinary, *args, brier=False), pool_weights(ordinary, *args)
    )
    # A column that is the class: its neighbours are far off, the other end a hundred times as far.
    sure = np.concatenate([ordinary, -1e9 * (np.arange(k) - codes[:, None])[None] ** 2.0])
    found = pool_or_one(sure, *args, brier=False)
    assert (found[:-1] == 0.0).all()
    posterior = softmax(log_prior + np.tensordot(found, sure - log_prior, axes=1), axis=1)
    assert -np.log(posterior[np.arange(n), codes]).mean() < 0.03
    # Right in few rows, or wrong in one: the others hold it back.
    few = np.arange(9)
    wrong = sure.copy()
    wrong[-1, 0] = wrong[-1, 1]
    for scores, y in ((sure[:, few], codes[few]), (wrong, codes)):
        np.testing.assert_array_equal(
            pool_or_one(scores, y, None, log_prior, brier=False),
            pool_weights(scores, y, None, log_prior),
        )
    often = rng.integers(1, 4, size=n)
    weighted = pool_or_one(sure, codes, often.astype(float), log_prior, brier=False)
    repeated = np.repeat(sure, often, axis=1), np.repeat(codes, often)
    np.testing.assert_allclose(
        weighted, pool_or_one(*repeated, None, log_prior, brier=False), rtol=1e-9
    )


def test_noise_returns_nearly_the_prior():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 6)), (rng.random(150) < 0.3).astype(int)
    for model in (NaiveBayes(), GaussianDiscriminant()):
        posterior = model.fit(X, y).predict_proba(rng.normal(size=(500, 6)))[:, 1]
        assert np.abs(posterior - y.mean()).mean() < 0.05
        assert model.posterior_scale_ < 0.5


def test_a_column_copied_fifty_times_is_no_certainty():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    x = rng.normal(size=200) + y
    X = np.tile(x[:, None], 50)
    fresh = np.linspace(-1.5, 2.5, 9)
    copied = NaiveBayes(shared_variance=True).fit(X, y)
    posterior = copied.predict_proba(np.tile(fresh[:, None], 50))[:, 1]
    alone = NaiveBayes(shared_variance=True).fit(x[:, None], y).predict_proba(fresh[:, None])[:, 1]
    np.testing.assert_allclose(posterior, alone, atol=0.06)
    naive = NaiveBayes(shared_variance=True, tradeoff=1).fit(X, y)
    assert naive.predict_proba(np.tile(fresh[:, None], 50)).max() > 1 - 1e-9


def test_separated_classes_stay_finite_and_sure():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 3)) + 12.0 * y[:, None]
    model = NaiveBayes().fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.parameters_.natural).all()
    assert np.isfinite(model.predict_log_proba(X * 10)).all()
    middle = model.predict_proba(np.full((1, 3), 6.0))
    assert middle.min() > 0.01


@pytest.mark.parametrize("make", [NaiveBayes, GaussianDiscriminant])
def test_a_class_with_three_rows_and_sorted_rows(make):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 60, 3])
    X = rng.normal(size=(123, 3)) + y[:, None]
    order = rng.permutation(123)
    one, other = make().fit(X, y), make().fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)
    assert one.predict_proba(X)[:, 2].mean() == pytest.approx(3 / 123, abs=0.02)


# -- groups ----------------------------------------------------------------------------------------


def test_groups_are_left_out_together():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=300)
    groups = rng.integers(25, size=300)
    rows = LabelledRows(rng.normal(size=(300, 2)), codes, None, 3)
    fold = folds(rows, 5, groups)
    for group in range(25):
        assert np.unique(fold[groups == group]).size == 1
    sizes = np.bincount(fold, minlength=5)
    assert sizes.min() > 40
    # A class in one group is never held out: nothing would be left to learn it from.
    only = np.where(codes == 2, 24, groups % 24)
    assert (folds(rows, 5, only)[codes == 2] == -1).all()


def test_copies_of_a_row_fool_folds_but_not_groups():
    """Each patient's rows are nearly equal, and labels are noise: only groups see that."""
    rng = np.random.default_rng(0)
    centres, labels = rng.normal(size=(30, 8)), rng.integers(2, size=30)
    groups = np.repeat(np.arange(30), 8)
    X = centres[groups] + 0.01 * rng.normal(size=(240, 8))
    y = labels[groups]
    fooled = NaiveBayes().fit(X, y)
    grouped = NaiveBayes().fit(X, y, groups=groups)
    assert "of 240 rows of 30 groups" in grouped.selection_
    loss = {
        name: model.tradeoff_path_["log_loss"].min()
        for name, model in (("fooled", fooled), ("grouped", grouped))
    }
    assert loss["fooled"] < 0.55 < loss["grouped"]
    assert grouped.posterior_scale_ < 0.5 * fooled.posterior_scale_
    names = np.array([f"patient {g}" for g in groups])
    same = NaiveBayes().fit(X, y, groups=names)
    np.testing.assert_allclose(same.posterior_scale_, grouped.posterior_scale_, rtol=1e-9)


def test_wrong_groups_are_refused():
    X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    with pytest.raises(DataError, match=r"groups: expected shape \(8,\), got \(3,\)"):
        NaiveBayes().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(DataError, match="groups: expected at least two groups, got one"):
        NaiveBayes().fit(X, y, groups=np.zeros(8))
