"""Rows without a label beside classes that are mixtures."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from crossfade import GaussianDiscriminant
from crossfade.densities import Categorical, MultivariateGaussian, Product
from crossfade.tradeoff import expectation
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.path import minimise
from crossfade.tradeoff.unlabelled import Unlabelled
from tests.classifiers.test_mixtures_with_gaps import humps

TWO = partial(GaussianDiscriminant, "full", components=2, n_init=1, unlabelled="missing")


def few_labels(gaps=0.0, n=120, labelled=60):
    X, y = humps(n)
    if not gaps:
        X = np.where(np.isnan(X), 0.0, X) + np.random.default_rng(2).normal(size=X.shape) * 0.01
    labels = y.astype(object)
    labels[labelled:] = None
    return X, y, labels


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("tradeoff", [1.0, 0.4])
def test_one_component_is_the_plain_density(tradeoff, missing, monkeypatch):
    """The objective of one component is that of one density, whose EM with such rows is another."""
    monkeypatch.setattr(expectation, "_PSEUDO_ROWS", 0.0)
    monkeypatch.setattr(expectation, "_EM_TOL", 1e-13)
    rng = np.random.default_rng(0)
    codes, kind = rng.integers(2, size=(2, 90))
    X = np.column_stack([rng.normal(size=(90, 2)) + codes[:, None], kind]).astype(float)
    if missing:  # of a category: numbers are filled in by either in other ways
        X[rng.random(90) < 0.3, 2] = np.nan
    rows = LabelledRows(
        X[:50], codes[:50], None, 2, missing, unlabelled=OtherRows(X[50:], rng.random(40) + 0.5)
    )
    parts = [(MultivariateGaussian("full"), [0, 1]), (Categorical([2], alpha=1.0), [2])]
    bound = bind(Product(parts), rows)
    others = Unlabelled.of(rows, 0.6, None)
    plain = TradeoffObjective.of(rows, bound, tradeoff, 0.5).with_unlabelled(others)
    mixed = MixtureObjective.of(rows, bound, tradeoff, 0.5, n_components=1, unlabelled=others)
    theta = plain.theta(plain.generative()) + 0.02 * rng.normal(size=plain.n_parameters)
    completed, added = plain.completed(theta)
    value, gradient = mixed.value_and_gradient(theta)
    assert value == pytest.approx(plain.with_unlabelled(None).value(theta) + added, rel=1e-12)
    assert_allclose(gradient, completed.value_and_gradient(theta)[1], atol=1e-9 * len(X))
    found, expected = minimise(mixed), minimise(plain)
    assert_allclose(found.value, expected.value, rtol=1e-9)
    scores = [mixed.passes.scores(one.theta) for one in (found, expected)]
    assert_allclose(*(one - one[:, :1] for one in scores), atol=2e-4)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_at_the_generative_end_it_is_the_likelihood_of_both_kinds_of_rows(gaps):
    X, y, labels = few_labels(gaps)

    def value(model):
        joint = model.joint_log_likelihood(X)
        own = joint[:60][np.arange(60), y[:60]].sum()
        return own + 0.3 * logsumexp(joint[60:], axis=1).sum()

    model = TWO(tradeoff=1, unlabelled_weight=0.3).fit(X, labels)
    assert_allclose(model.class_prior_, np.bincount(y[:60]) / 60)
    best = value(model)
    assert best > value(TWO(tradeoff=1, unlabelled_weight=0).fit(X, labels)) + 0.1
    # What it is at: nothing near it is better, but for the pseudo-rows.
    (own,) = model._fitted.evidence.members
    rng = np.random.default_rng(1)
    at = own.objective.value(own.theta)
    for _ in range(5):
        step = 0.1 * rng.normal(size=own.theta.size)
        assert own.objective.value(own.theta + step) > at


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_weights_are_repetition_and_no_weight_is_no_row(tradeoff):
    X, _, labels = few_labels(0.2)
    times = np.random.default_rng(0).integers(0, 3, size=len(X)) + (np.arange(len(X)) < 60)
    model = TWO(tradeoff=tradeoff, unlabelled_weight=0.5)
    expected = model.fit(np.repeat(X, times, axis=0), np.repeat(labels, times)).predict_proba(X)
    found = model.fit(X, labels, sample_weight=times).predict_proba(X)
    assert_allclose(found, expected, atol=1e-6)
    # Of complete rows, those without weight have no part; cells are filled in by all.
    X, _, labels = few_labels()
    none = TWO(tradeoff=tradeoff, unlabelled_weight=0).fit(X, labels)
    alone = TWO(tradeoff=tradeoff).fit(X[:60], labels[:60])
    assert_allclose(none.predict_proba(X), alone.predict_proba(X), atol=1e-12)


def test_they_count_only_where_held_out_labels_gain():
    X, _, labels = few_labels(n=200, labelled=60)
    misleading = X.copy()
    misleading[60:, 0] += 25.0 * np.sign(np.random.default_rng(0).normal(size=140))
    model = TWO(tradeoff=1).fit(misleading, labels)
    assert model.unlabelled_weight_ == 0.0
    assert "held-out labels are no better predicted" in model.selection_
    alone = TWO(tradeoff=1).fit(misleading[:60], labels[:60])
    assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
