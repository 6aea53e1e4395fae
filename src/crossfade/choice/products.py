"""From the choice of each column's density to the one density of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from crossfade.choice.columns import ColumnChoice
from crossfade.densities import (
    DENSITIES,
    BinaryWords,
    Categorical,
    Constant,
    Density,
    Gaussian,
    JohnsonSU,
    Multinomial,
    Product,
)
from crossfade.densities.silent import Silent
from crossfade.table import Schema
from crossfade.tradeoff.grid import Points


class Variant(NamedTuple):
    """What a member of a pool uses of the words, and its grid: λ, and a multiple of l2.

    `alone`: Whether it looks at words alone, not at other columns.
    """

    used: str
    columns: tuple[int, ...] = ()
    by_ratio: bool = False
    points: Points = ((1.0, 1.0),)
    alone: bool = False


#: Variants where there is text. All points have the same statistics, so that their pool is one
#: model; those of λ = 1 cost nothing, and single words by ratio differ most from pairs of words.
_OF_TEXT = (
    Variant("all", points=((1.0, 1.0), (0.0, 10.0), (0.0, 1.0))),
    Variant("single"),
    Variant("single", by_ratio=True, points=((0.0, 3.0),)),
)

#: Where there are other columns, too: those above look at words alone, and beside them stand all
#: columns together and the others alone. The pool then has a power for each block of columns
#: (Raina et al. 2003): many words do not drown a few numbers, nor numbers that say little words.
_TOGETHER = Variant("all", points=((1.0, 1.0), (0.0, 1.0)))
_WITHOUT_WORDS = Variant("no", points=((1.0, 1.0), (0.5, 1.0), (0.0, 1.0)))

#: Variants of a sparse table.
_OF_SPARSE = (
    Variant("all", points=((1.0, 1.0), (0.5, 1.0), (0.0, 10.0), (0.0, 1.0), (0.0, 0.1))),
    Variant("all", by_ratio=True, points=((0.0, 3.0),)),
)

#: Those of one with negative numbers, which no density has.
_OF_SIGNED = (Variant("all", points=((0.0, 10.0), (0.0, 1.0), (0.0, 0.1))),)


def variants(schema: Schema) -> tuple[Variant, ...]:
    """Return what a choice is made among where there are words."""
    if schema.sparse:
        return _OF_SIGNED if schema.signed else _OF_SPARSE
    texts = [j for j, text in enumerate(schema.texts or ()) if text is not None]
    if not texts:
        return ()
    others = set(schema.kinds) - {"text", "identifier"}
    of_text = _OF_TEXT + tuple(Variant("all", (j,)) for j in texts if len(texts) > 1)
    if not others:
        return of_text
    alone = (one._replace(alone=True) for one in of_text)
    return _TOGETHER, *alone, _WITHOUT_WORDS


def product_of(
    schema: Schema,
    choices: Sequence[ColumnChoice],
    gaussian: Gaussian,
    alpha: float,
    words: Variant | None = None,
) -> Product:
    """Return the density of all columns, with this one where a name says Gaussian.

    `words` says which of them a variant of a choice uses, None where nothing is chosen.
    """
    one_variance = Gaussian(True, gaussian.var_smoothing)
    # The order of the parts is the same in all variants: a pool adds their parameters.
    groups: dict[Any, list[int]] = {}
    for j, choice in enumerate(choices):
        named = isinstance(choice.density, str)
        key: Any = (choice.density if named else id(choice.density), choice.one_variance)
        if schema.texts and schema.texts[j] is not None:
            key = ("text", j)  # each has words of its own
        groups.setdefault(key, []).append(j)
    parts: list[tuple[Density, list[int]]] = []
    for columns in groups.values():
        first = choices[columns[0]]
        of_words = _of_words(schema, columns[0], first.density, alpha, words)
        if isinstance(first.density, Density):
            density = first.density
        elif of_words is not None:
            density = of_words
        else:
            own = one_variance if first.one_variance else gaussian
            density = _named([choices[j] for j in columns], schema.n_levels(columns), own, alpha)
        silent = words is not None and words.alone and of_words is None
        parts.append((Silent(density) if silent else density, columns))
    return Product(parts)


def _of_words(
    schema: Schema, column: int, chosen: Any, alpha: float, words: Variant | None
) -> Density | None:
    """Return the density of a sparse table or a column of text, None for other columns."""
    by_ratio, tf_idf = words is not None and words.by_ratio, words is not None and not schema.signed
    if schema.sparse:
        if chosen == "bernoulli":
            return BinaryWords(alpha, by_ratio=by_ratio)
        return Multinomial(alpha, by_ratio=by_ratio, tf_idf=tf_idf)
    text = schema.texts[column] if schema.texts else None
    if text is None:
        return None
    used = None
    if words is not None:
        known = schema.categories[column] or ()
        if words.used == "no" or (words.columns and column not in words.columns):
            used = np.zeros(len(known), dtype=bool)
        elif words.used == "single":
            used = text.single(known)
    return Multinomial(alpha, binarise=True, by_ratio=by_ratio, used=used, tf_idf=tf_idf)


def _named(
    choices: Sequence[ColumnChoice], levels: list[int], gaussian: Gaussian, alpha: float
) -> Density:
    """Return the density of columns that all have the one of this name."""
    name = choices[0].density
    if name == "gaussian":
        return gaussian
    if name == "constant":
        return Constant()
    if name == "none":
        return Categorical([1] * len(choices), alpha)
    if name == "johnson_su":
        return JohnsonSU(
            [choice.location for choice in choices],
            [choice.spread for choice in choices],
            gaussian.shared_variance,
            gaussian.var_smoothing,
            gaussian.shrinkage_rows,
        )
    if name == "categorical":
        return Categorical(levels, alpha)
    kind: Any = DENSITIES[str(name)]
    density: Density = kind(alpha)
    return density
