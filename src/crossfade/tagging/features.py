"""Features of words: ready-made templates.

What counts as one feature, and how features become integers, is described in
:mod:`crossfade.chains.attributes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from crossfade._checks import counted
from crossfade.errors import DataError


def _escaped(parts: Sequence[str]) -> list[str]:
    """Return the strings with the joint's own sign marked, so that joining keeps them distinct."""
    return [
        part.replace("\\", "\\\\").replace("|", "\\|") if "|" in part or "\\" in part else part
        for part in parts
    ]


def window_features(
    words: Sequence[str], tags: Sequence[str] | None = None, *, ends: bool = False
) -> list[list[str]]:
    """Return the usual features of chunking: words and tags in a window of two, and their pairs.

    Words at -2 to 2 and the pairs of adjacent words that touch the token; with `tags` (parts of
    speech), the same of tags with all pairs and triples in the window: 19 features per token with
    tags, 7 without; fewer at the ends of a sentence.

    Parameters
    ----------
    words : sequence of str
        The words of one sentence.
    tags : sequence of str, optional
        Their parts of speech.
    ends : bool, default=False
        Add the features ``"BOS"`` and ``"EOS"`` to the first and last token. A random field with
        start and stop weights needs none.

    Returns
    -------
    list of list of str
        One list per token.

    Raises
    ------
    DataError
        If there are not as many tags as words.

    Examples
    --------
    >>> from crossfade.tagging import window_features
    >>> window_features(["He", "runs"])[0]
    ['w[0]=He', 'w[1]=runs', 'w[0]|w[1]=He|runs']
    """
    columns = [("w", _escaped(words), _WORD_GROUPS)]
    if tags is not None:
        if len(tags) != len(words):
            raise DataError(
                f"tags: expected as many as the {counted(len(words), 'word')}, got {len(tags)}; "
                "give each word one"
            )
        columns.append(("pos", _escaped(tags), _TAG_GROUPS))
    length = len(words)
    tokens: list[list[str]] = [[] for _ in range(length)]
    for name, cells, groups in columns:
        for first, size in groups:
            title = "|".join(f"{name}[{first + i}]" for i in range(size)) + "="
            for t in range(max(0, -first), min(length, length - first - size + 1)):
                tokens[t].append(title + "|".join(cells[t + first : t + first + size]))
    if ends and length:
        tokens[0].append("BOS")
        tokens[-1].append("EOS")
    return tokens


#: (first place, how many) of the words, and of the tags, that a feature joins.
_WORD_GROUPS = [(-2, 1), (-1, 1), (0, 1), (1, 1), (2, 1), (-1, 2), (0, 2)]
_TAG_GROUPS = [
    *[(-2, 1), (-1, 1), (0, 1), (1, 1), (2, 1)],
    *[(-2, 2), (-1, 2), (0, 2), (1, 2)],
    *[(-2, 3), (-1, 3), (0, 3)],
]


def word_shape(word: str) -> str:
    """Return a word's shape: letters as X or x, digits as d, runs shortened to two.

    Examples
    --------
    >>> from crossfade.tagging import word_shape
    >>> word_shape("McDonald's"), word_shape("1997-98")
    ("XxXxx'x", 'dd-dd')
    """
    shape: list[str] = []
    for letter in word:
        if letter.isdigit():
            sign = "d"
        elif letter.isalpha():
            sign = "X" if letter.isupper() else "x"
        else:
            sign = letter
        if len(shape) < 2 or shape[-1] != sign or shape[-2] != sign:
            shape.append(sign)
    return "".join(shape)


def shape_features(words: Sequence[str], *, affix: int = 4) -> list[list[str]]:
    """Return the usual features of part-of-speech tagging: spelling of a word and its neighbours.

    The word as is and in lower case, prefixes and suffixes up to `affix` letters, the shape
    (:func:`word_shape`), whether it has a digit, a hyphen or a capital; the lower-case words at
    -2 to 2, pairs with each neighbour, and the neighbours' shapes and last three letters.

    Parameters
    ----------
    words : sequence of str
        The words of one sentence.
    affix : int, default=4
        Longest prefix and suffix.

    Returns
    -------
    list of list of str
        One list per token.

    Examples
    --------
    >>> from crossfade.tagging import shape_features
    >>> shape_features(["Rolls-Royce"])[0][:6]
    ['bias', 'w=Rolls-Royce', 'lower=rolls-royce', 'shape=Xxx-Xxx', 'pre1=r', 'suf1=e']
    """
    lower = [word.lower() for word in words]
    joined = _escaped(lower)
    shapes = [word_shape(word) for word in words]
    length = len(words)
    tokens: list[list[str]] = []
    for t, word in enumerate(words):
        small = lower[t]
        token = ["bias", f"w={word}", f"lower={small}", f"shape={shapes[t]}"]
        for size in range(1, min(affix, len(small)) + 1):
            token += (f"pre{size}={small[:size]}", f"suf{size}={small[-size:]}")
        if any(map(str.isdigit, word)):
            token.append("digit")
        if "-" in word:
            token.append("hyphen")
        if small != word:
            token.append("capital" if t else "capital-first")
        for step in (-2, -1, 1, 2):
            if 0 <= t + step < length:
                token.append(f"lower[{step}]={lower[t + step]}")
        if t:
            token += (f"shape[-1]={shapes[t - 1]}", f"suf[-1]={lower[t - 1][-3:]}")
            token.append(f"lower[-1]|lower[0]={joined[t - 1]}|{joined[t]}")
        else:
            token.append("first")
        if t + 1 < length:
            token += (f"shape[1]={shapes[t + 1]}", f"suf[1]={lower[t + 1][-3:]}")
            token.append(f"lower[0]|lower[1]={joined[t]}|{joined[t + 1]}")
        else:
            token.append("last")
        tokens.append(token)
    return tokens
