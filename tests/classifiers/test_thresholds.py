"""Steps and hinges of single columns: as columns of the table would be, and only where they are."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB

from crossfade import DataError, NaiveBayes, NotADensityError, explain
from crossfade.classifiers.interactions import screened
from crossfade.io import load_model, save_model, to_onnx
from crossfade.table.schema import Schema


def drawn(kind, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    z = X[:, 0]
    odds = {
        "step": 4 * (z > 0.3) - 1.5,
        "hinge": 5 * np.maximum(z - 0.3, 0) - 1,
        "window": 4 * (np.abs(z - 0.3) < 0.5) - 1.5,
        "U": 2.5 * np.abs(z) - 2,
        "line": z + 0.7 * X[:, 1],
    }[kind]
    return X, (odds + rng.logistic(size=n) > 0).astype(int)


def losses(models, X, y):
    return [-one.predict_log_proba(X)[np.arange(len(y)), y].mean() for one in models]


# -- equalities ------------------------------------------------------------------------------------


def test_at_1_a_step_is_one_more_column_of_bernoulli_naive_bayes():
    X, y = drawn("step")
    found = NaiveBayes("gaussian", tradeoff=1, thresholds={0: [0.3]}, var_smoothing=0).fit(X, y)
    step = (X[:, :1] > 0.3).astype(float)
    joint = (
        GaussianNB(var_smoothing=0).fit(X, y).predict_log_proba(X)
        + BernoulliNB().fit(step, y).predict_log_proba(step)
        - np.log(np.bincount(y) / len(y))
    )
    expected = joint - np.logaddexp.reduce(joint, axis=1)[:, None]
    np.testing.assert_allclose(found.predict_log_proba(X), expected, atol=1e-8)
    assert found.thresholds_ == ["x0 > 0.3"]
    assert len(found.density_report_) == 3


def test_at_0_it_is_one_of_logistic_regression():
    X, y = drawn("window")
    found = NaiveBayes(
        "gaussian", tradeoff=0, shared_variance=True, thresholds={0: [-0.2, 0.8, -0.2]}
    ).fit(X, y)
    assert found.thresholds_ == ["x0 > -0.2", "x0 > 0.8"]
    wide = np.column_stack([X, X[:, 0] > -0.2, X[:, 0] > 0.8])
    wide = (wide - wide.mean(axis=0)) / wide.std(axis=0)
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(wide, y).predict_proba(wide)
    np.testing.assert_allclose(found.predict_proba(X), expected, atol=1e-5)


def statistic_of(new, others, residual, posterior, weights):
    """Rao's statistic of `new` beside `others`, half its covariance of the rows' own scores."""

    def of(columns):
        score = np.einsum("nk,nm->km", residual * weights[:, None], columns).ravel()
        p = posterior[:, :-1]
        each = np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - np.einsum("nk,nl->nkl", p, p)
        each = (each + np.einsum("nk,nl->nkl", residual, residual)) / 2
        each *= weights[:, None, None]
        information = np.einsum("nkl,na,nb->kalb", each, columns, columns)
        return score @ np.linalg.solve(information.reshape(2 * [score.size]), score)

    return of(np.column_stack([*others, new])) - of(np.column_stack(others))


def test_tests_are_raos_of_the_best_place_beside_line_parabola_and_those_before():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame({"a": rng.gamma(2.0, 30.0, n)})
    posterior, weights = rng.dirichlet([2.0, 3.0, 2.0], n), rng.integers(1, 4, n).astype(float)
    codes = np.array([rng.choice(3, p=p) for p in posterior])
    schema = Schema.learn(X)
    tests = screened(schema.encode(X), schema, codes, posterior, weights)
    x = X["a"].to_numpy()
    places = np.quantile(x, np.arange(1, 10) / 10, method="inverted_cdf", weights=weights)
    made = {("step", at): x > at for at in places}
    made |= {("above", at): np.maximum(x - at, 0) for at in places[4:]}
    made |= {("below", at): np.maximum(at - x, 0) for at in places[:4]}
    mean = np.average(x, weights=weights)
    z = (x - mean) / np.sqrt(np.average((x - mean) ** 2, weights=weights))
    z = np.clip(z, -4.0, 4.0)
    others = [np.ones(n), z, z**2]
    residual = (np.eye(3)[codes] - posterior)[:, :-1]
    assert len(tests) == 3
    for test in tests:
        each = {
            name: statistic_of(column, others, residual, posterior, weights)
            for name, column in made.items()
        }
        best = max(each, key=each.get)
        assert (test.derived.what, test.derived.at) == best
        np.testing.assert_allclose(test.statistic, each[best], rtol=1e-6)
        others.append(made.pop(best))


def test_weights_units_sign_and_order_of_rows_and_missing_cells(short_choice):
    X, y = drawn("step", 800)
    X[::9, 1] = np.nan
    X[::11, 0] = np.nan
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 3, len(y))
    model = NaiveBayes(thresholds="auto")
    one = clone(model).fit(X, y, sample_weight=weights)
    other = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    moved = clone(model).fit(1024 * X - 3, y, sample_weight=weights)
    order = rng.permutation(len(y))
    mixed = clone(model).fit(X[order], y[order], sample_weight=weights[order])
    assert "x0" in one.thresholds_[0]
    assert one.thresholds_ == other.thresholds_ == mixed.thresholds_
    assert len(moved.thresholds_) == len(one.thresholds_)
    for found, table in ((other, X), (moved, 1024 * X - 3), (mixed, X)):
        np.testing.assert_allclose(found.predict_proba(table), one.predict_proba(X), atol=1e-4)
    assert np.isfinite(one.predict_log_proba(X)).all()
    # A missing cell tells nothing, in the step neither.
    own = np.flatnonzero(np.isnan(X[:, 0]))
    given = NaiveBayes("gaussian", tradeoff=1, thresholds={0: [0.3]}).fit(X, y)
    without = NaiveBayes("gaussian", tradeoff=1).fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X[own]), without.predict_proba(X[own]))


# -- what is found ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "column"), [("step", "x0 > "), ("hinge", "max(x0 "), ("window", "")]
)
def test_what_is_there_is_found_and_foretells_fresh_rows(kind, column):
    X, y = drawn(kind, 1000)
    fresh, labels = drawn(kind, 10_000, seed=1)
    plain, found = NaiveBayes().fit(X, y), NaiveBayes(thresholds="auto").fit(X, y)
    assert found.threshold_tests_[0]["column"].startswith(column)
    assert found.threshold_tests_[0]["column"] in found.thresholds_
    assert all("x0" in name for name in found.thresholds_)
    before, after = losses([plain, found], fresh, labels)
    assert after < before - 0.01
    said = re.search(
        r"; (\d+) derived columns taken of \d+ tested: ([-+.\d]+) in out-of-fold log-loss "
        r"\(standard error ([.\d]+)\)$",
        found.selection_,
    )
    assert int(said[1]) == len(found.thresholds_)
    assert float(said[2]) == pytest.approx(after - before, abs=4 * float(said[3]))


def test_a_parabola_is_a_threshold_to_a_model_that_has_none(short_choice):
    X, y = drawn("U", 400)
    fresh, labels = drawn("U", 10_000, seed=1)
    linear = NaiveBayes(shared_variance=True)
    plain, found = linear.fit(X, y), clone(linear).set_params(thresholds="auto").fit(X, y)
    assert found.thresholds_[0].startswith("max(")
    before, after = losses([plain, found], fresh, labels)
    assert after < before - 0.03


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 12), marks=pytest.mark.slow)])
def test_of_lines_none_is_taken(seeds):
    for seed in seeds:
        X, y = drawn("line", 200, seed)
        found = NaiveBayes(thresholds="auto").fit(X, y)
        assert found.thresholds_ == []
        assert "; no derived columns: " in found.selection_


def test_of_few_rows_there_is_nothing_to_test():
    X, y = drawn("step", 19)
    found = NaiveBayes(thresholds="auto").fit(X, y)
    assert found.thresholds_ == found.threshold_tests_ == []


@pytest.mark.parametrize("wanted", ["auto", 2])
def test_without_rows_to_hold_out_nothing_is_derived(wanted):
    X, y = np.eye(2), [0, 1]
    found = NaiveBayes(thresholds=wanted, interactions=wanted).fit(X, y)
    assert found.thresholds_ == found.interactions_ == found.interaction_tests_ == []
    np.testing.assert_array_equal(found.predict_proba(X), NaiveBayes().fit(X, y).predict_proba(X))


def test_places_are_looked_for_in_columns_beyond_those_whose_products_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 302))
    codes = (X[:, -1] > 0.3).astype(int)
    schema = Schema.learn(X)
    best = screened(X, schema, codes, np.full((300, 2), 0.5), None, together=False)[0]
    assert best.derived[:3] == ("step", 301, 301)


@pytest.mark.parametrize("offset", [0.0, -3.0, 1.7e9, -(2.0**51)])
def test_names_tell_places_apart_however_far_from_zero(offset):
    X, y = drawn("step")
    places = [offset - 0.5, offset, offset + 0.5]
    names = NaiveBayes(tradeoff=1, thresholds={0: places}).fit(X + offset, y).thresholds_
    assert [float(name.removeprefix("x0 > ")) for name in names] == places


def test_a_fit_without_derived_columns_forgets_those_of_an_earlier_one():
    X, y = drawn("step")
    model = NaiveBayes(tradeoff=1, thresholds=1, interactions=1).fit(X, y)
    model.set_params(thresholds=None, interactions=None).fit(X, y)
    names = {"thresholds_", "threshold_tests_", "interactions_", "interaction_tests_"}
    assert not names & vars(model).keys()


def test_where_most_rows_are_zero_places_are_looked_for_among_the_others():
    rng = np.random.default_rng(0)
    n = 1500
    gain = np.where(rng.random(n) < 0.8, 0.0, rng.gamma(2.0, 1000.0, n))
    p = np.where(gain > 2500.0, 0.9, 0.3)
    codes = (rng.random(n) < p).astype(int)
    X = pd.DataFrame({"gain": gain})
    schema = Schema.learn(X)
    posterior = np.tile([0.7, 0.3], (n, 1))
    best = screened(schema.encode(X), schema, codes, posterior, None)[0]
    others = np.sort(gain[gain > 0.0])
    assert best.derived.what == "step"
    assert best.derived.at in np.quantile(others, np.arange(1, 10) / 10, method="inverted_cdf")
    assert abs((others > best.derived.at).mean() - (others > 2500.0).mean()) < 0.06
    assert best.p_value < 1e-3


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0, 3.5], [1.0, 2.0], [0.5], [-1e300, 1e-300, 2.0]])
def test_columns_of_few_values_are_no_trouble(values):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(values, 200), "b": rng.choice(values, 200) * 1.0})
    X.loc[::3, "b"] = np.nan
    posterior = rng.dirichlet([2.0, 2.0, 1e-3], size=200)
    codes = np.array([rng.choice(3, p=p) for p in posterior])
    schema = Schema(("a", "b"), ("continuous", "continuous"), (None, None), has_names=True)
    tests = screened(X.to_numpy(), schema, codes, posterior, None, together=False)
    assert all(0.0 <= one.p_value <= 1.0 and one.statistic >= 0.0 for one in tests)


@pytest.mark.slow
def test_nothing_passes_a_test_more_often_than_its_level():
    passed = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
        posterior = rng.dirichlet([2.0, 2.0, 2.0], size=200)
        codes = np.array([rng.choice(3, p=p) for p in posterior])
        schema = Schema.learn(X)
        tests = screened(schema.encode(X), schema, codes, posterior, None, together=False)
        passed.append(min(one.p_value for one in tests) < 0.1)
    # .05 or less for each of two columns; three standard errors
    assert 0.03 < np.mean(passed) < 0.19 + 3 * np.sqrt(0.19 * 0.81 / 150)


@pytest.mark.slow
def test_the_reported_loss_is_honest_where_columns_are_looked_for():
    told, fresh = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1200, 8)), rng.integers(2, size=1200)
        model = NaiveBayes(thresholds=3)
        held = model.fit_out_of_fold(X[:200], y[:200], None, None, np.arange(200) % 5)
        told.append(-held[np.arange(200), y[:200]].mean())
        fresh.append(losses([model], X[200:], y[200:])[0])
        assert len(model.thresholds_) == 3
    assert np.mean(told) / np.mean(fresh) == pytest.approx(1.0, abs=0.03)


def test_with_interactions_both_are_looked_for_and_given_pairs_stay():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    odds = 4 * (X[:, 0] > 0.3) - 1.5 + 3 * X[:, 1] * X[:, 2]
    y = (odds + rng.logistic(size=800) > 0).astype(int)
    both = NaiveBayes(interactions="auto", thresholds="auto").fit(X, y)
    assert both.interactions_ == ["x1 × x2"]
    assert both.thresholds_[0].startswith("x0 > ")
    numbers = NaiveBayes(tradeoff=0.5, interactions=1, thresholds=2).fit(X, y)
    assert numbers.interactions_ == ["x1 × x2"]
    assert len(numbers.thresholds_) == 2
    X, y = drawn("step", 600)
    given = NaiveBayes(interactions=[(1, 2)], thresholds="auto").fit(X, y)
    assert given.interactions_ == ["x1 × x2"]
    assert given.thresholds_[0].startswith("x0 > ")
    X, y = drawn("line", 200)
    none = NaiveBayes(interactions=[(1, 2)], thresholds="auto").fit(X, y)
    assert (none.interactions_, none.thresholds_) == (["x1 × x2"], [])


# -- the rest of a classifier's life ---------------------------------------------------------------


def test_explanations_add_up_and_files_keep_the_columns(tmp_path):
    X, y = drawn("hinge", 1000)
    model = NaiveBayes(tradeoff=0.5, thresholds=2).fit(X, y)
    found = explain(model, X[:20])
    assert found.contributions.shape == (20, 3, 2)
    np.testing.assert_allclose(
        found.log_odds(1)[0] + found.log_odds(1)[1].sum(axis=1),
        model.decision_function(X[:20]),
        rtol=1e-8,
    )
    assert model.thresholds_[0] in [test.column for test in model.summary().tests]
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops").estimator
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for refused in (
        lambda: to_onnx(model),
        lambda: clone(model).set_params(tradeoff=1).partial_fit(X, y),
        lambda: clone(model).set_params(unlabelled="missing").fit(X, y),
    ):
        with pytest.raises(DataError, match=r"^thresholds: |interactions and thresholds"):
            refused()
    with pytest.raises(NotADensityError, match="interactions, thresholds: with derived columns"):
        model.joint_log_likelihood(X)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("all", "^thresholds: expected None, 'auto', a number of at least 1 or a mapping"),
        (0, "^thresholds: expected None, 'auto', a number"),
        (True, "^thresholds: expected None, 'auto', a number"),
        ([30.0], "^thresholds: expected None, 'auto', a number"),
        ({"a": 30.0}, "^thresholds: expected None, 'auto', a number"),
        ({"a": ["30"]}, "^thresholds: expected None, 'auto', a number"),
        ({"a": [np.nan]}, "^thresholds: expected None, 'auto', a number"),
        ({"b": [1.0]}, "^thresholds: expected a column of X, got 'b'"),
        ({"kind": [1.0]}, "^thresholds: expected columns of numbers, got 'kind', which is categ"),
    ],
)
def test_what_cannot_be_used_is_refused(given, message):
    table = pd.DataFrame({"a": np.arange(30.0) ** 1.5, "kind": ["x", "y", "z"] * 10})
    y = np.arange(30) % 2
    with pytest.raises(DataError, match=message):
        NaiveBayes(thresholds=given).fit(table, y)
    with pytest.raises(DataError, match=r"^thresholds: .*which needs tradeoff 'auto' or 'best'"):
        NaiveBayes(tradeoff=1, thresholds="auto").fit(table, y)
    with pytest.raises(DataError, match=r"^interactions, thresholds: expected 'auto' or"):
        NaiveBayes(interactions=1, thresholds="auto").fit(table, y)
