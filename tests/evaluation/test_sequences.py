"""Learning curves of models of sequences: sizes are sequences, scores are of steps."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade import DataError, HiddenMarkovModel, learning_curve
from crossfade.evaluation.splits import random_splits


def sentences(n: int = 60, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = [int(rng.integers(3))]
        for _ in range(rng.integers(2, 8)):
            tags.append(int(rng.choice([tags[-1], (tags[-1] + 1) % 3], p=[0.7, 0.3])))
        X.append([f"w{3 * t + rng.integers(3) if rng.random() < 0.8 else 9}" for t in tags])
        y.append([f"T{t}" for t in tags])
    return X, y


def test_steps_are_scored_and_sequences_counted(unchanged):
    X, y = unchanged(*sentences())
    model = HiddenMarkovModel(emission="categorical", tradeoff=1)
    curve = learning_curve(X, y, models={"hmm": model}, train_sizes=[10, 48], n_splits=2)
    assert (curve.unit, curve.n_train, curve.n_test) == ("sequences", 48, 12)
    for i, split in enumerate(random_splits(60, n_splits=2, n_train=48, random_state=0)):
        for j, size in enumerate((10, 48)):
            rows = split.train[:size]
            model.fit([X[r] for r in rows], [y[r] for r in rows])
            held = [X[r] for r in split.test], [y[r] for r in split.test]
            wrong = 1.0 - model.score(*held)
            assert curve.scores["hmm"]["error"][i, j] == pytest.approx(wrong, abs=1e-12)
            marginals = np.concatenate(model.predict_proba(held[0]))
            truth = np.searchsorted(model.classes_, np.concatenate(held[1]))
            loss = -np.log(marginals[np.arange(len(truth)), truth]).mean()
            assert curve.scores["hmm"]["log_loss"][i, j] == pytest.approx(loss, abs=1e-10)
    assert "10 to 48 sequences" in repr(curve)


def test_a_label_that_few_sentences_lack_is_still_a_label():
    X, y = sentences(20)
    X.append(["w0", "w1"])
    y.append(["rare", "T0"])
    model = HiddenMarkovModel(emission="categorical", tradeoff=1)
    curve = learning_curve(X, y, models={"hmm": model}, train_sizes=[2, 10], n_splits=5)
    assert np.isfinite(curve.scores["hmm"]["brier"]).all()


def test_sequences_can_be_continued(tmp_path):
    X, y = sentences(30)
    models = {"hmm": HiddenMarkovModel(emission="categorical", tradeoff=1)}
    settings = {"train_sizes": [5, 20], "checkpoint": tmp_path / "file"}
    learning_curve(X, y, models=models, n_splits=1, **settings)
    continued = learning_curve(X, y, models=models, n_splits=3, **settings)
    assert continued.frame().equals(
        learning_curve(X, y, models=models, n_splits=3, train_sizes=[5, 20]).frame()
    )


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([["a", "b"], ["c"]], [["x", "y"], ["x", "y"]], "y"),
        (np.zeros((3, 1)), [["x"], ["y"], ["x"]], "X: expected a list of sequences"),
        ([["a"], []], [["x"], []], "X: expected two sequences or more, none of them empty"),
        ([["a"], ["b"]], [["x"], ["x"]], "y: expected at least 2 different labels"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(X, y, words):
    with pytest.raises(DataError, match=words):
        learning_curve(
            X, y, models={"hmm": HiddenMarkovModel(emission="categorical", tradeoff=1)}, n_splits=1
        )
