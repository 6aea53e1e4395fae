"""``crossfade tag``: learn tags from a column file, tag another, and count what is right."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from crossfade.commands.options import Encoding, Json, there


class ModelName(StrEnum):
    """Models on offer."""

    crf = "crf"
    hmm = "hmm"
    efb = "efb"


class FeaturesName(StrEnum):
    """Templates of features on offer."""

    auto = "auto"
    window = "window"
    shape = "shape"


Sentences = list[list[tuple[str, ...]]]


def tag(
    train: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Sentences to learn from: one token per line, its tag in the last column.",
            callback=there,
        ),
    ],
    test: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Sentences to tag; with or without a tag column.",
            callback=there,
        ),
    ],
    model: Annotated[
        ModelName,
        typer.Option(
            help="Conditional random field, hidden Markov model (words alone), or entropic "
            "forward-backward."
        ),
    ] = ModelName.crf,
    encoding: Encoding = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the test file with a column of predicted tags."),
    ] = None,
    json: Json = None,
    features: Annotated[
        FeaturesName,
        typer.Option(
            help="Of crf and efb: words (and parts of speech) in a window, or spelling. auto: "
            "window where there is a column between word and tag, else shape."
        ),
    ] = FeaturesName.auto,
    l1: Annotated[
        float | None, typer.Option(help="Penalty on absolute weights (crf); 0 by default.")
    ] = None,
    l2: Annotated[
        float | None,
        typer.Option(help="Penalty on squared weights, halved (crf, efb); 2 by default."),
    ] = None,
    seen_transitions: Annotated[
        bool,
        typer.Option("--seen-transitions", help="Allow only pairs of tags seen in training (crf)."),
    ] = False,
    decode: Annotated[
        str, typer.Option(help="viterbi (the best path) or posterior (each token's best tag).")
    ] = "viterbi",
) -> None:
    """Learn tags from one column file, tag another, and compare with its tags if it has them.

    Columns are apart by tabs or spaces, sentences by a blank line; files may be compressed (.gz).
    The first column is the word, the second (of three or more) its part of speech. Reported are
    accuracy, and precision, recall and F1 of each tag and, for tags like B-NP, of chunks as the
    CoNLL shared tasks count them.
    """
    from crossfade._checks import counted
    from crossfade.commands.output import check_outputs, hand_over, say, write_json
    from crossfade.errors import DataError
    from crossfade.files import write_whole
    from crossfade.io.encoding import check_encoding
    from crossfade.tagging import evaluate_tags, read_columns, write_columns

    if decode not in ("viterbi", "posterior"):
        raise DataError(f"--decode: expected viterbi or posterior, got {decode!r}")
    _refuse_unused(model, features, l1, l2, seen_transitions)
    check_outputs({"--out": out, "--json": json}, train, test)
    encoding = check_encoding(encoding)
    learnt, given = (read_columns(one, encoding=encoding) for one in (train, test))
    width = len(learnt[0][0])
    labelled = _check_columns(width, len(given[0][0]))
    template = _template(features, width)
    begun = time.perf_counter()
    tagger = _model(model, l1 or 0.0, 2.0 if l2 is None else l2, seen_transitions)
    prepare = _inputs(model, template, with_tags=width > 2)
    _load(tagger, decode)
    started = time.perf_counter()
    tagger.fit(prepare(learnt), [[token[-1] for token in sentence] for sentence in learnt])
    trained = time.perf_counter()
    found = [[str(name) for name in path] for path in tagger.predict(prepare(given), decode=decode)]
    tagged = time.perf_counter()
    typer.echo(
        f"{model.value}: compiled code loaded in {started - begun:.1f} s, "
        f"trained on {counted(len(learnt), 'sentence')} "
        f"in {trained - started:.1f} s, "
        f"tagged {len(given):,} in {tagged - trained:.1f} s",
        err=True,
    )
    facts: dict[str, Any] = {
        "model": model.value,
        "features": None if model is ModelName.hmm else template.value,
        "train_sentences": len(learnt),
        "test_sentences": len(given),
    }
    if labelled:
        truth = [[token[-1] for token in sentence] for sentence in given]
        report = evaluate_tags(truth, found)
        say(str(report))
        facts |= report.to_dict()
    if out is not None or not labelled:
        text = write_columns(
            [(*token, name) for token, name in zip(sentence, names, strict=True)]
            for sentence, names in zip(given, found, strict=True)
        )
        if out is not None:
            write_whole(out, text.encode())
        else:
            hand_over(text.encode())
    if json is not None:
        write_json(json, facts)


def _refuse_unused(
    model: ModelName,
    features: FeaturesName,
    l1: float | None,
    l2: float | None,
    seen_transitions: bool,
) -> None:
    """Raise where an option has no part in the model."""
    from crossfade.errors import DataError

    crf, features_too = (ModelName.crf,), (ModelName.crf, ModelName.efb)
    for option, given, models in (
        ("--l1", l1 is not None, crf),
        ("--seen-transitions", seen_transitions, crf),
        ("--l2", l2 is not None, features_too),
        ("--features", features is not FeaturesName.auto, features_too),
    ):
        if given and model not in models:
            raise DataError(
                f"--model: expected {' or '.join(models)} with {option}, got {model.value!r}; "
                f"leave {option} out"
            )


def _load(tagger: Any, decode: str) -> None:
    """Compile what the model needs, or load it: on the first run that takes longer than training.

    A copy learns and tags a corpus of two words, of enough sentences for every stage of training.
    """
    import warnings

    from sklearn.base import clone

    words, tags = [["a"], ["b", "b"]] * 40, [["A"], ["B", "B"]] * 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no convergence: the real corpus will say so
        clone(tagger).fit(words, tags).predict(words, decode=decode)


def _check_columns(train_width: int, test_width: int) -> bool:
    """Return whether the test file has a tag column."""
    from crossfade._checks import counted
    from crossfade.errors import DataError

    if train_width < 2:
        raise DataError(
            "--train: expected at least two columns, a word and its tag, got one; add the tags"
        )
    if test_width not in (train_width, train_width - 1):
        raise DataError(
            f"--test: expected the {counted(train_width, 'column')} of the training file, or one "
            f"less (no tags), got {test_width}; give both files the same columns"
        )
    if train_width > 3:
        unused = "3 is" if train_width == 4 else f"3 to {train_width - 1} are"
        typer.echo(f"column{'s' * (train_width > 4)} {unused} not used", err=True)
    return test_width == train_width


def _template(features: FeaturesName, width: int) -> FeaturesName:
    if features is FeaturesName.auto:
        return FeaturesName.window if width > 2 else FeaturesName.shape
    return features


def _model(model: ModelName, l1: float, l2: float, seen_transitions: bool) -> Any:
    from crossfade.crf import ConditionalRandomField, MaximumEntropyClassifier
    from crossfade.hmm import EntropicMarkovChain, HiddenMarkovModel

    if model is ModelName.crf:
        allowed = "seen" if seen_transitions else None
        return ConditionalRandomField(l1=l1, l2=l2, allowed_transitions=allowed)
    if model is ModelName.hmm:
        return HiddenMarkovModel(emission="categorical")
    return EntropicMarkovChain(MaximumEntropyClassifier(l2=l2))


def _inputs(model: ModelName, template: FeaturesName, *, with_tags: bool) -> Any:
    """Return the function that turns sentences of cells into what the model takes."""

    from crossfade.tagging import shape_features, window_features

    def prepare(sentences: Sentences) -> list[Any]:
        words = [[token[0] for token in sentence] for sentence in sentences]
        if model is ModelName.hmm:
            return words
        if template is FeaturesName.shape:
            return [shape_features(sentence) for sentence in words]
        if with_tags:
            tags = [[token[1] for token in sentence] for sentence in sentences]
            return [window_features(w, t) for w, t in zip(words, tags, strict=True)]
        return [window_features(sentence) for sentence in words]

    return prepare
