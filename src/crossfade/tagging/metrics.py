"""How good tags are: accuracy, and precision and recall of tags and of chunks.

Chunks are counted as the CoNLL shared tasks count them (their program ``conlleval``): a chunk is
right if its type, its first and its last token are. Tags are ``O``, or a position and a type as
in ``B-NP``; the positions B, I, E and S are understood, and an I that follows nothing of its
type opens a chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from crossfade._checks import counted
from crossfade._findings import Finding
from crossfade.errors import DataError

#: After these positions a chunk is over; these open one whatever came before.
_CLOSED, _OPENING = ("O", "E", "S"), ("B", "S")


@dataclass(frozen=True)
class TagCounts(Finding):
    """How often a tag, or a type of chunk, was there, was found, and both.

    Attributes
    ----------
    name : str
    true, found, right : int

    Examples
    --------
    >>> from crossfade.tagging import TagCounts
    >>> nouns = TagCounts("N", true=4, found=5, right=3)
    >>> nouns.precision, nouns.recall
    (0.6, 0.75)
    """

    _KEYS: ClassVar = {
        k: k for k in ("name", "true", "found", "right", "precision", "recall", "f1")
    }

    name: str
    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """Share of those found that are right (0 if none was found)."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the true ones that were found (0 if there are none)."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.right / (self.true + self.found) if self.true + self.found else 0.0


@dataclass(frozen=True)
class TaggingReport(Finding):
    """Accuracy, and counts by tag and by type of chunk.

    Attributes
    ----------
    n_tokens, n_right : int
    tags : tuple of TagCounts
        By name.
    chunks : tuple of TagCounts or None
        By name; None where tags do not describe chunks.
    chunks_overall : TagCounts or None
        All types together.

    Examples
    --------
    >>> from crossfade.tagging import evaluate_tags
    >>> report = evaluate_tags([["D", "N", "V"]], [["D", "N", "N"]])
    >>> report.n_right, report.n_tokens, [tag.name for tag in report.tags]
    (2, 3, ['D', 'N', 'V'])
    """

    _KEYS: ClassVar = {k: k for k in ("n_tokens", "accuracy", "tags", "chunks", "chunks_overall")}

    n_tokens: int
    n_right: int
    tags: tuple[TagCounts, ...]
    chunks: tuple[TagCounts, ...] | None
    chunks_overall: TagCounts | None

    @property
    def accuracy(self) -> float:
        """Share of tokens tagged right."""
        return self.n_right / self.n_tokens if self.n_tokens else float("nan")

    def __str__(self) -> str:
        lines = [
            f"accuracy {self.accuracy:.2%} ({self.n_right} of {counted(self.n_tokens, 'token')})"
        ]
        if self.chunks is not None and self.chunks_overall is not None:
            lines += ["", *_table("chunk", (*self.chunks, self.chunks_overall))]
        return "\n".join([*lines, "", *_table("tag", self.tags)])


def _table(heading: str, rows: Sequence[TagCounts]) -> list[str]:
    # Names are data: control characters are shown, not sent to the terminal.
    names = [row.name if row.name.isprintable() else repr(row.name)[1:-1] for row in rows]
    width = max(map(len, [heading, *names]))
    lines = [f"{heading:<{width}}  precision  recall     F1    true   found"]
    lines += [
        f"{name:<{width}}  {row.precision:>8.2%} {row.recall:>8.2%} {row.f1:>7.2%} "
        f"{row.true:>6} {row.found:>7}"
        for name, row in zip(names, rows, strict=True)
    ]
    return lines


def chunks(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the chunks of one sentence.

    Parameters
    ----------
    tags : sequence of str
        ``"O"``, or position, hyphen and type; the type may hold hyphens.

    Returns
    -------
    list of (type, first, last) tuples
        `last` is the place of the last token.

    Raises
    ------
    DataError
        If a tag is of another form.

    Examples
    --------
    >>> from crossfade.tagging import chunks
    >>> chunks(["B-NP", "I-NP", "O", "I-VP", "B-NP"])
    [('NP', 0, 1), ('VP', 3, 3), ('NP', 4, 4)]
    """
    found = []
    first = 0
    before, kind_before = "O", ""
    for place, tag in enumerate(tags):
        position, kind = _parts(tag)
        inside_before = before != "O"
        changes = kind != kind_before or before in _CLOSED or position in (*_OPENING, "O")
        if inside_before and changes:
            found.append((kind_before, first, place - 1))
        if position != "O" and (changes or not inside_before):
            first = place
        before, kind_before = position, kind
    if before != "O":
        found.append((kind_before, first, len(tags) - 1))
    return found


def _parts(tag: str) -> tuple[str, str]:
    if not _describes_chunks(tag):
        raise DataError(
            f"tags: expected 'O' or a tag like 'B-NP' (positions B, I, E, S), got {tag!r}"
        )
    position, _, kind = tag.partition("-")
    return position, kind


def _describes_chunks(tag: str) -> bool:
    return tag == "O" or (tag[:1] in ("B", "I", "E", "S") and tag[1:2] == "-")


def evaluate_tags(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> TaggingReport:
    """Compare tags with the truth.

    Parameters
    ----------
    true, found : list of sequences of str
        Tags of each sentence.

    Returns
    -------
    TaggingReport

    Raises
    ------
    DataError
        If numbers of sentences or of tokens differ; the sentence is named.

    Examples
    --------
    >>> from crossfade.tagging import evaluate_tags
    >>> report = evaluate_tags([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-NP"]])
    >>> report.accuracy, report.chunks_overall.precision, report.chunks_overall.recall
    (0.6666666666666666, 0.5, 1.0)
    """
    pairs = list(_pairs(true, found))
    tags = _counted(
        Counter(tag for truth, _ in pairs for tag in truth),
        Counter(tag for _, guess in pairs for tag in guess),
        Counter(t for truth, guess in pairs for t, g in zip(truth, guess, strict=True) if t == g),
    )
    n_right = sum(counts.right for counts in tags)
    n_tokens = sum(counts.true for counts in tags)
    named = [counts.name for counts in tags]
    if not all(map(_describes_chunks, named)) or set(named) <= {"O"}:
        return TaggingReport(n_tokens, n_right, tags, None, None)
    both = [(set(chunks(truth)), set(chunks(guess))) for truth, guess in pairs]
    by_type = _counted(
        Counter(kind for truth, _ in both for kind, _, _ in truth),
        Counter(kind for _, guess in both for kind, _, _ in guess),
        Counter(kind for truth, guess in both for kind, _, _ in truth & guess),
    )
    overall = TagCounts(
        "overall",
        sum(counts.true for counts in by_type),
        sum(counts.found for counts in by_type),
        sum(counts.right for counts in by_type),
    )
    return TaggingReport(n_tokens, n_right, tags, by_type, overall)


def _pairs(
    true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]
) -> Iterator[tuple[list[str], list[str]]]:
    if len(true) != len(found):
        raise DataError(
            f"found: expected tags for {counted(len(true), 'sentence')}, got {len(found)}; align "
            "them"
        )
    for number, (truth, guess) in enumerate(zip(true, found, strict=True)):
        if len(truth) != len(guess):
            raise DataError(
                f"found: expected {counted(len(truth), 'tag')} in sentence {number}, got "
                f"{len(guess)}; give every token one"
            )
        yield [str(tag) for tag in truth], [str(tag) for tag in guess]


def _counted(true: Counter[str], found: Counter[str], right: Counter[str]) -> tuple[TagCounts, ...]:
    names = sorted({*true, *found})
    return tuple(TagCounts(name, true[name], found[name], right[name]) for name in names)
