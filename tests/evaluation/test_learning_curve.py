"""learning_curve as people call it: nested sets, paired splits, interruptions, checkpoints."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from crossfade import DataError, LearningCurve, NaiveBayes, learning_curve
from crossfade.evaluation.splits import repeated_splits
from tests.evaluation.standins import Breaks, blobs


class Watcher(ClassifierMixin, BaseEstimator):
    """Predicts the first class, and writes down which rows it was fitted on."""

    seen: list[tuple[set[float], set[Any]]] = []  # noqa: RUF012 - shared on purpose

    def fit(self, X: Any, y: Any) -> Watcher:
        self.classes_ = np.unique(y)
        Watcher.seen.append((set(X[:, 0].tolist()), set(y.tolist())))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_larger_training_sets_hold_the_smaller_and_every_class():
    X, y = blobs()
    X[:, 0] = np.arange(len(X))
    Watcher.seen.clear()
    learning_curve(X, y, models={"watch": Watcher()}, train_sizes=[3, 10, 40, 90], n_splits=4)
    assert len(Watcher.seen) == 16
    for split in range(4):
        sets = Watcher.seen[4 * split : 4 * split + 4]
        for (smaller, _), (larger, _) in pairwise(sets):
            assert smaller < larger
        assert all(labels == {"a", "b", "c"} for _, labels in sets)
        assert [len(rows) for rows, _ in sets] == [3, 10, 40, 90]


def test_scores_are_those_of_fits_made_by_hand(unchanged):
    X, y = unchanged(*blobs())
    models = {"nb": GaussianNB(), "lr": LogisticRegression()}
    curve = learning_curve(X, y, models=models, train_sizes=[9, 30], n_splits=3, random_state=5)
    codes = np.unique(y, return_inverse=True)[1]
    splits = repeated_splits(codes, n_splits=3, n_train=96, random_state=5)
    for i, split in enumerate(splits):
        for j, size in enumerate((9, 30)):
            rows = split.train[:size]
            for name, model in (("nb", GaussianNB()), ("lr", LogisticRegression())):
                wrong = 1 - model.fit(X[rows], y[rows]).score(X[split.test], y[split.test])
                assert curve.scores[name]["error"][i, j] == pytest.approx(wrong, abs=1e-12)


def test_frame_has_a_row_per_split_size_and_model():
    X, y = blobs()
    models = {"nb": GaussianNB(), "ridge": RidgeClassifier()}
    curve = learning_curve(X, y, models=models, train_sizes=[9, 30], n_splits=3)
    frame = curve.frame()
    assert frame.columns == ["split", "m", "model", "error", "log_loss", "brier"]
    assert frame.shape == (12, 6)
    one = frame.filter((frame["split"] == 2) & (frame["m"] == 30) & (frame["model"] == "nb"))
    assert one["brier"].item() == curve.scores["nb"]["brier"][2, 1]
    assert frame.filter(frame["model"] == "ridge")["log_loss"].null_count() == 6


def test_the_first_splits_of_a_long_run_are_those_of_a_short_one():
    X, y = blobs()
    models = {"nb": NaiveBayes(tradeoff=1)}
    short = learning_curve(X, y, models=models, n_splits=2)
    long = learning_curve(X, y, models=models, n_splits=20)
    np.testing.assert_array_equal(short.scores["nb"]["brier"], long.scores["nb"]["brier"][:2])
    assert short.sizes[0] == 15
    assert short.sizes[-1] == 96


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ([0.25, 0.5, 1.0], (24, 48, 96)),
        ((share for share in (0.25, 0.5)), (24, 48)),
        (np.array([0.5, 1.0]), (48, 96)),
        ([0.5, 1], (48, 96)),
        ([0.01], (3,)),
        ([50, 20, 20], (20, 50)),
        (range(20, 60, 30), (20, 50)),
        ([96.0], (96,)),
    ],
)
def test_sizes_are_counts_or_fractions_of_the_training_part(given, sizes):
    X, y = blobs()
    assert (
        learning_curve(X, y, models={"nb": GaussianNB()}, train_sizes=given, n_splits=1).sizes
        == sizes
    )


@pytest.mark.parametrize(
    "given",
    ["linear", [], [2], [97], [0.5, 20], [np.nan], 10, [[10]], ["10"], [True], [None], None],
)
def test_other_sizes_are_refused(given):
    X, y = blobs()
    with pytest.raises(DataError, match="train_sizes: expected 'log', counts from 3"):
        learning_curve(X, y, models={"nb": GaussianNB()}, train_sizes=given, n_splits=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": {}}, "models: expected a mapping"),
        ({"models": {"x": 3}}, "models: expected scikit-learn classifiers"),
        ({"models": {"x": GaussianNB}}, "models: expected scikit-learn classifiers"),
        ({"models": {1: GaussianNB()}}, "models: expected names that are text"),
        ({"n_splits": 0}, "n_splits: expected a whole number of at least 1"),
        ({"random_state": None}, "random_state: expected a whole number"),
        ({"train_size": 1.5}, "train_size: expected"),
        ({"y": np.arange(120)}, "y: expected at least 2 rows of every class"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, words):
    X, y = blobs()
    with pytest.raises(DataError, match=words):
        learning_curve(**({"models": {"nb": GaussianNB()}, "X": X, "y": y} | change))


def test_a_run_is_the_same_again_although_a_forest_draws_numbers():
    X, y = blobs()
    forest = {"forest": RandomForestClassifier(3)}
    runs = [learning_curve(X, y, models=forest, train_sizes=[20, 60], n_splits=2) for _ in range(2)]
    assert runs[0].frame().equals(runs[1].frame())
    assert forest["forest"].random_state is None


def test_fits_that_fail_are_missing_and_noted():
    X, y = blobs()
    curve = learning_curve(X, y, models={"b": Breaks(20)}, train_sizes=[10, 15, 40], n_splits=3)
    error = curve.scores["b"]["error"]
    assert np.isnan(error[:, :2]).all()
    assert np.isfinite(error[:, 2]).all()
    assert curve.notes == ("b: 6 fits failed: 10 rows are too few",)
    with pytest.raises(DataError, match="all 6 fits of 'b' failed: 10 rows are too few"):
        learning_curve(X, y, models={"b": Breaks(200)}, train_sizes=[10, 40], n_splits=3)


def test_a_model_that_fits_nowhere_does_not_cost_the_others_their_run():
    X, y = blobs()
    models = {"b": Breaks(200), "g": GaussianNB(), "c": Breaks(201)}
    curve = learning_curve(X, y, models=models, train_sizes=[10, 40], n_splits=3)
    assert curve.frame()["error"].null_count() == 12
    assert curve.notes[0] == "b: 6 fits failed: 10 rows are too few"
    assert curve.crossings() == {}
    assert "a curve of 0 sizes" in curve.extrapolate(400)["b"].statement
    assert curve.plot().to_dict()
    del models["g"]
    with pytest.raises(DataError, match="of 'b' failed as all others did: 10 rows are too few"):
        learning_curve(X, y, models=models, train_sizes=[10, 40], n_splits=3)


class Column(GaussianNB):
    """Predicts a column, as some libraries do."""

    def predict(self, X: Any) -> Any:
        return super().predict(X)[:, None]


def test_what_is_predicted_has_to_be_a_label():
    X, y = blobs()
    settings = {"train_sizes": [10, 40], "n_splits": 3}
    plain = learning_curve(X, y, models={"g": GaussianNB()}, **settings)
    column = learning_curve(X, y, models={"g": Column()}, **settings)
    assert column.frame().equals(plain.frame())
    # A regression's numbers are no decisions, however near they are to some label.
    with pytest.raises(DataError, match=r"expected predictions to be labels of y, got .*\d\.\d"):
        learning_curve(X, (y == "a").astype(int), models={"r": LinearRegression()}, **settings)


@pytest.mark.filterwarnings("error")
def test_one_split_has_a_mean_and_no_interval():
    X, y = blobs()
    models = {"g": GaussianNB(), "nb": NaiveBayes(tradeoff=1)}
    curve = learning_curve(X, y, models=models, train_sizes=[10, 40], n_splits=1)
    at = curve.summary()["g"][1]
    assert at.mean == curve.scores["g"]["error"][0, 1]
    assert np.isnan([at.standard_error, at.low, at.high]).all()
    assert np.isnan(curve.difference("g", "nb")[0].low)
    assert "a curve of 2 sizes is too short" in curve.extrapolate(400)["g"].statement
    drawn = json.dumps(curve.plot().to_dict())
    # Beside the chart, names are cut where the viewer's letters are wider than the writer's.
    assert drawn.count('"legend": {') == drawn.count('"orient": "top"') > 0


def test_progress_is_told():
    X, y = blobs()
    told: list[tuple[int, int, str]] = []
    learning_curve(
        X, y, models={"g": GaussianNB()}, n_splits=3, progress=lambda *report: told.append(report)
    )
    assert told[-1] == (3, 3, "split 3 of 3")


def test_the_result_says_what_it_is():
    X, y = blobs()
    curve = learning_curve(X, y, models={"g": GaussianNB()}, train_sizes=[10, 40], n_splits=2)
    assert isinstance(curve, LearningCurve)
    assert repr(curve).startswith("<LearningCurve: 'g' on 2 sizes from 10 to 40 rows, 2 splits")
    with pytest.raises(AttributeError):
        curve.sizes = ()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_labels_in_a_frame_of_one_column(frame):
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    models = {"nb": NaiveBayes(tradeoff=1)}
    plain, found = (
        learning_curve(X, labels, models=models, train_sizes=[10, 20], n_splits=2).frame()
        for labels in (y, frame({"label": y}))
    )
    assert found.equals(plain)
    with pytest.raises(DataError, match=r"^y: y should be a 1d array, got an array of shape"):
        learning_curve(X, frame({"a": y, "b": y}), models=models, n_splits=2)


def test_columns_that_tell_nothing_of_new_rows_are_told():
    y = np.tile(["a", "b"], 20)
    table = pl.DataFrame(
        {
            "row": np.arange(40),
            "day": [f"2024-01-{day:02}" for day in np.arange(40) % 28 + 1],
            "x": np.random.default_rng(0).normal(size=40),
        }
    )
    curve = learning_curve(table, y, models={"nb": NaiveBayes(tradeoff=1)}, n_splits=2)
    told = [note.partition(":")[0] for note in curve.notes]
    assert told == ["column 'day'", "column 'row'"]
