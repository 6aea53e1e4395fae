"""Learning curves over numbers of sentences, generative and discriminative models side by side."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade import ConditionalRandomField, EntropicMarkovChain, HiddenMarkovModel, learning_curve
from crossfade.evaluation.splits import random_splits


@pytest.fixture(scope="module")
def sentences() -> tuple[list[list[str]], list[list[str]]]:
    """Words whose tag the one before helps to tell."""
    rng = np.random.default_rng(5)
    start = HiddenMarkovModel.from_parameters(
        [0.6, 0.3, 0.1],
        [[0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.8, 0.1, 0.1]],
        emissionprob=rng.dirichlet(np.full(12, 0.5), size=3),
        symbols=[f"w{i}" for i in range(12)],
        classes=["D", "N", "V"],
    )
    X, y = start.sample(rng.integers(2, 9, size=80), random_state=1)
    return [x.tolist() for x in X], [tags.tolist() for tags in y]


MODELS = {
    "hmm": HiddenMarkovModel(emission="categorical"),
    "entropic": EntropicMarkovChain(),
    "crf": ConditionalRandomField(),
}


def test_hmm_entropic_chain_and_random_field_side_by_side(sentences, unchanged):
    X, y = unchanged(*sentences)
    curve = learning_curve(X, y, models=MODELS, train_sizes=[8, 60], n_splits=2, train_size=60)
    assert (curve.unit, curve.n_train, curve.n_test) == ("sequences", 60, 20)
    # Each point is what a fit by hand gives.
    split = next(iter(random_splits(80, n_splits=1, n_train=60, random_state=0)))
    for name, model in MODELS.items():
        for j, size in enumerate((8, 60)):
            rows = split.train[:size]
            model.fit([X[r] for r in rows], [y[r] for r in rows])
            wrong = 1.0 - model.score([X[r] for r in split.test], [y[r] for r in split.test])
            assert curve.scores[name]["error"][0, j] == pytest.approx(wrong, abs=1e-12)


def test_more_sentences_help_each(sentences):
    curve = learning_curve(*sentences, models=MODELS, train_sizes=[6, 64], n_splits=3)
    for name in MODELS:
        few, many = curve.scores[name]["log_loss"].mean(axis=0)
        assert many < few
