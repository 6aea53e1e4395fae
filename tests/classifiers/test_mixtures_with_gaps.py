"""Mixtures of rows with missing cells: at tradeoff 1 these have no part, by several oracles."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal

from crossfade import GaussianDiscriminant, explain
from crossfade.densities import filling
from crossfade.io import load_model, save_model
from crossfade.tradeoff import expectation, path

COVARIANCES = ["full", "shared", "diagonal", "shared_diagonal", "spherical", "shared_spherical"]


def humps(n=160, share=0.25, seed=0):
    """Return two classes of two humps over three columns, cells missing at random."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(2, size=(2, n))
    centres = np.array([[[-2.0, 0.0], [2.0, 0.0]], [[0.0, -1.0], [0.0, 2.0]]])
    X = centres[y, z] + 0.8 * rng.normal(size=(n, 2))
    X = np.column_stack([X, 0.5 * X[:, 0] + rng.normal(size=n)]) * [1.0, 30.0, 0.1]
    gone = rng.random(X.shape) < share
    gone[np.arange(8), np.arange(8) % 3] = True
    gone[gone.all(axis=1), 0] = False
    X[gone] = np.nan
    return X, y


def mixed(n=200, seed=1):
    """Return numbers and a category that hangs together with the hump, both with gaps."""
    X, y = humps(n, 0.15, seed)
    rng = np.random.default_rng(seed)
    kind = np.where(np.nan_to_num(X[:, 0]) + rng.normal(size=n) > 0, "a", "b")
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(kind=kind)
    table.loc[rng.random(n) < 0.2, "kind"] = None
    return table, y


@pytest.fixture
def exactly(monkeypatch):
    """Make EM stop late, and without pseudo-rows."""
    monkeypatch.setattr(expectation, "_EM_TOL", 1e-12)
    monkeypatch.setattr(expectation, "_PSEUDO_ROWS", 0.0)


def states(model):
    """Return the components' log-shares, means and covariances."""
    shares = [np.log(d.shares) + np.log(p) for d, p in zip(
        model.class_densities_.values(), model.class_prior_, strict=True
    )]  # fmt: skip
    return np.concatenate(shares), model.means_, model.covariances_


def by_cells(X, log_shares, means, covariances):
    """Return log p_r f_r of the cells that are there, each row by its own sub-vector's Gaussian."""
    found = np.tile(log_shares, (len(X), 1))
    for i, x in enumerate(X):
        here = np.flatnonzero(~np.isnan(x))
        for r, (m, C) in enumerate(zip(means, covariances, strict=True)):
            if here.size:
                found[i, r] += multivariate_normal(m[here], C[np.ix_(here, here)]).logpdf(x[here])
    return found


def one_step(X, y, log_shares, means, covariances):
    """Return log-likelihood and parameters after one step of textbook EM, row by row."""
    log_joint = by_cells(X, log_shares, means, covariances)
    log_joint[np.repeat(np.eye(2), 2, axis=1)[y] == 0] = -np.inf
    q = softmax(log_joint, axis=1)
    new_means, new_covariances = np.empty_like(means), np.empty_like(covariances)
    for r, (m, C) in enumerate(zip(means, covariances, strict=True)):
        filled, left = X.copy(), np.zeros((len(X), 3, 3))
        for i, x in enumerate(X):
            gone, here = np.flatnonzero(np.isnan(x)), np.flatnonzero(~np.isnan(x))
            slopes = C[np.ix_(gone, here)] @ np.linalg.inv(C[np.ix_(here, here)])
            filled[i, gone] = m[gone] + slopes @ (x[here] - m[here])
            left[i][np.ix_(gone, gone)] = C[np.ix_(gone, gone)] - slopes @ C[np.ix_(here, gone)]
        new_means[r] = q[:, r] @ filled / q[:, r].sum()
        away = filled - new_means[r]
        each = away[:, :, None] * away[:, None] + left
        new_covariances[r] = np.tensordot(q[:, r], each, axes=1) / q[:, r].sum()
    value = logsumexp(log_joint, axis=1).sum()
    return value, np.log(q.mean(axis=0)), new_means, new_covariances


def test_em_is_at_rest_where_textbook_em_is(exactly):
    X, y = humps(80)
    model = GaussianDiscriminant("full", components=2, tradeoff=1, n_init=1).fit(X, y)
    found = states(model)
    _, log_shares, means, covariances = one_step(X, y, *found)
    assert_allclose(np.exp(log_shares), np.exp(found[0]), atol=1e-6)
    scale = np.nanstd(X, axis=0)
    assert_allclose(means / scale, found[1] / scale, atol=1e-6)
    assert_allclose(
        covariances / np.outer(scale, scale), found[2] / np.outer(scale, scale), atol=2e-6
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_densities_are_those_of_the_cells_that_are_there(covariance):
    X, y = humps()
    model = GaussianDiscriminant(covariance, components=2, tradeoff=1, n_init=1).fit(X, y)
    each = by_cells(X, *states(model))
    joint = np.stack([logsumexp(each[:, :2], axis=1), logsumexp(each[:, 2:], axis=1)], axis=1)
    assert_allclose(model.joint_log_likelihood(X), joint, rtol=1e-9)
    # The fit is at a maximum of that likelihood, but for the pseudo-rows.
    (own,) = model._fitted.evidence.members
    value, gradient = own.objective.value_and_gradient(own.theta)
    assert np.abs(gradient).max() < 1e-5 * len(X)
    rng = np.random.default_rng(0)
    for _ in range(5):
        moved = own.theta + 0.05 * rng.normal(size=own.theta.size)
        assert own.objective.value(moved) > value


@pytest.mark.parametrize("covariance", ["full", "shared"])
def test_a_column_without_cells_is_a_column_left_out(covariance, exactly):
    X, y = humps()
    empty = np.insert(X, 1, np.nan, axis=1)
    model = GaussianDiscriminant(covariance, components=2, tradeoff=1, n_init=1)
    expected = model.fit(X, y).predict_proba(X)
    assert_allclose(model.fit(empty, y).predict_proba(empty), expected, atol=1e-6)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0])
def test_weights_are_repeated_rows(tradeoff):
    table, y = mixed()
    times = np.random.default_rng(0).integers(1, 4, size=len(y))
    model = GaussianDiscriminant(components=2, tradeoff=tradeoff, n_init=2)
    expected = model.fit(table.loc[np.repeat(table.index, times)], np.repeat(y, times))
    expected = expected.predict_proba(table)
    found = model.fit(table, y, sample_weight=times).predict_proba(table)
    assert_allclose(found, expected, atol=1e-6 if tradeoff else 1e-5)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "best"])
def test_what_holds_for_complete_rows_holds_for_these(tradeoff, tmp_path):
    table, y = mixed()
    model = GaussianDiscriminant("full", components=2, tradeoff=tradeoff, n_init=1).fit(table, y)
    posterior, low, high = model.predict_proba(table, interval=0.9)
    assert ((low <= posterior) & (posterior <= high)).all()
    said = explain(model, table)
    assert_allclose(softmax(said.baseline + said.contributions.sum(axis=1), axis=1), posterior)
    assert np.isfinite(model.outlier_score(table)).all()
    assert model.predict_set(table, coverage=0.9)[np.arange(len(y)), y].mean() > 0.85
    shares = model.adapt(table[y == 1]).class_shares_
    assert shares.shares[1] > 0.8
    save_model(model, tmp_path / "model.crossfade")
    again = load_model(tmp_path / "model.crossfade").estimator
    frame = pl.from_pandas(table)
    assert_allclose(again.predict_proba(frame, interval=0.9), (posterior, low, high), rtol=1e-9)


@pytest.mark.parametrize("gaps", [False, True])
def test_with_more_parameters_than_a_hessian_takes_fits_reach_an_optimum(gaps, monkeypatch):
    rng = np.random.default_rng(3)
    y, z = rng.integers(2, size=(2, 600))
    mixing, centres = rng.normal(size=(6, 6)), rng.normal(size=(2, 2, 6))
    X = rng.normal(size=(600, 6)) @ mixing + centres[y, z]
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    model = GaussianDiscriminant("full", components=2, tradeoff=0.5)
    by_hessian = model.fit(X, y).solution_
    monkeypatch.setattr(path, "is_dense", lambda objective: False)
    found = model.fit(X, y).solution_
    assert found.converged
    assert found.gradient_norm < 1e-8
    assert found.n_iter < 200
    # Of several optima they may find another, in which components fit the rows all the same.
    assert found.value < by_hessian.value + 0.05 * len(X)


def test_missing_patterns_are_grouped_once_and_rows_asked_of_their_own_class_alone(monkeypatch):
    X, y = humps(300)
    asked, grouped = [], []
    conditional, patterns = filling.Conditional.of.__func__, filling._patterns
    monkeypatch.setattr(
        filling.Conditional,
        "of",
        classmethod(lambda cls, *given: (asked.append(len(given[0])), conditional(cls, *given))[1]),
    )
    monkeypatch.setattr(
        filling, "_patterns", lambda *given: (grouped.append(1), patterns(*given))[1]
    )
    filling._grouped.cache_clear()
    GaussianDiscriminant("full", components=2, tradeoff=1.0).fit(X, y)
    counts = np.bincount(y)
    within = [size for size in asked if size in counts]
    # All that is not EM's own is asked once: the value and gradient at its end.
    assert len(within) > 40
    assert len(asked) - len(within) <= 8
    assert len(grouped) <= 6
