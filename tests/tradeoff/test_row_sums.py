"""Sums over rows serve every density that differs in its prior alone, and no other."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from crossfade.densities import Categorical, Gaussian, MultivariateGaussian, Product
from crossfade.tradeoff.binding import RowSums, bind
from crossfade.tradeoff.labelled_rows import LabelledRows

PRIORS = (
    {"shrinkage_rows": 2.0},
    {"shrinkage": 0.3},
    {"shrinkage": 0.1, "shrinkage_rows": 1.0, "pooling": 0.5},
)
OTHERS = (
    {"covariance": "diagonal"},
    {"covariance": "shared_full"},
    {"missing": "marginal"},
    {"standardise": False},
)


def gaussian(**given):
    return MultivariateGaussian(**{"covariance": "full", "missing": "mean"} | given)


def mixed(**given):
    return Product([(gaussian(**given), [0, 1, 2]), (Categorical([3, 2]), [3, 4])])


def made(missing):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(60, 3)), rng.integers(0, 3, 60), rng.integers(0, 2, 60)]
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return LabelledRows(X, rng.integers(0, 2, 60), None, 2, has_missing=missing)


def same(one, other):
    for field in fields(one):
        if field.name != "density":
            assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    eta = other.density.estimate(one.counts + one.prior_counts, one.sums + one.prior_sums)
    assert_array_equal(one.density.log_partition(eta), other.density.log_partition(eta))


@pytest.fixture
def counted(monkeypatch):
    """Count passes over rows."""
    from crossfade.tradeoff import binding

    taken, sums = [], binding._sums
    monkeypatch.setattr(binding, "_sums", lambda *given: taken.append(given) or sums(*given))
    return taken


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("density", [gaussian, mixed])
def test_densities_that_differ_in_their_prior_share_one_pass(density, missing, counted):
    rows, sums = made(missing), RowSums()
    if density is gaussian:
        rows = LabelledRows(rows.X[:, :3].copy(), rows.codes, None, 2, has_missing=missing)
    found = [bind(density(**given), rows, sums) for given in PRIORS]
    assert len(counted) == 1
    for bound, given in zip(found, PRIORS, strict=True):
        same(bound, bind(density(**given), rows))
    assert_array_equal(found[0].counts, found[2].counts)
    assert not np.array_equal(found[0].prior_sums, found[2].prior_sums)


@pytest.mark.parametrize("missing", [False, True])
def test_other_densities_and_other_rows_have_sums_of_their_own(missing, counted):
    rows, sums = made(missing), RowSums()
    variants = [mixed(), *(mixed(**given) for given in OTHERS)]
    variants.append(Product([(Gaussian(), [0, 1, 2]), (Categorical([3, 2]), [3, 4])]))
    variants.append(Product([(gaussian(), [0, 2, 1]), (Categorical([3, 2]), [3, 4])]))
    variants.append(Product([(gaussian(), [0, 1, 2]), (Categorical([3, 3]), [3, 4])]))
    found = [bind(one, rows, sums) for one in variants]
    assert len(counted) == len(variants)
    for bound, one in zip(found, variants, strict=True):
        same(bound, bind(one, rows))
    half = rows.take(np.arange(30))
    same(bind(mixed(), half, sums), bind(mixed(), half))
    same(bind(mixed(), rows, sums), bind(mixed(), rows))
