"""Columns of text: which columns are, how they are cut into words, and their vocabulary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from crossfade.errors import DataError

#: Characters of scripts without spaces (Thai, Lao, Burmese, Khmer, Japanese, Chinese).
NO_SPACES = (
    r"\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff"
)

#: Marks inside words that are no letters to \w: accents, points and vowels, joiners.
MARKS = (
    r"\u0300-\u036f\u0591-\u05bd\u05bf\u05c1-\u05c2\u05c4-\u05c5\u05c7\u064b-\u065f\u0670"
    r"\u0900-\u0963\u0980-\u0d7f\u200c-\u200d"
)

#: Letters and digits in a row, with their marks, or any one other character that is no space.
WORDS = rf"[^\W{NO_SPACES}]+(?:[{MARKS}]+[^\W{NO_SPACES}]*)*|\S"

#: What is kept of cells that were cut lately: so many tables of at most so many characters, 90 MB.
_MOST_CUTS, _MOST_CHARACTERS = 8, 500_000

#: Words per cell, on average, from which a column is text, and the share of its cells that differ.
_WORDS_PER_CELL = 3.0
_DIFFERENT = 0.5

#: The same where other cells have most of the words, too.
_WORDS_AGAIN = 1.5

#: What counts there: of a script without spaces, two characters are a word.
_CHARACTER = re.compile(f"[{NO_SPACES}]")
_PART = re.compile(rf"[{NO_SPACES}]|[^\s{NO_SPACES}]+")

#: Different cells that a column of text, or of identifiers, has at least.
_FEWEST_TEXTS, _FEWEST_IDENTIFIERS = 5, 20

#: 2021-03-04, 4.3.2021, 03/04/21, 4-Mar-2021, 04MAR2021, 4. März 2021, March 4th, 2021, also behind
#: a weekday; each with or without a time (08:15, 8:15:00 PM GMT+1). Or a time of day alone.
_DAY, _WORD, _TH = r"(?:0?[1-9]|[12]\d|3[01])", r"[^\W\d_]{2,10}\.?", r"(?:st|nd|rd|th)?"
_HOUR = r"(?:[01]?\d|2[0-3])"
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_TIME = r"\d{1,2}:\d{2}\S*(?: [AaPp]\.?[Mm]\.?)?(?: [A-Z]{0,5}(?:[+-][\d:]+)?)?"
_DATE = re.compile(
    rf"\s*(?:{_HOUR}:[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
    rf"|(?:{_WORD},? )?(?:\d{{4}}([-./]){_DAY}\1{_DAY}|{_DAY}([-./]){_DAY}\2(?:\d\d){{1,2}}"
    rf"|{_DAY}(?:{_TH}|\.)([-/ ]){_WORD}\3(?:\d\d){{1,2}}|{_DAY}{_MONTH}(?:\d\d){{1,2}}"
    rf"|{_WORD} {_DAY}{_TH},? \d{{4}})"
    rf"(?:[ T,] ?{_TIME})?)\s*"
)

#: Share of the cells of identifiers that differ.
_IDENTIFIERS_DIFFER = 0.95

#: Different dates that are categories at most: more are a time scale, not levels that come again.
_MOST_DATES = 20


#: Different numbers in text that may be levels, and a number with decimals: 1.5, 1,5, -2e3, $.50.
_MOST_LEVELS = 20
_DECIMALS = re.compile(r"\s*[+-]?[$€£]?[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?\s*[%€]?\s*")


@dataclass(frozen=True)
class Text:
    r"""How a column of text is cut into words; give it as ``density={"review": Text(...)}``.

    What scikit-learn's CountVectorizer does with the same parameters; only which words occur
    counts, not how often.

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb"}, default="word"
        What is counted: words, characters, or characters within words.
    ngram_range : tuple of (int, int), default=(1, 2)
        Fewest and most consecutive words (characters) that make one.
    min_df : int, default=1
        Different cells that a word must occur in.
    max_features : int, optional
        Most words, the most frequent ones.
    lowercase : bool, default=True
        Whether "Good" is "good".
    token_pattern : str, optional
        What a word is, a regular expression. By default letters and digits in a row, with their
        accents and vowel signs, or one other character that is no space ("!", an emoji). In scripts
        without spaces (Chinese, Japanese, Thai) each character is a word.

    Raises
    ------
    DataError
        In ``fit``, if a parameter is none that CountVectorizer takes, or no word is left.

    Examples
    --------
    >>> import pandas as pd
    >>> from crossfade import NaiveBayes, Text
    >>> X = pd.DataFrame({"review": ["so good!", "good fun", "so bad", "bad, sad"]})
    >>> words = {"review": Text(ngram_range=(1, 1))}
    >>> model = NaiveBayes(words, tradeoff=1).fit(X, [1, 1, 0, 0])
    >>> model.schema_.categories[0]
    ('!', ',', 'bad', 'fun', 'good', 'sad', 'so')
    >>> model.predict(pd.DataFrame({"review": ["good good!"]}))
    array([1])
    """

    analyzer: str = "word"
    ngram_range: tuple[int, int] = (1, 2)
    min_df: int = 1
    max_features: int | None = None
    lowercase: bool = True
    token_pattern: str | None = None

    @property
    def pattern(self) -> str:
        """What a word is."""
        return WORDS if self.token_pattern is None else self.token_pattern

    def _vectorizer(self, vocabulary: Sequence[str] | None = None) -> Any:
        return CountVectorizer(
            analyzer=self.analyzer,
            ngram_range=tuple(self.ngram_range),
            min_df=self.min_df,
            max_features=self.max_features,
            lowercase=self.lowercase,
            token_pattern=self.pattern if self.analyzer == "word" else None,
            vocabulary=None if vocabulary is None else {w: i for i, w in enumerate(vocabulary)},
        )

    def learn(self, cells: Sequence[str], where: str) -> tuple[tuple[str, ...], Any]:
        """Return the words of these cells in alphabetical order, none if none is left; and counts.

        Shapes: → (n_words,), CSR (n_cells, n_words).
        """
        found: tuple[tuple[str, ...], Any] = _once(
            lambda: self._learn(cells, where), cells, self, None
        )
        return found

    def _learn(self, cells: Sequence[str], where: str) -> tuple[tuple[str, ...], Any]:
        vectorizer = self._vectorizer()
        try:
            counts = vectorizer.fit_transform(cells)
        except (ValueError, re.error) as error:
            said = ("empty vocabulary", "no terms remain", "documents than min_df")
            if any(words in str(error) for words in said):
                return (), None
            raise DataError(
                f"{where}: expected parameters of scikit-learn's CountVectorizer, got {self!r}: "
                f"{' '.join(str(error).split())[:200]}; correct them"
            ) from None
        return tuple(sorted(vectorizer.vocabulary_)), _in_order(counts)

    def counts(self, cells: Sequence[str], vocabulary: Sequence[str]) -> Any:
        """Return how often each word occurs in each cell, CSR (n_cells, n_words)."""
        if not vocabulary or not cells:
            return scipy.sparse.csr_array((len(cells), len(vocabulary)), dtype=np.float64)
        return _once(
            lambda: _in_order(self._vectorizer(vocabulary).transform(cells)),
            cells,
            self,
            tuple(vocabulary),
        )

    def single(self, vocabulary: Sequence[str]) -> NDArray[np.bool_]:
        """Return which words of a vocabulary are single ones, shape (n_words,)."""
        if self.analyzer != "word":
            return np.ones(len(vocabulary), dtype=bool)
        return np.array([" " not in word for word in vocabulary], dtype=bool)


class Cuts:
    """Cells that were cut into words lately, and what came of it: other models see the same rows.

    `saved`: Seconds that were not spent on cutting cells anew.
    """

    def __init__(self) -> None:
        self.saved = 0.0
        self._recent: list[tuple[tuple[Any, ...], Any, float]] = []

    def __reduce__(self) -> Any:
        return Cuts, ()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Look here for cells inside this context."""
        token = _cuts.set(self)
        try:
            yield
        finally:
            _cuts.reset(token)

    def once(self, work: Callable[[], Any], key: tuple[Any, ...]) -> Any:
        """Return ``work()``, or what it was for an equal key."""
        known = next((one for one in self._recent if one[0] == key), None)
        if known is None:
            start = perf_counter()
            result = work()
            known = key, result, perf_counter() - start
        else:
            self._recent = [one for one in self._recent if one is not known]
            self.saved += known[2]
        self._recent = [*self._recent, known][-_MOST_CUTS:]
        return known[1]


_cuts: ContextVar[Cuts | None] = ContextVar("cuts", default=None)


def _once(work: Callable[[], Any], cells: Sequence[str], *how: Any) -> Any:
    """Return ``work()`` on cells, where it is shared and they are few what it was before."""
    cuts = _cuts.get()
    if cuts is None or sum(map(len, cells)) > _MOST_CHARACTERS:
        return work()
    return cuts.once(work, (*how, list(cells)))


def _in_order(counts: Any) -> Any:
    found = scipy.sparse.csr_array(counts).astype(np.float64)
    found.sort_indices()
    return found


def is_text(values: Sequence[Any], n_cells: float) -> bool:
    """Return whether a column's different values, among so many cells, are free text."""
    if len(values) < max(_FEWEST_TEXTS, _DIFFERENT * n_cells) or not _all_text(values):
        return False
    return _are_words(values) and not are_dates(values)


def is_identifier(values: Sequence[Any], n_cells: float) -> bool:
    """Return whether nearly every cell has a value of its own that is no text, or is a date."""
    dates = len(values) >= _FEWEST_IDENTIFIERS and are_dates(values)
    if dates and len(values) > _MOST_DATES:
        return True
    fewest = max(_FEWEST_IDENTIFIERS, _IDENTIFIERS_DIFFER * n_cells)
    if len(values) < fewest or not _all_text(values):
        return False
    return dates or not _are_words(values)


def are_dates(values: Sequence[Any]) -> bool:
    """Return whether all of a column's different values are dates, times of day, or both."""
    return bool(values) and _all_text(values) and all(_DATE.fullmatch(value) for value in values)


def numeral_among(values: Sequence[Any]) -> str | None:
    """Return a number with decimals among a column's different texts if half of them are such.

    None also where they are so few that they may be levels.
    """
    if len(values) <= _MOST_LEVELS:
        return None
    some = values[:: 1 + len(values) // 1000]
    found = [value for value in some if isinstance(value, str) and _DECIMALS.fullmatch(value)]
    return found[-1] if 2 * len(found) >= len(some) else None


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _are_words(values: Sequence[str]) -> bool:
    """Return whether texts have words enough, or come from few words.

    These are more than half of all, have letters, and are in other texts, too.
    """
    parts = [_PART.findall(value) for value in values]
    size = sum(len(each) for each in parts) - 0.5 * sum(map(_n_characters, values))
    if size >= _WORDS_PER_CELL * len(values):
        return True
    if size < _WORDS_AGAIN * len(values):
        return False
    often = Counter(part for each in parts for part in {one.casefold() for one in each})
    again = sum(n for part, n in often.items() if n > 1 and any(map(str.isalpha, part)))
    return 2 * again > sum(often.values())


def _n_characters(value: str) -> int:
    """Return how many characters of scripts without spaces a text has."""
    return 0 if value.isascii() else len(_CHARACTER.findall(value))
