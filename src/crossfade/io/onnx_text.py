"""Free text in an ONNX graph: cells cut into the words of a vocabulary, and counted.

ONNX itself has no operator that cuts text; onnxruntime's own Tokenizer does, by RE2's expressions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crossfade.errors import DataError
from crossfade.io.graph import Graph
from crossfade.table.text import MARKS, NO_SPACES, WORDS, Text

#: What Python's \w and \s are among Unicode's characters, as RE2 writes it.
_WORD = r"\p{L}\p{N}_"
_SPACE = (
    r"\x09-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}"
)


def _escaped(characters: str) -> str:
    """Return a range of characters as RE2 writes it."""
    return re.sub(r"\\[uU]([0-9a-f]+)", r"\\x{\1}", characters)


#: A letter or digit of a script with spaces.
_APART = _escaped(NO_SPACES)
_LETTER = rf"(?:[^\P{{L}}{_APART}]|[^\P{{N}}{_APART}]|_)"

#: Patterns of words that have an equal one in RE2, which takes the longest match.
_PATTERNS = {
    WORDS: f"{_LETTER}(?:{_LETTER}|[{_escaped(MARKS)}])*|[^{_SPACE}]",
    r"(?u)\b\w+\b|[^\w\s]": f"[{_WORD}]+|[^{_WORD}{_SPACE}]",
    r"(?u)\b\w+\b": f"[{_WORD}]+",
    r"(?u)\b\w\w+\b": f"[{_WORD}][{_WORD}]+",
}

#: No word, since it holds a space.
_PAD = " "


def check_text(name: str, text: Text) -> None:
    """Refuse a column whose cells ONNX would cut into other words."""
    if text.analyzer != "word" or text.pattern not in _PATTERNS:
        raise DataError(
            f"estimator: expected free text cut into words by the default pattern, or one of "
            f"{', '.join(map(repr, list(_PATTERNS)[1:]))}, got {text!r} for {name!r}, which ONNX "
            "would cut into other words; fit with one of these patterns, or write the model with "
            "save_model or its coefficients (crossfade.io.coefficients)"
        )


def count_words(graph: Graph, cells: str, text: Text, vocabulary: Sequence[str]) -> str:
    """Return how often each word occurs in each cell, (n_rows, n_words).

    Shapes: cells (n_rows, 1).
    """
    flat = graph.reshape(cells, [-1])
    if text.lowercase:
        flat = graph.node("StringNormalizer", flat, case_change_action="LOWER", locale="C.UTF-8")
    tokens = graph.node(
        "Tokenizer",
        flat,
        domain="com.microsoft",
        mark=0,
        mincharnum=1,
        pad_value=_PAD,
        tokenexp=_PATTERNS[text.pattern],
    )
    # A column more than there are words: a table without any would have none.
    rows = graph.node("Shape", flat)
    shape = graph.node("Concat", rows, graph.integers([1]), axis=0)
    pad = graph.node("Expand", graph.text([_PAD]), shape)
    tokens = graph.node("Concat", tokens, pad, axis=1)
    least, most = text.ngram_range
    # The operator's pool holds words by their length, single ones first.
    by_length = [[w for w in vocabulary if w.count(" ") == n] for n in range(most)]
    place = {word: j for j, word in enumerate(vocabulary)}
    starts = [sum((n + 1) * len(by_length[n]) for n in range(m)) for m in range(most)]
    return graph.double(
        graph.node(
            "TfIdfVectorizer",
            tokens,
            mode="TF",
            min_gram_length=least,
            max_gram_length=most,
            max_skip_count=0,
            ngram_counts=starts,
            ngram_indexes=[place[word] for words in by_length for word in words],
            pool_strings=[part for words in by_length for w in words for part in w.split(" ")],
        )
    )
