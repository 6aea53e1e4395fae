"""Part-of-speech tagging from the generative to the discriminative end.

``python -m benchmarks.tagging`` prints two tables, on CoNLL-2000 and on UD-EWT:

- hidden Markov model → entropic Markov chain → conditional random field, with training times
  (processor seconds of all threads together: they depend little on what else is running; what is
  compiled is loaded before); and
  a maximum-entropy classifier of single words and a maximum-entropy Markov model (McCallum, Freitag
  & Pereira 2000) on the same features, for comparison;
- the hidden Markov model between joint (λ = 1) and conditional likelihood (λ = 0), trained on the
  first 50, 200, 1000 and all sentences, and up to 1,000 with ``tradeoff="auto"``, too.

The data are read from ``--data``, by default $CROSSFADE_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from crossfade import ConditionalRandomField, EntropicMarkovChain, HiddenMarkovModel
from crossfade.crf.maximum_entropy import MaximumEntropyClassifier
from crossfade.tagging import read_columns, shape_features

#: Folder of each corpus; the second column is the tag.
CORPORA = {"CoNLL-2000": "conll2000", "UD-EWT": "ud_ewt"}

SIZES = (50, 200, 1000, None)

#: With no more sentences than this, all models fit into memory with all features.
_FEW = 2000

#: Sentences that a model is trained on first, unclocked: what is compiled is then loaded. More than
#: the random field needs to train in all stages.
_WARM = 60

#: Most sentences on which a tradeoff is chosen: that is nine fits on each of five folds.
_MOST_CHOSEN = 1000

TRADEOFFS = (1.0, 0.9, 0.5, 0.1, 0.01, 0.0)

Words = list[list[str]]


@dataclass(frozen=True)
class Corpus:
    """Words and tags of sentences, to train on and to tag."""

    name: str
    words: Words
    tags: Words
    test_words: Words
    test_tags: Words

    def first(self, number: int | None) -> Corpus:
        """Return the corpus with only so many sentences to train on."""
        return Corpus(
            self.name, self.words[:number], self.tags[:number], self.test_words, self.test_tags
        )


def read(folder: Path, name: str) -> Corpus:
    """Read a corpus."""
    parts: list[Words] = []
    for part in ("train", "test"):
        sentences = read_columns(folder / CORPORA[name] / f"{part}.txt.gz")
        parts.append([[token[0] for token in sentence] for sentence in sentences])
        parts.append([[token[1] for token in sentence] for sentence in sentences])
    return Corpus(name, *parts)


# -- features ------------------------------------------------------------------------------------


@cache
def _spelling(word: str) -> list[str]:
    return shape_features([word])[0]


def spelling(words: Sequence[str]) -> list[list[str]]:
    """Return the features of each word alone: itself, its shape, prefixes and suffixes."""
    return [_spelling(word) for word in words]


FEATURES: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {
    "spelling": spelling,
    "spelling and neighbours": shape_features,
}


# -- models --------------------------------------------------------------------------------------


class SingleWords:
    """A maximum-entropy classifier of each word, without a chain."""

    def fit(self, X: Any, y: Words) -> SingleWords:
        """Train on all tokens, each a sequence of length one."""
        self.field = ConditionalRandomField(l2=2.0, start_stop=False)
        self.field.fit(_alone(X), _alone(y))
        return self

    def predict(self, X: Any) -> list[Any]:
        """Return the most probable tag of each token."""
        flat = np.concatenate(self.field.predict(_alone(X)))
        return np.split(flat, np.cumsum([len(sentence) for sentence in X])[:-1])


class MaximumEntropyMarkovModel(SingleWords):
    """p(tag | tag before, features) by maximum entropy, multiplied along the sentence."""

    def fit(self, X: Any, y: Words) -> MaximumEntropyMarkovModel:
        """Train on all tokens, the true tag before being one more feature."""
        super().fit(
            [
                [
                    [*token, f"before={tag}"]
                    for token, tag in zip(sentence, ["", *tags[:-1]], strict=True)
                ]
                for sentence, tags in zip(X, y, strict=True)
            ],
            y,
        )
        field = self.field
        numbers = {name: number for number, name in enumerate(field.encoder_.names)}
        weights = field.state_weights_.tocsr()
        rows = [numbers.get(f"before={tag}") for tag in ["", *field.classes_.tolist()]]
        none = np.zeros(len(field.classes_))
        self.moves = np.array([none if r is None else weights[[r]].toarray()[0] for r in rows])
        return self

    def predict(self, X: Any) -> list[Any]:
        """Return the most probable path of each sentence (Viterbi)."""
        with np.errstate(divide="ignore"):
            local = np.log(np.vstack(self.field.predict_proba(_alone(X))))
        paths = []
        for lo, hi in pairwise(np.cumsum([0, *(len(sentence) for sentence in X)])):
            # The classifier's scores are linear in its features, so those of the tag before add.
            best = log_softmax(local[lo] + self.moves[0])
            origins = []
            for scores in local[lo + 1 : hi]:
                total = best[:, None] + log_softmax(scores + self.moves[1:], axis=1)
                origins.append(total.argmax(axis=0))
                best = total.max(axis=0)
            path = [int(best.argmax())]
            for origin in reversed(origins):
                path.append(int(origin[path[-1]]))
            paths.append(self.field.classes_[path[::-1]])
        return paths


def _alone(sentences: Any) -> Any:
    return [[token] for sentence in sentences for token in sentence]


def _entropic() -> EntropicMarkovChain:
    return EntropicMarkovChain(MaximumEntropyClassifier(l2=2.0, delta=1e-5))


def accuracy(model: Any, X: Any, tags: Words, **options: Any) -> float:
    """Return the share of tokens tagged right."""
    found = np.concatenate(model.predict(X, **options))
    return float((found == np.concatenate([np.array(t) for t in tags])).mean())


def models(corpus: Corpus) -> str:
    """Return the table of models with accuracy and training time."""
    lines = [
        f"{corpus.name}: {len(corpus.words)} sentences to train on, "
        f"{sum(map(len, corpus.test_tags))} words to tag",
        "",
        "| model | features | accuracy | training, processor seconds |",
        "|---|---|---:|---:|",
    ]

    def line(label: str, features: str, model: Any, X: Any, X_test: Any, **options: Any) -> None:
        model.fit(X[:_WARM], corpus.tags[:_WARM])
        clock = time.process_time()
        model.fit(X, corpus.tags)
        seconds = time.process_time() - clock
        right = accuracy(model, X_test, corpus.test_tags, **options)
        lines.append(f"| {label} | {features} | {right:.4f} | {seconds:.3g} |")
        print(lines[-1], file=sys.stderr, flush=True)

    line("hidden Markov model", "words", HiddenMarkovModel(), corpus.words, corpus.test_words)
    for name, template in FEATURES.items():
        X = [template(words) for words in corpus.words]
        X_test = [template(words) for words in corpus.test_words]
        line("single words, maximum entropy", name, SingleWords(), X, X_test)
        line("maximum-entropy Markov model", name, MaximumEntropyMarkovModel(), X, X_test)
        line("entropic Markov chain", name, _entropic(), X, X_test, decode="posterior")
        # Its weights are dense, one for each attribute and tag; L-BFGS keeps forty such vectors.
        if name == "spelling" or len(X) <= _FEW:
            joint = EntropicMarkovChain(training="joint", tol=1e-4)
            line("the same, jointly trained", name, joint, X, X_test, decode="posterior")
        line("conditional random field", name, ConditionalRandomField(), X, X_test)
    return "\n".join(lines)


def curve(corpus: Corpus, sizes: Sequence[int | None] = SIZES) -> str:
    """Return the table of accuracies by λ (columns) and number of sentences (rows)."""
    lines = [
        f"{corpus.name}: accuracy of HiddenMarkovModel(tradeoff=λ) on words, and processor seconds "
        "of training",
        "",
        "| sentences | " + " | ".join(f"λ={t:g}" for t in TRADEOFFS) + ' | best λ | "auto" |',
        "|---:|" + "---:|" * (len(TRADEOFFS) + 2),
    ]
    warm = corpus.first(_WARM)
    HiddenMarkovModel(tradeoff=0.5).fit(warm.words, warm.tags)
    available = len(corpus.words)
    for number in sorted({min(size or available, available) for size in sizes}):
        part = corpus.first(number)
        cells, found = [], {}
        for tradeoff in (*TRADEOFFS, "auto"):
            if tradeoff == "auto" and number > _MOST_CHOSEN:
                cells.append("")
                continue
            model = HiddenMarkovModel(tradeoff=tradeoff, model_end=True, random_state=0)
            clock = time.process_time()
            model.fit(part.words, part.tags)
            seconds = time.process_time() - clock
            right = accuracy(model, part.test_words, part.test_tags)
            cells.append(f"{right:.4f} ({seconds:.2g} s)")
            if tradeoff != "auto":
                found[tradeoff] = right
        cells.insert(len(TRADEOFFS), f"{max(found, key=found.__getitem__):g}")
        lines.append(f"| {len(part.words)} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tagging", description=__doc__)
    here = Path(os.environ.get("CROSSFADE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=here, help="folder of the corpora")
    parser.add_argument("--corpus", choices=CORPORA, help="only this one")
    parser.add_argument("--table", choices=("models", "curve"), help="only this one")
    parser.add_argument("--sentences", type=int, help="train on no more than the first so many")
    options = parser.parse_args(arguments)
    for name in [options.corpus] if options.corpus else CORPORA:
        corpus = read(options.data, name).first(options.sentences)
        if options.table != "curve":
            print(models(corpus), end="\n\n", flush=True)
        if options.table != "models":
            print(curve(corpus), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
