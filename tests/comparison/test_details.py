"""The evidence behind a comparison, against other libraries, closed forms and refits."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import StandardScaler

from crossfade import GaussianDiscriminant, NaiveBayes, compare
from crossfade.comparison import details as module
from crossfade.comparison.calibration import calibrate, rank
from crossfade.comparison.effects import jackknife, make_probes, weights, word_weights
from crossfade.comparison.plane import (
    agreement,
    class_scores,
    discriminant_plane,
    posterior_surface,
)
from crossfade.report.surfaces import quadratic
from crossfade.table import Schema


def _scores(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    return np.round(1 / (1 + np.exp(-rng.normal(size=n) - truth)), 2), truth  # with ties


def test_ranking_is_that_of_scikit_learn():
    scores, truths = zip(*(_scores(seed) for seed in range(3)), strict=True)
    found = rank(scores, truths, 0.25)
    areas = [roc_auc_score(y, s) for s, y in zip(scores, truths, strict=True)]
    averages = [average_precision_score(y, s) for s, y in zip(scores, truths, strict=True)]
    assert found.area.mean == pytest.approx(np.mean(areas), rel=1e-12)
    assert found.average_precision.mean == pytest.approx(np.mean(averages), rel=1e-12)
    curves = [roc_curve(y, s, drop_intermediate=False) for s, y in zip(scores, truths, strict=True)]
    expected = np.mean([np.interp(found.place, x, y) for x, y, _ in curves], axis=0)
    np.testing.assert_allclose(found.true_positive, expected, atol=1e-12)
    assert found.prevalence == pytest.approx(np.mean(np.concatenate(truths)))


def test_reliability_is_what_counting_gives():
    rng = np.random.default_rng(0)
    posteriors, truths = [], []
    for _ in range(2):
        p = rng.random(300)
        posteriors.append(np.column_stack([1 - p, p]))
        truths.append((rng.random(300) < p).astype(np.int64))
    found = calibrate(posteriors, truths, 0.25)
    p, y = np.concatenate(posteriors)[:, 1], np.concatenate(truths)
    distances = []
    for place in range(10):
        inside = (p >= place / 10) & (p < (place + 1) / 10)
        assert found.mean[place] == pytest.approx(p[inside].mean())
        assert found.frequency[place] == pytest.approx(y[inside].mean())
        assert found.share[place] == pytest.approx(inside.mean())
        interval = stats.binomtest(int(y[inside].sum()), int(inside.sum())).proportion_ci(
            method="wilson"
        )
        assert (found.low[place], found.high[place]) == pytest.approx((interval.low, interval.high))
    for posterior, truth in zip(posteriors, truths, strict=True):
        q, total = posterior[:, 1], 0.0
        for place in range(10):
            inside = (q >= place / 10) & (q < (place + 1) / 10)
            total += abs((q[inside] - truth[inside]).sum())
        distances.append(total / 300)
    assert found.error.mean == pytest.approx(np.mean(distances))


def test_rows_that_several_splits_test_count_once_in_the_interval():
    posterior, truth = np.full((40, 2), 0.5), np.repeat([0, 1], 20)
    once = calibrate([posterior] * 5, [truth] * 5, 0.25)  # each row in one test set, as expected
    often = calibrate([posterior] * 20, [truth] * 20, 0.25)
    assert once.low[0] == pytest.approx(often.low[0])


def test_the_jackknife_of_a_mean_over_all_parts_is_its_textbook_error():
    values = np.random.default_rng(0).normal(size=9)
    kept = 6
    parts = [np.array([values[list(rows)].mean()]) for rows in combinations(range(9), kept)]
    error, half = jackknife(parts, (9 - kept) / kept)
    exact = values.std(ddof=1) / 3
    assert error[0] * np.sqrt((len(parts) - 1) / len(parts)) == pytest.approx(exact, rel=1e-12)
    assert half == pytest.approx(stats.t.ppf(0.975, len(parts) - 1))


def test_weights_of_a_linear_model_are_its_standardised_coefficients():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    X = rng.normal(size=(300, 3)) * [1.0, 20.0, 0.1] + y[:, None] * [1.0, 5.0, 0.0]
    model = NaiveBayes("gaussian", shared_variance=True, tradeoff=0).fit(X, y)
    probes = make_probes(X, Schema.learn(X), y)
    found = weights(class_scores(model, probes.X, np.array([0, 1]), 2), probes)
    np.testing.assert_allclose(found[:, 0], model.coef_[0] * X.std(axis=0), rtol=1e-8)
    other = LogisticRegression(tol=1e-10, max_iter=1000).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(found[:, 0], other.coef_[0], rtol=1e-5)


def test_weights_of_categories_booleans_and_counts_are_log_odds():
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=400)
    frame = pl.DataFrame(
        {
            "colour": np.where(rng.random(400) < 0.3 + 0.3 * y, "red", "blue"),
            "ripe": rng.random(400) < 0.2 + 0.4 * y,
            "seeds": rng.poisson(2 + y),
            "gaps": np.where(rng.random(400) < 0.2, None, rng.normal(size=400)),
        }
    )
    model = NaiveBayes(tradeoff=1).fit(frame, y)
    schema = Schema.learn(frame)
    assert schema.kinds == ("categorical", "boolean", "count", "continuous")
    probes = make_probes(frame, schema, y)
    found = weights(class_scores(model, probes.X, np.array([0, 1]), 2), probes)[:, 0]

    def log_odds(event) -> float:
        share = [(np.sum(event[y == k]) + 1) / (np.sum(y == k) + 2) for k in (0, 1)]
        logit = np.log(share) - np.log1p(-np.array(share))
        return logit[1] - logit[0]

    red = (frame["colour"] == "red").to_numpy()
    bar = probes.bars[0]
    sign = 1 if bar.level == "red" else -1
    assert found[0] == pytest.approx(sign * log_odds(red))
    assert (probes.bars[1].level, probes.bars[1].against) == ("1", "0")
    assert found[1] == pytest.approx(log_odds(frame["ripe"].to_numpy()))
    rates = [(frame["seeds"].to_numpy()[y == k].sum() + 1) / (np.sum(y == k) + 1) for k in (0, 1)]
    expected = np.log(rates[1] / rates[0]) * frame["seeds"].to_numpy().std()
    assert found[2] == pytest.approx(expected, rel=0.02)  # the prior's own pseudo-counts


def test_discriminant_directions_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 80)
    Z = rng.normal(size=(240, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=(3, 4))[codes]
    plane = discriminant_plane(Z, codes)
    other = LinearDiscriminantAnalysis(solver="eigen").fit(Z, codes).transform(Z)[:, :2]
    for own, theirs in zip(plane.T, other.T, strict=True):
        assert abs(np.corrcoef(own, theirs)[0, 1]) == pytest.approx(1.0, abs=1e-6)
    within = plane - np.stack([plane[codes == k].mean(axis=0) for k in range(3)])[codes]
    np.testing.assert_allclose((within**2).mean(axis=0), 1.0, rtol=1e-4)


def test_two_classes_and_one_column_have_a_plane_too():
    codes = np.repeat([0, 1], 20)
    Z = np.random.default_rng(0).normal(size=(40, 1)) + codes[:, None]
    plane = discriminant_plane(Z, codes)
    assert plane.shape == (40, 2)
    assert not plane[:, 1].any()
    assert plane[codes == 1, 0].mean() > plane[codes == 0, 0].mean()


def test_a_gaussian_posterior_in_two_columns_is_seen_exactly():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    X = rng.normal(size=(300, 2)) * (1 + y[:, None]) + y[:, None]
    model = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    scores = class_scores(model, X, np.arange(3), 3)
    plane = discriminant_plane((X - X.mean(axis=0)) / X.std(axis=0), y)
    surface = posterior_surface(plane, scores)
    np.testing.assert_allclose(quadratic(plane) @ surface, scores, atol=1e-7)
    assert agreement(plane, surface, scores) == 1.0


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=200)
    X = rng.normal(size=(200, 3)) + y[:, None]
    X[:, 2] = X[:, 1] + 0.1 * rng.normal(size=200)
    models = {f"nb {t}": NaiveBayes("gaussian", tradeoff=t) for t in (1, 0)}
    return X, y, compare(X, y, models=models, n_splits=4)


def test_path_and_choice_are_those_of_the_fit_on_all_rows(found):
    X, y, result = found
    model = NaiveBayes("gaussian").fit(X, y)
    for name, values in model.tradeoff_path_.items():
        np.testing.assert_array_equal(result.details.path[name], values)
    assert result.details.chosen == model.tradeoff_


def test_calibration_is_that_of_the_table_s_own_splits(found):
    X, y, result = found
    from crossfade.evaluation.splits import repeated_splits

    posteriors, truths = [], []
    for split in repeated_splits(y, n_splits=4, n_train=160, random_state=0):
        model = NaiveBayes("gaussian", tradeoff=1).fit(X[split.train], y[split.train])
        posteriors.append(model.predict_proba(X[split.test]))
        truths.append(y[split.test])
    assert result.details.calibration["nb 1"].error == calibrate(posteriors, truths, 0.25).error


def test_columns_that_repeat_each_other_lose_weight(found):
    change = found[2].details.to_dict()["weights"]["change"]
    value, high = (np.array(change[key])[:, 0] for key in ("value", "high"))
    assert (value[1:] < 0).all()
    assert high[1:].min() < 0


def test_many_rows_are_sampled_and_keep_their_classes(monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROWS", 120)
    monkeypatch.setattr(module, "_VIEW_ROWS", 60)
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4 // 3  # one in four
    X = rng.normal(size=(400, 2)) + y[:, None]
    models = {f"nb {t}": NaiveBayes("gaussian", tradeoff=t) for t in (1, 0)}
    details = compare(X, y, models=models, n_splits=3).details
    assert details.n_rows == 120
    assert len(details.view.codes) <= 60
    assert np.mean(details.view.codes) == pytest.approx(0.25, abs=0.05)
    assert details.ranking["nb 1"].prevalence == pytest.approx(0.25)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_words_weigh_what_multinomial_naive_bayes_of_scikit_learn_gives_them(n_classes):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.6, (60, 9)).astype(float)
    y = np.arange(60) % n_classes
    X[:, 4] = 1.0  # of every row alike: it has a weight but tells none apart
    X = scipy.sparse.csr_array(X)
    other = MultinomialNB().fit(X, y)
    found = word_weights(NaiveBayes(tradeoff=1).fit(X, y), X, [str(k) for k in range(n_classes)])
    gap = other.feature_log_prob_ - other.feature_log_prob_.mean(axis=0)
    gap *= 2.0 if n_classes == 2 else 1.0
    total, rows = X.sum(axis=0), (X > 0).sum(axis=0)
    spread = X.toarray().std(axis=0)
    assert np.abs(gap[:, 4]).max() > 0.0 == spread[4]
    for k in range(n_classes):
        own = [one for one in found if one.label == str(k)]
        order = [j for j in np.argsort(-gap[k] * spread) if gap[k, j] * spread[j] > 0]
        assert [one.word for one in own] == [f"x{j}" for j in order]
        expected = [gap[k, j] * total[j] / rows[j] for j in order]
        np.testing.assert_allclose([one.value for one in own], expected, rtol=1e-10)
        assert [one.n_rows for one in own] == rows[order].tolist()


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
def test_numbers_beside_text_are_probed_and_the_text_is_not(library):
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    said = [" ".join(rng.choice(list("abcdefgh"), 5)) for _ in y]
    identifier = [f"id{i}" for i in range(40)]
    X = library({"said": said, "id": identifier, "size": rng.normal(size=40) + y})
    model = NaiveBayes({"size": "gaussian"}, tradeoff=1, shared_variance=True).fit(X, y)
    probes = make_probes(X, model.schema_, y)
    assert [bar.column for bar in probes.bars] == [2]
    alone = NaiveBayes("gaussian", tradeoff=1, shared_variance=True).fit(X[["size"]], y)
    found = weights(class_scores(model, probes.X, np.arange(2), 2), probes)
    size = X["size"].to_numpy()
    assert found.item() == pytest.approx(alone.coef_.item() * size.std(), rel=1e-9)
