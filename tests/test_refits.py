"""A fit that is refused leaves the model as it was: whole, and for its own columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes
from crossfade.crf import ConditionalRandomField
from crossfade.glm import BinomialRegression, MultinomialRegression, PoissonRegression
from crossfade.hmm import EntropicMarkovChain, HiddenMarkovModel
from crossfade.table.preparation import Preparation
from crossfade.theory import ZeroOneLinearClassifier
from tests.support import same

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), np.arange(60) % 2
STEPS = [RNG.normal(size=(20, 2)) for _ in range(3)]
STATES = [np.arange(20) % 2] * 3
WORDS = [[{"w=a"}, {"w=b"}, {"w=a"}], [{"w=b"}, {"w=b"}, {"w=c"}]]
TAGS = [["x", "y", "x"], ["y", "y", "x"]]


def wider(X):
    """Return other cells in one more column, the last of them no number."""
    more = np.column_stack([X[:, ::-1] + 1.0, np.ones(len(X))])
    more[-1, -1] = np.inf
    return more


#: Each with what it is fitted to; rows and labels.
ESTIMATORS = {
    "auto": (NaiveBayes(), X, Y),
    "batches": (NaiveBayes(tradeoff=1), X, Y),
    "discriminant": (GaussianDiscriminant(tradeoff=0.5), X, Y),
    "entropic": (EntropicNaiveBayes(DecisionTreeClassifier(max_depth=2)), X, Y),
    "preparation": (Preparation(), X, Y),
    "binomial": (BinomialRegression(), X, Y),
    "poisson": (PoissonRegression(), X, Y),
    "multinomial": (MultinomialRegression(), X, np.arange(60) % 3),
    "zero-one": (ZeroOneLinearClassifier(), X, Y),
    "hidden Markov": (HiddenMarkovModel(emission="gaussian"), STEPS, STATES),
    "Markov chain": (EntropicMarkovChain(), STEPS, STATES),
    "random field": (ConditionalRandomField(), WORDS, TAGS),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_refused_fit_leaves_the_model_as_it_was(name, method):
    model, rows, labels = ESTIMATORS[name]
    if not hasattr(model, method):
        pytest.skip("not made in batches")
    use = model.transform if hasattr(model, "transform") else model.predict
    getattr(model, method)(rows, labels)
    before, found = dict(vars(model)), use(rows)
    if isinstance(rows, np.ndarray):
        bad = [
            (wider(rows), labels),
            (wider(rows)[:, :2], labels[:-1]),
            (rows[:, :1], labels + 0.5),
        ]
    else:
        other = [[{"w=new"}] * 3] * 2 if name == "random field" else [wider(x) for x in rows]
        bad = [(other, labels[:-1]), (other, [np.full(len(y), None) for y in labels])]
    refused = 0
    for again, y in bad:
        try:
            getattr(model, method)(again, y)
        except ValueError:
            refused += 1
            assert vars(model).keys() == before.keys()
            assert all(vars(model)[key] is value for key, value in before.items())
            assert same(use(rows), found)
        else:  # labels that Preparation does not look at, or a Poisson variable's fractions
            getattr(model, method)(rows, labels)
            before = dict(vars(model))
    assert refused
