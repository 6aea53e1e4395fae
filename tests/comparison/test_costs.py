"""What decisions cost: against a loop over rows, and against thresholds tried one by one."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from crossfade import DataError, NaiveBayes, compare
from crossfade.comparison.calibration import costs_by_threshold
from crossfade.evaluation.scores import score_predictions
from crossfade.evaluation.splits import repeated_splits
from tests.test_cli import run


def table(n=300, seed=0, k=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(size=(n, 3)) + np.stack([y, 0.5 * y, 0 * y], axis=1), y


@pytest.mark.parametrize("k", [2, 3])
def test_decisions_cost_what_the_definition_says(k):
    rng = np.random.default_rng(1)
    posterior, truth = rng.dirichlet(np.ones(k), 200), rng.integers(k, size=200)
    costs = rng.uniform(1, 9, (k, k)) * (1 - np.eye(k))
    total = 0.0
    for p, y in zip(posterior, truth, strict=True):
        expected = [sum(p[t] * costs[t, d] for t in range(k)) for d in range(k)]
        total += costs[y, int(np.argmin(expected))]
    found = score_predictions(posterior.argmax(axis=1), posterior, truth, costs)
    assert found["cost"] == pytest.approx(total / 200, rel=1e-12)
    labels = score_predictions(truth, None, truth, costs)
    assert labels["cost"] == 0.0
    assert "cost" not in score_predictions(truth, posterior, truth)


@pytest.mark.parametrize(
    ("costs", "right"), [(None, 0.5), ([[0.0, 1.0], [5.0, 0.0]], 1 / 6), ([[1, 4], [6, 2]], 3 / 7)]
)
def test_each_threshold_costs_what_deciding_by_it_does(costs, right):
    costs = None if costs is None else np.array(costs, dtype=float)
    rng = np.random.default_rng(2)
    scores = [rng.uniform(size=60).round(2) for _ in range(4)]
    truths = [(rng.uniform(size=60) < one).astype(int) for one in scores]
    found = costs_by_threshold(scores, truths, costs, 0.25)
    each = 1.0 - np.eye(2) if costs is None else costs
    for place in (0, 10, 25, 50):
        at = found.threshold[place]
        by_split = [
            each[y, (p > at).astype(int)].mean() for p, y in zip(scores, truths, strict=True)
        ]
        assert found.mean[place] == pytest.approx(np.mean(by_split), rel=1e-12)
    # Deciding for the second class from FP / (FP + FN) on is deciding at least expected cost.
    assert found.right == pytest.approx(right)
    right = [
        score_predictions(y, np.column_stack([1 - p, p]), y, each)["cost"]
        for p, y in zip(scores, truths, strict=True)
    ]
    assert found.cost.mean == pytest.approx(np.mean(right), rel=1e-12)
    assert found.least == found.threshold[found.mean.argmin()]
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()


def test_the_best_model_is_the_cheapest_and_its_score_is_the_mean_cost_of_the_splits():
    X, y = table()
    models = {"nb": GaussianNB(), "svm": LinearSVC(), "guess": DummyClassifier()}
    result = compare(X, y, models=models, n_splits=4, cost=(1, 8), random_state=3)
    assert result.criterion == "cost"
    costs = np.array([[0.0, 1.0], [8.0, 0.0]])
    np.testing.assert_array_equal(result.costs, costs)
    by_split = []
    for split in repeated_splits(y, n_splits=4, n_train=240, random_state=3):
        p = GaussianNB().fit(X[split.train], y[split.train]).predict_proba(X[split.test])[:, 1]
        by_split.append(costs[y[split.test], (p > 1 / 9).astype(int)].mean())
    np.testing.assert_allclose(result["nb"].scores["cost"], by_split[: len(by_split)])
    means = {m.name: m.estimates["cost"].mean for m in result.models}
    assert result.best == min(means, key=means.get)
    assert "lowest expected cost" in result.verdict() or "its expected cost" in result.verdict()
    assert set(means) == set(models)  # who gives no probabilities has its labels' cost
    assert result.frame()["cost"].null_count() == 0
    assert "| expected cost ↓ |" in result.to_markdown()


def test_ends_curve_and_pool_are_told_in_costs_too():
    X, y = table(160)
    models = {
        "generative": NaiveBayes(tradeoff=1),
        "discriminative": NaiveBayes(tradeoff=0),
        "lr": LogisticRegression(),
    }
    result = compare(X, y, models=models, n_splits=2, cost=[[1, 2], [4.5, 1.5]])
    assert {"cost", "error"} <= set(result.ends.difference)
    assert "in expected cost" in result.verdict()
    assert "cost" in result.doubling
    pooled = result.pool
    assert pooled is None or np.isfinite(pooled.estimates["cost"].mean)
    found = result.details.thresholds[result.best]
    assert found.right == pytest.approx(0.25)
    assert found.cost.mean == pytest.approx(result[result.best].estimates["cost"].mean, rel=1e-9)
    written = json.loads(json.dumps(result.to_dict()))
    assert written["costs"] == [[1.0, 2.0], [4.5, 1.5]]
    assert written["details"]["thresholds"][result.best]["right"] == pytest.approx(0.25)
    assert result.plot("thresholds").to_dict()["title"] == "Thresholds"
    page = re.sub(r"<[^>]*>", "", result.to_html())
    assert (
        "A false positive costs 2, a false negative 4.5, a true negative 1, a true positive 1.5."
        in page
    )


def test_equal_costs_rank_as_errors_do():
    X, y = table(seed=5, k=3)
    models = {"nb": GaussianNB(), "lr": LogisticRegression()}
    result = compare(X, y, models=models, n_splits=3, cost=1 - np.eye(3), evidence=False)
    for model in result.models:
        np.testing.assert_allclose(model.scores["cost"], model.scores["error"], rtol=1e-12)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ((1, 2, 3), r"cost: expected the costs of a false positive .* in the order 0, 1, got"),
        ([[0, 1], [np.nan, 0]], "finite costs"),
        ("cheap", "cost: expected the costs"),
        ((1e308, 1e308), "cost: expected the costs"),
        ((1, -1), "a wrong decision costs more than the right one"),
        ((0, 1), "a wrong decision costs more than the right one"),
    ],
)
def test_what_is_no_cost_is_refused(cost, message):
    with pytest.raises(DataError, match=message):
        compare(*table(60), models={"nb": GaussianNB()}, cost=cost)


def test_cost_is_no_criterion_where_there_is_none():
    with pytest.raises(DataError, match=r"criterion: .*got 'cost'; say what decisions cost"):
        compare(*table(60), models={"nb": GaussianNB()}, criterion="cost")


def test_on_the_command_line(tmp_path, capsys):
    X, y = table(120)
    X[:, 2] = np.exp(2.0 * X[:, 2])
    lines = [
        ",".join([*map(str, row), "no" if label == 0 else "yes"])
        for row, label in zip(X, y, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,target", *lines]))
    out = tmp_path / "t.json"
    command = ("compare", tmp_path / "t.csv", "--models", "nb")
    assert run(*command, "--splits", 5, "--cost", "1,5", "--json", out) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "expected cost" in said
    written = json.loads(out.read_text())
    assert f"Threshold: {written['best']} decides for yes from a probability of 16.7 % on" in said
    found = written["details"]["thresholds"][written["best"]]
    cost, least = found["cost"], found["least"]
    assert f"which costs {cost['mean']:.3f} ± {cost['standard_error']:.3f}; on these" in said
    assert f"rows {100 * least:.0f} % would have cost least." in said
    fits = written["details"]["densities"]
    n_wrong = sum(one["p_value"] <= 0.05 for one in fits)
    first = max(fits, key=lambda one: one["statistic"])
    assert first["column"] == "c"
    assert n_wrong >= 2
    assert f"Densities: rows contradict {n_wrong} of the generative end's {len(fits)}" in said
    told = f"most of all c in class {first['label']} ({first['complaint']}); c in class"
    assert told in said
    assert written["criterion"] == "cost"
    assert written["costs"] == [[0.0, 1.0], [5.0, 0.0]]
    assert run(*command, "--splits", 2, "--json", out) == 0
    assert "Threshold:" not in capsys.readouterr().out  # nothing was said of costs
    assert run(*command, "--cost", "1;x") == 2
    assert "--cost: expected numbers" in capsys.readouterr().err
