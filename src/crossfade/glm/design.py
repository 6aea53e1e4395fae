"""The design: rows of covariates in standardised coordinates, block by block.

Nothing here copies the covariates. A solver works with θ, in units of each column's standard
deviation and around its mean, so that its tolerances mean the same in any units; the person reads
β = T θ. Columns that other columns determine are found once, by a rank-revealing factorisation,
and left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from crossfade._typing import Floats, Integers
from crossfade.blocks import CHUNKS, block_sum, for_each_block, workspace, workspace_like
from crossfade.errors import DataError
from crossfade.optim.newton import sample_rows
from crossfade.rowwise import scale_rows, squared_images, standardise_rows
from crossfade.rowwise.rows import scale_rows_numpy, squared_images_numpy
from crossfade.table import check_cells

#: Relative residual of a column below which others are said to determine it.
_ALIASED = 1e-10

#: Rows from which centre and scale are taken from some of them.
MANY_ROWS = 40_000

#: How often the mean leverage makes a row one that every sample holds.
_TELLING = 10.0

#: Directions in which leverages are looked at, and the ridge that a sample's blind spots get.
_DIRECTIONS, _BLIND = 2, 1e-6

#: Doubles in a block of covariates: 2 MB. Smaller blocks leave threads waiting for each other
#: between short operations.
_BLOCK_DOUBLES = 262_144

#: Rows that are weighted and multiplied at a time: they stay in a second-level cache.
_TILE_ROWS = 1024

#: Squared relative residual below which a cross-product matrix is not to be trusted alone.
DOUBTFUL = 1e-9


@dataclass(frozen=True)
class Design:
    """Covariates (and a constant) in standardised coordinates: Z = [1, (X - center) / scale].

    `X` (n_rows, n_features).
    `center`, `scale` (n_features,).
    `kept`: Columns that take part; None for all.
    `doubtful`: Whether columns are so nearly collinear that cross-products lose too many digits.
    `telling`: Rows of high leverage, which every sample must hold; None where no sample will do.
    """

    X: NDArray[Any]
    intercept: bool
    center: Floats
    scale: Floats
    kept: Integers | None = None
    doubtful: bool = False
    telling: Integers | None = None

    @property
    def n_parameters(self) -> int:
        """Return the number of θ's entries: the constant and the columns kept."""
        columns = self.X.shape[1] if self.kept is None else len(self.kept)
        return int(self.intercept) + columns

    @property
    def n_names(self) -> int:
        """Return the number of β's entries: the constant and all columns."""
        return int(self.intercept) + int(self.X.shape[1])

    def positions(self) -> Integers:
        """Return where θ's entries stand in β."""
        columns = np.arange(self.X.shape[1]) if self.kept is None else self.kept
        first = [0] if self.intercept else []
        return np.concatenate([first, columns + int(self.intercept)]).astype(np.int64)

    def matrix(self) -> Floats:
        """Return T of shape (n_names, n_parameters) with β = T θ; aliased entries of β are 0."""
        columns = np.arange(self.X.shape[1]) if self.kept is None else self.kept
        matrix = np.zeros((self.n_names, self.n_parameters))
        first = int(self.intercept)
        for index, column in enumerate(columns):
            matrix[first + column, first + index] = 1.0 / self.scale[column]
        if self.intercept:
            matrix[0, 0] = 1.0
            matrix[0, 1:] = -self.center[columns] / self.scale[columns]
        return matrix

    def coordinates(self, beta: Floats) -> Floats:
        """Return the θ of a β whose aliased entries are 0."""
        first = int(self.intercept)
        columns = np.arange(self.X.shape[1]) if self.kept is None else self.kept
        slopes = beta[first + columns]
        theta = slopes * self.scale[columns]
        if not first:
            return theta
        return np.concatenate([[beta[0] + self.center[columns] @ slopes], theta])

    @cached_property
    def _shift(self) -> Floats | None:
        """Return what blocks are shifted by where columns are far from zero, in their own units."""
        center, scale = self._of_kept(self.center), self._of_kept(self.scale)
        far = np.abs(center) > 100.0 * scale
        return np.where(far, center, 0.0) if far.any() else None

    def _of_kept(self, values: Floats) -> Floats:
        return values if self.kept is None else values[self.kept]

    def block(self, rows: slice) -> Floats:
        """Return one block of the columns kept, in their own units and not far from 0, float64."""
        block = self.X[rows]
        if self.kept is not None:
            block = block[:, self.kept]
        block = block.astype(np.float64, copy=False)
        return block if self._shift is None else block - self._shift

    def block_by_rows(self, rows: slice) -> Floats:
        """Return :meth:`block` laid out by rows: a copy, to be overwritten, where it is not."""
        block = self.block(rows)
        if block.flags.c_contiguous:
            return block
        own = workspace("block by rows", *block.shape)
        np.copyto(own, block)
        return own

    @property
    def block_rows(self) -> int:
        """Return how many rows make a block."""
        return int(np.clip(_BLOCK_DOUBLES // max(self.X.shape[1], 1), 256, 8192))

    @property
    def loop_rows(self) -> int:
        """Return how many rows make a block for loops that hold a few at a time themselves."""
        X, size = self.X, self.block_rows
        plain = X.dtype == np.float64 and X.flags.c_contiguous
        if not plain or self.kept is not None or self._shift is not None or self.doubtful:
            return size
        return max(size, -(-X.shape[0] // CHUNKS))

    def units(self) -> tuple[Floats, Floats]:
        """Return centre and scale of the columns kept, as they are in blocks."""
        center, scale = self._of_kept(self.center), self._of_kept(self.scale)
        return center if self._shift is None else center - self._shift, scale

    def predictor(self, rows: slice, theta: Floats) -> Floats:
        """Return Z θ for a block; θ of shape (n_parameters,) or (n_parameters, k)."""
        slopes, constant = self.own_units(theta)
        return self.block(rows) @ slopes + constant

    def own_units(self, theta: Floats) -> tuple[Floats, Any]:
        """Return the slopes of the columns kept, in their own units, and the constant, of θ."""
        center, scale = self.units()
        first = int(self.intercept)
        slopes = theta[first:] / (scale if theta.ndim == 1 else scale[:, None])
        return slopes, (theta[0] if first else 0.0) - center @ slopes

    def transposed(self, rows: slice, values: Floats) -> Floats:
        """Return Zᵀ v for a block; v of shape (n_block,) or (n_block, k)."""
        block = self.block(rows)
        columns = values @ block if values.ndim == 1 else block.T @ values
        return self.standardised_sums(values.sum(axis=0), columns)

    def standardised_sums(self, total: Any, columns: Floats) -> Floats:
        """Return Zᵀ v of Σ v and Xᵀ v."""
        center, scale = self.units()
        total = np.asarray(total)
        if columns.ndim == 1:
            standardised = (columns - center * total) / scale
        else:
            standardised = (columns - center[:, None] * total) / scale[:, None]
        if not self.intercept:
            return standardised
        return np.concatenate([total[None], standardised])

    def standard(self, rows: slice) -> Floats:
        """Return a block of Z, freshly made, shape (n_block, n_parameters)."""
        center, scale = self.units()
        block = self.block(rows)
        if not self.intercept:
            return (block - center) / scale
        Z = np.empty((block.shape[0], self.n_parameters))
        Z[:, 0] = 1.0
        np.subtract(block, center, out=Z[:, 1:])
        Z[:, 1:] /= scale
        return Z

    def cross_products(self, rows: slice, weights: Floats) -> Floats:
        """Return Zᵀ diag(w) Z for a block."""
        return self.standardised_products(self.products(self.block(rows), weights))

    def products(self, block: Floats, weights: Floats) -> Floats:
        """Return [X, 1]ᵀ diag(w) [X, 1] of a block, by one symmetric product of √w X with itself.

        They are centred afterwards, one pass over the block less, unless digits are short. Only
        the upper triangle is filled.
        """
        center, _ = self.units()
        block = block - center if self.doubtful else block
        size, root = len(center) + 1, np.sqrt(weights)
        if not block.flags.c_contiguous:
            half = workspace_like("weighted rows", block, size)
            scale_rows_numpy(block, root, half)
            return half.T @ half
        width = -(-size // 4) * 4  # odd widths take up to half as long again
        gram = np.zeros((width, width), order="F")
        for start in range(0, len(block), _TILE_ROWS):
            rows = slice(start, start + _TILE_ROWS)
            half = workspace("weighted rows", len(block[rows]), width)
            scale_rows(block[rows], root[rows], half)
            half[:, size:] = 0.0
            gram = dsyrk(1.0, half.T, beta=1.0, c=gram, overwrite_c=1)
        return gram[:size, :size]

    def rough_products(self, block: Floats, weights: Floats) -> Floats:
        """Return [Z, 1]ᵀ diag(w) [Z, 1] of a block, in single precision: twice as fast.

        Weights are taken relative to the largest, so that none is out of range.
        """
        center, scale = self.units()
        size = len(center)
        root = np.sqrt(weights)
        largest = float(root.max(initial=0.0)) or 1.0
        width = -(-(size + 1) // 4) * 4  # odd widths take up to half as long again
        half = workspace("weighted rows, in short", len(block), width, dtype=np.float32)
        standardise_rows(block, center, 1.0 / scale, root / largest, half)
        half[:, size + 1 :] = 0.0
        found = (half.T @ half)[: size + 1, : size + 1].astype(np.float64)
        return found * largest**2

    def standardised_products(self, gram: Floats, rough: bool = False) -> Floats:
        """Return Zᵀ diag(w) Z of what :meth:`products`, or the rough ones, add up to."""
        gram = np.triu(gram) + np.triu(gram, 1).T
        center, scale = self.units()
        size = len(scale)
        products, sums, total = gram[:size, :size], gram[size, :size], gram[size, size]
        if not rough:
            if not self.doubtful:
                shift = np.outer(center, sums)
                products = products - (shift + shift.T - total * np.outer(center, center))
                sums = sums - total * center
            products, sums = products / np.outer(scale, scale), sums / scale
        if not self.intercept:
            return np.array(products)
        # The constant comes first.
        bordered = np.empty_like(gram)
        bordered[0, 0] = total
        bordered[0, 1:] = bordered[1:, 0] = sums
        bordered[1:, 1:] = products
        return bordered

    def with_all_columns(self) -> Design:
        """Return the design with those left out: under a penalty each has a coefficient."""
        if self.kept is None:
            return self
        return replace(self, kept=None, doubtful=True, telling=None)

    def with_rows(self, X: NDArray[Any]) -> Design:
        """Return the same coordinates for other rows."""
        return Design(X, self.intercept, self.center, self.scale, self.kept, self.doubtful)


def measure(
    X: NDArray[Any], intercept: bool, names: list[str], weights: Floats | None = None
) -> Design:
    """Return the design of these rows: centre, scale, and which columns others determine."""
    n_rows, n_features = X.shape
    some, often = X, weights
    if n_rows >= MANY_ROWS:
        # Any centre and scale will do: those of some rows are as good as those of all.
        drawn = sample_rows(n_rows, max(0.02, 20.0 * n_features / n_rows))
        some, often = X[drawn], None if weights is None else weights[drawn]
    mean, scale = _moments(some, intercept, often)
    if not np.isfinite(scale).all():
        refuse_missing(X, names)
    constant = is_constant(mean, scale)
    if constant.any() and some is not X:
        mean[constant], scale[constant] = _moments(X[:, constant], intercept, weights)
        constant[constant] = is_constant(mean[constant], scale[constant])
    odd = np.flatnonzero(constant | ~((scale > 1e-150) & (scale + np.abs(mean) < 1e140)))
    check_cells(X[:, odd], [names[i] for i in odd])
    scale = np.where(constant, 1.0, scale)
    kept = np.flatnonzero(~constant)
    design = Design(X, intercept, mean, scale, None if not constant.any() else kept)
    return _without_aliased(design, names, weights)


def _moments(X: NDArray[Any], intercept: bool, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return centre and scale of the columns: mean and deviation, or 0 and root mean square."""
    head = X[0].astype(np.float64) if intercept else np.zeros(X.shape[1])
    head = np.where(np.isfinite(head), head, 0.0)

    def sums(rows: slice) -> tuple[Floats, Floats]:
        with np.errstate(invalid="ignore", over="ignore"):
            shifted = X[rows] - head
            if weights is None:
                return shifted.sum(axis=0), np.square(shifted).sum(axis=0)
            return weights[rows] @ shifted, weights[rows] @ np.square(shifted)

    total = X.shape[0] if weights is None else weights.sum()
    with np.errstate(invalid="ignore", over="ignore"):
        first, second = block_sum(sums, X.shape[0])
        mean = first / total if intercept else np.zeros(X.shape[1])
        variance = second / total - mean * mean
    return head + mean, np.sqrt(np.where(variance < 0.0, 0.0, variance))


def is_constant(center: Floats, scale: Floats) -> NDArray[np.bool_]:
    # What remains of a constant column after centring is rounding.
    return scale <= 1e-14 * np.abs(center)


def refuse_missing(X: NDArray[Any], names: list[str], first: int = 0) -> None:
    """Raise for the first column with a NaN or an infinite cell; `first` rows come before these."""
    for column, name in enumerate(names):
        bad = ~np.isfinite(X[:, column])
        if bad.any():
            row = first + int(np.flatnonzero(bad)[0])
            raise DataError(
                f"X: expected finite numbers, got {int(bad.sum())} NaN or inf in column {name!r} "
                f"(first in row {row}); drop those rows or fill them in"
            )


def independent(design: Design, triangle: Floats) -> Design:
    """Leave out columns that those before them determine, as the triangle of Z tells."""
    at = slice(None) if design.kept is None else design.kept
    noise = 1e-15 * np.abs(design.center[at]) / design.scale[at]
    floor = np.concatenate([[0.0], noise]) if design.intercept else noise
    found = _independent_columns(triangle, _ALIASED + 10.0 * floor)
    columns = found[int(design.intercept) :] - int(design.intercept)
    if design.intercept and (not len(found) or found[0] != 0):
        columns = found - 1
    kept = columns if design.kept is None else design.kept[columns]
    pivots = np.abs(np.diagonal(np.linalg.qr(triangle[:, found], mode="r")))
    lengths = np.linalg.norm(triangle[:, found], axis=0)
    return replace(
        design,
        kept=None if len(kept) == design.X.shape[1] else kept,
        doubtful=bool((pivots**2 <= DOUBTFUL * lengths**2).any()),
    )


def _without_aliased(design: Design, names: list[str], weights: Floats | None) -> Design:
    """Leave out columns that those before them determine; find the rows no sample may miss."""
    if design.n_parameters == 0:
        return design
    n_rows = design.X.shape[0]
    telling: Integers | None = None
    if n_rows > design.n_parameters:
        share = max(0.02, min(1.0, 50.0 * design.n_parameters / n_rows))
        drawn = sample_rows(n_rows, share)
        gram = gram_of(design, drawn)
        if n_rows >= MANY_ROWS:
            telling = _telling_rows(design, gram * (n_rows / len(drawn)), names, weights)
            if telling is not None and len(telling):
                design = _rescaled(design, drawn, telling, weights)
                gram = gram_of(design, np.union1d(drawn, telling))
        if smallest_pivot(gram) > DOUBTFUL:
            # The cross-products of all rows can only be larger than those of some.
            return replace(design, telling=telling)
    found = independent(design, stacked_triangle(design))
    if telling is not None:
        left = np.flatnonzero(np.isin(design.positions(), found.positions()))
        if smallest_pivot(gram[np.ix_(left, left)]) <= DOUBTFUL:
            telling = None
    return replace(found, telling=telling)


def _rescaled(design: Design, drawn: Integers, telling: Integers, weights: Floats | None) -> Design:
    """Return the design in units to which the telling rows have contributed."""
    rest = np.setdiff1d(drawn, telling)
    rows = np.concatenate([telling, rest])
    often = np.ones(len(rows))
    often[len(telling) :] = (design.X.shape[0] - len(telling)) / max(len(rest), 1)
    often *= 1.0 if weights is None else weights[rows]
    center, scale = _moments(design.X[rows], design.intercept, often)
    if design.kept is not None:
        constant = np.setdiff1d(np.arange(len(center)), design.kept)
        center[constant], scale[constant] = design.center[constant], 1.0
    # A column may be constant in these rows, though not in all.
    return replace(design, center=center, scale=np.where(scale > 0.0, scale, design.scale))


def gram_of(design: Design, rows: Integers | None = None) -> Floats:
    """Return ZᵀZ of some rows, or of all."""
    n_rows = design.X.shape[0] if rows is None else len(rows)
    if not n_rows:
        return np.zeros((design.n_parameters, design.n_parameters))
    whole = rows is None or n_rows == design.X.shape[0]
    some = design if whole else design.with_rows(design.X[rows])
    gram = block_sum(
        lambda part: some.products(some.block(part), np.ones(some.X[part].shape[0])),
        some.X.shape[0],
        block_rows=some.block_rows,
    )
    return design.standardised_products(gram)


def _telling_rows(
    design: Design, gram: Floats, names: list[str], weights: Floats | None
) -> Integers | None:
    """Return the rows of high leverage in cross-products taken from a sample, None if too many.

    A sample that shows none of a rare column's, level's or combination's rows has next to no
    information on it, so that these rows have huge leverages. zᵀG⁻¹z is estimated by its
    projections on a few random directions (Drineas et al. 2012, Fast approximation of matrix
    coherence and statistical leverage, J. Machine Learning Research 13:3475): one pass.
    """
    n_rows, size = design.X.shape[0], design.n_parameters
    lengths = np.sqrt(np.maximum(np.diagonal(gram), np.finfo(float).tiny))
    scaled = gram / np.outer(lengths, lengths)
    scaled[np.diag_indices_from(scaled)] += _BLIND
    factor = scipy.linalg.cholesky(scaled, lower=True)
    directions = np.random.default_rng(0).standard_normal((size, _DIRECTIONS))
    probe = scipy.linalg.solve_triangular(factor, directions, lower=True, trans="T")
    probe /= lengths[:, None]
    leverages = np.empty(n_rows)
    slopes, constants = design.own_units(probe)
    directions = np.ascontiguousarray(slopes.T)

    def work(rows: slice) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            block = design.block(rows)
            square = squared_images if block.flags.c_contiguous else squared_images_numpy
            square(block, directions, constants, leverages[rows])

    for_each_block(work, n_rows, block_rows=design.loop_rows)
    if weights is not None:
        leverages *= weights * (n_rows / weights.sum())
    if not leverages.max(initial=0.0) < 1e6:  # one far beyond all that the scales are from
        refuse_missing(design.X, names)
        check_cells(design.X, names)
    telling = np.flatnonzero(~(leverages <= _TELLING * _DIRECTIONS * size / n_rows))
    return telling if len(telling) <= 0.25 * n_rows else None


def smallest_pivot(gram: Floats, of: float | None = None) -> float:
    """Return the smallest share of a column that the columns before it do not determine.

    `of`: What each column's sum of squares is, in place of the matrix' own diagonal.
    """
    diagonal = np.diagonal(gram) if of is None else np.full(len(gram), of)
    if not (diagonal > 0.0).all():
        return 0.0
    lengths = np.sqrt(diagonal)
    try:
        factor = scipy.linalg.cholesky(gram / np.outer(lengths, lengths), lower=True)
    except scipy.linalg.LinAlgError:
        return 0.0
    return float(np.diagonal(factor).min() ** 2)


def stacked_triangle(design: Design, root_weights: Floats | None = None) -> Floats:
    """Return R of √w Z = Q R, folding one block after another into the triangle.

    It costs ten times the cross-products and keeps twice their digits.
    """
    triangle = np.zeros((0, design.n_parameters))
    for start in range(0, design.X.shape[0], 2048):
        rows = slice(start, min(start + 2048, design.X.shape[0]))
        block = design.standard(rows)
        if root_weights is not None:
            block *= root_weights[rows][:, None]
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, block]), mode="r"))
    return triangle


def _independent_columns(triangle: Floats, tolerances: Floats) -> Integers:
    """Return the columns that those before them do not determine (Gram-Schmidt, twice)."""
    basis = np.zeros((triangle.shape[0], 0))
    independent = []
    for column in range(triangle.shape[1]):
        vector = triangle[:, column]
        length = float(np.linalg.norm(vector))
        rest = vector - basis @ (basis.T @ vector)
        rest = rest - basis @ (basis.T @ rest)
        remaining = float(np.linalg.norm(rest))
        if length > 0.0 and remaining > tolerances[column] * length:
            independent.append(column)
            basis = np.column_stack([basis, rest / remaining])
    return np.array(independent, dtype=np.int64)
