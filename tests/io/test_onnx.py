"""The same posterior in onnxruntime as in Crossfade, on rows that fit never saw."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.tree import DecisionTreeClassifier

from crossfade import (
    EntropicNaiveBayes,
    GaussianDiscriminant,
    NaiveBayes,
    PooledClassifier,
    Text,
    explain,
)
from crossfade.comparison.models import choose_model
from crossfade.densities import Multinomial
from crossfade.errors import DataError
from crossfade.io import onnx_text, register_converters, to_onnx
from crossfade.io.reading import read_table
from crossfade.table.preparation import Preparation
from tests.choice.test_evidence import with_columns_of_one_value
from tests.classifiers.test_text import reviews
from tests.classifiers.test_words import counts
from tests.densities.cases import Exponential
from tests.io.tables import mixed_table, numbers

COVARIANCES = ["shared", "full", "diagonal", "shared_diagonal", "spherical", "shared_spherical"]


def session(model) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(to_onnx(model).SerializeToString())


def fed(inputs, table: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return a table as the graph takes it: a column an input, in the order of the table."""
    values = {}
    for one, series in zip(inputs, table.iter_columns(), strict=True):
        if one.type == "tensor(string)":
            values[one.name] = np.array([cell or "" for cell in series], dtype=object)[:, None]
        else:
            values[one.name] = series.cast(pl.Float64).to_numpy()[:, None]
    return values


def check(model, *tables, atol=1e-6):
    """Check the graph's posterior and labels against the model's; return what ran it."""
    run = session(model)
    inputs = run.get_inputs()
    for table in tables:
        feed = fed(inputs, table) if isinstance(table, pl.DataFrame) else {"X": table}
        label, posterior = run.run(None, feed)
        expected = model.predict_proba(table)
        assert posterior.dtype == np.float64
        np.testing.assert_allclose(posterior, expected, rtol=0, atol=atol)
        top = np.sort(expected, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-9
        assert (label == model.predict(table))[clear].all()
    return run


@pytest.mark.parametrize(
    ("as_frame", "tradeoff", "density"),
    [
        *product([False], [1, 0.5, 0], ["multinomial", "bernoulli", Multinomial(binarise=True)]),
        *product([True], [1], ["multinomial", "bernoulli", Multinomial(binarise=True)]),
        (True, "auto", "multinomial"),
    ],
)
def test_models_of_sparse_tables_take_dense_counts(as_frame, tradeoff, density):
    X, y = counts()
    table = scipy.sparse.csr_array(X)
    if as_frame:
        table = pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(X)).add_prefix("w")
    model = NaiveBayes(density, tradeoff=tradeoff).fit(table, y)
    label, posterior = session(model).run(None, {"X": X.astype(float)})
    np.testing.assert_allclose(posterior, model.predict_proba(table), rtol=0, atol=1e-9)
    assert (label == model.predict(table)).all()


#: No word, unknown words, emoji, right-to-left text, odd spaces, accents apart, a missing cell.
ODD = ["", "never seen", "😀 😀😀", "سعيد جدا", "ÉCOLE great", "a\u00a0joy", "# \0 great FUN"]
ODD += ["\u200b\n\t", "e\u0301 x² ½, great great", None]
ODD += ["这部电影great, 很好", "हिन्दी अच्छी है।", "สวัสดี ٣"]


def test_columns_of_one_value_say_nothing():
    _, same, other, y = with_columns_of_one_value(missing=True)
    check(NaiveBayes().fit(same, y), same, other)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize("columns", [["review"], ["review", "stars", "town", "id"]])
def test_free_text_is_cut_into_the_same_words(columns, tradeoff):
    X, y = reviews()
    table = pl.from_pandas(X[columns])
    model = NaiveBayes({"review": Text(max_features=50)}, tradeoff=tradeoff).fit(table, y)
    odd = table.head(len(ODD)).with_columns(review=pl.Series(ODD))
    check(model, table, odd, odd.filter(pl.col("review") == ""), atol=1e-12)


@pytest.mark.parametrize("pattern", onnx_text._PATTERNS)
def test_all_characters_are_told_apart_as_python_does(pattern):
    known = [chr(c) for c in range(1, 0x20000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    cells = [" ".join(f"a{c}b" for c in known[start::600]) for start in range(60)]
    words = Text(ngram_range=(1, 1), token_pattern=pattern, lowercase=False)
    y = np.arange(60) % 2
    model = NaiveBayes({"said": words}, tradeoff=1).fit(pl.DataFrame({"said": cells}), y)
    parts = cells, [cell[300:330] for cell in cells]
    check(model, *(pl.DataFrame({"said": part}) for part in parts), atol=1e-12)


@pytest.mark.parametrize("text", [Text(analyzer="char"), Text(token_pattern=r"[a-z]+")])
def test_free_text_that_onnx_would_cut_into_other_words_is_refused(text):
    X, y = reviews()
    model = NaiveBayes({"review": text}, tradeoff=1).fit(X, y)
    with pytest.raises(DataError, match="for 'review', which ONNX would cut into other words"):
        to_onnx(model)


def new_rows(n_rows: int = 500) -> pl.DataFrame:
    """Return rows from elsewhere: other numbers, many missing cells, new categories."""
    rng = np.random.default_rng(5)
    gone = rng.random((n_rows, 4)) < 0.3
    towns = np.array(["Oslo", "Bern", "Rome", "Paris", "oslo", " Oslo"])
    cells = {
        "age": rng.normal(50, 40, n_rows),
        "visits": rng.integers(0, 40, n_rows),
        "member": rng.random(n_rows) < 0.5,
        "town": rng.choice(towns, n_rows),
    }
    return pl.DataFrame(
        {
            name: [
                None if out else cell for out, cell in zip(gone[:, j], values.tolist(), strict=True)
            ]
            for j, (name, values) in enumerate(cells.items())
        }
    )


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize(
    ("tradeoff", "shared"), [*product([1, 0.5, 0], [False, True]), ("auto", False)]
)
def test_naive_bayes_with_columns_of_every_kind(tradeoff, shared):
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=tradeoff, shared_variance=shared).fit(table, y)
    run = check(model, table, new_rows(), atol=1e-12)
    assert [one.name for one in run.get_inputs()] == table.columns
    assert [one.name for one in run.get_outputs()] == ["label", "probabilities"]


def test_a_posterior_that_is_no_density():
    X, y = numbers()
    for model in (NaiveBayes(tradeoff=1), GaussianDiscriminant("full", tradeoff=1)):
        model.fit(X, y)
        # What a fit at tradeoff 0 may come to: variances below zero.
        turned = replace(model.parameters_, natural=-model.parameters_.natural)
        model._fitted = replace(model._fitted, optimum=turned)
        assert not np.isfinite(model.density_.log_partition(turned.natural)).any()
        check(model, X)
        assert explain(model, X).scores.shape == (120, 2)
        assert "class_densities_" not in dir(model)
    gap = X.copy()
    gap[::3, 0] = np.nan
    check(model := NaiveBayes(tradeoff=1).fit(X, y), gap)
    turned = replace(turned, natural=-model.parameters_.natural)
    model._fitted = replace(model._fitted, optimum=turned)
    check(model, gap)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "options", [{"tradeoff": 0}, {"tradeoff": 0.5}, {"tradeoff": 1, "components": 3, "n_init": 1}]
)
def test_gaussians_of_every_kind(covariance, options):
    X, y = numbers(n_classes=3)
    model = GaussianDiscriminant(covariance, **options).fit(X, y)
    rows = np.random.default_rng(7).normal(size=(300, 3)) * 3 * X.std(axis=0) + X.mean(axis=0)
    gap = rows.copy()
    gap[0, 1] = gap[5, 0] = gap[5, 2] = gap[7] = np.nan
    check(model, rows, gap)


@pytest.mark.parametrize("covariance", ["shared", "full"])
def test_pipelines_with_text_and_missing_cells(covariance):
    table, y = mixed_table()
    model = make_pipeline(
        Preparation(drop_first=True), GaussianDiscriminant(covariance, tradeoff=0)
    )
    model.fit(table, y)
    check(model, table, new_rows())


@pytest.mark.parametrize(
    ("covariance", "tradeoff"),
    [*product(["shared", "full", "diagonal"], [1, 0.5, 0]), ("shared", "auto")],
)
@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
def test_mixed_tables_of_a_discriminant_with_missing_cells(covariance, tradeoff):
    table, y = mixed_table()
    table = table.with_columns((pl.col("age") * 0.1 + pl.col("visits")).alias("both"))
    rng = np.random.default_rng(5)
    table = table.with_columns((pl.col("both") + rng.normal(size=len(table))).alias("both"))
    model = GaussianDiscriminant(covariance, tradeoff=tradeoff).fit(table, y)
    gaps = table.with_columns(
        *(
            pl.when(pl.Series(rng.random(len(table)) < 0.5)).then(pl.col(name)).alias(name)
            for name in table.columns
        )
    )
    check(model, table, gaps)


def elsewhere(table: pl.DataFrame, n_rows: int = 300) -> pl.DataFrame:
    """Return rows made of a table's cells at random, numbers farther out, many missing, new words.

    No column keeps a word to the others, and cells are as fit never saw them together.
    """
    rng = np.random.default_rng(3)
    columns = []
    for series in table.iter_columns():
        drawn = series.drop_nulls().sample(n_rows, with_replacement=True, seed=len(columns))
        if series.dtype.is_float():
            drawn = drawn + 2.0 * float(series.std() or 1.0) * rng.normal(size=n_rows)
        elif series.dtype.is_integer():
            drawn = drawn + rng.integers(0, 3, n_rows)
        elif series.dtype == pl.String:
            drawn = drawn + pl.Series(rng.choice(["", "", "", " new"], n_rows))
        gone = pl.Series(rng.random(n_rows) < 0.25)
        columns.append(pl.select(pl.when(~gone).then(drawn)).to_series().alias(series.name))
    return pl.DataFrame(columns)


@pytest.mark.filterwarnings("ignore::crossfade.UnseenNumbersWarning")  # a graph tells nothing
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mixed/horse_colic.csv", "naive-bayes"),
        ("mixed/titanic.csv", "gaussian-shared"),
        ("ng_jordan/liver.csv", "gaussian-full"),
        pytest.param("statlog/heart.csv", "naive-bayes", marks=pytest.mark.slow),
        pytest.param("ng_jordan/lymphography.csv", "naive-bayes", marks=pytest.mark.slow),
    ],
)
def test_pools_on_real_tables_with_random_and_missing_input(shared_data, name, kind):
    table = read_table(shared_data / name).drop_nulls("target")[:400]
    X, y = table.drop("target"), table["target"].to_numpy()
    model = choose_model(kind, "auto")[1].fit(X, y)
    last = model[-1] if isinstance(model, Pipeline) else model
    assert (last.tradeoff_path_["weight"] > 0).sum() > 1  # a pool
    check(model, X, elsewhere(X))


def test_a_column_that_never_varies():
    X, y = numbers()
    X = np.column_stack([X, np.full(len(X), 3.0)])
    for model in (NaiveBayes(tradeoff=0.5), GaussianDiscriminant("full", tradeoff=0.5)):
        check(model.fit(X, y), np.vstack([X, X[:3] + 5.0]))


def test_far_from_zero_nothing_is_lost():
    X, y = numbers()
    X = X + 1e7 * X.std(axis=0)
    for model in (NaiveBayes(tradeoff=0.5), GaussianDiscriminant("full", tradeoff=0.5)):
        check(model.fit(X, y), X)


@pytest.mark.parametrize("labels", [[3, -1], [False, True], ["a", "b"], [0.0, 2.0]])
def test_labels_of_any_type(labels):
    X, y = numbers()
    check(NaiveBayes(tradeoff=1).fit(X, np.array(labels)[y]), X)


def test_costs_decide_and_priors_shift():
    X, y = numbers()
    costs = np.array([[0.0, 9.0], [1.0, 0.0]])
    model = NaiveBayes(tradeoff=1, selection=costs, class_prior=[0.2, 0.8]).fit(X, y)
    check(model, X)
    assert (model.predict(X) != model.classes_[model.predict_proba(X).argmax(axis=1)]).any()


@pytest.mark.filterwarnings("ignore::crossfade.UnseenNumbersWarning")  # a graph tells nothing
def test_codes_as_categories_and_other_truths():
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=200)
    X = np.column_stack([rng.integers(4, size=200) * 10 + y, rng.integers(2, size=200) * 3 + 2.0])
    model = NaiveBayes({0: "categorical", 1: "bernoulli"}, tradeoff=0.5).fit(X, y)
    rows = np.vstack([X, [[np.nan, 2.0], [99.0, np.nan], [10.0, 7.0]]])
    check(model, rows, atol=1e-12)


def test_a_column_of_text_without_a_cell():
    table, y = mixed_table()
    table = table.with_columns(pl.lit(None, dtype=pl.String).alias("empty"))
    model = NaiveBayes(tradeoff=1).fit(table, y)
    check(model, table.with_columns(pl.Series("empty", ["", "x", None, "y"] * 50)))


def test_a_density_of_ones_own_that_is_linear_in_its_column():
    X, y = numbers()
    X = np.abs(X) + 0.1
    check(NaiveBayes(Exponential(), tradeoff=1).fit(X, y), np.vstack([X, [[np.nan, 1.0, 2.0]]]))


class Logarithmic(Exponential):
    def column_statistics(self, x):
        return np.log1p(x)[..., None]


def test_a_density_of_ones_own_that_is_not_is_refused():
    X, y = numbers()
    model = NaiveBayes(Logarithmic(), tradeoff=1).fit(np.abs(X) + 0.1, y)
    with pytest.raises(DataError, match="got Logarithmic, whose statistics have no conversion"):
        to_onnx(model)


@pytest.mark.parametrize("labels", [[0, 1, 2], ["c", "a", "b"]])
def test_products_of_posteriors(labels):
    X, y = numbers(n_classes=3)
    X[::5, 0] = np.nan
    y = np.array(labels)[y]
    inner = [(NaiveBayes(tradeoff=0), [0, 1]), (LogisticRegression(), [2])]
    X /= np.nanstd(X, axis=0)
    model = EntropicNaiveBayes(inner).fit(X, y)
    check(model, X)
    check(model.with_class_prior([0.2, 0.3, 0.5]), X)


def test_classifiers_of_columns_that_do_not_convert_are_refused():
    class Mine(DecisionTreeClassifier):
        pass

    X, y = numbers()
    with pytest.raises(DataError, match="EntropicNaiveBayes with a part that it cannot"):
        to_onnx(EntropicNaiveBayes(Mine(max_depth=1)).fit(X, y))


def test_inside_a_pipeline_of_ones_own_with_skl2onnx_alone():
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType
    from sklearn.preprocessing import StandardScaler

    X, y = numbers()
    model = make_pipeline(StandardScaler(), GaussianDiscriminant("full", tradeoff=0.5)).fit(X, y)
    register_converters()
    graph = convert_sklearn(
        model, initial_types=[("X", DoubleTensorType([None, 3]))], options={"zipmap": False}
    )
    run = onnxruntime.InferenceSession(graph.SerializeToString())
    posterior = run.run(None, {"X": X})[1]
    np.testing.assert_allclose(posterior, model.predict_proba(X), rtol=0, atol=1e-6)


def test_names_of_columns_are_the_inputs_whatever_they_are():
    rng = np.random.default_rng(0)
    names = ["label", "probabilities", "", "column_3", "softmax", "constant", "<script>"]
    names += ["two\nlines", "\U0001f600", "x" * 300, "label_"]
    table = pl.DataFrame({name: rng.normal(size=60) for name in names})
    y = rng.integers(2, size=60)
    model = NaiveBayes(tradeoff=1).fit(table, y)
    run = check(model, table)
    inputs = [one.name for one in run.get_inputs()]
    assert inputs[3:] == names[3:]
    assert inputs[:3] == ["column label", "column probabilities", "column"]
    described = run.get_modelmeta().custom_metadata_map
    assert json.loads(described["classes"]) == [0, 1]
    columns = json.loads(described["columns"])
    assert [column["name"] for column in columns] == names
    assert [column["input"] for column in columns] == inputs


CELLS = st.one_of(st.just(np.nan), st.floats(-1e6, 1e6))


@cache
def model_and_graph():
    model = NaiveBayes(tradeoff=0.5).fit(*numbers(n_classes=3))
    return model, session(model)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5))
def test_any_numbers(rows):
    X = np.array(rows)
    model, run = model_and_graph()
    posterior = run.run(["probabilities"], {"X": X})[0]
    np.testing.assert_allclose(posterior, model.predict_proba(X), rtol=0, atol=1e-6)


def test_labels_beyond_64_bits_are_refused():
    X = np.arange(8.0)[:, None]
    model = NaiveBayes(tradeoff=1).fit(X, [0, 2**70] * 4)
    with pytest.raises(DataError, match=r"estimator: expected labels that ONNX has .*got 1180591"):
        to_onnx(model)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *product(["array"], [{}, {"pooling": "linear"}, {"weights": "by_class"}]),
        ("table", {"pooling": "linear"}),
        ("prepared", {}),
    ],
)
def test_a_pool_of_members_with_operators_is_a_graph(options, kind):
    table, y = mixed_table()
    X, labels = numbers(n_classes=3)
    members = [("nb", NaiveBayes(tradeoff=1)), ("other", NaiveBayes(tradeoff=0.5))]
    if kind != "table":
        members = [*members, ("lr", LogisticRegression(solver="newton-cholesky"))]
        members[1] = ("full", GaussianDiscriminant("full", tradeoff=0.5))
        table, y = X, labels
    model = PooledClassifier(members, cv=2, **options)
    model = (make_pipeline(Preparation(), model) if kind == "prepared" else model).fit(table, y)
    check(model, table, atol=1e-9)
    if kind == "array":
        check(model.with_class_prior([0.2, 0.3, 0.5]), table, atol=1e-9)
        frozen = [(name, FrozenEstimator(one.fit(X, y))) for name, one in members]
        check(PooledClassifier(frozen, **options).fit(X, y), table, atol=1e-9)


def test_a_member_that_lacks_a_class_says_nothing_of_it():
    X, y = numbers(n_classes=3)
    two = NaiveBayes(tradeoff=1).fit(X[y != y[0]], y[y != y[0]])
    members = [("two", FrozenEstimator(two)), ("nb", NaiveBayes(tradeoff=1))]
    check(PooledClassifier(members, pooling="linear", cv=2).fit(X, y), X, atol=1e-9)


@pytest.mark.parametrize(
    ("wrap", "name", "kind"),
    [
        (lambda pool: pool, "forest", "Pipeline"),
        (lambda pool: make_pipeline(Preparation(), pool), "boosting", "Boosting"),
        (lambda pool: pool, "lr", "LogisticRegr"),
    ],
)
def test_a_member_of_a_pool_without_operators_is_refused_by_name(wrap, name, kind):
    X, y = numbers(n_classes=2)
    member = (name, LogisticRegression()) if name == "lr" else name
    pool = wrap(PooledClassifier([member], cv=2))
    if name == "lr":  # which takes one array, where a table has an input per column
        X = pd.DataFrame(X).add_prefix("x")
    wanted = (
        "^estimator: expected a pool of Crossfade's own classifiers .*, got one with the member "
        rf"'{name}', {kind}.*, which has no operators here; leave it out of the pool, or write "
    )
    with pytest.raises(DataError, match=wanted):
        to_onnx(pool.fit(X, y))
