"""Plain numbers that predict as the model does, with nothing but arithmetic."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes
from crossfade.densities import Multinomial
from crossfade.errors import DataError
from crossfade.io import coefficients
from crossfade.table.preparation import Preparation
from tests.classifiers.test_text import reviews
from tests.classifiers.test_words import counts
from tests.io.tables import mixed_table, numbers
from tests.io.test_onnx import Logarithmic, new_rows


def of_words(column, cell) -> list[float]:
    """Return what a cell of text, or a row of a sparse table, adds."""
    known = {one["word"]: one for one in column["words"]}
    if "cut" in column:
        cut = CountVectorizer(**column["cut"] | {"min_df": 1, "max_features": None})
        found = Counter(cut.build_analyzer()(cell or ""))
    else:
        found = Counter(dict(zip(known, cell, strict=True)))
    found = {word: times for word, times in found.items() if word in known and times}
    if column["count"] == "occurs":
        found = dict.fromkeys(found, 1.0)
    if column["length"] is not None:
        size = math.sqrt(sum(known[word]["idf"] ** 2 for word in found)) or 1.0
        found = {word: known[word]["idf"] * column["length"] / size for word in found}
    adds = np.zeros(len(column["words"][0]["adds"]))
    return adds + sum(times * np.array(known[word]["adds"]) for word, times in found.items())


def predicted(numbers, row) -> list[float]:
    """Return the posterior of one row, as the file's own words say it."""
    scores = list(numbers["intercept"])
    for column, cell in zip(numbers["columns"], row, strict=True):
        if "words" in column:
            adds = of_words(column, cell)
        elif "categories" in column:
            known = {one["category"]: one["adds"] for one in column["categories"]}
            adds = known.get(cell, column["other"])
        elif cell is None or math.isnan(cell):
            adds = column["missing"]
        else:
            z = (cell - column["centre"]) * column["factor"]
            z = math.asinh(z) if column["asinh"] else z
            parts = zip(column["constant"], column["linear"], column["square"], strict=True)
            adds = [c + a * z + b * z * z for c, a, b in parts]
        scores = [s + a for s, a in zip(scores, adds, strict=True)]
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    return [w / sum(weights) for w in weights]


def check(model, rows, atol=1e-9):
    content = json.loads(json.dumps(coefficients(model), allow_nan=False))
    assert content["classes"] == model.classes_.tolist()
    cells = rows.rows() if isinstance(rows, pl.DataFrame) else rows.tolist()
    found = [predicted(content, row) for row in cells]
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=atol)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_words(tradeoff):
    X, y = reviews()
    X.loc[::9, "review"] = None
    model = NaiveBayes(tradeoff=tradeoff, shared_variance=True).fit(X, y)
    check(model, pl.from_pandas(X))
    (review,) = [one for one in coefficients(model)["columns"] if one["kind"] == "text"]
    assert [one["word"] for one in review["words"]] == list(model.schema_.categories[0])


@pytest.mark.parametrize(
    ("tradeoff", "density"),
    [(1, Multinomial(complement=True)), (0, Multinomial(binarise=True))]
    + [(each, name) for each in (1, 0.5, 0, "auto") for name in ("multinomial", "bernoulli")],
)
def test_words_of_sparse_tables(tradeoff, density):
    X, y = counts()
    model = NaiveBayes(density, tradeoff=tradeoff).fit(scipy.sparse.csr_array(X), y)
    content = json.loads(json.dumps(coefficients(model), allow_nan=False))
    found = [predicted(content, [row]) for row in X.tolist()]
    expected = model.predict_proba(scipy.sparse.csr_array(X))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize("shared", [False, True])
def test_naive_bayes(tradeoff, shared):
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=tradeoff, shared_variance=shared).fit(table, y)
    for rows in (table, new_rows(100)):
        check(model, rows)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_counts_of_any_size(tradeoff):
    rng, y = np.random.default_rng(0), np.repeat([0, 1], 100)
    means = np.array([0.1, 300.0, 1e6])
    X = rng.poisson(means + np.outer(y, np.sqrt(means)))
    check(NaiveBayes("poisson", tradeoff=tradeoff).fit(X, y), X, atol=1e-8)


@pytest.mark.parametrize("covariance", ["shared", "diagonal", "shared_diagonal", "spherical"])
@pytest.mark.parametrize("tradeoff", [1, 0])
def test_gaussians_without_products(covariance, tradeoff):
    X, y = numbers(n_classes=3)
    X = np.column_stack([X, np.full(len(X), 3.0)])
    check(GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(X, y), X)


def test_pipelines_with_text_and_missing_cells():
    table, y = mixed_table()
    model = make_pipeline(Preparation(drop_first=True), GaussianDiscriminant(tradeoff=0.5))
    model.fit(table, y)
    for rows in (table, new_rows(100)):
        check(model, rows)


def test_a_linear_model_has_its_coefficients():
    X, y = numbers()
    model = GaussianDiscriminant("shared", tradeoff=0.5).fit(X, y)
    columns = coefficients(model)["columns"]
    slopes = [(one["linear"][1] - one["linear"][0]) * one["factor"] for one in columns]
    np.testing.assert_allclose(slopes, model.coef_[0], rtol=1e-9)
    assert all(np.ptp(one["square"]) < 1e-12 for one in columns)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            GaussianDiscriminant("full", tradeoff=1),
            "got GaussianDiscriminant with covariance 'full'",
        ),
        (GaussianDiscriminant(tradeoff=1, components=2), "covariance 'shared', 2 components"),
        (EntropicNaiveBayes(NaiveBayes(tradeoff=1)), "got EntropicNaiveBayes; write ONNX instead"),
        (NaiveBayes(Logarithmic(), tradeoff=1), "what column 'x0' adds to be linear or quadratic"),
    ],
)
def test_what_is_no_sum_of_columns_is_refused(model, message):
    X, y = numbers()
    with pytest.raises(DataError, match=message):
        coefficients(model.fit(np.abs(X) + 0.1, y))
