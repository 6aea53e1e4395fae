"""Comparisons whose pages the tests look at: quick ones, and one with hostile names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from sklearn.dummy import DummyClassifier

from crossfade import ComparisonResult, NaiveBayes, compare
from crossfade.evidence.interactions import Interaction

#: Names that would do something if they were taken for anything but text.
HOSTILE = (
    "<script>document.title = 'owned'</script>",
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\"quotes\" 'and' `ticks` \\ backslash",
    "{{ 7 * 7 }} ${7 * 7} {% raw %}",
    "a.b[0]['c']",
    "__proto__",
    "constructor",
    "🐙 emoji \u202e turned",
    "x" * 300,
    "",
    "line\nbreak\ttab",
)
HOSTILE_CLASSES = ("<b onclick=alert(1)>bold</b>", "</title><script>alert(2)</script>", "toString")


def line_up() -> dict[str, Any]:
    """Return a family's two ends, and guessing."""
    return {
        "naive Bayes generative": NaiveBayes(tradeoff=1),
        "naive Bayes discriminative": NaiveBayes(tradeoff=0),
        "guess": DummyClassifier(strategy="prior"),
    }


def acting_together(result: ComparisonResult, names: Sequence[str]) -> ComparisonResult:
    """Return it with interactions of its columns and a step, whose parts have these names."""
    rng = np.random.default_rng(3)
    found = []
    for number, (one, other) in enumerate(pairwise(names)):
        step = number == 2
        second = ("",) if step else ("1", "2.5", "3e+04")
        residual = rng.uniform(-0.3, 0.3, size=(4, len(second)))
        residual[0, 0] = np.nan
        found.append(
            Interaction(
                f"{one} > 3" if step else f"{one} × {other}",
                (one,) if step else (one, other),
                30.5 - number,
                1e-6,
                result.data.classes[-1],
                tuple(names[:4]),
                second,
                residual,
                np.full_like(residual, 12.0),
            )
        )
    return replace(result, interactions=tuple(found))


def two_classes() -> ComparisonResult:
    """Return a comparison on columns that repeat each other, with text and missing cells."""
    rng = np.random.default_rng(0)
    n = 160
    y = rng.integers(2, size=n)
    size = rng.normal(size=n) + y
    frame = pl.DataFrame(
        {
            "size": size,
            "length": size + 0.3 * rng.normal(size=n),
            "age": np.where(rng.random(n) < 0.1, None, rng.normal(size=n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "ripe": (rng.random(n) < 0.3 + 0.4 * y),
        }
    )
    labels = np.array(["no", "yes"])[y]
    return acting_together(compare(frame, labels, models=line_up(), n_splits=4), frame.columns)


def texts() -> ComparisonResult:
    """Return a comparison on two columns of text, one with hostile words, beside a number."""
    rng = np.random.default_rng(2)
    y = np.arange(45) % 3
    said = [" ".join(rng.choice(["good", "bad", "<b>ugly</b>", "😀", "مرحبا"], 6)) for _ in y]
    title = [f"{word} for me {i}" for i, word in enumerate(np.array(["one", "two", "three"])[y])]
    frame = pl.DataFrame({"said": said, "title": title, "size": rng.normal(size=45) + y})
    models = {"guess": line_up()["guess"], "naive Bayes": NaiveBayes(tradeoff=0.5)}
    return compare(frame, np.array(HOSTILE_CLASSES, dtype=object)[y], models=models, n_splits=2)


def hostile() -> ComparisonResult:
    """Return a comparison on columns and classes with hostile names, three classes."""
    rng = np.random.default_rng(1)
    n = 150
    y = np.arange(n) % 3
    columns = {
        name: rng.normal(size=n) + (y if place % 2 else 0) for place, name in enumerate(HOSTILE)
    }
    columns[HOSTILE[1]] = rng.choice(list(HOSTILE[:4]), n)
    labels = np.array(HOSTILE_CLASSES, dtype=object)[y]
    models = {f"{HOSTILE[0]} {name}": model for name, model in line_up().items()}
    found = compare(pl.DataFrame(columns), labels, models=models, n_splits=2)
    return acting_together(found, HOSTILE)
