"""Bouchard & Triggs (2004), the table and the figure."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from crossfade.blocks import threads
from reproduction import Settings
from reproduction import bouchard_triggs_figure as figure
from reproduction import bouchard_triggs_table as table
from reproduction.bouchard_triggs_data import DATASETS, DENSITIES, PUBLISHED, TRADEOFFS
from reproduction.data import Source, read_source
from reproduction.discriminants import DiscriminantInputs
from reproduction.trials import generator


def test_the_printed_table_is_whole():
    assert len(PUBLISHED) == len(DATASETS) * len(DENSITIES) * len(TRADEOFFS) == 100
    assert PUBLISHED["australian", "LDA", 1.0] == 0.143
    assert PUBLISHED["vehicle", "Balls1", 1.0] == 0.318
    assert PUBLISHED["vehicle", "Balls2", 0.0] == 0.250
    assert PUBLISHED["heart", "Balls1", 0.5] == 0.165
    assert PUBLISHED["satimage", "QDA", 0.75] == 0.179


@pytest.mark.parametrize("dataset", ["heart", "vehicle"])
def test_a_trial_has_scikit_learns_errors_at_the_generative_end(dataset: str, shared_data):
    found = read_source(Source(dataset, dataset), shared_data)
    codes = np.unique(found.target, return_inverse=True)[1].astype(np.int64)
    X, n_train = found.columns("all"), DATASETS[dataset]
    with threads(1):
        errors, costs = table._trial(X, codes, n_train, 3, 2, 0)
    order = generator(3, 2, 0).permutation(codes.size)
    train, test = order[:n_train], order[n_train:]
    inputs = DiscriminantInputs.of(X[train], codes[train], 4)
    Z, W = inputs(X[train]), inputs(X[test])
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(Z, codes[train])
    assert errors[0, 0] == pytest.approx(1.0 - lda.score(W, codes[test]))
    if dataset == "heart":
        present = lda.predict_proba(W)[:, 1]
        # A missed disease costs 5: it is announced from a probability of 1/6 on.
        decided, truth = present > 1 / 6, codes[test] == 1
        expected = (5.0 * (truth & ~decided) + (~truth & decided)).mean()
        assert costs[0, 0] == pytest.approx(expected)
    # scikit-learn's covariances are divided by n - 1: decisions near the border may differ.
    qda = QuadraticDiscriminantAnalysis().fit(Z, codes[train])
    assert errors[1, 0] == pytest.approx(1.0 - qda.score(W, codes[test]), abs=0.01)
    logistic = LogisticRegression(C=np.inf, tol=1e-6, max_iter=2000).fit(Z, codes[train])
    assert errors[0, -1] == pytest.approx(1.0 - logistic.score(W, codes[test]), abs=0.005)


@pytest.mark.slow
def test_the_table_is_set_beside_print(shared_data):
    with threads(1):
        outcome = table.run(Settings(1, seed=1, data=shared_data))
    assert outcome.columns == table.COLUMNS
    assert len(outcome.records) == 100
    assert {row[:3]: row[3] for row in outcome.records} == PUBLISHED
    ours = np.array([row[4] for row in outcome.records])
    assert ((ours > 0.05) & (ours < 0.5)).all()
    agreeing = sum(
        table.agrees({"published": row[3], "ours": row[4], "standard_error": row[5]})
        for row in outcome.records
    )
    assert outcome.facts["cells_within"] == agreeing
    assert f"{agreeing} of 100" in outcome.findings[0]


def test_what_agreement_means():
    cell = {"published": 0.2, "ours": 0.212, "standard_error": 0.0}
    assert table.agrees(cell)
    assert not table.agrees({**cell, "ours": 0.2121})
    assert table.agrees({**cell, "ours": 0.23, "standard_error": 0.01})
    assert not table.agrees({**cell, "ours": 0.23, "standard_error": 0.009})


# -- the figure ----------------------------------------------------------------------------------


def test_the_second_simulations_law():
    X, codes = figure.draw(1, 200_000, np.random.default_rng(0))
    steps = np.diff(X, axis=1, prepend=0.0)
    assert steps.min() >= 0.0
    assert steps.max() <= 1.0
    assert abs(codes.mean() - 0.5) < 0.005
    for low in (0.0, 0.45, 0.9):
        inside = (X[:, 0] >= low) & (X[:, 0] < low + 0.1)
        expected = 1.0 / (1.0 + np.exp(-2.5 * (low + 0.05 - 0.5)))
        assert abs(codes[inside].mean() - expected) < 0.015


def test_the_first_simulations_classes():
    X, codes = figure.draw(0, 100_000, np.random.default_rng(0))
    for code, sign in ((0, -1.0), (1, 1.0)):
        own = X[codes == code]
        assert_allclose(own.mean(axis=0), [1.25 * sign, 0, 0, 0], atol=0.02)
        assert_allclose(np.cov(own.T), np.eye(4), atol=0.03)


def test_losses_are_scikit_learns(monkeypatch):
    monkeypatch.setattr(figure, "_N_TEST", 3000)
    losses = figure._trial(0, 1, 0)
    rng = generator(0, 1, 0)
    X_test, truth = figure.draw(1, 3000, rng)
    for row, n in zip(losses, figure.SIZES, strict=True):
        X, codes = figure.draw(1, n, rng)
        logistic = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(X, codes)
        assert row[-1] == pytest.approx(log_loss(truth, logistic.predict_proba(X_test)), abs=1e-5)
        # The generative end in closed form: means, and variances shared by the classes.
        m0, m1 = X[codes == 0].mean(axis=0), X[codes == 1].mean(axis=0)
        variance = ((X - np.where(codes[:, None] == 1, m1, m0)) ** 2).mean(axis=0)
        share = codes.mean()
        odds = (
            X_test @ ((m1 - m0) / variance)
            - ((m1**2 - m0**2) / (2 * variance)).sum()
            + np.log(share / (1 - share))
        )
        assert row[0] == pytest.approx(log_loss(truth, 1 / (1 + np.exp(-odds))), abs=1e-9)


def test_medians_and_best_tradeoffs(monkeypatch):
    monkeypatch.setattr(figure, "_N_TEST", 1000)
    monkeypatch.setattr(figure, "SIZES", (50,))
    with threads(1):
        outcome = figure.run(Settings(3))
    assert len(outcome.records) == 2 * len(figure.TRADEOFFS)
    runs = np.array([figure._trial(0, 0, repeat) for repeat in range(3)])
    first = [row for row in outcome.records if row[:2] == (1, 50)]
    assert_allclose([row[3] for row in first], np.median(runs[:, 0], axis=0))
    assert all(row[4] <= row[3] <= row[5] for row in outcome.records)
    assert len(figure.TRADEOFFS) >= 11
    assert not np.array_equal(figure._trial(1, 0, 0), runs[0])
