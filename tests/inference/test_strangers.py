"""Strangers: scores against densities by hand, p-values against how often fresh rows get them."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm, poisson
from sklearn.dummy import DummyClassifier

from crossfade import DataError, GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.densities import MultivariateGaussian
from crossfade.io import load_model, save_model, scan
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows

MAKES = {"naive bayes": NaiveBayes, "full": partial(GaussianDiscriminant, "full")}
every_model = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


def drawn(n, rng, share=0.3, d=4):
    """Return rows that no model here is true of: heavy tails in common, one column skewed."""
    y = (rng.random(n) < share).astype(int)
    X = 0.7 * rng.standard_t(4, size=(n, 1)) + rng.normal(size=(n, d)) + 1.5 * y[:, None]
    X[:, 1] = np.exp(0.5 * X[:, 1])
    return X, y


def without_cells(X, n_gone, rng):
    """Return the rows with so many cells of each missing."""
    return np.where(rng.random(X.shape).argsort(axis=1) < n_gone[:, None], np.nan, X)


# -- scores ----------------------------------------------------------------------------------------


def test_the_score_of_naive_bayes_is_the_density_of_the_cells_that_are_there():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [60, 90])
    frame = pd.DataFrame({"x": rng.normal(size=150) + y, "n": rng.poisson(3 + 4 * y)})
    model = NaiveBayes({"n": "poisson"}, tradeoff=1, alpha=0.0, var_smoothing=0.0).fit(frame, y)
    new = frame.iloc[::10].astype(float)
    new.iloc[::3, 0], new.iloc[1::3, 1] = np.nan, np.nan
    density = np.zeros(len(new))
    for k in (0, 1):
        own = frame[y == k]
        x = norm.pdf(new.x, own.x.mean(), own.x.std(ddof=0))
        n = poisson.pmf(new.n, own.n.mean())
        density += (y == k).mean() * np.where(new.x.isna(), 1, x) * np.where(new.n.isna(), 1, n)
    assert_allclose(model.outlier_score(new), -np.log(density), rtol=1e-10)


def test_the_score_of_a_joint_gaussian_is_that_of_its_margin():
    rng = np.random.default_rng(1)
    X, y = drawn(200, rng)
    model = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    new = without_cells(X[:40], np.arange(40) % 4, rng)
    density = np.zeros(len(new))
    for k in (0, 1):
        m, C = X[y == k].mean(axis=0), np.cov(X[y == k].T, bias=True)
        for i, row in enumerate(new):
            here = np.flatnonzero(~np.isnan(row))
            one = multivariate_normal(m[here], C[np.ix_(here, here)]).pdf(row[here])
            density[i] += (y == k).mean() * one
    assert_allclose(model.outlier_score(new), -np.log(density), rtol=1e-8)


@every_model
def test_whatever_the_tradeoff_the_score_is_that_of_the_generative_end(make):
    X, y = drawn(80, np.random.default_rng(2))
    scores = [make(tradeoff=one).fit(X, y).outlier_score(X) for one in (0, 0.3, 1)]
    at_one = make(tradeoff=1).fit(X, y)
    for score in scores:
        assert_allclose(score, -at_one.score_samples(X), rtol=1e-10)


def test_derived_columns_are_no_part_of_it():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = NaiveBayes(tradeoff=0.5, interactions=[(0, 1)]).fit(X, y)
    assert_allclose(
        model.outlier_score(X), NaiveBayes(tradeoff=1).fit(X, y).outlier_score(X), rtol=1e-10
    )


# -- p-values --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("whole_choice")
@every_model
def test_p_values_are_the_shares_of_rows_out_of_ten_folds(make):
    rng = np.random.default_rng(4)
    X, y = drawn(90, rng)
    model = make(tradeoff=1).fit(X, y)
    fold = folds(LabelledRows(X, y, None, 2), 10)
    own = np.empty(90)
    for number in range(10):
        held, rest = fold == number, fold != number
        fitted = make(tradeoff=1).fit(X[rest], y[rest]).with_class_prior(model.class_prior_)
        own[held] = -fitted.score_samples(X[held])
    new = drawn(40, rng)[0]
    score = -model.score_samples(new)
    wanted = (1 + (own >= score[:, None]).sum(axis=1)) / 91
    assert_allclose(model.outlier_p_value(new), wanted, rtol=1e-12)


@every_model
@pytest.mark.parametrize("tradeoff", [1, pytest.param("auto", marks=pytest.mark.slow)])
def test_five_in_a_hundred_fresh_rows_are_below_five_in_a_hundred(make, tradeoff):
    rng = np.random.default_rng(5)
    shares = []
    for _ in range(3 if tradeoff == "auto" else 10):
        X, y = drawn(400, rng)
        found = make(tradeoff=tradeoff).fit(X, y).outlier_p_value(drawn(3_000, rng)[0])
        shares.append([np.mean(found <= level) for level in (0.05, 0.2, 0.5)])
    # 400 rows put deviations of .011, .02 and .025 on each.
    assert_allclose(np.mean(shares, axis=0), [0.05, 0.2, 0.5], rtol=0, atol=0.02)


@every_model
def test_so_it_is_for_rows_that_lack_cells_however_many(make):
    rng = np.random.default_rng(6)
    shares = []
    for seed in range(10):
        X, y = drawn(400, rng)
        if seed % 2:
            X = without_cells(X, rng.integers(0, 3, len(X)), rng)
        model = make(tradeoff=1).fit(X, y)
        new, n_gone = drawn(3_000, rng)[0], rng.integers(0, 4, 3_000)
        found = model.outlier_p_value(without_cells(new, n_gone, rng))
        shares.append([np.mean(found[n_gone == one] <= 0.05) for one in range(4)])
    # A row without cells says less of its class, and is taken for a little less strange.
    assert_allclose(np.mean(shares, axis=0), 0.05, rtol=0, atol=0.02)


def test_of_wide_tables_fewer_pieces_are_kept_and_rows_that_lack_cells_stay_comparable():
    rng = np.random.default_rng(19)
    shares = []
    for _ in range(4):
        X, y = rng.normal(size=(500, 400)), rng.integers(2, size=500)
        model = NaiveBayes(tradeoff=1).fit(X, y)
        new = without_cells(rng.normal(size=(400, 400)), np.full(400, 100), rng)
        shares.append(np.mean(model.outlier_p_value(new) <= 0.1))
    kept = model._joint.described.usual
    assert kept.surprise.shape == (500, 2)
    assert kept.pieces.shape == (250, 400)
    # 250 rows put a deviation of .02 on each.
    assert abs(np.mean(shares) - 0.1) < 0.04


def test_a_row_of_fit_however_far_out_leaves_the_others_comparable():
    rng = np.random.default_rng(20)
    X, y = rng.normal(size=(100, 2)), rng.integers(2, size=100)
    X[3, 0] = 1e60
    found = NaiveBayes(tradeoff=1).fit(X, y).outlier_p_value(np.array([[np.nan, 0.0], [0.0, 0.0]]))
    assert (found > 0.2).all()


def test_documents_are_not_strange_for_their_length():
    rng = np.random.default_rng(7)
    topics = rng.dirichlet(np.full(60, 0.3), 2)

    def written(n):
        y, length = rng.integers(2, size=n), np.where(rng.random(n) < 0.5, 15, 150)
        rows = [rng.multinomial(m, topics[k]) for m, k in zip(length, y, strict=True)]
        return scipy.sparse.csr_array(np.array(rows, dtype=float)), y, length

    shares = []
    for _ in range(6):
        X, y, _ = written(400)
        new, _, length = written(1_000)
        found = NaiveBayes(tradeoff=1).fit(X, y).outlier_p_value(new)
        shares.append([np.mean(found[length == one] <= 0.05) for one in (15, 150)])
    assert_allclose(np.mean(shares, axis=0), 0.05, rtol=0, atol=0.025)


@pytest.mark.slow
@pytest.mark.usefixtures("whole_choice")
def test_what_only_one_row_has_is_as_new_to_its_fold_as_it_is_in_fresh_rows():
    rng = np.random.default_rng(17)
    words = np.array([f"w{i}" for i in range(80)])

    def rows(n):
        y = rng.integers(2, size=n)
        lengths = rng.integers(4, 30, n)
        of = [words[30 * k : 50 + 30 * k] for k in y]
        text = [" ".join(rng.choice(own, m)) for own, m in zip(of, lengths, strict=True)]
        level = np.where(rng.random(n) < 0.3, rng.integers(1e6, size=n), y).astype(str)
        return pd.DataFrame({"t": text, "level": level, "x": rng.normal(size=n) + y}), y

    for columns in (["t", "x"], ["level", "x"]):
        shares = []
        for _ in range(6):
            table, y = rows(300)
            model = NaiveBayes({"x": "gaussian"}, tradeoff=1).fit(table[columns], y)
            shares.append(np.mean(model.outlier_p_value(rows(600)[0][columns]) <= 0.1))
        # Later rows know a few words more: all rows were fitted to, not 19 of 20.
        assert abs(np.mean(shares) - 0.1) < 0.035, columns


def test_a_row_without_any_known_cell_is_no_stranger():
    rng = np.random.default_rng(20)
    y = rng.integers(2, size=300)
    level = [f"l{i}" for i in np.where(rng.random(300) < 0.4, rng.integers(2_000, size=300), y)]
    number = 1e4 * rng.normal(size=300) + y
    empty = pd.DataFrame({"level": ["new", None], "x": [np.nan, np.nan]})
    for columns in (["level"], ["x"], ["level", "x"]):
        table = pd.DataFrame({"level": level, "x": number})[columns]
        model = NaiveBayes(tradeoff=1).fit(table, y)
        assert_array_equal(model.outlier_p_value(empty[columns]), 1.0)


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.parametrize("column", ["t", "level"])
@pytest.mark.parametrize("others", ["unlabelled", "not described"])
def test_what_only_rows_have_that_are_not_described_makes_no_row_strange(
    column, others, tmp_path, monkeypatch
):
    rng = np.random.default_rng(19)

    def rows(n):
        y = rng.integers(2, size=n)
        rare = rng.integers(2_000, size=(n, 5))
        text = [" ".join(["common", f"of{k}", *(f"w{i}" for i in own)])
                for k, own in zip(y, rare, strict=True)]  # fmt: skip
        level = np.where(rng.random(n) < 0.4, rare[:, 0], y)
        return pd.DataFrame({"t": text, "level": [f"l{i}" for i in level]})[[column]].assign(
            x=rng.normal(size=n) + y
        ), y

    (X, y), new = rows(2_000), rows(1_000)[0]
    densities = {"x": "gaussian"}
    if others == "unlabelled":
        few = [label if i < 300 else None for i, label in enumerate(y)]
        model = NaiveBayes(densities, tradeoff=1, unlabelled="missing", unlabelled_weight=0)
        model.fit(X, few)
    else:
        monkeypatch.setattr("crossfade.tradeoff.joint.MOST_ROWS", 300)
        model = NaiveBayes(densities, tradeoff=1).fit(X, y)
    found = model.outlier_p_value(new)
    # With the words of the other 1,700 all were below .05, with their categories one in seven.
    assert np.mean(found <= 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(found) == pytest.approx(0.5, abs=0.12)
    save_model(model, tmp_path / "m.skops")
    assert_array_equal(load_model(tmp_path / "m.skops").estimator.outlier_p_value(new), found)


def test_for_other_class_shares_the_rows_of_fit_count_by_their_class():
    rng = np.random.default_rng(8)

    def rows(n, share):
        y = (rng.random(n) < share).astype(int)
        return rng.normal(size=(n, 3)) * (1 + 4 * y[:, None]), y

    shares = []
    for _ in range(8):
        model = NaiveBayes(tradeoff=1).fit(*rows(400, 0.1))
        new = rows(3_000, 0.6)[0]
        adapted = model.with_class_prior([0.4, 0.6])
        shares.append([np.mean(one.outlier_p_value(new) <= 0.05) for one in (model, adapted)])
    before, after = np.mean(shares, axis=0)
    assert before > 0.15
    assert abs(after - 0.05) < 0.025


@every_model
def test_units_order_of_rows_and_names_of_classes_do_not_matter(make):
    rng = np.random.default_rng(9)
    X, y = drawn(120, rng)
    new = without_cells(drawn(60, rng)[0], np.arange(60) % 3, rng)
    wanted = make(tradeoff=1).fit(X, y)
    order, scale, shift = rng.permutation(120), np.array([1e-3, 2.0, 1e4, 7.0]), np.arange(4.0)
    names = np.array(["z", "a"])[y]
    other = make(tradeoff=1).fit((X * scale + shift)[order], names[order])
    moved = new * scale + shift
    assert_allclose(other.outlier_p_value(moved), wanted.outlier_p_value(new), rtol=1e-9)
    added = np.where(np.isnan(new), 0.0, np.log(scale)).sum(axis=1)
    assert_allclose(other.outlier_score(moved), wanted.outlier_score(new) + added, rtol=1e-8)


def test_weights_are_repetitions_but_for_the_one_row_to_come():
    rng = np.random.default_rng(10)
    X, y = drawn(150, rng)
    weights = np.tile([1, 3], 75)
    weighted = NaiveBayes(tradeoff=1).fit(X, y, sample_weight=weights)
    repeated = NaiveBayes(tradeoff=1).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    new = drawn(60, rng)[0]
    assert_allclose(weighted.outlier_score(new), repeated.outlier_score(new), rtol=1e-10)
    assert_allclose(weighted.outlier_p_value(new), repeated.outlier_p_value(new), rtol=0, atol=0.01)


def test_rows_of_new_groups_are_no_stranger_than_rows_of_groups_left_out():
    rng = np.random.default_rng(11)

    def visits(n_groups):
        y = rng.integers(2, size=n_groups)
        own = rng.normal(scale=2.0, size=(n_groups, 12)) + y[:, None]
        which = np.repeat(np.arange(n_groups), 8)
        return own[which] + 0.3 * rng.normal(size=(which.size, 12)), y[which], which

    shares = []
    for _ in range(12):
        X, y, groups = visits(14)
        new = visits(100)[0]
        model = GaussianDiscriminant("full", tradeoff=1)
        plain, grouped = (model.fit(X, y, groups=g).outlier_p_value(new) for g in (None, groups))
        shares.append([np.mean(plain <= 0.1), np.mean(grouped <= 0.1)])
    plain, grouped = np.mean(shares, axis=0)
    assert plain > 0.3
    assert grouped < 0.2


def test_of_many_rows_a_part_is_described_and_rare_classes_with_it():
    rng = np.random.default_rng(12)
    y = np.repeat([0, 1, 2], [3_000, 8_940, 60])
    X = rng.normal(size=(12_000, 2)) + 6.0 * y[:, None]
    model = NaiveBayes(tradeoff=1).fit(X, y)
    new = rng.normal(size=(2_000, 2)) + 6.0 * rng.choice(3, 2_000, p=[0.25, 0.745, 0.005])[:, None]
    assert_allclose(model.outlier_score(new), -model.score_samples(new), rtol=0, atol=0.5)
    assert abs(np.mean(model.outlier_p_value(new) <= 0.05) - 0.05) < 0.025


# -- rejecting, and where models go ----------------------------------------------------------------


@every_model
def test_strange_rows_get_no_class_and_others_keep_theirs(make):
    X, y = drawn(200, np.random.default_rng(13))
    new = np.vstack([X[:20], np.full((1, 4), 50.0), np.full((1, 4), 1e170)])
    for labels in (y, y * 3.0, np.array(["no", "yes"])[y]):
        model = make(tradeoff=1).fit(X, labels)
        found = model.predict(new, reject=0.01)
        assert found.dtype == object
        rejected = [label is None for label in found]
        assert_array_equal(rejected, model.outlier_p_value(new) <= 0.01)
        assert list(found[-2:]) == [None, None]
        kept = [place for place, label in enumerate(found) if label is not None]
        assert_array_equal(found[kept], model.predict(new[kept]))


def test_what_rejects_nothing_or_has_no_rows_is_refused():
    X, y = drawn(30, np.random.default_rng(14))
    model = NaiveBayes(tradeoff=1).fit(X, y)
    message = r"reject: expected at least 0\.032, .* with 30 rows held out, got 0\.01; .*"
    with pytest.raises(DataError, match=message):
        model.predict(X, reject=0.01)
    with pytest.raises(DataError, match="reject"):
        model.predict(X, reject=1.5)
    with pytest.raises(DataError, match="finite"):
        model.outlier_score(np.full((1, 4), np.inf))
    batches = NaiveBayes(tradeoff=1).partial_fit(X, y)
    assert_allclose(batches.outlier_score(X), model.outlier_score(X), rtol=1e-9)
    with pytest.raises(DataError, match=r"outlier_p_value: expected rows that were held out, .*"):
        batches.outlier_p_value(X)
    assert model.partial_fit(X, y)._joint is None
    refusing = NaiveBayes(MultivariateGaussian(), tradeoff=1).fit(X, y)
    with pytest.raises(DataError, match="missing"):
        refusing.outlier_score(np.full((1, 4), np.nan))


def test_files_and_copies_say_the_same_and_hold_no_rows(tmp_path):
    X, y = drawn(300, np.random.default_rng(15))
    model = NaiveBayes(tradeoff=0.5).fit(X, y)
    kept, before = len(pickle.dumps(model)), X.copy()
    X *= 2.0  # a model does not look at the user's rows later
    save_model(model, tmp_path / "m.skops")
    for one in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "m.skops").estimator):
        assert_array_equal(one.outlier_score(before), model.outlier_score(before))
        assert_array_equal(one.outlier_p_value(before), model.outlier_p_value(before))
    assert_allclose(
        model.outlier_score(before), -NaiveBayes(tradeoff=1).fit(before, y).score_samples(before)
    )
    assert kept < 40_000
    assert not any(np.array_equal(value, before) for value in vars(model).values())


def test_files_read_in_parts_are_scored_part_by_part(tmp_path):
    X, y = drawn(400, np.random.default_rng(18))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    frame.to_csv(tmp_path / "new.csv", index=False)
    source, new = scan(tmp_path / "rows.csv"), scan(tmp_path / "new.csv")
    model = NaiveBayes(tradeoff=0.5).fit(source, "y")
    whole = NaiveBayes(tradeoff=0.5).fit(frame, y)
    assert_allclose(model.outlier_score(new), whole.outlier_score(frame), rtol=1e-8)
    assert_allclose(model.outlier_p_value(new), whole.outlier_p_value(frame), rtol=0, atol=0.02)
    assert_array_equal(model.predict(new, reject=0.05), model.predict(frame, reject=0.05))
    generative = NaiveBayes(tradeoff=1).fit(scan(tmp_path / "rows.csv"), "y")
    assert generative.n_passes_ == 1
    whole = NaiveBayes(tradeoff=1).fit(frame, y)
    assert_allclose(generative.outlier_score(frame), whole.outlier_score(frame), rtol=1e-8)
    p_values = generative.outlier_p_value(frame)
    assert_allclose(p_values, whole.outlier_p_value(frame), rtol=0, atol=0.02)
    batches = NaiveBayes(tradeoff=1).partial_fit(frame, y)
    with pytest.raises(DataError, match="outlier_p_value: expected rows that were held out"):
        batches.outlier_p_value(frame)


def test_a_pool_asks_its_member_with_densities():
    X, y = drawn(120, np.random.default_rng(16))
    members = [("dummy", DummyClassifier()), ("nb", NaiveBayes(tradeoff=1))]
    pool = PooledClassifier(members).fit(X, y)
    alone = NaiveBayes(tradeoff=1).fit(X, y)
    assert_allclose(pool.outlier_score(X), alone.outlier_score(X), rtol=1e-10)
    moved = pool.with_class_prior([0.9, 0.1])
    wanted = alone.with_class_prior([0.9, 0.1])
    assert_allclose(moved.outlier_score(X), wanted.outlier_score(X), rtol=1e-10)
    assert_allclose(moved.outlier_p_value(X), wanted.outlier_p_value(X), rtol=1e-10)
    rejected = [label is None for label in pool.predict(X, reject=0.05)]
    assert_array_equal(rejected, pool.outlier_p_value(X) <= 0.05)
    nobody = PooledClassifier([("dummy", DummyClassifier())]).fit(X, y)
    with pytest.raises(DataError, match="estimators: expected a NaiveBayes or"):
        nobody.outlier_score(X)
