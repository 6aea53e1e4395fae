"""Do the densities fit: transforms against distributions of SciPy, the test by simulation."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm, poisson

from crossfade import DataError, GaussianDiscriminant, NaiveBayes, compare
from crossfade.inference.density_fit import anderson_darling, column_fit, transforms
from crossfade.tradeoff import density_fit


def test_transforms_are_the_distribution_function_of_what_was_drawn():
    rng = np.random.default_rng(0)
    x, drawn = rng.normal(size=50), rng.normal(size=200_000)
    assert_allclose(transforms(x, drawn, rng), norm.cdf(x), rtol=0, atol=0.005)
    counts, drawn = np.arange(6.0), rng.poisson(2.0, 200_000)
    found = np.array([transforms(counts, drawn, rng) for _ in range(400)])
    assert (found >= poisson.cdf(counts - 1, 2.0) - 0.005).all()
    assert (found <= poisson.cdf(counts, 2.0) + 0.005).all()
    middle = (poisson.cdf(counts - 1, 2.0) + poisson.cdf(counts, 2.0)) / 2
    assert_allclose(found.mean(axis=0), middle, rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", ["normal", "poisson"])
def test_of_numbers_from_the_density_they_are_uniform_however_few_are_drawn(kind):
    rng = np.random.default_rng(1)
    draw = partial(rng.normal, 0.0, 1.0) if kind == "normal" else partial(rng.poisson, 0.7)
    u = np.concatenate([transforms(draw(size=20), draw(size=7), rng) for _ in range(2_000)])
    shares = np.histogram(u, 8, (0.0, 1.0))[0] / u.size
    assert_allclose(shares, 1 / 8, rtol=0, atol=0.01)
    assert u.min() > 0.0
    assert u.max() < 1.0


def test_the_statistic_is_anderson_and_darlings_integral():
    u = np.sort(np.random.default_rng(2).uniform(size=12))
    edges = [0.0, *u, 1.0]
    total = 0.0
    for i, (low, high) in enumerate(pairwise(edges)):
        total += quad(lambda t, i=i: (i / 12 - t) ** 2 / (t * (1 - t)), low, high)[0]
    assert anderson_darling(u) == pytest.approx(12 * total, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param(
            lambda rng: -rng.lognormal(0.0, 0.7, 400), "heavy left tail", marks=pytest.mark.slow
        ),
        (lambda rng: rng.lognormal(0.0, 0.7, 400), "heavy right tail"),
        (lambda rng: rng.standard_t(3, 400), "heavy tails"),
        (
            lambda rng: rng.normal(size=400) + 4.0 * rng.choice([-1, 1], 400),
            "light tails, or several groups of values",
        ),
        (lambda rng: np.where(rng.random(400) < 0.3, 0.0, rng.normal(5.0, 1.0, 400)), "% of the"),
    ],
)
def test_how_a_column_is_wrong_is_told_in_the_class_where_it_is(values, complaint, monkeypatch):
    monkeypatch.setattr(density_fit, "_N_TABLES", 39)
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 400)
    X = rng.normal(size=(800, 2)) + y[:, None]
    X[y == 1, 1] = values(rng)
    for model in (NaiveBayes(tradeoff=1), GaussianDiscriminant("full", tradeoff=1)):
        found = {(one.column, one.code): one for one in model.fit(X, y).density_fits()}
        wrong = {pair for pair, one in found.items() if one.p_value <= 0.05}
        assert wrong == {(1, 1)}
        if complaint == "% of the":
            share = round(100 * np.mean(X[y == 1, 1] == 0.0))
            complaint = f"{share} % of the numbers are 0"
        assert found[1, 1].complaint == complaint
        assert found[1, 1].shares.sum() == pytest.approx(1.0)
        assert found[1, 1].n_rows == 400


def test_two_heaps_of_unequal_size_are_no_heavy_tail():
    rng = np.random.default_rng(0)
    x = rng.choice(4, 700, p=[0.13, 0.31, 0.15, 0.41]) + rng.uniform(-0.5, 0.5, 700)
    fit = column_fit(0, 0, ndtr((x - x.mean()) / x.std()))
    assert fit.complaint == "light tails, or several groups of values"


def overdispersed(rng, n):
    return rng.poisson(rng.gamma(1.0, 5.0, n))


def test_counts_that_spread_more_than_poisson_are_seen_and_rounded_numbers_pass():
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=400)
    frame = pd.DataFrame({"true": rng.poisson(6, 400), "wrong": overdispersed(rng, 400)}).assign(
        rounded=(rng.normal(size=400) * 3).round()
    )
    model = NaiveBayes({"true": "poisson", "wrong": "poisson", "rounded": "gaussian"}, tradeoff=1)
    wrong = {one.column for one in model.fit(frame, y).density_fits() if one.p_value <= 0.05}
    assert wrong == {1}
    frame["wrong"] = overdispersed(rng, 400) // 10  # mostly 0, as a Poisson column would be
    fits = [one for one in model.fit(frame, y).density_fits() if one.column == 1]
    assert (frame["wrong"] == 0).mean() > 0.6
    assert all("of the numbers" not in one.complaint for one in fits)


def true_table(rng, kind):
    """Return a table of which the model is true, and the model."""
    n = 80
    y = rng.integers(2, size=n)
    if kind == "mixed":
        frame = pd.DataFrame({"x": rng.normal(y, 1.0 + y), "n": rng.poisson(2 + 3 * y)})
        frame["c"] = rng.choice(list("abc"), n)
        frame.loc[rng.random(n) < 0.2, "x"] = None
        return NaiveBayes({"n": "poisson"}, tradeoff=1).fit(frame, y)
    mixing = rng.normal(size=(3, 3))
    return GaussianDiscriminant("full", tradeoff=1).fit(rng.normal(size=(n, 3)) @ mixing, y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixed", "joint"])
def test_of_true_densities_five_tables_in_a_hundred_are_said_to_be_wrong(kind, monkeypatch):
    monkeypatch.setattr(density_fit, "_N_TABLES", 19)
    monkeypatch.setattr(density_fit, "_N_DRAWS", 100)
    rng = np.random.default_rng(5)
    n_tables = 24
    said = [
        min(one.p_value for one in true_table(rng, kind).density_fits()) <= 0.05
        for _ in range(n_tables)
    ]
    # 1.2 are expected; 5 or more of 24 would be seen once in 160 times.
    assert sum(said) < 5


def test_units_do_not_matter():
    rng = np.random.default_rng(6)
    X, y = rng.gamma(2.0, size=(120, 2)), rng.integers(2, size=120)
    scale = np.array([1e-3, 400.0])
    plain, scaled = (
        GaussianDiscriminant("full", tradeoff=1).fit(Z, y).density_fits() for Z in (X, X * scale)
    )
    for one, other in zip(plain, scaled, strict=True):
        assert_allclose(one.shares, other.shares)
        assert one.statistic == pytest.approx(other.statistic, rel=1e-6)
        assert one.p_value == other.p_value


def test_what_has_no_rows_or_no_columns_of_numbers():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    model = NaiveBayes(tradeoff=1).fit(X, y)
    assert len(model.density_fits()) == 4
    with pytest.raises(DataError, match=r"density_fits: expected a model that was fitted .* again"):
        pickle.loads(pickle.dumps(model)).density_fits()
    assert NaiveBayes(tradeoff=1).fit((X > 0) * 1, y).density_fits() == []
    mixture = GaussianDiscriminant(components=2, tradeoff=1, n_init=1).fit(X, y)
    assert mixture.density_fits() == []
    few = column_fit(0, 0, np.array([0.5]))
    assert few.complaint


def test_the_page_names_the_columns_and_shows_where_their_numbers_lie():
    rng = np.random.default_rng(8)
    y = np.repeat(["no", "yes"], 100)
    frame = pd.DataFrame({"fine": rng.normal(size=200), "income": rng.normal(size=200)})
    frame.loc[y == "yes", "income"] = rng.lognormal(0, 1, 100)
    models = {"generative": NaiveBayes(tradeoff=1), "discriminative": NaiveBayes(tradeoff=0)}
    result = compare(frame, y, models=models, n_splits=2)
    wrong = [one for one in result.details.densities if one.is_wrong]
    assert [(one.column, one.label, one.density) for one in wrong] == [
        ("income", "yes", "gaussian")
    ]
    page = result.to_html()
    assert "The Gaussian of <b>income</b> is wrong in class <b>yes</b>: heavy right tail" in page
    assert ">and " not in page.partition('id="densities"')[2].partition("</ul>")[0]
    many = replace(result, details=replace(result.details, densities=tuple(wrong * 13)))
    listed = many.to_html().partition('id="densities"')[2].partition("</ul>")[0]
    assert listed.count("<li>The Gaussian of") == 10
    assert "<li>and 3 more.</li>" in listed
    chart = result.plot("densities").to_dict()
    (drawn,) = chart["datasets"].values()
    shares = [row["share"] for row in json.loads(drawn)]
    assert len(shares) == 40
    assert sum(shares) == pytest.approx(4.0)
    assert result.to_dict()["details"]["densities"][0]["column"] == "fine"
