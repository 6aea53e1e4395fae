"""Class shares of rows without labels: against what makes the rows likeliest, and the truth."""

from __future__ import annotations

import io
import pickle
from functools import cache
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from crossfade import DataError, GaussianDiscriminant, NaiveBayes
from crossfade.inference import HeldOut, estimate_shares
from crossfade.inference.held_out import Moved
from crossfade.io import load_model, save_model


def two_classes(n, share, seed, shift=2.0):
    """Return rows of two Gaussian classes, and which are of the second."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 2)) + shift * y[:, None], y


def test_the_shares_make_the_rows_likeliest():
    rng = np.random.default_rng(0)
    log_posterior = log_softmax(rng.normal(size=(300, 2)) * 2, axis=1)
    prior = np.array([0.3, 0.7])
    found = estimate_shares(log_posterior, np.arange(2), prior).likeliest

    def loss(share):
        return -np.log(np.exp(log_posterior) @ (np.array([share, 1 - share]) / prior)).sum()

    best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}).x
    assert_allclose(found, [best, 1 - best], atol=1e-5)


def test_a_class_without_rows_gets_no_share_and_certainty_counts():
    posterior = np.repeat(np.eye(3)[[0, 2]], [30, 10], axis=0)
    with np.errstate(divide="ignore"):
        found = estimate_shares(np.log(posterior), np.arange(3), np.full(3, 1 / 3))
    assert_allclose(found.likeliest, [0.75, 0.0, 0.25], atol=1e-12)
    assert found.p_value < 1e-6
    low, high = found.interval
    assert low[0] < 0.75 < high[0]
    assert low[1] == 0.0
    assert 0.05 < high[1] < 0.35  # none of 40 rows still allows 1 in 20


def test_a_model_that_is_too_sure_is_corrected_by_rows_it_did_not_see():
    # The true posterior to the power of three: all new rows look surer than they are.
    rng = np.random.default_rng(1)

    def drawn(n, share):
        y = rng.random(n) < share
        x = rng.normal(size=n) + y
        return log_softmax(np.column_stack([0 * x, 3 * (x - 0.5)]), axis=1), y.astype(int)

    held, codes = drawn(4_000, 0.5)
    new, _ = drawn(4_000, 0.2)
    half = np.array([0.5, 0.5])
    raw = estimate_shares(new, np.arange(2), half)
    mended = estimate_shares(new, np.arange(2), half, HeldOut.of(held, codes, None))
    assert abs(raw.shares[1] - 0.2) > 0.04
    assert abs(mended.shares[1] - 0.2) < 0.04
    assert mended.interval[0, 1] < 0.2 < mended.interval[1, 1]


@pytest.mark.parametrize("apart", [0.3, 1.0, 2.0])
def test_a_shift_of_the_model_that_could_be_chance_does_not_pass_for_other_shares(apart):
    rng = np.random.default_rng(2)
    held = shifted = 0
    for _ in range(60):
        y = (rng.random(300) < 0.4).astype(int)
        fitted = np.bincount(y) / 300
        own = 0.12 * rng.normal()  # a standard error of an intercept

        def posterior(y, fitted=fitted, own=own):
            x = apart * (rng.normal(size=y.size) + apart * (y - 0.5))
            odds = x + np.log(fitted[1] / fitted[0]) + own
            return log_softmax(np.column_stack([0 * odds, odds]), axis=1)

        new = (rng.random(400) < 0.4).astype(int)
        left_out = HeldOut.of(posterior(y), y, None)
        found = estimate_shares(posterior(new), np.arange(2), fitted, left_out)
        held += found.interval[0, 1] <= 0.4 <= found.interval[1, 1]
        shifted += found.p_value <= 0.05
    # Of 57 and 3 that are expected, 51 and 9 would be seen once in 200 times.
    assert held > 51
    assert shifted < 9


@pytest.mark.parametrize("n_classes", [3, 5])
def test_few_rows_of_several_classes_keep_the_level_and_a_strong_shift_is_found(n_classes):
    """By naive Bayes of columns that it takes for independent and normal, which they are not."""
    centres = np.random.default_rng(5).normal(size=(n_classes, 4))
    shares = [np.full(n_classes, 1 / n_classes)] * 2
    shares[1] = np.append(0.85, np.full(n_classes - 1, 0.15 / (n_classes - 1)))
    shifted, errors = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)

        def rows(codes, rng=rng):
            X = np.sinh(1.3 * centres[codes] + rng.normal(size=(codes.size, 4)))
            return X + 0.7 * X[:, [1, 2, 3, 0]]

        y = rng.permutation(np.arange(100) % n_classes)
        model = NaiveBayes("gaussian", tradeoff=1).fit(rows(y), y)
        found = [
            model.adapt(rows(rng.choice(n_classes, size=200, p=p))).class_shares_ for p in shares
        ]
        shifted += found[0].p_value <= 0.05
        both = zip(found, shares, strict=True)
        errors.append([[abs(e - p).sum() for e in (one.likeliest, one.shares)] for one, p in both])
    # Of 1.5 that are expected, 6 or more would be seen once in 300 times.
    assert shifted < 6
    (likeliest, own), (likeliest_if_shifted, own_if_shifted) = np.mean(errors, axis=0)
    assert own < 0.5 * likeliest
    assert own_if_shifted < 1.1 * likeliest_if_shifted


def test_what_folds_miss_is_counted_row_by_row():
    rng = np.random.default_rng(4)
    fold, weights = rng.integers(3, size=30), rng.integers(1, 4, size=30)
    whole, without = rng.dirichlet(np.ones(4), 30), rng.dirichlet(np.ones(4), (3, 30))
    rows = np.repeat(np.arange(30), weights)
    own, each, n = fold[rows], (whole - without)[:, rows], rows.size
    covariance = np.zeros((4, 4))
    for j, k in permutations(range(3), 2):
        away = each[j, own == k].mean(axis=0) - each[j, own != j].mean(axis=0)
        covariance += np.mean(own == j) * np.mean(own == k) * np.outer(away, away)
    member = np.equal(np.arange(3)[:, None], fold) * weights
    counts = member.sum(axis=1)
    means = member / counts[:, None]
    found = Moved.of(means @ whole, means @ without, counts)
    expected = sum(np.sum(own == j) / n * each[j].mean(axis=0) for j in range(3))
    assert_allclose(found.mean, expected, atol=1e-14)
    assert_allclose(found.covariance, covariance, atol=1e-14)


def test_fits_to_few_rows_for_their_parameters_keep_the_level():
    """Full Gaussians of five classes: the fit to all rows is far from those without a fold."""
    centres = np.random.default_rng(5).normal(size=(5, 4))

    def rows(n, rng):
        y = rng.choice(5, size=n)
        X = np.sinh(centres[y] + rng.normal(size=(n, 4)))
        return X + 0.7 * np.roll(X, 1, axis=1), y

    shifted = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        model = GaussianDiscriminant("full", tradeoff=1).fit(*rows(80, rng))
        shifted += model.adapt(rows(500, rng)[0]).class_shares_.p_value <= 0.05
    # Of 7.5 that are expected, 15 would be seen once in 100 times.
    assert shifted < 15


def test_a_class_of_which_no_row_was_left_out_has_no_part_in_the_test():
    """Its one row is in every fold's fit, where it counts for more than in the fit to all rows."""
    rng = np.random.default_rng(5)
    held, new = (log_softmax(rng.normal(size=(n, 3)) - [0, 0, 4], axis=1) for n in (100, 300))
    held[:, 2] += 0.5
    codes, fitted = rng.integers(2, size=100), np.array([0.45, 0.45, 0.1])
    held = log_softmax(held, axis=1)
    found = estimate_shares(new, np.arange(3), fitted, HeldOut.of(held, codes, None))
    two = estimate_shares(
        log_softmax(new[:, :2], axis=1),
        np.arange(2),
        np.array([0.5, 0.5]),
        HeldOut.of(held[:, :2], codes, None),
    )
    assert_allclose(found.p_value, two.p_value, rtol=1e-10)
    alone = estimate_shares(new, np.arange(3), fitted, HeldOut.of(held, np.zeros_like(codes), None))
    assert alone.p_value == 1.0
    assert_array_equal(alone.shares, fitted)


@pytest.mark.parametrize("fitted", [[0.65, 0.35], [0.5, 0.2, 0.3]])
def test_a_model_that_says_nothing_of_the_classes_shifts_no_share(fitted):
    # Sure of itself as naive Bayes is, and wrong: rows held out flatten it to next to nothing.
    rng, fitted = np.random.default_rng(3), np.array(fitted)
    k, shifted, held_all = fitted.size, 0, 0
    for _ in range(40):
        codes = rng.permutation(np.repeat(np.arange(k), (80 * fitted).round().astype(int)))
        held, new = (
            log_softmax(8.0 * rng.standard_t(3, size=(n, k)) + np.log(fitted), axis=1)
            for n in (codes.size, 300)
        )
        found = estimate_shares(new, np.arange(k), fitted, HeldOut.of(held, codes, None))
        shifted += found.p_value <= 0.05
        assert_allclose(found.shares, fitted, atol=0.25)
        low, high = found.interval
        held_all += bool((low <= fitted).all() and (fitted <= high).all())
    # Of 2 and 38 that are expected, 7 and 33 would be seen once in 300 times.
    assert shifted < 7
    assert held_all > 33


@pytest.mark.parametrize(
    "make", [NaiveBayes, pytest.param(GaussianDiscriminant, marks=pytest.mark.slow)]
)
def test_intervals_hold_the_truth_and_the_test_its_level(make):
    held = shifted = 0
    for seed in range(20):
        if seed % 4 == 0:  # the rows of fit are drawn again, too
            X, y = two_classes(500, 0.5, 1_000 * seed, shift=1.2)
            model = make().fit(X, y)
        new = two_classes(300, 0.2, 100 + seed, shift=1.2)[0]
        found = model.adapt(new).class_shares_
        # What the rows were drawn with, not what they turned out to have.
        held += found.interval[0, 1] <= 0.2 <= found.interval[1, 1]
        same = two_classes(300, y.mean(), 500 + seed, shift=1.2)[0]
        shifted += model.adapt(same).class_shares_.p_value < 0.05
        assert found.p_value < 1e-3
        assert found.calibrated
    # At 95 % each, 16 or fewer of 20 come about once in 400 such tests.
    assert held >= 17
    assert shifted <= 3


@pytest.mark.parametrize("tradeoff", [1.0, 0.3, 0.0, "auto"])
def test_other_shares_multiply_the_posterior_and_are_all_that_changes(tradeoff):
    X, y = two_classes(300, 0.4, 3)
    model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    before = model.predict_proba(X)
    moved = model.with_class_prior({0: 0.9, 1: 0.1})
    wanted = before * [0.9, 0.1] / [1 - y.mean(), y.mean()]
    assert_allclose(moved.predict_proba(X), wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-10)
    assert_allclose(model.predict_proba(X), before, rtol=0, atol=0)
    back = moved.with_class_prior("empirical")
    assert_allclose(back.predict_proba(X), before, rtol=1e-10)
    for prior in ({0: 0.9, 1: 0.1}, "uniform", "empirical"):
        asked = model.with_class_prior(prior)
        assert_array_equal(model.predict_proba(X, class_prior=prior), asked.predict_proba(X))
        assert_array_equal(
            model.predict_log_proba(X, class_prior=prior), asked.predict_log_proba(X)
        )
        assert_array_equal(model.predict(X, class_prior=prior), asked.predict(X))
        assert_array_equal(
            model.predict_proba(X, interval=0.9, class_prior=prior),
            asked.predict_proba(X, interval=0.9),
        )
    given = NaiveBayes(tradeoff=1.0, class_prior=[0.9, 0.1]).fit(X, y).predict_proba(X)
    if tradeoff == 1.0:
        assert_allclose(moved.class_prior_, [0.9, 0.1], rtol=1e-10)
        assert_allclose(moved.predict_proba(X), given, rtol=1e-10)


def test_shares_with_labels_are_taken_by_them_in_whichever_order():
    X, y = two_classes(300, 0.4, 3)
    labels = np.array(["ill", "well"])[y]
    model = NaiveBayes(tradeoff=1).fit(X, labels)
    counted = pd.Series(["well"] * 3 + ["ill"]).value_counts(normalize=True)
    for given in (counted, counted[::-1], pd.Series([0.25, 0.75]), pl.Series([0.25, 0.75])):
        assert_allclose(model.with_class_prior(given).class_prior_, [0.25, 0.75])
    for wrong in (["ill", "other"], ["ill", "ill"], [1, 0]):
        with pytest.raises(DataError, match=r"^class_prior: expected .* a mapping of each label"):
            model.predict_proba(X, class_prior=pd.Series([0.25, 0.75], index=wrong))


def test_an_adapted_model_goes_into_files_and_is_as_adapted(tmp_path):
    X, y = two_classes(300, 0.5, 4)
    adapted = NaiveBayes().fit(X, y).adapt(two_classes(200, 0.2, 5)[0])
    wanted = adapted.predict_proba(X)
    assert_allclose(pickle.loads(pickle.dumps(adapted)).predict_proba(X), wanted, rtol=0, atol=0)
    save_model(adapted, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops").estimator
    assert_allclose(loaded.predict_proba(X), wanted, rtol=0, atol=0)
    assert str(loaded.class_shares_) == str(adapted.class_shares_)


def three_classes(seed=0, gap=1.2):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 40)
    return rng.normal(size=(120, 3)) + gap * np.eye(3)[y], y


@cache
def fitted(tradeoff):
    """Return the model of three classes, which several tests start from."""
    return NaiveBayes(tradeoff=tradeoff).fit(*three_classes())


@pytest.mark.parametrize("tradeoff", [1.0, "best", "auto"])
def test_the_strongest_shift_is_told_and_leaves_about_a_row_unsure(tradeoff):
    X, y = three_classes(gap=20.0)
    found = NaiveBayes(tradeoff=tradeoff).fit(X, y).adapt(X[:40]).class_shares_
    assert found.p_value < 1e-6
    assert found.shares[0] > 0.9
    # Of 40 rows that are all of one class, 37 in 40 are not unlikely.
    assert found.interval[0, 0] < 0.97 < found.interval[1, 0]


def test_shares_are_shown_in_columns_whatever_the_names():
    posterior, classes = np.array([[0.2, 0.5, 0.3]]), np.array(["a", "metastases", "7"])
    given = np.log(posterior), classes, np.full(3, 1 / 3)
    heading, *rows, last, caution = str(estimate_shares(*given)).split("\n")
    assert len({len(row) for row in rows}) == 1
    assert {row.index("0.333") + 5 for row in rows} == {heading.index("fitted") + 6}
    assert last.startswith("1 row, 95 % intervals; test that nothing shifted: p = ")
    assert caution.startswith("without rows that the model was not fitted to: ")
    left_out = HeldOut.of(np.log(np.tile(posterior, (9, 1))), np.arange(9) % 3, None)
    assert str(estimate_shares(*given, left_out)).split("\n")[-1].startswith("1 row, 95 % ")


@pytest.mark.parametrize("tradeoff", [1.0, "auto"])
def test_rows_that_say_nothing_leave_the_shares_as_they_were(tradeoff):
    X, _ = three_classes()
    model = fitted(tradeoff)
    empty = model.adapt(np.full((50, 3), np.nan))
    assert_allclose(empty.predict_proba(X), model.predict_proba(X), rtol=0.05)
    one = model.adapt(X[:1]).class_shares_
    assert (one.interval[1] - one.interval[0]).min() > 0.5
    assert one.p_value > 0.01
    if tradeoff == 1.0:  # its probabilities are taken for true, though columns of noise are not
        return
    rng = np.random.default_rng(5)
    noise = NaiveBayes(tradeoff=tradeoff).fit(rng.normal(size=(300, 2)), rng.integers(2, size=300))
    told = noise.adapt(rng.normal(size=(300, 2))).class_shares_
    assert np.abs(told.shares - told.fitted).max() < 0.1


@pytest.mark.parametrize("tradeoff", [1.0, "best", "auto"])
def test_neither_the_prior_nor_an_earlier_adaptation_changes_the_estimate(tradeoff):
    X, y = three_classes()
    new = three_classes(1)[0][:70]
    model = fitted(tradeoff)
    once = model.adapt(new)
    for other in (once, model.with_class_prior([1e-3, 0.5, 0.499])):
        again = other.adapt(new).class_shares_
        if tradeoff == 1.0:  # nothing but its prior is known of the model: it is where it starts
            continue
        assert_allclose(again.shares, once.class_shares_.shares, atol=1e-6)
        assert_allclose(again.interval, once.class_shares_.interval, atol=1e-6)
        assert_allclose(again.fitted, once.class_shares_.fitted, atol=1e-9)
    assert not hasattr(once.with_class_prior("uniform"), "class_shares_")
    once.fit(X[:80], y[:80])
    assert not hasattr(once, "class_shares_")


@pytest.mark.parametrize(
    ("log_posterior", "words"),
    [
        (np.full((2, 3), np.nan), "a sum of nan in row 0"),
        (np.full((2, 3), 1 / 3), "a sum of 4.18"),
        (np.log(np.full((2, 2), 0.5)), r"shape \(n_rows, 3\)"),
        (np.empty((0, 3)), "at least one row"),
    ],
)
def test_what_are_no_log_posteriors_is_refused(log_posterior, words):
    with pytest.raises(DataError, match=words):
        fitted("auto").adapt_to_posteriors(log_posterior)


def test_wrong_arguments_are_refused_by_name():
    X, y = two_classes(100, 0.5, 6)
    model = NaiveBayes(tradeoff=1.0).fit(X, y)
    for arguments, words in [
        ({"coverage": 1.0}, "coverage"),
    ]:
        with pytest.raises(DataError, match=words):
            model.adapt(X, **arguments)
    with pytest.raises(DataError, match="class_prior"):
        model.with_class_prior([0.5, 0.6])
    assert model.adapt(X).class_shares_.calibrated
    found = NaiveBayes(tradeoff=1.0).partial_fit(X, y).adapt(X).class_shares_
    assert not found.calibrated
    assert io.StringIO(str(found)).readline() == "class  fitted  new rows\n"
