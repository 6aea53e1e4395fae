from __future__ import annotations

import pickle

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from crossfade import EntropicMarkovChain
from crossfade.crf.maximum_entropy import MaximumEntropyClassifier


def test_it_is_logistic_regression_without_intercept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = np.array(["a", "b", "c"])[
        (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(150, 3))).argmax(1)
    ]
    ours = clone(MaximumEntropyClassifier(l2=1.0, delta=1e-13)).fit(X, y)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_.toarray(), theirs.coef_, atol=1e-5)
    for form in (X, scipy.sparse.csr_matrix(X)):
        np.testing.assert_allclose(ours.predict_proba(form), theirs.predict_proba(X), atol=1e-5)
        assert ours.predict(form).tolist() == theirs.predict(X).tolist()
    assert ours.score(X, y) == theirs.score(X, y)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict_proba(X), ours.predict_proba(X))


def test_it_serves_the_entropic_chain():
    words = [["the", "dog", "runs"], ["a", "cat", "sleeps"], ["the", "cat", "runs"]] * 3
    tags = [["D", "N", "V"]] * 9
    X = [[{"word": w, "last": w[-1]} for w in s] for s in words]
    chain = EntropicMarkovChain(MaximumEntropyClassifier(l2=0.02)).fit(X, tags)
    assert chain.score(X, tags) == 1.0
