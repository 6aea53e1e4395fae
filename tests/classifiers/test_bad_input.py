"""What cannot be used is refused: parameter, what was expected, what came, and the remedy."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.naive_bayes import GaussianNB

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes, PooledClassifier
from crossfade.blocks import threads
from crossfade.errors import DataError
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from tests.classifiers.models import CONTINUOUS, CONTINUOUS_AND_TRADEOFFS, TRADEOFFS, continuous

BOTH = [NaiveBayes, GaussianDiscriminant]


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("tradeoff", [-0.1, 1.1, "middle", None, True, np.nan, [0.5]])
def test_a_wrong_tradeoff(make, tradeoff):
    with pytest.raises(DataError, match="tradeoff: expected a number from 0") as error:
        make(tradeoff=tradeoff).fit(*continuous())
    assert repr(tradeoff) in str(error.value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NaiveBayes(l2=-1.0), "l2: expected a finite number of at least 0, got -1.0"),
        (NaiveBayes(l2="strong"), "l2: expected a finite number of at least 0, got 'strong'"),
        (NaiveBayes(alpha=-1), "alpha: expected a finite number of at least 0, got -1"),
        (NaiveBayes(var_smoothing=np.inf), "var_smoothing: expected a finite number"),
        (NaiveBayes("normal"), "density: expected 'auto', one of 'bernoulli'"),
        (NaiveBayes({0: 3}), "density: expected 'auto', one of 'bernoulli'"),
        (NaiveBayes({7: "gaussian"}), "expected a column name or an index from 0 to 2, got 7"),
        (NaiveBayes({"a": "gaussian"}), "expected a column of X, got 'a'"),
        (NaiveBayes(handle_unknown="skip"), "handle_unknown: expected 'ignore' or .*'skip'"),
        (NaiveBayes(selection="accuracy"), "selection: expected one of 'log_loss'"),
        (GaussianDiscriminant("diag"), "covariance: expected one of 'shared', .*got 'diag'"),
        (GaussianDiscriminant(shrinkage=1.0), r"shrinkage: expected a finite number in \[0, 1\)"),
        (GaussianDiscriminant(shrinkage=-0.1), r"shrinkage: expected a finite number in \[0, 1\)"),
        (
            GaussianDiscriminant(components=0),
            "components: expected a whole number of at least 1, got 0",
        ),
        (
            GaussianDiscriminant(components=1.5),
            "components: expected a whole number of at least 1, got 1.5",
        ),
        (GaussianDiscriminant(n_init=0), "n_init: expected a whole number of at least 1, got 0"),
        (GaussianDiscriminant(random_state=None), "random_state: expected an integer, got None"),
    ],
    ids=str,
)
def test_wrong_parameters(model, message):
    with pytest.raises(DataError, match=message):
        model.fit(*continuous())
    assert not hasattr(model, "classes_")  # nothing half-done


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("tradeoff", [1, 0, "auto"])
def test_wrong_tables_and_labels(make, tradeoff):
    X, y = continuous()
    for bad_X, bad_y, message in [
        (X, np.zeros(150), "y: expected at least 2 classes, got 1 class"),
        (X, y[:100], "y: expected one label for each of the 150 rows of X, got 100"),
        (X, y + 0.5, "y: Unknown label type: continuous"),
        (X, [None, *y[1:]], "y: expected a label in every row, got 1 missing"),
        (X[:, :0], y, "0 feature"),
        (X[:0], y[:0], "0 sample"),
        (np.full_like(X, np.nan), y, "X: expected some cells that are not missing"),
        (X[:, 0], y, "X: expected a 2-D array or a data frame"),
        (csr_array(np.where(X > 2.0, np.nan, X)), y, "[Ss]parse"),
        (X + 0j, y, "Complex data not supported"),
        (pd.DataFrame(X, columns=["a", "b", "a"]), y, "'a'"),
    ]:
        with pytest.raises((DataError, ValueError, TypeError), match=message) as error:
            make(tradeoff=tradeoff).fit(bad_X, bad_y)
        assert isinstance(error.value, (ValueError, TypeError))


@pytest.mark.parametrize("make", BOTH)
def test_two_columns_of_one_name(make):
    X, y = continuous()
    with pytest.raises(DataError, match="X: expected column names that differ, got 'a' 2 times"):
        make(tradeoff=1).fit(pd.DataFrame(X[:, :2], columns=["a", "a"]), y)


def test_text_in_a_column_of_numbers_at_prediction():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0, 5.0], "z": [1.5, 0.2, 0.3, 0.1]})
    model = NaiveBayes(tradeoff=1).fit(table, [0, 0, 1, 1])
    text = pl.DataFrame({"x": ["low", "high"], "z": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"'x': expected numbers, got text \('high', 'low'"):
        model.predict(text)


def test_other_columns_than_in_fit():
    table = pd.DataFrame(continuous()[0], columns=["a", "b", "c"])
    model = NaiveBayes(tradeoff=1).fit(table, continuous()[1])
    with pytest.raises(ValueError, match="The feature names should match those"):
        model.predict(table.rename(columns={"c": "d"}))
    with pytest.raises(ValueError, match="The feature names should match those"):
        model.predict(table[["b", "a", "c"]])
    with pytest.raises(ValueError, match="X has 2 features, but NaiveBayes is expecting 3"):
        NaiveBayes(tradeoff=1).fit(*continuous()).predict(continuous()[0][:, :2])


def test_prediction_before_fit():
    from sklearn.exceptions import NotFittedError

    for make in BOTH:
        for use in ("predict", "predict_proba", "score_samples", "sufficient_statistics"):
            with pytest.raises(NotFittedError):
                getattr(make(), use)([[1.0]])
        with pytest.raises(NotFittedError):
            make().sample(1)


@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@pytest.mark.parametrize(("name", "tradeoff"), CONTINUOUS_AND_TRADEOFFS)
def test_a_class_with_one_row(name, tradeoff):
    """Its variance is what the smoothing makes it; gradients are then known to few digits.

    Where the solver cannot reach the optimum it says so.
    """
    X, y = continuous(k=2)
    X = np.vstack([X, [[9.0, 9.0, 9.0]]])
    y = np.append(y, 2)
    model = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y)
    posterior = model.predict_proba(X)
    assert np.isfinite(posterior).all()
    if tradeoff == "auto":
        # No fold holds that row, and what other rows show draws its posterior to the class shares.
        assert posterior[-1, 2] > 30 * model.class_count_[2] / 151
    else:
        assert posterior[-1].argmax() == 2


@pytest.mark.filterwarnings("ignore::crossfade.errors.ConvergenceWarning")
@pytest.mark.parametrize(("name", "tradeoff"), CONTINUOUS_AND_TRADEOFFS)
def test_fewer_rows_than_columns(name, tradeoff):
    """Singular covariances between the ends are fitted as well as they can be, and say so."""
    if tradeoff == "auto" and name in ("shared", "full"):
        tradeoff = 0.9  # ten folds of that are slow
    X, y = continuous(n=8, k=2, d=12)
    posterior = CONTINUOUS[name](tradeoff=tradeoff).fit(X, y).predict_proba(X)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
def test_as_many_classes_as_rows(tradeoff):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]])
    for make in (NaiveBayes, GaussianDiscriminant):
        model = make(tradeoff=tradeoff).fit(X, ["a", "b", "c"])
        assert np.isfinite(model.predict_proba(X)).all()
        if tradeoff == "auto":
            assert model.tradeoff_ == 1.0
            assert model.selection_.startswith("no class has two different rows")
            assert np.isnan(model.tradeoff_path_["log_loss"]).all()


@pytest.mark.parametrize("make", [*BOTH, lambda **p: EntropicNaiveBayes(GaussianNB(), **p)])
def test_a_class_prior_by_label_or_in_order(make):
    X, y = continuous()
    for names in (np.array([0, 1, 2]), np.array(["c", "b", "a"])):
        by_name = dict(zip(names.tolist(), [0.2, 0.3, 0.5], strict=True))
        own = {} if make not in BOTH else {"tradeoff": 0.5}
        model = make(class_prior=by_name, **own).fit(X, names[y])
        in_order = [by_name[label] for label in model.classes_.tolist()]
        same = make(class_prior=in_order, **own).fit(X, names[y])
        np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    for wrong in (
        {0: 1.0},
        {0: 0.2, 1: 0.3, 3: 0.5},
        {0: 0.2, 1: 0.3, 2: "a"},
        "even",
        0.5,
        [1, 2],
    ):
        with pytest.raises(DataError, match=r"class_prior: expected 'empirical', .* mapping of"):
            make(class_prior=wrong).fit(X, y)


@cache
def chosen(labels=None):
    """Return a choice for twelve groups, named by number or by these labels."""
    X, y = continuous(n=60)
    names = np.arange(12) if labels is None else GROUPS[labels]
    model = NaiveBayes("gaussian", shared_variance=True, tradeoff="best")
    return model.fit(X, y, groups=names[np.repeat(np.arange(12), 5)])


DAYS = np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]")


GROUPS = {
    "datetime64": DAYS,
    "date": DAYS.astype(object),
    "timedelta64": DAYS - DAYS[0],
    "polars": pl.Series(DAYS),
    "pandas": pd.Series(DAYS),
    "fractions": np.sqrt(range(12)),
}


@pytest.mark.parametrize("labels", GROUPS)
def test_groups_of_any_labels_are_the_same_groups(labels):
    assert chosen(labels).selection_ == chosen().selection_
    assert "of 12 groups" in chosen(labels).selection_


def test_wrong_groups_are_named_so():
    X, y = continuous(n=60)
    regression = PoissonRegression().fit(X, y)
    for groups, message in [
        ([None, *range(59)], "groups: expected a group for every row, got 1 missing"),
        (np.full(60, "NaT", "datetime64[s]"), "got 60 missing ones"),
        (["a"] * 60, "groups: expected at least two groups, got one"),
        (["a", "b"], r"groups: expected shape \(60,\), got \(2,\)"),
        (np.array([{}] * 60), "groups: expected text, numbers or dates, got {}"),
    ]:
        with pytest.raises(DataError, match=message):
            NaiveBayes().fit(X, y, groups=groups)
        with pytest.raises(DataError, match=message):
            regression.robust_covariance("cluster", groups)


@pytest.mark.parametrize("tradeoff", [1, 0, "auto"])
@pytest.mark.parametrize("make", BOTH)
def test_one_huge_cell_among_many_is_named(make, tradeoff):
    """The sums are made on threads, where the caller's settings for overflow hold too."""
    X = np.zeros((40_000, 2))
    X[:, 0] = np.arange(40_000) % 7
    X[77, 1] = 1e160
    with threads(4), pytest.raises(DataError, match=r"'x1': expected numbers below 1e.150 in size"):
        make(tradeoff=tradeoff).fit(X, np.arange(40_000) % 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint64, np.int8, bool])
def test_labels_of_any_width(dtype):
    X, y = continuous(k=2)
    model = NaiveBayes(tradeoff=1).fit(X, y.astype(dtype))
    np.testing.assert_array_equal(
        model.predict(X).astype(int), NaiveBayes(tradeoff=1).fit(X, y).predict(X)
    )


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_of_128_bits(kind):
    X, y = continuous(n=60, k=2)
    wide = pl.Series([int(code) * 10**25 for code in y], dtype=getattr(pl, kind))
    model = NaiveBayes(tradeoff=1).fit(X, wide)
    assert model.classes_.tolist() == [0, 10**25]
    assert set(model.predict(X)) <= {0, 10**25}
    frame = pl.DataFrame({"a": wide, "b": X[:, 0]})
    plain = pl.DataFrame({"a": 1e25 * y, "b": X[:, 0]})
    np.testing.assert_allclose(
        NaiveBayes("gaussian", tradeoff=0.5).fit(frame, y).predict_proba(frame),
        NaiveBayes("gaussian", tradeoff=0.5).fit(plain, y).predict_proba(plain),
    )


def test_constant_columns_only():
    for make in BOTH:
        for tradeoff in TRADEOFFS:
            model = make(tradeoff=tradeoff).fit(np.full((6, 2), 3.0), [0, 0, 0, 0, 1, 1])
            np.testing.assert_allclose(
                model.predict_proba([[3.0, 3.0]]), [[2 / 3, 1 / 3]], rtol=1e-6
            )


def test_very_many_categories():
    n = 200_000
    rng = np.random.default_rng(0)
    words = pl.DataFrame({"word": [f"w{i // 2}" for i in rng.permutation(n)]})
    y = rng.integers(2, size=n)
    model = NaiveBayes(tradeoff=1).fit(words, y)
    assert len(model.schema_.categories[0]) == n // 2
    assert model.predict_proba(words[:5]).shape == (5, 2)


@pytest.mark.parametrize("tradeoff", TRADEOFFS)
@pytest.mark.parametrize("make", BOTH)
def test_a_row_without_a_posterior_is_refused_and_never_nan(make, tradeoff):
    X, y = continuous()
    model = make(tradeoff=tradeoff).fit(X, y)
    if any(one["density"] == "johnson_su" for one in getattr(model, "density_report_", ())):
        model = make("gaussian", tradeoff=tradeoff).fit(X, y)  # there, nothing is too far
    far = np.array(X[:3], dtype=float)
    far[1, 2] = 1e300
    for method in (model.predict, model.predict_proba, model.predict_log_proba):
        if tradeoff == 0 and make is GaussianDiscriminant:  # linear in the columns, however far
            assert not pd.isna(method(far)).any()
            continue
        with pytest.raises(DataError, match=r"expected numbers near enough .* got 1e\+300"):
            method(far)


@pytest.mark.parametrize(
    "make",
    [
        NaiveBayes,
        GaussianDiscriminant,
        PooledClassifier,
        partial(EntropicNaiveBayes, GaussianNB()),
        BinomialRegression,
        PoissonRegression,
        MultinomialRegression,
    ],
)
@pytest.mark.parametrize(
    ("X", "said"),
    [
        (None, "got None; read the table first"),
        (7, "got 7; read the table first"),
        ("table.csv", "got 'table.csv'; read the table first"),
        ({1, 2}, "got {1, 2}; use list(X) if it holds the rows"),
        ((row for row in [[1.0], [2.0]]), "use list(X) if it holds the rows"),
        ({"a": [1.0, 2.0]}, "use pandas.DataFrame(X)"),
        ({"a": 1.0, "b": "red"}, "use pandas.DataFrame([X])"),
        (pl.DataFrame({"a": [1.0, 2.0]}).lazy(), "use X.collect()"),
        (pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", 1]), "got 1 among others; use X.col"),
    ],
)
def test_what_is_no_table_is_named(make, X, said):
    with pytest.raises(DataError, match=r"^X: expected ") as error:
        make().fit(X, [0, 1])
    assert said in str(error.value)
