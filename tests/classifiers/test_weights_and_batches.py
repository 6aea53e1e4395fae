"""Weights are repeated rows, zero weights absent ones; batches give what one fit gives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.errors import DataError
from crossfade.tradeoff.scoring import Scorer
from tests.classifiers.models import (
    CONTINUOUS,
    CONTINUOUS_AND_TRADEOFFS,
    DENSITIES,
    TRADEOFFS,
    continuous,
    mixed,
)

SMOOTHED = {
    **CONTINUOUS,
    "smoothed": lambda **p: NaiveBayes(var_smoothing=0.1, **p),
    "shrunk": lambda **p: GaussianDiscriminant("full", shrinkage=0.3, **p),
}


@pytest.mark.parametrize(
    ("name", "tradeoff"),
    [
        *CONTINUOUS_AND_TRADEOFFS,
        *(("smoothed", tradeoff) for tradeoff in (1, 0.5, 0)),
        *(("shrunk", tradeoff) for tradeoff in TRADEOFFS),
    ],
)
def test_weights_are_repeated_rows(name, tradeoff):
    X, y = continuous(n=120)
    weights = np.random.default_rng(1).integers(0, 4, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = SMOOTHED[name](tradeoff=tradeoff).fit(X, y, sample_weight=weights)
    other = SMOOTHED[name](tradeoff=tradeoff).fit(X[index], y[index])
    assert one.tradeoff_ == pytest.approx(other.tradeoff_, abs=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(one.class_count_, np.bincount(y[index]))
    np.testing.assert_allclose(one.class_count_, other.class_count_)


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_weights_are_repeated_rows_in_every_density(tradeoff, missing):
    X, y = mixed(missing=missing)
    weights = np.random.default_rng(1).integers(0, 4, size=len(y))
    index = np.repeat(np.arange(len(y)), weights)
    one = NaiveBayes(DENSITIES, tradeoff=tradeoff, alpha=0.7).fit(X, y, sample_weight=weights)
    other = NaiveBayes(DENSITIES, tradeoff=tradeoff, alpha=0.7).fit(X[index], y[index])
    assert one.tradeoff_ == pytest.approx(other.tradeoff_, abs=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_weights_are_repeated_rows_in_mixtures(tradeoff):
    X, y = continuous(n=120, k=2)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, size=len(y))
    index = rng.permutation(np.repeat(np.arange(len(y)), weights))
    one = GaussianDiscriminant("full", components=2, tradeoff=tradeoff, n_init=2)
    other = GaussianDiscriminant("full", components=2, tradeoff=tradeoff, n_init=2)
    one.fit(X, y, sample_weight=weights)
    other.fit(X[index], y[index])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-5)


def test_a_zero_weight_is_absent_also_for_labels_categories_and_kinds():
    table = pl.DataFrame({"city": ["a", "b", "a", "b", "zzz"], "n": [0, 1, 2, 1, 500]})
    y = np.array(["x", "x", "y", "y", "never"])
    weights = [1, 1, 2, 1, 0]
    one = NaiveBayes(tradeoff=1).fit(table, y, sample_weight=weights)
    other = NaiveBayes(tradeoff=1).fit(table[:4], y[:4], sample_weight=weights[:4])
    assert one.classes_.tolist() == ["x", "y"]
    assert one.schema_ == other.schema_
    np.testing.assert_array_equal(one.predict_proba(table), other.predict_proba(table))


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_weights_scale_the_data_against_the_prior_only(tradeoff):
    """Without smoothing and penalty a common factor changes nothing."""
    X, y = continuous()
    one = NaiveBayes(tradeoff=tradeoff, l2=0, var_smoothing=0).fit(X, y)
    other = NaiveBayes(tradeoff=tradeoff, l2=0, var_smoothing=0).fit(
        X, y, sample_weight=np.full(len(y), 2.5)
    )
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_class_weight_is_a_weight_of_the_class_rows(tradeoff):
    X, y = continuous(n=120)
    X, y = X[(y > 0) | (np.arange(120) < 30)], y[(y > 0) | (np.arange(120) < 30)]
    counts = np.bincount(y)
    balanced = len(y) / (3 * counts)
    one = NaiveBayes(tradeoff=tradeoff, class_weight="balanced").fit(X, y)
    other = NaiveBayes(tradeoff=tradeoff).fit(X, y, sample_weight=balanced[y])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(one.class_count_, len(y) / 3)
    mapped = NaiveBayes(tradeoff=tradeoff, class_weight=dict(enumerate(balanced))).fit(X, y)
    np.testing.assert_allclose(mapped.predict_proba(X), one.predict_proba(X), atol=1e-8)


# -- batches ---------------------------------------------------------------------------------------


def in_batches(model, X, y, sizes, **kwargs):
    start = 0
    for number, size in enumerate(sizes):
        rows = slice(start, start + size)
        extra = {key: value[rows] for key, value in kwargs.items()}
        if number == 0:
            extra["classes"] = np.unique(y)
        model.partial_fit(X[rows], y[rows], **extra)
        start += size
    return model


@pytest.mark.parametrize("name", SMOOTHED)
def test_batches_are_one_fit(name):
    X, y = continuous(n=150)
    order = np.argsort(y, kind="stable")  # the first batches lack classes
    X, y = X[order], y[order]
    weights = np.linspace(0.1, 2.0, 150)
    whole = SMOOTHED[name](tradeoff=1).fit(X, y, sample_weight=weights)
    parts = in_batches(SMOOTHED[name](tradeoff=1), X, y, (1, 30, 70, 49), sample_weight=weights)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(parts.score_samples(X), whole.score_samples(X), atol=1e-8)
    np.testing.assert_allclose(parts.class_count_, whole.class_count_)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_batches_are_one_fit_in_every_density(missing):
    X, y = mixed(missing=missing)
    whole = NaiveBayes(DENSITIES, tradeoff=1).fit(X, y)
    parts = in_batches(NaiveBayes(DENSITIES, tradeoff=1), X, y, (40, 60, 50))
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_a_later_batch_may_bring_new_categories():
    rng = np.random.default_rng(0)
    city = np.array(["c", "a", "d", "b"])[np.sort(rng.integers(4, size=200))]
    y = rng.integers(2, size=200)
    table = pl.DataFrame({"city": city, "x": rng.normal(size=200) + y})
    whole = NaiveBayes(tradeoff=1).fit(table, y)
    parts = in_batches(NaiveBayes(tradeoff=1), table, y, (60, 60, 80))
    assert parts.schema_.categories[0] != whole.schema_.categories[0]  # in order of arrival
    np.testing.assert_allclose(parts.predict_proba(table), whole.predict_proba(table), atol=1e-12)
    np.testing.assert_allclose(parts.score_samples(table), whole.score_samples(table), atol=1e-10)


def test_batches_after_a_fit_go_on_from_it():
    X, y = continuous()
    model = NaiveBayes(tradeoff=1).fit(X[:80], y[:80])
    model.partial_fit(X[80:], y[80:])
    whole = NaiveBayes(tradeoff=1).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-9)
    again = model.fit(X[:100], y[:100])  # starts anew
    fresh = NaiveBayes(tradeoff=1).fit(X[:100], y[:100])
    np.testing.assert_array_equal(again.predict_proba(X), fresh.predict_proba(X))


@pytest.mark.parametrize("tradeoff", ["auto", "best"])
def test_batches_after_a_choice_begin_anew(tradeoff):
    X, y = continuous(n=60)
    X = np.exp(X)
    model = NaiveBayes(tradeoff=tradeoff).fit(X, y)
    assert {one["density"] for one in model.density_report_} == {"johnson_su"}
    model.set_params(tradeoff=1).partial_fit(X, y)
    fresh = NaiveBayes(tradeoff=1).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
    assert model.density_report_ == fresh.density_report_
    assert fresh.density_report_ == NaiveBayes(tradeoff=1).fit(X, y).density_report_


@pytest.mark.parametrize("tradeoff", [0.5, 0, "auto"])
def test_only_the_generative_fit_comes_in_batches(tradeoff):
    model = NaiveBayes(tradeoff=tradeoff)
    assert not hasattr(model, "partial_fit")
    assert hasattr(NaiveBayes(tradeoff=1), "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        _ = model.partial_fit
    assert hasattr(GaussianDiscriminant(tradeoff=1), "partial_fit")
    assert not hasattr(GaussianDiscriminant(tradeoff=1, components=2), "partial_fit")


def test_batches_refuse_what_they_cannot_use():
    X, y = continuous()
    model = NaiveBayes(tradeoff=1).partial_fit(X[:50], y[:50])
    with pytest.raises(DataError, match="y: expected only labels among the 3 given classes"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(DataError, match="classes: expected those of the first call"):
        model.partial_fit(X[:2], y[:2], classes=[0, 1])
    with pytest.raises(DataError, match="X has 2 features, but NaiveBayes is expecting 3 features"):
        model.partial_fit(X[:2, :2], y[:2])
    before = model.predict_proba(X)
    bad = X[:5].copy()
    bad[0, 0] = np.inf
    with pytest.raises(DataError):
        model.partial_fit(bad, y[:5])
    np.testing.assert_array_equal(model.predict_proba(X), before)  # nothing half-done


def gaps(values):
    """Return what pandas makes of integers with a gap."""
    return pd.Series([*values, np.nan])


@pytest.mark.parametrize("begun", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("batches", "refused"),
    [
        ([[0, 1, 1, 0], [5, 7, 0, 9]], "boolean cells as in the first batch, got rows that with"),
        ([[0, 1, 1, 0], [0, 1, 2, 3]], "boolean .* those before are count .from 0 to 3."),
        ([[0, 1, 1, 0], [0, -1, 1, 0]], "boolean .* continuous .from -1 to 1."),
        ([[0, 1, 2, 3, 1, 0], [3, 101]], "count .* continuous .from 0 to 101."),
        ([[0, 1, 2, 3, 1, 0], [0, 9, 1, 1]], "count .* continuous .from 0 to 9."),
        ([[1, 2, 3, 1], [0, 0, 1, 1]], "continuous .* count .from 0 to 3."),
        ([[1, 2, 3, 1], [4, 5, 2, 1], [0, 0, 1, 1]], "continuous .* count .from 0 to 5."),
        ([[0, 9, 9, 9], [1, 8, 8, 9]], None),
        ([[0, 1, 1, 0], [1, 0, 0, 1]], None),
        ([[0, 1, 2, 3, 1, 0], [0, 4, 1, 1]], None),
        ([[0, 1, 2, 3, 1, 0], gaps([0, 4, 1, 1])], None),
        ([[0, 1, 2, 3, 1, 0], [0.0, 4.0, 1.0, 1.0]], "count .* continuous .from 0 to 4."),
        ([[0.0, 1.0, 2.0, 3.0], gaps([0, 4, 1, 1])], "continuous .* count"),
        ([[0.5, 1.0, 2.0, 3.0], gaps([0, 4, 1, 1])], None),
        ([[True, False, True], [0, 1, 1]], None),
        ([[0, 1, 1], [True, False, True]], None),
        ([[True, False, True], pd.array([True, None, False], dtype="boolean")], None),
    ],
)
def test_a_batch_agrees_with_the_whole_or_is_refused(batches, refused, begun):
    tables = [pd.DataFrame({"n": cells}) for cells in batches]
    labels = [np.arange(len(table)) % 2 for table in tables]

    def fitted(density, upto):
        model = NaiveBayes(density, tradeoff=1)
        getattr(model, begun)(tables[0], labels[0])
        for table, y in zip(tables[1:upto], labels[1:upto], strict=True):
            model.partial_fit(table, y)
        return model

    if refused is not None:
        model = fitted("auto", -1)
        before = model.predict_proba(tables[0])
        with pytest.raises(DataError, match=f"X: column 'n': expected {refused}"):
            model.partial_fit(tables[-1], labels[-1])
        np.testing.assert_array_equal(model.predict_proba(tables[0]), before)
    model = fitted({"n": "gaussian"} if refused else "auto", None)
    whole = NaiveBayes(model.density, tradeoff=1)
    whole.fit(pd.concat(tables), np.concatenate(labels))
    assert whole.density_report_ == model.density_report_
    np.testing.assert_allclose(
        model.predict_proba(tables[0]), whole.predict_proba(tables[0]), atol=1e-9
    )


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_a_batch_agrees_with_the_whole_in_a_joint_gaussian(covariance):
    """Numbers of every kind are one Gaussian there, booleans a factor."""
    first, y = pd.DataFrame({"n": [0, 1, 1, 0], "x": [0.1, 0.7, 0.2, 0.4]}), [0, 1, 0, 1]
    for cells, kind in (([0, 1, 2, 3], "count"), ([5, 7, 0, 9], "continuous"), ([0, 0, 1, 1], "")):
        later = pd.DataFrame({"n": cells, "x": [0.3, 0.1, 0.9, 0.5]})
        for one, two in ((first, later), (later, first)):
            model = GaussianDiscriminant(covariance, tradeoff=1).partial_fit(one, y)
            before = model.predict_proba(one)
            if kind and one is first:
                with pytest.raises(DataError, match=f"column 'n': expected boolean .* are {kind}"):
                    model.partial_fit(two, y)
                np.testing.assert_array_equal(model.predict_proba(one), before)
                continue
            model.partial_fit(two, y)
            whole = GaussianDiscriminant(covariance, tradeoff=1).fit(pd.concat([one, two]), y + y)
            np.testing.assert_allclose(
                model.predict_proba(one), whole.predict_proba(one), atol=1e-9
            )


def test_wrong_weights_are_refused():
    X, y = continuous()
    for weights, message in [
        (np.ones(3), r"sample_weight: expected shape \(150,\)"),
        (np.full(150, -1.0), "sample_weight: expected weights of at least 0"),
        (np.full(150, np.nan), "sample_weight: expected finite weights"),
        (np.zeros(150), "sample_weight: expected some weight above 0"),
        (["a"] * 150, "sample_weight: expected numbers"),
    ]:
        with pytest.raises(DataError, match=message):
            NaiveBayes(tradeoff=1).fit(X, y, sample_weight=weights)
    with pytest.raises(DataError, match="class_weight: expected labels of y as keys, got 9"):
        NaiveBayes(tradeoff=1, class_weight={9: 1.0}).fit(X, y)


# -- rows by the thousand take other loops than rows by the dozen ----------------------------------


def in_small_parts(predict, X):
    return np.concatenate([predict(X[start : start + 250]) for start in range(0, len(X), 250)])


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("tradeoff", [1, 0, "auto"])
def test_many_rows_are_predicted_as_few_are_in_every_density(tradeoff, missing):
    tables = [mixed(5_000, k=5, seed=seed, missing=missing)[0] for seed in range(8)]
    X, y = np.hstack(tables), mixed(5_000, k=5)[1]
    densities = {column: DENSITIES[column % 4] for column in range(X.shape[1])}
    model = NaiveBayes(densities, tradeoff=tradeoff).fit(X[:600], y[:600])
    for predict in (model.predict_proba, model.predict_log_proba, model.joint_log_likelihood):
        np.testing.assert_allclose(predict(X), in_small_parts(predict, X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "tradeoff"), [each for each in CONTINUOUS_AND_TRADEOFFS if each[1] != 0.5]
)
def test_many_rows_are_predicted_as_few_are(name, tradeoff):
    X, y = continuous(5_000, k=5, d=8)
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X[:200], y[:200])
    for predict in (model.predict_proba, model.predict_log_proba):
        few = in_small_parts(predict, X)
        for layout in (X, np.asfortranarray(X)):
            np.testing.assert_allclose(predict(layout), few, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("by_cost", [False, True])
def test_decisions_of_many_classes_are_made_some_rows_at_a_time(monkeypatch, by_cost):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 5)
    X = rng.normal(size=(200, 2)) + y[:, None]
    selection = 1.0 - np.eye(40) if by_cost else "log_loss"
    model = NaiveBayes(tradeoff=1, selection=selection).fit(X, y)
    whole, largest = model.predict(X), []
    np.testing.assert_array_equal(whole, model.predict_proba(X).argmax(axis=1))
    scores = Scorer.posterior_scores

    def watched(self, rows):
        found = scores(self, rows)
        largest.append(found.size)
        return found

    monkeypatch.setattr("crossfade.classifiers.views._MOST_POSTERIORS", 300)
    monkeypatch.setattr("crossfade.tradeoff.scoring._SCORE_CELLS", 300)
    monkeypatch.setattr(Scorer, "posterior_scores", watched)
    np.testing.assert_array_equal(model.predict(X), whole)
    assert max(largest) <= 300
    X[150, 1] = np.inf
    with pytest.raises(DataError, match="column"):
        model.predict(X)
