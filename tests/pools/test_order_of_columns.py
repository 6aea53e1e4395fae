"""Where columns lie changes nothing: of derived columns, of pools, of forests' own draws."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

from crossfade import NaiveBayes, PooledClassifier
from crossfade.pools.members import MEMBERS


@cache
def table(n=300, seed=0):
    """Return columns of every kind, of which some interact and some have thresholds."""
    rng = np.random.default_rng(seed)
    city, shop = rng.choice(list("abcde"), n), rng.choice(list("pqr"), n)
    flag = rng.choice(["y", "n"], n, p=[0.3, 0.7])
    a, b = rng.normal(size=(2, n))
    count, member = rng.poisson(2, n), rng.random(n) < 0.4
    odd = np.isin(city, ["a", "c"]) ^ (flag == "y")
    score = 2 * odd + a * b + (a > 0.7) + (count > 3) + (shop == "p") * (city == "b") - 2
    y = np.where(score + 0.5 * rng.logistic(size=n) > 0, "good", "bad")
    columns = {"city": city, "flag": flag, "shop": shop, "a": a, "b": b}
    return pl.DataFrame(columns | {"count": count, "member": member}), y


AUTO = {"interactions": "auto", "thresholds": "auto"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: NaiveBayes(**AUTO),
        lambda: NaiveBayes(interactions=4, thresholds=3),
        lambda: NaiveBayes(interactions=3, tradeoff=0.5),
        lambda: PooledClassifier(cv=3),
        lambda: PooledClassifier([("nb", NaiveBayes(**AUTO)), "shared"], cv=3),
        MEMBERS["forest"],
        MEMBERS["boosting"],
    ],
)
def test_predictions_are_the_same_wherever_columns_lie(make):
    X, y = table()
    made = make(0) if make in MEMBERS.values() else make()
    expected = made.fit(X, y).predict_proba(X)
    turned = X.columns[::-1]
    mixed = [str(name) for name in np.random.default_rng(2).permutation(X.columns)]
    for order in (turned, mixed):
        found = made.fit(X[order], y).predict_proba(X[order])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tradeoff", [1.0, 0.3, "auto", "best"])
@pytest.mark.parametrize("pair", [("city", "flag"), ("city", "shop"), ("a", "member")])
def test_which_column_of_a_pair_is_named_first_does_not_matter(pair, tradeoff):
    X, y = table()
    found = [
        NaiveBayes(interactions=[one], tradeoff=tradeoff).fit(X, y).predict_proba(X)
        for one in (pair, pair[::-1])
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)


def test_hinges_of_a_few_whole_numbers_stay_numbers():
    # As categories they would need codes, which only columns of the table have.
    X, y = table()
    model = NaiveBayes(thresholds=3).fit(X[["count"]], y)
    assert any("max(" in name for name in model.thresholds_)
    assert np.isfinite(model.predict_log_proba(pl.DataFrame({"count": [0, 3, 40]}))).all()
