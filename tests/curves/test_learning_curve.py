"""learning_curve as people call it: nested sets, paired splits, interruptions, checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from crossfade import DataError, LearningCurve, NaiveBayes, learning_curve
from crossfade.curves.splits import repeated_splits

ROOT = Path(__file__).parents[2]


class Watcher(ClassifierMixin, BaseEstimator):
    """Predicts the first class, and writes down which rows it was fitted on."""

    seen: list[tuple[set[float], set[Any]]] = []  # noqa: RUF012 - shared on purpose

    def fit(self, X: Any, y: Any) -> Watcher:
        self.classes_ = np.unique(y)
        Watcher.seen.append((set(X[:, 0].tolist()), set(y.tolist())))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def blobs(n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, 3, size=n))  # sorted: a class after the other
    return rng.normal(size=(n, 2)) + y[:, None], np.array(["a", "b", "c"])[y]


def test_larger_training_sets_hold_the_smaller_and_every_class():
    X, y = blobs()
    X[:, 0] = np.arange(len(X))
    Watcher.seen.clear()
    learning_curve({"watch": Watcher()}, X, y, train_sizes=[3, 10, 40, 90], n_splits=4)
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
    curve = learning_curve(models, X, y, train_sizes=[9, 30], n_splits=3, random_state=5)
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
    curve = learning_curve(models, X, y, train_sizes=[9, 30], n_splits=3)
    frame = curve.frame()
    assert frame.columns == ["split", "m", "model", "error", "log_loss", "brier"]
    assert frame.shape == (12, 6)
    one = frame.filter((frame["split"] == 2) & (frame["m"] == 30) & (frame["model"] == "nb"))
    assert one["brier"].item() == curve.scores["nb"]["brier"][2, 1]
    assert frame.filter(frame["model"] == "ridge")["log_loss"].null_count() == 6


def test_the_first_splits_of_a_long_run_are_those_of_a_short_one():
    X, y = blobs()
    models = {"nb": NaiveBayes(tradeoff=1)}
    short = learning_curve(models, X, y, n_splits=2)
    long = learning_curve(models, X, y, n_splits=20)
    np.testing.assert_array_equal(short.scores["nb"]["brier"], long.scores["nb"]["brier"][:2])
    assert short.sizes[0] == 15
    assert short.sizes[-1] == 96


@pytest.mark.parametrize(
    ("given", "sizes"),
    [([0.25, 0.5, 1.0], (24, 48, 96)), ([0.01], (3,)), ([50, 20, 20], (20, 50)), ([96.0], (96,))],
)
def test_sizes_are_counts_or_fractions_of_the_training_part(given, sizes):
    X, y = blobs()
    assert learning_curve({"nb": GaussianNB()}, X, y, train_sizes=given, n_splits=1).sizes == sizes


@pytest.mark.parametrize("given", ["linear", [], [2], [97], [0.5, 20], [np.nan], 10, [[10]]])
def test_other_sizes_are_refused(given):
    X, y = blobs()
    with pytest.raises(DataError, match="train_sizes: expected 'log', counts from 3"):
        learning_curve({"nb": GaussianNB()}, X, y, train_sizes=given, n_splits=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": {}}, "models: expected a mapping"),
        ({"models": {"x": 3}}, "models: expected scikit-learn classifiers"),
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
    runs = [learning_curve(forest, X, y, train_sizes=[20, 60], n_splits=2) for _ in range(2)]
    assert runs[0].frame().equals(runs[1].frame())
    assert forest["forest"].random_state is None


class Breaks(ClassifierMixin, BaseEstimator):
    """Cannot be fitted on fewer rows than it wants."""

    def __init__(self, least: int = 10) -> None:
        self.least = least

    def fit(self, X: Any, y: Any) -> Breaks:
        if len(X) < self.least:
            raise ValueError(f"{len(X)} rows are too few")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def test_fits_that_fail_are_missing_and_noted():
    X, y = blobs()
    curve = learning_curve({"b": Breaks(20)}, X, y, train_sizes=[10, 15, 40], n_splits=3)
    error = curve.scores["b"]["error"]
    assert np.isnan(error[:, :2]).all()
    assert np.isfinite(error[:, 2]).all()
    assert curve.notes == ("b: 6 fits failed: 10 rows are too few",)
    with pytest.raises(DataError, match="all 6 fits failed: 10 rows are too few"):
        learning_curve({"b": Breaks(200)}, X, y, train_sizes=[10, 40], n_splits=3)


class Interrupts(Breaks):
    """Ctrl-C at the given number of fits."""

    fits = 0

    def fit(self, X: Any, y: Any) -> Breaks:
        Interrupts.fits += 1
        if Interrupts.fits == self.least:
            raise KeyboardInterrupt
        self.classes_ = np.unique(y)
        return self


def test_ctrl_c_returns_what_is_done():
    X, y = blobs()
    Interrupts.fits = 0
    curve = learning_curve({"i": Interrupts(6)}, X, y, train_sizes=[10, 40], n_splits=10)
    assert (curve.n_splits, curve.complete) == (2, False)
    assert "(interrupted)" in repr(curve)
    Interrupts.fits = 0
    with pytest.raises(KeyboardInterrupt):
        learning_curve({"i": Interrupts(1)}, X, y, train_sizes=[10, 40], n_splits=10)


def test_progress_is_told():
    X, y = blobs()
    told: list[tuple[int, int, str]] = []
    learning_curve(
        {"g": GaussianNB()}, X, y, n_splits=3, progress=lambda *report: told.append(report)
    )
    assert told[-1] == (3, 3, "split 3 of 3")


# -- checkpoints -------------------------------------------------------------------------------

RUN = """
import sys, time
import numpy as np
from sklearn.linear_model import LogisticRegression
from crossfade import NaiveBayes, learning_curve

class Slow(LogisticRegression):
    def fit(self, X, y):
        time.sleep(float(sys.argv[2]))
        return super().fit(X, y)

rng = np.random.default_rng(0)
y = np.arange(80) % 2
X = rng.normal(size=(80, 2)) + y[:, None]
models = {"nb": NaiveBayes(tradeoff=1), "lr": Slow()}
curve = learning_curve(
    models, X, y, train_sizes=[10, 30, 60], n_splits=24, checkpoint=sys.argv[1]
)
curve.frame().write_csv(sys.argv[1] + ".csv")
"""


def start(folder: Path, name: str, pause: float) -> subprocess.Popen[bytes]:
    script = folder / "run.py"
    script.write_text(RUN, encoding="utf-8")
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(script), str(folder / name), str(pause)],
        env={**os.environ, "PYTHONPATH": path},
    )


def test_a_killed_run_continues_to_the_same_bytes(tmp_path):
    assert start(tmp_path, "whole", 0.0).wait() == 0
    killed = start(tmp_path, "killed", 0.02)
    file, deadline = tmp_path / "killed", time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= 6):
        assert time.monotonic() < deadline
        assert killed.poll() is None
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    lines = file.read_bytes().count(b"\n")
    assert 6 <= lines < 25  # the heading and some splits, not all
    with file.open("ab") as torn:
        torn.write(b'{"scores": {"nb": [[0.1')  # as a kill in the middle of a write leaves it
    assert start(tmp_path, "killed", 0.0).wait() == 0
    assert file.read_bytes() == (tmp_path / "whole").read_bytes()
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_checkpoint_is_continued_with_more_splits_and_read_with_fewer(tmp_path):
    X, y = blobs()
    models = {"b": Breaks(20), "g": GaussianNB()}
    settings = {"train_sizes": [10, 40], "checkpoint": tmp_path / "file"}
    learning_curve(models, X, y, n_splits=2, **settings)
    five = learning_curve(models, X, y, n_splits=5, **settings)
    whole = learning_curve(models, X, y, n_splits=5, train_sizes=[10, 40])
    assert five.frame().equals(whole.frame())
    assert five.notes == whole.notes == ("b: 5 fits failed: 10 rows are too few",)
    assert learning_curve(models, X, y, n_splits=3, **settings).n_splits == 3
    assert (tmp_path / "file").read_bytes().count(b"\n") == 6


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"models": {"g": GaussianNB(var_smoothing=1e-3)}}, "models"),
        ({"train_sizes": [10, 41]}, "sizes"),
        ({"random_state": 1}, "seed"),
        ({"X": blobs(seed=1)[0]}, "data"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path, change, named):
    X, y = blobs()
    file = tmp_path / "file"
    settings = {"models": {"g": GaussianNB()}, "X": X, "y": y, "train_sizes": [10, 40]}
    settings |= {"n_splits": 2, "checkpoint": file}
    learning_curve(**settings)
    before = file.read_bytes()
    with pytest.raises(DataError, match=f"has other {named}; repeat the run"):
        learning_curve(**(settings | change))
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"precious\n", b"no newline", b'{"format": 1}\n', b"\xff\n"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path, content):
    X, y = blobs()
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(DataError, match="expected a new file or one that learning_curve wrote"):
        learning_curve({"g": GaussianNB()}, X, y, n_splits=2, checkpoint=file)
    assert file.read_bytes() == content


def test_a_checkpoint_in_a_folder_that_is_not_there_is_an_error(tmp_path):
    X, y = blobs()
    with pytest.raises(OSError, match="No such file"):
        learning_curve({"g": GaussianNB()}, X, y, n_splits=2, checkpoint=tmp_path / "a" / "b")


def test_the_result_says_what_it_is():
    X, y = blobs()
    curve = learning_curve({"g": GaussianNB()}, X, y, train_sizes=[10, 40], n_splits=2)
    assert isinstance(curve, LearningCurve)
    assert repr(curve).startswith("<LearningCurve: 'g' on 2 sizes from 10 to 40 rows, 2 splits")
    with pytest.raises(AttributeError):
        curve.sizes = ()
