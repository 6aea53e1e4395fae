"""The random field against CRFsuite on CoNLL-2000 chunking: training and tagging.

Both are given the same strings (19 a token: words and parts of speech in a window of two) and
minimise the same function, c2 = ½ l2 = 1 without start and stop weights. CRFsuite stops after 100
iterations; the accuracy column is the function's value each has reached. Tagging is of features
each library has prepared beforehand; the accuracy column is the share of tokens tagged otherwise
than by us.

``python -m benchmarks.crf`` trains both to convergence (minutes) and says how far weights and
tags agree, and what the test set's chunk F1 is. The data are read from $CROSSFADE_DATA, by
default ../shared/data.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite

from benchmarks.harness import Case
from crossfade import ConditionalRandomField
from crossfade._typing import Floats
from crossfade.chains.input import read_labels
from crossfade.crf.training import Objective
from crossfade.tagging import evaluate_tags, read_columns, window_features

_ITERATIONS = 100

Strings = list[list[list[str]]]


@dataclass(frozen=True)
class Corpus:
    """Feature strings and tags, to train on and to tag."""

    X: Strings
    y: list[list[str]]
    X_test: Strings
    y_test: list[list[str]]


@lru_cache(maxsize=2)
def corpus(scale: float = 1.0) -> Corpus:
    """Return CoNLL-2000, or a share of its sentences."""
    folder = Path(os.environ.get("CROSSFADE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    parts: list[Any] = []
    for name in ("train", "test"):
        sentences = read_columns(folder / "conll2000" / f"{name}.txt.gz")
        sentences = sentences[: max(60, int(scale * len(sentences)))]
        columns = [list(zip(*sentence, strict=True)) for sentence in sentences]
        parts.append([window_features(words, tags) for words, tags, _ in columns])
        parts.append([list(chunks) for _, _, chunks in columns])
    return Corpus(*parts)


def crfsuite_trainer(data: Corpus, iterations: int, **parameters: Any) -> Any:
    """Return CRFsuite's trainer with the corpus, ready to be started."""
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.select("lbfgs")
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": iterations, **parameters})
    for tokens, names in zip(data.X, data.y, strict=True):
        trainer.append(tokens, names)
    return trainer


def crfsuite(data: Corpus, iterations: int = _ITERATIONS, **parameters: Any) -> Any:
    """Train CRFsuite; return its tagger."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model"))
        crfsuite_trainer(data, iterations, **parameters).train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return tagger


def ours(data: Corpus, **settings: Any) -> ConditionalRandomField:
    """Train the random field on the same weights as CRFsuite's."""
    return ConditionalRandomField(l2=2.0, start_stop=False, **settings).fit(data.X, data.y)


def weights_of(model: ConditionalRandomField, tagger: Any) -> Floats:
    """Return CRFsuite's weights in the order of the model's own."""
    info = tagger.info()
    layout, names = model._layout, model.encoder_.names
    ranks, labels = np.divmod(layout.codes, layout.n_labels)
    attribute = np.argsort(layout.rank)
    classes = model.classes_.tolist()
    state, edges = info.state_features, info.transitions
    pairs = zip(attribute[ranks].tolist(), labels.tolist(), strict=True)
    moves = zip(*np.divmod(layout.transitions, layout.n_labels), strict=True)
    return np.array(
        [
            *(state.get((names[a], classes[k]), 0.0) for a, k in pairs),
            *(edges.get((classes[i], classes[j]), 0.0) for i, j in moves),
        ]
    )


@lru_cache(maxsize=2)
def _reference(data_size: int, scale: float) -> tuple[ConditionalRandomField, Objective]:
    """Return a model and the objective, to evaluate weights with."""
    data = corpus(scale)
    model = ours(data)
    encoded = model.prepare(data.X)
    codes = read_labels(data.y, encoded.layout).codes
    return model, Objective(encoded, codes, model._layout, 1.0)


def _objective(scale: float) -> Callable[[Corpus, Any], float]:
    def reached(data: Corpus, result: Any) -> float:
        if isinstance(result, ConditionalRandomField):
            return result.objective_
        model, objective = _reference(len(data.X), scale)
        return float(objective.value_and_gradient(weights_of(model, result))[0])

    return reached


def _our_tagging(data: Corpus) -> Callable[[], Any]:
    model = ours(data, delta=1e-3)
    prepared = model.prepare(data.X_test)
    return lambda: np.concatenate(model.predict(prepared))


def _their_tagging(data: Corpus) -> Callable[[], Any]:
    tagger = crfsuite(data, 30)
    items = [pycrfsuite.ItemSequence(tokens) for tokens in data.X_test]
    return lambda: np.concatenate([tagger.tag(sentence) for sentence in items])


def _wrong(data: Corpus, result: Any) -> float:
    return float((result != np.concatenate(data.y_test)).mean())


CASES = [
    Case(
        name="CRF, CoNLL-2000: training, 450,000 weights",
        make=corpus,
        # Stopped earlier than by default, and still beyond what CRFsuite reaches.
        ours=lambda data: lambda: ours(data, delta=1e-3),
        rivals={f"CRFsuite ({_ITERATIONS} iterations)": lambda data: lambda: crfsuite(data)},
        goal=2.5,
        accuracy=_objective(1.0),
        accuracy_name="objective",
    ),
    Case(
        name="CRF, CoNLL-2000: tagging 47,377 tokens of prepared features",
        make=corpus,
        ours=_our_tagging,
        rivals={"CRFsuite": _their_tagging},
        goal=2.0,
        accuracy=_wrong,
        accuracy_name="error rate",
    ),
]


def agreement(
    scale: float = 1.0, *, delta: float = 1e-10, iterations: int = 2000
) -> dict[str, float]:
    """Train both to convergence and compare.

    Parameters
    ----------
    scale : float
        Share of the sentences.
    delta : float
        Relative decrease over ten steps at which both stop.
    iterations : int
        Most iterations of CRFsuite.

    Returns
    -------
    dict
        Largest difference of weights, number of differing tags, objectives, chunk F1 on the test
        set, seconds.
    """
    data = corpus(scale)
    clock = time.perf_counter()
    model = ours(data, delta=delta)
    middle = time.perf_counter()
    tagger = crfsuite(data, iterations, delta=delta, epsilon=1e-9)
    end = time.perf_counter()
    theirs = weights_of(model, tagger)
    encoded = model.prepare(data.X)
    objective = Objective(encoded, read_labels(data.y, encoded.layout).codes, model._layout, 1.0)
    our_tags = [list(map(str, path)) for path in model.predict(data.X_test)]
    their_tags = [tagger.tag(tokens) for tokens in data.X_test]
    report = evaluate_tags(data.y_test, our_tags)
    assert report.chunks_overall is not None
    return {
        "weights": float(len(theirs)),
        "largest difference of weights": float(np.abs(theirs - model._theta).max()),
        "differing tags": float(
            sum(
                a != b
                for s, t in zip(our_tags, their_tags, strict=True)
                for a, b in zip(s, t, strict=True)
            )
        ),
        "objective": model.objective_,
        "objective of CRFsuite": float(objective.value_and_gradient(theirs)[0]),
        "chunk F1": report.chunks_overall.f1,
        "seconds": middle - clock,
        "seconds of CRFsuite": end - middle,
    }


if __name__ == "__main__":
    for name, value in agreement().items():
        print(f"{name}: {value:.10g}")
