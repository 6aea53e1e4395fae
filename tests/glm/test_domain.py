"""Links without rates below some predictor: counts far from the model, and optima at the edge."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest

from crossfade import DataError, PoissonRegression
from crossfade.glm.families import BinomialFamily, PoissonFamily
from crossfade.glm.links import Cloglog, Identity, Log, Logit, Probit, Sqrt
from crossfade.table.source import MemorySource

sm = pytest.importorskip("statsmodels.api")
LINKS = {"identity": sm.families.links.Identity, "sqrt": sm.families.links.Sqrt}


def exponential(normal, seed=0, n=5000):
    """Counts whose mean is an exponential, not what either link says."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) if normal else rng.uniform(size=(n, 4))
    return X, rng.poisson(np.exp(0.5 + X @ [1.0, 0.5, -1.0, 0.3]))


def fits(link, X, y, **options):
    """Return the fits to a table and to rows in parts."""
    table = pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])
    source = MemorySource(table.with_columns(y=pl.Series(y)), size=len(y) // 3)
    whole = PoissonRegression(link, **options).fit(table, y)
    return whole, PoissonRegression(link, **options).fit(source, "y")


@pytest.mark.parametrize(
    ("link", "normal", "seed"),
    [("sqrt", False, 0), ("sqrt", True, 0), ("sqrt", True, 1), ("identity", False, 0)],
)
def test_counts_far_from_the_model_are_fitted_in_few_steps(link, normal, seed):
    X, y = exponential(normal, seed)
    exog = np.column_stack([np.ones(len(X)), X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.DomainWarning)
        theirs = sm.GLM(y, exog, family=sm.families.Poisson(LINKS[link]()))
    for ours in fits(link, X, y):
        beta = np.append(ours.intercept_, ours.coef_)
        assert ours.converged_
        assert ours.n_iter_ <= 20
        errors = np.sqrt(np.diag(np.linalg.inv(-theirs.hessian(beta, observed=False))))
        # By hand: their score takes |η| for η, which rows without counts may have below 0.
        eta = exog @ beta
        slopes = y / eta - 1.0 if link == "identity" else 2.0 * (y / eta - eta)
        np.testing.assert_allclose((exog.T @ slopes) * errors, 0.0, atol=1e-6)
        np.testing.assert_allclose(ours.standard_errors_, errors, rtol=1e-8)
        assert ours.log_likelihood_ == pytest.approx(theirs.loglike(beta), rel=1e-10)
    assert ours.n_passes_ <= 8


@pytest.mark.parametrize(
    "family",
    [PoissonFamily(link()) for link in (Log, Sqrt, Identity)]
    + [BinomialFamily(link()) for link in (Logit, Probit, Cloglog)],
)
def test_own_curvature_is_the_slope_of_the_slope(family):
    eta, y, size = np.linspace(0.3, 4.0, 9), np.arange(9.0), np.linspace(0.5, 2.0, 9)
    if family.size_is_trials:
        eta, size = eta - 2.0, 8.0 * np.ones(9)
    up, down = (family.loss(eta + h, y, size)[1] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(family.curvature(eta, y, size), (up - down) / 2e-6, rtol=1e-7)


def test_a_group_without_counts_has_a_root_of_zero():
    kind = np.arange(60) // 20
    y = np.where(kind == 0, 0, np.arange(60) % 4)
    ours = PoissonRegression("sqrt").fit(np.column_stack([kind == 1, kind == 2]), y)
    # Var √n ≈ 1/4 of each row.
    np.testing.assert_allclose(ours.intercept_, 0.0, atol=1e-12)
    np.testing.assert_allclose(ours.standard_errors_[0], 0.5 / np.sqrt(20), rtol=1e-12)
    np.testing.assert_allclose(ours.coef_, np.sqrt(1.5), rtol=1e-12)
    for kind in ("pearson", "working", "deviance"):
        np.testing.assert_allclose(ours.residuals(kind)[:20], 0.0, atol=1e-7)
    assert np.isfinite(ours.pearson_dispersion_)
    assert np.isfinite(ours.dispersion_test().p_value)


def test_intervals_of_a_square_hold_its_mean_on_either_side():
    X, y = exponential(True)
    found = PoissonRegression("sqrt").fit(X, y).predict_interval(4.0 * X)
    assert (found.linear_predictor < 0.0).any()
    assert (found.lower <= found.mean).all()
    assert (found.mean <= found.upper).all()


def test_an_optimum_at_the_edge_is_refused_in_few_passes(monkeypatch):
    X, y = exponential(True)
    taken = []
    total = MemorySource.reduce_parts
    monkeypatch.setattr(
        MemorySource, "reduce_parts", lambda *given: taken.append(0) or total(*given)
    )
    table = pl.DataFrame(X, schema=list("abcd"))
    for data, target in (
        (table, y),
        (MemorySource(table.with_columns(y=pl.Series(y)), size=1_500), "y"),
    ):
        with pytest.raises(DataError, match="rows without counts whose best rate is below 0"):
            PoissonRegression("identity").fit(data, target)
    assert len(taken) < 60


@pytest.mark.parametrize("n", [200, 100_000])
def test_a_rate_near_the_edge_is_found(n):
    """One count in many rows: steps from the mean of all go far outside before they fit."""
    rare = np.arange(n + 50) >= 50
    y = np.where(rare, 0, np.arange(n + 50) % 4)
    y[60] = 1
    ours = PoissonRegression("identity").fit(~rare[:, None], y)
    np.testing.assert_allclose(n * ours.intercept_, 1.0, rtol=1e-7)
    np.testing.assert_allclose(ours.intercept_ + ours.coef_, y[:50].mean(), rtol=1e-8)
    np.testing.assert_allclose(n * ours.standard_errors_[0], 1.0, rtol=1e-7)
