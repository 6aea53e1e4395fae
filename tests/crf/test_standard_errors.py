"""Errors of a random field's coefficients: against brute force, regressions, the chain's own."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from crossfade import ConditionalRandomField, ConvergenceWarning, DataError, HiddenMarkovModel
from crossfade.densities import Gaussian
from crossfade.glm import MultinomialRegression

EXACT = {"delta": 0.0, "max_iter": 3000}
TRUTH = HiddenMarkovModel.from_parameters(
    np.ones(3) / 3, np.eye(3) * 0.4 + 0.2, means=[[0.0], [1.0], [2.0]], covars=np.ones((3, 1))
)


def sequences(n=60, longest=4):
    return TRUTH.sample(np.random.default_rng(1).integers(1, longest + 1, size=n), random_state=2)


def words(n=60):
    """Tokens of one word and one shape, and a number."""
    rng = np.random.default_rng(3)
    X, y = [], []
    for length in rng.integers(1, 5, size=n):
        states = rng.integers(3, size=length)
        word = (states + rng.integers(2, size=length)) % 3
        X.append(
            [
                {"w": "abc"[one], "size": 0.5 * state + rng.normal(), "odd": bool(one % 2)}
                for one, state in zip(word, states, strict=True)
            ]
        )
        y.append([f"L{state}" for state in states])
    return X, y


def of_path(path, tokens, names, k):
    """Return what a path's score is linear in: a weight each, of all labels."""
    found = np.zeros((len(names) + k + 2, k))
    for state, token in zip(path, tokens, strict=True):
        for name, value in token.items():
            key, amount = ((name, value), 1.0) if isinstance(value, str) else (name, float(value))
            if amount:
                found[names.index(key), state] += amount
    for before, state in pairwise(path):
        found[len(names) + before, state] += 1.0
    found[-2, path[0]] += 1.0
    found[-1, path[-1]] += 1.0
    return found.ravel()


@pytest.mark.parametrize("reference", [0, 2])
def test_the_sandwich_of_brute_force_over_all_paths(reference):
    X, y = words()
    l2, k = 0.7, 3
    model = ConditionalRandomField(l2=l2, unseen_states=True, unseen_transitions=True, **EXACT)
    found = model.fit(X, y).summary(X, y, reference=f"L{reference}")
    names = model.encoder_.names
    theta = np.vstack(
        [
            model.state_weights_.toarray(),
            model.transition_weights_,
            model.start_weights_,
            model.stop_weights_,
        ]
    ).ravel()
    H, gradients = l2 * np.eye(theta.size), []
    for x, own in zip(X, y, strict=True):
        every = np.array([of_path(path, x, names, k) for path in product(range(k), repeat=len(x))])
        score = every @ theta
        share = np.exp(score - np.logaddexp.reduce(score))
        mean = share @ every
        H += (share[:, None] * every).T @ every - np.outer(mean, mean)
        gradients.append(of_path([int(label[1]) for label in own], x, names, k) - mean)
    psi = np.array(gradients)
    assert_allclose(psi.sum(axis=0), l2 * theta, atol=1e-5)
    inverse = np.linalg.inv(H)
    psi -= psi.mean(axis=0)
    covariance = inverse @ psi.T @ psi @ inverse

    # By hand: the log of how much likelier one label makes a path than the reference.
    wanted = []
    for state in range(k):
        if state == reference:
            continue

        def odds(tokens, before, after, state=state):
            paths = [[*before, one, *after] for one in (state, reference)]
            padded = [{}] * len(before) + [tokens] + [{}] * len(after)
            one, other = (of_path(path, padded, names, k) for path in paths)
            return one - other

        between = odds({}, [reference], [reference])
        wanted += [between, odds({}, [], [reference]) - between]
        wanted += [odds({}, [reference], []) - between]
        wanted += [
            odds({}, [other], [reference]) - between for other in range(k) if other != reference
        ]
        for name in names:
            token = {name[0]: name[1]} if isinstance(name, tuple) else {name: 1.0}
            wanted.append(odds(token, [reference], [reference]) - between)
    C = np.array(wanted)
    assert_allclose(found.estimates, C @ theta, rtol=1e-9, atol=1e-12)
    assert_allclose(found.covariance, C @ covariance @ C.T, rtol=1e-5, atol=1e-7)
    shown = ["=".join(name) if isinstance(name, tuple) else name for name in names]
    neighbours = [f"after L{other}" for other in range(k) if other != reference]
    terms = ("intercept", "first step", "last step", *neighbours, *shown)
    assert found.terms == terms * 2
    assert {one.column: one.df for one in found.tests} == {
        "neighbours": 4,
        "w": 6,
        "size": 2,
        "odd": 2,
    }


def test_what_a_chain_of_its_discriminative_end_says_a_random_field_says_too():
    X, y = sequences()
    chain = HiddenMarkovModel(
        emission=Gaussian(shared_variance=True), tradeoff=0, l2=0.0, tol=1e-12, max_iter=3000
    )
    wanted = chain.fit(X, y).summary(X, y)
    field = ConditionalRandomField(l2=0.0, unseen_transitions=True, **EXACT)
    found = field.fit(X, y).summary(X, y)
    assert found.names == wanted.names
    assert_allclose(found.estimates, wanted.estimates, atol=1e-5)
    assert_allclose(found.covariance, wanted.covariance, rtol=1e-4, atol=1e-6)
    stacked = np.concatenate(X), np.concatenate(y), [len(x) for x in X]
    assert_allclose(field.summary(*stacked).covariance, found.covariance, rtol=1e-9)
    narrow = field.summary(X, y, level=0.5)
    assert (narrow.upper - narrow.lower < found.upper - found.lower).all()


def test_tokens_on_their_own_have_the_robust_errors_of_a_regression():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(3), rng.integers(3, size=150)])
    x = rng.normal(size=(len(y), 2)) + 0.7 * y[:, None]
    field = ConditionalRandomField(l2=0.0, **EXACT).fit(x, y, [1] * len(y))
    found = field.summary(x, y, [1] * len(y))
    regression = MultinomialRegression().fit(x, y)
    wanted = regression.robust_covariance("HC0")
    slopes = [i for i, term in enumerate(found.terms) if term.startswith("x")]
    same = [1, 2, 4, 5]
    assert_allclose(found.covariance[np.ix_(slopes, slopes)], wanted[np.ix_(same, same)], rtol=1e-5)
    # Without neighbours the intercept and what both ends add are not told apart.
    assert np.isnan(np.delete(found.standard_errors, slopes)).all()
    assert "leave open" in found.notes[-1]


def test_each_sequence_twice_halves_the_covariance():
    X, y = words()
    once = ConditionalRandomField(l2=0.5, **EXACT).fit(X, y).summary(X, y)
    twice = ConditionalRandomField(l2=1.0, **EXACT).fit(X + X, y + y).summary(X + X, y + y)
    assert_allclose(twice.covariance, once.covariance / 2.0, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["neighbours", "intercept", "after L1", "first step"])
def test_attributes_may_be_called_as_what_a_chain_adds(name):
    X, y = words()
    tests, terms = [], []
    for one in ("size", name):
        tokens = [[{one: token["size"]} for token in sequence] for sequence in X]
        found = ConditionalRandomField(**EXACT).fit(tokens, y).summary(tokens, y)
        terms.append(found.terms)
        tests.append({test.column: (test.df, test.p_value) for test in found.tests})
    assert len(set(terms[1])) == len(set(terms[0]))
    assert tests[1].pop(name) == tests[0].pop("size")
    assert list(tests[1].values()) == list(tests[0].values())


def test_what_has_no_errors_is_refused():
    X, y = words()
    model = ConditionalRandomField().fit(X, y)
    with pytest.raises(DataError, match=r"^X: expected the sequences of fit, .* give those of fit"):
        model.summary(X[:40], y[:40])
    new = [[{"w": "c"}] for _ in X]
    rare = ConditionalRandomField().fit([*X, [{"w": "z"}]], [*y, ["L0"]])
    with pytest.raises(DataError, match=r"^X: expected the sequences of fit, .* one of inf;"):
        rare.summary([*X, [{"w": "z"}]], [*y, ["L1"]])
    with pytest.raises(DataError, match=r"^X: expected the sequences of fit"):
        model.summary(new, [["L1"]] * len(X))
    with pytest.raises(DataError, match=r"^l1: expected 0 for standard errors, got 0\.5, "):
        ConditionalRandomField(l1=0.5).fit(X, y).summary(X, y)
    pairs = [(a, b) for a in ("L0", "L1", "L2") for b in ("L0", "L1", "L2")]
    full = ConditionalRandomField(allowed_transitions=pairs).fit(X, y)
    assert full.summary(X, y).names == model.summary(X, y).names
    short, labels = [x[:1] for x in X], [own[:1] for own in y]
    barred = ConditionalRandomField(allowed_transitions=pairs[:8]).fit(short, labels)
    with pytest.raises(DataError, match=r"^allowed_transitions: .* got 1 that are, .*=None$"):
        barred.summary(short, labels)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        stopped = ConditionalRandomField(max_iter=1, passes=0).fit(X, y)
    with pytest.raises(DataError, match=r"^summary: expected a fit within 0\.1 standard errors"):
        stopped.summary(X, y)
    with pytest.raises(DataError, match=r"^reference: expected one of the classes 'L0', "):
        model.summary(X, y, reference="L7")
    with pytest.raises(DataError, match=r"^level: "):
        model.summary(X, y, level=1.0)
    one = ConditionalRandomField(**EXACT).fit(X[:1], y[:1])
    with pytest.raises(DataError, match=r"^summary: expected at least two sequences, .* got 1;"):
        one.summary(X[:1], y[:1])
    many = [[str(i), str(i + 1)] for i in range(600)], [["a", "b"]] * 600
    with pytest.raises(DataError, match=r"^summary: expected at most 500 weights, got 12\d\d,"):
        ConditionalRandomField().fit(*many).summary(*many)
