"""The density of a column of few whole numbers, by its own out-of-fold evidence."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crossfade import NaiveBayes
from crossfade.choice.evidence import (
    column_evidence,
    is_candidate,
    near_zero_variance,
    tail_evidence,
)
from crossfade.densities import Categorical, Gaussian, JohnsonSU, Poisson
from crossfade.io import load_model, save_model
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows


def columns(n=600, seed=0):
    """Return codes without an order, and grades whose mean moves with the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    code = np.array([0.0, 1.0, 2.0, 3.0])[
        2 * rng.integers(2, size=n) + (rng.random(n) < 0.3 + 0.4 * y)
    ]
    grade = np.clip(np.round(rng.normal(4.0 + y, 1.5, size=n)), 0, 8)
    return np.column_stack([code, grade, rng.normal(size=n)]), y


@pytest.mark.parametrize(
    ("name", "density", "j"),
    [
        ("gaussian", Gaussian(False, 1e-9, 1.0), 0),
        ("gaussian", Gaussian(False, 1e-9, 1.0), 1),
        ("poisson", Poisson(), 1),
        ("categorical", "categorical", 0),
    ],
)
def test_the_losses_are_those_of_the_classifiers(name, density, j):
    """Fit the estimator on every fold of the column alone."""
    X, y = columns()
    x = X[:, j : j + 1]
    rows = LabelledRows(x, y, None, 2)
    # Equal rows share a fold, and a value that the training part lacks is another matter.
    fold = np.arange(len(y)) % 5
    found = column_evidence(rows, [(0, "gaussian")], fold)[0]
    loss = np.empty(len(y))
    for number in range(5):
        held = fold == number
        part = NaiveBayes(density, tradeoff=1).fit(x[~held], y[~held])
        posterior = part.predict_proba(x[held])
        loss[held] = -np.log(posterior[np.arange(held.sum()), y[held]])
    assert found.log_loss[name] == pytest.approx(loss.mean(), rel=1e-6)


def test_codes_become_categorical_and_grades_stay_gaussian():
    X, y = columns()
    table = pl.DataFrame({"code": X[:, 0].astype(int), "grade": X[:, 1], "size": X[:, 2]})
    model = NaiveBayes().fit(table, y)
    report = {one["column"]: one for one in model.density_report_}
    assert report["code"]["density"] == "categorical"
    assert report["code"]["reason"].startswith("out-of-fold log-loss of the column alone: gaussian")
    assert report["grade"]["density"] != "categorical"
    assert report["size"]["density"] in ("johnson_su", "gaussian")
    assert report["size"]["reason"].startswith(
        "out-of-fold log-loss of the column alone: johnson_su"
    )
    assert model.schema_.kinds[0] == "categorical"
    assert any(isinstance(part, Categorical) for part, _ in model.density_.parts)
    plain = NaiveBayes({"code": "gaussian"}).fit(table, y)
    assert plain.density_report_[0]["reason"] == "given"
    fresh, labels = columns(seed=1)
    fresh = pl.DataFrame(
        {"code": fresh[:, 0].astype(int), "grade": fresh[:, 1], "size": fresh[:, 2]}
    )
    assert model.score(fresh, labels) > plain.score(fresh, labels) + 0.02


# -- tails -----------------------------------------------------------------------------------------


def tailed(n=300, seed=0):
    """Return a column with long tails, and one whose class is told by its distance from 0."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    long = np.exp(1.5 * rng.normal(size=n) + y)
    return np.column_stack([long, np.where(y == 0, 1.0, 4.0) * rng.uniform(-1, 1, size=n)]), y


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_losses_of_tails_are_those_of_the_classifiers(missing):
    X, y = tailed()
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < missing] = np.nan
    rows = LabelledRows(X, y, rng.uniform(0.5, 2.0, len(y)), 2)
    fold = np.arange(len(y)) % 5
    fold[:7] = -1
    centre, width = np.array([3.0, 0.1]), np.array([5.0, 2.0])
    found = tail_evidence(rows, centre, width, [0, 1], fold)
    for j in (0, 1):
        families = {
            "gaussian": Gaussian(False, 0.0, 2.0),
            "johnson_su": JohnsonSU(centre[j], width[j], False, 0.0, 2.0),
        }
        for name, density in families.items():
            total = mass = 0.0
            for number in range(5):
                held = (fold == number) & ~np.isnan(X[:, j])
                train = fold != number
                part = NaiveBayes(density, tradeoff=1).fit(
                    X[train, j : j + 1], y[train], sample_weight=rows.weights[train]
                )
                posterior = part.predict_proba(X[held, j : j + 1])
                loss = -np.log(posterior[np.arange(held.sum()), y[held]])
                total += rows.weights[held] @ loss
                mass += rows.weights[held].sum()
            assert found[j].log_loss[name] == pytest.approx(total / mass, rel=1e-9)


@pytest.mark.usefixtures("whole_choice")
def test_long_tails_are_drawn_in_and_short_ones_left():
    X, y = tailed(3_000)
    model = NaiveBayes().fit(X, y)
    assert [one["density"] for one in model.density_report_] == ["johnson_su", "gaussian"]
    plain = NaiveBayes("gaussian").fit(X, y)
    fresh, labels = tailed(20_000, seed=1)
    assert losses(model, fresh, labels) < losses(plain, fresh, labels) - 0.005


def losses(model, X, y):
    return -model.predict_log_proba(X)[np.arange(len(y)), y].mean()


def test_a_value_far_out_does_not_decide_alone():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.normal(size=(80, 2)) + [1.0, 0.5] * y[:, None]
    model, plain = NaiveBayes().fit(X, y), NaiveBayes("gaussian").fit(X, y)
    far = np.array([[60.0, 0.0], [-60.0, 0.0]])
    odds, before = model.decision_function(far), plain.decision_function(far)
    assert (np.abs(odds) < 0.5 * np.abs(before)).all()


def test_tails_keep_units_weights_and_missing_cells():
    X, y = tailed(150)
    X[::11, 0] = np.nan
    weights = np.random.default_rng(2).integers(0, 3, len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = NaiveBayes().fit(X, y, sample_weight=weights)
    other = NaiveBayes().fit(X[index], y[index])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)
    moved = X * [1e-9, 1e9] + [3e-7, -7e9]
    whole, other = NaiveBayes().fit(X, y), NaiveBayes().fit(moved, y)
    np.testing.assert_allclose(other.predict_proba(moved), whole.predict_proba(X), atol=1e-6)
    assert np.isfinite(whole.score_samples(X)).all()


def test_a_given_tradeoff_goes_by_type():
    X, y = columns()
    model = NaiveBayes(tradeoff=1).fit(X, y)
    assert {one["by"] for one in model.density_report_} == {"type"}
    assert set(model.schema_.kinds) == {"continuous"}


def test_weights_are_repetition():
    X, y = columns(n=200)
    weights = np.random.default_rng(1).integers(1, 4, size=200)
    index = np.repeat(np.arange(200), weights)
    found = []
    for rows in (
        LabelledRows(X, y, weights.astype(float), 2),
        LabelledRows(X[index], y[index], None, 2),
    ):
        found.append(column_evidence(rows, [(0, "gaussian")], folds(rows, 5))[0])
    assert found[0].log_loss == pytest.approx(found[1].log_loss)
    assert found[0].standard_error == pytest.approx(found[1].standard_error)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        ([1, 2, 3, np.nan], True),
        ([1, 2, 2, 1], False),
        ([1, 2, 3.5], False),
        (np.arange(13), False),
        (np.arange(12), True),
    ],
)
def test_candidates_hold_few_whole_numbers(x, wanted):
    x = np.asarray(x, dtype=float)
    assert is_candidate(np.tile(x, 30), None) == wanted
    assert is_candidate(x, np.full(x.size, 30.0)) == wanted
    assert not is_candidate(x, None)


@pytest.mark.parametrize("start", [0, 1500])
def test_rare_values_are_no_candidates_and_share_a_variance(start):
    # The rows that differ stand first, or after those that are looked at first.
    for different, candidate, hardly in ((19, False, True), (20, True, False)):
        x = np.zeros(2000)
        x[start : start + different] = 1 + np.arange(different) % 2
        x[-1] = np.nan
        order = np.argsort(x, kind="stable")
        assert is_candidate(x, None) == candidate
        assert near_zero_variance(x, None) == hardly
        assert near_zero_variance(x[order], None) == hardly
        _, index, counts = np.unique(x, return_index=True, return_counts=True)
        assert near_zero_variance(x[index], counts.astype(float)) == hardly
        assert is_candidate(x[index], counts.astype(float)) == candidate


@pytest.mark.parametrize("x", [np.full(50, 3.0), np.full(50, np.nan), np.zeros(0)])
def test_columns_that_say_nothing_are_not_said_to_vary(x):
    assert not near_zero_variance(x, None)
    assert not near_zero_variance(x, np.ones(x.size))


def with_columns_of_one_value(n=90, missing=False):
    """Return a table, the same beside columns that never differ, one with other values, classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    names = np.array(list("xyz"))[rng.integers(3, size=n)]
    table = pl.DataFrame({"a": rng.normal(size=n) + y, "b": rng.integers(2, size=n), "c": names})
    gaps = [None] * (n // 3) if missing else [3]
    same = pl.DataFrame(
        {"0": [0] * n, "5": [5] * n, "1.5": [1.5] * n, "yes": [True] * n, "text": ["u"] * n}
    ).with_columns(gaps=pl.Series(gaps + [3] * (n - len(gaps))), none=pl.Series([None] * n))
    other = pl.DataFrame({"0": 1, "5": 9, "1.5": -3.5, "yes": False, "text": "v", "gaps": 4})
    other = pl.concat([other.with_columns(none=2.5)] * n)
    return table, *(pl.concat([table, one], how="horizontal") for one in (same, other)), y


@pytest.mark.parametrize("tradeoff", ["auto", "best"])
def test_columns_of_one_value_say_nothing_and_cost_nothing(tradeoff, tmp_path):
    table, same, other, y = with_columns_of_one_value()
    plain, beside = (NaiveBayes(tradeoff=tradeoff).fit(X, y) for X in (table, same))
    expected = plain.predict_proba(table)
    np.testing.assert_allclose(beside.predict_proba(same), expected, atol=1e-12)
    np.testing.assert_allclose(beside.predict_proba(other), expected, atol=1e-12)
    assert beside.density_.n_statistics == plain.density_.n_statistics
    found = {one["column"]: one["by"] for one in beside.density_report_}
    assert [name for name, by in found.items() if by == "one value"] == [
        *("0", "5", "1.5", "yes", "gaps", "none")
    ]
    drawn = beside.class_densities_[0].sample(4, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, 3:7], np.tile([0.0, 5.0, 1.5, 1.0], (4, 1)))
    save_model(beside, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops").estimator
    np.testing.assert_array_equal(loaded.predict_proba(other), beside.predict_proba(other))


def test_columns_of_one_value_say_nothing_where_cells_are_missing():
    table, same, other, y = with_columns_of_one_value(missing=True)
    beside = NaiveBayes().fit(same, y)
    assert beside.density_.n_statistics == NaiveBayes().fit(table, y).density_.n_statistics
    np.testing.assert_array_equal(beside.predict_proba(other), beside.predict_proba(same))


def test_a_value_of_rows_without_weight_is_none():
    X = np.column_stack([np.zeros(60), np.arange(60) % 7])
    X[7, 0] = 1.0
    weights = np.ones(60)
    y = np.arange(60) % 2
    by = [one["by"] for one in NaiveBayes().fit(X, y).density_report_]
    assert "one value" not in by
    weights[7] = 0.0
    by = [one["by"] for one in NaiveBayes().fit(X, y, weights).density_report_]
    assert by[0] == "one value"
    # Where the tradeoff is given, a column's type decides, as textbooks have it.
    by = [one["by"] for one in NaiveBayes(tradeoff=1).fit(X, y, weights).density_report_]
    assert by[0] == "type"
