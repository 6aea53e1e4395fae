"""Labelled sequences for tests."""

from __future__ import annotations

import numpy as np

from crossfade import HiddenMarkovModel


def labelled(kind, seed=0, n_sequences=40, longest=9, heavy=False):
    """Sequences of three states: symbols, or two columns with (perhaps) missing cells or tails."""
    rng = np.random.default_rng(seed)
    truth = HiddenMarkovModel.from_parameters(
        [0.6, 0.3, 0.1],
        rng.dirichlet(np.ones(3), size=3),
        emissionprob=rng.dirichlet(np.ones(5), size=3),
    )
    X, y = truth.sample(rng.integers(1, longest, size=n_sequences), random_state=seed)

    def noise(n):
        return rng.standard_t(2, size=n) if heavy else rng.normal(size=n)

    if kind != "categorical":
        X = [np.column_stack([x + 0.3 * noise(len(x)), (x - 2.0) ** 2 + noise(len(x))]) for x in X]
    if kind == "missing":
        X = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in X]
    return X, y
