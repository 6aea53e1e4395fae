from __future__ import annotations

import itertools
import pickle

import numpy as np
import polars as pl
import pycrfsuite
import pytest
import scipy.sparse
from sklearn.base import clone

from crossfade import ConditionalRandomField, EntropicMarkovChain, HiddenMarkovModel
from crossfade.blocks import threads
from crossfade.chains.attributes import AttributeEncoder
from crossfade.chains.input import read_labels
from crossfade.crf.training import Objective, TrainingOptions, train
from crossfade.crf.weights import choose_weights
from crossfade.errors import ConvergenceWarning, DataError

EXACT = {"delta": 0.0, "max_iter": 3000}


def corpus(n=60, n_labels=4, vocabulary=12, seed=0, longest=9):
    """Sentences of string attributes whose labels follow a chain and show in the attributes."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.full(n_labels, 0.6), size=n_labels)
    X, y = [], []
    for length in rng.integers(1, longest + 1, size=n):
        states = [int(rng.integers(n_labels))]
        for _ in range(length - 1):
            states.append(int(rng.choice(n_labels, p=moves[states[-1]])))
        X.append(
            [
                [
                    f"w={(3 * s + rng.integers(5)) % vocabulary}",
                    f"v={rng.integers(vocabulary)}",
                    "bias",
                ]
                for s in states
            ]
        )
        y.append([f"L{s}" for s in states])
    return X, y


def objective_of(X, y, l2=0.6, *, unseen=False, start_stop=True, allowed=None):
    encoded = AttributeEncoder().fit_transform(X)
    labels = read_labels(y, encoded.layout)
    n_labels = len(labels.classes)
    layout = choose_weights(
        encoded,
        labels.codes,
        n_labels,
        start_stop=start_stop,
        unseen_states=unseen,
        unseen_transitions=unseen,
        allowed=np.ones((n_labels, n_labels), dtype=bool) if allowed is None else allowed,
    )
    return Objective(encoded, labels.codes, layout, l2), encoded, labels


def brute_force(model, tokens):
    """Return every path's probability, from the public weights alone."""
    matrix = np.zeros((len(tokens), len(model.encoder_)))
    number = {name: i for i, name in enumerate(model.encoder_.names)}
    for t, token in enumerate(tokens):
        for name in token:
            if name in number:
                matrix[t, number[name]] += 1.0
    scores = matrix @ model.state_weights_.toarray()
    potentials = {}
    for path in itertools.product(range(len(model.classes_)), repeat=len(tokens)):
        total = model.start_weights_[path[0]] + model.stop_weights_[path[-1]]
        total += sum(scores[t, k] for t, k in enumerate(path))
        total += sum(model.transition_weights_[i, j] for i, j in itertools.pairwise(path))
        potentials[path] = total
    top = max(potentials.values())
    weights = {path: np.exp(value - top) for path, value in potentials.items()}
    total = sum(weights.values())
    return {path: weight / total for path, weight in weights.items()}


@pytest.fixture(scope="module")
def fitted():
    X, y = corpus()
    return ConditionalRandomField(l2=0.6).fit(X, y), X, y


def test_everything_is_brute_force_over_all_paths(fitted):
    model, X, y = fitted
    sentences = [s for s in range(len(X)) if len(X[s]) in (1, 2, 4)][:6]
    new = [["w=1", "never seen"], ["bias"], [], ["v=3", "v=3"]]
    chosen = [*(X[s] for s in sentences), new]
    labels = [*(y[s] for s in sentences), ["L0", "L1", "L1", "L3"]]
    n_labels = len(model.classes_)
    place = {name: k for k, name in enumerate(model.classes_)}
    best = model.predict(chosen)
    likely = model.predict(chosen, decode="posterior")
    for s, tokens in enumerate(chosen):
        paths = brute_force(model, tokens)
        marginals = np.zeros((len(tokens), n_labels))
        edges = np.zeros((len(tokens) - 1, n_labels, n_labels))
        for path, share in paths.items():
            for t, k in enumerate(path):
                marginals[t, k] += share
            for t, (i, j) in enumerate(itertools.pairwise(path)):
                edges[t, i, j] += share
        np.testing.assert_allclose(model.predict_proba(chosen)[s], marginals, atol=1e-12)
        np.testing.assert_allclose(model.edge_marginals(chosen)[s], edges, atol=1e-12)
        true = tuple(place[name] for name in labels[s])
        np.testing.assert_allclose(
            model.log_likelihood(chosen, labels)[s], np.log(paths[true]), atol=1e-11
        )
        assert tuple(place[name] for name in best[s]) == max(paths, key=paths.get)
        np.testing.assert_array_equal(likely[s], model.classes_[marginals.argmax(axis=1)])


def test_objective_and_gradient_are_brute_force_and_finite_differences():
    X, y = corpus(n=12, n_labels=3, longest=4)
    for unseen in (False, True):
        objective, encoded, labels = objective_of(X, y, unseen=unseen)
        rng = np.random.default_rng(1)
        theta = rng.normal(size=objective.layout.n_weights)
        value, gradient = objective.value_and_gradient(theta)
        model = ConditionalRandomField()
        model.encoder_, model.classes_ = encoded.encoder, labels.classes
        model._keep(objective.layout, theta)
        place = {name: k for k, name in enumerate(labels.classes)}
        expected = 0.3 * theta @ theta
        for tokens, names in zip(X, y, strict=True):
            expected -= np.log(brute_force(model, tokens)[tuple(place[name] for name in names)])
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for i in range(len(theta)):
            step = np.zeros(len(theta))
            step[i] = 1e-5
            above, below = (objective.value_and_gradient(theta + s)[0] for s in (step, -step))
            np.testing.assert_allclose(gradient[i], (above - below) / 2e-5, atol=2e-6)


def test_scale_is_the_root_of_single_tokens_variances():
    X, y = corpus(n=20)
    objective, encoded, _ = objective_of(X, y)
    theta = np.random.default_rng(0).normal(size=objective.layout.n_weights)
    model = ConditionalRandomField()
    model.encoder_, model.classes_ = encoded.encoder, np.arange(objective.layout.n_labels)
    model._keep(objective.layout, theta)
    p = np.vstack(model.predict_proba(X))
    rows = np.repeat(np.arange(encoded.n_tokens), np.diff(encoded.token_starts))
    table = np.zeros((len(encoded.encoder), p.shape[1]))
    np.add.at(table, encoded.attributes, (p * (1 - p))[rows])
    layout = objective.layout
    ranks, labels = np.divmod(layout.codes, layout.n_labels)
    attribute = np.argsort(layout.rank)
    expected = table[attribute[ranks], labels] + 0.6
    np.testing.assert_allclose(objective.scale(theta)[: layout.n_pairs] ** 2, expected, rtol=1e-10)


def crfsuite(X, y, path, **parameters):
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, names in zip(X, y, strict=True):
        trainer.append(tokens, names)
    trainer.select("lbfgs")
    trainer.set_params({"epsilon": 1e-9, "period": 50, "delta": 1e-12, **parameters})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


@pytest.mark.parametrize("passes", [0, 10])
@pytest.mark.parametrize("start_stop", [False, True])
def test_weights_and_tags_are_crfsuites(tmp_path, start_stop, passes):
    X, y = corpus(n=200, seed=3)
    # CRFsuite has no start and stop weights; two attributes do what they do.
    ends = [
        [
            [*token, *(["<"] if not t else []), *([">"] if t == len(s) - 1 else [])]
            for t, token in enumerate(s)
        ]
        for s in X
    ]
    tagger = crfsuite(ends if start_stop else X, y, tmp_path / "model", c2=0.7)
    theirs = tagger.info()
    model = ConditionalRandomField(l2=1.4, start_stop=start_stop, passes=passes, delta=0.0).fit(
        X, y
    )
    ours = {
        (name, label): weight
        for name, label, weight in zip(
            *model.state_weights_frame().select("attribute", "label", "weight"), strict=True
        )
    }
    edges = {
        (a, b): model.transition_weights_[i, j]
        for i, a in enumerate(model.classes_)
        for j, b in enumerate(model.classes_)
    }
    if start_stop:
        for k, label in enumerate(model.classes_):
            ours["<", label], ours[">", label] = model.start_weights_[k], model.stop_weights_[k]
    assert len(theirs.state_features) >= 60
    for key, weight in theirs.state_features.items():
        assert abs(ours[key] - weight) < 1e-4, key
    assert set(ours) - set(theirs.state_features) <= {(e, c) for e in "<>" for c in model.classes_}
    for key, weight in theirs.transitions.items():
        assert abs(edges[key] - weight) < 1e-4, key
    found = [list(map(str, path)) for path in model.predict(X)]
    assert found == [tagger.tag(tokens) for tokens in (ends if start_stop else X)]


def test_l1_is_crfsuites_and_makes_zeros(tmp_path):
    X, y = corpus(n=200, seed=4)
    theirs = crfsuite(X, y, tmp_path / "model", c1=1.5, c2=0.1).info()
    model = ConditionalRandomField(l1=1.5, l2=0.2, start_stop=False, delta=0.0).fit(X, y)
    objective, _, _ = objective_of(X, y, l2=0.2, start_stop=False)
    assert model._layout.n_weights < 0.9 * objective.layout.n_weights
    ours = {
        (name, label): weight
        for name, label, weight in zip(
            *model.state_weights_frame().select("attribute", "label", "weight"), strict=True
        )
    }
    for key in {*ours, *theirs.state_features}:
        assert abs(ours.get(key, 0.0) - theirs.state_features.get(key, 0.0)) < 1e-3, key
    # Optimality: no weight's gradient exceeds the penalty.
    theta = train(objective, TrainingOptions(l1=1.5, delta=0.0, max_iter=2000)).theta
    gradient = objective.value_and_gradient(theta)[1]
    assert np.abs(gradient[theta == 0]).max() <= 1.5 + 1e-6
    moved = theta != 0
    np.testing.assert_allclose(gradient[moved], -1.5 * np.sign(theta[moved]), atol=1e-4)


def test_stochastic_passes_change_the_way_not_the_optimum():
    X, y = corpus(n=150, seed=5)
    plain, _, _ = objective_of(X, y)
    fast, _, _ = objective_of(X, y)
    a = train(plain, TrainingOptions(passes=0, delta=1e-13))
    b = train(fast, TrainingOptions(passes=10, delta=1e-13))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-8)
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-4)
    start = fast.stochastic_passes(10, 0.5, 0)
    zero = np.zeros_like(start)
    value = fast.value_and_gradient(start)[0]
    assert value - b.value < 0.05 * (fast.value_and_gradient(zero)[0] - b.value)


def test_values_scale_the_passes_and_hopeless_ones_are_dropped():
    rng = np.random.default_rng(0)
    X = [1e4 * rng.normal(size=(5, 3)) for _ in range(80)]
    y = [(x[:, 0] + 3e3 * rng.normal(size=5) > 0).astype(int) for x in X]
    model = ConditionalRandomField(l2=2.0).fit(X, y)
    again = ConditionalRandomField(l2=2.0, passes=0).fit(X, y)
    np.testing.assert_allclose(model.objective_, again.objective_, rtol=1e-4)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e9])
def test_no_unit_of_a_value_ends_the_fit_early(unit):
    """The larger the values, the less their weights' penalty: the optimum can only be lower."""
    rng = np.random.default_rng(4)
    numbers = [rng.normal(size=length) for length in (5, 30, 20, 40)]
    y = [["ab"[int(v + rng.normal() > 0)] for v in some] for some in numbers]

    def objective(unit):
        X = [[{"w": unit * v} for v in some] for some in numbers]
        return ConditionalRandomField(delta=1e-7).fit(X, y).objective_

    assert objective(unit) < objective(10.0)
    np.testing.assert_allclose(objective(unit), objective(1e4), rtol=1e-5)


def test_results_do_not_depend_on_threads():
    X, y = corpus(n=120)
    with threads(1):
        one = ConditionalRandomField().fit(X, y)
    with threads(3):
        three = ConditionalRandomField().fit(X, y)
    np.testing.assert_array_equal(one._theta, three._theta)


def test_order_of_labels_and_repeated_sentences():
    X, y = corpus(n=70)
    settings = {"l2": 0.8, "delta": 1e-10}
    model = ConditionalRandomField(**settings).fit(X, y)
    renamed = [[{"L0": "z", "L1": "y", "L2": "x", "L3": "w"}[name] for name in s] for s in y]
    other = ConditionalRandomField(**settings).fit(X, renamed)
    np.testing.assert_allclose(
        other.transition_weights_[::-1, ::-1], model.transition_weights_, atol=2e-5
    )
    twice = ConditionalRandomField(**settings | {"l2": 1.6}).fit(X + X, y + y)
    np.testing.assert_allclose(twice.objective_, 2 * model.objective_, rtol=1e-8)
    shuffled = np.random.default_rng(0).permutation(len(X))
    mixed = ConditionalRandomField(**settings).fit(
        [X[i] for i in shuffled], [y[i] for i in shuffled]
    )
    np.testing.assert_allclose(mixed.objective_, model.objective_, rtol=1e-8)


def test_forbidden_transitions_are_honoured_in_training_and_decoding():
    X, y = corpus(n=80, seed=6)
    seen = {pair for names in y for pair in itertools.pairwise(names)}
    everything = set(itertools.product({n for s in y for n in s}, repeat=2))
    banned = ("L0", "L1")
    kept_X = [x for x, s in zip(X, y, strict=True) if banned not in itertools.pairwise(s)]
    kept_y = [s for s in y if banned not in itertools.pairwise(s)]
    seen = {pair for names in kept_y for pair in itertools.pairwise(names)}
    assert seen < everything
    noise = corpus(n=60, seed=7)[0]
    free = ConditionalRandomField().fit(kept_X, kept_y)
    strict = ConditionalRandomField(allowed_transitions="seen").fit(kept_X, kept_y)
    pairs = ConditionalRandomField(allowed_transitions=sorted(seen)).fit(kept_X, kept_y)
    np.testing.assert_array_equal(strict.transition_weights_, pairs.transition_weights_)
    used = {tuple(p) for s in strict.predict(noise) for p in itertools.pairwise(map(str, s))}
    assert used <= seen
    assert not {tuple(p) for s in free.predict(noise) for p in itertools.pairwise(s)} <= seen
    i, j = (list(strict.classes_).index(name) for name in banned)
    assert strict.transition_weights_[i, j] == -np.inf
    assert max(edges[:, i, j].max(initial=0) for edges in strict.edge_marginals(noise)) == 0.0
    assert strict.log_likelihood([X[0][:1] * 2], [banned])[0] == -np.inf
    # Forbidding in training too is a better fit to labels that never do it.
    assert strict.log_likelihood(kept_X, kept_y).sum() > free.log_likelihood(kept_X, kept_y).sum()
    with pytest.raises(DataError, match="y: expected transitions within allowed_transitions, got "):
        ConditionalRandomField(allowed_transitions=[("L0", "L0")]).fit(X, y)
    chain = ConditionalRandomField(allowed_transitions="seen").fit([["a", "b"]], [["A", "B"]])
    with pytest.raises(DataError, match="can label, got none such for sequence 1; widen allowed"):
        chain.predict([["a", "b"], ["a", "b", "b"]])


def test_a_single_label_and_single_tokens():
    model = ConditionalRandomField().fit([["a"], ["b", "c"], []], [["X"], ["X", "X"], []])
    assert [s.tolist() for s in model.predict([["a", "q"], [], ["b"]])] == [["X", "X"], [], ["X"]]
    np.testing.assert_allclose(model.log_likelihood([["a"], []], [["X"], []]), 0.0, atol=1e-12)
    assert model.score([["a"]], [["X"]]) == 1.0
    assert model.log_likelihood([["a"]], [["Y"]])[0] == -np.inf


def test_sequences_of_length_one_are_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = (X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(120, 3))).argmax(axis=1)
    model = ConditionalRandomField(l2=1.0, start_stop=False, delta=1e-13)
    model.fit(X, y, lengths=np.ones(120, dtype=int))
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.state_weights_.toarray().T, theirs.coef_, atol=1e-5)
    ones = np.ones(120, dtype=int)
    np.testing.assert_allclose(model.predict_proba(X, ones), theirs.predict_proba(X), atol=1e-5)


def test_the_hidden_markov_models_discriminative_end_is_the_random_field():
    X, y = corpus(n=60, n_labels=3, vocabulary=6)
    words = [[token[0] for token in s] for s in X]
    hmm = HiddenMarkovModel(emission="categorical", tradeoff=0.0, l2=1.0, tol=1e-9).fit(words, y)
    field = ConditionalRandomField(
        l2=1.0, unseen_states=True, unseen_transitions=True, delta=1e-13
    ).fit(words, y)
    from crossfade.chains import recursions

    layout, chain = hmm._scored(words, None)
    log_z = recursions.log_partition(*chain).sum()
    along = 0.0
    place = {name: k for k, name in enumerate(hmm.classes_)}
    values, offsets, start, edges, stop = chain
    for s, names in enumerate(y):
        path = [place[name] for name in names]
        along += start[path[0]] + stop[path[-1]]
        along += sum(values[offsets[s] + t, k] for t, k in enumerate(path))
        along += sum(edges[i, j] for i, j in itertools.pairwise(path))
    np.testing.assert_allclose(field.log_likelihood(words, y).sum(), along - log_z, rtol=1e-6)
    assert layout.n_sequences == 60


def test_matrices_give_what_their_entries_as_dicts_give():
    rng = np.random.default_rng(2)
    dense = [rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6) for n in (3, 1, 5, 4, 2)]
    y = [rng.integers(2, size=len(m)).tolist() for m in dense]
    dicts = [[{f"c{j}": v for j, v in enumerate(row)} for row in m] for m in dense]
    a = ConditionalRandomField(delta=1e-12).fit(dense, y)
    b = ConditionalRandomField(delta=1e-12).fit([scipy.sparse.csr_array(m) for m in dense], y)
    c = ConditionalRandomField(delta=1e-12).fit(dicts, y)
    d = ConditionalRandomField(delta=1e-12).fit(
        np.vstack(dense), np.concatenate(y), lengths=[len(m) for m in dense]
    )
    for other, X in ((b, dense), (c, dicts)):
        np.testing.assert_allclose(
            np.vstack(other.predict_proba(X)), np.vstack(a.predict_proba(dense)), atol=1e-5
        )
    np.testing.assert_array_equal(d._theta, a._theta)
    flat = d.predict(np.vstack(dense), lengths=[len(m) for m in dense])
    np.testing.assert_array_equal(flat, np.concatenate(a.predict(dense)))


def test_pickles_and_prepared_sequences(fitted):
    model, X, y = fitted
    again = pickle.loads(pickle.dumps(model))
    prepared = model.prepare(X)
    for one, other in ((again, prepared), (model, prepared), (again, X)):
        for a, b in zip(one.predict_proba(other), model.predict_proba(X), strict=True):
            np.testing.assert_array_equal(a, b)
    assert model.score(prepared, y) == model.score(X, y)
    refit = ConditionalRandomField(l2=0.6).fit(prepared, y)
    np.testing.assert_array_equal(refit._theta, model._theta)
    foreign = AttributeEncoder().fit_transform([[["other"]]])
    with pytest.raises(DataError, match=r"encoded by this model's encoder_"):
        model.predict(foreign)


def test_frames_and_explanations_add_up(fitted):
    model, X, _ = fitted
    frame = model.state_weights_frame()
    assert frame.columns == ["attribute", "value", "label", "weight"]
    assert len(frame) == model.state_weights_.nnz
    assert frame["weight"].abs().is_sorted(descending=True)
    sentence = next(s for s in X if len(s) == 4)
    explained = model.explain(sentence)
    paths = brute_force(model, sentence)
    place = {name: k for k, name in enumerate(model.classes_)}
    best = tuple(place[name] for name in model.predict([sentence])[0])
    sums = explained.group_by("token", maintain_order=True).agg(
        pl.col("contribution").sum(), pl.col("instead").first()
    )
    for t, total, instead in sums.iter_rows():
        other = (*best[:t], place[instead], *best[t + 1 :])
        np.testing.assert_allclose(total, np.log(paths[best] / paths[other]), atol=1e-10)


def test_inputs_are_left_alone(unchanged):
    X, y = unchanged(*corpus(n=55))
    ConditionalRandomField().fit(X, y).explain(X[0])


def test_wrong_use_is_refused():
    X, y = corpus(n=5)
    with pytest.raises(DataError, match=r"y: expected \d+ labels in sequence 3"):
        ConditionalRandomField().fit(X, [*y[:3], y[3] + ["L0"], y[4]])
    with pytest.raises(DataError, match="y: expected 5 sequences of labels to go with X, got 4"):
        ConditionalRandomField().fit(X, y[:4])
    for bad in (np.nan, np.inf):
        with pytest.raises(
            DataError, match=r"expected finite values, got .* in sequence 1, token 0"
        ):
            ConditionalRandomField().fit([[{"a": 1.0}], [{"b": bad}]], [["A"], ["B"]])
        with pytest.raises(DataError, match="X: expected finite numbers"):
            ConditionalRandomField().fit([np.array([[bad]])], [["A"]])
    for large in ([{"a": -1e200}], np.array([[-1e200]])):
        with pytest.raises(DataError, match=r"a size up to 1e\+150, got -1e\+200; change"):
            ConditionalRandomField().fit([large], [["A"]])
    with pytest.raises(DataError, match="l2: expected a finite number of at least 0, got -1"):
        ConditionalRandomField(l2=-1).fit(X, y)
    with pytest.raises(DataError, match=r"passes: expected a whole number of at least 0, got 0\.5"):
        ConditionalRandomField(passes=0.5).fit(X, y)
    with pytest.raises(DataError, match="X: expected at least one token to train on"):
        ConditionalRandomField().fit([], [])
    with pytest.raises(DataError, match="y: expected labels, got None"):
        ConditionalRandomField().fit(X, y).log_likelihood(X, None)
    with pytest.warns(ConvergenceWarning, match="not at its optimum: stopped after max_iter=1"):
        ConditionalRandomField(max_iter=1).fit(X, y)


@pytest.mark.slow
def test_chunking_is_crfsuites(shared_data, tmp_path):
    from crossfade.tagging.features import window_features
    from crossfade.tagging.metrics import evaluate_tags
    from crossfade.tagging.tokens import read_columns

    X, y = {}, {}
    for part, n in (("train", 300), ("test", 100)):
        sentences = read_columns(shared_data / "conll2000" / f"{part}.txt.gz")[:n]
        columns = [tuple(zip(*s, strict=True)) for s in sentences]
        X[part] = [window_features(words, tags) for words, tags, _ in columns]
        y[part] = [list(labels) for *_, labels in columns]
    tagger = crfsuite(X["train"], y["train"], tmp_path / "model", c2=1.0)
    model = ConditionalRandomField(start_stop=False, delta=1e-11).fit(X["train"], y["train"])
    theirs = tagger.info()
    frame = model.state_weights_frame()
    assert len(frame) == len(theirs.state_features) > 30_000
    for name, label, weight in frame.select("attribute", "label", "weight").iter_rows():
        assert abs(theirs.state_features[name, label] - weight) < 1e-3
    found = [list(map(str, path)) for path in model.predict(X["test"])]
    assert found == [tagger.tag(tokens) for tokens in X["test"]]
    assert evaluate_tags(y["test"], found).chunks_overall.f1 > 0.86


def test_posterior_decoding_honours_forbidden_transitions_and_is_the_best_that_does():
    broken = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = [[f"w{i}" for i in rng.integers(0, 6, size=6)] for _ in range(12)]
        y = [["BIO"[(int(w[1]) + rng.integers(2)) % 3] for w in words] for words in X]
        pairs = {*itertools.product("BIO", repeat=2)} - {("O", "I")}
        # An I after an O becomes an O.
        y = [list("".join(labels).replace("OI", "OO").replace("OI", "OO")) for labels in y]
        y = [labels for labels in y if pairs.issuperset(itertools.pairwise(labels))]
        model = ConditionalRandomField(allowed_transitions=list(pairs), l2=0.1)
        model.fit(X[: len(y)], y)
        new = [[f"w{i}" for i in rng.integers(0, 6, size=5)] for _ in range(40)]
        new += [[], ["w1"]]
        paths = model.predict(new, decode="posterior")
        for marginals, path in zip(model.predict_proba(new), paths, strict=True):
            assert pairs.issuperset(itertools.pairwise(path.tolist()))
            codes = np.searchsorted(model.classes_, path)
            value = marginals[np.arange(len(codes)), codes].sum()
            allowed = [
                sum(marginals[t, k] for t, k in enumerate(other))
                for other in itertools.product(range(3), repeat=len(codes))
                if pairs.issuperset(itertools.pairwise(model.classes_[list(other)].tolist()))
            ]
            assert value == pytest.approx(max(allowed), abs=1e-12)
            best = model.classes_[marginals.argmax(axis=1)].tolist()
            broken += not pairs.issuperset(itertools.pairwise(best))
    assert broken  # else nothing was shown


@pytest.mark.parametrize("model", [ConditionalRandomField(), EntropicMarkovChain()])
def test_labels_left_out_are_asked_for(model):
    X, y = [["a", "b"]] * 2, [["x", "y"]] * 2
    model = clone(model).fit(X, y)
    for use in (model.log_likelihood, lambda X: model.log_likelihood(X, None)):
        with pytest.raises(DataError, match="y: expected labels, got None; the model has a prob"):
            use(X)
    for use in (model.score, model.fit):
        with pytest.raises(DataError, match="y: expected labels, got None; pass a label for every"):
            use(X, None)


def test_pairs_of_labels_that_are_none_are_refused():
    X, y = corpus(n=5)
    for bad in (3, "all", iter([("A", "B")])):
        with pytest.raises(DataError, match="allowed_transitions: expected None, 'seen' or a list"):
            ConditionalRandomField(allowed_transitions=bad).fit(X, y)
    for bad in ([1], ["AB"], [("A", "B", "C")]):
        with pytest.raises(DataError, match=r"expected \(from, to\) pairs of labels, got"):
            ConditionalRandomField(allowed_transitions=bad).fit(X, y)


def test_what_no_allowed_path_can_label_is_refused_by_all():
    model = ConditionalRandomField(allowed_transitions=[("a", "b")])
    model.fit([["x", "y"]] * 2, [["a", "b"]] * 2)
    X, y = [["x", "y"], ["x", "y", "y"]], [["a", "b"], ["a", "b", "b"]]
    for use in (
        model.predict,
        model.predict_proba,
        model.edge_marginals,
        lambda X: model.predict(X, decode="posterior"),
        lambda X: model.log_likelihood(X, y),
    ):
        with pytest.raises(DataError, match="got none such for sequence 1; widen"):
            use(X)


def test_columns_of_names_are_text_whatever_the_features():
    model = ConditionalRandomField().fit([np.eye(3)], [["x", "y", "x"]])
    for frame in (model.state_weights_frame(), model.explain(np.eye(3))):
        assert frame.schema["attribute"] == frame.schema["value"] == pl.String
