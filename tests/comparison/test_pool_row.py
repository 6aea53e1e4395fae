"""The row of the pool: weights from other splits alone, no fit of its own, honest scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from crossfade import NaiveBayes, compare
from crossfade.comparison import choose_models
from crossfade.comparison.interactions import interaction_note
from crossfade.comparison.problem import read_problem
from crossfade.comparison.standings import Settings, Standings
from crossfade.evaluation.evaluation import Evaluation
from crossfade.evaluation.scores import score_predictions
from crossfade.evaluation.splits import repeated_splits
from crossfade.pools.weights import Evidence, drawn_in, pooled, weigh

MODELS = {
    "normal": GaussianNB(),
    "tree": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    "guess": DummyClassifier(),
}


def test_each_split_s_weights_come_from_its_training_rows_on_other_splits():
    X, y = make_classification(300, 6, n_informative=4, n_redundant=0, random_state=1)
    found = compare(X, y, models=MODELS, n_splits=4, stop_early=False, evidence=False)
    splits = list(repeated_splits(y, n_splits=4, n_train=240, random_state=0))
    shares = np.bincount(y) / 300

    def said(name, split):
        model = MODELS[name].fit(X[split.train], y[split.train])
        return drawn_in(model.predict_proba(X[split.test]), 240, shares, 1.0)

    for number, own in enumerate(splits):
        others = [one for k, one in enumerate(splits) if k != number]
        known = [np.isin(one.test, own.train) for one in others]
        rows = np.concatenate([one.test[k] for one, k in zip(others, known, strict=True)])
        scores = np.stack(
            [
                np.concatenate([said(name, one)[k] for one, k in zip(others, known, strict=True)])
                for name in found.pool.weights
            ]
        )
        times = np.bincount(rows)[rows]
        evidence = Evidence(scores, y[rows], rows, 1 / times, np.log(shares), "log_loss")
        weighing = weigh(evidence, ["logarithmic"])
        held = np.stack([said(name, own) for name in found.pool.weights])
        joint = pooled(weighing, held, np.log(shares))
        posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        expected = log_loss(y[own.test], posterior)
        assert found.pool.scores["log_loss"][number] == pytest.approx(expected, rel=1e-9)


def test_it_costs_no_fit_and_stands_beside_its_members(monkeypatch):
    X, y = load_iris(return_X_y=True)
    fits = []

    class Counted(GaussianNB):
        def fit(self, X, y):
            fits.append(len(y))
            return super().fit(X, y)

    models = {"a": Counted(), "b": LogisticRegression(max_iter=500), "guess": DummyClassifier()}
    found = compare(X, y, models=models, n_splits=5, evidence=False)
    assert fits.count(120) == 5
    assert [model.name for model in found.rows] == ["a", "b", "guess", "pool of these"]
    assert found.frame()["model"].to_list()[-1] == "pool of these"
    pool = found.pool
    assert set(pool.weights) == {"a", "b"}
    rival = found[pool.rival].scores["log_loss"]
    assert pool.gain["log_loss"].mean == pytest.approx(np.mean(pool.scores["log_loss"] - rival))
    assert "A pool of models (weights: " in found.verdict_sentences[0]
    assert "pool of these" in found.to_markdown()
    assert found.to_dict()["pool"]["weights"] == pool.weights


def test_of_a_family_the_member_that_chooses_is_pooled_and_names_bring_the_default_pool():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    odds = 2 * X[:, 0] + 3 * np.sign(X[:, 1] * X[:, 2])  # a sum, and what no sum can say
    y = (odds + rng.logistic(size=200) > 0).astype(int)
    models = {f"nb {t}": NaiveBayes(tradeoff=t) for t in (1.0, "auto")}
    found = compare(X, y, models=models | {"tree": MODELS["tree"]}, n_splits=3, evidence=False)
    assert set(found.pool.weights) == {"nb auto", "tree"}
    assert compare(X, y, models=models, n_splits=3, evidence=False).pool is None
    assert list(choose_models(["pool"])) == [
        "naive Bayes auto", "full Gaussian auto", "random forest", "gradient boosting",
    ]  # fmt: skip


@pytest.mark.slow
def test_labels_of_nothing_are_not_foretold():
    gaps = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 3)), np.tile([0, 1], 30)
        models = {
            str(k): DecisionTreeClassifier(max_depth=3, max_features=1, random_state=k)
            for k in range(8)
        }
        found = compare(X, y, models=models, n_splits=5, stop_early=False, evidence=False)
        if found.pool is not None:
            gaps.append(found.pool.scores["log_loss"].mean() - np.log(2))
    # What is told of chance is chance, or worse where noise got a weight.
    assert len(gaps) > 3
    assert np.mean(gaps) > -np.std(gaps, ddof=1) / np.sqrt(len(gaps))


@pytest.mark.parametrize("criterion", ["log_loss", "brier"])
def test_where_a_model_without_tradeoff_is_ahead_the_columns_that_interact_are_named(criterion):
    # Nothing is fitted: the rival says the truth, naive Bayes what it can say of it.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    noise = rng.logistic(size=400)

    def note(odds, of_naive_bayes, rival=None):
        y = (odds + noise > 0).astype(int)
        problem = read_problem(X, y)
        splits = list(repeated_splits(y, n_splits=4, n_train=300, random_state=0))
        models = {"nb": NaiveBayes(), "rival": rival or DecisionTreeClassifier()}
        standings = Standings(problem, models, splits, Settings(criterion=criterion))
        for name, told in (("nb", of_naive_bayes), ("rival", odds)):
            p = expit(np.column_stack([-told, told]))
            for split in splits:
                scores = score_predictions(p[split.test].argmax(1), p[split.test], y[split.test])
                standings.results[name].append(Evaluation(scores, 0.0, None, p[split.test]))
        found = standings._interactions()
        return found and (interaction_note(*found), found[1])

    interacting, alone, none = 6 * X[:, 1] * X[:, 2], 3 * X[:, 0], np.zeros(400)
    said, (strongest, *_) = note(interacting, none)
    assert said.startswith("nb does not see what columns say together")
    assert "ask for x1 × x2 (χ² " in said
    assert "x0" not in said
    # By quarters of both columns: naive Bayes says one half, the truth is told by the product.
    assert (strongest.columns, strongest.label) == (("x1", "x2"), "1")
    assert strongest.residual.shape == strongest.counts.shape == (4, 4)
    corners = strongest.residual[[0, 0, 3, 3], [0, 3, 0, 3]]
    assert (np.sign(corners) == [1, -1, -1, 1]).all()
    assert (np.abs(corners) > 0.3).all()
    assert 100 < strongest.counts.sum() <= 400  # those that are test rows anywhere
    medians = [float(name) for name in strongest.first]
    assert medians == sorted(medians)
    # Of one column there is one picture, however many thresholds it has.
    said, found = note(8 * (np.abs(X[:, 0] - 0.7) < 0.6) - 4, none)
    assert [one.columns for one in found] == [("x0",)]
    assert found[0].residual.shape == (8, 1)
    # Neither is ahead; the one ahead has a tradeoff.
    for told in (interacting, alone, none):
        assert note(told, told) is None
    assert note(interacting, none, NaiveBayes(tradeoff=0.0)) is None
