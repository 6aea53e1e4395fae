from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.comparison.models import (
    affordable,
    all_models,
    choose_model,
    choose_models,
    default_models,
    families,
    model_notes,
)
from crossfade.comparison.references import _Rotated, mean_log_probability, references
from crossfade.errors import DataError
from crossfade.evaluation.evaluation import fitted_tradeoff
from crossfade.pools.boosting import Boosting
from crossfade.table.preparation import Indicators
from tests.comparison.standins import Blend, blends

LINE_UP = blends() | references(everything=True)


def test_models_that_differ_in_tradeoff_only_are_a_family():
    (family,) = families(LINE_UP)
    assert family.label == "blend"
    assert family.members == ("blend generative", "blend discriminative", "blend auto")
    assert family.at(0.5).tradeoff == 0.5
    assert LINE_UP["blend generative"].tradeoff == 1.0


def test_objects_are_the_same_by_what_they_hold_and_not_by_where_they_lie():
    class Own:
        def __init__(self, rate: float) -> None:
            self.rate = rate

    kept = [Own(1.0) for _ in range(5)]  # each at an address of its own
    models = {
        "one": NaiveBayes(kept[0], tradeoff=1),
        "like it": NaiveBayes({0: kept[1]}, tradeoff=1),
        "one auto": NaiveBayes(kept[2]),
        "like it auto": NaiveBayes({0: kept[3]}),
        "other": NaiveBayes(Own(2.0), tradeoff=1),
    }
    found = [family.members for family in families(models)]
    assert found == [("one", "one auto"), ("like it", "like it auto"), ("other",)]


def test_other_differences_make_other_families():
    models = {
        "a one": Blend("x", tradeoff=1),
        "b one": Blend("y", tradeoff=1),
        "piped": make_pipeline(StandardScaler(), Blend("x", tradeoff=0)),
        "a two": Blend("x", tradeoff=0),
        "unscaled": make_pipeline(StandardScaler(with_mean=False), Blend("x", tradeoff=0)),
        "plain": GaussianNB(),
    }
    found = {family.label: family.members for family in families(models)}
    assert found == {
        "a": ("a one", "a two"),
        "b one": ("b one",),
        "piped": ("piped",),
        "unscaled": ("unscaled",),
    }


def test_the_tradeoff_inside_a_pipeline_is_found():
    piped = make_pipeline(StandardScaler(), Blend(tradeoff=0.75))
    (family,) = families({"piped": piped})
    assert family.parameter == "blend__tradeoff"
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.tile([0, 1], 10)
    assert fitted_tradeoff(family.at(0.5).fit(X, y)) == 0.5
    assert fitted_tradeoff(GaussianNB().fit(X, y)) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["blend"], ["blend generative", "blend discriminative", "blend auto"]),
        (["svm", "Blend Auto"], ["blend auto", "linear SVM"]),
        (["knn", "majority "], ["k-nearest neighbours", "majority class"]),
        (["blend:auto"], ["blend auto"]),
        (["blend:1.0", "blend:0"], ["blend generative", "blend discriminative"]),
        (
            ["svm", "blend:.5", "Blend:0.50", "blend:1"],
            ["blend generative", "blend λ=0.5", "linear SVM"],
        ),
    ],
)
def test_models_are_chosen_by_name_or_short_name(names, expected):
    assert list(choose_models(names, LINE_UP)) == expected


def test_a_wrong_variant_is_not_taken_for_a_wrong_name():
    for name in ("blend:2", "svm:auto", "linear SVM:x"):
        with pytest.raises(DataError, match=f"got '{name}'; choose from nb, shared"):
            choose_models([name], LINE_UP)


@pytest.mark.parametrize(("name", "hint"), [("swm", "'svm'"), ("linear svn", "'linear SVM'")])
def test_an_unknown_name_gets_the_nearest(name, hint):
    message = f"got '{name}'; did you mean {hint}\\? Choose from nb, shared, full, logistic, for"
    with pytest.raises(DataError, match=message):
        choose_models([name], LINE_UP)


@pytest.mark.parametrize(
    "name", ["", " ", "zzz", "svm:auto", "blend:2", "blend:nan", "svm:1", ":1"]
)
def test_a_name_that_fits_nothing_is_refused(name):
    with pytest.raises(DataError, match="models: expected names or short names of models"):
        choose_models([name], LINE_UP)


def test_a_model_of_far_more_parameters_is_left_out_and_the_reader_is_told():
    line_up = default_models()
    few, many = ["continuous"] * 6 + ["categorical"] * 100, ["continuous"] * 59 + ["count"]
    assert affordable(line_up, few, 2) == (line_up, None)
    kept, note = affordable(line_up, many, 2)
    assert set(line_up) - set(kept) == {"full Gaussian discriminative"}
    # 60 columns, 60 · 61 / 2 squares and products, and an offset, for each of two classes.
    assert f"{2 * (60 + 60 * 61 // 2 + 1):,} parameters for 60 numeric columns" in note
    assert affordable({"full Gaussian generative": 1}, many, 2)[1] is None
    # The time of choosing a covariance grows with the cube of its columns.
    kept, note = affordable(line_up, ["continuous"] * 301, 2)
    assert set(line_up) - set(kept) == {
        "full Gaussian discriminative", "shared Gaussian auto", "full Gaussian auto",
    }  # fmt: skip
    assert "full Gaussian auto left out: choosing among covariances of over 300 numeric" in note


@pytest.mark.parametrize("n_numbers", [0, 1])
def test_discriminants_of_fewer_than_two_numbers_are_naive_bayes_and_left_out(n_numbers):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    X = pl.DataFrame({name: rng.choice(list("abc"), 80) for name in "uvw"})
    X = X.with_columns(pl.Series(f"x{i}", rng.normal(size=80) + y) for i in range(n_numbers))
    kinds = ["categorical", "boolean", *["continuous"] * n_numbers]
    kept, note = affordable(default_models(), kinds, 2)
    assert {name for name in default_models() if "Gaussian" in name} == set(default_models()) - set(
        kept
    )
    assert f"with {['no', 'one'][n_numbers]} numeric column they are naive Bayes" in note
    density = {f"x{i}": "gaussian" for i in range(n_numbers)}
    bayes = NaiveBayes(density or "auto", tradeoff=0.5).fit(X, y).predict_proba(X)
    gaussian = GaussianDiscriminant("full", tradeoff=0.5).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(gaussian, bayes, rtol=0, atol=1e-9)


# -- the references ------------------------------------------------------------------------------


def _mixed(n: int = 300) -> tuple[pl.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    colour = np.where(rng.random(n) < 0.3 + 0.4 * y, "red", rng.choice(["blue", "green"], n))
    size = rng.normal(size=n) + y
    frame = pl.DataFrame({"colour": colour, "size": size})
    gaps = pl.Series(rng.random((n, 2))[:, 0] < 0.1)
    return frame.with_columns(size=pl.when(gaps).then(None).otherwise(pl.col("size"))), y


def test_the_default_line_up_is_what_people_would_pick():
    ours = [
        f"{f} {v}"
        for f in ("naive Bayes", "shared Gaussian", "full Gaussian")
        for v in ("generative", "discriminative", "auto")
    ]
    references = ["logistic regression", "random forest", "gradient boosting", "majority class"]
    assert list(default_models()) == ours + references
    assert list(choose_models(["default"])) == ours + references
    assert set(choose_models(["all"])) - set(default_models()) == {
        "k-nearest neighbours",
        "linear SVM",
    }


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("name", list(all_models()))
def test_every_model_of_the_line_up_takes_text_and_missing_cells(name):
    X, y = _mixed()
    fitted = all_models()[name].fit(X[:200], y[:200])
    new = X[200:].with_columns(colour=pl.Series(["violet"] * 100))
    posterior = fitted.predict_proba(new)
    assert posterior.shape == (100, 2)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    assert log_loss(y[200:], posterior) < 1.0 or name.startswith("k-nearest")


@pytest.mark.usefixtures("whole_choice")
def test_boosting_is_scikit_learn_s_with_native_categories_and_missing_cells():
    X, y = _mixed()
    codes = X["colour"].cast(pl.Enum(["blue", "green", "red"])).to_physical().to_numpy()
    matrix = np.column_stack([codes.astype(float), X["size"].fill_null(np.nan).to_numpy()])
    other = HistGradientBoostingClassifier(categorical_features=[0], random_state=0)
    expected = other.fit(matrix[:200], y[:200]).predict_proba(matrix[200:])
    found = Boosting().fit(X[:200], y[:200])
    np.testing.assert_array_equal(found.predict_proba(X[200:]), expected)
    np.testing.assert_array_equal(found.predict(X[200:]), expected.argmax(axis=1))


def test_boosting_keeps_the_most_frequent_of_many_levels():
    rng = np.random.default_rng(0)
    level = np.append(np.arange(400), rng.integers(200, size=6000))
    y = level % 2
    model = Boosting().fit(pl.DataFrame({"c": [f"{v:03d}" for v in level]}), y)
    found = model.predict_proba(pl.DataFrame({"c": ["000", "001", "399", "new"]}))[:, 1]
    assert found[0] < 0.5 < found[1]
    assert found[2] == found[3]


def test_forests_see_indicators_and_missing_numbers():
    X, _ = _mixed()
    found = Indicators().fit_transform(X)
    colours = X["colour"].to_numpy()
    counts = {c: np.sum(colours == c) for c in set(colours)}
    expected = [colours == c for c in sorted(counts, key=lambda c: -counts[c])]
    expected = np.column_stack([*expected, X["size"].fill_null(np.nan).to_numpy()])
    seen = Indicators().fit(X)
    np.testing.assert_array_equal(found, expected[:, seen.order_])
    np.testing.assert_array_equal(seen.source_columns_, np.array([0, 0, 0, 1])[seen.order_])
    # Wherever columns lie, trees see them in one order.
    np.testing.assert_array_equal(Indicators().fit_transform(X[:, ::-1]), found)


def test_the_penalty_s_score_is_the_log_loss():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.tile([0, 1, 2], 20)
    model = LogisticRegression().fit(X, y)
    expected = -log_loss(y, model.predict_proba(X), labels=[0, 1, 2])
    assert mean_log_probability(model, X, y) == pytest.approx(expected)
    # scikit-learn's own scorer refuses a fold that lacks a class.
    assert np.isfinite(mean_log_probability(model, X[:1], y[:1]))


# -- notes ---------------------------------------------------------------------------------------


def test_notes_are_those_of_the_estimator_whatever_its_name():
    notes = partial(model_notes, mixed=True)
    assert notes({"linear SVM (mine)": GaussianNB(), "shared Gaussian": NaiveBayes()}) == []
    assert notes({"k-nearest neighbours": make_pipeline(StandardScaler(), GaussianNB())}) == []
    assert notes({"mine": KNeighborsClassifier(3)}) == [
        "mine: k = 3; its zero probabilities count as 2.2e-16 in the log-loss."
    ]
    assert notes({"mine": CalibratedClassifierCV(LinearSVC(), cv=4, method="isotonic")}) == [
        "mine: probabilities from an isotonic curve fitted to 4-fold out-of-fold scores."
    ]
    (first, *_) = notes(all_models())
    assert first == (
        "logistic regression, k-nearest neighbours and linear SVM "
        "see text columns as 0/1 columns and missing numbers as the training median."
    )
    assert not any("text columns" in note for note in model_notes(all_models(), mixed=False))


# -- models that are imported --------------------------------------------------------------------


def test_any_importable_classifier_can_be_named():
    X, y = _mixed()
    found = choose_models(
        ["majority", "sklearn.ensemble.ExtraTreesClassifier", "crossfade.NaiveBayes"]
    )
    assert list(found) == ["majority class", "ExtraTreesClassifier", "NaiveBayes"]
    assert isinstance(found["NaiveBayes"], NaiveBayes)
    assert found["ExtraTreesClassifier"].fit(X, y).predict_proba(X).shape == (300, 2)
    twice = choose_models(["crossfade.NaiveBayes", "crossfade.classifiers.NaiveBayes"])
    assert list(twice) == ["NaiveBayes", "crossfade.classifiers.NaiveBayes"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.Model", "importing 'nowhere' failed: No module named 'nowhere'; check the spell"),
        ("sklearn.svm.LinearSVM", r"'sklearn.svm' has no 'LinearSVM'; did you mean 'sklearn\.svm"),
        ("sklearn.linear_model.Ridge", "which is no classifier; name a class with fit, predict"),
        ("sklearn.metrics.log_loss", "which is no classifier; name a class with fit, predict"),
        ("sklearn.ensemble.VotingClassifier", "cannot be made without arguments: .*compare"),
        (".", "importing '' failed"),
    ],
)
def test_what_cannot_be_imported_as_a_classifier_is_refused(path, message):
    with pytest.raises(DataError, match="models: expected the full name of a class.*" + message):
        choose_models([path])


@pytest.mark.parametrize("name", ["nb:1.5", "nb:-0.1", "nb:0.5:auto", "forest:0.5", "nb:0.5x"])
def test_a_variant_that_is_none_is_refused_as_such(name):
    with pytest.raises(DataError, match=f"got '{name}'.* :auto or a λ from 0 to 1"):
        choose_models([name])


@pytest.mark.parametrize("sparse", [True, False])
def test_logistic_regression_of_rotated_rows_is_the_same(sparse):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.4, (40, 300)).astype(float), np.arange(40) % 3
    X[1] = X[0]  # fewer directions than rows
    X, new = (scipy.sparse.csr_array(X), X[::-1] + 1.0) if sparse else (X, X[::-1] + 1.0)
    model = LogisticRegression(C=0.3, tol=1e-12, max_iter=10_000)
    rotation = _Rotated().fit(X)
    assert rotation.transform(X).shape == (40, 39)
    found = clone(model).fit(rotation.transform(X), y).predict_log_proba(rotation.transform(new))
    expected = model.fit(X, y).predict_log_proba(new)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    tall = X[:, :20]
    assert _Rotated().fit(tall).transform(tall) is tall


@pytest.mark.parametrize("name", ["nb:0", "nb:1", "nb:auto", "nb:0.5", "nb:0,nb:0.5", "nb"])
def test_a_family_is_not_called_by_the_tradeoff_of_its_members(name):
    assert [family.label for family in families(choose_models(name.split(",")))] == ["naive Bayes"]


@pytest.mark.parametrize(
    ("name", "tradeoff", "label", "expected"),
    [
        ("nb:0.5", None, "naive Bayes", 0.5),
        ("full:0.25", None, "full Gaussian", 0.25),
        ("nb:0", None, "naive Bayes discriminative", 0.0),
        ("nb:0.5", 0.75, "naive Bayes", 0.75),
        ("nb", None, "naive Bayes auto", "auto"),
    ],
)
def test_one_model_to_fit_may_be_named_with_its_tradeoff(name, tradeoff, label, expected):
    found, model = choose_model(name, tradeoff)
    assert (found, model.tradeoff) == (label, expected)
