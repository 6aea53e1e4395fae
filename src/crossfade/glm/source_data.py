"""Rows of a regression that are not at hand: sums over the parts of a source, and a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import Together, add_sums, block_sum, workspace_like
from crossfade.errors import DataError
from crossfade.glm.checks import (
    Successes,
    check_counts,
    check_exposure,
    check_offset,
    check_successes,
    check_two,
    successes_meant,
    whole_trials,
)
from crossfade.glm.data import Data, no_rows_at_hand
from crossfade.glm.design import (
    DOUBTFUL,
    Design,
    gram_of,
    independent,
    is_constant,
    refuse_missing,
    smallest_pivot,
    stacked_triangle,
)
from crossfade.glm.families import Family
from crossfade.table import check_cells, encode_labels
from crossfade.table.schema import Schema
from crossfade.table.source import Part, RowSource, no_rows, rows_of
from crossfade.table.survey import SAMPLE_ROWS, row_keys, share_of, survey

#: Rows of each kind of response that the sample holds where the kind is rare, if there are as many.
_OF_A_KIND = 1000

#: Standard deviations from 0 up to which a column's products are summed as they are.
_NEAR_ZERO = 10.0

#: The largest key of a row, and the last double below 1 that keeps a product with it in range.
_LAST_KEY, _BELOW_ONE = np.uint64(np.iinfo(np.uint64).max), 1.0 - 2.0**-52

Sums = TypeVar("Sums")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Elsewhere:
    """Stands for an array that is not at hand: whoever asks for its entries is refused."""

    shape: tuple[int, ...]

    def __getitem__(self, rows: Any) -> NoReturn:
        raise no_rows_at_hand("this step")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise no_rows_at_hand("this step")


def successes_of(
    source: RowSource, *, grouped: bool
) -> tuple[NDArray[Any], Callable[[Any, Floats], Floats]]:
    """Return the labels of a source, and what makes successes of them: one pass over these."""
    if grouped:
        meant = source.reduce_parts(_meant, Successes.joined, ())
        if meant is None:
            raise no_rows()
        return np.array([0, 1]), partial(check_successes, meant=meant)
    classes = survey(source, columns=()).classes()
    check_two(classes)
    return classes, partial(_second, classes)


def _meant(part: Part) -> Successes:
    return successes_meant(part.labels, whole_trials(part.beside["size"], len(part.labels)))


def _second(classes: NDArray[Any], labels: Any, size: Floats) -> Floats:
    """Return for each row whether it has the second label."""
    return encode_labels(labels, classes, minimum=1, n_samples=len(size))[1].astype(np.float64)


def counts_of(labels: Any, size: Floats) -> Floats:
    """Return a part's counts."""
    return check_counts(labels, len(size))


@dataclass(frozen=True)
class Reading:
    """Makes numbers of a part: covariates, responses, and sizes, weights and offsets beside them.

    `responses`: Makes numbers of labels, given their sizes.
    `grouped`: Whether the sizes are trials; else they are exposures.
    """

    schema: Schema
    responses: Callable[[Any, Floats], Floats]
    grouped: bool

    def __call__(self, part: Part) -> Part:
        n, given = rows_of(part.table), part.beside
        try:
            beside: dict[str, Any] = {}
            if "size" in given:
                check = whole_trials if self.grouped else check_exposure
                beside["size"] = check(given["size"], n)
            if "sample_weight" in given:
                beside["weights"] = given["sample_weight"]
            if "offset" in given:
                beside["offset"] = check_offset(given["offset"], n)
            matrix = self.schema.encode(part.table, in_place=True)
            y = self.responses(part.labels, beside.get("size", np.ones(n)))
        except DataError as error:
            if not part.first:
                raise
            raise DataError(f"{error} (rows counted from row {part.first} of all)") from None
        return Part(matrix, y, part.first, beside)


def _as_data(part: Part) -> tuple[Data, int]:
    """Return the rows of a part that count, and how many had no trials."""
    n, beside = rows_of(part.table), part.beside
    size = beside.get("size")
    known = np.broadcast_to(np.float64(1.0), n) if size is None else size
    data = Data(part.table, part.labels, known, beside.get("weights"), beside.get("offset"))
    if size is None or size.all():
        return data, 0
    return data.take(np.flatnonzero(size)), int(n - np.count_nonzero(size))


class _FewRows(NamedTuple):
    """Some rows with the smallest keys, of all and of each kind of response; arrays by row.

    `bounds` (3,): Rows of a kind whose key is at most this are all there.
    """

    keys: NDArray[np.uint64]
    kinds: NDArray[np.int64]
    X: Floats
    columns: dict[str, Floats | None]
    bounds: NDArray[np.uint64] = np.full(3, _LAST_KEY)

    def joined(self, other: _FewRows) -> _FewRows:
        def both(one: Any, two: Any) -> Any:
            return None if one is None else np.concatenate([one, two])

        columns = {name: both(own, other.columns[name]) for name, own in self.columns.items()}
        keys, kinds = both(self.keys, other.keys), both(self.kinds, other.kinds)
        bounds = np.minimum(self.bounds, other.bounds)
        whole = _FewRows(keys, kinds, both(self.X, other.X), columns, bounds)
        if len(keys) <= 2 * SAMPLE_ROWS:
            return whole
        return whole.below(np.partition(keys, SAMPLE_ROWS - 1)[SAMPLE_ROWS - 1], every=True)

    def below(self, limit: Any, *, every: bool = False) -> _FewRows:
        """Return the rows with keys up to a limit, and the first of rare kinds, or of every kind.

        Which kind is rare among all rows no part knows: one that is rare in the part may be.
        """
        bounds, chosen = self.bounds.copy(), np.zeros(len(self.keys), dtype=bool)
        for kind in range(3):
            own = np.flatnonzero(self.kinds == kind)
            keys, most = self.keys[own], limit
            if own.size <= _OF_A_KIND:
                most = _LAST_KEY if every or 20 * own.size <= len(self.keys) else limit
            elif every or 20 * own.size <= len(self.keys):
                most = max(limit, np.partition(keys, _OF_A_KIND - 1)[_OF_A_KIND - 1])
            bounds[kind] = min(bounds[kind], most)
            chosen[own] = keys <= bounds[kind]
        rows = np.flatnonzero(chosen)
        columns = {
            name: None if values is None else values[rows] for name, values in self.columns.items()
        }
        return _FewRows(self.keys[rows], self.kinds[rows], self.X[rows], columns, bounds)


class _Census(NamedTuple):
    """What one pass finds out about all rows; `moments` are of the columns minus their head."""

    counts: tuple[int, int, int]  # rows given, rows that count, rows without trials
    sums: tuple[float, float, float, float]  # weight, sizes and responses by weight, offsets
    largest: NDArray[np.float64]  # size, -offset, sign, -sign
    moments: tuple[Floats, Floats]  # sums and sums of squares, each (n_features,)
    kinds: NDArray[np.int64]  # rows of each kind of response
    sample: _FewRows

    def joined(self, other: _Census) -> _Census:
        return _Census(
            add_sums(self.counts, other.counts),
            add_sums(self.sums, other.sums),
            np.maximum(self.largest, other.largest),
            add_sums(self.moments, other.moments),
            self.kinds + other.kinds,
            self.sample.joined(other.sample),
        )


@dataclass(frozen=True)
class _Taker:
    """Takes the census of a part."""

    family: Family
    names: list[str]
    shift: Floats
    limit: Any

    def __call__(self, part: Part) -> _Census:
        data, empty = _as_data(part)
        X, n = data.X, data.n_rows

        moved = bool(self.shift.any())

        def moments(rows: slice) -> tuple[Floats, Floats]:
            block = X[rows]
            if moved or block.dtype != np.float64:
                own = workspace_like("rows about their head", block, X.shape[1])
                block = np.subtract(block, self.shift, out=own)
            return np.ones(len(block)) @ block, np.einsum("ij,ij->j", block, block)

        with np.errstate(invalid="ignore", over="ignore"):
            found = block_sum(moments, n)
        if not np.isfinite(found[1]).all():
            refuse_missing(X, self.names, part.first)
            check_cells(X, self.names)
        signs = self.family.recession_signs(data.y, data.size)
        kinds = (data.y > 0.0).astype(np.int64) + (signs > 0.0)
        largest = np.full(4, -np.inf)
        if n:
            low = 0.0 if data.offset is None else float(data.offset.min())
            largest[:] = data.largest_size, -low, signs.max(), -signs.min()
        offsets = 0.0 if data.offset is None else float(data.offset.sum())
        columns = {"y": data.y, "size": data.size, "weights": data.weights, "offset": data.offset}
        sample = _FewRows(row_keys(part.first, n), kinds, X, columns).below(self.limit)
        return _Census(
            (rows_of(part.table), n, empty),
            (data.total_weight, data.occasions, data.responses, offsets),
            largest,
            found,
            np.bincount(kinds, minlength=3),
            sample,
        )


class _CommonPasses:
    """Passes over the parts of a source."""

    def __init__(self, parts: RowSource) -> None:
        self.parts = parts
        self.together = Together(self._take)

    def _take(self, functions: list[Callable[[Data], Any]]) -> tuple[Any, ...]:
        def of_part(part: Part) -> tuple[Any, ...]:
            data = _as_data(part)[0]
            return tuple(function(data) for function in functions)

        found = self.parts.reduce_parts(of_part, add_sums)
        assert found is not None
        return found


@dataclass(frozen=True)
class SourceData(Data):
    """The rows of a source. Arrays by row are not at hand; sums over them are."""

    at_hand: ClassVar[bool] = False

    census: _Census | None = None
    shift: Floats | None = None
    passes: _CommonPasses | None = None
    lens: Callable[[Data], Data] | None = None

    @classmethod
    def of(cls, parts: RowSource, family: Family, names: list[str]) -> SourceData:
        """Take one pass over a source of read parts; see :class:`Reading`."""
        head = parts.head()
        with np.errstate(invalid="ignore", over="ignore"):
            first = np.asarray(head.table, dtype=np.float64)
            shift, spread = first.mean(axis=0), first.std(axis=0)
            # Nearer to 0 no digits are lost, and blocks need not be copied.
            far = (np.abs(shift) < 1e150) & (np.abs(shift) > _NEAR_ZERO * spread)
        shift = np.where(far, shift, 0.0)
        # Rows that cannot be in the sample stay where they are.
        limit = np.uint64(share_of(SAMPLE_ROWS, parts.n_rows or 0) * float(_LAST_KEY) * _BELOW_ONE)
        census = parts.reduce_parts(_Taker(family, names, shift, limit), _Census.joined)
        if census is None:
            raise no_rows()
        n_rows = census.counts[1]
        column: Any = _Elsewhere((n_rows,))
        weights = column if "weights" in head.beside else None
        offset = column if "offset" in head.beside else None
        X: Any = _Elsewhere((n_rows, len(names)))
        return cls(X, column, column, weights, offset, census, shift, _CommonPasses(parts))

    def __getstate__(self) -> dict[str, Any]:
        # What goes to other machines says how to sum over parts, not where they are.
        return self.__dict__ | {"passes": None, "census": None}

    @property
    def facts(self) -> _Census:
        """What the first pass found out."""
        assert self.census is not None
        return self.census

    @property
    def total_weight(self) -> float:
        return self.facts.sums[0]

    @property
    def occasions(self) -> float:
        return self.facts.sums[1]

    @property
    def responses(self) -> float:
        return self.facts.sums[2]

    @property
    def largest_size(self) -> float:
        return float(self.facts.largest[0])

    @property
    def offsets(self) -> tuple[float, float]:
        return self.facts.sums[3] / self.n_rows, -float(self.facts.largest[1])

    def sign_range(self, family: Family) -> tuple[float, float]:
        return -float(self.facts.largest[3]), float(self.facts.largest[2])

    @property
    def sample(self) -> Data:
        """An even sample of the rows, each counting for as many as it stands for."""
        some = self.facts.sample.below(_LAST_KEY, every=True)
        held = np.bincount(some.kinds, minlength=3)
        factors = (self.facts.kinds / np.maximum(held, 1))[some.kinds]
        columns = dict(some.columns)
        weights = columns.pop("weights")
        data = Data(some.X, weights=factors if weights is None else factors * weights, **columns)  # type: ignore[arg-type]
        return data if self.lens is None else self.lens(data)

    @property
    def n_passes(self) -> int:
        """How often the rows have been read."""
        return 0 if self.passes is None else self.passes.parts.n_passes

    def close(self) -> None:
        """Let go of what was kept for further passes; there can be more all the same."""
        assert self.passes is not None
        self.passes.parts.close()

    def total(self, function: Callable[[Data], Sums]) -> Sums:
        assert self.passes is not None
        if self.lens is not None:
            function = _seen_through(self.lens, function)
        return self.passes.together.total(function)

    def at_once(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        assert self.passes is not None
        return self.passes.together.map(lambda work: work(), works)

    def collected(self, function: Callable[[Data], Result], join: Callable[..., Result]) -> Result:
        assert self.passes is not None
        lens = self.lens

        def of_part(part: Part) -> Result:
            data = _as_data(part)[0]
            data = replace(data, X=np.ascontiguousarray(data.X))
            return function(data if lens is None else lens(data))

        found = self.passes.parts.reduce_parts(of_part, join)
        assert found is not None
        return found

    def measured(self, intercept: bool, names: list[str]) -> Design:
        n, (sums, squares), shift = self.n_rows, self.facts.moments, self.shift
        assert shift is not None
        mean, squares = sums / n, squares / n
        if intercept:
            center, squares = shift + mean, squares - mean * mean
        else:
            center, squares = np.zeros(len(names)), squares + 2.0 * shift * mean + shift * shift
        scale = np.sqrt(np.maximum(squares, 0.0))
        constant = is_constant(center, scale)
        scale = np.where(constant, 1.0, scale)
        kept = np.flatnonzero(~constant)
        design = Design(self.X, intercept, center, scale, kept if constant.any() else None)
        # The cross-products of all rows can only be larger than those of some.
        some = gram_of(design.with_rows(self.facts.sample.X))
        if not len(kept) or smallest_pivot(some, n) > DOUBTFUL:
            return design
        if smallest_pivot(self.total(lambda data: gram_of(design.with_rows(data.X)))) > DOUBTFUL:
            return design
        return independent(design, self.triangle(design, lambda data: None))

    def triangle(self, design: Design, root: Callable[[Data], Floats | None]) -> Floats:
        def of_part(data: Data) -> Floats:
            return stacked_triangle(design.with_rows(data.X), root(data))

        return self.collected(of_part, _stacked)

    def bare(self) -> SourceData:
        X: Any = _Elsewhere((self.n_rows, 0))
        return replace(self, X=X, lens=Data.bare)

    def filtered(self, keep: Callable[[Data], NDArray[np.bool_]]) -> SourceData:
        return replace(self, lens=lambda data: data.filtered(keep))

    def take(self, rows: NDArray[Any], factors: Floats | None = None) -> Data:
        if len(rows):
            raise no_rows_at_hand("this step")
        none = np.zeros(0)
        return Data(np.zeros((0, self.X.shape[1])), none, none)


def _seen_through(
    lens: Callable[[Data], Data], function: Callable[[Data], Result]
) -> Callable[[Data], Result]:
    return lambda data: function(lens(data))


def _stacked(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.linalg.qr(np.vstack([one, other]), mode="r"))
