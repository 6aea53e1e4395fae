"""What is left of a fit whose warning is an error, of the fit before, and of a refused batch."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from crossfade import NaiveBayes
from crossfade.errors import DataError, SeparationWarning

X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=list("abcd"))


def state(model):
    return {name: id(value) for name, value in vars(model).items()}


def test_a_fit_whose_warning_is_an_error_leaves_the_model_whole():
    model = NaiveBayes("gaussian", shared_variance=True, tradeoff=0, l2=0)
    model.tradeoff = 1
    model.fit(FRAME, Y)
    before = state(model)
    model.tradeoff = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeparationWarning)
        with pytest.raises(SeparationWarning):
            model.fit(X[:100], Y[:100])
    assert {k: v for k, v in state(model).items() if k != "tradeoff"} == {
        k: v for k, v in before.items() if k != "tradeoff"
    }


@pytest.mark.parametrize("tradeoff", [1, "auto"])
def test_a_refit_keeps_nothing_of_the_fit_before(tradeoff):
    model = NaiveBayes(tradeoff=tradeoff).fit(FRAME, Y)
    model.fit(X[:, :2], Y)
    fresh = NaiveBayes(tradeoff=tradeoff).fit(X[:, :2], Y)
    assert set(vars(model)) == set(vars(fresh))
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict_proba(X[:, :2]), fresh.predict_proba(X[:, :2]))


def test_a_refused_batch_is_not_counted():
    model = NaiveBayes(tradeoff=1).partial_fit(FRAME[:80], Y[:80], classes=[0, 1, 2])
    with pytest.raises(DataError):
        model.partial_fit(FRAME[80:].assign(a="x"), Y[80:])
    model.partial_fit(FRAME[80:], Y[80:])
    whole = NaiveBayes(tradeoff=1).fit(FRAME, Y)
    np.testing.assert_allclose(model.predict_proba(FRAME), whole.predict_proba(FRAME), rtol=1e-9)
