"""Grids on the same rows share the points that they have in common."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from crossfade import GaussianDiscriminant, compare
from crossfade.densities import filling
from crossfade.tradeoff import out_of_fold, selection
from crossfade.tradeoff.remembered import once, remembered


@pytest.fixture
def searches(monkeypatch):
    """Return what counts the grids that are searched, on all rows and on folds."""
    done, follow, follow_beside = [], selection.follow, out_of_fold.follow_beside

    def counted(objective, points):
        done.append((objective.n_rows, list(points)))
        return follow(objective, points)

    def counted_beside(objectives, points, near):
        done.extend((one.n_rows, list(points)) for one in objectives)
        return follow_beside(objectives, points, near)

    monkeypatch.setattr(selection, "follow", counted)
    monkeypatch.setattr(out_of_fold, "follow_beside", counted_beside)
    return done


def _table():
    X, y = load_iris(return_X_y=True)
    return X[::2, 2:], y[::2]


def test_once_is_once_inside_only_and_by_all_that_the_work_depends_on():
    calls = []

    def work(x):
        return lambda: calls.append(1) or x.sum()

    one, other = np.arange(3.0), np.arange(3.0) + 1.0
    with remembered():
        assert [once(work(x), x, "sum") for x in (one, one.copy(), other)] == [3.0, 3.0, 6.0]
    assert len(calls) == 2
    with remembered():  # what another has found is forgotten
        once(work(one), one, "sum")
    once(work(one), one, "sum")
    assert len(calls) == 4


def _n_searched(searches, n_rows):
    return sum(n == n_rows for n, _ in searches)


def test_covariances_share_what_they_have_in_common_and_are_what_they_are_alone(searches):
    X, y = _table()
    models = [GaussianDiscriminant(), GaussianDiscriminant("full")]
    alone, numbers = [], []
    for model in models:
        searches.clear()
        alone.append(model.fit(X, y).predict_proba(X))
        numbers.append(_n_searched(searches, len(y)))
    searches.clear()
    with remembered():
        together = [model.fit(X, y).predict_proba(X) for model in models]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    # The shared covariance's grid is a part of the other's.
    assert _n_searched(searches, len(y)) == numbers[1] > numbers[0]


def test_other_rows_weights_and_penalties_have_fits_of_their_own():
    X, y = _table()
    weights = np.linspace(1.0, 2.0, len(y))

    def fits():
        first = GaussianDiscriminant().fit(X, y)
        others = [
            GaussianDiscriminant().fit(X + 0.1 * X**2, y),
            GaussianDiscriminant().fit(X, y, sample_weight=weights),
            GaussianDiscriminant(l2=0.3).fit(X, y),
        ]
        return [model.predict_proba(X) for model in (first, *others)]

    alone = fits()
    with remembered():
        together = fits()
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_comparison_fits_what_two_models_share_once_a_split(searches):
    X, y = _table()
    models = {"shared": GaussianDiscriminant(), "full": GaussianDiscriminant("full")}

    def compared(*names):
        searches.clear()
        some = {name: models[name] for name in names}
        found = compare(X, y, models=some, n_splits=2, stop_early=False, evidence=False)
        # Smaller sizes are of the learning curve.
        return {one.name: one.scores for one in found.models}, _n_searched(searches, found.n_train)

    (shared, _), (full, n_full) = compared("shared"), compared("full")
    both, n_both = compared("shared", "full")
    assert n_both == n_full > 0
    for name, alone in (shared | full).items():
        for metric, values in alone.items():
            np.testing.assert_array_equal(values, both[name][metric])


def test_what_fills_missing_numbers_is_found_once_for_all_rows_and_for_each_of_five_folds(
    monkeypatch,
):
    X, _ = load_iris(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    fold, done, inner = np.arange(len(X)) % 5, [], filling._by_em
    monkeypatch.setattr(filling, "_by_em", lambda X, w: done.append(len(X)) or inner(X, w))
    filling._recent.clear()
    found = [
        [filling.class_free_moments(X[fold != number], None)[0] for number in range(-1, 5)]
        for _model in range(2)
    ]
    assert done == [150, 120, 120, 120, 120, 120]
    assert_array_equal(*found)
