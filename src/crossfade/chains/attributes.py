"""Attributes of tokens: from dicts, strings and matrices to integers.

An *attribute* is what a token has (``"suffix=ing"``); a *weight* belongs to an attribute and a
label. :class:`AttributeEncoder` numbers the attributes and stores a corpus as three arrays, one
entry per (token, attribute). What counts as one attribute:

=========================================  ====================================  ==============
a token given as                           attribute, as :attr:`names` shows it  its value
=========================================  ====================================  ==============
``"ing"``                                  ``"ing"``                             1
``["ing", ("w", "a")]``                    ``"ing"``, ``("w", "a")``             1 each
``{"w": "a:b"}``                           ``("w", "a:b")``                      1
``{"w:a": "b"}``                           ``("w:a", "b")``: another             1
``{"w": ["a", "b"]}``                      ``("w", "a")``, ``("w", "b")``        1 each
``{"length": 2.5}``                        ``"length"``                          2.5
``{"is_title": True}``                     ``"is_title"``                        1
``{"is_title": False}`` or ``{"x": 0}``    none: a zero adds nothing             0
``7`` (a symbol of an integer sequence)    ``7``, not ``"7"``                    1
column j of a matrix                       ``j``                                 the entry
=========================================  ====================================  ==============
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from crossfade._checks import counted
from crossfade._typing import Floats, Integers
from crossfade.chains.input import Layout, layout_of
from crossfade.errors import DataError

#: The name of an attribute: a string, a (name, value) pair of strings, or an integer.
Attribute = str | tuple[str, str] | int

#: Values beyond this are refused: their squares leave double precision.
_LARGEST = 1e150


@dataclass(frozen=True)
class EncodedSequences:
    """A corpus as integers: what a random field trains on and tags.

    `attributes` (n_entries,): Of token after token; one may occur twice in a token.
    `values` (n_entries,) or None where all are 1.
    `token_starts` (n_tokens + 1,): Where each token's entries begin.
    """

    attributes: NDArray[np.int32]
    values: Floats | None
    token_starts: Integers
    layout: Layout
    encoder: AttributeEncoder

    def __len__(self) -> int:
        return self.layout.n_sequences

    @property
    def offsets(self) -> Integers:
        """Where each sequence's tokens begin, (n_sequences + 1,)."""
        return self.layout.offsets

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all sequences together."""
        return len(self.token_starts) - 1

    def __repr__(self) -> str:
        return (
            f"EncodedSequences({counted(len(self), 'sequence')}, "
            f"{counted(self.n_tokens, 'token')}, {len(self.attributes)} entries of "
            f"{len(self.encoder)} attributes)"
        )


class AttributeEncoder:
    """Number the attributes of token sequences in order of first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._n_columns: int | None = None

    def __len__(self) -> int:
        return self._n_columns if self._n_columns is not None else len(self._numbers)

    @property
    def names(self) -> list[Attribute]:
        """The attributes, by number."""
        if self._n_columns is not None:
            return list(range(self._n_columns))
        return list(self._numbers)

    def same_as(self, other: AttributeEncoder) -> bool:
        """Whether both give every attribute the same number."""
        return self is other or self.names == other.names

    def fit_transform(self, X: Any, lengths: ArrayLike | None = None) -> EncodedSequences:
        """Learn the attributes of `X` and encode it. Shapes: lengths (n_sequences,)."""
        self._numbers, self._n_columns = {}, None
        return self._encode(X, lengths, learn=True)

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> EncodedSequences:
        """Encode `X`; attributes never learnt carry no weight and are left out.

        Parameters and errors are those of :meth:`fit_transform`.
        """
        return self._encode(X, lengths, learn=False)

    def _encode(self, X: Any, lengths: ArrayLike | None, *, learn: bool) -> EncodedSequences:
        layout = layout_of(X, lengths)
        sequences = list(X) if layout.listed else [X]
        if sequences and all(_is_matrix(sequence) for sequence in sequences):
            if not learn and self._n_columns is None:
                raise DataError(
                    "X: expected tokens like those the model was fitted on, got matrices; "
                    "pass sequences of dicts or strings"
                )
            return self._encode_matrices(sequences, layout, learn=learn)
        if not learn and self._n_columns is not None and layout.n_steps:
            raise DataError(
                f"X: expected matrices of {counted(self._n_columns, 'column')} as in fit, "
                f"got {type(sequences[0]).__name__}; pass a list of matrices"
            )
        return self._encode_tokens(sequences, layout, learn=learn)

    def _encode_tokens(
        self, sequences: list[Any], layout: Layout, *, learn: bool
    ) -> EncodedSequences:
        keys: list[Any] = []
        counts: list[int] = []
        values: list[float] | None = None
        for s, sequence in enumerate(sequences):
            first = len(counts)
            for token in _tokens(sequence, s):
                before = len(keys)
                if isinstance(token, str):
                    keys.append(token)
                elif isinstance(token, list | tuple):
                    keys.extend(token)
                elif isinstance(token, Mapping):
                    values = _add_mapping(token, keys, values)
                elif isinstance(token, set | frozenset):
                    # Sorted, so that numbers do not depend on the run's hash seed.
                    keys.extend(sorted(token, key=repr))
                else:
                    keys.append(_symbol(token, s, len(counts) - first))
                counts.append(len(keys) - before)
                if values is not None:
                    values.extend(repeat(1.0, len(keys) - len(values)))
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        numbers = self._number(keys, starts, layout, learn=learn)
        weights = None if values is None else np.asarray(values, dtype=np.float64)
        if weights is not None and not np.isfinite(weights).all():
            bad = int(np.flatnonzero(~np.isfinite(weights))[0])
            raise DataError(
                f"X: expected finite values, got {weights[bad]} for attribute {keys[bad]!r} in "
                f"{_place(bad, starts, layout)}; leave a missing attribute out"
            )
        keep = numbers >= 0
        if weights is not None:
            keep &= weights != 0.0
        return self._pack(numbers, weights, keep, starts, layout)

    def _number(
        self, keys: list[Any], starts: Integers, layout: Layout, *, learn: bool
    ) -> NDArray[np.int32]:
        known = len(self._numbers)
        try:
            if learn:
                growing: defaultdict[Any, int] = defaultdict(None, self._numbers)
                growing.default_factory = growing.__len__
                numbers = np.fromiter(map(growing.__getitem__, keys), np.int32, len(keys))
                self._numbers = dict(growing)
                suspects: Iterable[Any] = list(self._numbers)[known:]
            else:
                numbers = np.fromiter(map(self._numbers.get, keys, repeat(-1)), np.int32, len(keys))
                suspects = [keys[i] for i in np.flatnonzero(numbers < 0)]
        except TypeError:
            suspects = keys
        if not all(_is_attribute(key) for key in suspects):
            bad = next(i for i, key in enumerate(keys) if not _is_attribute(key))
            raise DataError(
                "X: expected attributes that are strings or (name, value) pairs of strings, got "
                f"{keys[bad]!r} in {_place(bad, starts, layout)}; write it as a string, or as "
                "{name: number} if it is a value"
            )
        return numbers

    def _pack(
        self,
        numbers: NDArray[np.int32],
        weights: Floats | None,
        keep: NDArray[np.bool_],
        starts: Integers,
        layout: Layout,
    ) -> EncodedSequences:
        if not keep.all():
            kept = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
            numbers, starts = numbers[keep], kept[starts]
            weights = None if weights is None else weights[keep]
        if weights is not None and np.abs(weights).max(initial=0.0) > _LARGEST:
            largest = float(weights[np.argmax(np.abs(weights))])
            raise DataError(
                f"X: expected values of a size up to {_LARGEST:g}, got {largest:g}; change the unit"
            )
        if weights is not None and (weights == 1.0).all():
            weights = None
        return EncodedSequences(numbers, weights, starts, layout, self)

    def _encode_matrices(
        self, matrices: list[Any], layout: Layout, *, learn: bool
    ) -> EncodedSequences:
        if learn:
            self._n_columns = int(matrices[0].shape[1])
        assert self._n_columns is not None
        for s, matrix in enumerate(matrices):
            sparse = scipy.sparse.issparse(matrix)
            if matrix.shape[1] != self._n_columns:
                raise DataError(
                    f"X: expected {counted(self._n_columns, 'column')} in every matrix, got "
                    f"{matrix.shape[1]} in sequence {s}; give all the same columns"
                )
            entries = matrix.data if sparse else matrix
            if entries.dtype.kind not in "biuf" or not np.isfinite(entries).all():
                raise DataError(
                    f"X: expected finite numbers, got dtype {entries.dtype} with NaN, infinity or "
                    f"other objects in sequence {s}; impute or drop them"
                )
        table = scipy.sparse.vstack(
            [scipy.sparse.csr_array(matrix, dtype=np.float64) for matrix in matrices], format="csr"
        )
        table.sum_duplicates()
        return self._pack(
            table.indices.astype(np.int32),
            table.data,
            table.data != 0.0,
            table.indptr.astype(np.int64),
            layout,
        )


def _is_matrix(sequence: Any) -> bool:
    return scipy.sparse.issparse(sequence) or (
        isinstance(sequence, np.ndarray) and sequence.ndim == 2 and sequence.dtype.kind != "O"
    )


def _is_attribute(key: Any) -> bool:
    if isinstance(key, tuple):
        return len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], str)
    return isinstance(key, str) or type(key) is int


def _tokens(sequence: Any, s: int) -> Any:
    if isinstance(sequence, np.ndarray) and sequence.ndim == 1:
        return sequence.tolist()
    if isinstance(sequence, list | tuple) or (
        isinstance(sequence, Sequence) and not isinstance(sequence, str | bytes)
    ):
        return sequence
    if _is_matrix(sequence):
        raise DataError(
            f"X: expected sequences all of one kind, got a matrix as sequence {s} among others; "
            "use matrices throughout or nowhere"
        )
    raise DataError(
        f"X: expected a list of tokens as sequence {s}, got {sequence!r:.80}; give each sequence "
        "as a list"
    )


def _symbol(token: Any, s: int, t: int) -> int:
    if isinstance(token, Integral) and not isinstance(token, bool | np.bool_):
        return int(token)
    raise DataError(
        "X: expected a token that is a dict, a string, a list of strings or an integer symbol, got "
        f"{token!r:.80} in sequence {s}, token {t}; write a number as {{name: number}}"
    )


def _add_mapping(
    token: Mapping[Any, Any], keys: list[Any], values: list[float] | None
) -> list[float] | None:
    """Append a token's attributes; return the values, which start with the first that is not 1."""
    for name, value in token.items():
        if isinstance(value, str):
            keys.append((name, value))
        elif isinstance(value, Real | np.bool_):
            if value != 1 and values is None:
                values = [1.0] * len(keys)
            if values is not None:
                values.extend(repeat(1.0, len(keys) - len(values)))
                values.append(float(value))
            # An integer name would be taken for a symbol; the check of names then says so.
            keys.append(name if isinstance(name, str) else (name, value))
        elif isinstance(value, list | tuple | set | frozenset):
            items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            keys.extend((name, item) for item in items)
        else:
            keys.append((name, value))
    return values


def _place(entry: int, starts: Integers, layout: Layout) -> str:
    token = int(np.searchsorted(starts, entry, side="right")) - 1
    sequence = int(np.searchsorted(layout.offsets, token, side="right")) - 1
    return f"sequence {sequence}, token {token - int(layout.offsets[sequence])}"
